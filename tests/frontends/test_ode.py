"""Differential equations: states, event times and their derivatives against closed forms and sensitivity equations."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import wiregrad as wg
from wiregrad.errors import (
    BranchError,
    ConvergenceError,
    EscapeError,
    GradientError,
    NonFiniteError,
    OperandError,
    ShapeError,
    SingularError,
)
from wiregrad.frontends.transforms.ode_steps import METHODS

TIGHT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}
GRAVITY = 9.81


class OdeCase(NamedTuple):
    """A function whose result comes from `odeint`, the same in closed form, and a point."""

    solve: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    point: Any


class SensitivityCase(NamedTuple):
    """A system without closed form: its slopes, its two Jacobians, the start, the end, a parameter and the method."""

    slope: Callable[..., Any]
    by_state: Callable[..., Any]
    by_parameter: Callable[..., Any]
    start: Sequence[float]
    end: float
    parameter: float
    method: str


def solve_last(f: Callable[..., Any], y0: Any, ts: Any, *args: Any, **settings: Any) -> Any:
    """Return the last state."""
    ys = wg.odeint(f, y0, ts, *args, **{**TIGHT, **settings}).ys
    return wg.tree_map(lambda rows: rows[-1], ys)


def swing(t: Any, y: Any, k: Any = 1.0) -> Any:
    """Return the slopes of a harmonic oscillator."""
    return np.stack([y[1], -k * y[0]])


def fall(t: Any, y: Any) -> Any:
    """Return the slopes of free fall."""
    return np.stack([y[1], -GRAVITY + 0.0 * y[0]])


def lotka_volterra(t: Any, y: Any, p: Any) -> Any:
    """Return the slopes of prey and predators."""
    return np.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[2] * y[0] - p[3])])


def conserve_lotka_volterra(y: Any, p: Any) -> Any:
    """Return what prey and predators conserve."""
    return p[2] * y[0] - p[3] * np.log(y[0]) + p[1] * y[1] - p[0] * np.log(y[1])


def orbit(t: Any, y: Any, mass: Any) -> Any:
    """Return the slopes of a planet, position and velocity in one vector."""
    pull = -mass * y[:2] / np.sum(y[:2] ** 2) ** 1.5
    return np.concatenate([y[2:], pull])


def orbit_energy(y: Any, mass: Any) -> Any:
    """Return the energy of a planet."""
    return 0.5 * np.sum(y[2:] ** 2) - mass / np.sqrt(np.sum(y[:2] ** 2))


def matrix_of_chain(k: Any, count: int = 3) -> Any:
    """Return the matrix of masses between springs of stiffness k, positions and velocities in one vector."""
    springs = np.eye(count, k=1) - 2.0 * np.eye(count) + np.eye(count, k=-1)
    lower = np.hstack([springs, np.zeros((count, count))])
    return np.vstack([np.hstack([np.zeros((count, count)), np.eye(count)]), 0.0 * lower]) + k * np.vstack(
        [np.zeros((count, 2 * count)), lower]
    )


def conduct(count: int = 6) -> Any:
    """Return the matrix of heat between neighbours."""
    return (np.eye(count, k=1) - 2.0 * np.eye(count) + np.eye(count, k=-1)) * (count + 1) ** 2


def bounce(v0: Any, c: Any, end: float) -> Any:
    """Return a ball that is thrown up and keeps a share c of its speed at each bounce."""
    hit = wg.event(lambda t, y, c: y[0], direction=-1, restart=lambda t, y, c: np.stack([0.0 * y[0], -c * y[1]]))
    return wg.odeint(lambda t, y, c: fall(t, y), np.stack([0.0, v0]), [0.0, end], c, events=[hit], **TIGHT)


def bounce_exactly(v: Any, c: Any, end: float) -> Any:
    """Return the height of the ball at the end."""
    start = 0.0
    while start + 2.0 * v / GRAVITY < end:
        start, v = start + 2.0 * v / GRAVITY, c * v
    return v * (end - start) - 0.5 * GRAVITY * (end - start) ** 2


def fire(current: Any) -> Any:
    """Return the third spike of a neuron whose charge leaks and is reset at 1."""
    reset = wg.event(lambda t, y, i: y - 1.0, restart=lambda t, y, i: 0.0 * y)
    return wg.odeint(lambda t, y, i: i - y, 0.0, [0.0, 4.0], current, events=[reset], **TIGHT).event_times[0][2]


def heat_and_cool(power: Any) -> Any:
    """Return when a thermostat switches on again: it heats up to 2 and cools down to 1."""

    def slope(t: Any, y: Any, power: Any) -> Any:
        return {"heat": -y["heat"] + power * y["on"], "on": 0.0 * y["on"]}

    off = wg.event(
        lambda t, y, power: y["heat"] - 2.0, direction=1, restart=lambda t, y, power: {"heat": y["heat"], "on": 0.0}
    )
    on = wg.event(lambda t, y, power: y["heat"] - 1.0, direction=-1)
    result = wg.odeint(slope, {"heat": 1.5, "on": 1.0}, [0.0, 5.0], power, events=[off, on], **TIGHT)
    return result.event_times[1][0]


def dose_twice(rate: Any) -> Any:
    """Return how much is left at 2 of a drug that is given at 0 and at 0.7."""
    again = wg.event(lambda t, y, rate: t - 0.7, restart=lambda t, y, rate: y + 1.0)
    return solve_last(lambda t, y, rate: -rate * y, 1.0, [0.0, 2.0], rate, events=[again])


def land(angle: Any) -> Any:
    """Return how far a ball flies."""
    start = np.stack([0.0, 0.0, 10.0 * np.cos(angle), 10.0 * np.sin(angle)])
    ground = wg.event(lambda t, y: y[1], direction=-1)
    slope = lambda t, y: np.concatenate([y[2:], np.array([0.0, -GRAVITY])])  # noqa: E731
    return wg.odeint(slope, start, [0.0, 5.0], events=[ground], **TIGHT).event_states[0][0, 0]


def hang(length: Any) -> Any:
    """Return a quarter of the period of a pendulum that is let go at an angle of 1."""
    slope = lambda t, y, length: np.stack([y[1], -GRAVITY / length * np.sin(y[0])])  # noqa: E731
    bottom = wg.event(lambda t, y, length: y[0])
    return wg.odeint(slope, np.array([1.0, 0.0]), [0.0, 4.0], length, events=[bottom], **TIGHT).event_times[0][0]


QUARTER = float(mpmath.ellipk(mpmath.sin(0.5) ** 2))
MATRIX = np.array([[-0.4, 1.1], [-0.9, 0.2]])
CASES = {
    "decay": OdeCase(
        lambda k: solve_last(lambda t, y, k: -k * y, 1.5, [0.0, 2.0], k), lambda k: 1.5 * np.exp(-2.0 * k), 0.7
    ),
    "decay by its start": OdeCase(
        lambda y0: solve_last(lambda t, y: -0.3 * y, y0, [0.0, 2.0]), lambda y0: y0 * np.exp(-0.6), 1.2
    ),
    "decay of a value from outside": OdeCase(
        lambda k: solve_last(lambda t, y: -k * y, 1.0, [0.0, 1.0]), lambda k: np.exp(-k), 0.7
    ),
    "value from outside that is read late": OdeCase(
        lambda k: solve_last(lambda t, y: -k * y if t > 0.9 else -0.5 * y, 1.0, [0.0, 0.5]) * k,
        lambda k: k * np.exp(-0.25),
        0.7,
    ),
    "decay backwards": OdeCase(
        lambda k: solve_last(lambda t, y, k: -k * y, 1.0, [1.0, 0.0], k), lambda k: np.exp(k), 0.7
    ),
    "decay and supply": OdeCase(
        lambda p: solve_last(lambda t, y, p: p[0] - p[1] * y, 0.2, [0.0, 1.5], p),
        lambda p: p[0] / p[1] + (0.2 - p[0] / p[1]) * np.exp(-1.5 * p[1]),
        np.array([1.3, 0.6]),
    ),
    "logistic growth": OdeCase(
        lambda p: solve_last(lambda t, y, p: p[0] * y * (1.0 - y / p[1]), 0.1, [0.0, 2.0], p),
        lambda p: p[1] / (1.0 + (p[1] / 0.1 - 1.0) * np.exp(-2.0 * p[0])),
        np.array([1.4, 2.0]),
    ),
    "Gompertz growth": OdeCase(
        lambda p: solve_last(lambda t, y, p: p[0] * y * np.log(p[1] / y), 0.1, [0.0, 1.0], p),
        lambda p: p[1] * np.exp(np.log(0.1 / p[1]) * np.exp(-p[0])),
        np.array([0.9, 2.0]),
    ),
    "Bernoulli": OdeCase(
        lambda k: solve_last(lambda t, y, k: y - k * y**3, 0.5, [0.0, 1.0], k),
        lambda k: 1.0 / np.sqrt(k + (4.0 - k) * np.exp(-2.0)),
        0.7,
    ),
    "Riccati": OdeCase(
        lambda k: solve_last(lambda t, y, k: k * (1.0 + y * y), 0.1, [0.0, 1.0], k),
        lambda k: np.tan(k + np.arctan(0.1)),
        0.8,
    ),
    "growth that grows": OdeCase(
        lambda k: solve_last(lambda t, y, k: k * t * y, 1.0, [0.0, 1.5], k), lambda k: np.exp(1.125 * k), 0.8
    ),
    "forced decay": OdeCase(
        lambda w: solve_last(lambda t, y, w: -y + np.cos(w * t), 0.0, [0.0, 2.0], w),
        lambda w: (np.cos(2.0 * w) + w * np.sin(2.0 * w) - np.exp(-2.0)) / (1.0 + w * w),
        1.7,
    ),
    "tank that empties": OdeCase(
        lambda k: solve_last(lambda t, y, k: -k * np.sqrt(y), 2.0, [0.0, 1.0], k),
        lambda k: (np.sqrt(2.0) - 0.5 * k) ** 2,
        0.8,
    ),
    "decay of any order": OdeCase(
        lambda p: solve_last(lambda t, y, p: -(y**p), 1.0, [0.0, 1.0], p),
        lambda p: (1.0 + (p - 1.0)) ** (1.0 / (1.0 - p)),
        1.8,
    ),
    "fall with drag": OdeCase(
        lambda k: solve_last(lambda t, v, k: GRAVITY - k * v * v, 0.0, [0.0, 0.8], k),
        lambda k: np.sqrt(GRAVITY / k) * np.tanh(0.8 * np.sqrt(GRAVITY * k)),
        0.5,
    ),
    "oscillator": OdeCase(
        lambda k: solve_last(swing, np.array([1.0, 0.0]), [0.0, 2.0], k)[0], lambda k: np.cos(2.0 * np.sqrt(k)), 1.9
    ),
    "oscillator by its start": OdeCase(
        lambda y0: solve_last(swing, y0, [0.0, 1.3])[1],
        lambda y0: y0[1] * np.cos(1.3) - y0[0] * np.sin(1.3),
        np.array([0.4, -0.7]),
    ),
    "damped oscillator": OdeCase(
        lambda c: solve_last(lambda t, y, c: np.stack([y[1], -y[0] - 2.0 * c * y[1]]), np.array([1.0, 0.0]), [0, 2], c)[0],
        lambda c: np.exp(-2.0 * c)
        * (np.cos(2.0 * np.sqrt(1.0 - c * c)) + c / np.sqrt(1.0 - c * c) * np.sin(2.0 * np.sqrt(1.0 - c * c))),
        0.3,
    ),
    "forced oscillator": OdeCase(
        lambda w: solve_last(lambda t, y, w: np.stack([y[1], np.sin(w * t) - y[0]]), np.zeros(2), [0.0, 2.0], w)[0],
        lambda w: (np.sin(2.0 * w) - w * np.sin(2.0)) / (1.0 - w * w),
        2.2,
    ),
    "linear system by its matrix": OdeCase(
        lambda a: np.sum(solve_last(lambda t, y, a: a @ y, np.array([1.0, 0.5]), [0.0, 1.2], a) ** 2),
        lambda a: np.sum((wg.expm(1.2 * a) @ np.array([1.0, 0.5])) ** 2),
        MATRIX,
    ),
    "state that is a matrix": OdeCase(
        lambda a: np.sum(solve_last(lambda t, y, a: a @ y, np.eye(2), [0.0, 1.0], a) ** 3),
        lambda a: np.sum(wg.expm(a) ** 3),
        MATRIX,
    ),
    "turning body": OdeCase(
        lambda w: solve_last(lambda t, y, w: np.cross(w, y), np.array([1.0, 0.2, -0.3]), [0.0, 1.0], w)[1],
        lambda w: (
            wg.expm(
                np.stack([0.0, -w[2], w[1], w[2], 0.0, -w[0], -w[1], w[0], 0.0]).reshape(3, 3)
            )
            @ np.array([1.0, 0.2, -0.3])
        )[1],
        np.array([0.4, -0.8, 1.1]),
    ),
    "chain of masses": OdeCase(
        lambda k: np.sum(solve_last(lambda t, y, k: matrix_of_chain(k) @ y, np.arange(6.0), [0.0, 1.0], k) ** 2),
        lambda k: np.sum((wg.expm(matrix_of_chain(k)) @ np.arange(6.0)) ** 2),
        1.4,
    ),
    "chain of decays": OdeCase(
        lambda p: solve_last(
            lambda t, y, p: np.stack([-p[0] * y[0], p[0] * y[0] - p[1] * y[1]]), np.array([1.0, 0.0]), [0.0, 1.5], p
        )[1],
        lambda p: p[0] / (p[1] - p[0]) * (np.exp(-1.5 * p[0]) - np.exp(-1.5 * p[1])),
        np.array([0.8, 0.3]),
    ),
    "state in a dict": OdeCase(
        lambda k: solve_last(
            lambda t, y, p: {"x": y["v"], "v": -p["k"] * y["x"]}, {"x": 1.0, "v": 0.0}, [0.0, 2.0], {"k": k}
        )["x"],
        lambda k: np.cos(2.0 * np.sqrt(k)),
        1.9,
    ),
    "state of arrays in a tuple": OdeCase(
        lambda x: np.sum(solve_last(lambda t, y: (y[1], -y[0]), (x, np.ones(2)), [0.0, 1.0])[0] ** 2),
        lambda x: np.sum((x * np.cos(1.0) + np.sin(1.0)) ** 2),
        np.array([0.3, -0.6]),
    ),
    "prey and predators by their start": OdeCase(
        lambda y0: conserve_lotka_volterra(
            solve_last(lotka_volterra, y0, [0.0, 2.0], np.array([1.5, 1.0, 1.0, 3.0])), [1.5, 1.0, 1.0, 3.0]
        ),
        lambda y0: conserve_lotka_volterra(y0, [1.5, 1.0, 1.0, 3.0]),
        np.array([1.0, 0.8]),
    ),
    "prey and predators by their rates": OdeCase(
        lambda p: conserve_lotka_volterra(solve_last(lotka_volterra, np.array([1.0, 0.8]), [0.0, 2.0], p), p),
        lambda p: conserve_lotka_volterra(np.array([1.0, 0.8]), p),
        np.array([1.5, 1.0, 1.0, 3.0]),
    ),
    "epidemic": OdeCase(
        lambda y0: (
            lambda y: y[0] + y[1] - 0.4 / 1.3 * np.log(y[0])
        )(solve_last(lambda t, y: np.stack([-1.3 * y[0] * y[1], (1.3 * y[0] - 0.4) * y[1]]), y0, [0.0, 4.0])),
        lambda y0: y0[0] + y0[1] - 0.4 / 1.3 * np.log(y0[0]),
        np.array([0.99, 0.01]),
    ),
    "energy of an orbit": OdeCase(
        lambda y0: orbit_energy(solve_last(orbit, y0, [0.0, 2.0], 1.1), 1.1),
        lambda y0: orbit_energy(y0, 1.1),
        np.array([1.0, 0.0, 0.1, 0.9]),
    ),
    "round orbit": OdeCase(
        lambda r: solve_last(orbit, np.stack([r, 0.0, 0.0, r**-0.5]), [0.0, 2.0], 1.0)[0],
        lambda r: r * np.cos(2.0 * r**-1.5),
        1.2,
    ),
    "energy of a pendulum": OdeCase(
        lambda y0: (lambda y: 0.5 * y[1] ** 2 - np.cos(y[0]))(
            solve_last(lambda t, y: np.stack([y[1], -np.sin(y[0])]), y0, [0.0, 3.0])
        ),
        lambda y0: 0.5 * y0[1] ** 2 - np.cos(y0[0]),
        np.array([1.0, 0.5]),
    ),
    "by all times": OdeCase(
        lambda ts: np.sum(wg.odeint(lambda t, y: -t * y, 1.0, ts, **TIGHT).ys * np.array([1.0, 2.0, 3.0])),
        lambda ts: np.sum(np.exp(0.5 * (ts[0] ** 2 - ts**2)) * np.array([1.0, 2.0, 3.0])),
        np.array([0.2, 0.9, 1.6]),
    ),
    "by the first time alone": OdeCase(
        lambda t0: solve_last(lambda t, y: -t * y, 1.0, [t0, 1.5]), lambda t0: np.exp(0.5 * (t0**2 - 2.25)), 0.3
    ),
    "between the times": OdeCase(
        lambda t: wg.odeint(lambda t, y: -y * np.sin(t), 1.0, [0.0, 2.0], rtol=1e-12, atol=1e-14).sol(t),
        lambda t: np.exp(np.cos(t) - 1.0),
        0.77,
    ),
    "stiff relaxation": OdeCase(
        lambda k: solve_last(lambda t, y, k: -k * (y - np.cos(t)), 0.0, [0.0, 1.0], k, method="rodas5p"),
        lambda k: (k * k * np.cos(1.0) + k * np.sin(1.0)) / (k * k + 1.0) - k * k / (k * k + 1.0) * np.exp(-k),
        1e3,
    ),
    "stiff chain of decays": OdeCase(
        lambda p: solve_last(
            lambda t, y, p: np.stack([-p[0] * y[0], p[0] * y[0] - p[1] * y[1]]),
            np.array([1.0, 0.0]),
            [0.0, 2.0],
            p,
            method="rodas5p",
        )[1],
        lambda p: p[0] / (p[1] - p[0]) * (np.exp(-2.0 * p[0]) - np.exp(-2.0 * p[1])),
        np.array([500.0, 0.3]),
    ),
    "heat in a rod": OdeCase(
        lambda k: np.sum(
            solve_last(lambda t, y, k: k * (conduct() @ y), np.arange(6.0), [0.0, 0.05], k, method="rodas5p") ** 2
        ),
        lambda k: np.sum((wg.expm(0.05 * k * conduct()) @ np.arange(6.0)) ** 2),
        1.3,
    ),
    "half-life": OdeCase(
        lambda k: wg.odeint(
            lambda t, y, k: -k * y, 1.0, [0.0, 5.0], k, events=[wg.event(lambda t, y, k: y - 0.5)], **TIGHT
        ).event_times[0][0],
        lambda k: np.log(2.0) / k,
        0.9,
    ),
    "half-life by a stiff method": OdeCase(
        lambda k: wg.odeint(
            lambda t, y, k: -k * y,
            1.0,
            [0.0, 5.0],
            k,
            events=[wg.event(lambda t, y, k: y - 0.5)],
            method="rodas5p",
            **TIGHT,
        ).event_times[0][0],
        lambda k: np.log(2.0) / k,
        0.9,
    ),
    "crossings that change nothing": OdeCase(
        lambda k: wg.odeint(
            swing, np.array([0.0, 1.0]), [0.0, 5.0], k, events=[wg.event(lambda t, y, k: y[0], terminal=False)], **TIGHT
        ).event_times[0][2],
        lambda k: 3.0 * np.pi / np.sqrt(k),
        4.3,
    ),
    "level of an event": OdeCase(
        lambda a: wg.odeint(swing, np.array([0.0, 1.0]), [0.0, 2.0], events=[wg.event(lambda t, y: y[0] - a)], **TIGHT)
        .event_times[0][0],
        np.arcsin,
        0.6,
    ),
    "range of a throw": OdeCase(land, lambda angle: 100.0 * np.sin(2.0 * angle) / GRAVITY, 0.6),
    "quarter of a period": OdeCase(hang, lambda length: QUARTER * np.sqrt(length / GRAVITY), 2.3),
    "second bounce": OdeCase(
        lambda p: bounce(p[0], p[1], 3.0).event_times[0][1],
        lambda p: 2.0 * p[0] / GRAVITY * (1.0 + p[1]),
        np.array([5.0, 0.8]),
    ),
    "height after three bounces": OdeCase(
        lambda p: bounce(p[0], p[1], 3.0).ys[-1, 0],
        lambda p: bounce_exactly(p[0], p[1], 3.0),
        np.array([5.0, 0.8]),
    ),
    "neuron that fires": OdeCase(fire, lambda i: 3.0 * np.log(i / (i - 1.0)), 1.8),
    "thermostat": OdeCase(heat_and_cool, lambda p: np.log((p - 1.5) / (p - 2.0)) + np.log(2.0), 3.1),
    "drug given twice": OdeCase(dose_twice, lambda k: np.exp(-2.0 * k) + np.exp(-1.3 * k), 0.8),
    "decay by RK4": OdeCase(
        lambda k: solve_last(lambda t, y, k: -k * y, 1.0, [0.0, 1.0], k, method="rk4", step=0.1),
        lambda k: (1.0 - 0.1 * k + (0.1 * k) ** 2 / 2 - (0.1 * k) ** 3 / 6 + (0.1 * k) ** 4 / 24) ** 10,
        2.7,
    ),
    "half-life by RK4": OdeCase(
        lambda k: wg.odeint(
            lambda t, y, k: -k * y, 1.0, [0.0, 1.0], k, events=[wg.event(lambda t, y, k: y - 0.5)], method="rk4", step=0.01
        ).event_times[0][0],
        lambda k: np.log(2.0) / k,
        0.9,
    ),
    "oscillator by leapfrog": OdeCase(
        lambda q: solve_last(lambda t, y: (y[1], -y[0]), (q, 0.0), [0.0, 1.0], method="leapfrog", step=0.1)[0],
        lambda q: np.linalg.matrix_power(np.array([[0.995, 0.1], [-0.099750, 0.995]]), 10)[0, 0] * q,
        0.8,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_solutions_and_gradients_equal_closed_forms(name: str) -> None:
    case = CASES[name]
    value, gradient = wg.value_and_grad(case.solve)(case.point)
    wanted_value, wanted = wg.value_and_grad(case.exact)(case.point)

    assert_allclose(value, wanted_value, rtol=1e-8, atol=1e-9)
    assert_allclose(gradient, wanted, rtol=1e-8, atol=1e-8)


def van_der_pol(t: Any, y: Any, k: Any) -> Any:
    """Return the slopes of van der Pol's oscillator."""
    return np.stack([y[1], k * (1.0 - y[0] ** 2) * y[1] - y[0]])


