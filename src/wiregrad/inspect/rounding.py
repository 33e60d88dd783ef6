"""How far rounding has moved the output and the gradients of a run, and which nodes moved them.

To first order the error of an output is the sum over all nodes of the node's gradient times its own rounding error. The
run already has the gradients. The rounding errors are measured: every op is computed once more from the same rounded
inputs in a wider type (float64 for float32, long double for float64), and sums of two numbers by an exact formula. The
whole circuit is also run in wider types, which sees what no slope can, such as a branch that rounding flipped or a
square that rounded to 0. The estimate uses whichever of the two can resolve the error.

A gradient is an output of the backward circuit, so its error counts the roundings of the forward and of the backward
pass. Only arithmetic is judged: inputs and constants count as exact. Errors have the sign of computed minus exact.

In the order of reading: the rounding error of each node, then `rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import (
    check_input_names,
    constant_identity,
    euclidean_norm,
    evaluate_nodes,
    largest_magnitude,
)
from wiregrad.dtypes import count_with_noun, format_brief_number, to_python_number
from wiregrad.errors import InputError, WiregradError, short_repr
from wiregrad.inspect.report import (
    GradientFlow,
    Numbers,
    Report,
    RunIndex,
    describe_node,
    format_capped_list,
    format_node_place,
    format_operand,
    format_place,
)
from wiregrad.ir import CONSTANT, CircuitGraph, Node, Op, Pattern, Place, Row
from wiregrad.ir.columns import join_first_names
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, LinearOp
from wiregrad.ops.gradient_flow import fill_absent
from wiregrad.passes import SilentWatcher, backward_circuit, sweep_backward

WIDER_DTYPES: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in (
        (np.longdouble, np.longdouble),
        (np.float16, np.float64),
        (np.float32, np.float64),
        (np.float64, np.longdouble),
        (np.clongdouble, np.clongdouble),
        (np.complex64, np.complex128),
        (np.complex128, np.clongdouble),
    )
}
"""The wider dtype in which roundings are measured; where long double is no wider, they are guessed."""
_COMPUTE_ERRORS = (WiregradError, TypeError, ValueError, IndexError, ArithmeticError)


class NodeRounding(NamedTuple):
    """The rounding error of one node alone, and the uncertainty of it; a guessed error is all uncertainty.

    A node that adds or multiplies many numbers rounds many times, so its error may be small by luck: `usual` and `most`
    are the typical and the largest error of that many roundings.
    """

    error: Any
    doubt: Any = 0.0
    usual: Any = 0.0
    most: Any = 0.0
    guessed: bool = False


@dataclass(frozen=True)
class MeasuredRounding:
    """The rounding error of each node of a circuit, and the values of a run in wider types."""

    index: RunIndex
    local: Mapping[int, NodeRounding]
    wide: Sequence[Any]

    def total_error(self, node: int, value: ArrayLike | None = None) -> Any:
        """Return the error of a node's value against the run in wider types."""
        return _error_against(self.index.values[node] if value is None else value, self.wide[node])

    def user_code_nodes(self, node: int) -> list[int]:
        """Return the nodes of user code on which a node depends, with or without a gradient."""
        if not any(is_user_code(row.op) for row in self.index.rows):
            return []
        behind = {node}
        nodes = []
        for row in reversed(self.index.rows[: node + 1]):
            if row.node in behind:
                behind.update(row.sources)
                nodes += [row.node] if is_user_code(row.op) else []
        return nodes[::-1]

    def unresolved_error(self, node: int) -> float:
        """Return how far a node that is 0 moves under roundings too small for the wider types.

        A square may be 0, with slope 0, only because all digits of its input were lost.
        """
        moved = [euclidean_norm(_error_against(wide[node], self.wide[node])) for wide in self._nudged_runs]
        return max(filter(math.isfinite, moved), default=0.0)

    @cached_property
    def _nudged_runs(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return _run_nudged(self, 1.0), _run_nudged(self, -1.0)


def measure_rounding(index: RunIndex, known_constants: frozenset[Any] | None = None) -> MeasuredRounding:
    """Measure every node; a constant that is not among the known ones comes from a rule, where it was rounded."""
    local: dict[int, NodeRounding] = {}
    wide: list[Any] = []
    for row, y in zip(index.rows, index.values, strict=True):
        wide.append(_run_node_wide(index, row, wide))
        if np.asarray(y).dtype not in WIDER_DTYPES:
            continue
        if row.sources:
            rounding = _measure_node(row, index.input_values(row.node), y)
        else:
            rule = row.op is CONSTANT and known_constants is not None and constant_identity(y) not in known_constants
            rounding = NodeRounding(0.0, typical_rounding(y) if rule and not _has_few_digits(y) else 0.0, guessed=True)
        if np.any(rounding.error) or np.any(rounding.doubt):
            local[row.node] = rounding
    return MeasuredRounding(index, local, wide)


def _measure_node(row: Row, xs: Sequence[Any], y: Numbers) -> NodeRounding:
    """Return the rounding error of one node: computed minus the exact result for the same inputs."""
    wide = None if _is_only_double(row.op, y) else _compute_wide(row.op, [_widen_dtype(x) for x in xs], y)
    if is_sum_of_two(row.op):
        return NodeRounding(_exact_sum_error(row, xs, y, wide))
    if row.op.name == "sum" and wide is not None:
        wide = _compensated_sum(_widen_dtype(xs[0]), wide, row.op.options["axes"])
    if wide is None:
        return NodeRounding(0.0, _guess_error(row.op, xs, y), guessed=True)
    error = _error_against(y, wide)
    # NumPy's spacing is NaN for some long doubles, so the step of the wider type is derived from the narrower one.
    doubt = np.where(error == 0, 0.0, typical_rounding(y) * wider_step_ratio(np.asarray(y).dtype))
    return NodeRounding(error, doubt, *_inner_roundings(row.op, xs, y, wide))


def _inner_roundings(op: Op, xs: Sequence[Any], y: ArrayLike, wide: ArrayLike) -> tuple[Any, Any]:
    """Return the typical and the largest error of a node that adds or multiplies many numbers."""
    if not isinstance(op, ArrayOp) or not _is_inexact(y) or not np.size(y):
        return 0.0, 0.0
    return _sum_roundings(op, xs, y) if isinstance(op, LinearOp) else _product_roundings(op, xs, y, wide)


def _sum_roundings(op: Op, xs: Sequence[Any], y: ArrayLike) -> tuple[Any, Any]:
    """Return the roundings of a sum; applied to ones, an op that only adds counts its terms.

    Where NumPy adds pairwise, every number is rounded log2(n) times; where it adds in sequence, as it does for running
    sums and along all axes but the last, n / 2 times on average.
    """
    terms = _try_compute(op, [np.ones_like(x) if _is_inexact(x) else x for x in xs], y)
    if terms is None or not np.any(np.abs(terms) > 1.0):
        return 0.0, 0.0
    running = len(xs) == 1 and np.size(y) == np.size(xs[0])
    in_turn = running or -1 not in op.options.get("axes", (-1,))
    levels = np.abs(terms) / 2.0 * (np.abs(terms) > 1.0) if in_turn else np.log2(np.maximum(np.abs(terms), 1.0))
    sizes = [largest_magnitude(x) or 1.0 if _is_inexact(x) else 1.0 for x in xs]
    shares = [np.abs(x) / size if _is_inexact(x) else x for x, size in zip(xs, sizes, strict=True)]
    sums, squares = (_try_compute(op, [x**k if _is_inexact(x) else x for x in shares], y) for k in (1, 2))
    if sums is None or squares is None:
        return 0.0, 0.0
    eps = float(np.finfo(np.asarray(y).dtype).eps)
    scale = math.prod(sizes)
    usual = np.maximum(np.abs(y), np.sqrt(levels * np.abs(squares)) * scale) * eps / math.sqrt(12.0)
    most = (1.0 + levels) * np.abs(sums) * scale * eps / 2.0
    usable = (levels > 0) & np.isfinite(usual) & np.isfinite(most)
    return np.where(usable, usual, 0.0), np.where(usable, most, 0.0)


def _product_roundings(op: Op, xs: Sequence[Any], y: ArrayLike, wide: ArrayLike) -> tuple[Any, Any]:
    """Return the roundings of a product: scaling n factors shows n as the exponent, and n products round n times."""
    h = 2.0**-20
    moved = _try_compute(op, [_widen_dtype(x) * (1.0 + h) if _is_inexact(x) else x for x in xs], y)
    if moved is None or not _is_inexact(moved):
        return 0.0, 0.0
    count = np.log(np.abs(moved / wide)).astype(np.float64) / math.log1p(h)
    many = np.isfinite(count) & (count > 2.5) & (np.abs(count - np.rint(count)) < 1e-3)
    count = np.where(many, count, 0.0)
    return np.sqrt(count) * typical_rounding(y), count * math.sqrt(3.0) * typical_rounding(y)


def is_sum_of_two(op: Op) -> bool:
    """Return whether an op is a sum or difference of two numbers."""
    return isinstance(op, Elementwise) and op.pattern is Pattern.DISTRIBUTE and len(op.inputs) == 2


def _exact_sum_error(row: Row, xs: Sequence[Any], y: Numbers, wide: ArrayLike | None) -> NDArray[Any]:
    """Return the exact rounding error of a + b or a - b: even a wider type may lose the smaller operand entirely."""
    signs = [row.op.local(slot, xs, y, row.mode) for slot in range(2)]
    a, b = (np.multiply(x, sign, dtype=np.asarray(y).dtype) for x, sign in zip(xs, signs, strict=True))
    rest = _two_sum_rest(a, b, y)
    other = np.zeros(np.shape(y)) if wide is None else _error_against(y, wide)
    return np.where(np.isfinite(rest), -rest, other)


def _two_sum_rest(a: Numbers, b: Numbers, y: Numbers) -> Numbers:
    """Return the exact remainder of a + b after rounding to y (Knuth's TwoSum)."""
    back = y - a
    rest: Numbers = (a - (y - back)) + (b - back)
    return rest


def _compensated_sum(x: ArrayLike, total: ArrayLike, axes: tuple[int, ...]) -> NDArray[Any]:
    """Return a compensated sum along axes: the remainder of each addition is added at the end."""
    last = np.moveaxis(np.asarray(x), axes, range(-len(axes), 0)) if axes else np.asarray(x)[..., None]
    high = last.reshape(*last.shape[: last.ndim - max(len(axes), 1)], math.prod(last.shape[-max(len(axes), 1) :]))
    low = np.zeros_like(high)
    while high.shape[-1] > 1:
        if high.shape[-1] % 2:
            high, low = (np.concatenate([k, np.zeros_like(k[..., :1])], -1) for k in (high, low))
        a = high[..., ::2]
        b = high[..., 1::2]
        y = a + b
        high = y
        low = low[..., ::2] + low[..., 1::2] + _two_sum_rest(a, b, y)
    compensated = (high + low).reshape(np.shape(total)) if high.shape[-1] else total
    return np.where(np.isfinite(compensated), compensated, total)


def _run_node_wide(index: RunIndex, row: Row, wide: Sequence[Any]) -> Any:
    """Compute a node in a run in wider types; in the own dtype where its op does not support wider ones."""
    y = index.values[row.node]
    if not row.sources or is_user_code(row.op):
        return _widen_dtype(y)
    xs = [wide[source] for source in row.sources]
    y_wide = _compute_wide(row.op, xs, y)
    if y_wide is None:
        own = index.input_values(row.node)
        narrow = [np.asarray(x).astype(np.asarray(same).dtype)[()] for x, same in zip(xs, own, strict=True)]
        y_wide = _try_compute(row.op, narrow, y)
    return _widen_dtype(y if y_wide is None else y_wide)


def _run_nudged(measured: MeasuredRounding, sign: float) -> list[Any]:
    """Run in wider types with every rounded value moved by one step, in alternating directions."""
    wide: list[Any] = []
    for row in measured.index.rows:
        y = _run_node_wide(measured.index, row, wide)
        curved = row.op.pattern in (Pattern.SCALE, Pattern.SWAP) and np.asarray(y).dtype in WIDER_DTYPES.values()
        if curved and (row.node in measured.local or _is_flat(measured.index, row)):
            sign = -sign
            y = y * (1.0 + sign * np.finfo(y.dtype).eps)
        wide.append(y)
    return wide


def _is_flat(index: RunIndex, row: Row) -> bool:
    """Return whether an op is so flat at its inputs that its value looks exact but is not, as cos(1e-12) = 1."""
    if not isinstance(row.op, Elementwise):
        return False
    xs = index.input_values(row.node)
    y = index.values[row.node]
    slopes = [fill_absent(index.local_derivative((row.node, slot))) for slot in range(len(xs))]
    moves = [np.abs(slope * x) >= 1e-3 * np.abs(y) for slope, x in zip(slopes, xs, strict=True)]
    return not np.all(np.logical_or.reduce(np.broadcast_arrays(*moves)))


def _compute_wide(op: Op, xs: Sequence[Any], y: ArrayLike) -> Any:
    """Compute an op on wider inputs; None if the result is no wider than before."""
    if "dtype" in op.options:
        dtype = np.dtype(op.options["dtype"])
        op = (
            op.bind_once(**{**op.options, "dtype": np.result_type(WIDER_DTYPES.get(dtype, dtype), *xs)})
            if _is_inexact(y)
            else op
        )
    y_wide = None if is_user_code(op) else _try_compute(op, xs, y)
    if y_wide is None or not _is_inexact(y) or not _is_inexact(y_wide):
        return y_wide
    return y_wide if np.finfo(np.asarray(y_wide).dtype).nmant > np.finfo(np.asarray(y).dtype).nmant else None


def _try_compute(op: Op, xs: Sequence[Any], y: ArrayLike) -> Any:
    try:
        result = op.compute(*xs)
    except _COMPUTE_ERRORS:
        # NumPy's linear algebra does not support long double, and an index that moved may be out of range.
        return None
    return result if np.shape(result) == np.shape(y) else None


def _guess_error(op: Op, xs: Sequence[Any], y: ArrayLike) -> Any:
    """Estimate a rounding error that cannot be measured; for a decomposition, by scaling its error in float32."""
    typical = typical_rounding(y) * (max(1.0, op.ulps / 4.0) if isinstance(op, Elementwise) else 1.0)
    if isinstance(op, Elementwise) or is_user_code(op) or np.asarray(y).dtype != np.float64:
        return typical
    halves = [np.asarray(x, np.float32) if np.asarray(x).dtype == np.float64 else x for x in xs]
    narrow = _try_compute(op, halves, y)
    ratio = float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)
    off = typical if narrow is None else np.abs(_error_against(y, narrow)) * ratio
    return np.where(np.isfinite(off), np.maximum(off, typical), typical)


