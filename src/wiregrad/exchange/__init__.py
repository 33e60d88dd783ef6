"""Exchange with other frameworks: watch a PyTorch run, take circuits in from frameworks, and give them out.

Start with `observed_run`: the ops of a framework's run with the framework's own values and gradients, and what can be
asked of them. `torch_watch` records one from PyTorch, and `torch_import` makes a circuit of it, by the map of ops in
`torch_ops`. `jax_import` makes circuits of JAX functions. `framework_export` gives circuits to JAX and PyTorch, and
`onnx_files` writes and reads ONNX. A framework is imported when it is first needed; without it, the error says how to
install it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wiregrad.ir.columns import CircuitColumns
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.exchange import torch_import
else:
    torch_import = load_module_lazily("wiregrad.exchange.torch_import")

__all__ = ["CIRCUIT_MAKERS", "torch_import", "watch"]

CIRCUIT_MAKERS: list[Callable[[CircuitColumns, dict[str, Any]], Any]] = []
"""Makes the circuit that users get of columns and the values of its inputs; added by the layer above."""

DEFAULT_HELD_BYTES = 1 << 30
"""How many bytes of values a watch holds if the user does not say."""


def watch(
    model: Any = None, *, keep: int | str = DEFAULT_HELD_BYTES, stop: bool = False
) -> "torch_import.WatchedProgram":
    """Record what PyTorch does inside a `with` block, so that it can be asked why.

    `model` gives modules and parameters their names; other modules are named after their class. `keep` says how many
    bytes of values to hold, or `"all"`; larger runs, and `"summaries"`, hold sizes and counts instead. With `stop` the
    block ends with a `NonFiniteError` after the first step whose loss or gradients are not finite.

    >>> import torch
    >>> x = torch.zeros(2, requires_grad=True)
    >>> with watch() as seen:
    ...     x.sqrt().sum().backward()
    >>> seen.blame().origins[0].op
    'sqrt'
    """
    return torch_import.WatchedProgram(model, keep=keep, stop=stop)
