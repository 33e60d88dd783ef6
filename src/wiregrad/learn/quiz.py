"""A quiz: questions in turn, answers checked, hints, and what was learnt.

Every kind is asked once, or as often as is wanted. A kind that was missed comes back at once with other numbers, until
it is answered twice in a row at the first try and without a hint, at most six times. The n-th question of a kind
depends on the seed alone, so answers change which questions come, not what they say. The twin is
`web/src/learn/quiz.ts`.

At the end come the questions that ask for a backward rule in Python; a rule is compared with slopes measured at random
points. They belong to notebooks: the page has no Python, so they have no twin there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from typing import Any, Final

import numpy as np

from wiregrad.draw.layout.boxes import Picture, Reading, read_value
from wiregrad.draw.layout.figure import MAX_BAND_LENGTH
from wiregrad.draw.layout.picture import build_picture
from wiregrad.draw.svg import draw_svg
from wiregrad.draw.text import HTML_TYPE, TEXT_TYPE
from wiregrad.errors import InputError, NoQuestionError, short_repr, suggest_name
from wiregrad.frontends import parse_formula
from wiregrad.inspect.report import Report
from wiregrad.ir import CircuitGraph, Op, Pattern
from wiregrad.learn.questions import (
    DRAFTERS,
    POSERS,
    NumericGenerator,
    Question,
    describe_lack,
    draw_choice_question,
    no_question_error,
)
from wiregrad.learn.quiz_run import (
    EXPRESSION_TOLERANCE,
    LEAF_RANGES,
    Draws,
    QuizCircuit,
    Verdict,
    check_seed,
    evaluate_expression,
    judge_number,
    read_answer,
    refuse_answer,
    show_exactly,
    show_number,
    title_right_answer,
)
from wiregrad.learn.sentences import (
    NEUTRAL,
    PROMPTS,
    TEXTS,
    TITLES,
    WORDS,
    describe_mistake,
    fill_sentence,
    name_mistake,
)
from wiregrad.ops import Elementwise

KINDS: Final = (*POSERS, *DRAFTERS, "rule")
"""Every kind of question, in the order in which a quiz asks."""
WANTED_STREAK: Final = 2
"""How many right answers in a row clear a kind that was missed."""
MAX_RETURNS: Final = 6
"""How often a kind that was missed comes back."""
MAX_RUNG: Final = 3
SAME_CHANGE: Final = 1e-6
"""How little, relative to it, the output's change may differ from what the gradient predicts to be called equal."""
EXPRESSION_POINTS: Final = 5
"""At how many other points an expression of leaf names is compared with the local derivative."""


class QuestionSource:
    """Draws questions from one circuit: the n-th of a kind is the same for the same seed and fixed leaves."""

    def __init__(self, circuit: CircuitGraph, seed: int, leaves: Mapping[str, object] | None = None) -> None:
        self.owner = QuizCircuit(circuit)
        self.seed = check_seed(seed)
        self.fixed = self.owner.check_fixed(leaves)
        self._generators: dict[str, NumericGenerator] = {}

    def draw(self, kind: str, number: int) -> Question:
        """Draw the n-th question of a kind, counted from 0; raise `NoQuestionError` if there is no clear one."""
        code = KINDS.index(kind)
        if kind in POSERS:
            generator = self._generators.get(kind)
            if generator is None:
                generator = self._generators[kind] = NumericGenerator(self.owner, kind)
            return generator.draw_question(self.seed, number, self.fixed, code)
        draw: Callable[..., Question] = draw_rule_question if kind == "rule" else draw_choice_question
        return draw(self.owner, kind, self.seed, number, self.fixed, code)

    def no_question(self, kinds: Sequence[str], what: str = "") -> NoQuestionError:
        """Return the error for kinds of which there is no clear question; `what` names the circuit."""
        lack = describe_lack(self.owner, kinds, self.fixed)
        return NoQuestionError(
            f"{what or f'the circuit of {self.owner.circuit.output}'} offers no clear question: {lack}"
        )


