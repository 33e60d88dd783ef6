"""Elementwise ops: all elements of one wire compared with a numeric derivative at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.inspect.check.numeric import (
    KINK,
    RIGHT,
    UNDECIDED,
    WRONG,
    RuleComparison,
    NumericEstimate,
    NumberArray,
    DifferenceScheme,
    as_reals,
    compare_rule,
    precision_for,
    to_float64,
)
from wiregrad.inspect.check.wire import WireOutcome, Perturbation, CheckedWire, compute_or_nan, wrong_modes

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

    def compute_op(self, xs: Sequence[Any]) -> Any:
        """Apply the op; element by element if it is user code that does not take arrays."""
        try:
            y = np.asarray(self.wire.op.compute(*xs))
            if y.shape == self.y.shape:
                return y
        except Exception:
            pass
        return np.array([compute_or_nan(self.wire.op, point, 0.0) for point in zip(*xs, strict=True)])

    def difference_scheme(self, unit: complex, scale: Any, first: float) -> DifferenceScheme:
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
        if not getattr(op, "analytic", False) or any(np.asarray(x).dtype.kind != "f" for x in self.xs):
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


def _elements_outcome(elements: SampledElements, comparison: RuleComparison, smooth: Any, unit: complex) -> WireOutcome:
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


def _undecided_reason(elements: SampledElements, k: int, rule: Any) -> str:
    """Return why nothing could be decided about an element."""
    x = elements.xs[elements.wire.slot][k]
    if not np.isfinite(x) or not np.isfinite(elements.y[k]):
        return f"it makes {elements.y[k]:.6g} of {x:.6g}"
    if not elements.domain_mask()[k]:
        return "outside the domain of the op"
    if not np.isfinite(rule):
        return f"the rule gives {rule:.6g}: the edge of the domain, or a point without a derivative"
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
