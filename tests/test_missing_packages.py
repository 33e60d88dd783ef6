"""Without one of the packages that are installed with wiregrad, the rest works, and what needs it says how to get it.

They are taken away in processes of their own, by a finder that refuses to import them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from .support.sampling import mark_full

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = "numpy"
"""The only package that wiregrad cannot do without."""


class MissingCase(NamedTuple):
    """What a package is imported as, what needs it, and what that answers."""

    module: str
    message: str
    code: str = ""
    """Python code that prints the message of the part, or the error it raises."""
    command: tuple[str, ...] = ()
    """A command that cannot do without the package, and exits with 4."""


EXPLORE = "circuit.explore(browser=False, wait=False).stop()"
CASES = {
    "click": MissingCase(
        "click", "the command wiregrad needs click, which cannot be imported: pip install click", command=("doctor",)
    ),
    "rich": MissingCase(
        "rich",
        "the table of a run needs rich, which cannot be imported: pip install rich",
        command=("grad", "x * x", "x=3"),
    ),
    "starlette": MissingCase(
        "starlette",
        "the explorer's server needs starlette, which cannot be imported: pip install starlette",
        EXPLORE,
        ("explore", "x * x", "--no-browser"),
    ),
    "uvicorn": MissingCase(
        "uvicorn",
        "the explorer's server needs uvicorn, which cannot be imported: pip install uvicorn",
        EXPLORE,
        ("explore", "x * x", "--no-browser"),
    ),
    "llvmlite": MissingCase(
        "llvmlite",
        "native code needs llvmlite, which cannot be imported (it was taken away): pip install llvmlite",
        "print(circuit.compile().info.reason)",
    ),
    "anywidget": MissingCase(
        "anywidget",
        'a widget in a notebook needs anywidget: pip install "wiregrad[notebook]"',
        "from wiregrad.explorer.widget import widget; widget(circuit)",
    ),
    "scipy": MissingCase(
        "scipy",
        "an op of scipy.special (gammaln, erfinv, ...) needs scipy, which cannot be imported: pip install scipy",
        "wg.grad(wg.gammaln)(2.0)",
    ),
}
COMPILER = "llvmlite"
"""The module that only compiling needs."""

BLOCK = """
import sys
class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError("it was taken away", name=name)
sys.meta_path.insert(0, Refusing())
"""
COMMAND = "from wiregrad.__main__ import main; sys.argv[0] = 'wiregrad'; main()"
WORK = """
import warnings
import numpy as np
import wiregrad as wg
from wiregrad.errors import InterpreterWarning
from wiregrad.explorer.widget import show_in_notebook
from wiregrad.testing import check_op
circuit = wg.circuit("e = a + b; f = e * c")
run = circuit.run(a=2, b=-3, c=10)
assert run.grads == {"a": 10.0, "b": 10.0, "c": -1.0}
"""
REST = """
assert wg.grad(lambda x: np.sum(np.tanh(x) ** 2))(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
assert run.to_svg().startswith("<svg") and "a" in run.to_unicode() and run.to_dot() and run.to_mermaid()
assert run.to_html().startswith("<!doctype html>")
for answer in (run.explain("a"), run.paths("a"), run.blame(), run.kinks(), run.rounding(), run.flow()):
    assert str(answer)
assert wg.check_grads(np.tanh, 0.5).ok and check_op("multiply", (2.0, 3.0)).points == 1
for listing in (circuit.to_python(), circuit.to_c(), circuit.to_js(), circuit.to_numpy(), circuit.to_cuda()):
    assert "f" in listing
circuit.save(FILE)
assert wg.load(FILE) == circuit
assert circuit.compile().value_and_grad(a=2.0, b=-3.0, c=10.0) == (-10.0, {"a": 10.0, "b": 10.0, "c": -1.0})
with warnings.catch_warnings():
    # Where there is no native code, a compiled function says once that the interpreter replays it.
    warnings.simplefilter("ignore", InterpreterWarning)
    assert wg.compile(lambda x: x * x)(3.0) == 9.0
assert show_in_notebook(circuit).circuit is circuit
print("everything else works")
"""
WORKING_COMMANDS = [
    ("grad", "--json", "x * x", "x=3"),
    ("draw", "x * x"),
    ("code", "x * x"),
    ("doctor",),
    ("explore", "x * x", "-o", "-"),
]
RUN_COMMANDS = f"""
from wiregrad.cli import main
print("the commands print:", flush=True)
for args in {WORKING_COMMANDS}:
    assert main(args) == 0, args
"""


def dependencies() -> list[str]:
    """Return the names of the packages that are installed with wiregrad, or with an extra for its users."""
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["notebook"], *extras["scipy"]]
    return [re.split(r"[<>=!~\[; ]", text)[0] for text in wanted]


def run_without(modules: Sequence[str], code: str, args: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", BLOCK.format(modules=modules) + code, *args]
    environment = dict(os.environ)
    if COMPILER in modules:
        # Code that an earlier process compiled runs without the package that compiles it.
        environment["WIREGRAD_CACHE"] = "0"
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


def test_every_package_that_is_installed_with_wiregrad_has_a_case() -> None:
    assert sorted(dependencies()) == sorted([REQUIRED, *CASES])


TOGETHER = [("click", "starlette", "llvmlite", "anywidget"), ("rich", "uvicorn", "scipy")]
"""Packages that an ordinary run takes away at once; of two that one part needs, each is in another process."""


# One process does all of it: starting Python and importing wiregrad takes longer than the work.
@pytest.mark.parametrize("names", [*TOGETHER, *(mark_full(((name,),)) for name in CASES)], ids=" ".join)
def test_the_rest_works_without_and_the_part_that_needs_it_gives_the_line_that_installs_it(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    cases = [CASES[name] for name in names]
    parts = [
        f"try:\n    {case.code}\nexcept wg.WiregradError as error:\n    print(error)\n" for case in cases if case.code
    ]
    commands = "" if "click" in names else RUN_COMMANDS
    code = f"FILE = {str(tmp_path / 'circuit.wg')!r}\n{WORK}{REST}{''.join(parts)}{commands}"
    done = run_without([case.module for case in cases], code)
    said, _, printed = done.stdout.partition("the commands print:\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert said.splitlines() == ["everything else works", *(case.message for case in cases if case.code)]
    assert ("<!doctype html>" in printed) == ("click" not in names)


def test_every_package_is_taken_away_in_an_ordinary_run() -> None:
    assert sorted(name for names in TOGETHER for name in names) == sorted(CASES)


@pytest.mark.parametrize("case", [case for case in CASES.values() if case.command], ids=lambda case: case.module)
def test_a_command_that_needs_it_gives_the_line_and_exits_with_4(case: MissingCase) -> None:
    done = run_without([case.module], COMMAND, case.command)

    assert done.stderr == f"wiregrad: {case.message}\n"
    assert (done.stdout, done.returncode) == ("", 4)


def test_what_the_finder_takes_away_cannot_be_imported() -> None:
    assert "ModuleNotFoundError: it was taken away" in run_without(["click"], "import click").stderr


def test_the_example_that_needs_pictures_of_digits_gives_the_line_that_installs_them() -> None:
    path = ROOT / "examples" / "digits_cnn.py"
    done = run_without(["sklearn"], f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')")

    assert done.returncode == 1
    assert done.stderr == "this example needs the digits of scikit-learn: pip install scikit-learn\n"
