"""Builds native programs and decides their tier: stencils first, LLVM for programs that are called often.

`build_program` plans a circuit's working buffer and makes its code. Where this processor has stencils they are copied
end to end, by a few NumPy operations per kind of step and none per node; elsewhere LLVM compiles the program right
away. `promote_when_hot` watches how often a program is called, and has a hot one compiled again by LLVM in the
background. Every offset in the code comes from the plan, which hands out the slots of the buffer, so nothing outside it
is read or written.

In the LLVM tier (`LlvmProgram`), LLVM compiles all steps of a program together. The code runs the same steps on the
same buffer as the stencils, so one can replace the other between two calls. The steps are split into functions of a few
hundred each, which keeps compile time linear. Within a function, a value goes from the step that writes it to the steps
that read it without passing through the buffer. The results have the bits of the stencils, except for the sign of a
NaN, which LLVM leaves unspecified.

A stencil is the machine code of one kind of step, forward or backward, with holes in place of its operands. LLVM
compiles each kind once (`StencilLibrary`). `copy_stencils` copies the stencils of a program's steps end to end, so the
end of one is the beginning of the next, and fills their holes: with offsets into the working buffer, and with offsets
to constants that precede the code.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit, program_steps
from wiregrad.backends.native.code_cache import make_entry_name
from wiregrad.backends.native.llvm_writer import (
    LlvmValue,
    LlvmWriter,
    RealType,
    choose_real_name,
    format_pointer,
    leave_if,
    loop_over,
)
from wiregrad.backends.native.program_steps import (
    FixedSlots,
    PlannedProgram,
    StepStream,
    arrange_calls,
    find_node_kinds,
    make_backward_tables,
    make_program_graph,
    make_step_stream,
    number_keys,
    plan_buffer,
    sweep_gradients,
)
from wiregrad.backends.native.step_kinds import (
    FIRST_GRADIENT_HOLE,
    HOLE_COUNT,
    OUTPUT_HOLE,
    PACK_OUTPUT_HOLE,
    REGISTER_COUNT,
    UPSTREAM_HOLE,
    WITHIN_STEP_REGISTER,
    BackwardStep,
    ExpressionLowering,
    MarkedGradients,
    NodeKind,
    PackStep,
    PlainStep,
    StencilKey,
    StepKey,
    calls_function,
    make_absent_bits,
    write_step,
)
from wiregrad.backends.native.vector_math import (
    FUNCTION_SYMBOL_PREFIX,
    call_by_address,
    call_by_symbol,
    find_by_symbol,
)
from wiregrad.errors import NotNativeError, OutputError
from wiregrad.ir import TABLE, CircuitGraph
from wiregrad.ir.circuit import check_arrays
from wiregrad.ir.columns import CircuitColumns
from wiregrad.ir.op import INPUT_CODE
from wiregrad.lazy import NamedTuple, record

STENCIL_TIER = "stencils"
"""The tier of programs made of copied stencils."""
LLVM_TIER = "llvm"
"""The tier of programs that LLVM compiled."""
CACHE_LINE_BYTES = 64
"""Bytes in a cache line, which is also the widest vector."""


@cache
def _build_lock() -> threading.Lock:
    """Return the lock that is held while a program is built, so that two threads do not compile the same stencil."""
    return threading.Lock()


if hasattr(os, "register_at_fork"):
    # A thread that holds the lock does not exist in a forked child, and would never release it there.
    os.register_at_fork(after_in_child=_build_lock.cache_clear)


class CodeInMemory(Protocol):
    """Machine code in memory."""

    address: int
    size: int


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """Machine code and the buffer it works on.

    The buffer holds the inputs, the outputs, the gradient (one number per input), then constants and intermediate
    values; each entry is `lanes` numbers wide.
    """

    entry: int
    """The address of the first instruction."""
    initial: NDArray[np.floating]
    """The initial buffer, with constants in place."""
    inputs: int
    outputs: int
    real: RealType
    nodes: int
    code_bytes: int
    seconds: float
    """Compile time."""
    stencil_seconds: float
    """The part of `seconds` spent on stencils and tables that other circuits share."""
    tier: str
    """`stencils` or `llvm`."""
    code: CodeInMemory = field(repr=False)
    """The object that keeps the code in memory."""
    stream: StepStream = field(repr=False)
    spare_buffers: list[NDArray[np.floating]] = field(default_factory=list, repr=False)
    """Working buffers of earlier batches, which have the numbers of `initial` where no step writes."""

    @property
    def buffer_length(self) -> int:
        """The number of numbers in the buffer."""
        return len(self.initial)


def build_program(
    circuit: CircuitGraph,
    gradient: int | None = None,
    *,
    lanes: int = 1,
    finite: bool = False,
    wanted: Iterable[int] | None = None,
) -> NativeProgram:
    """Compile a circuit of scalars: its outputs, and, with `gradient`, the gradient of the output with that index.

    With `finite` the gradient is right only where no value or slope is infinite or NaN. With `wanted`, only the
    gradient by the inputs with these numbers is computed; it is 0 by the others.

    >>> from wiregrad.ir import parse_text
    >>> build_program(parse_text("input x\\ny = multiply x x\\noutput y"), 0).nodes
    1
    """
    began = time.perf_counter()
    with _build_lock():
        if jit.supports_stencils():
            jit.check_executable_memory()
        program_steps.compile_planner()
        program_steps.compile_register_loops()
        request = _BuildRequest(circuit, gradient, lanes, finite, wanted)
        return _build_while_locked(request, began, time.perf_counter() - began)


class _BuildRequest(NamedTuple):
    """The arguments of `build_program`."""

    circuit: CircuitGraph
    gradient: int | None
    lanes: int
    finite: bool
    wanted: Iterable[int] | None


def _build_while_locked(request: _BuildRequest, began: float, made: float) -> NativeProgram:
    circuit = request.circuit
    columns = circuit.columns
    plan = _plan_while_locked(request, packs=True)
    real = plan.stream.real
    code, seconds = _choose_tier(plan.stream)
    return NativeProgram(
        entry=code.address,
        initial=_make_buffer(plan.head, plan.slots, real),
        inputs=len(circuit.input_indices()),
        outputs=len(columns.outputs),
        real=real,
        nodes=int((np.diff(columns.starts) > 0).sum()),
        code_bytes=code.size,
        seconds=time.perf_counter() - began,
        stencil_seconds=made + plan.table_seconds + seconds,
        tier=STENCIL_TIER if jit.supports_stencils() else LLVM_TIER,
        code=code,
        stream=plan.stream,
    )


class StepPlan(NamedTuple):
    """The steps of a program, and the buffer that they work on."""

    stream: StepStream
    head: NDArray[np.floating]
    """The first entries of the buffer: zeros for inputs, outputs and gradient, then constants."""
    slots: int
    """The number of entries of the buffer."""
    table_seconds: float
    """The seconds spent on tables that other circuits share."""


def plan_steps(
    circuit: CircuitGraph, gradient: int | None = None, *, finite: bool = False, wanted: Iterable[int] | None = None
) -> StepPlan:
    """Return the steps of a circuit of scalars on one point, each on its own; arguments as in `build_program`."""
    with _build_lock():
        program_steps.compile_planner()
        program_steps.compile_register_loops()
        return _plan_while_locked(_BuildRequest(circuit, gradient, 1, finite, wanted), packs=False)


def _plan_while_locked(request: _BuildRequest, *, packs: bool) -> StepPlan:
    """Return the steps of a circuit; with `packs`, calls of one function may be the lanes of one step."""
    circuit, gradient, lanes, finite, wanted = request
    columns = circuit.columns
    # Native code does no checks, so they are made here: inputs precede their readers, indices are within their arrays.
    check_arrays(columns)
    real = RealType(_find_real_name(circuit), lanes)
    _check_lanes(real)
    root = -1 if gradient is None else _find_output(columns, gradient)
    kinds = find_node_kinds(circuit, finite=finite)
    began = time.perf_counter()
    tables = make_backward_tables(kinds if root >= 0 else kinds._replace(table=[None] * len(kinds.table)))
    seconds = time.perf_counter() - began
    layout = _lay_out_head(circuit, real)
    graph = make_program_graph(circuit, kinds, root, wanted)
    planned = PlannedProgram(graph, tables, sweep_gradients(graph, tables))
    graph, tables, sweep = arrange_calls(planned, real) if packs else planned
    buffer_plan = plan_buffer(graph, tables, sweep, layout.slots)
    if buffer_plan.slots * real.total_bytes > MAX_OFFSET:
        raise NotNativeError(f"the circuit needs a buffer of {buffer_plan.slots:,} numbers, beyond 32-bit offsets")
    stream = make_step_stream(graph, buffer_plan, real, layout.copies)
    return StepPlan(stream, layout.head, buffer_plan.slots, seconds)


def _choose_tier(stream: StepStream) -> tuple[CodeInMemory, float]:
    """Return the code of a stream, from stencils where this machine has them, else from LLVM; and stencil seconds."""
    if not jit.supports_stencils():
        return LlvmProgram(stream), 0.0
    began = time.perf_counter()
    library = stencil_library(stream.real)
    pieces = library.get_stencils(stream.keys)
    seconds = time.perf_counter() - began
    return copy_stencils(stream, pieces), seconds


def _find_output(columns: CircuitColumns, number: int) -> int:
    if not 0 <= number < len(columns.outputs):
        raise OutputError(f"the circuit has {len(columns.outputs)} outputs; there is no output number {number}")
    return int(columns.outputs[number])


def _convert_constants(columns: CircuitColumns, dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    try:
        return np.array([float(value) for value in columns.constants], dtype)
    except (TypeError, ValueError):
        raise NotNativeError("native code supports only numbers and booleans as constants") from None


def _check_lanes(real: RealType) -> None:
    """Raise unless all lanes fit into one entry of a buffer, which begins at a multiple of a cache line."""
    most = CACHE_LINE_BYTES // real.item_bytes
    if real.lanes not in [1 << k for k in range(most.bit_length())]:
        raise NotNativeError(
            f"a vector has 1, 2, 4, ... or {most} numbers of type {real.dtype}; got lanes={real.lanes}"
        )


def _find_real_name(circuit: CircuitGraph) -> str:
    used = circuit.columns.list_used_types()
    shaped = next((kind for kind in used if kind.shape), None)
    if shaped is not None:
        raise NotNativeError(f"native code supports scalars only; this circuit has wires of {shaped}")
    return choose_real_name([kind.dtype for kind in used])


class _BufferHead(NamedTuple):
    """The beginning of the buffer: its initial contents, and the nodes whose slot is there."""

    head: NDArray[np.floating]
    slots: FixedSlots
    copies: list[tuple[int, int]]
    """Outputs whose value is in another slot, and the slot that they are copied to."""


def _lay_out_head(circuit: CircuitGraph, real: RealType) -> _BufferHead:
    columns = circuit.columns
    inputs = np.flatnonzero(columns.codes == INPUT_CODE)
    count = len(inputs)
    m = len(columns.outputs)
    values = np.full(circuit.size, -1, np.int32)
    gradients = np.full(circuit.size, -1, np.int32)
    values[inputs] = np.arange(count)
    gradients[inputs] = np.arange(count) + count + m
    constants = _convert_constants(columns, real.dtype)
    # Compared by their bits, because 0.0 == -0.0.
    bits_type = f"u{real.item_bytes}"
    bits, places, _ = number_keys(constants.view(bits_type))
    values[columns.constant_nodes] = 2 * count + m + places
    copies = list[tuple[int, int]]()
    for slot, node in enumerate(columns.outputs.tolist(), count):
        if values[node] < 0:
            values[node] = slot
        else:
            copies.append((node, slot))
    head = np.concatenate([np.zeros(2 * count + m, real.dtype), bits.astype(bits_type).view(real.dtype)])
    return _BufferHead(head, FixedSlots(values, gradients, len(head)), copies)


def _make_buffer(head: NDArray[np.floating], slots: int, real: RealType) -> NDArray[np.floating]:
    numbers = np.zeros(slots * real.lanes, real.dtype)
    numbers[: len(head) * real.lanes] = np.repeat(head, real.lanes)
    return copy_aligned(numbers)


def copy_aligned(numbers: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return a copy that begins at a cache line, as vector loads need it."""
    raw = np.empty(numbers.nbytes + CACHE_LINE_BYTES, np.uint8)
    skip = -raw.ctypes.data % CACHE_LINE_BYTES
    copy = raw[skip : skip + numbers.nbytes].view(numbers.dtype)
    copy[:] = numbers
    return copy


