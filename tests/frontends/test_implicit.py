"""Solutions of equations: their derivatives against closed forms, in both modes and of higher orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

import wiregrad as wg
from wiregrad.errors import ConvergenceError, NoRuleError, OperandError, ShapeError, SingularError
from wiregrad.frontends.transforms import implicit
from wiregrad.frontends.transforms.implicit import MAX_DENSE_SIZE, MIN_SOLVES

MATRIX = np.array([[3.0, 1.0, 0.2], [1.0, 2.0, -0.4], [0.1, 0.3, 4.0]])
POINT = np.array([1.0, 2.0, -0.5])


class ImplicitCase(NamedTuple):
    """A function whose result is the solution of an equation, the same in closed form, and a point."""

    implicit: Callable[[Any], Any]
    explicit: Callable[[Any], Any]
    point: Any


def lambert(a: Any) -> Any:
    """Return w with w exp(w) = a, by many recorded steps of Newton's method from a near start."""
    w: Any = 0.5
    for _ in range(12):
        w = w - (w * np.exp(w) - a) / (np.exp(w) * (1.0 + w))
    return w


def solve_two_unknowns(a: Any) -> Any:
    """Return u * v of the solution of u = a * v and v**2 = a."""
    found = wg.root(lambda s, a: {"u": s["u"] - a * s["v"], "v": s["v"] ** 2 - a}, {"u": 1.0, "v": 1.0}, a)
    return found["u"] * found["v"]


def shift_and_scale(c: Any) -> Callable[[Any], Any]:
    """Return a linear function of vectors with three diagonals."""
    return lambda x: (4.0 + c) * x - np.roll(x, 1) + 0.5 * np.roll(x, -1)


def solve_shifted(c: Any) -> Any:
    """Solve the system of `shift_and_scale` by its matrix."""
    eye = np.eye(3)
    return np.linalg.solve((4.0 + c) * eye - np.roll(eye, 1, axis=0) + 0.5 * np.roll(eye, -1, axis=0), POINT)


CASES = {
    "square root": ImplicitCase(lambda a: wg.root(lambda x, a: x * x - a, 1.0, a), np.sqrt, 2.3),
    "square root of an outside value": ImplicitCase(
        lambda a: wg.root(lambda x: x * x - 2.0 * a, 1.0), lambda a: np.sqrt(2.0 * a), 2.3
    ),
    "product logarithm": ImplicitCase(lambda a: wg.root(lambda x, a: x * np.exp(x) - a, 0.3, a), lambert, 1.7),
    "linear system": ImplicitCase(
        lambda b: np.sum(wg.root(lambda x, b: MATRIX @ x - b, np.zeros(3), b) ** 3),
        lambda b: np.sum(np.linalg.solve(MATRIX, b) ** 3),
        POINT,
    ),
    "diagonal system": ImplicitCase(
        lambda b: np.sum(wg.root(lambda x, b: np.sinh(x) - b, np.zeros(3), b) ** 2),
        lambda b: np.sum(np.arcsinh(b) ** 2),
        POINT,
    ),
    "two unknowns in a dict": ImplicitCase(
        solve_two_unknowns,
        lambda a: a * a,
        1.9,
    ),
    "fixed point": ImplicitCase(lambda a: wg.fixed_point(lambda x, a: 0.5 * (x + a / x), 1.0, a), np.sqrt, 2.3),
    "fixed point of vectors": ImplicitCase(
        lambda b: np.sum(wg.fixed_point(lambda x, b: 0.1 * (MATRIX @ x) + b, np.zeros(3), b) ** 2),
        lambda b: np.sum(np.linalg.solve(np.eye(3) - 0.1 * MATRIX, b) ** 2),
        POINT,
    ),
    "minimum": ImplicitCase(lambda a: wg.minimize(lambda x, a: np.exp(x) - a * x, 0.0, a), np.log, 2.3),
    "least squares": ImplicitCase(
        lambda b: np.sum(wg.minimize(lambda x, b: np.sum((MATRIX @ x - b) ** 2), np.zeros(3), b) ** 3),
        lambda b: np.sum(np.linalg.solve(MATRIX, b) ** 3),
        POINT,
    ),
    "nearest point of a plane": ImplicitCase(
        lambda p: np.sum(
            wg.minimize(
                lambda x, p: np.sum((x - p) ** 2), np.zeros(3), p, equality=lambda x, p: x[0] + x[1] + x[2] - p[0] ** 2
            )
            ** 2
        ),
        lambda p: np.sum((p + (p[0] ** 2 - np.sum(p)) / 3.0) ** 2),
        POINT,
    ),
    "linear operator": ImplicitCase(
        lambda c: np.sum(wg.linear_solve(shift_and_scale(c), POINT) ** 2), lambda c: np.sum(solve_shifted(c) ** 2), 1.3
    ),
    "right side of a linear operator": ImplicitCase(
        lambda b: np.sum(np.sin(wg.linear_solve(shift_and_scale(0.0), b))),
        lambda b: np.sum(np.sin(np.linalg.solve(np.stack([shift_and_scale(0.0)(e) for e in np.eye(3)], axis=1), b))),
        POINT,
    ),
    "matrix": ImplicitCase(
        lambda b: np.sum(wg.linear_solve(MATRIX, b) ** 2), lambda b: np.sum(np.linalg.solve(MATRIX, b) ** 2), POINT
    ),
    "root without a matrix": ImplicitCase(
        lambda b: np.sum(
            wg.root(lambda x, b: np.sinh(x) + 0.1 * np.roll(x, 1) - b, np.zeros(3), b, linear_solver=solve_densely) ** 2
        ),
        lambda b: np.sum(wg.root(lambda x, b: np.sinh(x) + 0.1 * np.roll(x, 1) - b, np.zeros(3), b) ** 2),
        POINT,
    ),
}


