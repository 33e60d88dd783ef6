"""The coefficients of our own vector functions: constants split into several parts, and polynomials.

The polynomials interpolate at Chebyshev points in 60 digits and are then rounded; `tests/test_vectormath.py` computes
them again.
"""

from __future__ import annotations


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
FAR = 2.0**30
"""Beyond this, three parts of pi are too few to reduce the argument of a periodic function."""
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
ONE_BITS = 0x3FF0000000000000

EXP = _parse_hex_floats(
    "0x1.0000000000001p-1 0x1.5555555555556p-3 0x1.5555555553d63p-5 0x1.11111111109b3p-7 0x1.6c16c1788bd90p-10 "
    "0x1.a01a01a7c41d5p-13 0x1.a019b90d2ae7ap-16 0x1.71de0dae63bb3p-19 0x1.289185613a3d6p-22 0x1.af38a9b0ec855p-26"
)
"""(e**r - 1 - r) / r**2 for |r| <= ln(2) / 2."""
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
