"""What the layout is given, what it returns, and the board it works on: boxes in ranks, and the bends of long wires.

The layout knows sizes and wires only, so it serves pixels and characters alike. `along` is the axis on which values
flow, `across` the axis within a rank. A layout that is too long is cut into bands, which are placed below each other;
at that point the width of a gap between ranks can only be estimated from its labels.

Invariants: wires lead from a lower rank to a higher one; every band has at least one rank, and no rank is in two
bands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

MAX_WIRE_RANKS = 12
"""Maximum number of ranks that a wire spans; a longer one is drawn as two stubs."""
MAX_OWN_BENDS = 4
"""A box with up to this many wires has bends for each: on one line for all, one gradient would hide the others."""

LayoutPoint = tuple[int, int]
"""A point, as (along, across)."""


@dataclass(frozen=True, slots=True)
class BoxShape:
    """What the layout knows of a box: its size along and across, and how much room it needs."""

    along: int
    across: int
    leaf: bool = False
    splitter: bool = False
    free: bool = False
    """Whether its ports may be reordered."""
    reserve: int = 0
    """The room it needs across, if more than its size."""
    below: int = 0
    """Additional room it needs across on its far side, for a caption."""
    after: int = 0
    """The room it needs behind it, along."""
    inset: int = 0
    """Distance of ports from its ends."""
    group: str = ""
    """The path of its group; cuts between bands avoid groups."""

    @property
    def room_across(self) -> int:
        """The room it needs across."""
        return max(self.across, self.reserve)


@dataclass(frozen=True, slots=True)
class WireJoint:
    """What the layout knows of a wire: its source, the port of its target, and the room for the label before it."""

    source: int
    target: int
    port: int
    label: int = 0
    far: int = 0
    """Additional room for the label if the wire is drawn as a stub."""
    tail: int = 0
    """The room that a stub needs behind its source."""


@dataclass(frozen=True, slots=True)
class LayoutMetrics:
    """Distances: between boxes of a rank, around bends, between tracks, and around ranks."""

    apart: int = 22
    beside: int = 12
    track: int = 9
    narrow: int = 3
    """Minimum distance between tracks, where there are many."""
    crowd: int = 120
    """The room that the tracks of a gap may take before they move closer together."""
    lead: int = 10
    """Length of the straight part of wires before the first and behind the last track."""
    near: int = 4
    """A wire that misses its port by at most this distance runs straight and ends beside the port."""
    fold: int = 0
    """Maximum length of a layout before it is cut into bands; 0 for any length."""
    band: int = 56
    """Distance between bands."""
    grid: int = 1
    """The middles of boxes are multiples of this, across."""


@dataclass(frozen=True, slots=True)
class WireRoute:
    """The points of a wire from source to target; a stub has only its start and its end."""

    points: tuple[LayoutPoint, ...]
    stub: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A finished layout: its total size, the rank and the first corner of each box, and the route of each wire."""

    along: int
    across: int
    ranks: tuple[int, ...]
    corners: tuple[LayoutPoint, ...]
    routes: tuple[WireRoute, ...]
    bands: tuple[int, ...] = ()
    """The band of each box; only long layouts have more than one band."""


GUESSED_TRACKS_ROOM = 18
"""The room that the tracks of a gap are estimated to take."""
CUT_REACH = 0.25
"""Maximum distance of a cut from the place that makes bands equal, as a share of a band."""
SPLITTER_CUT_COST = 3
"""How many other wires a wire into a splitter counts for: a splitter should stay in the band of its value."""


