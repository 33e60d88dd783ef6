"""Functions of `scipy.special` and `scipy.integrate` that are made of ops, with SciPy's names and arguments.

Functions of `scipy.special` that are ops themselves are in `elementwise_records` and `special_records`, whose records
say so (`scipy=`). From `scipy.integrate` there are integrals of samples and of functions, and ordinary differential
equations.

Differential equations are differentiated as they are solved. SciPy's explicit methods (RK23, RK45, DOP853) are carried
out with SciPy's coefficients and step control, but on values, so results are SciPy's and gradients those of the steps
that were taken; step sizes count as constants. Implicit methods (Radau, BDF, LSODA) take the steps that SciPy's Radau
chooses for plain numbers, and solve each by Radau's formula of order 5. `odeint` integrates with DOP853 between the
requested times, to a tolerance of at most 1e-10, and with Radau's formula where SciPy finds the equations stiff. A
gradient is therefore as accurate as the solution: ask for a smaller `rtol` to get a better one. An implicit method has
derivatives up to the third order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.lazy import NamedTuple
from wiregrad.ops.array_ops import axes_from_end, axis_from_end
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
from wiregrad.ops.functions.reduce import cumsum, max_, reduce_along, sum_, trapezoid
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    detach_array,
    dtype_of,
    find_break_points,
    find_plain_function,
    hide_inner_integral,
    lift,
    load_scipy,
    ndim_of,
    pause_recording,
    reads_values,
    register_function,
    sample_calls,
    warn_of_moving_jump,
)
from wiregrad.ops.functions.shape import moveaxis, stack
from wiregrad.ops.gradient_flow import is_wire, shape_of
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


def _advise_on_order(name: str, n: Any) -> str:
    """Return what to write for an order that is not whole; empty for functions whose slope SciPy does not have."""
    if is_wire(n):
        return ": pass v.item(), since the order has no gradient here"
    if name not in ("iv", "jv", "kv", "yv") or np.ndim(n):
        return ""
    return (
        f": give it its derivative:\n    @wg.op(partials=lambda x, y: (scipy.special.{name}p({n!r}, x),))\n"
        f"    def {name}(x):\n        return scipy.special.{name}({n!r}, x)"
    )


def _check_order(name: str, n: Any) -> Any:
    """Return an order as a number or an array; it must be whole and known."""
    order = detach_array(n) if is_wire(n) and n.dtype.kind in "iu" else n
    if is_wire(order) or np.any(np.asarray(order) != np.rint(order)):
        raise NoRuleError(
            f"scipy.special.{name} has a rule for whole orders that are no recorded values; got {n!r}"
            f"{_advise_on_order(name, n)}{format_user_line()}"
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


ODEINT_TOLERANCE = 1e-10
"""Tolerance to which `odeint` integrates at most."""
NEWTON_STEPS = 3
"""Number of Newton steps of an implicit formula that are recorded; each makes one more order of derivatives exact."""
RADAU_NODES = np.array([(4 - np.sqrt(6)) / 10, (4 + np.sqrt(6)) / 10, 1.0])
"""Where a step of Radau's formula of order 5 has its stages."""
QUADRATURE_NODES = 21
"""Number of nodes of Gauss's rule on each interval of `quad`."""
END_GAP = 1e-9
"""How near to the limits of a range, as a share of it, a condition is looked at."""

_trapezoid_samples = sample_calls(
    (N(5),),
    (N(5), {"dx": 0.5}),
    (N(2, 4), {"axis": 0}),
    (N(4), np.array([0.0, 0.5, 2.0, 2.5])),
    (N(3, 2), {"axis": 0, "initial": 0}),
    (N(2, 3), {"initial": 0}),
    (N(2), N(2)),
)


def _split_axis(y: Any, x: Any, dx: Any, axis: int) -> tuple[Any, Any]:
    """Return y with the axis to integrate along last, and the distances of its points."""
    y = lift(y)
    axis = axis_from_end(axis, ndim_of(y))
    if x is None:
        return moveaxis(y, axis, -1), dx
    x = lift(x)
    points = x if ndim_of(x) == 1 else moveaxis(x, axis, -1)
    if shape_of(points)[-1] != shape_of(y)[axis]:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return moveaxis(y, axis, -1), _slice(points, 1, None) - _slice(points, None, -1)


def _slice(x: Any, start: int | None, stop: int | None, step: int | None = None) -> Any:
    """Return a slice along the last axis."""
    return TABLE["getitem"](x, index=(("slice", start, stop, step),))


