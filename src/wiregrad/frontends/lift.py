"""How numbers and arrays are converted when they are combined with values.

A recorded array belongs to the tape: it is a read-only copy, so that nobody can change it later.
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
    short_repr,
    format_user_line,
)
from wiregrad.ir import Op

MAX_FLOAT64 = int(np.finfo(np.float64).max)
"""The largest whole number that a float64 can represent."""
MAX_SMALL_BYTES = 1 << 17
"""Up to this size, allocating memory is cheap, so no memory is reused."""
MAX_POOL_BYTES = 1 << 26
"""Maximum number of bytes that a thread keeps for its next large arrays."""
MAX_POOL_BLOCKS = 32
"""Maximum number of memory blocks that a thread keeps."""


PLAIN_ARRAY_CLASSES = (np.ndarray, np.memmap, np.recarray)
"""Classes of arrays whose operators are those of ndarray."""


def as_data(data: Any, what: str | Callable[[], str], *, strict: bool = False) -> Any:
    """Convert a number or array to the data of a differentiable value: a float, or a read-only copy.

    Whole numbers become float64; with `strict` they are refused, as arrays of them always are.
    """
    if type(data) is float:
        return data
    if hasattr(data, "__wiregrad_apply__"):
        return data._data
    what = what if isinstance(what, str) else what()
    if isinstance(data, bool | np.bool_) or (strict and isinstance(data, int)):
        raise GradientError(f"{what} must be real or complex to be differentiated; got {_describe_data(data)}{format_user_line()}")
    if isinstance(data, int | float) and not isinstance(data, np.generic):
        return float(data)
    if isinstance(data, complex) and not isinstance(data, np.generic):
        return np.complex128(data)
    array = as_array(data, what)
    if isinstance(data, list | tuple) and array.dtype.kind in "iu" and array.size and not strict:
        # Lists of Python ints count as real numbers.
        array = array.astype(float)
    if array.dtype not in (DTYPES["float64"], DTYPES["float32"], DTYPES["complex128"]):
        hint = "; use .astype(float)" if array.dtype.kind in "iub" else "; wanted float64, float32 or complex128"
        raise GradientError(
            f"{what} must be real or complex to be differentiated; got {_describe_data(array)}{hint}{format_user_line()}"
        )
    return ensure_owned(array)


def as_array(data: Any, what: str) -> Any:
    """Convert a list, tuple or array to an array; raises for ragged lists, text and objects."""
    refuse_subclass(data, what)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"{what} must be rectangular; NumPy says: {error}{format_user_line()}") from None
    if array.dtype.kind in "OUSVmM":
        raise OperandError(f"{what} must be made of numbers; got {_describe_data(data)}{format_user_line()}")
    return array


def refuse_subclass(data: Any, what: str) -> None:
    """Raise for an array of a subclass with its own operators, which would be lost without notice."""
    if isinstance(data, np.ma.MaskedArray):
        raise OperandError(f"{what} is a masked array, whose mask would be lost; fill it first{format_user_line()}")
    if isinstance(data, np.ndarray) and type(data) not in PLAIN_ARRAY_CLASSES:
        name = type(data).__name__
        raise OperandError(
            f"{what} is a {name}, whose operators differ from those of np.ndarray; pass np.asarray(x) for elementwise "
            f"arithmetic, with @ for products of matrices{format_user_line()}"
        )


def ensure_owned(array: Any) -> Any:
    """Return a read-only copy of an array, or the array itself if it is such a copy already.

    The read-only flag alone is not enough: older views of the same memory may still be writeable.
    """
    if array.ndim == 0:
        number = array[()]
        return float(number) if number.dtype == np.float64 else number
    if is_owned(array):
        return array
    if array.nbytes <= MAX_SMALL_BYTES:
        # A bytes object is immutable, and making one is faster than copying an array and clearing its flag.
        order = _memory_order(array)
        return np.ndarray(array.shape, array.dtype, array.tobytes(order), order=order)
    return MEMORY_POOL.copy_array(array)


def is_owned(array: Any) -> bool:
    """Return whether an array is a copy made by `ensure_owned`, or a view of one."""
    base = array.base
    while type(base) is np.ndarray:
        base = base.base
    return type(base) is bytes or type(base) is ArrayMemory


def as_literal(operand: Any, op: Op) -> Any:
    """Convert an operand that is not a value; arrays are copied, so that later edits have no effect."""
    kind = type(operand)
    if kind is int and abs(operand) > MAX_FLOAT64:
        raise OperandError(f"{op.name} got a whole number that is too large for float64: {short_repr(operand)}{format_user_line()}")
    if kind is float or kind is int or kind is bool or kind is complex or isinstance(operand, np.generic):
        return operand
    if isinstance(operand, np.ndarray):
        return ensure_owned(as_array(operand, f"an operand of {op.name}"))
    if isinstance(operand, int | float | complex):
        return operand
    if isinstance(operand, list | tuple):
        return ensure_owned(as_array(operand, f"an operand of {op.name}"))
    raise OperandError(f"{op.name} wants values, numbers or arrays; got {_describe_data(operand)}{format_user_line()}")


def _describe_data(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"an array of {data.dtype} with shape {data.shape}"
    return f"{type(data).__name__} {short_repr(data)}"


MAX_UNSHARED_REFERENCES = 2
"""Number of references that `_next_block` itself holds: a variable and an argument. A debugger may hold more."""


class ArrayMemory(np.ndarray):
    """A block of memory under a large recorded array. Only such arrays refer to it."""


class MemoryPool(threading.local):
    """Allocates large recorded arrays, and reuses their memory once nothing refers to them any more.

    Filling fresh memory takes about twice as long, because the operating system has to provide every page.
    """

    def __init__(self) -> None:
        self._known: deque[ArrayMemory] = deque([_allocate_block(0)], MAX_POOL_BLOCKS)
        references = self._next_block()[1]
        self._unshared = references if references <= MAX_UNSHARED_REFERENCES else 0
        """The reference count of a block without an array; 0 if that cannot be told, so that no block is reused."""

    def copy_array(self, array: Any) -> Any:
        """Return a read-only copy of an array."""
        return self._fill_array(array, lambda out: np.copyto(out, array))

    def compute_array(self, forward: Callable[..., Any], xs: Sequence[Any]) -> Any:
        """Compute a function of arrays of one shape and numbers; the result is read-only if it is in pooled memory."""
        arrays = [x for x in xs if type(x) is np.ndarray]
        alike = all(x.dtype == np.float64 and x.flags.c_contiguous for x in arrays)
        if not alike or not _keeps_float64(forward, len(xs)):
            return forward(*xs)
        return self._fill_array(arrays[0], lambda out: forward(*xs, out=out))

    def _fill_array(self, like: Any, fill: Callable[[Any], Any]) -> Any:
        """Return a read-only array with the shape and dtype of another one, filled by a function."""
        memory = self._take_block(like.nbytes)
        array = np.ndarray(like.shape, like.dtype, memory, order=_memory_order(like))
        fill(array)
        array.setflags(write=False)
        # While the memory is read-only, nobody can set the flag of the array back.
        memory.setflags(write=False)
        self._keep_block(memory)
        return array

    def _next_block(self) -> tuple[ArrayMemory, int]:
        """Take the oldest block out of the pool; returns it with its reference count."""
        memory = self._known.popleft()
        return memory, getrefcount(memory)

    def _take_block(self, size: int) -> ArrayMemory:
        """Return a writeable block of a size that nothing else refers to; allocated if the pool has none."""
        for _ in range(len(self._known)):
            memory, references = self._next_block()
            if memory.size == size and references == self._unshared:
                memory.setflags(write=True)
                return memory
            self._known.append(memory)
        return _allocate_block(size)

    def _keep_block(self, memory: ArrayMemory) -> None:
        """Put a block into the pool, and drop the oldest ones if the pool is too large."""
        self._known.append(memory)
        while sum([known.size for known in self._known]) > MAX_POOL_BYTES:
            self._known.popleft()


def _memory_order(array: Any) -> Literal["C", "F"]:
    """Return the memory order for a copy: that of the array, because the last bits of a sum depend on it."""
    return "F" if array.ndim > 1 and array.flags.fnc else "C"


def _keeps_float64(forward: Callable[..., Any], count: int) -> bool:
    """Return whether a function is a ufunc that maps `count` float64 to a float64 (a comparison does not)."""
    return isinstance(forward, np.ufunc) and f"{'d' * count}->d" in forward.types


def _allocate_block(size: int) -> ArrayMemory:
    return np.ndarray.__new__(ArrayMemory, size, np.uint8)


MEMORY_POOL = MemoryPool()
