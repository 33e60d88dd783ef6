"""What can go wrong in a training step, and when it is sure.

Kept true: an event has the step at which it began and the numbers of that step, each thing is told once, and what is
remembered does not grow with the number of steps.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from wiregrad.dtypes import as_float, counted
from wiregrad.errors import InputError, WiregradError, shown, suggest
from wiregrad.export.canvas import brief
from wiregrad.export.reading import nonfinite_text
from wiregrad.inspect.flight.gauge import Seen
from wiregrad.inspect.summary import Tally
from wiregrad.inspect.trend import times

WRONG = ("nonfinite", "vanished", "exploded", "stuck", "dead")
"""What can go wrong."""
KINDS = (*WRONG, "converged")
"""What can be watched for."""
FEWEST = 3
"""How many steps make an early median."""
IMPROVED, KEPT = 0.01, 0.9
"""What share of the first loss a loss that came down has lost, and what share of that it has kept off."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that went wrong or was asked for: its kind, the step at which it began and that at which it was sure.

    `what` is the loss, the gradient, the parameter or the update; `number` is what it was at `step`, and `reference`
    what it was compared with, NaN if with nothing.
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
    """A training step went wrong and the recorder was told to stop there; `event` says how."""

    def __init__(self, event: Event) -> None:
        self.event = event
        super().__init__(str(event))

    def __reduce__(self) -> tuple[type[FlightError], tuple[Event]]:
        return type(self), (self.event,)


@dataclass(frozen=True, slots=True)
class Limits:
    """When something counts as gone wrong.

    A gradient that is `vanish` times its early median (that of the first `early` steps) or less has vanished, `explode`
    times and more has exploded; a group with more than a share of `dead` exact zeros is dead, and one whose parameters
    do not move is stuck. What could be chance must hold for `patience` steps.

    A gradient that fades while the loss comes down and stays there has converged, and so have parameters that moved and
    stand still then. That is not wrong, and is an event only if it is asked for. A gradient that is exactly 0 all at
    once has converged only if the loss is `vanish` times the first one or less.

    `watch` is the kinds to look for, one or several; by default all that are wrong. For explosions only, say
    `watch="exploded"`; to stop when nothing is left to learn, `watch="converged"` with `on_event="raise"`.

    >>> Limits(watch="exploded").watch
    ('exploded',)
    """

    vanish: float = 1e-3
    explode: float = 1e3
    dead: float = 0.9
    patience: int = 5
    early: int = 20
    watch: tuple[str, ...] = WRONG

    def __post_init__(self) -> None:
        for name, least in (("patience", 1), ("early", FEWEST)):
            check_count(name, getattr(self, name), least)
        object.__setattr__(self, "watch", _kinds(self.watch))
        for name, low, high in (("vanish", 0.0, 1.0), ("explode", 1.0, math.inf), ("dead", 0.0, 1.0)):
            number = as_float(getattr(self, name))
            if number is None or not low <= number <= high:
                raise InputError(f"{name} must be a number from {low:g} to {high:g}; got {shown(getattr(self, name))}")


def _kinds(watch: Any) -> tuple[str, ...]:
    """Return the kinds to watch for, given as one or as several."""
    if isinstance(watch, str):
        return (check_kind(watch),)
    if not isinstance(watch, Iterable):
        raise InputError(f"watch is some of {', '.join(KINDS)}; got {shown(watch)}")
    return tuple(check_kind(kind) for kind in watch)


def check_count(name: str, number: Any, least: int) -> int:
    """Return a whole number that is at least so large, or raise."""
    if type(number) is not int or number < least:
        raise InputError(f"{name} must be a whole number from {least}; got {shown(number)}")
    return number


def check_kind(kind: Any) -> str:
    """Return the kind of an event, or raise.

    >>> check_kind("dead")
    'dead'
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"events are {', '.join(KINDS)}; got {shown(kind)}{suggest(str(kind), KINDS)}")
    return str(kind)


@dataclass(frozen=True, slots=True)
class Sign:
    """A thing that is going wrong in a step, and what to say of it; `sure` if one step is enough."""

    kind: str
    what: str
    group: str
    number: float
    sentence: str
    reference: float = math.nan
    sure: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two signs signs of one thing."""
        return self.kind, self.what, self.group


@dataclass(slots=True)
class Course:
    """Where the loss began, how low it came and where it is."""

    first: float = math.nan
    lowest: float = math.inf
    last: float = math.nan

    def add(self, loss: float) -> None:
        """Take in the loss of a step."""
        self.last = loss
        if math.isfinite(loss):
            self.first = loss if math.isnan(self.first) else self.first
            self.lowest = min(self.lowest, loss)

    @property
    def settled(self) -> bool:
        """Whether the loss came down and has not risen since."""
        return self.first - self.lowest > IMPROVED * abs(self.first) and self._stays()

    def _stays(self) -> bool:
        # A share rather than no rise at all: the loss of a part of the data always moves a little.
        return math.isfinite(self.last) and self.first - self.last >= KEPT * (self.first - self.lowest)

    def low(self, share: float) -> bool:
        """Return whether next to nothing is left of the first loss."""
        return abs(self.last) <= share * abs(self.first)

    def __str__(self) -> str:
        """Say where the loss is, and how it came there if it came down."""
        verb = f"came down from {brief(self.first)} to" if self.settled else "is"
        return f"the loss {verb} {brief(self.last)}"


