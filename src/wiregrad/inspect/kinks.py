"""Which nodes of a run are on or near a kink, which slope they used there, and what other conventions would give.

A node is near a kink if a small move of its inputs would reach it: a move of `within`, times the magnitude of the input
where that is above 1. How far the kink's condition moves with the inputs is measured, so the scale of the condition
does not matter. Only inputs that depend on an input of the circuit move, and inputs that are the same wire move
together: `maximum(x, x)` is smooth. Ops that pick among the elements of an array are near a tie if the next element is
that close to the picked one.

Kinks are known per op. A function made of several ops shows the step of the op that chooses: `np.sort` and `np.median`
their order, `np.linalg.norm` at 0 a comparison. Equal eigenvalues and singular values, and powers at 0, are not
detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord
from wiregrad.dtypes import as_float, count_with_noun, format_brief_number, to_python_number
from wiregrad.errors import InputError, short_repr
from wiregrad.inspect.report import GradientFlow, Report, RunIndex, describe_node, format_capped_list, format_place
from wiregrad.ir import TABLE, Node, Op, Pattern, Place, Row
from wiregrad.ir.columns import Convention, decode_mode, join_first_names, switch_convention
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, Kink
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent
from wiregrad.passes import SilentWatcher, sweep_backward
from wiregrad.passes.rewriting import set_convention_at

TIE_DOC = "elements tie"
"""Description of the kink of an op that picks among the elements of an array; tied elements share the gradient."""
MAX_KINK_LINES = 20
"""Maximum number of nodes that get a line of their own."""
PROBE_STEP = 1e-6
"""How far inputs are moved to test whether a kink's condition moves at all."""


