"""Records of the ops that move elements: spread, reshape, permute, pick, put, join, and sliding windows."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, reduce
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.ir import TABLE, Pattern
from wiregrad.ir.op import write_index
from wiregrad.ops.array_ops import Blocking, General, LinearOp, keep_shape, write_numpy_call
from wiregrad.ops.gradient_flow import LazyMask, MaskedFlow, match_shape, only, shape_of

register = TABLE.add

InputTypes = tuple[WireType, ...]


def _leading_lengths(x: Any, rank: int) -> tuple[int, ...]:
    """Return the lengths of the axes in front of the last `rank` ones."""
    lengths: tuple[int, ...] = x.shape[: x.ndim - rank]
    return lengths


# Bound once: while a function is recorded, NumPy's own names lead to functions that look for wires.
convert_plain = np.asarray
make_zeros = np.zeros


def _spread_array(x: Any, *, rank: int, shape: tuple[int, ...]) -> Any:
    x = convert_plain(x)
    if x.ndim == rank:
        return broadcast_array(x, shape)
    lead = _leading_lengths(x, rank)
    return np.broadcast_to(x.reshape(lead + (1,) * (len(shape) - rank) + x.shape[x.ndim - rank :]), lead + shape)


def broadcast_array(x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return `np.broadcast_to(x, shape)`; a contiguous array takes a third of its time.

    >>> broadcast_array(np.array([1.0, 2.0]), (2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    missing = len(shape) - x.ndim
    if not x.flags.c_contiguous or not x.size or missing < 0:
        return np.broadcast_to(x, shape)
    strides = [0] * missing
    for length, wanted, step in zip(x.shape, shape[missing:], x.strides, strict=True):
        if length not in (wanted, 1):
            return np.broadcast_to(x, shape)
        strides.append(step if length == wanted else 0)
    y: NDArray[Any] = np.ndarray(shape, x.dtype, x, 0, tuple(strides))
    y.setflags(write=False)
    return y


@lru_cache(maxsize=1024)
def _stretched_axes(lengths: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes, counted from the end, along which an array of a shape was stretched to other lengths."""
    rank = len(lengths)
    core = (1,) * (rank - len(shape)) + shape
    return tuple([k - rank for k in range(rank) if core[k] == 1 and lengths[k] != 1])


def _sum_to_shape(x: Any, *, rank: int, shape: tuple[int, ...]) -> Any:
    x = convert_plain(x)
    lead = _leading_lengths(x, rank)
    axes = _stretched_axes(x.shape[x.ndim - rank :], shape)
    # A sum of conditions says whether one of them holds: that is how the mask of a gradient is sent back.
    add = np.logical_or if x.dtype == np.bool_ else np.add
    # The axes are kept because a sum of objects over all axes would not be an array.
    return (add.reduce(x, axis=axes, keepdims=True) if axes else x).reshape(lead + shape)


def _infer_sum_to(x: tuple[int, ...], *, rank: int, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if not len(shape) <= rank <= len(x):
        return None
    lead = x[: len(x) - rank]
    core = (1,) * (rank - len(shape)) + shape
    fits = all(wanted in (1, length) for length, wanted in zip(x[len(lead) :], core, strict=True))
    return lead + shape if fits else None


def _spread_text(x: str, *, types: InputTypes, rank: int, shape: tuple[int, ...]) -> str:
    old_shape = types[0].shape
    lead = len(old_shape) - rank
    if lead and len(shape) > rank:
        x = f"np.reshape({x}, {old_shape[:lead] + (1,) * (len(shape) - rank) + old_shape[lead:]})"
    return f"np.broadcast_to({x}, {old_shape[:lead] + shape})"


def _sum_to_text(x: str, *, types: InputTypes, rank: int, shape: tuple[int, ...]) -> str:
    old_shape = types[0].shape
    lead = len(old_shape) - rank
    core = (1,) * (rank - len(shape)) + shape
    axes = tuple(k - rank for k in range(rank) if core[k] == 1 and old_shape[lead + k] != 1)
    keepdims = bool(axes) and rank == len(shape)
    if axes:
        add = "np.any" if types[0].dtype == np.bool_ else "np.sum"
        x = write_numpy_call(add, x, ndim=len(old_shape), axes=axes, keepdims=keepdims)
    summed = tuple(n for k, n in enumerate(old_shape) if k - len(old_shape) not in axes)
    wanted = old_shape[:lead] + shape
    return x if keepdims or summed == wanted else f"np.reshape({x}, {wanted})"


spread: LinearOp = register(
    LinearOp(
        name="spread",
        reads_shapes=True,
        is_view=True,
        doc="Copies a wire along new and stretched axes to a shape: broadcasting as a node.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_spread_array,
        numpy=_spread_text,
        transpose=lambda g, slot, x, *, rank, shape: sum_to(g, rank=len(shape), shape=_core_lengths(x, rank)),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=3), {"rank": 1, "shape": (2, 3)}),
            (rng.normal(size=(2, 1)), {"rank": 2, "shape": (2, 3)}),
            (rng.normal(), {"rank": 0, "shape": (2,)}),
            (rng.normal(size=(1, 2)), {"rank": 2, "shape": (0, 2)}),
        ],
    )
)
sum_to: LinearOp = register(
    LinearOp(
        name="sum_to",
        reads_shapes=True,
        doc="Adds up along the axes that spread added or stretched: the transpose of spread.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_sum_to_shape,
        output_shape=_infer_sum_to,
        numpy=_sum_to_text,
        transpose=lambda g, slot, x, *, rank, shape: spread(g, rank=len(shape), shape=_core_lengths(x, rank)),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), {"rank": 2, "shape": (3,)}),
            (rng.normal(size=(2, 3)), {"rank": 2, "shape": (2, 1)}),
            (rng.normal(size=2), {"rank": 1, "shape": ()}),
            (rng.normal(size=(0, 2)), {"rank": 2, "shape": (1, 2)}),
        ],
    )
)


