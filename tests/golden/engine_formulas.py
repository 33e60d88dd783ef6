"""What the engine of the page is tried on: formulas, right and wrong, points, circuits, searches.

Some are written, some drawn; the same seed draws the same.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

from wiregrad.dtypes import BOOL, FLOAT
from wiregrad.ir import TABLE, Level
from wiregrad.ops import Elementwise

T = TypeVar("T")

AWKWARD = [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (math.nan, 1.0, 2.0), (2.0, math.nan, -1.0), (-2.0, 0.0, -0.0)]
AWKWARD += [
    (math.inf, math.inf, 0.0),
    (-math.inf, 3.0, math.inf),
    (6.0, 6.0, 6.0),
    (-1.0, 1.0, 0.0),
    (710.0, -3.0, 2.0),
]
PLAIN = (0.3, -0.7, 1.2, 2.0, -3.0, 0.5, 1.0, -1.0, 0.0, 3.7, 10.0, -2.4)
STRANGE = (math.nan, math.inf, -math.inf, -0.0, 1e300, -1e-300, 5e-324, 6.0, 1e16)

WRITTEN = [
    "(a + b) * c",
    "e = a + b; f = e * c",
    "x*x + x",
    "n = x1*w1 + x2*w2 + b; o = tanh(n)",
    "1 / (1 + exp(-(w0*x0 + w1*x1 + w2)))",
    "maximum(a, relu(b)) + minimum(a, b)",
    "s = exp(a) + exp(b) + exp(c); -log(exp(a) / s)",
    "h = tanh(tanh(tanh(tanh(x)))); h * x",
    "log(x * 0) + x",
    "p = x * 0; y = log(p)",
    "where(x > 0, log(x), x * x)",
    "where(x > 0, x, 1 / (x - x))",
    "a = b\nc = a\nd = a * c",
    "e = (a); f = ((e)) * 2",
    "3",
    "x",
    "pi",
    "y = 2; y * x",
    "t1 = x + 1; (x * 2) * (t1 + 3) - -x",
    "f = x * 2; g = f + 1; (f * g) * (f + g)",
    "-2 ** 2 + x",
    "-x ** -2 ** y",
    "2 * -3 * x",
    "- - -x",
    "-3",
    "(-3) * x",
    "a - -b - +c",
    "a ^ 2 + b ^ 0.5",
    "a // b + a % b",
    "((a)) + (\n b *\n c\n)",
    "u = a * b;;\n; v = u + 1 ;\n",
    "(a > b) * 1 + (a == b)",
    "(a > 0) + (b > 0)",
    "(a > 0) * (b > 0)",
    "maximum(a > 0, b)",
    "where(a, b, c) + where(a > b, a > 0, c)",
    "logical_and(a > 0, b) * a",
    "abs(a > b) * 3 + (floor(a < b) * b)",
    "leaky_relu(x) + leaky_relu(x, 0.2) + leaky_relu(x, s)",
    "maximum(x, 0) + maximum(0, x) + maximum(2, 3) * x",
    "clip(x, 0, 6) + clip(x, lo, 6) + clip(x, 0, hi) + clip(x, lo, hi)",
    "clip(1, 0, 6) * x",
    "split(x) * split(x)",
    "\N{GREEK SMALL LETTER ALPHA}\N{LATIN SMALL LETTER E WITH ACUTE} * \N{MICRO SIGN} + \N{GREEK SMALL LETTER MU}",
    "\N{MATHEMATICAL ITALIC SMALL X} = y + 1; x * x * \N{CJK UNIFIED IDEOGRAPH-5909}",
    "y = x * x\n \N{MATHEMATICAL BOLD SMALL A} * (y + 1) * x",
    "1e5 * x + .5 + 1. + 1.e-3 + 12e+2 + 1E3 + 0.1234565 + 1234565 * x",
    "123456789012345678 * x + 1e16 + 1e15 + 0.0001 + 0.00001 + 1e-7 * x + 1e22 + 1e308",
    "u = x * 1e200 * 1e200; v = u * 0; v + x",
    "sqrt(x - 1) + sqrt(x * 0)",
    "a = x * y; b = x + y; c = a * b; d = c * a + b * c; d * x + y",
    "x = 3; x",
    "y = x > 0",
    "(x > 0) * x",
    "unused = log(z); x * y",
    "1e308 * x * 10 - 1e308 * x * 10",
    "exp(1000 * x) * exp(-1000 * x)",
    "a ** b ** c",
    "a ^ 2 ^ b + -a ** 2",
    "s = split(x); s * s + s",
    "s = split(x); t = split(s); s * t * s",
    "x / x + x * 0.1",
    "x / x * 0.7 + x / x * 0.3 + x * y / x",
    "u = x * 1e-200 * 1e-120; u * 1e300 + u * u",
]
"""Each stands there at two points: plain ones first."""
AT = [
    ("acos(softplus(2 % y))", (math.inf,)),
    ("u = abs(1) + a + x; v = cosh(a); arccosh(softplus(softplus(u)))", (-math.inf, -3.0)),
    ("u = 1 / (y * y); v = u; trunc(u % u) * v", (-math.inf,)),
    ("(a + x) ** (acosh(pi) / y)", (5e-324, math.inf, math.inf)),
    *(("x / x + x * 0.1 + 0.3 * x / y", (x, 0.7)) for x in (0.3, 1.7, -0.6, 2.3)),
    *(("x / x * 0.7 - y / x * 0.3 + x / (x + 0.1)", (x, 0.7)) for x in (0.3, 1.7, -0.6, 2.3)),
]
"""Formulas at the points where they show something."""
BUILT = [
    "input x\nc = constant inf\ny = multiply x c\nz = add y x\noutput z",
    "input x\nc = constant -inf\nd = constant inf\ne = add c x\ny = add e d\nz = log x\nw = add y z\noutput w",
    "input x\nc = constant nan\ny = maximum x c\noutput y",
    "input x\nc = constant inf\ny = minimum x c\nz = log y\noutput z",
    "input x\ny = exp x\nz = log x\noutput y\noutput z",
    "input x\nc = constant inf\ny = multiply x c\nw = subtract x x\nz = log w\noutput y\noutput z",
]
"""Circuits that no formula has: infinities that were written, several outputs."""

WRONG = [
    "tnh(x)",
    "sqt(x) + 1",
    "ReLU(x)",
    "LeakyReLU(x)",
    "sqr(x)",
    "max(a, b, c)",
    "log(x, 2)",
    "ln(x, 2)",
    "abs(a, b)",
    "√(x, 3)",
    "if(x > 0, x, 0)",
    "x if x > 0 else 0",
    "x > 0 and y > 0",
    "not x",
    "f(x) = x^2",
    "f(x) + f(y) = 2",
    "np.sin(x)",
    "2*math.pi*r",
    "np.linalg.norm(x)",
    "torch.special.erf(x)",
    "layer.w*x",
    "a.",
    "..x",
    "x > 0 ? x : 0",
    "x^{2}",
    "[x + 1]*2",
    "lambda x: x",
    "3,5*x",
    "3.1,5*x",
    "x, y",
    "x += 1",
    "x # input",
    "x & y",
    "x!",
    "",
    "   ",
    ";",
    "\n\n",
    "a +",
    "a + ;",
    "(",
    ")",
    "()",
    "a b",
    "a (b)",
    "(a",
    "a)",
    "((a)",
    "(a))",
    "a,b",
    "(a, b)",
    "f(a",
    "sin()",
    "sin(,)",
    "sin(a,)",
    "sin(a b)",
    "sin(a, b)",
    "add(a)",
    "leaky_relu()",
    "clip(a, b)",
    "leaky_relu(a, b, c)",
    "where(a)",
    "sine(x)",
    "co(x)",
    "foo(x)",
    "q(x)",
    "maxx(x)",
    "mul(x, y)",
    "sum(x)",
    "matmul(a, b)",
    "a $ b",
    "a'b",
    'a"b',
    "a\\b",
    "a\tb",
    "a\x00b",
    "a\x7fb",
    "\N{SNOWMAN}",
    "\N{COMBINING ACUTE ACCENT}a",
    "a\N{NO-BREAK SPACE}b",
    "\N{GRINNING FACE} + a",
    "a\N{GRINNING FACE}",
    "a ! b",
    "!a",
    "a & b",
    "a = ",
    "= a",
    "a == ",
    "a = b = c",
    "(a) = b",
    "3 = a",
    "a + b = c",
    "a = 1; a = 2",
    "b = a; a = 3",
    "pi = 3",
    "a; b",
    "a = b; c; d",
    "a < b < c",
    "a == b != c",
    "a < (b < c) < d",
    "(a < b) / c",
    "-(a < b)",
    "(a < b) - (c < d)",
    "exp(a < b)",
    "+(a > 0)",
    "round(a > b)",
    "sigmoid(a > 0)",
    "mod(a > 0, b)",
    "copysign(a > 0, b > 0)",
    "1e999",
    "a * 1e400",
    "-1e309",
    "*a",
    "a **",
    "a * * b",
    "a + * b",
    "a // // b",
    "a, ",
    "sin",
    "sin + 1 = 2",
    "a.b",
    "a[0]",
    "a..b",
    "1.2.3",
    "1e",
    "0x10",
    "a\n+ b",
    "a +\nb",
    "(a +\n\n b",
    "x = y +\n z",
    "\N{MATHEMATICAL BOLD SMALL A} + $",
    "y = (\N{MATHEMATICAL BOLD SMALL A} + \n b c)",
    "1" * 400,
    "n" * 201,
    "n" * 250 + " = 3",
    "(" * 101 + "x" + ")" * 101,
    "sin(" * 101 + "x" + ")" * 101,
]
AS_PEOPLE_WRITE = [
    "2x",
    "2 x",
    "-2x",
    "3(x + 1)",
    "(a + b)(a - b)",
    "2sin(x)cos(x)",
    "x sin(x) + 2max(x, y)min(x, 1)",
    "y = 2x² + 1",
    "x² + x³y⁻¹ - x⁺²",
    "x²(y + 1)",
    "-x² + -2² + 2^-3²",
    "x^2^3 + 2^x²",
    "x^(2)y",
    "sin²(x) + cos²(x)",
    "|x|² + sin(x)² + (x + 1)²",
    "a·b⋅c∙d",
    "a \N{MULTIPLICATION SIGN} b \N{ASTERISK OPERATOR} c ÷ d \N{DIVISION SLASH} a",
    "a \N{MINUS SIGN} b \N{EN DASH} \N{MINUS SIGN}2",
    "(a ≤ b) + (a ≥ b) + (a ≠ b)",
    "|x|",
    "||x| - |y||",
    "|x||y| + 2|x - 1| + x|x|",
    "|maximum(x, |y|)|",
    "√x + √(x)y + 2√2 + √√x + ∛x + √|x| + √sin(x)",
    "π r²",
    "2π + π(x + 1) + 2 pi x",
    "π_k + π₁",
    "\N{GREEK SMALL LETTER SIGMA}(x) + \N{GREEK SMALL LETTER SIGMA}²",
    "1/(\N{GREEK SMALL LETTER SIGMA}√(2π)) · exp(-((x - μ)/\N{GREEK SMALL LETTER SIGMA})²/2)",
    "x₁·w₁ + x₂·w₂ + x1",
    "e^x",
    "2e^x + 3e²",
    "pow(e, x)",
    "2e3x + 2e3 + 2 e",
    "e = a; 2e^x",
    "x + y + xy + yx",
    "2*exp + 1",
    "\N{MATHEMATICAL ITALIC SMALL X}² + 2\N{MATHEMATICAL ITALIC SMALL X}",
    "x\N{NO-BREAK SPACE}+\N{NO-BREAK SPACE}2y",
    "(2\n x)",
    "1/2x",
    "1/2(x + 1)",
    "6÷2(1 + 2)",
    "a % 2b",
    "x/-π r",
    "x^2y",
    "e^-2x",
    "2^sin(x)cos(x)",
    "1/2^(x)y",
    "√2x",
    "√x²",
    "√x^2",
    "√-x",
    "sin x",
    "sin 2x",
    "sin √x",
    "sin^2(x)",
    "sin² x",
    "sin⁻¹(x)",
    "sin^-1(x)",
    "3cosh**-1 (x)",
    "sin^(-1)(x)",
    "sin^(2)(x)",
    "exp^-1(x)",
    "x^(2)(y)",
    "tahn(x)",
    "sqtr(x)",
    "mulitply(x, y)",
    "tanh⁻²(x)",
    "ln⁻¹(x)",
    "x(x + 1)",
    "f(x)",
    "max(a)",
    "max(a, b, c)",
    "max()",
    "√()",
    "x 2",
    "(a)2",
    "2 3",
    "x²2",
    "x² ³",
    "x²^3",
    "²x",
    "x⁻",
    "x⁹⁹⁹",
    "x" + "⁹" * 320,
    "xⁿ",
    "eˣ + 1",
    "2πr",
    "aπb + 1",
    "½x",
    "x½",
    "₁x",
    "2₁",
    "0x10",
    "1_000",
    "2e",
    "2E + 1",
    "2e-x",
    "|x|y",
    "|a|b|c|",
    "|x",
    "a || b",
    "(|x)",
    "|(x|)",
    "max(|a, b|)",
    "\N{MATHEMATICAL ITALIC SMALL X}/2\N{MATHEMATICAL ITALIC SMALL X}",
    "1/" + "2" * 30 + "x",
    "(a +\n b)/2x",
    "π = 3",
    "|" * 101 + "x" + "|" * 101,
]
"""Formulas in the notation of people, and what of it is refused."""
PIECES = [
    *"2xye0()|√∛²³+-*/^%=,; \n_½ⁿ₁πσ·÷≤",
    *("pi", "sin", "sin(", "max(", "⁻¹", "xy", "1.5", "2e", "2e3", "**", "(x)", "|x|", "\N{MINUS SIGN}", "log²("),
]
"""What random texts are made of."""
FOUND = "u = x * y; v = tanh(u); w = where(x > 0, v, u); 3 * w + log(x - x) * 0"
QUERIES = [
    "",
    "op:tanh",
    "op:multiply",
    "op:input",
    "op:constant",
    "op:pow",
    "x",
    "name:x",
    "name:/^x/",
    "name:/[uv]$/",
    "t",
    "grad>1",
    "grad>=1",
    "grad<0.5",
    "grad=1",
    "value>1",
    "value<=0",
    "value=inf",
    "grad<0",
    "grad<=0",
    "grad>0",
    "grad<-0.5",
    "grad>=-1",
    "grad=-1",
    "value<0",
    "value>-0.5 value<0",
    "value>-inf",
    "rank<0",
    "index<3",
    "index>=2",
    "depth<1",
    "depth=0",
    "depth>0",
    "rank=0",
    "rank>=2",
    "rank=1 grad>0",
    "nan",
    "inf",
    "bad",
    "absent",
    "op:tanh grad>1e-3",
    "x grad>0 index<2",
    "%1",
    "group:a",
    "grad>nan",
]
REPEATED = [("a+", 5001, "b"), ("\N{MATHEMATICAL BOLD SMALL A}+", 5001, "b"), ("(", 100, "x")]


class Formulas:
    """Draws formulas."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        ops = [op for op in TABLE if isinstance(op, Elementwise) and op.c and not op.per_call]
        self.conditions = [op for op in ops if _is_asked(op)]
        self.numbers = [op for op in ops if not _is_asked(op)]
        self.signs = [op for op in self.numbers if op.infix or op.prefix]

    def share(self) -> float:
        """Return a number from 0 to 1."""
        return self._random.random()

    def below(self, bound: int) -> int:
        """Return a whole number from 0 on."""
        return int(self.share() * bound)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of some things."""
        return items[self.below(len(items))]

    def formula(self) -> str:
        """Return a formula of one to three statements."""
        names, lines = ["x", "y", "a", "b"][: 1 + self.below(4)], list[str]()
        for k in range(self.below(3)):
            lines.append(f"{'uvw'[k]} = {self.expression(names, 2)}")
            names = [*names, "uvw"[k]]
        lines.append(("" if self.below(2) else "out = ") + self.expression(names, 3))
        return self.pick(["; ", "\n", ";\n"]).join(lines)

    def expression(self, names: Sequence[str], depth: int, condition: bool = False) -> str:
        """Return an expression of a number or of a condition."""
        if not depth or self.below(6) == 0:
            if condition:
                return f"{self.pick(names)} {self.pick(['<', '>', '<=', '>=', '==', '!='])} {self.pick(names)}"
            return self.pick([*names, *names, self.pick(names), str(self.pick(PLAIN)), str(1 + self.below(3)), "pi"])
        ops = self.conditions if condition else self.numbers
        op = self.pick(self.signs if self.below(3) == 0 and not condition else ops)
        own = [
            self.expression(names, depth - 1, name in op.takes_bool or self.below(25) == 0)
            for name in op.inputs[: len(op.inputs) - (self.below(2) if op.defaults else 0)]
        ]
        if op.infix:
            left, right = (text if self.below(3) == 0 and op.level != Level.COMPARISON else f"({text})" for text in own)
            return f"{left} {self.pick(op.infix)} {right}"
        if op.prefix and self.below(2):
            return f"{op.prefix}({own[0]})"
        return f"{self.pick([op.name, *op.aliases])}({', '.join(own)})"

    def point(self) -> list[float]:
        """Return values of leaves: mostly plain ones, sometimes strange."""
        pool = (*PLAIN, *STRANGE) if self.below(4) == 0 else PLAIN
        return [self.pick(pool) for _ in range(4)]

    def text(self) -> str:
        """Return a random text, which is seldom a formula."""
        return "".join(self.pick(PIECES) for _ in range(1 + self.below(9)))

    def broken(self, text: str) -> str:
        """Return a text with one character changed, added or left out."""
        at = self.below(len(text))
        return (
            text[:at] + self.pick(["", "(", ")", ",", "=", "*", "x", "<", "2", "$", "\n"]) + text[at + self.below(2) :]
        )


def _is_asked(op: Elementwise) -> bool:
    """Return whether an op of numbers gives a condition."""
    return op.infer(tuple(FLOAT for _ in op.inputs)) == BOOL


def systematic() -> Iterator[tuple[str, Sequence[float]]]:
    """Return every op at a regular and at awkward points, and ops with kinks beside every choice of literals."""
    for k, op in enumerate(op for op in TABLE if isinstance(op, Elementwise) and op.c and not op.per_call):
        call = f"y = {op.name}({', '.join(op.inputs)})"
        yield call, [float(x) for x in op.sample_points[k % len(op.sample_points)]]
        for shift in range(3 if op.kinks else 1):
            yield call, AWKWARD[(k + 3 * shift) % len(AWKWARD)]
        if op.kinks and len(op.inputs) > 1:
            for literal in itertools.product((False, True), repeat=len(op.inputs)):
                if any(literal):
                    given = ["1" if fixed else name for name, fixed in zip(op.inputs, literal, strict=True)]
                    yield f"y = {op.name}({', '.join(given)}) * {op.inputs[0]}", AWKWARD[1]
