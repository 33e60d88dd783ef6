"""Functions of `scipy.special` that are made of ops, with SciPy's names and arguments.

Those that are ops themselves are in `elementwise_records` and `special_records`, whose records say so (`scipy=`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axes_from_end
from wiregrad.ops.elementwise_records import (
    absolute,
    arctanh,
    erfc,
    exp,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    log1p,
    logical_and,
    logical_or,
    power,
    rel_entr,
    sign,
    softplus,
    sqrt,
    undefined,
    where,
)
from wiregrad.ops.functions.reduce import max_, reduce_along, sum_
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.gradient_flow import is_wire
from wiregrad.ops.special_records import (
    bessel_i,
    bessel_ie,
    bessel_j,
    bessel_k,
    bessel_y,
    binom,
    gamma,
    gammaln,
)
from wiregrad.ops.special_records import polygamma as polygamma_op

_REAL_SAMPLES = sample_calls((N(2, 3),), (N(),), (N(1),), (N(0, 2),), (N(4),), (N(2, 1, 2),))
_POSITIVE = np.array([0.3, 1.7, 0.9, 2.4, 4.8, 0.6])
_POSITIVE_SAMPLES = sample_calls(
    (_POSITIVE,), (_POSITIVE.reshape(2, 3),), (1.3,), (np.ones((0, 2)),), (_POSITIVE[:1],), (_POSITIVE[1:3, None],)
)
_POSITIVE_PAIRS = sample_calls(
    (_POSITIVE[:3], _POSITIVE[3:]),
    (_POSITIVE[:3], _POSITIVE[3:5, None]),
    (1.3, _POSITIVE),
    (_POSITIVE.reshape(2, 3), 0.7),
    (2.1, 0.4),
    (np.ones((0, 2)), _POSITIVE[:2]),
)
_SHARES = _POSITIVE / 6.0
_SHARE_SAMPLES = sample_calls(
    (_SHARES,), (_SHARES.reshape(2, 3),), (0.5,), (np.ones((0, 2)),), (_SHARES[:1],), (_SHARES[1:3, None],)
)


def _as_operand(x: Any) -> Any:
    """Return a list as an array; Python numbers stay as they are, so that they do not widen single precision."""
    return x if isinstance(x, int | float) else lift(x)


@register_function(scipy=("scipy.special.logit",), samples=_SHARE_SAMPLES)
def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of sigmoid."""
    x = lift(x)
    is_middle = logical_and(greater(x, 0.25), less(x, 0.75))
    # The difference of the logarithms cancels in the middle, 2 x - 1 near the ends.
    middle = 2.0 * arctanh(2.0 * where(is_middle, x, 0.5) - 1.0)
    return where(is_middle, middle, log(x) - log1p(-x))


@register_function(scipy=("scipy.special.log_expit",), samples=_REAL_SAMPLES)
def log_expit(x: Any) -> Any:
    """log(sigmoid(x)), exact where sigmoid is nearly 0."""
    return -softplus(-lift(x))


@register_function(scipy=("scipy.special.ndtr",), samples=_REAL_SAMPLES)
def ndtr(x: Any) -> Any:
    """The normal distribution's cumulative probability, exact in both tails."""
    return 0.5 * erfc(lift(x) * -math.sqrt(0.5))


@register_function(scipy=("scipy.special.exp10",), samples=_REAL_SAMPLES)
def exp10(x: Any) -> Any:
    """10 to the power of the wire."""
    return power(10.0, lift(x))


@register_function(scipy=("scipy.special.kl_div",), samples=_POSITIVE_PAIRS)
def kl_div(x: Any, y: Any) -> Any:
    """x log(x / y) - x + y, the summand of the Kullback-Leibler divergence."""
    x, y = _as_operand(x), _as_operand(y)
    return rel_entr(x, y) - x + y


@register_function(scipy=("scipy.special.huber",), samples=_POSITIVE_PAIRS)
def huber(delta: Any, r: Any) -> Any:
    """r**2 / 2 up to abs(r) = delta, beyond it a straight line; inf for a negative delta."""
    delta, r = _as_operand(delta), lift(r)
    size = absolute(r)
    y = where(less_equal(size, delta), 0.5 * (r * r), delta * (size - 0.5 * delta))
    return y if not is_wire(delta) and np.all(np.asarray(delta) >= 0) else where(less(delta, 0.0), np.inf, y)


@register_function(scipy=("scipy.special.pseudo_huber",), samples=_POSITIVE_PAIRS)
def pseudo_huber(delta: Any, r: Any) -> Any:
    """delta**2 (sqrt(1 + (r / delta)**2) - 1), a smooth huber; inf for a negative delta."""
    delta, r = _as_operand(delta), lift(r)
    # (sqrt(1 + u) - 1) as u / (sqrt(1 + u) + 1), which does not cancel for a small u.
    u = (r / delta) * (r / delta)
    y = r * r / (1.0 + sqrt(1.0 + u))
    return y if not is_wire(delta) and np.all(np.asarray(delta) > 0) else where(less(delta, 0.0), np.inf, y)