def _core_lengths(x: Any, rank: int) -> tuple[int, ...]:
    """Return the lengths of the last `rank` axes."""
    shape = shape_of(x)
    return shape[len(shape) - rank :]


def _reshape_array(x: Any, *, rank: int, shape: tuple[int, ...]) -> Any:
    x = convert_plain(x)
    return x.reshape(shape if x.ndim == rank else _leading_lengths(x, rank) + shape)


PLAIN_ARRAYS = frozenset([np.ndarray, np.float64])
"""NumPy's own classes that have its methods."""


class _ReshapeOp(LinearOp):
    """The same elements in another shape."""

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """`compute` with the settings bound once."""
        rank = self.options["rank"]
        shape = self.options["shape"]
        return lambda x: x.reshape(shape) if type(x) in PLAIN_ARRAYS and x.ndim == rank else self.compute(x)


reshape: LinearOp = register(
    _ReshapeOp(
        name="reshape",
        reads_shapes=True,
        is_view=True,
        doc="The same elements in another shape.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_reshape_array,
        numpy=lambda x, *, types, rank, shape: (
            f"np.reshape({x}, {types[0].shape[: len(types[0].shape) - rank] + shape})"
        ),
        transpose=lambda g, slot, x, *, rank, shape: reshape(g, rank=len(shape), shape=_core_lengths(x, rank)),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), {"rank": 2, "shape": (3, 2)}),
            (rng.normal(), {"rank": 0, "shape": (1, 1)}),
            (rng.normal(size=(0, 2)), {"rank": 2, "shape": (3, 0)}),
        ],
    )
)


@lru_cache(maxsize=256)
def _inverse_order(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(k) - len(axes) for k in np.argsort([axis + len(axes) for axis in axes]))


def _permute_array(x: Any, *, axes: tuple[int, ...]) -> Any:
    x = x if type(x) is np.ndarray else convert_plain(x)
    lead = x.ndim - len(axes)
    return x.transpose((*range(lead), *axes) if lead else axes)


def _permute_text(x: str, *, types: InputTypes, axes: tuple[int, ...]) -> str:
    ndim = len(types[0].shape)
    order = (*range(ndim - len(axes)), *(axis + ndim for axis in axes))
    return f"{x}.T" if order == (1, 0) else f"np.transpose({x}, {order})"


permute: LinearOp = register(
    LinearOp(
        name="permute",
        reads_shapes=True,
        is_view=True,
        doc="The axes in another order.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_permute_array,
        numpy=_permute_text,
        transpose=lambda g, slot, x, *, axes: permute(g, axes=_inverse_order(axes)),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), {"axes": (-1, -2)}),
            (rng.normal(size=(2, 3, 4)), {"axes": (-1, -3, -2)}),
            (rng.normal(size=(0, 2)), {"axes": (-1, -2)}),
        ],
    )
)


@lru_cache(maxsize=256)
def _roll_places(length: int, shift: int) -> NDArray[np.intp]:
    return (np.arange(length) - shift) % length


MAX_ROLLED_BY_INDEX = 1 << 14
"""The number of elements up to which an array is rolled by an index: one call, where slices take five."""


def _roll_array(x: Any, *, shift: int, axis: int) -> Any:
    # The same as np.roll, without the cost of its wrappers.
    x = convert_plain(x)
    length = x.shape[axis]
    cut = shift % length if length else 0
    if 0 < x.size <= MAX_ROLLED_BY_INDEX and x.flags.c_contiguous:
        return x.take(_roll_places(length, cut), axis)
    rest = (slice(None),) * (-1 - axis)
    y = np.empty_like(x)
    y[(Ellipsis, slice(cut, None), *rest)] = x[(Ellipsis, slice(None, length - cut), *rest)]
    y[(Ellipsis, slice(None, cut), *rest)] = x[(Ellipsis, slice(length - cut, None), *rest)]
    return y


roll: LinearOp = register(
    LinearOp(
        name="roll",
        reads_shapes=True,
        doc="The elements moved along an axis; those that leave at one end come back at the other.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_roll_array,
        output_shape=keep_shape,
        numpy=lambda x, *, types, shift, axis: f"np.roll({x}, {shift}, axis={axis % len(types[0].shape)})",
        transpose=lambda g, slot, x, *, shift, axis: roll(g, shift=-shift, axis=axis),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(3, 4)), {"shift": 1, "axis": -1}),
            (rng.normal(size=(3, 4)), {"shift": -2, "axis": -2}),
            (rng.normal(size=5), {"shift": 7, "axis": -1}),
            (rng.normal(size=1), {"shift": 1, "axis": -1}),
            (rng.normal(size=(2, 0)), {"shift": 1, "axis": -1}),
        ],
    )
)


WHOLE_AXIS = ("slice", None, None, None)


@lru_cache(maxsize=4096)
def decode_index(index: tuple[Any, ...], lead: int = 0) -> tuple[Any, ...]:
    """Convert a stored index to NumPy's form."""
    items = tuple([slice(*item[1:]) if type(item) is tuple else item for item in index])
    return (slice(None),) * lead + items if lead else items


