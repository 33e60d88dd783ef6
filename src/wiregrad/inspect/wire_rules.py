"""The rule of one wire beside a numeric derivative of its op, which has an error bound.

Kept true: a rule is called wrong only by measurements that agree with each other. A measurement is the best entry of a
tableau of central differences (Ridders). Its error is the disagreement of neighbouring entries, and at least what
rounding alone can cause. Where the slopes on the two sides of a point differ it is a kink; where measurements are too
coarse or contradict each other nothing is decided.

Elementwise ops are compared for all sampled elements at once. Ops on arrays are compared along a direction; a wrong
rule is traced by bisection to one element of the input and one of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import format_brief_number
from wiregrad.inspect.report import GradientFlow
from wiregrad.ir import Op, Pattern
from wiregrad.ops.array_ops import Elementwise, LinearOp
from wiregrad.ops.gradient_flow import fill_absent, match_dtype
from wiregrad.ops.linalg_records import MatrixDecomposition

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
    margin: float = 10.0
    """How many times further away a rule must be to be wrong; what lies between is undecided."""


FINE_PRECISION = RulePrecision(1e-6, 1e-10, SMALLEST_SLOPE)
COARSE_PRECISION = RulePrecision(2e-3, 1e-5, 1e-32)


ASKED_TOLERANCES: ContextVar[tuple[float | None, float | None]] = ContextVar("ASKED_TOLERANCES", default=(None, None))
"""The relative and the absolute tolerance that the caller of a check wants, in place of what dtypes allow."""


@contextmanager
def use_tolerances(rtol: float | None, atol: float | None) -> Iterator[None]:
    """Return a block in which rules count as right up to these tolerances; None leaves one as it is."""
    token = ASKED_TOLERANCES.set((rtol, atol))
    try:
        yield
    finally:
        ASKED_TOLERANCES.reset(token)


def is_coarse(*values: ArrayLike) -> bool:
    """Return whether values have dtypes that allow rough comparisons alone.

    >>> is_coarse(np.float32(1.0), np.float64(1.0))
    True
    """
    return any(np.asarray(x).dtype in (np.float16, np.float32, np.complex64) for x in values)


def choose_precision(*, coarse: bool) -> RulePrecision:
    """Return how close rules must be: as close as was asked for, else as dtypes allow."""
    usual = COARSE_PRECISION if coarse else FINE_PRECISION
    rtol, atol = ASKED_TOLERANCES.get()
    if rtol is None and atol is None:
        return usual
    relative = usual.relative if rtol is None else rtol
    return RulePrecision(relative, usual.floor, usual.smallest if atol is None else atol, margin=1.0)


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
        ranked = self.rank_indices(state)
        return ranked[0] if ranked else None

    def rank_indices(self, state: int) -> list[int]:
        """Return the indices of the numbers in a state, the largest relative difference first."""
        places = np.flatnonzero(self.state == state)
        gaps = relative_gap(self.rule[places], self.numeric[places])
        ranked: list[int] = places[np.argsort(-np.nan_to_num(gaps, nan=-1.0), kind="stable")].tolist()
        return ranked


def relative_gap(one: Any, two: Any) -> Any:
    """Return the difference of two slopes relative to their magnitudes.

    >>> float(relative_gap(1.0, 3.0))
    0.5
    """
    return np.abs(one - two) / (np.abs(one) + np.abs(two) + SMALLEST_SLOPE)


def compare_rule(
    rule: NumberArray,
    schemes: Sequence[DifferenceScheme],
    *,
    floor: NumberArray | float,
    relative: float,
    margin: float = FINE_PRECISION.margin,
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
            allowed = margin * (relative * np.maximum(np.abs(rule), np.abs(value)) + floor + SMALLEST_SLOPE)
            accused = ~right & trusted & _contradicted_rules(rule, value, error, estimates, allowed)
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
    allowed: NumberArray,
) -> NDArray[np.bool_]:
    """Return where several accurate measurements contradict the rule but not each other."""
    off = np.abs(rule - value)
    clear: NDArray[np.bool_] = (off > 10.0 * error) & (off > allowed)
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
    """Number of compared elements in this state; 0 if they were not all looked for."""
    total: int = 1
    distance: float | None = None
    reason: str = ""
    finite: bool = True
    """Whether the values are finite there."""
    again: Callable[[CheckedWire, Perturbation], Any] | None = field(default=None, repr=False, compare=False)
    """Recomputes the rule's number for a wire with perturbed values, along a perturbed direction."""
    raised: bool = False
    """Whether the rule is wrong because it raised an error, which is given as the reason."""
    others: tuple[WireOutcome, ...] = ()
    """Further elements at which the rule is wrong, those with the largest differences first."""


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


