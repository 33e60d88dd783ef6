"""Augmented assignment on recorded arrays: after `y *= 2.0`, every name of the array sees the change, as in NumPy.

A node never changes, but the object that stands for it may stand for another: `y *= 2.0` records the product and makes
`y` itself stand for it. Numbers are rebound, as in Python. So is a leaf, `wg.Value(...)`: it is a variable of its own,
and the result is a new value.

Where NumPy would change another array too (the array is a view of it, or a part of it was taken before), that array
cannot be reached, so the assignment is refused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from wiregrad.errors import MutationError, OperandError, ShapeError, find_user_frame, format_user_line
from wiregrad.frontends.recording.filled_value import find_shared_elements
from wiregrad.frontends.recording.hints import advise_on_update
from wiregrad.frontends.recording.user_code import is_update_of_part
from wiregrad.frontends.recording.value import DiscreteValue, Value
from wiregrad.ir.op import ARITHMETIC_METHODS
from wiregrad.ops.functions.shape import cast_like
from wiregrad.ops.gradient_flow import shape_of

DISCRETE_METHODS = ("and", "or", "xor", "lshift", "rshift")
"""The operators that only whole numbers and conditions have, without the double underscores."""


def update_array(array: Value, compute: Callable[[Any, Any], Any], operand: object, references: int) -> Any:
    """Make an array stand for what an operator computes from it.

    Numbers and leaves are left to the operator itself. So is a part that `y[1:] += v` takes, which nothing else refers
    to: what the operator returns is assigned to the part.
    """
    tape = array._tape
    if tape is None or not array.shape:
        return NotImplemented
    obstacle = find_shared_elements(array)
    if obstacle is not None:
        if references <= TEMPORARY.count and _is_part_of_statement():
            return NotImplemented
        raise MutationError(f"{obstacle}{advise_on_update()}{format_user_line()}")
    result = compute(array, operand)
    if not isinstance(result, Value):
        return result
    stand_for(array, match_array(result, array))
    return array


class _TemporaryProbe:
    """Counts the references to the operand of `y[i] += v` if nothing holds it but the running statement."""

    def __init__(self) -> None:
        self.count = 0

    def __getitem__(self, index: int) -> _TemporaryProbe:
        return _TemporaryProbe()

    def __setitem__(self, index: int, part: _TemporaryProbe) -> None:
        self.count = part.count

    def __iadd__(self, other: object) -> _TemporaryProbe:
        references = getrefcount(self)
        self.count = references
        return self


TEMPORARY = _TemporaryProbe()
TEMPORARY[0] += None


def _is_part_of_statement() -> bool:
    """Return whether the user's code is at an assignment to a part of something: `y[i] += v`."""
    frame = find_user_frame()
    return frame is not None and is_update_of_part(frame)


def match_array(result: Value, array: Value | np.ndarray[Any, Any]) -> Value:
    """Return a result with the dtype of the array that it is written to; raises where NumPy would not write it."""
    if shape_of(result) != array.shape:
        raise ShapeError(f"an array of shape {array.shape} cannot hold {shape_of(result)}{format_user_line()}")
    if not np.can_cast(result.dtype, array.dtype, "same_kind"):
        raise OperandError(
            f"an array of dtype {array.dtype} cannot hold {result.dtype}{advise_on_update()}{format_user_line()}"
        )
    matched: Value = cast_like(result, array)
    return matched


def stand_for(array: Value, result: Value) -> None:
    """Make an object stand for the node of another."""
    array._data = result._data
    array._tape = result._tape
    array._index = result._index
    # A name and hooks belong to the node that the array stood for.
    array._notes = getattr(result, "_notes", None)


def _make_update(name: str) -> Callable[[Value, object], Any]:
    """Return the method of an operator that assigns, such as `+=`."""
    compute: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: Value, other: object) -> Any:
        references = getrefcount(self)
        return update_array(self, compute, other, references)

    return method


def install_updates() -> None:
    """Give recorded arrays the operators that assign."""
    for name in (*ARITHMETIC_METHODS.values(), "matmul"):
        setattr(Value, f"__i{name}__", _make_update(name))
    for name in DISCRETE_METHODS:
        setattr(DiscreteValue, f"__i{name}__", _make_update(name))
