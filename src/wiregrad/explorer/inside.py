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

from wiregrad.errors import InputError, short_repr
from wiregrad.explorer.find import split_into_ranges
from wiregrad.export.boxes import Box
from wiregrad.export.kinds import NodeMasks
from wiregrad.ir import CircuitGraph

MAX_BOX_RANGES = 400
"""Maximum number of ranges listed for a box; with more, one range from its first to its last node is given."""
NodeIndices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BoxContents:
    """The contents of the groups of a circuit and of the boxes in its pictures."""

    circuit: CircuitGraph

    @cached_property
    def node_kinds(self) -> NodeMasks:
        """Which nodes are leaves, folded constants, splitters and function nodes."""
        return NodeMasks.from_circuit(self.circuit)

    @cached_property
    def _label_paths(self) -> list[str]:
        return ["/".join([*filter(None, str(label).split("/")), ""]) for label in self.circuit.columns.groups.table]

    @cached_property
    def _label_masks(self) -> dict[str, NDArray[np.bool_]]:
        return {}

    def mask_labels(self, path: str) -> NDArray[np.bool_]:
        """Return which labels of the group table lie in a group; the last entry stands for nodes without a group."""
        if path not in self._label_masks:
            self._label_masks[path] = np.array([*(label.startswith(f"{path}/") for label in self._label_paths), not path])
        return self._label_masks[path]

    def mask_group(self, path: str, first: int, last: int) -> NDArray[np.bool_]:
        """Return which nodes from `first` to `last` lie in a group; an empty path is the whole circuit.

        >>> import wiregrad as wg
        >>> BoxContents(wg.circuit("x * x")).mask_group("", 0, 1).tolist()
        [True, True]
        """
        index = self.circuit.columns.groups.index
        if index is None or not path:
            return np.full(last + 1 - first, not path)
        return self.mask_labels(path)[index[first : last + 1]]

    def query_for_box(self, box: Box, indices: NodeIndices, shown_group: str) -> dict[str, str]:
        """Return the query for the contents of a box: a group and ranges of its nodes, empty for all of them.

        `indices` are the picture's nodes in the whole circuit, `shown_group` is the group that the picture shows.
        """
        members = np.sort(indices[np.array(box.members)])
        first = int(members[0])
        last = int(members[-1])
        path = box.path or shown_group
        # Leaves are boxed apart from the function nodes that read them, so only nodes of one sort are compared.
        counted = self.node_kinds.leaves if self.node_kinds.leaves[first] else self.node_kinds.inner
        same = np.count_nonzero(self.mask_group(path, first, last) & counted[first : last + 1]) == len(members)
        if same and box.path and len(members) == self._count_inner_nodes(path):
            return {"group": path, "nodes": ""}
        ranges = [[first, last]] if same else split_into_ranges(members.tolist())
        return {"group": path, "nodes": format_ranges(ranges if len(ranges) <= MAX_BOX_RANGES else [[first, last]])}

    def _count_inner_nodes(self, path: str) -> int:
        """Return the number of function nodes in a group."""
        return int(self._label_counts[self.mask_labels(path)[:-1]].sum())

    @cached_property
    def _label_counts(self) -> NDArray[np.int64]:
        labels = self.circuit.columns.groups
        if labels.index is None:
            return np.zeros(len(labels.table), np.int64)
        grouped = labels.index[self.node_kinds.inner & (labels.index >= 0)]
        return np.bincount(grouped, minlength=len(labels.table))


def format_ranges(ranges: list[list[int]]) -> str:
    """Format ranges of nodes for a query.

    >>> format_ranges([[3, 9], [12, 12]])
    '3-9,12-12'
    """
    return ",".join(f"{first}-{last}" for first, last in ranges)


def parse_ranges(text: str) -> list[list[int]]:
    """Parse the ranges of nodes in a query.

    >>> parse_ranges("3-9,12-12")
    [[3, 9], [12, 12]]
    """
    pairs = [part.split("-") for part in text.split(",")]
    if not all(len(pair) == 2 and all(n.isascii() and n.isdigit() and len(n) < 13 for n in pair) for pair in pairs):
        raise InputError(f"wanted nodes=FIRST-LAST,FIRST-LAST and so on; got {short_repr(text)}")
    return [[int(n) for n in pair] for pair in pairs]


def mask_ranges(size: int, ranges: Any) -> NDArray[np.bool_]:
    """Return a mask of `size` nodes that is True inside the ranges.

    >>> mask_ranges(4, [[1, 2]]).tolist()
    [False, True, True, False]
    """
    mask = np.zeros(size, bool)
    for first, last in ranges:
        if not 0 <= first <= last < size:
            raise InputError(f"there are no nodes {first} to {last}; the last is {size - 1}")
        mask[first : last + 1] = True
    return mask