@register_function(scipy=("scipy.integrate.cumulative_trapezoid",), samples=_trapezoid_samples)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Integrals from the first point to each later one along an axis, by the trapezoidal rule."""
    values, steps = _split_axis(y, x, dx, axis)
    areas = cumsum((_slice(values, 1, None) + _slice(values, None, -1)) * 0.5 * steps, -1)
    if initial is not None:
        if initial != 0:
            raise ValueError("`initial` must be `None` or `0`.")
        areas = TABLE["concatenate"](_slice(values, 0, 1) * 0.0, areas, axis=-1)
    return moveaxis(areas, -1, axis)


@register_function(
    scipy=("scipy.integrate.simpson",),
    samples=sample_calls(
        (N(5),),
        (N(6), {"dx": 0.5}),
        (N(5, 2), {"axis": 0}),
        (N(5), np.array([0.0, 0.5, 2.0, 2.5, 4.0])),
        (N(2, 6), np.array([0.0, 0.5, 2.0, 2.5, 4.0, 4.5])),
        (N(2),),
        (N(3),),
        (N(4), {"dx": 0.1}),
    ),
)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by Simpson's rule; of an even number of points, the last interval is corrected."""
    values, steps = _split_axis(y, x, dx, axis)
    count = shape_of(values)[-1]
    if count == 2:
        return trapezoid(y, x, dx, axis)
    if count % 2 == 0 or x is not None:
        # SciPy computes in double precision then.
        values, steps = (TABLE["cast"](z, dtype="float64") if dtype_of(z) == np.float32 else z for z in (values, steps))
    if x is None:
        steps = np.ones(count - 1, np.empty(0, dtype_of(values)).real.dtype) * (dx if is_wire(dx) else float(dx))
    odd = count if count % 2 else count - 1
    first, second = _slice(steps, 0, odd - 1, 2), _slice(steps, 1, odd - 1, 2)
    both = first + second
    parts = both * (
        _slice(values, 0, odd - 2, 2) * (2.0 - second / first)
        + _slice(values, 1, odd - 1, 2) * (both * both / (first * second))
        + _slice(values, 2, odd, 2) * (2.0 - first / second)
    )
    total = TABLE["sum"](parts, axes=(-1,), keepdims=False) / 6.0
    if odd == count:
        return total
    before, last = (TABLE["getitem"](steps, index=(k,)) for k in (-2, -1))
    a, b, c = (TABLE["getitem"](values, index=(k,)) for k in (-3, -2, -1))
    right = (2.0 * last * last + 3.0 * before * last) / (6.0 * (last + before))
    middle = (last * last + 3.0 * before * last) / (6.0 * before)
    left = last**3 / (6.0 * before * (before + last))
    return total + right * c + middle * b - left * a


def read_state(y: Any) -> Any:
    """Return what a right-hand side returned, an array or a list of numbers, as one array of one axis."""
    if isinstance(y, np.ndarray) and y.dtype.char == "O":
        y = list(y.flat)
    if isinstance(y, list | tuple):
        y = stack([lift(each) for each in y]) if any(map(is_wire, y)) else np.asarray(y)
    y = lift(y)
    if dtype_of(y).kind not in "fc":
        y = y.astype(np.float64) if not is_wire(y) else TABLE["cast"](y, dtype="float64")
    return TABLE["reshape"](y, rank=0, shape=(1,)) if not ndim_of(y) else y


def _number(x: Any) -> float:
    return float(detach_array(x))


def _mean_norm(x: Any) -> float:
    return float(np.linalg.norm(x) / np.sqrt(np.size(x)))


