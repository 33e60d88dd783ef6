"""The walk through everything a function reads besides its arguments.

Starting from a function, the walk follows its variables, the objects they refer to, and the functions that these can
call, as long as all objects are of kinds that can be compared (`outside_watches`). At the first object of another kind
it stops, and `opaque` names that object: the function itself has to run then, since a change could not be noticed. So
the rule is a list of what is known to be safe, not of what is suspected.

The walk runs no user code: it looks only at the types of objects.

Of modules, classes and objects, only attributes count whose names occur in the code that was followed.
"""

from __future__ import annotations

import array
import logging
import os
import sys
import warnings
from abc import ABCMeta
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from importlib.util import resolve_name
from inspect import signature
from reprlib import recursive_repr
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
from numpy.typing import NDArray

from wiregrad.frontends.recording.library_hooks import is_replaced
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.replay.outside_watches import (
    ABSENT,
    ATOMIC_TYPES,
    CONTAINER_TYPES,
    IMMUTABLE_TYPES,
    MUTATING_NAMES,
    REFLECTIVE_NAMES,
    STATEFUL_NAMES,
    UNSEEN_NAMES,
    ArrayCopy,
    AttributeScope,
    BytesCopy,
    ClassScope,
    ContainerCopy,
    DistributionScope,
    ModuleScope,
    OutsideSnapshot,
    ReadNames,
    SlotScope,
    dict_of,
    is_distribution,
    is_known_builtin,
    is_known_class,
    is_known_function,
    is_known_module,
    is_python_class,
    is_transparent,
    read_cell,
    reads_of,
    slots_of,
)
from wiregrad.ir import CircuitGraph, Op
from wiregrad.lazy import pause_collection

MAX_THINGS = 10_000
"""Maximum number of variables, attributes and elements that are compared before each call."""
MAX_BYTES = 1 << 26
"""Maximum total size of the arrays from outside, which are copied to be compared."""
PLAIN_NUMBER_TYPES = (float, int, bool, complex)
CALLABLE_TYPES = (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum))
LOGGING_FUNCTIONS = frozenset("debug info warning error exception critical log getLogger basicConfig".split())
"""Functions of `logging` that return nothing that depends on a setting, and methods of loggers."""
LOGGER_STATE = frozenset(dir(logging.root)) - frozenset(dir(object)) - LOGGING_FUNCTIONS
"""What else can be read from a logger."""
VISIBLE_WARNINGS = frozenset(["error", "record", "showwarning", "_showwarnmsg", "onceregistry", "defaultaction"])
"""Texts and attributes by which code can see whether something warns."""
DRAWING_PARAMETERS = frozenset("rng random_state seed method methods permutations n_resamples rvs optimizer".split())
"""Parameters of functions of `scipy.stats` that draw random numbers or call something that may."""
ATTRS_CODE = "<attrs generated"
"""How the file name begins of methods that the package attrs writes."""
REPR_GUARD_CODE = recursive_repr()(lambda thing: "").__code__
"""The code around a `__repr__` that notes the objects it describes, because they may contain themselves.

Since Python 3.13 data classes have it.
"""
CYTHON_FUNCTION = "cython_function_or_method"
"""The name of the type of functions that Cython compiled; each package has its own such type."""
RAW_MEMORY_ATTRIBUTES = ("__array_interface__", "__array_struct__")
"""Attributes through which NumPy reads memory that cannot be compared."""


class ComparesItself:
    """Base class of functions that compare their outside state themselves; `__wrapped__` is the function they call."""


