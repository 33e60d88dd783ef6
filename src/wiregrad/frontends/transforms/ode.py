"""Differential equations: solutions as single nodes, whose gradient is that of the steps that were taken.

The first pass runs on plain numbers. It chooses the steps, finds the events, and keeps the rows of the result, and the
steps if they are few. Derivatives hold the steps constant, as shares of the time between the start (or the last event)
and the end, and differentiate everything else: the formula of each step, the polynomial between its ends, the times,
and the moment of an event, which the equation g(t, y) = 0 defines.

Read `odeint` first; `Trajectory.advance` takes a step, `apply_move` is the same step on recorded values, and
`OdeSegment` goes back over all steps: it computes states again from some that it keeps, and records one step at a time.

Kept true: a bounded number of steps is kept, so memory does not grow with their number, unless a gradient is itself
recorded.
Nothing is returned from steps whose error was not below the tolerances: `ConvergenceError` says what to try.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, NoReturn

import numpy as np

from wiregrad.dtypes import count_with_noun
from wiregrad.errors import (
    BranchError,
    EscapeError,
    GradientError,
    OperandError,
    ShapeError,
    WiregradError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import PackedParts, fill_places, flatten, unflatten
from wiregrad.frontends.recording.library_hooks import OVERLAY, leave_transforms
from wiregrad.frontends.recording.record import common_tape, convention, finish_node, no_grad, place_on_tape
from wiregrad.frontends.recording.session import RecordingSession, data_of, function_name, push_by_transpose
from wiregrad.frontends.recording.tape import STATE, Tape, TapeKind
from wiregrad.frontends.recording.value import (
    Scalar,
    Value,
    as_numpy_number,
    as_python_number,
    number_class,
    settle_gradient,
)
from wiregrad.frontends.transforms.derivatives import jvp, vjp
from wiregrad.frontends.transforms.implicit import Recording, refuse_wires, require_function, root
from wiregrad.frontends.transforms.memory_plans import Advance, BinomialSchedule, identify_value, walk_schedule
from wiregrad.frontends.transforms.ode_steps import (
    METHODS,
    STIFF_METHOD,
    AcceptedStep,
    BoundFunction,
    BoundSystem,
    CompiledMethod,
    InitialValueProblem,
    OdeEvent,
    OdeMethod,
    OdeMove,
    OdeSettings,
    OdeStep,
    SolveCounts,
    StepBlock,
    Trajectory,
    Vector,
)
from wiregrad.frontends.transforms.vmap_and_checkpoint import CheckpointSegment
from wiregrad.ir import TABLE, Pattern
from wiregrad.ir.columns import chosen_convention
from wiregrad.ops.array_ops import General
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.gradient_flow import fill_absent

DEFAULT_RTOL = 1e-8
DEFAULT_ATOL = 1e-10
MAX_STEPS = 20_000
"""Maximum number of steps, unless another one is passed."""
MAX_KEPT_STATES = 1_000
MIN_KEPT_STATES = 16
KEPT_BYTES = 1 << 22
"""About how many bytes of steps a solution keeps for its gradient, and of states a gradient on its way back."""


def event(
    g: Callable[..., Any],
    terminal: bool | None = None,
    direction: int = 0,
    restart: Callable[..., Any] | None = None,
) -> OdeEvent:
    """Describe an event of `odeint`: the moment at which g(t, y, *args) becomes zero.

    The solution ends there. With `restart` it goes on from the state that restart(t, y, *args) returns, and with
    `terminal=False` as if nothing had happened. `direction` is 1 for events at which g grows, -1 for those at which it
    falls, and 0 for both.

    >>> event(lambda t, y: y[0], direction=-1).terminal
    True
    """
    require_function(g, "the first argument of event")
    if restart is not None:
        require_function(restart, "restart")
        if terminal:
            raise OperandError("an event with restart= goes on, so it cannot be terminal; leave out one of the two")
    if direction not in (-1, 0, 1):
        raise OperandError(f"the direction of an event is 1 (g grows), -1 (g falls) or 0; got {short_repr(direction)}")
    return OdeEvent(g, restart is None if terminal is None else bool(terminal), int(direction), restart)


@dataclass(frozen=True, repr=False)
class ODEResult:
    """What `odeint` found: the states at the requested times, the events, and what it took."""

    ts: Any
    """The times; those behind a terminal event are left out."""
    ys: Any
    """The states at these times, in the structure of y0, with one more axis in front."""
    event_times: list[Any]
    """The times of each event, one array per event."""
    event_states: list[Any]
    """The states at these times, before a restart."""
    steps: int
    rejected: int
    """Number of steps that were tried and not accurate enough."""
    evaluations: int
    """How often f was computed."""
    method: str
    notes: tuple[str, ...]
    """What should be known about the result: ignored events, stiffness, an early end."""
    _solve_at: Callable[[Any], Any] = field(compare=False)

    def sol(self, t: object) -> Any:
        """Return the state at one time or at several, between the first and the last; it can be differentiated.

        The equation is solved again for that, with the same steps, so ask for many times at once.
        """
        return self._solve_at(t)

    def __repr__(self) -> str:
        counts = [len(data_of(times)) for times in self.event_times]
        last = data_of(self.ts)[-1]
        lines = [
            f"ODEResult: {count_with_noun(len(data_of(self.ts)), 'time')} from {data_of(self.ts)[0]:g} to {last:g} by "
            f"{self.method}, {count_with_noun(self.steps, 'step')}, {self.rejected} rejected, "
            f"{count_with_noun(self.evaluations, 'evaluation')}"
        ]
        if counts:
            lines.append("  events: " + ", ".join(f"{count} of event {k}" for k, count in enumerate(counts)))
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def odeint(
    f: Callable[..., Any],
    y0: object,
    ts: object,
    *args: object,
    method: str = "dopri5",
    rtol: float = DEFAULT_RTOL,
    atol: float = DEFAULT_ATOL,
    step: float | None = None,
    max_step: float | None = None,
    max_steps: int = MAX_STEPS,
    events: Sequence[OdeEvent] = (),
    adjoint: str = "discrete",
) -> ODEResult:
    """Solve dy/dt = f(t, y, *args) from y0 at ts[0]; returns the states at the times ts, which rise or fall.

    y0 is a number, an array or a container of them. Methods: "dopri5" (Dormand and Prince, order 5, steps by `rtol` and
    `atol`), "rodas5p" (the same for stiff systems, with the exact Jacobian), and with steps of at most `step` "rk4" and
    "leapfrog" (for y0 = (positions, momenta) whose slopes depend on the other alone).

    Gradients by y0, ts, args and values that f uses are those of the steps that were taken, in memory that does not
    grow with their number; `adjoint="continuous"` solves the adjoint equation backwards instead.

    >>> import numpy as np
    >>> import wiregrad as wg
    >>> decay = lambda rate: odeint(lambda t, y, rate: -rate * y, 1.0, [0.0, 2.0], rate).ys[-1]
    >>> value, slope = wg.value_and_grad(decay)(0.5)
    >>> round(value, 6), round(slope, 6)
    (0.367879, -0.735759)
    """
    require_function(f, "the first argument")
    _check_argument_order(f)
    settings = OdeSettings(
        _find_method(method), _check_tolerance(rtol, "rtol"), _check_tolerance(atol, "atol"), step, max_step, max_steps
    )
    _check_steps(settings)
    problem = InitialValueProblem(f, y0, tuple(events), settings)
    if adjoint not in ("discrete", "continuous"):
        raise OperandError(f"adjoint is 'discrete' or 'continuous'; got {short_repr(adjoint)}")
    if adjoint == "continuous" and problem.events:
        raise OperandError("adjoint='continuous' has no rule for events; leave it out")
    times = _read_times(ts)
    solve = functools.partial(_solve_problem, problem, y0, times, args, adjoint)
    segment, packed = solve(None)
    return segment.make_result(packed, times, functools.partial(_solve_between, segment, solve, times))


def _check_argument_order(f: Callable[..., Any]) -> None:
    """Raise if the names of a function's arguments show that it takes the state before the time."""
    try:
        names = list(inspect.signature(f).parameters)[:2]
    except (TypeError, ValueError):
        return
    if len(names) == 2 and names[0] in ("y", "x", "state", "u") and names[1] in ("t", "time"):
        raise OperandError(
            f"wg.odeint calls {function_name(f)} with the time first, f(t, y, *args), as scipy.integrate.solve_ivp "
            f"does; its arguments are named {names[0]}, {names[1]}: swap them{format_user_line()}"
        )