def is_user_code(op: Op) -> bool:
    """Return whether an op is user code, which is never run again without being asked."""
    return op.per_call or (isinstance(op, Elementwise) and op.opaque)


def _is_only_double(op: Op, y: ArrayLike) -> bool:
    """Return whether an op computes in double even for long double inputs, as the standard library's functions do."""
    beyond = np.asarray(y).dtype == np.float64 and isinstance(op, Elementwise) and op.pattern is Pattern.SCALE
    return beyond and not is_user_code(op) and _ignores_digits(op)


@lru_cache(maxsize=512)
def _ignores_digits(op: Elementwise) -> bool:
    """Return whether, in long double, a step too small for a double fails to move the op as its slope predicts."""
    wide = np.longdouble
    for point in op.sample_points:
        xs = [wide(x) if type(x) is float else x for x in point]
        for slot, rule in enumerate(op.partials):
            h = wide(abs(point[slot])) * wide(2.0) ** -57
            if rule is None or not h:
                continue
            moved = [x + h if k == slot else x for k, x in enumerate(xs)]
            y = op.compute(*xs)
            slope = fill_absent(op.local(slot, [np.float64(x) for x in point], np.float64(y), 0))
            deviation = abs(op.compute(*moved) - y - slope * h)
            if abs(slope * point[slot]) > abs(y) / 4 and deviation > abs(slope * h) / 2:
                return True
    return False


