"""The region between a node and the output of a run, and the search for the paths that carry most.

Paths are not enumerated. Going back from the output, each node keeps the k largest products that reached it. One more
factor does not change the order of magnitudes, so the k largest at a node come from the k largest at its readers.
Products carry an exponent of their own, so long chains neither underflow nor overflow. Only nodes between the node
and the output are visited, and nothing recurses. User code is not run again where what it sent gives its factor: along
numbers always, along arrays where a single path arrives at it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends.run import euclidean_norm
from wiregrad.dtypes import to_python_number
from wiregrad.inspect.rounding.extended_precision import is_user_code
from wiregrad.inspect.run_index import GradientFlow, RunIndex
from wiregrad.ir import Pattern, Row
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent

MAX_FLOW_EXPONENT = 64
"""Largest binary exponent of the norm of a flow, in magnitude, before the flow is rescaled."""


class PathRegion:
    """The nodes between a node and the output, last node first."""

    def __init__(self, index: RunIndex, target: int) -> None:
        self.index = index
        self.target = target
        self.inside = bytearray(index.circuit.size)
        self.rows = self._collect_rows()
        self.splitters = {row.node for row in self.rows if row.op.pattern is Pattern.MERGE}

    @property
    def root(self) -> int:
        """The node of the output."""
        return self.index.root

    def _collect_rows(self) -> list[Row]:
        ahead = bytearray(len(self.inside))
        reached = list[Row]()
        ahead[self.target] = 1
        for row in self.index.rows[self.target + 1 : self.root + 1]:
            if any(ahead[source] for source in row.sources):
                ahead[row.node] = 1
                reached.append(row)
        self.inside[self.root] = ahead[self.root]
        for row in reversed(reached):
            if self.inside[row.node]:
                for source in row.sources:
                    self.inside[source] |= ahead[source]
        return [row for row in reversed(reached) if self.inside[row.node]]

    def is_scalar(self) -> bool:
        """Return whether only real numbers flow here, so that each wire has one factor."""
        types = [self.index.circuit.type_of(node) for node in (self.target, *(row.node for row in self.rows))]
        return all(not kind.shape and kind.dtype.kind != "c" for kind in types)

    def slots_inside(self, row: Row) -> Iterator[int]:
        """Return the inputs of a node that lie in the region, in the order in which the backward pass adds."""
        return (slot for slot in reversed(range(len(row.sources))) if self.inside[row.sources[slot]])

    def is_live(self, row: Row, slot: int) -> bool:
        """Return whether anything was sent back along a wire."""
        sent = self.index.sent_flow(row.node, slot)
        return bool(np.any(sent.mask)) if type(sent) is MaskedFlow else sent is not None

    def shape_of(self, node: int) -> tuple[int, ...]:
        """Return the shape of a node's value."""
        return self.index.circuit.type_of(node).shape

    def find_single_path_nodes(self) -> set[int]:
        """Return the nodes from which exactly one unblocked path leads to the output."""
        counts = {self.root: 1}
        for row in self.rows:
            path_count = counts.get(row.node, 0)
            for slot in self.slots_inside(row) if path_count else ():
                if self.is_live(row, slot):
                    counts[row.sources[slot]] = min(2, counts.get(row.sources[slot], 0) + path_count)
        return {node for node, count in counts.items() if count == 1}

    def count_paths(self, keep: Callable[[Row, int], bool]) -> int:
        """Count the paths made of wires that satisfy a condition."""
        counts = {self.root: 1}
        for row in self.rows:
            # A count can have as many bits as there are nodes, so it is dropped as soon as it was used.
            path_count = counts.pop(row.node, 0)
            for slot in self.slots_inside(row) if path_count else ():
                if keep(row, slot):
                    counts[row.sources[slot]] = counts.get(row.sources[slot], 0) + path_count
        return counts.get(self.target, 0)


