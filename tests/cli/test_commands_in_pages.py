"""Commands that pages show: those in blocks run, and those in sentences have verbs and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest

import wiregrad as wg
from wiregrad.cli import cli, main
from wiregrad.explorer import local_server

ROOT = Path(__file__).parents[2]
# CONTRIBUTING.md shows commands that its reader is about to write; tests/test_contributing.py runs them.
PAGES = [
    *(path for path in ROOT.glob("*.md") if path.name != "CONTRIBUTING.md"),
    *(path for path in ROOT.glob("docs/**/*.md") if path.parent.name != "decisions"),
]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
BLOCK_LINES = [
    (page, line.partition("  #")[0].strip())
    for page, text in sorted(TEXTS.items())
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
COMMANDS = sorted({line for _, line in BLOCK_LINES if line.startswith(("wiregrad ", "wg "))})
TARGETS = sorted({line.split()[1] for _, line in BLOCK_LINES if line.startswith("make ")})
SPANS = sorted(
    {
        span
        for text in TEXTS.values()
        for span in re.findall(r"`((?:wiregrad|wg) [a-z][^`\n]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    }
)
GRADED = ("--grade ", "--gradebook ")
"""Commands on answers of learners, whose files come from a page in the browser; tests/learn has such files."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that pages name; pages that would be served are not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(local_server, "open_explorer", lambda *args, **options: None)
    (tmp_path / "model.py").write_text(
        "import numpy as np\n\n\ndef loss(x, w=1.0):\n    return np.sum(np.sqrt(x * x + 1.0)) + np.sum(w * w)\n"
    )
    wg.circuit("a * b").save(tmp_path / "m.wg")
    flight = wg.record(function=lambda p: p["w"] ** 2)
    flight.step(1.0, {"w": np.float64(1.0)}, {"w": np.float64(2.0)})
    flight.save(tmp_path / "run.flight")
    (tmp_path / "my.txt").write_text("3\n")
    (tmp_path / "mine.md").write_text((ROOT / "src/wiregrad/learn/course").joinpath(first_lesson()).read_text())
    (tmp_path / "sets.json").write_text('{"sets": [{"title": "One", "formula": "y = x*x + x"}]}')
    return tmp_path


def first_lesson() -> str:
    return min(path.name for path in (ROOT / "src/wiregrad/learn/course").glob("*.md"))


@pytest.mark.parametrize("command", [command for command in COMMANDS if not any(word in command for word in GRADED)])
def test_a_command_in_a_block_runs(here: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--key class.key" in command:
        main(["learn", "--new-key", "class.key"])
    code = main(shlex.split(command)[1:])
    err = capsys.readouterr().err

    assert code in (0, 1), err
    assert "Traceback" not in err


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_of_make_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("command", [*SPANS, *COMMANDS])
def test_a_command_has_a_verb_and_options_that_exist(command: str) -> None:
    words = command.split()
    verb = words[1]
    if verb == "COMMAND" or not re.fullmatch(r"[a-z]+", verb):
        return
    options = {
        option for param in cli.commands[verb].params if isinstance(param, click.Option) for option in param.opts
    }
    known = options | {option for param in cli.commands[verb].params for option in param.secondary_opts} | {"-h"}
    # What follows a script belongs to the script.
    own = [] if any(word.endswith(".py") for word in words) else words[2:]

    assert [word for word in own if re.fullmatch(r"-[a-z]|--[a-z-]+", word) and word not in known] == []


def test_pages_show_many_commands() -> None:
    assert len(COMMANDS) > 15
    assert len(SPANS) > 30
