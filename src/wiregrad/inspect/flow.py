"""The size of the gradient layer by layer, from output to inputs (`flow`), and its distribution (`histogram`).

A layer is a group of the circuit. Nodes without a group, and all nodes of a circuit with fewer than two groups, are
layered by their distance from the output. Sizes are root mean squares, so that layers of different width can be
compared. An absent gradient counts as a zero in the size and is also counted separately. The gradient of an input that
several layers read comes from all of them: such inputs are shown separately and not compared.

A layer is compared with the largest and the smallest layer nearer to the output, not with the output itself: a gradient
that first rises and then fades has faded all the same.

How large numbers are is said by a `Tally`, which counts zeros and non-finite numbers and measures the rest. No count or
size overflows, underflows or warns, whatever the numbers are. An array is read in blocks that fit the cache, so a tally
costs little more than one pass over memory.

Gradients range over many powers of ten and both signs, so the bins of a histogram are signed decades. Zeros, absent
gradients, NaN and infinities have bins of their own. A complex number counts as its two parts.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import clip_distinctly, count_columns, escape_unprintable, format_nonfinite
from wiregrad.draw.plots import BarRow, HistogramColumn, draw_bars, draw_histogram, format_power
from wiregrad.dtypes import NO_GRADIENT, count_with_noun, format_brief_number
from wiregrad.errors import InputError, short_repr
from wiregrad.inspect.loss_terms import describe_unmoved_terms
from wiregrad.inspect.report import Numbers, Report, RunIndex
from wiregrad.ir import INPUT, Node, join_first_names
from wiregrad.ir.columns import is_automatic_name
from wiregrad.ir.text_form import as_pairs
from wiregrad.ops.array_ops import LinearOp
from wiregrad.ops.functions import FUNCTIONS
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
WIDE_RATIO = 4.0
"""How many times as many, or as few, numbers a layer has over which a gradient was spread or summed."""


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


def find_unmoved(index: RunIndex) -> Iterator[FlowFinding]:
    """Report terms of the output that move no parameter."""
    for finding in describe_unmoved_terms(index):
        yield FlowFinding("unmoved", index.circuit.output, 0.0, finding.sentence)


def find_unused_inputs(inputs: Sequence[str]) -> Iterator[FlowFinding]:
    """Report the inputs that the output does not depend on."""
    if inputs:
        yield FlowFinding("unused", inputs[0], 0.0, f"the output does not depend on {join_first_names(inputs)}")


def find_trend(layers: Sequence[FlowLayer], *, all_of: bool) -> Iterator[FlowFinding]:
    """Report whether the gradient vanishes or explodes, measured from where it was largest or smallest."""
    nonzero = [layer for layer in layers if layer.rms > 0]
    if len(nonzero) < 2:
        return
    fall = _deepest_fall(nonzero)
    rise = _steepest_rise(nonzero)
    quiet = True
    for kind, (first, layer) in (("vanishes", fall), ("explodes", rise)):
        ratio = safe_quotient(nonzero[layer].rms, nonzero[first].rms)
        pair = nonzero[first], nonzero[layer]
        if _share_left(*pair) <= VANISHED_RATIO if kind == "vanishes" else _growth(*pair) >= EXPLODED_RATIO:
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


def _deepest_fall(layers: Sequence[FlowLayer]) -> tuple[int, int]:
    """Return the pair of layers of which the later one has the smallest share left of the gradient of the other."""
    best = (0, 0)
    least = math.inf
    largest = dict[int, int]()
    """The layer with the largest gradient so far, by the count of its numbers."""
    for k, layer in enumerate(layers):
        for at in largest.values():
            left = _share_left(layers[at], layer)
            if left < least:
                least = left
                best = (at, k)
        at = largest.setdefault(layer.gradient.size, k)
        if layer.rms >= layers[at].rms:
            largest[layer.gradient.size] = k
    return best


def _share_left(first: FlowLayer, layer: FlowLayer) -> float:
    """Return what is left of the gradient of a layer at a later one.

    Sizes are per number. Where the later layer has many more numbers, those are added up: a mean over a thousand
    numbers sends each of them a thousandth of its gradient, and nothing has vanished.
    """
    spread = layer.gradient.size / first.gradient.size
    return safe_quotient(layer.rms, first.rms) * (spread if spread >= WIDE_RATIO else 1.0)


def _steepest_rise(layers: Sequence[FlowLayer]) -> tuple[int, int]:
    """Return the pair of layers of which the later one has grown most over the gradient of the other."""
    best = (0, 0)
    most = 0.0
    smallest = dict[int, int]()
    """The layer with the smallest gradient so far, by the count of its numbers."""
    for k, layer in enumerate(layers):
        for at in smallest.values():
            growth = _growth(layers[at], layer)
            if growth > most:
                most = growth
                best = (at, k)
        at = smallest.setdefault(layer.gradient.size, k)
        if layer.rms <= layers[at].rms:
            smallest[layer.gradient.size] = k
    return best


def _growth(first: FlowLayer, layer: FlowLayer) -> float:
    """Return how many times the gradient of a layer has grown at a later one.

    Sizes are per number. Where the later layer has far fewer numbers, each is a sum of many, as the gradient of a
    weight is that of all rows, and nothing has exploded.
    """
    spread = first.gradient.size / layer.gradient.size
    return safe_quotient(layer.rms, first.rms) / (spread if spread >= WIDE_RATIO else 1.0)


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


MAX_GROUP_LAYERS = 24
"""Maximum number of layers that the default depth of groups gives."""
MAX_DEPTH_LAYERS = 12
"""Maximum number of layers made by distance from the output."""
MAX_LAYER_ROWS = 32
"""Maximum number of layers in a table or chart."""
MAX_FINDINGS_PER_KIND = 6
"""Maximum number of findings of each kind that are shown."""
MAX_LAYER_NAME_WIDTH = 32
"""Maximum width of a layer's name, in columns."""
EIGHTH_BLOCKS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
"""Bars of 0 to 7 eighths of a character."""
LAYER_KINDS = ("group", "rank", "input")
"""What layers can be made of."""


