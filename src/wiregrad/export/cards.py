"""Boxes in SVG: a head with name and op, and under it a row for the value and one for the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wiregrad.export.boxes import Box, Kind
from wiregrad.export.figure import FONT, HEAD, PAD, SMALL, Cell, Rect, cells_of, name_of, op_of
from wiregrad.export.letters import width
from wiregrad.export.markup import arrow, box, cell, classes, element, hatch, line, note, words
from wiregrad.export.palette import Scale
from wiregrad.export.reading import State


class Cards:
    """Draws boxes with one colour scale and adds the tones it used to `tones`."""

    def __init__(self, scale: Scale, tones: set[str]) -> None:
        self.scale = scale
        self.tones = tones

    def draw(self, drawn: Box, rect: Rect) -> str:
        """Return a box with its tooltip."""
        parts = _dot(drawn, rect) if drawn.kind is Kind.SPLIT else self._card(drawn, rect)
        label = ", ".join(drawn.facts[:4])
        return element("g", note("\n".join(drawn.facts)), *parts, role="graphics-symbol", aria_label=label)

    def _card(self, drawn: Box, rect: Rect) -> Iterator[str]:
        round_ = 12 if drawn.is_leaf else 5
        cells = cells_of(drawn)
        if drawn.kind is Kind.GROUP:
            yield box(replace(rect, x=rect.x + 4, y=rect.y + 4), "back", round_)
        yield box(rect, "box", round_)
        head = replace(rect, height=HEAD if cells else rect.height)
        low = 0 if cells else round_
        yield element("path", d=cell(head, round_, low, low), class_=classes("head"))
        yield from _head(drawn, head)
        if cells:
            yield from self._cells(drawn, replace(rect, y=rect.y + HEAD, height=rect.height - HEAD), round_)
        yield box(rect, "edge out" if drawn.outputs else "edge", round_)
        if drawn.kink:
            yield _badge(rect.x + rect.width, rect.y, drawn.kink)

    def _cells(self, drawn: Box, rect: Rect, round_: int) -> Iterator[str]:
        cells = cells_of(drawn)
        tall = rect.height // len(cells)
        for k, row in enumerate(cells):
            last = k == len(cells) - 1
            y = rect.y + tall * k
            here = Rect(rect.x, y, rect.width, rect.y + rect.height - y if last else tall)
            yield from self._ground(row, here, round_ * last)
            yield from _text(row, here)
            yield element("path", d=f"M{rect.x} {y}h{rect.width}", class_=classes("rule"))

    def _ground(self, row: Cell, rect: Rect, round_: int) -> Iterator[str]:
        """Return the background of a row; `round_` is the radius of its lower corners."""
        reading = row.reading
        if reading.state is State.NONFINITE:
            yield from _hatched(row, rect, round_)
        elif row.coloured and reading.state is State.NUMBER:
            tone = reading.tone(self.scale)
            self.tones.add(tone)
            yield element("path", d=cell(rect, 0, round_, round_), class_=classes(f"t-{tone}"))
        elif row.coloured:
            yield box(Rect(rect.x + 3, rect.y + 2, rect.width - 6, rect.height - 5), "hollow", 5)


def _hatched(row: Cell, rect: Rect, round_: int) -> Iterator[str]:
    """Return the hatch of a row that is not finite, with plain patches under the text so that it stays readable."""
    # Strokes would show outside the round corners, so the hatched area is a little smaller.
    corner = round_ // 3
    within = Rect(rect.x + corner, rect.y, rect.width - 2 * corner, rect.height - corner)
    yield element("path", d=hatch(within), class_=classes("hatch"))
    left = width(row.what, SMALL) + 8
    right = width(row.text, FONT, bold=True) + 8
    top = rect.y + 1
    tall = rect.height - 1 - corner
    yield box(Rect(rect.x + PAD - 4, top, left, tall), "box", 4)
    yield box(Rect(rect.x + rect.width - PAD + 4 - right, top, right, tall), "box", 4)


def _head(drawn: Box, rect: Rect) -> Iterator[str]:
    y = rect.y + rect.height / 2 + 4
    name = name_of(drawn)
    op = op_of(drawn)
    if name:
        yield words(name, rect.x + PAD, y, "name")
        yield words(op, rect.x + rect.width - PAD, y, "op end")
    else:
        yield words(op, rect.x + rect.width / 2, y, "name mid")


def _text(row: Cell, rect: Rect) -> Iterator[str]:
    y = rect.y + rect.height / 2 + 4
    css = {State.NONFINITE: "end strong", State.NUMBER: "end"}.get(row.reading.state, "end quiet")
    yield words(row.what, rect.x + PAD, y, "what")
    yield words(row.text, rect.x + rect.width - PAD, y, css)


def _dot(drawn: Box, rect: Rect) -> Iterator[str]:
    r = rect.width // 2
    x = rect.x + r
    y = rect.y + r
    yield element("circle", cx=x, cy=y, r=r, class_=classes("dot"))
    if drawn.nodes > 1:
        yield words(f"{drawn.nodes} splitters", x - r - 6, y - r - 3, "small end")


def _badge(x: int, y: int, kink: str) -> str:
    shape = element("path", d=f"M{x} {y - 7}l7 7l-7 7l-7 -7z", class_=classes("badge"))
    return element("g", note(f"on a kink; convention {kink}"), shape, words("!", x, y + 4, "what mid strong"))


def output_mark(text: str, rect: Rect, down: bool) -> str:
    """Return the arrow that leaves an output, with its label."""
    if down:
        x = rect.x + rect.width // 2
        y = rect.y + rect.height
        parts = [line(f"M{x} {y}v10", "plain"), arrow((x, y + 18), down, "plain"), words(text, x + 8, y + 14, "net")]
    else:
        x = rect.x + rect.width
        y = rect.y + rect.height // 2
        parts = [line(f"M{x} {y}h10", "plain"), arrow((x + 18, y), down, "plain"), words(text, x + 22, y + 4, "net")]
    return "".join(parts)
