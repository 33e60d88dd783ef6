"""The records of elementwise ops: one record per op, from which everything else is derived.

Rules are written in wiregrad's own ops, so that they can be differentiated again; `x`, `a` and `b` are inputs, `y` is
the output. A rule may use an op that is defined further down, because it runs later. `docs/semantics.md` explains the
choices made at points without a unique derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.ir import SPLIT_NAME, TABLE, Advice, Level, Pattern
from wiregrad.lazy import load_module_lazily
from wiregrad.ops.array_ops import SAMPLE_NUMBERS, Elementwise, Interval, Kink
from wiregrad.ops.gradient_flow import (
    clip_large,
    conjugate_flow,
    has_nan,
    is_complex,
    is_nowhere,
    only,
    power_of_large,
    select_elements,
)

if TYPE_CHECKING:
    from wiregrad.ops import special_forward
else:
    special_forward = load_module_lazily("wiregrad.ops.special_forward")

register = TABLE.add

LN2 = math.log(2.0)
LN10 = math.log(10.0)
NAN = math.nan


def _apply_to_each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Return a version of a standard library function that works on arrays and keeps their dtype."""

    def apply_to_array(x: Any) -> Any:
        array = np.asarray(x)
        dtype = array.dtype if array.dtype.kind == "f" else np.dtype(np.float64)
        return np.array([function(v) for v in array.ravel().tolist()], dtype).reshape(array.shape)[()]

    return apply_to_array


def _compute_erf_of_large(x: Any) -> Any:
    """Return the error function of a large array by SciPy, within 3 units in the last place; None for other inputs.

    Python's own function is called for each element, ten times slower; but loading SciPy takes longer than most calls.
    Which of the two computes depends on the array alone, never on what the program has imported before.
    SciPy's erfc is not used: it returns 0 where the result is less than the smallest normal number.
    """
    if type(x) is not np.ndarray or x.size < MIN_ELEMENTS_WORTH_LOADING or x.dtype != np.float64 or not has_scipy():
        return None
    return special_forward.compute_special("erf", x)


MIN_ELEMENTS_WORTH_LOADING = 1 << 16
"""The least number of elements for which it pays to load SciPy."""


@cache
def has_scipy() -> bool:
    """Return whether SciPy is installed."""
    return find_spec("scipy") is not None


def _register_unary(
    name: str, doc: str, forward: Callable[..., Any], partial: Callable[..., Any], **facts: Any
) -> Elementwise:
    """Register an op of one input."""
    record = Elementwise(
        name=name,
        doc=doc,
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=forward,
        partials=(partial,),
        **facts,
    )
    return register(record)


def _refuse_complex(x: Any) -> None:
    """Raise for complex numbers; for an op whose formula is valid for real ones only."""
    if is_complex(x):
        raise TypeError("it is defined for real numbers; got complex ones")


def _compute_sigmoid(x: Any) -> Any:
    _refuse_complex(x)
    e = np.exp(-np.abs(x))
    return select_elements(x >= 0, 1.0, e) / (1.0 + e)


def _compute_softplus(x: Any) -> Any:
    _refuse_complex(x)
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _multiply_log(a: Any, b: Any, logarithm: Callable[..., Any]) -> Any:
    """Return a times a logarithm of b, but 0 where a is 0, whatever b is."""
    _refuse_complex(a)
    _refuse_complex(b)
    skips = (a == 0) & ~np.isnan(b)
    return np.where(skips, 0.0, a * logarithm(np.where(skips, 1.0, b)))[()]


def _compute_entropy(x: Any) -> Any:
    _refuse_complex(x)
    y = -x * np.log(np.where(x > 0, x, 1.0))
    return np.where(x > 0, y, np.where(x == 0, 0.0, np.where(x < 0, -np.inf, x)))[()]


def _compute_relative_entropy(a: Any, b: Any) -> Any:
    _refuse_complex(a)
    _refuse_complex(b)
    inside = (a > 0) & (b > 0)
    one, two = np.where(inside, a, 1.0), np.where(inside, b, 1.0)
    ratio = one / two
    is_near = (ratio > 0.5) & (ratio < 2.0)
    is_normal = (ratio > 2.2250738585072014e-308) & (ratio < np.inf)
    distant = np.where(is_normal, np.log(np.where(is_normal, ratio, 1.0)), np.log(one) - np.log(two))
    y = one * np.where(is_near, np.log1p((one - two) / two), distant)
    outside = np.where((a == 0) & (b >= 0), 0.0, np.where(np.isnan(a) | np.isnan(b), a + b, np.inf))
    return np.where(inside, y, outside)[()]


def _is_either_negative(a: Any, b: Any) -> Any:
    return logical_or(less(a, 0.0), less(b, 0.0))


def _compute_gelu(x: Any) -> Any:
    # erfc is accurate in the left tail, where 1 + erf cancels.
    return 0.5 * x * erfc.forward(-x * math.sqrt(0.5))


def replace_zero(x: Any) -> Any:
    """Return x with 1 in place of 0, to divide by."""
    return where(equal(x, 0.0), 1.0, x)


def is_below(x: Any, bound: float) -> Any:
    """Return whether x is less than a bound; complex numbers never are."""
    return np.False_ if is_complex(x) else less(x, bound)


def undefined(x: Any) -> Any:
    """Return the slope where an op is undefined: a NaN whose derivatives of every order are NaN too."""
    return exp(x * NAN)


def undefined_where(mask: Any, x: Any, slope: Any) -> Any:
    """Return the slope, but NaN where a mask says that the op is undefined."""
    return slope if is_nowhere(mask) else where(mask, undefined(x), slope)


def nan_or(x: Any, slope: Any) -> Any:
    """Return the slope, but NaN where x is NaN: an undefined value must not get a plausible gradient."""
    if isinstance(x, np.ndarray) and not has_nan(x):
        return slope
    return where(isnan(x), undefined(x), slope)


GAPS_HAVE_SLOPES: ContextVar[bool] = ContextVar("GAPS_HAVE_SLOPES", default=False)
"""Whether the difference that is 0 on a kink is a plain one, for Newton's method, which ends where both are equal."""


def signed_gap(a: Any, b: Any) -> Any:
    """Return a - b, but 0 for two equal infinities; as a selection it has no slope where a = b."""
    if GAPS_HAVE_SLOPES.get():
        return 0.0 + a - b
    # 0.0 + a turns a condition, which cannot be subtracted, into a number.
    return where(equal(a, b), 0.0, 0.0 + a - b)


