"""Passes: functions that take a circuit and return a new one. Also the two sweeps that all derivatives come from.

Read `differentiation` first: the reverse and the forward sweep, and the circuits that compute gradients. `rewriting` is
the walk that most passes share, with `insert_splitters` and with `with_convention`, which changes the slopes that nodes
take on their kinks; `simplify` makes circuits smaller without changing a value; `expansion` replaces arrays by their
elements.

Other rooms may call everything in `__all__`, and `Rewriter` to write a pass of their own. The input of a pass is not
changed.
"""

from typing import TYPE_CHECKING

from wiregrad.lazy import load_names_lazily
from wiregrad.passes.differentiation import (
    SweepWatcher,
    backward_circuit,
    gradient_circuit,
    sweep_backward,
    sweep_forward,
)
from wiregrad.passes.rewriting import insert_splitters, with_convention
from wiregrad.passes.simplify import (
    apply_identities,
    drop_gradient_stops,
    fold_constants,
    merge_duplicates,
    prune,
    simplify,
)

if TYPE_CHECKING:
    from wiregrad.passes.expansion import expand


__all__ = [
    "SweepWatcher",
    "apply_identities",
    "backward_circuit",
    "drop_gradient_stops",
    "expand",
    "fold_constants",
    "gradient_circuit",
    "insert_splitters",
    "merge_duplicates",
    "prune",
    "simplify",
    "sweep_backward",
    "sweep_forward",
    "with_convention",
]

if not TYPE_CHECKING:
    __getattr__ = load_names_lazily(
        __name__,
        {
            "expand": "wiregrad.passes.expansion",
        },
    )
