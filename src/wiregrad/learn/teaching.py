"""What teachers need: question sets as pages, answers graded in Python, and a gradebook of signed results.

A question set is a formula, a seed, kinds and a count; the questions follow from it. An exported page checks answers by
itself. A graded page holds no answers: it saves what was typed as a file, which is graded here. The set in such a file
is signed, and so are the results, with a key that only the teacher has: HMAC-SHA256 over canonical JSON. A signature
shows that a file was not changed; it does not hide anything. Progress that learners save in the lessons is not signed:
its logs are played again, and must add up to what it says.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import os
import re
import secrets
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wiregrad.errors import (
    FileAccessError,
    FileFormatError,
    InputError,
    NoQuestionError,
    WiregradError,
    short_repr,
    suggest_name,
)
from wiregrad.explorer.page_data import build_content_policy, read_inline_file, render_page
from wiregrad.frontends import parse_formula
from wiregrad.inspect.report import Report
from wiregrad.learn.lessons import (
    CLEARED,
    OPEN,
    Lesson,
    LessonProgress,
    MetMistake,
    load_course,
    sum_up_lesson,
)
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz import KINDS, QuestionSource, check_kinds, draw_question, judge_answer
from wiregrad.learn.quiz_run import check_seed, show_number
from wiregrad.learn.sentences import UNNAMED, name_mistake

SCHEMA: Final = 1
"""Version of the files: question sets, answers and results."""
PAGE_KINDS: Final = tuple(kind for kind in KINDS if kind != "rule")
"""The kinds that can be answered with a line of text."""
KEY_HEAD: Final = "wiregrad-key-1"
KEY_BYTES: Final = 32
MAX_FILE: Final = 2_000_000
MAX_TEXT: Final = 200
MAX_QUESTIONS: Final = 100
STYLE_FILE: Final = "sheet.css"
BESIDE: Final = (690.0, 740.0)
ALONE: Final = (740.0, 1056.0)
"""Width and height in pixels that a picture may have on A4: beside its question, and on a page of its own."""
PAPER_FOLD: Final = 800
"""How long a row of a picture may be that is drawn for paper."""
MIN_PAPER_SCALE: Final = 0.72
"""The least scale at which the numbers of a picture, 13 pixels high, have 7 points on paper."""
SVG_SIZE: Final = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
ASKED_TEXT: Final = re.compile(r'<text x="([\d.]+)"[^<>]*>×?\?<')


@dataclass(frozen=True)
class QuestionSet:
    """A formula and which questions are asked about it; the same set gives the same questions everywhere."""

    title: str
    formula: str
    seed: int = 7
    leaves: Mapping[str, float] | None = None
    kinds: tuple[str, ...] = PAGE_KINDS
    count: int | None = None
    """How many questions; by default one of each kind."""

    def to_data(self) -> dict[str, Any]:
        """Return the set as plain data."""
        return {
            "title": self.title,
            "formula": self.formula,
            "seed": self.seed,
            "leaves": dict(self.leaves or {}),
            "kinds": list(self.kinds),
            "count": self.count,
        }

    def open_source(self) -> QuestionSource:
        """Return what draws and judges its questions."""
        return QuestionSource(parse_formula(self.formula), self.seed, self.leaves)

    def draw(self, source: QuestionSource | None = None) -> list[Question]:
        """Return its questions; raise `NoQuestionError` if there are none."""
        source = source or self.open_source()
        questions = list(draw_questions(source, self.kinds, self.count))
        if not questions:
            raise source.no_question(self.kinds, f"the question set {self.title!r}")
        return questions


def draw_questions(source: QuestionSource, kinds: Sequence[str], count: int | None) -> Iterator[Question]:
    """Draw the first question of each kind, then the second ones, until there are enough; leave out absent kinds."""
    left = list(kinds)
    made = 0
    number = 0
    while left and (number == 0 if count is None else made < count):
        for kind in list(left):
            try:
                question = source.draw(kind, number)
            except NoQuestionError:
                left.remove(kind)
                continue
            yield question
            made += 1
            if made == count:
                return
        number += 1


def read_json_file(path: str | Path) -> Any:
    """Return the data of a JSON file; raise `FileAccessError` or `FileFormatError` if it cannot be read."""
    try:
        size = os.stat(path).st_size
        raw = Path(path).read_bytes() if size <= MAX_FILE else b""
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror}") from None
    if size > MAX_FILE:
        raise FileFormatError(f"{path} has {size:,} bytes; a file of wiregrad learn has at most {MAX_FILE:,}")
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is no JSON: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise FileFormatError(f"{path} is no JSON: {reason}") from None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


JSON_KINDS: Final = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def _describe_json(data: object) -> str:
    """Return what kind of JSON some data is.

    >>> _describe_json([1, 2]), _describe_json(3.5)
    ('a list', '3.5')
    """
    return JSON_KINDS.get(type(data), short_repr(data))


class _Fields:
    """Reads the entries of an object, and names what is not as expected.

    `document` is the kind of file that is wanted, and empty for what is not a file of its own.
    """

    def __init__(self, data: object, what: str, names: Sequence[str], document: str = "") -> None:
        if not isinstance(data, dict):
            raise FileFormatError(
                f"{what} should be an object with the entries {', '.join(names)}; got {_describe_json(data)}"
            )
        self.data = data
        self.what = what
        if document:
            self._expect_document(document)
        for key in data:
            if key not in names:
                near = suggest_name(str(key), names)
                raise FileFormatError(
                    f"{what} has the unknown entry {short_repr(key)}{near}; the entries are {', '.join(names)}"
                )

    def refuse(self, name: str, wanted: str) -> FileFormatError:
        """Return the error for an entry."""
        if name not in self.data:
            return FileFormatError(f"{self.what} needs the entry {name!r}: {wanted}")
        return FileFormatError(f"{name} of {self.what} should be {wanted}; got {short_repr(self.data[name])}")

    def text(self, name: str, most: int = MAX_TEXT) -> str:
        """Read a text that is not empty."""
        value = self.data.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= most:
            raise self.refuse(name, f"a text of 1 to {most} characters")
        return value

    def integer(self, name: str, least: int, most: int) -> int:
        """Read an integer."""
        value = self.data.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.refuse(name, f"an integer from {least} to {most}")
        return value

    def items(self, name: str, most: int) -> list[Any]:
        """Read a list."""
        value = self.data.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self.refuse(name, f"a list of at most {most} entries")
        return value

    def _expect_document(self, kind: str) -> None:
        """Refuse a file of another kind or version."""
        given = self.data.get("document")
        given = given if isinstance(given, str) else ""
        if given != kind:
            is_set = "formula" in self.data or "sets" in self.data
            remedy = DOCUMENT_REMEDIES.get((kind, "set" if is_set else given), "")
            holds = "a question set" if is_set else DOCUMENT_NAMES.get(given, "something else")
            raise FileFormatError(f"{self.what} holds {holds}; wanted {DOCUMENT_NAMES[kind]}{remedy}")
        if self.data.get("schema") != SCHEMA:
            raise FileFormatError(
                f"{self.what} has the schema {short_repr(self.data.get('schema'))}; this wiregrad reads {SCHEMA}"
            )


DOCUMENT_NAMES: Final[dict[str, str]] = {
    "answers": "answers that a graded page has saved",
    "results": "results, which wiregrad learn --grade prints",
}
"""What a file holds, by its entry `document`."""
DOCUMENT_REMEDIES: Final[dict[tuple[str, str], str]] = {
    ("results", "answers"): "; grade it first: wiregrad learn --grade FILE --key KEY",
    ("answers", "results"): "; it is graded already: wiregrad learn --gradebook FILE --key KEY",
    ("answers", "set"): "; wiregrad learn --export DIR FILE --graded --key KEY writes the page that saves them",
    ("results", "set"): "; wiregrad learn --export DIR FILE --graded --key KEY writes the page to be answered",
}
"""What to do with a file, by the kind that is wanted and the kind that came."""


SET_ENTRIES: Final = ("title", "formula", "seed", "leaves", "kinds", "count")


def read_question_set(data: object, what: str = "a question set") -> QuestionSet:
    """Return a question set from plain data; only `formula` must be there.

    >>> read_question_set({"formula": "y = x*x + x", "kinds": ["gather"]}).title
    'y = x*x + x'
    """
    fields = _Fields(data, what, SET_ENTRIES)
    formula = fields.text("formula", 10_000)
    known = fields.data
    leaves = known.get("leaves") or {}
    is_numeric = isinstance(leaves, dict) and all(
        isinstance(x, int | float) and not isinstance(x, bool) for x in leaves.values()
    )
    if not is_numeric:
        raise fields.refuse("leaves", "an object of numbers by name")
    kinds = fields.items("kinds", len(KINDS)) if "kinds" in known else list(PAGE_KINDS)
    if not all(isinstance(kind, str) for kind in kinds):
        raise fields.refuse("kinds", "a list of texts")
    if "rule" in kinds:
        raise FileFormatError(f"kinds of {what} cannot have 'rule': it asks for Python, which a page does not have")
    with _name_place(what):
        questions = QuestionSet(
            title=fields.text("title") if "title" in known else formula[:MAX_TEXT],
            formula=formula,
            seed=check_seed(known.get("seed", 7)),
            leaves={str(name): float(x) for name, x in leaves.items()},
            kinds=check_kinds(kinds),
            count=None if known.get("count") is None else fields.integer("count", 1, MAX_QUESTIONS),
        )
        questions.open_source()
    return questions


@contextmanager
def _name_place(what: str) -> Iterator[None]:
    """Name what is read in the errors of other modules."""
    try:
        yield
    except FileFormatError:
        raise
    except WiregradError as error:
        raise FileFormatError(f"{what}: {error}") from None


def read_question_file(path: str | Path) -> list[QuestionSet]:
    """Return the question sets of a JSON file: one set, or an object with a list of `sets`, or such a list."""
    data = read_json_file(path)
    if isinstance(data, list):
        data = {"sets": data}
    if isinstance(data, dict) and "sets" in data:
        fields = _Fields(data, str(path), ("sets",))
        return [read_question_set(one, f"sets[{k}] of {path}") for k, one in enumerate(fields.items("sets", 100))]
    return [read_question_set(data, str(path))]


def create_key(path: str | Path) -> None:
    """Write a new key to a file that only its owner may read; an existing file is never replaced."""
    text = f"{KEY_HEAD}\n{secrets.token_hex(KEY_BYTES)}\n"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileAccessError(f"{path} exists already; a key is never replaced: choose another name") from None
    except OSError as error:
        raise FileAccessError(f"cannot write {path}: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text)


def read_key(path: str | Path) -> bytes:
    """Return the key of a file."""
    try:
        text = Path(path).read_bytes()[:1000].decode("ascii", "replace")
    except OSError as error:
        raise FileAccessError(f"cannot read the key {path}: {error.strerror}") from None
    match = re.fullmatch(rf"{KEY_HEAD}\n([0-9a-f]{{{2 * KEY_BYTES}}})\s*", text)
    if match is None:
        raise FileFormatError(f"{path} is no key; wiregrad learn --new-key FILE makes one")
    return bytes.fromhex(match[1])


def compute_signature(document: Mapping[str, Any], key: bytes) -> str:
    """Return the signature of a document: HMAC-SHA256 over its canonical JSON, without the entry `signature`.

    >>> compute_signature({"b": 1, "a": 2}, b"k") == compute_signature({"a": 2, "b": 1, "signature": "x"}, b"k")
    True
    """
    signed = {name: value for name, value in document.items() if name != "signature"}
    text = json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()


def is_signed_by(document: Mapping[str, Any], key: bytes) -> bool:
    """Return whether a document has the signature that a key gives it."""
    signature = document.get("signature")
    return isinstance(signature, str) and _is_same(signature, compute_signature(document, key))


def _is_same(given: str, signature: str) -> bool:
    """Compare signatures in a time that tells nothing; a given one may have any characters."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), signature.encode("ascii"))


