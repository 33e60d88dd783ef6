"""The stubs: written from the op table, fresh, and true of what is there at run time."""

from __future__ import annotations

import ast
import inspect
import runpy
from pathlib import Path

import pytest

import wiregrad as wg

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "wiregrad"
STUBS = runpy.run_path(str(ROOT / "tools" / "write_stubs.py"))["STUBS"]


def read_definitions(stub: str) -> dict[str, ast.FunctionDef]:
    """Return the functions and methods that a stub declares; the last overload of each takes everything."""
    tree = ast.parse((PACKAGE / stub).read_text(encoding="utf-8"))
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


FUNCTIONS = read_definitions("api/functions.pyi")
METHODS = read_definitions("frontends/recording/value_methods.pyi")


@pytest.mark.parametrize("stub", STUBS)
def test_stubs_are_fresh(stub: str) -> None:
    assert (PACKAGE / stub).read_text(encoding="utf-8") == STUBS[stub](), "run `make docs`"


def test_the_stub_declares_what_dir_lists() -> None:
    assert {*FUNCTIONS} | {*wg.__all__} == {*dir(wg)}


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

    assert {name for name in dir(wg.Value) if not name.startswith("_")} <= {*METHODS} | defined
