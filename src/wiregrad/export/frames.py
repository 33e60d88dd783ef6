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

SIDE = 6
"""Distance of a frame from its boxes."""
TOP = 15
"""Distance at the top of the frame, where its name stands."""
SIDE_STEP = 5
"""Additional distance for every level of groups inside."""
TOP_STEP = 14
"""Additional distance at the top for every level of groups inside."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a group in one band, as the columns it consists of."""

    path: str
    columns: tuple[Rect, ...]

    def outline(self, down: bool) -> list[tuple[int, int]]:
        """Return its corners, once around; columns are in the direction in which values flow."""
        there: list[tuple[int, int]] = []
        back: list[tuple[int, int]] = []
        for column in self.columns:
            start, end = _span(column, down)
            low, high = _across(column, down)
            there += [(start, low), (end, low)]
            back = [(end, high), (start, high), *back]
        return [turned(point, down) for point in _without_straight([*there, *back])]

    def meets(self, other: Rect) -> bool:
        """Return whether part of a rectangle is inside the frame."""
        return any(column.meets(other) for column in self.columns)


def frames(shown: Figure) -> list[Frame]:
    """Return the frames of the open groups, outer ones first; groups without room for a frame have none."""
    made: list[Frame] = []
    stops = _stops(shown)
    levels = _levels(shown.picture)
    for path, inside in groups_of(shown.picture):
        for band in sorted({*compress(shown.bands, inside)}):
            here = [k for k, is_in in enumerate(inside) if is_in and shown.bands[k] == band]
            frame = _framed(_Around(shown, here, stops, levels[path]), path, made, whole=True)
            # Parts of a group that no wire connects may be far apart, so each part has a frame.
            parts = _parts(shown.picture, path, here) if frame is None else []
            tried = (_framed(_Around(shown, part, stops, levels[path]), path, made, whole=False) for part in parts)
            made += filter(None, (frame, *tried))
    return made


def _framed(around: _Around, path: str, made: Sequence[Frame], *, whole: bool) -> Frame | None:
    """Return a frame with nothing else inside: a rectangle, or one that follows its boxes; None if neither works.

    With `whole` only the rectangle is tried.
    """
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
    """Return how many open groups have connected boxes but no frame."""
    known = {frame.path for frame in framed}
    return sum(
        bool(_parts(shown.picture, path, [k for k, is_in in enumerate(inside) if is_in]))
        for path, inside in groups_of(shown.picture)
        if path not in known
    )


def _parts(picture: Picture, path: str, boxes: Sequence[int]) -> list[list[int]]:
    """Return the connected parts of a group that have more than one box of its own."""
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
    connected: dict[int, list[int]] = {}
    for box in boxes:
        connected.setdefault(first(box), []).append(box)
    own = [f"{box.group}/".startswith(f"{path}/") for box in picture.boxes]
    return [some for some in connected.values() if sum(own[box] for box in some) > 1]


def groups_of(picture: Picture) -> Iterator[tuple[str, list[bool]]]:
    """Return the open groups that have several boxes, each with a mask of its boxes."""
    leaving: list[list[int]] = [[] for _ in picture.boxes]
    for link in picture.links:
        leaving[link.source].append(link.target)
    for path in picture.groups():
        members = _members(picture, path, leaving)
        if sum(members) > 1:
            yield path, members


def _members(picture: Picture, path: str, leaving: Sequence[Sequence[int]]) -> list[bool]:
    """Return a mask of the boxes of a group: its own, and leaves that nothing outside the group reads."""
    members = [f"{box.group}/".startswith(f"{path}/") for box in picture.boxes]
    for k in reversed(range(len(members))):
        passive = picture.boxes[k].is_leaf or picture.boxes[k].kind is Kind.SPLIT
        if passive and leaving[k]:
            members[k] = all(members[reader] for reader in leaving[k])
    return members


def _levels(picture: Picture) -> dict[str, int]:
    """Return how many levels of groups are inside each group."""
    levels: dict[str, int] = {}
    for path in picture.groups():
        parts = path.split("/")
        for k in range(len(parts)):
            outer = "/".join(parts[: k + 1])
            levels[outer] = max(levels.get(outer, 0), len(parts) - 1 - k)
    return levels


