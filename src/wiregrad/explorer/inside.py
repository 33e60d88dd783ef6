"""How to ask for the contents of a box in a picture: a group, and ranges of its nodes.

Invariant: the answer holds the nodes of the box, and no other function nodes unless the box is too scattered for its
ranges to be listed.
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
"""Maximum number of ranges listed for a box; with more, one range from its first to its last node is given."""
Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Inside:
    """The contents of the groups of a circuit and of the boxes in its pictures."""

    circuit: Circuit

    @cached_property
    def kinds(self) -> Kinds:
        """Which nodes are leaves, folded constants, splitters and function nodes."""
        return Kinds.of(self.circuit)

    @cached_property
    def _paths(self) -> list[str]:
        return ["/".join([*filter(None, str(label).split("/")), ""]) for label in self.circuit.columns.groups.table]

    @cached_property
    def _held(self) -> dict[str, NDArray[np.bool_]]:
        return {}

    def labels(self, path: str) -> NDArray[np.bool_]:
        """Return which labels of the group table lie in a group; the last entry stands for nodes without a group."""
        if path not in self._held:
            self._held[path] = np.array([*(label.startswith(f"{path}/") for label in self._paths), not path])
        return self._held[path]

    def within(self, path: str, first: int, last: int) -> NDArray[np.bool_]:
        """Return which nodes from `first` to `last` lie in a group; an empty path is the whole circuit.

        >>> import wiregrad as wg
        >>> Inside(wg.circuit("x * x")).within("", 0, 1).tolist()
        [True, True]
        """
        index = self.circuit.columns.groups.index
        if index is None or not path:
            return np.full(last + 1 - first, not path)
        return self.labels(path)[index[first : last + 1]]

    def of(self, box: Box, indices: Nodes, shown_group: str) -> dict[str, str]:
        """Return the query for the contents of a box: a group and ranges of its nodes, empty for all of them.

        `indices` are the picture's nodes in the whole circuit, `shown_group` is the group that the picture shows.
        """
        members = np.sort(indices[np.array(box.members)])
        first = int(members[0])
        last = int(members[-1])
        path = box.path or shown_group
        # Leaves are boxed apart from the function nodes that read them, so only nodes of one sort are compared.
        counted = self.kinds.leaves if self.kinds.leaves[first] else self.kinds.inner
        same = np.count_nonzero(self.within(path, first, last) & counted[first : last + 1]) == len(members)
        if same and box.path and len(members) == self._total(path):
            return {"group": path, "nodes": ""}
        ranges = [[first, last]] if same else slices(members.tolist())
        return {"group": path, "nodes": written(ranges if len(ranges) <= SCATTERED else [[first, last]])}

    def _total(self, path: str) -> int:
        """Return the number of function nodes in a group."""
        return int(self._counts[self.labels(path)[:-1]].sum())

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        labels = self.circuit.columns.groups
        if labels.index is None:
            return np.zeros(len(labels.table), np.int64)
        grouped = labels.index[self.kinds.inner & (labels.index >= 0)]
        return np.bincount(grouped, minlength=len(labels.table))


def written(ranges: list[list[int]]) -> str:
    """Format ranges of nodes for a query.

    >>> written([[3, 9], [12, 12]])
    '3-9,12-12'
    """
    return ",".join(f"{first}-{last}" for first, last in ranges)


def runs_of(text: str) -> list[list[int]]:
    """Parse the ranges of nodes in a query.

    >>> runs_of("3-9,12-12")
    [[3, 9], [12, 12]]
    """
    pairs = [part.split("-") for part in text.split(",")]
    if not all(len(pair) == 2 and all(n.isascii() and n.isdigit() and len(n) < 13 for n in pair) for pair in pairs):
        raise InputError(f"wanted nodes=FIRST-LAST,FIRST-LAST and so on; got {shown(text)}")
    return [[int(n) for n in pair] for pair in pairs]


def marked(size: int, ranges: Any) -> NDArray[np.bool_]:
    """Return a mask of `size` nodes that is True inside the ranges.

    >>> marked(4, [[1, 2]]).tolist()
    [False, True, True, False]
    """
    mask = np.zeros(size, bool)
    for first, last in ranges:
        if not 0 <= first <= last < size:
            raise InputError(f"there are no nodes {first} to {last}; the last is {size - 1}")
        mask[first : last + 1] = True
    return mask
