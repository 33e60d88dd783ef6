"""The entrants that need no other framework: wiregrad's tiers, the interpreter, plain Python, C and LLVM.

Where the work is native, the loop over runs is native too, so that calls from Python are measured only where they are
the subject. Compilers run as users run them, in a temporary folder that is removed when the process ends.

C and LLVM get a circuit's value and gradient as an engineer would write them by hand, in three-address code. Unlike
wiregrad's own listings it has no absent gradients: what a relu blocks goes on as zeros. That leaves no branches, so
compilers can vectorize a loop over points. It supports the ops of the workloads, whose values are finite.
"""

from __future__ import annotations

import atexit
import ctypes
import shutil
import struct
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

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
from wiregrad.cli.bench.workloads import Workload
from wiregrad.errors import NotNativeError
from wiregrad.ir import CONSTANT, INPUT, CircuitGraph

MATH_CALLS = ("tanh", "exp", "sin", "cos", "sqrt")
INFIX_SPELLINGS = {"add": ("+", "fadd"), "subtract": ("-", "fsub"), "multiply": ("*", "fmul"), "divide": ("/", "fdiv")}
"""The operator in C and the instruction in LLVM of each op."""


class CodeLine(NamedTuple):
    """One line of code: a new number, the op that computes it, and its operands."""

    name: str
    op: str
    operands: tuple[str, ...]


@dataclass
class StraightLineCode:
    """Straight-line code of a circuit: values forward, then gradients backward."""

    inputs: list[str]
    value: str
    steps: list[CodeLine] = field(default_factory=list)
    gradient: list[str] = field(default_factory=list)

    def make(self, op: str, *operands: str) -> str:
        """Add a line and return the name of its number."""
        self.steps.append(CodeLine(f"t{len(self.steps)}", op, operands))
        return self.steps[-1].name


def write_straight_line(circuit: CircuitGraph) -> StraightLineCode:
    """Write a circuit's value and gradient as straight-line code.

    >>> import wiregrad as wg
    >>> steps = write_straight_line(wg.circuit("sin(x)")).steps
    >>> [f"{step.name} = {step.op} {' '.join(step.operands)}" for step in steps]
    ['t0 = sin x0', 't1 = cos x0', 't2 = multiply 1.0 t1']
    """
    inputs = circuit.input_indices()
    code = StraightLineCode([f"x{k}" for k in range(len(inputs))], "")
    names = dict(zip(inputs, code.inputs, strict=True))
    constants = circuit.constants()
    rows = [row for row in circuit.rows() if row.op is not INPUT]
    for row in rows:
        if row.op is CONSTANT:
            names[row.node] = repr(float(constants[row.node].item()))
        else:
            names[row.node] = code.make(row.op.name, *(names[source] for source in row.sources))
    code.value = names[circuit.root()]
    arrived = {circuit.root(): "1.0"}
    for row in reversed(rows):
        if row.op is CONSTANT or row.node not in arrived:
            continue
        for slot, source in enumerate(row.sources):
            if circuit.op_of(source) is CONSTANT:
                continue
            operands = [names[k] for k in row.sources]
            sent = GRADIENT_RULES[row.op.name][slot](code, arrived[row.node], names[row.node], *operands)
            arrived[source] = code.make("add", arrived[source], sent) if source in arrived else sent
    code.gradient = [arrived.get(node, "0.0") for node in inputs]
    return code


def _pass_unchanged(t: StraightLineCode, g: str, y: str, *operands: str) -> str:
    return g


def _tanh_gradient(t: StraightLineCode, g: str, y: str, x: str) -> str:
    return t.make("multiply", g, t.make("subtract", "1.0", t.make("multiply", y, y)))


GRADIENT_RULES: dict[str, tuple[Callable[..., str], ...]] = {
    "add": (_pass_unchanged, _pass_unchanged),
    "subtract": (_pass_unchanged, lambda t, g, y, a, b: t.make("subtract", "0.0", g)),
    "multiply": (lambda t, g, y, a, b: t.make("multiply", g, b), lambda t, g, y, a, b: t.make("multiply", g, a)),
    "divide": (
        lambda t, g, y, a, b: t.make("divide", g, b),
        lambda t, g, y, a, b: t.make("subtract", "0.0", t.make("multiply", g, t.make("divide", y, b))),
    ),
    "tanh": (_tanh_gradient,),
    "exp": (lambda t, g, y, x: t.make("multiply", g, y),),
    "sin": (lambda t, g, y, x: t.make("multiply", g, t.make("cos", x)),),
    "relu": (lambda t, g, y, x: t.make("multiply", g, t.make("step", x)),),
    "sqrt": (lambda t, g, y, x: t.make("divide", t.make("multiply", g, "0.5"), y),),
}
"""The gradient that each op sends back along each wire."""


