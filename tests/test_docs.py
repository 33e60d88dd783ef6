"""Pages name files, functions in files, and other pages: each of them is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from wiregrad import errors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "wiregrad"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMED_FILE = re.compile(r"`([\w./-]+\.(?:py|tsx?|mjs))(?:: ([\w.]+))?`")
EXAMPLE_FILE = re.compile(r"model\.py|.*[A-Z]\.py")
"""Files that stand for the reader's own: `model.py`, `FILE.py`, `NAME.py`."""


def find_named_files() -> list[tuple[str, str, str]]:
    """Return every file that a page names: the page, the file, and the name looked for in it (or nothing)."""
    named = {
        (page.relative_to(ROOT).as_posix(), file, name)
        for page in PAGES
        for file, name in NAMED_FILE.findall(page.read_text(encoding="utf-8"))
        if not EXAMPLE_FILE.fullmatch(file)
    }
    return sorted(named)


def find_file(file: str) -> Path | None:
    """Return the file that a page means: below the package, below the repository, or, by its name alone, in a room."""
    places = [PACKAGE / file, ROOT / file, *(PACKAGE.rglob(file) if "/" not in file else [])]
    return next((place for place in places if place.is_file()), None)


@cache
def read_definitions(path: Path) -> frozenset[str]:
    """Return the functions, classes, methods and constants that a Python module defines."""
    return frozenset(_collect_definitions(ast.parse(path.read_text(encoding="utf-8")), ""))


def _collect_definitions(node: ast.Module | ast.ClassDef, prefix: str) -> list[str]:
    names: list[str] = []
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.ClassDef):
            names.append(prefix + item.name)
        if isinstance(item, ast.ClassDef):
            names += _collect_definitions(item, f"{prefix}{item.name}.")
        if isinstance(item, ast.Assign | ast.AnnAssign):
            targets = item.targets if isinstance(item, ast.Assign) else [item.target]
            names += [prefix + target.id for target in targets if isinstance(target, ast.Name)]
    return names


@pytest.mark.parametrize(("page", "file", "name"), find_named_files())
def test_files_and_functions_that_pages_name_exist(page: str, file: str, name: str) -> None:
    path = find_file(file)

    assert path is not None
    if name and path.suffix == ".py":
        assert name in read_definitions(path)
    elif name:
        assert re.search(rf"\b(?:function|class|const) {name}\b", path.read_text(encoding="utf-8"))


def read_prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def find_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", read_prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    missing = []
    text = re.sub(r"`[^`\n]*`", "", read_prose(page))
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", text):
        linked = page.parent / target if target else page
        if not linked.exists() or (anchor and anchor not in find_anchors(linked)):
            missing.append(f"{target}#{anchor}")

    assert missing == []


def test_pages_name_many_functions() -> None:
    assert len([name for _, _, name in find_named_files() if name]) > 50


ERROR_SECTIONS = dict(
    re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE | re.DOTALL)
)
ANSWERED_INSIDE = {"AmbiguousIndexError", "NotNativeError"}
"""Errors that wiregrad itself answers in all but odd cases: their sections show what is computed instead."""


def test_every_error_has_a_section_and_no_other() -> None:
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    own = {cls.__name__ for cls in classes if issubclass(cls, errors.WiregradError)} - {"WiregradError"}

    assert set(ERROR_SECTIONS) == own


@pytest.mark.parametrize("name", sorted(set(ERROR_SECTIONS) - ANSWERED_INSIDE))
def test_the_section_of_an_error_has_a_program_that_raises_it_and_one_that_does_not(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", ERROR_SECTIONS[name], re.DOTALL)

    if name == "UnknownOpsError":
        # Its program needs PyTorch: one block with both parts, run by tests/peers/test_examples.py.
        assert "except wg.WiregradError" in blocks[0]
        return
    assert f"wiregrad.errors.{name}: " in blocks[0]
    assert "Traceback" not in blocks[1]
