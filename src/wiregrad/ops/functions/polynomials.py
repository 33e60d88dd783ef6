"""Polynomials and splines: NumPy's `polyfit` and its relatives, and the classes of `scipy.interpolate`.

A polynomial is the array of its coefficients, the highest power first. The classes of `scipy.interpolate` are made from
values, or called with values.

A spline through points is linear in their heights. So the matrix that takes heights to slopes is computed once, by
SciPy, for plain knots, and a spline of recorded heights is a product with it. Knots are constants. A SciPy object made
from values keeps its recorded coefficients in its attribute `STATE`, and its methods are taught to read them there.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.functions.elements import vander
from wiregrad.ops.functions.linalg import eigvals, inv, lstsq, matmul, matrix_transpose
from wiregrad.ops.functions.network import convolve
from wiregrad.ops.functions.reduce import all_, sort, sum_
from wiregrad.ops.functions.registry import (
    N,
    detach_array,
    dtype_of,
    find_plain_function,
    lift,
    load_scipy,
    ndim_of,
    register_function,
    register_scipy_method,
    sample_calls,
)
from wiregrad.ops.functions.shape import (
    concatenate,
    gather_along,
    moveaxis,
    nonzero,
    pick_elements,
    reshape_to,
    stack,
    transpose,
)
from wiregrad.ops.gradient_flow import conjugate_flow, is_wire, shape_of

_PAIR_SAMPLES = sample_calls(
    (N(3), N(3)), (N(4), N(2)), (N(1), N(3)), (N(2), [1.0, 2.0, 0.5]), (N(1), N(1)), (N(5), N(4))
)


def _as_coefficients(p: Any) -> Any:
    p = lift(p)
    return p if ndim_of(p) else reshape_to(p, (1,))


def _extend_front(p: Any, length: int) -> Any:
    """Return coefficients with zeros in front, up to a length."""
    missing = length - shape_of(p)[0]
    return concatenate([np.zeros(missing, dtype_of(p)), p]) if missing > 0 else p


def _drop_leading_zeros(p: Any, instead: str) -> Any:
    """Return coefficients without the zeros in front, a single 0 if all are 0; raises if one of them is recorded.

    NumPy drops them; but the result depends on them, and that gradient would be lost.
    """
    p = _as_coefficients(p)
    (places,) = nonzero(p)
    if len(places) and not places[0]:
        return p
    if is_wire(p):
        raise NoRuleError(
            f"the first coefficient is 0, and its gradient would be lost with it: write {instead}{format_user_line()}"
        )
    return pick_elements(p, slice(int(places[0]), None)) if len(places) else np.zeros(1, dtype_of(p))


@register_function(np.polyadd, samples=_PAIR_SAMPLES)
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    one, two = _as_coefficients(a1), _as_coefficients(a2)
    length = max(shape_of(one)[0], shape_of(two)[0])
    return _extend_front(one, length) + _extend_front(two, length)


@register_function(np.polysub, samples=_PAIR_SAMPLES)
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    one, two = _as_coefficients(a1), _as_coefficients(a2)
    length = max(shape_of(one)[0], shape_of(two)[0])
    return _extend_front(one, length) - _extend_front(two, length)


@register_function(np.polymul, samples=_PAIR_SAMPLES)
def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials."""
    one, two = (_drop_leading_zeros(p, "np.convolve(a1, a2), which keeps it") for p in (a1, a2))
    return convolve(one, two)


# NumPy drops what is left of the cancelled coefficients if it is below 1e-8, which rounding decides for larger ones.
_SMALL_NUMBERS = np.array([0.004, -0.003, 0.002, 0.005, -0.001])


@register_function(
    np.polydiv,
    samples=sample_calls(
        (_SMALL_NUMBERS[:4], np.array([2.0, -0.5])),
        (_SMALL_NUMBERS[:3], np.array([2.0, 0.5, 1.0])),
        (_SMALL_NUMBERS[1:3], np.array([2.0, 0.5, 1.0])),
        (_SMALL_NUMBERS, np.array([-0.5, 0.5, 2.0])),
        (_SMALL_NUMBERS[2:], np.array([2.0, 1.0])),
        (_SMALL_NUMBERS[:1], np.array([0.5, 0.25])),
    ),
)
def polydiv(u: Any, v: Any) -> Any:
    """The quotient and the remainder of two polynomials."""
    rest = _as_coefficients(u) + 0.0
    divisor = _as_coefficients(v) + 0.0
    length = shape_of(rest)[0]
    size = shape_of(divisor)[0]
    scale = 1.0 / pick_elements(divisor, 0)
    quotient = []
    for k in range(length - size + 1):
        factor = scale * pick_elements(rest, k)
        quotient.append(factor)
        sides = np.zeros(k, dtype_of(rest)), np.zeros(length - size - k, dtype_of(rest))
        rest = rest - concatenate([sides[0], factor * divisor, sides[1]])
    while shape_of(rest)[0] > 1 and np.allclose(detach_array(pick_elements(rest, 0)), 0, rtol=1e-14):
        rest = pick_elements(rest, slice(1, None))
    return stack(quotient) if quotient else np.zeros(1, dtype_of(rest)), rest


