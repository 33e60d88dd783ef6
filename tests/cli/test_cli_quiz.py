"""`wiregrad quiz` and `wiregrad learn`, as a person and as a grader runs them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from wiregrad.cli import main

FAN_OUT = ["quiz", "y = x*x + x", "x=3", "--kind", "gather"]


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main([*args])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_a_quiz_is_answered_line_by_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    type_lines(monkeypatch, "1", "hint", "what?", "7")
    code, out, err = run(capsys, *FAN_OUT, "--count", "1")

    assert code == 0
    assert out.splitlines()[1:4] == ["What gradient lands at x?", "  x = 3", "  x·x = 9"]
    assert "Not yet: one branch only\n1 is what comes back from y" in out
    assert "3 parts: 3 + □" in out
    assert "Not an answer yet" in out
    assert "Right, after one wrong answer and one hint\nexactly 7. Why: " in out
    assert "1 of 1 right, 0 at the first try" in out
    assert "hint, next, quit" in err


@pytest.mark.parametrize("lines", [["quit"], [], ["next", "quit"]])
def test_a_quiz_can_be_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    type_lines(monkeypatch, *lines)

    assert run(capsys, "quiz", "--preset", "neuron")[0] == 0


def test_questions_come_as_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "quiz", "--preset", "neuron", "--seed", "7", "--json")
    document = json.loads(out)
    answer = document["answer"]

    assert code == 0
    assert (document["schema"], document["question"]) == (1, "quiz")
    assert [*answer] == ["output", "seed", "fixed", "questions", "skipped"]
    assert (answer["output"], answer["seed"], answer["skipped"]) == ("o", 7, ["gather", "router", "debug"])
    assert [question["kind"] for question in answer["questions"]] == (
        "value local send leaf nudge paths order structure claim spot".split()
    )
    assert run(capsys, "quiz", "--preset", "neuron", "--json")[1] == out


def test_the_keys_of_a_question_are_stable(capsys: pytest.CaptureFixture[str]) -> None:
    question = json.loads(run(capsys, *FAN_OUT, "--json")[1])["answer"]["questions"][0]

    assert [*question] == (
        "id kind form number target prompt leaves given answer accepted options mistakes neutral hint step why shown "
        "follow_up"
    ).split()
    assert question["answer"] == 7.0


@pytest.mark.parametrize(
    ("answer", "code", "key"), [("7", 0, "right"), ("1", 1, "branch-last"), ("?", 1, "unreadable")]
)
def test_answers_are_graded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, answer: str, code: int, key: str
) -> None:
    (tmp_path / "answers.txt").write_text(f"{answer}\n")
    shown = run(capsys, *FAN_OUT, "--answers", str(tmp_path / "answers.txt"))
    verdict: dict[str, Any] = json.loads(shown[1])["answer"]["questions"][0]["verdict"]

    assert (shown[0], verdict["key"]) == (code, key)


def test_answers_come_from_stdin_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    type_lines(monkeypatch, "7")

    assert run(capsys, *FAN_OUT, "--answers", "-")[0] == 0


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["quiz"], 2, "--preset NAME"),
        (["quiz", "--preset", "neurn"], 2, "did you mean neuron?"),
        (["quiz", "a*b", "--sed", "3"], 2, "there is no option --sed; did you mean --seed?"),
        (["quiz", "a*b", "c=1"], 2, "there is no input called 'c'"),
        (["quiz", "a*", "--json"], 3, "the formula stops"),
        (["quiz", "a + b", "--kind", "gather", "--json"], 3, "no clear question"),
        (["quiz", "a*b", "--answers", "nowhere.txt"], 3, "cannot read nowhere.txt"),
        (["quiz", "a*b", "--seed", "-1"], 2, "seed"),
    ],
)
def test_what_cannot_be_asked_is_said(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, message: str
) -> None:
    shown = run(capsys, *args)

    assert shown[0] == code
    assert message in shown[2]


def test_the_lessons_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "learn", "--list")

    assert code == 0
    assert out.splitlines()[0] == " 1  A formula is a circuit: nodes, wires, splitters (4 min)"


def test_the_lessons_are_written_as_one_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "learn", "-o", str(tmp_path / "learn.html"))
    page = (tmp_path / "learn.html").read_text("utf-8")

    assert (code, "wrote" in err) == (0, True)
    assert page.startswith("<!doctype html>")
    assert "connect-src 'none'" in page


@pytest.mark.parametrize("args", [("y = x*x + x", "x=3"), ("--preset", "neuron")])
def test_a_quiz_is_written_as_one_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, args: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, "quiz", *args, "-o", str(tmp_path / "quiz.html"))
    page = (tmp_path / "quiz.html").read_text("utf-8")

    assert (code, "wrote" in err) == (0, True)
    assert '"graded":false' in page.replace(" ", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [(["a*b", "--json"], "--json and --answers cannot be combined"), (["math.py:sin"], "math.py")],
)
def test_a_page_that_cannot_be_written_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, args: list[str], message: str
) -> None:
    code, _, err = run(capsys, "quiz", *args, "-o", str(tmp_path / "quiz.html"))

    assert code in (2, 3)
    assert message in err
    assert not (tmp_path / "quiz.html").exists()