def _sign_set(questions: QuestionSet, key: bytes) -> str:
    return compute_signature({"document": "set", "schema": SCHEMA, **questions.to_data()}, key)


@dataclass(frozen=True)
class SitePage:
    """One page of a site: its file, what the index calls it, and its HTML."""

    name: str
    title: str
    html: str
    about: str = ""


def build_sheet(questions: QuestionSet, name: str, *, key: bytes | None = None, solutions: bool = False) -> SitePage:
    """Return the page of a question set; with a key it is a graded one, which holds no answers.

    With `solutions`, the answers follow the questions, and begin a new page on paper.
    """
    if key is not None and solutions:
        raise InputError("a graded page holds no answers: write the page with the solutions without a key")
    source = questions.open_source()
    asked = questions.draw(source)
    sheet: dict[str, Any] = {
        "title": questions.title,
        "graded": key is not None,
        "set": questions.to_data(),
        "questions": [_describe_question(source, question) for question in asked],
    }
    if key is not None:
        sheet["signature"] = _sign_set(questions, key)
    if solutions:
        sheet["solutions"] = [_describe_solution(source, question) for question in asked]
    about = f"{len(asked)} {'graded ' * (key is not None)}questions on {questions.formula}"
    return SitePage(name, questions.title, render_page({"sheet": sheet}, questions.title), about)


