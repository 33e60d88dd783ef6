"""Receipts: every listing of a circuit is run and compared with the interpreter, op by op and as a whole.

An elementwise op is tried alone on numbers, at many points. An op on arrays is tried on the arrays that its nodes saw,
and its result is reduced to a weighted sum of its elements. Each language then runs all cases in one batch. A receipt
claims no more than was observed: a language that could not run is named with the reason.

The interpreter and a listing do the same arithmetic with different libraries: their `exp` differ in the last place, and
a circuit may amplify that. A difference is accepted for one of three reasons, tried in order: it is at most
`MAX_OP_ULPS` units in the last place; it is at most `MAX_ROUNDING_RATIO` times the circuit's own rounding estimate; or
it is at most `MAX_ROUNDING_RATIO` times that estimate plus what the interpreter itself moves when every op that
libraries compute differently is perturbed by up to `MAX_OP_ULPS` units. Only the last one sees branches that one unit
in the last place flips; a NaN or an infinity on one side only is accepted for no other reason.

In the order of reading: differences and the report, then `receipt`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord, interpreter
from wiregrad.backends.interpreter import bind_inputs, euclidean_norm
from wiregrad.backends.run_listings import (
    RUNNABLE_LANGUAGES,
    ListingError,
    RunnableLanguage,
    RunnableListing,
    load_listing_function,
)
from wiregrad.codegen import write_listing
from wiregrad.codegen.listing import constant_key
from wiregrad.dtypes import BOOL, FLOAT, WireType, count_with_noun
from wiregrad.errors import InputError, WiregradError, short_repr
from wiregrad.inspect.report import Numbers, Report, format_capped_list, join_with_and
from wiregrad.inspect.rounding import RoundingEstimate, is_user_code, rounding
from wiregrad.ir import CONSTANT, TABLE, CircuitGraph, GraphBuilder, Op, Pattern, Port, Row
from wiregrad.ir.columns import write_mode
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


AWKWARD_NUMBERS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 6.0, 1e-300, 5e-324, -1e-8, 1e8, 700.0, -745.0, 1.7e308),
    *(np.inf, -np.inf, np.nan),
)
"""Numbers at which ops have kinks, poles and limits."""


class OpUse(NamedTuple):
    """How nodes use an op: the properties that determine the text of a listing."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    constants: tuple[tuple[int, float, bool], ...]
    """Constant inputs: slot, value, and whether it is negative (0.0 is not -0.0)."""

    @property
    def text(self) -> str:
        """The op applied to its inputs as an expression, with its kink mode unless that is the default."""
        constants = {slot: f"{value:g}" for slot, value, _ in self.constants}
        names = [constants.get(slot, self.op.input_name(slot)) for slot in range(len(self.types))]
        mode = f" [{write_mode(self.mode, self.op.inputs)}]" if self.mode else ""
        return self.op.expression(*names) + mode


def collect_op_uses(circuit: CircuitGraph) -> dict[OpUse, list[Row]]:
    """Return the different uses of ops in a circuit, each with its nodes; user code is left out.

    >>> from wiregrad.ir import parse_text
    >>> found = collect_op_uses(parse_text("input x\\na = constant 2.0\\nb = power x a\\nc = add b x\\noutput c"))
    >>> [use.text for use in found]
    ['a ** 2', 'a + b']
    """
    rows_by_use: dict[OpUse, list[Row]] = {}
    for row in circuit.rows():
        if row.sources and not is_user_code(row.op):
            rows_by_use.setdefault(_op_use(circuit, row), []).append(row)
    return rows_by_use


def _op_use(circuit: CircuitGraph, row: Row) -> OpUse:
    if not isinstance(row.op, Elementwise):
        return OpUse(row.op, row.mode, tuple(circuit.type_of(source) for source in row.sources), ())
    types = tuple(WireType(circuit.type_of(source).dtype) for source in row.sources)
    keys = [
        constant_key(slot, circuit.constant_of(source), circuit.type_of(source))
        for slot, source in enumerate(row.sources)
        if circuit.op_of(source) is CONSTANT
    ]
    constants = tuple(key for key in keys if key is not None)
    return OpUse(row.op, row.mode, types, constants if len(constants) < len(types) else ())


