"""How the gradient fares on its way back: layer by layer, from the output to the inputs.

A layer is a group of the circuit; nodes without a group, and all nodes of a circuit that has no groups to compare, are
taken by their distance from the output. Sizes are per number (root mean square), so that layers of different width
compare. An absent gradient counts as a zero in the size, and is counted apart.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from wiregrad.backends import Run
from wiregrad.errors import InputError, shown
from wiregrad.export.canvas import brief
from wiregrad.export.plots import Bar, bars
from wiregrad.inspect.report import Report
from wiregrad.inspect.summary import (
    Present,
    Tally,
    gradients_of,
    joined,
    magnitudes,
    moving,
    tally,
    values_of,
    zeros,
)
from wiregrad.ir import INPUT, Circuit, Node, listed
from wiregrad.ir.names import is_automatic
from wiregrad.ops.functions import FUNCTIONS

VANISHED, EXPLODED, STEEP = 1e-3, 1e3, 10.0
"""How much less or more a layer has than the one nearest the output, and what is steep between neighbours."""
MOST_LAYERS = 24
MOST_STRETCHES = 12
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
BY = ("group", "rank", "input")


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


@dataclass(frozen=True, repr=False)
class Flow(Report):
    """The gradient of a run, layer by layer from the output back; printing it says where it vanishes or explodes."""

    layers: tuple[Layer, ...]
    findings: tuple[Finding, ...]

    def __getitem__(self, name: str) -> Layer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise InputError(f"the flow has no layer called {shown(name)}; it has {', '.join(x.name for x in self.layers)}")

    def lines(self) -> Iterator[str]:
        """Return a table of the layers, then what stands out."""
        layers = f"{len(self.layers)} layer{'' if len(self.layers) == 1 else 's'}"
        yield f"gradient flow through {layers}, from the output back; sizes are per number"
        width = max([5, *(len(layer.name) for layer in self.layers)])
        yield f"  {'layer':{width}}  {'numbers':>9}  {'rms':>8}  {'smallest':>8}  {'largest':>8}  zeros absent"
        lengths = _lengths([layer.rms for layer in self.layers])
        for layer, length in zip(self.layers, lengths, strict=True):
            yield f"  {layer.name:{width}}  {_row(layer)}  {length}".rstrip()
        yield from map(str, self.findings)

    def to_svg(self, *, theme: str = "auto") -> str:
        """Return the flow as a bar chart on a log scale; `theme` is light, dark or auto."""
        return bars(
            [_bar(layer) for layer in self.layers],
            title="Gradient flow, from the output (top) back to the inputs",
            description=str(self),
            axis="gradient, rms",
            other="values, rms",
            notes=[str(finding) for finding in self.findings],
            theme=theme,
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def flow(run: Run, *, by: str = "group", depth: int | None = None) -> Flow:
    """Measure the gradient of a run layer by layer, from the output back.

    Layers are groups cut to `depth` names (by default as deep as tells most of them apart), ranks, or inputs.

    >>> import wiregrad as wg
    >>> found = flow(wg.circuit("a = tanh(9 * x); b = tanh(9 * a); y = tanh(9 * b)").run(x=1))
    >>> found.findings[0].kind, found.findings[0].layer
    ('vanishes', 't1')
    """
    if by not in BY:
        raise InputError(f"layers go by {', '.join(BY)}; got {shown(by)}")
    if depth is not None and (type(depth) is not int or depth < 1):
        raise InputError(f"depth is how many names of a group's path count, from 1; got {shown(depth)}")
    ranks = ranks_of(run.circuit)
    nodes = [node for node in moving(run) if ranks[node] >= 0]
    split = {"group": _by_group, "rank": _by_rank, "input": _by_input}[by](run.circuit, nodes, ranks, depth)
    layers = [_layer(run, name, members, ranks) for name, members in split.items()]
    order = sorted(range(len(layers)), key=lambda k: (np.mean([ranks[node] for node in [*split.values()][k]]), k))
    found = tuple(layers[k] for k in order)
    idle = [run.circuit.name_of(node) for node in run.circuit.input_indices() if ranks[node] < 0]
    return Flow(found, (*_findings(found), *_unused(idle)))


def ranks_of(circuit: Circuit) -> list[int]:
    """Return how far each node stands from the output, in nodes along the longest way; -1 if it does not feed it.

    >>> import wiregrad as wg
    >>> ranks_of(wg.circuit("x * x + x"))
    [2, 1, 0]
    """
    ranks = [-1] * circuit.size
    ranks[circuit.root()] = 0
    for row in circuit.rows(backward=True):
        if ranks[row.node] >= 0:
            beyond = ranks[row.node] + 1
            for source in row.sources:
                ranks[source] = max(ranks[source], beyond)
    return ranks


Split = dict[str, list[int]]


def _by_group(circuit: Circuit, nodes: Sequence[int], ranks: Sequence[int], depth: int | None) -> Split:
    paths = _paths(circuit, nodes)
    depth = depth or _telling_depth(set(paths.values()))
    named: Split = defaultdict(list)
    loose = []
    for node in nodes:
        if paths[node]:
            named["/".join(paths[node][:depth])].append(node)
        else:
            loose.append(node)
    if len(named) < 2:
        # One group around everything says nothing about depth.
        return _by_rank(circuit, nodes, ranks, None)
    for members in _stretches(loose, ranks, len(named) + 1):
        named[_stretch_name(members, ranks)].extend(members)
    return named


def _paths(circuit: Circuit, nodes: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the groups around each node; an input without any belongs where it is first read."""
    readers = circuit.readers()
    found = {}
    for node in nodes:
        view = Node(circuit, node)
        if not view.group and view.op is INPUT and readers[node]:
            view = Node(circuit, readers[node][0][0])
        found[node] = tuple(view.group.split("/")) if view.group else ()
    return _own_paths(found)


