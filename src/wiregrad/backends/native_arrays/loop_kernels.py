"""Loop kernels: fused elementwise ops, with reductions, as one native loop over arrays of one shape.

A `LoopKernel` is the structure of such a loop, and nothing else: which operands there are, whether each stands still,
is contiguous or has another stride along the innermost loop, what is computed from them, and where it is stored or
added up. Sizes, strides and addresses come with each instruction, so circuits share kernels.

The innermost loop runs on vectors; what is left over at its end runs once more under a mask. Functions of math.h are
written into the main loop where they are our own polynomials, and called by address in the remainder: the bits are the
same. Only plain IEEE 754 instructions are written; LLVM's pass pipeline is not run, because it takes longer than it
gains here.

Large results are streamed: written in whole cache lines that are not read before, which saves a third of a copy's
traffic. Lines begin at multiples of 64 bytes and the vectors of a loop do not, so each line is put together from the
end of one vector and the beginning of the next; the first and the last line are written in part. A line is written
one round late, behind the loads of the next round: a processor takes a load whose address has the same last 12 bits as
that of an earlier store for a read of what is stored, and waits for it.

A sum that stays in one place along the innermost loop is kept in a register, in blocks, so that its error grows with
the number of blocks and not with the number of elements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
    LINE_BYTES,
    NON_TEMPORAL_DEFINITION,
    LlvmValue,
    LlvmWriter,
    RealType,
    count_loop,
    format_vector_type,
    loop_over,
    when_all,
)
from wiregrad.backends.native.step_kinds import ExpressionLowering
from wiregrad.backends.native.vector_math import (
    call_by_address,
    call_inline,
    is_inlined,
    list_used_features,
    split_lanes,
)
from wiregrad.ops.c_expressions import (
    MATH_H_FUNCTIONS,
    CallExpression,
    NumberExpression,
    ScalarExpression,
    walk_expression,
)

STILL = "0"
"""The operand is the same element along the innermost loop."""
CONTIGUOUS = "1"
STRIDED = "s"
STREAMED = "n"
"""The operand is contiguous, large, and only written: its lines go to memory without being read into the cache."""
PAGE_BYTES = 4096
LATE_ROUNDS = 3
"""How many rounds later lines are written where one round later would make loads wait for them."""
NEAR_ROUNDS = (1, 3)
FAR_ROUNDS = (3, 6)
"""How far in a page a target is ahead of an operand, in rounds, where loads wait: for lines that are written one round
later, and for those that are written `LATE_ROUNDS` later."""

BLOCK_VECTORS = 128
"""The number of vectors that are added up in one register before they are added to the total."""
FIRST_OPERAND_WORD = 3
"""Words of an instruction before those of the loops: kernel, number of words, length of the innermost loop."""

MEMORY_TYPES = {"d": "double", "f": "float", "?": "i8"}
"""The LLVM type of an element in memory, by NumPy's character of its dtype."""


class LoopOperand(NamedTuple):
    """An array that a loop reads or writes: its dtype, and how it moves along the innermost loop."""

    dtype: str
    inner: str


class LoopOp(NamedTuple):
    """One op: an expression of earlier values, the dtype it is computed in, and the dtype of the result."""

    tree: ScalarExpression
    sources: tuple[tuple[str, int], ...]
    """The value behind each name in the expression: the name, and the number of the value."""
    real: str
    dtype: str


class LoopStore(NamedTuple):
    """A value that is stored in an operand, or taken into it by a step such as a sum."""

    operand: int
    value: int
    step: ScalarExpression | None = None
    """The step, on the result so far (input 0) and the value (input 1); None to store the value."""
    neutral: float | bool = 0.0
    """The number that a step begins with."""


