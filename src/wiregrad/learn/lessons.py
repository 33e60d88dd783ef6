"""Lessons: Markdown with circuits, guesses and questions, read for the page, the terminal and teachers.

`parse_lesson` reads one text, `load_course` the lessons of the package (`course/*.md`), `build_course_data` what the
page shows; docs/lessons.md describes the format. The page fills the placeholders of a text from the circuit that it
draws beside it (`web/src/learn/course.ts`), so that a number changes with the picture; `fill_placeholders` does the
same here. Kept true: every placeholder of a lesson names something of its circuit, and every block of questions has a
clear question of each of its kinds, or the lesson is refused with the line.

At the end, what a learner has done in a lesson: logs, played again, add up to answers, mistakes and whether it is done
(`sum_up_lesson`). The log of a screen is a list of lines. Questions: `a:` and an answer, `hint`, `next`. A drawing:
`m:` with the kind and the key of a mistake, `right` where the circuit or a number is, `shown` where a number was given
away, and `next` when all of it is complete. Flat code: the lines that were accepted, and `m:` as in a drawing. So
nothing but logs has to be kept, and whether a file of progress says the truth can be found out. The twin of this part
is `web/src/learn/lesson-run.ts`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from wiregrad.errors import (
    FileAccessError,
    FileFormatError,
    FormulaError,
    NoQuestionError,
    WiregradError,
    short_repr,
    suggest_name,
)
from wiregrad.explorer.page_data import render_page
from wiregrad.frontends import parse_formula
from wiregrad.ir import CircuitGraph
from wiregrad.learn.questions import DRAFTERS, POSERS, Question
from wiregrad.learn.quiz import QuestionSource, Quiz, judge_answer
from wiregrad.learn.quiz_run import QuizCircuit, QuizRun, show_factor, show_number
from wiregrad.learn.sentences import NAMELESS, TITLES, name_met_mistake

COURSE_SCHEMA = 1
PAGE_TITLE = "Learn backpropagation"
COURSE_TITLE = "Backpropagation, seen from the inside"
"""The heading of the lessons of the package."""
MAX_WORDS = 70
"""Maximum number of words of a text screen."""
WIDGETS = ("flat", "descent", "memory", "frameworks")
"""The blocks that the page fills with a picture or an exercise of its own."""
POSITIONS = ("start", "forward", "end")
"""Where a figure may begin: before the run, after the forward pass, after the backward pass."""
COUNTS = ("nodes", "leaves", "wires", "splitters")
_FENCE = re.compile(r"```\s*(\w+)\s*")
_PLACEHOLDER = re.compile(r"\{(new )?([a-z]+)(_?)((?: [^{}]+)?)\}")
_WORD = re.compile(r"[^\s*>]*[^\W_][^\s]*")


@dataclass(frozen=True)
class Figure:
    """A live circuit beside a text, at a position (`POSITIONS`, or a node whose backward step is shown)."""

    formula: str
    leaves: dict[str, float]
    show: str
    about: str


@dataclass(frozen=True)
class Guess:
    """A number that the learner guesses, without score, before the figure moves to other leaves."""

    ask: str
    answer: str
    leaves: dict[str, float]


@dataclass(frozen=True)
class TextScreen:
    """One idea: a title, paragraphs, a figure or a widget, at most one guess."""

    title: str
    body: tuple[str, ...]
    figure: Figure | None
    guess: Guess | None
    widget: dict[str, str] | None


@dataclass(frozen=True)
class QuestionScreen:
    """Questions of some kinds about one circuit; leaves that are given keep their value."""

    formula: str
    leaves: dict[str, float]
    kinds: tuple[str, ...]
    seed: int
    each: int = 1
    """How many questions of each kind are asked at least."""


@dataclass(frozen=True)
class DrawScreen:
    """A formula whose circuit the learner draws."""

    formula: str


Screen = TextScreen | QuestionScreen | DrawScreen


@dataclass(frozen=True)
class Lesson:
    """One lesson; `mistakes` are the keys of those that it teaches to see."""

    key: str
    number: int
    title: str
    about: str
    minutes: int
    mistakes: tuple[str, ...]
    summary: str
    screens: tuple[Screen, ...]

    def __str__(self) -> str:
        return f"{self.number:>2}  {self.title}: {self.about} ({self.minutes} min)"


@dataclass(frozen=True)
class _Block:
    """The lines of a fenced block, or of a text; `line` is the number of its first line in the file."""

    kind: str
    line: int
    lines: tuple[str, ...]


class _LessonReader:
    """Reads one lesson; `name` precedes every message."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.blocks = list(self._split(text))

    def fail(self, line: int, message: str) -> FileFormatError:
        return FileFormatError(f"{self.name}, line {line}: {message}")

    def _split(self, text: str) -> Iterator[_Block]:
        """Split a text into its head, headings, fenced blocks and what is between them."""
        kind, first, lines = "", 1, list[str]()
        for number, line in enumerate(text.splitlines(), 1):
            fence = _FENCE.fullmatch(line.strip())
            if kind == "text" or not kind:
                if fence or line.startswith("## "):
                    yield _Block("text", first, tuple(lines))
                    kind, first, lines = (fence[1] if fence else "text"), number + 1, []
                    if not fence:
                        yield _Block("title", number, (line[3:].strip(),))
                    continue
            elif line.strip() == "```":
                yield _Block(kind, first, tuple(lines))
                kind, first, lines = "text", number + 1, []
                continue
            lines.append(line)
        if kind not in ("", "text"):
            raise self.fail(first - 1, f"the block {kind} has no end; close it with a line of three backticks")
        yield _Block("text", first, tuple(lines))

    def read_fields(self, block: _Block, known: Sequence[str], needed: Sequence[str] = ()) -> dict[str, str]:
        """Read lines of `name: value`."""
        fields: dict[str, str] = {}
        for number, line in enumerate(block.lines, block.line):
            if not line.strip():
                continue
            name, colon, value = line.partition(":")
            if not colon or name.strip() not in known:
                raise self.fail(number, f"wanted one of {', '.join(known)} and a colon; got {short_repr(line)}")
            fields[name.strip()] = value.strip()
        missing = [name for name in needed if not fields.get(name)]
        if missing:
            raise self.fail(block.line, f"the block {block.kind} needs a line `{missing[0]}: ...`")
        return fields

    def read_circuit(self, block: _Block, fields: Mapping[str, str]) -> QuizCircuit:
        """Return the circuit of a block; refuse a formula that questions cannot be asked of."""
        lines = [line.partition(":")[0].strip() for line in block.lines]
        number = block.line + lines.index("formula")
        try:
            return QuizCircuit(parse_formula(fields["formula"]))
        except FormulaError as error:
            message = f"{error.message}, at column {error.column} of the formula"
            raise self.fail(number, "\n".join([message, error.picture])) from None
        except WiregradError as error:
            raise self.fail(number, str(error).partition("\n")[0]) from None

    def read_leaves(self, block: _Block, text: str, circuit: QuizCircuit) -> dict[str, float]:
        """Read `a=2 b=-3`."""
        leaves: dict[str, float] = {}
        for part in text.split():
            name, _, value = part.partition("=")
            if name not in circuit.inputs:
                leaves_text = ", ".join(circuit.inputs) or "none"
                raise self.fail(block.line, f"{name} is no leaf of the circuit; its leaves: {leaves_text}")
            try:
                leaves[name] = float(value)
            except ValueError:
                raise self.fail(block.line, f"wanted a number for {name}, as in {name}=2; got {part}") from None
        return leaves


