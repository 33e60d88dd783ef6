"""For teachers: question sets as pages, keys, grading, and a gradebook that notices changed files."""

from __future__ import annotations

import base64
import json
import re
import stat
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from wiregrad.errors import FileAccessError, FileFormatError, InputError, NoQuestionError
from wiregrad.learn.lessons import load_course
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz_run import show_number
from wiregrad.learn.teaching import (
    QuestionSet,
    SitePage,
    build_pages,
    build_sheet,
    compute_signature,
    create_key,
    export_site,
    grade_answers,
    grade_files,
    is_signed_by,
    list_json_files,
    read_gradebook,
    read_json_file,
    read_key,
    read_question_file,
    read_question_set,
    read_results,
    render_gradebook,
)

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
from simulated_learners import MISCONCEPTIONS, SimulatedLearner

KEY = bytes(range(32))
SPLITTERS = QuestionSet("Splitters add", "y = x*x + x", seed=3, kinds=("gather", "structure", "leaf"))
NEURON = QuestionSet("A neuron", "n = x1*w1 + x2*w2 + b; o = tanh(n)", kinds=("send", "local"), count=5)


def read_sheet(page: SitePage) -> dict[str, Any]:
    """Return the data of a page."""
    block = re.search(r'id="wiregrad-data">([^<]*)<', page.html)
    assert block is not None
    data: dict[str, Any] = json.loads(block[1])["sheet"]
    return data


def answer_page(questions: QuestionSet, answers: list[str | None], learner: str = "Amara") -> dict[str, Any]:
    """Return the file that a graded page saves."""
    sheet = read_sheet(build_sheet(questions, "page.html", key=KEY))
    document = {"document": "answers", "schema": 1, "learner": learner, "answers": answers}
    return {**document, "set": sheet["set"], "signature": sheet["signature"]}


def answer_rightly(question: Question) -> str:
    if question.options:
        return str(next(k for k, option in enumerate(question.options, 1) if option.right))
    return repr(question.answer)


RIGHT = [answer_rightly(question) for question in SPLITTERS.draw()]


def test_a_page_has_the_questions_of_the_set_with_pictures() -> None:
    sheet = read_sheet(build_sheet(NEURON, "page.html"))
    asked = NEURON.draw()

    assert [question["prompt"] for question in sheet["questions"]] == [question.prompt for question in asked]
    assert len(asked) == 5
    assert "signature" not in sheet
    for question in sheet["questions"]:
        wide, tall = (read_picture(question[name]) for name in ("picture", "tall"))
        assert wide.startswith("<svg ")
        assert tall.startswith("<svg ")
        assert tall != wide


def read_picture(address: str) -> str:
    """Return the SVG of a picture that is part of a page."""
    return base64.b64decode(address.removeprefix("data:image/svg+xml;base64,")).decode("utf-8")


@pytest.mark.parametrize("questions", [SPLITTERS, NEURON], ids=lambda one: one.title)
def test_a_graded_page_holds_no_answers(questions: QuestionSet) -> None:
    sheet = read_sheet(build_sheet(questions, "page.html", key=KEY))

    assert sheet["graded"]
    for shown, question in zip(sheet["questions"], questions.draw(), strict=True):
        assert shown.keys() == {"kind", "prompt", "lines", "options", "picture", "tall", "asked", "paper"}
        for name in ("picture", "tall"):
            picture = read_picture(shown[name]).replace("-", "−")
            if question.answer is not None and show_number(question.answer) not in str(question):
                texts = re.findall(r">([^<>]+)<", re.sub(r"<style>.*?</style>", "", picture))
                assert show_number(question.answer) not in texts


