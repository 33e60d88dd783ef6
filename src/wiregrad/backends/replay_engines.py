"""Replays run a recorded circuit at another point, and check that Python would take the same branches there.

The first outputs of the circuit are results. The others are checks: they decided a branch when the function was
recorded, and must have the same bits again. If one differs, the replay returns a `Flip` that says which. Native code is
tried first; it is used if, at the point of the recording, it decides every branch as NumPy did (the last bit of an
`exp` may differ). Otherwise the interpreter runs the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, repeat
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import interpreter
from wiregrad.dtypes import FLOAT
from wiregrad.errors import NotNativeError, OperandError, WiregradError
from wiregrad.frontends.recording.arguments import flatten
from wiregrad.frontends.recording.record import NATIVE_CIRCUITS, NATIVE_LOOPS, NativeFunction, run_as_replay
from wiregrad.frontends.recording.session import make_distinct
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.frontends.recording.value import settle_gradient
from wiregrad.frontends.replay.recorded_calls import CertifiedRecording, plain_result
from wiregrad.ir import TABLE, CircuitGraph, Op
from wiregrad.lazy import NamedTuple, load_module_lazily
from wiregrad.ops import Elementwise
from wiregrad.passes import (
    SilentWatcher,
    batching,
    drop_gradient_stops,
    expand_unnamed,
    gradient_circuit,
    simplify,
    simplify_finite,
    sweep_backward,
)

if TYPE_CHECKING:
    from wiregrad import files
    from wiregrad.backends import compiled, executors
    from wiregrad.backends.cuda import batches as cuda_batches
    from wiregrad.backends.native import batch, builtin_calls, tiers
    from wiregrad.backends.native_arrays import array_program
else:
    # Only batches on other processes need these.
    executors = load_module_lazily("wiregrad.backends.executors")
    compiled = load_module_lazily("wiregrad.backends.compiled")
    files = load_module_lazily("wiregrad.files")
    # The modules of native code are loaded when the first function is compiled.
    cuda_batches = load_module_lazily("wiregrad.backends.cuda.batches")
    batch = load_module_lazily("wiregrad.backends.native.batch")
    builtin_calls = load_module_lazily("wiregrad.backends.native.builtin_calls")
    tiers = load_module_lazily("wiregrad.backends.native.tiers")
    array_program = load_module_lazily("wiregrad.backends.native_arrays.array_program")


def _find_native_loop(op: Op) -> Callable[..., Any]:
    """Return the native code of a loop; a function, because the module is loaded when it is first needed."""
    return array_program.find_native_loop(op)


NATIVE_LOOPS.append(_find_native_loop)


def _compile_circuit(circuit: CircuitGraph) -> NativeFunction | None:
    """Return native code for a circuit; None if the interpreter would run it."""
    builder = compiled.EngineBuilder(circuit, FLOAT.dtype)
    engine = builder.build_engine(circuit, None)
    return engine.compute_values if not builder.reason else None


NATIVE_CIRCUITS.append(_compile_circuit)


class Flip:
    """Returned in place of results where Python would take another branch."""

    __slots__ = ("check",)

    def __init__(self, check: int | None) -> None:
        self.check = check
        """The number of the first check that does not hold; None if an op refused its operands."""


class RecordingReplay(Protocol):
    """Runs a recording again; `tier` says with which backend, `reason` why not natively."""

    tier: str
    reason: str

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results."""

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the first result, followed by its gradient by every input."""


class InterpreterReplay:
    """A replay by the interpreter, for circuits of any kind."""

    tier = "interpreter"

    def __init__(self, recording: CertifiedRecording, reason: str) -> None:
        assert recording.circuit is not None
        self.circuit = recording.circuit
        self.reason = reason
        nodes = self.circuit.columns.outputs.tolist()
        count = len(recording.moving)
        self._results = nodes[:count]
        self._in_python = recording.in_python
        self._checks = [(node, _to_bytes(value)) for node, value in zip(nodes[count:], recording.expected, strict=True)]

    def evaluate_nodes(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Return the value of every node; None if an op raises."""
        point = [np.float64(x) if type(x) is float else x for x in inputs]
        try:
            with run_as_replay():
                return interpreter.evaluate_nodes(self.circuit, point)
        except Exception:
            # The function itself is called instead: it raises a proper error, or handles this one.
            return None

    def find_flipped_check(self, values: Sequence[Any]) -> int | None:
        """Return the index of the first check that does not hold, None if all hold."""
        return next((k for k, (node, bits) in enumerate(self._checks) if _to_bytes(values[node]) != bits), None)

    def _evaluate_checked(self, inputs: Sequence[Any]) -> list[Any] | Flip:
        values = self.evaluate_nodes(inputs)
        if values is None:
            return Flip(None)
        check = self.find_flipped_check(values)
        return values if check is None else Flip(check)

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results."""
        values = self._evaluate_checked(inputs)
        if isinstance(values, Flip):
            return values
        results = [
            plain_result(values[node], in_python=in_python)
            for node, in_python in zip(self._results, self._in_python, strict=True)
        ]
        return make_distinct(results, ((None, x) for x in inputs))

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the first result, followed by its gradient by every input."""
        values = self._evaluate_checked(inputs)
        if isinstance(values, Flip):
            return values
        inputs = [float(x) if type(x) is np.float64 else x for x in inputs]
        root = self._results[0]
        with np.errstate(all="ignore"):
            flows = sweep_backward(
                self.circuit, values, {root: self.circuit.type_of(root).dtype.type(1)}, SilentWatcher()
            )
        nodes = self.circuit.input_indices()
        grads = [settle_gradient(flows[node], x) for node, x in zip(nodes, inputs, strict=True)]
        return [plain_result(values[root]), *make_distinct(grads, [])]


def _to_bytes(value: object) -> bytes:
    data: bytes = np.asarray(value).tobytes()
    return data


