"""What can be asked of a run: questions with a number as answer, questions with choices, and what makes one clear.

A question is a circuit, a seed, a kind and a target. Leaves are drawn until the answer is an ordinary number and every
predicted mistake can be told from it and from the others; mistakes that give the same number at any leaves share one
message. Questions with choices ask for an order, a router, a splitter, a claim, a mistaken wire, the birth of a NaN.
Every choice that is not right knows which mistake it shows; a question is drawn again where two choices read alike, or
where none or all would be right. The twins are `questions.ts` and `choices.ts` in `web/src/learn/`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Final

from wiregrad.errors import NoQuestionError
from wiregrad.ir import Pattern
from wiregrad.learn.quiz_run import (
    BREAKING_LEAVES,
    LARGEST,
    READABLE_ATTEMPTS,
    SMALLEST,
    Draws,
    MistakeWriter,
    PredictedMistake,
    QuizCircuit,
    QuizRun,
    Wire,
    collides,
    has_pattern,
    mutate_local,
    predict_gather,
    predict_leaf,
    predict_local,
    predict_send,
    show_factor,
    show_fields,
    show_number,
    sweep_with_mistake,
)
from wiregrad.learn.sentences import CLAIMS, NEUTRAL, PROMPTS, TEXTS, TITLES, WORDS, describe_mistake, fill_sentence

Target = tuple[int, ...]
"""What a question is about: a node, a wire, one of them with a choice behind it, or the nodes that have fired."""

MAX_ATTEMPTS: Final = 160
"""Maximum number of draws of leaves for one question."""
TURN_ATTEMPTS: Final = 40
"""For how many draws a question stays with the op whose turn it is."""
MAX_PATHS: Final = 24
MAX_PROMPT: Final = 100
"""Maximum number of characters of a question."""
MAX_GIVEN: Final = 12
"""Maximum number of values that are listed under a question."""
NUDGES: Final = (0.01, -0.01, 0.02)
TINY: Final = 1e-5
"""Predicted numbers below this are left out: gradients of saturated functions, whose digits are noise."""
ANSWER_KEY: Final = "answer"
"""The name under which the right answer is compared with mistakes."""
COMPARED_RUNS: Final = 2
"""At how many other draws two mistakes must give one number to count as the same by nature."""
# A constant in the name of a node, as in 2·m, is no number of the sentence.
_NUMBER = re.compile(r"(?<![\w·^/.])(?<![+−] )−?\d+(?:\.\d+)?(?:e−?\d+)?(?![\w·^/]|\.\d| [+−] )")


@dataclass(frozen=True)
class ChoiceOption:
    """One of the choices of a question; `detail` is its second line, `title` and `text` what is said if it is taken."""

    text: str
    right: bool
    key: str = ""
    title: str = ""
    reply: str = ""
    detail: str = ""
    target: Target = ()


@dataclass(frozen=True)
class ShownGradient:
    """A gradient that a picture shows on a wire in place of the right one."""

    target: Target
    label: str
    number: float


@dataclass(frozen=True)
class Question:
    """One question: what is asked, at which leaves, the answer, the mistakes that feedback knows, and the hints.

    `given` are the numbers that a picture of the question shows, one line for each node. `answer` is None where one of
    the `options` is asked for. `accepted` are the numbers that count as right. `neutral`, `hint` and `step` are the
    rungs of the ladder; the last one tells what happens at `target`, as the explorer plays it. `shown` are the
    gradients on wires that a picture shows instead of the right ones.
    """

    kind: str
    form: str
    seed: int
    number: int
    target: Target
    prompt: str
    leaves: dict[str, float]
    given: tuple[str, ...]
    answer: float | None
    accepted: tuple[float, ...]
    options: tuple[ChoiceOption, ...]
    mistakes: tuple[PredictedMistake, ...]
    neutral: str
    hint: str
    step: str
    why: str
    shown: tuple[ShownGradient, ...] = ()
    follow_up: Question | None = None
    picture: Callable[[], str] | None = field(default=None, compare=False, repr=False)
    """Draws the question as SVG, where a quiz has asked it."""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        bundle = {"text/plain": str(self)}
        if self.picture is not None:
            lines = "".join(f"<div>{escape(line)}</div>" for line in str(self).splitlines())
            bundle["text/html"] = f'{lines}<div style="overflow:auto;max-width:100%">{self.picture()}</div>'
        return bundle

    def __str__(self) -> str:
        leaves = ", ".join(f"{name} = {show_number(x)}" for name, x in self.leaves.items())
        lines = [self.prompt, *([f"  {leaves}"] if leaves else []), *(f"  {line}" for line in self.given)]
        lines += [f"  {gradient.label}: {show_number(gradient.number)}" for gradient in self.shown]
        for k, option in enumerate(self.options, 1):
            lines.append(f"  {k}  {option.text}" + (f" ({option.detail})" if option.detail else ""))
        return "\n".join(lines)

    __repr__ = __str__


@dataclass(frozen=True)
class PosedQuestion:
    """A question on one run before the filter: its answer, predictions and texts."""

    answer: float
    mistakes: tuple[PredictedMistake, ...]
    prompt: str
    neutral: str
    hint: str
    step: str
    why: str
    accepted: tuple[float, ...] = ()
    scale: float = 1.0
    """What the answer is divided by before its size is judged: a nudge is small by design."""
    least: int = 3
    """How many mistakes must remain."""
    form: str = ""
    given: tuple[str, ...] = ()


Poser = Callable[[QuizRun, Target], PosedQuestion | None]


def join_words(parts: Sequence[str]) -> str:
    """Join a list with commas and a final "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def wire_fields(run: QuizRun, wire: Wire) -> dict[str, str]:
    """Return the names and numbers of a wire for sentences."""
    owner = run.owner
    node = wire[0]
    source = owner.source_of(wire)
    numbers = show_fields(upstream=run.upstream(node), value=run.value(node), own=run.value(source))
    names = {"node": owner.title(node), "source": owner.title(source), "op": owner.ops[node].name}
    return {**names, **numbers, "output": owner.title(owner.root)}


