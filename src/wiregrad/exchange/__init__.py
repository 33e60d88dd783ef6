"""Exchange with other frameworks: watch a PyTorch run, take circuits in from frameworks, and give them out.

Start with `observed_run`: the ops of a framework's run with the framework's own values and gradients, and what can be
asked of them. `torch_watch` records one from PyTorch. A framework is imported when it is first needed; without it,
the error says how to install it.
"""

from typing import TYPE_CHECKING, Any

from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.exchange import torch_watch
else:
    torch_watch = load_module_lazily("wiregrad.exchange.torch_watch")

__all__ = ["watch"]

DEFAULT_HELD_BYTES = 1 << 30
"""How many bytes of values a watch holds if the user does not say."""


def watch(model: Any = None, *, keep: int | str = DEFAULT_HELD_BYTES) -> "torch_watch.TorchWatch":
    """Record what PyTorch does inside a `with` block, so that it can be asked why.

    `model` gives modules and parameters their names; other modules are named after their class. `keep` says how many
    bytes of values to hold, or `"all"`; larger runs, and `"summaries"`, hold sizes and counts instead.
    """
    return torch_watch.TorchWatch(model, keep=keep)
