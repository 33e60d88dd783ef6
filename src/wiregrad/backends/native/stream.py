"""The steps of a program in the order they run, and the slots each of them uses: what both tiers are made from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import plan
from wiregrad.backends.native.emit import Real
from wiregrad.backends.native.kinds import Kinds, numbered
from wiregrad.backends.native.stencils import (
    ARRIVED,
    GRADIENTS,
    OUTPUT,
    REGISTERS,
    Back,
    Key,
    Placed,
    Plain,
    calls,
    pushes,
)
from wiregrad.ir import Circuit

Offsets = Callable[[int], NDArray[np.int32]]
"""Gives, for a hole, the offset into the buffer at each of some steps."""


class Stream:
    """What a program does, step by step: which stencil, and whose slots belong into its holes.

    Forward in order, then the seed, then backward in reverse; a subject is a node, or for a step that belongs to none
    the slot it reads and the slot it writes. A number that was written a few steps before is read from its register, and
    one that is read from registers alone is not written to the buffer.
    """

    def __init__(
        self, circuit: Circuit, kinds: Kinds, found: plan.Plan, real: Real, root: int, copies: list[tuple[int, int]]
    ) -> None:
        self.real, self.inputs, self.outputs = real, len(circuit.inputs), len(circuit.outputs)
        self.columns, self.found = circuit.columns, found
        self.keys: list[Placed] = []
        self._kinds, self._root = kinds, root
        self._which, self._subjects = list[NDArray[Any]](), list[NDArray[Any]]()
        self._forward()
        self._plain("copy", [(int(found.values[node]), slot) for node, slot in copies])
        if root >= 0:
            self._back_from(root, np.array(circuit.input_indices(), np.intp))
        self._plain("return", [(0, 0)])
        # Sorting 16 bits takes one pass; a program has a few hundred stencils.
        self.which = np.concatenate(self._which).astype(np.uint16 if len(self.keys) < 2**16 else np.int64)
        self.subjects = np.concatenate(self._subjects)

    def __len__(self) -> int:
        return len(self.which)

    def offsets(self, key: int, steps: NDArray[np.intp]) -> Offsets:
        """Return, for the steps of one stencil, what gives the offset that belongs into a hole at each of them."""
        subjects, found, columns, width = self.subjects[steps], self.found, self.columns, np.int32(self.real.width)
        if isinstance(self.keys[key].key, Plain):
            pairs = subjects.astype(np.int64)
            return lambda hole: (pairs & 0xFFFFFFFF if hole == OUTPUT else pairs >> 32).astype(np.int32) * width

        def offset(hole: int) -> NDArray[np.int32]:
            nodes, slots = subjects, found.values if hole <= OUTPUT else found.gradients
            if hole not in (OUTPUT, ARRIVED):
                nodes = columns.sources[columns.starts[subjects] + (hole if hole < OUTPUT else hole - GRADIENTS)]
            return np.asarray(slots[nodes] * width, np.int32)

        return offset

    def steps(self) -> list[tuple[Key, dict[int, int]]]:
        """Return what each step does, and the slot for each of its holes, registers left aside."""
        pairs = zip(self.which.tolist(), self.subjects.tolist(), strict=True)
        return [(self.keys[which].key, self._slots(self.keys[which].key, subject)) for which, subject in pairs]

    def _slots(self, key: Key, subject: int) -> dict[int, int]:
        if isinstance(key, Plain):
            return {0: subject >> 32, OUTPUT: subject & 0xFFFFFFFF}
        values, gradients, columns = self.found.values, self.found.gradients, self.columns
        sources = columns.sources[columns.starts[subject] : columns.starts[subject + 1]].tolist()
        own = {OUTPUT: int(values[subject]), ARRIVED: int(gradients[subject])}
        reads = {slot: int(values[source]) for slot, source in enumerate(sources)}
        return own | reads | {GRADIENTS + slot: int(gradients[source]) for slot, source in enumerate(sources)}

    def _add(self, keys: list[Placed], which: NDArray[Any], subjects: NDArray[Any]) -> None:
        self._which.append(which + len(self.keys))
        self._subjects.append(subjects)
        self.keys += keys

    def _plain(self, name: str, pairs: list[tuple[int, int]]) -> None:
        """Add steps of one stencil, each with the slot it reads and the one it writes."""
        if pairs:
            subjects = np.array([read << 32 | written for read, written in pairs], np.int64)
            self._add([Placed(Plain(name))], np.zeros(len(pairs), np.int64), subjects)

    def _forward(self) -> None:
        columns, found = self.columns, self.found
        n, arity = len(columns.codes), columns.starts[1:] - columns.starts[:-1]
        steps = np.flatnonzero(found.live & (arity > 0))
        used, kinds, _ = numbered(self._kinds.nodes[steps])
        keys = [kind for kind in (self._kinds.table[k] for k in used.tolist()) if kind is not None]
        times, lost = _clock(n, steps, self._calls(list[Key](keys))[kinds])
        most, width = int(arity.max(initial=0)), REGISTERS + 1
        codes = kinds.astype(np.int64)
        for slot in range(most):
            has = arity[steps] > slot
            sources = columns.sources[np.where(has, columns.starts[steps] + slot, 0)]
            codes = codes * width + np.where(has, _register(times[steps], times[sources], lost), 0)
        codes = codes * 2 + self._is_stored(steps, times, lost)
        used, which, _ = numbered(codes)
        placed = list[Placed]()
        for code in used.tolist():
            rest, stored = divmod(code, 2)
            registers = [rest // width**slot % width for slot in reversed(range(most))]
            kind = keys[rest // width**most]
            placed.append(Placed(kind, tuple(registers[: len(kind.types)]), (bool(stored),)))
        self._add(placed, which, steps)

    def _is_stored(
        self, steps: NDArray[np.intp], times: NDArray[np.int32], lost: NDArray[np.int32]
    ) -> NDArray[np.bool_]:
        """Return which values go to the buffer: outputs, and what is read too late for a register or on the way back."""
        n, last = len(self.columns.codes), self.found.last[steps]
        forward = (last >= 0) & (last < n)
        readers = np.where(forward, times[np.where(forward, last, 0)], 0)
        kept = forward & (_register(readers, times[steps], lost) > 0)
        outputs = np.zeros(n, np.bool_)
        outputs[self.columns.outputs] = True
        return ~kept | outputs[steps]

    def _calls(self, keys: list[Key]) -> NDArray[np.bool_]:
        return np.array([calls(key, self.real) for key in keys], np.bool_)

    def _back_from(self, root: int, inputs: NDArray[np.intp]) -> None:
        """Add the seed, the steps back, and what makes the gradient whole: 0 where nothing came back."""
        found = self.found
        reached, absent = found.reached[inputs], found.absent[inputs]
        self._plain("zero", [(0, slot) for slot in found.gradients[inputs[reached == 0]].tolist()])
        self._plain("seed", [(0, int(found.gradients[root]))] if found.reached[root] else [])
        self._backward()
        self._plain("settle", [(0, slot) for slot in found.gradients[inputs[(reached & absent) != 0]].tolist()])

    def _backward(self) -> None:
        columns, found = self.columns, self.found
        steps = np.flatnonzero(found.variants)[::-1]
        used, kinds, _ = numbered(self._kinds.nodes[steps].astype(np.int64) << 16 | found.variants[steps])
        keys = [self._back(code) for code in used.tolist()]
        most = max((len(key.ways) for key in keys), default=0)
        arrival = _Arrivals(len(columns.codes), steps, self._calls(list[Key](keys))[kinds], self._root)
        counts = np.array([pushes(key) for key in keys], np.int64)[kinds]
        wires = list[tuple[NDArray[np.bool_], NDArray[np.int32]]]()
        for slot in range(most):
            moves = found.variants[steps] >> 2 * slot & 3 != 0
            wires.append((moves, columns.sources[np.where(moves, columns.starts[steps] + slot, 0)]))
        arrival.note(counts, wires)
        codes = kinds.astype(np.int64) * (REGISTERS + 1) + arrival.registers()
        for moves, last in zip((moves for moves, _ in wires), arrival.are_last(), strict=True):
            # What arrives last, and is read from its register, need not be stored.
            codes = codes * 2 + (moves & ~last)
        numbers, which, _ = numbered(codes)
        placed = list[Placed]()
        for code in numbers.tolist():
            stored = tuple(bool(code >> (most - 1 - slot) & 1) for slot in range(most))
            kind, register = divmod(code >> most, REGISTERS + 1)
            placed.append(Placed(keys[kind], (register,), stored[: len(keys[kind].ways)]))
        self._add(placed, which, steps)

    def _back(self, code: int) -> Back:
        kind = self._kinds.table[code >> 16]
        assert kind is not None
        ways = tuple(code >> 2 * slot & 3 for slot in range(len(kind.types)))
        return Back(kind, bool(code >> plan.MASK_BIT & 1), ways)


def _clock(n: int, steps: NDArray[np.intp], calling: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return when each node has its step (far in the past: never), and how many steps before each time lost registers."""
    times = np.full(n, -REGISTERS - 1, np.int32)
    times[steps] = np.arange(len(steps), dtype=np.int32)
    return times, np.concatenate([[0], np.cumsum(calling)]).astype(np.int32)


