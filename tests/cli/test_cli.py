"""The command, as a person runs it."""

from __future__ import annotations

import io
import json
import math
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.cli import cli, main
from wiregrad.cli.command_base import read_value

from ..support.limits import PATIENCE


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


def test_grad_prints_every_node(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "grad", "e = a + b; f = e * c", "a=2", "b=-3", "c=10")
    rows = [line.split() for line in out.splitlines()]

    assert (code, err) == (0, "")
    assert "e a + b -1 de/da = 1, de/db = 1 10".split() in rows
    assert "f e * c -10 df/de = 10, df/dc = -1 1".split() in rows
    assert "values     e = -1, f = -10" in out
    assert "gradients  a=10 b=10 c=-1" in out


def test_grad_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "grad", "--json", "e = a + b; f = e * c", "a=2", "b=-3", "c=10")
    document = json.loads(out)

    assert code == 0
    assert document["schema"] == 1
    assert document["output"] == {"name": "f", "value": -10.0}
    assert document["grads"] == {"a": 10.0, "b": 10.0, "c": -1.0}
    assert document["nodes"][-1]["wires"][0] == {"source": "e", "local": 10.0, "sent": 10.0}


def test_json_has_no_numbers_that_json_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "grad", "where(x > 0, log(x), x)", "x=nan", "--json")
    document = json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))

    assert document["output"]["value"] == "nan"


def test_a_formula_may_begin_with_a_minus(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "grad", "-h**2", "h=3")

    assert code == 0
    assert "f = -9" in out


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["grad", "a +", "a=1"], 3, "^"),
        (["grad", "(" * 200], 3, "nest at most 100 deep"),
        (["grad", "a + b", "a=1"], 2, "no value for b"),
        (["grad", "a + b", "a=1", "b=2", "d=3"], 2, "no input called 'd'"),
        (["grad", "a + b", "a=1", "b=two"], 2, "wanted NAME=NUMBER, like a=2; got 'b=two'"),
        (["grad", "a + b", "a=1", "b=two"], 2, "a FILE.py:FUNCTION takes NAME=[NUMBERS] too"),
        (["grad", "p*2", "p=[[[0,0],[1,0]],0]"], 2, "all its rows have one length, as in [[1, 2], [3, 4]]"),
        (["grad", "p*2", "p=[1,two]"], 2, "a list has numbers alone"),
        (["draw", "a*b", "-o", "f.png"], 2, "got f.png; write FILE.svg, which browsers open, or a page with"),
        (["draw", "a*b", "-o", "f.xyz"], 2, "got f.xyz\n"),
        (
            ["explore", "a*b", "-o", "f.pdf"],
            2,
            "wanted a file that ends in .html or .htm; got f.pdf; a browser prints a page",
        ),
        (["branches", "a", "y = a*a", "a=2"], 2, "got 'y = a*a'; the formula comes first, and the node as --of a"),
        (["explain", "a", "a*a + a", "a=2"], 2, "got 'a*a + a'; the formula comes first, and the node as --of a"),
        (["quiz", "a*b", "--solutions"], 2, "--solutions needs -o FILE"),
        (["quiz", "a*b", "-o", "f.svg"], 2, "wanted a file that ends in .html or .htm; got f.svg\n"),
        (["grad", "a + b", "a=1", "b"], 2, "wanted NAME=NUMBER"),
        (["grad", "a + b", "a=1", "a=2", "b=1"], 2, "given twice"),
        (["grad"], 2, "Missing argument"),
        (["gard"], 2, "No such command"),
    ],
)
def test_a_mistake_is_told_on_stderr(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, message: str
) -> None:
    got, out, err = run(capsys, *args)

    assert got == code
    assert out == ""
    assert message in err
    assert "Traceback" not in err


def test_a_formula_may_be_written_as_people_write_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "grad", "y = 2x₁² + |w|", "x₁=3", "w=-1")

    assert (code, err) == (0, "")
    assert out.splitlines()[-1].split() == ["gradients", "x1=12", "w=-1"]


def test_a_leaf_that_may_not_be_meant_is_noted_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    note = "note: e is a leaf here, not the number 2.718...; for the exponential function write exp(x)\n"
    code, out, err = run(capsys, "grad", "e^x", "x=2", "e=3", "--json")

    assert (code, err) == (0, note)
    assert json.loads(out)["grads"]["e"] == 6.0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("e²".encode())))
    assert run(capsys, "grad", "-", "e=3")[2] == note