@dataclass
class ExplicitSolver:
    """One of SciPy's explicit Runge-Kutta methods, carried out on values.

    The steps are those of `scipy.integrate.RK45` and its like, so that results are SciPy's.
    """

    fun: Callable[[Any, Any], Any]
    method: Any
    """SciPy's class of the method, which has its coefficients."""
    t: Any
    y: Any
    end: Any
    rtol: float
    atol: Any
    max_step: float = np.inf
    first_step: float | None = None
    step_size: float = 0.0
    count: int = 0
    slope: Any = None
    stages: list[Any] = field(default_factory=list)
    before: tuple[Any, Any] = (0.0, 0.0)
    """Time and state before the last step."""

    def __post_init__(self) -> None:
        self.direction = float(np.sign(_number(self.end) - _number(self.t))) or 1.0
        self.slope = self.call(self.t, self.y)
        self.step_size = self._choose_first_step() if self.first_step is None else self.first_step

    def call(self, t: Any, y: Any) -> Any:
        """Call the right-hand side."""
        self.count += 1
        slope = read_state(self.fun(t, y))
        if shape_of(slope) != shape_of(y):
            raise ValueError(f"the function returned shape {shape_of(slope)} for a state of shape {shape_of(y)}")
        return slope

    def _choose_first_step(self) -> float:
        """Choose the first step as SciPy does."""
        y, slope = detach_array(self.y), detach_array(self.slope)
        length = abs(_number(self.end) - _number(self.t))
        if not y.size or not length:
            return length
        scale = self.atol + np.abs(y) * self.rtol
        d0, d1 = _mean_norm(y / scale), _mean_norm(slope / scale)
        h0 = min(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, length)
        moved = detach_array(self.call(_number(self.t) + h0 * self.direction, y + h0 * self.direction * slope))
        d2 = _mean_norm((moved - slope) / scale) / h0
        small = d1 <= 1e-15 and d2 <= 1e-15
        h1 = max(1e-6, h0 * 1e-3) if small else (0.01 / max(d1, d2)) ** (1 / (self.method.error_estimator_order + 1))
        return float(min(100 * h0, h1, length, self.max_step))

    def is_done(self) -> bool:
        """Return whether the end is reached."""
        return self.direction * (_number(self.t) - _number(self.end)) >= 0.0

    def step(self) -> None:
        """Take one step; its size is chosen so that the estimated error is within the tolerances."""
        t, end = _number(self.t), _number(self.end)
        least = 10 * abs(np.nextafter(t, self.direction * np.inf) - t)
        size = min(max(self.step_size, least), self.max_step)
        is_rejected = False
        exponent = -1 / (self.method.error_estimator_order + 1)
        while True:
            if size < least:
                raise NoRuleError(f"Required step size is less than spacing between numbers.{format_user_line()}")
            t_new = t + size * self.direction
            is_last = self.direction * (t_new - end) >= 0.0
            h = self.end - self.t if is_last else t_new - t
            y_new, slope_new = self._advance(h)
            size = abs(_number(h))
            error = self._estimate_error(y_new, size)
            if error < 1.0:
                factor = 10.0 if error == 0.0 else min(10.0, 0.9 * error**exponent)
                self.step_size = size * (min(1.0, factor) if is_rejected else factor)
                break
            size *= max(0.2, 0.9 * error**exponent) if np.isfinite(error) else 0.2
            is_rejected = True
        self.before = self.t, self.y
        self.t = self.end if is_last else self.t + h
        self.y, self.slope = y_new, slope_new

    def _advance(self, h: Any) -> tuple[Any, Any]:
        """Return the state after a step of a size, and the slope there."""
        self.stages = [_as_row(self.slope)]
        for a, c in zip(self.method.A[1:], self.method.C[1:], strict=True):
            y = self.y + self._combine(a[: len(self.stages)]) * h
            self.stages.append(_as_row(self.call(self.t + c * h, y)))
        y_new = self.y + self._combine(self.method.B) * h
        slope_new = self.call(self.t + h, y_new)
        self.stages.append(_as_row(slope_new))
        return y_new, slope_new

    def _combine(self, weights: Any) -> Any:
        """Return the sum of the stages with weights."""
        rows = self.stages[: shape_of(weights)[0]]
        joined = TABLE["concatenate"](*rows, axis=-2) if len(rows) > 1 else rows[0]
        y = TABLE["matmul"](_as_row(weights), joined)
        return TABLE["reshape"](y, rank=2, shape=shape_of(self.y))

    def _estimate_error(self, y_new: Any, size: float) -> float:
        """Return the estimated error of the last stages, relative to the tolerances."""
        old, new = np.abs(detach_array(self.y)), np.abs(detach_array(y_new))
        scale = self.atol + np.maximum(old, new) * self.rtol
        stages = np.concatenate([detach_array(row) for row in self.stages])
        if not hasattr(self.method, "E5"):
            return _mean_norm(stages.T @ self.method.E * size / scale)
        five = float(np.linalg.norm(stages.T @ self.method.E5 / scale) ** 2)
        three = float(np.linalg.norm(stages.T @ self.method.E3 / scale) ** 2)
        if five == 0.0 and three == 0.0:
            return 0.0
        return float(size * five / np.sqrt((five + 0.01 * three) * len(scale)))

    def interpolate(self, times: Sequence[float]) -> list[Any]:
        """Return the states at times within the last step."""
        t_old, y_old = self.before
        h = self.t - t_old
        fractions = [(t - t_old) / h for t in times]
        if isinstance(self.method.P, np.ndarray):
            return [y_old + self._combine(_weigh_powers(self.method.P, x)) * h for x in fractions]
        return self._interpolate_dop853(fractions, t_old, y_old, h)

    def _interpolate_dop853(self, fractions: Sequence[Any], t_old: Any, y_old: Any, h: Any) -> list[Any]:
        slope, slope_old = self.stages[-1], self.stages[0]
        for a, c in zip(self.method.A_EXTRA, self.method.C_EXTRA, strict=True):
            y = y_old + self._combine(a[: len(self.stages)]) * h
            self.stages.append(_as_row(self.call(t_old + c * h, y)))
        moved = _as_row(self.y - y_old)
        parts = [moved, slope_old * h - moved, 2.0 * moved - (slope + slope_old) * h]
        parts += [_as_row(self._combine(weights) * h) for weights in self.method.D]
        states = []
        for x in fractions:
            y = parts[-1] * x
            for k, part in enumerate(reversed(parts[:-1]), start=1):
                y = (y + part) * (x if k % 2 == 0 else 1.0 - x)
            states.append(y_old + TABLE["reshape"](y, rank=2, shape=shape_of(y_old)))
        return states


