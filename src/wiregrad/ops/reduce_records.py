"""Records of the ops that reduce, scan and order elements.

Rules never divide by an element: the product of all other elements is computed by running products from both sides, and
the gradient of a running product is itself a recurrence. So zeros need no special case, and every rule takes linear
time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from wiregrad.ir import TABLE, Advice, Pattern
from wiregrad.ops.array_ops import Blocking, General, LinearOp, Reduction, fold_with, keep_shape, undo_reduction
from wiregrad.ops.elementwise_records import nan_or
from wiregrad.ops.gradient_flow import conjugate_flow, has_nan, match_shape, only, shape_of
from wiregrad.ops.shape_records import broadcast_array, convert_plain

register = TABLE.add

MAX_PYTHON_ROWS = 8
"""Maximum number of rows for which a recurrence runs row by row on Python numbers, not step by step on arrays."""


def sum_and_spread(x: Any, *axes: int) -> Any:
    """Return the sum along axes, spread back to the shape of x."""
    return match_shape(TABLE["sum"](x, axes=axes, keepdims=True), x)


def mask_to_number(mask: Any, like: Any) -> Any:
    """Return 1 where a mask is true and 0 elsewhere, in the dtype of another value."""
    numbers = TABLE["where"](mask, 1.0, 0.0)
    dtype = getattr(like, "dtype", numbers.dtype)
    return numbers if dtype == numbers.dtype else TABLE["cast"](numbers, dtype=dtype.name)


def slice_index(axis: int, start: int | None, stop: int | None) -> tuple[Any, ...]:
    """Return the stored index of a slice along one axis, which is counted from the end."""
    return (("slice", start, stop, None), *((("slice", None, None, None),) * (-1 - axis)))


def slice_axis(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    """Return a slice along one axis."""
    return TABLE["getitem"](x, index=slice_index(axis, start, stop))


def drop_last(x: Any, axis: int) -> Any:
    """Return all but the last slice along an axis."""
    return slice_axis(x, axis, None, -1)


def drop_first(x: Any, axis: int) -> Any:
    """Return all but the first slice along an axis."""
    return slice_axis(x, axis, 1, None)


def merge_axes(x: Any, axes: tuple[int, ...]) -> Any:
    """Return x with some axes merged into one, which comes last."""
    shape = shape_of(x)
    others = _other_axes(len(shape), axes)
    if (*others, *axes) != tuple(range(-len(shape), 0)):
        x = TABLE["permute"](x, axes=(*others, *axes))
    length = int(np.prod([shape[axis] for axis in axes], dtype=np.int64))
    return TABLE["reshape"](x, rank=len(shape), shape=(*(shape[axis] for axis in others), length))


def _unmerge_axes(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return x in the shape it had before some of its axes were merged."""
    order = (*_other_axes(len(shape), axes), *axes)
    x = TABLE["reshape"](x, rank=len(shape_of(x)), shape=tuple(shape[axis] for axis in order))
    return TABLE["permute"](x, axes=tuple(int(k) - len(shape) for k in np.argsort(order)))


def _other_axes(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(-ndim, 0) if axis not in axes)


register(
    LinearOp(
        name="sum",
        remedies=Advice.SUM,
        doc="Sum along axes.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        # The same as np.sum, without the cost of its wrappers.
        forward=lambda x, *, axes, keepdims: np.add.reduce(x, axis=axes, keepdims=keepdims),
        numpy="np.sum",
        transpose=lambda g, slot, x, *, axes, keepdims: undo_reduction(g, shape_of(x), axes, keepdims),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), {"axes": (-2, -1), "keepdims": False}),
            (rng.normal(size=(2, 3)), {"axes": (-1,), "keepdims": True}),
            (rng.normal(size=(2, 3, 2)), {"axes": (-3, -1), "keepdims": False}),
            (rng.normal(size=1), {"axes": (-1,), "keepdims": False}),
            (rng.normal(size=()), {"axes": (), "keepdims": False}),
            (rng.normal(size=(0, 3)), {"axes": (-2,), "keepdims": False}),
        ],
    )
)