ASKED: Final = Reading("?", signed=False)
"""What a picture shows where a number is asked for."""


def draw_question(owner: QuizCircuit, question: Question, *, down: bool = False, fold: int = MAX_BAND_LENGTH) -> str:
    """Return the picture of a question as SVG: the leaves, the numbers that are given, and the place that is asked.

    The picture is made from the circuit without a run, so that nothing else can be read from it.

    >>> source = QuestionSource(parse_formula("y = x*x + x"), 7)
    >>> draw_question(source.owner, source.draw("gather", 0)).startswith("<svg ")
    True
    """
    picture = build_picture(owner.circuit)
    boxes = []
    for box in picture.boxes:
        title = owner.titles.get(box.node, "")
        value: Reading | None = None
        if box.name in question.leaves:
            value = read_value(question.leaves[box.name])
        given = next((line for line in question.given if line.startswith(f"{title} = ")), None)
        if title and given is not None:
            value = _read_shown(given.removeprefix(f"{title} = "))
        arrived = fill_sentence(WORDS["given.arrives"], {"upstream": "", "node": title})
        sent = next((line for line in question.given if title and line.endswith(arrived)), None)
        grad = None if sent is None else _read_shown(sent.removesuffix(arrived))
        boxes.append(replace(box, value=value, grad=grad))
    asked = _mark_asked(owner, question, replace(picture, boxes=tuple(boxes), ran=True))
    return draw_svg(asked, down=down, legend=False, fold=fold)


def _read_shown(text: str) -> Reading:
    """Return the reading of a number that is given as text; what is no number has no size."""
    try:
        return read_value(float(text.replace("−", "-")))
    except ValueError:
        return Reading(text, signed=False)


def _mark_asked(owner: QuizCircuit, question: Question, picture: Picture) -> Picture:
    """Put a question mark where a number is asked for: at a value, at a gradient, or at a wire."""
    node = question.target[0] if question.target else -1
    if question.kind in ("local", "send"):
        reader, slot = question.target
        is_local = question.kind == "local"
        source = owner.source_of((reader, slot))
        # The gradient of a value with several readers is a sum: what one of them sends is asked on its wire.
        on_wire = is_local or len(owner.readers[source]) > 1
        boxes = [replace(box, grad=ASKED) if not on_wire and box.node == source else box for box in picture.boxes]
        mark = {"local": ASKED, "pill": True} if is_local else {"sent": ASKED}
        links = [
            replace(link, **mark) if on_wire and (link.reader, link.slot) == (reader, slot) else link
            for link in picture.links
        ]
        return replace(picture, links=tuple(links), boxes=tuple(boxes))
    if question.kind == "value":
        boxes = [replace(box, value=ASKED) if box.node == node else box for box in picture.boxes]
    elif question.kind in ("gather", "leaf"):
        boxes = [replace(box, grad=ASKED) if box.node == node else box for box in picture.boxes]
    else:
        return picture
    return replace(picture, boxes=tuple(boxes))


