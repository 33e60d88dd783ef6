"""Pictures in the languages of other tools: DOT for Graphviz, and Mermaid flowcharts, which many Markdown viewers draw.

Both have nested blocks, so boxes are walked group by group. Neither tool has to be installed.

Invariants: ids are generated here and never come from users; user text appears only inside quotes, with every character
that has a meaning in the language escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, Unpack

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import Box, BoxKind, Picture, PictureLink, write_number_rows
from wiregrad.draw.layout.figure import write_factor
from wiregrad.draw.layout.labels import Reading, ReadingState, clip_end, clip_front, count_columns, typeset_text
from wiregrad.draw.layout.picture import PictureOptions, build_picture
from wiregrad.draw.palette import LIGHT_THEME, ColourScale
from wiregrad.ir import CircuitGraph


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