def tie_slope(a: Any, b: Any, y: Any) -> Any:
    """Return the slope of the wire that was selected: 0.5 on a tie, else 1."""
    tied = equal(a, b)
    if is_nowhere(tied):
        return nan_or(y, 1.0)
    return where(tied, 0.5, nan_or(y, 1.0))


def _power_slope(a: Any, b: Any, y: Any) -> Any:
    """Return the slope of a power by its base."""
    if isinstance(b, float | np.floating) and b not in (0.0, 1.0) and b % 1.0 == 0.0:
        # A whole power is NaN only where a is. Others are not: the root of -inf is NaN, but pow(-inf, -0.5) is 0.
        return b * a if b == 2.0 else b * power(a, b - 1.0)
    if isinstance(b, float | np.floating) and b != 0.0:
        return nan_or(y, b * power(a, b - 1.0))
    # b * a**(b - 1); for b = 0 that is 0 * inf near a = 0, where a**b / a * b is 0.
    return nan_or(y, where(equal(b, 0.0), b / replace_zero(a) * y, b * power(a, b - 1.0)))


def _keeps_input(x: Any, low: Any, high: Any, y: Any) -> Any:
    """Return whether clip returns x unchanged."""
    return logical_and(equal(x, y), less_equal(low, high))


def _gives_low(x: Any, low: Any, y: Any) -> Any:
    """Return whether clip returns its lower bound."""
    return logical_and(equal(low, y), greater_equal(low, x))


def _share_slope(own: Any, one: Any, two: Any, y: Any) -> Any:
    """Return the slope of an input that clip returned, shared with the other inputs that equal the output."""
    either = logical_or(one, two)
    if is_nowhere(logical_and(own, either)):
        return only(own, 1.0) if not has_nan(y) else only(logical_or(own, isnan(y)), nan_or(y, 1.0))
    both = logical_and(one, two)
    return only(logical_or(own, isnan(y)), where(both, 1 / 3, where(either, 0.5, nan_or(y, 1.0))))


def _sinc_slope(x: Any) -> Any:
    """Return the slope of sinc near 0 by its power series, because the closed form cancels there."""
    t = math.pi * x
    total = 0.0 * t
    for k in range(11, 0, -1):
        total = total * (t * t) + (-1.0) ** k * 2.0 * k / math.factorial(2 * k + 1)
    return math.pi * t * total


def only_nan(y: Any) -> Any:
    """Return the slope of a step function: absent, but NaN where the output is NaN."""
    nan = isnan(y)
    return None if is_nowhere(nan) else only(nan, undefined(y))


def _register_rounding(
    name: str, doc: str, forward: Callable[..., Any], jumps: Callable[..., Any], **facts: Any
) -> Elementwise:
    """Register a rounding op; `jumps` is 0 where its value jumps."""
    return register(
        Elementwise(
            name=name,
            doc=doc,
            inputs=("x",),
            pattern=Pattern.BLOCK,
            forward=forward,
            partials=(lambda x, y: only_nan(y),),
            kinks=(Kink(doc="where the value jumps", at=jumps, slopes=(None,), jump=True),),
            idempotent=True,
            **facts,
        )
    )


def _register_comparison(name: str, symbol: str, doc: str) -> Elementwise:
    """Register a comparison."""
    return register(
        Elementwise(
            name=name,
            doc=doc,
            inputs=("a", "b"),
            pattern=Pattern.BLOCK,
            forward=getattr(np, name),
            partials=(None, None),
            c=f"{{a}} {symbol} {{b}}",
            infix=(symbol,),
            level=Level.COMPARISON,
            kinks=(
                Kink(
                    doc="a = b",
                    at=signed_gap,
                    slopes=(None, None),
                    jump=True,
                ),
            ),
        )
    )


def _register_logic(name: str, doc: str, inputs: tuple[str, ...], **facts: Any) -> Elementwise:
    """Register an op on conditions."""
    return register(
        Elementwise(
            name=name,
            doc=doc,
            inputs=inputs,
            pattern=Pattern.BLOCK,
            forward=getattr(np, name),
            partials=(None,) * len(inputs),
            takes_bool=inputs,
            **facts,
        )
    )


def _register_test(name: str, doc: str, c: str) -> Elementwise:
    """Register a test of one number."""
    return register(
        Elementwise(
            name=name,
            doc=doc,
            inputs=("x",),
            pattern=Pattern.BLOCK,
            c=c,
            forward=getattr(np, name),
            partials=(None,),
        )
    )


