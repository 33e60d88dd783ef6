"""The size of the gradient layer by layer, from the output back to the inputs.

A layer is a group of the circuit. Nodes without a group, and all nodes of a circuit with fewer than two groups, are
layered by their distance from the output. Sizes are root mean squares, so that layers of different width can be
compared. An absent gradient counts as a zero in the size and is also counted separately. The gradient of an input that
several layers read comes from all of them: such inputs are shown separately and not compared.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import counted
from wiregrad.errors import InputError, shown
from wiregrad.export.canvas import brief
from wiregrad.export.letters import cells, distinct, printable
from wiregrad.export.plots import Bar, bars
from wiregrad.export.reading import nonfinite_text
from wiregrad.inspect.report import Report
from wiregrad.inspect.summary import (
    Present,
    gradients_of,
    joined,
    magnitudes,
    moving,
    tally,
    values_of,
    zeros,
)
from wiregrad.inspect.trend import Finding, Layer, findings, trend, unused
from wiregrad.ir import INPUT, Circuit, Node, listed
from wiregrad.ir.names import is_automatic
from wiregrad.ops.array import Linear
from wiregrad.ops.functions import FUNCTIONS

MOST_LAYERS = 24
"""Maximum number of layers that the default depth of groups gives."""
MOST_STRETCHES = 12
"""Maximum number of layers made by distance from the output."""
MOST_ROWS = 32
"""Maximum number of layers in a table or chart."""
MOST_SAID = 6
"""Maximum number of findings of each kind that are shown."""
NAME = 32
"""Maximum width of a layer's name, in columns."""
EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
"""Bars of 0 to 7 eighths of a character."""
BY = ("group", "rank", "input")
"""What layers can be made of."""


