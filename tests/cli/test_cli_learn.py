"""`wiregrad learn`, as a teacher runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from wiregrad.cli import main

LESSON = """key: sums
number: 1
title: Sums
about: what a sum sends
minutes: 2
mistakes: upstream-only
summary: A sum sends on what arrives.

## A sum distributes

Every input of `f` receives {grad f}.

```circuit
formula: f = a + b
leaves: a=2 b=-3
about: Leaves `a` and `b` go into a sum.
```

```draw
formula: f = a + b
```
"""
SET = {"title": "Splitters add", "formula": "y = x*x + x", "kinds": ["gather"], "leaves": {"x": 3}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a question set, a key and a graded site."""
    monkeypatch.chdir(tmp_path)
    Path("set.json").write_text(json.dumps(SET), encoding="utf-8")
    Path("own.md").write_text(LESSON, encoding="utf-8")
    Path("broken.md").write_text("## A title without a head", encoding="utf-8")
    assert main(["learn", "--new-key", "class.key"]) == 0
    assert main(["learn", "--export", "site", "set.json", "--graded", "--key", "class.key"]) == 0
    return tmp_path


def write_answers(name: str, answer: str) -> str:
    page = Path("site/01-splitters-add.html").read_text(encoding="utf-8")
    block = re.search(r'id="wiregrad-data">([^<]*)<', page)
    assert block is not None
    sheet: dict[str, Any] = json.loads(block[1])["sheet"]
    parts = {"set": sheet["set"], "signature": sheet["signature"], "learner": name, "answers": [answer]}
    path = Path(f"{name}.answers.json")
    path.write_text(json.dumps({"document": "answers", "schema": 1, **parts}), encoding="utf-8")
    return str(path)


def test_answers_are_graded_and_a_gradebook_shows_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = []
    for name, answer in [("Amara", "7"), ("Bao", "6")]:
        capsys.readouterr()
        assert main(["learn", "--grade", write_answers(name, answer), "--key", "class.key"]) == 0
        results.append(f"{name}.json")
        Path(results[-1]).write_text(capsys.readouterr().out, encoding="utf-8")
    code = main(["learn", "--gradebook", *results, "--key", "class.key"])
    table = capsys.readouterr().out

    assert code == 0
    assert re.search(r"Amara +Splitters add +1 of 1\n", table)
    assert "Bao" in table
    Path(results[1]).write_text(Path(results[1]).read_text().replace('"right": 0', '"right": 1'), encoding="utf-8")
    assert main(["learn", "--gradebook", *results, "--key", "class.key"]) == 1
    assert "! Bao.json was changed" in capsys.readouterr().out


def test_the_answers_of_a_class_are_graded_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("in").mkdir()
    for name, answer in [("Amara", "7"), ("Bao", "6")]:
        Path(write_answers(name, answer)).rename(f"in/{name}.json")
    assert main(["learn", "--grade", "in", "--key", "class.key", "-o", "class.json"]) == 0
    capsys.readouterr()
    assert main(["learn", "--gradebook", "class.json", "--key", "class.key"]) == 0
    assert re.search(r"Amara +Splitters add +1 of 1\nBao +Splitters add +0 of 1", capsys.readouterr().out)
    assert main(["learn", "--gradebook", "class.json", "--key", "class.key", "-o", "class.csv"]) == 0
    table = Path("class.csv").read_bytes().decode().split("\r\n")
    assert [line.split(",")[:2] for line in table[:-1]] == [
        ["learner", "Splitters add (of 1)"],
        ["Amara", "1"],
        ["Bao", "0"],
    ]
    Path("in/Cleo.json").write_text("{", encoding="utf-8")
    code = main(["learn", "--grade", "in", "--key", "class.key"])
    shown = capsys.readouterr()

    assert code == 1
    assert [results["learner"] for results in json.loads(shown.out)] == ["Amara", "Bao"]
    assert re.search(r"not graded: in.Cleo\.json is no JSON", shown.err)


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        (["--export", "x", "--grade"], 2, "--export and --grade cannot be combined"),
        (["set.json", "--list"], 2, "files whose names end in .md; got set.json"),
        (["set.json", "-o", "q.html"], 2, "wiregrad learn --export DIR set.json writes the pages"),
        (["own.md", "own.md", "--list"], 3, "another lesson has the key sums already"),
        (["absent.md", "--list"], 3, "cannot read absent.md"),
        (["broken.md", "--list"], 3, "broken.md"),
        (["--export", "x", "--graded"], 2, "--graded needs --key"),
        (["--export", "x", "absent.json"], 3, "cannot read absent.json"),
        (["--grade", "--key", "class.key"], 2, "--grade needs files of answers, or a folder"),
        (["--grade", "set.json", "--key", "class.key"], 3, "set.json holds a question set; wanted answers"),
        (["--grade", "set.json", "--key", "set.json"], 3, "is no key"),
        (["--gradebook", "set.json"], 2, "--gradebook needs --key"),
        (["--gradebook", "--key", "class.key"], 2, "needs files of results"),
        (["--gradebook", "set.json", "--key", "class.key"], 3, "set.json holds a question set; wanted results"),
        (["--new-key", "class.key"], 3, "exists already"),
        (
            ["own.md", "-o", "lessons.pdf"],
            2,
            "wanted a file that ends in .html or .htm; got lessons.pdf; a browser prints",
        ),
        (["--gradebook", "set.json", "--key", "class.key", "-o", "c.xlsx"], 2, ".html, .htm or .csv; got c.xlsx"),
        (["--grade", "Ann.answers.json", "--key", "class.key", "-o", "c.csv"], 2, "ends in .json; got c.csv"),
    ],
)
def test_a_wrong_use_is_explained(
    folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], code: int, part: str
) -> None:
    write_answers("Ann", "7")
    capsys.readouterr()
    assert main(["learn", *args]) == code
    message = capsys.readouterr().err
    assert part in message
    assert "Traceback" not in message


def test_without_files_the_course_and_the_worked_examples_are_exported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["learn", "--export", "free", "--title", "Class 11b"]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]

    assert names[:4] == ["index.html", "lessons.html", "01-expression.html", "02-fan-out.html"]
    assert "<h1>Class 11b</h1>" in Path("free/index.html").read_text(encoding="utf-8")


def test_lessons_of_ones_own_are_listed_and_exported_beside_question_sets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["learn", "own.md", "--list"]) == 0
    assert "Sums: what a sum sends" in capsys.readouterr().out
    assert main(["learn", "--export", "own", "own.md", "set.json"]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]

    assert names == ["index.html", "lessons.html", "01-splitters-add.html"]
    assert "A sum distributes" in Path("own/lessons.html").read_text(encoding="utf-8")
    assert "A formula is a circuit" not in Path("own/lessons.html").read_text(encoding="utf-8")


def test_the_title_heads_the_page_of_a_lesson(folder: Path) -> None:
    assert main(["learn", "own.md", "-o", "own.html", "--title", "Class 11b"]) == 0
    assert "<title>Class 11b" in Path("own.html").read_text(encoding="utf-8")
    assert main(["learn", "--export", "own", "own.md"]) == 0

    assert '<a href="lessons.html">Sums</a>' in Path("own/index.html").read_text(encoding="utf-8")
