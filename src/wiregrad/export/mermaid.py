"""Pictures as Mermaid flowcharts, which many readers of Markdown draw.

Kept true: ids are ours, and text stands only inside quotes with every sign that means something written as a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wiregrad.backends import RunRecord
from wiregrad.export.boxes import Box, BoxKind, PictureLink, Picture
from wiregrad.export.drawing import build_picture
from wiregrad.export.letters import count_columns, clip_end, clip_front
from wiregrad.export.nesting import GroupStep, walk_groups
from wiregrad.export.palette import LIGHT_THEME, NONFINITE_TONE, ColourScale
from wiregrad.export.reading import ReadingState
from wiregrad.ir import CircuitGraph

MAX_MERMAID_BOXES = 150
"""Maximum number of boxes in a flowchart, by default: viewers refuse more than 500 arrows."""
MAX_LABEL_COLUMNS = 60
"""Maximum width of a line in a box, in columns."""
_PLAIN_SIGNS = frozenset(" _.,+-=")
_MERMAID_BRACKETS = {BoxKind.INPUT: ("([", "])"), BoxKind.CONSTANT: ("([", "])"), BoxKind.SPLIT: ("((", "))"), BoxKind.GROUP: ("[[", "]]")}


def to_mermaid(circuit: CircuitGraph, run: RunRecord | None = None, *, down: bool = False, cap: int = MAX_MERMAID_BOXES, **options: Any) -> str:
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
    return "".join(ch if ch.isalnum() or ch in _PLAIN_SIGNS else f"#{ord(ch)};" for ch in clip_end(words, MAX_LABEL_COLUMNS))


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
    lines = [_write_mermaid_title(box)]
    lines += [] if box.value is None else [f"data {box.value.text}"]
    lines += [] if box.grad is None else [f"grad {box.grad.signed_text()}"]
    lines += [f"{box.bad:,} not finite"] if box.kind is BoxKind.GROUP and box.bad else []
    return f'b{k}{left}"{"<br/>".join(map(escape_for_mermaid, lines))}"{right}'


def _write_mermaid_title(box: Box) -> str:
    """Return the first line of a box: its name with its op, or with the number of its nodes."""
    op = "" if box.is_leaf or not box.text else box.text
    if box.kind is BoxKind.GROUP:
        return f"{clip_front(box.name, MAX_LABEL_COLUMNS - count_columns(op) - 3)} ({op})"
    return " ".join(part for part in (f"{box.name} =" if box.name and op else box.name, op) if part) or box.label


def _write_mermaid_link(link: PictureLink) -> str:
    parts = [] if link.local is None else [f"∂ {link.local.text}"]
    parts += [] if link.sent is None or link.sent.state is ReadingState.ABSENT else [link.sent.signed_text()]
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
            thick = 3 if tone == NONFINITE_TONE else scale.line_weight(link.sent.size)
            yield f"  linkStyle {k} stroke:{LIGHT_THEME.stroke_colour(tone)},stroke-width:{thick}px"
