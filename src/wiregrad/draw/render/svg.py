"""Pictures as SVG: one text without scripts and without references to anything outside it.

From small to large: elements and paths, boxes (a head with name and op, a row for the value and one for the gradient),
the legend (colour scale and signs), and the page, which `to_svg` returns.

Invariants: user text is escaped and appears only in text nodes and attribute values; nothing has an id, so many
pictures can share a page; the colours of both themes fit in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from typing import Unpack

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import Box, BoxKind, Picture, PictureLink
from wiregrad.draw.layout.figure import (
    BOX_PADDING,
    FONT_SIZE,
    HEAD_HEIGHT,
    SMALL_FONT_SIZE,
    BoxRow,
    GroupFrame,
    PlacedPicture,
    Rect,
    build_group_frames,
    count_unframed_groups,
    is_detailed,
    list_box_rows,
    place_picture,
    shorten_name,
    shorten_op,
    typeset_text,
    write_output_label,
    write_stub_name,
)
from wiregrad.draw.layout.labels import MINUS, Reading, ReadingState, clip_end, measure_text, read_value
from wiregrad.draw.layout.picture import PictureOptions, build_picture
from wiregrad.draw.palette import (
    AUTO_THEME,
    MIXED_TONE,
    NEGATIVE_TONE,
    NONFINITE_TONE,
    POSITIVE_TONE,
    THEMES,
    TONE_STEPS,
    ZERO_TONE,
    ColourScale,
    write_style_sheet,
)
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import InputError, short_repr, suggest_name
from wiregrad.ir import CircuitGraph

WIRE_CORNER_RADIUS = 6
"""Radius of the corners of wires."""


def write_attributes(**values: object) -> str:
    """Write attributes, escaped; an underscore in a name stands for a hyphen.

    >>> write_attributes(x=1, aria_label='a "b"')
    ' x="1" aria-label="a &quot;b&quot;"'
    """
    return "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for name, value in values.items())


def write_element(tag: str, *content: str, **values: object) -> str:
    """Write an element; its content must be markup already.

    >>> write_element("path", d="M0 0h9")
    '<path d="M0 0h9"/>'
    """
    inside = "".join(content)
    return f"<{tag}{write_attributes(**values)}>{inside}</{tag}>" if inside else f"<{tag}{write_attributes(**values)}/>"


def write_words(text: str, x: float, y: float, css: str) -> str:
    """Write a line of text, escaped.

    >>> write_words("a < b", 1, 2, "name")
    '<text x="1" y="2" class="wg-name">a &lt; b</text>'
    """
    return write_element("text", escape(text), x=f"{x:g}", y=f"{y:g}", class_=prefix_classes(css))


def write_tooltip(text: str) -> str:
    """Write a title element, which browsers show as a tooltip.

    >>> write_tooltip("a & b")
    '<title>a &amp; b</title>'
    """
    return f"<title>{escape(text)}</title>"


def prefix_classes(css: str) -> str:
    """Prefix class names so that they do not clash with those of the surrounding page.

    >>> prefix_classes("line s-p1")
    'wg-line wg-s-p1'
    """
    return " ".join(f"wg-{name}" for name in css.split())


def draw_rect(rect: Rect, css: str, round_: int = 0) -> str:
    """Draw a rectangle."""
    values = {"rx": round_} if round_ else {}
    return write_element(
        "rect", x=rect.x, y=rect.y, width=rect.width, height=rect.height, class_=prefix_classes(css), **values
    )


def draw_line(path: str, css: str, width: float = 1.2) -> str:
    """Draw a stroke in the colour of its class."""
    return write_element("path", d=path, class_=prefix_classes(f"line {css}"), stroke_width=f"{width:g}")


def draw_arrow(end: tuple[int, int], down: bool, css: str) -> str:
    """Draw the head of an arrow that ends at a point."""
    x, y = end
    path = f"M{x} {y}l-4 -8h8z" if down else f"M{x} {y}l-8 -4v8z"
    return write_element("path", d=path, class_=prefix_classes(f"arrow {css}"))


def trace_rounded_path(points: Sequence[tuple[int, int]]) -> str:
    """Return a path through points, with round corners at right angles.

    >>> trace_rounded_path([(0, 0), (20, 0), (20, 30)])
    'M0 0L14 0Q20 0 20 6L20 30'
    """
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for before, at, behind in zip(points, points[1:], points[2:], strict=False):
        r = min(WIRE_CORNER_RADIUS, _path_distance(before, at) // 2, _path_distance(at, behind) // 2)
        right = (before[0] == at[0]) != (behind[0] == at[0]) and (before[1] == at[1]) != (behind[1] == at[1])
        if right and r > 0:
            a, b = _step_towards(at, before, r)
            c, d = _step_towards(at, behind, r)
            parts.append(f"L{a} {b}Q{at[0]} {at[1]} {c} {d}")
        else:
            parts.append(f"L{at[0]} {at[1]}")
    return "".join([*parts, f"L{points[-1][0]} {points[-1][1]}"])


def trace_rounded_outline(points: Sequence[tuple[int, int]]) -> str:
    """Return a closed path through points, with round corners.

    >>> trace_rounded_outline([(0, 0), (20, 0), (20, 30), (0, 30)])
    'M10 0L15 0Q20 0 20 5L20 24Q20 30 14 30L6 30Q0 30 0 24L0 5Q0 0 5 0L10 0Z'
    """
    (x, y), (x1, y1) = points[:2]
    middle = ((x + x1) // 2, (y + y1) // 2)
    return trace_rounded_path([middle, *points[1:], points[0], middle]) + "Z"


def _path_distance(one: tuple[int, int], two: tuple[int, int]) -> int:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


def _step_towards(one: tuple[int, int], two: tuple[int, int], step: int) -> tuple[int, int]:
    """Return the point a step away from one point in the direction of another."""
    return tuple(a + step * ((b > a) - (b < a)) for a, b in zip(one, two, strict=True))  # type: ignore[return-value]


def trace_cell(rect: Rect, top: int, left: int, right: int) -> str:
    """Return the path of a cell; the numbers are the radii at the top, the lower left and the lower right corner."""
    x = rect.x
    y = rect.y
    w = rect.width
    h = rect.height
    return "".join(
        [
            f"M{x} {y + top}",
            f"q0 {-top} {top} {-top}h{w - 2 * top}q{top} 0 {top} {top}" if top else f"h{w}",
            f"V{y + h - right}",
            f"q0 {right} {-right} {right}" if right else "",
            f"H{x + left}",
            f"q{-left} 0 {-left} {-left}z" if left else "z",
        ]
    )


def trace_hatch(rect: Rect, step: int = 6) -> str:
    """Return the path of diagonal strokes that fill a rectangle.

    >>> trace_hatch(Rect(0, 0, 12, 6))
    'M0 6L6 0M6 6L12 0'
    """
    x = rect.x
    y = rect.y
    w = rect.width
    h = rect.height
    strokes = []
    for t in range(step, w + h, step):
        start = (x + max(0, t - h), y + min(t, h))
        end = (x + min(t, w), y + max(0, t - w))
        strokes.append(f"M{start[0]} {start[1]}L{end[0]} {end[1]}")
    return "".join(strokes)


class SvgBoxWriter:
    """Draws boxes with one colour scale and adds the tones it used to `tones`."""

    def __init__(self, scale: ColourScale, tones: set[str]) -> None:
        self.scale = scale
        self.tones = tones

    def draw_box(self, drawn: Box, rect: Rect) -> str:
        """Return a box with its tooltip."""
        parts = _draw_splitter(drawn, rect) if drawn.kind is BoxKind.SPLIT else self._draw_card(drawn, rect)
        label = ", ".join(drawn.facts[:4])
        return write_element(
            "g", write_tooltip("\n".join(drawn.facts)), *parts, role="graphics-symbol", aria_label=label
        )

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
            yield from self._draw_rows(
                drawn, replace(rect, y=rect.y + HEAD_HEIGHT, height=rect.height - HEAD_HEIGHT), round_
            )
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
    return write_element(
        "g", write_tooltip(f"on a kink; convention {kink}"), shape, write_words("!", x, y + 4, "what mid strong")
    )


def draw_output_arrow(text: str, rect: Rect, down: bool) -> str:
    """Return the arrow that leaves an output, with its label."""
    if down:
        x = rect.x + rect.width // 2
        y = rect.y + rect.height
        parts = [
            draw_line(f"M{x} {y}v10", "plain"),
            draw_arrow((x, y + 18), down, "plain"),
            write_words(text, x + 8, y + 14, "net"),
        ]
    else:
        x = rect.x + rect.width
        y = rect.y + rect.height // 2
        parts = [
            draw_line(f"M{x} {y}h10", "plain"),
            draw_arrow((x + 18, y), down, "plain"),
            write_words(text, x + 22, y + 4, "net"),
        ]
    return "".join(parts)


SWATCH_WIDTH = 13
LEGEND_GAP = 22
STATE_SIGNS = {
    ReadingState.NONFINITE: (f"s-{NONFINITE_TONE}", "NaN or Inf"),
    ReadingState.BLOCKED: ("blocked", ""),
    ReadingState.ABSENT: ("plain", ""),
}
"""For each state other than a number: the class of its line, and its text if that is not the name of the state."""


class PictureLegend:
    """Writes the legend: scales and signs from left to right, sentences below; `width` and `height` are its size."""

    def __init__(self, picture: Picture, scale: ColourScale, tones: set[str]) -> None:
        self.picture = picture
        self.scale = scale
        self.tones = tones
        self.x = self.width = 0
        self.height = 16

    def write_parts(self, labelled: bool) -> Iterator[str]:
        """Return the parts that the picture needs: scale, norms, signs, and what the labels on wires mean."""
        signs = {tone[0] for tone in self.tones}
        readings = [*_list_gradients(self.picture)]
        if signs & {POSITIVE_TONE, NEGATIVE_TONE}:
            yield from self._write_signed_scale()
        if MIXED_TONE in signs:
            has_both_signs = any(r.shape and not r.signed for r in readings)
            title = "norm, both signs" if has_both_signs else "norm"
            yield from self._write_swatches(
                title, [f"{MIXED_TONE}{k}" for k in range(1, TONE_STEPS + 1)], typeset_text(self._format_limit())
            )
        states = {reading.state for reading in readings}
        for state, (css, text) in STATE_SIGNS.items():
            if state in states:
                yield from self._write_state_sign(css, text or state.value)
        self.width = max(self.width, self.x - LEGEND_GAP)
        if any(r.shape and "‖" in r.text for r in readings):
            yield from self._write_sentence(
                f"‖ ‖: norm of an array; + or {MINUS} where none of its numbers has the other sign"
            )
        if labelled and is_detailed(self.picture):
            yield from self._write_sentence("on a wire: ∂ local derivative above, gradient sent back below")
        elif labelled:
            yield from self._write_sentence(
                "on a wire: ∂ local derivative (left out: 1, and those of arrays), below it the gradient sent back "
                "where a value branches"
            )

    def _format_limit(self) -> str:
        return read_value(self.scale.limit, 3).text

    def _write_signed_scale(self) -> Iterator[str]:
        """Return the scale from the strongest negative to the strongest positive tone, marked if it clips."""
        down = [f"{NEGATIVE_TONE}{k}" for k in range(TONE_STEPS, 0, -1)]
        up = [f"{POSITIVE_TONE}{k}" for k in range(1, TONE_STEPS + 1)]
        limit = typeset_text(self._format_limit())
        clips = any(
            r.state is ReadingState.NUMBER and self.scale.exceeds_limit(r.size) for r in _list_gradients(self.picture)
        )
        below, above = ("≤ ", "≥ ") if clips else ("", "")
        yield from self._write_swatches(f"gradient  {below}{MINUS}{limit}", [*down, ZERO_TONE, *up], f"{above}+{limit}")

    def _write_swatches(self, before: str, tones: Sequence[str], behind: str) -> Iterator[str]:
        yield write_words(before, self.x, 12, "small")
        self.x += measure_text(before, SMALL_FONT_SIZE) + 6
        for tone in tones:
            self.tones.add(tone)
            yield draw_rect(Rect(self.x, 3, SWATCH_WIDTH - 1, 11), f"swatch s-{tone}", 2)
            self.x += SWATCH_WIDTH
        yield write_words(behind, self.x + 5, 12, "small")
        self.x += 5 + measure_text(behind, SMALL_FONT_SIZE) + LEGEND_GAP

    def _write_state_sign(self, css: str, text: str) -> Iterator[str]:
        yield draw_line(f"M{self.x} 8h24", css, 3.2 if css.startswith("s-") else 1.4)
        if css.startswith("s-"):
            self.tones.add(css[2:])
            yield draw_line(f"M{self.x} 8h24", "stripe", 1.6)
        yield write_words(text, self.x + 30, 12, "small")
        self.x += 30 + measure_text(text, SMALL_FONT_SIZE) + LEGEND_GAP

    def _write_sentence(self, text: str) -> Iterator[str]:
        self.width = max(self.width, measure_text(text, SMALL_FONT_SIZE))
        self.height += 15
        yield write_words(text, 0, self.height - 1, "small")


def _list_gradients(picture: Picture) -> Iterator[Reading]:
    for box_ in picture.boxes:
        yield from (r for r in (box_.grad,) if r is not None)
        if box_.bad:
            yield Reading("", state=ReadingState.NONFINITE)
    yield from (link.sent for link in picture.links if link.sent is not None)


PAGE_MARGIN = 20
TITLE_HEIGHT = 44
"""The height of the title."""
WIRE_THICKNESS = {1: 1.2, 2: 2.1, 3: 3.2}
MAX_DESCRIBED_BOXES = 60
"""Maximum number of boxes that the description names."""


def to_svg(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    theme: str = AUTO_THEME,
    down: bool = False,
    legend: bool = True,
    cap: int | None = None,
    **options: Unpack[PictureOptions],
) -> str:
    """Return the picture of a circuit, and of a run on it, as SVG.

    `theme` is light, dark or auto (what the reader's system prefers); `down` lets values flow downwards. All other
    options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> to_svg(parse_text("input x\\ny = tanh x\\noutput y"))[:5]
    '<svg '
    """
    known = [*THEMES, AUTO_THEME]
    if theme not in known:
        raise InputError(
            f"theme must be one of {', '.join(known)}; got {short_repr(theme)}{suggest_name(str(theme), known)}"
        )
    return draw_svg(build_picture(circuit, run, cap=cap, **options), theme=theme, down=down, legend=legend)


def draw_svg(drawn: Picture, *, theme: str = AUTO_THEME, down: bool = False, legend: bool = True) -> str:
    """Draw a picture as SVG."""
    return _SvgPage(place_picture(drawn, down=down), theme).write_page(legend)


class _SvgPage:
    """Writes one picture as SVG."""

    def __init__(self, placed: PlacedPicture, theme: str) -> None:
        self.figure = placed
        self.theme = theme
        self.picture = placed.picture
        self.scale = self.picture.gradient_scale()
        self.tones: set[str] = set()
        self.named: set[int] = set()
        """The boxes whose name is already written at the start of their stubs."""

    def write_page(self, legend: bool) -> str:
        """Return the whole SVG."""
        framed = build_group_frames(self.figure)
        around = [column for frame in framed for column in frame.columns]
        body = [*self._draw_frames(framed), *self._draw_wires(), *self._draw_boxes()]
        left, top = (max([0, *(-corner for corner in corners)]) for corners in _list_corners(around))
        key = PictureLegend(self.picture, self.scale, self.tones)
        foot = [*key.write_parts(any(map(any, self.figure.labels)))] if legend and self.picture.ran else []
        about, wanted = self._write_heading(count_unframed_groups(self.figure, framed))
        right = max([self.figure.width, *(rect.x + rect.width for rect in around)])
        bottom = max([self.figure.height, *(rect.y + rect.height for rect in around)])
        wide = 2 * PAGE_MARGIN + max(left + right, key.width, wanted)
        at = TITLE_HEIGHT + top + bottom + PAGE_MARGIN + 4
        high = at + (key.height if foot else -4) + (PAGE_MARGIN - 6 if foot else 0)
        return self._write_root(
            wide,
            high,
            about,
            write_element("g", *body, transform=f"translate({PAGE_MARGIN + left} {TITLE_HEIGHT + top})"),
            write_element("g", *foot, transform=f"translate({PAGE_MARGIN} {at})") if foot else "",
        )

    def _write_root(self, wide: int, high: int, *content: str) -> str:
        """Return the svg element of a size, with its description and style sheet."""
        return write_element(
            "svg",
            write_tooltip(self._page_label()) + write_element("desc", escape(self._describe_boxes())),
            write_element("style", write_style_sheet(self.theme, self.tones)),
            write_element("rect", width=wide, height=high, class_=prefix_classes("paper")),
            *content,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {wide} {high}",
            width=wide,
            height=high,
            class_=f"wg wg-{self.theme}",
            role="graphics-document document",
            aria_roledescription="circuit",
            aria_label=self._page_label(),
        )

    def _page_label(self) -> str:
        return f"Circuit {self.picture.title}: {self.picture.note or self.picture.about}"

    def _describe_boxes(self) -> str:
        boxes = self.picture.boxes
        lines = [
            ", ".join([f"{drawn.label} ({drawn.text})", *(f"{cell.what} {cell.text}" for cell in list_box_rows(drawn))])
            for drawn in boxes[:MAX_DESCRIBED_BOXES]
        ]
        more = [f"and {len(boxes) - MAX_DESCRIBED_BOXES:,} more"] if len(boxes) > MAX_DESCRIBED_BOXES else []
        return "; ".join([*lines, *more])

    def _write_heading(self, missing: int) -> tuple[str, int]:
        """Return the title line and its width: the name, what the picture shows, and what it leaves out."""
        title = clip_end(self.picture.title, 40)
        about = self.picture.note or self.picture.about
        bands = max(self.figure.bands, default=0) + 1
        about += f"; in {bands} {'columns' if self.figure.down else 'rows'}" if bands > 1 else ""
        about += f"; {count_with_noun(missing, 'group')} without a frame, since others stand between" if missing else ""
        start = measure_text(title, 13, bold=True) + 10
        text = write_words(title, PAGE_MARGIN, 22, "title") + write_words(about, PAGE_MARGIN + start, 22, "note")
        return text, start + measure_text(about, 11)

    def _draw_frames(self, framed: Sequence[GroupFrame]) -> Iterator[str]:
        for frame in framed:
            name = frame.path.rpartition("/")[2]
            first = frame.columns[0]
            # The name is in the first column, which is narrow if the frame follows its boxes.
            named = write_words(clip_end(name, max(4, first.width // 7)), first.x + 8, first.y + 11, "group")
            shape = write_element(
                "path", d=trace_rounded_outline(frame.trace_outline(self.figure.down)), class_=prefix_classes("frame")
            )
            yield write_element("g", write_tooltip(frame.path), shape, named)

    def _draw_boxes(self) -> Iterator[str]:
        cards = SvgBoxWriter(self.scale, self.tones)
        for drawn, rect in zip(self.picture.boxes, self.figure.rects, strict=True):
            yield cards.draw_box(drawn, rect)
            if drawn.outputs:
                yield draw_output_arrow(write_output_label(drawn), rect, self.figure.down)

    def _draw_wires(self) -> Iterator[str]:
        # Branches of one value share a trunk; the strongest is drawn last and covers the others there.
        for k, link in sorted(enumerate(self.picture.links), key=lambda pair: self._wire_stroke(pair[1].sent)[1]):
            points = self.figure.paths[k]
            css, thick = self._wire_stroke(link.sent)
            stub = k in self.figure.stubs
            parts = self._trace_stub(k, link) if stub else [trace_rounded_path(_shorten_path(points, self.figure.down))]
            lines = [draw_line(path, css, thick) for path in parts]
            if link.sent is not None and link.sent.state is ReadingState.NONFINITE:
                # Stripes in the colour of the paper: what is not finite has a pattern instead of a hue.
                lines += [draw_line(path, "stripe", 1.6) for path in parts]
            name = self._write_stub_names(k, link) if stub else ""
            head = draw_arrow(points[-1], self.figure.down, css)
            yield write_element(
                "g", write_tooltip(self._describe_link(link)), *lines, head, name, *self._write_wire_labels(k, link)
            )

    def _describe_link(self, link: PictureLink) -> str:
        boxes = self.picture.boxes
        parts = [f"{boxes[link.source].label} to {boxes[link.target].label}"]
        parts += [f"input {link.input}"] if link.input else []
        parts += [f"{link.wires:,} wires"] if link.wires > 1 else []
        parts += [] if link.local is None else [f"local derivative {link.local.text}"]
        return ", ".join([*parts, *([] if link.sent is None else [f"gradient sent back {link.sent.text}"])])

    def _wire_stroke(self, sent: Reading | None) -> tuple[str, float]:
        """Return the class and the thickness of a wire."""
        if sent is None or sent.state is ReadingState.ABSENT:
            return "plain", WIRE_THICKNESS[1]
        if sent.state is ReadingState.BLOCKED:
            return "blocked", WIRE_THICKNESS[1]
        tone = sent.tone_on(self.scale)
        self.tones.add(tone)
        return f"s-{tone}", WIRE_THICKNESS[
            3 if sent.state is ReadingState.NONFINITE else self.scale.line_weight(sent.size)
        ]

    def _trace_stub(self, k: int, link: PictureLink) -> list[str]:
        """Return the paths of the two ends of a stub."""
        x0, y0 = self.figure.paths[k][0]
        x1, y1 = self.figure.paths[k][-1]
        if self.figure.down:
            return [f"M{x0} {y0}v20", f"M{x1} {y1 - self.figure.rooms[k]}V{y1 - 6}"]
        tail = measure_text(write_stub_name(self.picture, link), SMALL_FONT_SIZE) + 8
        return [f"M{x0} {y0}h{tail}", f"M{x1 - self.figure.rooms[k]} {y1}H{x1 - 6}"]

    def _write_stub_names(self, k: int, link: PictureLink) -> str:
        """Return the name of the source at both ends of a stub; at the source, all stubs share one name."""
        x0, y0 = self.figure.paths[k][0]
        x, y = self.figure.paths[k][-1]
        name = write_stub_name(self.picture, link)
        first = link.source not in self.named
        self.named.add(link.source)
        if self.figure.down:
            ends = [write_words(name, x0 + 4, y0 + 14, "net")] if first else []
            return "".join([*ends, write_words(name, x, y - self.figure.rooms[k] - 4, "net mid")])
        ends = [write_words(name, x0 + 5, y0 - 4, "net")] if first else []
        return "".join([*ends, write_words(name, x - self.figure.rooms[k] - 3, y + 4, "net end")])

    def _write_wire_labels(self, k: int, link: PictureLink) -> Iterator[str]:
        """Return the labels of a wire, just before the box it leads to."""
        local, sent = self.figure.labels[k]
        x, y = self.figure.paths[k][-1]
        dx, above, below, css = (7, -20, -9, "") if self.figure.down else (-11, -5, 13, " end")
        if local:
            yield write_words(local, x + dx, y + above, f"local{css}")
        if sent and link.sent is not None:
            tone = link.sent.tone_on(self.scale)
            self.tones.add(tone)
            yield write_words(sent, x + dx, y + below, f"sent w-{tone[0]}{css}")


def _list_corners(rects: Sequence[Rect]) -> tuple[list[int], list[int]]:
    return [rect.x for rect in rects], [rect.y for rect in rects]


def _shorten_path(points: Sequence[tuple[int, int]], down: bool) -> list[tuple[int, int]]:
    """Return a path that ends under the head of its arrow, so that a thick line does not show beside the tip."""
    x, y = points[-1]
    return [*points[:-1], (x, y - 6) if down else (x - 6, y)]
