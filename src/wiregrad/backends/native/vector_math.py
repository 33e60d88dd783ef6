"""The functions of math.h on vectors: which implementation is used for each, and how a call of it is written.

There are four sources: an *instruction* of the processor; a *polynomial* of ours; *libmvec*, the vector library of
glibc, each of whose functions is tested at edge points before it is used; and the *scalar* function of C, called lane
by lane, which is always there. In every source the result of a lane depends on that lane alone.

Vectors of double take polynomials first: they give the same bits for any number of lanes and on every processor with
fused multiply-add, and are about as fast as libmvec. So do vectors of float for the functions that have coefficients
of their own for float (`FLOAT_FUNCTIONS`); for the others they take libmvec first, because there our polynomials
compute in double, at half its speed. A single number takes the scalar function, except where a polynomial is faster.
`WIREGRAD_VECTOR_MATH` names a source to try before these.

A function of ours reduces its argument, evaluates a polynomial and combines the parts. Lanes outside its domain are
returned as a mask beside the result; the scalar function of the C library computes those. Every operation is one of
IEEE 754, with fused multiply-add where written, so that elsewhere the bits depend neither on the number of lanes nor on
the processor. Errors are below 4 ulp, most below 2, in float too. The polynomials interpolate at Chebyshev points in
60 digits and are then rounded (`tests/backends/test_vectormath.py` computes them again).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad import settings
from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
    REAL_BITS,
    LlvmOperand,
    LlvmValue,
    LlvmWriter,
    call_intrinsic,
    format_intrinsic_suffix,
    format_pointer,
    format_vector_type,
    loop_over,
    when_all,
)
from wiregrad.errors import NoRuleError
from wiregrad.lazy import NamedTuple, record
from wiregrad.ops.c_expressions import MATH_H_FUNCTIONS


def _parse_hex_floats(text: str) -> tuple[float, ...]:
    return tuple(map(float.fromhex, text.split()))


ROUND = 1.5 * 2.0**52
"""Adding this to a number below 2**51 leaves the nearest integer in the low bits."""
SMALLEST = 2.0**-1022
"""The smallest normal number."""
TINY = 2.0**-54
"""Below this, x + x**2 rounds to x."""
LOG2_E, LOG10_E = _parse_hex_floats("0x1.71547652b82fep+0 0x1.bcb7b1526e50ep-2")
LN2, LN2_REST = _parse_hex_floats("0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56")
LN2_SHORT, LN2_SHORT_REST = _parse_hex_floats("0x1.62e42fefa3800p-1 0x1.ef35793c76730p-45")
"""log(2) in two parts; the first has 42 bits, so that its product with an exponent is exact."""
LOG10_2, LOG10_2_REST = _parse_hex_floats("0x1.34413509f79ffp-2 -0x1.9dc1da994fd21p-59")
PI = _parse_hex_floats("0x1.921fb54442d18p+1 0x1.1a62633145c06p-53 0x1.c1cd129024e08p-106")
"""Pi in three parts, each rounded down, so that a reduced -0.0 stays -0.0."""
HALF_PI = PI[0] / 2
HALF_PI_REST = PI[1] / 2
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD

EXP = _parse_hex_floats(
    "0x1.0000000000001p-1 0x1.5555555555556p-3 0x1.5555555553d63p-5 0x1.11111111109b3p-7 0x1.6c16c1788bd90p-10 "
    "0x1.a01a01a7c41d5p-13 0x1.a019b90d2ae7ap-16 0x1.71de0dae63bb3p-19 0x1.289185613a3d6p-22 0x1.af38a9b0ec855p-26"
)
"""(e**r - 1 - r) / r**2 for |r| <= ln(2) / 2."""
EXP_SHORT = _parse_hex_floats(
    "0x1.000000000002ep-1 0x1.555555555556ap-3 0x1.5555554e93acap-5 0x1.1111110e10556p-7 0x1.6c1b7131a0993p-10 "
    "0x1.a01e2c15a33f3p-13"
)
"""The same for |r| <= ln(2) / 16."""
ROOTS_OF_2 = _parse_hex_floats(
    "0x1.0000000000000p+0 0x1.172b83c7d517bp+0 0x1.306fe0a31b715p+0 0x1.4bfdad5362a27p+0 0x1.6a09e667f3bcdp+0 "
    "0x1.8ace5422aa0dbp+0 0x1.ae89f995ad3adp+0 0x1.d5818dcfba487p+0"
)
"""2**(k / 8) for k from 0 to 7."""
ROOT_BITS = 3
"""The number of bits of such a k."""
COTH = _parse_hex_floats(
    "0x1.555555555553cp-2 -0x1.6c16c16be8510p-6 0x1.1566aae5d9480p-9 -0x1.bbd3f9ddeb4a9p-13 0x1.636664deb396dp-16"
)
"""(r * coth(r) - 1) / r**2 as a polynomial in r**2, for r up to log(2) / 4."""
LOG = _parse_hex_floats(
    "0x1.5555555555558p-1 0x1.9999999995273p-2 0x1.2492492dfd86cp-2 0x1.c71c62d5e53e0p-3 0x1.7462b91b8df65p-3 "
    "0x1.39fdcceb4bb45p-3 0x1.2b5f68a50d903p-3"
)
"""(log(m) / s - 2) / z with s = (m - 1) / (m + 1), z = s**2, for m between the roots of 1/2 and 2."""
LOG_FIRST, LOG_FIRST_REST = _parse_hex_floats("0x1.5555555555555p-1 0x1.5555555555555p-55")
LOG_LATER = _parse_hex_floats(
    "0x1.9999999999a39p-2 0x1.2492492476a1ap-2 0x1.c71c7201a55d7p-3 0x1.745cf8e4bba1bp-3 0x1.3b1c3c1c81c8fp-3 "
    "0x1.0fbde0f4ad17bp-3 0x1.0c0aff044a970p-3"
)
"""The same with one more power; its first coefficient is 2/3 in two parts (LOG_FIRST)."""
SIN = _parse_hex_floats(
    "-0x1.5555555555555p-3 0x1.1111111111107p-7 -0x1.a01a01a018aa6p-13 0x1.71de3a54562a8p-19 -0x1.ae6455a1a9e7ep-26 "
    "0x1.6124014cbe2fcp-33 -0x1.ae513415aadccp-41 0x1.89a3f16388edcp-49"
)
"""(sin(r) / r - 1) / z with z = r**2, for |r| <= pi / 2."""
SIN_SHORT = _parse_hex_floats(
    "-0x1.5555555555555p-3 0x1.1111111110bb1p-7 -0x1.a01a019e8357dp-13 0x1.71de37961e4c6p-19 -0x1.ae600a926c89ap-26 "
    "0x1.5e0af186af739p-33"
)
"""The same for |r| <= pi / 4."""
COS_SHORT = _parse_hex_floats(
    "0x1.5555555555555p-5 -0x1.6c16c16c16966p-10 0x1.a01a019f4e867p-16 -0x1.27e4fa17a41b4p-22 0x1.1eeb68b109173p-29 "
    "-0x1.907d7aebd5e3dp-37"
)
"""(cos(r) - 1 + z / 2) / z**2 with z = r**2, for |r| <= pi / 4."""
ATAN = _parse_hex_floats(
    "-0x1.5555555555555p-2 0x1.9999999999349p-3 -0x1.2492492435f94p-3 0x1.c71c718525179p-4 -0x1.745d0b24c84b9p-4 "
    "0x1.3b1262ac559f6p-4 -0x1.10fa72be60a45p-4 0x1.dfe5f37f19896p-5 -0x1.a097da67e31f2p-5 0x1.415dac51ca1cfp-5 "
    "-0x1.3a254249bb975p-6"
)
"""(atan(t) / t - 1) / z with z = t**2, for |t| <= tan(pi / 8)."""
ASIN = _parse_hex_floats(
    "0x1.5555555555556p-3 0x1.3333333332ec4p-4 0x1.6db6db6e3292ep-5 0x1.f1c71c1d4aa0dp-6 0x1.6e8bb1d89492cp-6 "
    "0x1.1c4d343fa57eep-6 0x1.c9cf3759fd9d9p-7 0x1.78246f32cffefp-7 0x1.524ea8b3ad906p-7 0x1.653a8f8ce7ab1p-8 "
    "0x1.1d661531bfbf6p-6 -0x1.e7a24f54b44b4p-7 0x1.d781897681dfbp-6"
)
"""(asin(t) / t - 1) / z with z = t**2, for |t| <= 1/2."""
ERF = _parse_hex_floats(
    "0x1.06eba8214db69p-3 -0x1.812746b0379e6p-2 0x1.ce2f21a042b30p-4 -0x1.b82ce31284e00p-6 0x1.565bcd0dbaa38p-8 "
    "-0x1.c02db3dac435fp-11 0x1.f9a321d5b8e1ep-14 -0x1.f4d1e3183f7aep-17 0x1.b9df224ca4b97p-20 "
    "-0x1.5f1ecb6f0764cp-23 0x1.f7b4bf3b13961p-27 -0x1.389d4f264161dp-30 0x1.05ffd737fb318p-34"
)
"""erf(x) / x - 1 as a polynomial in x**2, for |x| <= 1."""
ERFC = _parse_hex_floats(
    "0x1.ca3e31c6b4478p-1 -0x1.1d44314d2e0efp-1 0x1.60e5426b398b4p-2 -0x1.48664693b2843p-3 0x1.8815bad5fe5cbp-5 "
    "-0x1.3f20290b24a51p-9 -0x1.673d32b171b7cp-8 0x1.30ea32e786fdfp-9 0x1.98f69d2c42d38p-15 -0x1.51ad4083d118ap-12 "
    "0x1.6cf347435d3c3p-15 0x1.6ae86331174f6p-15 -0x1.3ead27407957fp-17 -0x1.cdc36b5c4e4d1p-18 0x1.9c6682ed81e15p-20 "
    "0x1.5fa0c6ee3c0e4p-20 -0x1.f14232587264cp-23 -0x1.116d74440e65dp-22 0x1.034089fc37ef1p-24 0x1.7c41ccd28ce0dp-27"
)
"""(x + 2) * e**x**2 * erfc(x) as a polynomial in (x - 3) / (x + 3), for x from 1 to 28."""


class RealFormat(NamedTuple):
    """What the functions need to know of double or float; the coefficients approximate the same functions in both."""

    fraction_bits: int
    bias: int
    """What is added to an exponent in the bits of a number."""
    round: float
    """Adding this to a small number leaves the nearest integer in the low bits."""
    smallest: float
    """The smallest normal number."""
    tiny: float
    """Below this, x + x**2 rounds to x."""
    sqrt_half_bits: int
    exp_range: tuple[float, float]
    """e**x is 0 below and infinite above it; the same holds of 2**x in `exp2_range`."""
    exp2_range: tuple[float, float]
    scale: int
    """Powers of 2 up to the largest number are written as two factors, one of them this power."""
    low: float
    """Below this, e**x - 1 is -1."""
    one: float
    """Above this, tanh(x) is 1."""
    cosh_end: float
    """At this, sinh and cosh are infinite."""
    erfc_end: float
    """Above this, erfc(x) is 0."""
    far: float
    """Beyond this, three parts of pi are too few to reduce the argument of a periodic function."""
    huge: float
    """The square of a larger number may overflow."""
    log2_e: float
    ln2: tuple[float, float]
    """log(2) in two parts."""
    pi: tuple[float, ...]
    """Pi in three parts, each rounded down, so that a reduced -0.0 stays -0.0."""
    exp: tuple[float, ...]
    coth: tuple[float, ...]
    log: tuple[float, ...]
    sin: tuple[float, ...]
    erf: tuple[float, ...]
    erfc: tuple[float, ...]

    @property
    def one_bits(self) -> int:
        """The bits of 1.0."""
        return self.bias << self.fraction_bits


DOUBLE = RealFormat(
    fraction_bits=52,
    bias=1023,
    round=ROUND,
    smallest=SMALLEST,
    tiny=TINY,
    sqrt_half_bits=SQRT_HALF_BITS,
    exp_range=(-746.0, 710.0),
    exp2_range=(-1076.0, 1025.0),
    scale=64,
    low=-40.0,
    one=20.0,
    cosh_end=710.5,
    erfc_end=27.3,
    far=2.0**30,
    huge=2.0**500,
    log2_e=LOG2_E,
    ln2=(LN2, LN2_REST),
    pi=PI,
    exp=EXP,
    coth=COTH,
    log=LOG,
    sin=SIN,
    erf=ERF,
    erfc=ERFC,
)
FLOAT = RealFormat(
    fraction_bits=23,
    bias=127,
    round=1.5 * 2.0**23,
    smallest=2.0**-126,
    tiny=2.0**-25,
    sqrt_half_bits=0x3F3504F3,
    exp_range=(-104.0, 89.0),
    exp2_range=(-151.0, 129.0),
    scale=64,
    low=-20.0,
    one=10.0,
    cosh_end=89.5,
    erfc_end=10.2,
    far=2.0**13,
    huge=2.0**60,
    log2_e=float.fromhex("0x1.715476p+0"),
    ln2=(float.fromhex("0x1.62e43p-1"), float.fromhex("-0x1.05c61p-29")),
    pi=_parse_hex_floats("0x1.921fb4p+1 0x1.4442d0p-23 0x1.846988p-47"),
    exp=_parse_hex_floats("0x1.000000p-1 0x1.5554dcp-3 0x1.555518p-5 0x1.120b74p-7 0x1.6d1238p-10"),
    coth=_parse_hex_floats("0x1.55551cp-2 -0x1.6a9d82p-6"),
    log=_parse_hex_floats("0x1.555556p-1 0x1.9999ecp-2 0x1.245c28p-2 0x1.ddd4dap-3"),
    sin=_parse_hex_floats("-0x1.555556p-3 0x1.111110p-7 -0x1.a01906p-13 0x1.71968ap-19 -0x1.9db0f6p-26"),
    erf=_parse_hex_floats(
        "0x1.06eba8p-3 -0x1.812746p-2 0x1.ce2f08p-4 -0x1.b829c8p-6 0x1.562a60p-8 -0x1.bccf66p-11 0x1.d88750p-14 "
        "-0x1.445f48p-17"
    ),
    erfc=_parse_hex_floats(
        "0x1.ca3e32p-1 -0x1.1d4432p-1 0x1.60e540p-2 -0x1.486652p-3 0x1.88170cp-5 -0x1.3eebd4p-9 -0x1.67a826p-8 "
        "0x1.2f651ap-9 0x1.3e5d30p-14 -0x1.2afc72p-12"
    ),
)
"""Fewer coefficients, rounded to float; those of erfc serve x from 1 to 10.2."""
FORMATS = {"double": DOUBLE, "float": FLOAT}


SCALEF_FEATURE = "avx512f"
"""The processor feature that has instructions for multiplying by powers of 2 and for looking up 8 doubles."""
RANGE_FEATURE = "avx512dq"
"""The processor feature that has an instruction for limiting the size of a number."""


def list_used_features() -> frozenset[str]:
    """Return the features beyond fused multiply-add that functions use here; the bits are the same without them."""
    used = frozenset([SCALEF_FEATURE, RANGE_FEATURE, "avx512vl"])
    return used if used <= jit.processor_features() else frozenset()


def _call_on_lanes(name: str, *operands: LlvmOperand) -> LlvmValue:
    like = next(operand for operand in operands if isinstance(operand, LlvmValue))
    values = [like.writer.as_value(operand, like.element, like.lanes) for operand in operands]
    return call_intrinsic(name, *values)


def fma(a: LlvmOperand, b: LlvmOperand, c: LlvmOperand) -> LlvmValue:
    """Write a * b + c with a single rounding."""
    return _call_on_lanes("fma", a, b, c)


def fabs(x: LlvmValue) -> LlvmValue:
    """Write the magnitude."""
    return _call_on_lanes("fabs", x)


def sqrt(x: LlvmValue) -> LlvmValue:
    """Write the square root."""
    return _call_on_lanes("sqrt", x)


def rint(x: LlvmValue) -> LlvmValue:
    """Write the nearest integer."""
    return _call_on_lanes("rint", x)


def copysign(x: LlvmOperand, sign: LlvmValue) -> LlvmValue:
    """Write the magnitude of one value with the sign of another."""
    return _call_on_lanes("copysign", x, sign)


def select(condition: LlvmValue, yes: LlvmOperand, no: LlvmOperand) -> LlvmValue:
    """Write one value where a condition holds, another elsewhere."""
    return condition.writer.select(condition, yes, no)


def clamp(x: LlvmValue, low: float, high: float) -> LlvmValue:
    """Write a value clamped to two limits; NaN stays NaN."""
    below = select(x < low, low, x)
    return select(below > high, high, below)


def is_not_below(x: LlvmValue, limit: float) -> LlvmValue:
    """Write in which lanes a value is not less than a limit; true for NaN."""
    return x.compare("uge", limit)


def is_not_above(x: LlvmValue, limit: float) -> LlvmValue:
    """Write in which lanes a value is not greater than a limit; true for NaN."""
    return x.compare("ule", limit)


def _no_lanes(x: LlvmValue) -> LlvmValue:
    """Return a condition that holds in no lane."""
    return x.writer.as_value(False, "i1", x.lanes)


SCALEF_LANES = {"double": frozenset([1, 4, 8, 16]), "float": frozenset([4, 8, 16, 32])}
"""The lane counts for which AVX-512 multiplies by powers of 2, in one instruction or in two."""
SCALEF_BITS = 512
"""The size of the longest vectors of that instruction."""
TABLE_LANES = 8
"""The number of entries of a table, and of doubles in the longest vectors."""


def scale_by_power_of_2(x: LlvmValue, k: LlvmValue) -> LlvmValue:
    """Write x * 2**k, k being a real that holds an integer."""
    w = x.writer
    if x.lanes == 1:
        pair = [w.emit_value("double", f"insertelement <2 x double> poison, {v.typed}, i32 0", 2) for v in (x, k)]
        both = _call_scalef("sd", pair, ["i32 4"])
        return w.emit_value("double", f"extractelement {both.typed}, i32 0")
    bits = REAL_BITS[x.element] * x.lanes
    if bits > SCALEF_BITS:
        halves = [scale_by_power_of_2(*pair) for pair in zip(split_lanes(x), split_lanes(k), strict=True)]
        return halves[0].pick_lanes(range(x.lanes), halves[1])
    form = "pd" if x.element == "double" else "ps"
    return _call_scalef(f"{form}.{bits}", (x, k), ["i32 4"] if bits == 512 else [])


def look_up(name: str, table: Sequence[float], index: LlvmValue) -> LlvmValue:
    """Write the entries of a table of 8 doubles whose numbers are the low bits of integers."""
    w = index.writer
    if SCALEF_FEATURE in w.features and 1 < index.lanes < TABLE_LANES:
        wide = index.pick_lanes([k % index.lanes for k in range(TABLE_LANES)])
        return look_up(name, table, wide).pick_lanes(range(index.lanes))
    if index.lanes > TABLE_LANES:
        low, high = (look_up(name, table, half) for half in split_lanes(index))
        return low.pick_lanes(range(index.lanes), high)
    numbers = ", ".join(w.as_value(entry, "double", 1).typed for entry in table)
    if SCALEF_FEATURE in w.features and index.lanes == TABLE_LANES:
        kind = format_vector_type("double", TABLE_LANES)
        w.declare(kind, "@llvm.x86.avx512.permvar.df.512", kind, index.llvm_type)
        call = f"call {kind} @llvm.x86.avx512.permvar.df.512({kind} <{numbers}>, {index.typed})"
        return w.emit_shared("double", call, TABLE_LANES)
    w.declared.add(f"@{name} = internal constant [{len(table)} x double] [{numbers}]")
    start = w.name_value(f"@{name}", "ptr", 1)
    places = index & (TABLE_LANES - 1)
    lanes = [places] if index.lanes == 1 else [places.take_lane(k) for k in range(index.lanes)]
    entries = [w.load("double", w.point_to("double", start, place), 1) for place in lanes]
    return entries[0] if index.lanes == 1 else w.join_lanes(entries, index.lanes)


def limit_size(x: LlvmValue, limit: float) -> LlvmValue:
    """Write x, or the limit with the sign of x where that is nearer to 0 or where x is NaN."""
    w = x.writer
    if x.lanes > TABLE_LANES:
        low, high = (limit_size(half, limit) for half in split_lanes(x))
        return low.pick_lanes(range(x.lanes), high)
    kind, most = x.llvm_type, w.as_value(limit, x.element, x.lanes)
    name = "@llvm.x86.avx512.mask.range.pd.512"
    w.declare(kind, name, kind, kind, "i32", kind, "i8", "i32")
    return w.emit_value(
        x.element, f"call {kind} {name}({x.typed}, {most.typed}, i32 2, {kind} zeroinitializer, i8 -1, i32 4)", x.lanes
    )


def split_lanes(x: LlvmValue) -> list[LlvmValue]:
    """Write the lower and the upper half of the lanes."""
    half = x.lanes // 2
    return [x.pick_lanes(range(first, first + half)) for first in (0, half)]


def _call_scalef(form: str, values: Sequence[LlvmValue], rounding: list[str]) -> LlvmValue:
    """Write a call of AVX-512's scalef; its mask selects all lanes, so the third operand is not used."""
    w = values[0].writer
    kind = values[0].llvm_type
    mask = f"i{max(8, values[0].lanes)}"
    name = f"@llvm.x86.avx512.mask.scalef.{form}"
    w.declare(kind, name, kind, kind, kind, mask, *("i32" for _ in rounding))
    operands = [*(value.typed for value in values), f"{kind} zeroinitializer", f"{mask} -1", *rounding]
    return w.emit_value(values[0].element, f"call {kind} {name}({', '.join(operands)})", values[0].lanes)


