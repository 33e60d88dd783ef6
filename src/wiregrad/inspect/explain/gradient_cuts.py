"""The wires at which a gradient that does not arrive has ended, and a sentence for each.

The walk goes from a node towards the output and carries a mask of the elements of each array that the node moves: an
array into which the node was stacked with others may have a nonzero gradient elsewhere. A wire cuts an element if the
element moves nothing behind the wire, or if the gradient that came back to it was lost on the wire. The walk goes on
with the remaining elements, so several cuts are found where several ops share the work.

The sentences follow from the op's record: its pattern, its kinks, which input is a condition, which slopes it has. By
the letters of the op table, `x` is the input that an op bends and its other inputs are settings, while `a` and `b` are
alike.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.inspect.check.numeric_derivative import compute_or_nan
from wiregrad.inspect.run_index import GradientFlow, ReaderSlot, RunIndex, describe_value, measure_norm
from wiregrad.ir import Op, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent, match_dtype, shape_of

ElementMask = bool | np.bool_ | NDArray[np.bool_]
"""Which elements of an array are meant; a boolean for a number."""


@dataclass(frozen=True)
class GradientCut:
    """A wire, or a node, at which a gradient ends."""

    node: int
    """The reader at the end of the wire; for `cancelling` uses, the node itself."""
    slot: int | None
    """The input of the reader; None where the gradients from the readers of a node cancel."""
    kind: str
    """`absent`: nothing is sent; `zero`: the slope is 0; `underflow`, `sideways`: the product is 0; `cancelling`."""
    ended: ElementMask
    """Mask of the elements of the wire (or node) at which the gradient ends; True for a number."""
    asked: int
    """Number of elements that were followed to this wire."""

    @property
    def ended_count(self) -> int:
        """Number of elements whose gradient ends here."""
        return int(np.sum(self.ended))


@dataclass(frozen=True)
class CutSearchResult:
    """The result of a walk."""

    cuts: tuple[GradientCut, ...]
    """Sorted by the share of followed elements that they end; comparisons and indices, which always cut, come last."""
    passed: frozenset[int]
    """The nodes that were visited, and those computed from them on which the output does not depend."""


def find_cuts(index: RunIndex, node: int) -> CutSearchResult:
    """Find the wires at which the gradient of a node ended; the gradient must be 0 everywhere.

    >>> import wiregrad as wg
    >>> run = wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0)
    >>> [cut.kind for cut in find_cuts(RunIndex(run), run.circuit.index("x")).cuts]
    ['absent']
    """
    walk = _CutWalk(index, node)
    walk.visit_dependents(node)
    return CutSearchResult(tuple(sorted(walk.cuts, key=walk.sort_key)), frozenset(walk.visited_nodes()))


class _CutWalk:
    """Carries a mask of elements from node to node; in index order each mask is complete when it is used."""

    def __init__(self, index: RunIndex, node: int) -> None:
        self.index = index
        self.run = index.run
        self.cuts: list[GradientCut] = []
        self.masks: dict[int, ElementMask] = {node: _full_mask(self.index.values[node])}

    def visit_dependents(self, node: int) -> None:
        """Visit the nodes that depend on a node, until every element's gradient has been found to end."""
        front = [node]
        while front:
            node = heapq.heappop(front)
            mask = self._drop_cancelled(node, self.masks[node])
            for wire in self.index.readers_of(node) if _any_element(mask) else ():
                reached = self._cross_wire(wire, mask) if self.index.ranks[wire[0]] >= 0 else False
                if not _any_element(reached):
                    continue
                if wire[0] not in self.masks:
                    heapq.heappush(front, wire[0])
                self.masks[wire[0]] = self.masks.get(wire[0], False) | reached

    def sort_key(self, cut: GradientCut) -> tuple[bool, float]:
        """Return the sort key of a cut."""
        return not self.index.circuit.type_of(cut.node).differentiable, -cut.ended_count / max(cut.asked, 1)

    def visited_nodes(self) -> set[int]:
        """Return the visited nodes, and those computed from them on which the output does not depend."""
        visited = set(self.masks)
        front = list(visited)
        while front:
            for reader, _ in self.index.readers_of(front.pop()):
                if self.index.ranks[reader] < 0 and reader not in visited:
                    visited.add(reader)
                    front.append(reader)
        return visited

    def _drop_cancelled(self, node: int, mask: ElementMask) -> ElementMask:
        """Return a mask without the elements at which the gradients from the readers of a node cancel."""
        uses = self.index.readers_of(node)
        if len(uses) < 2:
            return mask
        cancelled: ElementMask = False
        for wire in uses:
            cancelled = cancelled | (mask & _nonzero_mask(self.index.sent_gradient(wire), shape_of(mask)))
        if not _any_element(cancelled):
            return mask
        self._record_cut((node, None), "cancelling", cancelled, mask)
        return _mask_difference(mask, cancelled)

    def _cross_wire(self, wire: ReaderSlot, mask: ElementMask) -> ElementMask:
        """Return which elements of its reader a wire moves; record the elements that end on the wire."""
        slope = self._slope_flow(self.index.rows[wire[0]], wire[1])
        going = mask & _nonzero_mask(fill_absent(slope), shape_of(mask))
        ended = _mask_difference(mask, going)
        if _any_element(ended):
            present = _any_element(ended & _presence_mask(slope, shape_of(mask)))
            self._record_cut(wire, "zero" if present else "absent", ended, mask)
        return self._reach_reader(wire, going, mask) if _any_element(going) else False

    def _reach_reader(self, wire: ReaderSlot, going: ElementMask, mask: ElementMask) -> ElementMask:
        """Return which elements of its reader a wire moves, without those whose gradient is lost on the wire."""
        row = self.index.rows[wire[0]]
        reached = self._reached_elements(row, wire[1], going)
        if self.index.flows[wire[0]] is None:
            return reached
        arrived = reached & _nonzero_mask(self.run.gradient(wire[0]), shape_of(reached))
        if not _any_element(arrived):
            return reached
        self._record_cut(
            wire, self._classify_loss(row, wire[1]), arrived if isinstance(row.op, Elementwise) else going, mask
        )
        return _mask_difference(reached, arrived)

    def _record_cut(self, wire: tuple[int, int | None], kind: str, ended: ElementMask, mask: ElementMask) -> None:
        self.cuts.append(GradientCut(wire[0], wire[1], kind, ended, int(np.sum(mask))))

    def _slope_flow(self, row: Row, slot: int) -> Any:
        """Return a flow that is 0 or absent at the elements of a wire that do not move its reader."""
        if not self.index.circuit.type_of(row.node).differentiable:
            return None
        if isinstance(row.op, Elementwise):
            return self.index.local_derivative((row.node, slot))
        if row.op.per_call:
            # User code is not run again with made-up numbers: only what it sent is known.
            return 0.0 if np.any(np.asarray(self.run.gradient(row.node)) != 0) else 1.0
        return self.index.pull_flow(row.node, slot, nonzero_numbers_like(self.index.values[row.node]))

    def _reached_elements(self, row: Row, slot: int, going: ElementMask) -> ElementMask:
        """Return which elements of a node move with some elements of a wire."""
        if isinstance(row.op, Elementwise):
            return going
        xs = self.index.input_values(row.node)
        y = self.index.values[row.node]
        if row.op.per_call:
            return _full_mask(y)
        tangents: list[Any] = [None] * len(xs)
        tangents[slot] = np.where(going, nonzero_numbers_like(xs[slot]), 0).astype(np.asarray(xs[slot]).dtype)[()]
        return _nonzero_mask(fill_absent(match_dtype(row.op.push(tangents, xs, y, row.mode), y)), np.shape(y))

    def _classify_loss(self, row: Row, slot: int) -> str:
        """Classify how a gradient was lost on a wire with a nonzero slope."""
        g = np.asarray(self.run.gradient(row.node))
        if isinstance(row.op, Elementwise):
            into_real = not np.iscomplexobj(self.index.values[row.sources[slot]])
            return "sideways" if np.iscomplexobj(self.index.values[row.node]) and into_real else "underflow"
        scaled = (g / np.max(np.abs(g))).astype(g.dtype)[()]
        again = fill_absent(self.index.pull_flow(row.node, slot, scaled))
        return "underflow" if np.any(np.asarray(again) != 0) else "cancelling"