def solve_densely(apply: Callable[[Any], Any], b: Any) -> Any:
    """Solve a linear system of plain numbers."""
    return np.linalg.solve(np.stack([apply(unit) for unit in np.eye(len(b))], axis=1), b)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_solutions_equal_the_closed_form(name: str) -> None:
    implicit, explicit, point = CASES[name]
    direction = np.ones_like(point) if np.ndim(point) else 1.0

    assert_allclose(implicit(point), explicit(point), rtol=1e-9)
    assert_allclose(wg.grad(implicit)(point), wg.grad(explicit)(point), rtol=1e-8)
    assert_allclose(wg.jvp(implicit, (point,), (direction,))[1], wg.jvp(explicit, (point,), (direction,))[1], rtol=1e-8)
    assert_allclose(wg.hessian(implicit)(point), wg.hessian(explicit)(point), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["square root", "square root of an outside value", "minimum", "linear operator"])
def test_third_derivatives_of_solutions_equal_the_closed_form(name: str) -> None:
    implicit, explicit, point = CASES[name]

    third = wg.grad(wg.grad(wg.grad(implicit)))(point)

    assert_allclose(third, wg.grad(wg.grad(wg.grad(explicit)))(point), rtol=1e-7)


def test_solutions_of_values_pass_gradients() -> None:
    a = wg.Value(4.0)
    y = wg.root(lambda x, a: x * x - a, 1.0, a) * 3.0

    y.backward()

    assert (y.data, a.grad) == (6.0, 0.75)


def test_a_solution_keeps_no_iterations() -> None:
    def solve_slowly(f: Any, x0: float) -> float:
        x = x0
        for _ in range(500):
            x = x - 0.1 * f(x)
        return x

    recorded = wg.trace(lambda a: wg.root(lambda x, a: x - a * a, 1.0, a, solver=solve_slowly), 1.1)

    assert len(recorded) < 8


def test_a_circuit_solves_again_at_other_inputs() -> None:
    def f(a: Any) -> Any:
        return 2.0 * wg.root(lambda x, a: x * x - a, 1.0, a)

    circuit = wg.trace(f, 4.0)
    run = circuit.run(a=9.0)

    assert float(np.asarray(run.output)) == 6.0
    assert_allclose(run.grads["a"], 1.0 / 3.0)


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_compiled_functions_solve_at_every_call() -> None:
    fast = wg.compile(lambda a: wg.root(lambda x, a: x * x - a, 1.0, a) + a)

    for a in (4.0, 9.0, 16.0, 2.25):
        assert_allclose(fast.value_and_grad(a), (np.sqrt(a) + a, 0.5 / np.sqrt(a) + 1.0), rtol=1e-12)


def test_examples_of_vmap_are_solved_one_by_one() -> None:
    points = np.array([1.0, 4.0, 9.0])

    assert_allclose(wg.vmap(lambda a: wg.root(lambda x, a: x * x - a, 1.0, a))(points), np.sqrt(points))


