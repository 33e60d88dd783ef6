"""Forward mode: what no argument reaches has no tangent, so that an infinite slope there does not make NaN of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

X = np.array([1.0, 4.0])


def fill(x: Any) -> Any:
    y = np.zeros(3)
    y[1:] = x
    return y


def fill_diagonal(x: Any) -> Any:
    y = np.zeros((2, 2))
    np.fill_diagonal(y, x)
    return y


MOVES: list[Callable[[Any], Any]] = [
    fill,
    fill_diagonal,
    lambda x: np.pad(x, (1, 2)),
    lambda x: np.concatenate([np.zeros(1), x, np.zeros(2)]),
    np.diag,
    lambda x: np.stack([x, np.zeros(2)]),
    lambda x: np.array([[x[0], 0.0], [0.0, x[1]]]),
    lambda x: np.insert(x, 1, 0.0),
    lambda x: np.append(x, 0.0),
    lambda x: np.block([[np.diag(x), np.zeros((2, 1))], [np.zeros((1, 3))]]),
    lambda x: wg.put(np.zeros(3), 1, x[0]),
    lambda x: np.where(np.array([True, False]), x, 0.0),
    lambda x: np.roll(np.append(x, 0.0), 1),
    lambda x: np.cumsum(np.pad(x, 1)),
    lambda x: np.sum(np.stack([np.pad(x, 1), np.pad(x, 1)]), axis=0),
    lambda x: np.tile(np.pad(x, 1), 2),
    lambda x: np.broadcast_to(np.pad(x, 1), (2, 4)),
    lambda x: np.pad(x, 1)[[0, 2, 1, 0, 3]],
    lambda x: np.take_along_axis(np.pad(x, 1), np.array([3, 0, 1]), 0),
    lambda x: np.sort(np.append(x, 0.0)),
    lambda x: np.pad(x, 1).reshape(2, 2).T,
    lambda x: 2.0 * np.pad(x, 1) + np.append(np.zeros(2), x),
    lambda x: np.lib.stride_tricks.sliding_window_view(np.pad(x, 2), 2),
]
SINGULAR: list[Callable[[Any], Any]] = [
    np.sqrt,
    np.log,
    np.cbrt,
    lambda y: y**0.5,
    lambda y: 1.0 / y,
    lambda y: y / y,
    lambda y: np.sqrt(y) * np.log(y),
    lambda y: np.arccosh(1.0 + y),
]
MODES = ["jacobian", "jacfwd", "compiled", "vmapped jvp", "linearize", "inside grad"]


def jacobian_by(how: str, f: Callable[[Any], Any], x: Any) -> Any:
    """Return a Jacobian by a transform that sweeps forward."""
    if how in ("jacobian", "jacfwd"):
        return getattr(wg, how)(f)(x)
    if how == "compiled":
        return wg.compile(f).jacobian(x)
    if how == "vmapped jvp":
        columns = wg.vmap(lambda t: wg.jvp(f, (x,), (t,))[1])(np.eye(len(x)))
        return np.moveaxis(columns, 0, -1)
    if how == "linearize":
        push = wg.linearize(f, x)[1]
        return np.stack([push(unit) for unit in np.eye(len(x))], axis=-1)
    return wg.vjp(wg.jacfwd(f), x)[0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::wiregrad.errors.InterpreterWarning")
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("how", MODES)
def test_elements_that_no_argument_reaches_have_no_tangent(how: str, move: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        return np.sqrt(move(x))

    found = jacobian_by(how, f, X)

    assert not np.isnan(found).any()
    np.testing.assert_allclose(found, wg.jacrev(f)(X), rtol=1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("singular", SINGULAR)
def test_singular_functions_of_constants_have_no_tangent(
    singular: Callable[[Any], Any], move: Callable[[Any], Any]
) -> None:
    def f(x: Any) -> Any:
        return singular(move(x))

    t = np.array([0.7, -1.3])

    np.testing.assert_allclose(wg.jacfwd(f)(X), wg.jacrev(f)(X), rtol=1e-14)
    np.testing.assert_allclose(wg.jvp(f, (X,), (t,))[1], wg.jacrev(f)(X) @ t, rtol=1e-13, atol=1e-13)


def draw_moves(rng: np.random.Generator) -> Callable[[Any], Any]:
    """Return a random chain of functions that move elements and put zeros beside them."""
    rows: list[Callable[[Any], Any]] = [
        lambda y: np.pad(y, 1),
        lambda y: np.concatenate([y, np.zeros(1)]),
        lambda y: np.diag(y).reshape(-1),
        lambda y: np.roll(y, 1),
        lambda y: y[::-1],
        lambda y: np.tile(y, 2),
        lambda y: y[rng_index % len(y) :],
        lambda y: np.stack([y, np.zeros(len(y))]).T.reshape(-1),
        lambda y: np.repeat(y, 2),
        lambda y: y + np.roll(y, 2),
        lambda y: np.where(np.arange(len(y)) % 2 == 0, y, 0.0),
        np.cumsum,
        lambda y: np.maximum(y, 0.0),
    ]
    rng_index = int(rng.integers(0, 2))
    chosen = [rows[k] for k in rng.integers(0, len(rows), 4)]

    def apply_all(x: Any) -> Any:
        for row in chosen:
            x = row(x)
        return x

    return apply_all


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(60))
def test_both_modes_agree_on_random_moves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    move = draw_moves(rng)
    singular = SINGULAR[seed % len(SINGULAR)]
    x = rng.uniform(0.1, 0.9, size=3)

    def f(x: Any) -> Any:
        return singular(move(x))

    forward = wg.jacfwd(f)(x)

    np.testing.assert_allclose(forward, wg.jacrev(f)(x), rtol=1e-12)
    np.testing.assert_allclose(wg.jvp(f, (x,), (np.ones(3),))[1], forward.sum(1), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_products_that_are_zero_are_still_nan_at_an_infinite_slope() -> None:
    def f(x: Any) -> Any:
        return np.sqrt(np.append(x * x, 0.0))

    tangent = wg.jvp(f, (np.array([0.0, 2.0]),), (np.ones(2),))[1]

    assert np.isnan(tangent[0])
    assert tangent[1:].tolist() == [1.0, 0.0]
