"""The questions of the page: sentences and golden entries are fresh, and 500 seeds agree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
import simulated_learners
import write_learn

from ..support.limits import PATIENCE

STALE = "stale: run `make derive` and read the diff"
WEB = Path(__file__).parents[2] / "web"


def test_the_sentences_of_the_page_are_fresh() -> None:
    assert write_learn.SENTENCES_FILE.read_text(encoding="utf-8") == write_learn.write_sentences(), STALE


@pytest.mark.parametrize(
    "seed", [*range(0, 20, 5), *(pytest.param(k, marks=pytest.mark.full) for k in range(20) if k % 5)]
)
def test_golden_questions_are_fresh(seed: int) -> None:
    stored = json.loads(write_learn.GOLDEN_FILE.read_text(encoding="utf-8"))[seed]
    fresh = json.loads(json.dumps(write_learn.draw_entry(seed)))

    # NumPy's exp and tanh differ in their last digits from machine to machine, so only what is shown is compared.
    prompts = [[entry["question"]["prompt"] for entry in part["questions"]] for part in (stored, fresh)]
    verdicts = [[[row[1:] for row in entry["verdicts"]] for entry in part["questions"]] for part in (stored, fresh)]
    assert prompts[0] == prompts[1], STALE
    assert verdicts[0] == verdicts[1], STALE
    assert stored["absent"] == fresh["absent"], STALE


@pytest.mark.parametrize("k", range(len(write_learn.LEARNERS)))
def test_golden_learners_are_fresh(k: int) -> None:
    stored = json.loads(write_learn.LESSONS_FILE.read_text(encoding="utf-8"))["learners"][k]
    fresh = json.loads(json.dumps(write_learn.work_through_lessons(write_learn.LEARNERS[k])))

    for key, lesson in stored["lessons"].items():
        facts = ("seen", "round", "met", "answered", "first", "done")
        assert {name: lesson[name] for name in facts} == {name: fresh["lessons"][key][name] for name in facts}, STALE


def run_page_tests(golden: Path, variable: str, tests: str) -> None:
    """Run tests of the page on a golden file of one's own."""
    node = shutil.which("node") or "node"
    environment = {**os.environ, variable: str(golden)}
    done = subprocess.run(
        [node, "test.mjs", tests],
        cwd=WEB,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=PATIENCE,
    )

    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.mark.full
def test_a_hundred_learners_have_the_same_progress_in_the_page(tmp_path: Path) -> None:
    golden = tmp_path / "lessons.json"
    golden.write_text(write_learn.write_lessons(range(simulated_learners.LEARNERS)), encoding="utf-8")

    run_page_tests(golden, "LESSONS_GOLDEN", "lessons")


@pytest.mark.full
def test_500_seeds_give_the_same_questions_and_verdicts_in_the_page(tmp_path: Path) -> None:
    golden = tmp_path / "learn.json"
    golden.write_text(write_learn.write_document(range(500)), encoding="utf-8")

    run_page_tests(golden, "LEARN_GOLDEN", "learn")
