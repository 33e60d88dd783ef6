"""How long value and gradient take at many points, predicted and measured: 40 circuits on every engine.

    python -m benchmarks.cost_model [ENGINE...]     engines are `call`, `batch`, `executor` and `gpu`; by default all
    python -m benchmarks.cost_model new [ENGINE...] the same for 40 other circuits, at which no term was chosen
    python -m benchmarks.cost_model new SEED...     the same with other seeds for the random circuits among them
    python -m benchmarks.cost_model advice          from how many points which engine is the fastest

A circuit is described by a few numbers: its steps that are sums, products and the like, its calls of functions such as
`tanh`, those of sines at huge arguments, the numbers that go in and out per point, and its longest chain. A
`LinearCosts` has what each takes on the machine at hand; it is measured in some seconds at circuits that are none of
the 40. Single calls and batches are measured in processor time. The page docs/gpu.md has the results and the advice.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from benchmarks.gpu import KINDS, make_circuit, time_on_device, time_on_host
from wiregrad.api import Circuit
from wiregrad.backends.cuda.kernels import MAX_PLACED_STEPS
from wiregrad.backends.interpreter import evaluate_nodes
from wiregrad.backends.native.step_kinds import PlainStep, list_called_functions
from wiregrad.backends.native.tiers import plan_steps
from wiregrad.backends.native.vector_math import FORMATS
from wiregrad.errors import DeviceError
from wiregrad.ir import Pattern

SIZES = (40, 80, 150, 300, 500, 1000, 2000, 3000)
FUNCTION_KINDS = ("tanh", "sin", "exp", "tanh", "sin", "multiply")
SUM_KINDS = ("add", "subtract", "multiply", "add", "subtract", "tanh")
MIXES = {
    "mixed": (32, KINDS),
    "few inputs": (4, KINDS),
    "mostly sums": (8, SUM_KINDS),
    "functions": (16, FUNCTION_KINDS),
}
"""The number of inputs, and the ops, of random circuits."""
FORMULAS = {
    "option": "d = (log(s / k) + (r + v * v / 2) * t) / (v * sqrt(t)); e = d - v * sqrt(t); "
    "y = s * (1 + erf(d / sqrt(2))) / 2 - k * exp(-r * t) * (1 + erf(e / sqrt(2))) / 2",
    "network": "h1 = tanh(a * x + b * y); h2 = tanh(c * x + d * y); h3 = tanh(e * x + f * y); "
    "out = (h1 * g + h2 * h + h3 * i - 1) ** 2",
    "polynomial": "y = " + "(x * " * 30 + "z" + " + 0.5)" * 30,
    "energy": "y = 0.5 * (u * u + v * v + 2 * u * v * cos(a - b)) + 9.81 * (2 * cos(a) + cos(b))",
    "rosenbrock": "y = " + " + ".join(f"100 * (x{k + 1} - x{k} ** 2) ** 2 + (1 - x{k}) ** 2" for k in range(9)),
    "logistic": "z = " + " + ".join(f"w{k} * x{k}" for k in range(10)) + "; y = log(1 + exp(-z))",
    "chain": "y = " + "tanh(0.5 * x + " * 20 + "z" + ")" * 20,
    "distances": "y = " + " + ".join(f"sqrt((x{k} - x{k + 1}) ** 2 + (y{k} - y{k + 1}) ** 2 + 1)" for k in range(8)),
}
NEW_FORMULAS = {
    "mixture": "a = exp(-(x - m) ** 2 / (2 * s * s)) / s; b = exp(-(x - n) ** 2 / (2 * t * t)) / t; "
    "y = -log(w * a + (1 - w) * b)",
    "van der waals": "p = n * r * t / (v - n * b) - a * n * n / (v * v); y = (p - q) ** 2",
    "lens": "y = sqrt(1 + (a - h) ** 2) + 1.5 * sqrt(1 + (h - b) ** 2) + 1.2 * sqrt((b - c) ** 2 + d * d)",
    "kepler": "e1 = m + e * sin(m); e2 = m + e * sin(e1); e3 = m + e * sin(e2); e4 = m + e * sin(e3); "
    "y = a * (1 - e * cos(e4))",
    "softmax": "z = " + " + ".join(f"exp(x{k})" for k in range(8)) + "; y = log(z) - x3",
    "spline": "y = " + "(z - 0.25) * (0.5 + x * " * 15 + "z" + ")" * 15,
    "springs": "y = " + " + ".join(f"k{k} * (x{k + 1} - x{k} - 1) ** 2" for k in range(10)),
    "rotation": "u = x * cos(a) - y * sin(a); v = x * sin(a) + y * cos(a); w = v * cos(b) - z * sin(b); "
    "r = v * sin(b) + z * cos(b); q = (u - p) ** 2 + (w - s) ** 2 + (r - t) ** 2",
}
NEW_SEED = 1000
CALIBRATED = (
    (40, 40, KINDS),
    (800, 16, SUM_KINDS),
    (800, 16, FUNCTION_KINDS),
    (60, 4, SUM_KINDS),
    (60, 4, FUNCTION_KINDS),
    (80, 16, ("add", "subtract", "add", "multiply")),
    (120, 6, ("add", "subtract", "add", "multiply")),
    (250, 8, SUM_KINDS),
    (250, 8, FUNCTION_KINDS),
    (500, 4, KINDS),
    (2000, 32, KINDS),
    (2500, 16, SUM_KINDS),
    (2500, 16, FUNCTION_KINDS),
)
"""The number of nodes, of inputs, and the ops, of the circuits at which a machine is measured."""
CALIBRATED_FORMULAS = (
    "y = " + " + ".join(f"(x{k} - 0.5 * x{k + 1}) ** 2" for k in range(12)),
    "y = a * exp(-b * c) + (a - c) * sin(b)",
    "y = a * sin(1e9 * b) + b * sin(1e9 * a) + sin(1e9 * c)",
)
"""Circuits as people write them: values are used soon after they were computed. The last is far from 0."""
PERIODIC_OPS = ("sin", "cos", "tan")
SAMPLED_POINTS = 64
"""The number of points at which arguments of periodic functions are looked at."""
CACHED_STEPS = 600
"""Up to so many steps, code and values are in the processor's first caches."""
FUNCTION_DEPTH = 5
"""How many sums in a chain take as long as one function."""
WORK = 2e7
"""The number of points that are measured, times nodes."""
WARM_SECONDS = 0.5
"""How long calls are made before they are timed: code for calls that are made often is compiled meanwhile."""
WORKERS = 2
MAX_RATIO = 2.0