def encode_index(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Convert an index of integers, slices, None and ... to the form it is stored in: one entry for every axis.

    >>> encode_index((0, Ellipsis, slice(1, None)), 3)
    (0, ('slice', None, None, None), ('slice', 1, None, None))
    """
    return complete_index(tuple([encode_item(item) for item in index]), ndim)


def complete_index(items: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Put full slices into a stored index, in place of ... or at its end, for the axes that it does not name."""
    dots = items.index(Ellipsis) if Ellipsis in items else len(items)
    used = sum(item is not None and item is not Ellipsis for item in items)
    return items[:dots] + (WHOLE_AXIS,) * (ndim - used) + items[dots + 1 :]


def encode_item(item: Any) -> Any:
    """Convert one part of an index to the form it is stored in."""
    if type(item) is slice:
        bounds = (item.start, item.stop, item.step)
        return ("slice", *[x if x is None or type(x) is int else _convert_bound(x) for x in bounds])
    return item if item is None or item is Ellipsis else operator.index(item)


def _convert_bound(bound: Any) -> int:
    if not hasattr(bound, "__index__"):
        # As NumPy says it.
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return operator.index(bound)


def _count_indexed_axes(index: tuple[Any, ...]) -> int:
    return len(index) - index.count(None)


def hollow_array(shape: tuple[int, ...]) -> Any:
    """Return an array of a shape that takes no memory, to ask NumPy what it would do with such an array."""
    return np.ndarray(shape, np.bool_, bytes(1), 0, (0,) * len(shape))


def _infer_put(x: tuple[int, ...], *, index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    part = hollow_array(shape)[decode_index(index, 0)].shape
    lead = len(x) - len(part)
    return x[:lead] + shape if lead >= 0 and x[lead:] == part else None


def _put_into_zeros(x: Any, *, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    x = convert_plain(x)
    lead = _leading_lengths(x, hollow_array(shape)[decode_index(index, 0)].ndim)
    y = make_zeros(lead + shape, x.dtype)
    y[decode_index(index, len(lead))] = x
    return y


def _index_text(index: tuple[Any, ...], lead: int) -> str:
    """Write an index as people do, without full slices at its end."""
    parts = [WHOLE_AXIS] * lead + list(index)
    while len(parts) > 1 and parts[-1] == WHOLE_AXIS:
        parts.pop()
    return write_index(tuple(parts)) or "()"


def _getitem_text(x: str, *, types: InputTypes, index: tuple[Any, ...]) -> str:
    shape = types[0].shape
    if not shape:
        # A Python number cannot be indexed.
        return f"np.reshape({x}, {(1,) * len(index)})" if index else x
    return f"{x}[{_index_text(index, len(shape) - _count_indexed_axes(index))}]"


def _put_text(x: str, *, types: InputTypes, index: tuple[Any, ...], shape: tuple[int, ...]) -> str:
    old_shape = types[0].shape
    lead = old_shape[: len(old_shape) - hollow_array(shape)[decode_index(index, 0)].ndim]
    return f"put({x}, np.s_[{_index_text(index, len(lead))}], {lead + shape})"


def _pick_part(x: Any, *, index: tuple[Any, ...]) -> Any:
    x = x if type(x) is np.ndarray else convert_plain(x)
    return x[decode_index(index, x.ndim - _count_indexed_axes(index))]


class _GetitemOp(LinearOp):
    """Elements by whole numbers and slices."""

    picks_part: ClassVar[bool] = True

    @cached_property
    def _axis_count(self) -> int:
        return _count_indexed_axes(self.options["index"])

    @cached_property
    def _plain_index(self) -> tuple[Any, ...]:
        return decode_index(self.options["index"])

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        """`compute` with the index converted once."""
        index = self._plain_index
        count = self._axis_count
        return lambda x: x[index] if type(x) is np.ndarray and x.ndim == count else self.compute(x)

    def find_part(self, xs: Sequence[Any]) -> Any:
        """Return the index in NumPy's form."""
        lead = len(xs[0].shape) - self._axis_count
        return decode_index(self.options["index"], lead) if lead else self._plain_index


getitem: LinearOp = register(
    _GetitemOp(
        name="getitem",
        reads_shapes=True,
        is_view=True,
        doc="Picks elements by whole numbers and slices; the gradient of the others is absent, not 0.",
        inputs=("x",),
        pattern=Pattern.ROUTE,
        forward=_pick_part,
        numpy=_getitem_text,
        transpose=lambda g, slot, x, *, index: put_add(
            g, index=index, shape=_core_lengths(x, _count_indexed_axes(index))
        ),
        moves=True,
        partial=True,
        samples=lambda rng: [
            (rng.normal(size=(3, 4)), {"index": (1, WHOLE_AXIS)}),
            (rng.normal(size=(3, 4)), {"index": (WHOLE_AXIS, -2)}),
            (rng.normal(size=(3, 4)), {"index": (("slice", None, None, -2), None, ("slice", 1, 3, None))}),
            (rng.normal(size=(2, 3)), {"index": (0, 1)}),
            (rng.normal(size=3), {"index": (("slice", 3, None, None),)}),
            (rng.normal(), {"index": (None,)}),
            (rng.normal(size=(0, 2)), {"index": (WHOLE_AXIS, 1)}),
        ],
    )
)
_PUT = '''\
def put(x, index, shape):
    """Return zeros of a shape with x at an index."""
    y = np.zeros(shape, np.asarray(x).dtype)
    y[index] = x
    return y
'''
put_add: LinearOp = register(
    LinearOp(
        name="put_add",
        reads_shapes=True,
        doc="Puts elements into zeros of a shape at an index: the transpose of getitem.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_put_into_zeros,
        output_shape=_infer_put,
        numpy=_put_text,
        numpy_needs=(_PUT,),
        transpose=lambda g, slot, x, *, index, shape: getitem(g, index=index),
        moves=True,
        scatters=True,
        samples=lambda rng: [
            (rng.normal(size=4), {"index": (1, WHOLE_AXIS), "shape": (3, 4)}),
            (rng.normal(size=(2, 1)), {"index": (("slice", None, None, -2), None), "shape": (3,)}),
            (rng.normal(), {"index": (2,), "shape": (3,)}),
            (rng.normal(size=(2, 0)), {"index": (WHOLE_AXIS, ("slice", 1, 1, None)), "shape": (2, 3)}),
        ],
    )
)


def _add_at_places(x: Any, places: Any, shape: tuple[int, ...]) -> Any:
    """Return zeros of a shape with elements added at places, which number the elements of the shape in C order."""
    y = make_zeros(shape, x.dtype)
    # `add.at` is fastest on one axis.
    np.add.at(y.reshape(-1), places.reshape(-1), x.reshape(-1))
    return y


def _number_places(shape: tuple[int, ...]) -> Any:
    return np.arange(prod(shape)).reshape(shape)


def _replace_length(x: Any, axis: int, length: int) -> tuple[int, ...]:
    shape = list(x.shape)
    shape[axis] = length
    return tuple(shape)


def _take_slices(x: Any, indices: Any, *, axis: int) -> Any:
    indices = convert_plain(indices)
    if indices.ndim == 1:
        return convert_plain(x).take(indices, axis)
    core = np.ndim(x) - indices.ndim + 1
    wide = (*indices.shape[:-1], *(indices.shape[-1] if k == axis else 1 for k in range(-core, 0)))
    return np.take_along_axis(x, indices.reshape(wide), axis)


def _infer_take(
    x: tuple[int, ...], indices: tuple[int, ...], *, axis: int, length: int | None = None
) -> tuple[int, ...] | None:
    if len(indices) != 1 or not -len(x) <= axis < 0 or (length is not None and x[axis] != indices[0]):
        return None
    place = axis % len(x)
    return (*x[:place], indices[0] if length is None else length, *x[place + 1 :])


def _add_slices(x: Any, indices: Any, *, axis: int, length: int) -> Any:
    x = convert_plain(x)
    indices = convert_plain(indices)
    shape = _replace_length(x, axis, length)
    if indices.ndim == 1:
        places, are_distinct = _find_places(indices, length)
        if are_distinct or (x.dtype == np.bool_ and x.all()):
            # No place is used twice, so elements are assigned, which is many times faster than adding.
            y = make_zeros(shape, x.dtype)
            y[_index_along(places, axis)] = x
            return y
        if x.ndim == 1 and x.dtype == np.float64:
            return np.bincount(places, x, length)
        if x.size <= MAX_ADDED_BY_SLICE:
            y = make_zeros(shape, x.dtype)
            np.add.at(y, _index_along(places, axis), x)
            return y
    return _add_at_places(x, _take_slices(_number_places(shape), indices, axis=axis), shape)


MAX_ADDED_BY_SLICE = 256
"""The number of elements up to which whole slices are added; for more, it is faster to number single elements."""


def _index_along(places: NDArray[Any], axis: int) -> Any:
    """Return the NumPy index of slices along an axis, which is counted from the end."""
    return (Ellipsis, places, *[slice(None)] * (-1 - axis))


def _count_from_start(indices: NDArray[Any], length: int) -> NDArray[Any]:
    """Return indices with negative ones counted from the start."""
    if indices.size and np.minimum.reduce(indices) < 0:
        indices = np.where(indices < 0, indices + length, indices)
    return indices.astype(np.intp, copy=False)


class _LatestPlaces:
    """The places that an index array names, and whether no place comes twice, for the array that was last asked for."""

    answer: tuple[NDArray[Any] | None, int, NDArray[Any], bool] = (None, 0, np.empty(0, np.intp), True)


def _find_places(indices: NDArray[Any], length: int) -> tuple[NDArray[Any], bool]:
    """Return indices counted from the start, and whether no place comes twice."""
    latest, latest_length, places, are_distinct = _LatestPlaces.answer
    if latest is not indices or latest_length != length:
        places = _count_from_start(indices, length)
        are_distinct = _are_distinct(places)
        if not indices.flags.writeable:
            # The rule of an op asks again for what the sweep has just asked for.
            _LatestPlaces.answer = (indices, length, places, are_distinct)
    return places, are_distinct


def _are_distinct(places: NDArray[Any]) -> bool:
    """Return whether no place comes twice."""
    if places.size <= MAX_LISTED_PLACES:
        return len(set(places.tolist())) == places.size
    return bool(np.bincount(places).max() == 1)


MAX_LISTED_PLACES = 64
"""The number of places up to which a set of numbers is made faster than an array that counts them."""


ADD_AT = '''\
def add_at(x, indices, axis, length):
    """Return zeros, so long along an axis, with the slices of x added where a row of indices says."""
    y = np.zeros(x.shape[:axis] + (length,) + x.shape[axis + 1 :], x.dtype)
    places = (slice(None),) * axis + (indices,)
    if len(np.unique(indices % length)) == len(indices):
        y[places] = x
    else:
        np.add.at(y, places, x)
    return y
'''
_ADD_ALONG_AXIS = '''\
def add_along_axis(x, indices, axis, length):
    """Return zeros, so long along an axis, with the elements of x added where the indices say."""
    y = np.zeros(x.shape[:axis] + (length,) + x.shape[axis + 1 :], x.dtype)
    places = np.take_along_axis(np.arange(y.size).reshape(y.shape), indices, axis)
    np.add.at(y.reshape(-1), places.reshape(-1), x.reshape(-1))
    return y
'''


def _write_by_indices(row: str, rows: str) -> Any:
    """Return a writer of an op that takes one row of indices or, in a batch, a row for each array."""

    def write_text(x: str, indices: str, *, types: InputTypes, axis: int, **settings: int) -> str:
        shape = types[0].shape
        lengths = types[1].shape
        if len(lengths) > 1:
            core = range(len(lengths) - 1 - len(shape), 0)
            indices = f"np.reshape({indices}, {(*lengths[:-1], *(lengths[-1] if k == axis else 1 for k in core))})"
        return write_numpy_call(row if len(lengths) == 1 else rows, x, indices, ndim=len(shape), axis=axis, **settings)

    return write_text


class _TakeOp(LinearOp):
    """Slices along an axis by a row of indices."""

    picks_part: ClassVar[bool] = True

    def find_part(self, xs: Sequence[Any]) -> Any:
        """Return the index of the slices, if none is taken twice."""
        x, indices = xs
        axis = self.options["axis"]
        if type(indices) is not np.ndarray or indices.ndim != 1:
            return None
        places, are_distinct = _find_places(indices, x.shape[axis])
        return _index_along(places, axis) if are_distinct else None


take: LinearOp = register(
    _TakeOp(
        name="take",
        doc="Picks along an axis by a row of indices; the gradient of what is not picked is absent, not 0.",
        inputs=("x", "indices"),
        pattern=Pattern.ROUTE,
        forward=_take_slices,
        output_shape=_infer_take,
        numpy=_write_by_indices("np.take", "np.take_along_axis"),
        transpose=lambda g, slot, x, indices, *, axis: (
            take_add(g, indices, axis=axis, length=shape_of(x)[axis]) if slot == 0 else None
        ),
        moves=True,
        partial=True,
        samples=lambda rng: [
            (rng.normal(size=(4, 3)), np.array([2, 0, 2, -1]), {"axis": -2}),
            (rng.normal(size=(2, 3)), np.array([2, 0]), {"axis": -1}),
            (rng.normal(size=3), np.array([1, 1, 1]), {"axis": -1}),
            (rng.normal(size=1), np.array([0]), {"axis": -1}),
            (rng.normal(size=(2, 3)), np.array([], np.int64), {"axis": -1}),
            (rng.normal(size=(0, 3)), np.array([1, 1]), {"axis": -1}),
        ],
    )
)
take_add: LinearOp = register(
    LinearOp(
        name="take_add",
        doc="Adds slices into zeros along an axis at a row of indices: the transpose of take.",
        inputs=("x", "indices"),
        pattern=Pattern.DISTRIBUTE,
        forward=_add_slices,
        output_shape=_infer_take,
        numpy=_write_by_indices("add_at", "add_along_axis"),
        numpy_needs=(ADD_AT, _ADD_ALONG_AXIS),
        transpose=lambda g, slot, x, indices, *, axis, length: take(g, indices, axis=axis) if slot == 0 else None,
        moves=True,
        scatters=True,
        samples=lambda rng: [
            (rng.normal(size=(4, 3)), np.array([2, 0, 2, -1]), {"axis": -2, "length": 5}),
            (rng.normal(size=(2, 2)), np.array([2, 0]), {"axis": -1, "length": 3}),
            (rng.normal(size=(2, 0)), np.array([], np.int64), {"axis": -1, "length": 3}),
        ],
    )
)


def _add_elements(x: Any, indices: Any, *, axis: int, length: int) -> Any:
    x = convert_plain(x)
    shape = _replace_length(x, axis, length)
    return _add_at_places(x, np.take_along_axis(_number_places(shape), indices, axis), shape)


take_along_axis: LinearOp = register(
    LinearOp(
        name="take_along_axis",
        doc="Picks elements along an axis by an array of indices of the same length along all other axes.",
        inputs=("x", "indices"),
        pattern=Pattern.ROUTE,
        forward=lambda x, indices, *, axis: np.take_along_axis(x, indices, axis),
        numpy="np.take_along_axis",
        transpose=lambda g, slot, x, indices, *, axis: (
            along_axis_add(g, indices, axis=axis, length=shape_of(x)[axis]) if slot == 0 else None
        ),
        moves=True,
        partial=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), rng.integers(0, 3, (2, 4)), {"axis": -1}),
            (rng.normal(size=(4, 2)), rng.integers(-4, 4, (3, 2)), {"axis": -2}),
            (rng.normal(size=3), np.array([2, 2, 0]), {"axis": -1}),
            (rng.normal(size=(2, 3, 2)), rng.integers(0, 3, (2, 1, 2)), {"axis": -2}),
            (rng.normal(size=1), np.array([0]), {"axis": -1}),
            (rng.normal(size=(2, 3)), np.zeros((2, 0), np.int64), {"axis": -1}),
        ],
    )
)
along_axis_add: LinearOp = register(
    LinearOp(
        name="along_axis_add",
        doc="Adds elements into zeros along an axis at indices: the transpose of take_along_axis.",
        inputs=("x", "indices"),
        pattern=Pattern.DISTRIBUTE,
        forward=_add_elements,
        numpy="add_along_axis",
        numpy_needs=(_ADD_ALONG_AXIS,),
        transpose=lambda g, slot, x, indices, *, axis, length: (
            take_along_axis(g, indices, axis=axis) if slot == 0 else None
        ),
        moves=True,
        scatters=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 4)), rng.integers(0, 3, (2, 4)), {"axis": -1, "length": 3}),
            (rng.normal(size=(3, 2)), rng.integers(-4, 4, (3, 2)), {"axis": -2, "length": 4}),
            (rng.normal(size=(2, 0)), np.zeros((2, 0), np.int64), {"axis": -1, "length": 3}),
        ],
    )
)


