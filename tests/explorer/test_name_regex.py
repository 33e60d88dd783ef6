"""Regular expressions of the explorer's search: what `re` finds, in a time that no expression can make long."""

from __future__ import annotations

import random
import re
import time

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import InputError
from wiregrad.explorer.circuit_views import CircuitViews
from wiregrad.explorer.large_circuits import MAX_REGEX_ITEMS, match_names, match_query

ITEMS = [
    "a",
    "b",
    "1",
    "_",
    ".",
    "[ab]",
    "[^a]",
    "[a-c_]",
    "[]a]",
    "[^]]",
    "[a-]",
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\.",
    r"[\d_]",
    "é",
]
LETTERS = "aab1_.c]-é "


def random_expression(chosen: random.Random) -> str:
    rows = []
    for _ in range(chosen.choice([1, 1, 1, 2, 3])):
        items = [
            chosen.choice(ITEMS) + chosen.choice(["", "", "*", "+", "?", "*?"]) for _ in range(chosen.randrange(6))
        ]
        rows.append(chosen.choice(["", "^"]) + "".join(items) + chosen.choice(["", "$"]))
    return "|".join(rows)


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_find_what_re_finds(seed: int) -> None:
    chosen = random.Random(seed)
    names = ["", *("".join(chosen.choices(LETTERS, k=chosen.randrange(12))) for _ in range(40))]
    for _ in range(100):
        text = random_expression(chosen)
        # `re` lets $ stand before a line's end too; names have no lines.
        expected = [re.search(text, name) is not None for name in names]

        assert match_names(text, names).tolist() == expected, text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(a+)+$", "groups are not known; write alternatives in full"),
        ("a)", "groups are not known"),
        ("(?=a)", "groups are not known"),
        ("a{2,}", "counts are not known"),
        (r"(a)\1", "groups are not known"),
        (r"\1", r"\\1 is not known"),
        (r"\b", r"\\b is not known"),
        ("*a", r"nothing before \*"),
        ("a**", r"nothing before \*"),
        ("a|+", r"nothing before \+"),
        ("a^", r"\^ stands for the beginning"),
        ("$a", r"\$ stands for the end"),
        ("[a", "a bracket is not closed"),
        ("[]", "a bracket is not closed"),
        ("[z-a]", "z-a is no range"),
        ("a\\", "a backslash ends it"),
        ("a" * (MAX_REGEX_ITEMS + 1), "it has 64 items; at most 63 are taken"),
    ],
)
def test_what_is_not_known_is_refused_with_a_reason(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        match_names(text, ["a"])


def test_the_longest_expression_uses_every_bit() -> None:
    text, name = "a" * MAX_REGEX_ITEMS, "a" * MAX_REGEX_ITEMS

    assert match_names(f"^{text}$", [name, name[1:], name + "a"]).tolist() == [True, False, False]
    assert match_names("a?" * MAX_REGEX_ITEMS + "$", ["", "b"]).tolist() == [True, True]


@pytest.mark.parametrize("text", ["a*a*a*a*a*a*a*a*a*a*a*a*b", "a?" * 30 + "a" * 30, ".*.*.*.*.*.*.*=.*", "a*" * 63])
def test_expressions_that_take_re_for_ever_take_no_time(text: str) -> None:
    """Measured in processor time, which other work on the machine does not stretch."""
    names = ["a" * 200] * 2_000
    start = time.process_time()
    match_names(text, names)

    assert time.process_time() - start < 30


def test_a_search_refuses_an_expression_that_could_hang() -> None:
    run = wg.circuit("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab * 2").run([1.0])
    views = CircuitViews(run.circuit, run)
    with pytest.raises(InputError, match=r"'\(a\+\)\+\$': groups are not known"):
        match_query(views, "name:/(a+)+$/")

    assert np.flatnonzero(match_query(views, "name:/^a*b$/")).tolist() == [0]
