"""What functions use from outside: globals, variables of functions around, defaults, what these hold and lead to.

It is compared before each call, so that a recording made with other things is not replayed. Lists, dicts, sets, objects
and classes are looked into, and so are the user's own functions, wherever they are met. What is large, and what lies
inside libraries, is not looked at: for a recording these are constants.
"""

from __future__ import annotations

import array
import builtins
import dis
import operator
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import IOBase
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

import numpy as np

from wiregrad.errors import is_own
from wiregrad.frontends.value import Value

ABSENT = object()
"""Stands for a variable that is not there."""
MOST = 1_000
"""How many things are looked at in all: elements, attributes, variables."""
LARGE = 10_000
"""Arrays with more numbers are not looked into."""
CONTAINERS = (list, set, deque)
DRAWN_FROM = (random.Random, np.random.Generator, np.random.RandomState)
PARTS: dict[type, Any] = {
    MethodType: lambda thing: (thing.__func__, thing.__self__),
    BuiltinFunctionType: lambda thing: (thing.__self__,),
    MethodWrapperType: lambda thing: (thing.__self__,),
    partial: lambda thing: (thing.func, thing.args, thing.keywords),
    staticmethod: lambda thing: (thing.__func__,),
    classmethod: lambda thing: (thing.__func__,),
    property: lambda thing: (thing.fget,),
    tuple: lambda thing: thing,
    frozenset: lambda thing: thing,
}
"""What things consist of that do not change themselves."""


class Captured:
    """The outside of functions as it was.

    >>> scale = [2.0]
    >>> outside = Captured(lambda x: scale[0] * x)
    >>> before = outside.changed()
    >>> scale[0] = 3.0
    >>> before, outside.changed()
    (False, True)
    """

    __slots__ = (
        "_buffers",
        "_cells",
        "_codes",
        "_modules",
        "_names",
        "_room",
        "_seen",
        "_variables",
        "_views",
        "opaque",
        "unseen",
    )

    def __init__(self, *things: Any) -> None:
        self._codes: list[tuple[FunctionType, CodeType]] = []
        self._variables: list[tuple[Any, str, Any]] = []
        self._cells: list[tuple[CellType, Any]] = []
        self._views: list[tuple[Any, list[Any]]] = []
        self._buffers: list[tuple[Callable[[], bytes], bytes]] = []
        self._modules: list[ModuleType] = []
        self._names: set[str] = set()
        self._seen: dict[Any, Any] = {}
        self._room = MOST
        self.opaque: str | None = None
        """What is used from outside that changes unseen."""
        self.unseen = 0
        """How many things are too large, or too many, to be looked at."""
        self.add(*things)

    def add(self, *things: Any) -> None:
        """Look at more things: functions, and what else they may be given."""
        queue = deque(things)
        while queue:
            # What is near comes first: there may be more than there is room for.
            thing = queue.popleft()
            if id(thing) not in self._seen:
                # Kept with the thing, so that nothing else comes to stand at its address.
                self._seen[id(thing)] = thing
                queue += self._looked_into(thing)
            if not queue:
                queue += self._of_modules()

    def _looked_into(self, thing: Any) -> Sequence[Any]:
        """Note what a thing holds; returns what should be looked into in its turn."""
        if isinstance(thing, FunctionType):
            return [thing.__dict__.get("__wrapped__"), *(() if _is_foreign(thing) else self._outside(thing))]
        if isinstance(thing, ModuleType):
            self._modules += [] if _is_library(thing) else [thing]
            return ()
        if isinstance(thing, type):
            return [part for kind in thing.__mro__ if _is_users(kind) for part in self._viewed(*_pairs(vars(kind)))]
        parts = PARTS.get(type(thing), tuple if isinstance(thing, tuple) else None)
        return parts(thing) if parts is not None else self._inside(thing)

    def _inside(self, thing: Any) -> Sequence[Any]:
        """Note what an object holds; returns that, unless it is a library's."""
        if isinstance(thing, DRAWN_FROM) or _is_drained(thing):
            self.opaque = f"it uses a {type(thing).__name__} from outside, which changes with each use"
        elif isinstance(thing, bytearray | array.array) or (isinstance(thing, np.ndarray) and thing.dtype.kind != "O"):
            read = thing.tobytes if hasattr(thing, "tobytes") else partial(bytes, thing)
            if self._takes(1 if np.size(thing) <= LARGE else MOST + 1):
                self._buffers.append((read, read()))
        elif isinstance(thing, Value):
            self._viewed(Attributes(thing, ["_data"]))
        else:
            inside = self._viewed(*views(thing))
            deeper = isinstance(thing, (*CONTAINERS, dict, np.ndarray)) or _is_users(type(thing))
            return [*(inside if deeper else [getattr(thing, "__dict__", {}).get("__wrapped__")]), type(thing)]
        return ()

    def _viewed(self, *views: Any) -> list[Any]:
        """Note what some views show, unless it is too much; returns it."""
        inside = [part for view in views for part in view]
        if not self._takes(len(inside)):
            return []
        self._views += [(view, list(view)) for view in views]
        return inside

    def _takes(self, count: int) -> bool:
        """Return whether there is room for so many things."""
        fits = count <= self._room
        self._room -= count * fits
        self.unseen += not fits
        return fits

    def _outside(self, function: FunctionType) -> Iterator[Any]:
        """Note the variables of one function; returns what they are."""
        self._codes.append((function, function.__code__))
        yield from self._viewed(*_pairs(function.__dict__)) if function.__dict__ else ()
        if function.__defaults__ or function.__kwdefaults__:
            yield from self._viewed(Attributes(function, ["__defaults__", "__kwdefaults__"]))
        for code in _codes_in(function.__code__):
            self._names.update(code.co_names)
        for name in sorted(set(_global_names(function.__code__))):
            if name in function.__globals__ or not hasattr(builtins, name):
                yield self._variable(function.__globals__, name)
        for cell in function.__closure__ or ():
            self._cells.append((cell, contents(cell)))
            yield contents(cell)

    def _of_modules(self) -> list[Any]:
        """Note what modules of the user's have under the names that functions use; returns it."""
        return [
            self._variable(vars(module), name)
            for module in self._modules
            for name in sorted(self._names & {*vars(module)})
            if (id(vars(module)), name) not in self._seen
        ]

    def _variable(self, variables: dict[str, Any], name: str) -> Any:
        key, found = (id(variables), name), variables.get(name, ABSENT)
        if key not in self._seen and self._takes(1):
            self._variables.append((variables, name, found))
        self._seen[key] = variables
        return found

    def changed(self) -> bool:
        """Return whether a variable is another thing than it was, or holds another."""
        for function, code in self._codes:
            if function.__code__ is not code:
                return True
        for variables, name, was in self._variables:
            if variables.get(name, ABSENT) is not was:
                return True
        for cell, was in self._cells:
            if contents(cell) is not was:
                return True
        return self._holds_other() if self._views or self._buffers else False

    def _holds_other(self) -> bool:
        try:
            for view, was in self._views:
                if len(view) != len(was) or not all(map(operator.is_, view, was)):
                    return True
        except RuntimeError:
            # It is being changed by another thread.
            return True
        return any(read() != was for read, was in self._buffers)


