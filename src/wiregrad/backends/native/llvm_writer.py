"""The writer of LLVM text. All native code is written with it; what the code computes is said by other modules.

`LlvmWriter` collects the functions and declarations of one LLVM module: it makes names, writes instructions, blocks,
branches, loops and calls, and on request writes each distinct instruction once. `LlvmValue` is the result of an
instruction or a constant: one number, or a vector with one number per lane. Python operators on values write
instructions. `LlvmArray` and `LlvmVariable` are memory that loops over integers read and write.

Every instruction is plain IEEE 754: no fast-math flags, nothing contracted or reordered.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import numpy as np

from wiregrad.errors import NotNativeError
from wiregrad.lazy import NamedTuple, record

REAL_BITS = {"double": 64, "float": 32}
"""The number of bits of each LLVM float type."""
INTRINSIC_TYPE_NAMES = {"double": "f64", "float": "f32"}
"""How the names of intrinsics abbreviate each float type."""
INTRINSIC_FUNCTIONS = frozenset(["sqrt", "fabs", "floor", "ceil", "trunc", "rint", "copysign"])
"""Functions of C that are LLVM intrinsics with an instruction on this processor."""

LINE_BYTES = 64
"""The size of a cache line, and of the vectors that are streamed."""
MIN_STREAMED_BYTES = 1 << 24
"""Minimum size of the arrays of a loop that writes its results past the cache, which has other uses then."""
NON_TEMPORAL = "!100"
"""The metadata of a store that goes past the cache."""
NON_TEMPORAL_DEFINITION = f"{NON_TEMPORAL} = !{{i32 1}}"

LlvmOperand: TypeAlias = "LlvmValue | float | int"


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
    """Return a number as an exact LLVM literal: the bits of a double, also for a float. Every NaN is the same.

    >>> format_real(1.0)
    '0x3FF0000000000000'
    """
    if real == "float":
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    if math.isnan(value):
        value = math.nan
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


def format_pointer(address: int) -> str:
    """Return an address as an LLVM pointer constant.

    >>> format_pointer(4096)
    'inttoptr (i64 4096 to ptr)'
    """
    return f"inttoptr (i64 {address} to ptr)"


class RealType(NamedTuple):
    """The type of a program's numbers: double or float, and how many lanes of them."""

    name: str
    lanes: int = 1

    @property
    def item_bytes(self) -> int:
        """The size of one number in bytes."""
        return REAL_BITS[self.name] // 8

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
        return format_vector_type(self.name, self.lanes)

    @property
    def bits_name(self) -> str:
        """The LLVM type of an integer as wide as one number."""
        return f"i{REAL_BITS[self.name]}"


NATIVE_DTYPES = ("float64", "float32", "bool")
"""The dtypes that native code computes in."""


def choose_real_name(dtypes: Sequence[np.dtype[np.generic]]) -> str:
    """Return "double" or "float" for wires of these dtypes; raise `NotNativeError` if they are not supported."""
    floats = {dtype.name for dtype in dtypes if dtype.kind == "f"}
    others = sorted({dtype.name for dtype in dtypes if dtype.name not in NATIVE_DTYPES})
    if others:
        raise NotNativeError(f"native code supports float64, float32 and bool; this circuit has {', '.join(others)}")
    if len(floats) > 1:
        raise NotNativeError(
            f"native code uses one float type per circuit; this circuit has {' and '.join(sorted(floats))}"
        )
    return "float" if floats == {"float32"} else "double"


