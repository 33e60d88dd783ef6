"""Write what ties the questions of the page to Python: every sentence in TypeScript, and golden questions.

A golden entry is a formula, a seed, the questions that Python draws from them, the verdicts on a few answers to each,
and a quiz that is answered by a fixed rule. A second file has simulated learners who worked through the lessons: the
logs that the page would keep, and what they add up to. The same seeds give the same text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from wiregrad.errors import NoQuestionError
from wiregrad.frontends import parse_formula
from wiregrad.learn import sentences
from wiregrad.learn.drawing import EXERCISES
from wiregrad.learn.lessons import build_course_data, load_course
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz import KINDS, QuestionSource, Quiz, judge_answer
from wiregrad.learn.quiz_run import show_number

sys.path.insert(0, str(Path(__file__).parent))
from simulated_learners import enroll

ROOT = Path(__file__).parents[2]
SENTENCES_FILE = ROOT / "web/src/learn/sentences.generated.ts"
GOLDEN_FILE = ROOT / "web/golden/learn.json"
LESSONS_FILE = ROOT / "web/golden/lessons.json"
LEARNERS = (1, 15, 34, 38)
"""The learners of the golden file; a test marked `full` compares all hundred."""
SEEDS = 20
"""How many seeds the golden file has; a test marked `full` compares 500."""
PAGE_KINDS = tuple(kind for kind in KINDS if kind != "rule")
FORMULAS: tuple[tuple[str, dict[str, float]], ...] = (
    ("n = x1*w1 + x2*w2 + b; o = tanh(n)", {}),
    ("y = x*x + x", {}),
    ("e = a + b; f = e * c", {}),
    ("m = maximum(a, b); r = relu(c); y = 2*m + r*a", {}),
    ("s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)", {}),
    ("d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q", {}),
    ("u = a*b; v = sin(u) + u; f = v*u - a", {}),
    ("y = sigmoid(a*b - c)*b + a/c", {}),
    ("l = log(q); t = p * l; L = -t", {}),
    ("y = where(a > b, a*c, sqrt(b)) + (a - b)**2", {}),
    ("y = x*x + x", {"x": 3.0}),
    ("f = tanh(a*b + c)*(a - c)", {"b": -1.5}),
)
ANSWERS = ("0,25", "1/4", "foo", "x", "-3*10", "1e3", "tanh(0,88)", "", "2", "1 +")
"""What is typed as an answer to every question, besides the right answer and the mistakes."""


def write_sentences() -> str:
    """Return the sentences as a TypeScript module."""
    head = "// Written by tests/golden/write_learn.py from wiregrad.learn.sentences; `make derive` writes it again.\n"
    tables = ("TITLES", "TEXTS", "NEUTRAL", "PROMPTS", "CLAIMS", "WORDS")
    parts = [
        f"export const {name}: Readonly<Record<string, string>> = "
        + json.dumps(getattr(sentences, name), ensure_ascii=False, indent=2)
        + ";\n"
        for name in tables
    ]
    exercises = f"export const DRAWING_EXERCISES: readonly string[] = {json.dumps(EXERCISES, indent=2)};\n"
    return "\n".join([head, *parts, exercises])


def _encode_question(question: Question | None) -> dict[str, Any] | None:
    if question is None:
        return None
    entry = asdict(question)
    del entry["follow_up"], entry["picture"]
    return {**entry, "followUp": _encode_question(question.follow_up)}


def _try_answers(source: QuestionSource, question: Question) -> list[list[Any]]:
    """Return verdicts on answers: the right one, every mistake, and what is typed everywhere."""
    texts = [show_number(mistake.number) for mistake in question.mistakes]
    if question.answer is not None:
        texts += [show_number(question.answer), repr(question.answer * 1.05), repr(question.answer)]
    tried = dict.fromkeys([*texts, *(str(k + 1) for k in range(len(question.options))), *ANSWERS])
    entries: list[list[Any]] = []
    for text in tried:
        verdict = judge_answer(source, question, text)
        entries.append([text, verdict.right, verdict.key])
    return entries


def _play_quiz(source: QuestionSource, seed: int) -> list[list[Any]]:
    """Return what happens in a quiz in which every third answer is a mistake, and a hint is asked for now and then."""
    quiz = Quiz(source.owner.circuit, source.seed, leaves=source.fixed, kinds=PAGE_KINDS)
    log: list[list[Any]] = []
    for turn in range(40):
        question = quiz.next()
        if question is None:
            break
        lines = [question.prompt]
        if (turn + seed) % 3 == 0:
            lines.append(str(quiz.check(_choose_answer(question, right=False))))
        if (turn + seed) % 5 == 0:
            lines.append(quiz.hint())
        lines.append(str(quiz.check(_choose_answer(question, right=True))))
        log.append([question.kind, question.number, *lines])
    results = quiz.results
    return [*log, [list(results.open_kinds), list(results.cleared_kinds), list(results.skipped_kinds)]]


def _choose_answer(question: Question, *, right: bool) -> str:
    if question.options:
        return str(next(k for k, option in enumerate(question.options, 1) if option.right is right))
    assert question.answer is not None
    return repr(question.answer) if right else show_number(question.mistakes[0].number)


def draw_entry(seed: int) -> dict[str, Any]:
    """Return the golden entry of a seed."""
    formula, leaves = FORMULAS[seed % len(FORMULAS)]
    source = QuestionSource(parse_formula(formula), seed * 7919, leaves)
    questions: list[dict[str, Any]] = []
    absent: list[str] = []
    for kind in PAGE_KINDS:
        try:
            question = source.draw(kind, seed % 4)
        except NoQuestionError:
            absent.append(kind)
            continue
        questions.append({"question": _encode_question(question), "verdicts": _try_answers(source, question)})
    return {
        "formula": formula,
        "fixed": leaves,
        "seed": seed * 7919,
        "questions": questions,
        "absent": absent,
        "quiz": _play_quiz(source, seed) if seed < SEEDS else [],
    }


def write_document(seeds: Sequence[int]) -> str:
    """Return the golden file for some seeds; one entry stands on one line."""
    lines: Iterator[str] = (
        json.dumps(draw_entry(seed), ensure_ascii=False, separators=(",", ":"), allow_nan=False) for seed in seeds
    )
    return "[\n" + ",\n".join(lines) + "\n]\n"


def work_through_lessons(number: int) -> dict[str, Any]:
    """Return what the page would keep of a simulated learner, by lesson."""
    learner = enroll(number)
    lessons = {lesson.key: asdict(learner.work_through(lesson)) for lesson in load_course()}
    return {"learner": number, "beliefs": [belief.key for belief in learner.beliefs], "lessons": lessons}


def write_lessons(learners: Sequence[int]) -> str:
    """Return the lessons, and what some learners did in them; one learner stands on one line."""
    course = json.dumps(build_course_data()["course"], ensure_ascii=False, separators=(",", ":"))
    lines = [json.dumps(work_through_lessons(k), ensure_ascii=False, separators=(",", ":")) for k in learners]
    return f'{{"course":{course},\n"learners":[\n' + ",\n".join(lines) + "\n]}\n"


def main() -> None:
    """Write the files."""
    files = {
        SENTENCES_FILE: write_sentences(),
        GOLDEN_FILE: write_document(range(SEEDS)),
        LESSONS_FILE: write_lessons(LEARNERS),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"{path.relative_to(ROOT)}: {len(text):,} characters\n")


if __name__ == "__main__":
    main()