def give_values(run: QuizRun, nodes: Sequence[int]) -> list[str]:
    """Write the values of function nodes, as a picture of the question shows them."""
    shown = [node for node in nodes if run.owner.sources[node]][:MAX_GIVEN]
    return [f"{run.owner.title(node)} = {show_number(run.value(node))}" for node in shown]


def give_arrivals(run: QuizRun, nodes: Sequence[int]) -> list[str]:
    """Write the gradients that have arrived at nodes."""
    texts = []
    for node in nodes[:MAX_GIVEN]:
        fields = {"node": run.owner.title(node), **show_fields(upstream=run.upstream(node))}
        texts.append(fill_sentence(WORDS["given.arrives"], fields))
    return texts


def _list_inputs(run: QuizRun, node: int) -> str:
    owner = run.owner
    parts = []
    for source in dict.fromkeys(owner.sources[node]):
        number = show_number(run.value(source))
        title = owner.title(source)
        parts.append(number if title == number else f"{title} = {number}")
    return join_words(parts)


def pose_value(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask for the value of a node."""
    owner = run.owner
    node = target[0]
    answer = run.value(node)
    fields = {"node": owner.title(node), "inputs": _list_inputs(run, node), **show_fields(value=answer)}
    writer = MistakeWriter("value", fields)
    xs = [run.value(source) for source in owner.sources[node] if not is_condition(owner, source)]
    if len(xs) == 2 == len(owner.sources[node]):
        _predict_other_ops(run, node, xs, writer)
    for x in dict.fromkeys(xs):
        writer.add("input-for-output", x, show_fields(own=x))
    for slot, source in enumerate(owner.sources[node]):
        writer.add("slope-for-value", run.local((node, slot)) if owner.active[source] else None)
    writer.add_sign(answer, ())
    return _finish("value", answer, writer, fields, given=give_values(run, _distinct(owner.sources[node])))


def _predict_other_ops(run: QuizRun, node: int, xs: Sequence[float], writer: MistakeWriter) -> None:
    a, b = xs
    own = run.owner.ops[node].name
    for name, sign, number in (("add", "+", a + b), ("multiply", "×", a * b), ("subtract", "−", a - b)):
        if name != own:
            writer.add("other-op", number, {"left": show_number(a), "sign": sign, "right_": show_factor(b)})
    if own == "subtract":
        writer.add("operands-swapped", b - a)
    elif own == "divide" and a:
        writer.add("operands-swapped", b / a)
    elif own == "power" and b > 0:
        writer.add("operands-swapped", b**a)


def _finish(
    kind: str,
    answer: float,
    writer: MistakeWriter,
    fields: dict[str, str],
    *,
    accepted: tuple[float, ...] = (),
    scale: float = 1.0,
    least: int = 3,
    hint: str = "",
    given: Sequence[str] = (),
) -> PosedQuestion:
    """Write the sentences of a question; `kind` is the one under which they are found."""
    return PosedQuestion(
        answer=answer,
        mistakes=tuple(writer.found),
        prompt=fill_sentence(PROMPTS[kind], fields),
        neutral=fill_sentence(NEUTRAL[kind], fields),
        hint=fill_sentence(WORDS[hint or f"hint.{kind}"], fields),
        step=fill_sentence(WORDS[f"step.{kind}"], fields),
        why=fill_sentence(WORDS[f"why.{kind}"], fields),
        accepted=(answer, *accepted),
        scale=scale,
        least=least,
        form=kind,
        given=tuple(given),
    )


def _distinct(nodes: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(nodes))


def _give_wire(run: QuizRun, wire: Wire) -> list[str]:
    return give_values(run, _distinct([*run.owner.sources[wire[0]], wire[0]]))


def pose_local(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask for the local derivative on a wire."""
    wire = (target[0], target[1])
    local = run.local(wire)
    if local is None or not run.upstream(wire[0]):
        return None
    fields = {**wire_fields(run, wire), **show_fields(local=local)}
    writer = MistakeWriter("local", fields)
    predict_local(run, wire, writer, local)
    return _finish("local", local, writer, fields, given=_give_wire(run, wire))


def pose_send(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask for the gradient that a node sends along a wire."""
    wire = (target[0], target[1])
    local = run.local(wire)
    sent = run.sent(wire)
    if local is None or sent is None:
        return None
    fields = {**wire_fields(run, wire), **show_fields(local=local, sent=sent)}
    writer = MistakeWriter("send", fields)
    predict_send(run, wire, writer, local, sent)
    given = [*_give_wire(run, wire), *give_arrivals(run, [wire[0]])]
    return _finish("send", sent, writer, fields, given=given)


def _live_parts(run: QuizRun, node: int) -> list[tuple[Wire, float]]:
    parts = [(wire, run.sent(wire)) for wire in run.owner.readers[node]]
    return [(wire, sent) for wire, sent in parts if sent is not None]


def _sum_fields(run: QuizRun, node: int, parts: Sequence[tuple[Wire, float]]) -> dict[str, str]:
    owner = run.owner
    wire, first = parts[0]
    shown = [show_number(first), *(show_factor(part) for _, part in parts[1:])]
    return {
        "node": owner.title(node),
        "source": owner.title(node),
        "output": owner.title(owner.root),
        "count": str(len(parts)),
        "parts": " + ".join(shown),
        "reader": run.describe_reader(wire),
        **show_fields(part=first, sum=run.upstream(node), own=run.value(node), local=run.local(wire) or 0.0),
    }


def pose_gather(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask for the gradient of a node with several readers."""
    node = target[0]
    parts = _live_parts(run, node)
    if len(parts) < 2:
        return None
    fields = _sum_fields(run, node, parts)
    writer = MistakeWriter("gather", fields)
    answer = run.upstream(node)
    predict_gather(run, node, writer, answer)
    readers = _distinct([wire[0] for wire, _ in parts])
    sources = _distinct([source for reader in readers for source in (*run.owner.sources[reader], reader)])
    given = [*give_values(run, sources), *give_arrivals(run, readers)]
    return _finish("gather", answer, writer, fields, least=4, given=given)


def pose_leaf(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask for the gradient of a leaf, with no other gradient given."""
    node = target[0]
    parts = _live_parts(run, node)
    if not parts:
        return None
    fields = _sum_fields(run, node, parts)
    writer = MistakeWriter("leaf", fields)
    answer = run.upstream(node)
    predict_leaf(run, node, writer, answer)
    hint = "hint.leaf.many" if len(parts) > 1 else "hint.leaf"
    return _finish("leaf", answer, writer, fields, hint=hint, given=give_values(run, run.owner.nodes))


def pose_nudge(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask how far the output moves when a leaf is nudged; the true change counts as right too."""
    owner = run.owner
    node, choice = target
    nudge = NUDGES[choice]
    gradient = run.upstream(node)
    change = gradient * nudge
    name = owner.circuit.name_of(node)
    moved = owner.run({**run.leaves, name: run.value(node) + nudge})
    true_change = moved.value(owner.root) - run.value(owner.root)
    fields = {"source": owner.title(node), "output": owner.title(owner.root)}
    fields |= show_fields(nudge=nudge, gradient=gradient, sum=change)
    writer = MistakeWriter("nudge", fields)
    writer.add("gradient-for-change", gradient)
    writer.add("nudge-only", nudge)
    writer.add("new-output", run.value(owner.root) + change)
    writer.add("new-input", run.value(node) + nudge)
    writer.add("value-for-gradient", run.value(node) * nudge)
    writer.add("local-only", sum(run.local(wire) or 0.0 for wire in owner.readers[node]) * nudge)
    writer.add("twice", 2.0 * change)
    writer.add_sign(change, ())
    given = give_values(run, owner.nodes)
    return _finish("nudge", change, writer, fields, accepted=(true_change,), scale=abs(nudge), given=given)


def find_paths(owner: QuizCircuit, node: int) -> list[list[Wire]] | None:
    """Return the paths from a node to the output, each as its wires; None if there are too many."""
    waiting: list[tuple[int, list[Wire]]] = [(node, [])]
    found: list[list[Wire]] = []
    while waiting:
        at, path = waiting.pop()
        if at == owner.root:
            found.append(path)
        waiting.extend((wire[0], [*path, wire]) for wire in reversed(owner.readers[at]))
        if len(waiting) + len(found) > MAX_PATHS:
            return None
    return found


def pose_paths(run: QuizRun, target: Target) -> PosedQuestion | None:
    """Ask how many paths lead to the output, or for the product along one of them."""
    paths = find_paths(run.owner, target[0])
    if paths is None:
        return None
    return _pose_count(run, target[0], paths) if target[1] < 0 else _pose_product(run, target[0], paths, target[1])


def _pose_count(run: QuizRun, node: int, paths: Sequence[Sequence[Wire]]) -> PosedQuestion:
    owner = run.owner
    readers = owner.readers[node]
    count = len(paths)
    fields = {"node": owner.title(node), "output": owner.title(owner.root), "count": str(count)}
    fields["readers"] = join_words(list(dict.fromkeys(owner.title(wire[0]) for wire in readers)))
    writer = MistakeWriter("count", fields)
    writer.add("branches-for-paths", len(readers))
    writer.add("nodes-for-paths", len({wire[0] for path in paths for wire in path}))
    writer.add("paths-missing", count - 1)
    return _finish("count", float(count), writer, fields, least=2)


def _pose_product(run: QuizRun, node: int, paths: Sequence[Sequence[Wire]], choice: int) -> PosedQuestion | None:
    owner = run.owner
    path = paths[choice]
    factors = [run.local(wire) for wire in path]
    slopes = [factor for factor in factors if factor is not None]
    if len(path) < 2 or len(slopes) < len(path):
        return None
    answer = math.prod(slopes)
    shown = " × ".join([show_number(slopes[0]), *map(show_factor, slopes[1:])])
    hidden = " × ".join([*([show_number(slopes[0]), *map(show_factor, slopes[1:])][:-1]), "□"])
    names = " → ".join([owner.title(node), *(owner.title(wire[0]) for wire in path)])
    fields = {"path": names, "count": str(len(path)), "node": owner.title(node), **show_fields(sum=answer)}
    writer = MistakeWriter("paths", fields)
    writer.add("forward-for-local", math.prod(run.value(wire[0]) for wire in path))
    writer.add("path-sum", sum(slopes))
    for k, slope in enumerate(slopes):
        if slope not in (0.0, 1.0):
            writer.add("path-short", math.prod(slopes[:k] + slopes[k + 1 :]))
    if len(paths) > 1:
        writer.add("gradient-for-path", run.upstream(node))
    writer.add("value-for-gradient", run.value(node), {**show_fields(own=run.value(node)), "source": owner.title(node)})
    writer.add_sign(answer, slopes)
    given = give_values(run, owner.nodes)
    posed = _finish("paths", answer, writer, {**fields, "factors": hidden}, given=given)
    return replace(posed, step=fill_sentence(WORDS["step.paths"], {**fields, "factors": shown}))


def _list_paths(owner: QuizCircuit) -> Iterator[Target]:
    for node in owner.leaves:
        paths = find_paths(owner, node)
        if not owner.active[node] or paths is None:
            continue
        if len(paths) > 1 and any(len(owner.readers[wire[0]]) > 1 or len(paths) > 2 for path in paths for wire in path):
            yield node, -1
        yield from ((node, k) for k in range(len(paths)) if len(paths[k]) > 1)


def list_targets(owner: QuizCircuit, kind: str) -> list[Target]:
    """Return what a question of a kind can be about in a circuit."""
    if kind == "value":
        return [(node,) for node in owner.functions if not is_condition(owner, node)]
    if kind in ("local", "send"):
        return list(owner.wires)
    if kind == "gather":
        return [(node,) for node in owner.nodes if len(owner.readers[node]) > 1]
    if kind == "leaf":
        return [(node,) for node in owner.leaves if owner.readers[node]]
    if kind == "nudge":
        return [(node, k) for node in owner.leaves if owner.readers[node] for k in range(len(NUDGES))]
    return list(_list_paths(owner))


def is_condition(owner: QuizCircuit, node: int) -> bool:
    """Return whether a node is a condition, which no question asks for."""
    return not owner.circuit.type_of(node).differentiable


POSERS: Final[dict[str, Poser]] = {
    "value": pose_value,
    "local": pose_local,
    "send": pose_send,
    "gather": pose_gather,
    "leaf": pose_leaf,
    "nudge": pose_nudge,
    "paths": pose_paths,
}
"""The kinds with a number as answer."""


def _group_targets(owner: QuizCircuit, kind: str) -> list[list[Target]]:
    """Return the targets by op or form: each has its turn, so that the only tanh is not lost among many sums."""
    groups: dict[str, list[Target]] = {}
    for target in list_targets(owner, kind):
        name = owner.ops[target[0]].name if kind in ("value", "local", "send") else ""
        if kind == "paths":
            name = "count" if target[1] < 0 else "product"
        groups.setdefault(name, []).append(target)
    return list(groups.values())


class NumericGenerator:
    """Draws questions of one numeric kind, and remembers which mistakes are the same by nature at a target."""

    def __init__(self, owner: QuizCircuit, kind: str) -> None:
        self.owner = owner
        self.kind = kind
        self.groups = _group_targets(owner, kind)
        self._pose = POSERS[kind]
        self._others: dict[Target, list[dict[str, float]]] = {}

    def draw_question(self, seed: int, number: int, fixed: Mapping[str, float], code: int) -> Question:
        """Draw leaves and targets until a question is clear; raise `NoQuestionError` if none is."""
        draws = Draws(seed, code, number)
        turns = self._order_groups(Draws(seed, code))
        lenient = all(name in fixed for name in self.owner.inputs)
        for attempt in range(MAX_ATTEMPTS if self.groups else 0):
            run = self.owner.run(self.owner.draw_leaves(draws, attempt, fixed))
            group = turns[number % len(turns)] if attempt < TURN_ATTEMPTS else draws.choose(turns)
            target = draws.choose(group)
            posed = self._pose(run, target) if run.is_fit(READABLE_ATTEMPTS if lenient else attempt) else None
            if posed is None or (attempt < TURN_ATTEMPTS and not lenient and self._hides_mistake(posed, target)):
                continue
            mistakes = self.filter_mistakes(posed, target, lenient=lenient)
            if mistakes is not None:
                return Question(
                    kind=self.kind,
                    form=posed.form,
                    seed=seed,
                    number=number,
                    target=target,
                    prompt=posed.prompt,
                    leaves=run.leaves,
                    given=posed.given,
                    answer=posed.answer,
                    accepted=posed.accepted,
                    options=(),
                    mistakes=mistakes,
                    neutral=posed.neutral,
                    hint=posed.hint,
                    step=posed.step,
                    why=posed.why,
                )
        raise no_question_error(self.owner, self.kind, fixed)

    def _order_groups(self, draws: Draws) -> list[list[Target]]:
        """Return the groups in a drawn order; ops that pass a gradient on unchanged show few mistakes and come last."""
        ops = self.owner.ops
        plain = [group for group in self.groups if ops[group[0][0]].pattern is Pattern.DISTRIBUTE]
        return [*draws.shuffle([group for group in self.groups if group not in plain]), *draws.shuffle(plain)]

    def filter_mistakes(
        self, posed: PosedQuestion, target: Target, *, lenient: bool = False
    ) -> tuple[PredictedMistake, ...] | None:
        """Return the mistakes that a question can name; None if the question is not clear.

        Where no leaf can be drawn, two mistakes may give one number by chance: `lenient`. That number then gets the
        neutral hint.
        """
        size = abs(posed.answer / posed.scale)
        if not SMALLEST < size < LARGEST or abs(size - 1.0) < 1e-9 or len(posed.prompt) > MAX_PROMPT:
            return None
        apart = [k for k, found in enumerate(posed.mistakes) if _is_nameable(found.number, posed)]
        names = _number_keys(posed.mistakes)
        kept: dict[int, PredictedMistake] = {}
        unclear: set[int] = set()
        for k in apart:
            mistake = posed.mistakes[k]
            rival = next((other for other, one in kept.items() if _is_rival(one, mistake)), None)
            if rival is None:
                kept[k] = mistake
            elif self._is_same_by_nature(target, names[rival], names[k]):
                also = dict.fromkeys([*kept[rival].also, mistake.key])
                kept[rival] = replace(kept[rival], also=tuple(key for key in also if key != kept[rival].key))
            elif lenient:
                kept[k] = mistake
                unclear |= {rival, k}
            else:
                return None
        found = tuple(kept.values())
        is_told = any(tells_number(mistake.text, posed.answer) for mistake in found)
        return None if len(found) - len(unclear) < posed.least or is_told else found

    def _hides_mistake(self, posed: PosedQuestion, target: Target) -> bool:
        """Return whether a mistake gives the right answer by chance, so that nobody could see it."""
        names = _number_keys(posed.mistakes)
        hits = [k for k, mistake in enumerate(posed.mistakes) if collides(mistake.number, posed.answer)]
        return any(not self._is_same_by_nature(target, ANSWER_KEY, names[k]) for k in hits)

    def _is_same_by_nature(self, target: Target, one: str, two: str) -> bool:
        """Return whether two mistakes give one number at other leaves too."""
        others = self._others.get(target)
        if others is None:
            others = self._others[target] = self._predict_elsewhere(target)
        known = [numbers for numbers in others if one in numbers and two in numbers]
        return len(known) == COMPARED_RUNS and all(collides(numbers[one], numbers[two]) for numbers in known)

    def _predict_elsewhere(self, target: Target) -> list[dict[str, float]]:
        draws = Draws(1, *target)
        found: list[dict[str, float]] = []
        for attempt in range(40):
            run = self.owner.run(self.owner.draw_leaves(draws, attempt, {}))
            posed = self._pose(run, target) if run.is_clean else None
            if posed is not None:
                numbers = [mistake.number for mistake in posed.mistakes]
                named = dict(zip(_number_keys(posed.mistakes), numbers, strict=True))
                found.append({ANSWER_KEY: posed.answer, **named})
            if len(found) == COMPARED_RUNS:
                break
        return found


def _is_nameable(number: float, posed: PosedQuestion) -> bool:
    """Return whether a predicted number can be told from the answer, and has digits to tell it by."""
    is_tiny = 0.0 < abs(number / posed.scale) < TINY
    return not is_tiny and not any(collides(number, answer) for answer in posed.accepted)


def _is_rival(one: PredictedMistake, two: PredictedMistake) -> bool:
    is_same = one.key == two.key and one.text == two.text
    return not is_same and collides(one.number, two.number)


def _number_keys(mistakes: Sequence[PredictedMistake]) -> list[str]:
    """Return the keys of predictions, counted where a key comes twice: `other-op 0`, `other-op 1`."""
    counts: dict[str, int] = {}
    names = []
    for mistake in mistakes:
        counts[mistake.key] = counts.get(mistake.key, -1) + 1
        names.append(f"{mistake.key} {counts[mistake.key]}")
    return names


def tells_number(text: str, number: float) -> bool:
    """Return whether a text has a number in it as the picture shows it.

    >>> tells_number("2.5 came back from the output.", 2.5), tells_number("12.5 is the value of 2.5·m.", 2.5)
    (True, False)
    """
    return show_number(number) in _NUMBER.findall(text)


KIND_NEEDS: Final[dict[str, str]] = {
    "value": "an op",
    "local": "an op of an input",
    "send": "an op of an input",
    "gather": "a value that is used twice",
    "leaf": "an input that the output depends on",
    "nudge": "an input that the output depends on",
    "paths": "an input with two or more ops on its way to the output",
    "order": "ops that wait for each other",
    "router": "an op that selects, such as maximum or relu",
    "structure": "two or more ops, or a value that is used twice",
    "claim": "an input",
    "spot": "an op of an input",
    "debug": "an op that breaks at some numbers, such as log or /, with another op behind it",
    "rule": "an op with local derivatives that can be measured",
}
"""What a circuit must have for a question of a kind."""
MAX_REASONS: Final = 3
"""Maximum number of reasons why there is no question."""


def may_offer(owner: QuizCircuit, kind: str) -> bool:
    """Return whether a circuit has what a kind asks about, whatever the numbers are."""
    if kind in POSERS:
        return bool(list_targets(owner, kind))
    if kind == "router":
        return any(owner.ops[node].pattern is Pattern.ROUTE and owner.active[node] for node in owner.functions)
    if kind in ("order", "structure", "debug"):
        return len(owner.functions) > 1 or (kind == "structure" and any(fan > 1 for fan in owner.fan.values()))
    return bool(owner.wires)


def no_question_error(owner: QuizCircuit, kind: str, fixed: Mapping[str, float]) -> NoQuestionError:
    """Return the error for a circuit that offers no clear question of a kind."""
    return NoQuestionError(
        f"the circuit of {owner.circuit.output} offers no clear question of kind {kind!r}: "
        + describe_lack(owner, [kind], fixed)
    )


def describe_lack(owner: QuizCircuit, kinds: Sequence[str], fixed: Mapping[str, float]) -> str:
    """Return what a circuit that offers no question of some kinds would need, and what to try."""
    if not owner.leaves:
        return "it has no input, and questions are about gradients; write a formula with a name in it, such as x"
    needs = [f"{kind} needs {KIND_NEEDS[kind]}" for kind in kinds if not may_offer(owner, kind)]
    unclear = [
        f"no numbers were found at which {kind} has one clear answer" for kind in kinds if may_offer(owner, kind)
    ]
    reasons = "; ".join([*unclear, *needs][:MAX_REASONS])
    fewer = "fix fewer leaves, or " if fixed and unclear else ""
    return f"{reasons}; {fewer}take another circuit or kind"


MAX_CHOICES: Final = 4
MAX_FIRED: Final = 3
"""Maximum number of nodes that have fired before the one that is asked for."""
MAX_CHOICE_ATTEMPTS: Final = 80
STRUCTURE_FORMS: Final = ("structure.count", "structure.where", "structure.outputs")
SPOT_MISTAKES: Final = (
    "upstream-only",
    "own-not-other",
    "same-to-all",
    "forward-for-local",
    "activation-input",
    "sign",
    "twice",
)


class ChoiceDraft:
    """A question with choices while it is put together."""

    def __init__(self, kind: str, form: str, target: Target, fields: dict[str, str]) -> None:
        self.kind = kind
        self.form = form
        self.target = target
        self.fields = fields
        self.options: list[ChoiceOption] = []
        self.shown: tuple[ShownGradient, ...] = ()
        self.follow_up: ChoiceDraft | None = None
        self.leaves: dict[str, float] = {}
        self.given: tuple[str, ...] = ()
        self.why = f"why.{form}" if f"why.{form}" in WORDS else f"why.{kind}"

    def add_right(self, text: str, target: Target = (), detail: str = "") -> None:
        """Add a choice that is right."""
        self.options.append(ChoiceOption(text, True, target=target, detail=detail))

    def add_wrong(
        self, text: str, key: str, reply: str = "", fields: dict[str, str] | None = None, target: Target = ()
    ) -> None:
        """Add a choice that shows a mistake; `reply` names its text if that is not the mistake's own."""
        named = {**self.fields, **(fields or {})}
        title, usual = describe_mistake(self.kind, key, named) if not reply else (TITLES[key], "")
        told = fill_sentence(TEXTS[reply], named) if reply else usual
        self.options.append(ChoiceOption(text, False, key, title, told, target=target))

    def finish(self, draws: Draws, seed: int, number: int, *, mix: bool = True) -> Question | None:
        """Return the question; None if it is not clear."""
        options = draws.shuffle(self.options) if mix else self.options
        texts = {option.text for option in options}
        rights = [option for option in options if option.right]
        wrongs = [option for option in options if not option.right]
        prompt = fill_sentence(PROMPTS[self.form], self.fields)
        if len(texts) < len(options) or not rights or not wrongs or len(prompt) > MAX_PROMPT:
            return None
        follow_up = None if self.follow_up is None else self.follow_up.finish(draws, seed, number)
        if self.follow_up is not None and follow_up is None:
            return None
        return Question(
            kind=self.kind,
            form=self.form,
            seed=seed,
            number=number,
            target=self.target,
            prompt=prompt,
            leaves=self.leaves,
            given=self.given,
            answer=None,
            accepted=(),
            options=tuple(options),
            mistakes=(),
            neutral=WORDS[f"hint.{self.kind}"],
            hint=self._take_one_away(wrongs),
            step=fill_sentence(WORDS["step.choice"], {"choice": rights[0].text}),
            why=fill_sentence(WORDS[self.why], self.fields),
            shown=self.shown,
            follow_up=follow_up,
        )

    def _take_one_away(self, wrongs: Sequence[ChoiceOption]) -> str:
        """Return the second hint: a choice that is not right, unless that would leave only one."""
        if len(self.options) < 3:
            return WORDS[f"hint.{self.kind}"]
        return fill_sentence(WORDS["hint.choice"], {"choice": wrongs[0].text})


def draft_order(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask which node may fire next, forward or backward."""
    owner = run.owner
    backward = draws.below(2) == 1
    nodes = [node for node in owner.functions if not backward or owner.active[node]]
    needs = {node: _list_needs(owner, node, backward) for node in nodes}
    fired: list[int] = []
    for _ in range(draws.below(min(len(nodes) - 1, MAX_FIRED) + 1) if nodes else 0):
        fired.append(draws.choose(_find_ready(needs, fired)))
    ready = _find_ready(needs, fired)
    waiting = [node for node in nodes if node not in fired and node not in ready]
    if not ready or not waiting:
        return None
    names = join_words([owner.title(node) for node in fired]) if fired else ""
    state = WORDS["nothing-fired" if not fired else "one-fired" if len(fired) == 1 else "many-fired"]
    direction = "backward" if backward else "forward"
    fields = {"state": fill_sentence(state, {"nodes": names})}
    draft = ChoiceDraft("order", f"order.{direction}", tuple(fired), fields)
    shown = draws.shuffle(ready)[:2]
    for node in shown:
        draft.add_right(owner.title(node), (node,))
    for node in draws.shuffle(waiting)[: MAX_CHOICES - len(shown)]:
        key = _name_haste(needs[node], fired, backward)
        draft.add_wrong(owner.title(node), key, fields={"node": owner.title(node)}, target=(node,))
    return draft


def _list_needs(owner: QuizCircuit, node: int, backward: bool) -> list[int]:
    """Return the nodes that have to fire before a node."""
    if backward:
        return [wire[0] for wire in owner.readers[node]]
    return [source for source in owner.sources[node] if owner.sources[source]]


def _find_ready(needs: Mapping[int, Sequence[int]], fired: Sequence[int]) -> list[int]:
    return [node for node, wanted in needs.items() if node not in fired and all(k in fired for k in wanted)]


def _name_haste(needs: Sequence[int], fired: Sequence[int], backward: bool) -> str:
    if not backward:
        return "not-ready"
    return "recursing" if any(node in fired for node in needs) else "not-reached"


def draft_router(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask which input of a node that selects receives nothing."""
    owner = run.owner
    routers = [node for node in owner.functions if has_pattern(run, node, Pattern.ROUTE) and owner.active[node]]
    if not routers:
        return None
    node = draws.choose(routers)
    wires = [wire for wire in owner.wires if wire[0] == node]
    fields = {"node": owner.title(node), "source": owner.title(owner.source_of(wires[0]))}
    if len(wires) == 1:
        return _draft_gate(run, wires[0], fields)
    draft = ChoiceDraft("router", "router", (node,), fields)
    blocked = [wire for wire in wires if run.local(wire) is None]
    for wire in wires:
        title = owner.title(owner.source_of(wire))
        if wire in blocked:
            draft.add_right(title, wire)
        else:
            draft.add_wrong(title, "router-none", "router-loser" if blocked else "router-none", target=wire)
    if blocked:
        draft.add_wrong(WORDS["choice.none"], "router-both")
    else:
        draft.add_right(WORDS["choice.none"])
    if len(blocked) < len(wires):
        draft.add_wrong(WORDS["choice.all"], "router-none")
    return draft


def _draft_gate(run: QuizRun, wire: Wire, fields: dict[str, str]) -> ChoiceDraft | None:
    """Ask what the only input of a node such as relu receives."""
    local = run.local(wire)
    if local not in (None, 1.0):
        return None
    draft = ChoiceDraft("router", "router.one", wire, fields)
    for choice, is_right in (("nothing", local is None), ("everything", local is not None), ("half", False)):
        text = WORDS[f"choice.{choice}"]
        if is_right:
            draft.add_right(text)
        elif local is None:
            draft.add_wrong(text, "router-both")
        else:
            draft.add_wrong(text, "router-none")
    return draft


def draft_structure(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask for splitters and output wires, in turn."""
    owner = run.owner
    form = STRUCTURE_FORMS[turn % len(STRUCTURE_FORMS)]
    forks = [node for node in owner.nodes if owner.fan[node] > 1 and (owner.active[node] or owner.sources[node])]
    if form == "structure.where":
        return _draft_where(owner, forks, draws)
    nodes = forks if form == "structure.count" else [node for node in owner.functions if node != owner.root]
    if not nodes:
        return None
    node = draws.choose(nodes)
    count = owner.fan[node]
    fields = {"node": owner.title(node), "count": str(count)}
    draft = ChoiceDraft("structure", form, (node,), fields)
    if form == "structure.count":
        draft.add_right(str(count - 1))
        draft.add_wrong(str(count), "splitter-per-reader")
        draft.add_wrong("0", "no-splitter")
        return draft
    draft.add_right("1")
    for wires in sorted({count, len(owner.sources[node]), 2} - {1, 0}):
        draft.add_wrong(str(wires), "vector-output")
    return draft


def _draft_where(owner: QuizCircuit, forks: Sequence[int], draws: Draws) -> ChoiceDraft | None:
    others = [node for node in owner.nodes if owner.fan[node] == 1 and (owner.active[node] or owner.sources[node])]
    if not forks or not others:
        return None
    draft = ChoiceDraft("structure", "structure.where", (), {})
    for node in draws.shuffle(forks)[:1]:
        draft.add_right(owner.title(node), (node,))
    for node in draws.shuffle(others)[: MAX_CHOICES - 1]:
        draft.add_wrong(owner.title(node), "splitter-without-need", fields={"node": owner.title(node)}, target=(node,))
    return draft


def draft_claim(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Make a claim that holds or does not."""
    claims = [*_claim_of_nodes(run), *_claim_of_leaves(run)]
    if not claims:
        return None
    # The name is drawn first, so that a circuit with many wires does not get claims of one sort alone.
    name = draws.choose(list(dict.fromkeys(claim[0] for claim in claims)))
    _, holds, key, target, fields = draws.choose([claim for claim in claims if claim[0] == name])
    text = fill_sentence(CLAIMS[name], fields)
    draft = ChoiceDraft("claim", "claim", target, {**fields, "claim": text})
    draft.why = f"why.claim.{name}"
    fallback = "claim-true" if holds else "claim-false"
    has_text = f"claim.{key}" in TEXTS or key in ("vector-output", "graph-vs-circuit")
    for choice, is_right in (("choice.true", holds), ("choice.false", not holds)):
        if is_right:
            draft.add_right(WORDS[choice])
        else:
            draft.add_wrong(WORDS[choice], key if has_text else fallback)
    return draft


Claim = tuple[str, bool, str, Target, dict[str, str]]
"""A claim: its sentence, whether it holds, the mistake of who gets it wrong, the place, and the fields."""


def _claim_of_nodes(run: QuizRun) -> list[Claim]:
    owner = run.owner
    claims: list[Claim] = []
    for node in owner.nodes:
        fields = {"node": owner.title(node), "count": str(len(owner.readers[node]))}
        if len(owner.readers[node]) > 1:
            claims += [("sum", True, "branch-last", (node,), fields), ("last", False, "branch-last", (node,), fields)]
            if owner.sources[node]:
                claims += [("early", False, "recursing", (node,), fields), ("wait", True, "recursing", (node,), fields)]
                claims += [("many-outputs", False, "vector-output", (node,), fields)]
                claims += [("one-output", True, "vector-output", (node,), fields)]
        claims += _claim_of_pair(run, node, fields)
    return claims


def _claim_of_pair(run: QuizRun, node: int, fields: dict[str, str]) -> list[Claim]:
    wires = [(node, slot) for slot, source in enumerate(run.owner.sources[node]) if run.owner.active[source]]
    if len(wires) != 2 or run.owner.source_of(wires[0]) == run.owner.source_of(wires[1]):
        return []
    claims: list[Claim] = []
    one, two = (run.sent(wire) for wire in wires)
    # Numbers that are nearly the same would make neither answer right.
    if one is not None and two is not None and (_is_close(one, two) or not collides(one, two)):
        sent = {**fields, "one": show_number(one), "two": show_number(two)}
        claims.append(("same", _is_close(one, two), "same-to-all", (node,), sent))
    if has_pattern(run, node, Pattern.SWAP):
        claims += [("swap", True, "own-not-other", (node,), fields), ("own", False, "own-not-other", (node,), fields)]
    return claims


def _claim_of_leaves(run: QuizRun) -> list[Claim]:
    owner = run.owner
    claims: list[Claim] = []
    for node in owner.leaves:
        fields = {"source": owner.title(node), "output": owner.title(owner.root)}
        gradient = run.upstream(node)
        if abs(gradient) > 1e-3:
            moves = WORDS["moves.rises" if gradient > 0 else "moves.falls"]
            moved = {**fields, "gradient": show_number(gradient), "moves": moves}
            claims += [
                ("rises", gradient > 0, "sign", (node,), moved),
                ("falls", gradient < 0, "sign", (node,), moved),
            ]
            claims.append(("clear", True, "twice", (node,), fields))
        claims.append(("curve", False, "graph-vs-circuit", (node,), fields))
    return claims


def draft_spot(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Show gradients of which one comes from a mistaken rule; the rest follow honestly."""
    owner = run.owner
    inner = [wire for wire in owner.wires if owner.sources[owner.source_of(wire)]]
    wire = draws.choose(inner or owner.wires)
    slopes = {each: run.local(each) for each in owner.wires}
    mutants = _list_mutants(run, wire)
    if not mutants or not SMALLEST < abs(run.sent(wire) or 0.0) < LARGEST:
        return None
    key = draws.choose(list(mutants))
    slopes[wire] = mutants[key]
    grads = sweep_with_mistake(run, slopes.get)
    sent = {each: grads[each[0]] * slope for each, slope in slopes.items() if each[0] in grads and slope is not None}
    if any(number and not SMALLEST < abs(number) < LARGEST for number in sent.values()):
        return None
    draft = ChoiceDraft("spot", "spot", wire, {})
    draft.shown = tuple(ShownGradient(each, _label_wire(run, each), number) for each, number in sent.items())
    draft.add_right(_write_wire(run, wire, sent[wire]), wire)
    others = [each for each in sent if each != wire]
    inherited = [each for each in others if not _is_close(grads[each[0]], run.upstream(each[0]))]
    honest = [each for each in others if each not in inherited]
    for each in [*draws.shuffle(inherited)[:2], *draws.shuffle(honest)][: MAX_CHOICES - 1]:
        _add_honest_wire(draft, run, each, grads[each[0]], sent[each], each in inherited)
    draft.follow_up = _name_spotted(run, wire, key, mutants)
    return draft


def _give_all_values(run: QuizRun) -> tuple[str, ...]:
    return tuple(give_values(run, run.owner.nodes))


def _is_close(one: float, two: float) -> bool:
    return abs(one - two) <= 1e-9 * max(abs(one), abs(two))


def _list_mutants(run: QuizRun, wire: Wire) -> dict[str, float]:
    """Return the mistaken factors of a wire that can be told from the right one and from each other."""
    right = run.local(wire)
    upstream = run.upstream(wire[0])
    if right is None or not upstream:
        return {}
    found: dict[str, float] = {}
    for key in SPOT_MISTAKES:
        factor = {"sign": -right, "twice": 2.0 * right}.get(key)
        factor = mutate_local(run, key, wire) if factor is None else factor
        rivals = [upstream * right, *(upstream * other for other in found.values())]
        if factor and math.isfinite(factor) and not any(collides(upstream * factor, rival) for rival in rivals):
            found[key] = factor
    return found


def _label_wire(run: QuizRun, wire: Wire) -> str:
    fields = {"node": run.describe_reader(wire), "source": run.owner.title(run.owner.source_of(wire))}
    return fill_sentence(WORDS["label.wire"], fields)


def _write_wire(run: QuizRun, wire: Wire, sent: float) -> str:
    fields = {"reader": run.describe_reader(wire), "source": run.owner.title(run.owner.source_of(wire))}
    return fill_sentence(WORDS["choice.wire"], {**fields, "sent": show_number(sent)})


def _add_honest_wire(
    draft: ChoiceDraft, run: QuizRun, wire: Wire, upstream: float, sent: float, inherits: bool
) -> None:
    fields = {"reader": run.describe_reader(wire), "source": run.owner.title(run.owner.source_of(wire))}
    fields |= show_fields(sent=sent, upstream=upstream, local=run.local(wire) or 0.0)
    reply = "spot.inherits" if inherits else "spot.right-rule"
    draft.add_wrong(_write_wire(run, wire, sent), "inherits" if inherits else "neutral", reply, fields, wire)


def _name_spotted(run: QuizRun, wire: Wire, key: str, mutants: Mapping[str, float]) -> ChoiceDraft:
    """Return the draft of the question that follows: which mistake it was."""
    fields = {"node": run.owner.title(wire[0]), "source": run.owner.title(run.owner.source_of(wire))}
    draft = ChoiceDraft("spot", "spot.name", wire, fields)
    draft.leaves = run.leaves
    draft.given = _give_all_values(run)
    draft.add_right(WORDS[f"spot.{key}"], detail=WORDS[f"spot.{key}.detail"])
    for other in [name for name in mutants if name != key][: MAX_CHOICES - 1]:
        draft.add_wrong(WORDS[f"spot.{other}"], "neutral", "spot.name")
        draft.options[-1] = replace(draft.options[-1], detail=WORDS[f"spot.{other}.detail"])
    return draft


def draft_debug(run: QuizRun, draws: Draws, turn: int) -> ChoiceDraft | None:
    """Ask where the first number that is not finite comes from."""
    owner = run.owner
    lost = [node for node in owner.functions if not is_condition(owner, node) and not math.isfinite(run.value(node))]
    births = [node for node in lost if all(math.isfinite(run.value(source)) for source in owner.sources[node])]
    if len(births) != 1 or len(lost) < 2 or owner.root not in lost:
        return None
    draft = ChoiceDraft("debug", "debug", (births[0],), {"output": owner.title(owner.root)})
    draft.add_right(owner.title(births[0]), (births[0],))
    heirs = draws.shuffle([node for node in lost if node != births[0]])[:2]
    finite = draws.shuffle([node for node in owner.functions if node not in lost])
    for node in [*heirs, *finite][: MAX_CHOICES - 1]:
        key = "inherits" if node in heirs else "finite"
        draft.add_wrong(owner.title(node), key, fields={"node": owner.title(node)}, target=(node,))
    return draft


DRAFTERS: Final[dict[str, Callable[[QuizRun, Draws, int], ChoiceDraft | None]]] = {
    "order": draft_order,
    "router": draft_router,
    "structure": draft_structure,
    "claim": draft_claim,
    "spot": draft_spot,
    "debug": draft_debug,
}
"""The kinds with choices; the last argument counts questions, for kinds whose forms take turns."""


def _draw_breaking_leaves(owner: QuizCircuit, draws: Draws, fixed: Mapping[str, float]) -> dict[str, float]:
    leaves = {}
    for name in owner.inputs:
        value = draws.choose(BREAKING_LEAVES) if draws.below(2) else (1 + draws.below(30)) / 10
        leaves[name] = fixed.get(name, value)
    return leaves


def draw_choice_question(
    owner: QuizCircuit, kind: str, seed: int, number: int, fixed: Mapping[str, float], code: int
) -> Question:
    """Draw until a question with choices is clear; raise `NoQuestionError` if none is."""
    draws = Draws(seed, code, number)
    if owner.wires and may_offer(owner, kind):
        for attempt in range(MAX_CHOICE_ATTEMPTS):
            if kind == "debug":
                leaves = _draw_breaking_leaves(owner, draws, fixed)
            else:
                leaves = owner.draw_leaves(draws, attempt, fixed)
            run = owner.run(leaves)
            if kind != "debug" and not run.is_fit(attempt):
                continue
            draft = DRAFTERS[kind](run, draws, seed + number + attempt)
            if draft is None:
                continue
            draft.leaves = run.leaves
            draft.given = () if kind in ("order", "structure") else _give_all_values(run)
            question = draft.finish(draws, seed, number, mix=kind != "claim")
            if question is not None:
                return question
    raise no_question_error(owner, kind, fixed)
