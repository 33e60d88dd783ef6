"""Functions that work element by element or have no gradient, and arrays that are joined from elements.

Functions without a gradient depend on shapes and dtypes alone, or return a plain array or a truth value.

NumPy gives no hook for `np.array([a, b])`: it asks every element for an array of its own. So a list is first shown to
NumPy, and a wire in it answers with an error (`WireFoundError`): then, and only then, its elements are joined here. A
list without wires is read by NumPy alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axis_from_end
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
from wiregrad.ops.functions.shape import (
    as_row,
    broadcast_to,
    expand_dims,
    gather_along,
    getitem,
    moveaxis,
    nonzero,
    pick_elements,
    put,
    reshape_to,
    stack,
)
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.shape_records import hollow_array

_UNARY_SAMPLES = sample_calls((N(2, 3),), (N(),), (N(1),), (N(0, 2),), (N(4),), (N(2, 1, 2),))
_BINARY_SAMPLES = sample_calls(
    (N(2, 3), N(2, 3)), (N(3), N(2, 1)), (N(), N(2)), (N(), N()), (N(0, 2), N(2)), (N(2), 0.7), (1.3, N(2))
)
_COMPLEX_ARRAY = np.array([[1.0 + 2.0j, -0.5 + 0.3j], [0.7 - 1.1j, -2.0 - 0.4j]])
_COMPLEX_SAMPLES = sample_calls(
    (N(2, 3),), (N(),), (N(1),), (N(0, 2),), (_COMPLEX_ARRAY,), (_COMPLEX_ARRAY[0],), (_COMPLEX_ARRAY[1, 0],)
)
_SAMPLE_MASK = np.array([[True, False, True], [False, False, True]])


def _as_condition(x: Any) -> Any:
    """Return x as a condition, by NumPy's rules of truth."""
    x = lift(x)
    return x if dtype_of(x).kind == "b" else TABLE["not_equal"](x, 0)


@register_function(
    np.where,
    samples=sample_calls(
        (_SAMPLE_MASK, N(2, 3), N(2, 3)),
        (_SAMPLE_MASK, N(3), N(2, 1)),
        (_SAMPLE_MASK, N(), 0.0),
        (np.array([0, 2, 1]), N(3), N(3)),
        (True, N(), N()),
        (np.zeros((0, 2), bool), N(2), N(0, 1)),
        (np.array([True, False]), 1.5, N(2)),
    ),
)
def where(condition: Any, a: Any = None, b: Any = None) -> Any:
    """Elements of one array where a condition holds, of another elsewhere; with the condition alone its indices."""
    if a is None and b is None:
        return nonzero(condition)
    if a is None or b is None:
        raise ValueError("either both or neither of x and y should be given")
    return TABLE["where"](_as_condition(condition), a, b)


@register_function(
    np.select,
    samples=sample_calls(
        ([_SAMPLE_MASK, ~_SAMPLE_MASK], [N(2, 3), N(2, 3)]),
        ([_SAMPLE_MASK, _SAMPLE_MASK], [N(2, 3), N(2, 3)], 0.5),
        ([_SAMPLE_MASK], [N(3)]),
        ([np.array(True)], [N()]),
        ([np.array([False])], [N(1)], 2.0),
        ([np.zeros(0, bool)], [N(0)]),
    ),
)
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Elements of the first array whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    for k, condition in enumerate(condlist):
        if dtype_of(condition).kind != "b":
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    y = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        y = TABLE["where"](lift(condition), choice, y)
    return y


@register_function(
    np.clip,
    method=True,
    samples=sample_calls(
        (N(2, 3), -0.5, 0.5),
        (N(2, 3), None, 0.3),
        (N(2, 3), -0.3, None),
        (N(2, 3), {"min": -0.4, "max": 0.6}),
        (N(2, 3), {"a_min": -0.4, "a_max": 0.6}),
        (N(), -0.2, 0.2),
        (N(0, 2), -0.2, 0.2),
        (N(2, 3), np.array([-0.5, -1.0, -0.1]), np.array([[0.2], [0.6]])),
        (N(3),),
    ),
)
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """The array between two bounds, either of which may be None."""
    low = a_min if min is None else min
    high = a_max if max is None else max
    if low is None or high is None:
        bounded = x if low is None else TABLE["maximum"](x, low)
        return TABLE["positive"](lift(bounded)) if high is None else TABLE["minimum"](bounded, high)
    return TABLE["clip"](x, low, high)


