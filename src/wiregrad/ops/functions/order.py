"""Functions that sort elements, and functions of sorted elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.array import axes_from_end
from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.index import gather_along, getitem, reshape_to
from wiregrad.ops.functions.reduce import REDUCTION_SAMPLES, FLOAT32_ARRAY, kept_shape, row_and_axis, mean
from wiregrad.ops.functions.registry import register_function
from wiregrad.ops.functions.support import N, lift, ndim_of, sample_calls
from wiregrad.ops.reduce_records import slice_axis, merge_axes


@register_function(np.argmax, method=True)
def argmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the largest element; the first if several are."""
    return _index_of_extreme("argmax", a, axis, keepdims)


@register_function(np.argmin, method=True)
def argmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the smallest element; the first if several are."""
    return _index_of_extreme("argmin", a, axis, keepdims)


def _index_of_extreme(name: str, x: Any, axis: Any, keepdims: Any) -> Any:
    row, along = row_and_axis(x, axis)
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


@register_function(np.median, samples=sample_calls(*REDUCTION_SAMPLES, (N(5),), (N(3, 4), {"axis": (0, 1), "keepdims": True})))
def median(a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Middle element, or mean of the two in the middle."""
    a = lift(a)
    shape = shape_of(a)
    axes = axes_from_end(axis, len(shape))
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


def _quantile_places(method: str, length: int, q: Any) -> tuple[Any, Any, Any]:
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
        raise ValueError(f"{method!r} is not a supported method")
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


def _interpolate_between(a: Any, b: Any, share: Any) -> Any:
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
    axes = axes_from_end(axis, len(shape))
    row = merge_axes(a, axes)
    ordered = sort(row)
    rest = tuple(n for k, n in enumerate(shape) if k - len(shape) not in axes)
    low, high, share = _quantile_places(method, shape_of(row)[-1], q)
    y = gather_along(ordered, np.ravel(low), -1)
    if share is not None:
        y = _interpolate_between(y, gather_along(ordered, np.ravel(high), -1), float(share) if weak else np.ravel(share))
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
