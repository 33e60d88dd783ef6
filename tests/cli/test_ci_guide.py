"""`docs/guides/guard-in-ci.md`: its commands pass for its model, and fail for one that is broken."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from wiregrad.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "guard-in-ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
MODEL, TEST = (text for language, text in BLOCKS if language == "python")
WORKFLOW = next(text for language, text in BLOCKS if language == "yaml")
COMMANDS = re.findall(r"^(?: +run: )?(wiregrad .*)$", "\n".join(text for _, text in BLOCKS), re.MULTILINE)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_workflow_has_the_commands_of_the_page() -> None:
    assert len(COMMANDS) == 4
    assert [command.removesuffix(" --no-color") for command in COMMANDS[2:]] == COMMANDS[:2]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_passes_for_the_model(here: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(command)[1:]) == 0


@pytest.mark.parametrize("command", [command for command in COMMANDS if " blame " in command])
def test_blame_fails_for_a_model_that_is_broken(here: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "model.py").write_text(MODEL.replace("np.linalg.norm(w)", "np.sqrt(np.sum(w**2))"))

    assert main(shlex.split(command)[1:]) == 1
    assert "model.py:7" in capsys.readouterr().out


def test_the_test_of_the_page_passes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.delitem(sys.modules, "model", raising=False)
    names: dict[str, object] = {}
    exec(TEST, names)
    names["test_no_gradient_is_nan"]()  # type: ignore[operator]
    monkeypatch.delitem(sys.modules, "model")


def test_the_workflow_is_indented_as_yaml() -> None:
    depths = [len(line) - len(line.lstrip(" ")) for line in WORKFLOW.splitlines()]

    assert all(depth % 2 == 0 for depth in depths)
    assert WORKFLOW.startswith("name: ")
    assert "\t" not in WORKFLOW
