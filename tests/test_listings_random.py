"""Listings held against the interpreter: random circuits and every op alone, in every language that is written."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from wiregrad.api import Builder, Circuit
from wiregrad.backends.listings import FLAGS, SANITIZED, Program, defined, run_c, run_js, run_numpy, run_python
from wiregrad.codegen import write
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.errors import WiregradError
from wiregrad.inspect.receipt.alone import Use, circuit_of, points_of
from wiregrad.inspect.receipt.judge import ULPS, Point, Verdict, ulps
from wiregrad.ir import CONSTANT, INPUT, TABLE, Pattern
from wiregrad.ir.mode import Convention, encode
from wiregrad.ops import Elementwise
from wiregrad.passes.rewrite import Rewriter
from wiregrad.testing.circuits import random_circuit, random_point, shrink

COUNT, SAMPLE, CHUNK, POINTS = 2_000, 240, 120, 4
SHAKEN = 0.02
"""The share of results, at most, that only runs with moved results may explain."""

Runner = Callable[[Sequence[Program], Sequence[Any]], list[Any]]


class Case(NamedTuple):
    """A random circuit and its points."""

    seed: int
    circuit: Circuit
    points: list[Point]


class Tongue(NamedTuple):
    """A language and what runs it."""

    name: str
    run: Runner


def run_numpy_numbers(programs: Sequence[Program], points: Sequence[Any]) -> list[Any]:
    """Run NumPy listings on one number at a time."""
    found = []
    for program, rows in zip(programs, points, strict=True):
        call, answers = defined(program), []
        with np.errstate(all="ignore"):
            for row in np.asarray(rows):
                value, grads = call(*row)
                answers.append([float(value), *(float(grads[name]) for name in program.inputs)])
        found.append(np.array(answers))
    return found


TONGUES = {
    "python": Tongue("python", run_python),
    "numpy": Tongue("numpy", run_numpy),
    "numpy numbers": Tongue("numpy", run_numpy_numbers),
    "c": Tongue("c", partial(run_c, flags=SANITIZED)),
    "js": Tongue("js", run_js),
}


def case_of(seed: int, circuit: Circuit) -> Case:
    rng = np.random.default_rng([seed, 1])
    points = [[np.float64(x) for x in random_point(rng, circuit).values()] for _ in range(POINTS)]
    return Case(seed, circuit, [Point(circuit, point) for point in points])


@cache
def random_case(seed: int) -> Case:
    rng = np.random.default_rng([seed, 0])
    return case_of(seed, random_circuit(rng, nodes=int(rng.integers(1, 21))))


def answers(cases: Sequence[Case], tongue: Tongue) -> list[Any]:
    """Return what a language makes of the cases."""
    programs = [
        Program(write(case.circuit, tongue.name, name=f"listing{k}"), f"listing{k}", case.circuit.inputs)
        for k, case in enumerate(cases)
    ]
    return tongue.run(programs, [[point.inputs for point in case.points] for case in cases])


def verdicts(case: Case, rows: Any) -> Iterator[Verdict]:
    for point, row in zip(case.points, rows, strict=True):
        yield from (point.judge(k, found) for k, found in enumerate(row))


def fails(case: Case, tongue: Tongue) -> Callable[[Circuit], bool]:
    """Return whether a smaller circuit still differs at the points of a case."""
    named = [dict(zip(case.circuit.inputs, point.inputs, strict=True)) for point in case.points]

    def differs(circuit: Circuit) -> bool:
        points = [Point(circuit, [given[name] for name in circuit.inputs]) for given in named]
        smaller = Case(case.seed, circuit, points)
        try:
            return not all(verdict.fits for verdict in verdicts(smaller, answers([smaller], tongue)[0]))
        except WiregradError:
            return False

    return differs


def shares(cases: Sequence[Case], tongue: Tongue) -> tuple[int, int]:
    """Judge every result of the cases; returns how many there are and how many only moved results explain."""
    count = shaken = 0
    for case, rows in zip(cases, answers(cases, tongue), strict=True):
        judged = list(verdicts(case, rows))
        if not all(verdict.fits for verdict in judged):
            small = shrink(case.circuit, fails(case, tongue))
            raise AssertionError(f"seed {case.seed} differs; smallest circuit that does:\n{small}")
        count += len(judged)
        shaken += sum(verdict.shaken for verdict in judged)
    return count, shaken


def check(start: int, stop: int, tongue: Tongue) -> None:
    found = [
        shares([random_case(seed) for seed in range(first, min(first + CHUNK, stop))], tongue)
        for first in range(start, stop, CHUNK)
    ]
    count, shaken = map(sum, zip(*found, strict=True))

    assert shaken <= SHAKEN * count


@pytest.mark.parametrize("language", TONGUES)
def test_random_circuits_agree_with_the_interpreter(language: str) -> None:
    check(0, SAMPLE, TONGUES[language])


@pytest.mark.full
@pytest.mark.parametrize("language", TONGUES)
@pytest.mark.parametrize("start", range(0, COUNT, COUNT // 4))
def test_two_thousand_random_circuits_agree_with_the_interpreter(language: str, start: int) -> None:
    check(start, start + COUNT // 4, TONGUES[language])


PLAIN = (0.0, -0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 7.5)
"""Constants for which rules are written by themselves."""


def all_uses() -> Iterator[Use]:
    """Return every op as it can be used: kink modes, constants beside a wire, conditions beside a number."""
    for op in TABLE:
        if not isinstance(op, Elementwise) or op.pattern in (Pattern.MERGE, Pattern.SOURCE) or op.opaque:
            continue
        types = tuple(BOOL if name in op.takes_bool else FLOAT for name in op.inputs)
        slots = range(len(types))
        subsets = chain.from_iterable(combinations(slots, k) for k in range(len(types)))
        modes = [encode(convention, literal) for literal in subsets for convention in Convention] if op.kinks else [0]
        yield from (Use(op, mode, types, ()) for mode in modes)
        if len(types) == 2 and not op.takes_bool:
            for slot in slots:
                mode = encode(Convention.MIN_NORM, [slot]) if op.kinks else 0
                yield from (Use(op, mode, types, ((slot, x, bool(np.signbit(x))),)) for x in PLAIN)
                yield Use(op, mode, tuple(BOOL if k == slot else FLOAT for k in slots), ())


@cache
def uses_alone() -> list[tuple[Use, Case]]:
    """Return every use of an op as a circuit of its own, where NumPy takes conditions for numbers too."""
    rng, found = np.random.default_rng(0), []
    for use in all_uses():
        try:
            circuit = Circuit(circuit_of(use).columns)
        except WiregradError:
            continue
        points = points_of(use, [], [], rng)
        chosen = points if not use.constants else points[::3]
        found.append((use, Case(0, circuit, [Point(circuit, list(point)) for point in chosen])))
    return found


@pytest.mark.parametrize("language", [name for name in TONGUES if name != "numpy numbers"])
def test_every_op_alone_is_within_four_ulps_of_the_interpreter(language: str) -> None:
    tongue = TONGUES[language]
    if language == "c":
        tongue = tongue._replace(run=partial(run_c, flags=FLAGS))
    pairs = uses_alone()
    far = []
    for (use, case), rows in zip(pairs, answers([case for _, case in pairs], tongue), strict=True):
        for point, row in zip(case.points, rows, strict=True):
            off = max(map(ulps, row, point.wanted))
            if off > ULPS:
                far.append((use.text, point.inputs, off))

    assert len(pairs) > 400
    assert far == []
