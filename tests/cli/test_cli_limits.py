"""The command where something gives way: streams that are closed or full, numbers that are too long."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wiregrad.cli import main

from ..support.limits import PATIENCE, start_process
from ..support.sampling import sample_one

VERBS = [
    ["grad", "x * x", "x=1"],
    ["grad", "x * x", "x=1", "--json"],
    ["explain", "--of", "x", "x * x", "x=1"],
    ["paths", "--of", "x", "x * x", "x=1"],
    ["branches", "--of", "x", "x * x", "x=1"],
    ["kinks", "x * x", "x=1"],
    ["rounding", "x * x", "x=1"],
    ["blame", "x * x", "x=1"],
    ["blame", "sqrt(x)", "x=0"],
    ["check", "x * x", "x=1"],
    ["draw", "x * x", "x=1"],
    ["code", "x * x"],
    ["convert", "x * x", "-", "--to", "wg"],
    ["explore", "x * x", "-o", "-"],
    ["doctor"],
    ["completion", "bash"],
    ["--help"],
    ["grad", "--help"],
    ["--version"],
]
FUNCTIONS = """
def whole(x, n: int = 1): return x * n
def condition(x, flag: bool = True): return x
"""
LONG = "9" * 5_000
NUMBERS = {
    "whole": LONG,
    "longest": "9" * 100_000,
    "negative": f"-{LONG}",
    "exponent": f"1e{LONG}",
    "fraction": f"{LONG}.5",
    "complex": f"{LONG}j",
    "imaginary": "1e999j",
    "hexadecimal": f"0x{LONG}",
    "in a list": f"[{LONG}]",
    "exponent in a list": "[1, 1e400]",
    "underscores": f"1_{LONG}",
}
"""Numbers that nothing can hold, as they may be written."""


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = f"{sys.executable} -m wiregrad {line}", os.environ | variables
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=environment, timeout=PATIENCE
    )


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_an_answer_that_stdout_does_not_take_is_an_error(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Python has None for a stream that was closed before it began.
    monkeypatch.setattr(sys, "stdout", None)
    code = main(verb)

    assert code == 3
    assert capsys.readouterr().err == "wiregrad: cannot write the answer: Bad file descriptor\n"


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("grad x x=1 >&-", 3, "wiregrad: cannot write the answer: Bad file descriptor\n"),
        ("grad x x=1 >/dev/full", 3, "wiregrad: cannot write the answer: No space left on device\n"),
        ("grad - x=1 <&-", 3, "wiregrad: cannot read stdin: it is closed\n"),
        ("grad x x=1 >&- 2>&- <&-", 3, ""),
        ("grad x 2>&-", 2, ""),
        ("grad x 2>/dev/full", 2, ""),
        ("code 'x * x' -o /dev/full --to c", 3, "wiregrad: cannot write /dev/full: No space left on device\n"),
    ],
)
def test_streams_that_are_closed_or_full_give_a_message_and_a_code(line: str, code: int, message: str) -> None:
    done = shell(line)

    assert (done.returncode, done.stderr, done.stdout) == (code, message, "")


@pytest.mark.parametrize("line", ["grad x x=1 2>&-", "grad x x=1 <&-"])
def test_a_closed_stream_that_is_not_needed_is_no_error(line: str) -> None:
    done = shell(line)

    assert done.returncode == 0
    assert "gradients" in done.stdout


def test_a_file_is_written_where_stdout_is_closed(tmp_path: Path) -> None:
    done = shell(f"draw 'x * x' -o {tmp_path / 'a.svg'} >&-")

    assert done.returncode == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_the_command_without_a_word(unbuffered: str) -> None:
    line = "explore 'x * x' -o - | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}"
    done = shell(line, PYTHONUNBUFFERED=unbuffered)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(("verb", "unbuffered"), sample_one([("explore", ""), ("explore", "1"), ("learn", "")]))
def test_the_address_of_a_page_is_printed_while_it_is_served(verb: str, unbuffered: str) -> None:
    command = [sys.executable, "-m", "wiregrad", verb, "--no-browser"]
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with start_process(command, stderr=subprocess.PIPE, text=True, env=environment) as served:
        assert served.stderr is not None
        line = served.stderr.readline()
        # Not an interrupt: what a shell starts in the background ignores those.
        served.terminate()

    assert line.startswith("the explorer is ready at http://127.0.0.1:")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("target", ["x * x", "whole", "condition"])
def test_a_number_that_nothing_can_hold_is_refused(
    target: str, number: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text(FUNCTIONS)
    name = {"whole": "n", "condition": "flag"}.get(target, "x")
    others = [] if name == "x" else ["x=1"]
    code = main(
        ["grad", target if name == "x" else f"{tmp_path / 'a.py'}:{target}", *others, f"{name}={NUMBERS[number]}"]
    )
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert len(err) < 600


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1e999", "is too large: a number is below about 1.8e308, and infinity is written inf"),
        ("-1e999", "is too large"),
        ("[1, 1e999]", "is too large"),
        (f"[{LONG}]", "a whole number has at most 4,300 digits"),
    ],
)
def test_the_message_says_what_is_too_long(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", "x * x", f"x={text}"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["inf", "-inf", "Infinity", "1.7976931348623157e308", "0." + "9" * 100_000, "1e-99999"]
)
def test_what_a_float_can_hold_is_read(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", "x + 1", f"x={text}"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "args",
    [
        ["explore", "x", "--port", LONG],
        ["receipt", "x", "--points", LONG],
        ["receipt", "x", "--seed", LONG],
        ["check", "x", "x=1", "--order", LONG],
        ["explain", "x", "--of", f"%{LONG}", "x=1"],
        ["grad", "x", "--output", LONG, "x=1"],
        ["grad", "x", f"x{LONG}=1"],
        ["grad", "x", f'x="{LONG}"'],
        ["explore", "x", "--allow-remote", LONG],
        ["grad", "x", f"--{LONG}"],
        [LONG],
        [f"--{LONG}"],
    ],
    ids=lambda args: " ".join(args)[:24],
)
def test_long_arguments_are_refused_in_a_few_words(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(args)
    out, err = capsys.readouterr()

    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert len(err) < 600


def test_a_formula_with_a_long_number_is_refused_in_a_few_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grad", f"x * {LONG}", "x=1"]) == 3
    assert len(capsys.readouterr().err) < 600


def test_a_name_of_a_file_that_is_too_long_is_told_in_a_few_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "x", "-o", f"{LONG}.svg"]) == 3
    assert len(capsys.readouterr().err) < 600


@pytest.mark.parametrize("count", [50, 90, 300])
def test_a_long_formula_with_a_mistake_is_told_its_mistake(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["grad", "x + " + "+".join(["yy"] * count) + "*", "x=1", "yy=1"])

    assert code == 3
    assert "cannot write" not in capsys.readouterr().err
