"""Build, differentiate and free a random graph of scalar values: wiregrad beside micrograd, PyTorch and XAD.

The graph is straight-line Python, the same text for all. Two entrants say what could be had: the same text on plain
floats, which is the time of Python alone, and a tape written by hand in C, which is not driven by Python. Every node
reaches the output, since micrograd passes by those that do not. Python's collector is on, as users run it, and is
spared the frameworks' own modules, as users do not import all of them. A turn of every entrant takes at least 20 ms: in
a turn of a millisecond, most of the time would go to caches that the entrant before it has filled. Chain, memory and
training need no other framework but micrograd. All times are processor times.
"""

from __future__ import annotations

import ctypes
import gc
import math
import operator
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import xad.adj_1st
import xad.math
from micrograd.engine import Value as MicrogradValue

import wiregrad as wg
from benchmarks.measure import SHORTEST_TURN, VALUE_PARTS, Report, Table, interleaved, milliseconds, time_calls

SIZES = {1_000: (20, 15), 100_000: (2, 5)}
"""Nodes of the random graph, how many runs a turn has at least, and how many turns each framework takes."""
INPUTS = 10
OPS = {"+": 0.25, "-": 0.2, "*": 0.25, "scale": 0.2, "relu": 0.1}
"""The ops that everybody has, and how often they come; a scale is a product with a Python float."""
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
BOUND = 4.0
"""How large a value may be."""
CHAINS = {100_000: 5, 1_000_000: 3}
"""Nodes of the chain, and how often each is measured."""
FACTOR = 1.000001
"""So near 1 that the slope of the longest chain does not underflow."""
STEPS, RATE = 1_000, 0.05
TARGETS: dict[str, dict[int, float]] = {
    "micrograd": {1_000: 50.0, 100_000: 50.0},
    "PyTorch": {1_000: 50.0, 100_000: 50.0},
    "XAD": {1_000: 8.0, 100_000: 8.0},
    "C tape and floats": {1_000: 0.5, 100_000: 0.5},
}
"""How many times as long as wiregrad each should take, at least."""
C_TAPE = """
#include <stdlib.h>
#include <string.h>
typedef struct { double value, p, q; int a, b; } Node;
double sweep(int inputs, int nodes, const double *x, const int *op, const int *a, const int *b, const double *k,
             double *g)
{
    Node *tape = malloc(64 * sizeof(Node));
    int size = 0, room = 64;
    for (int n = 0; n < inputs + nodes; n++) {
        if (size == room)
            tape = realloc(tape, (room *= 2) * sizeof(Node));
        Node *node = &tape[size++];
        if (n < inputs) {
            *node = (Node){x[n], 0.0, 0.0, -1, -1};
            continue;
        }
        int m = n - inputs, i = a[m], j = b[m];
        double u = tape[i].value, v = j < 0 ? k[m] : tape[j].value;
        switch (op[m]) {
        case 0: *node = (Node){u + v, 1.0, 1.0, i, j}; break;
        case 1: *node = (Node){u - v, 1.0, -1.0, i, j}; break;
        case 2: *node = (Node){u * v, v, u, i, j}; break;
        default: *node = (Node){u > 0.0 ? u : 0.0, u > 0.0, 0.0, i, -1}; break;
        }
    }
    double *grads = calloc(size, sizeof(double)), y = tape[size - 1].value;
    grads[size - 1] = 1.0;
    for (int n = size - 1; n >= inputs; n--) {
        if (tape[n].b >= 0)
            grads[tape[n].b] += grads[n] * tape[n].q;
        grads[tape[n].a] += grads[n] * tape[n].p;
    }
    memcpy(g, grads, inputs * sizeof(double));
    free(grads);
    free(tape);
    return y;
}
"""
"""A tape as one writes it in C: it grows, and stores values and slopes; the graph comes as arrays."""
C_SIGNS = {"+": 0, "-": 1, "*": 2}
OPERATIONS = {
    "v * w": "u * v",
    "v * w + u, each of two ops": "u * v + w",
    "leaf * v": "x * u",
    "leaf * leaf": "x * y",
    "v + 1": "u + 1",
    "2 * v": "2 * u",
    "v ** 2": "u ** 2",
    "v += w": "u += v",
    "v * np.float64": "u * number",
    "np.float64 * v": "number * u",
    "v.relu()": "u.relu()",
    "v.tanh()": "u.tanh()",
    "np.tanh(v)": "np.tanh(u)",
    "a float * a float": "one * one",
    "math.tanh(a float)": "math.tanh(one)",
    "np.tanh(a float)": "np.tanh(one)",
    "np.tanh(an object that does nothing)": "np.tanh(bare)",
    "np.float64 * an object that does nothing": "number * bare",
}
"""Kinds of ops, each as a statement on recorded numbers `u`, `v`, `w`, leaves `x`, `y`, and plain numbers.

The last two are what NumPy takes to find out that an operand is not its own, and to ask it.
"""
REPEATS = 200
"""How often a function repeats an op."""
NO_OPERATION = "the tape alone"
DEMO_TARGETS = {"micrograd": 20.0, "XAD": 3.0}
"""The same for a training step of micrograd's demo."""
RATIO_TARGET, GROWTH_TARGET = 15.0, 1_000_000

