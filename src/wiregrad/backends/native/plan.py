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
from wiregrad.backends.native.loops import Loops
from wiregrad.backends.native.stencils import ADD, MERGE, MOST_INPUTS, STORE

OPERATION = 0
INPUT = 1
CONSTANT = 2
"""The roles of nodes: operation, input or constant."""
PLAIN = 1
"""A gradient that is sent whenever the upstream gradient is present."""
MASKED = 2
"""A gradient that may be absent even if the upstream gradient is present."""
READS_OUTPUT = 1 << MOST_INPUTS
"""The bit in `reads` that says that a backward step reads its node's output."""
SLOTS = 8
"""Entries per kind in the table `sends`; the table `reads` has 1 << MOST_INPUTS."""
MASK_BIT = 2 * MOST_INPUTS
"""The bit in a variant that says that the upstream gradient may be absent."""


@dataclass(frozen=True, eq=False)
class Question:
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
class Plan:
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


def plan(question: Question) -> Plan:
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
    slots = _planner()(n, len(question.outputs), question.root, question.first, *pointers)
    return Plan(live, variants, reached, absent, values, gradients, last, int(slots))


def prepare() -> None:
    """Compile the planner, unless that was done before."""
    _planner()


@cache
def _planner() -> Any:
    address = machine.compiled(_text(), "plan", level=1)[0]
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4, *[ctypes.c_void_p] * 18)(address)


_ARRAYS = {
    **dict.fromkeys(["starts", "sources", "kinds"], "i32"),
    **dict.fromkeys(["roles", "carries", "sends", "reads"], "i8"),
    "outputs": "i32",
    **dict.fromkeys(["live", "reached", "absent", "active", "fixed"], "i8"),
    "variants": "i16",
    **dict.fromkeys(["last", "stack", "values", "gradients"], "i32"),
}


def _text() -> str:
    w = Loops(_ARRAYS)
    _needed(w)
    _activity(w)
    _backward(w)
    _forward_slots(w)
    _backward_slots(w)
    arguments = [*(f"i64 %{name}" for name in ("n", "m", "root", "first")), *(f"ptr noalias %{a}" for a in _ARRAYS)]
    variables = [f"  %{name} = alloca i64" for name in ("top", "next", "a", "v", "moving")]
    head = [f"define i64 @plan({', '.join(arguments)}) {{", "entry:", *variables, "  store i64 0, ptr %top"]
    end = [f"  ret i64 {w.get('next')}", "}"]
    # Writing `end` has appended a line to `w.lines`, so the body is complete only here.
    return "\n".join([*head, "  store i64 %first, ptr %next", *w.lines, *end])


@contextmanager
def _wires(w: Loops, node: str, *, down: bool = False) -> Iterator[tuple[str, str]]:
    """Write a loop over the inputs of a node; yields slot and source."""
    start = w.at("starts", node)
    with w.loop(start, w.at("starts", w.do("add", node, "1")), down=down) as wire:
        yield w.do("sub", wire, start), w.at("sources", wire)


def _needed(w: Loops) -> None:
    """Write the pass that marks the nodes that outputs depend on, and when each value is last read going forward."""
    with w.loop("0", "%m") as k:
        w.put("live", w.at("outputs", k), "1")
    with w.loop("0", "%n", down=True) as i, w.when(w.at("live", i)), _wires(w, i) as (_, source):
        w.put("live", source, "1")
    with w.loop("0", "%n") as i, w.when(w.at("live", i)), _wires(w, i) as (_, source):
        w.put("last", source, i)


def _activity(w: Loops) -> None:
    """Write the pass that marks the nodes through which a gradient can reach an input."""
    with w.loop("0", "%n") as i:
        w.set("a", w.is_("eq", w.at("roles", i), str(INPUT)))
        with _wires(w, i) as (_, source):
            w.set("a", w.do("or", w.get("a"), w.at("active", source)))
        w.put("active", i, w.do("and", w.get("a"), w.at("carries", i)))


