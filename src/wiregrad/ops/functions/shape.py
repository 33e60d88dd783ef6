"""Functions that pick and put elements, change shapes, join arrays and take them apart.

Integers and slices are settings of `getitem`. Index arrays are operands of `take`, along one axis: the axes they index
are first brought together and merged into one. So an index may be large, or recorded itself, and any number of axes may
stand in front.

Where a function only changes the shape or the order of axes, NumPy is asked what it would do with an array that takes
no memory. So NumPy itself reads the arguments, and refuses them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from wiregrad.errors import MutationError, format_user_line, short_repr
from wiregrad.ir import TABLE, Op
from wiregrad.lazy import NamedTuple
from wiregrad.ops.array_ops import axes_from_end, axis_from_end, convert_axes
from wiregrad.ops.functions.registry import (
    FUNCTIONS,
    N,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    plan_by_shape,
    register_function,
    replace_length,
    sample_calls,
)
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.reduce_records import slice_axis
from wiregrad.ops.shape_records import (
    complete_index,
    convert_plain,
    decode_index,
    encode_index,
    encode_item,
    hollow_array,
)


def as_row(x: Any) -> Any:
    """Return the elements of x as an array of one axis."""
    return x if ndim_of(x) == 1 else reshape_to(x, (prod(shape_of(x)),))


def reshape_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Return x reshaped to a shape of the same size."""
    return x if shape_of(x) == shape else TABLE["reshape"](x, rank=ndim_of(x), shape=shape)


def gather_along(x: Any, indices: Any, axis: int) -> Any:
    """Return the slices at indices of any shape along an axis, which is counted from the end."""
    return reshape_to(
        TABLE["take"](x, as_row(indices), axis=axis), replace_length(shape_of(x), axis, *shape_of(indices))
    )


def pick_elements(x: Any, *items: Any) -> Any:
    """Return elements by an index of integers, slices, None and ..."""
    return TABLE["getitem"](x, index=encode_index(items, ndim_of(x)))


_SAMPLE_INDICES = (
    0,
    (slice(1, None), [0, 2, 2]),
    (..., slice(None, None, -2)),
    (None, -1, slice(3, 0, -2)),
    (np.array([[True, False, True, True], [False] * 4, [True] * 4]),),
    ([0, -1], None, [1, 1]),
    (slice(None), np.array([[0, 1], [3, 0]])),
    np.array([], np.int64),
    (True, 2, ...),
    (np.array([True, False, True]), 1),
)


@register_function(
    method=True,
    samples=sample_calls(
        *((N(3, 4), index) for index in _SAMPLE_INDICES),
        (N(3, 2, 4), ([0, 2, 0], slice(None), [1, 1, 3])),
        (N(3, 2, 4), (1, slice(None), [[1], [0]])),
        (N(), None),
        (N(0, 2), (slice(None), 1)),
    ),
)
def getitem(x: Any, index: Any, /) -> Any:
    """Elements by index: integers, slices, None, ..., boolean masks and integer arrays."""
    x = lift(x)
    parts = index if isinstance(index, tuple) else (index,)
    if BASIC_INDEX_TYPES.issuperset(map(type, parts)):
        return bind_index(tuple([encode_item(part) for part in parts]), shape_of(x))(x)
    if type(index) is list and index and WHOLE_NUMBER.issuperset(map(type, index)):
        index = convert_plain(index)
        parts = (index,)
    if type(index) is np.ndarray and index.ndim == 1 and ndim_of(x) and index.dtype.kind in "iub":
        # NumPy itself raises for an index that does not fit.
        hollow_array(shape_of(x)[:1])[index]
        return TABLE["take"](x, index.nonzero()[0] if index.dtype.kind == "b" else index, axis=-ndim_of(x))
    places = _number_cells(parts, shape_of(x))
    if places is not None:
        return TABLE["take"](as_row(x), places, axis=-1)
    items = [_normalize_item(item) for item in parts]
    if not any(is_wire(item) for item in items):
        # NumPy itself raises for an index that does not fit.
        hollow_array(shape_of(x))[tuple(items)]
    if any(isinstance(item, np.ndarray) or is_wire(item) for item in items):
        return _apply_index_arrays(x, items)
    return pick_elements(x, *items)


@lru_cache(maxsize=4096)
def bind_index(items: tuple[Any, ...], shape: tuple[int, ...]) -> Op:
    """Return the op that picks elements of an array of a shape, by an index whose items are in their stored form."""
    # NumPy itself raises for an index that does not fit.
    hollow_array(shape)[decode_index(items)]
    return TABLE["getitem"].bind({"index": complete_index(items, len(shape))})


def _number_cells(parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Return the numbers, in C order, of elements that are picked by rows of indices along every axis.

    None if the parts are not such rows of one length, or some index is negative or too large.
    """
    if len(parts) != len(shape) or not all(type(part) is np.ndarray and part.ndim == 1 for part in parts):
        return None
    if any(part.dtype.kind != "i" or not part.size or part.size != parts[0].size for part in parts):
        return None
    try:
        return number_cells(parts, shape)
    except ValueError:
        return None


# Bound once: while a function is recorded, NumPy's own name leads to a function that looks for wires.
number_cells = np.ravel_multi_index


def _normalize_item(item: Any) -> Any:
    """Return an item of an index as a slice, None, ..., an integer, or an array or wire of integers or bools."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if is_wire(item):
        if dtype_of(item).kind not in "iub":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return detach_array(item) if dtype_of(item).kind == "b" else item
    array = np.asarray(item)
    if array.dtype.kind == "U":
        raise IndexError(
            f"an index is a whole number, a slice or an array of them, not the text {short_repr(item)}; an object of "
            "pandas is taken as an array, so pass x.to_dict() to read its numbers by name"
        )
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)
    return operator.index(array[()]) if array.ndim == 0 and array.dtype.kind in "iu" else array


WHOLE_NUMBER = frozenset([int])
BASIC_INDEX_TYPES = frozenset([int, slice, type(None), type(Ellipsis)])
"""The types of the parts of an index that gives a view."""


class AxisIndices(NamedTuple):
    """An index array along one axis; `fresh` if the index itself adds that axis, with length 1."""

    indices: Any
    fresh: bool = False


