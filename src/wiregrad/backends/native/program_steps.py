"""The steps of a native program in the order in which they run, and the slot or register of each value and gradient.

`plan_buffer` finds which nodes are needed, which gradients can flow, how each gradient meets what is already there, and
which slot of the working buffer each value and gradient has while it is still read. A node's inputs have smaller
indices, so each of these is one loop over the nodes, forward or backward. The loops are compiled once, because in
Python they would take longer than the rest of compiling a circuit. Time runs from 0 to n - 1 forward; the backward step
of node i comes at 2n - 1 - i. A value gives its slot back just before its last reader writes, so a chain of nodes works
in one slot.

`assign_registers` gives a number that is read again soon a register from the step that writes it to the step that reads
it; where there are too few, the one that would be held longest goes without. A step that calls a function loses all
registers, so nothing is held across a call. A number that goes through the buffer can be read about eight cycles later,
longer than an addition takes; registers shorten the longest chain of steps, which bounds circuits of plain arithmetic.

`find_node_kinds` groups the nodes that can share a stencil, and says what each kind sends back and reads for that.
`make_step_stream` lists the steps (forward, seed, backward), each with its stencil and the slots it uses; both tiers
are made from the resulting `StepStream`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    LlvmArray,
    LlvmValue,
    LlvmVariable,
    LlvmWriter,
    RealType,
    allocate_variable,
    loop_over,
    when_all,
)
from wiregrad.backends.native.step_kinds import (
    ADD_GRADIENT,
    FIRST_GRADIENT_HOLE,
    HOLE_COUNT,
    MAX_NODE_INPUTS,
    MERGE_GRADIENT,
    OUTPUT_HOLE,
    REGISTER_COUNT,
    STORE_GRADIENT,
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

OPERATION_ROLE = 0
INPUT_ROLE = 1
CONSTANT_ROLE = 2
"""The roles of nodes: operation, input or constant."""
SENDS_PLAIN = 1
"""A gradient that is sent whenever the upstream gradient is present."""
SENDS_MASKED = 2
"""A gradient that may be absent even if the upstream gradient is present."""
READS_OUTPUT = 1 << MAX_NODE_INPUTS
"""The bit in `reads` that says that a backward step reads its node's output."""
SENDS_PER_KIND = 8
"""Entries per kind in the table `sends`; the table `reads` has 1 << MAX_NODE_INPUTS."""
MASK_BIT = 2 * MAX_NODE_INPUTS
"""The bit in a variant that says that the upstream gradient may be absent."""


@dataclass(frozen=True, eq=False)
class BufferPlanInput:
    """The circuit as arrays, as the planner reads it."""

    starts: NDArray[np.int32]
    sources: NDArray[np.int32]
    kinds: NDArray[np.int32]
    roles: NDArray[np.uint8]
    carries: NDArray[np.uint8]
    """Whether gradients can flow along the wires of a node."""
    sends: NDArray[np.uint8]
    """By kind and input: 0 nothing, PLAIN or MASKED."""
    reads: NDArray[np.uint8]
    """By kind and set of inputs that a gradient is sent to: the operands (and output) that the backward step reads."""
    outputs: NDArray[np.int32]
    root: int
    """The node that the gradient starts from; -1: no gradient."""
    values: NDArray[np.int32]
    """Slots that are fixed beforehand (inputs, constants, outputs); -1: to be assigned."""
    gradients: NDArray[np.int32]
    first: int
    """The first free slot."""


@dataclass(frozen=True, eq=False)
class BufferPlan:
    """The planner's results, per node."""

    live: NDArray[np.uint8]
    variants: NDArray[np.uint16]
    """Two bits per input (STORE, ADD or MERGE its gradient) and MASK_BIT; 0: no backward step."""
    reached: NDArray[np.uint8]
    """Whether a gradient reaches a node."""
    absent: NDArray[np.uint8]
    """Whether the gradient of a node may be absent."""
    values: NDArray[np.int32]
    gradients: NDArray[np.int32]
    last: NDArray[np.int32]
    """The time at which the value of a node is last read; -1: never."""
    slots: int
    """The number of slots in the working buffer."""


