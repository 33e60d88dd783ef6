"""What is compared before each call: one class per kind of thing that may change, and the snapshot of all of them."""

from __future__ import annotations

import sys
from abc import get_cache_token
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import EnumType
from functools import partial
from operator import is_
from types import CellType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from wiregrad.errors import shown
from wiregrad.frontends.outside.known_kinds import BASES, CONSTRUCTORS, INERT, is_known_class, is_known_module
from wiregrad.frontends.value import Value

ABSENT = object()
"""Marks a variable that does not exist."""
SMALL_ARRAY_BYTES = 1 << 18
"""Up to this size an array is compared as bytes, which copies it."""


class Snapshot:
    """Everything a function reads from outside, as it was.

    Variables, cells and functions are compared by a function that is generated for them: a call of a compiled function
    takes about a microsecond, and a loop over what it reads would take as long again.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The lines of the generated function; each returns True if one thing has changed."""
        self._names: dict[str, Any] = {"contents": contents}
        """What the names in these lines mean."""
        self._compares: Callable[[], bool] | None = None
        self._watches: list[Container | Scope | ArrayCopy | BytesCopy] = []
        self._abc_token: object = None

    def note_function(self, function: FunctionType) -> None:
        """Note the code, the defaults and the number of attributes of a function."""
        name = self._name(function)
        self._note(f"{name}.__code__ is not {self._name(function.__code__)}")
        self._note(f"{name}.__defaults__ is not {self._name(function.__defaults__)}")
        self._note(f"{name}.__kwdefaults__ is not {self._name(function.__kwdefaults__)}")
        self._note(f"len({name}.__dict__) != {len(function.__dict__)}")

    def note_variable(self, variables: Mapping[str, Any], variable: str) -> None:
        """Note what a variable is; it may not exist."""
        name = self._name(variables)
        if variable in variables:
            self._note(f"{name}[{variable!r}] is not {self._name(variables[variable])}")
        else:
            self._note(f"{variable!r} in {name}")

    def note_cell(self, cell: CellType) -> None:
        """Note what a variable of a function around is."""
        self._note(f"contents({self._name(cell)}) is not {self._name(contents(cell))}")

    def note_watch(self, watch: Container | Scope | ArrayCopy | BytesCopy) -> None:
        """Note a thing that can say by itself whether it has changed."""
        self._watches.append(watch)

    def note_abstract_classes(self) -> None:
        """Note which classes are registered with abstract classes."""
        self._abc_token = get_cache_token()

    def clear(self) -> None:
        """Forget everything: nothing has to be compared."""
        self.__init__()  # type: ignore[misc]

    def _name(self, thing: Any) -> str:
        """Return a name for a thing in the generated function."""
        name = f"_{id(thing)}"
        self._names[name] = thing
        return name

    def _note(self, condition: str) -> None:
        self._lines.append(f"    if {condition}: return True\n")
        self._compares = None

    def _generate(self) -> Callable[[], bool]:
        """Return the function that compares variables, cells and functions."""
        text = f"def compares():\n{''.join(self._lines)}    return False\n"
        exec(compile(text, "<wiregrad outside state>", "exec"), self._names)
        compares: Callable[[], bool] = self._names["compares"]
        return compares

    def changed(self) -> bool:
        """Return whether something is another thing than it was, or holds another."""
        compares = self._compares
        if compares is None:
            compares = self._compares = self._generate()
        try:
            if compares():
                return True
        except KeyError:
            # A variable is gone.
            return True
        return bool(self._watches) and self._any_watch_changed()

    def _any_watch_changed(self) -> bool:
        if self._abc_token is not None and self._abc_token != get_cache_token():
            return True
        try:
            for watch in self._watches:
                if watch.changed():
                    return True
        except (RuntimeError, AttributeError, ValueError):
            # It is being changed by another thread, or has lost what it had.
            return True
        return False


class ModuleScope:
    """A module, and the names it is bound to where it is used."""

    def __init__(self, module: ModuleType, path: str) -> None:
        self.module, self.path = module, path
        self.known = is_known_module(module.__name__) and sys.modules.get(module.__name__) is module
        self.bindings: set[str] = set()
        self.done: set[str] = set()


class Scope:
    """The attributes of an object: which there are, and what those are that code reads."""

    def __init__(self, owner: Any, path: str, *, whole: bool = False) -> None:
        self.owner, self.path, self.whole = owner, path, whole
        self.kind = type(owner)
        self.slots = _slots_of(self.kind)
        self.layout = [*self.attributes()]
        self.known: dict[str, Any] = {}

    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes as they are now."""
        found = dict_of(self.owner)
        if not self.slots:
            return found
        held = {name: _slot(self.owner, slot) for name, slot in self.slots.items()}
        return {**{name: value for name, value in held.items() if value is not ABSENT}, **found}

    def names_read(self, names: set[str], *, reflective: bool, called: bool) -> Iterable[str]:
        """Return which attributes code can read, given the names in it."""
        return self.layout if self.whole or reflective else [name for name in self.layout if name in names]

    def read(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Note what attributes are; returns those that were not noted before."""
        attributes = self.attributes()
        for name in names:
            if name not in self.known:
                self.known[name] = attributes.get(name, ABSENT)
                if self.known[name] is not ABSENT:
                    yield name, self.known[name]

    def changed(self) -> bool:
        """Return whether there are other attributes, or one that is read is another thing."""
        attributes = self.attributes()
        if type(self.owner) is not self.kind or [*attributes] != self.layout:
            return True
        return not all(map(is_, map(attributes.get, self.known), self.known.values()))


