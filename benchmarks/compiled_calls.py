"""Calls of `wg.compile(f)`: by what f reads from outside, by the form of the arguments, and by the branches of f.

The functions of the first table are tiny on purpose: what is measured is what comes on top of their arithmetic. The
branching functions have 1 to 20 branches on random inputs; the time of compiling them is part of what is measured.
"""

from __future__ import annotations

import linecache
import math
import random
import time
import warnings
from collections.abc import Callable
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, time_calls

CALLS, TURNS = 2_000, 31
SCALE = 3.0
WEIGHTS = [2.0, 3.0]
SMALL, LARGE = np.arange(5.0), np.arange(1e5)


class Model:
    """An object with parameters, as people write them."""

    def __init__(self) -> None:
        self.weight, self.bias, self.label = 2.0, 1.0, "tanh"

    def loss(self, x: Any) -> Any:
        return np.tanh(self.weight * x + self.bias)


MODEL = Model()


def nothing(x: Any) -> Any:
    return x * x + x


def branch(x: Any) -> Any:
    return 0.5 * x * x if abs(x) < 1.0 else abs(x) - 0.5


def global_and_numpy(x: Any) -> Any:
    return np.sin(x) * SCALE + abs(np.exp(-x))


def list_of_numbers(x: Any) -> Any:
    return WEIGHTS[0] * x + WEIGHTS[1]


def object_with_method(x: Any) -> Any:
    return MODEL.loss(x)


def small_array(x: Any) -> Any:
    return x * SMALL[0]


def large_array(x: Any) -> Any:
    return x * LARGE[0]


FUNCTIONS = [nothing, branch, global_and_numpy, list_of_numbers, object_with_method, small_array, large_array]


def make_branching_function(seed: int, *, with_source: bool = True) -> Callable[..., Any]:
    """Return a random function of four numbers with 1 to 20 branches; without its source, branches are not merged."""
    draw = random.Random(seed)
    # Code is compared by its contents, its name among them: what is known of one kind must not serve the other.
    own_name = "f" if with_source else "f_without_source"
    lines = [f"def {own_name}(a, b, c, d):", "    y = a * b + c", "    z = c - d"]
    for _ in range(draw.randint(1, 20)):
        one, two, three = (draw.choice("abcdyz") for _ in range(3))
        lines += [
            f"    if {one} {draw.choice('<>')} {draw.uniform(-1.0, 1.0):.2f}:",
            f"        y = y * {two} + {three}",
        ]
        if draw.random() < 0.7:
            lines += ["    else:", f"        z = np.tanh(y) * {three} - z", f"        y = y - {two}"]
    text = "\n".join([*lines, "    return y * z", ""])
    name = f"<branching function {seed}, source {'at hand' if with_source else 'missing'}>"
    if with_source:
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec", dont_inherit=True), scope)
    function: Callable[..., Any] = scope[own_name]
    return function


