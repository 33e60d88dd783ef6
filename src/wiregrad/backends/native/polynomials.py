"""Functions of math.h on lanes of doubles, as argument reductions and polynomials.

A function reduces its argument, evaluates a polynomial and combines the parts. Lanes outside its domain are returned as
a mask beside the result; the scalar function of the C library computes those. Every operation is one of IEEE 754, with
fused multiply-add where written, so that elsewhere the bits depend neither on the number of lanes nor on the processor.
Errors are below 4 ulp; most are below 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from wiregrad.backends.native.coefficients import (
    ASIN,
    ATAN,
    COS_SHORT,
    ERF,
    ERFC,
    EXP,
    FAR,
    HALF_PI,
    HALF_PI_REST,
    LN2,
    LN2_REST,
    LN2_SHORT,
    LN2_SHORT_REST,
    LOG,
    LOG2_E,
    LOG10_2,
    LOG10_2_REST,
    LOG10_E,
    LOG_FIRST,
    LOG_FIRST_REST,
    LOG_LATER,
    ONE_BITS,
    PI,
    ROUND,
    SIN,
    SIN_SHORT,
    SMALLEST,
    SQRT_HALF_BITS,
    TINY,
)
from wiregrad.backends.native.lanes import Value, Writer


class Written(NamedTuple):
    """The result of a function, and the lanes that need a fallback."""

    result: Value
    outside: Value | None = None
    """The lanes whose result is wrong; None if there are never any."""
    edges: Callable[[], tuple[Value, Value]] | None = None
    """Writes corrected results for such lanes, and returns the lanes that remain for the scalar function."""


def _odd(w: Writer, r: Value, z: Value, coefficients: Sequence[float]) -> Value:
    """Write r + r * (z * polynomial(z)); the leading coefficient 0.0 preserves the sign of a zero."""
    return w.fma(r, w.polynomial(z, (0.0, *coefficients)), r)


class Powers(NamedTuple):
    """e**x as 2**k * (1 + p): `shifted` is k + ROUND, so that its low bits hold k."""

    shifted: Value
    p: Value

    def power(self, less: int = 0) -> Value:
        """Write 2**(k - less), which must be a normal number."""
        return ((self.shifted.bits() + (1023 - less)) << 52).as_real()


def _powers(w: Writer, x: Value, rest: Value | None = None) -> Powers:
    """Write e**(x + rest) in parts, for |x| below 2**40."""
    shifted = w.fma(x, LOG2_E, ROUND)
    k = shifted - ROUND
    r = w.fma(k, -LN2, x)
    r = w.fma(k, -LN2_REST, r) if rest is None else r + w.fma(k, -LN2_REST, rest)
    return Powers(shifted, w.fma(r, w.polynomial(r, (0.0, *EXP)), r))


def _scaled(w: Writer, parts: Powers, x: Value, factor: Value | None = None) -> Value:
    """Write 2**k * (1 + p) * factor; the scaling comes last, so it rounds only once. x has the sign of k."""
    near = parts.p + 1.0 if factor is None else w.fma(parts.p, factor, factor)
    if w.scales:
        return w.scaled(near, parts.shifted - ROUND)
    down = x < 0.0
    bias = w.select(down, w.value(1023 + 64, "i64"), w.value(1023 - 64, "i64"))
    power = ((parts.shifted.bits() + bias) << 52).as_real()
    return near * power * w.select(down, 2.0**-64, 2.0**64)


def exp(w: Writer, x: Value) -> Written:
    """Write e**x."""
    x = w.clamp(x, -746.0, 710.0)
    return Written(_scaled(w, _powers(w, x), x))


def exp2(w: Writer, x: Value) -> Written:
    """Write 2**x."""
    x = w.clamp(x, -1076.0, 1025.0)
    shifted = x + ROUND
    r = (x - (shifted - ROUND)) * LN2
    return Written(_scaled(w, Powers(shifted, w.fma(r, w.polynomial(r, (0.0, *EXP)), r)), x))


def expm1(w: Writer, x: Value) -> Written:
    """Write e**x - 1."""
    bounded = w.clamp(x, -40.0, 710.0)
    parts = _powers(w, bounded)
    half = parts.power(1)
    result = w.fma(half, parts.p, half - 0.5) * 2.0
    return Written(w.select(w.fabs(x) < TINY, x, result))


def tanh(w: Writer, x: Value) -> Written:
    """Write the hyperbolic tangent: t / (t + 2) where t = e**2x - 1."""
    size = w.fabs(x)
    size = w.select(size > 20.0, 20.0, size)
    parts = _powers(w, size + size)
    power = parts.power()
    t = w.fma(power, parts.p, power - 1.0)
    return Written(w.copysign(t / (t + 2.0), x))


def sinh(w: Writer, x: Value) -> Written:
    """Write the hyperbolic sine: (t + t / (t + 1)) / 2 where t = e**x - 1, computed with t / 4, which is finite."""
    size = w.fabs(x)
    bounded = w.select(size > 710.5, 710.5, size)
    parts = _powers(w, bounded)
    quarter = parts.power(2)
    t = w.fma(quarter, parts.p, quarter - 0.25)
    result = w.fma(0.25, t / (t + 0.25), t) * 2.0
    return Written(w.copysign(w.select(size < TINY, size, result), x))


def cosh(w: Writer, x: Value) -> Written:
    """Write the hyperbolic cosine: (e**x + e**-x) / 2, computed with quarters, which cannot overflow."""
    size = w.fabs(x)
    bounded = w.select(size > 710.5, 710.5, size)
    parts = _powers(w, bounded)
    quarter = parts.power(2)
    e = w.fma(quarter, parts.p, quarter)
    return Written((e + 0.0625 / e) * 2.0)


class Logarithm(NamedTuple):
    """A positive normal number as 2**k * m, with m between sqrt(1/2) and sqrt(2): k, m and f = m - 1."""

    k: Value
    m: Value
    f: Value


def _split(x: Value) -> Logarithm:
    shifted = x.bits() + (ONE_BITS - SQRT_HALF_BITS)
    # The exponent becomes the low bits of 2**52, which makes it a real without a conversion instruction.
    k = ((shifted >> 52) | 0x4330000000000000).as_real() - (2.0**52 + 1023)
    m = ((shifted & 0x000FFFFFFFFFFFFF) + SQRT_HALF_BITS).as_real()
    return Logarithm(k, m, m - 1.0)


def _log(w: Writer, f: Value, rest: Value | float) -> Value:
    """Write log(1 + f) + rest, for 1 + f between sqrt(1/2) and sqrt(2) and a small rest."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    tail = z * w.polynomial(z, LOG)
    return f - (half - w.fma(s, half + tail, rest))


