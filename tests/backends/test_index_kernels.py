"""Searches in rows, and moves by the places that they find, inside native code: the places of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends import interpreter
from wiregrad.backends.native_arrays.array_program import ArrayProgram
from wiregrad.dtypes import WireType
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder

RNG = np.random.default_rng(0)
ROWS = {
    "sorted": np.linspace(-2.0, 2.0, 13),
    "one number": np.array([0.5]),
    "ties": np.array([-1.0, 0.0, 0.0, 0.0, 1.0, 1.0]),
    "zeros of both signs": np.array([-0.0, 0.0, -0.0, 1.0]),
    "NaN last": np.array([-1.0, 0.0, 1.0, np.nan, np.nan]),
    "infinite": np.array([-np.inf, -1.0, 1.0, np.inf]),
    "not sorted": RNG.normal(size=17),
    "NaN anywhere": np.array([0.0, np.nan, -1.0, 2.0, np.nan, 1.0]),
}
NUMBERS = {
    "a number": np.array(0.3),
    "a row": RNG.normal(size=40),
    "sorted": np.sort(RNG.normal(size=40)),
    "a matrix": RNG.normal(size=(3, 5)),
    "elements": np.array([0.0, -0.0, 1.0, -1.0, 0.5, np.nan, np.inf, -np.inf, np.nan, 0.0]),
}


def search(row: Any, x: Any, side: str) -> CircuitGraph:
    """Return a circuit that searches in a row."""
    builder = GraphBuilder(finite=False)
    ports = [builder.input(name, WireType(a.dtype, a.shape)) for name, a in (("row", row), ("x", x))]
    return builder.build(builder.apply(TABLE["searchsorted"].bind({"side": side}), *ports))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("row", ROWS)
def test_places_are_those_of_numpy(row: str, numbers: str, dtype: Any, side: str) -> None:
    """So they are in rows that are not sorted, where they depend on the steps of the search."""
    edges, x = ROWS[row].astype(dtype), NUMBERS[numbers].astype(dtype)
    program = ArrayProgram(search(edges, x, side), fenced=True)
    (found,) = program.run([edges, x])

    assert not program.facts.interpreted
    assert np.asarray(found).dtype == np.int64
    np.testing.assert_array_equal(found, np.searchsorted(edges, x, side=side))


def interpolate(x: Any, knots: Any, levels: Any) -> Any:
    return np.sum(np.interp(x, knots, levels) ** 2)


def take_rows(x: Any, knots: Any, levels: Any) -> Any:
    """Slices of a matrix, along its first axis."""
    places = np.searchsorted(knots[1:-1], x)
    return np.sum(np.outer(levels, np.arange(3.0))[places] * np.array([1.0, 2.0, 3.0]))


def take_columns(x: Any, knots: Any, levels: Any) -> Any:
    """Slices of a matrix, along its last axis, of computed numbers."""
    places = np.searchsorted(knots * 2.0, x * 2.0, side="right") - 0
    return np.sum(np.take(np.outer(np.arange(1.0, 4.0), np.tanh(np.append(levels, 2.0))), places, axis=1) * x)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "interpolation": interpolate,
    "slices of rows": take_rows,
    "slices of columns": take_columns,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [1, 2, 30])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_the_function(name: str, count: int, dtype: Any) -> None:
    f = PROGRAMS[name]
    rng = np.random.default_rng(count)
    args = [a.astype(dtype) for a in (2.0 * rng.normal(size=count), np.linspace(-2.0, 2.0, 9), rng.normal(size=9))]
    fast, plain = (wrap(f, argnums=(0, 1, 2)) for wrap in (wg.compile, wg.value_and_grad))
    tolerance = 1e-12 if dtype is np.float64 else 1e-4
    for _ in range(3):
        value, slopes = fast.value_and_grad(*args)
        wanted, wanted_slopes = plain(*args)

        np.testing.assert_allclose(value, wanted, rtol=tolerance)
        for found, slope in zip(slopes, wanted_slopes, strict=True):
            assert found.dtype == slope.dtype
            np.testing.assert_allclose(found, slope, rtol=tolerance, atol=tolerance)


def test_an_interpolation_is_native() -> None:
    fast = wg.compile(interpolate, argnums=(0, 1, 2))
    args = np.array([-3.0, 0.1, 0.5, 7.0]), np.linspace(-2.0, 2.0, 900), RNG.normal(size=900)
    fast.value_and_grad(*args)
    fast(*args)

    assert [(variant.tier, variant.reason) for variant in fast.info.variants] == [("arrays", "")]


def test_indices_that_may_be_out_of_bounds_are_left_to_numpy() -> None:
    def pick(x: Any, row: Any) -> Any:
        return np.sum(np.exp(row)[np.searchsorted(row, x)] ** 2)

    fast = wg.compile(pick)
    row = np.arange(5.0)

    for x in (np.array([0.5]), np.array([2.5]), np.array([3.0])):
        np.testing.assert_allclose(fast(x, row), pick(x, row))
    with pytest.raises(IndexError, match="out of bounds"):
        fast(np.array([9.0]), row)


def test_searches_in_a_loop_are_those_of_the_interpreter() -> None:
    """Rounds of an unrolled loop share one code."""
    knots, levels = np.linspace(-2.0, 2.0, 33), RNG.normal(size=33)

    def follow(x: Any) -> Any:
        for _ in range(40):
            x = x + 0.1 * np.interp(x, knots, levels)
        return np.sum(x * x)

    x = RNG.normal(size=70)
    circuit = wg.trace(follow, x)
    (wanted,) = interpreter.evaluate_outputs(circuit, [x], check=False).values()

    np.testing.assert_allclose(ArrayProgram(circuit, fenced=True).run([x])[0], wanted, rtol=1e-12)
    np.testing.assert_allclose(wg.compile(follow).value_and_grad(x)[1], wg.grad(follow)(x), rtol=1e-11)
