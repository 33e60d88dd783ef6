"""The rounding error of each node: every op computed once more, in a wider type, from the same rounded inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends.magnitude import bits, largest, norm
from wiregrad.errors import WiregradError
from wiregrad.ir import CONSTANT, Circuit, Op, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array import ArrayOp, Linear
from wiregrad.ops.flow import settle

WIDER: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in ((np.float32, np.float64), (np.float64, np.longdouble), (np.complex128, np.clongdouble))
}
"""The wider dtype in which roundings are measured; where long double is no wider, they are guessed."""
_REFUSALS = (WiregradError, TypeError, ValueError, IndexError, ArithmeticError)


class Local(NamedTuple):
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
class Measured:
    """The rounding error of each node of a circuit, and the values of a run in wider types."""

    circuit: Circuit
    values: Sequence[Any]
    local: Mapping[int, Local]
    wide: Sequence[Any]

    def total(self, node: int, value: Any = None) -> Any:
        """Return the error of a node's value against the run in wider types."""
        return _off(self.values[node] if value is None else value, self.wide[node])

    def own_code(self, node: int) -> list[int]:
        """Return the nodes of user code on which a node depends, with or without a gradient."""
        if not any(is_foreign(row.op) for row in self.circuit.rows()):
            return []
        behind = {node}
        nodes = []
        for row in self.circuit.rows(backward=True):
            if row.node in behind:
                behind.update(row.sources)
                nodes += [row.node] if is_foreign(row.op) else []
        return nodes[::-1]

    def unseen(self, node: int) -> float:
        """Return how far a node that is 0 moves under roundings too small for the wider types.

        A square may be 0, with slope 0, only because all digits of its input were lost.
        """
        moved = [norm(_off(wide[node], self.wide[node])) for wide in self._nudged]
        return max(filter(math.isfinite, moved), default=0.0)

    @cached_property
    def _nudged(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return _nudge(self, 1.0), _nudge(self, -1.0)


def measure(circuit: Circuit, values: Sequence[Any], known_constants: frozenset[Any] | None = None) -> Measured:
    """Measure every node; a constant that is not among the known ones comes from a rule, where it was rounded."""
    local: dict[int, Local] = {}
    wide: list[Any] = []
    for row in circuit.rows():
        y = values[row.node]
        wide.append(_run_wide(row, wide, values))
        if np.asarray(y).dtype not in WIDER:
            continue
        if row.sources:
            rounding = _rounded(row, [values[source] for source in row.sources], y)
        else:
            rule = row.op is CONSTANT and known_constants is not None and bits(y) not in known_constants
            rounding = Local(0.0, spread(y) if rule and not _is_short(y) else 0.0, guessed=True)
        if np.any(rounding.error) or np.any(rounding.doubt):
            local[row.node] = rounding
    return Measured(circuit, values, local, wide)


def _rounded(row: Row, xs: Sequence[Any], y: Any) -> Local:
    """Return the rounding error of one node: computed minus the exact result for the same inputs."""
    wide = None if _is_narrow(row.op, y) else _computed_wide(row.op, [_widen(x) for x in xs], y)
    if adds_two(row.op):
        return Local(_error_of_two(row, xs, y, wide))
    if row.op.name == "sum" and wide is not None:
        wide = _sum_of_many(_widen(xs[0]), wide, row.op.options["axes"])
    if wide is None:
        return Local(0.0, _guess(row.op, xs, y), guessed=True)
    error = _off(y, wide)
    # NumPy's spacing is NaN for some long doubles, so the step of the wider type is derived from the narrower one.
    doubt = np.where(error == 0, 0.0, spread(y) * fineness(np.asarray(y).dtype))
    return Local(error, doubt, *_of_many(row.op, xs, y, wide))


def _of_many(op: Op, xs: Sequence[Any], y: Any, wide: Any) -> tuple[Any, Any]:
    """Return the typical and the largest error of a node that adds or multiplies many numbers."""
    if not isinstance(op, ArrayOp) or not _floats(y) or not np.size(y):
        return 0.0, 0.0
    return _of_sum(op, xs, y) if isinstance(op, Linear) else _of_product(op, xs, y, wide)


def _of_sum(op: Op, xs: Sequence[Any], y: Any) -> tuple[Any, Any]:
    """Return the roundings of a sum; applied to ones, an op that only adds counts its terms.

    Where NumPy adds pairwise, every number is rounded log2(n) times; where it adds in sequence, as it does for running
    sums and along all axes but the last, n / 2 times on average.
    """
    terms = _compute(op, [np.ones_like(x) if _floats(x) else x for x in xs], y)
    if terms is None or not np.any(np.abs(terms) > 1.0):
        return 0.0, 0.0
    running = len(xs) == 1 and np.size(y) == np.size(xs[0])
    in_turn = running or -1 not in op.options.get("axes", (-1,))
    levels = np.abs(terms) / 2.0 * (np.abs(terms) > 1.0) if in_turn else np.log2(np.maximum(np.abs(terms), 1.0))
    sizes = [largest(x) or 1.0 if _floats(x) else 1.0 for x in xs]
    shares = [np.abs(x) / size if _floats(x) else x for x, size in zip(xs, sizes, strict=True)]
    sums, squares = (_compute(op, [x**k if _floats(x) else x for x in shares], y) for k in (1, 2))
    if sums is None or squares is None:
        return 0.0, 0.0
    eps = float(np.finfo(np.asarray(y).dtype).eps)
    scale = math.prod(sizes)
    usual = np.maximum(np.abs(y), np.sqrt(levels * np.abs(squares)) * scale) * eps / math.sqrt(12.0)
    most = (1.0 + levels) * np.abs(sums) * scale * eps / 2.0
    usable = (levels > 0) & np.isfinite(usual) & np.isfinite(most)
    return np.where(usable, usual, 0.0), np.where(usable, most, 0.0)


def _of_product(op: Op, xs: Sequence[Any], y: Any, wide: Any) -> tuple[Any, Any]:
    """Return the roundings of a product: scaling n factors shows n as the exponent, and n products round n times."""
    h = 2.0**-20
    moved = _compute(op, [_widen(x) * (1.0 + h) if _floats(x) else x for x in xs], y)
    if moved is None or not _floats(moved):
        return 0.0, 0.0
    count = np.log(np.abs(moved / wide)).astype(np.float64) / math.log1p(h)
    many = np.isfinite(count) & (count > 2.5) & (np.abs(count - np.rint(count)) < 1e-3)
    count = np.where(many, count, 0.0)
    return np.sqrt(count) * spread(y), count * math.sqrt(3.0) * spread(y)


def adds_two(op: Op) -> bool:
    """Return whether an op is a sum or difference of two numbers."""
    return isinstance(op, Elementwise) and op.pattern is Pattern.DISTRIBUTE and len(op.inputs) == 2


def _error_of_two(row: Row, xs: Sequence[Any], y: Any, wide: Any) -> Any:
    """Return the exact rounding error of a + b or a - b: even a wider type may lose the smaller operand entirely."""
    signs = [row.op.local(slot, xs, y, row.mode) for slot in range(2)]
    a, b = (np.multiply(x, sign, dtype=np.asarray(y).dtype) for x, sign in zip(xs, signs, strict=True))
    rest = _two_sum_rest(a, b, y)
    other = np.zeros(np.shape(y)) if wide is None else _off(y, wide)
    return np.where(np.isfinite(rest), -rest, other)


def _two_sum_rest(a: Any, b: Any, y: Any) -> Any:
    """Return the exact remainder of a + b after rounding to y (Knuth's TwoSum)."""
    back = y - a
    return (a - (y - back)) + (b - back)


def _sum_of_many(x: Any, total: Any, axes: tuple[int, ...]) -> Any:
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


def _run_wide(row: Row, wide: Sequence[Any], values: Sequence[Any]) -> Any:
    """Compute a node in a run in wider types; in the own dtype where its op does not support wider ones."""
    y = values[row.node]
    if not row.sources or is_foreign(row.op):
        return _widen(y)
    xs = [wide[source] for source in row.sources]
    y_wide = _computed_wide(row.op, xs, y)
    if y_wide is None:
        narrow = [np.asarray(x).astype(np.asarray(values[s]).dtype)[()] for x, s in zip(xs, row.sources, strict=True)]
        y_wide = _compute(row.op, narrow, y)
    return _widen(y if y_wide is None else y_wide)


def _nudge(measured: Measured, sign: float) -> list[Any]:
    """Run in wider types with every rounded value moved by one step, in alternating directions."""
    wide: list[Any] = []
    for row in measured.circuit.rows():
        y = _run_wide(row, wide, measured.values)
        curved = row.op.pattern in (Pattern.SCALE, Pattern.SWAP) and np.asarray(y).dtype in WIDER.values()
        if curved and (row.node in measured.local or _is_flat(row, measured.values)):
            sign = -sign
            y = y * (1.0 + sign * np.finfo(y.dtype).eps)
        wide.append(y)
    return wide


def _is_flat(row: Row, values: Sequence[Any]) -> bool:
    """Return whether an op is so flat at its inputs that its value looks exact but is not, as cos(1e-12) = 1."""
    if not isinstance(row.op, Elementwise):
        return False
    xs = [values[source] for source in row.sources]
    y = values[row.node]
    slopes = [settle(row.op.local(slot, xs, y, row.mode)) for slot in range(len(xs))]
    moves = [np.abs(slope * x) >= 1e-3 * np.abs(y) for slope, x in zip(slopes, xs, strict=True)]
    return not np.all(np.logical_or.reduce(np.broadcast_arrays(*moves)))


def _computed_wide(op: Op, xs: Sequence[Any], y: Any) -> Any:
    """Compute an op on wider inputs; None if the result is no wider than before."""
    if "dtype" in op.options:
        dtype = np.dtype(op.options["dtype"])
        op = op.once(**{**op.options, "dtype": np.result_type(WIDER.get(dtype, dtype), *xs)}) if _floats(y) else op
    y_wide = None if is_foreign(op) else _compute(op, xs, y)
    if y_wide is None or not _floats(y) or not _floats(y_wide):
        return y_wide
    return y_wide if np.finfo(np.asarray(y_wide).dtype).nmant > np.finfo(np.asarray(y).dtype).nmant else None


def _compute(op: Op, xs: Sequence[Any], y: Any) -> Any:
    try:
        result = op.compute(*xs)
    except _REFUSALS:
        # NumPy's linear algebra does not support long double, and an index that moved may be out of range.
        return None
    return result if np.shape(result) == np.shape(y) else None


def _guess(op: Op, xs: Sequence[Any], y: Any) -> Any:
    """Estimate a rounding error that cannot be measured; for a decomposition, by scaling its error in float32."""
    typical = spread(y) * (max(1.0, op.ulps / 4.0) if isinstance(op, Elementwise) else 1.0)
    if isinstance(op, Elementwise) or is_foreign(op) or np.asarray(y).dtype != np.float64:
        return typical
    halves = [np.asarray(x, np.float32) if np.asarray(x).dtype == np.float64 else x for x in xs]
    narrow = _compute(op, halves, y)
    ratio = float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)
    off = typical if narrow is None else np.abs(_off(y, narrow)) * ratio
    return np.where(np.isfinite(off), np.maximum(off, typical), typical)


