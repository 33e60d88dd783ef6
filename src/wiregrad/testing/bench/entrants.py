"""Who takes part without any other framework: wiregrad's tiers, the interpreter, plain Python, and C and LLVM.

Loops over runs are in native code wherever the work is, so that no call from Python is measured but where calls are
the subject. Compilers are called as people call them, in a folder of their own that goes when the process does.
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

STENCILS, LLVM_TIER, TWO = "wiregrad", "wiregrad, LLVM tier", "wiregrad, 2 threads"
FLAT, WHOLE = "flat C, gcc -O3", "LLVM -O2, whole circuit"
SIMD, SIMD_TWO = "C in vectors, gcc -O3 -ffast-math", "C in vectors, 2 threads"
INTERPRETER, PYTHON = "wiregrad, interpreter", "Python listing"
FLAT_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fPIC")
SIMD_FLAGS = (
    *("-O3", "-march=native", "-fopenmp-simd", "-ffast-math", "-mprefer-vector-width=512", "-fPIC"),
    # Without these gcc 12 moves calls of exp and tanh into branches and joins sin to cos, and makes no vectors then.
    *("-fno-tree-sink", "-fno-builtin-sin", "-fno-builtin-cos"),
)
PATIENT = 900.0
"""Seconds that a compiler may take."""
C_LOOP = """
double value_and_grad(const double *x, double *grad);
void loop(long n, const double *x, double *y) {
    for (long k = 0; k < n; k++) y[0] = value_and_grad(x, y + 1);
}
"""


def answers(points: Numbers) -> Numbers:
    """Return room for a value and a gradient per point."""
    return np.zeros((len(points), 1 + points.shape[1]))


def interpreter(workload: Workload, points: Numbers) -> Task:
    """Run the interpreter at each point."""
    found = answers(points)

    def run(times: int) -> None:
        for _ in range(times):
            for row, point in enumerate(points):
                done = workload.circuit.run(point)
                found[row] = [done.values[workload.circuit.root()], *done.grads.values()]

    return Task(run, lambda: found)


def python_listing(workload: Workload, points: Numbers) -> Task:
    """Run the listing in plain Python at each point."""
    circuit = workload.circuit
    call = defined(Text(circuit.to_python(), "value_and_grad", circuit.inputs, circuit.outputs))
    rows = points.tolist()
    last = list[Any]()

    def run(times: int) -> None:
        for _ in range(times):
            last[:] = [call(*row) for row in rows]

    return Task(run, lambda: np.array([[value, *grads.values()] for value, grads in last]))


def stencils(workload: Workload, points: Numbers) -> Task:
    """Run wiregrad's native code at one point, in a native loop that hands inputs in and results out."""
    return _looped(_native(workload), points)


def llvm_tier(workload: Workload, points: Numbers) -> Task:
    """Run the same steps after wiregrad had LLVM compile them as a whole."""
    return _looped(tiers.improved(_native(workload)), points)


def _looped(program: Program, points: Numbers) -> Task:
    work, given, found = program.initial.copy(), np.ascontiguousarray(points[0]), answers(points)
    call = _code_loop(program.inputs, program.outputs)

    def run(times: int) -> None:
        call(times, program.entry, work.ctypes.data, given.ctypes.data, found.ctypes.data)

    return Task(run, lambda: found)


@cache
def _code_loop(inputs: int, outputs: int) -> Any:
    """Return a native loop that runs a program again and again, its inputs and results copied each time."""
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

    def prepare(workload: Workload, points: Numbers) -> Task:
        program = _native(workload, _lanes())
        last = list[Any]()

        def run(times: int) -> None:
            for _ in range(times):
                last[:] = batch.run(program, points, gradient=True, threads=threads)

        return Task(run, lambda: np.column_stack(last))

    return prepare


def _lanes() -> int:
    try:
        return batch.lanes_for(np.dtype(np.float64))
    except NotNativeError as error:
        raise MissingError(str(error)) from None


def compiling(workload: Workload, points: Numbers) -> Task:
    """Compile with wiregrad, each time a circuit that it has not seen."""
    _native(workload)
    last = list[Program]()

    def run(times: int) -> None:
        for _ in range(times):
            last[:] = [build(Circuit(workload.circuit.columns), 0)]

    def answer() -> Numbers:
        task = _looped(last[0], points)
        task.run(1)
        return task.answer()

    return Task(run, answer)


