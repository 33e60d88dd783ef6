"""The entrants that need no other framework: wiregrad's tiers, the interpreter, plain Python, C and LLVM.

Where the work is native, the loop over runs is native too, so that calls from Python are measured only where they are
the subject. Compilers run as users run them, in a temporary folder that is removed when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Circuit
from wiregrad.backends.native import batch, jit, tiers
from wiregrad.backends.native.tiers import NativeProgram, build_program
from wiregrad.backends.run_listings import (
    ListingError,
    ListingTool,
    compile_files,
    find_c_compiler,
    load_listing_function,
)
from wiregrad.backends.run_listings import RunnableListing as Text
from wiregrad.cli.bench.race import EntrantMissingError, FloatArray, RaceEntrant, RaceTask
from wiregrad.cli.bench.straight_line import write_c_batch, write_llvm_loop, write_repeat_loop
from wiregrad.cli.bench.workloads import Workload
from wiregrad.errors import NotNativeError

WIREGRAD_NAME = "wiregrad"
LLVM_TIER_NAME = "wiregrad, LLVM tier"
TWO_THREADS_NAME = "wiregrad, 2 threads"
FLAT_C_NAME = "flat C, gcc -O3"
LLVM_NAME = "LLVM -O2, whole circuit"
SIMD_C_NAME = "C in vectors, gcc -O3 -ffast-math"
SIMD_TWO_THREADS_NAME = "C in vectors, 2 threads"
INTERPRETER_NAME = "wiregrad, interpreter"
PYTHON_NAME = "Python listing"
FLAT_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fPIC")
SIMD_FLAGS = (
    *("-O3", "-march=native", "-fopenmp-simd", "-ffast-math", "-mprefer-vector-width=512", "-fPIC"),
    # Without these, gcc 12 moves calls of exp and tanh into branches and joins sin with cos, and does not vectorize.
    *("-fno-tree-sink", "-fno-builtin-sin", "-fno-builtin-cos"),
)
MAX_COMPILER_SECONDS = 900.0
"""Maximum time of a compiler, in seconds."""
C_LOOP = """
double value_and_grad(const double *x, double *grad);
void loop(long n, const double *x, double *y) {
    for (long k = 0; k < n; k++) y[0] = value_and_grad(x, y + 1);
}
"""


def allocate_answers(points: FloatArray) -> FloatArray:
    """Allocate an array for a value and a gradient per point."""
    return np.zeros((len(points), 1 + points.shape[1]))


def prepare_interpreter(workload: Workload, points: FloatArray) -> RaceTask:
    """Run the interpreter at each point."""
    results = allocate_answers(points)

    def run_many(times: int) -> None:
        for _ in range(times):
            for row, point in enumerate(points):
                run = workload.circuit.run(point)
                results[row] = [run.values[workload.circuit.root()], *run.grads.values()]

    return RaceTask(run_many, lambda: results)


def prepare_python(workload: Workload, points: FloatArray) -> RaceTask:
    """Run the generated plain Python code at each point."""
    circuit = workload.circuit
    call = load_listing_function(Text(circuit.to_python(), "value_and_grad", circuit.inputs, circuit.outputs))
    rows = points.tolist()
    last: list[tuple[float, dict[str, float]]] = []

    def run_many(times: int) -> None:
        for _ in range(times):
            last[:] = [call(*row) for row in rows]

    return RaceTask(run_many, lambda: np.array([[value, *grads.values()] for value, grads in last]))


def prepare_stencils(workload: Workload, points: FloatArray) -> RaceTask:
    """Run wiregrad's native code at one point, in a native loop that copies inputs in and results out."""
    return _loop_program(_build_native(workload), points)


def prepare_llvm_tier(workload: Workload, points: FloatArray) -> RaceTask:
    """Run the same program after wiregrad's LLVM tier has compiled it as a whole."""
    return _loop_program(tiers.recompile_with_llvm(_build_native(workload)), points)


def _loop_program(program: NativeProgram, points: FloatArray) -> RaceTask:
    buffer = program.initial.copy()
    point = np.ascontiguousarray(points[0])
    results = allocate_answers(points)
    call = _compile_code_loop(program.inputs, program.outputs)

    def run_many(times: int) -> None:
        call(times, program.entry, buffer.ctypes.data, point.ctypes.data, results.ctypes.data)

    return RaceTask(run_many, lambda: results)


