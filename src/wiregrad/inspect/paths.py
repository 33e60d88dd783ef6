"""Which ways a gradient came: the contributions of the paths from a node to the output, largest first.

Paths are counted exactly, in integers of any size. Along arrays a local derivative is a linear map, and each node keeps
the k flows of largest norm: the contributions shown are exact, but a flow that was dropped early might have grown
later, so they need not be the k largest.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends import Run
from wiregrad.backends.magnitude import norm
from wiregrad.dtypes import number, plain
from wiregrad.errors import InputError, shown
from wiregrad.inspect.report import Report
from wiregrad.inspect.ways import Arrays, Link, Numbers, Scaled, Search, Way
from wiregrad.ir import Node, Place
from wiregrad.ir.names import is_automatic

CANCELS = 100.0
"""Paths are said to nearly cancel if their magnitudes add up to more than this many times the gradient."""
LOST = 0.01
"""A gradient further from the sum of its paths than this share of their magnitudes has under- or overflowed."""
MOST = 8
"""Maximum number of factors and names shown of one path; a longer path is shortened in the middle."""
WRITTEN = 10**45
"""Counts below this are written in full."""


@dataclass(frozen=True)
class Path:
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
        value = f"|{number(self.magnitude)}|" if np.ndim(self.contribution) else number(self.contribution)
        # The output's own gradient is the last factor, so that there is one for each name.
        factors = " x ".join(_cut([number(factor) for factor in (*self.locals, 1.0)]))
        # A node without a name of its own is shown with its op.
        pairs = zip(self.nodes, self.ops, strict=True)
        names = [f"{op} {name}" if is_automatic(name) else name for name, op in pairs]
        for k in marked:
            names[k + 1] += f" (as {self.inputs[k]})"
        return f"{value} = {factors}   {' -> '.join(_cut(names))}"


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
    paths: tuple[Path, ...]
    rest: Any
    exact: bool
    added: Any
    estimated: bool
    moves: bool
    """Whether the node depends on an input; if not, no gradient is sent back to it."""

    def lines(self) -> Iterator[str]:
        """Return the count and the gradient, what cancels, and a line for each path."""
        yield self._headline()
        if self.live:
            yield from self._lost()
            yield from self._cancels()
            yield from (f"  {path}" for path in _told_apart(self.paths))
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

    def _lost(self) -> Iterator[str]:
        if not np.array_equal(self.added, self.total, equal_nan=True):
            prefix = "under" if np.all(np.isfinite(self.total)) else "over"
            yield f"the sweep {prefix}flowed: the paths add up to {number(self.added)}"

    def _cancels(self) -> Iterator[str]:
        sums = f"magnitudes add up to {'about ' if self.estimated else ''}{number(self.magnitude)}"
        if self.cancellation == math.inf:
            yield f"paths cancel: their {sums}, the paths themselves to {number(self.added)}"
        elif self.cancellation > CANCELS:
            yield f"paths nearly cancel: their {sums}, {number(self.cancellation)} times the gradient"

    def _others(self) -> Iterator[str]:
        hidden = self.live - len(self.paths)
        if hidden:
            yield f"  {number(self.rest)} along the other {'path' if hidden == 1 else _plural(hidden)}"
        if hidden and not self.exact:
            yield "  paths through arrays are ranked by norm on their way back: larger ones may be among the others"


def paths(run: Run, name: str, k: int = 10) -> Paths:
    """Return what the paths from a node to the output contribute to its gradient, with the k largest listed.

    >>> import wiregrad as wg
    >>> paths(wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10), "a")
    a reaches f along 1 path; its gradient is 10
      10 = 1 x 10 x 1   a -> e -> f
    """
    most = _checked(k)
    region = Way(run, run.circuit.index(name))
    with np.errstate(all="ignore"):
        search = Numbers(region) if region.is_scalar() else Arrays(region)
        largest = [_path(region, search, link, flow) for link, flow in search.largest(most)]
        total = run.gradient(region.target)
        live = region.count(region.is_live)
        sums = _summed(search, largest, live, total)
        rest = sums.added - sum([path.contribution for path in largest], 0.0)
    return Paths(
        node=run.circuit.name_of(region.target),
        output=run.circuit.name_of(run.circuit.root()),
        total=plain(total),
        count=region.count(lambda row, slot: True),
        live=live,
        magnitude=sums.magnitude,
        cancellation=sums.cancellation,
        paths=tuple(largest),
        rest=plain(rest),
        exact=isinstance(search, Numbers),
        added=plain(sums.added),
        estimated=sums.estimated,
        moves=bool(run.circuit.active()[region.target]),
    )


def _checked(k: Any) -> int:
    """Check the number of paths to show and return it as an int."""
    try:
        count = -1 if isinstance(k, bool | np.bool_) else operator.index(k)
    except TypeError:
        count = -1
    if count < 0:
        raise InputError(f"k must be a non-negative integer, how many paths to show; got {shown(k)}")
    return count


def _path(region: Way, search: Search, link: Link, flow: Any) -> Path:
    circuit = region.run.circuit
    first = Node(region.run.circuit, region.target)
    steps = [step for step in link.steps() if step.reader not in region.splitters]
    nodes = [first, *(Node(circuit, step.reader) for step in steps)]
    wires = list(zip(nodes[1:], steps, strict=True))
    return Path(
        contribution=search.contribution(flow),
        magnitude=search.size(flow),
        nodes=tuple([node.name for node in nodes]),
        ops=tuple([node.op.title for node in nodes]),
        wires=tuple([(node.name, step.slot) for node, step in wires]),
        inputs=tuple([node.op.input_name(step.slot) for node, step in wires]),
        locals=tuple([step.factor for step in steps]),
        places=tuple([node.place for node in nodes]),
    )


class _Sums(NamedTuple):
    """Sums of contributions, with signs and without."""

    added: Any
    magnitude: float
    cancellation: float
    estimated: bool = False


def _summed(search: Search, paths_shown: Sequence[Path], live: int, total: Any) -> _Sums:
    """Add up the contributions: along numbers by a sweep, along arrays one by one if all paths are shown."""
    if isinstance(search, Numbers):
        signed = search.added()
        whole = search.swept(search.gain)
        return _Sums(_unless_lost(total, float(signed), float(whole)), float(whole), _cancellation(whole, abs(signed)))
    shown = sum([path.magnitude for path in paths_shown], 0.0)
    if live == len(paths_shown):
        added = _unless_lost(total, sum([path.contribution for path in paths_shown], 0.0), shown)
        return _Sums(added, shown, _cancellation(Scaled.of(shown), Scaled.of(norm(added))))
    whole = max(search.swept(search.gain), Scaled.of(shown), key=Scaled.rank)
    return _Sums(total, float(whole), _cancellation(whole, Scaled.of(norm(total))), estimated=True)


def _unless_lost(total: Any, added: Any, magnitude: float) -> Any:
    """Return the gradient, or the sum of the paths if the backward pass under- or overflowed."""
    lost = not norm(np.subtract(added, total)) <= LOST * magnitude
    return added if lost and np.all(np.isfinite(added)) else total


def _cancellation(magnitude: Scaled, total: Scaled) -> float:
    """Return the ratio of the sum of the magnitudes to the magnitude of the sum."""
    if not (math.isfinite(magnitude.mantissa) and math.isfinite(total.mantissa)):
        return math.nan
    if not total.mantissa:
        return math.inf if magnitude.mantissa else 1.0
    return max(1.0, float(magnitude.over(total)))


def _told_apart(paths: Sequence[Path]) -> Iterator[str]:
    """Format paths; those through the same nodes are shown with the inputs by which they differ."""
    alike: dict[tuple[str, ...], list[Path]] = {}
    for path in paths:
        alike.setdefault(path.nodes, []).append(path)
    marks = {
        nodes: frozenset(k for k in range(len(nodes) - 1) if len({path.wires[k] for path in group}) > 1)
        for nodes, group in alike.items()
    }
    return (path.text(marks[path.nodes]) for path in paths)


def _cut(parts: Sequence[str]) -> Sequence[str]:
    return parts if len(parts) <= MOST else [*parts[: MOST - 2], "...", parts[-1]]


def _written(count: int) -> str:
    if count < WRITTEN:
        return f"{count:,}"
    power = math.log10(count)
    return f"about {10 ** (power % 1):.3f} x 10^{math.floor(power)}"


def _plural(count: int) -> str:
    return f"{_written(count)} path{'' if count == 1 else 's'}"
