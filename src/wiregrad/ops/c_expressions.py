"""The scalar text of an op: one C expression, parsed into a tree from which the text of every language is written.

A record states once, in C99, how its op is computed on numbers: `{a} * {b}`, `exp({x})`, `{x} <= 0.0 ? 0.0 : {x}`.
Inputs are in braces. The text may contain numbers, NAN, INFINITY, + - * /, comparisons, && || !, ?:, parentheses and
calls: of a function in math.h, or of another op by its name. It follows IEEE 754, so it returns inf and NaN where
Python would raise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias

from wiregrad.errors import RecordError
from wiregrad.lazy import NamedTuple

_TOKEN = (
    r"\s*(?:\{(?P<input>\w+)\}|(?P<number>\d+\.?\d*(?:e[-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||[<>=!]=|[-+*/<>!?:(),]))"
)


@cache
def _token_pattern() -> re.Pattern[str]:
    # Compiled when an expression is first parsed: a first gradient needs none, and compiling takes a millisecond.
    return re.compile(_TOKEN)


NAMED_NUMBERS = {"NAN": math.nan, "INFINITY": math.inf}
SIGN_PRECEDENCE = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6}
"""Precedence of each binary operator; ?: binds less tightly, a prefix operator more tightly."""
COMPARISON_SIGNS = frozenset(sign for sign, level in SIGN_PRECEDENCE.items() if level in (3, 4))
LOGIC_SIGNS = frozenset(["&&", "||", "!"])
CHOICE_LEVEL = 0
PREFIX_LEVEL = 7
ATOM_LEVEL = 8
MATH_H_FUNCTIONS = frozenset(
    "exp expm1 exp2 log log2 log10 log1p pow sqrt cbrt hypot fabs sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh erf erfc floor ceil trunc rint fmod copysign".split()
)
"""The C functions that a text may call; any other name is that of an op."""


class InputExpression(NamedTuple):
    """An input, by name."""

    name: str


class NumberExpression(NamedTuple):
    """A literal."""

    value: float


class CallExpression(NamedTuple):
    """A call of a C function or an op."""

    name: str
    arguments: tuple[ScalarExpression, ...]


class PrefixExpression(NamedTuple):
    """A prefix operator applied to an expression: `-` or `!`."""

    sign: str
    operand: ScalarExpression


class BinaryExpression(NamedTuple):
    """A binary operator between two expressions."""

    sign: str
    left: ScalarExpression
    right: ScalarExpression


class ChoiceExpression(NamedTuple):
    """A conditional expression: one value if a condition is true, else another."""

    condition: ScalarExpression
    yes: ScalarExpression
    no: ScalarExpression


ScalarExpression: TypeAlias = (
    InputExpression | NumberExpression | CallExpression | PrefixExpression | BinaryExpression | ChoiceExpression
)


@cache
def parse_c_text(text: str) -> ScalarExpression:
    """Parse the text of an op.

    >>> parse_c_text("{x} * 2.0")
    BinaryExpression(sign='*', left=InputExpression(name='x'), right=NumberExpression(value=2.0))
    """
    return _CTextReader(text).read_all()


def direct_parts(tree: ScalarExpression) -> tuple[ScalarExpression, ...]:
    """Return the direct parts of an expression."""
    match tree:
        case CallExpression():
            return tree.arguments
        case PrefixExpression():
            return (tree.operand,)
        case BinaryExpression():
            return tree.left, tree.right
        case ChoiceExpression():
            return tree
        case _:
            return ()


def walk_expression(tree: ScalarExpression) -> Iterator[ScalarExpression]:
    """Iterate over an expression and all expressions inside it, the outermost first."""
    waiting = [tree]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting.extend(reversed(direct_parts(inner)))


def rebuild_expression(
    tree: ScalarExpression, change: Callable[[ScalarExpression], ScalarExpression]
) -> ScalarExpression:
    """Return the expression with each part, the innermost first, replaced by what `change` returns for it."""
    match tree:
        case CallExpression():
            tree = CallExpression(tree.name, tuple(rebuild_expression(part, change) for part in tree.arguments))
        case PrefixExpression():
            tree = PrefixExpression(tree.sign, rebuild_expression(tree.operand, change))
        case BinaryExpression():
            tree = BinaryExpression(
                tree.sign, rebuild_expression(tree.left, change), rebuild_expression(tree.right, change)
            )
        case ChoiceExpression():
            tree = ChoiceExpression(*(rebuild_expression(part, change) for part in tree))
    return change(tree)


def inline_ops(tree: ScalarExpression, text_of: Callable[[str], tuple[tuple[str, ...], str]]) -> ScalarExpression:
    """Return the expression with each op call replaced by the op's text; `text_of` returns an op's inputs and text.

    >>> inlined = inline_ops(parse_c_text("twice({x} + 1.0)"), lambda name: (("a",), "{a} + {a}"))
    >>> inlined == parse_c_text("({x} + 1.0) + ({x} + 1.0)")
    True
    """

    def inline_call(inner: ScalarExpression) -> ScalarExpression:
        if not isinstance(inner, CallExpression) or inner.name in MATH_H_FUNCTIONS:
            return inner
        inputs, text = text_of(inner.name)
        arguments = dict(zip(inputs, inner.arguments, strict=True))
        body = inline_ops(parse_c_text(text), text_of)
        return rebuild_expression(
            body, lambda part: arguments[part.name] if isinstance(part, InputExpression) else part
        )

    return rebuild_expression(tree, inline_call)


def is_condition(tree: ScalarExpression) -> bool:
    """Return whether the form of an expression shows that it is boolean."""
    match tree:
        case BinaryExpression():
            return tree.sign in COMPARISON_SIGNS or tree.sign in LOGIC_SIGNS
        case PrefixExpression():
            return tree.sign == "!"
        case ChoiceExpression():
            return is_condition(tree.yes) and is_condition(tree.no)
        case _:
            return False


class _CTextReader:
    """A recursive-descent parser for one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list[tuple[str, str]]()
        self.next = 0
        position = 0
        while text[position:].strip():
            match = _token_pattern().match(text, position)
            if match is None:
                raise RecordError(f"the text {text!r} cannot be parsed at {text[position:]!r}")
            assert match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def read_all(self) -> ScalarExpression:
        tree = self.read_choice()
        if self.next < len(self.tokens):
            raise RecordError(f"the text {self.text!r} should end before {self.tokens[self.next][1]!r}")
        return tree

    def read_choice(self) -> ScalarExpression:
        condition = self.read_binary(1)
        if not self.accept_sign("?"):
            return condition
        yes = self.read_choice()
        self.expect_sign(":")
        return ChoiceExpression(condition, yes, self.read_choice())

    def read_binary(self, level: int) -> ScalarExpression:
        left = self.read_prefix()
        while True:
            sign = self.tokens[self.next][1] if self.next < len(self.tokens) else ""
            if SIGN_PRECEDENCE.get(sign, 0) < level:
                return left
            self.next += 1
            left = BinaryExpression(sign, left, self.read_binary(SIGN_PRECEDENCE[sign] + 1))

    def read_prefix(self) -> ScalarExpression:
        for sign in ("-", "!"):
            if self.accept_sign(sign):
                operand = self.read_prefix()
                return (
                    NumberExpression(-operand.value)
                    if sign == "-" and isinstance(operand, NumberExpression)
                    else PrefixExpression(sign, operand)
                )
        return self.read_atom()

    def read_atom(self) -> ScalarExpression:
        if self.accept_sign("("):
            tree = self.read_choice()
            self.expect_sign(")")
            return tree
        kind, text = self.tokens[self.next] if self.next < len(self.tokens) else ("end", "its end")
        self.next += 1
        if kind == "input":
            return InputExpression(text)
        if kind == "number":
            return NumberExpression(float(text))
        if kind == "name" and text in NAMED_NUMBERS:
            return NumberExpression(NAMED_NUMBERS[text])
        if kind == "name":
            self.expect_sign("(")
            return CallExpression(text, tuple(self.read_arguments()))
        raise RecordError(f"the text {self.text!r} needs an operand, not {text!r}")

    def read_arguments(self) -> Iterator[ScalarExpression]:
        while True:
            yield self.read_choice()
            if not self.accept_sign(","):
                break
        self.expect_sign(")")

    def accept_sign(self, sign: str) -> bool:
        is_next = self.next < len(self.tokens) and self.tokens[self.next] == ("sign", sign)
        self.next += is_next
        return is_next

    def expect_sign(self, sign: str) -> None:
        if not self.accept_sign(sign):
            raise RecordError(f"the text {self.text!r} needs {sign!r} as token {self.next + 1}")


