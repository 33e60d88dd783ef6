"""libmvec, the vector library of glibc: the addresses of its functions, and a test against the scalar functions.

A function is used only if, at edge points, it returns NaN, infinities and signed zeros where the scalar function does,
is within 4 ulp of it elsewhere, and computes each lane from that lane alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native.lanes import REAL_BITS

SampleArray: TypeAlias = NDArray[np.floating[Any]]
ArrayFunction: TypeAlias = Callable[..., SampleArray]
VECTOR_ABI_LETTERS = {128: ("b", "sse4.2"), 256: ("d", "avx2"), 512: ("e", "avx512f")}
"""For each register width in bits, its letter in the vector function ABI and the processor feature that it needs."""
MAX_ULP_ERROR = 4.0
"""Maximum difference from the scalar function."""


@cache
def load_libmvec() -> ctypes.CDLL | None:
    """Return the library; None if it is not installed."""
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def find_libmvec_address(name: str, lanes: int, real: str, arity: int, features: frozenset[str]) -> int:
    """Return the address of a function; 0 if the library, the function or registers of this width are missing."""
    letter, needed = VECTOR_ABI_LETTERS.get(lanes * REAL_BITS[real], ("", ""))
    if needed not in features:
        return 0
    symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}{'f' if real == 'float' else ''}"
    function = getattr(load_libmvec(), symbol, None)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0) if function is not None else 0


def make_edge_points(dtype: type[np.floating[Any]], arity: int) -> list[SampleArray]:
    """Return points at which functions tend to be wrong: each of them, or all pairs."""
    info = np.finfo(dtype)
    sizes: list[Any] = [0.0, info.smallest_subnormal, 20 * info.smallest_subnormal, info.tiny, 1e-8, 0.3, 0.5]
    sizes += [1 - info.epsneg, 1.0, 1 + info.eps, 1.5, 2.0, 3.0, np.pi / 2, np.pi, 9.2, 27.3, 88.8, 103.9, 709.7, 745.1]
    sizes += [1e5, 1e12, 1e22, info.max**0.5, info.max / 4, info.max, np.inf]
    points = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    return [points] if arity == 1 else [part.ravel() for part in np.meshgrid(points, points)]


def measure_ulp_distance(results: SampleArray, wanted: SampleArray) -> SampleArray:
    """Return the differences in ulp of the wanted numbers; inf where the sign differs or only one is finite or NaN."""
    signs = np.signbit(results) == np.signbit(wanted)
    same = (results == wanted) & signs | (np.isnan(results) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        ulp = np.abs(results.astype(np.longdouble) - wanted) / np.spacing(np.abs(wanted))
    finite = np.isfinite(results) & np.isfinite(wanted) & signs
    return np.asarray(np.where(same, 0.0, np.where(finite, ulp, np.inf)), np.float64)


def is_sound(vector: ArrayFunction, scalar: ArrayFunction, lanes: int, points: list[SampleArray]) -> bool:
    """Return whether a vector function agrees with the scalar one at these points."""
    alone = vector(*(np.repeat(part, lanes) for part in points)).reshape(-1, lanes)
    if np.any(measure_ulp_distance(alone[:, 0], scalar(*points)) > MAX_ULP_ERROR):
        return False
    # Every point is tried in every lane, next to other points.
    mixed = [vector(*(np.roll(part, lane) for part in points)) for lane in range(lanes)]
    back = np.stack([np.roll(answer, -lane) for lane, answer in enumerate(mixed)], axis=1)
    bits = f"u{alone.dtype.itemsize}"
    differs = (alone.view(bits) != back.view(bits)) & ~(np.isnan(alone) & np.isnan(back))
    return not np.any(differs)
