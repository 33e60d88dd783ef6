"""Findings about a gradient by layers: where it is zero or not finite, and whether it vanishes or explodes.

A layer is compared with the largest and the smallest layer nearer to the output, not with the output itself: a gradient
that first rises and then fades has faded all the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from wiregrad.export.canvas import format_brief
from wiregrad.export.reading import format_nonfinite
from wiregrad.inspect.summary import Tally
from wiregrad.ir import join_first_names

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
            how = "absent: none arrives" if layer.absent == layer.gradient.size else "zero"
            ask = f"ask run.explain({json.dumps(layer.last, ensure_ascii=False)}) why"
            yield FlowFinding("zero", layer.name, 0.0, f"the gradient of {layer.name} is {how}; {ask}")


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
            yield FlowFinding(kind, nonzero[layer].name, ratio, _describe_trend(kind, nonzero[first : layer + 1], ratio))
    if quiet:
        low = min(nonzero, key=lambda layer: layer.rms)
        high = max(nonzero, key=lambda layer: layer.rms)
        where = "" if all_of else f"from {nonzero[0].name} back, "
        where += "" if low.whole and high.whole else "without the output itself, "
        words = f"{where}sizes stay between {format_brief(low.rms)} and {format_brief(high.rms)}: nothing vanishes or explodes"
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
    return f"{format_brief(ratio)} times" if ratio < math.inf else "over 1e308 times"


def _describe_trend(kind: str, layers: Sequence[FlowLayer], ratio: float) -> str:
    """Describe the change from the first to the last of some layers, and its steepest step."""
    first = layers[0]
    layer = layers[-1]
    how = f"{format_times(layer.rms, first.rms)} larger" if ratio > 1 else f"{format_times(first.rms, layer.rms)} smaller"
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
    return f"{format_brief(layer.rms)} at {layer.name}{'' if layer.whole else ' (without the output itself)'}"