def parse_lesson(text: str, name: str = "lesson") -> Lesson:
    """Read a lesson; `name` says in messages which text it is.

    >>> lesson = parse_lesson('''key: sums
    ... number: 1
    ... title: Sums
    ... about: what a sum does
    ... minutes: 2
    ... mistakes: same-to-all
    ... summary: A sum hands on what arrives.
    ...
    ... ## A sum
    ...
    ... The sum of `a` and `b` is {value f}.
    ...
    ... ```circuit
    ... formula: f = a + b
    ... leaves: a=2 b=3
    ... about: Two leaves go into a sum.
    ... ```
    ... ''')
    >>> lesson.title, fill_placeholders(lesson.screens[0].body[0], lesson.screens[0].figure)
    ('Sums', 'The sum of `a` and `b` is 5.')
    """
    reader = _LessonReader(text, name)
    head = reader.blocks[0]
    needed = ("key", "number", "title", "about", "minutes", "summary")
    fields = reader.read_fields(_Block("head", 1, head.lines), (*needed, "mistakes"), needed)
    mistakes = tuple(fields.get("mistakes", "").replace(",", " ").split())
    for key in mistakes:
        if key not in MISTAKES:
            near = suggest_name(key, MISTAKES)
            raise reader.fail(head.line, f"{key} is no mistake{near}; the mistakes are {', '.join(MISTAKES)}")
    screens = tuple(_read_screens(reader))
    if not screens:
        raise reader.fail(1, "a lesson needs a screen: a line that begins with ## and a text")
    return Lesson(
        key=fields["key"],
        number=_read_count(reader, "number", fields["number"]),
        title=fields["title"],
        about=fields["about"],
        minutes=_read_count(reader, "minutes", fields["minutes"]),
        mistakes=mistakes,
        summary=fields["summary"],
        screens=screens,
    )


