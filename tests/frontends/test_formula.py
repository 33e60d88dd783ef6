"""The formula language: what it means, what it refuses, and that nothing else can happen."""

from __future__ import annotations

import math
import pickle
import random
import string
import time

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import FormulaError, LimitError
from wiregrad.frontends.formula import MAX_CHARACTERS
from wiregrad.ir import Level
from wiregrad.ops import TABLE, Elementwise, Pattern

from ..support.sampling import choose_count

PYTHON_MEANS_THE_SAME = [
    "1 + 2 * 3",
    "(1 + 2) * 3",
    "2 ** 3 ** 2",
    "-2 ** 2",
    "(-2) ** 2",
    "2 ** -1",
    "--3",
    "-+-3",
    "2 - 3 - 4",
    "2 / 4 / 8",
    "7 // 2 * 3",
    "-7 % 3",
    "7 % 4 * 2",
    "1 < 2",
    "1 + 1 >= 2 * 1",
    "3 != 3",
    "2 == 1 + 1",
    "-1 * -2",
    "1e3 + .5 + 2. + 1.5e-2",
    "- 2 * 3 - -4",
    "((((7))))",
    "1 -\t2",
]


@pytest.mark.parametrize("formula", PYTHON_MEANS_THE_SAME)
def test_a_formula_means_what_it_means_in_python(formula: str) -> None:
    assert wg.circuit(formula)() == eval(formula)


def test_a_caret_is_a_power() -> None:
    assert wg.circuit("2 ^ 3 ^ 2")() == 512.0


def test_a_new_line_does_not_change_what_binds() -> None:
    assert wg.circuit("(-2\n**2)")() == -4.0


def test_other_names_of_ops_are_understood() -> None:
    assert wg.circuit("abs(x) + ln(y) + pow(x, 2)")(x=-3, y=1) == 12.0


def test_letters_that_python_takes_for_one_are_one() -> None:
    assert wg.circuit("\u00b5 * 2")(**{"\u03bc": 3}) == 6.0
    assert wg.circuit("\u00b5 * \u03bc")["\u00b5"].index == 0


def test_an_operator_of_a_new_op_is_part_of_the_language() -> None:
    op = Elementwise(
        name="spaceship",
        doc="Sign of the difference.",
        inputs=("a", "b"),
        pattern=Pattern.BLOCK,
        forward=lambda a, b: np.sign(a - b),
        partials=(None, None),
        infix=("<=>",),
        level=Level.COMPARISON,
        c="sign({a} - {b})",
    )
    TABLE.register(op)
    try:
        circuit = wg.circuit("2 * x <=> y")

        assert str(circuit["f"]) == "f = 2.0 * x <=> y"
        assert circuit(x=1, y=3) == -1.0
    finally:
        TABLE.unregister(op)


def test_an_error_survives_pickling() -> None:
    with pytest.raises(FormulaError) as caught:
        wg.circuit("a\n + $")
    again = pickle.loads(pickle.dumps(caught.value))

    assert (str(again), again.line, again.column) == (str(caught.value), 2, 4)


def test_pi_is_a_constant() -> None:
    assert wg.circuit("cos(pi)")() == -1.0


@pytest.mark.parametrize("text", ["e = a + b; f = e * c", "e = a + b\nf = e * c\n", "e = a + b;\n\n; f = e * c;"])
def test_statements_end_with_semicolons_or_lines_and_the_last_is_the_output(text: str) -> None:
    circuit = wg.circuit(text)

    assert circuit.output == "f"
    assert circuit(a=2, b=-3, c=10) == -10.0


def test_a_statement_may_run_over_lines_inside_parentheses() -> None:
    assert wg.circuit("f = (a +\n   b\n) * maximum(\n a,\n b)")(a=2, b=3) == 15.0


def test_inputs_come_in_the_order_of_reading() -> None:
    assert wg.circuit("q = z * y; f = q + x").inputs == ("z", "y", "x")


