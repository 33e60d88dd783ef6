"""Images read between their pixels: `map_coordinates` of `scipy.ndimage`, and what moves, turns and scales images.

A spline is a sum over the pixels around a place, with weights that depend on the place alone. So a result has gradients
by the image and by the coordinates, which are computed by ops as SciPy computes them in C. The coefficients of a spline
of order 2 or more are the image times one matrix for each axis, which SciPy's filter gives.

Kept true: places beyond the border read the pixels that SciPy reads in each mode, so values are SciPy's. With order
1 the gradient by a coordinate at a pixel is the slope on its right, but the one on its left at the end of the image
where nothing follows. With order 0 coordinates have no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.functions.linalg import matmul
from wiregrad.ops.functions.registry import (
    N,
    detach_array,
    dtype_of,
    find_plain_function,
    lift,
    load_scipy,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import moveaxis, pick_elements, stack, take
from wiregrad.ops.functions.signal import extend_axis
from wiregrad.ops.gradient_flow import is_wire, shape_of

MAX_ORDER = 5
PADDING = 12
"""How many pixels SciPy adds at each end before it filters, in the modes whose spline has no exact border."""
PADDED_MODES = ("nearest", "grid-constant")
MIRRORED_MODES = ("constant", "wrap")
"""The modes in which the pixels around a place inside the image are those of a mirror at the border."""
MODES = ("constant", "grid-constant", "nearest", "mirror", "reflect", "grid-mirror", "wrap", "grid-wrap")


def _sample_image(name: str, x: Any, places: Sequence[Any], order: int, mode: str, cval: Any, prefilter: bool) -> Any:
    """Return an image at places, given as one array of coordinates for each axis."""
    dtype = dtype_of(x)
    if dtype.kind not in "fc":
        raise NoRuleError(
            f"scipy.ndimage.{name} rounds its result for an image of {dtype}, so it has no slope by recorded values: "
            f"pass image.astype(float){format_user_line()}"
        )
    if order < 0 or order > MAX_ORDER:
        raise RuntimeError("spline order not supported")
    if mode not in MODES:
        raise RuntimeError("boundary mode not supported")
    x = _cast(x, "complex128" if dtype.kind == "c" else "float64")
    places = [_cast(lift(place), "float64") for place in places]
    if prefilter and order > 1:
        x, places = _filter_image(x, places, order, mode, cval)
    y = _sum_neighbours(x, places, order, mode, cval)
    return _cast(y, dtype.name)


def _cast(x: Any, name: str) -> Any:
    return x if dtype_of(x) == np.dtype(name) else TABLE["cast"](x, dtype=name)


def _filter_image(x: Any, places: Sequence[Any], order: int, mode: str, cval: Any) -> tuple[Any, Sequence[Any]]:
    """Return the coefficients of the spline through an image, and the places in them."""
    if mode in PADDED_MODES:
        for axis in range(-ndim_of(x), 0):
            x = extend_axis(x, axis, PADDING, PADDING, mode, cval)
        places = [place + float(PADDING) for place in places]
    spline_filter = find_plain_function(load_scipy("scipy.ndimage").spline_filter1d)
    for axis in range(ndim_of(x)):
        weights = spline_filter(np.eye(shape_of(x)[axis]), order, axis=0, mode=mode)
        x = moveaxis(matmul(moveaxis(x, axis, -1), weights.T), -1, axis)
    return x, places


def _sum_neighbours(x: Any, places: Sequence[Any], order: int, mode: str, cval: Any) -> Any:
    """Return the sum of the coefficients around each place, times their weights."""
    lengths = shape_of(x)
    strides = [prod(lengths[k + 1 :]) for k in range(len(lengths))]
    outside: Any = None
    axes = []
    for place, length, stride in zip(places, lengths, strides, strict=True):
        folded = place
        if mode == "constant":
            # So written that a NaN is outside, as SciPy has it.
            inside = TABLE["logical_and"](TABLE["greater_equal"](place, 0.0), TABLE["less_equal"](place, length - 1.0))
            beyond = TABLE["logical_not"](inside)
            outside = beyond if outside is None else TABLE["logical_or"](outside, beyond)
            folded = TABLE["where"](beyond, 0.0, place)
        elif mode not in PADDED_MODES:
            folded = _fold(place, length, mode)
        axes.append(_list_neighbours(folded, length, stride, order, mode))
    flat = TABLE["reshape"](x, rank=ndim_of(x), shape=(prod(lengths),))
    total: Any = None
    for taps in product(*axes):
        offset, weight, beyond = taps[0]
        for more, factor, missing in taps[1:]:
            offset = offset + more
            weight = weight * factor
            beyond = missing if beyond is None else TABLE["logical_or"](beyond, missing)
        part = take(flat, TABLE["cast"](offset, dtype="int64"), axis=0)
        if beyond is not None:
            part = TABLE["where"](beyond, cval, part)
        total = part * weight if total is None else total + part * weight
    return total if outside is None else TABLE["where"](outside, cval, total)


def _list_neighbours(place: Any, length: int, stride: int, order: int, mode: str) -> list[tuple[Any, Any, Any]]:
    """Return the pixels around a place along an axis: their offsets, their weights, and whether they are missing."""
    base = TABLE["floor"](place if order % 2 else place + 0.5)
    if order == 1 and mode in MIRRORED_MODES and length > 1:
        # Nothing follows the last pixel, so its slope is that on the left.
        base = TABLE["where"](TABLE["equal"](place, length - 1.0), length - 2.0, base)
    weights = _weigh_neighbours((place if order % 2 else place + 0.5) - base, order)
    found = []
    for k, weight in enumerate(weights):
        pixel = base + float(k - order // 2)
        missing = None
        if mode == "grid-constant":
            missing = TABLE["logical_or"](TABLE["less"](pixel, 0.0), TABLE["greater"](pixel, length - 1.0))
            pixel = TABLE["where"](missing, 0.0, pixel)
        else:
            pixel = _fold(pixel, length, "mirror" if mode in MIRRORED_MODES else mode)
        found.append((pixel * float(stride), weight, missing))
    return found


def _weigh_neighbours(x: Any, order: int) -> list[Any]:
    """Return the basis splines of an order at x, which is from 0 to 1 between two knots, by de Boor's recursion."""
    weights: list[Any] = [1.0]
    for k in range(1, order + 1):
        rising = [weights[j - 1] * ((x + float(k - j)) / float(k)) for j in range(1, k + 1)]
        falling = [weights[j] * ((float(j + 1) - x) / float(k)) for j in range(k)]
        weights = [falling[0], *(one + two for one, two in zip(rising[:-1], falling[1:], strict=True)), rising[-1]]
    return weights


