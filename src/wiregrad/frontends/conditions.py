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

from wiregrad.errors import AmbiguousIndexError, OperandError, user_frame, user_line
from wiregrad.frontends.record import record
from wiregrad.frontends.subscript import counts_as_int
from wiregrad.frontends.value import (
    Discrete,
    PythonFloat,
    PythonInt,
    Scalar,
    Value,
    as_python,
    concrete,
    is_operand,
    is_python,
    plain_class,
)
from wiregrad.ir import TABLE
from wiregrad.ir.operators import ARITHMETIC, COMPARISONS, SIGNS

MAX_EXACT = 2**53
"""Up to this number float64 represents every whole number exactly."""
BOUNDS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.add, "*": operator.mul}
"""Bound of the absolute result of an operator, given the bounds of its operands."""
BITWISE = {"&": "and", "|": "or", "^": "xor"}
"""Python's names of the bitwise operators, which conditions have."""
SHIFTS = {"<<": "lshift", ">>": "rshift"}


def is_whole(operand: Any) -> bool:
    """Return whether an operand is a Python bool or int, or would be one without recording."""
    return type(operand) is PythonInt or type(operand) is bool or type(operand) is int


def as_int(operand: Any) -> Any:
    """Return a Python bool or int, traced or not, as an int."""
    if not isinstance(operand, PythonInt):
        return int(operand)
    if operand._data.dtype.kind != "b":
        return operand
    return as_python(record(TABLE["cast"].bind({"dtype": "int64"}), (operand,)))


def bound_of(operand: Any) -> int:
    """Return the bound of the absolute value of a Python bool or int, traced or not."""
    return operand.bound if isinstance(operand, PythonInt) else abs(operand)


def compute_whole(spelling: str, a: Any, b: Any) -> Any:
    """Apply an operator to two Python bools or ints, at least one of them traced."""
    op = TABLE.infix[spelling]
    if spelling in BOUNDS:
        bound = BOUNDS[spelling](bound_of(a), bound_of(b))
        if max(bound, bound_of(a), bound_of(b)) <= MAX_EXACT:
            return as_python(record(op, (as_int(a), as_int(b))), bound)
    if spelling == "/" and type(b) in (int, bool) and 0 < abs(b) <= MAX_EXACT:
        return as_python(record(op, (as_int(a), int(b))))
    return _in_python(ARITHMETIC[spelling], a, b)


def _in_python(name: str, *operands: Any) -> Any:
    """Let Python apply an operator to plain numbers; traced operands are certified."""
    return getattr(operator, f"__{name}__")(*map(concrete, operands))


def _real(self: Any) -> Any:
    return as_int(self) if isinstance(self, PythonInt) else self


def _imaginary(self: Any) -> Any:
    return 0 if isinstance(self, PythonInt) else 0.0


