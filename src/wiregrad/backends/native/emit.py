"""Writes C expressions as LLVM text, for one number or a vector of them.

Every instruction is plain IEEE 754: no fast-math flags, nothing contracted. A choice evaluates both sides and selects,
so that all lanes of a vector run the same instructions. An instruction that was written before is reused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wiregrad.backends.native.lanes import format_real, format_intrinsic_suffix, format_vector_type
from wiregrad.codegen.lowering import CONDITION_TO_NUMBER, require_scalar_text
from wiregrad.errors import NotNativeError
from wiregrad.ir import TABLE
from wiregrad.ops.expressions import (
    COMPARISON_SIGNS,
    MATH_H_FUNCTIONS,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    parse_c_text,
)

INTRINSIC_FUNCTIONS = {name: name for name in ("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign")}
"""Functions of C that are LLVM intrinsics with an instruction on this processor."""
_ARITHMETIC_INSTRUCTIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_COMPARISON_PREDICATES = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_LOGIC_INSTRUCTIONS = {"&&": "and", "||": "or"}


class RealType(NamedTuple):
    """The type of numbers: double or float, and how many lanes of them."""

    name: str
    lanes: int = 1

    @property
    def item_bytes(self) -> int:
        """The size of one number in bytes."""
        return 8 if self.name == "double" else 4

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The NumPy dtype of one number."""
        return np.dtype(np.float64 if self.name == "double" else np.float32)

    @property
    def total_bytes(self) -> int:
        """The size of all lanes in bytes."""
        return self.item_bytes * self.lanes

    @property
    def llvm_type(self) -> str:
        """The LLVM type of all lanes."""
        return self.vector_of(self.name)

    @property
    def llvm_bits_type(self) -> str:
        """The LLVM type of integers of the same width."""
        return self.vector_of(f"i{self.item_bytes * 8}")

    @property
    def llvm_condition_type(self) -> str:
        """The LLVM type of conditions."""
        return self.vector_of("i1")

    @property
    def absent_bits(self) -> str:
        """The bits of an absent gradient: a signalling NaN, which arithmetic never produces."""
        return self.format_splat(f"i{self.item_bytes * 8}", str(0x7FF0_5749_5245_0001 if self.item_bytes == 8 else 0x7F80_5749))

    def vector_of(self, element: str) -> str:
        """Return the LLVM type of all lanes of an element type."""
        return format_vector_type(element, self.lanes)

    def format_splat(self, element: str, value: str) -> str:
        """Return a constant that has the same value in all lanes."""
        return value if self.lanes == 1 else f"splat ({element} {value})"

    def format_literal(self, value: float) -> str:
        """Return a number as an LLVM literal in all lanes."""
        with np.errstate(over="ignore"):
            exact = float(self.dtype.type(value))
        exact = math.nan if math.isnan(exact) else exact
        return self.format_splat(self.name, format_real(exact))


class EmittedValue(NamedTuple):
    """The LLVM name or literal of a value, and whether it is a condition."""

    text: str
    condition: bool = False


MathFunctionCaller = Callable[["Emitter", str, list[str]], str]
"""Writes a call of a function of math.h and returns the name of its value."""