MAX_PROMOTED_STEPS = 20_000
"""Programs with more steps are not promoted: compiling one would keep a core busy for too long."""
COMPILE_SECONDS_PER_STEP = 0.5e-3
"""Approximate seconds that LLVM needs to compile a step."""
SAVED_SECONDS_PER_STEP = 0.5e-9
"""Approximate seconds that a step saves per call afterwards. Both grow with the circuit, so a call count decides."""


def recompile_with_llvm(program: NativeProgram) -> NativeProgram:
    """Return a program with the same steps on the same buffer, compiled by LLVM; takes about half a ms per step."""
    began = time.perf_counter()
    code = LlvmProgram(program.stream)
    seconds = program.seconds + time.perf_counter() - began
    return replace(program, entry=code.address, code=code, code_bytes=code.size, seconds=seconds, tier=LLVM_TIER)


class PromotableEngine(Protocol):
    """An engine that runs a program and can switch to another one for the same circuit."""

    program: NativeProgram

    def swap_program(self, program: NativeProgram) -> None:
        """Run another program from the next call on."""

    def notify_after(self, calls: int, due: Callable[[Self], None]) -> None:
        """Call `due` once, after the given number of calls."""


def promote_when_hot(entry: PromotableEngine) -> None:
    """Promote an engine's program to the LLVM tier, in the background, once it has been called often."""
    if entry.program.tier != LLVM_TIER and len(entry.program.stream) <= MAX_PROMOTED_STEPS:
        entry.notify_after(round(COMPILE_SECONDS_PER_STEP / SAVED_SECONDS_PER_STEP), _start_promotion)


def _start_promotion(entry: PromotableEngine) -> None:
    threading.Thread(target=_promote_engine, args=(weakref.ref(entry),), name="wiregrad-tier").start()


def _promote_engine(watched: weakref.ref[PromotableEngine]) -> None:
    entry = watched()
    if entry is None:
        return
    try:
        entry.swap_program(recompile_with_llvm(entry.program))
    except NotNativeError:
        # The stencils stay in use.
        return


SEED_STEP = PlainStep("seed")
STEPS_PER_FUNCTION = 300
"""The number of steps in one function."""


class SlotAccess:
    """Access to slots whose contents stay in LLVM values within one function, or one round of a loop."""

    def __init__(self, writer: LlvmWriter, real: RealType) -> None:
        self.writer = writer
        self.real = real
        self.absent = make_absent_bits(writer, real)
        self.read: set[int] = set()
        """Slots that are read before they are written."""
        self.known: dict[int, LlvmValue] = {}
        self.left: dict[int, LlvmValue] = {}
        """The bits that the function leaves in slots at its end."""
        self.present: dict[int, LlvmValue] = {}
        """Where the gradients in slots are present, if they are not marked: conditions are cheaper than marks."""
        self.holes: dict[int, int] = {}
        """The slot for each hole of the current step."""

    def load(self, hole: int) -> LlvmValue:
        """Return the bits of a slot; they are loaded once."""
        slot = self.holes[hole]
        if slot not in self.known:
            self.read.add(slot)
            self.known[slot] = self.load_slot(slot)
        self._mark_absence(slot)
        return self.known[slot]

    def store(self, hole: int, bits: LlvmValue) -> None:
        """Note the bits of a slot."""
        slot = self.holes[hole]
        self.known[slot] = self.left[slot] = bits
        self.present.pop(slot, None)

    def load_gradient(self, hole: int) -> tuple[LlvmValue, LlvmValue | None]:
        """Return the bits of a gradient, and where it is present if it is not marked."""
        slot = self.holes[hole]
        present = self.present.get(slot)
        return (self.load(hole) if present is None else self.known[slot]), present

    def store_gradient(self, hole: int, bits: LlvmValue, present: LlvmValue, *, marked: bool) -> None:
        """Note the bits of a gradient, and where it is present."""
        self.store(hole, bits)
        self.present[self.holes[hole]] = present

    def _mark_absence(self, slot: int) -> None:
        """Write the mark of an absent gradient into the lanes of a slot in which it is absent."""
        present = self.present.pop(slot, None)
        if present is not None:
            self.known[slot] = self.left[slot] = self.writer.select(present, self.known[slot], self.absent)

    def load_slot(self, slot: int) -> LlvmValue:
        """Write the load of a slot from the buffer."""
        return self.writer.load(self.real.bits_name, self._slot_pointer(slot), how=self._alignment)

    def store_block(self, hole: int, bits: LlvmValue) -> None:
        """Note the bits of several slots, a lane each."""
        for lane in range(bits.lanes):
            self.store(hole + lane, bits.take_lane(lane))

    def hide_value(self, slot: int) -> None:
        """Hide a slot's value from the optimizer: it would drop a product with a seed of 1, and so not quiet a NaN."""
        self.store_slot(slot)
        pointer = self._slot_pointer(slot)
        kind = self.left[slot].llvm_type
        self.known[slot] = self.writer.emit_value(
            self.real.bits_name, f"load volatile {kind}, {pointer.typed}{self._alignment}"
        )

    def store_slot(self, slot: int) -> None:
        """Write the store of a slot's latest bits into the buffer."""
        self._mark_absence(slot)
        self.writer.store(self.left[slot], self._slot_pointer(slot), self._alignment)

    @property
    def _alignment(self) -> str:
        return f", align {self.real.total_bytes}"

    def _slot_pointer(self, slot: int) -> LlvmValue:
        buffer = self.writer.name_value("%w", "ptr", 1)
        return self.writer.point_to("i8", buffer, slot * self.real.total_bytes)


class LlvmProgram:
    """The code of a program that LLVM compiled; it is freed with this object."""

    def __init__(self, stream: StepStream) -> None:
        steps = stream.list_steps()
        parts = [
            _write_part(stream.real, steps[k : k + STEPS_PER_FUNCTION])
            for k in range(0, len(steps), STEPS_PER_FUNCTION)
        ]
        self._functions = list[jit.JitFunctions]()
        for text in _finish_parts(stream, parts):
            if not threading.main_thread().is_alive():
                # The process is about to end, and waits for this thread.
                raise NotNativeError("the process ended before the circuit was compiled")
            self._functions.append(jit.JitFunctions(text, level=0))
        text = _write_program([part.find_address("part") for part in self._functions])
        self._functions.append(jit.JitFunctions(text, level=0))
        self.address = self._functions[-1].find_address("program")
        self.size = sum(functions.size for functions in self._functions)


def _write_program(parts: Sequence[int]) -> str:
    """Return the LLVM module of a function that calls the parts of a program by their addresses."""
    w = LlvmWriter()
    w.begin_function("preserve_nonecc void @program(ptr %w)")
    for address in parts:
        w.call_void(format_pointer(address), w.name_value("%w", "ptr"))
    w.end_function()
    return w.format_module()


def _write_part(real: RealType, steps: Sequence[tuple[StepKey, dict[int, int]]]) -> SlotAccess:
    """Write some steps as a function, up to the values that it leaves in slots."""
    writer = LlvmWriter(real.lanes, shares=True)
    writer.begin_function("void @part(ptr %w)", spills_vectors=real.lanes > 1)
    lowering = ExpressionLowering(writer, real, call_by_address)
    slots = SlotAccess(writer, real)
    for key, holes in steps:
        slots.holes = holes
        write_step(lowering, key, slots)
        if key == SEED_STEP:
            slots.hide_value(holes[OUTPUT_HOLE])
    return slots


def _finish_parts(stream: StepStream, parts: Sequence[SlotAccess]) -> list[str]:
    """Return the LLVM module of each part; values that no later part reads are not stored."""
    wanted = set(range(stream.inputs, 2 * stream.inputs + stream.outputs))
    texts = list[str]()
    for part in reversed(parts):
        for slot in part.left:
            if slot in wanted:
                part.store_slot(slot)
        part.writer.end_function()
        wanted = (wanted - part.left.keys()) | part.read
        texts.append(part.writer.format_module())
    return texts[::-1]


class StepArray(NamedTuple):
    """An array that a loop reads: how many numbers a step reads of it, and the character of its dtype."""

    size: int
    dtype: str


class StepArrays(NamedTuple):
    """What a loop reads and writes."""

    carry: Sequence[StepArray]
    rows: Sequence[StepArray]
    """Arrays with one row for each step."""
    consts: Sequence[StepArray]
    results: Sequence[int]
    """The numbers of each result that a step adds a row to."""

    @property
    def carried(self) -> int:
        """How many numbers are carried."""
        return sum(array.size for array in self.carry)


class StepLoop(NamedTuple):
    """The code of a loop whose steps run a program, compiled as one function."""

    run: Callable[[int, int, int, int, int], int]
    """`int64_t loop(double *buffer, int64_t *table, int64_t first, int64_t distance, int64_t steps)`."""
    kernel: int
    """The address of the same loop as a kernel of streams."""
    functions: jit.JitFunctions
    """The object that keeps the code in memory."""


MAX_LOOP_STEPS = 400
"""Maximum number of steps of a program that LLVM compiles together with the loop around it."""