split: Elementwise = register(
    Elementwise(
        name=SPLIT_NAME,
        doc="Splitter: copies one wire to two readers; backward it adds.",
        inputs=("x",),
        pattern=Pattern.MERGE,
        c="{x}",
        forward=lambda x: x,
        partials=(lambda x, y: 1.0,),
        copies=True,
    )
)
positive: Elementwise = register(
    Elementwise(
        name="positive",
        doc="The wire itself.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        c="{x}",
        forward=np.positive,
        partials=(lambda x, y: 1.0,),
        prefix="+",
        copies=True,
    )
)
negative: Elementwise = register(
    Elementwise(
        name="negative",
        doc="The wire with the opposite sign.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        c="-{x}",
        forward=np.negative,
        partials=(lambda x, y: -1.0,),
        prefix="-",
        involution=True,
    )
)
add: Elementwise = register(
    Elementwise(
        name="add",
        remedies=Advice.SUM,
        doc="Sum of two wires.",
        inputs=("a", "b"),
        pattern=Pattern.DISTRIBUTE,
        c="{a} + {b}",
        forward=np.add,
        partials=(lambda a, b, y: 1.0, lambda a, b, y: 1.0),
        infix=("+",),
        level=Level.SUM,
        neutral=(-0.0, -0.0),
    )
)
subtract: Elementwise = register(
    Elementwise(
        name="subtract",
        remedies=Advice.SUM,
        doc="Difference of two wires.",
        inputs=("a", "b"),
        pattern=Pattern.DISTRIBUTE,
        c="{a} - {b}",
        forward=np.subtract,
        partials=(lambda a, b, y: 1.0, lambda a, b, y: -1.0),
        infix=("-",),
        level=Level.SUM,
        neutral=(None, 0.0),
    )
)
multiply: Elementwise = register(
    Elementwise(
        name="multiply",
        remedies=Advice.PRODUCT,
        doc="Product of two wires.",
        inputs=("a", "b"),
        pattern=Pattern.SWAP,
        c="{a} * {b}",
        forward=np.multiply,
        partials=(lambda a, b, y: b, lambda a, b, y: a),
        infix=("*",),
        level=Level.PRODUCT,
        neutral=(1.0, 1.0),
    )
)
divide: Elementwise = register(
    Elementwise(
        name="divide",
        remedies=Advice.QUOTIENT,
        doc="Quotient of two wires.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="{a} / {b}",
        forward=np.divide,
        partials=(lambda a, b, y: 1.0 / b, lambda a, b, y: -(y / b)),
        infix=("/",),
        level=Level.PRODUCT,
        neutral=(None, 1.0),
    )
)
power: Elementwise = register(
    Elementwise(
        name="power",
        remedies=Advice.POWER,
        aliases=("pow",),
        doc="First wire to the power of the second.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="{b} == 0.5 ? sqrt({a}) : pow({a}, {b})",
        forward=np.power,
        on_large=power_of_large,
        partials=(
            _power_slope,
            # a**b * log(a) would be 0 * inf at a = 0, where the limit is 0 for b >= 0 and -inf for b < 0.
            lambda a, b, y: where(equal(a, 0.0), where(is_below(b, 0.0), -absolute(y), nan_or(y, 0.0)), y * log(a)),
        ),
        infix=("**", "^"),
        level=Level.POWER,
        domain=lambda a, b: (a > 0) | ((a == 0) & (b >= 0)) | ((a < 0) & (b == np.floor(b))),
    )
)
square: Elementwise = register(
    Elementwise(
        name="square",
        remedies=Advice.SQUARE,
        doc="The wire times itself.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="{x} * {x}",
        forward=np.square,
        partials=(lambda x, y: 2.0 * x,),
    )
)
reciprocal: Elementwise = register(
    Elementwise(
        name="reciprocal",
        remedies=Advice.RECIPROCAL,
        doc="One over the wire.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="1.0 / {x}",
        forward=np.reciprocal,
        partials=(lambda x, y: -(y * y),),
    )
)
sqrt: Elementwise = register(
    Elementwise(
        name="sqrt",
        remedies=Advice.ROOT,
        doc="Square root.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="sqrt({x})",
        forward=np.sqrt,
        # sqrt(-0.0) is -0.0; adding 0.0 makes the slope there +inf, as at 0.0.
        partials=(lambda x, y: 0.5 / (y + 0.0),),
        domain=Interval(low=0.0),
    )
)
cbrt: Elementwise = register(
    Elementwise(
        name="cbrt",
        remedies=Advice.CUBE_ROOT,
        exact=lambda mp, x: mp.sign(x) * mp.cbrt(abs(x)),
        doc="Cube root.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="cbrt({x})",
        scipy=("scipy.special.cbrt",),
        forward=np.cbrt,
        partials=(lambda x, y: 1.0 / (3.0 * (y * y)),),
    )
)
absolute: Elementwise = register(
    Elementwise(
        name="absolute",
        aliases=("abs",),
        doc="Magnitude; slope 0 at 0.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="fabs({x})",
        forward=np.absolute,
        # Of a complex number: how its length moves along the direction it points in.
        partials=(lambda x, y: only(not_equal(y, 0.0), conjugate_flow(x) / y) if is_complex(x) else sign(x),),
        kinks=(Kink(doc="x = 0", at=lambda x: x, slopes=(0.0,), jax=(lambda x, y: 0.0 if is_complex(x) else 1.0,)),),
        idempotent=True,
    )
)
hypot: Elementwise = register(
    Elementwise(
        name="hypot",
        remedies=Advice.SQUARE,
        doc="Length of the vector (a, b); slopes 0 at the origin.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="hypot({a}, {b})",
        forward=np.hypot,
        partials=(
            lambda a, b, y: only(not_equal(y, 0.0), a / y),
            lambda a, b, y: only(not_equal(y, 0.0), b / y),
        ),
        kinks=(
            Kink(
                doc="a = b = 0",
                at=lambda a, b: hypot(a, b),
                slopes=(None, None),
                torch=(math.nan, math.nan),
                jax=(0.5, 0.5),
            ),
        ),
    )
)

exp: Elementwise = _register_unary(
    "exp", "e to the power of the wire.", np.exp, lambda x, y: y, c="exp({x})", remedies=Advice.EXP
)
exp2: Elementwise = _register_unary(
    "exp2",
    "2 to the power of the wire.",
    np.exp2,
    lambda x, y: y * LN2,
    exact=lambda mp, x: mp.power(2, x),
    c="exp2({x})",
    scipy=("scipy.special.exp2",),
    remedies=Advice.EXP2,
)
expm1: Elementwise = _register_unary(
    "expm1",
    "exp(x) - 1, exact near 0.",
    np.expm1,
    lambda x, y: exp(x),
    c="expm1({x})",
    scipy=("scipy.special.expm1",),
    remedies=Advice.EXPM1,
)

log: Elementwise = _register_unary(
    "log",
    "Natural logarithm.",
    np.log,
    lambda x, y: undefined_where(is_below(x, 0.0), x, 1.0 / (x + 0.0)),
    domain=Interval(low=0.0),
    aliases=("ln",),
    c="log({x})",
    remedies=Advice.LOG,
)
log2: Elementwise = _register_unary(
    "log2",
    "Logarithm to base 2.",
    np.log2,
    lambda x, y: undefined_where(is_below(x, 0.0), x, 1.0 / (x * LN2 + 0.0)),
    exact=lambda mp, x: mp.log(x, 2),
    domain=Interval(low=0.0),
    c="log2({x})",
    remedies=Advice.LOG2,
)
log10: Elementwise = _register_unary(
    "log10",
    "Logarithm to base 10.",
    np.log10,
    lambda x, y: undefined_where(is_below(x, 0.0), x, 1.0 / (x * LN10 + 0.0)),
    domain=Interval(low=0.0),
    c="log10({x})",
    remedies=Advice.LOG10,
)
log1p: Elementwise = _register_unary(
    "log1p",
    "log(1 + x), exact near 0.",
    np.log1p,
    lambda x, y: undefined_where(is_below(x, -1.0), x, 1.0 / (1.0 + x)),
    domain=Interval(low=-1.0),
    c="log1p({x})",
    scipy=("scipy.special.log1p",),
    remedies=Advice.LOG1P,
)

