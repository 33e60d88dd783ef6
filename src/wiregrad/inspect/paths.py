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

from wiregrad.backends import RunRecord
from wiregrad.backends.magnitude import euclidean_norm
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import InputError, short_repr
from wiregrad.inspect.report import Report
from wiregrad.inspect.ways import ArrayPathSearch, PathLink, NumberPathSearch, ScaledNumber, PathSearch, PathRegion
from wiregrad.ir import Node, Place
from wiregrad.ir.names import is_automatic_name

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
        value = f"|{format_brief_number(self.magnitude)}|" if np.ndim(self.contribution) else format_brief_number(self.contribution)
        # The output's own gradient is the last factor, so that there is one for each name.
        factors = " x ".join(_shorten_middle([format_brief_number(factor) for factor in (*self.locals, 1.0)]))
        # A node without a name of its own is shown with its op.
        pairs = zip(self.nodes, self.ops, strict=True)
        names = [f"{op} {name}" if is_automatic_name(name) else name for name, op in pairs]
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
            blocked = "it is blocked" if self.count == 1 else "every one is blocked"
            why = blocked if self.moves else f"no input moves {self.node}"
            return f"{head}, but {why}: no gradient arrives"
        blocked = f", {_format_count(self.live)} of them not blocked" if self.live < self.count else ""
        return f"{head}{blocked}; its gradient is {format_brief_number(self.total)}"

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
            yield f"  {format_brief_number(self.rest)} along the other {'path' if hidden == 1 else _format_path_count(hidden)}"
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
    region = PathRegion(run, run.circuit.index(name))
    with np.errstate(all="ignore"):
        search = NumberPathSearch(region) if region.is_scalar() else ArrayPathSearch(region)
        largest = [_make_path(region, search, link, flow) for link, flow in search.find_largest(most)]
        total = run.gradient(region.target)
        live = region.count_paths(region.is_live)
        sums = _sum_contributions(search, largest, live, total)
        rest = sums.added - sum([path.contribution for path in largest], 0.0)
    return Paths(
        node=run.circuit.name_of(region.target),
        output=run.circuit.name_of(run.circuit.root()),
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
        moves=bool(run.circuit.active()[region.target]),
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
    circuit = region.run.circuit
    first = Node(region.run.circuit, region.target)
    steps = [step for step in link.iterate_links() if step.reader not in region.splitters]
    nodes = [first, *(Node(circuit, step.reader) for step in steps)]
    wires = list(zip(nodes[1:], steps, strict=True))
    return GradientPath(
        contribution=search.contribution_of(flow),
        magnitude=search.flow_size(flow),
        nodes=tuple([node.name for node in nodes]),
        ops=tuple([node.op.title for node in nodes]),
        wires=tuple([(node.name, step.slot) for node, step in wires]),
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


def _sum_contributions(search: PathSearch, paths_shown: Sequence[GradientPath], live: int, total: Any) -> _PathSums:
    """Add up the contributions: along numbers by a sweep, along arrays one by one if all paths are shown."""
    if isinstance(search, NumberPathSearch):
        signed = search.sum_contributions()
        whole = search.sum_products(search.wire_gain)
        return _PathSums(_restore_lost_gradient(total, float(signed), float(whole)), float(whole), _cancellation_ratio(whole, abs(signed)))
    shown = sum([path.magnitude for path in paths_shown], 0.0)
    if live == len(paths_shown):
        added = _restore_lost_gradient(total, sum([path.contribution for path in paths_shown], 0.0), shown)
        return _PathSums(added, shown, _cancellation_ratio(ScaledNumber.from_float(shown), ScaledNumber.from_float(euclidean_norm(added))))
    whole = max(search.sum_products(search.wire_gain), ScaledNumber.from_float(shown), key=ScaledNumber.magnitude_rank)
    return _PathSums(total, float(whole), _cancellation_ratio(whole, ScaledNumber.from_float(euclidean_norm(total))), estimated=True)


def _restore_lost_gradient(total: Any, added: Any, magnitude: float) -> Any:
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