class WalkLimits:
    """How many more objects and bytes a walk may note to compare them before each call."""

    def __init__(self) -> None:
        self.things = MAX_THINGS
        self.size = MAX_BYTES


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

    def __init__(self, *things: object) -> None:
        self.opaque: str | None = None
        """Why the function itself has to run: it reads an object that cannot be compared. None if it does not."""
        self.mutates = False
        """Whether the followed code may change the state outside."""
        self.prints = False
        """Whether the followed code may print, which cannot be undone."""
        self.reads = ReadNames()
        """The names that the followed code can read."""
        self.snapshot = OutsideSnapshot()
        self.changed = self.snapshot.has_changed
        self.restore = self.snapshot.restore
        self._limits = WalkLimits()
        self._seen: dict[object, object] = {}
        """Everything that was followed by id; kept alive, so that no other object gets the same id."""
        self._queue: deque[tuple[object, str, str, str]] = deque()
        self._scopes: list[AttributeScope] = []
        self._library_path = ""
        """The thing of a library by which the walk left the user's code to get where it is; empty if it did not."""
        self._scope_library_paths: dict[int, str] = {}
        """Those by which the walk reached the owners of scopes, by the ids of the scopes."""
        self._forbidden_names: list[tuple[object, str, frozenset[str]]] = []
        """Things that cannot be compared if the code names one of these attributes or texts."""
        self._modules: dict[int, ModuleScope] = {}
        self._users: dict[str, str] = {}
        """The function that was followed first among those that name something, by that name."""
        self._home: dict[str, Any] | None = None
        """The globals of the function that was followed first."""
        self.follow(*things)

    def describe_watches(self) -> Any:
        """Return what is compared as an object of the extension module."""
        return RECORDER.WatchList(self.snapshot.describe_watches(), ABSENT)

    def follow(self, *things: object) -> None:
        """Follow more objects: functions and their arguments."""
        for thing in things:
            is_function = type(thing) in (FunctionType, TransformedFunction)
            self.enqueue(thing, getattr(thing, "__name__", "f") if is_function else "an argument")
        with pause_collection():
            while self.opaque is None and (self._queue or self._read_new_names()):
                thing, path, binding, self._library_path = self._queue.popleft()
                if not self._library_path and is_of_library(thing):
                    self._library_path = path
                self._visit_thing(thing, path, binding)

    def enqueue(self, thing: object, path: str, binding: str = "") -> None:
        """Put an object into the queue; `path` describes it in messages, `binding` is the name it is bound to."""
        self._queue.append((thing, path, binding, self._library_path))

    def refuse_thing(self, thing: object, path: str) -> None:
        """Stop the walk at an object that cannot be compared."""
        kind = type(thing)
        draws = "it draws random numbers: " if draws_numbers(thing) else ""
        if _is_code(thing):
            what = "whose results may depend on more than its arguments"
        else:
            module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
            what = f"of type {module}{kind.__qualname__}, which may change unnoticed"
        user = self._users.get(path.rpartition(".")[2], "")
        # A class that the code can reach may be called.
        where = f"; it may call {user.removesuffix('.__init__')}, whose __init__ uses it" if "__init__" in user else ""
        advice = "; to compile it, draw the numbers before the call and pass them as an argument" if draws else ""
        library_path = self._library_path
        source = f"{path} from outside" if library_path in ("", path) else f"{library_path}, which uses {path}"
        self._stop_walk(f"{draws}it uses {source}, {what}{advice}{where}")

    def _stop_walk(self, reason: str) -> None:
        """Stop the walk: the function itself has to run, so nothing needs to be compared."""
        self.opaque = reason
        self.snapshot.clear()
        self._queue.clear()
        self._scopes.clear()
        self._modules.clear()
        self._forbidden_names.clear()

    def reserve_things(self, count: int, path: str) -> bool:
        """Return whether `count` more objects may be compared; stops the walk if not."""
        self._limits.things -= count
        if self._limits.things < 0:
            self._stop_walk(f"it uses more than {MAX_THINGS:,} things from outside, {path} among them")
        return self._limits.things >= 0

    def reserve_bytes(self, count: int, path: str) -> bool:
        """Return whether `count` more bytes may be copied; stops the walk if not."""
        self._limits.size -= count
        if self._limits.size < 0:
            size = f"{MAX_BYTES >> 20} MiB of arrays"
            self._stop_walk(f"it uses more than {size} from outside, {path} among them; pass them as arguments")
        return self._limits.size >= 0 and self.reserve_things(1, path)

    def _visit_thing(self, thing: Any, path: str, binding: str) -> None:
        """Follow one object, by the function for its type."""
        kind = type(thing)
        if kind in IMMUTABLE_TYPES:
            if kind is str:
                self.reads.add_text(thing)
            return
        if issubclass(kind, np.dtype):
            if thing.names is not None:
                # The names of a dtype's fields can be changed in place.
                self.refuse_thing(thing, path)
            return
        if issubclass(kind, type):
            self.reads.add_class(thing, binding)
        if kind is ModuleType:
            self._follow_module(thing, path, binding)
        elif id(thing) not in self._seen:
            self._seen[id(thing)] = thing
            follow = FOLLOW_FUNCTIONS.get(kind) or FOLLOW_BY_NAME.get(f"{kind.__module__}.{kind.__qualname__}")
            if follow is not None:
                follow(self, thing, path)
            elif issubclass(kind, type):
                self._follow_class(thing, path)
            else:
                self._follow_object(thing, path)

    def follow_function(self, function: FunctionType, path: str) -> None:
        """Follow a Python function: its closure, its defaults, and the names in its code."""
        if is_replaced(function) or is_statistic(function):
            return
        if function.__name__ == "__repr__" and function.__code__.co_filename.startswith(ATTRS_CODE):
            # It notes the objects that it describes, because they may contain themselves.
            for name in [name for name in function.__globals__ if name.endswith("_repr")]:
                self.enqueue(self._note_variable(function.__globals__, name, name), name)
            return
        if self.follow_message(function, path):
            return
        known = is_known_function(function)
        if known and function.__name__ in STATEFUL_NAMES:
            self.refuse_thing(function, path)
            return
        code = function.__code__
        is_guard = code is REPR_GUARD_CODE
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            if is_guard and name == "repr_running":
                continue
            held = read_cell(cell)
            self.snapshot.note_cell(cell)
            if name == "__class__" and issubclass(type(held), type):
                # This variable is there for `super()`, which does not call the class.
                self._follow_base(cast(type, held))
            elif self.reserve_things(1, path):
                self.enqueue(held, name, name)
        if known or is_guard:
            return
        self.snapshot.note_function(function)
        self.enqueue(function.__defaults__, f"the defaults of {path}")
        self.enqueue(function.__kwdefaults__, f"the defaults of {path}")
        if function.__dict__:
            self.add_scope(AttributeScope(function, path))
        self._follow_code(function)

    def follow_message(self, function: FunctionType | BuiltinFunctionType, path: str) -> bool:
        """Return whether a function prints, logs or warns, or sets what is printed; such a function was followed."""
        home = function.__module__
        name = function.__name__
        if home == "logging" and name in LOGGING_FUNCTIONS and getattr(logging, name, None) is function:
            self.prints = True
            self.follow_logger(logging.root, path)
        elif home in ("warnings", "_warnings") and getattr(warnings, name, None) is function:
            is_warning = name in ("warn", "warn_explicit")
            self.prints = self.prints or is_warning
            self.forbid_names(function, path, VISIBLE_WARNINGS)
            if is_warning and self.reserve_things(1, path):
                self.snapshot.note_state(_list_filters_of_errors)
        else:
            return False
        return True

    def follow_logger(self, logger: logging.Logger, path: str) -> None:
        """Compare whether a logger shows messages; code that reads anything else from it is refused."""
        self.prints = True
        self.forbid_names(logger, path, LOGGER_STATE | vars(logger).keys() - LOGGING_FUNCTIONS)
        if self.reserve_things(1, path):
            self.snapshot.note_state(partial(_read_logger, logger))

    def _follow_code(self, function: FunctionType) -> None:
        """Note the variables and attributes that the code of a function names."""
        reads = reads_of(function.__code__)
        builtins: dict[str, Any] = cast(Any, function).__builtins__
        self.reads.add_code(reads)
        for name in reads.names:
            self._users.setdefault(name, function.__qualname__)
        self.mutates = self.mutates or reads.mutates
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
                self.enqueue(value, self._path_of_global(name, function), name)
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
                self.snapshot.note_missing_module()
            else:
                self.enqueue(module, path)

    def _note_variable(self, variables: dict[str, Any], name: str, path: str) -> object:
        """Note the value of a variable; returns it."""
        value = variables.get(name, ABSENT)
        key = id(variables), name
        if key not in self._seen and self.reserve_things(1, path):
            self._seen[key] = variables
            self.snapshot.note_variable(variables, name)
        return value

    def _follow_module(self, module: ModuleType, path: str, binding: str) -> None:
        scope = self._modules.get(id(module))
        if scope is None:
            scope = self._modules[id(module)] = ModuleScope(module, path)
            if not scope.known:
                self.snapshot.note_module(module)
        scope.bindings.add(binding)
        known_path = self._scope_library_paths.get(id(scope))
        self._scope_library_paths[id(scope)] = known_path or self._library_path

    def _follow_class(self, kind: type, path: str) -> None:
        if kind is warnings.catch_warnings:
            self.forbid_names(kind, path, VISIBLE_WARNINGS)
            return
        if isinstance(kind, ABCMeta):
            self.snapshot.note_abstract_classes()
        if "_is_protocol" in vars(kind) and not is_known_class(kind):
            # isinstance(x, protocol) looks for these attributes of x.
            self.reads.names |= {*vars(kind), *vars(kind).get("__annotations__", ())}
        if type(kind) is not type and not is_known_class(kind):
            self.enqueue(type(kind), f"the metaclass of {path}")
        for base in kind.__mro__:
            if is_known_class(base):
                continue
            if not is_python_class(base):
                self.refuse_thing(kind, path)
                return
            if base is kind:
                self.add_scope(ClassScope(kind, path))
            else:
                self._follow_base(base)

    def _follow_base(self, base: type) -> None:
        """Follow a class that the code cannot reach directly, and so cannot call."""
        if id(base) not in self._seen:
            self._seen[id(base)] = base
            self._follow_class(base, base.__qualname__)

    def _follow_object(self, thing: Any, path: str) -> None:
        """Follow an object of a class that is not in `FOLLOW_FUNCTIONS`."""
        kind = type(thing)
        if issubclass(kind, Value):
            self.follow_attributes_of(thing, path, whole=True)
        elif issubclass(kind, Op):
            self.enqueue(thing.forward, path)
        elif kind is CircuitGraph:
            if any(op.per_call for op in {thing.op_of(node) for node in range(len(thing))}):
                self.refuse_thing(thing, path)
        elif issubclass(kind, ComparesItself):
            self.enqueue(dict_of(thing)["__wrapped__"], path)
        elif is_distribution(thing):
            self.add_scope(DistributionScope(thing, path))
        elif not is_transparent(kind):
            self.refuse_thing(thing, path)
        else:
            self._follow_base(kind)
            whole = any(
                is_known_class(base) for base in kind.__mro__ if base not in (object, *CONTAINER_TYPES, *ATOMIC_TYPES)
            )
            self.follow_attributes_of(thing, path, whole=whole)
            if issubclass(kind, CONTAINER_TYPES):
                _follow_container(self, thing, path)

    def follow_attributes_of(self, thing: object, path: str, *, whole: bool) -> None:
        """Follow the attributes of an object: all of them, or those whose names occur in the code."""
        self.add_scope(AttributeScope(thing, path, whole=whole))
        if slots_of(type(thing)):
            self.add_scope(SlotScope(thing, path, whole=whole))

    def add_scope(self, scope: AttributeScope) -> None:
        """Compare the attributes of an object, and follow those whose names occur in the code."""
        self._scopes.append(scope)
        self._scope_library_paths[id(scope)] = self._library_path
        self.snapshot.note_watch(scope)

    def forbid_names(self, thing: object, path: str, names: frozenset[str]) -> None:
        """Refuse a thing if the code names one of some attributes or texts, now or when more code is followed."""
        self._forbidden_names.append((thing, path, names))

    def _read_new_names(self) -> bool:
        """Follow the attributes whose names were found since the last time; returns whether there were any."""
        for thing, path, names in self._forbidden_names:
            if self.reads.is_reflective or not names.isdisjoint(self.reads.names):
                self.refuse_thing(thing, path)
                return False
        for scope in tuple(self._scopes):
            self._library_path = self._scope_library_paths[id(scope)]
            for name, value in scope.read_attributes(scope.names_read(self.reads)):
                if not self.reserve_things(1, scope.path):
                    return False
                self.reads.calls_any_class = self.reads.calls_any_class or name == "__get__"
                if name in RAW_MEMORY_ATTRIBUTES:
                    self.refuse_thing(scope.owner, scope.path)
                    if self.opaque is not None:
                        return False
                self.enqueue(value, f"{scope.path}.{name}", name)
        for module in tuple(self._modules.values()):
            self._library_path = self._scope_library_paths[id(module)]
            self._read_module(module)
        return bool(self._queue)

    def _read_module(self, scope: ModuleScope) -> None:
        reads = self.reads
        escapes = reads.may_escape(scope.bindings)
        if escapes and reads.is_reflective and not scope.known:
            user = f"it uses {self._library_path}, which" if self._library_path else "it"
            self._stop_walk(f"{user} looks names up in the module {scope.path} that are not in its code")
            return
        variables = vars(scope.module)
        names = {name for binding, name in reads.pairs if binding in scope.bindings}
        if escapes:
            names |= (reads.names & variables.keys()) | reads.stored
        for name in sorted(names - scope.done):
            scope.done.add(name)
            if name in variables or name in reads.stored or not scope.known:
                value = self._note_variable(variables, name, scope.path)
                if value is ABSENT:
                    value = self._note_variable(variables, "__getattr__", scope.path)
                if value is not ABSENT:
                    self.enqueue(value, f"{scope.path}.{name}", name)


