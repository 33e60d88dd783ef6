"""Which nodes of a circuit are drawn as what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiregrad.ir import CONSTANT, INPUT, TABLE, Circuit, Pattern


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which nodes are what, as masks."""

    leaves: NDArray[np.bool_]
    """Inputs and constants that have a name."""
    folded: NDArray[np.bool_]
    """Constants without a name, spread out or not, which are written inside their readers."""
    splitters: NDArray[np.bool_]
    inner: NDArray[np.bool_]
    """Function nodes."""

    @classmethod
    def of(cls, circuit: Circuit) -> Kinds:
        """Return the kinds of a circuit's nodes."""
        codes = circuit.columns.codes
        named = np.zeros(circuit.size, bool)
        named[circuit.columns.names.nodes] = True
        named[circuit.columns.outputs] = True
        constants = codes == TABLE.code(CONSTANT)
        leaves = (codes == TABLE.code(INPUT)) | (constants & named)
        splitters = np.array([op.pattern is Pattern.MERGE for op in TABLE])[codes]
        folded = _spread(circuit, constants & ~named, ~named)
        return cls(leaves, folded, splitters, ~(leaves | constants | splitters | folded))


def _spread(circuit: Circuit, folded: NDArray[np.bool_], nameless: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return constants along with the nodes that only bring one to another shape."""
    c = circuit.columns
    moves = np.array([bool(getattr(op, "moves", False)) and len(op.inputs) == 1 and not op.variadic for op in TABLE])
    found = folded.copy()
    for node in np.flatnonzero(moves[c.codes] & nameless).tolist():
        found[node] = found[c.sources[c.starts[node]]]
    return found