sin: Elementwise = _register_unary("sin", "Sine of an angle in radians.", np.sin, lambda x, y: cos(x), c="sin({x})")
cos: Elementwise = _register_unary("cos", "Cosine of an angle in radians.", np.cos, lambda x, y: -sin(x), c="cos({x})")
tan: Elementwise = _register_unary(
    "tan", "Tangent of an angle in radians.", np.tan, lambda x, y: 1.0 + y * y, c="tan({x})"
)
sinc: Elementwise = _register_unary(
    "sinc",
    "sin(pi x) / (pi x); 1 at 0.",
    np.sinc,
    lambda x, y: where(less(absolute(x), 0.5), _sinc_slope(x), (cos(math.pi * x) - y) / replace_zero(x)),
    scipy=("scipy.special.sinc",),
    exact=lambda mp, x: mp.sincpi(x),
    c="{x} == 0.0 ? 1.0 : sin(3.141592653589793 * {x}) / (3.141592653589793 * {x})",
    ulps=64.0,
    because="cos(pi x) and sinc(x) nearly cancel where their graphs cross, and pi x is rounded",
)
arcsin: Elementwise = _register_unary(
    "arcsin",
    "Angle whose sine is the wire.",
    np.arcsin,
    lambda x, y: 1.0 / sqrt((1.0 - x) * (1.0 + x)),
    domain=Interval(-1.0, 1.0),
    samples=tuple((k / 8,) for k in range(-7, 8)),
    aliases=("asin",),
    c="asin({x})",
    remedies=Advice.ARC_ANGLE,
)
arccos: Elementwise = _register_unary(
    "arccos",
    "Angle whose cosine is the wire.",
    np.arccos,
    lambda x, y: -1.0 / sqrt((1.0 - x) * (1.0 + x)),
    domain=Interval(-1.0, 1.0),
    samples=tuple((k / 8,) for k in range(-7, 8)),
    aliases=("acos",),
    c="acos({x})",
    remedies=Advice.ARC_ANGLE,
)
arctan: Elementwise = _register_unary(
    "arctan",
    "Angle whose tangent is the wire.",
    np.arctan,
    lambda x, y: 1.0 / (1.0 + x * x),
    aliases=("atan",),
    c="atan({x})",
)
sinh: Elementwise = _register_unary(
    "sinh", "Hyperbolic sine.", np.sinh, lambda x, y: cosh(x), c="sinh({x})", remedies=Advice.HYPERBOLIC
)
cosh: Elementwise = _register_unary(
    "cosh", "Hyperbolic cosine.", np.cosh, lambda x, y: sinh(x), c="cosh({x})", remedies=Advice.HYPERBOLIC
)
tanh: Elementwise = _register_unary(
    "tanh",
    "Hyperbolic tangent.",
    np.tanh,
    lambda x, y: 1.0 - y * y,
    ulps=1e4,
    because="1 - y*y cancels where y saturates: decision 5",
    c="tanh({x})",
)
# hypot(1, x) does not overflow where x * x would.
arcsinh: Elementwise = _register_unary(
    "arcsinh",
    "Inverse of sinh.",
    np.arcsinh,
    lambda x, y: 1.0 / (sqrt(1.0 + x * x) if is_complex(x) else hypot(1.0, x)),
    aliases=("asinh",),
    c="asinh({x})",
)
arccosh: Elementwise = _register_unary(
    "arccosh",
    "Inverse of cosh.",
    np.arccosh,
    # Two roots and not one of a product: the product is positive again below -1, where arccosh is undefined.
    lambda x, y: 1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)),
    domain=Interval(low=1.0),
    samples=tuple((1.0 + k * k / 16,) for k in range(1, 13)),
    aliases=("acosh",),
    c="acosh({x})",
    remedies=Advice.ARCCOSH,
)
arctanh: Elementwise = _register_unary(
    "arctanh",
    "Inverse of tanh.",
    np.arctanh,
    lambda x, y: undefined_where(
        np.False_ if is_complex(x) else greater(absolute(x), 1.0), x, 1.0 / ((1.0 - x) * (1.0 + x))
    ),
    domain=Interval(-1.0, 1.0),
    samples=tuple((k / 8,) for k in range(-7, 8)),
    aliases=("atanh",),
    c="atanh({x})",
    remedies=Advice.INTERVAL,
)
erf: Elementwise = _register_unary(
    "erf",
    "Error function.",
    _apply_to_each(math.erf),
    lambda x, y: 2.0 / math.sqrt(math.pi) * exp(-(x * x)),
    exact=lambda mp, x: mp.erf(x),
    on_large=_compute_erf_of_large,
    ulps=16.0,
    because="x * x is rounded before it is exponentiated",
    c="erf({x})",
    scipy=("scipy.special.erf",),
)
erfc: Elementwise = _register_unary(
    "erfc",
    "1 - erf(x), exact for large x.",
    _apply_to_each(math.erfc),
    lambda x, y: -2.0 / math.sqrt(math.pi) * exp(-(x * x)),
    exact=lambda mp, x: mp.erfc(x),
    ulps=16.0,
    because="x * x is rounded before it is exponentiated",
    c="erfc({x})",
    scipy=("scipy.special.erfc",),
)
xlogy: Elementwise = register(
    Elementwise(
        name="xlogy",
        remedies=Advice.TIMES_LOG,
        doc="a log(b), and 0 where a = 0.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="{a} == 0.0 && {b} == {b} ? 0.0 : {a} * log({b})",
        forward=lambda a, b: _multiply_log(a, b, np.log),
        partials=(
            lambda a, b, y: log(b),
            # For a = 0 the value is 0 for every b, so that a / b = 0 / 0 at b = 0 must not come back.
            lambda a, b, y: only(not_equal(a, 0.0), where(less(b, 0.0), undefined(b), a / (b + 0.0))),
        ),
        domain=lambda a, b: (b >= 0) | (a == 0),
        samples=tuple((a, abs(b)) for a, b in zip(SAMPLE_NUMBERS, SAMPLE_NUMBERS[5:], strict=False)),
        exact=lambda mp, a, b: mp.mpf(0) if not a else a * mp.log(b) if b >= 0 else mp.nan,
        scipy=("scipy.special.xlogy",),
    )
)
xlog1py: Elementwise = register(
    Elementwise(
        name="xlog1py",
        remedies=Advice.TIMES_LOG1P,
        doc="a log(1 + b), and 0 where a = 0.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="{a} == 0.0 && {b} == {b} ? 0.0 : {a} * log1p({b})",
        forward=lambda a, b: _multiply_log(a, b, np.log1p),
        partials=(
            lambda a, b, y: log1p(b),
            lambda a, b, y: only(not_equal(a, 0.0), where(less(b, -1.0), undefined(b), a / (1.0 + b))),
        ),
        domain=lambda a, b: (b >= -1) | (a == 0),
        samples=tuple((a, abs(b) - 0.1) for a, b in zip(SAMPLE_NUMBERS, SAMPLE_NUMBERS[5:], strict=False)),
        exact=lambda mp, a, b: mp.mpf(0) if not a else a * mp.log1p(b) if b >= -1 else mp.nan,
        scipy=("scipy.special.xlog1py",),
    )
)
entr: Elementwise = _register_unary(
    "entr",
    "-x log(x), the entropy of a probability; 0 at 0.",
    _compute_entropy,
    lambda x, y: where(less(x, 0.0), undefined(x), -log(x) - 1.0),
    domain=Interval(low=0.0),
    c="{x} > 0.0 ? -{x} * log({x}) : {x} == 0.0 ? 0.0 : {x} < 0.0 ? -INFINITY : {x}",
    remedies=Advice.INTERVAL,
    exact=lambda mp, x: -x * mp.log(x) if x > 0 else -mp.inf if x else mp.mpf(0),
    scipy=("scipy.special.entr",),
    ulps=8.0,
    because="the two terms of the slope nearly cancel around x = 1 / e",
)
rel_entr: Elementwise = register(
    Elementwise(
        name="rel_entr",
        remedies=Advice.TIMES_LOG,
        doc="a log(a / b), the relative entropy of two probabilities; 0 where a = 0.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="{a} > 0.0 && {b} > 0.0"
        " ? {a} * ({a} / {b} > 0.5 && {a} / {b} < 2.0 ? log1p(({a} - {b}) / {b})"
        " : {a} / {b} > 2.2250738585072014e-308 && {a} / {b} < INFINITY ? log({a} / {b}) : log({a}) - log({b}))"
        " : {a} == 0.0 && {b} >= 0.0 ? 0.0 : {a} != {a} || {b} != {b} ? {a} + {b} : INFINITY",
        forward=_compute_relative_entropy,
        partials=(
            lambda a, b, y: where(_is_either_negative(a, b), undefined(a + b), log(a / b) + 1.0),
            lambda a, b, y: only(
                not_equal(a, 0.0), where(_is_either_negative(a, b), undefined(a + b), -(a / (b + 0.0)))
            ),
        ),
        domain=lambda a, b: (a >= 0) & (b >= 0),
        samples=tuple((abs(a), abs(b)) for a, b in zip(SAMPLE_NUMBERS, SAMPLE_NUMBERS[5:], strict=False)),
        exact=lambda mp, a, b: a * mp.log(a / b) if a > 0 and b > 0 else mp.mpf(0) if not a and b >= 0 else mp.inf,
        scipy=("scipy.special.rel_entr",),
        ulps=8.0,
        because="the two terms of the slope nearly cancel around a / b = 1 / e",
    )
)
arctan2: Elementwise = register(
    Elementwise(
        name="arctan2",
        aliases=("atan2",),
        doc="Angle of the point (b, a) from the x axis; slopes 0 at the origin.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="atan2({a}, {b})",
        forward=np.arctan2,
        partials=(
            lambda a, b, y: only(not_equal(hypot(a, b), 0.0), b / hypot(a, b) / hypot(a, b)),
            lambda a, b, y: only(not_equal(hypot(a, b), 0.0), -(a / hypot(a, b) / hypot(a, b))),
        ),
        kinks=(
            Kink(
                doc="a = b = 0",
                at=lambda a, b: hypot(a, b),
                slopes=(None, None),
                torch=(0.0, -0.0),
                jax=(NAN, NAN),
            ),
        ),
        # The negative half-line, where the angle jumps by a whole turn, stays out.
        samples=(
            (0.3, 1.7),
            (1.7, 0.3),
            (-1.3, 0.6),
            (2.4, -2.6),
            (-0.7, -0.2),
            (3.2, 1.2),
            (0.05, 4.8),
            (-3.7, 0.9),
            (1.0, 1.0),
            (-2.0, 0.5),
            (0.4, -0.4),
        ),
    )
)
logaddexp: Elementwise = register(
    Elementwise(
        name="logaddexp",
        exact=lambda mp, a, b: mp.log(mp.exp(a) + mp.exp(b)),
        ulps=8.0,
        because="a - b is rounded before it is exponentiated",
        doc="log(exp(a) + exp(b)) without overflow.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="{a} == {b} ? {a} + 0.6931471805599453"
        " : {a} > {b} ? {a} + log1p(exp({b} - {a})) : {b} + log1p(exp({a} - {b}))",
        forward=np.logaddexp,
        partials=(
            # a - b is NaN for two equal infinities; half each is the limit along a = b.
            lambda a, b, y: where(logical_and(equal(a, b), isinf(a)), 0.5, sigmoid(a - b)),
            lambda a, b, y: where(logical_and(equal(a, b), isinf(a)), 0.5, sigmoid(b - a)),
        ),
    )
)
logaddexp2: Elementwise = register(
    replace(
        logaddexp,
        name="logaddexp2",
        doc="log2(2**a + 2**b) without overflow.",
        c="{a} == {b} ? {a} + 1.0"
        " : {a} > {b} ? {a} + 1.4426950408889634 * log1p(exp2({b} - {a}))"
        " : {b} + 1.4426950408889634 * log1p(exp2({a} - {b}))",
        forward=np.logaddexp2,
        exact=lambda mp, a, b: mp.log(mp.mpf(2) ** a + mp.mpf(2) ** b, 2),
        partials=(
            lambda a, b, y: where(logical_and(equal(a, b), isinf(a)), 0.5, sigmoid((a - b) * LN2)),
            lambda a, b, y: where(logical_and(equal(a, b), isinf(a)), 0.5, sigmoid((b - a) * LN2)),
        ),
    )
)

