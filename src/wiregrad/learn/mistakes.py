"""Mistakes as mutant backward rules: what a learner who makes one would answer, and out of which factors.

A rule mistake replaces the local derivative of a wire; a branch mistake replaces the sum of what comes back. Both run
on the circuit of the question, at one place or in a whole sweep, so that every prediction is computed and none is
written down. A prediction keeps its factors: feedback rebuilds the learner's number from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from wiregrad.ir import Pattern
from wiregrad.learn.quiz_run import QuizRun, Wire, has_pattern, show_factor, show_number
from wiregrad.learn.sentences import TEXTS, describe_mistake, fill_sentence

RULE_MISTAKES: Final = (
    "forward-for-local",
    "upstream-only",
    "own-not-other",
    "same-to-all",
    "activation-input",
    "router-both",
)
"""The mistakes that replace a local derivative, in the order in which they claim a number that two of them give."""
BRANCH_MISTAKES: Final = ("branch-first", "branch-last", "branch-product", "branch-mean")
MAX_RECURSIONS: Final = 64
"""Maximum number of paths along which the mistake of recursing is followed."""


@dataclass(frozen=True)
class PredictedFactor:
    """One factor of a predicted number, and what it is."""

    value: float
    label: str


@dataclass(frozen=True)
class PredictedMistake:
    """What a learner who makes a mistake would answer; `also` names mistakes that give this number by nature."""

    key: str
    number: float
    title: str
    text: str
    factors: tuple[PredictedFactor, ...] = ()
    also: tuple[str, ...] = ()


class MistakeWriter:
    """Collects the predictions for one question; its fields are the names and numbers that sentences may use."""

    def __init__(self, kind: str, fields: dict[str, str]) -> None:
        self.kind = kind
        self.fields = fields
        self.found: list[PredictedMistake] = []

    def add(
        self,
        key: str,
        number: float | None,
        fields: dict[str, str] | None = None,
        factors: Sequence[PredictedFactor] = (),
    ) -> None:
        """Add a prediction, unless the mistake cannot be made here."""
        if number is None or not math.isfinite(number):
            return
        title, text = describe_mistake(self.kind, key, {**self.fields, **(fields or {})})
        self.found.append(PredictedMistake(key, number, title, text, tuple(factors)))

    def add_branch(self, key: str, number: float, fields: dict[str, str]) -> None:
        """Add the prediction that one branch was taken for the sum."""
        text = TEXTS.get(f"{self.kind}.branch-one") or TEXTS["branch-one"]
        title = describe_mistake(self.kind, "branch-one", {})[0]
        self.found.append(PredictedMistake(key, number, title, fill_sentence(text, {**self.fields, **fields})))

    def add_sign(self, answer: float, factors: Sequence[float]) -> None:
        """Add the prediction of a wrong sign; where one factor is negative, the text says so."""
        self.add("sign", -answer)
        if sum(factor < 0 for factor in factors) == 1:
            self.found[-1] = replace(self.found[-1], text=TEXTS["sign-one"])


def mutate_local(run: QuizRun, key: str, wire: Wire) -> float | None:
    """Return the factor that a rule mistake puts in place of a local derivative; None if it cannot be made there."""
    node = wire[0]
    if key == "forward-for-local":
        return run.value(node)
    if key == "upstream-only":
        return 1.0
    if key == "own-not-other":
        return run.value(run.owner.source_of(wire)) if has_pattern(run, node, Pattern.SWAP) else None
    if key == "same-to-all":
        return None if has_pattern(run, node, Pattern.SWAP) else _find_neighbour_slope(run, wire)
    if key == "activation-input":
        is_single = len(run.owner.sources[node]) == 1
        return run.local_from(wire, run.value(run.owner.sources[node][0])) if is_single else None
    assert key == "router-both"
    is_loser = has_pattern(run, node, Pattern.ROUTE) and run.local(wire) is None
    return 1.0 if is_loser else None


def _find_neighbour_slope(run: QuizRun, wire: Wire) -> float | None:
    """Return the local derivative of the next input of the same node."""
    node, slot = wire
    count = len(run.owner.sources[node])
    for step in range(1, count):
        other = (slot + step) % count
        if run.owner.active[run.owner.sources[node][other]]:
            return run.local((node, other))
    return None


def local_or_mutant(run: QuizRun, key: str, wire: Wire) -> float | None:
    """Return the factor on a wire for a learner who makes a rule mistake wherever it can be made."""
    mutant = mutate_local(run, key, wire)
    return run.local(wire) if mutant is None else mutant


def sweep_with_mistake(
    run: QuizRun,
    local: Callable[[Wire], float | None],
    combine: Callable[[Sequence[float]], float] = sum,
) -> dict[int, float]:
    """Run the backward pass with another rule for wires, or another one for what several readers send."""
    owner = run.owner
    arrived: dict[int, list[float]] = {owner.root: [1.0]}
    grads: dict[int, float] = {}
    for node in reversed(owner.nodes):
        if node not in arrived:
            continue
        parts = arrived[node]
        grads[node] = combine(parts) if len(parts) > 1 else parts[0]
        for slot in range(len(owner.sources[node]) - 1, -1, -1):
            source = owner.sources[node][slot]
            factor = local((node, slot)) if owner.active[source] and owner.active[node] else None
            if factor is not None:
                arrived.setdefault(source, []).append(grads[node] * factor)
    return grads


def combine_branches(key: str, parts: Sequence[float]) -> float:
    """Put together what several readers send, in the way of a branch mistake."""
    if key == "branch-first":
        return parts[0]
    if key == "branch-last":
        return parts[-1]
    return math.prod(parts) if key == "branch-product" else sum(parts) / len(parts)


def sweep_recursively(run: QuizRun) -> dict[int, float] | None:
    """Run the backward pass as a recursion that sends on at every arrival; None if there are too many paths."""
    owner = run.owner
    grads = {owner.root: 1.0}
    waiting = [(owner.root, 1.0)]
    for _ in range(MAX_RECURSIONS * 4):
        if not waiting:
            return grads
        node, gradient = waiting.pop()
        for slot in range(len(owner.sources[node])):
            source = owner.sources[node][slot]
            factor = run.local((node, slot)) if owner.active[source] and owner.active[node] else None
            if factor is not None:
                grads[source] = grads.get(source, 0.0) + gradient * factor
                waiting.append((source, grads[source]))
    return None


def predict_send(run: QuizRun, wire: Wire, writer: MistakeWriter, local: float, answer: float) -> None:
    """Predict what mistaken learners send along one wire."""
    owner = run.owner
    node = wire[0]
    source = owner.source_of(wire)
    upstream = run.upstream(node)
    arrives = PredictedFactor(upstream, "upstream")
    for key in RULE_MISTAKES:
        factor = mutate_local(run, key, wire)
        if factor is None:
            continue
        label = {"forward-for-local": f"value of {owner.title(node)}", "own-not-other": owner.title(source)}.get(
            key, ""
        )
        factors = (arrives, PredictedFactor(factor, label)) if label else ()
        writer.add(key, upstream * factor, factors=factors)
    writer.add("local-only", local)
    writer.add("twice", 2.0 * answer)
    writer.add("value-for-gradient", run.value(source))
    writer.add_sign(answer, (upstream, local))


def predict_local(run: QuizRun, wire: Wire, writer: MistakeWriter, local: float) -> None:
    """Predict what mistaken learners take for the local derivative of a wire."""
    node = wire[0]
    for key in RULE_MISTAKES:
        factor = run.upstream(node) if key == "upstream-only" else mutate_local(run, key, wire)
        writer.add(key, factor)
    writer.add("sent-for-local", run.upstream(node) * local)
    writer.add("value-for-gradient", run.value(run.owner.source_of(wire)))
    writer.add("sign", -local)


def predict_gather(run: QuizRun, node: int, writer: MistakeWriter, answer: float) -> None:
    """Predict what mistaken learners let land at a node with several readers."""
    wires = [wire for wire in run.owner.readers[node] if run.sent(wire) is not None]
    parts = [run.sent(wire) or 0.0 for wire in wires]
    last = len(parts) - 1
    for k, part in enumerate(parts):
        key = "branch-first" if k == 0 else "branch-last" if k == last else "branch-one"
        writer.add_branch(key, part, {"part": show_number(part), "reader": run.describe_reader(wires[k])})
    if last > 1:
        for part in parts:
            writer.add("branch-missing", answer - part)
    writer.add("branch-product", math.prod(parts))
    writer.add("branch-mean", answer / len(parts))
    for key in RULE_MISTAKES[:-1]:
        if any(mutate_local(run, key, wire) is not None for wire in wires):
            sums = [run.upstream(wire[0]) * (local_or_mutant(run, key, wire) or 0.0) for wire in wires]
            writer.add(key, sum(sums), {"op": _name_activations(run, wires)})
    writer.add("local-only", sum(run.local(wire) or 0.0 for wire in wires))
    writer.add("twice", 2.0 * answer)
    writer.add("value-for-gradient", run.value(node))
    writer.add_sign(answer, ())


def _name_activations(run: QuizRun, wires: Sequence[Wire]) -> str:
    """Return the op whose input stands in for its output: the first one for which that makes a difference."""
    for wire in wires:
        mutant = mutate_local(run, "activation-input", wire)
        if mutant is not None and mutant != run.local(wire):
            return run.owner.ops[wire[0]].name
    return ""


def predict_leaf(run: QuizRun, node: int, writer: MistakeWriter, answer: float) -> None:
    """Predict the gradient of a leaf for learners who make a mistake at every node, and at the last one alone."""
    wires = run.owner.readers[node]
    for key, grads in sweep_mistakes(run):
        if key in BRANCH_MISTAKES[:2]:
            writer.add_branch(key, grads.get(node, 0.0), {})
        else:
            writer.add(key, grads.get(node, 0.0), {"op": _name_activations(run, run.owner.wires)})
    for key in RULE_MISTAKES[:2]:
        writer.add(key, sum(run.upstream(wire[0]) * (local_or_mutant(run, key, wire) or 0.0) for wire in wires))
    writer.add("local-only", sum(run.local(wire) or 0.0 for wire in wires))
    writer.add("twice", 2.0 * answer)
    writer.add("value-for-gradient", run.value(node))
    writer.add_sign(answer, ())


def sweep_mistakes(run: QuizRun) -> Iterator[tuple[str, dict[int, float]]]:
    """Return the gradients of a whole backward pass under each mistake that can be made everywhere."""
    wires = run.owner.wires
    for key in RULE_MISTAKES:
        mutants = {wire: mutate_local(run, key, wire) for wire in wires}
        if any(factor is not None for factor in mutants.values()):
            slopes = {wire: run.local(wire) if factor is None else factor for wire, factor in mutants.items()}
            yield key, sweep_with_mistake(run, slopes.get)
    locals_ = {wire: run.local(wire) for wire in wires}
    if any(len(readers) > 1 for readers in run.owner.readers.values()):
        for key in BRANCH_MISTAKES:
            yield key, sweep_with_mistake(run, locals_.get, partial(combine_branches, key))
        recursive = sweep_recursively(run)
        if recursive is not None:
            yield "recursing", recursive


def show_fields(**numbers: float) -> dict[str, str]:
    """Write numbers for sentences: each plain, and with `_` behind its name in brackets where it is negative.

    >>> show_fields(value=-2.4)
    {'value': '−2.4', 'value_': '(−2.4)'}
    """
    fields: dict[str, str] = {}
    for name, number in numbers.items():
        fields[name] = show_number(number)
        fields[f"{name}_"] = show_factor(number)
    return fields
