"""The commands that open a page in the browser or write it as one HTML file: `explore`, `learn` and `quiz`.

`PRESETS` holds the example circuits that can be opened by name; the menu of the page has the same ones
(`web/src/state/presets.ts`, held equal by a test).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from wiregrad.api import Circuit, Run
from wiregrad.backends import interpreter
from wiregrad.cli.command_base import (
    ANSWER_SCHEMA,
    EXIT_FOUND,
    STDIO,
    TARGET_HELP,
    CommandFailure,
    CommandTarget,
    ExampleCommand,
    FrameworkTarget,
    complete_file_names,
    encode_lines,
    escape_control_characters,
    join_endings,
    json_option,
    parse_target,
    refuse_unknown_options,
    to_plain_data,
    write_output,
)
from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import WiregradError, suggest_name
from wiregrad.frontends import parse_formula
from wiregrad.ir.columns import normalize_name
from wiregrad.lazy import load_module_lazily
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz import QuestionSource, Quiz, judge_answer
from wiregrad.learn.quiz_run import Verdict
from wiregrad.learn.teaching import (
    MAX_TEXT,
    PAGE_KINDS,
    QuestionSet,
    SitePage,
    build_pages,
    build_sheet,
    create_key,
    draw_questions,
    export_site,
    grade_answers,
    grade_files,
    list_json_files,
    read_gradebook,
    read_json_file,
    read_key,
    read_question_file,
    render_gradebook,
)

if TYPE_CHECKING:
    from wiregrad.api import diagnostics
    from wiregrad.explorer import local_server, page_data
    from wiregrad.inspect import flight_recorder
    from wiregrad.learn import lessons
else:
    # A file needs no server, and the server builds its own page.
    page_data = load_module_lazily("wiregrad.explorer.page_data")
    local_server = load_module_lazily("wiregrad.explorer.local_server")
    # Most targets are no saved trainings.
    diagnostics = load_module_lazily("wiregrad.api.diagnostics")
    flight_recorder = load_module_lazily("wiregrad.inspect.flight_recorder")
    # A quiz needs neither the page nor a server.
    lessons = load_module_lazily("wiregrad.learn.lessons")


class Preset(NamedTuple):
    """A formula and the initial values of its inputs."""

    formula: str
    leaves: dict[str, float]


def _make_network() -> Preset:
    hidden = [f"h{k} = tanh(x1*u{k} + x2*v{k} + b{k})" for k in (1, 2, 3)]
    leaves = {"x1": 1, "u1": 0.5, "x2": -2, "v1": 0.25, "b1": 0.1, "u2": -0.75, "v2": 0.3, "b2": 0, "u3": 0.2}
    leaves |= {"v3": -0.4, "b3": -0.3, "w1": 0.8, "w2": -0.6, "w3": 0.4, "c": 0.1}
    return Preset("; ".join([*hidden, "o = tanh(h1*w1 + h2*w2 + h3*w3 + c)"]), leaves)


def _make_chain(length: int) -> Preset:
    names = ["x", *(f"h{k}" for k in range(1, length + 1))]
    steps = [f"{out} = tanh({into})" for into, out in pairwise(names)]
    return Preset("; ".join(steps), {"x": 2.5})


PRESETS: dict[str, Preset] = {
    "expression": Preset("e = a + b; f = e * c", {"a": 2, "b": -3, "c": 10}),
    "fan-out": Preset("y = x*x + x", {"x": 3}),
    "neuron": Preset(
        "n = x1*w1 + x2*w2 + b; o = tanh(n)", {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": 6.8813735870195432}
    ),
    "sigmoid": Preset(
        "d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q",
        {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3},
    ),
    "router": Preset("m = maximum(a, b); r = relu(c); y = 2*m + r", {"a": 3, "b": -1, "c": -2}),
    "softmax": Preset("s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)", {"z1": 1, "z2": 2, "z3": 0.5}),
    "mlp": _make_network(),
    "vanishing": _make_chain(20),
    "nan": Preset("l = log(q); t = p * l; L = -t", {"p": 0, "q": 0}),
}


MAX_PATH_LENGTH = 4096
"""Longer texts are formulas, not paths."""
DEFAULT_PRESET = "expression"
"""The example that opens when no formula is given."""


def _explore_target(
    formula: str | None,
    values: Sequence[str],
    output: str | None,
    source: bool,
    browser: bool,
    port: int,
    address: str | None,
) -> None:
    formula = formula or DEFAULT_PRESET
    if output is not None:
        _check_ending(output)
    refuse_unknown_options(explore_command, formula, values)
    flight_path = _find_flight(formula)
    if flight_path is not None:
        _explore_flight(flight_path, values, output, browser, port)
        return
    preset = PRESETS.get(formula)
    text = formula if preset is None else preset.formula
    target = parse_target(text, values)
    circuit, run = run_target(target, {} if preset is None else preset.leaves)
    known_formula = text if _is_formula(circuit, text) else None
    if output is not None:
        _save_page(output, circuit, run, source, known_formula)
        return
    session = page_data.ExplorerSession(circuit, run, source=source, formula=known_formula)
    local_server.open_explorer(session, port=port, address=address or local_server.LOOPBACK_ADDRESS, browser=browser)


def _find_flight(text: str) -> Path | None:
    """Return the path of a saved training, if the text is one."""
    if len(text) > MAX_PATH_LENGTH or "\0" in text or text in PRESETS:
        return None
    path = Path(text)
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            return path if flight_recorder.is_flight(file.read(200)) else None
    except OSError:
        return None


def _explore_flight(path: Path, values: Sequence[str], output: str | None, browser: bool, port: int) -> None:
    if values or output is not None:
        raise click.UsageError(f"{path.name} is a saved training: it takes no values, and is shown in the browser only")
    diagnostics.open_flight(path, flight_recorder.load_flight(path), port=port, browser=browser)


def run_target(target: CommandTarget, defaults: Mapping[str, float]) -> tuple[Circuit, Run]:
    """Return the circuit of a target and a run of it; an input without a value gets its default, or else 1.

    If there are several outputs, or an array, the gradient is that of the sum of all their elements.

    >>> run_target(parse_target("a * b", ["a=3"]), {})[1].grads
    {'a': 1.0, 'b': 3.0}
    """
    circuit, values = target.trace_circuit()
    ones = {name: _make_ones(circuit.type_of(circuit.index(name))) for name in circuit.inputs}
    known = {normalize_name(name): value for name, value in defaults.items()}
    point = ones | known | dict(values)
    missing = [name for name in circuit.inputs if name not in known and name not in values]
    if missing and values:
        names = ", ".join(missing[:5]) + " and others" * (len(missing) > 5)
        click.echo(f"note: inputs without a value start at 1: {names}", err=True)
    # Without values, ones may flip a branch of a traced function; then the page shows a note.
    run = Run.from_backend_run(
        interpreter.run_all_outputs(circuit, interpreter.bind_inputs(circuit, [point], {}), check=bool(values))
    )
    if isinstance(target, FrameworkTarget):
        target.note_differences(run)
    return circuit, run


def _make_ones(kind: WireType) -> WireValue:
    ones: WireValue = np.ones(kind.shape, kind.dtype)[()]
    return ones


def _is_formula(circuit: Circuit, text: str) -> bool:
    """Return whether a text is the formula of a circuit, and not the name of its file."""
    try:
        return parse_formula(text) == circuit
    except WiregradError:
        return False


PAGE_ENDINGS = (".html", ".htm")
PRINTING_ADVICE = "; a browser prints a page: chromium --headless --print-to-pdf=FILE.pdf FILE.html"


def _check_ending(output: str, endings: Sequence[str] = PAGE_ENDINGS) -> str:
    """Return the ending of a file that is to be written; raise for one that says another form than will be in it."""
    ending = "" if output == STDIO else Path(output).suffix.lower()
    if ending and ending not in endings:
        advice = PRINTING_ADVICE if ending == ".pdf" else ""
        raise click.UsageError(f"wanted a file that ends in {join_endings(endings)}; got {output}{advice}")
    return ending


def _save_page(output: str, circuit: Circuit, run: Run, source: bool, formula: str | None) -> None:
    data = page_data.build_file_data(circuit, run, source=source, formula=formula)
    if "note" in data:
        click.echo(f"note: {data['note']}", err=True)
    write_output(output, encode_lines(page_data.render_page(data, circuit.name)))


explore_command = ExampleCommand(
    "explore",
    example='explore "e = a + b; f = e * c" a=2 b=-3 c=10',
    params=[
        click.Argument(["formula"], required=False, metavar="[FORMULA]", shell_complete=complete_file_names),
        click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
        click.Option(
            ["-o", "--output"], type=click.Path(), metavar="FILE", help="Write one HTML file instead; - is stdout."
        ),
        click.Option(["--source"], is_flag=True, help="Show the lines of code that made the nodes."),
        click.Option(["--browser/--no-browser"], default=True, help="Open the browser, or print the address only."),
        click.Option(["--port"], type=click.IntRange(0, 65535), default=0, help="The port; by default any free one."),
        click.Option(
            ["--allow-remote", "address"],
            metavar="ADDRESS",
            help="Serve at this address of the machine, so that others can connect; not encrypted.",
        ),
    ],
    callback=_explore_target,
    help="Step through the circuit on a page in the browser.\n\n"
    f"Without a formula the page shows an example; the names of examples are {', '.join(PRESETS)}. "
    "Inputs without a value start at 1. Ctrl-C stops it.",
    short_help="Step through the circuit on a page in the browser.",
    epilog=TARGET_HELP.format(what="FORMULA"),
    # A formula may begin with a minus sign.
    context_settings={"ignore_unknown_options": True},
)


WORDS_HELP = "Type an answer, or hint, next, quit."


def _start_quiz(
    formula: str | None,
    values: Sequence[str],
    preset: str | None,
    seed: int,
    kinds: Sequence[str],
    count: int | None,
    answers: str | None,
    output: str | None,
    solutions: bool,
    document: bool,
) -> None:
    if solutions and output is None:
        raise click.UsageError("--solutions needs -o FILE: solutions follow the questions of a page")
    circuit, leaves = _choose_circuit(formula, values, preset)
    chosen = tuple(kinds) or PAGE_KINDS
    if output is not None:
        if document or answers is not None:
            raise click.UsageError("-o writes a page of questions; --json and --answers cannot be combined with it")
        _check_ending(output)
        text = (formula or "") if preset is None else PRESETS[preset].formula
        if not _is_formula(circuit, text):
            raise click.UsageError("-o writes a page, which needs the circuit as a formula")
        questions = QuestionSet(text[:MAX_TEXT], text, seed, leaves, chosen, count)
        write_output(output, encode_lines(build_sheet(questions, output, solutions=solutions).html))
        return
    if document or answers is not None:
        source = QuestionSource(circuit, seed, leaves)
        _print_document(source, chosen, count, None if answers is None else _read_answers(answers))
    else:
        _ask_questions(Quiz(circuit, seed, leaves=leaves, kinds=chosen), count)


def _choose_circuit(
    formula: str | None, values: Sequence[str], preset: str | None
) -> tuple[Circuit, Mapping[str, Any]]:
    """Return the circuit and the leaves that keep their value; with a preset, the formula may be its first value."""
    pairs = list(values)
    if preset is not None:
        if preset not in PRESETS:
            near = suggest_name(preset, PRESETS)
            raise click.UsageError(f"there is no preset {preset}{near}; the presets are {', '.join(PRESETS)}")
        pairs = [*([formula] if formula else []), *pairs]
        formula = PRESETS[preset].formula
    refuse_unknown_options(quiz_command, formula or "", pairs)
    if formula is None:
        raise click.UsageError("wanted a formula, a file or --preset NAME")
    return parse_target(formula, pairs).trace_circuit()


def _read_answers(path: str) -> list[str]:
    """Return the answers, one in each line of a file; `-` is stdin."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CommandFailure(f"cannot read {path}: {reason}") from None
    return text.splitlines()


