"""Helpers of the checks of functions and of ops on arrays: memory layouts, directions, comparing numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from wiregrad.api.values import Value
from wiregrad.frontends.recording.arguments import ensure_owned

FLOAT64 = np.dtype(np.float64)
FLOAT32 = np.dtype(np.float32)
ARRAY_LAYOUTS = ("given", "fortran", "strided", "negative", "readonly")
STENCIL_TOLERANCE = 1e-7
SECOND_ORDER_TOLERANCE = 1e-6
MODES_TOLERANCE = 1e-12
LAYOUT_TOLERANCE = 1e-12
FLOAT32_TOLERANCE = 1e-3
"""Tolerances, relative to the larger of 1 and the wanted number."""
TOLERANCES = {
    FLOAT64: LAYOUT_TOLERANCE,
    FLOAT32: FLOAT32_TOLERANCE,
    np.dtype(np.longdouble): LAYOUT_TOLERANCE,
    np.dtype(np.float16): 0.03,
}
"""Tolerance of results in each dtype, beside those in float64."""


class PlannedCheck(NamedTuple):
    """One comparison that can be run later."""

    label: str
    run: Callable[[], None]

    def find_failure(self) -> str:
        """Run the check; return a description of the failure, empty if it passes."""
        try:
            self.run()
        except Exception as error:
            return f"{self.label}: {type(error).__name__}: {error}"
        return ""


def copy_in_layout(array: Any, layout: str) -> Any:
    """Return a copy of an array in a memory layout; unless `given`, it is read-only, so that values do not copy it."""
    if layout == "given" or not array.ndim:
        return array.copy(order="K")
    if layout == "strided":
        base = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        base[..., ::2] = array
        return ensure_owned(base)[..., ::2]
    reverse = (slice(None, None, -1),) * array.ndim
    if layout == "negative":
        return ensure_owned(array[reverse])[reverse]
    return ensure_owned(array.copy(order="F" if layout == "fortran" else "C"))


def distinct_layouts(arrays: Iterable[Any]) -> list[str]:
    """Return the layouts that differ for at least one of these arrays."""
    ndim = max([np.ndim(x) if np.size(x) > 1 else 0 for x in arrays], default=0)
    return [layout for layout in ARRAY_LAYOUTS if ndim > 1 or (ndim == 1 and layout != "fortran") or layout == "given"]


def without_warnings(run: Callable[[], None]) -> Callable[[], None]:
    """Return a check that runs without NumPy's warnings: means of empty arrays and the like are intended."""

    def run_quietly() -> None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            run()

    return run_quietly


def data_of(output: Any) -> Any:
    """Return an output, a value or a plain number, as an array."""
    return np.asarray(output.data if isinstance(output, Value) else output)


def random_like(rng: np.random.Generator, like: Any) -> Any:
    """Return normally distributed numbers with the shape and dtype of an array."""
    shape = np.shape(like)
    dtype = np.asarray(like).dtype
    numbers = rng.normal(size=shape) + 1j * rng.normal(size=shape) if dtype.kind == "c" else rng.normal(size=shape)
    return np.asarray(numbers).astype(dtype)[()]


def real_inner_product(one: Any, two: Any) -> float:
    """Return the inner product of two arrays; complex numbers count as pairs of real ones."""
    return float(np.sum(np.conjugate(one) * two).real)


def tolerance_scale(wanted: Any) -> float:
    """Return the largest finite magnitude in an array, at least 1; tolerances are relative to it."""
    finite = np.abs(wanted[np.isfinite(wanted)]) if wanted.dtype.kind in "fc" else np.zeros(0)
    return max(1.0, float(finite.max())) if finite.size else 1.0


def assert_near(got: Any, wanted: Any, tolerance: float, scale: Any = 1.0) -> None:
    """Raise unless two arrays are equal (NaN to NaN) or close, relative to the larger of `scale` and `wanted`."""
    got = np.asarray(got)
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape, f"shape {got.shape}, wanted {wanted.shape}"
    if wanted.dtype.kind not in "fc":
        assert np.array_equal(got, wanted), f"{got}, wanted {wanted}"
        return
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if not same.all() and tolerance:
        same |= np.isfinite(wanted) & (np.abs(got - wanted) <= tolerance * np.maximum(scale, np.abs(wanted)))
    if not same.all():
        k = tuple(np.argwhere(~same)[0].tolist())
        raise AssertionError(f"{got[k]!r} at {k}, wanted {wanted[k]!r} (off by {abs(got[k] - wanted[k]):.3g})")
