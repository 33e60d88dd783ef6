"""Numbers as people read them: one format in pictures, page, sentences and messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from wiregrad.dtypes import format_brief_number, format_operand_short, format_short, parenthesize_negative

GOLDEN = Path(__file__).parent / "golden/numbers.json"
NUMBERS = json.loads(GOLDEN.read_text(encoding="utf-8"))


def _read(text: str) -> float | bool:
    return text == "true" if text in ("true", "false") else float(text)


@pytest.mark.parametrize(("text", "short", "operand"), NUMBERS)
def test_a_number_is_shown_as_the_golden_file_says(text: str, short: str, operand: str) -> None:
    value = _read(text)

    assert (format_short(value), format_operand_short(value)) == (short, operand)
    assert format_short(np.asarray(value)[()]) == short


@pytest.mark.parametrize(("text", "short", "operand"), NUMBERS)
def test_text_has_the_same_digits_and_ascii_signs(text: str, short: str, operand: str) -> None:
    value = _read(text)

    assert format_brief_number(value) == short.replace("−", "-")
    assert parenthesize_negative(value) == operand.replace("−", "-")
    assert format_brief_number(value).isascii()


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([-0.5, 1.0]), "[-0.5, 1]"),
        (np.array([[1.0, np.nan], [2.0, -np.inf]]), "[[1, NaN], [2, -Inf]]"),
        (np.arange(10.0), "[0, 1, ..., 8, 9]"),
        (np.array([0.0, *[np.nan] * 8, np.inf]), "[0, NaN, ..., NaN, Inf] with 8 NaN, 1 Inf"),
        (np.array([1 + 2j, 0.5 - 1j]), "[1+2j, 0.5-1j]"),
        (np.array([True, False]), "[true, false]"),
        (np.array([], dtype=float), "[]"),
    ],
)
def test_elements_of_arrays_have_the_format_of_numbers(array: np.ndarray, text: str) -> None:
    assert format_brief_number(array) == text
