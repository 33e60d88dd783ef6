"""The geometry of a picture in pixels: how large boxes are, what stands on wires, and where all of it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.layout import Joint, Metrics, Shape, layout
from wiregrad.export.letters import MINUS, TIMES, clip, clip_front, width
from wiregrad.export.reading import Reading, State

FONT = 12
SMALL = 10
NAME = 22
"""Maximum width of a name in columns."""
OP = 26
"""Maximum width of an op in columns."""
HEAD = 24
ROW = 20
PAD = 8
HATCH = 24
"""Width of the hatch that stays visible beside the text of a row that is not finite."""
LABELLED = 34
"""Distance between ports whose wires have labels."""
BARE = 12
"""Distance between ports whose wires have no labels."""
MARKED = 6
"""Maximum number of wires into a group that have labels; with more wires, none of them has."""
DOT = 10
STUB = 12
"""Maximum width in columns of the source's name at the end of a stub."""
DETAILED = 24
"""Maximum number of boxes for full labels on wires; in larger pictures wires show only what no box shows."""
FOLD = 2200
"""Maximum length of a picture before it is cut into bands."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A rectangle on the page."""

    x: int
    y: int
    width: int
    height: int

    def meets(self, other: Rect) -> bool:
        """Return whether two rectangles share more than an edge."""
        apart = self.x >= other.x + other.width or other.x >= self.x + self.width
        return not (apart or self.y >= other.y + other.height or other.y >= self.y + self.height)


@dataclass(frozen=True, slots=True)
class Figure:
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


def figure(picture: Picture, *, down: bool = False) -> Figure:
    """Lay out a picture, flowing from left to right or top down."""
    labels = labels_of(picture)
    ports = _ports(picture)
    shapes = _shapes(picture, labels, down)
    joints = _joints(picture, labels, ports, down)
    places = layout(shapes, joints, Metrics(fold=FOLD))
    return Figure(
        picture,
        down,
        *turned((places.along, places.across), down),
        tuple(
            Rect(*turned(corner, down), *turned((shape.along, shape.across), down))
            for corner, shape in zip(places.corners, shapes, strict=True)
        ),
        tuple(tuple(turned(point, down) for point in route.points) for route in places.routes),
        frozenset(k for k, route in enumerate(places.routes) if route.stub),
        labels,
        tuple(joint.label for joint in joints),
        places.ranks,
        places.bands,
    )


def turned(pair: tuple[int, int], down: bool) -> tuple[int, int]:
    """Return a pair (along, across) as (x, y), or (x, y) as (along, across)."""
    return (pair[1], pair[0]) if down else pair


def name_of(box: Box) -> str:
    """Return the name in the head of a box, clipped."""
    return clip_front(box.name, NAME) if box.kind is Kind.GROUP else clip(box.name, NAME)


def op_of(box: Box) -> str:
    """Return the op in the head of a box, clipped."""
    return clip(pretty(box.text), OP)


def pretty(text: str) -> str:
    """Return a number or an op with typographic signs: a minus, a multiplication cross, a caret for powers.

    >>> pretty("-1.5e-7") == chr(0x2212) + "1.5e" + chr(0x2212) + "7"
    True
    """
    return text.replace("-", MINUS).replace("**", "^").replace("*", TIMES)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of a box: what it shows, its text, and whether the colour scale applies."""

    what: str
    text: str
    reading: Reading
    coloured: bool = False


def cells_of(box: Box) -> list[Cell]:
    """Return the rows under the head of a box."""
    rows = [] if box.value is None else [Cell("data", pretty(box.value.text), box.value)]
    if box.grad is not None:
        what = "gradient norm" if box.kind is Kind.GROUP else "grad"
        # The row of the value has the shape already.
        text = box.grad.with_sign() if box.value is None else box.grad.bare_with_sign()
        rows.append(Cell(what, pretty(text), box.grad, coloured=True))
    if box.kind is Kind.GROUP and box.bad:
        rows.append(Cell("not finite", f"{box.bad:,}", Reading("", state=State.NONFINITE)))
    return rows


def labels_of(picture: Picture) -> tuple[tuple[str, str], ...]:
    """Return the labels on each wire; wires into a group that has many get none."""
    arriving = [0] * len(picture.boxes)
    for link in picture.links:
        arriving[link.target] += 1
    crowded = [box.kind is Kind.GROUP and arriving[k] > MARKED for k, box in enumerate(picture.boxes)]
    write = _label if is_detailed(picture) else _short_label
    return tuple(
        ("", "") if crowded[link.target] else write(link, picture.boxes[link.source]) for link in picture.links
    )


def is_detailed(picture: Picture) -> bool:
    """Return whether the picture is small enough for full labels on wires."""
    return len(picture.boxes) <= DETAILED


def _label(link: Link, _source: Box) -> tuple[str, str]:
    """Return the local derivative and the gradient sent back; slopes of an array that are all 1 are left out."""
    plain = link.local is not None and link.local.shape and link.local.uniform == "1"
    local = ""
    if link.local is not None and not plain:
        slope = link.local.uniform or link.local.bare
        local = f"∂ {pretty(slope)}"
    sent = "" if link.sent is None or link.sent.state is State.ABSENT else pretty(link.sent.bare_with_sign())
    return local, sent


def _short_label(link: Link, source: Box) -> tuple[str, str]:
    """Return the labels without slopes of 1, norms of slopes, and gradients that the source box shows."""
    local, sent = _label(link, source)
    has_slope = link.local is not None and link.local.uniform not in ("", "1")
    in_source = link.sent is not None and link.sent == source.grad and link.sent.state is not State.BLOCKED
    return local if has_slope else "", "" if in_source else sent


def stub_text(picture: Picture, link: Link) -> str:
    """Return the source's name, clipped, as it stands at the end of a stub."""
    return clip(picture.boxes[link.source].label, STUB)


