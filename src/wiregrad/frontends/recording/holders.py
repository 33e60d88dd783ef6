"""The names of values from outside a recording: those of the variables, attributes and elements that hold them.

A parameter of a model goes by its path in it, `layers[0].neurons[2].w[1]`; the variable of the model is added only if
there are several models. Then come plain variables, attributes of other objects, and elements of lists and dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import CellType, CodeType, FrameType
from typing import Any, NamedTuple

from wiregrad.frontends.recording.call_sites import (
    ATOMS,
    FUNCTION_KINDS,
    MAX_WALKED_PARTS,
    collect_variables,
    find_loops,
    walk_all,
)
from wiregrad.frontends.recording.value import Value


class VariableScope(NamedTuple):
    """The variables of one function, and those among them that are loop variables."""

    variables: Mapping[str, Any]
    loop_names: frozenset[str] = frozenset()


class HeldName(NamedTuple):
    """The path of a value, and the variable of the object that it is a part of; empty for other paths."""

    path: str
    root: str = ""


class HolderNames:
    """The names of values by id, collected from scopes; the first scope that holds a value names it."""

    def __init__(self, scopes: Iterable[VariableScope] = (), wanted: Iterable[Value] = ()) -> None:
        self._names: dict[int, HeldName] = {}
        self._walked: set[int] = set()
        ids = {id(value) for value in wanted}
        self._budget = max(MAX_WALKED_PARTS, 50 * len(ids))
        for scope in scopes:
            if ids <= self._names.keys():
                break
            self._add_scope(scope)

    def names_of(self, values: Iterable[Value]) -> list[str | None]:
        """Return the name of each value; None for those that no scope holds."""
        names = [self._names.get(id(value)) for value in values]
        roots = {name.root for name in names if name is not None and name.root}
        return [None if name is None else _drop_root(name, roots) for name in names]

    def _add_scope(self, scope: VariableScope) -> None:
        fresh = {name: item for name, item in scope.variables.items() if id(item) not in self._walked}
        self._walked |= {id(item) for item in fresh.values() if not isinstance(item, (*ATOMS, Value))}
        models = {name: item for name, item in fresh.items() if _is_model(item)}
        others = {name: item for name, item in fresh.items() if name not in models}
        plain = {name: item for name, item in scope.variables.items() if isinstance(item, Value)}
        objects = {name: item for name, item in others.items() if hasattr(item, "__dict__")}
        self._walk_parts(models, rooted=True)
        self._add_plain({name: item for name, item in plain.items() if name not in scope.loop_names})
        self._walk_parts(objects, rooted=True)
        self._walk_parts({name: item for name, item in others.items() if name not in objects})
        self._add_plain(plain)

    def _add_plain(self, variables: Mapping[str, Value]) -> None:
        for name, value in variables.items():
            self._names.setdefault(id(value), HeldName(name))

    def _walk_parts(self, variables: Mapping[str, Any], *, rooted: bool = False) -> None:
        for name, item in variables.items():
            for path, part in islice(walk_all({name: item}), max(self._budget, 0)):
                self._budget -= 1
                if isinstance(part, Value):
                    self._names.setdefault(id(part), HeldName(path, name if rooted else ""))


def _is_model(item: object) -> bool:
    """Return whether an object is callable and has attributes: a layer, a network."""
    return callable(item) and not isinstance(item, (type, Value, *FUNCTION_KINDS)) and hasattr(item, "__dict__")


def _drop_root(name: HeldName, roots: set[str]) -> str:
    """Return a path without the variable at its beginning, if that tells nothing."""
    is_told = name.root and (len(roots) == 1 or name.root == "self")
    return name.path.removeprefix(f"{name.root}.") if is_told else name.path


def scope_of_frame(frame: FrameType) -> VariableScope:
    """Return the variables that the code of a frame can read."""
    targets = [name for span in find_loops(frame.f_code) for name in span.targets]
    return VariableScope(collect_variables(frame), frozenset(targets))


def scope_of_function(f: Callable[..., Any]) -> VariableScope:
    """Return the variables from outside that a function can read, and the object of a method or a callable object."""
    owner = f if _is_model(f) else getattr(f, "__self__", None)
    code: CodeType | None = getattr(f, "__code__", None)
    variables = {} if owner is None else {"self": owner}
    if code is not None:
        outer = getattr(f, "__globals__", {})
        variables |= {name: outer[name] for name in code.co_names if name in outer}
        cells = zip(code.co_freevars, getattr(f, "__closure__", None) or (), strict=False)
        variables |= {name: cell.cell_contents for name, cell in cells if _is_full(cell)}
    return VariableScope(variables)


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
