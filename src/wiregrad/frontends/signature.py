"""The signature of a call: everything about its arguments that a recording takes for granted.

Real and complex leaves are inputs, and only their shapes and dtypes count; everything else counts with its value. What
may change unseen (an object of the user's own) has no signature.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.frontends.tree import in_order
from wiregrad.frontends.value import Value

VALUED = frozenset([bool, int, str, bytes, EllipsisType])
"""Types of arguments that count with their value, as enums and dtypes do; what is derived from them may hold more."""
NAMED = (FunctionType, BuiltinFunctionType, type, ModuleType, np.ufunc)
"""Types of arguments that count as the thing they are; what they use and hold may change."""


class NoSignatureError(Exception):
    """An argument cannot be told apart from what it may become; the message says which."""


class ValuesGivenError(Exception):
    """An argument is a recorded value, or a leaf of one's own."""


class Signature:
    """Reads arguments: `key` says what they are, `inputs` are the numbers in them, in the order of the leaves.

    >>> call = Signature(([1.5, 2], {"name": "tanh"}))
    >>> call.inputs, call.key == Signature(([9.5, 2], {"name": "tanh"})).key
    ([1.5], True)
    """

    __slots__ = ("inputs", "marks", "named")

    def __init__(self, item: Any) -> None:
        self.inputs: list[Any] = []
        self.marks: list[Hashable] = []
        self.named: list[Any] = []
        """Functions, classes and modules among the arguments."""
        self._read(item)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """What tells calls apart."""
        return tuple(self.marks)

    def _read(self, item: Any) -> None:
        kind = type(item)
        if kind is float:
            self.marks.append(float)
            self.inputs.append(item)
        elif item is None:
            self.marks.append(None)
        elif isinstance(item, list | tuple):
            if getattr(item, "__dict__", None):
                raise NoSignatureError(f"an argument is a {kind.__name__} with attributes of its own")
            self.marks.append((kind, len(item)))
            for part in item:
                self._read(part)
        elif isinstance(item, Mapping):
            keys = in_order(item)
            self.marks.append((kind, tuple([_static(key) for key in keys])))
            for key in keys:
                self._read(item[key])
        elif isinstance(item, np.ndarray | np.generic | float | complex):
            self._number(item)
        else:
            self.marks.append(_static(item))
            if isinstance(item, NAMED):
                self.named.append(item)

    def _number(self, item: Any) -> None:
        array = np.asarray(item)
        if type(item) not in (np.ndarray, complex) and not isinstance(item, np.generic | float):
            # A masked array, a matrix: what it does is its own.
            raise NoSignatureError(f"an argument is a {type(item).__name__}")
        if array.dtype.kind not in "fc":
            self.marks.append(_fixed(array, type(item)))
        elif array.dtype == np.float64 and not array.ndim:
            # Its comparisons give np.bool_, so its recordings are not those of a Python float.
            self.marks.append(np.float64)
            self.inputs.append(float(array))
        else:
            self.marks.append((array.dtype.str, array.shape))
            # The function may not see what its caller does to an array later, nor change it.
            self.inputs.append(array[()])


def _fixed(array: Any, kind: type) -> Hashable:
    if array.dtype.kind not in "iubUSmM":
        raise NoSignatureError(f"an argument is an array of {array.dtype}")
    return kind is np.ndarray, array.dtype.str, array.shape, array.tobytes()


def _static(item: Any) -> Hashable:
    """Return what stands for an argument that is no number: its type and value, or the thing itself."""
    if isinstance(item, Value):
        raise ValuesGivenError
    if isinstance(item, slice | range):
        return type(item), _static(item.start), _static(item.stop), _static(item.step)
    if isinstance(item, tuple):
        return type(item), tuple([_static(part) for part in item])
    if isinstance(item, BuiltinFunctionType) and not isinstance(item.__self__, ModuleType | None):
        raise NoSignatureError(f"an argument is a method of a {type(item.__self__).__name__}, which may change")
    if item is None or isinstance(item, NAMED):
        return item
    if isinstance(item, float | complex):
        # As the key of a dict: 0.0 is not -0.0, and no NaN is another one.
        return type(item), repr(item)
    if type(item) in VALUED or isinstance(item, Enum | np.dtype):
        return type(item), item
    if isinstance(item, np.generic):
        return _fixed(np.asarray(item), type(item))
    raise NoSignatureError(f"an argument is a {type(item).__name__}, which may change between calls")