def _full_mask(x: ArrayLike) -> ElementMask:
    return np.ones(np.shape(x), bool) if np.shape(x) else True


def _any_element(mask: ElementMask) -> bool:
    return mask if type(mask) is bool else bool(np.any(mask))


def _mask_difference(mask: ElementMask, other: ElementMask) -> ElementMask:
    if type(mask) is bool:
        return mask and not other
    rest: ElementMask = mask & ~np.asarray(other)
    return rest


def _nonzero_mask(x: ArrayLike, shape: tuple[int, ...]) -> ElementMask:
    return np.broadcast_to(np.asarray(x) != 0, shape) if shape else bool(x != 0)


def _presence_mask(flow: GradientFlow, shape: tuple[int, ...]) -> ElementMask:
    mask = flow.mask if type(flow) is MaskedFlow else flow is not None
    return np.broadcast_to(mask, shape) if shape else bool(mask)


def nonzero_numbers_like(x: ArrayLike) -> Any:
    """Return random numbers with magnitudes from 1 to 2, like an array: their sums are not 0 by chance.

    >>> nonzero_numbers_like(np.zeros(2, np.float32)).dtype
    dtype('float32')
    """
    rng = np.random.default_rng(0)
    array = np.asarray(x)

    def draw() -> NDArray[Any]:
        numbers: NDArray[Any] = rng.uniform(1.0, 2.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)
        return numbers

    return (draw() + 1j * draw() if array.dtype.kind == "c" else draw()).astype(array.dtype)[()]


