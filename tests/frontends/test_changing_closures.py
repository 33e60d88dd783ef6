"""Functions that transforms call again later, when what they read from outside has changed in the meantime.

Solutions of equations keep what the function read; other transforms say that it has changed. Derivatives are compared
with the same function written with arguments, and with finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import wiregrad as wg
from wiregrad.errors import EscapeError, GradientError

FACTORS = (1.0, 2.0, 3.0)
START = np.array([1.0, 2.0, 3.0])
WEIGHTS = np.linspace(0.1, 1.0, 5_000)
WIDE = np.ones(10_000)


class ClosureCase(NamedTuple):
    """A function whose equations read variables that are bound again, and the same with arguments."""

    natural: Callable[[Any], Any]
    bound: Callable[[Any], Any]


def sum_over_factors(solve: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """Return the sum over factors of a solution; each call of `solve` has variables of its own."""
    return lambda a: sum((solve(k, a) for k in FACTORS), 0.0)


def take_implicit_steps(a: Any) -> Any:
    """Return the state after three steps of the implicit Euler method; each residual reads the state before it."""
    x: Any = 1.0
    for _ in range(3):
        x = wg.root(lambda y: y - x + 0.1 * a * y**3, x)  # noqa: B023
    return x


def take_bound_steps(a: Any) -> Any:
    """Return the same with the state before each step as an argument."""
    x: Any = 1.0
    for _ in range(3):
        x = wg.root(lambda y, before, a: y - before + 0.1 * a * y**3, x, x, a)
    return x


class Cell:
    """A state that goes on by implicit steps."""

    def __init__(self, a: Any) -> None:
        self.x: Any = 1.0
        self.a = a

    def step(self) -> None:
        """Replace the state by the next one."""
        self.x = wg.root(lambda y: y - self.x + 0.1 * self.a * y**3, self.x)


def take_steps_of_a_class(a: Any) -> Any:
    """Return the state of a `Cell` after three steps."""
    cell = Cell(a)
    for _ in range(3):
        cell.step()
    return cell.x


def double_a_recorded_value(a: Any) -> Any:
    """Solve with a value that is bound again after each solution."""
    k = 1.0 * a
    total: Any = 0.0
    for _ in range(3):
        total = total + wg.root(lambda x: x**3 - k, 1.0)  # noqa: B023
        k = k * 2.0
    return total


def double_an_attribute(a: Any) -> Any:
    """Solve with an attribute that changes after each solution."""
    state = SimpleNamespace(k=1.0)
    total: Any = 0.0
    for _ in range(3):
        total = total + wg.root(lambda x, a: x**3 - state.k * a, 1.0, a)
        state.k *= 2.0
    return total


def double_an_element(a: Any) -> Any:
    """Solve with an element of an array that is written to after each solution."""
    w = np.ones(2)
    total: Any = 0.0
    for _ in range(3):
        total = total + wg.root(lambda x, a: x**3 - w[0] * a, 1.0, a)
        w[0] *= 2.0
    return total


def loop_over_factors(a: Any) -> Any:
    """Solve with a loop variable in the residual."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.root(lambda x, a: x**3 - k * a, 1.0, a)  # noqa: B023
    return total


def iterate_over_factors(a: Any) -> Any:
    """Iterate to fixed points with a loop variable in the function."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.fixed_point(lambda x, a: 0.5 * (x + k * a / x), 1.0, a)  # noqa: B023
    return total


def minimize_over_factors(a: Any) -> Any:
    """Minimise with a loop variable in the function."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.minimize(lambda x, a: np.exp(x) - k * a * x, 0.0, a)  # noqa: B023
    return total


def minimize_on_lines(a: Any) -> Any:
    """Minimise with a loop variable in the function and in the constraint."""
    total: Any = 0.0
    for k in FACTORS:
        found = wg.minimize(
            lambda x, a: np.sum((x - k * a) ** 2),  # noqa: B023
            np.zeros(2),
            a,
            equality=lambda x, a: x[0] - k * a**2,  # noqa: B023
        )
        total = total + np.sum(found**2)
    return total


def solve_linear_systems(a: Any) -> Any:
    """Solve linear systems whose operator reads a loop variable and a value."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + np.sum(wg.linear_solve(lambda x: (4.0 + k * a) * x - np.roll(x, 1), START) ** 2)  # noqa: B023
    return total


def solve_densely(apply: Callable[[Any], Any], b: Any) -> Any:
    """Solve a linear system of plain numbers."""
    return np.linalg.solve(np.stack([apply(unit) for unit in np.eye(len(b))], axis=1), b)


def solve_without_matrices(a: Any) -> Any:
    """Solve with a linear solver for the derivatives, and a loop variable in the residual."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + np.sum(
            wg.root(
                lambda x, a: np.sinh(x) + 0.1 * k * np.roll(x, 1) - a * START,  # noqa: B023
                np.zeros(3),
                a,
                linear_solver=solve_densely,
            )
        )
    return total