@cache
def _compile_code_loop(inputs: int, outputs: int) -> Callable[..., None]:
    """Return a native loop that runs a program repeatedly and copies its inputs and results each time."""
    arguments = "ptr %code, ptr %w, ptr %x, ptr %y"
    text = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @once({arguments}) alwaysinline {{
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %x, i64 {8 * inputs}, i1 false)
  {jit.ENTER_CALL}
  %from = getelementptr double, ptr %w, i64 {inputs}
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %from, i64 {8 * (inputs + outputs)}, i1 false)
  ret void
}}
{write_repeat_loop("once", arguments)}
"""
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 4)(jit.compile_functions(text, "loop")[0])


@lru_cache(maxsize=4)
def _build_native(workload: Workload, lanes: int = 1) -> NativeProgram:
    try:
        return build_program(workload.circuit, 0, lanes=lanes)
    except NotNativeError as error:
        raise EntrantMissingError(str(error)) from None


def make_batch_entrant(threads: int) -> Callable[[Workload, FloatArray], RaceTask]:
    """Return the entrant that runs wiregrad's vector code on a batch."""

    def prepare_vectors(workload: Workload, points: FloatArray) -> RaceTask:
        program = _build_native(workload, _vector_lanes())
        last: list[NDArray[np.floating] | None] = []

        def run_many(times: int) -> None:
            for _ in range(times):
                last[:] = batch.run_batch(program, points, gradient=True, threads=threads)

        return RaceTask(run_many, lambda: np.column_stack([np.asarray(part, np.float64) for part in last]))

    return prepare_vectors


def _vector_lanes() -> int:
    try:
        return batch.count_lanes(np.dtype(np.float64))
    except NotNativeError as error:
        raise EntrantMissingError(str(error)) from None


def prepare_compile(workload: Workload, points: FloatArray) -> RaceTask:
    """Compile with wiregrad, each time a new circuit object, so that nothing is cached."""
    _build_native(workload)
    last: list[NativeProgram] = []

    def compile_many(times: int) -> None:
        for _ in range(times):
            last[:] = [build_program(Circuit(workload.circuit.columns), 0)]

    def run_compiled() -> FloatArray:
        task = _loop_program(last[0], points)
        task.run(1)
        return task.answer()

    return RaceTask(compile_many, run_compiled)


def prepare_call(workload: Workload, points: FloatArray) -> RaceTask:
    """Call `compiled.value_and_grad` from Python."""
    call = workload.circuit.compile().value_and_grad
    point = points[0].copy()
    last: list[FloatArray] = []

    def call_many(times: int) -> None:
        for _ in range(times):
            value_and_gradient = call(point)
        last[:] = value_and_gradient

    return RaceTask(call_many, lambda: np.array([[last[0], *last[1]]]))


def prepare_flat_c(workload: Workload, points: FloatArray) -> RaceTask:
    """Run the generated C code at one point."""
    folder = _compile_flat_c(workload)
    compiler = _find_compiler()
    _run_compiler(compiler, folder, {"loop.c": C_LOOP}, ["-O3", "-shared", "-fPIC", "-o", "flat.so", "flat.o"])
    return _make_c_task(ctypes.CDLL(str(folder / "flat.so")).loop, points)


@lru_cache(maxsize=4)
def _compile_flat_c(workload: Workload) -> Path:
    folder = make_scratch_folder()
    _run_compiler(_find_compiler(), folder, {"flat.c": workload.circuit.to_c()}, [*FLAT_FLAGS, "-c", "-o", "flat.o"])
    return folder


def prepare_c_compile(workload: Workload, points: FloatArray) -> RaceTask:
    """Compile the generated C code with gcc."""
    compiler = _find_compiler()
    text = workload.circuit.to_c()
    folder = make_scratch_folder()

    def compile_many(times: int) -> None:
        for _ in range(times):
            _run_compiler(compiler, folder, {"flat.c": text}, [*FLAT_FLAGS, "-c", "-o", "flat.o"])

    def run_compiled() -> FloatArray:
        _run_compiler(compiler, folder, {"loop.c": C_LOOP}, ["-O3", "-shared", "-fPIC", "-o", "flat.so", "flat.o"])
        task = _make_c_task(ctypes.CDLL(str(folder / "flat.so")).loop, points)
        task.run(1)
        return task.answer()

    return RaceTask(compile_many, run_compiled)


def make_simd_c_entrant(threads: int) -> Callable[[Workload, FloatArray], RaceTask]:
    """Return the entrant that runs vectorized C on a batch that is stored in columns, the layout that suits C.

    Each thread has a part of the batch: the speed-up shows what the machine gives two threads at the time.
    """

    def prepare_simd(workload: Workload, points: FloatArray) -> RaceTask:
        library = _load_simd_library(workload)
        parts = [np.ascontiguousarray(part.T) for part in np.array_split(points, threads)]
        results = [np.zeros((1 + points.shape[1], part.shape[1])) for part in parts]

        def run_part(k: int) -> None:
            library.batch(ctypes.c_long(parts[k].shape[1]), *map(_address_of, (parts[k], results[k], results[k][1:])))

        def run_many(times: int) -> None:
            for _ in range(times):
                helpers = [_thread_pool().submit(run_part, k) for k in range(1, threads)]
                run_part(0)
                for helper in helpers:
                    helper.result()

        return RaceTask(run_many, lambda: np.concatenate([result.T for result in results]))

    return prepare_simd


