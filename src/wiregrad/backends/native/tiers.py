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
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit, program_steps, stencils
from wiregrad.backends.native.llvm_writer import LlvmValue, LlvmWriter, RealType, choose_real_name, format_pointer
from wiregrad.backends.native.program_steps import (
    NodeKinds,
    StepStream,
    find_node_kinds,
    make_backward_tables,
    make_step_stream,
)
from wiregrad.backends.native.stencils import MAX_OFFSET
from wiregrad.backends.native.step_kinds import (
    OUTPUT_HOLE,
    ExpressionLowering,
    PlainStep,
    StepKey,
    make_absent_bits,
    write_step,
)
from wiregrad.backends.native.vector_math import call_by_address
from wiregrad.errors import NotNativeError, OutputError
from wiregrad.ir import CircuitGraph
from wiregrad.ir.columns import CircuitColumns
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE
from wiregrad.ir.verifier import check_arrays

STENCIL_TIER = "stencils"
"""The tier of programs made of copied stencils."""
LLVM_TIER = "llvm"
"""The tier of programs that LLVM compiled."""
CACHE_LINE_BYTES = 64
"""Bytes in a cache line, which is also the widest vector."""
_BUILD_LOCK = threading.Lock()
"""Held while a program is built, so that two threads do not compile the same stencil."""


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

    @property
    def buffer_length(self) -> int:
        """The number of numbers in the buffer."""
        return len(self.initial)


def build_program(circuit: CircuitGraph, gradient: int | None = None, *, lanes: int = 1) -> NativeProgram:
    """Compile a circuit of scalars: its outputs, and, with `gradient`, the gradient of the output with that index.

    >>> from wiregrad.ir import parse_text
    >>> build_program(parse_text("input x\\ny = multiply x x\\noutput y"), 0).nodes
    1
    """
    began = time.perf_counter()
    with _BUILD_LOCK:
        if jit.supports_stencils():
            jit.check_executable_memory()
        program_steps.compile_planner()
        program_steps.compile_register_loops()
        return _build_while_locked(circuit, gradient, lanes, began, time.perf_counter() - began)


def _build_while_locked(
    circuit: CircuitGraph, gradient: int | None, lanes: int, began: float, made: float
) -> NativeProgram:
    columns = circuit.columns
    # Native code does no checks, so they are made here: inputs precede their readers, indices are within their arrays.
    check_arrays(columns)
    real = RealType(_find_real_name(circuit), lanes)
    root = -1 if gradient is None else _find_output(columns, gradient)
    kinds = find_node_kinds(circuit)
    making = time.perf_counter()
    rules = make_backward_tables(kinds if root >= 0 else kinds._replace(table=[None] * len(kinds.table)))
    made += time.perf_counter() - making
    layout = _lay_out_head(circuit, real)
    buffer_plan = program_steps.plan_buffer(_make_plan_input(circuit, kinds, rules, root, layout))
    if buffer_plan.slots * real.total_bytes > MAX_OFFSET:
        raise NotNativeError(f"the circuit needs a buffer of {buffer_plan.slots:,} numbers, beyond 32-bit offsets")
    stream = make_step_stream(circuit, kinds, buffer_plan, real, root, layout.copies)
    code, seconds = _choose_tier(stream)
    return NativeProgram(
        entry=code.address,
        initial=_make_buffer(layout.head, buffer_plan.slots, real),
        inputs=len(circuit.inputs),
        outputs=len(columns.outputs),
        real=real,
        nodes=int((np.diff(columns.starts) > 0).sum()),
        code_bytes=code.size,
        seconds=time.perf_counter() - began,
        stencil_seconds=made + seconds,
        tier=STENCIL_TIER if jit.supports_stencils() else LLVM_TIER,
        code=code,
        stream=stream,
    )


def _choose_tier(stream: StepStream) -> tuple[CodeInMemory, float]:
    """Return the code of a stream, from stencils where this machine has them, else from LLVM; and stencil seconds."""
    if not jit.supports_stencils():
        return LlvmProgram(stream), 0.0
    began = time.perf_counter()
    library = stencils.stencil_library(stream.real)
    pieces = library.get_stencils(stream.keys)
    seconds = time.perf_counter() - began
    return stencils.copy_stencils(stream, library, pieces), seconds


def _find_output(columns: CircuitColumns, number: int) -> int:
    if not 0 <= number < len(columns.outputs):
        raise OutputError(f"the circuit has {len(columns.outputs)} outputs; there is no output number {number}")
    return int(columns.outputs[number])


def _convert_constants(columns: CircuitColumns, dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    try:
        return np.array([float(value) for value in columns.constants], dtype)
    except (TypeError, ValueError):
        raise NotNativeError("native code supports only numbers and booleans as constants") from None


def _find_real_name(circuit: CircuitGraph) -> str:
    columns = circuit.columns
    used = [columns.type_table[k] for k in np.unique(columns.types).tolist()]
    shaped = next((kind for kind in used if kind.shape), None)
    if shaped is not None:
        raise NotNativeError(f"native code supports scalars only; this circuit has wires of {shaped}")
    return choose_real_name([kind.dtype for kind in used])


class _BufferHead(NamedTuple):
    """The beginning of the buffer: its initial contents, and the nodes whose slot is there."""

    head: NDArray[np.floating]
    values: NDArray[np.int32]
    gradients: NDArray[np.int32]
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
    bits, places = np.unique(constants.view(f"u{real.item_bytes}"), return_inverse=True)
    values[columns.constant_nodes] = 2 * count + m + places.reshape(-1)
    copies = list[tuple[int, int]]()
    for slot, node in enumerate(columns.outputs.tolist(), count):
        if values[node] < 0:
            values[node] = slot
        else:
            copies.append((node, slot))
    head = np.concatenate([np.zeros(2 * count + m, real.dtype), bits.view(real.dtype)])
    return _BufferHead(head, values, gradients, copies)


def _make_plan_input(
    circuit: CircuitGraph,
    kinds: NodeKinds,
    rules: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    root: int,
    layout: _BufferHead,
) -> program_steps.BufferPlanInput:
    columns = circuit.columns
    roles = np.zeros(circuit.size, np.uint8)
    roles[columns.codes == INPUT_CODE] = program_steps.INPUT_ROLE
    roles[columns.codes == CONSTANT_CODE] = program_steps.CONSTANT_ROLE
    carries = np.array([kind.differentiable for kind in columns.type_table], np.uint8)
    return program_steps.BufferPlanInput(
        starts=np.ascontiguousarray(columns.starts, np.int32),
        sources=np.ascontiguousarray(columns.sources, np.int32),
        kinds=kinds.nodes,
        roles=roles,
        carries=carries[columns.types],
        sends=rules[0],
        reads=rules[1],
        outputs=np.ascontiguousarray(columns.outputs, np.int32),
        root=root,
        values=layout.values,
        gradients=layout.gradients,
        first=len(layout.head),
    )


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


class _SlotAccess:
    """Access to slots whose contents stay in LLVM values within one function."""

    def __init__(self, writer: LlvmWriter, real: RealType) -> None:
        self.writer = writer
        self.real = real
        self.absent = make_absent_bits(writer, real)
        self.read: set[int] = set()
        """Slots that are read before they are written."""
        self.known: dict[int, LlvmValue] = {}
        self.left: dict[int, LlvmValue] = {}
        """The bits that the function leaves in slots at its end."""
        self.holes: dict[int, int] = {}
        """The slot for each hole of the current step."""

    def load(self, hole: int) -> LlvmValue:
        slot = self.holes[hole]
        if slot not in self.known:
            self.read.add(slot)
            self.known[slot] = self.writer.load(self.real.bits_name, self._slot_pointer(slot), how=self._alignment)
        return self.known[slot]

    def store(self, hole: int, bits: LlvmValue) -> None:
        slot = self.holes[hole]
        self.known[slot] = self.left[slot] = bits

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


def _write_part(real: RealType, steps: Sequence[tuple[StepKey, dict[int, int]]]) -> _SlotAccess:
    """Write some steps as a function, up to the values that it leaves in slots."""
    writer = LlvmWriter(real.lanes, shares=True)
    writer.begin_function("void @part(ptr %w)")
    lowering = ExpressionLowering(writer, real, call_by_address)
    slots = _SlotAccess(writer, real)
    for key, holes in steps:
        slots.holes = holes
        write_step(lowering, key, slots)
        if key == SEED_STEP:
            slots.hide_value(holes[OUTPUT_HOLE])
    return slots


def _finish_parts(stream: StepStream, parts: Sequence[_SlotAccess]) -> list[str]:
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
