"""The rounding error of each node: every op computed once more, in a wider type, from the same rounded inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends.run import constant_identity, euclidean_norm, largest_magnitude
from wiregrad.errors import WiregradError
from wiregrad.inspect.run_index import Numbers, RunIndex
from wiregrad.ir import CONSTANT, Op, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, Linear
from wiregrad.ops.gradient_flow import fill_absent

WIDER_DTYPES: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in (
        (np.float32, np.float64),
        (np.float64, np.longdouble),
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
    return _sum_roundings(op, xs, y) if isinstance(op, Linear) else _product_roundings(op, xs, y, wide)


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
