"""Pictures in the DOT language of Graphviz, for those who want its layout; nothing here needs it installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wiregrad.backends import RunRecord
from wiregrad.export.boxes import Box, BoxKind, PictureLink, Picture
from wiregrad.export.drawing import build_picture
from wiregrad.export.nesting import GroupStep, walk_groups
from wiregrad.export.palette import LIGHT_THEME, ColourScale
from wiregrad.export.reading import Reading, ReadingState
from wiregrad.ir import CircuitGraph

_DOT_SHAPES = {BoxKind.INPUT: "Mrecord", BoxKind.CONSTANT: "Mrecord", BoxKind.SPLIT: "point"}
_DOT_PEN_WIDTHS = {1: "1", 2: "2", 3: "3.2"}


def to_dot(circuit: CircuitGraph, run: RunRecord | None = None, *, down: bool = False, **options: Any) -> str:
    """Return the picture of a circuit, and of a run on it, as DOT; options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> print(to_dot(parse_text("input x\\ny = tanh x\\noutput y")).splitlines()[0])
    digraph "y" {
    """
    drawn = build_picture(circuit, run, **options)
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
    fields = [title]
    fields += [] if box.value is None else [f"data {box.value.text}"]
    fields += [] if box.grad is None else [f"grad {box.grad.signed_text()}"]
    fields += [f"{box.bad:,} not finite"] if box.kind is BoxKind.GROUP and box.bad else []
    fields += [f"output {', '.join(box.outputs)}"] if box.outputs else []
    label = " | ".join(map(_escape_dot_field, fields))
    shape = _DOT_SHAPES.get(box.kind, "record")
    fill = LIGHT_THEME.panel if box.grad is None else LIGHT_THEME.tint_colour(box.grad.tone_on(scale))
    thick = ", penwidth=2" if box.outputs else ""
    return f'shape={shape}, label="{{ {label} }}", style=filled, fillcolor="{fill}", tooltip={about}{thick}'


def _write_dot_edge(link: PictureLink, scale: ColourScale) -> str:
    texts = [] if link.local is None else [f"∂ {link.local.text}"]
    texts += [] if link.sent is None or link.sent.state is ReadingState.ABSENT else [link.sent.signed_text()]
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
    thick = _DOT_PEN_WIDTHS[3 if sent.state is ReadingState.NONFINITE else scale.line_weight(sent.size)]
    style = ', style="bold,dotted"' if sent.state is ReadingState.NONFINITE else ""
    colours = f'color="{LIGHT_THEME.stroke_colour(tone)}", fontcolor="{LIGHT_THEME.text_colour(tone)}"'
    return f", {colours}, penwidth={thick}{style}"