PYTHON_ROUNDING = {"floor": "math.floor", "ceil": "math.ceil", "trunc": "math.trunc", "rint": "round"}
"""The rounding functions of C, and their names in Python."""


def write_python_rounding(name: str, x: str) -> str:
    """Write a rounding function in Python, where it returns an int, which has no sign at 0.

    >>> write_python_rounding("rint", "a")
    'math.copysign(round(a), a)'
    """
    return f"math.copysign({PYTHON_ROUNDING[name]}({x}), {x})"


_PYTHON_CALLS = {"fabs": "abs({0})", **{name: write_python_rounding(name, "{0}") for name in PYTHON_ROUNDING}}
_PYTHON_SIGNS = {"&&": "and", "||": "or"}


def write_python_expression(tree: ScalarExpression) -> str:
    """Write an expression for Python floats and `math`, inputs still in braces; may raise where C returns inf or NaN.

    >>> write_python_expression(parse_c_text("{x} <= 0.0 ? 0.0 : log({x})"))
    '0.0 if {x} <= 0.0 else math.log({x})'
    """
    return _write_with_level(tree)[0]


def _write_with_level(tree: ScalarExpression) -> tuple[str, int]:
    """Return the text of an expression and the precedence of its outermost operator."""
    match tree:
        case InputExpression():
            return f"{{{tree.name}}}", ATOM_LEVEL
        case NumberExpression():
            return repr(tree.value), ATOM_LEVEL
        case CallExpression():
            arguments = [write_python_expression(part) for part in tree.arguments]
            built_in = _PYTHON_CALLS.get(tree.name)
            return built_in.format(*arguments) if built_in else f"math.{tree.name}({', '.join(arguments)})", ATOM_LEVEL
        case PrefixExpression():
            # Python's `not` binds less tightly than a comparison.
            before, inside, own = (
                ("not ", SIGN_PRECEDENCE["=="], SIGN_PRECEDENCE["&&"])
                if tree.sign == "!"
                else ("-", PREFIX_LEVEL, PREFIX_LEVEL)
            )
            return before + _write_operand(tree.operand, inside), own
        case BinaryExpression():
            level = SIGN_PRECEDENCE[tree.sign]
            # Python chains comparisons, so one inside another needs parentheses.
            first = SIGN_PRECEDENCE["+"] if tree.sign in COMPARISON_SIGNS else level
            left = _write_operand(tree.left, first)
            right = _write_operand(tree.right, max(first, level + 1))
            return f"{left} {_PYTHON_SIGNS.get(tree.sign, tree.sign)} {right}", level
        case ChoiceExpression():
            parts = (
                _write_operand(tree.yes, 1),
                _write_operand(tree.condition, 1),
                _write_operand(tree.no, CHOICE_LEVEL),
            )
            return "{} if {} else {}".format(*parts), CHOICE_LEVEL


