"""The shape of the package that everything else leans on: no ring of imports, one class for one name."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def house() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "house.py"))


@pytest.fixture(scope="module")
def rooms_table() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "rooms_table.py"))


@pytest.fixture(scope="module")
def modules(house: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = house["read_modules"](house["PACKAGE"])
    return found


def test_no_modules_import_each_other_even_inside_functions(house: dict[str, Any], modules: dict[str, Any]) -> None:
    assert house["find_largest_ring"](modules) == []


def test_public_class_names_are_unique(house: dict[str, Any], modules: dict[str, Any]) -> None:
    assert house["repeated_classes"](modules.values()) == {}


@pytest.mark.parametrize(
    ("lines", "shown", "wanted"), [(5075, 0, 5100), (5075, 5000, 5000), (5075, 4000, 5100), (51, 60, 60), (51, 80, 51)]
)
def test_line_counts_are_rounded_and_kept_while_nearly_right(
    rooms_table: dict[str, Any], lines: int, shown: int, wanted: int
) -> None:
    assert rooms_table["round_line_count"](lines, shown) == wanted


def test_the_table_of_rooms_replaces_the_old_one_alone(rooms_table: dict[str, Any]) -> None:
    begin, end = rooms_table["ROOMS_BEGIN"], rooms_table["ROOMS_END"]
    page = rooms_table["replace_rooms_table"](f"before\n{begin}| `ir` | 1 | 99,000 | old |\n{end}after\n")

    assert page.startswith(f"before\n{begin}| room |")
    assert page.endswith(f"{end}after\n")
    assert "99,000" not in page
