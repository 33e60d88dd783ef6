"""Frames around the groups that are open in a picture.

A frame is a rectangle where nothing of others lies in it, and else follows its boxes from rank to rank. Kept true: a
frame holds all boxes of its group in a band and no others, and frames do not cross, unless one group is in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

from wiregrad.export.boxes import Kind, Picture
from wiregrad.export.figure import Figure, Rect, turned

SIDE, TOP = 6, 15
"""How far a frame is from its boxes, and from the first of them, where its name stands."""
SIDE_STEP, TOP_STEP = 5, 14
"""How much farther for every level of groups inside."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a group in one band: the columns it consists of, from the first to the last."""

    path: str
    columns: tuple[Rect, ...]

    def outline(self, down: bool) -> list[tuple[int, int]]:
        """Return its corners, once around; columns follow each other in the direction in which values flow."""
        there, back = list[tuple[int, int]](), list[tuple[int, int]]()
        for column in self.columns:
            start, end = _span(column, down)
            low, high = _across(column, down)
            there += [(start, low), (end, low)]
            back = [(end, high), (start, high), *back]
        return [turned(point, down) for point in _without_straight([*there, *back])]

    def meets(self, other: Rect) -> bool:
        """Return whether a box lies in it, if only in part."""
        return any(column.meets(other) for column in self.columns)


def frames(shown: Figure) -> list[Frame]:
    """Return the frames of the open groups, outer ones first, where there is room for them."""
    made: list[Frame] = []
    stops, levels = _stops(shown), _levels(shown.picture)
    for path, inside in groups_of(shown.picture):
        for band in sorted({*compress(shown.bands, inside)}):
            here = [k for k, is_in in enumerate(inside) if is_in and shown.bands[k] == band]
            found = _framed(_Around(shown, here, stops, levels[path]), path, made, whole=True)
            # What does not hang together may stand anywhere, so each part of it has a frame.
            parts = _parts(shown.picture, path, here) if found is None else []
            tried = (_framed(_Around(shown, part, stops, levels[path]), path, made, whole=False) for part in parts)
            made += filter(None, (found, *tried))
    return made


def _framed(around: _Around, path: str, made: Sequence[Frame], *, whole: bool) -> Frame | None:
    """Return a frame that nothing else is in: one that is a rectangle, or else one that follows its boxes."""
    outer = [frame for frame in made if f"{path}/".startswith(f"{frame.path}/")]
    others = [*around.others, *(column for frame in made if frame not in outer for column in frame.columns)]
    for frame in (Frame(path, tuple(around.columns(whole=True))), Frame(path, tuple(around.columns(whole=False)))):
        stepped = any(len(frame_.columns) > 1 and frame_.meets(frame.columns[0]) for frame_ in outer)
        rectangle = len(frame.columns) == 1
        if not (rectangle and stepped) and not any(map(frame.meets, others)):
            return frame
        if whole:
            return None
    return None


def unframed(shown: Figure, framed: Sequence[Frame]) -> int:
    """Return how many open groups have boxes that hang together and yet no frame."""
    known = {frame.path for frame in framed}
    return sum(
        bool(_parts(shown.picture, path, [k for k, is_in in enumerate(inside) if is_in]))
        for path, inside in groups_of(shown.picture)
        if path not in known
    )


def _parts(picture: Picture, path: str, boxes: Sequence[int]) -> list[list[int]]:
    """Return the parts of a group that hang together, those with more than one box of its own."""
    part = {box: box for box in boxes}

    def first(box: int) -> int:
        while part[box] != box:
            part[box] = part[part[box]]
            box = part[box]
        return box

    for link in picture.links:
        if link.source in part and link.target in part:
            one, two = sorted((first(link.source), first(link.target)))
            part[two] = one
    found: dict[int, list[int]] = {}
    for box in boxes:
        found.setdefault(first(box), []).append(box)
    own = [f"{box.group}/".startswith(f"{path}/") for box in picture.boxes]
    return [some for some in found.values() if sum(own[box] for box in some) > 1]


def groups_of(picture: Picture) -> Iterator[tuple[str, list[bool]]]:
    """Walk the open groups that have several boxes, with which boxes they have."""
    leaving: list[list[int]] = [[] for _ in picture.boxes]
    for link in picture.links:
        leaving[link.source].append(link.target)
    for path in picture.groups():
        found = _members(picture, path, leaving)
        if sum(found) > 1:
            yield path, found


