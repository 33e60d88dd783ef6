"""The geometry of a picture in pixels: how large boxes are, what stands on wires, and where all of it goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.layout import Joint, Shape, layout
from wiregrad.export.letters import MINUS, TIMES, clip, clip_front, width
from wiregrad.export.reading import Reading, State

FONT, SMALL = 12, 10
NAME, OP = 22, 18
"""How many columns of a name and of an op are shown."""
HEAD, CELL, PAD = 24, 40, 10
LABELLED, BARE = 34, 12
"""How far apart ports are with and without labels."""
MARKED = 6
"""A group with more wires than this has no labels on them."""
DOT = 10
STUB = 12
"""How many columns of the name of a far source are shown."""


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


def figure(picture: Picture, *, down: bool = False) -> Figure:
    """Return a picture with places, flowing from left to right or top down."""
    labels = labels_of(picture)
    ports = _ports(picture)
    shapes, joints = _shapes(picture, labels, down), _joints(picture, labels, ports, down)
    found = layout(shapes, joints)
    return Figure(
        picture,
        down,
        *_turned((found.along, found.across), down),
        tuple(
            Rect(*_turned(corner, down), *_turned((shape.along, shape.across), down))
            for corner, shape in zip(found.corners, shapes, strict=True)
        ),
        tuple(tuple(_turned(point, down) for point in route.points) for route in found.routes),
        frozenset(k for k, route in enumerate(found.routes) if route.stub),
        labels,
        tuple(joint.label for joint in joints),
    )


def _turned(pair: tuple[int, int], down: bool) -> tuple[int, int]:
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
    """One cell of a box: what it is of, its text, and whether the colour scale applies."""

    what: str
    text: str
    reading: Reading
    coloured: bool = False


def cells_of(box: Box) -> list[Cell]:
    """Return the cells under the head of a box."""
    found = [] if box.value is None else [Cell("data", pretty(box.value.text), box.value)]
    if box.grad is not None:
        what = "gradient norm" if box.kind is Kind.GROUP else "grad"
        found.append(Cell(what, pretty(box.grad.with_sign()), box.grad, coloured=True))
    if box.kind is Kind.GROUP and box.bad:
        found.append(Cell("not finite", f"{box.bad:,}", Reading("", state=State.NONFINITE)))
    return found


def labels_of(picture: Picture) -> tuple[tuple[str, str], ...]:
    """Return what stands on each wire; nothing on wires into groups that have many."""
    arriving = [0] * len(picture.boxes)
    for link in picture.links:
        arriving[link.target] += 1
    crowded = [box.kind is Kind.GROUP and arriving[k] > MARKED for k, box in enumerate(picture.boxes)]
    return tuple(("", "") if crowded[link.target] else _label(link) for link in picture.links)


def _label(link: Link) -> tuple[str, str]:
    local = "" if link.local is None else f"∂ {pretty(link.local.text)}"
    sent = "" if link.sent is None or link.sent.state is State.ABSENT else pretty(link.sent.with_sign())
    return local, sent


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
        far = 12 if down else width(stub_text(picture, link), SMALL) + 6
        found.append(Joint(link.source, link.target, port, room + 8, far))
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
        return Shape(DOT, DOT, splitter=True, reserve=reserve, after=after)
    if down:
        wide = _even(max(wide, pitch * len(labels)))
    else:
        tall = _even(max(tall, pitch * len(labels)))
    along, across = (tall, wide) if down else (wide, tall)
    return Shape(
        along, across, box.is_leaf, free=box.kind is Kind.GROUP, reserve=_reserve(wide, labels, down), after=after
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
    gap = 14 if box.name and box.text else 0
    head = width(name_of(box), FONT, bold=True) + gap + width(op_of(box), FONT) + 2 * PAD
    cells = cells_of(box)
    body = sum(cell_widths(box))
    return _even(max(head, body, 44)), HEAD + CELL if cells else HEAD + 4


def cell_widths(box: Box) -> list[int]:
    """Return how wide the cells of a box are, at least."""
    return [max(width(cell.text), width(cell.what, SMALL), 30) + 2 * PAD for cell in cells_of(box)]


def _even(size: int) -> int:
    return size + size % 2


def frames(shown: Figure) -> Iterator[tuple[str, Rect]]:
    """Return the open groups that can be framed: nothing of others inside, nothing half in and half out."""
    paths = shown.picture.groups()
    deepest = max((path.count("/") for path in paths), default=0)
    made: list[Rect] = []
    for path in paths:
        inside = _members(shown.picture, path)
        around = _around([*compress(shown.rects, inside)], 10 + 14 * (deepest - path.count("/")))
        others = compress(shown.rects, (not is_in for is_in in inside))
        clear = not any(around.meets(rect) for rect in others) and all(_apart(around, rect) for rect in made)
        if sum(inside) > 1 and clear:
            made.append(around)
            yield path, around


def _members(picture: Picture, path: str) -> list[bool]:
    """Return which boxes belong into a group: its own, and leaves that nothing outside it reads."""
    own = [f"{box.group}/".startswith(f"{path}/") for box in picture.boxes]
    found = list(own)
    leaving: list[list[int]] = [[] for _ in own]
    for link in picture.links:
        leaving[link.source].append(link.target)
    for k in reversed(range(len(own))):
        passive = picture.boxes[k].is_leaf or picture.boxes[k].kind is Kind.SPLIT
        if passive and leaving[k]:
            found[k] = all(found[reader] for reader in leaving[k])
    return found


def _apart(inner: Rect, outer: Rect) -> bool:
    """Return whether a frame lies within another or clear of it."""
    right, bottom = inner.x + inner.width, inner.y + inner.height
    within = outer.x <= inner.x and outer.y <= inner.y
    return (within and right <= outer.x + outer.width and bottom <= outer.y + outer.height) or not inner.meets(outer)


def _around(rects: Sequence[Rect], pad: int) -> Rect:
    left, top = min(rect.x for rect in rects) - pad, min(rect.y for rect in rects) - pad - 6
    right, bottom = max(rect.x + rect.width for rect in rects) + pad, max(rect.y + rect.height for rect in rects) + pad
    return Rect(left, top, right - left, bottom - top)
