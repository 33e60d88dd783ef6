"""The steps of a native program in the order in which they run, and the slot or register of each value and gradient.

`sweep_gradients` finds which nodes are needed, which gradients can flow, and how each gradient meets what is already
there. `arrange_calls` orders the nodes so that independent calls of one function are computed as one vector, or so that
the critical path begins first. `plan_buffer` finds which slot of the working buffer each value and gradient has while
it is still read. A node's inputs have smaller indices, so each of these is a few loops over the nodes, forward or
backward. The loops are compiled once, because in Python they would take longer than the rest of compiling a circuit.
Time runs from 0 to n - 1 forward; the backward step of node i comes at 2n - 1 - i. A value gives its slot back just
before its last reader writes, so a chain of nodes works in one slot.

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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
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
    FIRST_PACK_HOLE,
    FIRST_SAVED_HOLE,
    MAX_NODE_INPUTS,
    MAX_PACK_LANES,
    MAX_PACK_OPERANDS,
    MAX_SAVED_CALLS,
    MERGE_GRADIENT,
    OUTPUT_HOLE,
    PACK_OUTPUT_HOLE,
    REGISTER_COUNT,
    STORE_GRADIENT,
    UPSTREAM_HOLE,
    WITHIN_STEP_REGISTER,
    BackwardStep,
    ForwardKind,
    NodeKind,
    PackStep,
    PlainStep,
    SavedCall,
    StencilKey,
    StepKey,
    calls_function,
    find_forward_kind,
    find_saved_calls,
    list_called_functions,
    lower_backward,
    lower_forward,
)
from wiregrad.backends.native.vector_math import find_vector_function
from wiregrad.codegen.listing import INLINE_CONSTANTS, require_scalar_text
from wiregrad.errors import NoRuleError, NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Op
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE
from wiregrad.lazy import NamedTuple, record
from wiregrad.ops.c_expressions import (
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    ScalarExpression,
    direct_parts,
    parse_c_text,
    walk_expression,
)

_Integer = TypeVar("_Integer", bound=np.integer)

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
VARIANT_BITS = MASK_BIT + 1
"""The number of bits of a variant."""


@dataclass(frozen=True, eq=False)
class ProgramGraph:
    """The nodes of a program as arrays: those of a circuit, then calls that are saved for backward steps."""

    starts: NDArray[np.int32]
    sources: NDArray[np.int32]
    kinds: NodeKinds
    roles: NDArray[np.uint8]
    carries: NDArray[np.uint8]
    """Whether gradients can flow along the wires of a node."""
    inputs: NDArray[np.intp]
    outputs: NDArray[np.int32]
    root: int
    """The node that the gradient starts from; -1: no gradient."""
    order: NDArray[np.int32]
    """The nodes in the order in which they are computed. Backward steps come in reverse order of indices instead, so
    that gradients are added in the order in which the interpreter adds them."""
    packs: NDArray[np.int8]
    """For each place in `order`: 0 for a node that is computed alone; for the first node of a pack the number of its
    nodes, for its other nodes `INSIDE_PACK`."""
    saved: NDArray[np.int32]
    """By node: its saved calls, `MAX_SAVED_CALLS` entries each; -1: none."""

    def __len__(self) -> int:
        return len(self.roles)


def make_program_graph(
    circuit: CircuitGraph, kinds: NodeKinds, root: int, wanted: Iterable[int] | None = None
) -> ProgramGraph:
    """Return the nodes of a circuit, in their own order; `root` is the node that the gradient starts from, or -1.

    With `wanted`, gradients flow to the inputs with these numbers alone.
    """
    columns = circuit.columns
    n = circuit.size
    roles = np.zeros(n, np.uint8)
    roles[columns.codes == INPUT_CODE] = INPUT_ROLE
    roles[columns.codes == CONSTANT_CODE] = CONSTANT_ROLE
    carries = np.array([kind.differentiable for kind in columns.type_table], np.uint8)[columns.types]
    inputs = np.array(circuit.input_indices(), np.intp)
    if wanted is not None:
        carries[np.delete(inputs, list(wanted))] = 0
    return ProgramGraph(
        starts=np.ascontiguousarray(columns.starts, np.int32),
        sources=np.ascontiguousarray(columns.sources, np.int32),
        kinds=kinds,
        roles=roles,
        carries=carries,
        inputs=inputs,
        outputs=np.ascontiguousarray(columns.outputs, np.int32),
        root=root,
        order=np.arange(n, dtype=np.int32),
        packs=np.zeros(n, np.int8),
        saved=np.full((n, MAX_SAVED_CALLS), -1, np.int32),
    )


class BackwardTables(NamedTuple):
    """What each kind of node sends back along each wire, and what it reads to compute that."""

    sends: NDArray[np.uint8]
    """By kind and input: 0 nothing, PLAIN or MASKED."""
    reads: NDArray[np.uint8]
    """By kind and set of inputs that a gradient is sent to: the operands (and output) that the backward step reads."""


class GradientSweep(NamedTuple):
    """Which nodes are needed and which gradients flow, per node."""

    live: NDArray[np.uint8]
    variants: NDArray[np.uint16]
    """Two bits per input (STORE, ADD or MERGE its gradient) and MASK_BIT; 0: no backward step."""
    reached: NDArray[np.uint8]
    """Whether a gradient reaches a node."""
    absent: NDArray[np.uint8]
    """Whether the gradient of a node may be absent."""


class BufferPlan(NamedTuple):
    """The planner's results, per node."""

    sweep: GradientSweep
    values: NDArray[np.int32]
    gradients: NDArray[np.int32]
    last: NDArray[np.int32]
    """The time at which the value of a node is last read; -1: never."""
    slots: int
    """The number of slots in the working buffer."""


class FixedSlots(NamedTuple):
    """Slots that are fixed beforehand."""

    values: NDArray[np.int32]
    """By node of the circuit (inputs, constants, outputs); -1: to be assigned."""
    gradients: NDArray[np.int32]
    first: int
    """The first free slot."""


def sweep_gradients(graph: ProgramGraph, tables: BackwardTables) -> GradientSweep:
    """Find which nodes outputs depend on, which gradients flow, and how they meet."""
    n = len(graph)
    live, reached, absent, active = (np.zeros(n, np.uint8) for _ in range(4))
    variants = np.zeros(n, np.uint16)
    arrays: list[NDArray[np.integer]] = [
        graph.starts,
        graph.sources,
        graph.kinds.nodes,
        graph.roles,
        graph.carries,
        tables.sends,
        graph.outputs,
        live,
        reached,
        absent,
        active,
        variants,
    ]
    _load_planner().sweep(n, len(graph.outputs), graph.root, *_list_addresses(arrays))
    return GradientSweep(live, variants, reached, absent)


def plan_buffer(
    graph: ProgramGraph, tables: BackwardTables, sweep: GradientSweep, fixed_slots: FixedSlots
) -> BufferPlan:
    """Plan the working buffer of a program."""
    n = len(graph)
    values = _extend_array(fixed_slots.values, n, -1)
    gradients = _extend_array(fixed_slots.gradients, n, -1)
    last = np.full(n, -1, np.int32)
    arrays: list[NDArray[np.integer]] = [
        graph.starts,
        graph.sources,
        graph.kinds.nodes,
        graph.roles,
        graph.order,
        graph.packs,
        graph.saved,
        tables.reads,
        sweep.live,
        sweep.variants,
        (values >= 0).astype(np.uint8),
        last,
        np.empty(2 * n + 1, np.int32),
        values,
        gradients,
    ]
    slots = _load_planner().place(n, graph.root, fixed_slots.first, *_list_addresses(arrays))
    return BufferPlan(sweep, values, gradients, last, int(slots))


def _list_addresses(arrays: Sequence[NDArray[np.integer]]) -> list[int]:
    return [array.ctypes.data for array in arrays]


def _extend_array(array: NDArray[_Integer], length: int, filling: int) -> NDArray[_Integer]:
    """Return a copy of an array with further entries at its end."""
    return np.concatenate([array, np.full(length - len(array), filling, array.dtype)])


def compile_planner() -> None:
    """Compile the planner, unless that was done before."""
    _load_planner()


