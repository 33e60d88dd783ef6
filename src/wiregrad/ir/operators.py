"""Python's operators for objects that ops can be applied to."""

from __future__ import annotations

from typing import Any

from wiregrad.ir.op import TABLE

ARITHMETIC_METHODS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "**": "pow", "%": "mod", "//": "floordiv"}
COMPARISON_METHODS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
SIGN_METHODS = {"-": "neg", "+": "pos"}
"""The special methods of each operator, without the double underscores."""


class OperatorMethods:
    """Operators that apply ops. `==` stays Python's own: two ports are equal if they are the same object."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return TABLE.infix["+"](self, other)

    def __radd__(self, other: Any) -> Any:
        return TABLE.infix["+"](other, self)

    def __sub__(self, other: Any) -> Any:
        return TABLE.infix["-"](self, other)

    def __rsub__(self, other: Any) -> Any:
        return TABLE.infix["-"](other, self)

    def __mul__(self, other: Any) -> Any:
        return TABLE.infix["*"](self, other)

    def __rmul__(self, other: Any) -> Any:
        return TABLE.infix["*"](other, self)

    def __truediv__(self, other: Any) -> Any:
        return TABLE.infix["/"](self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return TABLE.infix["/"](other, self)

    def __pow__(self, other: Any) -> Any:
        return TABLE.infix["**"](self, other)

    def __rpow__(self, other: Any) -> Any:
        return TABLE.infix["**"](other, self)

    def __mod__(self, other: Any) -> Any:
        return TABLE.infix["%"](self, other)

    def __rmod__(self, other: Any) -> Any:
        return TABLE.infix["%"](other, self)

    def __floordiv__(self, other: Any) -> Any:
        return TABLE.infix["//"](self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return TABLE.infix["//"](other, self)

    def __lt__(self, other: Any) -> Any:
        return TABLE.infix["<"](self, other)

    def __le__(self, other: Any) -> Any:
        return TABLE.infix["<="](self, other)

    def __gt__(self, other: Any) -> Any:
        return TABLE.infix[">"](self, other)

    def __ge__(self, other: Any) -> Any:
        return TABLE.infix[">="](self, other)

    def __neg__(self) -> Any:
        return TABLE.prefix["-"](self)

    def __pos__(self) -> Any:
        return TABLE.prefix["+"](self)

    def __and__(self, other: Any) -> Any:
        return TABLE["logical_and"](self, other)

    def __or__(self, other: Any) -> Any:
        return TABLE["logical_or"](self, other)

    def __invert__(self) -> Any:
        return TABLE["logical_not"](self)

    def __abs__(self) -> Any:
        return TABLE["absolute"](self)
