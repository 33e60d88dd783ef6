"""What learners type, as numbers; how far a number may be from the right one; and the verdict on an answer.

Numbers are accepted as people type them: fractions, decimal commas, powers of ten, small expressions. They are read by
the parser of formulas, so nothing is evaluated as code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

import numpy as np

from wiregrad.backends.interpreter import bind_inputs, evaluate_nodes
from wiregrad.errors import FormulaError, WiregradError
from wiregrad.frontends import parse_formula
from wiregrad.ir import CircuitGraph
from wiregrad.learn.mistakes import PredictedFactor, PredictedMistake
from wiregrad.learn.sentences import TEXTS, TITLES, fill_sentence

RELATIVE_TOLERANCE: Final = 0.01
NEAR_SHARE: Final = 0.1
"""An answer within this share of the right one is said to be close."""
EXPRESSION_TOLERANCE: Final = 1e-6
MAX_ANSWER: Final = 200
"""Maximum number of characters of an answer."""
MAX_EXACT_DIGITS: Final = 10
"""Up to how many characters a number counts as a short decimal that rounding has changed."""
_PLAIN_NUMBER = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e-?[0-9]{1,2})?")
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")


@dataclass(frozen=True)
class Verdict:
    """What is said of an answer: right or not, which mistake it shows, and the factors of the learner's number."""

    right: bool
    key: str
    title: str
    text: str
    factors: tuple[PredictedFactor, ...] = ()
    number: float | None = None
    costs: bool = True
    """Whether it counts as an attempt; what cannot be read does not."""
    hint: str = ""
    """What the ladder adds after the second and the third wrong answer."""

    def __str__(self) -> str:
        return "\n".join(line for line in (self.title, self.text, self.hint) if line)

    __repr__ = __str__


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as a number; `formula` is set if it names leaves, `problem` if it cannot be read."""

    number: float | None = None
    formula: CircuitGraph | None = None
    problem: str = ""


def measure_tolerance(answer: float) -> float:
    """Return how far a number may be from an answer: 1 percent, less where the answer has at most three decimals.

    >>> [round(measure_tolerance(x), 6) for x in (0.375, 0.8945, 30.0, 0.4)]
    [0.0005, 0.008945, 0.3, 0.004]
    """
    share = RELATIVE_TOLERANCE * abs(answer)
    for decimals in range(4):
        scaled = abs(answer) * 10.0**decimals
        if abs(scaled - math.floor(scaled + 0.5)) < 1e-7:
            share = min(share, 0.5 / 10.0**decimals)
            break
    # What the picture shows of a number must count as that number.
    return max(share, _half_last_digit(answer))


def _half_last_digit(answer: float) -> float:
    """Return half a unit of the last digit that the picture shows of a number."""
    return 0.5 * 10.0 ** (math.floor(math.log10(abs(answer))) - 3) if answer else 0.0


def is_accepted(number: float, answer: float) -> bool:
    """Return whether a number counts as an answer."""
    return abs(number - answer) <= measure_tolerance(answer) * (1.0 + 1e-9)


def collides(one: float, two: float) -> bool:
    """Return whether two numbers are too close to be told apart."""
    return abs(one - two) <= measure_tolerance(one) + measure_tolerance(two)


def read_answer(answer: object, leaves: Mapping[str, float] | None = None) -> ReadAnswer:
    """Read an answer; with `leaves`, it may be an expression of their names.

    >>> [read_answer(text).number for text in ("1/4", "0,25", "2.5e-1", "-3*10", "1 - tanh(0)^2")]
    [0.25, 0.25, 0.25, -30.0, 1.0]
    """
    if isinstance(answer, str):
        return _read_text(answer, leaves)
    if isinstance(answer, bool | np.bool_) or not isinstance(answer, int | float | np.number | Fraction | Decimal):
        return ReadAnswer(problem=TEXTS["unreadable"])
    try:
        number = float(answer)
    except (OverflowError, TypeError, ValueError):
        return ReadAnswer(problem=TEXTS["unreadable"])
    return ReadAnswer(number) if math.isfinite(number) else ReadAnswer(problem=TEXTS["unreadable"])


def _read_text(text: str, leaves: Mapping[str, float] | None) -> ReadAnswer:
    plain = text.strip().replace("−", "-")
    if _PLAIN_NUMBER.fullmatch(plain):
        return ReadAnswer(float(plain))
    circuit = _parse_expression(plain)
    if circuit is None:
        return ReadAnswer(problem=TEXTS["unreadable"])
    if circuit.inputs and leaves is None:
        return ReadAnswer(problem=TEXTS["unreadable-names"])
    known = leaves or {}
    if any(name not in known for name in circuit.inputs):
        listed = ", ".join(known)
        return ReadAnswer(problem=fill_sentence(TEXTS["unreadable-leaves"], {"leaves": listed}))
    number = evaluate_expression(circuit, known)
    if number is None:
        return ReadAnswer(problem=TEXTS["unreadable"])
    return ReadAnswer(number, circuit if circuit.inputs else None)


def _parse_expression(text: str) -> CircuitGraph | None:
    """Parse an expression; commas between digits are decimal commas unless they separate arguments."""
    if not text or len(text) > MAX_ANSWER or ";" in text or "\n" in text:
        return None
    for spelling in dict.fromkeys([text, _DECIMAL_COMMA.sub(".", text)]):
        try:
            return parse_formula(spelling)
        except FormulaError:
            continue
        except WiregradError:
            return None
    return None


def evaluate_expression(circuit: CircuitGraph, leaves: Mapping[str, float]) -> float | None:
    """Return the value of an expression; None if it is no finite number."""
    named = {name: leaves[name] for name in circuit.inputs}
    value = evaluate_nodes(circuit, bind_inputs(circuit, [named], {}))[circuit.root()]
    if isinstance(value, bool | np.bool_) or not math.isfinite(value):
        return None
    return float(value)


def judge_number(
    number: float, accepted: tuple[float, ...], mistakes: tuple[PredictedMistake, ...], neutral: str
) -> Verdict:
    """Return the verdict on a number: right, a mistake that it matches better than all others, close, or neutral."""
    if any(is_accepted(number, answer) for answer in accepted):
        return Verdict(True, "right", TITLES["right"], "", number=number)
    matches = [mistake for mistake in mistakes if is_accepted(number, mistake.number)]
    if matches and all((mistake.key, mistake.text) == (matches[0].key, matches[0].text) for mistake in matches):
        mistake = matches[0]
        return Verdict(False, mistake.key, mistake.title, mistake.text, mistake.factors, number)
    if not matches and any(abs(number - answer) <= NEAR_SHARE * abs(answer) for answer in accepted):
        return Verdict(False, "near", TITLES["near"], TEXTS["near"], number=number)
    return Verdict(False, "neutral", TITLES["neutral"], neutral, number=number)


def refuse_answer(problem: str) -> Verdict:
    """Return the verdict on what cannot be read; it costs no attempt."""
    return Verdict(False, "unreadable", TITLES["unreadable"], problem, costs=False)


def title_right_answer(hints: int) -> str:
    """Return the title of a right answer after some hints."""
    return TITLES["right" if not hints else f"right-{min(hints, 3)}"]


def show_exactly(number: float) -> str:
    """Write a number with all its digits, for after the answer; what rounding added to a short one is left out.

    >>> show_exactly(-0.5), show_exactly(0.8944882683715906), show_exactly(1.5 * 3.3)
    ('−0.5', '0.8944882683715906', '4.95')
    """
    short = repr(float(f"{number:.12g}"))
    text = short if len(short) <= MAX_EXACT_DIGITS else repr(float(number))
    return text.removesuffix(".0").replace("-", "−")