class ScaledNumber(NamedTuple):
    """A number with an unbounded exponent: `mantissa * 2**exponent`, the mantissa in [1/2, 1), 0 or not finite.

    Within the range of float64, products and sums equal those of floats bit by bit.
    """

    mantissa: float
    exponent: int

    @classmethod
    def from_float(cls, x: float) -> ScaledNumber:
        """Make a scaled number from a float."""
        return cls(*math.frexp(x))

    def times(self, other: ScaledNumber) -> ScaledNumber:
        """Return the product."""
        mantissa, exponent = math.frexp(self.mantissa * other.mantissa)
        return ScaledNumber(mantissa, exponent + self.exponent + other.exponent)

    def plus(self, other: ScaledNumber) -> ScaledNumber:
        """Return the sum."""
        if not self.mantissa or not other.mantissa:
            return other if not self.mantissa else self
        low, high = sorted((self, other), key=lambda number: number.exponent)
        mantissa, exponent = math.frexp(high.mantissa + math.ldexp(low.mantissa, low.exponent - high.exponent))
        return ScaledNumber(mantissa, exponent + high.exponent)

    def over(self, other: ScaledNumber) -> ScaledNumber:
        """Return the quotient."""
        mantissa, exponent = math.frexp(self.mantissa / other.mantissa)
        return ScaledNumber(mantissa, exponent + self.exponent - other.exponent)

    def __abs__(self) -> ScaledNumber:
        return ScaledNumber(abs(self.mantissa), self.exponent)

    def __float__(self) -> float:
        try:
            return math.ldexp(self.mantissa, self.exponent)
        except OverflowError:
            return math.copysign(math.inf, self.mantissa)

    def magnitude_rank(self) -> tuple[int, int, float]:
        """Return a sort key by magnitude: NaN is largest, then inf, then all others; 0 is smallest."""
        if math.isfinite(self.mantissa):
            return int(self.mantissa != 0), self.exponent, abs(self.mantissa)
        return 2 + math.isnan(self.mantissa), 0, 0.0


SCALED_ONE = ScaledNumber.from_float(1.0)


class PathLink(NamedTuple):
    """A partial path as a linked list: its first wire with its factor, and the rest, which leads to the output."""

    rank: tuple[int, int, float]
    reader: int
    slot: int
    factor: float
    onward: PathLink | None

    def iterate_links(self) -> Iterator[PathLink]:
        """Return the links of the path, first wire first."""
        link = self
        while link.onward is not None:
            yield link
            link = link.onward


PartialPath = tuple[PathLink, Any]
"""A partial path and the flow along it."""


class PathSearch:
    """Searches for the largest paths; the subclasses define the flow along a path."""

    def __init__(self, region: PathRegion) -> None:
        self.region = region

    def output_flow(self) -> Any:
        """Return the flow at the output."""
        raise NotImplementedError

    def send_back(self, row: Row, slot: int, held: Sequence[PartialPath]) -> list[PartialPath]:
        """Extend partial paths by a wire; flows of which nothing is left are dropped."""
        raise NotImplementedError

    def flow_size(self, flow: Any) -> float:
        """Return the magnitude of a flow."""
        raise NotImplementedError

    def contribution_of(self, flow: Any) -> Any:
        """Return the flow at the end of a path as a gradient."""
        raise NotImplementedError

    def wire_gain(self, row: Row, slot: int) -> ScaledNumber:
        """Return the factor by which a wire stretches magnitudes."""
        raise NotImplementedError

    def find_largest(self, k: int) -> list[PartialPath]:
        """Return the k largest paths, each with its flow."""
        pools: dict[int, list[PartialPath]] = {
            self.region.root: [(PathLink(SCALED_ONE.magnitude_rank(), -1, 0, 1.0, None), self.output_flow())]
        }
        for row in self.region.rows:
            partial_paths = _keep_largest(pools.pop(row.node, []), k)
            for slot in self.region.slots_inside(row) if partial_paths else ():
                if self.region.is_live(row, slot):
                    pool = pools.setdefault(row.sources[slot], [])
                    pool.extend(self.send_back(row, slot, partial_paths))
                    if len(pool) > 100 + 8 * k:
                        pool[:] = _keep_largest(pool, k)
        return _keep_largest(pools.get(self.region.target, []), k)[:k]

    def sum_products(self, factor: Callable[[Row, int], ScaledNumber]) -> ScaledNumber:
        """Return the sum over all paths of the product of their factors, in one sweep."""
        sums: dict[int, ScaledNumber] = {self.region.root: SCALED_ONE}
        for row in self.region.rows:
            upstream = sums.pop(row.node, None)
            for slot in self.region.slots_inside(row) if upstream else ():
                if self.region.is_live(row, slot):
                    assert upstream is not None
                    sent = upstream.times(factor(row, slot))
                    source = row.sources[slot]
                    sums[source] = sums[source].plus(sent) if source in sums else sent
        return sums.get(self.region.target, ScaledNumber.from_float(0.0))