def test_solutions_stand_on_a_page_for_teachers_alone() -> None:
    questions = QuestionSet("All", "n = x1*w1 + x2*w2 + b; o = tanh(n) * w1", seed=3, count=14)
    solutions = read_sheet(build_sheet(questions, "page.html", solutions=True))["solutions"]
    asked = questions.draw()

    assert len(solutions) == len(asked)
    for question, (answer, *steps) in zip(asked, solutions, strict=True):
        right = [option.text for option in question.options if option.right]
        assert answer == (" or ".join(right) or show_number(question.answer or 0.0))
        assert any(step.startswith("Why: ") for step in steps)
    leaf = next(k for k, question in enumerate(asked) if question.kind == "leaf")
    assert solutions[leaf][1].startswith("gradients: o 1, tanh(n) ")
    assert "solutions" not in read_sheet(build_sheet(questions, "page.html"))
    with pytest.raises(InputError, match="a graded page holds no answers"):
        build_sheet(questions, "page.html", key=KEY, solutions=True)


def test_right_answers_are_graded_as_right_and_the_results_are_signed() -> None:
    results = grade_answers(answer_page(SPLITTERS, [*RIGHT]), KEY)

    assert (results["right"], results["count"], results["learner"]) == (3, 3, "Amara")
    assert is_signed_by(results, KEY)
    assert not is_signed_by(results, bytes(32))


def test_a_mistake_is_named_in_the_results() -> None:
    question = SPLITTERS.draw()[0]
    wrong = show_number(question.mistakes[0].number)
    results = grade_answers(answer_page(SPLITTERS, [wrong, None, "what?"]), KEY)

    rows = [(row["right"], row["mistake"]) for row in results["questions"]]
    assert rows == [(False, question.mistakes[0].key), (False, ""), (False, "unreadable")]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"set": {**SPLITTERS.to_data(), "seed": 4}}, "was changed, or its page was made with another key"),
        ({"set": {**SPLITTERS.to_data(), "formula": "y = x + x"}}, "was changed"),
        ({"set": None}, "set of the answers should be an object with the entries .*; got null"),
        ({"set": {"seed": 3}}, "set of the answers needs the entry 'formula': a text of 1 to"),
        ({"signature": None}, "signature of the answers should be a text of 1 to 200 characters; got None"),
        ({"signature": "x" * 64}, "was changed"),
        ({"signature": "ü"}, "was changed"),
        ({"answers": ["1"]}, "a list of 3 texts"),
        ({"answers": [1, 2, 3]}, "a list of 3 texts"),
        ({"answers": ["1" * 300] * 3}, "a list of 3 texts"),
        ({"answers": "123"}, "a list of at most"),
        ({"learner": ""}, "1 to 200 characters"),
        ({"learner": 7}, "got 7"),
        ({"document": "results"}, "holds results.*; wanted answers.*; it is graded already: wiregrad learn"),
        ({"document": "set"}, "holds something else; wanted answers"),
        ({"document": []}, "holds something else; wanted answers"),
        ({"schema": 2}, "has the schema 2; this wiregrad reads 1"),
        ({"grade": 1}, "has the unknown entry 'grade'; the entries are document"),
    ],
)
def test_answers_that_were_tampered_with_are_refused(change: dict[str, Any], part: str) -> None:
    with pytest.raises(FileFormatError, match=part):
        grade_answers({**answer_page(SPLITTERS, [*RIGHT]), **change}, KEY)


@pytest.mark.parametrize(
    ("data", "name"), [(None, "null"), ([], "a list"), ("x", "a text"), (True, "true or false"), (3, "3")]
)
def test_answers_that_are_no_object_are_refused(data: object, name: str) -> None:
    with pytest.raises(FileFormatError, match=f"should be an object with the entries document, .*; got {name}$"):
        grade_answers(data, KEY)


def save(path: Path, data: object) -> str:
    path.write_text(json.dumps(data), encoding="utf-8")
    return str(path)


