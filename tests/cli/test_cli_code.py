"""`wiregrad code` and `wiregrad receipt`, as a person runs them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import wiregrad as wg
from wiregrad.cli import main
from wiregrad.codegen import LANGUAGE_MODULES
from wiregrad.codegen.listing import LISTING_FUNCTIONS

from ..support.limits import PATIENCE

EXPRESSION = "e = a + b; f = e * c"

MODEL = """\
import numpy as np
print("reading the model")
def neuron(x, w=-3.0, b=6.5): return np.tanh(x * w + b)
def loss(x, w): return np.sum(np.tanh(x @ w))
def two(x, y): return x * y, x + y
def turns(x):
    if x > 0:
        x = x * 2
    return x * x
def fails(x): raise RuntimeError("no luck")
"""


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


@pytest.mark.parametrize("language", LANGUAGE_MODULES)
@pytest.mark.parametrize("function", LISTING_FUNCTIONS)
def test_stdout_has_the_listing_and_nothing_else(
    capsys: pytest.CaptureFixture[str], language: str, function: str
) -> None:
    done = run(capsys, "code", "--to", language, "--function", function, EXPRESSION)
    listing = getattr(wg.circuit(EXPRESSION), f"to_{language}")(function)

    assert done == (0, listing, "")


def test_without_a_language_the_code_is_python_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "code", EXPRESSION, "--name", "both")
    names: dict[str, Any] = {}
    exec(out, names)

    assert names["both"](2.0, -3.0, 10.0) == (-10.0, {"a": 10.0, "b": 10.0, "c": -1.0})


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("f.py", '"""Value and gradient of f'),
        ("f.c", "// Value and gradient of f"),
        ("f.H", "#ifndef VALUE_AND_GRAD_H"),
        ("f.js", "// Value and gradient"),
        ("f.mjs", "// Value and gradient"),
        ("f.cu", "// Value and gradient"),
    ],
)
def test_the_name_of_the_file_says_the_language(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, start: str
) -> None:
    path = tmp_path / name
    path.write_text("what was there before")
    done = run(capsys, "code", EXPRESSION, "-o", str(path))

    assert done == (0, "", f"wrote {path}\n")
    assert path.read_text().startswith(start)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_language_that_is_named_outranks_the_ending(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "batch.py"
    run(capsys, "code", EXPRESSION, "-o", str(path), "--to", "numpy")

    assert "import numpy as np" in path.read_text()


def test_a_minus_as_the_file_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "code", "x*x", "-o", "-") == run(capsys, "code", "x*x")


def test_json_holds_language_function_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "code", "--json", "--to", "js", "--function", "value", "x * x")

    assert code == 0
    assert json.loads(out) == {
        "schema": 1,
        "language": "js",
        "function": "value",
        "code": wg.circuit("x * x").to_js("value"),
    }