def _error_against(y: ArrayLike, exact: ArrayLike) -> Any:
    """Return computed minus exact; inf where one of them is NaN."""
    same = (y == exact) | (np.isnan(y) & np.isnan(exact)) if _is_inexact(y) else np.equal(y, exact)
    kind = np.complex128 if np.iscomplexobj(y) else np.float64
    error = np.where(same, 0.0, np.subtract(y, exact, dtype=np.result_type(y, exact, np.float32))).astype(kind)
    return np.where(np.isnan(error), np.inf, error)[()]


def _widen_dtype(x: Any) -> Any:
    array = np.asarray(x)
    return array.astype(WIDER_DTYPES[array.dtype])[()] if array.dtype in WIDER_DTYPES else x


def wider_step_ratio(dtype: np.dtype[Any]) -> float:
    """Return the spacing of the wider dtype relative to that of the dtype itself."""
    wide = WIDER_DTYPES.get(dtype)
    return 1.0 if wide is None else float(np.finfo(wide).eps / np.finfo(dtype).eps)


def _is_inexact(x: ArrayLike) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def typical_rounding(y: ArrayLike) -> NDArray[Any]:
    """Return the typical rounding error: the standard deviation of a uniform error of up to half a step."""
    step = np.spacing(np.abs(y)).astype(np.float64) / math.sqrt(12.0)
    return np.where(np.isfinite(step), step, 0.0)