def _stops(shown: Figure) -> dict[int, tuple[int, int]]:
    """Return the start and end of each rank along, with half of the gaps around it."""
    extents: dict[int, tuple[int, int]] = {}
    for rank, rect in zip(shown.ranks, shown.rects, strict=True):
        start, end = _span(rect, shown.down)
        low, high = extents.get(rank, (start, end))
        extents[rank] = min(low, start), max(high, end)
    band = dict(zip(shown.ranks, shown.bands, strict=True))
    stops = {rank: (low - SIDE - SIDE_STEP, high + SIDE + SIDE_STEP) for rank, (low, high) in extents.items()}
    for one, two in pairwise(sorted(extents)):
        if band[one] == band[two]:
            middle = (extents[one][1] + extents[two][0]) // 2
            stops[one] = (stops[one][0], middle)
            stops[two] = (middle, stops[two][1])
    return stops


class _Around:
    """Makes the columns of the frame around some boxes."""

    def __init__(self, shown: Figure, inside: Sequence[int], stops: dict[int, tuple[int, int]], level: int) -> None:
        self.stops = stops
        self.down = shown.down
        self.side = SIDE + SIDE_STEP * level
        # The name of a group is at the top of its frame, whichever way values flow.
        top = TOP + TOP_STEP * level
        self.before = (top, self.side) if self.down else (self.side, top)
        members = {*inside}
        self.others = [rect for k, rect in enumerate(shown.rects) if k not in members]
        self.ranks: dict[int, list[Rect]] = {}
        for k in inside:
            self.ranks.setdefault(shown.ranks[k], []).append(shown.rects[k])

    def columns(self, *, whole: bool) -> list[Rect]:
        """Return one column for all ranks (`whole`), or one for each rank."""
        ranks = sorted(self.ranks)
        ends = [_span(rect, self.down) for rect in self.ranks[ranks[0]] + self.ranks[ranks[-1]]]
        start = max(min(low for low, _ in ends) - self.before[0], self.stops[ranks[0]][0])
        end = min(max(high for _, high in ends) + self.side, self.stops[ranks[-1]][1])
        if whole:
            return [self._column(start, end, [rect for rank in ranks for rect in self.ranks[rank]])]
        cuts = [start, *(self.stops[rank][0] for rank in ranks[1:]), end]
        columns = [self._column(a, b, self.ranks[rank]) for (a, b), rank in zip(pairwise(cuts), ranks, strict=True)]
        return self._joined(columns)

    def _column(self, start: int, end: int, rects: Sequence[Rect]) -> Rect:
        low = min(_across(rect, self.down)[0] for rect in rects) - self.before[1]
        high = max(_across(rect, self.down)[1] for rect in rects) + self.side
        x, y = turned((start, low), self.down)
        return Rect(x, y, *turned((end - start, high - low), self.down))

    def _joined(self, columns: Sequence[Rect]) -> list[Rect]:
        """Extend every column until it touches the one before it, so that the frame is connected."""
        connected = [columns[0]]
        for column in columns[1:]:
            first, last = _across(connected[-1], self.down)
            low, high = _across(column, self.down)
            low = min(low, last - 2 * SIDE)
            high = max(high, first + 2 * SIDE)
            start, end = _span(column, self.down)
            x, y = turned((start, low), self.down)
            connected.append(Rect(x, y, *turned((end - start, high - low), self.down)))
        return connected


def _span(rect: Rect, down: bool) -> tuple[int, int]:
    """Return the start and end of a rectangle in the direction in which values flow."""
    return (rect.y, rect.y + rect.height) if down else (rect.x, rect.x + rect.width)


def _across(rect: Rect, down: bool) -> tuple[int, int]:
    """Return the start and end of a rectangle in the other direction."""
    return (rect.x, rect.x + rect.width) if down else (rect.y, rect.y + rect.height)


def _without_straight(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the corners of an outline without those at which it does not turn."""
    corners: list[tuple[int, int]] = []
    for k, point in enumerate(points):
        before = points[k - 1]
        behind = points[(k + 1) % len(points)]
        if point == behind:
            continue
        straight = before[0] == point[0] == behind[0] or before[1] == point[1] == behind[1]
        if not straight:
            corners.append(point)
    return corners
