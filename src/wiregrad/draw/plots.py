"""Plots as SVG text: bar charts on a log scale, histograms, and curves over steps.

`PlotAxis` maps numbers to positions and picks round ticks. `PlotCanvas` collects elements and writes them in the
colours of a theme. `draw_bars`, `draw_histogram` and `draw_curves` are what other rooms call.

Invariants: labels do not overlap; long names are clipped and shown in full in a tooltip; what is not finite is hatched
and labelled and never has a hue; user text is escaped; several plots can share a page; nothing is loaded from
elsewhere and no script is run.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from xml.sax.saxutils import escape

from wiregrad.draw.layout.boxes import clip_distinctly, clip_front, count_columns, escape_unprintable
from wiregrad.draw.palette import NEGATIVE_TONE, POSITIVE_TONE, THEMES, Theme
from wiregrad.errors import InputError, short_repr

LIGHT_CURVE_COLOURS = ("#0072B2", "#BA5200", "#007A5A", "#9A3F92", "#6E6200", "#B3304A")
CURVE_COLOURS = {
    "light": LIGHT_CURVE_COLOURS,
    "print": LIGHT_CURVE_COLOURS,
    "dark": ("#56B4E9", "#F0A03C", "#35C79B", "#DE8CD2", "#D3C84B", "#F08A98"),
}
"""Colours of curves, with the contrast of text; names are beside the curves, so no one has to tell hues apart."""
CURVE_DASHES = ("", "7 3", "2 3")
"""Dashes of curves: once all colours are used, they start again with the next dash."""
PLOT_FONT_SIZE = 12.0
CHARACTER_WIDTH = 0.61 * PLOT_FONT_SIZE
"""Width of a character of the fixed-width font that numbers and names are written in."""
MAX_LINEAR_NUMBER = 1e307
"""The largest magnitude on a linear axis; larger numbers are drawn at its end."""
PARAGRAPH_COLUMNS = 92
"""Number of characters in a line of a paragraph."""


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """Maps numbers to positions from `start` to `end`; on a log scale, `low` and `high` are exponents of ten."""

    low: float
    high: float
    start: float
    end: float
    log: bool = True

    @classmethod
    def from_numbers(cls, numbers: Sequence[float], start: float, end: float, *, log: bool = True) -> PlotAxis:
        """Return the axis that spans these numbers, extended to whole powers of ten on a log scale.

        >>> PlotAxis.from_numbers([0.02, 30.0], 0.0, 400.0).round_ticks()
        [0.01, 0.1, 1.0, 10.0, 100.0]
        """
        usable = [x for x in numbers if math.isfinite(x) and (x > 0 or not log)]
        low = min(usable, default=1.0)
        high = max(usable, default=1.0)
        if not log:
            # The difference of two numbers near the largest would overflow.
            low, high = (min(max(x, -MAX_LINEAR_NUMBER), MAX_LINEAR_NUMBER) for x in (low, high))
            room = max(high - low, 1e-9 * max(abs(high), abs(low)), 1e-300)
            return cls(low - 0.04 * room, high + 0.04 * room, start, end, log=False)
        # Beyond these powers of ten, no float could be written at a tick.
        first = min(max(math.floor(math.log10(low)), -323), 307)
        return cls(first, min(max(first + 1, math.ceil(math.log10(high))), 308), start, end)

    def position_of(self, number: float) -> float:
        """Return the position of a number, clamped to the ends of the axis; NaN if it has none."""
        if self.log:
            number = math.log10(number) if number > 0 else math.nan
        if math.isnan(number):
            return number
        number = min(max(number, self.low), self.high)
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)

    def round_ticks(self, most: int = 7) -> list[float]:
        """Return round numbers along the axis, about `most` of them."""
        if self.log:
            step = max(1, math.ceil((self.high - self.low) / most))
            return [float(f"1e{k}") for k in range(int(self.low), int(self.high) + 1, step)]
        gap = _find_round_step((self.high - self.low) / most)
        return [k * gap for k in range(math.ceil(self.low / gap), math.floor(self.high / gap) + 1)]


def _find_round_step(wanted: float) -> float:
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= wanted * 0.999)


def format_brief(number: float) -> str:
    """Write a number in three digits, as briefly as possible.

    >>> format_brief(0.00001), format_brief(1500.0), format_brief(2.0), format_brief(1e100)
    ('1e-5', '1.5e3', '2', '1e100')
    """
    text = f"{number:.2e}" if 1000 <= abs(number) < 1e6 else f"{number:.3g}"
    mantissa, mark, power = text.partition("e")
    if not mark:
        return text
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(power)}"


def format_power(number: float) -> str:
    """Write a power of ten, 1 and 10 in digits.

    >>> format_power(0.01), format_power(1.0), format_power(1e300)
    ('1e-2', '1', '1e300')
    """
    if number in (1.0, 10.0):
        return f"{number:.0f}"
    mantissa, _, power = f"{number:.0e}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def escape_text(text: str) -> str:
    """Escape a text for XML; characters that do not print become backslash escapes.

    >>> escape_text("a\\x00<b>")
    'a\\\\x00&lt;b&gt;'
    """
    return escape(escape_unprintable(text), {'"': "&quot;", "'": "&#39;"})


@dataclass(slots=True)
class PlotCanvas:
    """Collects the elements of a plot and writes them with the colours of a theme."""

    title: str
    description: str
    parts: list[str] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def add_text(self, x: float, y: float, words: str, kind: str = "t", anchor: str = "", tip: str = "") -> None:
        """Add a text; `tip` is its tooltip."""
        place = f' text-anchor="{anchor}"' if anchor else ""
        hint = f"<title>{escape_text(tip)}</title>" if tip else ""
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{place}>{hint}{escape_text(words)}</text>')

    def add_box(self, x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> None:
        """Add a filled box."""
        hint = f"<title>{escape_text(tip)}</title>" if tip else ""
        size = f'width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}>{hint}</rect>')

    def add_line(self, points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        """Add straight lines from point to point."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="M{path}{"Z" * closed}"/>')

    def add_paragraph(self, x: float, y: float, lines: Sequence[str]) -> tuple[float, float]:
        """Add sentences below each other, wrapped if they are long; return their right and lower end."""
        rows = [row for line in lines for row in wrap(line, PARAGRAPH_COLUMNS, subsequent_indent="  ")]
        for k, row in enumerate(rows):
            self.add_text(x, y + 18 * k, row)
        return x + CHARACTER_WIDTH * max(map(count_columns, rows), default=0), y + 18 * len(rows)

    def add_hatch(self, x: float, y: float, width: float, height: float, tip: str = "") -> None:
        """Add a hatched box, which stands for numbers that are not finite."""
        self.add_box(x, y, width, height, "hatch", tip)

    def write_svg(self, theme: str) -> str:
        """Return the plot as SVG text."""
        body = "".join(self.parts)
        # Plots on one page must not share class names; a digest is the same in every process.
        mark = f"wgp{zlib.crc32((self.title + body + theme).encode('utf-8', 'replace')):08x}"
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        pattern = (
            f'<defs><pattern id="{mark}h" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect class="paper" width="6" height="6"/>'
            f'<path class="hatching" d="M0 0L0 6"/></pattern></defs>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{mark}" role="img" '
            f'aria-labelledby="{mark}t {mark}d" {size}>'
            f'<title id="{mark}t">{escape_text(self.title)}</title>'
            f'<desc id="{mark}d">{escape_text(self.description)}</desc>'
            f"<style>{_write_plot_style(mark, theme)}</style>{pattern}"
            f'<rect class="paper" width="100%" height="100%"/>{body}</svg>\n'
        )