def _has_few_digits(y: ArrayLike) -> bool:
    """Return whether a constant has few significant digits, so that writing it down did not round it."""
    mantissa = np.frexp(np.abs(np.asarray(y)))[0] * 2.0**20
    return bool(np.all((mantissa == np.rint(mantissa)) | ~np.isfinite(mantissa)))


MAX_SWEPT_NODES = 200_000
"""Maximum number of nodes visited in total for gradients that were not requested by name."""
MAX_NODES_UNASKED = 10_000
"""In a circuit with more nodes, only gradients that were requested by name are estimated."""
SECOND_ORDER_MARGIN = 1.05
"""How far an error may exceed the first-order bound, as a factor, before it counts as unexplained."""
MAX_CULPRITS = 3
"""Maximum number of nodes that an answer names."""


@dataclass(frozen=True, slots=True)
class RoundingCulprit:
    """A node whose own rounding moved the result: by how much, and its share of the total."""

    node: str
    op: str
    text: str
    place: Place | None
    error: float
    share: float

    def __str__(self) -> str:
        return f"{self.text}{format_place(self.place)} causes {self.share:.0%} of it"


@dataclass(frozen=True, slots=True)
class RoundingCancellation:
    """A sum or difference whose operands agree in their leading digits, so that their errors dominate the result."""

    node: str
    op: str
    operands: tuple[str, str]
    place: Place | None
    digits: float

    def __str__(self) -> str:
        one, two = self.operands
        count = count_with_noun(round(self.digits), "digit")
        return f"{self.op} {self.node}{format_place(self.place)} loses {count}: {one} and {two} agree that far"


