"""The command takes functions of PyTorch and JAX as it takes those of NumPy."""

from __future__ import annotations

from pathlib import Path

import pytest

from wiregrad.cli import main
from wiregrad.cli.command_base import find_framework

PROGRAMS = {
    "torch": """
import torch
def inner(x): return torch.sqrt(x.sum())
def loss(x, w=2.0): return inner(x * w)
net = torch.nn.Sequential(torch.nn.Linear(2, 1))
torch.nn.init.constant_(net[0].weight, 3.0); torch.nn.init.constant_(net[0].bias, 1.0)
""",
    "jax": """
import jax.numpy as jnp
def inner(x): return jnp.sqrt(jnp.sum(x))
def loss(x, w=2.0): return inner(x * w)
""",
    "numpy": """
import numpy as np
def inner(x): return np.sqrt(np.sum(x))
def loss(x, w=2.0): return inner(x * w)
""",
}


@pytest.fixture(params=PROGRAMS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"{request.param}_model.py"
    path.write_text(PROGRAMS[request.param])
    return path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.peers
def test_the_value_of_a_function_is_printed(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, err = run(capsys, "run", f"{model}:loss", "x=[2, 6]")

    assert (code, out, err) == (0, "4\n", "")


@pytest.mark.peers
def test_the_gradient_of_a_function_is_printed(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, _ = run(capsys, "grad", f"{model}:loss", "x=[2, 6]")

    assert code == 0
    assert out.splitlines()[-1].split() == ["gradients", "x=[0.25,", "0.25]", "w=1"]


@pytest.mark.peers
def test_blame_names_the_line_of_the_function(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    code, out, _ = run(capsys, "blame", f"{model}:loss", "x=[0, 0]")

    assert code == 1
    assert out.startswith("sqrt sent Inf back")
    assert f"{model.name}:3" in out


@pytest.mark.peers
@pytest.mark.parametrize("words", [["draw"], ["check", "--order", "1"], ["find"]], ids=str)
def test_other_questions_are_answered_too(capsys: pytest.CaptureFixture[str], model: Path, words: list[str]) -> None:
    query = ["op:sqrt"] if words == ["find"] else []
    code, out, _ = run(capsys, *words, f"{model}:loss", *query, "x=[2, 6]")

    assert code == 0
    assert "sqrt" in out or "rules" in out or "checked" in out


@pytest.mark.peers
def test_a_module_of_pytorch_is_a_function(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAMS["torch"])

    assert run(capsys, "run", f"{tmp_path / 'model.py'}:net", "input=[1, 2]") == (0, "[10.0]\n", "")


@pytest.mark.peers
def test_names_decide_which_framework_a_function_uses(model: Path) -> None:
    names: dict[str, object] = {}
    exec(model.read_text(), names)
    framework = model.name.partition("_")[0]

    assert find_framework(names["inner"]) == (None if framework == "numpy" else framework)  # type: ignore[arg-type]