sigmoid: Elementwise = register(
    Elementwise(
        name="sigmoid",
        ulps=16.0,
        because="1 - y cancels where y saturates: decision 5",
        doc="1 / (1 + exp(-x)) without overflow.",
        scipy=("scipy.special.expit",),
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="{x} >= 0.0 ? 1.0 / (1.0 + exp(-{x})) : exp({x}) / (1.0 + exp({x}))",
        forward=_compute_sigmoid,
        partials=(lambda x, y: y * (1.0 - y),),
        exact=lambda mp, x: 1 / (1 + mp.exp(-x)),
    )
)
softplus: Elementwise = register(
    Elementwise(
        name="softplus",
        doc="log(1 + exp(x)) without overflow.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="({x} > 0.0 ? {x} : 0.0) + log1p(exp(-fabs({x})))",
        forward=_compute_softplus,
        partials=(lambda x, y: sigmoid(x),),
        exact=lambda mp, x: mp.log(1 + mp.exp(x)),
    )
)
silu: Elementwise = register(
    Elementwise(
        name="silu",
        ulps=16.0,
        because="two terms of opposite sign nearly cancel around x = -1.28",
        doc="x * sigmoid(x).",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="{x} * sigmoid({x})",
        forward=lambda x: x * _compute_sigmoid(x),
        partials=(lambda x, y: sigmoid(x) + y * sigmoid(-x),),
        exact=lambda mp, x: x / (1 + mp.exp(-x)),
    )
)
gelu: Elementwise = register(
    Elementwise(
        name="gelu",
        ulps=16.0,
        because="two terms nearly cancel around x = -0.75, and x * x is rounded before it is exponentiated",
        doc="x times the normal distribution's cumulative probability of x.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c="0.5 * {x} * erfc(-{x} * 0.7071067811865476)",
        forward=_compute_gelu,
        partials=(
            lambda x, y: 0.5 * erfc(-x * math.sqrt(0.5)) + x * exp(-0.5 * (x * x)) * (1.0 / math.sqrt(2.0 * math.pi)),
        ),
        exact=lambda mp, x: x * mp.ncdf(x),
    )
)
relu: Elementwise = register(
    Elementwise(
        name="relu",
        doc="The wire where it is positive, else 0; slope 0 at 0.",
        inputs=("x",),
        pattern=Pattern.ROUTE,
        c="{x} <= 0.0 ? 0.0 : {x}",
        forward=lambda x: np.maximum(x, 0.0),
        partials=(lambda x, y: only(logical_not(less_equal(x, 0.0)), nan_or(x, 1.0)),),
        kinks=(Kink(doc="x = 0", at=lambda x: x, slopes=(None,)),),
        exact=lambda mp, x: max(x, 0),
        idempotent=True,
    )
)
relu6: Elementwise = register(
    Elementwise(
        name="relu6",
        doc="The wire between 0 and 6, else the bound; slope 0 on a bound.",
        inputs=("x",),
        pattern=Pattern.ROUTE,
        c="{x} <= 0.0 ? 0.0 : {x} >= 6.0 ? 6.0 : {x}",
        forward=lambda x: np.minimum(np.maximum(x, 0.0), 6.0),
        partials=(
            lambda x, y: only(logical_not(logical_or(less_equal(x, 0.0), greater_equal(x, 6.0))), nan_or(x, 1.0)),
        ),
        kinks=(
            Kink(doc="x = 0", at=lambda x: x, slopes=(None,)),
            Kink(doc="x = 6", at=lambda x: x - 6.0, slopes=(None,)),
        ),
        exact=lambda mp, x: min(max(x, 0), 6),
        samples=((-2.0,), (-0.5,), (0.1,), (0.9,), (2.5,), (3.7,), (5.1,), (5.9,), (6.5,), (9.0,)),
        idempotent=True,
    )
)
leaky_relu: Elementwise = register(
    Elementwise(
        name="leaky_relu",
        doc="The wire where it is positive, else the wire times a slope (0.01 if left out).",
        inputs=("x", "slope"),
        defaults=(0.01,),
        pattern=Pattern.ROUTE,
        c="{x} > 0.0 ? {x} : {slope} * {x}",
        forward=lambda x, slope: np.where(x > 0, x, slope * x)[()],
        partials=(
            # On the kink every slope between 1 and `slope` is a subgradient; the one nearest to 0 is taken.
            lambda x, slope, y: nan_or(
                x,
                where(greater(x, 0.0), 1.0, where(less(x, 0.0), slope, minimum(maximum(slope, 0.0), 1.0))),
            ),
            lambda x, slope, y: only(logical_not(greater(x, 0.0)), x),
        ),
        kinks=(
            Kink(
                doc="x = 0",
                at=lambda x, slope: x,
                slopes=(lambda x, slope, y: minimum(maximum(slope, 0.0), 1.0), 0.0),
                torch=(lambda x, slope, y: slope, 0.0),
                jax=(1.0, 0.0),
            ),
        ),
        exact=lambda mp, x, slope: x if x > 0 else slope * x,
    )
)