def build_loop(program: NativeProgram, arrays: StepArrays, *, stops: bool) -> StepLoop | None:
    """Compile a loop that runs a program step after step; None if the program is too long for that.

    The program's first inputs are the carry, then come rows, and what does not change. Its outputs are the next carry,
    then rows of results, and if the loop `stops` a number that ends it when it is 0. The loop is given a table with the
    addresses of the rows and of the results, and the distances in bytes from one row to the next. It numbers the steps
    from `first` by `distance`, and returns how many it ran.
    """
    steps = program.stream.list_steps()
    if len(steps) > MAX_LOOP_STEPS or program.real.name != "double" or program.real.lanes != 1:
        return None
    branch = find_branch(steps, program)
    groups = [steps] if branch is None else branch.groups
    slots = program.buffer_length if branch is None else branch.slots
    groups = fuse_scaling_products(groups, range(arrays.carried), program.inputs, zero=slots)
    texts = _finish_parts(program.stream, [_write_part(program.real, group) for group in groups])
    w = LlvmWriter()
    _write_step_loop(w, program, arrays, branch, slots=slots, stops=stops)
    if not stops:
        _write_loop_kernel(w, program, arrays)
    parts = [
        text.replace("define void @part(ptr %w)", f"define internal void @part_{number}(ptr %w) alwaysinline", 1)
        for number, text in enumerate(texts)
    ]
    functions = jit.JitFunctions(_join_modules([*parts, w.format_module()]), level=2)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    kernel = 0 if stops else functions.find_address("loop_kernel")
    return StepLoop(kind(functions.find_address("loop")), kernel, functions)


def _join_modules(texts: Sequence[str]) -> str:
    """Return one module with the functions of several; what they all declare is declared once."""
    lines: dict[str, None] = {}
    functions = []
    for text in texts:
        for line in text.split("\n"):
            if line.startswith("declare"):
                lines[line] = None
            else:
                functions.append(line)
    return "\n".join([*lines, *functions])


LoopStep = tuple[StepKey, dict[int, int]]


class StepBranch(NamedTuple):
    """A body of a loop with a condition by which some of its steps are run or not."""

    condition: int
    """The slot of the condition."""
    groups: list[list[LoopStep]]
    """Steps that always run, those that run where the condition holds and where it does not, and the steps behind."""
    slots: int
    """The number of slots of all steps, each of which has a slot of its own."""


FORWARD_STEPS = [PlainStep("begin"), PlainStep("copy"), PlainStep("return")]
"""Steps of programs without gradients that are no nodes."""


def find_branch(steps: Sequence[LoopStep], program: NativeProgram) -> StepBranch | None:
    """Find steps that only one side of a choice needs, and that are worth a branch; None if there are none.

    A choice computes both sides, which is cheaper than a branch unless one of them calls a function.
    """
    if not _has_nodes_alone(steps):
        return None
    renamed, slots = _give_own_slots(steps, program)
    conditions = {holes[0]: None for key, holes in renamed if _is_choice(key)}
    for condition in conditions:
        groups = _split_by_choice(renamed, condition)
        if any(calls_function(key, program.real) for group in groups[1:3] for key, _ in group):
            return StepBranch(condition, groups, slots)
    return None


def _has_nodes_alone(steps: Iterable[LoopStep]) -> bool:
    return all(isinstance(key, NodeKind) or key in FORWARD_STEPS for key, _ in steps)


def _is_choice(key: StepKey) -> bool:
    return isinstance(key, NodeKind) and key.op is TABLE["where"]


def _give_own_slots(steps: Sequence[LoopStep], program: NativeProgram) -> tuple[list[LoopStep], int]:
    """Return the steps with a slot of its own for each result, and copies of the outputs at the end."""
    current: dict[int, int] = {}
    renamed: list[LoopStep] = []
    count = program.buffer_length
    for key, holes in steps:
        if isinstance(key, PlainStep) and key.name != "copy":
            continue
        read = len(key.types) if isinstance(key, NodeKind) else 1
        new = {hole: current.get(slot, slot) if hole < read else slot for hole, slot in holes.items()}
        current[holes[OUTPUT_HOLE]] = new[OUTPUT_HOLE] = count
        renamed.append((key, new))
        count += 1
    for slot in range(program.inputs, program.inputs + program.outputs):
        if slot in current:
            renamed.append((PlainStep("copy"), {0: current[slot], OUTPUT_HOLE: slot}))
    return renamed, count


def _split_by_choice(steps: Sequence[LoopStep], condition: int) -> list[list[LoopStep]]:
    """Return the steps in four groups: before the choices by a condition, for either side of them, and behind."""
    behind = _find_dependents(steps, condition)
    sides = [_find_one_sided(steps, condition, side, behind) for side in (1, 2)]
    groups: list[list[LoopStep]] = [[], [], [], []]
    for number, step in enumerate(steps):
        place = 3 if number in behind else 1 if number in sides[0] else 2 if number in sides[1] else 0
        groups[place].append(step)
    return groups


def _list_read_slots(step: LoopStep) -> list[int]:
    key, holes = step
    return [holes[k] for k in range(len(key.types))] if isinstance(key, NodeKind) else [holes[0]]


def _find_dependents(steps: Sequence[LoopStep], condition: int) -> set[int]:
    """Return the choices by a condition, and the steps that depend on one of them."""
    slots: set[int] = set()
    found = set()
    for number, step in enumerate(steps):
        key, holes = step
        if (_is_choice(key) and holes[0] == condition) or not slots.isdisjoint(_list_read_slots(step)):
            found.add(number)
            slots.add(holes[OUTPUT_HOLE])
    return found


def _find_one_sided(steps: Sequence[LoopStep], condition: int, side: int, behind: set[int]) -> set[int]:
    """Return the steps whose results only one side of the choices by a condition reads."""
    shared: set[int] = set()
    """Slots that something else reads."""
    wanted: set[int] = set()
    found = set()
    for number in reversed(range(len(steps))):
        key, holes = steps[number]
        is_own = number not in behind and holes[OUTPUT_HOLE] in wanted and holes[OUTPUT_HOLE] not in shared
        if is_own:
            found.add(number)
        for hole, slot in enumerate(_list_read_slots(steps[number])):
            is_side = _is_choice(key) and holes[0] == condition and hole == side
            (wanted if is_own or is_side else shared).add(slot)
    return found


def fuse_scaling_products(
    groups: list[list[LoopStep]], carry: Iterable[int], outputs: int, *, zero: int
) -> list[list[LoopStep]]:
    """Return the steps of a loop with products that may become subnormal as `multiply_add`, which adds -0.0.

    These are the products with a carried number that steps only scale, such as a gradient that vanishes on its way
    back. Once it is subnormal, it often stays so: 0.9 times the smallest number is the smallest number again. On AMD's
    processors a multiplication with a subnormal result disturbs the instructions around it, and a step takes up to
    three times as long; a fused multiply-add does not. The bits are the same. The slot `zero` must hold -0.0.
    """
    steps = [step for group in groups for step in group]
    if "fma" not in jit.processor_features() or not _has_nodes_alone(steps):
        return groups
    slots = frozenset(carry)
    while True:
        scaled, products = _follow_scaling(steps, frozenset(carry), slots)
        remaining = frozenset(slot for slot in slots if outputs + slot in scaled)
        if remaining == slots:
            break
        slots = remaining
    places = iter(range(len(steps)))
    fused = PlainStep("multiply_add")
    return [
        [(fused, holes | {2: zero}) if next(places) in products else (key, holes) for key, holes in group]
        for group in groups
    ]