class GeneratorSearch(OutsideState):
    """The walk that looks for random generators alone: nothing is compared later, so nothing is copied or too much.

    What cannot be compared is passed over; where the walk itself cannot go on, a generator may be behind it.
    """

    def refuse_thing(self, thing: object, path: str) -> None:
        """Stop the walk at a random generator; of any other object, follow what is written in Python."""
        if draws_numbers(thing):
            super().refuse_thing(thing, path)
        elif not _is_code(thing):
            self.add_scope(AttributeScope(thing, path))
            for base in type(thing).__mro__:
                if not is_known_class(base):
                    self.add_scope(ClassScope(base, path))

    def forbid_names(self, thing: object, path: str, names: frozenset[str]) -> None:
        """Pass over a thing that cannot be compared if the code names some attributes: it draws no numbers."""

    def reserve_things(self, count: int, path: str) -> bool:
        """Return that the walk goes on: any number of things may be looked at."""
        return True

    def reserve_bytes(self, count: int, path: str) -> bool:
        """Return that no array is copied."""
        return False

    def _follow_object(self, thing: Any, path: str) -> None:
        # A value leads to its whole recording, in which there is no generator.
        if not issubclass(type(thing), Value):
            super()._follow_object(thing, path)


def may_draw_numbers(*things: object) -> bool:
    """Return whether functions, called with some objects among their arguments, may draw random numbers.

    >>> rng = np.random.default_rng(0)
    >>> may_draw_numbers(lambda x: x * rng.normal()), may_draw_numbers(lambda x, rng: x, rng), may_draw_numbers(np.sin)
    (True, True, False)
    """
    return GeneratorSearch(*things).opaque is not None


