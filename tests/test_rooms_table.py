"""The table of rooms in docs/architecture.md: complete, in the order of the layers, and not stale at every edit."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TABLE: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "rooms_table.py"))


@pytest.mark.parametrize(
    ("lines", "shown", "wanted"), [(5075, 0, 5100), (5075, 5000, 5000), (5075, 4000, 5100), (51, 60, 60), (51, 80, 51)]
)
def test_line_counts_are_rounded_and_kept_while_nearly_right(lines: int, shown: int, wanted: int) -> None:
    assert TABLE["round_line_count"](lines, shown) == wanted


def test_the_table_replaces_the_old_one_alone() -> None:
    begin, end = TABLE["ROOMS_BEGIN"], TABLE["ROOMS_END"]
    page = TABLE["replace_rooms_table"](f"before\n{begin}| `ir` | 1 | 99,000 | old |\n{end}after\n")

    assert page.startswith(f"before\n{begin}| room |")
    assert page.endswith(f"{end}after\n")
    assert "99,000" not in page


def test_every_package_has_a_row_with_a_sentence() -> None:
    rows = dict(re.findall(r"^\| `(\S+)` \|.*\| (.*) \|$", TABLE["write_rooms_table"](), re.MULTILINE))
    package = ROOT / "src" / "wiregrad"
    packages = {path.parent.relative_to(package).as_posix() for path in package.rglob("*/__init__.py")}

    assert packages <= rows.keys()
    assert [room for room, sentence in rows.items() if not sentence.endswith(".")] == []
