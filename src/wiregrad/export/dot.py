"""Pictures in the DOT language of Graphviz, for those who want its layout; nothing here needs it installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wiregrad.backends import Run
from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.drawing import picture
from wiregrad.export.nesting import Tree, nested
from wiregrad.export.palette import LIGHT, Scale
from wiregrad.export.reading import Reading, State
from wiregrad.ir import Circuit

_SHAPES = {Kind.INPUT: "Mrecord", Kind.CONSTANT: "Mrecord", Kind.SPLIT: "point"}
_WIDTHS = {1: "1", 2: "2", 3: "3.2"}


def to_dot(circuit: Circuit, run: Run | None = None, *, down: bool = False, **options: Any) -> str:
    """Return the picture of a circuit, and of a run on it, as DOT; options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> print(to_dot(parse_text("input x\\ny = tanh x\\noutput y")).splitlines()[0])
    digraph "y" {
    """
    drawn = picture(circuit, run, **options)
    return "\n".join(_lines(drawn, drawn.scale(), "TB" if down else "LR")) + "\n"


def quoted(text: str) -> str:
    """Quote a text as a DOT string.

    >>> quoted('say "x"')
    '"say \\\\"x\\\\""'
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'


def _field(text: str) -> str:
    """Escape a text as a field of a record label, which is then quoted."""
    text = text.replace("&", "&amp;")
    return "".join(f"\\{ch}" if ch in '\\{}|<>" ' else ch for ch in text)


def _lines(drawn: Picture, scale: Scale, direction: str) -> Iterator[str]:
    yield f"digraph {quoted(drawn.title)} {{"
    yield f"  rankdir={direction}; nodesep=0.3; ranksep=0.5;"
    label = quoted(drawn.note or drawn.about)
    colours = f'color="{LIGHT.line}", fontcolor="{LIGHT.ink}"'
    yield f'  label={label}; labelloc=t; labeljust=l; fontname="Helvetica"; fontsize=11;'
    yield f'  node [fontname="Helvetica", fontsize=11, {colours}];'
    yield f'  edge [fontname="Helvetica", fontsize=9, {colours}, arrowsize=0.7];'
    yield from _groups(drawn, scale)
    for link in drawn.links:
        yield f"  b{link.source} -> b{link.target} [{_edge(link, scale)}];"
    yield "}"


def _groups(drawn: Picture, scale: Scale) -> Iterator[str]:
    """Return the boxes and the clusters around them."""
    for step, depth, number, name in nested(drawn):
        pad = "  " * (depth + 1)
        if step is Tree.OPEN:
            yield f"{pad}subgraph cluster_{number} {{"
            yield f'{pad}  label={quoted(name)}; color="{LIGHT.line}"; style="rounded,dashed";'
        elif step is Tree.CLOSE:
            yield f"{pad}}}"
        else:
            yield f"{pad}b{number} [{_box(drawn.boxes[number], scale)}];"


def _box(box: Box, scale: Scale) -> str:
    about = quoted("; ".join(box.facts))
    if box.kind is Kind.SPLIT:
        return f'shape=point, width=0.1, color="{LIGHT.ink}", tooltip={about}'
    text = f"({box.text})" if box.kind is Kind.GROUP else box.text
    title = " ".join(part for part in (box.name, text) if part) or box.label
    fields = [title]
    fields += [] if box.value is None else [f"data {box.value.text}"]
    fields += [] if box.grad is None else [f"grad {box.grad.with_sign()}"]
    fields += [f"{box.bad:,} not finite"] if box.kind is Kind.GROUP and box.bad else []
    fields += [f"output {', '.join(box.outputs)}"] if box.outputs else []
    label = " | ".join(map(_field, fields))
    shape = _SHAPES.get(box.kind, "record")
    fill = LIGHT.panel if box.grad is None else LIGHT.tint(box.grad.tone(scale))
    thick = ", penwidth=2" if box.outputs else ""
    return f'shape={shape}, label="{{ {label} }}", style=filled, fillcolor="{fill}", tooltip={about}{thick}'


def _edge(link: Link, scale: Scale) -> str:
    texts = [] if link.local is None else [f"∂ {link.local.text}"]
    texts += [] if link.sent is None or link.sent.state is State.ABSENT else [link.sent.with_sign()]
    texts += [f"{link.wires:,} wires"] if link.wires > 1 else []
    # In a DOT label, a backslash followed by n starts a new line.
    label = "\\n".join(quoted(text)[1:-1] for text in texts)
    return f'label="{label}"' + ("" if link.sent is None else _stroke(link.sent, scale))


def _stroke(sent: Reading, scale: Scale) -> str:
    if sent.state is State.BLOCKED:
        return ", style=dashed"
    if sent.state is State.ABSENT:
        return ""
    tone = sent.tone(scale)
    thick = _WIDTHS[3 if sent.state is State.NONFINITE else scale.weight(sent.size)]
    style = ', style="bold,dotted"' if sent.state is State.NONFINITE else ""
    colours = f'color="{LIGHT.stroke(tone)}", fontcolor="{LIGHT.word(tone)}"'
    return f", {colours}, penwidth={thick}{style}"
