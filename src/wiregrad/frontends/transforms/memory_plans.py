"""Memory plans: the gradient of a chain of steps within a budget of bytes.

A plain gradient keeps what every step recorded. A plan keeps the inputs of some steps only, computes the others again
from those, and records one step at a time. Which inputs to keep is decided by a schedule: `BinomialSchedule` where all
of them have one size, which is optimal and needs no search, and `ByteSchedule`, a dynamic programme, where they differ.

Kept true: a planned gradient has the bits of the plain one, because the same ops run in the same order, and the sums of
a parameter that several steps use are carried on from step to step. A step that does not repeat itself is refused.

Start with `plan_memory`; `walk_schedule` lists what is done, both to predict the peak and to run; `ChainSegment` runs.
A function that is no list of steps is cut into some where only one value goes on from one part of its recording to the
next (`cut_function`).
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from math import comb, prod
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import count_with_noun
from wiregrad.errors import BranchError, GradientError, OperandError, ShapeError, format_user_line, short_repr
from wiregrad.frontends.recording.arguments import (
    MEMORY_POOL,
    ContainerTree,
    PackedParts,
    fill_places,
    flatten,
    unflatten,
)
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.record import convention
from wiregrad.frontends.recording.session import add_input, data_of, function_name, make_distinct
from wiregrad.frontends.recording.tape import STATE, STRIDE, KeptGradients, Tape, TapeKind, pull_back
from wiregrad.frontends.recording.trace import is_input, trace_at
from wiregrad.frontends.recording.value import Scalar, Value, is_python_number, number_class, settle_gradient
from wiregrad.frontends.transforms.vmap_and_checkpoint import (
    CheckpointSegment,
    digest_leaves,
    digest_rows,
    place_results,
    record_segment,
    runs_plainly,
)
from wiregrad.ir import CONSTANT, INPUT, Certificate, CircuitGraph, Op, Row
from wiregrad.ir.certificates import distinct_certificates, expected_value, have_same_bits
from wiregrad.ir.columns import decode_mode
from wiregrad.ops.gradient_flow import add_flows

MAX_BLOCKS = 250
"""A longer chain of states of different sizes is planned in this many blocks of neighbouring steps."""
MAX_LEVELS = 256
"""A dynamic programme counts bytes in this many parts of the budget, rounded up."""
MAX_COSTS = 4_000_000
"""Maximum number of costs that a dynamic programme holds; for long chains, bytes are counted in larger parts."""
OBJECT_BYTES = 1_200
"""About what the objects around one parameter take besides its numbers: its value, its node, its container."""
MAX_LISTED_STEPS = 8
"""Maximum number of steps that a printed plan lists."""


def plan_memory(
    f: Callable[..., Any] | Iterable[Callable[..., Any]],
    *args: Any,
    budget: int,
    parameters: Sequence[Any] | None = None,
) -> MemoryPlan:
    """Plan the gradient of a function within a budget of bytes; returns the function, which keeps to the plan.

    `f` is a function of `args`. It is recorded once, with everything in memory, and cut into steps where one value
    alone goes on; arguments of the same shapes can be passed to the plan.

    Or `f` is a list of steps, or anything that can be iterated over such as a network of layers, and `args` is the
    input of the first. Each takes what the one before it returned, and its entry of `parameters` if there are any,
    which may also be the second of `args`. No more than one step is ever recorded.

    The budget covers all that a gradient allocates: kept states, the recording of one step, and the gradients of the
    parameters. Every kind of step is run twice to measure what it needs.

    >>> import numpy as np
    >>> import wiregrad as wg
    >>> x = np.ones(10_000)
    >>> plan = plan_memory([np.sin] * 50, x, budget=800_000)
    >>> plan.extra_steps > 50, plan.predicted_peak <= 800_000
    (True, True)
    >>> gradient = wg.grad(lambda x: plan(x).sum())(x)
    >>> def swing(x, rate):
    ...     for _ in range(50):
    ...         x = x + rate * np.sin(x)
    ...     return np.sum(x)
    >>> plan = plan_memory(swing, x, 0.1, budget=1_200_000)
    >>> bool(np.all(wg.grad(plan)(x, 0.1) == wg.grad(swing)(x, 0.1)))
    True
    """
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget <= 0:
        raise OperandError(f"the budget is a whole number of bytes above 0; got {short_repr(budget)}")
    if callable(f) and not isinstance(f, Iterable):
        if parameters is not None:
            raise OperandError("parameters belong to a list of steps; pass them among the arguments of the function")
        return plan_function(f, args, int(budget))
    chain = _check_steps(f)
    if not args or len(args) > 1 + (parameters is None):
        raise OperandError("a memory plan of steps takes the input of the first step, and parameters for all of them")
    own = args[1] if len(args) > 1 else parameters
    if own is not None and len(own) != len(chain):
        raise OperandError(f"{count_with_noun(len(chain), 'step')} need as many entries of parameters; got {len(own)}")
    needs = measure_chain(chain, args[0], own)
    schedule = choose_schedule(needs, int(budget))
    return MemoryPlan(chain, int(budget), needs, schedule)


def _check_steps(steps: object) -> tuple[Callable[..., Any], ...]:
    if not isinstance(steps, Iterable):
        raise OperandError(
            f"a memory plan is made for a list of steps, each a function of what the one before returned; "
            f"got {short_repr(steps)}{format_user_line()}"
        )
    chain = tuple(steps)
    odd = [step for step in chain if not callable(step)]
    if odd or not chain:
        raise OperandError(
            f"a memory plan needs steps that are functions; got {short_repr(odd[0]) if odd else 'none'}"
            f"{format_user_line()}"
        )
    return chain


class ChainState(NamedTuple):
    """What a step is given: a container of arrays and numbers; `kinds` is None for a leaf that has no gradient."""

    tree: ContainerTree
    leaves: list[Any]
    kinds: list[type[Scalar] | None]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return count_bytes(self.leaves)

    @property
    def signature(self) -> tuple[Any, ...]:
        """The shapes and dtypes of the leaves."""
        return tuple((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in self.leaves)


class ChainArguments(NamedTuple):
    """The input of a chain, and the parameters of each step."""

    x: ChainState
    parameters: list[ChainState] | None

    def own_of(self, step: int) -> ChainState | None:
        """Return the parameters of a step."""
        return None if self.parameters is None else self.parameters[step]


def count_bytes(leaves: Iterable[Any]) -> int:
    """Return the bytes of the arrays among some leaves.

    >>> count_bytes([np.ones(4), 1.0])
    32
    """
    return sum(leaf.nbytes for leaf in map(data_of, leaves) if isinstance(leaf, np.ndarray))


def make_state(results: Any) -> ChainState:
    """Return results, values or plain ones, as the state that the next step is given."""
    leaves, tree = flatten(results)
    kinds = [number_class(leaf) if _has_gradient(leaf) else None for leaf in leaves]
    return ChainState(tree, [data_of(leaf) for leaf in leaves], kinds)


def _has_gradient(leaf: object) -> bool:
    return isinstance(leaf, Value) and np.asarray(leaf._data).dtype.kind in "fc"


@dataclass(frozen=True)
class StepNeed:
    """The bytes that a step needs."""

    given: int
    """Its input."""
    recorded: int
    """What its recording holds until it is swept."""
    working: int
    """The peak of recording and sweeping it, with its input, and without the gradient of its result."""
    returned: int
    """Its result."""


@dataclass(frozen=True)
class ChainNeeds:
    """The bytes that the steps of a chain need, and the bytes of the copies and gradients of all parameters."""

    steps: tuple[StepNeed, ...]
    parameters: int

    @property
    def lasting(self) -> int:
        """What is held all the time: a copy of the input, the result, a gradient, and those of the parameters.

        The result counts twice, because the loss that is computed from it records something of its size.
        """
        largest = max(max(step.given, step.returned) for step in self.steps)
        return self.steps[0].given + 2 * self.steps[-1].returned + largest + self.parameters

    @property
    def smallest(self) -> int:
        """The bytes without which no schedule can run: no state is kept."""
        return self.lasting + max(step.working for step in self.steps)

    @property
    def plain(self) -> int:
        """The peak of a plain gradient: everything is recorded."""
        last = self.steps[-1]
        return self.lasting + sum(step.recorded for step in self.steps) + last.working - last.recorded


def measure_chain(chain: Sequence[Callable[..., Any]], x: Any, parameters: Sequence[Any] | None) -> ChainNeeds:
    """Run the steps of a chain one after another and measure what each needs; equal steps are measured once."""
    known: dict[Any, tuple[StepNeed, ChainState]] = {}
    captured: dict[Any, int] = {}
    needs: list[StepNeed] = []
    state = _lift_all(make_state(x))
    for k, step in enumerate(chain):
        entry = None if parameters is None else _lift_all(make_state(parameters[k]))
        key = (
            getattr(step, "kind", id(step)),
            state.signature,
            repr(state.tree),
            None if entry is None else entry.signature,
        )
        if key not in known:
            known[key] = _measure_step(step, state, entry, captured)
        need, state = known[key]
        needs.append(need)
    own = flatten(parameters)[0]
    # A gradient by parameters that are passed in copies them first.
    of_parameters = 2 * count_bytes(own) + OBJECT_BYTES * len(own) + sum(captured.values())
    return ChainNeeds(tuple(needs), of_parameters)


def _lift_all(state: ChainState) -> ChainState:
    """Return a state whose real and complex leaves all have gradients, as in a gradient by all of them."""
    kinds = [number_class(leaf) if np.asarray(leaf).dtype.kind in "fc" else None for leaf in state.leaves]
    return state._replace(kinds=kinds)


def _measure_step(
    step: Callable[..., Any], state: ChainState, own: ChainState | None, captured: dict[Any, int]
) -> tuple[StepNeed, ChainState]:
    """Return what a step needs, and what it returns; the second of two runs is measured, when caches are filled."""
    first = record_step(step, state, own)
    captured.update({identify_value(value): count_bytes([value]) for value in first.captured})
    result = first.state
    flows = [_unit_flow(leaf, kind) for leaf, kind in zip(result.leaves, result.kinds, strict=True)]
    first.sweep(flows)
    del first
    held = [0]

    def record_and_sweep() -> None:
        recording = record_step(step, state, own)
        held[0] = tracemalloc.get_traced_memory()[0]
        recording.sweep(flows)

    peak, before = trace_peak(record_and_sweep)
    recorded = held[0] - before
    return StepNeed(state.nbytes, recorded, max(peak, recorded) + state.nbytes, result.nbytes), result


def trace_peak(task: Callable[[], object]) -> tuple[int, int]:
    """Run a task; returns the peak of the bytes that it allocated, and how many were allocated before."""
    was_tracing = tracemalloc.is_tracing()
    MEMORY_POOL.drop_blocks()
    if not was_tracing:
        tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        task()
        return tracemalloc.get_traced_memory()[1] - before, before
    finally:
        if not was_tracing:
            tracemalloc.stop()


def _unit_flow(leaf: Any, kind: type[Scalar] | None) -> Any:
    return None if kind is None else np.ones_like(leaf)[()] if isinstance(leaf, np.ndarray) else 1.0


class Split(NamedTuple):
    """How a part of a chain is divided: its right part begins at `at` and has `free` for states of its own.

    If the state there is not kept, the right part is one step, which is swept at once.
    """

    at: int
    free: int
    keep: bool


class StateSchedule(Protocol):
    """Divides a chain; `free` counts in units of the schedule how much the part may keep."""

    @property
    def free(self) -> int:
        """How much the whole chain may keep."""

    def split(self, start: int, stop: int, free: int) -> Split:
        """Divide the steps from start to stop, two or more."""


class Advance(NamedTuple):
    """Run the steps from one state to another without recording, and keep the last state or not."""

    start: int
    stop: int
    keep: bool


class Reverse(NamedTuple):
    """Record one step and sweep it; if its input was kept, that is no longer needed."""

    step: int


def walk_schedule(schedule: StateSchedule, count: int) -> Iterator[Advance | Reverse]:
    """Iterate over what a gradient of a chain does, by a schedule; the state before the first step is always there.

    >>> [*walk_schedule(BinomialSchedule(1), 3)][:3]
    [Advance(start=0, stop=1, keep=True), Advance(start=1, stop=2, keep=False), Reverse(step=2)]
    """
    parts = [(0, count, schedule.free)]
    while parts:
        start, stop, free = parts.pop()
        while stop - start > 1:
            split = schedule.split(start, stop, free)
            yield Advance(start, split.at, split.keep)
            parts.append((start, split.at, free))
            if not split.keep:
                yield Reverse(split.at)
                break
            start, free = split.at, split.free
        else:
            yield Reverse(start)


@dataclass(frozen=True)
class BinomialSchedule:
    """The schedule of Griewank and Walther, for states of one size: `free` of them are kept besides the first.

    With s states, the first one included, r repetitions of each step suffice for comb(s + r, s) steps.
    """

    free: int

    def split(self, start: int, stop: int, free: int) -> Split:
        """Divide such that both parts need as few repetitions as possible."""
        count = stop - start
        if not free:
            return Split(stop - 1, 0, keep=False)
        states = free + 1
        r = count_repetitions(count, states)
        left = max(_reach(states, r - 2), count - _reach(states - 1, r))
        left = min(left, _reach(states, r - 1), count - 1)
        return Split(start + max(left, 1), free - 1, keep=True)


def _reach(states: int, repetitions: int) -> int:
    """Return how many steps can be swept with some states and repetitions."""
    return comb(states + repetitions, states) if repetitions >= 0 else 0


def count_repetitions(count: int, states: int) -> int:
    """Return how often a step has to be repeated at most, to sweep a chain with some states.

    >>> count_repetitions(1000, 57), count_repetitions(1000, 1000)
    (2, 1)
    """
    repetitions = 0
    while _reach(states, repetitions) < count:
        repetitions += 1
    return repetitions


def count_binomial_steps(count: int, states: int) -> int:
    """Return the fewest steps to run, besides recording each once, with states of one size, the first one included.

    >>> count_binomial_steps(1000, 57)
    1941
    >>> count_binomial_steps(4, 1)
    6
    """
    r = count_repetitions(count, states)
    return r * count - _reach(states + 1, r - 1)


class ByteSchedule:
    """The schedule with the fewest repeated steps for states of different sizes, by a dynamic programme.

    `free` counts levels: parts of the budget that is left for states and for the recording of a step. `cost[i, j]`
    holds, for each level, the steps to run in order to sweep blocks i to j. A block is one step. In a long chain it is
    several: inside of it every state is kept, or none where there is no room.
    """

    def __init__(self, needs: Sequence[StepNeed], available: int) -> None:
        self.needs = needs
        self.edges = join_blocks([need.given for need in needs])
        count = len(self.edges) - 1
        self.unit = -(-available // min(MAX_LEVELS, MAX_COSTS // count**2))
        self.free = available // self.unit
        self._at = {edge: k for k, edge in enumerate(self.edges)}
        self.sizes = [self._as_level(needs[edge].given) for edge in self.edges[:-1]]
        self._cost = np.full((count, count + 1, self.free + 1), np.inf, np.float32)
        self._shifted = np.full_like(self._cost, np.inf)
        """The same costs where the state at the start is kept too, by stop and start."""
        self._fill_costs()

    def _as_level(self, size: int) -> int:
        return -(-size // self.unit)

    def _level_of_steps(self, start: int, stop: int, *, keep: bool) -> int:
        """Return what a block needs, or a part of one, if all states inside are kept or none."""
        inner = sum(need.given for need in self.needs[start + 1 : stop]) if keep else 0
        level = self._as_level(inner + max(need.working for need in self.needs[start:stop]))
        # Without states it fits, as was checked before, even if rounding says that it does not.
        return level if inner else min(level, self.free)

    def _fill_costs(self) -> None:
        for block, (start, stop) in enumerate(pairwise(self.edges)):
            count = stop - start
            self._cost[block, block + 1, self._level_of_steps(start, stop, keep=False) :] = count * (count - 1) // 2
            self._cost[block, block + 1, self._level_of_steps(start, stop, keep=True) :] = count - 1
            self._shift_costs(block, block + 1)
        for length in range(2, len(self.edges)):
            for first in range(len(self.edges) - length):
                self._cost[first, first + length] = self._candidates(first, first + length).min(axis=0)
                self._shift_costs(first, first + length)

    def _shift_costs(self, first: int, last: int) -> None:
        size = self.sizes[first]
        if size <= self.free:
            self._shifted[last - 1, first, size:] = self._cost[first, last, : self.free + 1 - size]

    def _candidates(self, first: int, last: int) -> NDArray[np.float32]:
        """Return the costs of all ways to divide some blocks, by place and level.

        Where the right part is a single step, the state before it need not be kept: it is swept at once.
        """
        left = self._cost[first, first + 1 : last]
        right = self._shifted[last - 1, first + 1 : last].copy()
        if self.edges[last] - self.edges[last - 1] == 1:
            right[-1] = self._cost[last - 1, last]
        edges = np.array(self.edges[first + 1 : last], np.float32) - self.edges[first]
        found: NDArray[np.float32] = edges[:, None] + left + right
        return found

    def split(self, start: int, stop: int, free: int) -> Split:
        """Divide at the place that the dynamic programme found."""
        first, last = self._at.get(start), self._at.get(stop)
        if first is None or last is None or last - first == 1:
            return self._split_block(start, stop, free)
        place = first + 1 + int(self._candidates(first, last)[:, free].argmin())
        if stop - self.edges[place] == 1:
            return Split(self.edges[place], free, keep=False)
        return Split(self.edges[place], free - self.sizes[place], keep=True)

    def _split_block(self, start: int, stop: int, free: int) -> Split:
        """Divide inside a block: keep every state if there is room, else none."""
        if stop - start == 2 or self._level_of_steps(start, stop, keep=True) > free:
            return Split(stop - 1, free, keep=False)
        return Split(start + 1, free - self._as_level(self.needs[start + 1].given), keep=True)


def join_blocks(sizes: Sequence[int]) -> list[int]:
    """Return the edges of at most `MAX_BLOCKS` blocks of neighbouring steps, each at the smallest state nearby.

    >>> join_blocks([5, 3, 4])
    [0, 1, 2, 3]
    """
    count = len(sizes)
    if count <= MAX_BLOCKS:
        return list(range(count + 1))
    ideal = np.linspace(0, count, MAX_BLOCKS + 1).round().astype(int).tolist()
    middles = [min(range(a + 1, b + 1), key=lambda k: sizes[k]) for a, b in pairwise(ideal[:-1])]
    return [0, *middles, count]


def choose_schedule(needs: ChainNeeds, budget: int) -> StateSchedule | None:
    """Return the schedule with the fewest repeated steps within a budget; None if everything can be recorded."""
    if needs.plain <= budget:
        return None
    if needs.smallest > budget:
        raise OperandError(
            f"a budget of {budget:,} bytes cannot hold this chain of {count_with_noun(len(needs.steps), 'step')}: "
            f"even if no state is kept, its gradient needs {needs.smallest:,} bytes"
        )
    sizes = {step.given for step in needs.steps[1:]}
    if len(sizes) > 1:
        return ByteSchedule(needs.steps, budget - needs.lasting)
    return BinomialSchedule(min((budget - needs.smallest) // max(1, *sizes, 1), len(needs.steps) - 1))


class MemoryPlan:
    """A chain of steps as a function whose gradient keeps to a budget; printing it says what is kept and what it costs.

    `kept` are the steps whose inputs are kept by the first run, besides the first; `extra_steps` is the number of steps
    that are computed again; `predicted_peak` and, once it was measured, `measured_peak` are in bytes.
    """

    def __init__(
        self, steps: tuple[Callable[..., Any], ...], budget: int, needs: ChainNeeds, schedule: StateSchedule | None
    ) -> None:
        self.steps = steps
        self.budget = budget
        self.needs = needs
        self.schedule = schedule
        self.measured_peak: int | None = None
        self.kept, self.extra_steps, self.predicted_peak = self._predict()

    def _predict(self) -> tuple[tuple[int, ...], int, int]:
        """Walk through the schedule; returns the states that the first run keeps, the extra steps, and the peak."""
        needs = self.needs.steps
        if self.schedule is None:
            return tuple(range(1, len(needs))), 0, self.needs.plain
        kept: list[int] = []
        held: dict[int, int] = {}
        # The first run goes on to the result, so that the last step is run once more than the schedule says.
        extra = 1
        peak = 0
        for action in walk_schedule(self.schedule, len(needs)):
            if isinstance(action, Advance):
                extra += action.stop - action.start
                if action.keep:
                    held[action.stop] = needs[action.stop].given
                continue
            if not peak:
                kept = sorted(held)
            peak = max(peak, sum(held.values()) + needs[action.step].working)
            held.pop(action.step, None)
        return tuple(kept), extra, peak + self.needs.lasting

    def __call__(self, x: Any, parameters: Sequence[Any] | None = None) -> Any:
        """Run the chain; where it is recorded, its gradient keeps to the plan."""
        self._check_arguments(x, parameters)
        if self.schedule is None or runs_plainly():
            return self.run_plainly(x, parameters)
        leaves, tree = flatten(((x, parameters), {}))
        values = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
        return record_segment(ChainSegment(self, leaves, values, tree), leaves)

    def _check_arguments(self, x: Any, parameters: Sequence[Any] | None) -> None:
        size = count_bytes(flatten(x)[0])
        if size > self.needs.steps[0].given:
            raise ShapeError(
                f"this memory plan was made for an input of {self.needs.steps[0].given:,} bytes; got {size:,}: "
                f"make another with wg.plan_memory{format_user_line()}"
            )
        if parameters is not None and len(parameters) != len(self.steps):
            raise OperandError(
                f"this memory plan has {count_with_noun(len(self.steps), 'step')}; "
                f"got {len(parameters)} entries of parameters{format_user_line()}"
            )

    def run_plainly(self, x: Any, parameters: Sequence[Any] | None = None) -> Any:
        """Run the chain without the plan; everything is recorded."""
        for k, step in enumerate(self.steps):
            x = step(x) if parameters is None else step(x, parameters[k])
        return x

    def measure(self, gradient: Callable[[], object]) -> int:
        """Call a function that computes a gradient by this plan; returns the peak of what it allocated, in bytes.

        The peak is remembered and printed with the plan.
        """
        self.measured_peak, _ = trace_peak(gradient)
        return self.measured_peak

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        count = len(self.steps)
        yield f"memory plan of {count_with_noun(count, 'step')} within {self.budget:,} bytes"
        if self.schedule is None:
            yield "  everything is recorded, nothing is computed again"
        else:
            shown = ", ".join(map(str, self.kept[:MAX_LISTED_STEPS]))
            more = ", ..." if len(self.kept) > MAX_LISTED_STEPS else ""
            listed = f", those of the steps {shown}{more}" if self.kept else ""
            yield f"  kept: the inputs of {count_with_noun(len(self.kept), 'step')}{listed}"
            yield f"  computed again: {self.extra_steps:,} steps, {self.extra_steps / count:.2f} times the chain"
        yield f"  predicted peak: {self.predicted_peak:,} bytes; a plain gradient: {self.needs.plain:,}"
        if self.measured_peak is not None:
            share = self.measured_peak / self.predicted_peak
            yield f"  measured peak: {self.measured_peak:,} bytes, {share:.0%} of the predicted"


class SegmentRow(NamedTuple):
    """A node of a recorded function: its op, what it reads, and which values are not needed after it."""

    node: int
    op: Op
    sources: tuple[int, ...]
    convention: str | None
    dropped: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class FunctionSegment:
    """A part of a recorded function: a step from one value to the next, and the arguments that no other part reads."""

    rows: tuple[SegmentRow, ...]
    given: int | None
    """The node whose value the step before returned; None for the first step."""
    returned: int
    own: tuple[int, ...]
    constants: dict[int, Any]
    checks: dict[int, tuple[Certificate, Any]]
    """The nodes that steered Python, with their values then."""
    kind: Any
    """Equal for segments that do the same, with other numbers."""

    def run(self, shared: Mapping[int, Any], state: Any, own: Sequence[Any]) -> Any:
        """Compute the value that goes on to the next step."""
        values: dict[int, Any] = {**shared, **self.constants, **dict(zip(self.own, own, strict=True))}
        if self.given is not None:
            values[self.given] = state
        for row in self.rows:
            with nullcontext() if row.convention is None else convention(row.convention):
                value = values[row.node] = row.op(*[values[source] for source in row.sources])
            if row.node in self.checks:
                _check_branch(value, *self.checks[row.node])
            for node in row.dropped:
                del values[node]
        return values[self.returned]


def _check_branch(value: Any, certificate: Certificate, expected: Any) -> None:
    if not have_same_bits(data_of(value), expected):
        line = "" if certificate.place is None else f" ({certificate.place})"
        raise BranchError(
            f"with these numbers the function takes another branch than when its memory was planned{line}: make "
            "another plan with wg.plan_memory",
            place=certificate.place,
        )


class FunctionChain:
    """A function that was recorded and cut into steps, as it is called with some arguments."""

    def __init__(self, segments: Sequence[FunctionSegment], inputs: Sequence[int], shared: Sequence[int]) -> None:
        self.segments = segments
        self.inputs = inputs
        """The nodes of the arguments, in the order of the leaves."""
        self.shared = shared
        """Those that several steps read."""

    def bind(self, leaves: Sequence[Any]) -> tuple[tuple[BoundSegment, ...], tuple[Any, ...], list[tuple[Any, ...]]]:
        """Return the steps for some arguments, the input of the first one, and what each takes besides."""
        values = dict(zip(self.inputs, leaves, strict=True))
        shared = {node: values[node] for node in self.shared}
        steps = tuple([BoundSegment(segment, shared) for segment in self.segments])
        own = [tuple([values[node] for node in segment.own]) for segment in self.segments]
        return steps, own[0], [(), *own[1:]]


class BoundSegment:
    """A part of a recorded function as a step of a chain."""

    def __init__(self, segment: FunctionSegment, shared: Mapping[int, Any]) -> None:
        self.segment = segment
        self.shared = shared
        self.kind = segment.kind

    def __call__(self, state: Any, own: Sequence[Any]) -> Any:
        """Compute the value that goes on to the next step."""
        segment = self.segment
        if segment.given is None:
            return segment.run(self.shared, None, state)
        return segment.run(self.shared, state, own)


class FunctionMemoryPlan(MemoryPlan):
    """A function whose gradient keeps to a budget; it was cut into steps."""

    def __init__(
        self,
        f: Callable[..., Any],
        chain: FunctionChain,
        call: tuple[ContainerTree, list[Any]],
        budget: int,
        needs: ChainNeeds,
        schedule: StateSchedule | None,
    ) -> None:
        self.f = f
        self.chain = chain
        self._tree, self._planned = call
        super().__init__(tuple([BoundSegment(segment, {}) for segment in chain.segments]), budget, needs, schedule)

    def __call__(self, *args: Any) -> Any:
        """Call the function; where it is recorded, its gradient keeps to the plan."""
        leaves, tree = flatten(args)
        self._check_call(leaves, tree)
        if self.schedule is None or runs_plainly() or not any(isinstance(leaf, Value) for leaf in leaves):
            return self.f(*args)
        steps, x, own = self.chain.bind([leaf for leaf in leaves if _is_number(leaf)])
        return MemoryPlan(steps, self.budget, self.needs, self.schedule)(x, own)

    def _check_call(self, leaves: list[Any], tree: ContainerTree) -> None:
        pairs = zip(leaves, self._planned, strict=False)
        if tree != self._tree or not all(_is_planned_leaf(*pair) for pair in pairs):
            raise ShapeError(
                f"the memory of {function_name(self.f)} was planned for arguments of other shapes, or for other "
                f"settings: make another plan with wg.plan_memory{format_user_line()}"
            )


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, Value) or is_input(leaf)


def _is_planned_leaf(leaf: Any, planned: Any) -> bool:
    """Return whether an argument is as the one for which a plan was made: in shape and dtype, or the same setting."""
    if not _is_number(planned):
        return not _is_number(leaf) and bool(np.array_equal(leaf, planned))
    one, two = np.asarray(data_of(leaf)), np.asarray(data_of(planned))
    return _is_number(leaf) and (one.shape, one.dtype) == (two.shape, two.dtype)


def plan_function(f: Callable[..., Any], args: tuple[Any, ...], budget: int) -> FunctionMemoryPlan:
    """Record a function, cut it into steps, and plan its gradient."""
    leaves, tree = flatten(args)
    numbers = [data_of(leaf) for leaf in leaves if _is_number(leaf)]
    if any(type(x) is float for x in numbers) and any(np.asarray(x).dtype.itemsize < FLOAT_BYTES for x in numbers):
        # As an input of the recording it is a float64, and so would be what it is multiplied by.
        raise OperandError(
            f"a number of Python beside arrays of float32 has no dtype of its own; write np.float32(...)"
            f"{format_user_line()}"
        )
    plain = unflatten(tree, [data_of(leaf) for leaf in leaves])
    circuit, inputs = trace_at(f, plain, {})
    if len(inputs) != len(numbers):
        raise OperandError(
            f"{function_name(f)} uses a wg.Value from outside; pass it as an argument, and for a network its arrays: "
            f"model.holding(arrays){format_user_line()}"
        )
    if len(circuit.columns.outputs) != 1:
        raise OperandError(f"a memory plan is made for a function that returns one number or array{format_user_line()}")
    certified = {certificate.node for certificate in circuit.certificates}
    if certified & set(circuit.input_indices()):
        raise OperandError(
            f"{function_name(f)} looks at the numbers of its arguments, so a recording of it is valid for these "
            f"numbers alone; pass a list of steps{format_user_line()}"
        )
    chain = cut_function(circuit, budget)
    if len(chain.segments) < 2:
        raise OperandError(
            f"{function_name(f)} cannot be cut into steps: everywhere in it several values go on; use wg.checkpoint "
            f"for parts of it, or pass a list of steps{format_user_line()}"
        )
    needs = measure_chain(*chain.bind(numbers))
    schedule = choose_schedule(needs, budget)
    return FunctionMemoryPlan(f, chain, (tree, [_describe_leaf(leaf) for leaf in leaves]), budget, needs, schedule)


def _describe_leaf(leaf: Any) -> Any:
    """Return an argument without its numbers, which a plan need not hold; a setting as it is."""
    array = np.asarray(data_of(leaf)) if _is_number(leaf) else None
    return leaf if array is None else np.broadcast_to(np.zeros((), array.dtype), array.shape)


def cut_function(circuit: CircuitGraph, budget: int) -> FunctionChain:
    """Cut a circuit into steps where one value alone goes on; neighbours are joined as the budget allows."""
    origins = circuit.origins().tolist()
    sources = {row.node: tuple([origins[k] for k in row.sources]) for row in circuit.rows()}
    rows = [row for row in circuit.rows() if row.op not in (INPUT, CONSTANT) and origins[row.node] == row.node]
    root = origins[circuit.root()]
    last_reader = {node: k for k, row in enumerate(rows) for node in sources[row.node]}
    last_reader[root] = len(rows)
    sizes = [circuit.type_of(row.node).dtype.itemsize * prod(circuit.type_of(row.node).shape) for row in rows]
    cuts = choose_cuts(find_cuts([row.node for row in rows], last_reader), sizes, budget)
    inputs = circuit.input_indices()
    bounds = [0, *(place + 1 for place, _ in cuts), len(rows)]
    nodes = [None, *(node for _, node in cuts), root]
    readers: dict[int, set[int]] = {node: set() for node in inputs}
    for number, (start, stop) in enumerate(pairwise(bounds)):
        for row in rows[start:stop]:
            for node in sources[row.node]:
                if node in readers:
                    readers[node].add(number)
    shared = [node for node, parts in readers.items() if len(parts) > 1]
    segments: list[FunctionSegment] = []
    for k, (start, stop) in enumerate(pairwise(bounds)):
        own = [node for node in inputs if readers[node] == {k}]
        segments.append(_write_segment(circuit, rows[start:stop], sources, (nodes[k], nodes[k + 1]), own))
    return FunctionChain(segments, inputs, shared)


def find_cuts(nodes: Sequence[int], last_reader: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the places behind which one value alone is read, each with the node of that value.

    >>> find_cuts([5, 6, 7], {5: 1, 6: 2, 7: 3})
    [(0, 5), (1, 6)]
    >>> find_cuts([5, 6, 7], {5: 2, 6: 2, 7: 3})
    [(0, 5)]
    """
    cuts: list[tuple[int, int]] = []
    going_on: dict[int, int] = {}
    for place, node in enumerate(nodes[:-1]):
        if last_reader.get(node, -1) > place:
            going_on[node] = last_reader[node]
        ended = [each for each, last in going_on.items() if last <= place]
        for each in ended:
            del going_on[each]
        if len(going_on) == 1:
            cuts.append((place, next(iter(going_on))))
    return cuts