def write_c_batch(circuit: CircuitGraph) -> str:
    """Write C that gcc can vectorize: one loop over points, which are stored in columns.

    >>> import wiregrad as wg
    >>> "const double t0 = x0 * x1;" in write_c_batch(wg.circuit("a * b"))
    True
    """
    code = write_straight_line(circuit)
    lines = [f"const double x{k} = x[{k} * n + i];" for k in range(len(code.inputs))]
    lines += [f"const double {step.name} = {_write_c_line(step)};" for step in code.steps]
    lines += [f"y[i] = {code.value};"]
    lines += [f"grad[{k} * n + i] = {name};" for k, name in enumerate(code.gradient)]
    return "\n".join(
        [
            "#include <math.h>",
            # Separately, sin and cos have vector forms; gcc would join them to sincos, which has none.
            *(f"double {name}(double) __attribute__((const));" for name in ("sin", "cos")),
            "void batch(long n, const double *restrict x, double *restrict y, double *restrict grad) {",
            "#pragma GCC ivdep",
            "for (long i = 0; i < n; i++) {",
            *lines,
            "}\n}\n",
        ]
    )


def _write_c_line(step: CodeLine) -> str:
    a = step.operands[0]
    b = step.operands[-1]
    if step.op in INFIX_SPELLINGS:
        return f"{a} {INFIX_SPELLINGS[step.op][0]} {b}"
    return {"relu": f"fmax({a}, 0.0)", "step": f"(double)({a} > 0.0)"}.get(step.op) or f"{step.op}({a})"


def write_llvm_loop(circuit: CircuitGraph, addresses: Callable[[str], int]) -> str:
    """Write the whole circuit as one function in LLVM IR, with a loop that repeats it: `loop(n, x, y)`."""
    code = write_straight_line(circuit)
    lines: list[str] = []
    for k, name in enumerate(code.inputs):
        lines += [f"%p{k} = getelementptr double, ptr %x, i64 {k}", f"%{name} = load double, ptr %p{k}"]
    for step in code.steps:
        lines += _write_llvm_line(step, addresses)
    for k, name in enumerate([code.value, *code.gradient]):
        lines += [
            f"%q{k} = getelementptr double, ptr %y, i64 {k}",
            f"store double {_write_llvm_operand(name)}, ptr %q{k}",
        ]
    arguments = "ptr %x, ptr %y"
    head = f"define void @value_and_grad({arguments}) noinline {{"
    return "\n".join([head, *lines, "ret void", "}", write_repeat_loop("value_and_grad", arguments)])


def write_repeat_loop(name: str, arguments: str) -> str:
    """Write `loop` in LLVM IR, which calls a function n times with the same arguments."""
    return f"""define void @loop(i64 %n, {arguments}) {{
entry:
  br label %again
again:
  %k = phi i64 [0, %entry], [%next, %again]
  call void @{name}({arguments})
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %again, label %done
done:
  ret void
}}"""


def _write_llvm_line(step: CodeLine, addresses: Callable[[str], int]) -> Sequence[str]:
    name = step.name
    a = _write_llvm_operand(step.operands[0])
    b = _write_llvm_operand(step.operands[-1])
    if step.op in INFIX_SPELLINGS:
        return [f"%{name} = {INFIX_SPELLINGS[step.op][1]} double {a}, {b}"]
    if step.op in ("relu", "step"):
        chosen = a if step.op == "relu" else "1.0"
        return [f"%c{name} = fcmp ogt double {a}, 0.0", f"%{name} = select i1 %c{name}, double {chosen}, double 0.0"]
    return [f"%{name} = call double inttoptr (i64 {addresses(step.op)} to ptr)(double {a}) memory(none) nounwind"]


def _write_llvm_operand(name: str) -> str:
    # Numbers are written as their bits, which LLVM reads exactly.
    return f"%{name}" if name[0] in "tx" else f"0x{struct.pack('>d', float(name)).hex()}"


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