def test_a_first_guess_gets_no_gradient() -> None:
    assert wg.grad(lambda g: wg.root(lambda x: x * x - 4.0, g))(1.0) == 0.0
    assert wg.grad(lambda g: g * wg.root(lambda x, a: x * x - a, g, 4.0))(1.0) == 2.0


def test_solvers_of_other_libraries_see_plain_numbers() -> None:
    kinds = set()

    def f(x: Any, a: Any) -> Any:
        kinds.add(type(x))
        return x**3 - a

    def solve(f: Any, x0: Any) -> Any:
        return optimize.brentq(f, 0.0, 10.0, xtol=1e-13)

    assert_allclose(wg.grad(lambda a: wg.root(f, 1.0, a, solver=solve))(8.0), 1.0 / 12.0, rtol=1e-9)
    assert_allclose(wg.grad(lambda a: wg.implicit(solve)(f, 1.0, a))(8.0), 1.0 / 12.0, rtol=1e-9)
    assert float in kinds


def test_own_solvers_of_fixed_points_and_minima_get_the_function_itself() -> None:

    def iterate(f: Any, x0: float) -> float:
        for _ in range(200):
            x0 = f(x0)
        return x0

    def descend(f: Any, x0: float) -> float:
        return float(optimize.minimize_scalar(f, bracket=(0.0, 1.0), tol=1e-12).x)

    point = wg.grad(lambda a: wg.fixed_point(lambda x, a: np.cos(a * x), 1.0, a, solver=iterate))(1.0)
    lowest = wg.grad(lambda a: wg.minimize(lambda x, a: (x - a) ** 2 + x, 0.0, a, solver=descend, tolerance=1e-6))(3.0)

    x = 0.7390851332151607
    assert_allclose(point, -x * np.sin(x) / (1.0 + np.sin(x)), rtol=1e-9)
    assert_allclose(lowest, 1.0)


def test_a_long_system_is_solved_without_its_matrix() -> None:
    size = MAX_DENSE_SIZE + 100
    b = np.sin(np.arange(size) * 0.1)

    def total(c: Any) -> Any:
        return np.sum(wg.linear_solve(lambda x: (4.0 + c) * x - np.roll(x, 1), b))

    value, slope = wg.value_and_grad(total)(1.0)

    assert_allclose(value, np.sum(b) / 4.0, rtol=1e-8)
    assert_allclose(slope, -np.sum(b) / 16.0, rtol=1e-8)


