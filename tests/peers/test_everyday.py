"""Everyday snippets of plain NumPy and SciPy code: wiregrad's gradients beside references that do without it.

`python -m tests.peers.everyday` prints how many of each theme agree, and what the others end with.
"""

from __future__ import annotations

import pytest

import wiregrad as wg

from .everyday import SNIPPETS
from .everyday.reference import compute_reference, take_complex_step, take_differences
from .everyday.verdict import compute_gradients, judge, largest_difference

REFUSED = {
    "math_module_functions": "instead of `math.sin(x)` write `np.sin(x)`",
    "draw_with_recorded_parameters": "write `mean + deviation * rng.normal(size=20)`",
    "shuffle_by_permutation": "write `x[rng.permutation(len(x))]`",
    "complex_square_root": "np.sqrt(x.astype(complex))",
    "masked_array_sum": "fill it first",
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
