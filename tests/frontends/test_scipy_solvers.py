"""The solvers of `scipy.optimize` refuse recorded values, wherever these come in, and leave plain numbers alone."""

from __future__ import annotations

import functools
import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.optimize as so
from scipy.optimize import elementwise

import wiregrad as wg
from wiregrad.errors import EscapeError, NoRuleError
from wiregrad.frontends.recording.library_hooks import CallbackWatch
from wiregrad.ops.functions.registry import SOLVER_REMEDIES

from ..support.sampling import sample_pairs

Solve = Callable[[Any], Any]
LINE = np.arange(3.0)
BOX = [(-2.0, 2.0)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Plain runs of some solvers warn of their few steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def bowl(a: Any) -> Callable[[Any], Any]:
    return lambda x: np.sum((x - a) ** 2)


def line(a: Any) -> Callable[[Any], Any]:
    return lambda x: x - a


def fall(a: Any) -> Callable[[Any], Any]:
    return lambda x: a - x


def slope(a: Any) -> Callable[[Any], Any]:
    return lambda x: 2.0 * (x - a)


class Late:
    """A function whose first calls return plain numbers."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        result = self.function(x)
        return getattr(result, "data", result) if self.calls < 4 else result


def fill(x: Any, a: Any) -> Any:
    rows = np.zeros(2)
    rows[0] = x[0] - a
    rows[1] = x[1]
    return rows


def minimize_by(method: str, a: Any) -> Any:
    if method in HESSIAN_METHODS:
        return so.minimize(bowl(a), [0.0], jac=slope(a), hess=lambda x: 2.0 * np.eye(1), method=method).x[0]
    return so.minimize(bowl(a), [0.0], method=method).x[0]


def find_root_by(method: str, a: Any) -> Any:
    return so.root(fall(a), [0.1], method=method).x[0]


def fit_by(method: str, a: Any) -> Any:
    return so.least_squares(line(a), [0.1], method=method).x[0]


def search_between(name: str, a: Any) -> Any:
    return getattr(so, name)(line(a), -2.0, 2.0)


def search_between_late(name: str, a: Any) -> Any:
    return getattr(so, name)(Late(line(a)), -2.0, 2.0)


def mix(name: str, a: Any) -> Any:
    return getattr(so, name)(fall(a), [0.1])[0]


MINIMIZE_METHODS = ["Nelder-Mead", "Powell", "CG", "BFGS", "L-BFGS-B", "TNC", "COBYLA", "SLSQP", "trust-constr"]
HESSIAN_METHODS = ["Newton-CG", "dogleg", "trust-ncg", "trust-exact", "trust-krylov"]
ROOT_METHODS = ["hybr", "lm", "broyden1", "broyden2", "anderson", "linearmixing", "diagbroyden", "krylov", "df-sane"]
BRACKETING = ["bisect", "brenth", "brentq", "ridder", "toms748"]
QUASI_NEWTON = ["anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing", "newton_krylov"]

CALLS: dict[str, Solve] = {
    "minimize": lambda a: so.minimize(bowl(a), [0.0]).x[0],
    **{f"minimize {m}": functools.partial(minimize_by, m) for m in MINIMIZE_METHODS + HESSIAN_METHODS},
    "minimize args": lambda a: so.minimize(lambda x, a: np.sum((x - a) ** 2), [0.0], args=(a,)).x[0],
    "minimize x0": lambda a: so.minimize(bowl(0.0), [a]).x[0],
    "minimize array": lambda a: so.minimize(bowl(0.0), a * np.ones(1)).x[0],
    "minimize bounds": lambda a: so.minimize(bowl(2.0), [0.0], bounds=[(0.0, a)]).x[0],
    "minimize Bounds": lambda a: so.minimize(bowl(2.0), [0.0], bounds=so.Bounds(0.0, a)).x[0],
    "minimize jac": lambda a: so.minimize(bowl(0.0), [1.0], jac=lambda x: 2.0 * x + 0.0 * a).x[0],
    "minimize constraints": lambda a: so.minimize(
        bowl(2.0), [0.0], constraints={"type": "ineq", "fun": lambda x: a - x[0]}
    ).x[0],
    "minimize NonlinearConstraint": lambda a: so.minimize(
        bowl(2.0), [0.0], method="trust-constr", constraints=so.NonlinearConstraint(lambda x: x[0] - a, -1.0, 0.0)
    ).x[0],
    "minimize LinearConstraint": lambda a: so.minimize(
        bowl(2.0), [0.0], method="trust-constr", constraints=so.LinearConstraint([[1.0]], -1.0, a)
    ).x[0],
    "minimize_scalar": lambda a: so.minimize_scalar(lambda x: (x - a) ** 2).x,
    "minimize_scalar golden": lambda a: so.minimize_scalar(lambda x: (x - a) ** 2, method="golden").x,
    "minimize_scalar bounded": lambda a: so.minimize_scalar(bowl(a), bounds=(-2.0, 2.0), method="bounded").x,
    "fmin": lambda a: so.fmin(bowl(a), [0.0], disp=0)[0],
    "fmin_bfgs": lambda a: so.fmin_bfgs(bowl(a), [0.0], disp=0)[0],
    "fmin_cg": lambda a: so.fmin_cg(bowl(a), [0.0], disp=0)[0],
    "fmin_cobyla": lambda a: so.fmin_cobyla(bowl(a), [0.0], [lambda x: 4.0 - x[0]])[0],
    "fmin_cobyla constraints": lambda a: so.fmin_cobyla(bowl(2.0), [0.0], [lambda x: a - x[0]])[0],
    "fmin_l_bfgs_b": lambda a: so.fmin_l_bfgs_b(bowl(a), [0.0], approx_grad=True)[0][0],
    "fmin_ncg": lambda a: so.fmin_ncg(bowl(a), [0.0], slope(a), disp=0)[0],
    "fmin_powell": lambda a: so.fmin_powell(bowl(a), [0.0], disp=0)[0],
    "fmin_slsqp": lambda a: so.fmin_slsqp(bowl(a), [0.0], disp=0)[0],
    "fmin_tnc": lambda a: so.fmin_tnc(bowl(a), [0.0], approx_grad=True, disp=0)[0][0],
    "fminbound": lambda a: so.fminbound(bowl(a), -2.0, 2.0),
    "fminbound end": lambda a: so.fminbound(bowl(5.0), -2.0, a),
    "brent": lambda a: so.brent(bowl(a)),
    "golden": lambda a: so.golden(bowl(a)),
    "golden partial": lambda a: so.golden(functools.partial(lambda a, x: (x - a) ** 2, a)),
    "bracket": lambda a: so.bracket(bowl(a))[1],
    "basinhopping": lambda a: so.basinhopping(bowl(a), [0.0], niter=2).x[0],
    "brute": lambda a: so.brute(bowl(a), BOX)[0],
    "differential_evolution": lambda a: so.differential_evolution(bowl(a), BOX).x[0],
    "direct": lambda a: so.direct(bowl(a), BOX).x[0],
    "dual_annealing": lambda a: so.dual_annealing(bowl(a), BOX, maxiter=5).x[0],
    "shgo": lambda a: so.shgo(bowl(a), BOX).x[0],
    "line_search": lambda a: so.line_search(bowl(a), slope(a), np.ones(1), -np.ones(1))[0],
    **{f"root {m}": functools.partial(find_root_by, m) for m in ROOT_METHODS},
    "root filled": lambda a: so.root(lambda x: fill(x, a), [1.0, 1.0]).x[0],
    "fsolve": lambda a: so.fsolve(line(a), [0.1])[0],
    "fsolve list": lambda a: so.fsolve(lambda x: [x[0] - a], [0.1])[0],
    "fsolve float": lambda a: so.fsolve(lambda x: float(x[0] - a), [0.1])[0],
    "fsolve late": lambda a: so.fsolve(Late(line(a)), [0.1])[0],
    "fsolve fprime": lambda a: so.fsolve(line(1.0), [0.1], fprime=lambda x: np.eye(1) * (1.0 + 0.0 * a))[0],
    **{name: functools.partial(search_between, name) for name in BRACKETING},
    **{f"{name} late": functools.partial(search_between_late, name) for name in BRACKETING},
    "brentq end": lambda a: so.brentq(line(0.0), -2.0, a),
    "brentq spline": lambda a: so.brentq(scipy.interpolate.CubicSpline(LINE, a * LINE - 0.1), 0.0, 2.0),
    "newton": lambda a: so.newton(line(a), 0.0),
    "newton array": lambda a: so.newton(line(a), np.zeros(2))[0],
    "root_scalar": lambda a: so.root_scalar(line(a), bracket=(-2.0, 2.0)).root,
    "root_scalar newton": lambda a: so.root_scalar(line(a), x0=0.0, fprime=lambda x: 1.0, method="newton").root,
    "fixed_point": lambda a: so.fixed_point(lambda x: np.cos(x) * a, 0.5),
    **{name: functools.partial(mix, name) for name in QUASI_NEWTON},
    **{f"least_squares {m}": functools.partial(fit_by, m) for m in ("trf", "dogbox", "lm")},
    "least_squares": lambda a: so.least_squares(line(a), [0.1]).x[0],
    "leastsq": lambda a: so.leastsq(line(a), [0.1])[0][0],
    "leastsq late": lambda a: so.leastsq(Late(line(a)), [0.1])[0][0],
    "curve_fit": lambda a: so.curve_fit(lambda t, k: k * t, LINE, a * LINE)[0][0],
    "curve_fit closure": lambda a: so.curve_fit(lambda t, k: k * t * a, LINE, LINE)[0][0],
    "lsq_linear": lambda a: so.lsq_linear(np.eye(2), a * np.ones(2)).x[0],
    "lsq_linear Bounds": lambda a: so.lsq_linear(
        np.eye(2), np.ones(2), bounds=so.Bounds(np.zeros(2), a * np.ones(2))
    ).x[0],
    "nnls": lambda a: so.nnls(np.eye(2), [a, 1.0])[0][0],
    "linprog": lambda a: so.linprog([1.0], A_ub=[[-1.0]], b_ub=[-a]).x[0],
    "linprog costs": lambda a: so.linprog(a * np.ones(1), A_ub=[[-1.0]], b_ub=[-1.0]).fun,
    "milp": lambda a: so.milp([a], bounds=so.Bounds(1, 2)).fun,
    "milp Bounds": lambda a: so.milp([1.0], bounds=so.Bounds(a, 2.0)).fun,
    "milp LinearConstraint": lambda a: so.milp([1.0], constraints=so.LinearConstraint([[1.0]], a, 2.0)).fun,
    "approx_fprime": lambda a: so.approx_fprime(np.ones(1), bowl(a))[0],
    "check_grad": lambda a: so.check_grad(bowl(a), slope(a), np.ones(1)),
    "quadratic_assignment": lambda a: so.quadratic_assignment(a * np.eye(2), np.eye(2)).fun,
    "isotonic_regression": lambda a: so.isotonic_regression(a * np.array([1.0, 3.0, 2.0])).x.sum(),
    "elementwise.find_root": lambda a: elementwise.find_root(line(a), (-2.0, 2.0)).x,
    "elementwise.find_minimum": lambda a: elementwise.find_minimum(lambda x: (x - a) ** 2, (-2.0, 0.0, 2.0)).x,
    "elementwise.bracket_root": lambda a: elementwise.bracket_root(line(a), -2.0, 2.0).bracket[0],
    "elementwise.bracket_minimum": lambda a: elementwise.bracket_minimum(lambda x: (x - a) ** 2, 0.0).bracket[1],
}
"""For each solver, and each place where a value may come in, a function of that value."""
TRANSFORMS: dict[str, Callable[[Solve], Any]] = {
    "grad": lambda f: wg.grad(f)(0.3),
    "compile": lambda f: wg.compile(wg.grad(f))(0.3),
    "jvp": lambda f: wg.jvp(f, (0.3,), (1.0,)),
}


@pytest.mark.parametrize(("name", "transform"), sample_pairs(CALLS, TRANSFORMS))
def test_a_recorded_value_is_refused_and_nothing_is_printed(
    name: str, transform: str, capfd: pytest.CaptureFixture[str]
) -> None:
    solver = name.partition(" ")[0]

    with pytest.raises(
        NoRuleError, match=rf"^scipy\.optimize\.{solver} is not differentiated.*\n  recorded at .*solvers"
    ):
        TRANSFORMS[transform](CALLS[name])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", CALLS)
def test_a_value_outside_of_transforms_is_refused_as_well(name: str) -> None:
    with pytest.raises((NoRuleError, EscapeError)):
        CALLS[name](wg.Value(0.3))


@pytest.mark.parametrize("name", CALLS)
def test_plain_numbers_are_left_to_scipy_inside_and_outside_of_transforms(name: str) -> None:
    solve = CALLS[name]
    np.random.seed(0)
    inside: list[Any] = []

    def run_solver(a: Any) -> Any:
        inside.append(solve(0.3))
        return a

    wg.grad(run_solver)(1.0)

    assert type(inside[0]) is type(solve(0.3))
    assert float(inside[0]) == pytest.approx(float(solve(0.3)), abs=2e-2)


def test_every_solver_is_called_here() -> None:
    assert {name.partition(" ")[0] for name in CALLS} == SOLVER_REMEDIES.keys()


SAFE_NAMES = {"rosen", "rosen_der", "rosen_hess", "rosen_hess_prod", "show_options", "linprog_verbose_callback"}
"""Functions of `scipy.optimize` that are no solvers; values in the last ones of Rosenbrock's have no rule."""


def test_every_public_function_of_scipy_optimize_is_refused_or_known_to_be_none() -> None:
    functions = {name for name in so.__all__ if inspect.isfunction(getattr(so, name))}

    assert functions - SOLVER_REMEDIES.keys() == SAFE_NAMES


def test_a_compiled_solver_without_a_rule_says_so() -> None:
    with pytest.raises(EscapeError, match=r"v\.item\(\)"):
        wg.grad(lambda a: so.linear_sum_assignment(a * np.eye(2))[0][0] * a)(1.0)


@pytest.mark.parametrize("name", ["rosen", "rosen_der"])
def test_the_test_function_of_scipy_is_differentiated(name: str) -> None:
    f = getattr(so, name)
    x = np.array([0.5, -0.3, 0.8])
    step = 1e-6 * np.eye(3)
    expected = [np.sum(f(x + h) - f(x - h)) / 2e-6 for h in step]

    np.testing.assert_allclose(wg.grad(lambda x: np.sum(f(x)))(x), expected, rtol=1e-6)


REMEDIES: dict[str, Solve] = {
    "minimize": lambda a: wg.minimize(lambda x, a: (x - a) ** 2, 0.0, a),
    "golden": lambda a: wg.minimize(
        lambda x, a: (x - a) ** 2, 0.0, a, solver=lambda f, x0: so.golden(f), tolerance=1e-5
    ),
    "minimize_scalar": lambda a: wg.minimize(
        lambda x, a: (x - a) ** 2, 0.0, a, solver=lambda f, x0: so.minimize_scalar(f).x, tolerance=1e-5
    ),
    "brentq": lambda a: wg.root(lambda x, a: x - a, 0.0, a, solver=lambda f, x0: so.brentq(f, -2.0, 2.0)),
    "root": lambda a: wg.root(lambda x, a: x - a, np.zeros(1), a, solver=lambda f, x0: so.root(f, x0).x)[0],
    "fixed_point": lambda a: wg.fixed_point(lambda x, a: 0.5 * (x + a), 0.0, a),
    "least_squares": lambda a: wg.minimize(lambda p, a: np.sum((p - a * np.ones(2)) ** 2), 0.0, a),
}
"""What the messages tell people to write; each of them finds a itself."""


@pytest.mark.parametrize("name", REMEDIES)
def test_what_the_message_says_to_write_has_the_gradient(name: str) -> None:
    assert wg.value_and_grad(REMEDIES[name])(0.3) == pytest.approx((0.3, 1.0), abs=1e-5)


def sum_of_squares(x: Any) -> Any:
    return np.sum((x - 1.0) ** 2)


INNER: dict[str, Callable[[], Any]] = {
    "value_and_grad": lambda: so.minimize(wg.value_and_grad(sum_of_squares), np.zeros(2), jac=True).x[0],
    "compile": lambda: so.minimize(wg.compile(wg.value_and_grad(sum_of_squares)), np.zeros(2), jac=True).x[0],
    "jacobian": lambda: so.root(line(1.0), np.zeros(2), jac=wg.jacobian(line(1.0))).x[0],
}


@pytest.mark.parametrize("name", INNER)
@pytest.mark.parametrize("outer", ["grad", "compile"])
def test_derivatives_of_plain_numbers_may_be_given_to_a_solver_inside_a_transform(name: str, outer: str) -> None:
    assert TRANSFORMS[outer](lambda a: a * INNER[name]()) == pytest.approx(1.0)


STOPPED: dict[str, Solve] = {
    "data": lambda a: so.brentq(lambda x: x - a.data, -2.0, 2.0),
    "stop_gradient": lambda a: so.brentq(lambda x: x - wg.stop_gradient(a), -2.0, 2.0),
}


@pytest.mark.parametrize("name", STOPPED)
def test_a_value_whose_gradient_is_stopped_is_a_number_to_a_solver(name: str) -> None:
    solve = wg.compile(wg.grad(lambda a: a * STOPPED[name](a)))

    assert [solve(0.3), solve(0.4)] == pytest.approx([0.3, 0.4])


def test_an_error_of_the_solved_function_itself_is_not_taken_for_a_refusal() -> None:
    with pytest.raises(NoRuleError, match=r"np\.spacing has no rule"):
        so.minimize(wg.grad(lambda x: np.sum(np.spacing(x))), np.zeros(2))
    with pytest.raises(ZeroDivisionError):
        so.brentq(lambda x: 1 / 0, -2.0, 2.0)


def test_a_refusal_names_the_error_inside_the_solved_function_as_its_cause() -> None:
    with pytest.raises(NoRuleError, match="brentq is not differentiated") as raised:
        wg.grad(lambda a: so.brentq(lambda x: float(x - a), -2.0, 2.0))(0.3)

    assert isinstance(raised.value.__cause__, EscapeError)


class Step:
    stepsize = 0.5

    def __call__(self, x: Any) -> Any:
        return x + self.stepsize


def test_a_watched_function_looks_like_the_function() -> None:
    step = Step()
    watched = CallbackWatch().wrap(step)
    watched.stepsize = 0.7

    assert (step.stepsize, watched.stepsize, watched(1.0)) == (0.7, 0.7, 1.7)
    assert pickle.loads(pickle.dumps(CallbackWatch().wrap(sum_of_squares))) is sum_of_squares
    assert list(inspect.signature(CallbackWatch().wrap(lambda intermediate_result: None)).parameters) == [
        "intermediate_result"
    ]