def _follow_scaling(
    steps: Sequence[LoopStep], carry: frozenset[int], slots: frozenset[int]
) -> tuple[set[int], set[int]]:
    """Return the slots whose numbers are scaled ones after all steps, if `slots` are before, and the products of them.

    A scaled number is a carried one times numbers that do not depend on the carry, or a choice of such numbers and 0.
    """
    scaled = set(slots)
    dependent = set(carry)
    products = set()
    for number, step in enumerate(steps):
        key, holes = step
        if isinstance(key, PlainStep) and key.name != "copy":
            continue
        read = _list_read_slots(step)
        result = holes[OUTPUT_HOLE]
        is_scaled = _is_scaled(key, read, scaled, dependent)
        if is_scaled and isinstance(key, NodeKind) and key.op is TABLE["multiply"] and not key.constants:
            products.add(number)
        for group, holds in ((scaled, is_scaled), (dependent, not dependent.isdisjoint(read))):
            if holds:
                group.add(result)
            else:
                group.discard(result)
    return scaled, products


def _is_scaled(key: StepKey, read: Sequence[int], scaled: set[int], dependent: set[int]) -> bool:
    """Return whether a step only scales a scaled number, or chooses one."""
    if not isinstance(key, NodeKind):
        return read[0] in scaled
    if _is_choice(key):
        zeros = [place for place, value, _ in key.constants if value == 0]
        sides = [place for place in (1, 2) if place not in zeros]
        return bool(sides) and all(read[place] in scaled for place in sides)
    if key.op is TABLE["multiply"]:
        return len(dependent.intersection(read)) == 1 and not scaled.isdisjoint(read) and read[0] != read[1]
    if key.op is TABLE["divide"]:
        return read[0] in scaled and read[1] not in dependent
    return key.op is TABLE["negative"] and read[0] in scaled


def _write_step_loop(
    w: LlvmWriter, program: NativeProgram, arrays: StepArrays, branch: StepBranch | None, *, slots: int, stops: bool
) -> None:
    """Write the function that runs the steps on a buffer of so many slots, and one more that holds -0.0."""
    w.begin_function("i64 @loop(ptr noalias %w, ptr noalias %table, i64 %first, i64 %distance, i64 %steps)")
    outside, table = (w.name_value(name, "ptr") for name in ("%w", "%table"))
    # A copy of the buffer whose address nobody else knows: LLVM keeps it in registers.
    length = program.buffer_length
    buffer = w.emit_value("ptr", f"alloca double, i64 {slots + 1}, align 64", 1)
    for slot in range(length):
        w.store(w.load("double", w.point_to("double", outside, slot)), w.point_to("double", buffer, slot))
    # LLVM would drop the addition of a number that it knows to be -0.0.
    hidden = w.emit_value("ptr", "alloca double, align 8", 1)
    w.store(w.as_value(-0.0, "double", 1), hidden)
    w.store(w.emit_value("double", f"load volatile double, {hidden.typed}", 1), w.point_to("double", buffer, slots))
    carry = arrays.carried
    left = [*range(carry), program.inputs + program.outputs - 1]

    def leave_loop(count: LlvmValue) -> None:
        for slot in left:
            w.store(w.load("double", w.point_to("double", buffer, slot)), w.point_to("double", outside, slot))
        w.emit_return(count)

    first, distance, count = (w.name_value(name, "i64") for name in ("%first", "%distance", "%steps"))
    written = [StepArray(size, "d") for size in arrays.results]
    number_of_arrays = len(arrays.rows) + len(written)
    places = [w.load("ptr", w.point_to("ptr", table, k)) for k in range(number_of_arrays)]
    strides = [w.load("i64", w.point_to("i64", table, number_of_arrays + k)) for k in range(number_of_arrays)]
    outputs = program.inputs
    with loop_over(0, count) as k:
        number = first + distance * k
        rows = [w.point_to("i8", place, number * stride) for place, stride in zip(places, strides, strict=True)]
        slot = carry
        for row, array in zip(rows, arrays.rows, strict=False):
            slot = _load_numbers(w, row, array, buffer, slot)
        _call_parts(w, buffer, branch)
        slot = outputs + carry
        for row, array in zip(rows[len(arrays.rows) :], written, strict=True):
            for number_in_row in range(array.size):
                value = w.load("double", w.point_to("double", buffer, slot))
                w.store(value, w.point_to("double", row, number_in_row))
                slot += 1
        new = [w.load("double", w.point_to("double", buffer, outputs + slot)) for slot in range(carry)]
        for slot, value in enumerate(new):
            w.store(value, w.point_to("double", buffer, slot))
        if stops:
            last = w.load("double", w.point_to("double", buffer, outputs + program.outputs - 1))
            with leave_if(last.is_equal_to(0)):
                leave_loop(k + 1)
    leave_loop(count)
    w.lines.append("}")


def _call_parts(w: LlvmWriter, buffer: LlvmValue, branch: StepBranch | None) -> None:
    """Write the calls of the functions that make up the body of a loop."""
    w.emit_line(f"call void @part_0({buffer.typed})")
    if branch is None:
        return
    # Conditions are floats in the buffer.
    holds = w.load("double", w.point_to("double", buffer, branch.condition)).is_nonzero()
    yes, no, done = (w.new_name("side") for _ in range(3))
    w.branch_if(holds, yes, no)
    w.begin_block(yes, falls=False)
    w.emit_line(f"call void @part_1({buffer.typed})")
    w.emit_line(f"br label %{done}")
    w.begin_block(no, falls=False)
    w.emit_line(f"call void @part_2({buffer.typed})")
    w.begin_block(done)
    w.emit_line(f"call void @part_3({buffer.typed})")


def _load_numbers(w: LlvmWriter, source: LlvmValue, array: StepArray, buffer: LlvmValue, slot: int) -> int:
    """Write the loads of consecutive numbers into the slots of a buffer, from a slot on; returns the slot behind."""
    for k in range(array.size):
        w.store(_load_as_double(w, source, array.dtype, k), w.point_to("double", buffer, slot + k))
    return slot + array.size


def _load_as_double(w: LlvmWriter, source: LlvmValue, dtype: str, number: LlvmValue | int) -> LlvmValue:
    """Write the load of a float, a whole number or a condition as a float."""
    kind = {"d": "double", "?": "i8"}.get(dtype, "i64")
    value = w.load(kind, w.point_to(kind, source, number))
    return value if kind == "double" else value.convert("sitofp", "double")


LOOP_KERNEL_HEAD_WORDS = 6
"""Words of a loop in a stream before those of its operands: kernel, number of words, the address of the initial buffer,
the number of the first step, the distance to the next one, and how many steps there are."""


