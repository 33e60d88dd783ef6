"""The programs of the gallery run, print what they say, and have the pictures that the page shows."""

from __future__ import annotations

import ast
import json
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
MAX_LINES = 100


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_what_it_says_and_has_the_panels_of_its_picture(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    panels = runpy.run_path(str(path))["main"]()
    printed = capsys.readouterr().out
    wanted = re.findall(r'look for "([^"]+)"', ast.get_docstring(ast.parse(path.read_text())) or "")
    recorded = json.loads((ROOT / "docs" / "science" / f"{path.stem}.json").read_text(encoding="utf-8"))

    assert wanted
    assert all(words in printed for words in wanted)
    assert [panel["title"] for panel in panels] == [panel["title"] for panel in recorded["panels"]]
    assert len(path.read_text().splitlines()) <= MAX_LINES


def test_the_page_shows_every_program_of_the_gallery() -> None:
    shown = re.findall(
        r"\[(\w+\.py)\]\((../examples/[\w/]+\.py)\)\n\n!\[[^\]]+\]\(images/science-([\w-]+)\.svg\)", PAGE
    )

    assert {path.name for path in PROGRAMS} <= {name for name, _, _ in shown}
    assert all((ROOT / "docs" / link).is_file() for _, link, _ in shown)
    assert [name for name, _, picture in shown] == [f"{picture.replace('-', '_')}.py" for _, _, picture in shown]
    assert len(shown) == PAGE.count("\n## ") >= 16
