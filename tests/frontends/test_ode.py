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
)
from wiregrad.frontends.transforms import ode
from wiregrad.frontends.transforms.ode_steps import METHODS

from ..support.sampling import sample_some

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


def infect(t: Any, y: Any) -> Any:
    """Return the slopes of those who may be infected and of those who are."""
    return np.stack([-1.3 * y[0] * y[1], (1.3 * y[0] - 0.4) * y[1]])


def conserve_epidemic(y: Any) -> Any:
    """Return what an epidemic conserves."""
    return y[0] + y[1] - 0.4 / 1.3 * np.log(y[0])


def pendulum_energy(y: Any) -> Any:
    """Return the energy of a pendulum."""
    return 0.5 * y[1] ** 2 - np.cos(y[0])


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


RELAX = wg.compile(lambda t, y, k: -k * (y - np.cos(t)))
DECAY_TWICE = wg.compile(lambda t, y, p: np.stack([-p[0] * y[0], p[0] * y[0] - p[1] * y[1]]))
SWING = wg.compile(swing)
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
        lambda k: solve_last(lambda t, y: -k * y if t > 0.9 else -0.5 * y, 1.0, [0.0, 1.5]),
        lambda k: np.exp(-0.45 - 0.6 * k),
        0.7,
    ),
    "decay backwards": OdeCase(lambda k: solve_last(lambda t, y, k: -k * y, 1.0, [1.0, 0.0], k), np.exp, 0.7),
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
        lambda c: solve_last(lambda t, y, c: np.stack([y[1], -y[0] - 2.0 * c * y[1]]), np.array([1.0, 0.0]), [0, 2], c)[
            0
        ],
        lambda c: (
            np.exp(-2.0 * c)
            * (np.cos(2.0 * np.sqrt(1.0 - c * c)) + c / np.sqrt(1.0 - c * c) * np.sin(2.0 * np.sqrt(1.0 - c * c)))
        ),
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
            wg.expm(np.stack([0.0, -w[2], w[1], w[2], 0.0, -w[0], -w[1], w[0], 0.0]).reshape(3, 3))
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
        lambda y0: conserve_epidemic(solve_last(infect, y0, [0.0, 4.0])), conserve_epidemic, np.array([0.99, 0.01])
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
        lambda y0: pendulum_energy(solve_last(lambda t, y: np.stack([y[1], -np.sin(y[0])]), y0, [0.0, 3.0])),
        pendulum_energy,
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
        lambda k: solve_last(RELAX, 0.0, [0.0, 1.0], k, method="rodas5p"),
        lambda k: (k * k * np.cos(1.0) + k * np.sin(1.0)) / (k * k + 1.0) - k * k / (k * k + 1.0) * np.exp(-k),
        1e3,
    ),
    "stiff chain of decays": OdeCase(
        lambda p: solve_last(DECAY_TWICE, np.array([1.0, 0.0]), [0.0, 2.0], p, method="rodas5p")[1],
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
            SWING, np.array([0.0, 1.0]), [0.0, 5.0], k, events=[wg.event(lambda t, y, k: y[0], terminal=False)], **TIGHT
        ).event_times[0][2],
        lambda k: 3.0 * np.pi / np.sqrt(k),
        4.3,
    ),
    "level of an event": OdeCase(
        lambda a: wg.odeint(
            swing, np.array([0.0, 1.0]), [0.0, 2.0], events=[wg.event(lambda t, y: y[0] - a)], **TIGHT
        ).event_times[0][0],
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
            lambda t, y, k: -k * y,
            1.0,
            [0.0, 1.0],
            k,
            events=[wg.event(lambda t, y, k: y - 0.5)],
            method="rk4",
            step=0.01,
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


@pytest.mark.parametrize("name", sample_some(CASES, 4))
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
        lambda t, y, k: np.stack([10.0 * (y[1] - y[0]), y[0] * (k - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]]),
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
        return np.concatenate(
            [case.slope(t, y, k), np.array(case.by_state(y, k)) @ s + np.array(case.by_parameter(y, k))]
        )

    start = np.concatenate([case.start, np.zeros(count)])
    method = "Radau" if case.method == "rodas5p" else "DOP853"
    scales = np.concatenate([np.full(count, 1e-12), np.full(count, 1e-12 / max(1.0, k))])
    both = solve_ivp(slope, (0.0, case.end), start, method, rtol=1e-11, atol=scales).y[:, -1]
    return both[:count], both[count:]


@pytest.mark.parametrize("name", sample_some(SENSITIVITY_CASES, 2))
def test_derivatives_equal_those_of_sensitivity_equations(name: str) -> None:
    case = SENSITIVITY_CASES[name]
    state, wanted = solve_sensitivities(case)
    slope = wg.compile(case.slope)
    weights = np.arange(1.0, len(state) + 1.0)
    ends = [0.0, case.end]
    value, gradient = wg.value_and_grad(
        lambda k: np.sum(weights * solve_last(slope, np.array(case.start), ends, k, method=case.method))
    )(case.parameter)

    assert_allclose(value, weights @ state, rtol=1e-8)
    assert_allclose(gradient, weights @ wanted, rtol=1e-7, atol=1e-9 / max(1.0, case.parameter))


FORWARD_NAMES = (
    "decay and supply",
    "decay of a value from outside",
    "state in a dict",
    "by all times",
    "second bounce",
    "thermostat",
    "half-life by a stiff method",
    "oscillator by leapfrog",
)


@pytest.mark.parametrize("name", sample_some(FORWARD_NAMES, 2))
def test_forward_mode_equals_reverse_mode(name: str) -> None:
    case = CASES[name]
    direction = np.linspace(0.5, 1.0, np.size(case.point)).reshape(np.shape(case.point))[()]
    pushed = wg.jvp(case.solve, (case.point,), (direction,))[1]
    gradient = wg.grad(case.solve)(case.point)

    assert_allclose(pushed, np.sum(gradient * direction), rtol=1e-10)


@pytest.mark.parametrize(
    "name", ["decay", "second bounce", "by the first time alone", "half-life", "level of an event"]
)
def test_second_derivatives_equal_those_of_closed_forms(name: str) -> None:
    case = CASES[name]

    assert_allclose(wg.hessian(case.solve)(case.point), wg.hessian(case.exact)(case.point), rtol=1e-7, atol=1e-7)


def test_forward_over_reverse_gives_products_with_the_hessian() -> None:
    case = CASES["decay and supply"]
    direction = np.array([0.3, -0.8])

    assert_allclose(
        wg.hvp(case.solve, case.point, direction), wg.hvp(case.exact, case.point, direction), rtol=1e-7, atol=1e-8
    )


@pytest.mark.parametrize("method", ["dopri5", "rodas5p"])
def test_the_continuous_adjoint_gives_all_gradients(method: str) -> None:
    def solve(y0: Any, ts: Any, p: Any) -> Any:
        slope = lambda t, y, p: {"x": -p["rate"] * y["x"] + p["supply"]}  # noqa: E731
        ys = wg.odeint(slope, {"x": y0}, ts, p, method=method, adjoint="continuous", **TIGHT).ys["x"]
        return np.sum(ys * np.array([1.0, 2.0, 3.0]))

    def write_out(y0: Any, ts: Any, p: Any) -> Any:
        level = p["supply"] / p["rate"]
        return np.sum((level + (y0 - level) * np.exp(-p["rate"] * (ts - ts[0]))) * np.array([1.0, 2.0, 3.0]))

    point = (1.5, np.array([0.1, 0.5, 1.2]), {"rate": 0.7, "supply": 0.4})
    found = wg.grad(solve, argnums=(0, 1, 2))(*point)
    wanted = wg.grad(write_out, argnums=(0, 1, 2))(*point)

    assert_allclose(found[0], wanted[0], rtol=1e-8)
    assert_allclose(found[1], wanted[1], rtol=1e-8, atol=1e-9)
    assert_allclose([found[2][key] for key in wanted[2]], [*wanted[2].values()], rtol=1e-8)


def test_the_continuous_adjoint_has_second_derivatives() -> None:
    solve = lambda k: solve_last(lambda t, y, k: -k * y, 1.0, [0.0, 1.0], k, adjoint="continuous")  # noqa: E731

    assert_allclose(wg.grad(wg.grad(solve))(0.7), np.exp(-0.7), rtol=1e-8)


def test_states_between_the_times_have_gradients_beside_the_continuous_adjoint() -> None:
    def solve(k: Any) -> Any:
        return wg.odeint(lambda t, y, k: -k * y, 1.0, [0.0, 2.0], k, adjoint="continuous", **TIGHT).sol(1.0)

    assert_allclose(wg.grad(solve)(0.7), -np.exp(-0.7), rtol=1e-8)


def test_gradients_reach_leaves_by_backward() -> None:
    rate = wg.Value(0.7)
    start = wg.Value(np.array([1.0, 2.0]))
    np.sum(solve_last(lambda t, y, k: -k * y, start, [0.0, 1.0], rate)).backward()

    assert_allclose(rate.grad, -3.0 * np.exp(-0.7), rtol=1e-8)
    assert_allclose(start.grad, np.exp(-0.7) * np.ones(2), rtol=1e-8)


def test_events_are_listed_in_the_order_in_which_they_take_place() -> None:
    levels = [wg.event(lambda t, y, a=a: y - a, terminal=False) for a in (0.9, 1.1, 1.0)]
    both = [wg.event(lambda t, y: (y - 0.95) * (y - 1.05), terminal=False), *levels]
    forward = wg.odeint(lambda t, y: 1.0 + 0.0 * y, 0.5, [0.0, 1.0], events=levels, max_step=1.0)
    backward = wg.odeint(lambda t, y: 1.0 + 0.0 * y, 1.5, [1.0, 0.0], events=both, max_step=0.06)

    assert_allclose(np.concatenate(forward.event_times), [0.4, 0.6, 0.5], rtol=1e-9)
    assert_allclose(np.concatenate(backward.event_times), [0.55, 0.45, 0.4, 0.6, 0.5], rtol=1e-9)


def decay(k: Any, times: Any = (0.0, 1.0)) -> Any:
    return solve_last(lambda t, y, k: -k * t * y, 1.0, times, k, rtol=1e-6, atol=1e-8)


def test_tangents_and_gradients_nest_either_way() -> None:
    by_push = wg.grad(lambda k: wg.jvp(decay, (k,), (1.0,))[1])(0.7)
    by_pull = wg.jvp(wg.grad(decay), (0.7,), (1.0,))[1]

    assert_allclose([by_push, by_pull], 0.25 * np.exp(-0.35), rtol=1e-5)


@pytest.mark.parametrize(("direction", "slope"), [([1.0, 0.0], 0.3), ([0.0, 1.0], -1.0)])
def test_tangents_of_times_are_pushed(direction: list[float], slope: float) -> None:
    times = np.array([0.3, 1.0])
    _, tangent = wg.jvp(lambda ts: decay(1.0, ts), (times,), (np.array(direction),))

    assert_allclose(tangent, slope * np.exp(-(1.0 - 0.09) / 2.0), rtol=1e-5)


def test_a_value_that_f_reads_from_outside_has_a_gradient() -> None:
    gradient = wg.grad(lambda k: solve_last(lambda t, y: -k * y, 1.0, [0.0, 1.0]))(0.5)

    assert_allclose(gradient, -np.exp(-0.5), rtol=1e-8)


def test_the_continuous_adjoint_refuses_values_that_it_is_not_passed() -> None:
    with pytest.raises(EscapeError, match="pass the value after ts"):
        wg.grad(lambda k: solve_last(lambda t, y: -k * y, 1.0, [0.0, 1.0], adjoint="continuous"))(0.5)


COMPILED_SETTINGS = {
    "dopri5": {"method": "dopri5", **TIGHT},
    "rodas5p": {"method": "rodas5p", "rtol": 1e-8, "atol": 1e-8},
    "rk4": {"method": "rk4", "step": 0.05},
    "leapfrog": {"method": "leapfrog", "step": 0.05},
}


@pytest.mark.parametrize("name", sample_some(COMPILED_SETTINGS, 2))
def test_a_compiled_system_has_the_same_solution_and_gradients(name: str) -> None:
    settings = COMPILED_SETTINGS[name]
    push = lambda t, y, p: (y[1] * p["mass"], -p["spring"] * np.sin(y[0]) + 0.1 * np.cos(t))  # noqa: E731
    compiled = wg.compile(push)

    def solve(f: Any, y0: Any, ts: Any, p: Any) -> Any:
        result = wg.odeint(f, y0, ts, p, **settings)
        return np.sum(result.ys[0] ** 2) + np.sum(result.ys[1] * ts) + result.sol(0.77)[0]

    point = ((0.4, 0.8), np.linspace(0.0, 1.0, 6), {"mass": 1.3, "spring": 2.0})
    wanted = wg.value_and_grad(lambda *args: solve(push, *args), argnums=(0, 1, 2))(*point)
    found = wg.value_and_grad(lambda *args: solve(compiled, *args), argnums=(0, 1, 2))(*point)
    pairs = zip(
        wg.tree_map(np.ravel, [*found[1][0], found[1][1], *found[1][2].values()]),
        wg.tree_map(np.ravel, [*wanted[1][0], wanted[1][1], *wanted[1][2].values()]),
        strict=True,
    )

    assert_allclose(found[0], wanted[0], rtol=1e-12)
    for one, other in pairs:
        assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_compiled_steps_are_made_once_and_replayed() -> None:
    decay = wg.compile(lambda t, y, k: -k * y)
    gradient = wg.grad(lambda k: solve_last(decay, np.ones(2), [0.0, 1.0], k)[0])
    gradient(0.5)
    made = dict(decay._derived)
    gradient(0.6)

    assert decay._derived == made
    assert len(made) == 5
    assert all(not step.info.fallbacks for step in made.values())
    assert made["odeint dopri5 1e-10 1e-12 [(2,)] * pull end [0]"].info.variants[0].hits > 20


def hunt(t: Any, y: Any, p: Any) -> Any:
    return np.stack([y[0] * (p[0] - p[1] * y[1]), y[1] * (p[2] * y[0] - p[3])])


HUNT = wg.compile(hunt)
RATES = np.array([1.5, 1.0, 1.0, 3.0])
BLOCK_CASES = {
    "one_block": ([0.0, 1.0, 2.0], {}),
    "several_blocks": ([0.0, 0.1, 0.2, 19.5, 30.0], {}),
    "no_rows_between": ([0.0, 30.0], {}),
    "many_rows": (np.linspace(0.0, 3.0, 200), {}),
    "backward": ([3.0, 1.1, 0.0], {}),
    "short_steps": ([0.0, 2.0], {"max_step": 0.004}),
    "loose": ([0.0, 5.0, 10.0], {"rtol": 1e-3, "atol": 1e-6}),
}


@pytest.mark.parametrize("name", BLOCK_CASES)
def test_native_code_chooses_the_steps_that_python_chooses(name: str) -> None:
    times, settings = BLOCK_CASES[name]
    plain = wg.odeint(hunt, np.array([1.0, 1.0]), times, RATES, **settings)
    blocks = wg.odeint(HUNT, np.array([1.0, 1.0]), times, RATES, **settings)

    assert repr(plain) == repr(blocks)
    assert_allclose(blocks.ys, plain.ys, rtol=1e-10)
    assert_allclose(blocks.sol(times[-1] * 0.3), plain.sol(times[-1] * 0.3), rtol=1e-10)


def test_the_gradient_of_several_blocks_is_that_of_single_steps() -> None:
    def solve(f: Any, y0: Any, p: Any) -> Any:
        return np.sum(wg.odeint(f, y0, [0.0, 3.3, 20.0], p).ys[1:] ** 2)

    wanted = wg.grad(lambda *at: solve(hunt, *at), argnums=(0, 1))(np.array([1.0, 1.0]), RATES)
    found = wg.grad(lambda *at: solve(HUNT, *at), argnums=(0, 1))(np.array([1.0, 1.0]), RATES)

    for one, other in zip(found, wanted, strict=True):
        assert_allclose(one, other, rtol=1e-8)


def test_blocks_that_are_not_kept_are_computed_again_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = wg.grad(lambda p: wg.odeint(HUNT, np.array([1.0, 1.0]), [0.0, 6.0], p).ys[-1, 0])
    wanted = solve(RATES)
    monkeypatch.setattr("wiregrad.frontends.transforms.ode.KEPT_BYTES", 1)

    assert_allclose(solve(RATES), wanted, rtol=1e-9)


def test_a_system_with_branches_is_solved_without_blocks() -> None:
    def relax(t: Any, y: Any) -> Any:
        return -y if y > 0.5 else -0.5 * y

    compiled = wg.compile(relax)
    for _ in range(3):
        found = wg.odeint(compiled, 1.0, [0.0, 2.0])

    assert_allclose(found.ys, wg.odeint(relax, 1.0, [0.0, 2.0]).ys, rtol=1e-12)


@pytest.mark.parametrize(
    ("slope", "start", "settings", "message"),
    [
        (lambda t, y: y**2, 1.0, {}, "no step is short enough at t = 1"),
        (lambda t, y: np.stack([y[1], 1e4 * (1.0 - y[0] ** 2) * y[1] - y[0]]), np.array([2.0, 0.0]), {}, "is stiff"),
        (lambda t, y: np.cos(20.0 * t) * y, 1.0, {"max_steps": 300}, "300 steps led only to"),
    ],
    ids=["blow_up", "stiff", "too_many"],
)
def test_blocks_end_with_the_errors_of_single_steps(slope: Any, start: Any, settings: Any, message: str) -> None:
    for f in (slope, wg.compile(slope)):
        with pytest.raises(ConvergenceError, match=message):
            wg.odeint(f, start, [0.0, 40.0], **settings)


def test_a_compiled_system_refuses_values_that_it_is_not_passed() -> None:
    def solve(k: Any) -> Any:
        return solve_last(wg.compile(lambda t, y: -k * y), 1.0, [0.0, 1.0])

    with pytest.raises(EscapeError, match="pass the value after ts"):
        wg.grad(solve)(0.5)


def test_a_compiled_system_has_events() -> None:
    hit = wg.event(lambda t, y, c: y[0], direction=-1, restart=lambda t, y, c: np.stack([0.0 * y[0], -c * y[1]]))
    falling = wg.compile(lambda t, y, c: fall(t, y))
    solve = lambda c: wg.odeint(falling, np.array([0.0, 5.0]), [0.0, 3.0], c, events=[hit], **TIGHT).ys[-1, 0]  # noqa: E731

    assert_allclose(wg.grad(solve)(0.8), wg.grad(lambda c: bounce_exactly(5.0, c, 3.0))(0.8), rtol=1e-8)


def half_life(k: Any) -> Any:
    """Return when half is left."""
    half = wg.event(lambda t, y, k: y - 0.5)
    return wg.odeint(lambda t, y, k: -k * y, 1.0, [0.0, 5.0], k, events=[half]).event_times[0][0]


def test_a_circuit_solves_again_at_other_inputs() -> None:
    circuit = wg.trace(half_life, 2.0)
    run = circuit.run(k=0.8)

    assert_allclose(circuit(k=0.8), np.log(2.0) / 0.8, rtol=1e-7)
    assert_allclose(run.grads["k"], -np.log(2.0) / 0.64, rtol=1e-6)


def test_a_circuit_refuses_inputs_with_other_events() -> None:
    circuit = wg.trace(half_life, 2.0)

    with pytest.raises(BranchError, match="other events at these inputs"):
        circuit(k=0.01)


def test_a_circuit_refuses_values_from_outside_and_the_steps_of_one_point() -> None:
    rate = wg.Value(0.5)

    with pytest.raises(EscapeError, match="pass the value after ts"):
        wg.trace(lambda x: x * wg.odeint(lambda t, y: -rate * y, x, [0.0, 1.0]).ys[-1], 1.0)
    with pytest.raises(EscapeError, match="other inputs need other steps"):
        wg.trace(wg.grad(wg.grad(half_life)), 2.0)


def test_compiled_functions_solve_again_and_differentiate() -> None:
    value, slope = wg.compile(half_life), wg.compile(wg.grad(half_life))

    assert_allclose([value(k) for k in (2.0, 1.0, 0.5)], np.log(2.0) / np.array([2.0, 1.0, 0.5]), rtol=1e-7)
    assert_allclose([slope(k) for k in (2.0, 1.0, 0.5)], -np.log(2.0) / np.array([4.0, 1.0, 0.25]), rtol=1e-6)


def test_a_circuit_holds_the_gradient_of_a_solution() -> None:
    def solve(k: Any, y0: Any) -> Any:
        return np.sum(wg.odeint(lambda t, y, k: -k * y, y0, [0.0, 0.5, 1.0], k).ys[1:] * np.array([[1.0], [2.0]]))

    start = np.array([1.0, 2.0])
    circuit = wg.trace(wg.grad(solve, argnums=(0, 1)), 0.5, start)
    gradient = wg.compile(wg.grad(solve, argnums=(0, 1)))

    assert "ode_gradient" in [node.op.name for node in circuit.nodes]
    for k in (0.5, 1.5, 0.2):
        wanted = wg.grad(solve, argnums=(0, 1))(k, start)
        for one, other in zip(gradient(k, start), wanted, strict=True):
            assert_allclose(one, other, rtol=1e-12)
        for one, other in zip(circuit(k=k, y0=start).values(), wanted, strict=True):
            assert_allclose(one, other, rtol=1e-12)
    assert not gradient.info.fallbacks


def test_vmap_solves_once_per_example() -> None:
    rates = np.array([0.5, 1.0, 2.0])

    assert_allclose(wg.vmap(lambda k: solve_last(lambda t, y, k: -k * y, 1.0, [0.0, 1.0], k))(rates), np.exp(-rates))


@pytest.mark.parametrize("name", METHODS)
def test_errors_fall_with_the_order_of_the_method(name: str) -> None:
    method = METHODS[name]
    wanted = np.array([np.cos(1.0), -np.sin(1.0)])

    class Oscillator:
        """The system that is solved."""

        def slope(self, t: Any, z: Any) -> Any:
            """Return the slopes."""
            return np.array([z[1], -z[0]])

        def slope_derivatives(self, t: Any, z: Any) -> Any:
            """Return the derivatives."""
            return np.zeros(2), np.array([[0.0, 1.0], [-1.0, 0.0]])

    def measure(count: int) -> float:
        z = np.array([1.0, 0.0])
        for k in range(count):
            z = method.take_step(Oscillator(), k / count, 1.0 / count, z).end
        return float(np.abs(z - wanted).max())

    order = np.log2(measure(8) / measure(16))

    assert order > {"dopri5": 4.7, "rodas5p": 4.7, "rk4": 3.9, "leapfrog": 1.9}[name]


def test_leapfrog_keeps_the_energy_and_goes_back_where_it_came_from() -> None:
    swing_freely = lambda t, y: (y[1], -np.sin(y[0]))  # noqa: E731
    settings: dict[str, Any] = {"method": "leapfrog", "step": 0.05}
    q, p = wg.odeint(swing_freely, (1.0, 0.0), [0.0, 30.0], **settings).ys
    back = wg.odeint(swing_freely, (q[-1], p[-1]), [30.0, 0.0], **settings).ys

    assert abs(0.5 * p[-1] ** 2 - np.cos(q[-1]) + np.cos(1.0)) < 2e-4
    assert_allclose([back[0][-1], back[1][-1]], [1.0, 0.0], atol=1e-10)


def measure_peak(task: Callable[[], object]) -> int:
    """Return the most bytes that a task allocates."""
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [2_500, pytest.param(100_000, marks=pytest.mark.full)])
def test_memory_of_a_gradient_does_not_grow_with_the_number_of_steps(count: int) -> None:
    def differentiate(steps: int) -> Any:
        settings: dict[str, Any] = {"method": "rk4", "step": 1.0 / steps, "max_steps": 2 * steps}
        return wg.grad(lambda k: np.sum(wg.odeint(SWING, np.array([1.0, 0.0]), [0.0, 1.0], k, **settings).ys))(2.0)

    differentiate(10)
    few, many = measure_peak(lambda: differentiate(1_000)), measure_peak(lambda: differentiate(count))

    assert many < 1.2 * few