def _print_document(
    source: QuestionSource, kinds: Sequence[str], count: int | None, answers: Sequence[str] | None
) -> None:
    """Print the questions as JSON, with verdicts if there are answers; exit with 1 if one of them is not right."""
    questions = list(draw_questions(source, kinds, count))
    if not questions:
        raise source.no_question(kinds)
    if answers is not None and len(answers) > len(questions):
        raise click.UsageError(f"there are {len(questions)} questions; got {len(answers)} answers")
    entries = []
    all_right = True
    for k, question in enumerate(questions):
        entry: dict[str, Any] = {"id": k + 1, **_document_question(question)}
        if answers is not None:
            verdict = judge_answer(source, question, answers[k]) if k < len(answers) else None
            entry["verdict"] = _document_verdict(verdict)
            all_right = all_right and verdict is not None and verdict.right
        entries.append(entry)
    asked = {question.kind for question in questions}
    answer = {
        "output": source.owner.circuit.output,
        "seed": source.seed,
        "fixed": source.fixed,
        "questions": entries,
        "skipped": [kind for kind in kinds if kind not in asked],
    }
    data = {"schema": ANSWER_SCHEMA, "question": "quiz", "answer": to_plain_data(answer)}
    click.echo(json.dumps(data, indent=2, allow_nan=False))
    if not all_right:
        raise click.exceptions.Exit(EXIT_FOUND)


