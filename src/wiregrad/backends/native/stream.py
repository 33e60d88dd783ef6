"""The steps of a program in the order they run, and the slots each of them uses: what both tiers are made from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import plan
from wiregrad.backends.native.emit import Real
from wiregrad.backends.native.kinds import Kinds, numbered
from wiregrad.backends.native.registers import assigned
from wiregrad.backends.native.stencils import (
    ARRIVED,
    CONSTANT,
    GRADIENTS,
    OUTPUT,
    REGISTERS,
    Back,
    Key,
    Placed,
    Plain,
    calls,
)
from wiregrad.ir import Circuit


class Stream:
    """What a program does, step by step: which stencil, and whose slots belong into its holes.

    Forward in order, then the seed, then backward in reverse; a subject is a node, or for a step that belongs to none
    the slot it reads and the slot it writes. A number that is read again soon has a register, and one that is read from
    its register alone is not written to the buffer.
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
        self.which = np.concatenate(self._which).astype(np.int32)
        self.subjects = np.concatenate(self._subjects)
        del self._which, self._subjects
        self._is_pair = np.array([isinstance(placed.key, Plain) for placed in self.keys])

    def __len__(self) -> int:
        return len(self.which)

    def offsets(self, steps: slice, owners: NDArray[np.intp], holes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the offsets into the buffer that belong into holes, each with its step counted from the first one."""
        columns, subjects = self.columns, self.subjects[steps]
        pair = self._is_pair[self.which[steps]]
        nodes = np.where(pair, 0, subjects)[owners]
        apart = np.where(holes > ARRIVED, holes - GRADIENTS, holes)
        wired = (holes != OUTPUT) & (holes != ARRIVED) & (holes != CONSTANT) & ~pair[owners]
        wires = np.where(wired, columns.starts[nodes] + apart, 0)
        nodes = np.where(wired, columns.sources[wires], nodes) if len(columns.sources) else nodes
        slots = np.where(holes <= OUTPUT, self.found.values[nodes], self.found.gradients[nodes]).astype(np.int64)
        if pair.any():
            own = subjects[owners]
            slots = np.where(pair[owners], np.where(holes == OUTPUT, own & 0xFFFFFFFF, own >> 32), slots)
        return slots * self.real.width

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
            # The seed is in the first register too: nothing else is in one before it.
            writes = (1,) if name == "seed" else ()
            self._add([Placed(Plain(name), writes=writes)], np.zeros(len(pairs), np.int64), subjects)

    def _forward(self) -> None:
        columns, found, width = self.columns, self.found, REGISTERS + 1
        n, arity = len(columns.codes), columns.starts[1:] - columns.starts[:-1]
        steps = np.flatnonzero(found.live & (arity > 0))
        used, kinds, _ = numbered(self._kinds.nodes[steps])
        keys = [kind for kind in (self._kinds.table[k] for k in used.tolist()) if kind is not None]
        wires = self._wires(steps, [arity[steps] > slot for slot in range(int(arity.max(initial=0)))])
        own = np.zeros(n, np.uint8)
        own[steps] = assigned(*_life(n, steps, wires), self._calls(list[Key](keys))[kinds])
        codes = kinds.astype(np.int64) * width + own[steps]
        for has, sources in wires:
            codes = codes * width + np.where(has, own[sources], 0)
        codes = codes * 2 + self._is_stored(steps, own)
        numbers, which, _ = numbered(codes)
        placed = list[Placed]()
        for code in numbers.tolist():
            *reads, written, kind, stored = _digits(code, width, len(wires))
            placed.append(Placed(keys[kind], tuple(reads[: len(keys[kind].types)]), (written,), (bool(stored),)))
        self._add(placed, which, steps)

    def _wires(self, steps: NDArray[np.intp], there: list[NDArray[np.bool_]]) -> list[_Wire]:
        """Return, per input, which steps have a wire there and from which node."""
        columns = self.columns
        return [
            (has, columns.sources[np.where(has, columns.starts[steps] + slot, 0)]) for slot, has in enumerate(there)
        ]

    def _is_stored(self, steps: NDArray[np.intp], own: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return which values go to the buffer: all but those that only steps forward read, from their register."""
        n, stored = len(self.columns.codes), np.zeros(len(own), np.bool_)
        stored[steps] = (own[steps] == 0) | (self.found.last[steps] >= n)
        stored[self.columns.outputs] = True
        return stored[steps]

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
        found, width = self.found, REGISTERS + 1
        steps = np.flatnonzero(found.variants)[::-1]
        used, kinds, _ = numbered(self._kinds.nodes[steps].astype(np.int64) << 16 | found.variants[steps])
        keys = [self._back(code) for code in used.tolist()]
        most = max((len(key.ways) for key in keys), default=0)
        wires = self._wires(steps, [found.variants[steps] >> 2 * slot & 3 != 0 for slot in range(most)])
        arrived, sent = _arrivals(len(found.values), steps, wires, self._calls(list[Key](keys))[kinds], self._root)
        codes = kinds.astype(np.int64) * width + arrived
        for register in sent:
            codes = codes * width + register
        numbers, which, _ = numbered(codes)
        placed = list[Placed]()
        for code in numbers.tolist():
            *written, found_in, kind = _digits(code * 2, width, most)[:-1]
            # What is completed and found in its register need not be stored.
            here = tuple(written[: len(keys[kind].ways)])
            placed.append(Placed(keys[kind], (found_in,), here, tuple(not k for k in here)))
        self._add(placed, which, steps)

    def _back(self, code: int) -> Back:
        kind = self._kinds.table[code >> 16]
        assert kind is not None
        ways = tuple(code >> 2 * slot & 3 for slot in range(len(kind.types)))
        return Back(kind, bool(code >> plan.MASK_BIT & 1), ways)


_Wire = tuple[NDArray[np.bool_], NDArray[np.int32]]
"""Which steps have a wire, and the node at its other end."""


def _digits(code: int, width: int, count: int) -> list[int]:
    """Take a code apart: so many registers, one more, the kind, and a bit."""
    code, bit = divmod(code, 2)
    found = list[int]()
    for _ in range(count + 1):
        code, digit = divmod(code, width)
        found.append(digit)
    return [*reversed(found[:-1]), found[-1], code, bit]


def _life(n: int, steps: NDArray[np.intp], wires: list[_Wire]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return when each step forward writes its value, and when the last one reads it."""
    now, last = np.arange(len(steps), dtype=np.int32), np.full(n, -1, np.int32)
    for has, sources in wires:
        np.maximum.at(last, sources[has], now[has])
    return now, last[steps]


def _arrivals(
    n: int, steps: NDArray[np.intp], wires: list[_Wire], calling: NDArray[np.bool_], root: int
) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]]]:
    """Return in which register each step back finds what arrives, and where it puts each gradient that it completes."""
    count, most = len(steps), len(wires)
    times, last = np.full(n, -1, np.int32), np.full(n, -1, np.int64)
    times[steps] = np.arange(count, dtype=np.int32)
    # The last input of a node is served first.
    order = np.arange(count)[:, None] * most + np.arange(most - 1, -1, -1)
    for slot, (moves, sources) in enumerate(wires):
        np.maximum.at(last, sources[moves], order[moves, slot])
    ends = np.full((count, most), -1, np.int32)
    for slot, (moves, sources) in enumerate(wires):
        completes = moves & (last[sources] == order[:, slot])
        ends[:, most - 1 - slot] = np.where(completes, times[sources], -1)
    starts = np.repeat(np.arange(count, dtype=np.int32), most)
    # The seed comes before all, and is in the first register.
    first = np.full(1, -1, np.int32)
    found = assigned(np.concatenate([first, starts]), np.concatenate([times[[root]], ends.ravel()]), calling)
    registers = found[1:].reshape(count, most)
    arrived, sent = np.zeros(n, np.uint8), list[NDArray[np.uint8]]()
    arrived[root] = found[0]
    for slot, (_, sources) in enumerate(wires):
        sent.append(registers[:, most - 1 - slot])
        held = sent[-1] > 0
        arrived[sources[held]] = sent[-1][held]
    return arrived[steps], sent
