"""Which ways a gradient came: the contributions of the paths from a node to the output, largest first.

Nothing is enumerated. Going back from the output, each node keeps the k largest products that reached it; magnitudes
keep their order when they are multiplied by one more factor, so the k largest at a node come from the k largest at
its readers. Products carry an exponent of their own, so long chains neither under- nor overflow. Paths are counted in
whole numbers of any size. Only nodes that lie between the node and the output are visited, and nothing recurses.

Along arrays a local derivative is a linear map. There each node keeps the k largest flows by norm: the contributions
shown are exact, but a flow that was dropped early might have grown later, so that they need not be the k largest.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import number, plain
from wiregrad.errors import InputError, shown
from wiregrad.inspect.magnitude import norm
from wiregrad.inspect.report import Report
from wiregrad.ir import Node, Pattern, Place, Row
from wiregrad.ir.names import is_automatic
from wiregrad.ops.flow import Masked, fit, settle

CANCELS = 100.0
"""From this ratio of magnitudes to sum on, the sentences say that paths nearly cancel."""
MOST = 8
"""So many factors and names of one path are written out; a longer path is cut in the middle."""
WRITTEN = 10**45
"""Counts up to this one are written out in full."""


@dataclass(frozen=True)
class Path:
    """One path from a node to the output, splitters left out.

    `wires` are its wires as (reader, slot), `locals` one factor for each. Along arrays a factor says how much the
    norm of what flowed back grew on that wire, and `magnitude` is the norm of the contribution.
    """

    contribution: Any
    magnitude: float
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    wires: tuple[tuple[str, int], ...]
    locals: tuple[float, ...]
    places: tuple[Place | None, ...]

    def __str__(self) -> str:
        value = f"|{number(self.magnitude)}|" if np.ndim(self.contribution) else number(self.contribution)
        # The output's own gradient is the last factor, so that there is one for each name.
        factors = " x ".join(_cut([number(factor) for factor in (*self.locals, 1.0)]))
        # A node that nobody named says what it does.
        pairs = zip(self.nodes, self.ops, strict=True)
        names = [f"{op} {name}" if is_automatic(name) else name for name, op in pairs]
        return f"{value} = {factors}   {' -> '.join(_cut(names))}"


@dataclass(frozen=True, repr=False)
class Paths(Report):
    """The paths from a node to the output: how many, what they add up to, how much they cancel, and the largest.

    `count` counts all paths of wires, `live` those without a blocked wire. `magnitude` is the sum of the magnitudes of
    all contributions, `cancellation` that sum over the magnitude of `total` (inf where `total` is 0 and they are not,
    NaN where they are not finite). `rest` is `total` less the paths that are shown.

    `exact` is false along arrays. Magnitudes are norms there, and `magnitude` is an estimate: each wire is taken to
    stretch every flow as much as it stretched the whole gradient, whatever its direction.
    """

    node: str
    output: str
    total: Any
    count: int
    live: int
    magnitude: float
    cancellation: float
    paths: tuple[Path, ...]
    rest: Any
    exact: bool
    moves: bool
    """Whether an input moves the node; else nothing is sent back to it."""

    def lines(self) -> Iterator[str]:
        """Return the count, the gradient, what cancels, and a line for each path."""
        yield self._headline()
        if self.live:
            yield from self._cancels()
            yield from (f"  {path}" for path in self.paths)
            yield from self._others()

    def _headline(self) -> str:
        if self.node == self.output:
            return f"{self.node} is the output: its gradient is {number(self.total)}"
        if not self.count:
            return f"{self.node} does not reach {self.output}: no path leads from one to the other"
        head = f"{self.node} reaches {self.output} along {_plural(self.count)}"
        if not self.live:
            blocked = "it is blocked" if self.count == 1 else "every one is blocked"
            why = blocked if self.moves else f"no input moves {self.node}"
            return f"{head}, but {why}: no gradient arrives"
        blocked = f", {_written(self.live)} of them not blocked" if self.live < self.count else ""
        return f"{head}{blocked}; its gradient is {number(self.total)}"

    def _cancels(self) -> Iterator[str]:
        sums = f"magnitudes add up to {number(self.magnitude)}"
        if self.cancellation == math.inf:
            yield f"paths cancel: their {sums}, the paths themselves to {number(self.total)}"
        elif self.cancellation > CANCELS:
            lost = f"about {math.log10(self.cancellation):.0f} digits are lost"
            yield f"paths nearly cancel: their {sums}, {number(self.cancellation)} times the gradient: {lost}"

    def _others(self) -> Iterator[str]:
        hidden = self.live - len(self.paths)
        if hidden:
            yield f"  {number(self.rest)} along the other {_plural(hidden)}"
        if hidden and not self.exact:
            yield "  paths through arrays are ranked by norm on their way back: larger ones may be among the others"


def paths(run: Run, name: str, k: int = 10) -> Paths:
    """Return what the paths from a node to the output contribute to its gradient, the k largest of them one by one.

    >>> import wiregrad as wg
    >>> paths(wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10), "a")
    a reaches f along 1 path; its gradient is 10
      10 = 1 x 10 x 1   a -> e -> f
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise InputError(f"k says how many paths to show, a whole number from 0; got {shown(k)}")
    way = _Way(run, run.circuit.index(name))
    with np.errstate(all="ignore"):
        search = _Numbers(way) if way.is_scalar() else _Arrays(way)
        found = [_path(way, search, link, flow) for link, flow in search.largest(k)]
        magnitude, cancellation = search.cancellation()
        total = run.gradient(way.target)
        rest = total - sum([path.contribution for path in found], 0.0)
    return Paths(
        node=run.circuit.name_of(way.target),
        output=run.circuit.name_of(run.circuit.root()),
        total=plain(total),
        count=way.count(lambda row, slot: True),
        live=way.count(way.is_live),
        magnitude=magnitude,
        cancellation=cancellation,
        paths=tuple(found),
        rest=plain(rest),
        exact=isinstance(search, _Numbers),
        moves=bool(run.circuit.active()[way.target]),
    )


