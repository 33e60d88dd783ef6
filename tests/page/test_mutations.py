"""The tests of the defects fail where a defect is brought back."""

from __future__ import annotations

from pathlib import Path

import pytest

from .driver import ROOT
from .mutations import MUTATIONS, run_mutant
from .test_defects import DEFECTS


def test_each_defect_can_be_brought_back_by_one_change() -> None:
    found = {key: (ROOT / each.file).read_text("utf8").count(each.old) for key, each in MUTATIONS.items()}

    assert found == dict.fromkeys(DEFECTS, 1)


@pytest.mark.full
@pytest.mark.parametrize("defect", MUTATIONS)
def test_a_defect_that_is_brought_back_is_noticed(defect: str, tmp_path: Path) -> None:
    assert run_mutant(defect, MUTATIONS[defect], tmp_path / "copy")
