"""What each node of a run rounded away: every op computed once more, in a wider type, from the same rounded inputs."""

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
"""The type in which the roundings of each type are measured; where long double is no wider, they are guessed."""
_REFUSALS = (WiregradError, TypeError, ValueError, IndexError, ArithmeticError)


class Local(NamedTuple):
    """The rounding error of one node alone, and how far off that may be: all of it where nobody could measure it.

    A node that adds or multiplies many numbers rounds many times, so the error it made may be small by luck: `usual`
    and `most` are what so many roundings give.
    """

    error: Any
    doubt: Any = 0.0
    usual: Any = 0.0
    most: Any = 0.0
    guessed: bool = False


@dataclass(frozen=True)
class Measured:
    """What rounding did at each node of a circuit, and what a run in wider types makes of the whole."""

    circuit: Circuit
    values: Sequence[Any]
    local: Mapping[int, Local]
    wide: Sequence[Any]

    def total(self, node: int, value: Any = None) -> Any:
        """Return how far a node's value is from that of the wider run."""
        return _off(self.values[node] if value is None else value, self.wide[node])

    def own_code(self, node: int) -> list[int]:
        """Return the nodes of users' own code on which a node depends, by gradient or not."""
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
        """Return how far a node that is 0 moves with roundings too small for the wider types.

        A square may be 0, with slope 0, only because all digits of its input were lost.
        """
        moved = [norm(_off(wide[node], self.wide[node])) for wide in self._nudged]
        return max(filter(math.isfinite, moved), default=0.0)

    @cached_property
    def _nudged(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return _nudge(self, 1.0), _nudge(self, -1.0)


def measure(circuit: Circuit, values: Sequence[Any], known_constants: frozenset[Any] | None = None) -> Measured:
    """Measure every node; constants that are not among the given ones were rounded when a rule was written."""
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
    """Return the rounding error of one node: computed minus what its op makes of the same inputs exactly."""
    wide = None if _is_narrow(row.op, y) else _computed_wide(row.op, [_widen(x) for x in xs], y)
    if adds_two(row.op):
        return Local(_error_of_two(row, xs, y, wide))
    if row.op.name == "sum" and wide is not None:
        wide = _sum_of_many(_widen(xs[0]), wide, row.op.options["axes"])
    if wide is None:
        return Local(0.0, _guess(row.op, xs, y), guessed=True)
    error = _off(y, wide)
    # NumPy's spacing of long doubles is NaN for some, so the steps of the wider type are worked out.
    doubt = np.where(error == 0, 0.0, spread(y) * fineness(np.asarray(y).dtype))
    return Local(error, doubt, *_of_many(row.op, xs, y, wide))


def _of_many(op: Op, xs: Sequence[Any], y: Any, wide: Any) -> tuple[Any, Any]:
    """Return what the roundings inside a node that adds or multiplies many numbers usually give, and at most."""
    if not isinstance(op, ArrayOp) or not _floats(y) or not np.size(y):
        return 0.0, 0.0
    return _of_sum(op, xs, y) if isinstance(op, Linear) else _of_product(op, xs, y, wide)


def _of_sum(op: Op, xs: Sequence[Any], y: Any) -> tuple[Any, Any]:
    """Return the roundings of sums; an op that only adds counts what it adds if it is given ones.

    Where NumPy adds halves, every number is rounded log2(n) times on its way; where it adds one after the other, as it
    does for running sums and along all axes but the last, n / 2 times.
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
    """Return the roundings of products: a product of n numbers grows n times as fast as they do, and rounds n times."""
    h = 2.0**-20
    moved = _compute(op, [_widen(x) * (1.0 + h) if _floats(x) else x for x in xs], y)
    if moved is None or not _floats(moved):
        return 0.0, 0.0
    count = np.log(np.abs(moved / wide)).astype(np.float64) / math.log1p(h)
    many = np.isfinite(count) & (count > 2.5) & (np.abs(count - np.rint(count)) < 1e-3)
    count = np.where(many, count, 0.0)
    return np.sqrt(count) * spread(y), count * math.sqrt(3.0) * spread(y)


def adds_two(op: Op) -> bool:
    """Return whether an op is a sum of two numbers, up to signs."""
    return isinstance(op, Elementwise) and op.pattern is Pattern.DISTRIBUTE and len(op.inputs) == 2


def _error_of_two(row: Row, xs: Sequence[Any], y: Any, wide: Any) -> Any:
    """Return the rounding error of a + b or a - b exactly: a wider type too may swallow the smaller one whole."""
    signs = [row.op.local(slot, xs, y, row.mode) for slot in range(2)]
    a, b = (np.multiply(x, sign, dtype=np.asarray(y).dtype) for x, sign in zip(xs, signs, strict=True))
    rest = _two_sum_rest(a, b, y)
    other = np.zeros(np.shape(y)) if wide is None else _off(y, wide)
    return np.where(np.isfinite(rest), -rest, other)


def _two_sum_rest(a: Any, b: Any, y: Any) -> Any:
    """Return what is left of a + b beside its rounded sum y (Knuth)."""
    back = y - a
    return (a - (y - back)) + (b - back)


def _sum_of_many(x: Any, total: Any, axes: tuple[int, ...]) -> Any:
    """Return a sum along axes with what each addition rounds off added at the end."""
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
    """Return what a node gives in a run in wider types; where its op cannot, as wide as it can."""
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
    """Return a run in wider types in which every rounded value is a step off, every other one the other way."""
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
    """Return whether an op is so flat at its inputs that its value may look exact and is not, as cos(1e-12) = 1."""
    if not isinstance(row.op, Elementwise):
        return False
    xs = [values[source] for source in row.sources]
    y = values[row.node]
    slopes = [settle(row.op.local(slot, xs, y, row.mode)) for slot in range(len(xs))]
    moves = [np.abs(slope * x) >= 1e-3 * np.abs(y) for slope, x in zip(slopes, xs, strict=True)]
    return not np.all(np.logical_or.reduce(np.broadcast_arrays(*moves)))


def _computed_wide(op: Op, xs: Sequence[Any], y: Any) -> Any:
    """Return what an op makes of wider inputs; None if that is no wider than what it made of the narrow ones."""
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
        # NumPy's linear algebra knows no long doubles, and an index that moved may lie outside.
        return None
    return result if np.shape(result) == np.shape(y) else None


def _guess(op: Op, xs: Sequence[Any], y: Any) -> Any:
    """Return about how large a rounding error is that cannot be measured.

    A decomposition shows how it treats roundings by what it makes of narrower ones.
    """
    typical = spread(y) * (max(1.0, op.ulps / 4.0) if isinstance(op, Elementwise) else 1.0)
    if isinstance(op, Elementwise) or is_foreign(op) or np.asarray(y).dtype != np.float64:
        return typical
    halves = [np.asarray(x, np.float32) if np.asarray(x).dtype == np.float64 else x for x in xs]
    narrow = _compute(op, halves, y)
    ratio = float(np.finfo(np.float64).eps / np.finfo(np.float32).eps)
    off = typical if narrow is None else np.abs(_off(y, narrow)) * ratio
    return np.where(np.isfinite(off), np.maximum(off, typical), typical)


def is_foreign(op: Op) -> bool:
    """Return whether an op is a user's own code, which is not run again behind the user's back."""
    return op.per_call or (isinstance(op, Elementwise) and op.opaque)


def _is_narrow(op: Op, y: Any) -> bool:
    """Return whether an op's long double is but a double in a wider coat, as with the standard library's functions."""
    beyond = np.asarray(y).dtype == np.float64 and isinstance(op, Elementwise) and op.pattern is Pattern.SCALE
    return beyond and not is_foreign(op) and _ignores_digits(op)


@lru_cache(maxsize=512)
def _ignores_digits(op: Elementwise) -> bool:
    """Return whether a move too small for a double fails to move the op in long double as its slope says."""
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
    """Return computed minus exact; inf where one of them is no number."""
    same = (y == exact) | (np.isnan(y) & np.isnan(exact)) if _floats(y) else np.equal(y, exact)
    kind = np.complex128 if np.iscomplexobj(y) else np.float64
    error = np.where(same, 0.0, np.subtract(y, exact, dtype=np.result_type(y, exact, np.float32))).astype(kind)
    return np.where(np.isnan(error), np.inf, error)[()]


def _widen(x: Any) -> Any:
    array = np.asarray(x)
    return array.astype(WIDER[array.dtype])[()] if array.dtype in WIDER else x


def fineness(dtype: np.dtype[Any]) -> float:
    """Return how large a step of the wider type is beside one of the type itself."""
    wide = WIDER.get(dtype)
    return 1.0 if wide is None else float(np.finfo(wide).eps / np.finfo(dtype).eps)


def _floats(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def spread(y: Any) -> Any:
    """Return the usual size of a rounding error: that of a number drawn evenly from half a step to either side."""
    step = np.spacing(np.abs(y)).astype(np.float64) / math.sqrt(12.0)
    return np.where(np.isfinite(step), step, 0.0)


def _is_short(y: Any) -> bool:
    """Return whether a constant needs few of its digits, so that it was hardly rounded when it was written down."""
    mantissa = np.frexp(np.abs(np.asarray(y)))[0] * 2.0**20
    return bool(np.all((mantissa == np.rint(mantissa)) | ~np.isfinite(mantissa)))
