"""Optimisers: known minima are found, and a report never claims more than holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import wiregrad as wg
from wiregrad.errors import ConvergenceError, OperandError

TIMES = np.linspace(0.0, 4.0, 9)


def rosenbrock(x: Any) -> Any:
    """Return the banana function, least at ones."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def powell(x: Any) -> Any:
    """Return Powell's singular function, whose Hessian is singular at its minimum, zero."""
    return (x[0] + 10.0 * x[1]) ** 2 + 5.0 * (x[2] - x[3]) ** 2 + (x[1] - 2.0 * x[2]) ** 4 + 10.0 * (x[0] - x[3]) ** 4


MINIMA: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "rosenbrock": (rosenbrock, np.array([-1.2, 1.0]), np.ones(2)),
    "rosenbrock of five": (rosenbrock, np.zeros(5), np.ones(5)),
    "quadratic": (lambda x: np.sum((x - np.arange(4.0)) ** 2), np.zeros(4), np.arange(4.0)),
    "a number": (lambda x: np.exp(x) - 2.0 * x, 0.0, np.log(2.0)),
    "a start with negative curvature": (lambda x: x**4 - x**2, 0.1, np.sqrt(0.5)),
    "a start where a step leaves the domain": (lambda x: x - np.log(x), 0.05, 1.0),
}


@pytest.mark.parametrize("optimise", [wg.newton, wg.lbfgs])
@pytest.mark.parametrize("name", MINIMA)
def test_known_minima_are_found(name: str, optimise: Any) -> None:
    f, start, lowest = MINIMA[name]

    fit = optimise(f, start)

    assert fit.converged, fit
    assert_allclose(fit.x, lowest, rtol=1e-6, atol=1e-6)
    assert fit.value == f(fit.x)
    assert fit.history[-1] == fit.value <= fit.history[0]


def test_a_singular_hessian_is_stepped_through() -> None:
    fit = wg.newton(powell, np.array([3.0, -1.0, 0.0, 1.0]))

    assert fit.converged
    assert fit.value < 1e-12


@pytest.mark.parametrize("method", ["levenberg-marquardt", "gauss-newton"])
def test_least_squares_recovers_parameters(method: str) -> None:
    data = 2.5 * np.exp(-1.3 * TIMES) + 0.5

    fit = wg.least_squares(
        lambda p: p[0] * np.exp(-p[1] * TIMES) + p[2] - data, np.array([1.0, 1.0, 0.0]), method=method
    )

    assert fit.converged
    assert_allclose(fit.x, [2.5, 1.3, 0.5], rtol=1e-8)


def test_least_squares_equals_scipys_where_residuals_stay() -> None:
    noise = np.random.default_rng(3).normal(size=9)
    data = 2.5 * np.exp(-1.3 * TIMES) + 0.1 * noise

    def residuals(p: Any) -> Any:
        return p[0] * np.exp(-p[1] * TIMES) - data

    fit = wg.least_squares(residuals, np.array([1.0, 1.0]))
    known = optimize.least_squares(
        residuals, [1.0, 1.0], jac=wg.jacobian(residuals), xtol=1e-14, ftol=1e-14, gtol=1e-14
    )

    assert fit.converged
    assert_allclose(fit.x, known.x, rtol=1e-6)
    assert_allclose(fit.value, known.cost, rtol=1e-12)


@pytest.mark.parametrize("use_sparse", [None, True, False])
def test_sparse_and_dense_matrices_lead_to_the_same_point(use_sparse: bool | None) -> None:
    def residuals(x: Any) -> Any:
        return np.concatenate([np.diff(x) + 0.1 * x[1:] ** 2, x[:1] - 1.0])

    fit = wg.least_squares(residuals, np.ones(120), use_sparse=use_sparse)
    lowest = wg.newton(
        lambda x: np.sum((x[1:] - x[:-1]) ** 2 + (x[1:] - 2.0) ** 4), np.ones(120), use_sparse=use_sparse
    )

    assert fit.converged
    assert fit.value < 1e-20
    assert lowest.converged


@pytest.mark.parametrize("size", [5, 120])
@pytest.mark.parametrize("search", [wg.least_squares, wg.newton, wg.lbfgs])
def test_compiled_functions_are_fitted_alike(search: Any, size: int) -> None:
    def f(x: Any, target: Any) -> Any:
        errors = np.concatenate([x[1:] - x[:-1] ** 2, x[:1] - target])
        return errors if search is wg.least_squares else np.sum(errors**2 + 0.1 * errors**4)

    start = np.full(size, 0.9)
    plain = search(f, start, 1.0, max_steps=30)
    compiled = search(wg.compile(f), start, 1.0, max_steps=30)

    assert compiled.reason == plain.reason
    assert_allclose(compiled.x, plain.x, rtol=1e-6, atol=1e-7)


