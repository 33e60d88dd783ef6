"""The signature of a call: everything about its arguments that a recording takes for granted.

Real and complex leaves are inputs, and only their shapes and dtypes count; everything else counts with its value. What
may change unseen (an object of the user's own) has no signature.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES
from wiregrad.frontends.tree import BASES, own_attributes, parts_of
from wiregrad.frontends.value import Value

VALUED = frozenset([bool, int, str, bytes, EllipsisType])
"""Types of arguments that count with their value, as enums and dtypes do; what is derived from them may hold more."""
NAMED = frozenset([FunctionType, BuiltinFunctionType, ModuleType, np.ufunc, type(np.sum)])
"""Types of arguments that count as the thing they are, as classes do; what they use and hold may change."""
NUMBERS = frozenset([np.ndarray, complex])
"""Types of arguments that are numbers, besides floats and NumPy's numbers."""


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
        elif issubclass(kind, dict | list | tuple):
            self._read_container(item, kind)
        elif kind in NUMBERS or issubclass(kind, np.generic):
            self._read_number(item)
        else:
            self.marks.append(self._static(item))

    def _read_container(self, item: Any, kind: type) -> None:
        if kind not in BASES:
            if own_attributes(item):
                raise NoSignatureError(f"an argument is a {kind.__name__} with attributes of its own")
            # What its class defines may change.
            self.named.append(kind)
        keys, parts = parts_of(item)
        self.marks.append((kind, len(parts), *[self._static(key) for key in keys]))
        for part in parts:
            self._read(part)

    def _read_number(self, item: Any) -> None:
        array = np.asarray(item)
        if array.dtype.kind not in "fc":
            self.marks.append(_fixed(array, type(item)))
        elif array.dtype not in DTYPES.values():
            raise NoSignatureError(f"an argument is an array of {array.dtype}, which is not recorded")
        elif array.dtype == np.float64 and not array.ndim:
            # Its comparisons give np.bool_, so its recordings are not those of a Python float.
            self.marks.append((type(item),))
            self.inputs.append(float(array))
        else:
            self.marks.append((type(item), array.dtype.str, array.shape, _layout(array)))
            # The function may not see what its caller does to an array later, nor change it.
            self.inputs.append(array[()])

    def _static(self, item: Any) -> Hashable:
        """Return what stands for an argument that is no number: its type and value, or its identity."""
        kind = type(item)
        if item is None:
            return None
        if kind is slice or kind is range:
            return kind, self._static(item.start), self._static(item.stop), self._static(item.step)
        if kind is tuple:
            return kind, tuple([self._static(part) for part in item])
        if issubclass(kind, np.generic):
            return _fixed(np.asarray(item), kind)
        return self._by_identity(item, kind) or self._by_value(item, kind)

    def _by_identity(self, item: Any, kind: type) -> Hashable:
        """Return what stands for a thing that others may change: itself; None if it is nothing of the kind.

        Equality would not do, since a metaclass may define one. What is recorded is kept alive by what is followed.
        """
        if kind is BuiltinFunctionType and not isinstance(item.__self__, ModuleType | None):
            raise NoSignatureError(f"an argument is a method of a {type(item.__self__).__name__}, which may change")
        if kind in NAMED or issubclass(kind, type | Enum):
            self.named.append(kind if issubclass(kind, Enum) else item)
            return kind, id(item)
        return None

    def _by_value(self, item: Any, kind: type) -> Hashable:
        if kind is float or kind is complex:
            # As the key of a dict: 0.0 is not -0.0, and no NaN is another one.
            return kind, repr(item)
        if kind in VALUED or issubclass(kind, np.dtype):
            if kind is str and "{" in item:
                # `format` may read attributes by it.
                self.named.append(item)
            return kind, item
        if issubclass(kind, Value):
            raise ValuesGivenError
        raise NoSignatureError(
            f"an argument is a {kind.__name__}, which may change between calls; "
            "a method is compiled by wg.compile(object.method)"
        )


def _fixed(array: Any, kind: type) -> Hashable:
    if array.dtype.kind not in "iubUSmM":
        raise NoSignatureError(f"an argument is an array of {array.dtype}")
    return kind, array.dtype.str, array.dtype.char, array.shape, _layout(array), array.tobytes()


def _layout(array: Any) -> Hashable:
    """Return how an array lies in memory, on which `ravel("K")` and the like depend; None for the usual way."""
    return None if array.flags.c_contiguous else array.strides