def test_control_characters_in_a_formula_are_shown_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "grad", "a \x1b[31m b")

    assert "\x1b" not in err


def test_a_condition_in_a_formula_has_no_slope(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "grad", "abs(x > 0) * x", "x=1")

    assert (code, err) == (0, "")
    assert "gradients  x=1" in out


def test_a_long_summary_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"quite_a_long_name_{k}" for k in range(12)]
    _, out, _ = run(capsys, "grad", "+".join(names), *(f"{name}=1" for name in names))

    assert out.splitlines()[-1].count("=1") == 12


def test_help_and_version_exit_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version")[0] == 0
    assert "Example: wiregrad grad" in run(capsys, "grad", "--help")[1]


def test_the_installed_command_runs() -> None:
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()", "grad", "x*x", "x=3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert "gradients  x=6" in done.stdout


def test_output_that_a_terminal_cannot_show_is_escaped() -> None:
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()", "grad", "β*β", "β=2"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=PATIENCE,
    )

    assert "gradients" in done.stdout


QUESTIONS = {
    "blame": (
        ["blame", "sqrt(x*x + y*y)", "x=0", "y=0"],
        1,
        "sqrt sent Inf back to x * x + y * y: upstream 1 times local Inf",
    ),
    "blame nothing": (["blame", "x*x", "x=1"], 0, "the output and all gradients are finite"),
    "explain": (["explain", "--of", "w", "tanh(w * x)", "w=50", "x=2"], 0, "saturated"),
    "paths": (["paths", "--of", "a", "(a + b) * c + a * a", "a=2", "b=-3", "c=10"], 0, "along 3 paths"),
    "branches": (["branches", "--of", "x", "x * x + x", "x=3"], 0, "x is used 3 times"),
    "kinks": (["kinks", "abs(x)", "x=0"], 0, "1 node on a kink"),
    "rounding": (["rounding", "(1 + x) - 1", "x=1e-9"], 0, "loses 9 digits"),
    "check": (["check", "tanh(x * w) + b", "x=2", "w=-3", "b=6.5"], 0, "all rules hold"),
    "draw": (["draw", "e = a + b; f = e * c", "a=2", "b=-3", "c=10"], 0, "value \N{MINUS SIGN}10"),
    "draw without values": (["draw", "tanh(x)"], 0, "tanh"),
}


@pytest.mark.parametrize("case", QUESTIONS, ids=list(QUESTIONS))
def test_questions_are_answered_in_sentences(capsys: pytest.CaptureFixture[str], case: str) -> None:
    args, wanted, words = QUESTIONS[case]
    code, out, err = run(capsys, *args)

    assert (code, err) == (wanted, "")
    assert words in out


@pytest.mark.parametrize("case", [case for case in QUESTIONS if not case.startswith("draw")])
def test_questions_are_answered_in_json(capsys: pytest.CaptureFixture[str], case: str) -> None:
    args, wanted, _ = QUESTIONS[case]
    code, out, _ = run(capsys, *args, "--json")
    document = json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))

    assert code == wanted
    assert (document["schema"], document["question"]) == (1, args[0])
    assert document["answer"]


def test_a_function_in_a_file_can_be_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("import numpy as np\n\n\ndef loss(x, scale=2.0):\n    return np.sum(np.log(x)) * scale\n")
    code, out, err = run(capsys, "blame", f"{model}:loss", "x=[1, 0]")

    assert (code, err) == (1, "")
    assert f"{model}:5" in out
    assert run(capsys, "grad", f"{model}:loss", "x=[1, 2]")[0] == 0
    assert "has no function called los; did you mean loss?" in run(capsys, "blame", f"{model}:los", "x=1")[2]
    assert "missing a required argument: 'x'" in run(capsys, "blame", f"{model}:loss")[2]
    assert "there is no file" in run(capsys, "blame", "nowhere.py:loss", "x=1")[2]


@pytest.mark.parametrize(
    ("ending", "start"), [("svg", "<svg"), ("dot", "digraph"), ("mmd", "flowchart"), ("txt", "f: 1 input")]
)
def test_draw_writes_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str, start: str) -> None:
    path = tmp_path / f"picture.{ending}"
    code, out, err = run(capsys, "draw", "x*x + x", "x=3", "--split", "-o", str(path))

    assert (code, out, err) == (0, "", f"wrote {path}\n")
    assert path.read_text(encoding="utf-8").startswith(start)


