"""Which nodes of a circuit are drawn as what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Pattern


@dataclass(frozen=True, slots=True)
class NodeMasks:
    """Masks over the nodes of a circuit: how each of them is drawn."""

    leaves: NDArray[np.bool_]
    """Inputs, and constants that have a name."""
    folded: NDArray[np.bool_]
    """Constants without a name, and reshaped copies of them; they are written inside their readers."""
    splitters: NDArray[np.bool_]
    inner: NDArray[np.bool_]
    """Function nodes."""

    @classmethod
    def from_circuit(cls, circuit: CircuitGraph) -> NodeMasks:
        """Return the masks of a circuit."""
        codes = circuit.columns.codes
        named = np.zeros(circuit.size, bool)
        named[circuit.columns.names.nodes] = True
        named[circuit.columns.outputs] = True
        constants = codes == TABLE.code_of(CONSTANT)
        leaves = (codes == TABLE.code_of(INPUT)) | (constants & named)
        splitters = np.array([op.pattern is Pattern.MERGE for op in TABLE])[codes]
        folded = _add_reshaped_constants(circuit, constants & ~named, ~named)
        return cls(leaves, folded, splitters, ~(leaves | constants | splitters | folded))


def _add_reshaped_constants(circuit: CircuitGraph, folded: NDArray[np.bool_], nameless: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Add the nodes that only move the elements of a folded constant, such as a reshape, to the mask."""
    c = circuit.columns
    moves = np.array([bool(getattr(op, "moves", False)) and len(op.inputs) == 1 and not op.variadic for op in TABLE])
    mask = folded.copy()
    for node in np.flatnonzero(moves[c.codes] & nameless).tolist():
        mask[node] = mask[c.sources[c.starts[node]]]
    return mask