def _write_plot_style(mark: str, theme: str) -> str:
    if theme != "auto" and theme not in THEMES:
        raise InputError(f"theme must be {', '.join(THEMES)} or auto; got {short_repr(theme)}")
    plain = _collect_plot_colours(THEMES["light" if theme == "auto" else theme])
    rules = "".join(f".{mark} {rule}" for rule in _write_plot_rules(mark))
    if theme != "auto":
        # With one theme, colours are written out: not every SVG viewer knows custom properties.
        return re.sub(r"var\(--(\w+)\)", lambda match: plain[match[1]], rules)
    dark = ";".join(f"--{name}:{colour}" for name, colour in _collect_plot_colours(THEMES["dark"]).items())
    both = re.sub(r"var\(--(\w+)\)", lambda match: f"var(--{match[1]},{plain[match[1]]})", rules)
    return f"@media (prefers-color-scheme:dark){{.{mark}{{{dark}}}}}{both}"


def _collect_plot_colours(theme: Theme) -> dict[str, str]:
    plain = {name: getattr(theme, name) for name in ("paper", "panel", "head", "ink", "muted", "line", "zero")}
    signs = {"up": theme.hues[POSITIVE_TONE][1], "down": theme.hues[NEGATIVE_TONE][1]}
    return {**plain, **signs, **{f"s{k}": colour for k, colour in enumerate(CURVE_COLOURS[theme.name])}}


