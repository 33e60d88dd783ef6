"""Random branching functions whose surroundings change between calls: each question follows plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import MutationError
from wiregrad.frontends.recording.arguments import flatten

from ..support.changing_programs import ChangingProgram, draw_point, make_changing_program
from ..support.sampling import sample_some

SEEDS = sample_some(range(600), 30)
CALLS = 16
EXCUSED = (OverflowError, ZeroDivisionError)
"""Errors of Python's numbers where NumPy's, and so recorded ones, are infinite.

`wg.value_and_grad` raises `MutationError` where `c *= a` would change an array without axes, which `np.where` made of
constants; a compiled function runs such code.
"""

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def find_outcome(question: Callable[..., Any], *args: Any) -> Any:
    """Return an answer, or the error, as something to compare."""
    with np.errstate(all="ignore"):
        try:
            return question(*args)
        except Exception as error:
            return error


def describe(outcome: Any) -> tuple[str, str]:
    """Describe the class and the bits of a result: a float64 is a float in Python and NumPy, with or without axes."""
    if isinstance(outcome, np.ndarray) and not outcome.shape:
        outcome = outcome[()]
    if isinstance(outcome, np.float64):
        outcome = float(outcome)
    if isinstance(outcome, float) and math.isnan(outcome):
        return "float", "nan"
    return type(outcome).__name__, repr(outcome)


def differ(found: Any, wanted: Any) -> str:
    """Return how two gradients differ; their terms are added in another order, so they are as exact as the terms."""
    one, two = (flatten(grads)[0] for grads in (found, wanted))
    scale = max([1.0, *(abs(slope) for slope in two if np.isfinite(slope))])
    if len(one) == len(two) and np.allclose(one, two, rtol=1e-12, atol=1e-12 * scale, equal_nan=True):
        return ""
    return f"gave {found}; wg.value_and_grad gave {wanted}"


def check_calls(program: ChangingProgram, rng: random.Random) -> None:
    """Compare calls and gradients, with changes between them."""
    argnums = tuple(range(len(program.parameters.split(","))))
    fast, plain = wg.compile(program.f, argnums=argnums, limit=40), wg.value_and_grad(program.f, argnums)
    for _ in range(CALLS):
        if rng.random() < 0.2:
            program.change(rng)
        args = program.make_arguments(draw_point(rng))
        wanted = find_outcome(program.f, *args)
        if isinstance(wanted, EXCUSED):
            continue

        assert describe(find_outcome(fast, *args)) == describe(wanted), (args, program.source)
        wanted, found = (find_outcome(question, *args) for question in (plain, fast.value_and_grad))
        if isinstance(wanted, MutationError):
            continue
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            assert describe(found) == describe(wanted), (args, program.source)
        else:
            assert describe(found[0]) == describe(wanted[0]), (args, program.source)
            assert not differ(found[1], wanted[1]), (args, differ(found[1], wanted[1]), program.source)


def check_batches(program: ChangingProgram, rng: random.Random) -> None:
    """Compare rows of batches, which are repeated, and asked once more after a change."""
    fast, plain = wg.compile(program.f, limit=rng.choice([1, 40])), wg.value_and_grad(program.f)
    points = [draw_point(rng) for _ in range(rng.choice([1, 3, 9, 20]))]
    columns = program.make_arguments(np.array(points).T.copy())
    for turn in range(3):
        if turn == 2:
            program.change(rng)
        rows = [program.make_arguments(point) for point in points]
        wanted = [find_outcome(program.f, *row) for row in rows]
        if any(isinstance(outcome, EXCUSED) for outcome in wanted):
            return
        found = find_outcome(fast.batch, *columns)
        errors = {type(outcome) for outcome in wanted if isinstance(outcome, Exception)}
        if errors:
            assert type(found) in errors, (found, program.source)
            continue

        assert not isinstance(found, Exception), (found, program.source)
        assert [describe(x) for x in found] == [describe(float(x)) for x in wanted], (points, program.source)
        values, grads = fast.batch_value_and_grad(*columns)
        assert [describe(x) for x in values] == [describe(float(x)) for x in wanted], (points, program.source)
        slopes = np.transpose([np.asarray(column) for column in flatten(grads)[0]]).tolist()
        for row, slope in zip(rows, slopes, strict=True):
            outcome = find_outcome(plain, *row)
            if isinstance(outcome, MutationError):
                continue

            assert not differ(slope, outcome[1]), (row, differ(slope, outcome[1]), program.source)


@pytest.mark.parametrize("with_source", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
def test_calls_of_changing_programs_follow_plain_python(seed: int, with_source: bool) -> None:
    program = make_changing_program(seed, with_source=with_source)
    check_calls(program, random.Random(seed + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_batches_of_changing_programs_follow_plain_python(seed: int) -> None:
    check_batches(make_changing_program(seed), random.Random(seed + 2))
