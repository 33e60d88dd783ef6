"""The texts of the lessons: numbers of the engine alone, plain language, figures in words; the format of a lesson."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from wiregrad.errors import FileFormatError
from wiregrad.learn.lessons import (
    MISTAKES,
    Lesson,
    QuestionScreen,
    TextScreen,
    build_course_data,
    check_build,
    check_questions,
    fill_placeholders,
    load_course,
    parse_lesson,
    read_lesson_files,
    render_course,
)
from wiregrad.learn.sentences import NAMELESS, name_met_mistake

COURSE = {lesson.key: lesson for lesson in load_course()}
MAX_GRADE = 9.0
"""The highest school year, after Flesch and Kincaid, that a lesson may ask for."""
NAME = re.compile(r"`[^`]+`")
LESSON = """key: sums
number: 1
title: Sums
about: what a sum does
minutes: 2
summary: A sum hands on what arrives.

## A sum

The sum is {value f}.

```circuit
formula: f = a + b
leaves: a=2 b=3
about: Two leaves go into a sum.
```

```questions
formula: p = a * b; f = p * c
kinds: send
```
"""


def texts_of(lesson: Lesson) -> Iterator[str]:
    """Yield what a learner reads, placeholders as they are written."""
    yield from (lesson.title, lesson.about, lesson.summary)
    for screen in lesson.screens:
        if isinstance(screen, TextScreen):
            yield screen.title
            yield from screen.body
            if screen.figure:
                yield screen.figure.about
            if screen.guess:
                yield screen.guess.ask


def count_syllables(word: str) -> int:
    """Count groups of vowels; a silent e at the end is none."""
    groups = re.findall(r"[aeiouy]+", word.lower())
    silent = word.lower().endswith("e") and not word.lower().endswith("le") and len(groups) > 1
    return max(1, len(groups) - silent)


def grade_of(text: str) -> float:
    """Measure a text after Flesch and Kincaid; names, formulas and numbers are left out."""
    plain = re.sub(r"\{[^{}]*\}|[*>]", " ", NAME.sub(" ", text))
    sentences = [part for part in re.split(r"[.:?!]+", plain) if re.search(r"[a-z]{2}", part)]
    words = re.findall(r"[A-Za-z]{2,}", plain)
    return 0.39 * len(words) / len(sentences) + 11.8 * sum(map(count_syllables, words)) / len(words) - 15.59


def test_the_measure_tells_a_hard_text_from_an_easy_one() -> None:
    easy = "The cat sat on the mat. It was a good day."
    hard = "Notwithstanding computational difficulties, differentiation necessitates sophisticated representations."

    assert grade_of(easy) < MAX_GRADE / 3
    assert grade_of(hard) > 2 * MAX_GRADE


@pytest.mark.parametrize("key", COURSE)
def test_a_lesson_is_written_in_plain_language(key: str) -> None:
    assert grade_of(" . ".join(texts_of(COURSE[key]))) <= MAX_GRADE


@pytest.mark.parametrize("key", COURSE)
def test_every_number_of_a_lesson_comes_from_the_engine(key: str) -> None:
    by_hand = [
        (number, text)
        for text in texts_of(COURSE[key])
        for number in re.findall(r"\d[\d.]*", re.sub(r"\{[^{}]*\}", "", NAME.sub("", text)))
    ]
    bare = [name for text in texts_of(COURSE[key]) for name in NAME.findall(text) if not re.search(r"[a-zA-Z]", name)]

    assert by_hand == []
    assert bare == []


@pytest.mark.parametrize("key", [key for key in COURSE if key != "broken"])
def test_the_numbers_of_a_lesson_are_finite(key: str) -> None:
    for screen in COURSE[key].screens:
        if isinstance(screen, TextScreen) and screen.figure:
            filled = " ".join(fill_placeholders(part, screen.figure) for part in (*screen.body, screen.figure.about))

            assert re.findall("NaN|Inf", filled) == []


@pytest.mark.parametrize("key", COURSE)
def test_every_figure_has_a_text_equivalent(key: str) -> None:
    for screen in COURSE[key].screens:
        if isinstance(screen, TextScreen) and "code" not in (screen.widget or {}):
            about = screen.figure.about if screen.figure else (screen.widget or {}).get("about", "")

            assert len(about.split()) >= 5, screen.title


@pytest.mark.parametrize("key", COURSE)
def test_the_circuits_of_a_lesson_offer_its_questions(key: str) -> None:
    check_questions(COURSE[key])


@pytest.mark.parametrize("key", COURSE)
def test_a_lesson_has_questions_mistakes_and_a_summary(key: str) -> None:
    lesson = COURSE[key]

    assert any(isinstance(screen, QuestionScreen) for screen in lesson.screens)
    assert lesson.mistakes
    assert lesson.summary.endswith(".")


def test_lessons_are_numbered_in_their_order() -> None:
    numbers = [lesson.number for lesson in COURSE.values()]

    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{value f}", "{value g}", r"mine\.md, line 8: g is not in the circuit; it has a, b, f"),
        ("{value f}", "{worth f}", "wanted value, grad, local, send, count, nudge, predict or change in a placeholder"),
        ("{value f}", "{send a->f}", "no wire leads from f to a"),
        ("{value f}", "{", "a placeholder is"),
        ("a=2 b=3", "a=2", "the circuit needs a value for b"),
        ("a=2 b=3", "a=2 b=x", "wanted a number for b, as in b=2; got b=x"),
        ("a=2 b=3", "a=2 b=3 c=1", "c is no leaf of the circuit; its leaves: a, b$"),
        (
            "formula: f = a + b\n",
            "formula: f = a + sinn(b)\n",
            r"line 13: there is no function .*sinn.*, at column 9 of",
        ),
        ("formula: f = a + b\n", "formula: f = a + sinn(b)\n", r"\n    f = a \+ sinn\(b\)\n            \^$"),
        (
            "summary:",
            "mistakes: right\nsummary:",
            "right is no mistake; the mistakes are activation-input, .*wrong-op$",
        ),
        ("summary:", "mistakes: splitter-per-raeder\nsummary:", "no mistake; did you mean splitter-per-reader"),
        ("about: Two leaves go into a sum.", "", "the block circuit needs a line `about: ...`"),
        ("kinds: send", "kinds: sent", "wanted kinds out of value, local, send"),
        ("kinds: send", "kinds: send send", "each kind once"),
        ("minutes: 2", "minutes: two", "wanted a whole number as minutes; got 'two'"),
        ("summary: A sum hands on what arrives.", "", "needs a line `summary: ...`"),
        ("```questions", "```quiz", "wanted a block circuit"),
        ("The sum is", "word " * 71, "a text screen has at most 70 words"),
        ("kinds: send\n```", "kinds: send", "the block questions has no end"),
        ("formula: f = a + b", "formula: f = a +", "line 13: "),
        ("leaves: a=2 b=3", "leaf: a=2", "wanted one of formula, leaves, show, about and a colon"),
    ],
)
def test_a_lesson_that_cannot_be_read_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    assert old in LESSON

    with pytest.raises(FileFormatError, match=message):
        parse_lesson(LESSON.replace(old, new), "mine.md")


def test_a_circuit_without_a_clear_question_is_refused() -> None:
    lesson = parse_lesson(LESSON.replace("kinds: send", "kinds: gather"))

    with pytest.raises(FileFormatError, match=r"lesson sums: .*choose another circuit or kind"):
        check_questions(lesson)


def listing_of(key: str) -> str:
    """Return the program that the blocks of a lesson add up to, without its last one, which checks it."""
    widgets = [screen.widget for screen in COURSE[key].screens if isinstance(screen, TextScreen) and screen.widget]
    return "\n\n".join(widget["code"] for widget in widgets[:-1])


def build_value(*changes: tuple[str, str]) -> Any:
    """Run the program of lesson 14 with some changes, and return its class."""
    program = listing_of("build")
    for old, new in changes:
        assert old in program
        program = program.replace(old, new)
    names: dict[str, Any] = {}
    exec(program, names)
    return names["Value"]


def test_the_program_that_a_learner_builds_has_at_most_a_hundred_lines_and_is_complete() -> None:
    report = check_build(build_value())

    assert report.is_complete, report
    assert len(listing_of("build").splitlines()) <= 100
    assert str(report).endswith("Complete: this is where wg.Value begins.")


@pytest.mark.parametrize(
    ("old", "new", "part", "text"),
    [
        ("source.grad += sent", "source.grad = sent", "a value used twice", "one branch only"),
        ("(g * other.data, g * self.data)", "(g * self.data, g * other.data)", "a product goes back", "own input"),
        ("(g * other.data, g * self.data)", "(g, g)", "a product goes back", "that is what arrived"),
        ("lambda g: (g, g)", "lambda g: (g / 2, g / 2)", "a sum goes back", "Not yet"),
        ("1 - y * y", "1 - self.data * self.data", "a tanh goes back", "the input of tanh"),
        ("reversed(nodes)", "nodes", "a product goes back", "Not yet"),
        ("self.data + other.data", "self.data - other.data", "it computes forward", "1.5 × (−2) + 4 is 1; got -7.0"),
        ("self.grad = 0.0", "self.grad = None", "it holds a number", "should be 0; it is None"),
        ("def tanh", "def tan", "a tanh goes back", "raised AttributeError"),
    ],
)
def test_a_program_with_a_mistake_is_told_it_where_it_is(old: str, new: str, part: str, text: str) -> None:
    report = check_build(build_value((old, new)))
    wrong = next(each for each in report.parts if not each.right)

    assert wrong.title == part
    assert text in wrong.text


def test_the_catalogue_has_the_mistakes_of_the_course_and_no_verdicts_without_a_mistake() -> None:
    taught = {key for lesson in COURSE.values() for key in lesson.mistakes}

    assert taught <= {*MISTAKES}
    assert not NAMELESS & {*MISTAKES}
    assert all(name_met_mistake(key, "") for key in MISTAKES)


def test_lessons_with_one_key_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a.md", tmp_path / "b.md"]
    for path in paths:
        path.write_text(LESSON, encoding="utf-8")

    with pytest.raises(FileFormatError, match=r"b\.md: another lesson has the key sums already"):
        read_lesson_files(paths)


@pytest.mark.parametrize(
    ("lessons", "title", "wanted"),
    [
        (None, None, ("Learn backpropagation", "Backpropagation, seen from the inside")),
        (None, "11b", ("11b", "11b")),
        ([parse_lesson(LESSON)], None, ("Sums", "Sums")),
        ([parse_lesson(LESSON), *load_course()[:1]], None, ("Lessons", "Lessons")),
        ([parse_lesson(LESSON)], "11b", ("11b", "11b")),
    ],
)
def test_a_page_of_lessons_has_the_title_that_is_given(
    lessons: list[Lesson] | None, title: str | None, wanted: tuple[str, str]
) -> None:
    course = build_course_data(lessons, title)["course"]

    assert (course["title"], course["heading"]) == wanted
    assert f"<title>{wanted[0]}" in render_course(lessons, title)
