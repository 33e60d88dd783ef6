"""Functions that pick elements, and functions that put elements in place of others.

Integers and slices are settings of `getitem`. Index arrays are operands of `take`, along one axis: the axes they index
are first brought together and merged into one. So an index may be large, or recorded itself, and any number of axes may
stand in front.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from wiregrad.errors import MutationError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.registry import register_function
from wiregrad.ops.functions.support import N, dtype_of, detach_array, is_wire, lift, ndim_of, axis_from_end, sample_calls, replace_length
from wiregrad.ops.shape_records import hollow_array, encode_index


def as_row(x: Any) -> Any:
    """Return the elements of x as an array of one axis."""
    return x if ndim_of(x) == 1 else reshape_to(x, (int(np.prod(shape_of(x))),))


def reshape_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Return x reshaped to a shape of the same size."""
    return x if shape_of(x) == shape else TABLE["reshape"](x, rank=ndim_of(x), shape=shape)


def gather_along(x: Any, indices: Any, axis: int) -> Any:
    """Return the slices at indices of any shape along an axis, which is counted from the end."""
    return reshape_to(TABLE["take"](x, as_row(indices), axis=axis), replace_length(shape_of(x), axis, *shape_of(indices)))


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
    items = [_normalize_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    if not any(is_wire(item) for item in items):
        # NumPy itself raises for an index that does not fit.
        hollow_array(shape_of(x))[tuple(items)]
    if any(isinstance(item, np.ndarray) or is_wire(item) for item in items):
        return _apply_index_arrays(x, items)
    return pick_elements(x, *items)


def _normalize_item(item: Any) -> Any:
    """Return an item of an index as a slice, None, ..., an integer, or an array or wire of integers or bools."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if is_wire(item):
        if dtype_of(item).kind not in "iub":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return detach_array(item) if dtype_of(item).kind == "b" else item
    array = np.asarray(item)
    if array.size == 0 and not isinstance(item, np.ndarray):
        array = array.astype(np.intp)
    return operator.index(array[()]) if array.ndim == 0 and array.dtype.kind in "iu" else array


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
    return gather_along(merged, _flatten_indices([parts[k].indices for k in chosen], shape[first:last]), last - 1 - len(shape))


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
    x, axis = (as_row(x), -1) if axis is None else (x, axis_from_end(axis, ndim_of(x)))
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
    source[_detach_index(index)] = np.arange(int(np.prod(shape))).reshape(shape)
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
    places = np.arange(size).reshape(shape)[_detach_index(index)]
    spread = as_row(stretch_to(values, places.shape))
    return x + reshape_to(TABLE["take_add"](spread, places.reshape(-1), axis=-1, length=size), shape)


def _detach_index(index: Any) -> Any:
    """Return an index with its recorded parts as plain arrays."""
    return tuple(detach_array(item) if is_wire(item) else item for item in (index if isinstance(index, tuple) else (index,)))


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
    """Refuses: a recorded value does not change in place."""
    raise MutationError(
        "a recorded value does not change in place; write x = wg.put(x, index, values), "
        f"wg.scatter_add(x, index, values) or np.where(mask, values, x){format_user_line()}"
    )