@register_function(
    np.round,
    np.around,
    method=True,
    samples=sample_calls((N(2, 3),), (N(2, 3), 2), (N(2, 3), {"decimals": -1}), (N(), 1), (N(0, 2), 1), (N(1),)),
)
def round_(x: Any, decimals: int = 0) -> Any:
    """Numbers rounded to so many decimals; halves go to the even neighbour."""
    x = lift(x)
    decimals = operator.index(decimals)
    scale = 10.0 ** abs(decimals)
    if decimals == 0:
        return TABLE["round"](x)
    return TABLE["round"](x * scale) / scale if decimals > 0 else TABLE["round"](x / scale) * scale


@register_function(np.fix, samples=_UNARY_SAMPLES)
def fix(x: Any) -> Any:
    """The nearest whole number towards 0."""
    return TABLE["trunc"](lift(x))


@register_function(np.nan_to_num, samples=_UNARY_SAMPLES)
def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """The array with numbers in place of NaN and infinities; what was replaced has no gradient."""
    x = lift(x)
    if dtype_of(x).kind == "c":
        a, b = (nan_to_num(TABLE[part](x), nan=nan, posinf=posinf, neginf=neginf) for part in ("real", "imag"))
        return TABLE["cast"](a, dtype="complex128") + TABLE["imaginary"](b)
    if dtype_of(x).kind != "f":
        return x
    limits = np.finfo(dtype_of(x))
    y = TABLE["where"](TABLE["isnan"](x), nan, x)
    for sign, bound, chosen in ((TABLE["greater"], limits.max, posinf), (TABLE["less"], limits.min, neginf)):
        is_infinite = TABLE["logical_and"](TABLE["isinf"](x), sign(x, 0.0))
        y = TABLE["where"](is_infinite, float(bound) if chosen is None else chosen, y)
    return y


@register_function(np.real, method=True, samples=_COMPLEX_SAMPLES)
def real(x: Any) -> Any:
    """The real part."""
    x = lift(x)
    return TABLE["real"](x) if dtype_of(x).kind == "c" else x


@register_function(np.imag, method=True, samples=_COMPLEX_SAMPLES)
def imag(x: Any) -> Any:
    """The imaginary part."""
    return TABLE["imag"](lift(x))


@register_function(np.conjugate, method=True, samples=_COMPLEX_SAMPLES)
def conjugate(x: Any) -> Any:
    """The complex conjugate."""
    return TABLE["conjugate"](lift(x))


@register_function(method=True, samples=_COMPLEX_SAMPLES)
def conj(x: Any) -> Any:
    """The complex conjugate."""
    return conjugate(x)


@register_function(np.angle, samples=_COMPLEX_SAMPLES)
def angle(x: Any, deg: bool = False) -> Any:
    """The angle of a complex number."""
    x = lift(x)
    y = TABLE["arctan2"](TABLE["imag"](x), real(x))
    return y * (180 / math.pi) if deg else y