def _piece_index(start: int, length: int, axis: int) -> tuple[Any, ...]:
    """Return the index of one operand of concatenate in its result."""
    return (("slice", start, start + length, None), *(WHOLE_AXIS,) * (-1 - axis))


def _send_to_piece(g: Any, slot: int, *xs: Any, axis: int) -> Any:
    lengths = [shape_of(x)[axis] for x in xs[: slot + 1]]
    return getitem(g, index=_piece_index(sum(lengths[:-1]), lengths[-1], axis))


def _join_shapes(*shapes: tuple[int, ...], axis: int) -> tuple[int, ...] | None:
    first = shapes[0]
    if not -len(first) <= axis < len(first):
        return None
    place = axis % len(first)
    around = first[:place], first[place + 1 :]
    if any((shape[:place], shape[place + 1 :]) != around for shape in shapes):
        return None
    return (*around[0], sum([shape[place] for shape in shapes]), *around[1])


class _ConcatenateOp(LinearOp):
    """Arrays joined along an axis."""

    pulls_together: ClassVar[bool] = True

    def pull_slots(self, slots: Sequence[int], g: Any, xs: Sequence[Any], y: Any, mode: int) -> Iterator[Any]:
        """Iterate over the pieces of a gradient; the lengths of the operands are added up once for all of them."""
        masked = type(g) is MaskedFlow and g.is_array
        whole = g.value if masked else g
        axis = self.options["axis"]
        stops = list(itertools.accumulate(shape_of(x)[axis] for x in xs))
        if type(whole) is not np.ndarray or whole.shape != shape_of(y):
            if type(g) is MaskedFlow:
                yield from super().pull_slots(slots, g, xs, y, mode)
                return
            whole = match_shape(g, y)
            for slot in slots:
                start = stops[slot - 1] if slot else 0
                yield getitem(whole, index=_piece_index(start, stops[slot] - start, axis))
            return
        g = match_shape(g, y) if masked else g
        rest = (slice(None),) * (-1 - axis)
        for slot in slots:
            index = (Ellipsis, slice(stops[slot - 1] if slot else 0, stops[slot]), *rest)
            yield _mask_part(g, index) if masked else g[index]