def bisect_over_factors(a: Any) -> Any:
    """Solve by SciPy's solver with a loop variable in the residual."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.root(
            lambda x, a: x**3 - k * a,  # noqa: B023
            1.0,
            a,
            solver=lambda f, x0: optimize.brentq(f, 0.0, 10.0, xtol=1e-14),
        )
    return total


def use_large_arrays(a: Any) -> Any:
    """Solve with long arrays, of which recordings keep what derivatives read alone."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.root(lambda x, a: np.sum((x + k * WEIGHTS) * a * WEIGHTS**2) - k * a**2, 1.0, a)  # noqa: B023
    return total


def fit_pillars(a: Any) -> Any:
    """Find one rate after the other; each residual interpolates in the list of the rates before it."""
    times, rates = [0.0], [a]
    for t in FACTORS:
        times.append(t)
        rates.append(
            wg.root(
                lambda r: r + 0.1 * np.interp(t - 0.5, np.array(times), np.stack([*rates, r])) ** 2 - 0.1 * t * a,  # noqa: B023
                0.1,
            )
        )
    return sum(rates[1:], rates[0])


def fit_bound_pillars(a: Any) -> Any:
    """Find the same rates with lists that are bound for each residual."""
    times, rates = [0.0], [a]
    for t in FACTORS:

        def gap(r: Any, a: Any, *known: Any, t: float = t, grid: tuple[float, ...] = (*times, t)) -> Any:
            return r + 0.1 * np.interp(t - 0.5, np.array(grid), np.stack([*known, r])) ** 2 - 0.1 * t * a

        rates.append(wg.root(gap, 0.1, a, *rates))
        times.append(t)
    return sum(rates[1:], rates[0])


CASES = {
    "implicit Euler": ClosureCase(take_implicit_steps, take_bound_steps),
    "implicit Euler in a class": ClosureCase(take_steps_of_a_class, take_bound_steps),
    "a recorded value": ClosureCase(double_a_recorded_value, lambda a: sum(np.cbrt(k * a) for k in (1.0, 2.0, 4.0))),
    "an attribute": ClosureCase(double_an_attribute, lambda a: sum(np.cbrt(k * a) for k in (1.0, 2.0, 4.0))),
    "an element": ClosureCase(double_an_element, lambda a: sum(np.cbrt(k * a) for k in (1.0, 2.0, 4.0))),
    "a loop variable": ClosureCase(loop_over_factors, sum_over_factors(lambda k, a: np.cbrt(k * a))),
    "fixed_point": ClosureCase(iterate_over_factors, sum_over_factors(lambda k, a: np.sqrt(k * a))),
    "minimize": ClosureCase(minimize_over_factors, sum_over_factors(lambda k, a: np.log(k * a))),
    "minimize with equality": ClosureCase(
        minimize_on_lines, sum_over_factors(lambda k, a: (k * a**2) ** 2 + (k * a) ** 2)
    ),
    "linear_solve": ClosureCase(
        solve_linear_systems,
        sum_over_factors(
            lambda k, a: np.sum(np.linalg.solve((4.0 + k * a) * np.eye(3) - np.roll(np.eye(3), 1, axis=0), START) ** 2)
        ),
    ),
    "linear_solver": ClosureCase(
        solve_without_matrices,
        sum_over_factors(
            lambda k, a: np.sum(wg.root(lambda x, a: np.sinh(x) + 0.1 * k * np.roll(x, 1) - a * START, np.zeros(3), a))
        ),
    ),
    "a solver of SciPy": ClosureCase(bisect_over_factors, sum_over_factors(lambda k, a: np.cbrt(k * a))),
    "large arrays": ClosureCase(
        use_large_arrays,
        sum_over_factors(lambda k, a: (k * a - k * np.sum(WEIGHTS**3)) / np.sum(WEIGHTS**2)),
    ),
    "pillars": ClosureCase(fit_pillars, fit_bound_pillars),
}


def pull_back_from_value(f: Callable[[Any], Any], a: float) -> Any:
    """Return the gradient of values that are recorded as they are computed."""
    x = wg.Value(a)
    f(x).backward()
    return x.grad


