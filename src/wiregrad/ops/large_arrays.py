"""NumPy computations on large arrays, in ways that are faster than the plain call and have the same result.

`np.where` with an irregular mask takes twenty times as long as a product, because the processor cannot predict the
branch; selecting by bits has no branch. A power of numbers of both signs leaves NumPy's vector code; a power of their
magnitudes does not. Small arrays take the plain call: there the number of calls counts, not what they do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_LARGE_ELEMENTS = 2048
"""The least number of elements for which these ways are faster."""
BITS: dict[Any, Any] = {np.dtype(np.float64): np.int64, np.dtype(np.float32): np.int32}
"""The integers that are as wide as floats."""
MAX_EXACT_EXPONENT = 2.0**24
"""Exponents below this have neighbours that are whole numbers too, in every dtype."""


def has_nan(x: Any) -> bool:
    """Return whether a number or array has a NaN.

    >>> has_nan(np.broadcast_to(np.nan, (2, 3))), has_nan(np.zeros(3))
    (True, False)
    """
    if type(x) is np.ndarray and x.dtype.kind == "f" and x.flags.c_contiguous:
        # Squares are not negative, so their sum is NaN only if one of them is. It may overflow, without a warning.
        return math.isnan(dot_elements(x, x))
    return bool(np.isnan(_drop_repeats(x)).any())


def is_finite(x: Any) -> bool:
    """Return whether all elements of a number or array are finite.

    >>> is_finite(np.ones(3)), is_finite(np.array([1.0, np.inf]))
    (True, False)
    """
    if type(x) is np.ndarray and x.dtype.kind == "f" and x.flags.c_contiguous and math.isfinite(dot_elements(x, x)):
        # The sum of squares is not finite if one element is not. It may overflow, without a warning.
        return True
    return bool(np.isfinite(_drop_repeats(x)).all())


# Bound once: while a function is recorded, NumPy's own name leads to a function that looks for wires.
dot_elements = np.vdot
count_nonzero = np.count_nonzero


def _drop_repeats(x: Any) -> Any:
    """Return the first slice of an array along each axis along which it repeats itself, because it was broadcast."""
    if not isinstance(x, np.ndarray) or 0 not in x.strides or not x.size:
        return x
    return x[tuple([slice(0, 1) if step == 0 else slice(None) for step in x.strides])]


def select_elements(condition: Any, a: Any, b: Any) -> Any:
    """Return `np.where(condition, a, b)`, with the same bits.

    >>> select_elements(np.array([True, False]), 1.0, np.array([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    if type(condition) is np.ndarray and condition.size >= MIN_LARGE_ELEMENTS and condition.dtype == np.bool_:
        dtype = _common_dtype(condition.shape, a, b)
        if dtype is not None and type(a) is np.ndarray and type(b) is float and not b and math.copysign(1.0, b) > 0.0:
            return zero_outside(condition, a)
        if dtype is not None:
            return _select_by_bits(condition, a, b, dtype)
    y: Any = np.where(condition, a, b)
    return y if y.ndim else y[()]


def zero_outside(mask: NDArray[Any], x: Any) -> Any:
    """Return x where a mask holds, else 0.0.

    >>> zero_outside(np.array([True, False]), np.array([np.nan, np.inf])).tolist()
    [nan, 0.0]
    """
    if type(x) is float and 0.0 <= x < math.inf:
        return mask * x
    is_large = type(x) is np.ndarray and x.size >= MIN_LARGE_ELEMENTS and x.dtype in BITS
    if not is_large or mask.shape != x.shape or mask.dtype != np.bool_:
        return select_elements(mask, x, 0.0)
    bits = BITS[x.dtype]
    kept: NDArray[Any] = np.negative(mask.view(np.int8)).astype(bits)
    np.bitwise_and(kept, x.view(bits), out=kept)
    return kept.view(x.dtype)


def _common_dtype(shape: tuple[int, ...], a: Any, b: Any) -> Any:
    """Return the float dtype of two operands that are arrays of a shape or Python floats; None for other operands."""
    dtype = None
    for x in (a, b):
        if type(x) is np.ndarray:
            if x.shape != shape or x.dtype not in BITS or (dtype is not None and x.dtype != dtype):
                return None
            dtype = x.dtype
    dtype = np.dtype(np.float64) if dtype is None else dtype
    for x in (a, b):
        if type(x) is float:
            # A number that does not fit into the dtype is NumPy's to warn about.
            if dtype != np.float64 and not abs(x) < 1e30:
                return None
        elif type(x) is not np.ndarray:
            return None
    return dtype


def _select_by_bits(condition: NDArray[Any], a: Any, b: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return `a` where a condition holds, else `b`, by operations on the bits of the numbers."""
    one, two = (np.asarray(x, dtype).view(BITS[dtype]) for x in (a, b))
    # -1 has all bits set.
    chosen: NDArray[Any] = np.negative(condition.view(np.int8)).astype(BITS[dtype])
    np.bitwise_and(chosen, one ^ two, out=chosen)
    np.bitwise_xor(chosen, two, out=chosen)
    return chosen.view(dtype)


def clip_large(x: Any, low: Any, high: Any) -> Any:
    """Return `np.clip(x, low, high)` for a large array and two numbers; None for other operands.

    >>> clip_large(np.full(5000, 3.0), -1.0, 1.0)[0]
    np.float64(1.0)
    """
    if type(x) is not np.ndarray or x.size < MIN_LARGE_ELEMENTS or x.dtype not in BITS:
        return None
    # One pass over the array, where a maximum and a minimum take two slower ones.
    return x.clip(low, high) if type(low) is float and type(high) is float else None


def power_of_large(a: Any, b: Any) -> Any:
    """Return `np.power(a, b)` for a large array and one exponent, within rounding; None if the plain call is as good.

    >>> power_of_large(np.full(5000, -2.0), 3.0)[0]
    np.float64(-8.0)
    """
    if type(a) is not np.ndarray or a.size < MIN_LARGE_ELEMENTS or a.dtype not in BITS:
        return None
    if type(b) is not float and type(b) is not a.dtype.type:
        return None
    exponent = float(b)
    if exponent == 1.0:
        return np.positive(a)
    if exponent == 0.5:
        return np.sqrt(a) if np.minimum.reduce(a, axis=None) > 0.0 else None
    return _power_by_magnitude(a, b) if exponent != 2.0 and abs(exponent) < MAX_EXACT_EXPONENT else None


def _power_by_magnitude(a: NDArray[Any], b: Any) -> Any:
    """Return a whole power of numbers of both signs by the power of their magnitudes; None for other powers."""
    if b % 1.0 or not np.minimum.reduce(a, axis=None) < 0.0:
        return None
    y = np.power(np.abs(a), b)
    return np.copysign(y, a) if b % 2.0 else y