def calling(workload: Workload, points: Numbers) -> Task:
    """Call `compiled.value_and_grad` from Python."""
    call, point, last = workload.circuit.compile().value_and_grad, points[0].copy(), list[Any]()

    def run(times: int) -> None:
        for _ in range(times):
            found = call(point)
        last[:] = found

    return Task(run, lambda: np.array([[last[0], *last[1]]]))


def flat_c(workload: Workload, points: Numbers) -> Task:
    """Run the C listing at one point."""
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
    """Compile the C listing with gcc."""
    compiler, text, folder = _compiler(), workload.circuit.to_c(), scratch()

    def run(times: int) -> None:
        for _ in range(times):
            _compile(compiler, folder, {"flat.c": text}, [*FLAT_FLAGS, "-c", "-o", "flat.o"])

    def answer() -> Numbers:
        _compile(compiler, folder, {"loop.c": C_LOOP}, ["-O3", "-shared", "-fPIC", "-o", "flat.so", "flat.o"])
        task = _c_task(ctypes.CDLL(str(folder / "flat.so")).loop, points)
        task.run(1)
        return task.answer()

    return Task(run, answer)


def simd_c(threads: int) -> Callable[[Workload, Numbers], Task]:
    """Return the entrant that runs C in vectors on a batch whose numbers stand in columns, as C likes them.

    Threads have a part of the batch each: how much faster they are is what the machine gives two threads at the time.
    """

    def prepare(workload: Workload, points: Numbers) -> Task:
        library = _simd_library(workload)
        parts = [np.ascontiguousarray(part.T) for part in np.array_split(points, threads)]
        found = [np.zeros((1 + points.shape[1], part.shape[1])) for part in parts]

        def work(k: int) -> None:
            library.batch(ctypes.c_long(parts[k].shape[1]), *map(_pointer, (parts[k], found[k], found[k][1:])))

        def run(times: int) -> None:
            for _ in range(times):
                helpers = [_pool().submit(work, k) for k in range(1, threads)]
                work(0)
                for helper in helpers:
                    helper.result()

        return Task(run, lambda: np.concatenate([own.T for own in found]))

    return prepare


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@lru_cache(maxsize=4)
def _simd_library(workload: Workload) -> ctypes.CDLL:
    folder = scratch()
    _compile(_compiler(), folder, {"simd.c": c_batch(workload.circuit)}, [*SIMD_FLAGS, "-c", "-o", "simd.o"])
    # Linked without -ffast-math, which would have the library flush subnormals to zero for the whole process.
    _compile(_compiler(), folder, {}, ["-shared", "-o", "simd.so", "simd.o"])
    return ctypes.CDLL(str(folder / "simd.so"))


def whole_llvm(workload: Workload, points: Numbers) -> Task:
    """Run LLVM's code of the whole circuit at one point."""
    return _c_task(_llvm_function(_llvm_loop(workload)), points)


def compiling_llvm(workload: Workload, points: Numbers) -> Task:
    """Compile the whole circuit with LLVM at level 2."""
    text, last = _llvm_text(workload), list[int]()

    def run(times: int) -> None:
        for _ in range(times):
            last[:] = machine.compiled(text, "loop")

    def answer() -> Numbers:
        task = _c_task(_llvm_function(last[0]), points)
        task.run(1)
        return task.answer()

    return Task(run, answer)


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
    given, found = np.ascontiguousarray(points[0]), answers(points)

    def run(times: int) -> None:
        loop(ctypes.c_long(times), _pointer(given), _pointer(found))

    return Task(run, lambda: found)


def _pointer(array: Numbers) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _compiler() -> Tool:
    found = c_compiler()
    if found is None:
        raise MissingError("there is no C compiler here")
    return found


def _compile(tool: Tool, folder: Path, sources: dict[str, str], flags: list[str]) -> None:
    try:
        compile_files(tool, folder, sources, flags, ["-lm"], timeout=PATIENT)
    except ListingError as error:
        raise MissingError(str(error).splitlines()[0]) from None


def scratch() -> Path:
    """Return a new folder that is removed when the process ends."""
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
"""Who takes part in which race."""
