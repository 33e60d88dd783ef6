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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Builder, Circuit
from wiregrad.dtypes import counted
from wiregrad.frontends.trace import trace
from wiregrad.ir import TABLE, Port

INPUTS = 10
BOUND = 8.0
"""Maximum magnitude of a value."""
STEEP = 2.0
"""Maximum magnitude of the argument of exp."""
NEAREST = 0.125
"""Minimum magnitude of a divisor."""
WIDTH = 0.25
"""Half the width of the box of the inputs."""
UNREAD = 0.9
"""Probability that the first operand is a node without readers."""
TRIES = 20
"""Maximum number of attempts to find operands for a node."""
STEPS = 3
"""Number of steps of the mechanics workloads."""
STEP = 0.01
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

    def points(self, count: int, seed: int = 0) -> NDArray[np.float64]:
        """Return points of the box, one per row.

        >>> bounded(10, seed=1).points(3).shape
        (3, 10)
        """
        return np.random.default_rng([seed, count]).uniform(self.low, self.high, (count, len(self.low)))


def bounded(nodes: int, seed: int = 0) -> Workload:
    """Return a random circuit of `nodes` nodes, or a few more, with bounded values.

    >>> bounded(100, seed=1).circuit
    Circuit(10 inputs, 102 nodes, 0 splitters, output y)
    """
    return _Growth(nodes, seed).workload()


def nbody(*state: Any, steps: int = STEPS) -> Any:
    """Return the energy of bodies in the plane after a few leapfrog steps, in plain Python.

    >>> round(float(nbody(0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)), 6)
    -0.499495
    """
    count = len(state) // 4
    xs, ys, us, vs = (list(state[k * count : (k + 1) * count]) for k in range(4))
    for _ in range(steps):
        _kick(xs, ys, us, vs, STEP / 2)
        for k in range(count):
            xs[k] = xs[k] + STEP * us[k]
            ys[k] = ys[k] + STEP * vs[k]
        _kick(xs, ys, us, vs, STEP / 2)
    return _energy(xs, ys, us, vs)


def rigid_body(*state: Any, steps: int = STEPS) -> Any:
    """Return the energy of a heavy top after a few Runge-Kutta steps; its state is a quaternion and angular momentum.

    >>> round(float(rigid_body(1.0, 0.0, 0.0, 0.0, 0.1, 0.2, 0.3)), 6)
    1.105
    """
    now = list(state)
    for _ in range(steps):
        a = _turned(now)
        b = _turned([x + 0.5 * STEP * dx for x, dx in zip(now, a, strict=True)])
        c = _turned([x + 0.5 * STEP * dx for x, dx in zip(now, b, strict=True)])
        d = _turned([x + STEP * dx for x, dx in zip(now, c, strict=True)])
        slopes = [p + 2.0 * q + 2.0 * r + s for p, q, r, s in zip(a, b, c, d, strict=True)]
        now = [x + STEP / 6.0 * slope for x, slope in zip(now, slopes, strict=True)]
        length = np.sqrt(now[0] * now[0] + now[1] * now[1] + now[2] * now[2] + now[3] * now[3])
        now = [*(x / length for x in now[:4]), *now[4:]]
    spin = sum(m * m / inertia for m, inertia in zip(now[4:], INERTIA, strict=True))
    return 0.5 * spin + 1.0 - 2.0 * (now[1] * now[1] + now[2] * now[2])


def mechanics(bodies: int = 5, steps: int = STEPS) -> list[Workload]:
    """Return the mechanics workloads, traced from plain Python.

    >>> [workload.name for workload in mechanics()]
    ['5-body problem, 3 steps', 'rigid body, 3 steps']
    """
    rng = np.random.default_rng(0)
    angles = np.linspace(0.0, 2.0 * math.pi, bodies, endpoint=False)
    sky = np.concatenate([2.0 * np.cos(angles), 2.0 * np.sin(angles), rng.uniform(-0.5, 0.5, 2 * bodies)])
    top = np.array([0.9, 0.3, -0.2, 0.25, 0.4, -0.6, 0.8])
    return [
        _traced(f"{bodies}-body problem, {counted(steps, 'step')}", partial(nbody, steps=steps), sky),
        _traced(f"rigid body, {counted(steps, 'step')}", partial(rigid_body, steps=steps), top),
    ]


INERTIA = (1.0, 2.0, 0.5)
"""Moments of inertia of the rigid body along its own axes."""


def _traced(name: str, function: Callable[..., Any], middle: NDArray[np.float64]) -> Workload:
    circuit = Circuit(trace(function, *middle.tolist()).columns)
    return Workload(name, circuit, middle - 0.05, middle + 0.05)


def _kick(xs: list[Any], ys: list[Any], us: list[Any], vs: list[Any], time: float) -> None:
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


def _energy(xs: Sequence[Any], ys: Sequence[Any], us: Sequence[Any], vs: Sequence[Any]) -> Any:
    total = 0.5 * (us[0] * us[0] + vs[0] * vs[0])
    for i in range(1, len(xs)):
        total = total + 0.5 * (us[i] * us[i] + vs[i] * vs[i])
        for j in range(i):
            dx = xs[j] - xs[i]
            dy = ys[j] - ys[i]
            total = total - 1.0 / np.sqrt(dx * dx + dy * dy + 1e-3)
    return total


