"""Remedies: advice that applies where it is given, and that cures.

For every remedy of the table there is a program that breaks and the program as the advice has it. The second is run at
the point where the first broke: its value and its gradients must be finite there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import wiregrad as wg
from wiregrad.errors import NonFiniteError
from wiregrad.ops import TABLE, Advice
from wiregrad.ops.advice import (
    GENERAL_REMEDIES,
    Surroundings,
    find_advice,
    forward_fault,
    only_moves_elements,
    remedies_of,
)

TABLE.load_deferred()
EPS, TINY = 1e-6, 1e-30
SHEAR = np.array([[1.0, 2.0], [2.0, -1.0]])
Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@dataclass(frozen=True)
class Pair:
    """A program that breaks, and what the advice of an op makes of it."""

    op: str
    """Whose remedy it is; empty for those of any op."""
    says: str
    """A piece of the advice."""
    broken: Program
    mended: Program
    args: tuple[Any, ...]

    @property
    def advice(self) -> str:
        """What blame advises."""
        return wg.blame(self.broken, *self.args).origins[0].suggestion


PAIRS: list[Pair] = []


def pair(op: str, says: str, broken: Program, mended: Program, *args: Any) -> None:
    """Note a pair for an op."""
    PAIRS.append(Pair(op, says, broken, mended, args))


def each(ops: str, says: str, broken: Program, mended: Program, *args: Any) -> None:
    """Note a pair for each of several ops, which the programs take first."""
    for name in ops.split():
        f = getattr(np, name)
        PAIRS.append(Pair(name, says, lambda *xs, f=f: broken(f, *xs), lambda *xs, f=f: mended(f, *xs), args))


def a(*rows: Any) -> np.ndarray:
    return np.array(rows, float)


def masked(x: Any, fill: float) -> Any:
    """Return x with something in the place of all that is below 5."""
    return np.where(x > 5.0, x, fill)


def first(x: Any) -> Any:
    return np.sum(x * np.array([1.0, 2.0]))


LARGE = "scale the inputs"
pair("add", "infinities", lambda x: masked(x, -np.inf) + np.inf, lambda x: masked(x, -1e9) + 1e9, 1.0)
pair("subtract", "infinities", lambda x: masked(x, -np.inf) + 0.0 - -np.inf, lambda x: masked(x, -1e9) - -1e9, 1.0)
pair("divide", "infinities", lambda x: masked(x, -np.inf) / -np.inf, lambda x: masked(x, -1e9) / -1e9, 1.0)
pair(
    "sum",
    "infinities",
    lambda x: np.sum(np.where(x > 5.0, x, a(np.inf, -np.inf))),
    lambda x: np.sum(np.where(x > 5.0, x, a(1e9, -1e9))),
    a(1.0, 2.0),
)
pair(
    "cumsum",
    "infinities",
    lambda x: np.cumsum(np.where(x > 5.0, x, a(np.inf, -np.inf)))[1],
    lambda x: np.cumsum(np.where(x > 5.0, x, a(1e9, -1e9)))[1],
    a(1.0, 2.0),
)
pair("add", LARGE, lambda x: x + x, lambda x: x * 1e-9 + x * 1e-9, 1e308)
pair("subtract", LARGE, lambda x, y: x - y, lambda x, y: x * 1e-9 - y * 1e-9, 1.7e308, -1.7e308)
pair("multiply", LARGE, lambda x: x * x, lambda x: (x * 1e-200) * (x * 1e-200), 1e200)
pair("square", LARGE, np.square, lambda x: np.square(x * 1e-200), 1e200)
pair("hypot", LARGE, np.hypot, lambda x, y: np.hypot(x * 1e-9, y * 1e-9), 1.7e308, 1.7e308)
pair("power", LARGE, lambda x: x**3, lambda x: (x * 1e-200) ** 3, -1e200)
each("sinh cosh", LARGE, lambda f, x: f(x), lambda f, x: f(x * 1e-3), 800.0)
each("sum", LARGE, lambda f, x: f(x), lambda f, x: f(x * 1e-9), a(1.7e308, 1.7e308))
each("cumsum", LARGE, lambda f, x: f(x)[1], lambda f, x: f(x * 1e-9)[1], a(1.7e308, 1.7e308))
each("exp exp2 expm1", LARGE, lambda f, z: np.real(f(z)), lambda f, z: np.real(f(z * 1e-3)), 2000 + 1j)
pair(
    "log_softmax", LARGE, lambda x: first(wg.log_softmax(x)), lambda x: first(wg.log_softmax(x * 0.1)), a(1e308, -1e308)
)
pair("matmul", LARGE, lambda x: np.sum(x @ x), lambda x: np.sum((x * 1e-200) @ (x * 1e-200)), np.full((2, 2), 1e200))
pair("prod", "logarithms", np.prod, lambda x: np.sum(np.log(x)), a(1e200, 1e200))
pair("cumprod", "logarithms", lambda x: np.cumprod(x)[1], lambda x: np.cumsum(np.log(x))[1], a(1e200, 1e200))

pair("", "scale the output", lambda x: np.sin(1e200 * x) * 1e200, lambda x: np.sin(1e200 * x) * 1e200 * 1e-150, 0.0)
pair(
    "matmul",
    "scale the output",
    lambda x: np.sum(a([1e200, 0.0]) @ np.tanh(x)) * 1e200,
    lambda x: np.sum(a([1e200, 0.0]) @ np.tanh(x)) * 1e200 * 1e-150,
    np.zeros((2, 1)),
)

pair(
    "multiply",
    "p * log",
    lambda p: np.sum(p * np.log(p)),
    lambda p: np.sum(np.where(p > 0, p * np.log(p), 0.0)),
    a(0, 1),
)
pair(
    "multiply",
    "np.where(mask",
    lambda x, keep: x + (1.0 - keep) * -np.inf,
    lambda x, keep: x + np.where(keep < 1.0, -np.inf, 0.0),
    1.0,
    1.0,
)
pair(
    "matmul",
    "np.isfinite",
    lambda x: np.sum(np.where(x > 0, x, -np.inf) @ a([0.0], [1.0])),
    lambda x: np.sum(np.where(np.isfinite(np.where(x > 0, x, -np.inf)), x, 0.0) @ a([0.0], [1.0])),
    a([-1.0, 2.0]),
)

ROOTS: dict[str, Program] = {"sqrt": np.sqrt, "power": lambda x: x**0.5}
for name, root in ROOTS.items():

    def of_variance(x: Any, root: Program = root) -> Any:
        return root(np.mean((x - np.mean(x)) ** 2))

    def of_mean(x: Any, y: Any, root: Program = root) -> Any:
        return root(np.mean((x - y) ** 2))

    pair(name, "np.std", of_variance, np.std, a(2, 2, 2))
    pair(name, "np.std", lambda x, root=root: root(np.var(x)), np.std, a(2, 2, 2))
    pair(name, "np.sqrt(n)", of_mean, lambda x, y: np.linalg.norm(x - y) / np.sqrt(2), a(1, 2), a(1, 2))
    pair(name, "np.hypot", lambda x, y, root=root: root(x * x + y**2), np.hypot, 0.0, 0.0)
    pair(name, "linalg.norm(x)", lambda x, root=root: root(np.sum(x * x)), np.linalg.norm, a(0, 0))
    pair(name, "linalg.norm(x)", lambda x, root=root: root(x @ x), np.linalg.norm, a(0, 0))
    pair(name, "np.abs", lambda x, root=root: root(np.square(x)), np.abs, 0.0)
    pair(
        name,
        "np.where(mask",
        lambda x, m, root=root: np.sum(root(x) * m),
        lambda x, m, root=root: np.sum(np.where(m > 0, root(x), 0.0)),
        a(0, 1),
        a(0, 1),
    )
pair("sqrt", "np.maximum(x, tiny)) or", np.sqrt, lambda x: np.sqrt(np.maximum(x, TINY)), 0.0)
pair("sqrt", "or np.sqrt(x + eps)", np.sqrt, lambda x: np.sqrt(x + EPS), 0.0)
pair("sqrt", "np.maximum(x, tiny)", np.sqrt, lambda x: np.sqrt(np.maximum(x, TINY)), -2.0)
pair("cbrt", "np.where(mask", lambda x, m: np.cbrt(x) * m, lambda x, m: np.where(m > 0, np.cbrt(x), 0.0), 0.0, 0.0)
pair("cbrt", "x == 0", np.cbrt, lambda x: np.cbrt(np.where(x == 0, EPS, x)), 0.0)

pair("power", "x == 0", lambda x: x**-1.0, lambda x: np.where(x == 0, 1.0, x) ** -1.0, 0.0)
pair("power", "np.maximum", lambda x: x**1.5, lambda x: np.maximum(x, EPS) ** 1.5, -2.0)
pair("power", "or np.abs", lambda x: x**1.5, lambda x: np.abs(x) ** 1.5, -2.0)
pair("power", "below 1", lambda x: x**0.25, lambda x: np.maximum(x, EPS) ** 0.25, 0.0)
pair("power", "stop_gradient", lambda x, p: x**p, lambda x, p: x ** wg.stop_gradient(p), -2.0, 3.0)
pair("power", "np.abs", lambda x, p: x**p, lambda x, p: np.abs(x) ** p, -2.0, 3.0)
pair("power", "scale the base", lambda x: x**-1.0, lambda x: (x * 1e150) ** -1.0, 1e-200)

pair("log", "probability", lambda x: np.log(wg.softmax(x)[0]), lambda x: wg.log_softmax(x)[0], a(-800, 0))


def shares(z: Any) -> Any:
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


pair("log", "probability", lambda x: np.log(wg.softmax(x)[0]), lambda x: wg.log_softmax(x)[0], a(-720, 0))
pair("log", "divides before", lambda x: np.log(shares(x)[0]), lambda x: wg.log_softmax(x)[0], a(-800, 0))
pair("log", "logsumexp", lambda x: np.log(np.sum(np.exp(x))), wg.logsumexp, a(-800, -900))
pair("log", "logsumexp", lambda x: np.log(np.sum(np.exp(x))), wg.logsumexp, a(-720, -721))
pair("log", "logaddexp", lambda x, y: np.log(np.exp(x) + np.exp(y)), np.logaddexp, -800.0, -900.0)
pair("log", "log(sigmoid(x))", lambda x: np.log(wg.sigmoid(x)), lambda x: -wg.softplus(-x), -800.0)
pair("log", "log(1 - sigmoid(x))", lambda x: np.log(1 - wg.sigmoid(x)), lambda x: -wg.softplus(x), 800.0)
pair(
    "log",
    "slogdet(a)[1]",
    lambda x: np.log(np.linalg.det(x)),
    lambda x: np.linalg.slogdet(x)[1],
    np.eye(2) * 1e-200,
)
pair(
    "log",
    "singular",
    lambda x: np.log(np.linalg.det(x)),
    lambda x: np.linalg.slogdet(x + EPS * np.eye(2))[1],
    a([1, 2], [2, 4]),
)
pair(
    "log",
    "negative",
    lambda x: np.log(np.linalg.det(x)),
    lambda x: np.linalg.slogdet(x)[0] * np.linalg.slogdet(x)[1],
    a([0, 1], [2, 0]),
)
pair("log", "np.log1p(-np.minimum", lambda p: np.log(1 - p), lambda p: np.log1p(-np.minimum(p, 1 - EPS)), 1.0)
each("log log2 log10", "sum of the log", lambda f, x: f(np.prod(x)), lambda f, x: np.sum(f(x)), a(1e-200, 1e-200))
each(
    "log log2 log10",
    "np.cumsum",
    lambda f, x: f(np.cumprod(x))[1],
    lambda f, x: np.cumsum(f(x))[1],
    a(1e-200, 1e-200),
)
each("log log2 log10", "np.maximum", lambda f, x: f(x), lambda f, x: f(np.maximum(x, TINY)), 0.0)
each("log log2 log10", "sum of the log", lambda f, x: f(np.prod(x)), lambda f, x: np.sum(f(x)), a(1e-155, 1e-155))
each("log log2 log10", "so small", lambda f, x: f(x), lambda f, x: f(np.maximum(x, TINY)), 1e-310)
each("log log2 log10", "np.where(x > 0", lambda f, x: f(x), lambda f, x: np.where(x > 0, f(x), 0.0), -3.0)
each("log log2 log10", "x == 0", lambda f, z: np.real(f(z)), lambda f, z: np.real(f(np.where(z == 0, 1.0, z))), 0j)
pair("log1p", "above -1", np.log1p, lambda x: np.log1p(np.maximum(x, -1 + EPS)), -1.0)

pair(
    "exp", "log_softmax", lambda x: np.log(np.exp(x) / np.sum(np.exp(x)))[1], lambda x: wg.log_softmax(x)[1], a(800, 1)
)
pair("exp", "wg.softmax", lambda x: (np.exp(x) / np.sum(np.exp(x)))[1], lambda x: wg.softmax(x)[1], a(800, 1))
pair("exp", "x.max()", lambda x: (np.exp(x) / np.sum(np.exp(x)))[1], lambda x: shares(x)[1], a(800, 1))
pair("exp", "logsumexp", lambda x: np.log(np.sum(np.exp(x))), wg.logsumexp, a(800, 1))
pair("exp", "softplus", lambda x: np.log(1 + np.exp(x)), wg.softplus, 800.0)
pair("exp", "softplus", lambda x: np.log1p(np.exp(x)), wg.softplus, 800.0)
pair("exp", "logaddexp", lambda x, y: np.log(np.exp(x) + np.exp(y)), np.logaddexp, 800.0, 1.0)
pair("exp", "sigmoid", lambda x: 1 / (1 + np.exp(-x)), wg.sigmoid, -800.0)
pair("exp", "sigmoid", lambda x: np.reciprocal(np.exp(-x) + 1), wg.sigmoid, -800.0)
pair("exp", "sigmoid", lambda x: np.exp(x) / (1 + np.exp(x)), wg.sigmoid, 800.0)
each("exp expm1", "709", lambda f, x: f(x), lambda f, x: f(np.minimum(x, 700.0)), 800.0)
each("exp2", "1024", lambda f, x: f(x), lambda f, x: f(np.minimum(x, 1000.0)), 2000.0)
pair("sinh", "np.tanh", lambda x: np.sinh(x) / np.cosh(x), np.tanh, 800.0)
pair("cosh", "np.tanh", lambda x: (1 / np.cosh(x), np.sinh(x) / np.cosh(x))[1], np.tanh, 800.0)

pair(
    "divide",
    "wg.softmax",
    lambda x: (np.exp(x) / np.sum(np.exp(x)))[0],
    lambda x: wg.softmax(x)[0],
    a(-1000, -1000),
)
pair(
    "divide",
    "np.maximum(count, 1)",
    lambda x, m: np.sum(x * m) / np.sum(m),
    lambda x, m: np.sum(x * m) / np.maximum(np.sum(m), 1),
    a(1, 2),
    a(0, 0),
)
pair(
    "divide",
    "count is 0",
    lambda x: np.sum(x) / np.sum(x > 5),
    lambda x: np.sum(x) / np.where(np.sum(x > 5) == 0, 1.0, np.sum(x > 5)),
    a(1, 2),
)
pair("divide", "arctan2", lambda y, x: np.arctan(y / x), np.arctan2, 1.0, 0.0)
pair("divide", "arctan2", lambda y, x: np.arctan(y / x), np.arctan2, 1.0, 1e-200)
pair("divide", "np.std(x) + eps", lambda x: first(x / np.std(x)), lambda x: first(x / (np.std(x) + EPS)), a(2, 2))
pair(
    "divide",
    "np.linalg.norm(x), eps",
    lambda x: first(x / np.sqrt(np.sum(x**2))),
    lambda x: first(x / np.maximum(np.linalg.norm(x), EPS)),
    a(0, 0),
)
pair(
    "divide",
    "np.hypot(a, b), eps",
    lambda x, y: x / np.hypot(x, y),
    lambda x, y: x / np.maximum(np.hypot(x, y), EPS),
    0.0,
    0.0,
)
pair("divide", "d == 0", lambda x, d: x / d, lambda x, d: x / np.where(d == 0, 1.0, d), 1.0, 0.0)
pair("divide", "np.maximum(d, eps)", lambda x, d: x / d, lambda x, d: x / np.maximum(d, EPS), 1.0, 0.0)
pair("divide", "too small", lambda x, d: x / d, lambda x, d: x / np.maximum(d, EPS), 1.0, 1e-200)
pair("divide", "scale both", lambda x, d: x / d, lambda x, d: (x * 1e-300) / (d * 1e150), 1.0, 1e-200)
pair("divide", "d == 0", lambda z: np.real(1 / z), lambda z: np.real(1 / np.where(z == 0, 1.0, z)), 0j)
pair("reciprocal", "arctan2", lambda x: np.arctan(np.reciprocal(x)), lambda x: np.arctan2(1.0, x), 0.0)
pair("reciprocal", "np.std(x) + eps", lambda x: np.reciprocal(np.std(x)), lambda x: 1 / (np.std(x) + EPS), a(2, 2))
pair(
    "reciprocal",
    "the length is 0",
    lambda x: np.reciprocal(np.linalg.norm(x)),
    lambda x: np.reciprocal(np.maximum(np.linalg.norm(x), EPS)),
    a(0, 0),
)
pair("reciprocal", "never negative", np.reciprocal, lambda d: np.reciprocal(np.where(d == 0, 1.0, d)), 0.0)
pair("reciprocal", "too small", np.reciprocal, lambda d: np.reciprocal(np.maximum(d, EPS)), 1e-200)
pair(
    "reciprocal",
    "d == 0",
    lambda z: np.real(np.reciprocal(z)),
    lambda z: np.real(np.reciprocal(np.where(z == 0, 1.0, z))),
    0j,
)
each("mod floor_divide", "d == 0", lambda f, x, d: f(x, d), lambda f, x, d: f(x, np.where(d == 0, 1.0, d)), 3.0, 0.0)

for name in ("xlogy", "rel_entr"):

    def kept_above_0(x: Any, y: Any, f: Any = TABLE[name]) -> Any:
        return f(x, np.maximum(y, EPS))

    pair(name, "second argument above 0", TABLE[name], kept_above_0, 1.0, 0.0)
pair(
    "xlog1py",
    "second argument above -1",
    TABLE["xlog1py"],
    lambda x, y: TABLE["xlog1py"](x, np.maximum(y, -1 + EPS)),
    1.0,
    -1.0,
)

SPECIAL = {
    **dict.fromkeys(("gammaln", "gamma", "digamma"), (0.0,)),
    **dict.fromkeys(("polygamma", "bessel_y", "bessel_k"), (1.0, 0.0)),
    **dict.fromkeys(("betaln", "beta"), (0.0, 2.0)),
    **dict.fromkeys(("gammainc", "gammaincc", "stdtr"), (-1.0, 1.0)),
    **dict.fromkeys(("betainc", "betaincc"), (-1.0, 2.0, 0.5)),
    "binom": (-1.0, -1.0),
    "gamma_moment": (1.0, -1.0, 1.0),
    "beta_moment": (1.0, 0.0, -1.0, 2.0, 0.5),
}
for name, point in SPECIAL.items():

    def kept_positive(*xs: Any, f: Any = TABLE[name]) -> Any:
        return f(*(np.maximum(x, EPS) for x in xs))

    pair(name, "arguments above 0", TABLE[name], kept_positive, *point)
for name, point in {"betainc": (2.0, 3.0), "betaincc": (2.0, 3.0), "beta_moment": (1.0, 0.0, 2.0, 3.0)}.items():

    def kept_a_share(*xs: Any, f: Any = TABLE[name]) -> Any:
        return f(*xs[:-1], np.clip(xs[-1], 0.0, 1.0))

    pair(name, "between 0 and 1", TABLE[name], kept_a_share, *point, 1.5)
pair("gamma", "gammaln", TABLE["gamma"], TABLE["gammaln"], 200.0)
pair("bessel_i", "ive", TABLE["bessel_i"], TABLE["bessel_ie"], 0.0, 800.0)

each("arcsin arccos", "np.clip", lambda f, x: f(x), lambda f, x: f(np.clip(x, -1 + EPS, 1 - EPS)), 1.0)
each("arcsin arccos arctanh", "np.clip", lambda f, x: f(x), lambda f, x: f(np.clip(x, -1 + EPS, 1 - EPS)), 1.5)
for op in [op for op in TABLE if op.remedies is Advice.INTERVAL]:

    def guarded(x: Any, op: Any = op) -> Any:
        return op(np.clip(x, op.domain.low + EPS, op.domain.high - EPS))

    outside = op.domain.low - 0.5 if np.isfinite(op.domain.low) else op.domain.high + 0.5
    pair(op.name, "keep the argument", op, guarded, outside)
each("arccosh", "np.maximum(x, 1 + eps)", lambda f, x: f(x), lambda f, x: f(np.maximum(x, 1 + EPS)), 1.0)
each(
    "arcsin arccos arccosh",
    "np.where(mask",
    lambda f, x, m: f(x) * m,
    lambda f, x, m: np.where(m > 0, f(x), 0.0),
    1.0,
    0.0,
)

KEEP = np.array([[True, False], [False, False]])
for shared in (wg.softmax, wg.log_softmax):

    def second_row(x: Any, fill: float, f: Program = shared) -> Any:
        return np.sum(f(np.where(KEEP, x, fill), axis=-1)[1])

    pair(
        shared.__name__,
        "-1e9",
        lambda x, f=second_row: f(x, -np.inf),
        lambda x, f=second_row: f(x, -1e9),
        np.ones((2, 2)),
    )

NEARLY = a([1, 0], [0, 5e-324])
pair("inv", "np.eye(n)", lambda x: np.linalg.inv(x)[0, 0], lambda x: np.linalg.inv(x + EPS * np.eye(2))[0, 0], NEARLY)
pair(
    "solve",
    "np.eye(n)",
    lambda x, b: np.sum(np.linalg.solve(x, b)),
    lambda x, b: np.sum(np.linalg.solve(x + EPS * np.eye(2), b)),
    NEARLY,
    a(1, 1),
)
pair(
    "solve_triangular",
    "np.eye(n)",
    lambda x, b: np.sum(scipy.linalg.solve_triangular(x, b)),
    lambda x, b: np.sum(scipy.linalg.solve_triangular(x + EPS * np.eye(2), b)),
    NEARLY,
    a(1, 1),
)
pair(
    "slogdet",
    "np.eye(n)",
    lambda x: np.linalg.slogdet(x)[1],
    lambda x: np.linalg.slogdet(x + EPS * np.eye(2))[1],
    a([1, 2], [2, 4]),
)
pair(
    "eigh",
    "scipy.linalg.expm",
    lambda x: np.sum(SHEAR * ((np.linalg.eigh(x)[1] * np.exp(np.linalg.eigh(x)[0])) @ np.linalg.eigh(x)[1].T)),
    lambda x: np.sum(SHEAR * scipy.linalg.expm(x)),
    np.eye(2) * 3.0,
)
pair(
    "svd",
    "np.linalg.inv(scipy.linalg.sqrtm(a.T @ a))",
    lambda x: np.sum(SHEAR * (np.linalg.svd(x)[0] @ np.linalg.svd(x)[2])),
    lambda x: np.sum(SHEAR * (x @ np.linalg.inv(scipy.linalg.sqrtm(x.T @ x)))),
    np.eye(2) * 3.0,
)
pair("det", "slogdet", np.linalg.det, lambda x: np.linalg.slogdet(x)[1], np.eye(2) * 1e200)


every_pair = pytest.mark.parametrize("case", PAIRS, ids=lambda case: f"{case.op or 'any'}-{case.says}")


@every_pair
def test_a_program_that_breaks_gets_the_advice_that_was_written_for_it(case: Pair) -> None:
    known = {found.advice for found in (remedies_of(TABLE[case.op]) if case.op else GENERAL_REMEDIES)}

    assert case.says in case.advice
    assert case.advice in known


@every_pair
def test_a_program_that_follows_the_advice_is_finite_with_its_gradients(case: Pair) -> None:
    numbers = tuple(k for k, x in enumerate(case.args) if np.asarray(x).dtype.kind in "fc")
    value, gradients = wg.value_and_grad(case.mended, argnums=numbers)(*case.args)

    assert np.isfinite(value).all()
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_every_remedy_of_the_table_is_proven_by_a_pair() -> None:
    TABLE.load_deferred()
    known = {(op.name, found.advice) for op in TABLE for found in remedies_of(op)} | {
        ("", r.advice) for r in GENERAL_REMEDIES
    }

    assert known - {(case.op, case.advice) for case in PAIRS} == set()


def test_a_remedy_is_not_written_twice_for_one_op() -> None:
    for op in TABLE:
        advice = [found.advice for found in remedies_of(op)]

        assert len(set(advice)) == len(advice), op.name


class Root(wg.Function):
    """A root whose user wrote its slope."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = x
        return np.sqrt(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 0.5 / np.sqrt(ctx.x)


SLOPE, GUARD, DIVISOR, BOUND = "the slope of a root at 0", "guard the argument", "keep the divisor from 0", "below 709"
LOOKALIKES: dict[str, tuple[str, Program, tuple[Any, ...]]] = {
    "a factor that is not 0": (SLOPE, lambda x: 2 * np.sqrt(x), (0.0,)),
    "a factor that is 0 elsewhere": (SLOPE, lambda x: np.sum(np.sqrt(x) * a(1, 0)), (a(0, 1),)),
    "an upstream that is 0 without a mask": (SLOPE, lambda x: np.sqrt(x) ** 2, (0.0,)),
    "a product of two": (SLOPE, lambda x, y: np.sqrt(x * y), (0.0, 0.0)),
    "a product of two elements": (SLOPE, lambda x: np.sqrt(x[0] * x[1]), (a(0, 0),)),
    "an outer product": (SLOPE, lambda x: np.sum(np.sqrt(x * x[:, None])), (a(0, 1),)),
    "a sum of products": (SLOPE, lambda x, y: np.sqrt(x * y + y * x), (0.0, 1.0)),
    "a sum of a square and more": (SLOPE, lambda x: np.sqrt(x * x + 3 * x), (0.0,)),
    "a cube": (SLOPE, lambda x: np.sqrt(x**3), (0.0,)),
    "a dot product of two": (SLOPE, lambda x, y: np.sqrt(x @ y), (a(0, 0), a(0, 1))),
    "a dot product of two rows": (SLOPE, lambda x: np.sqrt(x[0] @ x[1]), (a([0, 1], [1, 0]),)),
    "a mean of what is no square": (SLOPE, lambda x: np.sqrt(np.mean(x)), (a(0, 0),)),
    "centred by another's mean": (
        "np.sqrt(n)",
        lambda x, y: np.sqrt(np.mean((x - np.mean(y)) ** 2)),
        (a(1, 1), a(0, 2)),
    ),
    "a quotient by a sum of itself": (DIVISOR, lambda x: first(x / np.sum(x)), (a(0, 0),)),
    "weights that cancel": (DIVISOR, lambda x, w: np.sum(x * w) / np.sum(w), (a(1, 2), a(1, -1))),
    "a count of something else": (DIVISOR, lambda x, m: np.sum(x) / np.sum(m), (a(1, 2), a(0, 0))),
    "a root of something else": (DIVISOR, lambda x, y: x / np.sqrt(y), (1.0, 0.0)),
    "shares of other exponentials": (
        DIVISOR,
        lambda x, y: first(np.exp(x) / np.sum(np.exp(y))),
        (a(0, 0), a(-900, -900)),
    ),
    "the odds of an exponential": (
        DIVISOR,
        lambda x: np.exp(x)[0] / np.sum(np.exp(x)[1:]),
        (a(0, -900, -900),),
    ),
    "a constant that is not 1": (GUARD, lambda x: np.log(5.0 - x), (5.0,)),
    "a constant on the other side": (GUARD, lambda x: np.log(x - 1.0), (1.0,)),
    "a sigmoid that is not taken from 1": (GUARD, lambda x: np.log(x - wg.sigmoid(x)), (0.5,)),
    "a negative product": (GUARD, lambda x: np.log(np.prod(x)), (a(-1, 2),)),
    "a product with a factor 0": (GUARD, lambda x: np.log(np.prod(x)), (a(0, 2),)),
    "shares to another base": ("np.log2(", lambda x: np.log2(wg.softmax(x)[0]), (a(-800, 0),)),
    "one exponential of a sum": (GUARD, lambda x: np.log(x + np.exp(x)), (-800.0,)),
    "a quotient by a constant": (BOUND, lambda x: np.exp(x) / 3.0, (800.0,)),
    "a quotient by another sum": (BOUND, lambda x, y: first(np.exp(x) / np.sum(y)), (a(800, 1), a(1, 2))),
    "a logistic curve that is no sigmoid": (BOUND, lambda x: 7 / (3 + np.exp(x)), (800.0,)),
    "a numerator that is not 1": (BOUND, lambda x: 7 / (1 + np.exp(x)), (800.0,)),
    "a logarithm of 2 + exp": (BOUND, lambda x: np.log(2 + np.exp(x)), (800.0,)),
    "an overflow that met a 0 in a matrix": (BOUND, lambda x: np.sum(np.exp(x) @ a([0], [1])), (a([800, 1]),)),
    "half a sinh": (LARGE, lambda x: np.sinh(x) / 2.0, (800.0,)),
    "sinh over another cosh": (LARGE, lambda x, y: np.sinh(x) / np.cosh(y), (800.0, 1.0)),
    "a whole power": (LARGE, lambda x: x**3, (-1e200,)),
    "a negative power": (LARGE, lambda x: x**-2, (1e-200,)),
    "a small base": (LARGE, lambda x: 0.5**x, (-2000.0,)),
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_advice_for_something_else_that_looks_alike_is_not_given(name: str) -> None:
    says, program, args = LOOKALIKES[name]

    assert says in wg.blame(program, *args).origins[0].suggestion


@pytest.mark.parametrize(
    ("program", "point"),
    [(lambda x: Root.apply(x) * 2.0, 0.0), (lambda z: np.real(np.sqrt(z)), 0j), (lambda z: np.real(z**0.5), 0j)],
)
def test_nothing_is_advised_where_nothing_is_known_to_help(program: Program, point: Any) -> None:
    found = wg.blame(program, point)

    assert [origin.suggestion for origin in found.origins] == [""]


@pytest.mark.parametrize(
    ("base", "exponent", "defined"),
    [(-1e200, 3.0, True), (1e-200, -2.0, True), (-2.0, 0.5, False), (0.0, -1.0, False), (-1e200, 3, True)],
)
def test_a_power_is_called_undefined_only_where_it_is(base: float, exponent: float, defined: bool) -> None:
    said = wg.blame(lambda x: x**exponent, base).origins[0].said

    assert ("outside of where it is defined" in said) != defined


@pytest.mark.parametrize(
    ("program", "point"),
    [
        (lambda p: np.log(1 - p), 1.0),
        (lambda p: np.log(np.prod(p)), a(1e-200, 1e-200)),
        (lambda x: np.sqrt(np.sum(x**2)), a(0, 0)),
        (lambda x: np.sqrt(np.mean((x - np.mean(x)) ** 2)), a(2, 2)),
        (lambda x: 1 / np.linalg.norm(x), a(0, 0)),
        (lambda x: np.sqrt(x) * 0.0, 0.0),
    ],
)
def test_a_recording_gets_the_advice_that_a_circuit_gets(program: Program, point: Any) -> None:
    with wg.anomaly(), pytest.raises(NonFiniteError) as caught:
        wg.grad(program)(point)

    assert wg.blame(program, point).origins[0].suggestion in str(caught.value)


def test_splitters_hide_no_form() -> None:
    run = wg.circuit("y = sqrt(x * x)").split().run(x=0.0)

    assert "np.abs(x)" in run.blame().origins[0].suggestion


def test_an_op_hands_on_what_it_was_given_unless_it_adds_or_changes() -> None:
    moves = {op.name for op in TABLE if only_moves_elements(op)}

    assert {"split", "spread", "reshape", "permute", "getitem", "take", "cast"} <= moves
    assert not {"sum", "cumsum", "put_add", "concatenate", "negative", "conjugate", "exp"} & moves


def test_what_is_not_known_is_not_taken_for_a_number() -> None:
    op = TABLE["log"]
    fault = forward_fault(op, [np.float64(0.0)], np.float64(-np.inf))
    ops = {0: op, 1: TABLE["subtract"]}
    around = Surroundings(ops.__getitem__, {0: [(1, None)], 1: [(-1, None), (-1, None)]}.__getitem__, lambda node: [])

    assert fault is not None
    assert GUARD in find_advice(0, around, fault)
