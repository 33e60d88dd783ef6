"""What is compared before each call: one class per kind of object that may change, and the snapshot of all of them."""

from __future__ import annotations

import sys
from abc import ABC, get_cache_token
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import EnumType
from functools import partial
from operator import attrgetter, is_, methodcaller
from types import CellType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import short_repr
from wiregrad.frontends.recording.arguments import member_slots
from wiregrad.frontends.replay.outside_rules import (
    ATOMIC_TYPES,
    CLASS_HOOKS,
    CONSTRUCTORS,
    CONTAINER_TYPES,
    COPY_FUNCTIONS,
    COPY_HOOKS,
    IMMUTABLE_TYPES,
    INERT_ATTRIBUTES,
    PROTOCOL_NAMES,
    REFLECTIVE_NAMES,
    CodeReads,
    is_known_class,
    is_known_module,
    is_python_class,
    names_in,
)

ABSENT = object()
"""The value of a variable that does not exist."""
PLAIN_BASES = (object, type, BaseException, Exception, ABC, Generic, *CONTAINER_TYPES, *ATOMIC_TYPES)
"""Base classes whose code reads only special attributes of derived classes."""
REFLECTIVE_CLASSES = (attrgetter, methodcaller)
"""Classes whose objects read attributes by name."""
CLASS_ACCESS_NAMES = ("type", "__class__")
"""Names in code that give the class of an object."""
SMALL_ARRAY_BYTES = 1 << 18
"""Up to this size an array is compared as bytes, which copies it."""