@dataclass
class QuestionRecord:
    """One question of a quiz and what was answered: texts, the keys of wrong answers, and the outcome.

    `rung` is how far up the ladder a learner is: wrong answers and hints that were asked for both lead up.
    """

    question: Question
    answers: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    hints: int = 0
    rung: int = 0
    right: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether it was answered at the first try, without a hint."""
        return self.right and self.rung == 0


@dataclass
class KindProgress:
    """How a learner does on one kind: right answers in a row, questions asked, whether it was missed."""

    asked: int = 0
    returns: int = 0
    streak: int = 0
    missed: bool = False


@dataclass(frozen=True, repr=False)
class QuizResults(Report):
    """What a quiz has shown so far."""

    records: tuple[QuestionRecord, ...]
    open_kinds: tuple[str, ...]
    cleared_kinds: tuple[str, ...]
    skipped_kinds: tuple[str, ...]

    @property
    def right(self) -> int:
        """How many questions were answered."""
        return sum(record.right for record in self.records)

    @property
    def mistakes(self) -> dict[str, int]:
        """The mistakes that were named, with how often."""
        counts: dict[str, int] = {}
        for record in self.records:
            for key in record.mistakes:
                counts[key] = counts.get(key, 0) + 1
        return counts

    def lines(self) -> Iterator[str]:
        """Return a summary, and a line for each question."""
        clean = sum(record.is_clean for record in self.records)
        yield f"{self.right} of {len(self.records)} right, {clean} at the first try"
        outcomes = [_describe_outcome(record) for record in self.records]
        width = max(map(len, outcomes), default=0)
        for record, outcome in zip(self.records, outcomes, strict=True):
            yield f"  {record.question.kind:<9} {outcome:<{width}}  {record.question.prompt}"
        if self.mistakes:
            yield self._describe_mistakes()
        if self.open_kinds:
            yield f"still open: {', '.join(self.open_kinds)}"

    def _describe_mistakes(self) -> str:
        """Return the names of the mistakes, as the feedback calls them, with how often each was made."""
        counts: dict[str, int] = {}
        for key, count in self.mistakes.items():
            name = name_mistake(key)
            counts[name] = counts.get(name, 0) + count
        return f"mistakes: {', '.join(f'{name} ({count})' for name, count in counts.items())}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {TEXT_TYPE: str(self), HTML_TYPE: self._write_table()}

    def _write_table(self) -> str:
        """Return the summary and a row for each question as HTML."""
        summary, *_ = self.lines()
        rows = [
            [str(k), record.question.kind, record.question.prompt, _describe_outcome(record)]
            for k, record in enumerate(self.records, 1)
        ]
        below = [self._describe_mistakes()] if self.mistakes else []
        below += [f"still open: {', '.join(self.open_kinds)}"] if self.open_kinds else []
        head = "".join(f"<th>{name}</th>" for name in ("", "kind", "question", "outcome"))
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<p>{escape(summary)}</p>{table}" + "".join(f"<p>{escape(line)}</p>" for line in below)


def _describe_outcome(record: QuestionRecord) -> str:
    if not record.right:
        return "open"
    return title_right_answer(len(record.mistakes), record.hints).lower()


def _tell_answer(owner: QuizCircuit, question: Question) -> str:
    """Return the sentence that tells the answer with all its digits; empty where a choice was asked for."""
    if question.answer is None:
        return ""
    change = question.accepted[-1]
    if abs(change - question.answer) <= SAME_CHANGE * abs(question.answer):
        return fill_sentence(WORDS["told.exactly"], {"exact": show_exactly(question.answer)})
    predicted, changed = (show_exactly(float(f"{number:.6g}")) for number in (question.answer, change))
    fields = {"predicted": predicted, "changed": changed, "output": owner.title(owner.root)}
    return fill_sentence(WORDS["told.nudge"], fields)


class Quiz:
    """Questions about a circuit, generated from a seed, that know which mistake was made.

    `circuit` is a circuit of numbers or a formula; `leaves` are inputs that keep their value, all others are drawn. A
    `QuestionSource` in its place brings its own seed and leaves. At least `each` questions of a kind are asked.

    >>> quiz = Quiz("y = x*x + x", seed=7, kinds=["gather"])
    >>> quiz.next()
    What gradient lands at x?
      x = −0.4
      x·x = 0.16
      y = −0.24
      1 arrives at x·x
      1 arrives at y
    >>> quiz.check("-0,4")
    Not yet: one branch only
    −0.4 is what comes back from the first input of x·x, and you have that one right. The value of x went to 3 places: \
