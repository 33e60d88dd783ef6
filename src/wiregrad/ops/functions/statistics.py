"""Statistics that skip NaN, and histograms: how many elements, or how much weight, fall into bins.

A count is a step function of the data, so no gradient flows through it. Weights and the edges of bins that follow the
data have one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axes_from_end
from wiregrad.ops.functions.reduce import (
    argmax,
    argmin,
    cast_to,
    count_present,
    diff,
    interpolate_between,
    kept_shape,
    max_,
    mean,
    min_,
    quantile_places,
    root_of_squares,
    sort,
    sum_,
    var,
)
from wiregrad.ops.functions.registry import N, detach_array, dtype_of, lift, ndim_of, register_function, sample_calls
from wiregrad.ops.functions.shape import as_row, gather_along, reshape_to
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.reduce_records import merge_axes

_ARRAY_WITH_NANS = np.array([[1.0, math.nan, -2.0, 0.25], [0.5, 3.0, math.nan, math.nan], [2.0, -1.5, 0.75, 4.0]])
_NAN_SAMPLES: tuple[Any, ...] = (
    (_ARRAY_WITH_NANS,),
    (_ARRAY_WITH_NANS, {"axis": 1}),
    (_ARRAY_WITH_NANS, {"axis": 0, "keepdims": True}),
    (N(2, 3), {"axis": (0, 1)}),
    (N(2, 3, 2), {"axis": -2}),
    (N(4),),
)


@register_function(
    np.nanvar,
    samples=sample_calls(*_NAN_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 1, "ddof": 1}), (N(3), {"correction": 1})),
)
def nanvar(
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
    """Variance of all that is not NaN, along axes or of everything."""
    a = cast_to(a, dtype)
    used = ddof if correction is None else correction
    present = TABLE["logical_not"](TABLE["isnan"](a))
    if where is not True:
        present = TABLE["logical_and"](present, where)
    spread = var(a, axis, ddof=used, keepdims=keepdims, where=present, mean=mean)
    count = count_present(a, axis, keepdims, where, dtype_of(spread))
    return TABLE["where"](TABLE["less_equal"](count, used), math.nan, spread)


@register_function(
    np.nanstd,
    samples=sample_calls(*_NAN_SAMPLES, (_ARRAY_WITH_NANS, {"axis": 0, "ddof": 1}), (N(3), {"correction": 1})),
)
def nanstd(
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
    """Standard deviation of all that is not NaN, along axes or of everything; its gradient is 0 where all are equal."""
    return root_of_squares(
        nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, mean=mean, correction=correction)
    )


def _count_in_rows(row: Any) -> Any:
    """Return how many elements of each row are not NaN, as a plain array; tracing certifies it."""
    present = TABLE["logical_not"](TABLE["isnan"](row))
    return detach_array(sum_(present, -1, keepdims=True))


def _pick_in_rows(ordered: Any, places: Any) -> Any:
    """Return elements along the last axis, at other places in every row."""
    return TABLE["take_along_axis"](ordered, np.asarray(places, np.intp), axis=-1)


@register_function(np.nanmedian, samples=sample_calls(*_NAN_SAMPLES, (np.array([math.nan, 2.0]),), (0.7,)))
def nanmedian(a: Any, axis: Any = None, *, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Middle element of those that are not NaN, or mean of the two in the middle."""
    a = lift(a)
    shape = shape_of(a)
    axes = axes_from_end(axis, len(shape))
    row = merge_axes(a, axes)
    if not shape_of(row)[-1]:
        y = mean(row, -1, keepdims=True)
    else:
        ordered = sort(row)
        count = _count_in_rows(row)
        pair = np.concatenate([np.maximum(count - 1, 0) // 2, count // 2], -1)
        y = mean(_pick_in_rows(ordered, np.minimum(pair, shape_of(row)[-1] - 1)), -1, keepdims=True)
    return reshape_to(y, kept_shape(shape, axes) if keepdims else shape_of(y)[:-1])


def _compute_nanquantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool, weak: bool) -> Any:
    a = lift(a)
    shape = shape_of(a)
    axes = axes_from_end(axis, len(shape))
    row = merge_axes(a, axes)
    ordered = sort(row)
    count = _count_in_rows(row)
    length = count.astype(q.dtype) if q.dtype.kind == "f" else count
    low, high, share = quantile_places(method, length, np.ravel(q))
    # An index of -1 means the last element, which is the last one that is not NaN here.
    low, high = (np.maximum(np.where(place < 0, count - 1, place), 0) for place in (low, high))
    y = _pick_in_rows(ordered, low)
    if share is not None:
        share = share.astype(dtype_of(row)) if weak and dtype_of(row).kind == "f" else share
        y = interpolate_between(y, _pick_in_rows(ordered, high), share)
    ndim = ndim_of(y)
    y = TABLE["permute"](y, axes=(-1, *range(-ndim, -1)))
    rest = tuple(n for k, n in enumerate(shape) if k - len(shape) not in axes)
    return reshape_to(y, (*np.shape(q), *(kept_shape(shape, axes) if keepdims else rest)))


@register_function(
    np.nanquantile,
    samples=sample_calls(
        (_ARRAY_WITH_NANS, {"q": 0.5}),
        (_ARRAY_WITH_NANS, {"q": 0.25, "axis": 1}),
        (_ARRAY_WITH_NANS, {"q": [0.25, 0.5, 1.0], "axis": 0, "keepdims": True}),
        (_ARRAY_WITH_NANS, {"q": 0.75, "axis": 1, "method": "nearest"}),
        (_ARRAY_WITH_NANS, {"q": 0.25, "axis": 1, "method": "hazen"}),
        (N(5), {"q": 0.5}),
        (N(2, 3, 2), {"q": [0.25, 0.75], "axis": (0, 2)}),
    ),
)
def nanquantile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False
) -> Any:
    """Quantiles at `q`, from 0 to 1, of all that is not NaN."""
    share = np.asanyarray(q)
    if not np.all((share >= 0) & (share <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    return _compute_nanquantile(a, share, axis, method, keepdims, weak=type(q) in (int, float))


@register_function(
    np.nanpercentile,
    samples=sample_calls(
        (_ARRAY_WITH_NANS, {"q": 50}),
        (_ARRAY_WITH_NANS, {"q": 25, "axis": 1}),
        (_ARRAY_WITH_NANS, {"q": [25, 50, 100], "axis": 0, "keepdims": True}),
        (N(5), {"q": 50}),
        (N(2, 3, 2), {"q": 75, "axis": (0, 2)}),
        (N(1), {"q": 50}),
    ),
)
def nanpercentile(
    a: Any, q: Any, axis: Any = None, *, overwrite_input: bool = False, method: str = "linear", keepdims: bool = False
) -> Any:
    """Quantiles at `q`, from 0 to 100, of all that is not NaN."""
    share = np.asanyarray(np.true_divide(q, 100))
    if not np.all((share >= 0) & (share <= 1)):
        raise ValueError("Percentiles must be in the range [0, 100]")
    return _compute_nanquantile(a, share, axis, method, keepdims, weak=type(q) in (int, float))


def _hide_nans(a: Any, instead: float, axis: Any) -> Any:
    """Return an array with another number in place of NaN; raises where all elements are NaN."""
    a = lift(a)
    if dtype_of(a).kind not in "fc":
        return a
    missing = TABLE["isnan"](a)
    ndim = ndim_of(a)
    if bool(detach_array(TABLE["all"](missing, axes=axes_from_end(axis, ndim), keepdims=False)).any()):
        raise ValueError("All-NaN slice encountered")
    return TABLE["where"](missing, instead, a)


@register_function(np.nanargmax)
def nanargmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the largest element that is not NaN; the first if several are."""
    return argmax(_hide_nans(a, -math.inf, axis), axis, keepdims=keepdims)


@register_function(np.nanargmin)
def nanargmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Index of the smallest element that is not NaN; the first if several are."""
    return argmin(_hide_nans(a, math.inf, axis), axis, keepdims=keepdims)


@register_function(
    np.bincount,
    samples=sample_calls(
        (np.array([0, 2, 2, 1]), N(4)),
        (np.array([3, 3]), N(2), {"minlength": 6}),
        (np.array([0, 1, 0, 1]), N(4), 3),
        (np.array([5]), N(1)),
        (np.zeros(0, np.int64), N(0), {"minlength": 2}),
        (np.array([0, 0, 0]), N(3)),
    ),
)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """How often each whole number occurs, or the sum of the weights that stand beside it."""
    places = detach_array(x)
    counts = np.bincount(places, minlength=minlength)
    if weights is None or not places.size:
        return counts
    weights = cast_to(weights, float)
    if shape_of(weights) != places.shape:
        raise ValueError("The weights and list don't have the same length.")
    return TABLE["take_add"](weights, places.astype(np.intp), axis=-1, length=counts.size)


@register_function(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Index of the bin that each element falls into."""
    edges = detach_array(bins)
    steps = np.diff(edges)
    if edges.ndim != 1:
        raise ValueError(
            "object of too small depth for desired array" if not edges.ndim else "bins must be 1-dimensional"
        )
    if not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ValueError("bins must be monotonically increasing or decreasing")
    side = "left" if right else "right"
    if edges.size and edges[0] > edges[-1]:
        return edges.size - TABLE["searchsorted"](edges[::-1], x, side=side)
    return TABLE["searchsorted"](edges, x, side=side)


def _find_edges(a: Any, bins: Any, limits: Any) -> Any:
    """Return the edges of the bins of a histogram; those that follow the data depend on its extremes."""
    if not isinstance(bins, str) and np.ndim(bins if not is_wire(bins) else bins.data) == 1:
        return lift(bins)
    plain = np.histogram_bin_edges(detach_array(a), bins, limits)
    if not is_wire(a) or limits is not None or not shape_of(as_row(a))[0]:
        return plain
    first = min_(a)
    last = max_(a)
    if plain[0] != detach_array(first):
        # All elements are equal: NumPy makes one bin around them.
        first = first - 0.5
        last = last + 0.5
    count = plain.size - 1
    inner = np.arange(count, dtype=plain.dtype) * ((last - first) / float(count)) + first
    edges = TABLE["concatenate"](inner, reshape_to(last, (1,)), axis=-1)
    return cast_to(edges, plain.dtype) if dtype_of(edges) != plain.dtype else edges


@register_function(
    np.histogram_bin_edges,
    samples=sample_calls(
        (N(5), 4), (N(2, 3), 3), (N(6), "sturges"), (N(1), 2), (np.array([0.25, 0.75, 2.0]), 4), (N(7), {"bins": 10})
    ),
)
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """The edges of the bins of a histogram."""
    return _find_edges(lift(a), bins, range)


_SAMPLE_EDGES = np.array([-1.0, 0.0, 0.5, 3.0])
_SAMPLE_DATA = np.array([-0.5, 0.25, 1.75, 0.75, 9.0, 2.5])


@register_function(
    np.histogram,
    samples=sample_calls(
        (N(6), 3),
        (_SAMPLE_DATA, 4, None, True),
        (_SAMPLE_DATA, _SAMPLE_EDGES, None, None, np.array([0.5, 1.0, 0.25, 2.0, 1.0, 0.125])),
        (_SAMPLE_DATA, 2, (0.0, 4.0), None, np.array([0.5, 1.0, 0.25, 2.0, 1.0, 0.125])),
        (_SAMPLE_DATA, 4, None, True, np.array([0.5, 1.0, 0.25, 2.0, 1.0, 0.125])),
        (N(2, 3), 3),
    ),
)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """How many elements, or how much weight, fall into each bin, and the edges of the bins.

    The counts have no gradient by the data, which changes them in steps; the weights and the edges have one.
    """
    a = lift(a)
    edges = _find_edges(a, bins, range)
    plain = detach_array(edges)
    counts = np.histogram(detach_array(a), plain)[0] if weights is None else _add_weights(a, plain, lift(weights))
    if density:
        return counts / cast_to(diff(edges), float) / sum_(counts), edges
    return counts, edges


def _add_weights(a: Any, edges: Any, weights: Any) -> Any:
    """Return the sum of the weights of the elements in each bin."""
    if shape_of(weights) != shape_of(a):
        raise ValueError("weights should have the same shape as a.")
    data = detach_array(as_row(a))
    # The last edge belongs to the last bin.
    places = np.searchsorted(edges, data, "right") - 1 - (data == edges[-1])
    inside = np.flatnonzero((places >= 0) & (places < edges.size - 1))
    row = gather_along(as_row(weights), inside, -1)
    return TABLE["take_add"](row, places[inside].astype(np.intp), axis=-1, length=edges.size - 1)
