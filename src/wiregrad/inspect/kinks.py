"""Which nodes of a run sit on a kink or near one, which slope they took there, and what others would give.

A node is near a kink if a small move of its inputs would reach it: by `within`, times the size of an input where that
is above 1. How far the kink's condition moves with the inputs is measured, so its own scale does not matter. Inputs
that no input of the circuit moves stand still. Ops that pick among the elements of an array are near a tie if the
next element is as near to the one they picked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import as_float, number, plain
from wiregrad.errors import InputError, shown
from wiregrad.inspect.report import Report
from wiregrad.ir import Node, Pattern, Place, Row
from wiregrad.ir.mode import Convention, decode, switched
from wiregrad.ops import Elementwise
from wiregrad.ops.array import ArrayOp
from wiregrad.ops.flow import settle
from wiregrad.ops.kinks import Kink
from wiregrad.passes import reverse
from wiregrad.passes.convention import with_convention

SHARED = "elements tie"
"""What the kink of an op that picks among the elements of an array is called; equal ones share its gradient."""


@dataclass(frozen=True)
class KinkPoint:
    """A node on a kink or near it.

    `on` elements lie exactly on the kink, `near` on or near it, out of `size`; `index` is the nearest one (the first,
    if several are) and () for a number. `distance` is the size of the kink's condition there. `convention` is the one
    the node uses and `slopes` are, by convention, the local slopes at that element of each input that moves: None
    where nothing is sent. An op that picks among elements has no conventions: ties share. A `jump` is a step of the
    value itself, which no slope sees.
    """

    node: str
    op: str
    expression: str
    place: Place | None
    doc: str
    jump: bool
    distance: float
    on: int
    near: int
    size: int
    index: tuple[int, ...]
    convention: str | None
    slopes: Mapping[str, Mapping[str, float | None]]

    def __str__(self) -> str:
        where = "" if self.place is None else f" ({self.place})"
        return f"{self.expression}{where} {self._position()}{self._choice()}"

    def _position(self) -> str:
        kind = f"{'step' if self.jump else 'kink'} ({self.doc})"
        if not self.index:
            return f"is on its {kind}" if self.on else f"is {number(self.distance)} from its {kind}"
        nearest = f"{number(self.distance)} from it at {list(self.index)}"
        first = f"the first at {list(self.index)}" if self.on else f"the nearest {nearest}"
        return f"has {self.on} of {self.size} on its {kind} and {self.near - self.on} near it, {first}"

    def _choice(self) -> str:
        if not self.on or self.jump:
            return ""
        if self.convention is None:
            return ": equal elements share the gradient"
        texts = {name: _slopes(slopes) for name, slopes in self.slopes.items()}
        if len(set(texts.values())) == 1:
            return f": every convention sends {texts[self.convention]}"
        others = [f"{name} {text}" for name, text in texts.items() if name != self.convention]
        return f": {self.convention} (used) sends {texts[self.convention]}, {', '.join(others)}"


@dataclass(frozen=True, repr=False)
class Kinks(Report):
    """The nodes of a run on or near a kink, and apart from them those on or near a step of their value.

    `alternatives` has, for each convention that a node on a kink does not use, the gradients of the inputs if all such
    nodes used it; empty if no node is on a kink.
    """

    within: float
    points: tuple[KinkPoint, ...]
    jumps: tuple[KinkPoint, ...]
    grads: Mapping[str, Any]
    alternatives: Mapping[str, Mapping[str, Any]]

    def lines(self) -> Iterator[str]:
        """Return how many there are, a line for each, and what other conventions would give."""
        if not self.points and not self.jumps:
            yield f"no node is on a kink, or within {number(self.within)} of one"
            return
        on = {point.node for point in self.points if point.on}
        near = {point.node for point in self.points} - on
        steps = {point.node for point in self.jumps}
        yield f"{_nodes(len(on))} on a kink, {len(near)} near one, {len(steps)} on or near a step"
        yield from (f"  {point}" for point in (*self.points, *self.jumps))
        for name, grads in self.alternatives.items():
            changed = {key: grad for key, grad in grads.items() if not _same(grad, self.grads[key])}
            texts = [f"{key} {number(self.grads[key])} -> {number(grad)}" for key, grad in changed.items()]
            yield f"by {name} {'no gradient would change' if not texts else 'gradients would be ' + ', '.join(texts)}"


def kinks(run: Run, within: float = 1e-6) -> Kinks:
    """Return the nodes on a kink or within a small move of one.

    >>> import wiregrad as wg
    >>> kinks(wg.circuit("f = maximum(x, 0) * 3").run(x=0))
    1 node on a kink, 0 near one, 0 on or near a step
      t1 = maximum(x, 0.0) (formula:1:5) is on its kink (a = b): min_norm (used) sends nothing, torch 0.5, jax 0.5
    by torch gradients would be x 0 -> 1.5
    by jax gradients would be x 0 -> 1.5
    """
    reach = as_float(within)
    if reach is None or not 0.0 <= reach < np.inf:
        raise InputError(f"within is how far a kink may be: a finite number from 0; got {shown(within)}")
    with np.errstate(all="ignore"):
        found = list(_points(run, float(reach)))
        alternatives = _alternatives(run, found)
    ordered = sorted(found, key=lambda point: (not point.on, point.distance))
    return Kinks(
        within=float(reach),
        points=tuple(point for point in ordered if not point.jump),
        jumps=tuple(point for point in ordered if point.jump),
        grads=run.grads,
        alternatives=alternatives,
    )


def _points(run: Run, within: float) -> Iterator[KinkPoint]:
    active = run.circuit.active()
    for row in run.circuit.rows():
        moving = [slot for slot, source in enumerate(row.sources) if active[source]]
        if moving and isinstance(row.op, Elementwise):
            yield from _on_kinks(run, row, moving, within)
        elif moving and isinstance(row.op, ArrayOp) and row.op.gap is not None:
            x, y = run.values[row.sources[0]], run.values[row.node]
            distance = np.asarray(row.op.gap(x, y, **row.op.options))
            # What was picked sets the scale; an index has none.
            scale = 1.0 if row.op.pattern is Pattern.BLOCK else np.maximum(1.0, np.abs(y))
            yield from _point(run, row, moving, None, distance, within * scale)


def _on_kinks(run: Run, row: Row, moving: Sequence[int], within: float) -> Iterator[KinkPoint]:
    xs = [run.values[source] for source in row.sources]
    taken = np.zeros(np.shape(run.values[row.node]), bool)
    # The last kink of a record overrules those before it: where three inputs meet, two of them do as well.
    for kink in reversed(row.op.kinks):
        distance = np.abs(_condition(kink, xs))
        shown = distance if kink.jump else np.where(taken, np.inf, distance)
        yield from _point(run, row, moving, kink, shown, _reach(kink, xs, moving, within))
        taken = taken if kink.jump else taken | (distance == 0.0)


def _reach(kink: Kink, xs: Sequence[Any], moving: Sequence[int], within: float) -> Any:
    """Return how far a kink's condition moves when each of the inputs that can makes a small move."""
    found, here = 0.0, _condition(kink, xs)
    for slot in moving:
        moved = [*xs[:slot], xs[slot] + within * np.maximum(1.0, np.abs(xs[slot])), *xs[slot + 1 :]]
        found = found + np.abs(_condition(kink, moved) - here)
    return found


