"""The geometry of a picture in pixels: boxes, the room on wires, frames around open groups, and where text is.

Sizes depend on structure (op, name, number of ports) and on the detail level, never on a value: nothing moves while
numbers change. All of them are in one table, `Sizes`; `web/src/layout/sizes.ts` has the same numbers. A frame is a
rectangle if nothing else is inside that rectangle; otherwise it follows its boxes from rank to rank.

At the end, the places of text: numbers behind a port, the rows of a leaf, the local derivative at a port. They follow
from the rectangle of a box and the end of a wire; `web/src/layout/slots.ts` does the same.

Invariants: a frame holds all boxes of its group in a band and no others; frames do not cross, unless one group is
inside the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from itertools import compress, pairwise

from wiregrad.draw.layout.boxes import (
    MINUS,
    TIMES,
    Box,
    BoxKind,
    Picture,
    PictureLink,
    Reading,
    ReadingState,
    clip_end,
    is_word,
    measure_text,
    shorten_caption,
    shorten_name,
    typeset_text,
    write_sign,
)
from wiregrad.draw.layout.placement import BoxShape, LayoutMetrics, WireJoint, compute_layout


class Detail(IntEnum):
    """How much a picture shows: each level leaves out one thing more, the last draws everything smaller."""

    FULL = 0
    NO_WORD = 1
    """Without the word "gradient" in leaves."""
    NO_LOCAL = 2
    """Without local derivatives at ports."""
    NO_CAPTION = 3
    """Without captions."""
    NO_BRANCH = 4
    """Without gradients on the branches of a value."""
    COMPACT = 5
    """The same with smaller boxes, closer together."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lengths in pixels."""

    node: int = 48
    """Side of a function node with a sign."""
    word: int = 64
    """Minimum width of a function node with a word."""
    sign_font: int = 24
    word_font: int = 16
    number_font: int = 13
    name_font: int = 16
    label_font: int = 12
    pill_font: int = 12
    leaf: int = 56
    """Height of a leaf with numbers."""
    bare_leaf: int = 36
    """Height of a leaf without numbers."""
    pad: int = 12
    """Inner margin of a leaf."""
    slot: int = 64
    """Room for a number of eight characters."""
    gap: int = 20
    """Distance of numbers from the port that they are behind."""
    slack: int = 8
    """What stays free behind numbers."""
    head: int = 12
    """Room for the head of a wire before a box."""
    tail: int = 16
    """Room for the head of a wire behind a leaf."""
    pill: int = 76
    """Room for a local derivative."""
    pill_height: int = 20
    splitter: int = 20
    """Diameter of a splitter while it adds."""
    dot: int = 11
    """Diameter of a splitter while it copies, and of the dot of an output."""
    port: int = 28
    """Distance between ports."""
    crowded_port: int = 12
    """Distance between the ports of a group that has many wires."""
    group: int = 148
    """Minimum width of a closed group."""
    group_height: int = 84
    bare_group_height: int = 56
    apart: int = 20
    """Distance between boxes of a rank."""
    beside: int = 16
    """Distance of wires from the boxes of a rank that they pass."""
    lead: int = 14
    """Length of the straight part of wires before the first and behind the last track."""
    corner: int = 14
    """Radius of the corners of wires."""


NORMAL_SIZES = Sizes()
COMPACT_SIZES = replace(
    NORMAL_SIZES,
    node=36,
    word=44,
    sign_font=18,
    word_font=13,
    number_font=12,
    name_font=14,
    leaf=44,
    bare_leaf=32,
    pad=8,
    slot=52,
    gap=10,
    slack=4,
    head=8,
    tail=12,
    splitter=18,
    dot=10,
    port=20,
    group=104,
    group_height=76,
    apart=8,
    beside=10,
    lead=6,
    corner=10,
)


def sizes_at(detail: int) -> Sizes:
    """Return the sizes at a detail level.

    >>> sizes_at(Detail.FULL).node, sizes_at(Detail.COMPACT).node
    (48, 36)
    """
    return COMPACT_SIZES if detail >= Detail.COMPACT else NORMAL_SIZES


def choose_detail(boxes: int) -> int:
    """Return the detail level of a picture with some number of boxes that need not fit a frame.

    >>> choose_detail(10), choose_detail(60), choose_detail(300)
    (0, 2, 5)
    """
    if boxes <= 40:
        return Detail.FULL.value
    return Detail.NO_LOCAL.value if boxes <= 80 else Detail.COMPACT.value


