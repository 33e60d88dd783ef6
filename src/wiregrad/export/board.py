"""What the layout works on: boxes and wires in ranks, and the bends of wires that skip ranks."""

from __future__ import annotations

from collections.abc import Sequence

from wiregrad.export.folds import bands, leaves_along
from wiregrad.export.shapes import LONGEST, Joint, Metrics, Shape

Near = list[tuple[int, float]]
"""Items in the next rank, each with where its port lies: -0.5 at one end of the box, 0.5 at the other."""


class Board:
    """A layout in progress. Items below `boxes` are boxes, the others bends of wires."""

    def __init__(self, shapes: Sequence[Shape], joints: Sequence[Joint], metrics: Metrics) -> None:
        self.shapes, self.joints, self.metrics = shapes, joints, metrics
        self.boxes = len(shapes)
        self.ports = _count_ports(len(shapes), joints)
        self.port = [joint.port for joint in joints]
        early = ranks(shapes, joints)
        self.rank, self.bands = leaves_along(joints, early, bands(shapes, joints, early, metrics))
        """The band of every rank."""
        self.before: list[Near] = [[] for _ in shapes]
        """What each item reads."""
        self.behind: list[Near] = [[] for _ in shapes]
        """What reads each item."""
        self.owner = [*range(self.boxes)]
        """The box whose output each item carries."""
        self.trunks: dict[int, list[int]] = {}
        """The bends behind each box, rank by rank."""
        self.bends = [self._bend(joint) for joint in joints]
        """The bends of every wire; None for a stub."""
        self.rows = self._rows()
        self.labels = [0] * len(self.rows)
        """How much room the labels before each rank need."""
        self.after = [shape.after for shape in shapes]
        """How much room each box needs behind it."""
        for joint, bends in zip(joints, self.bends, strict=True):
            rank, room = self.rank[joint.target], joint.label + (joint.far if bends is None else 0)
            self.labels[rank] = max(self.labels[rank], room)
            if bends is None:
                self.after[joint.source] = max(self.after[joint.source], joint.tail)
        self.sizes = [*(shape.room for shape in shapes), *(0 for _ in range(len(self.rank) - self.boxes))]
        """The room each item needs across."""
        self.middle: list[float] = [0.0] * len(self.rank)
        """Where the middle of each item stands across."""

    def _bend(self, joint: Joint) -> list[int] | None:
        """Give a wire a bend in each rank it skips; the wires of one source share theirs, like a trunk."""
        first, last = self.rank[joint.source], self.rank[joint.target]
        if last - first > LONGEST or self.bands[first] != self.bands[last]:
            return None
        trunk = self.trunks.setdefault(joint.source, [])
        while len(trunk) < last - first - 1:
            before, item = trunk[-1] if trunk else joint.source, len(self.rank)
            self.rank.append(first + 1 + len(trunk))
            self.owner.append(joint.source)
            self.before.append([(before, 0.0)])
            self.behind.append([])
            self.behind[before].append((item, 0.0))
            trunk.append(item)
        bends = trunk[: last - first - 1]
        before = bends[-1] if bends else joint.source
        at = 0.0 if self.shapes[joint.target].free else self._lean(joint.port, joint.target)
        self.behind[before].append((joint.target, at))
        self.before[joint.target].append((before, at))
        return bends

    def _lean(self, port: int, box: int) -> float:
        across = self.shapes[box].across
        return (self.port_offset(port, box) - across // 2) / across

    def _rows(self) -> list[list[int]]:
        """Return the items of every rank: boxes in their order, each with the bends of its wires behind it."""
        rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for item in sorted(range(len(self.rank)), key=self.owner.__getitem__):
            rows[self.rank[item]].append(item)
        return rows

    def distance(self, one: int, two: int) -> int:
        """Return how far apart the middles of two neighbours must be."""
        gap = self.metrics.apart if one < self.boxes and two < self.boxes else self.metrics.beside
        before = self.sizes[one]
        return before - before // 2 + gap + self.sizes[two] // 2

    def port_offset(self, port: int, box: int) -> int:
        """Return how far from its first corner a port of a box lies, across."""
        shape = self.shapes[box]
        return shape.inset + (shape.across - 2 * shape.inset) * (2 * port + 1) // (2 * self.ports[box])


def ranks(shapes: Sequence[Shape], joints: Sequence[Joint]) -> list[int]:
    """Return the rank of every box: as early as its inputs allow, then as late as its readers allow.

    The longest line keeps its place; leaves, and chains beside that line, move up to their readers.

    >>> a, b = Shape(2, 2, leaf=True), Shape(2, 2)
    >>> ranks([a, a, b, b], [Joint(0, 2, 0), Joint(1, 3, 0), Joint(2, 3, 1)])
    [0, 1, 1, 2]
    """
    found = [0] * len(shapes)
    for joint in sorted(joints, key=lambda joint: joint.target):
        found[joint.target] = max(found[joint.target], found[joint.source] + 1)
    first = [-1] * len(shapes)
    """The lowest rank that reads each box."""
    for joint in sorted(joints, key=lambda joint: -joint.source):
        # Every reader of the source is settled: it comes later, and so did the wires that leave it.
        source, target = joint.source, joint.target
        first[source] = found[target] - 1 if first[source] < 0 else min(first[source], found[target] - 1)
        found[source] = first[source]
    return found


def _count_ports(boxes: int, joints: Sequence[Joint]) -> list[int]:
    found = [0] * boxes
    for joint in joints:
        found[joint.target] = max(found[joint.target], joint.port + 1)
    return found
