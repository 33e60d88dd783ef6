"""Formulas as people write them: what the notation means, what has two readings, and that nothing is silently wrong."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

import wiregrad as wg
from wiregrad.errors import FormulaError
from wiregrad.frontends.formula import (
    ARGUMENT_ADVICE,
    BAR_FUNCTION,
    FUNCTION_SPELLINGS,
    PREFIX_FUNCTIONS,
    RAISED_LETTERS,
    SIGN_SPELLINGS,
    WORD_ADVICE,
    find_function,
    parse_formula_with_notes,
)
from wiregrad.ops import TABLE

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"

WRITTEN_AND_PLAIN = [
    ("2x", "2 * x"),
    ("2 x", "2 * x"),
    ("2.5x", "2.5 * x"),
    ("-2x", "-2 * x"),
    ("3(x+1)", "3 * (x + 1)"),
    ("(a+b)(a-b)", "(a + b) * (a - b)"),
    ("(a+b)c", "(a + b) * c"),
    ("2sin(x)", "2 * sin(x)"),
    ("sin(x)cos(x)", "sin(x) * cos(x)"),
    ("x sin(x)", "x * sin(x)"),
    ("a*2x", "a * 2 * x"),
    ("2x/3", "2 * x / 3"),
    ("a - 2x", "a - 2 * x"),
    ("x²", "x ** 2"),
    ("x³", "x ** 3"),
    ("x⁻¹", "x ** -1"),
    ("x¹²", "x ** 12"),
    ("x^2", "x ** 2"),
    ("x^2^3", "x ** (2 ** 3)"),
    ("2x²", "2 * x ** 2"),
    ("-x²", "-(x ** 2)"),
    ("-2²", "-(2 ** 2)"),
    ("2^x²", "2 ** (x ** 2)"),
    ("x²y³", "x ** 2 * y ** 3"),
    ("x²(y+1)", "x ** 2 * (y + 1)"),
    ("(x+1)²", "(x + 1) ** 2"),
    ("x^(2)y", "x ** 2 * y"),
    ("sin(x)²", "sin(x) ** 2"),
    ("sin²(x)", "sin(x) ** 2"),
    ("a·b", "a * b"),
    (f"a{TIMES}b÷c", "a * b / c"),
    (f"a {MINUS} b", "a - b"),
    ("a \u2010 b", "a - b"),
    ("a\u2011b", "a - b"),
    (f"{MINUS}x", "-x"),
    (f"{MINUS}2", "-2"),
    ("|x|", "abs(x)"),
    ("|x - y|²", "abs(x - y) ** 2"),
    ("||x| - |y||", "abs(abs(x) - abs(y))"),
    ("|x||y|", "abs(x) * abs(y)"),
    ("2|x|", "2 * abs(x)"),
    ("x|x|", "x * abs(x)"),
    ("|maximum(|x|, y)|", "abs(maximum(abs(x), y))"),
    ("-|x|", "-abs(x)"),
    ("π", "pi"),
    ("2π", "2 * pi"),
    ("π r²", "pi * r ** 2"),
    ("π(r+1)", "pi * (r + 1)"),
    ("2 pi x", "2 * pi * x"),
    (f"{SIGMA}(x)", "sigmoid(x)"),
    (f"{SIGMA}²", f"{SIGMA} ** 2"),
    (f"1/({SIGMA}√(2π))", f"1 / ({SIGMA} * sqrt(2 * pi))"),
    ("√x", "sqrt(x)"),
    ("√(x)", "sqrt(x)"),
    ("√(x)y", "sqrt(x) * y"),
    ("2√x", "2 * sqrt(x)"),
    ("√√x", "sqrt(sqrt(x))"),
    ("√sin(x)", "sqrt(sin(x))"),
    ("-√x + 1", "-sqrt(x) + 1"),
    ("x^√2", "x ** sqrt(2)"),
    ("∛x", "cbrt(x)"),
    ("max(a, b)", "maximum(a, b)"),
    ("min(a, max(b, 1))", "minimum(a, maximum(b, 1))"),
    ("e^x", "e ** x"),
    ("2e^x", "2 * e ** x"),
    ("2e3", "2000"),
    ("2e3x", "2000 * x"),
    ("x₁ + x₂", "x1 + x2"),
    ("x₁₂", "x12"),
    ("a ≤ b", "a <= b"),
    ("a ≥ b", "a >= b"),
    ("a ≠ b", "a != b"),
    ("y = 2x² + 1", "y = 2 * x ** 2 + 1"),
    ("θ·β", "θ * β"),
    ("xy", "xy"),
    ("x\N{NO-BREAK SPACE}+ 1", "x + 1"),
]


def circuit_text(formula: str) -> str:
    """Return a circuit as text without the places, which are those of the formula."""
    lines = wg.circuit(formula).to_text().splitlines()
    return "\n".join(line.partition("#")[0].rstrip() for line in lines)


@pytest.mark.parametrize(("written", "plain"), WRITTEN_AND_PLAIN)
def test_a_formula_as_people_write_it_means_the_plain_one(written: str, plain: str) -> None:
    assert circuit_text(written) == circuit_text(plain)


TWO_READINGS = [
    ("1/2x", 4, "write (1/2)*x or 1/(2*x)"),
    ("1/2(x+1)", 4, "write (1/2)*(...) or 1/(2*(...))"),
    ("6÷2(1+2)", 4, "write (6÷2)*(...) or 6÷(2*(...))"),
    ("2x/3y", 5, "write (2x/3)*y or 2x/(3*y)"),
    ("x/-π r", 6, "write (x/-π)*r or x/(-π*r)"),
    ("x // 2y", 7, "write (x//2)*y or x//(2*y)"),
    ("x % 2y", 6, "two ways"),
    ("1/sin(x)cos(x)", 9, "write (1/sin(x))*cos(...) or 1/(sin(x)*cos(...))"),
    ("1/2^(x)y", 8, "write (1/2^(x))*y or 1/(2^(x)*y)"),
    ("x^2y", 4, "write (x^2)*y or x^(2*y)"),
    ("x^2(y+1)", 4, "two ways"),
    ("e^-2x", 5, "write (e^-2)*x or e^(-2*x)"),
    ("2^sin(x)cos(x)", 9, "two ways"),
    ("2^x²y", 5, "two ways"),
    ("√x²", 3, "write √(x²) or (√x)²"),
    ("√x^2", 3, "write √(x^...) or (√x)^..."),
    ("√2x", 3, "write (√2)*x or √(2*x)"),
    ("√sin(x)y", 8, "two ways"),
    ("sin⁻¹(x)", 4, "write arcsin(x) or sin(x)⁻¹"),
    ("sin^-1(x)", 7, "write arcsin(x) or sin(x)^-1"),
    ("sin**-1(x)", 8, "write arcsin(x) or sin(x)**-1"),
    ("sin^(-1)(x)", 9, "write arcsin(x) or sin(x)^(-1)"),
    ("exp^-1(x)", 7, "write the inverse function by its name or exp(x)^-1"),
    ("ln⁻¹(x)", 3, "write the inverse function by its name or ln(x)⁻¹"),
    ("x / " + "2" * 40 + "x", 45, "write (x/...)*x or x/(...*x)"),
]

REFUSED = [
    ("sin x", 5, "the argument of a function stands in parentheses: write sin(x)"),
    ("sin 2x", 5, "write sin(...)"),
    ("sin cos(x)", 5, "write sin(...)"),
    ("sin |x|", 5, "write sin(...)"),
    ("sin √x", 5, "write sin(...)"),
    ("max 2", 5, "write max(...)"),
    (f"{SIGMA} x", 3, f"write {SIGMA}(x)"),
    ("sin^2(x)", 6, "the power of a function stands after its argument: write sin(...)^2"),
    ("sin² x", 4, "write sin(...)²"),
    ("f(x)", 1, "there is no function called f; to multiply, write f*(...)"),
    ("x(x+1)", 1, "there is no function called x; to multiply, write x*(...)"),
    ("2a(b)", 2, "there is no function called a"),
    ("x y", 3, "got 'y'; write * to multiply"),
    ("2x y", 4, "write * to multiply"),
    ("x 2", 3, "write * to multiply"),
    ("2 3", 3, "two numbers follow each other; a number has one point and no spaces"),
    ("1.2.3", 4, "two numbers follow each other; a number has one point and no spaces"),
    ("(a)2", 4, "write * to multiply"),
    ("x²2", 3, "write * to multiply"),
    ("x² ³", 4, "two powers follow each other"),
    ("x²^3", 3, "two powers follow each other"),
    ("²x", 1, "wanted a number, a name or (; got '²'"),
    ("x + ²", 5, "got '²'"),
    ("a · · b", 5, "got '·'"),
    ("x⁻", 2, "a raised sign stands before a raised digit"),
    ("x" + "⁹" * 320, 2, "a literal must be finite"),
    ("xⁿ", 2, "'ⁿ' is a raised letter and not part of a name; for a power write ^n"),
    ("eˣ", 2, "for a power write ^x"),
    ("2πr", 2, "π is a number and cannot be part of the name πr; write π*r"),
    ("aπb", 1, "write a*π*b"),
    ("π = 3", 1, "π is a constant"),
    ("½x", 1, "'½' has no meaning in a formula; write (1/2)"),
    ("₁x", 1, "'₁' has no meaning"),
    ("0x10", 2, "0x10 is not a number"),
    ("1_000", 2, "1_000 is not a number"),
    ("2e", 2, "2e may be the start of a number like 2e3; for a product write * before e"),
    ("2e-x", 2, "2e may be the start of a number"),
    ("|x|y", 4, "write * to multiply"),
    ("|a|b|c|", 4, "write * to multiply"),
    ("|x", 1, "this | is never closed; |x| is the absolute value"),
    ("a|b", 2, "this | is never closed"),
    ("a || b", 4, "this | is never closed"),
    ("(|x)", 2, "this | is never closed"),
    ("|(x|)", 5, "wanted a number"),
    ("max()", 5, "max() needs 2 arguments: a, b"),
    ("√", 2, "stops where a number, a name or ( is wanted"),
    ("√-x", 2, "wanted a number, a name or (; got '-'"),
    ("√()", 3, "√() needs 1 argument: x"),
    ("(x > 0)²", 1, "power cannot take bool"),
    ("2x = 3", 4, "only a plain name can be given a value"),
    ("x² + $", 6, "'$' has no meaning"),
]

HABITS = [
    ("tnh(x)", 1, "there is no function called tnh; did you mean tanh?"),
    ("sqt(x)", 1, "did you mean sqrt?"),
    ("1 + sgn(x)", 5, "did you mean sign?"),
    ("ReLU(x)", 1, "did you mean relu?"),
    ("LeakyReLU(x)", 1, "did you mean leaky_relu?"),
    ("mox(x)", 1, "there is no function called mox; to multiply, write mox*(...)"),
    ("sqr(x)", 1, "there is no function called sqr; write x^2"),
    ("cosec(x)", 1, "write 1/sin(x)"),
    ("sum(a, b)", 1, "write a + b"),
    ("1 - softmax(x)", 5, "write exp(a)/(exp(a) + exp(b))"),
    ("if(x > 0, x, 0)", 1, "there is no function called if; write where(x > 0, a, b)"),
    ("not(x > 0)", 1, "write logical_not(a)"),
    ("f(x) = x^2", 1, "there is no function called f; to name the result, write f = ..."),
    ("f(x) + f(y)", 1, "to multiply, write f*(...)"),
    ("max(a, b, c)", 1, "max() needs 2 arguments: a, b; got 3; write max(max(a, b), c)"),
    ("minimum(a, b, c)", 1, "minimum() needs 2 arguments: a, b; got 3; write min(min(a, b), c)"),
    ("max(a)", 1, "max() needs 2 arguments: a, b; got 1"),
    ("log(x, 2)", 1, "log() needs 1 argument: x; got 2; write log(x)/log(b) for base b"),
    ("ln(x, 2)", 1, "ln() needs 1 argument: x; got 2; write log(x)/log(b) for base b"),
    ("√(x, 3)", 1, "√() needs 1 argument: x; got 2; write x^(1/n) for the n-th root"),
    ("leaky_relu(x, 0.1, 2)", 1, "leaky_relu() needs 1 to 2 arguments: x, slope; got 3"),
    ("x if x > 0 else 0", 3, "if has no meaning in a formula; write where(x > 0, a, b)"),
    ("x > 0 and y > 0", 7, "and has no meaning in a formula; write logical_and(a, b)"),
    ("not x", 1, "not has no meaning in a formula; write logical_not(a)"),
    ("max(x for x in y)", 7, "for has no meaning in a formula; write wg.trace(f) in Python"),
    (
        "lambda x: x",
        9,
        "':' has no meaning in a formula; to name a value write y = ...; trace Python with wg.trace; "
        "on the command line, write FILE.py:FUNCTION",
    ),
    ("y := x", 3, "to name a value write y = ..."),
    ("⌊x⌋", 1, "'⌊' has no meaning in a formula; write floor(x)"),
    ("⌈x⌉", 1, "write ceil(x)"),
    ("‖x‖", 1, "write sqrt(a^2 + b^2)"),
    ("∜x", 1, "write x^(1/4)"),
    ("np.sin(x)", 3, "'.' has no meaning in a formula; write sin alone"),
    ("2*math.log(x)", 7, "write log alone"),
    ("2*math.pi*r", 7, "write pi alone"),
    ("torch.special.erf(x)", 6, "write erf alone"),
    ("x.max()", 2, "write max alone"),
    ("np.linalg.norm(x)", 3, "'.' has no meaning in a formula; names have no dots"),
    ("layer.w*x", 6, "names have no dots"),
    ("x > 0 ? x : 0", 7, "write where(x > 0, a, b)"),
    ("x^{2}", 3, "group with ( )"),
    ("x!", 2, "n! is gamma(n + 1)"),
    ("[x + 1]*2", 1, "group with ( )"),
    ("x[0]", 2, "group with ( ); name elements x0, x1"),
    ("a & b", 3, "write logical_and(a, b)"),
    ("x # input", 3, "it has no comments"),
    ("'x' + 1", 1, "names have no quotes"),
    ("3,5*x", 2, "a decimal number has a point: 3.5"),
    ("x, y", 2, "no call is open here; a formula has one result"),
    ("1 000 * x", 3, "a number has one point and no spaces"),
    ("min(a; b)", 6, "a semicolon ends a statement; arguments have commas"),
    ("(a + b]*c", 7, "group with ( )"),
    ("a \N{EM DASH} b", 3, "write - for minus"),
    ("$x$", 1, "it is not LaTeX: write a/b, sqrt(x), x^2"),
    (r"\frac{a}{b}", 1, "it is not LaTeX: write a/b, sqrt(x), x^2"),
    ("\N{LEFT DOUBLE QUOTATION MARK}x\N{RIGHT DOUBLE QUOTATION MARK}", 1, "names have no quotes"),
    ("sen(x)", 1, "write sin(x)"),
    ("root(x, 3)", 1, "write x^(1/n)"),
    ("x += 1", 4, "got '='; a name is given once; write a new one"),
]
"""What people type who know another notation: of Python, of NumPy, of the blackboard, of their country."""


@pytest.mark.parametrize(("formula", "column", "message"), [*TWO_READINGS, *REFUSED, *HABITS])
def test_what_has_no_single_reading_is_refused_at_its_character(formula: str, column: int, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        wg.circuit(formula)

    assert message in caught.value.message
    assert caught.value.column == column
    assert str(caught.value).splitlines()[-1].index("^") == 4 + min(column - 1, 50)


@pytest.mark.parametrize(("formula", "column", "_message"), TWO_READINGS)
def test_both_readings_in_a_message_are_formulas(formula: str, column: int, _message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        wg.circuit(formula)
    readings = caught.value.message.partition("write ")[2].split(" or ")
    complete = [text for text in readings if "..." not in text and "inverse" not in text]

    assert len({circuit_text(text) for text in complete}) == len(complete)


FORMULAS_IN_ADVICE = sorted(
    {
        formula
        for advice in [*WORD_ADVICE.values(), *ARGUMENT_ADVICE.values()]
        for formula in advice.partition(" for ")[0].split(" or ")
        if not formula.startswith("wg.")
    }
)


@pytest.mark.parametrize("formula", FORMULAS_IN_ADVICE)
def test_what_a_message_tells_to_write_is_a_formula(formula: str) -> None:
    assert wg.circuit(formula).inputs


def test_no_advice_is_about_a_function_that_exists() -> None:
    assert [word for word in WORD_ADVICE if find_function(word) is not None] == []


def test_advice_on_arguments_is_about_ops() -> None:
    assert [name for name in ARGUMENT_ADVICE if find_function(name) != name] == []


@pytest.mark.parametrize("word", ["step", "sum", "if", "dot"])
def test_a_word_with_advice_is_still_the_name_of_an_input(word: str) -> None:
    assert wg.circuit(f"2*{word} + 1").inputs == (word,)


@pytest.mark.parametrize(
    ("formula", "notes"),
    [
        ("e^x", [("exponential", 0)]),
        ("2 + e² + e^x", [("exponential", 4)]),
        ("pow(e, x)", [("exponential", 4)]),
        ("e = a; e^x", []),
        ("e * x", []),
        ("x + y + xy", [("product", 8)]),
        ("x * y + x1", []),
        ("2*exp + 1", [("function", 2)]),
        ("max", [("function", 0)]),
        (f"{SIGMA} + 1", []),
        ("exp = a; exp * 2", []),
        ("exp + xy * (x + y) * e^2", [("function", 0), ("product", 6), ("exponential", 21)]),
    ],
)
def test_a_leaf_that_may_not_be_meant_is_noted(formula: str, notes: list[tuple[str, int]]) -> None:
    assert [(note.kind, note.offset) for note in parse_formula_with_notes(formula)[1]] == notes


def test_a_node_of_a_raised_power_stands_where_its_base_begins() -> None:
    assert "t1 = power x %3       # formula:1:10" in wg.circuit("y = 3 + 2x²").to_text()


@pytest.mark.parametrize("op", [*FUNCTION_SPELLINGS.values(), *PREFIX_FUNCTIONS.values(), BAR_FUNCTION])
def test_other_spellings_stand_for_ops_of_the_table(op: str) -> None:
    assert TABLE.is_scalar(op)


@pytest.mark.parametrize(("spelling", "sign"), SIGN_SPELLINGS.items())
def test_other_signs_stand_for_signs_of_the_table(spelling: str, sign: str) -> None:
    assert circuit_text(f"a {spelling} b") == circuit_text(f"a {sign} b")


@pytest.mark.parametrize("letter", RAISED_LETTERS)
def test_a_raised_letter_is_never_part_of_a_name(letter: str) -> None:
    with pytest.raises(FormulaError, match="raised letter"):
        wg.circuit(f"x{letter} + 1")


class NotationWriter:
    """Draws expressions, each as a plain formula and as one in the notation of people."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def draw(self, depth: int) -> tuple[str, str]:
        """Return the plain text and the written text of one expression; both can be an operand of anything."""
        if depth == 0:
            name = self.random.choice(["x", "y", "θ", "x₁", "π"])
            return name.replace("₁", "1").replace("π", "pi"), name
        draw: Callable[[int], tuple[str, str]] = self.random.choice(
            [self.draw_sum, self.draw_product, self.draw_power, self.draw_function]
        )
        return draw(depth - 1)

    def draw_sum(self, depth: int) -> tuple[str, str]:
        """Return a sum or difference in parentheses."""
        (a, left), (b, right) = self.draw(depth), self.draw(depth)
        plain, written = self.random.choice([("+", "+"), ("-", MINUS), ("*", "·"), ("/", "÷")])
        return f"({a} {plain} {b})", f"({left}{written}{right})"

    def draw_product(self, depth: int) -> tuple[str, str]:
        """Return a product without a sign, in parentheses."""
        (a, left), (b, right) = self.draw(depth), self.draw(depth)
        number = self.random.choice(["2", "0.5", "30"])
        return f"({number} * ({a}) * ({b}))", f"({number}({left})({right}))"

    def draw_power(self, depth: int) -> tuple[str, str]:
        """Return a power with a raised exponent."""
        plain, written = self.draw(depth)
        exponent, raised = self.random.choice([("2", "²"), ("3", "³"), ("-1", "⁻¹"), ("10", "¹⁰")])
        return f"(({plain}) ** {exponent})", f"(({written}){raised})"

    def draw_function(self, depth: int) -> tuple[str, str]:
        """Return an absolute value, a root or another function."""
        plain, written = self.draw(depth)
        return self.random.choice(
            [
                (f"abs({plain})", f"(|{written}|)"),
                (f"sqrt({plain})", f"√({written})"),
                (f"sigmoid({plain})", f"{SIGMA}({written})"),
                (f"(sin({plain}) ** 2)", f"(sin²({written}))"),
                (f"(2 * maximum({plain}, 1))", f"(2max({written}, 1))"),
            ]
        )