@record
class LlvmValue:
    """The result of an LLVM instruction, or a constant: its text, the type of one lane, and the number of lanes."""

    writer: LlvmWriter
    text: str
    element: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.text

    @property
    def llvm_type(self) -> str:
        """The LLVM type of all lanes."""
        return format_vector_type(self.element, self.lanes)

    @property
    def typed(self) -> str:
        """The value as an operand with its type, as in `i64 %x`."""
        return f"{self.llvm_type} {self.text}"

    @property
    def is_real(self) -> bool:
        """Whether its lanes are floating-point numbers."""
        return self.element in REAL_BITS

    def __add__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("fadd" if self.is_real else "add", other)

    def __sub__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("fsub" if self.is_real else "sub", other)

    def __rsub__(self, other: LlvmOperand) -> LlvmValue:
        return self.writer.as_value(other, self.element, self.lanes) - self

    def __mul__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("fmul" if self.is_real else "mul", other)

    def __truediv__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("fdiv", other)

    def __rtruediv__(self, other: LlvmOperand) -> LlvmValue:
        return self.writer.as_value(other, self.element, self.lanes) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> LlvmValue:
        return self.writer.emit_shared(self.element, f"fneg {self.typed}", self.lanes)

    def __and__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("and", other)

    def __or__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("or", other)

    def __xor__(self, other: LlvmOperand) -> LlvmValue:
        return self.combine("xor", other)

    def __lshift__(self, count: LlvmOperand) -> LlvmValue:
        return self.combine("shl", count)

    def __rshift__(self, count: LlvmOperand) -> LlvmValue:
        """Write a logical shift to the right."""
        return self.combine("lshr", count)

    def __lt__(self, other: LlvmOperand) -> LlvmValue:
        return self.compare("olt" if self.is_real else "slt", other)

    def __gt__(self, other: LlvmOperand) -> LlvmValue:
        return self.compare("ogt" if self.is_real else "sgt", other)

    def __le__(self, other: LlvmOperand) -> LlvmValue:
        return self.compare("ole" if self.is_real else "sle", other)

    def __ge__(self, other: LlvmOperand) -> LlvmValue:
        return self.compare("oge" if self.is_real else "sge", other)

    def is_equal_to(self, other: LlvmOperand) -> LlvmValue:
        """Write in which lanes two values are equal."""
        return self.compare("oeq" if self.is_real else "eq", other)

    def is_nonzero(self) -> LlvmValue:
        """Write in which lanes a value is not 0; true for NaN. A condition is returned as it is."""
        if self.element == "i1":
            return self
        return self.compare("une" if self.is_real else "ne", 0)

    def combine(self, instruction: str, other: LlvmOperand) -> LlvmValue:
        """Write an instruction on two operands of this type."""
        right = self.writer.as_value(other, self.element, self.lanes)
        return self.writer.emit_shared(self.element, f"{instruction} {self.typed}, {right.text}", self.lanes)

    def compare(self, predicate: str, other: LlvmOperand) -> LlvmValue:
        """Write a comparison by the name of its LLVM predicate, such as `uge`."""
        right = self.writer.as_value(other, self.element, self.lanes)
        instruction = "fcmp" if self.is_real else "icmp"
        return self.writer.emit_shared("i1", f"{instruction} {predicate} {self.typed}, {right.text}", self.lanes)

    def convert(self, instruction: str, element: str) -> LlvmValue:
        """Write a conversion, such as `zext` or `fptrunc`, of every lane to another type."""
        target = format_vector_type(element, self.lanes)
        return self.writer.emit_shared(element, f"{instruction} {self.typed} to {target}", self.lanes)

    def as_bits(self) -> LlvmValue:
        """Return the bits of a real as an integer."""
        return self.convert("bitcast", f"i{REAL_BITS[self.element]}")

    def as_real(self) -> LlvmValue:
        """Return an integer reinterpreted as a real."""
        return self.convert("bitcast", "double" if self.element == "i64" else "float")

    def take_lane(self, lane: int) -> LlvmValue:
        """Write a single number: one lane of a vector."""
        return self.writer.emit_shared(self.element, f"extractelement {self.typed}, i32 {lane}", 1)

    def take_first_lanes(self, count: int) -> LlvmValue:
        """Write a shorter vector: the first lanes of this one."""
        return self if count == self.lanes else self.pick_lanes(range(count))

    def pick_lanes(self, lanes: Sequence[int], other: LlvmValue | None = None) -> LlvmValue:
        """Write a vector of some lanes of this one, and of another one, whose lanes are counted behind them."""
        order = ", ".join(f"i32 {lane}" for lane in lanes)
        second = f"{self.llvm_type} poison" if other is None else other.typed
        return self.writer.emit_shared(
            self.element, f"shufflevector {self.typed}, {second}, <{len(lanes)} x i32> <{order}>", len(lanes)
        )