def _condition(kink: Kink, xs: Sequence[Any]) -> Any:
    # A number where the input that decides is a condition, which cannot be subtracted.
    return 1.0 * np.asarray(kink.at(*xs))


def _point(
    run: Run, row: Row, moving: Sequence[int], kink: Kink | None, distance: Any, reach: Any
) -> Iterator[KinkPoint]:
    """Return a node's place on or near a kink, if it has one; None stands for a tie of elements."""
    on = distance == 0.0
    near = on | (np.isfinite(distance) & (distance <= reach))
    if not np.any(near):
        return
    view = Node(run.circuit, row.node)
    index = tuple(int(k) for k in np.unravel_index(np.argmin(np.where(near, distance, np.inf)), distance.shape))
    convention, _ = decode(row.mode)
    yield KinkPoint(
        node=view.name,
        op=row.op.name,
        expression=str(view),
        place=view.place,
        doc=SHARED if kink is None else kink.doc,
        jump=row.op.pattern is Pattern.BLOCK if kink is None else kink.jump,
        distance=float(distance[index]),
        on=int(np.sum(on)),
        near=int(np.sum(near)),
        size=distance.size,
        index=index,
        convention=None if kink is None else convention.label,
        slopes={} if kink is None or kink.jump else _slopes_at(run, row, moving, index),
    )


def _slopes_at(
    run: Run, row: Row, moving: Sequence[int], index: tuple[int, ...]
) -> Mapping[str, Mapping[str, float | None]]:
    """Return the local slopes of an element by each convention."""
    xs = [run.values[source][index] if index else run.values[source] for source in row.sources]
    y = run.values[row.node][index] if index else run.values[row.node]
    return {
        convention.label: {
            row.op.input_name(slot): _plain_slope(row.op.local(slot, xs, y, switched(row.mode, convention)))
            for slot in moving
        }
        for convention in Convention
    }


def _plain_slope(slope: Any) -> Any:
    return None if slope is None else plain(np.asarray(settle(slope))[()])


def _alternatives(run: Run, points: Sequence[KinkPoint]) -> Mapping[str, Mapping[str, Any]]:
    """Return the gradients by the conventions that nodes on a kink do not use."""
    chosen = {point.node: point.convention for point in points if point.on and not point.jump and point.convention}
    others = [convention.label for convention in Convention if set(chosen.values()) - {convention.label}]
    return {name: _grads(run, name, list(chosen)) for name in others}


def _grads(run: Run, convention: str, nodes: Sequence[str]) -> Mapping[str, Any]:
    circuit = with_convention(run.circuit, convention, nodes)
    root = circuit.root()
    flows = reverse(circuit, run.values, {root: run.flows[root]}, _Silent())
    return Run(circuit, run.values, flows, ()).grads


class _Silent:
    """Watches a sweep and says nothing."""

    def node(self, row: Row, upstream: Any) -> None:
        pass

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        pass


def _slopes(slopes: Mapping[str, float | None]) -> str:
    texts = {name: "nothing" if slope is None else number(slope) for name, slope in slopes.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return " and ".join(f"{text} to {name}" for name, text in texts.items())


def _same(one: Any, two: Any) -> bool:
    return np.array_equal(one, two, equal_nan=True)


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
