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
from typing import Any

import numpy as np

from wiregrad.api import Circuit
from wiregrad.backends.listings import ListingError, Tool, c_compiler, compile_files, defined
from wiregrad.backends.listings import Program as Text
from wiregrad.backends.native import batch, machine, tiers
from wiregrad.backends.native.program import Program, build
from wiregrad.errors import NotNativeError
from wiregrad.testing.bench.race import Entrant, MissingError, Numbers, Task
from wiregrad.testing.bench.tape import c_batch, llvm_loop, repeated
from wiregrad.testing.bench.workloads import Workload

STENCILS = "wiregrad"
LLVM_TIER = "wiregrad, LLVM tier"
TWO = "wiregrad, 2 threads"
FLAT = "flat C, gcc -O3"
WHOLE = "LLVM -O2, whole circuit"
SIMD = "C in vectors, gcc -O3 -ffast-math"
SIMD_TWO = "C in vectors, 2 threads"
INTERPRETER = "wiregrad, interpreter"
PYTHON = "Python listing"
FLAT_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fPIC")
SIMD_FLAGS = (
    *("-O3", "-march=native", "-fopenmp-simd", "-ffast-math", "-mprefer-vector-width=512", "-fPIC"),
    # Without these, gcc 12 moves calls of exp and tanh into branches and joins sin with cos, and does not vectorize.
    *("-fno-tree-sink", "-fno-builtin-sin", "-fno-builtin-cos"),
)
PATIENT = 900.0
"""Maximum time of a compiler, in seconds."""
C_LOOP = """
double value_and_grad(const double *x, double *grad);
void loop(long n, const double *x, double *y) {
    for (long k = 0; k < n; k++) y[0] = value_and_grad(x, y + 1);
}
"""


def answers(points: Numbers) -> Numbers:
    """Allocate an array for a value and a gradient per point."""
    return np.zeros((len(points), 1 + points.shape[1]))


def interpreter(workload: Workload, points: Numbers) -> Task:
    """Run the interpreter at each point."""
    results = answers(points)

    def run_many(times: int) -> None:
        for _ in range(times):
            for row, point in enumerate(points):
                run = workload.circuit.run(point)
                results[row] = [run.values[workload.circuit.root()], *run.grads.values()]

    return Task(run_many, lambda: results)


def python_listing(workload: Workload, points: Numbers) -> Task:
    """Run the generated plain Python code at each point."""
    circuit = workload.circuit
    call = defined(Text(circuit.to_python(), "value_and_grad", circuit.inputs, circuit.outputs))
    rows = points.tolist()
    last: list[Any] = []

    def run_many(times: int) -> None:
        for _ in range(times):
            last[:] = [call(*row) for row in rows]

    return Task(run_many, lambda: np.array([[value, *grads.values()] for value, grads in last]))


def stencils(workload: Workload, points: Numbers) -> Task:
    """Run wiregrad's native code at one point, in a native loop that copies inputs in and results out."""
    return _looped(_native(workload), points)


def llvm_tier(workload: Workload, points: Numbers) -> Task:
    """Run the same program after wiregrad's LLVM tier has compiled it as a whole."""
    return _looped(tiers.improved(_native(workload)), points)


def _looped(program: Program, points: Numbers) -> Task:
    buffer = program.initial.copy()
    point = np.ascontiguousarray(points[0])
    results = answers(points)
    call = _code_loop(program.inputs, program.outputs)

    def run_many(times: int) -> None:
        call(times, program.entry, buffer.ctypes.data, point.ctypes.data, results.ctypes.data)

    return Task(run_many, lambda: results)