def _read_count(reader: _LessonReader, name: str, text: str) -> int:
    if not text.isdecimal():
        raise reader.fail(1, f"wanted a whole number as {name}; got {short_repr(text)}")
    return int(text)


def _read_screens(reader: _LessonReader) -> Iterator[Screen]:
    """Read the screens: a heading begins a text, a block of questions or a drawing is a screen of its own."""
    own: list[_Block] = []
    for block in reader.blocks[1:]:
        if block.kind == "title" and own:
            yield _read_text_screen(reader, own)
            own = []
        if block.kind in ("questions", "draw"):
            if own:
                yield _read_text_screen(reader, own)
            own = []
            yield _read_questions(reader, block) if block.kind == "questions" else _read_draw(reader, block)
        elif block.kind != "text" or any(line.strip() for line in block.lines):
            own.append(block)
    if own:
        yield _read_text_screen(reader, own)


def _read_text_screen(reader: _LessonReader, blocks: Sequence[_Block]) -> TextScreen:
    first = blocks[0]
    if first.kind != "title":
        raise reader.fail(first.line, "a text begins with a line `## Title`")
    body: list[str] = []
    figure: Figure | None = None
    guess: Guess | None = None
    widget: dict[str, str] | None = None
    for block in blocks[1:]:
        if block.kind == "text":
            body += [" ".join(part.split()) for part in re.split(r"\n\s*\n", "\n".join(block.lines)) if part.strip()]
        elif block.kind == "circuit":
            figure = _read_figure(reader, block)
        elif block.kind == "guess" and figure:
            guess = _read_guess(reader, block, figure)
        elif block.kind == "python":
            widget = {"kind": "python", "code": "\n".join(block.lines).strip("\n")}
        elif block.kind in WIDGETS:
            widget = {"kind": block.kind, **reader.read_fields(block, ("formula", "leaves", "about", "length"))}
        else:
            wanted = "circuit, guess (after its circuit), questions, draw, python or " + ", ".join(WIDGETS)
            raise reader.fail(block.line - 1, f"wanted a block {wanted}; got {block.kind}")
    words = sum(len(_WORD.findall(part)) for part in body)
    if words > MAX_WORDS:
        raise reader.fail(first.line, f"a text screen has at most {MAX_WORDS} words; this one has {words}")
    for part in body:
        _check_placeholders(reader, first.line, part, figure, None)
    return TextScreen(first.lines[0], tuple(body), figure, guess, widget)


