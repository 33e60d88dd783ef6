"""Passes: functions that take a circuit and return a new one. Also the two sweeps that all derivatives come from.

Read `differentiation` first: the reverse and the forward sweep, and the circuits that compute gradients. `rewriting`
has the walk that most passes share, and the passes that use it: `simplify` and its parts make circuits smaller without
changing a value (`simplify_finite` does more where all numbers are finite), `insert_splitters` writes fan-out,
`with_convention` changes the slopes that nodes take on their kinks, and `expand` replaces arrays by their elements
(`expand_unnamed` faster, for native code).

Other rooms may call everything in `__all__`, and `Rewriter` to write a pass of their own. The input of a pass is not
changed.
"""

from wiregrad.passes.differentiation import (
    SweepWatcher,
    backward_circuit,
    gradient_circuit,
    jacobian_circuit,
    sweep_backward,
    sweep_forward,
    sweep_ports,
)
from wiregrad.passes.rewriting import (
    apply_identities,
    drop_gradient_stops,
    expand,
    expand_unnamed,
    fold_constants,
    insert_splitters,
    merge_duplicates,
    prune,
    simplify,
    simplify_finite,
    with_convention,
)

__all__ = [
    "SweepWatcher",
    "apply_identities",
    "backward_circuit",
    "drop_gradient_stops",
    "expand",
    "expand_unnamed",
    "fold_constants",
    "gradient_circuit",
    "insert_splitters",
    "jacobian_circuit",
    "merge_duplicates",
    "prune",
    "simplify",
    "simplify_finite",
    "sweep_backward",
    "sweep_forward",
    "sweep_ports",
    "with_convention",
]
