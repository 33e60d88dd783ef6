"""What can go wrong in a training step, when that is certain, and how a flight is shown.

Kept true: an event has the step at which it began and the numbers of that step, each event is reported once, and the
state does not grow with the number of steps. A flight is shown as sparklines in a terminal and as curves with event
marks on a page.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wiregrad.draw.layout.labels import clip_end, count_columns, format_nonfinite
from wiregrad.draw.plots import CurvePanel, PlotCurve, StepMark, draw_curves
from wiregrad.dtypes import as_float, count_with_noun, format_brief_number
from wiregrad.errors import InputError, WiregradError, short_repr, suggest_name
from wiregrad.inspect.flight_recorder.measurements import GROUP_METRICS, GroupMeasurement, StepHistory
from wiregrad.inspect.gradient_sizes import Tally, format_times

WRONG_KINDS = ("nonfinite", "vanished", "exploded", "stuck", "dead")
"""The kinds of events that are watched for by default."""
KINDS = (*WRONG_KINDS, "converged")
"""All kinds of events."""
MIN_EARLY_STEPS = 3
"""Minimum number of steps for an early median."""
IMPROVED_SHARE = 0.01
"""A loss has come down if it fell by more than this share of the first loss."""
KEPT_SHARE = 0.9
"""It has stayed down if at least this share of the largest fall remains."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its kind, the step at which it began (`step`) and the step that confirmed it (`found`).

    `what` is loss, gradient, parameter or update; `number` is its value at `step`, and `reference` the number it was
    compared with, NaN if there is none.
    """

    kind: str
    what: str
    group: str
    step: int
    found: int
    number: float
    reference: float
    sentence: str

    def __str__(self) -> str:
        return f"step {self.step:,}: {self.sentence}"


class FlightError(WiregradError, ArithmeticError):
    """Raised at an event if `on_event` is "raise"; `event` has the details."""

    def __init__(self, event: Event) -> None:
        self.event = event
        super().__init__(str(event))

    def __reduce__(self) -> tuple[type[FlightError], tuple[Event]]:
        return type(self), (self.event,)


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds at which something counts as wrong.

    A gradient of at most `vanish` times its early median (that of the first `early` steps) has vanished, one of at
    least `explode` times has exploded. A group with a share of exact zeros above `dead` is dead, and one whose
    parameters do not move is stuck. What could be chance must hold for `patience` steps.

    A gradient that fades while the loss comes down and stays down has converged, and so have parameters that moved and
    then stand still. That is not wrong, and is an event only if it is watched for. A gradient that becomes exactly 0 at
    once has converged only if the loss is at most `vanish` times the first loss.

    `watch` holds the kinds to look for, one or several; by default all that are wrong. For explosions only, pass
    `watch="exploded"`; to stop at convergence, `watch="converged"` with `on_event="raise"`.

    >>> Limits(watch="exploded").watch
    ('exploded',)
    """

    vanish: float = 1e-3
    explode: float = 1e3
    dead: float = 0.9
    patience: int = 5
    early: int = 20
    watch: tuple[str, ...] = WRONG_KINDS

    def __post_init__(self) -> None:
        for name, least in (("patience", 1), ("early", MIN_EARLY_STEPS)):
            check_count(name, getattr(self, name), least)
        object.__setattr__(self, "watch", _check_kinds(self.watch))
        for name, low, high in (("vanish", 0.0, 1.0), ("explode", 1.0, math.inf), ("dead", 0.0, 1.0)):
            number = as_float(getattr(self, name))
            if number is None or not low <= number <= high:
                raise InputError(
                    f"{name} must be a number from {low:g} to {high:g}; got {short_repr(getattr(self, name))}"
                )


def _check_kinds(watch: object) -> tuple[str, ...]:
    """Check the kinds to watch for, one or several, and return them as a tuple."""
    if isinstance(watch, str):
        return (check_kind(watch),)
    if not isinstance(watch, Iterable):
        raise InputError(f"watch must be some of {', '.join(KINDS)}; got {short_repr(watch)}")
    return tuple(check_kind(kind) for kind in watch)


def check_count(name: str, number: object, least: int) -> int:
    """Return an integer if it is at least `least`, or raise."""
    if type(number) is not int or number < least:
        raise InputError(f"{name} must be an integer of at least {least}; got {short_repr(number)}")
    return number


