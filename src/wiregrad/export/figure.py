"""The geometry of a picture in pixels: how large boxes are, what stands on wires, and where all of it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.layout import Joint, Metrics, Shape, layout
from wiregrad.export.letters import MINUS, TIMES, clip, clip_front, width
from wiregrad.export.reading import Reading, State

FONT, SMALL = 12, 10
NAME, OP = 22, 26
"""How many columns of a name and of an op are shown."""
HEAD, ROW, PAD = 24, 20, 8
HATCH = 24
"""How much of the hatch under what is not finite is seen beside the words."""
LABELLED, BARE = 34, 12
"""How far apart ports are with and without labels."""
MARKED = 6
"""A group with more wires than this has no labels on them."""
DOT = 10
STUB = 12
"""How many columns of the name of a far source are shown."""
DETAILED = 24
"""Up to so many boxes everything is written on wires; above, only what no box says."""
FOLD = 2200
"""How long a picture may be before it is cut into bands."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A box on the page."""

    x: int
    y: int
    width: int
    height: int

    def meets(self, other: Rect) -> bool:
        """Return whether two boxes share more than an edge."""
        apart = self.x >= other.x + other.width or other.x >= self.x + self.width
        return not (apart or self.y >= other.y + other.height or other.y >= self.y + self.height)


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture with places: one rectangle per box, one path of points per wire, as (x, y)."""

    picture: Picture
    down: bool
    width: int
    height: int
    rects: tuple[Rect, ...]
    paths: tuple[tuple[tuple[int, int], ...], ...]
    stubs: frozenset[int]
    labels: tuple[tuple[str, str], ...]
    """What stands on each wire: the local derivative and what was sent."""
    rooms: tuple[int, ...]
    """How much room there is for that along each wire, before its end."""
    ranks: tuple[int, ...]
    bands: tuple[int, ...]
    """The rank and the band of each box."""


def figure(picture: Picture, *, down: bool = False) -> Figure:
    """Return a picture with places, flowing from left to right or top down."""
    labels = labels_of(picture)
    ports = _ports(picture)
    shapes, joints = _shapes(picture, labels, down), _joints(picture, labels, ports, down)
    found = layout(shapes, joints, Metrics(fold=FOLD))
    return Figure(
        picture,
        down,
        *turned((found.along, found.across), down),
        tuple(
            Rect(*turned(corner, down), *turned((shape.along, shape.across), down))
            for corner, shape in zip(found.corners, shapes, strict=True)
        ),
        tuple(tuple(turned(point, down) for point in route.points) for route in found.routes),
        frozenset(k for k, route in enumerate(found.routes) if route.stub),
        labels,
        tuple(joint.label for joint in joints),
        found.ranks,
        found.bands,
    )


def turned(pair: tuple[int, int], down: bool) -> tuple[int, int]:
    """Return a pair along and across as x and y, or the other way round."""
    return (pair[1], pair[0]) if down else pair


def name_of(box: Box) -> str:
    """Return the name as it is shown in the head of a box."""
    return clip_front(box.name, NAME) if box.kind is Kind.GROUP else clip(box.name, NAME)


def op_of(box: Box) -> str:
    """Return the op as it is shown in the head of a box."""
    return clip(pretty(box.text), OP)


def pretty(text: str) -> str:
    """Return a number or an op with the signs that print has for them.

    >>> pretty("-1.5e-7") == chr(0x2212) + "1.5e" + chr(0x2212) + "7"
    True
    """
    return text.replace("-", MINUS).replace("**", "^").replace("*", TIMES)


@dataclass(frozen=True, slots=True)
class Cell:
    """One row of a box: what it is of, its text, and whether the colour scale applies."""

    what: str
    text: str
    reading: Reading
    coloured: bool = False


def cells_of(box: Box) -> list[Cell]:
    """Return the rows under the head of a box."""
    found = [] if box.value is None else [Cell("data", pretty(box.value.text), box.value)]
    if box.grad is not None:
        what = "gradient norm" if box.kind is Kind.GROUP else "grad"
        # The shape stands above, with the value.
        text = box.grad.with_sign() if box.value is None else box.grad.bare_with_sign()
        found.append(Cell(what, pretty(text), box.grad, coloured=True))
    if box.kind is Kind.GROUP and box.bad:
        found.append(Cell("not finite", f"{box.bad:,}", Reading("", state=State.NONFINITE)))
    return found


def labels_of(picture: Picture) -> tuple[tuple[str, str], ...]:
    """Return what stands on each wire; nothing on wires into groups that have many."""
    arriving = [0] * len(picture.boxes)
    for link in picture.links:
        arriving[link.target] += 1
    crowded = [box.kind is Kind.GROUP and arriving[k] > MARKED for k, box in enumerate(picture.boxes)]
    write = _label if is_detailed(picture) else _short_label
    return tuple(
        ("", "") if crowded[link.target] else write(link, picture.boxes[link.source]) for link in picture.links
    )


def is_detailed(picture: Picture) -> bool:
    """Return whether everything is written on wires."""
    return len(picture.boxes) <= DETAILED


def _label(link: Link, _source: Box) -> tuple[str, str]:
    """Return the local derivative and the gradient sent; of an array whose slopes are all 1 nothing is said."""
    plain = link.local is not None and link.local.shape and link.local.uniform == "1"
    local = "" if link.local is None or plain else f"∂ {pretty(link.local.uniform or link.local.bare)}"
    sent = "" if link.sent is None or link.sent.state is State.ABSENT else pretty(link.sent.bare_with_sign())
    return local, sent


def _short_label(link: Link, source: Box) -> tuple[str, str]:
    """Return the same without slopes of 1, norms of slopes, and gradients that stand in the box before the wire."""
    local, sent = _label(link, source)
    told = link.local is not None and link.local.uniform not in ("", "1")
    known = link.sent is not None and link.sent == source.grad and link.sent.state is not State.BLOCKED
    return local if told else "", "" if known else sent


def stub_text(picture: Picture, link: Link) -> str:
    """Return the name that stands at the end of a wire that comes from far away."""
    return clip(picture.boxes[link.source].label, STUB)


def label_width(texts: Sequence[str]) -> int:
    """Return how wide the labels of a wire are."""
    widest = max(width(text, SMALL) for text in texts)
    return widest + 6 if widest else 0


def _ports(picture: Picture) -> list[int]:
    """Return which port of its target every wire ends at: wires of a box in order of their slots."""
    seen = [0] * len(picture.boxes)
    found = []
    for link in picture.links:
        found.append(seen[link.target])
        seen[link.target] += 1
    return found


def _joints(picture: Picture, labels: Sequence[tuple[str, str]], ports: Sequence[int], down: bool) -> list[Joint]:
    """Return the wires for the layout, with room for what stands on them and for the arrow."""
    found = []
    for link, texts, port in zip(picture.links, labels, ports, strict=True):
        room = label_width(texts) if not down else 26 * any(texts)
        name = width(stub_text(picture, link), SMALL)
        found.append(Joint(link.source, link.target, port, room + 8, *((14, 24) if down else (name + 10, name + 12))))
    return found


def _shapes(picture: Picture, labels: Sequence[tuple[str, str]], down: bool) -> list[Shape]:
    arriving: list[list[tuple[str, str]]] = [[] for _ in picture.boxes]
    for link, texts in zip(picture.links, labels, strict=True):
        arriving[link.target].append(texts)
    return [_shape(box, texts, down) for box, texts in zip(picture.boxes, arriving, strict=True)]


def _shape(box: Box, labels: Sequence[tuple[str, str]], down: bool) -> Shape:
    wide, tall = _extent(box)
    pitch = _pitch(labels, down)
    after = 0 if not box.outputs else 20 if down else 24 + width(output_text(box), SMALL)
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
    """Return how much room a box needs for labels that stand beside wires from above and reach past its edge."""
    if not (down and labels):
        return 0
    past = label_width(labels[-1]) + 7 - wide // (2 * len(labels))
    return _even(wide + 2 * max(0, past))


def output_text(box: Box) -> str:
    """Return what stands at the end of an output: its labels, unless the box has that name already."""
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
    """Return how wide a row is: what it is of on the left, the number on the right."""
    spoilt = cell.reading.state is State.NONFINITE
    return width(cell.what, SMALL) + 10 + width(cell.text, FONT, bold=spoilt) + 2 * PAD + HATCH * spoilt


def _even(size: int) -> int:
    return size + size % 2