add what comes back from all of them.
    >>> quiz.check("-0.4 - 0.4 + 1").title
    'Right, after one wrong answer'
    """

    def __init__(
        self,
        circuit: CircuitGraph | str | QuestionSource,
        seed: int = 7,
        *,
        leaves: Mapping[str, object] | None = None,
        kinds: Sequence[str] | None = None,
        each: int = 1,
    ) -> None:
        self.source = circuit if isinstance(circuit, QuestionSource) else _open_source(circuit, seed, leaves)
        self.kinds = check_kinds(kinds)
        self.each = each
        self.question: Question | None = None
        self.records: list[QuestionRecord] = []
        self.progress = {kind: KindProgress() for kind in self.kinds}
        self.skipped: list[str] = []
        self._place = 0
        self._is_settled = True

    def __repr__(self) -> str:
        results = self.results
        where = "not begun" if not self.records else f"{results.right} of {len(self.records)} right"
        output = self.source.owner.circuit.output
        return f"Quiz({output}, seed {self.source.seed}, {len(self.kinds)} kinds, {where})"

    def next(self) -> Question | None:
        """Return the next question, or None when every kind has been asked and no missed one is due."""
        self._settle()
        follow_up = self._find_follow_up()
        if follow_up is not None:
            return self._ask(follow_up)
        while self._place < len(self.kinds):
            kind = self.kinds[self._place]
            progress = self.progress[kind]
            if progress.asked >= self.each and not self._is_due(progress):
                self._place += 1
                continue
            try:
                question = self.source.draw(kind, progress.asked)
            except NoQuestionError:
                self._skip(kind)
                continue
            progress.returns += progress.missed
            progress.asked += 1
            return self._ask(question)
        if not self.records:
            raise self.source.no_question(self.kinds)
        self.question = None
        return None

    def _find_follow_up(self) -> Question | None:
        if not self.records or not self.records[-1].right or self.question is None:
            return None
        return self.question.follow_up

    def _is_due(self, progress: KindProgress) -> bool:
        """Return whether a kind comes back: it was missed, not cleared, and not asked too often."""
        return progress.missed and progress.streak < WANTED_STREAK and progress.returns < MAX_RETURNS

    def _skip(self, kind: str) -> None:
        if not self.progress[kind].asked:
            self.skipped.append(kind)
        self._place += 1

    def _ask(self, question: Question) -> Question:
        question = replace(question, picture=partial(draw_question, self.source.owner, question))
        self.question = question
        self.records.append(QuestionRecord(question))
        self._is_settled = False
        return question

    def _settle(self) -> None:
        """Count the question that was asked last, when the next one is wanted."""
        if self._is_settled:
            return
        record = self.records[-1]
        progress = self.progress[record.question.kind]
        progress.streak = progress.streak + 1 if record.is_clean else 0
        progress.missed = progress.missed or not record.is_clean
        self._is_settled = True

    def check(self, answer: object) -> Verdict:
        """Check an answer to the question that was asked last: text, a number, the number of a choice, or a rule."""
        question = self._current()
        record = self.records[-1]
        verdict = judge_answer(self.source, question, answer)
        if not verdict.costs or record.right:
            return verdict
        record.answers.append(str(answer))
        if verdict.right:
            record.right = True
            title = title_right_answer(len(record.mistakes), record.hints)
            return replace(verdict, title=title, text=f"{_tell_answer(self.source.owner, question)}{question.why}")
        record.rung = min(record.rung + 1, MAX_RUNG)
        record.mistakes.append(verdict.key)
        return replace(verdict, hint={2: question.hint, 3: question.step}.get(record.rung, ""))

    def hint(self) -> str:
        """Go one rung up the ladder: what to look at, then one factor of two, then the step itself."""
        question = self._current()
        record = self.records[-1]
        record.hints += record.rung < MAX_RUNG
        record.rung = min(record.rung + 1, MAX_RUNG)
        return {1: question.neutral, 2: question.hint, 3: question.step}[record.rung]

    def _current(self) -> Question:
        if self.question is None:
            raise InputError("no question is open; quiz.next() asks one")
        return self.question

    @property
    def results(self) -> QuizResults:
        """What was answered so far, which kinds are open, and which mistakes were named."""
        states = {kind: progress for kind, progress in self.progress.items() if progress.missed}
        cleared = [kind for kind, progress in states.items() if progress.streak >= WANTED_STREAK]
        still_open = [kind for kind in states if kind not in cleared]
        return QuizResults(tuple(self.records), tuple(still_open), tuple(cleared), tuple(self.skipped))


def _open_source(circuit: CircuitGraph | str, seed: int, leaves: Mapping[str, object] | None) -> QuestionSource:
    graph = parse_formula(circuit) if isinstance(circuit, str) else circuit
    if not isinstance(graph, CircuitGraph):
        raise InputError(f"a quiz needs a circuit or a formula; got {type(circuit).__name__}")
    return QuestionSource(graph, seed, leaves)


def check_kinds(kinds: Sequence[str] | None) -> tuple[str, ...]:
    """Return the kinds of a quiz; raise `InputError` for one that does not exist."""
    if kinds is None:
        return KINDS
    chosen = [kinds] if isinstance(kinds, str) else list(kinds)
    for kind in chosen:
        if kind not in KINDS:
            near = suggest_name(str(kind), KINDS)
            raise InputError(f"there is no kind of question called {kind!r}{near}; the kinds are {', '.join(KINDS)}")
    if not chosen:
        raise InputError(f"a quiz needs a kind of question; the kinds are {', '.join(KINDS)}")
    return tuple(dict.fromkeys(chosen))


def judge_answer(source: QuestionSource, question: Question, answer: object) -> Verdict:
    """Return the verdict on an answer to a question."""
    if question.kind == "rule":
        return check_rule(source.owner, question, answer)
    if question.options:
        return _judge_choice(question, answer)
    read = read_answer(answer, question.leaves if question.kind == "local" else None)
    if read.number is None:
        return refuse_answer(read.problem)
    verdict = judge_number(read.number, question.accepted, question.mistakes, question.neutral)
    if verdict.right and read.formula is not None and not _holds_elsewhere(source, question, read.formula):
        return Verdict(False, "only-here", TITLES["only-here"], TEXTS["only-here"], number=read.number)
    return verdict


def _judge_choice(question: Question, answer: object) -> Verdict:
    option = find_option(question, answer)
    if option is None:
        return refuse_answer(fill_sentence(TEXTS["unreadable-choice"], {"count": str(len(question.options))}))
    chosen = question.options[option]
    if chosen.right:
        return Verdict(True, "right", TITLES["right"], "", number=option + 1)
    return Verdict(False, chosen.key, chosen.title, chosen.reply, number=option + 1)


def find_option(question: Question, answer: object) -> int | None:
    """Return which choice an answer names, by its number from 1 or by its text; None if it names none."""
    text = str(answer).strip()
    texts = [option.text for option in question.options]
    if text.isascii() and text.isdigit() and 1 <= int(text) <= len(texts) and not isinstance(answer, bool):
        return int(text) - 1
    return texts.index(text) if text in texts else None


def _holds_elsewhere(source: QuestionSource, question: Question, formula: CircuitGraph) -> bool:
    """Return whether an expression of leaf names is the local derivative at other leaves too."""
    wire = (question.target[0], question.target[1])
    draws = Draws(question.seed, 0, question.number, *wire)
    for attempt in range(EXPRESSION_POINTS):
        run = source.owner.run(source.owner.draw_leaves(draws, attempt, {}))
        wanted = run.local(wire)
        given = evaluate_expression(formula, run.leaves)
        if wanted is None or not run.is_clean or given is None:
            continue
        if abs(given - wanted) > EXPRESSION_TOLERANCE * max(1.0, abs(wanted)):
            return False
    return True


RULE_POINTS: Final = 8
RULE_TOLERANCE: Final = 1e-5
KINK_DISTANCE: Final = 0.05
"""How far from a kink the points are, measured by the kink's own condition."""
STENCIL_STEP: Final = 1e-3


