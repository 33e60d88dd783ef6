"""The recipes of CONTRIBUTING.md: applied to a copy of the repository, which must then pass the tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wiregrad as wg
from wiregrad import codegen
from wiregrad.codegen.listing import Listing

from .support.limits import PATIENCE, WHOLE_RUN_PATIENCE

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LEFT_OUT = shutil.ignore_patterns(".*", "node_modules", "dist", "build", "*.egg-info")
BLOCKS = re.findall(r"```diff\n\+\+\+ (\S+)\n(.*?)```", TEXT, re.DOTALL)
"""The file and the lines of every block that is marked diff."""


def insert_lines(old: str, hunk: str) -> str:
    """Return a text with the new lines of a hunk behind the lines that the hunk shows, or at the end."""
    lines = hunk.splitlines()
    shown = "".join(f"{line[1:]}\n" for line in lines if line.startswith(" "))
    new = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
    assert {line[:1] for line in lines} <= {" ", "+"}, f"a line is neither shown nor new: {hunk}"
    if not shown:
        return old + new
    assert old.count(shown) == 1, f"CONTRIBUTING.md shows lines that are not there once: {shown!r}"
    return old.replace(shown, shown + new)


def apply_block(root: Path, file: str, body: str) -> None:
    """Apply a block of CONTRIBUTING.md to a copy of the repository."""
    path = root / file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for hunk in body.split("@@\n"):
        text = insert_lines(text, hunk)
    path.write_text(text, encoding="utf-8")


def run_in(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy of the repository, on the package of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "MYPYPATH": "src"}
    words = [sys.executable, *command]
    return subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=WHOLE_RUN_PATIENCE
    )


def run_tests(root: Path, *arguments: str) -> int:
    """Run tests in a copy of the repository, which must all pass, and return how many there were."""
    done = run_in(root, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments)

    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    passed = re.search(r"^(\d+) passed", done.stdout, re.MULTILINE)
    assert passed is not None
    assert "skipped" not in done.stdout
    return int(passed[1])


def apply_recipes(root: Path, *writers: str) -> Path:
    """Make a copy of the repository with every recipe applied, and write all derived files or those of some writers."""
    shutil.copytree(ROOT, root, ignore=LEFT_OUT)
    (root / "web" / "node_modules").symlink_to(ROOT / "web" / "node_modules")
    for file, body in BLOCKS:
        apply_block(root, file, body)
    done = run_in(root, "tools/derive.py", *writers)

    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return root


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository with every recipe applied and every derived file written."""
    return apply_recipes(tmp_path_factory.mktemp("recipes") / "wiregrad")


def test_the_recipes_add_an_op_a_function_a_question_and_a_command() -> None:
    assert [file for file, _ in BLOCKS] == [
        "src/wiregrad/ops/elementwise_records.py",
        "src/wiregrad/ops/functions/special_and_integrate.py",
        "src/wiregrad/inspect/depth.py",
        "src/wiregrad/inspect/__init__.py",
        "src/wiregrad/api/__init__.py",
        "src/wiregrad/cli/circuit_commands.py",
        "src/wiregrad/cli/count.py",
        "src/wiregrad/cli/__init__.py",
    ]


# The writers that are left out write the page's op table and golden files, which the tests of the page's engine read:
# they are among the full counts below.
def test_a_copy_with_the_recipes_passes_the_tests_that_follow_from_them(tmp_path: Path) -> None:
    count = run_tests(
        apply_recipes(tmp_path / "wiregrad", "write_stubs", "write_recorder", "generate"),
        "tests/ops/test_ops.py",
        "tests/ops/test_functions.py",
        "tests/ops/test_remedies.py",
        "tests/codegen/test_op_texts.py",
        "tests/frontends/test_scalars.py",
        "tests/frontends/test_number_classes.py",
        "tests/cli/test_cli.py",
        "tests/cli/test_cli_convert.py",
        "tests/inspect/test_blame.py",
        "tests/test_package.py",
        "-k",
        "log_odds or radian or (test_cli and (depth or count))"
        " or every_remedy or every_op or every_subject or verbs_is_whole",
    )

    assert count > 100


