"""Entries of Jacobians and Hessians off the diagonal are 0 where a slope elsewhere is infinite, and not NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

SIZES = (2, 6)
"""A vector whose unit vectors are swept one by one, and one whose unit vectors are swept together."""
INFINITE: dict[str, tuple[Callable[[Any], Any], float]] = {
    "sqrt": (np.sqrt, 0.0),
    "cbrt": (np.cbrt, 0.0),
    "log": (np.log, 0.0),
    "arcsin": (np.arcsin, 1.0),
    "arccosh": (np.arccosh, 1.0),
    "power": (lambda x: x**0.5, 0.0),
    "chain": (lambda x: 2.0 * np.sqrt(3.0 * x), 0.0),
}
WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "forward": lambda f: wg.jacobian(f, mode="forward"),
    "reverse": lambda f: wg.jacobian(f, mode="reverse"),
    "compiled": lambda f: wg.compile(wg.jacobian(f)),
    "of a compiled function": lambda f: wg.jacobian(wg.compile(f)),
    "method": lambda f: wg.compile(f).jacobian,
    "with values": lambda f: lambda x: wg.compile(f).value_and_jacobian(x)[1],
    "in vmap": lambda f: lambda x: wg.vmap(wg.jacobian(f))(x[None])[0],
}


def edge_point(at: float, size: int) -> Any:
    """Return a point whose first element has an infinite slope."""
    x = np.linspace(0.2, 0.7, size) + (2.0 if at == 1.0 else 0.0)
    x[0] = at
    return x


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", INFINITE)
@pytest.mark.filterwarnings("ignore")
def test_an_infinite_slope_stays_on_the_diagonal(name: str, way: str, size: int) -> None:
    f, at = INFINITE[name]
    x = edge_point(at, size) if name != "arcsin" else np.array([1.0, *np.linspace(0.2, 0.7, size - 1)])
    matrix = WAYS[way](f)(x)
    rest = np.diag(matrix)[1:]

    assert matrix[0, 0] == np.inf
    assert np.isfinite(rest).all()
    assert (rest != 0.0).all()
    assert np.count_nonzero(matrix) == size


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compiled", [False, True])
def test_hessians_have_zeros_off_the_diagonal(size: int, compiled: bool) -> None:
    x = edge_point(0.0, size)
    hessian = wg.hessian(lambda x: np.sum(x**1.5))
    matrix = (wg.compile(hessian) if compiled else hessian)(x)

    assert matrix[0, 0] == np.inf
    assert np.array_equal(np.diag(np.diag(matrix)), matrix)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("size", SIZES)
def test_blocks_of_several_arguments_and_shapes_have_zeros(mode: str, size: int) -> None:
    x = edge_point(0.0, size)
    matrix, other = wg.jacobian(lambda x, y: np.sqrt(x).reshape(1, -1) + y, argnums=(0, 1), mode=mode)(x, x)

    assert matrix.shape == (1, size, size)
    assert not np.isnan(matrix).any()
    assert np.array_equal(other[0], np.eye(size))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("size", SIZES)
def test_a_numeric_zero_times_infinity_stays_nan(mode: str, size: int) -> None:
    matrix = wg.jacobian(lambda x: np.sqrt(x) ** 2, mode=mode)(edge_point(0.0, size))

    assert np.isnan(matrix[0, 0])
    assert np.isnan(matrix).sum() == 1