def react(t: Any, y: Any, k: Any) -> Any:
    """Return the slopes of Robertson's reactions."""
    first, second, third = 0.04 * y[0], 1e4 * y[1] * y[2], k * y[1] ** 2
    return np.stack([second - first, first - second - third, third])


SENSITIVITY_CASES = {
    "van der Pol": SensitivityCase(
        van_der_pol,
        lambda y, k: [[0.0, 1.0], [-2.0 * k * y[0] * y[1] - 1.0, k * (1.0 - y[0] ** 2)]],
        lambda y, k: [0.0, (1.0 - y[0] ** 2) * y[1]],
        [2.0, 0.0],
        2.0,
        1.5,
        "dopri5",
    ),
    "stiff van der Pol": SensitivityCase(
        van_der_pol,
        lambda y, k: [[0.0, 1.0], [-2.0 * k * y[0] * y[1] - 1.0, k * (1.0 - y[0] ** 2)]],
        lambda y, k: [0.0, (1.0 - y[0] ** 2) * y[1]],
        [2.0, 0.0],
        10.0,
        100.0,
        "rodas5p",
    ),
    "Robertson": SensitivityCase(
        react,
        lambda y, k: [
            [-0.04, 1e4 * y[2], 1e4 * y[1]],
            [0.04, -1e4 * y[2] - 2.0 * k * y[1], -1e4 * y[1]],
            [0.0, 2.0 * k * y[1], 0.0],
        ],
        lambda y, k: [0.0, -(y[1] ** 2), y[1] ** 2],
        [1.0, 0.0, 0.0],
        40.0,
        3e7,
        "rodas5p",
    ),
    "Lorenz": SensitivityCase(
        lambda t, y, k: np.stack(
            [10.0 * (y[1] - y[0]), y[0] * (k - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]]
        ),
        lambda y, k: [[-10.0, 10.0, 0.0], [k - y[2], -1.0, -y[0]], [y[1], y[0], -8.0 / 3.0]],
        lambda y, k: [0.0, y[0], 0.0],
        [1.0, 1.0, 1.0],
        0.5,
        28.0,
        "dopri5",
    ),
    "Brusselator": SensitivityCase(
        lambda t, y, k: np.stack([1.0 + y[0] ** 2 * y[1] - (k + 1.0) * y[0], k * y[0] - y[0] ** 2 * y[1]]),
        lambda y, k: [[2.0 * y[0] * y[1] - k - 1.0, y[0] ** 2], [k - 2.0 * y[0] * y[1], -(y[0] ** 2)]],
        lambda y, k: [-y[0], y[0]],
        [1.2, 2.5],
        2.0,
        2.1,
        "dopri5",
    ),
}