def views(thing: Any) -> list[Any]:
    """Return what shows what a container or object holds, now and later.

    >>> items = {"a": 1}
    >>> [*map(list, views(items))], views(1.0)
    ([['a'], [1]], [])
    """
    found: list[Any] = list(_pairs(thing)) if isinstance(thing, dict) else []
    if isinstance(thing, CONTAINERS):
        found.append(thing)
    elif isinstance(thing, np.ndarray):
        found.append(thing.reshape(-1))
    attributes = getattr(thing, "__dict__", None)
    if attributes is not None:
        found += _pairs(attributes)
    if _is_users(type(thing)):
        names = [name for kind in type(thing).__mro__ for name in _slots(kind)]
        found += [Attributes(thing, names)] if names else []
    return found


class Attributes:
    """Some attributes of an object, as they are when one looks."""

    def __init__(self, thing: Any, names: list[str]) -> None:
        self.thing, self.names = thing, names

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self.thing, name, ABSENT) for name in self.names)


def _slots(kind: type) -> Sequence[str]:
    slots = vars(kind).get("__slots__", ())
    return [slots] if isinstance(slots, str) else list(slots)


def _pairs(mapping: Any) -> tuple[Any, Any]:
    return mapping.keys(), mapping.values()


def _is_foreign(function: FunctionType) -> bool:
    """Return whether a function is a library's, which does not change."""
    file = function.__code__.co_filename
    return is_own(file) or "-packages" in file


def _is_users(kind: type) -> bool:
    """Return whether a class is the user's own."""
    module = str(kind.__module__)
    if module.partition(".")[0] in sys.stdlib_module_names:
        return False
    return module == "__main__" or not _is_library(sys.modules.get(module))


def _is_library(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(module, "__name__", "") in sys.stdlib_module_names
    return is_own(file) or "-packages" in file


def _is_drained(thing: Any) -> bool:
    """Return whether a thing is an iterator, whose state cannot be seen."""
    kind = type(thing)
    return hasattr(kind, "__next__") and not _is_users(kind) and not isinstance(thing, IOBase)


def contents(cell: CellType) -> Any:
    """Return what a cell holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """Return the code of a function and of the functions inside it."""
    stack = [code]
    while stack:
        code = stack.pop()
        yield code
        stack += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _global_names(code: CodeType) -> Iterator[str]:
    """Return the names that the code of a function, and of functions inside it, looks up among globals."""
    for inner in _codes_in(code):
        yield from (step.argval for step in dis.get_instructions(inner) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