def _read_figure(reader: _LessonReader, block: _Block) -> Figure:
    fields = reader.read_fields(block, ("formula", "leaves", "show", "about"), ("formula", "about"))
    circuit = reader.read_circuit(block, fields)
    leaves = reader.read_leaves(block, fields.get("leaves", ""), circuit)
    missing = [name for name in circuit.inputs if name not in leaves]
    if missing:
        raise reader.fail(block.line, f"the circuit needs a value for {missing[0]}, as in `leaves: {missing[0]}=2`")
    show = fields.get("show", "end")
    titles = [circuit.title(node) for node in circuit.functions]
    if show not in POSITIONS and show not in titles:
        raise reader.fail(block.line, f"wanted show: {', '.join((*POSITIONS, *titles))}; got {show}")
    figure = Figure(fields["formula"], leaves, show, fields["about"])
    _check_placeholders(reader, block.line, figure.about, figure, None)
    return figure


def _read_guess(reader: _LessonReader, block: _Block, figure: Figure) -> Guess:
    fields = reader.read_fields(block, ("ask", "answer", "set"), ("ask", "answer"))
    leaves = reader.read_leaves(block, fields.get("set", ""), _circuit_of(figure.formula))
    guess = Guess(fields["ask"], fields["answer"], leaves)
    _check_placeholders(reader, block.line, guess.ask, figure, guess)
    _check_placeholders(reader, block.line, f"{{new {guess.answer}}}", figure, guess)
    return guess


def _check_placeholders(
    reader: _LessonReader, line: int, text: str, figure: Figure | None, guess: Guess | None
) -> None:
    """Refuse a placeholder that the figure cannot fill."""
    try:
        filled = fill_placeholders(text, figure, guess)
    except WiregradError as error:
        raise reader.fail(line, str(error)) from None
    if "{" in filled or "}" in filled:
        raise reader.fail(line, f"a placeholder is {{value f}} or {{send f->e}}; got {short_repr(filled)}")


def _read_questions(reader: _LessonReader, block: _Block) -> QuestionScreen:
    fields = reader.read_fields(block, ("formula", "leaves", "kinds", "seed", "each"), ("formula", "kinds"))
    circuit = reader.read_circuit(block, fields)
    known = (*POSERS, *DRAFTERS)
    kinds = tuple(fields["kinds"].replace(",", " ").split())
    for kind in kinds:
        if kind not in known:
            raise reader.fail(block.line, f"wanted kinds out of {', '.join(known)}; got {kind}")
    if len(set(kinds)) < len(kinds):
        raise reader.fail(block.line, f"a block asks each kind once; got {' '.join(kinds)}")
    leaves = reader.read_leaves(block, fields.get("leaves", ""), circuit)
    seed = _read_count(reader, "seed", fields.get("seed", "1"))
    each = _read_count(reader, "each", fields.get("each", "1"))
    return QuestionScreen(fields["formula"], leaves, kinds, seed, max(1, each))


def _read_draw(reader: _LessonReader, block: _Block) -> DrawScreen:
    fields = reader.read_fields(block, ("formula",), ("formula",))
    reader.read_circuit(block, fields)
    return DrawScreen(fields["formula"])


@cache
def _circuit_of(formula: str) -> QuizCircuit:
    return QuizCircuit(parse_formula(formula))


def fill_placeholders(text: str, figure: Figure | None, guess: Guess | None = None) -> str:
    """Put the numbers of a figure into a text; `{new ...}` are those at the leaves of a guess.

    >>> figure = Figure("f = (a + b) * c", {"a": 2, "b": -3, "c": 10}, "end", "")
    >>> fill_placeholders("`f` is {value f}; {local_ f->c} times {grad f} goes to `c`.", figure)
    '`f` is −10; (−1) times 1 goes to `c`.'
    """

    def fill(match: re.Match[str]) -> str:
        new, quantity, factor, subject = match.groups()
        if figure is None:
            raise FileFormatError(f"{match[0]} needs a circuit beside the text")
        leaves = {**figure.leaves, **(guess.leaves if guess and new else {})}
        number = _measure(_circuit_of(figure.formula), leaves, quantity, subject.split())
        return show_factor(number) if factor else show_number(number)

    return _PLACEHOLDER.sub(fill, text)