FLOAT64_EPS = float(np.finfo(np.float64).eps)
MAX_LISTED_ELEMENTS = 4
"""Maximum number of elements of an input at which a wrong rule is shown."""
MAX_SAMPLED_ELEMENTS = 2000
"""Maximum number of elements of an elementwise op that are compared."""
KINK_TOLERANCE = 1e-7
"""An element within this relative distance of a kink counts as on it."""


@dataclass(frozen=True)
class SampledElements:
    """A sample of the elements of an elementwise op."""

    wire: CheckedWire
    picks: NDArray[np.intp]
    xs: list[Any]
    y: Any

    @classmethod
    def from_wire(cls, wire: CheckedWire) -> SampledElements:
        """Sample the elements evenly."""
        shape = np.shape(wire.y)
        size = int(np.size(wire.y))
        picks = np.unique(np.linspace(0, size - 1, min(size, MAX_SAMPLED_ELEMENTS)).astype(np.intp))
        rows = [np.ravel(np.broadcast_to(x, shape))[picks] for x in wire.xs]
        return cls(wire, picks, [to_float64(row) for row in rows], np.ravel(wire.y)[picks])

    def compute_op(self, xs: Sequence[Any]) -> NDArray[Any]:
        """Apply the op; element by element if it is user code that does not take arrays."""
        try:
            y = np.asarray(self.wire.op.compute(*xs))
            if y.shape == self.y.shape:
                return y
        except Exception:
            pass
        return np.array([compute_or_nan(self.wire.op, point, 0.0) for point in zip(*xs, strict=True)])

    def difference_scheme(self, unit: complex, scale: NDArray[Any], first: float) -> DifferenceScheme:
        """Return a difference scheme whose values are divided by each element's step, so that slopes are per unit."""
        slot = self.wire.slot
        real = np.iscomplexobj(self.y)

        def at(h: float) -> NumberArray:
            step = h * scale * (unit if np.iscomplexobj(self.xs[slot]) else 1.0)
            values = self.compute_op([x + step if k == slot else x for k, x in enumerate(self.xs)]) / scale
            row = as_reals(values.astype(np.complex128) if real else values.real)
            return np.concatenate([row, row])

        width = 2 if real else 1
        noise = FLOAT64_EPS * np.abs(as_reals(to_float64(self.y))) / np.repeat(scale, width)
        # A step below the rounding of the number it is added to measures nothing.
        lost = 1e-2 * first * scale < 8.0 * FLOAT64_EPS * np.abs(self.xs[slot])
        return DifferenceScheme(at, first, np.tile(np.where(np.repeat(lost, width), np.inf, noise), 2))

    def rule_slopes(self, unit: complex) -> NumberArray:
        """Return the slopes along a unit, by the reverse rule and then by the forward rule."""
        wire = self.wire
        shape = np.shape(self.wire.y)
        parts = (1.0, 1j) if np.iscomplexobj(self.y) else (1.0,)
        pulled = [np.ravel(wire.pull_back(wire.cast_like_output(np.full(shape, 2.0 * part)))) / 2.0 for part in parts]
        back = np.stack([(np.conjugate(p[self.picks]) * unit).real for p in pulled], -1).ravel()
        step = wire.cast_like_input(np.full(shape, unit) if np.iscomplexobj(wire.x) else np.ones(shape))
        ahead = as_reals(np.ravel(wire.push_forward(step))[self.picks].astype(np.asarray(wire.y).dtype))
        return np.concatenate([back, ahead]).astype(np.float64)

    def complex_step_slopes(self) -> NumericEstimate | None:
        """Return the slopes by a complex step; None if the op does not allow one."""
        op = self.wire.op
        slot = self.wire.slot
        if not isinstance(op, Elementwise) or not op.is_analytic:
            return None
        if any(np.asarray(x).dtype.kind != "f" for x in self.xs):
            return None
        h = 1e-30 * np.maximum(np.abs(self.xs[slot]), 1.0)
        values = op.compute(*[x + 1j * h if k == slot else x + 0j for k, x in enumerate(self.xs)])
        slope = np.where(self.domain_mask(), np.asarray(values).imag / h, np.nan)
        slope = np.concatenate([slope, slope])
        return NumericEstimate(slope, np.where(np.isfinite(slope), 1e-13 * np.abs(slope), np.inf))

    def domain_mask(self) -> NDArray[np.bool_]:
        """Return the mask of elements inside the real domain of the op."""
        domain = getattr(self.wire.op, "domain", None)
        return np.ones(self.y.shape, np.bool_) if domain is None else np.broadcast_to(domain(*self.xs), self.y.shape)

    def kink_distances(self) -> list[tuple[Any, NDArray[np.float64]]]:
        """Return every kink of the op with the distance of each element."""
        return [(kink, np.broadcast_to(np.abs(kink.at(*self.xs)), self.y.shape)) for kink in self.wire.op.kinks]

    def smooth_mask(self) -> NDArray[np.bool_]:
        """Return the mask of elements that are not near a kink."""
        mask = np.ones(self.y.shape, np.bool_)
        for _, distance in self.kink_distances():
            mask &= ~(distance <= KINK_TOLERANCE * np.maximum(1.0, np.abs(self.xs[self.wire.slot])))
        return mask

    def index_of(self, k: int) -> tuple[int, ...] | None:
        """Return the index of a sampled element in the array; None for a number."""
        shape = np.shape(self.wire.y)
        return tuple(int(i) for i in np.unravel_index(int(self.picks[k]), shape)) if shape else None