@dataclass(frozen=True)
class KinkPoint:
    """A node on a kink or near it.

    `on` elements are exactly on the kink, `near` on or near it, out of `size`. `index` is the nearest element (the
    first of several) and () for a number. `distance` is the magnitude of the kink's condition there. `convention` is
    the one that the node uses. `slopes` holds, by convention, the local slope at that element for each input that
    moves; None where nothing is sent. An op that picks among elements has no conventions: ties share the gradient. A
    `jump` is a step of the value itself, which no slope shows; nodes that choose by it (`chooses`) may have a kink
    there.
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
    chooses: bool

    def __str__(self) -> str:
        return f"{self.expression}{format_place(self.place)} {self._describe_position()}{self._describe_choice()}"

    def _describe_position(self) -> str:
        kind = f"{'step' if self.jump else 'kink'} ({self.doc})"
        if not self.index:
            return f"is on its {kind}" if self.on else f"is {format_brief_number(self.distance)} from its {kind}"
        nearest = f"{format_brief_number(self.distance)} from it at {list(self.index)}"
        first = f"the first at {list(self.index)}" if self.on else f"the nearest {nearest}"
        return f"has {self.on} of {self.size} on its {kind} and {self.near - self.on} near it, {first}"

    def _describe_choice(self) -> str:
        if self.jump:
            return ": what is chosen by it may have a kink there" if self.chooses else ""
        if not self.on:
            return ""
        if self.convention is None:
            return ": equal elements share the gradient"
        texts = {name: _format_slopes(slopes) for name, slopes in self.slopes.items()}
        if len(set(texts.values())) == 1:
            return f": every convention sends {texts[self.convention]}"
        others = [f"{name} {text}" for name, text in texts.items() if name != self.convention]
        return f": {self.convention} (used) sends {texts[self.convention]}, {', '.join(others)}"


@dataclass(frozen=True, repr=False)
class Kinks(Report):
    """The nodes of a run on or near a kink, and separately those on or near a step of their value.

    `alternatives` holds, for each convention that some node on a kink does not use, the gradients of the inputs if all
    such nodes used it; empty if no node is on a kink.
    """

    within: float
    points: tuple[KinkPoint, ...]
    jumps: tuple[KinkPoint, ...]
    grads: Mapping[str, Any]
    alternatives: Mapping[str, Mapping[str, Any]]

    def lines(self) -> Iterator[str]:
        """Return the counts, a line for each node, and what other conventions would give."""
        if not self.points and not self.jumps:
            yield f"no node is on a kink, or within {format_brief_number(self.within)} of one"
            return
        on = {point.node for point in self.points if point.on}
        near = {point.node for point in self.points} - on
        steps = {point.node for point in self.jumps}
        yield f"{count_with_noun(len(on), 'node')} on a kink, {len(near):,} near one, {len(steps):,} on or near a step"
        yield from format_capped_list((*self.points, *self.jumps), MAX_KINK_LINES)
        for name, grads in self.alternatives.items():
            changed = {key: grad for key, grad in grads.items() if not _same_numbers(grad, self.grads[key])}
            texts = [
                f"{key} {format_brief_number(self.grads[key])} -> {format_brief_number(grad)}"
                for key, grad in changed.items()
            ]
            change = (
                f"gradients would be {join_first_names(texts, MAX_KINK_LINES)}" if texts else "no gradient would change"
            )
            yield f"by {name} {change}"


def kinks(run: RunRecord, within: float = 1e-6) -> Kinks:
    """Return the nodes on a kink or within a small move of one.

    >>> import wiregrad as wg
    >>> kinks(wg.circuit("f = maximum(x, 0) * 3").run(x=0))
    1 node on a kink, 0 near one, 0 on or near a step
      maximum(x, 0.0) (formula:1:5) is on its kink (a = b): min_norm (used) sends nothing, torch 0.5, jax 0.5
    by torch gradients would be x 0 -> 1.5
    by jax gradients would be x 0 -> 1.5
    """
    reach = as_float(within)
    if reach is None or not 0.0 <= reach < np.inf:
        raise InputError(f"within must be a finite number of at least 0; got {short_repr(within)}")
    with np.errstate(all="ignore"):
        points = _find_points(RunIndex(run), float(reach), run.circuit.rows())
        items = sorted(points, key=lambda item: (not item[1].on, item[1].distance, item[0]))
        alternatives = _gradients_by_convention(run, items)
    return Kinks(
        within=float(reach),
        points=tuple(point for _, point in items if not point.jump),
        jumps=tuple(point for _, point in items if point.jump),
        grads=run.grads,
        alternatives=alternatives,
    )


def describe_choices(index: RunIndex, rows: Sequence[Row], *, with_slopes: bool = True) -> Iterator[str]:
    """Describe the nodes among some rows that are exactly on a kink, and the steps that chose a side there.

    `with_slopes=False` leaves out the kinks of values, at which a convention sets the slope.

    >>> import wiregrad as wg
    >>> index = RunIndex(wg.circuit("maximum(a, b)").run(a=2.0, b=2.0))
    >>> print(*describe_choices(index, index.rows))
    f = maximum(a, b) (formula:1:1) is on its kink (a = b): every convention sends 0.5 to a and 0.5 to b
    """
    points = [item for item in _find_points(index, 0.0, rows) if item[1].on and _decides(index, *item)]
    chosen = [(node, point) for node, point in points if with_slopes or point.jump]
    for node, point in chosen[:MAX_CHOICES]:
        taken = ": the gradient is that of the side that Python took" if point.jump and not point.chooses else ""
        alone = EQUALITY_ADVICE if taken and index.rows[node].op in EQUALITIES else ""
        yield f"{point}{taken}{alone}"
    if len(chosen) > MAX_CHOICES:
        yield f"{len(chosen) - MAX_CHOICES} more nodes are on a kink or step: run.kinks() lists them"


EQUALITIES = (TABLE.infix["=="], TABLE.infix["!="])
EQUALITY_ADVICE = (
    ", which is written for this point alone; where it leaves out a number on which the other side depends, write a "
    "formula for numbers near each other, such as the first terms of a series in their difference"
)
"""What is said of the gradient at a point where two numbers are equal, as at k == f."""
MAX_CHOICES = 2
"""Maximum number of nodes on a kink that get a line of their own in an explanation."""


def _decides(index: RunIndex, node: int, point: KinkPoint) -> bool:
    """Return whether the gradient of the output depends on what a node on a kink or step does."""
    if not point.jump:
        return index.flows[node] is not None
    return point.chooses or any(certificate.node == node for certificate in index.circuit.certificates)


_NodePoint = tuple[int, KinkPoint]
"""The index of a node, and its point."""


class _KinkKind(NamedTuple):
    """The properties that nodes must share to be examined in one batch."""

    op: Elementwise
    mode: int
    moving: tuple[int, ...]
    same: tuple[int, ...]
    """For each input, the first input that is the same wire."""


class _KinkBatch(NamedTuple):
    """Nodes of one kind with their numbers: the elements of one array node, or one number for each of several nodes."""

    kind: _KinkKind
    nodes: Sequence[int]
    xs: Sequence[Any]
    y: Any
    alone: bool
    """Whether the numbers are the elements of one node."""

    def nearest_spots(self, near: NDArray[np.bool_], distance: NDArray[Any]) -> list[tuple[int, ...]]:
        """Return the index of the nearest number of each node that is near a kink."""
        if self.alone:
            return [_nearest_index(near, distance)] if np.any(near) else []
        return [(k,) for k in np.flatnonzero(near).tolist()]

    def node_of_spot(self, spot: tuple[int, ...]) -> int:
        """Return the node to which a number belongs."""
        return self.nodes[0 if self.alone else spot[0]]


def _nearest_index(near: NDArray[np.bool_], distance: NDArray[Any]) -> tuple[int, ...]:
    index = np.unravel_index(np.argmin(np.where(near, distance, np.inf)), distance.shape)
    return tuple(int(k) for k in index)


def _find_points(index: RunIndex, within: float, rows: Iterable[Row]) -> Iterator[_NodePoint]:
    origins = index.circuit.origins().tolist()
    scalars: dict[Any, list[int]] = {}
    for row in rows:
        moving = tuple(index.active_slots(row)) if _can_have_kink(row.op) else ()
        if not moving:
            continue
        if not isinstance(row.op, Elementwise):
            yield from _points_on_ties(index, row, within)
            continue
        wires = [origins[source] for source in row.sources]
        kind = _KinkKind(row.op, row.mode, moving, tuple([wires.index(wire) for wire in wires]))
        xs = index.input_values(row.node)
        y = index.values[row.node]
        if np.ndim(y):
            yield from _points_on_kinks(index, _KinkBatch(kind, [row.node], xs, y, True), within)
        else:
            scalars.setdefault((kind, tuple([x.dtype for x in xs])), []).append(row.node)
    for (kind, _), nodes in scalars.items():
        yield from _points_on_kinks(index, _stack_scalars(index, kind, nodes), within)


def _can_have_kink(op: Op) -> bool:
    """Return whether an op has a kink or a step, or picks among the elements of an array."""
    return bool(op.kinks) if isinstance(op, Elementwise) else isinstance(op, ArrayOp) and op.gap is not None


def _stack_scalars(index: RunIndex, kind: _KinkKind, nodes: Sequence[int]) -> _KinkBatch:
    """Stack the numbers of scalar nodes in arrays, so that each op is evaluated once."""
    xs = [np.array(column) for column in zip(*map(index.input_values, nodes), strict=True)]
    return _KinkBatch(kind, nodes, xs, np.array([index.values[node] for node in nodes]), False)


def _points_on_kinks(index: RunIndex, batch: _KinkBatch, within: float) -> Iterator[_NodePoint]:
    kind = batch.kind
    xs = batch.xs
    taken = np.zeros(np.shape(batch.y), bool)
    # A later kink of the record takes precedence: where three inputs meet, two of them do as well.
    for kink in reversed(kind.op.kinks):
        distance = np.abs(_kink_condition(kink, xs))
        there = np.where(_is_smooth(kink, kind, xs), np.inf, distance)
        left = there if kink.jump else np.where(taken, np.inf, there)
        on = left == 0.0
        near = on | (np.isfinite(left) & (left <= _condition_reach(kink, kind, xs, within)))
        spots = batch.nearest_spots(near, left)
        for spot, slopes in zip(spots, _slopes_at(batch, kink, spots), strict=True):
            spread = _KinkSpread.count_near(on, near, left, spot, alone=batch.alone)
            yield batch.node_of_spot(spot), _make_point(index, batch.node_of_spot(spot), kink, spread, slopes)
        taken = taken if kink.jump else taken | (distance == 0.0)


def _points_on_ties(index: RunIndex, row: Row, within: float) -> Iterator[_NodePoint]:
    assert isinstance(row.op, ArrayOp)
    assert row.op.gap is not None
    x = index.values[row.sources[0]]
    y = index.values[row.node]
    distance = np.asarray(row.op.gap(x, y, **row.op.options))
    # The picked value sets the scale; an index has none.
    scale = 1.0 if row.op.pattern is Pattern.BLOCK else np.maximum(1.0, np.abs(y))
    on = distance == 0.0
    near = on | (np.isfinite(distance) & (distance <= within * scale))
    if np.any(near):
        spread = _KinkSpread.count_near(on, near, distance, _nearest_index(near, distance), alone=True)
        yield row.node, _make_point(index, row.node, None, spread, {})


def _move_wires(kind: _KinkKind, xs: Sequence[Any], by: float) -> Iterator[list[Any]]:
    """Return the inputs with one wire moved a little, on all inputs that read it, for each wire that moves."""
    for wire in sorted({kind.same[slot] for slot in kind.moving}):
        yield [
            x + by * np.maximum(1.0, np.abs(x)) if first == wire else x for x, first in zip(xs, kind.same, strict=True)
        ]


def _condition_reach(kink: Kink, kind: _KinkKind, xs: Sequence[Any], within: float) -> float | NDArray[Any]:
    """Return how far a kink's condition moves when each wire that can makes a small move."""
    here = _kink_condition(kink, xs)
    return sum([np.abs(_kink_condition(kink, moved) - here) for moved in _move_wires(kind, xs, within)], 0.0)


