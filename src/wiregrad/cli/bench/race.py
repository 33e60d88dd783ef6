"""Races: entrants do the same work in turns, in one process, after their answers were compared.

Turns are taken in the order A B C A B C, so that a slow minute slows down all of them. A turn has as many runs as fill
20 ms; times are medians over turns, and ratios are medians of the ratios within a turn. An entrant with a wrong answer
is not timed, and the table gives the reason for every entrant that is missing.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Run
from wiregrad.cli.bench.workloads import Workload
from wiregrad.dtypes import count_with_noun

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

    >>> from wiregrad.cli.bench.workloads import random_workload
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