def check_elements(wire: CheckedWire) -> WireOutcome:
    """Compare the slopes of an elementwise op with measurements, element by element."""
    elements = SampledElements.from_wire(wire)
    units: tuple[complex, ...] = (1.0, 1j) if np.iscomplexobj(wire.x) else (1.0,)
    outcomes = [_check_unit(elements, unit) for unit in units]
    severity = {WRONG: 3, UNDECIDED: 2, KINK: 1, RIGHT: 0}
    return max(outcomes, key=lambda outcome: severity[outcome.state])


def _check_unit(elements: SampledElements, unit: complex) -> WireOutcome:
    """Compare all slopes along one unit."""
    wire = elements.wire
    x = np.abs(elements.xs[elements.wire.slot])
    near = 2.0 ** np.floor(np.log2(np.where((x > 0.0) & np.isfinite(x), x, 1.0)))
    one = np.ones_like(x)
    far = np.maximum(near, one)
    wide_steps = ((near, 2.0**-3), (far, 2.0**-4), (one, 2.0**-3))
    steps = (*wide_steps, (near, 2.0**-10), (far, 2.0**-11), (one, 2.0**-10), (far, 2.0**-17))
    rough = choose_precision(coarse=is_coarse(*wire.xs, wire.y))
    width = 2 if np.iscomplexobj(elements.y) else 1
    smooth = elements.smooth_mask()
    comparison = compare_rule(
        elements.rule_slopes(unit),
        [elements.difference_scheme(unit, scale, first) for scale, first in steps],
        floor=np.tile(np.repeat(rough.floor * np.abs(elements.y) / far + rough.smallest, width), 2),
        relative=rough.relative,
        margin=rough.margin,
        exact=elements.complex_step_slopes(),
        trusted=np.tile(np.repeat(elements.domain_mask() & smooth, width), 2),
    )
    return _elements_outcome(elements, comparison, smooth, unit)


def _elements_outcome(
    elements: SampledElements, comparison: RuleComparison, smooth: NDArray[np.bool_], unit: complex
) -> WireOutcome:
    count = len(elements.picks)
    width = 2 if np.iscomplexobj(elements.y) else 1
    state = np.where(
        (comparison.state == UNDECIDED) & ~np.tile(np.repeat(smooth, width), 2), KINK, comparison.state
    ).astype(np.int8)
    comparison = RuleComparison(comparison.rule, comparison.numeric, comparison.error, state)
    for verdict in (WRONG, UNDECIDED, KINK):
        k = comparison.worst_index(verdict)
        if k is not None:
            by_mode = (state == verdict).reshape(2, count * width)
            by_element = by_mode.any(axis=0).reshape(count, width).any(axis=1)
            outcome = replace(
                _element_outcome(elements, comparison, k, unit),
                modes=wrong_modes(*by_mode.any(axis=1)),
                count=int(by_element.sum()),
            )
            return replace(outcome, others=_next_wrong(elements, comparison, unit)) if verdict == WRONG else outcome
    return WireOutcome(RIGHT, total=count)


