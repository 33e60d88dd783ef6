"""Pictures as SVG: one text without scripts and without references to anything outside it.

Numbers are on wires, at the producer: the value above, the gradient below. Boxes hold the sign of their op, leaves
their name, value and gradient. A local derivative is at the port where its wire enters. From small to large: times,
elements and paths, boxes, wires, the legend, and the page, which `to_svg` returns.

In an animated picture everything appears in turn, by CSS alone: one pass forward, the seed, one pass backward. A time
is counted in steps. Parts of the finished picture appear at a time and stay; parts that only tell the step (rings,
pulses, wires that wait for their gradient) are seen from one time to another. Without animation, as readers who prefer
reduced motion have it, the finished picture is seen.

Invariants: user text is escaped and appears only in text nodes and attribute values; nothing has an id, so many
pictures can share a page; the colours of both themes fit in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Unpack

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import (
    DASH,
    MINUS,
    NO_GRADIENT,
    TIMES,
    Box,
    BoxKind,
    MathLook,
    Picture,
    PictureLink,
    Reading,
    ReadingState,
    clip_end,
    is_word,
    measure_text,
    read_value,
    split_math,
    typeset_text,
    write_number_rows,
    write_sign,
)
from wiregrad.draw.layout.figure import (
    GRADIENT_WORD,
    MAX_BAND_LENGTH,
    SMALL_FONT_SIZE,
    Anchor,
    BoxPlaces,
    Detail,
    GroupFrame,
    OutputMark,
    PagePoint,
    PictureMeasure,
    PlacedPicture,
    PortPlaces,
    Rect,
    TextSlot,
    assign_ports,
    build_group_frames,
    count_unframed_groups,
    find_places,
    make_slot,
    name_frames,
    place_output,
    place_picture,
    place_port,
    show_caption,
    write_factor,
    write_group_name,
    write_leaf_name,
    write_slot_text,
    write_stub_name,
)
from wiregrad.draw.layout.picture import PictureOptions, build_picture
from wiregrad.draw.palette import (
    AUTO_THEME,
    MIXED_TONE,
    NEGATIVE_TONE,
    NONFINITE_TONE,
    POSITIVE_TONE,
    THEMES,
    TONE_STEPS,
    ColourScale,
    name_wire_colour,
    write_style_sheet,
)
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import InputError, short_repr, suggest_name
from wiregrad.ir import CircuitGraph

MAX_ANIMATED_BOXES = 60
"""Maximum number of boxes in an animated picture."""
STEP_SECONDS = 0.9
REST_STEPS = 4
"""How many steps the finished picture is seen before the animation starts again."""
REPETITIONS = 3
PULSE_SHARE = 0.6
"""The share of a step that a pulse takes."""
FADE = 0.1
"""The share of a step in which something appears."""


@dataclass(slots=True)
class PictureTiming:
    """The times of a picture: when each box has its value and fires backward, and the classes that were used."""

    values: list[int]
    """When each box has its value."""
    sends: list[int]
    """When each box sends gradients back; for leaves, when the last gradient arrives."""
    gradients: list[int]
    """When the gradient of each box is known."""
    seed: int
    total: int
    rules: dict[str, str] = field(default_factory=dict)
    """The style of every class that was used."""

    @classmethod
    def from_picture(cls, picture: Picture) -> PictureTiming:
        """Return the times of a picture."""
        if not picture.ran:
            raise InputError("only a run can be animated; write circuit.run(...).to_svg(animate=True)")
        boxes = picture.boxes
        if len(boxes) > MAX_ANIMATED_BOXES:
            raise InputError(
                f"a picture of at most {MAX_ANIMATED_BOXES} boxes can be animated; this one has {len(boxes):,}: pass "
                f"cap={MAX_ANIMATED_BOXES} or depth=0 to draw groups"
            )
        values = _time_values(picture)
        seed = max(values, default=0) + 1
        sends = [0] * len(boxes)
        gradients = [seed] * len(boxes)
        now = seed
        for k in reversed(range(len(boxes))):
            gradients[k] = max([sends[link.target] for link in picture.links if link.source == k], default=seed)
            now += not boxes[k].is_leaf
            sends[k] = gradients[k] if boxes[k].is_leaf else now
        return cls(values, sends, gradients, seed, now + REST_STEPS)

    @property
    def seconds(self) -> float:
        """How long one pass takes."""
        return self.total * STEP_SECONDS

    def show_from(self, start: float, markup: str) -> str:
        """Return a part that appears at a time and stays."""
        first = self._permille(start)
        last = self._permille(start + FADE)
        name = f"wg-v{first}"
        self._add_rule(name, f"0%,{first / 10:g}%{{opacity:0}}{last / 10:g}%,100%{{opacity:1}}", "")
        return f'<g class="{name}">{markup}</g>' if markup else ""

    def show_between(self, start: float, end: float, markup: str) -> str:
        """Return a part that is seen from one time to another, and not in the finished picture."""
        first, last = self._permille(start), self._permille(end)
        name = f"wg-w{first}-{last}"
        frames = (
            f"0%,{max(0, first - 1) / 10:g}%{{opacity:0}}{first / 10:g}%,{last / 10:g}%{{opacity:1}}"
            f"{min(1000, last + 1) / 10:g}%,100%{{opacity:0}}"
        )
        self._add_rule(name, frames, "opacity:0;")
        return f'<g class="{name}">{markup}</g>' if markup else ""

    def send_pulse(self, start: float, path: str, *, back: bool) -> str:
        """Return a pulse that runs along a path from a time on."""
        first = self._permille(start)
        last = self._permille(start + PULSE_SHARE)
        name = f"wg-{'b' if back else 'f'}{first}"
        begin, end = (-100, 0) if back else (0, -100)
        frames = (
            f"0%,{max(0, first - 1) / 10:g}%{{opacity:0;stroke-dashoffset:{begin}}}"
            f"{first / 10:g}%{{opacity:1;stroke-dashoffset:{begin};animation-timing-function:cubic-bezier(.3,0,.2,1)}}"
            f"{last / 10:g}%{{opacity:1;stroke-dashoffset:{end}}}"
            f"{min(1000, last + 2) / 10:g}%,100%{{opacity:0;stroke-dashoffset:{end}}}"
        )
        self._add_rule(name, frames, "opacity:0;")
        return f'<path d="{path}" pathLength="100" class="wg-pulse {name}"/>'

    def write_style_sheet(self) -> str:
        """Return the style of all classes that were used."""
        calm = "@media (prefers-reduced-motion:reduce){.wg-animated *{animation:none!important}}"
        return "".join(self.rules.values()) + calm

    def _permille(self, time: float) -> int:
        return round(1000 * min(time, self.total) / self.total)

    def _add_rule(self, name: str, frames: str, before: str) -> None:
        run = f"animation:{name} var(--wg-time) linear {REPETITIONS}"
        self.rules[name] = f"@keyframes {name}{{{frames}}}.wg-animated .{name}{{{before}{run}}}"


def _time_values(picture: Picture) -> list[int]:
    """Return when each box has its value: leaves at once, a splitter with what it copies, all others one by one."""
    times: list[int] = []
    now = 0
    sources = {link.target: link.source for link in picture.links}
    for k, box in enumerate(picture.boxes):
        if box.is_leaf:
            times.append(0)
        elif box.kind is BoxKind.SPLIT:
            times.append(times[sources[k]])
        else:
            now += 1
            times.append(now)
    return times


WIRE_CORNER_RADIUS = 14
"""Radius of the corners of wires."""
PLAIN_WIRE_WIDTH = 1.7
"""Thickness of a wire that carries no gradient."""
ARRAY_WIRE_WIDTH = 3.2
"""Thickness of a wire that carries an array and no gradient."""


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


def draw_rect(rect: Rect, css: str, round_: float = 0) -> str:
    """Draw a rectangle."""
    values = {"rx": f"{round_:g}"} if round_ else {}
    edges = {"x": f"{rect.x:g}", "y": f"{rect.y:g}", "width": f"{rect.width:g}", "height": f"{rect.height:g}"}
    return write_element("rect", **edges, class_=prefix_classes(css), **values)


def draw_line(path: str, css: str, width: float = 1.2) -> str:
    """Draw a stroke in the colour of its class."""
    return write_element("path", d=path, class_=prefix_classes(f"line {css}"), stroke_width=f"{width:g}")


def draw_head(end: PagePoint, down: bool, css: str, size: float, *, back: bool) -> str:
    """Draw the head of a wire: at its end, or turned round at its start if the gradient flows back along it."""
    x, y = end
    long = size * 1.25 * (1 if back else -1)
    half = size * 0.68
    path = (
        f"M{x:g} {y:g}l{-half:g} {long:g}h{2 * half:g}z" if down else f"M{x:g} {y:g}l{long:g} {-half:g}v{2 * half:g}z"
    )
    return write_element("path", d=path, class_=prefix_classes(f"arrow {css}"))


def write_in_slot(text: str, slot: TextSlot, css: str, font: int, *, bold: bool = False) -> str:
    """Write a line of text in its slot; one that is too long is squeezed."""
    classes = f"{css} f{font} {ANCHOR_CLASSES[slot.anchor]}"
    values: dict[str, object] = {"x": f"{slot.at[0]:g}", "y": f"{slot.at[1]:g}", "class_": prefix_classes(classes)}
    if measure_text(text, font, bold=bold) > slot.rect.width:
        values |= {"textLength": f"{slot.rect.width:g}", "lengthAdjust": "spacingAndGlyphs"}
    return write_element("text", escape(text), **values)


def write_math(text: str, slot: TextSlot, css: str, font: int) -> str:
    """Write a name or an expression as a book would set it: italic letters, digits as subscripts."""
    parts = []
    low = False
    for part in split_math(text):
        sub = part.look is MathLook.SUBSCRIPT
        shift = {"dy": f"{font * (0.22 if sub else -0.22):g}"} if sub != low else {}
        looks = {MathLook.ITALIC: "it", MathLook.UPRIGHT: "", MathLook.SUBSCRIPT: "sub"}[part.look]
        classes = {"class_": prefix_classes(looks)} if looks else {}
        parts.append(write_element("tspan", escape(part.text), **shift, **classes))
        low = sub
    names = prefix_classes(f"{css} math f{font} {ANCHOR_CLASSES[slot.anchor]}")
    return write_element("text", *parts, x=f"{slot.at[0]:g}", y=f"{slot.at[1]:g}", class_=names)


ANCHOR_CLASSES = {Anchor.START: "", Anchor.MIDDLE: "mid", Anchor.END: "end"}


def trace_rounded_path(points: Sequence[PagePoint], radius: float = WIRE_CORNER_RADIUS) -> str:
    """Return a path through points, with round corners at right angles.

    >>> trace_rounded_path([(0, 0), (20, 0), (20, 30)])
    'M0 0L10 0Q20 0 20 10L20 30'
    """
    parts = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for before, at, behind in zip(points, points[1:], points[2:], strict=False):
        r = min(radius, _path_distance(before, at) // 2, _path_distance(at, behind) // 2)
        right = (before[0] == at[0]) != (behind[0] == at[0]) and (before[1] == at[1]) != (behind[1] == at[1])
        if right and r > 0:
            a, b = _step_towards(at, before, r)
            c, d = _step_towards(at, behind, r)
            parts.append(f"L{a:g} {b:g}Q{at[0]:g} {at[1]:g} {c:g} {d:g}")
        else:
            parts.append(f"L{at[0]:g} {at[1]:g}")
    return "".join([*parts, f"L{points[-1][0]:g} {points[-1][1]:g}"])


def trace_rounded_outline(points: Sequence[PagePoint]) -> str:
    """Return a closed path through points, with round corners.

    >>> trace_rounded_outline([(0, 0), (20, 0), (20, 30), (0, 30)])
    'M10 0L15 0Q20 0 20 5L20 20Q20 30 10 30L10 30Q0 30 0 20L0 5Q0 0 5 0L10 0Z'
    """
    (x, y), (x1, y1) = points[:2]
    middle = ((x + x1) // 2, (y + y1) // 2)
    return trace_rounded_path([middle, *points[1:], points[0], middle]) + "Z"


def _path_distance(one: PagePoint, two: PagePoint) -> float:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


def _step_towards(one: PagePoint, two: PagePoint, step: float) -> PagePoint:
    """Return the point a step away from one point in the direction of another."""
    (x, y), (x1, y1) = one, two
    return x + step * ((x1 > x) - (x1 < x)), y + step * ((y1 > y) - (y1 < y))


def trace_cell(rect: Rect, radius: float) -> str:
    """Return the path of a cell whose lower corners are round.

    >>> trace_cell(Rect(0, 0, 20, 10), 4)
    'M0 0h20V6q0 4 -4 4H4q-4 0 -4 -4z'
    """
    x, y, w, h, r = rect.x, rect.y, rect.width, rect.height, radius
    return f"M{x:g} {y:g}h{w:g}V{y + h - r:g}q0 {r:g} {-r:g} {r:g}H{x + r:g}q{-r:g} 0 {-r:g} {-r:g}z"


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
    for t in range(step, int(w + h), step):
        start = (x + max(0, t - h), y + min(t, h))
        end = (x + min(t, w), y + max(0, t - w))
        strokes.append(f"M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}")
    return "".join(strokes)


class SvgBoxWriter:
    """Draws boxes with one colour scale and adds the tones it used to `tones`."""

    def __init__(
        self, scale: ColourScale, tones: set[str], measure: PictureMeasure, timing: PictureTiming | None = None
    ) -> None:
        self.scale = scale
        self.tones = tones
        self.measure = measure
        self.sizes = measure.sizes
        self.timing = timing
        self.index = 0
        """The index of the box that is drawn."""

    def _show_value(self, markup: str) -> str:
        return markup if self.timing is None else self.timing.show_from(self.timing.values[self.index], markup)

    def _show_gradient(self, markup: str) -> str:
        return markup if self.timing is None else self.timing.show_from(self._gradient_time, markup)

    @property
    def _gradient_time(self) -> float:
        """When the gradient is seen: when the pulse that brings it has arrived."""
        return 0.0 if self.timing is None else self.timing.gradients[self.index] + PULSE_SHARE

    def draw_box(self, drawn: Box, rect: Rect, index: int) -> str:
        """Return a box with its tooltip."""
        self.index = index
        places = find_places(drawn, rect, self.measure)
        draw = {BoxKind.SPLIT: self._draw_splitter, BoxKind.NODE: self._draw_node, BoxKind.GROUP: self._draw_group}
        parts = draw.get(drawn.kind, self._draw_leaf)(drawn, rect, places)
        kink = [_draw_kink_badge(rect.x + rect.width, rect.y, drawn.kink)] if drawn.kink else []
        label = ", ".join(drawn.facts[:4])
        tooltip = write_tooltip("\n".join(drawn.facts))
        ring = self._draw_ring(drawn, rect)
        return write_element("g", tooltip, ring, *parts, *kink, role="graphics-symbol", aria_label=label)

    def _draw_ring(self, drawn: Box, rect: Rect) -> str:
        """Return the ring of a box that fires in an animated picture, forward and backward."""
        timing = self.timing
        if timing is None or drawn.is_leaf:
            return ""
        round_ = rect.width / 2 if drawn.kind is BoxKind.SPLIT else 10
        halo = draw_rect(Rect(rect.x - 12, rect.y - 12, rect.width + 24, rect.height + 24), "now", round_ + 12)
        ring = draw_rect(Rect(rect.x - 6, rect.y - 6, rect.width + 12, rect.height + 12), "ring", round_ + 6)
        times = [timing.sends[self.index]]
        times += [] if drawn.kind is BoxKind.SPLIT else [timing.values[self.index]]
        return "".join(timing.show_between(time, time + 1, halo + ring) for time in times)

    def _draw_node(self, drawn: Box, rect: Rect, places: BoxPlaces) -> Iterator[str]:
        sign = write_sign(drawn.text)
        font = self.sizes.word_font if is_word(sign) else self.sizes.sign_font
        yield draw_rect(rect, "box", 10)
        if drawn.bad:
            yield self._show_value("".join(self._draw_hatched_node(rect)))
        yield draw_rect(rect, "edge", 10)
        middle = (rect.x + rect.width / 2, rect.y + rect.height / 2 + font * 0.36)
        yield write_in_slot(sign, make_slot(middle, rect.width - 8, font, Anchor.MIDDLE), "", font)
        if places.caption is not None:
            text = show_caption(drawn, self.measure)
            yield write_math(text, places.caption, "quiet halo", self.sizes.label_font)
        yield from self._write_numbers(drawn, places, on_paper=True)

    def _draw_hatched_node(self, rect: Rect) -> Iterator[str]:
        within = Rect(rect.x + 3, rect.y + 3, rect.width - 6, rect.height - 6)
        yield write_element("path", d=trace_hatch(within), class_=prefix_classes("hatch"))
        yield draw_rect(Rect(rect.x + 6, rect.y + rect.height / 2 - 12, rect.width - 12, 24), "box", 4)

    def _draw_leaf(self, drawn: Box, rect: Rect, places: BoxPlaces) -> Iterator[str]:
        round_ = rect.height / 2.6
        yield draw_rect(rect, "box", round_)
        yield from self._draw_cell(drawn, places, round_)
        yield draw_rect(rect, "leaf", round_)
        if places.name is not None:
            yield write_math(write_leaf_name(drawn), places.name, "", self.sizes.name_font)
        yield from self._write_numbers(drawn, places, on_paper=False)

    def _draw_group(self, drawn: Box, rect: Rect, places: BoxPlaces) -> Iterator[str]:
        yield draw_rect(replace(rect, x=rect.x + 4, y=rect.y + 4), "back", 12)
        yield draw_rect(rect, "box", 12)
        yield from self._draw_cell(drawn, places, 12)
        yield draw_rect(rect, "edge", 12)
        if places.name is not None and places.text is not None:
            bad = f", {drawn.bad:,} not finite" if drawn.bad else ""
            yield write_in_slot(write_group_name(drawn), places.name, "name", 13, bold=True)
            yield write_in_slot(f"{drawn.text}{bad}", places.text, "quiet", SMALL_FONT_SIZE)
        yield from self._write_numbers(drawn, places, on_paper=False)

    def _draw_splitter(self, drawn: Box, _rect: Rect, places: BoxPlaces) -> Iterator[str]:
        x, y = places.out
        if not self.measure.ran:
            yield write_element("circle", cx=f"{x:g}", cy=f"{y:g}", r=self.sizes.dot / 2, class_=prefix_classes("dot"))
            return
        r = self.sizes.splitter / 2
        adder = write_element("circle", cx=f"{x:g}", cy=f"{y:g}", r=f"{r:g}", class_=prefix_classes("adder"))
        plus = f"M{x - r / 2:g} {y:g}h{r:g}M{x:g} {y - r / 2:g}v{r:g}"
        adder += write_element("path", d=plus, class_=prefix_classes("plus"))
        if self.timing is not None:
            half = self.sizes.dot / 2
            dot = write_element("circle", cx=f"{x:g}", cy=f"{y:g}", r=half, class_=prefix_classes("dot"))
            yield self.timing.show_between(0, self.timing.seed, dot)
            adder = self.timing.show_from(self.timing.seed, adder)
        yield adder
        if drawn.nodes > 1:
            yield write_words(f"{drawn.nodes} splitters", x - r - 4, y - r - 4, "small end")

    def _draw_cell(self, drawn: Box, places: BoxPlaces, round_: float) -> Iterator[str]:
        """Return the lower part of a leaf or a group, in the colour of its gradient."""
        cell = places.cell
        if cell is None or drawn.grad is None:
            return
        if drawn.grad.state is ReadingState.NUMBER:
            tone = drawn.grad.tone_on(self.scale)
            self.tones.add(tone)
            tint = write_element("path", d=trace_cell(cell, round_), class_=prefix_classes(f"t-{tone}"))
            yield self._show_gradient(tint)
        elif drawn.grad.state is ReadingState.NONFINITE:
            # Strokes would show outside the round corners, so the hatched area is a little smaller.
            within = Rect(cell.x + round_ / 3, cell.y, cell.width - 2 * round_ / 3, cell.height - round_ / 4)
            hatch = write_element("path", d=trace_hatch(within), class_=prefix_classes("hatch"))
            yield self._show_gradient(hatch)
        yield write_element("path", d=f"M{cell.x:g} {cell.y:g}h{cell.width:g}", class_=prefix_classes("rule"))

    def _write_numbers(self, drawn: Box, places: BoxPlaces, *, on_paper: bool) -> Iterator[str]:
        font = self.sizes.number_font
        if places.value is not None and drawn.value is not None:
            parts = write_number(drawn.value, drawn.shape, places.value, "num" + " halo" * on_paper, font)
            yield self._show_value("".join(parts))
        if places.grad is None or drawn.grad is None:
            return
        if places.word is not None and drawn.grad.state is not ReadingState.BLOCKED:
            if drawn.grad.state is ReadingState.NONFINITE:
                patch = places.word.rect
                yield draw_rect(Rect(patch.x - 3, patch.y - 3, patch.width + 6, patch.height + 6), "box", 3)
            yield write_in_slot(GRADIENT_WORD, places.word, "what", SMALL_FONT_SIZE)
        css = "grad"
        if on_paper:
            tone = drawn.grad.tone_on(self.scale)
            self.tones.add(tone)
            css = f"grad halo w-{tone[0]}"
        yield self._show_gradient("".join(write_number(drawn.grad, "", places.grad, css, font, bold=True)))


def write_number(
    reading: Reading, shape: str, slot: TextSlot, css: str, font: int, *, bold: bool = False
) -> Iterator[str]:
    """Write a number in its slot: inverted if it is not finite, a hollow with a dash if it was not computed."""
    text = write_slot_text(reading, shape)
    if reading.state is ReadingState.ABSENT:
        yield _draw_hollow(slot, font)
        return
    if reading.state is ReadingState.NONFINITE:
        wide = min(measure_text(text, font, bold=True), slot.rect.width)
        left = make_slot(slot.at, wide, font, slot.anchor).rect
        yield draw_rect(Rect(left.x - 4, left.y - 4, wide + 8, font + 6), "inverted", 3)
        yield write_in_slot(text, slot, "grad over", font, bold=True)
        return
    if reading.state is ReadingState.BLOCKED:
        yield write_in_slot(text, slot, "quiet" + " halo" * ("halo" in css), SMALL_FONT_SIZE)
        return
    yield write_in_slot(text, slot, css, font, bold=bold)


def _draw_hollow(slot: TextSlot, font: int) -> str:
    box = make_slot(slot.at, 26, font, slot.anchor).rect
    middle = make_slot((box.x + 13, slot.at[1] - 1), 26, font, Anchor.MIDDLE)
    outline = Rect(box.x, slot.at[1] - font * 0.36 - 7, 26, 14)
    return draw_rect(outline, "hollow", 7) + write_in_slot(DASH, middle, "quiet", SMALL_FONT_SIZE)


def _draw_kink_badge(x: float, y: float, kink: str) -> str:
    shape = write_element("path", d=f"M{x:g} {y - 7:g}l7 7l-7 7l-7 -7z", class_=prefix_classes("badge"))
    return write_element(
        "g", write_tooltip(f"on a kink; convention {kink}"), shape, write_words("!", x, y + 4, "what mid strong")
    )


SWATCH_WIDTH = 13
BOW_WIDTH = 144
"""Width of the colour scale, which is thin at zero and thick at its ends, as wires are."""
BOW_PARTS = 24
LEGEND_GAP = 22
STATE_SIGNS = {
    ReadingState.NONFINITE: (f"s-{NONFINITE_TONE}", "NaN or Inf"),
    ReadingState.BLOCKED: ("blocked", NO_GRADIENT),
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

    def write_parts(self, *, with_pills: bool) -> Iterator[str]:
        """Return the parts that the picture needs: scale, norms, signs, and what numbers at ports mean."""
        readings = [*_list_gradients(self.picture)]
        signs = {reading.tone_on(self.scale)[0] for reading in readings}
        if signs & {POSITIVE_TONE, NEGATIVE_TONE}:
            yield from self._write_signed_scale()
        if MIXED_TONE in signs:
            has_both_signs = any(r.shape and not r.signed for r in readings)
            title = "norm, both signs" if has_both_signs else "norm"
            yield from self._write_swatches(
                title, [f"{MIXED_TONE}{k}" for k in range(1, TONE_STEPS + 1)], self._format_limit()
            )
        states = {reading.state for reading in readings}
        for state, (css, text) in STATE_SIGNS.items():
            if state in states:
                yield from self._write_state_sign(css, text or state.value)
        self.width = max(self.width, self.x - LEGEND_GAP)
        if any(r.shape and "‖" in r.text for r in readings):
            yield from self._write_sentence(f"‖ ‖: norm of an array; {MINUS} where none of its numbers is positive")
        if with_pills:
            yield from self._write_sentence(
                f"at a port: local derivative; upstream {TIMES} local derivative = gradient sent"
            )

    def _format_limit(self) -> str:
        return typeset_text(read_value(self.scale.limit).text)

    def _write_signed_scale(self) -> Iterator[str]:
        """Return the scale from the strongest negative to the strongest positive gradient, marked if it clips."""
        limit = self._format_limit()
        clips = any(
            r.state is ReadingState.NUMBER and self.scale.exceeds_limit(r.size) for r in _list_gradients(self.picture)
        )
        below, above = ("≤ ", "≥ ") if clips else ("", "")
        yield from self._write_text(f"gradient  {below}{MINUS}{limit}", 6)
        step = BOW_WIDTH // BOW_PARTS
        for k in range(BOW_PARTS):
            share = (2 * k + 1 - BOW_PARTS) / BOW_PARTS
            tone = name_wire_colour(POSITIVE_TONE if share > 0 else NEGATIVE_TONE, abs(share))
            self.tones.add(tone)
            tall = 1.6 + 3.8 * abs(share)
            yield draw_rect(Rect(self.x + step * k, 8 - tall, step, 2 * tall), f"swatch {tone}")
        self.x += BOW_WIDTH + 6
        yield from self._write_text(f"{above}{limit}", LEGEND_GAP)

    def _write_text(self, text: str, gap: int) -> Iterator[str]:
        yield write_words(text, self.x, 12, "small")
        self.x += measure_text(text, SMALL_FONT_SIZE) + gap

    def _write_swatches(self, before: str, tones: Sequence[str], behind: str) -> Iterator[str]:
        yield from self._write_text(before, 6)
        for tone in tones:
            self.tones.add(tone)
            yield draw_rect(Rect(self.x, 3, SWATCH_WIDTH - 1, 11), f"swatch s-{tone}", 2)
            self.x += SWATCH_WIDTH
        self.x += 5
        yield from self._write_text(behind, LEGEND_GAP)

    def _write_state_sign(self, css: str, text: str) -> Iterator[str]:
        nonfinite = css.startswith("s-")
        yield draw_line(f"M{self.x} 8h24", css, 5.4 if nonfinite else PLAIN_WIRE_WIDTH)
        if nonfinite:
            self.tones.add(css[2:])
            yield draw_line(f"M{self.x} 8h24", "stripe", 3)
        self.x += 30
        yield from self._write_text(text, LEGEND_GAP)

    def _write_sentence(self, text: str) -> Iterator[str]:
        self.width = max(self.width, measure_text(text, SMALL_FONT_SIZE))
        self.height += 16
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
MAX_DESCRIBED_BOXES = 60
"""Maximum number of boxes that the description names."""
SEED_READING = Reading("1", 1.0)
"""The gradient of an output with respect to itself."""


def to_svg(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    theme: str = AUTO_THEME,
    down: bool = False,
    legend: bool = True,
    animate: bool = False,
    cap: int | None = None,
    **options: Unpack[PictureOptions],
) -> str:
    """Return the picture of a circuit, and of a run on it, as SVG.

    `theme` is light, dark, print (light on white) or auto (what the reader's system prefers); `down` lets values flow
    downwards. With `animate` the picture of a run plays forward and backward by itself. All other options are those of
    `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> to_svg(parse_text("input x\\ny = tanh x\\noutput y"))[:5]
    '<svg '
    """
    known = [*THEMES, AUTO_THEME]
    if theme not in known:
        raise InputError(
            f"theme must be one of {', '.join(known)}; got {short_repr(theme)}{suggest_name(str(theme), known)}"
        )
    drawn = build_picture(circuit, run, cap=cap, **options)
    return draw_svg(drawn, theme=theme, down=down, legend=legend, animate=animate)


def draw_svg(
    drawn: Picture,
    *,
    theme: str = AUTO_THEME,
    down: bool = False,
    legend: bool = True,
    animate: bool = False,
    fold: int = MAX_BAND_LENGTH,
) -> str:
    """Draw a picture as SVG; one that is longer than `fold` is drawn in several rows."""
    timing = PictureTiming.from_picture(drawn) if animate else None
    return _SvgPage(place_picture(drawn, down=down, fold=fold), theme, timing).write_page(legend)


class _SvgPage:
    """Writes one picture as SVG."""

    def __init__(self, placed: PlacedPicture, theme: str, timing: PictureTiming | None) -> None:
        self.figure = placed
        self.theme = theme
        self.timing = timing
        self.picture = placed.picture
        self.measure = placed.measure
        self.sizes = placed.measure.sizes
        self.scale = self.picture.gradient_scale()
        self.tones: set[str] = set()
        self.named: set[int] = set()
        """The boxes whose name is already written at the start of their stubs."""
        self.ports = assign_ports(self.picture)
        self.port_counts = [0] * len(self.picture.boxes)
        for link in self.picture.links:
            self.port_counts[link.target] += 1
        self.places = [
            find_places(box, rect, self.measure) for box, rect in zip(self.picture.boxes, placed.rects, strict=True)
        ]

    def write_page(self, legend: bool) -> str:
        """Return the whole SVG."""
        framed = build_group_frames(self.figure)
        around = [column for frame in framed for column in frame.columns]
        body = [*self._draw_frames(framed), *self._draw_wires(), *self._draw_boxes(), *self._write_ports()]
        left, top = (max([0, *(-corner for corner in corners)]) for corners in _list_corners(around))
        key = PictureLegend(self.picture, self.scale, self.tones)
        with_pills = any(mark.pill for mark in self.figure.marks)
        foot = [*key.write_parts(with_pills=with_pills)] if legend and self.picture.ran else []
        about, wanted = self._write_heading(count_unframed_groups(self.figure, framed))
        right = max([self.figure.width, *(rect.x + rect.width for rect in around)])
        bottom = max([self.figure.height, *(rect.y + rect.height for rect in around)])
        wide = 2 * PAGE_MARGIN + int(max(left + right, key.width, wanted))
        at = TITLE_HEIGHT + int(top + bottom) + PAGE_MARGIN + 4
        high = at + (key.height if foot else -4) + (PAGE_MARGIN - 6 if foot else 0)
        return self._write_root(
            wide,
            high,
            about,
            write_element("g", *body, transform=f"translate({PAGE_MARGIN + left:g} {TITLE_HEIGHT + top:g})"),
            write_element("g", *foot, transform=f"translate({PAGE_MARGIN} {at})") if foot else "",
        )

    def _write_root(self, wide: int, high: int, *content: str) -> str:
        """Return the svg element of a size, with its description and style sheet."""
        style = write_style_sheet(self.theme, self.tones)
        animated = {} if self.timing is None else {"style": f"--wg-time:{self.timing.seconds:g}s"}
        return write_element(
            "svg",
            write_tooltip(self._page_label()) + write_element("desc", escape(self._describe_boxes())),
            write_element("style", style if self.timing is None else style + self.timing.write_style_sheet()),
            write_element("rect", width=wide, height=high, class_=prefix_classes("paper")),
            *content,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {wide} {high}",
            width=wide,
            height=high,
            class_=f"wg wg-{self.theme}" + (" wg-animated" if animated else ""),
            role="graphics-document document",
            aria_roledescription="circuit",
            aria_label=self._page_label(),
            **animated,
        )

    def _page_label(self) -> str:
        return f"Circuit {self.picture.title}: {self.picture.note or self.picture.about}"

    def _describe_boxes(self) -> str:
        boxes = self.picture.boxes
        lines = [", ".join(_describe_box(drawn)) for drawn in boxes[:MAX_DESCRIBED_BOXES]]
        more = [f"and {len(boxes) - MAX_DESCRIBED_BOXES:,} more"] if len(boxes) > MAX_DESCRIBED_BOXES else []
        return "; ".join([*lines, *more])

    def _write_heading(self, missing: int) -> tuple[str, int]:
        """Return the title line and its width: the name, what the picture shows, and what it leaves out."""
        title = clip_end(self.picture.title, 40)
        about = self.picture.note or self.picture.about
        bands = max(self.figure.bands, default=0) + 1
        about += f"; in {bands} {'columns' if self.figure.down else 'rows'}" if bands > 1 else ""
        about += f"; {count_with_noun(missing, 'group')} without a frame, since others stand between" if missing else ""
        leaves_out = self.figure.measure.detail >= Detail.NO_LOCAL and any(link.pill for link in self.picture.links)
        about += "; without local derivatives" if self.picture.ran and leaves_out else ""
        start = measure_text(title, 13, bold=True) + 10
        text = write_words(title, PAGE_MARGIN, 22, "title") + write_words(about, PAGE_MARGIN + start, 22, "note")
        return text, start + measure_text(about, 11)

    def _draw_frames(self, framed: Sequence[GroupFrame]) -> Iterator[str]:
        for frame, name in zip(framed, name_frames(framed), strict=True):
            first = frame.columns[0]
            # The name is in the first column, which is narrow if the frame follows its boxes.
            named = write_words(clip_end(name, max(4, int(first.width) // 8)), first.x + 10, first.y + 14, "group")
            outline = trace_rounded_outline(frame.trace_outline(self.figure.down))
            shape = write_element("path", d=outline, class_=prefix_classes("frame"))
            yield write_element("g", write_tooltip(frame.path), shape, named)

    def _draw_boxes(self) -> Iterator[str]:
        cards = SvgBoxWriter(self.scale, self.tones, self.measure, self.timing)
        for k, (drawn, rect) in enumerate(zip(self.picture.boxes, self.figure.rects, strict=True)):
            yield cards.draw_box(drawn, rect, k)

    def _draw_wires(self) -> Iterator[str]:
        for box, (drawn, places) in enumerate(zip(self.picture.boxes, self.places, strict=True)):
            if drawn.outputs:
                yield self._draw_output(box, place_output(drawn, places.out, self.measure))
        # Branches of one value share a trunk; the strongest is drawn last and covers the others there.
        for k, link in sorted(enumerate(self.picture.links), key=lambda pair: self._wire_stroke(pair[1].sent)[1]):
            stub = k in self.figure.stubs
            lines = self._trace_stub(k, link) if stub else [self._trace_wire(k, link)]
            paths = [trace_rounded_path(line, self.sizes.corner) for line in lines]
            head = self._draw_wire_head(link, lines[0][0], lines[-1][-1])
            slash = "" if stub or not link.shape else self._draw_slash(lines[0][0])
            tooltip = write_tooltip(self._describe_link(link))
            strokes = "".join(self._draw_strokes(paths, link)) + head
            if self.timing is not None:
                strokes = self._animate_wire(link, paths, lines[-1][-1], strokes)
            yield write_element("g", tooltip, strokes, slash)

    def _animate_wire(self, link: PictureLink, paths: Sequence[str], end: PagePoint, strokes: str) -> str:
        """Return a wire that waits for its value, has it, and gets its gradient, with a pulse each way."""
        timing = self.timing
        if timing is None:
            return strokes
        known = timing.values[link.source]
        sent = timing.sends[link.target]
        plain = "".join(draw_line(path, "plain", PLAIN_WIRE_WIDTH) for path in paths)
        if self.picture.boxes[link.target].kind is not BoxKind.SPLIT:
            plain += draw_head(end, self.figure.down, "plain", 7, back=False)
        waiting = "".join(draw_line(path, "plain idle", 1.4) for path in paths)
        is_still = link.sent is None or link.sent.state is ReadingState.ABSENT
        parts = [waiting, timing.show_between(known, timing.total if is_still else sent, plain)]
        parts += [timing.show_from(known if is_still else sent, strokes)]
        parts += [timing.send_pulse(known + 0.3, path, back=False) for path in paths]
        parts += [] if is_still else [timing.send_pulse(sent, path, back=True) for path in paths]
        return "".join(parts)

    def _draw_strokes(self, paths: Sequence[str], link: PictureLink) -> Iterator[str]:
        css, thick = self._wire_stroke(link.sent)
        if link.shape and css == "plain":
            thick = ARRAY_WIRE_WIDTH
        yield from (draw_line(path, css, thick) for path in paths)
        if link.sent is not None and link.sent.state is ReadingState.NONFINITE:
            # Stripes in the colour of the paper: what is not finite has a pattern instead of a hue.
            yield from (draw_line(path, "stripe", 3) for path in paths)

    def _draw_wire_head(self, link: PictureLink, start: PagePoint, end: PagePoint) -> str:
        """Return the head of a wire: at the producer if a gradient comes back, else at the reader."""
        css, thick = self._wire_stroke(link.sent)
        back = css != "plain"
        box = self.picture.boxes[link.source if back else link.target]
        if box.kind is BoxKind.SPLIT:
            return ""
        return draw_head(start if back else end, self.figure.down, css, max(7, 2 * thick), back=back)

    def _draw_slash(self, start: PagePoint) -> str:
        """Return the slash of an array's wire."""
        # Behind the head of a gradient, before the number, which begins 20 px behind the port.
        x, y = (start[0], start[1] + 20) if self.figure.down else (start[0] + 15, start[1])
        return write_element("path", d=f"M{x - 4:g} {y + 7:g}l8 -14", class_=prefix_classes("slash"))

    def _draw_output(self, box: int, mark: OutputMark) -> str:
        """Return the wire to the dot of an output, the dot and its name."""
        drawn = self.picture.boxes[box]
        (x, y), (x1, y1) = mark.start, mark.dot
        read_on = drawn.grad is None or drawn.grad.state is ReadingState.ABSENT
        css, thick = self._wire_stroke(None if read_on else SEED_READING)
        line = draw_line(f"M{x:g} {y:g}L{x1:g} {y1:g}", css, thick)
        is_joined = drawn.kind is BoxKind.SPLIT
        size = max(7, 2 * thick)
        head = "" if read_on or is_joined else draw_head(mark.start, self.figure.down, css, size, back=True)
        dot = write_element("circle", cx=f"{x1:g}", cy=f"{y1:g}", r=self.sizes.dot / 2, class_=prefix_classes("dot"))
        name = write_math(mark.text, mark.name, "", self.sizes.name_font)
        wire = line + head
        if self.timing is not None:
            path = f"M{x:g} {y:g}L{x1:g} {y1:g}"
            plain = draw_line(path, "plain", PLAIN_WIRE_WIDTH)
            wire = self.timing.show_between(0, self.timing.seed, plain) + self.timing.show_from(self.timing.seed, wire)
            wire += self.timing.send_pulse(self.timing.values[box] + 0.3, path, back=False)
            wire += self.timing.send_pulse(self.timing.seed, path, back=True)
        return write_element("g", write_tooltip(f"output {', '.join(drawn.outputs)}"), wire, dot, name)

    def _trace_wire(self, k: int, link: PictureLink) -> list[PagePoint]:
        """Return the points of a wire; wires meet in the middle of a splitter."""
        points: list[PagePoint] = [*self.figure.paths[k]]
        if self.picture.boxes[link.source].kind is BoxKind.SPLIT:
            points[0] = self.places[link.source].out
        if self.picture.boxes[link.target].kind is BoxKind.SPLIT:
            points[-1] = self.places[link.target].out
        return points

    def _describe_link(self, link: PictureLink) -> str:
        boxes = self.picture.boxes
        parts = [f"{boxes[link.source].label} to {boxes[link.target].label}"]
        parts += [f"input {link.input}"] if link.input else []
        parts += [f"{link.wires:,} wires"] if link.wires > 1 else []
        parts += [] if link.local is None else [f"local derivative {link.local.text}"]
        return ", ".join([*parts, *([] if link.sent is None else [link.sent.describe_gradient("gradient sent back")])])

    def _wire_stroke(self, sent: Reading | None) -> tuple[str, float]:
        """Return the class and the thickness of a wire."""
        if sent is None or sent.state is ReadingState.ABSENT:
            return "plain", PLAIN_WIRE_WIDTH
        if sent.state is ReadingState.BLOCKED:
            return "blocked", PLAIN_WIRE_WIDTH
        tone = sent.tone_on(self.scale)
        name = f"s-{tone}"
        if sent.state is ReadingState.NUMBER and sent.size:
            name = tone = name_wire_colour(tone[0], abs(self.scale.position(sent.size)))
        self.tones.add(tone)
        return name, self.scale.line_width(sent.size)

    def _trace_stub(self, k: int, link: PictureLink) -> list[list[PagePoint]]:
        """Return the points of the two ends of a stub."""
        whole = self._trace_wire(k, link)
        start = whole[0]
        end = whole[-1]
        behind = self._stub_length(link)
        room = self.figure.rooms[k]
        if self.figure.down:
            return [[start, (start[0], start[1] + behind)], [(end[0], end[1] - room), end]]
        return [[start, (start[0] + behind, start[1])], [(end[0] - room, end[1]), end]]

    def _stub_length(self, link: PictureLink) -> int:
        """Return the length of a stub behind its source, which passes the numbers there."""
        sizes = self.sizes
        if self.picture.boxes[link.source].kind is not BoxKind.NODE or not self.measure.ran:
            return 14
        return sizes.number_font + 14 if self.figure.down else sizes.gap + sizes.slot + 4

    def _write_stub_names(self, k: int, link: PictureLink) -> Iterator[str]:
        """Return the name of the source at both ends of a stub; at the source, all stubs share one name."""
        near, far = self._trace_stub(k, link)
        name = write_stub_name(self.picture, link)
        x, y = near[-1]
        x1, y1 = far[0]
        down = self.figure.down
        if link.source not in self.named:
            # Behind a splitter other wires go on, so the name is below them.
            below = 17 if self.picture.boxes[link.source].kind is BoxKind.SPLIT else 4
            yield write_words(name, x if down else x + 4, y + 13 if down else y + below, "net mid" if down else "net")
        self.named.add(link.source)
        yield write_words(name, x1 if down else x1 - 4, y1 - 4 if down else y1 + 4, "net mid" if down else "net end")

    def _write_ports(self) -> Iterator[str]:
        """Return the text before the ports of wires: local derivatives, gradients of branches, names of stubs."""
        for k, link in enumerate(self.picture.links):
            if k in self.figure.stubs:
                yield from self._write_stub_names(k, link)
            end = self.figure.paths[k][-1]
            places = place_port(end, self.figure.marks[k], self.ports[k], self.port_counts[link.target], self.measure)
            markup = "".join(self._write_port(link, places))
            yield markup if self.timing is None else self.timing.show_from(self.timing.sends[link.target], markup)

    def _write_port(self, link: PictureLink, places: PortPlaces) -> Iterator[str]:
        factor = "" if link.local is None else write_factor(link.local)
        if places.pill is not None and factor:
            yield _draw_pill(factor, places.pill, self.sizes.pill_font)
        if places.sent is not None and link.sent is not None and link.sent.state is not ReadingState.ABSENT:
            tone = link.sent.tone_on(self.scale)
            self.tones.add(tone)
            css = f"grad halo w-{tone[0]}"
            yield from write_number(link.sent, "", places.sent, css, self.sizes.number_font, bold=True)


def _draw_pill(text: str, slot: TextSlot, font: int) -> str:
    """Return a local derivative at its port, in a pill as wide as its text."""
    wide = min(slot.rect.width, measure_text(text, font, bold=True) + 14)
    room = make_slot(slot.at, wide, font, slot.anchor).rect
    inside = make_slot((room.x + wide / 2, slot.at[1]), wide - 10, font, Anchor.MIDDLE)
    pill = Rect(room.x, slot.rect.y, wide, slot.rect.height)
    return draw_rect(pill, "pill", slot.rect.height / 2) + write_in_slot(text, inside, "strong", font, bold=True)


def _describe_box(box: Box) -> Iterator[str]:
    """Return what the description of the picture says of a box."""
    yield f"{box.label} ({box.text})"
    yield from write_number_rows(box)


def _list_corners(rects: Sequence[Rect]) -> tuple[list[float], list[float]]:
    return [rect.x for rect in rects], [rect.y for rect in rects]