@cache
def _code_loop(inputs: int, outputs: int) -> Any:
    """Return a native loop that runs a program repeatedly and copies its inputs and results each time."""
    arguments = "ptr %code, ptr %w, ptr %x, ptr %y"
    text = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @once({arguments}) alwaysinline {{
  call void @llvm.memcpy.p0.p0.i64(ptr %w, ptr %x, i64 {8 * inputs}, i1 false)
  {machine.CALL}
  %from = getelementptr double, ptr %w, i64 {inputs}
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %from, i64 {8 * (inputs + outputs)}, i1 false)
  ret void
}}
{repeated("once", arguments)}
"""
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 4)(machine.compiled(text, "loop")[0])


@lru_cache(maxsize=4)
def _native(workload: Workload, lanes: int = 1) -> Program:
    try:
        return build(workload.circuit, 0, lanes=lanes)
    except NotNativeError as error:
        raise MissingError(str(error)) from None


def vectors(threads: int) -> Callable[[Workload, Numbers], Task]:
    """Return the entrant that runs wiregrad's vector code on a batch."""

    def prepare_vectors(workload: Workload, points: Numbers) -> Task:
        program = _native(workload, _lanes())
        last: list[Any] = []

        def run_many(times: int) -> None:
            for _ in range(times):
                last[:] = batch.run(program, points, gradient=True, threads=threads)

        return Task(run_many, lambda: np.column_stack(last))

    return prepare_vectors


def _lanes() -> int:
    try:
        return batch.lanes_for(np.dtype(np.float64))
    except NotNativeError as error:
        raise MissingError(str(error)) from None


def compiling(workload: Workload, points: Numbers) -> Task:
    """Compile with wiregrad, each time a new circuit object, so that nothing is cached."""
    _native(workload)
    last: list[Program] = []

    def compile_many(times: int) -> None:
        for _ in range(times):
            last[:] = [build(Circuit(workload.circuit.columns), 0)]

    def run_compiled() -> Numbers:
        task = _looped(last[0], points)
        task.run(1)
        return task.answer()

    return Task(compile_many, run_compiled)


def calling(workload: Workload, points: Numbers) -> Task:
    """Call `compiled.value_and_grad` from Python."""
    call = workload.circuit.compile().value_and_grad
    point = points[0].copy()
    last: list[Any] = []

    def call_many(times: int) -> None:
        for _ in range(times):
            value_and_gradient = call(point)
        last[:] = value_and_gradient

    return Task(call_many, lambda: np.array([[last[0], *last[1]]]))


def flat_c(workload: Workload, points: Numbers) -> Task:
    """Run the generated C code at one point."""
    folder = _compiled_c(workload)
    compiler = _compiler()
    _compile(compiler, folder, {"loop.c": C_LOOP}, ["-O3", "-shared", "-fPIC", "-o", "flat.so", "flat.o"])
    return _c_task(ctypes.CDLL(str(folder / "flat.so")).loop, points)


@lru_cache(maxsize=4)
def _compiled_c(workload: Workload) -> Path:
    folder = scratch()
    _compile(_compiler(), folder, {"flat.c": workload.circuit.to_c()}, [*FLAT_FLAGS, "-c", "-o", "flat.o"])
    return folder


def compiling_c(workload: Workload, points: Numbers) -> Task:
    """Compile the generated C code with gcc."""
    compiler = _compiler()
    text = workload.circuit.to_c()
    folder = scratch()

    def compile_many(times: int) -> None:
        for _ in range(times):
            _compile(compiler, folder, {"flat.c": text}, [*FLAT_FLAGS, "-c", "-o", "flat.o"])

    def run_compiled() -> Numbers:
        _compile(compiler, folder, {"loop.c": C_LOOP}, ["-O3", "-shared", "-fPIC", "-o", "flat.so", "flat.o"])
        task = _c_task(ctypes.CDLL(str(folder / "flat.so")).loop, points)
        task.run(1)
        return task.answer()

    return Task(compile_many, run_compiled)


