"""Arrays made from numbers, arrays and wires: `array`, and how lists with wires in them become one wire.

NumPy gives no hook for `np.array([a, b])`: it asks every element for an array of its own. So a list is first shown to
NumPy, and a wire in it answers with an error (`WireFoundError`): then, and only then, its elements are joined here. A
list without wires is read by NumPy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.functions.pointwise import where
from wiregrad.ops.functions.registry import (
    CONVERSION,
    FilledMemory,
    N,
    WireFoundError,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import as_row, expand_dims, getitem, moveaxis, put, reshape_to, stack
from wiregrad.ops.gradient_flow import is_wire, shape_of

# Bound once: a front end may put functions that see wires in the place of NumPy's while it records.
convert_plain = np.asarray


@register_function(
    samples=sample_calls(
        ([N(), N()],),
        ([[N(), N(), 1.0], [2.0, N(), N()]],),
        ([N(2), [N(), 3.0]],),
        (N(2, 3),),
        ([N(1)],),
        ([N(0), N(0)],),
        (N(),),
    )
)
def array(items: Any, dtype: Any = None) -> Any:
    """The array of a nested list; recorded numbers and arrays in it keep their gradient."""
    y = join_items(items)
    return y if dtype is None else _as_dtype(y, np.dtype(dtype))


def join_items(items: Any) -> Any:
    """Return a number, array, nested list or object array as NumPy reads it; as one wire if there is a wire in it."""
    if is_wire(items):
        return items
    plain = find_plain_array(items)
    return join_wires(items) if plain is None else plain


def find_plain_array(items: Any) -> Any:
    """Return the array that NumPy makes of something; None if there is a wire in it."""
    if holds_filled(items):
        return None
    outer = CONVERSION.refuses_wires
    CONVERSION.refuses_wires = True
    try:
        plain = convert_plain(items)
    except WireFoundError:
        return None
    finally:
        CONVERSION.refuses_wires = outer
    return None if has_wire_elements(plain) else plain


def has_wire_elements(made: Any) -> bool:
    """Return whether an array is an object array with a wire among its elements."""
    is_object = isinstance(made, np.ndarray) and made.dtype.kind == "O"
    return is_object and any(is_wire(element) for element in made.flat)


def holds_filled(items: Any) -> bool:
    """Return whether a nested list has an array in it that stands for a wire: NumPy would read its memory."""
    if not FilledMemory.count:
        return False
    if isinstance(items, list | tuple):
        return any(holds_filled(item) for item in items)
    return isinstance(items, np.ndarray) and is_wire(items)


def join_wires(items: Any) -> Any:
    """Return a nested list or object array with wires in it as one wire."""
    leaves: list[Any] = []
    shape = _collect_leaves(items, leaves)
    return reshape_to(join_row(leaves), shape)


def join_row(leaves: Sequence[Any]) -> Any:
    """Return the elements of wires and arrays in one row; neighbouring plain arrays become one constant."""
    rows: list[Any] = []
    for is_recorded, run in groupby(leaves, is_wire):
        parts = [as_row(leaf) for leaf in run]
        rows += parts if is_recorded else [np.concatenate(parts)]
    return rows[0] if len(rows) == 1 else TABLE["concatenate"](*rows, axis=-1)


def _collect_leaves(item: Any, leaves: list[Any]) -> tuple[int, ...]:
    """Append the wires and plain arrays in an item to a list, in order; returns the shape of the item."""
    if is_wire(item):
        leaves.append(item)
        return shape_of(item)
    outer: tuple[int, ...]
    if isinstance(item, list | tuple):
        parts: list[Any] = list(item)
        outer = (len(parts),)
    elif isinstance(item, np.ndarray) and item.dtype.kind == "O":
        parts = list(item.flat)
        outer = item.shape
    else:
        return _add_plain(item, leaves)
    shapes = {_collect_leaves(part, leaves) for part in parts}
    if len(shapes) > 1:
        raise ValueError(f"an array needs parts of one shape; got {', '.join(map(str, sorted(shapes)))}")
    return outer + (shapes.pop() if shapes else ())


def _add_plain(item: Any, leaves: list[Any]) -> tuple[int, ...]:
    """Append a number or an array without wires; raises if it is neither."""
    plain = convert_plain(item)
    if plain.dtype.kind not in "fciub":
        raise TypeError(f"an array of recorded values is made of numbers; got {type(item).__name__}")
    leaves.append(plain)
    return plain.shape


@register_function(
    np.linspace,
    samples=sample_calls(
        (N(), N(), 5),
        (N(), 2.0),
        (0.5, N(), 4, False),
        (N(2), N(2), 3, {"axis": -1}),
        (N(2), 1.0, 3),
        (N(), N(), 1),
        (N(), N(), 0),
    ),
)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Numbers at equal distances between two."""
    kinds = [x if type(x) in (int, float, complex) else dtype_of(x) for x in (start, stop)]
    common = np.result_type(*kinds, np.float16)
    start, stop = (_as_dtype(x, common) for x in (start, stop))
    steps = num - 1 if endpoint else num
    delta = stop - start
    count = np.arange(0, num, dtype=common).reshape((-1,) + (1,) * ndim_of(delta))
    step = delta / steps if steps > 0 else np.nan
    y = count * (step if steps > 0 else delta) + start
    if endpoint and num > 1:
        y = where(count == num - 1, stop, y)
    y = moveaxis(y, 0, axis) if axis else y
    y = y if dtype is None else _as_dtype(y, np.dtype(dtype))
    return (y, step) if retstep else y