def _register(now: NDArray[np.int32], then: NDArray[np.int32], lost: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the register in which a number written by one step is found by another; 0: in none."""
    apart = now - then
    near = (apart <= REGISTERS) & (then >= 0)
    held = lost[now] == lost[np.where(near, then + 1, 0)]
    return np.where(near & held, apart, 0)


class _Arrivals:
    """What the steps back find in registers: the gradient of a node, if it was completed just before."""

    def __init__(self, n: int, steps: NDArray[np.intp], calling: NDArray[np.bool_], root: int) -> None:
        self.steps, self.root = steps, root
        self.lost = np.concatenate([[0], np.cumsum(calling)])
        # The write that completes each gradient, and the step that makes it; the seed is write 0 of step -1.
        self.written, self.writer = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
        self.written[root] = 0

    def note(self, counts: NDArray[np.int64], wires: list[tuple[NDArray[np.bool_], NDArray[np.int32]]]) -> None:
        """Take note of what each step writes: `wires` has, per input, who sends along it and to which node."""
        self.before = 1 + np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else counts
        self.wires = list[tuple[NDArray[np.bool_], NDArray[np.int32], NDArray[np.int64]]]()
        later = np.zeros(len(counts), np.int64)
        for moves, sources in reversed(wires):
            # The last input is served first.
            self.wires.insert(0, (moves, sources, self.before + later))
            later = later + moves
        for moves, sources, number in self.wires:
            np.maximum.at(self.written, sources[moves], number[moves])
            np.maximum.at(self.writer, sources[moves], np.flatnonzero(moves))

    def registers(self) -> NDArray[np.int64]:
        """Return the register where each step finds what arrives; 0: in the buffer."""
        own = self.steps
        apart = self.before - self.written[own]
        held = self.lost[np.arange(len(own))] == self.lost[self.writer[own] + 1]
        found = np.where((apart <= REGISTERS) & held, apart, 0)
        self.taken = np.zeros(len(self.written), np.bool_)
        self.taken[own] = found > 0
        return found

    def are_last(self) -> list[NDArray[np.bool_]]:
        """Return, per input, which steps complete a gradient there that is then found in its register."""
        return [(number == self.written[sources]) & self.taken[sources] for _, sources, number in self.wires]
