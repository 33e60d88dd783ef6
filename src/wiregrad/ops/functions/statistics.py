"""Statistics that skip NaN, histograms, and the distributions of `scipy.stats`.

A histogram counts how many elements, or how much weight, fall into bins. A count is a step function of the data, so no
gradient flows through it. Weights and the edges of bins that follow the data have one.

Densities and cumulative probabilities are made of ops, with SciPy's arguments. A distribution is one record: its
density and probabilities in standard form (loc 0, scale 1). Location, scale, support and parameters that are not
allowed are the same for all and are added here. A function is registered under the name of the distribution and the
method, such as `norm.logpdf`, and reached by SciPy's name alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axes_from_end, convert_axes
from wiregrad.ops.elementwise_records import (
    absolute,
    arctan2,
    equal,
    erfc,
    exp,
    expm1,
    floor,
    greater,
    greater_equal,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_or,
    not_equal,
    power,
    sigmoid,
    softplus,
    sqrt,
    undefined,
    where,
    xlog1py,
    xlogy,
)
from wiregrad.ops.functions.elements import widen_real
from wiregrad.ops.functions.linalg import cholesky, solve
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
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import (
    as_row,
    concatenate,
    diagonal,
    expand_dims,
    gather_along,
    moveaxis,
    reshape,
    reshape_to,
)
from wiregrad.ops.functions.special_and_integrate import logit, ndtr
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.reduce_records import merge_axes
from wiregrad.ops.special_records import (
    betainc,
    betaincc,
    betaln,
    gammainc,
    gammaincc,
    gammaln,
    log_ndtr,
    ndtri,
    stdtr,
)

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
    axes = axes_from_end(convert_axes(axis), len(shape))
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
    axes = axes_from_end(convert_axes(axis), len(shape))
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
    """How often each whole number occurs, or the sum of its weights."""
    places = detach_array(x)
    counts = np.bincount(places, minlength=minlength)
    if weights is None or not places.size:
        return counts
    weights = widen_real(weights)
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


@register_function(
    scipy=("scipy.stats.zscore",),
    name="stats.zscore",
    samples=sample_calls(
        (N(4),), (N(3, 4),), (N(3, 4), 1), (N(2, 3), {"axis": None}), (N(5), {"ddof": 1}), (N(2, 3, 4), {"axis": -2})
    ),
)
def zscore(a: Any, axis: Any = 0, ddof: int = 0, nan_policy: str = "propagate") -> Any:
    """The distance of each element from the mean, in standard deviations."""
    if nan_policy != "propagate":
        raise NoRuleError(f"scipy.stats.zscore has a rule for nan_policy='propagate'{format_user_line()}")
    a = lift(a)
    gaps = a - mean(a, axis, keepdims=True)
    return gaps / root_of_squares(var(a, axis, ddof=ddof, keepdims=True))


def _standard_moment(name: str, a: Any, axis: Any, order: int, bias: bool, nan_policy: str, keepdims: bool) -> Any:
    """Return a central moment in units of the standard deviation."""
    if not bias or nan_policy != "propagate":
        raise NoRuleError(f"scipy.stats.{name} has a rule for bias=True, nan_policy='propagate'{format_user_line()}")
    a = lift(a)
    gaps = a - mean(a, axis, keepdims=True)
    square = mean(gaps * gaps, axis, keepdims=keepdims)
    return mean(gaps**order, axis, keepdims=keepdims) / square ** (order / 2)


_MOMENT_CALLS = sample_calls(
    (N(4),), (N(3, 4),), (N(3, 4), 1), (N(2, 3), {"axis": None}), (N(5), {"keepdims": True}), (N(4, 3, 4), {"axis": -3})
)


@register_function(scipy=("scipy.stats.skew",), name="stats.skew", samples=_MOMENT_CALLS)
def skew(a: Any, axis: Any = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False) -> Any:
    """The third central moment in units of the standard deviation."""
    return _standard_moment("skew", a, axis, 3, bias, nan_policy, keepdims)


@register_function(scipy=("scipy.stats.kurtosis",), name="stats.kurtosis", samples=_MOMENT_CALLS)
def kurtosis(
    a: Any,
    axis: Any = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The fourth central moment in units of the standard deviation, less 3 unless `fisher` is false."""
    y = _standard_moment("kurtosis", a, axis, 4, bias, nan_policy, keepdims)
    return y - 3.0 if fisher else y