@dataclass(frozen=True, repr=False)
class RoundingEstimate(Report):
    """The rounding error of one result.

    For a real number `error` is computed minus exact. For an array or a complex number it is the norm of `errors`, and
    a node's share is what it adds in that direction.
    """

    name: str
    value: Any
    error: float
    errors: Any
    expected: float
    """The typical error of independent roundings of this size; `error` is smaller only by luck."""
    bound: float
    """The worst case of these roundings, to first order; meaningless if some of them were guessed."""
    by_op: Mapping[str, float]
    """Share of each op, largest first."""
    worst: tuple[RoundingCulprit, ...]
    """The nodes that moved the result most."""
    cancellations: tuple[RoundingCancellation, ...]
    precision: float
    """Number of decimal digits of the dtype."""
    explained: bool = True
    """Whether slopes and measured roundings account for the error; if not, `expected` and `bound` do not apply."""
    guessed: tuple[str, ...] = ()
    """The nodes that affect the result and whose rounding could only be guessed."""
    own: tuple[str, ...] = ()
    """The nodes of user code on which the result depends: their rounding is not measured."""
    own_text: tuple[str, ...] = ()
    """These nodes as expressions with their source locations."""

    @property
    def relative(self) -> float:
        """The error as a fraction of the value."""
        return _safe_ratio(abs(self.error), euclidean_norm(self.value))

    @property
    def digits(self) -> float:
        """How many decimal digits can be trusted, not counting luck; NaN if unknown."""
        if self.own:
            return math.nan
        off = _safe_ratio(max(abs(self.error), self.expected), euclidean_norm(self.value))
        if math.isnan(off) or not np.all(np.isfinite(self.value)):
            return 0.0
        return min(max(-math.log10(off), 0.0), self.precision) if off else self.precision

    def lines(self) -> Iterator[str]:
        """Return the error, the typical error, and the nodes that caused it."""
        shape = np.shape(self.value)
        start = f"{self.name} = {f'array of shape {shape}' if shape else format_brief_number(self.value)}"
        if not np.all(np.isfinite(self.value)):
            what = f", array of shape {shape}, is not finite" if shape else f" is {format_brief_number(self.value)}"
            yield f"{self.name}{what}: no digits; ask run.blame()"
        elif self.own:
            yield f"{start}: how many digits can be trusted is not known"
            yield from format_capped_list(
                [f"{text} is your own code; its rounding was not measured" for text in self.own_text], 5
            )
        elif not self.error and not self.expected:
            yield f"{start} is exact: nothing was rounded on the way"
        else:
            yield from self._measured_lines(start)

    def _measured_lines(self, start: str) -> Iterator[str]:
        relative = format_brief_number(self.relative, 1)
        yield (
            f"{start} is off by {format_brief_number(abs(self.error), 2)} (relative {relative}): "
            f"{abs(self.digits):.1f} of {self.precision:.1f} digits can be trusted"
        )
        if self.explained and not self.guessed:
            usual, most = (format_brief_number(size, 2) for size in (self.expected, self.bound))
            yield f"  roundings like these usually give {usual}, at most {most}"
        yield from (f"  {culprit}" for culprit in self.worst[:MAX_CULPRITS] if culprit.share >= 0.05)
        yield from (f"  {cancellation}" for cancellation in self.cancellations[:MAX_CULPRITS])


