"""`wiregrad blame train.py` says what it watched, and gives no clean bill for what it did not."""

from __future__ import annotations

import json
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from wiregrad.cli import main

HEAD = "import numpy as np\nimport torch\n"
BACKWARD = "w = torch.tensor(2.0, requires_grad=True)\n(w * w).backward()\n"


class Answer(NamedTuple):
    code: int
    out: str
    err: str
    warnings: list[tuple[str, int]]


Blame = Callable[..., Answer]


@pytest.fixture
def blame(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blame:
    """Run the command on a script, whose third line is the first after the imports."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, *options: str) -> Answer:
        (tmp_path / "train.py").write_text(HEAD + textwrap.dedent(text))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            code = main(["blame", "train.py", *options])
        return Answer(code, *capsys.readouterr(), [(str(each.message), each.lineno) for each in warned])

    return run


def test_a_finite_script_says_what_was_watched(blame: Blame) -> None:
    answer = blame(BACKWARD)

    assert answer.code == 0
    assert answer.out.splitlines() == [
        "the losses and all gradients are finite",
        "watched: 2 ops of PyTorch in 1 step; not watched: what NumPy, Python or other libraries compute",
        "from the observed run: 2 ops of step 0",
    ]


NAN_PROGRAMS = {
    "0 * log(0)": ("p = np.zeros(2)\nent = p * np.log(p)\n", "multiply"),
    "0 / 0": ("p = np.zeros(2)\nent = p / p.sum()\n", "divide"),
    "root of a negative number": ("p = np.zeros(2)\nent = np.sqrt(p - 1.0)\n", "sqrt"),
    "a NumPy number": ("p = np.float64(0.0)\nent = p / p\n", "scalar divide"),
    "in a function": ("def f(p):\n    return np.log(p - 1)\nf(np.zeros(2))\n", "log"),
}


@pytest.mark.parametrize("name", NAN_PROGRAMS)
@pytest.mark.parametrize("rest", [BACKWARD, "torch.ones(2).sum()\n"], ids=["trained", "not trained"])
def test_nan_of_numpy_is_named_with_its_line(blame: Blame, name: str, rest: str) -> None:
    program, function = NAN_PROGRAMS[name]
    answer = blame(program + rest)

    assert answer.code == 1
    assert f"NumPy made NaN, which was not followed: invalid value encountered in {function}\n" in answer.out
    assert "  at train.py:4\n" in answer.out
    assert (f"invalid value encountered in {function}", 4) in answer.warnings


def test_an_infinity_of_numpy_is_told_but_may_vanish_again(blame: Blame) -> None:
    answer = blame("y = 1 / (1 + np.exp(np.array([1000.0])))\n" + BACKWARD)

    assert answer.code == 0
    assert "NumPy made an infinity, which was not followed: overflow encountered in exp\n  at train.py:3" in answer.out


def test_what_the_script_means_is_not_reported(blame: Blame) -> None:
    answer = blame("with np.errstate(all='ignore'):\n    y = np.log(np.zeros(2)) * 0\n" + BACKWARD)

    assert answer.code == 0
    assert "NumPy made" not in answer.out
    assert "not watched: what NumPy" in answer.out


def test_the_document_lists_what_numpy_reported(blame: Blame) -> None:
    answer = blame("p = np.zeros(2)\nent = p / p\n" + BACKWARD, "--json")
    document = json.loads(answer.out)["answer"]

    assert answer.code == 1
    assert document["origins"] == []
    assert document["unwatched"] == [{"message": "invalid value encountered in divide", "place": "train.py:4"}]


def test_settings_of_numpy_are_as_before_afterwards(blame: Blame) -> None:
    before = np.geterr()
    blame("np.log(np.zeros(2))\n" + BACKWARD)

    assert np.geterr() == before


def test_warnings_that_are_errors_end_the_script_as_without_the_command(blame: Blame) -> None:
    answer = blame("import warnings\nwarnings.simplefilter('error')\nnp.log(np.zeros(2))\n" + BACKWARD)

    assert answer.code == 3
    assert "RuntimeWarning: divide by zero encountered in log" in answer.err


RESULTS = {
    "a result that is read to decide": "z = torch.log(torch.zeros(3)) * 0\nz.argmax().item()\n",
    "one of two results": "z = torch.log(torch.zeros(3)) * 0\ntorch.ones(2).sum()\n",
    "after the training": BACKWARD + "z = (w.detach() * 0).log()\ntorch.ones(2).sum()\n",
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_without_a_backward_pass_are_looked_at(blame: Blame, name: str) -> None:
    answer = blame(RESULTS[name])

    assert answer.code == 1
    assert answer.out.startswith("log gave -Inf at 0")
    assert "spoils a result" in answer.out


MEANT = {
    "a mask": "s = torch.zeros(3).masked_fill(torch.tensor([True, False, False]), -torch.inf)\np = s.softmax(0)\n",
    "a mask that is left": "s = torch.zeros(3).masked_fill(torch.tensor([True, False, False]), -torch.inf)\n",
    "the best loss so far": "best = torch.tensor(float('inf'))\nbest = torch.minimum(best, torch.tensor(1.0))\n",
    "chosen away": "x = torch.zeros(2)\ny = torch.where(x > 0, x.log(), 0.0)\n",
    "empty memory": "x = torch.empty(1000)\n",
}


@pytest.mark.parametrize("name", MEANT)
def test_infinities_that_are_meant_are_no_fault_without_a_backward_pass(blame: Blame, name: str) -> None:
    answer = blame(MEANT[name])

    assert answer.code == 0
    assert answer.out.startswith("the results are finite; no backward pass ran here")


def test_a_script_without_an_op_of_pytorch_is_no_clean_bill(blame: Blame) -> None:
    answer = blame("x = 1.0\n")

    assert answer.code == 0
    assert answer.out.splitlines()[0] == "no op ran"


def test_ops_of_all_steps_are_counted(blame: Blame) -> None:
    answer = blame("w = torch.tensor(2.0, requires_grad=True)\nfor _ in range(7):\n    (w * w).backward()\n")

    assert "watched: 8 ops of PyTorch in 7 steps" in answer.out


RULE = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * FACTOR * x**2

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.gain = torch.nn.Parameter(torch.ones(2))
    def forward(self, x):
        return Cube.apply(self.inner(x)) * self.gain.detach()

Net()(torch.ones(3, 2)).sum().backward()
"""


def ask(blame: Blame, capsys: pytest.CaptureFixture[str], *words: str, factor: str = "3") -> Answer:
    """Write the script with a custom rule, and ask a question about it."""
    blame(RULE.replace("FACTOR", factor))
    code = main([*words])
    return Answer(code, *capsys.readouterr(), [])


@pytest.mark.parametrize(("factor", "code"), [("3", 0), ("2", 1)])
def test_check_takes_a_script(blame: Blame, capsys: pytest.CaptureFixture[str], factor: str, code: int) -> None:
    answer = ask(blame, capsys, "check", "train.py", factor=factor)

    assert answer.code == code
    assert ("the backward of Cube sent" in answer.out) == bool(code)
    assert ask(blame, capsys, "check", "train.py", "--straight-through", "Cube", factor=factor).code == 0


@pytest.mark.parametrize("words", [[], ["--of", "Net.gain"], ["--of", "gain"]], ids=" ".join)
def test_explain_takes_a_script(blame: Blame, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    answer = ask(blame, capsys, "explain", "train.py", *words)

    assert answer.code == 0
    assert "no gradient comes to Net.gain: it was detached from the graph" in answer.out


WRONG_USES = {
    "an output of a script": (["blame", "train.py", "--output", "x"], 2, "train.py is a script"),
    "an unknown parameter": (["explain", "train.py", "--of", "Net.gian"], 3, "did you mean Net.gain?"),
    "a class of a rule": (["check", "train.py:Cube", "x=[1, 2]"], 2, "def f(x): return Cube.apply(x)"),
    "a class of a module": (["blame", "train.py:Net", "x=[1, 2]"], 2, "model = Net()"),
}


@pytest.mark.parametrize("name", WRONG_USES)
def test_wrong_uses_of_scripts_are_answered(blame: Blame, capsys: pytest.CaptureFixture[str], name: str) -> None:
    words, code, said = WRONG_USES[name]
    answer = ask(blame, capsys, *words)

    assert (answer.code, said in answer.err) == (code, True)


def test_a_script_that_broke_is_still_explained(blame: Blame, capsys: pytest.CaptureFixture[str]) -> None:
    blame("w = torch.zeros(2, requires_grad=True)\nfor _ in range(3):\n    (w / w).sum().backward()\n")

    assert main(["explain", "train.py", "--of", "w"]) == 0
    assert "div gave NaN" in capsys.readouterr().out