def _fold(x: Any, length: int, mode: str) -> Any:
    """Map places beyond the border to those inside the axis at which SciPy reads the image in this mode."""
    where, floor = TABLE["where"], TABLE["floor"]
    is_low, is_high = TABLE["less"](x, 0.0), TABLE["greater"](x, length - 1.0)
    if mode == "nearest":
        return where(is_low, 0.0, where(is_high, length - 1.0, x))
    if length == 1:
        return where(TABLE["logical_or"](is_low, is_high), 0.0, x)
    n = float(length)
    if mode in ("wrap", "grid-wrap"):
        period = n - 1.0 if mode == "wrap" else n
        gap = 0.0 if mode == "wrap" else 1.0
        # At less than a pixel before the first one, SciPy rounds towards zero.
        turns = TABLE["maximum"](floor((-x - gap) / period), 0.0)
        return where(is_low, x + period * (turns + 1.0), where(is_high, x - period * floor(x / period), x))
    # A reflection repeats the pixel at the border, a mirror does not.
    gap = 1.0 if mode in ("reflect", "grid-mirror") else 0.0
    period = 2.0 * (n - 1.0 + gap)
    low = x + period * TABLE["maximum"](floor(-x / period), 0.0)
    low = where(TABLE["less"](low, 1.0 - n - gap), low + period, -low - gap)
    high = x - period * floor(x / period)
    high = where(TABLE["greater_equal"](high, n), period - high - gap, high)
    return where(is_low, low, where(is_high, high, x))


