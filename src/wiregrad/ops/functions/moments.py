"""Variances, covariances and averages, and the norms of vectors and matrices."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.array import axes_from_end
from wiregrad.ops.flow import conjugate_flow, is_complex, shape_of, match_shape
from wiregrad.ops.functions.index import as_row, gather_along, reshape_to
from wiregrad.ops.functions.reduce import REDUCTION_SAMPLES, FLOAT32_ARRAY, cast_to, count_along, kept_shape, mean, reduce_along, sum_
from wiregrad.ops.functions.registry import FUNCTIONS_BY_NUMPY, register_function
from wiregrad.ops.functions.support import N, dtype_of, is_wire, lift, ndim_of, axis_from_end, sample_calls
from wiregrad.ops.reduce_records import merge_axes


def _square_magnitude(x: Any) -> Any:
    """Return the squared magnitude."""
    return TABLE["real"](conjugate_flow(x) * x) if is_complex(x) else TABLE["square"](x)


def _root_of_squares(x: Any) -> Any:
    """Return the root of a sum of squares; at 0 its gradient is 0, as for a norm, and the second derivative is NaN."""
    return TABLE["where"](TABLE["equal"](x, 0.0), TABLE["power"](x, 1.5), TABLE["sqrt"](x))


@register_function(
    np.var,
    method=True,
    samples=sample_calls(*REDUCTION_SAMPLES, (N(3, 2), {"axis": 0, "ddof": 1}), (N(4), {"correction": 1})),
)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """Variance along axes, or of everything."""
    a = cast_to(a, dtype)
    freedom = max(count_along(a, axes_from_end(axis, ndim_of(a))) - (ddof if correction is None else correction), 0)
    spread = _square_magnitude(a - mean(a, axis, keepdims=True))
    return sum_(spread, axis, keepdims=keepdims) / float(freedom)


@register_function(
    np.std,
    method=True,
    samples=sample_calls(
        (N(2, 3),),
        (N(2, 3), {"axis": 1, "keepdims": True}),
        (N(3, 2), {"axis": -2, "ddof": 1}),
        (N(2, 3, 2), {"axis": (0, -1)}),
        (FLOAT32_ARRAY, {"correction": 1}),
        (N(0, 3), {"axis": 1}),
    ),
)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """Standard deviation along axes, or of everything; where all elements are equal its gradient is 0."""
    return _root_of_squares(var(a, axis, dtype, ddof=ddof, keepdims=keepdims, correction=correction))


def _fit_weights(weights: Any, shape: tuple[int, ...], axis: Any) -> Any:
    """Return weights, given for a whole array or for some of its axes, in a form that broadcasts to its shape."""
    if shape_of(weights) == shape:
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = np.lib.array_utils.normalize_axis_tuple(axis, len(shape), argname="axis")
    if shape_of(weights) != tuple(shape[each] for each in axes):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    order = tuple(int(k) - len(axes) for k in np.argsort(axes))
    fitting = tuple(n if k in axes else 1 for k, n in enumerate(shape))
    return reshape_to(TABLE["permute"](weights, axes=order), fitting)


@register_function(
    np.average,
    samples=sample_calls(
        (N(2, 3),),
        (N(2, 3), {"axis": 1, "keepdims": True}),
        (N(2, 3), None, np.array([[0.5, 1.0, 2.0], [0.3, 0.8, 1.2]])),
        (N(2, 3), 1, np.array([0.5, 1.0, 2.0])),
        (N(2, 3, 2), (2, 0), np.array([[0.5, 1.0], [2.0, 1.5]]), {"keepdims": True}),
        (FLOAT32_ARRAY, {"weights": [1.0, 2.0, 3.0]}),
        (N(1),),
    ),
)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Weighted mean along axes, or of everything."""
    a = lift(a)
    if weights is None:
        y = mean(a, axis, keepdims=keepdims)
        scale = np.full((), count_along(a, axes_from_end(axis, ndim_of(a))), dtype_of(y))
    else:
        weights = _fit_weights(lift(weights), shape_of(a), axis)
        scale = sum_(cast_to(weights, np.result_type(dtype_of(a), dtype_of(weights))), axis, keepdims=keepdims)
        if not is_wire(scale) and np.any(scale == 0.0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        y = sum_(a * weights, axis, keepdims=keepdims) / scale
    return (y, match_shape(scale, y)) if returned else y


def _observation_rows(x: Any, dtype: Any, *, rowvar: bool) -> Any:
    """Return variables as the rows of a matrix."""
    x = lift(x)
    if ndim_of(x) > 2:
        raise ValueError("m has more than 2 dimensions")
    rows = cast_to(reshape_to(x, (1,) * (2 - ndim_of(x)) + shape_of(x)), dtype)
    return rows if rowvar or shape_of(rows)[0] == 1 else _transpose_matrix(rows)


def _transpose_matrix(x: Any) -> Any:
    return TABLE["permute"](x, axes=(-1, -2))


def _cov_weights(fweights: Any, aweights: Any) -> Any:
    factors = [np.asarray(weights, float) for weights in (fweights, aweights) if weights is not None]
    if any(weights.ndim > 1 or np.any(weights < 0) for weights in factors):
        raise ValueError("weights must have one axis and no negative numbers")
    return math.prod(factors[1:], start=factors[0]) if factors else None


def _degrees_of_freedom(count: int, free: float, weights: Any, aweights: Any) -> Any:
    """Return the divisor of a covariance of `count_along` observations, or of weighted ones."""
    if weights is None:
        return float(count - free)
    total = np.sum(weights)
    if not free:
        return total
    return total - (free if aweights is None else free * np.sum(weights * np.asarray(aweights)) / total)


@register_function(
    np.cov,
    samples=sample_calls(
        (N(3, 4),),
        (N(4),),
        (N(4), N(4)),
        (N(4, 2), {"rowvar": False}),
        (N(2, 4), {"bias": True}),
        (N(2, 4), {"ddof": 0, "aweights": [0.5, 1.0, 2.0, 1.0]}),
        (N(2, 4), {"fweights": [1, 2, 1, 3], "aweights": [0.5, 1.0, 2.0, 1.0]}),
        (N(1, 3),),
    ),
)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Covariances of variables, which are rows unless `rowvar` is false."""
    kinds = [dtype_of(x) for x in (m, y) if x is not None]
    wanted = np.result_type(*kinds, np.float64) if dtype is None else np.dtype(dtype)
    x = _observation_rows(m, wanted, rowvar=rowvar)
    if y is not None:
        x = TABLE["concatenate"](x, _observation_rows(y, wanted, rowvar=rowvar), axis=-2)
    weights = _cov_weights(fweights, aweights)
    free = ddof
    if free is None:
        free = 0 if bias else 1
    centre = mean(x, 1, keepdims=True)
    if weights is not None:
        centre = average(x, 1, weights, keepdims=True)
    factor = _degrees_of_freedom(shape_of(x)[1], free, weights, aweights)
    x = x - centre
    other = x if weights is None else x * weights
    covariances = TABLE["matmul"](x, conjugate_flow(_transpose_matrix(other))) * float(np.true_divide(1, max(factor, 0.0)))
    return reshape_to(covariances, tuple(n for n in shape_of(covariances) if n != 1))


@register_function(
    np.corrcoef,
    samples=sample_calls((N(3, 4),), (N(5), N(5)), (N(5, 2), {"rowvar": False}), (N(2, 6),), (N(2, 4), N(4)), (N(4, 3),)),
)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Correlations of variables, which are rows unless `rowvar` is false."""
    covariances = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(covariances):
        return covariances / covariances
    size = shape_of(covariances)[0]
    variance = gather_along(as_row(covariances), np.arange(0, size * size, size + 1), -1)
    deviation = TABLE["sqrt"](_real_and_imag(variance)[0])
    correlations = covariances / reshape_to(deviation, (size, 1)) / reshape_to(deviation, (1, size))
    real, *imaginary = (TABLE["clip"](part, -1.0, 1.0) for part in _real_and_imag(correlations))
    return real + imaginary[0] * 1j if imaginary else real


def _real_and_imag(x: Any) -> tuple[Any, ...]:
    return (TABLE["real"](x), TABLE["imag"](x)) if is_complex(x) else (x,)


def _inner_product(row: Any) -> Any:
    (length,) = shape_of(row)
    return TABLE["matmul"](reshape_to(row, (1, length)), reshape_to(row, (length, 1)))


def _vector_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    if order is None or order == 2:
        return _root_of_squares(TABLE["sum"](_square_magnitude(x), axes=axes, keepdims=keepdims))
    if order == 0:
        return cast_to(reduce_along("count_nonzero", x, axes, keepdims), abs(x).dtype)
    size = abs(x)
    if order == 1 or (order == math.inf and not count_along(x, axes)):
        return TABLE["sum"](size, axes=axes, keepdims=keepdims)
    if math.isinf(order):
        return TABLE["max" if order > 0 else "min"](size, axes=axes, keepdims=keepdims)
    total = TABLE["sum"](size ** float(order), axes=axes, keepdims=keepdims)
    length = total ** (1.0 / order)
    # A norm has no slope at 0; its minimum-norm subgradient there is 0.
    return TABLE["where"](TABLE["equal"](total, 0.0), total**1.5, length) if order > 0 else length


def _singular_values(x: Any, row: int, column: int) -> Any:
    order = (*(axis for axis in range(-ndim_of(x), 0) if axis not in (row, column)), row, column)
    return FUNCTIONS_BY_NUMPY[np.linalg.svd].run(TABLE["permute"](x, axes=order), compute_uv=False)


def _matrix_norm(x: Any, order: Any, row: int, column: int) -> Any:
    if order is None or order in ("fro", "f"):
        return _root_of_squares(TABLE["sum"](_square_magnitude(x), axes=tuple(sorted((row, column))), keepdims=False))
    spectral = {"nuc": "sum", 2: "max", -2: "min"}.get(order)
    if spectral:
        return TABLE[spectral](_singular_values(x, row, column), axes=(-1,), keepdims=False)
    if order not in (1, -1, math.inf, -math.inf):
        raise ValueError("Invalid norm order for matrices.")
    added, left = (row, column) if abs(order) == 1 else (column, row)
    sums = TABLE["sum"](abs(x), axes=(added,), keepdims=False)
    # The sum removed an axis, so the index from the end of an axis before it is now one less in magnitude.
    return TABLE["max" if order > 0 else "min"](sums, axes=(left + (left < added),), keepdims=False)


@register_function(
    np.linalg.norm,
    samples=sample_calls(
        (N(4),),
        (N(2, 3),),
        (N(2, 3), {"axis": 1, "keepdims": True}),
        (N(2, 3), {"ord": "fro", "keepdims": True}),
        (N(2, 3, 2), {"axis": (0, -1)}),
        (N(4), {"ord": 1}),
        (N(2, 4), {"ord": math.inf, "axis": -1}),
        (N(4, 2), {"ord": -math.inf, "axis": 0}),
        (N(4), {"ord": 3}),
        (N(4), {"ord": 2.5}),
        (N(2, 4), {"ord": -1, "axis": 1}),
        (N(2, 3), {"ord": 1}),
        (N(2, 3, 2), {"ord": math.inf, "axis": (2, 0)}),
        (N(3, 2, 2), {"ord": -1, "axis": (0, 1), "keepdims": True}),
        (N(3, 2), {"ord": -math.inf}),
        (FLOAT32_ARRAY,),
        (N(1),),
        (N(0, 3), {"axis": 1}),
        (0.7,),
    ),
)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Length of vectors or size of matrices; the gradient at 0 is 0."""
    x = lift(x)
    shape = shape_of(x)
    ndim = ndim_of(x)
    everything = axis is None and (ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1))
    if everything:
        # NumPy uses an inner product here and a sum elsewhere, which round differently.
        square = functools.reduce(operator.add, [_inner_product(row) for row in _real_and_imag(as_row(x))])
        return reshape_to(_root_of_squares(square), (1,) * ndim if keepdims else ())
    if axis is None:
        axes: tuple[Any, ...] = tuple(range(ndim))
    else:
        axes = axis if isinstance(axis, tuple) else (axis,)
    if len(axes) == 1:
        return _vector_norm(x, ord, axes_from_end(axes, ndim), bool(keepdims))
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    first, second = (axis_from_end(each, ndim) for each in axes)
    if first == second:
        raise ValueError("Duplicate axes given.")
    y = _matrix_norm(x, ord, first, second)
    return reshape_to(y, kept_shape(shape, (first, second))) if keepdims else y


@register_function(
    np.linalg.vector_norm,
    samples=sample_calls(
        (N(4),),
        (N(2, 3),),
        (N(2, 3), {"axis": 1, "keepdims": True}),
        (N(2, 3, 2), {"axis": (0, 2), "ord": 1}),
        (N(2, 3), {"ord": 3, "keepdims": True}),
        (N(1),),
    ),
)
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Length of vectors, along one axis or several."""
    shape = shape_of(x)
    axes = axes_from_end(axis, len(shape))
    y = _vector_norm(merge_axes(x, axes), ord, (-1,), keepdims=False)
    return reshape_to(y, kept_shape(shape, axes)) if keepdims else y


@register_function(
    np.linalg.matrix_norm,
    samples=sample_calls(
        (N(2, 3),),
        (N(2, 3, 2),),
        (N(2, 3), {"keepdims": True}),
        (N(2, 3), {"ord": 1}),
        (N(3, 2), {"ord": math.inf}),
        (N(1, 1),),
    ),
)
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Size of the matrices in the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)