def _measure(circuit: QuizCircuit, leaves: Mapping[str, float], quantity: str, subject: Sequence[str]) -> float:
    """Return the number that a placeholder stands for."""
    run = circuit.run(leaves)
    whole = " ".join(subject)
    if quantity == "value":
        return run.value(_find_node(circuit, whole))
    if quantity == "grad":
        return run.upstream(_find_node(circuit, whole))
    if quantity in ("local", "send"):
        wire = _find_wire(circuit, whole)
        return (run.local(wire) if quantity == "local" else run.sent(wire)) or 0.0
    if quantity == "count":
        return _count(circuit, subject)
    if quantity in ("predict", "change") and len(subject) == 2:
        return _nudge(run, subject[0], float(subject[1]), quantity)
    if quantity == "nudge" and len(subject) == 1:
        return float(subject[0])
    wanted = "value, grad, local, send, count, nudge, predict or change"
    raise FileFormatError(f"wanted {wanted} in a placeholder; got {quantity} {whole}".rstrip())


def _find_node(circuit: QuizCircuit, title: str) -> int:
    for node in circuit.nodes:
        if circuit.title(node) == title:
            return node
    raise FileFormatError(f"{title} is not in the circuit; it has {', '.join(map(circuit.title, circuit.nodes))}")


def _find_wire(circuit: QuizCircuit, text: str) -> tuple[int, int]:
    """Return the wire that `f->e` names: the one along which f sends back to e."""
    reader, arrow, source = text.partition("->")
    if not arrow:
        raise FileFormatError(f"a wire is written f->e: f sends back to e; got {text}")
    node, end = _find_node(circuit, reader.strip()), _find_node(circuit, source.strip())
    for wire in circuit.wires:
        if wire[0] == node and circuit.source_of(wire) == end:
            return wire
    raise FileFormatError(f"no wire leads from {source.strip()} to {reader.strip()}")


def _count(circuit: QuizCircuit, subject: Sequence[str]) -> int:
    counts = {
        "nodes": len(circuit.functions),
        "leaves": len(circuit.leaves),
        "wires": sum(circuit.fan.values()),
        "splitters": sum(max(0, fan - 1) for fan in circuit.fan.values()),
    }
    if len(subject) == 2 and subject[0] == "readers":
        return circuit.fan[_find_node(circuit, subject[1])]
    if len(subject) == 1 and subject[0] in counts:
        return counts[subject[0]]
    raise FileFormatError(f"wanted count {', '.join(COUNTS)} or readers NAME; got count {' '.join(subject)}")


def _nudge(run: QuizRun, name: str, by: float, quantity: str) -> float:
    """Return how far the output moves when a leaf does: as its gradient predicts, or as it really does."""
    circuit = run.owner
    node = _find_node(circuit, name)
    if quantity == "predict":
        return run.upstream(node) * by
    moved = circuit.run({**run.leaves, name: run.leaves[name] + by})
    return moved.value(circuit.root) - run.value(circuit.root)


@dataclass(frozen=True)
class BuiltPart:
    """One part of a learner's own autodiff: what it is, whether it works, and what is said of it."""

    title: str
    right: bool
    text: str

    def __str__(self) -> str:
        return f"{self.title}: {self.text}"