def test_a_function_is_traced_at_its_arguments_and_defaults(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, out, err = run(capsys, "code", f"{model}:neuron", "x=2")

    assert (code, err) == (0, "reading the model\n")
    assert "def value_and_grad(x, w, b):" in out
    assert "model.py:3" in out


def test_a_listing_of_one_of_several_ways_comes_with_a_note(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, out, err = run(capsys, "code", f"{model}:turns", "x=2")

    assert code == 0
    assert "x * 2.0" in out
    assert f"note: Python branched on values at {model}:7" in err
    assert "note" not in run(capsys, "code", f"{model}:neuron", "x=2")[2]


def test_one_of_several_outputs_can_be_chosen(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, out, err = run(capsys, "code", f"{model}:two", "x=1", "y=2")

    assert (code, out) == (2, "")
    assert "there are 2 (f0, f1); choose one with wiregrad code --of NAME, or take --function value or jacobian" in err
    assert "f1 = x + y" in run(capsys, "code", f"{model}:two", "x=1", "y=2", "--of", "f1")[1]
    assert run(capsys, "code", f"{model}:two", "x=1", "y=2", "--function", "jacobian")[0] == 0


def test_an_inner_node_can_be_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert "return e, " in run(capsys, "code", EXPRESSION, "--of", "e")[1]


ARRAYS = ["x=[[1, 2], [3, 4]]", "w=[1, -1]"]


def test_arrays_in_a_language_of_numbers_are_refused_with_a_way_out(
    capsys: pytest.CaptureFixture[str], model: str
) -> None:
    code, out, err = run(capsys, "code", f"{model}:loss", *ARRAYS, "--to", "js")

    assert (code, out) == (3, "")
    assert "float64[2,2] at its input x" in err
    assert "wiregrad code --to numpy, or --expand for small arrays" in err
    assert "np.tanh(" in run(capsys, "code", f"{model}:loss", *ARRAYS, "--to", "numpy")[1]


def test_expanded_arrays_are_written_number_by_number(capsys: pytest.CaptureFixture[str], model: str) -> None:
    _, out, _ = run(capsys, "code", f"{model}:loss", *ARRAYS, "--expand")
    names: dict[str, Any] = {}
    exec(out, names)
    value, grads = names["value_and_grad"](1.0, 2.0, 3.0, 4.0, 1.0, -1.0)

    assert value == pytest.approx(-1.5231883119115297)
    assert list(grads) == ["x_0_0", "x_0_1", "x_1_0", "x_1_1", "w_0", "w_1"]


GCC = shutil.which("gcc") or "gcc"


@pytest.mark.parametrize("target", ["formula", "function", "expanded"])
def test_the_self_test_in_c_passes(capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str, target: str) -> None:
    about = {
        "formula": [EXPRESSION, "a=2", "b=-3", "c=10"],
        "function": [f"{model}:neuron", "x=2"],
        "expanded": [f"{model}:loss", *ARRAYS, "--expand"],
    }
    source = tmp_path / "f.c"
    run(capsys, "code", *about[target], "--test", "-o", str(source))
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-DWIREGRAD_TEST"]
    subprocess.run([GCC, *flags, str(source), "-o", str(tmp_path / "f"), "-lm"], check=True, timeout=PATIENCE)
    done = subprocess.run([str(tmp_path / "f")], capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert done.returncode == 0
    assert "results as wanted" in done.stdout


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["a +"], 3, "^"),
        (["a*b", "--to", "rust"], 2, "'rust' is not one of 'python'"),
        (
            ["a*b", "-o", "f.rs"],
            2,
            "file name 'f.rs' does not imply a language; wanted a file that ends in .py, .c",
        ),
        (["a*b", "-o", "folder"], 2, "the file name 'folder' does not imply a language"),
        (["a*b", "-o", "no/such/f.c"], 3, "cannot write no/such/f.c: there is no such folder"),
        (["a*b", "-o", ".", "--to", "c"], 3, "it is a folder"),
        (["a*b", "--real", "float"], 2, "--real is for c and cuda; the language is python"),
        (["a*b", "--to", "js", "--header"], 2, "--header is for c; the language is js"),
        (["a*b", "--to", "cuda", "--test"], 2, "--test is for c; the language is cuda"),
        (["a*b", "--to", "c", "--test", "--header"], 2, "not in its header"),
        (["a*b", "--to", "c", "--test", "a=1"], 2, "no value for b: give b=..."),
        (["a*b", "z=1"], 2, "there is no input called 'z'; the inputs are a, b"),
        (["a*b", "--of", "g"], 2, "the circuit has no node called 'g'"),
        (["a*b", "--name", "x y"], 2, "a function's name is a plain identifier"),
        (["a*b", "--name", "while"], 2, "cannot be named while"),
        (["a*b", "--json", "-o", "f.py"], 2, "--json prints to stdout"),
        (["a*b", "--langauge", "c"], 2, "there is no option --langauge"),
        (["model.py:nothing"], 2, "there is no file model.py"),
        ([], 2, "Missing argument"),
    ],
)
def test_a_mistake_is_told_on_stderr(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    args: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    got, out, err = run(capsys, "code", *args)

    assert (got, out) == (code, "")
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_fails_is_told_with_its_line(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, out, err = run(capsys, "code", f"{model}:fails", "x=1")

    assert (code, out) == (3, "")
    assert "fails raised RuntimeError: no luck" in err
    assert f"{model}:10" in err


HOSTILE = {
    "keywords": "while * class + lambda * default",
    "letters that look like others": "β * \N{MICRO SIGN} + \N{CYRILLIC SMALL LETTER A}",
    "names of what the code uses": "math = sin(np) ; x = math * value_and_grad; d_x = x * math",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_names_that_a_language_keeps_to_itself_give_code_that_runs(
    capsys: pytest.CaptureFixture[str], case: str
) -> None:
    _, out, _ = run(capsys, "code", HOSTILE[case])
    names: dict[str, Any] = {}
    exec(out, names)
    circuit = wg.circuit(HOSTILE[case])
    point = [1.0 + k for k in range(len(circuit.inputs))]

    assert names["value_and_grad"](*point) == (circuit(point), circuit.run(point).grads)


def test_a_receipt_says_that_the_languages_agree(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "receipt", EXPRESSION, "--points", "3", "--seed", "7")

    assert (code, err) == (0, "")
    assert "f at 3 points (seed 7), against the interpreter" in out


def test_a_receipt_is_at_the_values_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert "f at 1 point" in run(capsys, "receipt", EXPRESSION, "a=2", "b=-3", "c=10")[1]
    assert "no value for c" in run(capsys, "receipt", EXPRESSION, "a=2", "b=-3")[2]


def test_a_receipt_of_code_that_differs_exits_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "wiregrad.codegen.python_and_numpy.to_python", lambda *_: "def value_and_grad(a): return a, {'a': 2.0}\n"
    )
    code, out, _ = run(capsys, "receipt", "a + 0 * a", "--points", "2", "--json")

    assert code == 1
    assert json.loads(out)["question"] == "receipt"