def draws_numbers(thing: object) -> bool:
    """Return whether an object is a random generator, or a function or class of `numpy.random` or `random`.

    >>> draws_numbers(np.random.default_rng(0)), draws_numbers(np.random.default_rng), draws_numbers(iter([]))
    (True, True, False)
    """
    homes: list[object]
    if _is_code(thing) and not isinstance(thing, type):
        homes = [getattr(thing, "__module__", None)]
    else:
        # Other objects may have a __getattr__ of the user.
        kind = thing if isinstance(thing, type) else type(thing)
        homes = [base.__module__ for base in kind.__mro__]
    return any(isinstance(home, str) and (home == "random" or f"{home}.".startswith("numpy.random.")) for home in homes)


def _is_code(thing: object) -> bool:
    """Return whether an object is a function or a class."""
    kind = type(thing)
    return issubclass(kind, type) or kind in CALLABLE_TYPES or kind.__name__ == CYTHON_FUNCTION


def is_of_library(thing: object) -> bool:
    """Return whether a function, class or object was defined in the standard library or an installed package.

    >>> import textwrap
    >>> is_of_library(textwrap.dedent), is_of_library(is_of_library)
    (True, False)
    """
    kind = type(thing)
    if kind is ModuleType:
        return False
    if kind in CALLABLE_TYPES:
        home = getattr(thing, "__module__", None)
    else:
        # Classes of the user may run code of theirs for any other way to read this.
        home = type.__getattribute__(thing if issubclass(kind, type) else kind, "__module__")
    module = sys.modules.get(str(home))
    file = str(getattr(module, "__file__", None) or "")
    return "site-packages" in file or file.startswith(STANDARD_LIBRARY)


