"""The scalar text of an op: one C expression, read into a tree from which every language is written.

A record says once how its op is computed on numbers, as C99 has it: `{a} * {b}`, `exp({x})`,
`{x} <= 0.0 ? 0.0 : {x}`. Inputs stand in braces. There are numbers, NAN, INFINITY, + - * /, comparisons, && || !, ?:,
parentheses and calls: of a function of math.h, or else of another op by its name. The text follows IEEE 754
everywhere, so it answers inf and NaN where Python would raise.
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
"""How tightly each sign between two operands binds; ?: binds less, a sign before an operand more."""
COMPARISONS = frozenset(sign for sign, level in LEVELS.items() if level in (3, 4))
LOGIC = frozenset(["&&", "||", "!"])
CHOICE, SIGN, ATOM = 0, 7, 8
MATH_H = frozenset(
    "exp expm1 exp2 log log2 log10 log1p pow sqrt cbrt hypot fabs sin cos tan asin acos atan atan2 sinh cosh tanh "
    "asinh acosh atanh erf erfc floor ceil trunc rint fmod copysign".split()
)
"""The functions of C that a text may call; every other name is that of an op."""


class Input(NamedTuple):
    """What stands in an input's place."""

    name: str


class Number(NamedTuple):
    """A literal."""

    value: float


class Call(NamedTuple):
    """A function of other expressions."""

    name: str
    arguments: tuple[Tree, ...]


class Signed(NamedTuple):
    """A sign before an expression: `-` or `!`."""

    sign: str
    operand: Tree


class Between(NamedTuple):
    """A sign between two expressions."""

    sign: str
    left: Tree
    right: Tree


class Choice(NamedTuple):
    """One expression where a condition holds, else another."""

    condition: Tree
    yes: Tree
    no: Tree


Tree: TypeAlias = Input | Number | Call | Signed | Between | Choice


@cache
def parse(text: str) -> Tree:
    """Read the text of an op.

    >>> parse("{x} * 2.0")
    Between(sign='*', left=Input(name='x'), right=Number(value=2.0))
    """
    return _Reader(text).whole()


def parts(tree: Tree) -> tuple[Tree, ...]:
    """Return the expressions that an expression is directly made of."""
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
    """Return an expression and everything inside it, the outside first."""
    waiting = [tree]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(parts(found)))


def rebuilt(tree: Tree, change: Callable[[Tree], Tree]) -> Tree:
    """Return the expression with each part, inside first, replaced by what `change` makes of it."""
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
    """Return the expression with calls of ops replaced by what they stand for; `text_of` says inputs and text of an op.

    >>> inlined(parse("twice({x} + 1.0)"), lambda name: (("a",), "{a} + {a}")) == parse("({x} + 1.0) + ({x} + 1.0)")
    True
    """

    def change(found: Tree) -> Tree:
        if not isinstance(found, Call) or found.name in MATH_H:
            return found
        inputs, text = text_of(found.name)
        given = dict(zip(inputs, found.arguments, strict=True))
        body = inlined(parse(text), text_of)
        return rebuilt(body, lambda part: given[part.name] if isinstance(part, Input) else part)

    return rebuilt(tree, change)


def is_condition(tree: Tree) -> bool:
    """Return whether an expression is true or false by its form alone."""
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
    """Reads one expression, by levels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list[tuple[str, str]]()
        self.next = 0
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise RecordError(f"the text {text!r} cannot be read at {text[position:]!r}")
            assert match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def whole(self) -> Tree:
        found = self.choice()
        if self.next < len(self.tokens):
            raise RecordError(f"the text {self.text!r} goes on at {self.tokens[self.next][1]!r}, where it should end")
        return found

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
            found = self.choice()
            self.want(")")
            return found
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
        found = self.next < len(self.tokens) and self.tokens[self.next] == ("sign", sign)
        self.next += found
        return found

    def want(self, sign: str) -> None:
        if not self.take(sign):
            raise RecordError(f"the text {self.text!r} needs {sign!r} at its {self.next + 1}. word")


ROUNDING = {"floor": "math.floor", "ceil": "math.ceil", "trunc": "math.trunc", "rint": "round"}
"""C's functions that round, and what Python calls them."""


def rounded(name: str, x: str) -> str:
    """Return Python for a function that rounds; its own gives a whole number, which has no sign at 0.

    >>> rounded("rint", "a")
    'math.copysign(round(a), a)'
    """
    return f"math.copysign({ROUNDING[name]}({x}), {x})"


_BUILT_IN = {"fabs": "abs({0})", **{name: rounded(name, "{0}") for name in ROUNDING}}
_SPELLED = {"&&": "and", "||": "or"}


def in_python(tree: Tree) -> str:
    """Write an expression for Python's own floats and `math`, inputs still in braces; it may raise where C answers.

    >>> in_python(parse("{x} <= 0.0 ? 0.0 : log({x})"))
    '0.0 if {x} <= 0.0 else math.log({x})'
    """
    return _python(tree)[0]


def _python(tree: Tree) -> tuple[str, int]:
    """Return the text of an expression and how tightly its outermost sign binds."""
    match tree:
        case Input():
            return f"{{{tree.name}}}", ATOM
        case Number():
            return repr(tree.value), ATOM
        case Call():
            given = [in_python(part) for part in tree.arguments]
            built_in = _BUILT_IN.get(tree.name)
            return built_in.format(*given) if built_in else f"math.{tree.name}({', '.join(given)})", ATOM
        case Signed():
            # `not` binds less tightly than a comparison.
            before, inside, own = ("not ", LEVELS["=="], LEVELS["&&"]) if tree.sign == "!" else ("-", SIGN, SIGN)
            return before + _held(tree.operand, inside), own
        case Between():
            level = LEVELS[tree.sign]
            # Python chains comparisons, so one inside another needs its parentheses.
            first = LEVELS["+"] if tree.sign in COMPARISONS else level
            left = _held(tree.left, first)
            right = _held(tree.right, max(first, level + 1))
            return f"{left} {_SPELLED.get(tree.sign, tree.sign)} {right}", level
        case Choice():
            parts = _held(tree.yes, 1), _held(tree.condition, 1), _held(tree.no, CHOICE)
            return "{} if {} else {}".format(*parts), CHOICE


def _held(tree: Tree, level: int) -> str:
    """Return the text of an operand, in parentheses where it binds less tightly than a level."""
    text, own = _python(tree)
    return text if own >= level else f"({text})"