def _find_method(name: object) -> OdeMethod:
    method = METHODS.get(name) if isinstance(name, str) else None
    if method is None:
        raise OperandError(f"method is one of {', '.join(METHODS)}; got {short_repr(name)}{format_user_line()}")
    return method


def _check_tolerance(tolerance: object, what: str) -> float:
    size = float(data_of(tolerance))
    if not isfinite(size) or size <= 0.0:
        raise OperandError(f"{what} must be a finite number above 0; got {size}{format_user_line()}")
    return max(size, 4.0 * float(np.finfo(float).eps)) if what == "rtol" else size


def _check_steps(settings: OdeSettings) -> None:
    """Raise unless the lengths and the number of steps are usable with the method."""
    for what, length in (("step", settings.step), ("max_step", settings.max_step)):
        if length is not None and not (isfinite(length) and length > 0.0):
            raise OperandError(f"{what} must be a finite number above 0; got {length}{format_user_line()}")
    if settings.method.adapts and settings.step is not None:
        raise OperandError(f"{settings.method.name} chooses its steps by rtol and atol; use max_step= to limit them")
    if not settings.method.adapts and settings.step is None:
        raise OperandError(f"{settings.method.name} has steps of a fixed length; pass it as step=")
    if settings.max_steps < 1:
        raise OperandError(f"max_steps must be above 0; got {settings.max_steps}")


def _read_times(ts: object) -> Any:
    """Return the times as one vector, of numbers or values; raises unless they rise or fall."""
    leaves = flatten(ts)[0]
    if len(leaves) == 1 and not isinstance(ts, list | tuple):
        times = leaves[0] if isinstance(leaves[0], Value) else np.array(ts, float)
    elif any(isinstance(leaf, Value) for leaf in leaves):
        times = FUNCTIONS["stack"].run(leaves)
    else:
        times = np.array(leaves, float)
    plain = np.asarray(data_of(times), float)
    if plain.ndim != 1 or len(plain) < 2:
        raise ShapeError(f"ts must have two or more times along one axis; got shape {plain.shape}{format_user_line()}")
    changes = np.diff(plain)
    if not np.isfinite(plain).all() or not (np.all(changes > 0.0) or np.all(changes < 0.0)):
        raise OperandError(f"the times ts must all rise or all fall; got {short_repr(plain)}{format_user_line()}")
    return times


def read_step(system: BoundSystem, move: OdeMove, step: OdeStep) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return the rows that a step gives, and the times and states of the events in it."""
    method = system.problem.method
    rows = [method.interpolate(step, (system.times[k] - step.t) / step.h) for k in move.rows]
    if move.lands:
        rows.append(step.end)
    fired = []
    for crossing in move.crossings:
        length = _solve_event(system, crossing, step.t, step.z)
        fired.append((step.t + length, method.take_step(system, step.t, length, step.z).end))
    if move.effect is not None:
        fired.append((step.t + step.h, step.end))
    return rows, fired


def apply_move(
    system: BoundSystem, move: OdeMove, start: object, z: object
) -> tuple[Any, Any, list[Any], list[tuple[Any, Any]]]:
    """Take a chosen step on recorded values; returns the start of the leg, the state, the rows and the events."""
    end_time = system.times[move.end_index]
    span = end_time - start
    t = start + move.share * span
    h = (move.stop - move.share) * span if move.effect is None else _solve_event(system, move.effect, t, z)
    step = system.problem.method.take_step(system, t, h, z)
    rows, fired = read_step(system, move, step)
    if move.effect is not None:
        return t + h, system.restart(move.effect[0], t + h, step.end), rows, fired
    return end_time if move.stop == 1.0 else start, step.end, rows, fired


def _solve_event(system: BoundSystem, crossing: tuple[int, float], t: Any, z: object) -> Any:
    """Return the length of the step that ends at an event: the known one, with the derivative of the equation."""
    k, length = crossing
    if system.plain:
        return length
    method = system.problem.method

    def gap_after(h: object) -> Any:
        return system.gap(k, t + h, method.take_step(system, t, h, z).end)

    gap_after.__name__ = f"event {k} ({system.problem.events[k].label})"
    return root(gap_after, length, solver=lambda g, h: h, tolerance=1e-6)


def _solve_problem(
    problem: InitialValueProblem, y0: object, times: object, args: tuple[object, ...], adjoint: str, queries: object
) -> tuple[OdeSegment, Any]:
    """Solve a problem and record it as one node if it depends on values; returns the node's segment and its result."""
    joined = times if queries is None else FUNCTIONS["concatenate"].run([times, queries])
    leaves, tree = flatten(((y0, joined, args), {}))
    values = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
    count = 0 if queries is None else len(data_of(queries))
    # The adjoint equation knows the states at the requested times alone.
    adjoint = "discrete" if count else adjoint
    segment = OdeSegment(problem, leaves, values, tree, count, adjoint)
    operands = [leaves[k] for k in values]
    packed = segment.run_first(operands)[0]
    operands += segment.captured
    home = common_tape(operands)
    if home is None:
        return segment, packed
    if segment.captured and (home.guard is not None or adjoint == "continuous"):
        reason = "a circuit could not solve it again" if home.guard is not None else "the adjoint equation needs it"
        raise EscapeError(
            f"{problem.called} uses a recorded value that is not among its arguments ({reason}): pass the value after "
            f"ts, and take it as an argument{format_user_line()}"
        )
    segment.sample_rows()
    op = ODE_OP.bind_once(segment=segment)
    return segment, finish_node(home, op, operands, [data_of(x) for x in operands], packed)


