"""Numbers that are 0 in a short dtype, and so keep nothing from 0, are named with one that is not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

EPS = 1e-8


def log_of_name(q: Any, e: float) -> Any:
    guarded = q + e
    return np.log(guarded)


PROGRAMS: dict[str, Callable[[Any, float], Any]] = {
    "log": lambda q, e: np.log(q + e),
    "log of a guarded name": log_of_name,
    "log2": lambda q, e: np.log2(np.maximum(q, e)),
    "log of a clip": lambda q, e: np.log(np.clip(q, e, 1.0)),
    "sqrt": lambda q, e: np.sqrt(q + e),
    "quotient": lambda q, e: 1.0 / (q + e),
    "entropy": lambda q, e: -q * np.log(q + e),
}


def blame(program: Callable[[Any], Any], dtype: Any = np.float16) -> Any:
    q = np.array([0.0, 0.25], dtype)
    with np.errstate(all="ignore"):
        return wg.run(lambda q: np.mean(program(q)), q).blame()


def test_a_literal_that_is_0_is_named() -> None:
    answer = blame(lambda q: np.log(q + 1e-8))

    assert "try: 1e-8 is 0 in float16: write 1e-4 in its place, or compute this in float32" in str(answer)


@pytest.mark.parametrize("name", ["log", "log of a guarded name", "sqrt", "quotient", "entropy"])
def test_what_is_added_is_named_without_a_literal(name: str) -> None:
    answer = blame(lambda q: PROGRAMS[name](q, EPS))

    assert "what is added to the argument is 0 in float16" in str(answer)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_advised_mends_the_program(name: str) -> None:
    advised = blame(lambda q: PROGRAMS["quotient" if name == "quotient" else "log"](q, EPS)).origins[0].suggestion
    bound = float(re.search(r"write (\S+) in its place", advised)[1])  # type: ignore[index]
    run = wg.run(lambda q: np.mean(PROGRAMS[name](q, bound)), np.array([0.0, 0.25], np.float16))

    assert not run.blame()
    assert np.isfinite(run.grads["q"]).all()


@pytest.mark.parametrize(
    ("program", "dtype"),
    [
        (np.log, np.float16),
        (lambda q: np.log(q) * 1e-8, np.float16),
        (lambda q: np.log(q * 1e-3 + 0.0), np.float64),
        (lambda q: np.log(np.maximum(q, 0.0)), np.float16),
        (lambda q: np.log(q - 1e-3), np.float32),
    ],
    ids=["no guard", "number elsewhere", "float64", "rectified", "below 0"],
)
def test_nothing_is_said_of_numbers_that_are_not_the_cause(program: Any, dtype: Any) -> None:
    answer = blame(program, dtype)

    assert answer
    assert "is 0 in" not in str(answer)


def test_float32_has_a_smallest_number_too() -> None:
    answer = blame(lambda q: np.log(q + 1e-60), np.float32)

    assert "1e-60 is 0 in float32: write 1e-30 in its place, or compute this in float64" in str(answer)
    assert math.isfinite(float(np.log(np.float32(1e-30))))