REFUSED: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "no zero": (ConvergenceError, "found no zero .* residual is still 1", lambda: wg.root(lambda x: x * x + 1.0, 1.0)),
    "not a number": (ConvergenceError, "found no zero", lambda: wg.root(np.log, -1.0)),
    "multiple root": (
        SingularError,
        "Jacobian of the equation at its solution is singular",
        lambda: wg.grad(lambda a: wg.root(lambda x, a: x**3 * a, 0.0, a))(2.0),
    ),
    "infinite slope": (
        SingularError,
        "the derivative of the equation at its solution is not finite",
        lambda: wg.grad(lambda a: wg.root(lambda x, a: np.cbrt(x - a), 1.0, a))(1.0),
    ),
    "a zero that lies at infinity": (
        ConvergenceError,
        "found no zero .* at 100",
        lambda: wg.root(lambda x: np.exp(-x), 0.0),
    ),
    "an iteration that leaves the domain": (
        ConvergenceError,
        "did not settle: x still changes by 0.25",
        lambda: wg.fixed_point(lambda x: np.where(x > 0.5, np.nan, x * 0.5 + 0.4), 0.3),
    ),
    "a first guess outside of the domain": (
        ConvergenceError,
        "the function is not finite at the first guess, 5",
        lambda: wg.fixed_point(lambda x: np.sqrt(x - 10.0), 5.0),
    ),
    "no contraction": (ConvergenceError, "did not settle", lambda: wg.fixed_point(lambda x: x**2 + 1.0, 1.0)),
    "maximum": (ConvergenceError, "saddle point or a maximum", lambda: wg.minimize(lambda x: -(x**2), 0.0)),
    "no minimum": (ConvergenceError, "no minimum was found", lambda: wg.minimize(lambda x: x**3, 1.0)),
    "wrong solution": (
        ConvergenceError,
        "does not solve the equation: the solution is about 1 away",
        lambda: wg.root(lambda x, a: x - a, 1.0, 2.0, solver=lambda f, x0: x0),
    ),
    "a line that falls without end": (
        ConvergenceError,
        "falls without end along a direction",
        lambda: wg.minimize(lambda x: 2.0 * x, 1.0),
    ),
    "one direction that falls without end": (
        ConvergenceError,
        "falls without end along a direction",
        lambda: wg.minimize(lambda x: x[0] ** 2 + x[1], np.ones(2)),
    ),
    "constraints that repeat each other": (
        ConvergenceError,
        "singular there: equations or constraints may repeat or contradict each other",
        lambda: wg.minimize(
            lambda x: np.sum(x**2), np.zeros(2), equality=lambda x: np.stack([x[0] - 1.0, 2.0 * x[0] - 2.0])
        ),
    ),
    "constraints that contradict each other": (
        ConvergenceError,
        "singular there: equations or constraints may repeat or contradict each other",
        lambda: wg.minimize(lambda x: np.sum(x**2), np.zeros(2), equality=lambda x: np.stack([x[0] - 1.0, x[0] - 2.0])),
    ),
    "singular matrix": (
        SingularError,
        "the matrix is singular.*np.linalg.lstsq",
        lambda: wg.linear_solve(np.array([[1.0, 2.0], [2.0, 4.0]]), np.ones(2)),
    ),
    "singular matrix with a gradient": (
        SingularError,
        "the matrix is singular.*np.linalg.lstsq",
        lambda: wg.grad(lambda b: np.sum(wg.linear_solve(np.array([[1.0, 2.0], [2.0, 4.0]]), b)))(np.ones(2)),
    ),
    "singular operator": (
        ConvergenceError,
        "did not solve the system",
        lambda: wg.linear_solve(lambda x: 0.0 * x, np.ones(3)),
    ),
    "too many equations": (
        ShapeError,
        "as many numbers as x0, which has 1; got 2",
        lambda: wg.root(lambda x: np.array([1.0, 2.0]) * x, 1.0),
    ),
    "another structure": (
        ShapeError,
        "as many numbers and arrays as it was given, 1; got 2",
        lambda: wg.fixed_point(lambda x: (x, x), 1.0),
    ),
    "no function": (OperandError, "must be a function; got 'x", lambda: wg.root("x - 1", 1.0)),  # type: ignore[arg-type]
    "a guess that is no number": (OperandError, "real numbers; got 'one'", lambda: wg.root(lambda x: x, "one")),
    "complex residuals": (
        OperandError,
        "must return real numbers; got complex",
        lambda: wg.root(lambda x: x * (1.0 + 2.0j), 1.0),
    ),
    "a multiple root whose residual is rounded": (
        ConvergenceError,
        "falls as slowly as near a multiple root",
        lambda: wg.root(lambda x: (x * x - 2.0 * x + 1.0) * (1.0 + 1e-3 * np.sin(1e9 * x)) + 1e-18, 0.3),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_problems_without_a_solution_are_refused(name: str) -> None:
    kind, message, ask = REFUSED[name]

    with pytest.raises(kind, match=message):
        ask()


def solve_for_two(q: Any) -> Any:
    """Return the sum of two unknowns, of which each is a double root."""
    return np.sum(wg.root(lambda x, q: np.stack([x[0] ** 2 - q, x[1] - x[0]]), np.ones(2), q))


MULTIPLE_ROOTS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "a square": (lambda q: wg.root(lambda x, q: x * x - q, 0.5, q), 0.0),
    "a cube at another place": (lambda q: wg.root(lambda x, q: (x - 1.0) ** 3 - q, 0.5, q), 1.0),
    "a square that is multiplied out": (lambda q: wg.root(lambda x, q: x * x - 2.0 * x + 1.0 - q, 0.5, q), 1.0),
    "two unknowns": (solve_for_two, 0.0),
}


@pytest.mark.parametrize("name", MULTIPLE_ROOTS)
def test_a_multiple_root_is_found_but_has_no_derivative(name: str) -> None:
    solve, solution = MULTIPLE_ROOTS[name]

    assert_allclose(solve(0.0), solution, atol=1e-6)
    for derive in (wg.grad(solve), wg.grad(wg.grad(solve)), lambda q: wg.jvp(solve, (q,), (1.0,))):
        with pytest.raises(SingularError, match="it is a multiple root"):
            derive(0.0)