def _own_paths(paths: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Leave out the NumPy functions that nodes are a part of: they are innermost, and no group is inside them."""
    around = {path[:k] for path in set(paths.values()) for k in range(len(path))}
    inner = {path for path in set(paths.values()) if path and path not in around and path[-1] in _function_names()}
    return {node: path[:-1] if path in inner else path for node, path in paths.items()}


@cache
def _function_names() -> frozenset[str]:
    return frozenset(entry.name for entry in FUNCTIONS.values())


def _telling_depth(paths: set[tuple[str, ...]]) -> int:
    counts = {d: len({path[:d] for path in paths}) for d in range(1, max(map(len, paths), default=0) + 1)}
    fitting = {d: count for d, count in counts.items() if count <= MOST_LAYERS}
    return max(fitting, key=lambda d: (fitting[d], -d)) if fitting else 1


def _by_rank(circuit: Circuit, nodes: Sequence[int], ranks: Sequence[int], _depth: int | None) -> Split:
    found = {}
    for members in _stretches(nodes, ranks, MOST_STRETCHES):
        alone = len(members) == 1 and not is_automatic(circuit.name_of(members[0]))
        found[circuit.name_of(members[0]) if alone else _stretch_name(members, ranks)] = members
    return found


def _by_input(circuit: Circuit, nodes: Sequence[int], _ranks: Sequence[int], _depth: int | None) -> Split:
    return {circuit.name_of(node): [node] for node in nodes if Node(circuit, node).op is INPUT}


def _stretches(nodes: Sequence[int], ranks: Sequence[int], most: int) -> list[list[int]]:
    """Cut nodes into at most so many stretches of equal distance from the output."""
    width = -(-(max(ranks, default=0) + 1) // most)
    found: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        found[ranks[node] // width].append(node)
    return list(found.values())


def _stretch_name(nodes: Sequence[int], ranks: Sequence[int]) -> str:
    first, last = min(ranks[node] for node in nodes), max(ranks[node] for node in nodes)
    return f"depth {first}" if first == last else f"depth {first}-{last}"


def _layer(run: Run, name: str, nodes: Sequence[int], ranks: Sequence[int]) -> Layer:
    parts = list(gradients_of(run, nodes))
    absent = sum(part.absent for part in parts)
    return Layer(
        name=name,
        ranks=(min(ranks[node] for node in nodes), max(ranks[node] for node in nodes)),
        nodes=len(nodes),
        gradient=joined([*(tally(part.numbers) for part in parts), zeros(absent)]),
        absent=absent,
        low=min((x for x in map(_smallest, parts) if not math.isnan(x)), default=math.nan),
        value=joined(tally(part.numbers) for part in values_of(run, nodes)),
    )


def _smallest(part: Present) -> float:
    sizes = np.abs(magnitudes(part.numbers))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(sizes.min()) if sizes.size else math.nan


def _findings(layers: Sequence[Layer]) -> Iterator[Finding]:
    spoilt = next((layer for layer in layers if layer.gradient.nonfinite), None)
    if spoilt is not None:
        words = f"{nonfinite_text(spoilt.gradient)} in the gradient, first at {spoilt.name}; ask run.blame() where from"
        yield Finding("nonfinite", spoilt.name, math.nan, words)
    for layer in layers:
        if layer.gradient.size and not layer.gradient.nonfinite and layer.gradient.high == 0:
            how = "absent: none arrives" if layer.absent == layer.gradient.size else "zero"
            yield Finding("zero", layer.name, 0.0, f"the gradient of {layer.name} is {how}; ask run.explain(name) why")
    # The output's own gradient is 1 and stands for nothing that was computed.
    yield from _trend([layer for layer in layers if layer.gradient.size > 1 or layer.ranks[0] > 0])


def _unused(inputs: Sequence[str]) -> Iterator[Finding]:
    if inputs:
        yield Finding("unused", inputs[0], 0.0, f"the output does not depend on {listed(inputs)}")


def _trend(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Say whether the gradient vanishes or explodes, compared with the layer nearest the output."""
    told = [layer for layer in layers if layer.rms > 0]
    if len(told) < 2:
        return
    first = told[0]
    least, most = min(told, key=lambda x: x.rms), max(told, key=lambda x: x.rms)
    quiet = True
    for kind, layer, far in (("vanishes", least, VANISHED), ("explodes", most, EXPLODED)):
        ratio = quotient(layer.rms, first.rms)
        if ratio <= far if far < 1 else ratio >= far:
            quiet = False
            yield Finding(kind, layer.name, ratio, _trend_words(kind, first, layer, ratio, told))
    if quiet:
        words = f"sizes stay between {brief(least.rms)} and {brief(most.rms)}: nothing vanishes or explodes"
        yield Finding("steady", first.name, quotient(most.rms, least.rms), words)


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


def _trend_words(kind: str, first: Layer, layer: Layer, ratio: float, told: Sequence[Layer]) -> str:
    how = f"{times(layer.rms, first.rms)} larger" if ratio > 1 else f"{times(first.rms, layer.rms)} smaller"
    words = f"the gradient {kind}: {brief(first.rms)} at {first.name} but {brief(layer.rms)} at {layer.name}, {how}"
    pairs = list(pairwise(told))
    steps = [quotient(b.rms, a.rms) if ratio > 1 else quotient(a.rms, b.rms) for a, b in pairs]
    steepest = max(range(len(pairs)), key=steps.__getitem__)
    if steps[steepest] < STEEP:
        return words + "; step by step, neighbours differ less than tenfold"
    a, b = pairs[steepest]
    far = times(b.rms, a.rms) if ratio > 1 else times(a.rms, b.rms)
    return words + f"; the steepest step is from {a.name} to {b.name}, {far}"


def nonfinite_text(found: Tally) -> str:
    """Say how many numbers are NaN and how many are infinite.

    >>> nonfinite_text(Tally(size=9, nans=2, infs=1))
    '2 NaN and 1 Inf'
    """
    parts = [(found.nans, "NaN"), (found.infs, "Inf")]
    return " and ".join(f"{count:,} {word}" for count, word in parts if count)


def _row(layer: Layer) -> str:
    sizes = f"{layer.gradient.size:>9,}  {_size(layer.rms)}  {_size(layer.low)}  {_size(layer.gradient.high)}"
    spoilt = f"  {nonfinite_text(layer.gradient)}" if layer.gradient.nonfinite else ""
    return f"{sizes}  {layer.zero_share:>5.0%} {layer.absent_share:>6.0%}{spoilt}"


def _size(number: float) -> str:
    return f"{'-' if math.isnan(number) else brief(number):>8}"


def _lengths(sizes: Sequence[float], width: int = 16) -> list[str]:
    """Return bars of blocks on a log scale, the largest size the full width."""
    logs = [math.log10(x) if x > 0 else math.nan for x in sizes]
    told = [x for x in logs if not math.isnan(x)]
    low, high = min(told, default=0.0), max(told, default=0.0)
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
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]


def _bar(layer: Layer) -> Bar:
    parts = []
    if layer.gradient.nonfinite:
        parts.append(nonfinite_text(layer.gradient))
    if layer.zero_share > 0:
        parts.append(f"{layer.zero_share:.0%} zero")
    if layer.absent:
        parts.append(f"{layer.absent_share:.0%} absent")
    return Bar(
        label=layer.name,
        value=layer.rms,
        low=layer.low,
        high=layer.gradient.high or math.nan,
        other=layer.value.rms,
        note=", ".join(parts),
        spoilt=bool(layer.gradient.nonfinite),
    )