def test_a_file_does_not_see_the_words_of_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("import sys\nN = int(sys.argv[1]) if len(sys.argv) > 1 else 3\ndef f(x): return x**N\n")
    before = [*sys.argv]

    assert run(capsys, "run", f"{path}:f", "x=2")[:2] == (0, "8\n")
    assert sys.argv == before


def test_draw_says_which_endings_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "draw", "x*x", "-o", "picture.png")

    assert code == 2
    assert "wanted a file that ends in .svg, .dot, .mmd, .txt; got picture.png" in err


MODEL = '''\
"""Functions to ask about."""
import numpy as np
import wiregrad as wg

print("reading the model")
square = wg.circuit("y = x * x")
def logs(x): return np.log(x)
def two(x, w): return x * x, np.log(w)
def repeat(x, n):
    for _ in range(n):
        x = x * 2
    return x
def power(x, n: int): return x ** sum(1.0 for _ in range(n))
def scaled(x, times=2, mode="mean", twice=False):
    x = np.stack([x] * times)
    x = np.mean(x) if mode == "mean" else np.sum(x)
    return 2 * x if twice else x
def fails(x): raise RuntimeError("no luck")
def leaves(x): raise SystemExit(4)
def nothing(x): return None
def words(x): return "words"
def keyword(x, /, *, k=2.0): return np.sum(x) * k
log, unsigned = np.log, min
class Net:
    def __call__(self, x): return x * x
net = Net()
def bent(x): return np.array(x) @ np.ones(5)
'''


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


def line_of(text: str) -> int:
    return next(k for k, line in enumerate(MODEL.splitlines(), 1) if text in line)


@pytest.mark.parametrize("args", [["logs", "x=[0, 1]"], ["two", "x=1", "w=0"]], ids=["array", "two outputs"])
def test_blame_of_a_function_is_what_python_answers(
    capsys: pytest.CaptureFixture[str], model: str, args: list[str]
) -> None:
    code, out, _ = run(capsys, "blame", f"{model}:{args[0]}", *args[1:])
    names: dict[str, Any] = {}
    exec(compile(MODEL, model, "exec"), names)
    answer = wg.blame(names[args[0]], *([np.array([0.0, 1.0])] if args[0] == "logs" else [1.0, 0.0]))

    assert code == 1
    assert out == f"{answer}\n"


