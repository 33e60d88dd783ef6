"""The steps of a program compiled by LLVM as a whole.

The same steps on the same buffer as the stencils, so one can take the other's place between two calls. Steps are cut
into functions of a few hundred; inside one, what a step writes is handed to the steps that read it, without a detour
through the buffer. Compile time stays linear that way, and the bits are those of the stencils, but for the sign of a
NaN, which LLVM leaves open.
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
"""How many steps a function has."""


class _Part(NamedTuple):
    """Some steps, as instructions, with what they leave in slots at the end."""

    emitter: Emitter
    read: frozenset[int]
    """Slots whose content from before is read."""
    left: dict[int, str]


class _Slots:
    """Access to slots, kept in values as long as the function lasts."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.read: set[int] = set()
        self.known: dict[int, str] = {}
        self.left: dict[int, str] = {}
        self.holes: dict[int, int] = {}

    def load(self, hole: int) -> str:
        slot, real = self.holes[hole], self.emitter.real
        if slot not in self.known:
            self.read.add(slot)
            self.known[slot] = self.emitter.fresh(f"load {real.bits}, ptr {self.address(slot)}, align {real.width}")
        return self.known[slot]

    def store(self, hole: int, bits: str) -> None:
        slot = self.holes[hole]
        self.known[slot] = self.left[slot] = bits

    def hide(self, slot: int) -> None:
        """Let LLVM forget what a slot holds: a product with a seed of 1 would be left out, and not quiet a NaN."""
        real, place = self.emitter.real, self.address(slot)
        self.emitter.say(f"store {real.bits} {self.left[slot]}, ptr {place}, align {real.width}")
        self.known[slot] = self.emitter.fresh(f"load volatile {real.bits}, ptr {place}, align {real.width}")

    def address(self, slot: int) -> str:
        return self.emitter.new(f"getelementptr i8, ptr %w, i64 {slot * self.emitter.real.width}")


class Whole:
    """Code that LLVM made, freed with the object."""

    def __init__(self, stream: Stream) -> None:
        steps = stream.steps()
        parts = [_part(stream.real, steps[k : k + CHUNK]) for k in range(0, len(steps), CHUNK)]
        self._functions = list[machine.Functions]()
        for text in _texts(stream, parts):
            if not threading.main_thread().is_alive():
                # The program is about to end, and waits for this.
                raise NotNativeError("the program ended before its circuit was compiled")
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
    """Return a module for each part; what no later part reads is not stored."""
    wanted = set(range(stream.inputs, 2 * stream.inputs + stream.outputs))
    texts = list[str]()
    for part in reversed(parts):
        slots = _Slots(part.emitter)
        for slot, bits in part.left.items():
            if slot in wanted:
                real = stream.real
                part.emitter.say(f"store {real.bits} {bits}, ptr {slots.address(slot)}, align {real.width}")
        wanted = (wanted - part.left.keys()) | part.read
        body = "\n".join(part.emitter.lines)
        function = f"define void @part(ptr %w) {{\n{body}\n  ret void\n}}"
        texts.append("\n".join([*sorted(part.emitter.declared), function]))
    return texts[::-1]