class ClassScope(Scope):
    """The attributes of one class, and the classes it is derived from."""

    def __init__(self, owner: type, path: str) -> None:
        super().__init__(owner, path)
        self.mro = owner.__mro__

    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes as they are now."""
        attributes: Mapping[str, Any] = vars(self.owner)
        return attributes

    def names_read(self, names: set[str], *, reflective: bool, called: bool) -> Iterable[str]:
        """Return which attributes code can read: those it names, and those that Python's own syntax calls."""
        members = {"_member_map_"} if isinstance(self.owner, EnumType) else set[str]()
        special = {name for name in self.layout if name.startswith("__") and name.endswith("__")}
        wanted = special | ({*self.layout} if reflective else names)
        ignored = INERT if called else INERT | CONSTRUCTORS
        return [name for name in self.layout if name in members or name in wanted - ignored]

    def changed(self) -> bool:
        """Return whether there are other attributes or bases, or an attribute that is read is another thing."""
        return self.owner.__mro__ is not self.mro or super().changed()


class Container:
    """A container, and the elements it had."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.elements = _element_lister(thing)
        self.was = list(self.elements(thing))

    def labelled(self) -> Iterator[tuple[str, Any]]:
        """Return the elements with what stands for them behind the container's name, such as `[3]`."""
        if issubclass(type(self.thing), dict):
            keys = self.was[: len(self.was) // 2]
            yield from zip([".keys()"] * len(keys), keys, strict=True)
            yield from zip([f"[{shown(key)}]" for key in keys], self.was[len(keys) :], strict=False)
            yield ".default_factory", self.was[-1]
        else:
            yield from ((f"[{k}]", element) for k, element in enumerate(self.was))

    def changed(self) -> bool:
        """Return whether the container has other elements; equal is not enough."""
        now = list(self.elements(self.thing))
        return len(now) != len(self.was) or not all(map(is_, now, self.was))


class ArrayCopy:
    """An array of numbers, and a copy of what it was."""

    def __init__(self, thing: Any) -> None:
        self.array = thing
        self.dtype, self.shape, self.strides = thing.dtype, thing.shape, thing.strides
        self.small = thing.nbytes <= SMALL_ARRAY_BYTES
        self.copy: Any = thing.tobytes() if self.small else np.ascontiguousarray(thing).copy()

    def changed(self) -> bool:
        """Return whether one bit, the shape or the dtype is another."""
        now = self.array
        if now.dtype != self.dtype or now.shape != self.shape or now.strides != self.strides:
            return True
        if self.small:
            return bool(now.tobytes() != self.copy)
        return not np.array_equal(_as_words(np.ascontiguousarray(now)), _as_words(self.copy))


class BytesCopy:
    """A mutable sequence of bytes or numbers, and a copy of what it was."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing
        self.copy = bytes(memoryview(thing))

    def changed(self) -> bool:
        """Return whether one byte, or their number, is another."""
        return bytes(memoryview(self.thing)) != self.copy


def _as_words(contiguous: Any) -> Any:
    """Return the memory of an array as whole numbers, so that every bit counts, also of NaN and -0.0."""
    return contiguous.reshape(-1).view(np.uint64 if contiguous.nbytes % 8 == 0 else np.uint8)


def _element_lister(thing: Any) -> Callable[[Any], Iterable[Any]]:
    """Return what lists the elements of a container, whatever a subclass has made of iteration."""
    base: Any = next(base for base in BASES if issubclass(type(thing), base))
    if issubclass(base, dict):
        factory: Any = defaultdict.default_factory if base is defaultdict else None  # type: ignore[misc]
        return lambda mapping: [*base.keys(mapping), *base.values(mapping), factory and factory.__get__(mapping)]
    lister: Callable[[Any], Iterable[Any]] = base.__iter__
    return lister


def _slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    """Return the slots that classes have made, under the names that code has for them."""
    return {
        name: part
        for base in kind.__mro__
        if not is_known_class(base) or base is Value or base is partial
        for name, part in vars(base).items()
        if type(part) is MemberDescriptorType and not name.startswith("__")
    }


def dict_of(thing: Any) -> Mapping[str, Any]:
    """Return the attributes of an object that are not in slots, whatever its class has made of looking them up."""
    try:
        found: Mapping[str, Any] = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return found


def _slot(owner: Any, slot: MemberDescriptorType) -> Any:
    try:
        return slot.__get__(owner)
    except AttributeError:
        return ABSENT


def contents(cell: CellType) -> Any:
    """Return what a cell holds."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT
