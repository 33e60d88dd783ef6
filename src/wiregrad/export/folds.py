"""Where a layout that is too long is cut into bands, which then stand below each other.

Only sizes and ranks are known here, so the extent of a gap is guessed from its labels. Kept true: every band has a
rank, and no rank is in two bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from wiregrad.export.shapes import Joint, Metrics, Shape

GUESS = 18
"""How much room the tracks of a gap take, as a guess."""
REACH = 0.25
"""How far from its best place a cut may be, as a share of a band."""
DOT = 3
"""How much worse it is to cut a splitter off its value than to cut another wire."""


def bands(shapes: Sequence[Shape], joints: Sequence[Joint], ranks: Sequence[int], metrics: Metrics) -> list[int]:
    """Return the band of every rank.

    >>> box, wires = Shape(80, 20), [Joint(k, k + 1, 0) for k in range(5)]
    >>> bands([box] * 6, wires, range(6), Metrics(fold=400))
    [0, 0, 0, 1, 1, 1]
    """
    last = max(ranks, default=-1)
    if not metrics.fold or last < 1:
        return [0] * (last + 1)
    starts = [0, *accumulate(_pitches(shapes, joints, ranks, metrics))]
    number = min(-(-starts[-1] // metrics.fold), last + 1)
    wires = _crossing(shapes, joints, ranks)
    cuts: list[int] = []
    for k in range(1, number):
        ideal = starts[-1] * k / number
        first = cuts[-1] + 1 if cuts else 1
        free = range(first, last + 2 - (number - k))
        near = [rank for rank in free if abs(starts[rank] - ideal) <= REACH * starts[-1] / number]
        # Few wires and groups that are cut come first, then bands of equal length.
        choice = near or [min(free, key=lambda rank: abs(starts[rank] - ideal))]
        cuts.append(min(choice, key=lambda rank: (wires[rank], abs(starts[rank] - ideal))))
    return [sum(rank >= cut for cut in cuts) for rank in range(last + 1)]


def leaves_along(joints: Sequence[Joint], ranks: Sequence[int], cut: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return ranks and bands with what reads nothing in the band of its first reader, in a rank of its own before it.

    >>> leaves_along([Joint(0, 1, 0), Joint(1, 3, 0), Joint(2, 3, 1)], [0, 1, 1, 2], [0, 0, 1])
    ([0, 1, 2, 3], [0, 0, 1, 1])
    """
    first: dict[int, int] = {}
    for joint in joints:
        first[joint.source] = min(first.get(joint.source, ranks[joint.target]), ranks[joint.target])
    late = {*first} - {joint.target for joint in joints}
    late = {box for box in late if cut[first[box]] != cut[ranks[box]]}
    starts = {cut[first[box]]: cut.index(cut[first[box]]) for box in late}
    moved = [sum(start <= rank for start in starts.values()) for rank in range(len(cut))]
    found = [
        first[box] + moved[first[box]] - 1 if box in late else rank + moved[rank] for box, rank in enumerate(ranks)
    ]
    wider = [band for rank, band in enumerate(cut) for _ in range(1 + (starts.get(band) == rank))]
    return found, wider


def _pitches(shapes: Sequence[Shape], joints: Sequence[Joint], ranks: Sequence[int], metrics: Metrics) -> list[int]:
    """Return about how much room each rank takes along, with the gap before it."""
    boxes, labels = [0] * (max(ranks) + 1), [0] * (max(ranks) + 1)
    for shape, rank in zip(shapes, ranks, strict=True):
        boxes[rank] = max(boxes[rank], shape.along + shape.after)
    for joint in joints:
        rank = ranks[joint.target]
        labels[rank] = max(labels[rank], joint.label)
    return [box + label + 2 * metrics.lead + GUESS for box, label in zip(boxes, labels, strict=True)]


def _crossing(shapes: Sequence[Shape], joints: Sequence[Joint], ranks: Sequence[int]) -> list[int]:
    """Return how many values and groups pass the start of each rank; values that splitters wait for count more."""
    ends: dict[int, int] = {}
    change = [0] * (max(ranks) + 2)
    for joint in joints:
        ends[joint.source] = max(ends.get(joint.source, 0), ranks[joint.target])
        if shapes[joint.target].splitter:
            change[ranks[joint.source] + 1] += DOT
            change[ranks[joint.target] + 1] -= DOT
    spans = [(ranks[source], end) for source, end in ends.items()]
    for first, last in [*spans, *_groups(shapes, ranks)]:
        change[first + 1] += 1
        change[last + 1] -= 1
    return [*accumulate(change)]


def _groups(shapes: Sequence[Shape], ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Walk the groups with their first and last rank."""
    found: dict[str, tuple[int, int]] = {}
    for shape, rank in zip(shapes, ranks, strict=True):
        parts = [*filter(None, shape.group.split("/"))]
        for k in range(len(parts)):
            path = "/".join(parts[: k + 1])
            first, last = found.get(path, (rank, rank))
            found[path] = min(first, rank), max(last, rank)
    yield from found.values()