SATURATION_INPUT = 5.0
"""An op with slope 0 counts as saturated if its input has at least this magnitude, else as stationary."""
SMALL_SLOPE = 0.01
"""Slopes below this are explained; a value counts as saturated if it is this close to its limit far away."""


def explain_cut(index: RunIndex, cut: GradientCut) -> str:
    """Explain why no gradient came back along a wire."""
    assert cut.slot is not None
    return _CutReason(index, cut, cut.slot).write_sentence()


def describe_undifferentiable(dtype: np.dtype[Any]) -> str:
    """Describe a dtype that has no gradient; empty for one that has.

    >>> describe_undifferentiable(np.dtype(bool)), describe_undifferentiable(np.dtype(float))
    ('true or false', '')
    """
    return {"b": "true or false", "i": f"a whole number ({dtype.name})"}.get(dtype.kind, "")


def explain_small_factor(index: RunIndex, wire: ReaderSlot, factor: float) -> str:
    """Explain why an op makes a gradient so much smaller; empty if nothing is known beyond the factor.

    >>> import wiregrad as wg
    >>> explain_small_factor(RunIndex(wg.circuit("tanh(x)").run(x=9.0)), (1, 0), 6e-8)
    'saturated'
    """
    row = index.rows[wire[0]]
    x = index.values[row.sources[wire[1]]]
    scales = row.op.pattern is Pattern.SCALE and len(row.sources) == 1 and not row.op.per_call
    if not scales or abs(factor) >= SMALL_SLOPE or np.asarray(x).dtype.kind != "f":
        return ""
    arrived = np.asarray(index.run.gradient(wire[0]))
    if isinstance(row.op, Elementwise):
        # Elements at which no gradient arrives do not contribute to the factor.
        x = np.asarray(x)[arrived != 0]
        return _explain_small_slope(row.op, x, row.mode)
    return _explain_small_array_slope(index, row, arrived, factor)


def _explain_small_slope(op: Elementwise, x: NDArray[Any], mode: int) -> str:
    """Explain why the slopes of an elementwise op are small."""
    ends = [_local_slopes(op, x + step, mode) for step in (-SMALL_SLOPE, SMALL_SLOPE)]
    if np.any(x) and np.all(ends[0] * ends[1] < 0):
        return "near a stationary point"
    return "saturated" if _is_bounded(op, x) else "its slope there is small"


def _local_slopes(op: Elementwise, x: NDArray[Any], mode: int) -> NDArray[Any]:
    return np.asarray(fill_absent(op.local(0, [x], op.compute(x), mode)))