def _as_row(y: Any) -> Any:
    return TABLE["reshape"](y, rank=1, shape=(1, shape_of(y)[-1]))


def _weigh_powers(matrix: Any, x: Any) -> Any:
    """Return a matrix times the powers of x, from the first; x is a value if the limits of time are."""
    powers = [x]
    for _ in range(matrix.shape[1] - 1):
        powers.append(powers[-1] * x)
    if not is_wire(x):
        return matrix @ np.array(powers)
    column = TABLE["reshape"](stack(powers), rank=1, shape=(len(powers), 1))
    return TABLE["reshape"](TABLE["matmul"](matrix, column), rank=2, shape=(len(matrix),))


def solve_implicit(fun: Callable[[Any, Any], Any], times: Sequence[Any], y: Any, wanted: Iterable[float]) -> list[Any]:
    """Return the states at the wanted ones among times, by one step of Radau's implicit formula from each to the next.

    The equations of a step are solved for plain numbers by Newton's method; the last steps of it, with the Jacobian
    matrix as a constant, are recorded, and give the derivatives of the solution.
    """
    nodes = RADAU_NODES
    powers = np.vander(nodes, 3, increasing=True)
    weights = (powers * nodes[:, None] / np.arange(1, 4)) @ np.linalg.inv(powers)
    kept = {float(t) for t in wanted}
    states = [y] if _number(times[0]) in kept else []
    for t, t_next in pairwise(times):
        y = _step_implicit(fun, t, t_next - t, y, nodes, weights)
        if _number(t_next) in kept:
            states.append(y)
    return states


def _step_implicit(fun: Callable[[Any, Any], Any], t: Any, h: Any, y: Any, nodes: Any, weights: Any) -> Any:
    """Return the state after one step."""
    n = shape_of(y)[-1]

    def residual(stages: Any, at: Any, t: Any, h: Any) -> Any:
        states = [TABLE["getitem"](stages, index=(k, _WHOLE)) for k in range(3)]
        slopes = [_as_row(read_state(fun(t + c * h, state))) for c, state in zip(nodes, states, strict=True)]
        moved = TABLE["matmul"](weights, TABLE["concatenate"](*slopes, axis=-2)) * h
        return stages - TABLE["spread"](_as_row(at), rank=2, shape=(3, n)) - moved

    with pause_recording():
        stages, inverse = _solve_stages(fun, residual, _number(t), _number(h), detach_array(y), weights * _number(h))
    for _ in range(NEWTON_STEPS):
        gap = TABLE["reshape"](residual(stages, y, t, h), rank=2, shape=(3 * n, 1))
        stages = stages - TABLE["reshape"](TABLE["matmul"](inverse, gap), rank=2, shape=(3, n))
    return TABLE["getitem"](stages, index=(2, _WHOLE))


_WHOLE = ("slice", None, None, None)


def _solve_stages(fun: Any, residual: Any, t: float, h: float, y: Any, weights: Any) -> tuple[Any, Any]:
    """Return the stages of a step for plain numbers, and the inverse of the derivative of the residual there."""
    stages = np.tile(y, (3, 1))
    inverse = None
    for _ in range(2):
        slopes = [_differentiate_slopes(fun, t + h * c, z) for c, z in zip(RADAU_NODES, stages, strict=True)]
        blocks = [[weights[i, j] * slopes[j] for j in range(3)] for i in range(3)]
        inverse = np.linalg.inv(np.eye(stages.size) - np.block(blocks))
        stages = _iterate_newton(lambda z: detach_array(residual(z, y, t, h)), stages, inverse)
    return stages, inverse


def _differentiate_slopes(fun: Any, t: float, y: Any) -> Any:
    """Return the matrix of derivatives of a right-hand side by central differences."""
    columns = []
    for k in range(len(y)):
        step = np.zeros(len(y))
        step[k] = 1e-5 * max(1.0, abs(y[k]))
        ahead, behind = (detach_array(read_state(fun(t, y + sign * step))) for sign in (1.0, -1.0))
        columns.append((ahead - behind) / (2.0 * step[k]))
    return np.stack(columns, -1)


def _iterate_newton(residual: Callable[[Any], Any], stages: Any, inverse: Any) -> Any:
    """Return plain stages with a residual of the size of rounding errors."""
    last = np.inf
    for _ in range(50):
        step = (inverse @ residual(stages).reshape(-1)).reshape(stages.shape)
        size = float(np.abs(step).max(initial=0.0))
        if not np.isfinite(size):
            break
        stages = stages - step
        if size <= 1e-14 * max(1.0, float(np.abs(stages).max(initial=0.0))) or (size >= last and size < 1e-8):
            return stages
        last = size
    raise NoRuleError(f"an implicit step of the differential equation did not converge{format_user_line()}")


