"""Where a layout that is too long is cut into bands, which then stand below each other.

Only sizes and ranks are known here, so the extent of a gap is guessed from its labels. Kept true: every band has a
rank, and no rank is in two bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from wiregrad.export.shapes import WireJoint, LayoutMetrics, BoxShape

GUESSED_TRACKS_ROOM = 18
"""The room that the tracks of a gap are estimated to take."""
CUT_REACH = 0.25
"""Maximum distance of a cut from the place that makes bands equal, as a share of a band."""
SPLITTER_CUT_COST = 3
"""How many other wires a wire into a splitter counts for: a splitter should stay in the band of its value."""


def assign_bands(shapes: Sequence[BoxShape], joints: Sequence[WireJoint], ranks: Sequence[int], metrics: LayoutMetrics) -> list[int]:
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


def move_leaves_to_readers(joints: Sequence[WireJoint], ranks: Sequence[int], cut: Sequence[int]) -> tuple[list[int], list[int]]:
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
    return new_ranks, new_bands


def _estimate_pitches(shapes: Sequence[BoxShape], joints: Sequence[WireJoint], ranks: Sequence[int], metrics: LayoutMetrics) -> list[int]:
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