TITLE_FONT_SIZE = 13
"""Font size of the name of a closed group."""
SMALL_FONT_SIZE = 11
GRADIENT_WORD = "gradient"
"""The word beside the number of a leaf's gradient."""
MAX_SPACED_WIRES = 6
"""A group with more wires than this has them closer together."""
MAX_GROUP_COLUMNS = 22
"""Maximum width in columns of the name of a closed group."""
MAX_STUB_COLUMNS = 12
"""Maximum width in columns of the source's name at the end of a stub."""
MAX_BAND_LENGTH = 2200
"""Maximum length of a picture before it is cut into bands."""
CAPTION_HEIGHT = 20
"""Room for a caption under a box."""
CAPTION_ASIDE = 11
"""Distance of a caption from the box that it is beside: clear of the highlight of a step."""
ASIDE = 10
"""Distance of numbers from a wire that leads downwards."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle on the page."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Rect) -> bool:
        """Return whether two rectangles share more than an edge."""
        apart = self.x >= other.x + other.width or other.x >= self.x + self.width
        return not (apart or self.y >= other.y + other.height or other.y >= self.y + self.height)


@dataclass(frozen=True, slots=True)
class PictureMeasure:
    """What boxes and wires are measured with: direction, detail level, and whether there are numbers."""

    down: bool
    detail: int
    ran: bool

    @property
    def sizes(self) -> Sizes:
        """The sizes at its detail level."""
        return sizes_at(self.detail)


@dataclass(frozen=True, slots=True)
class WireMarks:
    """What is written on a wire before its port: a local derivative, and the gradient of a branch."""

    pill: bool
    sent: bool


@dataclass(frozen=True, slots=True)
class PlacedPicture:
    """A picture after layout: a rectangle for each box, and a path of points (x, y) for each wire."""

    picture: Picture
    measure: PictureMeasure
    width: int
    height: int
    rects: tuple[Rect, ...]
    extents: tuple[Rect, ...]
    """The rectangles with captions, which frames hold."""
    paths: tuple[tuple[tuple[int, int], ...], ...]
    stubs: frozenset[int]
    marks: tuple[WireMarks, ...]
    """What is written on each wire."""
    rooms: tuple[int, ...]
    """The room on each wire before its end."""
    ranks: tuple[int, ...]
    """The rank of each box."""
    bands: tuple[int, ...]
    """The band of each box."""

    @property
    def down(self) -> bool:
        """Whether values flow downwards."""
        return self.measure.down


def place_picture(
    picture: Picture, *, down: bool = False, detail: int | None = None, fold: int = MAX_BAND_LENGTH
) -> PlacedPicture:
    """Lay out a picture, flowing from left to right or top down, with what its detail level shows."""
    level = choose_detail(len(picture.boxes)) if detail is None else detail
    measure = PictureMeasure(down, level, picture.ran)
    marks = choose_wire_marks(picture, measure)
    shapes = _make_shapes(picture, marks, measure)
    joints = _make_joints(picture, marks, measure)
    places = compute_layout(shapes, joints, _choose_metrics(measure.sizes, fold))
    rects = [
        Rect(*swap_axes(corner, down), *swap_axes((shape.along, shape.across), down))
        for corner, shape in zip(places.corners, shapes, strict=True)
    ]
    return PlacedPicture(
        picture,
        measure,
        *swap_axes((places.along, places.across), down),
        tuple(rects),
        tuple(_add_caption_room(rect, box, measure) for rect, box in zip(rects, picture.boxes, strict=True)),
        tuple(tuple(swap_axes(point, down) for point in route.points) for route in places.routes),
        frozenset(k for k, route in enumerate(places.routes) if route.stub),
        marks,
        tuple(joint.label for joint in joints),
        places.ranks,
        places.bands,
    )


def swap_axes(pair: tuple[int, int], down: bool) -> tuple[int, int]:
    """Return a pair (along, across) as (x, y), or (x, y) as (along, across)."""
    return (pair[1], pair[0]) if down else pair


def _choose_metrics(sizes: Sizes, fold: int) -> LayoutMetrics:
    return LayoutMetrics(
        apart=sizes.apart,
        beside=sizes.beside,
        track=8,
        narrow=4,
        lead=sizes.lead,
        near=6,
        fold=fold,
        band=2 * sizes.apart,
        grid=4,
    )


def _add_caption_room(rect: Rect, box: Box, measure: PictureMeasure) -> Rect:
    has_caption = box.caption and not measure.down and measure.detail < Detail.NO_CAPTION
    return replace(rect, height=rect.height + CAPTION_HEIGHT) if has_caption else rect


def write_slot_text(reading: Reading, shape: str = "") -> str:
    """Return what is written in the slot of a value or gradient: of a finite array its shape, or else its norm.

    >>> write_slot_text(Reading("-2.5", -2.5)) == chr(0x2212) + "2.5"
    True
    """
    return typeset_text(shape if shape and reading.state is ReadingState.NUMBER else reading.bare_text)


def write_factor(reading: Reading) -> str:
    """Return a local derivative as its pill says it; empty for 1, which changes nothing.

    >>> write_factor(Reading("-3", -3.0)) == f"{TIMES}({MINUS}3)", write_factor(Reading("1", 1.0))
    (True, '')
    """
    text = typeset_text(reading.uniform_text or reading.bare_text)
    if text == "1":
        return ""
    return f"{TIMES}({text})" if text.startswith(MINUS) else f"{TIMES}{text}"


def choose_wire_marks(picture: Picture, measure: PictureMeasure) -> tuple[WireMarks, ...]:
    """Return the text on each wire. A number is written once: at its producer, unless branches have their own."""
    leaving = [len(box.outputs) for box in picture.boxes]
    for link in picture.links:
        leaving[link.source] += 1
    marks = []
    for link in picture.links:
        kind = picture.boxes[link.source].kind
        branch = link.slot >= 0 and (kind in (BoxKind.SPLIT, BoxKind.GROUP) or leaving[link.source] > 1)
        pill = link.pill and picture.boxes[link.target].kind is BoxKind.NODE
        marks.append(
            WireMarks(
                measure.ran and measure.detail < Detail.NO_LOCAL and pill,
                measure.ran and measure.detail < Detail.NO_BRANCH and branch,
            )
        )
    return tuple(marks)


def assign_ports(picture: Picture) -> list[int]:
    """Return the port of its target at which each wire ends: wires into a box in the order of their slots."""
    seen = [0] * len(picture.boxes)
    ports = []
    for link in picture.links:
        ports.append(seen[link.target])
        seen[link.target] += 1
    return ports


def write_stub_name(picture: Picture, link: PictureLink) -> str:
    """Return the source's name, clipped, as it is written at the end of a stub."""
    return clip_end(picture.boxes[link.source].label, MAX_STUB_COLUMNS)