EXPLICIT_METHODS = ("RK23", "RK45", "DOP853")
KNOWN_OPTIONS = {"rtol", "atol", "max_step", "first_step", "min_step", "jac", "lband", "uband", "jac_sparsity"}
IMPLICIT_METHODS = ("Radau", "BDF", "LSODA")


def _choose_implicit_steps(fun: Any, start: Any, end: Any, y: Any, rtol: float, atol: Any, **options: Any) -> Any:
    """Return the times of the steps that SciPy's Radau takes for plain numbers."""

    def plain(t: Any, z: Any) -> Any:
        return detach_array(read_state(fun(t, z)))

    integrate = load_scipy("scipy.integrate")
    span = (_number(start), _number(end))
    with pause_recording():
        solution = find_plain_function(integrate.solve_ivp)(
            plain, span, detach_array(y), "Radau", rtol=rtol, atol=atol, **options
        )
    if not solution.success:
        raise NoRuleError(f"scipy.integrate: {solution.message}{format_user_line()}")
    return solution.t


def _decides_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", *rest: Any, args: Any = None, **options: Any
) -> bool:
    """Return whether the right side of `solve_ivp` reads values, though what it returns are plain numbers."""
    is_known = method in (*EXPLICIT_METHODS, *IMPLICIT_METHODS) and options.keys() <= KNOWN_OPTIONS | {"t_eval"}
    # Behind the times at most, there are events and other things without a rule.
    if not is_known or len(rest) > 1:
        return False
    return _reads_values_at_start(_bind_arguments(fun, args), t_span[0], y0)


def _reads_values_at_start(fun: Callable[[Any, Any], Any], start: Any, y0: Any) -> bool:
    """Return whether a right side reads values where a solver calls it first."""
    # The function may write to its argument.
    return reads_values(lambda t: read_state(fun(t, np.array(read_state(y0)))), [float(start)], lifts=False)


@register_function(scipy=("scipy.integrate.solve_ivp",), calls_back=True, decides=_decides_ivp)
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> Any:
    """Solve a differential equation dy/dt = fun(t, y); gradients flow through the steps that are taken.

    Every step is recorded, which is slow where there are many: `wg.odeint` runs those of a compiled function as native
    code, with `method="rodas5p"` for stiff systems.
    """
    name = method if isinstance(method, str) else getattr(method, "__name__", "")
    if name not in (*EXPLICIT_METHODS, *IMPLICIT_METHODS):
        raise _refuse_option(f"method={method!r}", f"write one of {[*EXPLICIT_METHODS, *IMPLICIT_METHODS]}")
    if dense_output or events is not None:
        if dense_output:
            raise _refuse_option("dense_output=True", "write wg.odeint(...).sol(t)")
        raise _refuse_option("events=", "write wg.odeint(..., events=[wg.event(g)]), whose event_times have gradients")
    unknown = options.keys() - KNOWN_OPTIONS
    if unknown:
        raise _refuse_option(f"{sorted(unknown)[0]}=", "leave it out")
    rtol = max(float(options.get("rtol", 1e-3)), 100 * float(np.finfo(float).eps))
    limits = {key: options[key] for key in ("max_step", "first_step") if options.get(key) is not None}
    start, end = t_span
    atol = options.get("atol", 1e-6)
    if is_wire(t_eval):
        raise _refuse_option("times t_eval that are recorded", "write wg.odeint(f, y0, times)")
    problem = OdeProblem(_bind_arguments(fun, args), start, end, read_state(y0), rtol, atol, limits)
    times = None if t_eval is None else detach_array(t_eval).astype(np.float64)
    solve = problem.solve_explicitly if name in EXPLICIT_METHODS else problem.solve_implicitly
    reached, states = solve(name, times)
    y = TABLE["permute"](stack(states), axes=(-1, -2)) if states else np.zeros((shape_of(problem.y)[0], 0))
    result = load_scipy("scipy.integrate._ivp.ivp").OdeResult
    message = "The solver successfully reached the end of the integration interval."
    counts = {"nfev": problem.count, "njev": 0, "nlu": 0}
    absent: dict[str, Any] = {"sol": None, "t_events": None, "y_events": None}
    return result(t=reached, y=y, **absent, **counts, status=0, message=message, success=True)


def _warn_of_jump(fun: Callable[[Any, Any], Any], name: str, times: Sequence[Any], states: Sequence[Any]) -> None:
    """Warn if the right side jumps along a solution, at a moment that moves with values."""
    warn_of_moving_jump(lambda t, y: read_state(fun(t, y)), name, [*map(_number, times)], states)


