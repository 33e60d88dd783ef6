"""Splines and other interpolation: the classes of `scipy.interpolate`, made from values or called with values.

A spline through points is linear in their heights. So the matrix that takes heights to slopes is computed once, by
SciPy, for plain knots, and a spline of recorded heights is a product with it. Knots are constants. A SciPy object made
from values keeps its recorded coefficients in its attribute `STATE`, and its methods are taught to read them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.functions.registry import (
    detach_array,
    dtype_of,
    lift,
    load_scipy,
    ndim_of,
    register_function,
    register_scipy_method,
)
from wiregrad.ops.functions.shape import moveaxis, transpose
from wiregrad.ops.gradient_flow import is_wire, shape_of

STATE = "_wiregrad_state"
"""Attribute of a SciPy object that was made from values."""


@dataclass(frozen=True)
class SplineState:
    """A piecewise polynomial: coefficients (degree + 1, pieces, ...), highest power first, and the ends of pieces."""

    c: Any
    x: Any
    axis: int
    extrapolate: Any

    @property
    def degree(self) -> int:
        """The degree of the polynomials."""
        return shape_of(self.c)[0] - 1


def _refuse(what: str) -> NoRuleError:
    return NoRuleError(f"scipy.interpolate: {what}{format_user_line()}")


def _as_double(x: Any) -> Any:
    x = lift(x)
    dtype = np.complex128 if dtype_of(x).kind == "c" else np.float64
    return x if dtype_of(x) == dtype else TABLE["cast"](x, dtype=np.dtype(dtype).name)


def _plain_knots(x: Any, name: str) -> Any:
    """Return knots as a plain array; they are constants."""
    if is_wire(x):
        raise _refuse(f"{name} needs knots x that are not recorded values; pass them as a plain array")
    return np.asarray(x, np.float64)


def _pick_first(x: Any, index: Any) -> Any:
    """Return one element, or a slice, along the first axis."""
    item = index if isinstance(index, int) else ("slice", index.start, index.stop, None)
    return TABLE["getitem"](x, index=(item, *[("slice", None, None, None)] * (ndim_of(x) - 1)))


def evaluate_pieces(state: SplineState, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Return a piecewise polynomial, or a derivative of it, at points; the shape is SciPy's."""
    extrapolate = state.extrapolate if extrapolate is None else extrapolate
    knots = state.x
    if np.any(np.diff(knots) < 0):
        raise _refuse("a piecewise polynomial with decreasing knots has no rule for recorded values")
    points = _as_double(x)
    shape = shape_of(points)
    row = TABLE["reshape"](points, rank=len(shape), shape=(prod(shape),))
    if extrapolate == "periodic":
        row = knots[0] + TABLE["mod"](row - knots[0], float(knots[-1] - knots[0]))
    y = _evaluate_row(state, row, nu)
    if extrapolate is not True and extrapolate != "periodic" and not extrapolate:
        outside = TABLE["logical_or"](TABLE["less"](row, knots[0]), TABLE["greater"](row, knots[-1]))
        y = TABLE["where"](TABLE["reshape"](outside, rank=1, shape=(prod(shape), 1)), np.nan, y)
    rest = shape_of(state.c)[2:]
    return _move_result(TABLE["reshape"](y, rank=2, shape=(*shape, *rest)), len(shape), state.axis)


def _evaluate_row(state: SplineState, row: Any, nu: int) -> Any:
    """Return the polynomials at a row of points, one row of results for each point."""
    pieces = TABLE["searchsorted"](state.x[1:-1], row, side="right")
    width = prod(shape_of(state.c)[2:])
    offset = row - TABLE["take"](state.x, pieces, axis=-1)
    column = TABLE["reshape"](offset, rank=1, shape=(shape_of(row)[0], 1))
    y: Any = None
    for power in range(state.degree, nu - 1, -1):
        flat = TABLE["reshape"](
            _pick_first(state.c, state.degree - power), rank=ndim_of(state.c) - 1, shape=(-1, width)
        )
        factor = float(prod(range(power - nu + 1, power + 1)))
        part = TABLE["take"](flat, pieces, axis=-2) * factor
        y = part if y is None else y * column + part
    return column * np.zeros(width) if y is None else y


