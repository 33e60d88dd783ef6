"""Straight-line arithmetic on numbers or vectors of them, written down as LLVM IR.

A `Writer` collects the lines of one function; a `Value` is what a line gave, and operators on values write more lines.
The same Python writes one lane or many: a number in Python becomes a constant in every lane. Lanes never mix, nothing
is contracted or reordered, and no operation here is undefined for any operand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

SIZES = {"double": 64, "float": 32}
"""The bits of the real types of LLVM that functions are made for."""
SHORT = {"double": "f64", "float": "f32"}

Operand: TypeAlias = "Value | float | int"


def vector(element: str, lanes: int) -> str:
    """Return the type of so many elements; one alone is no vector.

    >>> vector("double", 8), vector("double", 1)
    ('<8 x double>', 'double')
    """
    return element if lanes == 1 else f"<{lanes} x {element}>"


def suffix(real: str, lanes: int) -> str:
    """Return what the name of an intrinsic ends in.

    >>> suffix("double", 8), suffix("float", 1)
    ('v8f64', 'f32')
    """
    return SHORT[real] if lanes == 1 else f"v{lanes}{SHORT[real]}"


def real_text(value: float, real: str = "double") -> str:
    """Return a number as LLVM reads it without rounding: the bits of a double, also for a float.

    >>> real_text(1.0)
    '0x3FF0000000000000'
    """
    rounded = struct.unpack("f", struct.pack("f", value))[0] if real == "float" else value
    return f"0x{struct.unpack('Q', struct.pack('d', rounded))[0]:016X}"


@dataclass(frozen=True, eq=False)
class Value:
    """What a line of IR gave: its name or constant, and the type of one lane."""

    writer: Writer
    text: str
    element: str

    @property
    def type(self) -> str:
        """The type of all lanes."""
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

    __radd__, __rmul__ = __add__, __mul__

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
        """Return the bits moved down, zeros coming in."""
        return self._two("lshr", count)

    def __lt__(self, other: Operand) -> Value:
        return self._compared("olt", "slt", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compared("ogt", "sgt", other)

    def equals(self, other: Operand) -> Value:
        """Return where two values are equal."""
        return self._compared("oeq", "eq", other)

    def beyond(self, limit: float) -> Value:
        """Return where a value is not less than a limit, NaN included."""
        return self._compared("uge", "sge", limit)

    def not_above(self, limit: float) -> Value:
        """Return where a value is not greater than a limit, NaN included."""
        return self._compared("ule", "sle", limit)

    def undefined(self) -> Value:
        """Return where a value is NaN."""
        return self._compared("uno", "ne", self)

    def bits(self) -> Value:
        """Return the bits of a real as an integer."""
        return self._cast(f"i{SIZES[self.element]}")

    def as_real(self) -> Value:
        """Return the real of which an integer is the bits."""
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
    """The lines of one function on so many lanes."""

    def __init__(self, lanes: int, scales: bool = False) -> None:
        self.lanes = lanes
        self.scales = scales
        """Whether the processor multiplies by powers of 2 in one instruction (AVX-512)."""
        self.declared: set[str] = set()
        self.lines: list[str] = []
        self._count = 0

    def name(self, stem: str = "v") -> str:
        """Return a name not used yet."""
        self._count += 1
        return f"%{stem}{self._count}"

    def line(self, element: str, text: str) -> Value:
        """Write a line and return what it gives."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, element)

    def value(self, operand: Operand, element: str = "double") -> Value:
        """Return an operand as a value: a number becomes a constant in every lane."""
        if isinstance(operand, Value):
            return operand
        text = real_text(float(operand), element) if element in SIZES else str(int(operand))
        return Value(self, text if self.lanes == 1 else f"splat ({element} {text})", element)

    def intrinsic(self, name: str, *operands: Operand) -> Value:
        """Write a call of an intrinsic on reals."""
        values = [self.value(operand) for operand in operands]
        element = next(value.element for value in values)
        given = ", ".join(f"{value.type} {value.text}" for value in values)
        kind = vector(element, self.lanes)
        return self.line(element, f"call {kind} @llvm.{name}.{suffix(element, self.lanes)}({given})")

    def never(self) -> Value:
        """Return the condition that no lane fulfils."""
        return self.value(0, "i1")

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """Write a * b + c rounded once."""
        return self.intrinsic("fma", a, b, c)

    def fabs(self, x: Value) -> Value:
        """Write the magnitude."""
        return self.intrinsic("fabs", x)

    def copysign(self, x: Operand, sign: Value) -> Value:
        """Write a magnitude with the sign of another value."""
        return self.intrinsic("copysign", x, sign)

    def select(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """Write one value where a condition holds, else another."""
        element = next((side.element for side in (yes, no) if isinstance(side, Value)), "double")
        one, two = self.value(yes, element), self.value(no, element)
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
        given = ", ".join(f"{kind} {value.text}" for value in values)
        return self.line("double", f"call {kind} {name}({given}, {kind} zeroinitializer, i8 -1{rounding})")

    def clamp(self, x: Value, low: float, high: float) -> Value:
        """Write a value kept between two limits; NaN stays."""
        below = self.select(x < low, low, x)
        return self.select(below > high, high, below)

    def third(self, x: Value) -> Value:
        """Write the cube root of a positive normal number to within a tenth: a third of its bits."""
        whole, real = vector("i64", self.lanes), vector("double", self.lanes)
        bits = self.line("double", f"uitofp {whole} {x.bits().text} to {real}")
        near = bits * (1 / 3) + 0x2A9F7893 * 2.0**32
        return self.line("i64", f"fptoui {real} {near.text} to {whole}").as_real()

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Write a polynomial, lowest power first, in pairs of pairs so that the chain is short."""
        terms: list[Operand] = list(coefficients)
        power = x
        while len(terms) > 1:
            pairs = [self.fma(terms[k + 1], power, terms[k]) for k in range(0, len(terms) - 1, 2)]
            terms = [*pairs, *terms[len(pairs) * 2 :]]
            if len(terms) > 1:
                power = power * power
        return self.value(terms[0])