def _write_plot_rules(mark: str) -> Iterator[str]:
    mono = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    yield f"text{{font:{PLOT_FONT_SIZE:g}px {mono};fill:var(--ink)}}"
    yield "text{white-space:pre}"
    yield "text.h{font:600 15px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    yield "text.m{fill:var(--muted)}"
    # A rim in the colour of the paper keeps text readable where a line passes behind it.
    yield "text.over{paint-order:stroke;stroke:var(--paper);stroke-width:5px}"
    yield ".paper{fill:var(--paper)}"
    yield ".grid{stroke:var(--line);stroke-opacity:.3;fill:none}"
    yield ".axis{stroke:var(--line);fill:none}"
    yield ".row{fill:var(--head)}"
    yield ".bar,.up{fill:var(--up)}"
    yield ".down{fill:var(--down)}"
    yield ".zero{fill:var(--zero)}"
    yield ".range{stroke:var(--ink);stroke-width:1.5;fill:none}"
    yield ".other{fill:var(--paper);stroke:var(--ink);stroke-width:1.5}"
    yield ".event{stroke:var(--ink);stroke-dasharray:3 3;fill:none}"
    yield ".label{fill:var(--head);stroke:var(--line)}"
    yield ".hatching{stroke:var(--ink);stroke-width:2}"
    yield f".hatch{{fill:url(#{mark}h);stroke:var(--ink)}}"
    for k in range(len(CURVE_COLOURS["light"])):
        yield f".s{k}{{stroke:var(--s{k});stroke-width:2;stroke-linejoin:round;fill:none}}"
        yield f".b{k}{{fill:var(--s{k});fill-opacity:.18}}"
    for k, dash in enumerate(CURVE_DASHES):
        yield f".d{k}{{stroke-dasharray:{dash or 'none'}}}"


COLOUR_COUNT = len(CURVE_COLOURS["light"])
MAX_CURVES = COLOUR_COUNT * len(CURVE_DASHES)
PLOT_GAP = 12.0
"""The room around and between the parts of a plot."""
PANEL_GUTTER = 48.0
"""The room between panels."""
HATCHED_STRIP_HEIGHT = 8.0
"""Height of the hatched strip above a panel."""
NUMBER_COLUMNS = 10
"""Number of columns for the number in front of a note."""


@dataclass(frozen=True, slots=True)
class BarRow:
    """A row of a bar chart: a size with its smallest and largest, a second size to compare, and a note."""

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan
    other: float = math.nan
    note: str = ""
    spoilt: bool = False
    """Whether some of the numbers that the row summarises are not finite."""


@dataclass(frozen=True, slots=True)
class HistogramColumn:
    """A column of a histogram: its label, its count, and the sign of what it counts."""

    label: str
    count: int
    sign: int = 0
    spoilt: bool = False


