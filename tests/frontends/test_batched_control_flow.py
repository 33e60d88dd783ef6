"""Batches of loops and branches give what a Python loop over the examples gives, and so do their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

ROWS = np.array([[0.5, 1.5], [2.0, -0.3], [0.7, 0.9]])
COUNTS = np.array([0.0, 3.0, 1.0])


def repeat_by_count(n: Any, x: Any) -> Any:
    """Square and halve x as often as n says."""
    return wg.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1.0, 0.5 * c[1] * c[1]), (0.0, x))[1]


def branch_by_shared_index(k: Any, x: Any) -> Any:
    return wg.switch(np.argmax(k), [np.sin, np.cos], x)


def sum_rows(x: Any) -> Any:
    return wg.scan(lambda c, row: (c + row, c * row), 0.0, x)[1]


def run_reversed(x: Any) -> Any:
    return wg.scan(lambda c, row: (c * row, c), 1.0, x, reverse=True)[0]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "steps that differ": (repeat_by_count, (COUNTS, ROWS[:, 0]), (0, 0)),
    "steps that are shared": (repeat_by_count, (2.0, ROWS), (None, 0)),
    "a shared branch": (branch_by_shared_index, (np.array([0.1, 0.7]), ROWS), (None, 0)),
    "branches that differ": (branch_by_shared_index, (ROWS, ROWS), (0, 0)),
    "rows of a scan": (sum_rows, (ROWS,), (0,)),
    "a scan that runs back": (run_reversed, (ROWS,), (0,)),
    "numbers and rows": (lambda a, x: a * x + a, (COUNTS, ROWS), (0, 0)),
    "whole numbers": (lambda n: n * 0.5, (np.arange(3),), (0,)),
}


def run_one_by_one(f: Callable[..., Any], args: tuple[Any, ...], axes: tuple[Any, ...]) -> Any:
    return np.stack(
        [f(*(arg if axis is None else arg[k] for arg, axis in zip(args, axes, strict=True))) for k in range(3)]
    )


@pytest.mark.parametrize("name", CASES)
def test_a_batch_gives_the_results_of_its_examples(name: str) -> None:
    f, args, axes = CASES[name]

    np.testing.assert_allclose(wg.vmap(f, in_axes=axes)(*args), run_one_by_one(f, args, axes), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CASES if name != "whole numbers"])
def test_the_gradient_of_a_batch_is_that_of_its_examples(name: str) -> None:
    f, args, axes = CASES[name]
    last = len(args) - 1
    got = wg.grad(lambda *xs: np.sum(wg.vmap(f, in_axes=axes)(*xs) ** 2), argnums=last)(*args)
    wanted = wg.grad(lambda *xs: sum(np.sum(part**2) for part in _list_results(f, xs, axes)), argnums=last)(*args)

    np.testing.assert_allclose(got, wanted, rtol=1e-10)


def _list_results(f: Callable[..., Any], args: tuple[Any, ...], axes: tuple[Any, ...]) -> list[Any]:
    return [f(*(arg if axis is None else arg[k] for arg, axis in zip(args, axes, strict=True))) for k in range(3)]


def test_a_loop_finds_a_value_that_only_its_body_uses() -> None:
    """k**4 is the first power of 2 that is not below 10, and its slope is 4 * k**3."""
    k = wg.Value(2.0)
    result = wg.while_loop(lambda x: x < 10.0, lambda x: x * k, 1.0)
    result.backward()

    assert float(result.data) == 16.0
    assert k.grad == 32.0


def test_a_loop_casts_a_plain_number_to_the_dtype_of_its_carry() -> None:
    """The second part of the carry is a float that the body replaces by a whole number."""
    slope = wg.grad(lambda x: np.sum(wg.fori_loop(0, 3, lambda k, c: (c[0] * x, 1), (x, 0.5))[0]))(1.5)

    np.testing.assert_allclose(slope, 4.0 * 1.5**3)


def test_a_scan_of_nothing_returns_its_carry() -> None:
    assert wg.scan(lambda c, x: (None, None), None, length=3) == (None, None)
    assert wg.grad(lambda x: x * len(wg.scan(lambda c, row: ((), ()), (), length=3)))(2.0) == 2.0


def test_checkpoints_of_every_step_change_nothing() -> None:
    def final(x: Any, every: int) -> Any:
        return wg.scan(lambda c, row: (c * row + x, c), x, np.array([0.5, 1.5, 2.0]), checkpoint=every)[0]

    assert wg.grad(final)(0.7, 1) == wg.grad(final)(0.7, 2) == wg.grad(final)(0.7, 5)