def _document_question(question: Question) -> dict[str, Any]:
    names = [name for name in question.__dataclass_fields__ if name not in ("seed", "follow_up", "picture")]
    document = {name: getattr(question, name) for name in names}
    follow_up = question.follow_up
    return {**document, "follow_up": None if follow_up is None else _document_question(follow_up)}


def _document_verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    """Return a verdict as data; None where no answer was given."""
    if verdict is None:
        return None
    names = ("right", "key", "title", "text", "number")
    return {name: getattr(verdict, name) for name in names}


def _ask_questions(quiz: Quiz, count: int | None) -> None:
    """Ask until all is answered, the input ends or someone types quit; then print what was right."""
    click.echo(WORDS_HELP, err=True)
    while count is None or len(quiz.records) < count:
        question = quiz.next()
        if question is None or not _ask_question(quiz, question):
            break
    answered = [record for record in quiz.records if record.answers]
    if answered:
        _print_text(f"\n{quiz.results}")


def _ask_question(quiz: Quiz, question: Question) -> bool:
    """Ask one question until it is answered or left; return whether the quiz goes on."""
    _print_text(f"\n{question}")
    while True:
        line = _read_line()
        if line is None or line in ("quit", "q", "exit"):
            return False
        if line in ("next", "n", "skip"):
            return True
        if line in ("hint", "h", "?"):
            _print_text(quiz.hint())
            continue
        if not line:
            continue
        verdict = quiz.check(line)
        _print_text(str(verdict))
        if verdict.right:
            return True


