"""What is compared before each call: one class per kind of object that may change, and the snapshot of all of them.

First comes what is known about the things outside a function: which kinds can be compared, and what bytecode can read.
Every kind of thing that is not listed here is unknown: a function that reads such a thing is not replayed
(`OutsideState`).

What code reads is taken from its bytecode, nested functions included. Attributes that directly follow a variable
(`np.sin`) are stored as pairs, so that of a module only the names count that are read from it; a variable that is used
in any other way (`getattr(np, name)`, `xp = np`) *escapes*, and then every name counts.
"""

from __future__ import annotations

import operator
import re
import sys
import types
from abc import ABC, get_cache_token
from array import array
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from enum import EnumType, IntEnum
from functools import lru_cache, partial
from operator import attrgetter, is_, methodcaller
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import short_repr
from wiregrad.frontends.recording.arguments import member_slots
from wiregrad.frontends.recording.user_code import CodeStep, list_instructions
from wiregrad.lazy import NamedTuple

KNOWN_PACKAGES = (
    *("numpy", "wiregrad", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.ndimage"),
    *("scipy.optimize", "scipy.signal", "scipy.sparse", "scipy.spatial.distance", "scipy.special"),
    # What SciPy's functions ask for the library that an array belongs to.
    *("scipy._lib._array_api", "scipy._lib._array_api_no_0d", "scipy._lib._array_api_override"),
    *("scipy._lib._array_api_compat_vendor", "scipy._lib.array_api_compat", "scipy._lib.array_api_extra"),
)
"""Packages whose functions and classes depend on nothing but their arguments, except `EXCLUDED_MODULES`."""
KNOWN_MODULES = frozenset(
    "math cmath operator _operator itertools functools _functools collections collections.abc _collections "
    "_collections_abc abc _abc types typing numbers dataclasses enum contextlib copy fractions bisect _bisect heapq "
    "_heapq".split()
)
"""Modules whose functions and classes depend on nothing but their arguments."""
EXCLUDED_MODULES = (
    *("numpy.random", "numpy.testing", "numpy.ctypeslib", "numpy.f2py", "numpy.lib._datasource", "numpy.lib.format"),
    *("numpy.lib._format_impl", "numpy.lib.npyio", "numpy.lib._npyio_impl"),
    *("scipy.optimize._basinhopping", "scipy.optimize._differentialevolution", "scipy.optimize._dual_annealing"),
    *("scipy.optimize._qap", "scipy.optimize._shgo"),
)
"""Modules of those packages that have state, read the system's or draw random numbers."""
STATEFUL_NAMES = frozenset(
    "load fromfile fromregex loadtxt genfromtxt save savez savez_compressed savetxt memmap seterr seterrcall "
    "setbufsize getbufsize geterr geterrcall set_printoptions get_printoptions printoptions show_config "
    "show_runtime info test datetime64 lru_cache cache _lru_cache_wrapper".split()
)
"""Functions and classes of known modules that read files or the state of the process."""
KNOWN_BUILTINS = frozenset(
    "abs all any ascii bin bool bytearray bytes callable chr classmethod complex delattr dict dir divmod enumerate "
    "filter float format frozenset getattr hasattr hash hex int isinstance issubclass iter len list map max min next "
    "object oct ord pow print property range repr reversed round set setattr slice sorted staticmethod str sum super "
    "tuple type vars zip __build_class__ __debug__ __name__ NotImplemented Ellipsis".split()
)
"""Builtins that depend on nothing but their arguments; exception classes are known too."""
REFLECTIVE_NAMES = frozenset(
    "getattr hasattr vars dir __dict__ __getattribute__ __getstate__ __reduce__ __reduce_ex__ attrgetter methodcaller "
    "asdict astuple fields replace format_map".split()
)
"""Names in code, and of functions, that may read attributes whose names are not in the code."""
UNSEEN_NAMES = frozenset("__subclasses__ __globals__ __closure__ __code__ f_globals f_locals f_back tb_frame".split())
"""Names in code that lead to objects which cannot be reached through variables and attributes."""
RANDOM_NAMES = frozenset(["rvs", "random_state", "_random_state"])
"""Methods and attributes of distributions that draw random numbers."""
PROTOCOL_NAMES = frozenset(
    "keys values items get insert add discard remove append pop update close dtype shape ndim all any argmax argmin "
    "argpartition argsort astype choose clip compress copy cumprod cumsum diagonal dot max mean min nonzero partition "
    "prod ptp put ravel repeat reshape round searchsorted sort squeeze std sum swapaxes take trace transpose "
    "var".split()
)
"""Methods and attributes that known code reads from its arguments: `np.max(x)` calls `x.max`."""
COPY_FUNCTIONS = frozenset(["copy", "deepcopy", "replace"])
COPY_HOOKS = frozenset(["__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__"])
"""Methods that copying an object calls."""
CLASS_HOOKS = frozenset(["__init_subclass__", "__set_name__", "__prepare__"])
"""Methods that a class statement calls."""
CONSTRUCTORS = frozenset(["__init__", "__new__", "__post_init__", "__del__"])
"""Methods that run only if a class is called, and when its object is deleted."""
INITIALIZERS = frozenset(["__init__", "__post_init__"])
"""Methods that run only if a class is called; copies are made without them."""
NO_CALLS_MARK = "_calls_no_derived_class"
"""The attribute of known classes whose code calls no class that is derived from them."""
INERT_ATTRIBUTES = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __annotations__ __slots__ __dataclass_fields__ "
    "__dataclass_params__ __abstractmethods__ __parameters__ __orig_bases__ __static_attributes__ __firstlineno__ "
    "__sizeof__ __dir__ _abc_impl __attrs_attrs__ __attrs_props__ __attrs_own_setattr__ __attrs_init__".split()
)
"""Attributes of classes that are read only by code that names them."""