def _no_log(x: Value) -> Value:
    return (x < SMALLEST) | x.beyond(math.inf)


def _log_at_edges(w: Writer, x: Value, zero: float) -> Value:
    """Write a logarithm at its edges: -inf at `zero`, NaN below it, and x itself at inf and NaN."""
    return w.select(x > zero, x, w.select(x.equals(zero), -math.inf, math.nan))


def _logarithm(w: Writer, x: Value, result: Value) -> Written:
    """Return a logarithm with its edges; subnormal numbers remain for the scalar function."""
    outside = _no_log(x)

    def edges() -> tuple[Value, Value]:
        return w.select(outside, _log_at_edges(w, x, 0.0), result), (x > 0.0) & (x < SMALLEST)

    return Written(result, outside, edges)


def log(w: Writer, x: Value) -> Written:
    """Write the natural logarithm."""
    parts = _split(x)
    return _logarithm(w, x, w.fma(parts.k, LN2, _log(w, parts.f, parts.k * LN2_REST)))


def log2(w: Writer, x: Value) -> Written:
    """Write the logarithm to base 2."""
    parts = _split(x)
    return _logarithm(w, x, w.fma(_log(w, parts.f, 0.0), LOG2_E, parts.k))


def log10(w: Writer, x: Value) -> Written:
    """Write the logarithm to base 10."""
    parts = _split(x)
    near = w.fma(_log(w, parts.f, 0.0), LOG10_E, parts.k * LOG10_2_REST)
    return _logarithm(w, x, w.fma(parts.k, LOG10_2, near))