def measure_branching(functions: int, calls: int, *, with_source: bool) -> dict[str, Any]:
    """Return how much faster compiled gradients are than plain ones: from the first call on, and once compiled."""
    whole: list[float] = []
    later: list[float] = []
    wrong = records = 0
    for seed in range(functions):
        f = make_branching_function(seed, with_source=with_source)
        plain = wg.value_and_grad(f, argnums=(0, 1, 2, 3))
        fast = wg.compile(f, argnums=(0, 1, 2, 3))
        draw = random.Random(seed)
        points = [tuple(draw.gauss(0.0, 1.0) for _ in range(4)) for _ in range(calls)]
        times = np.zeros((2, 2))
        for start in range(0, calls, calls // 10):
            part = points[start : start + calls // 10]
            half = int(start >= calls // 2)
            began = time.process_time()
            wanted = [plain(*point) for point in part]
            middle = time.process_time()
            found = [fast.value_and_grad(*point) for point in part]
            times[half] += [middle - began, time.process_time() - middle]
            unequal = [k for k, (ours, theirs) in enumerate(zip(found, wanted, strict=True)) if _differ(ours, theirs)]
            wrong += sum(not _is_rounding(f, part[k], found[k]) for k in unequal)
        whole.append(times[:, 1].sum() / times[:, 0].sum())
        later.append(times[1, 1] / times[1, 0])
        records += fast.info.records
    return {"whole": whole, "later": later, "wrong": wrong, "records": records, "calls": functions * calls}


def _differ(found: Any, wanted: Any) -> bool:
    ours, theirs = ([pair[0], *pair[1]] for pair in (found, wanted))
    return not np.allclose(ours, theirs, rtol=1e-9, atol=1e-9, equal_nan=True)


def _is_rounding(f: Callable[..., Any], point: tuple[float, ...], found: Any) -> bool:
    """Return whether an answer lies between those for a tanh that is wrong by two last bits up or down.

    `np.tanh(y) * z - z` cancels to nothing but the rounding of tanh where y is large, so libraries that round the last
    bit differently give unlike answers, and none is wrong.
    """
    answers: list[list[float]] = []
    for bits in (-2, -1, 0, 1, 2):
        factor = 1.0 + bits * float(np.finfo(float).epsneg)
        nudged = SimpleNamespace(tanh=partial(_nudge_tanh, factor))
        function = FunctionType(f.__code__, {**f.__globals__, "np": nudged})
        value, grads = wg.value_and_grad(function, argnums=(0, 1, 2, 3))(*point)
        answers.append([value, *grads])
    ours = np.array([found[0], *found[1]])
    return bool(np.all((np.min(answers, axis=0) <= ours) & (ours <= np.max(answers, axis=0))))


def _nudge_tanh(factor: float, x: Any) -> Any:
    """Return tanh times a factor, with the derivative that belongs to this value: 1 - y * y."""
    y = wg.stop_gradient(np.tanh(x) * factor)
    return y + (1.0 - y * y) * (x - wg.stop_gradient(x))


def tabulate_branching(figures: dict[str, dict[str, Any]]) -> Table:
    """Return the table of branching functions: times of compiled gradients over plain ones."""
    table = Table(
        "Functions with 1 to 20 branches on random inputs: time of `wg.compile(f).value_and_grad` over "
        "`wg.value_and_grad(f)`, from the first call on (compiling included) and in the second half of the calls.",
        ["source", "functions", "calls", "recordings", "wrong", "mean", "worst", "mean later", "worst later"],
    )
    for name, found in figures.items():
        cells = [f"{call(found[part]):.3f}" for part in ("whole", "later") for call in (_geometric_mean, max)]
        counts = [len(found["whole"]), found["calls"], found["records"], found["wrong"]]
        table.rows.append([name, *map(str, counts), *cells])
    return table


def _geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def chain(*numbers: Any) -> Any:
    y = numbers[0]
    for k in range(50):
        y = y * numbers[k % len(numbers)] + 0.1
    return y


def measure_forms(count: int, turns: int) -> dict[str, float]:
    """Return the time of a gradient of `chain` for each form of its arguments, and of the circuit's own call."""
    xs = [0.05 + k / count for k in range(count)]
    vector = np.array(xs)
    quarter = count // 4
    named = {f"x{k}": x for k, x in enumerate(xs)}
    mix = (
        xs[0],
        xs[1:quarter],
        tuple(map(np.float64, xs[quarter : 2 * quarter])),
        dict(list(named.items())[: 2 * quarter]),
    )
    circuit = wg.trace(lambda p: chain(*p), xs).compile()
    flat = wg.compile(chain, argnums=tuple(range(count)))
    row = wg.compile(lambda p: chain(*p))
    names = wg.compile(lambda p: chain(*p.values()))
    mixed = wg.compile(lambda a, p, q, d: chain(a, *p, *q, *d.values()), argnums=(0, 1, 2, 3))
    numpy_numbers = tuple(map(np.float64, xs))
    pair = tuple(xs)
    ways: dict[str, Callable[[], Any]] = {
        "circuit, one vector": lambda: circuit.value_and_grad(vector),
        "floats": lambda: flat.value_and_grad(*xs),
        "one list": lambda: row.value_and_grad(xs),
        "NumPy numbers": lambda: flat.value_and_grad(*numpy_numbers),
        "tuple": lambda: row.value_and_grad(pair),
        "array": lambda: row.value_and_grad(vector),
        "dict": lambda: names.value_and_grad(named),
        "mix of all": lambda: mixed.value_and_grad(*mix),
    }
    for way in ways.values():
        for _ in range(3):
            way()
    return interleaved({name: _repeat(way) for name, way in ways.items()}, turns)


def _repeat(way: Callable[[], Any]) -> Callable[[], float]:
    return lambda: time_calls(way, CALLS)


def tabulate_forms(figures: dict[int, dict[str, float]]) -> Table:
    """Return the table of the forms of arguments, in microseconds over the circuit's own call."""
    table = Table(
        "A gradient of 100 nodes by the form of the arguments: microseconds over `circuit.compile()` with one vector, "
        "and the ratio to it.",
        ["arguments", *(f"{count} numbers" for count in figures)],
    )
    base = "circuit, one vector"
    for name in next(iter(figures.values())):
        cells = [
            f"{(times[name] - times[base]) * 1e6:+.2f} ({times[name] / times[base]:.1f}x)" for times in figures.values()
        ]
        table.rows.append([name, *cells])
    return table


def run(*, quick: bool = False) -> Report:
    """Measure all tables."""
    outside, figures = measure_outside(quick=quick)
    forms = {count: measure_forms(count, 5 if quick else TURNS) for count in (8, 32)}
    sizes = (20, 500) if quick else (200, 5_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        branching = {
            name: measure_branching(*sizes, with_source=with_source)
            for name, with_source in (("at hand", True), ("missing", False))
        }
    figures |= {"forms": forms, "branching": branching}
    return Report([outside, tabulate_forms(forms), tabulate_branching(branching)], figures)


def measure_outside(*, quick: bool) -> tuple[Table, dict[str, Any]]:
    """Measure every tiny function in its four ways, which take turns."""
    table = Table(
        "One call at one number. `compiled` replays natively; the rest is what it replaces.",
        ["f reads", "f itself", "compiled", "wg.value_and_grad(f)", "compiled.value_and_grad"],
    )
    figures: dict[str, Any] = {}
    for f in FUNCTIONS:
        compiled = wg.compile(f)
        ways: dict[str, Callable[[float], Any]] = {
            "f itself": f,
            "compiled": compiled,
            "wg.value_and_grad(f)": wg.value_and_grad(f),
            "compiled.value_and_grad": compiled.value_and_grad,
        }
        for way in ways.values():
            way(0.5)
        tasks = {name: _task(way) for name, way in ways.items()}
        times = interleaved(tasks, 5 if quick else TURNS)
        figures[f.__name__] = times
        table.rows.append([f.__name__.replace("_", " "), *(milliseconds(times[name]) for name in ways)])
    return table, figures


def _task(way: Callable[[float], Any]) -> Callable[[], float]:
    return lambda: time_calls(lambda: way(0.5), CALLS)
