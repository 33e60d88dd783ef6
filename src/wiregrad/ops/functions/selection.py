"""Functions that select, reorder and repeat elements: partitions, windows, sets, and steps along an axis."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axis_from_end
from wiregrad.ops.functions.reduce import all_, argsort, cumprod, cumsum, diff, sort
from wiregrad.ops.functions.registry import (
    N,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import (
    as_row,
    broadcast_arrays,
    cast_like,
    concatenate,
    gather_along,
    moveaxis,
    pick_elements,
    reshape,
)
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.reduce_records import drop_first, drop_last, slice_axis
from wiregrad.ops.shape_records import hollow_array

UniqueAllResult: Any = type(np.unique_all(np.zeros(1)))
UniqueCountsResult: Any = type(np.unique_counts(np.zeros(1)))
UniqueInverseResult: Any = type(np.unique_inverse(np.zeros(1)))


@register_function(
    np.partition,
    samples=sample_calls(
        (N(3), 1),
        (N(3, 2), 0, 0),
        (N(2, 3), 1, {"axis": -1}),
        (N(2, 2), 1, {"axis": None}),
        (N(5), [0, 1, 2, 3]),
        (N(1), 0),
    ),
)
def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """The array with its `kth` elements where sorting would put them, smaller ones before and larger ones behind.

    NumPy leaves the order of the others open; here they are sorted.
    """
    np.partition(hollow_array(shape_of(lift(a))), kth, axis)
    return sort(a, axis, order=order)


@register_function(np.argpartition)
def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Indices that partition an axis; here those that sort it."""
    np.partition(hollow_array(shape_of(lift(a))), kth, axis)
    return argsort(a, axis, order=order)


@register_function(
    np.sort_complex,
    samples=sample_calls(
        (N(3),), (np.array([1.0 + 2.0j, -1.0j, 0.5 + 1.0j]),), (N(2, 3),), (N(1),), (N(0),), (np.array([2.0 - 1.0j]),)
    ),
)
def sort_complex(a: Any) -> Any:
    """The elements as complex numbers, sorted by real part, then by imaginary part."""
    ordered = sort(lift(a))
    dtype = dtype_of(ordered)
    return ordered if dtype.kind == "c" else TABLE["cast"](ordered, dtype=np.result_type(dtype, np.complex128).name)


@register_function(
    np.lib.stride_tricks.sliding_window_view,
    samples=sample_calls(
        (N(6), 3),
        (N(4, 5), (2, 3)),
        (N(4, 5), 2, 0),
        (N(4, 5), 3, {"axis": 1}),
        (N(2, 4, 3), (2, 2), {"axis": (2, 1)}),
        (N(6), (2, 3), {"axis": (0, 0)}),
        (N(1), 1),
        (N(0, 3), 2, 1),
    ),
)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """All windows of a shape, as further axes; the gradients of all windows add up."""
    x = lift(x)
    # NumPy itself reads the arguments, and refuses them.
    np.lib.stride_tricks.sliding_window_view(hollow_array(shape_of(x)), window_shape, axis)
    sizes = tuple(window_shape) if np.ndim(window_shape) else (int(window_shape),)
    ndim = ndim_of(x)
    axes = range(ndim) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, ndim, allow_duplicate=True)
    for size, along in zip(sizes, axes, strict=True):
        front = moveaxis(x, along, -1)
        windows = TABLE["windows"](front, size=(operator.index(size),), step=(1,), dilation=(1,))
        x = moveaxis(windows, -2, along)
    return x


@register_function(method=True, samples=sample_calls((N(2, 3),), (N(3),), (N(),), (N(1),), (N(0, 2),), (N(2, 1, 2),)))
def flat(x: Any) -> Any:
    """All elements in a row, to iterate over and to index."""
    return as_row(lift(x))


@register_function(
    method=True,
    samples=sample_calls(
        (N(2, 3),), (N(4), 2, 2), (N(2, 3), 3, 2), (N(2, 3), -1), (N(1), {"dtype": None}), (N(2, 3), (3, 2))
    ),
)
def view(x: Any, *shape: Any, dtype: Any = None) -> Any:
    """The array itself, or reshaped, as PyTorch's `view`; the bits cannot be taken for another dtype."""
    x = lift(x)
    if shape and not isinstance(shape[0], int | np.integer | tuple | list):
        if dtype is not None or len(shape) > 1:
            raise TypeError("view takes one dtype, or the lengths of a shape")
        (dtype,) = shape
        shape = ()
    if dtype is not None and np.dtype(dtype) != dtype_of(x):
        raise TypeError(
            f"view would take the bits of {dtype_of(x)} for {np.dtype(dtype)}, which has no gradient; to convert the "
            f"numbers write x.astype({np.dtype(dtype).name!r})"
        )
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return reshape(x, lengths) if shape else x