Gradient = tuple[float, list[float]]


class RandomGraph:
    """A random graph as lines of Python; sources are any nodes before, so its depth grows with the log of its size."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.point: list[float] = self.rng.uniform(-1.5, 1.5, INPUTS).tolist()
        self.found = list(self.point)
        self.unread = set(range(INPUTS))
        self.lines: list[str] = []
        while len(self.lines) + len(self.unread) <= nodes:
            self._grow()
        loose = sorted(self.unread)
        while len(loose) > 1:
            loose = [*loose[2:], self._add("{} + {}", (loose[0], loose[1]))]
        self.size = len(self.lines)

    def _grow(self) -> None:
        """Add a random op; one whose value would be too large, or stand on the kink of relu, becomes a scale."""
        op = self.rng.choice(list(OPS), p=list(OPS.values()))
        a, b = self.rng.integers(0, len(self.found), 2).tolist()
        x = self.found[a]
        if op == "relu" and x != 0.0:
            self._add("{}.relu()", (a,), max(x, 0.0))
        elif op in ARITHMETIC and abs(value := ARITHMETIC[op](x, self.found[b])) <= BOUND:
            self._add(f"{{}} {op} {{}}", (a, b), value)
        else:
            factor = float(self.rng.uniform(0.5, 0.99) * self.rng.choice([-1.0, 1.0]))
            self._add(f"{{}} * {factor!r}", (a,), x * factor)

    def _add(self, text: str, sources: tuple[int, ...], value: float = math.nan) -> int:
        self.unread.difference_update(sources)
        self.unread.add(len(self.found))
        self.lines.append(f"v{len(self.found)} = {text.format(*(f'v{source}' for source in sources))}")
        self.found.append(value)
        return len(self.found) - 1

    def function(self, relu: str = r"\1.relu()") -> Callable[..., Any]:
        """Return the graph as a function of its inputs and of what is called while all values are alive."""
        names = ", ".join(f"v{k}" for k in range(INPUTS))
        body = [*self.lines, "probe()", f"return v{len(self.found) - 1}"]
        text = "\n    ".join([f"def graph({names}, probe=int):", *body])
        scope: dict[str, Any] = {"max": xad.math.max}
        exec(re.sub(r"(v\d+)\.relu\(\)", relu, text), scope)
        graph: Callable[..., Any] = scope["graph"]
        return graph


def run_wiregrad(graph: Callable[..., Any], point: Sequence[float]) -> Gradient:
    """Record and differentiate with wiregrad."""
    leaves = [wg.Value(x) for x in point]
    y = graph(*leaves)
    y.backward()
    return y.data, [leaf.grad for leaf in leaves]


def run_micrograd(graph: Callable[..., Any], point: Sequence[float]) -> Gradient:
    """Record and differentiate with micrograd."""
    leaves = [MicrogradValue(x) for x in point]
    y = graph(*leaves)
    y.backward()
    return y.data, [leaf.grad for leaf in leaves]


def run_torch(graph: Callable[..., Any], point: Sequence[float]) -> Gradient:
    """Record and differentiate with PyTorch's numbers."""
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    y = graph(*leaves)
    y.backward()
    return y.item(), [leaf.grad.item() for leaf in leaves]


