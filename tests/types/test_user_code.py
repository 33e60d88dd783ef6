"""Code of users, checked by mypy and pyright: right uses pass, each wrong one is reported on its line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ..support.limits import PATIENCE

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FILES = ("right_uses.py", "wrong_uses.py")
PYRIGHT = ROOT / "web" / "node_modules" / "pyright" / "index.js"


def run_checker(*command: str | Path) -> str:
    """Return what a type checker prints; it exits with 1 if it found errors, with more if it could not run."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def find_mypy_errors() -> set[str]:
    """Return FILE:LINE of every error that mypy finds."""
    output = run_checker(sys.executable, "-m", "mypy", "--strict", *(HERE / name for name in FILES))
    return {f"{Path(path).name}:{line}" for path, line in re.findall(r"^(\S+):(\d+): error:", output, re.MULTILINE)}


def find_pyright_errors() -> set[str]:
    """Return FILE:LINE of every error that pyright finds."""
    command = ("node", PYRIGHT, "--project", HERE, "--pythonpath", sys.executable, "--outputjson")
    reports = json.loads(run_checker(*command))["generalDiagnostics"]
    return {
        f"{Path(report['file']).name}:{report['range']['start']['line'] + 1}"
        for report in reports
        if report["severity"] == "error"
    }


def list_marked_lines() -> set[str]:
    """Return FILE:LINE of every line that is marked as wrong."""
    return {
        f"{name}:{number}"
        for name in FILES
        for number, line in enumerate((HERE / name).read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# wrong")
    }


def test_right_uses_run() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "right_uses.py"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )

    assert done.stderr == ""


@pytest.mark.parametrize("find_errors", [find_mypy_errors, find_pyright_errors])
def test_type_checkers_report_the_wrong_uses_and_no_right_one(find_errors: Callable[[], set[str]]) -> None:
    assert find_errors() == list_marked_lines()