def test_a_compiled_function_is_called_once_in_a_while() -> None:
    compiled = wg.compile(lambda p: p["a"] * np.exp(-p["b"] * TIMES) - 2.5 * np.exp(-1.3 * TIMES))
    fit = wg.least_squares(compiled, {"a": 1.0, "b": 1.0})

    assert fit.converged
    assert_allclose([fit.x["a"], fit.x["b"]], [2.5, 1.3], rtol=1e-8)


def test_containers_are_fitted_in_their_structure() -> None:
    fit = wg.lbfgs(lambda p: (p["a"] - 1.0) ** 2 + np.sum((p["b"] - 2.0) ** 2), {"a": 0.0, "b": np.zeros(2)})

    assert_allclose(fit.x["a"], 1.0)
    assert_allclose(fit.x["b"], [2.0, 2.0])


def test_other_arguments_are_passed_on() -> None:
    assert_allclose(wg.newton(lambda x, a: (x - a) ** 2, 0.0, 3.0).x, 3.0)


STUCK: dict[str, tuple[str, Callable[[], Any]]] = {
    "too few steps": ("the limit of 3 steps was reached", lambda: wg.lbfgs(rosenbrock, np.full(3, -1.0), max_steps=3)),
    "no lower bound": ("limit|no lower bound", lambda: wg.newton(lambda x: -(x**2), 1.0, max_steps=20)),
    "not differentiable": (
        "no step along the direction|limit",
        lambda: wg.lbfgs(lambda x: np.sum(np.abs(x - np.array([1.0, 2.0]))) + 0.1 * np.sum(x), np.zeros(2)),
    ),
    "the edge of a domain": (
        "the gradient is not zero",
        lambda: wg.least_squares(lambda p: np.sqrt(p) + 1.0, np.ones(1)),
    ),
    "no lower bound of an exponential": ("no step along|no lower bound", lambda: wg.lbfgs(lambda x: -np.exp(x), 1.0)),
    "few steps of least squares": (
        "the limit of 2 steps was reached",
        lambda: wg.least_squares(
            lambda x: np.array([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]]), np.array([-1.2, 1.0]), max_steps=2
        ),
    ),
}


@pytest.mark.parametrize("name", STUCK)
def test_a_search_that_did_not_arrive_says_so_and_what_to_try(name: str) -> None:
    reason, search = STUCK[name]
    fit = search()

    assert not fit.converged
    assert "did not converge" in str(fit)
    assert re.search(reason, fit.reason)
    assert fit.advice.startswith("try: ")
    assert fit.advice in str(fit)


UNDETERMINED: dict[str, Callable[[], Any]] = {
    "a sum of two unknowns": lambda: wg.least_squares(
        lambda p: np.stack([p[0] + p[1] - 1.0, 2.0 * p[0] + 2.0 * p[1] - 2.5]), np.zeros(2)
    ),
    "by Gauss and Newton": lambda: wg.least_squares(
        lambda p: np.stack([p[0] + p[1] - 1.0, p[0] + p[1] - 2.0]), np.zeros(2), method="gauss-newton"
    ),
    "an unknown that nothing reads": lambda: wg.least_squares(lambda p: p[:-1] - 1.0, np.zeros(4)),
    "one of many that nothing reads": lambda: wg.least_squares(lambda p: p[:-1] - 1.0, np.zeros(200)),
    "a chain that nothing holds": lambda: wg.least_squares(lambda p: np.diff(p) - 1.0, np.zeros(200)),
}


@pytest.mark.parametrize("name", UNDETERMINED)
def test_a_singular_jacobian_is_reported(name: str) -> None:
    fit = UNDETERMINED[name]()

    assert fit.converged
    assert "the Jacobian is singular at x, so other x are as good; try: " in str(fit)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_units_do_not_make_a_jacobian_singular(scale: float) -> None:
    data = 2.5 * np.exp(-1.3 * TIMES)
    fit = wg.least_squares(lambda p: p[0] / scale * np.exp(-p[1] * TIMES) - data, np.array([scale, 1.0]))

    assert_allclose(fit.x[0], 2.5 * scale, rtol=1e-6)
    assert fit.advice == ""


def test_a_start_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ConvergenceError, match="not finite at the start"):
        wg.newton(np.log, -1.0)
    with pytest.raises(ConvergenceError, match="not finite at the start"):
        wg.least_squares(np.log, np.array([-1.0, 1.0]))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(OperandError, match="must be a function; got 3"):
        wg.lbfgs(3, 1.0)  # type: ignore[arg-type]
    with pytest.raises(OperandError, match="'levenberg-marquardt' or 'gauss-newton'; got 'lm'"):
        wg.least_squares(np.sin, 1.0, method="lm")


def test_steps_are_shown_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    wg.newton(lambda x: (x - 1.0) ** 2, 0.0, progress=True)
    assert "step 1: " in capsys.readouterr().err
    wg.newton(lambda x: (x - 1.0) ** 2, 0.0)
    assert capsys.readouterr().err == ""


def test_many_unknowns_that_all_residuals_read_are_fitted() -> None:
    fit = wg.least_squares(lambda z: z * z.sum() / len(z) - 1.0, np.linspace(0.4, 0.6, 120))

    assert fit.converged
    assert_allclose(fit.x, 1.0, rtol=1e-8)


