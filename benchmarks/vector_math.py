"""Functions of math.h on vectors: how exact each source is, and how fast against the scalar functions of C.

Errors are in ulp of the exact value, computed by mpmath with 160 bits, over points of several kinds: ordinary ones,
near roots, subnormal, huge. Times are the best per element over arrays that fit the first cache, sources taking turns:
what else the machine does only ever adds to so short a time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Report, Table
from wiregrad.backends.native.vector_math import (
    MATH_SOURCES,
    POLYNOMIAL_FUNCTIONS,
    REAL_DTYPES,
    TWO_ARGUMENT_FUNCTIONS,
    VectorFunction,
    bind_array_loop,
    find_vector_function,
)

POINTS = 100_000
ELEMENTS = 2048
REPEATS = 400
SHAPES = (("double", 1), ("double", 4), ("double", 8), ("float", 8), ("float", 16))
Reals = NDArray[np.floating[Any]]
EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "log1p": lambda x: mpmath.log(1 + x) if abs(x) > 1e-30 else x - x * x / 2,
    "pow": mpmath.power,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}


def trial(name: str, count: int, dtype: type[np.floating[Any]] = np.float64) -> tuple[Reals, ...]:
    """Return points of several kinds at which a function is tried, some `count` in all."""
    rng, each = np.random.default_rng(len(name)), count // 8
    small = np.ldexp(rng.uniform(-1, 1, each), rng.integers(-60, 4, each))
    subnormal = np.ldexp(rng.uniform(-1, 1, each), -1022 if dtype is np.float64 else -126)
    bits = rng.integers(0, 2**64, each, np.uint64).view(np.float64)
    if dtype is not np.float64:
        with np.errstate(invalid="ignore"):
            bits = rng.integers(0, 2**32, each, np.uint32).view(np.float32).astype(np.float64)
    near_one = 1 + np.ldexp(rng.uniform(-1, 1, each), rng.integers(-50, 0, each))
    turns = rng.integers(-20_000, 20_000, each) * (np.pi / 2)
    spread = [rng.uniform(-size, size, each) for size in (1.5, 25.0, 750.0)]
    columns = [*spread, small, subnormal, bits, near_one, turns]
    first = np.concatenate(columns).astype(dtype)
    if name == "pow":
        second = np.concatenate([rng.permutation(column) for column in [*spread, *spread, small, bits]])
        return np.abs(first), second.astype(dtype)
    return (first, rng.permutation(first)) if name in TWO_ARGUMENT_FUNCTIONS else (first,)


def exact(name: str, points: tuple[Reals, ...], dtype: type[np.floating[Any]]) -> tuple[NDArray[np.bool_], Any, Any]:
    """Return where a function has a finite value that is not zero, and there that value in two parts."""
    function = EXACT.get(name) or getattr(mpmath, name)
    with np.errstate(all="ignore"):
        near = find_vector_function(name, 1, "double", "scalar")(*(part.astype(np.float64) for part in points))
        kept = np.isfinite(near) & np.isfinite(near.astype(dtype)) & (near != 0)
    high, low = np.empty(kept.sum()), np.empty(kept.sum())
    with mpmath.workprec(160):
        for k, given in enumerate(zip(*(part[kept].tolist() for part in points), strict=True)):
            value = function(*map(mpmath.mpf, given))
            high[k] = float(value)
            low[k] = float(value - high[k])
    return kept, high, low


def errors(function: VectorFunction, points: tuple[Reals, ...], answers: tuple[NDArray[np.bool_], Any, Any]) -> Reals:
    """Return how far a function is from exact answers, in ulp."""
    kept, high, low = answers
    dtype = REAL_DTYPES[function.real]
    found = function(*(part[kept] for part in points)).astype(np.float64)
    ulp = np.spacing(np.abs(high.astype(dtype))).astype(np.float64)
    return np.asarray(np.abs((found - high) - low) / ulp, np.float64)


def accuracy(count: int = POINTS, names: tuple[str, ...] = tuple(POLYNOMIAL_FUNCTIONS)) -> dict[str, dict[str, float]]:
    """Return the largest error of each function by source, on 8 lanes of double."""
    found: dict[str, dict[str, float]] = {}
    for name in names:
        points = trial(name, count)
        answers = exact(name, points, np.float64)
        for source in MATH_SOURCES:
            function = find_vector_function(name, 8, "double", source)
            if function.source == source:
                found.setdefault(name, {})[source] = float(np.max(errors(function, points, answers)))
    return found


def ordinary(name: str, dtype: type[np.floating[Any]]) -> tuple[Reals, ...]:
    """Return everyday arguments of a function."""
    rng = np.random.default_rng(0)
    ends = {"log": (0, 10), "acosh": (1, 10), "asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "pow": (0, 10)}
    low, high = ends.get("log" if name in ("log2", "log10", "log1p") else name, (-5, 5))
    first = rng.uniform(low, high, ELEMENTS).astype(dtype)
    second = rng.uniform(-5, 5, ELEMENTS).astype(dtype)
    return (first, second) if name in TWO_ARGUMENT_FUNCTIONS else (first,)


def nanoseconds(function: VectorFunction, points: tuple[Reals, ...]) -> Callable[[], float]:
    """Return a task that measures the time per element."""
    out = np.empty_like(points[0])
    call = bind_array_loop(function, out, *points)

    def task() -> float:
        start = perf_counter()
        call()
        return (perf_counter() - start) / len(out) * 1e9

    return task


def speed() -> dict[str, dict[str, float]]:
    """Return nanoseconds per element of each function, by source, real and lanes."""
    found: dict[str, dict[str, float]] = {}
    for name in POLYNOMIAL_FUNCTIONS:
        tasks = {}
        for real, lanes in SHAPES:
            points = ordinary(name, REAL_DTYPES[real])
            tasks[f"scalar {real} 1"] = nanoseconds(find_vector_function(name, 1, real, "scalar"), points)
            for source in ("polynomial", "libmvec"):
                function = find_vector_function(name, lanes, real, source)
                if function.source == source:
                    tasks[f"{source} {real} {lanes}"] = nanoseconds(function, points)
        times = [{key: task() for key, task in tasks.items()} for _ in range(REPEATS)]
        found[name] = {key: min(time[key] for time in times) for key in tasks}
    return found


def run() -> Report:
    """Measure both."""
    worst, times = accuracy(), speed()
    exactness = Table(
        f"Largest error in ulp over {POINTS:,} points, 8 lanes of double.",
        ["function", *MATH_SOURCES],
        [[name, *(f"{worst[name].get(source, np.nan):.2f}" for source in MATH_SOURCES)] for name in worst],
    )
    columns = [f"{source} {real} {lanes}" for real, lanes in SHAPES for source in ("polynomial", "libmvec")]
    columns.remove("libmvec double 1")
    rows = [[name, f"{time['scalar double 1']:.1f}", *_ratios(time, columns)] for name, time in times.items()]
    ratios = Table(
        "How many times faster per element than the scalar function of the same real, whose time for double is given.",
        ["function", "scalar ns", *columns],
        rows,
    )
    figures = {**{f"ulp {name}": found for name, found in worst.items()}, **{f"ns {n}": t for n, t in times.items()}}
    return Report([exactness, ratios], figures)


def _ratios(time: dict[str, float], columns: list[str]) -> list[str]:
    scalar = {real: time[f"scalar {real} 1"] for real in REAL_DTYPES}
    return [f"{scalar[column.split()[1]] / time[column]:.1f}" if column in time else "-" for column in columns]
