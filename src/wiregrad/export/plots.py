"""Plots as SVG text: bars over a log scale, histograms, and curves over steps.

Kept true: no label stands on another, long names are clipped and shown in full when pointed at, and what is not finite
is hatched and named and never has a hue. Nothing is loaded from elsewhere and nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wiregrad.export.canvas import CHARACTER_WIDTH, CURVE_DASHES, CURVE_COLOURS, PlotAxis, PlotCanvas, format_brief, format_power
from wiregrad.export.letters import count_columns, clip_front, clip_distinctly, escape_unprintable

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
    rows: Sequence[BarRow], *, title: str, description: str, axis: str, other: str, notes: Sequence[str] = (), theme: str
) -> str:
    """Return a bar chart as SVG: one row for each bar, the first on top, sizes on a log scale.

    >>> chart = draw_bars([BarRow("w", 2.0)], title="sizes", description="", axis="rms", other="value", theme="light")
    >>> chart.startswith("<svg") and "sizes" in chart
    True
    """
    canvas = PlotCanvas(title, description)
    names = clip_distinctly([escape_unprintable(row.label) for row in rows], 26)
    left = PLOT_GAP + CHARACTER_WIDTH * max((count_columns(name) for name in names), default=0) + PLOT_GAP
    x = PlotAxis.from_numbers([v for row in rows for v in (row.value, row.low, row.high, row.other)], left, left + 380.0)
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
    canvas.width = max(end, CHARACTER_WIDTH * count_columns(axis) + PLOT_GAP, CHARACTER_WIDTH * 1.3 * count_columns(title)) + PLOT_GAP
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
        canvas.add_text(x.start - 8, y.position_of(tick) + 4, format_power(tick) if log else format_brief(tick), "m", "end")
    canvas.add_line([(x.start, top), (x.start, top + tall), (x.end, top + tall)], "axis")
    for first, last in panel.spoilt:
        start = min(x.position_of(first), x.end - 5)
        width = max(5.0, x.position_of(last) - start)
        canvas.add_hatch(start, top - HATCHED_STRIP_HEIGHT, width, HATCHED_STRIP_HEIGHT, f"not finite in steps {first:,.0f} to {last:,.0f}")
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
