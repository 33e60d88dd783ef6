"""Boxes in SVG: a head with name and op, and under it a row for the value and one for the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wiregrad.export.boxes import Box, BoxKind
from wiregrad.export.figure import FONT_SIZE, HEAD_HEIGHT, BOX_PADDING, SMALL_FONT_SIZE, BoxRow, Rect, list_box_rows, shorten_name, shorten_op
from wiregrad.export.letters import measure_text
from wiregrad.export.markup import draw_arrow, draw_rect, trace_cell, prefix_classes, write_element, trace_hatch, draw_line, write_tooltip, write_words
from wiregrad.export.palette import ColourScale
from wiregrad.export.reading import ReadingState


class SvgBoxWriter:
    """Draws boxes with one colour scale and adds the tones it used to `tones`."""

    def __init__(self, scale: ColourScale, tones: set[str]) -> None:
        self.scale = scale
        self.tones = tones

    def draw_box(self, drawn: Box, rect: Rect) -> str:
        """Return a box with its tooltip."""
        parts = _draw_splitter(drawn, rect) if drawn.kind is BoxKind.SPLIT else self._draw_card(drawn, rect)
        label = ", ".join(drawn.facts[:4])
        return write_element("g", write_tooltip("\n".join(drawn.facts)), *parts, role="graphics-symbol", aria_label=label)

    def _draw_card(self, drawn: Box, rect: Rect) -> Iterator[str]:
        round_ = 12 if drawn.is_leaf else 5
        cells = list_box_rows(drawn)
        if drawn.kind is BoxKind.GROUP:
            yield draw_rect(replace(rect, x=rect.x + 4, y=rect.y + 4), "back", round_)
        yield draw_rect(rect, "box", round_)
        head = replace(rect, height=HEAD_HEIGHT if cells else rect.height)
        low = 0 if cells else round_
        yield write_element("path", d=trace_cell(head, round_, low, low), class_=prefix_classes("head"))
        yield from _draw_head(drawn, head)
        if cells:
            yield from self._draw_rows(drawn, replace(rect, y=rect.y + HEAD_HEIGHT, height=rect.height - HEAD_HEIGHT), round_)
        yield draw_rect(rect, "edge out" if drawn.outputs else "edge", round_)
        if drawn.kink:
            yield _draw_kink_badge(rect.x + rect.width, rect.y, drawn.kink)

    def _draw_rows(self, drawn: Box, rect: Rect, round_: int) -> Iterator[str]:
        cells = list_box_rows(drawn)
        tall = rect.height // len(cells)
        for k, row in enumerate(cells):
            last = k == len(cells) - 1
            y = rect.y + tall * k
            here = Rect(rect.x, y, rect.width, rect.y + rect.height - y if last else tall)
            yield from self._draw_row_background(row, here, round_ * last)
            yield from _write_row(row, here)
            yield write_element("path", d=f"M{rect.x} {y}h{rect.width}", class_=prefix_classes("rule"))

    def _draw_row_background(self, row: BoxRow, rect: Rect, round_: int) -> Iterator[str]:
        """Return the background of a row; `round_` is the radius of its lower corners."""
        reading = row.reading
        if reading.state is ReadingState.NONFINITE:
            yield from _draw_hatched_row(row, rect, round_)
        elif row.coloured and reading.state is ReadingState.NUMBER:
            tone = reading.tone_on(self.scale)
            self.tones.add(tone)
            yield write_element("path", d=trace_cell(rect, 0, round_, round_), class_=prefix_classes(f"t-{tone}"))
        elif row.coloured:
            yield draw_rect(Rect(rect.x + 3, rect.y + 2, rect.width - 6, rect.height - 5), "hollow", 5)


def _draw_hatched_row(row: BoxRow, rect: Rect, round_: int) -> Iterator[str]:
    """Return the hatch of a row that is not finite, with plain patches under the text so that it stays readable."""
    # Strokes would show outside the round corners, so the hatched area is a little smaller.
    corner = round_ // 3
    within = Rect(rect.x + corner, rect.y, rect.width - 2 * corner, rect.height - corner)
    yield write_element("path", d=trace_hatch(within), class_=prefix_classes("hatch"))
    left = measure_text(row.what, SMALL_FONT_SIZE) + 8
    right = measure_text(row.text, FONT_SIZE, bold=True) + 8
    top = rect.y + 1
    tall = rect.height - 1 - corner
    yield draw_rect(Rect(rect.x + BOX_PADDING - 4, top, left, tall), "box", 4)
    yield draw_rect(Rect(rect.x + rect.width - BOX_PADDING + 4 - right, top, right, tall), "box", 4)


def _draw_head(drawn: Box, rect: Rect) -> Iterator[str]:
    y = rect.y + rect.height / 2 + 4
    name = shorten_name(drawn)
    op = shorten_op(drawn)
    if name:
        yield write_words(name, rect.x + BOX_PADDING, y, "name")
        yield write_words(op, rect.x + rect.width - BOX_PADDING, y, "op end")
    else:
        yield write_words(op, rect.x + rect.width / 2, y, "name mid")


def _write_row(row: BoxRow, rect: Rect) -> Iterator[str]:
    y = rect.y + rect.height / 2 + 4
    css = {ReadingState.NONFINITE: "end strong", ReadingState.NUMBER: "end"}.get(row.reading.state, "end quiet")
    yield write_words(row.what, rect.x + BOX_PADDING, y, "what")
    yield write_words(row.text, rect.x + rect.width - BOX_PADDING, y, css)


def _draw_splitter(drawn: Box, rect: Rect) -> Iterator[str]:
    r = rect.width // 2
    x = rect.x + r
    y = rect.y + r
    yield write_element("circle", cx=x, cy=y, r=r, class_=prefix_classes("dot"))
    if drawn.nodes > 1:
        yield write_words(f"{drawn.nodes} splitters", x - r - 6, y - r - 3, "small end")


def _draw_kink_badge(x: int, y: int, kink: str) -> str:
    shape = write_element("path", d=f"M{x} {y - 7}l7 7l-7 7l-7 -7z", class_=prefix_classes("badge"))
    return write_element("g", write_tooltip(f"on a kink; convention {kink}"), shape, write_words("!", x, y + 4, "what mid strong"))


def draw_output_arrow(text: str, rect: Rect, down: bool) -> str:
    """Return the arrow that leaves an output, with its label."""
    if down:
        x = rect.x + rect.width // 2
        y = rect.y + rect.height
        parts = [draw_line(f"M{x} {y}v10", "plain"), draw_arrow((x, y + 18), down, "plain"), write_words(text, x + 8, y + 14, "net")]
    else:
        x = rect.x + rect.width
        y = rect.y + rect.height // 2
        parts = [draw_line(f"M{x} {y}h10", "plain"), draw_arrow((x + 18, y), down, "plain"), write_words(text, x + 22, y + 4, "net")]
    return "".join(parts)