def decay(p: Any) -> Any:
    return p[0] * np.exp(-p[1] * TIMES) - 2.5 * np.exp(-1.3 * TIMES)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_give_what_scipy_finds_for_linear_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, right = rng.normal(size=(8, 5)), 3.0 * rng.normal(size=8)
    low, high = -rng.random(5), rng.random(5)
    low[rng.random(5) < 0.3] = -np.inf
    fit = wg.least_squares(lambda x: matrix @ x - right, np.clip(np.zeros(5), low, high), bounds=(low, high))
    wanted = optimize.lsq_linear(matrix, right, (low, high), tol=1e-14)

    assert fit.converged, fit
    assert ((low <= fit.x) & (fit.x <= high)).all()
    assert_allclose(fit.x, wanted.x, atol=1e-7)


@pytest.mark.parametrize(
    ("bounds", "x"),
    [
        ((-np.inf, np.inf), [2.5, 1.3]),
        ((0.0, [2.0, 9.0]), [2.0, 1.0714]),
        (([0.0, 2.0], np.inf), [2.6755, 2.0]),
        (optimize.Bounds([0.0, 0.0], [2.0, 9.0]), [2.0, 1.0714]),
        (([0.0, -1.0], [1.0, 0.5]), [1.0, 0.5]),
    ],
)
def test_bounds_hold_a_curve(bounds: Any, x: list[float]) -> None:
    start = np.clip([1.0, 1.0], *((bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds))
    fit = wg.least_squares(decay, start, bounds=bounds)

    assert fit.converged, fit
    assert_allclose(fit.x, x, atol=2e-3)
    assert fit.gradient_norm < 1e-6


def test_bounds_have_the_structure_of_the_unknowns() -> None:
    fit = wg.least_squares(
        lambda p: [p["a"] - 1.0, p["b"] * p["a"] - 3.0],
        {"a": 0.5, "b": np.ones(2)},
        bounds=({"a": 0.0, "b": [0.0, 0.0]}, {"a": 0.8, "b": [1.0, 9.0]}),
    )

    assert fit.converged
    assert fit.x["a"] == 0.8
    assert_allclose(fit.x["b"], [1.0, 3.75])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((1.0, 0.0), "each lower bound must be less than the upper one"),
        ((0.0,), "bounds is a pair (lower, upper)"),
        ([(0, 1), (0, 1), (0, 1)], "bounds is a pair (lower, upper)"),
        ((2.0, 3.0), "x0 must lie within the bounds; its number 0 is 1, not within 2 and 3: start from np.clip"),
        (([0.0] * 3, 1.0), "the lower bounds must have as many numbers as x0, which has 2; got 3"),
        ((0.0, np.nan), "each lower bound must be less than the upper one"),
    ],
)
def test_bounds_that_make_no_sense_say_what_is_wanted(bounds: Any, message: str) -> None:
    with pytest.raises(wg.WiregradError, match=re.escape(message)):
        wg.least_squares(decay, np.ones(2), bounds=bounds)


SCALES = (1e-30, 1e-12, 1e-8, 1.0, 1e8, 1e12)


@pytest.mark.parametrize("method", ["levenberg-marquardt", "gauss-newton"])
@pytest.mark.parametrize("scale", SCALES)
def test_least_squares_do_not_depend_on_the_scale_of_the_residuals(scale: float, method: str) -> None:
    exact = wg.least_squares(lambda x: scale * (x - 3.0), np.zeros(2), method=method)
    rough = wg.least_squares(
        lambda x: scale * np.stack([x[0] - 3.0, x[0] - 5.0, x[1] ** 2 - 2.0]), np.ones(2), method=method
    )
    again = wg.least_squares(lambda x: scale * (x - 3.0), np.full(2, 3.0 + 1e-15), method=method)

    assert exact.converged
    assert rough.converged
    assert again.converged
    assert_allclose(exact.x, [3.0, 3.0], rtol=1e-9)
    assert_allclose(rough.x, [4.0, np.sqrt(2.0)], rtol=1e-7)
    assert_allclose(again.x, [3.0, 3.0], rtol=1e-9)


@pytest.mark.parametrize("start", [0.0, 3.0 + 1e-13], ids=["from afar", "from near"])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("search", [wg.newton, wg.lbfgs])
def test_minima_do_not_depend_on_the_scale_of_the_function(search: Any, scale: float, start: float) -> None:
    fit = search(lambda x: scale * np.sum((x - 3.0) ** 2 * np.array([1.0, 50.0]) + (x - 3.0) ** 4), np.full(2, start))

    assert fit.converged
    assert_allclose(fit.x, [3.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize("search", [wg.newton, wg.lbfgs])
def test_a_large_constant_does_not_end_a_search_early(search: Any) -> None:
    fit = search(lambda x: 1.0 + 1e-8 * np.sum((x - 3.0) ** 2), np.zeros(2))

    assert fit.converged
    assert_allclose(fit.x, [3.0, 3.0], atol=1e-3)