def _read_line() -> str | None:
    """Read a line from stdin; None at its end."""
    if sys.stdin is None:
        return None
    if sys.stdin.isatty():
        click.echo("> ", nl=False, err=True)
    try:
        line = sys.stdin.readline()
    except OSError:
        return None
    return line.strip() if line else None


def _print_text(text: str) -> None:
    click.echo(escape_control_characters(text))


SOLUTIONS_HELP = "Put the solutions behind the questions of a page, for a teacher."
quiz_command = ExampleCommand(
    "quiz",
    example="quiz --preset neuron --seed 7",
    params=[
        click.Argument(["formula"], required=False, metavar="[FORMULA]", shell_complete=complete_file_names),
        click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
        click.Option(["--preset"], metavar="NAME", help=f"An example circuit: {', '.join(PRESETS)}."),
        click.Option(
            ["--seed"], type=click.IntRange(0, 2**32 - 1), default=7, show_default=True, help="Which questions."
        ),
        click.Option(
            ["--kind", "kinds"],
            multiple=True,
            type=click.Choice(PAGE_KINDS),
            metavar="KIND",
            help=f"Ask this kind alone; may come several times: {', '.join(PAGE_KINDS)}.",
        ),
        click.Option(["--count"], type=click.IntRange(1, 1000), help="How many questions."),
        click.Option(
            ["--answers"],
            metavar="FILE",
            help="Check answers, one in each line, and print JSON; - is stdin. The exit code is 1 if one is not right.",
        ),
        click.Option(
            ["-o", "--output"], metavar="FILE", help="Write a page of questions as one HTML file; - is stdout."
        ),
        click.Option(["--solutions"], is_flag=True, help=SOLUTIONS_HELP),
        json_option(),
    ],
    callback=_start_quiz,
    help="Ask questions about the gradients of a circuit, and name the mistake behind an answer.\n\n"
    "Inputs that are given keep their value; all others are drawn. With --json the questions are printed with their "
    "answers.",
    short_help="Ask questions about the gradients of a circuit.",
    epilog=TARGET_HELP.format(what="FORMULA"),
    context_settings={"ignore_unknown_options": True},
)


