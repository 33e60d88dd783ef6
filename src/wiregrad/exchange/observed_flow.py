"""How the gradients of a watched program flow, layer by layer, and where they vanish, explode or stop.

A layer is a call of a module, or outside of modules a line. Its size is that of the gradient that arrived at it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wiregrad.draw.layout.boxes import format_nonfinite
from wiregrad.exchange.observed_explain import (
    MIN_DEAD_UNIT_SHARE,
    SATURATING_OPS,
    GradientSearch,
    count_dead_units,
    is_rectifier,
)
from wiregrad.exchange.observed_run import (
    CUTTING_OPS,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    describe_accumulation,
    describe_source,
    find_nonfinite,
    measure,
    name_broken,
)
from wiregrad.exchange.observed_terms import find_unmoved_terms
from wiregrad.exchange.observed_training import TrainingFaults
from wiregrad.inspect.flow import Flow, FlowFinding, FlowLayer, find_trend, format_layer_row, join_tallies
from wiregrad.ir import Place


@dataclass(frozen=True)
class ObservedFlowFinding(FlowFinding):
    """A finding about the flow, with the op behind it."""

    op: str = ""
    module: str = ""
    place: Place | None = None

    @property
    def said(self) -> str:
        """The finding in one sentence."""
        return self.sentence

    def __str__(self) -> str:
        if self.place is None:
            return self.sentence
        module = f" in {self.module}" if self.module else ""
        return f"{self.sentence} ({f'{self.op} ' if self.op else ''}at {self.place}{module})"


@dataclass(frozen=True, repr=False)
class ObservedFlow(Flow):
    """The gradients of a framework's run, layer by layer from the loss back."""

    source: str = ""

    @property
    def rows(self) -> Sequence[FlowLayer]:
        """The layers as the table shows them: those of one line that say the same as the one before share a row."""
        return [fold_layers(group) for group in group_alike(self.layers)]

    def lines(self) -> Iterator[str]:
        """Return the table of layers, the findings and what they were read from."""
        yield from super().lines()
        folded = next((row.name for row in self.rows if row not in self.layers), "")
        if folded:
            yield f"a row such as {folded} holds several layers of one line, whose numbers are equal"
        yield self.source


NUMBERED_LINE = re.compile(r"(?P<line>.+:\d+) \[(?P<number>\d+)\]")
"""The name of a layer of a line that has several, as `model.py:12 [3]`."""


def group_alike(layers: Sequence[FlowLayer]) -> Iterator[list[FlowLayer]]:
    """Group layers that follow each other, belong to one line and have the same row in the table.

    >>> from wiregrad.inspect.flow import Tally
    >>> layers = [FlowLayer(f"a.py:7 [{k}]", (k, k), 1, Tally(4), 0, 0.0, Tally()) for k in range(3)]
    >>> [len(group) for group in group_alike([*layers, replace(layers[0], name="relu")])]
    [3, 1]
    """

    def write_key(layer: FlowLayer) -> tuple[str, str]:
        match = NUMBERED_LINE.fullmatch(layer.name)
        return (layer.name, "") if match is None else (match["line"], format_layer_row(layer))

    return (list(group) for _, group in itertools.groupby(layers, write_key))


def fold_layers(layers: Sequence[FlowLayer]) -> FlowLayer:
    """Return one layer for several of one line, named after the first and the last.

    >>> from wiregrad.inspect.flow import Tally
    >>> layers = [FlowLayer(f"a.py:7 [{k}]", (k, k), 1, Tally(4), 0, 0.0, Tally()) for k in range(3)]
    >>> fold_layers(layers).name
    'a.py:7 [0-2]'
    """
    if len(layers) == 1:
        return layers[0]
    last = layers[-1].name.rpartition("[")[2]
    return replace(layers[0], name=f"{layers[0].name.removesuffix(']')}-{last}")


MIN_DEAD_SHARE = 0.9
"""A rectifier whose results are 0 in this share is called dead."""


def group_layers(run: ObservedRun) -> list[tuple[str, list[ObservedGradient]]]:
    """Group gradients by the call of a module, or outside of modules by line and repetition, from the loss back."""
    keys = {op.index: key for op, key in zip(run.ops, list_layer_keys(run), strict=True)}
    layers: dict[tuple[str, int], list[ObservedGradient]] = {}
    for gradient in run.gradients:
        layers.setdefault(keys[gradient.op], []).append(gradient)
    names = [name for name, _ in layers]
    seen: dict[str, int] = {}
    found = []
    for (name, _), gradients in layers.items():
        seen[name] = seen.get(name, -1) + 1
        found.append((f"{name} [{seen[name]}]" if names.count(name) > 1 else name, gradients))
    return found


