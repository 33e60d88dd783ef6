"""What a function uses from outside: globals and the variables of functions around it, its own and its helpers'.

They are compared before each call, so that a recording made with other ones is not replayed. Of lists, dicts and
objects of the user's own it is seen that an element or attribute is another thing, of small arrays that a number is.
What lies deeper, and what is in large arrays and containers, is not looked at: for a recording these are constants.
"""

from __future__ import annotations

import builtins
import dis
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.errors import is_own

ABSENT = object()
"""Stands for a variable that is not there."""
LARGE = 64
"""Containers and arrays of more elements are not looked into."""


class Captured:
    """The outside of a function as it was.

    >>> scale = [2.0]
    >>> outside = Captured(lambda x: scale[0] * x)
    >>> before = outside.changed()
    >>> scale[0] = 3.0
    >>> before, outside.changed()
    (False, True)
    """

    __slots__ = ("_cells", "_globals", "_holders", "variables")

    def __init__(self, f: Callable[..., Any]) -> None:
        self._globals: list[tuple[dict[str, Any], str, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._holders: list[tuple[Any, Sequence[Any]]] = []
        seen, stack = set[int](), [f]
        while stack:
            thing = stack.pop()
            if id(thing) not in seen:
                seen.add(id(thing))
                stack += self._looked_into(thing)
        self.variables = len(self._globals) + len(self._cells) + len(self._holders)
        """How many things are looked at."""

    def _looked_into(self, thing: Any) -> list[Any]:
        """Note what a thing holds; returns what should be looked into in its turn: what functions use."""
        function = _function(thing)
        found = [] if function is None else list(self._outside(function))
        owner = getattr(thing, "__self__", thing if function is None else None)
        inside = held(owner)
        if inside is not None:
            self._holders.append((owner, inside))
        call = type(thing).__call__ if _is_users(thing) and callable(thing) else None
        return found if call is None else [*found, call]

    def _outside(self, function: FunctionType) -> Iterator[Any]:
        """Note the variables of one function; returns what they are."""
        variables = function.__globals__
        for name in sorted(set(_global_names(function.__code__))):
            if name in variables or not hasattr(builtins, name):
                self._globals.append((variables, name, variables.get(name, ABSENT)))
                yield variables.get(name)
        for cell in function.__closure__ or ():
            self._cells.append((cell, contents(cell)))
            yield contents(cell)

    def changed(self) -> bool:
        """Return whether a variable is another thing than it was, or holds another."""
        for variables, name, was in self._globals:
            if variables.get(name, ABSENT) is not was:
                return True
        for cell, was in self._cells:
            if contents(cell) is not was:
                return True
        return any(not _same(held(owner), was) for owner, was in self._holders) if self._holders else False


def held(thing: Any) -> Sequence[Any] | None:
    """Return what a list, dict, small array or object of the user's own holds; None for what is not looked into.

    >>> held([1.0, 2.0]), held(np.arange(100)), held(np)
    ([1.0, 2.0], None, None)
    """
    if type(thing) is np.ndarray:
        return bytes(thing.tobytes()) if thing.size <= LARGE and thing.dtype.kind != "O" else None
    inside: Any = thing
    if _is_users(thing):
        inside = vars(thing) if hasattr(thing, "__dict__") else None
    if not isinstance(inside, list | dict) or len(inside) > LARGE:
        return None
    return [part for pair in inside.items() for part in pair] if isinstance(inside, dict) else list(inside)


def _same(now: Sequence[Any] | None, was: Sequence[Any]) -> bool:
    if now is None or isinstance(was, bytes):
        return now == was
    return len(now) == len(was) and all(map(operator.is_, now, was))


def _is_users(thing: Any) -> bool:
    """Return whether a thing is an object of a class of the user's own."""
    kind = type(thing)
    module = getattr(kind, "__module__", "").partition(".")[0]
    known = module in sys.stdlib_module_names or module in ("builtins", "numpy", "wiregrad")
    return not known and not isinstance(thing, type | FunctionType | ModuleType)


def contents(cell: CellType) -> Any:
    """Return what a cell holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _function(thing: Any) -> FunctionType | None:
    """Return the Python function behind something, if it is one of the user's."""
    found = getattr(thing, "__func__", thing)
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) and not is_own(found.__code__.co_filename) else None


def _global_names(code: CodeType) -> Iterator[str]:
    """Return the names that the code of a function, and of functions inside it, looks up among globals."""
    stack = [code]
    while stack:
        code = stack.pop()
        yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
        stack += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