class LoopKernel(NamedTuple):
    """The structure of a loop nest; the values are the loaded operands, the constants, then the results of the ops."""

    depth: int
    """The number of loops around the innermost one."""
    loads: tuple[LoopOperand, ...]
    constants: tuple[tuple[str, float], ...]
    """Numbers that are stored as they are: dtype and value."""
    ops: tuple[LoopOp, ...]
    targets: tuple[LoopOperand, ...]
    stores: tuple[LoopStore, ...]
    """What is done with values; operand k is target k."""
    single: bool = False
    """Whether the innermost loop has one round, which needs no vectors."""
    pairs: bool = False
    """Whether vectors are twice as long as registers: a processor overlaps more of a long chain of instructions."""

    @property
    def key(self) -> str:
        """A text that is equal for equal kernels; -0.0 and 0.0, which compare equal, differ in it."""
        return repr(tuple(self))

    def count_words(self) -> int:
        """Return the number of words of an instruction."""
        each = 2 + self.depth
        operands = (*self.loads, *self.targets)
        return FIRST_OPERAND_WORD + self.depth + sum(each + (operand.inner == STRIDED) for operand in operands)


def gains_from_pairs(kernel: LoopKernel) -> bool:
    """Return whether a loop is faster on vectors of two registers: it has functions of math.h, written in place."""
    lanes = count_kernel_lanes(kernel)
    inlined = [
        call.name in MATH_H_FUNCTIONS and is_inlined(call.name, lanes, MEMORY_TYPES[op.real])
        for op in kernel.ops
        for call in walk_expression(op.tree)
        if isinstance(call, CallExpression) and call.name not in INTRINSIC_FUNCTIONS
    ]
    return bool(inlined) and all(inlined)


def count_kernel_lanes(kernel: LoopKernel) -> int:
    """Return the number of lanes: as many as fit of the widest number that the kernel computes with."""
    if kernel.single:
        return 1
    dtypes = {operand.dtype for operand in (*kernel.loads, *kernel.targets)} | {op.real for op in kernel.ops}
    lanes = jit.vector_bytes() // (8 if "d" in dtypes or "f" not in dtypes else 4)
    return 2 * lanes if kernel.pairs else lanes


def can_stream(dtype: str, dtypes: Collection[str]) -> bool:
    """Return whether arrays of a dtype can be streamed by a loop that computes with these dtypes."""
    return jit.vector_bytes() == LINE_BYTES and (dtype == "d" or (dtype == "f" and "d" not in dtypes))


def write_loop_kernels(kernels: Sequence[LoopKernel]) -> str:
    """Return the LLVM module of kernels; kernel k is the function `kernel_k`."""
    modules = [_KernelWriter(kernel, f"kernel_{number}").write() for number, kernel in enumerate(kernels)]
    declared = sorted(frozenset().union(*(writer.declared for writer in modules)))
    lines = [line for writer in modules for line in writer.lines]
    return "\n".join([*declared, *lines, NON_TEMPORAL_DEFINITION])


class _LoopExpressions(ExpressionLowering):
    """Expressions in loops: cubes and fourth powers are products, which are within 2 ulp."""

    def lower_short_power(self, tree: CallExpression, base: LlvmValue) -> LlvmValue | None:
        exponent = tree.arguments[1].value if isinstance(tree.arguments[1], NumberExpression) else None
        square = base * base
        if exponent == 3.0:
            return square * base
        if exponent == 4.0:
            return square * square
        return super().lower_short_power(tree, base)


class _OperandPlace(NamedTuple):
    """Where an operand is inside the loops: its address at the beginning of the innermost one, and its stride there."""

    operand: LoopOperand
    address: LlvmValue
    stride: LlvmValue | None


class _LineTarget(NamedTuple):
    """A target that is streamed."""

    kind: str
    lanes: int
    """The number of elements of a line."""
    base: LlvmValue
    """Where the line begins that has the first element."""
    before: LlvmValue
    """How many elements of that line precede the first one."""
    order: LlvmValue
    """The lanes of a line, as places in two vectors in a row."""
    scratch: LlvmValue
    """Memory of its own that takes the place of the first line, which is not all ours."""


