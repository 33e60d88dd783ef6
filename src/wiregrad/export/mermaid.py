"""Pictures as Mermaid flowcharts, which many readers of Markdown draw.

Kept true: ids are ours, and text stands only inside quotes with every sign that means something written as a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wiregrad.backends import Run
from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.drawing import picture
from wiregrad.export.letters import cells, clip, clip_front
from wiregrad.export.nesting import Tree, nested
from wiregrad.export.palette import LIGHT, NONFINITE, Scale
from wiregrad.export.reading import State
from wiregrad.ir import Circuit

CAP = 150
"""Maximum number of boxes in a flowchart, by default: viewers refuse more than 500 arrows."""
LONGEST = 60
"""Maximum width of a line in a box, in columns."""
_PLAIN = frozenset(" _.,+-=")
_SHAPES = {Kind.INPUT: ("([", "])"), Kind.CONSTANT: ("([", "])"), Kind.SPLIT: ("((", "))"), Kind.GROUP: ("[[", "]]")}


def to_mermaid(circuit: Circuit, run: Run | None = None, *, down: bool = False, cap: int = CAP, **options: Any) -> str:
    """Return the picture of a circuit, and of a run on it, as Mermaid.

    Options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> print(to_mermaid(parse_text("input x\\ny = tanh x\\noutput y")).splitlines()[1])
      b0(["x"])
    """
    drawn = picture(circuit, run, cap=cap, **options)
    return "\n".join(_lines(drawn, drawn.scale(), "TB" if down else "LR")) + "\n"


def text(words: str) -> str:
    """Escape every character that could have a meaning in Mermaid or HTML as its code point.

    >>> text('a"]; end')
    'a#34;#93;#59; end'
    """
    return "".join(ch if ch.isalnum() or ch in _PLAIN else f"#{ord(ch)};" for ch in clip(words, LONGEST))


def _lines(drawn: Picture, scale: Scale, direction: str) -> Iterator[str]:
    yield f"flowchart {direction}"
    for step, depth, number, name in nested(drawn):
        pad = "  " * (depth + 1)
        if step is Tree.OPEN:
            yield f'{pad}subgraph g{number}["{text(name)}"]'
        elif step is Tree.CLOSE:
            yield f"{pad}end"
        else:
            yield pad + _box(number, drawn.boxes[number])
    if drawn.note:
        yield f'  note["{text(drawn.note)}"]'
    for link in drawn.links:
        yield f"  {_link(link)}"
    yield from _styles(drawn, scale)


def _box(k: int, box: Box) -> str:
    left, right = _SHAPES.get(box.kind, ("[", "]"))
    if box.kind is Kind.SPLIT:
        return f'b{k}{left}" "{right}'
    lines = [_title(box)]
    lines += [] if box.value is None else [f"data {box.value.text}"]
    lines += [] if box.grad is None else [f"grad {box.grad.with_sign()}"]
    lines += [f"{box.bad:,} not finite"] if box.kind is Kind.GROUP and box.bad else []
    return f'b{k}{left}"{"<br/>".join(map(text, lines))}"{right}'


def _title(box: Box) -> str:
    """Return the first line of a box: its name with its op, or with the number of its nodes."""
    op = "" if box.is_leaf or not box.text else box.text
    if box.kind is Kind.GROUP:
        return f"{clip_front(box.name, LONGEST - cells(op) - 3)} ({op})"
    return " ".join(part for part in (f"{box.name} =" if box.name and op else box.name, op) if part) or box.label


def _link(link: Link) -> str:
    parts = [] if link.local is None else [f"∂ {link.local.text}"]
    parts += [] if link.sent is None or link.sent.state is State.ABSENT else [link.sent.with_sign()]
    parts += [f"{link.wires:,} wires"] if link.wires > 1 else []
    label = f'|"{"<br/>".join(map(text, parts))}"|' if parts else ""
    blocked = link.sent is not None and link.sent.state is State.BLOCKED
    return f"b{link.source} {'-.->' if blocked else '-->'}{label} b{link.target}"


def _styles(drawn: Picture, scale: Scale) -> Iterator[str]:
    """Return the colours of gradients, and thick edges for outputs; text says the same."""
    for k, box in enumerate(drawn.boxes):
        fill = LIGHT.panel if box.grad is None else LIGHT.tint(box.grad.tone(scale))
        ink = LIGHT.ink if box.kind is Kind.SPLIT else fill
        edge = f"stroke:{LIGHT.ink},stroke-width:2px" if box.outputs or box.bad else f"stroke:{LIGHT.line}"
        yield f"  style b{k} fill:{ink},color:{LIGHT.ink},{edge}"
    for k, link in enumerate(drawn.links):
        if link.sent is not None and link.sent.state in (State.NUMBER, State.NONFINITE):
            tone = link.sent.tone(scale)
            thick = 3 if tone == NONFINITE else scale.weight(link.sent.size)
            yield f"  linkStyle {k} stroke:{LIGHT.stroke(tone)},stroke-width:{thick}px"
