"""Right sides that jump: SciPy's solvers warn where the gradient leaves the motion of a jump out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import odeint, solve_ivp

import wiregrad as wg
from wiregrad.errors import GradientWarning

RightSide = Callable[[Any, Any, Any], Any]
P = np.array([0.5, 2.0])

MOVING: dict[str, RightSide] = {
    "branch on the state": lambda t, y, p: [p[0] * y[0] if y[0] < p[1] else 0.1 * y[0]],
    "branch at a number": lambda t, y, p: [p[0] * y[0] if y[0] < 2.0 else 0.1 * y[0]],
    "branch on the time": lambda t, y, p: [p[0] * y[0] * (1.0 if t < p[1] else 0.5)],
    "where": lambda t, y, p: p[0] * y * np.where(t < p[1], 1.0, 0.5),
    "mask": lambda t, y, p: p[0] * y * (y < p[1]) + 0.1 * y,
    "sign": lambda t, y, p: p[0] * np.sign(y - p[1]) + 1.0 + y,
}
STEADY: dict[str, RightSide] = {
    "smooth": lambda t, y, p: p[0] * y,
    "branch on the time": lambda t, y, p: [p[0] * y[0] * (1.0 if t < 2.0 else 0.5)],
    "floor of the time": lambda t, y, p: p[0] * y * np.floor(t),
    "maximum": lambda t, y, p: p[0] * np.maximum(y - p[1], 0.0) + p[0],
    "abs": lambda t, y, p: 1.5 - abs(y - p[1]),
    "where without a jump": lambda t, y, p: p[0] * np.where(y > p[1], y - p[1], 0.0) + p[0],
    "branch without a jump": lambda t, y, p: [p[0] + (y[0] - p[1] if y[0] > p[1] else 0.0)],
}

every_method = pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "LSODA"])


def solve(f: RightSide, p: Any, method: str) -> Any:
    return solve_ivp(f, (0.0, 3.0), [1.0], args=(p,), method=method, rtol=1e-6, atol=1e-6).y[0, -1]


def solve_by_odeint(f: RightSide, p: Any) -> Any:
    return odeint(f, [1.0], np.array([0.0, 1.0, 3.0]), args=(p,), tfirst=True)[-1, 0]


@every_method
@pytest.mark.parametrize("name", MOVING)
def test_a_jump_that_moves_warns_with_the_line_of_its_condition(name: str, method: str) -> None:
    f = MOVING[name]
    line = f.__code__.co_firstlineno

    with pytest.warns(GradientWarning, match=rf"solve_ivp jumps .*test_ode_jumps\.py:{line}\)") as caught:
        wg.grad(lambda p: solve(f, p, method))(P)
    assert [str(warning.filename) for warning in caught] == [__file__]


@every_method
@pytest.mark.parametrize("name", STEADY)
def test_kinks_and_jumps_at_fixed_moments_do_not_warn(name: str, method: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert np.isfinite(wg.grad(lambda p: solve(STEADY[name], p, method))(P)).all()


def test_a_rounding_that_jumps_warns() -> None:
    with pytest.warns(GradientWarning, match="solve_ivp jumps"):
        wg.grad(lambda p: solve(lambda t, y, p: p[0] * np.floor(y) + 1.0, p, "RK45"))(P)


def test_odeint_warns_too() -> None:
    with pytest.warns(GradientWarning, match="odeint jumps"):
        wg.grad(lambda p: solve_by_odeint(MOVING["branch on the state"], p))(P)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.grad(lambda p: solve_by_odeint(STEADY["smooth"], p))(P)


def test_a_loop_of_gradients_warns_once() -> None:
    gradient = wg.grad(lambda p: solve(MOVING["where"], p, "RK45"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for scale in (1.0, 1.1, 1.2):
            gradient(P * scale)

    assert len(caught) == 1


def test_plain_numbers_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert np.isfinite(solve(MOVING["where"], P, "RK45"))


SWITCHES: dict[str, RightSide] = {
    "branch": lambda t, y, p: -y * (1.0 if t < p else 2.0),
    "where": lambda t, y, p: -y * np.where(t < p, 1.0, 2.0),
}


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("solver", ["RK45", "LSODA", "odeint"])
def test_a_switching_time_that_nothing_else_records_warns(name: str, solver: str) -> None:
    def final_size(p: Any) -> Any:
        return solve_by_odeint(SWITCHES[name], p) if solver == "odeint" else solve(SWITCHES[name], p, solver)

    with pytest.warns(GradientWarning, match="jumps where a condition changes"):
        wg.grad(final_size)(1.7)


@pytest.mark.parametrize("solver", ["solve_ivp", "odeint"])
def test_a_right_side_that_writes_to_its_state_leaves_the_start_as_it_was(solver: str) -> None:
    start = np.array([1.0, 2.0])

    def decay(t: Any, y: Any) -> Any:
        y *= -0.5
        return y

    def final_size(p: Any) -> Any:
        if solver == "odeint":
            return p * odeint(decay, start, [0.0, 1.0], tfirst=True)[-1, 0]
        return p * solve_ivp(lambda t, y: decay(t, y.copy()), (0.0, 1.0), start).y[0, -1]

    wg.grad(final_size)(1.5)

    assert start.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("options", [{"events": lambda t, y: y[0] - 0.5}, {"dense_output": True}, {"vectorized": True}])
def test_options_without_a_rule_leave_plain_right_sides_to_scipy(options: dict[str, Any]) -> None:
    def final_size(p: Any) -> Any:
        return p * solve_ivp(lambda t, y: -y * (1.0 if t < p else 2.0), (0.0, 1.0), [1.0], **options).y[0, -1]

    assert np.isclose(wg.grad(final_size)(5.0), np.exp(-1.0), rtol=1e-2)


def test_a_function_that_refuses_what_the_search_asks_is_solved_without_a_warning() -> None:
    def decay(t: Any, y: Any, p: Any) -> Any:
        if not isinstance(t, float):
            raise TypeError("the time must be a float")
        return -p * y * np.where(y > 0.5, 1.0, 2.0)

    assert np.isfinite(wg.grad(lambda p: solve(decay, p, "RK45"))(1.5))


@pytest.mark.parametrize("tolerance", [1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11])
def test_the_event_that_the_warning_advises_has_the_right_gradient(tolerance: float) -> None:
    def growth(t: Any, y: Any, p: Any) -> Any:
        return np.stack([(p[0] * (1.0 - y[1]) + 0.1 * y[1]) * y[0], 0.0 * y[0]])

    grown = wg.event(lambda t, y, p: y[0] - p[1], restart=lambda t, y, p: np.stack([y[0], 1.0]))

    def final_size(p: Any) -> Any:
        solution = wg.odeint(growth, np.array([1.0, 0.0]), [0.0, 3.0], p, events=[grown], rtol=tolerance, atol=1e-12)
        return solution.ys[-1, 0]

    def exact(p: Any) -> Any:
        return p[1] * np.exp(0.1 * (3.0 - np.log(p[1]) / p[0]))

    assert np.allclose(wg.grad(final_size)(P), wg.grad(exact)(P), rtol=1e-4)