class _Way:
    """The nodes between a node and the output, the last one first."""

    def __init__(self, run: Run, target: int) -> None:
        self.run, self.target, self.root = run, target, run.circuit.root()
        self.inside = bytearray(run.circuit.size)
        self.rows = self._rows()
        self.splitters = {row.node for row in self.rows if row.op.pattern is Pattern.MERGE}
        self._starts = run.circuit.columns.starts.tolist()

    def _rows(self) -> list[Row]:
        ahead, reached = bytearray(len(self.inside)), list[Row]()
        ahead[self.target] = 1
        for row in self.run.circuit.rows():
            if self.target < row.node <= self.root and any(ahead[source] for source in row.sources):
                ahead[row.node] = 1
                reached.append(row)
        self.inside[self.root] = ahead[self.root]
        for row in reversed(reached):
            if self.inside[row.node]:
                for source in row.sources:
                    self.inside[source] |= ahead[source]
        return [row for row in reversed(reached) if self.inside[row.node]]

    def is_scalar(self) -> bool:
        """Return whether real numbers alone flow here, so that each wire has one factor."""
        types = [self.run.circuit.type_of(node) for node in (self.target, *(row.node for row in self.rows))]
        return all(not kind.shape and kind.dtype.kind != "c" for kind in types)

    def slots(self, row: Row) -> Iterator[int]:
        """Return the inputs of a node through which the way leads, in the order in which the sweep adds."""
        return (slot for slot in reversed(range(len(row.sources))) if self.inside[row.sources[slot]])

    def sent(self, row: Row, slot: int) -> Any:
        """Return what went back along a wire."""
        return self.run.sent[self._starts[row.node] + slot]

    def is_live(self, row: Row, slot: int) -> bool:
        """Return whether anything went back along a wire."""
        sent = self.sent(row, slot)
        return bool(np.any(sent.mask)) if type(sent) is Masked else sent is not None

    def pull(self, row: Row, slot: int, flow: Any) -> Any:
        """Return what a wire makes of a flow that arrives at its reader."""
        values = self.run.values
        xs = [values[source] for source in row.sources]
        return fit(row.op.pull(slot, flow, xs, values[row.node], row.mode), xs[slot])

    def shape(self, node: int) -> tuple[int, ...]:
        """Return the shape of what a node carries."""
        return self.run.circuit.type_of(node).shape

    def count(self, keep: Callable[[Row, int], bool]) -> int:
        """Return how many paths of wires to keep there are."""
        counts = {self.root: 1}
        for row in self.rows:
            # Counts can have as many bits as there are nodes: none is kept longer than it is needed.
            held = counts.pop(row.node, 0)
            for slot in self.slots(row) if held else ():
                if keep(row, slot):
                    counts[row.sources[slot]] = counts.get(row.sources[slot], 0) + held
        return counts.get(self.target, 0)