def test_nodes_without_a_name_get_one_that_is_free() -> None:
    circuit = wg.circuit("t1 * t2 + x * x + 1")

    assert [node.name for node in circuit.nodes] == ["t3", "t4", "t5", "f"]


def test_the_output_is_f_unless_that_is_taken() -> None:
    assert wg.circuit("f * g").output == "f_1"


def test_a_renamed_wire_is_a_node_of_its_own() -> None:
    run = wg.circuit("e = a; f = e * e").run(a=3)

    assert run["e"].grad == 6.0
    assert run.grads == {"a": 6.0}


def test_an_op_name_may_be_a_variable() -> None:
    assert wg.circuit("sign = a - 1; sign * exp(sign)")(a=1) == 0.0


def test_unicode_names_are_names() -> None:
    assert wg.circuit("β * größe")(β=2, größe=4) == 8.0


def test_every_op_can_be_called() -> None:
    for name in TABLE.scalar_names():
        arguments = ", ".join(f"x{k}" for k in range(len(TABLE[name].inputs)))

        assert wg.circuit(f"{name}({arguments})").nodes or name == "split"


def test_defaults_may_be_left_out() -> None:
    assert wg.circuit("leaky_relu(x)")(x=-1) == -0.01
    assert wg.circuit("leaky_relu(x, 0.5)")(x=-1) == -0.5


