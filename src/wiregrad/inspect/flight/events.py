"""What can go wrong in a training step, and when that is certain.

Kept true: an event has the step at which it began and the numbers of that step, each event is reported once, and the
state does not grow with the number of steps.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wiregrad.dtypes import as_float, count_with_noun
from wiregrad.errors import InputError, WiregradError, short_repr, suggest_name
from wiregrad.export.canvas import format_brief
from wiregrad.export.reading import format_nonfinite
from wiregrad.inspect.flight.gauge import GroupMeasurement
from wiregrad.inspect.summary import Tally
from wiregrad.inspect.trend import format_times

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
    """Raised at an event if the recorder was told to stop there; `event` has the details."""

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
                raise InputError(f"{name} must be a number from {low:g} to {high:g}; got {short_repr(getattr(self, name))}")


def _check_kinds(watch: Any) -> tuple[str, ...]:
    """Check the kinds to watch for, one or several, and return them as a tuple."""
    if isinstance(watch, str):
        return (check_kind(watch),)
    if not isinstance(watch, Iterable):
        raise InputError(f"watch must be some of {', '.join(KINDS)}; got {short_repr(watch)}")
    return tuple(check_kind(kind) for kind in watch)


def check_count(name: str, number: Any, least: int) -> int:
    """Return an integer if it is at least `least`, or raise."""
    if type(number) is not int or number < least:
        raise InputError(f"{name} must be an integer of at least {least}; got {short_repr(number)}")
    return number


def check_kind(kind: Any) -> str:
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
        verb = f"came down from {format_brief(self.first)} to" if self.has_settled else "is"
        return f"the loss {verb} {format_brief(self.last)}"


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
            yield WarningSign(kind, "update", name, seen.update, f"{words}; {self._course}" if kind == "converged" else words)
        if g is not None and g.nonfinite:
            whose = f"the gradient of {name}"
            alone = f"{whose} is {'NaN' if g.nans else 'Inf'}"
            words = f"{format_nonfinite(g.nans, g.infs)} among the {g.size:,} numbers of {whose}" if g.size > 1 else alone
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
            words = f"{verb}: rms {format_brief(g.rms)}, {format_times(usual, g.rms)} less than its early median {format_brief(usual)}"
            if nothing:
                words = f"is {'absent: none arrives' if absent == g.size else 'exactly 0 everywhere'}"
            sentence = f"{whose} {words}; {self._course}"
            yield WarningSign(kind, "gradient", name, g.rms, sentence, usual or math.nan, sure=nothing and not done)
        # An all-zero gradient is reported as vanished if that is watched for; converged numbers may well be 0.
        if g.zero_share > self.limits.dead and not done and not (nothing and "vanished" in self.limits.watch):
            yield WarningSign("dead", "gradient", name, g.zero_share, f"{g.zero_share:.0%} of {whose} is exactly 0")

    def _explosion_signs(self, what: str, group: str, size: float, usual: float, whose: str) -> Iterator[WarningSign]:
        if usual > 0 and size >= self.limits.explode * usual:
            more = f"{format_times(size, usual)} its early median {format_brief(usual)}"
            yield WarningSign("exploded", what, group, size, f"{whose} explodes: {format_brief(size)}, {more}", usual, sure=True)

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