def test_memory_of_recorded_steps_does_not_grow_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiregrad.frontends.transforms.ode.MAX_KEPT_STATES", 16)

    def differentiate(steps: int) -> Any:
        return wg.grad(lambda k: solve_last(swing, np.ones(2), [0.0, 1.0], k, method="rk4", step=1.0 / steps)[0])(2.0)

    differentiate(10)
    few, many = measure_peak(lambda: differentiate(20)), measure_peak(lambda: differentiate(200))

    assert many < 1.3 * few


def test_rows_are_the_same_however_few_states_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = lambda k: np.sum(wg.odeint(swing, np.ones(2), np.linspace(0.0, 2.0, 5), k, rtol=1e-6).ys ** 2)  # noqa: E731
    wanted = wg.grad(solve)(1.7)
    monkeypatch.setattr("wiregrad.frontends.transforms.ode.MAX_KEPT_STATES", 2)

    assert wg.grad(solve)(1.7) == wanted


def test_a_result_says_what_was_found() -> None:
    zero = wg.event(lambda t, y: y[0], terminal=False)
    result = wg.odeint(swing, np.array([1.0, 0.0]), np.linspace(0.0, 4.0, 5), events=[zero], **TIGHT)

    assert_allclose(result.ys[:, 0], np.cos(result.ts), atol=1e-8)
    assert_allclose(result.event_times[0], [0.5 * np.pi], rtol=1e-9)
    assert_allclose(result.event_states[0], [[0.0, -1.0]], atol=1e-9)
    assert_allclose(result.sol([3.3, 0.2])[:, 0], np.cos([3.3, 0.2]), atol=1e-8)
    assert result.sol(0.2).shape == (2,)
    assert f"by dopri5, {result.steps} steps, {result.rejected} rejected" in repr(result)
    assert "1 of event 0" in repr(result)
    assert result.evaluations >= 6 * result.steps