def _as_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return x as a wire or array of a dtype."""
    if not is_wire(x):
        return convert_plain(x, dtype)
    return x if dtype_of(x) == dtype else TABLE["cast"](x, dtype=dtype.name)


@register_function(
    np.logspace,
    samples=sample_calls(
        (N(), N(), 5), (N(), 2.0, 3), (0.5, N(), 4, False), (N(2), N(2), 3), (N(), N(), 1), (N(), N(), 3, True, 2.0)
    ),
)
def logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    """Powers of a base whose exponents are at equal distances."""
    y = TABLE["power"](base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else _as_dtype(y, np.dtype(dtype))


def _draw_geomspace_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = [(4,), (1,), (6, False), (2,), (3,)]
    numbers = [(rng.uniform(0.5, 2.0), rng.uniform(3.0, 9.0), *rest, {}) for rest in calls]
    return [*numbers, (rng.uniform(0.5, 2.0, 2), rng.uniform(3.0, 9.0, 2), 3, {})]


@register_function(np.geomspace, samples=_draw_geomspace_calls)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """Numbers between two, each a constant multiple of the one before."""
    sign = np.sign(detach_array(start))
    common = np.result_type(dtype_of(start), dtype_of(stop), np.float64)
    if common.kind == "c":
        raise TypeError("geomspace of recorded values needs real ends")
    start, stop = (_as_dtype(x, common) / sign for x in (start, stop))
    if not np.all(detach_array(stop) > 0.0):
        raise ValueError("geomspace of recorded values needs two positive or two negative ends")
    log10 = TABLE["log10"]
    y = logspace(log10(start), log10(stop), num, endpoint)
    rank = ndim_of(y) - 1
    count = np.arange(num).reshape((-1,) + (1,) * rank)
    # The ends are exact, as NumPy's are: 10**log10(x) need not be x.
    y = where(count == 0, start, y)
    y = (where(count == num - 1, stop, y) if num > 1 and endpoint else y) * sign
    y = moveaxis(y, 0, axis) if axis else y
    return y if dtype is None else _as_dtype(y, np.dtype(dtype))


def _cube(x: Any) -> Any:
    return x * x * x


def _sum_squares(x: Any) -> Any:
    return (x * x).sum(axis=-1)


def _sum_along(x: Any, axis: int) -> Any:
    return x.sum(axis=axis)


_LOW = np.array([True, False, False, True])


@register_function(
    np.piecewise,
    samples=sample_calls(
        (N(4), [_LOW], [_cube]),
        (N(4), [_LOW, ~_LOW], [_cube, 0.5]),
        (N(4), [_LOW], [2.0, _cube]),
        (N(4), _LOW, [_cube, _cube]),
        (N(2, 4), [np.array([_LOW, ~_LOW])], [_cube, 1.0]),
        (N(1), [np.array([True])], [_cube]),
    ),
)
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """A function given piece by piece: where a condition holds, its function of those elements."""
    x = lift(x)
    single = not isinstance(condlist, list | tuple) or (ndim_of(x) > 0 and not np.ndim(condlist[0]))
    masks = [np.asarray(detach_array(mask), bool) for mask in ([condlist] if single else condlist)]
    if len(funclist) == len(masks) + 1:
        masks.append(~np.any(masks, axis=0))
    if len(funclist) != len(masks):
        raise ValueError(
            f"with {len(masks)} condition(s), either {len(masks)} or {len(masks) + 1} functions are expected"
        )
    y = np.zeros(shape_of(x), dtype_of(x))
    for mask, piece in zip(masks, funclist, strict=True):
        if not callable(piece):
            y = where(mask, piece, y)
        elif mask.any():
            part = piece(getitem(x, mask) if ndim_of(x) else x, *args, **kw)
            y = put(y, mask, part) if ndim_of(x) else part
    return y


@register_function(
    np.apply_along_axis,
    samples=sample_calls(
        (_cube, 0, N(3)),
        (_cube, 1, N(2, 3)),
        (_cube, 0, N(2, 3)),
        (_sum_squares, 0, N(2, 3)),
        (_sum_squares, -1, N(2, 3, 2)),
        (_sum_squares, 1, N(2, 3, 2)),
        (_cube, 1, N(1, 1)),
    ),
)
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of rows, applied to each row along an axis."""
    x = moveaxis(lift(arr), axis, -1)
    outer = shape_of(x)[:-1]
    rows = [lift(func1d(getitem(x, index), *args, **kwargs)) for index in np.ndindex(outer)]
    inner = shape_of(rows[0])
    y = reshape_to(stack(rows), outer + inner)
    first = axis if axis >= 0 else axis + len(outer) + 1
    return moveaxis(y, range(len(outer), len(outer) + len(inner)), range(first, first + len(inner))) if inner else y


@register_function(
    np.apply_over_axes,
    samples=sample_calls(
        (_sum_along, N(2, 3), 0),
        (_sum_along, N(2, 3), [0, 1]),
        (_sum_along, N(2, 3, 2), [0, -1]),
        (_sum_along, N(3), 0),
        (_sum_along, N(1, 2), [1]),
        (_sum_along, N(2, 2, 2), [2]),
    ),
)
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """A function of an array and an axis, applied over several axes one after the other."""
    y = lift(a)
    rank = ndim_of(y)
    for axis in np.atleast_1d(axes).tolist():
        place = axis if axis >= 0 else axis + rank
        result = func(y, place)
        y = result if ndim_of(result) == rank else expand_dims(result, place)
    return y
