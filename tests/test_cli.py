"""The command, as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from wiregrad.cli import main


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
        (["grad", "a + b", "a=1", "b=two"], 2, "wanted NAME=NUMBER, like a=2, or NAME=[NUMBERS]; got 'b=two'"),
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
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "gradients  x=6" in done.stdout


def test_output_that_a_terminal_cannot_show_is_escaped() -> None:
    command = [sys.executable, "-c", "from wiregrad.cli import main; main()", "grad", "β*β", "β=2"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )

    assert "gradients" in done.stdout


QUESTIONS = {
    "blame": (["blame", "sqrt(x*x + y*y)", "x=0", "y=0"], 1, "sqrt sent inf back to t3: upstream 1 times local inf"),
    "blame nothing": (["blame", "x*x", "x=1"], 0, "the output and all gradients are finite"),
    "explain": (["explain", "--of", "w", "tanh(w * x)", "w=50", "x=2"], 0, "saturated"),
    "paths": (["paths", "--of", "a", "(a + b) * c + a * a", "a=2", "b=-3", "c=10"], 0, "along 3 paths"),
    "branches": (["branches", "--of", "x", "x * x + x", "x=3"], 0, "x is used 3 times"),
    "kinks": (["kinks", "abs(x)", "x=0"], 0, "1 node on a kink"),
    "rounding": (["rounding", "(1 + x) - 1", "x=1e-9"], 0, "loses 9 digits"),
    "check": (["check", "tanh(x * w) + b", "x=2", "w=-3", "b=6.5"], 0, "all rules hold"),
    "draw": (["draw", "e = a + b; f = e * c", "a=2", "b=-3", "c=10"], 0, "data -10"),
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


def test_draw_says_which_endings_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "draw", "x*x", "-o", "picture.png")

    assert code == 2
    assert "wanted a file that ends in .svg, .dot, .mmd, .txt; got picture.png" in err