LOG_2 = math.log(2.0)
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
SHARES_TOLERANCE = 1e-9
"""How far the shares of a Dirichlet distribution may be from adding up to 1, as in SciPy."""
Curve = Callable[..., Any]
"""A function of the standardized variable and of the shapes."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A distribution in standard form: functions of `z = (x - loc) / scale` and of its shapes."""

    name: str
    logpdf: Curve
    cdf: Curve
    sf: Curve
    logcdf: Curve | None = None
    """The logarithm of cdf, if there is a better way than to take it."""
    logsf: Curve | None = None
    ppf: Curve | None = None
    """The inverse of cdf, where it is made of ops."""
    shapes: tuple[str, ...] = ()
    """Names of the shapes, all of which must be positive."""
    low: float = -math.inf
    high: float = math.inf
    points: tuple[float, ...]
    """Six numbers in the support, at which the functions are checked."""
    shape_points: tuple[tuple[float, ...], ...] = ()
    """For each shape, three numbers."""

    def evaluate(self, method: str, x: Any, shapes: Sequence[Any], loc: Any, scale: Any) -> Any:
        """Compute a method at x; NaN for a shape or a scale that is not positive."""
        shapes = [require_positive(shape) for shape in shapes]
        scale = require_positive(scale)
        z = standardize(x, loc, scale)
        curve = getattr(self, method, None)
        if method in ("pdf", "logpdf"):
            return self._compute_density(method, z, shapes, scale)
        if curve is not None:
            return self._extend(method, z, shapes, lambda inner: curve(inner, *shapes))
        plain = getattr(self, method.removeprefix("log"))
        return self._extend(method, z, shapes, lambda inner: log(plain(inner, *shapes)))

    def _compute_density(self, method: str, z: Any, shapes: Sequence[Any], scale: Any) -> Any:
        def compute_inside(inner: Any) -> Any:
            y = self.logpdf(inner, *shapes)
            y = y if is_number(scale, 1) else y - log(scale)
            return exp(y) if method == "pdf" else y

        return self._extend(method, z, shapes, compute_inside)

    def _extend(self, method: str, z: Any, shapes: Sequence[Any], curve: Callable[[Any], Any]) -> Any:
        """Return a function of z with the right constant below and above the support."""
        below, above = (spoil_constant(constant, shapes) for constant in OUTSIDE[method])
        is_low = less(z, self.low) if self.low > -math.inf else None
        is_high = greater(z, self.high) if self.high < math.inf else None
        sides = [side for side in (is_low, is_high) if side is not None]
        if not any(is_wire(side) or np.any(side) for side in sides):
            return curve(z)
        y = curve(where(reduce(logical_or, sides), self.points[0], z))
        y = y if is_low is None else where(is_low, below, y)
        return y if is_high is None else where(is_high, above, y)


OUTSIDE = {
    "pdf": (0.0, 0.0),
    "logpdf": (-math.inf, -math.inf),
    "cdf": (0.0, 1.0),
    "logcdf": (-math.inf, 0.0),
    "sf": (1.0, 0.0),
    "logsf": (0.0, -math.inf),
}
"""For each method of a continuous distribution, its values below and above the support."""


def is_number(x: Any, number: float) -> bool:
    """Return whether x is a plain number of this value, with which nothing has to be computed."""
    return not is_wire(x) and np.ndim(x) == 0 and bool(x == number)


def as_operand(x: Any) -> Any:
    """Return a list as an array; Python numbers stay as they are, so that they do not widen single precision."""
    return x if x is None or isinstance(x, int | float) else lift(x)


def standardize(x: Any, loc: Any, scale: Any) -> Any:
    """Return (x - loc) / scale, without the steps that change nothing."""
    z = x if is_number(loc, 0) else x - loc
    return z if is_number(scale, 1) else z / scale


def require_positive(p: Any) -> Any:
    """Return a parameter, but NaN with a NaN slope where it is not positive."""
    return _require(p, greater(p, 0.0))


def _require(p: Any, allowed: Any) -> Any:
    """Return a parameter, but NaN with a NaN slope where it is not allowed."""
    if is_wire(p):
        return where(allowed, p, undefined(p))
    return p if np.all(allowed) else np.where(allowed, p, math.nan)


def spoil_constant(constant: float, parameters: Sequence[Any]) -> Any:
    """Return a constant, but NaN where a parameter is NaN."""
    doubtful = [p for p in parameters if is_wire(p) or np.any(np.isnan(p))]
    return reduce(lambda y, p: where(isnan(p), math.nan, y), doubtful, constant)


