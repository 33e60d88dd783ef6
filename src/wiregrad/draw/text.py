"""Pictures as text: characters for terminals, DOT and Mermaid for other tools, and what a notebook shows of a circuit.

A terminal shows line-drawing characters or plain ASCII, in the layout of all pictures, measured in characters. Wires
have no numbers on them: a dashed wire is blocked, one with a `!` carries NaN or an infinity back. Outputs have double
edges. A circuit that is too wide becomes a listing, one line per node with the local derivative behind each input,
unless that is 1, and the first line says so.

A notebook gets the SVG, the same SVG in HTML, and text. Invariants: no scripts, nothing loaded from outside, and never
more bytes than the limit; a note says what had to be left out.

DOT is for Graphviz, and Mermaid flowcharts are drawn by many Markdown viewers. Both have nested blocks, so boxes are
walked group by group. Neither tool has to be installed. Invariants: ids are generated here and never come from users;
user text appears only inside quotes, with every character that has a meaning in the language escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from html import escape
from itertools import pairwise
from typing import NamedTuple, Unpack

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import (
    DASH,
    MINUS,
    TIMES,
    Box,
    BoxKind,
    Picture,
    PictureLink,
    Reading,
    ReadingState,
    clip_end,
    clip_front,
    count_columns,
    typeset_text,
    write_number_rows,
)
from wiregrad.draw.layout.figure import write_factor
from wiregrad.draw.layout.picture import MAX_BOXES, PictureOptions, build_picture
from wiregrad.draw.layout.placement import BoxShape, Layout, LayoutMetrics, WireJoint, compute_layout
from wiregrad.draw.palette import AUTO_THEME, LIGHT_THEME, ColourScale
from wiregrad.draw.svg import to_svg
from wiregrad.errors import InputError, short_repr
from wiregrad.ir import CircuitGraph

MAX_TERMINAL_BOXES = 40
"""Maximum number of boxes in a terminal picture, by default."""
MAX_LISTING_LINES = 200
"""Maximum number of lines in a listing."""
TERMINAL_NAME_COLUMNS = 24
"""Maximum width of a name in columns."""
# The directions in which a line can leave a character, as bits.
UP = 1
DOWN = 2
LEFT = 4
RIGHT = 8
LINE_CHARACTERS = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
"""The character for every set of directions."""
ASCII_LINE_CHARACTERS = " ||" + "|" + "-++" + "+" + "-++" + "+" + "-++" + "+"
"""The same in ASCII."""
ASCII_SIGNS = {
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
TERMINAL_METRICS = LayoutMetrics(apart=1, beside=1, track=2, narrow=1, crowd=24, lead=1, near=0)
WITHOUT_FACTOR = (ReadingState.BLOCKED, ReadingState.ABSENT)
"""Local derivatives that a listing leaves out."""
EDGE_NET = -1
"""The net of the edges of boxes, which the lines of all other nets touch."""


def to_unicode(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    width: int = 100,
    ascii: bool = False,
    cap: int = MAX_TERMINAL_BOXES,
    **options: Unpack[PictureOptions],
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
        raise InputError(f"width must be a whole number of at least 20; got {short_repr(width)}")
    drawn = build_picture(circuit, run, cap=cap, **options)
    canvas = _draw_picture(drawn, width)
    head = f"{clip_end(drawn.title, TERMINAL_NAME_COLUMNS)}: {drawn.note or drawn.about}"
    if canvas is None:
        head += f"; too wide for {width} columns, so shown as a list"
    text = "\n".join([head, "", *(_write_listing(drawn, width) if canvas is None else canvas)])
    return _to_ascii(text) if ascii else text


def _to_ascii(text: str) -> str:
    table = {**dict(zip(LINE_CHARACTERS, ASCII_LINE_CHARACTERS, strict=True)), **ASCII_SIGNS}
    return "".join(ch if ch.isascii() else table.get(ch, "?") for ch in text)


def _write_box_lines(box: Box) -> list[str]:
    """Return the lines inside a box: name and op, value, gradient."""
    name = (
        clip_front(box.name, TERMINAL_NAME_COLUMNS)
        if box.kind is BoxKind.GROUP or "." in box.name
        else clip_end(box.name, TERMINAL_NAME_COLUMNS)
    )
    text = typeset_text(box.text)
    op = "" if box.is_leaf else clip_end(text, TERMINAL_NAME_COLUMNS)
    return [" ".join(part for part in (name, op) if part) or box.label, *write_number_rows(box)]


def _measure_box(box: Box, ports: int) -> BoxShape:
    if box.kind is BoxKind.SPLIT:
        return BoxShape(1, 1, splitter=True)
    rows = _write_box_lines(box)
    free = box.kind is BoxKind.GROUP
    return BoxShape(max(map(count_columns, rows)) + 4, max(len(rows), ports) + 2, box.is_leaf, free=free, inset=1)


class _CharacterGrid:
    """A grid of characters: text, and lines as the directions in which they leave each place, net by net."""

    def __init__(self, width: int, height: int) -> None:
        self.marks = [[""] * width for _ in range(height)]
        self.ways: list[list[dict[int, int]]] = [[{} for _ in range(width)] for _ in range(height)]

    def write_text(self, x: int, y: int, text: str) -> None:
        """Write a text; a wide character takes two columns."""
        for ch in text:
            wide = count_columns(ch)
            if wide:
                self.marks[y][x : x + wide] = [ch, *["\0"] * (wide - 1)]
            else:
                self.marks[y][x - 1] += ch
            x += wide

    def draw_line(self, net: int, points: Sequence[tuple[int, int]]) -> None:
        """Draw a line of a net through points."""
        for (x0, y0), (x1, y1) in pairwise(points):
            for x in range(min(x0, x1), max(x0, x1)):
                self._add_direction(net, x, y0, RIGHT)
                self._add_direction(net, x + 1, y0, LEFT)
            for y in range(min(y0, y1), max(y0, y1)):
                self._add_direction(net, x1, y, DOWN)
                self._add_direction(net, x1, y + 1, UP)

    def _add_direction(self, net: int, x: int, y: int, way: int) -> None:
        here = self.ways[y][x]
        here[net] = here.get(net, 0) | way

    def to_lines(self) -> list[str]:
        """Return the lines of the canvas."""
        rows = [
            "".join(mark or _choose_line_character(ways) for mark, ways in zip(marks, row, strict=True))
            for marks, row in zip(self.marks, self.ways, strict=True)
        ]
        return [row.replace("\0", "").rstrip() for row in rows]


def _choose_line_character(ways: dict[int, int]) -> str:
    """Return the character where lines meet; where nets cross, the vertical line hides the other one."""
    together = 0
    for net, way in ways.items():
        if way == UP | DOWN and net != EDGE_NET and len(ways) > 1:
            return LINE_CHARACTERS[UP | DOWN]
        together |= way
    return LINE_CHARACTERS[together]


def _draw_picture(drawn: Picture, width: int) -> list[str] | None:
    """Return the picture in characters, or None if it is too wide."""
    arriving = [0] * len(drawn.boxes)
    joints = []
    for link in drawn.links:
        joints.append(WireJoint(link.source, link.target, arriving[link.target], 1))
        arriving[link.target] += 1
    shapes = [_measure_box(box, ports) for box, ports in zip(drawn.boxes, arriving, strict=True)]
    places = compute_layout(shapes, joints, TERMINAL_METRICS)
    if places.along > width or any(route.stub for route in places.routes):
        return None
    canvas = _CharacterGrid(places.along + 1, places.across + 1)
    _fill_grid(canvas, drawn, shapes, places)
    lines = canvas.to_lines()
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _fill_grid(canvas: _CharacterGrid, drawn: Picture, shapes: Sequence[BoxShape], places: Layout) -> None:
    for link, route in zip(drawn.links, places.routes, strict=True):
        (x, y), *rest = route.points
        # The line starts on the edge of the box, so that the two are joined.
        canvas.draw_line(link.source, [(x - 1, y), *rest])
    for box, shape, (x, y) in zip(drawn.boxes, shapes, places.corners, strict=True):
        if box.kind is BoxKind.SPLIT:
            canvas.write_text(x, y, "●")
        else:
            _draw_box(canvas, box, shape, x, y)
    for link, route in zip(drawn.links, places.routes, strict=True):
        _mark_wire(canvas, link, route.points[-2:])
        if drawn.boxes[link.target].kind is not BoxKind.SPLIT:
            canvas.write_text(*route.points[-1], "▶")


def _mark_wire(canvas: _CharacterGrid, link: PictureLink, last: Sequence[tuple[int, int]]) -> None:
    """Mark the last part of a wire if its gradient is blocked or not finite."""
    (start, _), (end, y) = last
    state = None if link.sent is None else link.sent.state
    if state is ReadingState.NONFINITE:
        canvas.write_text(end - 1, y, "!")
    elif state is ReadingState.BLOCKED:
        for x in range(start, end):
            if canvas.ways[y][x].keys() == {link.source} and canvas.ways[y][x][link.source] == LEFT | RIGHT:
                canvas.write_text(x, y, "╌")


def _draw_box(canvas: _CharacterGrid, box: Box, shape: BoxShape, x: int, y: int) -> None:
    """Draw the edge of a box and the lines inside it."""
    right = x + shape.along - 1
    bottom = y + shape.across - 1
    canvas.draw_line(EDGE_NET, [(x, y), (right, y), (right, bottom), (x, bottom), (x, y)])
    if box.outputs:
        edge = "═" * (shape.along - 2)
        canvas.write_text(x, y, f"╒{edge}╕")
        canvas.write_text(x, bottom, f"╘{edge}╛")
    rows = _write_box_lines(box)
    top = y + 1 + (shape.across - 2 - len(rows)) // 2
    for k in range(1, shape.across - 1):
        canvas.write_text(x + 1, y + k, " " * (shape.along - 2))
    for k, text in enumerate(rows):
        canvas.write_text(x + 2, top + k, text)


def _write_listing(drawn: Picture, width: int) -> Iterator[str]:
    """Return one line per box: name, op and inputs with their local derivatives, value, gradient."""
    reads: list[list[str]] = [[] for _ in drawn.boxes]
    for link in drawn.links:
        factor = "" if link.local is None or link.local.state in WITHOUT_FACTOR else f" {write_factor(link.local)}"
        reads[link.target].append(drawn.boxes[link.source].label + factor.rstrip())
    table = [_list_columns(box, inputs) for box, inputs in zip(drawn.boxes, reads, strict=True)][:MAX_LISTING_LINES]
    limits = (TERMINAL_NAME_COLUMNS + 8, 2 * TERMINAL_NAME_COLUMNS, *[TERMINAL_NAME_COLUMNS + 8] * 2)
    widths = [min(most, max(count_columns(row[k]) for row in table)) for k, most in enumerate(limits)]
    # If the table is too wide, the column of inputs shrinks, so that values and gradients stay readable.
    gap = " " * (1 if sum(widths) + 6 > width else 2)
    widths[1] = max(1, widths[1] - max(0, sum(widths) + 3 * len(gap) - width))
    for row in table:
        columns = [clip_end(text, wide) for text, wide in zip(row, widths, strict=True)]
        padded = [text + " " * (wide - count_columns(text)) for text, wide in zip(columns, widths, strict=True)]
        yield clip_end(gap.join(padded).rstrip(), width)
    if len(drawn.boxes) > MAX_LISTING_LINES:
        yield f"… and {len(drawn.boxes) - MAX_LISTING_LINES:,} more"


def _list_columns(box: Box, inputs: Sequence[str]) -> tuple[str, str, str, str]:
    mark = " (output)" if box.outputs else ""
    what = box.text
    if inputs:
        what += f" of {', '.join(inputs[:4])}" + ", …" * (len(inputs) > 4)
    value = "" if box.value is None else f"value {typeset_text(box.value.text)}"
    grad = "" if box.grad is None else typeset_text(box.grad.describe_gradient())
    return box.label + mark, what, value, grad


MAX_OUTPUT_BYTES = 300_000
"""Maximum size in bytes of the output of a cell, all its media types together."""
SVG_TYPE = "image/svg+xml"
HTML_TYPE = "text/html"
TEXT_TYPE = "text/plain"


def build_mimebundle(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    limit: int = MAX_OUTPUT_BYTES,
    cap: int | None = None,
    theme: str = AUTO_THEME,
    **options: Unpack[PictureOptions],
) -> dict[str, str]:
    """Return what a notebook shows, by media type; a picture that is too large is drawn with fewer boxes.

    >>> from wiregrad.ir import parse_text
    >>> sorted(build_mimebundle(parse_text("input x\\ny = tanh x\\noutput y")))
    ['image/svg+xml', 'text/html', 'text/plain']
    """
    text = to_unicode(circuit, run, **options)
    most = MAX_BOXES if cap is None else cap
    asked = cap
    while most:
        svg = to_svg(circuit, run, cap=asked, theme=theme, **options)
        reduced = (
            "" if asked == cap else f"Drawn with at most {most} boxes to stay below {limit // 1000} kB in a notebook."
        )
        html = _wrap_in_html(svg, reduced)
        if _count_bytes(svg, html, text) <= limit:
            return {SVG_TYPE: svg, HTML_TYPE: html, TEXT_TYPE: text}
        asked = most = most // 2
    note = f"The picture would take more than {limit // 1000} kB; to_svg() writes all of it."
    return {TEXT_TYPE: f"{text}\n\n{note}"}


def _wrap_in_html(svg: str, note: str) -> str:
    below = (
        f'<p style="font:12px sans-serif;margin:4px 0">{escape(note)} to_svg() writes all of it.</p>' if note else ""
    )
    return f'<div style="overflow:auto;max-width:100%">{svg}</div>{below}'


def _count_bytes(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts)


class GroupStep(Enum):
    """What happens at a step of the walk over groups: a group opens, a box is visited, the group closes."""

    OPEN = "open"
    BOX = "box"
    CLOSE = "close"


class GroupVisit(NamedTuple):
    """One step of the walk: what happens, the depth, and the number of the box or the number and name of the group."""

    step: GroupStep
    depth: int
    number: int = -1
    name: str = ""


def walk_groups(drawn: Picture) -> Iterator[GroupVisit]:
    """Visit the boxes group by group; a group opens once, even if its boxes are not consecutive."""
    order = sorted(range(len(drawn.boxes)), key=_GroupOrder(drawn))
    numbers = {path: k for k, path in enumerate(drawn.open_groups())}
    here: list[str] = []
    for k in order:
        parts = [*filter(None, drawn.boxes[k].group.split("/"))]
        shared = _count_shared_parts(here, parts)
        while len(here) > shared:
            here.pop()
            yield GroupVisit(GroupStep.CLOSE, len(here))
        for part in parts[shared:]:
            here.append(part)
            yield GroupVisit(GroupStep.OPEN, len(here) - 1, numbers["/".join(here)], part)
        yield GroupVisit(GroupStep.BOX, len(here), k)
    while here:
        here.pop()
        yield GroupVisit(GroupStep.CLOSE, len(here))


class _GroupOrder:
    """A sort key that keeps the boxes of a group together, groups in the order of their first box."""

    def __init__(self, drawn: Picture) -> None:
        self.drawn = drawn
        self.first: dict[str, int] = {}
        for k, box in enumerate(drawn.boxes):
            parts = [*filter(None, box.group.split("/"))]
            for depth in range(1, len(parts) + 1):
                self.first.setdefault("/".join(parts[:depth]), k)

    def __call__(self, k: int) -> tuple[int, ...]:
        parts = [*filter(None, self.drawn.boxes[k].group.split("/"))]
        return (*(self.first["/".join(parts[:depth])] for depth in range(1, len(parts) + 1)), k)


def _count_shared_parts(one: list[str], two: list[str]) -> int:
    """Return how many parts two paths share at their beginning."""
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


_DOT_SHAPES = {BoxKind.INPUT: "Mrecord", BoxKind.CONSTANT: "Mrecord", BoxKind.SPLIT: "point"}


def to_dot(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    down: bool = False,
    cap: int | None = None,
    **options: Unpack[PictureOptions],
) -> str:
    """Return the picture of a circuit, and of a run on it, as DOT; options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> print(to_dot(parse_text("input x\\ny = tanh x\\noutput y")).splitlines()[0])
    digraph "y" {
    """
    drawn = build_picture(circuit, run, cap=cap, **options)
    return "\n".join(_write_dot_lines(drawn, drawn.gradient_scale(), "TB" if down else "LR")) + "\n"


def quote_for_dot(text: str) -> str:
    """Quote a text as a DOT string.

    >>> quote_for_dot('say "x"')
    '"say \\\\"x\\\\""'
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'


def _escape_dot_field(text: str) -> str:
    """Escape a text as a field of a record label, which is then quoted."""
    text = text.replace("&", "&amp;")
    return "".join(f"\\{ch}" if ch in '\\{}|<>" ' else ch for ch in text)


def _write_dot_lines(drawn: Picture, scale: ColourScale, direction: str) -> Iterator[str]:
    yield f"digraph {quote_for_dot(drawn.title)} {{"
    yield f"  rankdir={direction}; nodesep=0.3; ranksep=0.5;"
    label = quote_for_dot(drawn.note or drawn.about)
    colours = f'color="{LIGHT_THEME.line}", fontcolor="{LIGHT_THEME.ink}"'
    yield f'  label={label}; labelloc=t; labeljust=l; fontname="Helvetica"; fontsize=11;'
    yield f'  node [fontname="Helvetica", fontsize=11, {colours}];'
    yield f'  edge [fontname="Helvetica", fontsize=9, {colours}, arrowsize=0.7];'
    yield from _write_dot_clusters(drawn, scale)
    for link in drawn.links:
        yield f"  b{link.source} -> b{link.target} [{_write_dot_edge(link, scale)}];"
    yield "}"


def _write_dot_clusters(drawn: Picture, scale: ColourScale) -> Iterator[str]:
    """Return the boxes and the clusters around them."""
    for step, depth, number, name in walk_groups(drawn):
        pad = "  " * (depth + 1)
        if step is GroupStep.OPEN:
            yield f"{pad}subgraph cluster_{number} {{"
            yield f'{pad}  label={quote_for_dot(name)}; color="{LIGHT_THEME.line}"; style="rounded,dashed";'
        elif step is GroupStep.CLOSE:
            yield f"{pad}}}"
        else:
            yield f"{pad}b{number} [{_write_dot_box(drawn.boxes[number], scale)}];"


def _write_dot_box(box: Box, scale: ColourScale) -> str:
    about = quote_for_dot("; ".join(box.facts))
    if box.kind is BoxKind.SPLIT:
        return f'shape=point, width=0.1, color="{LIGHT_THEME.ink}", tooltip={about}'
    text = f"({box.text})" if box.kind is BoxKind.GROUP else box.text
    title = " ".join(part for part in (box.name, text) if part) or box.label
    fields = [title, *write_number_rows(box)]
    fields += [f"output {', '.join(box.outputs)}"] if box.outputs else []
    label = " | ".join(map(_escape_dot_field, fields))
    shape = _DOT_SHAPES.get(box.kind, "record")
    fill = LIGHT_THEME.panel if box.grad is None else LIGHT_THEME.tint_colour(box.grad.tone_on(scale))
    thick = ", penwidth=2" if box.outputs else ""
    return f'shape={shape}, label="{{ {label} }}", style=filled, fillcolor="{fill}", tooltip={about}{thick}'


def _write_wire_numbers(link: PictureLink) -> Iterator[str]:
    """Return the numbers on a wire: its local derivative as a factor, and the gradient sent back."""
    factor = "" if link.local is None else write_factor(link.local)
    if factor:
        yield factor
    if link.sent is not None and link.sent.state is not ReadingState.ABSENT:
        yield typeset_text(link.sent.text)


def _write_dot_edge(link: PictureLink, scale: ColourScale) -> str:
    texts = [*_write_wire_numbers(link)]
    texts += [f"{link.wires:,} wires"] if link.wires > 1 else []
    # In a DOT label, a backslash followed by n starts a new line.
    label = "\\n".join(quote_for_dot(text)[1:-1] for text in texts)
    return f'label="{label}"' + ("" if link.sent is None else _write_dot_stroke(link.sent, scale))


def _write_dot_stroke(sent: Reading, scale: ColourScale) -> str:
    if sent.state is ReadingState.BLOCKED:
        return ", style=dashed"
    if sent.state is ReadingState.ABSENT:
        return ""
    tone = sent.tone_on(scale)
    thick = f"{scale.line_width(sent.size):.2g}"
    style = ', style="bold,dotted"' if sent.state is ReadingState.NONFINITE else ""
    colours = f'color="{LIGHT_THEME.stroke_colour(tone)}", fontcolor="{LIGHT_THEME.text_colour(tone)}"'
    return f", {colours}, penwidth={thick}{style}"


MAX_MERMAID_BOXES = 150
"""Maximum number of boxes in a flowchart, by default: viewers refuse more than 500 arrows."""
MAX_LABEL_COLUMNS = 60
"""Maximum width of a line in a box, in columns."""
_PLAIN_SIGNS = frozenset(" _.,+-=")
_MERMAID_BRACKETS = {
    BoxKind.INPUT: ("([", "])"),
    BoxKind.CONSTANT: ("([", "])"),
    BoxKind.SPLIT: ("((", "))"),
    BoxKind.GROUP: ("[[", "]]"),
}


def to_mermaid(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    down: bool = False,
    cap: int = MAX_MERMAID_BOXES,
    **options: Unpack[PictureOptions],
) -> str:
    """Return the picture of a circuit, and of a run on it, as Mermaid.

    Options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> print(to_mermaid(parse_text("input x\\ny = tanh x\\noutput y")).splitlines()[1])
      b0(["x"])
    """
    drawn = build_picture(circuit, run, cap=cap, **options)
    return "\n".join(_write_mermaid_lines(drawn, drawn.gradient_scale(), "TB" if down else "LR")) + "\n"


def escape_for_mermaid(words: str) -> str:
    """Escape every character that could have a meaning in Mermaid or HTML as its code point.

    >>> escape_for_mermaid('a"]; end')
    'a#34;#93;#59; end'
    """
    return "".join(
        ch if ch.isalnum() or ch in _PLAIN_SIGNS else f"#{ord(ch)};" for ch in clip_end(words, MAX_LABEL_COLUMNS)
    )


def _write_mermaid_lines(drawn: Picture, scale: ColourScale, direction: str) -> Iterator[str]:
    yield f"flowchart {direction}"
    for step, depth, number, name in walk_groups(drawn):
        pad = "  " * (depth + 1)
        if step is GroupStep.OPEN:
            yield f'{pad}subgraph g{number}["{escape_for_mermaid(name)}"]'
        elif step is GroupStep.CLOSE:
            yield f"{pad}end"
        else:
            yield pad + _write_mermaid_box(number, drawn.boxes[number])
    if drawn.note:
        yield f'  note["{escape_for_mermaid(drawn.note)}"]'
    for link in drawn.links:
        yield f"  {_write_mermaid_link(link)}"
    yield from _write_mermaid_styles(drawn, scale)


def _write_mermaid_box(k: int, box: Box) -> str:
    left, right = _MERMAID_BRACKETS.get(box.kind, ("[", "]"))
    if box.kind is BoxKind.SPLIT:
        return f'b{k}{left}" "{right}'
    lines = [_write_mermaid_title(box), *write_number_rows(box)]
    return f'b{k}{left}"{"<br/>".join(map(escape_for_mermaid, lines))}"{right}'


def _write_mermaid_title(box: Box) -> str:
    """Return the first line of a box: its name with its op, or with the number of its nodes."""
    op = "" if box.is_leaf or not box.text else box.text
    if box.kind is BoxKind.GROUP:
        return f"{clip_front(box.name, MAX_LABEL_COLUMNS - count_columns(op) - 3)} ({op})"
    return " ".join(part for part in (f"{box.name} =" if box.name and op else box.name, op) if part) or box.label


def _write_mermaid_link(link: PictureLink) -> str:
    parts = [*_write_wire_numbers(link)]
    parts += [f"{link.wires:,} wires"] if link.wires > 1 else []
    label = f'|"{"<br/>".join(map(escape_for_mermaid, parts))}"|' if parts else ""
    blocked = link.sent is not None and link.sent.state is ReadingState.BLOCKED
    return f"b{link.source} {'-.->' if blocked else '-->'}{label} b{link.target}"


def _write_mermaid_styles(drawn: Picture, scale: ColourScale) -> Iterator[str]:
    """Return the colours of gradients, and thick edges for outputs; text says the same."""
    for k, box in enumerate(drawn.boxes):
        fill = LIGHT_THEME.panel if box.grad is None else LIGHT_THEME.tint_colour(box.grad.tone_on(scale))
        ink = LIGHT_THEME.ink if box.kind is BoxKind.SPLIT else fill
        edge = f"stroke:{LIGHT_THEME.ink},stroke-width:2px" if box.outputs or box.bad else f"stroke:{LIGHT_THEME.line}"
        yield f"  style b{k} fill:{ink},color:{LIGHT_THEME.ink},{edge}"
    for k, link in enumerate(drawn.links):
        if link.sent is not None and link.sent.state in (ReadingState.NUMBER, ReadingState.NONFINITE):
            tone = link.sent.tone_on(scale)
            thick = round(scale.line_width(link.sent.size))
            yield f"  linkStyle {k} stroke:{LIGHT_THEME.stroke_colour(tone)},stroke-width:{thick}px"
