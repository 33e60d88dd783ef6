"""Writes C expressions as LLVM text, for one number or a vector of them.

Every instruction is plain IEEE 754: no fast-math flags, nothing contracted. A choice evaluates both sides and selects,
so that all lanes of a vector run the same instructions. An instruction that was written before is reused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wiregrad.backends.native.lanes import real_text, suffix, vector
from wiregrad.codegen.lowering import AS_NUMBER, scalar
from wiregrad.errors import NotNativeError
from wiregrad.ir import TABLE
from wiregrad.ops.expressions import (
    COMPARISONS,
    MATH_H,
    Between,
    Call,
    Choice,
    Input,
    Number,
    Signed,
    Tree,
    parse,
)

INSTRUCTIONS = {name: name for name in ("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign")}
"""Functions of C that are LLVM intrinsics with an instruction on this processor."""
_ARITHMETIC = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_COMPARED = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_LOGIC = {"&&": "and", "||": "or"}


class Real(NamedTuple):
    """The type of numbers: double or float, and how many lanes of them."""

    name: str
    lanes: int = 1

    @property
    def size(self) -> int:
        """The size of one number in bytes."""
        return 8 if self.name == "double" else 4

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The NumPy dtype of one number."""
        return np.dtype(np.float64 if self.name == "double" else np.float32)

    @property
    def width(self) -> int:
        """The size of all lanes in bytes."""
        return self.size * self.lanes

    @property
    def type(self) -> str:
        """The LLVM type of all lanes."""
        return self.of(self.name)

    @property
    def bits(self) -> str:
        """The LLVM type of integers of the same width."""
        return self.of(f"i{self.size * 8}")

    @property
    def condition(self) -> str:
        """The LLVM type of conditions."""
        return self.of("i1")

    @property
    def absent(self) -> str:
        """The bits of an absent gradient: a signalling NaN, which arithmetic never produces."""
        return self.splat(f"i{self.size * 8}", str(0x7FF0_5749_5245_0001 if self.size == 8 else 0x7F80_5749))

    def of(self, element: str) -> str:
        """Return the LLVM type of all lanes of an element type."""
        return vector(element, self.lanes)

    def splat(self, element: str, value: str) -> str:
        """Return a constant that has the same value in all lanes."""
        return value if self.lanes == 1 else f"splat ({element} {value})"

    def number(self, value: float) -> str:
        """Return a number as an LLVM literal in all lanes."""
        with np.errstate(over="ignore"):
            exact = float(self.dtype.type(value))
        exact = math.nan if math.isnan(exact) else exact
        return self.splat(self.name, real_text(exact))


class Value(NamedTuple):
    """The LLVM name or literal of a value, and whether it is a condition."""

    text: str
    condition: bool = False


Caller = Callable[["Emitter", str, list[str]], str]
"""Writes a call of a function of math.h and returns the name of its value."""