class _KernelWriter:
    """Writes one kernel."""

    def __init__(self, kernel: LoopKernel, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.lanes = count_kernel_lanes(kernel)
        self.w = LlvmWriter(self.lanes, features=list_used_features())
        self.inlines = True
        self.late_rounds = 1
        """How many rounds later the lines of streamed targets are written."""
        self._lowerings = {
            char: _LoopExpressions(self.w, RealType(MEMORY_TYPES[char], self.lanes), self._call_function)
            for char in "df"
        }
        self._next_word = FIRST_OPERAND_WORD

    def write(self) -> LlvmWriter:
        """Write the function and return the writer."""
        w = self.w
        w.begin_function(f"void @{self.name}(ptr %w, ptr %i)", spills_vectors=True)
        n = self._load_word(2)
        counts = [self._take_word() for _ in range(self.kernel.depth)]
        loads = [self._read_operand(operand) for operand in self.kernel.loads]
        targets = [self._read_operand(operand) for operand in self.kernel.targets]
        with ExitStack() as loops:
            for level, count in enumerate(counts):
                k = loops.enter_context(loop_over(0, count))
                loads = [_move_along(place, k, level) for place in loads]
                targets = [_move_along(place, k, level) for place in targets]
            self._write_loops(
                [_OperandPlace(operand, base, stride) for operand, base, stride, _ in loads],
                [_OperandPlace(operand, base, stride) for operand, base, stride, _ in targets],
                n,
            )
        w.end_function()
        return w

    def _load_word(self, number: int) -> LlvmValue:
        w = self.w
        return w.load("i64", w.point_to("i64", w.name_value("%i", "ptr", 1), number), 1)

    def _take_word(self) -> LlvmValue:
        self._next_word += 1
        return self._load_word(self._next_word - 1)

    def _read_operand(self, operand: LoopOperand) -> tuple[LoopOperand, LlvmValue, LlvmValue | None, list[LlvmValue]]:
        """Write the loads of an operand's words: which base address, the offset, and the strides in bytes."""
        w = self.w
        entry = w.point_to("i8", w.name_value("%w", "ptr", 1), self._take_word())
        address = w.point_to("i8", w.load("ptr", entry, 1), self._take_word())
        stride = self._take_word() if operand.inner == STRIDED else None
        return operand, address, stride, [self._take_word() for _ in range(self.kernel.depth)]

    def _write_single_round(self, loads: list[_OperandPlace], targets: list[_OperandPlace]) -> None:
        """Write an innermost loop of one round."""
        first = self.w.as_value(0, "i64", 1)
        values = self._load_values(loads, {}, first, None)
        self._compute_values(values)
        self._store_values(values, targets, first, None, [])

    def _write_loops(self, loads: list[_OperandPlace], targets: list[_OperandPlace], n: LlvmValue) -> None:
        """Write the innermost loop; where it streams, once for each number of rounds that lines may be late."""
        if self.kernel.single:
            self._write_single_round(loads, targets)
            return
        lines = [self._begin_lines(place) for place in targets if place.operand.inner == STREAMED]
        if not lines:
            self._write_innermost(loads, targets, n, lines)
            return
        is_late = self._find_collisions(loads, lines)
        for rounds, condition in ((LATE_ROUNDS, is_late), (1, is_late.is_equal_to(0))):
            self.late_rounds = rounds
            with when_all(condition):
                self._write_innermost(loads, targets, n, lines)

    def _find_collisions(self, loads: list[_OperandPlace], lines: list[_LineTarget]) -> LlvmValue:
        """Write whether loads would wait for stores of the round before, and would not wait for those of rounds before.

        A load waits for an earlier store that is under way if both have the same place in a page of 4 kB.
        """
        near = far = self.w.as_value(False, "i1", 1)
        for line in lines:
            size = self.lanes * LINE_BYTES // line.lanes
            for place in loads:
                if place.operand.inner != CONTIGUOUS:
                    continue
                store, load = (
                    self.w.emit_value("i64", f"ptrtoint {address.typed} to i64", 1)
                    for address in (line.base, place.address)
                )
                distance = (store - load).combine("and", PAGE_BYTES - 1)
                near = near | ((distance >= NEAR_ROUNDS[0] * size) & (distance < NEAR_ROUNDS[1] * size))
                far = far | ((distance >= FAR_ROUNDS[0] * size) & (distance < FAR_ROUNDS[1] * size))
        return near & far.is_equal_to(0)

    def _write_innermost(
        self, loads: list[_OperandPlace], targets: list[_OperandPlace], n: LlvmValue, lines: list[_LineTarget]
    ) -> None:
        """Write the innermost loop: full vectors, then what is left over under a mask."""
        w = self.w
        still = {k: self._load_still(place) for k, place in enumerate(loads) if place.operand.inner == STILL}
        sums = [store for store in self.kernel.stores if self._stays(store)]
        totals = [self._make_constant(targets[store.operand].operand.dtype, store.neutral) for store in sums]
        whole = n - n.combine("and", self.lanes - 1)
        zero = w.as_value(0, "i64", 1)
        lanes = w.as_value(self.lanes, "i64", 1)

        def run_body(i: LlvmValue, mask: LlvmValue | None, results: list[LlvmValue]) -> None:
            values = self._load_values(loads, still, i, mask)
            late = results[len(sums) :]
            stored = self._store_lines(lines, i - self.late_rounds * self.lanes, late) if mask is None else []
            self._compute_values(values)
            self._store_values(values, targets, i, mask, results)
            if mask is None:
                results[len(sums) :] = self._collect_vectors(values, lines, stored)

        carried = totals + self._make_first_vectors(lines)
        if sums:
            block = w.as_value(self.lanes * BLOCK_VECTORS, "i64", 1)
            with count_loop(zero, whole, block, carried) as start:
                rest = whole - start
                end = w.select(rest < block, whole, start + block)
                parts = [self._make_constant(targets[store.operand].operand.dtype, store.neutral) for store in sums]
                parts += carried[len(sums) :]
                with count_loop(start, end, lanes, parts) as i:
                    run_body(i, None, parts)
                steps = zip(sums, carried, parts, strict=False)
                carried[:] = [*(self._take_step(*each) for each in steps), *parts[len(sums) :]]
        else:
            with count_loop(zero, whole, lanes, carried) as i:
                run_body(i, None, carried)
        totals = carried[: len(sums)]
        with when_all(whole > 0):
            self._end_lines(lines, carried[len(sums) :], whole)
        self.inlines = False
        before, tail, done = (w.new_name("l") for _ in range(3))
        w.begin_block(before)
        w.branch_if(whole < n, tail, done)
        w.begin_block(tail, falls=False)
        mask = self._make_mask(n - whole)
        parts = list(totals)
        run_body(whole, mask, parts)
        after = w.new_name("l")
        w.begin_block(after)
        w.begin_block(done)
        totals = [
            w.emit_value(first.element, f"phi {first.llvm_type} [{first}, %{before}], [{last}, %{after}]")
            for first, last in zip(totals, parts, strict=True)
        ]
        for store, total in zip(sums, totals, strict=True):
            self._finish_sum(store, total, targets[store.operand])
        self.inlines = True

    def _stays(self, store: LoopStore) -> bool:
        return store.step is not None and self.kernel.targets[store.operand].inner == STILL

    def _make_mask(self, count: LlvmValue) -> LlvmValue:
        """Write the mask of the first lanes."""
        numbers = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
        lanes = self.w.name_value(f"<{numbers}>", "i64")
        return lanes.compare("slt", self._splat(count))

    def _splat(self, value: LlvmValue, lanes: int | None = None) -> LlvmValue:
        """Write a number in every lane."""
        w = self.w
        lanes = lanes or self.lanes
        kind = format_vector_type(value.element, lanes)
        first = w.emit_value(value.element, f"insertelement {kind} poison, {value.typed}, i64 0", lanes)
        order = f"<{lanes} x i32> zeroinitializer"
        return w.emit_value(value.element, f"shufflevector {first.typed}, {kind} poison, {order}", lanes)

    def _make_constant(self, dtype: str, number: float | bool) -> LlvmValue:
        return self.w.as_value(
            bool(number) if dtype == "?" else float(number), "i1" if dtype == "?" else MEMORY_TYPES[dtype]
        )

    def _load_still(self, place: _OperandPlace) -> LlvmValue:
        kind = MEMORY_TYPES[place.operand.dtype]
        return self._from_memory(self._splat(self.w.load(kind, place.address, 1, ", align 1")))

    def _from_memory(self, value: LlvmValue) -> LlvmValue:
        """Return a loaded value; a byte becomes a condition."""
        return value.is_nonzero() if value.element == "i8" else value

    def _to_memory(self, value: LlvmValue) -> LlvmValue:
        return value.convert("zext", "i8") if value.element == "i1" else value

    def _load_values(
        self, loads: list[_OperandPlace], still: dict[int, LlvmValue], i: LlvmValue, mask: LlvmValue | None
    ) -> list[LlvmValue]:
        """Return the loaded operands of one round, and the constants."""
        values = [still[k] if k in still else self._load(place, i, mask) for k, place in enumerate(loads)]
        return values + [self._make_constant(dtype, number) for dtype, number in self.kernel.constants]

    def _compute_values(self, values: list[LlvmValue]) -> None:
        """Write the ops of one round, and add their results to the values."""
        for op in self.kernel.ops:
            lowering = self._lowerings[op.real]
            operands = {name: self._in_real(values[source], op.real) for name, source in op.sources}
            result = lowering.lower_tree(op.tree, operands)
            if op.dtype == "?":
                values.append(result.is_nonzero())
            else:
                values.append(self._in_real(lowering.as_number(result), op.dtype))

    def _in_real(self, value: LlvmValue, real: str) -> LlvmValue:
        """Return a number in a float type; a condition is returned as it is."""
        wanted = MEMORY_TYPES[real]
        if not value.is_real or value.element == wanted:
            return value
        return value.convert("fpext" if wanted == "double" else "fptrunc", wanted)

    def _load(self, place: _OperandPlace, i: LlvmValue, mask: LlvmValue | None) -> LlvmValue:
        """Write the load of one vector of an operand; lanes outside the mask are 1, which few functions mind."""
        w = self.w
        kind = MEMORY_TYPES[place.operand.dtype]
        if place.stride is not None:
            return self._from_memory(self._gather(place, kind, i, mask))
        address = w.point_to(kind, place.address, i)
        if mask is None:
            return self._from_memory(w.load(kind, address, how=", align 1"))
        vector = format_vector_type(kind, self.lanes)
        callee = f"@llvm.masked.load.{_mangle(kind, self.lanes)}.p0"
        w.declare(vector, callee, "ptr", "i32", mask.llvm_type, vector)
        outside = w.as_value(1, kind)
        return self._from_memory(
            w.emit_value(kind, f"call {vector} {callee}({address.typed}, i32 1, {mask.typed}, {outside.typed})")
        )

    def _lane_addresses(self, place: _OperandPlace, i: LlvmValue) -> LlvmValue:
        """Write the address of each lane's element of a strided operand."""
        w = self.w
        assert place.stride is not None
        numbers = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
        lanes = w.name_value(f"<{numbers}>", "i64")
        offsets = lanes * self._splat(place.stride)
        first = w.point_to("i8", place.address, i * place.stride)
        return w.emit_value("ptr", f"getelementptr i8, {first.typed}, {offsets.typed}")

    def _gather(self, place: _OperandPlace, kind: str, i: LlvmValue, mask: LlvmValue | None) -> LlvmValue:
        w = self.w
        addresses = self._lane_addresses(place, i)
        vector = format_vector_type(kind, self.lanes)
        held = w.as_value(True, "i1") if mask is None else mask
        callee = f"@llvm.masked.gather.{_mangle(kind, self.lanes)}.v{self.lanes}p0"
        w.declare(vector, callee, addresses.llvm_type, "i32", held.llvm_type, vector)
        outside = w.as_value(1, kind)
        align = np.dtype(place.operand.dtype).itemsize
        return w.emit_value(
            kind, f"call {vector} {callee}({addresses.typed}, i32 {align}, {held.typed}, {outside.typed})"
        )

    def _store_values(
        self,
        values: list[LlvmValue],
        targets: list[_OperandPlace],
        i: LlvmValue,
        mask: LlvmValue | None,
        results: list[LlvmValue],
    ) -> None:
        """Write the stores of one round, and the steps that are taken in registers (`results`)."""
        number = 0
        for store in self.kernel.stores:
            value = values[store.value]
            place = targets[store.operand]
            if self._stays(store):
                if mask is not None:
                    value = self.w.select(mask, value, self._make_constant(value_dtype(value), store.neutral))
                results[number] = self._take_step(store, results[number], value)
                number += 1
                continue
            if place.operand.inner == STREAMED and mask is None:
                continue
            if store.step is not None:
                value = self._take_step(store, self._load(place, i, mask), value)
            self._store(self._to_memory(value), place, i, mask)

    def _store(self, value: LlvmValue, place: _OperandPlace, i: LlvmValue, mask: LlvmValue | None) -> None:
        w = self.w
        kind = MEMORY_TYPES[place.operand.dtype]
        if place.stride is not None:
            addresses = self._lane_addresses(place, i)
            held = w.as_value(True, "i1") if mask is None else mask
            callee = f"@llvm.masked.scatter.{_mangle(kind, self.lanes)}.v{self.lanes}p0"
            w.declare("void", callee, value.llvm_type, addresses.llvm_type, "i32", held.llvm_type)
            align = np.dtype(place.operand.dtype).itemsize
            w.emit_line(f"call void {callee}({value.typed}, {addresses.typed}, i32 {align}, {held.typed})")
            return
        address = w.point_to(kind, place.address, i)
        if mask is None:
            w.store(value, address, ", align 1")
            return
        self._store_under_mask(value, address, mask)

    def _begin_lines(self, place: _OperandPlace) -> _LineTarget:
        """Write where the lines of a streamed target are."""
        w = self.w
        item = np.dtype(place.operand.dtype).itemsize
        lanes = LINE_BYTES // item
        kind = MEMORY_TYPES[place.operand.dtype]
        address = w.emit_value("i64", f"ptrtoint {place.address.typed} to i64", 1)
        before = address.combine("and", LINE_BYTES - 1) >> (item.bit_length() - 1)
        index = f"i{8 * item}"
        start = lanes - before
        first = start if index == "i64" else start.convert("trunc", index)
        order = self._count_up(index, lanes) + self._splat(first, lanes)
        scratch = w.emit_value("ptr", f"alloca {format_vector_type(kind, lanes)}, align {LINE_BYTES}", 1)
        return _LineTarget(kind, lanes, w.point_to(kind, place.address, 0 - before), before, order, scratch)

    def _count_up(self, index: str, lanes: int) -> LlvmValue:
        numbers = ", ".join(f"{index} {lane}" for lane in range(lanes))
        return self.w.name_value(f"<{numbers}>", index, lanes)

    def _join_line(self, line: _LineTarget, one: LlvmValue, two: LlvmValue) -> LlvmValue:
        """Write the line that begins in one vector and ends in the next."""
        form = "pd" if line.kind == "double" else "ps"
        callee = f"@llvm.x86.avx512.vpermi2var.{form}.{8 * LINE_BYTES}"
        self.w.declare(one.llvm_type, callee, one.llvm_type, line.order.llvm_type, one.llvm_type)
        return self.w.call(line.kind, callee, one, line.order, two, lanes=line.lanes)

    def _make_first_vectors(self, lines: list[_LineTarget]) -> list[LlvmValue]:
        """Return vectors for the first round to store, which are stored aside."""
        counts = [1 + self.late_rounds * self.lanes // line.lanes for line in lines]
        return [
            self.w.as_value(0, line.kind, line.lanes)
            for line, count in zip(lines, counts, strict=True)
            for _ in range(count)
        ]

    def _collect_vectors(
        self, values: list[LlvmValue], lines: list[_LineTarget], kept: list[list[LlvmValue]]
    ) -> list[LlvmValue]:
        """Return what later rounds store of each streamed target: what is kept of rounds before, and this one's."""
        streamed = [store for store in self.kernel.stores if self.kernel.targets[store.operand].inner == STREAMED]
        vectors = []
        for line, store, before in zip(lines, streamed, kept, strict=True):
            value = values[store.value]
            vectors += [*before, *([value] if value.lanes == line.lanes else split_lanes(value))]
        return vectors

    def _store_lines(self, lines: list[_LineTarget], i: LlvmValue, vectors: list[LlvmValue]) -> list[list[LlvmValue]]:
        """Write the lines of the round that began at i; `vectors` has those of all targets, in the order of rounds.

        Returns the vectors of each target that are left: the last one of that round, and those of later rounds. Where i
        is negative there was no such round.
        """
        count = len(vectors) // len(lines) if lines else 0
        parts = [vectors[k * count : (k + 1) * count] for k in range(len(lines))]
        return [self._store_line(line, part, i) for line, part in zip(lines, parts, strict=True)]

    def _store_line(self, line: _LineTarget, vectors: list[LlvmValue], i: LlvmValue) -> list[LlvmValue]:
        w = self.w
        count = self.lanes // line.lanes
        for k, (one, two) in enumerate(pairwise(vectors[: count + 1])):
            place = w.point_to(line.kind, line.base, i + k * line.lanes)
            is_aside = i < (0 if k else 1)
            place = w.emit_value("ptr", f"select {is_aside.typed}, {line.scratch.typed}, {place.typed}", 1)
            joined = self._join_line(line, one, two)
            w.stream(joined, place)
        return vectors[count:]

    def _end_lines(self, lines: list[_LineTarget], vectors: list[LlvmValue], whole: LlvmValue) -> None:
        """Write the lines of the last rounds, then the parts of the first and the last line that are ours.

        After a fence other threads see all lines.
        """
        w = self.w
        for rounds in range(self.late_rounds, 0, -1):
            kept = self._store_lines(lines, whole - rounds * self.lanes, vectors)
            vectors = [vector for part in kept for vector in part]
        for line, vector in zip(lines, vectors, strict=True):
            lane = self._count_up("i64", line.lanes)
            before = self._splat(line.before, line.lanes)
            first = w.load(line.kind, line.scratch, line.lanes)
            self._store_under_mask(first, line.base, lane.compare("sge", before))
            end = self._join_line(line, vector, vector)
            self._store_under_mask(end, w.point_to(line.kind, line.base, whole), lane.compare("slt", before))
        if lines:
            w.fence_streams()

    def _store_under_mask(self, value: LlvmValue, address: LlvmValue, mask: LlvmValue) -> None:
        callee = f"@llvm.masked.store.{_mangle(value.element, value.lanes)}.p0"
        self.w.declare("void", callee, value.llvm_type, "ptr", "i32", mask.llvm_type)
        self.w.emit_line(f"call void {callee}({value.typed}, {address.typed}, i32 1, {mask.typed})")

    def _take_step(self, store: LoopStore, so_far: LlvmValue, value: LlvmValue) -> LlvmValue:
        """Write one step of a reduction."""
        assert store.step is not None
        dtype = self.kernel.targets[store.operand].dtype
        lowering = self._lowerings["f" if dtype == "f" else "d"]
        result = lowering.lower_tree(store.step, {"0": so_far, "1": value})
        return result.is_nonzero() if dtype == "?" else lowering.as_number(result)

    def _finish_sum(self, store: LoopStore, total: LlvmValue, place: _OperandPlace) -> None:
        """Write how the lanes of a sum are joined and taken into its place in memory."""
        w = self.w
        width = self.lanes // 2
        while width:
            order = ", ".join(f"i32 {(lane + width) % self.lanes}" for lane in range(self.lanes))
            kind = total.llvm_type
            turned = w.emit_value(
                total.element, f"shufflevector {total.typed}, {kind} poison, <{self.lanes} x i32> <{order}>"
            )
            total = self._take_step(store, total, turned)
            width //= 2
        result = self._to_memory(self._take_step(store, self._load_still(place), total))
        number = w.emit_value(result.element, f"extractelement {result.typed}, i64 0", 1)
        w.store(number, place.address, ", align 1")

    def _call_function(self, name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
        """Write a function of math.h: into the main loop, and as a call in the remainder."""
        return (call_inline if self.inlines else call_by_address)(name, operands)


def value_dtype(value: LlvmValue) -> str:
    """Return NumPy's character of the dtype of a value."""
    return {"double": "d", "float": "f"}.get(value.element, "?")


def _mangle(kind: str, lanes: int) -> str:
    """Return the name of a vector type in the names of intrinsics."""
    return f"v{lanes}{({'double': 'f64', 'float': 'f32'}).get(kind, kind)}"


def _move_along(
    place: tuple[LoopOperand, LlvmValue, LlvmValue | None, list[LlvmValue]], k: LlvmValue, level: int
) -> tuple[LoopOperand, LlvmValue, LlvmValue | None, list[LlvmValue]]:
    """Write the address of an operand in round k of a loop."""
    operand, address, stride, outer = place
    return operand, address.writer.point_to("i8", address, k * outer[level]), stride, outer