def plan_buffer(question: BufferPlanInput) -> BufferPlan:
    """Plan the working buffer of a circuit."""
    n = len(question.kinds)
    live, reached, absent, active, fixed = (np.zeros(n, np.uint8) for _ in range(5))
    variants = np.zeros(n, np.uint16)
    last = np.full(n, -1, np.int32)
    stack = np.empty(2 * n + 1, np.int32)
    values = question.values.copy()
    gradients = question.gradients.copy()
    fixed[values >= 0] = 1
    inputs: list[NDArray[np.integer]] = [
        question.starts,
        question.sources,
        question.kinds,
        question.roles,
        question.carries,
        question.sends,
        question.reads,
        question.outputs,
    ]
    results: list[NDArray[np.integer]] = [
        live,
        reached,
        absent,
        active,
        fixed,
        variants,
        last,
        stack,
        values,
        gradients,
    ]
    pointers = [array.ctypes.data for array in (*inputs, *results)]
    slots = _load_planner()(n, len(question.outputs), question.root, question.first, *pointers)
    return BufferPlan(live, variants, reached, absent, values, gradients, last, int(slots))


def compile_planner() -> None:
    """Compile the planner, unless that was done before."""
    _load_planner()


@cache
def _load_planner() -> Callable[..., int]:
    address = jit.compile_functions(_write_planner(), "plan", level=1)[0]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 18)(address)


_PLANNER_ARRAYS = {
    **dict.fromkeys(["starts", "sources", "kinds"], "i32"),
    **dict.fromkeys(["roles", "carries", "sends", "reads"], "i8"),
    "outputs": "i32",
    **dict.fromkeys(["live", "reached", "absent", "active", "fixed"], "i8"),
    "variants": "i16",
    **dict.fromkeys(["last", "stack", "values", "gradients"], "i32"),
}


@dataclass(frozen=True, eq=False)
class _PlannerText:
    """The planner while it is written: its parameters, and the variables that its loops change."""

    writer: LlvmWriter
    arrays: dict[str, LlvmArray]
    nodes: LlvmValue
    root: LlvmValue
    top: LlvmVariable
    """The number of free slots on the stack."""
    fresh: LlvmVariable
    """The first slot that was never used."""

    def find_backward_time(self, node: LlvmValue) -> LlvmValue:
        """Write the time of a node's backward step."""
        return self.nodes * 2 - 1 - node

    @contextmanager
    def loop_over_wires(self, node: LlvmValue, *, down: bool = False) -> Iterator[tuple[LlvmValue, LlvmValue]]:
        """Write a loop over the inputs of a node; yields slot and source."""
        starts = self.arrays["starts"]
        start = starts[node]
        with loop_over(start, starts[node + 1], down=down) as wire:
            yield wire - start, self.arrays["sources"][wire]


def _write_planner() -> str:
    w = LlvmWriter()
    sizes = [w.name_value(f"%{name}", "i64") for name in ("n", "m", "root", "first")]
    n, m, root, first = sizes
    parameters = [*(size.typed for size in sizes), *(f"ptr noalias %{name}" for name in _PLANNER_ARRAYS)]
    w.begin_function(f"i64 @plan({', '.join(parameters)})")
    arrays = {name: LlvmArray(w.name_value(f"%{name}", "ptr"), width) for name, width in _PLANNER_ARRAYS.items()}
    top, fresh, any_active, variant, moving = (allocate_variable(w) for _ in range(5))
    p = _PlannerText(w, arrays, n, root, top, fresh)
    p.top.store(0)
    p.fresh.store(first)
    _write_liveness(p, m)
    _write_activity(p, any_active)
    _write_backward_sweep(p, variant, moving)
    _write_forward_slots(p)
    _write_backward_slots(p)
    w.end_function(p.fresh.load())
    return w.format_module()


def _as_number(condition: LlvmValue) -> LlvmValue:
    """Write a condition as 1 or 0."""
    return condition.convert("zext", "i64")


def _write_liveness(p: _PlannerText, outputs: LlvmValue) -> None:
    """Write the pass that marks the nodes that outputs depend on, and when each value is last read going forward."""
    live = p.arrays["live"]
    with loop_over(0, outputs) as k:
        live[p.arrays["outputs"][k]] = 1
    with loop_over(0, p.nodes, down=True) as i, when_all(live[i]), p.loop_over_wires(i) as (_, source):
        live[source] = 1
    with loop_over(0, p.nodes) as i, when_all(live[i]), p.loop_over_wires(i) as (_, source):
        p.arrays["last"][source] = i


def _write_activity(p: _PlannerText, any_active: LlvmVariable) -> None:
    """Write the pass that marks the nodes through which a gradient can reach an input."""
    active = p.arrays["active"]
    with loop_over(0, p.nodes) as i:
        any_active.store(_as_number(p.arrays["roles"][i].is_equal_to(INPUT_ROLE)))
        with p.loop_over_wires(i) as (_, source):
            any_active.store(any_active.load() | active[source])
        active[i] = any_active.load() & p.arrays["carries"][i]


