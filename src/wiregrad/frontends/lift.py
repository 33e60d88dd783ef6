"""What numbers and arrays become when they meet values.

An array that is recorded belongs to the recording: it is copied, and read-only, so that nobody can change it later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, Literal

import numpy as np

from wiregrad.dtypes import DTYPES
from wiregrad.errors import (
    GradientError,
    OperandError,
    ShapeError,
    shown,
    user_line,
)
from wiregrad.ir import Op

MOST = int(np.finfo(np.float64).max)
"""The largest whole number that a float64 holds."""
MAX_SMALL = 1 << 17
"""Up to so many bytes, fresh memory is usually at hand."""
MAX_KEPT = 1 << 26
"""How many bytes of memory a thread keeps at most for its next large arrays."""
MAX_MEMORIES = 32
"""How many of them a thread knows at most."""


ALIKE = (np.ndarray, np.memmap, np.recarray)
"""Classes of arrays that compute as arrays do."""


def as_data(data: Any, what: str | Callable[[], str], *, strict: bool = False) -> Any:
    """Return a number or array as what a differentiable value holds: a float, or a read-only array of its own.

    Whole numbers are taken as float64, unless `strict`: then they are refused, as arrays of them always are.
    """
    if type(data) is float:
        return data
    if hasattr(data, "__wiregrad_apply__"):
        return data._data
    what = what if isinstance(what, str) else what()
    if isinstance(data, bool | np.bool_) or (strict and isinstance(data, int)):
        raise GradientError(f"{what} must be real or complex to be differentiated; got {_described(data)}{user_line()}")
    if isinstance(data, int | float) and not isinstance(data, np.generic):
        return float(data)
    if isinstance(data, complex) and not isinstance(data, np.generic):
        return np.complex128(data)
    array = as_array(data, what)
    if isinstance(data, list | tuple) and array.dtype.kind in "iu" and array.size and not strict:
        # Python's whole numbers count as real ones.
        array = array.astype(float)
    if array.dtype not in (DTYPES["float64"], DTYPES["float32"], DTYPES["complex128"]):
        hint = "; use .astype(float)" if array.dtype.kind in "iub" else "; wanted float64, float32 or complex128"
        raise GradientError(
            f"{what} must be real or complex to be differentiated; got {_described(array)}{hint}{user_line()}"
        )
    return own(array)


def as_array(data: Any, what: str) -> Any:
    """Return a list, tuple or array as an array; raise for ragged lists, text and objects."""
    refuse_subclass(data, what)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"{what} must be rectangular; NumPy says: {error}{user_line()}") from None
    if array.dtype.kind in "OUSVmM":
        raise OperandError(f"{what} must be made of numbers; got {_described(data)}{user_line()}")
    return array


def refuse_subclass(data: Any, what: str) -> None:
    """Raise for an array whose class has rules of its own, which would be lost in silence."""
    if isinstance(data, np.ma.MaskedArray):
        raise OperandError(f"{what} is a masked array, whose mask would be lost; fill it first{user_line()}")
    if isinstance(data, np.ndarray) and type(data) not in ALIKE:
        name = type(data).__name__
        raise OperandError(
            f"{what} is a {name}, and what its operators do is its own; hand over np.asarray(x) to have plain "
            f"elementwise arithmetic, with @ for products of matrices{user_line()}"
        )


def own(array: Any) -> Any:
    """Return an array that nobody can write to: a copy, or the array itself if it is such a copy already.

    That an array is read-only says little: older views of it may still be written to.
    """
    if array.ndim == 0:
        number = array[()]
        return float(number) if number.dtype == np.float64 else number
    if is_own(array):
        return array
    if array.nbytes <= MAX_SMALL:
        # Bytes are immutable, and quicker to copy to than a new array is to be made read-only.
        order = _order(array)
        return np.ndarray(array.shape, array.dtype, array.tobytes(order), order=order)
    return MEMORIES.copy(array)


def is_own(array: Any) -> bool:
    """Return whether an array is a copy that `own` made, or a view of one."""
    base = array.base
    while type(base) is np.ndarray:
        base = base.base
    return type(base) is bytes or type(base) is Memory


def literal(operand: Any, op: Op) -> Any:
    """Return an operand that is no value as NumPy takes it; arrays are copied, so that later edits do not matter."""
    kind = type(operand)
    if kind is int and abs(operand) > MOST:
        raise OperandError(f"{op.name} was given a whole number that no float64 holds: {shown(operand)}{user_line()}")
    if kind is float or kind is int or kind is bool or kind is complex or isinstance(operand, np.generic):
        return operand
    if isinstance(operand, np.ndarray):
        return own(as_array(operand, f"an operand of {op.name}"))
    if isinstance(operand, int | float | complex):
        return operand
    if isinstance(operand, list | tuple):
        return own(as_array(operand, f"an operand of {op.name}"))
    raise OperandError(f"{op.name} wants values, numbers or arrays; got {_described(operand)}{user_line()}")


def _described(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"an array of {data.dtype} with shape {data.shape}"
    return f"{type(data).__name__} {shown(data)}"


MAX_REFERENCES = 2
"""References that `_next` itself holds: a variable and an argument. A debugger that looks at variables holds more."""


class Memory(np.ndarray):
    """Bytes that a large array of a recording stands in. Nothing but such arrays refers to them."""


class Memories(threading.local):
    """Makes large arrays of recordings, in memory that is used again once nothing refers to the array there.

    Fresh memory costs about as much time as what is computed to it: the system has to provide every page.
    """

    def __init__(self) -> None:
        self._known: deque[Memory] = deque([_allocate(0)], MAX_MEMORIES)
        references = self._next()[1]
        self._unshared = references if references <= MAX_REFERENCES else 0
        """What `_next` counts for memory that no array stands in; 0, so that none is used again, if it cannot tell."""

    def copy(self, array: Any) -> Any:
        """Return a read-only copy of an array."""
        return self._filled(array, lambda out: np.copyto(out, array))

    def compute(self, forward: Callable[..., Any], xs: Sequence[Any]) -> Any:
        """Return what a function gives for arrays of one shape and numbers; read-only, if memory is used again."""
        arrays = [x for x in xs if type(x) is np.ndarray]
        alike = all(x.dtype == np.float64 and x.flags.c_contiguous for x in arrays)
        if not alike or not _keeps_float64(forward, len(xs)):
            return forward(*xs)
        return self._filled(arrays[0], lambda out: forward(*xs, out=out))

    def _filled(self, like: Any, fill: Callable[[Any], Any]) -> Any:
        """Return a read-only array of the same shape and dtype as another one, filled by a function."""
        memory = self._take(like.nbytes)
        array = np.ndarray(like.shape, like.dtype, memory, order=_order(like))
        fill(array)
        array.setflags(write=False)
        # The flag of the array cannot be set again while its memory is read-only.
        memory.setflags(write=False)
        self._keep(memory)
        return array

    def _next(self) -> tuple[Memory, int]:
        memory = self._known.popleft()
        return memory, getrefcount(memory)

    def _take(self, size: int) -> Memory:
        """Return writable memory of so many bytes that nobody else refers to."""
        for _ in range(len(self._known)):
            memory, references = self._next()
            if memory.size == size and references == self._unshared:
                memory.setflags(write=True)
                return memory
            self._known.append(memory)
        return _allocate(size)

    def _keep(self, memory: Memory) -> None:
        """Remember memory, and forget what was remembered longest if that is too much."""
        self._known.append(memory)
        while sum([known.size for known in self._known]) > MAX_KEPT:
            self._known.popleft()


def _order(array: Any) -> Literal["C", "F"]:
    """Return how a copy lies in memory: as the array does, since the last bits of a sum depend on it."""
    return "F" if array.ndim > 1 and array.flags.fnc else "C"


def _keeps_float64(forward: Callable[..., Any], count: int) -> bool:
    """Return whether a function is a ufunc that makes float64 of so many float64 (a comparison makes conditions)."""
    return isinstance(forward, np.ufunc) and f"{'d' * count}->d" in forward.types


def _allocate(size: int) -> Memory:
    return np.ndarray.__new__(Memory, size, np.uint8)


MEMORIES = Memories()
