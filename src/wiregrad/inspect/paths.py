"""Where a gradient comes from: path by path (`paths`), and use by use (`branches`).

`paths` lists the contributions of the paths from a node to the output, largest first. Paths are counted exactly, in
integers of any size. Along arrays a local derivative is a linear map, and each node keeps the k flows of largest norm:
the contributions shown are exact, but a flow that was dropped early might have grown later, so they need not be the k
largest.

Paths are not enumerated. Going back from the output, each node keeps the k largest products that reached it. One more
factor does not change the order of magnitudes, so the k largest at a node come from the k largest at its readers.
Products carry an exponent of their own, so long chains neither underflow nor overflow. Only nodes between the node and
the output are visited, and nothing recurses. User code is not run again where what it sent gives its factor: along
numbers always, along arrays where a single path arrives at it.

`branches` lists what each reader of a value sends back. These parts add up to the gradient. Splitters and implicit
copies (a wire broadcast to a shape or cast to a dtype) are looked through: the use shown is the op that reads the copy,
and what it sends is pulled back through the copy.

In the order of reading: the search, then `branches` and `paths`.
"""

from __future__ import annotations

import heapq
import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import euclidean_norm
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import InputError, short_repr
from wiregrad.inspect.report import GradientFlow, Report, RunIndex, describe_node, format_capped_list, format_place
from wiregrad.inspect.rounding import is_user_code
from wiregrad.ir import Node, Op, Pattern, Place, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import LinearOp
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
        """Return the inputs of a node that are in the region, in the order in which the backward pass adds."""
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


SOLE_DRIVER_SHARE = 0.995
"""A use with at least this share is said to give all of the gradient."""
MAX_BRANCHES = 20
"""Maximum number of uses that get a line of their own."""


@dataclass(frozen=True)
class GradientBranch:
    """One use of a value: the reader, its input, and the gradient that it sends back.

    `share` is the part of the gradient that comes from this use: sent / total, along arrays the projection of `sent` on
    the total, relative to the total. Shares add up to 1, and can be negative or NaN (where the total is 0). `magnitude`
    is the norm of `sent`. `op` is None for the output itself. `again` is true if the reader uses the value on other
    inputs too.
    """

    reader: str
    op: str | None
    slot: int
    input: str
    expression: str
    place: Place | None
    sent: Any
    magnitude: float
    share: float
    blocked: bool
    again: bool

    def __str__(self) -> str:
        use = f"{self.expression}{f' as {self.input}' if self.again else ''}{format_place(self.place)}"
        if self.blocked:
            return f"nothing from {use}"
        sent = f"|{format_brief_number(self.magnitude)}|" if np.ndim(self.sent) else format_brief_number(self.sent)
        return f"{sent} from {use}{'' if math.isnan(self.share) else f', {_format_share(self.share)}'}"


@dataclass(frozen=True, repr=False)
class Branches(Report):
    """The uses of a value, the one that sends most first."""

    node: str
    total: Any
    branches: tuple[GradientBranch, ...]

    def lines(self) -> Iterator[str]:
        """Return the use that drives the gradient, then a line for each use."""
        if not self.branches:
            yield f"nothing reads {self.node}: its gradient is {format_brief_number(self.total)}"
            return
        uses = _format_times(len(self.branches))
        total = format_brief_number(self.total)
        yield f"{self.node} is used {uses}; its gradient is {total}{self._describe_driver()}"
        yield from format_capped_list(self.branches, MAX_BRANCHES)

    def _describe_driver(self) -> str:
        first = self.branches[0]
        others = self.branches[1:]
        if first.blocked:
            return ": no use sends one back"
        if not others or math.isnan(first.share):
            return ""
        if first.share > 1.0 / SOLE_DRIVER_SHARE:
            back = 1.0 - 1.0 / first.share
            return f", driven by {first.expression}; the others take {format_brief_number(100.0 * back)} % of it back"
        if any(other.magnitude > 0.9 * first.magnitude for other in others):
            return ""
        return f", driven by {first.expression}{' alone' if first.share > SOLE_DRIVER_SHARE else ''}"