@dataclass(frozen=True, slots=True)
class PlotCurve:
    """A curve over steps: the mean over each interval of steps, with the smallest and the largest number in it."""

    name: str
    steps: Sequence[float]
    low: Sequence[float]
    mean: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """Curves with one scale; `spoilt` are intervals of steps in which some number was not finite."""

    title: str
    curves: Sequence[PlotCurve]
    spoilt: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class StepMark:
    """An event at a step."""

    step: float
    label: str


def draw_bars(
    rows: Sequence[BarRow],
    *,
    title: str,
    description: str,
    axis: str,
    other: str,
    notes: Sequence[str] = (),
    theme: str,
) -> str:
    """Return a bar chart as SVG: one row for each bar, the first on top, sizes on a log scale.

    >>> chart = draw_bars([BarRow("w", 2.0)], title="sizes", description="", axis="rms", other="value", theme="light")
    >>> chart.startswith("<svg") and "sizes" in chart
    True
    """
    canvas = PlotCanvas(title, description)
    names = clip_distinctly([escape_unprintable(row.label) for row in rows], 26)
    left = PLOT_GAP + CHARACTER_WIDTH * max((count_columns(name) for name in names), default=0) + PLOT_GAP
    x = PlotAxis.from_numbers(
        [v for row in rows for v in (row.value, row.low, row.high, row.other)], left, left + 380.0
    )
    top = 62.0
    step = 26.0
    bottom = top + step * len(rows)
    canvas.add_text(PLOT_GAP, 26, title, "h")
    canvas.add_text(x.end + PLOT_GAP, top - 10, axis, "m")
    notes_wide = NUMBER_COLUMNS + max((count_columns(row.note) for row in rows), default=0)
    text_end = x.end + PLOT_GAP + CHARACTER_WIDTH * max(notes_wide, count_columns(axis))
    for k in range(0, len(rows), 2):
        canvas.add_box(0, top + step * k, text_end + PLOT_GAP, step, "row")
    _draw_log_grid(canvas, x, top, bottom)
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        _draw_bar(canvas, row, name, x, top + step * (k + 0.5))
    legend = _draw_bar_legend(canvas, bottom + 44, axis, other, rows)
    right, canvas.height = canvas.add_paragraph(PLOT_GAP, bottom + 70, notes)
    canvas.width = max(legend, right, text_end, CHARACTER_WIDTH * 1.3 * count_columns(title)) + PLOT_GAP
    return canvas.write_svg(theme)


def _draw_log_grid(canvas: PlotCanvas, x: PlotAxis, top: float, bottom: float) -> None:
    for tick in x.round_ticks():
        canvas.add_line([(x.position_of(tick), top), (x.position_of(tick), bottom)], "grid")
        canvas.add_text(x.position_of(tick), bottom + 16, format_power(tick), "m", "middle")
    canvas.add_line([(x.start, bottom), (x.end, bottom)], "axis")


def _draw_bar(canvas: PlotCanvas, row: BarRow, name: str, x: PlotAxis, y: float) -> None:
    canvas.add_text(PLOT_GAP, y + 4, name, tip=row.label)
    end = x.position_of(row.value)
    if row.spoilt:
        canvas.add_hatch(x.start, y - 7, (x.end if math.isnan(end) else end) - x.start, 14, row.note)
    elif math.isfinite(end):
        canvas.add_box(x.start, y - 7, end - x.start, 14, "bar", f"{row.label}: {format_brief(row.value)}")
    low = x.position_of(row.low)
    high = x.position_of(row.high)
    if math.isfinite(low) and math.isfinite(high):
        canvas.add_line([(low, y), (high, y)], "range")
        for place in (low, high):
            canvas.add_line([(place, y - 4), (place, y + 4)], "range")
    if math.isfinite(x.position_of(row.other)):
        _draw_diamond(canvas, x.position_of(row.other), y)
    canvas.add_text(x.end + PLOT_GAP, y + 4, "none" if math.isnan(row.value) else format_brief(row.value))
    if row.note:
        canvas.add_text(x.end + PLOT_GAP + CHARACTER_WIDTH * NUMBER_COLUMNS, y + 4, row.note)