def is_foreign(op: Op) -> bool:
    """Return whether an op is user code, which is never run again without being asked."""
    return op.per_call or (isinstance(op, Elementwise) and op.opaque)


def _is_narrow(op: Op, y: Any) -> bool:
    """Return whether an op computes in double even for long double inputs, as the standard library's functions do."""
    beyond = np.asarray(y).dtype == np.float64 and isinstance(op, Elementwise) and op.pattern is Pattern.SCALE
    return beyond and not is_foreign(op) and _ignores_digits(op)


@lru_cache(maxsize=512)
def _ignores_digits(op: Elementwise) -> bool:
    """Return whether, in long double, a step too small for a double fails to move the op as its slope predicts."""
    wide = np.longdouble
    for point in op.points:
        xs = [wide(x) if type(x) is float else x for x in point]
        for slot, rule in enumerate(op.partials):
            h = wide(abs(point[slot])) * wide(2.0) ** -57
            if rule is None or not h:
                continue
            moved = [x + h if k == slot else x for k, x in enumerate(xs)]
            y = op.compute(*xs)
            slope = settle(op.local(slot, [np.float64(x) for x in point], np.float64(y), 0))
            deviation = abs(op.compute(*moved) - y - slope * h)
            if abs(slope * point[slot]) > abs(y) / 4 and deviation > abs(slope * h) / 2:
                return True
    return False