@dataclass(frozen=True, repr=False)
class Rounding(Report):
    """What rounding did to the output of a run and to the gradients of its inputs."""

    output: RoundingEstimate
    gradients: Mapping[str, RoundingEstimate]
    left_out: tuple[str, ...] = ()
    """Inputs whose gradients were not estimated."""
    reason: str = ""
    """Why they were not estimated."""

    @property
    def by_op(self) -> Mapping[str, float]:
        """Share of each op in the error of the output."""
        return self.output.by_op

    @property
    def worst(self) -> tuple[RoundingCulprit, ...]:
        """The nodes that moved the output most."""
        return self.output.worst

    def lines(self) -> Iterator[str]:
        """Return the estimates of the output and of each gradient."""
        yield from self.output.lines()
        for estimate in self.gradients.values():
            yield from estimate.lines()
        if self.left_out:
            yield f"not estimated: the gradients of {join_first_names(self.left_out)}, {self.reason}"


def rounding(run: RunRecord, names: Sequence[str] | None = None) -> Rounding:
    """Estimate the rounding error of the output and of the gradients of these inputs (by default all).

    >>> import wiregrad as wg
    >>> print(rounding(wg.circuit("a = 1 + x; f = a - 1").run(x=1e-9), ["x"]))
    f = 1e-9 is off by 8.3e-17 (relative 8e-8): 7.1 of 15.7 digits can be trusted
      roundings like these usually give 8.3e-17, at most 1.1e-16
      a = 1.0 + x (formula:1:5) causes 100% of it
      subtract f (formula:1:16) loses 9 digits: a and 1.0 agree that far
    gradient of x = 1 is exact: nothing was rounded on the way
    """
    inputs = _requested_inputs(run.circuit, names)
    with np.errstate(all="ignore"):
        index = RunIndex(run)
        output = _estimate_result(
            run.circuit.output, run.values[index.root], measure_rounding(index), index.root, run.flows
        )
        gradients, reason = _estimate_gradients(run, inputs, len(inputs) if names is not None else None)
    left_out = tuple(name for name in inputs if name not in gradients)
    return Rounding(output, gradients, left_out, reason if left_out else "")