@pytest.mark.parametrize("seed", range(8))
def test_random_formulas_in_both_notations_are_the_same_circuit(seed: int) -> None:
    writer = NotationWriter(seed)
    for _ in range(40):
        plain, written = writer.draw(4)
        assert circuit_text(written) == circuit_text(plain)


LONG = [
    "(x)" * 3333,
    "|x|" * 3333,
    "2x+" * 3300 + "x",
    "x²" * 5000,
    "√" * 9999 + "x",
    "-" * 9990 + "2x",
    "2^" * 4999 + "x",
    "sin²(" * 90 + "x" + ")" * 90,
]
LONG_WRONG = ["|" * 9999, "a|" * 4999, "1/" + "-" * 9990 + "2x", "2(" * 4999, "x⁻" * 4999, "²" * 9999, "√" * 9999]


@pytest.mark.parametrize("formula", LONG, ids=lambda text: text[:6])
def test_long_formulas_are_read_in_a_moment(formula: str) -> None:
    start = time.process_time()
    assert wg.circuit(formula).inputs == ("x",)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("formula", LONG_WRONG, ids=lambda text: text[:6])
def test_long_wrong_formulas_are_refused_in_a_moment(formula: str) -> None:
    start = time.process_time()
    with pytest.raises(FormulaError) as caught:
        wg.circuit(formula)

    assert len(caught.value.message) < 500
    assert time.process_time() - start < 5


def test_a_function_is_found_by_its_name_in_formulas_alone() -> None:
    assert find_function("max") == "maximum"
    assert find_function("prod") is None
    assert "max" not in TABLE.scalar_names()
