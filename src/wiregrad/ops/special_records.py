"""The records of the elementwise ops that SciPy computes: gamma, beta and Bessel functions, and inverses of erf.

They have no C text, so they run in the interpreter alone; native code and listings refuse them and say so. Rules are
written in wiregrad's own ops, as everywhere. An order (`n`, `m`) is a whole number: the op rounds it, so no gradient
flows to it. Derivatives by a parameter for which there is no closed form are moments, ops of their own whose
derivatives are moments again (`gamma_moment`, `beta_moment`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.ir import TABLE, Advice, Pattern
from wiregrad.lazy import load_module_lazily
from wiregrad.ops.array_ops import Elementwise, Interval, Kink, SlopeRule
from wiregrad.ops.elementwise_records import (
    exp,
    greater,
    log,
    log1p,
    maximum,
    nan_or,
    power,
    round,
    sign,
    sqrt,
    where,
    xlog1py,
    xlogy,
)

if TYPE_CHECKING:
    from wiregrad.ops import special_forward
else:
    special_forward = load_module_lazily("wiregrad.ops.special_forward")

ROUNDED_EXPONENT = "the exponent is rounded before it is exponentiated"
CANCELLATION = "two terms of the slope nearly cancel"
SQRT_PI = math.sqrt(math.pi)
ASYMPTOTIC_FROM = 12.0
"""Where the slope of erfcx is computed by its asymptotic series, because the two terms of the short form cancel."""
MEDIAN_POINTS = (0.02, 0.1, 0.25, 0.4, 0.45, 0.6, 0.7, 0.85, 0.93, 0.99)


def _register_special(
    name: str,
    doc: str,
    inputs: tuple[str, ...],
    partials: tuple[SlopeRule | None, ...],
    *,
    forward: Callable[..., Any] | None = None,
    **facts: Any,
) -> Elementwise:
    """Register an op that SciPy computes, by default by its function of the same name."""

    def compute(*xs: Any) -> Any:
        return special_forward.compute_special(name, *xs)

    facts.setdefault("scipy", () if forward else (f"scipy.special.{name}",))
    record = Elementwise(
        name=name,
        doc=doc,
        inputs=inputs,
        pattern=Pattern.SCALE,
        forward=forward or compute,
        partials=partials,
        library="scipy",
        **facts,
    )
    return TABLE.add(record)


def _compute_later(name: str) -> Callable[..., Any]:
    """Return a function of `special_forward` that is looked up when it is called, because the module needs SciPy."""

    def compute(*xs: Any) -> Any:
        return getattr(special_forward, name)(*xs)

    return compute


def _is_no_pole(x: Any) -> Any:
    """Return whether the gamma function is defined: everywhere but at 0, -1, -2, ..."""
    return (x > 0) | (x != np.floor(x))


_GAMMA_POINTS = tuple((x,) for x in (0.05, 0.3, 0.7, 1.2, 1.7, 2.4, 3.2, 4.8, 7.3, 21.5, -0.7, -1.3, -2.6))

gammaln: Elementwise = _register_special(
    "gammaln",
    "Logarithm of the absolute value of the gamma function.",
    ("x",),
    (lambda x, y: digamma(x),),
    domain=_is_no_pole,
    samples=_GAMMA_POINTS,
    exact=lambda mp, x: mp.log(abs(mp.gamma(x))),
    ulps=64.0,
    because="digamma crosses 0 near the samples 1.2, 1.7 and -2.6",
    remedies=Advice.POSITIVE,
)
gamma: Elementwise = _register_special(
    "gamma",
    "Gamma function: (x - 1)! for a whole number x.",
    ("x",),
    (lambda x, y: y * digamma(x),),
    domain=_is_no_pole,
    samples=_GAMMA_POINTS,
    exact=lambda mp, x: mp.gamma(x),
    ulps=64.0,
    because="digamma crosses 0 near the samples 1.2, 1.7 and -2.6",
    remedies=Advice.GAMMA,
)
digamma: Elementwise = _register_special(
    "digamma",
    "Slope of gammaln.",
    ("x",),
    (lambda x, y: nan_or(y, polygamma(1.0, x)),),
    domain=_is_no_pole,
    samples=_GAMMA_POINTS,
    exact=lambda mp, x: mp.digamma(x),
    scipy=("scipy.special.digamma", "scipy.special.psi"),
    ulps=64.0,
    because="digamma crosses 0 near the samples 1.2, 1.7 and -2.6",
    remedies=Advice.POSITIVE,
)
polygamma: Elementwise = _register_special(
    "polygamma",
    "Derivative of order n of digamma.",
    ("n", "x"),
    (None, lambda n, x, y: nan_or(y, polygamma(round(n) + 1.0, x))),
    forward=_compute_later("compute_polygamma"),
    domain=lambda n, x: (n >= 0) & _is_no_pole(x),
    samples=(
        *((0.0, 0.4), (0.0, 2.5), (1.0, 0.3), (1.0, 1.5), (1.0, 8.0), (1.0, -0.6), (2.0, 0.7), (2.0, 3.2)),
        *((3.0, 1.1), (3.0, 6.5), (4.0, 2.2)),
    ),
    exact=lambda mp, n, x: mp.polygamma(int(mp.nint(n)), x),
    remedies=Advice.POSITIVE,
)
betaln: Elementwise = _register_special(
    "betaln",
    "Logarithm of the absolute value of the beta function.",
    ("a", "b"),
    (lambda a, b, y: digamma(a) - digamma(a + b), lambda a, b, y: digamma(b) - digamma(a + b)),
    domain=lambda a, b: _is_no_pole(a) & _is_no_pole(b),
    samples=(
        *((0.3, 0.5), (0.7, 2.4), (1.7, 1.2), (4.8, 0.9), (2.1, 7.3), (3.2, 3.2), (0.05, 0.6), (12.5, 1.5)),
        *((1.3, 21.0), (40.0, 60.0)),
    ),
    exact=lambda mp, a, b: mp.log(abs(mp.beta(a, b))),
    ulps=64.0,
    because=CANCELLATION,
    remedies=Advice.POSITIVE,
)
beta: Elementwise = _register_special(
    "beta",
    "Beta function: gamma(a) gamma(b) / gamma(a + b).",
    ("a", "b"),
    (lambda a, b, y: y * (digamma(a) - digamma(a + b)), lambda a, b, y: y * (digamma(b) - digamma(a + b))),
    domain=lambda a, b: _is_no_pole(a) & _is_no_pole(b),
    samples=betaln.samples,
    exact=lambda mp, a, b: mp.beta(a, b),
    ulps=64.0,
    because=CANCELLATION,
    remedies=Advice.POSITIVE,
)
binom: Elementwise = _register_special(
    "binom",
    "Binomial coefficient: n over k, also between whole numbers.",
    ("n", "k"),
    (
        lambda n, k, y: y * (digamma(n + 1.0) - digamma(n - k + 1.0)),
        lambda n, k, y: y * (digamma(n - k + 1.0) - digamma(k + 1.0)),
    ),
    domain=lambda n, k: _is_no_pole(n + 1.0),
    samples=(
        *((5.0, 2.0), (5.0, 2.5), (7.0, 1.0), (3.5, 1.2), (10.0, 4.0), (0.7, 0.3), (2.0, 0.5), (12.0, 9.0)),
        *((6.4, 2.2), (4.0, 3.0), (9.0, 6.3)),
    ),
    exact=lambda mp, n, k: mp.binomial(n, k),
    ulps=32.0,
    because=CANCELLATION,
    remedies=Advice.POSITIVE,
)
erfinv: Elementwise = _register_special(
    "erfinv",
    "Inverse of erf.",
    ("x",),
    (lambda x, y: 0.5 * SQRT_PI * exp(y * y),),
    domain=Interval(-1.0, 1.0),
    remedies=Advice.INTERVAL,
    samples=tuple((k / 8,) for k in range(-7, 8)),
    exact=lambda mp, x: mp.erfinv(x),
    ulps=8.0,
    because=ROUNDED_EXPONENT,
)
erfcinv: Elementwise = _register_special(
    "erfcinv",
    "Inverse of erfc.",
    ("x",),
    (lambda x, y: -0.5 * SQRT_PI * exp(y * y),),
    domain=Interval(0.0, 2.0),
    remedies=Advice.INTERVAL,
    samples=tuple((k / 8,) for k in (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 14, 15)),
    exact=lambda mp, x: mp.erfinv(1 - x),
    ulps=8.0,
    because=ROUNDED_EXPONENT,
)
ndtri: Elementwise = _register_special(
    "ndtri",
    "Inverse of the normal distribution's cumulative probability.",
    ("x",),
    (lambda x, y: math.sqrt(2.0 * math.pi) * exp(0.5 * (y * y)),),
    domain=Interval(0.0, 1.0),
    remedies=Advice.INTERVAL,
    samples=tuple((x,) for x in MEDIAN_POINTS),
    exact=lambda mp, x: mp.sqrt(2) * mp.erfinv(2 * x - 1),
    ulps=8.0,
    because=ROUNDED_EXPONENT,
)


def _erfcx_slope(x: Any, y: Any) -> Any:
    """Return the slope of erfcx, for large x by its asymptotic series."""
    if getattr(x, "dtype", None) == np.float16:
        # The factors of the series are too large for float16.
        x, y = (TABLE["cast"](part, dtype="float32") for part in (x, y))
    square = 1.0 / (x * x)
    total = 0.0 * square
    for k in range(10, -1, -1):
        total = total * square + (-1.0) ** (k + 1) * math.prod(range(1, 2 * k + 2, 2)) / 2.0**k
    return where(greater(x, ASYMPTOTIC_FROM), square * total / SQRT_PI, 2.0 * (x * y) - 2.0 / SQRT_PI)


erfcx: Elementwise = _register_special(
    "erfcx",
    "exp(x**2) erfc(x), without underflow.",
    ("x",),
    (_erfcx_slope,),
    samples=tuple((x,) for x in (-3.7, -1.3, -0.7, -0.2, 0.3, 0.9, 1.7, 2.4, 4.8, 12.5, 40.0, 3000.0)),
    exact=lambda mp, x: mp.exp(x * x) * mp.erfc(x),
    ulps=64.0,
    because=f"{CANCELLATION} where x is large",
)
log_ndtr: Elementwise = _register_special(
    "log_ndtr",
    "Logarithm of the normal distribution's cumulative probability, exact in both tails.",
    ("x",),
    # The ratio of the density and the probability, neither of which is computed, because both underflow.
    (lambda x, y: math.sqrt(2.0 / math.pi) / erfcx(x * -math.sqrt(0.5)),),
    samples=tuple((x,) for x in (-400.0, -30.0, -5.9, -2.6, -1.3, -0.7, 0.0, 0.3, 1.7, 2.4, 5.0)),
    exact=lambda mp, x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2),
    ulps=32.0,
    because=ROUNDED_EXPONENT,
)


def _register_bessel(
    name: str, scipy_name: str, doc: str, slope: SlopeRule, exact: Callable[..., Any], **facts: Any
) -> Elementwise:
    """Register a Bessel function of a whole order."""
    points = (0.3, 0.7, 1.3, 2.1, 3.2, 4.8, 5.3)
    orders = (0.0, 1.0, 0.0, 2.0, 1.0, 3.0, 0.0)
    return _register_special(
        name,
        doc,
        ("n", "x"),
        (None, slope),
        forward=lambda n, x: special_forward.compute_bessel(scipy_name, n, x),
        samples=(*zip(orders, points, strict=True), (1.0, 0.9), (2.0, 5.9), (0.0, 6.4), (1.0, 2.7)),
        exact=lambda mp, n, x: exact(mp, int(mp.nint(n)), x),
        ulps=64.0,
        because=CANCELLATION,
        **facts,
    )


def _scaled_slope(n: Any, x: Any, y: Any) -> Any:
    """Return the slope of bessel_ie: that of bessel_i, less what the factor exp(-abs(x)) takes away."""
    return 0.5 * (bessel_ie(round(n) - 1.0, x) + bessel_ie(round(n) + 1.0, x)) - sign(x) * y


bessel_j: Elementwise = _register_bessel(
    "bessel_j",
    "jv",
    "Bessel function of the first kind, of a whole order n.",
    lambda n, x, y: 0.5 * (bessel_j(round(n) - 1.0, x) - bessel_j(round(n) + 1.0, x)),
    lambda mp, n, x: mp.besselj(n, x),
)
bessel_y: Elementwise = _register_bessel(
    "bessel_y",
    "yv",
    "Bessel function of the second kind, of a whole order n.",
    lambda n, x, y: 0.5 * (bessel_y(round(n) - 1.0, x) - bessel_y(round(n) + 1.0, x)),
    lambda mp, n, x: mp.bessely(n, x),
    domain=lambda n, x: x >= 0.0,
    remedies=Advice.POSITIVE,
)
bessel_i: Elementwise = _register_bessel(
    "bessel_i",
    "iv",
    "Modified Bessel function of the first kind, of a whole order n.",
    lambda n, x, y: 0.5 * (bessel_i(round(n) - 1.0, x) + bessel_i(round(n) + 1.0, x)),
    lambda mp, n, x: mp.besseli(n, x),
    remedies=Advice.BESSEL,
)
bessel_k: Elementwise = _register_bessel(
    "bessel_k",
    "kv",
    "Modified Bessel function of the second kind, of a whole order n.",
    lambda n, x, y: -0.5 * (bessel_k(round(n) - 1.0, x) + bessel_k(round(n) + 1.0, x)),
    lambda mp, n, x: mp.besselk(n, x),
    domain=lambda n, x: x >= 0.0,
    remedies=Advice.POSITIVE,
)
bessel_ie: Elementwise = _register_bessel(
    "bessel_ie",
    "ive",
    "exp(-abs(x)) times the modified Bessel function of the first kind, of a whole order n; without overflow.",
    _scaled_slope,
    lambda mp, n, x: mp.besseli(n, x) * mp.exp(-abs(x)),
    kinks=(Kink(doc="x = 0", at=lambda n, x: x, slopes=(None, _scaled_slope), tied=(1,)),),
)


def _gamma_density(a: Any, x: Any) -> Any:
    return exp(xlogy(a - 1.0, x) - x - gammaln(a))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return exp(xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b))


def _t_density(df: Any, t: Any) -> Any:
    return exp(-0.5 * (df + 1.0) * log1p(t * t / df) - betaln(0.5 * df, 0.5)) / sqrt(df)


_GAMMA_PAIRS = (
    *((0.3, 0.2), (0.3, 1.7), (0.9, 0.6), (1.7, 1.2), (2.4, 0.3), (2.4, 4.8), (4.8, 3.7), (4.8, 9.5)),
    *((7.3, 5.2), (12.5, 15.0), (30.0, 24.0)),
)
_BETA_POINTS = (
    *((0.5, 0.5, 0.3), (0.7, 2.4, 0.2), (1.7, 1.2, 0.6), (4.8, 0.9, 0.9), (2.1, 7.3, 0.15), (3.2, 1.9, 0.5)),
    *((0.3, 0.6, 0.8), (12.5, 1.5, 0.85), (1.3, 21.0, 0.05), (20.0, 30.0, 0.45)),
)


def _is_gamma_point(a: Any, x: Any) -> Any:
    return (a > 0) & (x >= 0)


def _is_beta_point(a: Any, b: Any, x: Any) -> Any:
    return (a > 0) & (b > 0) & (x >= 0) & (x <= 1)


gammainc: Elementwise = _register_special(
    "gammainc",
    "Cumulative probability of x under the gamma distribution of shape a: the lower incomplete gamma function.",
    ("a", "x"),
    (lambda a, x, y: gamma_moment(1.0, a, x), lambda a, x, y: nan_or(y, _gamma_density(a, x))),
    domain=_is_gamma_point,
    samples=_GAMMA_PAIRS,
    exact=lambda mp, a, x: mp.gammainc(a, 0, x, regularized=True),
    ulps=512.0,
    because=f"{ROUNDED_EXPONENT}, and the slope by a is a quadrature",
    remedies=Advice.POSITIVE,
)
gammaincc: Elementwise = _register_special(
    "gammaincc",
    "1 - gammainc(a, x), exact for large x.",
    ("a", "x"),
    (lambda a, x, y: -gamma_moment(1.0, a, x), lambda a, x, y: nan_or(y, -_gamma_density(a, x))),
    domain=_is_gamma_point,
    samples=_GAMMA_PAIRS,
    exact=lambda mp, a, x: mp.gammainc(a, x, regularized=True),
    ulps=512.0,
    because=f"{ROUNDED_EXPONENT}, and the slope by a is a quadrature",
    remedies=Advice.POSITIVE,
)


def _exact_gamma_moment(mp: Any, n: Any, a: Any, x: Any) -> Any:
    """Return the moment from derivatives of the incomplete gamma function by its shape."""
    order = int(mp.nint(n))
    center = -mp.digamma(a)
    raw = [mp.diff(lambda s: mp.gammainc(s, 0, x), a, k) for k in range(order + 1)]
    return sum(math.comb(order, k) * raw[k] * center ** (order - k) for k in range(order + 1)) / mp.gamma(a)


def _gamma_moment_slope(n: Any, a: Any, x: Any) -> Any:
    """Return the slope of gamma_moment by a: one power more, less what moves with the mean."""
    return gamma_moment(n + 1.0, a, x) - n * polygamma(1.0, a) * gamma_moment(maximum(n - 1.0, 0.0), a, x)


gamma_moment: Elementwise = _register_special(
    "gamma_moment",
    "Integral of (log t - digamma(a))**n over the gamma distribution of shape a, for t from 0 to x.",
    ("n", "a", "x"),
    (
        None,
        lambda n, a, x, y: nan_or(y, _gamma_moment_slope(round(n), a, x)),
        lambda n, a, x, y: nan_or(y, _gamma_density(a, x) * power(log(x) - digamma(a), round(n))),
    ),
    forward=_compute_later("compute_gamma_moment"),
    domain=lambda n, a, x: (np.rint(n) >= 0) & _is_gamma_point(a, x),
    samples=tuple((float(1 + k % 2), *pair) for k, pair in enumerate(_GAMMA_PAIRS)),
    exact=_exact_gamma_moment,
    ulps=2048.0,
    because="it is computed by quadrature",
    remedies=Advice.POSITIVE,
)
betainc: Elementwise = _register_special(
    "betainc",
    "Cumulative probability of x under the beta distribution: the regularized incomplete beta function.",
    ("a", "b", "x"),
    (
        lambda a, b, x, y: beta_moment(1.0, 0.0, a, b, x),
        lambda a, b, x, y: beta_moment(0.0, 1.0, a, b, x),
        lambda a, b, x, y: nan_or(y, _beta_density(a, b, x)),
    ),
    domain=_is_beta_point,
    samples=_BETA_POINTS,
    exact=lambda mp, a, b, x: mp.betainc(a, b, 0, x, regularized=True),
    ulps=256.0,
    because=f"{ROUNDED_EXPONENT}, and the slopes by a and b are quadratures",
    remedies=Advice.BETA,
)
betaincc: Elementwise = _register_special(
    "betaincc",
    "1 - betainc(a, b, x), exact for x near 1.",
    ("a", "b", "x"),
    (
        lambda a, b, x, y: -beta_moment(1.0, 0.0, a, b, x),
        lambda a, b, x, y: -beta_moment(0.0, 1.0, a, b, x),
        lambda a, b, x, y: nan_or(y, -_beta_density(a, b, x)),
    ),
    domain=_is_beta_point,
    samples=_BETA_POINTS,
    exact=lambda mp, a, b, x: mp.betainc(a, b, x, 1, regularized=True),
    ulps=256.0,
    because=f"{ROUNDED_EXPONENT}, and the slopes by a and b are quadratures",
    remedies=Advice.BETA,
)


def _exact_beta_moment(mp: Any, m: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """Return the moment from derivatives of the incomplete beta function by its shapes."""
    first, second = int(mp.nint(m)), int(mp.nint(n))
    both = mp.digamma(a + b)
    total = mp.mpf(0)
    for j in range(first + 1):
        for k in range(second + 1):
            raw = mp.diff(lambda s, r: mp.betainc(s, r, 0, x), (a, b), (j, k))
            shift = (both - mp.digamma(a)) ** (first - j) * (both - mp.digamma(b)) ** (second - k)
            total += math.comb(first, j) * math.comb(second, k) * raw * shift
    return total / mp.beta(a, b)


def _beta_moment_slope(m: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """Return the slope of beta_moment by a: one power more, less what moves with the two means."""
    both = polygamma(1.0, a + b)
    own = m * (polygamma(1.0, a) - both) * beta_moment(maximum(m - 1.0, 0.0), n, a, b, x)
    other = n * both * beta_moment(m, maximum(n - 1.0, 0.0), a, b, x)
    return beta_moment(m + 1.0, n, a, b, x) - own + other


def _beta_moment_density(m: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    both = digamma(a + b)
    powers = power(log(x) - digamma(a) + both, m) * power(log1p(-x) - digamma(b) + both, n)
    return _beta_density(a, b, x) * powers


beta_moment: Elementwise = _register_special(
    "beta_moment",
    "Integral of the centred powers log(t)**m log(1 - t)**n over the beta distribution, for t from 0 to x.",
    ("m", "n", "a", "b", "x"),
    (
        None,
        None,
        lambda m, n, a, b, x, y: nan_or(y, _beta_moment_slope(round(m), round(n), a, b, x)),
        lambda m, n, a, b, x, y: nan_or(y, _beta_moment_mirrored(round(m), round(n), a, b, x)),
        lambda m, n, a, b, x, y: nan_or(y, _beta_moment_density(round(m), round(n), a, b, x)),
    ),
    forward=_compute_later("compute_beta_moment"),
    domain=lambda m, n, a, b, x: (np.rint(m) >= 0) & (np.rint(n) >= 0) & _is_beta_point(a, b, x),
    samples=tuple((float(k % 2), float(1 - k % 2), *point) for k, point in enumerate(_BETA_POINTS)),
    exact=_exact_beta_moment,
    ulps=4096.0,
    because="it is computed by quadrature",
    remedies=Advice.BETA,
)


def _beta_moment_mirrored(m: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """Return the slope of beta_moment by b."""
    both = polygamma(1.0, a + b)
    own = n * (polygamma(1.0, b) - both) * beta_moment(m, maximum(n - 1.0, 0.0), a, b, x)
    other = m * both * beta_moment(maximum(m - 1.0, 0.0), n, a, b, x)
    return beta_moment(m, n + 1.0, a, b, x) - own + other


def _stdtr_slope(df: Any, t: Any) -> Any:
    """Return the slope of stdtr by its degrees of freedom, from that of the incomplete beta function it is made of."""
    moment = beta_moment(1.0, 0.0, 0.5 * df, 0.5, df / (df + t * t))
    return -0.25 * sign(t) * moment - _t_density(df, t) * t / (2.0 * df)


stdtr: Elementwise = _register_special(
    "stdtr",
    "Cumulative probability of t under Student's distribution with df degrees of freedom.",
    ("df", "t"),
    (lambda df, t, y: _stdtr_slope(df, t), lambda df, t, y: _t_density(df, t)),
    domain=lambda df, t: df > 0,
    samples=(
        *((0.7, 0.3), (1.2, -0.7), (2.0, 1.7), (3.0, -1.3), (4.8, 0.6), (5.0, 2.4), (7.3, -2.6), (10.0, 0.9)),
        *((15.0, -0.2), (30.0, 1.2)),
    ),
    exact=lambda mp, df, t: (
        mp.mpf(1) / 2 + mp.sign(t) / 2 * mp.betainc(mp.mpf(1) / 2, df / 2, 0, t * t / (df + t * t), regularized=True)
    ),
    ulps=4096.0,
    because="the slope by df is a quadrature",
    remedies=Advice.POSITIVE,
)