def _describe_question(source: QuestionSource, question: Question) -> dict[str, Any]:
    """Return what a page shows of a question: nothing from which its answer could be read."""
    leaves = ", ".join(f"{name} = {show_number(x)}" for name, x in question.leaves.items())
    shown = [f"{gradient.label}: {show_number(gradient.number)}" for gradient in question.shown]
    picture, tall = (draw_question(source.owner, question, down=down) for down in (False, True))
    folded = draw_question(source.owner, question, fold=PAPER_FOLD)
    printed, place, width = choose_place([picture, tall, folded])
    return {
        "kind": question.kind,
        "prompt": question.prompt,
        "lines": [*([leaves] if leaves else []), *question.given, *shown],
        "options": [[option.text, option.detail] for option in question.options],
        "picture": _encode_picture(picture),
        "tall": _encode_picture(tall),
        "asked": _find_asked(tall),
        "paper": [_encode_picture(printed), place, width],
    }


def _read_size(svg: str) -> tuple[float, float]:
    """Return the width and the height of a picture."""
    match = SVG_SIZE.search(svg)
    assert match is not None, "a picture has a viewBox"
    return float(match[1]), float(match[2])


def _find_asked(svg: str) -> float:
    """Return how far from its left edge a picture has its question mark, from 0 to 1; its middle if it has none."""
    asked = ASKED_TEXT.search(svg)
    return round(float(asked[1]) / _read_size(svg)[0], 3) if asked else 0.5