def _tie_kink(torch: tuple[float | None, float | None], jax: tuple[float | None, float | None]) -> Kink:
    """Return the kink of an op that selects one of two wires; frameworks differ on which wins a tie."""
    return Kink(
        doc="a = b",
        at=signed_gap,
        on=lambda a, b: equal(a, b),
        slopes=(0.5, 0.5),
        alone=(None, None),
        torch=torch,
        jax=jax,
    )


HALF_EACH = (0.5, 0.5)
FIRST_WINS = (1.0, None)
SECOND_WINS = (None, 1.0)

maximum: Elementwise = register(
    Elementwise(
        name="maximum",
        doc="The larger of two wires; NaN if one is NaN; half the gradient each on a tie.",
        inputs=("a", "b"),
        pattern=Pattern.ROUTE,
        c="{a} > {b} || {a} != {a} ? {a} : {b}",
        forward=np.maximum,
        partials=(
            lambda a, b, y: only(logical_not(less(a, b)), tie_slope(a, b, y)),
            lambda a, b, y: only(logical_not(less(b, a)), tie_slope(a, b, y)),
        ),
        beside_literals=(
            lambda a, b: only(greater(a, b), 1.0),
            lambda a, b: only(greater(b, a), 1.0),
        ),
        kinks=(_tie_kink(torch=HALF_EACH, jax=HALF_EACH),),
    )
)
minimum: Elementwise = register(
    Elementwise(
        name="minimum",
        doc="The smaller of two wires; NaN if one is NaN; half the gradient each on a tie.",
        inputs=("a", "b"),
        pattern=Pattern.ROUTE,
        c="{a} < {b} || {a} != {a} ? {a} : {b}",
        forward=np.minimum,
        partials=(
            lambda a, b, y: only(logical_not(less(b, a)), tie_slope(a, b, y)),
            lambda a, b, y: only(logical_not(less(a, b)), tie_slope(a, b, y)),
        ),
        beside_literals=(
            lambda a, b: only(less(a, b), 1.0),
            lambda a, b: only(less(b, a), 1.0),
        ),
        kinks=(_tie_kink(torch=HALF_EACH, jax=HALF_EACH),),
    )
)
fmax: Elementwise = register(
    Elementwise(
        name="fmax",
        doc="The larger of two wires; NaN only if both are NaN.",
        inputs=("a", "b"),
        pattern=Pattern.ROUTE,
        c="{a} >= {b} || {b} != {b} ? {a} : {b}",
        forward=np.fmax,
        partials=(
            lambda a, b, y: only(logical_or(greater_equal(a, b), isnan(b)), tie_slope(a, b, y)),
            lambda a, b, y: only(logical_or(greater_equal(b, a), isnan(a)), tie_slope(a, b, y)),
        ),
        kinks=(_tie_kink(torch=FIRST_WINS, jax=SECOND_WINS),),
    )
)
fmin: Elementwise = register(
    Elementwise(
        name="fmin",
        doc="The smaller of two wires; NaN only if both are NaN.",
        inputs=("a", "b"),
        pattern=Pattern.ROUTE,
        c="{a} <= {b} || {b} != {b} ? {a} : {b}",
        forward=np.fmin,
        partials=(
            lambda a, b, y: only(logical_or(greater_equal(b, a), isnan(b)), tie_slope(a, b, y)),
            lambda a, b, y: only(logical_or(greater_equal(a, b), isnan(a)), tie_slope(a, b, y)),
        ),
        kinks=(_tie_kink(torch=FIRST_WINS, jax=SECOND_WINS),),
    )
)
clip: Elementwise = register(
    Elementwise(
        name="clip",
        doc="The wire between two bounds, else the bound; on a literal bound the slope is 0.",
        domain=lambda x, low, high: low <= high,
        inputs=("x", "low", "high"),
        pattern=Pattern.ROUTE,
        c="{x} > {low} || {x} != {x} ? minimum({x}, {high}) : minimum({low}, {high})",
        forward=lambda x, low, high: np.minimum(np.maximum(x, low), high),
        partials=(
            lambda x, low, high, y: _share_slope(
                _keeps_input(x, low, high, y), _gives_low(x, low, y), equal(high, y), y
            ),
            lambda x, low, high, y: _share_slope(
                _gives_low(x, low, y), _keeps_input(x, low, high, y), equal(high, y), y
            ),
            lambda x, low, high, y: _share_slope(
                equal(high, y), _keeps_input(x, low, high, y), _gives_low(x, low, y), y
            ),
        ),
        on_large=clip_large,
        beside_literals=(
            lambda x, low, high: only(logical_and(greater(x, low), less(x, high)), 1.0),
            None,
            None,
        ),
        kinks=(
            Kink(
                doc="x = low",
                at=lambda x, low, high: signed_gap(x, low),
                on=lambda x, low, high: equal(x, low),
                tied=(0, 1),
                slopes=(0.5, 0.5, None),
                alone=(None, None, None),
                torch=(1.0, None, None),
                jax=(0.5, 0.5, None),
            ),
            Kink(
                doc="x = high",
                at=lambda x, low, high: signed_gap(x, high),
                on=lambda x, low, high: equal(x, high),
                tied=(0, 2),
                slopes=(0.5, None, 0.5),
                alone=(None, None, None),
                torch=(1.0, None, None),
                jax=(0.5, None, 0.5),
            ),
            Kink(
                doc="x < low = high",
                at=lambda x, low, high: where(less(x, low), signed_gap(low, high), 1.0),
                on=lambda x, low, high: logical_and(less(x, low), equal(low, high)),
                tied=(1, 2),
                slopes=(None, 0.5, 0.5),
                alone=(None, None, None),
                torch=(None, None, None),
            ),
            Kink(
                doc="x = low = high",
                at=lambda x, low, high: absolute(signed_gap(x, low)) + absolute(signed_gap(x, high)),
                on=lambda x, low, high: logical_and(equal(x, low), equal(x, high)),
                slopes=(1 / 3, 1 / 3, 1 / 3),
                alone=(None, None, None),
                torch=(1.0, None, None),
                jax=(0.25, 0.25, 0.5),
            ),
        ),
        samples=(
            (0.3, -1.0, 1.0),
            (-2.0, -1.0, 1.0),
            (4.0, -1.0, 1.0),
            (1.2, 0.5, 2.5),
            (0.1, 0.5, 2.5),
            (3.1, 0.5, 2.5),
            (-0.7, -2.0, -0.1),
            (-3.0, -2.0, -0.1),
            (0.9, -2.0, -0.1),
            (1.0, 0.5, 2.0),
        ),
    )
)
where: Elementwise = register(
    Elementwise(
        name="where",
        doc="Second wire where the condition holds, else the third; the other one's gradient is absent, not 0.",
        inputs=("condition", "a", "b"),
        pattern=Pattern.ROUTE,
        c="{condition} ? {a} : {b}",
        forward=select_elements,
        partials=(
            None,
            lambda condition, a, b, y: only(condition, 1.0),
            lambda condition, a, b, y: only(logical_not(condition), 1.0),
        ),
        takes_bool=("condition",),
        selects=True,
    )
)
copysign: Elementwise = register(
    Elementwise(
        name="copysign",
        exact=lambda mp, a, b: abs(a) * mp.sign(b),
        doc="Magnitude of the first wire with the sign of the second; a NaN counts as positive.",
        inputs=("a", "b"),
        pattern=Pattern.ROUTE,
        # No standard says which sign a NaN has, and processors, libraries and compilers disagree; fmin makes it 1.0.
        c="copysign({a}, fmin({b}, 1.0))",
        # True is 1 in whatever dtype b has.
        forward=lambda a, b: np.copysign(a, np.fmin(b, np.True_)),
        partials=(lambda a, b, y: sign(a) * copysign(1.0, b), None),
        kinks=(
            Kink(
                doc="a = 0",
                at=lambda a, b: a,
                slopes=(0.0, None),
                jax=(lambda a, b, y: copysign(1.0, b), None),
            ),
            Kink(doc="b = 0", at=lambda a, b: b, slopes=(lambda a, b, y: sign(a) * copysign(1.0, b), None), jump=True),
        ),
    )
)

