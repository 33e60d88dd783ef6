"""The kinds of objects outside a function that cannot change, or that can be compared with their earlier state.

Every kind that is not listed here is unknown: a function that reads such an object is not replayed (`OutsideState`).
"""

from __future__ import annotations

import operator
import re
import sys
import types
from collections import OrderedDict, defaultdict, deque, namedtuple
from datetime import date, timedelta
from types import FunctionType
from typing import Any

import numpy as np

KNOWN_PACKAGES = ("numpy", "wiregrad")
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
    return name in KNOWN_MODULES or name.partition(".")[0] in KNOWN_PACKAGES


def is_known_function(function: FunctionType) -> bool:
    """Return whether a Python function is defined in a known module: its globals are that module's."""
    name = function.__globals__.get("__name__", "")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and vars(module) is function.__globals__ and is_known_module(name)


def is_known_builtin(function: Any) -> bool:
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
    return all(base in (object, type, *CONTAINER_TYPES, *ATOMIC_TYPES) or is_python_class(base) for base in kind.__mro__)


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