def run_xad(tape: xad.adj_1st.Tape, graph: Callable[..., Any], point: Sequence[float]) -> Gradient:
    """Record and differentiate with XAD, on a tape that keeps its memory from run to run."""
    tape.clearAll()
    tape.activate()
    leaves = [xad.adj_1st.Real(x) for x in point]
    tape.registerInputs(leaves)
    tape.newRecording()
    y = graph(*leaves)
    tape.registerOutput(y)
    y.derivative = 1.0
    tape.computeAdjoints()
    slopes = [leaf.derivative for leaf in leaves]
    tape.deactivate()
    return y.value, slopes


class CTape:
    """The tape in C, and a graph as the arrays that drive it."""

    def __init__(self, graph: RandomGraph) -> None:
        rows = [self._read_line(line) for line in graph.lines]
        self.columns = [np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), "iiid", strict=True)]
        self.point = np.array(graph.point)
        self.slopes = np.zeros(INPUTS)
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "tape.c"
            source.write_text(C_TAPE, encoding="utf-8")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/tape.so", str(source)], check=True)
            self.sweep = ctypes.CDLL(f"{folder}/tape.so").sweep
        self.sweep.restype = ctypes.c_double
        arrays = (self.point, *self.columns, self.slopes)
        self.arguments = [INPUTS, len(rows), *(ctypes.c_void_p(array.ctypes.data) for array in arrays)]

    def _read_line(self, line: str) -> tuple[int, int, int, float]:
        text = line.split(" = ")[1]
        if text.endswith(".relu()"):
            return 3, int(text[1:].removesuffix(".relu()")), -1, 0.0
        one, sign, two = text.split(" ")
        is_node = two.startswith("v")
        return C_SIGNS[sign], int(one[1:]), int(two[1:]) if is_node else -1, 0.0 if is_node else float(two)

    def run(self) -> Gradient:
        """Build, differentiate and free the graph."""
        return self.sweep(*self.arguments), self.slopes.tolist()


def check(tasks: dict[str, Callable[[], Gradient]]) -> None:
    """Fail unless all tasks give the same value and gradient, up to rounding of sums in another order."""
    (first, task), *others = tasks.items()
    value, slopes = task()
    scale = max(map(abs, slopes))
    for name, other in others:
        got = other()
        close = math.isclose(got[0], value, rel_tol=1e-9) and np.allclose(got[1], slopes, rtol=1e-9, atol=1e-9 * scale)
        if not close:
            raise AssertionError(f"{name} gives {got}; {first} gives {(value, slopes)}")


@contextmanager
def collector(*, on: bool) -> Iterator[None]:
    """Run with Python's collector on or off, after it has run once."""
    gc.collect()
    (gc.enable if on else gc.disable)()
    try:
        yield
    finally:
        gc.enable()


def seconds(task: Callable[[], object], runs: int, *, collecting: bool = True) -> float:
    """Return how long a run takes, out of several in a row: what one leaves to the collector, the next may pay for."""
    with collector(on=collecting):
        start = time.process_time()
        for _ in range(runs):
            task()
        return (time.process_time() - start) / runs


def count_runs(task: Callable[[], object], least: int) -> int:
    """Return how many runs a turn of a task has."""
    return max(least, 1 + int(SHORTEST_TURN / time_calls(task, 1)))


