"""Functions of scipy.special and scipy.stats: SciPy's values, exact slopes in the tails, and awkward points."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

import wiregrad as wg
from wiregrad.errors import NoRuleError
from wiregrad.ops import TABLE, Elementwise
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_SCIPY

TABLE.load_deferred()
inf, nan = math.inf, math.nan
OPS_BY_SCIPY = {name: op for op in TABLE if isinstance(op, Elementwise) for name in op.scipy}
UFUNCS = {
    name: getattr(scipy.special, name.split(".")[-1])
    for name in (*OPS_BY_SCIPY, *FUNCTIONS_BY_SCIPY)
    if isinstance(getattr(scipy.special, name.split(".")[-1], None), np.ufunc) and name.startswith("scipy.special.")
}
METHODS = [name for name in FUNCTIONS_BY_SCIPY if name.startswith("scipy.stats.")]
SPECIAL = [name for name in FUNCTIONS_BY_SCIPY if name.startswith("scipy.special.")]


def run(name: str) -> Callable[..., Any]:
    """Return the function registered for a method of a distribution, such as `norm.logpdf`."""
    return FUNCTIONS[name].run


def of_scipy(name: str) -> Callable[..., Any]:
    """Return SciPy's own function for a dotted name."""
    module, *rest = name.removeprefix("scipy.").split(".")
    found: Any = importlib.import_module(f"scipy.{module}")
    for part in rest:
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def sample_columns(name: str) -> list[Any]:
    """Return arguments of a ufunc, one array for each."""
    if name in OPS_BY_SCIPY:
        return [np.array(column) for column in zip(*OPS_BY_SCIPY[name].sample_points, strict=True)]
    samples = FUNCTIONS_BY_SCIPY[name].samples
    assert samples is not None
    return list(samples(np.random.default_rng(0))[0][:-1])


@pytest.mark.parametrize("name", UFUNCS)
def test_a_ufunc_of_scipy_takes_values(name: str) -> None:
    xs = sample_columns(name)
    moving = [wg.Value(x) if np.asarray(x).dtype.kind == "f" else x for x in xs]
    if name.rpartition(".")[2] in ("jv", "jn", "yv", "yn", "iv", "ive", "kv", "kn"):
        moving[0] = xs[0]

    got = UFUNCS[name](*moving)

    assert isinstance(got, wg.Value)
    np.testing.assert_allclose(got.data, UFUNCS[name](*xs), rtol=1e-12)


@pytest.mark.parametrize("name", [*METHODS, *SPECIAL])
def test_a_function_has_scipys_values(name: str) -> None:
    entry = FUNCTIONS_BY_SCIPY[name]
    assert entry.samples is not None
    for *args, keywords in entry.samples(np.random.default_rng(0)):
        with np.errstate(all="ignore"):
            got = entry.run(*args, **keywords)
            wanted = of_scipy(name)(*args, **keywords)

        for one, two in zip(*(y if isinstance(y, tuple) else (y,) for y in (got, wanted)), strict=True):
            assert np.shape(one) == np.shape(two)
            np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-300)


OUTSIDE = {
    "expon": (-1.0,),
    "gamma": (-1.0, 1.7),
    "beta": (1.5, 1.2, 0.8),
    "uniform": (2.0,),
    "halfnorm": (-0.5,),
    "poisson": (2.5, 1.7),
    "binom": (9, 7, 0.3),
    "lognorm": (-1.0, 0.7),
}