def _write_loop_kernel(w: LlvmWriter, program: NativeProgram, arrays: StepArrays) -> None:
    """Write the function that runs the loop as an instruction of a stream.

    An operand has two words, where its base address stands and its offset, and a row a third one: the distance to the
    next row. The last operand is the result: the carry after the last step, then the rows of the results.
    """
    w.begin_function("void @loop_kernel(ptr %w, ptr %i)")
    table_of_bases, words = (w.name_value(name, "ptr") for name in ("%w", "%i"))
    numbers = iter(range(2, 1 << 30))

    def take_word() -> LlvmValue:
        return w.load("i64", w.point_to("i64", words, next(numbers)))

    def take_address() -> LlvmValue:
        base = w.load("ptr", w.point_to("i8", table_of_bases, take_word()))
        return w.point_to("i8", base, take_word())

    initial = w.emit_value("ptr", f"inttoptr {take_word().typed} to ptr", 1)
    first, distance, count = (take_word() for _ in range(3))
    length = program.buffer_length
    buffer = w.emit_value("ptr", f"alloca double, i64 {length}, align 64", 1)
    table = w.emit_value("ptr", f"alloca i64, i64 {2 * (len(arrays.rows) + len(arrays.results))}, align 8", 1)
    with loop_over(0, w.as_value(length, "i64", 1)) as k:
        w.store(w.load("double", w.point_to("double", initial, k)), w.point_to("double", buffer, k))
    slot = 0
    for array in arrays.carry:
        slot = _copy_numbers(w, take_address(), array, buffer, slot)
    places, strides = [], []
    for _ in arrays.rows:
        places.append(take_address())
        strides.append(take_word())
    slot += sum(array.size for array in arrays.rows)
    for array in arrays.consts:
        slot = _copy_numbers(w, take_address(), array, buffer, slot)
    target = take_address()
    place = w.point_to("double", target, arrays.carried)
    for size in arrays.results:
        places.append(place)
        strides.append(w.as_value(8 * size, "i64", 1))
        place = w.point_to("double", place, count * size)
    for number, value in enumerate([*places, *strides]):
        w.store(value, w.point_to("i64", table, number))
    typed = ", ".join(value.typed for value in (buffer, table, first, distance, count))
    w.emit_line(f"call i64 @loop({typed})")
    _copy_numbers(w, buffer, StepArray(arrays.carried, "d"), target, 0)
    w.end_function()


def _copy_numbers(w: LlvmWriter, source: LlvmValue, array: StepArray, target: LlvmValue, first: int) -> int:
    """Write a loop that copies numbers as floats into a target, from a place on; returns the place behind them."""
    with loop_over(0, w.as_value(array.size, "i64", 1)) as k:
        w.store(_load_as_double(w, source, array.dtype, k), w.point_to("double", target, k + first))
    return first + array.size


MAX_OFFSET = 2**31 - 1
"""Offsets into the buffer and the code have 32 bits."""
CONSTANT_HOLE = -1
"""Marks a hole for the offset to a constant in front of the code."""
STEPS_PER_BLOCK = 16_000
"""Stencils are copied for this many steps at a time, which fit into the cache."""
HANDED_PARAMETERS = ("ptr %base", "i64 %absent", "i64 %unused", "i64 %idle", "ptr %w")
"""The parameters that every stencil receives in registers and passes on: the buffer and the bits of an absent gradient,
in registers that calls preserve; two unused ones; and the buffer again, in a register with shorter instructions."""


ConstantChunk = bytes | str
"""Constants that stencils read, or the symbol of a function that they call, in whose place there is a jump to it."""


@record
class Stencil:
    """Machine code with holes."""

    code: bytes
    holes: tuple[tuple[int, int, int], ...]
    """The place of each hole, the operand that fills it, and the addend."""
    constants: tuple[tuple[int, ConstantChunk, int], ...]
    """The place of each offset to a constant, the chunk that holds the constant, and the constant's offset in it."""

    @cached_property
    def rows(self) -> bytes:
        """The holes, then the constants, as three integers each: place, operand, addend; for all programs the same."""
        constants = [(place, CONSTANT_HOLE, target - place) for place, _, target in self.constants]
        return np.array([*self.holes, *constants], np.int64).tobytes()


class _StencilText(NamedTuple):
    """The LLVM text of one stencil, the same in every process."""

    declared: frozenset[str]
    body: str
    """The function after its name."""

    @property
    def digest(self) -> bytes:
        """The digest of the text, by which the stencil is found in the cache."""
        return bytes.fromhex(make_entry_name(*sorted(self.declared), self.body))[:STENCIL_DIGEST_BYTES]


class StencilLibrary:
    """The stencils compiled so far, for one type of number; those of earlier processes are in a file of the cache."""

    def __init__(self, real: RealType) -> None:
        self.real = real
        self.stencils: dict[StencilKey, Stencil] = {}
        self._unsaved: dict[bytes, Stencil] = {}
        """Stencils by their digests that are not in the file yet."""
        self._saved_count = 0
        """The number of stencils in the file when this process last wrote it."""

    def get_stencils(self, keys: Iterable[StencilKey]) -> list[Stencil]:
        """Return stencils by their keys; those that are missing come from the cache, or are compiled."""
        wanted = list(keys)
        # Keys are nested tuples, and hashing one takes as long as the rest of a lookup, so it is done once.
        known = [self.stencils.get(key) for key in wanted]
        missing = [key for key, stencil in zip(wanted, known, strict=True) if stencil is None]
        if missing:
            self._add_stencils(list(dict.fromkeys(missing)))
        return [self.stencils[key] if stencil is None else stencil for key, stencil in zip(wanted, known, strict=True)]

    def _add_stencils(self, keys: Sequence[StencilKey]) -> None:
        texts = [self._write_stencil(key) for key in keys]
        digests = [text.digest for text in texts]
        stored = self._saved.select_stencils(digests)
        new = [k for k, digest in enumerate(digests) if digest not in stored]
        if new:
            compiled = self._compile_stencils([texts[k] for k in new])
            made = {digests[k]: stencil for k, stencil in zip(new, compiled, strict=True)}
            stored |= made
            self._unsaved |= made
            # Writing takes as long as the file is large, so the file grows by a share of its size.
            if len(self._unsaved) * SAVED_SHARE >= max(self._saved_count, len(self._saved)):
                self.save_stencils()
        self.stencils.update(zip(keys, map(stored.__getitem__, digests), strict=True))

    @cached_property
    def _saved(self) -> StencilTable:
        """The stencils in the cache when they were first wanted."""
        return self._read_saved()

    def _read_saved(self) -> StencilTable:
        content = self._entry.load()
        return StencilTable.from_bytes(content) if content is not None else StencilTable.from_stencils({})

    def save_stencils(self) -> None:
        """Add new stencils to those in the cache; what another process adds at the same moment may be lost."""
        new = self._unsaved
        if not new:
            return
        self._unsaved = {}
        table = self._read_saved()
        known = table.select_stencils(table.digests) if len(table) < MAX_SAVED_STENCILS else {}
        stencils = known | new
        self._entry.store(StencilTable.from_stencils(stencils).to_bytes())
        self._saved_count = len(stencils)

    @property
    def _entry(self) -> jit.CachedEntry:
        processor = (jit.processor_name(), jit.list_feature_flags())
        return jit.CachedEntry("stencils", *processor, self.real.name, str(self.real.lanes))

    def _write_stencil(self, placed: StencilKey) -> _StencilText:
        numbers = [f"{self.real.llvm_type} %r{k}" for k in range(1, REGISTER_COUNT + 1)]
        parameters = [*HANDED_PARAMETERS, *numbers]
        writer = LlvmWriter(self.real.lanes, shares=True)
        writer.declare("preserve_nonecc void", "@next", *(parameter.split(" %")[0] for parameter in parameters))
        writer.begin_function("")
        lowering = ExpressionLowering(writer, self.real, call_by_symbol)
        access = _HoleAccess(lowering, placed)
        write_step(lowering, placed.key, access)
        if placed.key != PlainStep("return"):
            writer.emit_line(f"musttail call preserve_nonecc void @next({access.format_next_arguments()})")
        writer.end_function()
        head, *lines = writer.lines
        return _StencilText(
            frozenset(writer.declared), "\n".join([f"({', '.join(parameters)}){head.removeprefix('define')}", *lines])
        )

    def _compile_stencils(self, texts: Sequence[_StencilText]) -> list[Stencil]:
        holes = [f"@h{k} = external dso_local global i8" for k in range(HOLE_COUNT)]
        lines = [f'target triple = "{jit.STENCIL_TRIPLE}"', *holes]
        lines += sorted(frozenset().union(*(text.declared for text in texts)))
        lines += [f"define preserve_nonecc void @s{number}{text.body}" for number, text in enumerate(texts)]
        module = jit.parse_module("\n".join(lines))
        return _extract_stencils(jit.target_machine(stencils=True).emit_object(module), len(texts))