def compile_at_other_points(f: Callable[[Any], Any], a: float) -> Any:
    """Return the gradient by compiled code that was recorded at another point."""
    fast = wg.compile(f)
    fast.value_and_grad(1.1 * a)
    fast.value_and_grad(1.2 * a)
    return fast.value_and_grad(a)[1]


FIRST_ORDER: dict[str, Callable[[Callable[[Any], Any], float], Any]] = {
    "grad": lambda f, a: wg.grad(f)(a),
    "jacobian": lambda f, a: wg.jacobian(f)(a),
    "jvp": lambda f, a: wg.jvp(f, (a,), (1.0,))[1],
    "linearize": lambda f, a: wg.linearize(f, a)[1](1.0),
    "vjp": lambda f, a: wg.vjp(f, a)[1](1.0)[0],
    "backward": pull_back_from_value,
    "checkpoint": lambda f, a: wg.grad(wg.checkpoint(f))(a),
    "trace": lambda f, a: wg.trace(f, 1.1 * a).run(a=a).grads["a"],
    "trace of grad": lambda f, a: float(wg.trace(wg.grad(f), 1.1 * a).run(a=a).output),
    "compile": compile_at_other_points,
    "vmap of grad": lambda f, a: wg.vmap(wg.grad(f))(np.array([1.1 * a, a]))[1],
    "grad of vmap": lambda f, a: wg.grad(lambda v: np.sum(wg.vmap(f)(v)))(np.array([1.1 * a, a]))[1],
}
SECOND_ORDER: dict[str, Callable[[Callable[[Any], Any], float], Any]] = {
    "hessian": lambda f, a: wg.hessian(f)(a),
    "grad of grad": lambda f, a: wg.grad(wg.grad(f))(a),
    "hvp": lambda f, a: wg.hvp(f, a, 1.0),
    "jvp of jvp": lambda f, a: wg.jvp(lambda x: wg.jvp(f, (x,), (1.0,))[1], (a,), (1.0,))[1],
}


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
@pytest.mark.parametrize("mode", FIRST_ORDER)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_what_the_function_read(name: str, mode: str) -> None:
    natural, bound = CASES[name]
    a, h = 2.0, 1e-5
    found = FIRST_ORDER[mode](natural, a)

    assert_allclose(found, wg.grad(bound)(a), rtol=1e-7)
    assert_allclose(found, (natural(a + h) - natural(a - h)) / (2.0 * h), rtol=1e-5)


@pytest.mark.parametrize("mode", SECOND_ORDER)
@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_those_of_what_the_function_read(name: str, mode: str) -> None:
    natural, bound = CASES[name]

    assert_allclose(SECOND_ORDER[mode](natural, 2.0), wg.grad(wg.grad(bound))(2.0), rtol=1e-6, atol=1e-9)


def branch_over_factors(a: Any) -> Any:
    """Solve with a loop variable in a residual that branches on its values."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.root(lambda x, a: x**3 - k * a if x > 0.0 else x - k, 1.0, a)  # noqa: B023
    return total


@pytest.mark.parametrize("mode", ["grad", "jacobian", "jvp", "vjp", "backward", "compile"])
@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_residuals_that_branch_keep_what_they_read(mode: str) -> None:
    found = FIRST_ORDER[mode](branch_over_factors, 2.0)

    assert_allclose(found, wg.grad(lambda a: sum(np.cbrt(k * a) for k in FACTORS))(2.0), rtol=1e-7)


@pytest.mark.parametrize("mode", ["trace", "trace of grad", "vmap of grad"])
def test_circuits_refuse_residuals_that_branch_and_have_changed(mode: str) -> None:
    with pytest.raises(GradientError, match=r"has changed since it was solved.*branches on values.*pass what changes"):
        FIRST_ORDER[mode](branch_over_factors, 2.0)


def test_residuals_that_branch_are_solved_again_at_other_inputs() -> None:
    def solve(a: Any) -> Any:
        return wg.root(lambda x, a: x**3 - a if x > 0.0 else x - a, 1.0, a)

    run = wg.trace(solve, 2.0).run(a=8.0)

    assert_allclose((run.output, run.grads["a"]), (2.0, 1.0 / 12.0))
    with pytest.raises(EscapeError, match="not among its arguments"):
        wg.trace(lambda a: wg.root(lambda x: x**3 - a if x > 0.0 else x - a, 1.0), 2.0)


def test_circuits_solve_with_values_from_outside() -> None:
    run = wg.trace(take_implicit_steps, 2.0).run(a=3.0)

    assert_allclose(run.output, take_bound_steps(3.0))
    assert_allclose(run.grads["a"], wg.grad(take_bound_steps)(3.0))


def test_a_circuit_of_values_solves_at_its_own_point_alone_if_it_reads_values_from_outside() -> None:
    a = wg.Value(4.0, name="a")
    circuit = wg.circuit(wg.root(lambda x: x * x - a, 1.0) * 3.0)

    assert circuit.run(a=4.0).output == 6.0
    assert circuit.run(a=4.0).grads == {"a": 0.75}
    with pytest.raises(EscapeError, match="not among its arguments"):
        circuit.run(a=9.0)


def integrate_over_factors(a: Any) -> Any:
    """Solve differential equations with a loop variable in the slope."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.odeint(lambda t, y, a: -k * a * y, 1.0, [0.0, 1.0], a).ys[-1]  # noqa: B023
    return total


