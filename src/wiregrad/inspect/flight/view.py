"""How a flight is shown: sparklines in a terminal, curves with event marks on a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from wiregrad.dtypes import counted
from wiregrad.export.canvas import brief
from wiregrad.export.letters import cells, clip
from wiregrad.export.plots import Curve, Mark, Panel, curves
from wiregrad.inspect.flight.events import Event
from wiregrad.inspect.flight.gauge import METRICS
from wiregrad.inspect.flight.history import History

LOSS = 0
"""The column of a history that holds the loss."""
LOST = 1
"""The column that counts losses that are not finite."""
FIRST = 2
"""The first column of the groups."""
MOST_POINTS = 300
"""Maximum number of points of a drawn curve."""
MOST_SHOWN = 12
"""Maximum number of groups shown."""
MOST_MARKS = 8
"""Maximum number of event marks in a chart."""
NAME = 24
"""Maximum width of a group's name, in columns."""
SPARKS = "▁▂▃▄▅▆▇█"
QUIET = "nothing vanished, exploded, stood still, died or was not finite"


def column(group: int, metric: str) -> int:
    """Return the column of a group's metric."""
    return FIRST + group * len(METRICS) + METRICS.index(metric)


def lines(history: History, groups: Sequence[str], events: Sequence[Event]) -> Iterator[str]:
    """Return sparklines of loss and gradients, and every event."""
    every = f", {history.stride:,} steps each" if history.stride > 1 else ""
    yield f"flight of {counted(history.total, 'step')} in {counted(len(history), 'record')}{every}"
    chosen = worth_showing(groups, events)
    rows = [("loss", LOSS, LOST)]
    rows += [(f"gradient of {clip(groups[k], NAME)}", column(k, "gradient"), column(k, "nonfinite")) for k in chosen]
    width = max(cells(name) for name, _, _ in rows)
    for name, at, bad in rows:
        yield f"  {name}{' ' * (width - cells(name))}  {_course(history, at, bad)}"
    if len(chosen) < len(groups):
        yield f"  and {counted(len(groups) - len(chosen), 'group')} more"
    yield from map(str, events or (QUIET,))


def worth_showing(groups: Sequence[str], events: Sequence[Event]) -> list[int]:
    """Return the groups to show: those with events, then as many as fit, in their own order."""
    marked = {event.group for event in events}
    return sorted(sorted(range(len(groups)), key=lambda k: groups[k] not in marked)[:MOST_SHOWN])


def _course(history: History, at: int, bad: int, most: int = 40) -> str:
    """Format the course of a number: first, last, and a sparkline with a mark wherever it was not finite."""
    first, last = history.ends(at)
    means, counts = (history.curve(k, most)[2].tolist() for k in (at, bad))
    bars = [math.nan if spoilt_steps > 0 else mean for mean, spoilt_steps in zip(means, counts, strict=True)]
    return "never a number" if math.isnan(first) else f"{brief(first):>9} to {brief(last):<9} {spark(bars)}"


def spark(numbers: Sequence[float]) -> str:
    """Draw numbers as bars of one character, on a log scale if all are positive; non-finite numbers as `!`.

    >>> spark([1.0, 10.0, 100.0, float("nan")])
    '▁▅█!'
    """
    log = all(x > 0 for x in numbers if math.isfinite(x))
    heights = [math.log(x) if log and math.isfinite(x) else x for x in numbers]
    finite = [x for x in heights if math.isfinite(x)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    return "".join(SPARKS[round(7 * _share(x, low, high))] if math.isfinite(x) else "!" for x in heights)


def _share(x: float, low: float, high: float) -> float:
    """Return the position of a number between low and high, from 0 to 1."""
    if low == high:
        return 0.0
    if math.isinf(high - low):
        # Halved, because the difference of two huge numbers overflows.
        x = x / 2
        low = low / 2
        high = high / 2
    return (x - low) / (high - low)


def svg(history: History, groups: Sequence[str], events: Sequence[Event], theme: str) -> str:
    """Draw loss and gradients over the steps, with a mark for each event."""
    chosen = worth_showing(groups, events)
    panels = [Panel("loss", [_curve(history, "loss", LOSS)], spoilt(history, [LOST]))]
    if chosen:
        gradient_curves = [_curve(history, groups[k], column(k, "gradient")) for k in chosen]
        bad = spoilt(history, [column(k, "nonfinite") for k in range(len(groups))])
        panels.append(Panel("gradient, rms per number", gradient_curves, bad))
    return curves(
        panels,
        _marks(events),
        steps=(0.0, float(max(1, history.total - 1))),
        title=f"Training flight, {counted(history.total, 'step')}",
        description="\n".join(lines(history, groups, events)),
        notes=_notes(events, len(chosen), len(groups)),
        theme=theme,
    )


def _curve(history: History, name: str, at: int) -> Curve:
    steps, low, mean, high = history.curve(at, MOST_POINTS)
    return Curve(name, steps.tolist(), low.tolist(), mean.tolist(), high.tolist())


def spoilt(history: History, columns: Sequence[int]) -> list[tuple[float, float]]:
    """Return the stretches of steps (first, last) in which one of the counts is not 0."""
    starts = history.starts().tolist()
    stretches: list[tuple[int, int]] = []
    for k in range(len(history)):
        if any(history.sum(k, at) > 0 for at in columns):
            if stretches and stretches[-1][1] == starts[k]:
                stretches[-1] = (stretches[-1][0], starts[k + 1])
            else:
                stretches.append((starts[k], starts[k + 1]))
    return [(float(first), float(end - 1)) for first, end in stretches]


def _marks(events: Sequence[Event]) -> list[Mark]:
    """Return one mark for each step and kind."""
    joint: dict[tuple[int, str], list[str]] = {}
    for event in events:
        joint.setdefault((event.step, event.kind), []).append(event.group or "loss")
    return [Mark(step, _label(step, kind, names)) for (step, kind), names in [*joint.items()][:MOST_MARKS]]


def _label(step: int, kind: str, names: Sequence[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{step:,}: {kind} {clip(names[0], NAME)}{more}"


def _notes(events: Sequence[Event], shown: int, groups: int) -> list[str]:
    notes = [str(event) for event in events[:MOST_MARKS]] or [QUIET]
    if len(events) > MOST_MARKS:
        notes.append(f"and {counted(len(events) - MOST_MARKS, 'event')} more")
    if shown < groups:
        notes.append(f"{shown} of {groups} groups are drawn")
    return notes