def _write_operand(tree: ScalarExpression, level: int) -> str:
    """Return the text of an operand, in parentheses if it binds less tightly than a level."""
    text, own = _write_with_level(tree)
    return text if own >= level else f"({text})"


class ComplexExpression(NamedTuple):
    """A complex number as two real expressions; a real number or a condition has no imaginary part."""

    real: ScalarExpression
    imag: ScalarExpression | None = None


ZERO = NumberExpression(0.0)
HALF = NumberExpression(0.5)
INFINITE = NumberExpression(math.inf)
LARGE_EXPONENT = NumberExpression(80.0)
"""Somewhere beyond it exp overflows, in float32 first, where its product with a cosine does not."""


def split_complex_expression(
    tree: ScalarExpression, inputs: Mapping[str, ComplexExpression]
) -> ComplexExpression | None:
    """Return the real and the imaginary part of an expression of complex inputs; None if it has no such form.

    Sums, products and quotients are those of NumPy, which divides as R. L. Smith does.

    >>> z = ComplexExpression(InputExpression("r"), InputExpression("i"))
    >>> split_complex_expression(parse_c_text("-{x}"), {"x": z}).imag
    PrefixExpression(sign='-', operand=InputExpression(name='i'))
    """
    if isinstance(tree, InputExpression):
        return inputs[tree.name]
    parts = [split_complex_expression(part, inputs) for part in direct_parts(tree)]
    split = [part for part in parts if part is not None]
    if len(split) < len(parts):
        return None
    if all(part.imag is None for part in split):
        return ComplexExpression(_replace_parts(tree, [part.real for part in split]))
    return _split_operation(tree, split)


def _split_operation(tree: ScalarExpression, parts: Sequence[ComplexExpression]) -> ComplexExpression | None:
    """Return the parts of an operation on numbers of which some are complex; None if it has no such form."""
    split: ComplexExpression | None = None
    match tree:
        case PrefixExpression("-"):
            split = ComplexExpression(*(PrefixExpression("-", part) for part in _both(parts[0])))
        case BinaryExpression():
            split = _split_binary(tree.sign, *parts)
        case ChoiceExpression() if parts[0].imag is None:
            pairs = zip(*map(_both, parts[1:]), strict=True)
            split = ComplexExpression(*(ChoiceExpression(parts[0].real, *pair) for pair in pairs))
        case CallExpression("fabs"):
            split = ComplexExpression(CallExpression("hypot", _both(parts[0])))
        case CallExpression("exp"):
            split = _split_exponential(*_both(parts[0]))
    return split


