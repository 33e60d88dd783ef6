"""Curves of training examples, as `tools/record_curves.py` measures them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CURVES = sorted((ROOT / "docs" / "curves").glob("*.json"))
TOOL = runpy.run_path(str(ROOT / "tools" / "record_curves.py"))


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.stem)
def test_a_curve_belongs_to_an_example_and_ends_at_its_last_step(path: Path) -> None:
    run = json.loads(path.read_text(encoding="utf-8"))
    curves = [curve for panel in run["panels"].values() for curve in panel.values()]

    assert (ROOT / "examples" / f"{path.stem}.py").is_file()
    assert {curve["steps"][-1] for curve in curves} == {run["steps"]}


def test_few_numbers_are_kept_one_by_one() -> None:
    summary = TOOL["summarise_numbers"]([3.0, 1.0], steps=10)

    assert summary == {"steps": [5.0, 10.0], "low": [3.0, 1.0], "mean": [3.0, 1.0], "high": [3.0, 1.0]}


def test_many_numbers_are_summarised_by_intervals() -> None:
    summary = TOOL["summarise_numbers"]([float(k) for k in range(240)], steps=240)

    assert summary["steps"][:2] == [2.0, 4.0]
    assert (summary["low"][1], summary["mean"][1], summary["high"][1]) == (2.0, 2.5, 3.0)
