"""The LLVM tier: LLVM compiles all steps of a program together; `tiers` decides when.

The code runs the same steps on the same buffer as the stencils, so one can replace the other between two calls. The
steps are split into functions of a few hundred each, which keeps compile time linear. Within a function, a value goes
from the step that writes it to the steps that read it without passing through the buffer. The results have the bits of
the stencils, except for the sign of a NaN, which LLVM leaves unspecified.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, RealType, format_pointer
from wiregrad.backends.native.program_steps import StepStream
from wiregrad.backends.native.step_kinds import (
    OUTPUT_HOLE,
    ExpressionLowering,
    PlainStep,
    StepKey,
    make_absent_bits,
    write_step,
)
from wiregrad.backends.native.vector_math import call_by_address
from wiregrad.errors import NotNativeError

SEED_STEP = PlainStep("seed")
STEPS_PER_FUNCTION = 300
"""The number of steps in one function."""


class _SlotAccess:
    """Access to slots whose contents stay in LLVM values within one function."""

    def __init__(self, writer: LlvmWriter, real: RealType) -> None:
        self.writer = writer
        self.real = real
        self.absent = make_absent_bits(writer, real)
        self.read: set[int] = set()
        """Slots that are read before they are written."""
        self.known: dict[int, LlvmValue] = {}
        self.left: dict[int, LlvmValue] = {}
        """The bits that the function leaves in slots at its end."""
        self.holes: dict[int, int] = {}
        """The slot for each hole of the current step."""

    def load(self, hole: int) -> LlvmValue:
        slot = self.holes[hole]
        if slot not in self.known:
            self.read.add(slot)
            self.known[slot] = self.writer.load(self.real.bits_name, self._slot_pointer(slot), how=self._alignment)
        return self.known[slot]

    def store(self, hole: int, bits: LlvmValue) -> None:
        slot = self.holes[hole]
        self.known[slot] = self.left[slot] = bits

    def hide_value(self, slot: int) -> None:
        """Hide a slot's value from the optimizer: it would drop a product with a seed of 1, and so not quiet a NaN."""
        self.store_slot(slot)
        pointer = self._slot_pointer(slot)
        kind = self.left[slot].llvm_type
        self.known[slot] = self.writer.emit_value(
            self.real.bits_name, f"load volatile {kind}, {pointer.typed}{self._alignment}"
        )

    def store_slot(self, slot: int) -> None:
        """Write the store of a slot's latest bits into the buffer."""
        self.writer.store(self.left[slot], self._slot_pointer(slot), self._alignment)

    @property
    def _alignment(self) -> str:
        return f", align {self.real.total_bytes}"

    def _slot_pointer(self, slot: int) -> LlvmValue:
        buffer = self.writer.name_value("%w", "ptr", 1)
        return self.writer.point_to("i8", buffer, slot * self.real.total_bytes)


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
        text = _write_program([part.find_address("part") for part in self._functions])
        self._functions.append(jit.JitFunctions(text, level=0))
        self.address = self._functions[-1].find_address("program")
        self.size = sum(functions.size for functions in self._functions)


def _write_program(parts: Sequence[int]) -> str:
    """Return the LLVM module of a function that calls the parts of a program by their addresses."""
    w = LlvmWriter()
    w.begin_function("preserve_nonecc void @program(ptr %w)")
    for address in parts:
        w.call_void(format_pointer(address), w.name_value("%w", "ptr"))
    w.end_function()
    return w.format_module()


def _write_part(real: RealType, steps: Sequence[tuple[StepKey, dict[int, int]]]) -> _SlotAccess:
    """Write some steps as a function, up to the values that it leaves in slots."""
    writer = LlvmWriter(real.lanes, shares=True)
    writer.begin_function("void @part(ptr %w)")
    lowering = ExpressionLowering(writer, real, call_by_address)
    slots = _SlotAccess(writer, real)
    for key, holes in steps:
        slots.holes = holes
        write_step(lowering, key, slots)
        if key == SEED_STEP:
            slots.hide_value(holes[OUTPUT_HOLE])
    return slots


def _finish_parts(stream: StepStream, parts: Sequence[_SlotAccess]) -> list[str]:
    """Return the LLVM module of each part; values that no later part reads are not stored."""
    wanted = set(range(stream.inputs, 2 * stream.inputs + stream.outputs))
    texts = list[str]()
    for part in reversed(parts):
        for slot in part.left:
            if slot in wanted:
                part.store_slot(slot)
        part.writer.end_function()
        wanted = (wanted - part.left.keys()) | part.read
        texts.append(part.writer.format_module())
    return texts[::-1]