def branches(run: RunRecord, name: str) -> Branches:
    """Return what each use of a value sends back to it.

    >>> import wiregrad as wg
    >>> branches(wg.circuit("t = w * x; f = t + w").run(w=2, x=6), "w")
    w is used 2 times; its gradient is 7, driven by t = w * x
      6 from t = w * x (formula:1:5), 85.7 %
      1 from f = t + w (formula:1:16), 14.3 %
    """
    node = run.circuit.index(name)
    total = run.gradient(node)
    with np.errstate(all="ignore"):
        uses = list(_find_uses(RunIndex(run), node))
        times = Counter(reader for reader, _, _ in uses)
        unordered = [_make_branch(run, use, total, again=times[use[0]] > 1) for use in uses]
    ordered = sorted(unordered, key=_branch_sort_key)
    return Branches(run.circuit.reference_to(node), to_python_number(total), tuple(ordered))


_BranchUse = tuple[int | None, int, Any]
"""A reader (None: the output), its input, and the flow that it sends to the value."""
_CopyChain = tuple[int, Any] | None
"""The copies between a value and its use as a linked list, the last copy first."""


def _find_uses(index: RunIndex, target: int) -> Iterator[_BranchUse]:
    """Find the uses of a value, through splitters and copies."""
    stack: list[tuple[int, _CopyChain]] = [(target, None)]
    while stack:
        node, copies = stack.pop()
        if node == index.root:
            # The readers of the output do not lead to the output.
            yield None, 0, _pull_through_copies(index, index.flows[node], copies)
            continue
        for reader, slot in index.readers_of(node):
            op = index.circuit.op_of(reader)
            if op.pattern is Pattern.MERGE:
                # A splitter sends back exactly what it receives, and there may be as many splitters as uses.
                stack.append((reader, copies))
            elif _is_copy(op, index.values[node]):
                stack.append((reader, (reader, copies)))
            else:
                yield reader, slot, _pull_through_copies(index, index.sent_flow(reader, slot), copies)


def _pull_through_copies(index: RunIndex, flow: GradientFlow, copies: _CopyChain) -> GradientFlow:
    """Pull a flow back through a chain of copies."""
    while copies is not None and flow is not None:
        node, copies = copies
        flow = index.pull_flow(node, 0, flow)
    return flow


def _is_copy(op: Op, x: Any) -> bool:
    """Return whether an op only copies its input, in another shape or dtype at most."""
    if isinstance(op, Elementwise):
        return op.copies
    if not isinstance(op, LinearOp) or not op.moves or len(op.inputs) > 1 or op.variadic:
        return False
    unit = 1.0 + 1.0j if x.dtype.kind == "c" else 1.0
    probe = (np.arange(1.0, x.size + 1.0).reshape(x.shape) * unit).astype(x.dtype)
    y = np.asarray(op.compute(probe))
    if y.size == x.size:
        return np.array_equal(y.ravel(), probe.ravel())
    # Broadcasting keeps the last axes and lengthens axes of length 1.
    fits = y.ndim >= x.ndim and all(n in (1, m) for n, m in zip(x.shape[::-1], y.shape[::-1], strict=False))
    return fits and bool(np.all(y == probe))


def _make_branch(run: RunRecord, use: _BranchUse, total: ArrayLike, *, again: bool) -> GradientBranch:
    reader, slot, flow = use
    view = None if reader is None else Node(run.circuit, reader)
    sent = np.broadcast_to(fill_absent(flow), np.shape(total))[()]
    return GradientBranch(
        reader=run.circuit.output if view is None else view.name,
        op=None if view is None else view.op.name,
        slot=slot,
        input="" if view is None else view.op.input_name(slot),
        expression=f"the output {run.circuit.output}" if view is None else describe_node(run.circuit, view.index),
        place=None if view is None else view.place,
        sent=to_python_number(sent),
        magnitude=euclidean_norm(sent),
        share=_share_of_total(sent, total),
        blocked=flow is None,
        again=again,
    )


