"""Kernels: the steps of a circuit as LLVM text for one thread per point, and as PTX.

A kernel runs the same steps as native code (`native.program_steps`), one point per thread. Values stay in registers. A
long program is split into several kernels, which run one after the other and pass values on in scratch memory.

Functions of math.h are the polynomials of `native.vector_math`. On a GPU there is no C library for the arguments
outside a polynomial's domain, so `DeviceMath` writes functions of its own for these, which a thread calls where it
must: every real number has a result, within 4 ulp.

Every instruction is plain IEEE 754, so the same text compiled for another processor computes the same bits. Tests use
that to compare kernels with the interpreter on machines without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, count
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, RealType, call_intrinsic, when_all
from wiregrad.backends.native.step_kinds import (
    FIRST_GRADIENT_HOLE,
    FIRST_SAVED_HOLE,
    OUTPUT_HOLE,
    STORE_GRADIENT,
    BackwardStep,
    ExpressionLowering,
    NodeKind,
    PlainStep,
    SavedCall,
    StepKey,
    lower_backward,
    lower_forward,
    write_step,
)
from wiregrad.backends.native.tiers import SEED_STEP, SlotAccess, StepPlan
from wiregrad.backends.native.vector_math import (
    COS_SHORT,
    FLOAT_FUNCTIONS,
    HALF_PI,
    HALF_PI_REST,
    LN2,
    LN2_SHORT,
    LN2_SHORT_REST,
    LOG10_2,
    PI,
    POLYNOMIAL_FUNCTIONS,
    SIN_SHORT,
    SMALLEST,
    add_pairs,
    copysign,
    evaluate_odd,
    evaluate_polynomial,
    fabs,
    fma,
    is_odd,
    log_at_edges,
    log_in_two,
    raise_by_logarithm,
    select,
    signed_power,
)
from wiregrad.errors import NotNativeError
from wiregrad.ops.c_expressions import CallExpression, NumberExpression, walk_expression

TRIPLE = "nvptx64-nvidia-cuda"
"""LLVM's name of the target."""
ARCHITECTURE = "sm_75"
"""The oldest GPUs that the PTX runs on; the driver compiles it for newer ones."""
MAX_WHOLE_STEPS = 700
"""The maximum number of steps of a program that is one kernel; beyond it, registers spill too much."""
MAX_PLACED_STEPS = 300
"""The maximum number of steps of a program whose functions are written in place; in a longer one they are calls."""
STEPS_PER_KERNEL = 250
"""The number of steps of each kernel of a longer program without gradient."""
NODES_PER_PART = 80
"""The number of nodes of each part of a longer program with gradient."""
MAX_JOINED_STEPS = 7000
"""The maximum number of steps of a program whose parts are one kernel: the driver takes long to compile a long one."""
SCRATCH_TILE = 32
"""The number of points whose scratch memory is one piece: as many as run in step."""
BEGIN, RETURN = PlainStep("begin"), PlainStep("return")
"""Steps that do nothing in a kernel."""
PRODUCT_EXPONENTS = frozenset([-2, -1, 1, 2, 3, 4, 5])
"""Powers that are products: at most 4 roundings, so at most 4 ulp off, and many times faster than pow."""
SUBNORMAL_SHIFT = 54
"""A subnormal number times 2 to this power is normal."""

TWO_OVER_PI = (
    "0000000000000000 A2F9836E4E441529 FC2757D1F534DDC0 DB6295993C439041 FE5163ABDEBBC561 B7246E3A424DD2E0 "
    "06492EEA09D1921C FE1DEB1CB129A73E E88235F52EBB4484 E99C7026B45F7E41 3991D639835339F4 9C845F8BBDF9283B "
    "1FF897FFDE05980F EF2F118B5A0A6D1F 6D367ECF27CB09B7 4F463F669E5FEA2D 7527BAC7EBE5F17B 3D0739F78A5292EA "
    "6BFB5FB11F8D5D08 56033046FC7B6BAB"
)
"""The bits of 2 / pi after the binary point, 64 to a word, behind a word of zeros."""


def _log_of_any(name: str, unit: float) -> Callable[[LlvmValue], LlvmValue]:
    """Return the writer of a logarithm outside of its polynomial's domain; `unit` is the logarithm of 2."""

    def write(x: LlvmValue) -> LlvmValue:
        scaled = POLYNOMIAL_FUNCTIONS[name](x * 2.0**SUBNORMAL_SHIFT).result - SUBNORMAL_SHIFT * unit
        is_subnormal = (x > 0.0) & (x < SMALLEST)
        return select(is_subnormal, scaled, log_at_edges(x, 0.0))

    return write


def _take_edges(name: str) -> Callable[[LlvmValue], LlvmValue]:
    """Return the writer of a function whose polynomial comes with results for all other numbers."""

    def write(x: LlvmValue) -> LlvmValue:
        edges = POLYNOMIAL_FUNCTIONS[name](x).edges
        assert edges is not None
        return edges()[0]

    return write