@pytest.mark.parametrize("name", [name for name in METHODS if name.split(".")[2] in OUTSIDE])
def test_outside_the_support_a_distribution_is_scipys(name: str) -> None:
    args = OUTSIDE[name.split(".")[2]]

    assert FUNCTIONS_BY_SCIPY[name].run(*args) == pytest.approx(of_scipy(name)(*args), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", ["norm.logpdf", "norm.cdf", "expon.sf", "logistic.cdf", "t.cdf", "gamma.logpdf"])
def test_a_scale_that_is_not_positive_gives_nan_and_nan_slopes(name: str) -> None:
    shapes = [2.5] if name.startswith(("t.", "gamma.")) else []
    value, slope = wg.value_and_grad(lambda scale: run(name)(0.7, *shapes, 0.0, scale))(-1.0)

    assert math.isnan(value)
    assert math.isnan(slope)
    assert math.isnan(run(name)(0.7, *shapes, 0.0, -1.0))


@pytest.mark.parametrize(("name", "args"), [("gamma.logpdf", (0.7, -1.5)), ("beta.cdf", (0.3, -0.5, 2.0))])
def test_a_shape_that_is_not_positive_gives_nan_and_nan_slopes(name: str, args: tuple[float, ...]) -> None:
    value, slopes = wg.value_and_grad(run(name), argnums=tuple(range(len(args))))(*args)

    assert np.isnan([value, *slopes]).all()


def test_the_gradient_outside_the_support_is_absent() -> None:
    x = np.array([-1.0, 0.5])

    assert wg.grad(lambda x: np.sum(run("expon.pdf")(x)))(x).tolist() == [0.0, pytest.approx(-math.exp(-0.5))]


Exact = Callable[..., Any]


def exact_slope(f: Exact, args: tuple[float, ...], slot: int) -> float:
    with mpmath.workdps(90):
        xs = [mpmath.mpf(x) for x in args]
        step = abs(xs[slot]) * mpmath.mpf(10) ** -30
        return float(mpmath.diff(lambda x: f(*xs[:slot], x, *xs[slot + 1 :]), xs[slot], h=step))


def ndtr_exactly(x: Any) -> Any:
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def stdtr_exactly(df: Any, t: Any) -> Any:
    share = mpmath.betainc(mpmath.mpf(1) / 2, df / 2, 0, t * t / (df + t * t), regularized=True)
    return (1 + mpmath.sign(t) * share) / 2


TAILS: list[tuple[str, tuple[float, ...], Exact, float]] = [
    ("ndtr", (-30.0,), ndtr_exactly, 1e-12),
    ("ndtr", (8.0,), ndtr_exactly, 1e-13),
    ("log_ndtr", (-3000.0,), lambda x: mpmath.log(ndtr_exactly(x)), 1e-14),
    ("log_ndtr", (-2.0,), lambda x: mpmath.log(ndtr_exactly(x)), 1e-14),
    ("log_ndtr", (7.0,), lambda x: mpmath.log(ndtr_exactly(x)), 1e-13),
    ("logit", (1e-300,), lambda x: mpmath.log(x / (1 - x)), 1e-15),
    ("logit", (0.5 + 1e-9,), lambda x: mpmath.log(x / (1 - x)), 1e-15),
    ("log_expit", (-800.0,), lambda x: -mpmath.log1p(mpmath.exp(-x)), 1e-15),
    ("gammaln", (1e10,), mpmath.loggamma, 1e-14),
    ("gammaln", (1e-10,), mpmath.loggamma, 1e-14),
    ("betaln", (1e8, 2.5), lambda a, b: mpmath.log(mpmath.beta(a, b)), 1e-9),
    ("erfcx", (1e6,), lambda x: mpmath.exp(x * x) * mpmath.erfc(x), 1e-14),
    ("erfcx", (11.9,), lambda x: mpmath.exp(x * x) * mpmath.erfc(x), 1e-12),
    ("erfinv", (1.0 - 1e-12,), mpmath.erfinv, 1e-12),
    ("ndtri", (1e-10,), lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1), 1e-12),
    ("bessel_ie", (0.0, 900.0), lambda n, x: mpmath.besseli(0, x) * mpmath.exp(-x), 1e-11),
    ("gammainc", (0.02, 0.5), lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), 1e-12),
    ("gammainc", (150.0, 100.0), lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), 1e-12),
    ("gammaincc", (3.0, 90.0), lambda a, x: mpmath.gammainc(a, x, regularized=True), 1e-12),
    ("betainc", (0.05, 4.0, 0.9), lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True), 1e-12),
    ("betaincc", (40.0, 60.0, 0.8), lambda a, b, x: mpmath.betainc(a, b, x, 1, regularized=True), 1e-12),
    ("stdtr", (2.5, -40.0), stdtr_exactly, 1e-12),
    ("stdtr", (80.0, 3.0), stdtr_exactly, 1e-12),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "exact", "error"), TAILS, ids=lambda case: str(case)[:24])
def test_slopes_in_the_tails_are_exact(name: str, args: tuple[float, ...], exact: Exact, error: float) -> None:
    slots = (1,) if name.startswith("bessel") else tuple(range(len(args)))
    slopes = wg.grad(getattr(wg, name), argnums=slots)(*args)

    for slot, slope in zip(slots, slopes, strict=True):
        assert slope == pytest.approx(exact_slope(exact, args, slot), rel=error)


AWKWARD: list[tuple[str, tuple[float, ...], float, tuple[float, ...]]] = [
    ("xlogy", (0.0, 0.0), 0.0, (-inf, 0.0)),
    ("xlogy", (0.0, 2.0), 0.0, (math.log(2.0), 0.0)),
    ("xlogy", (2.0, 0.0), -inf, (-inf, inf)),
    ("xlogy", (1.0, -1.0), nan, (nan, nan)),
    ("xlog1py", (0.0, -1.0), 0.0, (-inf, 0.0)),
    ("entr", (0.0,), 0.0, (inf,)),
    ("entr", (-1.0,), -inf, (nan,)),
    ("rel_entr", (0.0, 1.0), 0.0, (-inf, 0.0)),
    ("rel_entr", (1.0, 0.0), inf, (inf, -inf)),
    ("rel_entr", (-1.0, 1.0), inf, (nan, nan)),
    ("kl_div", (0.0, 1.0), 1.0, (-inf, 1.0)),
    ("erfinv", (1.0,), inf, (inf,)),
    ("erfinv", (1.5,), nan, (nan,)),
    ("ndtri", (0.0,), -inf, (inf,)),
    ("logit", (0.0,), -inf, (inf,)),
    ("logit", (1.0,), inf, (inf,)),
    ("logit", (1.5,), nan, (nan,)),
    ("gammaln", (0.0,), inf, (-inf,)),
    ("i0e", (0.0,), 1.0, (0.0,)),
    ("j1", (0.0,), 0.0, (0.5,)),
    ("stdtr", (3.0, 0.0), 0.5, (0.0, 2.0 / (math.pi * math.sqrt(3.0)))),
    ("huber", (1.0, 1.0), 0.5, (0.0, 1.0)),
    ("pseudo_huber", (1.0, 0.0), 0.0, (0.0, 0.0)),
]