@dataclass(frozen=True, repr=False)
class BuildReport:
    """What `check_build` found; as a text, one line for each part."""

    parts: tuple[BuiltPart, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every part is right."""
        return all(part.right for part in self.parts)

    def __repr__(self) -> str:
        last = (
            "Complete: this is where wg.Value begins." if self.is_complete else "Go on with the first part that is not."
        )
        return "\n".join([*map(str, self.parts), last])


Built = Callable[[Mapping[str, Any]], Any]
BUILD_SEED = 14
BUILD_PARTS: dict[str, tuple[str, Built]] = {
    "a product goes back": ("p = a * b; f = p * c", lambda v: v["a"] * v["b"] * v["c"]),
    "a sum goes back": ("s = a + b; f = s * c", lambda v: (v["a"] + v["b"]) * v["c"]),
    "a value used twice": ("p = x * a; y = p + x", lambda v: v["x"] * v["a"] + v["x"]),
    "the order": ("p = x * a; q = p + x; y = q * p", lambda v: _build_diamond(v["x"], v["a"])),
    "a tanh goes back": ("n = x * w + b; o = tanh(n)", lambda v: (v["x"] * v["w"] + v["b"]).tanh()),
}
"""The parts of an autodiff that have a gradient: the formula of each, and the same with the class of the learner."""


def _build_diamond(x: Any, a: Any) -> Any:
    p = x * a
    return (p + x) * p


def check_build(value_class: Callable[[float], Any]) -> BuildReport:
    """Check a learner's own autodiff, part by part; lesson 14 builds one.

    The class takes a number. Its instances have `data` and `grad`, add, multiply, `tanh()` and `backward()`.

    >>> class Value:
    ...     def __init__(self, data):
    ...         self.data, self.grad = data, 0.0
    >>> print(check_build(Value).parts[0])
    it holds a number: right
    >>> print(check_build(Value).parts[1])
    it computes forward: raised TypeError: unsupported operand type(s) for *: 'Value' and 'Value'
    """
    parts = [
        _check_part("it holds a number", lambda: _check_leaf(value_class(2.5))),
        _check_part("it computes forward", lambda: _check_forward(value_class)),
    ]
    for title, (formula, build) in BUILD_PARTS.items():
        parts.append(_check_part(title, partial(_check_gradient, value_class, formula, build)))
    return BuildReport(tuple(parts))


def _check_part(title: str, check: Callable[[], str]) -> BuiltPart:
    """Run the check of a part; an empty answer means that it is right."""
    # The learner's code may raise anything.
    try:
        text = check()
    except Exception as error:
        text = f"raised {type(error).__name__}: {error}"
    return BuiltPart(title, not text, text or "right")


def _check_leaf(leaf: Any) -> str:
    if leaf.data != 2.5:
        return f"Value(2.5).data should be 2.5; it is {leaf.data!r}"
    return "" if leaf.grad == 0 else f"the gradient of a new value should be 0; it is {leaf.grad!r}"


def _check_forward(value_class: Callable[[float], Any]) -> str:
    a, b, c = value_class(1.5), value_class(-2.0), value_class(4.0)
    found = (a * b + c).data
    return "" if found == 1.0 else f"1.5 × (−2) + 4 is 1; got {found!r}"


def _check_gradient(value_class: Callable[[float], Any], formula: str, build: Built) -> str:
    """Compare the gradients of all leaves; name the mistake that the first wrong one shows."""
    source = QuestionSource(parse_formula(formula), BUILD_SEED)
    for number in range(len(source.owner.leaves)):
        question = source.draw("leaf", number)
        leaves = {name: value_class(value) for name, value in question.leaves.items()}
        build(leaves).backward()
        name = source.owner.title(question.target[0])
        found = float(leaves[name].grad)
        verdict = judge_answer(source, question, found)
        if not verdict.right:
            at = ", ".join(f"{each} = {show_number(value)}" for each, value in question.leaves.items())
            wanted = f"At {at} the gradient of {name} in {formula} is {show_number(question.answer or 0.0)}"
            return f"{verdict.title}. {wanted}; got {show_number(found)}. {verdict.text}"
    return ""


@cache
def load_course() -> tuple[Lesson, ...]:
    """Return the lessons of the package, in their order.

    >>> load_course()[0].title
    'A formula is a circuit'
    """
    folder = files("wiregrad.learn") / "course"
    texts = sorted((entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".md"))
    return tuple(parse_lesson(text, name) for name, text in texts)


def read_lesson_files(paths: Sequence[str | Path]) -> list[Lesson]:
    """Return the lessons of Markdown files; each has a key of its own, under which progress is kept."""
    lessons: dict[str, Lesson] = {}
    for path in paths:
        lesson = read_lesson_file(path)
        if lesson.key in lessons:
            raise FileFormatError(f"{path}: another lesson has the key {lesson.key} already; give each its own")
        lessons[lesson.key] = lesson
    return list(lessons.values())


def read_lesson_file(path: str | Path) -> Lesson:
    """Return the lesson of a Markdown file, all of whose questions can be asked."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is not text in UTF-8") from None
    lesson = parse_lesson(text, str(path))
    check_questions(lesson)
    return lesson