class PointColumns(NamedTuple):
    """Many points, and where the results go: columns with a number, or an array, for each point."""

    size: int
    """The number of points."""
    inputs: Sequence[NDArray[np.float64]]
    """A column for each input, or an array without axes: one number for all points.

    A column of arrays that are the same at all points is a broadcast view.
    """
    values: Sequence[NDArray[np.float64]]
    """A column for each result that is not constant."""
    grads: Sequence[NDArray[np.float64]] | None
    """The gradient by each of `wanted`; None if there is none."""
    wanted: tuple[int, ...]
    """The numbers of the inputs to differentiate by."""
    device: str = "cpu"
    """Where they are computed."""


def allocate_columns(shapes: Sequence[tuple[int, ...]], size: int) -> list[NDArray[np.float64]]:
    """Return columns for results of these shapes; memory of earlier results is used again once nobody needs it."""
    allocate = batch.allocate_result
    return [allocate((size, *shape), FLOAT.dtype, k) for k, shape in enumerate(shapes)]


def split_columns(column: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return a column for each number of a column of arrays, in their order; an array without axes is one for all.

    >>> split_columns(np.array([[1.0, 2.0], [3.0, 4.0]]))
    [array([1., 3.]), array([2., 4.])]
    """
    if column.ndim < 2:
        return [column]
    if not column.strides[0]:
        return [number.reshape(()) for number in column[0].reshape(-1, 1)] if len(column) else []
    return list(column.reshape(len(column), prod(column.shape[1:])).T)


def check_device(device: object) -> None:
    """Raise unless batches can run on a device."""
    if device != "cpu":
        cuda_batches.open_gpu(device)


class RowReplay:
    """Runs a recording at many points, in machine code or on a GPU."""

    def __init__(self, recording: CertifiedRecording) -> None:
        self._recording = recording
        self._row_programs: dict[tuple[int, ...] | None, batch.ColumnProgram | None] = {}
        """The programs for vectors of points, by the inputs that they differentiate by; None if there is none."""
        self._gpu_programs: dict[tuple[str, tuple[int, ...] | None], cuda_batches.CudaProgram | None] = {}
        """The programs for points on a GPU, by device and inputs."""

    def compute_columns(
        self, columns: Sequence[NDArray[np.float64]], *, wanted: tuple[int, ...] | None, device: str, threads: int
    ) -> executors.ChunkOutcome:
        """Return the results at points as columns: values, gradients, and where a check fails."""
        size = max(len(column) for column in columns if column.ndim)
        count = len(self._recording.moving)
        results = allocate_columns([()] * (count + len(wanted or ())), size)
        grads = None if wanted is None else results[count:]
        points = PointColumns(size, columns, results[:count], grads, wanted or (), device)
        failures = self.run_rows(points, None, threads)
        if failures is None:
            raise NotNativeError("this recording has no native code for batches")
        return executors.ChunkOutcome(size, (*results, failures), is_single=False)

    def run_rows(
        self, points: PointColumns, rows: NDArray[np.intp] | None, threads: int | None = None
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all; return the indices of those where a check fails. None if it cannot.

        Where a check fails, what is written is meaningless.
        """
        wanted = None if points.grads is None else points.wanted
        if points.device != "cpu":
            return self._run_rows_on_gpu(points, rows, wanted)
        columns = self._find_row_program(wanted)
        if columns is None:
            return None
        program = columns.program
        reads = list(enumerate(points.inputs))
        writes = list(enumerate(points.values, program.inputs))
        first = program.inputs + program.outputs
        writes += [(first + k, column) for k, column in zip(points.wanted, points.grads or (), strict=False)]
        expected = _expected_bytes(self._recording)
        return batch.run_columns(columns, reads, writes, points.size, rows, expected, threads)

    def prepare_rows(self, varies: Sequence[bool], wanted: tuple[int, ...] | None) -> batch.RepeatedColumns | None:
        """Return batches in which these inputs vary and the others do not, by the inputs that are wanted.

        None if there is no native code, or if a check may fail at some points.
        """
        columns = None if self._recording.checks else self._find_row_program(wanted)
        if columns is None:
            return None
        moving, fixed = (tuple([k for k, one in enumerate(varies) if one == kind]) for kind in (True, False))
        first = columns.program.inputs + columns.program.outputs
        targets = (*range(columns.program.inputs, first), *[first + k for k in wanted or ()])
        return batch.RepeatedColumns(columns, batch.BatchShape(moving, fixed, targets))

    def _find_row_program(self, wanted: tuple[int, ...] | None) -> batch.ColumnProgram | None:
        """Return the program for vectors of points; None if there is none."""
        if wanted not in self._row_programs:
            self._row_programs[wanted] = _build_row_program(self._recording, wanted)
        return self._row_programs[wanted]

    def _run_rows_on_gpu(
        self, points: PointColumns, rows: NDArray[np.intp] | None, wanted: tuple[int, ...] | None
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all, as `run_rows` does."""
        if len(points.values) != 1:
            raise OperandError(f"a batch on a GPU needs a function of one number; got {len(points.values)} results")
        key = (points.device, wanted)
        if key not in self._gpu_programs:
            self._gpu_programs[key] = _build_gpu_program(self._recording, points.device, wanted)
        program = self._gpu_programs[key]
        if program is None:
            return None
        columns = cuda_batches.ColumnResults(points.values[0], points.grads or ())
        return cuda_batches.run_columns(program, points.inputs, columns, rows)


def load_row_replay(
    data: bytes, count: int, expected: tuple[float, ...], is_finite: bool, is_derivative: bool
) -> RowReplay:
    """Return the replay of a recording of `count` results whose circuit is in a file, as a worker needs it."""
    circuit = files.decode_circuit_file(data)
    moving = tuple(range(count))
    facts = CertifiedRecording(circuit, [], [], flatten(0.0)[1], moving, (False,) * count, expected, (), None)
    return RowReplay(facts._replace(is_finite=is_finite, is_derivative=is_derivative))


class RowWorkers:
    """Workers that run recordings at many points."""

    def __init__(self, executor: object, chunk_size: int | None, progress: bool) -> None:
        executors.check_options({} if chunk_size is None else {"chunk_size": chunk_size})
        self._pool = executors.WorkerPool(executor)
        self._size = chunk_size or executors.DEFAULT_CHUNK_SIZE
        self._progress = progress

    def close(self) -> None:
        """End the workers, unless the caller has them."""
        self._pool.close()

    def run_rows(
        self, recording: CertifiedRecording, points: PointColumns, rows: NDArray[np.intp] | None, threads: int | None
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all, as `RowReplay.run_rows` does."""
        count = points.size if rows is None else len(rows)
        parts = [slice(first, min(first + self._size, count)) for first in range(0, count, self._size)]
        places = [part if rows is None else rows[part] for part in parts]
        wanted = None if points.grads is None else points.wanted
        options = {"wanted": wanted, "device": points.device, "threads": threads or 1}
        program = self._make_program(recording)
        calls = (
            executors.ChunkCall(
                program, "compute_columns", options, _take_columns(points.inputs, place), is_summed=False
            )
            for place in places
        )
        failures = [np.arange(0)]
        bar = executors.ChunkProgress(len(parts), self._progress)
        for number, (_, outcome) in enumerate(executors.ChunkScheduler(self._pool).run(calls)):
            if isinstance(outcome.error, NotNativeError):
                return None
            if outcome.error is not None:
                raise outcome.error
            *results, failed = outcome.parts
            for column, result in zip((*points.values, *(points.grads or ())), results, strict=True):
                column[places[number]] = result
            failures.append(failed + parts[number].start)
            bar.count(outcome.size)
        bar.close()
        return np.concatenate(failures)

    def _make_program(self, recording: CertifiedRecording) -> executors.Program:
        if self._pool.is_local:
            return executors.LocalProgram(RowReplay(recording))
        assert recording.circuit is not None
        data = b"".join(files.encode_circuit_file(recording.circuit))
        expected = tuple(float(value) for value in recording.expected)
        options = (len(recording.moving), expected, recording.is_finite, recording.is_derivative)
        return executors.FileProgram(data, options, load_row_replay)


def _take_columns(columns: Sequence[NDArray[np.float64]], place: slice | NDArray[np.intp]) -> executors.ChunkPoints:
    return executors.ChunkPoints(tuple(column[place] if column.ndim else column for column in columns))


class NativeReplay:
    """A replay in machine code, for circuits of scalars."""

    def __init__(
        self, recording: CertifiedRecording, *, numpy_numbers: bool = False, gradient_first: bool = False
    ) -> None:
        """Compile the results; with `gradient_first`, if possible, their gradient, and the results when they are used.

        Compiling takes a good part of the time that a recording takes.
        """
        self.reason = ""
        self._recording = recording
        self._numpy_numbers = numpy_numbers
        self._values: Callable[..., Any] | None = None
        self._single = len(recording.moving) == 1
        self._rows = RowReplay(recording)
        self._pulled: Callable[..., Any] | InterpreterReplay | None = None
        if gradient_first:
            with suppress(NotNativeError):
                self._pulled, self.tier = _compile_replay(recording, gradient=True, numpy_numbers=numpy_numbers)
        if self._pulled is None:
            self._values, self.tier = _compile_replay(recording, gradient=False, numpy_numbers=numpy_numbers)

    def compute_first(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results, from the code that was compiled first; those of a gradient are followed by it."""
        return self.compute_gradient(inputs) if self._values is None else self.compute_results(inputs)

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results."""
        values = self._values
        if values is None:
            values = _compile_replay(self._recording, gradient=False, numpy_numbers=self._numpy_numbers)[0]
            self._values = values
        results = values(*inputs)
        if type(results) is int or results is None:
            return Flip(results)
        return (results,) if self._single else results

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the first result, followed by its gradient by every input."""
        code = self._pulled
        if code is None:
            code = self._pulled = _compile_gradient(self._recording, numpy_numbers=self._numpy_numbers)
        if isinstance(code, InterpreterReplay):
            return code.compute_gradient(inputs)
        numbers = code(*inputs)
        return Flip(numbers) if type(numbers) is int or numbers is None else numbers

    def run_rows(
        self,
        points: PointColumns,
        rows: NDArray[np.intp] | None,
        threads: int | None = None,
        workers: RowWorkers | None = None,
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all, as `RowReplay` does, on workers or here."""
        if workers is not None:
            return workers.run_rows(self._recording, points, rows, threads)
        return self._rows.run_rows(points, rows, threads)

    def prepare_rows(self, varies: Sequence[bool], wanted: tuple[int, ...] | None) -> batch.RepeatedColumns | None:
        """Return batches in which these inputs vary, as `RowReplay` does."""
        return self._rows.prepare_rows(varies, wanted)

    def single_result_builtin(self) -> Callable[..., Any] | None:
        """Return the builtin that maps floats to the only result, a float, once it is compiled; else None."""
        return self._values if self._single and not isinstance(self._values, _TypedBuiltin | _Float32Code) else None

    def gradient_builtin(self) -> Callable[..., Any] | None:
        """Return the builtin that maps floats to a tuple of the result and its gradient, once it is compiled."""
        code = self._pulled
        if isinstance(code, InterpreterReplay | _TypedBuiltin | _CheckedBuiltin | _Float32Code):
            return None
        return code

    def list_result_shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the results that are outputs of the circuit."""
        return [()] * len(self._recording.moving)

    def make_program(self, *, gradient: bool, results: tuple[Any, ...] | None = None) -> Any:
        """Return the code as the extension module runs it; None if there is none, or if it is not compiled yet.

        `results` describes the results where there is more than one float.
        """
        if results is None:
            builtin = self.gradient_builtin() if gradient else self.single_result_builtin()
        else:
            builtin = None if isinstance(self._values, _TypedBuiltin | _Float32Code) else self._values
        if builtin is None:
            return None
        return RECORDER.ReplayProgram(builtin_calls.find_replay_fields(builtin), builtin, results)


def _compile_gradient(recording: CertifiedRecording, *, numpy_numbers: bool) -> Callable[..., Any] | InterpreterReplay:
    try:
        return _compile_replay(recording, gradient=True, numpy_numbers=numpy_numbers)[0]
    except NotNativeError as error:
        stopped = _compile_stopped_gradient(recording, numpy_numbers=numpy_numbers)
        return InterpreterReplay(recording, str(error)) if stopped is None else stopped


def _compile_stopped_gradient(recording: CertifiedRecording, *, numpy_numbers: bool) -> Callable[..., Any] | None:
    """Return the gradient of a circuit with `stop_gradient`, which native code cannot differentiate by itself.

    The circuit of the gradient needs the stopped nodes as values only, so it can be compiled. None if it cannot.
    """
    circuit = recording.circuit
    assert circuit is not None
    try:
        backward = drop_gradient_stops(gradient_circuit(circuit.with_output(circuit.outputs[0])))
        count = 1 + len(circuit.inputs)
        if backward.inputs != circuit.inputs or len(backward.outputs) != count:
            return None
        program = tiers.build_program(backward, None)
        if program.initial.dtype != np.float64 or _find_result_types(circuit, recording, gradient=True) is not None:
            return None
        made = builtin_calls.make_replay_builtin(program, count, b"", gradient=False, numpy_numbers=numpy_numbers)
        if not recording.expected:
            return made
        checks = _compile_replay(recording, gradient=False, numpy_numbers=numpy_numbers)[0]
    except WiregradError:
        return None
    return _CheckedBuiltin(checks, made)


class _CheckedBuiltin:
    """A builtin without checks, and the one that makes them."""

    def __init__(self, checks: Callable[..., Any], made: Callable[..., Any]) -> None:
        self._checks = checks
        self._made = made

    def __call__(self, *inputs: object) -> Any:
        """Return the results, or what the checks return where one fails."""
        results = self._checks(*inputs)
        return results if type(results) is int or results is None else self._made(*inputs)


def _compile_replay(
    recording: CertifiedRecording, *, gradient: bool, numpy_numbers: bool
) -> tuple[Callable[..., Any], str]:
    """Return a function from inputs to results (and gradient), or None if a check fails, and the tier of its code."""
    circuit = recording.circuit
    assert circuit is not None
    program = _build_replay_program(recording, gradient)
    if program.initial.dtype == np.float32:
        return _Float32Code(recording, program, gradient=gradient), program.tier
    expected = _expected_bytes(recording)
    count = len(recording.moving)
    made = builtin_calls.make_replay_builtin(program, count, expected, gradient=gradient, numpy_numbers=numpy_numbers)
    kinds = _find_result_types(circuit, recording, gradient=gradient)
    return made if kinds is None else _TypedBuiltin(made, kinds), program.tier


def _build_replay_program(
    recording: CertifiedRecording, gradient: bool, lanes: int = 1, wanted: tuple[int, ...] | None = None
) -> tiers.NativeProgram:
    source, finite = _choose_replay_circuit(recording, gradient)
    return tiers.build_program(source, 0 if gradient else None, lanes=lanes, finite=finite, wanted=wanted)


def _choose_replay_circuit(recording: CertifiedRecording, gradient: bool) -> tuple[CircuitGraph, bool]:
    """Return the circuit that is compiled, and whether its gradient may assume that all numbers are finite."""
    circuit = recording.circuit
    assert circuit is not None
    source = circuit if gradient else drop_gradient_stops(circuit)
    finite = recording.is_finite and circuit.columns.has_finite_constants()
    if recording.is_derivative and not gradient:
        source = simplify_finite(source) if finite else simplify(source)
    return source, finite


def _build_gpu_program(
    recording: CertifiedRecording, device: str, wanted: tuple[int, ...] | None
) -> cuda_batches.CudaProgram | None:
    """Return the program that runs on a GPU, in float64; None if there is none."""
    source, finite = _choose_replay_circuit(recording, wanted is not None)
    gpu = cuda_batches.open_gpu(device)
    try:
        program = cuda_batches.CudaProgram(gpu, source, wanted, _expected_bytes(recording), finite=finite)
    except NotNativeError:
        return None
    return program if program.source.real.name == "double" else None


def _build_row_program(recording: CertifiedRecording, wanted: tuple[int, ...] | None) -> batch.ColumnProgram | None:
    """Return the program that runs on vectors of points, which are float64; None if there is none."""
    lanes = batch.count_lanes(np.dtype(np.float64))
    try:
        program = _build_replay_program(recording, wanted is not None, lanes, wanted)
    except NotNativeError:
        return None
    return batch.ColumnProgram(program) if program.initial.dtype == np.float64 else None


def _expected_bytes(recording: CertifiedRecording) -> bytes:
    """Return the bits that the checks of a recording must have."""
    return np.array([float(value) for value in recording.expected], np.float64).tobytes() if recording.expected else b""


class _Float32Code:
    """Code that computes in float32, called as the builtins are that compute in float64."""

    def __init__(self, recording: CertifiedRecording, program: tiers.NativeProgram, *, gradient: bool) -> None:
        circuit = recording.circuit
        assert circuit is not None
        if any(circuit.type_of(node).dtype != np.float32 for node in circuit.input_indices()):
            raise NotNativeError("native replays in float32 need inputs of float32 alone")
        self._engine = builtin_calls.NativeEngine(program, circuit.inputs, circuit.outputs)
        tiers.promote_when_hot(self._engine)
        self._count = len(recording.moving)
        self._gradient = gradient
        nodes = circuit.columns.outputs.tolist()[: self._count]
        self._kinds = [circuit.type_of(node).dtype.type for node in nodes]
        self._in_python = recording.in_python
        self._expected = np.array([float(value) for value in recording.expected], np.float32).view(np.int32)

    def __call__(self, *inputs: object) -> Any:
        """Return the results, or the only one; the number of the first check that fails, or None for other types."""
        if any(type(x) is not np.float32 for x in inputs):
            return None
        numbers = self._engine.run_at(inputs)
        end = self._engine.program.outputs
        failed = np.flatnonzero(numbers[self._count : end].view(np.int32) != self._expected)
        if len(failed):
            return int(failed[0])
        results = [
            plain_result(kind(number), in_python=in_python)
            for kind, number, in_python in zip(self._kinds, numbers[: self._count], self._in_python, strict=True)
        ]
        if self._gradient:
            return (results[0], *numbers[end:])
        return results[0] if len(results) == 1 else results


class _TypedBuiltin:
    """A builtin some of whose results are conditions rather than floats."""

    def __init__(self, made: Callable[..., Any], kinds: list[Any]) -> None:
        self._made = made
        self._kinds = kinds

    def __call__(self, *inputs: object) -> Any:
        """Return the results, or the only one, in their own types."""
        results = self._made(*inputs)
        if type(results) is float:
            return self._kinds[0](results)
        if type(results) is not tuple:
            return results
        return [kind(number) for kind, number in zip(self._kinds, results, strict=True)]


def _find_result_types(circuit: CircuitGraph, recording: CertifiedRecording, *, gradient: bool) -> list[Any] | None:
    """Return the type that each result and gradient is converted to; None if all are plain floats."""
    results = circuit.columns.outputs.tolist()[: len(recording.moving)]
    inputs = circuit.input_indices() if gradient else []
    kinds = [circuit.type_of(node).dtype.type for node in (*results, *inputs)]
    if all(kind is np.float64 for kind in kinds):
        return None
    python: dict[Any, Any] = {np.float64: float, np.bool_: bool}
    numpy: dict[Any, Any] = {np.float64: float}
    in_python = [*recording.in_python, *(True for _ in inputs)]
    return [(python if flag else numpy).get(kind, kind) for kind, flag in zip(kinds, in_python, strict=True)]


class ArrayReplay:
    """A replay in native code, for circuits on arrays."""

    tier = "arrays"

    def __init__(self, recording: CertifiedRecording, *, gradient_by: Sequence[tuple[int, int]] | None = None) -> None:
        """Compile the results; with `gradient_by`, if possible, their gradient, and the results when they are used."""
        self._recording = recording
        self._count = len(recording.moving)
        self._bits = [_to_bytes(value) for value in recording.expected]
        self._values: array_program.StreamProgram | InterpreterReplay | None = None
        self._pulled: dict[frozenset[int] | None, Any] = {}
        self._wanted: frozenset[int] | None = None
        self._row_count = 0
        """The number of points of batches so far."""
        self._groups: dict[Any, PointGroups | None] = {}
        """The programs for groups of points, by the wanted inputs and those that all points share."""
        program = None
        if gradient_by is not None:
            self.limit_gradient(gradient_by)
            pulled = self._pulled[self._wanted] = self._compile_gradient(self._wanted)
            program = None if isinstance(pulled, InterpreterReplay) else pulled.program
        if program is None:
            self._values = program = self._compile_values()
        names = ", ".join(name for name, _ in program.facts.interpreted)
        self.reason = f"the interpreter computes {names}" if names else ""

    def _compile_values(self) -> array_program.StreamProgram:
        assert self._recording.circuit is not None
        return array_program.compile_array_circuit(drop_gradient_stops(self._recording.circuit))

    def _find_values(self) -> array_program.StreamProgram | InterpreterReplay:
        """Return the program for the results; it is compiled now if the gradient was compiled first."""
        if self._values is None:
            try:
                self._values = self._compile_values()
            except NotNativeError as error:
                self._values = InterpreterReplay(self._recording, str(error))
        return self._values

    def limit_gradient(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Say by which inputs gradients are read from now on; the others become None, and are not computed."""
        self._wanted = frozenset(k for start, stop in ranges for k in range(start, stop))

    def compute_first(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results, from the code that was compiled first; the number of a gradient is followed by it."""
        return self.compute_gradient(inputs) if self._values is None else self.compute_results(inputs)

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results."""
        program = self._find_values()
        if isinstance(program, InterpreterReplay):
            return program.compute_results(inputs)
        try:
            values = program.run(inputs)
        except Exception:
            # The function itself is called instead: it raises a proper error, or handles this one.
            return Flip(None)
        flip = self._find_flip(values[self._count :])
        if flip is not None:
            return flip
        pairs = zip(values[: self._count], self._recording.in_python, strict=True)
        return [plain_result(value, in_python=in_python) for value, in_python in pairs]

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the first result, followed by its gradient by every input; None for inputs that are not wanted."""
        wanted = self._wanted
        program = self._find_gradient()
        if isinstance(program, InterpreterReplay):
            return program.compute_gradient(inputs)
        try:
            value, grads, checks = program.run(inputs)
        except Exception:
            return Flip(None)
        flip = self._find_flip(checks)
        if flip is not None:
            return flip
        likes = [float(x) if type(x) is np.float64 else x for x in inputs]
        settled = [
            settle_gradient(grad, x) if wanted is None or k in wanted else None
            for k, (grad, x) in enumerate(zip(grads, likes, strict=True))
        ]
        return [plain_result(value), *settled]

    def _find_gradient(self) -> Any:
        """Return the program for the gradient by the wanted inputs, which is compiled when it is asked for."""
        if self._wanted not in self._pulled:
            self._pulled[self._wanted] = self._compile_gradient(self._wanted)
        return self._pulled[self._wanted]

    def make_replay(self, *, gradient: bool) -> Callable[..., Any] | None:
        """Return a function from arrays and floats, exactly as they were recorded, to a tuple; None if there is none.

        The tuple has the results, or the first one and its gradient by the wanted inputs in their order. For other
        arguments the function returns None, and where a check fails its number.
        """
        try:
            if not gradient:
                values = self._find_values()
                return None if isinstance(values, InterpreterReplay) else values.make_replay(self._recording.expected)
            program = self._find_gradient()
            if not isinstance(program, array_program.GradientProgram) or self._wanted is None:
                return None
            if not program.has_gradients_like_inputs(self._wanted):
                return None
            replay: Callable[..., Any] = program.make_replay(self._recording.expected)
            return replay
        except NotNativeError:
            return None

    def run_rows(
        self,
        points: PointColumns,
        rows: NDArray[np.intp] | None,
        threads: int | None = None,
        workers: RowWorkers | None = None,
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all; return the indices of those where a check fails.

        The program runs once for each point in this thread, or, when there were many, on groups of points.
        """
        chosen = np.arange(points.size) if rows is None else rows
        self._row_count += len(chosen)
        groups = self.find_groups(points) if self._row_count >= MIN_GROUPED_ROWS else None
        failed = []
        size = len(chosen) if groups is None else groups.size
        for first in range(0, len(chosen), size):
            part = chosen[first : first + size]
            found = None if groups is None else groups.run(points, part)
            failed.append(first + (self._run_each(points, part) if found is None else found))
        return np.concatenate(failed) if failed else np.empty(0, np.intp)

    def _run_each(self, points: PointColumns, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Run the program once for each of these points; return the indices of those where a check fails."""
        run_row = self._make_row_runner(None if points.grads is None else points.wanted)
        # The gradients are in the order of the inputs.
        order = sorted(range(len(points.wanted)), key=points.wanted.__getitem__)
        targets = [*points.values, *[points.grads[k] for k in order]] if points.grads is not None else points.values
        failures = []
        arguments = [_iterate_rows(column, rows) for column in points.inputs]
        # The points come first: arguments that are the same for all have no end.
        for (number, row), results in zip(enumerate(rows.tolist()), map(run_row, *arguments), strict=False):
            if type(results) is not tuple:
                failures.append(number)
                continue
            for target, result in zip(targets, results, strict=True):
                target[row] = result
        return np.array(failures, np.intp)

    def find_groups(self, points: PointColumns) -> PointGroups | None:
        """Return the program for groups of points; None if there is none."""
        wanted = None if points.grads is None else points.wanted
        shared = tuple([k for k, column in enumerate(points.inputs) if is_shared(column)])
        key = (wanted, shared)
        if key not in self._groups:
            try:
                self._groups[key] = self._compile_groups(wanted, shared)
            except WiregradError:
                # An op runs on one point alone, or native code on all points at once computes nothing.
                self._groups[key] = None
        return self._groups[key]

    def _compile_groups(self, wanted: Sequence[int] | None, shared: tuple[int, ...]) -> PointGroups | None:
        circuit = self._recording.circuit
        assert circuit is not None
        if wanted is None:
            results: list[int | None] = [*range(self._count)]
            return PointGroups(drop_gradient_stops(circuit), shared, results, self._bits)
        self.limit_gradient([(k, k + 1) for k in wanted])
        gradient = self._find_gradient()
        if isinstance(gradient, InterpreterReplay) or gradient.arrays is circuit:
            return None
        present = [k for k, is_present in enumerate(gradient.is_present) if is_present]
        results = [0, *[1 + present.index(k) if k in present else None for k in wanted]]
        return PointGroups(gradient.arrays, shared, results, self._bits)

    def prepare_rows(self, varies: Sequence[bool], wanted: tuple[int, ...] | None) -> batch.RepeatedColumns | None:
        """Return None: rows are read by Python."""
        return None

    def _make_row_runner(self, wanted: Sequence[int] | None) -> Callable[..., Any]:
        """Return a function from inputs to a tuple of results, or of the result and its gradient by the wanted inputs.

        It returns something else where a check fails.
        """
        if wanted is not None:
            self.limit_gradient([(k, k + 1) for k in wanted])
        replay = self.make_replay(gradient=wanted is not None)
        if replay is not None:
            return replay

        def run_row(*inputs: Any) -> Any:
            results = self.compute_results(inputs) if wanted is None else self.compute_gradient(inputs)
            if isinstance(results, Flip):
                return results
            return tuple(results if wanted is None else [results[0], *[results[k + 1] for k in sorted(wanted)]])

        return run_row

    def _find_flip(self, checks: Sequence[Any]) -> Flip | None:
        pairs = enumerate(zip(checks, self._bits, strict=True))
        check = next((k for k, (value, bits) in pairs if _to_bytes(value) != bits), None)
        return None if check is None else Flip(check)

    def _compile_gradient(self, wanted: frozenset[int] | None) -> Any:
        circuit = self._recording.circuit
        assert circuit is not None
        try:
            checks = circuit.columns.outputs.tolist()[self._count :]
            return array_program.GradientProgram(circuit, checks, wanted=wanted)
        except NotNativeError as error:
            return InterpreterReplay(self._recording, str(error))


def is_shared(column: NDArray[np.float64]) -> bool:
    """Return whether an input is the same at all points."""
    return not column.ndim or (column.ndim > 1 and not column.strides[0])


def _iterate_rows(column: NDArray[np.float64], rows: NDArray[np.intp]) -> Iterable[Any]:
    """Return what calls at some points get of an input."""
    if is_shared(column):
        return repeat(np.array(column[0]) if column.ndim else column.item())
    chosen = take_rows(column, rows)
    return chosen.tolist() if column.ndim == 1 else chosen


def take_rows(column: NDArray[np.float64], rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return a column at different points in ascending order: a view where they follow each other.

    >>> numbers = np.arange(9.0)
    >>> [take_rows(numbers, np.array(rows)).base is numbers for rows in ([3, 4, 5], [3, 5])]
    [True, False]
    """
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return column[rows[0] : rows[-1] + 1]
    return column[rows]


MIN_GROUPED_ROWS = 5_000
"""A program for groups of points is compiled after so many points: until then, single ones take about as long."""
MAX_GROUP_SIZE = 256
"""Maximum number of points in a group."""
MAX_GROUP_ELEMENTS = 32_768
"""Approximate maximum number of elements of an array that holds a group, so that several stay in the cache."""


class PointGroups:
    """A circuit on arrays as a program that computes a group of points at once.

    All groups have one size: the last point fills up those that are smaller. So a point's results do not depend on the
    others.
    """

    def __init__(
        self, circuit: CircuitGraph, shared: Sequence[int], results: Sequence[int | None], expected: Sequence[bytes]
    ) -> None:
        """Compile a program whose last outputs are checks.

        `results` are the numbers of the outputs that are written; None for one that is 0.
        """
        largest = max(prod(kind.shape) for kind in circuit.columns.list_used_types())
        self.size = max(1, min(MAX_GROUP_SIZE, MAX_GROUP_ELEMENTS // max(largest, 1)))
        self._program = array_program.compile_array_circuit(batching.batch_circuit(circuit, self.size, shared))
        self._shared = frozenset(shared)
        self._results = results
        self._expected = [np.frombuffer(bits, np.uint8) for bits in expected]

    def run(self, points: PointColumns, rows: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """Write the results at the points of a group; return the indices of those where a check fails.

        None if an op refuses one of the points.
        """
        count = len(rows)
        arguments = [
            (column[0] if column.ndim else column) if k in self._shared else self._fill_up(take_rows(column, rows))
            for k, column in enumerate(points.inputs)
        ]
        try:
            outputs = self._program.run(arguments)
        except Exception:
            return None
        for target, number in zip((*points.values, *(points.grads or ())), self._results, strict=True):
            target[rows] = 0.0 if number is None else outputs[number][:count]
        first = len(outputs) - len(self._expected)
        fails = np.zeros(count, np.bool_)
        for output, bits in zip(outputs[first:], self._expected, strict=True):
            found = output[:count].reshape(count, prod(output.shape[1:])).view(np.uint8)
            fails |= (found != bits).any(axis=1)
        return np.flatnonzero(fails)

    def _fill_up(self, part: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an input of a group, with its last point repeated if there are too few."""
        missing = self.size - len(part)
        return np.concatenate([part, np.repeat(part[-1:], missing, 0)]) if missing else part


MAX_EXPANDED_ANYWAY = 2_000
"""Up to this many scalar nodes a circuit on arrays is expanded: a call of an array program costs as much."""
MAX_EXPANDED_SHARE = 8
"""Scalar nodes per node on arrays up to which expanding pays; one instruction on an array costs as much."""
MAX_EXPANDED_NODES = 4_000_000
MIN_WIDE_NUMBERS = 64
"""Where nodes have more numbers than this on average, large batches are faster as arrays: a column is read in steps."""


class ExpandedReplay:
    """A replay in machine code for circuits on small arrays: each number is a node of its own."""

    reason = ""

    def __init__(self, recording: CertifiedRecording, *, gradient_first: bool = False) -> None:
        circuit = recording.circuit
        assert circuit is not None
        self._input_shapes = [circuit.type_of(node).shape for node in circuit.input_indices()]
        results = circuit.columns.outputs.tolist()[: len(recording.moving)]
        self._result_shapes = [circuit.type_of(node).shape for node in results]
        expanded = _expand_recording(recording, self._result_shapes)
        self._inner = NativeReplay(expanded, gradient_first=gradient_first)
        self.tier = self._inner.tier
        assert expanded.circuit is not None
        self._is_wide = expanded.circuit.size > MIN_WIDE_NUMBERS * circuit.size
        self._recording = recording
        self._arrays: ArrayReplay | None = None
        """Runs batches of rows of many numbers; None as long as there was none."""

    def compute_first(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results, from the code that was compiled first; the number of a gradient is followed by it."""
        answer = self._inner.compute_first(_flatten_numbers(inputs))
        return answer if isinstance(answer, Flip) else _group_numbers(answer, self._result_shapes)

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the results."""
        results = self._inner.compute_results(_flatten_numbers(inputs))
        return results if isinstance(results, Flip) else _group_numbers(results, self._result_shapes)

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return the first result, followed by its gradient by every input."""
        numbers = self._inner.compute_gradient(_flatten_numbers(inputs))
        if isinstance(numbers, Flip):
            return numbers
        return [numbers[0], *_group_numbers(numbers[1:], self._input_shapes)]

    def run_rows(
        self,
        points: PointColumns,
        rows: NDArray[np.intp] | None,
        threads: int | None = None,
        workers: RowWorkers | None = None,
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all, as `RowReplay` does: each number of an array is a column.

        Large batches of rows of many numbers run as arrays.
        """
        count = points.size if rows is None else len(rows)
        if self._is_wide and workers is None and points.device == "cpu" and count >= MIN_GROUPED_ROWS:
            with suppress(NotNativeError):
                self._arrays = self._arrays or ArrayReplay(self._recording)
                if self._arrays.find_groups(points) is not None:
                    return self._arrays.run_rows(points, rows)
        ends = list(accumulate(map(prod, self._input_shapes), initial=0))
        numbers = points._replace(
            inputs=[part for column in points.inputs for part in split_columns(column)],
            values=[part for column in points.values for part in split_columns(column)],
            grads=points.grads and [part for column in points.grads for part in split_columns(column)],
            wanted=tuple([number for k in points.wanted for number in range(ends[k], ends[k + 1])]),
        )
        # Workers count the points of what differs by point; arrays without numbers have nothing of the kind.
        has_columns = any(column.ndim for column in numbers.inputs)
        return self._inner.run_rows(numbers, rows, threads, workers if has_columns else None)

    def prepare_rows(self, varies: Sequence[bool], wanted: tuple[int, ...] | None) -> batch.RepeatedColumns | None:
        """Return batches in which these inputs vary, as `RowReplay` does; None if inputs or results are arrays."""
        has_arrays = any(self._input_shapes) or any(self._result_shapes)
        return None if has_arrays else self._inner.prepare_rows(varies, wanted)

    def list_result_shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the results that are outputs of the circuit."""
        return list(self._result_shapes)

    def make_program(self, *, gradient: bool, results: tuple[Any, ...] | None = None) -> Any:
        """Return the code as the extension module runs it; None if there is none, or if it is not compiled yet."""
        return self._inner.make_program(gradient=gradient, results=results)


def _flatten_numbers(inputs: Sequence[Any]) -> list[float]:
    numbers: list[float] = []
    for x in inputs:
        if type(x) is np.ndarray:
            numbers += x.ravel().tolist()
        else:
            numbers.append(float(x))
    return numbers


def _group_numbers(numbers: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return numbers as scalars and arrays of these shapes."""
    grouped: list[Any] = []
    start = 0
    for shape in shapes:
        stop = start + prod(shape)
        grouped.append(np.array(numbers[start:stop]).reshape(shape) if shape else numbers[start])
        start = stop
    return grouped


def _expand_recording(recording: CertifiedRecording, shapes: Sequence[tuple[int, ...]]) -> CertifiedRecording:
    """Return a recording with one node per number; raises if there is none, or if it would not pay."""
    circuit = recording.circuit
    assert circuit is not None
    if any(kind.dtype == np.float32 for kind in circuit.columns.list_used_types()):
        raise NotNativeError("its arrays of float32 are not expanded")
    if not is_worth_expanding(circuit):
        raise NotNativeError("its arrays are too large to be expanded")
    try:
        expanded = expand_unnamed(circuit)
    except WiregradError as error:
        raise NotNativeError(str(error)) from None
    in_python = [flag for flag, shape in zip(recording.in_python, shapes, strict=True) for _ in range(prod(shape))]
    expected = [number for value in recording.expected for number in np.ravel(value)]
    if len(expanded.outputs) != len(in_python) + len(expected):
        raise NotNativeError("an output of the expanded circuit is missing")
    return recording._replace(
        circuit=expanded,
        moving=tuple(range(len(in_python))),
        in_python=tuple(in_python),
        expected=tuple(expected),
    )


def is_worth_expanding(circuit: CircuitGraph) -> bool:
    """Return whether a circuit on arrays is faster with one node per number, by an estimate of their number.

    >>> from wiregrad.ir import parse_text
    >>> is_worth_expanding(parse_text("input x: float64[3]\\ny = exp x\\noutput y"))
    True
    >>> is_worth_expanding(parse_text("input x: float64[3000]\\ny = exp x\\noutput y"))
    False
    """
    columns = circuit.columns
    sizes = np.array([prod(kind.shape) for kind in columns.type_table], np.int64)[columns.types]
    # A sum has a node per number that it adds; a product has as many for each of its rows.
    largest = sizes.copy()
    readers = np.repeat(np.arange(circuit.size), np.diff(columns.starts))
    np.maximum.at(largest, readers, sizes[columns.sources])
    by_element = np.array([isinstance(op, Elementwise) for op in TABLE.by_code()])[columns.codes]
    most = int(np.where(by_element, sizes, largest).sum())
    return most <= min(MAX_EXPANDED_NODES, max(MAX_EXPANDED_ANYWAY, MAX_EXPANDED_SHARE * len(circuit)))


class ConstantReplay:
    """The replay of a recording in which nothing depends on the inputs."""

    tier = "constant"
    reason = ""

    def compute_results(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return no results: all of them are constants."""
        return ()

    def compute_gradient(self, inputs: Sequence[Any]) -> Sequence[Any] | Flip:
        """Return nothing: there is no result to differentiate."""
        return Flip(None)


def make_replay(
    recording: CertifiedRecording,
    *,
    numpy_numbers: bool = False,
    gradient_by: Sequence[tuple[int, int]] | None = None,
) -> RecordingReplay | None:
    """Return the fastest replay of a recording; None if a replay does not reproduce the recorded results.

    With `numpy_numbers` the inputs may be np.float64 as well as float. With `gradient_by`, the gradient of the only
    result by these ranges of inputs is asked for first.
    """
    if recording.circuit is None:
        return ConstantReplay()
    inputs = [plain_result(x) for x in recording.inputs]
    interpreted = InterpreterReplay(recording, "")
    scalar: ExpandedReplay | NativeReplay | None = None
    try:
        scalar = _compile_scalars(recording, numpy_numbers=numpy_numbers, gradient_first=gradient_by is not None)
    except NotNativeError as error:
        interpreted.reason = str(error)
    answer = None if scalar is None else scalar.compute_first(inputs)
    # Native code that returns the recorded bits shows what the interpreter would, in a fraction of the time.
    if not _reproduces(answer, recording) and not _reproduces(interpreted.compute_results(inputs), recording):
        return None
    if interpreted.reason:
        return interpreted
    if scalar is not None and not isinstance(answer, Flip):
        return scalar
    return _compile_arrays(recording, inputs, interpreted, gradient_by)


def _compile_scalars(
    recording: CertifiedRecording, *, numpy_numbers: bool, gradient_first: bool
) -> ExpandedReplay | NativeReplay | None:
    """Return a replay in which each number is a node; None for arrays where that is not possible or does not pay."""
    assert recording.circuit is not None
    if not recording.circuit.columns.has_arrays():
        return NativeReplay(recording, numpy_numbers=numpy_numbers, gradient_first=gradient_first)
    try:
        return ExpandedReplay(recording, gradient_first=gradient_first)
    except NotNativeError:
        return None


def _compile_arrays(
    recording: CertifiedRecording,
    inputs: Sequence[Any],
    interpreted: InterpreterReplay,
    gradient_by: Sequence[tuple[int, int]] | None,
) -> RecordingReplay:
    """Return a replay in native code on arrays, or the interpreter's, with the reason why there is no other."""
    assert recording.circuit is not None
    try:
        has_arrays = recording.circuit.columns.has_arrays()
        native = ArrayReplay(recording, gradient_by=gradient_by) if has_arrays else None
    except NotNativeError as error:
        interpreted.reason = str(error)
        return interpreted
    if native is None or isinstance(native.compute_first(inputs), Flip):
        interpreted.reason = "a branch depends on the last bit of a function that native code rounds differently"
        return interpreted
    return native


ROUNDING_SHARE = 4096
"""By how many roundings, of the largest number, results on arrays may differ from those of the recorded call."""


def _reproduces(answer: Sequence[Any] | Flip | None, recording: CertifiedRecording) -> bool:
    """Return whether a replay at the recorded inputs gives the results of the recorded call; it may be a gradient.

    Numbers have the same bits. How NumPy rounds sums and products of arrays depends on their layout in memory, which a
    recording does not keep: a constant that is a transposed view is a copy there.
    """
    if answer is None or isinstance(answer, Flip):
        return False
    assert recording.circuit is not None
    has_arrays = recording.circuit.columns.has_arrays()
    wanted = [recording.results[k] for k in recording.moving]
    pairs = [(np.asarray(one), np.asarray(two)) for one, two in zip(answer, wanted, strict=False)]
    return all(_have_same_bits(one, two) or (has_arrays and _differ_by_rounding(one, two)) for one, two in pairs)


def _have_same_bits(one: NDArray[Any], two: NDArray[Any]) -> bool:
    return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()


def _differ_by_rounding(one: NDArray[Any], two: NDArray[Any]) -> bool:
    if one.dtype != two.dtype or one.shape != two.shape or one.dtype.kind not in "fc":
        return False
    finite = np.abs(two[np.isfinite(two)])
    bound = ROUNDING_SHARE * np.finfo(one.dtype).eps * np.max(finite, initial=0.0)
    return bool(np.allclose(one, two, rtol=0.0, atol=float(bound), equal_nan=True))