class Emitter:
    """Writes the instructions of C expressions, each distinct instruction once."""

    def __init__(self, real: Real, caller: Caller) -> None:
        self.real = real
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.caller = caller
        self._known: dict[str, str] = {}
        self.called = False
        """Whether a call of a function has been written."""
        self.absent = real.absent
        """The bits of an absent gradient, as a literal or the name of a value."""

    def new(self, instruction: str) -> str:
        """Write an instruction, unless it was written before, and return the name of its value."""
        name = self._known.get(instruction)
        if name is None:
            name = self._known[instruction] = self.fresh(instruction)
        return name

    def fresh(self, instruction: str) -> str:
        """Write an instruction that must not be reused, such as a load of memory that changes."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def say(self, line: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {line}")

    def tree(self, tree: Tree, inputs: Mapping[str, Value]) -> Value:
        """Write an expression; `inputs` maps the names of its inputs to their values."""
        match tree:
            case Input():
                return inputs[tree.name]
            case Number():
                return self._number(tree.value)
            case Signed():
                return self._signed(tree.sign, self.tree(tree.operand, inputs))
            case Between():
                return self._between(tree.sign, self.tree(tree.left, inputs), self.tree(tree.right, inputs))
            case Choice():
                return self._choice(*(self.tree(part, inputs) for part in tree))
            case Call():
                return self._call(tree, inputs)

    def number(self, value: Value) -> str:
        """Return a value as a number; a condition becomes 1 or 0."""
        if not value.condition:
            return value.text
        real = self.real
        parts = f"{real.condition} {value.text}, {real.type} {real.number(1.0)}, {real.type} {real.number(0.0)}"
        return self.new(f"select {parts}")

    def truth(self, value: Value) -> str:
        """Return a value as a condition; a number is true unless it is 0."""
        if value.condition:
            return value.text
        return self.new(f"fcmp une {self.real.type} {value.text}, {self.real.number(0.0)}")

    def select(self, condition: str, yes: str, no: str, kind: str) -> str:
        """Write a select between two values of an LLVM type."""
        return yes if yes == no else self.new(f"select {self.real.condition} {condition}, {kind} {yes}, {kind} {no}")

    def real_of(self, bits: str) -> str:
        """Return bits reinterpreted as a number."""
        return self.new(f"bitcast {self.real.bits} {bits} to {self.real.type}")

    def bits_of(self, number: str) -> str:
        """Return the bits of a number."""
        return self.new(f"bitcast {self.real.type} {number} to {self.real.bits}")

    def arithmetic(self, sign: str, left: str, right: str) -> str:
        """Write a sum, difference, product or quotient."""
        return self.new(f"{_ARITHMETIC[sign]} {self.real.type} {left}, {right}")

    def _number(self, value: float | bool) -> Value:
        if isinstance(value, bool | np.bool_):
            return Value(self.real.splat("i1", str(bool(value)).lower()), True)
        return Value(self.real.number(value))

    def _signed(self, sign: str, operand: Value) -> Value:
        real = self.real
        if sign == "!":
            true = real.splat("i1", "true")
            return Value(self.new(f"xor {real.condition} {self.truth(operand)}, {true}"), True)
        return Value(self.new(f"fneg {real.type} {self.number(operand)}"))

    def _between(self, sign: str, left: Value, right: Value) -> Value:
        real = self.real
        if sign in _LOGIC:
            return Value(self.new(f"{_LOGIC[sign]} {real.condition} {self.truth(left)}, {self.truth(right)}"), True)
        one = self.number(left)
        two = self.number(right)
        if sign in COMPARISONS:
            return Value(self.new(f"fcmp {_COMPARED[sign]} {real.type} {one}, {two}"), True)
        return Value(self.arithmetic(sign, one, two))

    def _choice(self, condition: Value, yes: Value, no: Value) -> Value:
        held = self.truth(condition)
        if yes.condition and no.condition:
            return Value(self.select(held, yes.text, no.text, self.real.condition), True)
        return Value(self.select(held, self.number(yes), self.number(no), self.real.type))

    def _call(self, tree: Call, inputs: Mapping[str, Value]) -> Value:
        operands = [self.tree(part, inputs) for part in tree.arguments]
        if tree.name == AS_NUMBER:
            return Value(self.number(operands[0]))
        if tree.name not in MATH_H:
            op = scalar(TABLE[tree.name])
            return self.tree(parse(op.c), dict(zip(op.inputs, operands, strict=True)))
        numbers = [self.number(operand) for operand in operands]
        short = self._short_power(tree, numbers) if tree.name == "pow" else None
        return Value(short if short is not None else self.function(tree.name, numbers))

    def _short_power(self, tree: Call, numbers: Sequence[str]) -> str | None:
        """Write a power as one instruction, for exponents where that gives the same bits as pow; else return None."""
        exponent = tree.arguments[1].value if isinstance(tree.arguments[1], Number) else None
        if exponent == 2.0:
            return self.arithmetic("*", numbers[0], numbers[0])
        if exponent == 1.0:
            return numbers[0]
        if exponent == -1.0:
            return self.arithmetic("/", self.real.number(1.0), numbers[0])
        return None

    def function(self, name: str, operands: list[str]) -> str:
        """Write a call of a function of math.h."""
        if name not in INSTRUCTIONS:
            self.called = True
            return self.caller(self, name, operands)
        kind = self.real.type
        called = f"@llvm.{INSTRUCTIONS[name]}.{suffix(self.real.name, self.real.lanes)}"
        self.declared.add(f"declare {kind} {called}({', '.join([kind] * len(operands))})")
        return self.new(f"call {kind} {called}({', '.join(f'{kind} {operand}' for operand in operands)})")


def real_of(dtypes: Sequence[np.dtype[np.generic]]) -> str:
    """Return "double" or "float" for wires of these dtypes; raise `NotNativeError` if they are not supported."""
    floats = {dtype.name for dtype in dtypes if dtype.kind == "f"}
    others = sorted({dtype.name for dtype in dtypes if dtype.kind not in "fb"})
    if others:
        raise NotNativeError(f"native code supports float64, float32 and bool; this circuit has {', '.join(others)}")
    if len(floats) > 1:
        raise NotNativeError(
            f"native code uses one float type per circuit; this circuit has {' and '.join(sorted(floats))}"
        )
    return "float" if floats == {"float32"} else "double"