class NumberPathSearch(PathSearch):
    """Searches along numbers: a flow is the product of the factors so far."""

    def __init__(self, region: PathRegion) -> None:
        super().__init__(region)
        self.factors = {
            (row.node, slot): _wire_factor(region, row, slot)
            for row in region.rows
            for slot in region.slots_inside(row)
            if region.is_live(row, slot)
        }

    def output_flow(self) -> ScaledNumber:
        """Return 1."""
        return SCALED_ONE

    def send_back(self, row: Row, slot: int, held: Sequence[PartialPath]) -> list[PartialPath]:
        """Multiply the products by the factor of the wire."""
        scaled = self.factors[row.node, slot]
        node = row.node
        mantissa, exponent = scaled
        factor = float(scaled)
        longer = list[PartialPath]()
        # The product and its rank are inlined: most of the time is spent in this loop.
        for link, (m, e) in held:
            m, shift = math.frexp(m * mantissa)  # noqa: PLW2901
            product = ScaledNumber(m, e + exponent + shift)
            rank = (1, product.exponent, abs(m)) if m and m - m == 0.0 else product.magnitude_rank()
            longer.append((PathLink(rank, node, slot, factor, link), product))
        return longer

    def flow_size(self, flow: ScaledNumber) -> float:
        """Return the magnitude of a product."""
        return float(abs(flow))

    def contribution_of(self, flow: ScaledNumber) -> float:
        """Return the product."""
        return float(flow)

    def wire_gain(self, row: Row, slot: int) -> ScaledNumber:
        """Return the magnitude of the factor."""
        return abs(self.factors[row.node, slot])

    def sum_contributions(self) -> ScaledNumber:
        """Return the sum of all contributions; it differs from the run's gradient where that under- or overflowed."""
        return self.sum_products(lambda row, slot: self.factors[row.node, slot])


def _wire_factor(region: PathRegion, row: Row, slot: int) -> ScaledNumber:
    if is_user_code(row.op):
        sent, upstream = (
            float(fill_absent(flow)) for flow in (region.index.sent_flow(row.node, slot), region.index.flows[row.node])
        )
        if upstream and math.isfinite(upstream) and math.isfinite(sent):
            return ScaledNumber.from_float(sent).over(ScaledNumber.from_float(upstream))
    return ScaledNumber.from_float(
        float(fill_absent(region.index.pull_flow(row.node, slot, region.index.values[row.node].dtype.type(1))))
    )


class _ScaledFlow(NamedTuple):
    """The flow along one path of arrays: `value * 2**exponent`, and the norm of the value."""

    value: Any
    norm: float
    exponent: int


