"""The steps of a native program in the order in which they run, made from the nodes of a circuit.

`find_node_kinds` groups the nodes that can share a stencil, and says what each kind sends back and reads for that.
`make_step_stream` lists the steps (forward, seed, backward), each with its stencil and the slots it uses; both tiers
are made from the resulting `StepStream`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import allocation
from wiregrad.backends.native.allocation import (
    assign_registers,
    can_stay_in_register,
    count_register_losses,
    find_next_entries,
)
from wiregrad.backends.native.llvm_writer import RealType
from wiregrad.backends.native.step_kinds import (
    FIRST_GRADIENT_HOLE,
    HOLE_COUNT,
    MAX_NODE_INPUTS,
    OUTPUT_HOLE,
    UPSTREAM_HOLE,
    WITHIN_STEP_REGISTER,
    BackwardStep,
    NodeKind,
    PlainStep,
    StencilKey,
    StepKey,
    calls_function,
    lower_backward,
)
from wiregrad.codegen.op_forms import INLINE_CONSTANTS, require_scalar_text
from wiregrad.errors import NoRuleError, NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitColumns, CircuitGraph, Op
from wiregrad.ops.c_expressions import CallExpression, ChoiceExpression, parse_c_text, walk_expression

_INLINED_CONSTANTS = [(value, value < 0) for value in sorted(INLINE_CONSTANTS)] + [(-0.0, True)]
"""Constants that are inlined into stencils, each with its sign."""


class NodeKinds(NamedTuple):
    """The table of node kinds (None: input or constant), and the index of each node's kind."""

    table: list[NodeKind | None]
    nodes: NDArray[np.int32]


class _InlinedConstants(NamedTuple):
    """Where constants are inlined into stencils: for which ops, and the number of each constant node (0: none)."""

    ops: NDArray[np.bool_]
    numbers: NDArray[np.int64]


def find_node_kinds(circuit: CircuitGraph) -> NodeKinds:
    """Group the nodes of a circuit into kinds that share stencils.

    >>> from wiregrad.ir import parse_text
    >>> kinds = find_node_kinds(parse_text("input x\\ny = exp x\\nz = exp y\\noutput z"))
    >>> kinds.nodes.tolist()
    [0, 1, 1]
    """
    columns = circuit.columns
    lengths = np.diff(columns.starts)
    width = len(columns.type_table)
    inlined = _find_inlined_constants(circuit)
    most = _count_inputs(circuit, lengths)
    key = columns.codes.astype(np.int64) * width + columns.types
    if columns.modes is not None:
        key = key * 256 + columns.modes
    if columns.settings.index is not None:
        key = key * (len(columns.settings.table) + 1) + columns.settings.index + 1
    first = columns.starts[:-1].astype(np.int64)
    costly = inlined.ops[columns.codes]
    for slot in range(most):
        has = lengths > slot
        sources = columns.sources[np.where(has, first + slot, 0)]
        part = columns.types[sources] + np.where(costly, inlined.numbers[sources], 0) * width
        # Keys are renumbered for each slot, so that they stay small enough for a lookup table.
        key = number_keys(key * (width * (len(_INLINED_CONSTANTS) + 1)) + np.where(has, part, 0))[1].astype(np.int64)
    _, nodes, examples = number_keys(key)
    return NodeKinds([_make_node_kind(circuit, node, inlined) for node in examples.tolist()], nodes)


def _count_inputs(circuit: CircuitGraph, lengths: NDArray[np.int32]) -> int:
    """Return the largest number of inputs of a node; raise `NotNativeError` if native code does not support it."""
    most = int(lengths.max(initial=0))
    if most > MAX_NODE_INPUTS:
        op = circuit.op_of(int(np.argmax(lengths)))
        raise NotNativeError(f"{op.title} has {most} inputs; native code supports at most {MAX_NODE_INPUTS}")
    return most


def _find_inlined_constants(circuit: CircuitGraph) -> _InlinedConstants:
    columns = circuit.columns
    ops = _find_costly_ops()
    numbers = np.zeros(circuit.size, np.int64)
    if len(columns.constants) and ops[np.unique(columns.codes)].any():
        known = {pair: k for k, pair in enumerate(_INLINED_CONSTANTS, 1)}
        numbers[columns.constant_nodes] = [
            known.get((float(value), bool(np.signbit(value))), 0) if isinstance(value, float | np.floating) else 0
            for value in columns.constants
        ]
    return _InlinedConstants(ops, numbers)


def _find_costly_ops() -> NDArray[np.bool_]:
    return np.array([_is_costly(op) for op in TABLE.by_code()])


@cache
def _is_costly(op: Op) -> bool:
    """Return whether inlining a constant operand can save an op more than a load: a call, or a choice."""
    text = getattr(op, "c", "")
    return (
        bool(text)
        and len(op.inputs) > 1
        and any(isinstance(part, CallExpression | ChoiceExpression) for part in walk_expression(parse_c_text(text)))
    )