# `sysconfig` would tell too, but loading its table takes two milliseconds.
STANDARD_LIBRARY = os.path.dirname(os.__file__)
"""The folder of Python's own modules."""


def is_statistic(function: FunctionType) -> bool:
    """Return whether a function of `scipy.stats` depends on its arguments alone: it takes nothing that draws numbers.

    >>> import scipy.stats
    >>> is_statistic(scipy.stats.gmean), is_statistic(scipy.stats.bootstrap)
    (True, False)
    """
    package = sys.modules.get("scipy.stats")
    if package is None or vars(package).get(function.__name__) is not function:
        return False
    return DRAWING_PARAMETERS.isdisjoint(signature(function).parameters)


def _follow_container(state: OutsideState, thing: object, path: str) -> None:
    watch = ContainerCopy(thing)
    if state.reserve_things(len(watch.was), path):
        if not issubclass(type(thing), tuple | frozenset):
            state.snapshot.note_watch(watch)
        for label, element in watch.labelled_elements():
            if type(element) not in PLAIN_NUMBER_TYPES:
                state.enqueue(element, path + label)


def _follow_array(state: OutsideState, thing: NDArray[Any], path: str) -> None:
    if thing.dtype.hasobject:
        state.refuse_thing(thing, path)
        return
    if state.reserve_bytes(thing.nbytes, path):
        state.snapshot.note_watch(ArrayCopy(thing))