def list_layer_keys(run: ObservedRun) -> Iterator[tuple[str, int]]:
    """Yield for each op its module and the number of its call, or its line and how often the line ran before."""
    repeats: dict[Any, int] = {}
    for op in run.ops:
        if op.module or op.site is None:
            yield op.module, op.module_call
        else:
            repeats[op.site] = repeats.get(op.site, 0) + 1
            yield str(op.site.place.without_folder()), repeats[op.site]


def measure_layer(run: ObservedRun, name: str, rank: int, gradients: Sequence[ObservedGradient]) -> FlowLayer:
    """Measure the gradient that arrived at a layer, and the values it returned."""
    first = gradients[0]
    tally = join_tallies(measure(run, held) for held in first.received if held is not None)
    outputs = [run.tensors[k].held for k in run.ops[first.op].outputs[:1]]
    value = join_tallies(measure(run, held) for held in outputs)
    return FlowLayer(name, (rank, rank), len(gradients), tally, 0, math.nan, value)


def flow_run(run: ObservedRun, steps: Sequence[ObservedRun] = ()) -> ObservedFlow:
    """Measure gradients layer by layer, and find where they vanish, explode or stop.

    `steps` are the steps that are known, for what is wrong with the training.
    """
    groups = group_layers(run)
    layers = [measure_layer(run, name, rank, gradients) for rank, (name, gradients) in enumerate(groups)]
    odd = [
        *find_broken(run, layers),
        *find_dead(run),
        *find_outer_broadcasts(run),
        *find_missing(run),
        *find_unmoved(run),
        *find_accumulated(run),
        *find_training_faults(steps),
    ]
    # "Steady" would be misleading beside a missing or broken gradient.
    trends = [finding for finding in find_trends(run, layers, groups) if not odd or finding.kind != "steady"]
    findings = [*odd, *trends]
    return ObservedFlow(tuple(layers), tuple(findings), describe_source(run))


def find_broken(run: ObservedRun, layers: Sequence[FlowLayer]) -> Iterator[ObservedFlowFinding]:
    """Report a loss that is not finite, and the first layer with a gradient that is not."""
    for root in dict.fromkeys(run.roots):
        held = run.tensors[root].held
        if any(find_nonfinite(run, held)):
            name = run.tensors[root].name or "the loss"
            said = f"{name} has {name_broken(run, held)}; ask seen.blame() where from"
            yield ObservedFlowFinding("nonfinite", name, math.nan, said)
    layer = next((layer for layer in layers if layer.gradient.nonfinite), None)
    if layer is not None:
        what = format_nonfinite(layer.gradient.nans, layer.gradient.infs)
        said = f"{what} in the gradient, first at {layer.name}; ask seen.blame() where from"
        yield ObservedFlowFinding("nonfinite", layer.name, math.nan, said)