def _log_of_twice(size: LlvmValue) -> LlvmValue:
    """Write log(2 * size) for large numbers; infinity and NaN stay what they are."""
    return select(size < math.inf, POLYNOMIAL_FUNCTIONS["log"](size).result + LN2, size)


def _large_asinh(x: LlvmValue) -> LlvmValue:
    return copysign(_log_of_twice(fabs(x)), x)


def _large_acosh(x: LlvmValue) -> LlvmValue:
    return select(x < 1.0, math.nan, _log_of_twice(x))


def _any_pow(x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Write a power where the base is 0, subnormal, infinite or NaN, or the exponent is infinite or NaN, as C does."""
    size = fabs(x)
    high, low = log_in_two(size * 2.0**SUBNORMAL_SHIFT)
    logarithm = add_pairs(high, x.writer.as_value(-SUBNORMAL_SHIFT * LN2_SHORT, "double"), low - _SHIFT_REST)
    subnormal = signed_power(raise_by_logarithm(logarithm, y), x, y)
    grows = select(size < 1.0, y < 0.0, y > 0.0)
    magnitude = select(y.is_equal_to(0.0), 1.0, select(grows, x.writer.as_value(math.inf, "double"), 0.0))
    power = select(is_odd(y), copysign(magnitude, x), magnitude)
    is_extreme = x.is_equal_to(0.0) | size.is_equal_to(math.inf) | fabs(y).is_equal_to(math.inf)
    result = select(is_extreme, power, subnormal)
    result = select(size.is_equal_to(1.0) & fabs(y).is_equal_to(math.inf), 1.0, result)
    result = select(x.compare("uno", y), math.nan, result)
    return select(x.is_equal_to(1.0) | y.is_equal_to(0.0), 1.0, result)


_SHIFT_REST = SUBNORMAL_SHIFT * LN2_SHORT_REST


def _angle_of_edges(y: LlvmValue, x: LlvmValue) -> LlvmValue:
    """Write atan2 of two zeros, two infinities, or NaN."""
    is_left = x.as_bits() < 0
    of_zeros = x.writer.select(is_left, PI[0], 0.0)
    of_infinities = x.writer.select(is_left, 0.75 * PI[0], 0.25 * PI[0])
    both_infinite = fabs(x).is_equal_to(math.inf) & fabs(y).is_equal_to(math.inf)
    angle = select(x.is_equal_to(0.0) & y.is_equal_to(0.0), of_zeros, select(both_infinite, of_infinities, math.nan))
    return copysign(angle, y)


def _far_cbrt(x: LlvmValue) -> LlvmValue:
    """Write the cube root of very small and very large numbers."""
    is_small = fabs(x) < 1.0
    scaled = x * x.writer.select(is_small, 2.0**600, 2.0**-600)
    root = POLYNOMIAL_FUNCTIONS["cbrt"](scaled).result * x.writer.select(is_small, 2.0**-200, 2.0**200)
    return select((fabs(x) < math.inf) & x.is_nonzero(), root, x)


def _far_hypot(x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Write the length of very short and very long vectors."""
    is_small = fabs(x) + fabs(y) < 1.0
    factor = x.writer.select(is_small, 2.0**600, 2.0**-600)
    length = POLYNOMIAL_FUNCTIONS["hypot"](x * factor, y * factor).result
    scaled = length * x.writer.select(is_small, 2.0**-600, 2.0**600)
    is_infinite = fabs(x).is_equal_to(math.inf) | fabs(y).is_equal_to(math.inf)
    return select(is_infinite, math.inf, scaled)


def _far_periodic(x: LlvmValue, turn: int, join: Callable[[LlvmValue, LlvmValue], LlvmValue]) -> LlvmValue:
    """Write a periodic function of a large number from sine and cosine of the number plus `turn` quarter turns."""
    r, quarters = _reduce_by_quarters(fabs(x))
    z = r * r
    sine = evaluate_odd(r, z, SIN_SHORT)
    cosine = fma(z * z, evaluate_polynomial(z, COS_SHORT), fma(z, -0.5, 1.0))
    quarters = quarters + turn
    is_odd_quarter = (quarters & 1).is_nonzero()
    turned = select(is_odd_quarter, cosine, sine)
    beside = select(is_odd_quarter, -sine, cosine)
    is_back = (quarters & 2).is_nonzero()
    result = join(select(is_back, -turned, turned), select(is_back, -beside, beside))
    return select(fabs(x) < math.inf, result, math.nan)


def _far_sin(x: LlvmValue) -> LlvmValue:
    return _far_periodic(x, 0, lambda sine, _: select(x < 0.0, -sine, sine))


def _far_cos(x: LlvmValue) -> LlvmValue:
    return _far_periodic(x, 1, lambda cosine, _: cosine)


def _far_tan(x: LlvmValue) -> LlvmValue:
    return _far_periodic(x, 0, lambda sine, cosine: select(x < 0.0, -(sine / cosine), sine / cosine))


def _reduce_by_quarters(size: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Write a number of at least 1 as r + quarters * pi / 2, with |r| <= pi / 4, by the method of Payne and Hanek.

    The number is an integer times a power of 2. Of 2 / pi only those bits matter whose product with it is below 4; 128
    of them suffice, because no double is closer to a multiple of pi / 2 than about 2**-62.
    """
    w = size.writer
    bits = size.as_bits()
    # The exponent of the integer, less the two bits of a whole turn, plus the word of zeros.
    place = (bits >> 52) - (1075 + 2 - 64)
    words = [_load_window(w, place, k) for k in range(3)]
    integer = (bits & ((1 << 52) - 1)) | (1 << 52)
    parts = [integer.convert("zext", "i128") * word.convert("zext", "i128") for word in words]
    turns = (parts[0] << 64) + parts[1] + (parts[2] >> 64)
    fraction = turns << 2
    is_negative = fraction.compare("slt", 0)
    quarters = (turns >> 126).convert("trunc", "i64") + is_negative.convert("zext", "i64")
    zero = w.as_value(0, "i128")
    distance = w.select(is_negative, zero - fraction, fraction)
    high = (distance >> 64).convert("trunc", "i64").convert("uitofp", "double")
    low = distance.convert("trunc", "i64").convert("uitofp", "double")
    quarter = fma(low, 2.0**-128, high * 2.0**-64)
    r = fma(quarter, HALF_PI, quarter * HALF_PI_REST)
    return select(is_negative, -r, r), quarters


def _load_window(w: LlvmWriter, place: LlvmValue, number: int) -> LlvmValue:
    """Write 64 bits of 2 / pi from a bit on, or of those that follow."""
    words = TWO_OVER_PI.split()
    w.declared.add(f"@two_over_pi = internal constant [{len(words)} x i64] [{', '.join(f'i64 u0x{x}' for x in words)}]")
    table = w.name_value("@two_over_pi", "ptr")
    first, second = (
        w.load("i64", w.point_to("i64", table, (place >> 6) + (number + k)), how=", align 8") for k in range(2)
    )
    shift = place & 63
    w.declare("i64", "@llvm.fshl.i64", "i64", "i64", "i64")
    return w.call("i64", "@llvm.fshl.i64", first, second, shift)


def _any_fmod(x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Write the exact remainder of x / y, by subtracting multiples of y times a power of 2 in a loop."""
    w = x.writer
    divisor = fabs(y)
    exponent = _find_exponent(divisor)
    before, body, done = (w.new_name("l") for _ in range(3))
    w.begin_block(before)
    start = fabs(x)
    w.branch_if((start >= divisor) & (start < math.inf) & (divisor > 0.0), body, done)
    w.begin_block(body, falls=False)
    following = w.name_value(f"%{w.new_name('next')}", "double")
    size = w.emit_value("double", f"phi double [{start}, %{before}], [{following}, %{body}]")
    multiple = _scale_up(divisor, _find_exponent(size) - exponent - 50)
    quotient = call_intrinsic("trunc", size / multiple)
    rest = fma(-quotient, multiple, size)
    # The quotient may have been rounded up.
    w.emit_line(f"{following} = select {(rest < 0.0).typed}, {(rest + multiple).typed}, {rest.typed}")
    w.branch_if(following >= divisor, body, done)
    w.begin_block(done, falls=False)
    result = w.emit_value("double", f"phi double [{start}, %{before}], [{following}, %{body}]")
    is_undefined = divisor.compare("ueq", 0.0) | fabs(x).compare("ueq", math.inf)
    return copysign(select(is_undefined, math.nan, result), x)


def _find_exponent(size: LlvmValue) -> LlvmValue:
    """Write the exponent of a nonnegative number, up to a constant; right for subnormal numbers too."""
    scaled = (size * 2.0**SUBNORMAL_SHIFT).as_bits() >> 52
    is_subnormal = size < SMALLEST
    return size.writer.select(is_subnormal, scaled - SUBNORMAL_SHIFT, size.as_bits() >> 52)


def _scale_up(x: LlvmValue, power: LlvmValue) -> LlvmValue:
    """Write x times 2**power, or x itself if the power is negative."""
    w = x.writer
    left = w.select(power < 0, 0, power, "i64")
    for _ in range(3):
        step = w.select(left > 1000, 1000, left, "i64")
        x = x * ((step + 1023) << 52).as_real()
        left = left - step
    return x


RARE_FUNCTIONS: dict[str, Callable[..., LlvmValue]] = {
    "log": _log_of_any("log", LN2),
    "log2": _log_of_any("log2", 1.0),
    "log10": _log_of_any("log10", LOG10_2),
    "log1p": _take_edges("log1p"),
    "atanh": _take_edges("atanh"),
    "asinh": _large_asinh,
    "acosh": _large_acosh,
    "pow": _any_pow,
    "atan2": _angle_of_edges,
    "cbrt": _far_cbrt,
    "hypot": _far_hypot,
    "sin": _far_sin,
    "cos": _far_cos,
    "tan": _far_tan,
    "fmod": _any_fmod,
}
"""How each function is computed outside of its polynomial's domain, in double."""
LONG_FUNCTIONS = frozenset([*POLYNOMIAL_FUNCTIONS, *RARE_FUNCTIONS])
"""The functions that take many instructions."""


class DeviceMath:
    """Writes the functions of math.h for kernels: polynomials in place, and rare cases as calls.

    In the compact form polynomials are calls too: the instructions of a long kernel come from memory otherwise.
    """

    def __init__(self, writer: LlvmWriter, *, is_compact: bool = False) -> None:
        self.writer = writer
        """Where the functions are defined."""
        self._is_compact = is_compact
        self._called: dict[tuple[str, str, str], int] = {}
        """The functions that have been called, `common` or `rare`, by name and type; their number of arguments."""

    def call_function(self, name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
        """Write a function of math.h."""
        real = operands[0].element
        if real == "float" and name not in FLOAT_FUNCTIONS:
            return self._call_in_double(name, operands)
        if name not in POLYNOMIAL_FUNCTIONS:
            return self._call("rare", name, operands)
        if self._is_compact:
            return self._call("common", name, operands)
        return self._write_common(name, operands)

    def _write_common(self, name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
        polynomial = POLYNOMIAL_FUNCTIONS[name](*operands)
        if polynomial.outside is None:
            return polynomial.result
        return self._branch_to_rare(name, operands, polynomial.result, polynomial.outside)

    def write_functions(self) -> None:
        """Write the definitions of the functions that have been called."""
        written = set[tuple[str, str, str]]()
        while waiting := self._called.keys() - written:
            for key in sorted(waiting):
                self._write_function(*key)
            written |= waiting

    def _call_in_double(self, name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
        wide = [operand.convert("fpext", "double") for operand in operands]
        return self.call_function(name, wide).convert("fptrunc", "float")

    def _branch_to_rare(
        self, name: str, operands: Sequence[LlvmValue], result: LlvmValue, outside: LlvmValue
    ) -> LlvmValue:
        w = result.writer
        before, rare, done = (w.new_name("l") for _ in range(3))
        w.begin_block(before)
        w.branch_if(outside, rare, done)
        w.begin_block(rare, falls=False)
        with w.share_nothing():
            called = self._call("rare", name, operands)
        w.begin_block(done)
        return w.emit_value(result.element, f"phi {result.llvm_type} [{result}, %{before}], [{called}, %{rare}]")

    def _call(self, kind: str, name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
        real = operands[0].element
        self._called[kind, name, real] = len(operands)
        return operands[0].writer.call(real, f"@{kind}_{name}_{real}", *operands)

    def _write_function(self, kind: str, name: str, real: str) -> None:
        w = self.writer
        operands = [w.name_value(f"%x{k}", real) for k in range(self._called[kind, name, real])]
        w.begin_function(f"internal {real} @{kind}_{name}_{real}({', '.join(x.typed for x in operands)}) noinline")
        if kind == "common":
            result = self._write_common(name, operands)
        else:
            is_double = real == "double"
            result = RARE_FUNCTIONS[name](*operands) if is_double else self._call_in_double(name, operands)
        w.end_function(result)


class _DeviceLowering(ExpressionLowering):
    """Lowers expressions for a GPU, where whole powers are products."""

    def lower_short_power(self, tree: CallExpression, base: LlvmValue) -> LlvmValue | None:
        """Write a power with a small whole exponent as a product; else return None."""
        exponent = tree.arguments[1].value if isinstance(tree.arguments[1], NumberExpression) else None
        if exponent is None or exponent not in PRODUCT_EXPONENTS:
            return None
        # The inverse first: a power of the base may overflow where the result is a subnormal number.
        base = base if exponent > 0 else 1.0 / base
        count = int(abs(exponent))
        power = base
        for digit in f"{count:b}"[1:]:
            power = power * power
            power = power * base if digit == "1" else power
        return power


KERNEL_PARAMETERS = {
    "points": "ptr",
    "point_row": "i64",
    "point_column": "i64",
    "values": "ptr",
    "value_row": "i64",
    "value_column": "i64",
    "grads": "ptr",
    "grad_row": "i64",
    "grad_column": "i64",
    "holds": "ptr",
    "scratch": "ptr",
    "scratch_tile": "i64",
    "count": "i64",
    "seed": "i64",
}
"""The parameters of a kernel: three tables, each with the distances of rows and columns in numbers; a byte per point,
which says whether all checks hold; memory for values that do not stay in registers, and how many numbers of it each
tile of points has; the number of points; and the bits of the gradient's seed. That is 1, but LLVM must not know it: it
would drop the product that turns a NaN into an ordinary one."""
KERNEL_NAME = "wiregrad_batch"
"""The name of the first kernel is this and a 0; others are counted on."""

PointLoop = Callable[[LlvmWriter], AbstractContextManager[LlvmValue]]
"""Writes what surrounds the steps of a kernel, and yields the number of the point."""


@contextmanager
def one_point_per_thread(w: LlvmWriter) -> Iterator[LlvmValue]:
    """Write the steps for the point whose number is that of the thread, if there is one."""
    numbers = list[LlvmValue]()
    for register in ("ctaid", "ntid", "tid"):
        name = f"@llvm.nvvm.read.ptx.sreg.{register}.x"
        w.declare("i32", name)
        numbers.append(w.emit_value("i32", f"call i32 {name}()").convert("zext", "i64"))
    block, size, thread = numbers
    point = block * size + thread
    with when_all(point < w.name_value("%count", "i64")):
        yield point


@dataclass(frozen=True)
class KernelResults:
    """What kernels store at each point."""

    grads: tuple[int, ...] = ()
    """The numbers of the inputs whose gradient is stored, a column each."""
    expected: bytes = b""
    """The bits that the last outputs have where the results count; whether they have them is stored in their place."""


@dataclass(frozen=True)
class KernelSource:
    """The LLVM module of a program's kernels, and what runs them has to know."""

    text: str
    kernels: int
    """The number of kernels, which run one after the other."""
    scratch: int
    """How many numbers per point one kernel leaves to another."""
    inputs: int
    outputs: int
    """The number of columns of values."""
    results: KernelResults
    real: RealType
    """The type of the program's numbers."""


class _KernelSlots(SlotAccess):
    """Access to the slots of one kernel: inputs are read from their table, constants are part of the text."""

    def __init__(self, writer: LlvmWriter, plan: StepPlan, written: frozenset[int], numbers: dict[int, int]) -> None:
        super().__init__(writer, plan.stream.real)
        self._plan = plan
        self._written = written
        """The slots that earlier kernels have written."""
        self._numbers = numbers
        """The place in scratch memory of each slot that one kernel leaves to another."""
        self.point = writer.name_value("%count", "i64")
        """The number of the point."""
        self.around = ExitStack()
        """What surrounds the steps."""
        self.handed: set[int] = set()
        """The slots that are read from scratch memory."""
        self.kept: frozenset[int] = frozenset()
        """The slots that go to scratch memory as soon as they are written."""
        self.is_reloading = False
        """Whether values are read again; these loads are hidden from the optimizer."""

    def begin_part(self, needed: Iterable[int], forgotten: Iterable[int]) -> None:
        """Write the loads of what the next part of the kernel needs, and forget values that are in registers.

        LLVM must not know that they are there: it would keep them, and they are too many.
        """
        for slot in (*forgotten, *range(self._plan.stream.inputs)):
            self.known.pop(slot, None)
        self._written = self.kept
        self.is_reloading = True
        for slot in needed:
            self.read_slot(slot)

    def load_slot(self, slot: int) -> LlvmValue:
        """Write the load of an input or of a value in scratch memory, or return a constant."""
        if slot in self._written:
            self.handed.add(slot)
            self._numbers.setdefault(slot, len(self._numbers))
            return self._load_from(self._point_to_scratch(slot))
        if slot < self._plan.stream.inputs:
            return self._load_from(self._point_to("point", slot))
        constants = self._plan.head.view(f"u{self.real.item_bytes}")
        bits = int(constants[slot]) if slot < len(constants) else 0
        return self.writer.as_value(bits, self.real.bits_name)

    def keep_in_scratch(self, slot: int) -> None:
        """Write the store of a value that a later part of this kernel reads again."""
        self._numbers.setdefault(slot, len(self._numbers))
        self.leave_in_scratch(slot)

    def leave_in_scratch(self, slot: int) -> None:
        """Write the store of a slot's latest bits into scratch memory."""
        self._mark_absence(slot)
        self.writer.store(self.left[slot], self._point_to_scratch(slot), self._alignment)

    def read_inputs(self) -> None:
        """Write the loads of all inputs."""
        for slot in range(self._plan.stream.inputs):
            self.read_slot(slot)

    def read_slot(self, slot: int) -> LlvmValue:
        """Return the latest bits of a slot."""
        self.holes = {OUTPUT_HOLE: slot}
        return self.load(OUTPUT_HOLE)

    def store_result(self, slot: int, table: str, number: int) -> None:
        """Write the store of a slot into a column of the table of values or gradients."""
        self.writer.store(self.read_slot(slot), self._point_to(table, number), self._alignment)

    def store_checks(self, first: int, expected: bytes) -> None:
        """Write whether the slots from `first` on have their expected bits."""
        w = self.writer
        difference = w.as_value(0, self.real.bits_name)
        for k, wanted in enumerate(np.frombuffer(expected, f"u{self.real.item_bytes}").tolist()):
            difference = difference | (self.read_slot(first + k) ^ wanted)
        equal = difference.is_equal_to(0).convert("zext", "i8")
        w.store(equal, w.point_to("i8", w.name_value("%holds", "ptr"), self.point), ", align 1")

    def _load_from(self, place: LlvmValue) -> LlvmValue:
        if self.is_reloading:
            bits = self.real.bits_name
            return self.writer.emit_value(bits, f"load volatile {bits}, {place.typed}{self._alignment}")
        return self.writer.load(self.real.bits_name, place, how=self._alignment)

    def _point_to(self, table: str, number: int) -> LlvmValue:
        """Write the address of a number of this point in the table of points, values or gradients."""
        w = self.writer
        row = self.point * _name_size(w, f"{table}_row")
        base = w.point_to(self.real.name, w.name_value(f"%{table}s", "ptr"), row)
        return w.point_to(self.real.name, base, _name_size(w, f"{table}_column") * number) if number else base

    def _point_to_scratch(self, slot: int) -> LlvmValue:
        """Write the address of a slot in scratch memory.

        The points of a tile have their numbers of one slot side by side, and all slots of a tile follow one another, so
        that the distance of two slots is known and needs no register.
        """
        w = self.writer
        tile = (self.point >> (SCRATCH_TILE.bit_length() - 1)) * _name_size(w, "scratch_tile")
        own = w.point_to(self.real.name, w.name_value("%scratch", "ptr"), tile + (self.point & (SCRATCH_TILE - 1)))
        return w.point_to(self.real.name, own, w.as_value(self._numbers[slot] * SCRATCH_TILE, "i64"))


def _name_size(w: LlvmWriter, name: str) -> LlvmValue:
    return w.name_value(f"%{name}", "i64")


def write_kernels(
    plan: StepPlan,
    results: KernelResults,
    over: PointLoop = one_point_per_thread,
    *,
    convention: str = "ptx_kernel",
    steps_per_kernel: int | None = None,
    max_joined_steps: int | None = None,
) -> KernelSource:
    """Return the LLVM module of a program; `over` and `convention` say how its functions are called.

    A program of any length is split into parts of `steps_per_kernel`, if that is given.
    """
    stream = plan.stream
    outputs = stream.outputs - len(results.expected) // stream.real.item_bytes
    columns = {stream.inputs + k: ("value", k) for k in range(outputs)}
    columns |= {stream.inputs + stream.outputs + k: ("grad", n) for n, k in enumerate(results.grads)}
    parts = _split_steps(_rename_slots(stream.list_steps(), plan), steps_per_kernel)
    steps = _note_final_steps([step for part in parts for step in part], columns)
    noted = [steps[end - len(part) : end] for part, end in zip(parts, accumulate(map(len, parts)), strict=True)]
    numbers = dict[int, int]()
    functions = DeviceMath(LlvmWriter(), is_compact=len(steps) > MAX_PLACED_STEPS)
    frame = _KernelFrame(plan, functions, over, f"{convention} void @{KERNEL_NAME}", numbers)
    has_gradient = any(key == SEED_STEP for key, _ in parts[len(parts) // 2])
    limit = MAX_JOINED_STEPS if max_joined_steps is None else max_joined_steps
    is_joined = len(parts) > 1 and has_gradient and len(steps) <= limit
    kernels = [_write_joined_kernel(frame, noted)] if is_joined else _write_kernel_per_part(frame, noted)
    stored = {slot for step in steps for slot in step.final}
    for slot in columns.keys() - stored:
        kernels[-1].store_result(slot, *columns[slot])
    if results.expected:
        kernels[-1].store_checks(stream.inputs + outputs, results.expected)
    _finish_kernels(kernels)
    functions.write_functions()
    text = _join_texts([*(kernel.writer for kernel in kernels), functions.writer])
    return KernelSource(text, len(kernels), len(numbers), stream.inputs, outputs, results, stream.real)


class _KernelFrame(NamedTuple):
    """What the kernels of a program share."""

    plan: StepPlan
    functions: DeviceMath
    over: PointLoop
    head: str
    """The beginning of a kernel's definition; its number follows."""
    numbers: dict[int, int]
    """The place in scratch memory of each slot that is there."""

    def begin(self, number: int, written: frozenset[int]) -> _KernelSlots:
        """Write the beginning of a kernel; earlier ones have written some slots."""
        slots = _KernelSlots(LlvmWriter(shares=True), self.plan, written, self.numbers)
        _begin_kernel(slots, self.over, f"{self.head}{number}")
        return slots


def _write_kernel_per_part(frame: _KernelFrame, parts: Sequence[Sequence[_KernelStep]]) -> list[_KernelSlots]:
    """Write a kernel for each part; what passes from one to the next is in scratch memory."""
    kernels = list[_KernelSlots]()
    written = frozenset[int]()
    for part in parts:
        slots = frame.begin(len(kernels), written)
        _write_steps(slots, frame.functions, part)
        written |= slots.left.keys()
        kernels.append(slots)
    return kernels


def _write_joined_kernel(frame: _KernelFrame, parts: Sequence[Sequence[_KernelStep]]) -> _KernelSlots:
    """Write one kernel of all parts: gradients stay in registers, and values that pass from part to part in memory."""
    middle = len(parts) // 2
    forward = {
        step.holes[OUTPUT_HOLE]
        for part in parts[: middle + 1]
        for step in part
        if isinstance(step.key, NodeKind | SavedCall)
    }
    needed = [_list_values_from_outside(part) for part in parts]
    slots = frame.begin(0, frozenset())
    slots.kept = frozenset(forward & set[int]().union(*needed[middle + 1 :]))
    for number, part in enumerate(parts):
        if number > middle:
            slots.begin_part(sorted(needed[number]), forward)
        _write_steps(slots, frame.functions, part)
    return slots


def _list_values_from_outside(part: Sequence[_KernelStep]) -> set[int]:
    """Return the slots of values that a part reads and does not compute."""
    own = set[int]()
    read = set[int]()
    for step in part:
        if isinstance(step.key, BackwardStep):
            read |= _list_read_slots(step.key, step.holes) - own
        elif isinstance(step.key, NodeKind | SavedCall):
            read |= {step.holes[k] for k in lower_forward(step.key)[1]} - own
            own.add(step.holes[OUTPUT_HOLE])
    return read


PlannedStep = tuple[StepKey, dict[int, int]]
"""A step, and the slot for each of its holes."""


def _rename_slots(steps: Sequence[PlannedStep], plan: StepPlan) -> list[PlannedStep]:
    """Return the steps with a new slot for each value and gradient, so that they can be computed twice.

    Native code uses a slot again once its value is no longer needed. Inputs, results and constants keep their slots.
    """
    renamed = list[PlannedStep]()
    names = dict[int, int]()
    fresh = count(plan.slots)
    for key, holes in steps:
        own = {hole: names.get(slot, slot) for hole, slot in holes.items()}
        written = _list_written_holes(key)
        # What is stored is new; whatever the step adds to the same slot is added to that.
        for slot in {holes[hole] for hole in written if not _adds_to(key, hole)}:
            if slot >= len(plan.head):
                names[slot] = next(fresh)
        own |= {hole: names.get(holes[hole], holes[hole]) for hole in written}
        renamed.append((key, own))
    return renamed


def _adds_to(key: StepKey, hole: int) -> bool:
    """Return whether a step reads what it writes there."""
    if isinstance(key, BackwardStep):
        return key.ways[hole - FIRST_GRADIENT_HOLE] != STORE_GRADIENT
    return isinstance(key, PlainStep) and key.name == "settle"


def _split_steps(steps: Sequence[PlannedStep], size: int | None) -> list[Sequence[PlannedStep]]:
    """Return the steps of each kernel; with `size`, a program of any length is split into parts of so many nodes.

    Long programs are limited by memory: the values of all nodes are too many for registers. So their gradient is
    computed part by part. A part first computes the values of its nodes again, from those that earlier parts left, and
    then goes back through them; only what passes from part to part is in memory.
    """
    if size is None and len(steps) <= MAX_WHOLE_STEPS:
        return [steps]
    seed = next((k for k, (key, _) in enumerate(steps) if key == SEED_STEP), None)
    if seed is None:
        size = size or STEPS_PER_KERNEL
        return [steps[k : k + size] for k in range(0, len(steps), size)]
    size = size or NODES_PER_PART
    parts = [steps[k : min(k + size, seed)] for k in range(0, seed, size)]
    backward = _group_backward(steps[seed:], parts)
    last = [*parts[-1], *backward[-1]]
    pairs = list(zip(parts, backward, strict=True))[:-1]
    return [*parts[:-1], last, *([*_list_needed_steps(*pair), *pair[1]] for pair in reversed(pairs))]


def _group_backward(steps: Sequence[PlannedStep], parts: Sequence[Sequence[PlannedStep]]) -> list[list[PlannedStep]]:
    """Return the backward steps of each part: a node's step belongs to the part in which it is computed.

    Steps that belong to no node stay beside those before them.
    """
    part_of = {holes[OUTPUT_HOLE]: number for number, part in enumerate(parts) for key, holes in part if key != BEGIN}
    groups = [list[PlannedStep]() for _ in parts]
    number = len(parts) - 1
    for key, holes in steps:
        if isinstance(key, BackwardStep):
            number = min(number, part_of.get(holes[OUTPUT_HOLE], number))
        groups[number].append((key, holes))
    return groups


def _list_needed_steps(part: Sequence[PlannedStep], backward: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Return the steps of a part that compute what its backward steps read, unless memory is cheaper."""
    needed = {slot for key, holes in backward if isinstance(key, BackwardStep) for slot in _list_read_slots(key, holes)}
    kept = list[PlannedStep]()
    for key, holes in reversed(part):
        if isinstance(key, NodeKind | SavedCall) and holes[OUTPUT_HOLE] in needed and not _takes_long(key):
            needed |= {holes[k] for k in lower_forward(key)[1]}
            kept.append((key, holes))
    return kept[::-1]


@cache
def _takes_long(key: NodeKind | SavedCall) -> bool:
    """Return whether a step calls a function, so that reading its value takes less time than computing it again."""
    calls = [part for part in walk_expression(lower_forward(key)[0]) if isinstance(part, CallExpression)]
    return any(call.name in LONG_FUNCTIONS and not _find_short_exponent(call) for call in calls)


def _find_short_exponent(call: CallExpression) -> int:
    """Return the exponent of a power that is written as a product; else 0."""
    last = call.arguments[-1]
    exponent = last.value if isinstance(last, NumberExpression) else None
    return int(exponent) if call.name == "pow" and exponent in PRODUCT_EXPONENTS else 0


def _list_read_slots(key: BackwardStep, holes: dict[int, int]) -> set[int]:
    """Return the slots of values that a backward step reads."""
    width = len(key.ways)
    trees = lower_backward(key.kind, sum(1 << slot for slot, way in enumerate(key.ways) if way))
    read = {holes[OUTPUT_HOLE if k == width else k] for k in trees.needed if k <= width}
    return read | {holes[FIRST_SAVED_HOLE + call] for call in trees.saved}


class _KernelStep(NamedTuple):
    """A step of a kernel."""

    key: StepKey
    holes: dict[int, int]
    """The slot for each hole."""
    final: dict[int, tuple[str, int]]
    """The results that no later step changes: their slots, each with its table and column."""


def _note_final_steps(
    steps: Sequence[tuple[StepKey, dict[int, int]]], columns: Mapping[int, tuple[str, int]]
) -> list[_KernelStep]:
    """Return the steps with the results that are complete after each: a result that is stored needs no register."""
    noted = list[_KernelStep]()
    left = dict(columns)
    for key, holes in reversed(steps):
        final = {slot: left.pop(slot) for slot in _list_written_slots(key, holes) if slot in left}
        noted.append(_KernelStep(key, holes, final))
    return noted[::-1]


def _list_written_slots(key: StepKey, holes: dict[int, int]) -> list[int]:
    return [holes[hole] for hole in _list_written_holes(key)]


def _list_written_holes(key: StepKey) -> list[int]:
    if isinstance(key, BackwardStep):
        return [FIRST_GRADIENT_HOLE + slot for slot, way in enumerate(key.ways) if way]
    return [] if key in (BEGIN, RETURN) else [OUTPUT_HOLE]


def _begin_kernel(slots: _KernelSlots, over: PointLoop, head: str) -> None:
    w = slots.writer
    # Nothing that a kernel writes is among what it reads, except scratch memory, where every point has its own.
    parameters = [f"{kind} {'noalias ' if kind == 'ptr' else ''}%{name}" for name, kind in KERNEL_PARAMETERS.items()]
    w.begin_function(f"{head}({', '.join(parameters)})")
    slots.point = slots.around.enter_context(over(w))
    # All loads first: further down, each would make the thread wait. LLVM drops those that nothing reads.
    slots.read_inputs()


def _write_steps(slots: _KernelSlots, functions: DeviceMath, steps: Sequence[_KernelStep]) -> None:
    lowering = _DeviceLowering(slots.writer, slots.real, functions.call_function)
    seed = _name_size(slots.writer, "seed")
    for key, holes, final in steps:
        slots.holes = holes
        if key == SEED_STEP:
            slots.store(OUTPUT_HOLE, seed if slots.real.name == "double" else seed.convert("trunc", "i32"))
        else:
            write_step(lowering, key, slots)
        if holes.get(OUTPUT_HOLE) in slots.kept and isinstance(key, NodeKind | SavedCall) and not slots.is_reloading:
            slots.keep_in_scratch(holes[OUTPUT_HOLE])
        for slot, column in final.items():
            slots.store_result(slot, *column)


def _finish_kernels(kernels: Sequence[_KernelSlots]) -> None:
    """Write what each kernel leaves to later ones in scratch memory."""
    wanted = set[int]()
    for kernel in reversed(kernels):
        for slot in sorted(wanted & kernel.left.keys()):
            kernel.leave_in_scratch(slot)
        wanted = (wanted - kernel.left.keys()) | kernel.handed
        kernel.around.close()
        kernel.writer.end_function()


def _join_texts(writers: Sequence[LlvmWriter]) -> str:
    declared = sorted(frozenset().union(*(w.declared for w in writers)))
    return "\n".join([*declared, *(line for w in writers for line in w.lines)])


def compile_to_ptx(text: str) -> str:
    """Return an LLVM module as PTX."""
    machine = _make_target_machine()
    module = jit.parse_module(f'target triple = "{TRIPLE}"\n{text}')
    ptx: str = machine.emit_assembly(module)
    return ptx


@cache
def _make_target_machine() -> Any:
    llvm = jit.load_llvm()
    with jit.LLVM_LOCKS[0]:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        try:
            target = llvm.Target.from_triple(TRIPLE)
        except RuntimeError as error:
            raise NotNativeError(f"this llvmlite cannot write code for NVIDIA GPUs ({error})") from None
        return target.create_target_machine(cpu=ARCHITECTURE, opt=3)
