"""Pictures for terminals: boxes and wires in line-drawing characters, or in plain ASCII.

The layout is the same as everywhere, measured in characters. Wires have no numbers on them; one along which nothing
comes back is dashed, one along which NaN or an infinity does has a `!`. Outputs have double edges. A circuit that is
too wide becomes a listing, one line per node, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from wiregrad.backends import Run
from wiregrad.errors import InputError, shown
from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.drawing import picture
from wiregrad.export.layout import Joint, Layout, Metrics, Shape, layout
from wiregrad.export.letters import DASH, MINUS, TIMES, cells, clip, clip_front
from wiregrad.export.reading import State
from wiregrad.ir import Circuit

CAP = 40
"""Maximum number of boxes in a terminal picture, by default."""
LINES = 200
"""Maximum number of lines in a listing."""
NAME = 24
"""Maximum width of a name in columns."""
# The directions in which a line can leave a character, as bits.
UP = 1
DOWN = 2
LEFT = 4
RIGHT = 8
JOINTS = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
"""The character for every set of directions."""
PLAIN = " ||" + "|" + "-++" + "+" + "-++" + "+" + "-++" + "+"
"""The same in ASCII."""
ASCII = {
    "│": "|",
    "─": "-",
    "▶": ">",
    "●": "o",
    "…": "...",
    "╌": ".",
    "═": "=",
    **dict.fromkeys("╒╕╘╛", "+"),
    "∂": "d",
    "‖": "|",
    "·": ".",
    MINUS: "-",
    TIMES: "x",
    DASH: "-",
}
METRICS = Metrics(apart=1, beside=1, track=2, narrow=1, crowd=24, lead=1, near=0)
EDGE = -1
"""The net of the edges of boxes, which the lines of all other nets touch."""


def to_unicode(
    circuit: Circuit, run: Run | None = None, *, width: int = 100, ascii: bool = False, cap: int = CAP, **options: Any
) -> str:
    """Return the picture of a circuit, and of a run on it, for a terminal of `width` columns.

    A dashed wire is blocked, one with a `!` carries NaN or an infinity back; double edges mark outputs. `ascii` uses
    ASCII characters only; all other options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> print(to_unicode(parse_text("input x\\ny = tanh x\\noutput y")))
    y: 1 input, 1 node
    <BLANKLINE>
    ╭───╮   ╒════════╕
    │ x ├───▶ y tanh │
    ╰───╯   ╘════════╛
    """
    if type(width) is not int or width < 20:
        raise InputError(f"width must be a whole number of at least 20; got {shown(width)}")
    drawn = picture(circuit, run, cap=cap, **options)
    canvas = _draw(drawn, width)
    head = f"{clip(drawn.title, NAME)}: {drawn.note or drawn.about}"
    if canvas is None:
        head += f"; too wide to draw in {width} columns, so listed"
    text = "\n".join([head, "", *(_listing(drawn, width) if canvas is None else canvas)])
    return _ascii(text) if ascii else text


def _ascii(text: str) -> str:
    table = {**dict(zip(JOINTS, PLAIN, strict=True)), **ASCII}
    return "".join(ch if ch.isascii() else table.get(ch, "?") for ch in text)


def _rows(box: Box) -> list[str]:
    """Return the lines inside a box: name and op, value, gradient."""
    name = clip_front(box.name, NAME) if box.kind is Kind.GROUP else clip(box.name, NAME)
    rows = [" ".join(part for part in (name, "" if box.is_leaf else clip(box.text, NAME)) if part) or box.label]
    rows += [] if box.value is None else [f"data {box.value.text}"]
    rows += [] if box.grad is None else [f"grad {box.grad.with_sign()}"]
    rows += [f"{box.bad:,} not finite"] if box.kind is Kind.GROUP and box.bad else []
    return rows


def _shape(box: Box, ports: int) -> Shape:
    if box.kind is Kind.SPLIT:
        return Shape(1, 1, splitter=True)
    rows = _rows(box)
    free = box.kind is Kind.GROUP
    return Shape(max(map(cells, rows)) + 4, max(len(rows), ports) + 2, box.is_leaf, free=free, inset=1)


class _Canvas:
    """A grid of characters: text, and lines as the directions in which they leave each place, net by net."""

    def __init__(self, width: int, height: int) -> None:
        self.marks = [[""] * width for _ in range(height)]
        self.ways: list[list[dict[int, int]]] = [[{} for _ in range(width)] for _ in range(height)]

    def write(self, x: int, y: int, text: str) -> None:
        """Write a text; a wide character takes two columns."""
        for ch in text:
            wide = cells(ch)
            if wide:
                self.marks[y][x : x + wide] = [ch, *["\0"] * (wide - 1)]
            else:
                self.marks[y][x - 1] += ch
            x += wide

    def line(self, net: int, points: Sequence[tuple[int, int]]) -> None:
        """Draw a line of a net through points."""
        for (x0, y0), (x1, y1) in pairwise(points):
            for x in range(min(x0, x1), max(x0, x1)):
                self._leave(net, x, y0, RIGHT)
                self._leave(net, x + 1, y0, LEFT)
            for y in range(min(y0, y1), max(y0, y1)):
                self._leave(net, x1, y, DOWN)
                self._leave(net, x1, y + 1, UP)

    def _leave(self, net: int, x: int, y: int, way: int) -> None:
        here = self.ways[y][x]
        here[net] = here.get(net, 0) | way

    def text(self) -> list[str]:
        """Return the lines of the canvas."""
        rows = [
            "".join(mark or _joined(ways) for mark, ways in zip(marks, row, strict=True))
            for marks, row in zip(self.marks, self.ways, strict=True)
        ]
        return [row.replace("\0", "").rstrip() for row in rows]


def _joined(ways: dict[int, int]) -> str:
    """Return the character where lines meet; where nets cross, the vertical line hides the other one."""
    together = 0
    for net, way in ways.items():
        if way == UP | DOWN and net != EDGE and len(ways) > 1:
            return JOINTS[UP | DOWN]
        together |= way
    return JOINTS[together]


def _draw(drawn: Picture, width: int) -> list[str] | None:
    """Return the picture in characters, or None if it is too wide."""
    arriving = [0] * len(drawn.boxes)
    joints = []
    for link in drawn.links:
        joints.append(Joint(link.source, link.target, arriving[link.target], 1))
        arriving[link.target] += 1
    shapes = [_shape(box, ports) for box, ports in zip(drawn.boxes, arriving, strict=True)]
    places = layout(shapes, joints, METRICS)
    if places.along > width or any(route.stub for route in places.routes):
        return None
    canvas = _Canvas(places.along + 1, places.across + 1)
    _fill(canvas, drawn, shapes, places)
    lines = canvas.text()
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _fill(canvas: _Canvas, drawn: Picture, shapes: Sequence[Shape], places: Layout) -> None:
    for link, route in zip(drawn.links, places.routes, strict=True):
        (x, y), *rest = route.points
        # The line starts on the edge of the box, so that the two are joined.
        canvas.line(link.source, [(x - 1, y), *rest])
    for box, shape, (x, y) in zip(drawn.boxes, shapes, places.corners, strict=True):
        if box.kind is Kind.SPLIT:
            canvas.write(x, y, "●")
        else:
            _card(canvas, box, shape, x, y)
    for link, route in zip(drawn.links, places.routes, strict=True):
        _mark(canvas, link, route.points[-2:])
        if drawn.boxes[link.target].kind is not Kind.SPLIT:
            canvas.write(*route.points[-1], "▶")


def _mark(canvas: _Canvas, link: Link, last: Sequence[tuple[int, int]]) -> None:
    """Mark the last part of a wire if its gradient is blocked or not finite."""
    (start, _), (end, y) = last
    state = None if link.sent is None else link.sent.state
    if state is State.NONFINITE:
        canvas.write(end - 1, y, "!")
    elif state is State.BLOCKED:
        for x in range(start, end):
            if canvas.ways[y][x].keys() == {link.source} and canvas.ways[y][x][link.source] == LEFT | RIGHT:
                canvas.write(x, y, "╌")


def _card(canvas: _Canvas, box: Box, shape: Shape, x: int, y: int) -> None:
    """Draw the edge of a box and the lines inside it."""
    right = x + shape.along - 1
    bottom = y + shape.across - 1
    canvas.line(EDGE, [(x, y), (right, y), (right, bottom), (x, bottom), (x, y)])
    if box.outputs:
        edge = "═" * (shape.along - 2)
        canvas.write(x, y, f"╒{edge}╕")
        canvas.write(x, bottom, f"╘{edge}╛")
    rows = _rows(box)
    top = y + 1 + (shape.across - 2 - len(rows)) // 2
    for k in range(1, shape.across - 1):
        canvas.write(x + 1, y + k, " " * (shape.along - 2))
    for k, text in enumerate(rows):
        canvas.write(x + 2, top + k, text)


def _listing(drawn: Picture, width: int) -> Iterator[str]:
    """Return one line per box: name, op and inputs, value, gradient."""
    reads: list[list[str]] = [[] for _ in drawn.boxes]
    for link in drawn.links:
        reads[link.target].append(drawn.boxes[link.source].label)
    table = [_entry(box, inputs) for box, inputs in zip(drawn.boxes, reads, strict=True)][:LINES]
    widths = [min(NAME + 8, max(cells(row[k]) for row in table)) for k in range(4)]
    # If the table is too wide, the column of inputs shrinks, so that values and gradients stay readable.
    widths[1] = max(4, widths[1] - max(0, sum(widths) + 6 - width))
    for row in table:
        columns = [clip(text, wide) for text, wide in zip(row, widths, strict=True)]
        padded = [text + " " * (wide - cells(text)) for text, wide in zip(columns, widths, strict=True)]
        yield clip("  ".join(padded).rstrip(), width)
    if len(drawn.boxes) > LINES:
        yield f"… and {len(drawn.boxes) - LINES:,} more"


def _entry(box: Box, inputs: Sequence[str]) -> tuple[str, str, str, str]:
    mark = " (output)" if box.outputs else ""
    what = box.text
    if inputs:
        what += f" of {', '.join(inputs[:4])}" + ", …" * (len(inputs) > 4)
    value = "" if box.value is None else f"data {box.value.text}"
    return box.label + mark, what, value, "" if box.grad is None else f"grad {box.grad.with_sign()}"