def _members(picture: Picture, path: str, leaving: Sequence[Sequence[int]]) -> list[bool]:
    """Return which boxes belong into a group: its own, and leaves that nothing outside it reads."""
    found = [f"{box.group}/".startswith(f"{path}/") for box in picture.boxes]
    for k in reversed(range(len(found))):
        passive = picture.boxes[k].is_leaf or picture.boxes[k].kind is Kind.SPLIT
        if passive and leaving[k]:
            found[k] = all(found[reader] for reader in leaving[k])
    return found


def _levels(picture: Picture) -> dict[str, int]:
    """Return how many levels of groups are inside each."""
    found: dict[str, int] = {}
    for path in picture.groups():
        parts = path.split("/")
        for k in range(len(parts)):
            outer = "/".join(parts[: k + 1])
            found[outer] = max(found.get(outer, 0), len(parts) - 1 - k)
    return found


def _stops(shown: Figure) -> dict[int, tuple[int, int]]:
    """Return where each rank begins and ends along, half the gaps around it included."""
    extents: dict[int, tuple[int, int]] = {}
    for rank, rect in zip(shown.ranks, shown.rects, strict=True):
        start, end = _span(rect, shown.down)
        low, high = extents.get(rank, (start, end))
        extents[rank] = min(low, start), max(high, end)
    band = dict(zip(shown.ranks, shown.bands, strict=True))
    found = {rank: (low - SIDE - SIDE_STEP, high + SIDE + SIDE_STEP) for rank, (low, high) in extents.items()}
    for one, two in pairwise(sorted(extents)):
        if band[one] == band[two]:
            middle = (extents[one][1] + extents[two][0]) // 2
            found[one], found[two] = (found[one][0], middle), (middle, found[two][1])
    return found


class _Around:
    """Makes the columns of the frame around some boxes."""

    def __init__(self, shown: Figure, inside: Sequence[int], stops: dict[int, tuple[int, int]], level: int) -> None:
        self.stops, self.down = stops, shown.down
        self.side = SIDE + SIDE_STEP * level
        # The name stands at the top of the page, whichever way values flow.
        top = TOP + TOP_STEP * level
        self.before = (top, self.side) if self.down else (self.side, top)
        members = {*inside}
        self.others = [rect for k, rect in enumerate(shown.rects) if k not in members]
        self.ranks: dict[int, list[Rect]] = {}
        for k in inside:
            self.ranks.setdefault(shown.ranks[k], []).append(shown.rects[k])

    def columns(self, *, whole: bool) -> list[Rect]:
        """Return one column for all ranks, or one for each."""
        ranks = sorted(self.ranks)
        ends = [_span(rect, self.down) for rect in self.ranks[ranks[0]] + self.ranks[ranks[-1]]]
        start = max(min(low for low, _ in ends) - self.before[0], self.stops[ranks[0]][0])
        end = min(max(high for _, high in ends) + self.side, self.stops[ranks[-1]][1])
        if whole:
            return [self._column(start, end, [rect for rank in ranks for rect in self.ranks[rank]])]
        cuts = [start, *(self.stops[rank][0] for rank in ranks[1:]), end]
        found = [self._column(a, b, self.ranks[rank]) for (a, b), rank in zip(pairwise(cuts), ranks, strict=True)]
        return self._joined(found)

    def _column(self, start: int, end: int, rects: Sequence[Rect]) -> Rect:
        low = min(_across(rect, self.down)[0] for rect in rects) - self.before[1]
        high = max(_across(rect, self.down)[1] for rect in rects) + self.side
        x, y = turned((start, low), self.down)
        return Rect(x, y, *turned((end - start, high - low), self.down))

    def _joined(self, columns: Sequence[Rect]) -> list[Rect]:
        """Let every column reach to where the one before it is, so that they hang together."""
        found = [columns[0]]
        for column in columns[1:]:
            (low, high), (first, last) = _across(found[-1], self.down), _across(column, self.down)
            low, high = min(first, high - 2 * SIDE), max(last, low + 2 * SIDE)
            start, end = _span(column, self.down)
            x, y = turned((start, low), self.down)
            found.append(Rect(x, y, *turned((end - start, high - low), self.down)))
        return found


def _span(rect: Rect, down: bool) -> tuple[int, int]:
    return (rect.y, rect.y + rect.height) if down else (rect.x, rect.x + rect.width)


def _across(rect: Rect, down: bool) -> tuple[int, int]:
    return (rect.x, rect.x + rect.width) if down else (rect.y, rect.y + rect.height)


def _without_straight(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the corners of an outline without those at which it does not turn."""
    found: list[tuple[int, int]] = []
    for k, point in enumerate(points):
        before, behind = points[k - 1], points[(k + 1) % len(points)]
        if point == behind:
            continue
        straight = before[0] == point[0] == behind[0] or before[1] == point[1] == behind[1]
        if not straight:
            found.append(point)
    return found