class _Scaled(NamedTuple):
    """A number whose exponent has no bounds: `mantissa * 2**exponent`, the mantissa between 1/2 and 1, 0 or not finite.

    Within the range of float64, products and sums have the bits that floats give.
    """

    mantissa: float
    exponent: int

    @classmethod
    def of(cls, x: float) -> _Scaled:
        return cls(*math.frexp(x))

    def times(self, other: _Scaled) -> _Scaled:
        mantissa, exponent = math.frexp(self.mantissa * other.mantissa)
        return _Scaled(mantissa, exponent + self.exponent + other.exponent)

    def plus(self, other: _Scaled) -> _Scaled:
        if not self.mantissa or not other.mantissa:
            return other if not self.mantissa else self
        low, high = sorted((self, other), key=lambda number: number.exponent)
        mantissa, exponent = math.frexp(high.mantissa + math.ldexp(low.mantissa, low.exponent - high.exponent))
        return _Scaled(mantissa, exponent + high.exponent)

    def over(self, other: _Scaled) -> _Scaled:
        mantissa, exponent = math.frexp(self.mantissa / other.mantissa)
        return _Scaled(mantissa, exponent + self.exponent - other.exponent)

    def __abs__(self) -> _Scaled:
        return _Scaled(abs(self.mantissa), self.exponent)

    def __float__(self) -> float:
        try:
            return math.ldexp(self.mantissa, self.exponent)
        except OverflowError:
            return math.copysign(math.inf, self.mantissa)

    def rank(self) -> tuple[int, int, float]:
        """Return what puts numbers in order of magnitude: NaN before inf before all others, 0 last."""
        if math.isfinite(self.mantissa):
            return int(self.mantissa != 0), self.exponent, abs(self.mantissa)
        return 2 + math.isnan(self.mantissa), 0, 0.0


_ONE = _Scaled.of(1.0)


class _Link(NamedTuple):
    """A partial path: its first wire, that wire's factor, and the rest of it, which leads on to the output."""

    rank: tuple[int, int, float]
    reader: int
    slot: int
    factor: float
    onward: _Link | None


_Found = tuple[_Link, Any]
"""A partial path and what flows back along it."""


class _Search:
    """Looks for the largest paths; what flows back along one is for the two kinds of search to say."""

    def __init__(self, way: _Way) -> None:
        self.way = way

    def start(self) -> Any:
        """Return what flows at the output."""
        raise NotImplementedError

    def send(self, row: Row, slot: int, flow: Any) -> tuple[Any, float] | None:
        """Return what a wire makes of a flow, and the factor; None if nothing is left of it."""
        raise NotImplementedError

    def magnitude(self, flow: Any) -> _Scaled:
        """Return how large a flow is."""
        raise NotImplementedError

    def contribution(self, flow: Any) -> Any:
        """Return what flows at the end of a path, as a gradient."""
        raise NotImplementedError

    def gain(self, row: Row, slot: int) -> _Scaled:
        """Return by how much a wire stretches magnitudes."""
        raise NotImplementedError

    def total(self) -> _Scaled:
        """Return the magnitude of the sum of all contributions."""
        raise NotImplementedError

    def largest(self, k: int) -> list[_Found]:
        """Return the k largest paths, each with what flowed back along it."""
        start = self.start()
        found: dict[int, list[_Found]] = {self.way.root: [(_Link(_ONE.rank(), -1, 0, 1.0, None), start)]}
        for row in self.way.rows:
            held = _largest(found.pop(row.node, []), k)
            for slot in self.way.slots(row) if held else ():
                if self.way.is_live(row, slot):
                    pool = found.setdefault(row.sources[slot], [])
                    pool.extend(self._sent(row, slot, held))
                    if len(pool) > 100 + 8 * k:
                        pool[:] = _largest(pool, k)
        return _largest(found.get(self.way.target, []), k)[:k]

    def _sent(self, row: Row, slot: int, held: Sequence[_Found]) -> Iterator[_Found]:
        for link, flow in held:
            sent = self.send(row, slot, flow)
            if sent is not None:
                rank = self.magnitude(sent[0]).rank()
                yield _Link(rank, row.node, slot, sent[1], link), sent[0]

    def swept(self, factor: Callable[[Row, int], _Scaled]) -> _Scaled:
        """Return the sum over all paths of the products of factors, by one sweep."""
        sums: dict[int, _Scaled] = {self.way.root: _ONE}
        for row in self.way.rows:
            held = sums.pop(row.node, None)
            for slot in self.way.slots(row) if held else ():
                if self.way.is_live(row, slot):
                    assert held is not None
                    sent, source = held.times(factor(row, slot)), row.sources[slot]
                    sums[source] = sums[source].plus(sent) if source in sums else sent
        return sums.get(self.way.target, _Scaled.of(0.0))

    def cancellation(self) -> tuple[float, float]:
        """Return the sum of the magnitudes, and its ratio to the magnitude of the sum."""
        magnitude, total = self.swept(self.gain), self.total()
        if not (math.isfinite(magnitude.mantissa) and math.isfinite(total.mantissa)):
            return float(magnitude), math.nan
        if not total.mantissa:
            return float(magnitude), math.inf if magnitude.mantissa else 1.0
        return float(magnitude), max(1.0, float(magnitude.over(total)))