def check_kind(kind: object) -> str:
    """Return a kind of event if it is known, or raise.

    >>> check_kind("dead")
    'dead'
    """
    if not isinstance(kind, str) or kind not in KINDS:
        hint = suggest_name(str(kind), KINDS)
        raise InputError(f"the kind of an event must be one of {', '.join(KINDS)}; got {short_repr(kind)}{hint}")
    return str(kind)


@dataclass(frozen=True, slots=True)
class WarningSign:
    """A warning sign in one step and its sentence; `sure` if one step is enough for an event."""

    kind: str
    what: str
    group: str
    number: float
    sentence: str
    reference: float = math.nan
    sure: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that is equal for signs of the same event."""
        return self.kind, self.what, self.group


@dataclass(slots=True)
class LossCourse:
    """The first, the lowest and the last loss."""

    first: float = math.nan
    lowest: float = math.inf
    last: float = math.nan

    def add_loss(self, loss: float) -> None:
        """Add the loss of a step."""
        self.last = loss
        if math.isfinite(loss):
            self.first = loss if math.isnan(self.first) else self.first
            self.lowest = min(self.lowest, loss)

    @property
    def has_settled(self) -> bool:
        """Whether the loss came down and has not risen since."""
        return self.first - self.lowest > IMPROVED_SHARE * abs(self.first) and self._stays_low()

    def _stays_low(self) -> bool:
        # A small rise is allowed: the loss of a mini-batch always fluctuates.
        return math.isfinite(self.last) and self.first - self.last >= KEPT_SHARE * (self.first - self.lowest)

    def is_low(self, share: float) -> bool:
        """Return whether the last loss is at most this share of the first."""
        return abs(self.last) <= share * abs(self.first)

    def __str__(self) -> str:
        """Describe the last loss, and the first one if the loss came down."""
        verb = f"came down from {format_brief_number(self.first)} to" if self.has_settled else "is"
        return f"the loss {verb} {format_brief_number(self.last)}"


@dataclass(slots=True)
class StepJudge:
    """Judges each step and reports events."""

    limits: Limits
    _since: dict[tuple[str, str, str], tuple[int, WarningSign]] = field(default_factory=dict)
    _reported: set[tuple[str, str, str]] = field(default_factory=set)
    _first_sizes: dict[str, list[float]] = field(default_factory=dict)
    _early_medians: dict[str, float] = field(default_factory=dict)
    _course: LossCourse = field(default_factory=LossCourse)
    _peak: dict[str, float] = field(default_factory=dict)
    _faded: set[str] = field(default_factory=set)
    _moved: set[str] = field(default_factory=set)

    @property
    def is_suspicious(self) -> bool:
        """Whether a warning sign may become an event."""
        return bool(self._since)

    def judge_step(self, step: int, loss: float, seen: dict[str, GroupMeasurement]) -> list[Event]:
        """Return the events that a step confirms."""
        self._course.add_loss(loss)
        signs = [*self._loss_signs(loss)]
        for name, measured in seen.items():
            signs += self._group_signs(name, measured)
        signs = [sign for sign in signs if sign.kind in self.limits.watch]
        # A sign that is missing in this step starts over.
        self._since = {sign.key: self._since.get(sign.key, (step, sign)) for sign in signs}
        return [event for sign in signs for event in self._confirm_event(step, sign)]

    def _confirm_event(self, step: int, sign: WarningSign) -> Iterator[Event]:
        first, then = self._since[sign.key]
        if sign.key not in self._reported and (sign.sure or step - first + 1 >= self.limits.patience):
            self._reported.add(sign.key)
            yield Event(*sign.key, first, step, float(then.number), float(then.reference), then.sentence)

    def _loss_signs(self, loss: float) -> Iterator[WarningSign]:
        if not math.isfinite(loss):
            name = "Inf" if loss > 0 else "-Inf"
            if math.isnan(loss):
                name = "NaN"
            yield WarningSign("nonfinite", "loss", "", loss, f"the loss is {name}", sure=True)
        else:
            yield from self._explosion_signs("loss", "", abs(loss), self._early_median("", abs(loss)), "the loss")

    def _group_signs(self, name: str, seen: GroupMeasurement) -> Iterator[WarningSign]:
        if seen.broken:
            words = f"{count_with_noun(seen.broken, 'parameter')} of {name} not finite"
            yield WarningSign("nonfinite", "parameter", name, seen.broken, words, sure=True)
        g = seen.gradient
        done = self._has_converged(name, g)
        if seen.update > 0:
            self._moved.add(name)
        if seen.update == 0:
            # Parameters that never moved are frozen, whatever the loss does.
            kind = "converged" if done and name in self._moved else "stuck"
            words = f"no parameter of {name} moves"
            yield WarningSign(
                kind, "update", name, seen.update, f"{words}; {self._course}" if kind == "converged" else words
            )
        if g is not None and g.nonfinite:
            whose = f"the gradient of {name}"
            alone = f"{whose} is {'NaN' if g.nans else 'Inf'}"
            words = (
                f"{format_nonfinite(g.nans, g.infs)} among the {g.size:,} numbers of {whose}" if g.size > 1 else alone
            )
            yield WarningSign("nonfinite", "gradient", name, g.nonfinite, words, sure=True)
        if g is not None and g.finite:
            yield from self._size_signs(name, g, seen.absent, done)

    def _has_converged(self, name: str, g: Tally | None) -> bool:
        """Return whether the loss came down and stays down while the gradient of a group, if known, faded."""
        if g is None:
            return self._course.has_settled
        if g.nonfinite or not g.size:
            return False
        before = name in self._faded
        self._peak[name] = max(self._peak.get(name, 0.0), g.rms)
        small = g.rms <= self.limits.vanish * self._peak[name]
        # A gradient that is cut off becomes 0 at once; one that fades was small before.
        faded = small and (g.high > 0 or before or self._course.is_low(self.limits.vanish))
        (self._faded.add if faded else self._faded.discard)(name)
        return faded and self._course.has_settled

    def _size_signs(self, name: str, g: Tally, absent: int, done: bool) -> Iterator[WarningSign]:
        usual = self._early_median(f"/{name}", g.rms)
        whose = f"the gradient of {name}"
        yield from self._explosion_signs("gradient", name, g.rms, usual, whose)
        nothing = g.high == 0.0 and not g.nonfinite
        if nothing or g.rms <= self.limits.vanish * usual:
            kind, verb = ("converged", "fades") if done else ("vanished", "vanishes")
            drop = f"{format_times(usual, g.rms)} less than its early median {format_brief_number(usual)}"
            words = f"{verb}: rms {format_brief_number(g.rms)}, {drop}"
            if nothing:
                words = "is exactly 0 everywhere"
            subject = f"no gradient comes to {name}" if nothing and absent == g.size else f"{whose} {words}"
            sentence = f"{subject}; {self._course}"
            yield WarningSign(kind, "gradient", name, g.rms, sentence, usual or math.nan, sure=nothing and not done)
        # An all-zero gradient is reported as vanished if that is watched for; converged numbers may well be 0.
        if g.zero_share > self.limits.dead and not done and not (nothing and "vanished" in self.limits.watch):
            yield WarningSign("dead", "gradient", name, g.zero_share, f"{g.zero_share:.0%} of {whose} is exactly 0")

    def _explosion_signs(self, what: str, group: str, size: float, usual: float, whose: str) -> Iterator[WarningSign]:
        if usual > 0 and size >= self.limits.explode * usual:
            more = f"{format_times(size, usual)} its early median {format_brief_number(usual)}"
            yield WarningSign(
                "exploded",
                what,
                group,
                size,
                f"{whose} explodes: {format_brief_number(size)}, {more}",
                usual,
                sure=True,
            )

    def _early_median(self, key: str, size: float) -> float:
        """Return the median of the first steps before this one (0 while there are too few), then add this one."""
        usual = self._early_medians.get(key, 0.0)
        first = self._first_sizes.setdefault(key, [])
        # An outlier must not shift the median.
        fair = not usual or self.limits.vanish * usual < size < self.limits.explode * usual
        if fair and len(first) < self.limits.early and 0.0 < size < math.inf:
            first.append(size)
            if len(first) >= MIN_EARLY_STEPS:
                self._early_medians[key] = statistics.median(first)
        return usual


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
    rows += [
        (
            f"gradient of {clip_end(groups[k], MAX_GROUP_NAME_WIDTH)}",
            metric_column(k, "gradient"),
            metric_column(k, "nonfinite"),
        )
        for k in chosen
    ]
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
    return (
        "never a number"
        if math.isnan(first)
        else f"{format_brief_number(first):>9} to {format_brief_number(last):<9} {draw_sparkline(bars)}"
    )


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
    return [
        StepMark(step, _mark_label(step, kind, names)) for (step, kind), names in [*joint.items()][:MAX_EVENT_MARKS]
    ]


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