@dataclass(frozen=True)
class RulePoint:
    """One point at which a rule is tried: what arrives, the inputs, the output, and the measured slopes."""

    upstream: float
    inputs: tuple[float, ...]
    output: float
    slopes: tuple[float, ...]

    def describe(self, op: Op) -> str:
        """Write the point as `upstream = 2, a = 1.5`."""
        parts = [("upstream", self.upstream), *zip(op.inputs, self.inputs, strict=True)]
        return ", ".join(f"{name} = {show_number(x)}" for name, x in parts)


def draw_rule_question(
    owner: QuizCircuit, kind: str, seed: int, number: int, fixed: Mapping[str, float], code: int
) -> Question:
    """Draw an op of the circuit whose rule is to be written; raise `NoQuestionError` if there is none."""
    draws = Draws(seed, code, number)
    nodes = {owner.ops[node].name: node for node in owner.functions if _has_plain_rule(owner.ops[node])}
    nodes = {name: node for name, node in nodes.items() if len(measure_points(owner.ops[node], seed)) == RULE_POINTS}
    if not nodes:
        raise no_question_error(owner, kind, fixed)
    node = nodes[draws.choose(list(nodes))]
    op = owner.ops[node]
    fields = {"inputs": ", ".join(op.inputs), "node": op.expression(*op.inputs), "count": str(RULE_POINTS)}
    return Question(
        kind=kind,
        form="rule",
        seed=seed,
        number=number,
        target=(node,),
        prompt=fill_sentence(PROMPTS["rule"], fields),
        leaves={},
        given=(),
        answer=None,
        accepted=(),
        options=(),
        mistakes=(),
        neutral=NEUTRAL["rule"],
        hint=f"{op.name} {op.pattern.value}.",
        step=f"{op.name} {op.pattern.value}.",
        why=fill_sentence(WORDS["why.rule"], fields),
    )


