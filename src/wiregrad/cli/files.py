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
from wiregrad.cli.failure import Failure, foreign, named, where
from wiregrad.errors import suggest

_IN_FILE = re.compile(r"(.+\.py)(?::(.*))?")
MODULE = "wiregrad_target"
"""The name that the file runs as, so that its `if __name__ == "__main__"` part does not run."""


def in_file(target: str) -> Any:
    """Return the function or circuit that FILE.py:NAME names; None if the target has another form."""
    match = _IN_FILE.fullmatch(target)
    if match is None:
        return None
    path = Path(match[1])
    name = match[2] or ""
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}; wanted a formula, or FILE.py:FUNCTION")
    names = _run(path)
    if callable(names.get(name)):
        return names[name]
    known = [key for key, value in names.items() if _is_own_function(value) or isinstance(value, ir.Circuit)]
    listed = f"\n  it has {', '.join(known) or 'no functions'}"
    if not name:
        raise click.UsageError(f"{path} is a file; wanted a function in it, {path}:NAME{listed}")
    raise click.UsageError(f"{path} has no function called {name}{suggest(name, known)}{listed}")


def _run(path: Path) -> dict[str, Any]:
    """Run a file and return its global names. It can import its neighbours, and no bytecode of it is written."""
    code = _compiled(path)
    module = types.ModuleType(MODULE)
    module.__file__ = str(path)
    # Dataclasses and pickle look their module up in sys.modules.
    sys.modules[MODULE] = module
    sys.path.insert(0, str(path.parent))
    with foreign(str(path), str(path)):
        exec(code, vars(module))
    return vars(module)


def _compiled(path: Path) -> types.CodeType:
    try:
        return compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise Failure(f"cannot read {path}: {named(error)}{where(error)}") from None


def _is_own_function(value: Any) -> bool:
    return inspect.isfunction(value) and value.__module__ == MODULE


def place_of(function: Any) -> str:
    """Return the FILE:LINE of a function; empty if it is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def name_of(function: Any) -> str:
    """Return the name of a function or callable object."""
    return str(getattr(function, "__name__", type(function).__name__))
