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
    Comparison,
    Estimate,
    Numbers,
    Way,
    as_reals,
    compare,
    precision,
    wide,
)
from wiregrad.inspect.check.wire import Outcome, Shake, Wire, computed, modes

EPS = float(np.finfo(np.float64).eps)
SAMPLED = 2000
"""Maximum number of elements of an elementwise op that are compared."""
NEAR = 1e-7
"""An element within this relative distance of a kink counts as on it."""


@dataclass(frozen=True)
class Elements:
    """A sample of the elements of an elementwise op."""

    wire: Wire
    picks: NDArray[np.intp]
    xs: list[Any]
    y: Any

    @classmethod
    def of(cls, wire: Wire) -> Elements:
        """Sample the elements evenly."""
        shape = np.shape(wire.y)
        size = int(np.size(wire.y))
        picks = np.unique(np.linspace(0, size - 1, min(size, SAMPLED)).astype(np.intp))
        rows = [np.ravel(np.broadcast_to(x, shape))[picks] for x in wire.xs]
        return cls(wire, picks, [wide(row) for row in rows], np.ravel(wire.y)[picks])

    def compute(self, xs: Sequence[Any]) -> Any:
        """Apply the op; element by element if it is user code that does not take arrays."""
        try:
            y = np.asarray(self.wire.op.compute(*xs))
            if y.shape == self.y.shape:
                return y
        except Exception:
            pass
        return np.array([computed(self.wire.op, point, 0.0) for point in zip(*xs, strict=True)])

    def way(self, unit: complex, scale: Any, first: float) -> Way:
        """Return a difference scheme whose values are divided by each element's step, so that slopes are per unit."""
        slot = self.wire.slot
        real = np.iscomplexobj(self.y)

        def at(h: float) -> Numbers:
            step = h * scale * (unit if np.iscomplexobj(self.xs[slot]) else 1.0)
            values = self.compute([x + step if k == slot else x for k, x in enumerate(self.xs)]) / scale
            row = as_reals(values.astype(np.complex128) if real else values.real)
            return np.concatenate([row, row])

        width = 2 if real else 1
        noise = EPS * np.abs(as_reals(wide(self.y))) / np.repeat(scale, width)
        # A step below the rounding of the number it is added to measures nothing.
        lost = 1e-2 * first * scale < 8.0 * EPS * np.abs(self.xs[slot])
        return Way(at, first, np.tile(np.where(np.repeat(lost, width), np.inf, noise), 2))

    def rule(self, unit: complex) -> Numbers:
        """Return the slopes along a unit, by the reverse rule and then by the forward rule."""
        wire = self.wire
        shape = np.shape(self.wire.y)
        parts = (1.0, 1j) if np.iscomplexobj(self.y) else (1.0,)
        pulled = [np.ravel(wire.pulled(wire.like_y(np.full(shape, 2.0 * part)))) / 2.0 for part in parts]
        back = np.stack([(np.conjugate(p[self.picks]) * unit).real for p in pulled], -1).ravel()
        step = wire.like_x(np.full(shape, unit) if np.iscomplexobj(wire.x) else np.ones(shape))
        ahead = as_reals(np.ravel(wire.pushed(step))[self.picks].astype(np.asarray(wire.y).dtype))
        return np.concatenate([back, ahead]).astype(np.float64)

    def exact(self) -> Estimate | None:
        """Return the slopes by a complex step; None if the op does not allow one."""
        op = self.wire.op
        slot = self.wire.slot
        if not getattr(op, "analytic", False) or any(np.asarray(x).dtype.kind != "f" for x in self.xs):
            return None
        h = 1e-30 * np.maximum(np.abs(self.xs[slot]), 1.0)
        values = op.compute(*[x + 1j * h if k == slot else x + 0j for k, x in enumerate(self.xs)])
        slope = np.where(self.inside(), np.asarray(values).imag / h, np.nan)
        slope = np.concatenate([slope, slope])
        return Estimate(slope, np.where(np.isfinite(slope), 1e-13 * np.abs(slope), np.inf))

    def inside(self) -> NDArray[np.bool_]:
        """Return the mask of elements inside the real domain of the op."""
        domain = getattr(self.wire.op, "domain", None)
        return np.ones(self.y.shape, np.bool_) if domain is None else np.broadcast_to(domain(*self.xs), self.y.shape)

    def distances(self) -> list[tuple[Any, NDArray[np.float64]]]:
        """Return every kink of the op with the distance of each element."""
        return [(kink, np.broadcast_to(np.abs(kink.at(*self.xs)), self.y.shape)) for kink in self.wire.op.kinks]

    def smooth(self) -> NDArray[np.bool_]:
        """Return the mask of elements that are not near a kink."""
        mask = np.ones(self.y.shape, np.bool_)
        for _, distance in self.distances():
            mask &= ~(distance <= NEAR * np.maximum(1.0, np.abs(self.xs[self.wire.slot])))
        return mask

    def place(self, k: int) -> tuple[int, ...] | None:
        """Return the index of a sampled element in the array; None for a number."""
        shape = np.shape(self.wire.y)
        return tuple(int(i) for i in np.unravel_index(int(self.picks[k]), shape)) if shape else None


