"""Passes: functions that take a circuit and return a new one. Also the two sweeps that all derivatives come from."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiregrad.passes.backward import backward_circuit, gradient_circuit
from wiregrad.passes.convention import with_convention
from wiregrad.passes.simplify import fold, merge, prune, reduce, simplify, unblock
from wiregrad.passes.split import split
from wiregrad.passes.sweep import Watcher, forward, reverse

if TYPE_CHECKING:
    from wiregrad.passes.expansion import expand

__all__ = [
    "Watcher",
    "backward_circuit",
    "expand",
    "fold",
    "forward",
    "gradient_circuit",
    "merge",
    "prune",
    "reduce",
    "reverse",
    "simplify",
    "split",
    "unblock",
    "with_convention",
]


def __getattr__(name: str) -> Any:
    # Only array circuits are expanded, and array ops are loaded when they are first needed.
    if name != "expand":
        raise AttributeError(name)
    return import_module("wiregrad.passes.expansion").expand
