"""Liveness, activity, and allocation: which slot of the buffer or which register holds each value and gradient.

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
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    allocate_variable,
    loop_over,
    when_all,
)
from wiregrad.backends.native.step_kinds import (
    ADD_GRADIENT,
    MAX_NODE_INPUTS,
    MERGE_GRADIENT,
    REGISTER_COUNT,
    STORE_GRADIENT,
)

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