def check_elements(wire: Wire) -> Outcome:
    """Compare the slopes of an elementwise op with measurements, element by element."""
    elements = Elements.of(wire)
    units: tuple[complex, ...] = (1.0, 1j) if np.iscomplexobj(wire.x) else (1.0,)
    outcomes = [_check_unit(elements, unit) for unit in units]
    severity = {WRONG: 3, UNDECIDED: 2, KINK: 1, RIGHT: 0}
    return max(outcomes, key=lambda outcome: severity[outcome.state])


def _check_unit(elements: Elements, unit: complex) -> Outcome:
    """Compare all slopes along one unit."""
    wire = elements.wire
    x = np.abs(elements.xs[elements.wire.slot])
    near = 2.0 ** np.floor(np.log2(np.where((x > 0.0) & np.isfinite(x), x, 1.0)))
    one = np.ones_like(x)
    far = np.maximum(near, one)
    wide_steps = ((near, 2.0**-3), (far, 2.0**-4), (one, 2.0**-3))
    steps = (*wide_steps, (near, 2.0**-10), (far, 2.0**-11), (one, 2.0**-10), (far, 2.0**-17))
    rough = precision(*wire.xs, wire.y)
    width = 2 if np.iscomplexobj(elements.y) else 1
    smooth = elements.smooth()
    comparison = compare(
        elements.rule(unit),
        [elements.way(unit, scale, first) for scale, first in steps],
        floor=np.tile(np.repeat(rough.floor * np.abs(elements.y) / far + rough.smallest, width), 2),
        relative=rough.relative,
        exact=elements.exact(),
        trusted=np.tile(np.repeat(elements.inside() & smooth, width), 2),
    )
    return _elements_outcome(elements, comparison, smooth, unit)


def _elements_outcome(elements: Elements, comparison: Comparison, smooth: Any, unit: complex) -> Outcome:
    count = len(elements.picks)
    width = 2 if np.iscomplexobj(elements.y) else 1
    state = np.where(
        (comparison.state == UNDECIDED) & ~np.tile(np.repeat(smooth, width), 2), KINK, comparison.state
    ).astype(np.int8)
    comparison = Comparison(comparison.rule, comparison.numeric, comparison.error, state)
    for verdict in (WRONG, UNDECIDED, KINK):
        k = comparison.worst(verdict)
        if k is not None:
            element = k % (count * width) // width
            by_mode = (state == verdict).reshape(2, count * width)
            return Outcome(
                verdict,
                comparison.rule[k],
                comparison.numeric[k],
                float(comparison.error[k]),
                elements.place(element),
                elements.place(element),
                elements.xs[elements.wire.slot][element],
                modes(*by_mode.any(axis=1)),
                int(by_mode.any(axis=0).reshape(count, width).any(axis=1).sum()),
                count,
                _distance(elements, element),
                _why(elements, element, comparison.rule[k]),
                bool(np.isfinite([elements.xs[elements.wire.slot][element], elements.y[element]]).all()),
                partial(_slope_of_element, unit, k),
            )
    return Outcome(RIGHT, total=count)


def _slope_of_element(unit: complex, k: int, wire: Wire, shake: Shake) -> Any:
    return Elements.of(wire).rule(unit)[k]


def _distance(elements: Elements, k: int) -> float | None:
    return min((float(distance[k]) for _, distance in elements.distances()), default=None)


def _why(elements: Elements, k: int, rule: Any) -> str:
    """Return why nothing could be decided about an element."""
    x = elements.xs[elements.wire.slot][k]
    if not np.isfinite(x) or not np.isfinite(elements.y[k]):
        return f"it makes {elements.y[k]:.6g} of {x:.6g}"
    if not elements.inside()[k]:
        return "outside the domain of the op"
    if not np.isfinite(rule):
        return f"the rule gives {rule:.6g}: the edge of the domain, or a point without a derivative"
    return ""


def nearest_kink(wire: Wire) -> Outcome | None:
    """Return the kink of an elementwise op that some element is on or very near to; None if there is none."""
    if not np.size(wire.y) or not wire.op.kinks:
        return None
    elements = Elements.of(wire)
    x = elements.xs[wire.slot]
    for kink, distance in elements.distances():
        on = distance <= NEAR * np.maximum(1.0, np.abs(x))
        if on.any():
            k = int(np.argmin(np.where(on, distance, np.inf)))
            return Outcome(
                KINK,
                index=elements.place(k),
                at=x[k],
                count=int(on.sum()),
                total=len(on),
                distance=float(distance[k]),
                reason=kink.doc,
            )
    return None