MAX_SAVED_STENCILS = 20_000
"""When the file has more stencils than this, it begins anew: reading them would take too long."""
SAVED_SHARE = 8
"""New stencils are written when they are this part of those in the file, an eighth, and when the process ends."""
STENCIL_DIGEST_BYTES = 16


class StencilTable:
    """Stencils as a few arrays, which a process reads in a moment and takes single stencils from.

    >>> one = Stencil(b"code", ((0, 1, 2),), ((4, "function", 0), (8, b"1234", 0)))
    >>> table = StencilTable.from_bytes(StencilTable.from_stencils({bytes(16): one}).to_bytes())
    >>> table.select_stencils([bytes(16), b"unknown"])[bytes(16)].constants
    ((4, 'function', 0), (8, b'1234', 0))
    """

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        digests, ends, self._code, holes, constants, chunk_ends, self._chunks, symbols = parts
        size = STENCIL_DIGEST_BYTES
        self.digests = [digests[k : k + size] for k in range(0, len(digests), size)]
        self._numbers = {digest: k for k, digest in enumerate(self.digests)}
        self._ends = np.frombuffer(ends, np.int64).reshape(-1, 3)
        """Where the code, the holes and the constants of each stencil end; the first row is zeros."""
        self._holes = np.frombuffer(holes, np.int64).reshape(-1, 3)
        self._constants = np.frombuffer(constants, np.int64).reshape(-1, 3)
        self._chunk_ends = np.frombuffer(chunk_ends, np.int64)
        self._symbols = symbols.decode().split("\n")

    def __len__(self) -> int:
        return len(self.digests)

    def select_stencils(self, digests: Iterable[bytes]) -> dict[bytes, Stencil]:
        """Return the stencils with these digests, as far as they are here."""
        return {digest: self._make_stencil(self._numbers[digest]) for digest in digests if digest in self._numbers}

    def _make_stencil(self, number: int) -> Stencil:
        (code, hole, constant), (code_end, hole_end, constant_end) = self._ends[number : number + 2].tolist()
        return Stencil(
            self._code[code:code_end],
            tuple((place, operand, addend) for place, operand, addend in self._holes[hole:hole_end].tolist()),
            tuple(
                (place, self._find_chunk(chunk), offset)
                for place, chunk, offset in self._constants[constant:constant_end].tolist()
            ),
        )

    def _find_chunk(self, number: int) -> ConstantChunk:
        start, end = self._chunk_ends[number : number + 2].tolist()
        return self._symbols[number] or self._chunks[start:end]

    @classmethod
    def from_stencils(cls, stencils: dict[bytes, Stencil]) -> StencilTable:
        """Return the table of stencils by their digests."""
        rows = stencils.values()
        chunks = list(dict.fromkeys(chunk for stencil in rows for _, chunk, _ in stencil.constants))
        numbers = {chunk: k for k, chunk in enumerate(chunks)}
        lengths = [(len(stencil.code), len(stencil.holes), len(stencil.constants)) for stencil in rows]
        holes = [hole for stencil in rows for hole in stencil.holes]
        constants = [(place, numbers[chunk], at) for stencil in rows for place, chunk, at in stencil.constants]
        data = [chunk if isinstance(chunk, bytes) else b"" for chunk in chunks]
        symbols = [chunk if isinstance(chunk, str) else "" for chunk in chunks]
        return cls(
            [
                b"".join(stencils),
                np.cumsum([(0, 0, 0), *lengths], axis=0, dtype=np.int64).tobytes(),
                b"".join(stencil.code for stencil in rows),
                np.array(holes, np.int64).tobytes(),
                np.array(constants, np.int64).tobytes(),
                np.cumsum([0, *map(len, data)], dtype=np.int64).tobytes(),
                b"".join(data),
                "\n".join(symbols).encode(),
            ]
        )

    def to_bytes(self) -> bytes:
        """Return the table as bytes."""
        sizes = np.array([len(part) for part in self._parts], np.int64)
        return sizes.tobytes() + b"".join(self._parts)

    @classmethod
    def from_bytes(cls, content: bytes) -> StencilTable:
        """Return the table of some bytes."""
        count = 8
        ends = np.cumsum(np.frombuffer(content, np.int64, count)) + 8 * count
        return cls([content[start:end] for start, end in pairwise([8 * count, *ends.tolist()])])


def collect_constants(pieces: Sequence[Stencil]) -> tuple[bytes, dict[ConstantChunk, int]]:
    """Return the constants that some stencils read and jumps to functions they call, and the offset of each chunk."""
    pool = bytearray()
    bases = dict[ConstantChunk, int]()
    for chunk in dict.fromkeys(chunk for stencil in pieces for _, chunk, _ in stencil.constants):
        bases[chunk] = len(pool)
        data = chunk if isinstance(chunk, bytes) else jit.write_jump(find_by_symbol(chunk).address)
        pool += data + bytes(-len(data) % CACHE_LINE_BYTES)
    return bytes(pool), bases


def _extract_stencils(binary: bytes, count: int) -> list[Stencil]:
    """Extract the stencils `s0`, `s1` and so on from an object file."""
    parsed = jit.parse_object_file(binary)
    text = parsed.find_text()
    constants = {k: part.data for k, part in parsed.sections.items() if part.name.startswith(".rodata")}
    spans = {symbol.name: (symbol.offset, symbol.size) for symbol in parsed.symbols}
    stencils = dict[int, Stencil]()
    at = 0
    for start, size, number in sorted((*spans[f"s{number}"], number) for number in range(count)):
        inside = list[jit.ObjectRelocation]()
        while at < len(text.relocations) and text.relocations[at].place < start + size:
            inside.append(text.relocations[at])
            at += 1
        stencils[number] = _make_stencil(text.data[start : start + size], start, inside, constants)
    return [stencils[number] for number in range(count)]