def _draw_diamond(canvas: PlotCanvas, x: float, y: float) -> None:
    canvas.add_line([(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)], "other", closed=True)


def _draw_bar_legend(canvas: PlotCanvas, y: float, axis: str, other: str, rows: Sequence[BarRow]) -> float:
    x = PLOT_GAP
    canvas.add_box(x, y - 10, 20, 12, "bar")
    x = _write_legend_words(canvas, x + 26, y, axis)
    canvas.add_line([(x, y - 4), (x + 20, y - 4)], "range")
    for place in (x, x + 20):
        canvas.add_line([(place, y - 8), (place, y)], "range")
    x = _write_legend_words(canvas, x + 26, y, "smallest to largest")
    if any(math.isfinite(row.other) for row in rows):
        _draw_diamond(canvas, x + 6, y - 4)
        x = _write_legend_words(canvas, x + 17, y, other)
    if any(row.spoilt for row in rows):
        canvas.add_hatch(x, y - 10, 20, 12)
        x = _write_legend_words(canvas, x + 26, y, "not finite")
    return x


def _write_legend_words(canvas: PlotCanvas, x: float, y: float, words: str) -> float:
    canvas.add_text(x, y, words, "m")
    return x + CHARACTER_WIDTH * count_columns(words) + 2 * PLOT_GAP


def draw_histogram(bins: Sequence[HistogramColumn], *, title: str, description: str, axis: str, theme: str) -> str:
    """Return a histogram as SVG: one column for each bin, with its count on top.

    >>> chart = draw_histogram([HistogramColumn("1", 3, 1)], title="sizes", description="", axis="size", theme="dark")
    >>> chart.startswith("<svg")
    True
    """
    canvas = PlotCanvas(title, description)
    wide = max(44.0, CHARACTER_WIDTH * max((count_columns(column.label) for column in bins), default=1) + 8)
    top = 64.0
    tall = 220.0
    most = max((column.count for column in bins), default=0) or 1
    canvas.add_text(PLOT_GAP, 26, title, "h")
    for k, column in enumerate(bins):
        _draw_column(canvas, column, PLOT_GAP + wide * k, wide, top + tall, tall * column.count / most)
    end = PLOT_GAP + wide * max(1, len(bins))
    canvas.add_line([(PLOT_GAP, top + tall), (end, top + tall)], "axis")
    canvas.add_text(PLOT_GAP, top + tall + 42, axis, "m")
    canvas.width = (
        max(end, CHARACTER_WIDTH * count_columns(axis) + PLOT_GAP, CHARACTER_WIDTH * 1.3 * count_columns(title))
        + PLOT_GAP
    )
    canvas.height = top + tall + 56
    return canvas.write_svg(theme)


def _draw_column(canvas: PlotCanvas, column: HistogramColumn, x: float, wide: float, base: float, tall: float) -> None:
    tip = f"{column.label}: {column.count:,}"
    if column.count:
        tall = max(tall, 2.0)
        kind = "hatch" if column.spoilt else {1: "up", -1: "down"}.get(column.sign, "zero")
        canvas.add_box(x + 2, base - tall, wide - 4, tall, kind, tip)
        canvas.add_text(x + wide / 2, base - tall - 5, format_count(column.count), "t", "middle")
    canvas.add_text(x + wide / 2, base + 17, column.label, "t" if column.count else "m", "middle")


def format_count(count: int) -> str:
    """Write a count in at most five characters.

    >>> format_count(999), format_count(12_345), format_count(3_000_000)
    ('999', '12.3k', '3M')
    """
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{f'{count / size:.1f}'.removesuffix('.0')}{letter}"
    return str(count)


