"""Curves of training examples and pictures of science examples, as tools record them."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
CURVES = sorted((ROOT / "docs" / "curves").glob("*.json"))
TOOL = runpy.run_path(str(ROOT / "tools" / "record_curves.py"))
SCIENCE = sorted((ROOT / "docs" / "science").glob("*.json"))
PICTURES = runpy.run_path(str(ROOT / "tools" / "science_pictures.py"))


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


@pytest.mark.parametrize("path", SCIENCE, ids=lambda path: path.stem)
def test_a_picture_belongs_to_an_example_and_shows_all_its_panels(path: Path) -> None:
    run = json.loads(path.read_text(encoding="utf-8"))
    texts = {element.text for element in ElementTree.fromstring(PICTURES["draw_picture"](run)).iter()}

    assert PICTURES["find_example"](path.stem).is_file()
    assert {panel["title"] for panel in run["panels"]} <= texts


def test_what_is_recorded_has_four_digits_and_plain_lists() -> None:
    recorded = PICTURES["round_numbers"]({"lines": {"a": [np.array([1.23456, 2.0]), (3, "x")]}})

    assert recorded == {"lines": {"a": [[1.235, 2.0], [3, "x"]]}}


def test_a_name_has_one_color_in_all_panels() -> None:
    panels = [{"lines": {"a": [], "b": []}}, {"points": {"c": []}, "lines": {"a": []}}]

    assert PICTURES["number_names"](panels) == {"a": 0, "b": 1, "c": 2}


def test_names_that_are_wider_than_a_panel_take_several_rows() -> None:
    names = ["a", "a long name", "another name", "one more"]
    rows = PICTURES["break_names"]({"lines": {name: [] for name in names}})

    assert [[name for _, name in row] for row in rows] == [names[:2], names[2:]]
    assert all(sum(PICTURES["measure_name"](name) for _, name in row) < 270.0 for row in rows)


def test_axes_with_equal_units_keep_circles_round() -> None:
    x, y = PICTURES["choose_axes"]({"equal": True, "circles": {"a": [[0.0], [0.0], [2.0]]}}, 0.0, 0.0)

    assert (x.high - x.low) / (x.end - x.start) == pytest.approx((y.high - y.low) / (y.start - y.end))