def _both(number: ComplexExpression) -> tuple[ScalarExpression, ScalarExpression]:
    return number.real, ZERO if number.imag is None else number.imag


def _replace_parts(tree: ScalarExpression, parts: Sequence[ScalarExpression]) -> ScalarExpression:
    """Return an expression with other direct parts."""
    match tree:
        case CallExpression():
            return CallExpression(tree.name, tuple(parts))
        case PrefixExpression():
            return PrefixExpression(tree.sign, *parts)
        case BinaryExpression():
            return BinaryExpression(tree.sign, *parts)
        case ChoiceExpression():
            return ChoiceExpression(*parts)
        case _:
            return tree


def _split_binary(sign: str, one: ComplexExpression, two: ComplexExpression) -> ComplexExpression | None:
    a, b = _both(one)
    c, d = _both(two)
    if sign in ("+", "-"):
        return ComplexExpression(BinaryExpression(sign, a, c), BinaryExpression(sign, b, d))
    if sign == "*":
        real = BinaryExpression("-", BinaryExpression("*", a, c), BinaryExpression("*", b, d))
        return ComplexExpression(real, BinaryExpression("+", BinaryExpression("*", a, d), BinaryExpression("*", b, c)))
    if sign == "/":
        return _split_quotient(a, b, c, d)
    if sign in ("==", "!="):
        join = "&&" if sign == "==" else "||"
        return ComplexExpression(BinaryExpression(join, BinaryExpression(sign, a, c), BinaryExpression(sign, b, d)))
    return None


def _split_quotient(
    a: ScalarExpression, b: ScalarExpression, c: ScalarExpression, d: ScalarExpression
) -> ComplexExpression:
    """Return (a + bi) / (c + di): both are divided by the larger part of the divisor first."""
    size_c = CallExpression("fabs", (c,))
    size_d = CallExpression("fabs", (d,))
    is_zero = BinaryExpression("&&", BinaryExpression("==", size_c, ZERO), BinaryExpression("==", size_d, ZERO))
    by_real = _divide_by_larger(a, b, c, d)
    by_imag = _divide_by_larger(b, a, d, c)
    # By i the parts change places: a + bi over di is b/d - (a/d)i.
    turned = (by_imag[0], PrefixExpression("-", by_imag[1]))
    is_real_larger = BinaryExpression(">=", size_c, size_d)
    parts = [
        ChoiceExpression(is_zero, BinaryExpression("/", part, size_c), ChoiceExpression(is_real_larger, one, two))
        for part, one, two in zip((a, b), by_real, turned, strict=True)
    ]
    return ComplexExpression(*parts)


def _divide_by_larger(
    a: ScalarExpression, b: ScalarExpression, c: ScalarExpression, d: ScalarExpression
) -> tuple[ScalarExpression, ScalarExpression]:
    """Return (a + b d/c) s and (b - a d/c) s, where s is 1 / (c + d d/c)."""
    ratio = BinaryExpression("/", d, c)
    scale = BinaryExpression("/", NumberExpression(1.0), BinaryExpression("+", c, BinaryExpression("*", d, ratio)))
    one = BinaryExpression("+", a, BinaryExpression("*", b, ratio))
    two = BinaryExpression("-", b, BinaryExpression("*", a, ratio))
    return BinaryExpression("*", one, scale), BinaryExpression("*", two, scale)


def _split_exponential(a: ScalarExpression, b: ScalarExpression) -> ComplexExpression:
    """Return exp(a + bi) with the special values of C's cexp."""
    half = CallExpression("exp", (BinaryExpression("*", HALF, a),))
    is_finite = BinaryExpression("==", BinaryExpression("-", b, b), ZERO)
    parts: list[ScalarExpression] = []
    for name in ("cos", "sin"):
        turn = CallExpression(name, (b,))
        plain = BinaryExpression("*", CallExpression("exp", (a,)), turn)
        large = BinaryExpression("*", BinaryExpression("*", half, turn), half)
        product = ChoiceExpression(BinaryExpression(">", a, LARGE_EXPONENT), large, plain)
        vanishes = BinaryExpression(
            "&&", BinaryExpression("==", a, PrefixExpression("-", INFINITE)), _negate(is_finite)
        )
        parts.append(ChoiceExpression(vanishes, ZERO, product))
    grows = BinaryExpression("&&", BinaryExpression("==", a, INFINITE), _negate(is_finite))
    real = ChoiceExpression(grows, a, parts[0])
    return ComplexExpression(real, ChoiceExpression(BinaryExpression("==", b, ZERO), b, parts[1]))


def _negate(condition: ScalarExpression) -> ScalarExpression:
    return PrefixExpression("!", condition)
