"""glibc's vector library: where its functions stand, and whether one answers as the scalar function does.

A function is used only if, at edge points, it gives NaN, infinities and signed zeros where the scalar function does, is
within 4 ulp of it elsewhere, and answers a lane by what stands in that lane alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native.lanes import SIZES

Array: TypeAlias = NDArray[np.floating[Any]]
Function: TypeAlias = Callable[..., Array]
LETTERS = {128: ("b", "sse4.2"), 256: ("d", "avx2"), 512: ("e", "avx512f")}
"""The letter of the vector convention for registers of so many bits, and what the processor must have."""
MOST_ULP = 4.0


@cache
def library() -> ctypes.CDLL | None:
    """Return the library, None where there is none."""
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def address(name: str, lanes: int, real: str, arity: int, features: frozenset[str]) -> int:
    """Return where a function stands; 0 where the library, the function or such registers are missing."""
    letter, needed = LETTERS.get(lanes * SIZES[real], ("", ""))
    if needed not in features:
        return 0
    symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}{'f' if real == 'float' else ''}"
    found = getattr(library(), symbol, None)
    return int(ctypes.cast(found, ctypes.c_void_p).value or 0) if found is not None else 0


def edges(dtype: type[np.floating[Any]], arity: int) -> list[Array]:
    """Return points at which functions go wrong: each of them, or all pairs."""
    info = np.finfo(dtype)
    sizes: list[Any] = [0.0, info.smallest_subnormal, 20 * info.smallest_subnormal, info.tiny, 1e-8, 0.3, 0.5]
    sizes += [1 - info.epsneg, 1.0, 1 + info.eps, 1.5, 2.0, 3.0, np.pi / 2, np.pi, 9.2, 27.3, 88.8, 103.9, 709.7, 745.1]
    sizes += [1e5, 1e12, 1e22, info.max**0.5, info.max / 4, info.max, np.inf]
    points = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    return [points] if arity == 1 else [part.ravel() for part in np.meshgrid(points, points)]


def distance(found: Array, wanted: Array) -> Array:
    """Return how far answers are from those wanted, in ulp of what is wanted; inf where the kind or sign differs."""
    signs = np.signbit(found) == np.signbit(wanted)
    same = (found == wanted) & signs | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        ulp = np.abs(found.astype(np.longdouble) - wanted) / np.spacing(np.abs(wanted))
    finite = np.isfinite(found) & np.isfinite(wanted) & signs
    return np.asarray(np.where(same, 0.0, np.where(finite, ulp, np.inf)), np.float64)


def is_sound(vector: Function, scalar: Function, lanes: int, points: list[Array]) -> bool:
    """Return whether a vector function may stand for the scalar one, tried at these points."""
    alone = vector(*(np.repeat(part, lanes) for part in points)).reshape(-1, lanes)
    if np.any(distance(alone[:, 0], scalar(*points)) > MOST_ULP):
        return False
    # Each point comes to stand in each lane beside other points.
    mixed = [vector(*(np.roll(part, lane) for part in points)) for lane in range(lanes)]
    back = np.stack([np.roll(answer, -lane) for lane, answer in enumerate(mixed)], axis=1)
    bits = f"u{alone.dtype.itemsize}"
    differs = (alone.view(bits) != back.view(bits)) & ~(np.isnan(alone) & np.isnan(back))
    return not np.any(differs)