IMMUTABLE_TYPES = frozenset(
    [
        *(type(None), bool, int, float, complex, str, bytes, range, object, re.Pattern),
        *(types.EllipsisType, types.NotImplementedType, operator.itemgetter, date, timedelta),
        *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
        *(types.GetSetDescriptorType, types.MemberDescriptorType, type(vars(namedtuple("Point", "x"))["x"])),
        *(kind for kind in np.sctypeDict.values() if not issubclass(kind, np.void | np.object_)),
    ]
)
"""Types whose objects cannot change and do not refer to objects that can."""
CONTAINER_TYPES = (OrderedDict, defaultdict, dict, list, set, deque, tuple, frozenset)
"""Containers, which may be subclassed; the first base that fits determines how the elements are listed."""
ATOMIC_TYPES = (int, float, complex, str, bytes)
"""Immutable types that may be subclassed."""
HEAP_TYPE_FLAG = 1 << 9
"""CPython's flag of types that are created at run time."""


def is_known_module(name: object) -> bool:
    """Return whether the functions and classes of a module depend on nothing but their arguments.

    >>> is_known_module("numpy.linalg"), is_known_module("numpy.random"), is_known_module("time")
    (True, False, False)
    """
    if not isinstance(name, str) or any(f"{name}.".startswith(f"{excluded}.") for excluded in EXCLUDED_MODULES):
        return False
    return name in KNOWN_MODULES or any(f"{name}.".startswith(f"{known}.") for known in KNOWN_PACKAGES)


def is_known_function(function: FunctionType) -> bool:
    """Return whether a Python function is defined in a known module: its globals are that module's."""
    name = function.__globals__.get("__name__", "")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and vars(module) is function.__globals__ and is_known_module(name)


def is_known_builtin(function: BuiltinFunctionType) -> bool:
    """Return whether a function written in C depends on nothing but its arguments."""
    name = function.__name__
    module = function.__module__ or getattr(function.__self__, "__name__", "")
    if module == "builtins":
        return name in KNOWN_BUILTINS
    return isinstance(module, str) and is_known_module(module) and name not in STATEFUL_NAMES