def _share_of_total(sent: ArrayLike, total: ArrayLike) -> float:
    """Return the share of a flow in the total, measured along the total."""
    scale = float(np.max(np.abs(total), initial=0.0))
    if not scale or not math.isfinite(scale):
        return math.nan
    one = np.ravel(sent) / scale
    two = np.ravel(total) / scale
    return float(np.vdot(two, one).real / np.vdot(two, two).real)


def _branch_sort_key(branch: GradientBranch) -> tuple[bool, float]:
    """Return a sort key that puts NaN first and blocked uses last."""
    return branch.blocked, -math.inf if math.isnan(branch.magnitude) else -branch.magnitude


def _format_share(share: float) -> str:
    return (
        f"{format_brief_number(100.0 * share, 3)} %"
        if abs(share) < 10.0
        else f"{format_brief_number(share)} times the gradient"
    )


def _format_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


MIN_PATH_CANCELLATION = 100.0
"""Paths are said to nearly cancel if their magnitudes add up to more than this many times the gradient."""
LOST_GRADIENT_SHARE = 0.01
"""A gradient further from the sum of its paths than this share of their magnitudes has under- or overflowed."""
MAX_PATH_PARTS = 8
"""Maximum number of factors and names shown of one path; a longer path is shortened in the middle."""
MAX_EXACT_COUNT = 10**45
"""Counts below this are written in full."""


@dataclass(frozen=True)
class GradientPath:
    """One path from a node to the output, splitters left out.

    `wires` are its wires as (reader, slot), `inputs` the names of these inputs, `locals` one factor for each wire.
    Along arrays a factor is the growth of the norm on that wire, and `magnitude` is the norm of the contribution.
    """

    contribution: Any
    magnitude: float
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    wires: tuple[tuple[str, int], ...]
    inputs: tuple[str, ...]
    locals: tuple[float, ...]
    places: tuple[Place | None, ...]

    def __str__(self) -> str:
        return self.text()

    def text(self, marked: Collection[int] = ()) -> str:
        """Format the path; the wires in `marked` are shown with the name of the input they enter."""
        value = (
            f"|{format_brief_number(self.magnitude)}|"
            if np.ndim(self.contribution)
            else format_brief_number(self.contribution)
        )
        # The output's own gradient is the last factor, so that there is one for each name.
        factors = " x ".join(_shorten_middle([format_brief_number(factor) for factor in (*self.locals, 1.0)]))
        names = [*map(str, self.nodes)]
        for k in marked:
            names[k + 1] += f" (as {self.inputs[k]})"
        return f"{value} = {factors}   {' -> '.join(_shorten_middle(names))}"


