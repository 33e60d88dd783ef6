"""The walk through everything a function reads besides its arguments.

Starting from a function, the walk follows its variables, the objects they refer to, and the functions that these can
call, as long as all objects are of kinds that can be compared (`outside_rules`). At the first object of another kind
it stops, and `opaque` names that object: the function itself has to run then, since a change could not be noticed. So
the rule is a list of what is known to be safe, not of what is suspected.

The walk runs no user code: it looks only at the types of objects.

Of modules, classes and objects, only attributes count whose names occur in the code that was followed.
"""

from __future__ import annotations

import array
import sys
from abc import ABCMeta
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import cached_property, partial
from importlib.util import resolve_name
from operator import attrgetter, methodcaller
from types import (
    BuiltinFunctionType,
    FunctionType,
    GenericAlias,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    UnionType,
)
from typing import Any, cast

import numpy as np

from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.replay.outside_rules import (
    ATOMIC_TYPES,
    CONTAINER_TYPES,
    IMMUTABLE_TYPES,
    MUTATING_NAMES,
    REFLECTIVE_NAMES,
    STATEFUL_NAMES,
    UNSEEN_NAMES,
    is_known_builtin,
    is_known_class,
    is_known_function,
    is_known_module,
    is_python_class,
    is_transparent,
    names_in,
    reads_of,
)
from wiregrad.frontends.replay.outside_watches import (
    ABSENT,
    ArrayCopy,
    AttributeScope,
    BytesCopy,
    ClassScope,
    ContainerCopy,
    ModuleScope,
    OutsideSnapshot,
    SlotScope,
    dict_of,
    read_cell,
    slots_of,
)
from wiregrad.ir import CircuitGraph, Op

MAX_THINGS = 10_000
"""Maximum number of variables, attributes and elements that are compared before each call."""
MAX_BYTES = 1 << 26
"""Maximum total size of the arrays from outside, which are copied to be compared."""
PLAIN_NUMBER_TYPES = (float, int, bool, complex)
CALLABLE_TYPES = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum))
REFLECTIVE_CLASSES = (attrgetter, methodcaller)
RAW_MEMORY_ATTRIBUTES = ("__array_interface__", "__array_struct__")
"""Attributes through which NumPy reads memory that cannot be compared."""
CLASS_ACCESS_NAMES = ("type", "__class__")
"""Names in code that give the class of an object."""


class ComparesItself:
    """Base class of functions that compare their outside state themselves; `__wrapped__` is the function they call."""


