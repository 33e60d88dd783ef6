"""Programs with loops and branches against JAX, to 1e-10: values, both modes, second order, compiled, batched."""

from __future__ import annotations

import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import wiregrad as wg
from wiregrad.errors import InterpreterWarning

from ..support.loop_programs import FORWARD_ONLY, PROGRAMS, SIZE
from ..support.sampling import mark_full

POINT = np.array([0.83, 0.61, 0.37, 0.72, 0.29, 0.55])
OTHER = np.array([0.31, 0.45, 0.94, 0.22, 0.67, 0.58])
DIRECTION = np.linspace(-1.0, 1.0, SIZE)
NAMES = [name if k % 6 == 0 else mark_full(name) for k, name in enumerate(PROGRAMS)]
"""One of six programs in the usual run, all of them in the full one."""


BOUNDED = frozenset(["while_in_scan"])
"""Programs whose second derivative needs a bound of a while loop: JAX has no reverse mode for them at all."""


def ours(name: str) -> Any:
    """Return a program on wiregrad."""
    loops = SimpleNamespace(
        **{form: getattr(wg, form) for form in ("scan", "fori_loop", "while_loop", "cond", "switch")}
    )
    if name in BOUNDED:
        loops.while_loop = partial(wg.while_loop, limit=20)
    return lambda p: PROGRAMS[name](np, loops, p)


def theirs(name: str) -> Any:
    """Return a program on JAX."""
    return lambda p: PROGRAMS[name](jnp, lax, jnp.asarray(p))


def assert_close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-10, atol=1e-11)


def jax_gradient(name: str) -> Any:
    return (jax.jacfwd if name in FORWARD_ONLY else jax.grad)(theirs(name))


def test_there_are_sixty_programs_or_more() -> None:
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("point", [POINT, pytest.param(OTHER, marks=pytest.mark.full)], ids=["one", "two"])
def test_values_and_derivatives_agree_with_jax(name: str, point: Any) -> None:
    f = ours(name)
    gradient = jax_gradient(name)(point)
    second = jax.jvp(jax_gradient(name), (point,), (DIRECTION,))[1]

    assert_close(f(point), theirs(name)(point))
    assert_close(wg.grad(f)(point), gradient)
    assert_close(wg.jvp(f, (point,), (DIRECTION,))[1], gradient @ DIRECTION)
    assert_close(wg.jvp(wg.grad(f), (point,), (DIRECTION,))[1], second)
    assert_close(wg.grad(lambda p: np.sum(wg.grad(f)(p) * DIRECTION))(point), second)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_values_and_gradients_agree_with_jax(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterpreterWarning)
        value = wg.compile(ours(name))
        gradient = wg.compile(wg.grad(ours(name)))
        for point in (POINT, POINT, OTHER):
            assert_close(value(point), theirs(name)(point))
            assert_close(gradient(point), jax_gradient(name)(point))


@pytest.mark.parametrize("name", NAMES)
def test_batches_agree_with_jax(name: str) -> None:
    points = np.stack([POINT, OTHER, 0.5 * (POINT + OTHER)])

    assert_close(wg.vmap(ours(name))(points), [theirs(name)(point) for point in points])
    assert_close(wg.vmap(wg.grad(ours(name)))(points), [jax_gradient(name)(point) for point in points])