def _make_stencil(
    code: bytes, start: int, relocations: Sequence[jit.ObjectRelocation], sections: Mapping[int, bytes]
) -> Stencil:
    """Return a stencil from its bytes and relocations; `sections` are those with constants."""
    size = len(code)
    jumps = [row.place - start for row in relocations if row.symbol.name == "next" and row.kind == jit.CALL_RELOCATION]
    # The closing jump is dropped: the next stencil follows directly.
    if jumps and jumps[-1] == size - 4 and code[size - 5] == 0xE9:
        size -= 5
    body = np.frombuffer(code[:size], np.uint8).copy()
    holes = list[tuple[int, int, int]]()
    constants = list[tuple[int, ConstantChunk, int]]()
    for row in relocations:
        place = row.place - start
        symbol = row.symbol
        if symbol.name == "next":
            if place < size:
                body[place : place + 4] = np.frombuffer(np.int32(size - place + row.addend).tobytes(), np.uint8)
        elif row.kind in jit.ABSOLUTE_32_RELOCATIONS and symbol.name[:1] == "h":
            holes.append((place, int(symbol.name[1:]), row.addend))
        elif row.kind == jit.RELATIVE_RELOCATION and symbol.section in sections:
            constants.append((place, sections[symbol.section], symbol.offset + row.addend))
        elif row.kind == jit.CALL_RELOCATION and symbol.name.startswith(FUNCTION_SYMBOL_PREFIX):
            constants.append((place, symbol.name, row.addend))
        else:
            what = symbol.name or "a section"
            raise NotNativeError(f"a stencil refers to {what} in a way that cannot be patched (relocation {row.kind})")
    return Stencil(body.tobytes(), tuple(holes), tuple(constants))


class _HoleAccess(MarkedGradients):
    """Access through registers, and through holes that are filled later."""

    def __init__(self, lowering: ExpressionLowering, placed: StencilKey) -> None:
        self.lowering = lowering
        self.writer = lowering.writer
        self.real = lowering.real
        # The hole of the upstream gradient is followed by those of the inputs' gradients.
        is_backward = isinstance(placed.key, BackwardStep)
        first = UPSTREAM_HOLE if is_backward else 0
        write = FIRST_GRADIENT_HOLE if is_backward else OUTPUT_HOLE
        write = PACK_OUTPUT_HOLE if isinstance(placed.key, PackStep) else write
        self._read_registers = {first + k: register for k, register in enumerate(placed.reads) if register}
        self._written_registers = {write + k: register for k, register in enumerate(placed.writes) if register}
        self._stored_holes = {write + k for k, stored in enumerate(placed.stored) if stored}
        self._calls = calls_function(placed.key, self.real)
        self._new = dict[int, LlvmValue]()
        self._begins = placed.key == PlainStep("begin")
        self.absent = make_absent_bits(self.writer, self.real)
        if self._passes_absent and not self._begins:
            self.absent = self.writer.name_value("%absent", "i64")

    @property
    def _passes_absent(self) -> bool:
        """Whether the bits of an absent gradient fit into the register that is meant for them."""
        return self.real == RealType("double")

    def load(self, hole: int) -> LlvmValue:
        register = self._read_registers.get(hole)
        if register is None:
            pointer = self._hole_pointer(hole)
            return self.writer.load(self.real.bits_name, pointer, how=f", align {self.real.total_bytes}")
        if register == WITHIN_STEP_REGISTER:
            return self._new[register].as_bits()
        return self.writer.name_value(f"%r{register}", self.real.name).as_bits()

    def store(self, hole: int, bits: LlvmValue) -> None:
        if hole in self._written_registers:
            self._new[self._written_registers[hole]] = bits.as_real()
        if hole in self._stored_holes:
            self.writer.store(bits, self._hole_pointer(hole), f", align {self.real.total_bytes}")

    def store_block(self, hole: int, bits: LlvmValue) -> None:
        self.writer.store(bits, self._hole_pointer(hole), f", align {self.real.total_bytes}")

    def format_next_arguments(self) -> str:
        """Return the arguments of the next stencil: the buffer and the newest numbers."""
        numbers = [self._new.get(k, "poison" if self._calls else f"%r{k}") for k in range(1, REGISTER_COUNT + 1)]
        arguments = [f"{self.real.llvm_type} {number}" for number in numbers]
        if self._begins:
            absent = self.absent if self._passes_absent else "poison"
            return ", ".join([HANDED_PARAMETERS[0], f"i64 {absent}", *HANDED_PARAMETERS[2:], *arguments])
        return ", ".join([*HANDED_PARAMETERS[:-1], self._buffer_pointer.typed, *arguments])

    @property
    def _buffer_pointer(self) -> LlvmValue:
        # A called function may change the register of %w, but preserves that of %base.
        return self.writer.name_value("%base" if self.lowering.called else "%w", "ptr", 1)

    def _hole_pointer(self, hole: int) -> LlvmValue:
        offset = self.writer.name_value(f"ptrtoint (ptr @h{hole} to i64)", "i64", 1)
        return self.writer.point_to("i8", self._buffer_pointer, offset)


@cache
def stencil_library(real: RealType) -> StencilLibrary:
    """Return the stencil library for a type of number."""
    library = StencilLibrary(real)
    atexit.register(library.save_stencils)
    return library


def copy_stencils(stream: StepStream, pieces: list[Stencil]) -> jit.MachineCode:
    """Copy the stencils of a stream end to end, behind their constants, and fill their holes."""
    pool, bases = collect_constants(pieces)
    texts = [stencil.code for stencil in pieces]
    holes = _HoleTable(pieces, bases)
    ends = np.cumsum(np.array([len(text) for text in texts])[stream.which]) + len(pool)
    if ends[-1] > MAX_OFFSET:
        raise NotNativeError(f"the circuit needs {ends[-1]:,} bytes of machine code, beyond 32-bit offsets")
    starts = np.concatenate([[len(pool)], ends[:-1]])
    code = jit.MachineCode(int(ends[-1]))
    target = code.writable_bytes()
    target[: len(pool)] = np.frombuffer(pool, np.uint8)
    for first in range(0, len(stream), STEPS_PER_BLOCK):
        steps = slice(first, first + STEPS_PER_BLOCK)
        block = b"".join(map(texts.__getitem__, stream.which[steps].tolist()))
        target[starts[first] : starts[first] + len(block)] = np.frombuffer(block, np.uint8)
        holes.fill_holes(target, stream, steps, starts[steps])
    del target
    code.seal()
    code.address += len(pool)
    return code


class _HoleTable:
    """The holes of some stencils in one table: the place of each, the operand that fills it, and the addend."""

    def __init__(self, pieces: list[Stencil], bases: Mapping[ConstantChunk, int]) -> None:
        rows = [stencil.rows for stencil in pieces]
        self.counts = np.array([len(row) for row in rows]) // (3 * 8)
        self.first = np.cumsum(self.counts) - self.counts
        entries = np.frombuffer(b"".join(rows), np.int64).reshape(-1, 3)
        self.places, self.holes, added = entries.T.copy()
        chunks = [chunk for stencil in pieces for _, chunk, _ in stencil.constants]
        added[self.holes == CONSTANT_HOLE] += np.array([bases[chunk] for chunk in chunks], np.int64)
        self.added = added.astype(np.int32)

    def fill_holes(self, code: NDArray[np.uint8], stream: StepStream, steps: slice, starts: NDArray[np.int64]) -> None:
        """Fill the holes of some steps."""
        which = stream.which[steps]
        counts = self.counts[which]
        ends = np.cumsum(counts)
        owners = np.repeat(np.arange(len(which)), counts)
        number = np.arange(len(owners)) - (ends - counts)[owners] + self.first[which][owners]
        holes = self.holes[number]
        starts = starts[owners]
        offsets = stream.compute_offsets(steps, owners, holes)
        constants = np.flatnonzero(holes == CONSTANT_HOLE)
        offsets[constants] = -starts[constants]
        offsets += self.added[number]
        # A hole can be at any address, so the words of this view overlap.
        words = np.ndarray((len(code) - 3,), np.int32, code, strides=(1,))
        words[starts + self.places[number]] = offsets