def _log_of_difference(z: Any) -> Any:
    """Return log(1 - exp(-z)), exact for a small and for a large z."""
    is_small = less(z, LOG_2)
    return where(is_small, log(-expm1(-where(is_small, z, LOG_2))), log1p(-exp(-where(is_small, LOG_2, z))))


def _laplace_tail(z: Any) -> Any:
    """Return the probability above z under the Laplace distribution."""
    is_right = greater(z, 0.0)
    return where(is_right, 0.5 * exp(-absolute(z)), 1.0 - 0.5 * exp(-absolute(z)))


def _laplace_log_tail(z: Any) -> Any:
    is_right = greater(z, 0.0)
    return where(is_right, -absolute(z) - LOG_2, log1p(-0.5 * exp(-absolute(z))))


def _lognorm_logpdf(z: Any, s: Any) -> Any:
    is_zero = equal(z, 0.0)
    y = log(where(is_zero, 1.0, z))
    return where(is_zero, -math.inf, -0.5 * (y / s) ** 2 - log(s) - y - HALF_LOG_2PI)


_REAL_POINTS = (-1.3, 0.4, 2.1, -0.2, 0.9, -2.6)
_POSITIVE_POINTS = (0.3, 1.7, 0.9, 2.4, 3.8, 0.6)
_SHARE_POINTS = (0.1, 0.3, 0.45, 0.6, 0.8, 0.9)

