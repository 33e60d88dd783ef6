"""Recorded numbers in caches, dicts, sets and texts: the answers of the plain function, or a typed error."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import EscapeError, OperandError


def total_with_cache(v: Any) -> Any:
    square = functools.lru_cache(None)(lambda e: e * e)
    return sum(square(e) for e in v)


def total_with_dict(v: Any) -> Any:
    known: dict[Any, Any] = {}
    for e in v:
        if e not in known:
            known[e] = e * e
    return sum(known[e] for e in v)


def count_distinct(v: Any) -> Any:
    return v[0] * len({*v})


CACHED = [total_with_cache, total_with_dict, count_distinct]
TRANSFORMS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "grad": wg.grad,
    "jvp": lambda f: lambda v: wg.jvp(f, (v,), (np.ones_like(v),))[1],
    "hessian": wg.hessian,
    "trace": lambda f: lambda v: wg.run(f, v).grads["v"],
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", CACHED)
def test_equal_numbers_computed_in_different_ways_are_not_taken_for_one_another(f: Any, transform: str) -> None:
    with pytest.raises(OperandError, match="equals this one"):
        TRANSFORMS[transform](f)(np.array([2.0, 2.0, 3.0]))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", CACHED)
def test_different_numbers_are_looked_up_each_by_itself(f: Any, transform: str) -> None:
    v = np.array([2.0, 2.5, 3.0])
    plain: Callable[[Any], Any] = (lambda v: v[0] * 3.0) if f is count_distinct else (lambda v: np.sum(v * v))

    np.testing.assert_allclose(TRANSFORMS[transform](f)(v), TRANSFORMS[transform](plain)(v), rtol=1e-14)


def test_one_number_is_found_again_in_a_cache() -> None:
    def f(x: Any) -> Any:
        square = functools.lru_cache(None)(lambda e: e * e)
        return square(x) + square(x) * square(x)

    assert wg.grad(f)(2.0) == 4.0 + 32.0


def test_a_cache_does_not_confuse_nested_transforms() -> None:
    square = functools.lru_cache(None)(lambda e: e * e)

    with pytest.raises(OperandError, match="equals this one"):
        wg.grad(lambda x: square(x) * wg.grad(square)(x))(2.0)


def read_function_cache(number: Any) -> Callable[[Any], Any]:
    square = functools.lru_cache(None)(lambda e: e * e)
    square(number)
    return square


def read_cache_by_keyword(number: Any) -> Callable[[Any], Any]:
    square = functools.lru_cache(None)(lambda e: e * e)
    square(e=number)
    return lambda x: square(e=x)


def read_dict_that_is_filled(number: Any) -> Callable[[Any], Any]:
    known = {number: number * number}

    def square(x: Any) -> Any:
        if x not in known:
            known[x] = x * x
        return known[x]

    return square


def read_dict_with_pairs(number: Any) -> Callable[[Any], Any]:
    known = {(number, "a"): number}

    def square(x: Any) -> Any:
        return known.setdefault((x, "a"), x * x)

    return square


def read_method_cache(number: Any) -> Callable[[Any], Any]:
    class Model:
        @functools.cache  # noqa: B019 - as users write it
        def scale(self, x: Any) -> Any:
            return x * x

        def loss(self, x: Any) -> Any:
            return self.scale(x) * 2.0

    model = Model()
    model.scale(number)
    return model.loss


READERS = [
    read_function_cache,
    read_cache_by_keyword,
    read_dict_that_is_filled,
    read_dict_with_pairs,
    read_method_cache,
]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("number", [float, np.float64])
@pytest.mark.parametrize("make", READERS)
def test_what_a_cache_holds_for_a_plain_number_is_not_returned_for_a_recorded_one(
    make: Any, number: type, transform: str
) -> None:
    f = make(number(2))
    point = np.float64(2.0) if number is np.float64 else 2.0

    for _ in range(20):  # Python changes the instructions of code that has run a few times
        with pytest.raises(OperandError, match=r"is a plain one.*look up wg\.stop_gradient\(v\)"):
            TRANSFORMS[transform](f)(point)


@pytest.mark.parametrize("make", READERS)
def test_a_number_that_is_cut_off_is_looked_up_among_plain_ones(make: Any) -> None:
    f = make(2.0)

    assert wg.grad(lambda x: f(wg.stop_gradient(x)) + x * x)(2.0) == 4.0


def test_a_recorded_number_may_be_looked_up_in_a_table_of_plain_ones() -> None:
    known = {2.0: 1.0, 3.0: 4.0}

    for x in (2.0, np.float64(3.0)):
        assert wg.grad(lambda x: x * x if x in known else x)(x) == 2.0 * x
        assert wg.grad(lambda x: x * len({x, 2.0, 3.0}))(x) == 2.0
        assert wg.grad(lambda x: x * known[x])(x) == known[x]
        assert wg.grad(lambda x: x * known.get(x, 0.0))(x) == known[x]


def test_numbers_are_still_compared_where_nothing_is_looked_up() -> None:
    def f(x: Any, y: Any) -> Any:
        known = {1.0: 3.0}.get(x, 5.0)
        return known * x if x == y else y

    assert wg.grad(f)(2.0, 2.0) == 5.0
    assert wg.grad(lambda x: x * 2.0 if x == x * 1.0 else x)(2.0) == 2.0


@pytest.mark.parametrize("number", [float, np.float64])
@pytest.mark.parametrize("text", [str, lambda x: f"{x}", "%s".__mod__, "{}".format, lambda x: f"{x:.1f}"])
def test_text_of_a_number_is_that_of_the_plain_one(text: Callable[[Any], str], number: type) -> None:
    def f(x: Any) -> Any:
        return x * {"1.5": 2.0, "2.5": 3.0}.get(text(x), 0.0)

    fast = wg.compile(f)
    for x in map(number, (1.5, 2.5, 1.5, 4.0)):
        assert (wg.value_and_grad(f)(x)[0], fast(x)) == (f(x), f(x))


@pytest.mark.parametrize(
    "f",
    [
        lambda z: wg.run(lambda x: x**3, z).grads["x"],
        lambda z: wg.run(lambda x: z * x * x, 2.0).grads["x"],
        lambda z: wg.trace(lambda x: x * x, z)(x=2.0) * z,
    ],
)
def test_a_circuit_of_what_is_being_differentiated_is_refused(f: Any) -> None:
    with pytest.raises(EscapeError, match="silently lost"):
        wg.grad(f)(4.0)


@pytest.mark.parametrize(
    "constant",
    [
        np.array([1 + 2j, 3 - 1j], np.complex64),
        np.array([2**63, 5], np.uint64),
        np.array([7, 200], np.uint8),
        np.array([-7, 100], np.int16),
        np.array([0.5, -2.0], np.float16),
        np.complex64(1 + 2j),
    ],
)
def test_constants_of_any_dtype_keep_their_numbers_in_a_trace(constant: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.abs(x * constant))

    assert wg.trace(f, 2.0)(x=2.0) == pytest.approx(float(f(2.0)), rel=1e-6)
    assert wg.run(f, 2.0).grads["x"] == pytest.approx(float(f(2.0)) / 2.0, rel=1e-6)