def test_a_circuit_knows_a_multiple_root_at_other_inputs() -> None:
    circuit = wg.trace(MULTIPLE_ROOTS["a square"][0], 1.0)

    assert circuit.run(q=4.0).grads == {"q": 0.25}
    with pytest.raises(SingularError, match="it is a multiple root"):
        _ = circuit.run(q=0.0).grads


SLOW_BUT_SINGLE: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "a power from far away": (lambda q: wg.root(lambda x, q: x**9 - q, 1e3, q), 2.0, 2.0 ** (1.0 / 9.0) / 18.0),
    "an exponential": (lambda q: wg.root(lambda x, q: np.exp(-x) - q, 0.0, q), 1e-9, -1e9),
}


@pytest.mark.parametrize("name", SLOW_BUT_SINGLE)
def test_a_single_root_that_is_reached_slowly_has_a_derivative(name: str) -> None:
    solve, point, slope = SLOW_BUT_SINGLE[name]

    assert_allclose(wg.grad(solve)(point), slope, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 1e30])
def test_roots_and_minima_do_not_depend_on_the_scale_of_the_function(scale: float) -> None:
    def find(a: Any) -> Any:
        return wg.root(lambda x, a: scale * (x**3 - a), 1.0, a)

    def descend(a: Any) -> Any:
        return wg.minimize(lambda x, a: scale * (np.exp(x) - a * x), 0.0, a)

    assert_allclose((find(8.0), wg.grad(find)(8.0)), (2.0, 1.0 / 12.0), rtol=1e-9)
    assert_allclose((descend(8.0), wg.grad(descend)(8.0)), (np.log(8.0), 1.0 / 8.0), rtol=1e-9)


@pytest.mark.parametrize("a", np.linspace(0.3, 9.0, 40))
def test_minima_are_found_where_the_function_is_flat_to_rounding(a: float) -> None:
    assert_allclose(wg.minimize(lambda x, a: np.exp(x) - a * x + 100.0, 0.0, a), np.log(a), atol=1e-9)


SLOPES = np.array([[1.2, 0.3, -0.4, 0.1], [0.2, 0.9, 0.5, -0.6], [-0.3, 0.4, 1.5, 0.2], [0.6, -0.1, 0.3, 0.8]])


def _bowl_height(x: Any, a: Any) -> Any:
    return np.sum((SLOPES @ (x - a)) ** 2) + 0.1 * np.sum(np.cosh(x))


def _steering_cost(x: Any, a: Any) -> Any:
    angle, speed, cost = a, 0.3, 0.0
    for force in x:
        angle, speed = angle + 0.3 * speed, speed + 0.3 * (force - np.sin(angle))
        cost = cost + angle**2 + speed**2 + 0.01 * force**2
    return cost


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("guess", [0.0, 0.7])
@pytest.mark.parametrize("cost", [_bowl_height, _steering_cost])
def test_minimize_takes_no_short_steps_where_rounding_hides_the_fall(
    cost: Callable[[Any, Any], Any], guess: float, offset: float
) -> None:
    calls = 0

    def height(x: Any, a: Any) -> Any:
        nonlocal calls
        calls += 1
        return cost(x, a) + offset

    lowest = wg.minimize(height, np.full(4, guess), 1.0)

    assert_allclose(wg.grad(cost)(lowest, 1.0), 0.0, atol=1e-9)
    assert calls <= 30


def test_newtons_method_calls_the_function_about_once_a_step() -> None:
    points: list[float] = []

    def f(x: Any, a: Any) -> Any:
        points.append(float(wg.stop_gradient(x).item() if hasattr(x, "item") else x))
        return x**3 + x - a

    wg.root(f, 1.0, 30.0)

    assert len(points) <= len(set(points)) + 2
    assert len(points) < 15


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda a: wg.scan(lambda s, x: (wg.root(lambda z: z**3 + z - a * s - x, 1.0), s), 1.0, np.arange(1.0, 3.0))[
        0
    ],
    "fori_loop": lambda a: wg.fori_loop(0, 3, lambda _, s: wg.root(lambda z: z**3 + z - a * s, 1.0), 1.0),
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("transform", [wg.grad, wg.jacfwd, lambda f: lambda a: wg.jvp(f, (a,), (1.0,))])
def test_solvers_in_the_bodies_of_loops_are_refused_with_advice(name: str, transform: Any) -> None:
    with pytest.raises(NoRuleError, match="write the loop as a Python loop"):
        transform(LOOPS[name])(2.0)