def _reduction_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return samples that every reduction of at least one number accepts."""
    return [
        (rng.normal(size=(2, 3)), {"axes": (-2, -1), "keepdims": False}),
        (rng.normal(size=(2, 3)), {"axes": (-1,), "keepdims": True}),
        (rng.normal(size=(2, 3)), {"axes": (-2,), "keepdims": False}),
        (rng.normal(size=(2, 3, 2)), {"axes": (-3, -1), "keepdims": False}),
        (rng.normal(size=1), {"axes": (-1,), "keepdims": False}),
        (rng.normal(size=()), {"axes": (), "keepdims": False}),
        (rng.normal(size=(0, 3)), {"axes": (-1,), "keepdims": False}),
    ]


def _share_among_equals(x: Any, y: Any, axes: tuple[int, ...]) -> Any:
    """Return 1 / n where n elements along the axes equal y."""
    return 1.0 / sum_and_spread(mask_to_number(TABLE["equal"](x, y), x), *axes)


def _extreme_slope(x: Any, y: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the slope of an op that picks an element: shared by all equal elements, NaN where the result is NaN."""
    met = TABLE["equal"](x, y)
    if type(met) is np.ndarray and not has_nan(y):
        return only(met, 1.0 if _picks_one_each(met, axes) else _share_rows(met, axes, x.dtype))
    won = TABLE["logical_or"](met, TABLE["isnan"](y))
    return only(won, nan_or(y, _share_among_equals(x, y, axes)))


def _picks_one_each(met: Any, axes: tuple[int, ...]) -> bool:
    """Return whether exactly one element along the axes is marked, in every row."""
    rows = prod([n for k, n in enumerate(met.shape) if k - met.ndim not in axes])
    return bool(np.count_nonzero(met) == rows)


