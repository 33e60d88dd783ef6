"""The path that carries most of a gradient: its factors, and the nodes on it at which parts nearly cancel.

From each node the path follows the use that sends most back to it. These choices form a tree that ends in the output,
so the node at which the paths of two uses meet is found by walking up from both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from wiregrad.inspect.wiring import ReaderSlot, RunIndex, measure_norm

MIN_CANCELLATION = 1e3
"""A cancellation is reported if the magnitudes of the parts add up to this many times the magnitude of their sum."""


class StrongestPath:
    """Follows the largest contribution from a node to the output."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.run = index.run
        self._best: dict[int, ReaderSlot | None] = {}

    def path_to(self, node: int) -> list[ReaderSlot]:
        """Return the wires of the strongest path, from the output to a node."""
        wires = list[ReaderSlot]()
        while node != self.index.root and (best := self._strongest_use(node)) is not None:
            wires.append(best)
            node = best[0]
        return wires[::-1]

    def wire_factor(self, wire: ReaderSlot) -> float:
        """Return the local derivative of a wire; along arrays the ratio of the norms after and before it."""
        local = self.index.local_derivative(wire)
        if isinstance(local, float | np.floating):
            return float(local)
        return measure_norm(self.index.sent_gradient(wire)) / (measure_norm(self.run.gradient(wire[0])) or math.nan)

    def find_cancelling(self, nodes: Sequence[int]) -> list[int]:
        """Return the nodes among these whose incoming gradients nearly cancel, the worst first."""
        cancelling = []
        for node in nodes:
            uses = self.run.readers_of(node)
            if len(uses) > 1:
                total = measure_norm(self.run.gradient(node))
                most = sum(measure_norm(self.index.sent_gradient(wire)) for wire in uses)
                if most > MIN_CANCELLATION * total:
                    cancelling.append((most / (total or 5e-324), node))
        return [node for _, node in sorted(cancelling, key=lambda item: -item[0])]

    def rank_uses(self, node: int) -> list[ReaderSlot]:
        """Return the wires that read a node, sorted by what they send, largest first."""
        return sorted(self.run.readers_of(node), key=lambda wire: -_rank_magnitude(self.index.sent_gradient(wire)))

    def find_meeting_node(self, one: int, two: int) -> int:
        """Return the node at which the strongest paths of two nodes meet; the first of the two if they do not."""
        first = one
        second = two
        while first != second:
            # A reader has a larger index than its source, so the node with the smaller index is the one to move on.
            best = self._strongest_use(min(first, second))
            if best is None:
                return one
            second = max(first, second)
            first = best[0]
        return first

    def _strongest_use(self, node: int) -> ReaderSlot | None:
        """Return the wire that sends most to a node; None if nothing is sent."""
        if node not in self._best:
            best = max(self.run.readers_of(node), key=lambda wire: _rank_magnitude(self.index.sent_gradient(wire)), default=None)
            self._best[node] = None if best is None or not _rank_magnitude(self.index.sent_gradient(best)) else best
        return self._best[node]


def _rank_magnitude(value: object) -> float:
    size = measure_norm(value)
    return math.inf if math.isnan(size) else size