def _move_result(y: Any, count: int, axis: int) -> Any:
    """Put the axes of the points, which come first, where the axis of interpolation was."""
    if not axis:
        return y
    order = [*range(count, count + axis), *range(count), *range(count + axis, ndim_of(y))]
    return transpose(y, order)


def make_hermite_state(x: Any, y: Any, slopes: Any, axis: int, extrapolate: Any) -> SplineState:
    """Return cubic polynomials between knots with these heights and slopes, given along the first axis."""
    steps = np.diff(x).reshape((-1,) + (1,) * (ndim_of(y) - 1))
    rise = (_pick_first(y, slice(1, None)) - _pick_first(y, slice(None, -1))) / steps
    left, right = _pick_first(slopes, slice(None, -1)), _pick_first(slopes, slice(1, None))
    bend = (left + right - 2.0 * rise) / steps
    parts = [bend / steps, (rise - left) / steps - bend, left, _pick_first(y, slice(None, -1))]
    rows = [TABLE["reshape"](part, rank=ndim_of(part), shape=(1, *shape_of(part))) for part in parts]
    return SplineState(TABLE["concatenate"](*rows, axis=-ndim_of(rows[0])), x, axis, extrapolate)


def _first_axis(y: Any, axis: int) -> tuple[Any, int]:
    y = _as_double(y)
    axis %= ndim_of(y)
    return moveaxis(y, axis, 0), axis


def _apply_matrix(matrix: Any, y: Any) -> Any:
    """Return a matrix times y along the first axis of y."""
    n = shape_of(y)[0]
    flat = TABLE["reshape"](y, rank=ndim_of(y), shape=(n, prod(shape_of(y)[1:])))
    return TABLE["reshape"](TABLE["matmul"](matrix, flat), rank=2, shape=(len(matrix), *shape_of(y)[1:]))


def make_spline_state(
    x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
) -> SplineState:
    """Return the cubic spline through points of recorded heights."""
    x = _plain_knots(x, "CubicSpline")
    y, axis = _first_axis(y, axis)
    n = len(x)
    if shape_of(y)[0] != n:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    conditions, fixed = _split_conditions(bc_type, shape_of(y)[1:])
    if bc_type == "periodic":
        first, last = detach_array(_pick_first(y, 0)), detach_array(_pick_first(y, n - 1))
        if not np.allclose(first, last, rtol=1e-15, atol=1e-15):
            raise ValueError("The first and last `y` point must be identical when bc_type='periodic'.")
    slopes = _apply_matrix(find_slope_matrix(x.tobytes(), conditions), y)
    if fixed is not None:
        spline = load_scipy("scipy.interpolate").CubicSpline
        slopes = slopes + spline(x, np.zeros(shape_of(y)), bc_type=fixed)(x, 1)
    default = "periodic" if bc_type == "periodic" else True
    return make_hermite_state(x, y, slopes, axis, default if extrapolate is None else extrapolate)


@lru_cache(16)
def find_slope_matrix(knots: bytes, conditions: Any) -> Any:
    """Return the matrix that takes the heights of a cubic spline at its knots to its slopes there."""
    x = np.frombuffer(knots)
    n = len(x)
    basis = np.eye(n)
    if conditions == "periodic":
        basis[0, -1] = basis[-1, 0] = 0.5
        basis[0, 0] = basis[-1, -1] = 0.5
    free = conditions
    if not isinstance(conditions, str):
        free = tuple(bc if isinstance(bc, str) else (bc, np.zeros(n)) for bc in conditions)
    return load_scipy("scipy.interpolate").CubicSpline(x, basis, bc_type=free)(x, 1)