class CircuitWork(NamedTuple):
    """What value and gradient at one point consist of."""

    sums: int
    """Steps that call no function, forward and backward."""
    calls: int
    """Calls of functions."""
    numbers: int
    """Numbers that are read and written: inputs, the value, and the gradient."""
    depth: int
    """The length of the longest chain of nodes, in which each waits for the one before; functions count several."""
    far_calls: float = 0.0
    """Calls of periodic functions, on average, that are so far from 0 that the scalar function computes them."""

    def list_terms(self) -> list[float]:
        """Return what the time on a processor is a sum of; long code leaves the caches."""
        steps = self.sums + self.calls
        excess = np.log2(max(steps, CACHED_STEPS) / CACHED_STEPS)
        return [self.numbers, self.sums, self.calls, steps * float(excess), self.depth, self.far_calls]


def count_work(circuit: Circuit) -> CircuitWork:
    stream = plan_steps(circuit, 0).stream
    counts = np.bincount(stream.which, minlength=len(stream.keys)).tolist()
    calls = [len(list_called_functions(placed.key, stream.real)) for placed in stream.keys]
    steps = [not isinstance(placed.key, PlainStep) for placed in stream.keys]
    total = sum(count * is_step for count, is_step in zip(counts, steps, strict=True))
    called = sum(count * number for count, number in zip(counts, calls, strict=True))
    numbers = 2 * len(circuit.inputs) + 1
    return CircuitWork(max(total - called, 0), called, numbers, measure_depth(circuit), count_far_calls(circuit))