def write_output_label(box: Box) -> str:
    """Return the text at the dot of an output: its labels."""
    return shorten_name(", ".join(box.outputs))


def write_group_name(box: Box) -> str:
    """Return the name of a closed group, clipped."""
    return shorten_name(box.name, MAX_GROUP_COLUMNS)


def write_leaf_name(box: Box) -> str:
    """Return the name in a leaf, clipped."""
    return shorten_name(box.name or box.text)


def show_caption(box: Box, measure: PictureMeasure) -> str:
    """Return the caption of a box."""
    return shorten_caption(box.caption) if box.kind is BoxKind.NODE and measure.detail < Detail.NO_CAPTION else ""


def _make_joints(picture: Picture, marks: Sequence[WireMarks], measure: PictureMeasure) -> list[WireJoint]:
    """Return the wires for the layout, with room for what is written on them and for heads."""
    joints = []
    for link, mark, port in zip(picture.links, marks, assign_ports(picture), strict=True):
        name = measure_text(write_stub_name(picture, link), SMALL_FONT_SIZE)
        far = 16 if measure.down else name + 12
        tail = _room_after(picture.boxes[link.source], measure) + (20 if measure.down else name + 12)
        room = max(_room_before_port(mark, measure), _caption_overhang(picture.boxes[link.target], measure))
        joints.append(WireJoint(link.source, link.target, port, _round_up_to_grid(room), far, tail))
    return joints


def _room_before_port(mark: WireMarks, measure: PictureMeasure) -> int:
    sizes = measure.sizes
    if measure.down:
        return sizes.head + mark.pill * (sizes.pill_height + 6) + mark.sent * (sizes.number_font + 6)
    return sizes.head + mark.pill * (sizes.pill + 4) + mark.sent * (sizes.slot + 8)


