"""The magnitude of numbers and arrays, without overflow or underflow on the way, and a key to compare constants by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def euclidean_norm(value: Any) -> float:
    """Return the Euclidean length of a number or array.

    >>> round(euclidean_norm(np.array([3e200, -4e200])) / 1e200, 12), euclidean_norm(-2.0)
    (5.0, 2.0)
    """
    sizes = np.abs(np.asarray(value)).astype(np.float64)
    top = float(np.max(sizes, initial=0.0))
    if not top or not math.isfinite(top):
        return top
    # Squares of very large or small numbers overflow or underflow, so everything is scaled first.
    return top * math.sqrt(float(np.sum(np.square(sizes / top))))


def largest_magnitude(value: Any) -> float:
    """Return the largest magnitude in a number or array; 0 if it is not numeric.

    >>> largest_magnitude(np.array([1.0, -3.0])), largest_magnitude(True)
    (3.0, 0.0)
    """
    array = np.asarray(value)
    return float(np.max(np.abs(array))) if array.size and array.dtype.kind in "fciu" else 0.0


def constant_identity(value: Any) -> tuple[Any, ...]:
    """Return a key that is equal for identical constants: dtype, shape and bits; all scalar NaNs are one constant.

    >>> constant_identity(0.0) == constant_identity(-0.0), constant_identity(float("nan")) == constant_identity(-float("nan"))
    (False, True)
    """
    array = np.asarray(value)
    nan = array.dtype.kind == "f" and array.ndim == 0 and bool(np.isnan(array))
    return array.dtype.str, array.shape, "nan" if nan else array.tobytes()