def measure_depth(circuit: Circuit) -> int:
    """Return the length of the longest chain of nodes."""
    depths = list[int]()
    for row in circuit.rows():
        own = FUNCTION_DEPTH if row.op.pattern is Pattern.SCALE else 1
        depths.append(max((depths[source] for source in row.sources), default=0) + own)
    return max(depths)


def count_far_calls(circuit: Circuit) -> float:
    """Return how many calls of periodic functions are far from 0 at a point, on average: the values and the slopes."""
    values = evaluate_nodes(circuit, list(draw_points(circuit, SAMPLED_POINTS).T))
    far = FORMATS["double"].far
    sizes = [np.abs(values[row.sources[0]]) for row in circuit.rows() if row.op.name in PERIODIC_OPS]
    return 2 * sum(float(np.mean((far <= size) & (size < np.inf))) for size in sizes)


class LinearCosts(NamedTuple):
    """Seconds that each term takes, after those that a call takes at all."""

    start: float
    each: tuple[float, ...]

    def predict(self, work: CircuitWork, count: int) -> float:
        return self.start + count * float(np.dot(self.each, work.list_terms()))


def fit_costs(
    works: Sequence[CircuitWork], counts: Sequence[int], seconds: Sequence[float], start: float
) -> LinearCosts:
    """Return the costs that explain measured seconds best, in proportion; none is negative."""
    rest = np.maximum(np.subtract(seconds, start), np.multiply(seconds, 0.05)) / counts
    table = np.array([work.list_terms() for work in works]) / rest[:, None]
    kept = list(range(table.shape[1]))
    while True:
        solution = np.linalg.lstsq(table[:, kept], np.ones(len(table)))[0]
        if (solution >= 0).all():
            break
        kept.pop(int(np.argmin(solution)))
    each = np.zeros(table.shape[1])
    each[kept] = solution
    return LinearCosts(start, tuple(each.tolist()))


