"""What stands out in a gradient on its way back: where it is zero or not finite, and whether it vanishes or explodes.

Sizes are compared with the largest and the smallest nearer to the output, not with the output itself: a gradient that
rises first and fades then has faded all the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from wiregrad.export.canvas import brief
from wiregrad.export.reading import nonfinite_text
from wiregrad.inspect.summary import Tally
from wiregrad.ir import listed

VANISHED, EXPLODED, STEEP = 1e-3, 1e3, 10.0
"""How much less or more a layer has than one nearer to the output, and what is steep between neighbours."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer saw: its gradient and its values, and how far from the output its nodes stand."""

    name: str
    ranks: tuple[int, int]
    """The smallest and largest distance from the output, in nodes along the longest way."""
    nodes: int
    gradient: Tally
    absent: int
    """How many of the gradient's numbers are zeros by structure: nothing arrived there."""
    low: float
    """The smallest magnitude of a gradient that is not 0; NaN if there is none."""
    value: Tally
    last: str = ""
    """The node of it that was computed last."""
    shared: bool = False
    """Whether it is of inputs that several layers read, whose gradient says nothing about one distance."""
    whole: bool = True
    """Whether its size is, as it is shown, that of all its nodes, not only of those beside the output."""

    @property
    def rms(self) -> float:
        """Root mean square of the gradient, per number."""
        return self.gradient.rms

    @property
    def absent_share(self) -> float:
        """The share of numbers to which no gradient came."""
        return self.absent / self.gradient.size if self.gradient.size else 0.0

    @property
    def zero_share(self) -> float:
        """The share of numbers whose gradient came and is exactly 0."""
        return self.gradient.zero_share - self.absent_share


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a person should know about a flow: its kind, the layer, how many times less or more, in words."""

    kind: str
    layer: str
    ratio: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def findings(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Say where the gradient is not finite, and which layers have none."""
    spoilt = next((layer for layer in layers if layer.gradient.nonfinite), None)
    if spoilt is not None:
        what = nonfinite_text(spoilt.gradient.nans, spoilt.gradient.infs)
        words = f"{what} in the gradient, first at {spoilt.name}; ask run.blame() where from"
        yield Finding("nonfinite", spoilt.name, math.nan, words)
    for layer in layers:
        if layer.gradient.size and not layer.gradient.nonfinite and layer.gradient.high == 0:
            how = "absent: none arrives" if layer.absent == layer.gradient.size else "zero"
            ask = f"ask run.explain({json.dumps(layer.last, ensure_ascii=False)}) why"
            yield Finding("zero", layer.name, 0.0, f"the gradient of {layer.name} is {how}; {ask}")


def unused(inputs: Sequence[str]) -> Iterator[Finding]:
    """Say which inputs the output does not depend on."""
    if inputs:
        yield Finding("unused", inputs[0], 0.0, f"the output does not depend on {listed(inputs)}")


def trend(layers: Sequence[Layer], *, all_of: bool) -> Iterator[Finding]:
    """Say whether the gradient vanishes or explodes on its way back, from wherever it was largest or smallest."""
    nonzero = [layer for layer in layers if layer.rms > 0]
    if len(nonzero) < 2:
        return
    fall = _steepest(nonzero, max)
    rise = _steepest(nonzero, min)
    quiet = True
    for kind, (first, layer) in (("vanishes", fall), ("explodes", rise)):
        ratio = quotient(nonzero[layer].rms, nonzero[first].rms)
        if ratio <= VANISHED if kind == "vanishes" else ratio >= EXPLODED:
            quiet = False
            yield Finding(kind, nonzero[layer].name, ratio, _trend_words(kind, nonzero[first : layer + 1], ratio))
    if quiet:
        low = min(nonzero, key=lambda layer: layer.rms)
        high = max(nonzero, key=lambda layer: layer.rms)
        where = "" if all_of else f"from {nonzero[0].name} back, "
        where += "" if low.whole and high.whole else "without the output itself, "
        words = f"{where}sizes stay between {brief(low.rms)} and {brief(high.rms)}: nothing vanishes or explodes"
        yield Finding("steady", nonzero[0].name, quotient(high.rms, low.rms), words)


def _steepest(layers: Sequence[Layer], extreme: Callable[[float, float], float]) -> tuple[int, int]:
    """Return two layers, the later of which is farthest from the extreme before it, and where that extreme was."""
    best = (0, 0)
    at = 0
    for k, layer in enumerate(layers):
        if extreme(layer.rms, layers[at].rms) == layer.rms:
            at = k
        far = quotient(layer.rms, layers[at].rms)
        before = quotient(layers[best[1]].rms, layers[best[0]].rms)
        if extreme(far, before) == before != far:
            best = (at, k)
    return best


def quotient(one: float, two: float) -> float:
    """Return one positive number over another, infinite where the quotient is too large for a float."""
    return one / two if two > one * 1e-300 else math.inf


def times(one: float, two: float) -> str:
    """Say how many times as large one positive number is as another.

    >>> times(3.0, 2.0), times(1.0, 5e-324)
    ('1.5 times', 'over 1e308 times')
    """
    ratio = quotient(one, two)
    return f"{brief(ratio)} times" if ratio < math.inf else "over 1e308 times"


def _trend_words(kind: str, layers: Sequence[Layer], ratio: float) -> str:
    """Say how far the gradient went from the first of some layers to the last, and where it went fastest."""
    first = layers[0]
    layer = layers[-1]
    how = f"{times(layer.rms, first.rms)} larger" if ratio > 1 else f"{times(first.rms, layer.rms)} smaller"
    words = f"the gradient {kind}: {_at(first)} but {_at(layer)}, {how}"
    pairs = list(pairwise(layers))
    steps = [quotient(b.rms, a.rms) if ratio > 1 else quotient(a.rms, b.rms) for a, b in pairs]
    steepest = max(range(len(pairs)), key=steps.__getitem__)
    if steps[steepest] < STEEP:
        return words + "; step by step, neighbours differ less than tenfold"
    a, b = pairs[steepest]
    far = times(b.rms, a.rms) if ratio > 1 else times(a.rms, b.rms)
    return words + f"; the steepest step is from {a.name} to {b.name}, {far}"


def _at(layer: Layer) -> str:
    return f"{brief(layer.rms)} at {layer.name}{'' if layer.whole else ' (without the output itself)'}"
