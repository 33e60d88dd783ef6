"""The geometry of a picture in pixels: the size of every box, the labels on wires, and the frames around open groups.

A frame is a rectangle if nothing else is inside that rectangle; otherwise it follows its boxes from rank to rank.

Invariants: a frame holds all boxes of its group in a band and no others; frames do not cross, unless one group is
inside the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise

from wiregrad.draw.layout.boxes import Box, BoxKind, Picture, PictureLink
from wiregrad.draw.layout.labels import MINUS, TIMES, Reading, ReadingState, clip_end, clip_front, measure_text
from wiregrad.draw.layout.placement import BoxShape, LayoutMetrics, WireJoint, compute_layout

FONT_SIZE = 12
SMALL_FONT_SIZE = 10
MAX_NAME_COLUMNS = 22
"""Maximum width of a name in columns."""
MAX_OP_COLUMNS = 26
"""Maximum width of an op in columns."""
HEAD_HEIGHT = 24
ROW_HEIGHT = 20
BOX_PADDING = 8
HATCH_ROOM = 24
"""Width of the hatch that stays visible beside the text of a row that is not finite."""
LABELLED_PORT_PITCH = 34
"""Distance between ports whose wires have labels."""
BARE_PORT_PITCH = 12
"""Distance between ports whose wires have no labels."""
MAX_LABELLED_GROUP_WIRES = 6
"""Maximum number of wires into a group that have labels; with more wires, none of them has."""
SPLITTER_SIZE = 10
MAX_STUB_COLUMNS = 12
"""Maximum width in columns of the source's name at the end of a stub."""
MAX_DETAILED_BOXES = 24
"""Maximum number of boxes for full labels on wires; in larger pictures wires show only what no box shows."""
MAX_BAND_LENGTH = 2200
"""Maximum length of a picture before it is cut into bands."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle on the page."""

    x: int
    y: int
    width: int
    height: int

    def overlaps(self, other: Rect) -> bool:
        """Return whether two rectangles share more than an edge."""
        apart = self.x >= other.x + other.width or other.x >= self.x + self.width
        return not (apart or self.y >= other.y + other.height or other.y >= self.y + self.height)


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """A picture after layout: a rectangle for each box, and a path of points (x, y) for each wire."""

    picture: Picture
    down: bool
    width: int
    height: int
    rects: tuple[Rect, ...]
    paths: tuple[tuple[tuple[int, int], ...], ...]
    stubs: frozenset[int]
    labels: tuple[tuple[str, str], ...]
    """The labels on each wire: the local derivative, and the gradient sent back."""
    rooms: tuple[int, ...]
    """The room for labels on each wire, before its end."""
    ranks: tuple[int, ...]
    """The rank of each box."""
    bands: tuple[int, ...]
    """The band of each box."""


def place_picture(picture: Picture, *, down: bool = False) -> PlacedPicture:
    """Lay out a picture, flowing from left to right or top down."""
    labels = write_wire_labels(picture)
    ports = _assign_ports(picture)
    shapes = _make_shapes(picture, labels, down)
    joints = _make_joints(picture, labels, ports, down)
    places = compute_layout(shapes, joints, LayoutMetrics(fold=MAX_BAND_LENGTH))
    return PlacedPicture(
        picture,
        down,
        *swap_axes((places.along, places.across), down),
        tuple(
            Rect(*swap_axes(corner, down), *swap_axes((shape.along, shape.across), down))
            for corner, shape in zip(places.corners, shapes, strict=True)
        ),
        tuple(tuple(swap_axes(point, down) for point in route.points) for route in places.routes),
        frozenset(k for k, route in enumerate(places.routes) if route.stub),
        labels,
        tuple(joint.label for joint in joints),
        places.ranks,
        places.bands,
    )


def swap_axes(pair: tuple[int, int], down: bool) -> tuple[int, int]:
    """Return a pair (along, across) as (x, y), or (x, y) as (along, across)."""
    return (pair[1], pair[0]) if down else pair


def shorten_name(box: Box) -> str:
    """Return the name in the head of a box, clipped."""
    # The end of a path says most: `…neurons[2].w[1]`.
    is_path = box.kind is BoxKind.GROUP or "." in box.name
    return clip_front(box.name, MAX_NAME_COLUMNS) if is_path else clip_end(box.name, MAX_NAME_COLUMNS)


def shorten_op(box: Box) -> str:
    """Return the op in the head of a box, clipped."""
    return clip_end(typeset_text(box.text), MAX_OP_COLUMNS)


def typeset_text(text: str) -> str:
    """Return a number or an op with typographic signs: a minus, a multiplication cross, a caret for powers.

    >>> typeset_text("-1.5e-7") == chr(0x2212) + "1.5e" + chr(0x2212) + "7"
    True
    """
    return text.replace("-", MINUS).replace("**", "^").replace("*", TIMES)


@dataclass(frozen=True, slots=True)
class BoxRow:
    """One row of a box: what it shows, its text, and whether the colour scale applies."""

    what: str
    text: str
    reading: Reading
    coloured: bool = False