sign: Elementwise = _register_rounding(
    "sign",
    "-1, 0 or 1.",
    np.sign,
    lambda x: x,
    # It is a vector of length 1, which turns as z does.
    of_complex=lambda x: TABLE["direction"](x),
    c="{x} > 0.0 ? 1.0 : {x} < 0.0 ? -1.0 : {x} == 0.0 ? 0.0 : {x}",
)
floor: Elementwise = _register_rounding(
    "floor", "Largest whole number not above the wire.", np.floor, lambda x: x - round(x), c="floor({x})"
)
ceil: Elementwise = _register_rounding(
    "ceil", "Smallest whole number not below the wire.", np.ceil, lambda x: x - round(x), c="ceil({x})"
)
trunc: Elementwise = _register_rounding(
    "trunc", "Whole part of the wire, rounded towards 0.", np.trunc, lambda x: x - round(x), c="trunc({x})"
)
round: Elementwise = _register_rounding(
    "round", "Nearest whole number, halves to even.", np.rint, lambda x: x - floor(x) - 0.5, c="rint({x})"
)

greater: Elementwise = _register_comparison("greater", ">", "Whether a > b.")
greater_equal: Elementwise = _register_comparison("greater_equal", ">=", "Whether a >= b.")
less: Elementwise = _register_comparison("less", "<", "Whether a < b.")
less_equal: Elementwise = _register_comparison("less_equal", "<=", "Whether a <= b.")
equal: Elementwise = _register_comparison("equal", "==", "Whether a = b.")
not_equal: Elementwise = _register_comparison("not_equal", "!=", "Whether a and b differ.")

