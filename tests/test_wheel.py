"""The wheel: the package alone, without what only tests and benchmarks need; `wiregrad bench` runs from it."""

from __future__ import annotations

import ast
import json
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .support.limits import PATIENCE

ROOT = Path(__file__).parent.parent
TEST_PACKAGES = {
    *("pytest", "hypothesis", "mpmath", "jsonschema", "httpx", "playwright", "unittest", "doctest"),
    *("torch", "jax", "casadi", "micrograd", "autograd", "mygrad", "xad"),
    *("tests", "benchmarks"),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    # What the wheel holds is looked at here; optimizing the C recorder would take longer than all the rest.
    environment = os.environ | {"CFLAGS": "-O0"}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return folder


def imported_packages(source: str) -> set[str]:
    """Return the first parts of the names of all modules that a source imports, in functions too."""
    names = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_the_wheel_has_the_files_of_the_package_alone(site: Path) -> None:
    ours = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    carried = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}

    assert {name for name in carried if ".dist-info/" not in name} == {name for name in ours if ".pyc" not in name}


def test_the_wheel_carries_the_stubs_and_says_that_it_is_typed(site: Path) -> None:
    stubs = runpy.run_path(str(ROOT / "tools" / "write_stubs.py"))["STUBS"]

    assert [name for name in (*stubs, "py.typed") if not (site / "wiregrad" / name).is_file()] == []


def test_nothing_in_the_wheel_imports_what_only_tests_and_benchmarks_need(site: Path) -> None:
    importers = {
        path.relative_to(site).as_posix(): found
        for path in site.rglob("*.py")
        if (found := imported_packages(path.read_text(encoding="utf-8")) & TEST_PACKAGES)
    }

    # The room that exchanges circuits with other frameworks imports them when it is asked to.
    exchanged = {name: importers.pop(name) for name in list(importers) if name.startswith("wiregrad/exchange/")}
    assert importers == {}
    assert set().union(*exchanged.values()) == {"jax", "torch"}


def test_testing_holds_what_users_may_call_and_no_more(site: Path) -> None:
    names = runpy.run_path(str(site / "wiregrad" / "testing.py"))["__all__"]

    assert names == ["check_function", "check_op"]
    assert not (site / "wiregrad" / "testing").exists()


def test_the_command_bench_runs_from_the_wheel(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "wiregrad", "bench", "--size", "tiny", "--part", "call", "--json"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert [section["title"] for section in json.loads(done.stdout)["sections"]] == ["Calls from Python"]