def test_a_terminal_event_leaves_out_later_times() -> None:
    ground = wg.event(lambda t, y: y[0], direction=-1)
    result = wg.odeint(fall, np.array([1.0, 0.0]), np.linspace(0.0, 1.0, 5), events=[ground])

    assert_allclose(result.ts, [0.0, 0.25])
    assert result.ys.shape == (2, 2)
    assert result.notes == ("event 0 ended the solution at t = 0.451524, before 3 times",)


def test_an_event_of_the_wrong_direction_is_reported() -> None:
    ground = wg.event(lambda t, y: y[0], direction=1)
    result = wg.odeint(fall, np.array([1.0, 0.0]), [0.0, 1.0], events=[ground])

    assert len(result.event_times[0]) == 0
    assert "falls through zero" in result.notes[0]
    assert "direction=1" in result.notes[0]


def test_an_event_that_is_zero_at_the_start_counts_from_there_on() -> None:
    zero = wg.event(lambda t, y: y[0], terminal=False)
    result = wg.odeint(swing, np.array([0.0, 1.0]), [0.0, 7.0], events=[zero], **TIGHT)

    assert_allclose(result.event_times[0], [np.pi, 2.0 * np.pi], rtol=1e-9)


def test_a_bounce_within_one_step_is_found() -> None:
    hit = wg.event(lambda t, y: y[0], direction=-1, restart=lambda t, y: np.array([0.0, -0.9 * y[1]]))
    result = wg.odeint(fall, np.array([0.0, 1.0]), [0.0, 1.0], events=[hit], rtol=1e-3, atol=1e-3)

    assert_allclose(result.event_times[0][:4], np.cumsum(0.9 ** np.arange(4)) * 2.0 / GRAVITY, rtol=1e-9)