@register_function(
    np.polyder, samples=sample_calls((N(4),), (N(4), 2), (N(3), {"m": 0}), (N(1),), (N(2), 2), (N(5), {"m": 3}))
)
def polyder(p: Any, m: int = 1) -> Any:
    """The derivative of a polynomial, taken `m` times."""
    if int(m) < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    p = lift(p)
    for _ in range(int(m)):
        p = pick_elements(p, slice(None, -1)) * np.arange(shape_of(p)[0] - 1, 0, -1)
    return p


@register_function(
    np.polyint,
    samples=sample_calls((N(4),), (N(3), 2), (N(3), 1, 0.5), (N(2), 2, N(2)), (N(3), {"m": 0}), (N(1), 1, N(1))),
)
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """The integral of a polynomial, taken `m` times; `k` are the constants."""
    count = int(m)
    if count < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = np.zeros(count) if k is None else _as_coefficients(k)
    if shape_of(constants)[0] == 1 and count > 1:
        constants = constants * np.ones(count)
    if shape_of(constants)[0] < count:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    p = lift(p)
    for step in range(count):
        p = concatenate([p / np.arange(shape_of(p)[0], 0, -1), pick_elements(constants, slice(step, step + 1))])
    return p


@register_function(
    np.polyfit,
    samples=sample_calls(
        (np.array([0.0, 0.5, 1.2, 2.0, 2.5]), N(5), 2),
        (np.array([0.0, 0.5, 1.2, 2.0]), N(4, 2), 1),
        (np.array([0.0, 0.5, 1.2, 2.0]), N(4), 3),
        (np.array([0.0, 0.5, 1.2, 2.0, 2.5]), N(5), 1, {"w": np.array([1.0, 2.0, 0.5, 1.0, 1.5])}),
        (np.array([0.5, 1.2]), N(2), 0),
        (np.array([0.0, 0.5, 1.2, 2.0, 2.5, 3.0]), N(6), 1, {"cov": "unscaled"}),
        (np.array([0.0, 0.5, 1.2, 2.0, 2.5, 3.0]), N(6), 1, {"cov": True}),
    ),
)
def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The polynomial of a degree that fits points best, by least squares."""
    order = int(deg) + 1
    x = lift(x) + 0.0
    y = lift(y) + 0.0
    _check_points(x, y, order)
    cut = shape_of(x)[0] * float(np.finfo(dtype_of(x)).eps) if rcond is None else rcond
    left = vander(x, order)
    if w is not None:
        weights = _check_weights(lift(w) + 0.0, y)
        left = left * reshape_to(weights, (*shape_of(weights), 1))
        y = y * (reshape_to(weights, (*shape_of(weights), 1)) if ndim_of(y) == 2 else weights)
    scale = TABLE["sqrt"](sum_(left * left, 0))
    left = left / scale
    solution, squares, rank, singular = lstsq(left, y, cut)
    fit = solution / (reshape_to(scale, (order, 1)) if ndim_of(y) == 2 else scale)
    if full:
        return fit, squares, rank, singular, cut
    if not is_wire(rank) and rank != order:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    return (fit, _fit_covariance(left, scale, squares, y, cov)) if cov else fit


def _check_points(x: Any, y: Any, order: int) -> None:
    if order < 1:
        raise ValueError("expected deg >= 0")
    if ndim_of(x) != 1:
        raise TypeError("expected 1D vector for x")
    if not shape_of(x)[0]:
        raise TypeError("expected non-empty vector for x")
    if ndim_of(y) not in (1, 2):
        raise TypeError("expected 1D or 2D array for y")
    if shape_of(x)[0] != shape_of(y)[0]:
        raise TypeError("expected x and y to have same length")


def _check_weights(weights: Any, y: Any) -> Any:
    if ndim_of(weights) != 1:
        raise TypeError("expected a 1-d array for weights")
    if shape_of(weights)[0] != shape_of(y)[0]:
        raise TypeError("expected w and y to have the same length")
    return weights


def _fit_covariance(left: Any, scale: Any, squares: Any, y: Any, cov: Any) -> Any:
    """Return the covariance of the coefficients of a fit."""
    count, order = shape_of(left)
    base = inv(matmul(matrix_transpose(left), left)) / (reshape_to(scale, (order, 1)) * reshape_to(scale, (1, order)))
    factor: Any = 1.0
    if cov != "unscaled":
        if count <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = squares / float(count - order)
    return base * factor if ndim_of(y) == 1 else reshape_to(base, (order, order, 1)) * factor


@register_function(
    np.roots,
    samples=sample_calls(
        (np.array([1.0, -6.0, 11.0, -6.0]),),
        (np.array([1.0, 0.5, 2.0]),),
        (np.array([2.0, 1.0, -3.0]),),
        (np.array([0.5, 2.0, 1.0, -3.0]),),
        (np.array([2.0, 1.0]),),
        (np.array([1.0, 2.0, -0.5, 0.75, -3.0]),),
    ),
)
def roots(p: Any) -> Any:
    """The zeros of a polynomial; where two are equal, their gradient is inf or NaN."""
    p = _as_coefficients(p)
    if ndim_of(p) != 1:
        raise ValueError("Input must be a rank-1 array.")
    if not is_wire(p):
        return np.roots(p)
    p = _drop_leading_zeros(p, "np.roots(p[1:])")
    length = shape_of(p)[0]
    if length < 2:
        return np.array([])
    first_row = -pick_elements(p, slice(1, None)) / pick_elements(p, 0)
    below = np.eye(length - 2, length - 1, dtype=dtype_of(first_row))
    zeros = eigvals(concatenate([reshape_to(first_row, (1, length - 1)), below]))
    # NumPy leaves out zeros at 0 and appends them. Here they stay in the matrix: they move with the last coefficients.
    at_zero = detach_array(TABLE["equal"](zeros, 0.0))
    return gather_along(zeros, np.argsort(at_zero, kind="stable"), -1) if at_zero.any() else zeros


@register_function(
    np.poly,
    samples=sample_calls(
        (N(3),),
        (N(1),),
        (np.array([0.5 + 1.0j, 0.5 - 1.0j, 2.0]),),
        (np.array([0.5 + 1.0j, 1.5 - 1.0j]),),
        (N(4),),
        (np.array([[1.0, 2.0], [0.5, 3.0]]),),
    ),
)
def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with these zeros, or the characteristic polynomial of a matrix."""
    zeros = _as_coefficients(seq_of_zeros)
    shape = shape_of(zeros)
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        zeros = eigvals(zeros)
    elif len(shape) != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    elif not shape[0]:
        return 1.0
    if dtype_of(zeros) == np.float16:
        zeros = TABLE["cast"](zeros, dtype="float64")
    y: Any = np.ones(1, dtype_of(zeros))
    for k in range(shape_of(zeros)[0]):
        y = convolve(y, concatenate([np.ones(1, dtype_of(zeros)), -pick_elements(zeros, slice(k, k + 1))]))
    is_paired = dtype_of(y).kind == "c" and bool(all_(TABLE["equal"](sort(zeros), sort(conjugate_flow(zeros)))))
    return TABLE["real"](y) if is_paired else y


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


