"""`wiregrad convert`, and circuit files in the place of formulas, as a person uses them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import wiregrad as wg
from wiregrad.cli import cli, main
from wiregrad.cli.circuit_commands import CONVERT_ENDINGS
from wiregrad.cli.circuit_commands import LANGUAGE_ENDINGS as CODE
from wiregrad.cli.command_base import CIRCUIT_FORMS, TargetCommand
from wiregrad.cli.command_base import FORM_ENDINGS as WHOLE

from ..support.limits import PATIENCE, start_process
from ..support.sampling import sample_one, sample_pairs

EXPRESSION = "e = a + b; f = e * c"
CIRCUIT = wg.circuit(EXPRESSION)
AT = ["a=2", "b=-3", "c=10"]

MODEL = """\
import numpy as np
def loss(x, w): return np.sum(np.tanh(x @ w))
def turns(x): return x * 2 if x > 0 else x
"""
ARRAYS = ["x=[[1, 2], [3, 4]]", "w=[1, -1]"]


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path: Path) -> wg.Circuit:
    readers = {".wg": lambda: wg.load(path), ".json": lambda: wg.Circuit.from_json(path.read_bytes())}
    return readers.get(path.suffix, lambda: wg.Circuit.from_text(path.read_text()))()


@pytest.mark.parametrize("first", WHOLE)
@pytest.mark.parametrize("second", WHOLE)
def test_a_circuit_survives_every_pair_of_forms(
    capsys: pytest.CaptureFixture[str], here: Path, first: str, second: str
) -> None:
    assert run(capsys, "convert", EXPRESSION, f"one{first}") == (0, "", f"wrote one{first}\n")
    assert run(capsys, "convert", f"one{first}", f"two{second}") == (0, "", f"wrote two{second}\n")
    assert read(here / f"two{second}") == CIRCUIT
    assert sorted(path.name for path in here.iterdir()) == [f"one{first}", f"two{second}"]


STARTS = {".svg": "<svg", ".dot": "digraph", ".mmd": "flowchart", ".py": '"""Value', ".h": "#ifndef"}


@pytest.mark.parametrize("ending", [ending for ending in CONVERT_ENDINGS if ending not in WHOLE])
def test_the_name_of_the_file_says_picture_or_language(
    capsys: pytest.CaptureFixture[str], here: Path, ending: str
) -> None:
    done = run(capsys, "convert", EXPRESSION, f"out{ending}")
    text = (here / f"out{ending}").read_text()

    assert done == (0, "", f"wrote out{ending}\n")
    assert text.startswith(STARTS.get(ending, "// Value and gradient of f"))
    assert text.endswith("\n")


