"""Calls of `wg.compile(f)`: by what f reads, by the form of the arguments, by branches; first calls, Jacobian.

The functions of the first table are tiny on purpose: what is measured is what comes on top of their arithmetic. The
branching functions have 1 to 20 branches on random inputs; the time of compiling them is part of what is measured.
"""

from __future__ import annotations

import ctypes
import linecache
import math
import random
import re
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
            wrong += sum(not _is_rounding(f, part[k], found[k]) for k in _find_differences(found, wanted))
        whole.append(times[:, 1].sum() / times[:, 0].sum())
        later.append(times[1, 1] / times[1, 0])
        records += fast.info.records
    return {"whole": whole, "later": later, "wrong": wrong, "records": records, "calls": functions * calls}


def _find_differences(found: list[Any], wanted: list[Any]) -> list[int]:
    """Return the numbers of the calls whose results differ."""
    ours, theirs = (np.array([[value, *grads] for value, grads in pairs]) for pairs in (found, wanted))
    near = np.isclose(ours, theirs, rtol=1e-9, atol=1e-9, equal_nan=True)
    unequal: list[int] = np.flatnonzero(~near.all(axis=1)).tolist()
    return unequal


def _is_rounding(f: Callable[..., Any], point: tuple[float, ...], found: Any) -> bool:
    """Return whether an answer differs by no more than if each tanh were wrong by two last bits.

    `np.tanh(y) * z - z` cancels to nothing but the rounding of tanh where y is large, so libraries that round the last
    bit differently give unlike answers, and none is wrong. Each tanh is rounded on its own, so what each of them
    changes is added up.
    """
    exact = NudgedTanh()
    plain = _answer_with(exact, f, point)
    changes = [
        np.abs(_answer_with(NudgedTanh(number, bits), f, point) - plain)
        for number in range(exact.calls)
        for bits in (-2, 2)
    ]
    bound = np.sum([np.maximum(*pair) for pair in zip(changes[::2], changes[1::2], strict=True)], axis=0)
    return bool(np.all(np.abs(np.array([found[0], *found[1]]) - plain) <= bound))


def _answer_with(tanh: NudgedTanh, f: Callable[..., Any], point: tuple[float, ...]) -> NDArray[np.float64]:
    """Return value and gradient of a function with another tanh."""
    function = FunctionType(f.__code__, {**f.__globals__, "np": SimpleNamespace(tanh=tanh)})
    value, grads = wg.value_and_grad(function, argnums=(0, 1, 2, 3))(*point)
    return np.array([value, *grads])


class NudgedTanh:
    """A tanh one of whose calls is wrong by some last bits, with the derivative of its value: 1 - y * y."""

    def __init__(self, nudged: int = -1, bits: int = 0) -> None:
        self.calls = 0
        self._nudged = nudged
        self._factor = 1.0 + bits * float(np.finfo(float).epsneg)

    def __call__(self, x: Any) -> Any:
        factor = self._factor if self.calls == self._nudged else 1.0
        self.calls += 1
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


FIRST_CALL_STEPS = 20_000


def spin(x: Any, y: Any) -> Any:
    """Return a number after seven ops for each of many steps."""
    for _ in range(FIRST_CALL_STEPS):
        x = x * 0.999 + y * 0.001
        y = (y + x) * 0.4 - 0.1 * y
    return x * y


def measure_first_calls(turns: int) -> dict[str, float]:
    """Return the processor time of the first, second and third call of a long function, and of an eager gradient."""
    plain = wg.value_and_grad(spin, argnums=(0, 1))
    plain(0.5, 0.75)
    times: dict[str, list[float]] = {"eager": [], "first": [], "second": [], "third": []}
    for _ in range(turns):
        fast = wg.compile(spin, argnums=(0, 1))
        times["eager"].append(time_calls(lambda: plain(0.5, 0.75), 1))
        for name in ("first", "second", "third"):
            times[name].append(time_calls(partial(fast.value_and_grad, 0.5, 0.75), 1))
    return {name: float(np.median(found)) for name, found in times.items()}


def tabulate_first_calls(times: dict[str, float]) -> Table:
    """Return the table of the first calls of a long function."""
    table = Table(
        f"A function of {7 * FIRST_CALL_STEPS:,} nodes: its first calls, and how many eager gradients they take.",
        ["call", "time", "eager gradients"],
    )
    table.rows = [[name, milliseconds(value), f"{value / times['eager']:.2f}"] for name, value in times.items()]
    return table


ARM_LENGTHS = (0.34, 0.0, 0.4, 0.0, 0.4, 0.0, 0.126)
ARM_TWISTS = (-0.5, 0.5, 0.5, -0.5, -0.5, 0.5, 0.0)
"""Lengths of the links of an arm with seven joints, and the angles between their axes in parts of pi."""
C_LOOP = """
void JACOBIAN(const double *x, double *out);
void repeat(const double *x, double *out, int count) { for (int k = 0; k < count; k++) JACOBIAN(x, out); }
"""


