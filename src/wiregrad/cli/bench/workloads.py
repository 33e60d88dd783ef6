"""Circuits to measure: random ones whose values stay bounded, and steps of mechanics written in plain Python.

A random circuit is drawn node by node. Every node has an interval that contains its value for all inputs in their box,
so that nothing overflows or divides by almost 0 at any point of a batch. Operands may be any earlier nodes, so that the
depth grows with the logarithm of the size and gradients neither vanish nor explode. The output depends on every node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Builder, Circuit
from wiregrad.api.values import trace
from wiregrad.dtypes import count_with_noun
from wiregrad.ir import TABLE, Port

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