def _log1p(w: Writer, x: Value) -> Value:
    """Write log(1 + x), corrected for the rounding error of 1 + x, for finite x above -1."""
    u = x + 1.0
    above = u - 1.0
    lost = (1.0 - (u - above)) + (x - above)
    parts = _split(u)
    rest = w.fma(parts.k, LN2_REST, lost / u)
    return w.select(w.fabs(x) < TINY, x, w.fma(parts.k, LN2, _log(w, parts.f, rest)))


def log1p(w: Writer, x: Value) -> Written:
    """Write log(1 + x)."""
    result = _log1p(w, x)
    outside = x.not_above(-1.0) | x.beyond(math.inf)
    return Written(result, outside, lambda: (w.select(outside, _log_at_edges(w, x, -1.0), result), w.never()))


def asinh(w: Writer, x: Value) -> Written:
    """Write the inverse of sinh."""
    size = w.fabs(x)
    square = size * size
    t = size + square / (w.intrinsic("sqrt", square + 1.0) + 1.0)
    return Written(w.copysign(_log1p(w, t), x), size.beyond(2.0**500))


def acosh(w: Writer, x: Value) -> Written:
    """Write the inverse of cosh."""
    t = x - 1.0
    result = _log1p(w, t + w.intrinsic("sqrt", w.fma(t, t, t + t)))
    return Written(result, (x < 1.0) | x.beyond(2.0**500), lambda: (w.select(x < 1.0, math.nan, result), x > 2.0**499))


def atanh(w: Writer, x: Value) -> Written:
    """Write the inverse of tanh."""
    size = w.fabs(x)
    half = _log1p(w, (size + size) / (1.0 - size)) * 0.5
    result = w.copysign(w.select(size < TINY, size, half), x)

    def edges() -> tuple[Value, Value]:
        end = w.copysign(w.select(size.equals(1.0), math.inf, math.nan), x)
        return w.select(size < 1.0, result, end), w.never()

    return Written(result, size.beyond(1.0), edges)


def pow(w: Writer, x: Value, y: Value) -> Written:
    """Write x**y as e**(y log x), with the logarithm and the product each as a sum of two numbers."""
    size = w.fabs(x)
    high, low = _log_in_two(w, size)
    product = y * high
    rest = w.fma(y, low, w.fma(y, high, -product))
    bounded = w.clamp(product, -746.0, 710.0)
    result = _scaled(w, _powers(w, bounded, w.select(product.equals(bounded), rest, 0.0)), bounded)
    signed = _signed_power(w, result, x, y)
    infinite = w.fabs(y).beyond(math.inf)
    return Written(signed, _no_log(size) | infinite, lambda: _power_of_zero(w, x, y, signed, infinite))


def _signed_power(w: Writer, result: Value, x: Value, y: Value) -> Value:
    """Turn the power of |x| into that of x: negative for odd y, NaN if x is negative and y no integer."""
    half = y * 0.5
    even = w.intrinsic("rint", half).equals(half)
    integer = w.intrinsic("rint", y).equals(y)
    negative = w.select(integer, w.select(even, result, -result), math.nan)
    return w.select(x < 0.0, negative, result)


def _power_of_zero(w: Writer, x: Value, y: Value, result: Value, infinite: Value) -> tuple[Value, Value]:
    """Write powers of 0, which are common in data; other edges remain for the scalar function."""
    zero = x.equals(0.0) & infinite.equals(0)
    magnitude = w.select(y > 0.0, 0.0, w.select(y < 0.0, math.inf, 1.0))
    half = y * 0.5
    odd = w.intrinsic("rint", y).equals(y) & w.intrinsic("rint", half).equals(half).equals(0)
    power = w.select(odd, w.copysign(magnitude, x), magnitude)
    others = _no_log(w.fabs(x)) & x.equals(0.0).equals(0) | infinite
    return w.select(zero, power, result), others


