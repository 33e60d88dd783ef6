"""Functions and circuits in Python files, named FILE.py:NAME."""

from __future__ import annotations

import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

import click

from wiregrad import ir
from wiregrad.cli.failure import CommandFailure, run_user_code, format_error, locate_error
from wiregrad.errors import suggest_name

_FILE_TARGET = re.compile(r"(.+\.py)(?::(.*))?")
TARGET_MODULE = "wiregrad_target"
"""The name that the file runs as, so that its `if __name__ == "__main__"` part does not run."""


def load_from_file(target: str) -> Any:
    """Return the function or circuit that FILE.py:NAME names; None if the target has another form."""
    match = _FILE_TARGET.fullmatch(target)
    if match is None:
        return None
    path = Path(match[1])
    name = match[2] or ""
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}; wanted a formula, or FILE.py:FUNCTION")
    names = _run_file(path)
    if callable(names.get(name)):
        return names[name]
    known = [key for key, value in names.items() if _is_own_function(value) or isinstance(value, ir.CircuitGraph)]
    listed = f"\n  it has {', '.join(known) or 'no functions'}"
    if not name:
        raise click.UsageError(f"{path} is a file; wanted a function in it, {path}:NAME{listed}")
    raise click.UsageError(f"{path} has no function called {name}{suggest_name(name, known)}{listed}")


def _run_file(path: Path) -> dict[str, Any]:
    """Run a file and return its global names. It can import its neighbours, and no bytecode of it is written."""
    code = _compile_file(path)
    module = types.ModuleType(TARGET_MODULE)
    module.__file__ = str(path)
    # Dataclasses and pickle look their module up in sys.modules.
    sys.modules[TARGET_MODULE] = module
    sys.path.insert(0, str(path.parent))
    with run_user_code(str(path), str(path)):
        exec(code, vars(module))
    return vars(module)


def _compile_file(path: Path) -> types.CodeType:
    try:
        return compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        raise CommandFailure(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise CommandFailure(f"cannot read {path}: {format_error(error)}{locate_error(error)}") from None


def _is_own_function(value: Any) -> bool:
    return inspect.isfunction(value) and value.__module__ == TARGET_MODULE


def locate_function(function: Any) -> str:
    """Return the FILE:LINE of a function; empty if it is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def function_name(function: Any) -> str:
    """Return the name of a function or callable object."""
    return str(getattr(function, "__name__", type(function).__name__))