logical_and: Elementwise = _register_logic(
    "logical_and", "Whether both hold.", ("a", "b"), idempotent=True, c="{a} && {b}"
)
logical_or: Elementwise = _register_logic(
    "logical_or", "Whether at least one holds.", ("a", "b"), idempotent=True, c="{a} || {b}"
)
logical_xor: Elementwise = _register_logic(
    "logical_xor", "Whether exactly one holds.", ("a", "b"), c="({a} || {b}) && !({a} && {b})"
)
logical_not: Elementwise = _register_logic(
    "logical_not", "Whether it does not hold.", ("a",), involution=True, c="!{a}"
)

isnan: Elementwise = _register_test("isnan", "Whether the wire is NaN.", "{x} != {x}")
isinf: Elementwise = _register_test("isinf", "Whether the wire is infinite.", "fabs({x}) == INFINITY")
isfinite: Elementwise = _register_test(
    "isfinite", "Whether the wire is neither NaN nor infinite.", "fabs({x}) < INFINITY"
)

heaviside: Elementwise = register(
    Elementwise(
        name="heaviside",
        exact=lambda mp, a, b: mp.mpf(int(a > 0)),
        doc="0 for a < 0, 1 for a > 0, b at a = 0.",
        inputs=("a", "b"),
        pattern=Pattern.ROUTE,
        c="{a} > 0.0 ? 1.0 : {a} < 0.0 ? 0.0 : {a} == 0.0 ? {b} : {a}",
        forward=np.heaviside,
        partials=(lambda a, b, y: only_nan(y), lambda a, b, y: only(equal(a, 0.0), 1.0)),
        kinks=(Kink(doc="a = 0", at=lambda a, b: a, slopes=(None, 1.0), jump=True),),
    )
)
floor_divide: Elementwise = register(
    Elementwise(
        name="floor_divide",
        remedies=Advice.REMAINDER,
        doc="Largest whole number not above a / b.",
        inputs=("a", "b"),
        pattern=Pattern.BLOCK,
        # The quotient of a less its remainder is whole but for rounding; its zeros have the sign of a / b.
        c="{b} == 0.0 ? {a} / {b}"
        " : copysign(rint(({a} - fmod({a}, {b})) / {b} - (mod({a}, {b}) != fmod({a}, {b}) ? 1.0 : 0.0)), {a} / {b})",
        python="{a} // {b}",
        forward=np.floor_divide,
        partials=(lambda a, b, y: only_nan(y), lambda a, b, y: only_nan(y)),
        infix=("//",),
        level=Level.PRODUCT,
        kinks=(Kink(doc="a / b whole", at=lambda a, b: a / b - round(a / b), slopes=(None, None), jump=True),),
    )
)
mod: Elementwise = register(
    Elementwise(
        name="mod",
        remedies=Advice.REMAINDER,
        doc="Remainder of a / b, with the sign of b.",
        inputs=("a", "b"),
        pattern=Pattern.SCALE,
        c="fmod({a}, {b}) == 0.0 ? copysign(0.0, {b})"
        " : (fmod({a}, {b}) < 0.0) != ({b} < 0.0) ? fmod({a}, {b}) + {b} : fmod({a}, {b})",
        python="{a} % {b}",
        forward=np.mod,
        # Where b = 0 the remainder is NaN and so are its slopes.
        partials=(lambda a, b, y: nan_or(y, 1.0), lambda a, b, y: nan_or(y, -floor_divide(a, b))),
        infix=("%",),
        level=Level.PRODUCT,
        domain=lambda a, b: b != 0,
        kinks=(
            Kink(
                doc="a / b whole",
                at=lambda a, b: a / b - round(a / b),
                slopes=(1.0, lambda a, b, y: -floor_divide(a, b)),
                jump=True,
                # The sign changes halfway between two whole numbers too, and is the same in every other half.
                side=floor_divide.forward,
            ),
        ),
    )
)