def _backward(w: Loops) -> None:
    """Write the pass back from the root: what is reached, how gradients meet, and what the backward steps read."""
    with w.when(w.is_("sge", "%root", "0")):
        # An input that is itself the output has gradient 1, even if it is a condition.
        own = w.is_("eq", w.at("roles", "%root"), str(INPUT))
        w.put("reached", "%root", w.do("or", w.at("active", "%root"), own))
        with w.loop("0", "%n", down=True) as i, w.when(w.at("reached", i), w.is_("eq", w.at("roles", i), "0")):
            w.set("v", w.do("shl", w.at("absent", i), str(MASK_BIT)))
            w.set("moving", "0")
            with _wires(w, i, down=True) as (slot, source):
                kind = w.do("mul", w.at("kinds", i), str(SLOTS))
                sent = w.at("sends", w.do("add", kind, slot))
                with w.when(sent, w.at("active", source)):
                    _meet(w, i, slot, source, sent)
            with w.when(w.get("moving")):
                w.put("variants", i, w.get("v"))
                _reads(w, i)


def _meet(w: Loops, i: str, slot: str, source: str, sent: str) -> None:
    """Write how the gradient sent along one wire meets the gradient that its source already has."""
    may = w.do("or", w.is_("eq", sent, str(MASKED)), w.at("absent", i))
    seen = w.at("reached", source)
    before = w.at("absent", source)
    # STORE the first gradient, ADD to one that is present, MERGE with one that may be absent.
    met = w.do("add", str(ADD), w.do("mul", before, str(MERGE - ADD)))
    way = w.new(f"select i1 {w.new(f'icmp ne i64 {seen}, 0')}, i64 {met}, i64 {STORE}")
    kept = w.do("and", may, w.do("or", before, w.do("xor", seen, "1")))
    w.put("absent", source, kept)
    w.put("reached", source, "1")
    w.set("v", w.do("or", w.get("v"), w.do("shl", way, w.do("mul", slot, "2"))))
    w.set("moving", w.do("or", w.get("moving"), w.do("shl", "1", slot)))


def _time(w: Loops, i: str) -> str:
    """Write the time of a node's backward step."""
    return w.do("sub", w.do("sub", w.do("mul", "%n", "2"), "1"), i)


def _reads(w: Loops, i: str) -> None:
    """Write the time of a backward step as the last read of the values it reads."""
    place = w.do("add", w.do("mul", w.at("kinds", i), str(1 << MOST_INPUTS)), w.get("moving"))
    read = w.at("reads", place)
    time = _time(w, i)
    with _wires(w, i) as (slot, source), w.when(w.do("and", w.do("lshr", read, slot), "1")):
        w.put("last", source, time)
    with w.when(w.do("and", read, str(READS_OUTPUT))):
        w.put("last", i, time)


def _give_back(w: Loops, node: str, time: str) -> None:
    """Write the release of a value's slot if this is its last read."""
    done = w.is_("eq", w.at("last", node), time)
    free = w.is_("eq", w.at("fixed", node), "0")
    with w.when(done, free):
        _push(w, w.at("values", node))
        w.put("fixed", node, "1")


def _push(w: Loops, slot: str) -> None:
    top = w.get("top")
    w.put("stack", top, slot)
    w.set("top", w.do("add", top, "1"))


def _take(w: Loops, array: str, node: str) -> None:
    """Write the choice of a slot for a node: the one released last, or a new one."""
    top = w.get("top")
    with w.when(w.is_("eq", top, "0")):
        fresh = w.get("next")
        w.put(array, node, fresh)
        w.set("next", w.do("add", fresh, "1"))
    with w.when(w.is_("ne", top, "0")):
        below = w.do("sub", top, "1")
        w.put(array, node, w.at("stack", below))
        w.set("top", below)


def _forward_slots(w: Loops) -> None:
    with w.loop("0", "%n") as i, w.when(w.at("live", i), w.is_("eq", w.at("roles", i), "0")):
        with _wires(w, i) as (_, source):
            _give_back(w, source, i)
        with w.when(w.is_("eq", w.at("fixed", i), "0")):
            _take(w, "values", i)


def _backward_slots(w: Loops) -> None:
    with w.when(w.is_("sge", "%root", "0")):
        with w.when(w.is_("slt", w.at("gradients", "%root"), "0")):
            _take(w, "gradients", "%root")
        with w.loop("0", "%n", down=True) as i, w.when(w.at("variants", i)):
            time = _time(w, i)
            variant = w.at("variants", i)
            with _wires(w, i) as (_, source):
                _give_back(w, source, time)
            _give_back(w, i, time)
            _push(w, w.at("gradients", i))
            with _wires(w, i, down=True) as (slot, source):
                way = w.do("and", w.do("lshr", variant, w.do("mul", slot, "2")), "3")
                missing = w.is_("slt", w.at("gradients", source), "0")
                with w.when(w.is_("eq", way, str(STORE)), missing):
                    _take(w, "gradients", source)
