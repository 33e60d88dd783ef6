"""The buffer plan: liveness, gradient flow, and the slot of each value and gradient, found by compiled loops.

The plan says which nodes are needed, which gradients can flow, how each gradient meets what is already there, and which
slot of the working buffer each value and each gradient has while it is still read. A node's inputs have smaller
indices, so each of these is one loop over the nodes, forward or backward. The loops are compiled once, because in
Python they would take longer than the rest of compiling a circuit.

Time runs from 0 to n - 1 forward, and the backward step of node i comes at 2n - 1 - i. A value gives its slot back just
before its last reader writes, so a chain of nodes works in one slot.
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

from wiregrad.backends.native import machine
from wiregrad.backends.native.loops import LlvmLoopWriter
from wiregrad.backends.native.stencils import ADD_GRADIENT, MERGE_GRADIENT, MAX_NODE_INPUTS, STORE_GRADIENT

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
"""Entries per kind in the table `sends`; the table `reads` has 1 << MOST_INPUTS."""
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
    address = machine.compile_functions(_write_planner(), "plan", level=1)[0]
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
    arguments = [*(f"i64 %{name}" for name in ("n", "m", "root", "first")), *(f"ptr noalias %{a}" for a in _PLANNER_ARRAYS)]
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
    with w.loop_over("0", "%n", down=True) as i, w.when_all(w.load_entry("live", i)), _loop_over_wires(w, i) as (_, source):
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
        with w.loop_over("0", "%n", down=True) as i, w.when_all(w.load_entry("reached", i), w.write_comparison("eq", w.load_entry("roles", i), "0")):
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
    w.store_variable("v", w.write_binary("or", w.load_variable("v"), w.write_binary("shl", way, w.write_binary("mul", slot, "2"))))
    w.store_variable("moving", w.write_binary("or", w.load_variable("moving"), w.write_binary("shl", "1", slot)))


def _write_backward_time(w: LlvmLoopWriter, i: str) -> str:
    """Write the time of a node's backward step."""
    return w.write_binary("sub", w.write_binary("sub", w.write_binary("mul", "%n", "2"), "1"), i)


def _write_last_reads(w: LlvmLoopWriter, i: str) -> None:
    """Write the time of a backward step as the last read of the values it reads."""
    place = w.write_binary("add", w.write_binary("mul", w.load_entry("kinds", i), str(1 << MAX_NODE_INPUTS)), w.load_variable("moving"))
    read = w.load_entry("reads", place)
    time = _write_backward_time(w, i)
    with _loop_over_wires(w, i) as (slot, source), w.when_all(w.write_binary("and", w.write_binary("lshr", read, slot), "1")):
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
    with w.loop_over("0", "%n") as i, w.when_all(w.load_entry("live", i), w.write_comparison("eq", w.load_entry("roles", i), "0")):
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