def label_width(texts: Sequence[str]) -> int:
    """Return the width of the labels of a wire."""
    widest = max(width(text, SMALL) for text in texts)
    return widest + 6 if widest else 0


def _ports(picture: Picture) -> list[int]:
    """Return the port of its target at which each wire ends: wires into a box in the order of their slots."""
    seen = [0] * len(picture.boxes)
    ports = []
    for link in picture.links:
        ports.append(seen[link.target])
        seen[link.target] += 1
    return ports


def _joints(picture: Picture, labels: Sequence[tuple[str, str]], ports: Sequence[int], down: bool) -> list[Joint]:
    """Return the wires for the layout, with room for their labels and arrows."""
    joints = []
    for link, texts, port in zip(picture.links, labels, ports, strict=True):
        room = 26 * any(texts) if down else label_width(texts)
        name = width(stub_text(picture, link), SMALL)
        far, tail = (14, 24) if down else (name + 10, name + 12)
        joints.append(Joint(link.source, link.target, port, room + 8, far, tail))
    return joints


def _shapes(picture: Picture, labels: Sequence[tuple[str, str]], down: bool) -> list[Shape]:
    arriving: list[list[tuple[str, str]]] = [[] for _ in picture.boxes]
    for link, texts in zip(picture.links, labels, strict=True):
        arriving[link.target].append(texts)
    return [_shape(box, texts, down) for box, texts in zip(picture.boxes, arriving, strict=True)]


def _shape(box: Box, labels: Sequence[tuple[str, str]], down: bool) -> Shape:
    wide, tall = _extent(box)
    pitch = _pitch(labels, down)
    after = 0
    if box.outputs:
        after = 20 if down else 24 + width(output_text(box), SMALL)
    if box.kind is Kind.SPLIT:
        reserve = _even(max(DOT, pitch if any(map(any, labels)) else DOT))
        return Shape(DOT, DOT, splitter=True, reserve=reserve, after=after, group=box.group)
    if down:
        wide = _even(max(wide, pitch * len(labels)))
    else:
        tall = _even(max(tall, pitch * len(labels)))
    along, across = (tall, wide) if down else (wide, tall)
    return Shape(
        along,
        across,
        box.is_leaf,
        free=box.kind is Kind.GROUP,
        reserve=_reserve(wide, labels, down),
        after=after,
        group=box.group,
    )


def _reserve(wide: int, labels: Sequence[tuple[str, str]], down: bool) -> int:
    """Return the room that a box needs across if labels beside the wires from above reach past its edge."""
    if not (down and labels):
        return 0
    past = label_width(labels[-1]) + 7 - wide // (2 * len(labels))
    return _even(wide + 2 * max(0, past))


def output_text(box: Box) -> str:
    """Return the text at the arrow of an output: its labels other than the name of the box, or `output`."""
    others = [label for label in box.outputs if label != box.name]
    return clip(", ".join(others), NAME) or "output"


def _pitch(labels: Sequence[tuple[str, str]], down: bool) -> int:
    if not any(map(any, labels)):
        return BARE
    return max(label_width(texts) for texts in labels) + 14 if down else LABELLED


def _extent(box: Box) -> tuple[int, int]:
    """Return the width and height a box needs for its text."""
    gap = 12 if box.name and box.text else 0
    head = width(name_of(box), FONT, bold=True) + gap + width(op_of(box), FONT, bold=not box.name) + 2 * PAD
    rows = [_row_width(cell) for cell in cells_of(box)]
    return _even(max([head, *rows, 44])), HEAD + ROW * len(rows) + (0 if rows else 4)


def _row_width(cell: Cell) -> int:
    """Return the width of a row: what it shows on the left, the number on the right."""
    hatched = cell.reading.state is State.NONFINITE
    return width(cell.what, SMALL) + 10 + width(cell.text, FONT, bold=hatched) + 2 * PAD + HATCH * hatched


def _even(size: int) -> int:
    return size + size % 2