def is_known_class(kind: type) -> bool:
    """Return whether a class belongs to Python or to a known module, so that its attributes do not change."""
    module = kind.__module__
    if module == "builtins":
        return not kind.__flags__ & HEAP_TYPE_FLAG and kind is not FunctionType
    if not isinstance(module, str) or not is_known_module(module) or kind.__name__ in STATEFUL_NAMES:
        return False
    attribute: Any = sys.modules.get(module)
    for name in kind.__qualname__.split("."):
        attribute = getattr(attribute, name, None)
    return attribute is kind


def is_distribution(thing: object) -> bool:
    """Return whether an object is a distribution that `scipy.stats` itself has under its name, such as `norm`."""
    package = sys.modules.get("scipy.stats")
    kind = type(thing)
    if package is None or not kind.__module__.startswith("scipy.stats.") or not is_python_class(kind):
        return False
    module = sys.modules.get(kind.__module__)
    name = kind.__name__.removesuffix("_gen")
    return vars(package).get(name) is thing and getattr(module, kind.__name__, None) is kind


def is_python_class(kind: type) -> bool:
    """Return whether a class was made by Python code: its objects have attributes and slots, and no hidden data."""
    return bool(kind.__flags__ & HEAP_TYPE_FLAG) and not _count_hidden_bytes(kind)


def is_transparent(kind: type) -> bool:
    """Return whether everything in an object of a class is visible: attributes, slots, elements of a container.

    >>> import threading
    >>> class Own(list): pass
    >>> is_transparent(Own), is_transparent(threading.local)
    (True, False)
    """
    return all(
        base in (object, type, *CONTAINER_TYPES, *ATOMIC_TYPES) or is_python_class(base) for base in kind.__mro__
    )


def _count_hidden_bytes(kind: type) -> int:
    """Return how many bytes of an object are not attributes, slots, weak references or part of its base."""
    base = kind.__base__
    assert base is not None
    if base in ATOMIC_TYPES or base is tuple:
        # These have a variable size, and Python does not allow slots in their subclasses.
        return 0
    slots = sum(type(part) is types.MemberDescriptorType for part in vars(kind).values())
    slots += kind.__weakrefoffset__ > 0 and base.__weakrefoffset__ <= 0
    slots += kind.__dictoffset__ > 0 and base.__dictoffset__ <= 0
    return kind.__basicsize__ - base.__basicsize__ - 8 * slots


