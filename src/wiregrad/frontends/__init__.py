"""Front ends: they build circuits and recordings; they never run one.

Four rooms, each readable by itself:

- `formula`: a formula as text (`e = a + b; f = e * c`) becomes a circuit at once.
- `recording`: values. Ordinary Python and NumPy code records itself as it runs. Start with `recording.value`, then
  `recording.record` and `recording.tape`.
- `transforms`: `grad`, `vjp`, `jvp`, `jacobian`, `vmap`, `checkpoint`. Start with `transforms.derivatives`.
- `replay`: what `wg.compile` has to know before it may replay a recording instead of running the function. Start with
  `replay.recorded_calls`.

Only the formula parser is imported here: the rest is loaded when the first value is made, and loops also when a text or
a file names one.
"""

from wiregrad.frontends.formula import parse_formula
from wiregrad.ir import TABLE
from wiregrad.lazy import import_later

TABLE.defer_loading(import_later("wiregrad.frontends.transforms.loop_ops"))

__all__ = ["parse_formula"]
