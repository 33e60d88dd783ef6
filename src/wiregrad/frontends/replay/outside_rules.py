"""What is known about the things outside a function: which kinds can be compared, and what bytecode can read.

Every kind of thing that is not listed here is unknown: a function that reads such a thing is not replayed
(`OutsideState`). What code reads is taken from its bytecode, nested functions included. Attributes that directly follow
a variable (`np.sin`) are stored as pairs, so that of a module only the names count that are read from it; a variable
that is used in any other way (`getattr(np, name)`, `xp = np`) *escapes*, and then every name counts.
"""

from __future__ import annotations

import dis
import operator
import re
import sys
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import numpy as np

KNOWN_PACKAGES = (
    *("numpy", "wiregrad", "scipy.fft", "scipy.integrate", "scipy.interpolate", "scipy.linalg", "scipy.ndimage"),
    *("scipy.signal", "scipy.sparse"),
)
"""Packages whose functions and classes depend on nothing but their arguments, except `EXCLUDED_MODULES`."""
KNOWN_MODULES = frozenset(
    "math cmath operator _operator itertools functools _functools collections collections.abc _collections "
    "_collections_abc abc _abc types typing numbers dataclasses enum contextlib copy fractions bisect _bisect heapq "
    "_heapq scipy.special".split()
)
"""Modules whose functions and classes depend on nothing but their arguments."""
EXCLUDED_MODULES = (
    *("numpy.random", "numpy.testing", "numpy.ctypeslib", "numpy.f2py", "numpy.lib._datasource", "numpy.lib.format"),
    *("numpy.lib._format_impl", "numpy.lib.npyio", "numpy.lib._npyio_impl"),
)
"""Modules of those packages that have state or read the system's."""
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
INERT_ATTRIBUTES = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __annotations__ __slots__ __dataclass_fields__ "
    "__dataclass_params__ __abstractmethods__ __parameters__ __orig_bases__ __static_attributes__ __firstlineno__ "
    "__sizeof__ __dir__ _abc_impl".split()
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
ATTRIBUTE_READ_OPCODES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
WRITE_OPCODES = GLOBAL_WRITE_OPCODES | {"STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
MUTATING_NAMES = frozenset(
    "append appendleft extend extendleft insert add discard remove pop popleft popitem clear update setdefault reverse "
    "rotate sort fill put itemset copyto putmask place setattr delattr __setattr__ __setitem__ "
    "__delitem__ __init__ __iadd__ __ior__ setitem delitem iadd ior heappush heappop heapify heapreplace heappushpop "
    "insort insort_left insort_right put_along_axis fill_diagonal".split()
)
"""Methods and functions that change their arguments."""
IGNORED_OPCODES = frozenset(["CACHE", "EXTENDED_ARG", "PUSH_NULL", "NOP"])


@dataclass(frozen=True)
class CodeReads:
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

    def add_code(self, code: CodeType) -> None:
        """Add the names in one code object."""
        texts = set(names_in(code.co_consts))
        self.names.update(code.co_names, texts)
        self.escaping.update(texts)
        steps = [step for step in dis.get_instructions(code) if step.opname not in IGNORED_OPCODES]
        for index, step in enumerate(steps):
            self._add_instruction(steps, index)
            self._add_loads(step, steps[index + 1] if index + 1 < len(steps) else None)
            self.mutates = self.mutates or _writes_around(step, code)

    def _add_instruction(self, steps: list[dis.Instruction], index: int) -> None:
        """Add the globals, imports and writes of an instruction."""
        step = steps[index]
        if step.opname in GLOBAL_READ_OPCODES or step.opname in GLOBAL_WRITE_OPCODES:
            self.global_names.add(step.argval)
        if step.opname == "IMPORT_NAME":
            self.imports.append((step.argval, _import_level(steps, index)))
        elif step.opname == "IMPORT_FROM":
            self.escaping.add(step.argval)
        elif step.opname == "STORE_ATTR":
            self.stored.add(step.argval)
        self.makes_classes = self.makes_classes or step.opname == "LOAD_BUILD_CLASS"
        self.mutates = self.mutates or step.opname in WRITE_OPCODES or _is_in_place(step)

    def _add_loads(self, step: dis.Instruction, following: dis.Instruction | None) -> None:
        """Add the variables that an instruction loads; they escape unless the next one reads an attribute."""
        *others, last = _loaded_names(step)
        self.escaping.update(others)
        if last == "__class__":
            # A variable that methods have for `super()`; code that names it gets the class.
            self.names.add(last)
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
        )


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Return a code object and all code objects nested in it."""
    stack = [code]
    while stack:
        code = stack.pop()
        yield code
        stack += [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _is_in_place(step: dis.Instruction) -> bool:
    """Return whether an instruction is one of `+=`, `|=` and the like."""
    return step.opname == "BINARY_OP" and step.argrepr.endswith("=")


def _writes_around(step: dis.Instruction, code: CodeType) -> bool:
    """Return whether an instruction assigns to a variable of an enclosing function."""
    return step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in code.co_freevars


def _loaded_names(step: dis.Instruction) -> list[str]:
    """Return the variables or the attribute that an instruction loads; the one on top of the stack is last."""
    if step.opname in ATTRIBUTE_READ_OPCODES:
        return [_attribute_name(step)]
    if step.opname.startswith("LOAD_") and step.opname != "LOAD_CONST":
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        return [str(name) for name in names]
    return [""]


def _attribute_name(step: dis.Instruction) -> str:
    return str(step.argval)


def _import_level(steps: list[dis.Instruction], index: int) -> int:
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
