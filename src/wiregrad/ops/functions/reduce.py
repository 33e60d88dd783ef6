"""Functions along axes: sums and scans, order and quantiles, moments and norms, differences.

What NumPy computes in steps is computed by the same steps, so that results round alike.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from wiregrad.ir import TABLE, Op
from wiregrad.ops.array_ops import axes_from_end, axis_from_end, convert_axes, require_axis
from wiregrad.ops.functions.registry import (
    FUNCTIONS,
    FUNCTIONS_BY_NUMPY,
    N,
    SampleMaker,
    dtype_of,
    lift,
    ndim_of,
    plan_by_shape,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import as_row, gather_along, getitem, pick_elements, reshape_to, stretch_to
from wiregrad.ops.gradient_flow import conjugate_flow, is_complex, is_nowhere, is_wire, match_shape, shape_of
from wiregrad.ops.reduce_records import drop_first, drop_last, merge_axes, slice_axis


def cast_to(x: Any, dtype: Any) -> Any:
    """Cast x to a dtype, unless that is None."""
    return lift(x) if dtype is None else TABLE["cast"](x, dtype=np.dtype(dtype).name)


def row_and_axis(x: Any, axis: Any) -> tuple[Any, int]:
    """Return x and an axis counted from the end; if the axis is None, x is flattened."""
    x = lift(x)
    return (as_row(x), -1) if axis is None else (x, axis_from_end(axis, ndim_of(x)))


def count_along(x: Any, axes: tuple[int, ...]) -> int:
    """Return the number of elements that a reduction along axes makes one."""
    return math.prod(shape_of(x)[axis] for axis in axes)


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with length 1 for some axes, as `keepdims` keeps them."""
    return tuple(1 if k - len(shape) in axes else n for k, n in enumerate(shape))


def reduce_along(name: str, x: Any, axis: Any, keepdims: Any) -> Any:
    """Reduce x along axes in NumPy's form with the op of a name."""
    x = lift(x)
    ndim = ndim_of(x)
    return _bind_reduction(name, axes_from_end(number_axis(axis, ndim), ndim), bool(keepdims))(x)


def number_axis(axis: Any, ndim: int) -> Any:
    """Return an axis; None for axis 0 or -1 of a number, which many functions of NumPy accept.

    >>> number_axis(0, 0), number_axis(0, 2)
    (None, 0)
    """
    if ndim or axis is None or isinstance(axis, tuple | list):
        return axis
    return None if require_axis(axis) in (0, -1) else axis


def keep_where(x: Any, where: Any, instead: Any) -> Any:
    """Return x with another number where the mask of a reduction is false."""
    if where is True:
        return lift(x)
    x = lift(x)
    mask = _fit_mask(where, shape_of(x))
    return TABLE["where"](mask, x, instead)


def _fit_mask(where: Any, shape: tuple[int, ...]) -> Any:
    """Return the mask of a reduction in the shape of its array."""
    mask = lift(where)
    if dtype_of(mask).kind != "b":
        raise TypeError(f"where= is a mask of bools; got {dtype_of(mask)}")
    return stretch_to(mask, shape)


def _count_where(x: Any, where: Any, axis: Any, keepdims: bool, dtype: Any) -> Any:
    """Return how many elements a reduction reads, as one number or, with a mask, as an array."""
    if where is True:
        return float(count_along(x, axes_from_end(axis, ndim_of(x))))
    return cast_to(sum_(_fit_mask(where, shape_of(x)), axis, keepdims=keepdims), dtype)


@lru_cache(maxsize=1024)
def _bind_reduction(name: str, axes: tuple[int, ...], keepdims: bool) -> Op:
    return TABLE[name].bind({"axes": axes, "keepdims": keepdims})


FLOAT32_ARRAY = np.arange(1.0, 4.0, dtype=np.float32)


_ARRAY_WITH_ZEROS = np.array([[2.0, 0.0, -3.0], [0.0, 1.5, 0.0]])


_ARRAY_WITH_NANS = np.array([[1.0, math.nan, -2.0], [0.5, 3.0, math.nan]])


REDUCTION_SAMPLES: tuple[Any, ...] = (
    (N(2, 3),),
    (N(2, 3), {"axis": 1, "keepdims": True}),
    (N(3, 2), {"axis": -2}),
    (N(2, 3, 2), {"axis": (0, -1)}),
    (N(2, 2), {"keepdims": True}),
    (FLOAT32_ARRAY, {"axis": 0}),
    (N(1),),
    (0.7,),
    (N(0, 3), {"axis": 1}),
)


_REDUCTION_MASK = np.array([[True, False, True], [False, True, True]])


# Sums of these are exact: NumPy adds in another order where it skips elements or starts from a number.
_EXACT_ARRAY = np.array([[0.5, -1.25, 2.0], [1.5, 0.75, -0.5]])