@dataclass(slots=True)
class Judge:
    """Looks at each step and says what went wrong."""

    limits: Limits
    _since: dict[tuple[str, str, str], tuple[int, Sign]] = field(default_factory=dict)
    _told: set[tuple[str, str, str]] = field(default_factory=set)
    _early: dict[str, list[float]] = field(default_factory=dict)
    _usual: dict[str, float] = field(default_factory=dict)
    _course: Course = field(default_factory=Course)
    _peak: dict[str, float] = field(default_factory=dict)
    _faded: set[str] = field(default_factory=set)
    _moved: set[str] = field(default_factory=set)

    @property
    def suspicious(self) -> bool:
        """Whether something may be about to become an event."""
        return bool(self._since)

    def events(self, step: int, loss: float, seen: dict[str, Seen]) -> list[Event]:
        """Return the events that a step made sure of."""
        self._course.add(loss)
        signs = [*self._loss_signs(loss)]
        for name, measured in seen.items():
            signs += self._signs(name, measured)
        signs = [sign for sign in signs if sign.kind in self.limits.watch]
        # What does not hold in this step begins anew.
        self._since = {sign.key: self._since.get(sign.key, (step, sign)) for sign in signs}
        return [event for sign in signs for event in self._weigh(step, sign)]

    def _weigh(self, step: int, sign: Sign) -> Iterator[Event]:
        first, then = self._since[sign.key]
        if sign.key not in self._told and (sign.sure or step - first + 1 >= self.limits.patience):
            self._told.add(sign.key)
            yield Event(*sign.key, first, step, float(then.number), float(then.reference), then.sentence)

    def _loss_signs(self, loss: float) -> Iterator[Sign]:
        if not math.isfinite(loss):
            name = "NaN" if math.isnan(loss) else "Inf" if loss > 0 else "-Inf"
            yield Sign("nonfinite", "loss", "", loss, f"the loss is {name}", sure=True)
        else:
            yield from self._explosion("loss", "", abs(loss), self._early_median("", abs(loss)), "the loss")

    def _signs(self, name: str, seen: Seen) -> Iterator[Sign]:
        if seen.broken:
            words = f"{counted(seen.broken, 'parameter')} of {name} not finite"
            yield Sign("nonfinite", "parameter", name, seen.broken, words, sure=True)
        g = seen.gradient
        done = self._converged(name, g)
        if seen.update > 0:
            self._moved.add(name)
        if seen.update == 0:
            # What never moved is frozen, whatever the loss does.
            kind = "converged" if done and name in self._moved else "stuck"
            words = f"no parameter of {name} moves"
            yield Sign(kind, "update", name, seen.update, f"{words}; {self._course}" if kind == "converged" else words)
        if g is not None and g.nonfinite:
            whose = f"the gradient of {name}"
            alone = f"{whose} is {'NaN' if g.nans else 'Inf'}"
            words = f"{nonfinite_text(g.nans, g.infs)} among the {g.size:,} numbers of {whose}" if g.size > 1 else alone
            yield Sign("nonfinite", "gradient", name, g.nonfinite, words, sure=True)
        if g is not None and g.finite:
            yield from self._size_signs(name, g, seen.absent, done)

    def _converged(self, name: str, g: Tally | None) -> bool:
        """Return whether the loss came down and stays there while the gradient of a group, if known, faded."""
        if g is None:
            return self._course.settled
        if g.nonfinite or not g.size:
            return False
        before = name in self._faded
        self._peak[name] = max(self._peak.get(name, 0.0), g.rms)
        small = g.rms <= self.limits.vanish * self._peak[name]
        # A gradient that is cut off is 0 all at once; one that fades was small before.
        faded = small and (g.high > 0 or before or self._course.low(self.limits.vanish))
        (self._faded.add if faded else self._faded.discard)(name)
        return faded and self._course.settled

    def _size_signs(self, name: str, g: Tally, absent: int, done: bool) -> Iterator[Sign]:
        usual = self._early_median(f"/{name}", g.rms)
        whose = f"the gradient of {name}"
        yield from self._explosion("gradient", name, g.rms, usual, whose)
        nothing = g.high == 0.0 and not g.nonfinite
        if nothing or g.rms <= self.limits.vanish * usual:
            kind, verb = ("converged", "fades") if done else ("vanished", "vanishes")
            words = f"{verb}: rms {brief(g.rms)}, {times(usual, g.rms)} less than its early median {brief(usual)}"
            if nothing:
                words = f"is {'absent: none arrives' if absent == g.size else 'exactly 0 everywhere'}"
            sentence = f"{whose} {words}; {self._course}"
            yield Sign(kind, "gradient", name, g.rms, sentence, usual or math.nan, sure=nothing and not done)
        # That all of it is 0 has been told, unless nobody wants to hear that; numbers that converged may well be 0.
        if g.zero_share > self.limits.dead and not done and not (nothing and "vanished" in self.limits.watch):
            yield Sign("dead", "gradient", name, g.zero_share, f"{g.zero_share:.0%} of {whose} is exactly 0")

    def _explosion(self, what: str, group: str, size: float, usual: float, whose: str) -> Iterator[Sign]:
        if usual > 0 and size >= self.limits.explode * usual:
            more = f"{times(size, usual)} its early median {brief(usual)}"
            yield Sign("exploded", what, group, size, f"{whose} explodes: {brief(size)}, {more}", usual, sure=True)

    def _early_median(self, key: str, size: float) -> float:
        """Return the median of the first steps before this one, 0 while there are too few, and take this one in."""
        usual = self._usual.get(key, 0.0)
        first = self._early.setdefault(key, [])
        # A step that is itself far off says nothing about what is usual.
        fair = not usual or self.limits.vanish * usual < size < self.limits.explode * usual
        if fair and len(first) < self.limits.early and 0.0 < size < math.inf:
            first.append(size)
            if len(first) >= FEWEST:
                self._usual[key] = statistics.median(first)
        return usual