def _share_rows(met: Any, axes: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Return 1 / n for rows along the axes in which n elements are marked, spread to all elements of the row."""
    if len(axes) == 1 and met.shape[axes[0]] <= MAX_ADDED_SLICES:
        # NumPy takes many times as long to add up along a short axis.
        slices = [np.take(met, [k], axes[0]) for k in range(met.shape[axes[0]])]
        counts = sum(slices[1:], start=slices[0].astype(dtype))
    else:
        counts = np.add.reduce(met, axis=axes, keepdims=True, dtype=dtype)
    return broadcast_array(1.0 / counts, met.shape)


MAX_ADDED_SLICES = 8


def _absolute_gap(a: Any, b: Any) -> Any:
    """Return |a - b| for arrays, but 0 for equal infinities and inf where one is NaN."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    return np.where(a == b, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _gap_to_runner_up(x: Any, y: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the distance from the picked element to the nearest other one; inf if there is no other."""
    rows = merge_axes(_absolute_gap(x, undo_reduction(y, shape_of(x), axes, keepdims)), axes)
    if rows.shape[-1] < 2:
        return np.full(shape_of(y), np.inf)
    return np.partition(rows, 1, axis=-1)[..., 1].reshape(shape_of(y))


def _register_extreme(name: str, doc: str, forward: Callable[..., Any], of_two: str) -> Reduction:
    """Register an op that picks an element."""
    return register(
        Reduction(
            name=name,
            doc=doc,
            inputs=("x",),
            pattern=Pattern.ROUTE,
            forward=lambda x, *, axes, keepdims: forward(x, axis=axes, keepdims=keepdims),
            numpy=f"np.{name}",
            slope=_extreme_slope,
            gap=_gap_to_runner_up,
            by_elements=fold_with(of_two),
            step=TABLE[of_two],
            samples=_reduction_samples,
        )
    )


_register_extreme("max", "Largest element along axes; equal ones share the gradient.", np.max, "maximum")
_register_extreme("min", "Smallest element along axes; equal ones share the gradient.", np.min, "minimum")
_register_extreme("nanmax", "Largest element along axes; NaN only if all are NaN.", np.nanmax, "fmax")
_register_extreme("nanmin", "Smallest element along axes; NaN only if all are NaN.", np.nanmin, "fmin")


def _products_before(y: Any, axis: int, *, reverse: bool) -> Any:
    """Return each running product without its last factor, given the running products y."""
    shape = list(shape_of(y))
    shape[axis] = min(shape[axis], 1)
    ones = np.ones(shape, y.dtype)
    return TABLE["concatenate"](*((drop_first(y, axis), ones) if reverse else (ones, drop_last(y, axis))), axis=axis)


def _product_of_others(x: Any, y: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return for each element the product of all others, without dividing."""
    row = merge_axes(x, axes)
    left, right = (_products_before(cumprod(row, axis=-1, reverse=way), -1, reverse=way) for way in (False, True))
    return _unmerge_axes(left * right, shape_of(x), axes)


register(
    Reduction(
        name="prod",
        remedies=Advice.MANY_FACTORS,
        doc="Product along axes; the slope of each factor is the product of the others.",
        inputs=("x",),
        pattern=Pattern.SWAP,
        forward=lambda x, *, axes, keepdims: np.prod(x, axis=axes, keepdims=keepdims),
        numpy="np.prod",
        slope=_product_of_others,
        by_elements=fold_with("multiply"),
        step=TABLE["multiply"],
        samples=lambda rng: [
            *_reduction_samples(rng),
            (rng.normal(size=(0, 3)), {"axes": (-2,), "keepdims": False}),
            (np.array([[2.0, 0.0, -3.0], [0.0, 1.5, 0.0]]), {"axes": (-1,), "keepdims": False}),
        ],
    )
)


def _shifted_exp(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return exp(x - m) and m, the maximum of x along axes, or 0 if that is not finite."""
    # The methods of ufuncs are what np.max and np.sum call in the end.
    top = np.maximum.reduce(convert_plain(x), axis=axes, keepdims=True, initial=-np.inf)
    if not np.isfinite(top).all():
        top = np.where(np.isfinite(top), top, np.zeros_like(top))
    return np.exp(x - top), top


def _compute_logsumexp(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    with np.errstate(divide="ignore", over="ignore"):
        powers, top = _shifted_exp(x, axes)
        y = np.log(np.add.reduce(powers, axis=axes, keepdims=True)) + top
    return y if keepdims else y.squeeze(axes)[()]


def _compute_softmax(x: Any, *, axes: tuple[int, ...]) -> Any:
    # A row of -inf gives 0 / 0 and one with inf gives inf / inf: both are NaN by definition, without a warning.
    with np.errstate(invalid="ignore", over="ignore"):
        powers, _ = _shifted_exp(x, axes)
        return powers / np.sum(powers, axis=axes, keepdims=True)


def _compute_log_softmax(x: Any, *, axes: tuple[int, ...]) -> Any:
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        powers, top = _shifted_exp(x, axes)
        return x - top - np.log(np.sum(powers, axis=axes, keepdims=True))


def _scaled_exp(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return exp(x - m) and m as `_shifted_exp` does, in wiregrad's ops."""
    top = TABLE["max"](x, axes=axes, keepdims=True)
    top = TABLE["where"](TABLE["isfinite"](top), top, 0.0)
    return TABLE["exp"](x - match_shape(top, x)), top


def _log_of_scaled(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    powers, top = _scaled_exp(x, axes)
    y = TABLE["log"](TABLE["sum"](powers, axes=axes, keepdims=True)) + top
    if keepdims:
        return y
    reduced_shape = tuple(shape_of(x)[axis] for axis in _other_axes(len(shape_of(x)), axes))
    return TABLE["reshape"](y, rank=len(shape_of(x)), shape=reduced_shape)


def _shares_of_scaled(x: Any, *, axes: tuple[int, ...]) -> Any:
    powers, _ = _scaled_exp(x, axes)
    return powers / sum_and_spread(powers, *axes)


def _logs_of_shares(x: Any, *, axes: tuple[int, ...]) -> Any:
    powers, top = _scaled_exp(x, axes)
    logs = TABLE["log"](TABLE["sum"](powers, axes=axes, keepdims=True))
    return x - match_shape(top, x) - match_shape(logs, x)


def _logsumexp_slope(x: Any, y: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the slope of logsumexp: softmax, or equal shares among infinite elements if the result is infinite."""
    # exp(x - y) would have the rounding error of y; softmax(1000, 1000) is exactly one half.
    infinite = mask_to_number(TABLE["equal"](x, y), x) * _share_among_equals(x, y, axes)
    return TABLE["where"](TABLE["isinf"](y), infinite, softmax(x, axes=axes))


def _register_log_of_sum(
    name: str, doc: str, forward: Callable[..., Any], samples: Callable[..., Any], **facts: Any
) -> Reduction:
    """Register a logarithm of a sum of exponentials."""
    return register(
        Reduction(
            name=name,
            doc=doc,
            inputs=("x",),
            pattern=Pattern.SCALE,
            forward=forward,
            slope=_logsumexp_slope,
            samples=samples,
            **facts,
        )
    )


_LOGSUMEXP = '''\
def logsumexp(x, axis=None, keepdims=False):
    """Return log(sum(exp(x))) along axes; the largest x is taken out first, so that nothing overflows."""
    with np.errstate(divide="ignore", over="ignore"):
        top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, np.zeros_like(top))
        y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return y if keepdims else np.squeeze(y, axis)[()]
'''
_register_log_of_sum(
    "logsumexp",
    "log(sum(exp(x))) along axes, without overflow.",
    _compute_logsumexp,
    lambda rng: [*_reduction_samples(rng), (rng.normal(size=(3, 2)) + 1000.0, {"axes": (-2,), "keepdims": False})],
    numpy="logsumexp",
    numpy_needs=(_LOGSUMEXP,),
    composite=_log_of_scaled,
)
_register_log_of_sum(
    "logaddexp_reduce",
    "logaddexp of one element after another along an axis.",
    lambda x, *, axes, keepdims: np.logaddexp.reduce(x, axis=axes, keepdims=keepdims),
    lambda rng: [sample for sample in _reduction_samples(rng) if len(sample[-1]["axes"]) < 2],
    # Left out, the axis of `reduce` is the first, not all.
    numpy=lambda x, *, types, axes, keepdims: (
        f"np.logaddexp.reduce({x}, axis={axes[0] % len(types[0].shape) if axes else ()}"
        f"{', keepdims=True' if keepdims else ''})"
    ),
    step=TABLE["logaddexp"],
)


def _axes_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (rng.normal(size=(2, 3)), {"axes": (-1,)}),
        (rng.normal(size=(2, 3)), {"axes": (-2,)}),
        (rng.normal(size=(2, 3)) + 1000.0, {"axes": (-2, -1)}),
        (rng.normal(size=1), {"axes": (-1,)}),
        (rng.normal(size=()), {"axes": ()}),
        (rng.normal(size=(2, 0)), {"axes": (-1,)}),
    ]


def _softmax_rule(slot: int, flow: Any, xs: Any, y: Any, *, axes: tuple[int, ...]) -> Any:
    """Return the rule of softmax for either mode: its Jacobian is symmetric."""
    return y * (flow - sum_and_spread(y * flow, *axes))


_SOFTMAX = '''\
def softmax(x, axis=None):
    """Return exp(x) / sum(exp(x)) along axes; the largest x is taken out first, so that nothing overflows."""
    with np.errstate(invalid="ignore", over="ignore"):
        top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        powers = np.exp(x - np.where(np.isfinite(top), top, np.zeros_like(top)))
        return powers / np.sum(powers, axis=axis, keepdims=True)
'''
softmax: General = register(
    General(
        name="softmax",
        remedies=Advice.SOFTMAX,
        doc="exp(x) / sum(exp(x)) along axes, without overflow.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=_compute_softmax,
        output_shape=keep_shape,
        numpy="softmax",
        numpy_needs=(_SOFTMAX,),
        composite=_shares_of_scaled,
        back=_softmax_rule,
        ahead=_softmax_rule,
        samples=_axes_samples,
    )
)
_LOG_SOFTMAX = '''\
def log_softmax(x, axis=None):
    """Return log(softmax(x)) along axes, exact where softmax is nearly 0."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, np.zeros_like(top))
        return x - top - np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True))
'''
register(
    General(
        name="log_softmax",
        remedies=Advice.LOG_SOFTMAX,
        doc="log(softmax(x)) along axes, exact where softmax is nearly 0.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=_compute_log_softmax,
        output_shape=keep_shape,
        numpy="log_softmax",
        numpy_needs=(_LOG_SOFTMAX,),
        composite=_logs_of_shares,
        back=lambda slot, g, xs, y, *, axes: g - TABLE["exp"](y) * sum_and_spread(g, *axes),
        ahead=lambda slot, t, xs, y, *, axes: t - sum_and_spread(TABLE["exp"](y) * t, *axes),
        samples=_axes_samples,
    )
)


def _scan_along(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a scan along an axis that can also run in reverse."""

    def scan_array(x: Any, *, axis: int, reverse: bool) -> Any:
        return np.flip(run(np.flip(x, axis), axis=axis), axis) if reverse else run(x, axis=axis)

    return scan_array


def _scan_text(name: str) -> Callable[..., str]:
    """Return a writer of a scan that can also run in reverse."""

    def write_text(x: str, *, types: Any, axis: int, reverse: bool) -> str:
        front = axis % len(types[0].shape)
        turned = f"np.flip({x}, axis={front})" if reverse else x
        run = f"np.{name}({turned}, axis={front})"
        return f"np.flip({run}, axis={front})" if reverse else run

    return write_text


def _scan_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [
        (rng.normal(size=4), {"axis": -1, "reverse": False}),
        (rng.normal(size=(2, 3)), {"axis": -2, "reverse": False}),
        (rng.normal(size=(2, 3, 2)), {"axis": -2, "reverse": True}),
        (rng.normal(size=(2, 4)), {"axis": -1, "reverse": True}),
        (rng.normal(size=1), {"axis": -1, "reverse": False}),
        (rng.normal(size=(2, 0)), {"axis": -1, "reverse": True}),
    ]


cumsum: LinearOp = register(
    LinearOp(
        name="cumsum",
        remedies=Advice.SUM,
        doc="Running sum along an axis; backward it runs the other way.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_scan_along(np.cumsum),
        output_shape=keep_shape,
        numpy=_scan_text("cumsum"),
        step=TABLE["add"],
        transpose=lambda g, slot, x, *, axis, reverse: cumsum(g, axis=axis, reverse=not reverse),
        moves=True,
        samples=_scan_samples,
    )
)


def _step_factors(x: Any, axis: int, *, reverse: bool) -> Any:
    """Return the factor from each running product to the next."""
    return drop_last(x, axis) if reverse else drop_first(x, axis)


cumprod: General = register(
    General(
        name="cumprod",
        remedies=Advice.MANY_FACTORS,
        doc="Running product along an axis.",
        inputs=("x",),
        pattern=Pattern.SWAP,
        forward=_scan_along(np.cumprod),
        output_shape=keep_shape,
        numpy=_scan_text("cumprod"),
        step=TABLE["multiply"],
        back=lambda slot, g, xs, y, *, axis, reverse: (
            recurrence(conjugate_flow(_step_factors(xs[0], axis, reverse=reverse)), g, axis=axis, reverse=not reverse)
            * conjugate_flow(_products_before(y, axis, reverse=reverse))
        ),
        ahead=lambda slot, t, xs, y, *, axis, reverse: recurrence(
            _step_factors(xs[0], axis, reverse=reverse),
            t * _products_before(y, axis, reverse=reverse),
            axis=axis,
            reverse=reverse,
        ),
        samples=lambda rng: [
            *_scan_samples(rng),
            (np.array([2.0, 0.0, -3.0, 0.0, 1.5]), {"axis": -1, "reverse": False}),
        ],
    )
)


def _compute_recurrence(a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    way = -1 if reverse else 1
    links = np.moveaxis(a, axis, 0)[::way]
    terms = np.moveaxis(b, axis, 0)[::way]
    dtype = np.result_type(a, b)
    if terms.size <= MAX_PYTHON_ROWS * len(terms):
        flat = [_run_recurrence(*row) for row in zip(_list_rows(links), _list_rows(terms), strict=True)]
        h = np.array(flat, dtype).T.reshape(terms.shape)
    else:
        # Python numbers are float64, and the result for a row must not depend on the number of rows.
        h = terms.astype(np.result_type(dtype, np.float64))
        for k in range(1, len(h)):
            h[k] += links[k - 1] * h[k - 1]
        h = h.astype(dtype, copy=False)
    return np.moveaxis(h[::way], 0, axis)


def _list_rows(x: Any) -> Any:
    return x.reshape(len(x), int(np.prod(x.shape[1:]))).T.tolist()


def _run_recurrence(links: list[Any], terms: list[Any]) -> list[Any]:
    h = terms[:1]
    for link, term in zip(links, terms[1:], strict=True):
        h.append(link * h[-1] + term)
    return h


def _recurrence_back(slot: int, g: Any, xs: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    terms = recurrence(conjugate_flow(xs[0]), g, axis=axis, reverse=not reverse)
    if slot == 1:
        return terms
    return (
        drop_last(terms, axis) * conjugate_flow(drop_first(y, axis))
        if reverse
        else drop_first(terms, axis) * conjugate_flow(drop_last(y, axis))
    )


def _recurrence_ahead(slot: int, t: Any, xs: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    if slot == 0:
        tangent = t * (drop_first(y, axis) if reverse else drop_last(y, axis))
        index = slice_index(axis, None, -1) if reverse else slice_index(axis, 1, None)
        t = TABLE["put_add"](tangent, index=index, shape=shape_of(y)[axis:])
    return recurrence(xs[0], t, axis=axis, reverse=reverse)


_RECURRENCE = '''\
def recurrence(a, b, axis, reverse=False):
    """Return h along an axis: h[0] = b[0], h[k] = a[k - 1] * h[k - 1] + b[k]; reversed, from the other end."""
    way = -1 if reverse else 1
    a, b = np.moveaxis(a, axis, 0)[::way], np.moveaxis(b, axis, 0)[::way]
    h = b.astype(np.result_type(a, b, np.float64))
    for k in range(1, len(h)):
        h[k] += a[k - 1] * h[k - 1]
    return np.moveaxis(h[::way], 0, axis).astype(np.result_type(a, b))
'''
recurrence: General = register(
    General(
        name="recurrence",
        doc="h[i] = a[i - 1] * h[i - 1] + b[i] along an axis, from h[0] = b[0]; `a` is one shorter than `b`.",
        inputs=("a", "b"),
        pattern=Pattern.SWAP,
        forward=_compute_recurrence,
        numpy="recurrence",
        numpy_needs=(_RECURRENCE,),
        step=lambda h, a, b: a * h + b,
        back=_recurrence_back,
        ahead=_recurrence_ahead,
        samples=lambda rng: [
            (rng.normal(size=3), rng.normal(size=4), {"axis": -1, "reverse": False}),
            (rng.normal(size=3), rng.normal(size=4), {"axis": -1, "reverse": True}),
            (rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), {"axis": -2, "reverse": False}),
            (rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 3, 4)), {"axis": -2, "reverse": True}),
            (rng.normal(size=(2, 0)), rng.normal(size=(2, 1)), {"axis": -1, "reverse": False}),
            (rng.normal(size=(2, 0)), rng.normal(size=(2, 0)), {"axis": -1, "reverse": False}),
        ],
    )
)


def _extreme_run(x: Any, y: Any, axis: int) -> tuple[Any, Any, Any]:
    """Return where x equals the running extreme, 1 where the next element keeps that extreme, and a count of ties."""
    stands = mask_to_number(TABLE["equal"](drop_first(y, axis), drop_last(y, axis)), x)
    met = TABLE["equal"](x, y)
    return met, stands, recurrence(stands, mask_to_number(met, x), axis=axis, reverse=False)


def _running_extreme_back(slot: int, g: Any, xs: Any, y: Any, *, axis: int) -> Any:
    met, stands, times = _extreme_run(xs[0], y, axis)
    sent = recurrence(stands, g / times, axis=axis, reverse=True)
    last = match_shape(slice_axis(y, axis, -1, None), y)
    return only(TABLE["logical_or"](met, TABLE["isnan"](last)), nan_or(last, sent))


def _running_extreme_ahead(slot: int, t: Any, xs: Any, y: Any, *, axis: int) -> Any:
    met, stands, times = _extreme_run(xs[0], y, axis)
    return nan_or(y, recurrence(stands, TABLE["where"](met, t, 0.0), axis=axis, reverse=False) / times)


def _running_extreme_gap(x: Any, y: Any, *, axis: int) -> Any:
    """Return the distance of each element from the extreme of those before it; inf for the first."""
    first = np.full_like(slice_axis(y, axis, None, 1), np.nan)
    return _absolute_gap(x, np.concatenate([first, drop_last(y, axis)], axis)) if x.size else np.zeros(x.shape)


def _register_running_extreme(name: str, doc: str, ufunc: np.ufunc) -> General:
    """Register a running maximum or minimum."""
    return register(
        General(
            name=name,
            doc=doc,
            inputs=("x",),
            pattern=Pattern.ROUTE,
            forward=lambda x, *, axis: ufunc.accumulate(x, axis=axis),
            output_shape=keep_shape,
            numpy=f"np.{ufunc.__name__}.accumulate",
            step=TABLE[ufunc.__name__],
            back=_running_extreme_back,
            ahead=_running_extreme_ahead,
            gap=_running_extreme_gap,
            samples=lambda rng: [
                (rng.normal(size=6), {"axis": -1}),
                (rng.normal(size=(4, 3)), {"axis": -2}),
                (rng.normal(size=(2, 4, 2)), {"axis": -2}),
                (rng.normal(size=(3, 4)), {"axis": -1}),
                (rng.normal(size=1), {"axis": -1}),
                (rng.normal(size=(2, 0)), {"axis": -1}),
            ],
        )
    )


_register_running_extreme("cummax", "Largest element so far along an axis; equal ones share the gradient.", np.maximum)
_register_running_extreme("cummin", "Smallest element so far along an axis; equal ones share the gradient.", np.minimum)


def _register_blocking(name: str, doc: str, forward: Callable[..., Any], **facts: Any) -> Blocking:
    """Register an op that returns an index, a count or a condition."""
    facts.setdefault("inputs", ("x",))
    return register(Blocking(name=name, doc=doc, pattern=Pattern.BLOCK, forward=forward, **facts))


def _picked_gap(x: Any, y: Any, *, axis: int, keepdims: bool) -> Any:
    """Return the distance from the indexed element to the nearest other one."""
    place = y if keepdims else np.expand_dims(y, axis)
    return _gap_to_runner_up(x, np.take_along_axis(x, place, axis), axes=(axis,), keepdims=True).reshape(shape_of(y))


def _order_gap(x: Any, y: Any, *, axis: int, **_: Any) -> Any:
    """Return the distances between neighbours in sorted order."""
    row = np.take_along_axis(x, y, axis)
    return _absolute_gap(drop_first(row, axis), drop_last(row, axis))


def _precedes_or_nan(comes: Any, first: Any, second: Any) -> Any:
    """Return whether one of two elements comes first: by a comparison, or because only that one is NaN."""
    nan = TABLE["logical_and"](TABLE["isnan"](first), TABLE["logical_not"](TABLE["isnan"](second)))
    return TABLE["logical_or"](comes, nan)


_register_blocking(
    "argmax",
    "Index of the largest element along an axis; the first if several are.",
    np.argmax,
    gap=_picked_gap,
    before=lambda a, b: _precedes_or_nan(a > b, a, b),
)
_register_blocking(
    "argmin",
    "Index of the smallest element along an axis; the first if several are.",
    np.argmin,
    gap=_picked_gap,
    before=lambda a, b: _precedes_or_nan(a < b, a, b),
)
_register_blocking(
    "argsort",
    "Indices that sort an axis.",
    np.argsort,
    output_shape=keep_shape,
    gap=_order_gap,
    before=lambda a, b: _precedes_or_nan(a < b, b, a),
)
_register_blocking(
    "any",
    "Whether at least one element along axes is not 0.",
    lambda x, *, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims),
    numpy="np.any",
    step=TABLE["logical_or"],
)
_register_blocking(
    "all",
    "Whether no element along axes is 0.",
    lambda x, *, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims),
    numpy="np.all",
    step=TABLE["logical_and"],
)
_register_blocking(
    "count_nonzero",
    "How many elements along axes are not 0.",
    lambda x, *, axes, keepdims: np.count_nonzero(x, axis=axes, keepdims=keepdims),
    # Without an axis, older versions of NumPy return a Python int, which has no dtype.
    numpy=lambda x, *, types, axes, keepdims: (
        f"np.count_nonzero({x}, axis={tuple(axis % len(types[0].shape) for axis in axes)}"
        f"{', keepdims=True' if keepdims else ''})"
    ),
)
_register_blocking(
    "searchsorted",
    "Indices at which to insert elements into a sorted row.",
    np.searchsorted,
    inputs=("row", "x"),
    batches=False,
)