class ExpressionWriter:
    """Writes the instructions of C expressions, each distinct instruction once."""

    def __init__(self, real: RealType, caller: MathFunctionCaller) -> None:
        self.real = real
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.caller = caller
        self._known: dict[str, str] = {}
        self.called = False
        """Whether a call of a function has been written."""
        self.absent = real.absent_bits
        """The bits of an absent gradient, as a literal or the name of a value."""

    def emit_shared(self, instruction: str) -> str:
        """Write an instruction, unless it was written before, and return the name of its value."""
        name = self._known.get(instruction)
        if name is None:
            name = self._known[instruction] = self.emit_value(instruction)
        return name

    def emit_value(self, instruction: str) -> str:
        """Write an instruction that must not be reused, such as a load of memory that changes."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def emit_line(self, line: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {line}")

    def write_tree(self, tree: ScalarExpression, inputs: Mapping[str, EmittedValue]) -> EmittedValue:
        """Write an expression; `inputs` maps the names of its inputs to their values."""
        match tree:
            case InputExpression():
                return inputs[tree.name]
            case NumberExpression():
                return self._write_constant(tree.value)
            case PrefixExpression():
                return self._write_unary(tree.sign, self.write_tree(tree.operand, inputs))
            case BinaryExpression():
                return self._write_binary(tree.sign, self.write_tree(tree.left, inputs), self.write_tree(tree.right, inputs))
            case ChoiceExpression():
                return self._write_choice(*(self.write_tree(part, inputs) for part in tree))
            case CallExpression():
                return self._write_call(tree, inputs)

    def as_number(self, value: EmittedValue) -> str:
        """Return a value as a number; a condition becomes 1 or 0."""
        if not value.condition:
            return value.text
        real = self.real
        parts = f"{real.llvm_condition_type} {value.text}, {real.llvm_type} {real.format_literal(1.0)}, {real.llvm_type} {real.format_literal(0.0)}"
        return self.emit_shared(f"select {parts}")

    def as_condition(self, value: EmittedValue) -> str:
        """Return a value as a condition; a number is true unless it is 0."""
        if value.condition:
            return value.text
        return self.emit_shared(f"fcmp une {self.real.llvm_type} {value.text}, {self.real.format_literal(0.0)}")

    def write_select(self, condition: str, yes: str, no: str, kind: str) -> str:
        """Write a select between two values of an LLVM type."""
        return yes if yes == no else self.emit_shared(f"select {self.real.llvm_condition_type} {condition}, {kind} {yes}, {kind} {no}")

    def bitcast_to_real(self, bits: str) -> str:
        """Return bits reinterpreted as a number."""
        return self.emit_shared(f"bitcast {self.real.llvm_bits_type} {bits} to {self.real.llvm_type}")

    def bitcast_to_bits(self, number: str) -> str:
        """Return the bits of a number."""
        return self.emit_shared(f"bitcast {self.real.llvm_type} {number} to {self.real.llvm_bits_type}")

    def write_arithmetic(self, sign: str, left: str, right: str) -> str:
        """Write a sum, difference, product or quotient."""
        return self.emit_shared(f"{_ARITHMETIC_INSTRUCTIONS[sign]} {self.real.llvm_type} {left}, {right}")

    def _write_constant(self, value: float | bool) -> EmittedValue:
        if isinstance(value, bool | np.bool_):
            return EmittedValue(self.real.format_splat("i1", str(bool(value)).lower()), True)
        return EmittedValue(self.real.format_literal(value))

    def _write_unary(self, sign: str, operand: EmittedValue) -> EmittedValue:
        real = self.real
        if sign == "!":
            true = real.format_splat("i1", "true")
            return EmittedValue(self.emit_shared(f"xor {real.llvm_condition_type} {self.as_condition(operand)}, {true}"), True)
        return EmittedValue(self.emit_shared(f"fneg {real.llvm_type} {self.as_number(operand)}"))

    def _write_binary(self, sign: str, left: EmittedValue, right: EmittedValue) -> EmittedValue:
        real = self.real
        if sign in _LOGIC_INSTRUCTIONS:
            return EmittedValue(self.emit_shared(f"{_LOGIC_INSTRUCTIONS[sign]} {real.llvm_condition_type} {self.as_condition(left)}, {self.as_condition(right)}"), True)
        one = self.as_number(left)
        two = self.as_number(right)
        if sign in COMPARISON_SIGNS:
            return EmittedValue(self.emit_shared(f"fcmp {_COMPARISON_PREDICATES[sign]} {real.llvm_type} {one}, {two}"), True)
        return EmittedValue(self.write_arithmetic(sign, one, two))

    def _write_choice(self, condition: EmittedValue, yes: EmittedValue, no: EmittedValue) -> EmittedValue:
        held = self.as_condition(condition)
        if yes.condition and no.condition:
            return EmittedValue(self.write_select(held, yes.text, no.text, self.real.llvm_condition_type), True)
        return EmittedValue(self.write_select(held, self.as_number(yes), self.as_number(no), self.real.llvm_type))

    def _write_call(self, tree: CallExpression, inputs: Mapping[str, EmittedValue]) -> EmittedValue:
        operands = [self.write_tree(part, inputs) for part in tree.arguments]
        if tree.name == CONDITION_TO_NUMBER:
            return EmittedValue(self.as_number(operands[0]))
        if tree.name not in MATH_H_FUNCTIONS:
            op = require_scalar_text(TABLE[tree.name])
            return self.write_tree(parse_c_text(op.c), dict(zip(op.inputs, operands, strict=True)))
        numbers = [self.as_number(operand) for operand in operands]
        short = self._write_short_power(tree, numbers) if tree.name == "pow" else None
        return EmittedValue(short if short is not None else self.call_math_function(tree.name, numbers))

    def _write_short_power(self, tree: CallExpression, numbers: Sequence[str]) -> str | None:
        """Write a power as one instruction, for exponents where that gives the same bits as pow; else return None."""
        exponent = tree.arguments[1].value if isinstance(tree.arguments[1], NumberExpression) else None
        if exponent == 2.0:
            return self.write_arithmetic("*", numbers[0], numbers[0])
        if exponent == 1.0:
            return numbers[0]
        if exponent == -1.0:
            return self.write_arithmetic("/", self.real.format_literal(1.0), numbers[0])
        return None

    def call_math_function(self, name: str, operands: list[str]) -> str:
        """Write a call of a function of math.h."""
        if name not in INTRINSIC_FUNCTIONS:
            self.called = True
            return self.caller(self, name, operands)
        kind = self.real.llvm_type
        called = f"@llvm.{INTRINSIC_FUNCTIONS[name]}.{format_intrinsic_suffix(self.real.name, self.real.lanes)}"
        self.declared.add(f"declare {kind} {called}({', '.join([kind] * len(operands))})")
        return self.emit_shared(f"call {kind} {called}({', '.join(f'{kind} {operand}' for operand in operands)})")


def choose_real_name(dtypes: Sequence[np.dtype[np.generic]]) -> str:
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