def _element_outcome(elements: SampledElements, comparison: RuleComparison, k: int, unit: complex) -> WireOutcome:
    """Return one comparison as the outcome of its element."""
    element = _element_of(elements, k)
    x = elements.xs[elements.wire.slot][element]
    return WireOutcome(
        int(comparison.state[k]),
        comparison.rule[k],
        comparison.numeric[k],
        float(comparison.error[k]),
        elements.index_of(element),
        elements.index_of(element),
        x,
        total=len(elements.picks),
        distance=_kink_distance(elements, element),
        reason=_undecided_reason(elements, element, comparison.rule[k]),
        finite=bool(np.isfinite([x, elements.y[element]]).all()),
        again=partial(_slope_of_element, unit, k),
    )


def _element_of(elements: SampledElements, k: int) -> int:
    """Return the element of a comparison; there is one for each part of each element, by each of the two rules."""
    width = 2 if np.iscomplexobj(elements.y) else 1
    return int(k % (len(elements.picks) * width) // width)


def _next_wrong(elements: SampledElements, comparison: RuleComparison, unit: complex) -> tuple[WireOutcome, ...]:
    """Return the outcomes of the elements with the largest differences after the first."""
    first_of_element: dict[int, int] = {}
    for k in comparison.rank_indices(WRONG):
        first_of_element.setdefault(_element_of(elements, k), k)
    ranked = list(first_of_element.values())[1:MAX_LISTED_ELEMENTS]
    return tuple([_element_outcome(elements, comparison, k, unit) for k in ranked])


def _slope_of_element(unit: complex, k: int, wire: CheckedWire, shake: Perturbation) -> Any:
    return SampledElements.from_wire(wire).rule_slopes(unit)[k]


def _kink_distance(elements: SampledElements, k: int) -> float | None:
    return min((float(distance[k]) for _, distance in elements.kink_distances()), default=None)


def _undecided_reason(elements: SampledElements, k: int, rule: float) -> str:
    """Return why nothing could be decided about an element."""
    x = elements.xs[elements.wire.slot][k]
    if not np.isfinite(x) or not np.isfinite(elements.y[k]):
        return f"its value at {format_brief_number(x, 6)} is {format_brief_number(elements.y[k], 6)}"
    if not elements.domain_mask()[k]:
        return "outside the domain of the op"
    if not np.isfinite(rule):
        return f"the rule gives {format_brief_number(rule)}: the edge of the domain, or a point without a derivative"
    return ""


def find_nearest_kink(wire: CheckedWire) -> WireOutcome | None:
    """Return the kink of an elementwise op that some element is on or very near to; None if there is none."""
    if not np.size(wire.y) or not wire.op.kinks:
        return None
    elements = SampledElements.from_wire(wire)
    x = elements.xs[wire.slot]
    for kink, distance in elements.kink_distances():
        on = distance <= KINK_TOLERANCE * np.maximum(1.0, np.abs(x))
        if on.any():
            k = int(np.argmin(np.where(on, distance, np.inf)))
            return WireOutcome(
                KINK,
                index=elements.index_of(k),
                at=x[k],
                count=int(on.sum()),
                total=len(on),
                distance=float(distance[k]),
                reason=kink.doc,
            )
    return None


def find_tie(wire: CheckedWire) -> WireOutcome | None:
    """Return a kink if an op that picks or orders elements would pick others very near the point."""
    picks = wire.op.pattern is Pattern.ROUTE and not isinstance(wire.op, LinearOp)
    steps = np.asarray(wire.y).dtype.kind not in "fc"
    if not (picks or steps) or not np.size(wire.x) or not np.size(wire.y):
        return None
    x = to_float64(wire.x)
    rng = np.random.default_rng(3)
    t = KINK_TOLERANCE * random_direction(rng, x)
    outputs = [_output_at_step(wire, step) for step in (t, -t)]
    here = _output_at_step(wire, 0.0 * t)
    if steps:
        is_tied = any(not np.array_equal(there, here) for there in outputs)
    else:
        bend = np.abs(outputs[0] - 2.0 * here + outputs[1])
        is_tied = bool(np.any(bend > 1e-3 * np.maximum(np.abs(outputs[0] - here), np.abs(outputs[1] - here))))
    reason = "elements are tied, or nearly: the next step picks others"
    return WireOutcome(KINK, distance=float(np.max(np.abs(t))), count=1, reason=reason) if is_tied else None


def _output_at_step(wire: CheckedWire, step: float | NDArray[Any]) -> NDArray[Any]:
    xs = [to_float64(x) + step if k == wire.slot else x for k, x in enumerate(wire.xs)]
    try:
        return np.asarray(wire.op.compute(*xs))
    except Exception:
        return np.asarray(wire.y)


def random_direction(rng: np.random.Generator, x: ArrayLike) -> float | NDArray[Any]:
    """Return a random direction in which each number moves in proportion to its size.

    >>> random_direction(np.random.default_rng(0), np.zeros(2)).shape
    (2,)
    """
    shape = np.shape(x)
    size = np.abs(np.where(np.isfinite(x), x, 0.0))
    typical = float(np.sqrt(np.mean(size**2))) if np.size(x) else 0.0
    typical = typical or 1.0
    step = rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.iscomplexobj(x) else 0.0)
    return step * np.maximum(size, 0.01 * typical)


