"""What numbers and arrays become when they meet values.

An array that is recorded belongs to the recording: it is copied, and read-only, so that nobody can change it later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES
from wiregrad.errors import (
    GradientError,
    OperandError,
    ShapeError,
    shown,
    user_line,
)
from wiregrad.frontends.tape import (
    STATE,
)
from wiregrad.ir import Op

MOST = int(np.finfo(np.float64).max)
"""The largest whole number that a float64 holds."""


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
    """Return an array that nobody else can write to: a copy, or the array itself if it is read-only to its base."""
    if array.ndim == 0:
        number = array[()]
        return float(number) if number.dtype == np.float64 else number
    if array.flags.writeable or (id(array) not in STATE.lent and _is_view_of_writeable(array)):
        array = array.copy()
        array.setflags(write=False)
    return array


def _is_view_of_writeable(array: Any) -> bool:
    base = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return base is not None


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


class Loan:
    """An array that owns its memory and cannot be written to for the time being, and its views that could be."""

    def __init__(self, owner: Any) -> None:
        self.locked: list[Any] = []
        self.count = 0
        self.lock(owner)

    def lock(self, array: Any) -> None:
        """Keep an array from being written to."""
        if array.flags.writeable:
            array.setflags(write=False)
            self.locked.append(array)

    def unlock(self) -> None:
        """Let everything be written to again: the owner first, its views behind it."""
        for array in self.locked:
            array.setflags(write=True)


class Loans:
    """Large arrays that running transforms hand to their functions: read-only views that need no copy.

    While an array is lent, it and the array it is a view of cannot be written to either, so an edit raises.
    """

    def __init__(self) -> None:
        self._loans: dict[int, Loan] = {}
        self._mutex = threading.Lock()

    def lend(self, array: Any) -> Any:
        """Return a read-only view of an array that owns its memory (or is a view of one that does), else a copy."""
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if owner.base is not None:
            return own(array)
        with self._mutex:
            loan = self._loans.get(id(owner))
            if loan is None:
                loan = self._loans[id(owner)] = Loan(owner)
            loan.lock(array)
            loan.count += 1
        view = array.view()
        view.setflags(write=False)
        # The owner is kept with the view, so that its id cannot become another array's.
        STATE.lent[id(view)] = (view, owner)
        return view

    def give_back(self, view: Any) -> None:
        """Let an array be written to again, once nobody else has it on loan."""
        _, owner = STATE.lent.pop(id(view))
        with self._mutex:
            loan = self._loans[id(owner)]
            loan.count -= 1
            if not loan.count:
                del self._loans[id(owner)]
                loan.unlock()


LOANS = Loans()