def _make_node_kind(circuit: CircuitGraph, node: int, inlined: _InlinedConstants) -> NodeKind | None:
    op = circuit.op_of(node)
    if op in (INPUT, CONSTANT):
        return None
    try:
        require_scalar_text(op)
    except NoRuleError:
        library = getattr(op, "library", "")
        reason = f"it is computed by {library}" if library else "its record has no scalar C text"
        raise NotNativeError(f"native code cannot compute {op.title}: {reason}") from None
    columns = circuit.columns
    sources = circuit.sources_of(node)
    mode = 0 if columns.modes is None else int(columns.modes[node])
    numbers = [int(inlined.numbers[source]) if inlined.ops[columns.codes[node]] else 0 for source in sources]
    constants = tuple((slot, *_INLINED_CONSTANTS[k - 1]) for slot, k in enumerate(numbers) if k)
    return NodeKind(op, mode, tuple(circuit.type_of(source) for source in sources), circuit.type_of(node), constants)


def make_backward_tables(kinds: NodeKinds) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the planner's tables: what each kind sends back along each wire, and what it reads to compute that."""
    sends = np.zeros((len(kinds.table), allocation.SENDS_PER_KIND), np.uint8)
    reads = np.zeros((len(kinds.table), 1 << MAX_NODE_INPUTS), np.uint8)
    for k, kind in enumerate(kinds.table):
        if kind is not None:
            try:
                sent, read = _find_backward_facts(kind)
            except NoRuleError as error:
                raise NotNativeError(f"the backward rule of {kind.op.title} has no scalar C text ({error})") from None
            sends[k, : len(sent)] = sent
            reads[k, : len(read)] = read
    return sends, reads


@cache
def _find_backward_facts(kind: NodeKind) -> tuple[list[int], list[int]]:
    """Return what a kind sends along each wire, and what it reads for every set of wires that it sends along."""
    count = len(kind.types)
    carried = [slot for slot in range(count) if kind.types[slot].differentiable]
    masks = {one.slot: one.mask for one in kind.backward_rule(sum(1 << slot for slot in carried)).sent}
    sent = [0] * count
    for slot, mask in masks.items():
        sent[slot] = allocation.SENDS_PLAIN if mask is None else allocation.SENDS_MASKED
    sending = sum(1 << slot for slot in masks)
    return sent, [_find_backward_reads(kind, moving & sending) for moving in range(1 << count)]


def _find_backward_reads(kind: NodeKind, moving: int) -> int:
    slots = lower_backward(kind, moving).needed
    count = len(kind.types)
    return sum(1 << k for k in range(count) if k in slots) | (allocation.READS_OUTPUT if count in slots else 0)


def number_keys(keys: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.intp]]:
    """Return the distinct keys in order, the index of each entry's key among them, and one entry for each key."""
    most = int(keys.max(initial=0)) + 1
    if most > 16 * len(keys) + 2**16:
        used, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return used, which.astype(np.int32), first
    examples = np.full(most, -1, np.int32)
    examples[keys] = np.arange(len(keys), dtype=np.int32)
    used = np.flatnonzero(examples >= 0)
    entries = examples[used].astype(np.intp)
    examples[used] = np.arange(len(used), dtype=np.int32)
    return used, examples[keys], entries


class StepStream:
    """The steps of a program: the stencil of each, and the subject whose slots fill its holes.

    Forward steps come in order, then the seed, then backward steps in reverse. A subject is a node, or, for a step that
    belongs to no node, the slot it reads and the slot it writes. A number that is read again soon has a register; one
    that is only read from its register is not written to the buffer.
    """

    def __init__(self, circuit: CircuitGraph, steps: _StepCollector) -> None:
        self.real = steps.real
        self.inputs = len(circuit.inputs)
        self.outputs = len(circuit.outputs)
        self.columns = circuit.columns
        self.buffer_plan = steps.buffer_plan
        self.keys = steps.keys
        """The stencils of the program, each once."""
        self.which = np.concatenate(steps.which).astype(np.int32)
        """The index of each step's stencil in `keys`."""
        self.subjects = np.concatenate(steps.subjects)
        self._most = int(np.diff(circuit.columns.starts).max(initial=0))
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


def make_step_stream(
    circuit: CircuitGraph,
    kinds: NodeKinds,
    buffer_plan: allocation.BufferPlan,
    real: RealType,
    root: int,
    copies: list[tuple[int, int]],
) -> StepStream:
    """Return the steps of a program; `root` is the node that the gradient starts from, -1 for none.

    `copies` are outputs whose value is in another slot, and the slot that they are copied to.
    """
    steps = _StepCollector(circuit.columns, kinds, buffer_plan, real, root)
    steps.append_plain_steps("begin", [(0, 0)])
    steps.append_forward_steps()
    steps.append_plain_steps("copy", [(int(buffer_plan.values[node]), slot) for node, slot in copies])
    if root >= 0:
        steps.append_gradient_steps(np.array(circuit.input_indices(), np.intp))
    steps.append_plain_steps("return", [(0, 0)])
    return StepStream(circuit, steps)