@cache
def _thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@lru_cache(maxsize=4)
def _load_simd_library(workload: Workload) -> ctypes.CDLL:
    folder = make_scratch_folder()
    _run_compiler(
        _find_compiler(), folder, {"simd.c": write_c_batch(workload.circuit)}, [*SIMD_FLAGS, "-c", "-o", "simd.o"]
    )
    # Linked without -ffast-math, because such a library flushes subnormals to zero in the whole process.
    _run_compiler(_find_compiler(), folder, {}, ["-shared", "-o", "simd.so", "simd.o"])
    return ctypes.CDLL(str(folder / "simd.so"))


def prepare_llvm(workload: Workload, points: FloatArray) -> RaceTask:
    """Run the whole circuit, compiled by LLVM as one function, at one point."""
    return _make_c_task(_llvm_function(_compile_llvm_loop(workload)), points)


def prepare_llvm_compile(workload: Workload, points: FloatArray) -> RaceTask:
    """Compile the whole circuit with LLVM at level 2."""
    text = _write_llvm_text(workload)
    last: list[int] = []

    def compile_many(times: int) -> None:
        for _ in range(times):
            last[:] = jit.compile_functions(text, "loop")

    def run_compiled() -> FloatArray:
        task = _make_c_task(_llvm_function(last[0]), points)
        task.run(1)
        return task.answer()

    return RaceTask(compile_many, run_compiled)


@lru_cache(maxsize=4)
def _compile_llvm_loop(workload: Workload) -> int:
    return jit.compile_functions(_write_llvm_text(workload), "loop")[0]


def _write_llvm_text(workload: Workload) -> str:
    try:
        jit.load_llvm()
    except NotNativeError as error:
        raise EntrantMissingError(str(error)) from None
    return write_llvm_loop(workload.circuit, lambda name: jit.find_math_address(name, "double"))


def _llvm_function(address: int) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(address)


def _make_c_task(loop: Callable[..., object], points: FloatArray) -> RaceTask:
    point = np.ascontiguousarray(points[0])
    results = allocate_answers(points)

    def run_many(times: int) -> None:
        loop(ctypes.c_long(times), _address_of(point), _address_of(results))

    return RaceTask(run_many, lambda: results)


def _address_of(array: FloatArray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _find_compiler() -> ListingTool:
    compiler = find_c_compiler()
    if compiler is None:
        raise EntrantMissingError("there is no C compiler here")
    return compiler


def _run_compiler(tool: ListingTool, folder: Path, sources: dict[str, str], flags: list[str]) -> None:
    try:
        compile_files(tool, folder, sources, flags, ["-lm"], timeout=MAX_COMPILER_SECONDS)
    except ListingError as error:
        raise EntrantMissingError(str(error).splitlines()[0]) from None


def make_scratch_folder() -> Path:
    """Make a temporary folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="wiregrad-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


SLOW_COMPILER = "the compiler takes minutes"
SLOW_RUN = "takes seconds for each run"
COMPILE_ENTRANTS = (
    RaceEntrant(WIREGRAD_NAME, prepare_compile),
    RaceEntrant(FLAT_C_NAME, prepare_c_compile, 20_000, SLOW_COMPILER),
    RaceEntrant(LLVM_NAME, prepare_llvm_compile, 20_000, SLOW_COMPILER),
)
POINT_ENTRANTS = (
    RaceEntrant(WIREGRAD_NAME, prepare_stencils),
    RaceEntrant(LLVM_TIER_NAME, prepare_llvm_tier, 20_000, "it is for small circuits"),
    RaceEntrant(FLAT_C_NAME, prepare_flat_c, 20_000, SLOW_COMPILER),
    RaceEntrant(LLVM_NAME, prepare_llvm, 20_000, SLOW_COMPILER),
    RaceEntrant(PYTHON_NAME, prepare_python, 20_000, SLOW_RUN),
    RaceEntrant(INTERPRETER_NAME, prepare_interpreter, 20_000, SLOW_RUN),
)
BATCH_ENTRANTS = (
    RaceEntrant(WIREGRAD_NAME, make_batch_entrant(1)),
    RaceEntrant(TWO_THREADS_NAME, make_batch_entrant(2)),
    RaceEntrant(SIMD_C_NAME, make_simd_c_entrant(1)),
    RaceEntrant(SIMD_TWO_THREADS_NAME, make_simd_c_entrant(2)),
)
CALL_ENTRANTS = (
    RaceEntrant(WIREGRAD_NAME, prepare_call),
    RaceEntrant(PYTHON_NAME, prepare_python),
    RaceEntrant(INTERPRETER_NAME, prepare_interpreter),
)
"""The entrants of each race."""
