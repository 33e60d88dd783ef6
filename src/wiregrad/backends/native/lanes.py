"""Writes straight-line arithmetic on numbers or vectors of them as LLVM text.

A `LaneWriter` collects the lines of one function; a `LaneValue` is the result of a line, and operators on values write more
lines. The same Python code writes one lane or many: a Python number becomes a constant in every lane. Lanes never mix,
nothing is contracted or reordered, and no operation here is undefined for any operand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

REAL_BITS = {"double": 64, "float": 32}
"""The number of bits of each LLVM float type."""
INTRINSIC_TYPE_NAMES = {"double": "f64", "float": "f32"}
"""How the names of intrinsics abbreviate each float type."""

LaneOperand: TypeAlias = "Value | float | int"


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
        return self.writer.emit_value(element, f"bitcast {self.llvm_type} {self.text} to {format_vector_type(element, self.writer.lanes)}")

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
        return self.emit_value(element, f"call {kind} @llvm.{name}.{format_intrinsic_suffix(element, self.lanes)}({arguments})")

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
            element, f"select {condition.llvm_type} {condition.text}, {one.llvm_type} {one.text}, {two.llvm_type} {two.text}"
        )

    def scale_by_power_of_2(self, x: LaneValue, k: LaneValue) -> LaneValue:
        """Write x * 2**k in one instruction, k being a real that holds an integer."""
        if self.lanes == 1:
            pair = [
                self.emit_value("<2 x double>", f"insertelement <2 x double> poison, double {v.text}, i32 0") for v in (x, k)
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