def _split_into_axes(item: Any) -> list[Any]:
    """Convert an item of an index to parts along one axis each, with integers and masks as index arrays."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return [item]
    if is_wire(item) or isinstance(item, int) or item.dtype.kind != "b":
        return [AxisIndices(item if is_wire(item) else np.asarray(item, np.intp))]
    if item.ndim == 0:
        return [AxisIndices(np.zeros(int(item), np.intp), fresh=True)]
    return [AxisIndices(indices) for indices in item.nonzero()]


def _apply_index_arrays(x: Any, items: list[Any]) -> Any:
    parts = [part for item in items for part in _split_into_axes(item)]
    at = [k for k, part in enumerate(parts) if isinstance(part, AxisIndices)]
    adjacent = at[-1] - at[0] == len(at) - 1
    parts = _fill_ellipsis(parts, ndim_of(x))
    x = _apply_slices(x, parts)
    chosen = [k for k, part in enumerate(parts) if isinstance(part, AxisIndices)]
    rest = [k for k, part in enumerate(parts) if not isinstance(part, AxisIndices)]
    # If index arrays are not adjacent, NumPy puts their axes in front.
    first = chosen[0] if adjacent else 0
    x = _reorder_axes(x, [*rest[:first], *chosen, *rest[first:]])
    shape = shape_of(x)
    last = first + len(chosen)
    merged = reshape_to(x, (*shape[:first], int(np.prod(shape[first:last])), *shape[last:]))
    return gather_along(
        merged, _flatten_indices([parts[k].indices for k in chosen], shape[first:last]), last - 1 - len(shape)
    )


def _fill_ellipsis(parts: list[Any], ndim: int) -> list[Any]:
    """Return the parts of an index with full slices in place of its ellipsis, or at its end."""
    used = sum(isinstance(part, slice) or (isinstance(part, AxisIndices) and not part.fresh) for part in parts)
    dots = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    return [*parts[:dots], *[slice(None)] * (ndim - used), *parts[dots + 1 :]]


def _apply_slices(x: Any, parts: list[Any]) -> Any:
    """Return x with the slices of an index applied, and one axis for each part of the index."""
    basic = [slice(None) if isinstance(part, AxisIndices) and not part.fresh else part for part in parts]
    basic = [part if isinstance(part, slice) else None for part in basic]
    return x if all(item == slice(None) for item in basic) else pick_elements(x, *basic)


def _reorder_axes(x: Any, order: list[int]) -> Any:
    return x if order == sorted(order) else TABLE["permute"](x, axes=tuple(k - len(order) for k in order))


def _flatten_indices(indices: list[Any], lengths: tuple[int, ...]) -> Any:
    """Convert indices along several axes to indices along the axis they are merged into."""
    if len(indices) == 1:
        return indices[0]
    total: Any = 0
    for index, length in zip(indices, lengths, strict=True):
        total = total * length + index % max(length, 1)
    return total


@register_function(
    np.take,
    method=True,
    samples=sample_calls(
        (N(4, 3), [2, 0, 2]),
        (N(4, 3), np.array([[2, 0], [-1, 3]]), {"axis": 0}),
        (N(2, 4, 3), 1, {"axis": -2}),
        (N(3), [4, -5], {"mode": "wrap"}),
        (N(3), [4, -5], {"mode": "clip"}),
        (N(), 0),
        (N(0, 2), [1, 1], 1),
        (N(2, 3), np.array([], np.int64), {"axis": 1}),
    ),
)
def take(x: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """Elements by index along an axis, or of all in a row."""
    x = lift(x)
    indices = lift(indices)
    x, axis = (as_row(x), -1) if axis is None or not ndim_of(x) else (x, axis_from_end(axis, ndim_of(x)))
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got '{mode}')")
    if mode == "wrap":
        indices = indices % shape_of(x)[axis]
    if mode == "clip":
        indices = np.clip(detach_array(indices), 0, shape_of(x)[axis] - 1)
    return gather_along(x, indices, axis)


@register_function(
    np.take_along_axis,
    samples=sample_calls(
        (N(2, 3), np.array([[2, 0], [1, 1]]), 1),
        (N(4, 3), np.array([[-1, 0, 2]]), {"axis": 0}),
        (N(2, 3), np.array([[0, 2]])),
        (N(1, 3), np.array([[0, 2], [1, 1]]), -1),
        (N(2, 3), np.array([5, 0, 0]), {"axis": None}),
        (N(1), np.array([0, 0])),
        (N(2, 0), np.zeros((2, 0), np.int64), 1),
    ),
)
def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """Elements by an array of indices along an axis; in the other axes the two broadcast."""
    x = lift(x)
    indices = lift(indices)
    x, axis = (as_row(x), -1) if axis is None else (x, axis_from_end(axis, ndim_of(x)))
    if dtype_of(indices).kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if ndim_of(x) != ndim_of(indices):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    common = np.broadcast_shapes(*(replace_length(shape_of(wire), axis, 1) for wire in (x, indices)))
    x, indices = (stretch_to(wire, replace_length(common, axis, shape_of(wire)[axis])) for wire in (x, indices))
    return TABLE["take_along_axis"](x, indices, axis=axis)


def stretch_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Return x broadcast to a shape."""
    if shape_of(x) == shape:
        return x
    np.broadcast_to(hollow_array(shape_of(x)), shape)
    return TABLE["spread"](x, rank=ndim_of(x), shape=shape)


@register_function(
    np.compress,
    samples=sample_calls(
        ([True, False, True], N(3, 4), 0),
        ([False, True], N(3, 4), {"axis": -1}),
        ([True, False, True], N(2, 2)),
        (np.array([True]), N(1)),
        ([False, False], N(2)),
        ([True], N(1, 0), 0),
    ),
)
def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """Slices along an axis where a condition holds."""
    if np.ndim(condition) != 1:
        raise ValueError("condition must be a 1-d array")
    return take(x, np.flatnonzero(detach_array(condition)), axis)


@register_function(
    np.extract,
    samples=sample_calls(
        (np.array([[True, False], [True, True]]), N(2, 2)),
        (np.array([True, False, True]), N(3)),
        (np.array([0, 2, 1]), N(3)),
        (np.array(True), N()),
        (np.array([False]), N(1)),
        (np.zeros((0, 2), bool), N(0, 2)),
    ),
)
def extract(condition: Any, x: Any) -> Any:
    """Elements where a condition holds, in one row."""
    return take(x, nonzero(as_row(lift(condition)))[0])