def _mask_part(flow: MaskedFlow, index: Any) -> MaskedFlow:
    """Return a part of a masked flow on arrays."""
    return MaskedFlow(LazyMask(lambda mask: mask[index], flow.held_mask), flow.value[index], zeroed=flow.zeroed)


concatenate: LinearOp = register(
    _ConcatenateOp(
        name="concatenate",
        doc="Joins arrays along an axis.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.DISTRIBUTE,
        forward=lambda *xs, axis: np.concatenate(xs, axis),
        output_shape=_join_shapes,
        numpy=lambda *xs, types, axis: f"np.concatenate([{', '.join(xs)}], axis={axis % len(types[0].shape)})",
        transpose=_send_to_piece,
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), rng.normal(size=(1, 3)), {"axis": -2}),
            (rng.normal(size=2), rng.normal(size=3), rng.normal(size=1), {"axis": -1}),
            (rng.normal(size=(2, 0)), rng.normal(size=(2, 1)), {"axis": -1}),
        ],
    )
)


def _cast_gradient(g: Any, x: Any) -> Any:
    """Cast a gradient to the dtype of its wire; for a real wire the real part is taken."""
    wanted = getattr(x, "dtype", np.dtype(np.float64))
    dtype = getattr(g, "dtype", np.dtype(np.float64))
    if wanted.kind not in "fc":
        return None
    if dtype == wanted:
        return g
    if type(g) is np.ndarray:
        return (g.real if dtype.kind == "c" and wanted.kind == "f" else g).astype(wanted)
    return cast(real(g) if dtype.kind == "c" and wanted.kind == "f" else g, dtype=wanted.name)


