"""A whole quiz: the ladder, kinds that come back, results, and learners with fixed misconceptions."""

from __future__ import annotations

import html
import re

import pytest

import wiregrad as wg
from wiregrad.errors import InputError, NoQuestionError
from wiregrad.frontends.formula import parse_formula
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz import KINDS, QuestionSource, draw_question
from wiregrad.learn.quiz_run import Draws, show_number
from wiregrad.learn.sentences import name_mistake

NEURON = "n = x1*w1 + x2*w2 + b; o = tanh(n)"


def answer_rightly(question: Question) -> object:
    if question.options:
        return next(k for k, option in enumerate(question.options, 1) if option.right)
    return question.answer


def test_a_quiz_of_right_answers_asks_every_kind_once() -> None:
    quiz = wg.Quiz(wg.circuit("m = maximum(a, b); u = m*c; y = u*u + log(a)"), seed=3, kinds=KINDS[:-1])
    asked = []
    while (question := quiz.next()) is not None:
        asked.append(question.form)
        assert quiz.check(answer_rightly(question)).title == "Right"

    kinds = [record.question.kind for record in quiz.records if record.question.form != "spot.name"]
    assert kinds == [kind for kind in KINDS[:-1] if kind not in quiz.results.skipped_kinds]
    assert asked.index("spot.name") == asked.index("spot") + 1
    assert quiz.results.mistakes == {}


def test_a_missed_kind_comes_back_until_it_is_answered_twice_in_a_row() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send", "leaf"])
    kinds = []
    for turn in range(6):
        question = quiz.next()
        assert question is not None
        kinds.append((question.kind, question.number))
        if turn == 0:
            quiz.check(question.mistakes[0].number)
        if turn == 2:
            quiz.hint()
        quiz.check(question.answer)

    assert kinds == [("send", 0), ("send", 1), ("send", 2), ("send", 3), ("send", 4), ("leaf", 0)]
    assert quiz.next() is None
    assert (quiz.results.open_kinds, quiz.results.cleared_kinds) == ((), ("send",))


def test_a_kind_that_stays_missed_comes_back_six_times() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send"])
    count = 0
    while quiz.next() is not None:
        quiz.check(123456)
        count += 1

    assert count == 7
    assert quiz.results.open_kinds == ("send",)


def test_the_ladder_names_then_shows_a_factor_then_plays_the_step() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send"])
    question = quiz.next()
    assert question is not None
    wrong = [quiz.check(question.mistakes[0].number) for _ in range(3)]

    assert [verdict.hint for verdict in wrong] == ["", question.hint, question.step]
    assert "□" in question.hint
    assert re.search(r" = \S+ to ", question.step)
    assert quiz.check(question.answer).title == "Right, after three wrong answers"


def test_hints_can_be_asked_for_before_answering() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send"])
    question = quiz.next()
    assert question is not None

    assert [quiz.hint() for _ in range(3)] == [question.neutral, question.hint, question.step]


@pytest.mark.parametrize(
    ("steps", "title"),
    [
        ("", "Right"),
        ("h", "Right, after one hint"),
        ("hhhhh", "Right, after three hints"),
        ("w", "Right, after one wrong answer"),
        ("wh", "Right, after one wrong answer and one hint"),
        ("hw", "Right, after one wrong answer and one hint"),
        ("wwwww", "Right, after 5 wrong answers"),
    ],
)
def test_the_title_of_a_right_answer_counts_wrong_answers_and_hints_apart(steps: str, title: str) -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send"])
    question = quiz.next()
    assert question is not None
    for step in steps:
        if step == "h":
            quiz.hint()
        else:
            quiz.check(question.mistakes[0].number)

    assert quiz.check(question.answer).title == title


def test_a_nudge_tells_what_the_gradient_predicts_and_what_really_happens() -> None:
    quiz = wg.Quiz("y = x**4", leaves={"x": 2.5}, kinds=["nudge"])
    question = quiz.next()
    assert question is not None
    text = quiz.check(question.answer).text
    change = (2.5 + float(question.prompt.split("moves by ")[1].split(". ")[0].replace("−", "-"))) ** 4 - 2.5**4
    shown = re.search(r"the gradient predicts (\S+); y itself changes by (\S+)\. ", text)

    assert shown is not None
    assert float(shown[1].replace("−", "-")) == question.answer
    assert float(shown[2].replace("−", "-")) == pytest.approx(change, rel=1e-5)


def test_a_nudge_of_a_linear_circuit_is_exact() -> None:
    quiz = wg.Quiz("f = (a + b) * c", kinds=["nudge"])
    question = quiz.next()
    assert question is not None

    assert quiz.check(question.answer).text.startswith("exactly ")


def test_what_cannot_be_read_costs_no_attempt() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send"])
    question = quiz.next()
    assert question is not None
    quiz.check("what?")

    assert quiz.check(question.answer).title == "Right"
    assert quiz.records[0].answers == [str(question.answer)]


def test_answers_after_the_right_one_change_nothing() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send"])
    question = quiz.next()
    assert question is not None
    quiz.check(question.answer)
    quiz.check(99)

    assert quiz.results.right == 1
    assert quiz.results.mistakes == {}


def test_the_results_are_readable() -> None:
    quiz = wg.Quiz(NEURON, seed=7, kinds=["send", "leaf"])
    question = quiz.next()
    assert question is not None
    quiz.check(question.mistakes[0].number)
    quiz.check(question.answer)

    assert str(quiz.results).splitlines() == [
        "1 of 1 right, 0 at the first try",
        f"  send      right, after one wrong answer  {question.prompt}",
        f"mistakes: {name_mistake(question.mistakes[0].key)} (1)",
    ]
    assert repr(quiz) == "Quiz(o, seed 7, 2 kinds, 1 of 1 right)"