@register_function(
    np.ediff1d,
    samples=sample_calls(
        (N(4),),
        (N(2, 3),),
        (N(3), 0.5),
        (N(3), {"to_begin": N(2)}),
        (N(3), N(2), 0.5),
        (N(1),),
        (N(0), {"to_end": 1.0}),
    ),
)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences between neighbours of all elements in a row, with numbers before and behind."""
    row = as_row(lift(ary))
    gaps = drop_first(row, -1) - drop_last(row, -1)
    parts = [to_begin, gaps, to_end]
    return concatenate([as_row(cast_like(lift(part), row)) for part in parts if part is not None])


@register_function(
    np.unwrap,
    samples=sample_calls(
        (np.array([0.1, 3.0, -3.0, -0.5, 6.0]),),
        (np.array([[0.1, 3.0, -3.0], [2.5, -2.5, 0.3]]),),
        (np.array([[0.1, 3.0], [2.5, -2.5], [-3.0, 0.3]]), {"axis": 0}),
        (np.array([0.0, 1.4, 0.3]), {"period": 1.0}),
        (np.array([0.0, 4.0, 0.3]), 4.5),
        (N(1),),
    ),
)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * np.pi) -> Any:
    """The array with whole periods added where neighbours jump by more than half of one.

    The periods are whole numbers and have no gradient, so the gradient is that of the array itself.
    """
    p = lift(p)
    along = axis_from_end(axis, ndim_of(p))
    half = period / 2
    gaps = TABLE["stop_gradient"](diff(p, axis=axis)) if is_wire(p) else diff(p, axis=axis)
    wrapped = TABLE["mod"](gaps - -half, period) + -half
    on_edge = TABLE["logical_and"](TABLE["equal"](wrapped, -half), TABLE["greater"](gaps, 0.0))
    change = TABLE["where"](on_edge, half, wrapped) - gaps
    change = TABLE["where"](TABLE["less"](TABLE["absolute"](gaps), half if discont is None else discont), 0.0, change)
    return TABLE["concatenate"](slice_axis(p, along, None, 1), drop_first(p, along) + cumsum(change, axis), axis=along)


@register_function(
    np.trim_zeros,
    samples=sample_calls(
        (N(4),),
        (N(4), "f"),
        (N(4), {"trim": "b"}),
        (N(1),),
        (np.array([1.5, 2.0, -1.0]),),
        (N(2), "bf"),
    ),
)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """A row without the zeros in front and behind."""
    x = lift(filt)
    if ndim_of(x) != 1:
        raise TypeError(f"trim_zeros takes a row here; got the shape {shape_of(x)}")
    sides = trim.lower()
    if sides not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    places = np.flatnonzero(detach_array(TABLE["not_equal"](x, 0)))
    if not places.size:
        return pick_elements(x, slice(0, 0))
    first = int(places[0]) if "f" in sides else None
    last = int(places[-1]) + 1 if "b" in sides else None
    return pick_elements(x, slice(first, last))


@register_function(
    np.resize,
    samples=sample_calls((N(3), 5), (N(2, 3), (3, 2)), (N(2, 3), (2, 4)), (N(), (2, 2)), (N(3), 0), (N(4), (2,))),
)
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in a new shape, repeated in order as often as it takes."""
    row = as_row(lift(a))
    shape = tuple(new_shape) if np.ndim(new_shape) else (operator.index(new_shape),)
    if any(length < 0 for length in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    if not shape_of(row)[0] or not prod(shape):
        return np.zeros(shape, dtype_of(row))
    return gather_along(row, np.resize(np.arange(shape_of(row)[0]), shape), -1)


def _scan_with_start(scan: Callable[..., Any], x: Any, axis: Any, dtype: Any, start: Any) -> Any:
    """Return a running sum or product along an axis, with its neutral element in front if it is given."""
    x = lift(x)
    if axis is None:
        if ndim_of(x) != 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    y = scan(x, axis, dtype)
    if start is None:
        return y
    along = axis_from_end(axis, ndim_of(x))
    shape = shape_of(y)
    front = np.full((*shape[: along + len(shape)], 1, *shape[along + len(shape) + 1 :]), start, dtype_of(y))
    return TABLE["concatenate"](front, y, axis=along)


_CUMULATIVE_SAMPLES = sample_calls(
    (N(4),),
    (N(4), {"include_initial": True}),
    (N(2, 3), {"axis": 1}),
    (N(2, 3), {"axis": 0, "include_initial": True}),
    (N(1),),
    (N(2, 3), {"axis": -1, "dtype": float}),
)


@register_function(np.cumulative_sum, samples=_CUMULATIVE_SAMPLES)
def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running sum along an axis; with `include_initial` it starts with 0."""
    return _scan_with_start(cumsum, x, axis, dtype, 0 if include_initial else None)


@register_function(np.cumulative_prod, samples=_CUMULATIVE_SAMPLES)
def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running product along an axis; with `include_initial` it starts with 1."""
    return _scan_with_start(cumprod, x, axis, dtype, 1 if include_initial else None)


@register_function(
    np.choose,
    samples=sample_calls(
        (np.array([0, 1, 1]), [N(3), N(3)]),
        (np.array([[0], [2]]), [N(2, 3), N(3), N(1)]),
        (np.array([5, -1]), [N(2), N(2)], {"mode": "wrap"}),
        (np.array([5, -1]), [N(2), N(2)], {"mode": "clip"}),
        (np.array([0]), [N(1)]),
        (np.array([1, 0]), [N(2), N(2)]),
    ),
)
def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """Elements of several arrays, picked by an array of whole numbers."""
    options = list(choices)
    index = detach_array(a)
    if mode == "wrap":
        index = index % len(options)
    elif mode == "clip":
        index = np.clip(index, 0, len(options) - 1)
    elif index.size and not (index.min() >= 0 and index.max() < len(options)):
        raise ValueError("invalid entry in choice array")
    y = options[-1]
    for k in range(len(options) - 2, -1, -1):
        y = TABLE["where"](index == k, options[k], y)
    return broadcast_arrays(y, index)[0]


@register_function(
    np.real_if_close,
    samples=sample_calls(
        (N(3),),
        (np.array([1.0 + 2.0j, 0.5]),),
        (np.array([1.0 + 0.0j, 0.5]),),
        (N(),),
        (N(2, 2),),
        (np.array([1.5 + 0.5j]), {"tol": 0.1}),
    ),
)
def real_if_close(a: Any, tol: float = 100) -> Any:
    """The real part, if all imaginary parts are nearly 0; else the complex numbers."""
    a = lift(a)
    if dtype_of(a).kind != "c":
        return a
    limit = float(np.finfo(dtype_of(a)).eps * tol) if tol > 1 else tol
    is_close = all_(TABLE["less"](TABLE["absolute"](TABLE["imag"](a)), limit))
    return TABLE["real"](a) if bool(is_close) else a


def _find_groups(x: Any, *, equal_nan: bool) -> tuple[Any, Any, Any]:
    """Return the elements in order, the indices that sort them, and where each group of equal ones starts."""
    row = as_row(lift(x))
    order = argsort(row)
    ordered = TABLE["take_along_axis"](row, order, axis=-1)
    differs = TABLE["not_equal"](drop_first(ordered, -1), drop_last(ordered, -1))
    if equal_nan and dtype_of(row).kind in "fc":
        both = TABLE["logical_and"](TABLE["isnan"](drop_first(ordered, -1)), TABLE["isnan"](drop_last(ordered, -1)))
        differs = TABLE["logical_and"](differs, TABLE["logical_not"](both))
    is_first = np.concatenate([np.ones(min(shape_of(row)[0], 1), bool), detach_array(differs)])
    return ordered, detach_array(order), is_first


@register_function(
    np.unique,
    samples=sample_calls(
        (N(4),),
        (N(2, 3),),
        (N(4), True, True, True),
        (np.array([3.0, 1.0, 2.0]), {"return_inverse": True}),
        (N(1),),
        (N(0),),
        (N(5), {"return_counts": True}),
    ),
)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The different elements, sorted; of several equal ones, the first one has the gradient."""
    x = lift(ar)
    if axis is not None and ndim_of(x) != 1:
        raise TypeError("unique takes no axis= here; sort the rows by np.lexsort of their data")
    ordered, order, is_first = _find_groups(x, equal_nan=equal_nan)
    starts = np.flatnonzero(is_first)
    results = [gather_along(ordered, starts, -1)]
    if return_index:
        results.append(order[starts])
    if return_inverse:
        inverse = np.empty(order.shape, np.intp)
        inverse[order] = np.cumsum(is_first) - 1
        results.append(inverse.reshape(shape_of(x)))
    if return_counts:
        results.append(np.diff(np.append(starts, order.size)))
    return results[0] if len(results) == 1 else tuple(results)


_SET_SAMPLES = sample_calls((N(4),), (N(2, 3),), (N(1),), (N(5),), (N(3),), (np.array([3.0, 1.0, 2.0]),))


@register_function(np.unique_values, samples=_SET_SAMPLES)
def unique_values(x: Any, /) -> Any:
    """The different elements, in the order in which NumPy finds them."""
    values = unique(x, equal_nan=False)
    wanted = np.unique_values(detach_array(x))
    return gather_along(values, np.searchsorted(detach_array(values), wanted), -1)


@register_function(np.unique_counts, samples=_SET_SAMPLES)
def unique_counts(x: Any, /) -> Any:
    """The different elements, sorted, and how often each occurs."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@register_function(np.unique_inverse, samples=_SET_SAMPLES)
def unique_inverse(x: Any, /) -> Any:
    """The different elements, sorted, and for each element the index of its equal."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@register_function(np.unique_all, samples=_SET_SAMPLES)
def unique_all(x: Any, /) -> Any:
    """The different elements, sorted, with their first indices, the inverse, and how often each occurs."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


@register_function(
    np.union1d,
    samples=sample_calls((N(3), N(2)), (N(2, 2), N(1)), (N(1), N(1)), (N(4), N(3)), (N(0), N(2)), (N(2), N(5))),
)
def union1d(ar1: Any, ar2: Any) -> Any:
    """The different elements of two arrays, sorted."""
    return unique(concatenate([as_row(lift(ar1)), as_row(lift(ar2))]))


def _pick_by_membership(x: Any, other: Any, *, inside: bool) -> Any:
    """Return the different elements of x that are in another array, or that are not."""
    values = unique(x)
    chosen = np.isin(detach_array(values), detach_array(other), invert=not inside)
    return gather_along(values, np.flatnonzero(chosen), -1)


@register_function(
    np.setdiff1d,
    samples=sample_calls(
        (N(3), N(2)),
        (np.array([3.0, 1.0, 2.0]), [1.5, 5.0]),
        (N(2, 2), N(1)),
        (N(1), N(1)),
        (N(4), [7.0]),
        (np.array([0.5, 0.25]), []),
    ),
)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The different elements of one array that are not in another, sorted."""
    return _pick_by_membership(ar1, ar2, inside=False)


@register_function(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """Which elements occur in another array."""
    return np.isin(detach_array(element), detach_array(test_elements), assume_unique, invert, kind=kind)


@register_function(np.lexsort)
def lexsort(keys: Sequence[Any], axis: int = -1) -> Any:
    """Indices that sort by several rows, the last one first."""
    rows = keys if is_wire(keys) else [detach_array(key) for key in keys]
    return np.lexsort(detach_array(rows) if is_wire(rows) else rows, axis)


@register_function(np.einsum_path)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """The order in which einsum would multiply; it depends on shapes alone."""
    shaped = [hollow_array(shape_of(x)) if is_wire(x) else x for x in operands]
    return np.einsum_path(*shaped, optimize=optimize)


@register_function(np.min_scalar_type)
def min_scalar_type(a: Any) -> Any:
    """The smallest dtype that holds a number; the dtype of an array."""
    return np.min_scalar_type(detach_array(a) if not ndim_of(a) else hollow_array(shape_of(a)).astype(dtype_of(a)))


@register_function(np.array2string)
def array2string(a: Any, *settings: Any, **keywords: Any) -> Any:
    """The numbers as text."""
    return np.array2string(detach_array(a), *settings, **keywords)


@register_function(np.array_str)
def array_str(a: Any, *settings: Any, **keywords: Any) -> Any:
    """The numbers as text."""
    return np.array_str(detach_array(a), *settings, **keywords)


@register_function(np.array_repr)
def array_repr(arr: Any, *settings: Any, **keywords: Any) -> Any:
    """The numbers as text that Python reads back."""
    return np.array_repr(detach_array(arr), *settings, **keywords)


@register_function(
    np.frexp, samples=sample_calls((N(3),), (N(2, 2),), (N(),), (np.array([1.5, 3.0]),), (N(1),), (N(0),))
)
def frexp(x: Any) -> Any:
    """Mantissa, from 0.5 to 1, and exponent of 2; the exponent is a whole number and has no gradient."""
    x = lift(x)
    exponent = np.frexp(detach_array(x))[1]
    return ldexp(x, -exponent), exponent


@register_function(
    np.ldexp,
    samples=sample_calls(
        (N(3), 2), (N(3), np.array([1, -2, 0])), (N(), 3), (N(2, 2), np.array([1, -40])), (N(1), -3), (N(0), 2)
    ),
)
def ldexp(x1: Any, x2: Any) -> Any:
    """A number times a power of 2."""
    x = lift(x1)
    exponent = detach_array(x2)
    if exponent.dtype.kind not in "iub":
        raise TypeError("ldexp takes whole numbers as exponents; write x * 2.0**y for others")
    kind = dtype_of(x).type if dtype_of(x).kind == "f" else np.float64
    # Two factors, because one alone may overflow where the product does not.
    half = exponent // 2
    return x * np.ldexp(kind(1), half) * np.ldexp(kind(1), exponent - half)