@pytest.mark.parametrize(
    ("formula", "line", "column", "message"),
    [
        ("", 1, 1, "the formula is empty"),
        (" ;\n; ", 2, 3, "the formula is empty"),
        ("a +", 1, 4, "stops where a number, a name or ( is wanted"),
        ("a + * b", 1, 5, "wanted a number, a name or (; got '*'"),
        ("a b", 1, 3, "write * to multiply"),
        ("sinn(x)", 1, 1, "no function called sinn; did you mean sin?"),
        ("input(x)", 1, 1, "no function called input"),
        ("sin(x, y)", 1, 1, "sin() needs 1 argument: x; got 2"),
        ("1 + clip(x, 0)", 1, 5, "clip() needs 3 arguments: x, low, high; got 2"),
        ("sin()", 1, 5, "sin() needs 1 argument: x"),
        ("sin(x,)", 1, 7, "wanted a number, a name or (; got ')'"),
        ("(a + b", 1, 1, "never closed"),
        ("(a + (b)", 1, 1, "never closed"),
        ("a + b)", 1, 6, "never opened"),
        ("()", 1, 2, "wanted a number"),
        ("a, b", 1, 2, "no call is open here"),
        ("(a, b)", 1, 3, "no call is open here"),
        ("a < b < c", 1, 7, "comparisons do not chain"),
        ("x = y = 2", 1, 7, "to compare, write =="),
        ("a + b = 2", 1, 7, "only a plain name"),
        ("1e999", 1, 1, "a literal must be finite"),
        ("a + 1e999", 1, 5, "a literal must be finite"),
        ("x = x + 1", 1, 1, "x is read before it is given"),
        ("f = e * c\ne = a + b", 2, 1, "e is read before it is given"),
        ("e = a; e = b", 1, 8, "e is given twice"),
        ("pi = 3", 1, 1, "pi is a constant"),
        ("a + b; c", 1, 1, "nothing can use it"),
        ("a $ b", 1, 3, "'$' has no meaning"),
        ("a & b", 1, 3, "'&' has no meaning"),
        ('__import__("os")', 1, 12, "has no meaning in a formula"),
        ("__import__(os)", 1, 1, "no function called __import__"),
        ("a.b", 1, 2, "'.' has no meaning"),
        ("a[0]", 1, 2, "'[' has no meaning"),
        ("lambda: 3", 1, 7, "':' has no meaning"),
        ("-(a > b)", 1, 1, "negative cannot take bool"),
        ("x + 2 * -(a > b)", 1, 9, "negative cannot take bool"),
        ("e = a\nf = e\n1 + cbrt(2) * (-(a > b))", 3, 16, "negative cannot take bool"),
        ("½ * x", 1, 1, "'½' has no meaning"),
        ("a" * 300, 1, 1, "cannot be a name"),
    ],
)
def test_an_error_points_at_the_character(formula: str, line: int, column: int, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        wg.circuit(formula)

    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert not formula or str(caught.value).splitlines()[-1].index("^") == 4 + min(column - 1, 50)


def test_the_caret_stands_under_the_character_of_a_long_line() -> None:
    with pytest.raises(FormulaError) as caught:
        wg.circuit("x + " * 100 + "$")
    *_, line, caret = str(caught.value).splitlines()

    assert line[caret.index("^")] == "$"


def test_a_formula_is_a_string() -> None:
    with pytest.raises(FormulaError, match=r"a formula is a string; got int$"):
        wg.circuit(3)  # type: ignore[arg-type]


def test_a_tower_of_powers_is_answered_at_once() -> None:
    assert wg.circuit("9**9**9**9")() == math.inf


def test_nested_parentheses_have_a_limit() -> None:
    assert wg.circuit("(" * 100 + "x" + ")" * 100)(x=2) == 2.0
    with pytest.raises(LimitError, match="nest at most 100 deep"):
        wg.circuit("(" * 101 + "x" + ")" * 101)
    with pytest.raises(LimitError, match="at most 10,000 characters; this one has 20,001"):
        wg.circuit("(" * 10_000 + "x" + ")" * 10_000)


def test_long_formulas_have_a_limit() -> None:
    terms = (MAX_CHARACTERS + 1) // 2
    assert wg.circuit("+".join(["x"] * terms)).run(x=1).grads == {"x": float(terms)}
    with pytest.raises(LimitError, match="build larger circuits with Builder or the text form"):
        wg.circuit("+".join(["x"] * 10_000))
    assert wg.circuit("-" * 9_999 + "x")(x=2) == -2.0


PIECES = [
    *"+-*/^%()=;,<>!\n \t.$&|~'\"\\@#[]{}\x00\x1b\u202eé²½√∛π·÷≤⁻₁ⁿ",
    "**",
    "//",
    "==",
    "!=",
    "<=",
    ">=",
    "pi",
    "e",
    "x",
    "y",
    "f",
]
PIECES += ["1", "2.5", "1e9", "1e999", ".5", "sin", "where", "clip(", "__import__", "lambda", "None", "x = ", "9" * 40]
PIECES += [*TABLE.callable_names()]


def random_text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return "".join(chr(rng.randrange(1, 0x2FFF)) for _ in range(rng.randrange(40)))
    if kind < 0.5:
        return "".join(rng.choices(string.printable, k=rng.randrange(60)))
    text = "".join(rng.choices(PIECES, k=rng.randrange(1, 25)))
    return text * rng.randrange(1, 30) if kind > 0.97 else text


def try_random_texts(count: int, seed: int) -> tuple[int, float]:
    """Parse random texts; returns how many were formulas and the longest time one took."""
    rng, parsed, longest = random.Random(seed), 0, 0.0
    for _ in range(count):
        text = random_text(rng)
        start = time.process_time()
        try:
            wg.circuit(text)
            parsed += 1
        except FormulaError as error:
            assert str(error)
            assert 1 <= error.line <= text.count("\n") + 1
        longest = max(longest, time.process_time() - start)
    return parsed, longest


@pytest.mark.parametrize("shard", [0, *(pytest.param(shard, marks=pytest.mark.full) for shard in range(1, 10))])
def test_a_hundred_thousand_random_texts_give_circuits_or_typed_errors(shard: int) -> None:
    parsed, longest = try_random_texts(choose_count(4_000, 10_000), seed=shard)

    assert parsed > 100
    assert longest < 20