def _is_smooth(kink: Kink, kind: _KinkKind, xs: Sequence[Any]) -> np.bool_ | NDArray[np.bool_]:
    """Return where a kink's condition never changes, because the inputs that meet on it are the same wire."""
    if len(set(kind.same)) == len(kind.same):
        return np.False_
    still: np.bool_ | NDArray[np.bool_] = np.asarray(_condition_reach(kink, kind, xs, PROBE_STEP)) == 0.0
    return still


def _kink_condition(kink: Kink, xs: Sequence[Any]) -> NDArray[Any]:
    # As a float, because booleans cannot be subtracted.
    return 1.0 * np.asarray(kink.at(*xs))


class _KinkSpread(NamedTuple):
    """How many numbers of a node are on or near a kink, and the nearest one."""

    on: int
    near: int
    size: int
    distance: float
    spot: tuple[int, ...]

    @classmethod
    def count_near(
        cls,
        on: NDArray[np.bool_],
        near: NDArray[np.bool_],
        distance: NDArray[Any],
        spot: tuple[int, ...],
        *,
        alone: bool,
    ) -> _KinkSpread:
        """Count for one node: all numbers if they are its elements, else only its own."""
        if alone:
            return cls(int(np.sum(on)), int(np.sum(near)), np.size(distance), float(distance[spot]), spot)
        return cls(int(on[spot]), 1, 1, float(distance[spot]), ())