@dataclass(eq=False)
class _StepCollector:
    """Collects the steps of a program: which stencil each needs, and which registers it reads and writes."""

    columns: CircuitColumns
    kinds: NodeKinds
    buffer_plan: allocation.BufferPlan
    real: RealType
    root: int
    keys: list[StencilKey] = field(default_factory=list)
    which: list[NDArray[np.integer]] = field(default_factory=list)
    subjects: list[NDArray[np.integer]] = field(default_factory=list)

    def _append_steps(self, keys: list[StencilKey], which: NDArray[np.integer], subjects: NDArray[np.integer]) -> None:
        """Append steps: their stencils, and for each step the index of its stencil among these and its subject."""
        self.which.append(which + len(self.keys))
        self.subjects.append(subjects)
        self.keys += keys

    def append_plain_steps(self, name: str, pairs: list[tuple[int, int]]) -> None:
        """Append steps that share one stencil, each with the slot it reads and the slot it writes."""
        if pairs:
            subjects = np.array([read << 32 | written for read, written in pairs], np.int64)
            # The seed goes to the first register too, because no other number is in a register before it.
            writes = (1,) if name == "seed" else ()
            self._append_steps([StencilKey(PlainStep(name), writes=writes)], np.zeros(len(pairs), np.int64), subjects)

    def append_forward_steps(self) -> None:
        """Append a step for every node that outputs depend on."""
        columns = self.columns
        buffer_plan = self.buffer_plan
        n = len(columns.codes)
        arity = columns.starts[1:] - columns.starts[:-1]
        steps = np.flatnonzero(buffer_plan.live & (arity > 0))
        used, kinds, _ = number_keys(self.kinds.nodes[steps])
        keys = [kind for kind in (self.kinds.table[k] for k in used.tolist()) if kind is not None]
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
            starts = times[sources]
            soon.append(has & (starts >= 0) & can_stay_in_register(starts, now, lost))
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

    def append_gradient_steps(self, inputs: NDArray[np.intp]) -> None:
        """Append the seed, the backward steps, and steps that store 0 for inputs that no gradient reached."""
        buffer_plan = self.buffer_plan
        reached = buffer_plan.reached[inputs]
        absent = buffer_plan.absent[inputs]
        self.append_plain_steps("zero", [(0, slot) for slot in buffer_plan.gradients[inputs[reached == 0]].tolist()])
        self.append_plain_steps(
            "seed", [(0, int(buffer_plan.gradients[self.root]))] if buffer_plan.reached[self.root] else []
        )
        self._append_backward_steps()
        self.append_plain_steps(
            "settle", [(0, slot) for slot in buffer_plan.gradients[inputs[(reached & absent) != 0]].tolist()]
        )

    def _append_backward_steps(self) -> None:
        buffer_plan = self.buffer_plan
        steps = np.flatnonzero(buffer_plan.variants)[::-1]
        used, kinds, _ = number_keys(self.kinds.nodes[steps].astype(np.int64) << 16 | buffer_plan.variants[steps])
        keys = [self._decode_backward_step(code) for code in used.tolist()]
        most = max((len(key.ways) for key in keys), default=0)
        wires = self._find_wires(steps, [buffer_plan.variants[steps] >> 2 * slot & 3 != 0 for slot in range(most)])
        lost = self._count_register_losses(keys, kinds)
        arrived, before, after = _assign_backward_registers(len(buffer_plan.values), steps, wires, lost, self.root)
        which, rows = _group_alike_steps(kinds, arrived, *before.T, *after.T)
        placed = list[StencilKey]()
        for kind, *registers in rows:
            key = keys[kind]
            count = len(key.ways)
            writes = tuple(registers[1 + most : 1 + most + count])
            placed.append(StencilKey(key, tuple(registers[: 1 + count]), writes, tuple([not k for k in writes])))
        self._append_steps(placed, which, steps)

    def _decode_backward_step(self, code: int) -> BackwardStep:
        kind = self.kinds.table[code >> 16]
        assert kind is not None
        ways = tuple(code >> 2 * slot & 3 for slot in range(len(kind.types)))
        return BackwardStep(kind, bool(code >> allocation.MASK_BIT & 1), ways)


_WireColumn = tuple[NDArray[np.bool_], NDArray[np.int32]]
"""Which steps have a wire in a slot, and the node at its other end."""


def _group_alike_steps(
    kinds: NDArray[np.int32], *columns: NDArray[np.integer] | NDArray[np.bool_]
) -> tuple[NDArray[np.int32], list[list[int]]]:
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
