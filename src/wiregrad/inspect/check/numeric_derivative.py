"""Numeric derivatives with error bounds, and the comparison of a rule with them.

Kept true: a rule is called wrong only by measurements that agree with each other. A measurement is the best entry of a
tableau of central differences (Ridders). Its error is the disagreement of neighbouring entries, and at least what
rounding alone can cause. Where the slopes on the two sides of a point differ it is a kink; where measurements are too
coarse or contradict each other nothing is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.inspect.run_index import GradientFlow
from wiregrad.ir import Op
from wiregrad.ops.gradient_flow import fill_absent, match_dtype

NumberArray = NDArray[Any]
ValuesAt = Callable[[float], NumberArray]

RIGHT, WRONG, KINK, UNDECIDED = range(4)
DIFFERENCE_LEVELS = 10
FIRST_STEPS = (2.0**-3, 2.0**-10, 2.0**-17)
"""The first step sizes, relative to the numbers that move; each scheme halves its step from there.

They are powers of two, so that adding a step to a number does not round.
"""
SMALLEST_SLOPE = 1e-250


class NumericEstimate(NamedTuple):
    """A measured value and its error bound."""

    value: NumberArray
    error: NumberArray


@dataclass(frozen=True)
class RulePrecision:
    """How close a rule must be to a measurement, depending on the dtype."""

    relative: float
    floor: float
    """Slopes this small relative to the values count as 0."""
    smallest: float
    """Slopes below this magnitude count as 0: products with them underflow."""


FINE_PRECISION = RulePrecision(1e-6, 1e-10, SMALLEST_SLOPE)
COARSE_PRECISION = RulePrecision(2e-3, 1e-5, 1e-32)


def precision_for(*values: ArrayLike) -> RulePrecision:
    """Return the precision that values of these dtypes allow.

    >>> precision_for(np.float32(1.0), np.float64(1.0)) is COARSE_PRECISION
    True
    """
    coarse = any(np.asarray(x).dtype in (np.float32, np.complex64) for x in values)
    return COARSE_PRECISION if coarse else FINE_PRECISION


def to_float64(x: ArrayLike) -> Any:
    """Return a real number or array in float64, and anything else unchanged."""
    array = np.asarray(x)
    return array.astype(np.float64)[()] if array.dtype.kind == "f" else x


def as_reals(x: ArrayLike) -> NumberArray:
    """Return numbers as a flat array of float64; a complex number gives two."""
    array = np.ravel(np.asarray(x))
    return array.astype(np.complex128).view(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)


def inner_product(one: ArrayLike, two: ArrayLike) -> float:
    """Return the real inner product of two arrays."""
    return float(np.sum(np.conjugate(np.asarray(one)) * two).real)


@dataclass(frozen=True)
class DifferenceScheme:
    """A difference scheme: values along a direction, the largest step, and the rounding error of the values."""

    at: ValuesAt
    first: float
    noise: NumberArray
    """The possible rounding error of each value."""


def measure_derivative(scheme: DifferenceScheme, enough: float = 1e-9) -> NumericEstimate:
    """Return the derivative at 0 by central differences with steps that halve from the first on.

    The scheme stops early once the relative error is below `enough`.

    >>> found = measure_derivative(DifferenceScheme(lambda h: np.sin(np.array([1.0 + h])), 0.1, np.array([2e-16])))
    >>> bool(abs(found.value[0] - np.cos(1.0)) < 1e-9)
    True
    """
    value = np.full(scheme.noise.shape, np.nan)
    error = np.full(scheme.noise.shape, np.inf)
    above: list[NumberArray] = []
    for level in range(DIFFERENCE_LEVELS):
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
    return NumericEstimate(value, error)


def one_sided_slopes(at: ValuesAt, h: float) -> tuple[NumberArray, NumberArray]:
    """Return the one-sided slopes to the right and to the left of 0.

    >>> [x.tolist() for x in one_sided_slopes(lambda h: np.array([abs(h)]), 1e-3)]
    [[1.0], [-1.0]]
    """
    here = at(0.0)
    right, left = (2.0 * (at(step / 2.0) - here) / (step / 2.0) - (at(step) - here) / step for step in (h, -h))
    return right, left


@dataclass(frozen=True)
class RuleComparison:
    """A rule beside measurements, number by number; `state` is RIGHT, WRONG, KINK or UNDECIDED."""

    rule: NumberArray
    numeric: NumberArray
    error: NumberArray
    state: NDArray[np.int8]

    def worst_index(self, state: int) -> int | None:
        """Return the index of the largest difference among the numbers in a state; None if there are none."""
        places = np.flatnonzero(self.state == state)
        if not places.size:
            return None
        off = (
            np.abs(self.rule - self.numeric)[places]
            / (np.abs(self.rule) + np.abs(self.numeric) + SMALLEST_SLOPE)[places]
        )
        return int(places[np.argmax(np.nan_to_num(off, nan=-1.0))])


def compare_rule(
    rule: NumberArray,
    schemes: Sequence[DifferenceScheme],
    *,
    floor: NumberArray | float,
    relative: float,
    exact: NumericEstimate | None = None,
    trusted: NDArray[np.bool_] | bool = True,
) -> RuleComparison:
    """Compare a rule with measurements, one scheme after another until all numbers agree.

    `trusted` is False where measurements must not accuse the rule.
    """
    estimates = [] if exact is None else [exact]
    right = np.zeros(rule.shape, np.bool_)
    with np.errstate(all="ignore"):
        for estimate in estimates:
            right |= _agrees_with(rule, estimate, floor, relative)
        for scheme in schemes:
            if right.all():
                break
            estimates.append(measure_derivative(scheme, 1e-3 * relative))
            right |= _agrees_with(rule, estimates[-1], floor, relative)
        value, error = _best_estimates(estimates)
        state = np.where(right, RIGHT, UNDECIDED).astype(np.int8)
        if not right.all():
            accused = ~right & trusted & _contradicted_rules(rule, value, error, estimates, floor, relative)
            if accused.any():
                state = np.where(accused, _confirm_accusation(rule, value, schemes), state).astype(np.int8)
    return RuleComparison(rule, value, error, state)


def _agrees_with(
    rule: NumberArray, estimate: NumericEstimate, floor: NumberArray | float, relative: float
) -> NDArray[np.bool_]:
    size = np.maximum(np.abs(rule), np.abs(estimate.value))
    allowed = relative * size + floor + SMALLEST_SLOPE
    near: NDArray[np.bool_] = np.abs(rule - estimate.value) <= np.maximum(allowed, 2.0 * estimate.error)
    return near & (estimate.error <= np.maximum(allowed, 1e-3 * size)) & np.isfinite(rule)


def _best_estimates(estimates: Sequence[NumericEstimate]) -> NumericEstimate:
    errors = np.stack([np.where(np.isnan(estimate.error), np.inf, estimate.error) for estimate in estimates])
    choice = np.argmin(errors, axis=0)[None]
    values = np.stack([estimate.value for estimate in estimates])
    return NumericEstimate(np.take_along_axis(values, choice, 0)[0], np.take_along_axis(errors, choice, 0)[0])


def _contradicted_rules(
    rule: NumberArray,
    value: NumberArray,
    error: NumberArray,
    estimates: Sequence[NumericEstimate],
    floor: NumberArray | float,
    relative: float,
) -> NDArray[np.bool_]:
    """Return where several accurate measurements contradict the rule but not each other."""
    off = np.abs(rule - value)
    size = np.maximum(np.abs(rule), np.abs(value))
    clear: NDArray[np.bool_] = (off > 10.0 * error) & (off > 10.0 * (relative * size + floor + SMALLEST_SLOPE))
    witnesses = np.zeros(rule.shape, int)
    contradicted = np.zeros(rule.shape, np.bool_)
    for estimate in estimates:
        exact = estimate.error <= 0.1 * off
        witnesses += exact
        contradicted |= exact & (np.abs(estimate.value - value) > 0.1 * off)
    return clear & (witnesses >= 2) & ~contradicted


def _confirm_accusation(rule: NumberArray, value: NumberArray, schemes: Sequence[DifferenceScheme]) -> NDArray[np.int8]:
    """Return WRONG where both one-sided slopes confirm the measurement, KINK where they differ."""
    off = np.abs(rule - value)
    state = np.full(rule.shape, UNDECIDED, np.int8)
    for scheme in schemes:
        h = 1e-2 * scheme.first
        right, left = one_sided_slopes(scheme.at, h)
        exact = 8.0 * scheme.noise / h < 0.1 * off
        borne_out = (np.abs(right - value) <= 0.25 * off) & (np.abs(left - value) <= 0.25 * off)
        apart = np.abs(right - left) > 0.25 * off
        state = np.where(borne_out & exact & _is_resolved(rule, scheme, h) & (state != KINK), WRONG, state).astype(
            np.int8
        )
        state = np.where(apart & exact, KINK, state).astype(np.int8)
    return state


def _is_resolved(rule: NumberArray, scheme: DifferenceScheme, h: float) -> NDArray[np.bool_]:
    """Return where a step is short enough to resolve the slope by the rule, if that were correct.

    A function that oscillates within a step looks flat, however steep it is.
    """
    heights = np.stack([scheme.at(step) for step in (0.0, scheme.first, -scheme.first)])
    still = np.all(heights == heights[0], axis=0)
    return np.asarray(still | (np.abs(rule) * h <= np.max(np.abs(heights), axis=0)), np.bool_)


def bisect_discrepancy(count: int, gap: Callable[[NDArray[np.intp]], float]) -> int:
    """Return the index, below `count`, to which a discrepancy can be traced by bisection.

    >>> bisect_discrepancy(10, lambda places: float(7 in places))
    7
    """
    places = np.arange(count)
    while len(places) > 1:
        halves = places[: len(places) // 2], places[len(places) // 2 :]
        places = max(halves, key=lambda half: np.nan_to_num(gap(half), nan=-1.0))
    return int(places[0])


Perturbation = Callable[[Any], Any]
"""A function that changes numbers in their last digits."""


@dataclass(frozen=True)
class CheckedWire:
    """One input of an op, with the values that the op saw."""

    op: Op
    slot: int
    xs: tuple[Any, ...]
    y: Any
    mode: int = 0
    symmetric: bool | None = None
    """Whether the op reads only one triangle of the input, which then moves as a symmetric matrix; None: as the op's
    record says."""
    size: float = 0.0
    """The magnitude of the terms that cancel in the output, if they do."""

    @property
    def x(self) -> Any:
        """The input value."""
        return self.xs[self.slot]

    def pull_back(self, g: ArrayLike) -> NDArray[Any]:
        """Return the gradient by the reverse rule, with the shape of the input."""
        return _broadcast_flow(match_dtype(self.op.pull(self.slot, g, self.xs, self.y, self.mode), self.x), self.x)

    def push_forward(self, t: ArrayLike) -> NDArray[Any]:
        """Return the tangent of the output by the forward rule, for a tangent t of the input."""
        tangents = [t if k == self.slot else None for k in range(len(self.xs))]
        return _broadcast_flow(match_dtype(self.op.push(tangents, self.xs, self.y, self.mode), self.y), self.y)

    def cast_like_output(self, g: ArrayLike) -> Any:
        """Cast numbers to the dtype of the output."""
        return np.asarray(g).astype(np.asarray(self.y).dtype)[()]

    def cast_like_input(self, t: ArrayLike) -> Any:
        """Cast numbers to the dtype of the input."""
        return np.asarray(t).astype(np.asarray(self.x).dtype)[()]


def _broadcast_flow(flow: GradientFlow, like: ArrayLike) -> NDArray[Any]:
    """Return a flow with the shape of its value, and complex if the value is."""
    full = np.broadcast_to(fill_absent(flow), np.shape(like))
    return full.astype(np.complex128) if np.iscomplexobj(like) else full


@dataclass(frozen=True)
class WireOutcome:
    """The outcome of checking one wire; the numbers are those of the element with the largest difference."""

    state: int
    rule: Any = np.nan
    numeric: Any = np.nan
    error: float = np.inf
    index: tuple[int, ...] | None = None
    output: tuple[int, ...] | None = None
    at: Any = None
    """The value of the input element."""
    modes: tuple[str, ...] = ()
    """The modes (reverse, forward) that are wrong."""
    count: int = 0
    """Number of compared elements in this state."""
    total: int = 1
    distance: float | None = None
    reason: str = ""
    finite: bool = True
    """Whether the values are finite there."""
    again: Callable[[CheckedWire, Perturbation], Any] | None = field(default=None, repr=False, compare=False)
    """Recomputes the rule's number for a wire with perturbed values, along a perturbed direction."""
    raised: bool = False
    """Whether the rule is wrong because it raised an error, which is given as the reason."""


def compute_or_nan(op: Op, xs: Sequence[Any], like: ArrayLike) -> NDArray[Any]:
    """Compute an op; NaN if it raises or gives another shape.

    >>> from wiregrad.ops import TABLE
    >>> float(compute_or_nan(TABLE["sin"], [0.0], 0.0)), float(compute_or_nan(TABLE["sin"], [], 0.0))
    (0.0, nan)
    """
    try:
        y = np.asarray(op.compute(*xs))
    except Exception:
        return np.full(np.shape(like), np.nan)
    return y if y.shape == np.shape(like) and y.dtype.kind in "fc" else np.full(np.shape(like), np.nan)


def wrong_modes(back: bool, ahead: bool) -> tuple[str, ...]:
    """Return the names of the modes that are wrong.

    >>> wrong_modes(True, False)
    ('reverse',)
    """
    return tuple(name for name, wrong in (("reverse", back), ("forward", ahead)) if wrong)


def first_line(error: Exception) -> str:
    """Return the type and the first line of an error.

    >>> first_line(ValueError("no\\nreally"))
    'ValueError: no'
    """
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
