"""Cuts: the wires at which a gradient that does not arrive has ended.

The walk goes from a node towards the output and carries along which elements of each array the node moves: an array
into which it was stacked with others may well have a gradient that is not 0, only not where the node stands. A wire
cuts if what moves one of those elements moves nothing behind it, or if what came back to it was lost on that wire. The
walk goes on with the other elements, so that several cuts are found where several ops share the work.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.inspect.wiring import Wire, Wiring
from wiregrad.ir import Row
from wiregrad.ops import Elementwise
from wiregrad.ops.flow import Masked, fit, settle


@dataclass(frozen=True)
class Cut:
    """A place at which a gradient ends."""

    node: int
    """The reader at the end of the wire; the node itself where what its readers send cancels."""
    slot: int | None
    """The input of the reader; None where what the readers of a node send cancels."""
    kind: str
    """`absent`: nothing goes on; `zero`: the slope is 0; `underflow`, `sideways`: the product is; `cancelling`."""
    ended: Any
    """At which elements of the wire (of the node) it ends; True for a number."""
    asked: int
    """How many elements were followed that far."""

    @property
    def count(self) -> int:
        """How many elements end here."""
        return int(np.sum(self.ended))


@dataclass(frozen=True)
class Search:
    """What a walk found."""

    cuts: tuple[Cut, ...]
    """Those that end most of what was followed that far first; comparisons and indices, which always cut, last."""
    passed: frozenset[int]
    """The nodes that depend on the one asked for, as far as a gradient could have come from them or nothing did."""


def find_cuts(wiring: Wiring, node: int) -> Search:
    """Return where the gradient of a node that is 0 everywhere has ended.

    >>> import wiregrad as wg
    >>> run = wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0)
    >>> [cut.kind for cut in find_cuts(Wiring(run), run.circuit.index("x")).cuts]
    ['absent']
    """
    walk = _Walk(wiring, node)
    walk.go(node)
    return Search(tuple(sorted(walk.cuts, key=walk.weight)), frozenset(walk.passed()))


class _Walk:
    """Carries a mask of elements along; index order is an order in which each mask is complete when it is needed."""

    def __init__(self, wiring: Wiring, node: int) -> None:
        self.wiring = wiring
        self.run = wiring.run
        self.live = wiring.live()
        self.cuts: list[Cut] = []
        self.masks: dict[int, Any] = {node: _everywhere(self.run.values[node])}

    def go(self, node: int) -> None:
        """Visit what depends on a node until every gradient that could have come has been found to end."""
        front = [node]
        while front:
            node = heapq.heappop(front)
            mask = self._without_cancelled(node, self.masks[node])
            for wire in self.run.readers_of(node) if _some(mask) else ():
                reached = self._across(wire, mask) if self.live[wire[0]] else False
                if not _some(reached):
                    continue
                if wire[0] not in self.masks:
                    heapq.heappush(front, wire[0])
                self.masks[wire[0]] = self.masks.get(wire[0], False) | reached

    def weight(self, cut: Cut) -> tuple[bool, float]:
        """Return what cuts are ordered by."""
        return not self.wiring.circuit.type_of(cut.node).differentiable, -cut.count / max(cut.asked, 1)

    def passed(self) -> set[int]:
        """Return the nodes that were visited, and those computed from them that lead nowhere."""
        visited = set(self.masks)
        front = list(visited)
        while front:
            for reader, _ in self.run.readers_of(front.pop()):
                if not self.live[reader] and reader not in visited:
                    visited.add(reader)
                    front.append(reader)
        return visited

    def _without_cancelled(self, node: int, mask: Any) -> Any:
        """Return a mask without the elements at which what the readers of a node send cancels."""
        uses = self.run.readers_of(node)
        if len(uses) < 2:
            return mask
        cancelled: Any = False
        for wire in uses:
            cancelled = cancelled | (mask & _nonzero(self.wiring.sent(wire), np.shape(mask)))
        if not _some(cancelled):
            return mask
        self._note((node, None), "cancelling", cancelled, mask)
        return _less(mask, cancelled)

    def _across(self, wire: Wire, mask: Any) -> Any:
        """Return which elements of its reader a wire moves; what ends on the wire is noted."""
        slope = self._slope(self.wiring.rows[wire[0]], wire[1])
        going = mask & _nonzero(settle(slope), np.shape(mask))
        ended = _less(mask, going)
        if _some(ended):
            present = _some(ended & _present(slope, np.shape(mask)))
            self._note(wire, "zero" if present else "absent", ended, mask)
        return self._arriving(wire, going, mask) if _some(going) else False

    def _arriving(self, wire: Wire, going: Any, mask: Any) -> Any:
        """Return which elements of its reader a wire moves, without those whose gradient is lost on the wire."""
        row = self.wiring.rows[wire[0]]
        reached = self._reached(row, wire[1], going)
        if self.run.flows[wire[0]] is None:
            return reached
        arrived = reached & _nonzero(self.run.gradient(wire[0]), np.shape(reached))
        if not _some(arrived):
            return reached
        self._note(wire, self._loss(row, wire[1]), arrived if isinstance(row.op, Elementwise) else going, mask)
        return _less(reached, arrived)

    def _note(self, wire: tuple[int, int | None], kind: str, ended: Any, mask: Any) -> None:
        self.cuts.append(Cut(wire[0], wire[1], kind, ended, int(np.sum(mask))))

    def _slope(self, row: Row, slot: int) -> Any:
        """Return a flow that is 0 or absent at those elements of a wire that move nothing behind it."""
        if not self.wiring.circuit.type_of(row.node).differentiable:
            return None
        if isinstance(row.op, Elementwise):
            return self.wiring.local((row.node, slot))
        if row.op.per_call:
            # A user's own code is not run again with made up numbers: only what it sent is known.
            return 0.0 if np.any(np.asarray(self.run.gradient(row.node)) != 0) else 1.0
        xs = self.wiring.xs(row.node)
        y = self.run.values[row.node]
        return fit(row.op.pull(slot, numbers_like(y), xs, y, row.mode), xs[slot])

    def _reached(self, row: Row, slot: int, going: Any) -> Any:
        """Return which elements of a node some elements of a wire move."""
        if isinstance(row.op, Elementwise):
            return going
        xs = self.wiring.xs(row.node)
        y = self.run.values[row.node]
        if row.op.per_call:
            return _everywhere(y)
        tangents: list[Any] = [None] * len(xs)
        tangents[slot] = np.where(going, numbers_like(xs[slot]), 0).astype(np.asarray(xs[slot]).dtype)[()]
        return _nonzero(settle(fit(row.op.push(tangents, xs, y, row.mode), y)), np.shape(y))

    def _loss(self, row: Row, slot: int) -> str:
        """Return how a gradient was lost on a wire whose slope is not 0."""
        xs = self.wiring.xs(row.node)
        y = self.run.values[row.node]
        g = np.asarray(self.run.gradient(row.node))
        if isinstance(row.op, Elementwise):
            return "sideways" if np.iscomplexobj(y) and not np.iscomplexobj(xs[slot]) else "underflow"
        scaled = (g / np.max(np.abs(g))).astype(g.dtype)[()]
        again = settle(fit(row.op.pull(slot, scaled, xs, y, row.mode), xs[slot]))
        return "underflow" if np.any(np.asarray(again) != 0) else "cancelling"


def _everywhere(x: Any) -> Any:
    return np.ones(np.shape(x), bool) if np.shape(x) else True


def _some(mask: Any) -> bool:
    return mask if type(mask) is bool else bool(np.any(mask))


def _less(mask: Any, other: Any) -> Any:
    return mask and not other if type(mask) is bool else mask & ~other


def _nonzero(x: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.asarray(x) != 0, shape) if shape else bool(x != 0)


def _present(flow: Any, shape: tuple[int, ...]) -> Any:
    mask = flow.mask if type(flow) is Masked else flow is not None
    return np.broadcast_to(mask, shape) if shape else bool(mask)


def numbers_like(x: Any) -> Any:
    """Return numbers from 1 to 2 of either sign, of the shape and dtype of an array: their sums are not 0 by chance.

    >>> numbers_like(np.zeros(2, np.float32)).dtype
    dtype('float32')
    """
    rng = np.random.default_rng(0)
    array = np.asarray(x)

    def draw() -> Any:
        return rng.uniform(1.0, 2.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)

    return (draw() + 1j * draw() if array.dtype.kind == "c" else draw()).astype(array.dtype)[()]