def list_box_rows(box: Box) -> list[BoxRow]:
    """Return the rows under the head of a box."""
    rows = [] if box.value is None else [BoxRow("data", typeset_text(box.value.text), box.value)]
    if box.grad is not None:
        what = "gradient norm" if box.kind is BoxKind.GROUP else "grad"
        # The row of the value has the shape already.
        text = box.grad.signed_text() if box.value is None else box.grad.bare_signed_text()
        rows.append(BoxRow(what, typeset_text(text), box.grad, coloured=True))
    if box.kind is BoxKind.GROUP and box.bad:
        rows.append(BoxRow("not finite", f"{box.bad:,}", Reading("", state=ReadingState.NONFINITE)))
    return rows


def write_wire_labels(picture: Picture) -> tuple[tuple[str, str], ...]:
    """Return the labels on each wire; wires into a group that has many get none."""
    arriving = [0] * len(picture.boxes)
    for link in picture.links:
        arriving[link.target] += 1
    crowded = [
        box.kind is BoxKind.GROUP and arriving[k] > MAX_LABELLED_GROUP_WIRES for k, box in enumerate(picture.boxes)
    ]
    write = _write_label if is_detailed(picture) else _write_short_label
    return tuple(
        ("", "") if crowded[link.target] else write(link, picture.boxes[link.source]) for link in picture.links
    )


def is_detailed(picture: Picture) -> bool:
    """Return whether the picture is small enough for full labels on wires."""
    return len(picture.boxes) <= MAX_DETAILED_BOXES


def _write_label(link: PictureLink, _source: Box) -> tuple[str, str]:
    """Return the local derivative and the gradient sent back; slopes of an array that are all 1 are left out."""
    plain = link.local is not None and link.local.shape and link.local.uniform_text == "1"
    local = ""
    if link.local is not None and not plain:
        slope = link.local.uniform_text or link.local.bare_text
        local = f"∂ {typeset_text(slope)}"
    sent = (
        ""
        if link.sent is None or link.sent.state is ReadingState.ABSENT
        else typeset_text(link.sent.bare_signed_text())
    )
    return local, sent


def _write_short_label(link: PictureLink, source: Box) -> tuple[str, str]:
    """Return the labels without slopes of 1, norms of slopes, and gradients that the source box shows."""
    local, sent = _write_label(link, source)
    has_slope = link.local is not None and link.local.uniform_text not in ("", "1")
    return local if has_slope else "", "" if _is_in_source(link.sent, source.grad) else sent


def _is_in_source(sent: Reading | None, grad: Reading | None) -> bool:
    """Return whether the source box shows the gradient that a wire sends back."""
    if sent is None or grad is None or sent.state is ReadingState.BLOCKED:
        return False
    return sent.says_the_same(grad)


def write_stub_name(picture: Picture, link: PictureLink) -> str:
    """Return the source's name, clipped, as it stands at the end of a stub."""
    return clip_end(picture.boxes[link.source].label, MAX_STUB_COLUMNS)


def measure_labels(texts: Sequence[str]) -> int:
    """Return the width of the labels of a wire."""
    widest = max(measure_text(text, SMALL_FONT_SIZE) for text in texts)
    return widest + 6 if widest else 0


def _assign_ports(picture: Picture) -> list[int]:
    """Return the port of its target at which each wire ends: wires into a box in the order of their slots."""
    seen = [0] * len(picture.boxes)
    ports = []
    for link in picture.links:
        ports.append(seen[link.target])
        seen[link.target] += 1
    return ports


def _make_joints(
    picture: Picture, labels: Sequence[tuple[str, str]], ports: Sequence[int], down: bool
) -> list[WireJoint]:
    """Return the wires for the layout, with room for their labels and arrows."""
    joints = []
    for link, texts, port in zip(picture.links, labels, ports, strict=True):
        room = 26 * any(texts) if down else measure_labels(texts)
        name = measure_text(write_stub_name(picture, link), SMALL_FONT_SIZE)
        far, tail = (14, 24) if down else (name + 10, name + 12)
        joints.append(WireJoint(link.source, link.target, port, room + 8, far, tail))
    return joints


def _make_shapes(picture: Picture, labels: Sequence[tuple[str, str]], down: bool) -> list[BoxShape]:
    arriving: list[list[tuple[str, str]]] = [[] for _ in picture.boxes]
    for link, texts in zip(picture.links, labels, strict=True):
        arriving[link.target].append(texts)
    return [_make_shape(box, texts, down) for box, texts in zip(picture.boxes, arriving, strict=True)]


