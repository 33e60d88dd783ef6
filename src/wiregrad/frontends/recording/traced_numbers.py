"""The operators of traced numbers: Python floats, and conditions and whole numbers of Python and NumPy.

Python and NumPy have different rules for conditions: `True + True` is 2 or True, `~True` is -2 or False, `-True` is -1
or an error. So each traced number has a class that says what it would be without recording, and its operators follow
the rules of that type:

- A `PythonFloat` with Python numbers gives a `PythonFloat`; with a NumPy number, the result is NumPy's.
- A `PythonInt` is a bool or an int. Sums, differences and products are nodes, as long as no result can be too large to
  be exact. Operators without a node (`//`, `**`, `<<`, a division that may be by 0) are computed by Python itself, and
  their operands are certified.
- A `DiscreteValue` is NumPy's. Where NumPy returns a dtype that a wire cannot have, or a function has no op, NumPy
  computes the result itself, and the operands are certified.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.errors import AmbiguousIndexError, OperandError, find_user_frame, format_user_line
from wiregrad.frontends.recording.record import record_op
from wiregrad.frontends.recording.user_code import counts_as_int
from wiregrad.frontends.recording.value import (
    DiscreteValue,
    PythonFloat,
    PythonInt,
    Scalar,
    Value,
    as_python_number,
    is_numeric_operand,
    is_python_number,
    make_concrete,
    plain_class,
)
from wiregrad.ir import TABLE
from wiregrad.ir.op import ARITHMETIC_METHODS, COMPARISON_METHODS, SIGN_METHODS

MAX_EXACT_INT = 2**53
"""Up to this number float64 represents every whole number exactly."""
RESULT_BOUNDS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.add, "*": operator.mul}
"""Bound of the absolute result of an operator, given the bounds of its operands."""
BITWISE_NAMES = {"&": "and", "|": "or", "^": "xor"}
"""Python's names of the bitwise operators, which conditions have."""
SHIFT_NAMES = {"<<": "lshift", ">>": "rshift"}


def is_whole_number(operand: object) -> bool:
    """Return whether an operand is a Python bool or int, or would be one without recording."""
    return type(operand) is PythonInt or type(operand) is bool or type(operand) is int


def as_int(operand: Any) -> Any:
    """Return a Python bool or int, traced or not, as an int."""
    if not isinstance(operand, PythonInt):
        return int(operand)
    if operand._data.dtype.kind != "b":
        return operand
    return as_python_number(record_op(TABLE["cast"].bind({"dtype": "int64"}), (operand,)))


def bound_of(operand: Any) -> int:
    """Return the bound of the absolute value of a Python bool or int, traced or not."""
    return operand.bound if isinstance(operand, PythonInt) else abs(operand)


def compute_whole(spelling: str, a: Any, b: Any) -> Any:
    """Apply an operator to two Python bools or ints, at least one of them traced."""
    op = TABLE.infix[spelling]
    if spelling in RESULT_BOUNDS:
        bound = RESULT_BOUNDS[spelling](bound_of(a), bound_of(b))
        if max(bound, bound_of(a), bound_of(b)) <= MAX_EXACT_INT:
            return as_python_number(record_op(op, (as_int(a), as_int(b))), bound)
    if spelling == "/" and type(b) in (int, bool) and 0 < abs(b) <= MAX_EXACT_INT:
        return as_python_number(record_op(op, (as_int(a), int(b))))
    return _compute_in_python(ARITHMETIC_METHODS[spelling], a, b)


def _compute_in_python(name: str, *operands: object) -> Any:
    """Let Python apply an operator to plain numbers; traced operands are certified."""
    return getattr(operator, f"__{name}__")(*map(make_concrete, operands))


def _real_part(self: Value) -> Any:
    return as_int(self) if isinstance(self, PythonInt) else self


def _imaginary_part(self: Value) -> Any:
    return 0 if isinstance(self, PythonInt) else 0.0