def _conjugate(x: Any) -> Any:
    # The mask of a gradient is moved as the gradient is; NumPy would return int8 for it.
    return x if convert_plain(x).dtype == np.bool_ else np.conjugate(x)


def _make_imaginary(x: Any) -> Any:
    # A product with 1j would turn inf into NaN.
    y = make_zeros(np.shape(x), np.result_type(convert_plain(x).dtype, np.complex64))
    y.imag = x
    return y[()]


def _complex_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    shapes: list[tuple[int, ...]] = [(2, 3), (), (0, 2)]
    return [(rng.normal(size=shape) + unit * rng.normal(size=shape), {}) for shape in shapes for unit in (0.0, 1j)]


def _cast_text(x: str, *, types: InputTypes, dtype: str) -> str:
    wanted = np.dtype(dtype)
    name = f"np.{wanted.type.__name__}"
    if types[0].dtype.kind == "c" and wanted.kind in "fiu":
        x = f"np.real({x})"
    if types[0].shape:
        return f"{x}.astype({name})"
    # NumPy, unlike Python, casts NaN to an integer.
    return f"{name}({x})" if wanted.kind in "fc" else f"np.asarray({x}).astype({name})[()]"


cast: LinearOp = register(
    LinearOp(
        name="cast",
        doc="The same numbers in another dtype.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=lambda x, *, dtype: convert_plain(x).astype(dtype)[()],
        output_shape=keep_shape,
        numpy=_cast_text,
        transpose=lambda g, slot, x, *, dtype: _cast_gradient(g, x),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(2, 3)), {"dtype": "float64"}),
            (rng.normal(), {"dtype": "float64"}),
            (rng.normal(size=(0, 2)), {"dtype": "float64"}),
        ],
    )
)
conjugate: LinearOp = register(
    LinearOp(
        name="conjugate",
        doc="The complex conjugate; a real wire is unchanged.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_conjugate,
        output_shape=keep_shape,
        numpy="np.conjugate",
        transpose=lambda g, slot, x: conjugate(g),
        moves=True,
        samples=_complex_samples,
    )
)
real: LinearOp = register(
    LinearOp(
        name="real",
        is_view=True,
        doc="The real part.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=lambda x: convert_plain(x).real[()],
        numpy="np.real",
        transpose=lambda g, slot, x: _cast_gradient(g, x),
        moves=True,
        samples=_complex_samples,
    )
)
imag: LinearOp = register(
    LinearOp(
        name="imag",
        is_view=True,
        doc="The imaginary part; 0 for a real wire.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=lambda x: convert_plain(x).imag[()],
        numpy="np.imag",
        transpose=lambda g, slot, x: imaginary(g) if getattr(x, "dtype", np.dtype(float)).kind == "c" else None,
        samples=_complex_samples,
    )
)
_IMAGINARY = '''\
def imaginary(x):
    """Return x as an imaginary part beside 0; a product with 1j would make NaN of inf."""
    y = np.zeros(np.shape(x), np.result_type(np.asarray(x).dtype, np.complex64))
    y.imag = x
    return y[()]
'''
imaginary: LinearOp = register(
    LinearOp(
        name="imaginary",
        doc="The imaginary number whose imaginary part is the wire.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_make_imaginary,
        output_shape=keep_shape,
        numpy="imaginary",
        numpy_needs=(_IMAGINARY,),
        transpose=lambda g, slot, x: imag(g),
        samples=lambda rng: [(rng.normal(size=(2, 3)), {}), (rng.normal(), {}), (rng.normal(size=(0, 2)), {})],
    )
)