def choose_cuts(cuts: Sequence[tuple[int, int]], sizes: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Return some of the cuts, at equal distances: those with which the fewest nodes are computed again, by estimate.

    Where nearly all states have one size, the others are left out, so that the schedule needs no search.
    """
    if not cuts:
        return []
    held = [sizes[place] for place, _ in cuts]
    usual = max(set(held), key=held.count)
    if held.count(usual) >= USUAL_SHARE * len(held):
        cuts = [cut for cut, size in zip(cuts, held, strict=True) if size == usual]
    best: tuple[float, list[tuple[int, int]]] | None = None
    for distance in CUT_DISTANCES:
        chosen = list(cuts[distance - 1 :: distance])
        work = _estimate_work(chosen, sizes, budget)
        if chosen and (best is None or work < best[0]):
            best = (work, chosen)
    return list(cuts) if best is None else best[1]


FLOAT_BYTES = np.dtype(np.float64).itemsize
USUAL_SHARE = 0.9
CUT_DISTANCES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
"""How many cuts apart those are that a plan may choose."""


def _estimate_work(cuts: Sequence[tuple[int, int]], sizes: Sequence[int], budget: int) -> float:
    """Return about how many nodes are computed again with some cuts; infinity if a budget is too small for them."""
    bounds = [0, *(place + 1 for place, _ in cuts), len(sizes)]
    recorded = max(sum(sizes[start:stop]) for start, stop in pairwise(bounds))
    state = max([sizes[place] for place, _ in cuts], default=1)
    states = int((budget - 2 * recorded - 4 * state) // max(state, 1))
    if states < 1:
        return float("inf")
    count = len(cuts) + 1
    return count_binomial_steps(count, min(states, count)) * len(sizes) / count


def _write_segment(
    circuit: CircuitGraph,
    rows: Sequence[Row],
    sources: Mapping[int, tuple[int, ...]],
    ends: tuple[int | None, int | None],
    own: list[int],
) -> FunctionSegment:
    """Return some rows of a circuit as a segment, from one value to another."""
    given, returned = ends
    assert returned is not None
    inside = {row.node for row in rows}
    last = {node: k for k, row in enumerate(rows) for node in sources[row.node] if node in inside and node != returned}
    dropped: dict[int, list[int]] = {}
    for node, place in last.items():
        dropped.setdefault(place, []).append(node)
    constants = circuit.constants()
    used = {node: constants[node] for row in rows for node in sources[row.node] if node in constants}
    segment_rows = [
        SegmentRow(
            row.node,
            row.op,
            sources[row.node],
            decode_mode(row.mode)[0].label if row.op.kinks else None,
            tuple(dropped.get(k, ())),
        )
        for k, row in enumerate(rows)
    ]
    certificates = distinct_certificates(circuit)
    checks = {each.node: (each, expected_value(circuit, each)) for each in certificates if each.node in inside}
    numbers = {node: k for k, node in enumerate([given, *own, *used, *(row.node for row in rows)])}
    kind = tuple(
        [(row.op, tuple([numbers.get(source, source) for source in sources[row.node]]), row.mode) for row in rows]
    )
    # Where branches are checked, a step is measured with its own numbers.
    label = object() if certificates else (kind, len(own))
    return FunctionSegment(tuple(segment_rows), given, returned, tuple(own), used, checks, label)


def identify_value(value: Value) -> tuple[int, int]:
    """Return a key that is the same for all objects of one node."""
    return (0, id(value)) if value._tape is None else (value._tape.serial, value._index)


def record_step(step: Callable[..., Any], *states: ChainState | None) -> StepRecording:
    """Run a step on a tape of its own, given its input and its parameters if it has any."""
    tape = Tape(TapeKind.APART)
    recording = StepRecording(tape)
    with STATE.record_on(tape), refuse_changed_buffers(step):
        arguments = tuple(recording.lift_state(state) for state in states if state is not None)
        leaves, tree = flatten(OVERLAY.call(step, arguments, {}))
        recording.results = place_results(tape, leaves)
    recording.state = make_state(unflatten(tree, recording.results))
    return recording


@contextmanager
def refuse_changed_buffers(step: Any) -> Iterator[None]:
    """Raise if a layer changes its buffers, such as running means, inside this block, and put them back.

    A planned step is run several times, so it would change them several times.
    """
    before = step.buffers() if callable(getattr(step, "buffers", None)) else {}
    if not before:
        yield
        return
    state = step.state_dict()
    yield
    changed = [name for name, array in step.buffers().items() if array is not before[name]]
    if changed:
        step.load_state_dict(state)
        raise GradientError(
            f"a memory plan runs {function_name(step)} several times, and each time it changes {', '.join(changed)}; "
            "call eval() on it, or leave it out of the plan"
        )


@dataclass
class StepRecording:
    """The recording of one step: its inputs, its results, and the sweep between them."""

    tape: Tape
    inputs: list[list[Value | None]] = field(default_factory=list)
    """The leaves of the state and of the parameters; None for those without a gradient."""
    results: list[Any] = field(default_factory=list)
    state: ChainState = field(init=False)

    def lift_state(self, state: ChainState) -> Any:
        """Return a state as values of this recording."""
        lifts = [
            None if kind is None else add_input(self.tape, leaf, kind)
            for leaf, kind in zip(state.leaves, state.kinds, strict=True)
        ]
        self.inputs.append(lifts)
        pairs = zip(lifts, state.leaves, strict=True)
        return unflatten(state.tree, [leaf if lift is None else lift for lift, leaf in pairs])

    @property
    def captured(self) -> list[Value]:
        """The values from outside that the step used."""
        return list(self.tape.leaves.values())

    def sweep(self, flows: Sequence[Any], sums: dict[Any, Any] | None = None) -> list[list[Any]]:
        """Pull gradients of the results back; returns those of the inputs, and adds to the sums of captured values.

        The sums are seeds: so their terms are added in the order of one sweep over the whole chain.
        """
        sums = {} if sums is None else sums
        # A value can be on the tape twice, if a nested recording came in between; the sweep reaches the last one first.
        outside = sorted(self.tape.leaves.items(), reverse=True)
        first_seen = {identify_value(value): offset for offset, value in reversed(outside)}
        seeds = [(offset, sums.pop(key)) for key, offset in first_seen.items() if sums.get(key) is not None]
        pairs = zip(self.results, flows, strict=True)
        seeds += [(result._index, flow) for result, flow in pairs if isinstance(result, Value) and flow is not None]
        if not seeds:
            return [[None] * len(part) for part in self.inputs]
        adjoints = self._pull_back(seeds)
        for offset, value in outside:
            key = identify_value(value)
            sums[key] = add_flows(sums.get(key), _own_flow(_flow_at(adjoints, offset)))
        return [[None if x is None else _flow_at(adjoints, x._index) for x in part] for part in self.inputs]

    def _pull_back(self, seeds: list[tuple[int, Any]]) -> list[Any]:
        with np.errstate(all="ignore"):
            if STATE.watch is not None:
                found: list[Any] = STATE.watch.pull_back(self.tape, seeds)
                return found
            return pull_back(self.tape, seeds, keep=KeptGradients.NONE, spend=True)


def _flow_at(adjoints: list[Any], offset: int) -> Any:
    index = offset // STRIDE
    return adjoints[index] if index < len(adjoints) else None


def _own_flow(flow: Any) -> Any:
    """Return a flow that keeps no other array alive."""
    return flow.copy() if type(flow) is np.ndarray and flow.base is not None else flow


class ChainSegment(CheckpointSegment):
    """A call of a planned chain: its first run keeps the states of the schedule, its gradient follows the schedule."""

    def __init__(self, plan: MemoryPlan, leaves: list[Any], values: list[int], tree: ContainerTree) -> None:
        super().__init__(plan.run_plainly, leaves, values, tree)
        self.called = f"memory plan of {count_with_noun(len(plan.steps), 'step')}"
        self.plan = plan
        self._states: dict[int, ChainState] = {}
        """The states that are held now, by step."""
        self._actions: Iterator[Advance | Reverse] = iter(())
        self._captured: dict[Any, Value] = {}
        self._digests: dict[int, tuple[int, int | None]] = {}
        """Checksums of what each step returned and recorded."""

    def run_first(self, passed: Sequence[Value]) -> list[Any]:
        """Run the chain and keep the states of the schedule; returns the outputs as plain arrays."""
        self.kinds = [number_class(x) for x in passed]
        arguments = self._make_arguments([data_of(x) for x in passed])
        step = len(self.plan.steps) - 1
        self._states[step] = self._run_to_last_step(arguments)
        recording = self._record_step(step, self._states[step], arguments)
        self.captured = list(self._captured.values())
        self.out_tree = recording.state.tree
        self.results_in_python = [is_python_number(result) for result in recording.results]
        outputs = [data_of(result) for result in recording.results]
        self.parts = PackedParts(outputs)
        return outputs

    def _make_arguments(self, data: Sequence[Any]) -> ChainArguments:
        """Return the input and the parameters of each step as states, given the data of the values among them."""
        kinds: list[Any] = fill_places([None] * len(self.leaves), self.values, self.kinds)
        leaves = fill_places(self.leaves, self.values, data)
        # The places of the leaves, in the containers of the arguments.
        (x, parameters), _ = unflatten(self.tree, list(range(len(leaves))))

        def gather_state(container: Any) -> ChainState:
            places, tree = flatten(container)
            return ChainState(tree, [leaves[k] for k in places], [kinds[k] for k in places])

        entries = None if parameters is None else [gather_state(entry) for entry in parameters]
        return ChainArguments(gather_state(x), entries)

    def _run_to_last_step(self, arguments: ChainArguments) -> ChainState:
        """Follow the schedule up to its first sweep; returns the input of the last step."""
        schedule = self.plan.schedule
        assert schedule is not None
        self._states = {0: arguments.x}
        self._actions = walk_schedule(schedule, len(self.plan.steps))
        state = arguments.x
        for action in self._actions:
            if isinstance(action, Reverse):
                break
            state = self._states[action.stop] = self._advance(action, arguments)
        return state

    def _advance(self, action: Advance, arguments: ChainArguments) -> ChainState:
        """Run some steps from a state that is held; returns the last state."""
        state = self._states[action.start]
        for step in range(action.start, action.stop):
            state = self._record_step(step, state, arguments).state
        if not action.keep:
            return state
        # A copy in memory of its own: recorded arrays lie in pooled memory, which would grow by it.
        return state._replace(leaves=[np.array(x) if type(x) is np.ndarray else x for x in state.leaves])

    def _record_step(self, step: int, state: ChainState, arguments: ChainArguments) -> StepRecording:
        # Memory that other steps have freed is not kept beside what this one needs.
        MEMORY_POOL.drop_blocks()
        with convention(self.convention):
            recording = record_step(self.plan.steps[step], state, arguments.own_of(step))
        self._note_step(step, recording)
        return recording

    def _note_step(self, step: int, recording: StepRecording) -> None:
        """Note what a step used and returned; raises if it returned something else before."""
        for value in recording.captured:
            self._captured.setdefault(identify_value(value), value)
        digest = digest_leaves(recording.state.leaves), digest_rows(recording.tape)
        first = self._digests.setdefault(step, digest)
        if first[0] != digest[0] or (None not in (first[1], digest[1]) and first[1] != digest[1]):
            raise GradientError(
                f"step {step} of a memory plan ({function_name(self.plan.steps[step])}) gave another result when it "
                "was computed again: it depends on something that has changed since, such as a parameter's data or a "
                "random number; pass it in as a parameter"
            )

    def _recompute_gradients(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Follow the rest of the schedule; a sweep that is itself recorded runs on the whole chain instead."""
        if isinstance(g, Value) or any(isinstance(x, Value) for x in xs):
            arguments = self._make_arguments([data_of(x) for x in xs[: len(self.values)]])
            state = arguments.x
            for step in range(len(self.plan.steps)):
                # The steps are compared one by one, as in any other pass.
                state = self._record_step(step, state, arguments).state
            return super()._recompute_gradients(g, xs, y)
        arguments = self._make_arguments(xs[: len(self.values)])
        step = len(self.plan.steps) - 1
        if step not in self._states:
            self._states[step] = self._run_to_last_step(arguments)
        parts = [part if k in self.parts.moving else None for k, part in enumerate(self.parts.unpack(g))]
        gradients = ChainGradients(parts, len(self.plan.steps))
        self._sweep_step(step, gradients, arguments)
        for action in self._actions:
            if isinstance(action, Advance):
                self._states[action.stop] = self._advance(action, arguments)
            else:
                self._sweep_step(action.step, gradients, arguments)
        return self._collect_gradients(gradients, arguments, xs, g)

    def _sweep_step(self, step: int, gradients: ChainGradients, arguments: ChainArguments) -> None:
        """Record a step and sweep it; its input is no longer held after that."""
        recording = self._record_step(step, self._states.pop(step), arguments)
        gradients.sweep_step(step, recording)

    def _collect_gradients(
        self,
        gradients: ChainGradients,
        arguments: ChainArguments,
        xs: Sequence[Any],
        g: Any,
    ) -> list[Any]:
        """Return the gradients of all operands in order: the values among the arguments, then the captured ones."""
        own = [flow for flows in gradients.parameters for flow in flows] if arguments.parameters is not None else []
        flows = [*gradients.state, *own]
        chosen = [flows[k] for k in self.values]
        chosen += [gradients.sums.get(identify_value(value)) for value in self.captured]
        settled = [settle_gradient(flow, data) for flow, data in zip(chosen, xs, strict=True)]
        return make_distinct(settled, [(None, g)])


class ChainGradients:
    """The gradients while a chain is swept: of the state, of the parameters of each step, and of captured values."""

    def __init__(self, state: list[Any], count: int) -> None:
        self.state = state
        self.parameters: list[list[Any]] = [[] for _ in range(count)]
        self.sums: dict[Any, Any] = {}

    def sweep_step(self, step: int, recording: StepRecording) -> None:
        """Sweep one step: from the gradient of its result to those of its input and parameters."""
        self.state, *own = recording.sweep(self.state, self.sums)
        if own:
            self.parameters[step] = [_own_flow(flow) for flow in own[0]]
