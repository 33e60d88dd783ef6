"""How plain Python spells the functions of C's math.h; the listing needs `import math` and nothing else.

Python's `math` raises where C returns an infinity or NaN, and so does `/`. Where that can happen, the listing defines a
short function at its top; elsewhere it calls `math` itself.
"""

from __future__ import annotations

from wiregrad.codegen.words import FunctionSpelling
from wiregrad.ops.expressions import PYTHON_ROUNDING, write_python_rounding

NEVER_RAISE = "fabs cbrt hypot atan atan2 tanh asinh erf erfc copysign".split()
"""The functions of `math` that return the same as C for every float."""


def _define_function(head: str, doc: str, *body: str) -> FunctionSpelling:
    """Return the spelling of a function together with its definition."""
    lines = [f"def {head}:", f'    """{doc}"""', *(f"    {line}" for line in body)]
    return FunctionSpelling(head.partition("(")[0], "\n".join(lines))


def _define_overflowing(name: str, limit: str = "math.inf") -> FunctionSpelling:
    """Define a function that in Python raises where it overflows."""
    doc = f"math.{name}, but inf where that overflows, as IEEE 754 has it."
    body = "try:", f"    return math.{name}(x)", "except OverflowError:", f"    return {limit}"
    return _define_function(f"{name}(x)", doc, *body)


def _define_logarithm(name: str, start: str) -> FunctionSpelling:
    """Define a logarithm of numbers above `start`."""
    doc = f"math.{name}, but -inf at {start} and NaN below, as IEEE 754 has it."
    value = f"math.{name}(x) if x > {start} else -math.inf if x == {start} else math.nan"
    return _define_function(f"{name}(x)", doc, f"return {value}")


def _define_on_domain(name: str, inside: str, outside: str) -> FunctionSpelling:
    """Define a function with a limited domain: `inside` tests for it, `outside` describes the rest."""
    doc = f"math.{name}, but NaN {outside}, as IEEE 754 has it."
    return _define_function(f"{name}(x)", doc, f"return math.{name}(x) if {inside} else math.nan")


def _define_rounding(name: str) -> FunctionSpelling:
    """Define a rounding function; Python's returns an int, which has no -0, inf or NaN."""
    doc = f"{PYTHON_ROUNDING[name]}, but a float: -0.0, inf and NaN stay what they are."
    return _define_function(f"{name}(x)", doc, f"return {write_python_rounding(name, 'x')} if math.isfinite(x) else x")


PYTHON_WORDS: dict[str, FunctionSpelling] = {
    **{name: FunctionSpelling(f"math.{name}") for name in NEVER_RAISE},
    "exp": _define_overflowing("exp"),
    "exp2": _define_overflowing("exp2"),
    "expm1": _define_overflowing("expm1"),
    "cosh": _define_overflowing("cosh"),
    "sinh": _define_overflowing("sinh", "math.copysign(math.inf, x)"),
    "log": _define_logarithm("log", "0.0"),
    "log2": _define_logarithm("log2", "0.0"),
    "log10": _define_logarithm("log10", "0.0"),
    "log1p": _define_logarithm("log1p", "-1.0"),
    "sqrt": _define_on_domain("sqrt", "x >= 0.0", "below 0"),
    "sin": _define_on_domain("sin", "math.isfinite(x)", "at an infinity"),
    "cos": _define_on_domain("cos", "math.isfinite(x)", "at an infinity"),
    "tan": _define_on_domain("tan", "math.isfinite(x)", "at an infinity"),
    "asin": _define_on_domain("asin", "-1.0 <= x <= 1.0", "outside [-1, 1]"),
    "acos": _define_on_domain("acos", "-1.0 <= x <= 1.0", "outside [-1, 1]"),
    "acosh": _define_on_domain("acosh", "x >= 1.0", "below 1"),
    "atanh": _define_function(
        "atanh(x)",
        "math.atanh, but an infinity at -1 and 1 and NaN beyond, as IEEE 754 has it.",
        "if math.fabs(x) == 1.0:",
        "    return math.copysign(math.inf, x)",
        "return math.atanh(x) if -1.0 < x < 1.0 else math.nan",
    ),
    "pow": _define_function(
        "pow(x, y)",
        "math.pow, but an infinity or NaN where that raises, as IEEE 754 has it.",
        "try:",
        "    return math.pow(x, y)",
        "except (OverflowError, ValueError):",
        "    if x < 0.0 and y % 1.0 != 0.0:",
        "        return math.nan",
        "    return math.copysign(math.inf, x) if y % 2.0 == 1.0 else math.inf",
    ),
    "fmod": _define_function(
        "fmod(x, y)",
        "math.fmod, but NaN where x is infinite or y is 0, as IEEE 754 has it.",
        "return math.nan if math.isinf(x) or y == 0.0 else math.fmod(x, y)",
    ),
    **{name: _define_rounding(name) for name in PYTHON_ROUNDING},
    "/": _define_function(
        "divide(a, b)",
        "a / b, but an infinity or NaN where b is 0, as IEEE 754 has it.",
        "if b != 0.0:",
        "    return a / b",
        "return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)",
    ),
}
"""How Python spells each function of math.h, and the division operator."""