SERIES = {
    "polynomial": ("polyval", "polyvalfromroots"),
    "chebyshev": ("chebval",),
    "legendre": ("legval",),
    "hermite": ("hermval",),
    "hermite_e": ("hermeval",),
    "laguerre": ("lagval",),
}
"""The functions of `numpy.polynomial` that evaluate a series, by module."""


def _register_series(module: str, name: str) -> None:
    @register_scipy_method(f"numpy.polynomial.{module}.{name}")
    def evaluate_series(x: Any, c: Any, tensor: bool = True) -> Any:
        """Evaluate series at wires; NumPy gives every series all points only if the points are an `np.ndarray`."""
        evaluate = find_plain_function(getattr(sys.modules[f"numpy.polynomial.{module}"], name))
        if not is_wire(x) or not tensor or not ndim_of(x):
            return evaluate(x, c, tensor)
        c = lift(c)
        return evaluate(x, reshape_to(c, shape_of(c) + (1,) * ndim_of(x)), False)


for _module, _names in SERIES.items():
    for _name in _names:
        _register_series(_module, _name)


def _refuse(what: str) -> NoRuleError:
    return NoRuleError(f"scipy.interpolate: {what}{format_user_line()}")


def _as_double(x: Any) -> Any:
    x = lift(x)
    dtype = np.complex128 if dtype_of(x).kind == "c" else np.float64
    return x if dtype_of(x) == dtype else TABLE["cast"](x, dtype=np.dtype(dtype).name)


def _plain_knots(x: Any, name: str) -> Any:
    """Return knots as a plain array; they are constants."""
    if is_wire(x):
        raise _refuse(
            f"{name} needs knots x that are not recorded values; pass them as a plain array, or write "
            "np.interp(at, x, heights), which is linear between knots and has their gradients"
        )
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
