"""Numeric derivatives with error bounds, and the comparison of a rule with them.

Kept true: a rule is called wrong only by measurements that agree with each other. A measurement is the best entry of a
tableau of central differences (Ridders). Its error is the disagreement of neighbouring entries, and at least what
rounding alone can cause. Where the slopes on the two sides of a point differ it is a kink; where measurements are too
coarse or contradict each other nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
At = Callable[[float], Numbers]

RIGHT, WRONG, KINK, UNDECIDED = range(4)
LEVELS = 10
FIRST_STEPS = (2.0**-3, 2.0**-10, 2.0**-17)
"""The first step sizes, relative to the numbers that move; each scheme halves its step from there.

They are powers of two, so that adding a step to a number does not round.
"""
SMALLEST = 1e-250


class Estimate(NamedTuple):
    """A measured value and its error bound."""

    value: Numbers
    error: Numbers


@dataclass(frozen=True)
class Precision:
    """How close a rule must be to a measurement, depending on the dtype."""

    relative: float
    floor: float
    """Slopes this small relative to the values count as 0."""
    smallest: float
    """Slopes below this magnitude count as 0: products with them underflow."""


FINE = Precision(1e-6, 1e-10, SMALLEST)
COARSE = Precision(2e-3, 1e-5, 1e-32)


def precision(*values: Any) -> Precision:
    """Return the precision that values of these dtypes allow.

    >>> precision(np.float32(1.0), np.float64(1.0)) is COARSE
    True
    """
    return COARSE if any(np.asarray(x).dtype == np.float32 for x in values) else FINE


def wide(x: Any) -> Any:
    """Return a real number or array in float64, and anything else unchanged."""
    array = np.asarray(x)
    return array.astype(np.float64)[()] if array.dtype.kind == "f" else x


def as_reals(x: Any) -> Numbers:
    """Return numbers as a flat array of float64; a complex number gives two."""
    array = np.ravel(np.asarray(x))
    return array.view(np.float64) if array.dtype == np.complex128 else array.astype(np.float64)


def inner(one: Any, two: Any) -> float:
    """Return the real inner product of two arrays."""
    return float(np.sum(np.conjugate(np.asarray(one)) * two).real)


@dataclass(frozen=True)
class Way:
    """A difference scheme: values along a direction, the largest step, and the rounding error of the values."""

    at: At
    first: float
    noise: Numbers
    """The possible rounding error of each value."""


def measure(scheme: Way, enough: float = 1e-9) -> Estimate:
    """Return the derivative at 0 by central differences with steps that halve from the first on.

    The scheme stops early once the relative error is below `enough`.

    >>> found = measure(Way(lambda h: np.sin(np.array([1.0 + h])), 0.1, np.array([2e-16])))
    >>> bool(abs(found.value[0] - np.cos(1.0)) < 1e-9)
    True
    """
    value = np.full(scheme.noise.shape, np.nan)
    error = np.full(scheme.noise.shape, np.inf)
    above: list[Numbers] = []
    for level in range(LEVELS):
        h = scheme.first / 2.0**level
        row = [(scheme.at(h) - scheme.at(-h)) / (2.0 * h)]
        for k, upper in enumerate(above):
            row.append((4.0 ** (k + 1) * row[-1] - upper) / (4.0 ** (k + 1) - 1.0))
            off = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - upper))
            off = np.maximum(off, 2.0 * scheme.noise / h)
            better = off < error
            value = np.where(better, row[-1], value)
            error = np.where(better, off, error)
        above = row
        if level > 1 and np.all(error <= enough * np.abs(value)):
            break
    return Estimate(value, error)


def sides(at: At, h: float) -> tuple[Numbers, Numbers]:
    """Return the one-sided slopes to the right and to the left of 0.

    >>> [x.tolist() for x in sides(lambda h: np.array([abs(h)]), 1e-3)]
    [[1.0], [-1.0]]
    """
    here = at(0.0)
    right, left = (2.0 * (at(step / 2.0) - here) / (step / 2.0) - (at(step) - here) / step for step in (h, -h))
    return right, left


@dataclass(frozen=True)
class Comparison:
    """A rule beside measurements, number by number; `state` is RIGHT, WRONG, KINK or UNDECIDED."""

    rule: Numbers
    numeric: Numbers
    error: Numbers
    state: NDArray[np.int8]

    def worst(self, state: int) -> int | None:
        """Return the index of the largest difference among the numbers in a state; None if there are none."""
        places = np.flatnonzero(self.state == state)
        if not places.size:
            return None
        off = np.abs(self.rule - self.numeric)[places] / (np.abs(self.rule) + np.abs(self.numeric) + SMALLEST)[places]
        return int(places[np.argmax(np.nan_to_num(off, nan=-1.0))])


def compare(
    rule: Numbers,
    schemes: Sequence[Way],
    *,
    floor: Numbers | float,
    relative: float,
    exact: Estimate | None = None,
    trusted: NDArray[np.bool_] | bool = True,
) -> Comparison:
    """Compare a rule with measurements, one scheme after another until all numbers agree.

    `trusted` is False where measurements must not accuse the rule.
    """
    estimates = [] if exact is None else [exact]
    right = np.zeros(rule.shape, np.bool_)
    with np.errstate(all="ignore"):
        for estimate in estimates:
            right |= _agree(rule, estimate, floor, relative)
        for scheme in schemes:
            if right.all():
                break
            estimates.append(measure(scheme, 1e-3 * relative))
            right |= _agree(rule, estimates[-1], floor, relative)
        value, error = _best(estimates)
        state = np.where(right, RIGHT, UNDECIDED).astype(np.int8)
        if not right.all():
            accused = ~right & trusted & _accused(rule, value, error, estimates, floor, relative)
            if accused.any():
                state = np.where(accused, _tried(rule, value, schemes), state).astype(np.int8)
    return Comparison(rule, value, error, state)


def _agree(rule: Numbers, estimate: Estimate, floor: Numbers | float, relative: float) -> NDArray[np.bool_]:
    size = np.maximum(np.abs(rule), np.abs(estimate.value))
    allowed = relative * size + floor + SMALLEST
    near: NDArray[np.bool_] = np.abs(rule - estimate.value) <= np.maximum(allowed, 2.0 * estimate.error)
    return near & (estimate.error <= np.maximum(allowed, 1e-3 * size)) & np.isfinite(rule)


def _best(estimates: Sequence[Estimate]) -> Estimate:
    errors = np.stack([np.where(np.isnan(estimate.error), np.inf, estimate.error) for estimate in estimates])
    choice = np.argmin(errors, axis=0)[None]
    values = np.stack([estimate.value for estimate in estimates])
    return Estimate(np.take_along_axis(values, choice, 0)[0], np.take_along_axis(errors, choice, 0)[0])


def _accused(
    rule: Numbers,
    value: Numbers,
    error: Numbers,
    estimates: Sequence[Estimate],
    floor: Numbers | float,
    relative: float,
) -> NDArray[np.bool_]:
    """Return where several accurate measurements contradict the rule but not each other."""
    off = np.abs(rule - value)
    size = np.maximum(np.abs(rule), np.abs(value))
    clear: NDArray[np.bool_] = (off > 10.0 * error) & (off > 10.0 * (relative * size + floor + SMALLEST))
    witnesses = np.zeros(rule.shape, int)
    contradicted = np.zeros(rule.shape, np.bool_)
    for estimate in estimates:
        exact = estimate.error <= 0.1 * off
        witnesses += exact
        contradicted |= exact & (np.abs(estimate.value - value) > 0.1 * off)
    return clear & (witnesses >= 2) & ~contradicted


def _tried(rule: Numbers, value: Numbers, schemes: Sequence[Way]) -> NDArray[np.int8]:
    """Return WRONG where both one-sided slopes confirm the measurement, KINK where they differ."""
    off = np.abs(rule - value)
    state = np.full(rule.shape, UNDECIDED, np.int8)
    for scheme in schemes:
        h = 1e-2 * scheme.first
        right, left = sides(scheme.at, h)
        exact = 8.0 * scheme.noise / h < 0.1 * off
        borne_out = (np.abs(right - value) <= 0.25 * off) & (np.abs(left - value) <= 0.25 * off)
        apart = np.abs(right - left) > 0.25 * off
        state = np.where(borne_out & exact & _resolved(rule, scheme, h) & (state != KINK), WRONG, state).astype(np.int8)
        state = np.where(apart & exact, KINK, state).astype(np.int8)
    return state


def _resolved(rule: Numbers, scheme: Way, h: float) -> NDArray[np.bool_]:
    """Return where a step is short enough to resolve the slope by the rule, if that were correct.

    A function that oscillates within a step looks flat, however steep it is.
    """
    heights = np.stack([scheme.at(step) for step in (0.0, scheme.first, -scheme.first)])
    still = np.all(heights == heights[0], axis=0)
    return np.asarray(still | (np.abs(rule) * h <= np.max(np.abs(heights), axis=0)), np.bool_)


def narrowed(count: int, gap: Callable[[NDArray[np.intp]], float]) -> int:
    """Return the index, below `count`, to which a discrepancy can be traced by bisection.

    >>> narrowed(10, lambda places: float(7 in places))
    7
    """
    places = np.arange(count)
    while len(places) > 1:
        halves = places[: len(places) // 2], places[len(places) // 2 :]
        places = max(halves, key=lambda half: np.nan_to_num(gap(half), nan=-1.0))
    return int(places[0])
