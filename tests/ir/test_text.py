"""The text form: written, read back, and refused clearly."""

from __future__ import annotations

import random
import sys
import time
from itertools import count

import pytest

import wiregrad as wg
from wiregrad.errors import (
    MAX_COMPARED_NAMES,
    ArityError,
    CycleError,
    DuplicateNameError,
    TextError,
    UnknownOpError,
    suggest_name,
)
from wiregrad.ir import Place
from wiregrad.ir.columns import Convention, encode_mode

from ..support.sampling import choose_count

EXPRESSION = """\
circuit f
input a, b, c
e = add a b        # formula:1:5
f = multiply e c   # formula:1:16
output f
"""


def test_the_text_of_the_expression() -> None:
    assert wg.circuit("e = a + b; f = e * c").to_text() == EXPRESSION
    assert str(wg.Circuit.from_text(EXPRESSION)) == EXPRESSION


def test_the_place_of_a_node_is_where_its_expression_begins() -> None:
    circuit = wg.circuit("(a + b) * c")

    assert [str(node.place) for node in circuit.nodes] == ["formula:1:2", "formula:1:1"]


def test_text_is_a_round_trip_for_everything_a_circuit_can_hold() -> None:
    b = wg.Builder(finite=False)
    x = b.input("x")
    with b.group("a group/with #".replace("/", " ")), b.at(Place('odd "file": 3.py', 7, 2)):
        k = b.constant(float("nan"), name="k")
        y = b.maximum(x, k)
    b.name(y, "first")
    b.name(y, "second")
    with b.at(Place("C:\\code\\net.py", 12)):
        z = b.where(x > 0.1 + 0.2, b.constant(-0.0), float("-inf"))
    late = b.input("late.input[3]")
    circuit = b.build(y, labels={"other": z, "again": late, "x_out": x}, name="whole")

    assert wg.Circuit.from_text(circuit.to_text()) == circuit


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, sys.float_info.max, -0.0, 1e16, 1e22, 123456789.123456789])
def test_every_double_is_read_back_exactly(value: float) -> None:
    b = wg.Builder()
    circuit = b.build(b.add(b.input("x"), value))

    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def test_lines_in_any_order_are_sorted() -> None:
    circuit = wg.Circuit.from_text("output f\nf = multiply e c\ne = add a b\ninput a, b\ninput c\ncircuit g")

    assert circuit.name == "g"
    assert circuit(a=2, b=-3, c=10) == -10.0


def test_comments_and_empty_lines_are_passed_over() -> None:
    text = "# a circuit by hand\n\ninput x\n   y = exp x   # in theory\noutput y\n"

    assert wg.Circuit.from_text(text) == wg.Circuit.from_text("input x\ny = exp x\noutput y")


def test_a_literal_operand_fixes_the_kink_and_the_text_says_only_what_is_unusual() -> None:
    plain = wg.circuit("maximum(x, 0)")
    joint = wg.Circuit.from_text(plain.to_text().replace("x %1", "x %1 kink=min_norm"))
    torch = wg.Circuit.from_text(plain.to_text().replace("x %1", "x %1 kink=torch:b"))

    assert "kink" not in plain.to_text()
    assert plain["f"].mode == encode_mode(Convention.MIN_NORM, [1])
    assert [c.run(x=0).grads["x"] for c in (plain, joint, torch)] == [0.0, 0.5, 0.5]
    assert [wg.Circuit.from_text(c.to_text()) for c in (plain, joint, torch)] == [plain, joint, torch]


