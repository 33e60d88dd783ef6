"""Move the notes of changelog.d into CHANGELOG.md: `python tools/assemble_changelog.py`.

They go under the version of the package. A note is one file, NAME.KIND.md; the kinds are added, changed, removed and
fixed. Notes that come later join the section of the same version, so the tool can be run again before a release.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
KINDS = {"added": "Added", "changed": "Changed", "removed": "Removed", "fixed": "Fixed"}
VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


def read_version(root: Path) -> str:
    """Return the version of the package, without a mark of development: 0.1.0.dev0 will be released as 0.1.0."""
    found = VERSION.search((root / "src" / "wiregrad" / "__init__.py").read_text(encoding="utf-8"))
    assert found is not None
    return found[1].partition(".dev")[0]


def read_notes(folder: Path) -> dict[str, list[str]]:
    """Return the notes of each kind as items of a list, sorted by name."""
    notes: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.glob("*.md")):
        kind = path.suffixes[-2].removeprefix(".") if len(path.suffixes) > 1 else ""
        if kind not in KINDS:
            raise SystemExit(f"{path.name} is named NAME.KIND.md, and the kinds are {', '.join(KINDS)}")
        notes[kind].append(format_item(path.read_text(encoding="utf-8")))
    return notes


def format_item(text: str) -> str:
    """Return a note as an item of a list.

    >>> format_item("One line\\nand another.\\n")
    '- One line\\n  and another.'
    """
    return "- " + text.strip().replace("\n", "\n  ")


def split_sections(text: str) -> tuple[str, dict[str, str]]:
    """Return what a changelog says before its first version, and the section of each version."""
    head, *rest = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return head, dict(zip(rest[::2], rest[1::2], strict=True))


def read_items(section: str) -> dict[str, list[str]]:
    """Return the items of each kind in the section of a version."""
    items: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for kind, title in KINDS.items():
        found = re.search(rf"^### {title}\n(.*?)(?=^### |\Z)", section, flags=re.MULTILINE | re.DOTALL)
        if found is not None:
            items[kind] = [f"- {item.rstrip()}" for item in re.split(r"^- ", found[1], flags=re.MULTILINE)[1:]]
    return items


def read_introduction(section: str) -> str:
    """Return what the section of a version says before its lists."""
    return section.partition("### ")[0].rstrip("\n") + "\n"


def write_section(items: dict[str, list[str]]) -> str:
    """Return the section of a version."""
    return "".join(f"\n### {KINDS[kind]}\n\n" + "\n".join(notes) + "\n" for kind, notes in items.items() if notes)


def assemble(root: Path) -> int:
    """Move all notes into the changelog; returns how many there were."""
    notes = read_notes(root / "changelog.d")
    changelog = root / "CHANGELOG.md"
    head, sections = split_sections(changelog.read_text(encoding="utf-8"))
    version = read_version(root)
    section = sections.pop(version, "")
    items = read_items(section)
    merged = {kind: [*items[kind], *notes[kind]] for kind in KINDS}
    parts = {version: read_introduction(section) + write_section(merged), **sections}
    blocks = [head.strip(), *(f"## {name}\n\n{text.strip()}" for name, text in parts.items())]
    changelog.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    for path in (root / "changelog.d").glob("*.md"):
        path.unlink()
    return sum(map(len, notes.values()))


if __name__ == "__main__":
    sys.stdout.write(f"{assemble(ROOT)} notes are in CHANGELOG.md\n")
