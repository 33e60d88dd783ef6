"""What the layout works on: boxes and wires in ranks, and the bends of wires that skip ranks."""

from __future__ import annotations

from collections.abc import Sequence

from wiregrad.export.folds import assign_bands, move_leaves_to_readers
from wiregrad.export.shapes import MAX_WIRE_RANKS, WireJoint, LayoutMetrics, BoxShape

Neighbours = list[tuple[int, float]]
"""Items in the next rank, each with the position of its port: -0.5 at one end of the box, 0.5 at the other."""


class LayoutBoard:
    """A layout in progress. Items with a number below `boxes` are boxes, the others are bends of wires."""

    def __init__(self, shapes: Sequence[BoxShape], joints: Sequence[WireJoint], metrics: LayoutMetrics) -> None:
        self.shapes = shapes
        self.joints = joints
        self.metrics = metrics
        self.boxes = len(shapes)
        self.ports = _count_ports(len(shapes), joints)
        self.port = [joint.port for joint in joints]
        early = assign_ranks(shapes, joints)
        self.rank, self.bands = move_leaves_to_readers(joints, early, assign_bands(shapes, joints, early, metrics))
        """The band of every rank."""
        self.before: list[Neighbours] = [[] for _ in shapes]
        """The items that each item reads."""
        self.behind: list[Neighbours] = [[] for _ in shapes]
        """The items that read each item."""
        self.owner = [*range(self.boxes)]
        """The box whose output each item carries."""
        self.trunks: dict[int, list[int]] = {}
        """The bends behind each box, rank by rank."""
        self.bends = [self._add_bends(joint) for joint in joints]
        """The bends of every wire; None for a stub."""
        self.rows = self._build_rows()
        self.labels = [0] * len(self.rows)
        """The room that the labels before each rank need."""
        self.after = [shape.after for shape in shapes]
        """The room that each box needs behind it."""
        self._reserve_labels()
        self.sizes = [*(shape.room_across for shape in shapes), *(0 for _ in range(len(self.rank) - self.boxes))]
        """The room that each item needs across."""
        self.middle: list[float] = [0.0] * len(self.rank)
        """The middle of each item across."""

    def _reserve_labels(self) -> None:
        """Reserve the room for labels before each rank, and for stubs behind their sources."""
        for joint, bends in zip(self.joints, self.bends, strict=True):
            rank = self.rank[joint.target]
            room = joint.label + (joint.far if bends is None else 0)
            self.labels[rank] = max(self.labels[rank], room)
            if bends is None:
                self.after[joint.source] = max(self.after[joint.source], joint.tail)

    def _add_bends(self, joint: WireJoint) -> list[int] | None:
        """Give a wire a bend in each rank that it skips; wires of one source share their bends, as a trunk."""
        first = self.rank[joint.source]
        last = self.rank[joint.target]
        if last - first > MAX_WIRE_RANKS or self.bands[first] != self.bands[last]:
            return None
        trunk = self.trunks.setdefault(joint.source, [])
        while len(trunk) < last - first - 1:
            before = trunk[-1] if trunk else joint.source
            item = len(self.rank)
            self.rank.append(first + 1 + len(trunk))
            self.owner.append(joint.source)
            self.before.append([(before, 0.0)])
            self.behind.append([])
            self.behind[before].append((item, 0.0))
            trunk.append(item)
        bends = trunk[: last - first - 1]
        before = bends[-1] if bends else joint.source
        at = 0.0 if self.shapes[joint.target].free else self._find_port_lean(joint.port, joint.target)
        self.behind[before].append((joint.target, at))
        self.before[joint.target].append((before, at))
        return bends

    def _find_port_lean(self, port: int, box: int) -> float:
        """Return the position of a port along the side of its box, from -0.5 to 0.5."""
        across = self.shapes[box].across
        return (self.port_offset(port, box) - across // 2) / across

    def _build_rows(self) -> list[list[int]]:
        """Return the items of every rank: boxes in their order, each followed by the bends of its wires."""
        rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for item in sorted(range(len(self.rank)), key=self.owner.__getitem__):
            rows[self.rank[item]].append(item)
        return rows

    def min_distance(self, one: int, two: int) -> int:
        """Return the minimum distance between the middles of two neighbours."""
        gap = self.metrics.apart if one < self.boxes and two < self.boxes else self.metrics.beside
        before = self.sizes[one]
        return before - before // 2 + gap + self.sizes[two] // 2

    def port_offset(self, port: int, box: int) -> int:
        """Return the distance across from the first corner of a box to one of its ports."""
        shape = self.shapes[box]
        return shape.inset + (shape.across - 2 * shape.inset) * (2 * port + 1) // (2 * self.ports[box])


def assign_ranks(shapes: Sequence[BoxShape], joints: Sequence[WireJoint]) -> list[int]:
    """Return the rank of every box: as early as its inputs allow, then as late as its readers allow.

    The longest path stays where it is; leaves, and chains beside that path, move up to their readers.

    >>> a, b = BoxShape(2, 2, leaf=True), BoxShape(2, 2)
    >>> assign_ranks([a, a, b, b], [WireJoint(0, 2, 0), WireJoint(1, 3, 0), WireJoint(2, 3, 1)])
    [0, 1, 1, 2]
    """
    rank_of = [0] * len(shapes)
    for joint in sorted(joints, key=lambda joint: joint.target):
        rank_of[joint.target] = max(rank_of[joint.target], rank_of[joint.source] + 1)
    first = [-1] * len(shapes)
    """The last rank before the first reader of each box; -1 without readers."""
    for joint in sorted(joints, key=lambda joint: -joint.source):
        # The ranks of all readers of the source are final: boxes come after what they read.
        source = joint.source
        before = rank_of[joint.target] - 1
        first[source] = before if first[source] < 0 else min(first[source], before)
        rank_of[source] = first[source]
    return rank_of


def _count_ports(boxes: int, joints: Sequence[WireJoint]) -> list[int]:
    counts = [0] * boxes
    for joint in joints:
        counts[joint.target] = max(counts[joint.target], joint.port + 1)
    return counts