def _split_conditions(bc_type: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return conditions at the ends, as words or as orders of derivatives, and the given derivatives (None if none)."""
    if isinstance(bc_type, str):
        return bc_type, None
    free = tuple(bc if isinstance(bc, str) else int(bc[0]) for bc in bc_type)
    if all(isinstance(bc, str) for bc in bc_type):
        return free, None
    if any(not isinstance(bc, str) and is_wire(bc[1]) for bc in bc_type):
        raise _refuse("CubicSpline needs derivatives at the ends that are not recorded values")
    return free, tuple(bc if isinstance(bc, str) else (bc[0], np.broadcast_to(bc[1], shape)) for bc in bc_type)


def _spline_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    knots = np.array([0.0, 0.7, 1.5, 2.0, 3.1])
    points = np.array([0.2, 0.9, 1.7, 2.5, 3.4])
    conditions: list[Any] = ["not-a-knot", "natural", "clamped", ((1, 0.3), (2, -0.2)), ("natural", (1, 0.5))]
    places = tuple(knots.tolist())
    calls = [(points, places, rng.normal(size=5), {"bc_type": each}) for each in conditions]
    return [
        *calls,
        (points.reshape(5, 1), places, rng.normal(size=(5, 2)), {}),
        (points[:2], places[:3], rng.normal(size=3), {}),
    ]


@register_function(samples=_spline_calls)
def cubic_spline(x_new: Any, x: Any, y: Any, bc_type: Any = "not-a-knot", nu: int = 0) -> Any:
    """The cubic spline through points (x, y), or a derivative of it, at new places: SciPy's CubicSpline in one call."""
    return evaluate_pieces(make_spline_state(x, y, 0, bc_type), x_new, nu)


def _store_state(thing: Any, state: SplineState) -> None:
    """Make a SciPy object a recorded one."""
    thing.__dict__[STATE] = state
    for name, value in (("axis", state.axis), ("extrapolate", state.extrapolate)):
        setattr(thing, name, value)
    _set_attribute(thing, "c", state.c)
    _set_attribute(thing, "x", state.x)


def _set_attribute(thing: Any, name: str, value: Any) -> None:
    """Set what SciPy's own methods read: those without a rule find values there, and an error says so."""
    prefix = "_" if isinstance(getattr(type(thing), name, None), property) else ""
    setattr(thing, prefix + name, value)


def _read_state(thing: Any) -> SplineState:
    """Return the polynomials of a SciPy object, recorded or not."""
    state = thing.__dict__.get(STATE)
    if isinstance(state, SplineState):
        return state
    return SplineState(np.asarray(thing.c), np.asarray(thing.x), thing.axis, thing.extrapolate)


@register_scipy_method("scipy.interpolate.CubicSpline.__init__")
def init_cubic_spline(
    self: Any, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
) -> None:
    """Make a spline through points of recorded heights."""
    _store_state(self, make_spline_state(x, y, axis, bc_type, extrapolate))


@register_scipy_method("scipy.interpolate.CubicHermiteSpline.__init__")
def init_hermite_spline(self: Any, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None) -> None:
    """Make a spline of given heights and slopes."""
    knots = _plain_knots(x, "CubicHermiteSpline")
    heights, place = _first_axis(y, axis)
    slopes, _ = _first_axis(dydx, axis)
    _store_state(self, make_hermite_state(knots, heights, slopes, place, True if extrapolate is None else extrapolate))


@register_scipy_method("scipy.interpolate.PPoly.__init__")
def init_pieces(self: Any, c: Any, x: Any, extrapolate: Any = None, axis: int = 0) -> None:
    """Make a piecewise polynomial of recorded coefficients."""
    if axis:
        raise _refuse("PPoly has no rule for axis= with recorded values")
    knots = _plain_knots(x, "PPoly")
    _store_state(self, SplineState(_as_double(c), knots, 0, True if extrapolate is None else extrapolate))


@register_scipy_method("scipy.interpolate.PPoly.__call__")
def call_pieces(self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Evaluate a piecewise polynomial."""
    if type(self).__name__ == "BPoly":
        raise _refuse("BPoly has no rule for recorded values")
    return evaluate_pieces(_read_state(self), x, int(nu), extrapolate)


@register_scipy_method("scipy.interpolate.PPoly.derivative")
def differentiate_pieces(self: Any, nu: int = 1) -> Any:
    """Return the derivative of a piecewise polynomial."""
    state = _read_state(self)
    nu = int(nu)
    if nu < 0:
        return integrate_pieces(self, -nu)
    kept = max(state.degree - nu, 0) + 1
    factors = np.array([float(prod(range(power - nu + 1, power + 1))) for power in range(nu + kept - 1, nu - 1, -1)])
    if nu > state.degree:
        factors = factors * 0.0
    c = _pick_first(state.c, slice(0, kept)) * factors.reshape((-1,) + (1,) * (ndim_of(state.c) - 1))
    return _make_like(self, SplineState(c, state.x, state.axis, state.extrapolate))


@register_scipy_method("scipy.interpolate.PPoly.antiderivative")
def integrate_pieces(self: Any, nu: int = 1) -> Any:
    """Return the antiderivative of a piecewise polynomial that is 0 at the first knot."""
    state = _read_state(self)
    if nu <= 0:
        return differentiate_pieces(self, -nu)
    for _ in range(int(nu)):
        state = _integrate_once(state)
    return _make_like(self, state)


def _integrate_once(state: SplineState) -> SplineState:
    powers = np.arange(state.degree + 1, 0, -1.0).reshape((-1,) + (1,) * (ndim_of(state.c) - 1))
    raised = state.c / powers
    steps = np.diff(state.x).reshape((-1,) + (1,) * (ndim_of(state.c) - 2))
    areas: Any = 0.0
    for k in range(state.degree + 1):
        areas = (areas + _pick_first(raised, k)) * steps
    sums = TABLE["cumsum"](areas, axis=-ndim_of(areas), reverse=False)
    before = TABLE["concatenate"](
        np.zeros((1, *shape_of(areas)[1:])), _pick_first(sums, slice(0, -1)), axis=-ndim_of(areas)
    )
    last = TABLE["reshape"](before, rank=ndim_of(before), shape=(1, *shape_of(before)))
    c = TABLE["concatenate"](raised, last, axis=-ndim_of(raised))
    extrapolate = False if state.extrapolate == "periodic" else state.extrapolate
    return SplineState(c, state.x, state.axis, extrapolate)


def _make_like(thing: Any, state: SplineState) -> Any:
    """Return a piecewise polynomial of SciPy with recorded coefficients."""
    kind = load_scipy("scipy.interpolate").PPoly
    copy = kind(np.zeros((1, 1)), np.array([0.0, 1.0]))
    _store_state(copy, state)
    return copy


@register_scipy_method("scipy.interpolate.PPoly.integrate")
def integrate_between(self: Any, a: Any, b: Any, extrapolate: Any = None) -> Any:
    """Return the integral of a piecewise polynomial from a to b."""
    state = _read_state(self)
    if (state.extrapolate if extrapolate is None else extrapolate) == "periodic":
        raise _refuse("PPoly.integrate has no rule for periodic splines and recorded values")
    area = _integrate_once(state)
    return evaluate_pieces(area, b, 0, extrapolate) - evaluate_pieces(area, a, 0, extrapolate)


@register_scipy_method(*(f"scipy.interpolate.PPoly.{name}" for name in ("roots", "solve", "extend")))
def refuse_method(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse a method of a piecewise polynomial that has no rule."""
    raise _refuse(f"{type(self).__name__} made from recorded values has no rule for roots, solve and extend")


def _convert_bspline(t: Any, c: Any, k: int, axis: int, extrapolate: Any) -> SplineState:
    """Return a B-spline of plain coefficients as piecewise polynomials."""
    module = load_scipy("scipy.interpolate")
    columns = np.asarray(c).reshape(len(c), -1).T
    pieces = [module.PPoly.from_spline(module.BSpline(t, column, k)) for column in columns]
    joined = np.stack([np.asarray(each.c) for each in pieces], -1)
    return SplineState(joined.reshape(*joined.shape[:2], *np.shape(c)[1:]), np.asarray(pieces[0].x), axis, extrapolate)


def _drop_empty_pieces(state: SplineState) -> SplineState:
    """Return the polynomials without pieces of length 0, which repeated knots make."""
    kept = np.flatnonzero(np.diff(state.x) > 0.0)
    x = np.append(state.x[kept], state.x[kept[-1] + 1])
    return SplineState(np.ascontiguousarray(state.c[:, kept]), x, state.axis, state.extrapolate)


@register_scipy_method("scipy.interpolate.BSpline.__call__")
def call_bspline(self: Any, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """Evaluate a B-spline."""
    state = self.__dict__.get(STATE)
    if not isinstance(state, SplineState):
        if self.axis:
            raise _refuse("BSpline has no rule for axis= and recorded values")
        state = _drop_empty_pieces(_convert_bspline(self.t, self.c, self.k, 0, self.extrapolate))
    return evaluate_pieces(state, x, int(nu), extrapolate)


@register_scipy_method("scipy.interpolate.make_interp_spline")
def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> Any:
    """A B-spline through points of recorded heights."""
    if bc_type is not None and not isinstance(bc_type, str):
        raise _refuse("make_interp_spline needs bc_type as a word, such as 'natural', with recorded values")
    module = load_scipy("scipy.interpolate")
    knots = _plain_knots(x, "make_interp_spline")
    heights, place = _first_axis(y, axis)
    if bc_type == "periodic":
        raise _refuse("make_interp_spline has no rule for bc_type='periodic' and recorded values")
    basis = module.make_interp_spline(knots, np.eye(len(knots)), k, t, bc_type)
    state = _drop_empty_pieces(_convert_bspline(basis.t, basis.c, basis.k, place, True))
    degree, pieces, n = state.c.shape
    c = _apply_matrix(state.c.reshape(degree * pieces, n), heights)
    c = TABLE["reshape"](c, rank=ndim_of(c), shape=(degree, pieces, *shape_of(heights)[1:]))
    basis.__dict__[STATE] = SplineState(c, state.x, place, True)
    _set_attribute(basis, "c", _apply_matrix(np.asarray(basis.c), heights))
    return basis


@register_scipy_method("scipy.interpolate.splev")
def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """Evaluate a B-spline that `splrep` made, or a derivative of it."""
    if not isinstance(tck, tuple | list):
        return call_bspline(tck, x, der)
    t, c, k = tck
    if is_wire(c) or np.ndim(c) != 1 or ext not in (0, 1):
        raise _refuse("splev needs plain coefficients of one spline, and ext 0 or 1, with recorded values")
    c = np.asarray(c)[: len(t) - k - 1]
    state = _drop_empty_pieces(_convert_bspline(t, c, int(k), 0, True))
    y = evaluate_pieces(state, x, int(der))
    if ext == 0:
        return y
    outside = TABLE["logical_or"](TABLE["less"](x, state.x[0]), TABLE["greater"](x, state.x[-1]))
    return TABLE["where"](outside, 0.0, y)


STEP_KINDS = {"previous": 0, "zero": 0, "next": 1, "nearest": 2, "nearest-up": 2}
SPLINE_DEGREES: dict[Any, int] = {"slinear": 1, "quadratic": 2, "cubic": 3}


@dataclass(frozen=True)
class InterpolationState:
    """An interp1d object: its points, sorted, and what it returns beyond them."""

    x: Any
    y: Any
    kind: Any
    axis: int
    fill: Any
    bounds_error: bool

    def evaluate(self, x: Any) -> Any:
        """Return the heights at new places."""
        points = _as_double(x)
        inside = self.fill == "extrapolate" if isinstance(self.fill, str) else False
        if self.bounds_error:
            plain = detach_array(points)
            if np.any(plain < self.x[0]) or np.any(plain > self.x[-1]):
                raise ValueError("a value in x_new is outside the interpolation range.")
        y = self._evaluate_inside(points)
        if inside:
            return y
        below, above = self.fill if isinstance(self.fill, tuple) else (self.fill, self.fill)
        y = TABLE["where"](self._widen(TABLE["less"](points, self.x[0])), below, y)
        return TABLE["where"](self._widen(TABLE["greater"](points, self.x[-1])), above, y)

    def _widen(self, condition: Any) -> Any:
        """Give a condition on points the axes of the results."""
        rest = ndim_of(self.y) - 1
        count = ndim_of(condition)
        wide = TABLE["reshape"](condition, rank=count, shape=(*shape_of(condition), *(1,) * rest))
        return _move_result(wide, count, self.axis)

    def _evaluate_inside(self, points: Any) -> Any:
        heights = moveaxis(self.y, self.axis, 0)
        if self.kind in STEP_KINDS:
            return self._pick_steps(points, heights)
        if self.kind == "linear":
            steps = np.diff(self.x).reshape((-1,) + (1,) * (ndim_of(heights) - 1))
            rise = (_pick_first(heights, slice(1, None)) - _pick_first(heights, slice(None, -1))) / steps
            parts = [rise, _pick_first(heights, slice(None, -1))]
            rows = [TABLE["reshape"](part, rank=ndim_of(part), shape=(1, *shape_of(part))) for part in parts]
            c = TABLE["concatenate"](*rows, axis=-ndim_of(rows[0]))
            return evaluate_pieces(SplineState(c, self.x, self.axis, True), points)
        degree = SPLINE_DEGREES.get(self.kind, self.kind)
        if is_wire(self.y):
            return call_bspline(make_interp_spline(self.x, self.y, degree, axis=self.axis), points)
        plain = load_scipy("scipy.interpolate").make_interp_spline(self.x, np.asarray(heights), degree)
        state = _drop_empty_pieces(_convert_bspline(plain.t, plain.c, plain.k, self.axis, True))
        return evaluate_pieces(state, points)

    def _pick_steps(self, points: Any, heights: Any) -> Any:
        """Return the height of the point before, after or next to each new place; it changes in steps."""
        middles = (self.x[1:] + self.x[:-1]) / 2.0
        edges = {0: self.x[1:], 1: self.x[:-1], 2: middles}[STEP_KINDS[self.kind]]
        side = "left" if self.kind in ("next", "nearest") else "right"
        shape = shape_of(points)
        row = TABLE["reshape"](points, rank=len(shape), shape=(prod(shape),))
        places = TABLE["searchsorted"](edges, row, side=side)
        width = prod(shape_of(heights)[1:])
        flat = TABLE["reshape"](heights, rank=ndim_of(heights), shape=(len(self.x), width))
        y = TABLE["reshape"](TABLE["take"](flat, places, axis=-2), rank=2, shape=(*shape, *shape_of(heights)[1:]))
        return _move_result(y, len(shape), self.axis)


@register_scipy_method("scipy.interpolate.interp1d.__init__")
def init_interp1d(
    self: Any,
    x: Any,
    y: Any,
    kind: Any = "linear",
    axis: int = -1,
    copy: Any = True,
    bounds_error: Any = None,
    fill_value: Any = np.nan,
    assume_sorted: bool = False,
) -> None:
    """Make an interpolator of recorded heights."""
    knots = _plain_knots(x, "interp1d")
    y = _as_double(y)
    axis %= ndim_of(y)
    if shape_of(y)[axis] != len(knots):
        raise ValueError("x and y arrays must be equal in length along interpolation axis.")
    if not assume_sorted:
        order = np.argsort(knots, kind="mergesort")
        knots, y = knots[order], TABLE["take"](y, order, axis=axis - ndim_of(y))
    is_plain_fill = isinstance(fill_value, float) and np.isnan(fill_value)
    strict = bool(is_plain_fill if bounds_error is None else bounds_error)
    self.__dict__[STATE] = InterpolationState(knots, y, kind, axis, _read_fill(fill_value), strict)


def _read_fill(fill: Any) -> Any:
    return tuple(fill) if isinstance(fill, tuple | list) and len(fill) == 2 else fill


@register_scipy_method("scipy.interpolate.interp1d.__call__")
def call_interp1d(self: Any, x: Any) -> Any:
    """Evaluate an interpolator."""
    state = self.__dict__.get(STATE)
    if not isinstance(state, InterpolationState):
        kind = getattr(self, "_kind", None)
        if kind is None:
            raise _refuse(f"{type(self).__name__} has no rule for recorded values")
        if kind == "spline":
            kind = int(self._spline.k)
        fill = "extrapolate" if getattr(self, "_extrapolate", False) else _read_fill(self.fill_value)
        state = InterpolationState(
            np.asarray(self.x, float), np.asarray(self.y, float), kind, int(self.axis), fill, bool(self.bounds_error)
        )
    return state.evaluate(x)
