"""The wheel: the package alone, without what only tests and benchmarks need, and it works; the sdist: all files."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

from .support.limits import PATIENCE

ROOT = Path(__file__).parent.parent
TEST_PACKAGES = {
    *("pytest", "hypothesis", "mpmath", "jsonschema", "httpx", "playwright", "unittest", "doctest"),
    *("torch", "jax", "casadi", "micrograd", "autograd", "mygrad", "xad", "tensorflow"),
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
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return next(folder.glob("*.tar.gz"))


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


MAX_WHEEL_BYTES = 3_000_000
MAX_SDIST_BYTES = 8_000_000
SMOKE = """
import wiregrad as wg, numpy as np
from wiregrad.frontends.recording import tape
assert wg.__file__.startswith(SITE), wg.__file__
x = wg.Value(3.0); y = x * x + x; y.backward(); assert x.grad == 7.0
assert wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10).grads == {"a": 10.0, "b": 10.0, "c": -1.0}
assert wg.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
assert wg.compile(lambda x: x * x if x > 0 else x).value_and_grad(3.0) == (9.0, 6.0)
assert "<svg" in wg.circuit("a * b").to_svg()
assert "html" in wg.circuit("a * b").to_html()
print("in C" if tape.RECORDER_CHOICE[0] is not None else "in Python")
"""


@pytest.mark.parametrize("recorder", ["C", "Python"])
def test_the_wheel_works_with_and_without_the_c_recorder(site: Path, tmp_path: Path, recorder: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(site)}
    if recorder == "Python":
        environment["WIREGRAD_RECORDER"] = "python"
    program = SMOKE.replace("SITE", repr(str(site)))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert done.stderr == ""
    assert done.stdout.strip() == f"in {recorder}"


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


def test_both_names_of_the_command_are_installed(site: Path) -> None:
    (entry_points,) = site.glob("*.dist-info/entry_points.txt")

    assert re.findall(r"^(\w+) = wiregrad.__main__:main$", entry_points.read_text(), re.MULTILINE) == ["wg", "wiregrad"]


def test_the_description_has_no_link_that_leads_nowhere_on_an_index(site: Path) -> None:
    (metadata,) = site.glob("*.dist-info/METADATA")
    described = message_from_string(metadata.read_text(encoding="utf-8"))
    text = described.get_payload()

    assert described["Description-Content-Type"] == "text/markdown"
    assert re.findall(r"\]\((?!https:)[^)]*\)", text) == []
    assert "Autodiff you can see through" in text
    assert "![" not in text
    # There is no public address yet; one that nobody has registered would be worse than none.
    assert described.get_all("Project-URL") is None


def test_the_sdist_is_the_repository(sdist: Path) -> None:
    with tarfile.open(sdist) as packed:
        names = [name.partition("/")[2] for name in packed.getnames()]
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    listed = done.stdout.splitlines()
    kept = {name for name in listed if (ROOT / name).exists()}

    assert {"Makefile", "README.md", "CITATION.cff", "recorder/recorder.c", "tests/test_wheel.py"} <= set(names)
    assert kept == set() or set(names) - {"PKG-INFO"} == kept
    assert sdist.stat().st_size < MAX_SDIST_BYTES