def choose_place(pictures: Sequence[str]) -> tuple[str, str, float]:
    """Return which of the pictures of a question is printed, where, and how many pixels wide.

    It is the first one whose numbers are large enough beside the question. If there is none, the one whose numbers are
    largest has a page of its own.

    >>> wide, tall, folded = (f'<svg viewBox="0 0 {size}">' for size in ("1509 428", "394 1316", "769 712"))
    >>> choose_place([wide, tall, folded])
    ('<svg viewBox="0 0 769 712">', 'beside', 690.0)
    >>> choose_place([wide, tall])
    ('<svg viewBox="0 0 394 1316">', 'alone', 316.2)
    """
    for picture in pictures:
        scale = _scale_into(picture, BESIDE)
        if scale >= MIN_PAPER_SCALE:
            return picture, "beside", round(_read_size(picture)[0] * scale, 1)
    picture = max(pictures, key=lambda each: _scale_into(each, ALONE))
    return picture, "alone", round(_read_size(picture)[0] * _scale_into(picture, ALONE), 1)


def _scale_into(svg: str, room: tuple[float, float]) -> float:
    """Return how large a picture can be in a room, at most 1."""
    return min(1.0, *(most / size for most, size in zip(room, _read_size(svg), strict=True)))


def _describe_solution(source: QuestionSource, question: Question) -> list[str]:
    """Return the answer to a question and what leads to it: for a leaf, the gradients on the way back."""
    right = [option.text for option in question.options if option.right]
    answer = " or ".join(right) if question.answer is None else show_number(question.answer)
    steps = [question.step, question.why]
    if question.kind == "leaf":
        run = source.owner.run(question.leaves)
        nodes = reversed(source.owner.functions)
        gradients = ", ".join(f"{source.owner.title(node)} {show_number(run.upstream(node))}" for node in nodes)
        steps.insert(0, f"gradients: {gradients}")
    return [answer, *(f"{step.removesuffix('.')}." for step in steps if step)]