_MASKED_SAMPLES: tuple[Any, ...] = (
    (_EXACT_ARRAY, {"where": _REDUCTION_MASK}),
    (_EXACT_ARRAY, {"axis": 1, "where": _REDUCTION_MASK[0], "keepdims": True}),
)


_INITIAL_SAMPLES: tuple[Any, ...] = (
    (_EXACT_ARRAY[0], {"initial": 0.25}),
    (_EXACT_ARRAY, {"axis": 1, "where": _REDUCTION_MASK, "initial": 0.25}),
    (N(2, 0), {"axis": 1, "initial": 0.25}),
)


_EMPTY_REDUCTION_SAMPLES: tuple[Any, ...] = (*REDUCTION_SAMPLES, (N(0, 3), {"axis": 0}))


_SCAN_SAMPLES: tuple[Any, ...] = (
    (N(5),),
    (N(2, 3),),
    (N(2, 3), {"axis": 1}),
    (N(3, 2, 2), {"axis": -2}),
    (FLOAT32_ARRAY,),
    (N(1),),
    (0.7,),
    (N(0, 3), {"axis": 0}),
)


_SOFTMAX_SAMPLES: tuple[Any, ...] = (
    (N(4),),
    (N(2, 3), {"axis": 0}),
    (np.array([[1000.0, 1001.0], [999.5, 1000.2]]), {"axis": None}),
    (N(2, 3, 2), {"axis": (0, -1)}),
    (FLOAT32_ARRAY,),
    (N(1),),
    (N(2, 0),),
)


_FIRST_AXIS_SAMPLES: tuple[Any, ...] = (
    (N(4),),
    (N(2, 3),),
    (N(2, 3), {"axis": 1}),
    (N(3, 2, 2), {"axis": -2}),
    (FLOAT32_ARRAY,),
    (N(1),),
    (N(2, 0),),
)


