"""What stands inside a box of a picture, written so that it can be asked for: a group, and which of its nodes.

Kept true: what is asked for holds the nodes of the box, and no other function nodes unless they are too scattered to
be named one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import InputError, shown
from wiregrad.explorer.find import slices
from wiregrad.export.boxes import Box
from wiregrad.export.kinds import Kinds
from wiregrad.ir import Circuit

SCATTERED = 400
"""In how many runs the nodes of a box are told at most; of more, all from the first to the last are shown."""
Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Inside:
    """Finds what is inside groups of a circuit and inside boxes of its pictures."""

    circuit: Circuit

    @cached_property
    def kinds(self) -> Kinds:
        """Which nodes are drawn as what."""
        return Kinds.of(self.circuit)

    @cached_property
    def _paths(self) -> list[str]:
        return ["/".join([*filter(None, str(label).split("/")), ""]) for label in self.circuit.columns.groups.table]

    @cached_property
    def _held(self) -> dict[str, NDArray[np.bool_]]:
        return {}

    def labels(self, path: str) -> NDArray[np.bool_]:
        """Return which labels of the circuit's table lie in a group; the last entry is for nodes without one."""
        if path not in self._held:
            self._held[path] = np.array([*(own.startswith(f"{path}/") for own in self._paths), not path])
        return self._held[path]

    def within(self, path: str, first: int, last: int) -> NDArray[np.bool_]:
        """Return which nodes from one to another lie in a group; empty is the whole circuit.

        >>> import wiregrad as wg
        >>> Inside(wg.circuit("x * x")).within("", 0, 1).tolist()
        [True, True]
        """
        index = self.circuit.columns.groups.index
        if index is None or not path:
            return np.full(last + 1 - first, not path)
        return self.labels(path)[index[first : last + 1]]

    def of(self, box: Box, whole: Nodes, here: str) -> dict[str, str]:
        """Return what to ask for to see inside a box: a group, and nodes of it; no nodes are all of them.

        `whole` has the indices of the picture's nodes in the whole circuit, `here` is the group that is shown.
        """
        members = np.sort(whole[np.array(box.members)])
        first, last = int(members[0]), int(members[-1])
        path = box.path or here
        # Whoever reads an input stands elsewhere, and so do the constants of a group.
        counted = self.kinds.leaves if self.kinds.leaves[first] else self.kinds.inner
        same = np.count_nonzero(self.within(path, first, last) & counted[first : last + 1]) == len(members)
        if same and box.path and len(members) == self._total(path):
            return {"group": path, "nodes": ""}
        runs = [[first, last]] if same else slices(members.tolist())
        return {"group": path, "nodes": written(runs if len(runs) <= SCATTERED else [[first, last]])}

    def _total(self, path: str) -> int:
        """Return how many function nodes a group has."""
        return int(self._counts[self.labels(path)[:-1]].sum())

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        labels = self.circuit.columns.groups
        held = labels.index if labels.index is None else labels.index[self.kinds.inner & (labels.index >= 0)]
        return np.bincount([] if held is None else held, minlength=len(labels.table))


def written(runs: list[list[int]]) -> str:
    """Return runs of nodes as they are asked for.

    >>> written([[3, 9], [12, 12]])
    '3-9,12-12'
    """
    return ",".join(f"{first}-{last}" for first, last in runs)


def runs_of(text: str) -> list[list[int]]:
    """Return the runs of nodes that are asked for.

    >>> runs_of("3-9,12-12")
    [[3, 9], [12, 12]]
    """
    pairs = [part.split("-") for part in text.split(",")]
    if not all(len(pair) == 2 and all(n.isascii() and n.isdigit() and len(n) < 13 for n in pair) for pair in pairs):
        raise InputError(f"wanted nodes=FIRST-LAST,FIRST-LAST and so on; got {shown(text)}")
    return [[int(n) for n in pair] for pair in pairs]


def marked(size: int, runs: Any) -> NDArray[np.bool_]:
    """Return which of so many nodes are in some runs.

    >>> marked(4, [[1, 2]]).tolist()
    [False, True, True, False]
    """
    found = np.zeros(size, bool)
    for first, last in runs:
        if not 0 <= first <= last < size:
            raise InputError(f"there are no nodes {first} to {last}; the last is {size - 1}")
        found[first : last + 1] = True
    return found