def draw_points(circuit: Circuit, count: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(0.5, 1.5, (count, len(circuit.inputs)))


def choose_count(circuit: Circuit) -> int:
    """Return a number of points that takes about as long for every circuit."""
    return int(np.clip(WORK / circuit.size, 5_000, 10**6))


def time_call(
    call: Callable[[], Any], seconds: float = 0.1, read_clock: Callable[[], float] = time.process_time
) -> float:
    """Return the least seconds of a call, of at least three; by default of processor time."""
    times = list[float]()
    while len(times) < 3 or sum(times) < seconds:
        began = read_clock()
        call()
        times.append(read_clock() - began)
    return min(times)


def list_circuits(first_seed: int = 0) -> Iterator[tuple[str, Circuit]]:
    """Yield 40 circuits with their names: those at which the terms were chosen, or with a seed new ones."""
    for seed, (name, (inputs, kinds)) in enumerate(MIXES.items(), first_seed):
        for nodes in SIZES:
            yield f"{name}, {nodes} nodes", make_circuit(nodes, seed, inputs, kinds)
    for name, text in (NEW_FORMULAS if first_seed else FORMULAS).items():
        yield name, wg.circuit(text)


@cache
def list_calibrated() -> list[Circuit]:
    circuits = [make_circuit(nodes, 100 + k, inputs, kinds) for k, (nodes, inputs, kinds) in enumerate(CALIBRATED)]
    return [*map(wg.circuit, CALIBRATED_FORMULAS), *circuits]


class CallEngine:
    """Single calls on the processor."""

    name = "call"

    def measure(self, circuit: Circuit, count: int = 1) -> float:
        """Return the seconds of a call at one point, once the code is the one for calls that are made often."""
        compiled = circuit.compile()
        point = draw_points(circuit, 1)[0].tolist()
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_SECONDS:
            for _ in range(200):
                compiled.value_and_grad(point)

        def call_often() -> None:
            for _ in range(200):
                compiled.value_and_grad(point)

        return time_call(call_often, 0.02) / 200

    def calibrate(self) -> Callable[[CircuitWork, int], float]:
        """Return what predicts the seconds."""
        circuits = list_calibrated()
        start = self.measure(wg.circuit("y = a * a"))
        costs = fit_costs(
            [count_work(c) for c in circuits], [1] * len(circuits), list(map(self.measure, circuits)), start
        )
        return lambda work, count: costs.predict(work, 1)

    def choose_count(self, circuit: Circuit) -> int:
        return 1


class BatchEngine:
    """Batches on one core."""

    name = "batch"

    def measure(self, circuit: Circuit, count: int) -> float:
        """Return the seconds of a batch."""
        compiled = circuit.compile()
        points = draw_points(circuit, count)
        return time_call(lambda: compiled.batch_value_and_grad(points, threads=1))

    def calibrate(self) -> Callable[[CircuitWork, int], float]:
        """Return what predicts the seconds."""
        return measure_processor().predict

    def choose_count(self, circuit: Circuit) -> int:
        return choose_count(circuit)


@cache
def measure_processor() -> LinearCosts:
    """Return the costs of batches on one core."""
    engine = BatchEngine()
    circuits = list_calibrated()
    counts = [choose_count(circuit) for circuit in circuits]
    seconds = [engine.measure(circuit, count) for circuit, count in zip(circuits, counts, strict=True)]
    return fit_costs([count_work(c) for c in circuits], counts, seconds, engine.measure(wg.circuit("y = a * a"), 8))


class ExecutorEngine:
    """Batches of rows on two processes, with all results returned."""

    name = "executor"

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(WORKERS, mp_context=get_context("forkserver"))

    def measure(self, circuit: Circuit, count: int) -> float:
        """Return the seconds of a batch whose circuit the workers have compiled."""
        compiled = circuit.compile()
        points = draw_points(circuit, count)
        size = -(-count // 10)
        return time_call(
            lambda: compiled.batch_value_and_grad(points, executor=self._pool, chunk_size=size),
            read_clock=time.perf_counter,
        )

    def calibrate(self) -> Callable[[CircuitWork, int], float]:
        """Return what predicts the seconds: all processes share the cores, and the caller copies every number."""
        costs = measure_processor()
        tiny = wg.circuit("y = a * a")
        start = self.measure(tiny, 100)
        wide = make_circuit(40, 99, 40, KINDS)
        count = 100_000
        work = count_work(wide)
        # What a number costs beyond computing, over all processes.
        cores = min(WORKERS + 1, len(os.sched_getaffinity(0)))
        total = self.measure(wide, count) - start
        copied = max(total * min(cores, WORKERS) - costs.predict(work, count), 0.1 * total) / (count * work.numbers)
        long = list_calibrated()[-1]
        # The circuit travels with every chunk.
        sent = max(self.measure(long, 100) - start, 0.0) / sum(count_work(long)[:2])

        def predict(work: CircuitWork, count: int) -> float:
            shared = costs.predict(work, count) + count * work.numbers * copied
            return start + (work.sums + work.calls) * sent + shared / min(cores, WORKERS)

        return predict

    def choose_count(self, circuit: Circuit) -> int:
        return choose_count(circuit)

    def close(self) -> None:
        self._pool.shutdown()


class GpuCosts(NamedTuple):
    """What a GPU takes: memory and arithmetic overlap, so the longer one counts."""

    start: float
    """Seconds that beginning a batch takes at least."""
    number: float
    """Seconds to read or write a number of its memory."""
    step: float
    call: float
    placed_call: float
    """Seconds of a function in a short program, where it is written in place instead of called."""
    host_start: float
    host_number: float
    """Seconds to copy a number between NumPy arrays and the GPU."""

    def predict(self, work: CircuitWork, count: int) -> float:
        """Return the seconds for points that are on the GPU, where the results stay."""
        is_short = work.sums + work.calls <= MAX_PLACED_STEPS
        computing = work.sums * self.step + work.calls * (self.placed_call if is_short else self.call)
        return max(self.start, count * max(work.numbers * self.number, computing))

    def predict_from_host(self, work: CircuitWork, count: int) -> float:
        """Return the seconds for points in a NumPy array."""
        return self.host_start + count * work.numbers * self.host_number + self.predict(work, count)


class GpuEngine:
    """Batches on a GPU: of columns that are there, or of rows in NumPy arrays."""

    def __init__(self, *, from_host: bool) -> None:
        self.name = "gpu, from NumPy" if from_host else "gpu"
        self._from_host = from_host
        wg.circuit("y = a * a").compile(device="cuda")

    def measure(self, circuit: Circuit, count: int) -> float:
        """Return the seconds of a batch."""
        import cupy  # noqa: PLC0415  # only on a machine with a GPU

        compiled = circuit.compile(device="cuda")
        points = draw_points(circuit, count)
        if self._from_host:
            return time_on_host(lambda: compiled.batch_value_and_grad(points))
        columns = cupy.asarray(np.ascontiguousarray(points.T))
        return time_on_device(lambda: compiled.batch_value_and_grad(columns.T))

    def calibrate(self) -> Callable[[CircuitWork, int], float]:
        """Return what predicts the seconds."""
        costs = measure_gpu()
        return costs.predict_from_host if self._from_host else costs.predict

    def choose_count(self, circuit: Circuit) -> int:
        return 10**6


@cache
def measure_gpu() -> GpuCosts:
    """Return the costs of a GPU; four circuits are compiled for it."""
    there, host = GpuEngine(from_host=False), GpuEngine(from_host=True)
    tiny = wg.circuit("y = a * a")
    wide, sums, functions, _, placed, *_ = list_calibrated()[len(CALIBRATED_FORMULAS) :]
    count = 10**6
    numbers = count_work(wide).numbers
    copied = host.measure(wide, count) / count / numbers
    # Once buffers have been made.
    start, host_start = there.measure(tiny, 1000), host.measure(tiny, 1000)
    number = there.measure(wide, count) / count / numbers
    pairs = [count_work(sums), count_work(functions)]
    table = np.array([[work.sums, work.calls] for work in pairs], float)
    seconds = np.array([there.measure(sums, count), there.measure(functions, count)]) / count
    step, call = np.linalg.solve(table, seconds).tolist()
    if step < 0:
        step, call = 0.0, float(seconds[1] / pairs[1].calls)
    placed_work = count_work(placed)
    rest = there.measure(placed, count) / count - placed_work.sums * step
    return GpuCosts(start, number, step, call, max(rest / placed_work.calls, 0.0), host_start, copied)


def compare_engine(engine: Any, circuits: Sequence[tuple[str, Circuit]]) -> int:
    """Print predicted and measured seconds; return how many predictions are off by more than the factor."""
    began = time.perf_counter()
    predict = engine.calibrate()
    print(f"{engine.name}: measured the machine in {time.perf_counter() - began:.1f} s")
    print("| circuit | points | predicted | measured | ratio |\n| --- | ---: | ---: | ---: | ---: |")
    ratios = list[float]()
    for name, circuit in circuits:
        count = engine.choose_count(circuit)
        wanted = predict(count_work(circuit), count)
        seconds = engine.measure(circuit, count)
        ratios.append(wanted / seconds)
        print(f"| {name} | {count:,} | {_format(wanted)} | {_format(seconds)} | {ratios[-1]:.2f} |", flush=True)
    wrong = sum(not 1 / MAX_RATIO <= ratio <= MAX_RATIO for ratio in ratios)
    print(f"{engine.name}: {len(ratios) - wrong} of {len(ratios)} within a factor of {MAX_RATIO:.0f}, ", end="")
    print(f"ratios from {min(ratios):.2f} to {max(ratios):.2f}, middle {np.median(ratios):.2f}\n", flush=True)
    return wrong


def _format(seconds: float) -> str:
    unit, scale = next(
        pair for pair in (("s", 1.0), ("ms", 1e3), ("us", 1e6)) if seconds * pair[1] >= 1 or pair[1] == 1e6
    )
    return f"{seconds * scale:.3g} {unit}"


ADVICE_SIZES = ((20, 3), (100, 10), (1000, 10), (3000, 10))
"""The nodes and inputs of the circuits that advice is given for; a quarter of the nodes are functions."""


def print_advice(cores: int) -> None:
    """Print from how many points on each engine is faster than one core, as predicted."""
    costs = measure_processor()
    executor = ExecutorEngine()
    on_processes = executor.calibrate()
    executor.close()
    engines: dict[str, Callable[[CircuitWork, int], float]] = {
        f"{cores} threads": lambda work, count: costs.start + (costs.predict(work, count) - costs.start) / cores,
        f"{WORKERS} processes": on_processes,
    }
    try:
        gpu = measure_gpu()
        engines |= {"GPU, from NumPy": gpu.predict_from_host, "GPU, points there": gpu.predict}
    except (DeviceError, ImportError) as error:
        print(f"no GPU: {error}")
    print("| nodes | inputs | one core, 10^6 points |" + "".join(f" {name} |" for name in engines))
    print("| ---: | ---: | ---: |" + " ---: |" * len(engines))
    for nodes, inputs in ADVICE_SIZES:
        work = CircuitWork(int(1.75 * nodes), nodes // 4, 2 * inputs + 1, nodes // inputs)
        cells = [_format(costs.predict(work, 10**6))]
        for predict in engines.values():
            first = next((n for n in range(1, 9) if predict(work, 10**n) < costs.predict(work, 10**n)), None)
            gain = costs.predict(work, 10**7) / predict(work, 10**7)
            cells.append("never" if first is None else f"from 10^{first}, {gain:,.{0 if gain >= 10 else 1}f}x at 10^7")
        print(f"| {nodes} | {inputs} | " + " | ".join(cells) + " |")


def make_engines(names: Sequence[str]) -> Iterator[Any]:
    """Yield the engines with these names, or all that there are here."""
    if not names or "call" in names:
        yield CallEngine()
    if not names or "batch" in names:
        yield BatchEngine()
    if not names or "executor" in names:
        engine = ExecutorEngine()
        yield engine
        engine.close()
    if "gpu" in names or not names:
        try:
            yield GpuEngine(from_host=False)
            yield GpuEngine(from_host=True)
        except DeviceError as error:
            print(f"gpu: {error}")


def main() -> int:
    names = [name for name in sys.argv[1:] if name != "new" and not name.isdecimal()]
    seeds = [int(name) for name in sys.argv[1:] if name.isdecimal()] or [NEW_SEED * ("new" in sys.argv)]
    if "advice" in names:
        print_advice(len(os.sched_getaffinity(0)))
        return 0
    circuits = {seed: list(list_circuits(seed)) for seed in seeds}
    wrong = sum([compare_engine(engine, circuits[seed]) for engine in make_engines(names) for seed in seeds])
    print("holds" if not wrong else "DOES NOT HOLD")
    return bool(wrong)


if __name__ == "__main__":
    # Under its own name, so that workers find what they are sent.
    sys.exit(import_module("benchmarks.cost_model").main())