def _make_arithmetic(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    op = TABLE.infix[spelling]

    def method(self: Value, other: object) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if is_whole_number(a) and is_whole_number(b):
            return compute_whole(spelling, a, b)
        if isinstance(self, PythonInt):
            if not is_numeric_operand(other):
                return NotImplemented
            if self._data.dtype.kind == "i" and getattr(other, "dtype", None) == np.float32:
                # A Python int does not change the dtype of a float32, a node of int64 would.
                a, b = (other, make_concrete(self)) if reflected else (make_concrete(self), other)
        result = record_op(op, (a, b))
        return as_python_number(result) if is_python_number(other) else result

    return method


def _make_numpy_arithmetic(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    """Return an operator of NumPy's discrete values; with a list or text, Python decides what it means."""
    op = TABLE.infix[spelling]
    name = ARITHMETIC_METHODS[spelling]

    def method(self: DiscreteValue, other: object) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if isinstance(other, list | tuple | str) and not self.shape:
            return getattr(operator, name)(make_concrete(a), make_concrete(b))
        return record_op(op, (a, b))

    return method


def _make_comparison(spelling: str) -> Callable[[Any, Any], Any]:
    op = TABLE.infix[spelling]

    def method(self: Value, other: object) -> Any:
        if not is_numeric_operand(other):
            return NotImplemented
        if type(other) is int and abs(other) > MAX_EXACT_INT and float(other) != other:
            raise OperandError(f"a traced number is compared with {other}, which no float64 equals{format_user_line()}")
        result = record_op(op, (self, other))
        return as_python_number(result) if is_python_number(other) else result

    return method


def _make_sign(spelling: str) -> Callable[[Any], Any]:
    op = TABLE.prefix[spelling]

    def method(self: Value) -> Any:
        if isinstance(self, PythonInt):
            return as_python_number(record_op(op, (as_int(self),)), self.bound)
        return as_python_number(record_op(op, (self,)))

    return method


def _absolute_value(self: Value) -> Any:
    if isinstance(self, PythonInt):
        return as_python_number(record_op(TABLE["absolute"], (as_int(self),)), self.bound)
    return as_python_number(record_op(TABLE["absolute"], (self,)))


def _invert_python(self: PythonInt) -> Any:
    return as_python_number(record_op(TABLE["subtract"], (-1, as_int(self))), self.bound + 1)


def _invert_discrete(self: DiscreteValue) -> Any:
    return record_op(TABLE["logical_not"], (self,)) if _is_condition(self) else _compute_in_python("invert", self)


def _is_condition(operand: object) -> bool:
    return type(operand) is bool or getattr(operand, "dtype", None) == np.bool_


def _make_bitwise(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    op = TABLE[{"&": "logical_and", "|": "logical_or", "^": "not_equal"}[spelling]]
    name = BITWISE_NAMES[spelling]

    def method(self: DiscreteValue, other: object) -> Any:
        if not is_numeric_operand(other):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        if _is_condition(a) and _is_condition(b):
            result = record_op(op, (a, b))
            return as_python_number(result) if is_python_number(a) and is_python_number(b) else result
        return _compute_in_python(name, a, b)

    return method


def _make_shift(name: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: DiscreteValue, other: object) -> Any:
        return _compute_in_python(name, other, self) if reflected else _compute_in_python(name, self, other)

    return method


def _divide_by_other(self: Value, other: object) -> tuple[Any, Any]:
    return _compute_divmod(self, other)


def _divide_other(self: Value, other: object) -> tuple[Any, Any]:
    return _compute_divmod(other, self)


def _compute_divmod(a: Any, b: Any) -> tuple[Any, Any]:
    """Return quotient and remainder; as Python numbers if both operands are."""
    if is_whole_number(a) and is_whole_number(b):
        quotient, remainder = divmod(make_concrete(a), make_concrete(b))
        return quotient, remainder
    quotient, remainder = np.divmod(a, b)
    if is_python_number(a) and is_python_number(b):
        return as_python_number(quotient), as_python_number(remainder)
    return quotient, remainder


def _round_number(self: Any, digits: int | None = None) -> Any:
    if isinstance(self, DiscreteValue):
        return round(make_concrete(self), digits)
    rounded = np.round(self, 0 if digits is None else digits)
    return as_python_number(rounded) if is_python_number(self) else rounded


def _plain_attribute(self: DiscreteValue, name: str) -> Any:
    """Return an attribute of the plain object, for a name that values do not have."""
    kind = plain_class(self)
    if name.startswith("_") or not hasattr(kind, name):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    return getattr(make_concrete(self), name)


def _as_index(self: DiscreteValue) -> int:
    frame = find_user_frame()
    if type(self) is PythonInt and _is_condition(self) and (frame is None or not counts_as_int(frame)):
        # After this error NumPy converts the index to an array, and so sees a condition.
        raise AmbiguousIndexError(
            "a recorded condition is used as an index; a list would read it as 0 or 1, an array as a mask: write "
            f"items[int(condition)], or assign the indexed object to a variable{format_user_line()}"
        )
    return operator.index(make_concrete(self))


def _plain_text(self: DiscreteValue) -> str:
    return str(make_concrete(self))


def _plain_repr(self: DiscreteValue) -> str:
    return repr(make_concrete(self))


def _plain_format(self: DiscreteValue, spec: str) -> str:
    return format(make_concrete(self), spec)


def install_traced_numbers() -> None:
    """Give traced numbers their operators."""
    kinds = {PythonFloat: _make_arithmetic, PythonInt: _make_arithmetic, DiscreteValue: _make_numpy_arithmetic}
    for owner, arithmetic in kinds.items():
        for spelling, name in ARITHMETIC_METHODS.items():
            setattr(owner, f"__{name}__", arithmetic(spelling, reflected=False))
            setattr(owner, f"__r{name}__", arithmetic(spelling, reflected=True))
    _install_python_operators()
    _install_number_methods()
    _install_discrete_operators()


def _install_python_operators() -> None:
    """Give traced Python numbers their comparisons and signs."""
    for kind in (PythonFloat, PythonInt):
        for spelling, name in COMPARISON_METHODS.items():
            setattr(kind, f"__{name}__", _make_comparison(spelling))
        for spelling, name in SIGN_METHODS.items():
            setattr(kind, f"__{name}__", _make_sign(spelling))
        setattr(kind, "__abs__", _absolute_value)  # noqa: B010 - what is typed is Value's
        kind.__hash__ = Value.__hash__  # type: ignore[method-assign]


def _install_number_methods() -> None:
    """Give traced numbers `divmod`, `round`, and the parts of a complex number."""
    methods = {"divmod": _divide_by_other, "rdivmod": _divide_other, "round": _round_number}
    for name, method in methods.items():
        for number in (Scalar, PythonFloat, DiscreteValue):
            setattr(number, f"__{name}__", method)
    parts = {
        "real": property(_real_part),
        "imag": property(_imaginary_part),
        "conjugate": _real_part,
        "conj": _real_part,
    }
    for name, part in parts.items():
        for python in (Scalar, PythonFloat, PythonInt):
            setattr(python, name, part)


def _install_discrete_operators() -> None:
    """Give traced conditions and whole numbers their bitwise operators, and the text of the plain object."""
    for spelling, name in BITWISE_NAMES.items():
        setattr(DiscreteValue, f"__{name}__", _make_bitwise(spelling, reflected=False))
        setattr(DiscreteValue, f"__r{name}__", _make_bitwise(spelling, reflected=True))
    for name in SHIFT_NAMES.values():
        setattr(DiscreteValue, f"__{name}__", _make_shift(name, reflected=False))
        setattr(DiscreteValue, f"__r{name}__", _make_shift(name, reflected=True))
    others: dict[str, Any] = {
        "__invert__": _invert_discrete,
        "__index__": _as_index,
        "__str__": _plain_text,
        "__repr__": _plain_repr,
        "__format__": _plain_format,
        "__getattr__": _plain_attribute,
    }
    for name, method in others.items():
        setattr(DiscreteValue, name, method)
    setattr(PythonInt, "__invert__", _invert_python)  # noqa: B010 - what is typed is Value's


install_traced_numbers()