def draw_curves(
    panels: Sequence[CurvePanel],
    marks: Sequence[StepMark],
    *,
    steps: tuple[float, float],
    title: str,
    description: str,
    notes: Sequence[str] = (),
    theme: str,
) -> str:
    """Return panels of curves as SVG, above each other and over the same steps, with marks for events.

    >>> line = PlotCurve("loss", [0, 1], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0])
    >>> "<svg" in draw_curves([CurvePanel("loss", [line])], [], steps=(0, 1), title="run", description="", theme="auto")
    True
    """
    canvas = PlotCanvas(title, description)
    left = 74.0
    wide = 620.0
    tall = 170.0
    x = PlotAxis(steps[0], max(steps[1], steps[0] + 1), left, left + wide, log=False)
    canvas.add_text(PLOT_GAP, 26, title, "h")
    labels, lanes = _assign_lanes(marks, x)
    top = 70.0 + 22 * lanes
    bottom = top + (tall + PANEL_GUTTER) * len(panels) - PANEL_GUTTER
    for mark, _, _, lane in labels:
        canvas.add_line([(x.position_of(mark.step), top - 30 - 22 * lane), (x.position_of(mark.step), bottom)], "event")
    right = max(_draw_panel(canvas, panel, x, top + (tall + PANEL_GUTTER) * k, tall) for k, panel in enumerate(panels))
    _write_mark_labels(canvas, labels, top)
    for tick in sorted({round(tick) for tick in x.round_ticks()}):
        canvas.add_text(x.position_of(tick), bottom + 17, f"{tick:,}", "m", "middle")
    canvas.add_text((x.start + x.end) / 2, bottom + 36, "step", "m", "middle")
    reach, canvas.height = canvas.add_paragraph(PLOT_GAP, bottom + 62, notes)
    canvas.width = max(right, reach) + PLOT_GAP
    return canvas.write_svg(theme)


def _assign_lanes(marks: Sequence[StepMark], x: PlotAxis) -> tuple[list[tuple[StepMark, float, float, int]], int]:
    """Give each label the first lane in which it overlaps no other; return mark, left edge, width and lane of each."""
    ends: list[float] = []
    placed = []
    for mark in sorted(marks, key=lambda mark: mark.step):
        width = CHARACTER_WIDTH * count_columns(clip_front(mark.label, 48)) + 12
        start = max(x.start - 50, min(x.position_of(mark.step) - 6, x.end - width))
        lane = next((k for k, end in enumerate(ends) if end + 6 <= start), len(ends))
        ends[lane : lane + 1] = [start + width]
        placed.append((mark, start, width, lane))
    return placed, len(ends)


def _write_mark_labels(canvas: PlotCanvas, placed: Sequence[tuple[StepMark, float, float, int]], top: float) -> None:
    for mark, start, width, lane in placed:
        y = top - 48 - 22 * lane
        canvas.add_box(start, y, width, 18, "label", mark.label)
        canvas.add_text(start + 6, y + 13, clip_front(mark.label, 48))


def _draw_panel(canvas: PlotCanvas, panel: CurvePanel, x: PlotAxis, top: float, tall: float) -> float:
    """Draw one panel and return its right end."""
    numbers = [v for curve in panel.curves for line in (curve.low, curve.mean, curve.high) for v in line]
    finite = [v for v in numbers if math.isfinite(v)]
    log = not any(v < 0 for v in finite) and any(v > 0 for v in finite)
    y = PlotAxis.from_numbers(numbers, top + tall, top, log=log)
    canvas.add_text(x.start, top - HATCHED_STRIP_HEIGHT - 5, panel.title + (", log scale" if log else ""), "m over")
    for tick in y.round_ticks(5):
        canvas.add_line([(x.start, y.position_of(tick)), (x.end, y.position_of(tick))], "grid")
        canvas.add_text(
            x.start - 8, y.position_of(tick) + 4, format_power(tick) if log else format_brief(tick), "m", "end"
        )
    canvas.add_line([(x.start, top), (x.start, top + tall), (x.end, top + tall)], "axis")
    for first, last in panel.spoilt:
        start = min(x.position_of(first), x.end - 5)
        width = max(5.0, x.position_of(last) - start)
        canvas.add_hatch(
            start,
            top - HATCHED_STRIP_HEIGHT,
            width,
            HATCHED_STRIP_HEIGHT,
            f"not finite in steps {first:,.0f} to {last:,.0f}",
        )
    for k, curve in enumerate(panel.curves[:MAX_CURVES]):
        _draw_curve(canvas, curve, k, x, y)
    if panel.spoilt:
        canvas.add_text(x.end, top - HATCHED_STRIP_HEIGHT - 5, "hatched: not finite", "t over", "end")
    return _write_curve_names(canvas, panel.curves[:MAX_CURVES], x, y)