def build_op_circuit(use: OpUse) -> CircuitGraph | None:
    """Build the circuit of one op with a scalar output; None if the output is not real.

    A boolean input is made as `number > 0`, and a boolean output is turned into 1 or 0.
    """
    builder = GraphBuilder(finite=False)
    constants = {slot: value for slot, value, _ in use.constants}
    operands = [
        builder.place_constant(kind.dtype.type(constants[slot]))
        if slot in constants
        else _input_port(builder, use.op.input_name(slot), kind)
        for slot, kind in enumerate(use.types)
    ]
    port = builder.apply(use.op, *operands, mode=use.mode)
    kind = builder.type_of(port)
    if kind == BOOL:
        return builder.build(builder.apply(TABLE["where"], port, 1.0, 0.0))
    if kind.dtype.kind != "f":
        return None
    return builder.build(_weighted_sum(builder, port, kind) if kind.shape else port)


def _weighted_sum(builder: GraphBuilder, port: Port, kind: WireType) -> Port:
    """Return a weighted sum of all elements of an array, with different weights."""
    weights = np.linspace(0.5, 1.5, math.prod(kind.shape)).reshape(kind.shape).astype(kind.dtype)
    product = builder.apply(TABLE["multiply"], port, builder.place_constant(weights))
    axes = tuple(range(-len(kind.shape), 0))
    return builder.apply(TABLE["sum"].bind({"axes": axes, "keepdims": False}), product)


def _input_port(builder: GraphBuilder, name: str, kind: WireType) -> Port:
    if kind != BOOL:
        return builder.input(name, kind)
    return builder.apply(TABLE["greater"], builder.input(name, FLOAT), 0.0)


def op_test_points(
    use: OpUse, rows: Sequence[Row], runs: Sequence[Sequence[Any]], rng: np.random.Generator
) -> list[list[Any]]:
    """Return points for the circuit of a use; `runs` holds the values of all nodes in some runs."""
    if not isinstance(use.op, Elementwise):
        return [[run[source] for source in row.sources] for run in runs for row in rows[:2]]
    input_slots = [slot for slot in range(len(use.types)) if slot not in {slot for slot, _, _ in use.constants}]
    # A boolean input is made from a float.
    dtypes = [FLOAT.dtype if use.types[slot] == BOOL else use.types[slot].dtype for slot in input_slots]
    with np.errstate(all="ignore"):
        # A number that is finite in float64 may overflow in another dtype.
        return [
            [dtype.type(x) for dtype, x in zip(dtypes, point[input_slots], strict=True)]
            for point in _scalar_points(
                use.op, len(use.types), [list(_observed_points(run, row)) for run in runs for row in rows[:2]], rng
            )
        ]