def test_a_gradebook_marks_changed_and_unsigned_files(tmp_path: Path) -> None:
    right = grade_answers(answer_page(SPLITTERS, [*RIGHT]), KEY)
    part = grade_answers(answer_page(SPLITTERS, [RIGHT[0], None, None], "Bao"), KEY)
    paths = [
        save(tmp_path / "a.json", right),
        save(tmp_path / "b.json", {**part, "right": 3}),
        save(tmp_path / "c.json", {name: value for name, value in part.items() if name != "signature"}),
        save(tmp_path / "d.json", {**part, "signature": compute_signature(part, bytes(32))}),
    ]
    book = read_gradebook(paths, KEY)
    lines = str(book).splitlines()

    assert [row.state for row in book.rows] == ["signed", "changed", "unsigned", "changed"]
    assert lines[1].split() == ["Amara", "Splitters", "add", "3", "of", "3"]
    assert lines[2].startswith("Bao !")
    assert lines[5] == f"! {paths[1]} was changed after it was signed, or signed with another key"
    assert lines[6] == f"! {paths[2]} has no signature"


def test_answers_are_graded_before_they_come_into_a_gradebook(tmp_path: Path) -> None:
    path = save(tmp_path / "amara.json", answer_page(SPLITTERS, [*RIGHT]))

    with pytest.raises(FileFormatError, match=r"amara\.json holds answers .*; grade it first: wiregrad learn --grade"):
        read_gradebook([path], KEY)


def test_a_folder_of_answers_is_graded_and_read_as_one_file_of_results(tmp_path: Path) -> None:
    folder = tmp_path / "handed in"
    folder.mkdir()
    for learner in ("Amara", "Bao"):
        save(folder / f"answers-{learner}.json", answer_page(SPLITTERS, [*RIGHT], learner))
    save(folder / "set.json", SPLITTERS.to_data())
    (folder / "notes.txt").write_text("not a file of answers", encoding="utf-8")
    graded = grade_files(list_json_files([folder]), KEY)
    book = read_gradebook([save(tmp_path / "class.json", list(graded.results))], KEY)

    assert [(row.learner, row.right, row.state) for row in book.rows] == [("Amara", 3, "signed"), ("Bao", 3, "signed")]
    assert len(graded.problems) == 1
    assert re.search(r"set\.json holds a question set; wanted answers .* --export DIR", graded.problems[0])


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileAccessError, match=r"has no file whose name ends in \.json"):
        list_json_files([tmp_path])


def test_a_gradebook_counts_who_makes_a_mistake(tmp_path: Path) -> None:
    wrong = show_number(SPLITTERS.draw()[0].mistakes[0].number)
    answers = [wrong, None, None]
    paths = [
        save(tmp_path / f"{learner}.json", grade_answers(answer_page(SPLITTERS, answers, learner), KEY))
        for learner in ("Amara", "Bao")
    ]

    assert str(read_gradebook([*paths, paths[0]], KEY)).splitlines()[-1] == "one branch only: 2 of 2"


@pytest.mark.parametrize(
    "change",
    [{"questions": 3}, {"questions": [3]}, {"questions": [{"mistake": 3}]}, {"right": "3"}, {"right": -1}, {"x": 1}],
)
def test_malformed_results_are_refused(change: dict[str, Any]) -> None:
    results = grade_answers(answer_page(SPLITTERS, [*RIGHT]), KEY)

    with pytest.raises(FileFormatError, match=r"results\.json"):
        read_results({**results, **change}, KEY, "results.json")