def integrate_from_rest(a: Any) -> Any:
    """Solve equations whose slope is the same for each loop variable, but not its derivative."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.odeint(lambda t, y: -k * y, 0.0 * a, [0.0, 1.0]).ys[-1]  # noqa: B023
    return total


def integrate_by_the_adjoint_equation(a: Any) -> Any:
    """Solve differential equations whose gradients are computed backwards in time."""
    total: Any = 0.0
    for k in FACTORS:
        solved = wg.odeint(lambda t, y, a: -k * a * y, 1.0, [0.0, 1.0], a, adjoint="continuous")  # noqa: B023
        total = total + solved.ys[-1]
    return total


def integrate_to_events(a: Any) -> Any:
    """Solve differential equations with a loop variable in an event."""
    total: Any = 0.0
    for k in FACTORS:
        fall = wg.event(lambda t, y, a: y - k)  # noqa: B023
        total = total + wg.odeint(lambda t, y, a: -a + 0.0 * y, 10.0, [0.0, 20.0], a, events=[fall]).event_times[0][0]
    return total


def integrate_and_ask_later(a: Any) -> Any:
    """Ask solutions for a state between their steps after the loop variable has changed."""
    solved = [wg.odeint(lambda t, y, a: -k * a * y, 1.0, [0.0, 1.0], a) for k in FACTORS]  # noqa: B023
    return sum((one.sol(0.5) for one in solved), 0.0)


INTEGRATIONS = (
    integrate_over_factors,
    integrate_from_rest,
    integrate_by_the_adjoint_equation,
    integrate_to_events,
    integrate_and_ask_later,
)


@pytest.mark.parametrize("mode", ["grad", "jacobian", "jvp", "backward", "trace", "compile"])
@pytest.mark.parametrize("integrate", INTEGRATIONS)
@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_differential_equations_say_that_their_function_has_changed(integrate: Callable[[Any], Any], mode: str) -> None:
    with pytest.raises(GradientError, match="f depends on something that has changed since, such as a loop variable"):
        FIRST_ORDER[mode](integrate, 2.0)


def scale_by_checkpoints(x: Any) -> Any:
    """Checkpoint functions that return the same at zero, with other derivatives."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + wg.checkpoint(lambda x: k * x)(x)  # noqa: B023
    return total


def scale_arrays_by_checkpoints(x: Any) -> Any:
    """Do the same with arrays."""
    total: Any = 0.0
    for k in FACTORS:
        total = total + np.sum(wg.checkpoint(lambda x: k * x * START)(x * np.ones(3)))  # noqa: B023
    return total


def scale_by_memory_plans(x: Any) -> Any:
    """Do the same with a planned chain of steps."""
    total: Any = 0.0
    for k in FACTORS:
        steps = [lambda x: np.sin(k * x)] * 50  # noqa: B023
        total = total + np.sum(wg.plan_memory(steps, WIDE, budget=800_000)(x * WIDE))
    return total


@pytest.mark.parametrize("mode", ["grad", "jacobian", "jvp", "backward"])
@pytest.mark.parametrize("scale", [scale_by_checkpoints, scale_arrays_by_checkpoints, scale_by_memory_plans])
def test_checkpoints_compare_what_they_record_and_not_results_alone(scale: Callable[[Any], Any], mode: str) -> None:
    with pytest.raises(GradientError, match="gave another result when it was computed again"):
        FIRST_ORDER[mode](scale, 0.0)


def test_second_derivatives_of_checkpoints_compare_what_they_record() -> None:
    with pytest.raises(GradientError, match="gave another result when it was computed again"):
        wg.grad(wg.grad(lambda x: scale_by_checkpoints(x * x)))(0.0)


def test_checkpoints_may_be_swept_under_a_watcher() -> None:
    x = wg.Value(2.0)
    y = wg.checkpoint(lambda x: np.sin(x) * 3.0)(x)
    with wg.anomaly():
        y.backward()

    assert_allclose(x.grad, 3.0 * np.cos(2.0))
