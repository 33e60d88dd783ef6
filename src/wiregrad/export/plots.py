"""Plots as SVG text: bars over a log scale, histograms, and curves over steps.

Kept true: no label stands on another, long names are clipped and shown in full when pointed at, and what is not finite
is hatched and named and never has a hue. Nothing is loaded from elsewhere and nothing is run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wiregrad.export.canvas import CELL, DASHES, SERIES, Axis, Canvas, brief, power_text
from wiregrad.export.letters import cells, clip_front, distinct, printable

COLOURS = len(SERIES["light"])
MOST_CURVES = COLOURS * len(DASHES)
GAP = 12.0
"""The room around and between the parts of a plot."""
GUTTER = 48.0
"""The room between panels."""
STRIP = 8.0
"""Height of the hatched strip above a panel."""
SIZE_CELLS = 10
"""Number of columns for the number in front of a note."""


@dataclass(frozen=True, slots=True)
class Bar:
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
class Column:
    """A column of a histogram: its label, its count, and the sign of what it counts."""

    label: str
    count: int
    sign: int = 0
    spoilt: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve over steps: the mean over each interval of steps, with the smallest and the largest number in it."""

    name: str
    steps: Sequence[float]
    low: Sequence[float]
    mean: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves with one scale; `spoilt` are intervals of steps in which some number was not finite."""

    title: str
    curves: Sequence[Curve]
    spoilt: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """An event at a step."""

    step: float
    label: str


def bars(
    rows: Sequence[Bar], *, title: str, description: str, axis: str, other: str, notes: Sequence[str] = (), theme: str
) -> str:
    """Return a bar chart as SVG: one row for each bar, the first on top, sizes on a log scale.

    >>> chart = bars([Bar("w", 2.0)], title="sizes", description="", axis="rms", other="value", theme="light")
    >>> chart.startswith("<svg") and "sizes" in chart
    True
    """
    canvas = Canvas(title, description)
    names = distinct([printable(row.label) for row in rows], 26)
    left = GAP + CELL * max((cells(name) for name in names), default=0) + GAP
    x = Axis.over([v for row in rows for v in (row.value, row.low, row.high, row.other)], left, left + 380.0)
    top = 62.0
    step = 26.0
    bottom = top + step * len(rows)
    canvas.text(GAP, 26, title, "h")
    canvas.text(x.end + GAP, top - 10, axis, "m")
    notes_wide = SIZE_CELLS + max((cells(row.note) for row in rows), default=0)
    text_end = x.end + GAP + CELL * max(notes_wide, cells(axis))
    for k in range(0, len(rows), 2):
        canvas.box(0, top + step * k, text_end + GAP, step, "row")
    _log_grid(canvas, x, top, bottom)
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        _bar(canvas, row, name, x, top + step * (k + 0.5))
    legend = _bar_legend(canvas, bottom + 44, axis, other, rows)
    right, canvas.height = canvas.paragraph(GAP, bottom + 70, notes)
    canvas.width = max(legend, right, text_end, CELL * 1.3 * cells(title)) + GAP
    return canvas.svg(theme)


def _log_grid(canvas: Canvas, x: Axis, top: float, bottom: float) -> None:
    for tick in x.ticks():
        canvas.line([(x.at(tick), top), (x.at(tick), bottom)], "grid")
        canvas.text(x.at(tick), bottom + 16, power_text(tick), "m", "middle")
    canvas.line([(x.start, bottom), (x.end, bottom)], "axis")


def _bar(canvas: Canvas, row: Bar, name: str, x: Axis, y: float) -> None:
    canvas.text(GAP, y + 4, name, tip=row.label)
    end = x.at(row.value)
    if row.spoilt:
        canvas.hatch(x.start, y - 7, (x.end if math.isnan(end) else end) - x.start, 14, row.note)
    elif math.isfinite(end):
        canvas.box(x.start, y - 7, end - x.start, 14, "bar", f"{row.label}: {brief(row.value)}")
    low = x.at(row.low)
    high = x.at(row.high)
    if math.isfinite(low) and math.isfinite(high):
        canvas.line([(low, y), (high, y)], "range")
        for place in (low, high):
            canvas.line([(place, y - 4), (place, y + 4)], "range")
    if math.isfinite(x.at(row.other)):
        _diamond(canvas, x.at(row.other), y)
    canvas.text(x.end + GAP, y + 4, "none" if math.isnan(row.value) else brief(row.value))
    if row.note:
        canvas.text(x.end + GAP + CELL * SIZE_CELLS, y + 4, row.note)


def _diamond(canvas: Canvas, x: float, y: float) -> None:
    canvas.line([(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)], "other", closed=True)


def _bar_legend(canvas: Canvas, y: float, axis: str, other: str, rows: Sequence[Bar]) -> float:
    x = GAP
    canvas.box(x, y - 10, 20, 12, "bar")
    x = _legend_words(canvas, x + 26, y, axis)
    canvas.line([(x, y - 4), (x + 20, y - 4)], "range")
    for place in (x, x + 20):
        canvas.line([(place, y - 8), (place, y)], "range")
    x = _legend_words(canvas, x + 26, y, "smallest to largest")
    if any(math.isfinite(row.other) for row in rows):
        _diamond(canvas, x + 6, y - 4)
        x = _legend_words(canvas, x + 17, y, other)
    if any(row.spoilt for row in rows):
        canvas.hatch(x, y - 10, 20, 12)
        x = _legend_words(canvas, x + 26, y, "not finite")
    return x


def _legend_words(canvas: Canvas, x: float, y: float, words: str) -> float:
    canvas.text(x, y, words, "m")
    return x + CELL * cells(words) + 2 * GAP


def columns(bins: Sequence[Column], *, title: str, description: str, axis: str, theme: str) -> str:
    """Return a histogram as SVG: one column for each bin, with its count on top.

    >>> chart = columns([Column("1", 3, 1)], title="sizes", description="", axis="size", theme="dark")
    >>> chart.startswith("<svg")
    True
    """
    canvas = Canvas(title, description)
    wide = max(44.0, CELL * max((cells(column.label) for column in bins), default=1) + 8)
    top = 64.0
    tall = 220.0
    most = max((column.count for column in bins), default=0) or 1
    canvas.text(GAP, 26, title, "h")
    for k, column in enumerate(bins):
        _column(canvas, column, GAP + wide * k, wide, top + tall, tall * column.count / most)
    end = GAP + wide * max(1, len(bins))
    canvas.line([(GAP, top + tall), (end, top + tall)], "axis")
    canvas.text(GAP, top + tall + 42, axis, "m")
    canvas.width = max(end, CELL * cells(axis) + GAP, CELL * 1.3 * cells(title)) + GAP
    canvas.height = top + tall + 56
    return canvas.svg(theme)


def _column(canvas: Canvas, column: Column, x: float, wide: float, base: float, tall: float) -> None:
    tip = f"{column.label}: {column.count:,}"
    if column.count:
        tall = max(tall, 2.0)
        kind = "hatch" if column.spoilt else {1: "up", -1: "down"}.get(column.sign, "zero")
        canvas.box(x + 2, base - tall, wide - 4, tall, kind, tip)
        canvas.text(x + wide / 2, base - tall - 5, count_text(column.count), "t", "middle")
    canvas.text(x + wide / 2, base + 17, column.label, "t" if column.count else "m", "middle")


def count_text(count: int) -> str:
    """Write a count in at most five characters.

    >>> count_text(999), count_text(12_345), count_text(3_000_000)
    ('999', '12.3k', '3M')
    """
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{f'{count / size:.1f}'.removesuffix('.0')}{letter}"
    return str(count)


def curves(
    panels: Sequence[Panel],
    marks: Sequence[Mark],
    *,
    steps: tuple[float, float],
    title: str,
    description: str,
    notes: Sequence[str] = (),
    theme: str,
) -> str:
    """Return panels of curves as SVG, above each other and over the same steps, with marks for events.

    >>> line = Curve("loss", [0, 1], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0])
    >>> "<svg" in curves([Panel("loss", [line])], [], steps=(0, 1), title="run", description="", theme="auto")
    True
    """
    canvas = Canvas(title, description)
    left = 74.0
    wide = 620.0
    tall = 170.0
    x = Axis(steps[0], max(steps[1], steps[0] + 1), left, left + wide, log=False)
    canvas.text(GAP, 26, title, "h")
    labels, lanes = _lanes(marks, x)
    top = 70.0 + 22 * lanes
    bottom = top + (tall + GUTTER) * len(panels) - GUTTER
    for mark, _, _, lane in labels:
        canvas.line([(x.at(mark.step), top - 30 - 22 * lane), (x.at(mark.step), bottom)], "event")
    right = max(_panel(canvas, panel, x, top + (tall + GUTTER) * k, tall) for k, panel in enumerate(panels))
    _write_labels(canvas, labels, top)
    for tick in sorted({round(tick) for tick in x.ticks()}):
        canvas.text(x.at(tick), bottom + 17, f"{tick:,}", "m", "middle")
    canvas.text((x.start + x.end) / 2, bottom + 36, "step", "m", "middle")
    reach, canvas.height = canvas.paragraph(GAP, bottom + 62, notes)
    canvas.width = max(right, reach) + GAP
    return canvas.svg(theme)


def _lanes(marks: Sequence[Mark], x: Axis) -> tuple[list[tuple[Mark, float, float, int]], int]:
    """Give each label the first lane in which it overlaps no other; return mark, left edge, width and lane of each."""
    ends: list[float] = []
    placed = []
    for mark in sorted(marks, key=lambda mark: mark.step):
        width = CELL * cells(clip_front(mark.label, 48)) + 12
        start = max(x.start - 50, min(x.at(mark.step) - 6, x.end - width))
        lane = next((k for k, end in enumerate(ends) if end + 6 <= start), len(ends))
        ends[lane : lane + 1] = [start + width]
        placed.append((mark, start, width, lane))
    return placed, len(ends)


def _write_labels(canvas: Canvas, placed: Sequence[tuple[Mark, float, float, int]], top: float) -> None:
    for mark, start, width, lane in placed:
        y = top - 48 - 22 * lane
        canvas.box(start, y, width, 18, "label", mark.label)
        canvas.text(start + 6, y + 13, clip_front(mark.label, 48))


def _panel(canvas: Canvas, panel: Panel, x: Axis, top: float, tall: float) -> float:
    """Draw one panel and return its right end."""
    numbers = [v for curve in panel.curves for line in (curve.low, curve.mean, curve.high) for v in line]
    finite = [v for v in numbers if math.isfinite(v)]
    log = not any(v < 0 for v in finite) and any(v > 0 for v in finite)
    y = Axis.over(numbers, top + tall, top, log=log)
    canvas.text(x.start, top - STRIP - 5, panel.title + (", log scale" if log else ""), "m over")
    for tick in y.ticks(5):
        canvas.line([(x.start, y.at(tick)), (x.end, y.at(tick))], "grid")
        canvas.text(x.start - 8, y.at(tick) + 4, power_text(tick) if log else brief(tick), "m", "end")
    canvas.line([(x.start, top), (x.start, top + tall), (x.end, top + tall)], "axis")
    for first, last in panel.spoilt:
        start = min(x.at(first), x.end - 5)
        width = max(5.0, x.at(last) - start)
        canvas.hatch(start, top - STRIP, width, STRIP, f"not finite in steps {first:,.0f} to {last:,.0f}")
    for k, curve in enumerate(panel.curves[:MOST_CURVES]):
        _curve(canvas, curve, k, x, y)
    if panel.spoilt:
        canvas.text(x.end, top - STRIP - 5, "hatched: not finite", "t over", "end")
    return _ends(canvas, panel.curves[:MOST_CURVES], x, y)


def _style_of(k: int) -> tuple[int, int]:
    """Return the colour and the dash of a curve, by number."""
    return k % COLOURS, k // COLOURS


def _curve(canvas: Canvas, curve: Curve, k: int, x: Axis, y: Axis) -> None:
    colour, dash = _style_of(k)
    places = [
        (x.at(step), y.at(mean), y.at(low), y.at(high))
        for step, mean, low, high in zip(curve.steps, curve.mean, curve.low, curve.high, strict=True)
    ]
    for run in _unbroken(places):
        if any(abs(low - high) > 1 for _, _, low, high in run):
            band = [(a, high) for a, _, _, high in run] + [(a, low) for a, _, low, _ in reversed(run)]
            canvas.line(band, f"b{colour}", closed=True)
        line = [(a, mean) for a, mean, _, _ in run]
        canvas.line(
            line if len(line) > 1 else [(line[0][0] - 2, line[0][1]), (line[0][0] + 2, line[0][1])],
            f"s{colour} d{dash}",
        )


def _unbroken(
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


def _ends(canvas: Canvas, visible: Sequence[Curve], x: Axis, y: Axis) -> float:
    """Write the names of the curves at their ends such that they do not overlap; return their right end."""
    places = []
    for k, curve in enumerate(visible):
        last = next((y.at(v) for v in reversed(curve.mean) if math.isfinite(y.at(v))), y.start)
        places.append((last, k, curve))
    places.sort(key=lambda place: place[:2])
    rows = _apart([last for last, _, _ in places], y.end, y.start, 15.0)
    right = x.end
    for row, (last, k, curve) in zip(rows, places, strict=True):
        colour, dash = _style_of(k)
        canvas.line([(x.end + 3, last), (x.end + 14, row), (x.end + 28, row)], f"s{colour} d{dash}")
        canvas.text(x.end + 33, row + 4, clip_front(curve.name, 24), tip=curve.name)
        right = max(right, x.end + 33 + CELL * cells(clip_front(curve.name, 24)))
    return right


def _apart(wanted: Sequence[float], top: float, bottom: float, step: float) -> list[float]:
    """Return places near the wanted ones (in ascending order) at least a step apart, moved up at the bottom.

    >>> _apart([10.0, 11.0, 30.0], 0.0, 100.0, 15.0)
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