def test_a_key_is_private_and_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "class.key"
    create_key(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(read_key(path)) == 32
    with pytest.raises(FileAccessError, match="exists already"):
        create_key(path)


@pytest.mark.parametrize("text", ["", "secret", "wiregrad-key-1\nabc\n", "wiregrad-key-1\n" + "g" * 64, "\x00\xff"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "class.key"
    path.write_text(text, encoding="latin-1")

    with pytest.raises(FileFormatError, match="is no key"):
        read_key(path)
    with pytest.raises(FileAccessError, match="cannot read the key"):
        read_key(tmp_path / "absent.key")


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (3, "should be an object with the entries title, formula, .*; got 3"),
        ({}, "a.json needs the entry 'formula': a text of 1 to 10000 characters"),
        ({"formula": "y = x*x", "kind": ["leaf"]}, "unknown entry 'kind'; did you mean kinds"),
        ({"formula": "y = x*x", "titel": "A"}, "unknown entry 'titel'; did you mean title"),
        ({"formula": "y = x*x", "kinds": ["leef"]}, "a.json: there is no kind of question called 'leef'"),
        ({"formula": "y = x*x", "kinds": []}, "a.json: a quiz needs a kind of question"),
        ({"formula": "y = x*x", "kinds": [3]}, "a list of texts"),
        ({"formula": "y = x*x", "kinds": ["rule"]}, "asks for Python"),
        ({"formula": "y = x*x", "leaves": {"x": "3"}}, "an object of numbers"),
        ({"formula": "y = x*x", "leaves": [3]}, "an object of numbers"),
        ({"formula": "y = x*x", "leaves": {"z": 3}}, "a.json: there is no input called 'z'"),
        ({"formula": "y = x*x", "seed": -1}, "a.json: the seed of a quiz"),
        ({"formula": "y = x*x", "count": 0}, "from 1 to 100"),
        ({"formula": "y = x*x", "title": 3}, "title of"),
        ({"formula": "y = sinn(x)"}, r"a.json: there is no function called sinn(.|\n)*column 5\n    y = sinn"),
        ({"formula": "y = x > 2"}, "a.json: the output y is bool"),
    ],
)
def test_malformed_question_sets_are_refused(data: object, part: str) -> None:
    with pytest.raises(FileFormatError, match=part):
        read_question_set(data, "a.json")


def test_a_set_without_a_clear_question_is_refused() -> None:
    with pytest.raises(NoQuestionError, match="offers no clear question"):
        build_sheet(QuestionSet("One", "y = a + b", kinds=("gather",)), "page.html")


@pytest.mark.parametrize(
    ("text", "part"),
    [(b"{", "is no JSON"), (b"[NaN]", "NaN is no number"), (b"\xff\xfe", "not UTF-8"), (b"[" * 100_000, "is no JSON")],
)
def test_files_that_are_no_json_are_refused(tmp_path: Path, text: bytes, part: str) -> None:
    path = tmp_path / "sets.json"
    path.write_bytes(text)

    with pytest.raises(FileFormatError, match=part):
        read_json_file(path)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.write_bytes(b" " * 2_000_001)

    with pytest.raises(FileAccessError, match="cannot read"):
        read_json_file(tmp_path)
    with pytest.raises(FileAccessError, match=r"absent\.json"):
        read_question_file(tmp_path / "absent.json")
    with pytest.raises(FileFormatError, match="2,000,001 bytes"):
        read_json_file(large)


def test_a_site_has_an_index_that_links_to_each_page(tmp_path: Path) -> None:
    extra = SitePage("lesson.html", "Lesson <1>", "<!doctype html>")
    paths = export_site(tmp_path / "site", [*build_pages([SPLITTERS]), extra], "Class 11b")
    index = paths[0].read_text(encoding="utf-8")

    assert [path.name for path in paths] == ["index.html", "01-splitters-add.html", "lesson.html"]
    assert 'href="01-splitters-add.html"' in index
    assert "Lesson &lt;1&gt;" in index
    with pytest.raises(FileAccessError, match="cannot write"):
        export_site(paths[0], [])


def save_progress(folder: Path, name: str, belief: str, lessons: int, **changes: object) -> str:
    """Write the progress of a learner who has worked through the first lessons; `changes` are made to the first one."""
    learner = SimulatedLearner(tuple(each for each in MISCONCEPTIONS if each.key == belief), 0)
    done = {lesson.key: {"screen": 0, **asdict(learner.work_through(lesson))} for lesson in load_course()[:lessons]}
    done["circuit"] |= changes
    return save(folder / f"{name}.json", {"version": 1, "last": "", "learner": name.title(), "lessons": done})


def test_a_gradebook_reads_progress_in_the_lessons(tmp_path: Path) -> None:
    path = save_progress(tmp_path, "amara", "other-op", 3)
    [row] = read_gradebook([path], KEY).rows

    assert (row.learner, row.right, row.count, row.state) == ("Amara", 1, 14, "played")
    assert row.lessons[:4] == ("begun", "begun", "done", "new")
    assert row.mistakes == {"another op": 1}


@pytest.mark.parametrize(
    "changes",
    [{"done": True}, {"met": []}, {"answered": 99}, {"first": 0}, {"logs": {}}, {"round": 7}],
    ids=lambda changes: next(iter(changes)),
)
def test_progress_that_was_changed_is_marked(tmp_path: Path, changes: dict[str, object]) -> None:
    path = save_progress(tmp_path, "amara", "other-op", 1, **changes)
    book = read_gradebook([path], KEY)

    assert [row.state for row in book.rows] == ["changed"]
    assert "says something else than its answers" in str(book)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ({"version": 2, "lessons": {}}, "wanted version 1"),
        ({"version": 1, "lessons": []}, "wanted version 1"),
        ({"version": 1, "lessons": {"circuit": 3}}, "lesson circuit of .* should be an object"),
        ({"version": 1, "lessons": {"circuit": {"logs": {"x": []}}}}, "by the number of the screen"),
        ({"version": 1, "lessons": {"circuit": {"logs": {"1": ["a"] * 500}}}}, "at most 400 texts"),
        ({"version": 1, "name": "x"}, "has the unknown entry 'name'"),
    ],
)
def test_progress_that_cannot_be_read_is_refused(tmp_path: Path, data: object, part: str) -> None:
    with pytest.raises(FileFormatError, match=part):
        read_gradebook([save(tmp_path / "a.json", data)], KEY)