@pytest.mark.parametrize(("name", "args", "value", "slopes"), AWKWARD, ids=str)
def test_values_and_slopes_at_awkward_points(
    name: str, args: tuple[float, ...], value: float, slopes: tuple[float, ...]
) -> None:
    with np.errstate(all="ignore"):
        got, gradients = wg.value_and_grad(getattr(wg, name), argnums=tuple(range(len(args))))(*args)

    np.testing.assert_allclose([got, *gradients], [value, *slopes], rtol=1e-14)


def test_logsumexp_with_weights_ignores_what_weighs_nothing() -> None:
    a, b = np.array([1000.0, 1.0, 2.0]), np.array([0.0, 2.0, 0.5])
    value, slopes = wg.value_and_grad(lambda a: run("special.logsumexp")(a, b=b))(a)
    shares = b[1:] * np.exp(a[1:])

    assert value == pytest.approx(scipy.special.logsumexp(a, b=b))
    np.testing.assert_allclose(slopes, [0.0, *(shares / shares.sum())], rtol=1e-14)


def test_a_dirichlet_density_takes_all_shares_and_refuses_those_that_do_not_add_up() -> None:
    logpdf, alpha = run("dirichlet.logpdf"), np.array([1.7, 0.6, 3.2])
    shares = np.array([0.2, 0.3, 0.5])
    slopes = wg.grad(logpdf)(shares, alpha)

    np.testing.assert_allclose(slopes, (alpha - 1.0) / shares, rtol=1e-14)
    assert math.isnan(wg.value_and_grad(logpdf)(shares + 0.1, alpha)[0])
    with pytest.raises(ValueError, match="add up to 1"):
        logpdf(shares + 0.1, alpha)


def test_the_slope_by_a_covariance_is_that_of_a_symmetric_matrix() -> None:
    x, cov = np.array([0.3, -0.7]), np.array([[1.5, 0.4], [0.4, 0.9]])
    slope = wg.grad(lambda c: run("multivariate_normal.logpdf")(x, np.zeros(2), c))(cov)
    inverse = np.linalg.inv(cov)

    np.testing.assert_allclose(slope, 0.5 * (np.outer(inverse @ x, inverse @ x) - inverse), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: scipy.special.jv(0.5, x), "jv has a rule for whole orders"),
        (scipy.special.expi, r"scipy\.special\.expi has no rule: give it its derivative"),
        (lambda x: wg.comb(x, 2, exact=True), r"comb\(exact=True\)"),
        (lambda x: wg.factorial(x, exact=True), r"factorial\(exact=True\)"),
        (lambda x: run("multivariate_normal.logpdf")(x, allow_singular=True), r"allow_singular=True\) has no rule"),
    ],
)
def test_what_has_no_rule_says_so_with_the_line(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(NoRuleError, match=rf"(?s){message}.*recorded at .*test_special_functions\.py"):
        wg.grad(call)(1.3)


@pytest.mark.parametrize("write", ["to_c", "to_js", "to_python", "to_numpy", "to_cuda"])
def test_an_op_that_scipy_computes_is_refused_by_listings(write: str) -> None:
    with pytest.raises(NoRuleError, match="gammaln is computed by scipy, so it cannot be written in"):
        getattr(wg.circuit("2 * gammaln(x)"), write)()


def test_an_op_that_scipy_computes_is_compiled_by_the_interpreter() -> None:
    program = wg.circuit("2 * gammaln(x)").compile()
    fast = wg.compile(lambda x: 2.0 * scipy.special.gammaln(x))

    assert "native code cannot compute gammaln: it is computed by scipy" in str(program.info)
    assert program(x=2.5) == fast(2.5) == 2.0 * scipy.special.gammaln(2.5)


def test_single_precision_stays_single() -> None:
    x = np.array([0.5, 1.5], np.float32)
    gradient = wg.grad(lambda x: np.sum(run("gamma.logpdf")(x, 2.0, scale=1.5) + run("t.cdf")(x, 3.0)))(x)

    assert gradient.dtype == np.float32


def test_distributions_are_not_among_the_names_of_the_package() -> None:
    assert [name for name in dir(wg) if "." in name] == []
    assert {"gammaln", "logit", "polygamma", "i0"} <= {*dir(wg)}
