"""Help, wrong usage, and files that cannot be used: the same of every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wiregrad.cli import cli, main
from wiregrad.cli.command_base import TargetCommand

TARGET_VERBS = [verb for verb, command in cli.commands.items() if isinstance(command, TargetCommand)]
FILE_VERBS = [*TARGET_VERBS, "explore", "quiz"]
"""The commands that take FILE.py:NAME."""
PLACE_OF_OUTPUT = {"convert": ["out.json"], "find": ["op:add"], "explore": ["-o", "-"], "quiz": ["--json"]}
"""What a command needs behind its target."""
WRONG_USAGE = {
    **{verb: [] for verb in TARGET_VERBS},
    "explore": ["x", "--ouput", "f.html"],
    "quiz": ["--preset", "neurn"],
    "learn": ["--grade"],
    "doctor": ["--jsn"],
    "bench": ["--size", "huge"],
    "completion": ["tcsh"],
}
"""A call of each command that it cannot understand."""


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("words", [[], *([verb] for verb in cli.commands)], ids=str)
def test_help_begins_with_an_example_and_is_the_same_for_both_spellings(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    code, out, err = run(capsys, *words, "-h")

    assert (code, err) == (0, "")
    assert out.startswith("Example: wiregrad ")
    assert "  -h, --help" in out
    assert run(capsys, *words, "--help") == (code, out, err)


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_h_is_help_only_as_a_word_of_its_own(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, err = run(capsys, verb, "-h*x", *PLACE_OF_OUTPUT.get(verb, []), "x=1", "h=2", "--frobnicate")

    assert code == 2
    assert "there is no option --frobnicate" in err
    assert "Example" not in out


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_an_unknown_option_before_the_formula_is_named(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, _, err = run(capsys, verb, "--frobnicate", "x*x", "x=1")

    assert code == 2
    assert "there is no option --frobnicate" in err


def test_a_formula_may_begin_with_two_minus_signs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "run", "--x", "x=2") == (0, "2\n", "")


@pytest.mark.parametrize("verb", ["grad", "convert", "find", "completion"])
def test_a_missing_argument_is_answered_with_an_example(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, _, err = run(capsys, verb)

    assert code == 2
    assert f"  for example: wiregrad {verb} " in err


def test_behind_two_dashes_h_is_a_formula(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "run", "--", "-h", "h=2") == (0, "-2\n", "")


def test_every_command_has_a_call_that_is_wrong() -> None:
    assert set(WRONG_USAGE) == set(cli.commands)


@pytest.mark.parametrize(("verb", "words"), WRONG_USAGE.items(), ids=list(WRONG_USAGE))
def test_wrong_usage_exits_with_2_and_a_helpful_line(
    capsys: pytest.CaptureFixture[str], verb: str, words: list[str]
) -> None:
    code, out, err = run(capsys, verb, *words)

    assert (code, out) == (2, "")
    assert any(word in err.lower() for word in ("missing argument", "did you mean", "needs", "takes", "is not one of"))
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gard"], "No such command 'gard'; did you mean grad?"),
        (["grd"], "No such command 'grd'; did you mean grad?"),
        (["differentiate"], "No such command 'differentiate'; the commands are grad, run, "),
        (["help"], "write wiregrad COMMAND -h"),
        (["help", "grad"], "write wiregrad grad -h"),
        (["a * b", "a=2"], 'a command comes first, as in wiregrad grad "e = a + b; f = e * c" a=2 b=-3 c=10'),
        (["model.py:loss", "x=2"], "a command comes first, as in wiregrad grad"),
        (["grad", "a=2", "b=3"], "wanted a formula before the values; got 'a=2' in its place"),
        (["explain", "--of", "a * b", "a=2", "b=3"], "wanted a formula before the values; got 'a=2' in its place"),
        (["explain", "a * b", "a", "a=2", "b=3"], "a node that is asked about is given as --of a"),
        (["explain", "a * b", "a", "2", "b", "3"], "got 'a'; write a=2"),
        (["find", "a * b", "a=2", "b=3"], "wanted a query before the values, such as op:tanh; got 'a=2'"),
    ],
)
def test_words_in_the_wrong_place_are_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    code, out, err = run(capsys, *words)

    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("word", ["model:loss", "model.loss", "model.py.loss", "./model.loss"])
def test_a_function_in_a_file_that_is_written_in_another_way_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("def loss(x):\n    return x * x\n")
    code, _, err = run(capsys, "grad", word, "x=1")

    assert code == 2
    assert f"{word} is no formula; for the function in the file write " in err
    assert "model.py:loss" in err


def test_a_folder_is_no_formula(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "grad", str(tmp_path), "x=1")

    assert code == 2
    assert f"{tmp_path} is a folder; wanted a formula, a circuit file or FILE.py:FUNCTION" in err


def test_an_argument_that_is_missing_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def loss(x, w, k=1):\n    return x * w\n")
    code, _, err = run(capsys, "grad", f"{file}:loss", "x=1")

    assert code == 2
    assert "loss(x, w, k=1): missing a required argument: 'w'; give w=..." in err


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, err = run(capsys, verb, "nowhere.py:loss", *PLACE_OF_OUTPUT.get(verb, []))

    assert (code, out) == (2, "")
    assert "there is no file nowhere.py" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_a_syntax_error_is_shown_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str) -> None:
    file = tmp_path / "model.py"
    file.write_text("def loss(x):\n    return x *\n")
    code, out, err = run(capsys, verb, f"{file}:loss", *PLACE_OF_OUTPUT.get(verb, []))

    assert (code, out) == (3, "")
    assert "SyntaxError: invalid syntax" in err
    assert f"at {file}:2\n    return x *" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("verb", FILE_VERBS)
def test_an_unknown_function_is_answered_with_those_that_are_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    file = tmp_path / "model.py"
    file.write_text("import wiregrad as wg\ndef loss(x):\n    return x * x\nslope = wg.grad(loss)\n")
    code, out, err = run(capsys, verb, f"{file}:lose", *PLACE_OF_OUTPUT.get(verb, []))

    assert (code, out) == (2, "")
    assert "has no function called lose; did you mean loss?" in err
    assert "it has loss, slope" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [["nowhere.py:loss"], ["x +"], ["x", "x=two"]], ids=str)
def test_debug_adds_the_traceback(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, _, err = run(capsys, "grad", *words)
    debugged, _, more = run(capsys, "grad", *words, "--debug")

    assert debugged == code
    assert more.startswith("Traceback (most recent call last):")
    assert more.endswith(err)


@pytest.mark.parametrize("verb", ["explain", "paths", "branches"])
def test_the_only_input_needs_no_of(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert run(capsys, verb, "tanh(w) * w", "w=2") == run(capsys, verb, "tanh(w) * w", "w=2", "--of", "w")


@pytest.mark.parametrize("verb", ["explain", "paths", "branches"])
def test_with_several_inputs_of_names_them(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, _, err = run(capsys, verb, "tanh(w) * x", "w=2", "x=1")

    assert code == 2
    assert "wanted --of NAME, the node that is asked about; the inputs are w, x" in err


def test_run_prints_the_value_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "run", "e = a + b; f = e * c", "a=2", "b=-3", "c=10") == (0, "-10\n", "")
    assert run(capsys, "run", "a / 3", "a=1")[1] == "0.3333333333333333\n"
    assert run(capsys, "run", "log(a)", "a=0")[1] == "-Inf\n"


def test_run_prints_arrays_and_several_outputs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def double(x):\n    return 2 * x\n\ndef pair(x):\n    return {'s': x.sum(), 'd': 2 * x}\n")

    assert run(capsys, "run", f"{file}:double", "x=[1, 2]") == (0, "[2.0, 4.0]\n", "")
    assert run(capsys, "run", f"{file}:pair", "x=[1, 2]")[1] == "s = 3\nd = [2.0, 4.0]\n"
    outputs = json.loads(run(capsys, "run", f"{file}:pair", "x=[1, 2]", "--json")[1])["outputs"]
    assert outputs == {"s": 3.0, "d": [2.0, 4.0]}


def test_run_of_a_branch_that_was_not_recorded_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import wiregrad as wg\nf = wg.trace(lambda x: x if x > 0 else -x, 1.0)\n")

    assert run(capsys, "run", f"{file}:f", "x=2")[:2] == (0, "2\n")
    assert run(capsys, "run", f"{file}:f", "x=-2")[0] == 3


def test_find_lists_nodes_with_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    formula = "u = tanh(x); y = 3 * u"

    assert run(capsys, "find", formula, "op:tanh", "x=0.5")[1] == "u  tanh  value 0.4621  gradient 3  formula:1:5\n"
    assert run(capsys, "find", formula, "op:tanh") == (0, "u  tanh  formula:1:5\n", "1 node\n")
    assert run(capsys, "find", formula, "op:tanh grad>3", "x=0.5") == (0, "", "0 nodes\n")


@pytest.mark.parametrize(
    ("query", "names"),
    [("grad<0", ["x", "u"]), ("grad>0", ["x", "u", "y"]), ("value<=0", ["x", "u"]), ("grad>-1", ["y"])],
)
def test_find_compares_signed_numbers_where_magnitudes_have_no_use_for_the_bound(
    capsys: pytest.CaptureFixture[str], query: str, names: list[str]
) -> None:
    code, out, _ = run(capsys, "find", "u = 2 * x; y = 3 - u", f"{query} name:/^[xuy]$/", "x=-0.5")

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == names


def test_the_help_of_find_says_what_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(run(capsys, "find", "-h")[1].split())

    assert "grad>1 finds a gradient of -2" in text
    assert "the signed numbers are compared" in text


@pytest.mark.parametrize("query", ["grad > 1", "grad >1", "grad>= 2", "grad == 2", "value<2 grad > 1"])
def test_there_may_be_spaces_around_a_comparison(capsys: pytest.CaptureFixture[str], query: str) -> None:
    code, out, _ = run(capsys, "find", "a * b", query, "a=1", "b=2")

    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["a"]


def test_the_name_of_an_op_as_a_query_that_finds_nothing_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(capsys, "find", "a * b", "multiply") == (0, "", "0 nodes; for nodes of an op write op:multiply\n")
    assert run(capsys, "find", "a * b", "multipl") == (0, "", "0 nodes\n")


def test_find_finds_what_is_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "find", "l = log(q); t = p * l", "bad", "p=0", "q=0", "--json")[1]

    assert [node["name"] for node in json.loads(out)["answer"]["nodes"]] == ["q", "p", "l", "t"]


def test_find_says_how_many_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    formula = " + ".join(["tanh(x)"] * 300)
    _, out, err = run(capsys, "find", formula, "op:tanh", "x=1")

    assert err == f"300 nodes, of which the first {len(out.splitlines())} are listed\n"


@pytest.mark.parametrize("term", ["grad>1", "value<=2", "nan", "inf", "bad", "absent"])
def test_a_query_for_numbers_needs_values(capsys: pytest.CaptureFixture[str], term: str) -> None:
    code, out, err = run(capsys, "find", "x * y", f"op:multiply {term}")

    assert (code, out) == (2, "")
    assert f"{term} asks for numbers of a run: give the values of the inputs, x=... y=..." in err


@pytest.mark.parametrize("term", ["depth<1", "rank>=0", "index>=0", "name:f"])
def test_a_query_for_places_needs_no_values(capsys: pytest.CaptureFixture[str], term: str) -> None:
    assert run(capsys, "find", "x * y", f"op:multiply {term}")[0] == 0


def test_a_circuit_without_inputs_has_numbers_to_search(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "find", "1 / 0", "inf")[1].startswith("f  divide")


@pytest.mark.parametrize("term", ["grad>", "value<=", "index="])
def test_a_comparison_with_nothing_is_refused(capsys: pytest.CaptureFixture[str], term: str) -> None:
    code, _, err = run(capsys, "find", "x * y", term, "x=1", "y=2")

    assert code == 2
    assert f"{term!r} compares with '', which is no number" in err


def test_a_query_that_has_no_meaning_says_what_was_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "find", "x * x", "gradd>3", "x=1")

    assert code == 2
    assert "wanted op:, name:, group:, grad, value, depth, rank, index; did you mean grad?" in err
