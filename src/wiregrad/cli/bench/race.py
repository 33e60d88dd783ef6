"""Races: entrants do the same work in turns, in one process, after their answers were compared; and the work they do.

The work is circuits: random ones whose values stay bounded, and steps of mechanics written in plain Python. A random
circuit is drawn node by node. Every node has an interval that contains its value for all inputs in their box, so that
nothing overflows or divides by almost 0 at any point of a batch. Operands may be any earlier nodes, so that the depth
grows with the logarithm of the size and gradients neither vanish nor explode. The output depends on every node.

Turns are taken in the order A B C A B C, so that a slow minute slows down all of them. A turn has as many runs as fill
20 ms; times are medians over turns, and ratios are medians of the ratios within a turn. An entrant with a wrong answer
is not timed, and the table gives the reason for every entrant that is missing.

The entrants here need no other framework: wiregrad's tiers, the interpreter, plain Python, C and LLVM. Where the work
is native, the loop over runs is native too, so that calls from Python are measured only where they are the subject.
Compilers run as users run them, in a temporary folder that is removed when the process ends.

C and LLVM get a circuit's value and gradient as an engineer would write them by hand, in three-address code. Unlike
wiregrad's own listings it has no absent gradients: what a relu blocks goes on as zeros. That leaves no branches, so
compilers can vectorize a loop over points. It supports the ops of the workloads, whose values are finite.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import math
import operator
import shutil
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Builder, Circuit, Run
from wiregrad.api.values import trace
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
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Port

INPUT_COUNT = 10
MAX_ABSOLUTE_VALUE = 8.0
"""Maximum magnitude of a value."""
MAX_EXP_ARGUMENT = 2.0
"""Maximum magnitude of the argument of exp."""
MIN_DIVISOR = 0.125
"""Minimum magnitude of a divisor."""
INPUT_RADIUS = 0.25
"""Half the width of the box of the inputs."""
UNREAD_PROBABILITY = 0.9
"""Probability that the first operand is a node without readers."""
MAX_TRIES = 20
"""Maximum number of attempts to find operands for a node."""
MECHANICS_STEPS = 3
"""Number of steps of the mechanics workloads."""
MECHANICS_TIME_STEP = 0.01
"""Length of a step."""

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Workload:
    """A circuit of numbers, and the box that its inputs are taken from."""

    name: str
    circuit: Circuit
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def nodes(self) -> int:
        """How many function nodes the circuit has."""
        return len(self.circuit)

    def draw_points(self, count: int, seed: int = 0) -> NDArray[np.float64]:
        """Return points of the box, one per row.

        >>> random_workload(10, seed=1).draw_points(3).shape
        (3, 10)
        """
        return np.random.default_rng([seed, count]).uniform(self.low, self.high, (count, len(self.low)))


def random_workload(nodes: int, seed: int = 0) -> Workload:
    """Return a random circuit of `nodes` nodes, or a few more, with bounded values.

    >>> random_workload(100, seed=1).circuit
    Circuit(10 inputs, 102 nodes, 0 splitters, output y)
    """
    return _RandomGrowth(nodes, seed).grow_workload()


def nbody_energy(*state: float, steps: int = MECHANICS_STEPS) -> float:
    """Return the energy of bodies in the plane after a few leapfrog steps, in plain Python.

    >>> round(float(nbody_energy(0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)), 6)
    -0.499495
    """
    count = len(state) // 4
    xs, ys, us, vs = (list(state[k * count : (k + 1) * count]) for k in range(4))
    for _ in range(steps):
        _apply_gravity(xs, ys, us, vs, MECHANICS_TIME_STEP / 2)
        for k in range(count):
            xs[k] = xs[k] + MECHANICS_TIME_STEP * us[k]
            ys[k] = ys[k] + MECHANICS_TIME_STEP * vs[k]
        _apply_gravity(xs, ys, us, vs, MECHANICS_TIME_STEP / 2)
    return _total_energy(xs, ys, us, vs)


def rigid_body_energy(*state: float, steps: int = MECHANICS_STEPS) -> float:
    """Return the energy of a heavy top after a few Runge-Kutta steps; its state is a quaternion and angular momentum.

    >>> round(float(rigid_body_energy(1.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.3)), 6)
    1.105
    """
    now = list(state)
    for _ in range(steps):
        a = _rigid_body_slopes(now)
        b = _rigid_body_slopes([x + 0.5 * MECHANICS_TIME_STEP * dx for x, dx in zip(now, a, strict=True)])
        c = _rigid_body_slopes([x + 0.5 * MECHANICS_TIME_STEP * dx for x, dx in zip(now, b, strict=True)])
        d = _rigid_body_slopes([x + MECHANICS_TIME_STEP * dx for x, dx in zip(now, c, strict=True)])
        slopes = [p + 2.0 * q + 2.0 * r + s for p, q, r, s in zip(a, b, c, d, strict=True)]
        now = [x + MECHANICS_TIME_STEP / 6.0 * slope for x, slope in zip(now, slopes, strict=True)]
        length = np.sqrt(now[0] * now[0] + now[1] * now[1] + now[2] * now[2] + now[3] * now[3])
        now = [*(x / length for x in now[:4]), *now[4:]]
    spin = sum(m * m / inertia for m, inertia in zip(now[4:], MOMENTS_OF_INERTIA, strict=True))
    return 0.5 * spin + 1.0 - 2.0 * (now[1] * now[1] + now[2] * now[2])


def mechanics_workloads(bodies: int = 5, steps: int = MECHANICS_STEPS) -> list[Workload]:
    """Return the mechanics workloads, traced from plain Python.

    >>> [workload.name for workload in mechanics_workloads()]
    ['5-body problem, 3 steps', 'rigid body, 3 steps']
    """
    rng = np.random.default_rng(0)
    angles = np.linspace(0.0, 2.0 * math.pi, bodies, endpoint=False)
    sky = np.concatenate([2.0 * np.cos(angles), 2.0 * np.sin(angles), rng.uniform(-0.5, 0.5, 2 * bodies)])
    top = np.array([0.9, 0.3, -0.2, 0.25, 0.4, -0.6, 0.8])
    return [
        _trace_workload(
            f"{bodies}-body problem, {count_with_noun(steps, 'step')}", partial(nbody_energy, steps=steps), sky
        ),
        _trace_workload(f"rigid body, {count_with_noun(steps, 'step')}", partial(rigid_body_energy, steps=steps), top),
    ]


MOMENTS_OF_INERTIA = (1.0, 2.0, 0.5)
"""Moments of inertia of the rigid body along its own axes."""


def _trace_workload(name: str, function: Callable[..., float], middle: NDArray[np.float64]) -> Workload:
    return Workload(name, trace(function, *middle.tolist()), middle - 0.05, middle + 0.05)


def _apply_gravity(xs: list[float], ys: list[float], us: list[float], vs: list[float], time: float) -> None:
    """Change the velocities by the attraction between all pairs, with a softened distance."""
    for i in range(len(xs)):
        for j in range(i):
            dx = xs[j] - xs[i]
            dy = ys[j] - ys[i]
            square = dx * dx + dy * dy + 1e-3
            pull = time / (square * np.sqrt(square))
            us[i] = us[i] + pull * dx
            vs[i] = vs[i] + pull * dy
            us[j] = us[j] - pull * dx
            vs[j] = vs[j] - pull * dy


def _total_energy(xs: Sequence[float], ys: Sequence[float], us: Sequence[float], vs: Sequence[float]) -> float:
    total = 0.5 * (us[0] * us[0] + vs[0] * vs[0])
    for i in range(1, len(xs)):
        total = total + 0.5 * (us[i] * us[i] + vs[i] * vs[i])
        for j in range(i):
            dx = xs[j] - xs[i]
            dy = ys[j] - ys[i]
            total = total - 1.0 / np.sqrt(dx * dx + dy * dy + 1e-3)
    return total


def _rigid_body_slopes(state: Sequence[float]) -> list[float]:
    """Return the time derivatives of quaternion and angular momentum, by Euler's equations with gravity."""
    w, x, y, z, *momentum = state
    p, q, r = (m / inertia for m, inertia in zip(momentum, MOMENTS_OF_INERTIA, strict=True))
    # The direction of gravity, in the frame of the body.
    gx = 2.0 * (x * z - w * y)
    gy = 2.0 * (y * z + w * x)
    return [
        -0.5 * (x * p + y * q + z * r),
        0.5 * (w * p + y * r - z * q),
        0.5 * (w * q + z * p - x * r),
        0.5 * (w * r + x * q - y * p),
        momentum[1] * r - momentum[2] * q + gy,
        momentum[2] * p - momentum[0] * r - gx,
        momentum[0] * q - momentum[1] * p,
    ]