@register_function(
    np.sum,
    method=True,
    samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES, *_MASKED_SAMPLES, *_INITIAL_SAMPLES, (0.7, {"axis": 0})),
)
def sum_(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """Sum along axes, or of everything."""
    x = cast_to(a, dtype)
    total = reduce_along("sum", x if where is True else keep_where(x, where, 0), axis, keepdims)
    return total if initial is None else total + _as_initial(initial, total)


def _as_initial(initial: Any, like: Any) -> Any:
    """Return the number that a reduction starts from, in the dtype of its result."""
    return initial if is_wire(initial) else dtype_of(like).type(initial)


@register_function(np.mean, method=True, samples=sample_calls(*REDUCTION_SAMPLES, *_MASKED_SAMPLES))
def mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Arithmetic mean along axes, or of everything."""
    a = lift(a)
    axes_from_end(axis, ndim_of(a))
    is_half = dtype is None and dtype_of(a) == np.float16
    # NumPy adds float16 up in float32.
    total = sum_(a, axis, np.float32 if is_half else dtype, keepdims=keepdims, where=where)
    if where is not True and dtype_of(total).kind not in "fc":
        total = cast_to(total, float)
    y = total / _count_where(a, where, axis, keepdims, dtype_of(total))
    return cast_to(y, np.float16) if is_half else y


def _reduce_to_extreme(name: str, pair: str, x: Any, axis: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    """Reduce x to its extreme elements; `pair` is the op that compares them with the number to start from."""
    if initial is None:
        if where is not True:
            raise ValueError(
                f"{name} with where= needs initial=: where the mask is false everywhere, that is the result"
            )
        return reduce_along(name, x, axis, keepdims)
    x = lift(x)
    start = _as_initial(initial, x)
    axes = axes_from_end(number_axis(axis, ndim_of(x)), ndim_of(x))
    if count_along(x, axes):
        return TABLE[pair](reduce_along(name, keep_where(x, where, start), axis, keepdims), start)
    kept = kept_shape(shape_of(x), axes)
    rest = tuple(n for k, n in enumerate(shape_of(x)) if k - len(kept) not in axes)
    return stretch_to(lift(start), kept if keepdims else rest)


@register_function(
    np.max,
    np.amax,
    method=True,
    samples=sample_calls(*REDUCTION_SAMPLES, *_INITIAL_SAMPLES, (0.7, {"axis": -1})),
)
def max_(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Largest element along axes, or of all; equal ones share the gradient."""
    return _reduce_to_extreme("max", "maximum", a, axis, keepdims, initial, where)


@register_function(
    np.min,
    np.amin,
    method=True,
    samples=sample_calls(*REDUCTION_SAMPLES, *_INITIAL_SAMPLES, (0.7, {"axis": -1})),
)
def min_(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Smallest element along axes, or of all; equal ones share the gradient."""
    return _reduce_to_extreme("min", "minimum", a, axis, keepdims, initial, where)


@register_function(
    np.prod,
    method=True,
    samples=sample_calls(
        *_EMPTY_REDUCTION_SAMPLES, *_MASKED_SAMPLES, *_INITIAL_SAMPLES, (_ARRAY_WITH_ZEROS, {"axis": 1})
    ),
)
def prod(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """Product along axes, or of everything; exact where factors are 0."""
    product = reduce_along("prod", keep_where(cast_to(a, dtype), where, 1), axis, keepdims)
    return product if initial is None else product * _as_initial(initial, product)


@register_function(np.ptp, samples=sample_calls(*REDUCTION_SAMPLES))
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Distance from the smallest to the largest element along axes, or of all."""
    return max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims)


@register_function(np.any, method=True)
def any_(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Whether at least one element is not 0."""
    return reduce_along("any", keep_where(a, where, False), axis, keepdims)


@register_function(np.all, method=True)
def all_(a: Any, axis: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Whether no element is 0."""
    return reduce_along("all", keep_where(a, where, True), axis, keepdims)


@register_function(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements are not 0."""
    return reduce_along("count_nonzero", a, axis, keepdims)


def _without_nan(x: Any, instead: float) -> Any:
    return TABLE["where"](TABLE["isnan"](x), instead, x)


@register_function(np.nansum, samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nansum(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """Sum of all that is not NaN, along axes or of everything."""
    return sum_(_without_nan(a, 0.0), axis, dtype, keepdims=keepdims, initial=initial, where=where)


@register_function(np.nanprod, samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True
) -> Any:
    """Product of all that is not NaN, along axes or of everything."""
    return prod(_without_nan(a, 1.0), axis, dtype, keepdims=keepdims, initial=initial, where=where)


@register_function(
    np.nanmean, samples=sample_calls(*REDUCTION_SAMPLES, *_MASKED_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1}))
)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = True) -> Any:
    """Mean of all that is not NaN, along axes or of everything."""
    total = nansum(a, axis, dtype, keepdims=keepdims, where=where)
    return total / count_present(a, axis, keepdims, where, dtype_of(total))


def count_present(a: Any, axis: Any, keepdims: bool, where: Any, dtype: Any) -> Any:
    """Return how many elements are not NaN, along axes or of all."""
    present = TABLE["logical_not"](TABLE["isnan"](a))
    return cast_to(sum_(present, axis, keepdims=keepdims, where=where), dtype)


@register_function(
    np.nanmax, samples=sample_calls(*REDUCTION_SAMPLES, *_INITIAL_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1}))
)
def nanmax(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Largest element that is not NaN, along axes or of all."""
    return _reduce_to_extreme("nanmax", "fmax", a, axis, keepdims, initial, where)


@register_function(
    np.nanmin, samples=sample_calls(*REDUCTION_SAMPLES, *_INITIAL_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1}))
)
def nanmin(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = True) -> Any:
    """Smallest element that is not NaN, along axes or of all."""
    return _reduce_to_extreme("nanmin", "fmin", a, axis, keepdims, initial, where)


@register_function(np.cumsum, method=True, samples=sample_calls(*_SCAN_SAMPLES))
def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Running sum along an axis, or of everything in one row."""
    x, along = row_and_axis(cast_to(a, dtype), number_axis(axis, ndim_of(lift(a))))
    return TABLE["cumsum"](x, axis=along, reverse=False)


@register_function(
    np.cumprod,
    method=True,
    samples=sample_calls(*_SCAN_SAMPLES, (_ARRAY_WITH_ZEROS,)),
)
def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Running product along an axis, or of everything in one row; exact where factors are 0."""
    x, along = row_and_axis(cast_to(a, dtype), number_axis(axis, ndim_of(lift(a))))
    return TABLE["cumprod"](x, axis=along, reverse=False)


@register_function(np.nancumsum, samples=sample_calls(*_SCAN_SAMPLES))
def nancumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Running sum in which a NaN counts as 0."""
    return cumsum(_without_nan(a, 0.0), axis, dtype)


@register_function(np.nancumprod, samples=sample_calls(*_SCAN_SAMPLES))
def nancumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Running product in which a NaN counts as 1."""
    return cumprod(_without_nan(a, 1.0), axis, dtype)


@register_function(method=True, samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES))
def logsumexp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) along axes, or of everything, without overflow."""
    return reduce_along("logsumexp", x, axis, keepdims)


@register_function(method=True, samples=sample_calls(*_SOFTMAX_SAMPLES))
def softmax(x: Any, axis: Any = -1) -> Any:
    """exp(x) / sum(exp(x)) along an axis, without overflow."""
    x = lift(x)
    return TABLE["softmax"](x, axes=axes_from_end(axis, ndim_of(x)))


@register_function(method=True, samples=sample_calls(*_SOFTMAX_SAMPLES))
def log_softmax(x: Any, axis: Any = -1) -> Any:
    """log(softmax(x)) along an axis, exact where softmax is nearly 0."""
    x = lift(x)
    return TABLE["log_softmax"](x, axes=axes_from_end(axis, ndim_of(x)))


def logaddexp_reduce(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """logaddexp of one element after another along an axis."""
    return reduce_along("logaddexp_reduce", x, axis, keepdims)


def cummax(x: Any, axis: int) -> Any:
    """Largest element so far along an axis; equal ones share the gradient."""
    return TABLE["cummax"](x, axis=axis)


def cummin(x: Any, axis: int) -> Any:
    """Smallest element so far along an axis; equal ones share the gradient."""
    return TABLE["cummin"](x, axis=axis)


def _register_ufunc_reduce(ufunc: np.ufunc, run: Callable[..., Any], samples: SampleMaker | None) -> None:
    """Register `ufunc.reduce`, whose default axis is the first."""

    def reduce_(array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **settings: Any) -> Any:
        return run(cast_to(array, dtype), axis, keepdims=keepdims, **settings)

    reduce_.__doc__ = run.__doc__
    register_function((ufunc, "reduce"), name=f"{ufunc.__name__}_reduce", samples=samples)(reduce_)


def _register_ufunc_accumulate(ufunc: np.ufunc, run: Callable[..., Any]) -> None:
    """Register `ufunc.accumulate`, whose default axis is the first."""

    def accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
        return run(cast_to(array, dtype), axis_from_end(axis, ndim_of(array)))

    accumulate.__doc__ = run.__doc__
    register_function(
        (ufunc, "accumulate"), name=f"{ufunc.__name__}_accumulate", samples=sample_calls(*_FIRST_AXIS_SAMPLES)
    )(accumulate)


for _ufunc, _run in (
    (np.add, sum_),
    (np.multiply, prod),
    (np.maximum, max_),
    (np.minimum, min_),
    (np.fmax, nanmax),
    (np.fmin, nanmin),
    (np.logaddexp, logaddexp_reduce),
):
    _samples = _FIRST_AXIS_SAMPLES if _ufunc in (np.add, np.multiply, np.logaddexp) else _FIRST_AXIS_SAMPLES[:-1]
    _register_ufunc_reduce(_ufunc, _run, sample_calls(*_samples))


for _ufunc, _run in ((np.add, cumsum), (np.multiply, cumprod), (np.maximum, cummax), (np.minimum, cummin)):
    _register_ufunc_accumulate(_ufunc, _run)


def _register_ufunc_reduceat(ufunc: np.ufunc, run: Callable[..., Any]) -> None:
    """Register `ufunc.reduceat`: one result for each part of an axis that begins at an index."""

    def reduce_part(x: Any, axis: int, start: int, stop: int) -> Any:
        if ufunc is np.add and stop > start + 1:
            # NumPy adds the sum of the others to the first element, which rounds differently from one sum.
            return slice_axis(x, axis, start, start + 1) + run(
                slice_axis(x, axis, start + 1, stop), axis, keepdims=True
            )
        return run(slice_axis(x, axis, start, stop), axis, keepdims=True)

    def reduceat(array: Any, indices: Any, axis: Any = 0, dtype: Any = None) -> Any:
        x = lift(cast_to(array, dtype))
        if dtype_of(x) == np.float16:
            # NumPy reduces each part in float32.
            return cast_to(reduceat(cast_to(x, np.float32), indices, axis), np.float16)
        place = axis_from_end(axis, ndim_of(x))
        length = shape_of(x)[place]
        starts = np.asarray(indices)
        if starts.size and (starts.min() < 0 or starts.max() >= length):
            raise IndexError(f"an index of reduceat is not in the range from 0 to {length - 1}; got {starts.tolist()}")
        # A part that does not end behind its beginning is the one element there.
        stops = np.maximum(np.append(starts[1:], length), starts + 1)
        parts = [reduce_part(x, place, int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)]
        return TABLE["concatenate"](*parts, axis=place)

    reduceat.__doc__ = f"{(run.__doc__ or '').rstrip('.')}, of the parts of an axis that begin at indices."
    samples = sample_calls(
        (N(5), [0, 2]),
        (N(5), np.array([0, 3, 1])),
        (N(3, 4), [0, 1], {"axis": 1}),
        (N(4, 2), [1]),
        (N(2, 3, 2), [0, 2, 2], {"axis": -2}),
        (N(1), [0]),
    )
    register_function((ufunc, "reduceat"), name=f"{ufunc.__name__}_reduceat", samples=samples)(reduceat)


for _ufunc, _run in ((np.add, sum_), (np.multiply, prod), (np.maximum, max_), (np.minimum, min_)):
    _register_ufunc_reduceat(_ufunc, _run)


_register_ufunc_reduce(np.logical_or, any_, None)


_register_ufunc_reduce(np.logical_and, all_, None)


@register_function(np.argmax, method=True)
def argmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the largest element; the first if several are."""
    return _index_of_extreme("argmax", a, axis, keepdims)