DISTRIBUTIONS = (
    Distribution(
        name="norm",
        logpdf=lambda z: -0.5 * (z * z) - HALF_LOG_2PI,
        cdf=ndtr,
        sf=lambda z: ndtr(-z),
        logcdf=log_ndtr,
        logsf=lambda z: log_ndtr(-z),
        ppf=ndtri,
        points=_REAL_POINTS,
    ),
    Distribution(
        name="t",
        shapes=("df",),
        logpdf=lambda z, df: -0.5 * (df + 1.0) * log1p(z * z / df) - 0.5 * log(df) - betaln(0.5 * df, 0.5),
        cdf=lambda z, df: stdtr(df, z),
        sf=lambda z, df: stdtr(df, -z),
        points=_REAL_POINTS,
        shape_points=((3.5, 1.2, 7.3),),
    ),
    Distribution(
        name="gamma",
        shapes=("a",),
        logpdf=lambda z, a: xlogy(a - 1.0, z) - z - gammaln(a),
        cdf=lambda z, a: gammainc(a, z),
        sf=lambda z, a: gammaincc(a, z),
        low=0.0,
        points=_POSITIVE_POINTS,
        shape_points=((1.7, 0.6, 4.2),),
    ),
    Distribution(
        name="chi2",
        shapes=("df",),
        logpdf=lambda z, df: xlogy(0.5 * df - 1.0, z) - 0.5 * z - gammaln(0.5 * df) - (0.5 * LOG_2) * df,
        cdf=lambda z, df: gammainc(0.5 * df, 0.5 * z),
        sf=lambda z, df: gammaincc(0.5 * df, 0.5 * z),
        low=0.0,
        points=_POSITIVE_POINTS,
        shape_points=((3.5, 1.2, 5.3),),
    ),
    Distribution(
        name="beta",
        shapes=("a", "b"),
        logpdf=lambda z, a, b: xlogy(a - 1.0, z) + xlog1py(b - 1.0, -z) - betaln(a, b),
        cdf=lambda z, a, b: betainc(a, b, z),
        sf=lambda z, a, b: betaincc(a, b, z),
        low=0.0,
        high=1.0,
        points=_SHARE_POINTS,
        shape_points=((1.7, 0.6, 3.2), (0.8, 2.4, 1.5)),
    ),
    Distribution(
        name="expon",
        logpdf=lambda z: -z,
        cdf=lambda z: -expm1(-z),
        sf=lambda z: exp(-z),
        logcdf=_log_of_difference,
        logsf=lambda z: -z,
        low=0.0,
        ppf=lambda q: -log1p(-q),
        points=_POSITIVE_POINTS,
    ),
    Distribution(
        name="uniform",
        logpdf=lambda z: 0.0 * z,
        cdf=lambda z: 1.0 * z,
        sf=lambda z: 1.0 - z,
        low=0.0,
        high=1.0,
        ppf=lambda q: 1.0 * q,
        points=_SHARE_POINTS,
    ),
    Distribution(
        name="lognorm",
        shapes=("s",),
        logpdf=_lognorm_logpdf,
        cdf=lambda z, s: ndtr(log(z) / s),
        sf=lambda z, s: ndtr(-log(z) / s),
        logcdf=lambda z, s: log_ndtr(log(z) / s),
        logsf=lambda z, s: log_ndtr(-log(z) / s),
        low=0.0,
        ppf=lambda q, s: exp(s * ndtri(q)),
        points=_POSITIVE_POINTS,
        shape_points=((0.7, 1.2, 0.4),),
    ),
    Distribution(
        name="laplace",
        logpdf=lambda z: -absolute(z) - LOG_2,
        cdf=lambda z: _laplace_tail(-z),
        sf=_laplace_tail,
        logcdf=lambda z: _laplace_log_tail(-z),
        logsf=_laplace_log_tail,
        points=_REAL_POINTS,
    ),
    Distribution(
        name="cauchy",
        logpdf=lambda z: -log1p(z * z) - math.log(math.pi),
        # The angle of (-z, 1) is exact in the left tail, where 1/2 + arctan(z) / pi cancels.
        cdf=lambda z: arctan2(1.0, -z) * (1.0 / math.pi),
        sf=lambda z: arctan2(1.0, z) * (1.0 / math.pi),
        points=_REAL_POINTS,
    ),
    Distribution(
        name="logistic",
        logpdf=lambda z: z - 2.0 * softplus(z),
        cdf=sigmoid,
        sf=lambda z: sigmoid(-z),
        logcdf=lambda z: -softplus(-z),
        logsf=lambda z: -softplus(z),
        ppf=logit,
        points=_REAL_POINTS,
    ),
    Distribution(
        name="halfnorm",
        logpdf=lambda z: -0.5 * (z * z) + (LOG_2 - HALF_LOG_2PI),
        cdf=lambda z: TABLE["erf"](z * math.sqrt(0.5)),
        sf=lambda z: erfc(z * math.sqrt(0.5)),
        logsf=lambda z: log_ndtr(-z) + LOG_2,
        low=0.0,
        points=_POSITIVE_POINTS,
    ),
    Distribution(
        name="weibull_min",
        shapes=("c",),
        logpdf=lambda z, c: log(c) + xlogy(c - 1.0, z) - power(z, c),
        cdf=lambda z, c: -expm1(-power(z, c)),
        sf=lambda z, c: exp(-power(z, c)),
        logsf=lambda z, c: -power(z, c),
        ppf=lambda q, c: power(-log1p(-q), 1.0 / c),
        low=0.0,
        points=_POSITIVE_POINTS,
        shape_points=((1.7, 0.6, 2.2),),
    ),
    Distribution(
        name="pareto",
        shapes=("b",),
        logpdf=lambda z, b: log(b) - (b + 1.0) * log(z),
        cdf=lambda z, b: -expm1(-b * log(z)),
        sf=lambda z, b: exp(-b * log(z)),
        logsf=lambda z, b: -b * log(z),
        ppf=lambda q, b: exp(-log1p(-q) / b),
        low=1.0,
        points=(1.3, 2.7, 1.9, 3.4, 4.8, 1.6),
        shape_points=((1.7, 0.6, 2.2),),
    ),
    Distribution(
        name="gumbel_r",
        logpdf=lambda z: -z - exp(-z),
        cdf=lambda z: exp(-exp(-z)),
        sf=lambda z: -expm1(-exp(-z)),
        logcdf=lambda z: -exp(-z),
        ppf=lambda q: -log(-log(q)),
        points=_REAL_POINTS,
    ),
    Distribution(
        name="rayleigh",
        logpdf=lambda z: log(z) - 0.5 * (z * z),
        cdf=lambda z: -expm1(-0.5 * (z * z)),
        sf=lambda z: exp(-0.5 * (z * z)),
        logsf=lambda z: -0.5 * (z * z),
        ppf=lambda q: sqrt(-2.0 * log1p(-q)),
        low=0.0,
        points=_POSITIVE_POINTS,
    ),
    Distribution(
        name="halfcauchy",
        logpdf=lambda z: math.log(2.0 / math.pi) - log1p(z * z),
        cdf=lambda z: (2.0 / math.pi) * arctan2(z, 1.0),
        sf=lambda z: (2.0 / math.pi) * arctan2(1.0, z),
        low=0.0,
        points=_POSITIVE_POINTS,
    ),
)
"""Every continuous distribution of one variable."""


class StatsMethod(NamedTuple):
    """What a registered method calls: the parameters that it takes, and the function that computes it."""

    signature: inspect.Signature
    compute: Curve


DISTRIBUTION_METHODS: dict[str, StatsMethod] = {}
"""Every method by the names of its distribution and its own, such as `norm.logpdf`."""