def _solve_between(first: OdeSegment, solve: Callable[[Any], Any], times: object, t: object) -> Any:
    """Return the states at other times, by solving again with the same steps."""
    first.check_unchanged()
    wanted = t if isinstance(t, Value) else np.asarray(t, float)
    queries = FUNCTIONS["ravel"].run(wanted)
    plain, ends = np.asarray(data_of(queries), float), np.asarray(data_of(times), float)
    segment, packed = solve(queries)
    if segment.row_count < len(plain) or not np.all((plain - ends[0]) * (plain - ends[-1]) <= 0.0):
        raise OperandError(
            f"{first.called}: the solution is known from {ends[0]:g} to {segment.counts.last_time:g}; got "
            f"{short_repr(plain)}{format_user_line()}"
        )
    return segment.stack_states(packed, np.shape(data_of(wanted)))


@dataclass
class SolvedRows:
    """The rows and events that a solution has found so far, as they lie in its result."""

    rows: list[Any]
    events: list[tuple[int, Any, Any]]
    """Which event, its time, and the state."""
    counts: SolveCounts = field(default_factory=SolveCounts)

    def pack(self) -> Any:
        """Join all to one vector: the rows, and then time and state of each event."""
        joined = list(self.rows)
        for _, time, state in self.events:
            joined += [FUNCTIONS["reshape"].run(time, (1,)), state]
        return FUNCTIONS["concatenate"].run(joined) if joined else np.zeros(0)

    def add(self, move: OdeMove, rows: Sequence[object], fired: Sequence[tuple[object, object]]) -> None:
        """Add what a step gave."""
        self.rows += rows
        which = [*(k for k, _ in move.crossings), *([] if move.effect is None else [move.effect[0]])]
        self.events += [(k, time, state) for k, (time, state) in zip(which, fired, strict=True)]


class FunctionSamples(NamedTuple):
    """What the functions of a problem returned at some points of its solution."""

    data: list[Any]
    """The operands of the solution."""
    points: list[tuple[float, Vector]]
    """Times and states at which the slope was computed."""
    fired: list[tuple[int, float, Vector]]
    """The number of each event that was found, its time, and the state."""
    results: list[Any]
    recordings: list[Recording]
    """The functions recorded there, if they are differentiated: equal numbers may have other derivatives."""


class LatestSolve(NamedTuple):
    """The last solution on plain numbers: its data, the number of its steps, and the steps if they are few.

    Blocks of steps are rounded otherwise than single ones, so after blocks the number of single steps is not known.
    """

    data: list[Any]
    steps: int | None
    kept: list[AcceptedStep | StepBlock]

    def iterate_backward(self) -> Iterator[AcceptedStep]:
        """Iterate over the steps that were kept, the last one first."""
        for part in reversed(self.kept):
            if isinstance(part, StepBlock):
                yield from (part.make_step(k) for k in reversed(range(len(part))))
            else:
                yield part

    def has_data(self, xs: Sequence[Any]) -> bool:
        """Return whether these operands are those of the solution."""
        return all(np.array_equal(one, other) for one, other in zip(self.data, xs, strict=False))


