"""The signature of a call: everything about its arguments that a recording depends on, except the input numbers.

Real and complex leaves are inputs: only their shapes and dtypes belong to the signature. Of everything else the value
does. An object that may change unnoticed (one of a user's class) has no signature.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from types import BuiltinFunctionType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES
from wiregrad.frontends.tree import CONTAINER_BASES, own_attributes, parts_of
from wiregrad.frontends.value import Value

VALUE_TYPES = frozenset([bool, int, str, bytes, EllipsisType])
"""Types that are compared by value, as dtypes are; subclasses are not, since they may have attributes."""
IDENTITY_TYPES = frozenset([FunctionType, BuiltinFunctionType, ModuleType, np.ufunc, type(np.sum)])
"""Types that are compared by identity, as classes are; what they refer to may change."""
NUMBER_TYPES = frozenset([np.ndarray, complex])
"""Types of numeric arguments, besides floats and NumPy numbers."""


class NoSignatureError(Exception):
    """An argument may change unnoticed, so the call has no signature; the message says which argument."""


class ValuesGivenError(Exception):
    """An argument is a `wg.Value`."""


class CallSignature:
    """Reads arguments: `key` identifies them, `inputs` are the numbers in them in the order of the leaves.

    >>> call = CallSignature(([1.5, 2], {"name": "tanh"}))
    >>> call.inputs, call.key == CallSignature(([9.5, 2], {"name": "tanh"})).key
    ([1.5], True)
    """

    __slots__ = ("inputs", "marks", "named")

    def __init__(self, item: Any) -> None:
        self.inputs: list[Any] = []
        self.marks: list[Hashable] = []
        self.named: list[Any] = []
        """Functions, classes and modules among the arguments."""
        self._read_item(item)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """The key that tells calls apart."""
        return tuple(self.marks)

    def _read_item(self, item: Any) -> None:
        kind = type(item)
        if kind is float:
            self.marks.append(float)
            self.inputs.append(item)
        elif item is None:
            self.marks.append(None)
        elif issubclass(kind, dict | list | tuple):
            self._read_container(item, kind)
        elif kind in NUMBER_TYPES or issubclass(kind, np.generic):
            self._read_number(item)
        else:
            self.marks.append(self._mark_static(item))

    def _read_container(self, item: Any, kind: type) -> None:
        if kind not in CONTAINER_BASES:
            if own_attributes(item):
                raise NoSignatureError(f"an argument is a {kind.__name__} with attributes of its own")
            # The attributes of its class may change.
            self.named.append(kind)
        keys, parts = parts_of(item)
        self.marks.append((kind, len(parts), *[self._mark_static(key) for key in keys]))
        for part in parts:
            self._read_item(part)

    def _read_number(self, item: Any) -> None:
        array = np.asarray(item)
        if array.dtype.kind not in "fc":
            self.marks.append(_mark_fixed_array(array, type(item)))
        elif array.dtype not in DTYPES.values():
            raise NoSignatureError(f"an argument is an array of {array.dtype}, which is not recorded")
        elif array.dtype == np.float64 and not array.ndim:
            # Its comparisons return np.bool_, so it needs another recording than a Python float.
            self.marks.append((type(item),))
            self.inputs.append(float(array))
        else:
            self.marks.append((type(item), array.dtype.str, array.shape, _memory_layout(array)))
            self.inputs.append(array[()])

    def _mark_static(self, item: Any) -> Hashable:
        """Return the mark of an argument that is not a number: its type, and its value or identity."""
        kind = type(item)
        if item is None:
            return None
        if kind is slice or kind is range:
            return kind, self._mark_static(item.start), self._mark_static(item.stop), self._mark_static(item.step)
        if kind is tuple:
            return kind, tuple([self._mark_static(part) for part in item])
        if issubclass(kind, np.generic):
            return _mark_fixed_array(np.asarray(item), kind)
        return self._mark_by_identity(item, kind) or self._mark_by_value(item, kind)

    def _mark_by_identity(self, item: Any, kind: type) -> Hashable:
        """Return the mark of an object that is compared by identity; None if it is not such an object.

        Equality is not used, since a metaclass may define it. The id stays valid, because `OutsideState` keeps the
        object alive.
        """
        if kind is BuiltinFunctionType and not isinstance(item.__self__, ModuleType | None):
            raise NoSignatureError(f"an argument is a method of a {type(item.__self__).__name__}, which may change")
        if kind in IDENTITY_TYPES or issubclass(kind, type | Enum):
            self.named.append(kind if issubclass(kind, Enum) else item)
            return kind, id(item)
        return None

    def _mark_by_value(self, item: Any, kind: type) -> Hashable:
        if kind is float or kind is complex:
            # The text tells 0.0 from -0.0, and is the same for every NaN.
            return kind, repr(item)
        if kind in VALUE_TYPES or issubclass(kind, np.dtype):
            if kind is str and "{" in item:
                # `format` may read attributes named in the text.
                self.named.append(item)
            return kind, item
        if issubclass(kind, Value):
            raise ValuesGivenError
        raise NoSignatureError(
            f"an argument is a {kind.__name__}, which may change between calls; "
            "a method is compiled by wg.compile(object.method)"
        )


def _mark_fixed_array(array: Any, kind: type) -> Hashable:
    """Return the mark of an array that is no input: its type, layout and bytes."""
    if array.dtype.kind not in "iubUSmM":
        raise NoSignatureError(f"an argument is an array of {array.dtype}")
    return kind, array.dtype.str, array.dtype.char, array.shape, _memory_layout(array), array.tobytes()


def _memory_layout(array: Any) -> Hashable:
    """Return the strides of an array, on which `ravel("K")` and the like depend; None if it is C-contiguous."""
    return None if array.flags.c_contiguous else array.strides