def _scalar_points(
    op: Elementwise, width: int, seen: Sequence[Sequence[list[float]]], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return points for an elementwise op: its own samples, ordinary and special ones, and observed inputs."""
    samples = [[float(x) for x in point] for point in op.sample_points if len(point) == width]
    ordinary = rng.normal(size=(16, width)) * 2.0
    sizes = rng.choice([-1.0, 1.0], size=(8, width)) * 10.0 ** rng.uniform(-12, 6, size=(8, width))
    awkward = rng.choice(AWKWARD_NUMBERS, size=(4 * len(AWKWARD_NUMBERS), width))
    awkward[: len(AWKWARD_NUMBERS), :] = np.array(AWKWARD_NUMBERS)[:, None]
    mixed = np.where(
        rng.random((16, width)) < 0.5, rng.choice(AWKWARD_NUMBERS, size=(16, width)), rng.normal(size=(16, width))
    )
    observed = [point for points in seen for point in points]
    table = np.array([*samples, *ordinary, *sizes, *awkward, *mixed, *observed[:32]], np.float64)
    # A NaN may carry a sign, which not every language can be passed.
    return np.where(np.isnan(table), np.nan, table)


def _observed_points(run: Sequence[Any], row: Row) -> Iterator[list[float]]:
    """Return the inputs of a node in a run; the first elements of arrays."""
    values = [np.ravel(run[source])[:2] for source in row.sources]
    if all(len(value) and value.dtype.kind in "fb" for value in values):
        yield from ([float(value[k % len(value)]) for value in values] for k in range(max(map(len, values))))


_C_REAL_TYPES = {"float64": "double", "float32": "float"}
ResultRows = list[list[Any]]
"""For every point the value and the gradients."""


@dataclass(frozen=True)
class ListingCase:
    """A circuit of one output and the points at which it is tried."""

    circuit: CircuitGraph
    points: Sequence[ReceiptPoint]

    @cached_property
    def c_real_type(self) -> str:
        """The C type of all inputs and the output, double or float; empty if they differ."""
        nodes = [*self.circuit.input_indices(), self.circuit.root()]
        names = {_C_REAL_TYPES.get(self.circuit.type_of(node).dtype.name, "") for node in nodes}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def is_plain_double(self) -> bool:
        """Whether all inputs and the output are numbers in double precision."""
        nodes = [*self.circuit.input_indices(), self.circuit.root()]
        return all(self.circuit.type_of(node) == FLOAT for node in nodes)

    @cached_property
    def takes_batches(self) -> bool:
        """Whether a NumPy listing can take all points at once: every wire carries one number."""
        return self.is_plain_double and not any(kind.shape for kind in self.circuit.columns.type_table)

    def shape_results(self, row: NDArray[Any]) -> list[Any]:
        """Split a flat row of results into the value and the gradients, with their shapes."""
        shapes = [self.circuit.type_of(node).shape for node in self.circuit.input_indices()]
        ends = np.cumsum([1, *map(math.prod, shapes)]).tolist()
        parts = [row[start:stop] for start, stop in pairwise(ends)]
        return [row[0], *(part.reshape(shape)[()] for part, shape in zip(parts, shapes, strict=True))]

    @property
    def listing_kind(self) -> str:
        """The function to write: only a scalar output with inputs has gradients."""
        alone = self.circuit.type_of(self.circuit.root()).shape or not self.circuit.inputs
        return "value" if alone else "value_and_grad"


@dataclass(frozen=True)
class LanguageTrial:
    """The results of a language: rows for each case, or None if it did not run."""

    language: str
    version: str
    rows: Sequence[ResultRows | None]
    refused: Sequence[str]
    """Why each case did not run; empty where it did."""
    problems: tuple[str, ...] = ()

    def summarize_run(self, whole: int) -> LanguageRun:
        """Summarize the first `whole` cases, those of the whole circuit."""
        return LanguageRun(self.language, self.version, next(filter(None, self.refused[:whole]), ""))


def run_language(language: RunnableLanguage, cases: Sequence[ListingCase]) -> LanguageTrial:
    """Write, compile and run all cases in one language."""
    tool = language.tool()
    if tool is None:
        return LanguageTrial(language.name, "", [None] * len(cases), [language.advice] * len(cases))
    programs = list[RunnableListing | None]()
    refused = list[str]()
    for k, case in enumerate(cases):
        try:
            programs.append(build_program(case, language.name, f"listing{k}"))
            refused.append("")
        except WiregradError as error:
            programs.append(None)
            refused.append(str(error).splitlines()[0])
    try:
        rows = _run_programs(language, cases, programs)
    except ListingError as error:
        message = f"{language.name}: {error}"
        return LanguageTrial(
            language.name, tool.version, [None] * len(cases), [message.splitlines()[0]] * len(cases), (message,)
        )
    return LanguageTrial(language.name, tool.version, rows, refused)


def build_program(case: ListingCase, language: str, name: str) -> RunnableListing:
    """Return a case as a program of a language."""
    circuit = case.circuit
    text = write_listing(circuit, language, case.listing_kind, name)
    if (
        not case.is_plain_double
        and language != "numpy"
        and (language != "c" or not case.c_real_type or circuit.type_of(circuit.root()).shape)
    ):
        raise WiregradError("only listings in NumPy are run on numbers of other types than double precision")
    sizes = tuple(math.prod(circuit.type_of(node).shape) for node in circuit.input_indices())
    return RunnableListing(
        text, name, circuit.inputs, circuit.outputs, case.listing_kind, sizes, case.c_real_type or "double"
    )


def _run_programs(
    language: RunnableLanguage, cases: Sequence[ListingCase], programs: Sequence[RunnableListing | None]
) -> list[ResultRows | None]:
    rows_by_case: list[ResultRows | None] = [None] * len(cases)
    flat = [k for k, program in enumerate(programs) if program and (cases[k].takes_batches or language.name != "numpy")]
    batch = [program for k in flat if (program := programs[k]) is not None]
    answers = language.run(batch, [_point_table(cases[k], program) for k, program in zip(flat, batch, strict=True)])
    for k, answer in zip(flat, answers, strict=True):
        rows_by_case[k] = [cases[k].shape_results(row) for row in answer]
    for k, program in enumerate(programs):
        if program is not None and rows_by_case[k] is None:
            rows_by_case[k] = _run_on_arrays(program, cases[k])
    return rows_by_case


def _point_table(case: ListingCase, program: RunnableListing) -> NDArray[Any]:
    """Return the points of a case as a table, one row per point."""
    rows = [np.concatenate([np.zeros(0), *map(np.ravel, point.inputs)]) for point in case.points]
    return np.array(rows, program.dtype).reshape(len(rows), program.input_count)


def _run_on_arrays(program: RunnableListing, case: ListingCase) -> ResultRows:
    """Run a NumPy listing on arrays, point by point."""
    call = load_listing_function(program)
    rows = list[list[Any]]()
    for point in case.points:
        try:
            with np.errstate(all="ignore"):
                answer = call(*point.inputs)
        except Exception as error:
            raise ListingError(f"the listing of {case.circuit.name} raised {type(error).__name__}: {error}") from error
        value, grads = (answer, {}) if case.listing_kind == "value" else answer
        rows.append([value, *grads.values()])
    return rows


__all__ = ["LanguageRun", "OpDifference", "Receipt", "ResultDifference", "WorstDifference", "receipt"]

DEFAULT_POINT_COUNT = 24
"""Default number of points at which a circuit is tried."""
MAX_OP_USES = 120
"""Maximum number of different uses of ops that are tried alone."""
AWKWARD_INPUTS = (0.0, 0.0, 1.0, -1.0, 0.5, 6.0, np.inf, np.nan)
"""Special values that random inputs take now and then."""
CUDA_NOT_RUN = LanguageRun(
    "cuda", missing="a kernel runs on a GPU: compile circuit.to_cuda() with nvcc and compare there"
)


def receipt(
    circuit: CircuitGraph, points: int | Sequence[Mapping[str, Any]] = DEFAULT_POINT_COUNT, *, seed: int = 0
) -> Receipt:
    """Run the listings of a circuit in every language installed here and compare them with the interpreter.

    `points` is the number of random points, ordinary and special ones, or a list of points.

    >>> import wiregrad as wg
    >>> answer = receipt(wg.circuit("f = a * b + c"), points=4)
    >>> answer.ok, answer.worst.ulps
    (True, 0.0)
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a non-negative integer; got {short_repr(seed)}")
    # Only arithmetic is compared, so the branches of a traced function need not be valid at the points.
    circuit = circuit.unchecked()
    rng = np.random.default_rng(seed)
    candidates = _make_points(circuit, points, rng)
    table = _runnable_points(circuit, candidates)
    whole = [ListingCase(part, [ReceiptPoint(part, inputs) for inputs in table]) for part in _split_outputs(circuit)]
    used = collect_op_uses(circuit)
    alone = dict(_single_op_cases(circuit, dict(islice(used.items(), MAX_OP_USES)), table, rng))
    trials = [run_language(language, [*whole, *alone.values()]) for language in RUNNABLE_LANGUAGES]
    named = len(whole) > 1
    return Receipt(
        circuit=circuit.name,
        points=len(table),
        seed=seed,
        languages=(*(trial.summarize_run(len(whole)) for trial in trials), CUDA_NOT_RUN),
        ops=tuple(_compare_op(use, k + len(whole), case, trials) for k, (use, case) in enumerate(alone.items())),
        results=tuple(result for k, case in enumerate(whole) for result in _compare_results(k, case, trials, named)),
        problems=tuple(problem for trial in trials for problem in trial.problems),
        refused=len(candidates) - len(table),
        not_tried=max(0, len(used) - MAX_OP_USES),
    )


def _split_outputs(circuit: CircuitGraph) -> list[CircuitGraph]:
    """Return a circuit for each output."""
    return [circuit] if len(circuit.outputs) == 1 else [circuit.with_output(name) for name in circuit.outputs]


def _make_points(circuit: CircuitGraph, points: object, rng: np.random.Generator) -> list[list[Any]]:
    """Return the value of every input at each point."""
    if isinstance(points, int) and not isinstance(points, bool) and points > 0:
        kinds = [circuit.type_of(node) for node in circuit.input_indices()]
        return [[_random_value(kind, rng) for kind in kinds] for _ in range(points)]
    if isinstance(points, Sequence) and points and all(isinstance(point, Mapping) for point in points):
        return [bind_inputs(circuit, [point], {}) for point in points]
    raise InputError(
        f"points must be a positive integer or a list of points, as [{{'x': 1.0}}]; got {short_repr(points)}"
    )


def _runnable_points(circuit: CircuitGraph, table: Sequence[list[Any]]) -> list[list[Any]]:
    """Return the points at which the circuit can be run; a matrix, for example, may have no inverse."""
    runnable = list[list[Any]]()
    reason = ""
    for inputs in table:
        try:
            interpreter.run_all_outputs(circuit, inputs)
            runnable.append(inputs)
        except RUN_ERRORS as error:
            reason = str(error).splitlines()[0]
    if not runnable:
        raise InputError(
            f"the circuit cannot be run at any of {len(table)} points ({reason}); pass others as points=[...]"
        )
    return runnable


def _random_value(kind: WireType, rng: np.random.Generator) -> Any:
    """Return a random value for a wire: mostly ordinary, sometimes on a kink, rarely infinite or NaN."""
    if kind.dtype.kind in "bi":
        return rng.integers(0, 2, size=kind.shape).astype(kind.dtype)[()]
    awkward = np.asarray(rng.random(kind.shape)) < (0.02 if kind.shape else 0.15)
    values = np.where(awkward, rng.choice(AWKWARD_INPUTS, size=kind.shape), rng.normal(size=kind.shape) * 2.0)
    turned = values * np.exp(1j * rng.uniform(0.0, 6.0)) if kind.dtype.kind == "c" else values
    return turned.astype(kind.dtype)[()]


def _single_op_cases(
    circuit: CircuitGraph, used: Mapping[OpUse, Sequence[Row]], table: Sequence[Any], rng: np.random.Generator
) -> Iterator[tuple[OpUse, ListingCase]]:
    """Return a case for every use of an op that can be tried alone."""
    runs = [interpreter.evaluate_nodes(circuit, inputs) for inputs in table[:8]]
    for use, rows in used.items():
        small = build_op_circuit(use)
        if small is not None:
            yield (
                use,
                ListingCase(small, [ReceiptPoint(small, point) for point in op_test_points(use, rows, runs, rng)]),
            )


def _compare_op(use: OpUse, k: int, case: ListingCase, trials: Sequence[LanguageTrial]) -> OpDifference:
    """Compare an op alone with the interpreter in each language."""
    values = dict[str, float]()
    slopes = dict[str, float]()
    fits = True
    # The value of an elementwise op must be accurate; that of an op on arrays adds up many roundings.
    excused = 0 if not isinstance(use.op, Elementwise) else 1
    for trial in trials:
        rows = trial.rows[k]
        if rows is not None:
            off = _result_distances(rows, case)
            values[trial.language] = float(np.max(off[:, 0]))
            slopes[trial.language] = float(np.max(off[:, 1:], initial=0.0))
            far = np.argwhere(off > MAX_OP_ULPS).tolist()
            judged = [r >= excused and case.points[i].judge_result(r, rows[i][r]).fits for i, r in far]
            fits = fits and all(judged)
    return OpDifference(use.op.name, use.text, values, slopes, fits)


def _result_distances(rows: Sequence[Any], case: ListingCase) -> NDArray[Any]:
    """Return the distance of each result in ulp, at each point."""
    expected = [point.reference_results for point in case.points]
    if case.is_plain_double:
        return np.asarray(ulp_distances(np.array(rows), np.array(expected)))
    return np.array([list(map(largest_ulps, row, others)) for row, others in zip(rows, expected, strict=True)])


def _compare_results(
    k: int, case: ListingCase, trials: Sequence[LanguageTrial], named: bool
) -> Iterator[ResultDifference]:
    """Compare the value and each gradient of a circuit in each language."""
    circuit = case.circuit
    of = f" of {circuit.output}" if named else ""
    gradients = [] if case.listing_kind == "value" else [f"gradient{of} by {name}" for name in circuit.inputs]
    for result, name in enumerate([circuit.output, *gradients]):
        yield _compare_result(name, case, {trial.language: trial.rows[k] for trial in trials}, result)


def _compare_result(name: str, case: ListingCase, rows_by_language: Mapping[str, Any], result: int) -> ResultDifference:
    steps = dict[str, float]()
    ratios = dict[str, float]()
    fits = dict[str, bool]()
    shaken = 0
    for language, rows in rows_by_language.items():
        if rows is None:
            continue
        verdicts = [point.judge_result(result, row[result]) for point, row in zip(case.points, rows, strict=True)]
        explained = [verdict for verdict in verdicts if not (verdict.shaken and verdict.fits)]
        steps[language] = max((verdict.ulps for verdict in explained), default=0.0)
        ratios[language] = max((verdict.ratio for verdict in explained if verdict.ulps > 0), default=0.0)
        fits[language] = all(verdict.fits for verdict in verdicts)
        shaken += len(verdicts) - len(explained)
    return ResultDifference(name, steps, ratios, fits, shaken)