# Each worker of a run would make a copy of its own for these.
@pytest.mark.full
def test_the_page_of_the_copy_computes_the_new_op_as_python_does(changed: Path) -> None:
    node = shutil.which("node") or "node"
    command = [node, "test.mjs", "engine"]
    done = subprocess.run(command, cwd=changed / "web", capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert done.returncode == 0, done.stdout[-4000:]
    assert '"log_odds"' in (changed / "web/src/engine/ops.generated.ts").read_text(encoding="utf-8")


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "output"),
    [
        (["grad", "log_odds(x)", "x=0.5"], "gradients  x=4"),
        (["depth", "x * x + x", "x=3"], "the longest path has 2 ops"),
        (["count", "x * x + x"], "3 nodes"),
    ],
)
def test_the_command_of_the_copy_knows_what_was_added(changed: Path, command: list[str], output: str) -> None:
    done = run_in(changed, "-m", "wiregrad", *command)

    assert output in done.stdout


@pytest.mark.full
def test_a_derived_file_of_the_copy_that_is_stale_fails_a_test_that_names_the_command(changed: Path) -> None:
    page = changed / "docs" / "ops.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace("| `log_odds` |", "| `log_oddses` |"), encoding="utf-8")
    try:
        done = run_in(changed, "-m", "pytest", "-p", "no:cacheprovider", "tests/test_package.py", "-k", "ops.md")
    finally:
        page.write_text(text, encoding="utf-8")

    assert done.returncode == 1
    assert "ops.md is stale: run `make derive`" in done.stdout


@pytest.mark.full
@pytest.mark.parametrize(
    "folder",
    ["ops", "codegen", "ir", "inspect", "backends", "frontends/test_formula.py", "explorer", "cli", "test_package.py"],
)
def test_a_copy_with_the_recipes_passes_every_test_about_ops(changed: Path, folder: str) -> None:
    assert run_tests(changed, f"tests/{folder}", "-m", "not full and not peers") > 0


@pytest.mark.full
@pytest.mark.parametrize("command", ["ruff check src", "ruff format --check src", "mypy"])
def test_a_copy_with_the_recipes_has_no_lint_and_no_type_errors(changed: Path, command: str) -> None:
    done = run_in(changed, "-m", *command.split())

    assert done.returncode == 0, f"{command}: {done.stdout[-4000:]}"


FILES = sorted(
    {name for name in re.findall(r"`([\w./-]+\.(?:py|md|json|ts|mjs))`", TEXT) if "NAME" not in name and "/" in name}
)
PAIRS = [
    (name, path)
    for name, path in re.findall(r"`([A-Z]\w+)`(?:,[^`]*)?\s+(?:in\s+|\()`([\w/]+\.py)`", TEXT)
    if "NAME" not in path
]
"""Names that CONTRIBUTING.md says are in a file, and the file."""


@pytest.mark.parametrize("file", FILES)
def test_every_file_that_contributing_names_exists(file: str) -> None:
    assert (ROOT / file).exists()


@pytest.mark.parametrize(("name", "path"), PAIRS)
def test_every_name_that_contributing_names_is_in_its_file(name: str, path: str) -> None:
    assert re.search(rf"^(?:class )?{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_contributing_names_enough_files_and_names_to_be_worth_the_check() -> None:
    assert len(FILES) > 15
    assert {"ListingLanguage", "LANGUAGE_MODULES", "RUNNABLE_LANGUAGES", "ENDINGS", "TargetCommand"} <= {
        name for name, _ in PAIRS
    }


@pytest.mark.parametrize("target", re.findall(r"^make ([\w-]+)", TEXT, re.MULTILINE))
def test_every_make_target_that_contributing_names_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture
def outline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a listing language as the recipe says: a module with `to_NAME`, and its name in `LANGUAGE_MODULES`."""
    module = ModuleType("wiregrad.codegen.outline")

    def to_outline(listing: Listing, name: str, guard: Any = None) -> str:
        return "\n".join([name, *(line.note for line in listing.all_lines())])

    module.to_outline = to_outline  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(codegen.LANGUAGE_MODULES, "outline", module)


@pytest.mark.usefixtures("outline")
def test_a_listing_language_is_a_module_and_a_line_that_names_it() -> None:
    text = codegen.write_listing(wg.circuit("x * x"), "outline", "value")

    assert text == "value\nmultiply"