@dataclass(frozen=True, repr=False)
class Flow(Report):
    """The gradient of a run, layer by layer from the output back, and where it vanishes or explodes."""

    layers: tuple[Layer, ...]
    findings: tuple[Finding, ...]

    def __getitem__(self, name: str) -> Layer:
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise InputError(f"the flow has no layer called {shown(name)}; it has {', '.join(x.name for x in self.layers)}")

    def lines(self) -> Iterator[str]:
        """Return a table of the layers, then the findings."""
        yield f"gradient flow through {counted(len(self.layers), 'layer')}, from the output back; sizes are per number"
        visible = worth_showing(self.layers)
        names = distinct([printable(layer.name) for layer in visible], NAME)
        width = max([5, *map(cells, names)])
        yield f"  {'layer':{width}}  {'numbers':>9}  {'rms':>8}  {'smallest':>8}  {'largest':>8}  zeros absent"
        lengths = _lengths([layer.rms for layer in visible])
        for name, layer, length in zip(names, visible, lengths, strict=True):
            yield f"  {name}{' ' * (width - cells(name))}  {_row(layer)}  {length}".rstrip()
        yield from _left_out(self.layers, visible)
        yield from _not_compared(self.layers)
        yield from _said(self.findings)

    def to_svg(self, *, theme: str = "auto") -> str:
        """Return the flow as a bar chart on a log scale; `theme` is light, dark or auto."""
        visible = worth_showing(self.layers)
        return bars(
            [_bar(layer) for layer in visible],
            title="Gradient flow, from the output (top) back to the inputs",
            description=str(self),
            axis="gradient, rms",
            other="values, rms",
            notes=[*_left_out(self.layers, visible), *_not_compared(self.layers), *_said(self.findings)],
            theme=theme,
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def flow(run: Run, *, by: str = "group", depth: int | None = None) -> Flow:
    """Measure the gradient of a run layer by layer, from the output back.

    Layers are groups cut to `depth` names (by default the depth that separates most of them), ranks, or inputs.

    >>> import wiregrad as wg
    >>> answer = flow(wg.circuit("a = tanh(9 * x); b = tanh(9 * a); y = tanh(9 * b)").run(x=1))
    >>> answer.findings[0].kind, answer.findings[0].layer
    ('vanishes', 't1')
    """
    if by not in BY:
        raise InputError(f"by must be one of {', '.join(BY)}; got {shown(by)}")
    if depth is not None and (type(depth) is not int or depth < 1):
        raise InputError(f"depth must be a positive integer, the names of a group's path to use; got {shown(depth)}")
    ranks = ranks_of(run.circuit)
    nodes = [node for node in moving(run) if ranks[node] >= 0]
    split = {"group": _by_group, "rank": _by_rank, "input": _by_input}[by](run.circuit, nodes, ranks, depth)
    order = sorted(split, key=lambda name: (name in split.apart, np.mean([ranks[node] for node in split[name]])))
    layers = tuple(_layer(run, name, split, ranks) for name in order)
    idle = [run.circuit.name_of(node) for node in run.circuit.input_indices() if ranks[node] < 0]
    own = [layer for layer in layers if not layer.shared]
    compared = [*_compared(run, split, own, ranks)]
    odd = [*findings(layers)]
    # "Steady" would be misleading beside a missing or non-finite gradient.
    going = [x for x in trend(compared, all_of=len(compared) == len(own)) if not odd or x.kind != "steady"]
    return Flow(layers, (*odd, *going, *unused(idle)))


def _compared(run: Run, split: Split, layers: Sequence[Layer], ranks: Sequence[int]) -> Iterator[Layer]:
    """Return the layers whose sizes can be compared: from the first named one on, without the output itself.

    The output's own gradient is always 1, and the nodes between the output and the first layer are the loss, whose
    scale is arbitrary.
    """
    root = run.circuit.root()
    named = [layer.name not in split.loose for layer in layers]
    for layer in layers[named.index(True) if any(named) else 0 :]:
        rest = [node for node in split[layer.name] if node != root]
        if len(rest) == len(split[layer.name]):
            yield layer
        elif rest:
            part = _layer(run, layer.name, Split({layer.name: rest}), ranks)
            yield replace(part, whole=brief(part.rms) == brief(layer.rms))


def ranks_of(circuit: Circuit) -> list[int]:
    """Return the distance of each node from the output, along the longest path; -1 if the output does not depend on it.

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


class Split(dict[str, list[int]]):
    """The nodes of each layer by its name.

    `loose` are the layers of nodes without a group, `apart` those of inputs that several layers read.
    """

    def __init__(self, layers: Mapping[str, list[int]], loose: Iterable[str] = (), apart: Iterable[str] = ()) -> None:
        super().__init__(layers)
        self.loose = frozenset(loose)
        self.apart = frozenset(apart)


def _with_shared_apart(circuit: Circuit, layers: Mapping[str, list[int]], loose: Iterable[str] = ()) -> Split:
    """Move the inputs that several layers read into a layer of their own."""
    shared = _shared(circuit, layers)
    if not shared:
        return Split(layers, loose)
    among = set(shared)
    rest = {name: [node for node in nodes if node not in among] for name, nodes in layers.items()}
    rest = {name: nodes for name, nodes in rest.items() if nodes}
    name = circuit.name_of(shared[0]) if len(shared) == 1 else "shared inputs"
    while name in rest:
        name += " (shared)"
    return Split({**rest, name: shared}, loose, [name])


def _shared(circuit: Circuit, layers: Mapping[str, Iterable[int]]) -> list[int]:
    """Return the inputs that more than one layer reads, and slices and reshaped forms of inputs that are."""
    places = {node: name for name, nodes in layers.items() for node in nodes}
    readers = circuit.readers()
    shared = set[int]()
    for node in reversed(_forms_of_inputs(circuit, places)):
        by = [reader for reader, _ in readers[node] if reader in places]
        # A node that only shared nodes read is shared too.
        if len({places[reader] for reader in by}) > 1 or (by and shared.issuperset(by)):
            shared.add(node)
    return sorted(shared)


def _forms_of_inputs(circuit: Circuit, places: Mapping[int, str]) -> list[int]:
    """Return the inputs and the nodes that only rearrange one, such as a slice or a transpose."""
    forms: dict[int, None] = {}
    for row in circuit.rows():
        rearranges = isinstance(row.op, Linear) and len(row.sources) == 1 and row.sources[0] in forms
        if row.node in places and (row.op is INPUT or rearranges):
            forms[row.node] = None
    return list(forms)


def _by_group(circuit: Circuit, nodes: Sequence[int], ranks: Sequence[int], depth: int | None) -> Split:
    paths = _paths(circuit, nodes)
    depth = depth or _telling_depth(set(paths.values()))
    named: dict[str, list[int]] = defaultdict(list)
    loose = []
    for node in nodes:
        if paths[node]:
            named["/".join(paths[node][:depth])].append(node)
        else:
            loose.append(node)
    if len(named) < 2:
        # A single group gives no layers to compare.
        return _by_rank(circuit, nodes, ranks, None)
    apart = [(_stretch_name(members, ranks), members) for members in _stretches(loose, ranks, len(named) + 1)]
    beside = {name for name, _ in apart if name not in named}
    for name, members in apart:
        named[name].extend(members)
    return _with_shared_apart(circuit, named, beside)


def _paths(circuit: Circuit, nodes: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the group path of each node; an input without a group belongs to its first reader."""
    readers = circuit.readers()
    paths = {}
    for node in nodes:
        view = Node(circuit, node)
        if not view.group and view.op is INPUT and readers[node]:
            view = Node(circuit, readers[node][0][0])
        paths[node] = tuple(view.group.split("/")) if view.group else ()
    return _own_paths(paths)


def _own_paths(paths: dict[int, tuple[str, ...]]) -> dict[int, tuple[str, ...]]:
    """Drop the innermost group of each path if it is a NumPy function."""
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
    return _with_shared_apart(circuit, _ranked(circuit, nodes, ranks))


def _ranked(circuit: Circuit, nodes: Sequence[int], ranks: Sequence[int]) -> dict[str, list[int]]:
    layers = {}
    for members in _stretches(nodes, ranks, MOST_STRETCHES):
        alone = len(members) == 1 and not is_automatic(circuit.name_of(members[0]))
        layers[circuit.name_of(members[0]) if alone else _stretch_name(members, ranks)] = members
    return layers


def _by_input(circuit: Circuit, nodes: Sequence[int], ranks: Sequence[int], _depth: int | None) -> Split:
    layers = {circuit.name_of(node): [node] for node in nodes if Node(circuit, node).op is INPUT}
    shared = map(circuit.name_of, _shared(circuit, _ranked(circuit, nodes, ranks)))
    return Split(layers, apart=layers.keys() & set(shared))


def _stretches(nodes: Sequence[int], ranks: Sequence[int], most: int) -> list[list[int]]:
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


def _layer(run: Run, name: str, split: Split, ranks: Sequence[int]) -> Layer:
    nodes = split[name]
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
        last=run.circuit.name_of(max(nodes)),
        shared=name in split.apart,
    )