def _has_plain_rule(op: Op) -> bool:
    is_elementwise = isinstance(op, Elementwise) and not op.takes_bool and not op.variadic and not op.per_call
    return is_elementwise and op.pattern is not Pattern.BLOCK and all(name.isidentifier() for name in op.inputs)


def measure_points(op: Op, seed: int) -> list[RulePoint]:
    """Measure the slopes of an op at random points, away from kinks and from where it is undefined."""
    draws = Draws(seed, len(op.name))
    points: list[RulePoint] = []
    for attempt in range(60):
        low, high, signed = LEAF_RANGES[attempt % len(LEAF_RANGES)]
        numbers = [(low + draws.below(high - low + 1)) / 10 + draws.below(90) / 1000 for _ in (0, *op.inputs)]
        signs = [-1.0 if signed and draws.below(2) else 1.0 for _ in numbers]
        upstream, *inputs = (number * sign for number, sign in zip(numbers, signs, strict=True))
        point = _measure_point(op, upstream, inputs)
        if point is not None:
            points.append(point)
        if len(points) == RULE_POINTS:
            break
    return points


def _measure_point(op: Op, upstream: float, inputs: Sequence[float]) -> RulePoint | None:
    xs = [np.float64(x) for x in inputs]
    with np.errstate(all="ignore"):
        if any(abs(float(kink.at(*xs))) < KINK_DISTANCE for kink in op.kinks):
            return None
        output = float(op.compute(*xs))
        slopes = tuple(_measure_slope(op, xs, slot) for slot in range(len(xs)))
    if not all(map(math.isfinite, (output, *slopes))):
        return None
    return RulePoint(upstream, tuple(map(float, xs)), output, slopes)