def follow_arm(joints: Any, numpy: Any = np) -> Any:
    """Return where the hand of an arm is and where it points, from the angles of its joints."""
    axes = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    place = [0.0, 0.0, 0.0]
    for k in range(len(ARM_LENGTHS)):
        c, s = numpy.cos(joints[k]), numpy.sin(joints[k])
        ca, sa = math.cos(math.pi * ARM_TWISTS[k]), math.sin(math.pi * ARM_TWISTS[k])
        place = [place[i] + axes[i][2] * ARM_LENGTHS[k] for i in range(3)]
        axes = [[x * c + y * s, (y * c - x * s) * ca + z * sa, (x * s - y * c) * sa + z * ca] for x, y, z in axes]
    return [*place, axes[0][2], axes[1][2], axes[2][2]]


class ExportedC:
    """C that computes a Jacobian, compiled; called from Python, or in a loop in C."""

    def __init__(self, text: str, name: str, folder: Path) -> None:
        (folder / "code.c").write_text(text)
        (folder / "loop.c").write_text(C_LOOP.replace("JACOBIAN", name))
        files = [str(folder / part) for part in ("code.c", "loop.c")]
        options = ["gcc", "-O3", "-march=native", "-ffp-contract=off"]
        subprocess.run([*options, "-shared", "-fPIC", "-o", str(folder / "code.so"), *files, "-lm"], check=True)
        listing = subprocess.run([*options, "-S", "-o", "-", files[0]], check=True, capture_output=True, text=True)
        self.instructions = len(re.findall(r"^\t[a-z]", listing.stdout, re.MULTILINE))
        library = ctypes.CDLL(str(folder / "code.so"))
        self.call = library[name]
        self.repeat = library.repeat

    def time_loop(self, point: Any, out: Any) -> float:
        """Return the processor time of one run, in a loop in C."""
        arguments = (point.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
        return time_calls(lambda: self.repeat(*arguments, CALLS), 1) / CALLS


def export_with_casadi(folder: Path) -> ExportedC | None:
    """Return the C of the Jacobian that CasADi writes; None if CasADi is not installed."""
    try:
        casadi = import_module("casadi")
    except ImportError:
        return None
    joints = casadi.SX.sym("q", len(ARM_LENGTHS))
    hand = casadi.vertcat(*follow_arm([joints[k] for k in range(len(ARM_LENGTHS))], casadi))
    function = casadi.Function("arm", [joints], [casadi.densify(casadi.jacobian(hand, joints))])
    generator = casadi.CodeGenerator("arm.c", {"with_header": False})
    generator.add(function)
    wrapper = """
void jacobian(const double *x, double *out) {
    const double *inputs[1] = {x};
    double *outputs[1] = {out};
    arm(inputs, outputs, 0, 0, 0);
}
"""
    return ExportedC(generator.dump() + wrapper, "jacobian", folder)


def measure_arm(turns: int) -> dict[str, Any]:
    """Return the processor time of a Jacobian of the arm: compiled from Python, and as exported C."""
    joints = [0.1 * (k + 1) for k in range(len(ARM_LENGTHS))]
    point, out = np.array(joints), np.zeros((6, len(joints)))
    fast = wg.compile(follow_arm, assume="finite")
    circuit = wg.trace(follow_arm, joints)
    compiled = circuit.compile(assume="finite")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "casadi").mkdir()
        exported = ExportedC(circuit.to_c("jacobian", assume="finite"), "jacobian", folder)
        casadi = export_with_casadi(folder / "casadi")
        pointers = (point.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p))
        ways: dict[str, Callable[[], float]] = {
            "`fast.jacobian`": _repeat(lambda: fast.jacobian(joints)),
            "`fast.value_and_jacobian`": _repeat(lambda: fast.value_and_jacobian(joints)),
            "`circuit.compile().jacobian`": _repeat(lambda: compiled.jacobian(point)),
            "exported C, called by ctypes": _repeat(lambda: exported.call(*pointers)),
            "exported C, loop in C": lambda: exported.time_loop(point, out),
        }
        if casadi is not None:
            ways["CasADi's C, loop in C"] = lambda: casadi.time_loop(point, out.T.copy())
        times = interleaved(ways, turns)
        exported.call(*pointers)
        error = float(np.max(np.abs(out - np.array(fast.jacobian(joints)))))
    instructions = {"exported": exported.instructions, "casadi": None if casadi is None else casadi.instructions}
    return {"times": times, "error": error, "instructions": instructions}


def tabulate_arm(found: dict[str, Any]) -> Table:
    """Return the table of the arm's Jacobian."""
    counts = ", ".join(f"{name} {count}" for name, count in found["instructions"].items() if count is not None)
    table = Table(
        f"The Jacobian of an arm with seven joints, 6 by 7 numbers. Instructions of the C after gcc -O3: {counts}.",
        ["way", "time", "ratio to C called by ctypes"],
    )
    base = found["times"]["exported C, called by ctypes"]
    table.rows = [[name, milliseconds(value), f"{value / base:.2f}"] for name, value in found["times"].items()]
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
    first = measure_first_calls(1 if quick else 5)
    arm = measure_arm(5 if quick else TURNS)
    figures |= {"forms": forms, "branching": branching, "first": first, "arm": arm}
    tables = [
        outside,
        tabulate_forms(forms),
        tabulate_branching(branching),
        tabulate_first_calls(first),
        tabulate_arm(arm),
    ]
    return Report(tables, figures)


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
