"""`tools/assemble_changelog.py` moves notes into the changelog and loses none."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "assemble_changelog.py"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "src" / "wiregrad").mkdir(parents=True)
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "src" / "wiregrad" / "__init__.py").write_text('__version__ = "0.2.0.dev0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\nText.\n\n## 0.1.0\n\n### Added\n\n- The start.\n")
    (tmp_path / "changelog.d" / "b.added.md").write_text("Second,\nin two lines.\n")
    (tmp_path / "changelog.d" / "a.added.md").write_text("First.\n")
    (tmp_path / "changelog.d" / "c.fixed.md").write_text("A mistake.\n")
    return tmp_path


NEW = """## 0.2.0

### Added

- First.
- Second,
  in two lines.

### Fixed

- A mistake.
"""


def test_notes_become_the_section_of_the_next_version(clone: Path) -> None:
    assert TOOL["assemble"](clone) == 3
    text = (clone / "CHANGELOG.md").read_text()

    assert text == f"# Changelog\n\nText.\n\n{NEW}\n## 0.1.0\n\n### Added\n\n- The start.\n"
    assert list((clone / "changelog.d").iterdir()) == []


def test_later_notes_join_the_same_section(clone: Path) -> None:
    TOOL["assemble"](clone)
    (clone / "changelog.d" / "d.added.md").write_text("Third.\n")
    TOOL["assemble"](clone)

    assert NEW.replace("  in two lines.\n", "  in two lines.\n- Third.\n") in (clone / "CHANGELOG.md").read_text()


def test_a_note_of_an_unknown_kind_is_refused(clone: Path) -> None:
    (clone / "changelog.d" / "e.better.md").write_text("Better.\n")

    with pytest.raises(SystemExit, match=r"e\.better\.md is named NAME\.KIND\.md"):
        TOOL["assemble"](clone)


def test_what_a_section_says_before_its_lists_is_kept(clone: Path) -> None:
    TOOL["assemble"](clone)
    text = (clone / "CHANGELOG.md").read_text().replace("## 0.2.0\n", "## 0.2.0\n\nThe second one.\n")
    (clone / "CHANGELOG.md").write_text(text)
    TOOL["assemble"](clone)

    assert (clone / "CHANGELOG.md").read_text() == text


def test_the_notes_of_this_repository_have_a_kind() -> None:
    kinds = tuple(f".{kind}.md" for kind in TOOL["KINDS"])

    assert [path.name for path in (ROOT / "changelog.d").glob("*.md") if not path.name.endswith(kinds)] == []


def test_the_changelog_has_a_section_for_the_version_of_the_package() -> None:
    _, sections = TOOL["split_sections"]((ROOT / "CHANGELOG.md").read_text())

    assert TOOL["read_version"](ROOT) in sections


def test_the_citation_names_the_version_of_the_package() -> None:
    assert f"\nversion: {TOOL['read_version'](ROOT)}\n" in (ROOT / "CITATION.cff").read_text()