@register_function(scipy=("scipy.special.loggamma",), samples=_POSITIVE_SAMPLES)
def loggamma(z: Any) -> Any:
    """The logarithm of the gamma function of real numbers; NaN for negative ones, unlike `gammaln`."""
    z = lift(z)
    if dtype_of(z).kind == "c":
        raise NoRuleError(f"scipy.special.loggamma has a rule for real numbers; got complex ones{format_user_line()}")
    return where(greater_equal(z, 0.0), gammaln(z), undefined(z))


def _check_order(name: str, n: Any) -> Any:
    """Return an order as a number or an array; it must be whole and known."""
    order = detach_array(n) if is_wire(n) and n.dtype.kind in "iu" else n
    if is_wire(order) or np.any(np.asarray(order) != np.rint(order)):
        raise NoRuleError(
            f"{name} has a rule for whole orders that are no recorded values; got {n!r}{format_user_line()}"
        )
    return float(order) if np.ndim(order) == 0 else np.asarray(order, np.float64)


@register_function(
    scipy=("scipy.special.polygamma",),
    samples=sample_calls(
        (0, _POSITIVE), (1, _POSITIVE.reshape(2, 3)), (2, 1.3), (1, np.ones((0, 2))), (3, _POSITIVE[:1]),
        (np.array([1, 2]), _POSITIVE[:2]),
    ),
)  # fmt: skip
def polygamma(n: Any, x: Any) -> Any:
    """The derivative of order n of digamma."""
    order = _check_order("polygamma", n)
    if np.any(np.asarray(order) < 0):
        raise ValueError("n must be non-negative.")
    return polygamma_op(order, lift(x))


def _register_bessel_functions() -> None:
    """Register the Bessel functions of orders 0 and 1, and those whose order is an argument."""
    kinds = {"j": bessel_j, "y": bessel_y, "i": bessel_i, "k": bessel_k}
    for letter, op in kinds.items():
        _register_order(letter, 0, op)
        _register_order(letter, 1, op)
        _register_orders(f"{letter}v", op)
    _register_order("i", 0, bessel_ie, "e")
    _register_order("i", 1, bessel_ie, "e")
    _register_orders("ive", bessel_ie)


def _register_order(letter: str, order: int, op: Callable[..., Any], ending: str = "") -> None:
    name = f"{letter}{order}{ending}"

    def run(x: Any) -> Any:
        x = lift(x)
        y = op(float(order), x)
        # The op computes in float64 at most.
        return TABLE["cast"](y, dtype=dtype_of(x).name) if dtype_of(x) == np.longdouble else y

    _register_generated(name, run, f"{getattr(op, 'doc', '').partition(', of a whole order n')[0]}, of order {order}.",
                        _POSITIVE_SAMPLES, numpy=(np.i0,) if name == "i0" else ())  # fmt: skip


def _register_orders(name: str, op: Callable[..., Any]) -> None:
    def run(v: Any, z: Any) -> Any:
        return op(_check_order(name, v), lift(z))

    samples = sample_calls(
        (0, _POSITIVE), (1, _POSITIVE.reshape(2, 3)), (2, 1.3), (1, np.ones((0, 2))), (3, _POSITIVE[:1]),
        (np.array([0, 2]), _POSITIVE[:2]),
    )  # fmt: skip
    twins = {"jv": ("scipy.special.jn",), "yv": ("scipy.special.yn",), "kv": ("scipy.special.kn",)}
    _register_generated(name, run, getattr(op, "doc", ""), samples, twins.get(name, ()))


def _register_generated(
    name: str,
    run: Callable[..., Any],
    doc: str,
    samples: SampleMaker,
    also: tuple[str, ...] = (),
    numpy: tuple[Any, ...] = (),
) -> None:
    """Register a function that is one of several made alike."""
    run.__doc__ = doc
    # A traced call is named after its code, so functions made alike must not share theirs.
    run.__code__ = run.__code__.replace(co_name=name)
    register_function(*numpy, scipy=(f"scipy.special.{name}", *also), samples=samples, name=name)(run)


_register_bessel_functions()