@register_function(np.argmin, method=True)
def argmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the smallest element; the first if several are."""
    return _index_of_extreme("argmin", a, axis, keepdims)


def _index_of_extreme(name: str, x: Any, axis: Any, keepdims: Any) -> Any:
    row, along = row_and_axis(x, number_axis(axis, ndim_of(lift(x))))
    index = TABLE[name](row, axis=along, keepdims=bool(keepdims))
    return reshape_to(index, (1,) * ndim_of(x)) if keepdims and axis is None else index


@register_function(np.searchsorted, method=True)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Indices at which to insert elements into a sorted row."""
    row = lift(a) if sorter is None else getitem(a, np.asarray(sorter))
    return TABLE["searchsorted"](row, v, side=side)


@register_function(np.argsort, method=True)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Indices that sort an axis."""
    if order is not None:
        raise TypeError("argsort does not support order=: arrays have no fields here")
    row, along = row_and_axis(a, axis)
    # NumPy leaves the order of equal elements open by default; here it is stable, so that all languages agree.
    return TABLE["argsort"](row, axis=along, kind="stable" if stable or kind is None else kind)


@register_function(
    np.sort,
    samples=sample_calls(
        (N(5),),
        (N(3, 4),),
        (N(3, 4), {"axis": 0}),
        (N(2, 3, 2), {"axis": -2}),
        (N(2, 3), {"axis": None}),
        (N(4), {"kind": "stable"}),
        (N(1),),
        (N(2, 0),),
    ),
)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The elements sorted along an axis; each keeps its gradient."""
    row, along = row_and_axis(a, axis)
    return TABLE["take_along_axis"](row, argsort(row, along, kind, order, stable=stable), axis=along)


