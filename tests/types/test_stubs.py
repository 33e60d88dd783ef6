"""The stubs: written from the op table, fresh, and true of what is there at run time."""

from __future__ import annotations

import ast
import inspect
import runpy
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

import wiregrad as wg

from ..support.limits import PATIENCE

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "wiregrad"
WRITER = ROOT / "tools" / "write_stubs.py"
STUBS = list(runpy.run_path(str(WRITER))["STUBS"])


def read_definitions(stub: str) -> dict[str, ast.FunctionDef]:
    """Return the functions and methods that a stub declares; the last overload of each takes everything."""
    tree = ast.parse((PACKAGE / stub).read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


FUNCTIONS = read_definitions("api/functions.pyi")
METHODS = read_definitions("frontends/recording/value_methods.pyi")
BUILDER_METHODS = read_definitions("ir/builder_methods.pyi")


def test_stubs_are_fresh(tmp_path: Path) -> None:
    # In a process of its own, where no test has defined ops.
    subprocess.run([sys.executable, WRITER, tmp_path], check=True, timeout=PATIENCE)
    written = {stub: (tmp_path / stub).read_text(encoding="utf-8") for stub in STUBS}

    assert written == {stub: (PACKAGE / stub).read_text(encoding="utf-8") for stub in STUBS}


def test_the_stub_declares_what_dir_lists() -> None:
    code = "import wiregrad; print(*dir(wiregrad))"
    listed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout

    assert {*FUNCTIONS} | {*wg.__all__} == {*listed.split()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_declared_function_takes_the_parameters_of_the_real_one(name: str) -> None:
    arguments = FUNCTIONS[name].args
    declared = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    real = inspect.signature(getattr(wg, name)).parameters

    assert {argument.arg for argument in (*declared, *starred)} == {*real}


@pytest.mark.parametrize("name", METHODS)
def test_every_declared_method_is_there(name: str) -> None:
    assert hasattr(wg.Value, name)


def test_every_public_method_of_values_is_declared() -> None:
    own = ast.parse((PACKAGE / "frontends/recording/value.py").read_text(encoding="utf-8"))
    value = next(node for node in own.body if isinstance(node, ast.ClassDef) and node.name == "Value")
    defined = {node.name for node in value.body if isinstance(node, ast.FunctionDef)}

    assert {name for name in dir(wg.Value(1.0)) if not name.startswith("_")} <= {*METHODS} | defined


def test_every_op_is_a_declared_method_of_builders() -> None:
    code = "import wiregrad; print(*wiregrad.ops.TABLE.callable_names())"
    names = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout.split()

    assert {*BUILDER_METHODS} | {"split"} == {*names}
    assert isinstance(wg.Builder.split, FunctionType)