@register_function(
    scipy=("scipy.special.multigammaln",),
    samples=sample_calls(
        (_POSITIVE + 1.0, 2), (3.2, 1), (4.8, 3), ((_POSITIVE + 2.0).reshape(2, 3), 4), (np.ones((0, 2)), 2),
        (_POSITIVE[:1] + 3.0, 5),
    ),
)  # fmt: skip
def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the multivariate gamma function of dimension d."""
    a = _as_operand(a)
    if np.ndim(d) or is_wire(d) or math.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    bound = 0.5 * (d - 1)
    if not is_wire(a) and np.any(np.asarray(a) <= bound):
        raise ValueError(f"condition a ({a}) > 0.5 * (d-1) ({bound}) not met")
    y = d * (d - 1) * 0.25 * math.log(math.pi) + gammaln(a)
    for k in range(1, int(d)):
        y = y + gammaln(a - k / 2.0)
    return where(greater(a, bound), y, undefined(a)) if is_wire(a) else y


@register_function(
    scipy=("scipy.special.comb",),
    samples=sample_calls(
        (_POSITIVE + 3.0, _POSITIVE[::-1] / 2.0), (5.5, 2.2), ((_POSITIVE + 2.0).reshape(2, 3), 1.3),
        (np.ones((0, 2)), 2.0), (_POSITIVE[:1] + 5.0, 2.0), (6.4, 1.2, {"repetition": True}),
    ),
)  # fmt: skip
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:  # noqa: N803 - SciPy's name
    """The number of ways to choose k of N things."""
    _refuse_exact("comb", exact)
    n, k = _as_operand(N), _as_operand(k)
    if repetition:
        return comb(n + k - 1.0, k)
    is_empty = logical_or(logical_or(greater(k, n), less(n, 0.0)), less(k, 0.0))
    return where(is_empty, 0.0, binom(where(is_empty, 1.0, n), where(is_empty, 1.0, k)))


@register_function(scipy=("scipy.special.factorial",), samples=_POSITIVE_SAMPLES)
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """n!, the gamma function of n + 1; 0 for a negative n."""
    _refuse_exact("factorial", exact)
    if extend != "zero":
        raise NoRuleError(f"factorial(extend={extend!r}) has no rule; write gamma(n + 1){format_user_line()}")
    n = lift(n)
    return where(greater_equal(n, 0.0), gamma(n + 1.0), 0.0)


def _refuse_exact(name: str, exact: bool) -> None:
    if exact:
        raise NoRuleError(f"{name}(exact=True) returns whole numbers, which have no slope{format_user_line()}")


_ARRAY_SAMPLES = (
    (N(2, 3),),
    (N(2, 3), 0),
    (N(2, 3), {"axis": -1}),
    (N(4),),
    (N(1),),
    (N(2, 1, 3), {"axis": (0, 2)}),
)


@register_function(
    scipy=("scipy.special.logsumexp",),
    name="special.logsumexp",
    samples=sample_calls(
        *_ARRAY_SAMPLES,
        (N(),),
        (N(2, 3), 1, np.array([0.5, 2.0, 1.5])),
        (N(2, 3), None, _POSITIVE.reshape(2, 3), {"keepdims": True}),
        (N(3), 0, np.array([0.5, -2.0, 0.1]), {"return_sign": True}),
    ),
)
def special_logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """log(sum(b * exp(a))) along axes, or of everything, without overflow."""
    a = lift(a)
    if b is None:
        y = reduce_along("logsumexp", a, axis, keepdims)
        return (y, np.ones_like(detach_array(y))) if return_sign else y
    b = lift(b)
    a = where(TABLE["equal"](b, 0.0), -np.inf, a)
    top = TABLE["stop_gradient"](max_(a, axis=axis, keepdims=True))
    top = where(TABLE["isfinite"](top), top, 0.0)
    total = sum_(b * exp(a - top), axis=axis, keepdims=keepdims)
    shift = top if keepdims else TABLE["reshape"](top, rank=ndim_of(top), shape=np.shape(detach_array(total)))
    if return_sign:
        return log(absolute(total)) + shift, sign(total)
    return log(total) + shift


@register_function(
    scipy=("scipy.special.softmax",), name="special.softmax", samples=sample_calls(*_ARRAY_SAMPLES, (N(0, 2), 1))
)
def special_softmax(x: Any, axis: Any = None) -> Any:
    """exp(x) / sum(exp(x)) along axes, or of everything, without overflow."""
    x = lift(x)
    return TABLE["softmax"](x, axes=axes_from_end(axis, ndim_of(x)))


@register_function(
    scipy=("scipy.special.log_softmax",),
    name="special.log_softmax",
    samples=sample_calls(*_ARRAY_SAMPLES, (N(0, 2), 1)),
)
def special_log_softmax(x: Any, axis: Any = None) -> Any:
    """log(softmax(x)) along axes, or of everything, exact where softmax is nearly 0."""
    x = lift(x)
    return TABLE["log_softmax"](x, axes=axes_from_end(axis, ndim_of(x)))
