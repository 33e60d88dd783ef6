"""How much of a long test an ordinary run does: `make test` a sample, `make test-all` all of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest


def choose_count(sample: int, whole: int) -> int:
    """Return how many cases to try: a sample, or all of them where WIREGRAD_TEST_ALL is set."""
    return whole if "WIREGRAD_TEST_ALL" in os.environ else sample


def sample_one(cases: Iterable[Any]) -> list[Any]:
    """Return the cases of a test as parameters, of which an ordinary run tries the first."""
    first, *others = cases
    return [first, *(mark_full(case) for case in others)]


def sample_some(cases: Iterable[Any], every: int) -> list[Any]:
    """Return the cases of a test as parameters, of which an ordinary run tries one in `every`."""
    return [case if k % every == 0 else mark_full(case) for k, case in enumerate(cases)]


def sample_pairs(ones: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """Return all pairs as parameters, of which an ordinary run tries half, as the black fields of a chessboard."""
    rows = list(others)
    return [
        (one, other) if (i + j) % 2 == 0 else mark_full((one, other))
        for i, one in enumerate(ones)
        for j, other in enumerate(rows)
    ]


def mark_full(case: Any) -> Any:
    """Return a case, or a tuple of arguments, as a parameter that only `make test-all` tries."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.full)
