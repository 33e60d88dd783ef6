"""Examples run: all scripts, and the modules and pages that need another framework."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import wiregrad.exchange

from ..support.examples import EXAMPLES, check_example

ROOT = Path(__file__).parent.parent.parent
MODULES = ["wiregrad.exchange"]
MODULES += [info.name for info in pkgutil.walk_packages(wiregrad.exchange.__path__, "wiregrad.exchange.")]
PAGES = [("watch.md", 6), ("torch-import.md", 3), ("exchange.md", 7), ("tutorials/ask-pytorch.md", 6), ("errors.md", 1)]
"""Pages whose blocks need another framework, and how many blocks each has at least."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_scripts_print_what_they_say_to_look_for(example: str) -> None:
    check_example(example)


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_modules_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


@pytest.mark.parametrize(("page", "least"), PAGES)
def test_the_blocks_of_a_page_print_what_it_says(
    page: str, least: int, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block of Python is followed by what it prints; blocks share their names, as on the page."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(?!>>>)(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)
    for number, (code, shown) in enumerate(blocks):
        file = tmp_path / f"block_{number}.py"
        file.write_text(code, encoding="utf-8")
        exec(compile(code, str(file), "exec"), names)
        # A line may be one of an earlier block.
        printed = re.sub(rf"{re.escape(str(tmp_path))}/block_\d+\.py", "train.py", capsys.readouterr().out)

        assert printed == shown

    assert len(blocks) >= least