def _requested_inputs(circuit: CircuitGraph, names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        inputs = circuit.input_indices()
        return tuple(circuit.reference_to(node) for node in inputs if circuit.type_of(node).differentiable)
    if not isinstance(names, str | Sequence):
        raise InputError(f"names must be a list of input names, as in rounding(run, ['x']); got {short_repr(names)}")
    requested = (names,) if isinstance(names, str) else tuple(names)
    check_input_names(dict.fromkeys(requested), circuit.inputs)
    return requested


def _estimate_gradients(
    run: RunRecord, wanted: Sequence[str], requested_count: int | None
) -> tuple[dict[str, RoundingEstimate], str]:
    """Return the estimate of each gradient, and the reason if some are missing."""
    if not wanted:
        return {}, ""
    circuit = run.circuit
    saved = f"to save time: ask for them by name, rounding(run, ['{wanted[-1]}'])"
    if requested_count is None and circuit.size > MAX_NODES_UNASKED:
        return {}, saved
    try:
        backward = backward_circuit(circuit)
    except WiregradError as error:
        return {}, f"whose circuit cannot be built: {error}"
    values = evaluate_nodes(backward, [run.values[node] for node in circuit.input_indices()])
    measured = measure_rounding(
        RunIndex.from_values(backward, values), frozenset(map(constant_identity, circuit.columns.constants))
    )
    most = requested_count or max(1, MAX_SWEPT_NODES // backward.size)
    nodes = dict(zip(circuit.inputs, backward.columns.outputs.tolist(), strict=True))
    estimates = {name: _estimate_gradient(run, name, measured, nodes[name]) for name in wanted[:most]}
    return estimates, saved


def _estimate_gradient(run: RunRecord, name: str, measured: MeasuredRounding, node: int) -> RoundingEstimate:
    value = run.gradient(run.circuit.index(name))
    flows = _sweep_flows(measured, node, _error_direction(measured, node, value))
    usual = None
    if np.ndim(value):
        # Along random signs, unlike along the direction of one error, independent errors add up to their norm.
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=np.shape(value))
        usual = _sweep_flows(measured, node, signs.astype(np.asarray(measured.index.values[node]).dtype))
    return _estimate_result(f"gradient of {name}", value, measured, node, flows, usual)


def _sweep_flows(measured: MeasuredRounding, node: int, seed: ArrayLike) -> Sequence[Any]:
    try:
        return sweep_backward(measured.index.circuit, measured.index.values, {node: seed}, SilentWatcher())
    except WiregradError:
        # An op has no second derivative: only the run in wider types gives the error, without shares by node.
        return [None] * measured.index.circuit.size


def _error_direction(measured: MeasuredRounding, node: int, value: ArrayLike) -> Any:
    """Return the direction along which a gradient's error is measured: 1 for a number, else that of the error."""
    dtype = np.asarray(measured.index.values[node]).dtype
    shape = np.shape(measured.index.values[node])
    if not shape and dtype.kind != "c":
        return dtype.type(1)
    for candidate in (measured.total_error(node, value), value, np.ones(shape)):
        length = euclidean_norm(candidate)
        if length and math.isfinite(length):
            break
    return np.broadcast_to(np.asarray(candidate) / (length or 1.0), shape).astype(dtype)[()]


class _RoundingSums(NamedTuple):
    """The roundings of all nodes, summed in four ways."""

    signed: float
    doubt: float
    usual: float
    most: float


def _estimate_result(
    name: str,
    value: ArrayLike,
    measured: MeasuredRounding,
    node: int,
    flows: Sequence[Any],
    probe: Sequence[Any] | None = None,
) -> RoundingEstimate:
    parts = _rounding_parts(measured, flows)
    sums = _sum_parts(parts)
    expected = sums.usual if probe is None else _sum_parts(_rounding_parts(measured, probe)).usual
    total = measured.total_error(node, value)
    error = _choose_error(sums, total, np.asarray(measured.index.values[node]).dtype)
    if not error and not sums.usual and not np.any(value):
        error = measured.unresolved_error(node)
    shares = _rank_shares(parts)
    bound = max(sums.most, expected)
    own = measured.user_code_nodes(node)
    circuit = measured.index.circuit
    return RoundingEstimate(
        name=name,
        value=to_python_number(value),
        error=error,
        errors=to_python_number(total),
        expected=expected,
        bound=max(bound, abs(error)),
        by_op=_share_by_op(circuit, shares),
        worst=tuple(_make_culprit(circuit, *share) for share in shares[:10]),
        cancellations=_find_cancellations(measured, flows, abs(error)),
        precision=_decimal_precision(value),
        explained=abs(error) <= SECOND_ORDER_MARGIN * bound,
        guessed=tuple(circuit.reference_to(k) for k, _ in parts if measured.local[k].guessed),
        own=tuple(map(circuit.reference_to, own)),
        own_text=tuple(describe_node(circuit, k) + format_node_place(circuit, k) for k in own),
    )


def _share_by_op(circuit: CircuitGraph, shares: Sequence[tuple[int, float, float]]) -> dict[str, float]:
    shares_by_op: dict[str, float] = {}
    for node, share, _ in shares:
        op = circuit.op_of(node).name
        shares_by_op[op] = shares_by_op.get(op, 0.0) + share
    return dict(sorted(shares_by_op.items(), key=lambda entry: -entry[1]))


def _rounding_parts(measured: MeasuredRounding, flows: Sequence[Any]) -> list[tuple[int, _RoundingSums]]:
    return [part for at, local in measured.local.items() if (part := _rounding_part(measured, at, local, flows[at]))]


def _sum_parts(parts: Sequence[tuple[int, _RoundingSums]]) -> _RoundingSums:
    return _RoundingSums(
        _nan_to_inf(sum([part.signed for _, part in parts], 0.0)),
        math.hypot(*(part.doubt for _, part in parts)),
        math.hypot(*(part.usual for _, part in parts)),
        _nan_to_inf(sum([part.most for _, part in parts], 0.0)),
    )


def _rounding_part(
    measured: MeasuredRounding, node: int, local: NodeRounding, flow: GradientFlow
) -> tuple[int, _RoundingSums] | None:
    """Return the effect of the rounding of one node on the result; None if there is none."""
    slope = np.conjugate(np.asarray(fill_absent(flow)).astype(np.complex128))
    if not slope.any():
        return None
    steep = np.abs(slope)
    step = typical_rounding(measured.index.values[node])
    size = np.maximum(np.abs(local.error), local.doubt)
    floors = np.maximum(step, local.usual), np.maximum(step * math.sqrt(3.0), local.most)
    usual, most = (_multiply_errors(steep, np.where(size > 0, np.maximum(size, floor), 0.0)) for floor in floors)
    return node, _RoundingSums(
        _nan_to_inf(float(np.sum(_multiply_errors(slope, local.error).real))),
        euclidean_norm(_multiply_errors(steep, local.doubt)),
        euclidean_norm(usual),
        _nan_to_inf(float(np.sum(most))),
    )


def _multiply_errors(slope: NDArray[Any], error: ArrayLike) -> NDArray[Any]:
    """Return a product in which 0 times anything is 0 and NaN becomes inf."""
    product = np.where((slope == 0) | (error == 0), 0.0, slope * error)
    return np.where(np.isnan(product), np.inf, product)


def _choose_error(sums: _RoundingSums, total: ArrayLike, dtype: np.dtype[Any]) -> float:
    """Return the error: from the run in wider types if that can resolve it, else from the slopes; guesses are added."""
    wider = float(np.asarray(total)) if np.ndim(total) == 0 and not np.iscomplexobj(total) else euclidean_norm(total)
    fine = wider_step_ratio(dtype)
    resolved = math.isinf(sums.most) or (fine < 1.0 and abs(wider) > 8.0 * fine * sums.most)
    best = wider if resolved or math.isinf(sums.signed) else sums.signed
    return math.copysign(math.hypot(best, sums.doubt), best)


def _rank_shares(parts: Sequence[tuple[int, _RoundingSums]]) -> list[tuple[int, float, float]]:
    """Return (node, share, signed error) of the nodes that moved the result, largest share first."""
    sizes = [max(abs(part.signed), part.doubt) for _, part in parts]
    infinite = math.isinf(sum(sizes))
    weights = [float(math.isinf(size)) if infinite else size for size in sizes]
    total = sum(weights) or 1.0
    shares = [
        (node, weight / total, part.signed or part.doubt)
        for (node, part), weight in zip(parts, weights, strict=True)
        if weight
    ]
    return sorted(shares, key=lambda share: -share[1])


def _make_culprit(circuit: CircuitGraph, node: int, share: float, error: float) -> RoundingCulprit:
    view = Node(circuit, node)
    text = describe_node(circuit, node) if circuit.sources_of(node) else f"constant {format_operand(circuit, node)}"
    return RoundingCulprit(view.reference, view.op.name, text, view.place, error, share)


def _find_cancellations(
    measured: MeasuredRounding, flows: Sequence[Any], error: float
) -> tuple[RoundingCancellation, ...]:
    """Return the sums and differences that pass on most of the error and whose operands nearly cancel."""
    cancellations = []
    for row in measured.index.rows:
        if is_sum_of_two(row.op) and flows[row.node] is not None and error:
            lost = _lost_digits(measured, row, flows[row.node], error)
            if lost >= 1.5:
                view = Node(measured.index.circuit, row.node)
                one, two = (format_operand(measured.index.circuit, k) for k in row.sources)
                cancellations.append(RoundingCancellation(view.reference, view.op.name, (one, two), view.place, lost))
    return tuple(sorted(cancellations, key=lambda cancellation: -cancellation.digits))


def _lost_digits(measured: MeasuredRounding, row: Row, flow: GradientFlow, error: float) -> float:
    """Return how many digits a sum of two numbers loses, if it passes on much of the error; else 0."""
    moved = np.abs(_multiply_errors(np.asarray(fill_absent(flow)), measured.total_error(row.node)))
    if not moved.size or not np.sum(moved) >= error / 2:
        return 0.0
    k = int(np.argmax(moved))
    behind = [np.ravel(np.abs(measured.total_error(source)))[k] for source in row.sources]
    y, a, b = (abs(complex(np.ravel(measured.index.values[node])[k])) for node in (row.node, *row.sources))
    if not max(behind) or not all(map(math.isfinite, (y, a, b))):
        return 0.0
    most = _decimal_precision(measured.index.values[row.node])
    return min(math.log10(max(a, b) / y), most) if y and max(a, b) else most


def _decimal_precision(value: ArrayLike) -> float:
    dtype = np.asarray(value).dtype
    return -math.log10(float(np.finfo(dtype if dtype.kind in "fc" else np.float64).eps))


def _safe_ratio(one: float, two: float) -> float:
    if not one:
        return 0.0
    return one / two if two else math.inf


def _nan_to_inf(value: float) -> float:
    return math.inf if math.isnan(value) else value
