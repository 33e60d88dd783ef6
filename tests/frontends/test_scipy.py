"""SciPy's functions, imported as usual, see values; without values, and without SciPy, nothing changes."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.optimize.elementwise
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
import scipy.stats
from scipy.linalg import solve_triangular

import wiregrad as wg
from wiregrad.errors import EscapeError, NoRuleError, OperandError, ShapeError
from wiregrad.frontends.recording import library_hooks
from wiregrad.frontends.recording.library_hooks import TAUGHT, holds_wire, list_modules, teach_module
from wiregrad.ops.functions import FUNCTIONS_BY_SCIPY, RegisteredFunction

from ..support.limits import PATIENCE, wait_for_thread

RNG = np.random.default_rng(3)
MATRIX = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
DEFINITE = MATRIX @ MATRIX.T
VECTOR = RNG.normal(size=3)
KNOTS = np.array([0.0, 0.7, 1.5, 2.0, 3.1])
HEIGHTS = RNG.normal(size=5)
POINTS = np.array([0.2, 0.9, 1.7, 2.5])
SPARSE = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [0.0, 4.0, 0.0], [0.5, 0.0, 0.0]]))
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def stencil(f: Callable[[Any], Any], x: Any, step: float = 1e-3) -> Any:
    """Return the gradient of a function by differences of the sixth order."""
    x = np.asarray(x, float)
    gradient = np.zeros(x.shape)
    for place in np.ndindex(x.shape):
        move = np.zeros(x.shape)
        move[place] = step
        one, two, three = (f(x + k * move) - f(x - k * move) for k in (1, 2, 3))
        gradient[place] = (45.0 * one - 9.0 * two + three) / (60.0 * step)
    return gradient


def predator_and_prey(t: Any, y: Any, a: Any, b: Any) -> list[Any]:
    return [a * y[0] - b * y[0] * y[1], b * y[0] * y[1] - y[1]]


def decay_with_closure(k: Any, method: str) -> Any:
    solution = scipy.integrate.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], method, t_eval=[0.4, 1.0], **TIGHT)
    return np.sum(solution.y**2)


CALLS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "gaussian process": (
        lambda a: VECTOR @ scipy.linalg.cho_solve(scipy.linalg.cho_factor(a @ a.T, lower=True), VECTOR),
        MATRIX,
    ),
    "solve_triangular": (lambda a: np.sum(solve_triangular(a, VECTOR, lower=True) ** 2), MATRIX),
    "solve": (lambda a: np.sum(scipy.linalg.solve(a @ a.T, VECTOR, assume_a="pos") ** 2), MATRIX),
    "lists of values": (
        lambda k: np.sum(scipy.linalg.solve(scipy.linalg.toeplitz([4.0, k, k * k]), [k, 1.0, 2.0])),
        0.7,
    ),
    "expm": (lambda a: np.sum(scipy.linalg.expm(a * 0.3)), MATRIX),
    "logm": (lambda a: np.sum(scipy.linalg.logm(np.eye(3) + 0.1 * a) ** 2), MATRIX),
    "generalized eigh": (lambda a: np.sum(scipy.linalg.eigh(a @ a.T, DEFINITE)[0] ** 2), MATRIX),
    "eigenvectors": (lambda a: np.sum(np.abs(scipy.linalg.eigh(a @ a.T)[1][:, 0])), MATRIX),
    "lu": (lambda a: np.sum(scipy.linalg.lu(a)[2] ** 2), MATRIX),
    "lu_factor": (lambda a: np.sum(scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), VECTOR) ** 2), MATRIX),
    "fft": (lambda x: np.sum(np.abs(scipy.fft.fft(x, 8)) ** 3), VECTOR),
    "fftn": (lambda x: np.sum(scipy.fft.rfftn(x).imag ** 3), MATRIX),
    "dct": (lambda x: np.sum(scipy.fft.dct(x=x, norm="ortho") ** 3), VECTOR),
    "odeint": (
        lambda p: np.sum(
            scipy.integrate.odeint(
                lambda y, t: np.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - y[1]]),
                [1.5, 1.0],
                [0.0, 0.3, 1.0],
                rtol=1e-12,
                atol=1e-12,
            )[-1]
            ** 2
        ),
        np.array([1.0, 0.7]),
    ),
    **{
        f"solve_ivp {method}": (
            lambda p, method=method: np.sum(
                scipy.integrate.solve_ivp(
                    predator_and_prey, (0.0, 0.6), [p[0], 1.0], method, t_eval=[0.2, 0.6], args=(p[1], p[2]), **TIGHT
                ).y
                ** 2
            ),
            np.array([1.5, 1.0, 0.7]),
        )
        for method in ("RK45", "DOP853")
    },
    "end of time": (
        lambda t: scipy.integrate.solve_ivp(lambda t, y: -y * np.cos(t), (0.0, t), [1.0], **TIGHT).y[0, -1],
        1.1,
    ),
    "closure": (lambda k: decay_with_closure(k, "RK45"), 0.7),
    "implicit": (lambda k: decay_with_closure(k, "Radau"), 0.7),
    "quad": (
        lambda p: scipy.integrate.quad(lambda x: np.exp(-p[0] * x) * np.cos(p[1] * x), 0.0, p[2])[0],
        np.array([0.5, 1.3, 2.0]),
    ),
    "infinite quad": (
        lambda s: scipy.integrate.quad(lambda x, s: np.exp(-0.5 * (x / s) ** 2), -np.inf, np.inf, args=(s,))[0],
        0.8,
    ),
    "spline of heights": (
        lambda y: np.sum(scipy.interpolate.CubicSpline(KNOTS, y, bc_type="natural")(POINTS) ** 2),
        HEIGHTS,
    ),
    "spline at places": (lambda x: np.sum(scipy.interpolate.CubicSpline(KNOTS, HEIGHTS)(x, 1) ** 2), POINTS),
    "derivative of spline": (
        lambda y: np.sum(scipy.interpolate.CubicSpline(KNOTS, y).derivative()(POINTS) ** 2),
        HEIGHTS,
    ),
    "integral of spline": (lambda y: scipy.interpolate.CubicSpline(KNOTS, y).integrate(0.3, 2.7) ** 2, HEIGHTS),
    "interp1d": (lambda y: np.sum(scipy.interpolate.interp1d(KNOTS, y)(POINTS) ** 2), HEIGHTS),
    "interp1d cubic": (lambda x: np.sum(scipy.interpolate.interp1d(KNOTS, HEIGHTS, "cubic")(x) ** 2), POINTS),
    "B-spline": (lambda y: np.sum(scipy.interpolate.make_interp_spline(KNOTS, y)(POINTS) ** 2), HEIGHTS),
    "splev": (lambda x: np.sum(scipy.interpolate.splev(x, scipy.interpolate.splrep(KNOTS, HEIGHTS)) ** 2), POINTS),
    "sparse times value": (lambda x: np.sum((SPARSE @ x) ** 3), VECTOR),
    "value times sparse": (lambda x: np.sum((x @ SPARSE.T) ** 3), VECTOR),
    "sparse times matrix": (lambda x: np.sum((SPARSE @ x) ** 3), MATRIX),
    "sparse dot": (lambda x: np.sum(SPARSE.dot(x) ** 3), VECTOR),
    "spsolve": (
        lambda x: np.sum(scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(DEFINITE), x) ** 2),
        VECTOR,
    ),
    "fftconvolve": (lambda x: np.sum(scipy.signal.fftconvolve(x, x) ** 2), VECTOR),
    "lfilter": (lambda a: np.sum(scipy.signal.lfilter([1.0, 0.5], np.stack([1.0, a]), HEIGHTS) ** 2), 0.3),
    "gaussian_filter": (lambda x: np.sum(scipy.ndimage.gaussian_filter(x, 0.8) ** 3), MATRIX),
    "width of a filter": (lambda s: np.sum(scipy.ndimage.gaussian_filter1d(HEIGHTS, s) ** 3), 0.8),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_gradient_of_a_call_equals_differences_of_scipy(name: str) -> None:
    f, x = CALLS[name]
    value, gradient = wg.value_and_grad(f)(x)

    np.testing.assert_allclose(value, f(x), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(gradient, stencil(f, x), rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_sparse_format_multiplies_values(form: str, kind: str) -> None:
    dense = SPARSE.toarray()
    matrix = getattr(scipy.sparse, f"{form}_{kind}")(dense)
    u = np.arange(4.0)

    np.testing.assert_allclose(wg.grad(lambda x: np.sum((matrix @ x) ** 2))(VECTOR), 2.0 * dense.T @ dense @ VECTOR)
    np.testing.assert_allclose(wg.grad(lambda u: np.sum((u @ matrix) ** 2))(u), 2.0 * dense @ dense.T @ u)


def test_second_derivatives_pass_through_differential_equations() -> None:
    hessian = wg.hessian(lambda k: scipy.integrate.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], **TIGHT).y[0, -1])

    assert hessian(0.7) == pytest.approx(np.exp(-0.7), abs=1e-8)


def test_stiff_equations_have_gradients() -> None:
    def end(k: Any) -> Any:
        return scipy.integrate.odeint(lambda y, t: -k * (y - np.cos(t)), [0.0], [0.0, 0.5])[-1, 0]

    # Beyond the first moments the solution is (k^2 cos t + k sin t) / (k^2 + 1).
    k, t = 1e4, 0.5
    wanted = ((2 * k * np.cos(t) + np.sin(t)) * (k * k + 1) - (k * k * np.cos(t) + k * np.sin(t)) * 2 * k) / (
        k * k + 1
    ) ** 2

    assert wg.grad(end)(k) == pytest.approx(wanted, rel=1e-4)


def test_every_name_is_known_to_scipy_and_taught() -> None:
    for name in list_modules() & sys.modules.keys():
        teach_module(sys.modules[name])
    missing = [name for name in FUNCTIONS_BY_SCIPY if not is_taught(name)]

    # SciPy 1.17 has removed some of the names.
    assert set(missing) <= {"scipy.linalg.kron"}


def is_taught(name: str) -> bool:
    parts = name.split(".")
    for count in range(len(parts) - 1, 1, -1):
        module = sys.modules.get(".".join(parts[:count]))
        if module is not None:
            break
    thing: Any = module
    for part in parts[count:]:
        thing = getattr(thing, part, None)
    function = getattr(thing, "__func__", thing)
    return function in TAUGHT or isinstance(thing, np.ufunc) or type(thing).__name__ == "_Function"


def test_a_taught_function_looks_as_before() -> None:
    parameters = list(inspect.signature(scipy.linalg.solve).parameters)

    assert parameters[:3] == ["a", "b", "lower"]
    assert list(inspect.signature(solve_triangular).parameters)[2] == "trans"
    assert "Solve" in (scipy.linalg.solve.__doc__ or "")
    assert pickle.loads(pickle.dumps(scipy.linalg.solve)) is scipy.linalg.solve
    assert inspect.getsource(scipy.linalg.toeplitz).lstrip().startswith(("def toeplitz", "@"))
    assert scipy.linalg.solve.__code__.co_name == "solve"


def test_plain_arguments_are_left_to_scipy() -> None:
    original = TAUGHT[scipy.linalg.solve].original

    assert np.array_equal(scipy.linalg.solve(MATRIX, VECTOR), original(MATRIX, VECTOR))
    with pytest.raises(ValueError, match="square") as raised:
        scipy.linalg.solve(np.ones((2, 3)), VECTOR)
    assert type(raised.value) is ValueError


@pytest.mark.parametrize(
    "argument", [wg.Value(1.0), [1.0, wg.Value(1.0)], (0, [wg.Value(1.0)]), {"a": wg.Value(1.0)}, np.array([None])]
)
def test_values_are_found_in_containers(argument: Any) -> None:
    assert holds_wire(argument) is not isinstance(argument, np.ndarray)


def test_a_function_without_a_rule_is_named_with_the_line() -> None:
    with pytest.raises(NoRuleError, match=r"(?s)scipy\.linalg\.schur has no rule.*\n  recorded at .*test_scipy\.py"):
        wg.grad(lambda a: scipy.linalg.schur(a)[0].sum())(MATRIX)


def test_a_decorated_function_without_a_rule_is_named() -> None:
    with pytest.raises(NoRuleError, match=r"scipy\.linalg\.hessenberg has no rule"):
        wg.grad(lambda a: scipy.linalg.hessenberg(a).sum())(MATRIX)


def test_a_class_without_a_rule_is_named() -> None:
    with pytest.raises(NoRuleError, match=r"scipy\.interpolate\.Akima1DInterpolator has no rule"):
        wg.grad(lambda y: scipy.interpolate.Akima1DInterpolator(KNOTS, y)(1.0))(HEIGHTS)


def test_scipy_code_that_is_made_of_numpy_functions_needs_no_entry() -> None:
    def f(y: Any) -> Any:
        return scipy.interpolate.PchipInterpolator(KNOTS, y)(1.1) + scipy.stats.gmean(y**2 + 1.0)

    np.testing.assert_allclose(wg.grad(f)(HEIGHTS), stencil(f, HEIGHTS), rtol=1e-7)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "events": (
        lambda k: scipy.integrate.solve_ivp(lambda t, y: -k * y, (0, 1), [1.0], events=lambda t, y: y[0]).y[0, -1],
        NoRuleError,
        "solve_ivp has no rule for events=",
    ),
    "recorded times": (
        lambda k: scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], t_eval=k * np.ones(1)).y[0, -1],
        NoRuleError,
        "times t_eval that are recorded",
    ),
    "recorded knots": (lambda k: scipy.interpolate.CubicSpline(k * KNOTS, HEIGHTS)(0.5), NoRuleError, "knots"),
    "recorded knots of lines": (
        lambda k: scipy.interpolate.interp1d(k * KNOTS, HEIGHTS)(0.5),
        NoRuleError,
        r"write np\.interp\(at, x, heights\)",
    ),
    "sparse powers": (lambda k: ((SPARSE * k) ** -1).sum(), NoRuleError, "powers that are recorded or not positive"),
    "shapes": (lambda k: (SPARSE @ (k * np.ones(2))).sum(), ShapeError, r"csr_array.__matmul__: matmul: dimension"),
    "pivoting": (lambda k: scipy.linalg.qr(k * MATRIX, pivoting=True)[1].sum(), NoRuleError, "pivoting"),
    "wide lu": (lambda k: scipy.linalg.lu(k * np.ones((2, 3)))[1].sum(), NoRuleError, "one square matrix"),
    "negative eigenvalues": (lambda k: scipy.linalg.sqrtm(-k * np.eye(2)).sum(), ValueError, "negative"),
    "a number in the function": (
        lambda k: scipy.integrate.quad(lambda x: float(k) * x, 0.0, 1.0)[0],
        EscapeError,
        "a recorded value cannot become a float",
    ),
    "minimize": (
        lambda k: scipy.optimize.minimize(lambda x: np.sum((x - k) ** 2), np.zeros(2)).x.sum(),
        NoRuleError,
        r"scipy\.optimize\.minimize is not differentiated",
    ),
    "brentq": (
        lambda k: scipy.optimize.brentq(lambda x: x - k, 0.0, 3.0),
        NoRuleError,
        r"scipy\.optimize\.brentq is not differentiated",
    ),
    "a transform": (
        lambda k: scipy.fft.fht(k * HEIGHTS, 0.1, 0.5).sum(),
        NoRuleError,
        r"scipy\.fft\.fht has no rule",
    ),
    "a long double": (
        lambda k: scipy.special.gammaln((k * HEIGHTS).astype(np.longdouble)).sum(),
        OperandError,
        r"float32 and float64; got .*; write x.astype\(np.float64\)",
    ),
    "a long complex number": (
        lambda k: scipy.special.gammaln(np.abs(k * HEIGHTS.astype(np.clongdouble)) * np.clongdouble(1j)).sum(),
        OperandError,
        r"float32 and float64; got .*; write x.astype\(np.complex128\)",
    ),
    "output": (
        lambda k: scipy.ndimage.convolve1d(k * HEIGHTS, [1.0], output=np.zeros(5)).sum(),
        NoRuleError,
        "output=",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_with_a_reason(name: str) -> None:
    f, error, message = REFUSED[name]

    with pytest.raises(error, match=message):
        wg.grad(f)(1.0)


def gumbel_logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    z = (x - loc) / scale
    return z - np.exp(z) - np.log(scale)


def test_methods_of_distributions_are_found_by_the_name_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = RegisteredFunction("gumbel_logpdf", gumbel_logpdf)
    monkeypatch.setitem(FUNCTIONS_BY_SCIPY, "scipy.stats.gumbel_l.logpdf", entry)
    teach_module(scipy.stats)

    def f(p: Any) -> Any:
        return scipy.stats.gumbel_l.logpdf(0.3, p[0], scale=p[1]) + scipy.stats.gumbel_l(p[0], p[1]).logpdf(0.3)

    p = np.array([0.2, 1.5])
    np.testing.assert_allclose(wg.grad(f)(p), stencil(f, p), rtol=1e-8)
    with pytest.raises(NoRuleError, match=r"gumbel_l\.cdf has no rule: of scipy\.stats\.gumbel_l there are logpdf"):
        library_hooks.call_distribution("scipy.stats.gumbel_l", "cdf", len, (wg.Value(1.0),), {})


def test_eight_threads_may_teach_and_call() -> None:
    outcomes: list[Any] = []

    def work() -> None:
        teach_module(scipy.linalg)
        outcomes.append(wg.grad(lambda a: np.sum(solve_triangular(a, VECTOR)))(MATRIX))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        wait_for_thread(thread)

    assert len(outcomes) == 8
    assert all(np.array_equal(each, outcomes[0]) for each in outcomes)


def test_a_compiled_function_may_call_scipy() -> None:
    compiled = wg.compile(wg.grad(CALLS["gaussian process"][0]))

    for scale in (1.0, 1.1):
        np.testing.assert_allclose(compiled(MATRIX * scale), wg.grad(CALLS["gaussian process"][0])(MATRIX * scale))


IMPORTS = """
import sys
import numpy as np
from scipy.linalg import solve_triangular
import wiregrad as wg
a, b = np.array([[2.0, 0.0], [1.0, 3.0]]), np.ones(2)
early = wg.grad(lambda a: solve_triangular(a, b, lower=True).sum())(a)
assert "scipy.signal" not in sys.modules and "scipy.fft" not in sys.modules
def late(x):
    from scipy.fft import rfft
    from scipy.signal import convolve
    return np.sum(np.abs(rfft(x)) ** 2) + np.sum(convolve(x, x))