def call_method(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of a distribution, which takes SciPy's parameters by position or by name."""
    method = DISTRIBUTION_METHODS[name]
    bound = method.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    # As in SciPy, log(0) and NaN are answers here and no reason for a warning.
    with np.errstate(all="ignore"):
        return method.compute(*map(as_operand, bound.arguments.values()))


def _register_method(
    name: str, method: str, parameters: Sequence[inspect.Parameter], compute: Curve, samples: SampleMaker | None
) -> None:
    called = f"{name}.{method}"
    DISTRIBUTION_METHODS[called] = StatsMethod(inspect.Signature(list(parameters)), compute)

    def run(*args: Any, **kwargs: Any) -> Any:
        return call_method(called, args, kwargs)

    run.__doc__ = f"{METHOD_DOCS[method]} of `scipy.stats.{name}`."
    run.__signature__ = DISTRIBUTION_METHODS[called].signature  # type: ignore[attr-defined]
    # A traced call is named after its code, so functions made alike must not share theirs.
    run.__code__ = run.__code__.replace(co_name=called)
    register_function(scipy=(f"scipy.stats.{called}",), samples=samples, name=called)(run)


METHOD_DOCS = {
    "ppf": "The number that is not exceeded with a probability, the inverse of `cdf`,",
    "pdf": "The density",
    "logpdf": "The logarithm of the density",
    "pmf": "The probability of a whole number",
    "logpmf": "The logarithm of the probability of a whole number",
    "cdf": "The probability of at most x",
    "logcdf": "The logarithm of the probability of at most x",
    "sf": "The probability of more than x",
    "logsf": "The logarithm of the probability of more than x",
}


def list_parameters(*names: str, **defaults: Any) -> list[inspect.Parameter]:
    """Return parameters that may be given by position or by name, the last of them with defaults."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    required = [inspect.Parameter(name, kind) for name in names]
    return [*required, *(inspect.Parameter(name, kind, default=value) for name, value in defaults.items())]


def _sample_distribution(distribution: Distribution) -> SampleMaker:
    """Return calls at numbers in the support, with and without a location and a scale."""
    z = np.array(distribution.points)
    rows = [np.array(points) for points in distribution.shape_points]
    first = [float(row[0]) for row in rows]
    return sample_calls(
        (z, *first),
        (0.3 + 1.7 * z.reshape(2, 3), *first, 0.3, 1.7),
        (float(z[1]), *first),
        (np.full((0, 2), 0.5), *first),
        (2.0 * z[:3], *rows, {"scale": 2.0}),
        (z[:2, None] + 0.5, *rows, np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.2, 1.1])),
    )


def _register_distribution(distribution: Distribution) -> None:
    shapes = len(distribution.shapes)
    parameters = list_parameters("x", *distribution.shapes, loc=0, scale=1)
    for method in OUTSIDE:

        def compute(x: Any, *rest: Any, method: str = method) -> Any:
            return distribution.evaluate(method, x, rest[:shapes], rest[shapes], rest[shapes + 1])

        _register_method(distribution.name, method, parameters, compute, _sample_distribution(distribution))
    if distribution.ppf is not None:
        _register_inverse(distribution, distribution.ppf)


def _register_inverse(distribution: Distribution, curve: Curve) -> None:
    """Register the inverse of `cdf`; NaN for what is no probability, as for parameters that are not allowed."""
    shapes = len(distribution.shapes)

    def compute(q: Any, *rest: Any) -> Any:
        q = _require(q, logical_and(greater_equal(q, 0.0), less_equal(q, 1.0)))
        y = curve(q, *map(require_positive, rest[:shapes]))
        loc, scale = rest[shapes:]
        y = y if is_number(scale, 1) else y * require_positive(scale)
        return y if is_number(loc, 0) else y + loc

    shares = np.array(_SHARE_POINTS)
    rows = [np.array(points) for points in distribution.shape_points]
    first = [float(row[0]) for row in rows]
    samples = sample_calls(
        (shares, *first),
        (shares.reshape(2, 3), *first, 0.3, 1.7),
        (0.3, *first),
        (np.full((0, 2), 0.5), *first),
        (shares[:3], *rows, {"scale": 2.0}),
        (shares[:2, None], *rows, np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.2, 1.1])),
    )
    parameters = list_parameters("q", *distribution.shapes, loc=0, scale=1)
    _register_method(distribution.name, "ppf", parameters, compute, samples)


for _distribution in DISTRIBUTIONS:
    _register_distribution(_distribution)


@dataclass(frozen=True, kw_only=True)
class DiscreteDistribution:
    """A distribution of whole numbers from 0 on: functions of the number and of its shapes; no slope by the number."""

    name: str
    shapes: tuple[str, ...]
    logpmf: Curve
    cdf: Curve
    sf: Curve
    require: Callable[..., Sequence[Any]]
    """Returns the shapes, but NaN where they are not allowed."""
    highest: Callable[..., Any] | None = None
    """The largest number, as a function of the shapes; None if there is none."""
    points: tuple[int, ...]
    shape_points: tuple[tuple[float, ...], ...]

    def evaluate(self, method: str, k: Any, shapes: Sequence[Any], loc: Any) -> Any:
        """Compute a method at k."""
        shapes = self.require(*shapes)
        k = TABLE["stop_gradient"](k) if is_wire(k) else np.asarray(k)
        k = k if is_number(loc, 0) else k - loc
        if method in ("pmf", "logpmf"):
            return self._compute_mass(method, k, shapes)
        y = self._compute_probability(method.removeprefix("log"), floor(k), shapes)
        return log(y) if method.startswith("log") else y

    def _compute_mass(self, method: str, k: Any, shapes: Sequence[Any]) -> Any:
        outside = logical_or(less(k, 0.0), not_equal(k, floor(k)))
        if self.highest is not None:
            outside = logical_or(outside, greater(k, self.highest(*shapes)))
        y = self.logpmf(where(outside, 0.0, k), *shapes)
        y = exp(y) if method == "pmf" else y
        return where(outside, spoil_constant(0.0 if method == "pmf" else -math.inf, shapes), y)

    def _compute_probability(self, method: str, k: Any, shapes: Sequence[Any]) -> Any:
        low, high = (spoil_constant(constant, shapes) for constant in OUTSIDE[method])
        is_low = less(k, 0.0)
        is_high = np.False_ if self.highest is None else greater_equal(k, self.highest(*shapes))
        y = getattr(self, method)(where(logical_or(is_low, is_high), 0.0, k), *shapes)
        return where(is_low, low, where(is_high, high, y))


def _require_rate(mu: Any) -> list[Any]:
    return [_require(mu, greater_equal(mu, 0.0))]


def _require_share(n: Any, p: Any) -> list[Any]:
    whole = logical_and(greater_equal(n, 0.0), equal(n, floor(n)))
    return [_require(n, whole), _require(p, logical_and(greater_equal(p, 0.0), less_equal(p, 1.0)))]


def _binom_logpmf(k: Any, n: Any, p: Any) -> Any:
    return xlogy(k, p) + xlog1py(n - k, -p) - betaln(n - k + 1.0, k + 1.0) - log(n + 1.0)


DISCRETE_DISTRIBUTIONS = (
    DiscreteDistribution(
        name="poisson",
        shapes=("mu",),
        logpmf=lambda k, mu: xlogy(k, mu) - mu - gammaln(k + 1.0),
        cdf=lambda k, mu: gammaincc(k + 1.0, mu),
        sf=lambda k, mu: gammainc(k + 1.0, mu),
        require=_require_rate,
        points=(0, 1, 3, 2, 5, 4),
        shape_points=((2.4, 0.7, 4.8),),
    ),
    DiscreteDistribution(
        name="binom",
        shapes=("n", "p"),
        logpmf=_binom_logpmf,
        cdf=lambda k, n, p: betaincc(k + 1.0, n - k, p),
        sf=lambda k, n, p: betainc(k + 1.0, n - k, p),
        require=_require_share,
        highest=lambda n, p: n,
        points=(0, 1, 3, 2, 5, 4),
        shape_points=((7, 6, 8), (0.4, 0.25, 0.7)),
    ),
    DiscreteDistribution(
        name="bernoulli",
        shapes=("p",),
        logpmf=lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p),
        cdf=lambda k, p: 1.0 - p + 0.0 * k,
        sf=lambda k, p: p + 0.0 * k,
        require=lambda p: [_require(p, logical_and(greater_equal(p, 0.0), less_equal(p, 1.0)))],
        highest=lambda p: 1.0,
        points=(0, 1, 1, 0, 1, 0),
        shape_points=((0.4, 0.25, 0.7),),
    ),
    DiscreteDistribution(
        name="nbinom",
        shapes=("n", "p"),
        logpmf=lambda k, n, p: gammaln(n + k) - gammaln(k + 1.0) - gammaln(n) + n * log(p) + xlog1py(k, -p),
        cdf=lambda k, n, p: betainc(n, k + 1.0, p),
        sf=lambda k, n, p: betaincc(n, k + 1.0, p),
        require=lambda n, p: [
            require_positive(n),
            _require(p, logical_and(greater(p, 0.0), less_equal(p, 1.0))),
        ],
        points=(0, 1, 3, 2, 5, 4),
        shape_points=((2.4, 0.7, 4.8), (0.4, 0.25, 0.7)),
    ),
)
"""Every distribution of whole numbers."""
DISCRETE_METHODS = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf")


def _sample_discrete(distribution: DiscreteDistribution) -> SampleMaker:
    k = np.array(distribution.points)
    rows = [np.array(points) for points in distribution.shape_points]
    first = [points[0] for points in distribution.shape_points]
    return sample_calls(
        (k, *first),
        (k.reshape(2, 3), *rows),
        (2, *first),
        (np.zeros((0, 2), int), *first),
        (k[:3] + 1, *rows, 1),
        (k[:2, None], *rows),
    )


def _register_discrete(distribution: DiscreteDistribution) -> None:
    parameters = list_parameters("k", *distribution.shapes, loc=0)
    for method in DISCRETE_METHODS:

        def compute(k: Any, *rest: Any, method: str = method) -> Any:
            return distribution.evaluate(method, k, rest[:-1], rest[-1])

        _register_method(distribution.name, method, parameters, compute, _sample_discrete(distribution))


for _discrete in DISCRETE_DISTRIBUTIONS:
    _register_discrete(_discrete)


def _normal_logpdf(x: Any, mean: Any, cov: Any, allow_singular: Any) -> Any:
    """Return the logarithm of the density of a multivariate normal distribution, rows along the last axis."""
    if allow_singular:
        raise NoRuleError(f"multivariate_normal(allow_singular=True) has no rule{format_user_line()}")
    squares, half_log_det, size = _measure_distances(x, mean, cov)
    return _drop_short_axes(-0.5 * squares - half_log_det - size * HALF_LOG_2PI)


def _measure_distances(x: Any, mean: Any, cov: Any) -> tuple[Any, Any, int]:
    """Return squared distances in units of the covariance, half the logarithm of its determinant, and its size."""
    x, mean, cov = _as_rows(x, None if mean is None else lift(mean), lift(cov))
    size = shape_of(cov)[-1]
    factor = cholesky(cov)
    gaps = x if mean is None else x - mean
    whitened = solve(factor, moveaxis(reshape(gaps, (-1, size)), -1, 0))
    squares = reshape(sum_(whitened * whitened, axis=0), shape_of(gaps)[:-1])
    return squares, sum_(log(diagonal(factor))), size


def _student_logpdf(x: Any, loc: Any, shape: Any, df: Any) -> Any:
    """Return the logarithm of the density of a multivariate t-distribution, rows along the last axis."""
    if not is_wire(df) and np.isinf(df):
        return _normal_logpdf(x, loc, shape, False)
    squares, half_log_det, size = _measure_distances(x, loc, shape)
    df = lift(df)
    constant = gammaln(0.5 * (df + size)) - gammaln(0.5 * df) - 0.5 * size * log(np.pi * df)
    return _drop_short_axes(constant - half_log_det - 0.5 * (df + size) * log1p(squares / df))


def _drop_short_axes(y: Any) -> Any:
    """Return an array without its axes of length 1, as SciPy returns densities of vectors."""
    return reshape(y, [length for length in shape_of(y) if length != 1])


def _as_rows(x: Any, mean: Any, cov: Any) -> tuple[Any, Any, Any]:
    """Return points as rows and the covariance as a matrix, by SciPy's rules for numbers and vectors."""
    sizes = [shape_of(p)[0] for p in (mean, cov) if p is not None and ndim_of(p)]
    size = sizes[0] if sizes else 1
    if ndim_of(cov) < 2:
        cov = expand_dims(cov, -1) * np.eye(size) if ndim_of(cov) else cov * np.eye(size)
    if shape_of(cov) != (size, size):
        raise ValueError(f"Array 'cov' must be square and fit the mean; got {shape_of(cov)} for {size} variables")
    x = lift(x)
    if ndim_of(x) == 0:
        x = reshape(x, (1, 1))
    elif ndim_of(x) == 1:
        x = expand_dims(x, 1 if size == 1 else 0)
    if shape_of(x)[-1] != size:
        raise ValueError(f"points must have {size} coordinates along the last axis; got shape {shape_of(x)}")
    return x, mean, cov


_COVARIANCE = np.array([[1.5, 0.4, -0.2], [0.4, 0.9, 0.1], [-0.2, 0.1, 1.2]])
_ROWS = np.array([[0.3, -0.7, 1.7], [-1.3, 0.6, 0.9], [0.2, 1.1, -0.4], [0.8, -0.1, 0.5]])
_NORMAL_SAMPLES = sample_calls(
    (_ROWS, _ROWS[0]),
    (_ROWS[0], _ROWS[1], {"cov": _COVARIANCE}),
    (_ROWS.reshape(2, 2, 3), _ROWS[1], {"cov": _COVARIANCE}),
    (_ROWS[:, 0],),
    (0.7, 0.2, {"cov": 1.7}),
    (_ROWS, _ROWS[0], np.array([1.5, 0.6, 0.9])),
    (_ROWS, _ROWS[0], 1.4),
)

_STUDENT_SAMPLES = sample_calls(
    (_ROWS, _ROWS[0], 1.4, 5.0),
    (_ROWS[0], _ROWS[1], {"shape": _COVARIANCE, "df": 3.5}),
    (_ROWS.reshape(2, 2, 3), _ROWS[1], {"shape": _COVARIANCE}),
    (_ROWS, _ROWS[0], np.array([1.5, 0.6, 0.9]), 2.5),
    (_ROWS[:3], _ROWS[2], {"shape": _COVARIANCE, "df": 7.0}),
    (_ROWS[1], _ROWS[2], np.array([0.8, 1.6, 0.7]), 4.0),
)


def _dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    """Return the logarithm of the density of a Dirichlet distribution, shares along the first axis."""
    x, alpha = lift(x), lift(alpha)
    size = shape_of(alpha)[0]
    if shape_of(x)[0] == size - 1:
        x = concatenate([x, 1.0 - sum_(x, axis=0, keepdims=True)], 0)
    elif shape_of(x)[0] != size:
        raise ValueError(f"x must have {size} or {size - 1} shares along its first axis, as alpha; got {shape_of(x)}")
    elif not is_wire(x) and np.any(np.abs(np.sum(x, axis=0) - 1.0) > SHARES_TOLERANCE):
        raise ValueError(f"the shares must add up to 1; got {np.sum(x, axis=0)}")
    if not is_wire(alpha) and np.any(alpha <= 0):
        raise ValueError("All parameters must be greater than 0")
    column = reshape(alpha, (size,) + (1,) * (ndim_of(x) - 1))
    y = sum_(xlogy(column - 1.0, x), axis=0) - sum_(gammaln(alpha)) + gammaln(sum_(alpha))
    return _drop_short_axes(_spoil_shares(y, x, alpha))


def _spoil_shares(y: Any, x: Any, alpha: Any) -> Any:
    """Return y, but NaN where recorded shares do not add up to 1, or where a recorded parameter is not positive."""
    if is_wire(x):
        total = sum_(x, axis=0)
        y = where(less_equal(absolute(total - 1.0), SHARES_TOLERANCE), y, undefined(total))
    if is_wire(alpha):
        y = where(greater(min_(alpha), 0.0), y, undefined(sum_(alpha)))
    return y


_DIRICHLET_SAMPLES = sample_calls(
    (np.array([0.2, 0.3]), np.array([1.7, 0.6, 3.2])),
    (np.array([0.5]), np.array([0.8, 2.4])),
    (np.array([[0.2, 0.5], [0.3, 0.1]]), np.array([1.7, 0.6, 3.2])),
    (np.array([0.1, 0.4, 0.2]), np.array([1.5, 0.9, 2.2, 1.1])),
    (np.array([[0.2], [0.3]]), np.array([2.7, 1.6, 0.7])),
    (np.array([0.35]), np.array([3.8, 1.4])),
)


def _exponentiate(curve: Curve) -> Curve:
    return lambda *args: exp(curve(*args))


def _list_vector_methods() -> Iterator[tuple[str, list[inspect.Parameter], Curve, SampleMaker]]:
    normal = list_parameters("x", mean=None, cov=1, allow_singular=False)
    yield "multivariate_normal", normal, _normal_logpdf, _NORMAL_SAMPLES
    yield "multivariate_t", list_parameters("x", loc=None, shape=1, df=1), _student_logpdf, _STUDENT_SAMPLES
    yield "dirichlet", list_parameters("x", "alpha"), _dirichlet_logpdf, _DIRICHLET_SAMPLES


for _name, _parameters, _curve, _samples in _list_vector_methods():
    _register_method(_name, "logpdf", _parameters, _curve, _samples)
    _register_method(_name, "pdf", _parameters, _exponentiate(_curve), _samples)