def _run_learn(
    paths: Sequence[str],
    listed: bool,
    output: str | None,
    browser: bool,
    port: int,
    folder: str | None,
    graded: bool,
    solutions: bool,
    key_file: str | None,
    new_key: str | None,
    grade: bool,
    gradebook: bool,
    title: str | None,
) -> None:
    """Do what was asked for; without an option, open the lessons."""
    actions = {
        "--list": listed,
        "-o": output is not None and not gradebook and not grade,
        "--export": folder is not None,
        "--new-key": new_key is not None,
        "--grade": grade,
        "--gradebook": gradebook,
    }
    chosen = [option for option, is_chosen in actions.items() if is_chosen]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} cannot be combined; give one of them")
    if solutions and (folder is None or graded):
        reason = "a graded page holds no answers" if graded else "solutions follow the questions of a page"
        raise click.UsageError(f"--solutions needs --export DIR without --graded: {reason}")
    if new_key is not None:
        create_key(new_key)
        click.echo(f"wrote {new_key}: keep it, and give it to nobody", err=True)
    elif folder is not None:
        _export_pages(folder, paths, _need_key(key_file, "--graded") if graded else None, solutions, title)
    elif grade:
        _grade_files(paths, _need_key(key_file, "--grade"), output)
    elif gradebook:
        _print_gradebook(paths, _need_key(key_file, "--gradebook"), output, title or DEFAULT_TITLE)
    else:
        _open_lessons(_read_lessons(paths), title, listed, output, browser, port)


def _read_lessons(paths: Sequence[str]) -> Sequence[lessons.Lesson]:
    """Return the lessons of Markdown files, or those of the package if there are none."""
    for path in paths:
        if not path.endswith(LESSON_ENDING):
            raise click.UsageError(
                f"wanted lessons, files whose names end in {LESSON_ENDING}; got {path}; wiregrad learn --export DIR "
                f"{path} writes the pages of question sets"
            )
    return lessons.read_lesson_files(paths) or lessons.load_course()


LESSON_ENDING = ".md"
DEFAULT_TITLE = "Learn"


def _open_lessons(
    course: Sequence[lessons.Lesson], title: str | None, listed: bool, output: str | None, browser: bool, port: int
) -> None:
    """Print the names of lessons, write their page, or open it."""
    if listed:
        for lesson in course:
            _print_text(str(lesson))
    elif output is not None:
        _check_ending(output)
        write_output(output, encode_lines(lessons.render_course(course, title)))
    else:
        data = lessons.build_course_data(course, title)
        name = lessons.choose_title(course, title)
        local_server.open_explorer(
            lambda authority: local_server.build_page_app(data, name, authority),
            port=port,
            browser=browser,
        )


def _need_key(path: str | None, option: str) -> bytes:
    if path is None:
        raise click.UsageError(f"{option} needs --key FILE; wiregrad learn --new-key FILE makes one")
    return read_key(path)


def _export_pages(folder: str, paths: Sequence[str], key: bytes | None, solutions: bool, title: str | None) -> None:
    """Write a page with the lessons and a page for each question set; without files, those of the package."""
    texts = [path for path in paths if path.endswith(LESSON_ENDING)]
    sets = [questions for path in paths if path not in texts for questions in read_question_file(path)]
    if not paths:
        sets = [QuestionSet(name.capitalize(), PRESETS[name].formula) for name in EXPORTED_PRESETS]
    pages = build_pages(sets, key=key, solutions=solutions)
    if texts or not paths:
        course = _read_lessons(texts)
        about = f"{len(course)} lesson{'s' * (len(course) != 1)}"
        name = lessons.choose_title(course)
        pages.insert(0, SitePage("lessons.html", name, lessons.render_course(course, title), about))
    for path in export_site(folder, pages, title or DEFAULT_TITLE):
        click.echo(path)


