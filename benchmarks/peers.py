"""Other frameworks as entrants: CasADi, JAX, PyTorch and micrograd on the same circuits, each as its users use it best.

A framework that is not installed is a missing entrant, so every table names it. All compute in float64, in one thread.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from importlib import import_module
from typing import Any

# The libraries read these when they are loaded.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", JAX_PLATFORMS="cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np

from wiregrad.cli.bench import PeerEntrants
from wiregrad.cli.bench.race import (
    INFIX_SPELLINGS,
    EntrantMissingError,
    FloatArray,
    RaceEntrant,
    RaceTask,
    Workload,
    allocate_answers,
)
from wiregrad.ir import CONSTANT, INPUT

PIECE = 10_000
"""How many points PyTorch and JAX take at a time: more is no faster for them, and a thousand nodes would not fit."""


def package(name: str) -> Any:
    """Return a framework, or say that it is missing."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise EntrantMissingError(f"{error.name} is not installed") from None


def straight(workload: Workload, functions: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """Return a circuit as a function in straight-line Python, for whatever numbers these functions take."""
    scope = dict(functions)
    exec(write_straight(workload), scope)
    found: Callable[..., Any] = scope["value"]
    return found


def write_straight(workload: Workload) -> str:
    """Return the text of that function, which is called `value`."""
    circuit = workload.circuit
    names = {node: f"x{k}" for k, node in enumerate(circuit.input_indices())}
    lines = [f"def value({', '.join(names.values())}):"]
    for row in circuit.rows():
        if row.op is CONSTANT:
            names[row.node] = repr(float(circuit.constant_of(row.node)))
        elif row.op is not INPUT:
            names[row.node] = f"v{row.node}"
            operands = [names[source] for source in row.sources]
            sign = INFIX_SPELLINGS.get(row.op.name, ("",))[0]
            text = f" {sign} ".join(operands) if sign else f"{row.op.name}({', '.join(operands)})"
            lines.append(f"    v{row.node} = {text}")
    return "\n".join([*lines, f"    return {names[circuit.root()]}"])


@lru_cache(maxsize=4)
def casadi_function(workload: Workload) -> Any:
    """Return CasADi's function of value and gradient, on SX."""
    casadi = package("casadi")
    functions = {name: getattr(casadi, name) for name in ("tanh", "exp", "sin", "sqrt")}
    relu = {"relu": lambda x: casadi.fmax(x, 0.0)}
    x = casadi.SX.sym("x", len(workload.circuit.inputs))
    y = straight(workload, {**functions, **relu})(*(x[k] for k in range(x.numel())))
    return casadi.Function("f", [x], [y, casadi.gradient(y, x)])


def casadi_point(workload: Workload, points: FloatArray) -> RaceTask:
    """Run CasADi at one point, through its buffer, which spares the call from Python."""
    return _buffered(casadi_function(workload), points)


def casadi_batch(workload: Workload, points: FloatArray) -> RaceTask:
    """Run CasADi's map over a batch."""
    return _buffered(casadi_function(workload).map(len(points)), points)


def _buffered(function: Any, points: FloatArray) -> RaceTask:
    # CasADi keeps matrices by columns, and a point is a column.
    given, value, gradient = points.copy(), np.zeros(len(points)), np.zeros(points.shape)
    buffer, trigger = function.buffer()
    buffer.set_arg(0, memoryview(given))
    buffer.set_res(0, memoryview(value))
    buffer.set_res(1, memoryview(gradient))

    # The buffer knows addresses only.
    def run(times: int, kept: Any = (buffer, given)) -> None:
        for _ in range(times):
            trigger()

    return RaceTask(run, lambda: np.column_stack([value, gradient]))


@cache
def jax_functions() -> tuple[Any, Mapping[str, Callable[..., Any]]]:
    """Return JAX and its functions by the names of ops."""
    jax = package("jax")
    jax.config.update("jax_enable_x64", True)
    functions = {name: getattr(jax.numpy, name) for name in ("tanh", "exp", "sin", "sqrt")}
    return jax, {**functions, "relu": jax.nn.relu}


def jax_compiled(workload: Workload, shape: tuple[int, ...]) -> Any:
    """Trace, lower and compile a circuit of rows (or of single numbers) with `jax.jit`."""
    jax, functions = jax_functions()
    function = straight(workload, functions)

    def total(x: Any) -> tuple[Any, Any]:
        y = function(*(x[k] for k in range(shape[0])))
        return y.sum(), y

    step = jax.jit(jax.value_and_grad(total, has_aux=True))
    return step.lower(jax.ShapeDtypeStruct(shape, np.float64)).compile()


_COMPILED: dict[tuple[int, tuple[int, ...]], Any] = {}
"""What was compiled already, by workload and shape: it may have taken minutes."""


def jax_compile(workload: Workload, points: FloatArray) -> RaceTask:
    """Compile with `jax.jit`."""
    jax_functions()
    key = id(workload.circuit), points.shape[1:]

    def run(times: int) -> None:
        for _ in range(times):
            package("jax").clear_caches()
            _COMPILED[key] = jax_compiled(workload, points.shape[1:])

    return RaceTask(run, lambda: _jax_answer(_COMPILED[key](points[0])))


def jax_point(workload: Workload, points: FloatArray) -> RaceTask:
    """Run what `jax.jit` compiled, at one point."""
    return _jax_task(workload, [points[0]])


def jax_rows(workload: Workload, points: FloatArray) -> RaceTask:
    """Run what `jax.jit` compiled for rows, each of them an input at all points, piece by piece."""
    return _jax_task(workload, [np.ascontiguousarray(points[k : k + PIECE].T) for k in range(0, len(points), PIECE)])


def jax_call(workload: Workload, points: FloatArray) -> RaceTask:
    """Call a function under `jax.jit` from Python as usual, and wait for its answer."""
    jax, functions = jax_functions()
    function = straight(workload, functions)
    step = jax.jit(jax.value_and_grad(lambda x: function(*(x[k] for k in range(len(points[0]))))))
    given, last = jax.numpy.asarray(points[0]), list[Any]()

    def run(times: int) -> None:
        for _ in range(times):
            found = jax.block_until_ready(step(given))
        last[:] = found

    return RaceTask(run, lambda: np.array([[float(last[0]), *np.asarray(last[1])]]))


def _jax_task(workload: Workload, pieces: Sequence[FloatArray]) -> RaceTask:
    jax, _ = jax_functions()
    for shape in {piece.shape for piece in pieces}:
        if (id(workload.circuit), shape) not in _COMPILED:
            _COMPILED[id(workload.circuit), shape] = jax_compiled(workload, shape)
    work = [(_COMPILED[id(workload.circuit), piece.shape], jax.numpy.asarray(piece)) for piece in pieces]
    last = list[Any]()

    def run(times: int) -> None:
        for _ in range(times):
            last[:] = [jax.block_until_ready(step(given)) for step, given in work]

    return RaceTask(run, lambda: np.vstack([_jax_answer(found) for found in last]))


def _jax_answer(found: Any) -> FloatArray:
    (_, value), gradient = found
    return np.vstack([np.atleast_2d(np.asarray(value)), np.asarray(gradient).reshape(len(gradient), -1)]).T


def torch_batch(workload: Workload, points: FloatArray) -> RaceTask:
    """Run PyTorch, not compiled, on columns, piece by piece."""
    torch = package("torch")
    torch.set_num_threads(1)
    function = straight(workload, {name: getattr(torch, name) for name in ("tanh", "exp", "sin", "sqrt", "relu")})
    pieces = [
        [torch.tensor(column, requires_grad=True) for column in points[start : start + PIECE].T]
        for start in range(0, len(points), PIECE)
    ]
    found = allocate_answers(points)

    def run(times: int) -> None:
        for _ in range(times):
            for k, columns in enumerate(pieces):
                y = function(*columns)
                slopes = torch.autograd.grad(y.sum(), columns)
                part = found[k * PIECE :][: len(y)]
                part[:, 0] = y.detach().numpy()
                part[:, 1:] = torch.stack(slopes, dim=1).numpy()

    return RaceTask(run, lambda: found)


MICROGRAD_PROGRAM = """
import gc, json, math, sys
from micrograd.engine import Value

def function(compute, slope):
    def apply(x):
        out = Value(compute(x.data), (x,))
        def backward():
            x.grad += slope(x.data, out.data) * out.grad
        out._backward = backward
        return out
    return apply

scope = {
    "tanh": function(math.tanh, lambda x, y: 1.0 - y * y),
    "exp": function(math.exp, lambda x, y: y),
    "sin": function(math.sin, lambda x, y: math.cos(x)),
    "sqrt": function(math.sqrt, lambda x, y: 0.5 / y),
    "relu": Value.relu,
}
text, point, collects = json.loads(sys.stdin.readline())
exec(text, scope)
sys.setrecursionlimit(2 * len(text.splitlines()) + 1_000)
if not collects:
    gc.disable()
for line in sys.stdin:
    for _ in range(int(line)):
        leaves = [Value(x) for x in point]
        y = scope["value"](*leaves)
        y.backward()
    print(json.dumps([y.data, *(leaf.grad for leaf in leaves)]), flush=True)
"""
"""micrograd in a process of its own; the functions that it does not have are written as it writes its own."""


class MicrogradProcess:
    """A Python process that has loaded micrograd and nothing else, as its users have it."""

    def __init__(self, workload: Workload, points: FloatArray, *, collects: bool) -> None:
        package("micrograd.engine")
        command = [sys.executable, "-c", MICROGRAD_PROGRAM]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._process.kill)
        self._send(json.dumps([write_straight(workload), points[0].tolist(), collects]))
        self.answers = allocate_answers(points)

    def run(self, times: int) -> None:
        """Build and differentiate the values so many times, anew each time."""
        self._send(str(times))
        assert self._process.stdout is not None
        self.answers[0] = json.loads(self._process.stdout.readline())

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


