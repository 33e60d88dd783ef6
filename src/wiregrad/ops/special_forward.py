"""What the ops of `special_records` compute: functions of SciPy, and moments of distributions by quadrature.

The only module of the op table that imports SciPy; it is loaded when such an op is first computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.errors import require_package
from wiregrad.ops.gradient_flow import is_complex

with require_package("scipy", "an op of scipy.special (gammaln, erfinv, ...)"):
    from scipy import special

_STEP = 1.0 / 16.0
_GRID = np.arange(-3.5, 9.0, _STEP)
NODES = np.exp(_GRID - np.exp(-_GRID))
"""Nodes of a double-exponential quadrature from 0 to infinity, for an integrand that decays over a length near 1."""
WEIGHTS = _STEP * NODES * (1.0 + np.exp(-_GRID))
MAX_EXPONENT = 700.0
HALF_GAUSS, FULL_GAUSS = (
    (0.5 * (nodes + 1.0), 0.5 * weights) for nodes, weights in map(np.polynomial.legendre.leggauss, (80, 160))
)
"""Nodes and weights of two Gauss rules from 0 to 1."""
AGREEMENT = 1e-6
"""How far two quadratures may differ: the error of the finer one is about the square of that."""
MAX_ROWS = 4096
"""How many integrals are computed at once, which bounds the memory that the nodes of all of them take."""


def compute_special(name: str, *xs: Any) -> Any:
    """Compute a function of scipy.special on real numbers; long doubles are rounded to doubles."""
    rounded = [_round_to_double(x) for x in xs]
    return _like_inputs(getattr(special, name)(*rounded), *rounded)


def _round_to_double(x: Any) -> Any:
    if is_complex(x):
        raise TypeError("it is defined for real numbers; got complex ones")
    wide = isinstance(x, np.ndarray | np.generic) and x.dtype.char == "g"
    return x.astype(np.float64) if wide else x


def compute_polygamma(n: Any, x: Any) -> Any:
    """Compute the derivative of order n of digamma; n is rounded to a whole number, and NaN is returned if negative."""
    n, x = map(_round_to_double, (n, x))
    order = np.rint(n)
    known = order >= 0.0
    order = np.where(known, order, 0.0)
    sign = np.where(order % 2.0 == 0.0, -1.0, 1.0)
    higher = sign * special.gamma(order + 1.0) * special.zeta(order + 1.0, x)
    y = np.where(order == 0.0, special.digamma(x), higher)
    return _like_inputs(np.where(known, y, np.nan), n, x)


def compute_bessel(name: str, n: Any, x: Any) -> Any:
    """Compute a Bessel function of scipy.special of order n, which is rounded to a whole number."""
    n, x = map(_round_to_double, (n, x))
    return _like_inputs(getattr(special, name)(np.rint(n), np.asarray(x, np.float64)), n, x)


def _like_inputs(y: Any, *xs: Any) -> Any:
    """Return results in the dtype that NumPy gives results of these inputs; a single number as a number."""
    dtype = np.result_type(*xs)
    return np.asarray(y, dtype if dtype.kind == "f" else np.float64)[()]


def compute_gamma_moment(n: Any, a: Any, x: Any) -> Any:
    """Compute the integral of (log t - digamma(a))**n over the gamma distribution of shape a, for t from 0 to x."""
    return _compute_in_blocks(_integrate_gamma, n, a, x)


def compute_beta_moment(m: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """Compute the integral of (log t - mean)**m * (log(1 - t) - mean)**n over the beta distribution, t from 0 to x."""
    return _compute_in_blocks(_integrate_beta, m, n, a, b, x)


def _compute_in_blocks(integrate: Callable[..., Any], *xs: Any) -> Any:
    """Apply an integral to arrays, a block of elements at a time."""
    arrays = np.broadcast_arrays(*(np.asarray(_round_to_double(x), np.float64) for x in xs))
    columns = [array.ravel() for array in arrays]
    blocks = [
        integrate(*(column[start : start + MAX_ROWS, None] for column in columns))
        for start in range(0, columns[0].size, MAX_ROWS)
    ]
    return _like_inputs(np.concatenate([np.zeros(0), *blocks]).reshape(arrays[0].shape), *xs)


def _integrate_gamma(n: Any, a: Any, x: Any) -> Any:
    """Integrate from x over the half of the distribution with the smaller probability, in the variable log t."""
    is_order = np.rint(n) >= 0.0
    n = np.where(is_order, np.rint(n), 0.0)
    usable = (a > 0.0) & (x > 0.0) & np.isfinite(a) & np.isfinite(x)
    a_in, x_in = np.where(usable, a, 1.0), np.where(usable, x, 0.5)
    is_below = special.gammainc(a_in, x_in) <= 0.5
    height = special.xlogy(a_in, x_in) - x_in - special.gammaln(a_in)
    center = np.log(x_in) - special.digamma(a_in)

    def density(u: Any) -> Any:
        return (center + u) ** n * np.exp(a_in * u - x_in * np.expm1(u) + height)

    length = 1.0 / np.where(a_in < 1.0, a_in, np.abs(x_in - a_in) + np.sqrt(x_in))
    left = _integrate_to_infinity(lambda u: density(-u), length)
    # Beyond this distance from x, nothing of the right side is left.
    reach = np.where(x_in > 40.0, 12.0 / np.sqrt(x_in), np.log1p(80.0 / x_in) + 2.0)
    part = np.where(usable, np.where(is_below, left, _integrate_to_bound(density, reach)), 0.0)
    # All of the distribution, less the part beyond x; at x = inf that is nothing.
    needs_total = ~is_below | (x == np.inf)
    y = np.where(needs_total, _for_some_orders(_total_gamma_moment, needs_total, (n,), a) - part, part)
    return np.where((a > 0.0) & (x >= 0.0) & (a < np.inf), np.where(is_order, y, np.nan), np.nan)[:, 0]


def _integrate_to_infinity(density: Callable[[Any], Any], length: Any) -> Any:
    """Integrate from 0 to infinity; NaN where half of the nodes give another result, so that no digits are invented."""
    terms = WEIGHTS * density(length * NODES)
    whole = np.sum(terms, axis=-1, keepdims=True) * length
    half = 2.0 * np.sum(terms[:, ::2], axis=-1, keepdims=True) * length
    return _keep_agreement(whole, half, np.sum(np.abs(terms), axis=-1, keepdims=True) * length)


def _integrate_to_bound(density: Callable[[Any], Any], bound: Any) -> Any:
    """Integrate from 0 to a bound by two Gauss rules; NaN where they disagree."""
    (few, _), (many, size) = (
        _sum_terms(weights * density(bound * nodes), bound) for nodes, weights in (HALF_GAUSS, FULL_GAUSS)
    )
    return _keep_agreement(many, few, size)


def _sum_terms(terms: Any, factor: Any) -> tuple[Any, Any]:
    """Return the sum of terms and the sum of their sizes, times a factor."""
    return np.sum(terms, axis=-1, keepdims=True) * factor, np.sum(np.abs(terms), axis=-1, keepdims=True) * factor


def _keep_agreement(fine: Any, coarse: Any, size: Any) -> Any:
    return np.where(np.abs(fine - coarse) <= AGREEMENT * size, fine, np.nan)


def _integrate_beta(m: Any, n: Any, a: Any, b: Any, x: Any) -> Any:
    """Integrate from x over the half with the smaller probability, in the variable log(t / (1 - t))."""
    is_order = (np.rint(m) >= 0.0) & (np.rint(n) >= 0.0)
    m, n = np.where(is_order, np.rint(m), 0.0), np.where(is_order, np.rint(n), 0.0)
    allowed = (a > 0.0) & (b > 0.0) & (a < np.inf) & (b < np.inf) & (x >= 0.0) & (x <= 1.0)
    usable = allowed & (x > 0.0) & (x < 1.0)
    a_in, b_in, x_in = np.where(usable, a, 1.0), np.where(usable, b, 1.0), np.where(usable, x, 0.4)
    is_below = special.betainc(a_in, b_in, x_in) <= 0.5
    log_x, log_rest = np.log(x_in), np.log1p(-x_in)
    height = special.xlogy(a_in, x_in) + special.xlog1py(b_in, -x_in) - special.betaln(a_in, b_in)
    both = special.digamma(a_in + b_in)
    first, second = both - special.digamma(a_in), both - special.digamma(b_in)

    def density(u: Any) -> Any:
        v = log_x - log_rest + np.where(is_below, -u, u)
        log_t, log_other = -np.logaddexp(0.0, -v), -np.logaddexp(0.0, v)
        powers = (log_t + first) ** m * (log_other + second) ** n
        return powers * np.exp(a_in * (log_t - log_x) + b_in * (log_other - log_rest) + height)

    near, length = _split_beta(np.where(is_below, a_in, b_in), np.where(is_below, b_in, a_in),
                               np.where(is_below, log_rest - log_x, log_x - log_rest))  # fmt: skip
    part = _integrate_to_bound(density, near) + _integrate_to_infinity(lambda u: density(near + u), length)
    part = np.where(usable, part, 0.0)
    needs_total = ~is_below | (x == 1.0)
    y = np.where(needs_total, _for_some_orders(_total_beta_moment, needs_total, (m, n), a, b) - part, part)
    return np.where(allowed, np.where(is_order, y, np.nan), np.nan)[:, 0]


def _split_beta(shape: Any, other: Any, start: Any) -> tuple[Any, Any]:
    """Return how far from its start an integral of the beta distribution bends, and the length of its tail beyond.

    The density, in the variable log(t / (1 - t)), rises like exp(other * v) left of the bend and falls like
    exp(-shape * v) right of it. If it hardly rises, a start far on the left makes a plateau with a bend at its end.
    """
    end = np.log(np.expm1(np.minimum(60.0 / shape, MAX_EXPONENT)))
    near = np.where(other < 1.0, np.maximum(np.minimum(end, 3.0) - start, 0.0), 0.0)
    t = special.expit(start + near)
    rate = np.abs(other * (1.0 - t) - shape * t) + np.sqrt((shape + other) * t * (1.0 - t))
    return near, 1.0 / np.where(shape < 1.0, shape, rate)


def _for_some_orders(total: Callable[..., Any], chosen: Any, orders: tuple[Any, ...], *shapes: Any) -> Any:
    """Apply a function of whole numbers and of shapes to the chosen rows; other rows get 0."""
    stacked = np.concatenate(orders, axis=-1)
    y = np.zeros(shapes[0].shape)
    for row in np.unique(stacked[chosen[:, 0]], axis=0):
        picked = chosen & np.all(stacked == row, axis=-1, keepdims=True)
        y[picked] = total(*map(int, row), *(shape[picked] for shape in shapes))
    return y


def _total_gamma_moment(n: int, a: Any) -> Any:
    """Return the central moment of order n of log t, from the cumulants, which are polygamma functions."""
    moments = [np.ones_like(a), np.zeros_like(a)]
    for k in range(1, n):
        terms = (math.comb(k, j) * special.polygamma(j, a) * moments[k - j] for j in range(1, k + 1))
        moments.append(sum(terms, np.zeros_like(a)))
    return moments[n]


def _total_beta_moment(m: int, n: int, a: Any, b: Any) -> Any:
    """Return the joint central moment of log t and log(1 - t), from their joint cumulants."""
    if n > m:
        return _total_beta_moment(n, m, b, a)
    if m == 0:
        return np.ones_like(a)
    y = np.zeros_like(a)
    for i in range(m):
        for j in range(n + 1):
            if i + j:
                ways = math.comb(m - 1, i) * math.comb(n, j)
                y = y + ways * _beta_cumulant(i + 1, j, a, b) * _total_beta_moment(m - 1 - i, n - j, a, b)
    return y


def _beta_cumulant(m: int, n: int, a: Any, b: Any) -> Any:
    """Return the joint cumulant of log t and log(1 - t) of orders m >= 1 and n, which together are at least 2."""
    shared = -special.polygamma(m + n - 1, a + b)
    return shared if n else shared + special.polygamma(m - 1, a)
