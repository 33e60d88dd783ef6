"""Functions of neighbours along an axis: differences, integrals and slopes."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.index import pick_elements, reshape_to
from wiregrad.ops.functions.reduce import FLOAT32_ARRAY, sum_
from wiregrad.ops.functions.registry import register_function
from wiregrad.ops.functions.support import N, dtype_of, is_wire, lift, ndim_of, axis_from_end, sample_calls
from wiregrad.ops.reduce_records import slice_axis, drop_last, drop_first


@register_function(
    np.diff,
    samples=sample_calls(
        (N(5),),
        (N(2, 4), {"axis": 0}),
        (N(2, 4), {"n": 2}),
        (N(3, 2), {"n": 0}),
        (N(3, 2), {"axis": -2, "prepend": 0.5}),
        (N(2, 3), {"append": np.ones((2, 2)), "n": 2}),
        (N(1),),
        (N(2, 0),),
    ),
)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences between neighbours along an axis, taken `n` times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if n == 0:
        return a
    a = lift(a)
    if not shape_of(a):
        raise ValueError("diff requires input that is at least one dimensional")
    along = axis_from_end(axis, ndim_of(a))
    pieces = [_extend_border(piece, shape_of(a), along) for piece in (prepend, a, append) if piece is not None]
    x = TABLE["concatenate"](*pieces, axis=along) if len(pieces) > 1 else a
    for _ in range(n):
        x = TABLE["not_equal" if dtype_of(x).kind == "b" else "subtract"](drop_first(x, along), drop_last(x, along))
    return x


def _extend_border(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return x; a single number is spread to a shape, with length 1 along one axis."""
    x = lift(x)
    if shape_of(x):
        return x
    return TABLE["spread"](x, rank=0, shape=tuple(1 if k - len(shape) == axis else n for k, n in enumerate(shape)))


def _stand_along_axis(x: Any, ndim: int, axis: int) -> Any:
    """Return a row reshaped so that it lies along one axis of an array."""
    return reshape_to(x, tuple(shape_of(x)[0] if k == axis else 1 for k in range(-ndim, 0)))


@register_function(
    np.trapezoid,
    samples=sample_calls(
        (N(5),),
        (N(2, 4), {"dx": 0.5}),
        (N(4), np.array([0.0, 0.5, 1.2, 2.0])),
        (N(3, 2), np.array([0.0, 0.5, 1.2]), {"axis": 0}),
        (N(2, 3), N(2, 3), {"axis": -1}),
        (N(1),),
        (N(2, 0),),
    ),
)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule."""
    y = lift(y)
    along = axis_from_end(axis, ndim_of(y))
    if x is None:
        steps = dx
    else:
        x = lift(x)
        steps = _stand_along_axis(diff(x), ndim_of(y), along) if ndim_of(x) == 1 else diff(x, axis=axis)
    return sum_(steps * (drop_first(y, along) + drop_last(y, along)) / 2.0, along)


def _axis_spacings(spacings: tuple[Any, ...], shape: tuple[int, ...], axes: tuple[int, ...]) -> list[Any]:
    """Return the distance between neighbours along each axis: one number, or one for each pair."""
    if not spacings:
        return [1.0] * len(axes)
    if len(spacings) == 1 and not shape_of(lift(spacings[0])):
        return list(spacings) * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    return [_axis_spacing(each, shape[axis]) for each, axis in zip(spacings, axes, strict=True)]


def _axis_spacing(spacing: Any, length: int) -> Any:
    places = lift(spacing)
    if not shape_of(places):
        return spacing
    if ndim_of(places) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if shape_of(places) != (length,):
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    steps = diff(places if is_wire(places) or places.dtype.kind == "f" else places.astype(np.float64))
    equal = not is_wire(steps) and bool((steps == steps[0]).all())
    return steps[0] if equal else steps


def _sum_weighted_slices(f: Any, axis: int, weights: tuple[Any, Any, Any], starts: tuple[int, int, int], length: int) -> Any:
    """Return the weighted sum of three slices of f."""
    terms = [weight * slice_axis(f, axis, start, start + length) for weight, start in zip(weights, starts, strict=True)]
    return functools.reduce(operator.add, terms)


def _edge_slope(f: Any, axis: int, steps: Any, order: int, *, last: bool) -> Any:
    """Return the slope at an edge, from the two or three points next to it."""
    length = shape_of(f)[axis]
    uniform = not isinstance(steps, tuple)
    if order == 1:
        start = length - 2 if last else 0
        step = steps if uniform else steps[1 if last else 0]
        return (slice_axis(f, axis, start + 1, start + 2) - slice_axis(f, axis, start, start + 1)) / step
    if uniform:
        weights = (0.5 / steps, -2.0 / steps, 1.5 / steps) if last else (-1.5 / steps, 2.0 / steps, -0.5 / steps)
    else:
        one, two = steps
        weights = (
            (two / (one * (one + two)), -(two + one) / (one * two), (2.0 * two + one) / (two * (one + two)))
            if last
            else (-(2.0 * one + two) / (one * (one + two)), (one + two) / (one * two), -one / (two * (one + two)))
        )
    start = length - 3 if last else 0
    return _sum_weighted_slices(f, axis, weights, (start, start + 1, start + 2), 1)


def _gradient_along(f: Any, steps: Any, axis: int, order: int) -> Any:
    length = shape_of(f)[axis]
    ndim = ndim_of(f)
    if length < order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, "
            "at least (edge_order + 1) elements are required."
        )
    if not shape_of(steps):
        inner = (slice_axis(f, axis, 2, None) - slice_axis(f, axis, None, -2)) / (2.0 * steps)
        first = last = steps
    else:
        one = drop_last(steps, -1)
        two = drop_first(steps, -1)
        weights = (-two / (one * (one + two)), (two - one) / (one * two), one / (two * (one + two)))
        standing = tuple(_stand_along_axis(weight, ndim, axis) for weight in weights)
        inner = _sum_weighted_slices(f, axis, (standing[0], standing[1], standing[2]), (0, 1, 2), length - 2)
        first = (pick_elements(steps, 0), pick_elements(steps, 1 % (length - 1)))
        last = (pick_elements(steps, length - 2 - (length > 2)), pick_elements(steps, -1))
    edges = _edge_slope(f, axis, first, order, last=False), _edge_slope(f, axis, last, order, last=True)
    slopes = TABLE["concatenate"](edges[0], inner, edges[1], axis=axis)
    wanted = dtype_of(f)
    if wanted.kind in "fc" and wanted != dtype_of(slopes):
        return TABLE["cast"](slopes, dtype=wanted.name)
    return slopes


@register_function(
    np.gradient,
    samples=sample_calls(
        (N(5),),
        (N(4, 3), {"axis": 0}),
        (N(4, 3), 0.5, {"axis": -1}),
        (N(4, 3), 0.5, 2.0, {"axis": (1, 0)}),
        (N(5), np.array([0.0, 0.5, 1.2, 2.0, 2.3])),
        (N(5), np.array([0.0, 0.5, 1.2, 2.0, 2.3]), {"edge_order": 2}),
        (N(4), {"edge_order": 2}),
        (N(2), 0.5),
        (FLOAT32_ARRAY,),
    ),
)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes between neighbours, central inside and one-sided at the edges; one array for each axis."""
    f = lift(f)
    shape = shape_of(f)
    axes = tuple(range(len(shape))) if axis is None else np.lib.array_utils.normalize_axis_tuple(axis, len(shape))
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    steps = _axis_spacings(varargs, shape, axes)
    slopes = [_gradient_along(f, step, each - len(shape), edge_order) for step, each in zip(steps, axes, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)
