"""The geometry of a picture in pixels: how large boxes are, what stands on wires, and where all of it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiregrad.export.boxes import Box, BoxKind, PictureLink, Picture
from wiregrad.export.layout import WireJoint, LayoutMetrics, BoxShape, compute_layout
from wiregrad.export.letters import MINUS, TIMES, clip_end, clip_front, measure_text
from wiregrad.export.reading import Reading, ReadingState

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
    return clip_front(box.name, MAX_NAME_COLUMNS) if box.kind is BoxKind.GROUP else clip_end(box.name, MAX_NAME_COLUMNS)


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
    crowded = [box.kind is BoxKind.GROUP and arriving[k] > MAX_LABELLED_GROUP_WIRES for k, box in enumerate(picture.boxes)]
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
    sent = "" if link.sent is None or link.sent.state is ReadingState.ABSENT else typeset_text(link.sent.bare_signed_text())
    return local, sent


def _write_short_label(link: PictureLink, source: Box) -> tuple[str, str]:
    """Return the labels without slopes of 1, norms of slopes, and gradients that the source box shows."""
    local, sent = _write_label(link, source)
    has_slope = link.local is not None and link.local.uniform_text not in ("", "1")
    in_source = link.sent is not None and link.sent == source.grad and link.sent.state is not ReadingState.BLOCKED
    return local if has_slope else "", "" if in_source else sent


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


def _make_joints(picture: Picture, labels: Sequence[tuple[str, str]], ports: Sequence[int], down: bool) -> list[WireJoint]:
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
    head = measure_text(shorten_name(box), FONT_SIZE, bold=True) + gap + measure_text(shorten_op(box), FONT_SIZE, bold=not box.name) + 2 * BOX_PADDING
    rows = [_measure_row(cell) for cell in list_box_rows(box)]
    return _round_up_to_even(max([head, *rows, 44])), HEAD_HEIGHT + ROW_HEIGHT * len(rows) + (0 if rows else 4)


def _measure_row(cell: BoxRow) -> int:
    """Return the width of a row: what it shows on the left, the number on the right."""
    hatched = cell.reading.state is ReadingState.NONFINITE
    return measure_text(cell.what, SMALL_FONT_SIZE) + 10 + measure_text(cell.text, FONT_SIZE, bold=hatched) + 2 * BOX_PADDING + HATCH_ROOM * hatched


def _round_up_to_even(size: int) -> int:
    return size + size % 2
