"""The scalar text of an op: one C expression, parsed into a tree from which the text of every language is written.

A record states once, in C99, how its op is computed on numbers: `{a} * {b}`, `exp({x})`, `{x} <= 0.0 ? 0.0 : {x}`.
Inputs stand in braces. The text may contain numbers, NAN, INFINITY, + - * /, comparisons, && || !, ?:, parentheses and
calls: of a function in math.h, or of another op by its name. It follows IEEE 754, so it returns inf and NaN where
Python would raise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple, TypeAlias

from wiregrad.errors import RecordError

_TOKEN = re.compile(
    r"\s*(?:\{(?P<input>\w+)\}|(?P<number>\d+\.?\d*(?:e[-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||[<>=!]=|[-+*/<>!?:(),]))"
)
NAMED = {"NAN": math.nan, "INFINITY": math.inf}
LEVELS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6}
"""Precedence of each binary operator; ?: binds less tightly, a prefix operator more tightly."""
COMPARISONS = frozenset(sign for sign, level in LEVELS.items() if level in (3, 4))
LOGIC = frozenset(["&&", "||", "!"])
CHOICE = 0
SIGN = 7
ATOM = 8
MATH_H = frozenset(
    "exp expm1 exp2 log log2 log10 log1p pow sqrt cbrt hypot fabs sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh erf erfc floor ceil trunc rint fmod copysign".split()
)
"""The C functions that a text may call; any other name is that of an op."""


class Input(NamedTuple):
    """An input, by name."""

    name: str


class Number(NamedTuple):
    """A literal."""

    value: float


class Call(NamedTuple):
    """A call of a C function or an op."""

    name: str
    arguments: tuple[Tree, ...]


class Signed(NamedTuple):
    """A prefix operator applied to an expression: `-` or `!`."""

    sign: str
    operand: Tree


class Between(NamedTuple):
    """A binary operator between two expressions."""

    sign: str
    left: Tree
    right: Tree


class Choice(NamedTuple):
    """A conditional expression: one value if a condition is true, else another."""

    condition: Tree
    yes: Tree
    no: Tree


Tree: TypeAlias = Input | Number | Call | Signed | Between | Choice


@cache
def parse(text: str) -> Tree:
    """Parse the text of an op.

    >>> parse("{x} * 2.0")
    Between(sign='*', left=Input(name='x'), right=Number(value=2.0))
    """
    return _Reader(text).whole()


def parts(tree: Tree) -> tuple[Tree, ...]:
    """Return the direct parts of an expression."""
    match tree:
        case Call():
            return tree.arguments
        case Signed():
            return (tree.operand,)
        case Between():
            return tree.left, tree.right
        case Choice():
            return tree
        case _:
            return ()


def walk(tree: Tree) -> Iterator[Tree]:
    """Iterate over an expression and all expressions inside it, the outermost first."""
    waiting = [tree]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting.extend(reversed(parts(inner)))


def rebuilt(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Return the expression with each part, the innermost first, replaced by what `change` returns for it."""
    match tree:
        case Call():
            tree = Call(tree.name, tuple(rebuilt(part, change) for part in tree.arguments))
        case Signed():
            tree = Signed(tree.sign, rebuilt(tree.operand, change))
        case Between():
            tree = Between(tree.sign, rebuilt(tree.left, change), rebuilt(tree.right, change))
        case Choice():
            tree = Choice(*(rebuilt(part, change) for part in tree))
    return change(tree)


def inlined(tree: Tree, text_of: Callable[[str], tuple[tuple[str, ...], str]]) -> Tree:
    """Return the expression with each op call replaced by the op's text; `text_of` returns an op's inputs and text.

    >>> inlined(parse("twice({x} + 1.0)"), lambda name: (("a",), "{a} + {a}")) == parse("({x} + 1.0) + ({x} + 1.0)")
    True
    """

    def inline_call(inner: Tree) -> Tree:
        if not isinstance(inner, Call) or inner.name in MATH_H:
            return inner
        inputs, text = text_of(inner.name)
        arguments = dict(zip(inputs, inner.arguments, strict=True))
        body = inlined(parse(text), text_of)
        return rebuilt(body, lambda part: arguments[part.name] if isinstance(part, Input) else part)

    return rebuilt(tree, inline_call)


def is_condition(tree: Tree) -> bool:
    """Return whether the form of an expression shows that it is boolean."""
    match tree:
        case Between():
            return tree.sign in COMPARISONS or tree.sign in LOGIC
        case Signed():
            return tree.sign == "!"
        case Choice():
            return is_condition(tree.yes) and is_condition(tree.no)
        case _:
            return False


