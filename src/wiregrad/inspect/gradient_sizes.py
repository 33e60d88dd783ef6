"""How large numbers are, and how the size of a gradient changes from layer to layer.

A `Tally` counts zeros and non-finite numbers and measures the rest. No count or size overflows, underflows or warns,
whatever the numbers are. An array is read in blocks that fit the cache, so a tally costs little more than one pass
over memory.

A layer is compared with the largest and the smallest layer nearer to the output, not with the output itself: a
gradient that first rises and then fades has faded all the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.labels import format_nonfinite
from wiregrad.dtypes import format_brief_number
from wiregrad.inspect.run_index import Numbers
from wiregrad.ir import join_first_names
from wiregrad.ir.columns import is_automatic_name
from wiregrad.ir.strict_json import as_pairs
from wiregrad.ops.gradient_flow import MaskedFlow

BLOCK_SIZE = 1 << 16
"""Number of elements processed together."""
SAFE_SQUARE_SUMS = {np.dtype(np.float64): (1e-280, 1e280), np.dtype(np.float32): (1e-28, 1e36)}
"""Between these bounds the sum of squares of a block has neither overflowed nor underflowed."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and sizes of some numbers.

    `rms` is the root mean square and `high` the largest magnitude of the finite numbers, NaN if there are none;
    `zeros` counts exact zeros.
    """

    size: int = 0
    zeros: int = 0
    nans: int = 0
    infs: int = 0
    rms: float = math.nan
    high: float = math.nan

    @property
    def nonfinite(self) -> int:
        """The count of NaN and infinities."""
        return self.nans + self.infs

    @property
    def finite(self) -> int:
        """The count of finite numbers."""
        return self.size - self.nonfinite

    @property
    def zero_share(self) -> float:
        """The share of exact zeros, from 0 to 1."""
        return self.zeros / self.size if self.size else 0.0


def tally_of_zeros(count: int) -> Tally:
    """Return the tally of `count` zeros.

    >>> tally_of_zeros(2)
    Tally(size=2, zeros=2, nans=0, infs=0, rms=0.0, high=0.0)
    """
    return Tally(size=count, zeros=count, rms=0.0, high=0.0)


def tally_numbers(numbers: ArrayLike) -> Tally:
    """Count and measure an array of numbers, of any dtype and shape.

    >>> tally_numbers([3.0, -4.0, 0.0, 0.0, float("nan")])
    Tally(size=5, zeros=2, nans=1, infs=0, rms=2.5, high=4.0)
    """
    flat = flatten_magnitudes(numbers)
    flags = np.empty(min(BLOCK_SIZE, flat.size), np.bool_)
    with np.errstate(all="ignore"):
        return join_tallies(_tally_block(part, flags) for part in split_blocks(flat))


def join_tallies(parts: Iterable[Tally]) -> Tally:
    """Return the tally of all numbers together.

    >>> join_tallies([Tally(size=1, rms=3.0, high=3.0), Tally(size=1, rms=4.0, high=4.0)]).rms == 12.5**0.5
    True
    """
    nonempty = [part for part in parts if part.size]
    if len(nonempty) == 1:
        return nonempty[0]
    sized = [part for part in nonempty if part.finite]
    return Tally(
        size=sum(part.size for part in nonempty),
        zeros=sum(part.zeros for part in nonempty),
        nans=sum(part.nans for part in nonempty),
        infs=sum(part.infs for part in nonempty),
        rms=joint_rms((part.finite, part.rms) for part in sized) if sized else math.nan,
        high=max((part.high for part in sized), default=math.nan),
    )


def joint_rms(parts: Iterable[tuple[int, float]]) -> float:
    """Return the joint root mean square of several parts, each given as (count, rms).

    >>> joint_rms([(1, 3.0), (1, 4.0)]) == 12.5**0.5
    True
    """
    sizes = list(parts)
    total = sum(count for count, _ in sizes)
    # Scale before squaring: the mean of huge squares would overflow.
    return math.hypot(*(size * math.sqrt(count / total) for count, size in sizes)) if total else 0.0


def flatten_to_reals(numbers: ArrayLike) -> NDArray[Any]:
    """Return numbers as one flat array of floats; a complex number is its two parts.

    >>> flatten_to_reals([3 + 4j])
    array([3., 4.])
    """
    # Flatten first: as_pairs adds an axis, and the array may already have the maximum number of axes.
    flat = as_pairs(np.asarray(numbers).reshape(-1)).reshape(-1)
    with np.errstate(all="ignore"):
        return flat if flat.dtype in SAFE_SQUARE_SUMS else flat.astype(np.float64)


def flatten_magnitudes(numbers: ArrayLike) -> NDArray[Any]:
    """Return numbers as one flat array of real floats; complex numbers by their magnitudes.

    >>> flatten_magnitudes([3 + 4j])
    array([5.])
    """
    array = np.asarray(numbers)
    with np.errstate(all="ignore"):
        return flatten_to_reals(np.abs(array) if array.dtype.kind == "c" else array)


def split_blocks(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Split a flat array into blocks that fit the cache."""
    return (flat[k : k + BLOCK_SIZE] for k in range(0, flat.size, BLOCK_SIZE))


