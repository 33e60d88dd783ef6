"""Cuts: the wires at which a gradient that does not arrive has ended.

The walk goes from a node towards the output and carries a mask of the elements of each array that the node moves: an
array into which the node was stacked with others may have a nonzero gradient elsewhere. A wire cuts an element if the
element moves nothing behind the wire, or if the gradient that came back to it was lost on the wire. The walk goes on
with the remaining elements, so several cuts are found where several ops share the work.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.inspect.wiring import ReaderSlot, RunIndex
from wiregrad.ir import Row
from wiregrad.ops import Elementwise
from wiregrad.ops.flow import MaskedFlow, match_dtype, fill_absent


@dataclass(frozen=True)
class GradientCut:
    """A wire, or a node, at which a gradient ends."""

    node: int
    """The reader at the end of the wire; for `cancelling` uses, the node itself."""
    slot: int | None
    """The input of the reader; None where the gradients from the readers of a node cancel."""
    kind: str
    """`absent`: nothing is sent; `zero`: the slope is 0; `underflow`, `sideways`: the product is 0; `cancelling`."""
    ended: Any
    """Mask of the elements of the wire (or node) at which the gradient ends; True for a number."""
    asked: int
    """Number of elements that were followed to this wire."""

    @property
    def ended_count(self) -> int:
        """Number of elements whose gradient ends here."""
        return int(np.sum(self.ended))


@dataclass(frozen=True)
class CutSearchResult:
    """The result of a walk."""

    cuts: tuple[GradientCut, ...]
    """Sorted by the share of followed elements that they end; comparisons and indices, which always cut, come last."""
    passed: frozenset[int]
    """The nodes that were visited, and those computed from them on which the output does not depend."""


def find_cuts(index: RunIndex, node: int) -> CutSearchResult:
    """Find the wires at which the gradient of a node ended; the gradient must be 0 everywhere.

    >>> import wiregrad as wg
    >>> run = wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0)
    >>> [cut.kind for cut in find_cuts(RunIndex(run), run.circuit.index("x")).cuts]
    ['absent']
    """
    walk = _CutWalk(index, node)
    walk.visit_dependents(node)
    return CutSearchResult(tuple(sorted(walk.cuts, key=walk.sort_key)), frozenset(walk.visited_nodes()))


class _CutWalk:
    """Carries a mask of elements from node to node; in index order each mask is complete when it is used."""

    def __init__(self, index: RunIndex, node: int) -> None:
        self.index = index
        self.run = index.run
        self.live = index.mark_live_nodes()
        self.cuts: list[GradientCut] = []
        self.masks: dict[int, Any] = {node: _full_mask(self.run.values[node])}

    def visit_dependents(self, node: int) -> None:
        """Visit the nodes that depend on a node, until every element's gradient has been found to end."""
        front = [node]
        while front:
            node = heapq.heappop(front)
            mask = self._drop_cancelled(node, self.masks[node])
            for wire in self.run.readers_of(node) if _any_element(mask) else ():
                reached = self._cross_wire(wire, mask) if self.live[wire[0]] else False
                if not _any_element(reached):
                    continue
                if wire[0] not in self.masks:
                    heapq.heappush(front, wire[0])
                self.masks[wire[0]] = self.masks.get(wire[0], False) | reached

    def sort_key(self, cut: GradientCut) -> tuple[bool, float]:
        """Return the sort key of a cut."""
        return not self.index.circuit.type_of(cut.node).differentiable, -cut.ended_count / max(cut.asked, 1)

    def visited_nodes(self) -> set[int]:
        """Return the visited nodes, and those computed from them on which the output does not depend."""
        visited = set(self.masks)
        front = list(visited)
        while front:
            for reader, _ in self.run.readers_of(front.pop()):
                if not self.live[reader] and reader not in visited:
                    visited.add(reader)
                    front.append(reader)
        return visited

    def _drop_cancelled(self, node: int, mask: Any) -> Any:
        """Return a mask without the elements at which the gradients from the readers of a node cancel."""
        uses = self.run.readers_of(node)
        if len(uses) < 2:
            return mask
        cancelled: Any = False
        for wire in uses:
            cancelled = cancelled | (mask & _nonzero_mask(self.index.sent_gradient(wire), np.shape(mask)))
        if not _any_element(cancelled):
            return mask
        self._record_cut((node, None), "cancelling", cancelled, mask)
        return _mask_difference(mask, cancelled)

    def _cross_wire(self, wire: ReaderSlot, mask: Any) -> Any:
        """Return which elements of its reader a wire moves; record the elements that end on the wire."""
        slope = self._slope_flow(self.index.rows[wire[0]], wire[1])
        going = mask & _nonzero_mask(fill_absent(slope), np.shape(mask))
        ended = _mask_difference(mask, going)
        if _any_element(ended):
            present = _any_element(ended & _presence_mask(slope, np.shape(mask)))
            self._record_cut(wire, "zero" if present else "absent", ended, mask)
        return self._reach_reader(wire, going, mask) if _any_element(going) else False

    def _reach_reader(self, wire: ReaderSlot, going: Any, mask: Any) -> Any:
        """Return which elements of its reader a wire moves, without those whose gradient is lost on the wire."""
        row = self.index.rows[wire[0]]
        reached = self._reached_elements(row, wire[1], going)
        if self.run.flows[wire[0]] is None:
            return reached
        arrived = reached & _nonzero_mask(self.run.gradient(wire[0]), np.shape(reached))
        if not _any_element(arrived):
            return reached
        self._record_cut(wire, self._classify_loss(row, wire[1]), arrived if isinstance(row.op, Elementwise) else going, mask)
        return _mask_difference(reached, arrived)

    def _record_cut(self, wire: tuple[int, int | None], kind: str, ended: Any, mask: Any) -> None:
        self.cuts.append(GradientCut(wire[0], wire[1], kind, ended, int(np.sum(mask))))

    def _slope_flow(self, row: Row, slot: int) -> Any:
        """Return a flow that is 0 or absent at the elements of a wire that do not move its reader."""
        if not self.index.circuit.type_of(row.node).differentiable:
            return None
        if isinstance(row.op, Elementwise):
            return self.index.local_derivative((row.node, slot))
        if row.op.per_call:
            # User code is not run again with made-up numbers: only what it sent is known.
            return 0.0 if np.any(np.asarray(self.run.gradient(row.node)) != 0) else 1.0
        xs = self.index.input_values(row.node)
        y = self.run.values[row.node]
        return match_dtype(row.op.pull(slot, nonzero_numbers_like(y), xs, y, row.mode), xs[slot])

    def _reached_elements(self, row: Row, slot: int, going: Any) -> Any:
        """Return which elements of a node move with some elements of a wire."""
        if isinstance(row.op, Elementwise):
            return going
        xs = self.index.input_values(row.node)
        y = self.run.values[row.node]
        if row.op.per_call:
            return _full_mask(y)
        tangents: list[Any] = [None] * len(xs)
        tangents[slot] = np.where(going, nonzero_numbers_like(xs[slot]), 0).astype(np.asarray(xs[slot]).dtype)[()]
        return _nonzero_mask(fill_absent(match_dtype(row.op.push(tangents, xs, y, row.mode), y)), np.shape(y))

    def _classify_loss(self, row: Row, slot: int) -> str:
        """Classify how a gradient was lost on a wire with a nonzero slope."""
        xs = self.index.input_values(row.node)
        y = self.run.values[row.node]
        g = np.asarray(self.run.gradient(row.node))
        if isinstance(row.op, Elementwise):
            return "sideways" if np.iscomplexobj(y) and not np.iscomplexobj(xs[slot]) else "underflow"
        scaled = (g / np.max(np.abs(g))).astype(g.dtype)[()]
        again = fill_absent(match_dtype(row.op.pull(slot, scaled, xs, y, row.mode), xs[slot]))
        return "underflow" if np.any(np.asarray(again) != 0) else "cancelling"


def _full_mask(x: Any) -> Any:
    return np.ones(np.shape(x), bool) if np.shape(x) else True


def _any_element(mask: Any) -> bool:
    return mask if type(mask) is bool else bool(np.any(mask))


def _mask_difference(mask: Any, other: Any) -> Any:
    return mask and not other if type(mask) is bool else mask & ~other


def _nonzero_mask(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.asarray(x) != 0, shape) if shape else bool(x != 0)


def _presence_mask(flow: Any, shape: tuple[int, ...]) -> Any:
    mask = flow.mask if type(flow) is MaskedFlow else flow is not None
    return np.broadcast_to(mask, shape) if shape else bool(mask)


def nonzero_numbers_like(x: Any) -> Any:
    """Return random numbers with magnitudes from 1 to 2, like an array: their sums are not 0 by chance.

    >>> nonzero_numbers_like(np.zeros(2, np.float32)).dtype
    dtype('float32')
    """
    rng = np.random.default_rng(0)
    array = np.asarray(x)

    def draw() -> Any:
        return rng.uniform(1.0, 2.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)

    return (draw() + 1j * draw() if array.dtype.kind == "c" else draw()).astype(array.dtype)[()]