def test_a_right_answer_shows_the_exact_value_and_why() -> None:
    quiz = wg.Quiz("y = x*x + x", seed=7, kinds=["gather"], leaves={"x": 3})
    quiz.next()

    assert str(quiz.check(7)) == "Right\nexactly 7. Why: x went to 3 places, and what comes back is added."


@pytest.mark.parametrize(
    ("kinds", "message"),
    [(["sned"], "did you mean send"), ([], "needs a kind of question"), (["foo"], "the kinds are value, local")],
)
def test_unknown_kinds_are_refused(kinds: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        wg.Quiz(NEURON, kinds=kinds)


def test_a_quiz_needs_a_circuit() -> None:
    with pytest.raises(InputError, match="needs a circuit or a formula; got int"):
        wg.Quiz(3)  # type: ignore[arg-type]


def test_checking_before_asking_says_what_to_call() -> None:
    with pytest.raises(InputError, match=re.escape("quiz.next()")):
        wg.Quiz(NEURON).check(1)


def test_a_circuit_without_questions_says_so() -> None:
    with pytest.raises(NoQuestionError, match="no clear question"):
        wg.Quiz("y = -x", kinds=["send", "gather"]).next()


MISCONCEPTIONS = {
    "forward-for-local": "send",
    "upstream-only": "send",
    "local-only": "send",
    "own-not-other": "send",
    "activation-input": "send",
    "same-to-all": "local",
    "sent-for-local": "local",
    "branch-first": "gather",
    "branch-last": "gather",
    "branch-product": "gather",
    "branch-mean": "gather",
    "recursing": "leaf",
    "twice": "leaf",
    "gradient-for-change": "nudge",
    "new-output": "nudge",
    "path-sum": "paths",
    "gradient-for-path": "paths",
    "sign": "value",
    "other-op": "value",
}
"""What a simulated learner believes, and the kind of question that shows it."""
CIRCUIT = "u = a*b; v = tanh(u) - c; w = v*u; y = w + v/c"


@pytest.mark.parametrize("learner", [*range(5), *(pytest.param(k, marks=pytest.mark.full) for k in range(5, 100))])
def test_a_fixed_misconception_is_named_within_three_questions_of_its_kind(learner: int) -> None:
    keys = Draws(learner, 99).shuffle(sorted(MISCONCEPTIONS))
    second = next(key for key in keys if MISCONCEPTIONS[key] != MISCONCEPTIONS[keys[0]])
    beliefs = [keys[0], second][: 1 + learner % 2]
    quiz = wg.Quiz(CIRCUIT, seed=learner, kinds=[MISCONCEPTIONS[belief] for belief in beliefs])
    named: dict[str, list[str]] = {belief: [] for belief in beliefs}
    while (question := quiz.next()) is not None:
        belief = next(belief for belief in beliefs if MISCONCEPTIONS[belief] == question.kind)
        mistake = next((m for m in question.mistakes if belief in (m.key, *m.also)), None)
        verdict = quiz.check(show_number(question.answer or 0.0) if mistake is None else show_number(mistake.number))
        named[belief].append(belief if mistake is not None and verdict.key == mistake.key else verdict.key)
        quiz.hint()

    assert [belief for belief in beliefs if belief not in named[belief][:3]] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_shows_the_question_and_its_picture_but_not_the_answer(kind: str) -> None:
    formula = "m = maximum(a, b); y = m*a + tanh(m)*c" if kind != "debug" else "y = log(a) / b"
    question = wg.Quiz(formula, seed=3, kinds=[kind]).next()
    assert question is not None
    bundle = question._repr_mimebundle_()
    texts = re.findall(r">([^<>]+)<", bundle["text/html"].partition("<svg")[2])

    assert bundle["text/plain"] == str(question)
    assert html.escape(question.prompt) in bundle["text/html"]
    if question.answer is not None and show_number(question.answer) not in str(question):
        assert show_number(question.answer) not in [text.replace("-", "−") for text in texts]
    assert (not {"?", "×?"}.isdisjoint(texts)) == (kind in ("value", "local", "send", "gather", "leaf"))


def test_a_notebook_shows_results_as_a_table() -> None:
    quiz = wg.Quiz("y = x*x + x", seed=7, kinds=["gather"])
    quiz.next()
    quiz.check("-0,4")
    bundle = quiz.results._repr_mimebundle_()

    assert bundle["text/plain"] == str(quiz.results)
    assert "<td>What gradient lands at x?</td><td>open</td>" in bundle["text/html"]
    assert "mistakes: one branch only (1)" in bundle["text/html"]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("formula", ["y = x*x", "h = tanh(x); y = h*a + h", "y = a*tanh(x) + b", "y = a*x + sin(x)"])
def test_what_one_of_several_readers_sends_is_asked_on_its_wire(formula: str, number: int) -> None:
    """A question mark in the place of the sum would ask for another number."""
    source = QuestionSource(parse_formula(formula), 7)
    question = source.draw("send", number)
    sender = source.owner.source_of((question.target[0], question.target[1]))
    is_summed = len(source.owner.readers[sender]) > 1
    picture = draw_question(source.owner, question)

    assert ("gradient sent back ?" in picture) == is_summed
    assert (", gradient ?" in picture) != is_summed