def assign_bands(
    shapes: Sequence[BoxShape], joints: Sequence[WireJoint], ranks: Sequence[int], metrics: LayoutMetrics
) -> list[int]:
    """Return the band of every rank.

    >>> box, wires = BoxShape(80, 20), [WireJoint(k, k + 1, 0) for k in range(5)]
    >>> assign_bands([box] * 6, wires, range(6), LayoutMetrics(fold=400))
    [0, 0, 0, 1, 1, 1]
    """
    last = max(ranks, default=-1)
    if not metrics.fold or last < 1:
        return [0] * (last + 1)
    starts = [0, *accumulate(_estimate_pitches(shapes, joints, ranks, metrics))]
    count = min(-(-starts[-1] // metrics.fold), last + 1)
    wires = _count_passing_values(shapes, joints, ranks)
    cuts: list[int] = []
    for k in range(1, count):
        ideal = starts[-1] * k / count
        first = cuts[-1] + 1 if cuts else 1
        free = range(first, last + 2 - (count - k))
        near = [rank for rank in free if abs(starts[rank] - ideal) <= CUT_REACH * starts[-1] / count]
        # First as few cut wires and groups as possible, then bands of equal length.
        choice = near or [min(free, key=lambda rank: abs(starts[rank] - ideal))]
        cuts.append(min(choice, key=lambda rank: (wires[rank], abs(starts[rank] - ideal))))
    return [sum(rank >= cut for cut in cuts) for rank in range(last + 1)]


def move_leaves_to_readers(
    joints: Sequence[WireJoint], ranks: Sequence[int], cut: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return ranks and bands in which every leaf is in the band of its first reader.

    A leaf that would be in an earlier band moves to a new rank at the start of the reader's band.

    >>> move_leaves_to_readers([WireJoint(0, 1, 0), WireJoint(1, 3, 0), WireJoint(2, 3, 1)], [0, 1, 1, 2], [0, 0, 1])
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    first: dict[int, int] = {}
    for joint in joints:
        first[joint.source] = min(first.get(joint.source, ranks[joint.target]), ranks[joint.target])
    late = {*first} - {joint.target for joint in joints}
    late = {box for box in late if cut[first[box]] != cut[ranks[box]]}
    starts = {cut[first[box]]: cut.index(cut[first[box]]) for box in late}
    shift = [sum(start <= rank for start in starts.values()) for rank in range(len(cut))]
    new_ranks = [
        first[box] + shift[first[box]] - 1 if box in late else rank + shift[rank] for box, rank in enumerate(ranks)
    ]
    new_bands = [band for rank, band in enumerate(cut) for _ in range(1 + (starts.get(band) == rank))]
    return _drop_empty_ranks(new_ranks, new_bands)


def _drop_empty_ranks(ranks: Sequence[int], bands: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return ranks and bands without ranks whose leaves have all moved, and without bands that are then empty."""
    taken = sorted({*ranks})
    place = {rank: k for k, rank in enumerate(taken)}
    kept = sorted({bands[rank] for rank in taken})
    return [place[rank] for rank in ranks], [kept.index(bands[rank]) for rank in taken]


def _estimate_pitches(
    shapes: Sequence[BoxShape], joints: Sequence[WireJoint], ranks: Sequence[int], metrics: LayoutMetrics
) -> list[int]:
    """Estimate the room that each rank takes along, with the gap before it."""
    boxes = [0] * (max(ranks) + 1)
    labels = [0] * (max(ranks) + 1)
    for shape, rank in zip(shapes, ranks, strict=True):
        boxes[rank] = max(boxes[rank], shape.along + shape.after)
    for joint in joints:
        rank = ranks[joint.target]
        labels[rank] = max(labels[rank], joint.label)
    return [box + label + 2 * metrics.lead + GUESSED_TRACKS_ROOM for box, label in zip(boxes, labels, strict=True)]


def _count_passing_values(shapes: Sequence[BoxShape], joints: Sequence[WireJoint], ranks: Sequence[int]) -> list[int]:
    """Count the values and groups that pass the start of each rank; wires into splitters count more."""
    ends: dict[int, int] = {}
    change = [0] * (max(ranks) + 2)
    for joint in joints:
        ends[joint.source] = max(ends.get(joint.source, 0), ranks[joint.target])
        if shapes[joint.target].splitter:
            change[ranks[joint.source] + 1] += SPLITTER_CUT_COST
            change[ranks[joint.target] + 1] -= SPLITTER_CUT_COST
    spans = [(ranks[source], end) for source, end in ends.items()]
    for first, last in [*spans, *_find_group_ranks(shapes, ranks)]:
        change[first + 1] += 1
        change[last + 1] -= 1
    return [*accumulate(change)]


def _find_group_ranks(shapes: Sequence[BoxShape], ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return the first and last rank of every group."""
    spans: dict[str, tuple[int, int]] = {}
    for shape, rank in zip(shapes, ranks, strict=True):
        parts = [*filter(None, shape.group.split("/"))]
        for k in range(len(parts)):
            path = "/".join(parts[: k + 1])
            first, last = spans.get(path, (rank, rank))
            spans[path] = min(first, rank), max(last, rank)
    yield from spans.values()


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
        """Bends, rank by rank: those of one wire, or those that the many wires of one box share."""
        readers = Counter(joint.source for joint in joints)
        shared = {source for source, count in readers.items() if count > MAX_OWN_BENDS}
        self.bends = [
            self._add_bends(joint, joint.source if joint.source in shared else self.boxes + wire)
            for wire, joint in enumerate(joints)
        ]
        """The bends of every wire; None for a stub."""
        self.rows = self._build_rows()
        self.labels = [0] * len(self.rows)
        """The room that the labels before each rank need."""
        self.after = [shape.after for shape in shapes]
        """The room that each box needs behind it."""
        self._reserve_labels()
        self.sizes = [*(shape.room_across for shape in shapes), *(0 for _ in range(len(self.rank) - self.boxes))]
        """The room that each item needs across, around its middle."""
        self.below = [*(shape.below for shape in shapes), *(0 for _ in range(len(self.rank) - self.boxes))]
        """The additional room that each item needs on its far side."""
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

    def _add_bends(self, joint: WireJoint, key: int) -> list[int] | None:
        """Give a wire a bend in each rank that it skips; wires with the same key share their bends, as a trunk."""
        first = self.rank[joint.source]
        last = self.rank[joint.target]
        if last - first > MAX_WIRE_RANKS or self.bands[first] != self.bands[last]:
            return None
        trunk = self.trunks.setdefault(key, [])
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
        return before - before // 2 + self.below[one] + gap + self.sizes[two] // 2

    def end_of(self, item: int) -> int:
        """Return where the room of an item ends across."""
        return int(self.middle[item]) - self.sizes[item] // 2 + self.sizes[item] + self.below[item]

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