def _bind_arguments(fun: Callable[..., Any], args: Any) -> Callable[[Any, Any], Any]:
    if args is None:
        return fun
    if not isinstance(args, tuple | list):
        raise TypeError("Supplied 'args' cannot be unpacked. Please supply `args` as a tuple (e.g. `args=(x,)`)")
    return lambda t, y: fun(t, y, *args)


def _refuse_option(what: str, advice: str) -> NoRuleError:
    return NoRuleError(
        f"scipy.integrate.solve_ivp has no rule for {what} with recorded values: {advice}{format_user_line()}"
    )


@dataclass
class OdeProblem:
    """A differential equation, from a start to an end, with tolerances."""

    fun: Callable[[Any, Any], Any]
    start: Any
    end: Any
    y: Any
    rtol: float
    atol: Any
    limits: dict[str, Any]
    count: int = 0

    def solve_explicitly(self, name: str, times: Any) -> tuple[Any, list[Any]]:
        """Return the times and the states of the solution, at requested times or at all steps."""
        integrate = load_scipy("scipy.integrate")
        solver = ExplicitSolver(
            self.fun, getattr(integrate, name), self.start, self.y, self.end, self.rtol, self.atol, **self.limits
        )
        reached, states = [self.start], [self.y]
        chosen: list[Any] = []
        pending = [] if times is None else list(times)
        while pending and solver.direction * (pending[0] - _number(self.start)) <= 0.0:
            chosen.append(self.y)
            pending.pop(0)
        while not solver.is_done():
            solver.step()
            reached.append(solver.t)
            states.append(solver.y)
            inside = [t for t in pending if solver.direction * (t - _number(solver.t)) <= 0.0]
            if inside:
                chosen += solver.interpolate(inside)
                pending = pending[len(inside) :]
        self.count = solver.count
        _warn_of_jump(self.fun, "solve_ivp", reached, states)
        if len(reached) == 1:
            # Without time to pass, SciPy takes a step of length 0.
            reached, states = reached * 2, states * 2
        if times is None:
            return (stack([lift(t) for t in reached]) if any(map(is_wire, reached)) else np.array(reached)), states
        return times, chosen

    def solve_implicitly(self, name: str, times: Any) -> tuple[Any, list[Any]]:
        """Return the times and the states of the solution by Radau's formula."""
        grid = _choose_implicit_steps(self.fun, self.start, self.end, self.y, self.rtol, self.atol, **self.limits)
        every = grid if times is None else np.unique(np.concatenate([grid, times]))
        if times is not None and _number(self.end) < _number(self.start):
            every = every[::-1]
        wanted = every if times is None else times
        ends: list[Any] = [*map(float, every)]
        ends[0], ends[-1] = self.start, self.end
        states = solve_implicit(self.fun, ends, self.y, every)
        _warn_of_jump(self.fun, "solve_ivp", ends, states)
        kept = set(map(float, wanted))
        return wanted, [state for t, state in zip(every, states, strict=True) if float(t) in kept]


def _bind_times_first(func: Callable[..., Any], args: tuple[Any, ...], *, tfirst: bool) -> Callable[[Any, Any], Any]:
    """Return the right side of `odeint` as a function of the time and the state."""
    return (lambda t, y: func(t, y, *args)) if tfirst else (lambda t, y: func(y, t, *args))


def _decides_odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: tuple[Any, ...] = (), *rest: Any, tfirst: bool = False, **more: Any
) -> bool:
    """Return whether the right side of `odeint` reads values, though what it returns are plain numbers."""
    if rest or more.get("full_output"):
        return False
    fun = _bind_times_first(func, args, tfirst=tfirst)
    return _reads_values_at_start(fun, t[0], y0)


@register_function(scipy=("scipy.integrate.odeint",), calls_back=True, decides=_decides_odeint, name="integrate.odeint")
def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    Dfun: Any = None,  # noqa: N803 - SciPy's name
    col_deriv: int = 0,
    full_output: int = 0,
    ml: Any = None,
    mu: Any = None,
    rtol: Any = None,
    atol: Any = None,
    tcrit: Any = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    ixpr: int = 0,
    mxstep: int = 0,
    mxhnil: int = 0,
    mxordn: int = 12,
    mxords: int = 5,
    printmessg: int = 0,
    tfirst: bool = False,
) -> Any:
    """Solve a differential equation dy/dt = func(y, t); the states at the times t, one per row.

    Integrated to a tolerance of at most 1e-10, so that gradients are accurate.
    """
    if full_output:
        raise NoRuleError(f"scipy.integrate.odeint has no rule for full_output with values{format_user_line()}")
    fun = _bind_times_first(func, args, tfirst=tfirst)
    times = lift(t)
    count = shape_of(times)[0]
    ends = [TABLE["getitem"](times, index=(k,)) for k in range(count)] if is_wire(times) else [*map(float, times)]
    y = read_state(y0)
    tolerances = [ODEINT_TOLERANCE if given is None else np.minimum(given, ODEINT_TOLERANCE) for given in (rtol, atol)]
    relative = max(float(np.max(tolerances[0])), 100 * float(np.finfo(float).eps))
    if _is_stiff(fun, ends, y):
        return stack(_integrate_stiff(fun, ends, y, relative))
    return stack(list(_integrate_between(fun, ends, y, relative, tolerances[1])))


