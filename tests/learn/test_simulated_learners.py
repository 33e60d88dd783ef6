"""Learners whose wrong numbers are worked out here, from a plain run, without the code that predicts them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import wiregrad as wg
from wiregrad.errors import NoQuestionError
from wiregrad.learn.lessons import load_course
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz import QuestionSource, judge_answer
from wiregrad.learn.quiz_run import is_accepted
from wiregrad.learn.sentences import TITLES

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from simulated_learners import LEARNERS, MISCONCEPTIONS, Encounter, SimulatedLearner, enroll

FORMULAS = (
    "n = x1*w1 + x2*w2 + b; o = tanh(n)",
    "y = x*x + x",
    "s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)",
    "u = a*b; v = sin(u) + u; f = v*u - a",
    "y = sigmoid(a*b - c)*b + a/c",
)
Learner = Callable[[wg.Circuit, wg.Run, Question], Iterator[tuple[str, float]]]


def send_wrongly(circuit: wg.Circuit, run: wg.Run, question: Question) -> Iterator[tuple[str, float]]:
    """Answer a question of what is sent along a wire."""
    node, slot = question.target
    wire = run.wire(node, slot)
    yield "forward-for-local", wire.upstream * run.values[node]
    yield "upstream-only", wire.upstream
    yield "local-only", wire.local
    yield "twice", 2 * wire.sent
    yield "sign", -wire.sent
    if circuit[circuit.name_of(node)].op.name == "multiply":
        yield "own-not-other", wire.upstream * wire.value
    elif len(circuit.sources_of(node)) == 2:
        yield "same-to-all", wire.upstream * run.wire(node, 1 - slot).local


def gather_wrongly(circuit: wg.Circuit, run: wg.Run, question: Question) -> Iterator[tuple[str, float]]:
    """Answer a question of the gradient at a node with several readers."""
    wires = [run.wire(*reader) for reader in run.readers_of(question.target[0])]
    parts = [wire.sent for wire in wires if not wire.blocked]
    yield "branch-first", parts[0]
    yield "branch-last", parts[-1]
    yield "branch-product", math.prod(parts)
    yield "branch-mean", sum(parts) / len(parts)
    yield "twice", 2 * sum(parts)
    yield "local-only", sum(wire.local for wire in wires)


def sweep_wrongly(circuit: wg.Circuit, run: wg.Run, question: Question) -> Iterator[tuple[str, float]]:
    """Answer a question of the gradient of a leaf, by whole backward passes with a mistake in them."""
    leaf = question.target[0]
    yield "branch-last", sweep(circuit, run, overwrite=True)[leaf]
    yield "forward-for-local", sweep(circuit, run, factor=lambda wire, node: float(run.values[node]))[leaf]
    yield "twice", 2 * run.gradient(leaf)


def sweep(
    circuit: wg.Circuit, run: wg.Run, *, factor: Callable[[object, int], float] | None = None, overwrite: bool = False
) -> list[float]:
    """Run backward with another factor on wires, or with gradients that overwrite each other."""
    grads = [0.0] * circuit.size
    grads[circuit.root()] = 1.0
    for node in reversed(range(circuit.size)):
        for slot in reversed(range(len(circuit.sources_of(node)))):
            wire = run.wire(node, slot)
            source = circuit.sources_of(node)[slot]
            if circuit.constant_of(source) is None:
                sent = grads[node] * (wire.local if factor is None else factor(wire, node))
                grads[source] = sent if overwrite else grads[source] + sent
    return grads


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("kind", "learner"), [("send", send_wrongly), ("gather", gather_wrongly), ("leaf", sweep_wrongly)]
)
def test_numbers_worked_out_elsewhere_are_named_rightly(kind: str, learner: Learner, count: int) -> None:
    planted = 0
    missed = []
    for circuit, source, question in draw_questions(kind, count):
        run = circuit.run(question.leaves)
        for key, number in learner(circuit, run, question):
            if is_accepted(number, question.accepted[0]):
                # The mistake gives the right number here, so nobody can see it.
                continue
            planted += 1
            verdict = judge_answer(source, question, float(f"{number:.6g}"))
            names = {(mistake.key, *mistake.also) for mistake in question.mistakes if mistake.key == verdict.key}
            if not any(key in also for also in names):
                missed.append((question.prompt, question.leaves, key, number, verdict.key))

    assert planted >= 2 * count
    assert len(missed) <= 0.02 * planted, missed[:5]


def draw_questions(kind: str, count: int) -> Iterator[tuple[wg.Circuit, QuestionSource, Question]]:
    circuits = [wg.circuit(formula) for formula in FORMULAS]
    sources = [(circuit, QuestionSource(circuit, 23)) for circuit in circuits]
    for number in range(count):
        circuit, source = sources[number % len(sources)]
        try:
            yield circuit, source, source.draw(kind, number)
        except NoQuestionError:
            yield circuits[1], sources[1][1], sources[1][1].draw(kind, number)


NO_MISCONCEPTIONS = {
    "near", "neutral", "unreadable", "only-here", "right", "claim-true", "claim-false",
    "branch-one",
}  # fmt: skip
"""Titles that are no belief: verdicts without a mistake, and other names of mistakes that are in the list."""
DRAWN_ONLY = {
    "two-drivers", "leaf-unknown", "leaf-twice", "leaf-missing", "output-missing", "output-twice", "cycle",
    "open-input", "loose-end", "wrong-op", "other-grouping", "not-in-formula", "output-early", "computed-twice",
}  # fmt: skip
"""Mistakes of drawings, which questions cannot show."""


@cache
def worked_through(number: int) -> SimulatedLearner:
    """Return a learner at the end of the last lesson."""
    learner = enroll(number)
    for lesson in load_course():
        learner.work_through(lesson)
    return learner


def test_every_mistake_that_a_question_can_show_is_believed_by_someone() -> None:
    named = {key for key in TITLES if "." not in key} - NO_MISCONCEPTIONS - DRAWN_ONLY

    assert named == {belief.key for belief in MISCONCEPTIONS}
    assert {belief.key for k in range(LEARNERS) for belief in enroll(k).beliefs} == named


@pytest.mark.parametrize(
    "number",
    [*range(0, 60, 20), *(pytest.param(k, marks=pytest.mark.full) for k in range(LEARNERS) if k % 20 or k >= 60)],
)
def test_a_misconception_is_named_within_three_questions_of_its_kind(number: int) -> None:
    learner = worked_through(number)

    for belief in learner.beliefs:
        own = [each for each in learner.encounters if each.belief == belief.key]
        kinds = dict.fromkeys(each.kind for each in own)
        late = {kind: turns for kind in kinds if (turns := count_until_named(own, kind)) > 3}
        assert own, f"{belief.key} never showed in the lessons"
        assert late == {}, [each for each in own if each.kind in late][:4]


def count_until_named(encounters: list[Encounter], kind: str) -> float:
    """Return at which question of a kind, counted from 1, a misconception was named."""
    turns = (k for k, each in enumerate((each for each in encounters if each.kind == kind), 1) if each.is_named)
    return next(turns, math.inf)


@pytest.mark.full
def test_a_hundred_learners_are_named_rightly() -> None:
    encounters = [each for number in range(LEARNERS) for each in worked_through(number).encounters]
    missed = [each for each in encounters if not each.is_named]
    accused = [each for each in missed if each.said not in ("neutral", "near")]

    assert len(encounters) > 10_000
    assert len(missed) <= 0.02 * len(encounters), missed[:5]
    assert len(accused) <= 0.001 * len(encounters), accused