def _curve_style(k: int) -> tuple[int, int]:
    """Return the colour and the dash of a curve, by number."""
    return k % COLOUR_COUNT, k // COLOUR_COUNT


def _draw_curve(canvas: PlotCanvas, curve: PlotCurve, k: int, x: PlotAxis, y: PlotAxis) -> None:
    colour, dash = _curve_style(k)
    places = [
        (x.position_of(step), y.position_of(mean), y.position_of(low), y.position_of(high))
        for step, mean, low, high in zip(curve.steps, curve.mean, curve.low, curve.high, strict=True)
    ]
    for run in _split_at_gaps(places):
        if any(abs(low - high) > 1 for _, _, low, high in run):
            band = [(a, high) for a, _, _, high in run] + [(a, low) for a, _, low, _ in reversed(run)]
            canvas.add_line(band, f"b{colour}", closed=True)
        line = [(a, mean) for a, mean, _, _ in run]
        canvas.add_line(
            line if len(line) > 1 else [(line[0][0] - 2, line[0][1]), (line[0][0] + 2, line[0][1])],
            f"s{colour} d{dash}",
        )


def _split_at_gaps(
    places: Sequence[tuple[float, float, float, float]],
) -> Iterator[list[tuple[float, float, float, float]]]:
    """Cut a curve where it has no position; a band whose end has none reaches only to the mean."""
    run: list[tuple[float, float, float, float]] = []
    for a, mean, low, high in places:
        if math.isnan(mean):
            if run:
                yield run
            run = []
        else:
            run.append((a, mean, mean if math.isnan(low) else low, mean if math.isnan(high) else high))
    if run:
        yield run


def _write_curve_names(canvas: PlotCanvas, visible: Sequence[PlotCurve], x: PlotAxis, y: PlotAxis) -> float:
    """Write the names of the curves at their ends such that they do not overlap; return their right end."""
    places = []
    for k, curve in enumerate(visible):
        last = next((y.position_of(v) for v in reversed(curve.mean) if math.isfinite(y.position_of(v))), y.start)
        places.append((last, k, curve))
    places.sort(key=lambda place: place[:2])
    rows = _spread_apart([last for last, _, _ in places], y.end, y.start, 15.0)
    right = x.end
    for row, (last, k, curve) in zip(rows, places, strict=True):
        colour, dash = _curve_style(k)
        canvas.add_line([(x.end + 3, last), (x.end + 14, row), (x.end + 28, row)], f"s{colour} d{dash}")
        canvas.add_text(x.end + 33, row + 4, clip_front(curve.name, 24), tip=curve.name)
        right = max(right, x.end + 33 + CHARACTER_WIDTH * count_columns(clip_front(curve.name, 24)))
    return right


def _spread_apart(wanted: Sequence[float], top: float, bottom: float, step: float) -> list[float]:
    """Return places near the wanted ones (in ascending order) at least a step apart, moved up at the bottom.

    >>> _spread_apart([10.0, 11.0, 30.0], 0.0, 100.0, 15.0)
    [10.0, 25.0, 40.0]
    """
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + step) if places else max(place, top))
    limit = max(bottom, top + step * (len(places) - 1))
    for k in reversed(range(len(places))):
        places[k] = min(places[k], limit)
        limit = places[k] - step
    return places