class OutsideState:
    """The state of everything that functions read from outside, taken when they were followed.

    >>> scale = [2.0]
    >>> outside = OutsideState(lambda x: scale[0] * x)
    >>> before = outside.changed()
    >>> scale[0] = 3.0
    >>> before, outside.changed()
    (False, True)
    >>> numbers = iter([1.0, 2.0])
    >>> OutsideState(lambda x: next(numbers) * x).opaque
    'it uses numbers from outside, of type list_iterator, which may change unnoticed'
    """

    def __init__(self, *things: Any) -> None:
        self.opaque: str | None = None
        """Why the function itself has to run: it reads an object that cannot be compared. None if it does not."""
        self._seen: dict[Any, Any] = {}
        """Everything that was followed by id; kept alive, so that no other object gets the same id."""
        self._queue: deque[tuple[Any, str, str]] = deque()
        self.names: set[str] = set()
        self._pairs: set[tuple[str, str]] = set()
        self._escaping: set[str] = {""}
        self._stored: set[str] = set()
        """Names of attributes that the code assigns."""
        self._constructed: set[int] = set()
        """Ids of the classes that the code can reach, and so may call."""
        self._calls_any_class = False
        """Whether there is a class method or descriptor, which may call any class passed to it."""
        self.makes_classes = False
        self.mutates = False
        """Whether the followed code may change the state outside."""
        self._reflects = False
        self._scopes: list[AttributeScope] = []
        self._modules: dict[int, ModuleScope] = {}
        self._room = MAX_THINGS
        self._byte_room = MAX_BYTES
        self._home: dict[str, Any] | None = None
        """The globals of the function that was followed first."""
        self._snapshot = OutsideSnapshot()
        self.changed = self._snapshot.has_changed
        self.restore = self._snapshot.restore
        self.follow(*things)

    def follow(self, *things: Any) -> None:
        """Follow more objects: functions and their arguments."""
        for thing in things:
            self._enqueue(thing, thing.__name__ if type(thing) is FunctionType else "an argument")
        while self.opaque is None and (self._queue or self._read_new_names()):
            thing, path, binding = self._queue.popleft()
            self._visit_thing(thing, path, binding)

    def _enqueue(self, thing: Any, path: str, binding: str = "") -> None:
        """Put an object into the queue; `path` describes it in messages, `binding` is the name it is bound to."""
        self._queue.append((thing, path, binding))

    def _refuse_thing(self, thing: Any, path: str) -> None:
        kind = type(thing)
        if kind in CALLABLE_TYPES or issubclass(kind, type):
            self._stop_walk(f"it uses {path} from outside, whose results may depend on more than its arguments")
        else:
            module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            self._stop_walk(
                f"it uses {path} from outside, of type {module}{kind.__qualname__}, which may change unnoticed"
            )

    def _stop_walk(self, reason: str) -> None:
        """Stop the walk: the function itself has to run, so nothing needs to be compared."""
        self.opaque = reason
        self._snapshot.clear()
        self._queue.clear()
        self._scopes.clear()
        self._modules.clear()

    def _reserve_things(self, count: int, path: str) -> bool:
        """Return whether `count` more objects may be compared; stops the walk if not."""
        self._room -= count
        if self._room < 0:
            self._stop_walk(f"it uses more than {MAX_THINGS:,} things from outside, {path} among them")
        return self._room >= 0

    def _reserve_bytes(self, count: int, path: str) -> bool:
        """Return whether `count` more bytes may be copied; stops the walk if not."""
        self._byte_room -= count
        if self._byte_room < 0:
            size = f"{MAX_BYTES >> 20} MiB of arrays"
            self._stop_walk(f"it uses more than {size} from outside, {path} among them; pass them as arguments")
        return self._byte_room >= 0 and self._reserve_things(1, path)

    def _visit_thing(self, thing: Any, path: str, binding: str) -> None:
        """Follow one object, by the method for its type."""
        kind = type(thing)
        if kind in IMMUTABLE_TYPES:
            if kind is str:
                texts = set(names_in([thing]))
                self.names |= texts
                self._escaping |= texts
            return
        if issubclass(kind, np.dtype):
            if thing.names is not None:
                # The names of a dtype's fields can be changed in place.
                self._refuse_thing(thing, path)
            return
        if issubclass(kind, type):
            self._constructed.update(map(id, thing.__mro__))
            self._reflects = self._reflects or thing in REFLECTIVE_CLASSES
        if kind is ModuleType:
            self._follow_module(thing, path, binding)
        elif id(thing) not in self._seen:
            self._seen[id(thing)] = thing
            follow = FOLLOW_METHODS.get(kind)
            if follow is not None:
                follow(self, thing, path)
            elif issubclass(kind, type):
                self._follow_class(thing, path)
            else:
                self._follow_object(thing, path)

    def _follow_function(self, function: FunctionType, path: str) -> None:
        known = is_known_function(function)
        if known and function.__name__ in STATEFUL_NAMES:
            self._refuse_thing(function, path)
            return
        code = function.__code__
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            held = read_cell(cell)
            self._snapshot.note_cell(cell)
            if name == "__class__" and issubclass(type(held), type):
                # This variable is there for `super()`, which does not call the class.
                self._follow_base(held)
            elif self._reserve_things(1, path):
                self._enqueue(held, name, name)
        if known:
            return
        self._snapshot.note_function(function)
        self._enqueue(function.__defaults__, f"the defaults of {path}")
        self._enqueue(function.__kwdefaults__, f"the defaults of {path}")
        if function.__dict__:
            self._add_scope(AttributeScope(function, path))
        self._follow_code(function)

    def _follow_code(self, function: FunctionType) -> None:
        """Note the variables and attributes that the code of a function names."""
        reads = reads_of(function.__code__)
        builtins: dict[str, Any] = cast(Any, function).__builtins__
        self.names |= reads.names
        self._pairs |= reads.pairs
        self._escaping |= reads.escaping
        self.makes_classes = self.makes_classes or reads.makes_classes
        self.mutates = self.mutates or reads.mutates
        self._stored |= reads.stored
        unseen = sorted(UNSEEN_NAMES & reads.names)
        if unseen:
            self._stop_walk(
                f"it uses {unseen[0]} (in {function.__qualname__}), which leads to things that are not followed"
            )
            return
        for name in reads.global_names:
            value = self._note_variable(function.__globals__, name, name)
            if value is ABSENT:
                value = self._note_variable(builtins, name, name)
            if value is not ABSENT:
                self._enqueue(value, self._path_of_global(name, function), name)
        for name, level in reads.imports:
            self._follow_import(name, level, function)

    def _path_of_global(self, name: str, function: FunctionType) -> str:
        """Return a global's name, with its module unless that is the module of the function that was followed first."""
        if self._home is None:
            self._home = function.__globals__
        return name if function.__globals__ is self._home else f"{name} (in {function.__module__})"

    def _follow_import(self, name: str, level: int, function: FunctionType) -> None:
        """Note the modules that an import statement inside a function refers to."""
        try:
            full = resolve_name("." * level + name, function.__globals__.get("__package__") or "") if level else name
        except ImportError:
            self._stop_walk(f"{function.__name__} imports {name} in a way that cannot be followed")
            return
        parts = full.split(".")
        for count in range(1, len(parts) + 1):
            path = ".".join(parts[:count])
            module = self._note_variable(cast(dict[str, Any], sys.modules), path, path)
            if module is ABSENT:
                self._snapshot.note_missing_module()
            else:
                self._enqueue(module, path)

    def _note_variable(self, variables: dict[str, Any], name: str, path: str) -> Any:
        """Note the value of a variable; returns it."""
        value = variables.get(name, ABSENT)
        key = id(variables), name
        if key not in self._seen and self._reserve_things(1, path):
            self._seen[key] = variables
            self._snapshot.note_variable(variables, name)
        return value

    def _follow_module(self, module: ModuleType, path: str, binding: str) -> None:
        scope = self._modules.get(id(module))
        if scope is None:
            scope = self._modules[id(module)] = ModuleScope(module, path)
            if not scope.known:
                self._snapshot.note_module(module)
        scope.bindings.add(binding)

    def _follow_class(self, kind: type, path: str) -> None:
        if isinstance(kind, ABCMeta):
            self._snapshot.note_abstract_classes()
        if "_is_protocol" in vars(kind) and not is_known_class(kind):
            # isinstance(x, protocol) looks for these attributes of x.
            self.names |= {*vars(kind), *vars(kind).get("__annotations__", ())}
        if type(kind) is not type:
            self._enqueue(type(kind), f"the metaclass of {path}")
        for base in kind.__mro__:
            if is_known_class(base):
                continue
            if not is_python_class(base):
                self._refuse_thing(kind, path)
                return
            if base is kind:
                self._add_scope(ClassScope(kind, path))
            else:
                self._follow_base(base)

    def _follow_base(self, base: type) -> None:
        """Follow a class that the code cannot reach directly, and so cannot call."""
        if id(base) not in self._seen:
            self._seen[id(base)] = base
            self._follow_class(base, base.__qualname__)

    def _follow_object(self, thing: Any, path: str) -> None:
        """Follow an object of a class that is not in `FOLLOW_METHODS`."""
        kind = type(thing)
        if issubclass(kind, Value):
            self._follow_attributes_of(thing, path, whole=True)
        elif issubclass(kind, Op):
            self._enqueue(thing.forward, path)
        elif kind is CircuitGraph:
            if any(op.per_call for op in {thing.op_of(node) for node in range(len(thing))}):
                self._refuse_thing(thing, path)
        elif issubclass(kind, ComparesItself):
            self._enqueue(dict_of(thing)["__wrapped__"], path)
        elif not is_transparent(kind):
            self._refuse_thing(thing, path)
        else:
            self._follow_base(kind)
            whole = any(
                is_known_class(base) for base in kind.__mro__ if base not in (object, *CONTAINER_TYPES, *ATOMIC_TYPES)
            )
            self._follow_attributes_of(thing, path, whole=whole)
            if issubclass(kind, CONTAINER_TYPES):
                self._follow_container(thing, path)

    def _follow_container(self, thing: Any, path: str) -> None:
        watch = ContainerCopy(thing)
        if self._reserve_things(len(watch.was), path):
            if not issubclass(type(thing), tuple | frozenset):
                self._snapshot.note_watch(watch)
            for label, element in watch.labelled_elements():
                if type(element) not in PLAIN_NUMBER_TYPES:
                    self._enqueue(element, path + label)

    def _follow_array(self, thing: Any, path: str) -> None:
        if thing.dtype.hasobject:
            self._refuse_thing(thing, path)
            return
        if self._reserve_bytes(thing.nbytes, path):
            self._snapshot.note_watch(ArrayCopy(thing))

    def _follow_buffer(self, thing: Any, path: str) -> None:
        if self._reserve_bytes(memoryview(thing).nbytes, path):
            self._snapshot.note_watch(BytesCopy(thing))

    def _follow_builtin(self, function: Any, path: str) -> None:
        owner = function.__self__
        self._reflects = self._reflects or function.__name__ in REFLECTIVE_NAMES
        self.mutates = self.mutates or function.__name__ in MUTATING_NAMES
        if owner is not None and not isinstance(owner, ModuleType):
            # A method of an object, such as `table.get`.
            self._enqueue(owner, path)
        elif not is_known_builtin(function):
            self._refuse_thing(function, path)

    def _follow_dispatcher(self, function: Any, path: str) -> None:
        if function.__name__ in STATEFUL_NAMES or not is_known_module(function.__module__):
            self._refuse_thing(function, path)

    def _follow_ufunc(self, ufunc: np.ufunc, path: str) -> None:
        homes = [np, sys.modules.get("scipy.special")]
        if not any(getattr(home, ufunc.__name__, None) is ufunc for home in homes):
            # It may have been made from a Python function.
            self._refuse_thing(ufunc, path)

    def _follow_attributes(self, thing: Any, path: str, *names: str) -> None:
        """Follow some attributes of an object of a builtin type."""
        for name in names:
            self._enqueue(getattr(thing, name), path)

    def _follow_class_method(self, thing: Any, path: str) -> None:
        self._calls_any_class = True
        self._enqueue(thing.__func__, path)

    def _follow_partial(self, thing: Any, path: str) -> None:
        self._follow_attributes_of(thing, path, whole=True)

    def _follow_attributes_of(self, thing: Any, path: str, *, whole: bool) -> None:
        self._add_scope(AttributeScope(thing, path, whole=whole))
        if slots_of(type(thing)):
            self._add_scope(SlotScope(thing, path, whole=whole))

    def _add_scope(self, scope: AttributeScope) -> None:
        self._scopes.append(scope)
        self._snapshot.note_watch(scope)

    @property
    def is_reflective(self) -> bool:
        """Whether the code may read attributes that it does not name."""
        return self._reflects or not REFLECTIVE_NAMES.isdisjoint(self.names)

    def may_construct(self, kind: Any) -> bool:
        """Return whether the code may create objects of a class."""
        return self._calls_any_class or id(kind) in self._constructed or not self.names.isdisjoint(CLASS_ACCESS_NAMES)

    def _read_new_names(self) -> bool:
        """Follow the attributes whose names were found since the last time; returns whether there were any."""
        for scope in tuple(self._scopes):
            for name, value in scope.read_attributes(scope.names_read(self)):
                if not self._reserve_things(1, scope.path):
                    return False
                self._calls_any_class = self._calls_any_class or name == "__get__"
                if name in RAW_MEMORY_ATTRIBUTES:
                    self._refuse_thing(scope.owner, scope.path)
                    return False
                self._enqueue(value, f"{scope.path}.{name}", name)
        for module in tuple(self._modules.values()):
            self._read_module(module)
        return bool(self._queue)

    def _read_module(self, scope: ModuleScope) -> None:
        loaded = {name for name, _ in self._pairs} - self._escaping
        escapes = not scope.bindings <= loaded
        if escapes and self.is_reflective and not scope.known:
            self._stop_walk(f"it looks names up in the module {scope.path} that are not in its code")
            return
        variables = vars(scope.module)
        names = {name for binding, name in self._pairs if binding in scope.bindings}
        if escapes:
            names |= (self.names & variables.keys()) | self._stored
        for name in sorted(names - scope.done):
            scope.done.add(name)
            if name in variables or name in self._stored or not scope.known:
                value = self._note_variable(variables, name, scope.path)
                if value is ABSENT:
                    value = self._note_variable(variables, "__getattr__", scope.path)
                if value is not ABSENT:
                    self._enqueue(value, f"{scope.path}.{name}", name)