def test_the_table_of_a_class_joins_the_files_of_a_learner(tmp_path: Path) -> None:
    results = grade_answers(answer_page(SPLITTERS, [*RIGHT]), KEY)
    paths = [save_progress(tmp_path, "amara", "other-op", 2), save(tmp_path / "results.json", results)]
    book = read_gradebook(paths, KEY)
    data = book.to_data()

    assert [row["learner"] for row in data["rows"]] == ["Amara"]
    assert data["rows"][0]["sets"] == {"Splitters add": [[3, 3]]}
    assert data["rows"][0]["mistakes"] == {"another op": "open"}
    assert (data["files"], data["signed"], data["played"]) == (2, 1, 1)
    assert "gradebook" in render_gradebook(book, "Class 11b")


def test_the_table_of_a_class_shows_all_results_of_a_set_that_was_handed_in_twice(tmp_path: Path) -> None:
    results = [grade_answers(answer_page(SPLITTERS, answers), KEY) for answers in (RIGHT, [None] * len(RIGHT))]
    book = read_gradebook([save(tmp_path / f"{k}.json", one) for k, one in enumerate(results)], KEY)

    assert book.to_data()["rows"][0]["sets"] == {"Splitters add": [[3, 3], [0, 3]]}
    assert book.to_csv().splitlines() == ["learner,Splitters add (of 3),doubts", 'Amara,"3, 0",']


@pytest.mark.parametrize("start", ["", "\t", "\r"], ids=repr)
def test_a_name_is_no_formula_in_a_spreadsheet(start: str, tmp_path: Path) -> None:
    results = grade_answers(answer_page(SPLITTERS, [*RIGHT], f'{start}=HYPERLINK("x")'), KEY)
    book = read_gradebook([save(tmp_path / "a.json", results)], KEY)

    assert book.to_csv().split("\r\n")[1] == f'"\'{start}=HYPERLINK(""x"")",3,'


def test_an_answer_that_cannot_be_read_is_told_from_one_that_was_left_out(tmp_path: Path) -> None:
    results = grade_answers(answer_page(SPLITTERS, ["dunno", None, RIGHT[2]]), KEY)
    book = read_gradebook([save(tmp_path / "a.json", results)], KEY)

    assert book.rows[0].mistakes == {"not readable": 1}