class _ArrayWire:
    """An op on whole arrays along directions of one of its inputs."""

    def __init__(self, wire: CheckedWire) -> None:
        self.wire = wire
        self.xs = [to_float64(x) for x in wire.xs]
        self.rough = choose_precision(coarse=is_coarse(*wire.xs, wire.y))
        rng = np.random.default_rng(0)
        self.seed = random_direction(rng, self.xs[wire.slot])
        g = rng.normal(size=np.shape(wire.y))
        self.g = wire.cast_like_output(g + 1j * rng.normal(size=g.shape) if np.iscomplexobj(wire.y) else g)
        self.eps = float(np.finfo(self.output_at(0.0 * self.seed).dtype).eps)
        self.firsts = (1.0, 0.3) if isinstance(wire.op, LinearOp) else FIRST_STEPS

    def output_at(self, step: float | NDArray[Any]) -> NDArray[Any]:
        """Return the output with the input moved by a step."""
        slot = self.wire.slot
        xs = [x + step if k == slot else x for k, x in enumerate(self.xs)]
        return compute_or_nan(self.wire.op, [x[()] if isinstance(x, np.ndarray) else x for x in xs], self.wire.y)

    def allowed_step(self, step: ArrayLike) -> NDArray[Any]:
        """Return a step, made symmetric for an op that reads only one triangle of its input."""
        allowed = np.asarray(to_float64(self.wire.cast_like_input(step)))
        own = getattr(self.wire.op, "symmetric", False)
        if own if self.wire.symmetric is None else self.wire.symmetric:
            allowed = allowed + np.conjugate(np.swapaxes(allowed, -1, -2))
        return allowed

    def compare_along(self, rule: NumberArray, g: ArrayLike, t: NDArray[Any], *, parts: bool) -> RuleComparison:
        """Compare the rules with measurements along a direction: the weighted sum of the outputs, and each of them."""

        def at(h: float) -> NumberArray:
            y = self.output_at(h * t)
            return np.append(as_reals(y) if parts else [], inner_product(g, y))

        def sizes(y: ArrayLike) -> NumberArray:
            size = np.maximum(np.ravel(np.abs(to_float64(y))), self.wire.size)
            return np.append(
                np.repeat(size, 1 + np.iscomplexobj(y)) if parts else [],
                inner_product(np.abs(g), np.maximum(np.abs(y), self.wire.size)),
            )

        finite = np.abs(rule[np.isfinite(rule)])
        floor = self.rough.floor * (np.max(sizes(self.wire.y), initial=0.0) + np.max(finite, initial=0.0))
        floor += self.rough.smallest
        noise = self.eps * sizes(self.wire.y)
        schemes = [DifferenceScheme(at, first, noise) for first in self.firsts]
        return compare_rule(rule, schemes, floor=floor, relative=self.rough.relative, margin=self.rough.margin)

    def restrict_direction(self, places: Sequence[int] | NDArray[np.intp]) -> NDArray[Any]:
        """Return the direction restricted to some elements."""
        step = np.zeros(np.shape(self.seed), np.asarray(self.seed).dtype)
        step.flat[places] = np.ravel(self.seed)[places]
        return self.allowed_step(step)


