"""The op table and the golden circuits of the page are what Python says today."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from wiregrad.ir import TABLE
from wiregrad.ops import Elementwise

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
import write_engine
from write_engine import write_page_ops

NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf\b|nan\b)")
STALE = "stale: run `make derive` and read the diff"
TOLERANCE = 1e-9
"""NumPy's exp, log, sin differ in their last digits from machine to machine, and what is made of them a little more."""


@pytest.fixture(scope="module")
def stored() -> Any:
    return json.loads(write_engine.GOLDEN_FILE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def fresh() -> Any:
    return json.loads(write_engine.document())


def is_alike(one: Any, two: Any) -> bool:
    """Return whether two parts of a document are the same but for the last digits of numbers, in sentences too."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(is_alike(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(is_alike, one, two))
    if type(one) is float and type(two) is float:
        return math.isclose(one, two, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, str) and isinstance(two, str):
        return NUMBER.sub("#", one) == NUMBER.sub("#", two)
    return type(one) is type(two) and one == two


def test_the_op_table_of_the_page_is_fresh() -> None:
    assert write_engine.OPS_FILE.read_text(encoding="utf-8") == write_page_ops(), STALE


def test_writing_the_op_table_twice_gives_the_same_text() -> None:
    assert write_page_ops() == write_page_ops()


@pytest.mark.parametrize("part", ["mistakes", "readings", "suggestions", "finds", "numbers"])
def test_what_depends_on_no_machine_is_fresh(part: str, stored: Any, fresh: Any) -> None:
    assert stored[part] == fresh[part], STALE


@pytest.mark.parametrize("part", ["circuits", "built"])
def test_golden_circuits_are_fresh(part: str, stored: Any, fresh: Any) -> None:
    assert len(stored[part]) == len(fresh[part]), STALE
    for one, two in zip(stored[part], fresh[part], strict=True):
        assert one["circuit"] == two["circuit"], STALE
        assert one == two if two["exact"] else is_alike(one, two), f"{two.get('formula')}: {STALE}"


def test_every_scalar_op_with_a_text_is_in_the_page() -> None:
    TABLE.load_deferred()
    names = [op.name for op in TABLE if isinstance(op, Elementwise) and not op.per_call and not op.library]

    assert re.findall(r'^  op\("(\w+)"', write_page_ops(), re.MULTILINE) == names


def test_rules_that_select_are_null_where_they_block() -> None:
    assert "(x: number) => !(x <= 0.0) ? (x !== x ? NaN : 1.0) : null" in write_page_ops()


def test_a_rule_that_reads_nothing_has_no_parameters() -> None:
    assert "Local = () => 1.0;\n" in write_page_ops()


def test_a_rule_of_several_ops_is_written_once() -> None:
    assert write_page_ops().count("() => -1.0;") == 1
    assert "=> a - b, [\n    RULE0,\n    RULE1,\n  ]" in write_page_ops()
