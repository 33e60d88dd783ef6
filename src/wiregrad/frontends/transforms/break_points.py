"""Break points: places where a function of one number changes the side of a condition, as values that move.

An integral from a to b of a function that jumps at c moves with c, but no slope of the function says so. If the range
is divided at c, and c is a value, the derivatives of all orders come from the limits of the parts. It is the same with
kinks: there the first derivative is right without it, and the second is not.

Which nodes have sides follows from the op table: those whose op has kinks, and those that return truth values or whole
numbers. The function is traced at some points; between two that differ in a side, the change is narrowed down to two
neighbouring floats. What is compared is 0 there, and Newton's steps on it are recorded: so the place depends on
everything that the comparison reads. `scipy.integrate.quad` calls `find_break_points`; nothing else does.

The right side of a differential equation is a function of one number along a step of the solution. Its jumps do not
divide the step; SciPy's solvers call `warn_of_moving_jump`, which says what the gradient leaves out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import FunctionType, MethodType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import GradientError, GradientWarning, WiregradError, format_user_line, warn_at_user_line
from wiregrad.frontends.recording.session import data_of
from wiregrad.frontends.recording.tape import STATE, STRIDE, ExtraNode
from wiregrad.frontends.recording.trace import run_traced, scope_of_function
from wiregrad.frontends.recording.user_code import walk_all
from wiregrad.frontends.recording.value import Value, notes_of
from wiregrad.frontends.transforms.derivatives import jvp, vjp
from wiregrad.frontends.transforms.implicit import apply_rows
from wiregrad.ir import Pattern
from wiregrad.lazy import NamedTuple
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import Kink
from wiregrad.ops.elementwise_records import GAPS_HAVE_SLOPES

Found = TypeVar("Found")
NEWTON_STEPS = 3
"""Number of recorded steps to a break point; each makes one more order of derivatives exact."""
MAX_DEPTH = 3
"""How deep values are searched in the variables of a function."""
MAX_GUESSES = 40
"""How often a place is guessed from what is compared, before the distance is halved."""
GUESS_MARGIN = 0.01
"""How far from the guessed place a guess is, as a share of the distance."""
SAME_MOTION = 1e-6
"""Largest relative difference of the motions of two conditions that count as one."""
ROUNDING = 64 * float(np.finfo(float).eps)
"""How far from 0, relative to its operands, a difference may be where it changes its sign."""
MIN_JUMP = 1e-6
"""The least change of the function between two neighbouring floats that counts as a jump, relative to its values."""


class SearchState(threading.local):
    """What a thread does while it searches for break points."""

    def __init__(self) -> None:
        self.is_tracing = False
        """Whether the function is being traced."""
        self.hidden: list[range] = []
        """The rows of the trace that an integral inside the function has recorded."""


SEARCH = SearchState()


@contextmanager
def hide_inner_integral() -> Iterator[bool]:
    """Return a block for an integral: in a function that is searched, its own conditions do not count, and it is True.

    They are those of its nodes; the inner integral itself has no jump where they change.
    """
    tape = STATE.tape
    if not SEARCH.is_tracing or tape is None:
        yield False
        return
    start = len(tape.buffer)
    try:
        yield True
    finally:
        SEARCH.hidden.append(range(start, len(tape.buffer)))


class Side(NamedTuple):
    """On which side of its condition a node is."""

    offset: int
    node: ExtraNode
    kink: Kink | None
    """What is 0 where the side changes; None if the op does not say."""
    state: NDArray[Any]
    moves: bool
    """Whether the condition reads values from outside the function."""


class TracedPoint:
    """A function traced at one point, with the sides of its conditions."""

    def __init__(self, function: Callable[[Any], Any], t: float, *, lifts: bool, named: bool = False) -> None:
        self.t = t
        with np.errstate(all="ignore"):
            call = function if lifts else lambda: function(t)
            before = SEARCH.is_tracing, SEARCH.hidden
            hidden = list[range]()
            SEARCH.is_tracing, SEARCH.hidden = True, hidden
            try:
                self.traced = run_traced(call, (t,) if lifts else (), {}, named=named, replayed=False)
            finally:
                SEARCH.is_tracing, SEARCH.hidden = before
            self.tape = self.traced.tape
            self._hidden = {offset for rows in hidden for offset in rows[::STRIDE]}
            self.outside = {at: x for at, x in self.tape.leaves.items() if notes_of(x).born != self.tape.serial}
            self.sides = list(self._list_sides())
        # What was read from outside is an input from here on.
        self.tape.leaves.clear()
        self.tape.owner = None

    @property
    def has_conditions(self) -> bool:
        """Whether another point may have other sides, or other rows."""
        return bool(self.sides) or self.branches

    @property
    def branches(self) -> bool:
        """Whether a condition has steered Python."""
        checks = [check for check in self.traced.guard.certificates if check.node not in self._hidden]
        return any(np.asarray(check.outcome).dtype.kind in "bi" for check in checks)

    @property
    def result(self) -> float:
        """The value of the function."""
        return float(self.numbers.item())

    @property
    def numbers(self) -> NDArray[Any]:
        """The value of the function, of any shape."""
        return np.asarray(data_of(self.traced.results[0]))

    def _list_sides(self) -> Iterator[Side]:
        moving = set(self.outside)
        for offset in range(0, len(self.tape.buffer), STRIDE):
            if not moving.isdisjoint(self.tape.sources_at(offset)):
                moving.add(offset)
            if offset in self._hidden:
                continue
            node = self.tape.node_at(offset)
            kinks = node.op.kinks if isinstance(node.op, Elementwise) else ()
            if node.op.pattern is Pattern.BLOCK:
                if kinks or np.asarray(node.y).dtype.kind in "bi":
                    kink = kinks[0] if kinks else None
                    yield Side(offset, node, kink, np.asarray(node.y), offset in moving)
                continue
            for kink in kinks:
                yield Side(offset, node, kink, _find_side(kink, node.xs), offset in moving)

    def gap_at(self, change: Change, t: Any, outside: Sequence[Any]) -> Any:
        """Return what is 0 where a side changes, at another place and for other values from outside."""
        side, _, element = change
        assert side.kink is not None
        known = dict(zip([*self.traced.inputs, *self.outside], [t, *outside], strict=True))
        needed = self.traced.needed_offsets(side.node.sources)
        apply_rows(self.tape, needed.tolist(), known, ())
        operands = [
            known[source] if source >= 0 else x for source, x in zip(side.node.sources, side.node.xs, strict=True)
        ]
        token = GAPS_HAVE_SLOPES.set(True)
        try:
            gap = side.kink.at(*operands)
        finally:
            GAPS_HAVE_SLOPES.reset(token)
        return gap[element] if element else gap


def _find_side(kink: Kink, xs: Sequence[Any]) -> NDArray[Any]:
    if kink.side is not None:
        return np.asarray(kink.side(*xs))
    return np.sign(1.0 * np.asarray(kink.at(*xs)))


def _read_gap(side: Side, element: tuple[int, ...]) -> float:
    assert side.kink is not None
    return float(np.broadcast_to(side.kink.at(*side.node.xs), side.state.shape)[element])


class Change(NamedTuple):
    """A node that has another side at another point, and the index of an element that has."""

    side: Side
    other: Side
    element: tuple[int, ...]

    @property
    def gaps(self) -> tuple[float, float]:
        """What is 0 where the side changes, at both points."""
        assert self.side.kink is not None
        return _read_gap(self.side, self.element), _read_gap(self.other, self.element)


def find_break_points(function: Callable[[Any], Any], points: Sequence[float]) -> list[Any]:
    """Return where a function of a number changes the side of a condition between points, which increase.

    A place is a value that depends on what the condition reads; if that is no value from outside, it is a plain number.

    >>> import wiregrad as wg
    >>> def place(a):
    ...     return find_break_points(lambda t: 1.0 if t * t < a else 0.0, [0.1, 0.9])[0]
    >>> wg.value_and_grad(place)(0.25)
    (0.5, 1.0)
    """
    if STATE.is_paused or SEARCH.is_tracing:
        return []
    return _search(function, lambda search: search.find_all(points))


def reads_values(function: Callable[[Any], Any], points: Sequence[float], *, lifts: bool = True) -> bool:
    """Return whether a function of a number reads values from outside at one of some points.

    With `lifts`, the number is given as a value if the function can take one.

    >>> reads_values(lambda t: 1.0 if t < 0.5 else 0.0, [0.1, 0.9])
    False
    """
    if not lifts:
        return _Search(function, lifts=False).reads_values(points)
    return _search(function, lambda search: search.reads_values(points))


def refers_to_value(function: Any) -> bool:
    """Return whether a value is in a variable of a function from outside, or in a container or an attribute there.

    >>> refers_to_value(lambda t: t)
    False
    """
    if not isinstance(function, FunctionType | MethodType):
        return False
    variables = scope_of_function(function).variables
    return any(isinstance(part, Value) for _, part in (*variables.items(), *walk_all(variables, MAX_DEPTH)))


def _search(function: Callable[[Any], Any], ask: Callable[[_Search], Found]) -> Found:
    """Return what a search finds that gives the function values, or plain numbers if it needs them."""
    try:
        return ask(_Search(function, lifts=True))
    except GradientError:
        raise
    except WiregradError:
        # The function makes a plain number of its argument, for `math.exp` or another library.
        return ask(_Search(function, lifts=False))


class _Search:
    """A search for the break points of one function; `lifts` says that its argument is given as a value."""

    def __init__(self, function: Callable[[Any], Any], *, lifts: bool) -> None:
        self.function = function
        self.lifts = lifts
        self.scale = 0.0

    def find_all(self, points: Sequence[float]) -> list[Any]:
        """Return the break points between the points."""
        middle = self._trace(points[len(points) // 2])
        if self.lifts and not middle.has_conditions:
            return []
        traced = [self._trace(t) for t in points]
        self.scale = max(abs(point.result) for point in traced)
        return [place for left, right in pairwise(traced) for place in self._find_between(left, right)]

    def reads_values(self, points: Sequence[float]) -> bool:
        """Return whether values from outside are read at a point."""
        middle = self._trace(points[len(points) // 2])
        if middle.outside:
            return True
        # Without a branch it does the same everywhere; branches on plain numbers are not seen.
        is_same = self.lifts and not middle.branches
        return not is_same and any(self._trace(t).outside for t in points)

    def _trace(self, t: float) -> TracedPoint:
        return TracedPoint(self.function, t, lifts=self.lifts)

    def _find_between(self, left: TracedPoint, right: TracedPoint) -> Iterator[Any]:
        """Yield the break points between two points, the first one first."""
        waiting = [(left, right, 0)]
        while waiting:
            left, right, count = waiting.pop()
            if not _differ(left, right):
                continue
            middle = 0.5 * (left.t + right.t)
            if middle in (left.t, right.t):
                yield self._place_point(left, right)
                continue
            guess = _guess_place(left, right) if count < MAX_GUESSES else middle
            between = self._trace(guess if left.t < guess < right.t else middle)
            waiting += [(between, right, count + 1), (left, between, count + 1)]

    def _place_point(self, left: TracedPoint, right: TracedPoint) -> Any:
        """Return the break point between two neighbouring floats, as a value if it moves."""
        changes = list(_list_changes(left, right))
        # What has changed first is a cause; what changes besides may follow from it.
        changes = changes[:1] + [change for change in changes[1:] if _is_cause(change)]
        if not any(change.side.moves for change in changes):
            return left.t
        trouble = self._find_trouble(left, changes)
        if trouble is None:
            return self._follow(left, changes[0])
        if abs(left.result - right.result) <= MIN_JUMP * self.scale:
            # Without a jump the place matters for higher derivatives alone.
            return left.t
        raise GradientError(
            f"the function that is integrated jumps at t = {left.t:.6g}, from {left.result:.6g} to {right.result:.6g}. "
            f"The place depends on a recorded value, but {trouble}, so the gradient would lack a part; divide the "
            "integral there, as in quad(f, 0, c)[0] + quad(g, c, 1)[0], where c is the place computed from the value, "
            f"f is the function before it and g behind it{format_user_line()}"
        )

    def _find_trouble(self, point: TracedPoint, changes: Sequence[Change]) -> str | None:
        """Return why the motion of a break point is not known; None if it is."""
        name = changes[0].side.node.op.name
        if changes[0].side.kink is None:
            return f"{name}, which decides, does not say how the place moves"
        if not self.lifts:
            return "the function makes a plain number of t, as math.exp does where np.exp would not"
        motions = [_motion_of(point, change) for change in changes]
        if not np.isfinite(motions[0]).all():
            return f"what {name} reads has no slope there"
        if not all(np.allclose(motions[0], motion, rtol=SAME_MOTION, atol=SAME_MOTION) for motion in motions[1:]):
            return "several conditions change there that may move apart"
        return None

    def _follow(self, point: TracedPoint, change: Change) -> Any:
        """Return a break point as a value that depends on what its condition reads."""
        outside = list(point.outside.values())
        slope = _slope_of(point, change)
        t: Any = point.t
        for _ in range(NEWTON_STEPS):
            t = t - point.gap_at(change, t, outside) / slope
        return t


MAX_CONTINUOUS_CHANGES = 4
"""How often a condition is followed to the place where it changes, if the function has not jumped there so far."""
MIN_SHARE = 1e-12
"""The least change of an element that counts as a jump, relative to the largest element."""


def warn_of_moving_jump(
    rate: Callable[[Any, Any], Any], name: str, times: Sequence[float], states: Sequence[Any]
) -> None:
    """Warn if the right side of a differential equation jumps along a solution, at a place that moves with values.

    The gradient of the steps leaves the motion of that place out. Only conditions that may jump are followed: `where`,
    `sign`, a branch of Python, but not `maximum` or `abs`. Between two steps the solution is taken for a straight line.
    """
    if STATE.is_paused or SEARCH.is_tracing:
        return
    try:
        spot = _find_moving_jump(rate, times, states)
    except Exception:
        # A function may refuse states beside the solution, such as a vector whose length is not 1.
        return
    if spot is not None:
        warn_at_user_line(
            f"the right side of {name} jumps where a condition changes{spot}, and the moment of that depends on a "
            "recorded value: the gradient leaves its motion out. Write wg.odeint with an event that is 0 at that "
            "moment, and let f read the side from a component of the state that the event's restart changes; or write "
            "a smooth step, such as wg.sigmoid((a - b) / width) for a > b. See docs/ode.md",
            GradientWarning,
        )


def _find_moving_jump(rate: Callable[[Any, Any], Any], times: Sequence[float], states: Sequence[Any]) -> str | None:
    """Return the line of the condition of a jump whose place moves with values, in parentheses; None without one."""
    continuous: dict[int, int] = {}
    before: TracedPoint | None = None
    for (t, t_next), (y, y_next) in zip(pairwise(times), pairwise(states), strict=True):
        search = _JumpSearch.along(rate, (t, t_next), (y, y_next))
        after = search.trace_end(1.0)
        if before is None:
            if search.lifts and not after.has_conditions:
                return None
            before = search.trace_end(0.0)
        change = next(_list_changes(before, after), None)
        where = -1 if change is None else change.side.offset
        if _differ(before, after) and continuous.get(where, 0) < MAX_CONTINUOUS_CHANGES:
            jump = search.find_jump(before, after)
            if jump is not None:
                return search.describe_place(jump)
            continuous[where] = continuous.get(where, 0) + 1
        before = after
    return None


class _JumpSearch(_Search):
    """A search for a jump of the right side of a differential equation, between two points of a solution."""

    @classmethod
    def along(cls, rate: Callable[[Any, Any], Any], times: tuple[float, float], states: tuple[Any, Any]) -> _JumpSearch:
        """Return the search along the line between two states; s is 0 at the first and 1 at the second."""
        (t, t_next), (y, y_next) = times, states

        def slope_at(s: Any) -> Any:
            return rate(t + s * (t_next - t), y + s * (y_next - y))

        return cls(slope_at, lifts=True)

    def trace_end(self, s: float) -> TracedPoint:
        """Return the traced function at an end of the line."""
        try:
            return self._trace(s)
        except GradientError:
            raise
        except WiregradError:
            # The function makes a plain number of the time.
            self.lifts = False
            return self._trace(s)

    def find_jump(self, before: TracedPoint, after: TracedPoint) -> Change | None:
        """Return the change of a condition at which the function jumps, if its place moves with values."""
        self.sizes = np.maximum(np.abs(before.numbers), np.abs(after.numbers))
        before.t = 0.0
        return next((change for change in self._find_between(before, after) if change is not None), None)

    def _trace(self, t: float) -> TracedPoint:
        point = super()._trace(t)
        point.sides = [side for side in point.sides if side.kink is None or side.kink.jump or _decides(side.node)]
        return point

    def _place_point(self, left: TracedPoint, right: TracedPoint) -> Change | None:
        """Return the first condition that changes at a place, if the function jumps there and the place moves."""
        changes = [change for change in _list_changes(left, right) if change.side.moves]
        sizes = np.maximum(self.sizes, np.maximum(np.abs(left.numbers), np.abs(right.numbers)))
        least = np.maximum(MIN_JUMP * sizes, MIN_SHARE * np.max(sizes, initial=0.0))
        jumps = bool(np.any(np.abs(right.numbers - left.numbers) > least))
        return changes[0] if jumps and changes else None

    def describe_place(self, change: Change) -> str:
        """Return the line of a condition, in parentheses; empty if it is not known."""
        point = TracedPoint(self.function, 0.5, lifts=self.lifts, named=True)
        place = point.tape.notes.place_at(change.side.offset)
        return "" if place is None else f" ({place.file}:{place.line})"


def _decides(node: ExtraNode) -> bool:
    """Return whether a node gives truth values or whole numbers, by which others choose."""
    return node.op.pattern is Pattern.BLOCK and np.asarray(node.y).dtype.kind in "bi"


def _differ(left: TracedPoint, right: TracedPoint) -> bool:
    """Return whether two points differ in a side, or in what was recorded."""
    return len(left.sides) != len(right.sides) or not all(map(_is_same, left.sides, right.sides))


def _is_same(one: Side, two: Side) -> bool:
    return one.node.op.name == two.node.op.name and np.array_equal(
        one.state, two.state, equal_nan=one.state.dtype.kind == "f"
    )


def _list_changes(left: TracedPoint, right: TracedPoint) -> Iterator[Change]:
    """Yield the elements of sides that differ, as long as the same ops were recorded."""
    for one, two in zip(left.sides, right.sides, strict=False):
        if one.node.op.name != two.node.op.name or one.state.shape != two.state.shape:
            return
        if not _is_same(one, two):
            for element in np.argwhere(one.state != two.state):
                yield Change(one, two, tuple(map(int, element)))


def _guess_place(left: TracedPoint, right: TracedPoint) -> float:
    """Return a point near the one where the first condition changes, on the side that leaves the shorter rest."""
    change = next(_list_changes(left, right), None)
    low, high = (np.nan, np.nan) if change is None or change.side.kink is None else change.gaps
    if not low * high < 0.0:
        return np.nan
    width = right.t - left.t
    place = left.t + width * low / (low - high)
    margin = GUESS_MARGIN * width
    if place - left.t > 2.0 * margin:
        return place - margin
    return place + margin if right.t - place > 2.0 * margin else np.nan


def _is_cause(change: Change) -> bool:
    """Return whether a side changes because what it compares passes 0, and not because an earlier one has changed."""
    if change.side.kink is None:
        return False
    size = max(float(np.max(np.abs(x), initial=0.0)) for x in map(np.asarray, change.side.node.xs))
    return max(map(abs, change.gaps)) <= ROUNDING * max(size, 1.0)


def _slope_of(point: TracedPoint, change: Change) -> float:
    """Return how fast what is compared changes with the number."""
    plain = [data_of(x) for x in point.outside.values()]
    return float(jvp(lambda t: point.gap_at(change, t, plain), (point.t,), (1.0,))[1])


def _motion_of(point: TracedPoint, change: Change) -> NDArray[Any]:
    """Return the derivatives of a break point by the values from outside, up to the sign, as one vector."""
    plain = [data_of(x) for x in point.outside.values()]
    slopes = vjp(lambda *xs: point.gap_at(change, point.t, xs), *plain)[1](1.0)
    with np.errstate(all="ignore"):
        return np.concatenate([np.ravel(slope) for slope in slopes]) / np.float64(_slope_of(point, change))