def _caption_overhang(box: Box, measure: PictureMeasure) -> float:
    """Return how far the caption of a box reaches past its edge."""
    text = "" if measure.down else show_caption(box, measure)
    return (measure_text(text, measure.sizes.label_font) - measure_box(box, measure)[0]) / 2 + 6 if text else 0


def _make_shapes(picture: Picture, marks: Sequence[WireMarks], measure: PictureMeasure) -> list[BoxShape]:
    arriving: list[list[WireMarks]] = [[] for _ in picture.boxes]
    for link, mark in zip(picture.links, marks, strict=True):
        arriving[link.target].append(mark)
    return [_make_shape(box, marks, measure) for box, marks in zip(picture.boxes, arriving, strict=True)]


def _make_shape(box: Box, marks: Sequence[WireMarks], measure: PictureMeasure) -> BoxShape:
    sizes = measure.sizes
    after = _round_up_to_grid(max(_room_after(box, measure), _output_room(box, measure)))
    if box.kind is BoxKind.SPLIT:
        return BoxShape(sizes.splitter, sizes.splitter, splitter=True, after=after, group=box.group)
    wide, tall = measure_box(box, measure)
    pitch = _port_pitch(box, marks, measure)
    needed = pitch * (len(marks) - 1) + sizes.node - sizes.port if marks else 0
    along, least = (tall, wide) if measure.down else (wide, tall)
    across = _round_up_to_grid(max(least, needed))
    reserve = _round_up_to_grid(_room_across(box, across, marks, measure))
    return BoxShape(
        along,
        across,
        box.is_leaf,
        free=box.kind is BoxKind.GROUP,
        reserve=reserve,
        below=_round_up_to_grid(_room_below(box, across, reserve, measure)),
        after=after,
        inset=(across - pitch * len(marks)) // 2 if marks else 0,
        group=box.group,
    )


def _port_pitch(box: Box, marks: Sequence[WireMarks], measure: PictureMeasure) -> int:
    sizes = measure.sizes
    if box.kind is BoxKind.GROUP and len(marks) > MAX_SPACED_WIRES:
        return sizes.crowded_port
    if not measure.down or len(marks) < 3:
        return sizes.port
    pill = any(mark.pill for mark in marks) * (sizes.pill + 4)
    return max(sizes.port, pill, any(mark.sent for mark in marks) * (sizes.slot + 8))


def measure_box(box: Box, measure: PictureMeasure) -> tuple[int, int]:
    """Return the width and height of a box, before its ports are counted."""
    sizes = measure.sizes
    if box.kind is BoxKind.SPLIT:
        return sizes.splitter, sizes.splitter
    if box.kind is BoxKind.NODE:
        sign = write_sign(box.text)
        wide = max(sizes.word, _round_up_to_grid(measure_text(sign, sizes.word_font) + 20))
        return wide if is_word(sign) else sizes.node, sizes.node
    if box.kind is BoxKind.GROUP:
        name = measure_text(write_group_name(box), TITLE_FONT_SIZE, bold=True)
        wide = _round_up_to_grid(max(name, measure_text(box.text, SMALL_FONT_SIZE)) + 28)
        return max(sizes.group, wide), sizes.group_height if measure.ran else sizes.bare_group_height
    return _measure_leaf(box, measure)


def _measure_leaf(box: Box, measure: PictureMeasure) -> tuple[int, int]:
    sizes = measure.sizes
    name = measure_text(write_leaf_name(box), sizes.name_font)
    if not measure.ran:
        return max(sizes.node, _round_up_to_grid(name + 2 * sizes.pad)), sizes.bare_leaf
    number = max(sizes.slot, measure_text(box.shape, sizes.number_font))
    word = measure_text(GRADIENT_WORD, SMALL_FONT_SIZE) if measure.detail < Detail.NO_WORD else 0
    return _round_up_to_grid(2 * sizes.pad + max(name, word) + 8 + number), sizes.leaf


def _room_after(box: Box, measure: PictureMeasure) -> int:
    """Return the room that the numbers behind a box need, along."""
    sizes = measure.sizes
    if box.kind is not BoxKind.NODE:
        return 4 if box.kind is BoxKind.SPLIT else sizes.tail
    if not measure.ran:
        return 4 if measure.down else sizes.tail
    return sizes.number_font + 14 if measure.down else sizes.gap + sizes.slot + sizes.slack


