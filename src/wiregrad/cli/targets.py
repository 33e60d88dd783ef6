"""What a command is about: a formula or a function in a file, and the values to run it at."""

from __future__ import annotations

import inspect
import json
import math
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from wiregrad.api import Run, circuit
from wiregrad.errors import InputError, suggest

_IN_FILE = re.compile(r"(.+\.py):(\w+)")
MODULE = "wiregrad_target"
"""What a file is called while it is read, so that its `if __name__ == "__main__"` part does not run."""

Values = dict[str, Any]


def parse_values(texts: tuple[str, ...]) -> Values:
    """Read NAME=VALUE pairs: numbers, or lists of them for arrays."""
    found = dict(_parse_value(text) for text in texts)
    if len(found) < len(texts):
        raise click.UsageError("an input is given twice")
    return found


def _parse_value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), _array(value) if value.lstrip().startswith("[") else float(value)
    except ValueError:
        raise click.UsageError(f"wanted NAME=NUMBER, like a=2, or NAME=[NUMBERS]; got {text!r}") from None


def _array(text: str) -> Any:
    return np.array(json.loads(text, parse_int=float), float)


def function_of(target: str) -> Any:
    """Return the function that FILE.py:NAME stands for; None if the target is a formula."""
    match = _IN_FILE.fullmatch(target)
    if match is None:
        return None
    path, name = Path(match[1]), match[2]
    if not path.is_file():
        raise click.UsageError(f"there is no file {path}; wanted a formula, or FILE.py:FUNCTION")
    sys.path.insert(0, str(path.parent))
    names = runpy.run_path(str(path), run_name=MODULE)
    if not callable(names.get(name)):
        known = [key for key, value in names.items() if inspect.isfunction(value)]
        raise click.UsageError(f"{path} has no function called {name}{suggest(name, known)}")
    return names[name]


def run_of(target: str, values: Values) -> Run:
    """Return the run of a formula, or of a function, at some values; `-` reads the formula from stdin."""
    function = function_of(target)
    if function is None:
        return circuit(sys.stdin.read() if target == "-" else target).run(values)
    return traced_run(function, values)


def traced_run(function: Any, values: Values) -> Run:
    """Return the run of a Python function, given its arguments by name."""
    from wiregrad.api.values import run  # noqa: PLC0415 - a formula needs no tracing

    with np.errstate(all="ignore"):
        return run(function, *arguments(function, values))


def arguments(function: Any, values: Values) -> tuple[Any, ...]:
    """Return the arguments of a function in order, given by name."""
    try:
        bound = inspect.signature(function).bind(**values)
    except TypeError as error:
        raise InputError(f"{function.__name__}{inspect.signature(function)}: {error}") from None
    bound.apply_defaults()
    return bound.args


def as_json(value: Any) -> Any:
    """Return anything an answer holds as what JSON can say; NaN and infinities become text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if hasattr(value, "__dataclass_fields__"):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [as_json(item) for item in value]
    known = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if known else str(value)