@register_function(
    np.delete,
    samples=sample_calls(
        (N(4, 3), 1, 0),
        (N(4, 3), [0, -1], {"axis": 1}),
        (N(2, 3), slice(None, None, 2)),
        (N(5), np.array([True, False, False, True, False])),
        (N(1), 0),
        (N(2, 0), 1, 0),
    ),
)
def delete(x: Any, index: Any, axis: int | None = None) -> Any:
    """The array without some of its slices along an axis."""
    x = lift(x)
    x, axis = (as_row(x), -1) if axis is None else (x, axis_from_end(axis, ndim_of(x)))
    return gather_along(x, np.delete(np.arange(shape_of(x)[axis]), index), axis)


@register_function(
    np.insert,
    samples=sample_calls(
        (N(4, 3), 1, N(3), 0),
        (N(4, 3), 2, N(4), {"axis": 1}),
        (N(4, 3), [1, 3], N(4, 2), -1),
        (N(2, 3), -1, 0.5),
        (N(4), [0, 0, 2], N(3)),
        (N(3), [2], N(2)),
        (N(0), 0, N(2)),
    ),
)
def insert(x: Any, index: Any, values: Any, axis: int | None = None) -> Any:
    """The array with values put between its slices along an axis."""
    x = lift(x)
    x, axis = (as_row(x), -1) if axis is None else (x, axis_from_end(axis, ndim_of(x)))
    shape = shape_of(x)
    values = cast_like(lift(values), x)
    length = shape[axis]
    count = np.insert(np.empty(shape[axis], bool), index, True).size - shape[axis]
    if count == 1:
        # At a single index, all slices that the values have along the axis are inserted.
        values = reshape_to(values, (1,) * (len(shape) - ndim_of(values)) + shape_of(values))
        if np.ndim(index) == 0 and not isinstance(index, slice):
            rest = list(range(1, len(shape)))
            rest.insert(axis + len(shape), 0)
            values = _reorder_axes(values, rest)
        count = shape_of(values)[axis]
    values = stretch_to(values, replace_length(shape, axis, count))
    order = np.insert(np.arange(length), index, np.arange(length, length + count))
    return gather_along(TABLE["concatenate"](x, values, axis=axis), order, axis)


def cast_like(values: Any, x: Any) -> Any:
    """Cast values to the dtype of the array they are put into."""
    dtype = dtype_of(values)
    wanted = dtype_of(x)
    if dtype == wanted:
        return values
    if not np.can_cast(dtype, wanted, "same_kind"):
        raise TypeError(f"values of dtype {dtype} cannot be put into an array of dtype {wanted}")
    return TABLE["cast"](values, dtype=wanted.name)


@register_function(
    samples=sample_calls(
        (N(3, 4), 1, N(4)),
        (N(3, 4), (slice(None), [0, 2]), N(3, 2)),
        (N(4), [1, 1, 3], N(3)),
        (N(3, 4), (..., slice(None, None, -2)), N(3, 1)),
        (N(3), np.array([True, False, True]), 0.5),
        (N(), (), N()),
        (N(3), slice(0, 0), N(0)),
        (N(3, 2, 4), ([0, 2], slice(None), [1, 3]), N(2, 2)),
    )
)
def put(x: Any, index: Any, values: Any) -> Any:
    """A copy of the array with values assigned at an index, as by `x[index] = values`."""
    x = lift(x)
    values = cast_like(lift(values), x)
    shape = shape_of(values)
    source = np.full(shape_of(x), -1)
    source[detach_index(index)] = np.arange(int(np.prod(shape))).reshape(shape)
    if source.size and source.max() >= 0:
        chosen = gather_along(as_row(values), np.maximum(source, 0), -1) if shape else values
        return TABLE["where"](source >= 0, chosen, x)
    return x


@register_function(
    samples=sample_calls(
        (N(3, 4), 1, N(4)),
        (N(3, 4), (slice(None), [0, 2, 2]), N(3, 1)),
        (N(4), [1, 1, 3], N(3)),
        (N(4), [1, 1, 3], 0.5),
        (N(3), np.array([True, False, True]), N(2)),
        (N(), (), N()),
        (N(3), slice(0, 0), N(0)),
    )
)
def scatter_add(x: Any, index: Any, values: Any) -> Any:
    """A copy of the array with values added at an index, as often as it names an element, as by `np.add.at`."""
    x = lift(x)
    values = cast_like(lift(values), x)
    shape = shape_of(x)
    size = int(np.prod(shape))
    places = np.arange(size).reshape(shape)[detach_index(index)]
    spread = as_row(stretch_to(values, places.shape))
    return x + reshape_to(TABLE["take_add"](spread, places.reshape(-1), axis=-1, length=size), shape)


def detach_index(index: Any) -> Any:
    """Return an index with its recorded parts as plain arrays."""
    return tuple(
        detach_array(item) if is_wire(item) else item for item in (index if isinstance(index, tuple) else (index,))
    )


@register_function(np.nonzero, method=True)
def nonzero(x: Any) -> Any:
    """The indices of the elements that are not 0, one array per axis."""
    return detach_array(TABLE["not_equal"](lift(x), 0)).nonzero()


@register_function(np.flatnonzero)
def flatnonzero(x: Any) -> Any:
    """The indices of the elements that are not 0, in one row."""
    return nonzero(as_row(lift(x)))[0]


@register_function(np.argwhere)
def argwhere(x: Any) -> Any:
    """The indices of the elements that are not 0, one row per element."""
    return np.argwhere(detach_array(TABLE["not_equal"](lift(x), 0)))


@register_function(np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis, (np.add, "at"))
def copyto(*_: Any, **__: Any) -> Any:
    """Write to an array that can be filled, as `np.zeros(n)` in a transform; gradients flow to what is written."""
    raise MutationError(
        "a recorded value does not change in place; write x = wg.put(x, index, values), "
        f"wg.scatter_add(x, index, values) or np.where(mask, values, x){format_user_line()}"
    )


def _reshape_as(x: Any, change: Callable[[Any], Any]) -> Any:
    """Reshape x to the shape that a NumPy function would return."""
    x = lift(x)
    return reshape_to(x, change(hollow_array(shape_of(x))).shape)


def _permute_as(x: Any, change: Callable[[Any], Any]) -> Any:
    """Permute the axes of x to the order that a NumPy function would return."""
    x = lift(x)
    ndim = ndim_of(x)
    # Each axis is marked by its stride.
    marked = np.ndarray((1,) * ndim, np.bool_, bytes(1), 0, tuple(range(ndim)))
    order = change(marked).strides
    return x if order == tuple(range(ndim)) else TABLE["permute"](x, axes=tuple(k - ndim for k in order))