def test_stiffness_is_noted_where_an_explicit_method_gets_through() -> None:
    result = wg.odeint(lambda t, y: -2e3 * (y - np.cos(t)), 0.0, [0.0, 1.0], rtol=1e-4, atol=1e-4)

    assert "limited by stability" in result.notes[0]
    assert "2e+03" in result.notes[0]


def test_f_may_return_a_list_of_numbers_or_fill_an_array() -> None:
    def fill(t: Any, y: Any, k: Any) -> Any:
        slopes = np.zeros(2)
        slopes[0] = y[1]
        slopes[1] = -k * y[0]
        return slopes

    wanted = wg.grad(lambda k: solve_last(swing, np.array([1, 0]), [0, 1], k)[0])(1.3)

    assert_allclose(wg.grad(lambda k: solve_last(fill, np.array([1, 0]), [0, 1], k)[0])(1.3), wanted)
    assert_allclose(
        wg.grad(lambda k: solve_last(lambda t, y, k: [y[1], -k * y[0]], np.array([1, 0]), [0, 1], k)[0])(1.3), wanted
    )


def root_of_negative(t: Any, y: Any) -> Any:
    """Return a slope that does not exist below 0.5."""
    below = y - 0.5
    return -1.0 - np.sqrt(below)


ANGRY = [1.0]