class Race:
    """The frameworks on one graph."""

    def __init__(self, nodes: int) -> None:
        graph, (runs, turns) = RandomGraph(nodes, seed=nodes), SIZES[nodes]
        self.nodes, self.size = nodes, graph.size
        text, text_xad, tape = graph.function(), graph.function(r"max(\1, 0.0)"), xad.adj_1st.Tape()
        tasks = {
            "wiregrad": lambda: run_wiregrad(text, graph.point),
            "micrograd": lambda: run_micrograd(text, graph.point),
            "PyTorch": lambda: run_torch(text, graph.point),
            "XAD": lambda: run_xad(tape, text_xad, graph.point),
            "C tape": CTape(graph).run,
        }
        check(tasks)
        text_floats = graph.function(r"abs(\1)")
        entrants = {**tasks, "plain floats": lambda: text_floats(*graph.point)}
        timers = {name: partial(seconds, task, count_runs(task, runs)) for name, task in entrants.items()}
        timers["micrograd, collector off"] = partial(timers["micrograd"], collecting=False)
        self.times = interleaved(timers, turns)
        self.times["C tape and floats"] = self.times["C tape"] + self.times["plain floats"]
        self.ratios = {name: time / self.times["wiregrad"] for name, time in self.times.items()}

    def table(self) -> Table:
        """Return times, ratios and targets."""
        rows = [[name, milliseconds(time), self._each(time), *self._ratio(name)] for name, time in self.times.items()]
        title = f"Build, backward and free, {self.size:,} nodes, median of {SIZES[self.nodes][1]} turns."
        return Table(title, ["framework", "time", "per node", "relative to wiregrad", "target"], rows)

    def _each(self, time: float) -> str:
        return f"{time / self.size * 1e6:.3f} us"

    def _ratio(self, name: str) -> tuple[str, str]:
        target = TARGETS.get(name, {}).get(self.nodes)
        return f"{self.ratios[name]:.2f}", "" if target is None else f"at least {target:g}"


def bytes_per_node() -> dict[str, float]:
    """Return the memory that a node takes while all values are alive, and in a chain whose last value is alive."""
    graph = RandomGraph(10_000, seed=1)
    text = graph.function()
    found = {}
    for name, kind in {"wiregrad": wg.Value, "micrograd": MicrogradValue}.items():
        text(*map(kind, graph.point))
        gc.collect()
        with traced() as held:
            text(*map(kind, graph.point), lambda held=held, name=name: found.update({name: held()[0] / graph.size}))
    gc.collect()
    with traced() as held:
        y = x = wg.Value(0.5)
        for _ in range(50_000):
            y = y.tanh() * FACTOR
        y.backward()
        found[HELD], found[PEAK] = (size / 100_000 for size in held())
    del x, y
    return found


HELD, PEAK = "wiregrad, rows and gradients alone", "wiregrad, the same at its peak"
BYTES_TARGETS = {HELD: 64.0, PEAK: 128.0}
"""How many bytes a node may take at most."""


@contextmanager
def traced() -> Iterator[Callable[[], tuple[int, int]]]:
    """Yield a function that tells how many bytes more are held than in the beginning, and how many were at most."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    def measure() -> tuple[int, int]:
        now, peak = tracemalloc.get_traced_memory()
        return now - before, peak - before

    try:
        yield measure
    finally:
        tracemalloc.stop()


class ChainTimes(NamedTuple):
    """How long each part of a chain's life takes."""

    record: float
    backward: float
    free: float