def _encode_picture(svg: str) -> str:
    """Return the address of a picture that is part of a page."""
    return f"data:image/svg+xml;base64,{b64encode(svg.encode('utf-8')).decode('ascii')}"


INDEX_TEMPLATE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div class="wg-app sheet contents">
<main>
<h1>{title}</h1>
<ul>
{items}
</ul>
</main>
</div>
</body>
</html>
"""


def export_site(folder: str | Path, pages: Sequence[SitePage], title: str = "Questions") -> list[Path]:
    """Write pages and an index of them into a folder; they work from disk and from any web server."""
    style = read_inline_file(STYLE_FILE)
    items = "\n".join(
        f'<li><a href="{html.escape(page.name)}">{html.escape(page.title)}</a>'
        f'<p class="about">{html.escape(page.about)}</p></li>'
        for page in pages
    )
    parts = {"policy": build_content_policy([""], style), "style": style, "items": items}
    index = SitePage("index.html", title, INDEX_TEMPLATE.format(title=html.escape(title), **parts))
    paths = []
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for page in (index, *pages):
            path = Path(folder) / page.name
            path.write_text(page.html, encoding="utf-8")
            paths.append(path)
    except OSError as error:
        raise FileAccessError(f"cannot write to {folder}: {error.strerror}") from None
    return paths


def build_pages(sets: Sequence[QuestionSet], *, key: bytes | None = None, solutions: bool = False) -> list[SitePage]:
    """Return the pages of question sets, named after their titles."""
    pages: list[SitePage] = []
    for k, questions in enumerate(sets, 1):
        words = re.sub(r"[^a-z0-9]+", "-", questions.title.lower()).strip("-")[:40]
        pages.append(build_sheet(questions, f"{k:02}-{words or 'questions'}.html", key=key, solutions=solutions))
    return pages


ANSWER_ENTRIES: Final = ("document", "schema", "learner", "set", "signature", "answers")
RESULT_ENTRIES: Final = (
    "document",
    "schema",
    "learner",
    "title",
    "formula",
    "seed",
    "right",
    "count",
    "questions",
    "signature",
)


def grade_answers(data: object, key: bytes, what: str = "the answers") -> dict[str, Any]:
    """Grade the answers that a graded page has saved; return the results, signed with the key."""
    fields = _Fields(data, what, ANSWER_ENTRIES, "answers")
    learner = fields.text("learner")
    questions = read_question_set(fields.data.get("set"), f"set of {what}")
    if not _is_same(fields.text("signature"), _sign_set(questions, key)):
        raise FileFormatError(
            f"the question set of {what} was changed, or its page was made with another key; grade with the key that "
            "made the page"
        )
    answers = fields.items("answers", MAX_QUESTIONS)
    source = questions.open_source()
    asked = questions.draw(source)
    is_complete = len(answers) == len(asked)
    if not is_complete or not all(x is None or (isinstance(x, str) and len(x) <= MAX_TEXT) for x in answers):
        raise fields.refuse("answers", f"a list of {len(asked)} texts, null where nothing was answered")
    rows = [_grade_question(source, question, k, answers[k]) for k, question in enumerate(asked)]
    document = {
        "document": "results",
        "schema": SCHEMA,
        "learner": learner,
        "title": questions.title,
        "formula": questions.formula,
        "seed": questions.seed,
        "right": sum(row["right"] for row in rows),
        "count": len(rows),
        "questions": rows,
    }
    return {**document, "signature": compute_signature(document, key)}


def list_json_files(paths: Sequence[str | Path]) -> list[str]:
    """Return the files that are named, and those in the folders that are named whose names end in .json."""
    files: list[str] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(str(path))
            continue
        inside = sorted(map(str, path.glob("*.json")))
        if not inside:
            raise FileAccessError(f"the folder {path} has no file whose name ends in .json")
        files += inside
    return files


@dataclass(frozen=True)
class GradedFiles:
    """The results of files of answers, and what is the matter with those that could not be graded."""

    results: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]


def grade_files(paths: Sequence[str | Path], key: bytes) -> GradedFiles:
    """Grade files of answers; one that cannot be graded does not keep the others from it."""
    results: list[dict[str, Any]] = []
    problems: list[str] = []
    for path in paths:
        try:
            results.append(grade_answers(read_json_file(path), key, str(path)))
        except WiregradError as error:
            problems.append(str(error))
    return GradedFiles(tuple(results), tuple(problems))


def _grade_question(source: QuestionSource, question: Question, k: int, answer: str | None) -> dict[str, Any]:
    verdict = None if answer is None or not answer.strip() else judge_answer(source, question, answer)
    return {
        "id": k + 1,
        "kind": question.kind,
        "prompt": question.prompt,
        "answer": answer,
        "right": verdict is not None and verdict.right,
        "mistake": "" if verdict is None or verdict.right else verdict.key,
    }


SIGNED: Final = "signed"
CHANGED: Final = "changed"
UNSIGNED: Final = "unsigned"
PLAYED: Final = "played"
"""The state of a file of progress whose logs, played again, give what it says."""


@dataclass(frozen=True)
class GradebookRow:
    """What one file says of a learner: results of a question set, or progress in the lessons; and whether it holds.

    `mistakes` counts those that are open, by name, `cleared` has those that were put right. `lessons` says of each
    lesson whether it is done, begun or new; results have none.
    """

    file: str
    learner: str
    title: str
    right: int
    count: int
    mistakes: dict[str, int]
    state: str
    cleared: tuple[str, ...] = ()
    lessons: tuple[str, ...] = ()

    @property
    def is_doubtful(self) -> bool:
        """Whether the file was changed, or has no signature where one belongs."""
        return self.state in (CHANGED, UNSIGNED)


@dataclass(frozen=True, repr=False)
class Gradebook(Report):
    """The results of a class."""

    rows: tuple[GradebookRow, ...]
    lessons: tuple[str, ...] = ()
    """The titles of the lessons."""

    @property
    def doubtful(self) -> tuple[GradebookRow, ...]:
        """The rows whose file was changed, or has no signature."""
        return tuple(row for row in self.rows if row.is_doubtful)

    def count_learners(self) -> dict[str, int]:
        """Return how many learners make each mistake, the commonest first."""
        totals: dict[str, set[str]] = {}
        for row in self.rows:
            for name in row.mistakes:
                totals.setdefault(name, set()).add(row.learner)
        counts = {name: len(learners) for name, learners in totals.items()}
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def lines(self) -> Iterator[str]:
        """Return the table, what is doubtful, and which mistakes the class makes."""
        cells = [("learner", "set", "right", "mistakes"), *map(_write_row, self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(3)]
        for texts in cells:
            padded = [text.ljust(width) for text, width in zip(texts, widths, strict=False)]
            yield "  ".join([*padded, texts[3]]).rstrip()
        for row in self.doubtful:
            yield f"! {row.file} {_explain_doubt(row)}"
        learners = len({row.learner for row in self.rows})
        for name, count in self.count_learners().items():
            yield f"{name}: {count} of {learners}"

    def to_data(self) -> dict[str, Any]:
        """Return the class as the page shows it: a row for each learner."""
        rows: dict[str, dict[str, Any]] = {}
        for row in self.rows:
            own = rows.setdefault(row.learner, {"learner": row.learner, "doubts": [], "lessons": [], "sets": {}})
            met = own.setdefault("mistakes", {})
            met |= {name: met.get(name, CLEARED) for name in row.cleared} | dict.fromkeys(row.mistakes, OPEN)
            own["lessons"] = list(row.lessons) or own["lessons"]
            if not row.lessons:
                own["sets"].setdefault(row.title, []).append([row.right, row.count])
            if row.is_doubtful:
                own["doubts"].append(f"{Path(row.file).name} {_explain_doubt(row)}")
        signed = sum(row.state == SIGNED for row in self.rows)
        facts = {"files": len(self.rows), "signed": signed, "played": sum(row.state == PLAYED for row in self.rows)}
        unnamed = list(UNNAMED.values())
        return {"lessons": list(self.lessons), "unnamed": unnamed, "rows": list(rows.values()), **facts}

    def to_csv(self) -> str:
        """Return the class as text for a spreadsheet: a line for each learner, the right answers of a set as numbers.

        A cell that looks like a formula is made text. The page exports the same table.
        """
        rows = self.to_data()["rows"]
        lessons = self.lessons if any(row["lessons"] for row in rows) else ()
        sets = list(dict.fromkeys(title for row in rows for title in row["sets"]))
        columns = [_choose_column(title, [row["sets"].get(title, []) for row in rows]) for title in sets]
        names = sorted({name for row in rows for name in row["mistakes"]}, key=lambda name: _rank_mistake(rows, name))
        lines = [["learner", *lessons, *(title for title, _ in columns), *names, "doubts"]]
        for k, row in enumerate(rows):
            states = [LESSON_WORDS[state] for state in row["lessons"] or ["new"] * len(lessons)] if lessons else []
            mistakes = [row["mistakes"].get(name, "") for name in names]
            cells = [cells[k] for _, cells in columns]
            lines.append([row["learner"], *states, *cells, *mistakes, "; ".join(row["doubts"])])
        return "".join(",".join(map(_quote_cell, line)) + "\r\n" for line in lines)


LESSON_WORDS: Final = {"done": "done", "begun": "begun", "new": "not begun"}


def _rank_mistake(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[int, str]:
    """Return what sorts mistakes: those that most learners have open come first."""
    return -sum(row["mistakes"].get(name) == OPEN for row in rows), name


def _choose_column(title: str, scores: Sequence[Sequence[Sequence[int]]]) -> tuple[str, list[str]]:
    """Return the title and the cells of a set: numbers, unless files of it have different numbers of questions."""
    counts = {count for handed_in in scores for _, count in handed_in}
    if len(counts) != 1:
        return title, [", ".join(f"{right} of {count}" for right, count in handed_in) for handed_in in scores]
    return f"{title} (of {counts.pop()})", [", ".join(str(right) for right, _ in handed_in) for handed_in in scores]


def _quote_cell(text: str) -> str:
    # Spreadsheets also read a formula behind a tab or a return.
    if not re.search(r'[",\r\n]|^[=+@\t-]', text):
        return text
    guard = "'" if text[0] in "=+@-\t\r" else ""
    return '"' + guard + text.replace('"', '""') + '"'


def _explain_doubt(row: GradebookRow) -> str:
    if row.lessons:
        return "says something else than its answers, or comes from other lessons"
    return (
        "has no signature" if row.state == UNSIGNED else "was changed after it was signed, or signed with another key"
    )


def _write_row(row: GradebookRow) -> tuple[str, str, str, str]:
    names = ", ".join(f"{name} ({count})" for name, count in row.mistakes.items())
    mark = " !" if row.is_doubtful else ""
    done = " done" if row.lessons else ""
    return f"{row.learner}{mark}", row.title, f"{row.right} of {row.count}{done}", names


def read_results(data: object, key: bytes, file: str) -> GradebookRow:
    """Return the row of a results file; one that was changed is still read, and marked."""
    fields = _Fields(data, file, RESULT_ENTRIES, "results")
    mistakes: dict[str, int] = {}
    rows = fields.items("questions", MAX_QUESTIONS)
    for k, row in enumerate(rows):
        names = ("id", "kind", "prompt", "answer", "right", "mistake")
        mistake = _Fields(row, f"questions[{k}] of {file}", names).data.get("mistake")
        if not isinstance(mistake, str) or len(mistake) > MAX_TEXT:
            raise FileFormatError(f"mistake of questions[{k}] of {file} should be a text; got {short_repr(mistake)}")
        if mistake:
            name = name_mistake(mistake)
            mistakes[name] = mistakes.get(name, 0) + 1
    is_unsigned = fields.data.get("signature") is None
    state = UNSIGNED if is_unsigned else SIGNED if is_signed_by(fields.data, key) else CHANGED
    return GradebookRow(
        file=file,
        learner=fields.text("learner"),
        title=fields.text("title"),
        right=fields.integer("right", 0, MAX_QUESTIONS),
        count=fields.integer("count", 0, MAX_QUESTIONS),
        mistakes=mistakes,
        state=state,
    )


PROGRESS_ENTRIES: Final = ("version", "last", "learner", "lessons")
LESSON_ENTRIES: Final = ("screen", "seen", "round", "logs", "met", "answered", "first", "done")
MAX_LOG: Final = 400
"""Maximum number of lines of the log of a screen."""


def read_progress(data: object, file: str, course: Sequence[Lesson]) -> GradebookRow:
    """Return the row of a file that the page of the lessons has saved; its logs are played again to check it."""
    fields = _Fields(data, file, PROGRESS_ENTRIES)
    if fields.data.get("version") != 1 or not isinstance(fields.data.get("lessons"), dict):
        raise FileFormatError(f"{file} is no progress of the lessons that can be read: wanted version 1 and lessons")
    stored = fields.data["lessons"]
    learner = fields.data.get("learner")
    states: list[str] = []
    met: dict[str, str] = {}
    is_changed = False
    for lesson in course:
        if lesson.key not in stored:
            states.append("new")
            continue
        claimed = _read_lesson_progress(stored[lesson.key], f"lesson {lesson.key} of {file}")
        found = sum_up_lesson(lesson, replace(claimed, done=claimed.done and claimed.round > 0))
        # A lesson that was done stays done when its questions are asked anew; what it was then cannot be played again.
        is_changed = is_changed or found != claimed
        states.append("done" if claimed.done else "begun")
        for mistake in found.met:
            name = name_mistake(mistake.key, mistake.kind)
            met[name] = OPEN if OPEN in (met.get(name), mistake.state) else CLEARED
    return GradebookRow(
        file=file,
        learner=learner.strip() if isinstance(learner, str) and learner.strip() else Path(file).stem,
        title="lessons",
        right=states.count("done"),
        count=len(states),
        mistakes={name: 1 for name, state in met.items() if state == OPEN},
        state=CHANGED if is_changed else PLAYED,
        cleared=tuple(name for name, state in met.items() if state == CLEARED),
        lessons=tuple(states),
    )


def _read_lesson_progress(data: object, what: str) -> LessonProgress:
    """Return what a file says of one lesson."""
    fields = _Fields(data, what, LESSON_ENTRIES)
    logs = fields.data.get("logs")
    if not isinstance(logs, dict) or not all(map(_is_log, logs.items())):
        raise fields.refuse("logs", f"an object of lists of at most {MAX_LOG} texts, by the number of the screen")
    met = [_Fields(each, f"met of {what}", ("key", "kind", "state")) for each in fields.items("met", MAX_LOG)]
    return LessonProgress(
        seen=tuple(k for k in fields.items("seen", MAX_LOG) if isinstance(k, int)),
        round=fields.integer("round", 0, 1_000_000),
        logs={int(k): tuple(log) for k, log in logs.items()},
        met=tuple(MetMistake(each.text("key"), each.text("kind"), each.text("state")) for each in met),
        answered=fields.integer("answered", 0, MAX_LOG * MAX_LOG),
        first=fields.integer("first", 0, MAX_LOG * MAX_LOG),
        done=fields.data.get("done") is True,
    )


def _is_log(entry: tuple[str, object]) -> bool:
    at, log = entry
    if not isinstance(log, list) or len(log) > MAX_LOG:
        return False
    return at.isdecimal() and all(isinstance(line, str) for line in log)


def read_gradebook(paths: Sequence[str | Path], key: bytes, course: Sequence[Lesson] | None = None) -> Gradebook:
    """Return the gradebook of some files: results of graded pages, and progress that learners have saved.

    A file has one of them, or a list of results.
    """
    lessons = load_course() if course is None else course
    rows: list[GradebookRow] = []
    for path in paths:
        data = read_json_file(path)
        if isinstance(data, list):
            rows += [read_results(one, key, f"{path}[{k}]") for k, one in enumerate(data)]
        elif isinstance(data, dict) and "version" in data:
            rows.append(read_progress(data, str(path), lessons))
        else:
            rows.append(read_results(data, key, str(path)))
    return Gradebook(tuple(rows), tuple(lesson.title for lesson in lessons))


def render_gradebook(book: Gradebook, title: str) -> str:
    """Return the table of a class as one HTML file that needs no network."""
    return render_page({"gradebook": {"title": title, **book.to_data()}}, title)