class _Planner(NamedTuple):
    """The native functions of the planner."""

    sweep: Callable[..., None]
    place: Callable[..., int]
    rank: Callable[..., None]
    measure: Callable[..., None]
    schedule: Callable[..., None]


@cache
def _load_planner() -> _Planner:
    addresses = jit.compile_functions(jit.OwnText("planner", write_planner), *_Planner._fields, level=1)
    pointers = [ctypes.c_void_p] * 15
    whole = [ctypes.c_int64] * 3
    sweep = ctypes.CFUNCTYPE(None, *whole, *pointers[:12])(addresses[0])
    place = ctypes.CFUNCTYPE(ctypes.c_int64, *whole, *pointers)(addresses[1])
    rank = ctypes.CFUNCTYPE(None, *whole[:2], *pointers[:5])(addresses[2])
    measure = ctypes.CFUNCTYPE(None, *whole[:1], *pointers[:5])(addresses[3])
    schedule = ctypes.CFUNCTYPE(None, *whole, *whole, *pointers[:14])(addresses[4])
    return _Planner(sweep, place, rank, measure, schedule)


def write_planner() -> str:
    """Return the LLVM module of the planner."""
    w = LlvmWriter()
    _write_sweep(w)
    _write_placement(w)
    _write_ranking(w)
    _write_measurement(w)
    _write_schedule(w)
    return w.format_module()


@record
class _PlannerText:
    """A function of the planner while it is written: its arrays, and the number of nodes."""

    writer: LlvmWriter
    arrays: dict[str, LlvmArray]
    nodes: LlvmValue

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

    @contextmanager
    def loop_over_saved(self, node: LlvmValue) -> Iterator[LlvmValue]:
        """Write a loop over the saved calls of a node."""
        with loop_over(0, self.writer.as_value(MAX_SAVED_CALLS, "i64")) as k:
            call = self.arrays["saved"][node * MAX_SAVED_CALLS + k]
            with when_all(call >= 0):
                yield call


def _begin_planner_function(
    w: LlvmWriter, result: str, name: str, sizes: Sequence[str], arrays: dict[str, str]
) -> tuple[_PlannerText, dict[str, LlvmValue]]:
    """Begin a function of the planner; return its text and its sizes by name, the first being that of nodes."""
    values = {size: w.name_value(f"%{size}", "i64") for size in sizes}
    parameters = [*(value.typed for value in values.values()), *(f"ptr noalias %{array}" for array in arrays)]
    w.begin_function(f"{result} @{name}({', '.join(parameters)})")
    known = {array: LlvmArray(w.name_value(f"%{array}", "ptr"), width) for array, width in arrays.items()}
    return _PlannerText(w, known, values[sizes[0]]), values


_SWEEP_ARRAYS = {
    **dict.fromkeys(["starts", "sources", "kinds"], "i32"),
    **dict.fromkeys(["roles", "carries", "sends"], "i8"),
    "outputs": "i32",
    **dict.fromkeys(["live", "reached", "absent", "active"], "i8"),
    "variants": "i16",
}


def _write_sweep(w: LlvmWriter) -> None:
    p, sizes = _begin_planner_function(w, "void", "sweep", ["n", "m", "root"], _SWEEP_ARRAYS)
    any_active, variant = (allocate_variable(w) for _ in range(2))
    _write_liveness(p, sizes["m"])
    _write_activity(p, any_active)
    _write_backward_sweep(p, sizes["root"], variant)
    w.end_function()


def _as_number(condition: LlvmValue) -> LlvmValue:
    """Write a condition as 1 or 0."""
    return condition.convert("zext", "i64")


def _write_liveness(p: _PlannerText, outputs: LlvmValue) -> None:
    """Write the pass that marks the nodes that outputs depend on."""
    live = p.arrays["live"]
    with loop_over(0, outputs) as k:
        live[p.arrays["outputs"][k]] = 1
    with loop_over(0, p.nodes, down=True) as i, when_all(live[i]), p.loop_over_wires(i) as (_, source):
        live[source] = 1


def _write_activity(p: _PlannerText, any_active: LlvmVariable) -> None:
    """Write the pass that marks the nodes through which a gradient can reach an input."""
    active = p.arrays["active"]
    with loop_over(0, p.nodes) as i:
        any_active.store(_as_number(p.arrays["roles"][i].is_equal_to(INPUT_ROLE)))
        with p.loop_over_wires(i) as (_, source):
            any_active.store(any_active.load() | active[source])
        active[i] = any_active.load() & p.arrays["carries"][i]


def _write_backward_sweep(p: _PlannerText, root: LlvmValue, variant: LlvmVariable) -> None:
    """Write the pass back from the root: what is reached, and how gradients meet."""
    roles = p.arrays["roles"]
    active = p.arrays["active"]
    reached = p.arrays["reached"]
    with when_all(root >= 0):
        # An input that is itself the output has gradient 1, even if it is a condition.
        is_input = roles[root].is_equal_to(INPUT_ROLE)
        reached[root] = active[root] | _as_number(is_input)
        with (
            loop_over(0, p.nodes, down=True) as i,
            when_all(reached[i], roles[i].is_equal_to(OPERATION_ROLE)),
        ):
            variant.store(0)
            with p.loop_over_wires(i, down=True) as (slot, source):
                sent = p.arrays["sends"][p.arrays["kinds"][i] * SENDS_PER_KIND + slot]
                with when_all(sent, active[source]):
                    way = _write_meeting_gradients(p, i, source, sent)
                    variant.store(variant.load() | way << slot * 2)
            with when_all(variant.load()):
                p.arrays["variants"][i] = variant.load() | p.arrays["absent"][i] << MASK_BIT


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


_PLACE_ARRAYS = {
    **dict.fromkeys(["starts", "sources", "kinds"], "i32"),
    "roles": "i8",
    "order": "i32",
    "packs": "i8",
    "saved": "i32",
    **dict.fromkeys(["reads", "live"], "i8"),
    "variants": "i16",
    "fixed": "i8",
    **dict.fromkeys(["last", "stack", "values", "gradients"], "i32"),
}


class _FreeSlots(NamedTuple):
    """The free slots while the placement is written."""

    top: LlvmVariable
    """The number of free slots on the stack."""
    fresh: LlvmVariable
    """The first slot that was never used."""


def _write_placement(w: LlvmWriter) -> None:
    p, sizes = _begin_planner_function(w, "i64", "place", ["n", "root", "first"], _PLACE_ARRAYS)
    top, fresh, moving, block = (allocate_variable(w) for _ in range(4))
    free = _FreeSlots(top, fresh)
    top.store(0)
    fresh.store(sizes["first"])
    with loop_over(0, p.nodes) as time:
        i = p.arrays["order"][time]
        with when_all(p.arrays["live"][i]), p.loop_over_wires(i) as (_, source):
            p.arrays["last"][source] = time
    with loop_over(0, p.nodes, down=True) as i, when_all(p.arrays["variants"][i]):
        _write_last_reads(p, i, moving)
    _write_forward_slots(p, free, block, sizes["root"])
    _write_backward_slots(p, sizes["root"], free)
    w.end_function(fresh.load())


def _write_last_reads(p: _PlannerText, node: LlvmValue, moving: LlvmVariable) -> None:
    """Write the time of a backward step as the last read of the values it reads."""
    last = p.arrays["last"]
    variant = p.arrays["variants"][node]
    moving.store(0)
    with p.loop_over_wires(node) as (slot, _), when_all(variant >> slot * 2 & 3):
        moving.store(moving.load() | p.writer.as_value(1, "i64") << slot)
    read = p.arrays["reads"][p.arrays["kinds"][node] * (1 << MAX_NODE_INPUTS) + moving.load()]
    time = p.find_backward_time(node)
    with p.loop_over_wires(node) as (slot, source), when_all(read >> slot & 1):
        last[source] = time
    with when_all(read & READS_OUTPUT):
        last[node] = time
    with p.loop_over_saved(node) as call:
        last[call] = time