def _follow_parts(*names: str) -> Callable[[OutsideState, Any, str], None]:
    def follow(state: OutsideState, thing: Any, path: str) -> None:
        state._follow_attributes(thing, path, *names)

    return follow


def _follow_all_attributes(state: OutsideState, thing: Any, path: str) -> None:
    # `==` and `repr` of a SimpleNamespace read all of its attributes.
    state._add_scope(AttributeScope(thing, path, whole=True))


FOLLOW_METHODS: dict[type, Callable[[OutsideState, Any, str], None]] = {
    FunctionType: OutsideState._follow_function,
    BuiltinFunctionType: OutsideState._follow_builtin,
    type(np.sum): OutsideState._follow_dispatcher,
    np.ufunc: OutsideState._follow_ufunc,
    MethodWrapperType: _follow_parts("__self__"),
    MethodType: _follow_parts("__func__", "__self__"),
    staticmethod: _follow_parts("__func__"),
    classmethod: OutsideState._follow_class_method,
    property: _follow_parts("fget", "fset", "fdel"),
    cached_property: _follow_parts("func"),
    slice: _follow_parts("start", "stop", "step"),
    GenericAlias: _follow_parts("__origin__", "__args__"),
    UnionType: _follow_parts("__args__"),
    partial: OutsideState._follow_partial,
    SimpleNamespace: _follow_all_attributes,
    np.ndarray: OutsideState._follow_array,
    bytearray: OutsideState._follow_buffer,
    array.array: OutsideState._follow_buffer,
    **dict.fromkeys((list, tuple, dict, set, frozenset, deque), OutsideState._follow_container),
    **dict.fromkeys((OrderedDict, defaultdict), OutsideState._follow_container),
}
"""The method that follows objects of exactly this type."""


__all__ = ["MAX_BYTES", "MAX_THINGS", "ComparesItself", "OutsideState"]