def check_array(wire: CheckedWire) -> WireOutcome:
    """Compare the rules of an op on arrays with measurements along a random direction."""
    array = _ArrayWire(wire)
    t = array.allowed_step(array.seed)
    rule, refusal = _slopes_along(wire, array)
    comparison = array.compare_along(rule, array.g, t, parts=True)
    state = comparison.state if not refusal else comparison.state[-1:]
    free = _find_free_choice(array, t) if (state == WRONG).any() else ""
    if (state == WRONG).any() and not free:
        return _locate_error(array, comparison, refusal)
    for state_wanted in (UNDECIDED, KINK, WRONG):
        k = comparison.worst_index(state_wanted)
        if k is not None and (state == state_wanted).any():
            reason = free or _nonfinite_reason(rule[k])
            return WireOutcome(
                KINK if state_wanted == KINK else UNDECIDED,
                rule[k],
                comparison.numeric[k],
                float(comparison.error[k]),
                modes=("along a direction",),
                count=1,
                reason=reason,
            )
    return WireOutcome(UNDECIDED, reason=refusal) if refusal else WireOutcome(RIGHT, total=int(np.size(wire.x)))


def _push_forward(wire: CheckedWire, t: ArrayLike) -> tuple[Any, str]:
    """Apply the forward rule; returns the reason if that fails, as a user's backward need not be recordable."""
    try:
        return wire.push_forward(wire.cast_like_input(t)), ""
    except Exception as error:
        return np.zeros_like(wire.y), f"the forward rule cannot be run: {first_line(error)}"


def _find_free_choice(array: _ArrayWire, t: NDArray[Any]) -> str:
    """Return why differences are meaningless here: the inputs do not determine the output. Empty if they do.

    The vectors of a decomposition may change sign from point to point, and have a free phase if they are complex.
    """
    op = array.wire.op
    if isinstance(op, MatrixDecomposition) and op.free_phase and np.iscomplexobj(array.wire.y):
        return "complex vectors of a decomposition have a free phase"
    here = array.output_at(0.0 * t)
    for side in (1.0, -1.0):
        near, far = (np.max(np.abs(array.output_at(side * h * t) - here), initial=0.0) for h in (1e-8, 1e-5))
        if near > 0.1 * far and near > 1e3 * array.eps * np.max(np.abs(here), initial=0.0):
            return "the output jumps at this point"
    return ""


def _nonfinite_reason(rule: float) -> str:
    return "" if np.isfinite(rule) else f"the rule gives {format_brief_number(rule)}: a point without a derivative"


def _locate_error(array: _ArrayWire, comparison: RuleComparison, refusal: str) -> WireOutcome:
    """Trace a wrong rule to elements of the input, and for each to one of the output."""
    back = bool(comparison.state[-1] == WRONG)
    ahead = not refusal and bool((comparison.state[:-1] == WRONG).any())
    total = int(np.size(array.wire.x))
    modes = wrong_modes(back, ahead)
    found = _locate_elements(array, _reverse_slope if back else _forward_slope)
    if found:
        count = len(found) if len(found) < min(total, MAX_LISTED_ELEMENTS) or len(found) == total else 0
        return replace(found[0], modes=modes, count=count, total=total, others=tuple(found[1:]))
    k = -1 if back else int(comparison.worst_index(WRONG) or 0)
    numbers = comparison.rule[k], comparison.numeric[k], float(comparison.error[k])
    again = partial(_slope_in_direction, array, k)
    return WireOutcome(WRONG, *numbers, modes=modes, count=1, total=total, again=again)


def _slope_in_direction(array: _ArrayWire, k: int, wire: CheckedWire, shake: Perturbation) -> Any:
    return _slopes_along(wire, array, shake)[0][k]