def _arithmetic(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    op = TABLE.infix[spelling]

    def method(self: Any, other: Any) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if is_whole(a) and is_whole(b):
            return compute_whole(spelling, a, b)
        if isinstance(self, PythonInt):
            if not is_operand(other):
                return NotImplemented
            if self._data.dtype.kind == "i" and getattr(other, "dtype", None) == np.float32:
                # A Python int does not change the dtype of a float32, a node of int64 would.
                a, b = (other, concrete(self)) if reflected else (concrete(self), other)
        result = record(op, (a, b))
        return as_python(result) if is_python(other) else result

    return method


def _arithmetic_of_numpy(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    """Return an operator of NumPy's discrete values; with a list or text, Python decides what it means."""
    op = TABLE.infix[spelling]
    name = ARITHMETIC[spelling]

    def method(self: Discrete, other: Any) -> Any:
        a, b = (other, self) if reflected else (self, other)
        if isinstance(other, list | tuple | str) and not self.shape:
            return getattr(operator, name)(concrete(a), concrete(b))
        return record(op, (a, b))

    return method


def _compare(spelling: str) -> Callable[[Any, Any], Any]:
    op = TABLE.infix[spelling]

    def method(self: Any, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        if type(other) is int and abs(other) > MAX_EXACT and float(other) != other:
            raise OperandError(f"a traced number is compared with {other}, which no float64 equals{user_line()}")
        result = record(op, (self, other))
        return as_python(result) if is_python(other) else result

    return method


def _sign(spelling: str) -> Callable[[Any], Any]:
    op = TABLE.prefix[spelling]

    def method(self: Any) -> Any:
        if isinstance(self, PythonInt):
            return as_python(record(op, (as_int(self),)), self.bound)
        return as_python(record(op, (self,)))

    return method


def _absolute(self: Any) -> Any:
    if isinstance(self, PythonInt):
        return as_python(record(TABLE["absolute"], (as_int(self),)), self.bound)
    return as_python(record(TABLE["absolute"], (self,)))


def _invert_python(self: PythonInt) -> Any:
    return as_python(record(TABLE["subtract"], (-1, as_int(self))), self.bound + 1)


def _invert(self: Discrete) -> Any:
    return record(TABLE["logical_not"], (self,)) if _is_condition(self) else _in_python("invert", self)


def _is_condition(operand: Any) -> bool:
    return type(operand) is bool or getattr(operand, "dtype", None) == np.bool_


def _bitwise(spelling: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    op = TABLE[{"&": "logical_and", "|": "logical_or", "^": "not_equal"}[spelling]]
    name = BITWISE[spelling]

    def method(self: Discrete, other: Any) -> Any:
        if not is_operand(other):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        if _is_condition(a) and _is_condition(b):
            result = record(op, (a, b))
            return as_python(result) if is_python(a) and is_python(b) else result
        return _in_python(name, a, b)

    return method


def _shift(name: str, *, reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: Discrete, other: Any) -> Any:
        return _in_python(name, other, self) if reflected else _in_python(name, self, other)

    return method


def _divmod(self: Any, other: Any) -> Any:
    return _quotients(self, self, other)


def _rdivmod(self: Any, other: Any) -> Any:
    return _quotients(self, other, self)


def _quotients(self: Any, a: Any, b: Any) -> Any:
    """Return quotient and remainder; as Python numbers if both operands are."""
    if is_whole(a) and is_whole(b):
        return divmod(concrete(a), concrete(b))
    pair = np.divmod(a, b)
    return tuple(map(as_python, pair)) if is_python(a) and is_python(b) else pair


def _round(self: Any, digits: int | None = None) -> Any:
    if isinstance(self, Discrete):
        return round(concrete(self), digits)
    rounded = np.round(self, 0 if digits is None else digits)
    return as_python(rounded) if is_python(self) else rounded


def _attribute(self: Discrete, name: str) -> Any:
    """Return an attribute of the plain object, for a name that values do not have."""
    kind = plain_class(self)
    if name.startswith("_") or not hasattr(kind, name):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    return getattr(concrete(self), name)


def _index(self: Discrete) -> int:
    frame = user_frame()
    if type(self) is PythonInt and _is_condition(self) and (frame is None or not counts_as_int(frame)):
        # After this error NumPy converts the index to an array, and so sees a condition.
        raise AmbiguousIndexError(
            "a recorded condition is used as an index; a list would read it as 0 or 1, an array as a mask: write "
            f"items[int(condition)], or assign the indexed object to a variable{user_line()}"
        )
    return operator.index(concrete(self))


def _text(self: Discrete) -> str:
    return str(concrete(self))


def _representation(self: Discrete) -> str:
    return repr(concrete(self))


def _formatted(self: Discrete, spec: str) -> str:
    return format(concrete(self), spec)


def install() -> None:
    """Give traced numbers their operators."""
    kinds = {PythonFloat: _arithmetic, PythonInt: _arithmetic, Discrete: _arithmetic_of_numpy}
    for owner, arithmetic in kinds.items():
        for spelling, name in ARITHMETIC.items():
            setattr(owner, f"__{name}__", arithmetic(spelling, reflected=False))
            setattr(owner, f"__r{name}__", arithmetic(spelling, reflected=True))
    _install_python_operators()
    _install_number_methods()
    _install_discrete_operators()


def _install_python_operators() -> None:
    """Give traced Python numbers their comparisons and signs."""
    for kind in (PythonFloat, PythonInt):
        for spelling, name in COMPARISONS.items():
            setattr(kind, f"__{name}__", _compare(spelling))
        for spelling, name in SIGNS.items():
            setattr(kind, f"__{name}__", _sign(spelling))
        setattr(kind, "__abs__", _absolute)  # noqa: B010 - what is typed is Value's
        kind.__hash__ = Value.__hash__  # type: ignore[method-assign]


def _install_number_methods() -> None:
    """Give traced numbers `divmod`, `round`, and the parts of a complex number."""
    methods = {"divmod": _divmod, "rdivmod": _rdivmod, "round": _round}
    for name, method in methods.items():
        for number in (Scalar, PythonFloat, Discrete):
            setattr(number, f"__{name}__", method)
    parts = {"real": property(_real), "imag": property(_imaginary), "conjugate": _real, "conj": _real}
    for name, part in parts.items():
        for python in (Scalar, PythonFloat, PythonInt):
            setattr(python, name, part)


def _install_discrete_operators() -> None:
    """Give traced conditions and whole numbers their bitwise operators, and the text of the plain object."""
    for spelling, name in BITWISE.items():
        setattr(Discrete, f"__{name}__", _bitwise(spelling, reflected=False))
        setattr(Discrete, f"__r{name}__", _bitwise(spelling, reflected=True))
    for name in SHIFTS.values():
        setattr(Discrete, f"__{name}__", _shift(name, reflected=False))
        setattr(Discrete, f"__r{name}__", _shift(name, reflected=True))
    others: dict[str, Any] = {
        "__invert__": _invert,
        "__index__": _index,
        "__str__": _text,
        "__repr__": _representation,
        "__format__": _formatted,
        "__getattr__": _attribute,
    }
    for name, method in others.items():
        setattr(Discrete, name, method)
    setattr(PythonInt, "__invert__", _invert_python)  # noqa: B010 - what is typed is Value's


install()