def _interval_add(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _interval_subtract(a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


def _interval_multiply(a: Interval, b: Interval) -> Interval:
    corners = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
    return min(corners), max(corners)


def _interval_divide(a: Interval, b: Interval) -> Interval | None:
    if b[0] < MIN_DIVISOR and b[1] > -MIN_DIVISOR:
        return None
    return _interval_multiply(a, (1.0 / b[1], 1.0 / b[0]))


def _interval_exp(a: Interval) -> Interval | None:
    return (math.exp(a[0]), math.exp(a[1])) if a[0] >= -MAX_EXP_ARGUMENT and a[1] <= MAX_EXP_ARGUMENT else None


def _interval_tanh(a: Interval) -> Interval:
    return math.tanh(a[0]), math.tanh(a[1])


def _interval_sin(a: Interval) -> Interval:
    rising = -math.pi / 2 <= a[0] and a[1] <= math.pi / 2
    return (math.sin(a[0]), math.sin(a[1])) if rising else (-1.0, 1.0)


def _interval_relu(a: Interval) -> Interval | None:
    # A relu that never switches would only copy its argument, or be 0.
    return (0.0, a[1]) if a[0] < 0.0 < a[1] else None


class IntervalOp(NamedTuple):
    """An op of random circuits, on numbers and on intervals."""

    value: Callable[..., float]
    interval: Callable[..., Interval | None]
    """The interval of the value for intervals of the operands; None if these are not allowed."""


BINARY_OPS = {
    "add": IntervalOp(operator.add, _interval_add),
    "subtract": IntervalOp(operator.sub, _interval_subtract),
    "multiply": IntervalOp(operator.mul, _interval_multiply),
    "divide": IntervalOp(operator.truediv, _interval_divide),
}
UNARY_OPS = {
    "tanh": IntervalOp(math.tanh, _interval_tanh),
    "exp": IntervalOp(math.exp, _interval_exp),
    "sin": IntervalOp(math.sin, _interval_sin),
    "relu": IntervalOp(lambda x: max(x, 0.0), _interval_relu),
}
WORKLOAD_OPS = {**BINARY_OPS, **UNARY_OPS}
WORKLOAD_OP_NAMES = tuple(WORKLOAD_OPS)
BINARY_OP_NAMES = tuple(BINARY_OPS)


class _RandomGrowth:
    """A random circuit while it grows."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.nodes = nodes
        self.rng = Random(seed)
        self.builder = Builder()
        self.middle = [self.rng.uniform(-1.5, 1.5) for _ in range(INPUT_COUNT)]
        self.ports: list[Port] = [self.builder.input(f"x{k}") for k in range(INPUT_COUNT)]
        self.intervals: list[Interval] = [(x - INPUT_RADIUS, x + INPUT_RADIUS) for x in self.middle]
        self.values = list(self.middle)
        """The values in the middle of the box."""
        self.unread = list(range(INPUT_COUNT))
        """The nodes that have no reader yet."""
        self.places = {node: node for node in range(INPUT_COUNT)}
        """The position of each of them in that list."""

    def grow_workload(self) -> Workload:
        """Grow the circuit, then join the nodes without readers, so that the output depends on every node."""
        while len(self.ports) - INPUT_COUNT + len(self.unread) <= self.nodes:
            self._grow_node(self.rng.choice(WORKLOAD_OP_NAMES))
        while len(self.unread) > 1:
            self._join_unread()
        middle = np.array(self.middle)
        circuit = self.builder.build(labels={"y": self.ports[-1]})
        return Workload(f"{len(circuit):,} random nodes", circuit, middle - INPUT_RADIUS, middle + INPUT_RADIUS)

    def _grow_node(self, name: str) -> None:
        """Add a node of this op, unless no suitable operands are found after a few attempts."""
        for _ in range(MAX_TRIES):
            first = self._pick_unread() if self.rng.random() < UNREAD_PROBABILITY else self._pick_any()
            sources = (first, self._pick_any()) if name in BINARY_OPS else (first,)
            # The operands differ, because x - x and x / x are constants.
            if len({*sources}) == len(sources) and self._add_node(name, sources):
                return

    def _join_unread(self) -> None:
        """Join two nodes without readers by an op; if no pair is suitable, apply tanh to one of them first."""
        for _ in range(MAX_TRIES):
            one = self._pick_unread()
            two = self._pick_unread()
            # If a factor is 0, as after a relu, no gradient would flow back to the other one.
            flows = min(abs(self.values[one]), abs(self.values[two])) > MIN_DIVISOR
            name = self.rng.choice(BINARY_OP_NAMES if flows else BINARY_OP_NAMES[:2])
            if one != two and self._add_node(name, (one, two)):
                return
        self._add_node("tanh", (self._pick_unread(),))

    def _add_node(self, name: str, sources: tuple[int, ...]) -> bool:
        interval = WORKLOAD_OPS[name].interval(*(self.intervals[source] for source in sources))
        if interval is None or not -MAX_ABSOLUTE_VALUE <= interval[0] <= interval[1] <= MAX_ABSOLUTE_VALUE:
            return False
        for source in sources:
            self._mark_read(source)
        self.places[len(self.ports)] = len(self.unread)
        self.unread.append(len(self.ports))
        self.ports.append(self.builder.apply(TABLE[name], *(self.ports[source] for source in sources)))
        self.intervals.append(interval)
        self.values.append(WORKLOAD_OPS[name].value(*(self.values[source] for source in sources)))
        return True

    def _mark_read(self, node: int) -> None:
        """Remove a node from those without readers; the last of them takes its place in the list."""
        place = self.places.pop(node, None)
        if place is not None:
            last = self.unread.pop()
            if last != node:
                self.unread[place] = last
                self.places[last] = place

    def _pick_unread(self) -> int:
        return self.unread[int(self.rng.random() * len(self.unread))]

    def _pick_any(self) -> int:
        return int(self.rng.random() * len(self.ports))


DEFAULT_TURNS = 7
MIN_TURN_SECONDS = 0.02
"""Minimum length of a turn, in seconds."""
MAX_ENTRANT_SECONDS = 60.0
"""Maximum time of all turns of one entrant, in seconds; a slower one takes fewer turns, but at least one."""
MIN_TURNS_FOR_RATIO = 3
"""A verdict that rests on fewer turns says so."""
ROUNDING_SLACK = 10.0
"""Tolerance of answers, in multiples of the rounding bound: peers round differently, vector math to 4 ulp."""

FloatArray = NDArray[np.float64]


class EntrantMissingError(Exception):
    """An entrant cannot take part; the message says why."""


class DisagreementError(AssertionError):
    """An entrant gives a different answer."""


@dataclass(frozen=True)
class RaceTask:
    """An entrant's work: `run(times)` repeats it, `answer()` returns a row of value and gradient per point."""

    run: Callable[[int], object]
    answer: Callable[[], FloatArray]


@dataclass(frozen=True)
class RaceEntrant:
    """A participant of a race: how it prepares a workload at points, and up to which size it takes part."""

    name: str
    prepare: Callable[[Workload, FloatArray], RaceTask]
    largest: float = math.inf
    """Nodes times points of the largest race it takes part in."""
    why: str = ""
    """Why it does not take part in larger ones."""


@dataclass(frozen=True)
class RaceVerdict:
    """A target and what was measured; `passed` is None if it could not be measured."""

    wanted: str
    found: str
    passed: bool | None

    @property
    def word(self) -> str:
        """PASS, MISS or "not measured"."""
        return {True: "PASS", False: "MISS", None: "not measured"}[self.passed]


@dataclass(frozen=True)
class SpeedTarget:
    """A target: `subject` should be at least `least` times faster than `other`; below 1, at most that much slower."""

    subject: str
    other: str
    least: float

    def judge_result(self, result: RaceResult) -> RaceVerdict:
        """Return whether a race meets the target."""
        within = self.least < 1.0
        relation = f"within {1 / self.least:.3g}x of" if within else f"at least {self.least:,g}x faster than"
        wanted = f"{self.subject} {relation} {self.other}"
        absent = [name for name in (self.subject, self.other) if name not in result.times]
        if absent:
            return RaceVerdict(wanted, f"{absent[0]}: {result.missing.get(absent[0], 'did not take part')}", None)
        ratio = result.median_ratio(self.other, self.subject)
        turns = min(len(result.times[self.subject]), len(result.times[self.other]))
        few = f", of {count_with_noun(turns, 'turn')} only" if turns < MIN_TURNS_FOR_RATIO else ""
        measured = f"{1 / ratio:.2f}x" if within else format_ratio(ratio)
        return RaceVerdict(wanted, f"{measured}{few}", ratio >= self.least)


def format_ratio(ratio: float) -> str:
    """Format a ratio of times.

    >>> format_ratio(1.234), format_ratio(12345.6)
    ('1.23x', '12,346x')
    """
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"


@dataclass(frozen=True)
class RaceResult:
    """The result of a race: seconds per run, turn by turn, and why entrants were missing."""

    title: str
    work: float
    """Nodes times points, by which the time of a run is divided."""
    times: Mapping[str, Sequence[float]]
    missing: Mapping[str, str] = field(default_factory=dict)
    verdicts: Sequence[RaceVerdict] = ()

    def median_seconds(self, name: str) -> float:
        """Return the median time of a run."""
        return statistics.median(self.times[name])

    def median_ratio(self, slow: str, fast: str) -> float:
        """Return how many times longer `slow` takes than `fast`: the median over the turns that both took.

        >>> RaceResult("", 1, {"a": [1.0, 2.0, 9.0], "b": [2.0, 4.0, 9.0]}).median_ratio("b", "a")
        2.0
        """
        return statistics.median(b / a for b, a in zip(self.times[slow], self.times[fast], strict=False))

    def with_verdicts(self, *wants: SpeedTarget | RaceVerdict) -> RaceResult:
        """Return the result with verdicts on these targets added."""
        verdicts = [want if isinstance(want, RaceVerdict) else want.judge_result(self) for want in wants]
        return RaceResult(self.title, self.work, self.times, self.missing, [*self.verdicts, *verdicts])


def run_race(
    title: str,
    workload: Workload,
    points: FloatArray,
    entrants: Sequence[RaceEntrant],
    *,
    turns: int = DEFAULT_TURNS,
    least: float = MIN_TURN_SECONDS,
    patience: float = MAX_ENTRANT_SECONDS,
) -> RaceResult:
    """Let entrants take turns at a workload, after their answers were compared with the interpreter's."""
    tasks: dict[str, RaceTask] = {}
    missing: dict[str, str] = {}
    for entrant in entrants:
        show_progress(f"{title}: {entrant.name} gets ready")
        try:
            if workload.nodes * len(points) > entrant.largest:
                raise EntrantMissingError(f"left out at this size: {entrant.why}")
            tasks[entrant.name] = entrant.prepare(workload, points)
        except EntrantMissingError as error:
            missing[entrant.name] = str(error)
    paces = _find_paces(title, tasks, least, patience)
    check_answers(workload, points, {name: task.answer() for name, task in tasks.items()})
    return RaceResult(title, workload.nodes * len(points), _time_turns(title, tasks, paces, turns), missing)


def take_turns(title: str, tasks: Mapping[str, RaceTask], *, turns: int, least: float, patience: float) -> RaceResult:
    """Let tasks take turns without comparing their answers.

    >>> task = RaceTask(lambda runs: None, lambda: np.zeros((1, 1)))
    >>> len(take_turns("", {"a": task}, turns=2, least=0.0, patience=1.0).times["a"])
    2
    """
    return RaceResult(title, 0.0, _time_turns(title, tasks, _find_paces(title, tasks, least, patience), turns))


def _time_turns(
    title: str, tasks: Mapping[str, RaceTask], paces: Mapping[str, _TurnPace], turns: int
) -> dict[str, list[float]]:
    times = {name: [pace.first] if pace.turns == 0 else [] for name, pace in paces.items()}
    for turn in range(turns):
        show_progress(f"{title}: turn {turn + 1} of {turns}")
        for name, pace in paces.items():
            if turn < pace.turns:
                times[name].append(time_runs(tasks[name], pace.runs) / pace.runs)
    show_progress("")
    return times


def _find_paces(title: str, tasks: Mapping[str, RaceTask], least: float, patience: float) -> dict[str, _TurnPace]:
    return {name: _find_pace(f"{title}: {name}", task, least, patience) for name, task in tasks.items()}


@dataclass(frozen=True)
class _TurnPace:
    """The number of runs per turn, the maximum number of turns, and the time of the first run."""

    runs: int
    turns: int
    first: float


def _find_pace(title: str, task: RaceTask, least: float, patience: float) -> _TurnPace:
    """Warm up, and find the number of runs that fills a turn."""
    show_progress(f"{title} warms up")
    runs = 1
    first = time_runs(task, 1)
    if first > patience / 2:
        return _TurnPace(1, 0, first)
    elapsed = time_runs(task, 1)
    while elapsed < least:
        estimate = round(1.2 * runs * least / max(elapsed, 1e-9)) if elapsed < least / 4 else 0
        runs = max(2 * runs, estimate)
        elapsed = time_runs(task, runs)
    return _TurnPace(runs, max(1, round(patience / elapsed)), elapsed / runs)


def time_runs(task: RaceTask, runs: int) -> float:
    """Return the time of a number of runs in seconds, with garbage collection off."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        task.run(runs)
        return time.perf_counter() - start
    finally:
        if was_enabled:
            gc.enable()


def check_answers(workload: Workload, points: FloatArray, answers: Mapping[str, FloatArray]) -> None:
    """Raise unless all answers agree with the interpreter's at some points, and with each other at all points."""
    some = np.unique(np.linspace(0, len(points) - 1, REFERENCE_POINTS).round().astype(int))
    wanted, tolerance = reference_answers(workload, points[some])
    first = next(iter(answers.values()), None)
    for name, answer in answers.items():
        if answer.shape != (len(points), 1 + points.shape[1]):
            raise DisagreementError(f"{name} answers with shape {answer.shape} for {len(points)} points")
        _check_near(name, "the interpreter", answer[some], wanted, tolerance)
        # At other points rounding may be worse than where it was measured, and gradients that were 0 may not be.
        _check_near(name, next(iter(answers)), answer, first, np.full(len(tolerance), ROUNDING_SLACK * tolerance.max()))


REFERENCE_POINTS = 3
"""Number of points of a batch at which the interpreter runs too."""
MAX_GRADIENT_ROUNDING_NODES = 2_000
"""Maximum number of nodes of circuits whose gradients' rounding is estimated; larger ones take too long."""
MAX_VALUE_ROUNDING_NODES = 200_000
"""Maximum number of nodes of circuits whose value's rounding is estimated."""


def reference_answers(workload: Workload, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the interpreter's answers, and the tolerance for others, from the run's own estimate of rounding.

    >>> workload = random_workload(20)
    >>> answers, tolerance = reference_answers(workload, workload.draw_points(2))
    >>> answers.shape, bool((tolerance < 1e-12).all())
    ((2, 11), True)
    """
    root = workload.circuit.root()
    answers = np.zeros((len(points), 1 + points.shape[1]))
    bounds = np.zeros_like(answers)
    for row, point in enumerate(points):
        run = workload.circuit.run(point)
        answers[row] = [run.values[root], *run.grads.values()]
        bounds[row] = _rounding_bounds(run, answers[row]) + 4.0 * np.finfo(np.float64).eps * np.abs(answers[row])
    return answers, ROUNDING_SLACK * bounds.max(axis=0)


def _rounding_bounds(run: Run, answer: FloatArray) -> FloatArray:
    """Return bounds on the rounding errors of value and gradients; in large circuits some are guessed."""
    scale = np.abs(answer).max()
    nodes = len(run.circuit)
    if nodes > MAX_VALUE_ROUNDING_NODES:
        return np.full(len(answer), nodes * np.finfo(np.float64).eps * scale)
    rounding = run.rounding(None if nodes <= MAX_GRADIENT_ROUNDING_NODES else [])
    # Gradients that were not estimated are assumed to be a hundred times less accurate than the value.
    guess = 100.0 * rounding.output.bound / max(abs(answer[0]), 1e-3) * scale
    gradients = [rounding.gradients[name].bound if name in rounding.gradients else guess for name in run.grads]
    return np.array([rounding.output.bound, *gradients])


def _check_near(name: str, other: str, answer: FloatArray, wanted: FloatArray | None, tolerance: FloatArray) -> None:
    if wanted is None:
        return
    off = np.abs(answer - wanted)
    # Written so that a NaN counts as wrong.
    wrong = ~(off <= tolerance)
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        what = "the value" if column == 0 else f"gradient {column - 1}"
        raise DisagreementError(
            f"{name} gives {answer[row, column]!r} for {what} of point {row}; {other} gives "
            f"{wanted[row, column]!r}, and rounding explains {tolerance[column]:.2g}"
        )


def show_progress(text: str) -> None:
    """Show progress on stderr: on one line in a terminal, otherwise line by line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text[:100]}")
        sys.stderr.flush()
    elif text:
        sys.stderr.write(f"{text}\n")


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
            # What an earlier process compiled would take no time.
            last[:] = jit.compile_functions(text, "loop", cached=False)

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