def check_questions(lesson: Lesson) -> None:
    """Raise `FileFormatError` if a circuit of the lesson offers no clear question of a kind that is asked for."""
    for screen in lesson.screens:
        if not isinstance(screen, QuestionScreen):
            continue
        source = QuestionSource(parse_formula(screen.formula), screen.seed, screen.leaves)
        for kind in screen.kinds:
            try:
                source.draw(kind, 0)
            except NoQuestionError as error:
                raise FileFormatError(f"lesson {lesson.key}: {error}; choose another circuit or kind") from None


def choose_title(lessons: Sequence[Lesson] | None, title: str | None = None) -> str:
    """Return the title of a page of lessons: the given one, that of the only lesson, or a general one.

    >>> choose_title(None), choose_title(load_course()[:1]), choose_title(load_course()[:2], "11b")
    ('Learn backpropagation', 'A formula is a circuit', '11b')
    """
    if title is not None:
        return title
    if lessons is None or tuple(lessons) == load_course():
        return PAGE_TITLE
    return lessons[0].title if len(lessons) == 1 else "Lessons"


def build_course_data(lessons: Sequence[Lesson] | None = None, title: str | None = None) -> dict[str, Any]:
    """Return what the page of the lessons holds, as plain data.

    >>> build_course_data()["course"]["schema"]
    1
    """
    name = choose_title(lessons, title)
    kinds = {TextScreen: "text", QuestionScreen: "questions", DrawScreen: "draw"}
    found = []
    for lesson in load_course() if lessons is None else lessons:
        screens = [{**asdict(screen), "type": kinds[type(screen)]} for screen in lesson.screens]
        found.append({**asdict(lesson), "screens": screens})
    heading = COURSE_TITLE if name == PAGE_TITLE else name
    return {"course": {"schema": COURSE_SCHEMA, "title": name, "heading": heading, "lessons": found}}


def render_course(lessons: Sequence[Lesson] | None = None, title: str | None = None) -> str:
    """Return the lessons as one HTML file that needs no network.

    >>> render_course().startswith("<!doctype html>")
    True
    """
    return render_page(build_course_data(lessons, title), choose_title(lessons, title))


ROUND_SEEDS: Final = 1000
"""How far the seeds of two rounds of a lesson are apart."""
ANSWER_LINE: Final = "a:"
MISTAKE_LINE: Final = "m:"
OPEN: Final = "open"
CLEARED: Final = "cleared"
MISTAKES: Final = tuple(sorted({key.rpartition(".")[2] for key in TITLES} - NAMELESS))
"""The keys of all mistakes: the catalogue that `mistakes` of a lesson chooses from."""


@dataclass(frozen=True)
class MetMistake:
    """A mistake of a lesson: still open, or put right since."""

    key: str
    kind: str
    state: str


@dataclass(frozen=True)
class LessonProgress:
    """Where a learner is in one lesson; `logs` have the lines of each screen, by its index from 0."""

    seen: tuple[int, ...] = ()
    round: int = 0
    logs: Mapping[int, Sequence[str]] = field(default_factory=dict)
    met: tuple[MetMistake, ...] = ()
    answered: int = 0
    first: int = 0
    done: bool = False


class _RememberingSource(QuestionSource):
    """Draws every question once: a log is played again at each answer."""

    def __init__(self, circuit: CircuitGraph, seed: int, leaves: Mapping[str, float]) -> None:
        super().__init__(circuit, seed, leaves)
        self._drawn: dict[tuple[str, int], Question] = {}

    def draw(self, kind: str, number: int) -> Question:
        question = self._drawn.get((kind, number))
        if question is None:
            question = self._drawn[kind, number] = super().draw(kind, number)
        return question


@cache
def _open_source(formula: str, leaves: tuple[tuple[str, float], ...], seed: int) -> QuestionSource:
    return _RememberingSource(parse_formula(formula), seed, dict(leaves))


def open_quiz(screen: QuestionScreen, round_number: int = 0) -> Quiz:
    """Return the quiz of a screen; every round has numbers of its own."""
    seed = screen.seed + ROUND_SEEDS * round_number
    return Quiz(_open_source(screen.formula, tuple(screen.leaves.items()), seed), kinds=screen.kinds, each=screen.each)