def _off(y: Any, exact: Any) -> Any:
    """Return computed minus exact; inf where one of them is NaN."""
    same = (y == exact) | (np.isnan(y) & np.isnan(exact)) if _floats(y) else np.equal(y, exact)
    kind = np.complex128 if np.iscomplexobj(y) else np.float64
    error = np.where(same, 0.0, np.subtract(y, exact, dtype=np.result_type(y, exact, np.float32))).astype(kind)
    return np.where(np.isnan(error), np.inf, error)[()]


def _widen(x: Any) -> Any:
    array = np.asarray(x)
    return array.astype(WIDER[array.dtype])[()] if array.dtype in WIDER else x


def fineness(dtype: np.dtype[Any]) -> float:
    """Return the spacing of the wider dtype relative to that of the dtype itself."""
    wide = WIDER.get(dtype)
    return 1.0 if wide is None else float(np.finfo(wide).eps / np.finfo(dtype).eps)


def _floats(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def spread(y: Any) -> Any:
    """Return the typical rounding error: the standard deviation of a uniform error of up to half a step."""
    step = np.spacing(np.abs(y)).astype(np.float64) / math.sqrt(12.0)
    return np.where(np.isfinite(step), step, 0.0)


def _is_short(y: Any) -> bool:
    """Return whether a constant has few significant digits, so that writing it down did not round it."""
    mantissa = np.frexp(np.abs(np.asarray(y)))[0] * 2.0**20
    return bool(np.all((mantissa == np.rint(mantissa)) | ~np.isfinite(mantissa)))