def test_a_picture_at_values_shows_what_flows(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    run(capsys, "convert", EXPRESSION, "bare.dot")
    run(capsys, "convert", EXPRESSION, "full.dot", *AT)

    assert "-10" in (here / "full.dot").read_text()
    assert "-10" not in (here / "bare.dot").read_text()


def test_a_picture_of_several_outputs_is_of_the_bare_circuit(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "two.txt").write_text("input x\na = exp x\nb = sin x\noutput a, b\n")

    assert run(capsys, "draw", "two.txt", "x=1") == run(capsys, "draw", "two.txt")
    assert run(capsys, "convert", "two.txt", "two.svg", "x=1")[0] == 0


VERBS = {
    verb: ["--of", "a"] if any(param.opts == ["--of"] and param.name == "name" for param in command.params) else []
    for verb, command in cli.commands.items()
    if isinstance(command, TargetCommand) and verb not in ("convert", "explore")
}
"""The commands that take a formula and values, and the options that each of them needs."""
BEFORE_VALUES = {"find": ["op:add"]}
"""What a command needs between the formula and the values."""


def test_the_list_of_verbs_is_whole() -> None:
    assert {*VERBS, "convert", "completion", "explore", "learn", "quiz", "doctor", "bench"} == set(cli.commands)


@pytest.mark.parametrize(("verb", "ending"), sample_pairs(VERBS, WHOLE))
def test_a_circuit_file_stands_where_a_formula_can(
    capsys: pytest.CaptureFixture[str], here: Path, verb: str, ending: str
) -> None:
    run(capsys, "convert", EXPRESSION, f"model{ending}")
    rest = [*BEFORE_VALUES.get(verb, []), *AT]
    asked = run(capsys, verb, *VERBS[verb], f"model{ending}", *rest)

    assert asked == run(capsys, verb, *VERBS[verb], EXPRESSION, *rest)
    assert asked[0] == 0


def test_a_circuit_file_takes_arrays_and_whole_numbers(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "model.py").write_text(MODEL)
    (here / "whole.txt").write_text("input x, n: int64, yes: bool\ny = where yes x x\noutput y\n")
    run(capsys, "convert", "model.py:loss", "loss.wg", *ARRAYS)

    assert "gradients  x=[[" in run(capsys, "grad", "loss.wg", *ARRAYS)[1]
    assert "must be float64[2]" in run(capsys, "grad", "loss.wg", ARRAYS[0], "w=1")[2]
    assert "gradients  x=1" in run(capsys, "grad", "whole.txt", "x=3", "n=2", "yes=1")[1]


def test_what_steered_python_is_kept_in_files_and_noted_of_code(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "model.py").write_text(MODEL)
    run(capsys, "convert", "model.py:turns", "turns.json", "x=3")

    assert "steered" in json.loads((here / "turns.json").read_text())
    assert "note: Python branched on values" in run(capsys, "convert", "turns.json", "turns.py")[2]


TWO = "input x: float64[3], y\ns = sum x axes=[-1] keepdims=false\na = multiply s y\nb = exp x\noutput a, b\n"
CHOOSING = {
    verb: of for verb, of in VERBS.items() if any(param.name == "chosen" for param in cli.commands[verb].params)
}


@pytest.mark.parametrize("verb", CHOOSING)
def test_one_of_several_outputs_can_be_chosen(capsys: pytest.CaptureFixture[str], here: Path, verb: str) -> None:
    (here / "two.txt").write_text(TWO.replace("sum x", "max x"))
    (here / "one.txt").write_text(TWO.replace("sum x", "max x").replace("output a, b", "output a"))
    of = ["--of", "y"] if CHOOSING[verb] else []
    rest = [*BEFORE_VALUES.get(verb, []), "x=[1, 2, 3]", "y=2"]
    asked = run(capsys, verb, *of, "two.txt", *rest, "--output", "a")

    assert asked == run(capsys, verb, *of, "one.txt", *rest)
    assert asked[0] == 0
    assert "it has x, y, s, a, b" in run(capsys, verb, *of, "two.txt", *rest, "--output", "q")[2]


@pytest.mark.parametrize("verb", [verb for verb in CHOOSING if verb not in ("blame", "run", "find")])
@pytest.mark.parametrize("outputs", ["a, b", "b"])
def test_where_an_output_has_to_be_chosen_the_option_is_named(
    capsys: pytest.CaptureFixture[str], here: Path, verb: str, outputs: str
) -> None:
    (here / "model.txt").write_text(TWO.replace("output a, b", f"output {outputs}"))
    of = ["--of", "y"] if CHOOSING[verb] else []
    code, out, err = run(capsys, verb, *of, "model.txt", "x=[1, 2, 3]", "y=2")

    assert (code, out) == (3, "")
    assert "--output NAME" in err
    assert "with_output" not in err


def test_an_output_of_a_function_can_be_chosen(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "model.py").write_text("def two(x, y): return x * y, x + y\n")
    code, _, err = run(capsys, "grad", "model.py:two", "x=2", "y=3")

    assert (code, "choose one with --output NAME" in err) == (3, True)
    assert "gradients  x=3 y=2" in run(capsys, "grad", "model.py:two", "x=2", "y=3", "--output", "f0")[1]


def test_blame_looks_at_every_output_of_a_circuit(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "two.txt").write_text("input x\na = exp x\nb = log x\noutput a, b\n")

    assert run(capsys, "blame", "two.txt", "x=1")[0] == 0
    assert run(capsys, "blame", "two.txt", "x=0")[0] == 1


@pytest.mark.parametrize("verb", ["grad", "blame", "paths", "kinks", "check", "draw"])
def test_a_circuit_at_values_that_steer_another_way_is_refused(
    capsys: pytest.CaptureFixture[str], here: Path, verb: str
) -> None:
    (here / "model.py").write_text(MODEL)
    run(capsys, "convert", "model.py:turns", "turns.wg", "x=3")
    of = ["--of", "x"] if CHOOSING.get(verb) else []
    code, out, err = run(capsys, verb, *of, "turns.wg", "x=-1")

    assert (code, out) == (3, "")
    assert err.startswith("wiregrad: this circuit was traced where x > 0.0 was True (model.py:3); at x = -1.0")
    assert run(capsys, verb, *of, "turns.wg", "x=2")[2] == ""


def piped(*args: str, given: bytes = b"", **env: str) -> bytes:
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()", *args]
    done = subprocess.run(
        command, input=given, capture_output=True, check=True, env={**os.environ, **env}, timeout=PATIENCE
    )

    assert done.stderr == b""
    return done.stdout


@pytest.mark.parametrize("form", sample_one(CIRCUIT_FORMS))
def test_commands_can_be_joined(form: str) -> None:
    data = piped("convert", EXPRESSION, "-", "--to", form)

    assert b"gradients  a=10 b=10 c=-1" in piped("grad", "-", *AT, given=data)
    assert piped("convert", "-", "-", "--from", form, "--to", "text", given=data).decode() == CIRCUIT.to_text()


def test_what_is_written_is_utf_8_whatever_the_terminal_speaks() -> None:
    text = piped("convert", "β * β", "-", "--to", "text", PYTHONIOENCODING="ascii").decode("utf-8")

    assert wg.Circuit.from_text(text) == wg.circuit("β * β")


@pytest.mark.parametrize(
    "text",
    [
        "y = x * x\r\n",
        "\N{BYTE ORDER MARK}circuit y\r\ninput x\r\ny = multiply x x\r\noutput y\r\n",
        "# a comment\n  input x\ny = multiply x x\noutput y",
        "output = x * x",
        "input = x\ncircuit = input * input",
    ],
)
def test_a_formula_and_a_text_form_are_told_apart(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path, text: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    (here / "given.txt").write_bytes(text.encode())

    assert "gradients  x=6" in run(capsys, "grad", "-", "x=3")[1]
    assert "gradients  x=6" in run(capsys, "grad", "given.txt", "x=3")[1]


def test_forms_can_be_named_where_endings_do_not_say_them(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "odd.name").write_text(CIRCUIT.to_text())

    assert run(capsys, "convert", "--from", "text", "odd.name", "odd.out", "--to", "json")[0] == 0
    assert wg.Circuit.from_json((here / "odd.out").read_bytes()) == CIRCUIT
    assert "odd.name is a file, but its name does not end in .wg" in run(capsys, "grad", "odd.name", *AT)[2]


BROKEN = {
    "cut.wg": (b"\x10\0\0\0\0\0\0\0{", "cut.wg cannot be read as a circuit: it is cut off"),
    "empty.wg": (b"", "it has 0 bytes"),
    "list.json": (b"[1, 2]", "cannot read list.json as a circuit: not a circuit: wanted an object"),
    "twice.json": (b'{"a": 1, "a": 2}', "the key 'a' appears twice in one object"),
    "half.json": (b"{", "not JSON"),
    "bytes.txt": (b"\xff\xfe\0", "cannot read bytes.txt: it is not utf-8 text"),
    "names.txt": (b"circuit f\ninput x\nf = add x q\noutput f\n", "names.txt as a circuit: line 3: no node is called"),
    "nothing.json": (b"", "cannot read nothing.json as a circuit: not JSON: the text is empty"),
    "zero.json": (
        b'{"format": "wiregrad-circuit", "version": 1, "name": "f", "nodes": [{"op": "constant", "value": [], '
        b'"type": "float64[0,999999999,999999999,999999999]"}], "outputs": [{"name": "f", "node": 0}]}',
        "node 0 (constant): wanted a type",
    ),
    "picture.txt": ("f: 1 input\n\n╭───╮".encode(), "no line begins with circuit, input or output"),
    "empty.txt": (b"", "the formula is empty"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("verb", ["grad", "code", "convert"])
def test_a_file_that_cannot_be_read_is_told(
    capsys: pytest.CaptureFixture[str], here: Path, verb: str, name: str
) -> None:
    data, message = BROKEN[name]
    (here / name).write_bytes(data)
    code, out, err = run(capsys, verb, name, *(["out.json"] if verb == "convert" else []))

    assert (code, out) == (3, "")
    assert message in err
    assert "Traceback" not in err
    assert [path.name for path in here.iterdir()] == [name]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["nowhere.wg", "out.json"], 2, "there is no file nowhere.wg; wanted a formula, a circuit file (.wg, .json"),
        (["folder.json", "out.txt"], 3, "cannot read folder.json: it is a folder"),
        (["a*b", "-", "--from", "json"], 2, "there is no file a*b; --from is the form of a file or of stdin"),
        (["folder.wg", "out.txt"], 3, "cannot read folder.wg: it is a folder"),
        (["x*x", "folder.json"], 3, "cannot write folder.json: it is a folder"),
        (["x*x", "no/such/out.json"], 3, "cannot write no/such/out.json: there is no such folder; create it first"),
        (["x*x", "out.png"], 2, "the name 'out.png' does not say the form; wanted a file that ends in .wg, .json"),
        (["x*x", "out"], 2, "the name 'out' does not say the form"),
        (["x*x", ""], 2, "the name '' does not say the form"),
        (["x*x", "-"], 2, "stdout has no ending"),
        (["x*x", "nul\0.json"], 3, "no file can be called"),
        (["nul\0.json", "out.json"], 2, "there is no file"),
        (["x*x"], 2, "Missing argument 'OUT'"),
        (["x*x", "out.json", "y=1"], 2, "there is no input called 'y'"),
        (["x +", "out.json"], 3, "^"),
        (["x*x", "out.json", "--to", "xml"], 2, "'xml' is not one of"),
        (["x*x", "out.json", "--form", "text"], 2, "there is no option --form"),
    ],
)
def test_a_mistake_leaves_no_file(
    capsys: pytest.CaptureFixture[str], here: Path, args: list[str], code: int, message: str
) -> None:
    (here / "folder.json").mkdir()
    (here / "folder.wg").mkdir()
    got, out, err = run(capsys, "convert", *args)

    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert sorted(path.name for path in here.iterdir()) == ["folder.json", "folder.wg"]


def test_every_known_ending_is_named_where_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    err = run(capsys, "convert", "x*x", "out.png")[2]

    assert all(ending in err for ending in (*WHOLE, *CODE, ".svg", ".dot", ".mmd"))


def test_what_cannot_be_written_leaves_the_old_file(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "model.py").write_text(MODEL)
    (here / "out.js").write_text("old")
    code, _, err = run(capsys, "convert", "model.py:loss", "out.js", *ARRAYS)

    assert code == 3
    assert "wiregrad code --to numpy, or --expand" in err
    assert (here / "out.js").read_text() == "old"


def test_a_file_can_be_converted_in_place(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "f.txt").write_text(EXPRESSION)

    assert run(capsys, "convert", "f.txt", "f.txt")[0] == 0
    assert (here / "f.txt").read_text() == CIRCUIT.to_text()


def test_a_link_stays_and_what_it_points_to_is_replaced(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    (here / "real.json").write_text("old")
    (here / "link.json").symlink_to("real.json")
    run(capsys, "convert", EXPRESSION, "link.json")

    assert (here / "link.json").is_symlink()
    assert read(here / "real.json") == CIRCUIT


@pytest.mark.parametrize("form", sample_one(["json", "wg", "c"]))
def test_a_pipe_is_written_to_and_not_replaced(here: Path, form: str) -> None:
    os.mkfifo(here / "pipe")
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()"]
    with start_process([*command, "convert", EXPRESSION, "pipe", "--to", form], stderr=subprocess.PIPE):
        # Opening a pipe waits for the other side, in this process without a limit.
        data = subprocess.check_output(["cat", "pipe"], timeout=PATIENCE)

    assert data == piped("convert", EXPRESSION, "-", "--to", form)
    assert (here / "pipe").is_fifo()


def test_stdout_can_be_called_by_its_path() -> None:
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()"]
    line = [*command, "convert", EXPRESSION, "/dev/stdout", "--to", "json"]
    done = subprocess.run(line, capture_output=True, check=False, timeout=PATIENCE)

    assert (done.returncode, done.stderr) == (0, b"wrote /dev/stdout\n")
    assert done.stdout == piped("convert", EXPRESSION, "-", "--to", "json")


@pytest.mark.parametrize("name", ["pipe.json", "pipe.txt", "pipe.wg"])
def test_a_pipe_is_not_waited_for(capsys: pytest.CaptureFixture[str], here: Path, name: str) -> None:
    os.mkfifo(here / name)

    assert "is not a regular file but a device or a pipe" in run(capsys, "grad", name)[2]


def test_no_more_is_read_from_stdin_than_from_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wiregrad.cli.command_base.MAX_FILE_BYTES", 100)
    monkeypatch.setattr("sys.stdin", io.StringIO("x * x" + " " * 96))

    assert run(capsys, "grad", "-", "x=1")[0] == 3


@pytest.mark.parametrize("name", ["f.json", "f.txt", "-"])
def test_json_is_known_by_how_it_begins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path, name: str
) -> None:
    text = "\N{BYTE ORDER MARK}" + CIRCUIT.to_json()
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    (here / "f").write_text(text, encoding="utf-8")
    (here / "f").rename(here / name)

    assert "gradients  a=10 b=10 c=-1" in run(capsys, "grad", name, *AT)[1]


def test_a_circuit_file_is_not_thrown_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, out, err = run(capsys, "convert", "x*x", "-", "--to", "wg")

    assert (code, out) == (2, "")
    assert "name a file for it, or redirect stdout to one" in err


HOSTILE = """\
{"format": "wiregrad-circuit", "version": 1, "name": "f", "nodes": [
 {"op": "input", "names": ["a"]},
 {"op": "log", "inputs": [0], "names": ["f"], "place": ["x\\u001b[31m*/\\n", 1, 1], "group": "g\\u009b*/\\u202e"}
], "outputs": [{"name": "f", "node": 1}]}
"""


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "receipt"])
def test_control_characters_in_a_file_never_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, here: Path, verb: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    (here / "hostile.json").write_text(HOSTILE)
    query = ["op:log"] if verb == "find" else []
    _, out, err = run(capsys, verb, *VERBS[verb], "hostile.json", *query, "a=0")

    assert out
    assert not {"\x1b", "\x9b", "\u202e"} & set(out + err)


@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_are_shown_as_numbers_when_converted(
    capsys: pytest.CaptureFixture[str], here: Path, form: str
) -> None:
    (here / "hostile.json").write_text(HOSTILE)
    _, out, _ = run(capsys, "convert", "hostile.json", "-", "--to", form)

    assert out.replace("\n", "").isprintable()
    assert "\\u202e" in out


def test_the_shell_is_told_languages_forms_and_files() -> None:
    def completed(words: str, k: int) -> list[str]:
        out = piped(_WIREGRAD_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(k))
        return out.decode().split()

    assert {"plain,code", "plain,completion", "plain,convert"} <= set(completed("wiregrad co", 1))
    assert completed("wiregrad conv", 1) == ["plain,convert"]
    assert completed("wiregrad code --to c", 3) == ["plain,c", "plain,cuda"]
    assert completed("wiregrad convert model.wg out", 3) == ["file,out"]
    assert completed("wiregrad convert --from t", 3) == ["plain,text"]