@pytest.mark.parametrize(
    "value",
    ["x=[{}]", "x=[[1], [1, 2]]", "x=[null]", "x=null", "x=None", "x=['a']", "x=[1", "x=", "=1", "x", "x=1,5", "x={1}"],
)
@pytest.mark.parametrize("target", ["x * x", "logs"])
def test_a_value_that_is_no_number_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], model: str, target: str, value: str
) -> None:
    code, out, err = run(capsys, "grad", f"{model}:logs" if target == "logs" else target, value)

    assert (code, out) == (2, "")
    assert "wanted NAME=NUMBER, like a=2; got" in err


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("pi", math.pi),
        ("π", math.pi),
        ("2*pi", 2.0 * math.pi),
        ("-pi/2", -0.5 * math.pi),
        ("1/3", 1.0 / 3.0),
        ("sqrt(2)", math.sqrt(2.0)),
        ("2^3", 8.0),
        ("exp(1)", math.e),
        ("1e-3", 0.001),
        ("-inf", -math.inf),
    ],
)
@pytest.mark.parametrize("target", ["x + 0", "same"])
def test_a_value_may_be_a_formula_of_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, target: str, value: str, number: float
) -> None:
    file = tmp_path / "same.py"
    file.write_text("def same(x):\n    return x + 0.0\n")
    code, out, _ = run(capsys, "grad", f"{file}:same" if target == "same" else target, f"x={value}", "--json")

    assert code == 0
    assert float(json.loads(out)["output"]["value"]) == number


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("e", "got 'x=e'; Euler's number is exp(1)"),
        ("1,5", "a decimal number has a point: 1.5"),
        ("y", "got 'x=y'"),
        ("1/0", "'x=1/0' is inf; a formula in place of a number must be finite"),
        ("log(-1)", "is nan"),
        ("3%", "the formula stops where a number"),
        ("sinn(2)", "did you mean sin?"),
        ("x" * 300, "wanted NAME=NUMBER"),
    ],
)
def test_a_formula_that_is_no_number_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], value: str, message: str
) -> None:
    code, out, err = run(capsys, "grad", "x * x", f"x={value}")

    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "words",
    [["a", "=", "2", "b", "=", "-3"], ["a=", "2", "b=", "-3"], ["a", "=2", "b", "=-3"], ["a = 2", "b=", "-3"]],
    ids=" ".join,
)
def test_there_may_be_spaces_around_the_sign_of_a_value(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(capsys, "run", "a * b", *words) == (0, "-6\n", "")


def test_an_infinity_behind_a_space_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "run", "a + 1", "a", "=", "-inf") == (0, "-Inf\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a * b", "a", "2"], "got 'a'; write a=2"),
        (["a * b", "a:2"], "got 'a:2'; write a=2"),
        (["a * b", "a==2"], "got 'a==2'; write a=2"),
        (["a * b", "a", "==", "2"], "got 'a==2'; write a=2"),
        (["a * b", "a=2,", "b=3"], "got 'a=2,'; values have spaces between them, and no commas"),
        (["a * b", "a=2,b=3"], "got 'a=2,b=3'; write a=2 b=3\n"),
        (["a * b", "a=2 b=3"], "got 'a=2 b=3'; write a=2 b=3, without quotes"),
        (["a * b", "a=2;", "b=3"], "got 'a=2;'; write a=2\n"),
        (["a * 2", "b=3"], "there is no input called 'b'; the input is a"),
        (["a * b", "a=1,2,3"], "got 'a=1,2,3'; a list stands in brackets: [1,2,3]"),
        (["a * b", "a=(1,2)"], "got 'a=(1,2)'; a list stands in brackets: [1,2]"),
        (["a * b", "--a", "2"], "there is no option --a; for a value write a=2"),
        (["a * b", "--a=2"], "there is no option --a; for a value write a=2"),
        (["a * b", "-a", "2"], "there is no option -a; for a value write a=2"),
        (["a", "*", "b", "a=2"], "got '*'; a formula with spaces stands in quotes: \"a * b\""),
        (["a", "-", "b", "a=2"], "got '-'; a formula with spaces stands in quotes"),
        (["a", __file__, "b", "a=2"], "a formula with spaces stands in quotes"),
        (["a * b", "a=", "b=3"], "got 'a='"),
    ],
)
def test_a_word_that_is_no_value_is_answered_with_what_to_write(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, out, err = run(capsys, "run", *words)

    assert (code, out) == (2, "")
    assert message in err


SHOW_FILE = """
import numpy as np
def show(x, mode="plain"):
    print(np.asarray(x.data if hasattr(x, "data") else x).dtype, np.shape(x), mode)
    return np.sum(x * 1.0)
def first(x, n: int):
    return x[n]
"""


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of functions, in which the command runs."""
    (tmp_path / "show.py").write_text(SHOW_FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("array", "shown", "total"),
    [
        (np.array([1.0, 2.0, 3.0]), "float64 (3,)", "6"),
        (np.ones((2, 3), np.float32), "float32 (2, 3)", "6"),
        (np.array([1.0, 2.0], ">f8"), "float64 (2,)", "3"),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), "float64 (2, 3)", "15"),
        (np.array(2.5), "float64 ()", "2.5"),
        (np.array(3), "float64 ()", "3"),
        (np.array([True, False]), "bool (2,)", "1"),
    ],
    ids=str,
)
def test_a_value_may_be_an_array_that_numpy_saved(
    capsys: pytest.CaptureFixture[str], arrays: Path, array: NDArray[Any], shown: str, total: str
) -> None:
    np.save(arrays / "data.npy", array)

    assert run(capsys, "run", "show.py:show", "x=@data.npy") == (0, f"{total}\n", f"{shown} plain\n")


def test_whole_numbers_in_a_file_stay_whole_and_are_noted(capsys: pytest.CaptureFixture[str], arrays: Path) -> None:
    np.save(arrays / "data.npy", np.arange(3))
    code, out, err = run(capsys, "run", "show.py:show", "x=@data.npy")

    assert (code, out) == (0, "3\n")
    assert err.startswith("note: x is an array of int64, which has no gradient; for one, save it as floats\nint64 (3,)")


def test_a_whole_number_in_a_file_is_one_where_the_parameter_says_so(
    capsys: pytest.CaptureFixture[str], arrays: Path
) -> None:
    np.save(arrays / "n.npy", np.array(1))

    assert run(capsys, "run", "show.py:first", "x=[5, 7]", "n=@n.npy") == (0, "7\n", "")


@pytest.mark.parametrize(
    ("table", "shown", "total"),
    [
        ("1,2,3\n4,5,6\n", "float64 (2, 3)", "21"),
        ("1,2,3\n", "float64 (3,)", "6"),
        ("\ufeff1\r\n2\r\n", "float64 (2,)", "3"),
        ("# width, height\n1, 2\n\n3, inf\n", "float64 (2, 2)", "Inf"),
        ("5", "float64 ()", "5"),
    ],
)
def test_a_value_may_be_a_table(
    capsys: pytest.CaptureFixture[str], arrays: Path, table: str, shown: str, total: str
) -> None:
    (arrays / "data.csv").write_bytes(table.encode())

    assert run(capsys, "run", "show.py:show", "x=@data.csv") == (0, f"{total}\n", f"{shown} plain\n")


def test_an_at_sign_is_text_where_the_parameter_takes_text(capsys: pytest.CaptureFixture[str], arrays: Path) -> None:
    assert run(capsys, "run", "show.py:show", "x=2", "mode=@home")[2] == "float64 () @home\n"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("x=@nowhere.npy", "there is no file nowhere.npy; wanted a file with an array"),
        ("x=@data.npz", "wanted an array in a file that ends in .npy or .csv, like x=@data.npy; got 'data.npz'"),
        ("x=@", "wanted an array in a file that ends in .npy or .csv"),
        ("x=data.npy", "got 'x=data.npy'; for the array in a file write x=@data.npy"),
    ],
)
def test_a_wrong_name_of_a_file_with_an_array_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], arrays: Path, value: str, message: str
) -> None:
    code, out, err = run(capsys, "run", "show.py:show", value)

    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("data.npy", b"hello", "data.npy: it is no complete .npy file"),
        ("data.npy", b"", "data.npy: it is no complete .npy file"),
        ("data.csv", b"", "data.csv: it has no numbers"),
        ("data.csv", b"# width\n", "data.csv: it has no numbers"),
        ("data.csv", b"width,height\n1,2\n", "line 1 has 'width', which is no number; a table has numbers alone"),
        ("data.csv", b"1,2\n3,,4\n", "line 2 has '', which is no number"),
        ("data.csv", b"1;2\n", "line 1 has '1;2', which is no number; a table has numbers alone, with commas"),
        ("data.csv", b"1,2\n3\n", "its lines have different counts of numbers"),
        ("data.csv", b"inf,1e999\n", "a number in it is too large; infinity is written inf"),
        ("data.csv", b"\xff\xfe", "it is not utf-8 text"),
    ],
)
def test_a_file_without_an_array_is_told(
    capsys: pytest.CaptureFixture[str], arrays: Path, name: str, data: bytes, message: str
) -> None:
    (arrays / name).write_bytes(data)
    code, out, err = run(capsys, "run", "show.py:show", f"x=@{name}")

    assert (code, out) == (3, "")
    assert f"cannot read {name}: " in err
    assert message in err
    assert "Traceback" not in err


class Bomb:
    """An object that does something when it is unpickled."""

    def __reduce__(self) -> Any:
        return (Path("exploded").touch, ())


@pytest.mark.parametrize(
    "array",
    [np.array([Bomb()], object), np.array(["a"]), np.zeros(2, [("a", float)])],
    ids=["objects", "text", "records"],
)
def test_an_array_of_something_else_than_numbers_is_refused_and_never_unpickled(
    capsys: pytest.CaptureFixture[str], arrays: Path, array: NDArray[Any]
) -> None:
    np.save(arrays / "data.npy", array, allow_pickle=True)
    code, _, err = run(capsys, "run", "show.py:show", "x=@data.npy")

    assert code == 3
    assert "array of numbers" in err
    assert not (arrays / "exploded").exists()


def test_text_stays_text_where_a_parameter_takes_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "chosen.py"
    file.write_text("def chosen(x, mode='sum'):\n    return x * len(mode)\n")
    code, out, _ = run(capsys, "grad", f"{file}:chosen", "x=2", "mode=pi", "--json")

    assert code == 0
    assert float(json.loads(out)["output"]["value"]) == 4.0


@pytest.mark.parametrize("value", ["[" * 300 + "]" * 300, "[" + "-" * 9000 + "1]", "[1" + "0" * 5000 + "]"])
def test_a_value_that_python_cannot_hold_is_wrong_usage(capsys: pytest.CaptureFixture[str], value: str) -> None:
    code, _, err = run(capsys, "grad", "x * x", f"x={value}")

    assert code == 2
    assert len(err) < 300


def test_a_formula_takes_no_arrays_and_says_what_does(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "grad", "x * x", "x=[1, 2]")

    assert code == 2
    assert "the inputs of a formula are numbers; got 'x=[1, 2]'" in err
    assert "FILE.py:FUNCTION takes arrays" in err


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("x=[1, 2.5, -3]", "[1.0, 2.5, -3.0]"),
        ("x=[.5, 1., inf, -inf, nan]", "[0.5, 1.0, inf, -inf, nan]"),
        ("x=[[1], [2]]", "[[1.0], [2.0]]"),
        ("x=-1_000", "-1000.0"),
        ("x= 1e3 ", "1000.0"),
        ("x=1+2j", "(1+2j)"),
    ],
)
def test_numbers_are_written_as_in_python(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, value: str, wanted: str
) -> None:
    path = tmp_path / "show.py"
    path.write_text("import numpy as np\ndef show(x):\n    print(x.data.tolist())\n    return np.sum(np.real(x))\n")
    _, _, err = run(capsys, "grad", f"{path}:show", value)

    assert err == f"{wanted}\n"


@pytest.mark.parametrize(
    ("args", "output"),
    [
        (["power", "x=2", "n=3"], 8.0),
        (["scaled", "x=3", "times=4"], 3.0),
        (["scaled", "x=3", "times=4", "mode=sum"], 12.0),
        (["scaled", "x=3", "times=4", 'mode="sum"'], 12.0),
        (["scaled", "x=3", "twice=true"], 6.0),
        (["scaled", "x=3", "twice=0"], 3.0),
        (["log", "x=1"], 0.0),
        (["net", "x=3"], 9.0),
        (["keyword", "x=[1, 2]"], 6.0),
        (["keyword", "x=[1, 2]", "k=10"], 30.0),
    ],
)
def test_a_parameter_says_what_kind_of_value_it_takes(
    capsys: pytest.CaptureFixture[str], model: str, args: list[str], output: float
) -> None:
    code, out, err = run(capsys, "grad", "--json", f"{model}:{args[0]}", *args[1:])

    assert (code, err) == (0, "reading the model\n")
    assert json.loads(out)["output"]["value"] == output


@pytest.mark.parametrize(
    ("head", "kinds"),
    [
        ("n: int", "int"),
        ("n: 'int'", "int"),
        ("n: int | None = None", "int"),
        ("n: float = 1", "float64"),
        ("n: int | float", "float64"),
        ("n: 'Unknown' = 1", "float64"),
        ("n=1", "int"),
        ("n=1.0", "float64"),
        ("n", "float64"),
        ("n: bool", "bool"),
        ("n: str", "str"),
    ],
)
def test_a_whole_number_stays_one_where_the_parameter_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, head: str, kinds: str
) -> None:
    path = tmp_path / "kinds.py"
    path.write_text(f"def f(x, {head}):\n    print(type(getattr(n, 'data', n)).__name__)\n    return x\n")
    _, _, err = run(capsys, "grad", f"{path}:f", "x=1", "n=3")

    assert err == f"{kinds}\n"


def test_a_whole_number_that_became_a_float_is_pointed_out(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, _, err = run(capsys, "grad", f"{model}:repeat", "x=1", "n=3")

    assert code == 3
    assert f"{model}:{line_of('range(n)')}" in err
    assert "x=1 and n=3 are floats here; for a whole number annotate the parameter: n: int" in err


FAILURES = {
    "raises": ("fails", "fails raised RuntimeError: no luck", "raise RuntimeError"),
    "leaves": ("leaves", "leaves raised SystemExit: 4", "raise SystemExit"),
    "returns None": ("nothing", "nothing returned nothing to make a circuit of", "def nothing"),
    "returns text": ("words", "words must return numbers or arrays", "def words"),
    "recorded wrongly": ("bent", "matmul needs arrays of one or more axes", "def bent"),
}


@pytest.mark.parametrize("verb", ["grad", "blame", "check", "draw"])
@pytest.mark.parametrize("case", FAILURES)
def test_a_function_that_fails_is_told_with_its_line(
    capsys: pytest.CaptureFixture[str], model: str, verb: str, case: str
) -> None:
    name, words, line = FAILURES[case]
    code, out, err = run(capsys, verb, f"{model}:{name}", "x=1")

    assert (code, out) == (3, "")
    assert words in err
    assert f"{model}:{line_of(line)}" in err
    assert "click" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("source", "words", "line"),
    [
        ("x = 1\ndef f(x:\n    return x\n", "SyntaxError: '(' was never closed", 2),
        ("import numpy\nimport no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'", 2),
        ("import sys\nsys.exit('enough')\n", "SystemExit: enough", 2),
        ("\0", "null bytes", None),
    ],
)
def test_a_file_that_cannot_be_read_is_told_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, source: str, words: str, line: int | None
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(source)
    code, out, err = run(capsys, "blame", f"{path}:f", "x=1")

    assert (code, out) == (3, "")
    assert words in err
    assert f"{path}:{line}" in err or line is None
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", ["grad", "blame", "check", "draw", "kinks", "rounding"])
def test_a_file_is_run_once(capsys: pytest.CaptureFixture[str], model: str, verb: str) -> None:
    _, out, err = run(capsys, verb, f"{model}:keyword", "x=1")

    assert (out + err).count("reading the model") == 1
    assert "reading the model" in err


@pytest.mark.parametrize("name", ["", ":", ":no.such", ":nowhere"])
def test_a_file_without_a_function_gets_the_list(capsys: pytest.CaptureFixture[str], model: str, name: str) -> None:
    code, _, err = run(capsys, "blame", f"{model}{name}", "x=1")

    assert code == 2
    assert "it has square, logs, two, repeat, power" in err


def test_a_circuit_in_a_file_can_be_asked(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, out, _ = run(capsys, "grad", f"{model}:square", "x=3")

    assert code == 0
    assert "gradients  x=6" in out
    assert "value 9" in run(capsys, "draw", f"{model}:square", "x=3")[1]
    assert "data" not in run(capsys, "draw", f"{model}:square")[1]


def test_draw_shows_functions_that_return_arrays(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, out, _ = run(capsys, "draw", f"{model}:logs", "x=[1, 2]")

    assert code == 0
    assert "log" in out


def test_arguments_that_do_not_fit_are_wrong_usage(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, _, err = run(capsys, "draw", f"{model}:two")

    assert code == 2
    assert "two(x, w): missing a required argument: 'x'" in err
    assert "min has no signature that Python can read" in run(capsys, "grad", f"{model}:unsigned", "x=1")[2]
    assert "got an unexpected keyword argument 'v'" in run(capsys, "grad", f"{model}:two", "x=1", "w=1", "v=1")[2]


@pytest.mark.parametrize("verb", ["explain", "paths", "branches"])
def test_an_unknown_name_gets_a_suggestion_and_the_list(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, err = run(capsys, verb, "--of", "alpa", "alpha * beta", "alpha=1", "beta=2")

    assert (code, out) == (2, "")
    assert "no node called 'alpa'; did you mean alpha?" in err
    assert "it has alpha, beta, f" in err


@pytest.mark.parametrize("verb", ["explain", "paths", "branches"])
def test_a_node_without_a_name_goes_by_its_expression(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = run(capsys, verb, "--of", "a * b", "tanh(a * b)", "a=1", "b=2")

    assert code == 0
    assert "a * b" in out
    assert "it has a, b, t1 (a * b), f" in run(capsys, verb, "--of", "zz", "tanh(a * b)", "a=1", "b=2")[2]


def test_local_derivatives_of_expressions_have_parentheses(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "grad", "y = c * (a + b)", "a=1", "b=2", "c=3")

    assert code == 0
    assert "d(a + b)/da = 1" in out
    assert "dy/d(a + b) = 3" in out


@pytest.mark.parametrize("verb", ["grad", "blame", "check", "draw", "kinks", "rounding"])
def test_a_minus_stands_for_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y = x * x\n"))
    code, out, err = run(capsys, verb, "-", "x=3")

    assert (code, err) == (0, "")
    assert out


def test_stdin_that_is_no_text_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), encoding="utf-8"))
    code, _, err = run(capsys, "grad", "-", "x=3")

    assert code == 3
    assert "cannot read stdin: it is not utf-8 text" in err


def test_a_file_that_cannot_be_written_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "picture.svg"
    code, out, err = run(capsys, "draw", "x * x", "-o", str(path))

    assert (code, out) == (3, "")
    assert err == f"wiregrad: cannot write {path}: there is no such folder; create it first\n"


def test_a_picture_can_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "draw", "x * x", "--format", "dot")[1].startswith("digraph")
    assert run(capsys, "draw", "x * x", "--format", "svg", "-o", "-")[1].startswith("<svg")
    assert run(capsys, "draw", "x * x", "-o", "-")[1].startswith("f: 1 input")


@pytest.mark.parametrize("args", [["x*x", "x=1", "--jsno"], ["--jsno", "x*x", "x=1"], ["x*x", "--jsno=2", "x=1"]])
def test_a_mistyped_option_is_called_one(capsys: pytest.CaptureFixture[str], args: list[str]) -> None:
    code, _, err = run(capsys, "grad", *args)

    assert code == 2
    assert "there is no option --jsno; did you mean --json?" in err


def installed(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()", *args]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options, timeout=PATIENCE)


@pytest.mark.parametrize("args", [["grad", "x*x", "x=3"], ["kinks", "abs(x)", "x=0"], ["--help"]])
def test_a_full_disk_is_told_in_one_line(args: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = installed(*args, stdout=full)

    assert done.returncode == 3
    assert done.stderr == "wiregrad: cannot write the answer: No space left on device\n"


@pytest.mark.parametrize("args", [["grad", "x*x", "x=3"], ["kinks", "abs(x)", "x=0"], ["--help"]])
def test_a_reader_that_went_away_is_no_event(args: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = installed(*args, stdout=writing)
    os.close(writing)

    assert (done.returncode, done.stderr) == (141, "")


def test_a_message_that_nobody_can_read_leaves_the_code() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", "from wiregrad.cli import main; main()", "grad", "x*x"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=full, check=False, timeout=PATIENCE)

    assert done.returncode == 2


def test_an_error_of_wiregrad_itself_is_no_finding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Circuit, "run", lambda *_: 1 / 0)
    code, _, err = run(capsys, "grad", "x * x", "x=3")

    assert code == 3
    assert "ZeroDivisionError" in err
    assert "this is a bug in wiregrad" in err


@pytest.mark.parametrize("how", ["option", "option first", "variable"])
def test_colours_can_be_switched_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    args = ["grad", "x*x", "x=3"]

    assert "\x1b[" in run(capsys, *args)[1]
    if how == "variable":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        args.insert(0 if how == "option first" else 1, "--no-color")

    assert "\x1b[" not in run(capsys, *args)[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, _ = run(capsys, "completion", shell)

    assert code == 0
    assert f"_WIREGRAD_COMPLETE={shell}_complete" in out


def test_the_shell_is_told_the_commands_and_files() -> None:
    def completed(words: str, k: int) -> str:
        env = os.environ | {"_WIREGRAD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(k)}
        return installed(stdout=subprocess.PIPE, env=env).stdout

    assert completed("wiregrad bl", 1) == "plain,blame\n"
    assert completed("wiregrad blame mod", 2) == "file,mod\n"


def test_help_says_what_codes_and_values_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--help")[1]

    assert all(f"  {code}  " in out for code in (0, 1, 2, 3, 4, 130))
    assert run(capsys, "-h")[1] == out


@pytest.mark.parametrize("verb", list(cli.commands))
def test_the_example_of_every_command_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str
) -> None:
    monkeypatch.chdir(tmp_path)
    out = run(capsys, verb, "--help")[1]
    example = next(line for line in out.splitlines() if line.strip().startswith("Example: wiregrad"))
    # A page that is served ends only when it is told to.
    file = ["-o", "page.html"] if verb == "explore" else []
    code, _, err = run(capsys, *shlex.split(example)[2:], *file)

    assert code in (0, 1)
    assert "Error" not in err


@pytest.mark.parametrize(("text", "kind"), [("1/2", int), ("2*pi", int), ("2*1", bool)])
def test_a_formula_for_a_whole_parameter_must_be_whole(text: str, kind: type) -> None:
    with pytest.raises(click.UsageError, match="for a parameter that is whole"):
        read_value("n", text, frozenset([kind]))


@pytest.mark.parametrize(
    ("args", "is_noted"),
    [
        (["sqrt(x)", "x=-1"], True),
        (["sqrt(x)", "x=0"], True),
        (["sqrt(x)", "x=4"], False),
        (["sqrt(x)", "x=nan"], False),
    ],
)
def test_a_number_that_is_lost_leads_to_blame(
    capsys: pytest.CaptureFixture[str], args: list[str], is_noted: bool
) -> None:
    code, _, err = run(capsys, "grad", *args)

    assert code == 0
    assert ("wiregrad blame" in err) == is_noted
