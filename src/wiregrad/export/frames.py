"""Frames around the groups that are open in a picture.

A frame is a rectangle where nothing of others lies in it, and else follows its boxes from rank to rank. Kept true: a
frame holds all boxes of its group in a band and no others, and frames do not cross, unless one group is in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

from wiregrad.export.boxes import BoxKind, Picture
from wiregrad.export.figure import PlacedPicture, Rect, swap_axes

FRAME_SIDE_MARGIN = 6
"""Distance of a frame from its boxes."""
FRAME_TOP_MARGIN = 15
"""Distance at the top of the frame, where its name stands."""
FRAME_SIDE_STEP = 5
"""Additional distance for every level of groups inside."""
FRAME_TOP_STEP = 14
"""Additional distance at the top for every level of groups inside."""


@dataclass(frozen=True, slots=True)
class GroupFrame:
    """The frame of a group in one band, as the columns it consists of."""

    path: str
    columns: tuple[Rect, ...]

    def trace_outline(self, down: bool) -> list[tuple[int, int]]:
        """Return its corners, once around; columns are in the direction in which values flow."""
        there: list[tuple[int, int]] = []
        back: list[tuple[int, int]] = []
        for column in self.columns:
            start, end = _span_along(column, down)
            low, high = _span_across(column, down)
            there += [(start, low), (end, low)]
            back = [(end, high), (start, high), *back]
        return [swap_axes(point, down) for point in _drop_straight_corners([*there, *back])]

    def overlaps(self, other: Rect) -> bool:
        """Return whether part of a rectangle is inside the frame."""
        return any(column.overlaps(other) for column in self.columns)


def build_group_frames(shown: PlacedPicture) -> list[GroupFrame]:
    """Return the frames of the open groups, outer ones first; groups without room for a frame have none."""
    made: list[GroupFrame] = []
    stops = _find_rank_spans(shown)
    levels = _count_inner_levels(shown.picture)
    for path, inside in find_groups_to_frame(shown.picture):
        for band in sorted({*compress(shown.bands, inside)}):
            here = [k for k, is_in in enumerate(inside) if is_in and shown.bands[k] == band]
            frame = _fit_frame(_FrameBuilder(shown, here, stops, levels[path]), path, made, whole=True)
            # Parts of a group that no wire connects may be far apart, so each part has a frame.
            parts = _find_connected_parts(shown.picture, path, here) if frame is None else []
            tried = (_fit_frame(_FrameBuilder(shown, part, stops, levels[path]), path, made, whole=False) for part in parts)
            made += filter(None, (frame, *tried))
    return made


def _fit_frame(around: _FrameBuilder, path: str, made: Sequence[GroupFrame], *, whole: bool) -> GroupFrame | None:
    """Return a frame with nothing else inside: a rectangle, or one that follows its boxes; None if neither works.

    With `whole` only the rectangle is tried.
    """
    outer = [frame for frame in made if f"{path}/".startswith(f"{frame.path}/")]
    others = [*around.others, *(column for frame in made if frame not in outer for column in frame.columns)]
    for frame in (GroupFrame(path, tuple(around.make_columns(whole=True))), GroupFrame(path, tuple(around.make_columns(whole=False)))):
        stepped = any(len(frame_.columns) > 1 and frame_.overlaps(frame.columns[0]) for frame_ in outer)
        rectangle = len(frame.columns) == 1
        if not (rectangle and stepped) and not any(map(frame.overlaps, others)):
            return frame
        if whole:
            return None
    return None


def count_unframed_groups(shown: PlacedPicture, framed: Sequence[GroupFrame]) -> int:
    """Return how many open groups have connected boxes but no frame."""
    known = {frame.path for frame in framed}
    return sum(
        bool(_find_connected_parts(shown.picture, path, [k for k, is_in in enumerate(inside) if is_in]))
        for path, inside in find_groups_to_frame(shown.picture)
        if path not in known
    )


def _find_connected_parts(picture: Picture, path: str, boxes: Sequence[int]) -> list[list[int]]:
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


def find_groups_to_frame(picture: Picture) -> Iterator[tuple[str, list[bool]]]:
    """Return the open groups that have several boxes, each with a mask of its boxes."""
    leaving: list[list[int]] = [[] for _ in picture.boxes]
    for link in picture.links:
        leaving[link.source].append(link.target)
    for path in picture.open_groups():
        members = _find_group_members(picture, path, leaving)
        if sum(members) > 1:
            yield path, members


def _find_group_members(picture: Picture, path: str, leaving: Sequence[Sequence[int]]) -> list[bool]:
    """Return a mask of the boxes of a group: its own, and leaves that nothing outside the group reads."""
    members = [f"{box.group}/".startswith(f"{path}/") for box in picture.boxes]
    for k in reversed(range(len(members))):
        passive = picture.boxes[k].is_leaf or picture.boxes[k].kind is BoxKind.SPLIT
        if passive and leaving[k]:
            members[k] = all(members[reader] for reader in leaving[k])
    return members


def _count_inner_levels(picture: Picture) -> dict[str, int]:
    """Return how many levels of groups are inside each group."""
    levels: dict[str, int] = {}
    for path in picture.open_groups():
        parts = path.split("/")
        for k in range(len(parts)):
            outer = "/".join(parts[: k + 1])
            levels[outer] = max(levels.get(outer, 0), len(parts) - 1 - k)
    return levels


def _find_rank_spans(shown: PlacedPicture) -> dict[int, tuple[int, int]]:
    """Return the start and end of each rank along, with half of the gaps around it."""
    extents: dict[int, tuple[int, int]] = {}
    for rank, rect in zip(shown.ranks, shown.rects, strict=True):
        start, end = _span_along(rect, shown.down)
        low, high = extents.get(rank, (start, end))
        extents[rank] = min(low, start), max(high, end)
    band = dict(zip(shown.ranks, shown.bands, strict=True))
    stops = {rank: (low - FRAME_SIDE_MARGIN - FRAME_SIDE_STEP, high + FRAME_SIDE_MARGIN + FRAME_SIDE_STEP) for rank, (low, high) in extents.items()}
    for one, two in pairwise(sorted(extents)):
        if band[one] == band[two]:
            middle = (extents[one][1] + extents[two][0]) // 2
            stops[one] = (stops[one][0], middle)
            stops[two] = (middle, stops[two][1])
    return stops


class _FrameBuilder:
    """Makes the columns of the frame around some boxes."""

    def __init__(self, shown: PlacedPicture, inside: Sequence[int], stops: dict[int, tuple[int, int]], level: int) -> None:
        self.stops = stops
        self.down = shown.down
        self.side = FRAME_SIDE_MARGIN + FRAME_SIDE_STEP * level
        # The name of a group is at the top of its frame, whichever way values flow.
        top = FRAME_TOP_MARGIN + FRAME_TOP_STEP * level
        self.before = (top, self.side) if self.down else (self.side, top)
        members = {*inside}
        self.others = [rect for k, rect in enumerate(shown.rects) if k not in members]
        self.ranks: dict[int, list[Rect]] = {}
        for k in inside:
            self.ranks.setdefault(shown.ranks[k], []).append(shown.rects[k])

    def make_columns(self, *, whole: bool) -> list[Rect]:
        """Return one column for all ranks (`whole`), or one for each rank."""
        ranks = sorted(self.ranks)
        ends = [_span_along(rect, self.down) for rect in self.ranks[ranks[0]] + self.ranks[ranks[-1]]]
        start = max(min(low for low, _ in ends) - self.before[0], self.stops[ranks[0]][0])
        end = min(max(high for _, high in ends) + self.side, self.stops[ranks[-1]][1])
        if whole:
            return [self._make_column(start, end, [rect for rank in ranks for rect in self.ranks[rank]])]
        cuts = [start, *(self.stops[rank][0] for rank in ranks[1:]), end]
        columns = [self._make_column(a, b, self.ranks[rank]) for (a, b), rank in zip(pairwise(cuts), ranks, strict=True)]
        return self._connect_columns(columns)

    def _make_column(self, start: int, end: int, rects: Sequence[Rect]) -> Rect:
        low = min(_span_across(rect, self.down)[0] for rect in rects) - self.before[1]
        high = max(_span_across(rect, self.down)[1] for rect in rects) + self.side
        x, y = swap_axes((start, low), self.down)
        return Rect(x, y, *swap_axes((end - start, high - low), self.down))

    def _connect_columns(self, columns: Sequence[Rect]) -> list[Rect]:
        """Extend every column until it touches the one before it, so that the frame is connected."""
        connected = [columns[0]]
        for column in columns[1:]:
            first, last = _span_across(connected[-1], self.down)
            low, high = _span_across(column, self.down)
            low = min(low, last - 2 * FRAME_SIDE_MARGIN)
            high = max(high, first + 2 * FRAME_SIDE_MARGIN)
            start, end = _span_along(column, self.down)
            x, y = swap_axes((start, low), self.down)
            connected.append(Rect(x, y, *swap_axes((end - start, high - low), self.down)))
        return connected


def _span_along(rect: Rect, down: bool) -> tuple[int, int]:
    """Return the start and end of a rectangle in the direction in which values flow."""
    return (rect.y, rect.y + rect.height) if down else (rect.x, rect.x + rect.width)


def _span_across(rect: Rect, down: bool) -> tuple[int, int]:
    """Return the start and end of a rectangle in the other direction."""
    return (rect.x, rect.x + rect.width) if down else (rect.y, rect.y + rect.height)


def _drop_straight_corners(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
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