@dataclass(frozen=True, repr=False)
class Flow(Report):
    """The gradient of a run, layer by layer from the output back, and where it vanishes or explodes."""

    layers: tuple[FlowLayer, ...]
    findings: tuple[FlowFinding, ...]

    def __getitem__(self, name: str) -> FlowLayer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise InputError(
            f"the flow has no layer called {short_repr(name)}; it has {', '.join(x.name for x in self.layers)}"
        )

    @property
    def rows(self) -> Sequence[FlowLayer]:
        """The layers as the table shows them."""
        return self.layers

    def lines(self) -> Iterator[str]:
        """Return a table of the layers, then the findings."""
        layers = count_with_noun(len(self.layers), "layer")
        yield f"gradient flow through {layers}, from the output back; sizes are per number"
        visible = choose_layers(self.rows)
        names = clip_distinctly([escape_unprintable(str(layer.name)) for layer in visible], MAX_LAYER_NAME_WIDTH)
        width = max([5, *map(count_columns, names)])
        yield f"  {'layer':{width}}  {'numbers':>9}  {'rms':>9}  {'smallest':>9}  {'largest':>9}  zeros  no gradient"
        lengths = _log_bars([layer.rms for layer in visible])
        for name, layer, length in zip(names, visible, lengths, strict=True):
            yield f"  {name}{' ' * (width - count_columns(name))}  {format_layer_row(layer)}  {length}".rstrip()
        yield from _describe_left_out(self.rows, visible)
        yield from _describe_not_compared(self.layers)
        yield from _capped_findings(self.findings)

    def to_svg(self, *, theme: str = "auto") -> str:
        """Return the flow as a bar chart on a log scale; `theme` is light, dark, print or auto."""
        visible = choose_layers(self.rows)
        return draw_bars(
            [_layer_bar(layer) for layer in visible],
            title="Gradient flow, from the output (top) back to the inputs",
            description=str(self),
            axis="gradient, rms",
            other="values, rms",
            notes=[
                *_describe_left_out(self.rows, visible),
                *_describe_not_compared(self.layers),
                *_capped_findings(self.findings),
            ],
            theme=theme,
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def flow(run: RunRecord, *, by: str = "group", depth: int | None = None) -> Flow:
    """Measure the gradient of a run layer by layer, from the output back.

    Layers are groups cut to `depth` names (by default the depth that separates most of them), ranks, or inputs.

    >>> import wiregrad as wg
    >>> answer = flow(wg.circuit("a = tanh(9 * x); b = tanh(9 * a); y = tanh(9 * b)").run(x=1))
    >>> answer.findings[0].kind, answer.findings[0].layer
    ('vanishes', 't1')
    """
    if by not in LAYER_KINDS:
        raise InputError(f"by must be one of {', '.join(LAYER_KINDS)}; got {short_repr(by)}")
    if depth is not None and (type(depth) is not int or depth < 1):
        raise InputError(
            f"depth must be a positive integer, the names of a group's path to use; got {short_repr(depth)}"
        )
    index = RunIndex(run)
    ranks = index.ranks
    nodes = [node for node in index.active_nodes if ranks[node] >= 0]
    split = {"group": _split_by_group, "rank": _split_by_rank, "input": _split_by_input}[by](index, nodes, depth)
    order = sorted(split, key=lambda name: (name in split.apart, np.mean([ranks[node] for node in split[name]])))
    layers = tuple(_measure_layer(index, name, split) for name in order)
    idle = [run.circuit.reference_to(node) for node in run.circuit.input_indices() if ranks[node] < 0]
    own = [layer for layer in layers if not layer.shared]
    compared = [*_comparable_layers(index, split, own)]
    odd = [*find_broken_layers(layers), *find_unmoved(index)]
    # "Steady" would be misleading beside a missing or non-finite gradient.
    going = [x for x in find_trend(compared, all_of=len(compared) == len(own)) if not odd or x.kind != "steady"]
    return Flow(layers, (*odd, *going, *find_unused_inputs(idle)))


def _comparable_layers(index: RunIndex, split: LayerSplit, layers: Sequence[FlowLayer]) -> Iterator[FlowLayer]:
    """Return the layers whose sizes can be compared: from the first named one on, without the output itself.

    The output's own gradient is always 1, and the nodes between the output and the first layer are the loss, whose
    scale is arbitrary.
    """
    named = [layer.name not in split.loose for layer in layers]
    for layer in layers[named.index(True) if any(named) else 0 :]:
        rest = [node for node in split[layer.name] if node != index.root]
        if len(rest) == len(split[layer.name]):
            yield layer
        elif rest:
            part = _measure_layer(index, layer.name, LayerSplit({layer.name: rest}))
            yield replace(part, whole=format_brief_number(part.rms, 3) == format_brief_number(layer.rms, 3))


class LayerSplit(dict[str, list[int]]):
    """The nodes of each layer by its name.

    `loose` are the layers of nodes without a group, `apart` those of inputs that several layers read.
    """

    def __init__(self, layers: Mapping[str, list[int]], loose: Iterable[str] = (), apart: Iterable[str] = ()) -> None:
        super().__init__(layers)
        self.loose = frozenset(loose)
        self.apart = frozenset(apart)


def _separate_shared_inputs(index: RunIndex, layers: Mapping[str, list[int]], loose: Iterable[str] = ()) -> LayerSplit:
    """Move the inputs that several layers read into a layer of their own."""
    shared = _find_shared_inputs(index, layers)
    if not shared:
        return LayerSplit(layers, loose)
    among = set(shared)
    rest = {name: [node for node in nodes if node not in among] for name, nodes in layers.items()}
    rest = {name: nodes for name, nodes in rest.items() if nodes}
    name = index.circuit.reference_to(shared[0]) if len(shared) == 1 else "shared inputs"
    while name in rest:
        name += " (shared)"
    return LayerSplit({**rest, name: shared}, loose, [name])


def _find_shared_inputs(index: RunIndex, layers: Mapping[str, Iterable[int]]) -> list[int]:
    """Return the inputs that more than one layer reads, and slices and reshaped forms of inputs that are."""
    places = {node: name for name, nodes in layers.items() for node in nodes}
    shared = set[int]()
    for node in reversed(_find_input_forms(index, places)):
        by = [reader for reader, _ in index.readers_of(node) if reader in places]
        # A node that only shared nodes read is shared too.
        if len({places[reader] for reader in by}) > 1 or (by and shared.issuperset(by)):
            shared.add(node)
    return sorted(shared)


def _find_input_forms(index: RunIndex, places: Mapping[int, str]) -> list[int]:
    """Return the inputs and the nodes that only rearrange one, such as a slice or a transpose."""
    forms: dict[int, None] = {}
    for row in index.rows:
        rearranges = isinstance(row.op, LinearOp) and len(row.sources) == 1 and row.sources[0] in forms
        if row.node in places and (row.op is INPUT or rearranges):
            forms[row.node] = None
    return list(forms)


def _split_by_group(index: RunIndex, nodes: Sequence[int], depth: int | None) -> LayerSplit:
    paths = _group_paths_of(index, nodes)
    depth = depth or _choose_depth(set(paths.values()))
    named: dict[str, list[int]] = defaultdict(list)
    loose = []
    for node in nodes:
        if paths[node]:
            named["/".join(paths[node][:depth])].append(node)
        else:
            loose.append(node)
    if len(named) < 2:
        # A single group gives no layers to compare.
        return _split_by_rank(index, nodes, None)
    stretches = _cut_into_stretches(loose, index.ranks, len(named) + 1)
    apart = [(_stretch_name(members, index.ranks), members) for members in stretches]
    beside = {name for name, _ in apart if name not in named}
    for name, members in apart:
        named[name].extend(members)
    return _separate_shared_inputs(index, named, beside)


def _group_paths_of(index: RunIndex, nodes: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the group path of each node; an input without a group belongs to its first reader."""
    paths = {}
    for node in nodes:
        view = Node(index.circuit, node)
        if not view.group and view.op is INPUT and index.readers_of(node):
            view = Node(index.circuit, index.readers_of(node)[0][0])
        paths[node] = tuple(view.group.split("/")) if view.group else ()
    known = index.circuit.columns.library_groups
    if known is None:
        return _drop_function_groups(paths)
    library_groups = known.read()
    return {node: path[:-1] if "/".join(path) in library_groups else path for node, path in paths.items()}


def _drop_function_groups(paths: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Drop the innermost group of each path if it is called like a NumPy function, whose calls are groups too.

    This is for circuits from files, which do not say which groups are such calls.
    """
    around = {path[:k] for path in set(paths.values()) for k in range(len(path))}
    inner = {
        path
        for path in set(paths.values())
        if path and path not in around and _CALL_NUMBER.sub("", path[-1]) in _function_names()
    }
    return {node: path[:-1] if path in inner else path for node, path in paths.items()}


_CALL_NUMBER = re.compile(r" [0-9]+$")
"""What tells the second and later calls of a function apart, as in `mean 2`."""


@cache
def _function_names() -> frozenset[str]:
    return frozenset(entry.name for entry in FUNCTIONS.values())


def _choose_depth(paths: set[tuple[str, ...]]) -> int:
    counts = {d: len({path[:d] for path in paths}) for d in range(1, max(map(len, paths), default=0) + 1)}
    fitting = {d: count for d, count in counts.items() if count <= MAX_GROUP_LAYERS}
    return max(fitting, key=lambda d: (fitting[d], -d)) if fitting else 1


def _split_by_rank(index: RunIndex, nodes: Sequence[int], _depth: int | None) -> LayerSplit:
    return _separate_shared_inputs(index, _layers_by_rank(index, nodes))


def _layers_by_rank(index: RunIndex, nodes: Sequence[int]) -> dict[str, list[int]]:
    layers = {}
    for members in _cut_into_stretches(nodes, index.ranks, MAX_DEPTH_LAYERS):
        name = index.circuit.reference_to(members[0])
        alone = len(members) == 1 and not is_automatic_name(name)
        layers[name if alone else _stretch_name(members, index.ranks)] = members
    return layers


def _split_by_input(index: RunIndex, nodes: Sequence[int], _depth: int | None) -> LayerSplit:
    name_of = index.circuit.name_of
    layers = {name_of(node): [node] for node in nodes if index.rows[node].op is INPUT}
    shared = map(name_of, _find_shared_inputs(index, _layers_by_rank(index, nodes)))
    return LayerSplit(layers, apart=layers.keys() & set(shared))


def _cut_into_stretches(nodes: Sequence[int], ranks: Sequence[int], most: int) -> list[list[int]]:
    """Cut nodes into at most `most` stretches of equal length by their distance from the output."""
    width = -(-(max(ranks, default=0) + 1) // most)
    stretches: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        stretches[ranks[node] // width].append(node)
    return list(stretches.values())


def _stretch_name(nodes: Sequence[int], ranks: Sequence[int]) -> str:
    first = min(ranks[node] for node in nodes)
    last = max(ranks[node] for node in nodes)
    return f"depth {first}" if first == last else f"depth {first}-{last}"


def _measure_layer(index: RunIndex, name: str, split: LayerSplit) -> FlowLayer:
    nodes = split[name]
    ranks = [index.ranks[node] for node in nodes]
    parts = list(collect_gradients(index.run, nodes))
    absent = sum(part.absent for part in parts)
    return FlowLayer(
        name=name,
        ranks=(min(ranks), max(ranks)),
        nodes=len(nodes),
        gradient=join_tallies([*(tally_numbers(part.numbers) for part in parts), tally_of_zeros(absent)]),
        absent=absent,
        low=min((x for x in map(_smallest_nonzero, parts) if not math.isnan(x)), default=math.nan),
        value=join_tallies(tally_numbers(part.numbers) for part in collect_values(index.run, nodes)),
        last=index.circuit.name_of(_find_last_named(index, nodes)),
        shared=name in split.apart,
    )


def _find_last_named(index: RunIndex, nodes: Sequence[int]) -> int:
    """Return the last node of a layer that has a name, so that it can be asked about; else the last node."""
    return max((node for node in nodes if index.circuit.columns.names.names_of(node)), default=max(nodes))


def _smallest_nonzero(part: PresentNumbers) -> float:
    sizes = np.abs(flatten_magnitudes(part.numbers))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(sizes.min()) if sizes.size else math.nan


def choose_layers(layers: Sequence[FlowLayer]) -> list[FlowLayer]:
    """Return the layers to show: all, or if there are too many the broken, the largest and the smallest, in order."""
    if len(layers) <= MAX_LAYER_ROWS:
        return list(layers)
    each = MAX_LAYER_ROWS // 4
    by_size = sorted((k for k, layer in enumerate(layers) if layer.rms > 0), key=lambda k: layers[k].rms)
    spoilt = [k for k, layer in enumerate(layers) if layer.gradient.nonfinite]
    nothing = [k for k, layer in enumerate(layers) if not layer.gradient.nonfinite and not layer.rms > 0]
    chosen = {*spoilt[:each], *nothing[:each], *by_size[:each], *by_size[-each:]}
    return [layers[k] for k in sorted(chosen)]


def _describe_left_out(layers: Sequence[FlowLayer], visible: Sequence[FlowLayer]) -> Iterator[str]:
    """Summarize the layers that are not shown."""
    shown_names = {layer.name for layer in visible}
    rest = [layer for layer in layers if layer.name not in shown_names]
    if not rest:
        return
    sizes = [layer.rms for layer in rest if layer.rms > 0]
    spoilt = sum(bool(layer.gradient.nonfinite) for layer in rest)
    nothing = sum(not layer.gradient.nonfinite and not layer.rms > 0 for layer in rest)
    ends = [format_brief_number(size) for size in (min(sizes), max(sizes))] if sizes else []
    parts = [f"of sizes between {ends[0]} and {ends[1]}"] if ends else []
    parts += [f"{spoilt:,} of them not finite"] if spoilt else []
    parts += [f"{nothing:,} of them zero"] if nothing else []
    yield f"and {count_with_noun(len(rest), 'layer')} more, {', '.join(parts)}"


def _describe_not_compared(layers: Sequence[FlowLayer]) -> Iterator[str]:
    """Name the layers of inputs that several layers read."""
    shared = [layer.name for layer in layers if layer.shared]
    if shared:
        yield f"not compared, because several layers read the same input: {join_first_names(shared)}"


def _capped_findings(all_findings: Sequence[FlowFinding]) -> Iterator[str]:
    """Return the findings, at most a few of each kind, and the counts of the rest."""
    seen: dict[str, int] = {}
    for finding in all_findings:
        seen[finding.kind] = seen.get(finding.kind, 0) + 1
        if seen[finding.kind] <= MAX_FINDINGS_PER_KIND:
            yield str(finding)
    for kind, number in seen.items():
        if number > MAX_FINDINGS_PER_KIND:
            yield f"and {number - MAX_FINDINGS_PER_KIND:,} more of kind {kind}"


def format_layer_row(layer: FlowLayer) -> str:
    """Format the numbers of a layer for the table."""
    sizes = "  ".join(
        [
            f"{layer.gradient.size:>9,}",
            _format_size(layer.rms),
            _format_size(layer.low),
            _format_size(layer.gradient.high),
        ]
    )
    spoilt = f"  {format_nonfinite(layer.gradient.nans, layer.gradient.infs)}" if layer.gradient.nonfinite else ""
    return f"{sizes}  {layer.zero_share:>5.0%}  {layer.absent_share:>11.0%}{spoilt}"


def _format_size(number: float) -> str:
    return f"{'-' if math.isnan(number) else format_brief_number(number):>9}"


def _log_bars(sizes: Sequence[float], width: int = 16) -> list[str]:
    """Return bars of block characters on a log scale; the largest size has the full width."""
    logs = [math.log10(x) if x > 0 else math.nan for x in sizes]
    finite = [x for x in logs if not math.isnan(x)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    room = max(high - low, 1.0)
    return [
        "" if math.isnan(x) else block_bar(1 / width + (1 - 1 / width) * (x - high + room) / room, width) for x in logs
    ]


def block_bar(share: float, width: int) -> str:
    """Return a bar of block characters, in eighths of a character.

    >>> block_bar(0.5, 3)
    '█▌'
    """
    eighths = max(0, round(min(share, 1.0) * width * 8))
    return "█" * (eighths // 8) + EIGHTH_BLOCKS[eighths % 8]


def _layer_bar(layer: FlowLayer) -> BarRow:
    parts = []
    if layer.gradient.nonfinite:
        parts.append(format_nonfinite(layer.gradient.nans, layer.gradient.infs))
    if layer.zero_share > 0:
        parts.append(f"{layer.zero_share:.0%} zero")
    if layer.absent:
        parts.append(f"{layer.absent_share:.0%} no gradient")
    return BarRow(
        label=str(layer.name),
        value=layer.rms,
        low=layer.low,
        high=layer.gradient.high or math.nan,
        other=layer.value.rms,
        note=", ".join(parts),
        spoilt=bool(layer.gradient.nonfinite),
    )


MAX_BINS_PER_SIGN = 10
"""Maximum number of bins per sign; beyond that a bin spans several powers of ten."""
LOWEST_EXPONENT = -323
"""The exponent of the smallest power of ten in the range of float64."""
LARGEST_FLOAT = float(np.finfo(np.float64).max)
DECADE_EDGES = np.array([float(f"1e{power}") for power in range(LOWEST_EXPONENT, 309)])
"""Every power of ten in the range of float64."""
HISTOGRAM_SUBJECTS = {"grad": "gradients", "value": "values"}
"""What a histogram can count, with the word for it in the title."""


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """The number of values of one sign with a magnitude of at least `low` and below `high`."""

    sign: int
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        sign = "-" if self.sign < 0 else "+"
        high = format_brief_number(self.high) if self.high == LARGEST_FLOAT else format_power(self.high)
        return f"{sign}{format_power(self.low)} to {sign}{high}"


@dataclass(frozen=True, repr=False)
class Histogram(Report):
    """The count of numbers in each signed power of ten; printing it draws bars."""

    title: str
    bins: tuple[HistogramBin, ...]
    """From the most negative to the most positive, without zero."""
    width: int
    """Number of powers of ten that a bin spans."""
    zeros: int
    absent: int
    nans: int
    infs: int

    @property
    def size(self) -> int:
        """The count of all numbers, including absent ones."""
        return sum(row.count for row in self.bins) + self.zeros + self.absent + self.nans + self.infs

    def lines(self) -> Iterator[str]:
        """Return one line for each bin, with a bar and the count."""
        yield f"{self.title}: {count_with_noun(self.size, 'number')}"
        rows = [*self._table_rows()]
        width = max(len(label) for label, _ in rows)
        most = max(count for _, count in rows) or 1
        for label, count in rows:
            bar = block_bar(max(count / most, 0.004 * (count > 0)), 32)
            yield f"  {label:>{width}} │{bar}{' ' * bool(bar)}{count:,}"

    def _table_rows(self) -> Iterator[tuple[str, int]]:
        for row in self.bins:
            if row.sign < 0:
                yield str(row), row.count
        yield "0", self.zeros
        for row in self.bins:
            if row.sign > 0:
                yield str(row), row.count
        yield from self._special_rows()

    def _special_rows(self) -> Iterator[tuple[str, int]]:
        for label, count in ((NO_GRADIENT, self.absent), ("NaN", self.nans), ("Inf", self.infs)):
            if count:
                yield label, count

    def to_svg(self, *, theme: str = "auto") -> str:
        """Return the histogram as columns; `theme` is light, dark, print or auto."""
        bars = [HistogramColumn(_format_edge(row), row.count, -1) for row in self.bins if row.sign < 0]
        bars.append(HistogramColumn("0", self.zeros))
        bars += [HistogramColumn(_format_edge(row), row.count, 1) for row in self.bins if row.sign > 0]
        bars += [HistogramColumn(label, count, spoilt=label != NO_GRADIENT) for label, count in self._special_rows()]
        return draw_histogram(
            bars,
            title=f"{self.title}: {count_with_noun(self.size, 'number')}",
            description=str(self),
            axis=f"bins of {count_with_noun(self.width, 'decade')}, named by the end nearer to zero",
            theme=theme,
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _format_edge(row: HistogramBin) -> str:
    return f"{'-' if row.sign < 0 else '+'}{format_power(row.low)}"


def histogram(run: RunRecord, name: str | None = None, *, of: str = "grad") -> Histogram:
    """Count the gradients (or values) of one node, or of all of them, by sign and power of ten.

    >>> import wiregrad as wg
    >>> print(histogram(wg.circuit("a * b + 0 * c").run(a=20, b=-3, c=1)))
    gradients of all nodes: 6 numbers
      -10 to -1e2 │0
        -1 to -10 │██████████▋ 1
                0 │██████████▋ 1
        +1 to +10 │████████████████████████████████ 3
      +10 to +1e2 │██████████▋ 1
    """
    if of not in HISTOGRAM_SUBJECTS:
        raise InputError(f"of must be {' or '.join(HISTOGRAM_SUBJECTS)}; got {short_repr(of)}")
    nodes = RunIndex(run).active_nodes if name is None else [run.circuit.index(name)]
    parts = [*(collect_gradients(run, nodes) if of == "grad" else collect_values(run, nodes))]
    whose = "all nodes" if name is None else name
    return _count_decades(
        f"{HISTOGRAM_SUBJECTS[of]} of {whose}", (part.numbers for part in parts), sum(part.absent for part in parts)
    )


def _count_decades(title: str, arrays: Iterable[NDArray[np.generic]], absent: int) -> Histogram:
    zeros = nans = infs = 0
    decades: dict[tuple[int, int], int] = {}
    for array in arrays:
        flat = flatten_to_reals(array)
        finite = flat[np.isfinite(flat)]
        nans += int(np.count_nonzero(np.isnan(flat)))
        infs += int(np.count_nonzero(np.isinf(flat)))
        zeros += int(np.count_nonzero(finite == 0))
        for sign in (-1, 1):
            for power, count in _count_powers(sign * finite):
                decades[sign, power] = decades.get((sign, power), 0) + count
    powers = [power for _, power in decades]
    width = -(-(max(powers) - min(powers) + 1) // MAX_BINS_PER_SIGN) if powers else 1
    return Histogram(title, tuple(_make_bins(decades, width)), width, zeros, absent, nans, infs)


def _count_powers(numbers: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Count the positive numbers by their power of ten."""
    positive = numbers[numbers > 0]
    # By comparison, not by logarithm: an exact power of ten must not fall into the bin below.
    exponents = np.searchsorted(DECADE_EDGES, positive, side="right") - 1 + LOWEST_EXPONENT
    powers, counts = np.unique(exponents, return_counts=True)
    return zip(powers.tolist(), counts.tolist(), strict=True)


def _make_bins(decades: dict[tuple[int, int], int], width: int) -> Iterator[HistogramBin]:
    """Arrange the counts in bins of equal width, from the most negative to the most positive."""
    powers = [power for _, power in decades]
    starts = range(min(powers, default=0), max(powers, default=-1) + 1, width)
    for sign, order in ((-1, reversed(starts)), (1, starts)):
        if any(side == sign for side, _ in decades):
            for start in order:
                count = sum(decades.get((sign, power), 0) for power in range(start, start + width))
                yield HistogramBin(sign, _decade_edge(start), _decade_edge(start + width), count)


def _decade_edge(exponent: int) -> float:
    # 1e-330 reads as 0 and 1e309 as infinity; the smallest and the largest float are used as edges instead.
    return min(max(float(f"1e{exponent}"), 5e-324), LARGEST_FLOAT)