class _Reader:
    """A recursive-descent parser for one expression."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list[tuple[str, str]]()
        self.next = 0
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise RecordError(f"the text {text!r} cannot be parsed at {text[position:]!r}")
            assert match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def whole(self) -> Tree:
        tree = self.choice()
        if self.next < len(self.tokens):
            raise RecordError(f"the text {self.text!r} should end before {self.tokens[self.next][1]!r}")
        return tree

    def choice(self) -> Tree:
        condition = self.between(1)
        if not self.take("?"):
            return condition
        yes = self.choice()
        self.want(":")
        return Choice(condition, yes, self.choice())

    def between(self, level: int) -> Tree:
        left = self.signed()
        while True:
            sign = self.tokens[self.next][1] if self.next < len(self.tokens) else ""
            if LEVELS.get(sign, 0) < level:
                return left
            self.next += 1
            left = Between(sign, left, self.between(LEVELS[sign] + 1))

    def signed(self) -> Tree:
        for sign in ("-", "!"):
            if self.take(sign):
                operand = self.signed()
                return Number(-operand.value) if sign == "-" and isinstance(operand, Number) else Signed(sign, operand)
        return self.atom()

    def atom(self) -> Tree:
        if self.take("("):
            tree = self.choice()
            self.want(")")
            return tree
        kind, text = self.tokens[self.next] if self.next < len(self.tokens) else ("end", "its end")
        self.next += 1
        if kind == "input":
            return Input(text)
        if kind == "number":
            return Number(float(text))
        if kind == "name" and text in NAMED:
            return Number(NAMED[text])
        if kind == "name":
            self.want("(")
            return Call(text, tuple(self.arguments()))
        raise RecordError(f"the text {self.text!r} needs an operand, not {text!r}")

    def arguments(self) -> Iterator[Tree]:
        while True:
            yield self.choice()
            if not self.take(","):
                break
        self.want(")")

    def take(self, sign: str) -> bool:
        is_next = self.next < len(self.tokens) and self.tokens[self.next] == ("sign", sign)
        self.next += is_next
        return is_next

    def want(self, sign: str) -> None:
        if not self.take(sign):
            raise RecordError(f"the text {self.text!r} needs {sign!r} as token {self.next + 1}")


ROUNDING = {"floor": "math.floor", "ceil": "math.ceil", "trunc": "math.trunc", "rint": "round"}
"""The rounding functions of C, and their names in Python."""


def rounded(name: str, x: str) -> str:
    """Write a rounding function in Python, where it returns an int, which has no sign at 0.

    >>> rounded("rint", "a")
    'math.copysign(round(a), a)'
    """
    return f"math.copysign({ROUNDING[name]}({x}), {x})"


_BUILT_IN = {"fabs": "abs({0})", **{name: rounded(name, "{0}") for name in ROUNDING}}
_SPELLED = {"&&": "and", "||": "or"}


def in_python(tree: Tree) -> str:
    """Write an expression for Python floats and `math`, inputs still in braces; may raise where C returns inf or NaN.

    >>> in_python(parse("{x} <= 0.0 ? 0.0 : log({x})"))
    '0.0 if {x} <= 0.0 else math.log({x})'
    """
    return _python(tree)[0]


def _python(tree: Tree) -> tuple[str, int]:
    """Return the text of an expression and the precedence of its outermost operator."""
    match tree:
        case Input():
            return f"{{{tree.name}}}", ATOM
        case Number():
            return repr(tree.value), ATOM
        case Call():
            arguments = [in_python(part) for part in tree.arguments]
            built_in = _BUILT_IN.get(tree.name)
            return built_in.format(*arguments) if built_in else f"math.{tree.name}({', '.join(arguments)})", ATOM
        case Signed():
            # Python's `not` binds less tightly than a comparison.
            before, inside, own = ("not ", LEVELS["=="], LEVELS["&&"]) if tree.sign == "!" else ("-", SIGN, SIGN)
            return before + _held(tree.operand, inside), own
        case Between():
            level = LEVELS[tree.sign]
            # Python chains comparisons, so one inside another needs parentheses.
            first = LEVELS["+"] if tree.sign in COMPARISONS else level
            left = _held(tree.left, first)
            right = _held(tree.right, max(first, level + 1))
            return f"{left} {_SPELLED.get(tree.sign, tree.sign)} {right}", level
        case Choice():
            parts = _held(tree.yes, 1), _held(tree.condition, 1), _held(tree.no, CHOICE)
            return "{} if {} else {}".format(*parts), CHOICE


def _held(tree: Tree, level: int) -> str:
    """Return the text of an operand, in parentheses if it binds less tightly than a level."""
    text, own = _python(tree)
    return text if own >= level else f"({text})"