def _is_bounded(op: Op, x: ArrayLike) -> bool:
    """Return whether the value of an op hardly changes from here on, away from 0."""
    x = np.asarray(x)
    y = compute_or_nan(op, [x], x)
    # Several points that are not multiples of each other: a periodic op may return to its value at one of them.
    far = [compute_or_nan(op, [np.copysign(np.maximum(np.abs(x), 1.0) * scale, x)], x) for scale in (1e6, 1.7e6, 2.9e6)]
    return all(bool(np.all(np.abs(end - y) <= SMALL_SLOPE * np.maximum(1.0, np.abs(y)))) for end in far)


def _explain_small_array_slope(index: RunIndex, row: Row, arrived: NDArray[Any], factor: float) -> str:
    """Explain why an op on a whole array makes a gradient small."""
    x = index.values[row.sources[0]]
    y = index.values[row.node]
    ends = [compute_or_nan(row.op, [x + nonzero_numbers_like(x)], y), compute_or_nan(row.op, [x * np.float32(1e6)], y)]
    if all(bool(np.all(np.abs(end - y) <= SMALL_SLOPE * np.max(np.abs(y)))) for end in ends):
        return "saturated"
    other = nonzero_numbers_like(y)
    sent = fill_absent(index.pull_flow(row.node, 0, other))
    if measure_norm(sent) > 100.0 * abs(factor) * measure_norm(other):
        same = np.ptp(arrived) <= 1e-6 * np.max(np.abs(arrived))
        return f"what arrives{', the same everywhere,' if same else ''} cancels in it"
    return "its slope there is small"