def _nan_for_nan_rows(row: Any, ordered: Any, y: Any) -> Any:
    """Return y, but NaN with a NaN gradient for rows that contain a NaN, which is sorted to the end."""
    last = slice_axis(ordered, -1, -1, None)
    return TABLE["where"](TABLE["isnan"](last), TABLE["sum"](row * math.nan, axes=(-1,), keepdims=True), y)


@register_function(
    np.median, samples=sample_calls(*REDUCTION_SAMPLES, (N(5),), (N(3, 4), {"axis": (0, 1), "keepdims": True}))
)
def median(a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Middle element, or mean of the two in the middle."""
    a = lift(a)
    shape = shape_of(a)
    axes = axes_from_end(convert_axes(axis), len(shape))
    row = merge_axes(a, axes)
    ordered = sort(row)
    length = shape_of(row)[-1]
    middle = mean(slice_axis(ordered, -1, (length - 1) // 2, length // 2 + 1), -1, keepdims=True)
    y = _nan_for_nan_rows(row, ordered, middle) if length else middle
    return reshape_to(y, kept_shape(shape, axes) if keepdims else shape_of(y)[:-1])


_QUANTILE_METHODS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3.0, 1 / 3.0),
    "normal_unbiased": (3 / 8.0, 3 / 8.0),
}
_ROUNDING_METHODS: dict[str, Callable[..., Any]] = {"lower": np.floor, "higher": np.ceil, "nearest": np.around}


def quantile_places(method: str, length: int, q: Any) -> tuple[Any, Any, Any]:
    """Return the two indices around each quantile, and its position between them; None if it is at an index."""
    if method in _ROUNDING_METHODS:
        place = _ROUNDING_METHODS[method]((length - 1) * q).astype(np.intp)
    elif method in _QUANTILE_METHODS:
        alpha, beta = _QUANTILE_METHODS[method]
        place = length * q + (alpha + q * (1 - alpha - beta)) - 1
    elif method == "midpoint":
        place = 0.5 * (np.floor((length - 1) * q) + np.ceil((length - 1) * q))
    elif method == "linear":
        place = (length - 1) * q
    else:
        # The methods that pick elements, or the middle between two: NumPy finds their places among 0, 1, 2, ...
        place = np.quantile(np.arange(float(length)), q, method=method)  # type: ignore[call-overload]
        if np.all(place % 1 == 0):
            place = place.astype(np.intp)
    if np.asarray(place).dtype.kind == "i":
        return place, place, None
    before = np.floor(place)
    # Beyond the end of the row NumPy uses index -1 for both neighbours and measures from there.
    low = np.where(place >= length - 1, -1.0, before)
    high = np.where(place >= length - 1, -1.0, before + 1.0)
    low = np.where(place < 0, 0.0, low)
    high = np.where(place < 0, 0.0, high)
    share = np.where(place % 1 == 0, 0.0, 0.5) if method == "midpoint" else place - low
    return low.astype(np.intp), high.astype(np.intp), np.asarray(share, np.asarray(place).dtype)


def interpolate_between(a: Any, b: Any, share: Any) -> Any:
    """Interpolate linearly between a and b, starting from the nearer one."""
    gap = b - a
    low = a + gap * share
    high = b - gap * (1 - share)
    if np.ndim(share) == 0:
        return high if share >= 0.5 else low
    return TABLE["where"](share >= 0.5, high, low)


def _compute_quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool, weak: bool) -> Any:
    a = lift(a)
    shape = shape_of(a)
    axes = axes_from_end(convert_axes(axis), len(shape))
    row = merge_axes(a, axes)
    ordered = sort(row)
    rest = tuple(n for k, n in enumerate(shape) if k - len(shape) not in axes)
    low, high, share = quantile_places(method, shape_of(row)[-1], q)
    y = gather_along(ordered, np.ravel(low), -1)
    if share is not None:
        y = interpolate_between(y, gather_along(ordered, np.ravel(high), -1), float(share) if weak else np.ravel(share))
    y = _nan_for_nan_rows(row, ordered, y)
    # The quantiles are the last axis here and the first in NumPy's result.
    ndim = ndim_of(y)
    y = TABLE["permute"](y, axes=(-1, *range(-ndim, -1)))
    return reshape_to(y, (*np.shape(q), *(kept_shape(shape, axes) if keepdims else rest)))


_QUANTILE_SAMPLES: tuple[Any, ...] = (
    (N(5), {"q": 0.3}),
    (N(2, 4), {"q": 0.85, "axis": 1, "keepdims": True}),
    (N(4, 2), {"q": [0.1, 0.5, 0.75], "axis": 0}),
    (N(2, 3, 2), {"q": [[0.2], [0.6]], "axis": (0, -1)}),
    (N(3, 2), {"q": 0.4, "keepdims": True}),
    (N(6), {"q": 0.45, "method": "hazen"}),
    (N(6), {"q": 0.45, "method": "midpoint"}),
    (N(6), {"q": 0.45, "method": "nearest"}),
    (N(6), {"q": [0.3, 0.5], "method": "averaged_inverted_cdf"}),
    (N(4), {"q": 1}),
    (FLOAT32_ARRAY, {"q": 0.25}),
    (N(1), {"q": 0.5}),
    (N(0, 3), {"q": 0.5, "axis": 1}),
)


@register_function(np.quantile, samples=sample_calls(*_QUANTILE_SAMPLES))
def quantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False
) -> Any:
    """Quantiles at `q`, from 0 to 1, interpolated linearly between elements."""
    share = np.asanyarray(q)
    if not np.all((share >= 0) & (share <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    return _compute_quantile(a, share, axis, method, keepdims, weak=type(q) in (int, float))


@register_function(
    np.percentile,
    samples=sample_calls(
        (N(5), {"q": 30}),
        (N(2, 4), {"q": 85, "axis": 1, "keepdims": True}),
        (N(4, 2), {"q": [10, 50, 75], "axis": 0}),
        (N(2, 3, 2), {"q": 60, "axis": (0, -1)}),
        (FLOAT32_ARRAY, {"q": 25}),
        (N(1), {"q": 50}),
        (N(0, 3), {"q": 50, "axis": 1}),
    ),
)
def percentile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False
) -> Any:
    """Quantiles at `q`, from 0 to 100, interpolated linearly between elements."""
    share = np.asanyarray(np.true_divide(q, 100))
    if not np.all((share >= 0) & (share <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return _compute_quantile(a, share, axis, method, keepdims, weak=type(q) in (int, float))


def _square_magnitude(x: Any) -> Any:
    """Return the squared magnitude."""
    return TABLE["real"](conjugate_flow(x) * x) if is_complex(x) else TABLE["square"](x)


def root_of_squares(x: Any) -> Any:
    """Return the root of a sum of squares; at 0 its gradient is 0, as for a norm, and the second derivative is NaN."""
    is_zero = TABLE["equal"](x, 0.0)
    if is_nowhere(is_zero) or is_zero is np.False_ or is_zero is False:
        return TABLE["sqrt"](x)
    return TABLE["where"](is_zero, TABLE["power"](x, 1.5), TABLE["sqrt"](x))


@register_function(
    np.var,
    method=True,
    samples=sample_calls(
        *REDUCTION_SAMPLES,
        (N(3, 2), {"axis": 0, "ddof": 1}),
        (N(4), {"correction": 1}),
        *_MASKED_SAMPLES,
        (N(2, 3), {"axis": 1, "mean": np.array([[0.5], [1.0]])}),
    ),
)
def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """Variance along axes, or of everything."""
    a = cast_to(a, dtype)
    if where is True and mean is None and dtype_of(a).kind == "f":
        return _spread_about_mean(a, axis, bool(keepdims), ddof if correction is None else correction)
    # Unlike np.mean, np.var rounds the sum of float16 to float16.
    total_dtype = np.float16 if dtype_of(a) == np.float16 else None
    centre = FUNCTIONS["mean"].run(a, axis, total_dtype, keepdims=True, where=where) if mean is None else lift(mean)
    spread = sum_(_square_magnitude(a - centre), axis, keepdims=keepdims, where=where)
    count = _count_where(a, where, axis, keepdims, dtype_of(spread))
    return spread / _degrees_left(count, ddof if correction is None else correction)


@plan_by_shape
def _spread_about_mean(x: Any, axis: Any, keepdims: bool, used: float) -> Any:
    """Return the variance of real numbers along axes."""
    count = float(count_along(x, axes_from_end(axis, ndim_of(x))))
    distance = x - reduce_along("sum", x, axis, True) / count
    return reduce_along("sum", TABLE["square"](distance), axis, keepdims) / _degrees_left(count, used)


def _degrees_left(count: Any, used: float) -> Any:
    """Return the divisor of a variance: the number of elements without the degrees of freedom, at least 0."""
    return max(count - used, 0.0) if type(count) is float else TABLE["maximum"](count - used, 0.0)


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
        *_MASKED_SAMPLES[:1],
    ),
)
def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    """Standard deviation along axes, or of everything; where all elements are equal its gradient is 0."""
    return root_of_squares(
        var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean, correction=correction)
    )


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
    axis = convert_axes(axis)
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


def _degrees_of_freedom(count: int, free: float, weights: Any, aweights: Any, dtype: Any) -> Any:
    """Return the divisor of a covariance of `count` observations, or of weighted ones."""
    if weights is None:
        return float(count - free)
    total = np.sum(weights, dtype=dtype)
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
    real = np.longdouble if wanted in (np.longdouble, np.clongdouble) else np.float64
    factor = _degrees_of_freedom(shape_of(x)[1], free, weights, aweights, real)
    x = x - centre
    other = x if weights is None else x * weights
    scale = np.true_divide(1, max(factor, 0.0))
    covariances = TABLE["matmul"](x, conjugate_flow(_transpose_matrix(other))) * (
        scale if real is np.longdouble else float(scale)
    )
    return reshape_to(covariances, tuple(n for n in shape_of(covariances) if n != 1))


@register_function(
    np.corrcoef,
    samples=sample_calls(
        (N(3, 4),), (N(5), N(5)), (N(5, 2), {"rowvar": False}), (N(2, 6),), (N(2, 4), N(4)), (N(4, 3),)
    ),
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


@plan_by_shape
def _square_of_length(x: Any) -> Any:
    """Return the sum of the squares of all elements, as an inner product."""
    row = as_row(x)
    (length,) = shape_of(row)
    return reshape_to(TABLE["matmul"](reshape_to(row, (1, length)), reshape_to(row, (length, 1))), ())


def _vector_norm(x: Any, order: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order '{order}' for vectors")
    if order is None or order == 2:
        return root_of_squares(TABLE["sum"](_square_magnitude(x), axes=axes, keepdims=keepdims))
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
        return root_of_squares(TABLE["sum"](_square_magnitude(x), axes=tuple(sorted((row, column))), keepdims=False))
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
        square = functools.reduce(operator.add, [_square_of_length(part) for part in _real_and_imag(x)])
        return reshape_to(root_of_squares(square), (1,) * ndim if keepdims else ())
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


@register_function(
    np.diff,
    samples=sample_calls(
        (N(5),),
        (N(2, 4), {"axis": 0}),
        (N(2, 4), {"n": 2}),
        (N(3, 2), {"n": 0}),
        (N(3, 2), {"axis": -2, "prepend": 0.5}),
        (N(2, 3), {"append": np.ones((2, 2)), "n": 2}),
        (N(1),),
        (N(2, 0),),
    ),
)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences between neighbours along an axis, taken `n` times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if n == 0:
        return a
    a = lift(a)
    if not shape_of(a):
        raise ValueError("diff requires input that is at least one dimensional")
    along = axis_from_end(axis, ndim_of(a))
    pieces = [_extend_border(piece, shape_of(a), along) for piece in (prepend, a, append) if piece is not None]
    x = TABLE["concatenate"](*pieces, axis=along) if len(pieces) > 1 else a
    for _ in range(n):
        x = TABLE["not_equal" if dtype_of(x).kind == "b" else "subtract"](drop_first(x, along), drop_last(x, along))
    return x


def _extend_border(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return x; a single number is spread to a shape, with length 1 along one axis."""
    x = lift(x)
    if shape_of(x):
        return x
    return TABLE["spread"](x, rank=0, shape=tuple(1 if k - len(shape) == axis else n for k, n in enumerate(shape)))


def _stand_along_axis(x: Any, ndim: int, axis: int) -> Any:
    """Return a row reshaped so that it runs along one axis of an array."""
    return reshape_to(x, tuple(shape_of(x)[0] if k == axis else 1 for k in range(-ndim, 0)))


@register_function(
    np.trapezoid,
    scipy=("scipy.integrate.trapezoid",),
    samples=sample_calls(
        (N(5),),
        (N(2, 4), {"dx": 0.5}),
        (N(4), np.array([0.0, 0.5, 1.2, 2.0])),
        (N(3, 2), np.array([0.0, 0.5, 1.2]), {"axis": 0}),
        (N(2, 3), N(2, 3), {"axis": -1}),
        (N(1),),
        (N(2, 0),),
    ),
)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule."""
    y = lift(y)
    along = axis_from_end(axis, ndim_of(y))
    if x is None:
        steps = dx
    else:
        x = lift(x)
        steps = _stand_along_axis(diff(x), ndim_of(y), along) if ndim_of(x) == 1 else diff(x, axis=axis)
    return sum_(steps * (drop_first(y, along) + drop_last(y, along)) / 2.0, along)


def _axis_spacings(spacings: tuple[Any, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> list[Any]:
    """Return the distance between neighbours along each axis: one number, or one for each pair."""
    if not spacings:
        return [1.0] * len(axes)
    if len(spacings) == 1 and not shape_of(lift(spacings[0])):
        return list(spacings) * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    return [_axis_spacing(each, shape[axis]) for each, axis in zip(spacings, axes, strict=True)]


def _axis_spacing(spacing: Any, length: int) -> Any:
    places = lift(spacing)
    if not shape_of(places):
        return spacing
    if ndim_of(places) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if shape_of(places) != (length,):
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    steps = diff(places if is_wire(places) or places.dtype.kind == "f" else places.astype(np.float64))
    equal = not is_wire(steps) and bool((steps == steps[0]).all())
    return steps[0] if equal else steps


def _sum_weighted_slices(
    f: Any, axis: int, weights: tuple[Any, Any, Any], starts: tuple[int, int, int], length: int
) -> Any:
    """Return the weighted sum of three slices of f."""
    terms = [weight * slice_axis(f, axis, start, start + length) for weight, start in zip(weights, starts, strict=True)]
    return functools.reduce(operator.add, terms)


def _edge_slope(f: Any, axis: int, steps: Any, order: int, *, last: bool) -> Any:
    """Return the slope at an edge, from the two or three points next to it."""
    length = shape_of(f)[axis]
    uniform = not isinstance(steps, tuple)
    if order == 1:
        start = length - 2 if last else 0
        step = steps if uniform else steps[1 if last else 0]
        return (slice_axis(f, axis, start + 1, start + 2) - slice_axis(f, axis, start, start + 1)) / step
    if uniform:
        weights = (0.5 / steps, -2.0 / steps, 1.5 / steps) if last else (-1.5 / steps, 2.0 / steps, -0.5 / steps)
    else:
        one, two = steps
        weights = (
            (two / (one * (one + two)), -(two + one) / (one * two), (2.0 * two + one) / (two * (one + two)))
            if last
            else (-(2.0 * one + two) / (one * (one + two)), (one + two) / (one * two), -one / (two * (one + two)))
        )
    start = length - 3 if last else 0
    return _sum_weighted_slices(f, axis, weights, (start, start + 1, start + 2), 1)


def _gradient_along(f: Any, steps: Any, axis: int, order: int) -> Any:
    length = shape_of(f)[axis]
    ndim = ndim_of(f)
    if length < order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )
    if not shape_of(steps):
        inner = (slice_axis(f, axis, 2, None) - slice_axis(f, axis, None, -2)) / (2.0 * steps)
        first = last = steps
    else:
        one = drop_last(steps, -1)
        two = drop_first(steps, -1)
        weights = (-two / (one * (one + two)), (two - one) / (one * two), one / (two * (one + two)))
        standing = tuple(_stand_along_axis(weight, ndim, axis) for weight in weights)
        inner = _sum_weighted_slices(f, axis, (standing[0], standing[1], standing[2]), (0, 1, 2), length - 2)
        first = (pick_elements(steps, 0), pick_elements(steps, 1 % (length - 1)))
        last = (pick_elements(steps, length - 2 - (length > 2)), pick_elements(steps, -1))
    edges = _edge_slope(f, axis, first, order, last=False), _edge_slope(f, axis, last, order, last=True)
    slopes = TABLE["concatenate"](edges[0], inner, edges[1], axis=axis)
    wanted = dtype_of(f)
    if wanted.kind in "fc" and wanted != dtype_of(slopes):
        return TABLE["cast"](slopes, dtype=wanted.name)
    return slopes


@register_function(
    np.gradient,
    samples=sample_calls(
        (N(5),),
        (N(4, 3), {"axis": 0}),
        (N(4, 3), 0.5, {"axis": -1}),
        (N(4, 3), 0.5, 2.0, {"axis": (1, 0)}),
        (N(5), np.array([0.0, 0.5, 1.2, 2.0, 2.3])),
        (N(5), np.array([0.0, 0.5, 1.2, 2.0, 2.3]), {"edge_order": 2}),
        (N(4), {"edge_order": 2}),
        (N(2), 0.5),
        (FLOAT32_ARRAY,),
    ),
)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes between neighbours, central inside and one-sided at the edges; one array for each axis."""
    if callable(f) and not is_wire(f):
        raise TypeError(f"gradient takes the elements of an array; for the derivative of {f!r} write wg.grad(f)")
    f = lift(f)
    shape = shape_of(f)
    axes = tuple(range(len(shape))) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, len(shape))
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    steps = _axis_spacings(varargs, shape, axes)
    slopes = [_gradient_along(f, step, each - len(shape), edge_order) for step, each in zip(steps, axes, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)