def _is_stiff(fun: Any, times: Sequence[Any], y: Any) -> bool:
    """Return whether SciPy's odeint uses its method for stiff equations on plain numbers."""

    def plain(t: Any, z: Any) -> Any:
        return detach_array(read_state(fun(t, z)))

    integrate = load_scipy("scipy.integrate")
    ends = np.array([_number(t) for t in times])
    with pause_recording():
        _, report = find_plain_function(integrate.odeint)(plain, detach_array(y), ends, full_output=True, tfirst=True)
    return bool(np.any(report["mused"] == 2))


def _integrate_between(fun: Any, times: Sequence[Any], y: Any, rtol: float, atol: Any) -> Iterator[Any]:
    """Yield the states at times, by DOP853."""
    method = load_scipy("scipy.integrate").DOP853
    yield y
    size: float | None = None
    for start, end in pairwise(times):
        solver = ExplicitSolver(fun, method, start, y, end, rtol, atol, first_step=size)
        reached, states = [start], [y]
        while not solver.is_done():
            solver.step()
            reached.append(solver.t)
            states.append(solver.y)
        _warn_of_jump(fun, "odeint", reached, states)
        y, size = solver.y, solver.step_size or None
        yield y


def _integrate_stiff(fun: Any, times: Sequence[Any], y: Any, rtol: float) -> list[Any]:
    """Return the states at times, by Radau's formula; times may be recorded values."""
    states = [y]
    for start, end in pairwise(times):
        grid: list[Any] = [*_choose_implicit_steps(fun, start, end, states[-1], max(rtol, 1e-8), 1e-10)]
        grid[0], grid[-1] = start, end
        inner = solve_implicit(fun, grid, states[-1], [*map(_number, grid)])
        _warn_of_jump(fun, "odeint", grid, inner)
        states += inner[-1:]
    return states


def _lets_values_decide(func: Callable[..., Any], a: Any, b: Any, args: Any = (), *_: Any, **__: Any) -> bool:
    """Return whether a function that `quad` integrates reads values, though what it returns are plain numbers."""
    args = args if isinstance(args, tuple) else (args,)
    return any(
        reads_values(integrand, _choose_points(low, high)) for integrand, low, high in _split_range(func, a, b, args)
    )


@register_function(scipy=("scipy.integrate.quad",), calls_back=True, decides=_lets_values_decide)
def quad(
    func: Callable[..., Any], a: Any, b: Any, args: Any = (), full_output: int = 0, *positional: Any, **options: Any
) -> tuple[Any, float]:
    """The integral of a function from a to b, and an estimate of its error; gradients flow to args and to the limits.

    SciPy chooses the intervals; on each, Gauss's rule with 21 nodes is recorded. The range is divided where a condition
    of the function changes, and a place that depends on values is a limit that moves. So is each of the points.
    """
    refused = [name for name in ("weight", "wvar", "complex_func") if options.get(name)]
    if refused or full_output or positional[3:]:
        raise NoRuleError(
            f"scipy.integrate.quad has no rule for {(refused or ['full_output'])[0]}= with values{format_user_line()}"
        )
    args = args if isinstance(args, tuple) else (args,)
    points = options.pop("points", None)
    ends = [a, b] if points is None else _insert_points(a, b, points)
    pieces = [piece for low, high in pairwise(ends) for piece in _split_range(func, low, high, args)]
    with hide_inner_integral() as is_rough:
        return _integrate_pieces(pieces, positional, options, is_rough=is_rough)


def _insert_points(a: Any, b: Any, points: Any) -> list[Any]:
    """Return the limits of a range and the points inside it, in its direction; SciPy ignores points outside, too."""
    low, high = sorted((_number(a), _number(b)))
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("Infinity inputs cannot be used with break points.")
    if is_wire(points):
        points = [TABLE["getitem"](points, index=(k,)) for k in range(shape_of(points)[0])]
    inside = {_number(point): point for point in points if low < _number(point) < high}
    return [a, *(inside[key] for key in sorted(inside, reverse=_number(a) > _number(b))), b]