FOR_READING, FOR_READING_LATER, FOR_WRITING = "i32 0, i32 3", "i32 0, i32 2", "i32 1, i32 3"
FOR_READING_ONCE = "i32 0, i32 0"
"""What cache lines are fetched for, and how near to the processor."""


class LlvmWriter:
    """Collects the text of one LLVM module, function by function."""

    def __init__(self, lanes: int = 1, *, shares: bool = False, features: Iterable[str] = ()) -> None:
        self.lanes = lanes
        """The number of lanes of constants and of loaded values, unless a call says otherwise."""
        self.shares = shares
        """Whether a function computes each value once; only right where the first place is always passed."""
        self.features = frozenset(features)
        """Features of the processor that the text may use beyond those that every processor has."""
        self.lines: list[str] = []
        self.declared: set[str] = set()
        """The declarations and other lines that come before the functions."""
        self._shared: dict[str, LlvmValue] = {}
        self._count = 0

    def new_name(self, stem: str = "v") -> str:
        """Return an unused name, without the sign in front of it."""
        self._count += 1
        return f"{stem}{self._count}"

    def emit_line(self, line: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {line}")

    def emit_value(self, element: str, instruction: str, lanes: int | None = None) -> LlvmValue:
        """Write an instruction and return its value."""
        name = f"%{self.new_name()}"
        self.lines.append(f"  {name} = {instruction}")
        return self.name_value(name, element, lanes)

    def emit_shared(self, element: str, instruction: str, lanes: int | None = None) -> LlvmValue:
        """Write an instruction whose value depends on its operands alone; a writer that shares writes it once."""
        if not self.shares:
            return self.emit_value(element, instruction, lanes)
        value = self._shared.get(instruction)
        if value is None:
            value = self._shared[instruction] = self.emit_value(element, instruction, lanes)
        return value

    @contextmanager
    def use_lanes(self, lanes: int) -> Iterator[None]:
        """Give constants and loaded values another number of lanes inside of a block."""
        before = self.lanes
        self.lanes = lanes
        try:
            yield
        finally:
            self.lanes = before

    @contextmanager
    def share_nothing(self) -> Iterator[None]:
        """Write instructions anew inside of a block: values of a branch that may not be taken are not for the rest."""
        before = self.shares
        self.shares = False
        try:
            yield
        finally:
            self.shares = before

    def join_lanes(self, numbers: Sequence[LlvmValue], lanes: int) -> LlvmValue:
        """Write a vector of single numbers; lanes beyond the last number repeat the first."""
        element = numbers[0].element
        kind = format_vector_type(element, lanes)
        vector = self.emit_shared(element, f"insertelement {kind} poison, {numbers[0].typed}, i32 0", lanes)
        if len(numbers) < lanes:
            mask = f"<{lanes} x i32> zeroinitializer"
            vector = self.emit_shared(element, f"shufflevector {vector.typed}, {kind} poison, {mask}", lanes)
        for lane, number in enumerate(numbers[1:], 1):
            vector = self.emit_shared(element, f"insertelement {vector.typed}, {number.typed}, i32 {lane}", lanes)
        return vector

    def name_value(self, text: str, element: str, lanes: int | None = None) -> LlvmValue:
        """Return the value of a name or literal that is known already, such as a parameter."""
        return LlvmValue(self, text, element, self.lanes if lanes is None else lanes)

    def as_value(self, operand: LlvmOperand, element: str, lanes: int | None = None) -> LlvmValue:
        """Return an operand as a value; a Python number becomes a constant in every lane."""
        if isinstance(operand, LlvmValue):
            return operand
        text = _format_number(operand, element)
        value = self.name_value(text, element, lanes)
        return value if value.lanes == 1 else self.name_value(f"splat ({element} {text})", element, lanes)

    def select(self, condition: LlvmValue, yes: LlvmOperand, no: LlvmOperand, element: str = "double") -> LlvmValue:
        """Write one value where a condition holds, another elsewhere; `element` is the type of two plain numbers."""
        element = next((side.element for side in (yes, no) if isinstance(side, LlvmValue)), element)
        one = self.as_value(yes, element, condition.lanes)
        two = self.as_value(no, element, condition.lanes)
        if one.text == two.text:
            return one
        return self.emit_shared(element, f"select {condition.typed}, {one.typed}, {two.typed}", condition.lanes)

    def call(self, element: str, callee: str, *arguments: LlvmValue, lanes: int | None = None) -> LlvmValue:
        """Write a call and return its result; a writer that shares must only call functions without side effects."""
        kind = format_vector_type(element, self.lanes if lanes is None else lanes)
        return self.emit_shared(element, f"call {kind} {callee}({_join_typed(arguments)})", lanes)

    def prefetch(self, address: LlvmValue, purpose: str) -> None:
        """Write a hint that the cache line of an address will be needed, and for what."""
        self.declare("void", "@llvm.prefetch.p0", "ptr", "i32", "i32", "i32")
        self.emit_line(f"call void @llvm.prefetch.p0({address.typed}, {purpose}, i32 1)")

    def call_void(self, callee: str, *arguments: LlvmValue) -> None:
        """Write a call of a function that returns nothing."""
        self.emit_line(f"call void {callee}({_join_typed(arguments)})")

    def declare(self, kind: str, callee: str, *parameters: str) -> None:
        """Declare a function that the module calls but does not define, by the LLVM types of result and parameters."""
        self.declared.add(f"declare {kind} {callee}({', '.join(parameters)})")

    def point_to(self, kind: str, base: LlvmValue, index: LlvmOperand) -> LlvmValue:
        """Write the address of an entry of an array that begins at `base` and has entries of an LLVM type."""
        place = self.as_value(index, "i64", 1)
        return self.emit_shared("ptr", f"getelementptr {kind}, {base.typed}, {place.typed}", 1)

    def load(self, element: str, pointer: LlvmValue, lanes: int | None = None, how: str = "") -> LlvmValue:
        """Write a load; `how` may contain `align` and the like."""
        kind = format_vector_type(element, self.lanes if lanes is None else lanes)
        return self.emit_value(element, f"load {kind}, {pointer.typed}{how}", lanes)

    def store(self, value: LlvmValue, pointer: LlvmValue, how: str = "") -> None:
        """Write a store; `how` may contain `align` and the like."""
        self.emit_line(f"store {value.typed}, {pointer.typed}{how}")

    def stream(self, value: LlvmValue, pointer: LlvmValue) -> None:
        """Write the store of a whole cache line past the cache, which does not read the line first."""
        self.store(value, pointer, f", align {LINE_BYTES}, !nontemporal {NON_TEMPORAL}")

    def fence_streams(self) -> None:
        """Write a fence, after which other threads see all lines that were streamed."""
        self.declare("void", "@llvm.x86.sse.sfence")
        self.call_void("@llvm.x86.sse.sfence")

    def begin_function(self, head: str, *, spills_vectors: bool = False) -> None:
        """Begin a function: `head` is the text between `define` and the brace.

        With `spills_vectors`, its stack begins where a cache line begins. Otherwise LLVM keeps vectors that do not fit
        the registers at multiples of 16 bytes, and the place of the stack, which differs by process, would decide
        whether each of them lies in two lines: then the function takes up to twice as long.
        """
        self._shared.clear()
        attribute = " alignstack(64)" if spills_vectors else ""
        self.lines += [f"define {head}{attribute} {{", "entry:"]

    def end_function(self, result: LlvmValue | None = None) -> None:
        """Return from a function, with a result if it has one, and end its text."""
        self.emit_return(result)
        self.lines.append("}")

    def emit_return(self, result: LlvmValue | None = None) -> None:
        """Return from a function."""
        self.emit_line("ret void" if result is None else f"ret {result.typed}")

    def begin_block(self, label: str, *, falls: bool = True) -> None:
        """Begin a block; unless `falls` is false, the block before it continues there."""
        if falls:
            self.emit_line(f"br label %{label}")
        self.lines.append(f"{label}:")

    def branch_if(self, condition: LlvmValue, yes: str, no: str, how: str = "") -> None:
        """Branch to one of two blocks; `how` may name metadata."""
        self.emit_line(f"br {condition.typed}, label %{yes}, label %{no}{how}")

    def format_module(self, *heads: str) -> str:
        """Return the text of the module: some first lines, the declarations, and the functions."""
        return "\n".join([*heads, *sorted(self.declared), *self.lines])


def _format_number(number: float, element: str) -> str:
    if element in REAL_BITS:
        return format_real(float(number), element)
    return str(bool(number)).lower() if element == "i1" else str(int(number))


def _join_typed(values: Sequence[LlvmValue]) -> str:
    return ", ".join(value.typed for value in values)


def call_intrinsic(name: str, *operands: LlvmValue) -> LlvmValue:
    """Write a call of an LLVM intrinsic on reals of one type."""
    first = operands[0]
    callee = f"@llvm.{name}.{format_intrinsic_suffix(first.element, first.lanes)}"
    first.writer.declare(first.llvm_type, callee, *(operand.llvm_type for operand in operands))
    return first.writer.call(first.element, callee, *operands, lanes=first.lanes)


def transpose_blocks(vectors: Sequence[LlvmValue]) -> list[LlvmValue]:
    """Write the transpose of square blocks, which lie side by side in the vectors; their size is a power of 2.

    In every round, one bit of the number of a vector changes places with the same bit of the number of a lane.
    """
    vectors = list(vectors)
    lanes = range(vectors[0].lanes)
    bit = len(vectors) // 2
    while bit:
        lower = [lane + len(lanes) - bit if lane & bit else lane for lane in lanes]
        upper = [lane + len(lanes) if lane & bit else lane + bit for lane in lanes]
        for k in range(len(vectors)):
            if not k & bit:
                one, two = vectors[k], vectors[k + bit]
                vectors[k] = one.pick_lanes(lower, two)
                vectors[k + bit] = one.pick_lanes(upper, two)
        bit //= 2
    return vectors


@contextmanager
def loop_over(first: LlvmOperand, end: LlvmValue, *, down: bool = False) -> Iterator[LlvmValue]:
    """Write a loop that counts from first to end - 1, or with `down` back from there; yields the index."""
    w = end.writer
    start = w.as_value(first, "i64", 1)
    steps = end - start
    before, body, after, done = (w.new_name("l") for _ in range(4))
    following = w.name_value(f"%{w.new_name('next')}", "i64", 1)
    w.begin_block(before)
    w.branch_if(steps > 0, body, done)
    w.begin_block(body, falls=False)
    k = w.emit_value("i64", f"phi i64 [0, %{before}], [{following}, %{after}]", 1)
    yield end - 1 - k if down else start + k
    w.begin_block(after)
    w.emit_line(f"{following} = add {k.typed}, 1")
    w.branch_if(following < steps, body, done)
    w.begin_block(done, falls=False)


class _Phi(NamedTuple):
    """A phi whose second value is known only when its loop ends."""

    line: int
    value: LlvmValue
    first: LlvmValue


@contextmanager
def count_loop(start: LlvmValue, end: LlvmValue, step: LlvmValue, carried: list[LlvmValue]) -> Iterator[LlvmValue]:
    """Write a loop that counts from start while below end; `carried` are values that the loop hands on.

    In the loop `carried` holds the values at the beginning of a round, and is given those at its end; after the loop it
    holds the final values.
    """
    w = start.writer
    before, body, after, done = (w.new_name("l") for _ in range(4))
    initial = list(carried)
    w.begin_block(before)
    w.branch_if(start < end, body, done)
    w.begin_block(body, falls=False)
    following = w.name_value(f"%{w.new_name('next')}", "i64", 1)
    k = w.emit_value("i64", f"phi i64 [{start}, %{before}], [{following}, %{after}]", 1)
    phis = []
    for value in initial:
        phi = w.name_value(f"%{w.new_name('carried')}", value.element, value.lanes)
        phis.append(_Phi(len(w.lines), phi, value))
        w.lines.append("")
    carried[:] = [phi.value for phi in phis]
    yield k
    w.begin_block(after)
    for waiting, value in zip(phis, carried, strict=True):
        text = f"phi {value.llvm_type} [{waiting.first}, %{before}], [{value}, %{after}]"
        w.lines[waiting.line] = f"  {waiting.value} = {text}"
    w.emit_line(f"{following} = add {k.typed}, {step}")
    w.branch_if(following < end, body, done)
    w.begin_block(done, falls=False)
    carried[:] = [
        w.emit_value(value.element, f"phi {value.llvm_type} [{first}, %{before}], [{value}, %{after}]", value.lanes)
        for first, value in zip(initial, carried, strict=True)
    ]


@contextmanager
def when_all(*truths: LlvmValue) -> Iterator[None]:
    """Write a block that runs if all of these conditions hold; an integer holds unless it is 0."""
    w = truths[0].writer
    held = truths[0].is_nonzero()
    for truth in truths[1:]:
        held = held & truth.is_nonzero()
    yes = w.new_name("l")
    done = w.new_name("l")
    w.branch_if(held, yes, done)
    w.begin_block(yes, falls=False)
    yield
    w.begin_block(done)


def leave_if(condition: LlvmValue) -> AbstractContextManager[None]:
    """Write a block that runs if a condition holds, and that must end with a return."""
    return _leave_where(condition, holds=True)


def leave_unless(condition: LlvmValue) -> AbstractContextManager[None]:
    """Write a block that runs unless a condition holds, and that must end with a return."""
    return _leave_where(condition, holds=False)


@contextmanager
def _leave_where(condition: LlvmValue, *, holds: bool) -> Iterator[None]:
    w = condition.writer
    leave = w.new_name("l")
    stay = w.new_name("l")
    w.branch_if(condition, leave if holds else stay, stay if holds else leave)
    w.begin_block(leave, falls=False)
    yield
    w.begin_block(stay, falls=False)


@record
class LlvmArray:
    """An array of integers in memory; its entries are read and written as 64-bit integers."""

    start: LlvmValue
    element: str

    def __getitem__(self, index: LlvmOperand) -> LlvmValue:
        value = self._load_entry(index)
        if self.element == "i64":
            return value
        return value.convert("sext" if self.element == "i32" else "zext", "i64")

    def __setitem__(self, index: LlvmOperand, value: LlvmOperand) -> None:
        w = self.start.writer
        narrow = w.as_value(value, "i64", 1).convert("trunc", self.element)
        w.store(narrow, w.point_to(self.element, self.start, index))

    def copy_entry(self, index: LlvmOperand, source: LlvmArray, other: LlvmOperand) -> None:
        """Write the copy of an entry of another array, which may hold reals, into this one."""
        w = self.start.writer
        value = source._load_entry(other)
        w.store(value, w.point_to(self.element, self.start, index))

    def _load_entry(self, index: LlvmOperand) -> LlvmValue:
        w = self.start.writer
        return w.load(self.element, w.point_to(self.element, self.start, index), 1)


@record
class LlvmVariable:
    """A 64-bit integer in memory, which a function changes in several blocks."""

    place: LlvmValue

    def load(self) -> LlvmValue:
        """Write the load of the variable."""
        return self.place.writer.load("i64", self.place, 1)

    def store(self, value: LlvmOperand) -> None:
        """Write the store of the variable."""
        w = self.place.writer
        w.store(w.as_value(value, "i64", 1), self.place)


def allocate_variable(w: LlvmWriter) -> LlvmVariable:
    """Write the allocation of a variable; in a function's first block, or LLVM will not keep it in a register."""
    return LlvmVariable(w.emit_value("ptr", "alloca i64", 1))