class OdeSegment(CheckpointSegment):
    """A call of `odeint`: solved on plain numbers, and gone over again step by step for its derivatives."""

    def __init__(
        self,
        problem: InitialValueProblem,
        leaves: list[object],
        values: list[int],
        tree: Any,
        query_count: int,
        adjoint: str,
    ) -> None:
        super().__init__(self._compute_result, leaves, values, tree)
        self.problem = problem
        self.called = problem.called
        self.query_count = query_count
        self.adjoint = adjoint
        self.counts = SolveCounts()
        self.order: tuple[int, ...] = ()
        """Which event each of the events found belongs to."""
        self.row_count = 0
        self._latest_solve = LatestSolve([], 0, [])
        self._samples: FunctionSamples | None = None
        places = unflatten(tree, list(range(len(leaves))))[0]
        self.state_count = len(flatten(places[0])[0])
        self.times_place: int = places[1]
        self.is_timed = self.times_place in values or any(one.restart is not None for one in problem.events)
        """Whether the beginning of a leg depends on values."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart: the problem, the positions of its values, and the other arguments."""
        return self.problem, self.query_count, self.adjoint, *super().identity[1:]

    def run_first(self, passed: Sequence[object]) -> list[Any]:
        """Solve the problem on plain numbers, and note which values from outside f and the events use."""
        self.kinds = [number_class(x) for x in passed]
        captured: dict[Any, Value] = {}
        found = self._solve_plainly([data_of(x) for x in passed], captured)
        self.captured = list(captured.values())
        self.counts = found.counts
        self.order = tuple(k for k, _, _ in found.events)
        self.row_count = len(found.rows)
        self._samples = self._take_samples([data_of(x) for x in passed], found)
        packed = found.pack()
        self.parts = PackedParts([packed])
        return [packed]

    def _take_samples(self, data: list[Any], found: SolvedRows) -> FunctionSamples:
        """Return what the functions return at the first and the last row, and at the events."""
        (_, times, _), _ = unflatten(self.tree, self._fill(data))
        rows = [k for k in (0, len(found.rows) - 1) if found.rows]
        points = [(float(times[k]), np.array(found.rows[k], float)) for k in rows]
        fired = [(k, float(t), np.array(z, float)) for k, t, z in found.events]
        return FunctionSamples(data, points, fired, self._run_functions(data, points, fired), [])

    def sample_rows(self) -> None:
        """Record the functions at the sampled points too, for a solution that may be differentiated."""
        if self._samples is not None and not self.problem.is_compiled:
            # What cannot be recorded cannot be differentiated either, and says so when it is.
            with suppress(WiregradError, TypeError, ValueError):
                self._samples.recordings[:] = self._record_functions(self._samples)

    def _record_functions(self, samples: FunctionSamples) -> list[Recording]:
        states = [z for _, z in samples.points] + [z for *_, z in samples.fired]

        def compute_all(unknown: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
            (_, times, args), _ = unflatten(self.tree, self._fill(xs))
            system = BoundSystem(self.problem, _split_times(times), args, plain=False)
            there = list(unknown)
            slopes = [system.slope(t, z) for (t, _), z in zip(samples.points, there, strict=False)]
            moments = [(k, t, z) for (k, t, _), z in zip(samples.fired, there[len(slopes) :], strict=True)]
            return slopes + [system.gap(*one) for one in moments] + [system.restart(*one) for one in moments]

        recording = self._run_plainly(lambda: Recording(compute_all, states, samples.data, self.kinds))
        recording.captured = []
        return [recording]

    def _run_functions(
        self, data: Sequence[object], points: Sequence[tuple[float, Vector]], fired: Sequence[tuple[int, float, Vector]]
    ) -> list[Any]:
        (_, times, args), _ = unflatten(self.tree, self._fill(data))
        system = BoundSystem(self.problem, _split_times(times), args, plain=True)

        def compute_all() -> list[Any]:
            with self._apart():
                slopes = [system.slope(t, z) for t, z in points]
                gaps = [system.gap(k, t, z) for k, t, z in fired]
                return slopes + gaps + [system.restart(*one) for one in fired]

        results: list[Any] = self._run_plainly(compute_all)
        return results

    def check_unchanged(self) -> None:
        """Raise if the functions do not return what they returned when the problem was solved first."""
        if self._samples is None:
            return
        data, points, fired, results, recordings = self._samples
        pairs = zip(results, self._run_functions(data, points, fired), strict=True)
        is_same = all(np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True) for one, other in pairs)
        if is_same and recordings:
            again = self._record_functions(self._samples)
            is_same = all(one.has_rows_of(other) for one, other in zip(recordings, again, strict=True))
        if not is_same:
            raise self.describe_changed_function()

    def _solve_plainly(self, data: Sequence[object], captured: dict[object, Value] | None = None) -> SolvedRows:
        """Solve on plain numbers; returns the rows and events."""
        trajectory, z = self._make_trajectory(data)
        found = SolvedRows([z] if trajectory.lands else [], [])
        kept: list[AcceptedStep | StepBlock] = []
        in_blocks = trajectory.runs_blocks
        most_kept = KEPT_BYTES // (16 * len(z) + 64) if in_blocks else self._count_kept(80 * len(z) + 2_500)
        is_repeatable = True

        def follow() -> None:
            nonlocal is_repeatable
            for part in self._iterate_parts(trajectory, z, found.counts, captured, in_blocks=in_blocks):
                is_repeatable = is_repeatable and isinstance(part, AcceptedStep)
                for step in part.list_rows() if isinstance(part, StepBlock) else [part]:
                    found.add(step.move, *read_step(trajectory.system, step.move, step.step))
                if found.counts.steps <= most_kept:
                    kept.append(part)
                else:
                    kept.clear()

        self._run_plainly(follow)
        self._latest_solve = LatestSolve(list(data), found.counts.steps if is_repeatable else None, kept)
        found.counts.evaluations = trajectory.system.evaluations
        found.rows = self._sort_rows(found.rows, trajectory)
        return found

    def _sort_rows(self, rows: list[object], trajectory: Trajectory) -> list[Any]:
        """Return rows in the order in which they were asked for; steps reach them in the order of time."""
        if trajectory.lands:
            return rows
        ranks = {k: rank for rank, k in enumerate(trajectory.rows[: len(rows)])}
        return [rows[ranks[k]] for k in sorted(ranks)]

    def _make_trajectory(self, data: Sequence[object]) -> tuple[Trajectory, Vector]:
        """Return the steps of the solution for plain numbers, and the first state."""
        (y0, times, args), _ = unflatten(self.tree, self._fill(data))
        numbers = [float(t) for t in np.asarray(times)]
        end = len(numbers) - self.query_count - 1
        system = BoundSystem(self.problem, numbers, args, plain=True)
        rows = [*range(len(numbers))]
        if self.query_count:
            sign = np.sign(numbers[end] - numbers[0])
            rows = sorted(rows[end + 1 :], key=lambda k: float(sign * numbers[k]))
        z = np.array(self.problem.join_state(y0, "y0"), float)
        return Trajectory(system, rows, end, lands=not self.query_count), z

    def _fill(self, data: Sequence[object]) -> list[Any]:
        return fill_places(self.leaves, self.values, data[: len(self.values)])

    def _iterate_steps(self, trajectory: Trajectory, z: Vector, counts: SolveCounts) -> Iterator[AcceptedStep]:
        """Iterate over the steps of a solution, one by one."""
        for part in self._iterate_parts(trajectory, z, counts, in_blocks=False):
            assert isinstance(part, AcceptedStep)
            yield part

    def _iterate_parts(
        self,
        trajectory: Trajectory,
        z: Vector,
        counts: SolveCounts,
        captured: dict[object, Value] | None = None,
        *,
        in_blocks: bool,
    ) -> Iterator[AcceptedStep | StepBlock]:
        """Iterate over the steps of a solution; with `in_blocks` in blocks where native code can choose them."""
        with self._apart(captured):
            state = trajectory.make_start(z)
        while not state.ended:
            if counts.steps >= self.problem.settings.max_steps:
                raise trajectory.describe_too_many_steps(trajectory.time_of(state), counts)
            with self._apart(captured):
                # Native code does not see the errors near a state that rests.
                runs_block = in_blocks and trajectory.runs_blocks and bool(np.any(state.slope))
                block = trajectory.advance_block(state, counts) if runs_block else None
                part = trajectory.advance(state, counts) if block is None else block
            state = part.state_after() if isinstance(part, StepBlock) else part.after
            counts.last_time = trajectory.time_of(state)
            yield part

    def _apart(self, captured: dict[object, Value] | None = None) -> AbstractContextManager[None]:
        """Return a block in which f runs on plain numbers; a compiled f is not recorded, so that it is replayed."""
        return nullcontext() if self.problem.is_compiled else note_captures(captured)

    def _compute_result(self, y0: object, times: object, args: tuple[object, ...]) -> Any:
        """Solve again: on plain numbers, or on recorded values with the steps that plain numbers take."""
        leaves, _ = flatten((y0, times, args))
        data = [data_of(leaves[k]) for k in self.values]
        if not self.captured and not any(isinstance(leaf, Value) for leaf in leaves):
            return self._solve_again(data)
        trajectory, z_plain = self._make_trajectory(data)
        system = BoundSystem(self.problem, _split_times(times), args, plain=False)
        start, z = system.times[0], self.problem.join_state(y0, "y0")
        found = SolvedRows([z] if trajectory.lands else [], [])
        for accepted in self._iterate_steps(trajectory, z_plain, SolveCounts()):
            start, z, rows, fired = apply_move(system, accepted.move, start, z)
            found.add(accepted.move, rows, fired)
        found.rows = self._sort_rows(found.rows, trajectory)
        return found.pack()

    def _solve_again(self, data: Sequence[object]) -> Any:
        """Solve at other inputs, for a circuit; raises if there are other events than when it was traced."""
        self.check_unchanged()
        found = self._solve_plainly(data)
        if tuple(k for k, _, _ in found.events) != self.order or len(found.rows) != self.row_count:
            raise BranchError(
                f"{self.called} has other events at these inputs than when the circuit was traced, so its result has "
                "another shape; trace it again"
            )
        return found.pack()

    def _check_same_result(self, results: list[object], y: object) -> None:
        """Raise if f gave another solution than the first time; values are rounded otherwise than plain numbers."""
        again, first = np.asarray(data_of(results[0])), np.asarray(data_of(y))
        if again.shape != first.shape or not np.allclose(again, first, rtol=1e-6, atol=1e-9, equal_nan=True):
            raise self.describe_changed_function()

    def describe_changed_function(self) -> GradientError:
        """Return the error for an f that gives another result when it runs again."""
        return GradientError(
            f"{self.called} gave another solution when it was computed again: f depends on something that has changed "
            "since, such as a loop variable, an attribute or a random number; pass it after ts, and take it as an "
            "argument"
        )

    def _recompute_gradients(self, g: object, xs: Sequence[object], y: object) -> list[Any]:
        """Return the gradients of all operands."""
        self.check_unchanged()
        if self.adjoint == "continuous":
            return AdjointEquation(self, xs).pull(g, y)
        if isinstance(g, Value) or any(isinstance(x, Value) for x in xs):
            is_traced = STATE.tape is not None and STATE.tape.guard is not None
            return self._record_gradients(g, xs) if is_traced else super()._recompute_gradients(g, xs, y)
        gradients: list[Any] = self._run_plainly(lambda: self._pull_steps(np.asarray(g, float), xs))
        return gradients

    def _record_gradients(self, g: object, xs: Sequence[object]) -> list[Any]:
        """Record the gradients as one node, which goes over the steps again at other inputs."""
        packed = ODE_GRADIENT_OP.bind_once(segment=self)(g, *xs)
        shapes = [np.shape(data_of(x)) for x in xs]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes]).tolist()
        starts = [0, *ends[:-1]]
        reshape = FUNCTIONS["reshape"].run
        return [reshape(packed[start:end], shape) for start, end, shape in zip(starts, ends, shapes, strict=True)]

    def pack_gradients(self, g: Any, xs: Sequence[Any]) -> Any:
        """Return the gradients of all operands for plain numbers, end to end."""
        gradients = self._recompute_gradients(np.asarray(g, float), xs, None)
        rows = [
            np.zeros(np.size(x)) if gradient is None else np.broadcast_to(fill_absent(gradient), np.shape(x)).ravel()
            for gradient, x in zip(gradients, xs, strict=True)
        ]
        return np.concatenate(rows)

    def _run_plainly(self, task: Callable[[], Any]) -> Any:
        """Run a task on plain numbers, with the kink convention that was active when the problem was posed."""
        chosen = nullcontext() if chosen_convention().label == self.convention else convention(self.convention)
        if self.problem.is_compiled:
            with chosen, leave_transforms():
                return task()
        with chosen, np.errstate(all="ignore"):
            return OVERLAY.call(task, (), {})

    def refuse_second_derivative(self) -> NoReturn:
        """Raise: a circuit cannot hold the steps of one point, from which second derivatives are computed."""
        raise EscapeError(
            f"a circuit holds the gradient of {self.called}, but no forward mode and no second derivative: these are "
            f"computed from the steps of one point, and other inputs need other steps; compute them without tracing "
            f"or compiling{format_user_line()}"
        )

    def _pull_steps(self, g: Vector, xs: Sequence[object]) -> list[Any]:
        """Go back over the steps, one recorded at a time, and add up the gradients."""
        trajectory, z = self._make_trajectory(xs)
        gradients = StepGradients(self, trajectory, g, xs)
        latest = self._latest_solve
        if latest.kept and latest.has_data(xs):
            for accepted in latest.iterate_backward():
                gradients.pull_step(accepted)
            return gradients.finish()
        with self._apart():
            kept = {0: trajectory.make_start(z)}
        later: Vector | None = None
        schedule = BinomialSchedule(self._count_kept(16 * len(z) + 600))
        for action in walk_schedule(schedule, self._count_steps(trajectory, z, xs)):
            if isinstance(action, Advance):
                state = kept[action.start]
                for _ in range(action.start, action.stop):
                    with self._apart():
                        state = trajectory.advance(state).after
                kept[action.stop] = state
                continue
            state = kept.pop(action.step)
            with self._apart():
                accepted = trajectory.advance(state)
            if later is not None and not np.array_equal(accepted.after.z, later):
                raise self.describe_changed_function()
            later = state.z
            gradients.pull_step(accepted)
        return gradients.finish()

    def _count_kept(self, bytes_of_each: int) -> int:
        """Return how many states or steps are kept, given about how many bytes each takes."""
        return min(max(KEPT_BYTES // bytes_of_each, MIN_KEPT_STATES), MAX_KEPT_STATES)

    def _count_steps(self, trajectory: Trajectory, z: Vector, xs: Sequence[object]) -> int:
        """Return the number of steps; it is known unless a circuit was run at other inputs."""
        latest = self._latest_solve
        if latest.steps is not None and latest.has_data(xs):
            return latest.steps
        counts = SolveCounts()
        for _ in self._iterate_steps(trajectory, z, counts):
            pass
        return counts.steps

    def record_step(self, accepted: AcceptedStep, xs: Sequence[object]) -> RecordedStep:
        """Record one step on a tape of its own, from its state and the operands."""
        session = RecordingSession(Tape(TapeKind.APART))
        state, move = accepted.before, accepted.move
        with no_grad(), STATE.record_on(session.tape):
            z = session.lift_argument(state.z, lambda: "the state")
            start: Any = session.lift_argument(state.start, lambda: "a time") if self.is_timed else state.start
            lifts = [self._lift_operand(session, k, x) for k, x in enumerate(xs[: len(self.values)])]
            (_, times, args), _ = unflatten(self.tree, self._fill(lifts))
            system = BoundSystem(self.problem, _split_times(times), args, plain=False)
            start, end, rows, fired = apply_move(system, move, start, z)
            for value in self.captured:
                session.offsets.append(place_on_tape(session.tape, value))
                session.data.append(value._data)
        return RecordedStep(session, start, end, rows, fired)

    def _lift_operand(self, session: RecordingSession, k: int, x: object) -> Any:
        if self.values[k] < self.state_count:
            # Steps do not read y0.
            return x
        value = session.lift_argument(x, lambda: "an argument")
        return as_python_number(value) if self.kinds[k] is Scalar else as_numpy_number(value)

    def push_tangent(self, slot: int, t: object, xs: Sequence[object], y: object) -> Any:
        """Return the tangent of the result for a tangent of one operand."""
        self.check_unchanged()
        if isinstance(t, Value) or any(isinstance(x, Value) for x in xs):
            return push_by_transpose(lambda slot, g, xs: self.pull_gradient(slot, g, xs, y), slot, t, xs, y)
        return self._run_plainly(lambda: self._push_steps(slot, t, xs))

    def _push_steps(self, slot: int, t: object, xs: Sequence[Any]) -> Any:
        """Push a tangent along the steps, one recorded at a time."""
        trajectory, z = self._make_trajectory(xs)
        tangents = StepTangents(self, trajectory, slot, t, xs)
        found = SolvedRows([tangents.z] if trajectory.lands else [], [])
        for accepted in self._iterate_steps(trajectory, z, SolveCounts()):
            found.add(accepted.move, *tangents.push_step(accepted))
        found.rows = self._sort_rows(found.rows, trajectory)
        return found.pack()

    def argument_places(self) -> list[tuple[int, int]]:
        """Return the operands that are leaves of args, each with its index among all leaves of args."""
        first = self.state_count + 1
        return [(k, place - first) for k, place in enumerate(self.values) if place >= first]

    def operand_places(self) -> list[int]:
        """Return which operands a recorded step lifts, in the order of its arguments after the state and the start."""
        passed = [k for k, place in enumerate(self.values) if place >= self.state_count]
        return [*passed, *range(len(self.values), len(self.values) + len(self.captured))]

    def slice_of_state(self, k: int) -> slice:
        """Return where the leaf of y0 that is operand k lies in the vector of the state."""
        sizes = [int(np.prod(shape)) for shape in self.problem.parts.shapes]
        first = sum(sizes[: self.values[k]])
        return slice(first, first + sizes[self.values[k]])

    def stack_states(self, packed: Any, shape: tuple[int, ...]) -> Any:
        """Return the rows in the structure of y0, behind axes of a shape."""
        size = self.problem.parts.size
        count = int(np.prod(shape))
        return self._split_rows(FUNCTIONS["reshape"].run(packed[: count * size], (count, size)), shape)

    def _split_rows(self, rows: Any, lead: tuple[int, ...]) -> Any:
        leaves = []
        first = 0
        for shape in self.problem.parts.shapes:
            size = int(np.prod(shape))
            leaves.append(FUNCTIONS["reshape"].run(rows[:, first : first + size], (*lead, *shape)))
            first += size
        return unflatten(self.problem.parts.tree, leaves)

    def make_result(self, packed: Any, times: Any, solve_at: Callable[[Any], Any]) -> ODEResult:
        """Return the result of a solution, given its packed rows and events."""
        size = self.problem.parts.size
        count = len(self.order)
        block = FUNCTIONS["reshape"].run(packed[self.row_count * size :], (count, size + 1))
        event_times, event_states = [], []
        for k in range(len(self.problem.events)):
            own = [j for j, one in enumerate(self.order) if one == k]
            rows = block[np.array(own, int)]
            event_times.append(rows[:, 0])
            event_states.append(self._split_rows(rows[:, 1:], (len(own),)))
        return ODEResult(
            times[: self.row_count],
            self.stack_states(packed, (self.row_count,)),
            event_times,
            event_states,
            self.counts.steps,
            self.counts.rejected,
            self.counts.evaluations,
            self.problem.settings.method.name,
            tuple(self._list_notes(len(data_of(times)))),
            solve_at,
        )

    def _list_notes(self, wanted: int) -> Iterator[str]:
        if self.row_count < wanted:
            missing = count_with_noun(wanted - self.row_count, "time")
            yield f"event {self.order[-1]} ended the solution at t = {self.counts.last_time:g}, before {missing}"
        for k, moments in sorted(self.counts.ignored.items()):
            if k not in self.order:
                one = self.problem.events[k]
                way, other = ("falls", "grows") if one.direction > 0 else ("grows", "falls")
                yield (
                    f"event {k} ({one.label}) never took place: its function {way} through zero (first before t = "
                    f"{moments[0]:g}), but direction={one.direction} counts only where it {other}"
                )
        if self.counts.stiff_steps:
            yield (
                f"{self.counts.stiff_steps} of {self.counts.steps} steps were limited by stability (an eigenvalue is "
                f"about {self.counts.stiffness:.3g}): the system is stiff there, method={STIFF_METHOD!r} may be faster"
            )


@contextmanager
def note_captures(captured: dict[object, Value] | None) -> Iterator[None]:
    """Record on a tape that is dropped afterwards, and note which values from outside were used."""
    tape = Tape(TapeKind.APART)
    with no_grad(), STATE.record_on(tape):
        yield
    if captured is not None:
        for value in tuple(tape.leaves.values()):
            captured.setdefault(identify_value(value), value)


def _split_times(times: Any) -> Any:
    """Return the times one by one, as Python numbers or values of their kind."""
    if not isinstance(times, Value):
        return [float(t) for t in np.asarray(times)]
    return RecordedTimes(times)


class RecordedTimes:
    """The elements of a recorded vector of times; one becomes a node when it is used."""

    def __init__(self, times: Value) -> None:
        self.times = times

    def __getitem__(self, k: int) -> Any:
        return as_python_number(self.times[k])


@dataclass
class RecordedStep:
    """A step on a tape of its own, whose arguments are the state, the start of the leg, and the operands."""

    session: RecordingSession
    start: Any
    end: Any
    rows: list[Any]
    fired: list[tuple[Any, Any]]

    @property
    def results(self) -> list[Any]:
        """All that a step gives: start and state, rows, times and states of events."""
        return [self.start, self.end, *self.rows, *(part for pair in self.fired for part in pair)]


class StepGradients:
    """The gradients while the steps of a solution are swept from the last to the first."""

    def __init__(self, segment: OdeSegment, trajectory: Trajectory, g: Vector, xs: Sequence[Any]) -> None:
        self.segment = segment
        self.xs = xs
        self.z = np.zeros(segment.problem.parts.size)
        self.start = 0.0
        self.sums: dict[int, Any] = {}
        self.places = segment.operand_places()
        size = len(self.z)
        last = segment.row_count * size
        rows = list(g[:last].reshape(-1, size))
        if not trajectory.lands:
            asked = sorted(trajectory.rows)
            rows = [rows[asked.index(k)] for k in trajectory.rows]
        self.rows = rows
        self.events = g[last:].reshape(-1, size + 1)
        self.times = trajectory.system.times
        self.args = trajectory.system.args
        self.by_time = np.zeros(len(self.times))
        method = segment.problem.method
        self.native = None
        if isinstance(method, CompiledMethod) and not segment.captured:
            self.native = CompiledPullback(method, segment.argument_places())

    def _pull_natively(self, accepted: AcceptedStep) -> None:
        """Sweep one step by compiled code; the derivatives of its time and length by the times are written out."""
        assert self.native is not None
        move, state, step = accepted.move, accepted.before, accepted.step
        flow = self.z + self.rows[state.row + len(move.rows)] if move.lands else self.z
        by_t, by_h, self.z, sent = self.native.pull_end(step, self.args, flow)
        for k, row in zip(move.rows, self.rows[state.row :], strict=False):
            share = (self.times[k] - step.t) / step.h
            more_t, more_h, more_z, by_share, more = self.native.pull_inside(step, share, self.args, row)
            self.by_time[k] += by_share / step.h
            by_t += more_t - by_share / step.h
            by_h += more_h - by_share * share / step.h
            self.z = self.z + more_z
            sent = [one + other for one, other in zip(sent, more, strict=True)]
        if move.stop == 1.0:
            self.by_time[move.end_index] += self.start
            self.start = 0.0
        part = move.stop - move.share
        self.start += (1.0 - move.share) * by_t - part * by_h
        self.by_time[move.end_index] += move.share * by_t + part * by_h
        for place, one in zip(self.native.operands, sent, strict=True):
            self.sums[place] = one if place not in self.sums else self.sums[place] + one

    def pull_step(self, accepted: AcceptedStep) -> None:
        """Sweep one step: from the gradients of all it gives to those of its state and the operands."""
        if self.native is not None and accepted.move.effect is None and not accepted.move.crossings:
            self._pull_natively(accepted)
            return
        recorded = self.segment.record_step(accepted, self.xs)
        if not np.allclose(data_of(recorded.end), accepted.after.z, rtol=1e-9, atol=1e-12):
            raise self.segment.describe_changed_function()
        first, event = accepted.before.row, sum(accepted.before.fired)
        arriving: list[Any] = [self.start, self.z, *self.rows[first : first + len(recorded.rows)]]
        for row in self.events[event : event + len(recorded.fired)]:
            arriving += [row[0], row[1:]]
        session = recorded.session
        seeds = [
            (at, np.asarray(flow, float) if np.ndim(flow) else float(flow))
            for result, flow in zip(recorded.results, arriving, strict=True)
            if (at := session.offset_of(result)) is not None
        ]
        sent = session.pull_gradients(seeds, recorded=False)
        self.z = np.asarray(sent[0], float)
        if self.segment.is_timed:
            self.start = float(sent[1])
        for place, flow in zip(self.places, sent[1 + self.segment.is_timed :], strict=True):
            self.sums[place] = flow if place not in self.sums else self.sums[place] + flow

    def finish(self) -> list[Any]:
        """Return the gradients of all operands, those of y0 and of the first time included."""
        segment = self.segment
        z = self.z + self.rows[0] if not segment.query_count else self.z
        for k, place in enumerate(segment.values):
            if place < segment.state_count:
                self.sums[k] = z[segment.slice_of_state(k)].reshape(np.shape(self.xs[k]))
            elif place == segment.times_place:
                total = self.by_time + np.array(self.sums.get(k, 0.0))
                total[0] += self.start
                self.sums[k] = total
        return [settle_gradient(self.sums.get(k), x) for k, x in enumerate(self.xs)]


class CompiledPullback:
    """Sweeps of a step by compiled code: gradients by its time, its length, its state and some leaves of args."""

    def __init__(self, method: CompiledMethod, places: Sequence[tuple[int, int]]) -> None:
        self.operands = [operand for operand, _ in places]
        chosen = [leaf for _, leaf in places]
        base = method.base

        def make_end(bound: BoundFunction) -> Callable[..., Any]:
            def pull_end(t: object, h: object, z: object, args: object, flow: object) -> Any:
                def take(t: object, h: object, z: object, own: Sequence[object]) -> Any:
                    return base.take_step(bound.at(_fill_leaves(args, chosen, own)), t, h, z).end

                return vjp(take, t, h, z, _pick_leaves(args, chosen))[1](flow)

            return pull_end

        def make_inside(bound: BoundFunction) -> Callable[..., Any]:
            def pull_inside(t: object, h: object, z: object, share: object, args: object, flow: object) -> Any:
                def take(t: object, h: object, z: object, share: object, own: Sequence[object]) -> Any:
                    step = base.take_step(bound.at(_fill_leaves(args, chosen, own)), t, h, z)
                    return base.interpolate(step, share)

                return vjp(take, t, h, z, share, _pick_leaves(args, chosen))[1](flow)

            return pull_inside

        self._end = method.compile(f"pull end {chosen}", make_end)
        self._inside = method.compile(f"pull inside {chosen}", make_inside)

    def pull_end(self, step: OdeStep, args: Sequence[object], flow: Vector) -> Any:
        """Return the gradients by time, length, state and leaves, given that of the end of a step."""
        return self._end(step.t, step.h, step.z, args, flow)

    def pull_inside(self, step: OdeStep, share: float, args: Sequence[object], flow: Vector) -> Any:
        """Return the same and the gradient by the share, given the gradient of the solution at a share of a step."""
        return self._inside(step.t, step.h, step.z, share, args, flow)


def _pick_leaves(args: object, chosen: Sequence[int]) -> list[Any]:
    leaves, _ = flatten(args)
    return [leaves[k] for k in chosen]


def _fill_leaves(args: object, chosen: Sequence[int], own: Sequence[Any]) -> Any:
    leaves, tree = flatten(args)
    return unflatten(tree, fill_places(leaves, chosen, own))


class StepTangents:
    """The tangents of the state and of the start of the leg while the steps of a solution are run."""

    def __init__(self, segment: OdeSegment, trajectory: Trajectory, slot: int, t: Any, xs: Sequence[Any]) -> None:
        self.segment = segment
        self.xs = xs
        self.z = np.zeros(segment.problem.parts.size)
        self.start = 0.0
        self.of_operands: list[Any] = [t if place == slot else None for place in segment.operand_places()]
        self.times = trajectory.system.times
        self.args = trajectory.system.args
        self.of_times = np.zeros(len(self.times))
        if slot < len(segment.values) and segment.values[slot] < segment.state_count:
            self.z[segment.slice_of_state(slot)] = np.ravel(t)
        if slot < len(segment.values) and segment.values[slot] == segment.times_place:
            self.of_times = np.array(t, float)
            self.start = float(t[0])
        method = segment.problem.method
        self.native = None
        if isinstance(method, CompiledMethod) and not segment.captured:
            self.native = CompiledPushforward(method, segment.argument_places())
            self.of_args = [t if k == slot else np.zeros_like(xs[k])[()] for k in self.native.operands]

    def push_step(self, accepted: AcceptedStep) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Push the tangents through one step; returns those of its rows, and of the events' times and states."""
        if self.native is not None and accepted.move.effect is None and not accepted.move.crossings:
            return self._push_natively(accepted), []
        recorded = self.segment.record_step(accepted, self.xs)
        own = [self.z, self.start] if self.segment.is_timed else [self.z]
        pushed = [data_of(t) for t in recorded.session.push_tangents([*own, *self.of_operands], recorded.results)]
        self.start, self.z = float(pushed[0]), np.array(pushed[1], float)
        rows, rest = pushed[2 : 2 + len(recorded.rows)], pushed[2 + len(recorded.rows) :]
        return rows, list(zip(rest[::2], rest[1::2], strict=True))

    def _push_natively(self, accepted: AcceptedStep) -> list[Any]:
        """Push the tangents through one step by compiled code; returns those of its rows."""
        assert self.native is not None
        move, step = accepted.move, accepted.step
        of_end = self.of_times[move.end_index]
        of_t = self.start + move.share * (of_end - self.start)
        of_h = (move.stop - move.share) * (of_end - self.start)
        moved = (of_t, of_h, self.z, self.of_args)
        rows = []
        for k in move.rows:
            share = (self.times[k] - step.t) / step.h
            of_share = (self.of_times[k] - of_t - share * of_h) / step.h
            rows.append(self.native.push_inside(step, share, self.args, (*moved[:3], of_share, self.of_args)))
        self.z = self.native.push_end(step, self.args, moved)
        if move.lands:
            rows.append(self.z)
        if move.stop == 1.0:
            self.start = of_end
        return rows


class CompiledPushforward:
    """Tangents of a step by compiled code, along those of its time, its length, its state and some leaves of args."""

    def __init__(self, method: CompiledMethod, places: Sequence[tuple[int, int]]) -> None:
        self.operands = [operand for operand, _ in places]
        chosen = [leaf for _, leaf in places]
        base = method.base

        def make_end(bound: BoundFunction) -> Callable[..., Any]:
            def push_end(t: object, h: object, z: object, args: object, moved: tuple[Any, ...]) -> Any:
                def take(t: object, h: object, z: object, own: Sequence[object]) -> Any:
                    return base.take_step(bound.at(_fill_leaves(args, chosen, own)), t, h, z).end

                return jvp(take, (t, h, z, _pick_leaves(args, chosen)), moved)[1]

            return push_end

        def make_inside(bound: BoundFunction) -> Callable[..., Any]:
            def push_inside(
                t: object, h: object, z: object, share: object, args: object, moved: tuple[Any, ...]
            ) -> Any:
                def take(t: object, h: object, z: object, share: object, own: Sequence[object]) -> Any:
                    step = base.take_step(bound.at(_fill_leaves(args, chosen, own)), t, h, z)
                    return base.interpolate(step, share)

                return jvp(take, (t, h, z, share, _pick_leaves(args, chosen)), moved)[1]

            return push_inside

        self._end = method.compile(f"push end {chosen}", make_end)
        self._inside = method.compile(f"push inside {chosen}", make_inside)

    def push_end(self, step: OdeStep, args: Sequence[object], moved: tuple[Any, ...]) -> Any:
        """Return the tangent of the end of a step, along those of time, length, state and leaves."""
        return self._end(step.t, step.h, step.z, args, moved)

    def push_inside(self, step: OdeStep, share: float, args: Sequence[object], moved: tuple[Any, ...]) -> Any:
        """Return the tangent of the solution at a share of a step, along those and that of the share."""
        return self._inside(step.t, step.h, step.z, share, args, moved)


class AdjointEquation:
    """The equation of the gradients, solved backwards between the requested times; the states there are known."""

    def __init__(self, segment: OdeSegment, xs: Sequence[Any]) -> None:
        self.segment = segment
        self.xs = xs
        self.passed = [k for k, place in enumerate(segment.values) if place > segment.times_place]
        (_, self.times, _), _ = unflatten(segment.tree, segment._fill(xs))

    def pull(self, g: object, y: object) -> list[Any]:
        """Return the gradients of all operands, given that of the packed rows."""
        segment = self.segment
        size = segment.problem.parts.size
        reshape = FUNCTIONS["reshape"].run
        rows, flows = reshape(y, (-1, size)), reshape(g, (-1, size))
        operands = [self.xs[k] for k in self.passed]
        sums: Any = [0.0 * x for x in operands]
        times = _split_times(self.times)
        flow = flows[-1]
        by_time: list[Any] = [None] * len(data_of(self.times))
        for k in range(segment.row_count - 1, 0, -1):
            by_time[k] = self._along_slope(times[k], rows[k], flows[k])
            flow, sums = self._solve_back(times[k], times[k - 1], rows[k], flow, sums, operands)
            flow = flow + flows[k - 1]
        by_time[0] = self._along_slope(times[0], rows[0], flows[0]) - self._along_slope(times[0], rows[0], flow)
        return self._collect(flow, by_time, sums)

    def _compute_slope(self, t: object, z: object, operands: Sequence[object]) -> Any:
        data: list[Any] = list(self.xs)
        for k, x in zip(self.passed, operands, strict=True):
            data[k] = x
        (_, _, args), _ = unflatten(self.segment.tree, self.segment._fill(data))
        with convention(self.segment.convention):
            return self.segment.problem.compute_slope(t, z, args)

    def _along_slope(self, t: object, z: object, flow: object) -> Any:
        return FUNCTIONS["sum"].run(flow * self._compute_slope(t, z, [self.xs[k] for k in self.passed]))

    def _solve_back(
        self, t: object, earlier: object, z: object, flow: object, sums: object, operands: Sequence[object]
    ) -> Any:
        """Solve the equations of the state, its gradient and those of the operands from one time to the one before."""
        settings = self.segment.problem.settings

        def compute_slopes(t: object, state: Any, *operands: Any) -> Any:
            slope, pull = vjp(lambda z, *rest: self._compute_slope(t, z, rest), state[0], *operands)
            by_state, *by_operands = pull(state[1])
            return slope, -by_state, [-one for one in by_operands]

        solved = odeint(
            compute_slopes,
            (z, flow, sums),
            FUNCTIONS["stack"].run([t, earlier]) if self._is_recorded(t, earlier) else [t, earlier],
            *operands,
            method=settings.method.name if settings.method.name != "leapfrog" else "rk4",
            rtol=settings.rtol,
            atol=settings.atol,
            step=settings.step,
            max_step=settings.max_step,
            max_steps=settings.max_steps,
        )
        _, flows, all_sums = solved.ys
        return flows[-1], [one[-1] for one in all_sums]

    @staticmethod
    def _is_recorded(*times: object) -> bool:
        return any(isinstance(t, Value) for t in times)

    def _collect(self, flow: Any, by_time: list[object], sums: Sequence[object]) -> list[Any]:
        """Return the gradients in the order of the operands."""
        segment = self.segment
        found: list[Any] = [None] * len(self.xs)
        for k, place in enumerate(segment.values):
            if place < segment.state_count:
                found[k] = FUNCTIONS["reshape"].run(flow[segment.slice_of_state(k)], np.shape(data_of(self.xs[k])))
            elif place == segment.times_place:
                found[k] = FUNCTIONS["stack"].run(by_time)
        for k, total in zip(self.passed, sums, strict=True):
            found[k] = total
        pairs = zip(found, self.xs, strict=True)
        return [one if isinstance(one, Value) else settle_gradient(one, data_of(x)) for one, x in pairs]


def _ode_back(slot: int, g: object, xs: Sequence[object], y: object, *, segment: OdeSegment) -> Any:
    refuse_wires(g, f"{segment.called} is solved step by step")
    return segment.pull_gradient(slot, g, xs, y)


def _ode_ahead(slot: int, t: object, xs: Sequence[object], y: object, *, segment: OdeSegment) -> Any:
    refuse_wires(t, f"{segment.called} is solved step by step")
    return segment.push_tangent(slot, t, xs, y)


ODE_OP = TABLE.add(
    General(
        name="ode",
        doc="The solution of a differential equation at some times.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, segment: segment.call(xs),
        back=_ode_back,
        ahead=_ode_ahead,
        batches=False,
        per_call=True,
    )
)

ODE_GRADIENT_OP = TABLE.add(
    General(
        name="ode_gradient",
        doc="The gradients of the solution of a differential equation by all that it depends on, end to end.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda g, *xs, segment: segment.pack_gradients(g, xs),
        back=lambda slot, g, xs, y, *, segment: segment.refuse_second_derivative(),
        ahead=lambda slot, t, xs, y, *, segment: segment.refuse_second_derivative(),
        batches=False,
        per_call=True,
    )
)
