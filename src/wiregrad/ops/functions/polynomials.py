"""Polynomials by their coefficients, the highest power first, as in NumPy's `polyfit` and its relatives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.functions.linalg import eigvals, inv, lstsq, matmul, matrix_transpose
from wiregrad.ops.functions.network import convolve
from wiregrad.ops.functions.pointwise import vander
from wiregrad.ops.functions.reduce import all_, sort, sum_
from wiregrad.ops.functions.registry import N, detach_array, dtype_of, lift, ndim_of, register_function, sample_calls
from wiregrad.ops.functions.shape import concatenate, gather_along, nonzero, pick_elements, reshape_to, stack
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
    y: Any = np.ones(1, dtype_of(zeros))
    for k in range(shape_of(zeros)[0]):
        y = convolve(y, concatenate([np.ones(1, dtype_of(zeros)), -pick_elements(zeros, slice(k, k + 1))]))
    is_paired = dtype_of(y).kind == "c" and bool(all_(TABLE["equal"](sort(zeros), sort(conjugate_flow(zeros)))))
    return TABLE["real"](y) if is_paired else y