def _write_backward_sweep(p: _PlannerText, variant: LlvmVariable, moving: LlvmVariable) -> None:
    """Write the pass back from the root: what is reached, how gradients meet, and what the backward steps read."""
    roles = p.arrays["roles"]
    active = p.arrays["active"]
    reached = p.arrays["reached"]
    with when_all(p.root >= 0):
        # An input that is itself the output has gradient 1, even if it is a condition.
        is_input = roles[p.root].is_equal_to(INPUT_ROLE)
        reached[p.root] = active[p.root] | _as_number(is_input)
        with (
            loop_over(0, p.nodes, down=True) as i,
            when_all(reached[i], roles[i].is_equal_to(OPERATION_ROLE)),
        ):
            variant.store(p.arrays["absent"][i] << MASK_BIT)
            moving.store(0)
            with p.loop_over_wires(i, down=True) as (slot, source):
                sent = p.arrays["sends"][p.arrays["kinds"][i] * SENDS_PER_KIND + slot]
                with when_all(sent, active[source]):
                    way = _write_meeting_gradients(p, i, source, sent)
                    variant.store(variant.load() | way << slot * 2)
                    moving.store(moving.load() | p.writer.as_value(1, "i64") << slot)
            with when_all(moving.load()):
                p.arrays["variants"][i] = variant.load()
                _write_last_reads(p, i, moving.load())


def _write_meeting_gradients(p: _PlannerText, node: LlvmValue, source: LlvmValue, sent: LlvmValue) -> LlvmValue:
    """Write how the gradient sent along one wire meets the gradient that its source already has."""
    absent = p.arrays["absent"]
    reached = p.arrays["reached"]
    may_be_absent = _as_number(sent.is_equal_to(SENDS_MASKED)) | absent[node]
    seen = reached[source]
    before = absent[source]
    # STORE the first gradient, ADD to one that is present, MERGE with one that may be absent.
    met = before * (MERGE_GRADIENT - ADD_GRADIENT) + ADD_GRADIENT
    way = p.writer.select(seen.is_nonzero(), met, STORE_GRADIENT)
    absent[source] = may_be_absent & (before | seen ^ 1)
    reached[source] = 1
    return way


def _write_last_reads(p: _PlannerText, node: LlvmValue, moving: LlvmValue) -> None:
    """Write the time of a backward step as the last read of the values it reads."""
    last = p.arrays["last"]
    read = p.arrays["reads"][p.arrays["kinds"][node] * (1 << MAX_NODE_INPUTS) + moving]
    time = p.find_backward_time(node)
    with p.loop_over_wires(node) as (slot, source), when_all(read >> slot & 1):
        last[source] = time
    with when_all(read & READS_OUTPUT):
        last[node] = time


def _write_slot_release(p: _PlannerText, node: LlvmValue, time: LlvmValue) -> None:
    """Write the release of a value's slot if this is its last read."""
    fixed = p.arrays["fixed"]
    with when_all(p.arrays["last"][node].is_equal_to(time), fixed[node].is_equal_to(0)):
        _write_slot_push(p, p.arrays["values"][node])
        fixed[node] = 1


def _write_slot_push(p: _PlannerText, slot: LlvmValue) -> None:
    top = p.top.load()
    p.arrays["stack"][top] = slot
    p.top.store(top + 1)


def _write_slot_choice(p: _PlannerText, array: str, node: LlvmValue) -> None:
    """Write the choice of a slot for a node: the one released last, or a new one."""
    slots = p.arrays[array]
    top = p.top.load()
    with when_all(top.is_equal_to(0)):
        fresh = p.fresh.load()
        slots[node] = fresh
        p.fresh.store(fresh + 1)
    with when_all(top):
        below = top - 1
        slots[node] = p.arrays["stack"][below]
        p.top.store(below)


def _write_forward_slots(p: _PlannerText) -> None:
    with (
        loop_over(0, p.nodes) as i,
        when_all(p.arrays["live"][i], p.arrays["roles"][i].is_equal_to(OPERATION_ROLE)),
    ):
        with p.loop_over_wires(i) as (_, source):
            _write_slot_release(p, source, i)
        with when_all(p.arrays["fixed"][i].is_equal_to(0)):
            _write_slot_choice(p, "values", i)


def _write_backward_slots(p: _PlannerText) -> None:
    gradients = p.arrays["gradients"]
    variants = p.arrays["variants"]
    with when_all(p.root >= 0):
        with when_all(gradients[p.root] < 0):
            _write_slot_choice(p, "gradients", p.root)
        with loop_over(0, p.nodes, down=True) as i, when_all(variants[i]):
            time = p.find_backward_time(i)
            variant = variants[i]
            with p.loop_over_wires(i) as (_, source):
                _write_slot_release(p, source, time)
            _write_slot_release(p, i, time)
            _write_slot_push(p, gradients[i])
            with p.loop_over_wires(i, down=True) as (slot, source):
                way = variant >> slot * 2 & 3
                with when_all(way.is_equal_to(STORE_GRADIENT), gradients[source] < 0):
                    _write_slot_choice(p, "gradients", source)


