"""Writes straight-line arithmetic on numbers or vectors of them as LLVM text.

A `Writer` collects the lines of one function; a `Value` is the result of a line, and operators on values write more
lines. The same Python code writes one lane or many: a Python number becomes a constant in every lane. Lanes never mix,
nothing is contracted or reordered, and no operation here is undefined for any operand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

SIZES = {"double": 64, "float": 32}
"""The number of bits of each LLVM float type."""
SHORT = {"double": "f64", "float": "f32"}
"""How the names of intrinsics abbreviate each float type."""

Operand: TypeAlias = "Value | float | int"


def vector(element: str, lanes: int) -> str:
    """Return the LLVM type of `lanes` elements; a single one is a scalar.

    >>> vector("double", 8), vector("double", 1)
    ('<8 x double>', 'double')
    """
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix(real: str, lanes: int) -> str:
    """Return the type suffix of an intrinsic's name.

    >>> suffix("double", 8), suffix("float", 1)
    ('v8f64', 'f32')
    """
    return SHORT[real] if lanes == 1 else f"v{lanes}{SHORT[real]}"


def real_text(value: float, real: str = "double") -> str:
    """Return a number as an exact LLVM literal: the bits of a double, also for a float.

    >>> real_text(1.0)
    '0x3FF0000000000000'
    """
    rounded = struct.unpack("f", struct.pack("f", value))[0] if real == "float" else value
    return f"0x{struct.unpack('Q', struct.pack('d', rounded))[0]:016X}"


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an LLVM instruction, or a constant: its text, and the type of one lane."""

    writer: Writer
    text: str
    element: str

    @property
    def type(self) -> str:
        """The LLVM type of all lanes."""
        return vector(self.element, self.writer.lanes)

    def __add__(self, other: Operand) -> Value:
        return self._two("fadd" if self._real else "add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._two("fsub" if self._real else "sub", other)

    def __rsub__(self, other: Operand) -> Value:
        return self.writer.value(other, self.element) - self

    def __mul__(self, other: Operand) -> Value:
        return self._two("fmul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._two("fdiv", other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self.writer.value(other, self.element) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Value:
        return self.writer.line(self.element, f"fneg {self.type} {self.text}")

    def __and__(self, other: Operand) -> Value:
        return self._two("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._two("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._two("xor", other)

    def __lshift__(self, count: int) -> Value:
        return self._two("shl", count)

    def __rshift__(self, count: int) -> Value:
        """Return a logical shift to the right."""
        return self._two("lshr", count)

    def __lt__(self, other: Operand) -> Value:
        return self._compared("olt", "slt", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compared("ogt", "sgt", other)

    def equals(self, other: Operand) -> Value:
        """Return in which lanes two values are equal."""
        return self._compared("oeq", "eq", other)

    def beyond(self, limit: float) -> Value:
        """Return in which lanes a value is not less than a limit; true for NaN."""
        return self._compared("uge", "sge", limit)

    def not_above(self, limit: float) -> Value:
        """Return in which lanes a value is not greater than a limit; true for NaN."""
        return self._compared("ule", "sle", limit)

    def undefined(self) -> Value:
        """Return in which lanes a value is NaN."""
        return self._compared("uno", "ne", self)

    def bits(self) -> Value:
        """Return the bits of a real as an integer."""
        return self._cast(f"i{SIZES[self.element]}")

    def as_real(self) -> Value:
        """Return an integer reinterpreted as a real."""
        return self._cast("double" if self.element == "i64" else "float")

    @property
    def _real(self) -> bool:
        return self.element in SIZES

    def _cast(self, element: str) -> Value:
        return self.writer.line(element, f"bitcast {self.type} {self.text} to {vector(element, self.writer.lanes)}")

    def _two(self, instruction: str, other: Operand) -> Value:
        right = self.writer.value(other, self.element)
        return self.writer.line(self.element, f"{instruction} {self.type} {self.text}, {right.text}")

    def _compared(self, real: str, integer: str, other: Operand) -> Value:
        right = self.writer.value(other, self.element)
        how = f"fcmp {real}" if self._real else f"icmp {integer}"
        return self.writer.line("i1", f"{how} {self.type} {self.text}, {right.text}")


class Writer:
    """Collects the LLVM instructions of one function on a number of lanes."""

    def __init__(self, lanes: int, scales: bool = False) -> None:
        self.lanes = lanes
        self.scales = scales
        """Whether the processor multiplies by powers of 2 in one instruction (AVX-512)."""
        self.declared: set[str] = set()
        self.lines: list[str] = []
        self._count = 0

    def name(self, stem: str = "v") -> str:
        """Return an unused name."""
        self._count += 1
        return f"%{stem}{self._count}"

    def line(self, element: str, text: str) -> Value:
        """Write an instruction and return its value."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, element)

    def value(self, operand: Operand, element: str = "double") -> Value:
        """Return an operand as a value; a Python number becomes a constant in every lane."""
        if isinstance(operand, Value):
            return operand
        text = real_text(float(operand), element) if element in SIZES else str(int(operand))
        return Value(self, text if self.lanes == 1 else f"splat ({element} {text})", element)

    def intrinsic(self, name: str, *operands: Operand) -> Value:
        """Write a call of an LLVM intrinsic on reals."""
        values = [self.value(operand) for operand in operands]
        element = next(value.element for value in values)
        arguments = ", ".join(f"{value.type} {value.text}" for value in values)
        kind = vector(element, self.lanes)
        return self.line(element, f"call {kind} @llvm.{name}.{suffix(element, self.lanes)}({arguments})")

    def never(self) -> Value:
        """Return a condition that is false in every lane."""
        return self.value(0, "i1")

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """Write a * b + c with a single rounding."""
        return self.intrinsic("fma", a, b, c)

    def fabs(self, x: Value) -> Value:
        """Write the magnitude."""
        return self.intrinsic("fabs", x)

    def copysign(self, x: Operand, sign: Value) -> Value:
        """Write the magnitude of one value with the sign of another."""
        return self.intrinsic("copysign", x, sign)

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """Write a select: one value where a condition holds, another elsewhere."""
        element = next((side.element for side in (yes, no) if isinstance(side, Value)), "double")
        one = self.value(yes, element)
        two = self.value(no, element)
        return self.line(
            element, f"select {condition.type} {condition.text}, {one.type} {one.text}, {two.type} {two.text}"
        )

    def scaled(self, x: Value, k: Value) -> Value:
        """Write x * 2**k in one instruction, k being a real that holds an integer."""
        if self.lanes == 1:
            pair = [
                self.line("<2 x double>", f"insertelement <2 x double> poison, double {v.text}, i32 0") for v in (x, k)
            ]
            both = self._scalef("sd", "<2 x double>", pair, ", i32 4")
            return self.line("double", f"extractelement <2 x double> {both.text}, i32 0")
        bits = 64 * self.lanes
        return self._scalef(f"pd.{bits}", x.type, (x, k), ", i32 4" if bits == 512 else "")

    def _scalef(self, form: str, kind: str, values: Sequence[Value], rounding: str) -> Value:
        name = f"@llvm.x86.avx512.mask.scalef.{form}"
        self.declared.add(f"declare {kind} {name}({kind}, {kind}, {kind}, i8{', i32' if rounding else ''})")
        arguments = ", ".join(f"{kind} {value.text}" for value in values)
        return self.line("double", f"call {kind} {name}({arguments}, {kind} zeroinitializer, i8 -1{rounding})")

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """Write a value clamped to two limits; NaN stays NaN."""
        below = self.select(x < low, low, x)
        return self.select(below > high, high, below)

    def third(self, x: Value) -> Value:
        """Write the cube root of a positive normal number to within a tenth, by a third of its bits."""
        integer = vector("i64", self.lanes)
        real = vector("double", self.lanes)
        bits = self.line("double", f"uitofp {integer} {x.bits().text} to {real}")
        near = bits * (1 / 3) + 0x2A9F7893 * 2.0**32
        return self.line("i64", f"fptoui {real} {near.text} to {integer}").as_real()

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Write a polynomial, lowest power first, by Estrin's scheme, whose dependency chain is short."""
        terms: list[Operand] = list(coefficients)
        power = x
        while len(terms) > 1:
            pairs = [self.fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
            terms = [*pairs, *terms[len(pairs) * 2 :]]
            if len(terms) > 1:
                power = power * power
        return self.value(terms[0])
