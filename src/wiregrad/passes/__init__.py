"""Passes: functions that take a circuit and return a new one. Also the two sweeps that all derivatives come from."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wiregrad.passes.backward import backward_circuit, gradient_circuit
from wiregrad.passes.convention import with_convention
from wiregrad.passes.simplify import fold_constants, merge_duplicates, prune, apply_identities, simplify, drop_gradient_stops
from wiregrad.passes.split import insert_splitters
from wiregrad.passes.sweep import SweepWatcher, sweep_forward, sweep_backward

if TYPE_CHECKING:
    from wiregrad.passes.expansion import expand

__all__ = [
    "SweepWatcher",
    "backward_circuit",
    "expand",
    "fold_constants",
    "sweep_forward",
    "gradient_circuit",
    "merge_duplicates",
    "prune",
    "apply_identities",
    "sweep_backward",
    "simplify",
    "insert_splitters",
    "drop_gradient_stops",
    "with_convention",
]


def __getattr__(name: str) -> Any:
    # Only array circuits are expanded, and array ops are loaded when they are first needed.
    if name != "expand":
        raise AttributeError(name)
    return import_module("wiregrad.passes.expansion").expand
