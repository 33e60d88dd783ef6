"""Value and gradient of array code: wiregrad on plain NumPy code, as it is and compiled, beside other frameworks.

The programs: sum(tanh(x * w + b)), also in C with vectors; training steps in float32 (`training_steps`); micrograd's
demo; loops over time in plain Python (a Lorenz system, a fluid), which JAX runs with `lax.scan`; and the objectives of
ADBench, where `WIREGRAD_ADBENCH` names the folder of its data: Gaussian mixtures, a recurrent network, and bundle
adjustment. Everybody has one thread; the table `threads` has wiregrad's own times with two.
Compiled code is compared with `jax.jit`, training steps also with PyTorch. `WIREGRAD_ARRAY_PROGRAMS=sums,lorenz,lstm`
measures only these programs. The table `phases` says what compiling long recordings costs per node. First results and
later ones are given in processor time.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

# The libraries read these when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["WIREGRAD_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import autograd
import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import torch

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds, time_calls
from benchmarks.training_steps import STEPS, compare_step
from wiregrad.backends.native_arrays.array_program import ArrayProgram
from wiregrad.backends.native_arrays.lowering import lower_circuit
from wiregrad.errors import CircuitError
from wiregrad.ir import GraphBuilder
from wiregrad.lazy import pause_collection
from wiregrad.ops.gradient_flow import fill_absent
from wiregrad.passes import expand_unnamed, merge_repeated, prune, simplify, sweep_ports

SIZES = {10: (100, 25), 1_000: (50, 25), 1_000_000: (2, 15)}
"""Elements, how many calls one measurement takes, and how many measurements there are."""
TURN_SECONDS = 0.05
"""How long each framework runs a program before it is another one's turn; at least 5 calls."""
WANTED: dict[str, int | tuple[int, ...]] = {"x": 0, "x, w and b": (0, 1, 2)}
"""What is differentiated by, and its `argnums`."""
TARGETS: dict[int, dict[str, float]] = {
    10: {"PyTorch": 2.0, "autograd": 5.0},
    1_000_000: {"NumPy by hand": 1 / 1.15},
}
"""How many times as long as wiregrad each should take, at least."""
COMPILED_TARGETS: dict[int, dict[str, float]] = {
    10: {"JAX, jitted": 10.0},
    1_000_000: {"JAX, jitted": 2.0, "C in vectors": 1.0},
}
"""How many times as long as `wg.compile` each should take, at least."""

MIXTURES = ("gmm_1k_d10_K25", "gmm_1k_d64_K50")
RECURRENT = "lstm_l2_c1024"
BUNDLE = "ba1_n49_m7776_p31843"
"""The files of ADBench that are measured."""

Arrays = Sequence[np.ndarray]
Gradient = tuple[Any, Any]
Task = Callable[[], Gradient]


def total(x: Any, w: Any, b: Any) -> Any:
    """Return the sum, as anybody writes it in NumPy."""
    return np.sum(np.tanh(x * w + b))


def by_hand(x: Any, w: Any, b: Any) -> Gradient:
    """Return value and gradient by x as an engineer writes them, for inputs that must be left alone."""
    y = np.tanh(x * w + b)
    return y.sum(), (1.0 - y * y) * w


def all_by_hand(x: Any, w: Any, b: Any) -> Gradient:
    """Return value and gradient by all three inputs."""
    y = np.tanh(x * w + b)
    slope = 1.0 - y * y
    return y.sum(), (slope * w, slope * x, slope)


def with_autograd(x: Any, w: Any, b: Any) -> Any:
    """Return the sum through autograd's NumPy."""
    return anp.sum(anp.tanh(x * w + b))


def with_jax(x: Any, w: Any, b: Any) -> Any:
    """Return the sum through JAX's NumPy."""
    return jnp.sum(jnp.tanh(x * w + b))