def solve_by_brentq(a: Any) -> Any:
    """Return w with w exp(w) = a, found by SciPy between two limits."""
    return wg.root(
        lambda w, a: w * np.exp(w) - a, 0.5, a, solver=lambda f, _: optimize.brentq(f, -0.9, 3.0, xtol=1e-14)
    )


def nest_roots(a: Any) -> Any:
    """Solve an equation whose function solves another one."""
    return wg.root(lambda x: wg.root(lambda y, x: y**3 + y - x, 0.1, x) - a, 0.5)


SOLVED_AGAIN: dict[str, Callable[[Any], Any]] = {
    "linear": lambda a: wg.root(lambda x, a: 2.0 * x - a, 0.5, a),
    "variable from outside": lambda a: wg.root(lambda x: x * x * x - 2.0 * a, 0.5),
    "dict": solve_two_unknowns,
    "array": lambda a: wg.root(lambda x, a: x**3 + a * np.roll(x, 1) - np.arange(1.0, 4.0), np.ones(3), a)[1],
    "whole number": lambda a: wg.root(lambda x, a, n: x**n - a, 0.5, a, 3),
    "brentq": solve_by_brentq,
    "fixed point": lambda a: wg.fixed_point(lambda x, a: np.cos(x * a), 0.5, a),
    "minimum": lambda a: wg.minimize(lambda x, a: (x[0] - a) ** 4 + (x[0] - x[1]) ** 2 + x[1] ** 2, np.ones(2), a)[0],
    "gradient": wg.grad(lambert),
    "nested": nest_roots,
}


@pytest.mark.parametrize("name", SOLVED_AGAIN)
@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_compiled_functions_solve_again_as_the_function_itself(name: str) -> None:
    f = SOLVED_AGAIN[name]
    fast = wg.compile(f)
    points = np.linspace(0.4, 0.9, MIN_SOLVES + 4)

    found = np.array([fast.value_and_grad(a) for a in points])

    assert fast.info.records == 1
    assert not fast.info.fallbacks
    assert_allclose(found, np.array([wg.value_and_grad(f)(a) for a in points]), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_equations_of_compiled_functions_become_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wg.compile(solve_two_unknowns)
    for a in np.linspace(1.0, 2.0, MIN_SOLVES + 2):
        fast.value_and_grad(a)

    monkeypatch.setattr(implicit.Recording, "__init__", None)

    assert_allclose(fast.value_and_grad(np.float64(4.0)), (16.0, 8.0), rtol=1e-9)
    assert fast.info.records == 1


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_operands_that_an_equation_does_not_use_get_the_gradient_of_the_function_itself() -> None:
    def solve(a: Any) -> Any:
        return wg.root(lambda x, a, unused: x**3 + x - a, 0.5, a, np.sqrt(a - 1.0))

    fast = wg.compile(solve)
    points = [*np.linspace(2.0, 3.0, MIN_SOLVES + 2), 1.0]

    assert_allclose([fast.value_and_grad(a) for a in points], [wg.value_and_grad(solve)(a) for a in points], rtol=1e-9)


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_compiled_functions_still_say_that_no_solution_was_found() -> None:
    fast = wg.compile(lambda a: wg.root(lambda x, a: x * x - a, 1.0, a))
    for a in np.linspace(1.0, 2.0, MIN_SOLVES + 2):
        fast(a)

    with pytest.raises(ConvergenceError, match="found no zero"):
        fast(-1.0)


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_solvers_that_draw_random_numbers_run_in_each_call() -> None:
    def anneal(f: Any, _: Any) -> Any:
        return optimize.dual_annealing(lambda x: f(float(x[0])) ** 2, [(-0.9, 3.0)], maxiter=30).x[0]

    fast = wg.compile(lambda a: wg.root(lambda x, a: x - a, 0.5, a, solver=anneal, tolerance=1e-4))
    fast(1.0)

    assert fast.info.records == 0
    assert "dual_annealing" in fast.info.fallbacks[0][0]


@pytest.mark.parametrize("power", [2, 3, 5])
def test_residuals_that_branch_are_known_again_though_powers_are_rounded_otherwise(power: int) -> None:
    traced = wg.trace(lambda a: wg.root(lambda x, a: (x**power if x > 0.2 else 0.1 * x) - a, 0.5, a), 0.4)

    assert_allclose([traced(a=a) for a in (0.4, 0.5, 0.6)], np.array([0.4, 0.5, 0.6]) ** (1.0 / power))
