"""Code that refuses what is no `np.ndarray` gets values, and its error says what to ask instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg


def refuse_by_assertion(x: Any) -> Any:
    assert isinstance(x, np.ndarray)
    return np.sum(x)


def refuse_by_error(x: Any) -> Any:
    if not isinstance(x, np.ndarray):
        raise TypeError("x must be an array")
    return np.sum(x)


def refuse_by_type(x: Any) -> Any:
    if type(x) is not np.ndarray:
        raise ValueError("x must be an array")
    return np.sum(x)


def accept_values(x: Any) -> Any:
    assert isinstance(x, np.ndarray | wg.Value)
    return np.sum(x)


def fail_without_asking(x: Any) -> Any:
    raise ValueError(f"no result for {np.ndim(x)} axes")


@pytest.mark.parametrize("transform", [wg.grad, wg.value_and_grad, lambda f: lambda x: wg.run(f, x)])
@pytest.mark.parametrize("function", [refuse_by_assertion, refuse_by_error, refuse_by_type])
def test_a_function_that_asks_for_arrays_is_answered(function: Callable[..., Any], transform: Any) -> None:
    with pytest.raises((AssertionError, TypeError, ValueError)) as caught:
        transform(function)(np.ones(3))

    assert any("write isinstance(x, np.ndarray | wg.Value)" in note for note in caught.value.__notes__)


def test_what_the_note_says_mends_the_function() -> None:
    assert wg.grad(accept_values)(np.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_other_errors_get_no_note() -> None:
    with pytest.raises(ValueError, match="no result for 1 axes") as caught:
        wg.grad(fail_without_asking)(np.ones(3))

    assert not getattr(caught.value, "__notes__", [])