def _turned(state: Sequence[Any]) -> list[Any]:
    """Return the time derivatives of quaternion and angular momentum, by Euler's equations with gravity."""
    w, x, y, z, *momentum = state
    p, q, r = (m / inertia for m, inertia in zip(momentum, INERTIA, strict=True))
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


def _add(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Interval, b: Interval) -> Interval:
    return a[0] - b[1], a[1] - b[0]


def _multiply(a: Interval, b: Interval) -> Interval:
    corners = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
    return min(corners), max(corners)


def _divide(a: Interval, b: Interval) -> Interval | None:
    if b[0] < NEAREST and b[1] > -NEAREST:
        return None
    return _multiply(a, (1.0 / b[1], 1.0 / b[0]))


def _exp(a: Interval) -> Interval | None:
    return (math.exp(a[0]), math.exp(a[1])) if a[0] >= -STEEP and a[1] <= STEEP else None


def _tanh(a: Interval) -> Interval:
    return math.tanh(a[0]), math.tanh(a[1])


def _sin(a: Interval) -> Interval:
    rising = -math.pi / 2 <= a[0] and a[1] <= math.pi / 2
    return (math.sin(a[0]), math.sin(a[1])) if rising else (-1.0, 1.0)


def _relu(a: Interval) -> Interval | None:
    # A relu that never switches would only copy its argument, or be 0.
    return (0.0, a[1]) if a[0] < 0.0 < a[1] else None


class Drawn(NamedTuple):
    """An op of random circuits, on numbers and on intervals."""

    value: Callable[..., float]
    interval: Callable[..., Interval | None]
    """The interval of the value for intervals of the operands; None if these are not allowed."""


PAIRS = {
    "add": Drawn(operator.add, _add),
    "subtract": Drawn(operator.sub, _subtract),
    "multiply": Drawn(operator.mul, _multiply),
    "divide": Drawn(operator.truediv, _divide),
}
ALONE = {
    "tanh": Drawn(math.tanh, _tanh),
    "exp": Drawn(math.exp, _exp),
    "sin": Drawn(math.sin, _sin),
    "relu": Drawn(lambda x: max(x, 0.0), _relu),
}
DRAWN = {**PAIRS, **ALONE}
NAMES = tuple(DRAWN)
PAIR_NAMES = tuple(PAIRS)


class _Growth:
    """A random circuit while it grows."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.nodes = nodes
        self.rng = Random(seed)
        self.builder = Builder()
        self.middle = [self.rng.uniform(-1.5, 1.5) for _ in range(INPUTS)]
        self.ports: list[Port] = [self.builder.input(f"x{k}") for k in range(INPUTS)]
        self.intervals: list[Interval] = [(x - WIDTH, x + WIDTH) for x in self.middle]
        self.values = list(self.middle)
        """The values in the middle of the box."""
        self.unread = list(range(INPUTS))
        """The nodes that have no reader yet."""
        self.places = {node: node for node in range(INPUTS)}
        """The position of each of them in that list."""

    def workload(self) -> Workload:
        """Grow the circuit, then join the nodes without readers, so that the output depends on every node."""
        while len(self.ports) - INPUTS + len(self.unread) <= self.nodes:
            self._grow(self.rng.choice(NAMES))
        while len(self.unread) > 1:
            self._join()
        middle = np.array(self.middle)
        circuit = self.builder.build(labels={"y": self.ports[-1]})
        return Workload(f"{len(circuit):,} random nodes", circuit, middle - WIDTH, middle + WIDTH)

    def _grow(self, name: str) -> None:
        """Add a node of this op, unless no suitable operands are found after a few attempts."""
        for _ in range(TRIES):
            first = self._loose() if self.rng.random() < UNREAD else self._any()
            sources = (first, self._any()) if name in PAIRS else (first,)
            # The operands differ, because x - x and x / x are constants.
            if len({*sources}) == len(sources) and self._add(name, sources):
                return

    def _join(self) -> None:
        """Join two nodes without readers by an op; if no pair is suitable, apply tanh to one of them first."""
        for _ in range(TRIES):
            one = self._loose()
            two = self._loose()
            # If a factor is 0, as after a relu, no gradient would flow back to the other one.
            flows = min(abs(self.values[one]), abs(self.values[two])) > NEAREST
            name = self.rng.choice(PAIR_NAMES if flows else PAIR_NAMES[:2])
            if one != two and self._add(name, (one, two)):
                return
        self._add("tanh", (self._loose(),))

    def _add(self, name: str, sources: tuple[int, ...]) -> bool:
        interval = DRAWN[name].interval(*(self.intervals[source] for source in sources))
        if interval is None or not -BOUND <= interval[0] <= interval[1] <= BOUND:
            return False
        for source in sources:
            self._read(source)
        self.places[len(self.ports)] = len(self.unread)
        self.unread.append(len(self.ports))
        self.ports.append(self.builder.apply(TABLE[name], *(self.ports[source] for source in sources)))
        self.intervals.append(interval)
        self.values.append(DRAWN[name].value(*(self.values[source] for source in sources)))
        return True

    def _read(self, node: int) -> None:
        """Remove a node from those without readers; the last of them takes its place in the list."""
        place = self.places.pop(node, None)
        if place is not None:
            last = self.unread.pop()
            if last != node:
                self.unread[place] = last
                self.places[last] = place

    def _loose(self) -> int:
        return self.unread[int(self.rng.random() * len(self.unread))]

    def _any(self) -> int:
        return int(self.rng.random() * len(self.ports))
