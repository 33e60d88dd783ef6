"""Compiled functions on np.float32: replayed by native code, with the numbers and types of plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.inspect.receipt import ulp_distances

from ..support.threads import run_in_threads


def arithmetic(x: Any, y: Any) -> Any:
    total = x * y + x / y - x
    for _ in range(5):
        total = total * x + y * np.float32(0.1)
    return total


def functions(x: Any, y: Any) -> Any:
    return np.tanh(x) * y + np.exp(x) * np.sin(y) + np.sqrt(y)


def branching(x: Any, y: Any) -> Any:
    return x * y if x > y else np.exp(y) - x


def clipped(x: Any, y: Any) -> Any:
    return np.maximum(x, y) * np.where(x > 0, x, y)


def draw_points(count: int) -> list[list[np.float32]]:
    table = np.random.default_rng(0).uniform(0.1, 2.0, (count, 2)).astype(np.float32)
    return [list(row) for row in table]


@pytest.mark.parametrize("f", [arithmetic, functions, branching, clipped])
def test_values_and_gradients_are_those_of_plain_python(f: Any) -> None:
    fast = wg.compile(f)
    far, kinds = [], set[type]()
    for point in draw_points(40):
        value, grad = wg.value_and_grad(f)(*point)
        found, slope = fast.value_and_grad(*point)
        kinds |= {type(found), type(slope)}
        numbers = np.array([found, slope], np.float32), np.array([value, grad], np.float32)
        far += [point] if (ulp_distances(*numbers) > 8).any() else []

    assert far == []
    assert kinds == {np.float32}
    assert "stencils" in str(fast.info)


def test_arithmetic_has_the_same_bits() -> None:
    fast = wg.compile(arithmetic)
    for point in draw_points(30):
        wanted = arithmetic(*point)
        found = fast(*point)

        assert type(found) is np.float32
        assert found.tobytes() == wanted.tobytes()


def test_other_numbers_are_not_rounded_to_float32() -> None:
    fast = wg.compile(arithmetic)
    single = fast(np.float32(0.1), np.float32(0.3))
    double = fast(0.1, 0.3)

    assert type(single) is np.float32
    assert double == arithmetic(0.1, 0.3)


def test_several_results_have_their_types() -> None:
    fast = wg.compile(lambda x, y: (x * y, x > y, x + y))
    for point in draw_points(6):
        found = fast(*point)

        assert [type(result) for result in found] == [np.float32, np.bool_, np.float32]
        assert found == (point[0] * point[1], point[0] > point[1], point[0] + point[1])


def test_threads_share_the_code() -> None:
    fast = wg.compile(functions)
    points = draw_points(6)
    wanted = [fast(*point) for point in points]
    wrong = list[int]()

    def compute_point(k: int) -> None:
        wrong.extend(k for _ in range(100) if fast(*points[k]) != wanted[k])

    run_in_threads(compute_point, range(6), interval=1e-5)

    assert wrong == []


def test_small_arrays_of_float32_still_run_natively() -> None:
    fast = wg.compile(lambda x: (x * x).sum())
    x = np.array([1.0, 2.0, 3.0], np.float32)
    for _ in range(3):
        found = fast(x)

    assert found == np.float32(14.0)
    assert "interpreter" not in str(fast.info)