def _make_shape(box: Box, labels: Sequence[tuple[str, str]], down: bool) -> BoxShape:
    wide, tall = _measure_box(box)
    pitch = _port_pitch(labels, down)
    after = 0
    if box.outputs:
        after = 20 if down else 24 + measure_text(write_output_label(box), SMALL_FONT_SIZE)
    if box.kind is BoxKind.SPLIT:
        reserve = _round_up_to_even(max(SPLITTER_SIZE, pitch if any(map(any, labels)) else SPLITTER_SIZE))
        return BoxShape(SPLITTER_SIZE, SPLITTER_SIZE, splitter=True, reserve=reserve, after=after, group=box.group)
    if down:
        wide = _round_up_to_even(max(wide, pitch * len(labels)))
    else:
        tall = _round_up_to_even(max(tall, pitch * len(labels)))
    along, across = (tall, wide) if down else (wide, tall)
    return BoxShape(
        along,
        across,
        box.is_leaf,
        free=box.kind is BoxKind.GROUP,
        reserve=_reserve_label_room(wide, labels, down),
        after=after,
        group=box.group,
    )


def _reserve_label_room(wide: int, labels: Sequence[tuple[str, str]], down: bool) -> int:
    """Return the room that a box needs across if labels beside the wires from above reach past its edge."""
    if not (down and labels):
        return 0
    past = measure_labels(labels[-1]) + 7 - wide // (2 * len(labels))
    return _round_up_to_even(wide + 2 * max(0, past))


def write_output_label(box: Box) -> str:
    """Return the text at the arrow of an output: its labels other than the name of the box, or `output`."""
    others = [label for label in box.outputs if label != box.name]
    return clip_end(", ".join(others), MAX_NAME_COLUMNS) or "output"


def _port_pitch(labels: Sequence[tuple[str, str]], down: bool) -> int:
    if not any(map(any, labels)):
        return BARE_PORT_PITCH
    return max(measure_labels(texts) for texts in labels) + 14 if down else LABELLED_PORT_PITCH


def _measure_box(box: Box) -> tuple[int, int]:
    """Return the width and height a box needs for its text."""
    gap = 12 if box.name and box.text else 0
    head = (
        measure_text(shorten_name(box), FONT_SIZE, bold=True)
        + gap
        + measure_text(shorten_op(box), FONT_SIZE, bold=not box.name)
        + 2 * BOX_PADDING
    )
    rows = [_measure_row(cell) for cell in list_box_rows(box)]
    return _round_up_to_even(max([head, *rows, 44])), HEAD_HEIGHT + ROW_HEIGHT * len(rows) + (0 if rows else 4)


def _measure_row(cell: BoxRow) -> int:
    """Return the width of a row: what it shows on the left, the number on the right."""
    hatched = cell.reading.state is ReadingState.NONFINITE
    return (
        measure_text(cell.what, SMALL_FONT_SIZE)
        + 10
        + measure_text(cell.text, FONT_SIZE, bold=hatched)
        + 2 * BOX_PADDING
        + HATCH_ROOM * hatched
    )


def _round_up_to_even(size: int) -> int:
    return size + size % 2


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
    frames: list[GroupFrame] = []
    stops = _find_rank_spans(shown)
    levels = _count_inner_levels(shown.picture)
    for path, inside in find_groups_to_frame(shown.picture):
        for band in sorted({*compress(shown.bands, inside)}):
            here = [k for k, is_in in enumerate(inside) if is_in and shown.bands[k] == band]
            frame = _fit_frame(_FrameBuilder(shown, here, stops, levels[path]), path, frames, whole=True)
            # Parts of a group that no wire connects may be far apart, so each part has a frame.
            parts = _find_connected_parts(shown.picture, path, here) if frame is None else []
            tried = (
                _fit_frame(_FrameBuilder(shown, part, stops, levels[path]), path, frames, whole=False) for part in parts
            )
            frames += filter(None, (frame, *tried))
    return frames


def _fit_frame(around: _FrameBuilder, path: str, earlier: Sequence[GroupFrame], *, whole: bool) -> GroupFrame | None:
    """Return a frame with nothing else inside: a rectangle, or one that follows its boxes; None if neither works.

    With `whole` only the rectangle is tried.
    """
    outer = [frame for frame in earlier if f"{path}/".startswith(f"{frame.path}/")]
    others = [*around.others, *(column for frame in earlier if frame not in outer for column in frame.columns)]
    for frame in (
        GroupFrame(path, tuple(around.make_columns(whole=True))),
        GroupFrame(path, tuple(around.make_columns(whole=False))),
    ):
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
    stops = {
        rank: (low - FRAME_SIDE_MARGIN - FRAME_SIDE_STEP, high + FRAME_SIDE_MARGIN + FRAME_SIDE_STEP)
        for rank, (low, high) in extents.items()
    }
    for one, two in pairwise(sorted(extents)):
        if band[one] == band[two]:
            middle = (extents[one][1] + extents[two][0]) // 2
            stops[one] = (stops[one][0], middle)
            stops[two] = (middle, stops[two][1])
    return stops


class _FrameBuilder:
    """Makes the columns of the frame around some boxes."""

    def __init__(
        self, shown: PlacedPicture, inside: Sequence[int], stops: dict[int, tuple[int, int]], level: int
    ) -> None:
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
        columns = [
            self._make_column(a, b, self.ranks[rank]) for (a, b), rank in zip(pairwise(cuts), ranks, strict=True)
        ]
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