def _follow_buffer(state: OutsideState, thing: bytearray | array.array[Any], path: str) -> None:
    if state.reserve_bytes(memoryview(thing).nbytes, path):
        state.snapshot.note_watch(BytesCopy(thing))


def _follow_builtin(state: OutsideState, function: BuiltinFunctionType, path: str) -> None:
    owner = function.__self__
    state.reads.reflects = state.reads.reflects or function.__name__ in REFLECTIVE_NAMES
    state.mutates = state.mutates or function.__name__ in MUTATING_NAMES
    state.prints = state.prints or function is print
    if state.follow_message(function, path):
        return
    if owner is not None and not isinstance(owner, ModuleType):
        # A method of an object, such as `table.get`.
        state.enqueue(owner, path)
    elif not is_known_builtin(function):
        state.refuse_thing(function, path)


def _list_filters_of_errors() -> tuple[object, ...]:
    """Return the filters of warnings if there is one by which a warning is an error; else none of them matters."""
    rules = tuple(warnings.filters)
    return rules if any(rule[0] == "error" for rule in rules) else ()


def _read_logger(logger: logging.Logger) -> tuple[object, ...]:
    """Return what decides about which messages a logger shows, and methods that were set on the logger itself."""
    own = [part for name, part in vars(logger).items() if name in LOGGING_FUNCTIONS]
    return logger.getEffectiveLevel(), logger.disabled, logger.manager.disable, own


def _follow_logger(state: OutsideState, logger: logging.Logger, path: str) -> None:
    state.follow_logger(logger, path)


def _follow_transform(state: OutsideState, function: Any, path: str) -> None:
    """Follow a function of `scipy.fft`: it depends on its arguments and on the backends that were chosen."""
    if function.__module__.partition("._")[0] == "scipy.fft":
        state.snapshot.note_state(lambda: find_uarray().get_state()._pickle())
    else:
        state.refuse_thing(function, path)


