"""The rule of one wire beside a numeric derivative of its op: elementwise ops, then ops on whole arrays.

Elementwise ops are compared for all sampled elements at once. Ops on arrays are compared along a direction; a wrong
rule is traced by bisection to one element of the input and one of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import format_brief_number
from wiregrad.inspect.check.numeric_derivative import (
    FIRST_STEPS,
    KINK,
    RIGHT,
    UNDECIDED,
    WRONG,
    CheckedWire,
    DifferenceScheme,
    NumberArray,
    NumericEstimate,
    Perturbation,
    RuleComparison,
    WireOutcome,
    as_reals,
    bisect_discrepancy,
    compare_rule,
    compute_or_nan,
    first_line,
    inner_product,
    measure_derivative,
    precision_for,
    to_float64,
    wrong_modes,
)
from wiregrad.ir import Pattern
from wiregrad.ops.array_ops import Linear
from wiregrad.ops.elementwise import Elementwise
from wiregrad.ops.linalg_records import MatrixDecomposition

FLOAT64_EPS = float(np.finfo(np.float64).eps)
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
    rough = precision_for(*wire.xs, wire.y)
    width = 2 if np.iscomplexobj(elements.y) else 1
    smooth = elements.smooth_mask()
    comparison = compare_rule(
        elements.rule_slopes(unit),
        [elements.difference_scheme(unit, scale, first) for scale, first in steps],
        floor=np.tile(np.repeat(rough.floor * np.abs(elements.y) / far + rough.smallest, width), 2),
        relative=rough.relative,
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
            element = k % (count * width) // width
            by_mode = (state == verdict).reshape(2, count * width)
            return WireOutcome(
                verdict,
                comparison.rule[k],
                comparison.numeric[k],
                float(comparison.error[k]),
                elements.index_of(element),
                elements.index_of(element),
                elements.xs[elements.wire.slot][element],
                wrong_modes(*by_mode.any(axis=1)),
                int(by_mode.any(axis=0).reshape(count, width).any(axis=1).sum()),
                count,
                _kink_distance(elements, element),
                _undecided_reason(elements, element, comparison.rule[k]),
                bool(np.isfinite([elements.xs[elements.wire.slot][element], elements.y[element]]).all()),
                partial(_slope_of_element, unit, k),
            )
    return WireOutcome(RIGHT, total=count)


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
    picks = wire.op.pattern is Pattern.ROUTE and not isinstance(wire.op, Linear)
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
        self.rough = precision_for(*wire.xs, wire.y)
        rng = np.random.default_rng(0)
        self.seed = random_direction(rng, self.xs[wire.slot])
        g = rng.normal(size=np.shape(wire.y))
        self.g = wire.cast_like_output(g + 1j * rng.normal(size=g.shape) if np.iscomplexobj(wire.y) else g)
        self.eps = float(np.finfo(self.output_at(0.0 * self.seed).dtype).eps)
        self.firsts = (1.0, 0.3) if isinstance(wire.op, Linear) else FIRST_STEPS

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
        return compare_rule(rule, schemes, floor=floor, relative=self.rough.relative)

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
    """Trace a wrong rule to one element of the input and one of the output."""
    wire = array.wire
    back = bool(comparison.state[-1] == WRONG)
    ahead = not refusal and bool((comparison.state[:-1] == WRONG).any())
    outcome = _locate_element(array, _reverse_slope if back else _forward_slope)
    if outcome is None:
        k = -1 if back else int(comparison.worst_index(WRONG) or 0)
        numbers = comparison.rule[k], comparison.numeric[k], float(comparison.error[k])
        outcome = WireOutcome(WRONG, *numbers, again=lambda other, shake: _slopes_along(other, array, shake)[0][k])
    return replace(outcome, modes=wrong_modes(back, ahead), count=1, total=int(np.size(wire.x)))


def _locate_element(array: _ArrayWire, slope: Callable[..., float]) -> WireOutcome | None:
    """Find the input element and the output element at which a slope is wrong; None if it is not."""
    wire = array.wire
    element = bisect_discrepancy(
        int(np.size(wire.x)), lambda places: _slope_gap(array, slope, array.restrict_direction(places))
    )
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