def play_log(screen: QuestionScreen, round_number: int, log: Sequence[str]) -> Quiz:
    """Return the quiz of a screen as far as it was answered; its `question` is the one that is asked, if any."""
    quiz = open_quiz(screen, round_number)
    quiz.next()
    for line in log:
        if quiz.question is None:
            break
        is_right = quiz.records[-1].right
        if line == "next" and is_right:
            quiz.next()
        elif line == "hint" and not is_right:
            quiz.hint()
        elif line.startswith(ANSWER_LINE):
            quiz.check(line.removeprefix(ANSWER_LINE))
    return quiz


def _list_quiz_mistakes(quiz: Quiz) -> Iterator[MetMistake]:
    """Yield the mistakes with a name, and whether their kind has been answered twice in a row since."""
    cleared = quiz.results.cleared_kinds
    for record in quiz.records:
        kind = record.question.kind
        for key in record.mistakes:
            if name_met_mistake(key, kind):
                yield MetMistake(key, kind, CLEARED if kind in cleared else OPEN)


def _list_logged_mistakes(log: Sequence[str], is_complete: bool) -> Iterator[MetMistake]:
    """Yield the mistakes of a drawing or of flat code: open until what they were made in is put right."""
    waiting: list[tuple[str, str]] = []
    for line in log:
        if line.startswith(MISTAKE_LINE):
            kind, _, key = line.removeprefix(MISTAKE_LINE).partition(" ")
            waiting.append((key, kind))
            continue
        state = OPEN if line == "shown" else CLEARED
        yield from (MetMistake(key, kind, state) for key, kind in waiting if name_met_mistake(key, kind))
        waiting.clear()
    state = CLEARED if is_complete else OPEN
    yield from (MetMistake(key, kind, state) for key, kind in waiting if name_met_mistake(key, kind))


@cache
def count_flat_lines(formula: str) -> int:
    """Return how many lines the backward pass of a formula has, as flat code asks for them.

    >>> count_flat_lines("e = a + b; f = e * c")
    4
    """
    circuit = QuizCircuit(parse_formula(formula))
    return sum(bool(node != circuit.root and circuit.active[node] and circuit.readers[node]) for node in circuit.nodes)


def is_screen_over(lesson: Lesson, at: int, progress: LessonProgress) -> bool:
    """Return whether all that a screen asks for is answered, drawn or written."""
    screen = lesson.screens[at]
    log = progress.logs.get(at, ())
    if isinstance(screen, DrawScreen):
        return "next" in log
    if isinstance(screen, QuestionScreen):
        return play_log(screen, progress.round, log).question is None
    if screen.widget is None or screen.widget["kind"] != "flat":
        return True
    accepted = [line for line in log if not line.startswith(MISTAKE_LINE)]
    return len(accepted) >= count_flat_lines(screen.widget.get("formula", ""))


def sum_up_lesson(lesson: Lesson, progress: LessonProgress) -> LessonProgress:
    """Return the progress with what its logs add up to: questions, mistakes, and whether the lesson is done."""
    met: dict[str, MetMistake] = {}
    answered = first = 0
    for at, screen in enumerate(lesson.screens):
        log = progress.logs.get(at, ())
        if isinstance(screen, QuestionScreen):
            quiz = play_log(screen, progress.round, log)
            answered += sum(record.right for record in quiz.records)
            first += sum(record.is_clean for record in quiz.records)
            mistakes = _list_quiz_mistakes(quiz)
        else:
            mistakes = _list_logged_mistakes(log, is_screen_over(lesson, at, progress))
        for mistake in mistakes:
            name = name_met_mistake(mistake.key, mistake.kind)
            if name not in met or met[name].state != OPEN:
                met[name] = mistake
    seen = all(at in progress.seen for at, screen in enumerate(lesson.screens) if isinstance(screen, TextScreen))
    over = all(is_screen_over(lesson, at, progress) for at in range(len(lesson.screens)))
    is_open = any(mistake.state == OPEN for mistake in met.values())
    done = progress.done or (seen and over and not is_open)
    return replace(progress, met=tuple(met.values()), answered=answered, first=first, done=done)