def _log_in_two(w: Writer, x: Value) -> tuple[Value, Value]:
    """Write the logarithm of a positive normal number as a sum of two, with a relative error of about 2**-65."""
    k, m, f = _split(x)
    d = m + 1.0
    d_rest = m - (d - 1.0)
    inverse = 1.0 / d
    s = f * inverse
    s_rest = (w.fma(-s, d, f) - s * d_rest) * inverse
    z = s * s
    z_rest = w.fma(s, s, -z) + (s + s) * s_rest
    later = z * w.polynomial(z, LOG_LATER)
    t = later + LOG_FIRST
    t_rest = (later - (t - LOG_FIRST)) + LOG_FIRST_REST
    q, q_rest = _product(w, (z, z_rest), (t, t_rest))
    g, g_rest = _product(w, (s, s_rest), (q, q_rest))
    twice = s + s
    one, one_rest = _sum(twice, g, s_rest + s_rest + g_rest)
    return _sum(k * LN2_SHORT, one, w.fma(k, LN2_SHORT_REST, one_rest))


def _product(w: Writer, a: tuple[Value, Value], b: tuple[Value, Value]) -> tuple[Value, Value]:
    high = a[0] * b[0]
    return high, w.fma(a[1], b[0], w.fma(a[0], b[1], w.fma(a[0], b[0], -high)))


def _sum(a: Value, b: Value, rest: Value) -> tuple[Value, Value]:
    """Write a + b + rest as two numbers, for |a| >= |b| or a = 0."""
    high = a + b
    low = (a - high) + b + rest
    total = high + low
    return total, (high - total) + low


def _less_multiples(w: Writer, x: Value, k: Value, part: float) -> Value:
    """Write x - k * pi * part, where the multiple is near x."""
    for number in PI:
        x = w.fma(k, -number * part, x)
    return x


def _sine(w: Writer, x: Value, k: Value, shifted: Value) -> Value:
    """Write sin(x - k pi), negated where the integer in `shifted` is odd."""
    r = _less_multiples(w, x, k, 1.0)
    return (_odd(w, r, r * r, SIN).bits() ^ (shifted.bits() << 63)).as_real()


def _near(w: Writer, x: Value, result: Value) -> Written:
    """Return a periodic function, which is NaN at infinities; huge arguments remain for the scalar function."""
    size = w.fabs(x)
    outside = size.beyond(FAR)
    return Written(result, outside, lambda: (w.select(outside, math.nan, result), outside & (size < math.inf)))


def sin(w: Writer, x: Value) -> Written:
    """Write the sine."""
    shifted = w.fma(x, 1 / math.pi, ROUND)
    return _near(w, x, _sine(w, x, shifted - ROUND, shifted))


def cos(w: Writer, x: Value) -> Written:
    """Write the cosine, as the sine of x reduced by half-odd multiples of pi."""
    shifted = w.fma(x, 1 / math.pi, 0.5) + ROUND
    return _near(w, x, _sine(w, x, shifted - ROUND - 0.5, shifted))


def tan(w: Writer, x: Value) -> Written:
    """Write the tangent."""
    shifted = w.fma(x, 2 / math.pi, ROUND)
    r = _less_multiples(w, x, shifted - ROUND, 0.5)
    z = r * r
    sine = _odd(w, r, z, SIN_SHORT)
    cosine = w.fma(z * z, w.polynomial(z, COS_SHORT), w.fma(z, -0.5, 1.0))
    turned = (shifted.bits() & 1).equals(1)
    top = w.select(turned, -cosine, sine)
    bottom = w.select(turned, sine, cosine)
    return _near(w, x, top / bottom)


def _arctangent(w: Writer, size: Value) -> Value:
    """Write the arctangent of a nonnegative number."""
    far = size > 2.414213562373095
    middle = size > 0.4142135623730951
    top = w.select(far, -1.0, w.select(middle, size - 1.0, size))
    bottom = w.select(far, size, w.select(middle, size + 1.0, 1.0))
    t = top / bottom
    z = t * t
    rest = w.select(far, HALF_PI_REST, w.select(middle, HALF_PI_REST / 2, 0.0))
    base = w.select(far, HALF_PI, w.select(middle, HALF_PI / 2, 0.0))
    return base + (t + w.fma(t, z * w.polynomial(z, ATAN), rest))