class OutsideSnapshot:
    """The state of everything a function reads from outside.

    Variables, cells and functions are compared by a generated function: a call of a compiled function takes about a
    microsecond, and a loop over everything it reads would take as long again.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        """The lines of the generated function; each returns True if one object has changed."""
        self._names: dict[str, Any] = {"contents": read_cell}
        """The objects that the names in these lines refer to."""
        self._compares: Callable[[], bool] | None = None
        self._undo: list[Callable[[], None]] = []
        """Functions that restore variables and cells."""
        self._watches: list[ContainerCopy | AttributeScope | ArrayCopy | BytesCopy] = []
        self._abc_token: object = None

    def note_function(self, function: FunctionType) -> None:
        """Note the code, the defaults and the number of attributes of a function."""
        name = self._name_thing(function)
        self._note_condition(f"{name}.__code__ is not {self._name_thing(function.__code__)}")
        self._note_condition(f"{name}.__defaults__ is not {self._name_thing(function.__defaults__)}")
        self._note_condition(f"{name}.__kwdefaults__ is not {self._name_thing(function.__kwdefaults__)}")
        self._note_condition(f"len({name}.__dict__) != {len(function.__dict__)}")
        self._undo.append(partial(_restore_function, function, dict(function.__dict__), *_parts_of(function)))

    def note_variable(self, variables: dict[str, Any], variable: str) -> None:
        """Note the object that a variable refers to; the variable may not exist."""
        name = self._name_thing(variables)
        self._undo.append(partial(_restore_item, variables, variable, variables.get(variable, ABSENT)))
        if variable in variables:
            self._note_condition(f"{name}[{variable!r}] is not {self._name_thing(variables[variable])}")
        else:
            self._note_condition(f"{variable!r} in {name}")

    def note_cell(self, cell: CellType) -> None:
        """Note the object that a variable of an enclosing function refers to."""
        self._note_condition(f"contents({self._name_thing(cell)}) is not {self._name_thing(read_cell(cell))}")
        self._undo.append(partial(_restore_cell, cell, read_cell(cell)))

    def note_module(self, module: ModuleType) -> None:
        """Note that a module is an ordinary module object."""
        self._note_condition(f"type({self._name_thing(module)}) is not {self._name_thing(ModuleType)}")

    def note_missing_module(self) -> None:
        """Note that a module could not be found; it may exist at the next call, so the state counts as changed."""
        self._note_condition("True")

    def note_watch(self, watch: ContainerCopy | AttributeScope | ArrayCopy | BytesCopy) -> None:
        """Note an object whose watch tells whether it has changed."""
        self._watches.append(watch)

    def note_abstract_classes(self) -> None:
        """Note the registrations with abstract classes, which `isinstance` depends on."""
        self._abc_token = get_cache_token()

    def clear(self) -> None:
        """Forget everything, so that nothing is compared."""
        self.__init__()  # type: ignore[misc]

    def restore(self) -> None:
        """Restore everything: elements of lists, attributes of objects, values of variables."""
        for undo in self._undo:
            undo()
        for watch in self._watches:
            watch.restore()

    def _name_thing(self, thing: object) -> str:
        """Return a name for an object in the generated function."""
        name = f"_{id(thing)}"
        self._names[name] = thing
        return name

    def _note_condition(self, condition: str) -> None:
        """Add a condition under which the state has changed, as Python text."""
        self._lines.append(f"    if {condition}: return True\n")
        self._compares = None

    def _generate_comparison(self) -> Callable[[], bool]:
        """Generate the function that compares variables, cells and functions."""
        text = f"def compares():\n{''.join(self._lines)}    return False\n"
        exec(compile(text, "<wiregrad outside state>", "exec"), self._names)
        compares: Callable[[], bool] = self._names["compares"]
        return compares

    def has_changed(self) -> bool:
        """Return whether a variable refers to another object, or a watched object has changed."""
        compares = self._compares
        if compares is None:
            compares = self._compares = self._generate_comparison()
        try:
            if compares():
                return True
        except KeyError:
            # A variable was deleted.
            return True
        return bool(self._watches) and self._any_watch_changed()

    def _any_watch_changed(self) -> bool:
        if self._abc_token is not None and self._abc_token != get_cache_token():
            return True
        try:
            for watch in self._watches:
                if watch.has_changed():
                    return True
        except (RuntimeError, AttributeError, ValueError):
            # Another thread is changing it, or an attribute was deleted.
            return True
        return False


class ReadNames:
    """The names that the followed code can read, and what else it may do."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        """Variables with an attribute that is read directly from them, as in `np.sin`."""
        self.escaping: set[str] = {""}
        """Variables that are used in any other way."""
        self.stored: set[str] = set()
        """Attributes that the code assigns."""
        self.constructed: set[int] = set()
        """Ids of the classes that the code can reach, and so may call."""
        self.calls_any_class = False
        """Whether there is a class method or descriptor, which may call any class passed to it."""
        self.makes_classes = False
        self.reflects = False
        """Whether the code can reach a function that reads attributes by name."""

    def add_code(self, reads: CodeReads) -> None:
        """Add what the bytecode of a function reads."""
        self.names |= reads.names
        self.pairs |= reads.pairs
        self.escaping |= reads.escaping
        self.stored |= reads.stored
        self.makes_classes = self.makes_classes or reads.makes_classes

    def add_text(self, text: str) -> None:
        """Add the names in a string that the code can reach: it may read attributes by them."""
        names = set(names_in([text]))
        self.names |= names
        self.escaping |= names

    def add_class(self, kind: type) -> None:
        """Add a class that the code can reach, and so may call."""
        self.constructed.update(map(id, kind.__mro__))
        self.reflects = self.reflects or kind in REFLECTIVE_CLASSES

    @property
    def is_reflective(self) -> bool:
        """Whether the code may read attributes that it does not name."""
        return self.reflects or not REFLECTIVE_NAMES.isdisjoint(self.names)

    def may_construct(self, kind: type) -> bool:
        """Return whether the code may create objects of a class."""
        return self.calls_any_class or id(kind) in self.constructed or not self.names.isdisjoint(CLASS_ACCESS_NAMES)

    def may_escape(self, bindings: set[str]) -> bool:
        """Return whether one of these variables may be used in another way than by reading a named attribute."""
        loaded = {name for name, _ in self.pairs} - self.escaping
        return not bindings <= loaded


class ModuleScope:
    """A module, and the names that it is bound to in the code."""

    def __init__(self, module: ModuleType, path: str) -> None:
        self.module = module
        self.path = path
        name = vars(module).get("__name__")
        self.known = is_known_module(name) and sys.modules.get(str(name)) is module
        self.bindings: set[str] = set()
        self.done: set[str] = set()


class AttributeScope:
    """The attributes of an object: their names, and the values of those that code reads."""

    def __init__(self, owner: object, path: str, *, whole: bool = False) -> None:
        self.owner: Any = owner
        self.path = path
        self.whole = whole
        """`whole`: whether every attribute counts as read, because code that was not followed may read it."""
        self.kind = type(owner)
        self.layout = [*self.current_attributes()]
        self.known: dict[str, Any] = {}

    def current_attributes(self) -> Mapping[str, Any]:
        """Return the attributes as they are now."""
        return dict_of(self.owner)

    def names_read(self, reads: ReadNames) -> Iterable[str]:
        """Return the attributes that code can read, given the names in it."""
        if self.whole or reads.is_reflective:
            return self.layout
        return [name for name in self.layout if name in reads.names or name in PROTOCOL_NAMES or _is_special(name)]

    def read_attributes(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Note the values of attributes; returns those that were not noted before."""
        attributes = self.current_attributes()
        for name in names:
            if name not in self.known:
                self.known[name] = attributes.get(name, ABSENT)
                if self.known[name] is not ABSENT:
                    yield name, self.known[name]

    def has_changed(self) -> bool:
        """Return whether attributes were added or removed, or one that is read has another value."""
        attributes = self.current_attributes()
        if type(self.owner) is not self.kind or [*attributes] != self.layout:
            return True
        return not all(map(is_, map(attributes.get, self.known), self.known.values()))

    def restore(self) -> None:
        """Restore the attributes that are read, and delete new ones."""
        for name in self.current_attributes().keys() - {*self.layout}:
            self._set_attribute(name, ABSENT)
        for name, was in self.known.items():
            if self.current_attributes().get(name, ABSENT) is not was:
                self._set_attribute(name, was)

    def _set_attribute(self, name: str, value: object) -> None:
        if value is ABSENT:
            object.__delattr__(self.owner, name)
        else:
            object.__setattr__(self.owner, name, value)