WRONG_CONSTANTS = [
    ("float64[2,3] [1,2,3,4,5,6]", "line 2: wanted 2 elements along axis 0"),
    ('bool[2] [5,"a"]', "line 2: wanted true or false as an element"),
    ("bool[1] [NaN]", "wanted true or false"),
    ('int64[2] [1.9,"3"]', "line 2: wanted a whole number as an element of int64"),
    ("int64[1] [9223372036854775808]", "wanted a whole number"),
    ("float64[1] [null]", "line 2: wanted a number, 'nan', 'inf' or '-inf'"),
    ('float64[2] ["1","inf"]', "wanted a number"),
    ("float32[1] [1e300]", "larger than any float32"),
    ("float64[1] [1e999]", "line 2: '1e999' is larger than any float64"),
    (f"float64[1] [{'1' * 100}]", "line 2: an integer has 100 digits"),
    ('float64 "nan:3ff0000000000000"', "are not a NaN"),
    ("complex128[1] [1]", "wanted 2 elements along axis 1"),
    ("float64[0,999999999,999999999,999999999] []", "wanted one number, true or false, or a type"),
]
WRONG_OUTCOMES = [
    ('"hello"', "line 2: wanted one number"),
    ("null", "line 2: wanted one number"),
    ('["a","b"]', "line 2: wanted one number"),
    ('float64[2] ["a","b"]', "line 2: wanted a number"),
    ("float99 1", "line 2: wanted a type"),
    ("integer 3", "line 2: wanted a string of at most 400 digits"),
    ("1" * 4000, "line 2: wanted a string of at most 400 digits"),
]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", TextError, "no 'output' line"),
        ("input x", TextError, "no 'output' line"),
        ("hello world\noutput x", TextError, "line 1: wanted 'circuit NAME' once"),
        ("circuit a\ncircuit b\noutput x", TextError, "line 2"),
        ("input x\ny = expp x\noutput y", UnknownOpError, "line 2: there is no op called 'expp'; did you mean exp"),
        ("input x\ny = input x\noutput y", UnknownOpError, "line 2"),
        ("input x\ny = multiply x\noutput y", ArityError, "line 2: multiply takes 2 wires"),
        ("input x\ny = exp z\noutput y", TextError, "line 2: no node is called 'z'"),
        ("input x\noutput y", TextError, "line 2: no node is called 'y'"),
        ("input x, x\noutput x", DuplicateNameError, "line 1: x is defined already, at line 1"),
        ("input x\nx = exp x\noutput x", DuplicateNameError, "line 2"),
        ("input x\noutput x, x", DuplicateNameError, "two outputs"),
        ("input x\ny =\noutput y", TextError, "line 2: wanted an op after '='"),
        ("input x\ny = constant\noutput y", TextError, "line 2: wanted one number"),
        ("input x\ny = constant 1e400\noutput y", TextError, "got '1e400'"),
        ("input x\ny = exp x kink=torch\noutput y", TextError, "after an op that has kinks"),
        ("input x\ny = x + x\noutput y", UnknownOpError, "the text form puts the op first: add x x"),
        ("input a\n%4 = %4 = exp a\noutput a", DuplicateNameError, "line 2: %4 is defined already, at line 2"),
        ("input x = x\noutput x", DuplicateNameError, "line 1"),
        ("input x: float64[" + "9" * 5000 + "]\noutput x", TextError, "wanted a type"),
        ("input x\ny = constant 1_0\noutput y", TextError, "got '1_0'"),
        ("input x\ny = constant 1 2\noutput y", TextError, "got '1 2'"),
        ("input x: float99\noutput x", TextError, "wanted a type"),
        ("input x y\noutput x", TextError, "line 1: 'x y' cannot be a name"),
        ("input\noutput x", TextError, "line 1"),
        ("input %3\noutput %3", TextError, "'%3' cannot be a name"),
        ("input x\ny = maximum x x kink=sideways\noutput y", TextError, "wanted kink="),
        ("input x\ny = maximum x x kink=torch:q\noutput y", TextError, "wanted kink="),
        ("a = exp b\nb = sin a\noutput a", CycleError, "cycle"),
        ("input x\ny = exp x\nz = sin x\noutput y = z", DuplicateNameError, "name of another node"),
        *((f"input x\ny = constant {given}\noutput x", TextError, message) for given, message in WRONG_CONSTANTS),
        *((f"input x\nsteered x {given}\noutput x", TextError, message) for given, message in WRONG_OUTCOMES),
        (f"input x: float64[{','.join(['1'] * 100)}]\noutput x", TextError, "line 1: wanted a type"),
        ("input x: float64[2]\ny = sum x axes=[1e999] keepdims=true\noutput y", TextError, "larger than any float64"),
        ("input x: float64[2]\ny = sum x axes=" + "[" * 2000 + "\noutput y", TextError, "line 2: .* nested deeper"),
        ("input x: float64[2]\ny = sum x axes=" + "[" * 900 + "\noutput y", TextError, "line 2: wanted a number"),
        ('input x\ny = sum x axes={"a":1}\noutput y', TextError, "line 2: wanted a number"),
    ],
)
def test_a_text_that_cannot_be_read_says_where_and_why(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        wg.Circuit.from_text(text)

    assert isinstance(caught.value, wg.WiregradError)


def test_words_that_json_knows_stand_for_numbers_that_are_not_finite() -> None:
    text = "input x\ny = constant float64[4] [NaN,Infinity,-Infinity,1]\noutput x"
    found = wg.Circuit.from_text(text)

    assert found == wg.Circuit.from_text(text.replace("[NaN,Infinity,-Infinity", '["nan","inf","-inf"'))
    assert '["nan","inf","-inf",1.0]' in found.to_text()


@pytest.mark.parametrize(
    ("given", "message"), [("\ufdfa", "characters that are not all ASCII"), ("x ", "words in one")]
)
def test_a_line_that_would_become_much_longer_is_refused(
    given: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wiregrad.ir.text_form.MAX_LINE_LETTERS", 1000)
    monkeypatch.setattr("wiregrad.ir.text_form.MAX_LINE_WORDS", 1000)

    with pytest.raises(TextError, match=f"line 2: more than 1,000 {message}"):
        wg.Circuit.from_text(f"input x\noutput {given * 1001}")


def test_the_time_to_read_a_line_grows_with_its_length_alone() -> None:
    text = "input " + ", ".join(f"x{k}" for k in range(60_000)) + ", y: float64[2,3], z: float99\noutput y"
    start = time.process_time()
    with pytest.raises(TextError, match="got 'float99'"):
        wg.Circuit.from_text(text)

    assert time.process_time() - start < 20


def test_the_nearest_name_is_looked_for_among_the_first_ones() -> None:
    names = (f"name{k}" for k in count())

    assert suggest_name("nmae17", names) == "; did you mean name17?"
    assert next(names) == f"name{MAX_COMPARED_NAMES}"


def test_the_text_form_is_a_string() -> None:
    with pytest.raises(TextError, match="got bytes"):
        wg.Circuit.from_text(b"input x")  # type: ignore[arg-type]


def test_ten_thousand_mutated_texts_are_circuits_or_typed_errors() -> None:
    rng = random.Random(0)
    seeds = [wg.circuit(f) for f in ("e = a + b; f = e * c", "maximum(x, 0) * 1e-3", "where(x > 0, sqrt(x), -x)")]
    texts = [text for c in seeds for text in (c.to_text(), c.split().to_text(), c.backward_circuit().to_text())]
    pieces = [
        "%1",
        "=",
        "kink=torch:b",
        "\n",
        " ",
        "#",
        "in",
        "nan",
        "-inf",
        "1e999",
        ",",
        ":",
        "float32[2]",
        "circuit",
        "é",
        '"',
    ]
    good = 0
    count = choose_count(2_500, 10_000)
    for _ in range(count):
        text = rng.choice(texts)
        for _ in range(rng.randrange(1, 5)):
            at, end = sorted(rng.choices(range(len(text) + 1), k=2))
            end = min(end, at + rng.randrange(12))
            text = text[:at] + rng.choice([*pieces, *text.split(), ""]) + text[end:]
        try:
            wg.Circuit.from_text(text)
            good += 1
        except wg.WiregradError as error:
            assert str(error)

    assert count / 100 < good < count * 0.99