def _make_point(
    index: RunIndex, node: int, kink: Kink | None, spread: _KinkSpread, slopes: _SlopesByConvention
) -> KinkPoint:
    """Describe a node on or near a kink; a kink of None stands for a tie of elements."""
    view = Node(index.circuit, node)
    jump = view.op.pattern is Pattern.BLOCK if kink is None else kink.jump
    return KinkPoint(
        node=view.reference,
        op=view.op.name,
        expression=describe_node(index.circuit, node),
        place=view.place,
        doc=TIE_DOC if kink is None else kink.doc,
        jump=jump,
        distance=spread.distance,
        on=spread.on,
        near=spread.near,
        size=spread.size,
        index=spread.spot,
        convention=None if kink is None else decode_mode(view.mode)[0].label,
        slopes=slopes,
        chooses=jump and _steers_gradient(index, node),
    )


def _steers_gradient(index: RunIndex, node: int) -> bool:
    """Return whether differentiable nodes read this condition or index."""
    types = index.circuit.type_of
    return not types(node).differentiable and any(types(k).differentiable for k, _ in index.readers_of(node))


_SlopesByConvention = Mapping[str, Mapping[str, float | None]]


def _slopes_at(batch: _KinkBatch, kink: Kink, spots: Sequence[tuple[int, ...]]) -> list[_SlopesByConvention]:
    """Return the local slopes at some of the numbers, by convention."""
    if kink.jump or not spots:
        return [{} for _ in spots]
    op, mode, moving, _ = batch.kind
    index = tuple(np.array(spots).T)
    xs = [x[index] for x in batch.xs]
    y = batch.y[index]
    columns = {
        convention.label: {
            op.input_name(slot): _slope_column(op.local(slot, xs, y, switch_convention(mode, convention)), len(spots))
            for slot in moving
        }
        for convention in Convention
    }
    return [
        {label: {name: column[k] for name, column in slopes.items()} for label, slopes in columns.items()}
        for k in range(len(spots))
    ]


def _slope_column(slope: GradientFlow, count: int) -> list[Any]:
    """Return the slopes as a list, with None where they are blocked."""
    if slope is None:
        return [None] * count
    there = np.broadcast_to(slope.mask if type(slope) is MaskedFlow else np.True_, count)
    numbers = np.broadcast_to(fill_absent(slope), count)
    return [to_python_number(number) if present else None for number, present in zip(numbers, there, strict=True)]


def _gradients_by_convention(run: RunRecord, items: Sequence[_NodePoint]) -> Mapping[str, Mapping[str, Any]]:
    """Return the gradients under the conventions that nodes on a kink do not use."""
    chosen = {node: point.convention for node, point in items if point.on and not point.jump and point.convention}
    others = [convention for convention in Convention if set(chosen.values()) - {convention.label}]
    return {convention.label: _gradients_with(run, convention, list(chosen)) for convention in others}


def _gradients_with(run: RunRecord, convention: Convention, nodes: Sequence[int]) -> Mapping[str, Any]:
    circuit = set_convention_at(run.circuit, convention, nodes)
    root = circuit.root()
    flows = sweep_backward(circuit, run.values, {root: run.flows[root]}, SilentWatcher())
    return RunRecord(circuit, run.values, flows, ()).grads


def _format_slopes(slopes: Mapping[str, float | None]) -> str:
    texts = {name: "nothing" if slope is None else format_brief_number(slope) for name, slope in slopes.items()}
    if len(texts) == 1:
        return next(iter(texts.values()))
    return " and ".join(f"{text} to {name}" for name, text in texts.items())


def _same_numbers(one: ArrayLike, two: ArrayLike) -> bool:
    return np.array_equal(one, two, equal_nan=True)