def _direction_rule(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    """Return the rule of the direction of a complex number, in either mode: the flow's part across z, over |z|."""
    size = TABLE["absolute"](xs[0])
    across = flow - y * real(conjugate(y) * flow)
    return only(TABLE["not_equal"](size, 0.0), across / TABLE["where"](TABLE["equal"](size, 0.0), 1.0, size))


direction: General = register(
    General(
        name="direction",
        doc="z / |z| of a complex wire; 0 at 0, with slope 0.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=np.sign,
        output_shape=keep_shape,
        back=_direction_rule,
        ahead=_direction_rule,
        samples=lambda rng: [(x, {}) for x, _ in _complex_samples(rng) if np.iscomplexobj(x)],
    )
)
stop_gradient: Blocking = register(
    Blocking(
        name="stop_gradient",
        doc="The wire as a constant: nothing flows back.",
        inputs=("x",),
        pattern=Pattern.BLOCK,
        forward=lambda x: x,
        output_shape=keep_shape,
        numpy="{x}",
    )
)


WindowLengths = tuple[int, ...]


def count_windows(length: int, size: int, step: int, dilation: int) -> int:
    """Return how many windows fit into a length.

    >>> count_windows(7, 3, 2, 1), count_windows(7, 3, 2, 3)
    (3, 1)
    """
    return (length - dilation * (size - 1) - 1) // step + 1


def _view_windows(x: Any, *, size: WindowLengths, step: WindowLengths, dilation: WindowLengths) -> Any:
    array = convert_plain(x)
    spans = tuple([d * (n - 1) + 1 for n, d in zip(size, dilation, strict=True)])
    if array.ndim < len(size) or min((*size, *step, *dilation)) < 1:
        raise ValueError(f"windows {size} with steps {step} and dilation {dilation} do not fit shape {array.shape}")
    view = np.lib.stride_tricks.sliding_window_view(array, spans, tuple(range(-len(size), 0)))
    skips: Any = (..., *(slice(None, None, n) for n in (*step, *dilation)))
    return view[skips]


def _add_windows_back(
    x: Any, *, size: WindowLengths, step: WindowLengths, dilation: WindowLengths, shape: WindowLengths
) -> Any:
    array = convert_plain(x)
    rank = len(size)
    counts = array.shape[array.ndim - 2 * rank : array.ndim - rank]
    lead = array.shape[: array.ndim - 2 * rank]
    y = make_zeros(lead + shape, array.dtype)
    axes = list(range(array.ndim))
    outer = axes[len(lead) : len(lead) + rank]
    inner = axes[len(lead) + rank :]
    if np.prod(size) <= np.prod(counts):
        _add_parts(y, array.transpose(inner + axes[: len(lead)] + outer), dilation, step)
    else:
        _add_parts(y, array.transpose(outer + axes[: len(lead)] + inner), step, dilation)
    return y


def _windows_text(x: str, *, types: Any, size: WindowLengths, step: WindowLengths, dilation: WindowLengths) -> str:
    ndim = len(types[0].shape)
    rank = len(size)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(size, dilation, strict=True))
    axes = "" if rank == ndim else f", axis={tuple(range(ndim - rank, ndim))}"
    view = f"np.lib.stride_tricks.sliding_window_view({x}, {spans}{axes})"
    skips = [":" if n == 1 else f"::{n}" for n in (*step, *dilation)]
    return view if set(skips) == {":"} else f"{view}[{', '.join(['...', *skips])}]"


