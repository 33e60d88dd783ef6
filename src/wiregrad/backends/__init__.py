"""Backends run circuits. The NumPy interpreter defines the right answer; every other backend is compared with it.

Start with `interpreter`: it binds the inputs, runs a circuit forward and backward, and returns a `RunRecord`, which
holds every value and gradient.

- `compiled`: the object that `circuit.compile()` returns; native code where there is some, else the interpreter.
- `replay_engines`: runs the recordings of `wg.compile` again at other inputs.
- `run_listings`: runs the text that `codegen` writes, in Python, NumPy, C and JavaScript.
- `native`: machine code for circuits of scalars.

Other rooms may call `interpreter`, `run_listings`, `replay_engines` and `compiled.Compiled`. Only `wiregrad doctor`,
the tests and the benchmarks use parts of `native` directly. `compiled` and `native` are loaded on first use.
"""

from wiregrad.backends import interpreter
from wiregrad.backends.interpreter import RunNode, RunRecord, RunWire

__all__ = ["RunNode", "RunRecord", "RunWire", "interpreter"]