def torch_task(arrays: Arrays, argnums: int | tuple[int, ...]) -> Task:
    """Return what PyTorch has to do, not compiled, on tensors made before."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    x, w, b = tensors = [torch.tensor(array, requires_grad=k in numbers) for k, array in enumerate(arrays)]
    wanted = [tensors[k] for k in numbers]

    def task() -> Gradient:
        y = torch.tanh(x * w + b).sum()
        return y.detach(), torch.autograd.grad(y, wanted)

    return task


C_TOTAL = """
#include <math.h>
double total(long n, const double *restrict x, const double *restrict w, const double *restrict b,
             double *restrict by_x, double *restrict by_w, double *restrict by_b) {
    double sum = 0.0;
    #pragma omp simd reduction(+:sum)
    for (long i = 0; i < n; ++i) {
        double y = tanh(x[i] * w[i] + b[i]);
        double slope = 1.0 - y * y;
        by_x[i] = slope * w[i];
        by_w[i] = slope * x[i];
        by_b[i] = slope;
        sum += y;
    }
    return sum;
}
"""
"""Value and gradient by all inputs as an engineer writes them in C."""
C_FLAGS = "-O3 -march=native -ffast-math -fopenmp-simd -mprefer-vector-width=512 -shared -fPIC"


def make_c_task(arrays: Arrays) -> Task | None:
    """Return the same in C with vectors, into memory that is there; None without a C compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "total.c", Path(folder) / "total.so"
        source.write_text(C_TOTAL)
        subprocess.run([compiler, *C_FLAGS.split(), str(source), "-o", str(library), "-lmvec", "-lm"], check=True)
        function = ctypes.CDLL(str(library)).total
    function.restype = ctypes.c_double
    results = [np.empty_like(array) for array in arrays]
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *results)]
    size = ctypes.c_long(len(arrays[0]))
    return lambda: (function(size, *addresses), tuple(results))


def tasks_for(arrays: Arrays, argnums: int | tuple[int, ...]) -> dict[str, Task]:
    """Return what everybody has to do."""
    compute, autograds = wg.value_and_grad(total, argnums), autograd.value_and_grad(with_autograd, argnums)
    replayed = wg.compile(total, argnums=argnums).value_and_grad
    eager = jax.value_and_grad(with_jax, argnums)
    compiled, given = jax.jit(eager), [jnp.asarray(array) for array in arrays]
    hand = by_hand if argnums == 0 else all_by_hand
    in_c = make_c_task(arrays) if argnums != 0 else None
    return {
        "wiregrad": lambda: compute(*arrays),
        "wiregrad, wg.compile": lambda: replayed(*arrays),
        "wiregrad, compiled circuit": compiled_task(arrays, argnums),
        "NumPy by hand": lambda: hand(*arrays),
        "PyTorch": torch_task(arrays, argnums),
        "autograd": lambda: autograds(*arrays),
        "JAX, not jitted": lambda: jax.block_until_ready(eager(*given)),
        "JAX, jitted": lambda: jax.block_until_ready(compiled(*given)),
        **({} if in_c is None else {"C in vectors": in_c}),
    }


def compiled_task(arrays: Arrays, argnums: int | tuple[int, ...]) -> Task:
    """Return what a compiled circuit has to do; it always computes the gradient by all inputs."""
    step = wg.trace(total, *arrays).compile().value_and_grad
    named = dict(zip("xwb", arrays, strict=True))

    def task() -> Gradient:
        value, grads = step(**named)
        return value, grads["x"] if argnums == 0 else tuple(grads.values())

    return task