def solve_sensitivities(case: SensitivityCase) -> tuple[Any, Any]:
    """Return the last state and its derivative by the parameter, from the sensitivity equations."""
    count = len(case.start)
    k = case.parameter

    def slope(t: float, both: Any) -> Any:
        y, s = both[:count], both[count:]
        return np.concatenate([case.slope(t, y, k), np.array(case.by_state(y, k)) @ s + np.array(case.by_parameter(y, k))])

    start = np.concatenate([case.start, np.zeros(count)])
    method = "Radau" if case.method == "rodas5p" else "DOP853"
    scales = np.concatenate([np.full(count, 1e-12), np.full(count, 1e-12 / max(1.0, k))])
    both = solve_ivp(slope, (0.0, case.end), start, method, rtol=1e-11, atol=scales).y[:, -1]
    return both[:count], both[count:]


@pytest.mark.parametrize("name", SENSITIVITY_CASES)
def test_derivatives_equal_those_of_sensitivity_equations(name: str) -> None:
    case = SENSITIVITY_CASES[name]
    state, wanted = solve_sensitivities(case)
    solve = lambda k: solve_last(case.slope, np.array(case.start), [0.0, case.end], k, method=case.method)  # noqa: E731
    forward = wg.jvp(solve, (case.parameter,), (1.0,))[1]
    weights = np.arange(1.0, len(state) + 1.0)
    reverse = wg.grad(lambda k: np.sum(weights * solve(k)))(case.parameter)

    assert_allclose(solve(case.parameter), state, rtol=1e-8, atol=1e-9)
    assert_allclose(forward, wanted, rtol=1e-7, atol=1e-8 / max(1.0, case.parameter))
    assert_allclose(reverse, weights @ forward, rtol=1e-10)
