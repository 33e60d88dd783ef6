"""Calls on recorded values compared with the same calls on plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

from .refusals import check_refusal

STEP = 1e-4
"""Step of the finite differences."""
Call = Callable[[Any], Any]
AcceptedCall = tuple[Call, Any]
"""A function of one array, and the array."""
RefusedCall = tuple[Call, Any, type[Exception], str]
"""A function of one array, the array, and the kind and the words of the error."""


def check_call(call: Call, x: Any, rtol: float = 1e-6) -> None:
    """Fail unless a call gives the value of the plain call, and a gradient equal to differences of that value."""
    rng = np.random.default_rng(5)
    x = np.asarray(x, np.float64)
    wanted = np.asarray(call(x[()]))
    weights = rng.normal(size=wanted.shape)[()]
    direction = rng.normal(size=x.shape)

    def sum_at(distance: float) -> float:
        return float(np.sum(weights * call((x + distance * STEP * direction)[()])))

    value, pull = wg.vjp(call, x[()])
    slope = (sum_at(-2.0) - 8.0 * sum_at(-1.0) + 8.0 * sum_at(1.0) - sum_at(2.0)) / (12.0 * STEP)

    assert np.shape(value) == wanted.shape
    np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.sum(pull(weights) * direction), slope, rtol=rtol, atol=1e-8)


def check_same_refusal(call: Call, x: Any, kind: type[Exception], words: str) -> None:
    """Fail unless a call raises an error of a kind, both of a plain array and of a recorded one, which says why."""
    with pytest.raises(kind):
        call(x)
    check_refusal(lambda: call(wg.Value(x)), kind, words)