class SlotScope(AttributeScope):
    """The attributes of an object that are in slots; its `__dict__` may have attributes of the same names."""

    def __init__(self, owner: object, path: str, *, whole: bool = False) -> None:
        self.slots = slots_of(type(owner))
        super().__init__(owner, path, whole=whole)

    def current_attributes(self) -> Mapping[str, Any]:
        """Return the attributes as they are now."""
        held = {name: _read_slot(self.owner, slot) for name, slot in self.slots.items()}
        return {name: value for name, value in held.items() if value is not ABSENT}

    def _set_attribute(self, name: str, value: object) -> None:
        slot = self.slots[name]
        if value is ABSENT:
            slot.__delete__(self.owner)
        else:
            slot.__set__(self.owner, value)


class ClassScope(AttributeScope):
    """The attributes of one class, and its base classes."""

    def __init__(self, owner: type, path: str) -> None:
        # Code of a known base class may read every attribute of a derived class, and create objects.
        super().__init__(
            owner, path, whole=any(is_known_class(base) for base in owner.__mro__ if base not in PLAIN_BASES)
        )
        self.mro = owner.__mro__

    def current_attributes(self) -> Mapping[str, Any]:
        """Return the attributes as they are now."""
        attributes: Mapping[str, Any] = vars(self.owner)
        return attributes

    def names_read(self, reads: ReadNames) -> Iterable[str]:
        """Return the attributes that code can read: those it names, and those that Python's syntax calls."""
        if reads.is_reflective or self.whole:
            inert = INERT_ATTRIBUTES - {"__dataclass_fields__"} if "fields" in reads.names else INERT_ATTRIBUTES
            return [name for name in self.layout if name in reads.names or name not in inert]
        ignored = INERT_ATTRIBUTES | (frozenset() if reads.may_construct(self.owner) else CONSTRUCTORS)
        ignored |= frozenset() if reads.makes_classes else CLASS_HOOKS
        ignored |= COPY_HOOKS if reads.names.isdisjoint(COPY_FUNCTIONS) else frozenset()
        always = {name for name in self.layout if name in PROTOCOL_NAMES or _is_special(name)} - ignored
        if isinstance(self.owner, EnumType):
            always.add("_member_map_")
        return [name for name in self.layout if name in always or name in reads.names]

    def has_changed(self) -> bool:
        """Return whether attributes or bases were added or removed, or an attribute that is read has another value."""
        return self.owner.__mro__ is not self.mro or super().has_changed()

    def _set_attribute(self, name: str, value: object) -> None:
        if value is ABSENT:
            type.__delattr__(self.owner, name)
        else:
            type.__setattr__(self.owner, name, value)


