"""The package as a whole: imports, public names, examples in docs."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import wiregrad
from wiregrad.ops import TABLE

ROOT = Path(__file__).parent.parent
MODULES = [info.name for info in pkgutil.walk_packages(wiregrad.__path__, "wiregrad.")]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
HEAVY = ["click", "rich", "hypothesis", "mpmath", "pytest", "scipy", "torch", "jax", "difflib", "asyncio", "unittest"]


def loaded_by(code: str) -> set[str]:
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_importing_wiregrad_loads_nothing_heavy_beyond_numpy() -> None:
    added = loaded_by("import wiregrad") - loaded_by("import numpy")
    outside = {name.partition(".")[0] for name in added} - {"wiregrad"}

    assert not outside & {*HEAVY}
    assert "wiregrad.cli" not in added
    assert "wiregrad.testing" not in added


@contextmanager
def own_ops_forgotten() -> Iterator[None]:
    """Take out of the table again what examples put there: ops of their own."""
    before = len(TABLE)
    try:
        yield
    finally:
        while len(TABLE) > before:
            TABLE.unregister([*TABLE][-1])


@pytest.mark.parametrize("module", ["wiregrad", *MODULES])
def test_examples_in_docstrings_run(module: str) -> None:
    loaded = importlib.import_module(module)
    with own_ops_forgotten():
        result = doctest.testmod(loaded)

    assert result.failed == 0


def test_every_public_function_has_an_example() -> None:
    for name in wiregrad.__all__:
        thing = getattr(wiregrad, name)
        if callable(thing) and not issubclass(thing if isinstance(thing, type) else object, Exception):
            assert ">>>" in (thing.__doc__ or ""), f"{name} has no example"


@pytest.mark.parametrize("page", PAGES)
def test_examples_in_pages_run(page: str) -> None:
    # An ellipsis stands for places in files, which differ from reader to reader.
    with own_ops_forgotten():
        result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=doctest.ELLIPSIS)

    assert result.failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if "generated" not in page])
def test_commands_shown_in_pages_print_what_the_page_says(page: str) -> None:
    text = (ROOT / page).read_text()
    for command, shown in re.findall(r"```console\n\$ (wiregrad [^\n]*)\n(.*?)```", text, re.DOTALL):
        words = [sys.executable, "-c", "from wiregrad.cli import main; main()", *shell_words(command)[1:]]
        done = subprocess.run(words, capture_output=True, text=True, check=False)

        assert squeeze(done.stdout + done.stderr) == squeeze(shown)


def shell_words(command: str) -> list[str]:
    return [quoted or bare for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', command)]


def squeeze(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


WRITTEN = runpy.run_path(str(ROOT / "docs" / "generate.py"))["PAGES"]


@pytest.mark.parametrize("page", WRITTEN)
def test_generated_pages_and_pictures_are_fresh(page: str) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == WRITTEN[page](), f"{page} is stale: run `make derive`"


def test_every_picture_in_a_page_is_written_by_a_command() -> None:
    shown = {
        Path(image).name for page in PAGES for image in re.findall(r"\]\(([^)]*\.svg)\)", (ROOT / page).read_text())
    }

    assert shown == {Path(page).name for page in WRITTEN if page.endswith(".svg")}


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.py")))
def test_examples_run_and_print_what_they_say_to_look_for(example: str) -> None:
    path = ROOT / "examples" / example
    wanted = re.findall(r'look for "([^"]+)"', ast.get_docstring(ast.parse(path.read_text())) or "")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)

    assert wanted
    assert all(words in done.stdout for words in wanted)