def block_rms(flat: NDArray[Any]) -> float:
    """Return the root mean square of a block; NaN if one of its numbers is not finite."""
    squares = float(np.dot(flat, flat))
    low, high = SAFE_SQUARE_SUMS[flat.dtype]
    if low < squares < high:
        return math.sqrt(squares / flat.size)
    # All zeros is a common case (a parameter that does not move) and needs no scaled sum.
    return 0.0 if squares == 0.0 and not flat.max() and not flat.min() else _scaled_rms(flat)[0]


def _tally_block(part: NDArray[Any], flags: NDArray[np.bool_]) -> Tally:
    high = max(float(part.max()), -float(part.min()))
    rms = block_rms(part)
    np.equal(part, 0.0, out=flags[: part.size])
    none = int(np.count_nonzero(flags[: part.size]))
    if math.isfinite(rms):
        return Tally(size=part.size, zeros=none, rms=rms, high=abs(high))
    nans = int(np.count_nonzero(np.isnan(part)))
    finite = part[np.isfinite(part)]
    rms, high = _scaled_rms(finite) if finite.size else (math.nan, math.nan)
    return Tally(part.size, none, nans, part.size - nans - finite.size, rms, high)


def _scaled_rms(part: NDArray[Any]) -> tuple[float, float]:
    """Return root mean square and largest magnitude by a scaled sum; NaN if a number is not finite."""
    sizes = np.abs(part.astype(np.float64))
    high = float(sizes.max(initial=0.0))
    if not 0.0 < high < math.inf:
        return (0.0, 0.0) if high == 0.0 else (math.nan, math.nan)
    return high * math.sqrt(float(np.mean((sizes / high) ** 2))), high


@dataclass(frozen=True, slots=True)
class PresentNumbers:
    """The numbers that are present, and the count of absent ones."""

    numbers: NDArray[Any]
    absent: int


def collect_gradients(run: RunRecord, nodes: Iterable[int]) -> Iterator[PresentNumbers]:
    """Return the gradients of some nodes; those of all scalar nodes in one array."""
    singles: list[Any] = []
    absent = 0
    for node in nodes:
        flow = run.flows[node]
        shape = run.circuit.type_of(node).shape
        if flow is None:
            absent += math.prod(shape)
        elif not shape and type(flow) is not MaskedFlow:
            singles.append(flow)
        else:
            yield _present_numbers(flow, shape)
    yield PresentNumbers(np.asarray(singles), absent)


def collect_values(run: RunRecord, nodes: Iterable[int]) -> Iterator[PresentNumbers]:
    """Return the values of some nodes; those of all scalar nodes in one array."""
    singles: list[Any] = []
    for node in nodes:
        value = run.values[node]
        if np.ndim(value):
            yield PresentNumbers(np.asarray(value), 0)
        else:
            singles.append(value)
    yield PresentNumbers(np.asarray(singles), 0)


def _present_numbers(flow: Numbers | float | MaskedFlow, shape: tuple[int, ...]) -> PresentNumbers:
    if not isinstance(flow, MaskedFlow):
        return PresentNumbers(np.broadcast_to(flow, shape), 0)
    mask = np.broadcast_to(flow.mask, shape)
    return PresentNumbers(np.broadcast_to(flow.value, shape)[mask], int(np.count_nonzero(~mask)))


VANISHED_RATIO = 1e-3
"""A layer with at most this ratio to one nearer to the output has vanished."""
EXPLODED_RATIO = 1e3
"""A layer with at least this ratio to one nearer to the output has exploded."""
STEEP_RATIO = 10.0
"""A ratio between neighbouring layers from which the step is called steep."""


@dataclass(frozen=True, slots=True)
class FlowLayer:
    """One layer: tallies of its gradient and its values, and the distance of its nodes from the output."""

    name: str
    ranks: tuple[int, int]
    """The smallest and largest distance from the output, in nodes along the longest path."""
    nodes: int
    gradient: Tally
    absent: int
    """The count of structural zeros of the gradient, at which nothing arrived."""
    low: float
    """The smallest nonzero magnitude of the gradient; NaN if there is none."""
    value: Tally
    last: str = ""
    """The node of the layer that was computed last."""
    shared: bool = False
    """Whether it consists of inputs that several layers read, which are not compared."""
    whole: bool = True
    """Whether the size shown is that of all its nodes; if not, the output itself was left out."""

    @property
    def rms(self) -> float:
        """Root mean square of the gradient, per number."""
        return self.gradient.rms

    @property
    def absent_share(self) -> float:
        """The share of numbers at which no gradient arrived."""
        return self.absent / self.gradient.size if self.gradient.size else 0.0

    @property
    def zero_share(self) -> float:
        """The share of numbers whose gradient arrived and is exactly 0."""
        return self.gradient.zero_share - self.absent_share


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """A finding about a flow: its kind, the layer, the ratio of sizes, and a sentence."""

    kind: str
    layer: str
    ratio: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def find_broken_layers(layers: Sequence[FlowLayer]) -> Iterator[FlowFinding]:
    """Report the first layer with a non-finite gradient, and the layers without a gradient."""
    spoilt = next((layer for layer in layers if layer.gradient.nonfinite), None)
    if spoilt is not None:
        what = format_nonfinite(spoilt.gradient.nans, spoilt.gradient.infs)
        words = f"{what} in the gradient, first at {spoilt.name}; ask run.blame() where from"
        yield FlowFinding("nonfinite", spoilt.name, math.nan, words)
    for layer in layers:
        if layer.gradient.size and not layer.gradient.nonfinite and layer.gradient.high == 0:
            never = layer.absent == layer.gradient.size
            words = f"no gradient comes to {layer.name}" if never else f"the gradient of {layer.name} is zero"
            named = layer.last and not is_automatic_name(layer.last)
            ask = f"; ask run.explain({json.dumps(layer.last, ensure_ascii=False)}) why" if named else ""
            yield FlowFinding("zero", layer.name, 0.0, f"{words}{ask}")