class _Numbers(_Search):
    """Along numbers a flow is the product of the factors so far."""

    def __init__(self, way: _Way) -> None:
        super().__init__(way)
        self._factors = {
            (row.node, slot): _Scaled.of(float(settle(way.pull(row, slot, way.run.values[row.node].dtype.type(1)))))
            for row in way.rows
            for slot in way.slots(row)
            if way.is_live(row, slot)
        }

    def start(self) -> _Scaled:
        return _ONE

    def send(self, row: Row, slot: int, flow: _Scaled) -> tuple[_Scaled, float]:
        factor = self._factors[row.node, slot]
        return flow.times(factor), float(factor)

    def magnitude(self, flow: _Scaled) -> _Scaled:
        return flow

    def contribution(self, flow: _Scaled) -> float:
        return float(flow)

    def gain(self, row: Row, slot: int) -> _Scaled:
        return abs(self._factors[row.node, slot])

    def total(self) -> _Scaled:
        # Not the run's gradient: that may have under- or overflowed.
        return abs(self.swept(lambda row, slot: self._factors[row.node, slot]))


class _Arrays(_Search):
    """Along arrays a flow is what the path alone sends back, with its norm."""

    def start(self) -> tuple[Any, float]:
        return self.way.run.flows[self.way.root], 1.0

    def send(self, row: Row, slot: int, flow: tuple[Any, float]) -> tuple[tuple[Any, float], float] | None:
        sent = self.way.pull(row, slot, flow[0])
        if sent is None or (type(sent) is Masked and not np.any(sent.mask)):
            return None
        norm = _norm(sent, self.way.shape(row.sources[slot]))
        return (sent, norm), norm / flow[1] if flow[1] else 0.0

    def magnitude(self, flow: tuple[Any, float]) -> _Scaled:
        return _Scaled.of(flow[1])

    def contribution(self, flow: tuple[Any, float]) -> Any:
        shape = self.way.shape(self.way.target)
        return np.broadcast_to(settle(flow[0]), shape).copy() if shape else plain(settle(flow[0]))

    def gain(self, row: Row, slot: int) -> _Scaled:
        sent, upstream = self.way.sent(row, slot), self.way.run.flows[row.node]
        arrived = _norm(upstream, self.way.shape(row.node))
        if not arrived:
            # What arrived is 0, which says nothing of the wire: another flow does.
            upstream = np.ones(self.way.shape(row.node), self.way.run.values[row.node].dtype)[()]
            sent, arrived = self.way.pull(row, slot, upstream), math.sqrt(max(1, upstream.size))
        norm = 0.0 if sent is None else _norm(sent, self.way.shape(row.sources[slot]))
        return _Scaled.of(norm).over(_Scaled.of(arrived))

    def total(self) -> _Scaled:
        flow = self.way.run.flows[self.way.target]
        return _Scaled.of(0.0 if flow is None else _norm(flow, self.way.shape(self.way.target)))


def _largest(found: list[_Found], k: int) -> list[_Found]:
    """Return the k largest, and behind them up to k that are 0: a factor of inf would make them NaN, the largest."""
    some = [item for item in found if item[0].rank[0]]
    zeros = [item for item in found if not item[0].rank[0]]
    return [*heapq.nlargest(k, some, key=lambda item: item[0].rank), *zeros[:k]]


def _norm(flow: Any, shape: tuple[int, ...]) -> float:
    """Return the norm of a flow, which may come without axes that it is the same along."""
    return norm(np.broadcast_to(settle(flow), shape))


def _path(way: _Way, search: _Search, link: _Link, flow: Any) -> Path:
    circuit, first = way.run.circuit, Node(way.run.circuit, way.target)
    steps = [step for step in _links(link) if step.reader not in way.splitters]
    nodes = [first, *(Node(circuit, step.reader) for step in steps)]
    return Path(
        contribution=search.contribution(flow),
        magnitude=float(abs(search.magnitude(flow))),
        nodes=tuple([node.name for node in nodes]),
        ops=tuple([node.op.name for node in nodes]),
        wires=tuple([(node.name, step.slot) for node, step in zip(nodes[1:], steps, strict=True)]),
        locals=tuple([step.factor for step in steps]),
        places=tuple([node.place for node in nodes]),
    )


def _links(link: _Link) -> Iterator[_Link]:
    while link.onward is not None:
        yield link
        link = link.onward


def _cut(parts: Sequence[str]) -> Sequence[str]:
    return parts if len(parts) <= MOST else [*parts[: MOST - 2], "...", parts[-1]]


def _written(count: int) -> str:
    if count < WRITTEN:
        return f"{count:,}"
    power = math.log10(count)
    return f"about {10 ** (power % 1):.3f} x 10^{math.floor(power)}"


def _plural(count: int) -> str:
    return f"{_written(count)} path{'' if count == 1 else 's'}"