def estimate_cube_root(x: LlvmValue) -> LlvmValue:
    """Write the cube root of a positive normal number to within a tenth, by a third of its bits."""
    bits = x.as_bits().convert("uitofp", "double")
    near = bits * (1 / 3) + 0x2A9F7893 * 2.0**32
    return near.convert("fptoui", "i64").as_real()


def evaluate_polynomial(x: LlvmValue, coefficients: Sequence[float]) -> LlvmValue:
    """Write a polynomial, lowest power first, by Estrin's scheme, whose dependency chain is short.

    The last three terms are joined one after the other, which takes as long and needs no further power.
    """
    terms: list[LlvmOperand] = list(coefficients)
    power = x
    while len(terms) > 3:
        pairs = [fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
        terms = [*pairs, *terms[len(pairs) * 2 :]]
        power = power * power
    result = terms.pop()
    while terms:
        result = fma(result, power, terms.pop())
    return x.writer.as_value(result, x.element, x.lanes)


def evaluate_in_turn(x: LlvmValue, coefficients: Sequence[float]) -> LlvmValue:
    """Write a polynomial, lowest power first, by Horner's scheme, which has the fewest instructions."""
    result = x.writer.as_value(coefficients[-1], x.element, x.lanes)
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


class PolynomialResult(NamedTuple):
    """The result of a function, and the lanes that need a fallback."""

    result: LlvmValue
    outside: LlvmValue | None = None
    """The lanes whose result is wrong; None if there are never any."""
    edges: Callable[[], tuple[LlvmValue, LlvmValue]] | None = None
    """Writes corrected results for such lanes, and returns the lanes that remain for the scalar function."""


def evaluate_odd(r: LlvmValue, z: LlvmValue, coefficients: Sequence[float]) -> LlvmValue:
    """Write r + r * (z * polynomial(z)); the leading coefficient 0.0 preserves the sign of a zero."""
    return fma(r, evaluate_polynomial(z, (0.0, *coefficients)), r)


class ExponentialParts(NamedTuple):
    """e**x as 2**k * (1 + p): `shifted` is k + round, so that its low bits hold k."""

    shifted: LlvmValue
    p: LlvmValue

    def write_power_of_2(self, less: int) -> LlvmValue:
        """Write 2**(k - less), which must be a normal number."""
        return _write_power_of_2(self.shifted, less)


def _write_power_of_2(shifted: LlvmValue, less: int = 0) -> LlvmValue:
    """Write 2**(k - less), which must be a normal number; the low bits of `shifted` hold k."""
    c = FORMATS[shifted.element]
    return ((shifted.as_bits() + (c.bias - less)) << c.fraction_bits).as_real()


def _split_exponential(x: LlvmValue, rest: LlvmValue | None = None) -> ExponentialParts:
    """Write e**(x + rest) in parts, for |x| below 2**40, or 2**20 in float; p is 0.0 at -0.0."""
    c = FORMATS[x.element]
    shifted = fma(x, c.log2_e, c.round)
    k = shifted - c.round
    r = fma(k, -c.ln2[0], x)
    r = fma(k, -c.ln2[1], r) if rest is None else r + fma(k, -c.ln2[1], rest)
    return ExponentialParts(shifted, _add_higher_powers(r, r))


def _add_higher_powers(r: LlvmValue, linear: LlvmValue) -> LlvmValue:
    """Write linear + (e**r - 1 - r)."""
    return fma(r * r, evaluate_polynomial(r, FORMATS[r.element].exp), linear)


def _join_exponential(parts: ExponentialParts, x: LlvmValue, factor: LlvmValue | None = None) -> LlvmValue:
    """Write 2**k * (1 + p) * factor; the scaling comes last, so it rounds only once. x has the sign of k."""
    near = parts.p + 1.0 if factor is None else fma(parts.p, factor, factor)
    return _scale_last(near, parts.shifted, x)


def _scale_last(near: LlvmValue, shifted: LlvmValue, x: LlvmValue, part_bits: int = 0) -> LlvmValue:
    """Write 2**k * near; k is the integer in the low bits of `shifted` but for `part_bits`, with the sign of x."""
    c = FORMATS[x.element]
    if SCALEF_FEATURE in x.writer.features and x.lanes in SCALEF_LANES[x.element]:
        # The instruction rounds its second operand down.
        return scale_by_power_of_2(near, shifted - c.round * 2.0**-part_bits)
    down = x < 0.0
    bits = shifted.as_bits()
    if part_bits:
        bits = bits & -(1 << part_bits)
    bias = x.writer.select(down, c.bias + c.scale << part_bits, c.bias - c.scale << part_bits, bits.element)
    power = ((bits + bias) << c.fraction_bits - part_bits).as_real()
    return near * power * x.writer.select(down, 2.0**-c.scale, 2.0**c.scale, x.element)


def exp(x: LlvmValue) -> PolynomialResult:
    """Write e**x."""
    if x.element == "double":
        return PolynomialResult(_exp_by_roots(x))
    x = clamp(x, *FORMATS[x.element].exp_range)
    return PolynomialResult(_join_exponential(_split_exponential(x), x))


def _exp_by_roots(x: LlvmValue) -> LlvmValue:
    """Write e**x as a power of 2**(1 / 8), from a table, times e**r, which needs fewer coefficients then."""
    limits_rest = RANGE_FEATURE in x.writer.features and x.lanes % TABLE_LANES == 0
    if not limits_rest:
        x = clamp(x, *DOUBLE.exp_range)
    step = ROUND * 2.0**-ROOT_BITS
    shifted = fma(x, LOG2_E, step)
    k = shifted - step
    r = fma(k, -LN2_REST, fma(k, -LN2, x))
    if limits_rest:
        # Where x is so large that r is any number, k alone makes the result 0, infinite or NaN.
        r = limit_size(r, 1.0)
    p = fma(r * r, evaluate_polynomial(r, EXP_SHORT), r)
    root = look_up("roots_of_2", ROOTS_OF_2, shifted.as_bits())
    return _scale_last(fma(root, p, root), shifted, x, ROOT_BITS)


def exp2(x: LlvmValue) -> PolynomialResult:
    """Write 2**x."""
    c = FORMATS[x.element]
    x = clamp(x, *c.exp2_range)
    shifted = x + c.round
    r = (x - (shifted - c.round)) * c.ln2[0]
    return PolynomialResult(_join_exponential(ExponentialParts(shifted, _add_higher_powers(r, r)), x))


def expm1(x: LlvmValue) -> PolynomialResult:
    """Write e**x - 1."""
    c = FORMATS[x.element]
    bounded = clamp(x, c.low, c.exp_range[1])
    parts = _split_exponential(bounded)
    half = parts.write_power_of_2(1)
    result = fma(half, parts.p, half - 0.5) * 2.0
    return PolynomialResult(select(fabs(x) < c.tiny, x, result))


def tanh(x: LlvmValue) -> PolynomialResult:
    """Write the hyperbolic tangent: t / (t + 2) where t = e**2x - 1.

    With x = k * ln(2) / 2 + r, e**2r is (c + r) / (c - r) where c = r * coth(r). The even function c needs half as many
    coefficients as e**2r, and its denominator drops out of the quotient: t = 2 * n / d where d = c - r, and the result
    is n / (n + d). The second part of k * ln(2) is left out of c, so that this need not wait for it. As d is positive,
    no quotient is above 1.
    """
    c = FORMATS[x.element]
    size = fabs(x)
    size = select(size > c.one, c.one, size)
    # With the bias in the number that rounds, the low bits of the sum are the exponent of 2**(k - 1).
    rounds = c.round + (c.bias - 1)
    shifted = fma(size, 2.0 * c.log2_e, rounds)
    k = shifted - rounds
    near = fma(k, -c.ln2[0] / 2, size)
    r = fma(k, -c.ln2[1] / 2, near)
    z = near * near
    # Loops over arrays are limited by the number of instructions, of which Horner's scheme has fewest.
    rest = evaluate_in_turn(z, c.coth)
    less = (shifted.as_bits() << c.fraction_bits).as_real() - 0.5
    # Small terms are added up first, so that only the last sum rounds much.
    n = less + fma(less, fma(z, rest, r), r)
    d = 1.0 - fma(-z, rest, r)
    return PolynomialResult(copysign(n / (n + d), x))


def sinh(x: LlvmValue) -> PolynomialResult:
    """Write the hyperbolic sine: (t + t / (t + 1)) / 2 where t = e**x - 1, computed with t / 4, which is finite."""
    c = FORMATS[x.element]
    size = fabs(x)
    bounded = select(size > c.cosh_end, c.cosh_end, size)
    parts = _split_exponential(bounded)
    quarter = parts.write_power_of_2(2)
    t = fma(quarter, parts.p, quarter - 0.25)
    result = fma(0.25, t / (t + 0.25), t) * 2.0
    return PolynomialResult(copysign(select(size < c.tiny, size, result), x))


def cosh(x: LlvmValue) -> PolynomialResult:
    """Write the hyperbolic cosine: (e**x + e**-x) / 2, computed with quarters, which cannot overflow."""
    c = FORMATS[x.element]
    size = fabs(x)
    bounded = select(size > c.cosh_end, c.cosh_end, size)
    parts = _split_exponential(bounded)
    quarter = parts.write_power_of_2(2)
    e = fma(quarter, parts.p, quarter)
    return PolynomialResult((e + 0.0625 / e) * 2.0)


class LogarithmParts(NamedTuple):
    """A positive normal number as 2**k * m, with m between sqrt(1/2) and sqrt(2): k, m and f = m - 1."""

    k: LlvmValue
    m: LlvmValue
    f: LlvmValue


def _split_for_logarithm(x: LlvmValue) -> LogarithmParts:
    c = FORMATS[x.element]
    shifted = x.as_bits() + (c.one_bits - c.sqrt_half_bits)
    # The exponent becomes the low bits of 2**52, which makes it a real without a conversion instruction.
    offset = (c.bias + c.fraction_bits) << c.fraction_bits
    k = ((shifted >> c.fraction_bits) | offset).as_real() - (2.0**c.fraction_bits + c.bias)
    m = ((shifted & ((1 << c.fraction_bits) - 1)) + c.sqrt_half_bits).as_real()
    return LogarithmParts(k, m, m - 1.0)


def _log_near_one(f: LlvmValue, rest: LlvmValue | float) -> LlvmValue:
    """Write log(1 + f) + rest, for 1 + f between sqrt(1/2) and sqrt(2) and a small rest."""
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    tail = z * evaluate_polynomial(z, FORMATS[f.element].log)
    return f - (half - fma(s, half + tail, rest))


def _is_outside_log(x: LlvmValue) -> LlvmValue:
    return (x < FORMATS[x.element].smallest) | is_not_below(x, math.inf)


def log_at_edges(x: LlvmValue, zero: float) -> LlvmValue:
    """Write a logarithm at its edges: -inf at `zero`, NaN below it, and x itself at inf and NaN."""
    end = x.writer.select(x.is_equal_to(zero), -math.inf, math.nan, x.element)
    return select(x > zero, x, end)


def _join_logarithm(x: LlvmValue, result: LlvmValue) -> PolynomialResult:
    """Return a logarithm with its edges; subnormal numbers remain for the scalar function."""
    outside = _is_outside_log(x)

    def edges() -> tuple[LlvmValue, LlvmValue]:
        return select(outside, log_at_edges(x, 0.0), result), (x > 0.0) & (x < FORMATS[x.element].smallest)

    return PolynomialResult(result, outside, edges)


def log(x: LlvmValue) -> PolynomialResult:
    """Write the natural logarithm."""
    c = FORMATS[x.element]
    parts = _split_for_logarithm(x)
    return _join_logarithm(x, fma(parts.k, c.ln2[0], _log_near_one(parts.f, parts.k * c.ln2[1])))


def log2(x: LlvmValue) -> PolynomialResult:
    """Write the logarithm to base 2."""
    parts = _split_for_logarithm(x)
    return _join_logarithm(x, fma(_log_near_one(parts.f, 0.0), LOG2_E, parts.k))


def log10(x: LlvmValue) -> PolynomialResult:
    """Write the logarithm to base 10."""
    parts = _split_for_logarithm(x)
    near = fma(_log_near_one(parts.f, 0.0), LOG10_E, parts.k * LOG10_2_REST)
    return _join_logarithm(x, fma(parts.k, LOG10_2, near))


def _log_of_one_plus(x: LlvmValue) -> LlvmValue:
    """Write log(1 + x), corrected for the rounding error of 1 + x, for finite x above -1."""
    c = FORMATS[x.element]
    u = x + 1.0
    above = u - 1.0
    lost = (1.0 - (u - above)) + (x - above)
    parts = _split_for_logarithm(u)
    rest = fma(parts.k, c.ln2[1], lost / u)
    return select(fabs(x) < c.tiny, x, fma(parts.k, c.ln2[0], _log_near_one(parts.f, rest)))


def log1p(x: LlvmValue) -> PolynomialResult:
    """Write log(1 + x)."""
    result = _log_of_one_plus(x)
    outside = is_not_above(x, -1.0) | is_not_below(x, math.inf)
    return PolynomialResult(result, outside, lambda: (select(outside, log_at_edges(x, -1.0), result), _no_lanes(x)))


def asinh(x: LlvmValue) -> PolynomialResult:
    """Write the inverse of sinh."""
    size = fabs(x)
    square = size * size
    t = size + square / (sqrt(square + 1.0) + 1.0)
    return PolynomialResult(copysign(_log_of_one_plus(t), x), is_not_below(size, 2.0**500))


def acosh(x: LlvmValue) -> PolynomialResult:
    """Write the inverse of cosh."""
    t = x - 1.0
    result = _log_of_one_plus(t + sqrt(fma(t, t, t + t)))
    return PolynomialResult(
        result, (x < 1.0) | is_not_below(x, 2.0**500), lambda: (select(x < 1.0, math.nan, result), x > 2.0**499)
    )


def atanh(x: LlvmValue) -> PolynomialResult:
    """Write the inverse of tanh."""
    size = fabs(x)
    half = _log_of_one_plus((size + size) / (1.0 - size)) * 0.5
    result = copysign(select(size < TINY, size, half), x)

    def edges() -> tuple[LlvmValue, LlvmValue]:
        end = copysign(select(size.is_equal_to(1.0), math.inf, math.nan), x)
        return select(size < 1.0, result, end), _no_lanes(x)

    return PolynomialResult(result, is_not_below(size, 1.0), edges)


def pow(x: LlvmValue, y: LlvmValue) -> PolynomialResult:
    """Write x**y as e**(y log x), with the logarithm and the product each as a sum of two numbers."""
    size = fabs(x)
    signed = signed_power(raise_by_logarithm(log_in_two(size), y), x, y)
    infinite = is_not_below(fabs(y), math.inf)
    return PolynomialResult(signed, _is_outside_log(size) | infinite, lambda: _power_of_zero(x, y, signed, infinite))


def raise_by_logarithm(logarithm: tuple[LlvmValue, LlvmValue], y: LlvmValue) -> LlvmValue:
    """Write e**(y * logarithm), the logarithm being a sum of two numbers."""
    high, low = logarithm
    product = y * high
    rest = fma(y, low, fma(y, high, -product))
    bounded = clamp(product, -746.0, 710.0)
    return _join_exponential(_split_exponential(bounded, select(product.is_equal_to(bounded), rest, 0.0)), bounded)


def signed_power(result: LlvmValue, x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Turn the power of |x| into that of x: negative for odd y, NaN if x is negative and y no integer."""
    half = y * 0.5
    even = rint(half).is_equal_to(half)
    integer = rint(y).is_equal_to(y)
    negative = select(integer, select(even, result, -result), math.nan)
    return select(x < 0.0, negative, result)


def _power_of_zero(x: LlvmValue, y: LlvmValue, result: LlvmValue, infinite: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Write powers of 0, which are common in data; other edges remain for the scalar function."""
    zero = x.is_equal_to(0.0) & infinite.is_equal_to(0)
    magnitude = select(y > 0.0, 0.0, select(y < 0.0, math.inf, 1.0))
    power = select(is_odd(y), copysign(magnitude, x), magnitude)
    others = _is_outside_log(fabs(x)) & x.is_equal_to(0.0).is_equal_to(0) | infinite
    return select(zero, power, result), others


def is_odd(y: LlvmValue) -> LlvmValue:
    """Write where a number is an odd integer."""
    half = y * 0.5
    return rint(y).is_equal_to(y) & rint(half).is_equal_to(half).is_equal_to(0)


def log_in_two(x: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Write the logarithm of a positive normal number as a sum of two, with a relative error of about 2**-65."""
    k, m, f = _split_for_logarithm(x)
    d = m + 1.0
    d_rest = m - (d - 1.0)
    inverse = 1.0 / d
    s = f * inverse
    s_rest = (fma(-s, d, f) - s * d_rest) * inverse
    z = s * s
    z_rest = fma(s, s, -z) + (s + s) * s_rest
    later = z * evaluate_polynomial(z, LOG_LATER)
    t = later + LOG_FIRST
    t_rest = (later - (t - LOG_FIRST)) + LOG_FIRST_REST
    q, q_rest = _multiply_pairs((z, z_rest), (t, t_rest))
    g, g_rest = _multiply_pairs((s, s_rest), (q, q_rest))
    twice = s + s
    one, one_rest = add_pairs(twice, g, s_rest + s_rest + g_rest)
    return add_pairs(k * LN2_SHORT, one, fma(k, LN2_SHORT_REST, one_rest))


def _multiply_pairs(a: tuple[LlvmValue, LlvmValue], b: tuple[LlvmValue, LlvmValue]) -> tuple[LlvmValue, LlvmValue]:
    high = a[0] * b[0]
    return high, fma(a[1], b[0], fma(a[0], b[1], fma(a[0], b[0], -high)))


def add_pairs(a: LlvmValue, b: LlvmValue, rest: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Write a + b + rest as two numbers, for |a| >= |b| or a = 0."""
    high = a + b
    low = (a - high) + b + rest
    total = high + low
    return total, (high - total) + low


def _subtract_multiple_of_pi(x: LlvmValue, k: LlvmValue, part: float) -> LlvmValue:
    """Write x - k * pi * part, where the multiple is near x."""
    for number in FORMATS[x.element].pi:
        x = fma(k, -number * part, x)
    return x


def _reduced_sine(x: LlvmValue, k: LlvmValue, shifted: LlvmValue) -> LlvmValue:
    """Write sin(x - k pi), negated where the integer in `shifted` is odd."""
    r = _subtract_multiple_of_pi(x, k, 1.0)
    sine = evaluate_odd(r, r * r, FORMATS[x.element].sin).as_bits()
    return (sine ^ (shifted.as_bits() << (REAL_BITS[x.element] - 1))).as_real()


def _join_periodic(x: LlvmValue, result: LlvmValue) -> PolynomialResult:
    """Return a periodic function, which is NaN at infinities; huge arguments remain for the scalar function."""
    size = fabs(x)
    outside = is_not_below(size, FORMATS[x.element].far)
    return PolynomialResult(result, outside, lambda: (select(outside, math.nan, result), outside & (size < math.inf)))


def sin(x: LlvmValue) -> PolynomialResult:
    """Write the sine."""
    c = FORMATS[x.element]
    shifted = fma(x, 1 / math.pi, c.round)
    return _join_periodic(x, _reduced_sine(x, shifted - c.round, shifted))


def cos(x: LlvmValue) -> PolynomialResult:
    """Write the cosine, as the sine of x reduced by half-odd multiples of pi."""
    c = FORMATS[x.element]
    shifted = fma(x, 1 / math.pi, 0.5) + c.round
    return _join_periodic(x, _reduced_sine(x, shifted - c.round - 0.5, shifted))


def tan(x: LlvmValue) -> PolynomialResult:
    """Write the tangent."""
    shifted = fma(x, 2 / math.pi, ROUND)
    r = _subtract_multiple_of_pi(x, shifted - ROUND, 0.5)
    z = r * r
    sine = evaluate_odd(r, z, SIN_SHORT)
    cosine = fma(z * z, evaluate_polynomial(z, COS_SHORT), fma(z, -0.5, 1.0))
    turned = (shifted.as_bits() & 1).is_equal_to(1)
    top = select(turned, -cosine, sine)
    bottom = select(turned, sine, cosine)
    return _join_periodic(x, top / bottom)


def _positive_arctangent(size: LlvmValue) -> LlvmValue:
    """Write the arctangent of a nonnegative number."""
    far = size > 2.414213562373095
    middle = size > 0.4142135623730951
    top = select(far, -1.0, select(middle, size - 1.0, size))
    bottom = select(far, size, select(middle, size + 1.0, 1.0))
    t = top / bottom
    z = t * t
    rest = select(far, HALF_PI_REST, select(middle, HALF_PI_REST / 2, 0.0))
    base = select(far, HALF_PI, select(middle, HALF_PI / 2, 0.0))
    return base + (t + fma(t, z * evaluate_polynomial(z, ATAN), rest))


def atan(x: LlvmValue) -> PolynomialResult:
    """Write the arctangent."""
    return PolynomialResult(copysign(_positive_arctangent(fabs(x)), x))


def atan2(y: LlvmValue, x: LlvmValue) -> PolynomialResult:
    """Write the angle of the point (x, y)."""
    quotient = fabs(y) / fabs(x)
    angle = _positive_arctangent(quotient)
    turned = PI[0] - (angle - PI[1])
    return PolynomialResult(copysign(select(x < 0.0, turned, angle), y), quotient.compare("uno", quotient))


def _positive_arcsine(size: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Write asin(size) where size <= 1/2, else acos(size) / 2; also return where it is the latter."""
    large = size > 0.5
    z = select(large, fma(size, -0.5, 0.5), size * size)
    t = select(large, sqrt(z), size)
    return fma(t, z * evaluate_polynomial(z, ASIN), t), large


def asin(x: LlvmValue) -> PolynomialResult:
    """Write the arcsine."""
    part, large = _positive_arcsine(fabs(x))
    return PolynomialResult(copysign(select(large, HALF_PI - (part + part - HALF_PI_REST), part), x))


def acos(x: LlvmValue) -> PolynomialResult:
    """Write the arccosine."""
    part, large = _positive_arcsine(fabs(x))
    signed = copysign(part, x)
    twice = part + part
    near_one = select(x < 0.0, PI[0] - (twice - PI[1]), twice)
    return PolynomialResult(select(large, near_one, HALF_PI - (signed - HALF_PI_REST)))


def _erfc_far(size: LlvmValue) -> LlvmValue:
    """Write erfc of a number of at least 1."""
    c = FORMATS[size.element]
    x = select(size > c.erfc_end, c.erfc_end, size)
    square = -(x * x)
    parts = _split_exponential(square, -fma(x, x, square))
    t = (x - 3.0) / (x + 3.0)
    factor = fma(t, evaluate_polynomial(t, c.erfc[1:]), c.erfc[0]) / (x + 2.0)
    return _join_exponential(parts, square, factor)


def erf(x: LlvmValue) -> PolynomialResult:
    """Write the error function."""
    size = fabs(x)
    near = fma(size, evaluate_polynomial(size * size, FORMATS[x.element].erf), size)
    return PolynomialResult(copysign(select(size < 1.0, near, 1.0 - _erfc_far(size)), x))


def erfc(x: LlvmValue) -> PolynomialResult:
    """Write 1 - erf(x)."""
    size = fabs(x)
    near = fma(-x, evaluate_polynomial(x * x, FORMATS[x.element].erf), 1.0 - x)
    far = _erfc_far(size)
    return PolynomialResult(select(size < 1.0, near, select(x < 0.0, 2.0 - far, far)))


def cbrt(x: LlvmValue) -> PolynomialResult:
    """Write the cube root: an estimate from the bits, then two Halley steps and a Newton step."""
    size = fabs(x)
    t = estimate_cube_root(size)
    for _ in range(2):
        cube = t * t * t
        t = t * ((cube + size + size) / (cube + cube + size))
    square = t * t
    t = t - fma(square, t, -size) / (square * 3.0)
    zero = x.is_equal_to(0.0)
    outside = (size < 2.0**-900) | is_not_below(size, 2.0**1000)
    result = copysign(t, x)
    return PolynomialResult(result, outside, lambda: (select(zero, x, result), outside & (size > 0.0)))


def hypot(x: LlvmValue, y: LlvmValue) -> PolynomialResult:
    """Write the length of (x, y)."""
    extent = fabs(x) + fabs(y)
    result = sqrt(fma(x, x, y * y))
    outside = (extent < 2.0**-450) | is_not_below(extent, 2.0**500)
    return PolynomialResult(result, outside, lambda: (result, outside & extent.is_equal_to(0.0).is_equal_to(0)))


POLYNOMIAL_FUNCTIONS: dict[str, Callable[..., PolynomialResult]] = {
    function.__name__: function
    for function in (
        *(exp, exp2, expm1, tanh, sinh, cosh, log, log2, log10, log1p, asinh, acosh, atanh, pow),
        *(sin, cos, tan, atan, atan2, asin, acos, erf, erfc, cbrt, hypot),
    )
}
"""The functions of this module by their names in math.h."""
FLOAT_FUNCTIONS = frozenset(
    ["exp", "exp2", "expm1", "tanh", "sinh", "cosh", "log", "log1p", "sin", "cos", "erf", "erfc"]
)
"""The functions that compute floats in float; the others compute them in double and round once."""


RealArray: TypeAlias = NDArray[np.floating]
ArrayFunction: TypeAlias = Callable[..., RealArray]
VECTOR_ABI_LETTERS = {128: ("b", "sse4.2"), 256: ("d", "avx2"), 512: ("e", "avx512f")}
"""For each register width in bits, its letter in the vector function ABI and the processor feature that it needs."""
MAX_ULP_ERROR = 4.0
"""Maximum difference from the scalar function."""


@cache
def load_libmvec() -> ctypes.CDLL | None:
    """Return the library; None if it is not installed."""
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


def find_libmvec_address(name: str, lanes: int, real: str, arity: int, features: frozenset[str]) -> int:
    """Return the address of a function; 0 if the library, the function or registers of this width are missing."""
    letter, needed = VECTOR_ABI_LETTERS.get(lanes * REAL_BITS[real], ("", ""))
    if needed not in features:
        return 0
    symbol = f"_ZGV{letter}N{lanes}{'v' * arity}_{name}{'f' if real == 'float' else ''}"
    function = getattr(load_libmvec(), symbol, None)
    if function is None:
        return 0
    return jit.name_address(int(ctypes.cast(function, ctypes.c_void_p).value or 0), f"libmvec.{symbol}")


def make_edge_points(dtype: type[np.floating], arity: int) -> list[RealArray]:
    """Return points at which functions tend to be wrong: each of them, or all pairs."""
    info = np.finfo(dtype)
    sizes: list[float | np.floating] = [
        0.0,
        info.smallest_subnormal,
        20 * info.smallest_subnormal,
        info.tiny,
        1e-8,
        0.3,
        0.5,
    ]
    sizes += [1 - info.epsneg, 1.0, 1 + info.eps, 1.5, 2.0, 3.0, np.pi / 2, np.pi, 9.2, 27.3, 88.8, 103.9, 709.7, 745.1]
    sizes += [1e5, 1e12, 1e22, info.max**0.5, info.max / 4, info.max, np.inf]
    points = np.array([*sizes, *(-size for size in sizes), np.nan], dtype)
    return [points] if arity == 1 else [part.ravel() for part in np.meshgrid(points, points)]


def measure_ulp_distance(results: RealArray, wanted: RealArray) -> RealArray:
    """Return the differences in ulp of the wanted numbers; inf where the sign differs or only one is finite or NaN."""
    signs = np.signbit(results) == np.signbit(wanted)
    same = (results == wanted) & signs | (np.isnan(results) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        ulp = np.abs(results.astype(np.longdouble) - wanted) / np.spacing(np.abs(wanted))
    finite = np.isfinite(results) & np.isfinite(wanted) & signs
    return np.asarray(np.where(same, 0.0, np.where(finite, ulp, np.inf)), np.float64)


def is_sound(vector: ArrayFunction, scalar: ArrayFunction, lanes: int, points: list[RealArray]) -> bool:
    """Return whether a vector function agrees with the scalar one at these points."""
    alone = vector(*(np.repeat(part, lanes) for part in points)).reshape(-1, lanes)
    if np.any(measure_ulp_distance(alone[:, 0], scalar(*points)) > MAX_ULP_ERROR):
        return False
    # Every point is tried in every lane, next to other points.
    mixed = [vector(*(np.roll(part, lane) for part in points)) for lane in range(lanes)]
    back = np.stack([np.roll(answer, -lane) for lane, answer in enumerate(mixed)], axis=1)
    bits = f"u{alone.dtype.itemsize}"
    differs = (alone.view(bits) != back.view(bits)) & ~(np.isnan(alone) & np.isnan(back))
    return not np.any(differs)


TWO_ARGUMENT_FUNCTIONS = frozenset(["pow", "hypot", "atan2", "fmod", "copysign"])
"""The functions of math.h that take two arguments."""
RARE_BRANCH_METADATA = '!0 = !{!"branch_weights", i32 1, i32 10000}'


def _begin_vector_function(w: LlvmWriter, name: str, real: str) -> list[LlvmValue]:
    """Begin the function of a module that takes and returns vectors; return its parameters."""
    kind = format_vector_type(real, w.lanes)
    parameters = [w.name_value(f"%x{k}", real) for k in range(_count_arguments(name))]
    w.begin_function(f"{kind} @function({', '.join(x.typed for x in parameters)})")
    return parameters


def _count_arguments(name: str) -> int:
    return 2 if name in TWO_ARGUMENT_FUNCTIONS else 1


def write_polynomial_module(name: str, lanes: int, real: str, scales: bool = False) -> str:
    """Return the LLVM module of one of our own functions; most floats are computed as doubles and rounded once.

    `scales` lets it use the instructions of `list_used_features`; the bits are the same either way.

    >>> print(write_polynomial_module("hypot", 1, "double").splitlines()[-1])
    !0 = !{!"branch_weights", i32 1, i32 10000}
    """
    w = LlvmWriter(lanes, features=list_used_features() if scales else [])
    operands = _begin_vector_function(w, name, real)
    inner = real if name in FLOAT_FUNCTIONS else "double"
    if inner != real:
        operands = [x.convert("fpext", "double") for x in operands]
    polynomial = POLYNOMIAL_FUNCTIONS[name](*operands)
    result = _write_fallback_branches(w, polynomial, operands)
    w.end_function(result if inner == real else result.convert("fptrunc", real))
    if polynomial.outside is not None:
        _write_each_lane(w, name, inner)
    return f"{w.format_module()}\n{RARE_BRANCH_METADATA}"


def write_lane_by_lane_module(name: str, lanes: int, real: str) -> str:
    """Return the LLVM module of a function that calls the scalar one for each lane."""
    w = LlvmWriter(lanes)
    operands = _begin_vector_function(w, name, real)
    start = w.name_value("zeroinitializer", real)
    w.end_function(w.call(real, "@each_lane", start, w.as_value(-1, f"i{lanes}", 1), *operands))
    _write_each_lane(w, name, real)
    return w.format_module()


def _write_fallback_branches(w: LlvmWriter, polynomial: PolynomialResult, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write the branches for lanes outside a polynomial's domain, and return the result of all lanes."""
    result, outside, edges = polynomial
    if outside is None:
        return result
    _write_any_lane_branch(w, outside, "outside")
    improved, left = edges() if edges is not None else (result, outside)
    mask = _write_any_lane_branch(w, left, "alone")
    called = w.call(result.element, "@each_lane", improved, mask, *operands)
    w.begin_block("done")
    ways = f"[{result}, %entry], [{improved}, %outside], [{called}, %alone]"
    return w.emit_value(result.element, f"phi {result.llvm_type} {ways}")


def _write_any_lane_branch(w: LlvmWriter, condition: LlvmValue, label: str) -> LlvmValue:
    """Write a branch to a block if a condition holds in any lane, else to the end; return the lanes as a bit mask."""
    mask = w.emit_value(f"i{w.lanes}", f"bitcast {condition.typed} to i{w.lanes}", 1)
    w.branch_if(mask.compare("ne", 0), label, "done", ", !prof !0")
    w.begin_block(label, falls=False)
    return mask


def _write_each_lane(w: LlvmWriter, name: str, real: str) -> None:
    """Write a function that replaces the masked lanes of a vector with results of the scalar function."""
    old = w.name_value("%y", real)
    mask = w.name_value("%mask", f"i{w.lanes}", 1)
    operands = [w.name_value(f"%x{k}", real) for k in range(_count_arguments(name))]
    parameters = ", ".join(value.typed for value in (old, mask, *operands))
    w.begin_function(f"internal {old.llvm_type} @each_lane({parameters}) noinline cold")
    results, *places = (w.emit_value("ptr", f"alloca {old.llvm_type}", 1) for _ in (old, *operands))
    for value, place in zip((old, *operands), (results, *places), strict=True):
        w.store(value, place)
    bits = mask.convert("zext", "i64")
    with loop_over(0, w.as_value(w.lanes, "i64", 1)) as lane, when_all((bits >> lane).convert("trunc", "i1")):
        numbers = [w.load(real, w.point_to(real, place, lane), 1) for place in places]
        number = w.call(real, format_pointer(jit.find_math_address(name, real)), *numbers, lanes=1)
        w.store(number, w.point_to(real, results, lane))
    w.end_function(w.load(real, results))


VECTOR_MATH_SWITCH = settings.VECTOR_MATH_VARIABLE
"""The environment variable that names the source to try first."""
MATH_SOURCES = settings.ALLOWED_VALUES[VECTOR_MATH_SWITCH]
"""The sources of functions that are not instructions."""
FASTER_FOR_ONE_DOUBLE = frozenset(["expm1", "tanh", "sinh", "sin", "cos", "tan", "hypot"])
"""Functions whose polynomial is faster than glibc's function even for one double (benchmarks/vector_math.py)."""
FUNCTION_SYMBOL_PREFIX = "function."
"""The prefix of the symbols of math.h's functions in stencils."""
REAL_DTYPES: dict[str, type[np.floating]] = {"double": np.float64, "float": np.float32}


@record
class VectorFunction:
    """A function of math.h on a number of lanes of double or float, its source and its address."""

    name: str
    lanes: int
    real: str
    source: str
    address: int
    """The address of its code, which takes vectors in registers as in the C convention; 0 for an instruction."""

    @property
    def llvm_type(self) -> str:
        """The LLVM type of its arguments and its result."""
        return format_vector_type(self.real, self.lanes)

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return _count_arguments(self.name)

    @property
    def callee(self) -> str:
        """The callee in LLVM text: an intrinsic or an address."""
        if self.source == "instruction":
            return f"@llvm.{self.name}.{format_intrinsic_suffix(self.real, self.lanes)}"
        return format_pointer(self.address)

    def write_call(self, operands: Sequence[LlvmValue]) -> LlvmValue:
        """Write a call of the function.

        >>> from wiregrad.backends.native.llvm_writer import LlvmWriter
        >>> writer = LlvmWriter(8)
        >>> function = find_vector_function("sqrt", 8, "double")
        >>> print(function.write_call([writer.name_value("%x", "double")]), writer.lines[-1])
        %v1   %v1 = call <8 x double> @llvm.sqrt.v8f64(<8 x double> %x)
        """
        writer = operands[0].writer
        if self.callee.startswith("@"):
            writer.declare(self.llvm_type, self.callee, *[self.llvm_type] * self.arity)
        return writer.call(self.real, self.callee, *operands, lanes=self.lanes)

    def __call__(self, *arrays: RealArray) -> RealArray:
        """Apply the function to arrays of equal length, one vector at a time.

        >>> find_vector_function("tanh", 4, "double")(np.array([0.0, 20.0, -np.inf]))
        array([ 0.,  1., -1.])
        """
        count = len(arrays[0])
        padded = -(-count // self.lanes) * self.lanes
        arguments = [np.zeros(padded, REAL_DTYPES[self.real]) for _ in arrays]
        for argument, array in zip(arguments, arrays, strict=True):
            argument[:count] = array
        results = np.empty(padded, REAL_DTYPES[self.real])
        bind_array_loop(self, results, *arguments)()
        return results[:count]


def find_vector_function(name: str, lanes: int, real: str, source: str | None = None) -> VectorFunction:
    """Return a function of math.h on `lanes` lanes of "double" or "float".

    `source` names the source to try first: polynomial, libmvec or scalar. A function that it lacks comes from the next.

    >>> find_vector_function("exp", 8, "double", source="scalar").source
    'scalar'
    >>> find_vector_function("floor", 4, "float").source
    'instruction'
    """
    if name not in MATH_H_FUNCTIONS:
        raise NoRuleError(f"ops cannot call {name} of math.h; they can call {', '.join(sorted(MATH_H_FUNCTIONS))}")
    wanted = source or settings.read_setting(VECTOR_MATH_SWITCH)
    if wanted and wanted not in MATH_SOURCES:
        raise ValueError(f"vector math comes from {', '.join(MATH_SOURCES)}; got source={wanted!r}")
    return _find_in_sources(name, lanes, real, wanted)


def _source_order(name: str, lanes: int, real: str) -> tuple[str, ...]:
    """Return the sources in the order in which they are tried."""
    if lanes == 1:
        return ("polynomial", "scalar") if real == "double" and name in FASTER_FOR_ONE_DOUBLE else ("scalar",)
    ours_first = real == "double" or name in FLOAT_FUNCTIONS
    return ("polynomial", "libmvec", "scalar") if ours_first else ("libmvec", "polynomial", "scalar")


def call_by_address(name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write a call of a function of math.h by its address."""
    return find_vector_function(name, operands[0].lanes, operands[0].element).write_call(operands)


def is_inlined(name: str, lanes: int, real: str) -> bool:
    """Return whether `call_inline` writes a function in place."""
    computes_here = real == "double" or name in FLOAT_FUNCTIONS
    return computes_here and find_vector_function(name, lanes, real).source == "polynomial"


def call_inline(name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write a function of math.h in place where it is a polynomial of ours, else as a call; the bits are the same."""
    function = find_vector_function(name, operands[0].lanes, operands[0].element)
    if not is_inlined(name, operands[0].lanes, operands[0].element):
        return function.write_call(operands)
    w = operands[0].writer
    result, outside, _ = POLYNOMIAL_FUNCTIONS[name](*operands)
    if outside is None:
        return result
    before, rare, done = (w.new_name("l") for _ in range(3))
    mask = w.emit_value(f"i{outside.lanes}", f"bitcast {outside.typed} to i{outside.lanes}", 1)
    w.begin_block(before)
    w.branch_if(mask.compare("ne", 0), rare, done)
    w.begin_block(rare, falls=False)
    # Beyond the domain of the polynomial the whole vector is computed by the function that handles every number.
    with w.share_nothing():
        called = function.write_call(operands)
    w.begin_block(done)
    return w.emit_value(result.element, f"phi {result.llvm_type} [{result}, %{before}], [{called}, %{rare}]")


def call_by_symbol(name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
    """Write a call of a function of math.h by a symbol, which `find_by_symbol` finds later."""
    first = operands[0]
    symbol = f"@{FUNCTION_SYMBOL_PREFIX}{name}.{first.lanes}.{first.element}"
    first.writer.declare(first.llvm_type, symbol, *[first.llvm_type] * len(operands))
    return first.writer.call(first.element, symbol, *operands, lanes=first.lanes)


def find_by_symbol(symbol: str) -> VectorFunction:
    """Return the function that a symbol of `call_by_symbol` names."""
    name, lanes, real = symbol.removeprefix(FUNCTION_SYMBOL_PREFIX).split(".")
    return find_vector_function(name, int(lanes), real)


@cache
def _find_in_sources(name: str, lanes: int, real: str, wanted: str) -> VectorFunction:
    if name in INTRINSIC_FUNCTIONS:
        return VectorFunction(name, lanes, real, "instruction", 0)
    for source in (wanted, *_source_order(name, lanes, real)):
        address = _find_address(name, lanes, real, source) if source else 0
        if address:
            return VectorFunction(name, lanes, real, source, address)
    raise AssertionError("the scalar function is always there")


def _find_address(name: str, lanes: int, real: str, source: str) -> int:
    """Return the address of a function in a source; 0 if it has none."""
    if source == "polynomial":
        return (
            _compile_polynomial(name, lanes, real)
            if name in POLYNOMIAL_FUNCTIONS and "fma" in jit.processor_features()
            else 0
        )
    if source == "libmvec":
        return _find_sound_libmvec(name, lanes, real)
    return jit.find_math_address(name, real) if lanes == 1 else _compile_lane_by_lane(name, lanes, real)


def _find_sound_libmvec(name: str, lanes: int, real: str) -> int:
    """Return the address of a libmvec function that agrees with the scalar function at edge points; else 0."""
    arity = _count_arguments(name)
    address = find_libmvec_address(name, lanes, real, arity, jit.processor_features())
    if not address:
        return 0
    tried = VectorFunction(name, lanes, real, "libmvec", address)
    scalar = VectorFunction(name, 1, real, "scalar", jit.find_math_address(name, real))
    return address if is_sound(tried, scalar, lanes, make_edge_points(REAL_DTYPES[real], arity)) else 0


def _compile_polynomial(name: str, lanes: int, real: str) -> int:
    text = write_polynomial_module(name, lanes, real, scales=True)
    return jit.compile_functions(text, "function", level=0)[0]


def _compile_lane_by_lane(name: str, lanes: int, real: str) -> int:
    return jit.compile_functions(write_lane_by_lane_module(name, lanes, real), "function", level=0)[0]


def bind_array_loop(function: VectorFunction, out: RealArray, *arguments: RealArray) -> Callable[[], None]:
    """Return a callable that applies a function to arrays of full vectors in a native loop, into `out`."""
    # Functions with an address share one loop, which receives the address as an argument.
    callee = function.callee if function.source == "instruction" else "%f"
    loop = _compile_array_loop(callee, function.lanes, function.real, function.arity)
    addresses = [array.ctypes.data for array in (out, *arguments)]
    count = len(out) // function.lanes

    def run(_alive: tuple[RealArray, ...] = (out, *arguments)) -> None:
        # The default argument keeps the arrays alive as long as their addresses are used.
        loop(function.address, *addresses, count)

    return run


@cache
def _compile_array_loop(callee: str, lanes: int, real: str, arity: int) -> Callable[..., None]:
    """Return the native loop over arrays; its arguments are the function's address, the arrays and a count."""
    w = LlvmWriter(lanes)
    kind = format_vector_type(real, lanes)
    align = f", align {REAL_BITS[real] // 8}"
    out, *arrays = (w.name_value(f"%a{k}", "ptr", 1) for k in range(1 + arity))
    count = w.name_value("%n", "i64", 1)
    parameters = ", ".join(value.typed for value in (out, *arrays, count))
    if callee.startswith("@"):
        w.declare(kind, callee, *[kind] * arity)
    w.begin_function(f"void @drive(ptr %f, {parameters})")
    with loop_over(0, count) as i:
        operands = [w.load(real, w.point_to(kind, array, i), how=align) for array in arrays]
        w.store(w.call(real, callee, *operands), w.point_to(kind, out, i), align)
    w.end_function()
    address = jit.compile_functions(w.format_module(), "drive", level=0)[0]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (2 + arity), ctypes.c_int64)(address)
