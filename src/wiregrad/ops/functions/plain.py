"""Functions without a gradient: they depend on shapes and dtypes alone, or return a plain array or a truth value."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, format_user_line
from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.registry import register_function
from wiregrad.ops.functions.shape import broadcast_to
from wiregrad.ops.functions.support import dtype_of, detach_array, is_wire, lift
from wiregrad.ops.shape_records import hollow_array


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
    if is_wire(x):
        raise EscapeError(f"tolist() would silently cut the gradient; use v.data.tolist(){format_user_line()}")
    return np.asarray(x).tolist()