def read_mixture(path: Path) -> tuple[list[np.ndarray], np.ndarray, float, int]:
    """Return the parameters, the points and the Wishart pair of a file of ADBench."""
    lines = path.read_text().split("\n")
    d, k, n = map(int, lines[0].split())
    numbers = np.array(" ".join(lines[1:]).split(), float)
    ends = np.cumsum([k, k * d, k * d * (d + 1) // 2, n * d])
    alphas, means, factors, points = np.split(numbers[: ends[-1]], ends[:-1])
    gamma, m = numbers[ends[-1] :]
    return [alphas, means.reshape(k, d), factors.reshape(k, -1)], points.reshape(n, d), float(gamma), int(m)


def make_mixture(xp: Any, x: Any, gamma: float, m: int) -> Callable[..., Any]:
    """Return the log posterior of a Gaussian mixture up to a constant, in terms of a NumPy-like module."""
    n, d = x.shape
    rows, columns = np.tril_indices(d, -1)
    order = np.lexsort((rows, columns))
    places = np.zeros((d, d), int)
    places[rows[order], columns[order]] = np.arange(len(rows))
    below = np.tril(np.ones((d, d)), -1)

    def objective(alphas: Any, means: Any, factors: Any) -> Any:
        scale = xp.exp(factors[:, :d])
        logs = xp.sum(factors[:, :d], 1)
        lower = factors[:, d:][:, places.reshape(-1)].reshape(-1, d, d) * below
        z = x[:, None, :] - means[None]
        turned = xp.matmul(xp.transpose(z, (1, 0, 2)), xp.transpose(lower, (0, 2, 1)))
        u = scale[None] * z + xp.transpose(turned, (1, 0, 2))
        terms = alphas + logs - 0.5 * xp.sum(u * u, 2)
        top = xp.max(terms, 1, keepdims=True)
        likelihood = xp.sum(xp.log(xp.sum(xp.exp(terms - top), 1)) + top[:, 0])
        peak = xp.max(alphas)
        weight = xp.log(xp.sum(xp.exp(alphas - peak))) + peak
        prior = 0.5 * gamma * gamma * (xp.sum(scale * scale) + xp.sum(lower * lower)) - m * xp.sum(logs)
        return likelihood - n * weight + prior

    return objective


def make_lorenz(steps: int) -> Callable[..., Any]:
    """Return the squared distance of a Lorenz system from a point after RK4 steps, in NumPy."""

    def slope(state: Any, parameters: Any) -> Any:
        x, y, z = state[0], state[1], state[2]
        sigma, rho, beta = parameters[0], parameters[1], parameters[2]
        return np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    def distance(state: Any, parameters: Any) -> Any:
        for _ in range(steps):
            k1 = slope(state, parameters)
            k2 = slope(state + 0.005 * k1, parameters)
            k3 = slope(state + 0.005 * k2, parameters)
            k4 = slope(state + 0.01 * k3, parameters)
            state = state + 0.01 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return np.sum((state - 1.0) ** 2)

    return distance


def make_lorenz_scan(steps: int) -> Callable[..., Any]:
    """Return the same through `lax.scan`."""

    def slope(state: Any, parameters: Any) -> Any:
        x, y, z = state
        sigma, rho, beta = parameters
        return jnp.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    def distance(state: Any, parameters: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            k1 = slope(state, parameters)
            k2 = slope(state + 0.005 * k1, parameters)
            k3 = slope(state + 0.005 * k2, parameters)
            k4 = slope(state + 0.01 * k3, parameters)
            return state + 0.01 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

        return jnp.sum((jax.lax.scan(step, state, None, length=steps)[0] - 1.0) ** 2)

    return distance


def step_fluid(xp: Any, x: Any) -> Any:
    """Return a density after a step of diffusion and advection by shifts."""
    spread = xp.roll(x, 1, 0) + xp.roll(x, -1, 0) + xp.roll(x, 1, 1) + xp.roll(x, -1, 1) - 4.0 * x
    return x + 0.1 * spread - 0.05 * x * (xp.roll(x, 1, 0) - xp.roll(x, -1, 0))


def make_fluid(steps: int) -> Callable[..., Any]:
    """Return the sum of squares after a simulation, in NumPy."""

    def energy(x: Any) -> Any:
        for _ in range(steps):
            x = step_fluid(np, x)
        return np.sum(x * x)

    return energy


def make_fluid_scan(steps: int) -> Callable[..., Any]:
    """Return the same through `lax.scan`."""

    def energy(x: Any) -> Any:
        end, _ = jax.lax.scan(lambda x, _: (step_fluid(jnp, x), None), x, None, length=steps)
        return jnp.sum(end * end)

    return energy


def make_demo(xp: Any, points: Any, labels: Any) -> Callable[..., Any]:
    """Return the loss of micrograd's demo on arrays: 2-16-16-1 with relu, hinge loss, and L2 regularisation."""

    def loss(*parameters: Any) -> Any:
        x = points
        for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            x = xp.maximum(x @ weight + bias, 0.0)
        scores = (x @ parameters[-2] + parameters[-1])[:, 0]
        squares = sum(xp.sum(parameter * parameter) for parameter in parameters)
        return xp.mean(xp.maximum(1.0 - labels * scores, 0.0)) + 1e-4 * squares

    return loss


def prepare_demo() -> tuple[Any, ...]:
    """Return micrograd's demo with 100 points."""
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(100, 2)), rng.choice([-1.0, 1.0], 100)
    sizes = list(pairwise((2, 16, 16, 1)))
    parameters = [array for a, b in sizes for array in (rng.uniform(-1.0, 1.0, (a, b)), np.zeros(b))]
    ours, theirs = make_demo(np, points, labels), make_demo(jnp, jnp.asarray(points), jnp.asarray(labels))
    return "micrograd's demo on arrays (2-16-16-1, 100 points)", ours, theirs, parameters, tuple(range(6))


def read_recurrent(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the parameters of the layers, those of input and output, the state and the text of a file of ADBench."""
    layers, characters, bits = map(int, path.read_text().split("\n")[0].split())
    numbers = np.array(" ".join(path.read_text().split("\n")[1:]).split(), float)
    counts = np.cumsum([2 * layers * 4 * bits, 3 * bits, 2 * layers * bits])
    main, extra, state, text = np.split(numbers, counts)
    return (
        main.reshape(2 * layers, 4 * bits),
        extra.reshape(3, bits),
        state.reshape(2 * layers, bits),
        text.reshape(-1, bits)[:characters],
    )


def run_recurrent_cell(xp: Any, weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """Return hidden and cell state of one layer after one character."""
    size = hidden.shape[0]
    gates = xp.concatenate([x, hidden, x, hidden]) * weight + bias
    forget, ingate, outgate = (1.0 / (1.0 + xp.exp(-gates[k * size : (k + 1) * size])) for k in range(3))
    cell = cell * forget + ingate * xp.tanh(gates[3 * size :])
    return outgate * xp.tanh(cell), cell


def predict_character(xp: Any, main: Any, extra: Any, states: list[Any], x: Any) -> tuple[Any, list[Any]]:
    """Return the normalized prediction of the next character, and the new states."""
    x = x * extra[0]
    following = []
    for k in range(0, len(states), 2):
        hidden, cell = run_recurrent_cell(xp, main[k], main[k + 1], states[k], states[k + 1], x)
        following += [hidden, cell]
        x = hidden
    prediction = x * extra[1] + extra[2]
    return prediction - xp.log(xp.sum(xp.exp(prediction)) + 2.0), following


def make_recurrent(state: np.ndarray, text: np.ndarray) -> Callable[..., Any]:
    """Return the loss of ADBench's recurrent network, in NumPy."""

    def loss(main: Any, extra: Any) -> Any:
        states: list[Any] = list(state)
        total = 0.0
        for x, wanted in pairwise(text):
            prediction, states = predict_character(np, main, extra, states, x)
            total = total + np.sum(wanted * prediction)
        return -total / (len(text) - 1) / text.shape[1]

    return loss


def make_recurrent_scan(state: np.ndarray, text: np.ndarray) -> Callable[..., Any]:
    """Return the same through `lax.scan`."""

    def loss(main: Any, extra: Any) -> Any:
        def step(states: Any, pair: Any) -> Any:
            prediction, states = predict_character(jnp, main, extra, states, pair[0])
            return states, jnp.sum(pair[1] * prediction)

        pairs = (jnp.asarray(text[:-1]), jnp.asarray(text[1:]))
        _, totals = jax.lax.scan(step, [jnp.asarray(row) for row in state], pairs)
        return -jnp.sum(totals) / (len(text) - 1) / text.shape[1]

    return loss


def read_bundle(path: Path) -> tuple[np.ndarray, ...]:
    """Return camera, point, weight and feature of every observation of a file of ADBench."""
    first, *rest = path.read_text().strip().split("\n")
    _, _, count = map(int, first.split())
    camera, point, weight, feature = (np.array(line.split(), float) for line in rest)
    return np.tile(camera, (count, 1)), np.tile(point, (count, 1)), np.tile(weight, count), np.tile(feature, (count, 1))


def project_points(xp: Any, camera: Any, point: Any, weight: Any, feature: Any) -> tuple[Any, Any]:
    """Return both coordinates of the weighted reprojection errors, for all observations."""
    rotation, center, focal = camera[:, 0:3], camera[:, 3:6], camera[:, 6]
    square = xp.sum(rotation * rotation, 1)
    angle = xp.sqrt(square)
    axis = rotation / angle[:, None]
    moved = point - center
    across = xp.stack(
        [
            axis[:, 1] * moved[:, 2] - axis[:, 2] * moved[:, 1],
            axis[:, 2] * moved[:, 0] - axis[:, 0] * moved[:, 2],
            axis[:, 0] * moved[:, 1] - axis[:, 1] * moved[:, 0],
        ],
        1,
    )
    along = axis * (xp.sum(axis * moved, 1) * (1.0 - xp.cos(angle)))[:, None]
    turned = moved * xp.cos(angle)[:, None] + across * xp.sin(angle)[:, None] + along
    flat = turned[:, :2] / turned[:, 2:]
    radius = xp.sum(flat * flat, 1)
    distortion = 1.0 + camera[:, 9] * radius + camera[:, 10] * radius * radius
    seen = flat * (distortion * focal)[:, None] + camera[:, 7:9]
    error = weight[:, None] * (seen - feature)
    return error[:, 0], error[:, 1]


def make_bundle(xp: Any, feature: Any, coordinate: int) -> Callable[..., Any]:
    """Return the sum of one coordinate of all errors: its gradient has one row of the Jacobian per observation."""

    def total(camera: Any, point: Any, weight: Any) -> Any:
        return xp.sum(project_points(xp, camera, point, weight, feature)[coordinate])

    return total


def compare_with_jax(title: str, ours: Any, theirs: Any, arguments: Sequence[Any], argnums: Any) -> tuple[Table, Any]:
    """Compare `wg.compile` with `jax.jit` on one program: the first call, and later ones in turns."""
    given = jax.tree_util.tree_map(jnp.asarray, list(arguments))
    jitted = jax.jit(jax.value_and_grad(theirs, argnums))
    compiled = wg.compile(ours, argnums=argnums).value_and_grad
    first = {"wiregrad, wg.compile": time_calls(lambda: [compiled(*arguments) for _ in range(2)], 1)}
    first["JAX, jitted"] = time_calls(lambda: jax.block_until_ready(jitted(*given)), 1)
    value, wanted = float(compiled(*arguments)[0]), float(jitted(*given)[0])
    if not np.isclose(value, wanted, rtol=1e-5):
        raise AssertionError(f"{title}: wiregrad gives {value}, JAX {wanted}")
    calls: dict[str, Callable[[], Any]] = {
        "wiregrad, wg.compile": lambda: compiled(*arguments),
        "JAX, jitted": lambda: jax.block_until_ready(jitted(*given)),
    }
    # Turns of equal length: after its turn, the other one's code and values are in the caches.
    counts = {name: max(5, math.ceil(TURN_SECONDS / time_calls(call, 5))) for name, call in calls.items()}
    found = interleaved({name: partial(time_calls, call, counts[name]) for name, call in calls.items()}, 9)
    ratios = {name: time / found["wiregrad, wg.compile"] for name, time in found.items()}
    rows = [[name, milliseconds(time), f"{ratios[name]:.2f}", f"{first[name]:.2f} s"] for name, time in found.items()]
    head = ["framework", "processor time", "relative to wiregrad", "first result"]
    return Table(f"{title}; median of 9, taking turns.", head, rows), ratios


def list_programs() -> dict[str, Callable[[], tuple[Any, ...]]]:
    """Return the larger programs by name: title, the function in NumPy and in JAX, arguments, and `argnums`."""
    programs: dict[str, Callable[[], tuple[Any, ...]]] = {
        "demo": prepare_demo,
        "lorenz": lambda: (
            "Lorenz system, array state, 2,000 RK4 steps; JAX with lax.scan",
            make_lorenz(2000),
            make_lorenz_scan(2000),
            (np.array([1.0, 1.0, 1.0]), np.array([10.0, 28.0, 8.0 / 3.0])),
            (0, 1),
        ),
        "fluid": lambda: (
            "Fluid 100x100, 100 steps; JAX with lax.scan",
            make_fluid(100),
            make_fluid_scan(100),
            (np.random.default_rng(0).uniform(size=(100, 100)),),
            0,
        ),
    }
    folder = os.environ.get("WIREGRAD_ADBENCH")
    if not folder:
        return programs

    def prepare_mixture(name: str) -> tuple[Any, ...]:
        parameters, x, gamma, m = read_mixture(Path(folder) / f"{name}.txt")
        ours, theirs = make_mixture(np, x, gamma, m), make_mixture(jnp, jnp.asarray(x), gamma, m)
        return f"ADBench {name}", ours, theirs, parameters, (0, 1, 2)

    def prepare_recurrent() -> tuple[Any, ...]:
        main, extra, state, text = read_recurrent(Path(folder) / f"{RECURRENT}.txt")
        ours, theirs = make_recurrent(state, text), make_recurrent_scan(state, text)
        return f"ADBench {RECURRENT}; JAX with lax.scan", ours, theirs, (main, extra), (0, 1)

    def prepare_bundle() -> tuple[Any, ...]:
        *arguments, feature = read_bundle(Path(folder) / f"{BUNDLE}.txt")
        ours, theirs = make_bundle(np, feature, 0), make_bundle(jnp, jnp.asarray(feature), 0)
        title = f"ADBench {BUNDLE}, one coordinate: half of its Jacobian"
        return title, ours, theirs, arguments, (0, 1, 2)

    for name in MIXTURES:
        programs[name] = lambda name=name: prepare_mixture(name)
    return programs | {"lstm": prepare_recurrent, "bundle": prepare_bundle}


PHASE_SIZES = {10_000: 3, 100_000: 1}
"""About how many nodes the recordings have whose compilation is timed, and how often that is repeated."""
PHASES = ("trace", "merge", "sweep", "simplify", "lower", "program", "expand")
"""`program` is all that native code takes: lowering, planning memory, new kernels, and instructions."""
MOST_NODES = 1_000_000
"""Recordings of so many nodes take minutes and several GB; they are timed only where `phases` is asked for by name."""


def make_long_recordings(size: int) -> dict[str, tuple[Callable[..., Any], Arrays]]:
    """Return functions that record about `size` nodes on arrays, with their arguments."""
    rng = np.random.default_rng(size)
    text = rng.integers(0, 2, size=(size // 82, 14)).astype(float)
    weights = [rng.normal(size=(4, 56)), rng.normal(size=(3, 14))]
    return {
        "recurrent network (LSTM)": (make_recurrent(rng.normal(size=(4, 14)), text), weights),
        "Lorenz system": (make_lorenz(size // 91), [np.ones(3), np.array([10.0, 28.0, 8.0 / 3.0])]),
    }


def time_compile_phases(f: Callable[..., Any], arguments: Arrays) -> dict[str, float]:
    """Return the microseconds per recorded node of each phase of compiling a value and its gradient."""
    times: dict[str, float] = {}

    def timed(phase: str, work: Callable[[], Any]) -> Any:
        with pause_collection():
            begin = time.process_time()
            result = work()
            times[phase] = time.process_time() - begin
        return result

    circuit = timed("trace", lambda: wg.trace(f, *arguments))
    merged = timed("merge", lambda: merge_repeated(circuit.unchecked()))
    builder = GraphBuilder(finite=False)
    builder.recording.load_circuit(merged)
    flows = timed("sweep", lambda: sweep_ports(merged, builder, {merged.root(): builder.constant(1.0)}))
    labels = {f"y{node}": fill_absent(flows[node]) for node in merged.input_indices()}
    backward = timed("simplify", lambda: simplify(prune(builder.build(name="gradient", labels=labels))))
    timed("lower", lambda: lower_circuit(backward))
    timed("program", lambda: ArrayProgram(backward))
    with suppress(CircuitError):
        # Its arrays may be too large to be expanded.
        timed("expand", lambda: expand_unnamed(prune(circuit)))
    return {phase: 1e6 * spent / circuit.size for phase, spent in times.items()}


def measure_phases(sizes: dict[int, int]) -> tuple[Table, dict[str, Any]]:
    """Measure what compiling costs per recorded node, phase by phase; the best of some runs counts."""
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    for size, repeats in sizes.items():
        for name, (f, arguments) in make_long_recordings(size).items():
            runs = [time_compile_phases(f, arguments) for _ in range(repeats)]
            best = {phase: min(run.get(phase, math.inf) for run in runs) for phase in PHASES}
            figures[f"{name}, {size:,}"] = best
            rows.append([name, f"{size:,}", *(f"{each:.2f}" for each in best.values())])
    head = ["recording", "nodes", *PHASES]
    return Table("Microseconds of processor time per recorded node, by phase of compiling.", head, rows), figures


def compare_compiled(names: Collection[str]) -> Iterator[tuple[str, tuple[Table, Any]]]:
    """Compare the larger programs, all or those of these names, with `jax.jit`; training steps also with PyTorch."""
    for name, make_step in STEPS.items():
        if not names or name in names:
            yield name, compare_step(make_step())
    for name, prepare in list_programs().items():
        if not names or name in names:
            yield name, compare_with_jax(*prepare())


def measure_threads() -> tuple[Table, dict[str, Any]]:
    """Time the programs with one and two threads, by the clock and by the processor time of both together."""
    arrays = [np.random.default_rng(k).normal(size=1_000_000) for k in range(3)]
    programs: dict[str, tuple[Any, Sequence[Any], Any]] = {"sum of tanh, 10^6 elements": (total, arrays, (0, 1, 2))}
    for name, make_step in STEPS.items():
        step = make_step()
        programs[name] = (step.ours, step.arguments, 0)
    for name, prepare in list_programs().items():
        if name in (*MIXTURES, "bundle"):
            _, ours, _, arguments, argnums = prepare()
            programs[name] = (ours, arguments, argnums)
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    for name, (function, arguments, argnums) in programs.items():
        figures[name] = found = time_threads(function, arguments, argnums)
        clock = [found[f"clock, {threads}"] for threads in (1, 2)]
        spent = [found[f"processor, {threads}"] for threads in (1, 2)]
        same = "yes" if found["same bits"] else "NO"
        rows.append([name, *map(milliseconds, clock), f"{clock[0] / clock[1]:.2f}", f"{spent[1] / spent[0]:.2f}", same])
    head = ["program", "clock, one thread", "two threads", "faster by", "processor time, two to one", "same bits"]
    return Table("Value and gradient with one and two threads; median of 9, taking turns.", head, rows), figures


def time_threads(function: Any, arguments: Sequence[Any], argnums: Any) -> dict[str, Any]:
    """Return clock and processor time of one program with one and two threads, and whether results are the same."""
    compiled = wg.compile(function, argnums=argnums).value_and_grad

    def call(threads: int) -> Any:
        os.environ["WIREGRAD_THREADS"] = str(threads)
        return compiled(*arguments)

    call(1)
    bits = [[part.tobytes() for part in map(np.asarray, jax.tree_util.tree_leaves(call(k)))] for k in (1, 2)]
    tasks: dict[str, Callable[[], float]] = {}
    for threads in (1, 2):
        tasks[f"clock, {threads}"] = partial(seconds, partial(call, threads))
        tasks[f"processor, {threads}"] = partial(time_calls, partial(call, threads), 1)
    found: dict[str, Any] = interleaved(tasks, 9)
    os.environ["WIREGRAD_THREADS"] = "1"
    return found | {"same bits": bits[0] == bits[1]}


def check(tasks: dict[str, Task]) -> None:
    """Fail unless all tasks give the same value and gradients."""
    (first, task), *others = tasks.items()
    wanted = _flat(task())
    for name, other in others:
        got = _flat(other())
        if not np.allclose(got, wanted, rtol=1e-9, atol=1e-12):
            raise AssertionError(f"{name} and {first} differ by up to {np.abs(got - wanted).max()}")


def _flat(found: Gradient) -> np.ndarray:
    value, grads = found
    each = grads if isinstance(grads, tuple) else (grads,)
    return np.concatenate([np.ravel(np.asarray(part)) for part in (value, *each)])


def compare(size: int, wanted: str) -> tuple[Table, dict[str, float]]:
    """Time everybody in turns; returns the table and the ratios to wiregrad's eager code."""
    calls, repeats = SIZES[size]
    rng = np.random.default_rng(size)
    tasks = tasks_for([rng.normal(size=size) for _ in range(3)], WANTED[wanted])
    check(tasks)
    found = interleaved({name: lambda task=task: time_calls(task, calls) for name, task in tasks.items()}, repeats)
    ratios = {name: time / found["wiregrad"] for name, time in found.items()}
    compiled = found["wiregrad, wg.compile"]
    targets = [
        {name: f"at least {ratio:.2f}" for name, ratio in chosen.get(size, {}).items()}
        for chosen in (TARGETS, COMPILED_TARGETS)
    ]
    rows = []
    for name, spent in found.items():
        eager, replayed = (each.get(name, "") for each in targets)
        rows.append([name, f"{spent * 1e6:,.2f} us", f"{ratios[name]:.2f}", eager, f"{spent / compiled:.2f}", replayed])
    title = f"{size:,} elements, by {wanted}; median of {repeats}, taking turns."
    head = ["framework", "processor time", "relative to wiregrad", "target", "relative to wg.compile", "target"]
    return Table(title, head, rows), ratios


def run() -> Report:
    """Compare at all sizes, by one input and by all."""
    torch.set_num_threads(1)
    jax.config.update("jax_enable_x64", True)
    # Before each measurement the collector runs; without this it would walk all that the frameworks loaded.
    gc.freeze()
    tables: list[Table] = []
    figures: dict[str, Any] = {}
    names = [name for name in os.environ.get("WIREGRAD_ARRAY_PROGRAMS", "").split(",") if name]
    for size in SIZES if not names or "sums" in names else ():
        for wanted in WANTED:
            table, figures[f"{size}, by {wanted}"] = compare(size, wanted)
            tables.append(table)
    if not names or "phases" in names:
        table, figures["phases"] = measure_phases(PHASE_SIZES | ({MOST_NODES: 1} if names else {}))
        tables.append(table)
    if not names or "threads" in names:
        table, figures["threads"] = measure_threads()
        tables.append(table)
    for name, (table, ratios) in compare_compiled(names):
        tables.append(table)
        figures[name] = ratios
    gc.unfreeze()
    return Report(tables, figures)