def _locate_elements(array: _ArrayWire, slope: Callable[..., float]) -> list[WireOutcome]:
    """Find the first few input elements at which a slope is wrong, those with the largest differences first."""
    found = list[WireOutcome]()
    rest = np.arange(np.size(array.wire.x))
    while len(rest) and len(found) < MAX_LISTED_ELEMENTS:
        element = _find_worst_element(array, slope, rest)
        outcome = _locate_element(array, slope, element)
        if outcome is None:
            break
        found.append(outcome)
        rest = rest[rest != element]
    # Gaps that differ by rounding alone count as equal.
    return sorted(
        found, key=lambda outcome: (-round(float(relative_gap(outcome.rule, outcome.numeric)), 6), outcome.index)
    )


def _find_worst_element(array: _ArrayWire, slope: Callable[..., float], places: NDArray[np.intp]) -> int:
    """Find one element among some of them by bisection."""
    worst = bisect_discrepancy(
        len(places), lambda chosen: _slope_gap(array, slope, array.restrict_direction(places[chosen]))
    )
    return int(places[worst])


def _locate_element(array: _ArrayWire, slope: Callable[..., float], element: int) -> WireOutcome | None:
    """Find the output element at which the slope of an input element is wrong; None if it is not."""
    wire = array.wire
    step = array.restrict_direction([element])
    output = bisect_discrepancy(
        int(np.size(wire.y)), lambda places: _slope_gap(array, slope, step, _restrict_weights(array.g, places))
    )
    weight = wire.cast_like_output(_restrict_weights(array.g, [output]))
    comparison = array.compare_along(np.array([slope(wire, step, weight)]), weight, step, parts=False)
    if comparison.state[0] != WRONG:
        return None
    unit = _unit_scale(np.ravel(array.seed)[element]) * _unit_scale(np.ravel(array.g)[output])
    return WireOutcome(
        WRONG,
        comparison.rule[0] / unit,
        comparison.numeric[0] / unit,
        float(comparison.error[0]) / abs(unit),
        _unravel_element(element, np.shape(wire.x)),
        _unravel_element(output, np.shape(wire.y)),
        np.ravel(wire.x)[element],
        again=lambda other, shake: slope(other, shake(step), shake(weight)) / unit,
    )


def _slopes_along(wire: CheckedWire, array: _ArrayWire, shake: Perturbation = lambda x: x) -> tuple[NumberArray, str]:
    """Return the slopes by both rules along the first direction, and the reason if the forward rule fails."""
    t = shake(array.allowed_step(array.seed))
    pushed, refusal = _push_forward(wire, t)
    return np.append(as_reals(pushed), inner_product(wire.pull_back(shake(array.g)), t)), refusal


def _restrict_weights(g: ArrayLike, places: Sequence[int] | NDArray[np.intp]) -> NDArray[Any]:
    """Return the weights with all but some of them set to 0."""
    weights = np.zeros(np.shape(g), np.asarray(g).dtype)
    weights.flat[places] = np.ravel(g)[places]
    return weights


def _unit_scale(number: Any) -> float:
    """Return the divisor that gives the slope per unit: the number itself, or the magnitude of a complex one."""
    return float(np.abs(number)) if np.iscomplexobj(number) else float(number)


def _unravel_element(element: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    return tuple(int(i) for i in np.unravel_index(element, shape)) if shape else None


def _reverse_slope(wire: CheckedWire, t: ArrayLike, g: ArrayLike) -> float:
    return inner_product(wire.pull_back(g), t)


def _forward_slope(wire: CheckedWire, t: ArrayLike, g: ArrayLike) -> float:
    return inner_product(g, wire.push_forward(wire.cast_like_input(t)))


def _slope_gap(array: _ArrayWire, slope: Callable[..., float], t: NDArray[Any], g: Any = None) -> float:
    """Return the disagreement of rule and differences along a direction, for some of the outputs."""
    g = array.wire.cast_like_output(array.g if g is None else g)
    noise = array.eps * np.array([inner_product(np.abs(g), np.abs(to_float64(array.wire.y)))])
    estimate = measure_derivative(
        DifferenceScheme(lambda h: np.array([inner_product(g, array.output_at(h * t))]), array.firsts[1], noise)
    )
    return max(0.0, abs(slope(array.wire, t, g) - float(estimate.value[0])) - 3.0 * float(estimate.error[0]))
