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

from wiregrad.backends.native import machine, stencils
from wiregrad.backends.native.emit import Emitter, Real
from wiregrad.backends.native.stream import Stream
from wiregrad.backends.native.vectormath import call_vector
from wiregrad.errors import NotNativeError

SEED = stencils.Plain("seed")
CHUNK = 300
"""The number of steps in one function."""


class _Part(NamedTuple):
    """Some steps as instructions, and the values they leave in slots at the end."""

    emitter: Emitter
    read: frozenset[int]
    """Slots that are read before they are written."""
    left: dict[int, str]


class _Slots:
    """Access to slots whose contents stay in LLVM values within one function."""

    def __init__(self, emitter: Emitter) -> None:
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
            self.known[slot] = self.emitter.fresh(f"load {real.bits}, ptr {self.address(slot)}, align {real.width}")
        return self.known[slot]

    def store(self, hole: int, bits: str) -> None:
        slot = self.holes[hole]
        self.known[slot] = self.left[slot] = bits

    def hide(self, slot: int) -> None:
        """Hide a slot's value from the optimizer: it would drop a product with a seed of 1, and so not quiet a NaN."""
        real = self.emitter.real
        pointer = self.address(slot)
        self.emitter.say(f"store {real.bits} {self.left[slot]}, ptr {pointer}, align {real.width}")
        self.known[slot] = self.emitter.fresh(f"load volatile {real.bits}, ptr {pointer}, align {real.width}")

    def address(self, slot: int) -> str:
        return self.emitter.new(f"getelementptr i8, ptr %w, i64 {slot * self.emitter.real.width}")


class Whole:
    """The code of a program that LLVM compiled; it is freed with this object."""

    def __init__(self, stream: Stream) -> None:
        steps = stream.steps()
        parts = [_part(stream.real, steps[k : k + CHUNK]) for k in range(0, len(steps), CHUNK)]
        self._functions = list[machine.Functions]()
        for text in _texts(stream, parts):
            if not threading.main_thread().is_alive():
                # The process is about to end, and waits for this thread.
                raise NotNativeError("the process ended before the circuit was compiled")
            self._functions.append(machine.Functions(text, level=0))
        calls = [f"  call void inttoptr (i64 {part.address('part')} to ptr)(ptr %w)" for part in self._functions]
        text = "\n".join(["define preserve_nonecc void @whole(ptr %w) {", *calls, "  ret void", "}"])
        self._functions.append(machine.Functions(text, level=0))
        self.address = self._functions[-1].address("whole")
        self.size = sum(functions.size for functions in self._functions)


def _part(real: Real, steps: Sequence[tuple[stencils.Key, dict[int, int]]]) -> _Part:
    emitter = Emitter(real, call_vector)
    slots = _Slots(emitter)
    for key, holes in steps:
        slots.holes = holes
        stencils.write(emitter, key, slots)
        if key == SEED:
            slots.hide(holes[stencils.OUTPUT])
    return _Part(emitter, frozenset(slots.read), slots.left)


def _texts(stream: Stream, parts: Sequence[_Part]) -> list[str]:
    """Return the LLVM module of each part; values that no later part reads are not stored."""
    wanted = set(range(stream.inputs, 2 * stream.inputs + stream.outputs))
    texts = list[str]()
    for part in reversed(parts):
        slots = _Slots(part.emitter)
        real = stream.real
        for slot, bits in part.left.items():
            if slot in wanted:
                part.emitter.say(f"store {real.bits} {bits}, ptr {slots.address(slot)}, align {real.width}")
        wanted = (wanted - part.left.keys()) | part.read
        body = "\n".join(part.emitter.lines)
        function = f"define void @part(ptr %w) {{\n{body}\n  ret void\n}}"
        texts.append("\n".join([*sorted(part.emitter.declared), function]))
    return texts[::-1]
