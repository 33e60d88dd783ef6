"""Learners with fixed misconceptions who work through the lessons.

What a misconception leads to is worked out here, from a plain run and from the choices as they are written, without the
code that predicts mistakes. At the first try a learner follows a misconception wherever it gives another answer than
the right one; told of it, the learner answers rightly, and follows it again at the next question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import wiregrad as wg
from wiregrad.learn.drawing import build_drawing, check_drawing
from wiregrad.learn.lessons import (
    DrawScreen,
    Lesson,
    LessonProgress,
    QuestionScreen,
    TextScreen,
    count_flat_lines,
    open_quiz,
    sum_up_lesson,
)
from wiregrad.learn.questions import NUDGES, Question, find_paths
from wiregrad.learn.quiz import Quiz
from wiregrad.learn.quiz_run import Draws, QuizCircuit, is_accepted
from wiregrad.learn.sentences import CLAIMS, name_met_mistake

Data = dict[str, Any]


@dataclass
class Situation:
    """A question, with a plain run of its circuit."""

    question: Question
    owner: QuizCircuit
    circuit: wg.Circuit

    @cached_property
    def run(self) -> wg.Run:
        return self.circuit.run(self.question.leaves)

    @property
    def node(self) -> int:
        return self.question.target[0]

    @property
    def wires(self) -> list[Any]:
        """The wires along which something comes back to the asked node."""
        found = [self.run.wire(*reader) for reader in self.run.readers_of(self.node)]
        return [wire for wire in found if not wire.blocked]

    @property
    def wire(self) -> Any:
        return self.run.wire(*self.question.target[:2])

    @property
    def right(self) -> float:
        assert self.question.answer is not None
        return self.question.answer

    def op(self, node: int) -> str:
        return self.circuit.op_of(node).name

    def inputs(self, node: int) -> list[float]:
        return [float(self.run.values[source]) for source in self.circuit.sources_of(node)]

    def factors(self) -> list[float]:
        """The local derivatives along the asked path."""
        paths = find_paths(self.owner, self.node)
        assert paths is not None
        return [self.run.wire(*wire).local for wire in paths[self.question.target[1]]]

    def sweep(
        self,
        factor: Callable[[Situation, Any, int, int], float] | None = None,
        combine: Callable[[Sequence[float]], float] = sum,
    ) -> float:
        """Return the gradient of the asked leaf after a backward pass with another factor, or another sum."""
        arrived: dict[int, list[float]] = {self.circuit.root(): [1.0]}
        gradient = 0.0
        for node in reversed(range(self.circuit.size)):
            if node not in arrived:
                continue
            gradient = combine(arrived[node])
            if node == self.node:
                return gradient
            for slot in reversed(range(len(self.circuit.sources_of(node)))):
                source = self.circuit.sources_of(node)[slot]
                wire = self.run.wire(node, slot)
                if self.circuit.constant_of(source) is None and wire.local is not None:
                    used = wire.local if factor is None else factor(self, wire, node, slot)
                    arrived.setdefault(source, []).append(gradient * used)
        return 0.0


Factor = Callable[[Situation, Any, int, int], float]


def value_as_factor(at: Situation, wire: Any, node: int, slot: int) -> float:
    return float(at.run.values[node])


def own_input_as_factor(at: Situation, wire: Any, node: int, slot: int) -> float:
    return float(wire.value) if at.op(node) == "multiply" else float(wire.local)


def neighbour_as_factor(at: Situation, wire: Any, node: int, slot: int) -> float:
    sources = at.circuit.sources_of(node)
    if len(sources) != 2 or at.circuit.constant_of(sources[1 - slot]) is not None:
        return float(wire.local)
    return float(at.run.wire(node, 1 - slot).local or 0.0)


INPUT_RULES: dict[str, Callable[[float], float]] = {
    "tanh": lambda x: 1 - x * x,
    "sigmoid": lambda x: x * (1 - x),
    "exp": lambda x: x,
    "sqrt": lambda x: 1 / (2 * x) if x else math.inf,
}
"""The rules of functions whose slope comes from what they gave out, with their input in its place."""


def input_rule_as_factor(at: Situation, wire: Any, node: int, slot: int) -> float:
    rule = INPUT_RULES.get(at.op(node))
    return float(wire.local) if rule is None else rule(at.inputs(node)[0])


def use_factor(factor: Factor) -> dict[str, Callable[[Situation], float | None]]:
    """Return the answers of who takes another factor for the local derivative."""

    def send(at: Situation) -> float:
        node, slot = at.question.target
        return float(at.wire.upstream) * factor(at, at.wire, node, slot)

    def take_local(at: Situation) -> float:
        node, slot = at.question.target
        return factor(at, at.wire, node, slot)

    def gather(at: Situation) -> float:
        readers = at.run.readers_of(at.node)
        wires = [(at.run.wire(*reader), *reader) for reader in readers]
        return sum(wire.upstream * factor(at, wire, node, slot) for wire, node, slot in wires if not wire.blocked)

    return {"send": send, "local": take_local, "gather": gather, "leaf": lambda at: at.sweep(factor)}


def use_branches(combine: Callable[[Sequence[float]], float]) -> dict[str, Callable[[Situation], float | None]]:
    """Return the answers of who puts together in another way what comes back."""
    return {
        "gather": lambda at: combine([wire.sent for wire in at.wires]),
        "leaf": lambda at: at.sweep(combine=lambda parts: combine(parts) if len(parts) > 1 else parts[0]),
    }


def use_right(change: Callable[[float], float], *kinds: str) -> dict[str, Callable[[Situation], float | None]]:
    return dict.fromkeys(kinds, lambda at: change(at.right))


def recurse(at: Situation) -> float:
    """Answer as a plain recursion does: add to each input in turn, and let it send on at once all that it has."""
    grads = [0.0] * at.circuit.size
    grads[at.circuit.root()] = 1.0

    def send_back(node: int) -> None:
        for slot, source in enumerate(at.circuit.sources_of(node)):
            if at.circuit.constant_of(source) is None:
                grads[source] += grads[node] * (at.run.wire(node, slot).local or 0.0)
                send_back(source)

    send_back(at.circuit.root())
    return grads[at.node]


def choose_by_text(at: Situation, *texts: str) -> float | None:
    """Return the number of the choice with one of some texts."""
    return next((k for k, option in enumerate(at.question.options, 1) if option.text in texts), None)


def choose_by_node(at: Situation, is_chosen: Callable[[int], bool]) -> float | None:
    """Return the number of the first choice that is a node of a certain sort."""
    for k, option in enumerate(at.question.options, 1):
        if len(option.target) == 1 and is_chosen(option.target[0]):
            return k
    return None


def believe(**claims: bool) -> dict[str, Callable[[Situation], float | None]]:
    """Return the answers of who takes some claims for true, and others not."""
    patterns = {name: re.escape(CLAIMS[name.replace("_", "-")]) for name in claims}
    patterns = {name: re.sub(r"\\\{\w+\\\}", ".+", pattern) for name, pattern in patterns.items()}

    def answer(at: Situation) -> float | None:
        claim = at.question.prompt.removeprefix("True or not? ")
        name = next((name for name in claims if re.fullmatch(patterns[name], claim)), None)
        return None if name is None else choose_by_text(at, "true" if claims[name] else "not true")

    return {"claim": answer}


def choose_early(at: Situation) -> float | None:
    """Choose a node that has a gradient from some of its readers."""
    if at.question.form != "order.backward":
        return None
    fired = at.question.target

    def is_begun(node: int) -> bool:
        done = [reader in fired for reader, _ in at.run.readers_of(node)]
        return any(done) and not all(done)

    return choose_by_node(at, is_begun)


def choose_unready(at: Situation) -> float | None:
    """Choose a node that reads one which has not fired."""
    if at.question.form != "order.forward":
        return None
    fired = at.question.target
    is_open = {node: bool(at.circuit.sources_of(node)) and node not in fired for node in range(at.circuit.size)}
    return choose_by_node(at, lambda node: any(is_open[source] for source in at.circuit.sources_of(node)))


def choose_unreached(at: Situation) -> float | None:
    """Choose a node to which nothing has come back."""
    if at.question.form != "order.backward":
        return None
    fired = at.question.target
    is_reached = lambda node: any(reader in fired for reader, _ in at.run.readers_of(node))  # noqa: E731
    return choose_by_node(at, lambda node: node != at.circuit.root() and not is_reached(node))


def count_splitters(count: Callable[[int], int]) -> dict[str, Callable[[Situation], float | None]]:
    """Return the answers of who counts splitters in another way."""

    def answer(at: Situation) -> float | None:
        if at.question.form != "structure.count":
            return None
        return choose_by_text(at, str(count(at.owner.fan[at.node])))

    return {"structure": answer}


def split_single(at: Situation) -> float | None:
    if at.question.form != "structure.where":
        return None
    return choose_by_node(at, lambda node: at.owner.fan[node] == 1)


def drive_many(at: Situation) -> float | None:
    if at.question.form != "structure.outputs":
        return None
    return choose_by_text(at, str(max(2, at.owner.fan[at.node])))


def other_op(at: Situation) -> float | None:
    inputs = at.inputs(at.node)
    if len(inputs) != 2:
        return None
    return inputs[0] + inputs[1] if at.op(at.node) in ("multiply", "subtract") else inputs[0] * inputs[1]


def swap_operands(at: Situation) -> float | None:
    inputs = at.inputs(at.node)
    if at.op(at.node) == "subtract":
        return inputs[1] - inputs[0]
    return inputs[1] / inputs[0] if at.op(at.node) == "divide" and inputs[0] else None


def on_path(answer: Callable[[Situation], float | None]) -> dict[str, Callable[[Situation], float | None]]:
    return {"paths": lambda at: answer(at) if at.question.target[1] >= 0 else None}


def on_count(answer: Callable[[Situation], float | None]) -> dict[str, Callable[[Situation], float | None]]:
    return {"paths": lambda at: answer(at) if at.question.target[1] < 0 else None}


def count_path_nodes(at: Situation) -> float:
    paths = find_paths(at.owner, at.node) or []
    return len({wire[0] for path in paths for wire in path})


def multiply_values(at: Situation) -> float:
    paths = find_paths(at.owner, at.node)
    assert paths is not None
    return math.prod(float(at.run.values[wire[0]]) for wire in paths[at.question.target[1]])


def on_nudge(answer: Callable[[Situation, float], float]) -> dict[str, Callable[[Situation], float | None]]:
    return {"nudge": lambda at: answer(at, NUDGES[at.question.target[1]])}


def is_lost(at: Situation, node: int) -> bool:
    return not math.isfinite(at.run.values[node])


def inherit_value(at: Situation) -> float | None:
    return choose_by_node(
        at, lambda node: is_lost(at, node) and any(is_lost(at, source) for source in at.circuit.sources_of(node))
    )


def inherit_gradient(at: Situation) -> float | None:
    """Choose a wire whose number is not right, but follows from what arrives."""
    shown = {gradient.target: gradient.number for gradient in at.question.shown}
    for k, option in enumerate(at.question.options, 1):
        wire = option.target
        if len(wire) != 2 or wire not in shown:
            continue
        readers = [shown[reader] for reader in at.run.readers_of(wire[0]) if reader in shown]
        arrives = sum(readers) if readers else 1.0
        follows = math.isclose(shown[wire], arrives * at.run.wire(*wire).local, rel_tol=1e-9)
        if follows and not math.isclose(shown[wire], at.run.wire(*wire).sent, rel_tol=1e-6):
            return k
    return None


@dataclass(frozen=True)
class Misconception:
    """What a learner believes: the key of the mistake that it leads to, and the answers, by kind of question."""

    key: str
    answers: dict[str, Callable[[Situation], float | None]]
    also: tuple[str, ...] = ()
    """Keys of mistakes that are the same answer by nature."""
    draw: Callable[[Data], None] | None = None
    """What it does to a right drawing."""


def draw_without_splitters(drawing: Data) -> None:
    """Let every reader of a splitter read what goes into it."""
    while splitter := next((node for node in drawing["nodes"] if node["op"] == "split"), None):
        drawing["nodes"].remove(splitter)
        before = next(wire for wire in drawing["wires"] if wire["to"] == splitter["id"])
        drawing["wires"].remove(before)
        for wire in drawing["wires"]:
            if wire["from"] == splitter["id"]:
                wire["from"], wire["port"] = before["from"], before["port"]


def draw_two_outputs(drawing: Data) -> None:
    """Give a second output to the first box with a splitter behind it that has one input or more."""
    by_id = {node["id"]: node for node in drawing["nodes"]}
    for wire in drawing["wires"]:
        box, splitter = by_id[wire["from"]], by_id[wire["to"]]
        if splitter["op"] != "split" or box["op"] in ("input", "constant", "split"):
            continue
        drawing["nodes"].remove(splitter)
        drawing["wires"].remove(wire)
        for other in drawing["wires"]:
            if other["from"] == splitter["id"]:
                other["from"] = box["id"]
        return


def draw_curve(drawing: Data) -> None:
    drawing["nodes"].append({"id": "curve", "op": "curve"})


def drop_one(factors: Sequence[float]) -> float | None:
    kept = [k for k, factor in enumerate(factors) if factor not in (0.0, 1.0)]
    return math.prod(factor for k, factor in enumerate(factors) if k != kept[0]) if kept else None


MISCONCEPTIONS = (
    Misconception("forward-for-local", {**use_factor(value_as_factor), **on_path(multiply_values)}),
    Misconception(
        "upstream-only",
        {
            "send": lambda at: at.wire.upstream,
            "local": lambda at: at.wire.upstream,
            "gather": lambda at: sum(wire.upstream for wire in at.wires),
            "leaf": lambda at: at.sweep(lambda *_: 1.0),
        },
    ),
    Misconception(
        "local-only",
        {
            "send": lambda at: at.wire.local,
            "gather": lambda at: sum(wire.local for wire in at.wires),
            "leaf": lambda at: sum(wire.local for wire in at.wires),
        },
    ),
    Misconception("own-not-other", {**use_factor(own_input_as_factor), **believe(own=True, swap=False)}),
    Misconception("same-to-all", {**use_factor(neighbour_as_factor), **believe(same=True)}, ("own-not-other",)),
    Misconception("activation-input", use_factor(input_rule_as_factor)),
    Misconception("branch-first", use_branches(lambda parts: parts[0])),
    Misconception("branch-last", {**use_branches(lambda parts: parts[-1]), **believe(last=True, sum=False)}),
    Misconception("branch-product", use_branches(math.prod)),
    Misconception("branch-mean", use_branches(lambda parts: sum(parts) / len(parts))),
    Misconception(
        "branch-missing",
        {
            "gather": lambda at: sum(wire.sent for wire in at.wires[1:]) if len(at.wires) > 2 else None,
        },
    ),
    Misconception("twice", {**use_right(lambda x: 2 * x, "send", "gather", "leaf", "nudge"), **believe(clear=False)}),
    Misconception("sign", use_right(lambda x: -x, "local", "send", "gather", "leaf", "nudge")),
    Misconception(
        "value-for-gradient",
        {
            "send": lambda at: at.wire.value,
            "gather": lambda at: float(at.run.values[at.node]),
            "leaf": lambda at: float(at.run.values[at.node]),
            **on_nudge(lambda at, nudge: float(at.run.values[at.node]) * nudge),
        },
    ),
    Misconception("sent-for-local", {"local": lambda at: at.wire.sent}),
    Misconception("recursing", {"leaf": recurse, "order": choose_early, **believe(early=True, wait=False)}),
    Misconception("not-ready", {"order": choose_unready}),
    Misconception("not-reached", {"order": choose_unreached}),
    Misconception("other-op", {"value": other_op}),
    Misconception("operands-swapped", {"value": swap_operands}),
    Misconception("input-for-output", {"value": lambda at: at.inputs(at.node)[0]}),
    Misconception("slope-for-value", {"value": lambda at: at.run.wire(at.node, 0).local}),
    Misconception("gradient-for-change", on_nudge(lambda at, nudge: at.right / nudge)),
    Misconception("nudge-only", on_nudge(lambda at, nudge: nudge)),
    Misconception("new-output", on_nudge(lambda at, nudge: float(at.run.values[at.circuit.root()]) + at.right)),
    Misconception("new-input", on_nudge(lambda at, nudge: float(at.run.values[at.node]) + nudge)),
    Misconception("path-sum", on_path(lambda at: sum(at.factors()))),
    Misconception("path-short", on_path(lambda at: drop_one(at.factors()))),
    Misconception("gradient-for-path", on_path(lambda at: at.run.gradient(at.node))),
    Misconception("branches-for-paths", on_count(lambda at: len(at.wires))),
    Misconception("paths-missing", on_count(lambda at: at.right - 1)),
    Misconception("nodes-for-paths", on_count(count_path_nodes)),
    Misconception("router-both", {"router": lambda at: choose_by_text(at, "none of them", "what arrives")}),
    Misconception("router-none", {"router": lambda at: choose_by_text(at, "all of them", "nothing")}),
    Misconception("no-splitter", count_splitters(lambda fan: 0), draw=draw_without_splitters),
    Misconception("splitter-per-reader", count_splitters(lambda fan: fan)),
    Misconception("splitter-without-need", {"structure": split_single}),
    Misconception(
        "vector-output",
        {"structure": drive_many, **believe(many_outputs=True, one_output=False)},
        draw=draw_two_outputs,
    ),
    Misconception("graph-vs-circuit", believe(curve=True), draw=draw_curve),
    Misconception("inherits", {"debug": inherit_value, "spot": inherit_gradient}),
    Misconception("finite", {"debug": lambda at: choose_by_node(at, lambda node: not is_lost(at, node))}),
)
"""What learners believe; every mistake of the catalogue that a question can show has one."""


@dataclass(frozen=True)
class Encounter:
    """A question at which a misconception showed: what was said, and whether the misconception was named."""

    belief: str
    kind: str
    said: str
    is_named: bool
    prompt: str
    answer: str


@dataclass
class SimulatedLearner:
    """Someone with fixed misconceptions; `round` draws the numbers of the lessons."""

    beliefs: tuple[Misconception, ...]
    round: int
    encounters: list[Encounter] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    """How many questions of each kind were asked."""
    _turn: int = 0

    def work_through(self, lesson: Lesson) -> LessonProgress:
        """Work through a lesson; return the progress that the page would keep."""
        logs: dict[int, list[str]] = {}
        for at, screen in enumerate(lesson.screens):
            if isinstance(screen, QuestionScreen):
                logs[at] = list(self._answer_questions(screen))
            elif isinstance(screen, DrawScreen):
                logs[at] = list(self._draw(screen.formula))
            elif screen.widget and screen.widget["kind"] == "flat":
                logs[at] = ["written"] * count_flat_lines(screen.widget["formula"])
        seen = tuple(at for at, screen in enumerate(lesson.screens) if isinstance(screen, TextScreen))
        return sum_up_lesson(lesson, LessonProgress(seen=seen, round=self.round, logs=logs))

    def _answer_questions(self, screen: QuestionScreen) -> Iterator[str]:
        quiz = open_quiz(screen, self.round)
        circuit = wg.circuit(screen.formula)
        while question := quiz.next():
            self.asked[question.kind] = self.asked.get(question.kind, 0) + 1
            mistaken = self._follow_belief(quiz, Situation(question, quiz.source.owner, circuit))
            if mistaken:
                yield f"a:{mistaken}"
            answer = right_answer(question)
            assert quiz.check(answer).right, (question.prompt, answer)
            yield f"a:{answer}"
            yield "next"

    def _follow_belief(self, quiz: Quiz, situation: Situation) -> str:
        """Answer by the first misconception that shows; return the answer, empty if none does."""
        question = situation.question
        self._turn += 1
        shift = self._turn % len(self.beliefs)
        for belief in (*self.beliefs[shift:], *self.beliefs[:shift]):
            answer = find_answer(belief, situation)
            if answer is None:
                continue
            verdict = quiz.check(answer)
            shared = next((found.also for found in question.mistakes if found.key == verdict.key), ())
            keys = {verdict.key, *shared}
            names = {name_met_mistake(key, question.kind) for key in (belief.key, *belief.also)}
            is_named = belief.key in keys or name_met_mistake(verdict.key, question.kind) in names
            self.encounters.append(Encounter(belief.key, question.kind, verdict.key, is_named, question.prompt, answer))
            return answer
        return ""

    def _draw(self, formula: str) -> Iterator[str]:
        for belief in self.beliefs:
            drawing = deepcopy(build_drawing(formula))
            if belief.draw is None:
                continue
            belief.draw(drawing)
            verdict = check_drawing(formula, drawing)
            if not verdict.right:
                key = verdict.mistakes[0].key
                self.encounters.append(Encounter(belief.key, "draw", key, key == belief.key, formula, ""))
                yield f"m:draw {key}"
        yield "right"
        yield "next"


def right_answer(question: Question) -> str:
    if question.options:
        return str(next(k for k, option in enumerate(question.options, 1) if option.right))
    assert question.answer is not None
    return repr(question.answer)


def find_answer(belief: Misconception, situation: Situation) -> str | None:
    """Return what a misconception leads to, as a learner types it; None where it shows nothing."""
    question = situation.question
    answer = belief.answers.get(question.kind, lambda at: None)(situation)
    if answer is None or not math.isfinite(answer):
        return None
    if question.options:
        return None if question.options[int(answer) - 1].right else str(int(answer))
    if any(is_accepted(answer, accepted) for accepted in question.accepted):
        return None
    return f"{float(answer):.6g}"


LEARNERS = 100


def enroll(number: int) -> SimulatedLearner:
    """Return a learner: every other one has a second misconception."""
    first = MISCONCEPTIONS[number % len(MISCONCEPTIONS)]
    if number % 2 == 0:
        return SimulatedLearner((first,), number)
    others = [belief for belief in MISCONCEPTIONS if belief is not first]
    return SimulatedLearner((first, Draws(number).choose(others)), number)