MAX_STEPS_IN_REGISTER = 36
"""Maximum number of steps for which a register is held."""
LONG_PROGRAM_STEPS = 6_000
"""Programs with more steps than this use only `LONG_PROGRAM_REGISTERS` registers.

More registers would need many more stencils for little speed.
"""
LONG_PROGRAM_REGISTERS = 3


def count_register_losses(calling: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return how often registers were lost before each step; `calling` says whether a step calls a function.

    >>> count_register_losses(np.array([False, True, False])).tolist()
    [0, 0, 1, 1]
    """
    return np.concatenate([[0], np.cumsum(calling)]).astype(np.int32)


def can_stay_in_register(
    starts: NDArray[np.int32], ends: NDArray[np.int32], lost: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return which numbers, written at `starts`, can still be in a register at `ends`.

    `lost` is the result of `count_register_losses`. A number that is never read has an end before its start.

    >>> lost = count_register_losses(np.array([False, True, False]))
    >>> can_stay_in_register(np.array([0, 1, 0], np.int32), np.array([2, 2, 1], np.int32), lost).tolist()
    [False, True, True]
    """
    soon = (ends > starts) & (ends - starts <= MAX_STEPS_IN_REGISTER)
    # A number is written after the call of its own step, and read before the call of its reader.
    kept: NDArray[np.bool_] = lost[np.where(soon, ends, 0)] == lost[np.where(soon, starts + 1, 0)]
    return soon & kept


def assign_registers(starts: NDArray[np.int32], ends: NDArray[np.int32], steps: int = 0) -> NDArray[np.uint8]:
    """Return registers, counted from 1, for numbers written at `starts` (in order) and last read at `ends`; 0: none.

    A number that needs no register has the end -1. `steps` is the length of the program.

    >>> assign_registers(np.array([0, 1, 2], np.int32), np.array([2, -1, 3], np.int32)).tolist()
    [1, 0, 1]
    """
    first = np.ascontiguousarray(starts, np.int32)
    last = np.ascontiguousarray(ends, np.int32)
    registers = np.zeros(len(starts), np.uint8)
    count = LONG_PROGRAM_REGISTERS if steps > LONG_PROGRAM_STEPS else REGISTER_COUNT
    _load_register_loops()[0](len(starts), first.ctypes.data, last.ctypes.data, registers.ctypes.data, count)
    return registers


def find_next_entries(names: NDArray[np.int32], most: int) -> NDArray[np.int32]:
    """Return, for each entry, the next one with the same name, -1 if there is none; names are below `most`.

    An entry whose name is -1 has none.

    >>> find_next_entries(np.array([0, 1, -1, 0], np.int32), 2).tolist()
    [3, -1, -1, -1]
    """
    entries = np.ascontiguousarray(names, np.int32)
    seen = np.full(most, -1, np.int32)
    successors = np.full(len(names), -1, np.int32)
    _load_register_loops()[1](len(names), entries.ctypes.data, seen.ctypes.data, successors.ctypes.data)
    return successors


def compile_register_loops() -> None:
    """Compile the loops, unless that was done before."""
    _load_register_loops()


@cache
def _load_register_loops() -> tuple[Callable[..., None], Callable[..., None]]:
    w = LlvmWriter()
    _write_assign_loop(w)
    _write_follow_loop(w)
    assign, follow = jit.compile_functions(w.format_module(), "assign", "follow", level=1)
    parameters = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return ctypes.CFUNCTYPE(None, *parameters, ctypes.c_int64)(assign), ctypes.CFUNCTYPE(None, *parameters)(follow)


class _RegisterText(NamedTuple):
    """The arrays of `assign` while it is written."""

    starts: LlvmArray
    ends: LlvmArray
    registers: LlvmArray
    busy: LlvmArray
    """By register: the time until which it is held."""
    owners: LlvmArray
    """By register: the number that it holds."""


def _write_assign_loop(w: LlvmWriter) -> None:
    head = "void @assign(i64 %n, ptr noalias %starts, ptr noalias %ends, ptr noalias %registers, i64 %count)"
    w.begin_function(head)
    starts, ends, registers = (w.name_value(f"%{name}", "ptr") for name in ("starts", "ends", "registers"))
    busy, owners = (w.emit_value("ptr", f"alloca [{REGISTER_COUNT} x i32]") for _ in range(2))
    chosen = allocate_variable(w)
    longest = allocate_variable(w)
    count = w.name_value("%count", "i64")
    r = _RegisterText(
        LlvmArray(starts, "i32"),
        LlvmArray(ends, "i32"),
        LlvmArray(registers, "i8"),
        LlvmArray(busy, "i32"),
        LlvmArray(owners, "i32"),
    )
    with loop_over(0, count) as register:
        r.busy[register] = -(2**31)
    with loop_over(0, w.name_value("%n", "i64")) as k, when_all(r.ends[k] >= 0):
        _write_register_choice(r, k, count, chosen, longest)
        with when_all(chosen.load() >= 0):
            r.busy[chosen.load()] = r.ends[k]
            r.owners[chosen.load()] = k
            r.registers[k] = chosen.load() + 1
    w.end_function()


def _write_register_choice(
    r: _RegisterText, k: LlvmValue, count: LlvmValue, chosen: LlvmVariable, longest: LlvmVariable
) -> None:
    """Write the choice of a register: the first free one, else the one held longest if that is longer than needed."""
    chosen.store(-1)
    longest.store(0)
    with loop_over(0, count, down=True) as register:
        with when_all(r.busy[register] <= r.starts[k]):
            chosen.store(register)
        with when_all(r.busy[register] > r.busy[longest.load()]):
            longest.store(register)
    with when_all(chosen.load() < 0, r.busy[longest.load()] > r.ends[k]):
        r.registers[r.owners[longest.load()]] = 0
        chosen.store(longest.load())


def _write_follow_loop(w: LlvmWriter) -> None:
    w.begin_function("void @follow(i64 %n, ptr noalias %names, ptr noalias %seen, ptr noalias %following)")
    names, seen, following = (
        LlvmArray(w.name_value(f"%{name}", "ptr"), "i32") for name in ("names", "seen", "following")
    )
    with loop_over(0, w.name_value("%n", "i64"), down=True) as k, when_all(names[k] >= 0):
        name = names[k]
        following[k] = seen[name]
        seen[name] = k
    w.end_function()


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
    ops = np.zeros(len(TABLE.by_code()), np.bool_)
    numbers = np.zeros(circuit.size, np.int64)
    if columns.constants:
        used = np.bincount(columns.codes).nonzero()[0]
        ops[used] = [_is_costly(TABLE.by_code()[code]) for code in used.tolist()]
    if ops.any():
        known = {pair: k for k, pair in enumerate(_INLINED_CONSTANTS, 1)}
        numbers[columns.constant_nodes] = [
            known.get((float(value), bool(np.signbit(value))), 0) if isinstance(value, float | np.floating) else 0
            for value in columns.constants
        ]
    return _InlinedConstants(ops, numbers)


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
    sends = np.zeros((len(kinds.table), SENDS_PER_KIND), np.uint8)
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
        sent[slot] = SENDS_PLAIN if mask is None else SENDS_MASKED
    sending = sum(1 << slot for slot in masks)
    return sent, [_find_backward_reads(kind, moving & sending) for moving in range(1 << count)]


def _find_backward_reads(kind: NodeKind, moving: int) -> int:
    slots = lower_backward(kind, moving).needed
    count = len(kind.types)
    return sum(1 << k for k in range(count) if k in slots) | (READS_OUTPUT if count in slots else 0)


def number_keys(keys: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.intp]]:
    """Return the distinct keys in order, the index of each entry's key among them, and one entry for each key."""
    most = int(keys.max(initial=0)) + 1
    if most > 16 * len(keys) + 2**16:
        return _number_sparse_keys(keys)
    examples = np.full(most, -1, np.int32)
    examples[keys] = np.arange(len(keys), dtype=np.int32)
    used = np.flatnonzero(examples >= 0)
    entries = examples[used].astype(np.intp)
    examples[used] = np.arange(len(used), dtype=np.int32)
    return used, examples[keys], entries


def _number_sparse_keys(
    keys: NDArray[np.integer],
) -> tuple[NDArray[np.integer], NDArray[np.int32], NDArray[np.intp]]:
    """Number keys by sorting them; `np.unique` would import all of numpy.ma."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    is_new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    which = np.empty(len(keys), np.int32)
    which[order] = np.cumsum(is_new) - 1
    return ordered[is_new], which, order[is_new]


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
    buffer_plan: BufferPlan,
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
    buffer_plan: BufferPlan
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
        return BackwardStep(kind, bool(code >> MASK_BIT & 1), ways)


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
