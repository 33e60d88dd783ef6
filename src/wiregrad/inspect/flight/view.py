"""How a flight is shown: sparklines in a terminal, curves with event marks on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from wiregrad.dtypes import count_with_noun
from wiregrad.export.canvas import format_brief
from wiregrad.export.letters import count_columns, clip_end
from wiregrad.export.plots import PlotCurve, StepMark, CurvePanel, draw_curves
from wiregrad.inspect.flight.events import Event
from wiregrad.inspect.flight.gauge import GROUP_METRICS
from wiregrad.inspect.flight.history import StepHistory

LOSS_COLUMN = 0
"""The column of a history that holds the loss."""
LOST_COLUMN = 1
"""The column that counts losses that are not finite."""
FIRST_GROUP_COLUMN = 2
"""The first column of the groups."""
MAX_CURVE_POINTS = 300
"""Maximum number of points of a drawn curve."""
MAX_SHOWN_GROUPS = 12
"""Maximum number of groups shown."""
MAX_EVENT_MARKS = 8
"""Maximum number of event marks in a chart."""
MAX_GROUP_NAME_WIDTH = 24
"""Maximum width of a group's name, in columns."""
SPARK_BARS = "▁▂▃▄▅▆▇█"
QUIET_TEXT = "nothing vanished, exploded, stood still, died or was not finite"


def metric_column(group: int, metric: str) -> int:
    """Return the column of a group's metric."""
    return FIRST_GROUP_COLUMN + group * len(GROUP_METRICS) + GROUP_METRICS.index(metric)


def flight_lines(history: StepHistory, groups: Sequence[str], events: Sequence[Event]) -> Iterator[str]:
    """Return sparklines of loss and gradients, and every event."""
    every = f", {history.stride:,} steps each" if history.stride > 1 else ""
    yield f"flight of {count_with_noun(history.total, 'step')} in {count_with_noun(len(history), 'record')}{every}"
    chosen = choose_groups(groups, events)
    rows = [("loss", LOSS_COLUMN, LOST_COLUMN)]
    rows += [(f"gradient of {clip_end(groups[k], MAX_GROUP_NAME_WIDTH)}", metric_column(k, "gradient"), metric_column(k, "nonfinite")) for k in chosen]
    width = max(count_columns(name) for name, _, _ in rows)
    for name, at, bad in rows:
        yield f"  {name}{' ' * (width - count_columns(name))}  {_describe_course(history, at, bad)}"
    if len(chosen) < len(groups):
        yield f"  and {count_with_noun(len(groups) - len(chosen), 'group')} more"
    yield from map(str, events or (QUIET_TEXT,))


def choose_groups(groups: Sequence[str], events: Sequence[Event]) -> list[int]:
    """Return the groups to show: those with events, then as many as fit, in their own order."""
    marked = {event.group for event in events}
    return sorted(sorted(range(len(groups)), key=lambda k: groups[k] not in marked)[:MAX_SHOWN_GROUPS])


def _describe_course(history: StepHistory, at: int, bad: int, most: int = 40) -> str:
    """Format the course of a number: first, last, and a sparkline with a mark wherever it was not finite."""
    first, last = history.first_and_last(at)
    means, counts = (history.merged_curve(k, most)[2].tolist() for k in (at, bad))
    bars = [math.nan if spoilt_steps > 0 else mean for mean, spoilt_steps in zip(means, counts, strict=True)]
    return "never a number" if math.isnan(first) else f"{format_brief(first):>9} to {format_brief(last):<9} {draw_sparkline(bars)}"


def draw_sparkline(numbers: Sequence[float]) -> str:
    """Draw numbers as bars of one character, on a log scale if all are positive; non-finite numbers as `!`.

    >>> draw_sparkline([1.0, 10.0, 100.0, float("nan")])
    '▁▅█!'
    """
    log = all(x > 0 for x in numbers if math.isfinite(x))
    heights = [math.log(x) if log and math.isfinite(x) else x for x in numbers]
    finite = [x for x in heights if math.isfinite(x)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    return "".join(SPARK_BARS[round(7 * _relative_height(x, low, high))] if math.isfinite(x) else "!" for x in heights)


def _relative_height(x: float, low: float, high: float) -> float:
    """Return the position of a number between low and high, from 0 to 1."""
    if low == high:
        return 0.0
    if math.isinf(high - low):
        # Halved, because the difference of two huge numbers overflows.
        x = x / 2
        low = low / 2
        high = high / 2
    return (x - low) / (high - low)


def draw_flight(history: StepHistory, groups: Sequence[str], events: Sequence[Event], theme: str) -> str:
    """Draw loss and gradients over the steps, with a mark for each event."""
    chosen = choose_groups(groups, events)
    panels = [CurvePanel("loss", [_make_curve(history, "loss", LOSS_COLUMN)], spoilt_stretches(history, [LOST_COLUMN]))]
    if chosen:
        gradient_curves = [_make_curve(history, groups[k], metric_column(k, "gradient")) for k in chosen]
        bad = spoilt_stretches(history, [metric_column(k, "nonfinite") for k in range(len(groups))])
        panels.append(CurvePanel("gradient, rms per number", gradient_curves, bad))
    return draw_curves(
        panels,
        _event_marks(events),
        steps=(0.0, float(max(1, history.total - 1))),
        title=f"Training flight, {count_with_noun(history.total, 'step')}",
        description="\n".join(flight_lines(history, groups, events)),
        notes=_flight_notes(events, len(chosen), len(groups)),
        theme=theme,
    )


def _make_curve(history: StepHistory, name: str, at: int) -> PlotCurve:
    steps, low, mean, high = history.merged_curve(at, MAX_CURVE_POINTS)
    return PlotCurve(name, steps.tolist(), low.tolist(), mean.tolist(), high.tolist())


def spoilt_stretches(history: StepHistory, columns: Sequence[int]) -> list[tuple[float, float]]:
    """Return the stretches of steps (first, last) in which one of the counts is not 0."""
    starts = history.record_starts().tolist()
    stretches: list[tuple[int, int]] = []
    for k in range(len(history)):
        if any(history.sum_of(k, at) > 0 for at in columns):
            if stretches and stretches[-1][1] == starts[k]:
                stretches[-1] = (stretches[-1][0], starts[k + 1])
            else:
                stretches.append((starts[k], starts[k + 1]))
    return [(float(first), float(end - 1)) for first, end in stretches]


def _event_marks(events: Sequence[Event]) -> list[StepMark]:
    """Return one mark for each step and kind."""
    joint: dict[tuple[int, str], list[str]] = {}
    for event in events:
        joint.setdefault((event.step, event.kind), []).append(event.group or "loss")
    return [StepMark(step, _mark_label(step, kind, names)) for (step, kind), names in [*joint.items()][:MAX_EVENT_MARKS]]


def _mark_label(step: int, kind: str, names: Sequence[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{step:,}: {kind} {clip_end(names[0], MAX_GROUP_NAME_WIDTH)}{more}"


def _flight_notes(events: Sequence[Event], shown: int, groups: int) -> list[str]:
    notes = [str(event) for event in events[:MAX_EVENT_MARKS]] or [QUIET_TEXT]
    if len(events) > MAX_EVENT_MARKS:
        notes.append(f"and {count_with_noun(len(events) - MAX_EVENT_MARKS, 'event')} more")
    if shown < groups:
        notes.append(f"{shown} of {groups} groups are drawn")
    return notes
