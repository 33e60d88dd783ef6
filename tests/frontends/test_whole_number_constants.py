"""Arrays of whole numbers that a function computes with become constants of real numbers, as native code wants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

MATRIX = np.array([[0, 1, 2], [1, 0, 3], [2, 2, 5]])
POINT = np.array([1.2, 2.3, 3.4])


def turn(x: Any) -> Any:
    c, s = np.cos(x[0]), np.sin(x[0])
    return np.sum((np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ x) ** 3)


def fill(x: Any) -> Any:
    table = np.zeros((2, 3))
    table[0] = x
    table[1] = np.arange(3)
    return np.sum(table**2)


COMPUTED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: np.sum(x * np.arange(3)),
    "sum": lambda x: np.sum((x + np.arange(3)) ** 2),
    "quotient": lambda x: np.sum(np.arange(3) / x),
    "remainder": lambda x: np.sum(x % np.array([2, 3, 5])),
    "power": lambda x: np.sum(x ** np.arange(3)),
    "exponential": lambda x: np.sum(np.arange(1, 4) ** x),
    "maximum": lambda x: np.sum(np.maximum(x, np.arange(3)) ** 2),
    "matrix on the left": lambda x: np.sum((MATRIX @ x) ** 2),
    "matrix on the right": lambda x: np.sum((x @ MATRIX) ** 2),
    "einsum": lambda x: np.einsum("ij,j,j->", MATRIX, x, x),
    "outer": lambda x: np.sum(np.outer(x, np.arange(3)) ** 2),
    "where": lambda x: np.sum(np.where(x > 1.5, x**2, np.arange(3))),
    "array": lambda x: np.sum(np.array([x[0], 0, x[1]]) ** 2),
    "rotation": turn,
    "concatenate": lambda x: np.sum(np.concatenate([x, np.arange(3)]) ** 2),
    "stack": lambda x: np.sum(np.stack([x, np.arange(3)]) ** 2),
    "append": lambda x: np.sum(np.append(x, 1) ** 2),
    "fill": fill,
    "small integers": lambda x: np.sum(x * np.arange(3, dtype=np.int8)),
    "unsigned": lambda x: np.sum(x * np.arange(3, dtype=np.uint32)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_whole_numbers_that_are_computed_with_are_constants_of_real_numbers(name: str) -> None:
    f = COMPUTED[name]
    circuit = wg.trace(f, POINT)
    fast = wg.compile(f)
    plain = wg.value_and_grad(f)

    assert "int" not in circuit.to_text()
    assert circuit(x=POINT) == f(POINT)
    assert circuit.expand()(POINT) == pytest.approx(f(POINT), rel=1e-14)
    for x in (POINT, POINT + 0.25, POINT):
        value, slope = fast.value_and_grad(x)
        assert value == pytest.approx(f(x), rel=1e-14)
        np.testing.assert_allclose(slope, plain(x)[1], 1e-13)


KEPT: dict[str, Callable[[Any], Any]] = {
    "take": lambda x: np.sum(np.take(x, np.array([2, 0, 0])) ** 2),
    "an index": lambda x: np.sum(x[np.array([2, 0, 0])] ** 2),
    "along": lambda x: np.sum(np.take_along_axis(x, np.array([2, 0, 0]), 0) ** 2),
    "put": lambda x: np.sum(wg.put(x, np.array([0, 2]), 1.5) ** 2),
}


@pytest.mark.parametrize("name", KEPT)
def test_whole_numbers_that_choose_elements_stay_whole(name: str) -> None:
    f = KEPT[name]
    fast = wg.compile(f)

    assert wg.trace(f, POINT)(x=POINT) == f(POINT)
    for x in (POINT, POINT + 0.25):
        assert fast(x) == pytest.approx(f(x), rel=1e-14)


def test_whole_numbers_beside_float32_give_what_numpy_gives() -> None:
    x = POINT.astype(np.float32)
    for f in (lambda x: x * np.arange(3), lambda x: x * np.arange(3, dtype=np.int8), lambda x: np.array([x[0], 2])):
        y = wg.trace(f, x)(x=x)

        assert y.dtype == f(x).dtype
        np.testing.assert_array_equal(y, f(x))


def test_numbers_too_large_for_a_float_are_rounded_as_numpy_rounds_them() -> None:
    large = np.array([2**53 + 1, 2**62 + 1, -(2**53) - 1])

    np.testing.assert_array_equal(wg.trace(lambda x: x + large, POINT)(x=POINT), POINT + large)


def test_a_function_of_the_user_gets_whole_numbers() -> None:
    class Pick(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, table: Any) -> Any:
            return x * table[table[0]]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 7.0 * g, None

    table = np.array([1, 7])
    circuit = wg.trace(lambda x: Pick.apply(x, table), 2.0)

    assert circuit(x=2.0) == 14.0
    assert circuit.run(x=2.0).grads == {"x": 7.0}