def _read_in_order(x: Any, order: str, what: Callable[[Any], Any]) -> Any:
    """Return what a function returns for the elements in C order or, for "F", with the first axis varying fastest."""
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    if order in ("A", "K") and ndim_of(lift(x)) > 1:
        raise ValueError(f"order {order!r} depends on memory layout, which values do not have; use C or F")
    return what(transpose(x)) if order == "F" else what(x)


@register_function(
    np.reshape,
    method=True,
    samples=sample_calls(
        (N(2, 3), (3, 2)),
        (N(6), (2, -1)),
        (N(2, 3), (3, 2), {"order": "F"}),
        (N(), (1, 1)),
        (N(1), ()),
        (N(0, 2), (3, 0)),
        (N(2, 3), -1),
    ),
)
@plan_by_shape
def reshape(x: Any, /, *lengths: Any, shape: Any = None, order: str = "C", copy: bool | None = None) -> Any:
    """The same elements in another shape; one length may be -1."""
    if lengths and isinstance(lengths[-1], str):
        *lengths, order = lengths  # type: ignore[assignment]
    if shape is None:
        shape = lengths[0] if len(lengths) == 1 else tuple(lengths)
    wanted = np.reshape(hollow_array(shape_of(lift(x))), shape).shape
    if order == "F":
        return transpose(reshape_to(transpose(x), wanted[::-1]))
    return _read_in_order(x, order, lambda x: reshape_to(lift(x), wanted))


@register_function(
    np.ravel,
    method=True,
    samples=sample_calls((N(2, 3),), (N(2, 3), "F"), (N(),), (N(4),), (N(2, 1, 3),), (N(0, 2),)),
)
@plan_by_shape
def ravel(x: Any, order: str = "C") -> Any:
    """The elements in one row."""
    return _read_in_order(x, order, lambda x: as_row(lift(x)))


@register_function(
    method=True, samples=sample_calls((N(2, 3),), (N(2, 3), "F"), (N(),), (N(4),), (N(2, 1, 3),), (N(0, 2),))
)
def flatten(x: Any, order: str = "C") -> Any:
    """The elements in one row."""
    return ravel(x, order)


@register_function(
    np.expand_dims,
    samples=sample_calls((N(2, 3), 0), (N(2, 3), -1), (N(2, 3), (0, 2)), (N(), 0), (N(3), (0, -1)), (N(0), 1)),
)
@plan_by_shape
def expand_dims(x: Any, axis: Any) -> Any:
    """The array with new axes of length 1."""
    return _reshape_as(x, lambda y: np.expand_dims(y, axis))


@register_function(
    np.squeeze,
    method=True,
    samples=sample_calls(
        (N(1, 3, 1),), (N(1, 3, 1), 0), (N(1, 3, 1), {"axis": (0, -1)}), (N(),), (N(1, 1),), (N(1, 0),)
    ),
)
@plan_by_shape
def squeeze(x: Any, axis: Any = None) -> Any:
    """The array without axes of length 1."""
    return _reshape_as(x, lambda y: np.squeeze(y, axis))


_FEW_AXES_SAMPLES = sample_calls((N(),), (N(3),), (N(2, 3),), (N(2, 3, 2),), (N(0),), (N(1),))


def _reshape_each(xs: Sequence[Any], change: Callable[[Any], Any]) -> Any:
    arrays = tuple(_reshape_as(x, change) for x in xs)
    return arrays[0] if len(arrays) == 1 else arrays


@register_function(np.atleast_1d, samples=_FEW_AXES_SAMPLES)
def atleast_1d(*xs: Any) -> Any:
    """Arrays with one axis or more."""
    return _reshape_each(xs, np.atleast_1d)


@register_function(np.atleast_2d, samples=_FEW_AXES_SAMPLES)
def atleast_2d(*xs: Any) -> Any:
    """Arrays with two axes or more."""
    return _reshape_each(xs, np.atleast_2d)


@register_function(np.atleast_3d, samples=_FEW_AXES_SAMPLES)
def atleast_3d(*xs: Any) -> Any:
    """Arrays with three axes or more."""
    return _reshape_each(xs, np.atleast_3d)


@register_function(
    np.transpose,
    method=True,
    samples=sample_calls(
        (N(2, 3, 4), (2, 0, 1)),
        (N(2, 3),),
        (N(2, 3, 4), (-1, 0, 1)),
        (N(2, 3, 4), {"axes": (0, 2, 1)}),
        (N(),),
        (N(3),),
        (N(0, 2),),
    ),
)
@plan_by_shape
def transpose(x: Any, /, *order: Any, axes: Any = None) -> Any:
    """The axes in another order; reversed if none is given."""
    if order:
        axes = order[0] if len(order) == 1 and (order[0] is None or np.ndim(order[0]) != 0) else order
    return _permute_as(x, lambda y: np.transpose(y, axes))


_MATRIX_SAMPLES = sample_calls((N(2, 3),), (N(2, 2),), (N(1, 3),), (N(2, 3, 4),), (N(0, 2),), (N(1, 1),))


@register_function(
    name="T", method=True, samples=sample_calls((N(2, 3),), (N(2, 3, 4),), (N(),), (N(3),), (N(1, 3),), (N(0, 2),))
)
def reversed_axes(x: Any) -> Any:
    """The array with its axes reversed."""
    return transpose(x)


@register_function(np.matrix_transpose, name="mT", method=True, samples=_MATRIX_SAMPLES)
@plan_by_shape
def matrix_transpose(x: Any) -> Any:
    """The array with its last two axes swapped."""
    return _permute_as(x, np.matrix_transpose)


@register_function(
    np.swapaxes,
    method=True,
    samples=sample_calls(
        (N(2, 3), 0, 1), (N(2, 3, 4), 0, -1), (N(2, 3, 4), 1, 1), (N(1, 2), -1, -2), (N(0, 2), 0, 1), (N(3), 0, 0)
    ),
)
@plan_by_shape
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """The array with two axes swapped."""
    return _permute_as(x, lambda y: np.swapaxes(y, axis1, axis2))


@register_function(
    np.moveaxis,
    samples=sample_calls(
        (N(2, 3, 4), 0, -1),
        (N(2, 3, 4), -1, 0),
        (N(2, 3, 4), (0, 1), (-1, 0)),
        (N(2, 3), 0, 0),
        (N(0, 2), 0, 1),
        (N(3), 0, -1),
    ),
)
@plan_by_shape
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """The array with some axes moved to other places."""
    return _permute_as(x, lambda y: np.moveaxis(y, source, destination))