class _CutReason:
    """Explains why one wire cuts."""

    def __init__(self, index: RunIndex, cut: GradientCut, slot: int) -> None:
        self.index = index
        self.cut = cut
        self.slot = slot
        self.row = index.rows[cut.node]
        self.op = self.row.op
        self.sources = self.row.sources
        self.xs = index.input_values(cut.node)
        self.y = index.values[cut.node]
        self.title = self.op.title
        self.source = index.circuit.reference_to(self.sources[slot])

    def write_sentence(self) -> str:
        """Return the sentence."""
        kind = self.index.circuit.type_of(self.cut.node).dtype
        if self.cut.kind in ("underflow", "sideways", "cancelling"):
            predicate = self._lost_reason()
        elif self.op.pattern is Pattern.BLOCK or kind.kind not in "fc":
            predicate = self._blocked_reason(describe_undifferentiable(kind) or "a step")
        elif not np.size(self.y):
            predicate = f"makes an array without elements of {self.source}"
        elif self.op.pattern is Pattern.ROUTE and not isinstance(self.op, Elementwise):
            return f"{self.title} {self._unchosen_reason()}"
        else:
            predicate = self._elementwise_reason(self.op) if isinstance(self.op, Elementwise) else self._array_reason()
        return f"{self.title} {predicate}" + self._affected_share()

    def _affected_share(self) -> str:
        count = self.cut.ended_count
        size = np.size(self.cut.ended)
        return f", in {count} of {size} elements" if count < size else ""

    def _blocked_reason(self, what: str) -> str:
        if self.y is self.xs[self.slot]:
            return f"passes {self.source} on but not its gradient, on purpose"
        return f"cuts the gradient: its result for {self.source} is {what}, which changes in jumps"

    def _unchosen_reason(self) -> str:
        x = f"{self.source} = {describe_value(self.xs[self.slot])}"
        count = self.cut.ended_count
        asked = self.cut.asked
        return f"leaves out {count} of {asked} elements of {x}" if count < asked else f"chose other elements of {x}"

    def _lost_reason(self) -> str:
        """Explain how a gradient was lost although the slope is not 0."""
        arrived = describe_value(self._ended_elements(self.index.run.gradient(self.cut.node)))
        if self.cut.kind == "cancelling":
            return f"sends 0 although {arrived} arrives: the parts cancel on the way to {self.source}"
        if not isinstance(self.op, Elementwise):
            return f"sends 0 although {arrived} arrives: the product underflows"
        local = describe_value(
            self._ended_elements(fill_absent(self.index.local_derivative((self.cut.node, self.slot))))
        )
        sideways = f"nothing of that lies along {self.source}, which is real"
        why = sideways if self.cut.kind == "sideways" else "the product underflows to 0"
        return f"multiplies {arrived} by {local}: {why}"

    def _elementwise_reason(self, op: Elementwise) -> str:
        """Explain why an elementwise op sends nothing, or 0."""
        x = f"{self.source} = {describe_value(self._ended_elements(self.xs[self.slot]))}"
        if op.partials[self.slot] is None:
            return f"uses {x} only to decide: its value changes in jumps with it"
        if self._is_on_kink(op):
            return f"is on its kink at {x}, where the slope used is 0"
        if op.selects:
            return f"did not choose {x}: {self._condition_text()} is {'true' if self.slot == 2 else 'false'}"
        if op.pattern is Pattern.ROUTE:
            return self._routed_reason(op, x)
        return self._flat_reason(op, x)

    def _condition_text(self) -> str:
        constant = not self.index.rows[self.sources[0]].sources
        return "its condition" + ("" if constant else f" {self.index.circuit.reference_to(self.sources[0])}")

    def _is_on_kink(self, op: Elementwise) -> bool:
        smooth = [kink for kink in op.kinks if not kink.jump]
        return any(np.all(self._ended_elements(kink.at(*self.xs)) == 0) for kink in smooth)

    def _routed_reason(self, op: Elementwise, x: str) -> str:
        """Explain which input a router passed on instead."""
        others = [slot for slot in range(len(self.xs)) if slot != self.slot]
        other_inputs = f" ({self.index.describe_inputs(self.cut.node, others)})" if others else ""
        if op.inputs[self.slot] == "x" or not any(self.index.active[self.sources[slot]] for slot in others):
            return f"is dead or saturated: it lets nothing through at {x}, outside its bounds{other_inputs}"
        return f"sends nothing to {x}: it returned another of its inputs{other_inputs}"

    def _flat_reason(self, op: Elementwise, x: str) -> str:
        """Explain why a slope is 0."""
        zeros = [k for k in range(len(self.xs)) if k != self.slot and np.all(self._ended_elements(self.xs[k]) == 0)]
        if op.pattern is Pattern.SWAP and zeros:
            return self._zero_factor_reason(zeros[0])
        if self.cut.kind == "absent":
            return f"sends nothing back to {x}"
        if len(self.xs) > 1:
            return f"has slope 0 for {self.source} at {self.index.describe_inputs(self.cut.node, range(len(self.xs)))}"
        if np.min(np.abs(self._ended_elements(self.xs[0]))) < SATURATION_INPUT:
            return f"is flat at {x}: stationary, its slope there is 0"
        if np.all(self._ended_elements(self.y) == 0):
            return f"is flat at {x}: its value underflows to 0"
        bounded = _is_bounded(op, np.real(self._ended_elements(self.xs[0])))
        return f"is flat at {x}: {'saturated, its slope is 0' if bounded else 'its slope there is 0'}"

    def _zero_factor_reason(self, other: int) -> str:
        same = self.sources[other] == self.sources[self.slot]
        factor = f"{self.source} itself" if same else self.index.describe_operand(self.sources[other])
        return f"multiplies by {factor}, which is 0{' there' * bool(np.any(self.xs[other]))}"

    def _array_reason(self) -> str:
        """Explain why an op on whole arrays sends nothing, or 0."""
        x = f"{self.source} = {describe_value(self.xs[self.slot])}"
        others = [slot for slot in range(len(self.xs)) if slot != self.slot]
        if self.cut.kind == "absent":
            return f"sends nothing back to {self.source}"
        if self.op.per_call:
            arrived = describe_value(self.index.run.gradient(self.cut.node))
            return f"sends 0 back to {self.source}, though {arrived} arrived"
        if self.op.pattern is not Pattern.SWAP:
            return f"is flat at {x}: its slope there is 0"
        return self._zero_factor_reason(others[0]) if others else f"multiplies the elements of {x}: the others make 0"

    def _ended_elements(self, x: ArrayLike) -> Any:
        """Return the elements of an array at which the gradient ends; the array itself if it ends everywhere."""
        if np.shape(x) != np.shape(self.cut.ended) or np.all(self.cut.ended):
            return x
        return np.asarray(x)[self.cut.ended]