def _write_slot_release(p: _PlannerText, free: _FreeSlots, node: LlvmValue, time: LlvmValue) -> None:
    """Write the release of a value's slot if this is its last read."""
    fixed = p.arrays["fixed"]
    with when_all(p.arrays["last"][node].is_equal_to(time), fixed[node].is_equal_to(0)):
        _write_slot_push(p, free, p.arrays["values"][node])
        fixed[node] = 1


def _write_slot_push(p: _PlannerText, free: _FreeSlots, slot: LlvmValue) -> None:
    top = free.top.load()
    p.arrays["stack"][top] = slot
    free.top.store(top + 1)


def _write_slot_choice(p: _PlannerText, free: _FreeSlots, array: str, node: LlvmValue) -> None:
    """Write the choice of a slot for a node: the one released last, or a new one."""
    slots = p.arrays[array]
    top = free.top.load()
    with when_all(top.is_equal_to(0)):
        fresh = free.fresh.load()
        slots[node] = fresh
        free.fresh.store(fresh + 1)
    with when_all(top):
        below = top - 1
        slots[node] = p.arrays["stack"][below]
        free.top.store(below)


def _write_forward_slots(p: _PlannerText, free: _FreeSlots, block: LlvmVariable, root: LlvmValue) -> None:
    fixed = p.arrays["fixed"]
    with loop_over(0, p.nodes) as time:
        i = p.arrays["order"][time]
        with when_all(p.arrays["live"][i], p.arrays["roles"][i].is_equal_to(OPERATION_ROLE)):
            with p.loop_over_wires(i) as (_, source):
                _write_slot_release(p, free, source, time)
            pack = p.arrays["packs"][time]
            # Without a gradient most results are needed only for a short time, and blocks would waste memory.
            in_block = _as_number(root >= 0) & _as_number(pack.is_nonzero())
            with when_all(in_block):
                _write_block_slot(p, free, block, i, pack)
            with when_all(in_block ^ 1, fixed[i].is_equal_to(0)):
                _write_slot_choice(p, free, "values", i)


def _write_block_slot(p: _PlannerText, free: _FreeSlots, block: LlvmVariable, node: LlvmValue, pack: LlvmValue) -> None:
    """Write the slot of a node of a pack: new slots, one after the other, begin at its first node."""
    with when_all(pack <= MAX_PACK_LANES):
        block.store(free.fresh.load())
        free.fresh.store(free.fresh.load() + pack)
    with when_all(p.arrays["fixed"][node].is_equal_to(0)):
        p.arrays["values"][node] = block.load()
    block.store(block.load() + 1)


def _write_backward_slots(p: _PlannerText, root: LlvmValue, free: _FreeSlots) -> None:
    gradients = p.arrays["gradients"]
    variants = p.arrays["variants"]
    with when_all(root >= 0):
        with when_all(gradients[root] < 0):
            _write_slot_choice(p, free, "gradients", root)
        with loop_over(0, p.nodes, down=True) as i, when_all(variants[i]):
            time = p.find_backward_time(i)
            variant = variants[i]
            with p.loop_over_wires(i) as (_, source):
                _write_slot_release(p, free, source, time)
            with p.loop_over_saved(i) as call:
                _write_slot_release(p, free, call, time)
            _write_slot_release(p, free, i, time)
            _write_slot_push(p, free, gradients[i])
            with p.loop_over_wires(i, down=True) as (slot, source):
                way = variant >> slot * 2 & 3
                with when_all(way.is_equal_to(STORE_GRADIENT), gradients[source] < 0):
                    _write_slot_choice(p, free, "gradients", source)


INSIDE_PACK = -1
"""Marks a node of a pack that is not its first."""
SCHEDULING_WINDOW = 4096
"""Nodes move at most this far from their place in the circuit, so that few numbers are in use at the same time."""
MIN_PACK_SIZE = 3
"""Two calls of a scalar function take about as long as one call on a vector."""
MIN_AVERAGE_PACK = 2
"""Calls are packed if at least so many of one kind are at the same depth, on average."""
MIN_CALL_SHARE = 1 / 8
"""Nodes are ordered by the longest path to the end if at least this part of them call functions.

Plain arithmetic is faster in the order of the circuit, in which numbers stay in registers for a shorter time.
"""
MIN_ORDERED_NODES = 40
"""A processor looks ahead over all of a shorter program, so that its order does not matter."""
CALL_CYCLES, DIVISION_CYCLES, ARITHMETIC_CYCLES, STEP_CYCLES = 40, 13, 4, 4
"""Approximate cycles of a function, a division, another operation, and of a number's way to the next step."""
PACK_SHAPES = 2 * (MAX_PACK_LANES + 1)
"""The number of shapes of packs: sizes, and whether results follow one another."""
PACK_LANES = (4, 8)
"""The numbers of lanes of packs; each is used only if the processor's vectors have as many."""


class PlannedProgram(NamedTuple):
    """The nodes of a program, and which gradients flow."""

    graph: ProgramGraph
    tables: BackwardTables
    sweep: GradientSweep


def arrange_calls(program: PlannedProgram, real: RealType) -> PlannedProgram:
    """Group the calls of functions into packs; where too few of them are independent, begin the critical path first.

    Whether calls are packed depends on what the outputs are computed from, not on gradients, so that values have the
    same bits with and without a gradient.
    """
    graph, _, sweep = program
    lanes = max((lanes for lanes in PACK_LANES if lanes * 8 <= jit.vector_bytes()), default=0)
    if real != RealType("double"):
        return program
    table = graph.kinds.table
    scheduled = (sweep.live != 0) & (graph.roles == OPERATION_ROLE)
    calls = np.array([kind is not None and calls_function(kind, real) for kind in table], np.bool_)
    calling = scheduled & calls[graph.kinds.nodes]
    # Whether a function has a form for vectors is known once that is compiled, so it is asked last.
    has_packs = bool(lanes) and _has_enough_packs(graph, scheduled, calling)
    if has_packs and any(kind is not None and _find_least_pack(kind, real, lanes) for kind in table):
        saving = _save_calls(program, lambda call, count: True)
        order, packs = _schedule_steps(saving.graph, saving.sweep.live, real, lanes)
        return saving._replace(graph=replace(saving.graph, order=order, packs=packs))
    nodes = int(scheduled.sum())
    if nodes >= MIN_ORDERED_NODES and calling.sum() >= MIN_CALL_SHARE * nodes:
        program = program._replace(graph=replace(graph, order=_order_by_critical_path(graph, scheduled)))
    return _pack_saved_calls(program, real, lanes) if lanes else program


def _pack_saved_calls(program: PlannedProgram, real: RealType, lanes: int) -> PlannedProgram:
    """Make calls of backward steps beforehand, in packs, where there are enough of one function.

    A pack comes right after the last of the nodes that its calls belong to. The calls read nothing but operands of
    these nodes, so packs are full even if the nodes depend on each other. Functions that round in another way for one
    number than for vectors are left alone, so the bits of gradients are those of a program without packs.
    """

    def is_worth_it(call: SavedCall, count: int) -> bool:
        return count >= MIN_PACK_SIZE and _find_least_pack(call, real, lanes) == MIN_PACK_SIZE

    saving = _save_calls(program, is_worth_it)
    if saving is program:
        return program
    order, packs = _place_saved_calls(saving.graph, program.graph.order, lanes)
    return saving._replace(graph=replace(saving.graph, order=order, packs=packs))


