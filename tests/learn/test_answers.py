"""Answers as people type them, tolerance, and rules that learners write."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.learn.quiz import QuestionSource, judge_answer
from wiregrad.learn.quiz_run import is_accepted, is_rounded, judge_number, measure_tolerance, read_answer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.25", 0.25),
        ("0,25", 0.25),
        ("-0,25", -0.25),
        ("1/4", 0.25),
        ("-1/4", -0.25),
        ("2.5e-1", 0.25),
        ("2,5e-1", 0.25),
        ("2.5E-1", 0.25),
        (".25", 0.25),
        ("25.", 25.0),
        ("+0.25", 0.25),
        ("  0.25 ", 0.25),
        ("−0.25", -0.25),
        ("1.526e−5", 1.526e-5),
        ("-3*10", -30.0),
        ("-3 × 10", -30.0),
        ("0.5591 × (−2.4)", 0.5591 * -2.4),
        ("0,5591·(-2,4)", 0.5591 * -2.4),
        ("1 - tanh(0.88)^2", 1 - math.tanh(0.88) ** 2),
        ("1-tanh(0,88)**2", 1 - math.tanh(0.88) ** 2),
        ("2²", 4.0),
        ("√2", math.sqrt(2)),
        ("max(1,2)", 2.0),
        ("2pi", 2 * math.pi),
        ("|-3|", 3.0),
        (0.25, 0.25),
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.int64(4), 4.0),
        (Fraction(1, 4), 0.25),
        (Decimal("0.25"), 0.25),
    ],
)
def test_numbers_are_read_as_people_type_them(text: object, number: float) -> None:
    assert read_answer(text).number == pytest.approx(number, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    ["", " ", "foo", "0.5.5", "1 +", "one", "1/0", "nan", "inf", "1 < 2", "1;2", "2\n3", "'", "(", "9" * 300, "1e999"],
)
def test_nonsense_gets_a_friendly_message_and_costs_nothing(text: str) -> None:
    source = QuestionSource(wg.circuit("y = x*x + x"), 7)
    verdict = judge_answer(source, source.draw("gather", 0), text)

    assert (verdict.right, verdict.costs, verdict.key) == (False, False, "unreadable")
    assert verdict.text.startswith("This ")
    assert "0.25, 1/4 or -3*10" in verdict.text


@pytest.mark.parametrize("answer", [None, True, [1.0], "x = ", math.nan, math.inf, 10**400, 1j, object()])
def test_objects_that_are_no_number_cost_nothing(answer: object) -> None:
    assert read_answer(answer).number is None


@pytest.mark.parametrize(
    ("answer", "given", "accepted"),
    [
        (0.375, 0.372, False),
        (0.375, 0.3754, True),
        (0.8944882683715906, 0.8945, True),
        (0.8944882683715906, 0.89, True),
        (0.8944882683715906, 0.90, True),
        (0.8944882683715906, 0.88, False),
        (-30.0, -30.0, True),
        (-30.0, -29.5, False),
        (123.456, 123.5, True),
        (2.0, 2.1, False),
    ],
)
def test_tolerance_is_a_percent_or_half_of_the_last_decimal(answer: float, given: float, accepted: bool) -> None:
    assert is_accepted(given, answer) is accepted


@pytest.mark.parametrize("answer", [0.001234, -17.23456, 0.5, 999.999, 1 / 3])
def test_four_shown_digits_always_count(answer: float) -> None:
    assert abs(float(f"{answer:.4g}") - answer) <= measure_tolerance(answer)


@pytest.fixture
def local_question() -> tuple[QuestionSource, int]:
    source = QuestionSource(wg.circuit("u = a*b; f = tanh(u) + a"), 7)
    number = next(
        n
        for n in range(50)
        if source.draw("local", n).prompt == "What is the local derivative of u on the wire from a?"
    )
    return source, number


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("b", "right"),
        ("2*b - b", "right"),
        ("a*b/a", "right"),
        ("a", "own-not-other"),
        ("a*b", "forward-for-local"),
        ("c", "unreadable"),
        ("u", "unreadable"),
    ],
)
def test_a_local_derivative_may_be_written_with_leaf_names(
    local_question: tuple[QuestionSource, int], text: str, key: str
) -> None:
    source, number = local_question

    assert judge_answer(source, source.draw("local", number), text).key == key


def test_an_expression_must_hold_at_other_leaves_too(local_question: tuple[QuestionSource, int]) -> None:
    source, number = local_question
    question = source.draw("local", number)
    shift = question.leaves["b"] - question.leaves["a"]

    assert judge_answer(source, question, f"a + {shift!r}").key == "only-here"


def test_names_in_other_kinds_get_a_message_of_their_own() -> None:
    source = QuestionSource(wg.circuit("f = a*b*a"), 7)

    assert judge_answer(source, source.draw("send", 0), "a*2").text.startswith("This has a name in it.")


def multiply_rule(upstream: float, a: float, b: float) -> tuple[float, float]:
    return upstream * b, upstream * a


RULES: dict[str, Callable[..., object]] = {
    "right": multiply_rule,
    "upstream-only": lambda upstream, a, b: (upstream, upstream),
    "local-only": lambda upstream, a, b: (b, a),
    "forward-for-local": lambda upstream, a, b: (upstream * a * b, upstream * a * b),
    "own-not-other": lambda upstream, a, b: (upstream * a, upstream * b),
    "same-to-all": lambda upstream, a, b: [upstream * b, upstream * b],
    "sign": lambda upstream, a, b: (-upstream * b, -upstream * a),
    "twice": lambda upstream, a, b: np.array([2 * upstream * b, 2 * upstream * a]),
    "neutral": lambda upstream, a, b: (upstream * b + 1.0, upstream * a),
    "unreadable": lambda upstream, a, b: upstream,
}


@pytest.mark.parametrize("key", RULES)
def test_a_backward_rule_is_compared_with_measured_slopes(key: str) -> None:
    source = QuestionSource(wg.circuit("f = a*b"), 7)
    question = source.draw("rule", 0)
    verdict = judge_answer(source, question, RULES[key])

    assert question.prompt == "Write backward(upstream, a, b) for a * b: return what each input receives."
    assert (verdict.key, verdict.right) == (key, key == "right")
    assert "{" not in verdict.text


@pytest.mark.parametrize(
    ("formula", "rule"),
    [
        ("tanh(x)", lambda upstream, x: upstream * (1 - math.tanh(x) ** 2)),
        ("relu(x)", lambda upstream, x: upstream if x > 0 else None),
        ("maximum(a, b)", lambda upstream, a, b: (upstream, 0.0) if a > b else (0.0, upstream)),
        ("sqrt(x)", lambda upstream, x: upstream / (2 * math.sqrt(x))),
    ],
)
def test_right_rules_are_accepted_away_from_kinks(formula: str, rule: Callable[..., object]) -> None:
    source = QuestionSource(wg.circuit(formula), 7)

    assert judge_answer(source, source.draw("rule", 0), rule).right


def test_a_rule_that_raises_is_told_where() -> None:
    source = QuestionSource(wg.circuit("f = a*b"), 7)
    verdict = judge_answer(source, source.draw("rule", 0), lambda upstream, a, b: 1 / 0)

    assert verdict.text.startswith("Your rule raised ZeroDivisionError: division by zero at upstream = ")
    assert not verdict.costs


@pytest.mark.parametrize(
    ("answer", "rounded", "other"),
    [
        (7.4, [7], [8, 8.1, 7.1, 6.8, 6.67, 0, -7]),
        (-7.4, [-7], [-8, -8.1, -6.8, 7]),
        (0.8945, [0.9, 0.89, 0.895], [0.8, 1, 0.87, 0.91]),
        (0.96, [1], [0.9, 0.94, 1.02]),
        (123.4, [100, 120, 123], [110, 130, 121.5]),
        (0.001526, [0.002, 0.0015], [0.001, 0.0017]),
        (30.0, [], [33, 29, 27]),
        (12.0, [], [10, 13]),
    ],
)
def test_only_an_answer_with_fewer_digits_counts_as_rounded(
    answer: float, rounded: list[float], other: list[float]
) -> None:
    assert [number for number in [*rounded, *other] if is_rounded(number, answer)] == rounded


def test_what_is_close_without_being_rounded_gets_the_neutral_hint() -> None:
    keys = [judge_number(number, (7.4,), (), "").key for number in (7.4, 7.0, 8.0, 8.1, 6.8)]

    assert keys == ["right", "near", "neutral", "neutral", "neutral"]