def find_unmoved(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report terms of the loss that move no parameter."""
    for term in find_unmoved_terms(run):
        op = term.op
        yield ObservedFlowFinding("unmoved", op.title, 0.0, term.said, op.title, op.module, op.place)


def find_accumulated(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report gradients that were added to those of a step before, which an optimizer had used."""
    for said in describe_accumulation(run):
        yield ObservedFlowFinding("accumulates", run.accumulated[0], math.nan, said)


def find_training_faults(steps: Sequence[ObservedRun]) -> Iterator[ObservedFlowFinding]:
    """Report what is wrong with the steps of a training."""
    for fault in TrainingFaults(steps).search() if steps else ():
        yield ObservedFlowFinding(fault.kind, fault.name, math.nan, fault.said, place=fault.place)


def find_trends(
    run: ObservedRun, layers: Sequence[FlowLayer], groups: Sequence[tuple[str, list[ObservedGradient]]]
) -> Iterator[ObservedFlowFinding]:
    """Report whether the gradient vanishes or explodes between layers, and the op with the steepest step."""
    compared = [layer for layer in layers if layer.gradient.size > 1]
    order = {name: rank for rank, (name, _) in enumerate(groups)}
    for finding in find_trend(compared, all_of=True):
        passed = [gradient for _, gradients in groups[: order[finding.layer] + 1] for gradient in gradients]
        is_steady = finding.kind == "steady"
        steepest = None if is_steady else find_steepest(run, passed, grows=finding.kind == "explodes")
        facts = finding.kind, finding.layer, finding.ratio, finding.sentence
        if steepest is None:
            yield ObservedFlowFinding(*facts)
        else:
            op = run.ops[steepest.op]
            yield ObservedFlowFinding(*facts, op.title, op.module, op.place)


def find_steepest(run: ObservedRun, gradients: Sequence[ObservedGradient], *, grows: bool) -> ObservedGradient | None:
    """Return the op that changed the size of the gradient most; reductions and copies are left out."""
    best: tuple[float, ObservedGradient] | None = None
    for gradient in gradients:
        received = join_tallies(measure(run, held) for held in gradient.received if held is not None)
        flows = [held for held, target in zip(gradient.sent, gradient.targets, strict=False) if is_inner(run, target)]
        sent = join_tallies(measure(run, held) for held in flows if held is not None)
        if received.size < 2 or not received.rms > 0 or not sent.size or math.isnan(sent.rms):
            continue
        ratio = sent.rms / received.rms
        steepness = ratio if grows else 1.0 / max(ratio, 1e-300)
        if best is None or steepness > best[0]:
            best = steepness, gradient
    return None if best is None else best[1]


def is_inner(run: ObservedRun, target: int | None) -> bool:
    """Return whether a gradient goes on, and does not end at a parameter."""
    return target is None or run.tensors[target].producer is not None


def find_dead(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report rectifiers whose results are nearly all 0, and those many of whose units are 0 in all rows."""
    for op in run.ops:
        if not is_rectifier(op) or not op.outputs or op.index not in run.rules:
            continue
        tally = measure(run, run.tensors[op.outputs[0]].held)
        if tally.size and tally.zero_share >= MIN_DEAD_SHARE:
            said = f"{op.title} is dead: {tally.zero_share:.0%} of its results are 0 and pass no gradient on"
            yield ObservedFlowFinding("dead", op.module, tally.zero_share, said, op.title, op.module, op.place)
            continue
        units = count_dead_units(run, op)
        if units is not None and units.share >= MIN_DEAD_UNIT_SHARE:
            said = f"{op.title} is dead in part: {units.text}"
            yield ObservedFlowFinding("dead", op.module, units.share, said, op.title, op.module, op.place)


def find_outer_broadcasts(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report an op that combines a column (n, 1) with a row (n,), which gives all n * n pairs."""
    for op in run.ops:
        shapes = [run.tensors[k].shape for k in (*op.inputs, *op.outputs)]
        sources = [find_shape_before_expand(run, op, k) for k in op.inputs]
        if op.phase != "forward" or len(sources) != 2:
            continue
        column, row = sorted(sources, key=len, reverse=True)
        if column == (*row, 1) and len(row) == 1 and row[0] > 1 and row * 2 in shapes:
            said = f"{op.title} combines {column} with {row} to all pairs {row * 2}; pairs of the same row are usual"
            yield ObservedFlowFinding("broadcast", op.module, math.nan, said, op.title, op.module, op.place)


def find_shape_before_expand(run: ObservedRun, reader: ObservedOp, tensor: int) -> tuple[int, ...]:
    """Return the shape of a tensor before it was broadcast for an op that reads it."""
    while (producer := run.tensors[tensor].producer) is not None:
        op = run.ops[producer]
        # In JAX, x[:, None] is a broadcast too, but one that the user wrote.
        is_broadcast = op.title == "expand" or (op.title == "broadcast_in_dim" and op.site == reader.site)
        if not is_broadcast or not op.inputs:
            break
        tensor = op.inputs[0]
    return run.tensors[tensor].shape


def is_copied(run: ObservedRun) -> bool:
    """Return whether parameters were read, but none of those of the watched module."""
    read = {run.tensors[number].name for number in run.readers}
    return bool(run.watched) and read.isdisjoint(run.watched) and not read.isdisjoint(run.parameters)


def find_missing(run: ObservedRun) -> Iterator[ObservedFlowFinding]:
    """Report parameters that want a gradient and got none, or only zeros; one for each op that stopped it."""
    if not run.gradients:
        return
    if is_copied(run):
        others = [name for name in run.parameters if name not in run.watched]
        said = (
            f"no op read any of the {len(run.watched)} parameters of the watched module, only others such as "
            f"{others[0]}: watch the module that runs, not one that it was copied from or to"
        )
        yield ObservedFlowFinding("unused", next(iter(run.watched)), 0.0, said)
        return
    named: set[tuple[str, str, Place | None]] = set()
    trained = {
        run.tensors[k].name for op in run.ops if op.grad_enabled and op.title not in CUTTING_OPS for k in op.inputs
    }
    for name, wants_gradient in run.parameters.items():
        # A module beside the one that is watched may only be computed, as an average of its parameters is.
        is_aside = bool(run.watched) and name not in run.watched and name not in trained
        if not wants_gradient or is_aside:
            continue
        kind, finding = GradientSearch(run, name).explain()
        if kind in ("cut", "unused", "zero") and (kind, finding.op, finding.place) not in named:
            if finding.place is not None:
                named.add((kind, finding.op, finding.place))
            if kind == "zero" and finding.op in SATURATING_OPS:
                kind = "vanishes"
            yield ObservedFlowFinding(kind, name, 0.0, finding.said, finding.op, finding.module, finding.place)