@dataclass(frozen=True, repr=False)
class Paths(Report):
    """The paths from a node to the output: how many, what they add up to, how much they cancel, and the largest.

    `count` is the number of all paths of wires, `live` the number of those without a blocked wire. `magnitude` is the
    sum of the magnitudes of all contributions, `cancellation` that sum divided by the magnitude of `total` (inf where
    only `total` is 0, NaN where they are not finite). `added` is the sum of the contributions: equal to `total` unless
    the backward pass under- or overflowed, which the search does not. `rest` is `added` minus the paths that are shown.

    `exact` is false along arrays. Magnitudes are norms there, and `magnitude` is `estimated` unless all paths are
    shown: the estimate assumes that a wire stretches every flow as much as it stretched the whole gradient.
    """

    node: str
    output: str
    total: Any
    count: int
    live: int
    magnitude: float
    cancellation: float
    paths: tuple[GradientPath, ...]
    rest: Any
    exact: bool
    added: Any
    estimated: bool
    moves: bool
    """Whether the node depends on an input; if not, no gradient is sent back to it."""

    def lines(self) -> Iterator[str]:
        """Return the count and the gradient, what cancels, and a line for each path."""
        yield self._write_headline()
        if self.live:
            yield from self._report_lost()
            yield from self._report_cancellation()
            yield from (f"  {path}" for path in _write_distinct_paths(self.paths))
            yield from self._report_other_paths()

    def _write_headline(self) -> str:
        if self.node == self.output:
            return f"{self.node} is the output: its gradient is {format_brief_number(self.total)}"
        if not self.count:
            return f"{self.node} does not reach {self.output}: no path leads from one to the other"
        head = f"{self.node} reaches {self.output} along {_format_path_count(self.count)}"
        if not self.live:
            cut = "it carries none" if self.count == 1 else "none of them carries one"
            why = cut if self.moves else f"{self.node} depends on no input"
            return f"{head}, but no gradient comes back: {why}"
        carry = f", {_format_count(self.live)} of them with a gradient" if self.live < self.count else ""
        return f"{head}{carry}; its gradient is {format_brief_number(self.total)}"

    def _report_lost(self) -> Iterator[str]:
        if not np.array_equal(self.added, self.total, equal_nan=True):
            prefix = "under" if np.all(np.isfinite(self.total)) else "over"
            yield f"the sweep {prefix}flowed: the paths add up to {format_brief_number(self.added)}"

    def _report_cancellation(self) -> Iterator[str]:
        sums = f"magnitudes add up to {'about ' if self.estimated else ''}{format_brief_number(self.magnitude)}"
        if self.cancellation == math.inf:
            yield f"paths cancel: their {sums}, the paths themselves to {format_brief_number(self.added)}"
        elif self.cancellation > MIN_PATH_CANCELLATION:
            yield f"paths nearly cancel: their {sums}, {format_brief_number(self.cancellation)} times the gradient"

    def _report_other_paths(self) -> Iterator[str]:
        hidden = self.live - len(self.paths)
        if hidden:
            others = "path" if hidden == 1 else _format_path_count(hidden)
            yield f"  {format_brief_number(self.rest)} along the other {others}"
        if hidden and not self.exact:
            yield "  paths through arrays are ranked by norm on their way back: larger ones may be among the others"


def paths(run: RunRecord, name: str, k: int = 10) -> Paths:
    """Return what the paths from a node to the output contribute to its gradient, with the k largest listed.

    >>> import wiregrad as wg
    >>> paths(wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10), "a")
    a reaches f along 1 path; its gradient is 10
      10 = 1 x 10 x 1   a -> e -> f
    """
    most = _check_path_count(k)
    index = RunIndex(run)
    region = PathRegion(index, run.circuit.index(name))
    with np.errstate(all="ignore"):
        search = NumberPathSearch(region) if region.is_scalar() else ArrayPathSearch(region)
        largest = [_make_path(region, search, link, flow) for link, flow in search.find_largest(most)]
        total = run.gradient(region.target)
        live = region.count_paths(region.is_live)
        sums = _sum_contributions(search, largest, live, total)
        # Since Python 3.12 `sum` would add what was rounded away.
        rest = sums.added - reduce(operator.add, [path.contribution for path in largest], 0.0)
    return Paths(
        node=run.circuit.reference_to(region.target),
        output=run.circuit.reference_to(index.root),
        total=to_python_number(total),
        count=region.count_paths(lambda row, slot: True),
        live=live,
        magnitude=sums.magnitude,
        cancellation=sums.cancellation,
        paths=tuple(largest),
        rest=to_python_number(rest),
        exact=isinstance(search, NumberPathSearch),
        added=to_python_number(sums.added),
        estimated=sums.estimated,
        moves=bool(index.active[region.target]),
    )


def _check_path_count(k: Any) -> int:
    """Check the number of paths to show and return it as an int."""
    try:
        count = -1 if isinstance(k, bool | np.bool_) else operator.index(k)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError(f"k must be a non-negative integer, how many paths to show; got {short_repr(k)}")
    return count