def micrograd_point(workload: Workload, points: FloatArray, *, collects: bool = True) -> RaceTask:
    """Run micrograd at one point, with Python's collector, as its users do, or without it.

    micrograd's values refer to themselves, so without the collector their memory is never freed.
    """
    process = MicrogradProcess(workload, points, collects=collects)
    return RaceTask(process.run, lambda: process.answers)


LONG = "it compiles for minutes"
PEERS = PeerEntrants(
    compile=(RaceEntrant("jax.jit", jax_compile, 1_100, LONG),),
    point=(
        RaceEntrant("CasADi SX", casadi_point),
        RaceEntrant("jax.jit", jax_point, 500, LONG),
        RaceEntrant("micrograd", micrograd_point, 20_000, "takes seconds for each run"),
        RaceEntrant("micrograd, collector off", partial(micrograd_point, collects=False), 20_000, "takes seconds"),
    ),
    batch=(
        RaceEntrant("jax.jit", jax_rows),
        RaceEntrant("PyTorch", torch_batch),
        RaceEntrant("CasADi map", casadi_batch, 20_000_000, "takes minutes"),
    ),
    call=(RaceEntrant("jax.jit", jax_call),),
)
QUICK = PeerEntrants(
    compile=(RaceEntrant("jax.jit", jax_compile, 200, LONG),),
    point=PEERS.point,
    batch=PEERS.batch,
    call=PEERS.call,
)
"""Without what takes minutes."""