class ArrayPathSearch(PathSearch):
    """Searches along arrays: a flow is what one path alone sends back, with powers of 2 factored out."""

    def __init__(self, region: PathRegion) -> None:
        super().__init__(region)
        self._alone = region.find_single_path_nodes()

    def output_flow(self) -> _ScaledFlow:
        """Return the gradient of the output."""
        return _ScaledFlow(self.region.index.flows[self.region.root], 1.0, 0)

    def send_back(self, row: Row, slot: int, held: Sequence[PartialPath]) -> list[PartialPath]:
        """Pull the flows back along the wire; the factor is the growth of the norm."""
        longer = []
        for link, flow in held:
            sent = self._pull_scaled(row, slot, flow)
            if sent is not None:
                rank = ScaledNumber.from_float(sent.norm).times(ScaledNumber(0.5, sent.exponent + 1)).magnitude_rank()
                factor = math.ldexp(_norm_ratio(sent.norm, flow.norm), sent.exponent - flow.exponent)
                longer.append((PathLink(rank, row.node, slot, factor, link), sent))
        return longer

    def _pull_scaled(self, row: Row, slot: int, flow: _ScaledFlow) -> _ScaledFlow | None:
        if is_user_code(row.op) and row.node in self._alone:
            sent = self.region.index.sent_flow(row.node, slot)
            exponent = 0
        else:
            sent = self.region.index.pull_flow(row.node, slot, flow.value)
            exponent = flow.exponent
        if sent is None or (type(sent) is MaskedFlow and not np.any(sent.mask)):
            return None
        length = _broadcast_norm(sent, self.region.shape_of(row.sources[slot]))
        power = math.frexp(length)[1] if math.isfinite(length) else 0
        if abs(power) <= MAX_FLOW_EXPONENT:
            return _ScaledFlow(sent, length, exponent)
        return _ScaledFlow(_scale_by_power(sent, -power), math.ldexp(length, -power), exponent + power)

    def flow_size(self, flow: _ScaledFlow) -> float:
        """Return the norm of a flow."""
        return float(ScaledNumber.from_float(flow.norm).times(ScaledNumber(0.5, flow.exponent + 1)))

    def contribution_of(self, flow: _ScaledFlow) -> Any:
        """Return a flow with the shape of the node."""
        shape = self.region.shape_of(self.region.target)
        value = fill_absent(_scale_by_power(flow.value, flow.exponent))
        return np.broadcast_to(value, shape).copy() if shape else to_python_number(value)

    def wire_gain(self, row: Row, slot: int) -> ScaledNumber:
        """Return the growth of the norm of the whole gradient along a wire; another flow may grow differently."""
        sent = self.region.index.sent_flow(row.node, slot)
        upstream = self.region.index.flows[row.node]
        arrived = _broadcast_norm(upstream, self.region.shape_of(row.node))
        if not arrived and is_user_code(row.op):
            return SCALED_ONE
        if not arrived:
            # A zero gradient says nothing about the wire, so a flow of ones is pulled back.
            upstream = np.ones(self.region.shape_of(row.node), self.region.index.values[row.node].dtype)[()]
            sent = self.region.index.pull_flow(row.node, slot, upstream)
            arrived = math.sqrt(max(1, upstream.size))
        left = 0.0 if sent is None else _broadcast_norm(sent, self.region.shape_of(row.sources[slot]))
        return ScaledNumber.from_float(left).over(ScaledNumber.from_float(arrived))


def _norm_ratio(left: float, arrived: float) -> float:
    """Return the ratio of two norms; 1 for an infinity that is passed on unchanged."""
    if not math.isfinite(arrived) and (left == arrived or math.isnan(arrived)):
        return 1.0
    return left / arrived if arrived else 0.0


def _scale_by_power(flow: GradientFlow, power: int) -> GradientFlow:
    """Multiply a flow by a power of 2."""
    if not power or flow is None:
        return flow
    if type(flow) is MaskedFlow:
        return MaskedFlow(flow.mask, _scale_by_power(flow.value, power))
    value = np.array(flow)
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    for part in parts:
        np.ldexp(part, np.clip(power, -5000, 5000), out=part)
    return value[()]


def _keep_largest(partial_paths: list[PartialPath], k: int) -> list[PartialPath]:
    """Return the k largest, then up to k zeros: a later factor of inf would turn them into NaN, the largest of all."""
    if len(partial_paths) == 1:
        return partial_paths if k else []
    some = [item for item in partial_paths if item[0].rank[0]]
    zeros = [item for item in partial_paths if not item[0].rank[0]]
    return [*heapq.nlargest(k, some, key=_rank_of), *zeros[:k]]


def _rank_of(partial_path: PartialPath) -> tuple[int, int, float]:
    return partial_path[0].rank


def _broadcast_norm(flow: GradientFlow, shape: tuple[int, ...]) -> float:
    """Return the norm of a flow after broadcasting it to the shape of its node."""
    return euclidean_norm(np.broadcast_to(fill_absent(flow), shape))