def chain_times(size: int) -> ChainTimes:
    """Record, differentiate and free a chain of `size` nodes."""
    with collector(on=True):
        start = time.process_time()
        x = y = wg.Value(0.5)
        for _ in range(size // 2):
            y = y.tanh() * FACTOR
        recorded = time.process_time()
        y.backward()
        passed = time.process_time()
        got = y.data, x.grad
        del x, y
        freed = time.process_time()
    assert np.allclose(got, plain_chain(size), rtol=1e-9, atol=0.0)
    return ChainTimes(recorded - start, passed - recorded, freed - passed)


def plain_chain(size: int) -> tuple[float, float]:
    """Return the chain's value and slope, computed with floats."""
    y, slope = 0.5, 1.0
    for _ in range(size // 2):
        t = math.tanh(y)
        y, slope = t * FACTOR, slope * (1.0 - t * t) * FACTOR
    return y, slope


def chain_table() -> tuple[Table, dict[str, float]]:
    """Measure chains of all sizes under the usual recursion limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    lives = {size: [chain_times(size) for _ in range(repeats)] for size, repeats in CHAINS.items()}
    sys.setrecursionlimit(before)
    small, large = (ChainTimes(*map(statistics.median, zip(*found, strict=True))) for found in lives.values())
    sizes = list(CHAINS)
    parts = {name: (getattr(small, name), getattr(large, name)) for name in ChainTimes._fields}
    parts["all"] = sum(small), sum(large)
    ratios = {name: b / a for name, (a, b) in parts.items()}
    rows = [
        [name, milliseconds(a), milliseconds(b), f"{ratios[name]:.1f}", *_each(a, b, sizes)]
        for name, (a, b) in parts.items()
    ]
    title = f"A chain at recursion limit 1000; ten times the nodes may take {RATIO_TARGET:g} times as long."
    head = ["stage", *(f"{size:,} nodes" for size in sizes), "ratio", *("per node" for _ in sizes)]
    return Table(title, head, rows), ratios


def _each(a: float, b: float, sizes: Sequence[int]) -> list[str]:
    return [f"{time / size * 1e6:.2f} us" for time, size in zip((a, b), sizes, strict=True)]


class Perceptron:
    """Two inputs, six hidden nodes with relu, one output: trained on XOR."""

    SAMPLES = ((0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0))

    def __init__(self, kind: Callable[[float], Any]) -> None:
        rng = np.random.default_rng(0)
        self.hidden = [[kind(x) for x in row] for row in rng.normal(size=(6, 3)).tolist()]
        self.last = [kind(x) for x in rng.normal(size=7).tolist()]
        self.parameters = [*self.last, *(x for row in self.hidden for x in row)]

    def step(self) -> None:
        """Take one step down the gradient of the loss."""
        for parameter in self.parameters:
            parameter.grad = 0.0
        loss = sum((self._error(*sample) for sample in self.SAMPLES), 0.0)
        loss.backward()
        for parameter in self.parameters:
            parameter.data -= RATE * parameter.grad

    def _error(self, a: float, b: float, wanted: float) -> Any:
        nodes = [(row[0] * a + row[1] * b + row[2]).relu() for row in self.hidden]
        *weights, bias = self.last
        error = sum((weight * node for weight, node in zip(weights, nodes, strict=True)), bias) - wanted
        return error * error


class DemoNetwork:
    """The network of micrograd's demo: 2-16-16-1 with relu, hinge loss on 100 points, and L2 regularisation."""

    SIZES = (2, 16, 16, 1)

    def __init__(self, kind: Callable[[float], Any], relu: Callable[[Any], Any]) -> None:
        rng = np.random.default_rng(0)
        self.kind, self.relu = kind, relu
        self.points: list[list[float]] = rng.normal(size=(100, 2)).tolist()
        self.labels = [1.0 if a * b > 0.0 else -1.0 for a, b in self.points]
        shapes = zip(self.SIZES, self.SIZES[1:], strict=False)
        self.layers = [
            [([kind(x) for x in row], kind(0.0)) for row in rng.uniform(-1, 1, (outputs, inputs)).tolist()]
            for inputs, outputs in shapes
        ]
        self.parameters = [p for layer in self.layers for weights, bias in layer for p in (*weights, bias)]

    def score(self, values: list[Any]) -> Any:
        """Return what the network answers for a point."""
        for layer in self.layers:
            sums = [sum((w * x for w, x in zip(weights, values, strict=True)), bias) for weights, bias in layer]
            values = sums if len(sums) == 1 else [self.relu(total) for total in sums]
        return values[0]

    def loss(self) -> Any:
        """Return the loss of all points."""
        scores = [self.score([self.kind(x) for x in point]) for point in self.points]
        losses = [self.relu(1 + -label * score) for label, score in zip(self.labels, scores, strict=True)]
        return sum(losses) * (1.0 / len(losses)) + 1e-4 * sum(p * p for p in self.parameters)

    def step(self) -> float:
        """Take one step down the gradient of the loss."""
        for parameter in self.parameters:
            parameter.grad = 0.0
        loss = self.loss()
        loss.backward()
        for parameter in self.parameters:
            parameter.data -= RATE * parameter.grad
        return float(loss.data)

    def step_xad(self, tape: xad.adj_1st.Tape) -> float:
        """Compute the same gradient with XAD, whose numbers cannot be given new values in place."""
        tape.clearAll()
        tape.activate()
        tape.registerInputs(self.parameters)
        tape.newRecording()
        loss = self.loss()
        tape.registerOutput(loss)
        loss.derivative = 1.0
        tape.computeAdjoints()
        _ = [parameter.value - RATE * parameter.derivative for parameter in self.parameters]
        tape.deactivate()
        return float(loss.value)


class BareOperand:
    """An object that NumPy asks, and that answers at once."""

    def __array_ufunc__(self, *_args: object) -> None:
        """Compute nothing."""


def make_operation(text: str) -> Callable[[], object]:
    """Return a function that records one op many times, on a tape of its own."""
    names = "u, v, w, x, y, number, one, bare"
    scope: dict[str, Any] = {"np": np, "math": math}
    exec(f"def operate({names}):\n" + f"    {text}\n" * REPEATS, scope)

    def record() -> None:
        x = wg.Value(0.5)
        y = wg.Value(0.7)
        scope["operate"](x * 1.0, y * 1.0, x * y, x, y, np.float64(1.5), 0.6, BareOperand())

    return record


def operations_table() -> tuple[Table, dict[str, float]]:
    """Measure each kind of op, without the time that a tape and its first nodes take."""
    tasks = {name: make_operation(text) for name, text in {NO_OPERATION: "pass", **OPERATIONS}.items()}
    found = interleaved({name: lambda task=task: time_calls(task, 20) for name, task in tasks.items()}, 15)
    empty = found.pop(NO_OPERATION)
    times = {name: (time - empty) / REPEATS / (2 if "two ops" in name else 1) for name, time in found.items()}
    ratios = {name: time / times["v * w"] for name, time in times.items()}
    rows = [[name, f"{time * 1e9:.0f} ns", f"{ratios[name]:.2f}"] for name, time in times.items()]
    title = "Kinds of ops, recorded and freed, median of 15 turns; the last five record nothing."
    return Table(title, ["op", "time", "relative to v * w"], rows), ratios


def demo_table() -> tuple[Table, dict[str, float]]:
    """Measure one training step of micrograd's demo."""
    tape = xad.adj_1st.Tape()
    in_xad = DemoNetwork(xad.adj_1st.Real, lambda x: xad.math.max(x, 0.0))
    tasks: dict[str, Callable[[], float]] = {
        "wiregrad": DemoNetwork(wg.Value, lambda x: x.relu()).step,
        "micrograd": DemoNetwork(MicrogradValue, lambda x: x.relu()).step,
        "XAD": lambda: in_xad.step_xad(tape),
    }
    losses = {name: task() for name, task in tasks.items()}
    if not np.allclose(list(losses.values()), losses["wiregrad"], rtol=1e-9):
        raise AssertionError(f"the losses differ: {losses}")
    times = interleaved({name: lambda task=task: seconds(task, 1) for name, task in tasks.items()}, 5)
    ratios = {name: time / times["wiregrad"] for name, time in times.items()}
    rows = [
        [
            name,
            milliseconds(time),
            f"{ratios[name]:.2f}",
            f"at least {DEMO_TARGETS[name]:g}" if name in DEMO_TARGETS else "",
        ]
        for name, time in times.items()
    ]
    title = "A training step of micrograd's demo (2-16-16-1, 100 points, hinge loss and L2), median of 5 turns."
    return Table(title, ["framework", "time", "relative to wiregrad", "target"], rows), ratios


def growth(kind: Callable[[float], Any]) -> tuple[float, float]:
    """Return how many bytes training leaves behind with the collector off, by tracemalloc and as the system sees it."""
    model = Perceptron(kind)
    with collector(on=False), traced() as held:
        for _ in range(10):
            model.step()
        before, resident_before = held()[0], resident()
        for _ in range(STEPS):
            model.step()
        return held()[0] - before, resident() - resident_before


def resident() -> float:
    """Return the memory of this process that the system keeps in store; NaN where it does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS")), math.nan)


def memory_tables() -> tuple[list[Table], dict[str, dict[str, float]]]:
    """Measure nodes, and training with the collector off."""
    each = bytes_per_node()
    kinds: dict[str, Callable[[float], Any]] = {"wiregrad": wg.Value, "micrograd": MicrogradValue}
    left = {name: growth(kind) for name, kind in kinds.items()}
    per_node = Table(
        "Bytes per node while all values are alive, and in a chain of 100,000 nodes after its backward pass, where "
        "only the last value is.",
        ["framework", "bytes per node", "target"],
        [[name, f"{held:.1f}", *_bytes_target(name)] for name, held in each.items()],
    )
    training = Table(
        f"What {STEPS:,} training steps leave behind with the collector off; "
        f"wiregrad should stay within {GROWTH_TARGET / 1e6:g} MB.",
        ["framework", "allocated", "resident"],
        [[name, *(f"{size / 1e6:,.3f} MB" for size in sizes)] for name, sizes in left.items()],
    )
    return [per_node, training], {"bytes per node": each, "growth": {name: size for name, (size, _) in left.items()}}


def _bytes_target(name: str) -> list[str]:
    return [f"at most {BYTES_TARGETS[name]:g}" if name in BYTES_TARGETS else ""]


FIRST_CALL_NODES, FIRST_CALLS, FIRST_CALL_TARGET = 140_000, 5, 3.0
TRACED_SIZES = {10_000: 5, 100_000: 3, 1_000_000: 1}
"""Numbers of nodes of the functions that are traced, and how often each is measured; the least time counts."""
TRACE_TARGET = 1.5
"""The microseconds that tracing a node may take."""


def write_lines(nodes: int, line: str, nodes_a_line: int) -> Callable[..., Any]:
    """Return a function of straight-line code, with a variable for every line."""
    lines = [f"    {line.format(k, k - 1)}" for k in range(1, nodes // nodes_a_line + 1)]
    variables: dict[str, Any] = {"np": np}
    text = "\n".join(["def f(x, y):", "    v0 = x", *lines, f"    return v{nodes // nodes_a_line} * y"])
    exec(compile(text, "straight_line.py", "exec"), variables)
    function: Callable[..., Any] = variables["f"]
    return function


def make_loop(nodes: int) -> Callable[..., Any]:
    """Return a function with a loop over whole numbers, ten nodes a step."""

    def f(x: Any, y: Any) -> Any:
        for _k in range(nodes // 10):
            a = x * y
            b = (a + 0.5) * x - y
            c = (b * 0.25 + x) * 0.5 - a
            x = c * 0.125 + y
        return x

    return f


def make_while(nodes: int) -> Callable[..., Any]:
    """Return a function with a loop of another kind, two nodes a step."""

    def f(x: Any, y: Any) -> Any:
        left = nodes // 2
        while left:
            x = x * 0.99 + y
            left -= 1
        return x

    return f


def make_calls(nodes: int) -> Callable[..., Any]:
    """Return a function that calls another one in a loop, two nodes a call."""

    def blend(x: Any, y: Any) -> Any:
        return x * 0.99 + y

    def f(x: Any, y: Any) -> Any:
        for _k in range(nodes // 2):
            x = blend(x, y)
        return x

    return f


class TracedNeuron:
    """A part of a model: three nodes a call."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def __call__(self, x: Any, y: Any) -> Any:
        return (x * self.weight + y) * 0.5


class TracedLayer:
    """A model of eight parts."""

    def __init__(self) -> None:
        self.neurons = [TracedNeuron(0.1 * k) for k in range(8)]

    def step(self, x: Any, y: Any) -> Any:
        """Call all parts."""
        for neuron in self.neurons:
            x = neuron(x, y)
        return x


def make_methods(nodes: int) -> Callable[..., Any]:
    """Return a function that calls methods of objects, which call methods of others."""
    layer = TracedLayer()

    def f(x: Any, y: Any) -> Any:
        for _k in range(nodes // 24):
            x = layer.step(x, y)
        return x

    return f


def make_branches(nodes: int) -> Callable[..., Any]:
    """Return a function with a branch in a loop: a comparison and two more nodes a step."""

    def f(x: Any, y: Any) -> Any:
        for _k in range(nodes // 3):
            x = x * 0.9 + y if x > 0.5 else x * 1.1 + 0.1
        return x

    return f


TRACED_CODE: dict[str, Callable[[int], Callable[..., Any]]] = {
    "straight line": lambda nodes: write_lines(nodes, "v{0} = v{1} * 0.9999 + y", 2),
    "methods of numbers": lambda nodes: write_lines(nodes, "v{0} = v{1}.tanh()", 1),
    "NumPy functions": lambda nodes: write_lines(nodes, "v{0} = np.tanh(v{1})", 1),
    "for": make_loop,
    "while": make_while,
    "functions": make_calls,
    "methods of objects": make_methods,
    "branches": make_branches,
}
"""Functions of some number of nodes, by the kind of their code."""


def time_once(task: Callable[..., object]) -> float:
    """Return the processor time of one call of a traced or differentiated function."""
    start = time.process_time()
    task(0.5, 0.25)
    return time.process_time() - start


def trace_table() -> tuple[Table, dict[str, float]]:
    """Measure tracing, beside one eager gradient of the same function, in processor time."""
    rows: list[list[str]] = []
    figures: dict[str, float] = {}
    # The first trace of a process loads modules, as its first gradient does.
    wg.trace(lambda x: x * x, 1.0)
    for nodes, repeats in TRACED_SIZES.items():
        for name, make in TRACED_CODE.items():
            f = make(nodes)
            differentiate = wg.value_and_grad(f)
            trace = partial(wg.trace, f)
            differentiate(0.5, 0.25)
            eager = min(time_once(differentiate) for _ in range(repeats))
            traced = min(time_once(trace) for _ in range(repeats))
            figures[f"{name} {nodes}"] = each = traced / nodes * 1e6
            rows.append([name, f"{nodes:,}", f"{each:.2f}", f"{traced / eager:.1f}"])
    caption = f"`wg.trace`, microseconds per node (at most {TRACE_TARGET:g} wanted), and beside one eager gradient."
    return Table(caption, ["code", "nodes", "us per node", "times an eager gradient"], rows), figures


def first_call_table() -> tuple[Table, dict[str, float]]:
    """Measure the first call of a compiled function beside one eager gradient, in processor time."""
    rows: list[list[str]] = []
    figures: dict[str, float] = {}
    # The first call of a process loads modules.
    wg.compile(make_loop(FIRST_CALL_NODES)).value_and_grad(0.5, 0.25)
    for name, make in TRACED_CODE.items():
        pairs = []
        for _ in range(FIRST_CALLS):
            f = make(FIRST_CALL_NODES)
            eager = time_once(wg.value_and_grad(f))
            pairs.append((eager, time_once(wg.compile(f).value_and_grad)))
        eager, first = map(statistics.median, zip(*pairs, strict=True))
        figures[name] = first / eager
        rows.append([name, milliseconds(eager), milliseconds(first), f"{first / eager:.2f}"])
    caption = (
        f"The first `wg.compile(f).value_and_grad` of {FIRST_CALL_NODES:,} nodes beside one eager gradient (at most "
        f"{FIRST_CALL_TARGET:g} times wanted), median of {FIRST_CALLS} functions."
    )
    return Table(caption, ["code", "eager gradient", "first call", "ratio"], rows), figures


def measure_graphs() -> tuple[list[Table], dict[str, Any]]:
    """Measure the frameworks on random graphs, on the demo, and on single ops."""
    races = [Race(nodes) for nodes in SIZES]
    operations, operation_ratios = operations_table()
    demo, demo_ratios = demo_table()
    figures: dict[str, Any] = {f"ratios at {race.nodes}": race.ratios for race in races}
    return [*(race.table() for race in races), operations, demo], {
        **figures,
        "ops": operation_ratios,
        "demo": demo_ratios,
    }


def measure_traces() -> tuple[list[Table], dict[str, Any]]:
    """Measure traces, and first calls of compiled functions."""
    traces, trace_times = trace_table()
    first_calls, first_ratios = first_call_table()
    return [traces, first_calls], {"trace": trace_times, "first calls": first_ratios}


def measure_memory() -> tuple[list[Table], dict[str, Any]]:
    """Measure long chains, bytes per node, and what training leaves behind."""
    chain, ratios = chain_table()
    memory, held = memory_tables()
    return [chain, *memory], {"chain": ratios, **held}


PARTS = dict(zip(VALUE_PARTS, (measure_graphs, measure_traces, measure_memory), strict=True))


def run(parts: Sequence[str] = ()) -> Report:
    """Measure everything, or some parts: graphs, traces, memory."""
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()
    try:
        found = [PARTS[part]() for part in parts or VALUE_PARTS]
    finally:
        gc.unfreeze()
    tables = [table for part, _ in found for table in part]
    return Report(tables, {name: figure for _, figures in found for name, figure in figures.items()})