def _grade_files(paths: Sequence[str], key: bytes, output: str | None) -> None:
    """Print the results of a file, or a list of those of several; exit with 1 if one of several cannot be graded."""
    if not paths:
        raise click.UsageError("--grade needs files of answers, or a folder of them")
    if len(paths) == 1 and not Path(paths[0]).is_dir():
        _write_json(output, grade_answers(read_json_file(paths[0]), key, paths[0]))
        return
    graded = grade_files(list_json_files(paths), key)
    _write_json(output, list(graded.results))
    for problem in graded.problems:
        click.echo(escape_control_characters(f"not graded: {problem}"), err=True)
    if graded.problems:
        raise click.exceptions.Exit(EXIT_FOUND)


def _write_json(output: str | None, data: object) -> None:
    _check_ending(output or STDIO, [".json"])
    write_output(output or STDIO, encode_lines(json.dumps(data, indent=2, allow_nan=False)))


EXPORTED_PRESETS = ("expression", "fan-out", "neuron", "sigmoid", "router")
"""The presets that are exported where no question set is given: the worked examples."""


GRADEBOOK_ENDINGS = (*PAGE_ENDINGS, ".csv")


def _print_gradebook(paths: Sequence[str], key: bytes, output: str | None, title: str) -> None:
    """Print the table, or write it as a page or CSV; exit with 1 if a file was changed or is not signed."""
    ending = _check_ending(output or STDIO, GRADEBOOK_ENDINGS)
    texts = [path for path in paths if path.endswith(LESSON_ENDING)]
    files = [path for path in paths if path not in texts]
    if not files:
        raise click.UsageError("--gradebook needs files of results, or a folder of them")
    book = read_gradebook(list_json_files(files), key, _read_lessons(texts))
    if output is None:
        _print_text(str(book))
    elif ending == ".csv":
        write_output(output, book.to_csv().encode())
    else:
        write_output(output, encode_lines(render_gradebook(book, title)))
    if book.doubtful:
        raise click.exceptions.Exit(EXIT_FOUND)


learn_command = ExampleCommand(
    "learn",
    example="learn -o learn.html",
    params=[
        click.Argument(["paths"], nargs=-1, metavar="[FILE]...", shell_complete=complete_file_names),
        click.Option(["--list", "listed"], is_flag=True, help="Print the names of the lessons."),
        click.Option(
            ["-o", "--output"],
            metavar="FILE",
            help="Write the lessons or the gradebook as one HTML file, or results; - is stdout.",
        ),
        click.Option(["--browser/--no-browser"], default=True, help="Open the browser, or print the address only."),
        click.Option(["--port"], type=click.IntRange(0, 65535), default=0, help="The port; by default any free one."),
        click.Option(
            ["--export", "folder"],
            metavar="DIR",
            help="Write a site: FILEs are lessons in Markdown and question sets in JSON.",
        ),
        click.Option(["--graded"], is_flag=True, help="Export questions without answers, to be graded; needs --key."),
        click.Option(["--solutions"], is_flag=True, help=SOLUTIONS_HELP),
        click.Option(["--title"], help="The title of the page of lessons, of the exported site, or of the class."),
        click.Option(["--new-key"], metavar="FILE", help="Make a key, readable by you alone."),
        click.Option(["--key", "key_file"], metavar="FILE", help="The key that signs sets and results."),
        click.Option(
            ["--grade"],
            is_flag=True,
            help="Grade FILEs or folders, answers from graded pages; print signed results. 1 if one cannot be graded.",
        ),
        click.Option(
            ["--gradebook"],
            is_flag=True,
            help="Print a table of FILEs or folders, results and saved progress; -o writes a page, or .csv. 1 if "
            "one changed.",
        ),
    ],
    callback=_run_learn,
    help="Open the lessons on backpropagation: texts with live circuits, and questions that know which mistake was "
    "made. FILEs are lessons of your own.\n\n"
    "Progress stays in the browser; the page needs no network. For teachers: export lessons and questions as a site, "
    "grade answers, and keep a gradebook.",
    short_help="Open the lessons on backpropagation; for teachers, export and grade.",
)