def _make_path(region: PathRegion, search: PathSearch, link: PathLink, flow: Any) -> GradientPath:
    circuit = region.index.circuit
    first = Node(circuit, region.target)
    steps = [step for step in link.iterate_links() if step.reader not in region.splitters]
    nodes = [first, *(Node(circuit, step.reader) for step in steps)]
    wires = list(zip(nodes[1:], steps, strict=True))
    return GradientPath(
        contribution=search.contribution_of(flow),
        magnitude=search.flow_size(flow),
        nodes=tuple([node.reference for node in nodes]),
        ops=tuple([node.op.title for node in nodes]),
        wires=tuple([(node.reference, step.slot) for node, step in wires]),
        inputs=tuple([node.op.input_name(step.slot) for node, step in wires]),
        locals=tuple([step.factor for step in steps]),
        places=tuple([node.place for node in nodes]),
    )


class _PathSums(NamedTuple):
    """Sums of contributions, with signs and without."""

    added: Any
    magnitude: float
    cancellation: float
    estimated: bool = False


def _sum_contributions(
    search: PathSearch, paths_shown: Sequence[GradientPath], live: int, total: ArrayLike
) -> _PathSums:
    """Add up the contributions: along numbers by a sweep, along arrays one by one if all paths are shown."""
    if isinstance(search, NumberPathSearch):
        signed = search.sum_contributions()
        whole = search.sum_products(search.wire_gain)
        return _PathSums(
            _restore_lost_gradient(total, float(signed), float(whole)),
            float(whole),
            _cancellation_ratio(whole, abs(signed)),
        )
    shown = sum([path.magnitude for path in paths_shown], 0.0)
    if live == len(paths_shown):
        added = _restore_lost_gradient(total, sum([path.contribution for path in paths_shown], 0.0), shown)
        return _PathSums(
            added,
            shown,
            _cancellation_ratio(ScaledNumber.from_float(shown), ScaledNumber.from_float(euclidean_norm(added))),
        )
    whole = max(search.sum_products(search.wire_gain), ScaledNumber.from_float(shown), key=ScaledNumber.magnitude_rank)
    return _PathSums(
        total, float(whole), _cancellation_ratio(whole, ScaledNumber.from_float(euclidean_norm(total))), estimated=True
    )


def _restore_lost_gradient(total: ArrayLike, added: ArrayLike, magnitude: float) -> ArrayLike:
    """Return the gradient, or the sum of the paths if the backward pass under- or overflowed."""
    lost = not euclidean_norm(np.subtract(added, total)) <= LOST_GRADIENT_SHARE * magnitude
    return added if lost and np.all(np.isfinite(added)) else total


def _cancellation_ratio(magnitude: ScaledNumber, total: ScaledNumber) -> float:
    """Return the ratio of the sum of the magnitudes to the magnitude of the sum."""
    if not (math.isfinite(magnitude.mantissa) and math.isfinite(total.mantissa)):
        return math.nan
    if not total.mantissa:
        return math.inf if magnitude.mantissa else 1.0
    return max(1.0, float(magnitude.over(total)))


def _write_distinct_paths(paths: Sequence[GradientPath]) -> Iterator[str]:
    """Format paths; those through the same nodes are shown with the inputs by which they differ."""
    alike: dict[tuple[str, ...], list[GradientPath]] = {}
    for path in paths:
        alike.setdefault(path.nodes, []).append(path)
    marks = {
        nodes: frozenset(k for k in range(len(nodes) - 1) if len({path.wires[k] for path in group}) > 1)
        for nodes, group in alike.items()
    }
    return (path.text(marks[path.nodes]) for path in paths)


def _shorten_middle(parts: Sequence[str]) -> Sequence[str]:
    return parts if len(parts) <= MAX_PATH_PARTS else [*parts[: MAX_PATH_PARTS - 2], "...", parts[-1]]


def _format_count(count: int) -> str:
    if count < MAX_EXACT_COUNT:
        return f"{count:,}"
    power = math.log10(count)
    return f"about {10 ** (power % 1):.3f} x 10^{math.floor(power)}"


def _format_path_count(count: int) -> str:
    return f"{_format_count(count)} path{'' if count == 1 else 's'}"