def _measure_slope(op: Op, xs: Sequence[Any], slot: int) -> float:
    """Return the slope for one input by a five-point stencil."""
    step = STENCIL_STEP * max(1.0, abs(float(xs[slot])))

    def shift(count: int) -> float:
        moved = [x + count * step if k == slot else x for k, x in enumerate(xs)]
        return float(op.compute(*moved))

    return (8.0 * (shift(1) - shift(-1)) - (shift(2) - shift(-2))) / (12.0 * step)


def check_rule(owner: QuizCircuit, question: Question, rule: object) -> Verdict:
    """Return the verdict on a rule: right, a named mistake, or the point at which it does not agree."""
    op = owner.ops[question.target[0]]
    inputs = ", ".join(op.inputs)
    if not callable(rule):
        return refuse_answer(f"A rule is a function: lambda upstream, {inputs}: ...")
    points = measure_points(op, question.seed)
    results: list[tuple[float, ...]] = []
    for point in points:
        result = _call_rule(rule, op, point)
        if isinstance(result, str):
            return refuse_answer(result)
        results.append(result)
    if _agrees(results, [tuple(point.upstream * slope for slope in point.slopes) for point in points]):
        return Verdict(True, "right", TITLES["right"], "")
    for key, numbers in _predict_rules(op, points):
        if _agrees(results, numbers):
            return Verdict(False, key, *describe_mistake("rule", key, {"op": op.name}))
    wanted = [tuple(point.upstream * slope for slope in point.slopes) for point in points]
    first = next(k for k in range(len(points)) if not _agrees(results[k : k + 1], wanted[k : k + 1]))
    text = fill_sentence(question.neutral, {"point": points[first].describe(op)})
    return Verdict(False, "neutral", TITLES["neutral"], text)


def _call_rule(rule: Callable[..., object], op: Op, point: RulePoint) -> tuple[float, ...] | str:
    """Return what a rule gives at a point as numbers, or what is the matter with it."""
    try:
        result = rule(point.upstream, *point.inputs)
    except Exception as error:
        name = f"{type(error).__name__}: {error}"
        return fill_sentence(WORDS["rule.raised"], {"error": name, "point": point.describe(op)})
    parts = result if isinstance(result, tuple | list | np.ndarray) else (result,)
    try:
        numbers = tuple(0.0 if part is None else float(part) for part in parts)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != len(op.inputs):
        return fill_sentence(WORDS["rule.count"], {"count": str(len(op.inputs)), "got": short_repr(result)})
    return numbers


def _agrees(results: Sequence[tuple[float, ...]], wanted: Sequence[tuple[float, ...]]) -> bool:
    return all(
        abs(x - y) <= RULE_TOLERANCE * max(1.0, abs(y))
        for got, right in zip(results, wanted, strict=True)
        for x, y in zip(got, right, strict=True)
    )


def _predict_rules(op: Op, points: Sequence[RulePoint]) -> Iterator[tuple[str, list[tuple[float, ...]]]]:
    """Return what mistaken rules would give at the points."""
    rules: dict[str, Callable[[RulePoint], tuple[float, ...]]] = {
        "upstream-only": lambda at: (at.upstream,) * len(at.slopes),
        "local-only": lambda at: at.slopes,
        "forward-for-local": lambda at: (at.upstream * at.output,) * len(at.slopes),
        "own-not-other": lambda at: tuple(at.upstream * x for x in at.inputs),
        "sign": lambda at: tuple(-at.upstream * slope for slope in at.slopes),
        "twice": lambda at: tuple(2.0 * at.upstream * slope for slope in at.slopes),
    }
    if op.pattern is not Pattern.SWAP:
        del rules["own-not-other"]
    for key, rule in rules.items():
        yield key, [rule(point) for point in points]
    for slot in range(len(op.inputs)):
        yield "same-to-all", [(at.upstream * at.slopes[slot],) * len(at.slopes) for at in points]
