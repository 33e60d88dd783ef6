"""What people write with a recorded number as if it were something else, and what they are told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import EscapeError, IndexingError, OperandError

NUMBERS = {
    "a Python float": 2.0,
    "a NumPy float": np.float64(2.0),
    "a float32": np.float32(2.0),
    "a complex number": 2.0 + 1.0j,
    "an array without axes": np.array(2.0),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_recorded_number_has_no_length_and_is_not_iterable(kind: str) -> None:
    x = wg.Value(NUMBERS[kind])

    for number in (x, x * x):
        assert not hasattr(number, "__len__")
        assert not isinstance(number, Iterable)
        assert isinstance(number, wg.Value)


def test_a_traced_number_has_no_length_and_is_not_iterable() -> None:
    seen: list[Any] = []
    wg.trace(lambda x: seen.extend([x, x * x, np.sin(x)]) or x, 2.0)

    assert not any(hasattr(number, "__len__") or isinstance(number, Iterable) for number in seen)


def test_a_recorded_array_has_a_length_and_is_iterable() -> None:
    x = wg.Value(np.ones(3))

    assert (len(x), len(list(x))) == (3, 3)
    assert isinstance(x, Iterable)


MISUSES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "length": (len, "a number has no length"),
    "loop": (lambda x: [part for part in x], "one number, without elements"),  # noqa: C416 - a loop is what is tested
    "sum": (sum, "one number, without elements"),
    "unpacking": (lambda x: max(*x), "one number, without elements"),
    "membership": (lambda x: 1.0 in x, "one number, without elements"),
    "call": (lambda x: x(2.0), r"not callable: it is a number or an array; where an operator is missing"),
    "comparison with text": (lambda x: x < "a", "compare a recorded value with a number or an array"),
    "comparison with None": (lambda x: x < None, "compare a recorded value with a number or an array"),
    "power with a modulus": (lambda x: pow(x, 2, 3), r"write \(x \*\* n\) % m"),
    "percent d": (lambda x: "%d" % x, r'write an f-string, as in f"\{v:.0f\}"'),  # noqa: UP031
    "sum with text": (lambda x: x + "a", "add wants values, numbers or arrays; got str 'a'"),
    "matrix product": (lambda x: x @ x, r"use \* for numbers"),
}


@pytest.mark.parametrize("habit", MISUSES)
def test_a_misused_number_is_answered_with_what_to_write(habit: str) -> None:
    f, message = MISUSES[habit]

    with pytest.raises((TypeError, ValueError), match=f"(?s){message}.*recorded at .*test_number_habits") as raised:
        wg.grad(lambda x: f(x) and x)(3.0)

    assert "Scalar" not in str(raised.value)


def test_python_calls_every_recorded_number_a_value() -> None:
    for number in NUMBERS.values():
        with pytest.raises(TypeError, match="'Value' object is not callable"):
            wg.Value(number)(1.0)  # type: ignore[operator]


@pytest.mark.parametrize("round_off", [int, math.floor, math.ceil, math.trunc, range, [1, 2, 3].__getitem__])
def test_a_number_where_a_whole_one_is_wanted_names_one_that_works(round_off: Callable[[Any], Any]) -> None:
    with pytest.raises(EscapeError, match=r"write int\(v.item\(\)\)"):
        wg.grad(lambda x: x * bool(round_off(x)))(2.0)


def test_item_takes_an_index_as_numpys_does() -> None:
    numbers = np.arange(6.0).reshape(2, 3)
    x = wg.Value(numbers)

    for index in ((4,), (-1,), (1, 2), ((1, 0),)):
        assert x.item(*index) == numbers.item(*index)
        assert type(x.item(*index)) is float


def test_an_item_is_no_part_of_the_gradient() -> None:
    x = np.array([1.0, 2.0, 3.0])

    assert wg.grad(lambda x: np.sum(x * x.item(1)))(x).tolist() == [2.0] * 3
    fast = wg.compile(lambda x: x * x.item(1))
    assert [fast(x).tolist(), fast(x + 1).tolist()] == [[2.0, 4.0, 6.0], [6.0, 9.0, 12.0]]


def test_item_refuses_what_is_no_index() -> None:
    x = wg.Value(np.ones((2, 1)))

    with pytest.raises(IndexingError, match="one for each of the 2 axes; got 1"):
        x.item((1,))
    with pytest.raises(IndexingError, match="out of bounds"):
        x.item(2)


VECTORIZED: dict[str, Callable[[Any], Any]] = {
    "an array": lambda x: np.sum(np.vectorize(lambda t: t * t, otypes=[float])(x)),
    "a number": lambda x: np.vectorize(lambda t: t * t, otypes="d")(x[0]),
    "a value from outside": lambda x: np.sum(np.vectorize(lambda t: t * x[1], otypes=[float])(np.ones(3))),
    "two results": lambda x: np.sum(np.prod(np.vectorize(lambda t: (t, 2 * t), otypes=[float, float])(x), axis=0)),
    "as a decorator": lambda x: np.sum(np.vectorize(otypes=[float])(lambda t: t**3)(x)),
    "an excluded argument": lambda x: np.sum(np.vectorize(lambda t, k: k * t, otypes=[float], excluded={1})(x, 3.0)),
}


@pytest.mark.parametrize("program", VECTORIZED)
def test_vectorize_with_types_of_results_keeps_gradients(program: str) -> None:
    f = VECTORIZED[program]
    x = np.array([1.0, 2.0, 3.0])
    slopes = [(f(x + step) - f(x - step)) / 2e-6 for step in 1e-6 * np.eye(3)]

    np.testing.assert_allclose(wg.grad(f)(x), slopes, rtol=1e-6, atol=1e-8)


def test_vectorize_gives_results_the_types_that_were_asked_for() -> None:
    def f(x: Any) -> Any:
        single = np.vectorize(lambda t: t * x, otypes=[np.float32])(np.ones(2))
        whole = np.vectorize(lambda t: 2.5 * t, otypes=[int])(np.ones(2))
        assert (single.dtype, whole.dtype, whole.tolist()) == (np.float32, np.int64, [2, 2])
        return np.sum(single)

    assert wg.grad(f)(2.0) == 2.0


def test_text_of_a_number_is_no_operand() -> None:
    with pytest.raises(OperandError, match="compare a recorded value"):
        wg.grad(lambda x: x if x > "1" else -x)(2.0)