def _smallest(part: Present) -> float:
    sizes = np.abs(magnitudes(part.numbers))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(sizes.min()) if sizes.size else math.nan


def worth_showing(layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers to show: all, or if there are too many the broken, the largest and the smallest, in order."""
    if len(layers) <= MOST_ROWS:
        return list(layers)
    each = MOST_ROWS // 4
    by_size = sorted((k for k, layer in enumerate(layers) if layer.rms > 0), key=lambda k: layers[k].rms)
    spoilt = [k for k, layer in enumerate(layers) if layer.gradient.nonfinite]
    nothing = [k for k, layer in enumerate(layers) if not layer.gradient.nonfinite and not layer.rms > 0]
    chosen = {*spoilt[:each], *nothing[:each], *by_size[:each], *by_size[-each:]}
    return [layers[k] for k in sorted(chosen)]


def _left_out(layers: Sequence[Layer], visible: Sequence[Layer]) -> Iterator[str]:
    """Summarize the layers that are not shown."""
    shown_names = {layer.name for layer in visible}
    rest = [layer for layer in layers if layer.name not in shown_names]
    if not rest:
        return
    sizes = [layer.rms for layer in rest if layer.rms > 0]
    spoilt = sum(bool(layer.gradient.nonfinite) for layer in rest)
    nothing = sum(not layer.gradient.nonfinite and not layer.rms > 0 for layer in rest)
    parts = [f"of sizes between {brief(min(sizes))} and {brief(max(sizes))}"] if sizes else []
    parts += [f"{spoilt:,} of them not finite"] if spoilt else []
    parts += [f"{nothing:,} of them zero"] if nothing else []
    yield f"and {counted(len(rest), 'layer')} more, {', '.join(parts)}"


def _not_compared(layers: Sequence[Layer]) -> Iterator[str]:
    """Name the layers of inputs that several layers read."""
    shared = [layer.name for layer in layers if layer.shared]
    if shared:
        yield f"not compared, because several layers read the same input: {listed(shared)}"


def _said(all_findings: Sequence[Finding]) -> Iterator[str]:
    """Return the findings, at most a few of each kind, and the counts of the rest."""
    seen: dict[str, int] = {}
    for finding in all_findings:
        seen[finding.kind] = seen.get(finding.kind, 0) + 1
        if seen[finding.kind] <= MOST_SAID:
            yield str(finding)
    for kind, number in seen.items():
        if number > MOST_SAID:
            yield f"and {number - MOST_SAID:,} more of kind {kind}"


def _row(layer: Layer) -> str:
    sizes = f"{layer.gradient.size:>9,}  {_size(layer.rms)}  {_size(layer.low)}  {_size(layer.gradient.high)}"
    spoilt = f"  {nonfinite_text(layer.gradient.nans, layer.gradient.infs)}" if layer.gradient.nonfinite else ""
    return f"{sizes}  {layer.zero_share:>5.0%} {layer.absent_share:>6.0%}{spoilt}"


def _size(number: float) -> str:
    return f"{'-' if math.isnan(number) else brief(number):>8}"


def _lengths(sizes: Sequence[float], width: int = 16) -> list[str]:
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
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8]


def _bar(layer: Layer) -> Bar:
    parts = []
    if layer.gradient.nonfinite:
        parts.append(nonfinite_text(layer.gradient.nans, layer.gradient.infs))
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