@register_function(
    np.astype,
    method=True,
    samples=sample_calls(
        (N(2, 3), float),
        (N(), "float64"),
        (N(0, 2), np.float64),
        (N(1), float),
        (N(3), complex),
        (_COMPLEX_ARRAY, complex),
    ),
)
def astype(x: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
    """The same numbers in another dtype."""
    wanted = np.dtype(dtype)
    x = lift(x)
    if not np.can_cast(dtype_of(x), wanted, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {dtype_of(x)} to {wanted} according to the rule '{casting}'")
    return TABLE["cast"](x, dtype=wanted.name)


@register_function(np.copy, method=True, samples=_UNARY_SAMPLES)
def copy(x: Any, order: str = "K", subok: bool = False) -> Any:
    """The array itself: recorded arrays never change, so no copy is needed."""
    return x if is_wire(x) else np.array(x)


@register_function(np.deg2rad, np.radians, samples=_UNARY_SAMPLES)
def deg2rad(x: Any) -> Any:
    """Degrees as radians."""
    return _convert_angle(np.deg2rad, lift(x))


@register_function(np.rad2deg, np.degrees, samples=_UNARY_SAMPLES)
def rad2deg(x: Any) -> Any:
    """Radians as degrees."""
    return _convert_angle(np.rad2deg, lift(x))


def _convert_angle(scale: np.ufunc, x: Any) -> Any:
    """Multiply x by the factor of a NumPy conversion such as np.deg2rad, rounded to the dtype of x."""
    dtype = dtype_of(x)
    if dtype == np.float16:
        # NumPy multiplies in float32.
        return TABLE["cast"](_convert_angle(scale, TABLE["cast"](x, dtype="float32")), dtype="float16")
    factor = scale(dtype.type(1))
    return x * (factor if dtype == np.longdouble else float(factor))


@register_function(np.fabs, samples=_UNARY_SAMPLES)
def fabs(x: Any) -> Any:
    """The absolute value of real numbers."""
    if dtype_of(x).kind == "c":
        raise TypeError("fabs takes real numbers; np.abs takes complex ones too")
    return TABLE["absolute"](lift(x))


def widen_real(x: Any) -> Any:
    """Return x in float64, unless it is complex; raises for long doubles, as NumPy does."""
    x = lift(x)
    if dtype_of(x) == np.longdouble:
        raise TypeError("it computes in float64, which cannot hold long doubles; write x.astype(np.float64)")
    return x if dtype_of(x).kind == "c" or dtype_of(x) == np.float64 else TABLE["cast"](x, dtype="float64")


def _is_negative(x: Any) -> Any:
    """Return whether the sign bit is set, which is so for -0.0 too."""
    return TABLE["less"](TABLE["copysign"](1.0, x), 0.0)


@register_function(np.fmod, samples=_BINARY_SAMPLES)
def fmod(a: Any, b: Any) -> Any:
    """The remainder of a division, with the sign of the dividend."""
    a, b = (x if isinstance(x, int | float) else lift(x) for x in (a, b))
    size = abs(b)
    return TABLE["where"](_is_negative(a), -TABLE["mod"](-a, size), TABLE["mod"](a, size))


@register_function(np.divmod, samples=_BINARY_SAMPLES)
def divmod_(a: Any, b: Any) -> Any:
    """Quotient, rounded down, and remainder."""
    return TABLE["floor_divide"](a, b), TABLE["mod"](a, b)


@register_function(np.modf, samples=_UNARY_SAMPLES)
def modf(x: Any) -> Any:
    """Fractional and integral part, both with the sign of the number."""
    x = lift(x)
    infinite = TABLE["isinf"](x)
    finite = TABLE["where"](infinite, 0.0, x)
    return TABLE["where"](infinite, TABLE["copysign"](0.0, x), fmod(finite, 1.0)), TABLE["trunc"](x)


@register_function(np.signbit)
def signbit(x: Any) -> Any:
    """Whether the sign bit is set."""
    return _is_negative(lift(x))


@register_function(
    np.polyval,
    samples=sample_calls(
        (N(3), N(2, 3)), (N(1), N(2)), (N(4), N()), (N(3), 0.7), (N(2), N(0)), ([1.0, 2.0, 0.5], N(2))
    ),
)
def polyval(p: Any, x: Any) -> Any:
    """The value of a polynomial whose coefficients start with the highest power."""
    p = lift(p)
    x = lift(x)
    y: Any = np.zeros(shape_of(x), dtype_of(x))[()]
    for k in range(shape_of(p)[0]):
        y = y * x + pick_elements(p, k)
    return y


@register_function(
    np.vander,
    samples=sample_calls(
        (N(3),), (N(3), 2), (N(2), 4, True), (N(1), 3), (N(0), 2), (N(3), 1), (N(2), {"increasing": True})
    ),
)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803 - NumPy's
    """The powers of a row as columns of a matrix."""
    x = lift(x)
    if ndim_of(x) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = shape_of(x)[0] if N is None else N
    powers = [np.ones(shape_of(x), np.promote_types(dtype_of(x), int))]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    chosen = powers[:count]
    if not chosen:
        return np.zeros((*shape_of(x), 0), dtype_of(x))
    return stack(chosen if increasing else chosen[::-1], -1)


@register_function(
    np.interp,
    samples=sample_calls(
        (np.array([0.3, 1.7, 2.2]), np.array([0.0, 1.0, 2.0, 4.0]), N(4)),
        (np.array([[-1.0], [9.0]]), np.array([0.0, 1.0, 4.0]), N(3)),
        (0.4, np.array([0.0, 1.0]), N(2)),
        (np.array([-1.0, 0.5, 9.0]), np.array([0.0, 1.0]), N(2), 5.0, -5.0),
        (np.zeros(0), np.array([0.0, 1.0]), N(2)),
        (np.array([0.3, 0.4]), np.array([0.0, 1.0, 2.0]), N(3), {"left": 1.0}),
        (np.array([-0.3, 0.4, 7.1]), np.array([1.0, 0.25, 2.0]), N(3), {"period": 3.0}),
    ),
)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Any:
    """Linear interpolation between points; constant beyond the first and last, or periodic."""
    x = widen_real(x)
    xp = widen_real(xp)
    fp = widen_real(fp)
    if period is not None:
        x, xp, fp = _repeat_period(x, xp, fp, abs(float(period)))
        left = right = None
    if ndim_of(xp) != 1 or ndim_of(fp) != 1:
        raise ValueError("object too deep for desired array")
    count = shape_of(xp)[0]
    if count != shape_of(fp)[0]:
        raise ValueError("fp and xp are not of the same length.")
    if not count:
        raise ValueError("array of sample points is empty")
    y = _interpolate_line(x, xp, fp) if count > 1 else pick_elements(fp, 0) + x * 0.0
    y = TABLE["where"](TABLE["greater_equal"](x, pick_elements(xp, -1)), pick_elements(fp, -1), y)
    y = TABLE["where"](TABLE["greater"](x, pick_elements(xp, -1)), pick_elements(fp, -1) if right is None else right, y)
    return TABLE["where"](TABLE["less"](x, pick_elements(xp, 0)), pick_elements(fp, 0) if left is None else left, y)


def _repeat_period(x: Any, xp: Any, fp: Any, period: float) -> tuple[Any, Any, Any]:
    """Return places and points moved into one period, with one more point at either side."""
    if not period:
        raise ValueError("period must be a non-zero value")
    if ndim_of(xp) != 1 or ndim_of(fp) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if shape_of(xp) != shape_of(fp):
        raise ValueError("fp and xp are not of the same length")
    xp = TABLE["mod"](xp, period)
    order = TABLE["argsort"](xp, axis=-1, kind="stable")
    xp, fp = (TABLE["take_along_axis"](row, order, axis=-1) for row in (xp, fp))
    first, last = slice(0, 1), slice(-1, None)
    xp = TABLE["concatenate"](pick_elements(xp, last) - period, xp, pick_elements(xp, first) + period, axis=-1)
    fp = TABLE["concatenate"](pick_elements(fp, last), fp, pick_elements(fp, first), axis=-1)
    return TABLE["mod"](x, period), xp, fp


def _interpolate_line(x: Any, xp: Any, fp: Any) -> Any:
    """Interpolate linearly between the two points around x, or extrapolate beyond the ends."""
    inner = TABLE["searchsorted"](pick_elements(xp, slice(1, -1)), x, side="right")
    slopes = (pick_elements(fp, slice(1, None)) - pick_elements(fp, slice(None, -1))) / (
        pick_elements(xp, slice(1, None)) - pick_elements(xp, slice(None, -1))
    )
    return gather_along(slopes, inner, -1) * (x - gather_along(xp, inner, -1)) + gather_along(fp, inner, -1)


@register_function(
    np.float_power,
    samples=sample_calls(
        (np.array([0.5, 2.0]), N(2)),
        (np.array([[1.5], [0.3]]), N(3)),
        (1.7, N()),
        (0.4, 2.5),
        (np.ones((0, 2)), N(2)),
        (np.array([2.0]), 3.0),
    ),
)
def float_power(a: Any, b: Any) -> Any:
    """First operand to the power of the second, in float64 at least."""
    operands = [lift(x) for x in (a, b)]
    wide = [
        x if dtype_of(x).kind == "c" else TABLE["cast"](x, dtype=np.result_type(dtype_of(x), np.float64).name)
        for x in operands
    ]
    return TABLE["power"](*wide)


@register_function(np.shape)
def shape(x: Any) -> Any:
    """The shape."""
    return shape_of(lift(x))


@register_function(np.ndim)
def ndim(x: Any) -> Any:
    """The number of axes."""
    return len(shape_of(lift(x)))


@register_function(np.size)
def size(x: Any, axis: Any = None) -> Any:
    """The number of elements, in all or along axes."""
    return np.size(hollow_array(shape_of(lift(x))), axis)


def _hollow_like(x: Any) -> Any:
    """Return an array with the shape and dtype of x that takes no memory."""
    x = lift(x)
    return np.broadcast_to(np.zeros((), dtype_of(x)), shape_of(x))


@register_function(np.zeros_like)
def zeros_like(x: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None) -> Any:
    """Zeros of the same shape and dtype."""
    return np.zeros_like(_hollow_like(x), dtype, "C", shape=shape)


@register_function(np.ones_like)
def ones_like(x: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None) -> Any:
    """Ones of the same shape and dtype."""
    return np.ones_like(_hollow_like(x), dtype, "C", shape=shape)


@register_function(np.empty_like)
def empty_like(x: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None) -> Any:
    """An array of the same shape and dtype, to be filled."""
    return np.empty_like(_hollow_like(x), dtype, "C", shape=shape)


@register_function(np.full_like)
def full_like(
    x: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: bool = True, shape: Any = None
) -> Any:
    """One number everywhere, in the same shape and dtype; a recorded number keeps its gradient."""
    if is_wire(fill_value):
        return broadcast_to(fill_value, shape_of(lift(x)) if shape is None else shape)
    return np.full_like(_hollow_like(x), fill_value, dtype, "C", shape=shape)


@register_function(np.result_type)
def result_type(*xs: Any) -> Any:
    """The dtype that NumPy gives what is computed from these."""
    return np.result_type(*(dtype_of(x) if is_wire(x) else x for x in xs))


@register_function(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> Any:
    """Whether a dtype can be cast to another."""
    return np.can_cast(dtype_of(from_) if is_wire(from_) else from_, to, casting)


@register_function(np.common_type)
def common_type(*xs: Any) -> Any:
    """The floating type that holds all of these."""
    return np.common_type(*(_hollow_like(x) for x in xs))


@register_function(np.iscomplexobj)
def iscomplexobj(x: Any) -> Any:
    """Whether the dtype is complex."""
    return dtype_of(x).kind == "c"


@register_function(np.isrealobj)
def isrealobj(x: Any) -> Any:
    """Whether the dtype is not complex."""
    return dtype_of(x).kind != "c"


@register_function(np.iscomplex)
def iscomplex(x: Any) -> Any:
    """Where the imaginary part is not 0."""
    return np.iscomplex(detach_array(x))


@register_function(np.isreal)
def isreal(x: Any) -> Any:
    """Where the imaginary part is 0."""
    return np.isreal(detach_array(x))


@register_function(np.isposinf)
def isposinf(x: Any) -> Any:
    """Where a number is inf."""
    return np.isposinf(detach_array(x))


@register_function(np.isneginf)
def isneginf(x: Any) -> Any:
    """Where a number is -inf."""
    return np.isneginf(detach_array(x))


@register_function(np.isclose)
def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Where two arrays are nearly equal."""
    return np.isclose(detach_array(a), detach_array(b), rtol, atol, equal_nan)


@register_function(np.allclose)
def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Whether two arrays are nearly equal everywhere."""
    return np.allclose(detach_array(a), detach_array(b), rtol, atol, equal_nan)


@register_function(np.array_equal)
def array_equal(a: Any, b: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements."""
    return np.array_equal(detach_array(a), detach_array(b), equal_nan)


@register_function(np.array_equiv)
def array_equiv(a: Any, b: Any) -> Any:
    """Whether two arrays have equal elements once they are broadcast."""
    return np.array_equiv(detach_array(a), detach_array(b))


@register_function(np.tril_indices_from)
def tril_indices_from(x: Any, k: int = 0) -> Any:
    """The indices of the lower triangle."""
    return np.tril_indices_from(hollow_array(shape_of(lift(x))), k)


@register_function(np.triu_indices_from)
def triu_indices_from(x: Any, k: int = 0) -> Any:
    """The indices of the upper triangle."""
    return np.triu_indices_from(hollow_array(shape_of(lift(x))), k)


@register_function(np.diag_indices_from)
def diag_indices_from(x: Any) -> Any:
    """The indices of the diagonal."""
    return np.diag_indices_from(hollow_array(shape_of(lift(x))))


@register_function(method=True)
def tolist(x: Any) -> Any:
    """Refuses: it would silently cut the gradient of a recorded value."""
    x = lift(x)
    if is_wire(x):
        raise EscapeError(f"tolist() would silently cut the gradient; use v.data.tolist(){format_user_line()}")
    return np.asarray(x).tolist()


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
    y = moveaxis(y, 0, axis) if axis != 0 else y
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
    along = axis_from_end(axis, ndim_of(lift(arr)))
    x = moveaxis(lift(arr), along, -1)
    outer = shape_of(x)[:-1]
    rows = [lift(func1d(getitem(x, index), *args, **kwargs)) for index in np.ndindex(outer)]
    inner = shape_of(rows[0])
    y = reshape_to(stack(rows), outer + inner)
    first = along + len(outer) + 1
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
        if ndim_of(y) != rank:
            raise ValueError("function is not returning an array of the correct shape")
    return y