class ContainerCopy:
    """A container, and a copy of its elements."""

    def __init__(self, thing: object) -> None:
        self.thing: Any = thing
        self.elements = _element_lister(thing)
        self.was = list(self.elements(thing))
        base = _base_of(thing)
        # A copy of a dict or set keeps the hashes of its keys, which may no longer be hashable when it is restored.
        self.copy: Any = base.copy(thing) if issubclass(base, dict | set) else self.was

    def labelled_elements(self) -> Iterator[tuple[str, Any]]:
        """Return the elements with the text that selects them, such as `[3]`."""
        if issubclass(type(self.thing), dict):
            keys = self.was[: len(self.was) // 2]
            yield from zip([".keys()"] * len(keys), keys, strict=True)
            # Formatting a key of another type would run its own code.
            labels = [f"[{short_repr(key)}]" if type(key) in IMMUTABLE_TYPES else "[...]" for key in keys]
            yield from zip(labels, self.was[len(keys) :], strict=False)
            yield ".default_factory", self.was[-1]
        else:
            yield from ((f"[{k}]", element) for k, element in enumerate(self.was))

    def has_changed(self) -> bool:
        """Return whether the elements are other objects than before; equal ones count as others."""
        now = list(self.elements(self.thing))
        return len(now) != len(self.was) or not all(map(is_, now, self.was))

    def restore(self) -> None:
        """Restore the elements of the container."""
        if not self.has_changed():
            return
        thing = self.thing
        base = _base_of(self.thing)
        base.clear(thing)
        if issubclass(base, dict | set):
            (dict if base is defaultdict else base).update(thing, self.copy)
        else:
            base.extend(thing, self.copy[: -1 if base is deque else None])


class ArrayCopy:
    """An array of numbers, and a copy of its earlier numbers."""

    def __init__(self, thing: NDArray[Any]) -> None:
        self.array = thing
        self.dtype = thing.dtype
        self.shape = thing.shape
        self.strides = thing.strides
        # The names of a dtype's fields can be changed in place.
        self.fields = thing.dtype.names
        self.writeable = thing.flags.writeable
        self.small = thing.nbytes <= SMALL_ARRAY_BYTES
        self.copy: Any = thing.tobytes() if self.small else np.ascontiguousarray(thing).copy()

    def has_changed(self) -> bool:
        """Return whether a bit, the shape or the dtype has changed."""
        now = self.array
        if now.dtype != self.dtype or now.shape != self.shape or now.strides != self.strides:
            return True
        if now.dtype.names != self.fields or now.flags.writeable != self.writeable:
            return True
        if self.small:
            return bool(now.tobytes() != self.copy)
        return not np.array_equal(_as_words(np.ascontiguousarray(now)), _as_words(self.copy))

    def restore(self) -> None:
        """Restore the numbers of the array."""
        if self.has_changed():
            was = np.frombuffer(self.copy, self.dtype) if self.small else self.copy
            self.array.shape = self.shape
            self.array[...] = was.reshape(self.shape)


class BytesCopy:
    """A mutable sequence of bytes or numbers, and a copy of its bytes."""

    def __init__(self, thing: bytearray | array[Any]) -> None:
        self.thing: Any = thing
        self.copy = bytes(memoryview(thing))

    def has_changed(self) -> bool:
        """Return whether a byte or the length has changed."""
        return bytes(memoryview(self.thing)) != self.copy

    def restore(self) -> None:
        """Restore the bytes of the sequence."""
        if self.has_changed():
            self.thing[:] = type(self.thing)(*_arguments_of(self.thing), self.copy)


def _arguments_of(thing: object) -> tuple[Any, ...]:
    """Return the arguments that construct such a sequence, besides its bytes."""
    return (thing.typecode,) if hasattr(thing, "typecode") else ()


def _as_words(contiguous: NDArray[Any]) -> NDArray[Any]:
    """Return the memory of an array as whole numbers, so that every bit counts, also in NaN and -0.0."""
    return contiguous.reshape(-1).view(np.uint64 if contiguous.nbytes % 8 == 0 else np.uint8)


def _base_of(thing: object) -> Any:
    """Return the builtin container that a container is, or is derived from."""
    return next(base for base in CONTAINER_TYPES if issubclass(type(thing), base))


def _element_lister(thing: object) -> Callable[[Any], Iterable[Any]]:
    """Return a function that lists the elements of a container, even if a subclass overrides iteration."""
    base = _base_of(thing)
    if base is deque:
        return lambda items: [*deque.__iter__(items), items.maxlen]
    if issubclass(base, dict):
        factory: Any = defaultdict.default_factory if base is defaultdict else None  # type: ignore[misc]
        return lambda mapping: [*base.keys(mapping), *base.values(mapping), factory and factory.__get__(mapping)]
    lister: Callable[[Any], Iterable[Any]] = base.__iter__
    return lister


def slots_of(kind: type) -> dict[str, MemberDescriptorType]:
    """Return the slots of a class and its bases, under the names that code uses for them."""
    makers = [base for base in kind.__mro__ if is_python_class(base) or base in (partial, defaultdict)]
    own = [base for base in makers if not is_known_class(base)]
    slots = {name: slot for name, slot in member_slots(makers).items() if not _is_special(name)}
    return {**slots, **member_slots(own)}


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _parts_of(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _restore_function(function: FunctionType, attributes: dict[str, Any], *parts: Any) -> None:
    if not all(map(is_, _parts_of(function), parts)):
        function.__code__, function.__defaults__, function.__kwdefaults__ = parts
    if [*function.__dict__] != [*attributes] or not all(map(is_, function.__dict__.values(), attributes.values())):
        function.__dict__.clear()
        function.__dict__.update(attributes)


def _restore_item(variables: dict[str, Any], name: str, was: object) -> None:
    if variables.get(name, ABSENT) is not was:
        if was is ABSENT:
            del variables[name]
        else:
            variables[name] = was


def _restore_cell(cell: CellType, was: object) -> None:
    if read_cell(cell) is not was:
        if was is ABSENT:
            del cell.cell_contents
        else:
            cell.cell_contents = was


def dict_of(thing: object) -> Mapping[str, Any]:
    """Return the `__dict__` of an object, even if its class overrides attribute lookup."""
    try:
        attributes: Mapping[str, Any] = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return attributes


def _read_slot(owner: object, slot: MemberDescriptorType) -> object:
    try:
        return slot.__get__(owner)
    except AttributeError:
        return ABSENT


def read_cell(cell: CellType) -> object:
    """Return the contents of a cell; `ABSENT` if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT
