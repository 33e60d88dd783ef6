"""An array circuit as a program: its stream of instructions, its workspace, and how a call runs it.

A `StreamProgram` is a stream with its workspaces. A call takes a workspace from a pool or makes one, writes the
addresses of arguments and results into its table, and runs the stream; so threads do not share memory. Most calls do
not come here: they go through a builtin (`make_call_entry`), which does the same natively. There are two kinds:

- `ArrayProgram` plans the workspace (every array has a place for as long as it is needed), compiles the kernels that
  are not there yet, and writes the instructions. Between two parts of the stream the interpreter computes the ops that
  have no kernel.
- `ExpandedProgram` is the scalar circuit of a circuit on very small arrays, as one instruction (`compile_expanded`).

Large loops and matrix products are several instructions, a *round*, that threads run at the same time
(`StreamShares`). How they are cut depends on the circuit alone, so the bits are the same for any number of threads.

With `fenced=True`, for tests, there is a strip of known bytes before and behind every array of the workspace and every
result; a call raises if one of them has changed.

Engines run such programs, for compiled circuits and for replays of recordings (`ArrayEngine`, `GradientProgram`). The
gradient is a circuit too: `GradientProgram` runs the reverse sweep on ports of a builder, beside the nodes of the
circuit itself, and compiles both together. A gradient that is absent by structure is no output of that circuit; one
that is absent at some elements has been filled with zeros. Where a traced function took a branch, the certified nodes
are additional outputs. If one of them differs from its recorded value, the interpreter decides: it knows the last bit,
and it raises the proper error.
"""

from __future__ import annotations

import ctypes
import time
import warnings
import weakref
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import batch, jit
from wiregrad.backends.native.builtin_calls import (
    ArrayCall,
    ArrayCallEntry,
    CallArray,
    CheckFallback,
    NumberSequence,
    make_array_builtin,
)
from wiregrad.backends.native.llvm_writer import LINE_BYTES, MIN_STREAMED_BYTES
from wiregrad.backends.native.tiers import StepArray, StepArrays, build_loop, build_program
from wiregrad.backends.native_arrays.loop_kernels import (
    CONTIGUOUS,
    STILL,
    STREAMED,
    STRIDED,
    LoopKernel,
    LoopOperand,
    LoopStore,
    can_stream,
    gains_from_pairs,
    write_loop_kernels,
)
from wiregrad.backends.native_arrays.lowering import (
    ARGUMENT,
    CONSTANT_DATA,
    RESULT,
    ROUND_DATA,
    STATUS,
    WORKSPACE,
    GroupStore,
    IndexCall,
    InterpreterCall,
    LapackCall,
    LoopAxes,
    LoopGroup,
    LoweredCircuit,
    MatrixProduct,
    OpCall,
    RepeatedSteps,
    RoundOperand,
    Storage,
    StreamStep,
    StridedArray,
    TableMove,
    check_loops,
    lower_circuit,
    merge_axes_for_loops,
    turn_matrix,
)
from wiregrad.backends.native_arrays.stream_kernels import (
    LAPACK_FAILURES,
    MAX_BATCH_AXES,
    NO_TRANSPOSE,
    PANEL_BYTES,
    PANEL_ROWS,
    TILE_BYTES,
    TRANSPOSE,
    compile_fixed_kernels,
    compile_index_move,
    compile_lapack,
    compile_matrix_product,
    compile_scalar_call,
    compile_search,
    compile_tiled_product,
    load_enter_function,
    load_loop_function,
    load_run_function,
    load_run_shared_function,
    read_lapack_settings,
    single_blas_thread,
)
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.errors import InputError, InterpreterWarning, NotNativeError, WiregradError
from wiregrad.frontends.transforms import loop_ops
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op, Pattern, Port, certificates
from wiregrad.ir.columns import NameTable, NodeLabels
from wiregrad.lazy import pause_collection
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.gradient_flow import fill_absent, match_shape
from wiregrad.passes import (
    drop_gradient_stops,
    expand_unnamed,
    merge_repeated,
    prune,
    simplify,
    sweep_ports,
)

ALIGNMENT = 64
"""Every array of the workspace begins at a multiple of this many bytes."""
FENCE_BYTES = 64
FENCE_MARK = 0xA5
MAX_IDLE_WORKSPACES = 4
"""The number of workspaces that are kept for later calls."""

MAX_BYTES_UNDER_GIL = 1 << 15
"""Programs on more memory than this release the GIL while they run."""
MAX_NEW_KERNELS = 400
"""Maximum number of kernels that are compiled for one circuit."""

ARRAY_TIER = "arrays"

_KERNEL_ADDRESSES: dict[str, int] = {}
"""The kernels compiled so far, by their structure."""


class StreamShares:
    """A stream as threads run it together: rounds of instructions that need not wait for each other."""

    def __init__(self, stream: NDArray[np.int64], rounds: Sequence[Sequence[int]]) -> None:
        """Take the rounds as the places of their instructions in the stream."""
        places = [place for each in rounds for place in each]
        self._kept = (stream, stream.ctypes.data + 8 * np.array(places, np.int64), np.cumsum([0, *map(len, rounds)]))
        self._addresses = [int(array.ctypes.data) for array in self._kept[1:]]
        self._rounds = len(rounds)
        self._counters = ctypes.c_int64 * (2 * max(1, self._rounds))

    def run(self, workspace: Workspace, threads: int) -> None:
        """Run the stream on a workspace in several threads."""
        run_shared = load_run_shared_function()
        counters = self._counters()
        done = ctypes.addressof(counters) + 8 * self._rounds

        def run() -> None:
            # The counters live as long as a thread may look at them, even after this call.
            run_shared(workspace.base, *self._addresses, self._rounds, counters, done)

        with single_blas_thread():
            batch.run_with_helpers(run, threads - 1)


class StreamPart(NamedTuple):
    """Instructions that run without Python in between, as indices of words."""

    first: int
    end: int


@dataclass(frozen=True)
class ArrayProgramFacts:
    """What an array program consists of."""

    instructions: int = 0
    kernels: int = 0
    """The number of different kernels."""
    workspace_bytes: int = 0
    peak_bytes: int = 0
    """The memory that a call needs besides its arguments: workspace, results and constants."""
    interpreted: tuple[tuple[str, int], ...] = ()
    """The ops that the interpreter computes, with the number of their calls."""
    interpreted_share: float = 0.0
    """The share of these calls among all steps."""
    code_bytes: int = 0
    seconds: float = 0.0
    stencil_seconds: float = 0.0
    """The part of `seconds` spent on stencils, which later circuits share."""
    tier: str = ARRAY_TIER
    """`arrays`, or the tier of the scalar circuit that it was expanded to."""


def _make_pool(kind: WireType) -> batch.ResultPool | None:
    """Return the pool for a result; None if it is not worth recycling."""
    return batch.ResultPool(kind.shape, kind.dtype) if batch.can_recycle(kind.shape, kind.dtype) else None


@dataclass(frozen=True, eq=False)
class Workspace:
    """The memory of one call, its address, and the arrays in it that the interpreter reads and writes."""

    memory: NDArray[np.uint8]
    base: int
    views: dict[InterpreterCall, list[NDArray[Any] | None]] = field(default_factory=dict)
    """The sources and the target of each call of the interpreter; None for arguments and results of the circuit."""


class StreamProgram:
    """A stream of instructions with its workspaces: a function from arguments to results.

    A workspace begins with a table of addresses: its own, those of the arguments, of the results, and of constants.
    Subclasses plan the rest of it, and write the instructions.
    """

    def __init__(self, circuit: CircuitGraph, results: Sequence[WireType], *, fenced: bool = False) -> None:
        self._fence = FENCE_BYTES if fenced else 0
        self._workspace_bytes = 0
        self._constants: list[NDArray[Any]] = []
        """Arrays whose addresses stand in the table behind those of the results."""
        self._data: list[tuple[int, NDArray[Any]]] = []
        """What else a workspace holds from the start, as pairs of an offset and an array."""
        self._blocks: list[Storage] = []
        self._parts: list[StreamPart | InterpreterCall] = []
        self._native_loops: dict[InterpreterCall, NativeLoop] = {}
        """What runs the loops of the circuit."""
        self._shares: StreamShares | None = None
        """The same instructions for several threads, if that pays."""
        self._multiplies = False
        """Whether BLAS multiplies matrices."""
        self._lone_stream: NDArray[np.int64] | None = None
        """The instructions for one thread, where there are others for several."""
        self._status_offset = 0
        """Where in the workspace an instruction leaves the number of an error; 0 if none does that.

        The table of addresses has its address after those of the results.
        """
        inputs = [circuit.type_of(node) for node in circuit.input_indices()]
        self._arguments = [(kind.shape, kind.dtype) for kind in inputs]
        self._results = [(_make_pool(kind), kind.shape, kind.dtype) for kind in results]
        self._large_results = [k for k, (pool, _, _) in enumerate(self._results) if pool is not None]
        self._table_size = 1 + len(self._arguments) + len(self._results)
        self._enter = load_enter_function()
        self._idle: list[Workspace] = []
        self._store_stream([])
        self.facts = ArrayProgramFacts()

    @property
    def has_loops(self) -> bool:
        """Whether a node of the circuit is a loop."""
        return bool(self._native_loops)

    @property
    def steps_inside(self) -> int:
        """The number of steps that one run takes: one, and those of loops that are instructions."""
        return 1 + sum(loop.instruction_steps for loop in self._native_loops.values())

    @property
    def result_types(self) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """The shape and the dtype of each result."""
        return [(shape, dtype) for _, shape, dtype in self._results]

    @property
    def is_shared(self) -> bool:
        """Whether several threads may run it together."""
        return self._shares is not None

    def _predict_peak(self) -> int:
        """Return the memory of a call in bytes: its workspace, its results and the constants."""
        results = sum(prod(shape) * dtype.itemsize for _, shape, dtype in self._results)
        return self._workspace_bytes + ALIGNMENT + results + self.constant_bytes

    @property
    def constant_bytes(self) -> int:
        """The size of the constants, which the program keeps."""
        return sum(data.nbytes for data in self._constants)

    def _store_stream(self, words: Sequence[int] | NDArray[np.int64]) -> None:
        self.stream = np.asarray(words, np.int64)
        self._stream_address = self.stream.ctypes.data
        self._stream_end = self._stream_address + 8 * len(self.stream)
        first = self._parts[0] if self._parts else None
        self._first_end = first.end if isinstance(first, StreamPart) else 0
        """The end of the instructions that run before the interpreter is called for the first time."""

    def run(
        self, arguments: Sequence[Any] | NDArray[Any], out: Sequence[NDArray[Any] | None] | None = None
    ) -> list[Any]:
        """Return the results for arguments of the circuit's types; results without axes are NumPy numbers.

        With `out`, results are written into these arrays of the caller, which share no memory with the arguments or
        with each other. A result for which it has None is a new array.
        """
        # This is most of the cost of a call on small arrays, so the usual case of each step is written out.
        inputs = [
            argument
            if type(argument) is np.ndarray
            and argument.dtype is dtype
            and argument.shape == shape
            and argument.flags.c_contiguous
            else _prepare_argument(argument, shape, dtype)
            for argument, (shape, dtype) in zip(arguments, self._arguments, strict=True)
        ]
        results = (
            [np.empty(shape, dtype) if pool is None else pool.take_array() for pool, shape, dtype in self._results]
            if out is None
            else self._make_results(out)
        )
        if self._fence and out is None:
            results = [self._fence_result(shape, dtype) for _, shape, dtype in self._results]
        try:
            workspace = self._idle.pop()
        except IndexError:
            workspace = self._make_workspace()
        if self._shares is not None:
            if self._enter is None:
                self._write_addresses(workspace, [*inputs, *results])
            else:
                self._enter((*inputs, *results), workspace.base, self._stream_end, self._stream_end)
            self._shares.run(workspace, batch.count_threads())
        elif self._enter is not None and len(self._parts) == 1 and self._first_end:
            self._enter((*inputs, *results), workspace.base, self._stream_address, self._stream_end)
        else:
            self._run_parts(workspace, inputs, results)
        if self._fence:
            self._check_fences(workspace.memory, results if out is None else ())
        failure = self._read_failure(workspace) if self._status_offset else 0
        if len(self._idle) < MAX_IDLE_WORKSPACES:
            self._idle.append(workspace)
        for pool, result in self._recycled(results) if out is None else ():
            pool.keep_array(result)
        if failure:
            raise np.linalg.LinAlgError(LAPACK_FAILURES[failure])
        return [result if result.ndim else result[()] for result in results]

    def _read_failure(self, workspace: Workspace) -> int:
        """Return the number of the error that an instruction has left in a workspace; 0 if none has."""
        return ctypes.c_int64.from_address(workspace.base + self._status_offset).value

    @property
    def _needs_python(self) -> bool:
        """Whether Python runs parts of the stream."""
        return len(self._parts) > 1 or any(isinstance(part, InterpreterCall) for part in self._parts)

    @property
    def _status_entry(self) -> int:
        """The entry of the table with the address of the number of an error."""
        return 1 + len(self._arguments) + len(self._results)

    def bind_memory(self) -> BoundStream | None:
        """Return the stream on memory of its own, to be run by other native code.

        None if Python runs parts of it, or looks for errors after it.
        """
        if self._needs_python or self._status_offset or (self.is_shared and not self._multiplies):
            return None
        inputs = [np.zeros(shape, dtype) for shape, dtype in self._arguments]
        results = [np.zeros(shape, dtype) for _, shape, dtype in self._results]
        workspace = self._make_workspace()
        self._write_addresses(workspace, [*inputs, *results])
        stream = self.stream if self._lone_stream is None else self._lone_stream
        return BoundStream(inputs, results, workspace, stream.ctypes.data, stream.ctypes.data + stream.nbytes)

    def _make_results(self, out: Sequence[NDArray[Any] | None]) -> list[NDArray[Any]]:
        """Return the arrays of the caller, and new ones for those that are not there."""
        pairs = zip(out, self.result_types, strict=True)
        return [np.empty(*kind) if array is None else array for array, kind in pairs]

    def make_call_entry(
        self,
        checks: Sequence[Any] = (),
        names: Sequence[str] = (),
        labels: Sequence[str] = (),
        number_dtypes: str = "d",
        *,
        alone: bool = False,
    ) -> ArrayCallEntry:
        """Return what a builtin needs to run this program; the last results must equal `checks`.

        Results without axes become Python floats; `number_dtypes` are the dtypes that they may have. Raises
        `NotNativeError` for programs that only Python can run: the interpreter computes an op, an argument or result
        without axes has another dtype, or several threads run it; with `alone`, one thread runs such programs too.
        """
        if self._fence or self._needs_python:
            raise NotNativeError("the interpreter computes a part of this program")
        if self.is_shared and not alone:
            raise NotNativeError("this program runs in several threads")
        inputs = [CallArray(shape, dtype) for shape, dtype in self._arguments]
        results = [CallArray(shape, dtype, pool is not None) for pool, shape, dtype in self._results]
        numbers = {array.dtype.char for array in results[: len(results) - len(checks)] if not array.shape}
        if not numbers <= set(number_dtypes) or any(array.dtype.char != "d" for array in inputs if not array.shape):
            raise NotNativeError("an input or output without axes is no float")
        if self._status_offset:
            # Where an instruction leaves the number of an error, Python runs the program again and raises it.
            results.append(CallArray((), np.dtype(np.int64)))
            checks = [*checks, np.int64(0)]
        workspace = self._make_workspace()
        held = sum(prod(array.shape) * array.dtype.itemsize for array in (*inputs, *results)) + self._workspace_bytes
        stream = self.stream if self._lone_stream is None else self._lone_stream
        call = ArrayCall(
            run=compile_fixed_kernels().run,
            first=stream.ctypes.data,
            end=stream.ctypes.data + stream.nbytes,
            workspace=workspace.base,
            inputs=inputs,
            results=results,
            checks=checks,
            releases=held > MAX_BYTES_UNDER_GIL,
            names=names,
            labels=labels,
        )
        return ArrayCallEntry(call, (self, workspace))

    def make_replay(self, expected: Sequence[Any] = ()) -> Callable[..., Any]:
        """Return the function for replays; the last results must equal `expected`.

        It returns the other results in a tuple, the number of the check that fails, or None for arguments that are not
        exactly arrays and floats of the circuit's types. It is a builtin, unless several threads run the program.
        Raises `NotNativeError` if there is none for this program.
        """
        if not self.is_shared or self._fence:
            return make_array_builtin("replay", self.make_call_entry(expected, number_dtypes="df"))
        first_check = len(self._results) - len(expected)
        if any(dtype.kind != "f" for _, shape, dtype in self._results[:first_check] if not shape):
            raise NotNativeError("an output without axes is no float")
        run_alone = self._make_lone_replay(expected)

        def replay(*arguments: Any) -> Any:
            if run_alone is not None and batch.count_threads() == 1:
                return run_alone(*arguments)
            if len(arguments) != len(self._arguments) or not all(map(_is_exactly, arguments, self._arguments)):
                return None
            try:
                results = self.run(arguments)
            except np.linalg.LinAlgError:
                return None
            pairs = enumerate(zip(results[first_check:], expected, strict=True))
            failed = next((k for k, pair in pairs if not certificates.have_same_bits(*pair)), None)
            numbers = [float(each) if not np.ndim(each) else each for each in results[:first_check]]
            return tuple(numbers) if failed is None else failed

        return replay

    def _make_lone_replay(self, expected: Sequence[Any]) -> Callable[..., Any] | None:
        """Return the function for calls where there is one thread, BLAS included; None if there is no builtin."""
        try:
            builtin = make_array_builtin("replay", self.make_call_entry(expected, number_dtypes="df", alone=True))
        except NotNativeError:
            return None
        if not self._multiplies:
            return builtin

        def replay(*arguments: Any) -> Any:
            with single_blas_thread():
                return builtin(*arguments)

        return replay

    def _recycled(self, results: list[NDArray[Any]]) -> Iterator[tuple[batch.ResultPool, NDArray[Any]]]:
        for number in self._large_results:
            pool = self._results[number][0]
            assert pool is not None
            yield pool, results[number]

    def _run_parts(self, workspace: Workspace, inputs: list[NDArray[Any]], results: list[NDArray[Any]]) -> None:
        """Run all parts on a workspace."""
        base = workspace.base
        enter = self._enter
        if enter is None:
            self._write_addresses(workspace, [*inputs, *results])
        else:
            enter((*inputs, *results), base, self._stream_address, self._stream_address + 8 * self._first_end)
        run = load_run_function()
        with np.errstate(all="ignore"):
            for part in self._parts[1:] if enter is not None and self._first_end else self._parts:
                if isinstance(part, StreamPart):
                    run(base, self._stream_address + 8 * part.first, self._stream_address + 8 * part.end)
                else:
                    self._call_interpreter(part, workspace, inputs, results)

    def _write_addresses(self, workspace: Workspace, arrays: Sequence[NDArray[Any]]) -> None:
        """Write the addresses of arguments and results into the workspace's table."""
        table = workspace.memory[: 8 * self._table_size].view(np.int64)
        table[1 : 1 + len(arrays)] = [array.ctypes.data for array in arrays]

    def _call_interpreter(
        self,
        call: InterpreterCall,
        workspace: Workspace,
        inputs: Sequence[NDArray[Any]],
        results: Sequence[NDArray[Any]],
    ) -> None:
        """Compute one op with its NumPy function, on arrays in the workspace."""
        views = workspace.views.get(call)
        if views is None:
            views = workspace.views[call] = [self._view_workspace(each, workspace) for each in call.list_arrays()]
        *sources, target = (
            _view_pairs(self._view_argument(array, inputs, results) if view is None else view, dtype)
            for view, array, dtype in zip(views, call.list_arrays(), call.dtypes, strict=True)
        )
        compute = self._native_loops.get(call) or call.op.compute
        result = np.asarray(compute(*(source if source.ndim else source[()] for source in sources)))
        if result.shape != target.shape:
            raise AssertionError(f"{call.op.title} returned shape {result.shape}; wanted {target.shape}")
        target[...] = result

    def _view_argument(
        self, array: StridedArray, inputs: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]
    ) -> NDArray[Any]:
        """Return an array in the memory of an argument or a result."""
        storage = array.storage
        return _view_memory(array, (inputs if storage.role == ARGUMENT else results)[storage.number], storage.offset)

    def _view_workspace(self, array: StridedArray, workspace: Workspace) -> NDArray[Any] | None:
        """Return an array of the workspace or a constant; None for an argument or result, which differ by call."""
        storage = array.storage
        if storage.role == WORKSPACE:
            return _view_memory(array, workspace.memory, storage.offset)
        return _view_memory(array, self._constants[storage.number], 0) if storage.role == CONSTANT_DATA else None

    def _make_workspace(self) -> Workspace:
        """Return a new workspace."""
        memory = np.empty(self._workspace_bytes + ALIGNMENT, np.uint8)
        skip = -memory.ctypes.data % ALIGNMENT
        workspace = memory[skip : skip + self._workspace_bytes]
        if self._fence:
            workspace[:] = FENCE_MARK
        table = workspace[: 8 * self._table_size].view(np.int64)
        table[0] = workspace.ctypes.data
        table[self._table_size - len(self._constants) :] = [data.ctypes.data for data in self._constants]
        if self._status_offset:
            table[self._status_entry] = workspace.ctypes.data + self._status_offset
        for offset, data in self._data:
            workspace[offset : offset + data.nbytes] = data.view(np.uint8)
        return Workspace(workspace, workspace.ctypes.data)

    def _fence_result(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        memory = np.full(2 * self._fence + prod(shape) * dtype.itemsize, FENCE_MARK, np.uint8)
        return memory[self._fence : len(memory) - self._fence].view(dtype).reshape(shape)

    def _check_fences(self, workspace: NDArray[np.uint8], results: Sequence[NDArray[Any]]) -> None:
        """Raise if a byte between the arrays has changed."""
        marks = np.ones(len(workspace), np.bool_)
        marks[: 8 * self._table_size] = False
        for storage in self._blocks:
            marks[storage.offset : storage.offset + storage.nbytes] = False
        if np.any(workspace[marks] != FENCE_MARK):
            places = np.flatnonzero(marks & (workspace != FENCE_MARK))[:5].tolist()
            raise AssertionError(f"an instruction wrote outside of its arrays, at bytes {places} of the workspace")
        for result in results:
            memory = result
            while isinstance(memory.base, np.ndarray):
                memory = memory.base
            if np.any(memory[: self._fence] != FENCE_MARK) or np.any(memory[len(memory) - self._fence :] != FENCE_MARK):
                raise AssertionError("an instruction wrote outside of a result")


class BoundStream(NamedTuple):
    """A stream with the arrays that it reads and writes."""

    inputs: list[NDArray[Any]]
    results: list[NDArray[Any]]
    workspace: Workspace
    first: int
    end: int


class StreamText:
    """Instructions that are being written: their words and, for threads, which of them need not wait for each other."""

    def __init__(self, *, has_rounds: bool) -> None:
        self.length = 0
        """The number of words."""
        self.instructions = 0
        self.rounds: list[list[int]] = []
        """The places of the instructions of each round, if these are wanted."""
        self._has_rounds = has_rounds
        self._words: list[int] = []
        self._chunks: list[NDArray[np.int64]] = []

    def append_round(self, rows: Sequence[list[int]]) -> None:
        """Append instructions, each a kernel and its words, that need not wait for each other."""
        places = []
        for row in rows:
            places.append(self.length)
            self._words += [row[0], len(row) + 1, *row[1:]]
            self.length += len(row) + 1
        if places and self._has_rounds:
            self.rounds.append(places)
        self.instructions += len(places)

    def append_repeated(self, text: StreamText, rows: NDArray[np.int64]) -> None:
        """Append a text several times; `rows` are its words each time."""
        if self._has_rounds:
            for first in range(self.length, self.length + rows.size, text.length):
                self.rounds += [[first + place for place in places] for places in text.rounds]
        self.instructions += len(rows) * text.instructions
        self.length += rows.size
        self._chunks += [np.array(self._words, np.int64), rows.reshape(-1)]
        self._words = []

    def join_words(self) -> NDArray[np.int64]:
        """Return all words."""
        return np.concatenate([*self._chunks, np.array(self._words, np.int64)])


class ArrayProgram(StreamProgram):
    """A circuit, compiled to loops over arrays.

    >>> from wiregrad.ir import parse_text
    >>> program = ArrayProgram(parse_text("input x: float64[3]\\ny = multiply x x\\noutput y"))
    >>> program.run([np.array([1.0, 2.0, 3.0])])
    [array([1., 4., 9.])]
    """

    def __init__(self, circuit: CircuitGraph, *, fenced: bool = False, limit: int | None = None) -> None:
        start = time.perf_counter()
        self._lowered = lower_circuit(circuit, limit)
        super().__init__(circuit, self._lowered.result_types, fenced=fenced)
        self._steps = self._lowered.steps
        self._fills = _find_fills(self._lowered)
        self._constants = [data for _, data in self._lowered.constants]
        self._repeated = [step for step in self._steps if isinstance(step, RepeatedSteps)]
        inner = [step for repeated in self._repeated for step in repeated.body.steps]
        may_fail = any(isinstance(step, LapackCall) and step.op.may_raise for step in (*self._steps, *inner))
        counts = (1, len(self._lowered.arguments), len(self._lowered.results), int(may_fail), len(self._constants))
        roles = (WORKSPACE, ARGUMENT, RESULT, STATUS, CONSTANT_DATA)
        self._table_starts = dict(zip(roles, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
        self._table_size = sum(counts)
        offset = _round_up(8 * self._table_size) + self._fence
        self._plan_memory(offset)
        if may_fail:
            self._place_status()
        self._scratch_start = self._workspace_bytes
        """Where the partial sums of loops in pieces, or the panels of products in tiles, begin in the workspace."""
        products = [step for step in (*self._steps, *inner) if isinstance(step, MatrixProduct)]
        self._multiplies = bool(products)
        self._panels = self._place_panels(products)
        streamed = self._find_streamed_results()
        groups = [step for step in (*self._steps, *inner) if isinstance(step, LoopGroup)]
        loops = {group: _build_loop(group, streamed) for group in groups}
        self._loops = {step: self._cut_loop(step, loop) for step, loop in loops.items() if loop is not None}
        kernels = {loop.key: loop.kernel for cut in self._loops.values() for loop in cut.list_loops()}
        code_bytes = compile_kernels(kernels)
        self._cuts_products = True
        calls = [step for step in self._steps if isinstance(step, InterpreterCall)]
        self._native_loops = {step: find_native_loop(step.op) for step in calls if is_loop(step.op)}
        is_shared = self._is_worth_sharing()
        text = self._write_stream(has_rounds=is_shared)
        self._store_stream(text.join_words())
        self._instructions = text.instructions
        if is_shared:
            self._shares = StreamShares(self.stream, text.rounds)
            self._lone_stream = self._write_lone_stream() if self._multiplies else self.stream
        self._loops.clear()
        calls = [step for step in calls if step not in self._native_loops]
        self.facts = ArrayProgramFacts(
            instructions=self._instructions,
            kernels=len(kernels),
            workspace_bytes=self._workspace_bytes,
            peak_bytes=self._predict_peak(),
            interpreted=tuple(sorted(Counter(step.op.name for step in calls).items())),
            interpreted_share=len(calls) / max(1, len(calls) + self._instructions),
            code_bytes=code_bytes,
            seconds=time.perf_counter() - start,
        )

    def _find_streamed_results(self) -> frozenset[Storage]:
        """Return the results that one step writes and none reads."""
        uses = Counter(storage for step in self._steps for storage in _storages_of(step))
        return frozenset(storage for storage in self._lowered.results if uses[storage] == 1 and storage.fill is None)

    def _cut_loop(self, group: LoopGroup, loop: LoopInstruction) -> CutLoop:
        """Return a loop in pieces that threads can run at the same time; its partial sums are behind all arrays."""
        cut = cut_loop(loop, group)
        self._place_scratch(cut.partial_sums)
        return cut

    def _place_status(self) -> None:
        """Give the number of an error its place behind all arrays."""
        status = Storage(1, np.dtype(np.int64), offset=_round_up(self._workspace_bytes) + self._fence)
        self._status_offset = status.offset
        self._workspace_bytes = _round_up(status.offset + status.nbytes) + self._fence
        self._blocks.append(status)

    def _place_panels(self, products: Sequence[MatrixProduct]) -> tuple[Storage, ...]:
        """Return the panels of products in tiles, behind all arrays: one for each piece of a product."""
        count = max((len(cut_product(step)) for step in products if runs_in_tiles(step)), default=0)
        panels = tuple(Storage(PANEL_BYTES, np.dtype(np.uint8)) for _ in range(count))
        self._place_scratch(panels)
        return panels

    def _place_scratch(self, storages: Sequence[Storage]) -> None:
        """Give what one step alone uses its place behind all arrays, which other steps use as well."""
        place = _round_up(self._scratch_start)
        for storage in storages:
            storage.offset = place + self._fence
            place = _round_up(storage.offset + storage.nbytes)
        if storages:
            self._workspace_bytes = max(self._workspace_bytes, place + self._fence)
            self._blocks += storages

    def _plan_memory(self, offset: int) -> None:
        """Give every array of the workspace, from an offset on, its place; what a round needs has one block."""
        inner = {step: plan_workspace(step.body.steps, (), 0, self._fence) for step in self._repeated}
        for step, (_, size) in inner.items():
            step.scratch.size = size
        results = self._lowered.results
        self._blocks, self._workspace_bytes = plan_workspace(self._steps, results, offset, self._fence)
        for step, (blocks, _) in inner.items():
            for storage in blocks:
                storage.offset += step.scratch.offset
                storage.role = step.scratch.role
                storage.number = step.scratch.number
            self._blocks.remove(step.scratch)
            self._blocks += blocks

    def _is_worth_sharing(self) -> bool:
        """Return whether several threads run this program faster than one does, with BLAS in several threads."""
        if any(isinstance(step, InterpreterCall) for step in self._steps):
            return False
        work = {False: 0, True: 0}
        """The work in one piece that BLAS does, and the work in several pieces."""
        for steps, rounds in ((self._steps, 1), *((step.body.steps, step.rounds) for step in self._repeated)):
            for step in steps:
                if isinstance(step, MatrixProduct):
                    work[len(cut_product(step)) > 1] += rounds * _count_products(step) // WORK_PER_PRODUCT
                elif isinstance(step, LoopGroup) and step in self._loops and len(self._loops[step].pieces) > 1:
                    work[True] += rounds * self._loops[step].work
        return work[True] >= max(MIN_SHARED_WORK, work[False])

    def _write_stream(self, *, has_rounds: bool) -> StreamText:
        """Write the instructions of all steps, and note where the interpreter has to be called."""
        text = self._begin_stream(has_rounds=has_rounds)
        first = 0
        for number, step in enumerate(self._steps):
            self._write_step(text, self._fills.get(number, ()), step)
            if isinstance(step, InterpreterCall) and not self._is_instruction(step):
                if text.length > first:
                    self._parts.append(StreamPart(first, text.length))
                self._parts.append(step)
                first = text.length
        text.append_round([self._fill_words(storage) for storage in self._fills.get(len(self._steps), ())])
        if text.length > first:
            self._parts.append(StreamPart(first, text.length))
        return text

    def _begin_stream(self, *, has_rounds: bool) -> StreamText:
        """Return the text of a stream, which begins without an error."""
        text = StreamText(has_rounds=has_rounds)
        if self._status_offset:
            text.append_round([self._fill_words(Storage(1, np.dtype(np.int64), STATUS, fill=0))])
        return text

    def _write_lone_stream(self) -> NDArray[np.int64]:
        """Return the instructions for one thread: matrix products are in one piece where the bits are the same."""
        self._cuts_products = False
        text = self._begin_stream(has_rounds=False)
        for number, step in enumerate(self._steps):
            self._write_step(text, self._fills.get(number, ()), step)
        text.append_round([self._fill_words(storage) for storage in self._fills.get(len(self._steps), ())])
        return text.join_words()

    def _write_step(self, text: StreamText, fills: Sequence[Storage], step: StreamStep) -> None:
        """Write the instructions of a step, and those that fill arrays before it."""
        text.append_round([self._fill_words(storage) for storage in fills])
        if isinstance(step, RepeatedSteps):
            bodies = [self._write_body(step.body, mark) for mark in (0, 1)]
            text.append_repeated(bodies[0], self._place_operands(step, *(body.join_words() for body in bodies)))
            return
        for rows in self._step_rounds(step):
            text.append_round(rows)

    def _write_body(self, body: LoweredCircuit, mark: int) -> StreamText:
        """Write the instructions of one round of a loop; an entry of the table is a mark beside an operand's number."""
        self._round_mark = mark
        text = StreamText(has_rounds=True)
        fills = _find_fills(body)
        for number, step in enumerate(body.steps):
            self._write_step(text, fills.get(number, ()), step)
        text.append_round([self._fill_words(storage) for storage in fills.get(len(body.steps), ())])
        return text

    def _place_operands(
        self, step: RepeatedSteps, words: NDArray[np.int64], others: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the words of all rounds, one round in a row; the words of a round, with two marks, tell operands."""
        rows = np.repeat(words[None], step.rounds, axis=0)
        places = [self._locate_rounds(operand) for operand in step.operands]
        for place in np.flatnonzero(words != others).tolist():
            entries, offsets = places[words[place] // 2]
            rows[:, place] = entries
            rows[:, place + 1] += offsets
        return rows

    def _locate_rounds(self, operand: RoundOperand) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the two words of an operand of a loop in every round."""
        words = [self._operand_words(StridedArray(storage, 0, (), ())) for storage in operand.storages]
        entries, offsets = np.array(words, np.int64).T[:, operand.which]
        return entries, offsets + operand.starts * operand.storages[0].dtype.itemsize

    def _step_rounds(self, step: StreamStep) -> Iterator[list[list[int]]]:
        """Iterate over the rounds of a step: instructions, each a kernel and its words."""
        match step:
            case LoopGroup():
                if step in self._loops:
                    cut = self._loops[step]
                    yield [self._fill_words(storage) for storage in cut.partial_sums]
                    yield [self._loop_words(loop) for loop in cut.pieces]
                    yield [self._loop_words(loop) for loop in cut.joins]
            case MatrixProduct():
                is_whole = not self._cuts_products and has_bits_of_pieces(step)
                pieces = [step] if is_whole else cut_product(step)
                if runs_in_tiles(step):
                    yield [self._tile_words(*each) for each in zip(pieces, self._panels, strict=False)]
                else:
                    yield [self._product_words(piece) for piece in pieces]
            case TableMove():
                yield [self._table_words(step)]
            case LapackCall():
                yield [self._lapack_words(step)]
            case IndexCall():
                yield [self._index_words(step)]
            case InterpreterCall():
                if self._is_instruction(step):
                    yield [self._scan_words(step)]

    def _is_instruction(self, step: InterpreterCall) -> bool:
        """Return whether a call is a loop that can be an instruction: its operands are as its code reads them."""
        loop = self._native_loops.get(step)
        code = None if loop is None else loop.instruction
        if code is None:
            return False
        rows = range(len(code.arrays.carry), len(code.arrays.carry) + len(code.arrays.rows))
        pairs = enumerate(step.sources)
        return all(self._can_read(array, is_row=number in rows) for number, array in pairs)

    def _can_read(self, array: StridedArray, *, is_row: bool) -> bool:
        """Return whether the code of a loop can read an array: its numbers, or those of each row, follow each other."""
        if is_row:
            array = StridedArray(array.storage, array.start, array.shape[1:], array.strides[1:])
        if array.dtype.kind != "i":
            return array.is_contiguous
        # Other whole numbers may be too large to be floats, which is found when they are known.
        is_known = array.storage.role == CONSTANT_DATA
        return is_known and array.is_contiguous and _is_small_whole(self._constants[array.storage.number])

    def _scan_words(self, step: InterpreterCall) -> list[int]:
        loop = self._native_loops[step]
        code = loop.instruction
        plan = loop.plan
        assert code is not None
        assert code.code is not None
        assert isinstance(plan, loop_ops.ScanPlan)
        assert plan.length is not None
        first, distance = (plan.length - 1, -1) if plan.reverse else (0, 1)
        words = [code.code.kernel, code.program.initial.ctypes.data, first, distance, plan.length]
        start = len(code.arrays.carry)
        for number, array in enumerate(step.sources):
            words += self._operand_words(array)
            if start <= number < start + len(code.arrays.rows):
                words.append(array.strides[0] * array.dtype.itemsize)
        return [*words, *self._operand_words(step.target)]

    def _lapack_words(self, step: LapackCall) -> list[int]:
        """Return kernel, status, settings, sizes, and for each matrix its operand and its strides."""
        kernel = compile_lapack(step.op.name, step.target.dtype.char)
        *stack, rows, _ = step.sources[0].shape
        sizes = [prod(stack), rows, step.sources[-1].shape[-1]]
        status = self._status_entry if self._status_offset else 0
        words = [kernel, 8 * status, *read_lapack_settings(step.op), *sizes]
        for array in step.list_arrays():
            strides = [stride * array.dtype.itemsize for stride in array.strides]
            along_stack = strides.pop(0) if stack else 0
            # The result for a matrix may be a vector or a number.
            words += [*self._operand_words(array), along_stack, *(*strides, 0, 0)[:2]]
        return words

    def _index_words(self, step: IndexCall) -> list[int]:
        """Return kernel and sizes of a search or of a move by indices, and its operands."""
        first, second = step.sources
        char = first.dtype.char
        if step.op.name == "searchsorted":
            words = [compile_search(char, step.op.options["side"]), first.size, second.size]
        else:
            adds = step.op.name == "take_add"
            axis = step.op.options["axis"]
            shape = (step.target if adds else first).shape
            place = axis % len(shape)
            kernel = compile_index_move({"d": "double", "f": "float"}[char], adds=adds)
            words = [kernel, prod(shape[:place]), shape[place], second.size, prod(shape[place + 1 :])]
        return [*words, *[word for array in step.list_arrays() for word in self._operand_words(array)]]

    def _operand_words(self, array: StridedArray) -> list[int]:
        """Return the two words of an operand: where its base address stands, and its offset in bytes."""
        storage = array.storage
        if storage.role == ROUND_DATA:
            return [2 * storage.number + self._round_mark, array.start * storage.dtype.itemsize]
        entry = self._table_starts[storage.role] + (0 if storage.role == WORKSPACE else storage.number)
        return [8 * entry, storage.offset + array.start * storage.dtype.itemsize]

    def _fill_words(self, storage: Storage) -> list[int]:
        number = np.asarray(storage.fill, storage.dtype)
        bits = int(number.view(f"i{storage.dtype.itemsize}")) if storage.dtype.kind != "b" else int(number)
        kernel = compile_fixed_kernels().fill[storage.dtype.itemsize]
        return [kernel, storage.size, *self._operand_words(StridedArray(storage, 0, (), ())), bits]

    def _loop_words(self, loop: LoopInstruction) -> list[int]:
        axes = loop.axes
        n = axes.lengths[-1] if axes.lengths else 1
        words = [_KERNEL_ADDRESSES[loop.key], n, *axes.lengths[:-1]]
        operands = (*loop.kernel.loads, *loop.kernel.targets)
        for array, strides, operand in zip(loop.arrays, axes.strides, operands, strict=True):
            item = array.dtype.itemsize
            inner = [strides[-1] * item] if operand.inner == STRIDED else []
            words += [*self._operand_words(array), *inner, *(stride * item for stride in strides[:-1])]
        return words

    def _product_words(self, step: MatrixProduct) -> list[int]:
        kernel = compile_matrix_product(step.target.dtype.char)
        a, b, target = _turn_product(step)
        batch = target.shape[:-2]
        more = MAX_BATCH_AXES - len(batch)
        layouts, leading = zip(*map(_matrix_layout, (a, b, target)), strict=True)
        words = [kernel, *[1] * more, *batch, *target.shape[-2:], a.shape[-1], *layouts[:2], *leading, int(step.adds)]
        for matrix in (a, b, target):
            item = matrix.dtype.itemsize
            words += [*self._operand_words(matrix), *[0] * more, *(stride * item for stride in matrix.strides[:-2])]
        return words

    def _tile_words(self, step: MatrixProduct, panel: Storage) -> list[int]:
        a, b, target = _turn_product(step)
        batch = target.shape[:-2]
        more = MAX_BATCH_AXES - len(batch)
        k = a.shape[-1]
        depth = _ceil_divide(k, _ceil_divide(k, PANEL_ROWS))
        words = [compile_tiled_product(target.dtype.char), *[1] * more, *batch, *target.shape[-2:], k, depth]
        words += [int(step.adds), *self._operand_words(StridedArray(panel, 0, (), ()))]
        for matrix in (a, b, target):
            item = matrix.dtype.itemsize
            layout, leading = _matrix_layout(matrix)
            inner = (leading, 1) if layout == NO_TRANSPOSE else (1, leading)
            strides = (*inner, *[0] * more, *matrix.strides[:-2])
            words += [*self._operand_words(matrix), *(stride * item for stride in strides)]
        return words

    def _table_words(self, step: TableMove) -> list[int]:
        kernels = compile_fixed_kernels()
        dtype = step.target.dtype
        kernel = kernels.scatter[dtype.char] if step.adds else kernels.gather[dtype.itemsize]
        operands = [word for array in (step.source, step.table, step.target) for word in self._operand_words(array)]
        return [kernel, step.table.size, *operands]


class ExpandedProgram(StreamProgram):
    """A circuit on small arrays, compiled as its scalar circuit `scalars`; its stream is one instruction.

    Results are the outputs; with `wanted` the first one, its gradient by these inputs, and the other outputs.

    >>> from wiregrad.ir import parse_text
    >>> square = parse_text("input x: float64[2]\\ny = multiply x x\\nz = sum y axes=[-1] keepdims=false\\noutput z")
    >>> ExpandedProgram(square, expand_unnamed(square), wanted=[0]).run([np.array([1.0, 2.0])])
    [np.float64(5.0), array([2., 4.])]
    """

    def __init__(
        self,
        circuit: CircuitGraph,
        scalars: CircuitGraph,
        *,
        wanted: Collection[int] | None = None,
        fenced: bool = False,
    ) -> None:
        start = time.perf_counter()
        self._program = build_program(scalars, None if wanted is None else 0)
        inputs = [circuit.type_of(node) for node in circuit.input_indices()]
        outputs = [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]
        slots = _lay_out_buffer([*inputs, *outputs, *inputs])
        sources = slots[: len(inputs)]
        results = slots[len(inputs) : len(inputs) + len(outputs)]
        slopes = slots[len(inputs) + len(outputs) :]
        results[1:1] = [slopes[k] for k in sorted(wanted or ())]
        super().__init__(circuit, [slot.kind for slot in results], fenced=fenced)
        buffer = self._program.initial
        offset = _round_up(8 * self._table_size) + self._fence
        self._blocks = [Storage(len(buffer), buffer.dtype, offset=offset)]
        self._data = [(offset, buffer)]
        self._workspace_bytes = offset + buffer.nbytes + self._fence
        words = [compile_scalar_call(), 0, offset, self._program.entry, len(sources), len(results)]
        for number, slot in enumerate([*sources, *results], 1):
            words += [8 * number, 8 * slot.place, prod(slot.kind.shape), int(slot.kind.dtype.kind == "b")]
        words[1] = len(words)
        self._parts = [StreamPart(0, len(words))]
        self._store_stream(words)
        self.facts = ArrayProgramFacts(
            instructions=1,
            workspace_bytes=self._workspace_bytes,
            peak_bytes=self._predict_peak(),
            code_bytes=self._program.code_bytes,
            seconds=time.perf_counter() - start,
            stencil_seconds=self._program.stencil_seconds,
            tier=self._program.tier,
        )


class BufferSlot(NamedTuple):
    """Where the numbers of a wire are in the buffer of a scalar circuit."""

    kind: WireType
    place: int


def _lay_out_buffer(kinds: Sequence[WireType]) -> list[BufferSlot]:
    places = np.cumsum([0, *(prod(kind.shape) for kind in kinds)]).tolist()
    return [BufferSlot(kind, place) for kind, place in zip(kinds, places, strict=False)]


def _is_exactly(argument: Any, kind: tuple[tuple[int, ...], np.dtype[Any]]) -> bool:
    """Return whether an argument is a C-contiguous array of a type, or a float where the type has no axes."""
    shape, dtype = kind
    if not shape:
        return type(argument) is float and dtype.char == "d"
    is_array = type(argument) is np.ndarray and argument.dtype is dtype and argument.shape == shape
    return is_array and argument.flags.c_contiguous and argument.flags.aligned


def _prepare_argument(argument: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an argument as a contiguous array of a type; it is not copied if it is one."""
    if type(argument) is not np.ndarray or argument.dtype != dtype or not argument.flags.c_contiguous:
        argument = np.asarray(argument, dtype, order="C")
    if argument.shape != shape:
        raise InputError(f"an argument must have shape {shape}; got {argument.shape}")
    array: NDArray[Any] = argument
    return array


def _view_memory(array: StridedArray, memory: NDArray[Any], offset: int) -> NDArray[Any]:
    """Return the elements of an array in some memory, in which its storage begins at an offset in bytes."""
    dtype = array.dtype
    if not array.size:
        return np.zeros(array.shape, dtype)
    strides = tuple(dtype.itemsize * stride for stride in array.strides)
    start = array.start * dtype.itemsize + offset
    return np.ndarray(array.shape, dtype, memory.reshape(-1).view(np.uint8), start, strides)


def _view_pairs(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array as it is, or pairs of real numbers as complex ones."""
    return array.view(dtype)[..., 0] if dtype.kind == "c" else array


def _ceil_divide(size: int, parts: int) -> int:
    return -(-size // parts)


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _matrix_layout(array: StridedArray) -> tuple[int, int]:
    """Return how BLAS reads a matrix: as it is or transposed, and the leading dimension."""
    rows, columns = array.shape[-2:]
    row_stride, column_stride = array.strides[-2:]
    if (column_stride == 1 or columns == 1) and (rows == 1 or row_stride >= columns):
        return NO_TRANSPOSE, max(row_stride if rows > 1 else 1, columns, 1)
    return TRANSPOSE, max(column_stride if columns > 1 else 1, rows, 1)


def _classify_inner(stride: int, length: int) -> str:
    if length == 1 or stride == 1:
        return CONTIGUOUS
    return STILL if stride == 0 else STRIDED


class LoopInstruction(NamedTuple):
    """A loop of a stream: its kernel, the kernel's key, and its loops over the arrays of the group."""

    kernel: LoopKernel
    key: str
    arrays: list[StridedArray]
    axes: LoopAxes


_KNOWN_KERNELS: dict[Hashable, tuple[LoopKernel, str]] = {}
"""Kernels and their keys, by their parts; expressions count by identity, and stay alive in the kernels."""
MAX_KNOWN_KERNELS = 20_000
MIN_PAIRED_LENGTH = 1 << 12
"""Minimum length of a loop that computes two vectors in a round, if it calls functions of math.h."""


def _build_loop(group: LoopGroup, streamed: Collection[Storage]) -> LoopInstruction | None:
    """Return the loop of a group; None if it has nothing to do. Results that may be streamed are named."""
    if not group.stores or not prod(group.shape):
        return None
    arrays = group.list_arrays()
    axes = merge_axes_for_loops(group.shape, [array.strides for array in arrays], in_order=group.in_order)
    n = axes.lengths[-1] if axes.lengths else 1
    operands = tuple(
        LoopOperand(array.dtype.char, _classify_inner(strides[-1] if strides else 1, n))
        for array, strides in zip(arrays, axes.strides, strict=True)
    )
    depth = max(0, len(axes.lengths) - 1)
    if not depth and n > 1 and n * sum(array.dtype.itemsize for array in arrays) >= MIN_STREAMED_BYTES:
        operands = _stream_targets(group, operands, streamed)
    is_long = n >= MIN_PAIRED_LENGTH
    parts = (
        depth,
        n == 1,
        is_long,
        operands,
        tuple(group.loads.values()),
        tuple((key, number) for key, (number, _, _) in group.constants.items()),
        tuple((number, id(op.tree), op.sources, op.real, op.dtype) for number, op in group.ops),
        tuple((store.value, id(store.step), str(store.neutral)) for store in group.stores),
    )
    known = _KNOWN_KERNELS.get(parts)
    if known is None:
        if len(_KNOWN_KERNELS) >= MAX_KNOWN_KERNELS:
            _KNOWN_KERNELS.clear()
        kernel = _build_kernel(group, operands, depth, single=n == 1)
        if is_long:
            kernel = kernel._replace(pairs=gains_from_pairs(kernel))
        known = _KNOWN_KERNELS[parts] = kernel, kernel.key
    return LoopInstruction(*known, arrays, axes)


MAX_PIECES = 8
"""Maximum number of pieces of a loop or a matrix product."""
MIN_PIECE_WORK = 1 << 19
"""Minimum work of a piece of a loop: elements times operands and ops, a few of which take a nanosecond."""
MAX_PRODUCT_PIECES = 2
"""Maximum number of pieces of a matrix product that is not large: each piece packs one factor again."""
MIN_PIECE_PRODUCTS = 1 << 21
"""Minimum number of multiplications in a piece of a matrix product."""
LARGE_PIECE_PRODUCTS = 1 << 25
"""The number of multiplications of a piece above which there may be more pieces."""
MAX_PROBED_PRODUCTS = 1 << 28
"""Maximum number of multiplications in a matrix product that is tried to see whether its pieces have its bits."""
MIN_TILED_PRODUCTS = 1 << 20
MAX_TILED_PRODUCTS = 1 << 27
"""Between these numbers of multiplications a product is computed in tiles."""
MIN_TILED_ROWS = 16
MAX_TILED_ROWS = 1 << 10
MIN_TILED_DEPTH = 16
"""The number of rows that a product in tiles may have, and of the products that it adds up."""
MIN_COLUMNS_PER_MASKED = 5
"""How many columns a product in tiles has at least for each one that its tiles compute in vain."""
WORK_PER_PRODUCT = 2
"""How many multiplications of a matrix product take as long as one op on an element."""
MIN_SHARED_WORK = 1 << 23
"""Minimum work that is cut into pieces in a program that several threads run: waking a thread takes some time."""
PIECE_MULTIPLE = 64
"""Pieces of a row begin at a multiple of this many elements."""


def _stream_targets(
    group: LoopGroup, operands: tuple[LoopOperand, ...], streamed: Collection[Storage]
) -> tuple[LoopOperand, ...]:
    """Return the operands of a large loop, with those results as streams that no step reads again."""
    dtypes = {operand.dtype for operand in operands} | {op.real for _, op in group.ops}
    targets = [
        operand._replace(inner=STREAMED)
        if operand.inner == CONTIGUOUS and store.target.storage in streamed and can_stream(operand.dtype, dtypes)
        else operand
        for operand, store in zip(operands[len(group.loads) :], group.stores, strict=True)
    ]
    return (*operands[: len(group.loads)], *targets)


class CutLoop(NamedTuple):
    """A loop in pieces that can run at the same time."""

    pieces: list[LoopInstruction]
    work: int = 0
    partial_sums: tuple[Storage, ...] = ()
    """Where the pieces add up what the whole loop adds up in one place; a row for each piece."""
    joins: tuple[LoopInstruction, ...] = ()
    """The loops that add these up."""

    def list_loops(self) -> list[LoopInstruction]:
        """Return all loops."""
        return [*self.pieces, *self.joins]


def cut_loop(loop: LoopInstruction, group: LoopGroup) -> CutLoop:
    """Return a loop in pieces along its first axis; in one piece if it is small, or if pieces would disturb each other.

    How it is cut depends on the loop alone, not on the number of threads.
    """
    work = prod(loop.axes.lengths) * (len(loop.arrays) + len(group.ops))
    bounds = _choose_cuts(loop, group, work)
    joins = _plan_partial_sums(loop, group, len(bounds) - 1)
    if len(bounds) < 3 or joins is None:
        return CutLoop([loop], work)
    pieces = [_take_piece(loop, joins, number, bounds) for number in range(len(bounds) - 1)]
    sums = tuple(join.arrays[0].storage for join in joins.values())
    return CutLoop(pieces, work, sums, tuple(joins.values()))


def _choose_cuts(loop: LoopInstruction, group: LoopGroup, work: int) -> list[int]:
    """Return where the pieces of a loop begin and end on its first axis."""
    lengths = loop.axes.lengths
    count = min(MAX_PIECES, work // MIN_PIECE_WORK)
    written = {store.target.storage for store in group.stores}
    reads_what_it_writes = any(array.storage in written for array in loop.arrays[: len(loop.kernel.loads)])
    if count < 2 or not lengths or group.in_order or reads_what_it_writes:
        return []
    return _find_bounds(lengths[0], count, PIECE_MULTIPLE if len(lengths) == 1 else 1)


def _plan_partial_sums(loop: LoopInstruction, group: LoopGroup, count: int) -> dict[int, LoopInstruction] | None:
    """Return the loops that join the sums of pieces, by the number of the array; None if pieces would meet.

    Pieces have elements of their own in an array that moves along the first axis; in any other they have a row each.
    """
    lengths, strides = loop.axes
    joins: dict[int, LoopInstruction] = {}
    for number, store in enumerate(group.stores, len(loop.kernel.loads)):
        steps = strides[number]
        if not steps or steps[0]:
            if not steps or not _are_rows_apart(lengths, steps):
                return None
            continue
        size = _find_dense_size(lengths, steps)
        if store.step is None or not size or size * count > prod(lengths):
            return None
        storage = Storage(count * size, store.target.dtype, fill=store.neutral)
        joins[number] = _join_partial_sums(storage, count, loop.arrays[number], store)
    return joins


def _take_piece(
    loop: LoopInstruction, joins: Mapping[int, LoopInstruction], number: int, bounds: Sequence[int]
) -> LoopInstruction:
    """Return the piece of a loop with some number, between two bounds on its first axis."""
    lengths, strides = loop.axes
    first, end = bounds[number : number + 2]
    pieces = len(bounds) - 1
    arrays = []
    for k, (array, steps) in enumerate(zip(loop.arrays, strides, strict=True)):
        if k in joins:
            storage = joins[k].arrays[0].storage
            arrays.append(array._replace(storage=storage, start=number * (storage.size // pieces)))
        else:
            arrays.append(array._replace(start=array.start + first * steps[0]))
    return loop._replace(arrays=arrays, axes=LoopAxes((end - first, *lengths[1:]), strides))


def _find_bounds(length: int, count: int, multiple: int) -> list[int]:
    """Return where pieces begin and end, as even as multiples allow.

    >>> _find_bounds(10, 4, 1), _find_bounds(200, 4, 64)
    ([0, 2, 5, 7, 10], [0, 64, 128, 200])
    """
    starts = {length * k // count // multiple * multiple for k in range(count)}
    return [*sorted(starts), length]


def _are_rows_apart(lengths: Sequence[int], strides: Sequence[int]) -> bool:
    """Return whether different indices of the first axis reach different elements, whatever the other indices are."""
    within = sum((length - 1) * abs(stride) for length, stride in zip(lengths[1:], strides[1:], strict=True))
    return abs(strides[0]) > within


def _find_dense_size(lengths: Sequence[int], strides: Sequence[int]) -> int:
    """Return how many elements an array has that does not move along some axes; 0 if they do not follow each other."""
    moving = [(length, stride) for length, stride in zip(lengths, strides, strict=True) if stride and length > 1]
    size = prod(length for length, _ in moving)
    extent = 1 + sum((length - 1) * stride for length, stride in moving)
    return size if size == extent and all(stride > 0 for _, stride in moving) else 0


def _join_partial_sums(storage: Storage, count: int, array: StridedArray, store: GroupStore) -> LoopInstruction:
    """Return the loop that takes the sums of all pieces into their place."""
    size = storage.size // count
    axes = LoopAxes((count, size), ((size, 1), (0, 1))) if size > 1 else LoopAxes((count,), ((1,), (0,)))
    sources = LoopOperand(array.dtype.char, CONTIGUOUS)
    target = LoopOperand(array.dtype.char, CONTIGUOUS if size > 1 else STILL)
    kernel = LoopKernel(
        depth=len(axes.lengths) - 1,
        loads=(sources,),
        constants=(),
        ops=(),
        targets=(target,),
        stores=(LoopStore(0, 0, store.step, store.neutral),),
    )
    arrays = [StridedArray(storage, 0, axes.lengths, axes.strides[0])]
    arrays.append(StridedArray(array.storage, array.start, axes.lengths, axes.strides[1]))
    return LoopInstruction(kernel, kernel.key, arrays, axes)


def _count_products(step: MatrixProduct) -> int:
    return step.target.size * step.a.shape[-1]


def _choose_product_cuts(step: MatrixProduct) -> tuple[int, list[int]]:
    """Return the axis along which a matrix product is cut, and where its pieces begin and end."""
    products = _count_products(step)
    few = min(MAX_PRODUCT_PIECES, products // MIN_PIECE_PRODUCTS)
    count = max(few, min(MAX_PIECES, products // LARGE_PIECE_PRODUCTS))
    shape = step.target.shape
    batch_axes = len(shape) - 2
    axis = next((k for k in range(batch_axes) if shape[k] > 1), None)
    if axis is None:
        axis = batch_axes + int(shape[-1] > shape[-2])
    if step.target.strides[axis] == 0:
        return axis, []
    return axis, _find_bounds(shape[axis], max(1, count), PIECE_MULTIPLE if axis >= batch_axes else 1)


def has_bits_of_pieces(step: MatrixProduct) -> bool:
    """Return whether a whole product has the same bits as its pieces; if so, one thread computes it as a whole.

    A product in tiles has. What BLAS does is tried.
    """
    axis, bounds = _choose_product_cuts(step)
    if axis < len(step.target.shape) - 2 or runs_in_tiles(step):
        return True
    if _count_products(step) > MAX_PROBED_PRODUCTS:
        return False
    a, b = step.a, step.b
    cut = axis - len(step.target.shape) + 2
    if _matrix_layout(step.target)[0] == TRANSPOSE:
        a, b, cut = turn_matrix(b), turn_matrix(a), 1 - cut
    shape = (*a.shape[-2:], b.shape[-1])
    layouts = (_matrix_layout(a)[0], _matrix_layout(b)[0])
    return _try_pieces(a.dtype.char, shape, layouts, cut, tuple(bounds))


@cache
def _try_pieces(char: str, shape: tuple[int, ...], layouts: tuple[int, int], cut: int, bounds: tuple[int, ...]) -> bool:
    """Return whether a product of random matrices and its pieces agree; sizes alone decide the order of additions."""
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = (
        np.asarray(rng.normal(size=size), char, order="F" if layout == TRANSPOSE else "C")
        for size, layout in zip(((m, k), (k, n)), layouts, strict=True)
    )
    with single_blas_thread():
        pieces = [a[i:j] @ b if cut == 0 else a @ b[:, i:j] for i, j in pairwise(bounds)]
        return bool((np.concatenate(pieces, axis=cut) == a @ b).all())


def runs_in_tiles(step: MatrixProduct) -> bool:
    """Return whether a product is computed in tiles, and not by BLAS; its pieces are computed as the whole is."""
    a, _, target = _turn_product(step)
    m, n = target.shape[-2:]
    k = a.shape[-1]
    if jit.vector_bytes() < LINE_BYTES or not MIN_TILED_PRODUCTS <= m * n * k <= MAX_TILED_PRODUCTS:
        return False
    masked = -n % (TILE_BYTES // target.dtype.itemsize)
    return MIN_TILED_ROWS <= m <= MAX_TILED_ROWS and k >= MIN_TILED_DEPTH and masked * MIN_COLUMNS_PER_MASKED <= n


def _turn_product(step: MatrixProduct) -> tuple[StridedArray, StridedArray, StridedArray]:
    """Return the factors and the product, whose rows are contiguous: of its transpose, if those of its own are not."""
    if _matrix_layout(step.target)[0] == TRANSPOSE:
        return turn_matrix(step.b), turn_matrix(step.a), turn_matrix(step.target)
    return step.a, step.b, step.target


def cut_product(step: MatrixProduct) -> list[MatrixProduct]:
    """Return a matrix product in pieces: along its first batch axis, else along the longer side of the product."""
    axis, bounds = _choose_product_cuts(step)
    batch_axes = len(step.target.shape) - 2
    if len(bounds) < 3:
        return [step]
    pieces = []
    for first, end in pairwise(bounds):
        target = _cut_axis(step.target, axis, first, end)
        a = step.a if axis == batch_axes + 1 else _cut_axis(step.a, axis, first, end)
        b = step.b if axis == batch_axes else _cut_axis(step.b, axis, first, end)
        pieces.append(replace(step, a=a, b=b, target=target))
    return pieces


def _cut_axis(array: StridedArray, axis: int, first: int, end: int) -> StridedArray:
    """Return some indices of an axis."""
    shape = (*array.shape[:axis], end - first, *array.shape[axis + 1 :])
    return array._replace(start=array.start + first * array.strides[axis], shape=shape)


def _build_kernel(group: LoopGroup, operands: tuple[LoopOperand, ...], depth: int, *, single: bool) -> LoopKernel:
    """Return the structure of a group's loop."""
    order = [*group.loads.values(), *(number for number, _, _ in group.constants.values())]
    order += [number for number, _ in group.ops]
    position = {number: k for k, number in enumerate(order)}
    return LoopKernel(
        depth=depth,
        loads=operands[: len(group.loads)],
        constants=tuple((char, np.asarray(number).item()) for _, char, number in group.constants.values()),
        ops=tuple(
            op._replace(sources=tuple((name, position[source]) for name, source in op.sources)) for _, op in group.ops
        ),
        targets=operands[len(group.loads) :],
        stores=tuple(
            LoopStore(k, position[store.value], store.step, store.neutral) for k, store in enumerate(group.stores)
        ),
        single=single,
    )


def compile_kernels(kernels: Mapping[str, LoopKernel]) -> int:
    """Compile the kernels, by key, that were not compiled before; return the size of their code in bytes.

    Each is a module of its own, because the cache on disk finds modules: programs share kernels.
    """
    missing = {key: kernel for key, kernel in kernels.items() if key not in _KERNEL_ADDRESSES}
    if not missing:
        return 0
    if len(missing) > MAX_NEW_KERNELS:
        raise NotNativeError(
            f"the circuit needs {len(missing):,} new kernels; more than {MAX_NEW_KERNELS:,} would compile too slowly"
        )
    size = 0
    for key, kernel in missing.items():
        functions = jit.keep_functions(write_loop_kernels([kernel]), level=0)
        _KERNEL_ADDRESSES[key] = functions.find_address("kernel_0")
        size += functions.size
    return size


def _storages_of(step: StreamStep) -> list[Storage]:
    """Return the storages that a step reads or writes."""
    match step:
        case LoopGroup():
            return [array.storage for array in step.list_arrays()]
        case MatrixProduct():
            return [step.a.storage, step.b.storage, step.target.storage]
        case TableMove():
            return [step.source.storage, step.table.storage, step.target.storage]
        case OpCall():
            return [array.storage for array in step.list_arrays()]
        case RepeatedSteps():
            return step.list_storages()


def _find_fills(lowered: LoweredCircuit) -> dict[int, list[Storage]]:
    """Return the storages that are filled with a number before each step; after the last one, those no step uses."""
    fills: dict[int, list[Storage]] = {}
    met: set[Storage] = set()
    for number, step in enumerate(lowered.steps):
        for storage in _storages_of(step):
            if storage.fill is not None and storage not in met and storage.size:
                met.add(storage)
                fills.setdefault(number, []).append(storage)
    rest = [storage for storage in lowered.results if storage.fill is not None and storage not in met and storage.size]
    if rest:
        fills[len(lowered.steps)] = rest
    return fills


@dataclass(eq=False, slots=True)
class MemoryBlock:
    """Arrays that have the same place, one after the other, from the first step that uses one to the last."""

    storages: list[Storage]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """The size in bytes, which is the same for all of its arrays."""
        return self.storages[0].nbytes

    def place(self, offset: int, result: Storage | None = None) -> None:
        """Give all arrays their place: in the workspace, or in the memory of a result."""
        for storage in self.storages:
            storage.offset = offset
            if result is not None:
                storage.role = RESULT
                storage.number = result.number


MAX_SORTED_BLOCKS = 500
"""Up to so many blocks are placed in the order of their sizes; more in the order of time, which takes less work."""
MIN_HOST_BYTES = 1 << 12
"""Results of at least this size have room for other arrays before they are written."""


def plan_workspace(
    steps: Sequence[StreamStep], results: Sequence[Storage], first: int, fence: int
) -> tuple[list[Storage], int]:
    """Give every array of the workspace an offset; arrays that are not needed at the same time may share memory.

    A loop may also write an array over one that it reads for the last time, if both are passed through in the same way.
    A result is the caller's memory; before it is written, arrays that are not needed after that are put into it.
    Returns the arrays, and the size of the workspace in bytes. With a fence nothing is shared.
    """
    spans: dict[Storage, list[int]] = {}
    for number, step in enumerate(steps):
        for storage in _storages_of(step):
            if storage.role in (WORKSPACE, RESULT):
                spans.setdefault(storage, [number, number])[1] = number
    arrays = [storage for storage in spans if storage.role == WORKSPACE]
    memory = WorkspacePlan(first, shares=not fence)
    blocks = [MemoryBlock([storage], *spans[storage]) for storage in arrays]
    if fence:
        for block in blocks:
            block.place(memory.take(_round_up(max(block.nbytes, 1)) + fence))
        return arrays, memory.top
    starts = {storage: spans[storage][0] if storage in spans else len(steps) for storage in results}
    blocks = _join_blocks(steps, spans, starts)
    if len(blocks) <= MAX_SORTED_BLOCKS:
        return arrays, _place_by_size(blocks, starts, first)
    _place_by_time(blocks, memory)
    return arrays, memory.top


def _join_blocks(
    steps: Sequence[StreamStep], spans: Mapping[Storage, Sequence[int]], starts: dict[Storage, int]
) -> list[MemoryBlock]:
    """Return the blocks of the workspace; an array that a result is written over is put into that result.

    `starts` says from which step on each result is in use, and is changed for such a result.
    """
    blocks: dict[Storage, MemoryBlock] = {}
    beginning: dict[int, list[Storage]] = {}
    ending: dict[int, list[Storage]] = {}
    for storage, (begin, end) in spans.items():
        beginning.setdefault(begin, []).append(storage)
        ending.setdefault(end, []).append(storage)
    for number, step in enumerate(steps):
        begun = beginning.get(number, [])
        ended = [storage for storage in ending.get(number, []) if storage.role == WORKSPACE]
        replaced = find_replacements(step, ended, begun) if isinstance(step, LoopGroup) else {}
        for storage in begun:
            source = replaced.get(storage)
            if storage.role == RESULT:
                if source is not None:
                    block = blocks[source]
                    starts[storage] = block.begin
                    block.place(0, storage)
            elif source is None:
                blocks[storage] = MemoryBlock([storage], *spans[storage])
            else:
                block = blocks[storage] = blocks[source]
                block.storages.append(storage)
                block.end = spans[storage][1]
    return [block for block in dict.fromkeys(blocks.values()) if block.storages[0].role == WORKSPACE]


def _place_by_time(blocks: Sequence[MemoryBlock], memory: WorkspacePlan) -> None:
    """Give blocks, in the order in which they begin, the smallest free place."""
    ending: dict[int, list[MemoryBlock]] = {}
    beginning: dict[int, list[MemoryBlock]] = {}
    for block in blocks:
        beginning.setdefault(block.begin, []).append(block)
        ending.setdefault(block.end, []).append(block)
    for step in sorted({*beginning, *ending}):
        for block in sorted(beginning.get(step, ()), key=lambda each: -each.nbytes):
            block.place(memory.take(_round_up(max(block.nbytes, 1))))
        for block in ending.get(step, ()):
            memory.free(block.storages[0].offset, _round_up(max(block.nbytes, 1)))


def _place_by_size(blocks: Sequence[MemoryBlock], starts: Mapping[Storage, int], first: int) -> int:
    """Give blocks a place, the largest ones first, and return the size of the workspace.

    Each gets the lowest place that no block has at the same time: in a result that is written later, else in the
    workspace, which begins at `first`.
    """
    hosts = sorted((result for result in starts if result.nbytes >= MIN_HOST_BYTES), key=lambda each: each.nbytes)
    placed: dict[Storage | None, list[MemoryBlock]] = {}
    top = first
    for block in sorted(blocks, key=lambda each: (-each.nbytes, each.begin)):
        for result in hosts:
            offset = _find_gap(block, placed.get(result, ()), 0)
            if block.end < starts[result] and offset + block.nbytes <= result.nbytes:
                block.place(offset, result)
                placed.setdefault(result, []).append(block)
                break
        else:
            offset = _find_gap(block, placed.get(None, ()), first)
            block.place(offset)
            placed.setdefault(None, []).append(block)
            top = max(top, offset + _round_up(max(block.nbytes, 1)))
    return top


def _find_gap(block: MemoryBlock, others: Iterable[MemoryBlock], first: int) -> int:
    """Return the lowest offset, not below the first, at which no other block is in the way while this one is used."""
    meeting = (other for other in others if other.begin <= block.end and block.begin <= other.end)
    size = _round_up(max(block.nbytes, 1))
    offset = first
    for start, nbytes in sorted((other.storages[0].offset, other.nbytes) for other in meeting):
        if start >= offset + size:
            break
        offset = max(offset, start + _round_up(max(nbytes, 1)))
    return offset


def find_replacements(group: LoopGroup, ended: Sequence[Storage], begun: Sequence[Storage]) -> dict[Storage, Storage]:
    """Return which of the arrays that a loop begins may have the memory of one that it reads for the last time.

    Every round of the loop reads its elements before it writes them. So an element may be written over if it is read in
    the same round and in no other: both arrays have the same strides, and nothing else of either is touched.
    """
    if group.in_order or not ended or not begun:
        return {}
    loads: dict[Storage, list[StridedArray]] = {}
    for array in group.list_arrays()[: len(group.loads)]:
        loads.setdefault(array.storage, []).append(array)
    stores: dict[Storage, list[GroupStore]] = {}
    for store in group.stores:
        stores.setdefault(store.target.storage, []).append(store)
    free = [storage for storage in ended if len(loads.get(storage, ())) == 1 and storage not in stores]
    replaced: dict[Storage, Storage] = {}
    for storage in begun:
        if storage.fill is not None or len(stores.get(storage, ())) != 1 or storage in loads:
            continue
        store = stores[storage][0]
        source = next((each for each in free if store.step is None and _overlay(loads[each][0], store.target)), None)
        if source is not None:
            free.remove(source)
            replaced[storage] = source
    return replaced


def _overlay(source: StridedArray, target: StridedArray) -> bool:
    """Return whether two arrays have the same place in memory for each index, a different one for each."""
    is_same = (source.start, source.shape, source.strides) == (target.start, target.shape, target.strides)
    sizes = (source.dtype.itemsize, source.storage.nbytes)
    return is_same and sizes == (target.dtype.itemsize, target.storage.nbytes) and target.size == target.storage.size


class WorkspacePlan:
    """The blocks of a workspace that are free while its arrays are given their places.

    >>> plan = WorkspacePlan(64)
    >>> plan.take(128), plan.take(64)
    (64, 192)
    >>> plan.free(64, 128)
    >>> plan.take(64), plan.take(64), plan.top
    (64, 128, 256)
    """

    def __init__(self, first: int, *, shares: bool = True) -> None:
        self.top = first
        """The size of the workspace so far."""
        self._shares = shares
        self._sizes: dict[int, int] = {}
        """The size of each free block, by its start; no two of them touch."""
        self._starts: dict[int, int] = {}
        """The start of each free block, by its end."""
        self._blocks: dict[int, list[int]] = {}
        """Starts by size; blocks that have been taken or joined since are still in it."""
        self._known_sizes: list[int] = []

    def take(self, size: int) -> int:
        """Return where a new block begins: in the smallest free block that is large enough, or at the end."""
        place = bisect_left(self._known_sizes, size) if self._shares else len(self._known_sizes)
        while place < len(self._known_sizes):
            length = self._known_sizes[place]
            blocks = self._blocks[length]
            while blocks:
                start = blocks.pop()
                if self._sizes.get(start) == length:
                    self._remove(start, length)
                    if length > size:
                        self._add(start + size, length - size)
                    return start
            del self._known_sizes[place], self._blocks[length]
        self.top += size
        return self.top - size

    def free(self, start: int, size: int) -> None:
        """Give a block back; it is joined with its free neighbours."""
        after = self._sizes.get(start + size)
        if after is not None:
            self._remove(start + size, after)
            size += after
        before = self._starts.get(start)
        if before is not None:
            self._remove(before, start - before)
            start, size = before, size + start - before
        self._add(start, size)

    def _add(self, start: int, size: int) -> None:
        self._sizes[start] = size
        self._starts[start + size] = start
        if size not in self._blocks:
            self._blocks[size] = []
            insort(self._known_sizes, size)
        self._blocks[size].append(start)

    def _remove(self, start: int, size: int) -> None:
        del self._sizes[start], self._starts[start + size]


MAX_ARRAY_NODES = 300_000
"""Maximum number of nodes of a circuit, or of the circuit of a gradient, that is compiled to loops over arrays.

Of an unrolled loop only one round counts.
"""


def has_arrays(circuit: CircuitGraph) -> bool:
    """Return whether a node of a circuit is an array.

    >>> from wiregrad.ir import parse_text
    >>> has_arrays(parse_text("input x\\ny = exp x\\noutput y"))
    False
    """
    return circuit.columns.has_arrays()


MAX_SCALARS_PER_NODE = 2.0
"""A circuit is expanded if it gets at most so many scalar nodes for each node.

An instruction costs 12 to 30 ns and a scalar node about 2.5 ns, gradient included. Where whole arrays are fused into a
few loops, both take the same time at two elements; where a program picks elements and puts them together, the scalar
program takes a tenth.
"""
MAX_EXPANDED_ELEMENTS = 4_000_000
"""Maximum number of elements of all nodes of a circuit that is expanded."""


def may_expand(circuit: CircuitGraph) -> bool:
    """Return whether the arrays of a circuit may be small enough to compute it number by number.

    >>> from wiregrad.ir import parse_text
    >>> [may_expand(parse_text(f"input x: float64[{n}]\\ny = exp x\\noutput y")) for n in (3, 100)]
    [True, False]
    """
    sizes = np.array([prod(kind.shape) for kind in circuit.columns.type_table], np.int64)
    elements = int(sizes[circuit.columns.types].sum())
    # Moving elements needs no nodes, so there are fewer of these than elements.
    return elements <= min(2.0 * MAX_SCALARS_PER_NODE * circuit.size, MAX_EXPANDED_ELEMENTS)


def compile_expanded(
    circuit: CircuitGraph, *, wanted: Collection[int] | None = None, fenced: bool = False
) -> ExpandedProgram | None:
    """Return the program of a circuit that is faster number by number, if its ops can be expanded; else None."""
    jit.check_native_enabled()
    if not may_expand(circuit):
        return None
    try:
        scalars = expand_unnamed(circuit)
        if scalars.count()[1] > MAX_SCALARS_PER_NODE * circuit.count()[1]:
            return None
        return ExpandedProgram(circuit, scalars, wanted=wanted, fenced=fenced)
    except WiregradError:
        # Whatever a scalar program cannot do, such as a power with a condition as its exponent, loops can.
        return None


def compile_array_circuit(circuit: CircuitGraph, *, fenced: bool = False) -> StreamProgram:
    """Return the program of a circuit; raise `NotNativeError` if native code is off, or would compute nothing."""
    with pause_collection():
        expanded = compile_expanded(circuit, fenced=fenced)
        return expanded or compile_loops(simplify(prune(loop_ops.tidy_scans(merge_repeated(circuit)))), fenced=fenced)


def compile_loops(circuit: CircuitGraph, *, fenced: bool = False) -> ArrayProgram:
    """Return the program of a circuit as loops over arrays."""
    jit.check_native_enabled()
    program = ArrayProgram(circuit, fenced=fenced, limit=MAX_ARRAY_NODES)
    if program.facts.interpreted and not program.facts.kernels and not program.has_loops:
        names = ", ".join(name for name, _ in program.facts.interpreted)
        raise NotNativeError(
            f"native code would compute nothing: beside {names}, which the interpreter computes, little is left"
        )
    return program


class GradientProgram:
    """A program for the first output of a circuit, its gradient by the wanted inputs, and further outputs."""

    def __init__(
        self,
        circuit: CircuitGraph,
        others: Sequence[int] = (),
        *,
        wanted: Collection[int] | None = None,
        fenced: bool = False,
    ) -> None:
        self.circuit = circuit
        self._wanted = range(len(circuit.inputs)) if wanted is None else wanted
        self._root = int(circuit.columns.outputs[0])
        self.is_present: list[bool] = []
        """For each input, whether its gradient is wanted and not absent."""
        self.arrays: CircuitGraph = circuit
        """The circuit of these results on arrays; `circuit` itself if they are computed number by number."""
        self.program: StreamProgram
        """Its results are the output, the gradients, and the further outputs."""
        with pause_collection():
            expanded = self._expand(others, fenced=fenced)
            if expanded is None:
                self.arrays = self._build_circuit(others)
            self.program = expanded or compile_loops(self.arrays, fenced=fenced)

    def _choose_outputs(self, others: Sequence[int]) -> CircuitGraph:
        """Return the circuit with the output that is differentiated and other nodes as its outputs.

        It has no names, places and groups, which programs do not need.
        """
        outputs = np.array([self._root, *others], np.int32)
        columns = replace(
            self.circuit.columns,
            outputs=outputs,
            labels=tuple(f"y{k}" for k in range(len(outputs))),
            certificates=(),
            names=NameTable((node, f"x{k}") for k, node in enumerate(self.circuit.input_indices())),
            places=NodeLabels(),
            groups=NodeLabels(),
            expressions=NodeLabels(),
            library_groups=None,
        )
        return CircuitGraph(columns)

    def _expand(self, others: Sequence[int], *, fenced: bool) -> ExpandedProgram | None:
        program = compile_expanded(prune(self._choose_outputs(others)), wanted=self._wanted, fenced=fenced)
        if program is not None:
            self.is_present = [number in self._wanted for number in range(len(self.circuit.inputs))]
        return program

    def _build_circuit(self, others: Sequence[int]) -> CircuitGraph:
        check_loops(self.circuit, MAX_ARRAY_NODES)
        # What a loop computes anew in every round is merged before the sweep, so its gradient is one sum.
        circuit = merge_repeated(self._choose_outputs(others))
        root, *others = circuit.columns.outputs.tolist()
        builder = GraphBuilder(finite=False)
        builder.recording.load_circuit(circuit)
        builder.recording.certificates = []
        kind = circuit.type_of(root)
        seed = builder.place_constant(np.ones((), kind.dtype if kind.differentiable else np.float64)[()])
        try:
            flows = sweep_ports(circuit, builder, {root: seed})
        except (WiregradError, TypeError, ValueError) as error:
            raise NotNativeError(f"the backward pass of this circuit cannot be written as a circuit: {error}") from None
        labels = {"value": Port(builder, root)}
        for number, node in enumerate(circuit.input_indices()):
            self.is_present.append(flows[node] is not None and number in self._wanted)
            if self.is_present[-1]:
                gradient = match_shape(fill_absent(flows[node]), Port(builder, node))
                labels[f"gradient_{node}"] = (
                    gradient if isinstance(gradient, Port) else builder.place_constant(np.asarray(gradient)[()])
                )
        labels |= {f"other_{k}": Port(builder, node) for k, node in enumerate(others)}
        return simplify(prune(loop_ops.tidy_scans(builder.build(name="gradient", labels=labels))))

    def has_gradients_like_inputs(self, numbers: Collection[int]) -> bool:
        """Return whether the gradient by each of these inputs is present, and has its type."""
        kinds = [self.circuit.type_of(node) for node in self.circuit.input_indices()]
        wanted = [kind for kind, present in zip(kinds, self.is_present, strict=True) if present]
        found = self.program.result_types[1 : 1 + len(wanted)]
        are_there = all(self.is_present[number] for number in numbers) and len(wanted) == len(numbers)
        return are_there and found == [(kind.shape, kind.dtype) for kind in wanted]

    def make_replay(self, expected: Sequence[Any] = ()) -> Callable[..., Any]:
        """Return the function for replays; the further outputs must equal `expected`.

        It returns a tuple of the output and the gradients that are present, the number of the check that fails, or None
        for arguments that `run` must handle. Raises `NotNativeError` if there is none for this program.
        """
        return self.program.make_replay(expected)

    def run(
        self, arguments: NumberSequence, out: Sequence[NDArray[Any] | None] | None = None
    ) -> tuple[Any, list[Any | None], list[Any]]:
        """Return the output, the gradient by every input (None where it is absent or not wanted), and the others.

        With `out`, which has an array or None for every input, gradients are written into these arrays if they have
        the type of the gradient.
        """
        value, *rest = self.program.run(arguments, None if out is None else self._choose_results(out))
        grads: list[Any | None] = []
        for present in self.is_present:
            grads.append(rest.pop(0) if present else None)
        return value, grads, rest

    def _choose_results(self, out: Sequence[NDArray[Any] | None]) -> list[NDArray[Any] | None]:
        """Return the array for each result of the program; None for those that have no array of their type."""
        kinds = self.program.result_types
        present = [array for array, present in zip(out, self.is_present, strict=True) if present]
        arrays = [None, *present, *[None] * (len(kinds) - 1 - len(present))]
        return [
            array if array is not None and (array.shape, array.dtype) == kind else None
            for array, kind in zip(arrays, kinds, strict=True)
        ]


class ArrayEngine:
    """An engine for a circuit on arrays; with `gradient`, also for the gradient of its only output.

    >>> from wiregrad.ir import parse_text
    >>> square = parse_text("input x: float64[2]\\ny = multiply x x\\nz = sum y axes=[-1] keepdims=false\\noutput z")
    >>> engine = ArrayEngine(square, gradient=True)
    >>> engine.compute_gradient([np.array([1.0, 2.0])])
    (np.float64(5.0), [array([2., 4.])])
    """

    def __init__(self, circuit: CircuitGraph, *, gradient: bool, fallback: CheckFallback | None = None) -> None:
        self._python_calls = 0
        self._entries: list[ArrayCallEntry] = []
        self._fallback = fallback
        self._labels = circuit.outputs
        self._types = [circuit.type_of(node) for node in circuit.input_indices()]
        self._names = circuit.inputs
        self._count = len(circuit.outputs)
        checked = certificates.add_check_outputs(circuit)
        self._expected = checked.expected_values()
        nodes = [certificate.node for certificate in checked.certificates]
        self._gradient: GradientProgram | None = None
        self._values: StreamProgram | None = None
        if gradient:
            self._gradient = GradientProgram(circuit, nodes)
        else:
            self._values = compile_array_circuit(prune(drop_gradient_stops(checked.circuit)))

    @property
    def facts(self) -> ArrayProgramFacts:
        """What the program consists of."""
        program = self._values if self._gradient is None else self._gradient.program
        assert program is not None
        return program.facts

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        return self._python_calls + sum(entry.calls for entry in self._entries)

    def make_builtin(self, kind: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        """Return the builtin for `value` or `value_and_grad`; `answer` handles the calls that it does not.

        Raises `NotNativeError` if there is none for this program.
        """
        program = self._values
        if kind == "value_and_grad":
            assert self._gradient is not None
            program = self._gradient.program if all(self._gradient.is_present) else None
        if program is None:
            raise NotNativeError("a gradient is absent, or values are computed together with their gradient")
        checks = self._expected if self._fallback is not None else ()
        entry = program.make_call_entry(checks, self._names, self._labels, number_dtypes="df")
        self._entries.append(entry)
        return make_array_builtin(kind, entry, answer)

    def compute_values(self, point: NumberSequence, out: Sequence[NDArray[Any] | None] | None = None) -> NumberSequence:
        """Return the outputs; with `out`, in these arrays of their types, or new ones in place of None."""
        self._python_calls += 1
        if self._values is None:
            assert self._gradient is not None
            value, _, checks = self._gradient.run(point)
            outputs = [value]
        else:
            results = self._values.run(point, None if out is None else [*out, *[None] * len(self._expected)])
            outputs, checks = results[: self._count], results[self._count :]
        if self._find_failure(checks):
            assert self._fallback is not None
            return self._fallback.compute_values(point)
        return outputs

    def compute_gradient(
        self, point: NumberSequence, out: Sequence[NDArray[Any] | None] | None = None
    ) -> tuple[Any, NumberSequence]:
        """Return the only output, and its gradient by every input; with `out`, in these arrays if they fit."""
        self._python_calls += 1
        assert self._gradient is not None
        value, grads, checks = self._gradient.run(point, out)
        if self._find_failure(checks):
            assert self._fallback is not None
            return self._fallback.compute_gradient(point)
        return value, [
            np.zeros(kind.shape, kind.dtype if kind.differentiable else np.float64)[()]
            if gradient is None
            else gradient
            for gradient, kind in zip(grads, self._types, strict=True)
        ]

    def bind_arrays(self, vector: Sequence[Any], inputs: Mapping[str, Any]) -> list[Any] | None:
        """Return the point of a call whose arguments are arrays of the circuit's types, without copying; else None."""
        if inputs and vector:
            return None
        point = [inputs.get(name) for name in self._names] if inputs else list(vector)
        if len(point) != len(self._types) or (inputs and len(inputs) != len(self._types)):
            return None
        for x, kind in zip(point, self._types, strict=True):
            if type(x) is not np.ndarray or not kind.shape or x.shape != kind.shape or x.dtype != kind.dtype:
                return None
        return point

    def _find_failure(self, checks: Sequence[Any]) -> bool:
        if self._fallback is None or not checks:
            return False
        return not all(map(certificates.have_same_bits, checks, self._expected))


MAX_LOOP_SCALARS = 1_500
"""The body of a loop is computed number by number if it has at most so many scalar nodes."""
MAX_STEPS_AT_ONCE = 1 << 20
"""Python can interrupt a native loop after so many steps, those of loops inside it included."""
MAX_LOOP_WHOLE = 1 << 31
"""Whole numbers up to this size are floats in a native loop; steps add to them, so they stay exact."""


def is_loop(op: Op) -> bool:
    """Return whether a node is a loop or a branch, which has a plan."""
    return isinstance(op, loop_ops.ControlOp)


def find_native_loop(op: Op) -> NativeLoop:
    """Return the native code of a loop node; nodes with the same plan share it."""
    assert isinstance(op, loop_ops.ControlOp)
    # Kept at the plan itself: an equal plan may live longer than this one.
    kept = vars(op.plan)
    loop: NativeLoop | None = kept.get(loop_ops.NATIVE_CODE)
    if loop is None:
        loop = kept.setdefault(loop_ops.NATIVE_CODE, NativeLoop(op))
    return loop


class NativeLoop:
    """A loop or branch of a compiled circuit; its body is native code, and so are the steps where that is possible."""

    def __init__(self, op: Op) -> None:
        assert isinstance(op, loop_ops.ControlOp)
        # This is kept at the plan, so it must not keep the plan alive.
        self._plan = weakref.ref(op.plan)
        self.stream: LoopStream | None = None
        """The native code of a whole loop."""
        self.reason = ""
        """Why Python runs the steps, if it does."""
        try:
            self.stream = LoopStream(op.plan)
        except WiregradError as error:
            self.reason = str(error)

    @property
    def plan(self) -> loop_ops.ControlPlan:
        """What the node does."""
        plan = self._plan()
        assert plan is not None
        return plan

    @property
    def instruction(self) -> NumberLoop | None:
        """The code of a loop that may be an instruction of a stream: not too long, with a known number of steps."""
        plan = self.plan
        if self.stream is None or not isinstance(plan, loop_ops.ScanPlan) or plan.counted:
            return None
        is_short = plan.length is not None and 0 < plan.length <= MAX_STEPS_AT_ONCE
        has_floats = plan.layout.kind.dtype == FLOAT.dtype
        return self.stream.code if isinstance(self.stream.code, NumberLoop) and is_short and has_floats else None

    @property
    def instruction_steps(self) -> int:
        """The number of steps of a loop that may be an instruction of a stream; 0 for other loops."""
        plan = self.plan
        return (plan.length or 0) if self.instruction is not None and isinstance(plan, loop_ops.ScanPlan) else 0

    @cached_property
    def runners(self) -> list[Callable[[Sequence[Any]], Sequence[Any]]]:
        """What runs the circuits of this node one by one."""
        if self.reason and not any(is_loop(row.op) for circuit in self.plan.circuits for row in circuit.rows()):
            warnings.warn(f"{self.plan.called} runs step by step in Python: {self.reason}", InterpreterWarning, 2)
        return [_make_body_runner(circuit) for circuit in self.plan.circuits]

    def __call__(self, *xs: Any) -> Any:
        """Return the joined results."""
        if self.stream is not None:
            result = self.stream.run(self.plan, xs)
            if result is not None:
                return result
        return self.plan.run_with(self.runners, xs)


def _make_body_runner(circuit: CircuitGraph) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return what runs a body that is called from Python: its ops one by one, with inner loops in native code."""

    def find_kernel(op: Op) -> Callable[..., Any]:
        return find_native_loop(op) if is_loop(op) else op.kernel

    return loop_ops.BodyProgram(circuit, find_kernel).run


class LoopStream:
    """A scan or while loop whose steps native code runs.

    A while loop is a scan whose body also says whether to go on. Raises `NotNativeError` for other loops.
    """

    def __init__(self, plan: loop_ops.ControlPlan) -> None:
        jit.check_native_enabled()
        if not isinstance(plan, loop_ops.ScanPlan | loop_ops.WhilePlan):
            raise NotNativeError("a branch is chosen in Python")
        body = plan.body if isinstance(plan, loop_ops.ScanPlan) else plan.write_checked_body()
        self.code = self._compile_numbers(plan, body) or StreamLoop(
            ArrayProgram(simplify(prune(merge_repeated(body))), limit=MAX_ARRAY_NODES), is_float=False
        )

    @staticmethod
    def _compile_numbers(
        plan: loop_ops.ScanPlan | loop_ops.WhilePlan, body: CircuitGraph
    ) -> NumberLoop | StreamLoop | None:
        """Return the code of a body on few numbers; None if there is none."""
        try:
            floats = write_short_powers(simplify(write_float_body(body, plan.carry)))
            if sum(prod(kind.shape) for kind in loop_ops.input_types(floats)) > MAX_LOOP_SCALARS:
                return None
            scalars = expand_unnamed(floats)
            if scalars.count()[1] > MAX_LOOP_SCALARS:
                return None
            rows = plan.xs if isinstance(plan, loop_ops.ScanPlan) else 0
            types = loop_ops.input_types(body)
            numbers = NumberLoop(floats, scalars, types, plan.carry, rows, stops=isinstance(plan, loop_ops.WhilePlan))
            return numbers if numbers.is_compiled else StreamLoop(ExpandedProgram(floats, scalars), is_float=True)
        except WiregradError:
            return None

    def run(self, plan: loop_ops.ControlPlan, xs: Sequence[Any]) -> Any:
        """Return the joined results; None if whole numbers are too large for this program."""
        if self.code.is_float and not all(map(_is_small_whole, xs)):
            return None
        if isinstance(plan, loop_ops.WhilePlan):
            return self._run_while(plan, xs)
        assert isinstance(plan, loop_ops.ScanPlan)
        count, carry, rows, consts = plan.split(xs)
        length = plan.length if count is None else int(count)
        assert length is not None
        steps = self.code.bind(carry, rows, consts)
        packed = plan.layout.kind
        results = np.zeros(packed.shape, packed.dtype)
        parts = plan.layout.view_parts(results)
        ys = steps.add_rows(parts[plan.carry :])
        steps.run(length, reverse=plan.reverse)
        for part, new in zip(parts, [*steps.list_carry(), *ys], strict=True):
            if part is not new:
                part[...] = new
        return results

    def _run_while(self, plan: loop_ops.WhilePlan, xs: Sequence[Any]) -> Any:
        runs = loop_ops.BodyProgram(plan.condition).run(xs[: plan.carry + plan.conditions])[0]
        if not runs:
            return plan.layout.pack([*xs[: plan.carry], np.int64(0)])
        if plan.limit == 0:
            loop_ops.raise_limit(plan.called, 0)
        steps = self.code.bind(xs[: plan.carry], [], xs[plan.carry :])
        steps.stop_by_last_result()
        count = steps.run(1 << 62 if plan.limit is None else plan.limit)
        if steps.runs_on():
            loop_ops.raise_limit(plan.called, count)
        return plan.layout.pack([*steps.list_carry(), np.int64(count)])


class StreamLoop:
    """The code of a loop whose body is a stream of instructions."""

    def __init__(self, program: StreamProgram, *, is_float: bool) -> None:
        self._program = program
        self.is_float = is_float
        """Whether all numbers of the body are floats."""
        if program.bind_memory() is None:
            names = ", ".join(name for name, _ in program.facts.interpreted) or "a loop"
            raise NotNativeError(f"native code has no kernel for what is in its body: {names}")

    def bind(self, carry: Sequence[Any], rows: Sequence[Any], consts: Sequence[Any]) -> LoopSteps:
        """Return one call of the loop."""
        return LoopSteps(self._program, carry, rows, consts)


class NumberLoop:
    """The code of a loop on few numbers: LLVM compiles the body and the loop around it together.

    `types` are those of the body's inputs before whole numbers and conditions were written as floats.
    """

    is_float = True

    def __init__(
        self,
        body: CircuitGraph,
        scalars: CircuitGraph,
        types: Sequence[WireType],
        carry: int,
        rows: int,
        *,
        stops: bool,
    ) -> None:
        ins = [StepArray(prod(kind.shape), kind.dtype.char) for kind in types]
        outs = [prod(kind.shape) for kind in loop_ops.output_types(body)]
        self.program = build_program(scalars)
        self.carry_types = loop_ops.output_types(body)[:carry]
        self.row_types = list(types[carry : carry + rows])
        self.arrays = StepArrays(
            ins[:carry], ins[carry : carry + rows], ins[carry + rows :], outs[carry : len(outs) - stops]
        )
        self.code = build_loop(self.program, self.arrays, stops=stops)

    @property
    def is_compiled(self) -> bool:
        """Whether the body is short enough for this kind of code."""
        return self.code is not None

    def bind(self, carry: Sequence[Any], rows: Sequence[Any], consts: Sequence[Any]) -> NumberSteps:
        """Return one call of the loop."""
        return NumberSteps(self, carry, rows, consts)


class NumberSteps:
    """One call of a loop on few numbers."""

    def __init__(self, loop: NumberLoop, carry: Sequence[Any], rows: Sequence[Any], consts: Sequence[Any]) -> None:
        self._loop = loop
        self._stops = False
        self._buffer = loop.program.initial.copy()
        start = self._fill(0, carry)
        self._fill(start + sum(array.size for array in loop.arrays.rows), consts)
        pairs = zip(rows, loop.row_types, strict=True)
        self._rows = [np.ascontiguousarray(row, kind.dtype) for row, kind in pairs]
        self._results: list[NDArray[Any]] = []

    def _fill(self, start: int, values: Sequence[Any]) -> int:
        """Write numbers into the buffer, from a slot on; returns the slot behind them."""
        for x in values:
            size = np.size(x)
            self._buffer[start : start + size] = x if size == 1 else np.ravel(x)
            start += size
        return start

    def list_carry(self) -> list[NDArray[Any]]:
        """Return the carry after the last step."""
        parts = []
        start = 0
        for kind in self._loop.carry_types:
            size = prod(kind.shape)
            parts.append(self._buffer[start : start + size].reshape(kind.shape))
            start += size
        return parts

    def add_rows(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Have the other results of the steps written into rows; returns these arrays, or others of doubles."""
        self._results = [array if array.dtype == np.float64 else np.zeros(array.shape) for array in arrays]
        return self._results

    def stop_by_last_result(self) -> None:
        """End the loop when the last result of a step is 0."""
        self._stops = True

    def runs_on(self) -> bool:
        """Return whether the last result says that the loop goes on."""
        program = self._loop.program
        return bool(self._buffer[program.inputs + program.outputs - 1])

    def run(self, count: int, *, reverse: bool = False) -> int:
        """Run steps; returns how many of them were run."""
        code = self._loop.code
        assert code is not None
        arrays = (*self._rows, *self._results)
        table = np.array([*[each.ctypes.data for each in arrays], *[each.strides[0] for each in arrays]], np.int64)
        buffer, rows = self._buffer.ctypes.data, table.ctypes.data
        done = 0
        while done < count:
            steps = min(MAX_STEPS_AT_ONCE, count - done)
            first = count - 1 - done if reverse else done
            done += code.run(buffer, rows, first, -1 if reverse else 1, steps)
            if self._stops and not self.runs_on():
                break
        return done


def _is_small_whole(x: Any) -> bool:
    array = np.asarray(x)
    return array.dtype.kind != "i" or not array.size or int(np.abs(array).max()) <= MAX_LOOP_WHOLE


class LoopSteps:
    """One call of a native loop: its memory, and what is copied before and after each step."""

    def __init__(
        self, program: StreamProgram, carry: Sequence[Any], rows: Sequence[Any], consts: Sequence[Any]
    ) -> None:
        bound = program.bind_memory()
        assert bound is not None
        self._bound = bound
        self._stop = 0
        self._steps_at_once = max(1, MAX_STEPS_AT_ONCE // program.steps_inside)
        self._carry = bound.inputs[: len(carry)]
        given = bound.inputs[len(carry) : len(carry) + len(rows)]
        self._rows = [np.ascontiguousarray(row, memory.dtype) for row, memory in zip(rows, given, strict=True)]
        for memory, x in zip(self._carry, carry, strict=True):
            memory[...] = x
        for memory, x in zip(bound.inputs[len(carry) + len(rows) :], consts, strict=True):
            memory[...] = x
        pairs = zip(self._rows, given, strict=True)
        self._before = [[row.ctypes.data, x.nbytes, x.ctypes.data, 0, x.nbytes] for row, x in pairs]
        results = zip(bound.results[: len(carry)], self._carry, strict=True)
        self._after = [[y.ctypes.data, 0, x.ctypes.data, 0, x.nbytes] for y, x in results]

    def list_carry(self) -> list[NDArray[Any]]:
        """Return the carry after the last step."""
        return self._carry

    def add_rows(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Have the other results of the steps written into rows; returns these arrays, or others of their dtypes."""
        results = self._bound.results[len(self._carry) :]
        rows = [
            array if array.dtype == y.dtype else np.zeros(array.shape, y.dtype)
            for array, y in zip(arrays, results, strict=True)
        ]
        pairs = zip(results, rows, strict=True)
        self._after += [[y.ctypes.data, 0, row.ctypes.data, y.nbytes, y.nbytes] for y, row in pairs]
        return rows

    def stop_by_last_result(self) -> None:
        """End the loop when the last result of a step is 0 or False."""
        self._stop = self._bound.results[-1].ctypes.data

    def runs_on(self) -> bool:
        """Return whether the last result says that the loop goes on."""
        return bool(self._bound.results[-1])

    def run(self, count: int, *, reverse: bool = False) -> int:
        """Run steps; returns how many of them were run."""
        bound = self._bound
        distance = -1 if reverse else 1
        is_byte = bool(bound.results) and bound.results[-1].dtype.itemsize == 1
        words = np.array(
            [
                *(bound.workspace.base, bound.first, bound.end),
                *(count - 1 if reverse else 0, distance, 0),
                *(self._stop, int(is_byte), len(self._before), len(self._after)),
                *[word for row in (*self._before, *self._after) for word in row],
            ],
            np.int64,
        )
        loop = load_loop_function()
        done = 0
        while done < count:
            words[5] = min(self._steps_at_once, count - done)
            done += loop(words.ctypes.data)
            words[3] += distance * int(words[5])
            if self._stop and not self.runs_on():
                break
        return done


class FloatBodyWriter:
    """Writes a body on float64 numbers alone: whole numbers and conditions come in and go out as floats.

    Only what keeps whole numbers exact is allowed: they are compared, chosen, and added to, by one that no step
    changes. Anything else, and any other dtype, raises `NotNativeError`.
    """

    def __init__(self, carry: int) -> None:
        self.builder = GraphBuilder(finite=False)
        self._carry = carry

    def add_inputs(self, circuit: CircuitGraph) -> list[Port]:
        """Add the inputs of a circuit."""
        ports = []
        for number, kind in enumerate(loop_ops.input_types(circuit)):
            port = self.builder.input(f"x{number}", WireType(FLOAT.dtype, kind.shape))
            ports.append(TABLE["not_equal"](port, 0.0) if kind.dtype == BOOL.dtype else port)
        return ports

    def copy_circuit(self, circuit: CircuitGraph, inputs: Sequence[Port], carried: Sequence[bool]) -> list[Port]:
        """Copy the nodes of a circuit; `carried` marks the inputs that steps change."""
        ports: list[Port] = []
        changes: list[bool] = []
        remaining = iter(zip(inputs, carried, strict=True))
        constants = circuit.constants()
        for row in circuit.rows():
            kind = circuit.type_of(row.node)
            if row.op is INPUT:
                port, changing = next(remaining)
            elif row.op is CONSTANT:
                port, changing = self._place_constant(constants[row.node]), False
            else:
                sources = [(ports[k], circuit.type_of(k), changes[k]) for k in row.sources]
                port = self._copy_node(row.op, row.mode, sources, kind)
                changing = any(change for _, _, change in sources)
            ports.append(port)
            changes.append(changing)
        return [ports[node] for node in circuit.columns.outputs.tolist()]

    def _place_constant(self, value: Any) -> Port:
        array = np.asarray(value)
        if array.dtype.kind == "i" and not _is_small_whole(array):
            raise NotNativeError("a whole number in the body is too large for a float")
        return self.builder.place_constant(array.astype(float)[()] if array.dtype.kind == "i" else value)

    def _copy_node(self, op: Op, mode: int, sources: Sequence[tuple[Port, WireType, bool]], kind: WireType) -> Port:
        ports = [port for port, _, _ in sources]
        if is_loop(op):
            return self._copy_choice(op, sources)
        if kind.dtype.kind not in "bi" and kind.dtype != FLOAT.dtype:
            raise NotNativeError(f"the body computes in {kind.dtype}")
        wholes = [changing for _, source, changing in sources if source.dtype.kind == "i"]
        if op.name == "cast":
            return self._copy_cast(ports[0], sources[0][1], kind)
        if wholes and not (op.by_element or op.is_view):
            raise NotNativeError(f"{op.name} reads whole numbers")
        if kind.dtype.kind == "i" and (
            op.pattern not in (Pattern.DISTRIBUTE, Pattern.ROUTE)
            or (op.pattern is Pattern.DISTRIBUTE and len(wholes) > 1 and all(wholes))
        ):
            raise NotNativeError(f"{op.name} makes whole numbers that may become large")
        return self.builder.apply(op, *ports, mode=mode)

    def _copy_cast(self, port: Port, source: WireType, kind: WireType) -> Port:
        """Copy a conversion between floats, whole numbers and conditions."""
        if kind.dtype == BOOL.dtype:
            return port if port.dtype == BOOL.dtype else self.builder.apply("not_equal", port, 0.0)
        if port.dtype == BOOL.dtype:
            return self.as_float(port)
        if source.dtype.kind == "f" and kind.dtype.kind == "i":
            raise NotNativeError("the body makes whole numbers of floats")
        return port

    def _copy_choice(self, op: Op, sources: Sequence[tuple[Port, WireType, bool]]) -> Port:
        """Copy both branches of a condition, and choose among their results."""
        plan = op.options["loop"]
        if not isinstance(plan, loop_ops.SwitchPlan) or not plan.is_condition:
            raise NotNativeError(f"a loop or branch is in its body: {op.title}")
        inputs = [port for port, _, _ in sources[1:]]
        changes = [changing for _, _, changing in sources[1:]]
        holds = TABLE["not_equal"](sources[0][0], 0.0)
        no, yes = (list(map(self.as_float, self.copy_circuit(each, inputs, changes))) for each in plan.branches)
        chosen = [TABLE["where"](holds, *pair) for pair in zip(yes, no, strict=True)]
        if plan.layout.is_single:
            return cast(Port, chosen[0])
        return cast(Port, loop_ops.join_rows([FUNCTIONS["ravel"].run(port) for port in chosen]))

    def as_float(self, port: Port) -> Port:
        """Return a condition as 0.0 or 1.0; a float as it is."""
        return self.builder.apply("where", port, 1.0, 0.0) if port.dtype == BOOL.dtype else port


def write_float_body(circuit: CircuitGraph, carry: int) -> CircuitGraph:
    """Return a body on float64 numbers alone, whose first inputs are carried from step to step."""
    writer = FloatBodyWriter(carry)
    inputs = writer.add_inputs(circuit)
    outputs = writer.copy_circuit(circuit, inputs, [k < carry for k in range(len(inputs))])
    labels = {f"y{k}": writer.as_float(port) for k, port in enumerate(outputs)}
    return prune(writer.builder.build(name="body", labels=labels))


def write_short_powers(circuit: CircuitGraph) -> CircuitGraph:
    """Return a circuit with cubes and fourth powers as products, which are within 2 ulp, as in loops over arrays.

    >>> from wiregrad.ir import parse_text, write_text
    >>> cube = parse_text("input x\\nb = constant 3.0\\ny = power x b\\noutput y")
    >>> [row.op.name for row in write_short_powers(cube).rows()]
    ['input', 'multiply', 'multiply']
    """
    constants = circuit.constants()
    builder = GraphBuilder(finite=False)
    ports: list[Port] = []
    for row in circuit.rows():
        sources = [ports[source] for source in row.sources]
        exponent = np.ravel(constants.get(row.sources[1], 0.0)) if row.op.name == "power" else np.zeros(1)
        if row.op is INPUT:
            ports.append(builder.input(f"x{len(ports)}", circuit.type_of(row.node)))
        elif row.op is CONSTANT:
            ports.append(builder.place_constant(constants[row.node]))
        elif (exponent == 3.0).all() or (exponent == 4.0).all():
            square = builder.apply("multiply", sources[0], sources[0])
            ports.append(builder.apply("multiply", square, sources[0] if exponent[0] == 3.0 else square))
        else:
            ports.append(builder.apply(row.op, *sources, mode=row.mode))
    outputs = circuit.columns.outputs.tolist()
    return prune(builder.build(name="body", labels={f"y{k}": ports[node] for k, node in enumerate(outputs)}))