GLOBAL_READ_OPCODES = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
GLOBAL_WRITE_OPCODES = frozenset(["STORE_GLOBAL", "DELETE_GLOBAL"])
LOCAL_WRITE_OPCODES = frozenset(["STORE_FAST", "STORE_DEREF"])
ATTRIBUTE_READ_OPCODES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
WRITE_OPCODES = GLOBAL_WRITE_OPCODES | {"STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
MUTATING_NAMES = frozenset(
    "append appendleft extend extendleft insert add discard remove pop popleft popitem clear update setdefault reverse "
    "rotate sort fill put itemset copyto putmask place setattr delattr __setattr__ __setitem__ "
    "__delitem__ __init__ __iadd__ __ior__ setitem delitem iadd ior heappush heappop heapify heapreplace heappushpop "
    "insort insort_left insort_right put_along_axis fill_diagonal".split()
)
"""Methods and functions that change their arguments."""
ARITHMETIC_ERRORS = frozenset("ZeroDivisionError OverflowError ArithmeticError Exception BaseException".split())
"""What Python's arithmetic raises where wiregrad's gives an infinity or NaN, and the bases of these classes."""
IGNORED_OPCODES = frozenset(["EXTENDED_ARG", "PUSH_NULL", "NOP"])


class CodeReads(NamedTuple):
    """The names that a code object, and those nested in it, use."""

    global_names: tuple[str, ...]
    """Names looked up in the globals, then in the builtins; also globals that are assigned."""
    names: frozenset[str]
    """Every attribute name, and every string that could be one (`getattr(x, "scale")`, patterns of `match`)."""
    pairs: frozenset[tuple[str, str]]
    """A variable or attribute, and an attribute that is read directly from it."""
    escaping: frozenset[str]
    """Variables and attributes that are used in another way than reading an attribute; strings count as such a use."""
    imports: tuple[tuple[str, int], ...]
    """The modules that import statements name, with the number of leading dots."""
    makes_classes: bool
    """Whether there is a class statement."""
    stored: frozenset[str]
    """Attributes that are assigned."""
    mutates: bool
    """Whether the code may change more than local variables: globals, enclosing variables, attributes, elements."""
    raises_powers: bool
    """Whether there is a power whose exponent may be a fraction: of negative floats, Python's is complex."""
    catches_errors: bool
    """Whether the code may catch what Python's arithmetic raises, such as ZeroDivisionError."""


@lru_cache(4096)
def reads_of(code: CodeType) -> CodeReads:
    """Return what a code object reads.

    >>> import math
    >>> reads = reads_of((lambda x: math.pi * abs(x)).__code__)
    >>> reads.global_names, ("math", "pi") in reads.pairs, "math" in reads.escaping
    (('abs', 'math'), True, False)
    """
    collector = _ReadCollector()
    for inner in nested_codes(code):
        collector.add_code(inner)
    return collector.collect_reads()


class _ReadCollector:
    """Collects the names in code objects, instruction by instruction."""

    def __init__(self) -> None:
        self.global_names = set[str]()
        self.names = set[str]()
        self.pairs = set[tuple[str, str]]()
        self.escaping = set[str]()
        self.imports: list[tuple[str, int]] = []
        self.stored = set[str]()
        self.makes_classes = False
        self.mutates = False
        self.raises_powers = False
        self.catches_errors = False

    def add_code(self, code: CodeType) -> None:
        """Add the names in one code object."""
        steps = [step for step in list_instructions(code) if step.opname not in IGNORED_OPCODES]
        imported = _list_imported_names(steps)
        texts = set(names_in([constant for constant in code.co_consts if constant not in imported]))
        self.names.update(code.co_names, texts)
        self.escaping.update(texts)
        known = set[tuple[Any, ...]]()
        for index, (step, following) in enumerate(zip(steps, [*steps[1:], None], strict=True)):
            # Most pairs of instructions occur several times; before an import there are others.
            pair = (step.opcode, step.arg, following and (following.opcode, following.arg))
            if pair in known and step.opname != "IMPORT_NAME" and step.argval != CLASS_ATTRIBUTE:
                continue
            known.add(pair)
            self._add_instruction(steps, index)
            self._add_loads(steps, index)
            self.mutates = self.mutates or _writes_around(step, code)

    def _add_instruction(self, steps: list[CodeStep], index: int) -> None:
        """Add the globals, imports and writes of an instruction."""
        step = steps[index]
        following = steps[index + 1] if index + 1 < len(steps) else step
        if step.opname in GLOBAL_READ_OPCODES or step.opname in GLOBAL_WRITE_OPCODES:
            self.global_names.add(step.argval)
        if step.opname == "IMPORT_NAME":
            self.imports.append((step.argval, _import_level(steps, index)))
        elif step.opname == "IMPORT_FROM":
            # A name that is kept as a variable is used where that variable is.
            if following.opname not in LOCAL_WRITE_OPCODES or following.argval != step.argval:
                self.escaping.add(step.argval)
        elif step.opname == "STORE_ATTR":
            self.stored.add(step.argval)
        self.makes_classes = self.makes_classes or step.opname == "LOAD_BUILD_CLASS"
        self.mutates = self.mutates or step.opname in WRITE_OPCODES or _is_in_place(step)
        if following.opname == "BINARY_OP" and following.argrepr.startswith("**"):
            self.raises_powers |= not (step.opname == "LOAD_CONST" and type(step.argval) is int)
        # `except:` without a class drops the error at once.
        self.catches_errors |= step.opname == "PUSH_EXC_INFO" and following.opname == "POP_TOP"

    def _add_loads(self, steps: Sequence[CodeStep], index: int) -> None:
        """Add the variables that an instruction loads; they escape unless the next one reads an attribute."""
        step = steps[index]
        following = steps[index + 1] if index + 1 < len(steps) else None
        *others, last = _loaded_names(step)
        self.escaping.update(others)
        if last == CLASS_ATTRIBUTE:
            # A variable that methods have for `super()`; code that names it gets the class.
            if _is_for_super(steps, index):
                return
            self.names.add(last)
            if _is_compared(steps, index):
                return
        if following is not None and following.opname in ATTRIBUTE_READ_OPCODES:
            self.pairs.add((last, _attribute_name(following)))
        else:
            self.escaping.add(last)

    def collect_reads(self) -> CodeReads:
        """Return everything that was collected."""
        return CodeReads(
            tuple(sorted(self.global_names)),
            frozenset(self.names),
            frozenset(self.pairs),
            frozenset(self.escaping - {""}),
            tuple(self.imports),
            self.makes_classes,
            frozenset(self.stored),
            self.mutates or not MUTATING_NAMES.isdisjoint(self.names),
            self.raises_powers or "pow" in self.names,
            self.catches_errors or not ARITHMETIC_ERRORS.isdisjoint(self.names),
        )


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Return a code object and all code objects nested in it."""
    stack = [code]
    while stack:
        code = stack.pop()
        yield code
        stack += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _is_in_place(step: CodeStep) -> bool:
    """Return whether an instruction is one of `+=`, `|=` and the like."""
    return step.opname == "BINARY_OP" and step.argrepr.endswith("=")


def _writes_around(step: CodeStep, code: CodeType) -> bool:
    """Return whether an instruction assigns to a variable of an enclosing function."""
    return step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars


def _loaded_names(step: CodeStep) -> list[str]:
    """Return the variables or the attribute that an instruction loads; the one on top of the stack is last."""
    if step.opname in ATTRIBUTE_READ_OPCODES:
        return [_attribute_name(step)]
    if step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        return [str(name) for name in names]
    return [""]


def _is_for_super(steps: Sequence[CodeStep], index: int) -> bool:
    """Return whether a variable is loaded for `super().name` alone, which is one instruction since Python 3.12."""
    return [step.opname for step in steps[index + 2 : index + 3]] == ["LOAD_SUPER_ATTR"]


def _is_compared(steps: Sequence[CodeStep], index: int) -> bool:
    """Return whether an attribute that is read is only compared, as in `other.__class__ is self.__class__`."""
    operations = [step.opname for step in steps[index : index + 4]]
    if operations[0] not in ATTRIBUTE_READ_OPCODES:
        return False
    first_of_two = operations[2:3] == operations[:1] and steps[index + 2].argval == steps[index].argval
    return operations[1:2] == ["IS_OP"] or (
        first_of_two and operations[1:2] == ["LOAD_FAST"] and operations[3:] == ["IS_OP"]
    )


def _attribute_name(step: CodeStep) -> str:
    return str(step.argval)


def _list_imported_names(steps: list[CodeStep]) -> list[object]:
    """Return the constants with the names of import statements, `("a", "b")`, unless they are used elsewhere too."""
    pairs = list(zip(steps, [*steps[1:], None], strict=True))
    loaded = [(step.argval, following) for step, following in pairs if step.opname == "LOAD_CONST"]
    lists = [(names, following) for names, following in loaded if type(names) is tuple]
    others = [names for names, following in lists if following is None or following.opname != "IMPORT_NAME"]
    return [names for names, following in lists if names not in others]


def _import_level(steps: list[CodeStep], index: int) -> int:
    """Return the number of leading dots of an import statement; -1 if unknown."""
    level = steps[index - 2].argval if index >= 2 else None
    return level if type(level) is int else -1


def names_in(constants: Iterable[Any]) -> Iterator[str]:
    """Return the attribute names that strings among constants may contain.

    >>> sorted(names_in(["scale", ("x", "not a name"), "{0.unit}"]))
    ['scale', 'unit', 'x']
    """
    stack = list(constants)
    while stack:
        constant = stack.pop()
        if type(constant) is str:
            if constant.isidentifier():
                yield constant
            elif "{" in constant or "." in constant:
                # `format` reads attributes by texts such as "{0.scale}", `attrgetter` by "model.scale".
                yield from re.findall(r"[^\W\d]\w*", constant)
        elif type(constant) is tuple or type(constant) is frozenset:
            stack += constant


ABSENT = object()
"""The value of a variable that does not exist."""
PLAIN_BASES = (object, type, BaseException, Exception, ABC, Generic, *CONTAINER_TYPES, *ATOMIC_TYPES)
"""Base classes whose code reads only special attributes of derived classes."""
REFLECTIVE_CLASSES = (attrgetter, methodcaller)
"""Classes whose objects read attributes by name."""
CLASS_ATTRIBUTE = "__class__"
CLASS_ACCESS_NAMES = ("type", "replace", "__replace__")
"""Names in code that give the class of an object, or call it as `dataclasses.replace` does."""
CALLING_ATTRIBUTES = frozenset(dir(type)) - {"__name__", "__qualname__", "__module__", "__doc__"}
"""Attributes of every class but those that are texts."""
SMALL_ARRAY_BYTES = 1 << 18
"""Up to this size an array is compared as bytes, which copies it."""


class WatchKind(IntEnum):
    """The kinds of watches that `recorder/replay_calls.h` compares, in the order that they have there."""

    VARIABLE = 0
    CELL = 1
    FUNCTION = 2
    MODULE = 3
    LIST = 4
    DICT = 5
    OBJECT = 6
    ARRAY = 7
    CLASS = 8
    OTHER = 9


class OutsideSnapshot:
    """The state of everything a function reads from outside.

    Variables, cells and functions are compared by a generated function: a call of a compiled function takes about a
    microsecond, and a loop over everything it reads would take as long again. Where there is the extension module, it
    compares the same from `describe_watches` before that.
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
        self._descriptions: list[tuple[Any, ...]] = []
        """Variables, cells, functions and modules as the extension module compares them."""
        self._abc_token: object = None

    def note_function(self, function: FunctionType) -> None:
        """Note the code, the defaults and the number of attributes of a function."""
        name = self._name_thing(function)
        self._note_condition(f"{name}.__code__ is not {self._name_thing(function.__code__)}")
        self._note_condition(f"{name}.__defaults__ is not {self._name_thing(function.__defaults__)}")
        self._note_condition(f"{name}.__kwdefaults__ is not {self._name_thing(function.__kwdefaults__)}")
        self._note_condition(f"len({name}.__dict__) != {len(function.__dict__)}")
        self._undo.append(partial(_restore_function, function, dict(function.__dict__), *_parts_of(function)))
        self._descriptions.append((WatchKind.FUNCTION, function, *_parts_of(function), len(function.__dict__)))

    def note_variable(self, variables: dict[str, Any], variable: str) -> None:
        """Note the object that a variable refers to; the variable may not exist."""
        name = self._name_thing(variables)
        self._undo.append(partial(_restore_item, variables, variable, variables.get(variable, ABSENT)))
        self._descriptions.append((WatchKind.VARIABLE, variables, variable, variables.get(variable, ABSENT)))
        if variable in variables:
            self._note_condition(f"{name}[{variable!r}] is not {self._name_thing(variables[variable])}")
        else:
            self._note_condition(f"{variable!r} in {name}")

    def note_cell(self, cell: CellType) -> None:
        """Note the object that a variable of an enclosing function refers to."""
        self._note_condition(f"contents({self._name_thing(cell)}) is not {self._name_thing(read_cell(cell))}")
        self._undo.append(partial(_restore_cell, cell, read_cell(cell)))
        self._descriptions.append((WatchKind.CELL, cell, read_cell(cell)))

    def note_module(self, module: ModuleType) -> None:
        """Note that a module is an ordinary module object."""
        self._note_condition(f"type({self._name_thing(module)}) is not {self._name_thing(ModuleType)}")
        self._descriptions.append((WatchKind.MODULE, module))

    def note_missing_module(self) -> None:
        """Note that a module could not be found; it may exist at the next call, so the state counts as changed."""
        self._note_condition("True")
        self._descriptions.append((WatchKind.OTHER, _always_changed))

    def note_state(self, read: Callable[[], object]) -> None:
        """Note what a function returns, such as a setting that is kept in compiled code."""
        was = read()

        def has_changed() -> bool:
            return bool(read() != was)

        self._note_condition(f"{self._name_thing(has_changed)}()")
        self._descriptions.append((WatchKind.OTHER, has_changed))

    def note_watch(self, watch: ContainerCopy | AttributeScope | ArrayCopy | BytesCopy) -> None:
        """Note an object whose watch tells whether it has changed."""
        self._watches.append(watch)

    def note_abstract_classes(self) -> None:
        """Note the registrations with abstract classes, which `isinstance` depends on."""
        self._abc_token = get_cache_token()

    def describe_watches(self) -> list[tuple[Any, ...]]:
        """Return what is compared as tuples that start with a `WatchKind`."""
        described = [*self._descriptions, *(watch.describe() for watch in self._watches)]
        if self._abc_token is not None:
            token = self._abc_token
            described.append((WatchKind.OTHER, lambda: get_cache_token() != token))
        return described

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
        self.class_bindings: dict[int, set[str]] = {}
        """The variables and attributes by which the code can reach each class or one derived from it, by its id."""
        self.calls_any_class = False
        """Whether there is a class method or descriptor, which may call any class passed to it."""
        self.makes_classes = False
        self.reflects = False
        """Whether the code can reach a function that reads attributes by name."""
        self.raises_powers = False
        self.catches_errors = False

    def add_code(self, reads: CodeReads) -> None:
        """Add what the bytecode of a function reads."""
        self.names |= reads.names
        self.pairs |= reads.pairs
        self.escaping |= reads.escaping
        self.stored |= reads.stored
        self.makes_classes = self.makes_classes or reads.makes_classes
        self.raises_powers = self.raises_powers or reads.raises_powers
        self.catches_errors = self.catches_errors or reads.catches_errors

    def add_text(self, text: str) -> None:
        """Add the names in a string that the code can reach: it may read attributes by them."""
        names = set(names_in([text]))
        self.names |= names
        self.escaping |= names

    def add_class(self, kind: type, binding: str) -> None:
        """Add a class that the code can reach by a variable or an attribute; an empty one stands for any other way."""
        for base in kind.__mro__:
            # A class of another metaclass may do anything where its attributes are read.
            self.class_bindings.setdefault(id(base), set()).add(binding if type(kind) is type else "")
        self.reflects = self.reflects or kind in REFLECTIVE_CLASSES

    @property
    def is_reflective(self) -> bool:
        """Whether the code may read attributes that it does not name."""
        return self.reflects or not REFLECTIVE_NAMES.isdisjoint(self.names)

    def may_construct(self, kind: type) -> bool:
        """Return whether the code may create objects of a class."""
        if self.calls_any_class or not self.names.isdisjoint(CLASS_ACCESS_NAMES):
            return True
        bindings = self.class_bindings.get(id(kind), set())
        if CLASS_ATTRIBUTE in self.escaping or (bindings and self.may_escape(bindings)):
            return True
        bindings = {CLASS_ATTRIBUTE, *bindings}
        # Attributes that every class has may lead back to it, as `mro` and `__call__` do.
        return any(name in bindings and attribute in CALLING_ATTRIBUTES for name, attribute in self.pairs)

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

    def describe(self) -> tuple[Any, ...]:
        """Return the attributes for `OutsideSnapshot.describe_watches`."""
        if type(self) not in (AttributeScope, DistributionScope) or type(dict_of(self.owner)) is not dict:
            return WatchKind.OTHER, self.has_changed
        values = tuple(self.known.get(name, ABSENT) for name in self.layout)
        return WatchKind.OBJECT, self.owner, self.kind, tuple(self.layout), values

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


class DistributionScope(AttributeScope):
    """The attributes of a distribution of `scipy.stats`; of their values only the random generator is followed.

    The methods are known to depend on the attributes and on their arguments alone, but for those that draw numbers.
    """

    def __init__(self, owner: object, path: str) -> None:
        super().__init__(owner, path)
        self._draws = False
        self.known = dict(self.current_attributes())

    def names_read(self, reads: ReadNames) -> Iterable[str]:
        """Return the random generator, if code can draw numbers."""
        draws = reads.is_reflective or not RANDOM_NAMES.isdisjoint(reads.names)
        return [name for name in self.layout if draws and name in RANDOM_NAMES]

    def read_attributes(self, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Return these attributes, the first time that they are asked for."""
        if not self._draws:
            for name in names:
                self._draws = True
                yield name, self.known[name]


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
        known = [base for base in owner.__mro__ if base not in PLAIN_BASES and is_known_class(base)]
        super().__init__(owner, path, whole=bool(known))
        self.mro = owner.__mro__
        self.is_called_by_base = not all(getattr(base, NO_CALLS_MARK, False) for base in known)
        """Whether code of a known base class may call the class."""

    def current_attributes(self) -> Mapping[str, Any]:
        """Return the attributes as they are now."""
        attributes: Mapping[str, Any] = vars(self.owner)
        return attributes

    def names_read(self, reads: ReadNames) -> Iterable[str]:
        """Return the attributes that code can read: those it names, and those that Python's syntax calls."""
        if reads.is_reflective or self.whole:
            inert = INERT_ATTRIBUTES - {"__dataclass_fields__"} if "fields" in reads.names else INERT_ATTRIBUTES
            is_called = self.is_called_by_base or reads.is_reflective or reads.may_construct(self.owner)
            inert |= frozenset() if is_called else INITIALIZERS
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

    def describe(self) -> tuple[Any, ...]:
        """Return the attributes for `OutsideSnapshot.describe_watches`."""
        values = tuple(self.known.get(name, ABSENT) for name in self.layout)
        return WatchKind.CLASS, self.owner, self.kind, self.mro, tuple(self.layout), values

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

    def describe(self) -> tuple[Any, ...]:
        """Return the elements for `OutsideSnapshot.describe_watches`."""
        if type(self.thing) is list:
            return WatchKind.LIST, self.thing, tuple(self.was)
        if type(self.thing) is dict:
            count = len(self.was) // 2
            return WatchKind.DICT, self.thing, tuple(self.was[:count]), tuple(self.was[count : 2 * count])
        return WatchKind.OTHER, self.has_changed

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
        self.contiguous = thing.flags.c_contiguous
        self.small = thing.nbytes <= SMALL_ARRAY_BYTES
        self.copy: Any = thing.tobytes() if self.small else np.ascontiguousarray(thing).copy()

    def describe(self) -> tuple[Any, ...]:
        """Return the array for `OutsideSnapshot.describe_watches`."""
        if type(self.array) is not np.ndarray or self.fields is not None or not (self.small and self.contiguous):
            return WatchKind.OTHER, self.has_changed
        return WatchKind.ARRAY, self.array, self.dtype, self.shape, self.strides, self.writeable, self.copy

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

    def describe(self) -> tuple[Any, ...]:
        """Return the bytes for `OutsideSnapshot.describe_watches`."""
        return WatchKind.OTHER, self.has_changed

    def has_changed(self) -> bool:
        """Return whether a byte or the length has changed."""
        return bytes(memoryview(self.thing)) != self.copy

    def restore(self) -> None:
        """Restore the bytes of the sequence."""
        if self.has_changed():
            self.thing[:] = type(self.thing)(*_arguments_of(self.thing), self.copy)


def _always_changed() -> bool:
    return True


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


def slots_of(kind: type) -> dict[str, MemberDescriptorType | GetSetDescriptorType]:
    """Return the slots of a class and its bases, under the names that code uses for them."""
    makers = [base for base in kind.__mro__ if is_python_class(base) or base in (partial, defaultdict)]
    own = [base for base in makers if not is_known_class(base)]
    slots = {name: slot for name, slot in member_slots(makers).items() if not _is_special(name)}
    named = {**slots, **member_slots(own)}
    return {name: _find_computed(kind, name) or slot for name, slot in named.items()}


def _find_computed(kind: type, name: str) -> GetSetDescriptorType | None:
    """Return what a compiled class has put in place of a slot: the memory of that slot holds no object any more."""
    attribute = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    return attribute if isinstance(attribute, GetSetDescriptorType) else None


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


def _read_slot(owner: object, slot: MemberDescriptorType | GetSetDescriptorType) -> object:
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