def atan(w: Writer, x: Value) -> Written:
    """Write the arctangent."""
    return Written(w.copysign(_arctangent(w, w.fabs(x)), x))


def atan2(w: Writer, y: Value, x: Value) -> Written:
    """Write the angle of the point (x, y)."""
    quotient = w.fabs(y) / w.fabs(x)
    angle = _arctangent(w, quotient)
    turned = PI[0] - (angle - PI[1])
    return Written(w.copysign(w.select(x < 0.0, turned, angle), y), quotient.undefined())


def _arcsine(w: Writer, size: Value) -> tuple[Value, Value]:
    """Write asin(size) where size <= 1/2, else acos(size) / 2; also return where it is the latter."""
    large = size > 0.5
    z = w.select(large, w.fma(size, -0.5, 0.5), size * size)
    t = w.select(large, w.intrinsic("sqrt", z), size)
    return w.fma(t, z * w.polynomial(z, ASIN), t), large


def asin(w: Writer, x: Value) -> Written:
    """Write the arcsine."""
    part, large = _arcsine(w, w.fabs(x))
    return Written(w.copysign(w.select(large, HALF_PI - (part + part - HALF_PI_REST), part), x))


def acos(w: Writer, x: Value) -> Written:
    """Write the arccosine."""
    part, large = _arcsine(w, w.fabs(x))
    signed = w.copysign(part, x)
    twice = part + part
    near_one = w.select(x < 0.0, PI[0] - (twice - PI[1]), twice)
    return Written(w.select(large, near_one, HALF_PI - (signed - HALF_PI_REST)))


def _erfc_far(w: Writer, size: Value) -> Value:
    """Write erfc of a number of at least 1."""
    x = w.select(size > 27.3, 27.3, size)
    square = -(x * x)
    parts = _powers(w, square, -w.fma(x, x, square))
    t = (x - 3.0) / (x + 3.0)
    factor = w.fma(t, w.polynomial(t, ERFC[1:]), ERFC[0]) / (x + 2.0)
    return _scaled(w, parts, square, factor)


def erf(w: Writer, x: Value) -> Written:
    """Write the error function."""
    size = w.fabs(x)
    near = w.fma(size, w.polynomial(size * size, ERF), size)
    return Written(w.copysign(w.select(size < 1.0, near, 1.0 - _erfc_far(w, size)), x))


def erfc(w: Writer, x: Value) -> Written:
    """Write 1 - erf(x)."""
    size = w.fabs(x)
    near = w.fma(-x, w.polynomial(x * x, ERF), 1.0 - x)
    far = _erfc_far(w, size)
    return Written(w.select(size < 1.0, near, w.select(x < 0.0, 2.0 - far, far)))


def cbrt(w: Writer, x: Value) -> Written:
    """Write the cube root: an estimate from the bits, then two Halley steps and a Newton step."""
    size = w.fabs(x)
    t = w.third(size)
    for _ in range(2):
        cube = t * t * t
        t = t * ((cube + size + size) / (cube + cube + size))
    square = t * t
    t = t - w.fma(square, t, -size) / (square * 3.0)
    zero = x.equals(0.0)
    outside = (size < 2.0**-900) | size.beyond(2.0**1000)
    result = w.copysign(t, x)
    return Written(result, outside, lambda: (w.select(zero, x, result), outside & (size > 0.0)))


def hypot(w: Writer, x: Value, y: Value) -> Written:
    """Write the length of (x, y)."""
    extent = w.fabs(x) + w.fabs(y)
    result = w.intrinsic("sqrt", w.fma(x, x, y * y))
    outside = (extent < 2.0**-450) | extent.beyond(2.0**500)
    return Written(result, outside, lambda: (result, outside & extent.equals(0.0).equals(0)))


WRITTEN: dict[str, Callable[..., Written]] = {
    function.__name__: function
    for function in (
        *(exp, exp2, expm1, tanh, sinh, cosh, log, log2, log10, log1p, asinh, acosh, atanh, pow),
        *(sin, cos, tan, atan, atan2, asin, acos, erf, erfc, cbrt, hypot),
    )
}
"""The functions of this module by their names in math.h."""
