"""What JavaScript says for the functions of C's math.h, run in Node, against NumPy, Python and exact arithmetic."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from wiregrad.codegen.javascript import ERF_SERIES, ERFC_TAIL, JAVASCRIPT, JAVASCRIPT_WORDS

from ..support.limits import PATIENCE

Array = np.ndarray[Any, np.dtype[np.float64]]

SPECIAL = [
    *(0.0, 5e-324, 2.3e-308, 0.49999999999999994, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 2.0**52 + 0.5, 2.0**53 - 1.0, 1e22),
    *(1.7e308, math.inf),
]
SIGNED = np.array([sign * x for x in SPECIAL for sign in (1.0, -1.0)] + [math.nan])
SIZES = [(-1074, -1000), (-1074, 1024), (-60, 60), (-5, 5), (-1, 1), (1000, 1024)]
RANGES = [(-1, 1), (-10, 10), (0, 27.5), (709, 711), (-746, -707), (-1075, -1020), (1020, 1025)]

MODULE = """
import { readFileSync, writeFileSync } from "node:fs";
const bytes = readFileSync(process.argv[2]);
const given = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
const n = given.length / 2;
const words = [
%s
];
const found = new Float64Array(n * words.length);
words.forEach((word, k) => {
  for (let i = 0; i < n; i++) found[k * n + i] = word(given[i], given[n + i]);
});
writeFileSync(process.argv[3], found);
"""


def grid(rng: np.random.Generator, count: int) -> Array:
    """Return numbers of every size, near 1, near multiples of pi, halves, and where functions over- and underflow."""
    sign = rng.choice([-1.0, 1.0], count)
    kinds = [
        *(sign * 2.0 ** rng.uniform(*size, count) for size in SIZES),
        *(rng.uniform(*span, count) for span in RANGES),
        1.0 + sign * 2.0 ** rng.uniform(-53.0, 0.0, count),
        rng.integers(-(10**6), 10**6, count) * (math.pi / 2.0),
        rng.integers(-2000, 2000, count) / 2.0,
    ]
    return np.concatenate(kinds)


@cache
def points() -> tuple[Array, Array]:
    """Return pairs: of special values, of unlike and like size, and of bases near 1 or -1 with exponents to match."""
    rng = np.random.default_rng(5)
    x, y = (pair.ravel() for pair in np.meshgrid(SIGNED, SIGNED))
    a, b = grid(rng, 5000), rng.permutation(grid(rng, 5000))
    c = grid(rng, 1000)
    base = 1.0 + rng.choice([-1.0, 1.0], 10_000) * 2.0 ** rng.uniform(-52.0, -1.0, 10_000)
    power = rng.uniform(-1080.0, 1030.0, 10_000) / np.log2(base)
    firsts, seconds = [x, a, c, base, -base], [y, b, c * rng.uniform(0.1, 1.0, len(c)), power, np.rint(power)]
    return np.concatenate(firsts), np.concatenate(seconds)


def alone(name: str) -> str:
    """Return a function in a scope of its own, where it has nothing but its word and what that needs."""
    return "\n".join(
        ["(() => {", *JAVASCRIPT.define_helpers([name]), f"return {JAVASCRIPT_WORDS[name].call};", "})(),"]
    )


def in_c(name: str) -> Callable[..., Any]:
    """Return a function of C's as NumPy has it, or Python."""
    return getattr(np, name, None) or np.vectorize(getattr(math, name), otypes=[float])


def expected(name: str) -> Array:
    """Return what C has at every point."""
    function = in_c(name)
    with np.errstate(all="ignore"):
        found: Array = function(*points()[: getattr(function, "nin", 1)])
    return found


def steps(found: Array, wanted: Array) -> Array:
    """Return how many doubles apart answers are, infinitely many where only one of two is a NaN or negative."""
    bits = [np.abs(y).view(np.int64) for y in (found, wanted)]
    apart = np.abs(bits[0] - bits[1]).astype(float)
    unlike = (np.isnan(found) != np.isnan(wanted)) | (np.signbit(found) != np.signbit(wanted))
    return np.where(np.isnan(found) & np.isnan(wanted), 0.0, np.where(unlike, math.inf, apart))


def ulps(found: Array, exact: list[Any]) -> Array:
    """Return how far answers are from exact numbers, in units of the last place of these."""
    places = [np.spacing(abs(float(y))) for y in exact]
    return np.array(
        [abs(float((mpmath.mpf(x) - y) / place)) for x, y, place in zip(found.tolist(), exact, places, strict=True)]
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Array]:
    """What Node answers for every word at every point."""
    folder: Path = tmp_path_factory.mktemp("words")
    x, y = points()
    np.concatenate([x, y]).tofile(folder / "given")
    (folder / "words.mjs").write_text(MODULE % "\n".join(map(alone, JAVASCRIPT_WORDS)))
    subprocess.run(["node", "words.mjs", "given", "found"], cwd=folder, check=True, timeout=PATIENCE)
    return dict(zip(JAVASCRIPT_WORDS, np.fromfile(folder / "found").reshape(len(JAVASCRIPT_WORDS), -1), strict=True))


@pytest.mark.parametrize("name", JAVASCRIPT_WORDS)
def test_a_word_is_within_4_ulp_of_c(name: str, answers: dict[str, Array]) -> None:
    apart = steps(answers[name], expected(name))

    assert apart.max() <= 4.0


@pytest.mark.parametrize("name", JAVASCRIPT_WORDS)
def test_special_values_are_those_of_c(name: str, answers: dict[str, Array]) -> None:
    """At every pair of them the same NaN, the same infinity, the same zero."""
    count = len(SIGNED) ** 2
    found, wanted = answers[name][:count], expected(name)[:count]
    special = ~np.isfinite(wanted) | (wanted == 0.0)

    np.testing.assert_array_equal(found[special], wanted[special])
    np.testing.assert_array_equal(np.signbit(found[wanted == 0.0]), np.signbit(wanted[wanted == 0.0]))


@pytest.mark.parametrize("name", ["fabs", "sqrt", "floor", "ceil", "trunc", "rint", "fmod", "copysign"])
def test_what_ieee_754_fixes_is_exact(name: str, answers: dict[str, Array]) -> None:
    assert steps(answers[name], expected(name)).max() == 0.0


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_the_error_functions_are_within_3_ulp_of_exact_arithmetic(name: str, answers: dict[str, Array]) -> None:
    x = points()[0]
    among = np.flatnonzero((np.abs(x) < 27.2) & (np.abs(x) > 1e-300))[::29]
    with mpmath.workdps(40):
        exact = [getattr(mpmath, name)(mpmath.mpf(point)) for point in x[among].tolist()]

        assert len(among) > 1000
        assert ulps(answers[name][among], exact).max() <= 3.0


def test_the_coefficients_of_erf_are_those_that_mpmath_fits() -> None:
    def series(z: Any) -> Any:
        return mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1

    with mpmath.workdps(40):
        fitted = mpmath.chebyfit(series, [0, 1], len(ERF_SERIES))

    assert tuple(map(float, fitted)) == ERF_SERIES


def test_the_coefficients_of_erfc_are_those_that_mpmath_fits() -> None:
    def tail(t: Any) -> Any:
        x = 3 * (1 + t) / (1 - t)
        return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x) - 1

    with mpmath.workdps(40):
        ends = [(x - 3) / (x + 3) for x in (mpmath.mpf("0.5"), mpmath.mpf(28))]
        fitted = mpmath.chebyfit(tail, ends, len(ERFC_TAIL))

    assert tuple(map(float, fitted)) == ERFC_TAIL
