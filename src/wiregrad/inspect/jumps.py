"""Jumps: conditions near the point of a run at which the output steps, so that a gradient leaves something out.

A gradient is that of one side of every condition. Where the output jumps as a condition changes, no slope says so: the
mean over many samples moves with the number of samples on either side, and its gradient has no part for that.

Which nodes are steps follows from the op table: those whose op has a kink with a `jump`, and those that block and
return truth values or whole numbers. Whether the output jumps where one of them changes is measured, since most
conditions join two formulas that agree there. The node is moved by at most `REACH` of its size, and between two points
at which some step differs the change is narrowed down until only a jump is left of it. Branches that Python took cannot
be run again, nor can code of users: there the note says what is not known.

`explain` alone reads this module; it calls `describe_jumps` and `find_moved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.errors import WiregradError
from wiregrad.inspect.report import RunIndex, format_place, join_with_and
from wiregrad.ir import Certificate, Node, Pattern, Place, Row
from wiregrad.ir.certificates import distinct_certificates
from wiregrad.ir.circuit import find_bodies
from wiregrad.lazy import NamedTuple
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import Kink

REACH = 0.5
"""How far the elements of a node are moved at most, in proportion to their magnitudes."""
SCANNED_MOVES = tuple([REACH * 4.0**-k for k in range(6, -1, -1)])
"""The moves in one direction at which steps are compared, nearest first."""
MAX_HALVINGS = 40
"""How often the distance between two points with different steps is halved."""
MAX_WORK = 100_000_000
"""How many numbers are computed at most, where a node of any size counts as `NODE_WORK` numbers more."""
NODE_WORK = 1000
MIN_RUNS = MAX_HALVINGS + 2 * len(SCANNED_MOVES) + 1
"""How often a circuit has to be run for one search."""
MAX_CONDITIONS = 2
"""Maximum number of conditions that a note names."""


def describe_jumps(index: RunIndex, node: int) -> Iterator[str]:
    """Describe the conditions near the point of a run at which the output jumps as a node moves.

    >>> import wiregrad as wg
    >>> run = wg.circuit("where(x > 1, 3, 2) * x").run(x=1.2)
    >>> print(*describe_jumps(RunIndex(run), 0))  # doctest: +ELLIPSIS
    the output jumps where x > 1.0 (formula:1:7) changes: the gradient leaves the jump out; a smooth step has one, ...
    >>> list(describe_jumps(RunIndex(wg.circuit("where(x > 1, x * x, x)").run(x=1.2)), 0))
    []
    """
    moved = find_moved(index, node)
    steps = [row for row in moved if index.ranks[row.node] >= 0 and _is_step(index, row)]
    nodes = {node, *(row.node for row in moved)}
    certificates = [certificate for certificate in distinct_certificates(index.circuit) if certificate.node in nodes]
    branches = [certificate for certificate in certificates if np.asarray(certificate.outcome).dtype.kind in "bi"]
    yield from _note_read_numbers(index, certificates)
    if not steps and not branches:
        return
    if not _can_run_again(index, moved):
        yield from _note_unmeasured(index, steps, branches)
        return
    probe = _JumpProbe(index, node, moved, steps, branches)
    jumps = probe.find_jumps()
    if jumps:
        yield (
            f"the output jumps where {_name_conditions(index, jumps)} changes: the gradient leaves the jump out; a "
            f"smooth step has one, such as sigmoid((a - b) / width) for a > b"
        )
    yield from _note_branches(index, probe.find_changed_branches())


def find_moved(index: RunIndex, node: int) -> list[Row]:
    """Return the nodes that depend on a node, also where no gradient flows, in order."""
    moved = bytearray(len(index.rows))
    moved[node] = 1
    dependents = []
    for row in index.rows[node + 1 :]:
        if any(moved[source] for source in row.sources):
            moved[row.node] = 1
            dependents.append(row)
    return dependents


def _is_step(index: RunIndex, row: Row) -> bool:
    """Return whether the value of a node changes in jumps."""
    if isinstance(row.op, Elementwise) and any(kink.jump for kink in row.op.kinks):
        return True
    return row.op.pattern is Pattern.BLOCK and index.circuit.type_of(row.node).dtype.kind in "bi"


def _can_run_again(index: RunIndex, moved: Sequence[Row]) -> bool:
    """Return whether that is quick enough, and no node runs code of a user."""
    return MIN_RUNS * _measure_work(index, moved) <= MAX_WORK and not any(
        getattr(row.op, "opaque", False) or (row.op.per_call and not find_bodies(row.op)) for row in moved
    )


def _measure_work(index: RunIndex, moved: Sequence[Row]) -> int:
    return sum(NODE_WORK + np.size(index.values[row.node]) for row in moved)


def _note_unmeasured(index: RunIndex, steps: Sequence[Row], branches: Sequence[Certificate]) -> Iterator[str]:
    """Note the conditions of a circuit that is not run again."""
    conditions = [(row.node, index.place_of(row.node)) for row in steps]
    conditions += [(branch.node, branch.place) for branch in branches]
    yield (
        f"the values chosen by {_name_conditions(index, conditions)} are those of this point: if the output jumps "
        f"where that changes, the gradient leaves the jump out"
    )


def _note_branches(index: RunIndex, branches: Sequence[Certificate]) -> Iterator[str]:
    """Note what Python decides otherwise nearby."""
    if branches:
        conditions = _name_conditions(index, [(branch.node, branch.place) for branch in branches])
        yield (
            f"Python decided by {conditions}, which changes nearby: if the result jumps there, the gradient "
            f"leaves the jump out"
        )


def _note_read_numbers(index: RunIndex, certificates: Sequence[Certificate]) -> Iterator[str]:
    """Note the numbers that Python read, as with `v.item()`: what it computes from them is not recorded."""
    read = [
        (certificate.node, certificate.place)
        for certificate in certificates
        # What is read of the output itself comes too late to change it.
        if certificate.node != index.root and np.asarray(certificate.outcome).dtype.kind in "fc"
    ]
    if read:
        yield (
            f"Python read the plain number of {_name_conditions(index, read)}: what it computed from that is a "
            f"constant here, and the gradient leaves it out"
        )


_Condition = tuple[int, Place | None]
"""A node that decides, and its source location."""


def _name_conditions(index: RunIndex, conditions: Iterable[_Condition]) -> str:
    """Name the first conditions with their lines, each line once."""
    first_of_line: dict[object, str] = {}
    for node, place in conditions:
        title = Node(index.circuit, node).expression() if node == index.root else index.circuit.title_of(node)
        text = title + format_place(place)
        first_of_line.setdefault(place or node, text)
    texts = list(first_of_line.values())
    more = len(texts) - MAX_CONDITIONS
    return join_with_and([*texts[:MAX_CONDITIONS], *([f"{more} more"] if more > 0 else [])])


class _ProbePoint(NamedTuple):
    """What is known after a move."""

    move: float
    steps: list[NDArray[Any]]
    branches: list[NDArray[Any]]
    output: NDArray[Any]


class _JumpProbe:
    """Runs the nodes that depend on one node again, after moves of that node."""

    def __init__(
        self, index: RunIndex, node: int, moved: Sequence[Row], steps: Sequence[Row], branches: Sequence[Certificate]
    ) -> None:
        self.index = index
        self.node = node
        self.moved = moved
        self.steps = steps
        self.branches = branches
        self.runs_left = MAX_WORK // _measure_work(index, moved)
        self.direction = _choose_direction(index.values[node])
        here = self._evaluate(0.0)
        self.here = here
        self.lines = [[here, *self._scan(sign)] for sign in (1.0, -1.0)] if here is not None else []
        points = [point for line in self.lines for point in line]
        self.scale = max([_largest_finite(point.output) for point in points], default=0.0)

    def find_jumps(self) -> list[_Condition]:
        """Return the steps at which the output jumps, the nearest first."""
        pairs = [pair for line in self.lines for pair in pairwise(line) if self._may_jump(*pair)]
        pairs.sort(key=lambda pair: abs(pair[0].move))
        nodes: dict[int, None] = {}
        for near, far in pairs:
            if self.runs_left < MAX_HALVINGS or len(nodes) == MAX_CONDITIONS:
                break
            if (step := self._narrow_to_jump(near, far)) is not None:
                nodes[step] = None
        return [(node, self.index.place_of(node)) for node in nodes]

    def find_changed_branches(self) -> list[Certificate]:
        """Return the branches of Python that some move decides otherwise."""
        points = [point for line in self.lines for point in line[1:]]
        return [
            branch
            for k, branch in enumerate(self.branches)
            if self.here is not None and any(_differ(self.here.branches[k], point.branches[k]) for point in points)
        ]

    def _scan(self, sign: float) -> list[_ProbePoint]:
        """Return the points in one direction, until the circuit cannot be run."""
        points = []
        for move in SCANNED_MOVES:
            point = self._evaluate(sign * move)
            if point is None:
                break
            points.append(point)
        return points

    def _may_jump(self, near: _ProbePoint, far: _ProbePoint) -> bool:
        """Return whether some step changes between two points of the branch that Python took."""
        assert self.here is not None
        same_branches = not any(map(_differ, self.here.branches, far.branches))
        return same_branches and self._step_changes(near, far)

    def _step_changes(self, one: _ProbePoint, two: _ProbePoint) -> bool:
        return any(map(_differ, one.steps, two.steps))

    def _narrow_to_jump(self, near: _ProbePoint, far: _ProbePoint) -> int | None:
        """Halve the distance of two points while some step differs; return that step if the output still does."""
        for _ in range(MAX_HALVINGS):
            middle = self._evaluate((near.move + far.move) / 2.0)
            if middle is None or middle.move in (near.move, far.move):
                return None
            halves = [half for half in ((near, middle), (middle, far)) if self._step_changes(*half)]
            near, far = max(halves, key=lambda half: _gap(half[0].output, half[1].output))
        gap = _gap(near.output, far.output)
        if not np.isfinite(gap) or gap <= self.scale * np.sqrt(_resolution(near.output)):
            return None
        changed = [row for row, a, b in zip(self.steps, near.steps, far.steps, strict=True) if _differ(a, b)]
        # What `where` did not choose may jump at the same point as what it chose.
        return next((row.node for row in changed if not self._is_left_out(row)), changed[0].node)

    def _is_left_out(self, row: Row) -> bool:
        """Return whether a gradient could flow through a step, and none does."""
        return row.op.pattern is not Pattern.BLOCK and self.index.flows[row.node] is None

    def _evaluate(self, move: float) -> _ProbePoint | None:
        """Run the moved nodes; None if an op refuses its inputs."""
        self.runs_left -= 1
        values = dict[int, Any]()
        known = self.index.values
        x = known[self.node]
        values[self.node] = (x + move * self.direction).astype(np.asarray(x).dtype)[()]
        try:
            for row in self.moved:
                xs = [values[source] if source in values else known[source] for source in row.sources]
                values[row.node] = row.op.kernel(*xs)
        except (WiregradError, ArithmeticError, np.linalg.LinAlgError):
            return None
        steps = [_step_state(row, values, known) for row in self.steps]
        branches = [
            np.asarray(values[branch.node]).astype(np.asarray(branch.outcome).dtype) for branch in self.branches
        ]
        root = self.index.root
        return _ProbePoint(move, steps, branches, np.asarray(values[root] if root in values else known[root]))


def _choose_direction(x: ArrayLike) -> NDArray[Any]:
    """Return by how much each element moves: its magnitude, or the largest one for a 0, in random directions."""
    array = np.asarray(x)
    sizes = np.abs(array)
    largest = _largest_finite(array) or 1.0
    signs = np.random.default_rng(0).choice([-1.0, 1.0], array.shape) if array.shape else 1.0
    direction: NDArray[Any] = np.asarray(np.where(sizes == 0, largest, sizes) * signs)
    return direction


def _step_state(row: Row, values: dict[int, Any], known: Sequence[Any]) -> NDArray[Any]:
    """Return what changes where a step does: its value, or on which side of its jumps it is."""
    if row.op.pattern is Pattern.BLOCK:
        return np.asarray(values[row.node])
    assert isinstance(row.op, Elementwise)
    xs = [values[source] if source in values else known[source] for source in row.sources]
    return np.stack([_jump_side(kink, xs) for kink in row.op.kinks if kink.jump])


def _jump_side(kink: Kink, xs: Sequence[Any]) -> NDArray[Any]:
    """Return on which side of a jump each element is, as numbers."""
    return np.sign(1.0 * np.asarray(kink.at(*xs))) if kink.side is None else np.asarray(kink.side(*xs))


def _differ(one: NDArray[Any], two: NDArray[Any]) -> bool:
    return not np.array_equal(one, two)


def _gap(one: NDArray[Any], two: NDArray[Any]) -> float:
    return float(np.max(np.abs(1.0 * one - two), initial=0.0))


def _largest_finite(x: NDArray[Any]) -> float:
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _resolution(x: NDArray[Any]) -> float:
    return float(np.finfo((1.0 * x).dtype).eps)