def output_length(box: Box, measure: PictureMeasure) -> int:
    """Return the length of the wire to the dot of an output."""
    sizes = measure.sizes
    if box.kind is not BoxKind.NODE or not measure.ran:
        return 28
    return sizes.number_font + 20 if measure.down else sizes.gap + sizes.slot


def _output_room(box: Box, measure: PictureMeasure) -> int:
    if not box.outputs:
        return 0
    text = 0 if measure.down else 8 + measure_text(write_output_label(box), measure.sizes.name_font)
    return output_length(box, measure) + measure.sizes.dot + text


def _room_across(box: Box, across: int, marks: Sequence[WireMarks], measure: PictureMeasure) -> int:
    """Return the room that a box needs across, around its middle."""
    sizes = measure.sizes
    if box.kind is not BoxKind.NODE:
        return across
    pill = any(mark.pill for mark in marks)
    sent = any(mark.sent for mark in marks)
    if not measure.down:
        return across + sent * 2 * sizes.number_font
    numbers = measure.ran * 2 * (ASIDE + sizes.slot)
    span = sizes.port * (len(marks) - 1)
    beside = max(pill * 2 * (sizes.pill - ASIDE), sent * 2 * (sizes.slot + 8))
    return max(across, numbers, span + beside if len(marks) < 3 else 0)


def _room_below(box: Box, across: int, reserve: int, measure: PictureMeasure) -> float:
    """Return the room that a box needs on its far side besides: under it for a caption, or beside it."""
    sizes = measure.sizes
    caption = show_caption(box, measure)
    if not measure.down:
        return CAPTION_HEIGHT if caption else 0
    beside = across / 2 + CAPTION_ASIDE + measure_text(caption, sizes.label_font) if caption else 0
    output = sizes.dot + 4 + measure_text(write_output_label(box), sizes.name_font) if box.outputs else 0
    return max(0, beside - reserve / 2, output - reserve / 2)


def _round_up_to_grid(size: float) -> int:
    return 4 * math.ceil(size / 4)


FRAME_SIDE_MARGIN = 8
"""Distance of a frame from its boxes."""
FRAME_TOP_MARGIN = 20
"""Distance at the top of the frame, where its name is."""
FRAME_SIDE_STEP = 4
"""Additional distance for every level of groups inside."""
FRAME_TOP_STEP = 16
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


NAME_ROOM = 14
"""Names of frames that stand at most so far from each other cannot both be read."""


def name_frames(frames: Sequence[GroupFrame]) -> list[str]:
    """Return the name of each frame; names that would stand on each other are one, at the inner frame: `out/layers`."""
    names: list[str] = []
    for inner in frames:
        names.append(inner.path.rpartition("/")[2])
        corner = inner.columns[0]
        for k, outer in enumerate(frames[: len(names) - 1]):
            away = math.hypot(corner.x - outer.columns[0].x, corner.y - outer.columns[0].y)
            if names[k] and inner.path.startswith(f"{outer.path}/") and away <= NAME_ROOM:
                names[-1] = f"{names[k]}/{names[-1]}"
                names[k] = ""
    return names


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
    for rank, rect in zip(shown.ranks, shown.extents, strict=True):
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
        self.others = [rect for k, rect in enumerate(shown.extents) if k not in members]
        self.ranks: dict[int, list[Rect]] = {}
        for k in inside:
            self.ranks.setdefault(shown.ranks[k], []).append(shown.extents[k])

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
    return (int(rect.y), int(rect.y + rect.height)) if down else (int(rect.x), int(rect.x + rect.width))


def _span_across(rect: Rect, down: bool) -> tuple[int, int]:
    """Return the start and end of a rectangle in the other direction."""
    return (int(rect.x), int(rect.x + rect.width)) if down else (int(rect.y), int(rect.y + rect.height))


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


PagePoint = tuple[float, float]
"""A point, as (x, y)."""