print(early.tolist())
print(wg.grad(late)(b).tolist())
"""
BLOCKED = """
import sys
sys.modules["scipy"] = None
import wiregrad as wg
import numpy as np
print(wg.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2))(np.ones(2)).tolist(), wg.expm(np.zeros((1, 1))).tolist())
try:
    wg.grad(lambda k: wg.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0]).y[0, -1])(1.0)
except wg.WiregradError as error:
    print(error)
"""
SWITCHED_OFF = """
import scipy.linalg, numpy as np, wiregrad as wg
try:
    wg.grad(lambda a: scipy.linalg.inv(a).sum())(np.eye(2))
except wg.WiregradError as error:
    print(type(error).__name__, str(error)[:32])
"""

FIRST_CALL = """
import sys
import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy.special import logsumexp
import wiregrad as wg

def f(x):
    return np.sum(polyval(x, [[1.0, 2.0], [3.0, 4.0]], tensor=False) ** 2) + logsumexp(x)

x = np.array([0.5, 0.7])
print(*np.round(eval(sys.stdin.read()), 6))
"""


def run_python(code: str, text: str = "", **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=text,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_imported_before_wiregrad_and_inside_a_function_see_values() -> None:
    early, late = (np.array(json.loads(line)) for line in run_python(IMPORTS).splitlines())

    np.testing.assert_allclose(early, [[-1 / 6, 0.0], [-1 / 6, -1 / 18]])
    np.testing.assert_allclose(late, [8.0, 8.0])


@pytest.mark.parametrize(
    "first_call",
    [
        "wg.compile(f).value_and_grad(x)[1]",
        "wg.trace(f, x).run(x=x).grads['x']",
        "(wg.blame(f, x), wg.grad(f)(x))[1]",
        "(v := wg.Value(x), f(v).backward())[0].grad",
    ],
)
def test_functions_of_libraries_see_values_whatever_records_first_in_a_process(first_call: str) -> None:
    by_polynomial = np.array([2.0 * 2.5 * 3.0, 2.0 * 4.8 * 4.0])
    by_sum = np.exp([0.5, 0.7]) / np.exp([0.5, 0.7]).sum()

    printed = [float(number) for number in run_python(FIRST_CALL, first_call).split()]

    np.testing.assert_allclose(printed, by_polynomial + by_sum, atol=1e-6)


def test_nothing_needs_scipy_until_it_is_called() -> None:
    printed = run_python(BLOCKED).splitlines()

    assert printed[0] == "[4.0, 4.0] [[1.0]]"
    assert "pip install scipy" in printed[1]


def test_a_setting_leaves_scipy_alone() -> None:
    assert run_python(SWITCHED_OFF, WIREGRAD_SCIPY="0") == "UnknownToLibraryError scipy.linalg.inv has no rule: co\n"


def test_a_frozen_distribution_has_no_other_attributes() -> None:
    with pytest.raises(AttributeError, match="_parameters"):
        wg.grad(lambda p: scipy.stats.norm(p, 1.0)._parameters)(0.5)


def test_a_frozen_distribution_can_be_copied() -> None:
    def f(p: Any) -> Any:
        return copy.deepcopy(copy.copy(scipy.stats.norm(p[0], p[1]))).logpdf(0.3)

    p = np.array([0.2, 1.5])
    np.testing.assert_allclose(wg.grad(f)(p), stencil(f, p), rtol=1e-8)
