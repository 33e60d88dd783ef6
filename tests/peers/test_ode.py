"""Differential equations beside JAX: fine fixed steps that `lax.scan` runs and JAX differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import wiregrad as wg
from wiregrad.frontends.transforms.ode_steps import DORMAND_PRINCE


class PeerSystem(NamedTuple):
    """A system written for any array module, its start, its end and its parameters."""

    slope: Callable[..., Any]
    start: list[float]
    end: float
    parameters: list[float]
    method: str = "dopri5"


def couple(m: Any, t: Any, y: Any, p: Any) -> Any:
    """Return the slopes of two coupled pendulums."""
    pull = p[1] * (y[2] - y[0])
    return m.stack([y[1], -p[0] * m.sin(y[0]) + pull, y[3], -p[0] * m.sin(y[2]) - pull])


def orbit(m: Any, t: Any, y: Any, p: Any) -> Any:
    """Return the slopes of a planet."""
    cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return m.stack([y[2], y[3], -p[0] * y[0] / cube, -p[0] * y[1] / cube])


SYSTEMS = {
    "prey and predators": PeerSystem(
        lambda m, t, y, p: m.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[2] * y[0] - p[3])]),
        [1.0, 1.0],
        2.0,
        [1.5, 1.0, 1.0, 3.0],
    ),
    "Lorenz": PeerSystem(
        lambda m, t, y, p: m.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]),
        [1.0, 1.0, 1.0],
        0.6,
        [10.0, 28.0, 8.0 / 3.0],
    ),
    "van der Pol": PeerSystem(
        lambda m, t, y, p: m.stack([y[1], p[0] * (1.0 - y[0] ** 2) * y[1] - y[0]]), [2.0, 0.5], 2.0, [1.5]
    ),
    "stiff van der Pol": PeerSystem(
        lambda m, t, y, p: m.stack([y[1], p[0] * (1.0 - y[0] ** 2) * y[1] - y[0]]), [2.0, 0.0], 1.0, [30.0], "rodas5p"
    ),
    "coupled pendulums": PeerSystem(couple, [1.0, 0.0, -0.3, 0.2], 2.0, [2.0, 0.7]),
    "orbit": PeerSystem(orbit, [1.0, 0.0, 0.1, 0.9], 2.0, [1.1]),
    "forced and damped": PeerSystem(
        lambda m, t, y, p: m.stack([y[1], p[0] * m.cos(p[1] * t) - p[2] * y[1] - y[0] ** 3]),
        [0.5, 0.0],
        2.0,
        [0.4, 1.3, 0.2],
    ),
    "pulse": PeerSystem(
        lambda m, t, y, p: m.stack([-p[0] * y[0] + m.exp(-((t - p[1]) ** 2) * 4.0), p[0] * y[0] - y[1]]),
        [0.1, 0.0],
        2.0,
        [0.8, 1.0],
    ),
}


def solve_by_jax(system: PeerSystem, start: Any, parameters: Any, steps: int = 4_000) -> Any:
    """Return the last state by Dormand and Prince's formula, with many steps of one length."""
    h = system.end / steps

    def advance(y: Any, k: Any) -> Any:
        slopes = [system.slope(jnp, k * h, y, parameters)]
        for node, row in zip(DORMAND_PRINCE.nodes, DORMAND_PRINCE.rows, strict=True):
            point = y + h * jnp.asarray(row) @ jnp.stack(slopes)
            slopes.append(system.slope(jnp, (k + node) * h, point, parameters))
        return y + h * jnp.asarray(DORMAND_PRINCE.weights) @ jnp.stack(slopes), None

    return lax.scan(advance, start, jnp.arange(float(steps)))[0]


@pytest.mark.parametrize("name", SYSTEMS)
def test_solutions_and_gradients_agree_with_jax(name: str) -> None:
    system = SYSTEMS[name]
    start, parameters = np.array(system.start), np.array(system.parameters)
    slope = wg.compile(lambda t, y, p: system.slope(np, t, y, p))
    weights = np.arange(1.0, len(start) + 1.0)

    def lose(y0: Any, p: Any) -> Any:
        solved = wg.odeint(slope, y0, [0.0, system.end], p, method=system.method, rtol=1e-11, atol=1e-12)
        return np.sum(weights * solved.ys[-1])

    found = wg.value_and_grad(lose, argnums=(0, 1))(start, parameters)
    wanted = jax.jit(jax.value_and_grad(lambda y0, p: jnp.sum(weights * solve_by_jax(system, y0, p)), argnums=(0, 1)))(
        jnp.asarray(start), jnp.asarray(parameters)
    )

    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-8)
    for one, other in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8)