def _integrate_pieces(
    pieces: Sequence[tuple[Callable[[Any], Any], Any, Any]],
    positional: tuple[Any, ...],
    options: dict[str, Any],
    *,
    is_rough: bool,
) -> tuple[Any, float]:
    """Return the sum of integrals, and an estimate of its error; `is_rough` says that a rough value is enough."""
    total: Any = 0.0
    error = 0.0
    for integrand, low, high in pieces:
        if is_rough:
            total = total + _apply_gauss(integrand, low, high, [(0.0, 1.0)])
            continue
        chosen = _choose_intervals(integrand, low, high, positional, options)
        ends = [low, *_find_inner_ends(integrand, low, high, chosen.intervals), high]
        for start, end in pairwise(ends):
            if len(ends) > 2:
                chosen = _choose_intervals(integrand, start, end, positional, options)
            part = _apply_gauss(integrand, start, end, chosen.intervals)
            if not abs(_number(part) - chosen.value) <= chosen.tolerance:
                raise NoRuleError(
                    "scipy.integrate.quad: the function is not smooth enough to be differentiated at the nodes of "
                    f"Gauss's rule (they give {_number(part)}, SciPy {chosen.value}); where it is singular at a "
                    "limit a, integrate over t with x = a + t**4; where it decays slowly to infinity, over t with "
                    "x = np.exp(t), up to a finite t"
                    f"{format_user_line()}"
                )
            total = total + part
            error += chosen.error
    return total, error


def _split_range(func: Any, a: Any, b: Any, args: Any) -> Iterator[tuple[Callable[[Any], Any], Any, Any]]:
    """Yield integrands and finite limits; an infinite range is mapped to 0 to 1 as QUADPACK does."""
    low, high = _number(a), _number(b)

    def map_to_unit(t: Any, start: Any, sign: float) -> Any:
        return func(start + sign * (1.0 - t) / t, *args) / (t * t)

    if np.isfinite(low) and np.isfinite(high):
        yield (lambda x: func(x, *args)), a, b
        return
    flip = -1.0 if low > high else 1.0
    first, last = (b, a) if low > high else (a, b)
    if not np.isfinite(_number(last)):
        start = first if np.isfinite(_number(first)) else 0.0
        yield (lambda t: flip * map_to_unit(t, start, 1.0)), 0.0, 1.0
    if not np.isfinite(_number(first)):
        stop = last if np.isfinite(_number(last)) else 0.0
        yield (lambda t: flip * map_to_unit(t, stop, -1.0)), 0.0, 1.0


class ChosenIntervals(NamedTuple):
    """The intervals that SciPy divides a range into, as fractions of it, and what it says of the integral."""

    intervals: list[tuple[float, float]]
    value: float
    error: float
    tolerance: float


def _choose_intervals(
    integrand: Callable[[Any], Any], low: Any, high: Any, positional: tuple[Any, ...], options: dict[str, Any]
) -> ChosenIntervals:
    """Let SciPy divide a range, on plain numbers."""
    start, stop = _number(low), _number(high)
    if start == stop:
        return ChosenIntervals([(0.0, 1.0)], 0.0, 0.0, np.inf)
    divide_range = find_plain_function(load_scipy("scipy.integrate").quad)
    with pause_recording():
        outcome = divide_range(lambda x: _number(integrand(x)), start, stop, (), 1, *positional, **options)
    value, error, report = outcome[:3]
    count = report["last"]
    edges = np.sort([(report[name][:count] - start) / (stop - start) for name in ("alist", "blist")], axis=0)
    chosen = dict(zip(("epsabs", "epsrel"), positional, strict=False)) | options
    tolerance = max(chosen.get("epsabs", 1.49e-8), chosen.get("epsrel", 1.49e-8) * abs(value), error)
    return ChosenIntervals([*zip(*edges, strict=True)], value, error, 10.0 * tolerance)


def _find_inner_ends(integrand: Callable[[Any], Any], low: Any, high: Any, intervals: Any) -> list[Any]:
    """Return the places inside a range, in its direction, at which it is to be divided."""
    places = find_break_points(integrand, _choose_points(low, high, intervals))
    return places if _number(low) <= _number(high) else places[::-1]


def _choose_points(low: Any, high: Any, intervals: Any = ()) -> list[float]:
    """Return the points of a range at which conditions are looked at, the least first.

    Where the function jumps, the intervals are so small that three points of each are enough.
    """
    start, stop = _number(low), _number(high)
    nodes = 0.5 + 0.5 * np.polynomial.legendre.leggauss(QUADRATURE_NODES)[0]
    few = nodes[[0, len(nodes) // 2, -1]]
    fractions = {END_GAP, 1.0 - END_GAP, *nodes, *(x + (y - x) * node for x, y in intervals for node in few)}
    return sorted({start + (stop - start) * float(x) for x in fractions})


def _apply_gauss(integrand: Callable[[Any], Any], low: Any, high: Any, intervals: Any) -> Any:
    """Return the integral by Gauss's rule on each interval."""
    nodes, weights = np.polynomial.legendre.leggauss(QUADRATURE_NODES)
    length = high - low
    total: Any = 0.0
    for left, right in intervals:
        half = 0.5 * (right - left)
        for node, weight in zip(nodes, weights, strict=True):
            total = total + weight * half * integrand(low + length * (left + half * (1.0 + node)))
    return total * length
