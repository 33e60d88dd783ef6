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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmLoopWriter
from wiregrad.backends.native.stencils import (
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
    inputs: list[NDArray[Any]] = [
        question.starts,
        question.sources,
        question.kinds,
        question.roles,
        question.carries,
        question.sends,
        question.reads,
        question.outputs,
    ]
    results: list[NDArray[Any]] = [live, reached, absent, active, fixed, variants, last, stack, values, gradients]
    pointers = [array.ctypes.data for array in (*inputs, *results)]
    slots = _load_planner()(n, len(question.outputs), question.root, question.first, *pointers)
    return BufferPlan(live, variants, reached, absent, values, gradients, last, int(slots))


def compile_planner() -> None:
    """Compile the planner, unless that was done before."""
    _load_planner()


@cache
def _load_planner() -> Any:
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


def _write_planner() -> str:
    w = LlvmLoopWriter(_PLANNER_ARRAYS)
    _write_liveness(w)
    _write_activity(w)
    _write_backward_sweep(w)
    _write_forward_slots(w)
    _write_backward_slots(w)
    arguments = [
        *(f"i64 %{name}" for name in ("n", "m", "root", "first")),
        *(f"ptr noalias %{a}" for a in _PLANNER_ARRAYS),
    ]
    variables = [f"  %{name} = alloca i64" for name in ("top", "next", "a", "v", "moving")]
    head = [f"define i64 @plan({', '.join(arguments)}) {{", "entry:", *variables, "  store i64 0, ptr %top"]
    end = [f"  ret i64 {w.load_variable('next')}", "}"]
    # Writing `end` has appended a line to `w.lines`, so the body is complete only here.
    return "\n".join([*head, "  store i64 %first, ptr %next", *w.lines, *end])


@contextmanager
def _loop_over_wires(w: LlvmLoopWriter, node: str, *, down: bool = False) -> Iterator[tuple[str, str]]:
    """Write a loop over the inputs of a node; yields slot and source."""
    start = w.load_entry("starts", node)
    with w.loop_over(start, w.load_entry("starts", w.write_binary("add", node, "1")), down=down) as wire:
        yield w.write_binary("sub", wire, start), w.load_entry("sources", wire)


def _write_liveness(w: LlvmLoopWriter) -> None:
    """Write the pass that marks the nodes that outputs depend on, and when each value is last read going forward."""
    with w.loop_over("0", "%m") as k:
        w.store_entry("live", w.load_entry("outputs", k), "1")
    with (
        w.loop_over("0", "%n", down=True) as i,
        w.when_all(w.load_entry("live", i)),
        _loop_over_wires(w, i) as (_, source),
    ):
        w.store_entry("live", source, "1")
    with w.loop_over("0", "%n") as i, w.when_all(w.load_entry("live", i)), _loop_over_wires(w, i) as (_, source):
        w.store_entry("last", source, i)


def _write_activity(w: LlvmLoopWriter) -> None:
    """Write the pass that marks the nodes through which a gradient can reach an input."""
    with w.loop_over("0", "%n") as i:
        w.store_variable("a", w.write_comparison("eq", w.load_entry("roles", i), str(INPUT_ROLE)))
        with _loop_over_wires(w, i) as (_, source):
            w.store_variable("a", w.write_binary("or", w.load_variable("a"), w.load_entry("active", source)))
        w.store_entry("active", i, w.write_binary("and", w.load_variable("a"), w.load_entry("carries", i)))


def _write_backward_sweep(w: LlvmLoopWriter) -> None:
    """Write the pass back from the root: what is reached, how gradients meet, and what the backward steps read."""
    with w.when_all(w.write_comparison("sge", "%root", "0")):
        # An input that is itself the output has gradient 1, even if it is a condition.
        own = w.write_comparison("eq", w.load_entry("roles", "%root"), str(INPUT_ROLE))
        w.store_entry("reached", "%root", w.write_binary("or", w.load_entry("active", "%root"), own))
        with (
            w.loop_over("0", "%n", down=True) as i,
            w.when_all(w.load_entry("reached", i), w.write_comparison("eq", w.load_entry("roles", i), "0")),
        ):
            w.store_variable("v", w.write_binary("shl", w.load_entry("absent", i), str(MASK_BIT)))
            w.store_variable("moving", "0")
            with _loop_over_wires(w, i, down=True) as (slot, source):
                kind = w.write_binary("mul", w.load_entry("kinds", i), str(SENDS_PER_KIND))
                sent = w.load_entry("sends", w.write_binary("add", kind, slot))
                with w.when_all(sent, w.load_entry("active", source)):
                    _write_meeting_gradients(w, i, slot, source, sent)
            with w.when_all(w.load_variable("moving")):
                w.store_entry("variants", i, w.load_variable("v"))
                _write_last_reads(w, i)


def _write_meeting_gradients(w: LlvmLoopWriter, i: str, slot: str, source: str, sent: str) -> None:
    """Write how the gradient sent along one wire meets the gradient that its source already has."""
    may = w.write_binary("or", w.write_comparison("eq", sent, str(SENDS_MASKED)), w.load_entry("absent", i))
    seen = w.load_entry("reached", source)
    before = w.load_entry("absent", source)
    # STORE the first gradient, ADD to one that is present, MERGE with one that may be absent.
    met = w.write_binary("add", str(ADD_GRADIENT), w.write_binary("mul", before, str(MERGE_GRADIENT - ADD_GRADIENT)))
    way = w.emit_value(f"select i1 {w.emit_value(f'icmp ne i64 {seen}, 0')}, i64 {met}, i64 {STORE_GRADIENT}")
    kept = w.write_binary("and", may, w.write_binary("or", before, w.write_binary("xor", seen, "1")))
    w.store_entry("absent", source, kept)
    w.store_entry("reached", source, "1")
    w.store_variable(
        "v", w.write_binary("or", w.load_variable("v"), w.write_binary("shl", way, w.write_binary("mul", slot, "2")))
    )
    w.store_variable("moving", w.write_binary("or", w.load_variable("moving"), w.write_binary("shl", "1", slot)))


def _write_backward_time(w: LlvmLoopWriter, i: str) -> str:
    """Write the time of a node's backward step."""
    return w.write_binary("sub", w.write_binary("sub", w.write_binary("mul", "%n", "2"), "1"), i)


def _write_last_reads(w: LlvmLoopWriter, i: str) -> None:
    """Write the time of a backward step as the last read of the values it reads."""
    place = w.write_binary(
        "add", w.write_binary("mul", w.load_entry("kinds", i), str(1 << MAX_NODE_INPUTS)), w.load_variable("moving")
    )
    read = w.load_entry("reads", place)
    time = _write_backward_time(w, i)
    with (
        _loop_over_wires(w, i) as (slot, source),
        w.when_all(w.write_binary("and", w.write_binary("lshr", read, slot), "1")),
    ):
        w.store_entry("last", source, time)
    with w.when_all(w.write_binary("and", read, str(READS_OUTPUT))):
        w.store_entry("last", i, time)


def _write_slot_release(w: LlvmLoopWriter, node: str, time: str) -> None:
    """Write the release of a value's slot if this is its last read."""
    done = w.write_comparison("eq", w.load_entry("last", node), time)
    free = w.write_comparison("eq", w.load_entry("fixed", node), "0")
    with w.when_all(done, free):
        _write_slot_push(w, w.load_entry("values", node))
        w.store_entry("fixed", node, "1")


def _write_slot_push(w: LlvmLoopWriter, slot: str) -> None:
    top = w.load_variable("top")
    w.store_entry("stack", top, slot)
    w.store_variable("top", w.write_binary("add", top, "1"))


def _write_slot_choice(w: LlvmLoopWriter, array: str, node: str) -> None:
    """Write the choice of a slot for a node: the one released last, or a new one."""
    top = w.load_variable("top")
    with w.when_all(w.write_comparison("eq", top, "0")):
        fresh = w.load_variable("next")
        w.store_entry(array, node, fresh)
        w.store_variable("next", w.write_binary("add", fresh, "1"))
    with w.when_all(w.write_comparison("ne", top, "0")):
        below = w.write_binary("sub", top, "1")
        w.store_entry(array, node, w.load_entry("stack", below))
        w.store_variable("top", below)


def _write_forward_slots(w: LlvmLoopWriter) -> None:
    with (
        w.loop_over("0", "%n") as i,
        w.when_all(w.load_entry("live", i), w.write_comparison("eq", w.load_entry("roles", i), "0")),
    ):
        with _loop_over_wires(w, i) as (_, source):
            _write_slot_release(w, source, i)
        with w.when_all(w.write_comparison("eq", w.load_entry("fixed", i), "0")):
            _write_slot_choice(w, "values", i)


def _write_backward_slots(w: LlvmLoopWriter) -> None:
    with w.when_all(w.write_comparison("sge", "%root", "0")):
        with w.when_all(w.write_comparison("slt", w.load_entry("gradients", "%root"), "0")):
            _write_slot_choice(w, "gradients", "%root")
        with w.loop_over("0", "%n", down=True) as i, w.when_all(w.load_entry("variants", i)):
            time = _write_backward_time(w, i)
            variant = w.load_entry("variants", i)
            with _loop_over_wires(w, i) as (_, source):
                _write_slot_release(w, source, time)
            _write_slot_release(w, i, time)
            _write_slot_push(w, w.load_entry("gradients", i))
            with _loop_over_wires(w, i, down=True) as (slot, source):
                way = w.write_binary("and", w.write_binary("lshr", variant, w.write_binary("mul", slot, "2")), "3")
                missing = w.write_comparison("slt", w.load_entry("gradients", source), "0")
                with w.when_all(w.write_comparison("eq", way, str(STORE_GRADIENT)), missing):
                    _write_slot_choice(w, "gradients", source)


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
def _load_register_loops() -> list[Any]:
    assign, follow = jit.compile_functions(
        f"{_write_assign_loop()}\n{_write_follow_loop()}", "assign", "follow", level=1
    )
    parameters = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return [ctypes.CFUNCTYPE(None, *parameters, ctypes.c_int64)(assign), ctypes.CFUNCTYPE(None, *parameters)(follow)]


def _write_assign_loop() -> str:
    w = LlvmLoopWriter({"starts": "i32", "ends": "i32", "found": "i8", "busy": "i32", "owners": "i32"})
    with w.loop_over("0", "%count") as register:
        w.store_entry("busy", register, "-2147483648")
    with w.loop_over("0", "%n") as k, w.when_all(w.write_comparison("sge", w.load_entry("ends", k), "0")):
        _write_register_choice(w, k)
        with w.when_all(w.write_comparison("sge", w.load_variable("chosen"), "0")):
            w.store_entry("busy", w.load_variable("chosen"), w.load_entry("ends", k))
            w.store_entry("owners", w.load_variable("chosen"), k)
            w.store_entry("found", k, w.write_binary("add", w.load_variable("chosen"), "1"))
    head = [
        "define void @assign(i64 %n, ptr noalias %starts, ptr noalias %ends, ptr noalias %found, i64 %count) {",
        "entry:",
    ]
    variables = [f"  %{name} = alloca [{REGISTER_COUNT} x i32]" for name in ("busy", "owners")]
    variables += [f"  %{name} = alloca i64" for name in ("chosen", "longest")]
    return "\n".join([*head, *variables, *w.lines, "  ret void", "}"])


def _write_register_choice(w: LlvmLoopWriter, k: str) -> None:
    """Write the choice of a register: the first free one, else the one held longest if that is longer than needed."""
    w.store_variable("chosen", "-1")
    w.store_variable("longest", "0")
    with w.loop_over("0", "%count", down=True) as register:
        with w.when_all(w.write_comparison("sle", w.load_entry("busy", register), w.load_entry("starts", k))):
            w.store_variable("chosen", register)
        with w.when_all(
            w.write_comparison("sgt", w.load_entry("busy", register), w.load_entry("busy", w.load_variable("longest")))
        ):
            w.store_variable("longest", register)
    with w.when_all(
        w.write_comparison("slt", w.load_variable("chosen"), "0"),
        w.write_comparison("sgt", w.load_entry("busy", w.load_variable("longest")), w.load_entry("ends", k)),
    ):
        w.store_entry("found", w.load_entry("owners", w.load_variable("longest")), "0")
        w.store_variable("chosen", w.load_variable("longest"))


def _write_follow_loop() -> str:
    w = LlvmLoopWriter({"names": "i32", "seen": "i32", "found": "i32"})
    with w.loop_over("0", "%n", down=True) as k, w.when_all(w.write_comparison("sge", w.load_entry("names", k), "0")):
        name = w.load_entry("names", k)
        w.store_entry("found", k, w.load_entry("seen", name))
        w.store_entry("seen", name, k)
    head = [
        "define void @follow(i64 %n, ptr noalias %names, ptr noalias %seen, ptr noalias %found) {",
        "entry:",
    ]
    return "\n".join([*head, *w.lines, "  ret void", "}"])