def simd_c(threads: int) -> Callable[[Workload, Numbers], Task]:
    """Return the entrant that runs vectorized C on a batch that is stored in columns, the layout that suits C.

    Each thread has a part of the batch: the speed-up shows what the machine gives two threads at the time.
    """

    def prepare_simd(workload: Workload, points: Numbers) -> Task:
        library = _simd_library(workload)
        parts = [np.ascontiguousarray(part.T) for part in np.array_split(points, threads)]
        results = [np.zeros((1 + points.shape[1], part.shape[1])) for part in parts]

        def run_part(k: int) -> None:
            library.batch(ctypes.c_long(parts[k].shape[1]), *map(_pointer, (parts[k], results[k], results[k][1:])))

        def run_many(times: int) -> None:
            for _ in range(times):
                helpers = [_pool().submit(run_part, k) for k in range(1, threads)]
                run_part(0)
                for helper in helpers:
                    helper.result()

        return Task(run_many, lambda: np.concatenate([result.T for result in results]))

    return prepare_simd


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@lru_cache(maxsize=4)
def _simd_library(workload: Workload) -> ctypes.CDLL:
    folder = scratch()
    _compile(_compiler(), folder, {"simd.c": c_batch(workload.circuit)}, [*SIMD_FLAGS, "-c", "-o", "simd.o"])
    # Linked without -ffast-math, because such a library flushes subnormals to zero in the whole process.
    _compile(_compiler(), folder, {}, ["-shared", "-o", "simd.so", "simd.o"])
    return ctypes.CDLL(str(folder / "simd.so"))


def whole_llvm(workload: Workload, points: Numbers) -> Task:
    """Run the whole circuit, compiled by LLVM as one function, at one point."""
    return _c_task(_llvm_function(_llvm_loop(workload)), points)


def compiling_llvm(workload: Workload, points: Numbers) -> Task:
    """Compile the whole circuit with LLVM at level 2."""
    text = _llvm_text(workload)
    last: list[int] = []

    def compile_many(times: int) -> None:
        for _ in range(times):
            last[:] = machine.compiled(text, "loop")

    def run_compiled() -> Numbers:
        task = _c_task(_llvm_function(last[0]), points)
        task.run(1)
        return task.answer()

    return Task(compile_many, run_compiled)


@lru_cache(maxsize=4)
def _llvm_loop(workload: Workload) -> int:
    return machine.compiled(_llvm_text(workload), "loop")[0]


def _llvm_text(workload: Workload) -> str:
    try:
        machine.llvm()
    except NotNativeError as error:
        raise MissingError(str(error)) from None
    return llvm_loop(workload.circuit, lambda name: machine.math_address(name, "double"))


def _llvm_function(address: int) -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(address)


def _c_task(loop: Any, points: Numbers) -> Task:
    point = np.ascontiguousarray(points[0])
    results = answers(points)

    def run_many(times: int) -> None:
        loop(ctypes.c_long(times), _pointer(point), _pointer(results))

    return Task(run_many, lambda: results)


def _pointer(array: Numbers) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _compiler() -> Tool:
    compiler = c_compiler()
    if compiler is None:
        raise MissingError("there is no C compiler here")
    return compiler


def _compile(tool: Tool, folder: Path, sources: dict[str, str], flags: list[str]) -> None:
    try:
        compile_files(tool, folder, sources, flags, ["-lm"], timeout=PATIENT)
    except ListingError as error:
        raise MissingError(str(error).splitlines()[0]) from None


def scratch() -> Path:
    """Make a temporary folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="wiregrad-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


LONG = "the compiler takes minutes"
SLOW = "takes seconds for each run"
COMPILE = (
    Entrant(STENCILS, compiling),
    Entrant(FLAT, compiling_c, 20_000, LONG),
    Entrant(WHOLE, compiling_llvm, 20_000, LONG),
)
POINT = (
    Entrant(STENCILS, stencils),
    Entrant(LLVM_TIER, llvm_tier, 20_000, "it is for small circuits"),
    Entrant(FLAT, flat_c, 20_000, LONG),
    Entrant(WHOLE, whole_llvm, 20_000, LONG),
    Entrant(PYTHON, python_listing, 20_000, SLOW),
    Entrant(INTERPRETER, interpreter, 20_000, SLOW),
)
BATCH = (
    Entrant(STENCILS, vectors(1)),
    Entrant(TWO, vectors(2)),
    Entrant(SIMD, simd_c(1)),
    Entrant(SIMD_TWO, simd_c(2)),
)
CALL = (Entrant(STENCILS, calling), Entrant(PYTHON, python_listing), Entrant(INTERPRETER, interpreter))
"""The entrants of each race."""
