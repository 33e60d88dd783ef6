"""Solutions that start at an equilibrium have accurate derivatives, though their own steps have no error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

TIMES = np.array([0.0, 5.0])
RESTS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "growth": (lambda t, y: 2.0 * y, 0.0, np.exp(10.0)),
    "decay": (lambda t, y: -y, 0.0, np.exp(-5.0)),
    "another equilibrium": (lambda t, y: y * (1.0 - y), 1.0, np.exp(-5.0)),
    "a changing rate": (lambda t, y: np.cos(t) * y, 0.0, np.exp(np.sin(5.0))),
}


def end_state(f: Callable[..., Any], y0: Any, **options: Any) -> Any:
    return wg.odeint(f, y0, TIMES, **options).ys[-1]


@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
@pytest.mark.parametrize("name", RESTS)
def test_the_derivative_by_a_state_at_rest_is_accurate(name: str, method: str) -> None:
    f, rest, slope = RESTS[name]

    assert wg.grad(lambda y0: end_state(f, y0, method=method))(rest) == pytest.approx(slope, rel=1e-6)
    assert wg.jvp(lambda y0: end_state(f, y0, method=method), (rest,), (1.0,))[1] == pytest.approx(slope, rel=1e-6)
    assert end_state(f, rest, method=method) == pytest.approx(rest)


def test_compiled_and_second_derivatives_are_accurate_at_rest() -> None:
    def end(p: Any) -> Any:
        return wg.odeint(lambda t, y, rate: rate * y, p[0], TIMES, p[1]).ys[-1]

    p = np.array([0.0, 2.0])

    assert wg.compile(wg.grad(end))(p) == pytest.approx([np.exp(10.0), 0.0], rel=1e-6)
    assert wg.hessian(end)(p)[0, 1] == pytest.approx(5.0 * np.exp(10.0), rel=1e-6)


def test_vectors_at_rest_have_accurate_jacobians() -> None:
    turn = wg.jacobian(lambda y0: end_state(lambda t, y: np.stack([y[1], -y[0]]), y0))(np.zeros(2))
    c, s = np.cos(5.0), np.sin(5.0)

    assert np.allclose(turn, [[c, s], [-s, c]], atol=1e-7)


@pytest.mark.parametrize(
    "f", [lambda t, y: np.sqrt(np.abs(y)), lambda t, y: 0.0 * y, lambda t, y: y * y], ids=["root", "zero", "square"]
)
@pytest.mark.filterwarnings("ignore")
def test_rest_without_a_linear_motion_costs_few_steps(f: Callable[..., Any]) -> None:
    report = wg.odeint(f, 0.0, TIMES)

    assert report.ys[-1] == 0.0
    assert report.steps < 20