def change_of_mood(t: Any, y: Any) -> Any:
    """Return another slope at every call."""
    ANGRY[0] += 1e-3
    return -ANGRY[0] * y


def make_change_after(calls: int) -> Callable[..., Any]:
    """Return a function of two slopes: the first so many calls give the one, later ones the other."""
    count = iter(range(10**6))
    return lambda t, y: -y if next(count) < calls else -2.0 * y


BAD_PROBLEMS = {
    "stiff": (
        ConvergenceError,
        "the system is stiff.*method='rodas5p'",
        lambda: wg.odeint(van_der_pol, np.array([2.0, 0.0]), [0, 2e3], 1e3),
    ),
    "too many steps": (
        ConvergenceError,
        "20 steps led only to t",
        lambda: wg.odeint(swing, np.ones(2), [0.0, 9.0], max_steps=20),
    ),
    "explosion": (ConvergenceError, "may grow without bound", lambda: wg.odeint(lambda t, y: y * y, 1.0, [0.0, 2.0])),
    "explosion of fixed steps": (
        ConvergenceError,
        "take a smaller step=",
        lambda: wg.odeint(lambda t, y: y**9, np.array([9.0]), [0.0, 2.0], method="rk4", step=0.5),
    ),
    "division by zero": (NonFiniteError, "f is nan at t = 0", lambda: wg.odeint(lambda t, y: 1.0 / y, 0.0, [0, 1])),
    "not finite at the start": (
        NonFiniteError,
        r"sqrt gives.*test_ode.py:\d+",
        lambda: wg.odeint(root_of_negative, 0.2, [0.0, 1.0]),
    ),
    "not finite later": (
        NonFiniteError,
        r"sqrt gives.*test_ode.py:\d+",
        lambda: wg.odeint(root_of_negative, 1.0, [0.0, 1.0]),
    ),
    "event that is not finite": (
        NonFiniteError,
        "event 0 is nan",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], events=[wg.event(lambda t, y: np.log(-1.0 - y[0] ** 2))]),
    ),
    "event that stays zero": (
        ConvergenceError,
        "event 0 is zero at t = 0, and so is its slope",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], events=[wg.event(lambda t, y: 0.0 * y[0])]),
    ),
    "event of two numbers": (
        ShapeError,
        "event 0 must return one number",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], events=[wg.event(lambda t, y: y)]),
    ),
    "events that accumulate": (ConvergenceError, "events accumulate at t = 2.0387", lambda: bounce(5.0, 0.5, 3.0)),
    "function in place of an event": (
        OperandError,
        "made by wg.event",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], events=[lambda t, y: y[0]]),
    ),
    "direction of an event": (OperandError, "1 .g grows.*got 2", lambda: wg.event(lambda t, y: y, direction=2)),
    "terminal event with a restart": (OperandError, "cannot be terminal", lambda: wg.event(fall, True, restart=fall)),
    "arguments in SciPy's old order": (
        OperandError,
        "the time first.*named y, t",
        lambda: wg.odeint(lambda y, t: -y, 1.0, [0, 1]),
    ),
    "other shape": (
        ShapeError,
        r"structure of y0, with shapes \[\(2,\)\]; got \[\(3,\)\]",
        lambda: wg.odeint(lambda t, y: np.ones(3), np.ones(2), [0, 1]),
    ),
    "transposed": (
        ShapeError,
        r"\[\(2, 3\)\]; got \[\(3, 2\)\]",
        lambda: wg.odeint(lambda t, y: y.T, np.ones((2, 3)), [0, 1]),
    ),
    "nothing returned": (ShapeError, "structure of y0", lambda: wg.odeint(lambda t, y: None, 1.0, [0, 1])),
    "times up and down": (OperandError, "all rise or all fall", lambda: wg.odeint(swing, np.ones(2), [0, 2, 1])),
    "equal times": (OperandError, "all rise or all fall", lambda: wg.odeint(swing, np.ones(2), [0, 0])),
    "time that is not finite": (
        OperandError,
        "all rise or all fall",
        lambda: wg.odeint(swing, np.ones(2), [0, np.inf]),
    ),
    "one time": (ShapeError, "two or more times", lambda: wg.odeint(swing, np.ones(2), [0])),
    "rtol": (
        OperandError,
        "rtol must be a finite number above 0; got nan",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], rtol=np.nan),
    ),
    "atol": (
        OperandError,
        "atol must be a finite number above 0; got -1",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], atol=-1),
    ),
    "step of an adaptive method": (
        OperandError,
        "use max_step=",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], step=0.1),
    ),
    "no step": (OperandError, "pass it as step=", lambda: wg.odeint(swing, np.ones(2), [0, 1], method="rk4")),
    "step of zero": (
        OperandError,
        "step must be a finite number",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], method="rk4", step=0.0),
    ),
    "no steps at all": (
        OperandError,
        "max_steps must be above 0",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], max_steps=0),
    ),
    "unknown method": (
        OperandError,
        "one of dopri5, rodas5p, rk4, leapfrog",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], method="euler"),
    ),
    "unknown adjoint": (
        OperandError,
        "'discrete' or 'continuous'",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], adjoint="both"),
    ),
    "adjoint equation with events": (
        OperandError,
        "no rule for events",
        lambda: wg.odeint(swing, np.ones(2), [0, 1], adjoint="continuous", events=[wg.event(lambda t, y: y[0])]),
    ),
    "complex start": (OperandError, "y0 must consist of real numbers", lambda: wg.odeint(swing, 1j, [0, 1])),
    "empty start": (ShapeError, "at least one number", lambda: wg.odeint(swing, np.ones(0), [0, 1])),
    "system that is not separable": (
        OperandError,
        "needs a separable system",
        lambda: wg.odeint(lambda t, y: (y[1], -y[0] - y[1]), (1.0, 0.0), [0, 1], method="leapfrog", step=0.1),
    ),
    "state without halves": (
        ShapeError,
        "two equal halves",
        lambda: wg.odeint(swing, np.ones(3), [0, 1], method="leapfrog", step=0.1),
    ),
    "time behind the end": (
        OperandError,
        "known from 0 to 1; got",
        lambda: wg.odeint(swing, np.ones(2), [0, 1]).sol(1.5),
    ),
    "time behind a terminal event": (
        OperandError,
        "known from 0 to 0.4515",
        lambda: wg.odeint(fall, np.array([1.0, 0.0]), [0, 1], events=[wg.event(lambda t, y: y[0])]).sol(0.6),
    ),
    "f that changes between the steps": (
        GradientError,
        "f depends on something",
        lambda: wg.grad(lambda x: solve_last(make_change_after(45), x, [0, 1], method="rk4", step=0.1))(1.0),
    ),
    "f that changes": (
        GradientError,
        "f depends on something",
        lambda: wg.grad(lambda x: solve_last(change_of_mood, x, [0, 1], method="rk4", step=0.1))(1.0),
    ),
}