@register_function(
    np.rollaxis,
    samples=sample_calls(
        (N(2, 3, 4), 2), (N(2, 3, 4), 0, 3), (N(2, 3, 4), -1, 1), (N(2, 3), 1), (N(0, 2), 1), (N(3), 0)
    ),
)
@plan_by_shape
def rollaxis(x: Any, axis: int, start: int = 0) -> Any:
    """The array with an axis rolled back until it is before another one."""
    return _permute_as(x, lambda y: np.rollaxis(y, axis, start))


@register_function(
    np.broadcast_to,
    samples=sample_calls(
        (N(3), (2, 3)),
        (N(2, 1), (2, 3)),
        (N(), (2, 2)),
        (N(), 3),
        (N(1, 2), (0, 2)),
        (N(2, 3), (2, 3)),
        (N(1, 3), (4, 2, 3)),
    ),
)
def broadcast_to(x: Any, shape: Any) -> Any:
    """The array spread to a shape."""
    x = lift(x)
    return stretch_to(x, np.broadcast_to(hollow_array(shape_of(x)), shape).shape)


@register_function(
    np.broadcast_arrays,
    samples=sample_calls(
        (N(3), N(2, 1)), (N(2, 3),), (N(), N(2)), (N(1, 2), N(0, 1)), (N(), N()), (N(3), N(1), N(2, 3))
    ),
)
def broadcast_arrays(*xs: Any) -> Any:
    """Arrays spread to the shape they have in common."""
    lifted = [lift(x) for x in xs]
    shape = np.broadcast_shapes(*(shape_of(x) for x in lifted))
    return tuple(stretch_to(x, shape) for x in lifted)


