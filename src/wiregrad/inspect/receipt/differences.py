"""How far a listing's result is from the interpreter's, whether rounding explains it, and the report of it.

The interpreter and a listing do the same arithmetic with different libraries: their `exp` differ in the last place, and
a circuit may amplify that. A difference is accepted for one of three reasons, tried in order: it is at most
`MAX_OP_ULPS` units in the last place; it is at most `MAX_ROUNDING_RATIO` times the circuit's own rounding estimate; or
it is at most `MAX_ROUNDING_RATIO` times that estimate plus what the interpreter itself moves when every op that
libraries compute differently is perturbed by up to `MAX_OP_ULPS` units. Only the last one sees branches that one unit
in the last place flips; a NaN or an infinity on one side only is accepted for no other reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord, interpreter
from wiregrad.backends.run import euclidean_norm
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import WiregradError
from wiregrad.inspect.report import Report, format_capped_list, join_with_and
from wiregrad.inspect.rounding import RoundingEstimate, rounding
from wiregrad.inspect.run_index import Numbers
from wiregrad.ir import CONSTANT, CircuitGraph, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.passes import backward_circuit

MAX_OP_ULPS = 4.0
"""Number of units in the last place by which an op may differ in another language."""
MAX_ROUNDING_RATIO = 10.0
"""Maximum ratio of a circuit's difference to its own rounding estimate."""
RUN_ERRORS = (WiregradError, ArithmeticError, ValueError)
"""Errors that running a circuit may raise; NumPy's own, as for a singular matrix, are ValueErrors."""
PERTURBED_RUNS = 32
"""Number of perturbed runs to try where nothing else explains a difference."""


def largest_ulps(result: ArrayLike, expected: ArrayLike) -> float:
    """Return the largest distance between two results in ulp; inf between NaN and a number.

    >>> largest_ulps(1.0 + 2**-52, 1.0), largest_ulps(0.0, -0.0), largest_ulps(np.nan, 1.0)
    (1.0, 0.0, inf)
    """
    return float(np.max(ulp_distances(result, expected), initial=0.0))


def ulp_distances(result: ArrayLike, expected: ArrayLike) -> float | NDArray[Any]:
    """Return the distance of each element of a result in ulp: the number of floats between the two.

    >>> ulp_distances([1.0, 5e-324], [1.0, -5e-324])
    array([0., 2.])
    """
    one = np.asarray(result)
    two = np.asarray(expected)
    if one.shape != two.shape:
        return np.inf
    if one.dtype.kind == "c" or two.dtype.kind == "c":
        farther: NDArray[Any] = np.maximum(ulp_distances(one.real, two.real), ulp_distances(one.imag, two.imag))
        return farther
    dtype = np.dtype(np.float32 if two.dtype == np.float32 else np.float64)
    one = one.astype(dtype)
    two = two.astype(dtype)
    nan = np.isnan(one), np.isnan(two)
    steps = _position_gap(_float_position(one), _float_position(two))
    return np.where(nan[0] & nan[1], 0.0, np.where(nan[0] ^ nan[1], np.inf, steps))


