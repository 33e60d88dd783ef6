"""The golden file that holds the page's layout to Python's is what Python writes now."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[1]
GOLDEN = HERE.parent / "web" / "golden" / "layout.json"


@pytest.fixture(scope="module")
def written() -> str:
    made: dict[str, Any] = runpy.run_path(str(HERE / "golden" / "write_layout.py"))
    return str(made["text"]())


def test_the_golden_file_is_what_python_writes(written: str) -> None:
    stored = GOLDEN.read_text(encoding="utf-8").splitlines()
    stale = [line[:60] for line, fresh in zip(stored, written.splitlines(), strict=False) if line != fresh]

    assert stale == [], f"{GOLDEN.name} is stale: run `make derive`"
    assert len(stored) == len(written.splitlines()), f"{GOLDEN.name} is stale: run `make derive`"


def test_the_golden_file_has_layouts_and_pictures_of_all_sizes() -> None:
    found = json.loads(GOLDEN.read_text(encoding="utf-8"))
    sizes = {len(case["shapes"]) for case in found["layouts"]}

    assert len(found["layouts"]) >= 120
    assert len(found["pictures"]) >= 40
    assert {0, 1, 1000} <= sizes
    assert any(case["found"]["stubs"] for case in found["layouts"])
    assert any(max(case["found"]["bands"], default=0) for case in found["layouts"])
    assert any(case["found"]["frames"] for case in found["pictures"])