@register_function(
    np.meshgrid,
    samples=sample_calls(
        (N(2), N(3)),
        (N(2), N(3), {"indexing": "ij"}),
        (N(2), N(3), N(2), {"sparse": True}),
        (N(3),),
        (N(), N(2)),
        (N(0), N(2)),
    ),
)
def meshgrid(*xs: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Arrays of the coordinates of a grid, from its axes."""
    lifted = [lift(x) for x in xs]
    asked = [hollow_array((int(np.prod(shape_of(x))),)) for x in lifted]
    grid = [y.shape for y in np.meshgrid(*asked, copy=False, sparse=True, indexing=indexing)]  # type: ignore[call-overload]
    coordinates = [reshape_to(x, shape) for x, shape in zip(lifted, grid, strict=True)]
    return tuple(coordinates) if sparse or not coordinates else broadcast_arrays(*coordinates)


def _list_pieces(xs: Any) -> list[Any]:
    """Return the arrays to join: the items of a list, or the slices of an array along its first axis."""
    return [pick_elements(xs, k) for k in range(shape_of(xs)[0])] if is_wire(xs) else [lift(x) for x in xs]


def _join_along(xs: Sequence[Any], axis: int) -> Any:
    """Join arrays along an axis, which NumPy's rules count."""
    if not xs:
        raise ValueError("need at least one array to concatenate")
    return TABLE["concatenate"](*xs, axis=axis_from_end(axis, ndim_of(xs[0])))


@register_function(
    np.concatenate,
    samples=sample_calls(
        ([N(2, 3), N(1, 3)],),
        ([N(2, 3), N(2, 1)], 1),
        ([N(2), N(3)], -1),
        ([N(2, 3), N()], None),
        ([N(1)],),
        ([N(0, 2), N(1, 2)],),
        (N(2, 3),),
    ),
)
def concatenate(xs: Any, axis: int | None = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays joined along an axis they have."""
    parts = _list_pieces(xs)
    y = _join_along([as_row(x) for x in parts], 0) if axis is None else _join_along(parts, axis)
    if dtype is None:
        return y
    if not np.can_cast(dtype_of(y), dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {dtype_of(y)} to {np.dtype(dtype)} according to '{casting}'")
    return TABLE["cast"](y, dtype=np.dtype(dtype).name)


@lru_cache(maxsize=1024)
def _bind_new_axis(shape: tuple[int, ...], axis: int) -> Op:
    """Return the op that gives arrays of a shape a new axis, which NumPy's rules count."""
    longer = np.expand_dims(hollow_array(shape), axis).shape
    return TABLE["reshape"].bind({"rank": len(shape), "shape": longer})


@register_function(
    np.stack,
    samples=sample_calls(
        ([N(2, 3), N(2, 3)],),
        ([N(2, 3), N(2, 3)], -1),
        ([N(2), N(2), N(2)], 1),
        ([N(), N()],),
        ([N(1)],),
        ([N(0), N(0)], 1),
        (N(2, 3), 1),
    ),
)
def stack(xs: Any, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis."""
    parts = _list_pieces(xs)
    if not parts:
        raise ValueError("need at least one array to stack")
    shape = shape_of(parts[0])
    if any(shape_of(x) != shape for x in parts):
        raise ValueError("all input arrays must have the same shape")
    add_axis = _bind_new_axis(shape, operator.index(axis))
    return _join_along([add_axis(x) for x in parts], axis)


@register_function(
    np.vstack,
    samples=sample_calls(
        ([N(2, 3), N(1, 3)],), ([N(3), N(3)],), ([N(3), N(2, 3)],), ([N(), N()],), ([N(0, 2), N(1, 2)],), (N(2, 3),)
    ),
)
def vstack(xs: Any) -> Any:
    """Arrays joined below each other; a row is a matrix of one row."""
    return _join_along([atleast_2d(x) for x in _list_pieces(xs)], 0)


@register_function(
    np.hstack,
    samples=sample_calls(
        ([N(2, 3), N(2, 1)],), ([N(3), N(2)],), ([N(), N(3)],), ([N(), N()],), ([N(2, 0), N(2, 1)],), (N(2, 3),)
    ),
)
def hstack(xs: Any) -> Any:
    """Arrays joined beside each other."""
    parts = [atleast_1d(x) for x in _list_pieces(xs)]
    return _join_along(parts, 0 if parts and ndim_of(parts[0]) == 1 else 1)


@register_function(
    np.dstack,
    samples=sample_calls(
        ([N(2, 3), N(2, 3)],),
        ([N(3), N(3)],),
        ([N(2, 3, 1), N(2, 3)],),
        ([N(), N()],),
        ([N(0, 2), N(0, 2)],),
        (N(2, 3),),
    ),
)
def dstack(xs: Any) -> Any:
    """Arrays joined along the third axis."""
    return _join_along([atleast_3d(x) for x in _list_pieces(xs)], 2)


@register_function(
    np.column_stack,
    samples=sample_calls(
        ([N(2), N(2)],), ([N(2), N(2, 3)],), ([N(2, 1), N(2, 2)],), ([N(), N()],), ([N(0), N(0, 2)],), (N(2, 3),)
    ),
)
def column_stack(xs: Any) -> Any:
    """Rows joined as the columns of a matrix."""
    return _join_along(
        [x if ndim_of(x) > 1 else reshape_to(x, (*(shape_of(x) or (1,)), 1)) for x in _list_pieces(xs)], 1
    )


@register_function(
    np.append,
    samples=sample_calls(
        (N(2, 3), N(3)),
        (N(2, 3), N(1, 3), 0),
        (N(2, 3), N(2, 2), {"axis": -1}),
        (N(), N()),
        (N(0), N(2)),
        (N(3), 0.5),
    ),
)
def append(x: Any, values: Any, axis: int | None = None) -> Any:
    """An array with values joined to its end."""
    return concatenate([x, values], axis)


@register_function(
    np.block,
    samples=sample_calls(
        ([N(2), N(3)],),
        ([N(2, 3), N(2, 1)],),
        ([N(), N()],),
        (N(2, 3),),
        ([N(1)],),
        ([N(2, 0), N(2, 1)],),
    ),
)
def block(xs: Any) -> Any:
    """Arrays joined as nested lists arrange them: the innermost along the last axis, and so on outwards."""
    depth, ndim = _measure_nesting(xs)
    return _join_blocks(xs, depth, max(depth, ndim))


def _measure_nesting(xs: Any) -> tuple[int, int]:
    """Return the depth of nested lists, and the maximum number of axes of the arrays in them."""
    if not isinstance(xs, list):
        return 0, ndim_of(lift(xs))
    if not xs:
        raise ValueError("List at arrays cannot be empty")
    inner = [_measure_nesting(x) for x in xs]
    if len({depth for depth, _ in inner}) > 1:
        raise ValueError("List depths are mismatched.")
    return inner[0][0] + 1, max(ndim for _, ndim in inner)


def _join_blocks(xs: Any, depth: int, ndim: int) -> Any:
    if not isinstance(xs, list):
        x = lift(xs)
        return reshape_to(x, (1,) * (ndim - ndim_of(x)) + shape_of(x))
    return _join_along([_join_blocks(x, depth - 1, ndim) for x in xs], -depth)


def _find_cuts(sections: Any, length: int, *, even: bool) -> list[int]:
    """Return the positions at which an axis is split, including both ends."""
    if np.ndim(sections):
        return [0, *(operator.index(k) for k in sections), length]
    count = int(sections)
    if count <= 0:
        raise ValueError("number sections must be larger than 0.")
    if even and length % count:
        raise ValueError("array split does not result in an equal division")
    each, extras = divmod(length, count)
    return [k * each + min(k, extras) for k in range(count + 1)]


def _split_along(x: Any, sections: Any, axis: int, *, even: bool) -> list[Any]:
    x = lift(x)
    place = axis_from_end(axis, ndim_of(x)) + ndim_of(x)
    cuts = _find_cuts(sections, shape_of(x)[place], even=even)
    return [pick_elements(x, *[slice(None)] * place, slice(low, high)) for low, high in pairwise(cuts)]


@register_function(
    np.split,
    samples=sample_calls(
        (N(4, 3), 2), (N(4, 3), 3, 1), (N(4), [1, 3]), (N(2, 3), [2], {"axis": -1}), (N(1), 1), (N(0, 2), 2)
    ),
)
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """An array cut along an axis, into equal parts or at indices."""
    return _split_along(x, indices_or_sections, axis, even=True)


@register_function(
    np.array_split,
    samples=sample_calls(
        (N(5, 3), 2), (N(4, 3), 2, 1), (N(4), [1, 3]), (N(2, 3), [2], {"axis": -1}), (N(1), 2), (N(0, 2), 2)
    ),
)
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """An array cut along an axis, into nearly equal parts or at indices."""
    return _split_along(x, indices_or_sections, axis, even=False)


def _require_axes(x: Any, least: int, name: str) -> Any:
    x = lift(x)
    if ndim_of(x) < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
    return x


@register_function(
    np.vsplit,
    samples=sample_calls((N(4, 3), 2), (N(4, 3), [1]), (N(2, 1), 2), (N(3, 2, 2), [1, 2]), (N(0, 2), 1), (N(1, 1), 1)),
)
def vsplit(x: Any, indices_or_sections: Any) -> Any:
    """An array cut along its first axis."""
    return split(_require_axes(x, 2, "vsplit"), indices_or_sections, 0)


@register_function(
    np.hsplit, samples=sample_calls((N(3, 4), 2), (N(3, 4), [1]), (N(4), 2), (N(3, 2, 2), 2), (N(2, 0), 1), (N(1), 1))
)
def hsplit(x: Any, indices_or_sections: Any) -> Any:
    """An array cut along its second axis, or a row along its only one."""
    x = _require_axes(x, 1, "hsplit")
    return split(x, indices_or_sections, min(ndim_of(x) - 1, 1))


@register_function(
    np.dsplit,
    samples=sample_calls(
        (N(1, 2, 4), 2), (N(2, 1, 4), [1]), (N(1, 1, 1), 1), (N(2, 2, 3), 3), (N(2, 2, 0), 1), (N(1, 2, 4, 2), [3])
    ),
)
def dsplit(x: Any, indices_or_sections: Any) -> Any:
    """An array cut along its third axis."""
    return split(_require_axes(x, 3, "dsplit"), indices_or_sections, 2)


@register_function(
    np.unstack,
    samples=sample_calls((N(2, 3),), (N(2, 3), {"axis": 1}), (N(3),), (N(2, 1, 2), {"axis": -1}), (N(1),), (N(2, 0),)),
)
def unstack(x: Any, *, axis: int = 0) -> Any:
    """The slices of an array along an axis."""
    x = _require_axes(x, 1, "unstack")
    place = axis_from_end(axis, ndim_of(x)) + ndim_of(x)
    return tuple(pick_elements(x, *[slice(None)] * place, k) for k in range(shape_of(x)[place]))


@register_function(
    np.flip,
    samples=sample_calls((N(2, 3),), (N(2, 3), 0), (N(2, 3), {"axis": -1}), (N(2, 3, 2), (0, 2)), (N(),), (N(0, 2), 0)),
)
def flip(x: Any, axis: Any = None) -> Any:
    """The elements in reverse order along axes."""
    x = lift(x)
    ndim = ndim_of(x)
    axes = axes_from_end(convert_axes(axis), ndim)
    return pick_elements(x, *(slice(None, None, -1) if k - ndim in axes else slice(None) for k in range(ndim)))


@register_function(np.fliplr, samples=_MATRIX_SAMPLES)
def fliplr(x: Any) -> Any:
    """The columns in reverse order."""
    if ndim_of(lift(x)) < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(x, 1)


@register_function(np.flipud, samples=sample_calls((N(2, 3),), (N(3),), (N(1, 3),), (N(2, 3, 4),), (N(0, 2),), (N(1),)))
def flipud(x: Any) -> Any:
    """The rows in reverse order."""
    if ndim_of(lift(x)) < 1:
        raise ValueError("Input must be >= 1-d.")
    return flip(x, 0)


@register_function(
    np.rot90,
    samples=sample_calls(
        (N(2, 3),), (N(2, 3), 2), (N(2, 3), -1), (N(2, 3, 2), 1, (1, 2)), (N(2, 3), 4), (N(0, 2),), (N(2, 3), 1, (1, 0))
    ),
)
def rot90(x: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """The array turned by quarters in the plane of two axes."""
    x = lift(x)
    # NumPy raises for arguments that do not fit.
    np.rot90(hollow_array(shape_of(x)), k, axes)
    if k % 4 == 2:
        return flip(x, axes)
    if k % 4 == 0:
        return pick_elements(x, ...)
    return swapaxes(flip(x, axes[1]), *axes) if k % 4 == 1 else flip(swapaxes(x, *axes), axes[1])


@register_function(
    np.roll,
    samples=sample_calls(
        (N(2, 3), 2),
        (N(2, 3), 1, 0),
        (N(2, 3), -4, {"axis": -1}),
        (N(2, 3), (1, 2), (0, 1)),
        (N(4), (1, 2), 0),
        (N(), 1),
        (N(0, 2), 1, 0),
        (N(3), 0),
    ),
)
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    """The elements rolled along axes; those that leave at one end come back at the other."""
    x = lift(x)
    if axis is None:
        return reshape_to(roll(as_row(x), shift, 0), shape_of(x))
    ndim = ndim_of(x)
    if type(shift) is int and type(axis) is int:
        return _roll_axis(x, shift, axis_from_end(axis, ndim))
    axes = [axis_from_end(k, ndim) for k in np.atleast_1d(axis)]
    pairs = np.broadcast(shift, axes if np.ndim(axis) else axes[0])
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    total: dict[int, int] = {}
    for step, place in pairs:
        total[int(place)] = total.get(int(place), 0) + int(step)
    for place, step in total.items():
        x = _roll_axis(x, step, place)
    return x


def _roll_axis(x: Any, step: int, axis: int) -> Any:
    length = shape_of(x)[axis]
    shift = step % length if length else 0
    return TABLE["roll"](x, shift=shift, axis=axis) if shift else x


@register_function(
    np.tile,
    samples=sample_calls(
        (N(2, 3), 2),
        (N(2, 3), (2, 1)),
        (N(3), (2, 2)),
        (N(2, 3, 2), (2,)),
        (N(), 3),
        (N(2), 0),
        (N(0, 2), (2, 2)),
        (N(2), ()),
    ),
)
def tile(x: Any, reps: Any) -> Any:
    """Copies of the array side by side."""
    x = lift(x)
    times = tuple(operator.index(n) for n in np.atleast_1d(reps)) if np.ndim(reps) == 0 or len(reps) else ()
    ndim = max(ndim_of(x), len(times))
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - ndim_of(x)) + shape_of(x)
    apart = reshape_to(x, tuple(n for length in shape for n in (1, length)))
    copied = stretch_to(apart, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return reshape_to(copied, tuple(n * length for n, length in zip(times, shape, strict=True)))


@register_function(
    np.repeat,
    method=True,
    samples=sample_calls(
        (N(2, 3), 2),
        (N(2, 3), 2, 1),
        (N(2, 3), [2, 0, 1], {"axis": -1}),
        (N(3), [1, 2, 3]),
        (N(), 3),
        (N(2), 0),
        (N(0, 2), 2, 0),
    ),
)
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element several times in a row."""
    x = lift(x)
    x, axis = (as_row(x), -1) if axis is None or not ndim_of(x) else (x, axis_from_end(axis, ndim_of(x)))
    shape = shape_of(x)
    if np.ndim(repeats) or repeats < 0:
        return gather_along(x, np.repeat(np.arange(shape[axis]), repeats), axis)
    apart = reshape_to(x, replace_length(shape, axis, shape[axis], 1))
    copied = stretch_to(apart, replace_length(shape, axis, shape[axis], int(repeats)))
    return reshape_to(copied, replace_length(shape, axis, shape[axis] * int(repeats)))


def _pairs_per_axis(given: Any, ndim: int) -> Any:
    """Return an argument of `pad` as one pair for the two sides of each axis."""
    return np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()


@register_function(
    np.pad,
    samples=sample_calls(
        (N(2, 3), 1),
        (N(2, 3), (1, 2), {"constant_values": 0.5}),
        (N(2, 3), ((1, 0), (2, 3)), "constant", {"constant_values": ((1.0, 2.0), (3.0, 4.0))}),
        (N(2, 3), ((1, 0), (2, 3)), "edge"),
        (N(3), 5, "reflect"),
        (N(2, 3), ((0, 3), (1, 1)), "symmetric"),
        (N(2, 3), 4, "wrap"),
        (N(0, 2), ((0, 0), (1, 1)), "edge"),
        (N(0), 2),
        (N(1), 2, "edge"),
        (N(2, 3), ((1, 0), (2, 3)), "mean"),
        (N(5), 2, "maximum", {"stat_length": (2, 3)}),
        (N(3, 4), 1, "median", {"stat_length": 2}),
        (N(2, 3), (2, 1), "minimum"),
        (N(2, 3), ((2, 1), (0, 3)), "linear_ramp", {"end_values": ((1.0, 2.0), (3.0, 4.0))}),
    ),
)
def pad(
    x: Any,
    pad_width: Any,
    mode: str = "constant",
    *,
    constant_values: Any = 0,
    reflect_type: str = "even",
    stat_length: Any = None,
    end_values: Any = 0,
) -> Any:
    """The array with elements added around it: a constant, copies of its own, their mean or extreme, or a ramp."""
    x = lift(x)
    ndim = ndim_of(x)
    if mode not in (*_COPYING_MODES, *_STATISTIC_MODES, "constant", "linear_ramp") or reflect_type != "even":
        raise TypeError(
            f"pad has no rule for {mode!r} with reflect_type={reflect_type!r}; join the parts with np.concatenate"
        )
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - ndim, (0, 0))) for k in range(ndim)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if (widths < 0).any():
        raise ValueError("index can't contain negative values")
    settings = {"constant": constant_values, "linear_ramp": end_values}.get(mode, stat_length)
    for k, (width, sides) in enumerate(
        zip(_pairs_per_axis(widths, ndim), _pairs_per_axis(settings, ndim), strict=True)
    ):
        if any(width):
            x = _pad_axis(x, k - ndim, width, mode, sides)
    return x


_COPYING_MODES = ("edge", "reflect", "symmetric", "wrap")
_STATISTIC_MODES = {"maximum": "max", "mean": "mean", "median": "median", "minimum": "min"}
"""The modes of `pad` that add a statistic of the elements, and the function that computes it."""


def _pad_axis(x: Any, axis: int, width: Sequence[int], mode: str, sides: Sequence[Any]) -> Any:
    """Pad one axis; `sides` are the settings of the mode before and behind it."""
    if mode == "constant":
        return _pad_with_constants(x, axis, width, sides)
    if mode in _COPYING_MODES:
        return _pad_with_copies(x, axis, width, mode)
    length = shape_of(x)[axis]
    parts = []
    for side, (count, setting) in enumerate(zip(width, sides, strict=True)):
        if mode == "linear_ramp":
            edge = slice_axis(x, axis, -1 if side else 0, None if side else 1)
            ramp = _make_ramp(edge, axis, count, setting)
            parts.append(FUNCTIONS["flip"].run(ramp, axis) if side else ramp)
        else:
            used = length if setting is None else min(int(setting), length)
            chunk = slice_axis(x, axis, length - used if side else 0, length if side else used)
            statistic = FUNCTIONS[_STATISTIC_MODES[mode]].run(chunk, axis=axis, keepdims=True)
            parts.append(stretch_to(statistic, replace_length(shape_of(x), axis, count)))
    return TABLE["concatenate"](parts[0], x, parts[1], axis=axis)


def _make_ramp(edge: Any, axis: int, count: int, end: float) -> Any:
    """Return `count` elements from `end` towards the edge, without the edge itself."""
    steps = np.arange(count, dtype=dtype_of(edge)).reshape((-1,) + (1,) * (-1 - axis))
    return steps * ((edge - end) / max(count, 1)) + end


def _pad_with_constants(x: Any, axis: int, width: Sequence[int], values: Sequence[Any]) -> Any:
    before, after = (
        np.full(replace_length(shape_of(x), axis, count), value, dtype_of(x))
        for count, value in zip(width, values, strict=True)
    )
    return TABLE["concatenate"](before, x, after, axis=axis)


def _pad_with_copies(x: Any, axis: int, width: Sequence[int], mode: Any) -> Any:
    return gather_along(x, np.pad(np.arange(shape_of(x)[axis]), width, mode), axis)


@register_function(
    np.diagonal,
    method=True,
    samples=sample_calls(
        (N(3, 4),),
        (N(3, 4), 1),
        (N(3, 4), {"offset": -2}),
        (N(2, 3, 4), 0, 2, 0),
        (N(2, 3, 4), {"axis1": -1, "axis2": -2}),
        (N(2, 2), 5),
        (N(0, 2),),
        (N(1, 1),),
    ),
)
@plan_by_shape
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements where two indices differ by an offset."""
    x = lift(x)
    (count,) = np.diagonal(hollow_array(shape_of(x)), offset, axis1, axis2).shape[-1:]
    *lead, rows, columns = shape_of(x := moveaxis(x, (axis1, axis2), (-2, -1)))
    step = columns + 1
    start = offset if offset >= 0 else -offset * columns
    return pick_elements(reshape_to(x, (*lead, rows * columns)), ..., slice(start, start + count * step, step))


@register_function(
    np.diag,
    samples=sample_calls(
        (N(3),), (N(3), 1), (N(2), -2), (N(3, 4),), (N(3, 3), -1), (N(1),), (N(0),), (N(2, 3), {"k": 1})
    ),
)
@plan_by_shape
def diag(x: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix with a row as its diagonal."""
    x = lift(x)
    if ndim_of(x) == 2:
        return diagonal(x, k)
    if ndim_of(x) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    count = shape_of(x)[0]
    side = count + abs(k)
    start = k if k >= 0 else -k * side
    index = (("slice", start, start + count * (side + 1), side + 1),)
    return reshape_to(TABLE["put_add"](x, index=index, shape=(side * side,)), (side, side))


@register_function(
    np.diagflat,
    samples=sample_calls((N(3),), (N(2, 2), 1), (N(2), -2), (N(),), (N(1, 2, 1),), (N(0, 2),), (N(1), {"k": -1})),
)
def diagflat(x: Any, k: int = 0) -> Any:
    """The matrix with all elements of an array on its diagonal."""
    return diag(as_row(lift(x)), k)


@register_function(
    np.trace,
    method=True,
    samples=sample_calls(
        (N(3, 4),), (N(3, 4), 1), (N(3, 4), {"offset": -2}), (N(2, 3, 4), 0, 2, 0), (N(2, 2), 5), (N(0, 2),), (N(1, 1),)
    ),
)
@plan_by_shape
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The sum along a diagonal."""
    return TABLE["sum"](diagonal(x, offset, axis1, axis2), axes=(-1,), keepdims=False)


_TRIANGLE_SAMPLES = sample_calls(
    (N(3, 4),), (N(3, 4), 1), (N(3, 4), {"k": -2}), (N(2, 3, 3),), (N(3),), (N(0, 2),), (N(1, 1),)
)


def _triangle_mask(x: Any, k: int) -> Any:
    return np.tri(*shape_of(x)[-2:], k=k, dtype=bool)  # type: ignore[call-overload]


@register_function(np.tril, samples=_TRIANGLE_SAMPLES)
def tril(x: Any, k: int = 0) -> Any:
    """The lower triangle of a matrix, 0 above it."""
    x = lift(x)
    return TABLE["where"](_triangle_mask(x, k), x, dtype_of(x).type(0))


@register_function(np.triu, samples=_TRIANGLE_SAMPLES)
def triu(x: Any, k: int = 0) -> Any:
    """The upper triangle of a matrix, 0 below it."""
    x = lift(x)
    return TABLE["where"](_triangle_mask(x, k - 1), dtype_of(x).type(0), x)