def find_unused_inputs(inputs: Sequence[str]) -> Iterator[FlowFinding]:
    """Report the inputs that the output does not depend on."""
    if inputs:
        yield FlowFinding("unused", inputs[0], 0.0, f"the output does not depend on {join_first_names(inputs)}")


def find_trend(layers: Sequence[FlowLayer], *, all_of: bool) -> Iterator[FlowFinding]:
    """Report whether the gradient vanishes or explodes, measured from where it was largest or smallest."""
    nonzero = [layer for layer in layers if layer.rms > 0]
    if len(nonzero) < 2:
        return
    fall = _steepest_change(nonzero, max)
    rise = _steepest_change(nonzero, min)
    quiet = True
    for kind, (first, layer) in (("vanishes", fall), ("explodes", rise)):
        ratio = safe_quotient(nonzero[layer].rms, nonzero[first].rms)
        if ratio <= VANISHED_RATIO if kind == "vanishes" else ratio >= EXPLODED_RATIO:
            quiet = False
            yield FlowFinding(
                kind, nonzero[layer].name, ratio, _describe_trend(kind, nonzero[first : layer + 1], ratio)
            )
    if quiet:
        low = min(nonzero, key=lambda layer: layer.rms)
        high = max(nonzero, key=lambda layer: layer.rms)
        where = "" if all_of else f"from {nonzero[0].name} back, "
        where += "" if low.whole and high.whole else "without the output itself, "
        sizes = f"{format_brief_number(low.rms)} and {format_brief_number(high.rms)}"
        words = f"{where}sizes stay between {sizes}: nothing vanishes or explodes"
        yield FlowFinding("steady", nonzero[0].name, safe_quotient(high.rms, low.rms), words)


def _steepest_change(layers: Sequence[FlowLayer], extreme: Callable[[float, float], float]) -> tuple[int, int]:
    """Return the pair of layers with the largest change: the extreme so far, and the later layer farthest from it."""
    best = (0, 0)
    at = 0
    for k, layer in enumerate(layers):
        if extreme(layer.rms, layers[at].rms) == layer.rms:
            at = k
        far = safe_quotient(layer.rms, layers[at].rms)
        before = safe_quotient(layers[best[1]].rms, layers[best[0]].rms)
        if extreme(far, before) == before != far:
            best = (at, k)
    return best


def safe_quotient(one: float, two: float) -> float:
    """Divide two positive numbers; inf if the quotient is too large for a float."""
    return one / two if two > one * 1e-300 else math.inf


def format_times(one: float, two: float) -> str:
    """Format the ratio of two positive numbers, as `1.5 times`.

    >>> format_times(3.0, 2.0), format_times(1.0, 5e-324)
    ('1.5 times', 'over 1e308 times')
    """
    ratio = safe_quotient(one, two)
    return f"{format_brief_number(ratio)} times" if ratio < math.inf else "over 1e308 times"


def _describe_trend(kind: str, layers: Sequence[FlowLayer], ratio: float) -> str:
    """Describe the change from the first to the last of some layers, and its steepest step."""
    first = layers[0]
    layer = layers[-1]
    how = (
        f"{format_times(layer.rms, first.rms)} larger" if ratio > 1 else f"{format_times(first.rms, layer.rms)} smaller"
    )
    words = f"the gradient {kind}: {_format_layer_size(first)} but {_format_layer_size(layer)}, {how}"
    pairs = list(pairwise(layers))
    steps = [safe_quotient(b.rms, a.rms) if ratio > 1 else safe_quotient(a.rms, b.rms) for a, b in pairs]
    steepest = max(range(len(pairs)), key=steps.__getitem__)
    if steps[steepest] < STEEP_RATIO:
        return words + "; step by step, neighbours differ less than tenfold"
    a, b = pairs[steepest]
    far = format_times(b.rms, a.rms) if ratio > 1 else format_times(a.rms, b.rms)
    return words + f"; the steepest step is from {a.name} to {b.name}, {far}"


def _format_layer_size(layer: FlowLayer) -> str:
    return f"{format_brief_number(layer.rms)} at {layer.name}{'' if layer.whole else ' (without the output itself)'}"