def find_uarray() -> Any:
    """Return the module of SciPy that dispatches its Fourier transforms."""
    return sys.modules["scipy._lib.uarray"]


def _follow_dispatcher(state: OutsideState, function: Callable[..., object], path: str) -> None:
    """Follow a function of NumPy that other array types can override."""
    if function.__name__ in STATEFUL_NAMES or not is_known_module(function.__module__):
        state.refuse_thing(function, path)


def _follow_ufunc(state: OutsideState, ufunc: np.ufunc, path: str) -> None:
    homes = [np, sys.modules.get("scipy.special")]
    if not any(getattr(home, ufunc.__name__, None) is ufunc for home in homes):
        # It may have been made from a Python function.
        state.refuse_thing(ufunc, path)


def _follow_class_method(state: OutsideState, thing: classmethod[Any, Any, Any], path: str) -> None:
    state.reads.calls_any_class = True
    state.enqueue(thing.__func__, path)


def _follow_parts(*names: str) -> Callable[[OutsideState, object, str], None]:
    """Return the function that follows some attributes of objects of a builtin type."""

    def follow(state: OutsideState, thing: object, path: str) -> None:
        for name in names:
            state.enqueue(getattr(thing, name), path)

    return follow


def _follow_partial(state: OutsideState, thing: partial[Any], path: str) -> None:
    state.follow_attributes_of(thing, path, whole=True)


def _follow_transformed(state: OutsideState, thing: TransformedFunction, path: str) -> None:
    state.enqueue(thing.__call__, path)
    if thing.own_attributes():
        state.add_scope(AttributeScope(thing, path))


def _follow_namespace(state: OutsideState, thing: SimpleNamespace, path: str) -> None:
    # `==` and `repr` of a SimpleNamespace read all of its attributes.
    state.add_scope(AttributeScope(thing, path, whole=True))


def _follow_cache(state: OutsideState, cached: Any, path: str) -> None:
    """Follow what a cache of wiregrad or NumPy calls: it depends on its arguments alone, whatever the cache holds."""
    function = getattr(cached, "__wrapped__", None)
    if type(function) is FunctionType and is_known_function(function):
        state.enqueue(function, path)
    else:
        state.refuse_thing(cached, path)


FOLLOW_FUNCTIONS: dict[type, Callable[[OutsideState, Any, str], None]] = {
    FunctionType: OutsideState.follow_function,
    BuiltinFunctionType: _follow_builtin,
    type(np.sum): _follow_dispatcher,
    np.ufunc: _follow_ufunc,
    MethodWrapperType: _follow_parts("__self__"),
    MethodType: _follow_parts("__func__", "__self__"),
    staticmethod: _follow_parts("__func__"),
    classmethod: _follow_class_method,
    property: _follow_parts("fget", "fset", "fdel"),
    cached_property: _follow_parts("func"),
    slice: _follow_parts("start", "stop", "step"),
    GenericAlias: _follow_parts("__origin__", "__args__"),
    UnionType: _follow_parts("__args__"),
    partial: _follow_partial,
    TransformedFunction: _follow_transformed,
    type(lru_cache(len)): _follow_cache,
    SimpleNamespace: _follow_namespace,
    logging.Logger: _follow_logger,
    logging.RootLogger: _follow_logger,
    np.ndarray: _follow_array,
    bytearray: _follow_buffer,
    array.array: _follow_buffer,
    **dict.fromkeys((list, tuple, dict, set, frozenset, deque), _follow_container),
    **dict.fromkeys((OrderedDict, defaultdict), _follow_container),
    **({} if RECORDER is None else {RECORDER.QuickCall: _follow_parts("__wrapped__")}),
}
"""The function that follows objects of exactly this type."""
FOLLOW_BY_NAME: dict[str, Callable[[OutsideState, Any, str], None]] = {"uarray._Function": _follow_transform}
"""That for types of packages that may not be imported, by their names."""


__all__ = ["MAX_BYTES", "MAX_THINGS", "ComparesItself", "OutsideState", "may_draw_numbers"]