class Anchor(Enum):
    """The side of a slot at which its text is anchored."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class TextSlot:
    """A place for one line of text: its rectangle, and the point on the base line at which the text is anchored."""

    rect: Rect
    at: PagePoint
    anchor: Anchor


@dataclass(frozen=True, slots=True)
class OutputMark:
    """The mark of an output: a wire from the box to a dot, and the name beside it."""

    text: str
    start: PagePoint
    dot: PagePoint
    name: TextSlot


@dataclass(frozen=True, slots=True)
class BoxPlaces:
    """The places of a box; None for what it does not have."""

    out: PagePoint
    """Where wires leave."""
    caption: TextSlot | None = None
    value: TextSlot | None = None
    grad: TextSlot | None = None
    name: TextSlot | None = None
    text: TextSlot | None = None
    """What is written under the name of a closed group."""
    word: TextSlot | None = None
    """The word before a gradient."""
    cell: Rect | None = None
    """The lower part of a leaf or a group, which takes the colour of its gradient."""


def find_places(box: Box, rect: Rect, measure: PictureMeasure) -> BoxPlaces:
    """Return the places of a box in a rectangle."""
    out = _find_out(box, rect, measure.down)
    if box.kind is BoxKind.SPLIT:
        return BoxPlaces(out)
    if box.kind is BoxKind.NODE:
        return _place_node(box, rect, out, measure)
    if box.kind is BoxKind.GROUP:
        return _place_group(rect, out, measure)
    return _place_leaf(rect, out, measure)


def _find_out(box: Box, rect: Rect, down: bool) -> PagePoint:
    """Wires leave a splitter from its middle, and all other boxes from the middle of a side."""
    x = rect.x + rect.width / 2
    y = rect.y + rect.height / 2
    if box.kind is BoxKind.SPLIT:
        return x, y
    return (x, rect.y + rect.height) if down else (rect.x + rect.width, y)


def make_slot(at: PagePoint, wide: float, font: int, anchor: Anchor) -> TextSlot:
    """Return a slot whose text is anchored at a point."""
    left = at[0] - wide * {Anchor.START: 0.0, Anchor.MIDDLE: 0.5, Anchor.END: 1.0}[anchor]
    return TextSlot(Rect(left, at[1] - round(0.8 * font), wide, font), at, anchor)


def _base_line(middle: float, font: int) -> int:
    """Return the base line of text in the middle of a row."""
    return int(middle + font * 0.36 + 0.5)


def _place_node(box: Box, rect: Rect, out: PagePoint, measure: PictureMeasure) -> BoxPlaces:
    caption = _place_caption(box, rect, measure)
    if not measure.ran:
        return BoxPlaces(out, caption)
    sizes = measure.sizes
    font = sizes.number_font
    if measure.down:
        left = (out[0] - ASIDE, out[1] + font + 7)
        right = (out[0] + ASIDE, out[1] + font + 7)
        value = make_slot(left, sizes.slot, font, Anchor.END)
        return BoxPlaces(out, caption, value, make_slot(right, sizes.slot, font, Anchor.START))
    x = out[0] + sizes.gap
    value = make_slot((x, out[1] - 8), sizes.slot, font, Anchor.START)
    return BoxPlaces(out, caption, value, make_slot((x, out[1] + font + 7), sizes.slot, font, Anchor.START))


def _place_caption(box: Box, rect: Rect, measure: PictureMeasure) -> TextSlot | None:
    text = show_caption(box, measure)
    if not text:
        return None
    font = measure.sizes.label_font
    wide = measure_text(text, font)
    if measure.down:
        beside = (rect.x + rect.width + CAPTION_ASIDE, rect.y + rect.height / 2 + 4)
        return make_slot(beside, wide, font, Anchor.START)
    return make_slot((rect.x + rect.width / 2, rect.y + rect.height + font + 6), wide, font, Anchor.MIDDLE)


def _place_leaf(rect: Rect, out: PagePoint, measure: PictureMeasure) -> BoxPlaces:
    sizes = measure.sizes
    inner = rect.width - 2 * sizes.pad
    if not measure.ran:
        middle = (rect.x + rect.width / 2, _base_line(rect.y + rect.height / 2, sizes.name_font))
        return BoxPlaces(out, name=make_slot(middle, inner, sizes.name_font, Anchor.MIDDLE))
    upper = rect.y + rect.height / 4
    lower = rect.y + 3 * rect.height / 4
    left = rect.x + sizes.pad
    right = rect.x + rect.width - sizes.pad
    word = make_slot(
        (left, _base_line(lower, SMALL_FONT_SIZE)),
        measure_text(GRADIENT_WORD, SMALL_FONT_SIZE),
        SMALL_FONT_SIZE,
        Anchor.START,
    )
    font = sizes.number_font
    return BoxPlaces(
        out,
        value=make_slot((right, _base_line(upper, font)), sizes.slot, font, Anchor.END),
        grad=make_slot((right, _base_line(lower, font)), sizes.slot, font, Anchor.END),
        name=make_slot(
            (left, _base_line(upper, sizes.name_font)), inner - sizes.slot - 8, sizes.name_font, Anchor.START
        ),
        word=word if measure.detail < Detail.NO_WORD else None,
        cell=Rect(rect.x, rect.y + rect.height / 2, rect.width, rect.height / 2),
    )


def _place_group(rect: Rect, out: PagePoint, measure: PictureMeasure) -> BoxPlaces:
    sizes = measure.sizes
    left = rect.x + 14
    inner = rect.width - 28
    name = make_slot((left, rect.y + 22), inner, TITLE_FONT_SIZE, Anchor.START)
    text = make_slot((left, rect.y + 40), inner, SMALL_FONT_SIZE, Anchor.START)
    if not measure.ran:
        return BoxPlaces(out, name=name, text=text)
    cell = Rect(rect.x, rect.y + rect.height - 24, rect.width, 24)
    middle = cell.y + 12
    font = sizes.number_font
    word = make_slot(
        (left, _base_line(middle, SMALL_FONT_SIZE)),
        measure_text(GRADIENT_WORD, SMALL_FONT_SIZE),
        SMALL_FONT_SIZE,
        Anchor.START,
    )
    return BoxPlaces(
        out,
        grad=make_slot((rect.x + rect.width - 14, _base_line(middle, font)), sizes.slot, font, Anchor.END),
        name=name,
        text=text,
        word=word if measure.detail < Detail.NO_WORD else None,
        cell=cell,
    )


def place_output(box: Box, out: PagePoint, measure: PictureMeasure) -> OutputMark:
    """Return the mark of an output."""
    sizes = measure.sizes
    text = write_output_label(box)
    length = output_length(box, measure) + sizes.dot / 2
    x, y = (out[0], out[1] + length) if measure.down else (out[0] + length, out[1])
    at = (x + sizes.dot / 2 + 8, y + 4) if measure.down else (x + sizes.dot / 2 + 6, y + 5)
    name = make_slot(at, measure_text(text, sizes.name_font), sizes.name_font, Anchor.START)
    return OutputMark(text, out, (x, y), name)


@dataclass(frozen=True, slots=True)
class PortPlaces:
    """The places before the port of a wire: a local derivative, and the gradient of a branch."""

    pill: TextSlot | None = None
    sent: TextSlot | None = None


def place_port(end: PagePoint, marks: WireMarks, port: int, ports: int, measure: PictureMeasure) -> PortPlaces:
    """Return what is written before a port; `port` of `ports` says on which side, where values flow downwards."""
    if measure.down:
        return _place_above_port(end, marks, port, ports, measure)
    sizes = measure.sizes
    right = end[0] - 12
    beside = right - (sizes.pill + 4 if marks.pill else 0)
    return PortPlaces(
        _make_pill(right, end[1], sizes.pill, sizes.pill_height, Anchor.END) if marks.pill else None,
        make_slot((beside, end[1] - 6), sizes.slot, sizes.number_font, Anchor.END) if marks.sent else None,
    )


def _place_above_port(end: PagePoint, marks: WireMarks, port: int, ports: int, measure: PictureMeasure) -> PortPlaces:
    sizes = measure.sizes
    x, y = end
    side = Anchor.MIDDLE if ports != 2 else Anchor.START if port else Anchor.END
    lean = {Anchor.START: -ASIDE, Anchor.MIDDLE: 0, Anchor.END: ASIDE}[side]
    top = y - 12 - sizes.pill_height / 2
    high = y - 12 - (sizes.pill_height + 6 if marks.pill else 0)
    sent = (x - 8, Anchor.END) if side is Anchor.END else (x + 8, Anchor.START)
    return PortPlaces(
        _make_pill(x + lean, top, sizes.pill, sizes.pill_height, side) if marks.pill else None,
        make_slot((sent[0], high), sizes.slot, sizes.number_font, sent[1]) if marks.sent else None,
    )


def _make_pill(x: float, middle: float, wide: int, high: int, anchor: Anchor) -> TextSlot:
    """Return the room of a pill around a wire; the pill is as wide as its text, and anchored like it."""
    slot = make_slot((x, _base_line(middle, 12)), wide, high, anchor)
    return TextSlot(Rect(slot.rect.x, middle - high / 2, wide, high), slot.at, anchor)