def _read_input(name: str, input: Any, output: Any) -> Any:
    if output is not None:
        raise NoRuleError(
            f"scipy.ndimage.{name} has no rule for output= with recorded values; convert the result{format_user_line()}"
        )
    x = lift(input)
    if not ndim_of(x):
        raise RuntimeError("input and output rank must be > 0")
    return x


def _read_each(setting: Any, count: int) -> list[Any]:
    """Return a setting of each axis, given as one for all, an array or a list; each may be recorded."""
    if is_wire(setting):
        return (
            [setting] * count if not ndim_of(setting) else _read_each([setting[k] for k in range(len(setting))], count)
        )
    if not isinstance(setting, list | tuple) and not np.ndim(setting):
        return [setting] * count
    if len(setting) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return list(setting)


@register_function(
    scipy=("scipy.ndimage.map_coordinates",),
    name="ndimage.map_coordinates",
    samples=sample_calls(
        (N(4, 5), np.array([[0.3, 1.7, 2.2], [3.6, 0.4, 1.1]]), {"order": 1}),
        (N(4, 5), np.array([[0.3, 1.7, 2.2], [3.6, 0.4, 1.1]])),
        (N(6), np.array([[0.3, -1.7], [2.2, 7.4]]).reshape(1, 2, 2), {"order": 2, "mode": "reflect"}),
        (N(5), np.array([[-1.3, 0.6, 5.2]]), {"order": 1, "mode": "nearest"}),
        (N(5), np.array([[-1.3, 0.6, 5.2]]), {"order": 3, "mode": "grid-wrap"}),
        (N(5), np.array([[-0.3, 0.6, 5.2]]), {"order": 1, "mode": "grid-constant", "cval": 0.5}),
        (N(5), np.array([[-0.3, 0.6, 3.2]]), {"order": 0, "mode": "mirror"}),
    ),
)
def map_coordinates(
    input: Any,
    coordinates: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """An image at coordinates between its pixels, by a spline."""
    x = _read_input("map_coordinates", input, output)
    coordinates = lift(coordinates)
    if dtype_of(coordinates).kind == "c":
        raise TypeError("Complex type not supported")
    if ndim_of(coordinates) < 2:
        raise RuntimeError("input and output rank must be > 0")
    if shape_of(coordinates)[0] != ndim_of(x):
        raise RuntimeError("invalid shape for coordinate array")
    places = [pick_elements(coordinates, k) for k in range(ndim_of(x))]
    return _sample_image("map_coordinates", x, places, order, mode, cval, prefilter)


_LINE = np.array([0.3, -0.7])


@register_function(
    scipy=("scipy.ndimage.affine_transform",),
    name="ndimage.affine_transform",
    samples=sample_calls(
        (N(4, 5), np.array([[0.9, 0.2], [-0.1, 1.1]]), _LINE, {"order": 1}),
        (N(4, 5), np.array([[0.9, 0.2], [-0.1, 1.1]]), {"mode": "mirror"}),
        (N(4, 5), np.array([0.8, 0.7]), 0.3, {"order": 1, "mode": "nearest"}),
        (N(4, 5), np.array([[0.9, 0.2, 0.3], [-0.1, 1.1, 0.7]]), {"order": 1, "mode": "wrap"}),
        (N(6), np.array([[0.7]]), 0.4, (3,), {"order": 2, "mode": "reflect"}),
        (N(3, 3), np.eye(2), _LINE, (2, 4), {"order": 1, "mode": "grid-constant", "cval": 0.5}),
    ),
)
def affine_transform(
    input: Any,
    matrix: Any,
    offset: Any = 0.0,
    output_shape: Any = None,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """An image at the places matrix @ o + offset, for the index o of each pixel of the result."""
    x = _read_input("affine_transform", input, output)
    n = ndim_of(x)
    matrix = lift(matrix)
    if ndim_of(matrix) not in (1, 2) or not shape_of(matrix)[0]:
        raise RuntimeError("no proper affine matrix provided")
    if ndim_of(matrix) == 2 and shape_of(matrix) in ((n, n + 1), (n + 1, n + 1)):
        if shape_of(matrix)[0] == n + 1 and not np.all(detach_array(matrix)[n] == [0] * n + [1]):
            raise ValueError("Expected homogeneous transformation matrix, but its bottom row was not [0, ..., 0, 1]")
        offset = pick_elements(matrix, slice(0, n), n)
        matrix = pick_elements(matrix, slice(0, n), slice(0, n))
    if shape_of(matrix)[0] != n:
        raise RuntimeError("affine matrix has wrong number of rows")
    shape = shape_of(x) if output_shape is None else tuple(int(k) for k in output_shape)
    if ndim_of(matrix) == 2 and shape_of(matrix)[1] != len(shape):
        raise RuntimeError("affine matrix has wrong number of columns")
    offsets = _read_each(offset, n)
    indices = np.indices(shape).astype(np.float64)
    places = []
    for k in range(n):
        if ndim_of(matrix) == 1:
            factor = pick_elements(matrix, k)
            places.append((indices[k] + offsets[k] / factor) * factor)
            continue
        place: Any = offsets[k]
        for axis in range(len(shape)):
            place = place + pick_elements(matrix, k, axis) * indices[axis]
        places.append(place)
    return _sample_image("affine_transform", x, places, order, mode, cval, prefilter)


@register_function(
    scipy=("scipy.ndimage.shift",),
    name="ndimage.shift",
    samples=sample_calls(
        (N(4, 5), np.array([0.3, -0.7]), {"order": 1}),
        (N(4, 5), 0.4),
        (N(6), -1.3, {"order": 1, "mode": "nearest"}),
        (N(6), 0.6, {"order": 2, "mode": "wrap"}),
        (N(3, 4), np.array([0.3, -0.7]), {"order": 1, "mode": "grid-wrap"}),
        (N(2, 3, 2), 0.4, {"order": 1, "mode": "constant", "cval": 0.5}),
    ),
)
def shift(
    input: Any,
    shift: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """An image moved by a number of pixels along each axis, which need not be whole."""
    x = _read_input("shift", input, output)
    indices = np.indices(shape_of(x)).astype(np.float64)
    places = [index + -1.0 * move for index, move in zip(indices, _read_each(shift, ndim_of(x)), strict=True)]
    return _sample_image("shift", x, places, order, mode, cval, prefilter)


@register_function(
    scipy=("scipy.ndimage.zoom",),
    name="ndimage.zoom",
    samples=sample_calls(
        (N(3, 4), 2, {"order": 1}),
        (N(3, 4), (1.5, 0.5)),
        (N(5), (1.7,), {"order": 1, "mode": "nearest"}),
        (N(5), 2, {"order": 1, "mode": "reflect", "grid_mode": True}),
        (N(4), 3, {"order": 2, "mode": "mirror"}),
        (N(2, 3), 1, {"order": 1}),
    ),
)
def zoom(
    input: Any,
    zoom: Any,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Any:
    """An image made larger or smaller."""
    x = _read_input("zoom", input, output)
    factors = _read_each(zoom, ndim_of(x))
    if any(map(is_wire, factors)):
        raise NoRuleError(
            "scipy.ndimage.zoom rounds a factor to whole pixels, so it has no slope by it: write scipy.ndimage."
            f"affine_transform(x, np.array([1.0 / factor]), output_shape=shape){format_user_line()}"
        )
    shape = tuple(round(n * factor) for n, factor in zip(shape_of(x), factors, strict=True))
    if all(factor == 1 for factor in factors) and prefilter:
        return x * 1.0
    places = []
    for n, m, index in zip(shape_of(x), shape, np.indices(shape).astype(np.float64), strict=True):
        inner, outer = (n, m) if grid_mode else (n - 1, m - 1)
        factor = inner / outer if outer else 1.0
        places.append((index + 0.5) * factor - 0.5 if grid_mode else index * factor)
    return _sample_image("zoom", x, places, order, mode, cval, prefilter)


@register_function(
    scipy=("scipy.ndimage.rotate",),
    name="ndimage.rotate",
    samples=sample_calls(
        (N(4, 5), 20.0, {"order": 1}),
        (N(4, 5), 20.0, {"reshape": False}),
        (N(3, 3), -75.0, {"order": 1, "mode": "nearest"}),
        (N(3, 4, 2), 33.0, {"order": 1, "reshape": False, "mode": "mirror"}),
        (N(2, 3, 3), 33.0, (1, 2), {"order": 1, "mode": "constant", "cval": 0.5}),
        (N(3, 4), 50.0, (0, 1), {"order": 2, "mode": "grid-wrap"}),
    ),
)
def rotate(
    input: Any,
    angle: Any,
    axes: Any = (1, 0),
    reshape: bool = True,
    output: Any = None,
    order: int = 3,
    mode: str = "constant",
    cval: Any = 0.0,
    prefilter: bool = True,
) -> Any:
    """An image turned by an angle in degrees, in the plane of two axes."""
    x = _read_input("rotate", input, output)
    n = ndim_of(x)
    if n < 2:
        raise ValueError("input array should be at least 2D")
    plane = sorted(int(axis) + n * (axis < 0) for axis in axes)
    if len(plane) != 2:
        raise ValueError("axes should contain exactly two values")
    if plane[0] < 0 or plane[1] >= n:
        raise ValueError("invalid rotation plane specified")
    special = load_scipy("scipy.special")
    if is_wire(angle):
        radians = angle * (np.pi / 180.0)
        c, s = TABLE["cos"](radians), TABLE["sin"](radians)
    else:
        c, s = float(special.cosdg(angle)), float(special.sindg(angle))
    shape = np.array([shape_of(x)[axis] for axis in plane])
    turned = np.array(
        [[float(detach_array(c)), float(detach_array(s))], [-float(detach_array(s)), float(detach_array(c))]]
    )
    bounds = turned @ [[0, 0, shape[0], shape[0]], [0, shape[1], 0, shape[1]]]
    wanted = (np.ptp(bounds, axis=1) + 0.5).astype(int) if reshape else shape
    middle, wanted_middle = (shape - 1) / 2, (wanted - 1) / 2
    offset = [
        middle[0] - (c * wanted_middle[0] + s * wanted_middle[1]),
        middle[1] - (-1.0 * s * wanted_middle[0] + c * wanted_middle[1]),
    ]
    rows, columns = np.indices(tuple(wanted)).astype(np.float64)
    places = [offset[0] + c * rows + s * columns, offset[1] + -1.0 * s * rows + c * columns]
    last = moveaxis(moveaxis(x, plane[1], -1), plane[0], -2)
    images = TABLE["reshape"](last, rank=n, shape=(prod(shape_of(last)[:-2]), *shape_of(last)[-2:]))
    parts = [
        _sample_image("rotate", pick_elements(images, k), places, order, mode, cval, prefilter)
        for k in range(shape_of(images)[0])
    ]
    y = TABLE["reshape"](stack(parts), rank=3, shape=(*shape_of(last)[:-2], *map(int, wanted)))
    return moveaxis(moveaxis(y, -2, plane[0]), -1, plane[1])