def _add_parts(y: Any, parts: Any, starts: WindowLengths, steps: WindowLengths) -> None:
    """Add each part to a grid of elements of `y`; the grid starts where the part's place along the first axes says."""
    rank = len(starts)
    lengths = parts.shape[parts.ndim - rank :]
    for place in itertools.product(*map(range, parts.shape[:rank])):
        firsts = [k * start for k, start in zip(place, starts, strict=True)]
        grid = [
            slice(first, first + step * (n - 1) + 1, step)
            for first, step, n in zip(firsts, steps, lengths, strict=True)
        ]
        y[(..., *grid)] += parts[place]


def _infer_unwindows(
    x: tuple[int, ...],
    *,
    size: WindowLengths,
    step: WindowLengths,
    dilation: WindowLengths,
    shape: tuple[int, ...],
) -> tuple[int, ...] | None:
    lead = x[: len(x) - 2 * len(shape)]
    taken = hollow_array(lead + shape)
    return lead + shape if _view_windows(taken, size=size, step=step, dilation=dilation).shape == x else None


def _mask_reached(length: int, size: int, step: int, dilation: int) -> Any:
    """Return which elements along an axis are inside some window."""
    reached = make_zeros(length, bool)
    starts = np.arange(count_windows(length, size, step, dilation)) * step
    reached[starts[:, None] + np.arange(size) * dilation] = True
    return reached


class _WindowsOp(LinearOp):
    """Sliding windows; elements that wide steps leave out have no gradient."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the gradients of all windows added up; absent for elements outside every window."""
        sent = super().pull(slot, g, xs, y, mode)
        shape = shape_of(xs[0])
        settings = (self.options["size"], self.options["step"], self.options["dilation"])
        core = shape[len(shape) - len(settings[0]) :]
        reached = [_mask_reached(*along) for along in zip(core, *settings, strict=True)]
        if type(sent) is MaskedFlow or all(along.all() for along in reached):
            return sent
        return MaskedFlow(np.broadcast_to(reduce(np.logical_and.outer, reached), shape), sent)


windows: LinearOp = TABLE.add(
    _WindowsOp(
        name="windows",
        doc="All windows of a size along the last axes, `step` apart, with every `dilation`-th element.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_view_windows,
        numpy=_windows_text,
        transpose=lambda g, slot, x, *, size, step, dilation: unwindows(
            g, size=size, step=step, dilation=dilation, shape=shape_of(x)[len(shape_of(x)) - len(size) :]
        ),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=7), {"size": (3,), "step": (1,), "dilation": (1,)}),
            (rng.normal(size=8), {"size": (2,), "step": (3,), "dilation": (1,)}),
            (rng.normal(size=(2, 9)), {"size": (3,), "step": (2,), "dilation": (2,)}),
            (rng.normal(size=(4, 5)), {"size": (2, 3), "step": (1, 2), "dilation": (2, 1)}),
            (rng.normal(size=(2, 3, 4)), {"size": (1, 4), "step": (2, 1), "dilation": (1, 1)}),
            (rng.normal(size=1), {"size": (1,), "step": (1,), "dilation": (1,)}),
            (rng.normal(size=(0, 3)), {"size": (2,), "step": (1,), "dilation": (1,)}),
        ],
    )
)
_ADD_WINDOWS = '''\
def add_windows(x, step, dilation, shape):
    """Return zeros of a shape, behind other axes, with windows added where they were taken from."""
    rank = len(shape)
    lead, counts, size = x.shape[: -2 * rank], x.shape[-2 * rank : -rank], x.shape[-rank:]
    y = np.zeros(lead + shape, x.dtype)
    if np.prod(size) > np.prod(counts):
        # Window by window, not element by element of all windows: fewer rounds.
        x = np.moveaxis(x, range(-rank, 0), range(-2 * rank, -rank))
        counts, size, step, dilation = size, counts, dilation, step
    for place in np.ndindex(size):
        along = zip(place, dilation, step, counts)
        grid = tuple(slice(k * d, k * d + s * (n - 1) + 1, s) for k, d, s, n in along)
        y[(..., *grid)] += x[(..., *place)]
    return y
'''
unwindows: LinearOp = TABLE.add(
    LinearOp(
        name="unwindows",
        doc="Adds windows into zeros of a shape, each where it came from: the transpose of windows.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_add_windows_back,
        output_shape=_infer_unwindows,
        numpy=lambda x, *, types, size, step, dilation, shape: (
            f"add_windows({x}, step={step}, dilation={dilation}, shape={shape})"
        ),
        numpy_needs=(_ADD_WINDOWS,),
        transpose=lambda g, slot, x, *, size, step, dilation, shape: windows(
            g, size=size, step=step, dilation=dilation
        ),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(5, 3)), {"size": (3,), "step": (1,), "dilation": (1,), "shape": (7,)}),
            (rng.normal(size=(2, 5)), {"size": (5,), "step": (3,), "dilation": (1,), "shape": (9,)}),
            (rng.normal(size=(2, 3, 2)), {"size": (2,), "step": (3,), "dilation": (1,), "shape": (8,)}),
            (rng.normal(size=(2, 2, 2, 3)), {"size": (2, 3), "step": (1, 2), "dilation": (2, 1), "shape": (4, 5)}),
            (rng.normal(size=(1, 1)), {"size": (1,), "step": (1,), "dilation": (1,), "shape": (1,)}),
            (rng.normal(size=(0, 2, 2)), {"size": (2,), "step": (1,), "dilation": (1,), "shape": (3,)}),
        ],
    )
)
