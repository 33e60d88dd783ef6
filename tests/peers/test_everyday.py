"""Everyday snippets of plain NumPy and SciPy code: wiregrad's gradients beside references that do without it.

`python -m tests.peers.everyday` prints how many of each theme agree, and what the others end with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg

from .everyday import SNIPPETS
from .everyday.reference import compute_reference, take_complex_step, take_differences, variables_of
from .everyday.verdict import Gradient, compute_gradients, grad_by_compiling, judge, largest_difference, make_gradient

REFUSED = {
    "math_module_functions": "instead of `math.sin(x)` write `np.sin(x)`",
    "draw_with_recorded_parameters": "write `mean + deviation * rng.normal(size=20)`",
    "shuffle_by_permutation": "write `x[rng.permutation(len(x))]`",
    "complex_square_root": "np.sqrt(x.astype(complex))",
    "masked_array_sum": "take its elements",
    "sine_and_exponential_integrals": "@wg.op(partials=lambda x, y: (np.exp(x) / x,))",
    "detrend_and_smooth": "write scipy.ndimage.convolve1d(x, scipy.signal.savgol_coeffs(n, k), mode='nearest')",
}
"""Snippets that end in an error of wiregrad's, each with a part of its message: the line to write instead."""
ANALYTIC = [name for name, snippet in SNIPPETS.items() if snippet.analytic]

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("name", [name for name in SNIPPETS if name not in REFUSED])
def test_gradients_of_everyday_code_agree_with_the_reference(name: str) -> None:
    snippet = SNIPPETS[name]

    assert largest_difference(compute_gradients(snippet), compute_reference(snippet)) <= snippet.rtol


@pytest.mark.parametrize("name", [name for name in SNIPPETS if name not in REFUSED])
def test_compiled_gradients_of_everyday_code_equal_those_of_the_interpreter(name: str) -> None:
    """At the point, where it is recorded, and at others, where branches may differ; each twice."""
    snippet = SNIPPETS[name]
    plain = make_gradient(snippet)
    compiled = make_gradient(snippet, grad_by_compiling)
    point = variables_of(snippet.point)
    points = [point, point, *(move_point(point, scale) for scale in (1e-3, 0.05, 0.3))]

    for each in [*points, *points[::-1]]:
        assert find_difference(describe_outcome(compiled, each), describe_outcome(plain, each)) is None


def move_point(point: list[Any], scale: float) -> list[Any]:
    """Return other numbers of the same types, each changed by about `scale` of itself."""
    rng = np.random.default_rng(len(point))
    moved = [np.asarray(leaf) * (1.0 + scale * rng.normal(size=np.shape(leaf))) for leaf in point]
    return [
        new.astype(old.dtype) if isinstance(old, np.ndarray) else type(old)(new)
        for new, old in zip(moved, point, strict=True)
    ]


def describe_outcome(gradient: Gradient, point: list[Any]) -> list[Any] | type[Exception]:
    """Return the gradients at a point, or the type of the error that it ends with."""
    try:
        return gradient(point)
    except (wg.WiregradError, ArithmeticError, ValueError, TypeError) as error:
        return type(error)


def find_difference(got: list[Any] | type[Exception], wanted: list[Any] | type[Exception]) -> str | None:
    """Say how two outcomes differ: in kind, in types, or by more than rounding."""
    if isinstance(got, type) or isinstance(wanted, type):
        return None if got is wanted else f"{got}, not {wanted}"
    types = [[(np.shape(one), np.asarray(one).dtype) for one in side] for side in (got, wanted)]
    if types[0] != types[1]:
        return f"types {types[0]}, not {types[1]}"
    numbers = [np.concatenate([np.ravel(np.asarray(one)) for one in side]) for side in (got, wanted)]
    digits = min(np.finfo(dtype).precision for _, dtype in types[0])
    scale = float(np.max(np.abs(numbers[1]), initial=0.0, where=np.isfinite(numbers[1])))
    close = np.isclose(*numbers, rtol=0.0, atol=10.0 ** (5 - digits) * scale, equal_nan=True)
    return None if close.all() else f"{numbers[0][~close]}, not {numbers[1][~close]}"


@pytest.mark.parametrize("name", REFUSED)
def test_refused_code_is_told_what_to_write_instead(name: str) -> None:
    error = judge(SNIPPETS[name]).error

    assert error is not None, f"{name} runs now: take it out of REFUSED"
    assert isinstance(error, wg.WiregradError)
    assert REFUSED[name] in str(error)


def test_at_least_95_percent_of_300_snippets_run() -> None:
    assert len(SNIPPETS) >= 300
    assert set(REFUSED) <= set(SNIPPETS)
    assert len(REFUSED) <= 0.05 * len(SNIPPETS)


@pytest.mark.parametrize("name", ANALYTIC)
def test_complex_steps_agree_with_differences(name: str) -> None:
    """Holds the references together: code that is not analytic would give a wrong complex step."""
    snippet = SNIPPETS[name]

    assert largest_difference(take_complex_step(snippet), take_differences(snippet)) <= 1e-7