def _float_position(x: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of a float among all floats of its dtype, counted from 0."""
    whole = np.ascontiguousarray(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(whole < 0, np.iinfo(f"i{x.dtype.itemsize}").min - whole, whole)


def _position_gap(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[Any]:
    # On two sides of 0 the positions may be too far apart for an integer, so floats are used.
    apart = (one < 0) != (two < 0)
    beside = np.abs(np.where(apart, 0, one) - np.where(apart, 0, two))
    return np.where(apart, np.abs(one.astype(np.float64)) + np.abs(two.astype(np.float64)), beside)


class ReceiptVerdict(NamedTuple):
    """A difference in ulp, relative to the rounding estimate, and whether rounding explains it."""

    ulps: float
    ratio: float
    fits: bool
    shaken: bool = False
    """Whether only perturbed runs explain it."""


SAME_VERDICT = ReceiptVerdict(0.0, 0.0, True)


class ReceiptPoint:
    """One point of a circuit: the interpreter's results, and how far other results may be off."""

    def __init__(self, circuit: CircuitGraph, inputs: Sequence[Any]) -> None:
        self.circuit = circuit
        self.inputs = list(inputs)

    @cached_property
    def reference_run(self) -> RunRecord:
        """The interpreter's run at this point."""
        return interpreter.run_all_outputs(self.circuit, self.inputs)

    @cached_property
    def reference_results(self) -> list[Any]:
        """The value, then the gradient of every input."""
        run = self.reference_run
        return [run.values[self.circuit.root()], *(run.gradient(node) for node in self.circuit.input_indices())]

    def judge_result(self, result: int, value: ArrayLike) -> ReceiptVerdict:
        """Judge one result of a listing (0: the value, k: the gradient of the k-th input)."""
        expected = self.reference_results[result]
        steps = largest_ulps(value, expected)
        if not steps:
            return SAME_VERDICT
        with np.errstate(all="ignore"):
            off = _norm_distance(value, expected)
        ratio = off / self._rounding_error(result) if self._rounding_error(result) else math.inf
        if steps <= MAX_OP_ULPS or ratio <= MAX_ROUNDING_RATIO:
            return ReceiptVerdict(steps, ratio, True)
        return ReceiptVerdict(steps, ratio, self._moves_as_much(result, value, off), shaken=True)

    def _rounding_error(self, result: int) -> float:
        estimate = self._rounding_estimates[result]
        # A circuit may be more accurate than expected by luck, which other libraries do not share.
        return 0.0 if estimate is None else max(abs(estimate.error), estimate.expected)

    @cached_property
    def _rounding_estimates(self) -> list[RoundingEstimate | None]:
        try:
            answer = rounding(self.reference_run)
        except RUN_ERRORS:
            return [None] * len(self.reference_results)
        return [answer.output, *(answer.gradients.get(name) for name in self.circuit.inputs)]

    def _moves_as_much(self, result: int, value: ArrayLike, off: float) -> bool:
        """Return whether the interpreter moves as much when its ops are perturbed in their last places."""
        with np.errstate(all="ignore"):
            others = [row[result] for row in self._perturbed_results]
            if not math.isfinite(off):
                return any(_number_kinds(other) == _number_kinds(value) for other in others)
            moves = [_norm_distance(other, self.reference_results[result]) for other in others]
        return off <= MAX_ROUNDING_RATIO * (
            self._rounding_error(result) + max(filter(math.isfinite, moves), default=0.0)
        )

    @cached_property
    def _perturbed_results(self) -> list[list[Any]]:
        rng = np.random.default_rng(0)
        results = list[list[Any]]()
        try:
            backward = backward_circuit(self.circuit) if self.circuit.inputs else None
            for _ in range(PERTURBED_RUNS):
                value = _run_perturbed(self.circuit, self.inputs, rng)[self.circuit.root()]
                nodes = [] if backward is None else _run_perturbed(backward, self.inputs, rng)
                grads = [] if backward is None else [nodes[k] for k in backward.columns.outputs.tolist()]
                results.append([value, *grads])
        except RUN_ERRORS:
            # The gradient has no circuit, or a perturbed matrix is singular: the runs so far must do.
            return results
        return results


def _run_perturbed(circuit: CircuitGraph, inputs: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """Run forward with the result of every op that libraries compute differently moved by a few units."""
    arguments = iter(inputs)
    constants = circuit.constants()
    values = list[Any]()
    with np.errstate(all="ignore"):
        for row in circuit.rows():
            if not row.sources:
                values.append(constants[row.node] if row.op is CONSTANT else next(arguments))
                continue
            y = row.op.compute(*[values[source] for source in row.sources])
            values.append(_perturb_result(y, MAX_OP_ULPS if _may_round_differently(row) else 0.0, rng))
    return values


def _may_round_differently(row: Row) -> bool:
    """Return whether an op may round differently in another library: all but sums, products, choices, comparisons."""
    return not isinstance(row.op, Elementwise) or row.op.pattern is Pattern.SCALE


def _perturb_result(y: Numbers, most: float, rng: np.random.Generator) -> Any:
    """Move a result randomly by at most `most` units in the last place."""
    if np.asarray(y).dtype.kind != "f":
        return y
    steps = rng.integers(-int(most), int(most) + 1, size=np.shape(y))
    near = y + (steps * np.spacing(y)).astype(np.asarray(y).dtype)
    return np.where(np.isfinite(near), near, y).astype(np.asarray(y).dtype)[()]


def _norm_distance(result: ArrayLike, expected: ArrayLike) -> float:
    """Return the norm of a difference; inf where only one is a number, or both are different infinities."""
    one = np.asarray(result)
    two = np.asarray(expected)
    if one.shape != two.shape:
        return math.inf
    kind = np.result_type(one.dtype, two.dtype, np.float64)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    gap = np.where(same, 0.0, np.abs(one.astype(kind) - two.astype(kind)))
    return euclidean_norm(np.where(np.isnan(gap), np.inf, gap))


def _number_kinds(value: ArrayLike) -> bytes:
    """Return for every element whether it is finite, NaN or which infinity."""
    array = np.asarray(value)
    kinds = np.isnan(array) * 1 + np.isposinf(array.real) * 2 + np.isneginf(array.real) * 4
    return bytes(np.ravel(kinds).astype(np.uint8))


_CANCELLATION_TEXT = "all languages are within its own rounding error, which is more than a few ulp"
MAX_TABLE_ROWS = 40
"""Maximum number of rows in each table of a receipt."""


@dataclass(frozen=True)
class LanguageRun:
    """A language with the version of its tool, or why it did not run."""

    name: str
    version: str = ""
    missing: str = ""
    """Why the whole circuit did not run in it, and what to do; empty if it ran."""


@dataclass(frozen=True)
class OpDifference:
    """An op alone: the largest distance of its value and its slopes from the interpreter, by language, in ulp."""

    op: str
    text: str
    value: Mapping[str, float]
    slopes: Mapping[str, float]
    fits: bool = True
    """Whether each value is within a few ulp, and each slope too unless rounding explains more."""

    @property
    def cancels(self) -> bool:
        """Whether a slope is far off because its rule cancels, which every language rounds differently."""
        return self.fits and max(self.slopes.values(), default=0.0) > MAX_OP_ULPS


@dataclass(frozen=True)
class ResultDifference:
    """A result of the whole circuit: its largest differences by language, in ulp and over its rounding estimate."""

    result: str
    ulps: Mapping[str, float]
    ratios: Mapping[str, float]
    fits: Mapping[str, bool]
    """Whether rounding explains all differences."""
    shaken: int = 0
    """Number of points at which only perturbed runs of the interpreter explain a difference."""


class WorstDifference(NamedTuple):
    """The largest difference of all: the result, the language and the distance in ulp."""

    what: str
    language: str
    ulps: float


@dataclass(frozen=True, repr=False)
class Receipt(Report):
    """How far the listings of a circuit are from the interpreter, language by language."""

    circuit: str
    points: int
    seed: int
    languages: tuple[LanguageRun, ...]
    ops: tuple[OpDifference, ...]
    results: tuple[ResultDifference, ...]
    problems: tuple[str, ...] = ()
    """Failures other than differences: listings that did not run."""
    refused: int = 0
    """Number of points left out because the circuit cannot be run there."""
    not_tried: int = 0
    """Number of uses of ops that were not tried alone, to save time."""

    @property
    def ok(self) -> bool:
        """Whether the circuit ran somewhere, every op is within a few ulp, and rounding explains all differences."""
        fits = all(all(result.fits.values()) for result in self.results)
        return self.ran and fits and all(op.fits for op in self.ops) and not self.problems

    @property
    def ran(self) -> bool:
        """Whether the whole circuit ran in some language."""
        return any(result.ulps for result in self.results)

    @property
    def worst(self) -> WorstDifference | None:
        """The largest difference of an op alone in ulp, or of the whole circuit if no op was tried alone."""
        alone = [
            WorstDifference(op.text, *pair)
            for op in self.ops
            for part in (op.value, op.slopes)
            for pair in part.items()
        ]
        whole = [WorstDifference(result.result, *pair) for result in self.results for pair in result.ulps.items()]
        return max(alone or whole, key=lambda one: one.ulps, default=None)

    def lines(self) -> Iterator[str]:
        """Return what ran, the differences as tables, and the verdict."""
        ran = [one for one in self.languages if not one.missing]
        yield f"{self.circuit} at {count_with_noun(self.points, 'point')} (seed {self.seed}), against the interpreter"
        if self.refused:
            yield f"  left out: {count_with_noun(self.refused, 'point')} at which the circuit cannot be run"
        yield from (f"  {one.name}: {one.version}" for one in ran)
        yield from (f"  {one.name} did not run: {one.missing}" for one in self.languages if one.missing)
        if self.ops:
            yield "largest difference of each op alone, in ulp: value, slopes"
            yield from _format_table(
                self._language_columns(), [_op_row(op, self._language_columns()) for op in self.ops]
            )
        if self.not_tried:
            yield f"  {count_with_noun(self.not_tried, 'more use')} of ops not tried alone"
        if self.results:
            yield "largest difference of the whole circuit: in ulp, over its own rounding estimate"
            yield from _format_table(
                self._language_columns(), [_result_row(one, self._language_columns()) for one in self.results]
            )
        yield from self._verdict_lines()

    def _language_columns(self) -> list[str]:
        seen = [*(op.value for op in self.ops), *(result.ulps for result in self.results)]
        return [one.name for one in self.languages if any(one.name in row for row in seen)]

    def _verdict_lines(self) -> Iterator[str]:
        yield from (f"wrong: {problem}" for problem in self.problems)
        yield from format_capped_list(
            [f"the slope of {op.text} cancels: {_CANCELLATION_TEXT}" for op in self.ops if op.cancels], 8
        )
        shaken = sum(result.shaken for result in self.results)
        if shaken:
            yield (
                f"{count_with_noun(shaken, 'difference')} occurred where the circuit amplifies the last place: "
                f"there the interpreter moves as much when its ops are perturbed by {MAX_OP_ULPS:g} ulp"
            )
        far = [op.text for op in self.ops if not op.fits]
        off = [result.result for result in self.results if not all(result.fits.values())]
        ran = [one.name for one in self.languages if not one.missing]
        if self.ok and ran:
            agree = f"{join_with_and(ran)} agree{'' if len(ran) > 1 else 's'}"
            yield f"ok: {agree} with the interpreter to within rounding"
        if not self.ran:
            yield "not ok: no language here could run the whole circuit"
        if far:
            yield f"not ok: {join_with_and(far[:8])} further off than allowed"
        if off:
            names = join_with_and(off[:8])
            yield f"not ok: {names} further off than {MAX_ROUNDING_RATIO:g} times the rounding estimate"


def _op_row(op: OpDifference, columns: Sequence[str]) -> list[str]:
    cells = [f"{op.value[name]:.3g}, {op.slopes[name]:.3g}" if name in op.value else "-" for name in columns]
    return [op.text, *cells]


def _result_row(result: ResultDifference, columns: Sequence[str]) -> list[str]:
    cells = [f"{result.ulps[name]:.3g}, {result.ratios[name]:.2g}" if name in result.ulps else "-" for name in columns]
    return [result.result, *cells]


def _format_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Format a table with columns as wide as their widest cell."""
    shown = [["", *columns], *rows[:MAX_TABLE_ROWS]]
    widths = [max(len(row[k]) for row in shown) for k in range(len(shown[0]))]
    for row in shown:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if len(rows) > MAX_TABLE_ROWS:
        yield f"  and {len(rows) - MAX_TABLE_ROWS:,} more"