def _place_saved_calls(
    graph: ProgramGraph, order: NDArray[np.int32], lanes: int
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the order of all nodes, given that of those which are no saved calls, and where packs begin."""
    places = np.empty(len(graph), np.intp)
    places[order] = 2 * np.arange(len(order))
    owners, slots = np.nonzero(graph.saved >= 0)
    calls = graph.saved[owners, slots]
    sorting = np.lexsort((places[owners], graph.kinds.nodes[calls]))
    owners, calls = owners[sorting], calls[sorting]
    kinds = graph.kinds.nodes[calls]
    begins = (np.arange(len(calls)) - np.searchsorted(kinds, kinds)) % lanes == 0
    first = np.flatnonzero(begins)
    sizes = np.diff(first, append=len(calls))
    numbers = np.zeros(len(graph), np.intp)
    numbers[calls] = np.cumsum(begins) - 1
    places[calls] = (np.maximum.reduceat(places[owners], first) + 1)[numbers[calls]]
    merged = np.lexsort((numbers, places)).astype(np.int32)
    new_places = np.argsort(merged)[calls]
    packs = np.zeros(len(graph), np.int8)
    packs[new_places] = np.where(sizes < MIN_PACK_SIZE, 0, INSIDE_PACK)[numbers[calls]]
    starts = np.minimum.reduceat(new_places, first)[sizes >= MIN_PACK_SIZE]
    packs[starts] = sizes[sizes >= MIN_PACK_SIZE]
    return merged, packs


def _order_by_critical_path(graph: ProgramGraph, scheduled: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return the nodes by the cycles on the longest path from each to the end, the most first.

    A node comes after its sources, from which the path is longer. So what everything else waits for begins first, and
    the processor computes the rest beside it.
    """
    cycles = np.array([0 if kind is None else _estimate_cycles(kind) for kind in graph.kinds.table], np.int32)
    remaining = np.zeros(len(graph), np.int32)
    own = cycles[graph.kinds.nodes]
    arrays: list[NDArray[np.integer]] = [graph.starts, graph.sources, scheduled.view(np.uint8), own, remaining]
    _load_planner().measure(len(graph), *_list_addresses(arrays))
    remaining[~scheduled] = np.iinfo(np.int32).max
    windows = np.arange(len(graph)) // SCHEDULING_WINDOW
    return np.lexsort((-remaining, windows)).astype(np.int32)


@cache
def _estimate_cycles(kind: ForwardKind) -> int:
    """Estimate the cycles from the operands of a step to its result."""
    return STEP_CYCLES + _estimate_tree_cycles(lower_forward(kind)[0])


def _estimate_tree_cycles(tree: ScalarExpression) -> int:
    return _find_own_cycles(tree) + max(map(_estimate_tree_cycles, direct_parts(tree)), default=0)


def _find_own_cycles(tree: ScalarExpression) -> int:
    match tree:
        case InputExpression() | NumberExpression():
            return 0
        case CallExpression(name) if name not in INTRINSIC_FUNCTIONS:
            return CALL_CYCLES
        case CallExpression("sqrt") | BinaryExpression("/"):
            return DIVISION_CYCLES
        case _:
            return ARITHMETIC_CYCLES


def _has_enough_packs(graph: ProgramGraph, scheduled: NDArray[np.bool_], calling: NDArray[np.bool_]) -> bool:
    """Return whether calls of one kind that are at the same depth are, on average, enough for a pack."""
    calls = np.flatnonzero(scheduled & calling)
    if len(calls) < MIN_PACK_SIZE:
        return False
    depths = np.zeros(len(graph), np.int32)
    masks = (scheduled.view(np.uint8), calling.view(np.uint8))
    _load_planner().rank(len(graph), SCHEDULING_WINDOW, *_list_addresses([graph.starts, graph.sources, *masks, depths]))
    windows = calls // SCHEDULING_WINDOW
    keys = number_keys(windows * (int(depths.max()) + 1) + depths[calls])[1].astype(np.int64)
    groups = number_keys(keys * len(graph.kinds.table) + graph.kinds.nodes[calls])[0]
    return len(calls) >= MIN_AVERAGE_PACK * len(groups)


def _find_least_pack(kind: ForwardKind, real: RealType, lanes: int) -> int:
    """Return the least number of nodes of a kind that are computed as a pack; 0 if they never are.

    Where the functions for one number round in another way than those for vectors, every node is in a pack: otherwise
    the same function of the same number could have two results in one program.
    """
    functions = list_called_functions(kind, real)
    if not functions or not 1 <= len(lower_forward(kind)[1]) <= MAX_PACK_OPERANDS:
        return 0
    wide = [find_vector_function(name, lanes, real.name).source for name in sorted(functions)]
    if "scalar" in wide:
        return 0
    single = [find_vector_function(name, 1, real.name).source for name in sorted(functions)]
    return MIN_PACK_SIZE if single == wide else 1


def _save_calls(program: PlannedProgram, is_worth_it: Callable[[SavedCall, int], bool]) -> PlannedProgram:
    """Add nodes for the calls of backward steps that can be made beforehand.

    `is_worth_it` decides it for each kind of call, given the number of nodes that make it.
    """
    graph, _, sweep = program
    nodes = graph.kinds.nodes
    saving = np.array([_can_save_calls(kind) for kind in graph.kinds.table], np.bool_) if graph.root >= 0 else None
    backward = np.flatnonzero((sweep.variants != 0) & saving[nodes]) if saving is not None else np.arange(0)
    if not len(backward):
        return program
    table = list(graph.kinds.table)
    numbers = {kind: k for k, kind in enumerate(table) if kind is not None}
    codes, which, _ = number_keys(nodes[backward].astype(np.int64) << VARIANT_BITS | sweep.variants[backward])
    found = [_list_saved_calls(table, code) for code in codes.tolist()]
    counts = Counter[SavedCall]()
    for kinds, count in zip(found, np.bincount(which).tolist(), strict=True):
        counts.update(dict.fromkeys(kinds, count))
    chosen = {call for call, count in counts.items() if is_worth_it(call, count)}
    if not chosen:
        return program
    kept = [[call for call in kinds if call in chosen] for kinds in found]
    numbered = [_number_kinds(table, numbers, code, kinds) for code, kinds in zip(codes.tolist(), kept, strict=True)]
    calls = np.array(numbered, np.int32)[which]
    own = nodes.copy()
    own[backward] = calls[:, 0]
    is_call = calls[:, 1:] >= 0
    saved = graph.saved.copy()
    count = len(graph) + int(is_call.sum())
    saved[backward[is_call.nonzero()[0]], is_call.nonzero()[1]] = np.arange(len(graph), count)
    changed = replace(graph, kinds=NodeKinds(table, own), saved=saved)
    extended = _append_calls(changed, backward[is_call.nonzero()[0]], calls[:, 1:][is_call])
    flow = GradientSweep(
        live=_extend_array(sweep.live, count, 1),
        variants=_extend_array(sweep.variants, count, 0),
        reached=_extend_array(sweep.reached, count, 0),
        absent=_extend_array(sweep.absent, count, 0),
    )
    return PlannedProgram(extended, make_backward_tables(extended.kinds), flow)


def _can_save_calls(kind: ForwardKind | None) -> bool:
    """Return whether a backward step of some kind may call a function of operands alone."""
    if not isinstance(kind, NodeKind):
        return False
    carried = [slot for slot, type_ in enumerate(kind.types) if type_.differentiable]
    return bool(find_saved_calls(kind, sum(1 << slot for slot in carried)))


def _list_saved_calls(table: list[ForwardKind | None], code: int) -> list[SavedCall]:
    """Return the calls that a backward step could read; the code is that of its node's kind and how gradients meet."""
    kind = table[code >> VARIANT_BITS]
    assert isinstance(kind, NodeKind)
    moving = sum(1 << slot for slot in range(len(kind.types)) if code >> 2 * slot & 3)
    return [SavedCall(call, kind.types) for call in find_saved_calls(kind, moving)]


def _number_kinds(
    table: list[ForwardKind | None], numbers: dict[ForwardKind, int], code: int, calls: list[SavedCall]
) -> list[int]:
    """Return the number of the kind of nodes that read saved calls, and those of the calls; -1 where there is none.

    New kinds are added to the table.
    """
    kind = table[code >> VARIANT_BITS]
    assert isinstance(kind, NodeKind)
    kinds: list[ForwardKind] = [kind._replace(saved=tuple(call.tree for call in calls)), *calls]
    for new in kinds:
        if new not in numbers:
            numbers[new] = len(table)
            table.append(new)
    return [*(numbers[new] for new in kinds), *[-1] * (MAX_SAVED_CALLS - len(calls))]


def _append_calls(graph: ProgramGraph, owners: NDArray[np.intp], kinds: NDArray[np.int32]) -> ProgramGraph:
    """Return a graph with further nodes at its end, which have kinds, and the operands of their owners."""
    lengths = np.diff(graph.starts)[owners]
    ends = np.cumsum(lengths)
    within = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
    wires = np.repeat(graph.starts[owners], lengths) + within
    count = len(graph) + len(owners)
    return replace(
        graph,
        starts=np.concatenate([graph.starts, graph.starts[-1] + ends]).astype(np.int32),
        sources=np.concatenate([graph.sources, graph.sources[wires]]),
        kinds=NodeKinds(graph.kinds.table, np.concatenate([graph.kinds.nodes, kinds])),
        roles=np.concatenate([graph.roles, np.full(len(owners), OPERATION_ROLE, np.uint8)]),
        carries=_extend_array(graph.carries, count, 0),
        saved=np.concatenate([graph.saved, np.full((len(owners), MAX_SAVED_CALLS), -1, np.int32)]),
    )


def _schedule_steps(
    graph: ProgramGraph, live: NDArray[np.uint8], real: RealType, lanes: int
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the order of a program's nodes, and where packs begin; see `ProgramGraph`."""
    n = len(graph)
    scheduled = (live != 0) & (graph.roles == OPERATION_ROLE)
    least = _number_pack_classes(graph.kinds.table, real, lanes)
    classes = least.classes[graph.kinds.nodes]
    owners = np.arange(n, dtype=np.int32)
    for calls in graph.saved.T:
        has = np.flatnonzero(calls >= 0)
        owners[calls[has]] = has
    order = np.empty(n, np.int32)
    packs = np.zeros(n, np.int8)
    rest = np.flatnonzero(~scheduled)
    order[: len(rest)] = rest
    count = len(least.sizes)
    arrays: list[NDArray[np.integer]] = [
        graph.starts,
        graph.sources,
        scheduled.view(np.uint8),
        classes,
        graph.saved,
        owners,
        np.zeros(n, np.int32),
        np.zeros(n + 1, np.int32),
        np.empty(len(graph.sources) + 1, np.int32),
        np.empty(n, np.int32),
        np.zeros(3 * count, np.int32),
        np.empty(n + 1, np.int32),
        order,
        packs,
    ]
    nodes = int((owners == np.arange(n)).sum())
    sizes = (n, nodes, SCHEDULING_WINDOW, count, least.forward, lanes)
    _load_planner().schedule(*sizes, *_list_addresses(arrays))
    short = np.flatnonzero((packs > 0) & (packs < least.sizes[classes[order]]))
    for k in reversed(range(MIN_PACK_SIZE - 1)):
        packs[short[packs[short] > k] + k] = 0
    return order, packs


class _PackClasses(NamedTuple):
    """Kinds that can be in one pack: the class of each kind (0: none), the least size of its packs."""

    classes: NDArray[np.int32]
    sizes: NDArray[np.int8]
    forward: int
    """Classes below this one are of nodes; the others are of saved calls, which can wait."""


def _number_pack_classes(table: Sequence[ForwardKind | None], real: RealType, lanes: int) -> _PackClasses:
    numbers = dict[ForwardKind, int]()
    sizes = [0]
    classes = np.zeros(len(table), np.int32)
    forward = 1
    for kind_type in (NodeKind, SavedCall):
        for k, kind in enumerate(table):
            if not isinstance(kind, kind_type):
                continue
            plain = find_forward_kind(kind)
            least = _find_least_pack(plain, real, lanes)
            if least and plain not in numbers:
                numbers[plain] = len(sizes)
                sizes.append(least)
            classes[k] = numbers.get(plain, 0)
        forward = len(sizes) if kind_type is NodeKind else forward
    return _PackClasses(classes, np.array(sizes, np.int8), forward)


_RANK_ARRAYS = {
    **dict.fromkeys(["starts", "sources"], "i32"),
    **dict.fromkeys(["scheduled", "calling"], "i8"),
    "depths": "i32",
}


def _write_ranking(w: LlvmWriter) -> None:
    """Write the pass that counts the calls on the longest way to each node, within its window."""
    p, sizes = _begin_planner_function(w, "void", "rank", ["n", "window"], _RANK_ARRAYS)
    depth = allocate_variable(w)
    depths = p.arrays["depths"]
    with loop_over(0, p.nodes) as i, when_all(p.arrays["scheduled"][i]):
        depth.store(0)
        begin = i - i.combine("urem", sizes["window"])
        with p.loop_over_wires(i) as (_, source), when_all(source >= begin, p.arrays["scheduled"][source]):
            found = depths[source] + p.arrays["calling"][source]
            depth.store(w.select(found > depth.load(), found, depth.load()))
        depths[i] = depth.load()
    w.end_function()


_MEASURE_ARRAYS = {
    **dict.fromkeys(["starts", "sources"], "i32"),
    "scheduled": "i8",
    **dict.fromkeys(["cycles", "remaining"], "i32"),
}


def _write_measurement(w: LlvmWriter) -> None:
    """Write the pass that finds the cycles from the beginning of each node to the end, on the longest path."""
    p, _ = _begin_planner_function(w, "void", "measure", ["n"], _MEASURE_ARRAYS)
    remaining = p.arrays["remaining"]
    with loop_over(0, p.nodes, down=True) as i, when_all(p.arrays["scheduled"][i]):
        own = remaining[i] + p.arrays["cycles"][i]
        remaining[i] = own
        with p.loop_over_wires(i) as (_, source), when_all(p.arrays["scheduled"][source], remaining[source] < own):
            remaining[source] = own
    w.end_function()


_SCHEDULE_ARRAYS = {
    **dict.fromkeys(["starts", "sources"], "i32"),
    "scheduled": "i8",
    **dict.fromkeys(
        ["classes", "saved", "owners", "pending", "heads", "readers", "following", "queues", "ready", "order"], "i32"
    ),
    "packs": "i8",
}


@record
class _ScheduleText(_PlannerText):
    """The schedule while it is written."""

    sizes: dict[str, LlvmValue]
    begin: LlvmVariable
    """Where the nodes begin, in `ready`, that are ready, in no class, and not computed yet."""
    end: LlvmVariable
    full: LlvmVariable
    """The number of classes with enough nodes for a full pack."""
    waiting: LlvmVariable
    """The number of nodes that are ready, in classes too."""
    place: LlvmVariable
    """The next place in the order."""
    limit: LlvmVariable
    """The end of the window."""
    best: LlvmVariable
    favored: LlvmVariable


def _write_schedule(w: LlvmWriter) -> None:
    """Write the scheduling loop: full packs are computed first, then the node that is ready for the longest time.

    Both keep apart what depends on each other, so that the processor can compute several things at once. When nothing
    else is ready, the class with the most calls that wait is computed. Saved calls wait for full packs, because nothing
    forward needs them. A class has three entries in `queues`: the last of its nodes, their number, and an entry of the
    stack of classes that have enough nodes for a full pack.
    """
    names = ["n", "nodes", "window", "count", "forward", "lanes"]
    text, sizes = _begin_planner_function(w, "void", "schedule", names, _SCHEDULE_ARRAYS)
    p = _ScheduleText(text.writer, text.arrays, text.nodes, sizes, *(allocate_variable(w) for _ in range(8)))
    for variable in (p.begin, p.end, p.full, p.waiting, p.place):
        variable.store(0)
    _write_readers(p)
    with loop_over(0, p.nodes) as i:
        p.place.store(p.place.load() + (p.arrays["scheduled"][i] ^ 1))
    window = sizes["window"]
    with loop_over(0, (sizes["nodes"] + window - 1).combine("udiv", window)) as k:
        begin = k * window
        end = begin + window
        p.limit.store(w.select(end < sizes["nodes"], end, sizes["nodes"]))
        _write_window_start(p, begin)
        actions = (p.limit.load() - begin) * (1 + MAX_SAVED_CALLS)
        with loop_over(0, actions), when_all(p.waiting.load()):
            _write_scheduled_step(p)
    w.end_function()


def _write_readers(p: _ScheduleText) -> None:
    """Write the passes that list the readers of each node, and count the sources that each node waits for."""
    heads = p.arrays["heads"]
    pending = p.arrays["pending"]
    with _loop_over_inner_wires(p) as (i, source):
        heads[source] = heads[source] + 1
        pending[i] = pending[i] + 1
    with loop_over(0, p.nodes) as i:
        heads[i + 1] = heads[i + 1] + heads[i]
    with _loop_over_inner_wires(p) as (i, source):
        place = heads[source] - 1
        heads[source] = place
        p.arrays["readers"][place] = i


@contextmanager
def _loop_over_inner_wires(p: _ScheduleText) -> Iterator[tuple[LlvmValue, LlvmValue]]:
    """Write a loop over the wires between two nodes that are scheduled."""
    scheduled = p.arrays["scheduled"]
    with (
        loop_over(0, p.nodes) as i,
        when_all(scheduled[i]),
        p.loop_over_wires(i) as (_, source),
        when_all(scheduled[source]),
    ):
        yield i, source


def _write_window_start(p: _ScheduleText, begin: LlvmValue) -> None:
    """Write the loop that finds the nodes of a window that are ready."""
    pending = p.arrays["pending"]
    with loop_over(begin, p.limit.load()) as i, when_all(p.arrays["scheduled"][i]):
        with when_all(pending[i].is_equal_to(0)):
            _write_ready_node(p, i)
        with p.loop_over_saved(i) as call, when_all(pending[call].is_equal_to(0)):
            _write_ready_node(p, call)


def _write_ready_node(p: _ScheduleText, node: LlvmValue) -> None:
    """Write the addition of a node to those that are ready."""
    queues = p.arrays["queues"]
    number = p.arrays["classes"][node]
    p.waiting.store(p.waiting.load() + 1)
    with when_all(number.is_equal_to(0)):
        p.arrays["ready"][p.end.load()] = node
        p.end.store(p.end.load() + 1)
    with when_all(number):
        p.arrays["following"][node] = queues[number * 3]
        queues[number * 3] = node
        size = queues[number * 3 + 1] + 1
        queues[number * 3 + 1] = size
        with when_all(size.is_equal_to(p.sizes["lanes"])):
            _write_full_class(p, number)


def _write_full_class(p: _ScheduleText, number: LlvmValue) -> None:
    """Write the addition of a class to those that have enough nodes for a full pack."""
    p.arrays["queues"][p.full.load() * 3 + 2] = number
    p.full.store(p.full.load() + 1)


def _write_scheduled_step(p: _ScheduleText) -> None:
    """Write the choice of what is computed next, and that its readers need not wait for it any more."""
    is_idle = p.begin.load().is_equal_to(p.end.load())
    p.best.store(0)
    with when_all(p.full.load()):
        p.full.store(p.full.load() - 1)
        p.best.store(p.arrays["queues"][p.full.load() * 3 + 2])
    with when_all(p.best.load().is_equal_to(0), is_idle):
        _write_class_choice(p)
    first = p.place.load()
    with when_all(p.best.load().is_equal_to(0)):
        p.arrays["order"][first] = p.arrays["ready"][p.begin.load()]
        p.begin.store(p.begin.load() + 1)
        p.place.store(first + 1)
    with when_all(p.best.load()):
        _write_pack(p)
    end = p.place.load()
    p.waiting.store(p.waiting.load() - (end - first))
    # Readers become ready only after the whole pack was taken, so that none of them is in it.
    with loop_over(first, end) as k:
        _write_reader_release(p, p.arrays["order"][k])


def _write_class_choice(p: _ScheduleText) -> None:
    """Write the choice of a class without enough nodes for a full pack: of nodes, if there are any, else of calls."""
    _write_largest_class(p, p.best, p.sizes["count"])
    p.favored.store(0)
    _write_largest_class(p, p.favored, p.sizes["forward"])
    with when_all(p.favored.load()):
        p.best.store(p.favored.load())


def _write_largest_class(p: _ScheduleText, chosen: LlvmVariable, end: LlvmValue) -> None:
    """Write the search for the class with the most nodes that wait; class 0 has none."""
    queues = p.arrays["queues"]
    with loop_over(1, end) as k, when_all(queues[k * 3 + 1] > queues[chosen.load() * 3 + 1]):
        chosen.store(k)


def _write_pack(p: _ScheduleText) -> None:
    """Write that nodes of a class are taken for a pack, as many as there are lanes, or all of them."""
    queues = p.arrays["queues"]
    number = p.best.load()
    first = p.place.load()
    size = queues[number * 3 + 1]
    lanes = p.sizes["lanes"]
    taken = p.writer.select(size < lanes, size, lanes)
    with loop_over(0, taken) as k:
        node = queues[number * 3]
        queues[number * 3] = p.arrays["following"][node]
        p.arrays["order"][first + k] = node
        p.arrays["packs"][first + k] = INSIDE_PACK
    p.arrays["packs"][first] = taken
    p.place.store(first + taken)
    queues[number * 3 + 1] = size - taken
    with when_all(size - taken >= lanes):
        _write_full_class(p, number)


def _write_reader_release(p: _ScheduleText, node: LlvmValue) -> None:
    """Write that a node was computed: readers that waited for it alone become ready."""
    heads = p.arrays["heads"]
    pending = p.arrays["pending"]
    with loop_over(heads[node], heads[node + 1]) as k:
        reader = p.arrays["readers"][k]
        left = pending[reader] - 1
        pending[reader] = left
        with when_all(left.is_equal_to(0), p.arrays["owners"][reader] < p.limit.load()):
            _write_ready_node(p, reader)


MAX_STEPS_IN_REGISTER = 36
"""Maximum number of steps for which a register is held."""
LONG_PROGRAM_STEPS = 6_000
"""Programs with more steps than this, and those with packs, use only `FEW_REGISTERS` registers.

More registers would need many more stencils for little speed.
"""
FEW_REGISTERS = 3
BRANCHING_REGISTERS = 1
"""The number of registers of programs with conditions.

Functions with branches are many and unlike each other. With one register they need a fifth of the stencils, and their
calls take 5 percent longer; compiling a stencil takes as long as a thousand calls.
"""


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


def assign_registers(
    starts: NDArray[np.int32], ends: NDArray[np.int32], count: int = REGISTER_COUNT
) -> NDArray[np.uint8]:
    """Return registers, counted from 1, for numbers written at `starts` (in order) and last read at `ends`; 0: none.

    A number that needs no register has the end -1. There are `count` registers.

    >>> assign_registers(np.array([0, 1, 2], np.int32), np.array([2, -1, 3], np.int32)).tolist()
    [1, 0, 1]
    """
    first = np.ascontiguousarray(starts, np.int32)
    last = np.ascontiguousarray(ends, np.int32)
    registers = np.zeros(len(starts), np.uint8)
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
    text = jit.OwnText("register loops", write_register_loops)
    assign, follow = jit.compile_functions(text, "assign", "follow", level=1)
    parameters = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    return ctypes.CFUNCTYPE(None, *parameters, ctypes.c_int64)(assign), ctypes.CFUNCTYPE(None, *parameters)(follow)


def write_register_loops() -> str:
    """Return the LLVM module of the loops that assign registers."""
    w = LlvmWriter()
    _write_assign_loop(w)
    _write_follow_loop(w)
    return w.format_module()


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

    table: list[ForwardKind | None]
    nodes: NDArray[np.int32]

    def have_conditions(self) -> bool:
        """Return whether a node computes a condition."""
        return any(isinstance(kind, NodeKind) and kind.type.dtype == np.bool_ for kind in self.table)


class _InlinedConstants(NamedTuple):
    """Where constants are inlined into stencils: for which ops, and the number of each constant node (0: none)."""

    ops: NDArray[np.bool_]
    numbers: NDArray[np.int64]


def find_node_kinds(circuit: CircuitGraph, *, finite: bool = False) -> NodeKinds:
    """Group the nodes of a circuit into kinds that share stencils; `finite` is that of `NodeKind`.

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
    kinds = [_make_node_kind(circuit, node, inlined) for node in examples.tolist()]
    return NodeKinds([None if kind is None else kind._replace(finite=finite) for kind in kinds], nodes)


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


def make_backward_tables(kinds: NodeKinds) -> BackwardTables:
    """Return the planner's tables."""
    sends = np.zeros((len(kinds.table), SENDS_PER_KIND), np.uint8)
    reads = np.zeros((len(kinds.table), 1 << MAX_NODE_INPUTS), np.uint8)
    for k, kind in enumerate(kinds.table):
        if isinstance(kind, NodeKind):
            try:
                sent, read = _find_backward_facts(kind)
            except NoRuleError as error:
                raise NotNativeError(f"the backward rule of {kind.op.title} has no scalar C text ({error})") from None
            sends[k, : len(sent)] = sent
            reads[k, : len(read)] = read
    return BackwardTables(sends, reads)


@cache
def _find_backward_facts(kind: NodeKind) -> tuple[list[int], list[int]]:
    """Return what a kind sends along each wire, and what it reads for every set of wires that it sends along."""
    count = len(kind.types)
    carried = [slot for slot in range(count) if kind.types[slot].differentiable]
    masks = {slot: mask for slot, _, mask in lower_backward(kind, sum(1 << slot for slot in carried)).sent}
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

    def __init__(self, steps: _StepCollector) -> None:
        self.real = steps.real
        self.graph = steps.graph
        self.inputs = len(self.graph.inputs)
        self.outputs = len(self.graph.outputs)
        self.buffer_plan = steps.buffer_plan
        self.keys = steps.keys
        """The stencils of the program, each once."""
        self.which = np.concatenate(steps.which).astype(np.int32)
        """The index of each step's stencil in `keys`."""
        self.subjects = np.concatenate(steps.subjects)
        self._most = int(np.diff(self.graph.starts).max(initial=0))
        self._is_pair = np.array([isinstance(placed.key, PlainStep) for placed in self.keys])
        self._is_pack = np.array([isinstance(placed.key, PackStep) for placed in self.keys])
        self._saved_calls = [calls for calls in np.ascontiguousarray(self.graph.saved.T) if (calls >= 0).any()]

    def __len__(self) -> int:
        return len(self.which)

    def compute_offsets(self, steps: slice, owners: NDArray[np.intp], holes: NDArray[np.intp]) -> NDArray[np.int32]:
        """Return the buffer offsets that fill holes; `owners` has the step of each, counted from the first."""
        graph = self.graph
        buffer_plan = self.buffer_plan
        subjects = self.subjects[steps]
        pair = self._is_pair[self.which[steps]]
        pack = self._is_pack[self.which[steps]]
        nodes = np.where(pair | pack, 0, subjects)
        table = np.zeros((FIRST_PACK_HOLE, len(nodes)), np.int32)
        table[OUTPUT_HOLE] = buffer_plan.values[nodes]
        table[UPSTREAM_HOLE] = buffer_plan.gradients[nodes]
        first = graph.starts[nodes]
        for slot in range(self._most):
            sources = graph.sources[np.minimum(first + slot, len(graph.sources) - 1)]
            table[slot] = buffer_plan.values[sources]
            table[FIRST_GRADIENT_HOLE + slot] = buffer_plan.gradients[sources]
        if pair.any():
            table[0, pair] = subjects[pair] >> 32
            table[OUTPUT_HOLE, pair] = subjects[pair] & 0xFFFFFFFF
        for k, calls in enumerate(self._saved_calls):
            table[FIRST_SAVED_HOLE + k] = buffer_plan.values[calls[nodes]]
        places = np.flatnonzero(holes >= FIRST_PACK_HOLE)
        if not len(places):
            slots: NDArray[np.int32] = table.ravel()[holes * len(nodes) + owners]
            return slots * np.int32(self.real.total_bytes)
        others = holes.copy()
        others[places] = 0
        slots = table.ravel()[others * len(nodes) + owners]
        keys = self.which[steps][owners[places]]
        slots[places] = self._find_pack_slots(keys, subjects[owners[places]], holes[places] - FIRST_PACK_HOLE)
        return slots * np.int32(self.real.total_bytes)

    def _find_pack_slots(
        self, keys: NDArray[np.int32], subjects: NDArray[np.integer], holes: NDArray[np.intp]
    ) -> NDArray[np.int32]:
        """Return the slots for holes of packs, which are counted from the first such hole."""
        nodes = self.graph.order[subjects + holes % MAX_PACK_LANES]
        numbers = holes // MAX_PACK_LANES
        is_operand = numbers < MAX_PACK_OPERANDS
        operands = self._pack_operands[keys, np.where(is_operand, numbers, 0)]
        sources = self.graph.sources[self.graph.starts[nodes] + operands]
        slots: NDArray[np.int32] = self.buffer_plan.values[np.where(is_operand, sources, nodes)]
        return slots

    @cached_property
    def _pack_operands(self) -> NDArray[np.intp]:
        """By stencil: the inputs of a node of its pack that are read; 0 where there is none."""
        table = np.zeros((len(self.keys), MAX_PACK_OPERANDS), np.intp)
        for k, placed in enumerate(self.keys):
            if isinstance(placed.key, PackStep):
                slots = lower_forward(placed.key.kind)[1]
                table[k, : len(slots)] = slots
        return table

    def list_steps(self) -> list[tuple[StepKey, dict[int, int]]]:
        """Return what each step does, and the slot for each of its holes; registers are ignored."""
        pairs = zip(self.which.tolist(), self.subjects.tolist(), strict=True)
        return [(self.keys[which].key, self._find_slots(self.keys[which].key, subject)) for which, subject in pairs]

    def _find_slots(self, key: StepKey, subject: int) -> dict[int, int]:
        if isinstance(key, PlainStep):
            return {0: subject >> 32, OUTPUT_HOLE: subject & 0xFFFFFFFF}
        if isinstance(key, PackStep):
            return self._list_pack_slots(key, subject)
        values = self.buffer_plan.values
        gradients = self.buffer_plan.gradients
        sources = self._list_sources(subject)
        own = {OUTPUT_HOLE: int(values[subject]), UPSTREAM_HOLE: int(gradients[subject])}
        reads = {slot: int(values[source]) for slot, source in enumerate(sources)}
        calls = {FIRST_SAVED_HOLE + k: int(values[call]) for k, call in enumerate(self.graph.saved[subject].tolist())}
        sums = {FIRST_GRADIENT_HOLE + slot: int(gradients[source]) for slot, source in enumerate(sources)}
        return own | reads | calls | sums

    def _list_pack_slots(self, key: PackStep, place: int) -> dict[int, int]:
        values = self.buffer_plan.values
        holes = dict[int, int]()
        for lane, node in enumerate(self.graph.order[place : place + key.size].tolist()):
            sources = self._list_sources(node)
            holes[PACK_OUTPUT_HOLE + lane] = int(values[node])
            for number, slot in enumerate(lower_forward(key.kind)[1]):
                holes[FIRST_PACK_HOLE + number * MAX_PACK_LANES + lane] = int(values[sources[slot]])
        return holes

    def _list_sources(self, node: int) -> list[int]:
        starts = self.graph.starts
        sources: list[int] = self.graph.sources[starts[node] : starts[node + 1]].tolist()
        return sources


def make_step_stream(
    graph: ProgramGraph, buffer_plan: BufferPlan, real: RealType, copies: list[tuple[int, int]]
) -> StepStream:
    """Return the steps of a program.

    `copies` are outputs whose value is in another slot, and the slot that they are copied to.
    """
    steps = _StepCollector(graph, buffer_plan, real)
    steps.append_plain_steps("begin", [(0, 0)])
    steps.append_forward_steps()
    steps.append_plain_steps("copy", [(int(buffer_plan.values[node]), slot) for node, slot in copies])
    if graph.root >= 0:
        steps.append_gradient_steps()
    steps.append_plain_steps("return", [(0, 0)])
    return StepStream(steps)


class _StepCollector:
    """Collects the steps of a program: which stencil each needs, and which registers it reads and writes."""

    def __init__(self, graph: ProgramGraph, buffer_plan: BufferPlan, real: RealType) -> None:
        self.graph = graph
        self.buffer_plan = buffer_plan
        self.real = real
        self.keys = list[StencilKey]()
        self.which = list[NDArray[np.integer]]()
        self.subjects = list[NDArray[np.integer]]()

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
        """Append a step for every node that outputs depend on, or for several such nodes in a pack."""
        graph = self.graph
        arity = graph.starts[1:] - graph.starts[:-1]
        is_live = self.buffer_plan.sweep.live[graph.order] != 0
        is_step = is_live & (arity[graph.order] > 0) & (graph.packs != INSIDE_PACK)
        places = np.flatnonzero(is_step)
        steps = graph.order[places].astype(np.intp)
        sizes = graph.packs[places]
        shapes = sizes * 2 + self._find_blocks(places, sizes)
        used, kinds, _ = number_keys(graph.kinds.nodes[steps].astype(np.int64) * PACK_SHAPES + shapes)
        keys = [self._decode_forward_step(code) for code in used.tolist()]
        alone = sizes == 0
        wires = self._find_wires(steps, [alone & (arity[steps] > slot) for slot in range(int(arity.max(initial=0)))])
        own, reads, stored = self._assign_forward_registers(steps, wires, self._count_register_losses(keys, kinds))
        which, rows = _group_alike_steps(kinds, own, stored, *reads)
        placed = list[StencilKey]()
        for kind, to, is_stored, *registers in rows:
            key = keys[kind]
            if isinstance(key, PackStep):
                placed.append(StencilKey(key, stored=(True,) * key.size))
            else:
                placed.append(StencilKey(key, tuple(registers[: len(key.types)]), (to,), (bool(is_stored),)))
        self._append_steps(placed, which, np.where(alone, steps, places))

    def _find_blocks(self, places: NDArray[np.intp], sizes: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Return at which places packs begin whose results have slots that follow one another."""
        slots = self.buffer_plan.values[self.graph.order]
        breaks = np.concatenate([[0], np.cumsum(np.diff(slots) != 1)])
        ends = places + np.maximum(sizes, 1) - 1
        is_block: NDArray[np.bool_] = (sizes > 1) & (breaks[ends] == breaks[places])
        return is_block

    def _decode_forward_step(self, code: int) -> ForwardKind | PackStep:
        size, is_block = divmod(code % PACK_SHAPES, 2)
        kind = self.graph.kinds.table[code // PACK_SHAPES]
        assert kind is not None
        plain = find_forward_kind(kind)
        lanes = next(lanes for lanes in PACK_LANES if size <= lanes)
        return PackStep(plain, size, lanes, bool(is_block)) if size else plain

    def _assign_forward_registers(
        self, steps: NDArray[np.intp], wires: list[_WireColumn], lost: NDArray[np.int32]
    ) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]], NDArray[np.bool_]]:
        """Return the register that each step writes, the register of each operand, and whether the value is stored."""
        n = len(self.graph)
        now = np.arange(len(steps), dtype=np.int32)
        times = np.full(n, -1, np.int32)
        ends = np.full(n, -1, np.int32)
        times[steps] = now
        packed = self.graph.order[self.graph.packs != 0]
        # Packs read and write the buffer.
        times[packed] = -1
        stored = self.buffer_plan.last >= n
        stored[self.graph.outputs] = True
        stored[packed] = True
        for sources in self._list_sources_of_packs(packed):
            stored[sources] = True
        soon = list[NDArray[np.bool_]]()
        for has, sources in wires:
            starts = times[sources]
            soon.append(has & (starts >= 0) & can_stay_in_register(starts, now, lost))
            np.maximum.at(ends, sources[soon[-1]], now[soon[-1]])
            stored[sources[has & ~soon[-1]]] = True
        own = np.zeros(n, np.uint8)
        own[steps] = assign_registers(now, ends[steps], self._count_registers(len(steps)))
        stored |= own == 0
        reads = [np.where(is_near, own[sources], 0) for is_near, (_, sources) in zip(soon, wires, strict=True)]
        return own[steps], reads, stored[steps]

    def _count_registers(self, steps: int) -> int:
        """Return the number of registers of a pass with so many steps."""
        if self.graph.kinds.have_conditions():
            return BRANCHING_REGISTERS
        is_large = steps > LONG_PROGRAM_STEPS or self.graph.packs.any()
        return FEW_REGISTERS if is_large else REGISTER_COUNT

    def _list_sources_of_packs(self, packed: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
        """Iterate over the sources of nodes in packs, one array per input."""
        starts = self.graph.starts
        lengths = starts[packed + 1] - starts[packed]
        for slot in range(int(lengths.max(initial=0))):
            yield self.graph.sources[starts[packed[lengths > slot]] + slot]

    def _find_wires(self, steps: NDArray[np.intp], there: list[NDArray[np.bool_]]) -> list[_WireColumn]:
        """Return, for each input slot, which steps have a wire there and from which node."""
        graph = self.graph
        return [(has, graph.sources[np.where(has, graph.starts[steps] + slot, 0)]) for slot, has in enumerate(there)]

    def _count_register_losses(self, keys: Sequence[StepKey], which: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return how often registers were lost before each step."""
        return count_register_losses(np.array([calls_function(key, self.real) for key in keys], np.bool_)[which])

    def append_gradient_steps(self) -> None:
        """Append the seed, the backward steps, and steps that store 0 for inputs that no gradient reached."""
        buffer_plan = self.buffer_plan
        inputs = self.graph.inputs
        root = self.graph.root
        reached = buffer_plan.sweep.reached[inputs]
        absent = buffer_plan.sweep.absent[inputs]
        self.append_plain_steps("zero", [(0, slot) for slot in buffer_plan.gradients[inputs[reached == 0]].tolist()])
        seeds = [(0, int(buffer_plan.gradients[root]))] if buffer_plan.sweep.reached[root] else []
        self.append_plain_steps("seed", seeds)
        self._append_backward_steps()
        self.append_plain_steps(
            "settle", [(0, slot) for slot in buffer_plan.gradients[inputs[(reached & absent) != 0]].tolist()]
        )

    def _append_backward_steps(self) -> None:
        variants = self.buffer_plan.sweep.variants
        steps = np.flatnonzero(variants)[::-1]
        used, kinds, _ = number_keys(self.graph.kinds.nodes[steps].astype(np.int64) << VARIANT_BITS | variants[steps])
        keys = [self._decode_backward_step(code) for code in used.tolist()]
        most = max((len(key.ways) for key in keys), default=0)
        wires = self._find_wires(steps, [variants[steps] >> 2 * slot & 3 != 0 for slot in range(most)])
        lost = self._count_register_losses(keys, kinds)
        passes = _RegisterPasses(len(self.graph), self.graph.root, self._count_registers(len(steps)))
        arrived, before, after = _assign_backward_registers(passes, steps, wires, lost)
        which, rows = _group_alike_steps(kinds, arrived, *before.T, *after.T)
        placed = list[StencilKey]()
        for row in rows:
            key = keys[row[0]]
            count = len(key.ways)
            writes = tuple(row[2 + most : 2 + most + count])
            placed.append(StencilKey(key, tuple(row[1 : 2 + count]), writes, _find_stored(writes)))
        self._append_steps(placed, which, steps)

    def _decode_backward_step(self, code: int) -> BackwardStep:
        kind = self.graph.kinds.table[code >> VARIANT_BITS]
        assert isinstance(kind, NodeKind)
        ways = tuple(code >> 2 * slot & 3 for slot in range(len(kind.types)))
        return BackwardStep(kind, bool(code >> MASK_BIT & 1), ways)


@cache
def _find_stored(registers: tuple[int, ...]) -> tuple[bool, ...]:
    """Return which sums are stored in the buffer: those that have no register."""
    return tuple([not register for register in registers])


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


class _RegisterPasses(NamedTuple):
    """What the registers of backward steps depend on: the number of nodes, the root, and the number of registers."""

    nodes: int
    root: int
    registers: int


def _assign_backward_registers(
    passes: _RegisterPasses, steps: NDArray[np.intp], wires: list[_WireColumn], lost: NDArray[np.int32]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the registers of each backward step: of what arrives, of the gradients it adds to, and of the sums.

    A gradient passes from the step that starts it to each step that adds to it, and finally to the backward step of its
    own node: in a register where that step is near, through the buffer otherwise.
    """
    n, root, available = passes
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
    registers = assign_registers(starts, np.where(can_stay_in_register(starts, ends, lost), ends, -1), available)
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
