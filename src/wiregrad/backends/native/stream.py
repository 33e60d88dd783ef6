"""The steps of a program in the order in which they run, with the slots that each uses; both tiers are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import plan
from wiregrad.backends.native.emit import RealType
from wiregrad.backends.native.kinds import NodeKinds, number_keys
from wiregrad.backends.native.registers import assign_registers, find_next_entries, count_register_losses, can_stay_in_register
from wiregrad.backends.native.stencils import (
    UPSTREAM_HOLE,
    FIRST_GRADIENT_HOLE,
    HOLE_COUNT,
    OUTPUT_HOLE,
    WITHIN_STEP_REGISTER,
    BackwardStep,
    StepKey,
    StencilKey,
    PlainStep,
    calls_function,
)
from wiregrad.ir import CircuitGraph


class StepStream:
    """The steps of a program: the stencil of each, and the subject whose slots fill its holes.

    Forward steps come in order, then the seed, then backward steps in reverse. A subject is a node, or, for a step that
    belongs to no node, the slot it reads and the slot it writes. A number that is read again soon has a register; one
    that is only read from its register is not written to the buffer.
    """

    def __init__(
        self,
        circuit: CircuitGraph,
        kinds: NodeKinds,
        buffer_plan: plan.BufferPlan,
        real: RealType,
        root: int,
        copies: list[tuple[int, int]],
    ) -> None:
        self.real = real
        self.inputs = len(circuit.inputs)
        self.outputs = len(circuit.outputs)
        self.columns = circuit.columns
        self.buffer_plan = buffer_plan
        self.keys: list[StencilKey] = []
        self._kinds = kinds
        self._root = root
        self._most = int(np.diff(circuit.columns.starts).max(initial=0))
        self._which = list[NDArray[Any]]()
        self._subjects = list[NDArray[Any]]()
        self._append_plain_steps("begin", [(0, 0)])
        self._append_forward_steps()
        self._append_plain_steps("copy", [(int(buffer_plan.values[node]), slot) for node, slot in copies])
        if root >= 0:
            self._append_gradient_steps(root, np.array(circuit.input_indices(), np.intp))
        self._append_plain_steps("return", [(0, 0)])
        self.which = np.concatenate(self._which).astype(np.int32)
        self.subjects = np.concatenate(self._subjects)
        del self._which, self._subjects
        self._is_pair = np.array([isinstance(placed.key, PlainStep) for placed in self.keys])

    def __len__(self) -> int:
        return len(self.which)

    def compute_offsets(self, steps: slice, owners: NDArray[np.intp], holes: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the buffer offsets that fill holes; `owners` has the step of each, counted from the first."""
        columns = self.columns
        buffer_plan = self.buffer_plan
        subjects = self.subjects[steps]
        pair = self._is_pair[self.which[steps]]
        nodes = np.where(pair, 0, subjects)
        table = np.zeros((HOLE_COUNT, len(nodes)), np.int32)
        table[OUTPUT_HOLE] = buffer_plan.values[nodes]
        table[UPSTREAM_HOLE] = buffer_plan.gradients[nodes]
        first = columns.starts[nodes]
        for slot in range(self._most):
            sources = columns.sources[np.minimum(first + slot, len(columns.sources) - 1)]
            table[slot] = buffer_plan.values[sources]
            table[FIRST_GRADIENT_HOLE + slot] = buffer_plan.gradients[sources]
        if pair.any():
            table[0, pair] = subjects[pair] >> 32
            table[OUTPUT_HOLE, pair] = subjects[pair] & 0xFFFFFFFF
        slots: NDArray[np.int32] = table.ravel()[holes * len(nodes) + owners]
        return slots * np.int32(self.real.total_bytes)

    def list_steps(self) -> list[tuple[StepKey, dict[int, int]]]:
        """Return what each step does, and the slot for each of its holes; registers are ignored."""
        pairs = zip(self.which.tolist(), self.subjects.tolist(), strict=True)
        return [(self.keys[which].key, self._find_slots(self.keys[which].key, subject)) for which, subject in pairs]

    def _find_slots(self, key: StepKey, subject: int) -> dict[int, int]:
        if isinstance(key, PlainStep):
            return {0: subject >> 32, OUTPUT_HOLE: subject & 0xFFFFFFFF}
        values = self.buffer_plan.values
        gradients = self.buffer_plan.gradients
        columns = self.columns
        sources = columns.sources[columns.starts[subject] : columns.starts[subject + 1]].tolist()
        own = {OUTPUT_HOLE: int(values[subject]), UPSTREAM_HOLE: int(gradients[subject])}
        reads = {slot: int(values[source]) for slot, source in enumerate(sources)}
        return own | reads | {FIRST_GRADIENT_HOLE + slot: int(gradients[source]) for slot, source in enumerate(sources)}

    def _append_steps(self, keys: list[StencilKey], which: NDArray[Any], subjects: NDArray[Any]) -> None:
        self._which.append(which + len(self.keys))
        self._subjects.append(subjects)
        self.keys += keys

    def _append_plain_steps(self, name: str, pairs: list[tuple[int, int]]) -> None:
        """Append steps that share one stencil, each with the slot it reads and the slot it writes."""
        if pairs:
            subjects = np.array([read << 32 | written for read, written in pairs], np.int64)
            # The seed goes to the first register too, because no other number is in a register before it.
            writes = (1,) if name == "seed" else ()
            self._append_steps([StencilKey(PlainStep(name), writes=writes)], np.zeros(len(pairs), np.int64), subjects)

    def _append_forward_steps(self) -> None:
        columns = self.columns
        buffer_plan = self.buffer_plan
        n = len(columns.codes)
        arity = columns.starts[1:] - columns.starts[:-1]
        steps = np.flatnonzero(buffer_plan.live & (arity > 0))
        used, kinds, _ = number_keys(self._kinds.nodes[steps])
        keys = [kind for kind in (self._kinds.table[k] for k in used.tolist()) if kind is not None]
        wires = self._find_wires(steps, [arity[steps] > slot for slot in range(int(arity.max(initial=0)))])
        own, reads, stored = self._assign_forward_registers(n, steps, wires, self._count_register_losses(keys, kinds))
        which, rows = _group_alike_steps(kinds, own, stored, *reads)
        placed = list[StencilKey]()
        for kind, to, is_stored, *registers in rows:
            operands = tuple(registers[: len(keys[kind].types)])
            placed.append(StencilKey(keys[kind], operands, (to,), (bool(is_stored),)))
        self._append_steps(placed, which, steps)

    def _assign_forward_registers(
        self, n: int, steps: NDArray[np.intp], wires: list[_WireColumn], lost: NDArray[np.int32]
    ) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]], NDArray[np.bool_]]:
        """Return the register that each step writes, the register of each operand, and whether the value is stored."""
        now = np.arange(len(steps), dtype=np.int32)
        times = np.full(n, -1, np.int32)
        ends = np.full(n, -1, np.int32)
        times[steps] = now
        stored = self.buffer_plan.last >= n
        stored[self.columns.outputs] = True
        soon = list[NDArray[np.bool_]]()
        for has, sources in wires:
            written = times[sources]
            soon.append(has & (written >= 0) & can_stay_in_register(written, now, lost))
            np.maximum.at(ends, sources[soon[-1]], now[soon[-1]])
            stored[sources[has & ~soon[-1]]] = True
        own = np.zeros(n, np.uint8)
        own[steps] = assign_registers(now, ends[steps], len(steps))
        stored |= own == 0
        reads = [np.where(is_near, own[sources], 0) for is_near, (_, sources) in zip(soon, wires, strict=True)]
        return own[steps], reads, stored[steps]

    def _find_wires(self, steps: NDArray[np.intp], there: list[NDArray[np.bool_]]) -> list[_WireColumn]:
        """Return, for each input slot, which steps have a wire there and from which node."""
        columns = self.columns
        return [
            (has, columns.sources[np.where(has, columns.starts[steps] + slot, 0)]) for slot, has in enumerate(there)
        ]

    def _count_register_losses(self, keys: Sequence[StepKey], which: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return how often registers were lost before each step."""
        return count_register_losses(np.array([calls_function(key, self.real) for key in keys], np.bool_)[which])

    def _append_gradient_steps(self, root: int, inputs: NDArray[np.intp]) -> None:
        """Append the seed, the backward steps, and steps that store 0 for inputs that no gradient reached."""
        buffer_plan = self.buffer_plan
        reached = buffer_plan.reached[inputs]
        absent = buffer_plan.absent[inputs]
        self._append_plain_steps("zero", [(0, slot) for slot in buffer_plan.gradients[inputs[reached == 0]].tolist()])
        self._append_plain_steps("seed", [(0, int(buffer_plan.gradients[root]))] if buffer_plan.reached[root] else [])
        self._append_backward_steps()
        self._append_plain_steps("settle", [(0, slot) for slot in buffer_plan.gradients[inputs[(reached & absent) != 0]].tolist()])

    def _append_backward_steps(self) -> None:
        buffer_plan = self.buffer_plan
        steps = np.flatnonzero(buffer_plan.variants)[::-1]
        used, kinds, _ = number_keys(self._kinds.nodes[steps].astype(np.int64) << 16 | buffer_plan.variants[steps])
        keys = [self._decode_backward_step(code) for code in used.tolist()]
        most = max((len(key.ways) for key in keys), default=0)
        wires = self._find_wires(steps, [buffer_plan.variants[steps] >> 2 * slot & 3 != 0 for slot in range(most)])
        lost = self._count_register_losses(keys, kinds)
        arrived, before, after = _assign_backward_registers(len(buffer_plan.values), steps, wires, lost, self._root)
        which, rows = _group_alike_steps(kinds, arrived, *before.T, *after.T)
        placed = list[StencilKey]()
        for kind, *registers in rows:
            key = keys[kind]
            count = len(key.ways)
            writes = tuple(registers[1 + most : 1 + most + count])
            placed.append(StencilKey(key, tuple(registers[: 1 + count]), writes, tuple([not k for k in writes])))
        self._append_steps(placed, which, steps)

    def _decode_backward_step(self, code: int) -> BackwardStep:
        kind = self._kinds.table[code >> 16]
        assert kind is not None
        ways = tuple(code >> 2 * slot & 3 for slot in range(len(kind.types)))
        return BackwardStep(kind, bool(code >> plan.MASK_BIT & 1), ways)


_WireColumn = tuple[NDArray[np.bool_], NDArray[np.int32]]
"""Which steps have a wire in a slot, and the node at its other end."""


def _group_alike_steps(kinds: NDArray[np.int32], *columns: NDArray[Any]) -> tuple[NDArray[np.int32], list[list[int]]]:
    """Number the distinct rows of columns of small integers; return each step's number, and the row of each number."""
    _, which, examples = number_keys(kinds)
    for column in columns:
        # Codes are renumbered for each column, so that they stay small enough for a lookup table.
        _, which, examples = number_keys(which.astype(np.int64) * (WITHIN_STEP_REGISTER + 1) + column)
    return which, np.column_stack([column[examples] for column in (kinds, *columns)]).tolist()


def _assign_backward_registers(
    n: int, steps: NDArray[np.intp], wires: list[_WireColumn], lost: NDArray[np.int32], root: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the registers of each backward step: of what arrives, of the gradients it adds to, and of the sums.

    A gradient passes from the step that starts it to each step that adds to it, and finally to the backward step of its
    own node: in a register where that step is near, through the buffer otherwise.
    """
    count = len(steps)
    most = len(wires)
    times = np.full(n, -1, np.int32)
    names = np.full((count, most), -1, np.int32)
    times[steps] = np.arange(count, dtype=np.int32)
    for slot, (moves, sources) in enumerate(wires):
        # A step sends to the last input of its node first.
        names[:, most - 1 - slot] = np.where(moves, sources, -1)
    served = names.ravel()
    next_ = find_next_entries(served, n)
    goes_on = next_ >= 0
    # The seed comes before all steps, and is in the first register.
    starts = np.concatenate([[-1], np.repeat(np.arange(count), most)]).astype(np.int32)
    step = np.where(goes_on, next_ // max(most, 1), np.where(served >= 0, times[served], -1))
    ends = np.concatenate([times[[root]], step]).astype(np.int32)
    registers = assign_registers(starts, np.where(can_stay_in_register(starts, ends, lost), ends, -1), count)
    sent = registers[1:]
    sent[_find_undisturbed(next_, goes_on & (ends == starts)[1:])] = WITHIN_STEP_REGISTER
    before = np.zeros(len(served), np.uint8)
    arrived = np.zeros(n, np.uint8)
    before[next_[goes_on]] = sent[goes_on]
    last = ~goes_on & (sent > 0)
    arrived[served[last]] = sent[last]
    arrived[root] = registers[0]
    return arrived[steps], before.reshape(count, most)[:, ::-1], sent.reshape(count, most)[:, ::-1]


def _find_undisturbed(following: NDArray[np.int32], inside: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return which gradients that stay within one step can share one register: no other such gradient comes between."""
    passed = np.cumsum(inside)
    places = np.flatnonzero(inside)
    alone: NDArray[np.intp] = places[passed[following[places] - 1] == passed[places]]
    return alone