@pytest.mark.parametrize("name", BAD_PROBLEMS)
def test_bad_problems_raise_errors_that_say_what_to_try(name: str) -> None:
    kind, message, solve = BAD_PROBLEMS[name]

    with pytest.raises(kind, match=f"(?s){message}"):
        solve()


def test_f_may_not_change_the_state() -> None:
    def overwrite(t: Any, y: Any) -> Any:
        y[0] = 1.0
        return y

    with pytest.raises(ValueError, match="read-only"):
        wg.odeint(overwrite, np.ones(2), [0.0, 1.0])


@pytest.mark.parametrize(("method", "step"), [("dopri5", None), ("rodas5p", None), ("rk4", 0.1)])
def test_compiled_steps_push_tangents_without_being_recorded(
    method: str, step: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slopes(t: Any, y: Any, p: Any, drift: Any) -> Any:
        return np.stack([y[1] * np.cos(t) + drift, -p[0] * y[0] - p[1] * y[1]])

    def jacobian(f: Any) -> Any:
        def solve(y0: Any, ts: Any, p: Any, drift: Any) -> Any:
            return wg.odeint(f, y0, ts, p, drift, method=method, step=step, rtol=1e-8, atol=1e-10).ys

        arguments = np.array([1.0, 0.5]), np.array([0.2, 0.9, 1.7]), np.array([2.0, 0.3]), 0.4
        return wg.jacobian(solve, argnums=(0, 1, 2, 3), mode="forward")(*arguments)

    plain = jacobian(slopes)
    monkeypatch.setattr(ode.OdeSegment, "record_step", lambda *args: pytest.fail("a step was recorded"))
    compiled = jacobian(wg.compile(slopes))

    for one, other in zip(plain, compiled, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-11, atol=1e-12)
