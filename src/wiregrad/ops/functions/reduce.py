"""Reductions and scans; what NumPy computes in steps is computed by the same steps, so that results round alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from wiregrad.ir import TABLE, Op
from wiregrad.ops.array import axes_from_end
from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.index import as_row
from wiregrad.ops.functions.registry import SampleMaker, register_function
from wiregrad.ops.functions.support import N, lift, ndim_of, axis_from_end, sample_calls


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
    return _bind_reduction(name, tuple(axis) if isinstance(axis, list) else axis, ndim_of(x), bool(keepdims))(x)


@lru_cache(maxsize=1024)
def _bind_reduction(name: str, axis: Any, ndim: int, keepdims: bool) -> Op:
    return TABLE[name].bind({"axes": axes_from_end(axis, ndim), "keepdims": keepdims})


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


@register_function(np.sum, method=True, samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES))
def sum_(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Sum along axes, or of everything."""
    return reduce_along("sum", cast_to(a, dtype), axis, keepdims)


@register_function(np.mean, method=True, samples=sample_calls(*REDUCTION_SAMPLES))
def mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Arithmetic mean along axes, or of everything."""
    a = lift(a)
    return sum_(a, axis, dtype, keepdims=keepdims) / float(count_along(a, axes_from_end(axis, ndim_of(a))))


@register_function(np.max, np.amax, method=True, samples=sample_calls(*REDUCTION_SAMPLES))
def max_(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest element along axes, or of all; equal ones share the gradient."""
    return reduce_along("max", a, axis, keepdims)


@register_function(np.min, np.amin, method=True, samples=sample_calls(*REDUCTION_SAMPLES))
def min_(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Smallest element along axes, or of all; equal ones share the gradient."""
    return reduce_along("min", a, axis, keepdims)


@register_function(
    np.prod,
    method=True,
    samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES, (_ARRAY_WITH_ZEROS, {"axis": 1})),
)
def prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Product along axes, or of everything; exact where factors are 0."""
    return reduce_along("prod", cast_to(a, dtype), axis, keepdims)


@register_function(np.ptp, samples=sample_calls(*REDUCTION_SAMPLES))
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Distance from the smallest to the largest element along axes, or of all."""
    return max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims)


@register_function(np.any, method=True)
def any_(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether at least one element is not 0."""
    return reduce_along("any", a, axis, keepdims)


@register_function(np.all, method=True)
def all_(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Whether no element is 0."""
    return reduce_along("all", a, axis, keepdims)


@register_function(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many elements are not 0."""
    return reduce_along("count_nonzero", a, axis, keepdims)


def _without_nan(x: Any, instead: float) -> Any:
    return TABLE["where"](TABLE["isnan"](x), instead, x)


@register_function(np.nansum, samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Sum of all that is not NaN, along axes or of everything."""
    return sum_(_without_nan(a, 0.0), axis, dtype, keepdims=keepdims)


@register_function(np.nanprod, samples=sample_calls(*_EMPTY_REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nanprod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Product of all that is not NaN, along axes or of everything."""
    return prod(_without_nan(a, 1.0), axis, dtype, keepdims=keepdims)


@register_function(np.nanmean, samples=sample_calls(*REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Mean of all that is not NaN, along axes or of everything."""
    present = TABLE["logical_not"](TABLE["isnan"](a))
    total = nansum(a, axis, dtype, keepdims=keepdims)
    return total / cast_to(sum_(present, axis, keepdims=keepdims), total.dtype)


@register_function(np.nanmax, samples=sample_calls(*REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nanmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest element that is not NaN, along axes or of all."""
    return reduce_along("nanmax", a, axis, keepdims)


@register_function(np.nanmin, samples=sample_calls(*REDUCTION_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1})))
def nanmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Smallest element that is not NaN, along axes or of all."""
    return reduce_along("nanmin", a, axis, keepdims)


@register_function(np.cumsum, method=True, samples=sample_calls(*_SCAN_SAMPLES))
def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Running sum along an axis, or of everything in one row."""
    x, along = row_and_axis(cast_to(a, dtype), axis)
    return TABLE["cumsum"](x, axis=along, reverse=False)


@register_function(
    np.cumprod,
    method=True,
    samples=sample_calls(*_SCAN_SAMPLES, (_ARRAY_WITH_ZEROS,)),
)
def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    """Running product along an axis, or of everything in one row; exact where factors are 0."""
    x, along = row_and_axis(cast_to(a, dtype), axis)
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

    def reduce_(array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False) -> Any:
        return run(cast_to(array, dtype), axis, keepdims=keepdims)

    reduce_.__doc__ = run.__doc__
    register_function((ufunc, "reduce"), name=f"{ufunc.__name__}_reduce", samples=samples)(reduce_)


def _register_ufunc_accumulate(ufunc: np.ufunc, run: Callable[..., Any]) -> None:
    """Register `ufunc.accumulate`, whose default axis is the first."""

    def accumulate(array: Any, axis: Any = 0, dtype: Any = None) -> Any:
        return run(cast_to(array, dtype), axis_from_end(axis, ndim_of(array)))

    accumulate.__doc__ = run.__doc__
    register_function((ufunc, "accumulate"), name=f"{ufunc.__name__}_accumulate", samples=sample_calls(*_FIRST_AXIS_SAMPLES))(accumulate)


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


_register_ufunc_reduce(np.logical_or, any_, None)


_register_ufunc_reduce(np.logical_and, all_, None)
