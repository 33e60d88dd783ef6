"""Exchange with other frameworks: watch a PyTorch run, take circuits in from frameworks, and give them out.

Start with `observed_run`: the ops of a framework's run with the framework's own values and gradients, and what can be
asked of them. `torch_watch` records one from PyTorch, and `torch_import` makes a circuit of it, by the map of ops in
`torch_ops`. A framework is imported when it is first needed; without it,
the error says how to install it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.exchange import torch_import
else:
    torch_import = load_module_lazily("wiregrad.exchange.torch_import")

__all__ = ["from_torch", "watch"]

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


def from_torch(function: Callable[..., Any], /, *args: object, opaque: bool = False, **kwargs: object) -> Any:
    """Run a PyTorch function or module once and return its circuit, an `ImportedCircuit`.

    Floating tensors among the arguments, and parameters, are inputs under their names; modules are groups, and nodes
    have the lines of your files. Gradients follow wiregrad's rules. Ops that wiregrad does not know raise
    `UnknownOpsError`, which lists them all; with `opaque=True` they become nodes that call PyTorch.

    >>> import torch
    >>> circuit = from_torch(lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum(), torch.tensor([0.0, 4.0]))
    >>> circuit.run().grads["x"].tolist()
    [0.0, 0.25]
    """
    return torch_import.make_circuit(*torch_import.import_function(function, args, kwargs, opaque=opaque))
