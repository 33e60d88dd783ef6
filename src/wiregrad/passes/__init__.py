"""Passes: a circuit in, a circuit out. And the two sweeps that all derivatives come from."""

from wiregrad.passes.backward import backward_circuit
from wiregrad.passes.expand import expand
from wiregrad.passes.simplify import fold, merge, prune, reduce, simplify
from wiregrad.passes.split import split
from wiregrad.passes.sweep import Watcher, forward, reverse

__all__ = [
    "Watcher",
    "backward_circuit",
    "expand",
    "fold",
    "forward",
    "merge",
    "prune",
    "reduce",
    "reverse",
    "simplify",
    "split",
]
