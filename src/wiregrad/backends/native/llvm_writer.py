"""Writers of LLVM text: arithmetic on lanes, C expressions, and loops over arrays.

Every instruction is plain IEEE 754: no fast-math flags, nothing contracted or reordered. `LaneWriter` writes
straight-line arithmetic for one number or a vector, by operators on `LaneValue`. `ExpressionWriter` writes the C
expressions of op records, each instruction once. `LlvmLoopWriter` writes loops over integer arrays, for the few passes
that NumPy has no operation for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from wiregrad.codegen.op_forms import CONDITION_TO_NUMBER, require_scalar_text
from wiregrad.errors import NotNativeError
from wiregrad.ir import TABLE
from wiregrad.ops.c_expressions import (
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

REAL_BITS = {"double": 64, "float": 32}
"""The number of bits of each LLVM float type."""
INTRINSIC_TYPE_NAMES = {"double": "f64", "float": "f32"}
"""How the names of intrinsics abbreviate each float type."""

LaneOperand: TypeAlias = "LaneValue | float | int"


def format_vector_type(element: str, lanes: int) -> str:
    """Return the LLVM type of `lanes` elements; a single one is a scalar.

    >>> format_vector_type("double", 8), format_vector_type("double", 1)
    ('<8 x double>', 'double')
    """
    return element if lanes == 1 else f"<{lanes} x {element}>"


def format_intrinsic_suffix(real: str, lanes: int) -> str:
    """Return the type suffix of an intrinsic's name.

    >>> format_intrinsic_suffix("double", 8), format_intrinsic_suffix("float", 1)
    ('v8f64', 'f32')
    """
    return INTRINSIC_TYPE_NAMES[real] if lanes == 1 else f"v{lanes}{INTRINSIC_TYPE_NAMES[real]}"


def format_real(value: float, real: str = "double") -> str:
    """Return a number as an exact LLVM literal: the bits of a double, also for a float.

    >>> format_real(1.0)
    '0x3FF0000000000000'
    """
    rounded = struct.unpack("f", struct.pack("f", value))[0] if real == "float" else value
    return f"0x{struct.unpack('Q', struct.pack('d', rounded))[0]:016X}"


@dataclass(frozen=True, eq=False)
class LaneValue:
    """The result of an LLVM instruction, or a constant: its text, and the type of one lane."""

    writer: LaneWriter
    text: str
    element: str

    @property
    def llvm_type(self) -> str:
        """The LLVM type of all lanes."""
        return format_vector_type(self.element, self.writer.lanes)

    def __add__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("fadd" if self._is_real else "add", other)

    def __sub__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("fsub" if self._is_real else "sub", other)

    def __rsub__(self, other: LaneOperand) -> LaneValue:
        return self.writer.as_value(other, self.element) - self

    def __mul__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("fmul", other)

    def __truediv__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("fdiv", other)

    def __rtruediv__(self, other: LaneOperand) -> LaneValue:
        return self.writer.as_value(other, self.element) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> LaneValue:
        return self.writer.emit_value(self.element, f"fneg {self.llvm_type} {self.text}")

    def __and__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("and", other)

    def __or__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("or", other)

    def __xor__(self, other: LaneOperand) -> LaneValue:
        return self._write_binary("xor", other)

    def __lshift__(self, count: int) -> LaneValue:
        return self._write_binary("shl", count)

    def __rshift__(self, count: int) -> LaneValue:
        """Return a logical shift to the right."""
        return self._write_binary("lshr", count)

    def __lt__(self, other: LaneOperand) -> LaneValue:
        return self._write_comparison("olt", "slt", other)

    def __gt__(self, other: LaneOperand) -> LaneValue:
        return self._write_comparison("ogt", "sgt", other)

    def is_equal_to(self, other: LaneOperand) -> LaneValue:
        """Return in which lanes two values are equal."""
        return self._write_comparison("oeq", "eq", other)

    def is_not_below(self, limit: float) -> LaneValue:
        """Return in which lanes a value is not less than a limit; true for NaN."""
        return self._write_comparison("uge", "sge", limit)

    def is_not_above(self, limit: float) -> LaneValue:
        """Return in which lanes a value is not greater than a limit; true for NaN."""
        return self._write_comparison("ule", "sle", limit)

    def is_nan(self) -> LaneValue:
        """Return in which lanes a value is NaN."""
        return self._write_comparison("uno", "ne", self)

    def as_bits(self) -> LaneValue:
        """Return the bits of a real as an integer."""
        return self._bitcast_to(f"i{REAL_BITS[self.element]}")

    def as_real(self) -> LaneValue:
        """Return an integer reinterpreted as a real."""
        return self._bitcast_to("double" if self.element == "i64" else "float")

    @property
    def _is_real(self) -> bool:
        return self.element in REAL_BITS

    def _bitcast_to(self, element: str) -> LaneValue:
        return self.writer.emit_value(
            element, f"bitcast {self.llvm_type} {self.text} to {format_vector_type(element, self.writer.lanes)}"
        )

    def _write_binary(self, instruction: str, other: LaneOperand) -> LaneValue:
        right = self.writer.as_value(other, self.element)
        return self.writer.emit_value(self.element, f"{instruction} {self.llvm_type} {self.text}, {right.text}")

    def _write_comparison(self, real: str, integer: str, other: LaneOperand) -> LaneValue:
        right = self.writer.as_value(other, self.element)
        how = f"fcmp {real}" if self._is_real else f"icmp {integer}"
        return self.writer.emit_value("i1", f"{how} {self.llvm_type} {self.text}, {right.text}")


class LaneWriter:
    """Collects the LLVM instructions of one function on a number of lanes."""

    def __init__(self, lanes: int, scales: bool = False) -> None:
        self.lanes = lanes
        self.scales = scales
        """Whether the processor multiplies by powers of 2 in one instruction (AVX-512)."""
        self.declared: set[str] = set()
        self.lines: list[str] = []
        self._count = 0

    def new_name(self, stem: str = "v") -> str:
        """Return an unused name."""
        self._count += 1
        return f"%{stem}{self._count}"

    def emit_value(self, element: str, text: str) -> LaneValue:
        """Write an instruction and return its value."""
        name = self.new_name()
        self.lines.append(f"  {name} = {text}")
        return LaneValue(self, name, element)

    def as_value(self, operand: LaneOperand, element: str = "double") -> LaneValue:
        """Return an operand as a value; a Python number becomes a constant in every lane."""
        if isinstance(operand, LaneValue):
            return operand
        text = format_real(float(operand), element) if element in REAL_BITS else str(int(operand))
        return LaneValue(self, text if self.lanes == 1 else f"splat ({element} {text})", element)

    def call_intrinsic(self, name: str, *operands: LaneOperand) -> LaneValue:
        """Write a call of an LLVM intrinsic on reals."""
        values = [self.as_value(operand) for operand in operands]
        element = next(value.element for value in values)
        arguments = ", ".join(f"{value.llvm_type} {value.text}" for value in values)
        kind = format_vector_type(element, self.lanes)
        return self.emit_value(
            element, f"call {kind} @llvm.{name}.{format_intrinsic_suffix(element, self.lanes)}({arguments})"
        )

    def false_in_all_lanes(self) -> LaneValue:
        """Return a condition that is false in every lane."""
        return self.as_value(0, "i1")

    def fma(self, a: LaneOperand, b: LaneOperand, c: LaneOperand) -> LaneValue:
        """Write a * b + c with a single rounding."""
        return self.call_intrinsic("fma", a, b, c)

    def fabs(self, x: LaneValue) -> LaneValue:
        """Write the magnitude."""
        return self.call_intrinsic("fabs", x)

    def copysign(self, x: LaneOperand, sign: LaneValue) -> LaneValue:
        """Write the magnitude of one value with the sign of another."""
        return self.call_intrinsic("copysign", x, sign)

    def write_select(self, condition: LaneValue, yes: LaneOperand, no: LaneOperand) -> LaneValue:
        """Write a select: one value where a condition holds, another elsewhere."""
        element = next((side.element for side in (yes, no) if isinstance(side, LaneValue)), "double")
        one = self.as_value(yes, element)
        two = self.as_value(no, element)
        return self.emit_value(
            element,
            f"select {condition.llvm_type} {condition.text}, {one.llvm_type} {one.text}, {two.llvm_type} {two.text}",
        )

    def scale_by_power_of_2(self, x: LaneValue, k: LaneValue) -> LaneValue:
        """Write x * 2**k in one instruction, k being a real that holds an integer."""
        if self.lanes == 1:
            pair = [
                self.emit_value("<2 x double>", f"insertelement <2 x double> poison, double {v.text}, i32 0")
                for v in (x, k)
            ]
            both = self._call_scalef("sd", "<2 x double>", pair, ", i32 4")
            return self.emit_value("double", f"extractelement <2 x double> {both.text}, i32 0")
        bits = 64 * self.lanes
        return self._call_scalef(f"pd.{bits}", x.llvm_type, (x, k), ", i32 4" if bits == 512 else "")

    def _call_scalef(self, form: str, kind: str, values: Sequence[LaneValue], rounding: str) -> LaneValue:
        name = f"@llvm.x86.avx512.mask.scalef.{form}"
        self.declared.add(f"declare {kind} {name}({kind}, {kind}, {kind}, i8{', i32' if rounding else ''})")
        arguments = ", ".join(f"{kind} {value.text}" for value in values)
        return self.emit_value("double", f"call {kind} {name}({arguments}, {kind} zeroinitializer, i8 -1{rounding})")

    def clamp(self, x: LaneValue, low: float, high: float) -> LaneValue:
        """Write a value clamped to two limits; NaN stays NaN."""
        below = self.write_select(x < low, low, x)
        return self.write_select(below > high, high, below)

    def estimate_cube_root(self, x: LaneValue) -> LaneValue:
        """Write the cube root of a positive normal number to within a tenth, by a third of its bits."""
        integer = format_vector_type("i64", self.lanes)
        real = format_vector_type("double", self.lanes)
        bits = self.emit_value("double", f"uitofp {integer} {x.as_bits().text} to {real}")
        near = bits * (1 / 3) + 0x2A9F7893 * 2.0**32
        return self.emit_value("i64", f"fptoui {real} {near.text} to {integer}").as_real()

    def evaluate_polynomial(self, x: LaneValue, coefficients: Sequence[float]) -> LaneValue:
        """Write a polynomial, lowest power first, by Estrin's scheme, whose dependency chain is short."""
        terms: list[LaneOperand] = list(coefficients)
        power = x
        while len(terms) > 1:
            pairs = [self.fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
            terms = [*pairs, *terms[len(pairs) * 2 :]]
            if len(terms) > 1:
                power = power * power
        return self.as_value(terms[0])


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
        return self.format_splat(
            f"i{self.item_bytes * 8}", str(0x7FF0_5749_5245_0001 if self.item_bytes == 8 else 0x7F80_5749)
        )

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


MathFunctionCaller = Callable[["ExpressionWriter", str, list[str]], str]
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
                return self._write_binary(
                    tree.sign, self.write_tree(tree.left, inputs), self.write_tree(tree.right, inputs)
                )
            case ChoiceExpression():
                return self._write_choice(*(self.write_tree(part, inputs) for part in tree))
            case CallExpression():
                return self._write_call(tree, inputs)

    def as_number(self, value: EmittedValue) -> str:
        """Return a value as a number; a condition becomes 1 or 0."""
        if not value.condition:
            return value.text
        real = self.real
        one = f"{real.llvm_type} {real.format_literal(1.0)}"
        zero = f"{real.llvm_type} {real.format_literal(0.0)}"
        return self.emit_shared(f"select {real.llvm_condition_type} {value.text}, {one}, {zero}")

    def as_condition(self, value: EmittedValue) -> str:
        """Return a value as a condition; a number is true unless it is 0."""
        if value.condition:
            return value.text
        return self.emit_shared(f"fcmp une {self.real.llvm_type} {value.text}, {self.real.format_literal(0.0)}")

    def write_select(self, condition: str, yes: str, no: str, kind: str) -> str:
        """Write a select between two values of an LLVM type."""
        return (
            yes
            if yes == no
            else self.emit_shared(f"select {self.real.llvm_condition_type} {condition}, {kind} {yes}, {kind} {no}")
        )

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
            return EmittedValue(
                self.emit_shared(f"xor {real.llvm_condition_type} {self.as_condition(operand)}, {true}"), True
            )
        return EmittedValue(self.emit_shared(f"fneg {real.llvm_type} {self.as_number(operand)}"))

    def _write_binary(self, sign: str, left: EmittedValue, right: EmittedValue) -> EmittedValue:
        real = self.real
        if sign in _LOGIC_INSTRUCTIONS:
            operands = f"{self.as_condition(left)}, {self.as_condition(right)}"
            instruction = f"{_LOGIC_INSTRUCTIONS[sign]} {real.llvm_condition_type} {operands}"
            return EmittedValue(self.emit_shared(instruction), True)
        one = self.as_number(left)
        two = self.as_number(right)
        if sign in COMPARISON_SIGNS:
            return EmittedValue(
                self.emit_shared(f"fcmp {_COMPARISON_PREDICATES[sign]} {real.llvm_type} {one}, {two}"), True
            )
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


class LlvmLoopWriter:
    """Writes loops; scalars are 64-bit integers, arrays may hold narrower ones."""

    def __init__(self, widths: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.widths = widths
        self.count = 0

    def emit_value(self, instruction: str) -> str:
        """Write an instruction and return its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {instruction}")
        return f"%v{self.count}"

    def new_label(self) -> str:
        """Return a new label."""
        self.count += 1
        return f"l{self.count}"

    def load_entry(self, array: str, index: str) -> str:
        """Write the load of an array entry and return its value."""
        kind = self.widths[array]
        value = self.emit_value(f"load {kind}, ptr {self._entry_pointer(array, index)}")
        extend = "sext" if kind == "i32" else "zext"
        return self.emit_value(f"{extend} {kind} {value} to i64")

    def store_entry(self, array: str, index: str, value: str) -> None:
        """Write the store of an array entry."""
        kind = self.widths[array]
        narrow = self.emit_value(f"trunc i64 {value} to {kind}")
        self.lines.append(f"  store {kind} {narrow}, ptr {self._entry_pointer(array, index)}")

    def copy_entry(self, array: str, index: str, source: str, other: str) -> None:
        """Write the copy of an entry of one array into another."""
        kind = self.widths[array]
        value = self.emit_value(f"load {kind}, ptr {self._entry_pointer(source, other)}")
        self.emit_line(f"store {kind} {value}, ptr {self._entry_pointer(array, index)}")

    def write_minimum(self, one: str, two: str) -> str:
        """Write the minimum of two numbers."""
        return self.emit_value(f"select i1 {self.emit_value(f'icmp slt i64 {one}, {two}')}, i64 {one}, i64 {two}")

    def emit_line(self, line: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {line}")

    def _entry_pointer(self, array: str, index: str) -> str:
        return self.emit_value(f"getelementptr {self.widths[array]}, ptr %{array}, i64 {index}")

    def load_variable(self, variable: str) -> str:
        """Write the load of a variable."""
        return self.emit_value(f"load i64, ptr %{variable}")

    def store_variable(self, variable: str, value: str) -> None:
        """Write the store of a variable."""
        self.lines.append(f"  store i64 {value}, ptr %{variable}")

    def write_binary(self, name: str, one: str, two: str) -> str:
        """Write an arithmetic or bitwise instruction on two numbers."""
        return self.emit_value(f"{name} i64 {one}, {two}")

    def write_comparison(self, name: str, one: str, two: str) -> str:
        """Write a comparison; its value is 1 or 0."""
        return self.emit_value(f"zext i1 {self.emit_value(f'icmp {name} i64 {one}, {two}')} to i64")

    @contextmanager
    def loop_over(self, first: str, end: str, *, down: bool = False) -> Iterator[str]:
        """Write a loop that counts from first to end - 1, or with `down` back from there; yields the index."""
        head, body, after, done = (self.new_label() for _ in range(4))
        steps = self.write_binary("sub", end, first)
        before = self.new_label()
        self.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
        k = self.emit_value(f"phi i64 [ 0, %{before} ], [ %next{after}, %{after} ]")
        self.lines += [
            f"  br i1 {self.emit_value(f'icmp slt i64 {k}, {steps}')}, label %{body}, label %{done}",
            f"{body}:",
        ]
        yield (
            self.write_binary("sub", self.write_binary("sub", end, "1"), k)
            if down
            else self.write_binary("add", first, k)
        )
        self.lines += [f"  br label %{after}", f"{after}:", f"  %next{after} = add i64 {k}, 1", f"  br label %{head}"]
        self.lines.append(f"{done}:")

    @contextmanager
    def loop_over_tiles(self, first: str, last: str, size: int) -> Iterator[tuple[str, str]]:
        """Write a loop over tiles from first to last; yields where each tile begins and how many entries it has."""
        count = self.write_binary("sub", last, first)
        with self.loop_over(
            "0", self.write_binary("udiv", self.write_binary("add", count, str(size - 1)), str(size))
        ) as k:
            start = self.write_binary("add", first, self.write_binary("mul", k, str(size)))
            yield start, self.write_minimum(self.write_binary("sub", last, start), str(size))

    @contextmanager
    def when_all(self, *truths: str) -> Iterator[None]:
        """Write a block that runs if all of these numbers are nonzero."""
        held = truths[0]
        for truth in truths[1:]:
            held = self.write_binary(
                "and", self.write_comparison("ne", held, "0"), self.write_comparison("ne", truth, "0")
            )
        yes = self.new_label()
        done = self.new_label()
        self.lines += [f"  br i1 {self.emit_value(f'icmp ne i64 {held}, 0')}, label %{yes}, label %{done}", f"{yes}:"]
        yield
        self.lines += [f"  br label %{done}", f"{done}:"]
