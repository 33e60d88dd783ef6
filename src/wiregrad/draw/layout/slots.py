"""Where things are written in a picture: numbers behind a port, the rows of a leaf, the local derivative at a port.

All of it follows from the rectangle of a box and the end of a wire; `web/src/layout/slots.ts` does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wiregrad.draw.layout.boxes import Box, BoxKind
from wiregrad.draw.layout.figure import (
    ASIDE,
    GRADIENT_WORD,
    SMALL_FONT_SIZE,
    TITLE_FONT_SIZE,
    PictureMeasure,
    Rect,
    WireMarks,
    output_length,
    show_caption,
    write_output_label,
)
from wiregrad.draw.layout.labels import measure_text
from wiregrad.draw.layout.sizes import Detail

PagePoint = tuple[float, float]
"""A point, as (x, y)."""


class Anchor(Enum):
    """The side of a slot at which its text is anchored."""

    START = "start"
    MIDDLE = "middle"
    END = "end"


@dataclass(frozen=True, slots=True)
class TextSlot:
    """A place for one line of text: its rectangle, and the point on the base line at which the text is anchored."""

    rect: Rect
    at: PagePoint
    anchor: Anchor


@dataclass(frozen=True, slots=True)
class OutputMark:
    """The mark of an output: a wire from the box to a dot, and the name beside it."""

    text: str
    start: PagePoint
    dot: PagePoint
    name: TextSlot


@dataclass(frozen=True, slots=True)
class BoxPlaces:
    """The places of a box; None for what it does not have."""

    out: PagePoint
    """Where wires leave."""
    caption: TextSlot | None = None
    value: TextSlot | None = None
    grad: TextSlot | None = None
    name: TextSlot | None = None
    text: TextSlot | None = None
    """What stands under the name of a closed group."""
    word: TextSlot | None = None
    """The word before a gradient."""
    cell: Rect | None = None
    """The lower part of a leaf or a group, which takes the colour of its gradient."""


def find_places(box: Box, rect: Rect, measure: PictureMeasure) -> BoxPlaces:
    """Return the places of a box in a rectangle."""
    out = _find_out(box, rect, measure.down)
    if box.kind is BoxKind.SPLIT:
        return BoxPlaces(out)
    if box.kind is BoxKind.NODE:
        return _place_node(box, rect, out, measure)
    if box.kind is BoxKind.GROUP:
        return _place_group(rect, out, measure)
    return _place_leaf(rect, out, measure)


def _find_out(box: Box, rect: Rect, down: bool) -> PagePoint:
    """Wires leave a splitter from its middle, and all other boxes from the middle of a side."""
    x = rect.x + rect.width / 2
    y = rect.y + rect.height / 2
    if box.kind is BoxKind.SPLIT:
        return x, y
    return (x, rect.y + rect.height) if down else (rect.x + rect.width, y)


def make_slot(at: PagePoint, wide: float, font: int, anchor: Anchor) -> TextSlot:
    """Return a slot whose text is anchored at a point."""
    left = at[0] - wide * {Anchor.START: 0.0, Anchor.MIDDLE: 0.5, Anchor.END: 1.0}[anchor]
    return TextSlot(Rect(left, at[1] - round(0.8 * font), wide, font), at, anchor)


def _base_line(middle: float, font: int) -> int:
    """Return the base line of text in the middle of a row."""
    return int(middle + font * 0.36 + 0.5)


def _place_node(box: Box, rect: Rect, out: PagePoint, measure: PictureMeasure) -> BoxPlaces:
    caption = _place_caption(box, rect, measure)
    if not measure.ran:
        return BoxPlaces(out, caption)
    sizes = measure.sizes
    font = sizes.number_font
    if measure.down:
        left = (out[0] - ASIDE, out[1] + font + 7)
        right = (out[0] + ASIDE, out[1] + font + 7)
        value = make_slot(left, sizes.slot, font, Anchor.END)
        return BoxPlaces(out, caption, value, make_slot(right, sizes.slot, font, Anchor.START))
    x = out[0] + sizes.gap
    value = make_slot((x, out[1] - 8), sizes.slot, font, Anchor.START)
    return BoxPlaces(out, caption, value, make_slot((x, out[1] + font + 7), sizes.slot, font, Anchor.START))


def _place_caption(box: Box, rect: Rect, measure: PictureMeasure) -> TextSlot | None:
    text = show_caption(box, measure)
    if not text:
        return None
    font = measure.sizes.label_font
    wide = measure_text(text, font)
    if measure.down:
        beside = (rect.x + rect.width + 8, rect.y + rect.height / 2 + 4)
        return make_slot(beside, wide, font, Anchor.START)
    return make_slot((rect.x + rect.width / 2, rect.y + rect.height + font + 4), wide, font, Anchor.MIDDLE)


def _place_leaf(rect: Rect, out: PagePoint, measure: PictureMeasure) -> BoxPlaces:
    sizes = measure.sizes
    inner = rect.width - 2 * sizes.pad
    if not measure.ran:
        middle = (rect.x + rect.width / 2, _base_line(rect.y + rect.height / 2, sizes.name_font))
        return BoxPlaces(out, name=make_slot(middle, inner, sizes.name_font, Anchor.MIDDLE))
    upper = rect.y + rect.height / 4
    lower = rect.y + 3 * rect.height / 4
    left = rect.x + sizes.pad
    right = rect.x + rect.width - sizes.pad
    word = make_slot(
        (left, _base_line(lower, SMALL_FONT_SIZE)),
        measure_text(GRADIENT_WORD, SMALL_FONT_SIZE),
        SMALL_FONT_SIZE,
        Anchor.START,
    )
    font = sizes.number_font
    return BoxPlaces(
        out,
        value=make_slot((right, _base_line(upper, font)), sizes.slot, font, Anchor.END),
        grad=make_slot((right, _base_line(lower, font)), sizes.slot, font, Anchor.END),
        name=make_slot(
            (left, _base_line(upper, sizes.name_font)), inner - sizes.slot - 8, sizes.name_font, Anchor.START
        ),
        word=word if measure.detail < Detail.NO_WORD else None,
        cell=Rect(rect.x, rect.y + rect.height / 2, rect.width, rect.height / 2),
    )


def _place_group(rect: Rect, out: PagePoint, measure: PictureMeasure) -> BoxPlaces:
    sizes = measure.sizes
    left = rect.x + 14
    inner = rect.width - 28
    name = make_slot((left, rect.y + 22), inner, TITLE_FONT_SIZE, Anchor.START)
    text = make_slot((left, rect.y + 40), inner, SMALL_FONT_SIZE, Anchor.START)
    if not measure.ran:
        return BoxPlaces(out, name=name, text=text)
    cell = Rect(rect.x, rect.y + rect.height - 24, rect.width, 24)
    middle = cell.y + 12
    font = sizes.number_font
    word = make_slot(
        (left, _base_line(middle, SMALL_FONT_SIZE)),
        measure_text(GRADIENT_WORD, SMALL_FONT_SIZE),
        SMALL_FONT_SIZE,
        Anchor.START,
    )
    return BoxPlaces(
        out,
        grad=make_slot((rect.x + rect.width - 14, _base_line(middle, font)), sizes.slot, font, Anchor.END),
        name=name,
        text=text,
        word=word if measure.detail < Detail.NO_WORD else None,
        cell=cell,
    )


def place_output(box: Box, out: PagePoint, measure: PictureMeasure) -> OutputMark:
    """Return the mark of an output."""
    sizes = measure.sizes
    text = write_output_label(box)
    length = output_length(box, measure) + sizes.dot / 2
    x, y = (out[0], out[1] + length) if measure.down else (out[0] + length, out[1])
    at = (x + sizes.dot / 2 + 8, y + 4) if measure.down else (x + sizes.dot / 2 + 6, y + 5)
    name = make_slot(at, measure_text(text, sizes.name_font), sizes.name_font, Anchor.START)
    return OutputMark(text, out, (x, y), name)


@dataclass(frozen=True, slots=True)
class PortPlaces:
    """The places before the port of a wire: a local derivative, and the gradient of a branch."""

    pill: TextSlot | None = None
    sent: TextSlot | None = None


def place_port(end: PagePoint, marks: WireMarks, port: int, ports: int, measure: PictureMeasure) -> PortPlaces:
    """Return what stands before a port; `port` of `ports` says on which side, where values flow downwards."""
    if measure.down:
        return _place_above_port(end, marks, port, ports, measure)
    sizes = measure.sizes
    right = end[0] - 12
    beside = right - (sizes.pill + 4 if marks.pill else 0)
    return PortPlaces(
        _make_pill(right, end[1], sizes.pill, sizes.pill_height, Anchor.END) if marks.pill else None,
        make_slot((beside, end[1] - 6), sizes.slot, sizes.number_font, Anchor.END) if marks.sent else None,
    )


def _place_above_port(end: PagePoint, marks: WireMarks, port: int, ports: int, measure: PictureMeasure) -> PortPlaces:
    sizes = measure.sizes
    x, y = end
    side = Anchor.MIDDLE if ports != 2 else Anchor.START if port else Anchor.END
    lean = {Anchor.START: -ASIDE, Anchor.MIDDLE: 0, Anchor.END: ASIDE}[side]
    top = y - 12 - sizes.pill_height / 2
    high = y - 12 - (sizes.pill_height + 6 if marks.pill else 0)
    sent = (x - 8, Anchor.END) if side is Anchor.END else (x + 8, Anchor.START)
    return PortPlaces(
        _make_pill(x + lean, top, sizes.pill, sizes.pill_height, side) if marks.pill else None,
        make_slot((sent[0], high), sizes.slot, sizes.number_font, sent[1]) if marks.sent else None,
    )


def _make_pill(x: float, middle: float, wide: int, high: int, anchor: Anchor) -> TextSlot:
    """Return the room of a pill around a wire; the pill is as wide as its text, and anchored like it."""
    slot = make_slot((x, _base_line(middle, 12)), wide, high, anchor)
    return TextSlot(Rect(slot.rect.x, middle - high / 2, wide, high), slot.at, anchor)
