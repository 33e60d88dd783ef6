"""The LLVM tier: LLVM compiles all steps of a program together.

The code runs the same steps on the same buffer as the stencils, so one can replace the other between two calls. The
steps are split into functions of a few hundred each, which keeps compile time linear. Within a function, a value goes
from the step that writes it to the steps that read it without passing through the buffer. The results have the bits of
the stencils, except for the sign of a NaN, which LLVM leaves unspecified.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from wiregrad.backends.native import jit, stencils
from wiregrad.backends.native.llvm_writer import ExpressionWriter, RealType
from wiregrad.backends.native.program_steps import StepStream
from wiregrad.backends.native.vector_math import call_by_address
from wiregrad.errors import NotNativeError

SEED_STEP = stencils.PlainStep("seed")
STEPS_PER_FUNCTION = 300
"""The number of steps in one function."""


class _ProgramPart(NamedTuple):
    """Some steps as instructions, and the values they leave in slots at the end."""

    emitter: ExpressionWriter
    read: frozenset[int]
    """Slots that are read before they are written."""
    left: dict[int, str]


class _SlotAccess:
    """Access to slots whose contents stay in LLVM values within one function."""

    def __init__(self, emitter: ExpressionWriter) -> None:
        self.emitter = emitter
        self.read: set[int] = set()
        self.known: dict[int, str] = {}
        self.left: dict[int, str] = {}
        self.holes: dict[int, int] = {}

    def load(self, hole: int) -> str:
        slot = self.holes[hole]
        real = self.emitter.real
        if slot not in self.known:
            self.read.add(slot)
            self.known[slot] = self.emitter.emit_value(
                f"load {real.llvm_bits_type}, ptr {self.slot_pointer(slot)}, align {real.total_bytes}"
            )
        return self.known[slot]

    def store(self, hole: int, bits: str) -> None:
        slot = self.holes[hole]
        self.known[slot] = self.left[slot] = bits

    def hide_value(self, slot: int) -> None:
        """Hide a slot's value from the optimizer: it would drop a product with a seed of 1, and so not quiet a NaN."""
        real = self.emitter.real
        pointer = self.slot_pointer(slot)
        self.emitter.emit_line(
            f"store {real.llvm_bits_type} {self.left[slot]}, ptr {pointer}, align {real.total_bytes}"
        )
        self.known[slot] = self.emitter.emit_value(
            f"load volatile {real.llvm_bits_type}, ptr {pointer}, align {real.total_bytes}"
        )

    def slot_pointer(self, slot: int) -> str:
        return self.emitter.emit_shared(f"getelementptr i8, ptr %w, i64 {slot * self.emitter.real.total_bytes}")


class LlvmProgram:
    """The code of a program that LLVM compiled; it is freed with this object."""

    def __init__(self, stream: StepStream) -> None:
        steps = stream.list_steps()
        parts = [
            _write_part(stream.real, steps[k : k + STEPS_PER_FUNCTION])
            for k in range(0, len(steps), STEPS_PER_FUNCTION)
        ]
        self._functions = list[jit.JitFunctions]()
        for text in _finish_parts(stream, parts):
            if not threading.main_thread().is_alive():
                # The process is about to end, and waits for this thread.
                raise NotNativeError("the process ended before the circuit was compiled")
            self._functions.append(jit.JitFunctions(text, level=0))
        calls = [f"  call void inttoptr (i64 {part.find_address('part')} to ptr)(ptr %w)" for part in self._functions]
        text = "\n".join(["define preserve_nonecc void @whole(ptr %w) {", *calls, "  ret void", "}"])
        self._functions.append(jit.JitFunctions(text, level=0))
        self.address = self._functions[-1].find_address("whole")
        self.size = sum(functions.size for functions in self._functions)


def _write_part(real: RealType, steps: Sequence[tuple[stencils.StepKey, dict[int, int]]]) -> _ProgramPart:
    emitter = ExpressionWriter(real, call_by_address)
    slots = _SlotAccess(emitter)
    for key, holes in steps:
        slots.holes = holes
        stencils.write_step(emitter, key, slots)
        if key == SEED_STEP:
            slots.hide_value(holes[stencils.OUTPUT_HOLE])
    return _ProgramPart(emitter, frozenset(slots.read), slots.left)


def _finish_parts(stream: StepStream, parts: Sequence[_ProgramPart]) -> list[str]:
    """Return the LLVM module of each part; values that no later part reads are not stored."""
    wanted = set(range(stream.inputs, 2 * stream.inputs + stream.outputs))
    texts = list[str]()
    for part in reversed(parts):
        slots = _SlotAccess(part.emitter)
        real = stream.real
        for slot, bits in part.left.items():
            if slot in wanted:
                part.emitter.emit_line(
                    f"store {real.llvm_bits_type} {bits}, ptr {slots.slot_pointer(slot)}, align {real.total_bytes}"
                )
        wanted = (wanted - part.left.keys()) | part.read
        body = "\n".join(part.emitter.lines)
        function = f"define void @part(ptr %w) {{\n{body}\n  ret void\n}}"
        texts.append("\n".join([*sorted(part.emitter.declared), function]))
    return texts[::-1]
