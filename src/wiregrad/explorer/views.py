"""Answers to what the page asks about a circuit that is too large to send whole: views, searches, sizes, single nodes.

The arrays stay in Python. An answer is small whatever the size of the circuit, and says how much it leaves out.
Invariant: each measurement of a circuit and its run is made once and cached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import Run
from wiregrad.errors import InputError, shown
from wiregrad.explorer import encoded
from wiregrad.explorer.find import Mask, find, slices
from wiregrad.explorer.inside import Inside, marked, runs_of
from wiregrad.explorer.nodes import node_data, wire_data
from wiregrad.explorer.parts import Part, part
from wiregrad.explorer.pictures import picture_data
from wiregrad.export.drawing import Sizes
from wiregrad.export.grouping import CAP, group_paths
from wiregrad.inspect.explain import explain
from wiregrad.inspect.paths import paths
from wiregrad.inspect.report import Report
from wiregrad.ir import Circuit

ROWS = 200
"""Maximum number of nodes in the answer to a search."""
TOP = 50
"""Maximum number of large gradients in a summary."""
SLICES = 10_000
"""Maximum number of ranges of non-finite nodes in a summary."""
WAYS = 20_000
"""Circuits with more nodes than this are not searched for the paths of a gradient."""
SHOWN_PATHS = 8
"""Maximum number of paths in the explanation of a gradient."""
COLUMNS = 120
"""Maximum number of columns of the heat strip, which divide the ranks."""
LEVELS = 40
"""Maximum number of levels of the heat strip, which divide the sizes."""
BRANCHES = 100
"""Maximum number of readers listed for a node."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The totals of a group: its nodes, the norm of their finite gradients, and how many nodes are not finite."""

    nodes: int = 0
    norm: float = 0.0
    bad: int = 0

    def with_row(self, other: _Row) -> _Row:
        """Return the totals of both groups together."""
        return _Row(self.nodes + other.nodes, math.hypot(self.norm, other.norm), self.bad + other.bad)


@dataclass(frozen=True, eq=False)
class Views:
    """Answers about one circuit and its run."""

    circuit: Circuit
    run: Run | None = None

    @cached_property
    def flows(self) -> Sizes:
        """The size of the gradient of every node."""
        return _none(self.circuit.size) if self.run is None else Sizes.of_gradients(self.run)

    @cached_property
    def values(self) -> Sizes:
        """The size of the value of every node."""
        return _none(self.circuit.size) if self.run is None else Sizes.of(self.run.values)

    @cached_property
    def absent(self) -> Mask:
        """The mask of the nodes that no gradient reached."""
        if self.run is None:
            return np.ones(self.circuit.size, bool)
        return np.fromiter((flow is None for flow in self.run.flows), bool, self.circuit.size)

    @cached_property
    def names(self) -> list[str]:
        """Every name, in the order of the circuit's name table."""
        return [name for _, name in self.circuit.columns.names]

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """The number of wires on the longest path from a leaf to each node."""
        ranks = [0] * self.circuit.size
        starts = self.circuit.columns.starts.tolist()
        sources = self.circuit.columns.sources.tolist()
        for node in range(self.circuit.size):
            for source in sources[starts[node] : starts[node + 1]]:
                if ranks[source] >= ranks[node]:
                    ranks[node] = ranks[source] + 1
        return np.array(ranks, np.int64)

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """The number of groups around each node."""
        labels = self.circuit.columns.groups
        if labels.index is None:
            return np.zeros(self.circuit.size, np.int64)
        return np.array([*(len([*filter(None, str(label).split("/"))]) for label in labels.table), 0])[labels.index]

    def column(self, name: str) -> NDArray[Any]:
        """Return a column that a search compares: sizes, depths, ranks or indices; NaN where there is no size.

        >>> import wiregrad as wg
        >>> Views(wg.circuit("x * x")).column("index").tolist()
        [0, 1]
        """
        if name == "grad":
            return np.where(self.absent | (self.flows.nans > 0), np.nan, _sizes(self.flows))
        if name == "value":
            return np.where(self.values.nans > 0, np.nan, _sizes(self.values))
        if name == "rank":
            return self.ranks
        return self.depths if name == "depth" else np.arange(self.circuit.size)

    def state(self, name: str) -> Mask:
        """Return the mask of the nodes that are `nan`, `inf`, `bad` (one of both) or `absent` (no gradient arrived).

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = log(x)").run(x=0.0)
        >>> Views(run.circuit, run).state("inf").tolist()
        [True, True]
        """
        if name == "absent":
            return self.absent
        nans = self.flows.nans + self.values.nans
        infs = self.flows.infs + self.values.infs
        mask: Mask = {"nan": nans, "inf": infs, "bad": nans + infs}[name] > 0
        return mask

    def find(self, query: str) -> dict[str, Any]:
        """Return the number of nodes that a query finds, and the first of them.

        >>> import wiregrad as wg
        >>> Views(wg.circuit("y = tanh(x)")).find("op:tanh")["nodes"][0]["name"]
        'y'
        """
        nodes = np.flatnonzero(find(self, query))
        return {"query": query, "count": len(nodes), "nodes": [self.row(node) for node in nodes[:ROWS].tolist()]}

    def row(self, node: int) -> dict[str, Any]:
        """Describe a node in brief, for a row in a list of nodes."""
        row = {
            "node": node,
            "name": self.circuit.name_of(node),
            "op": self.circuit.op_of(node).name,
            "group": self.circuit.columns.groups.at(node) or "",
        }
        place = self.circuit.columns.places.at(node)
        return row | self._numbers(node) | ({} if place is None else {"place": encoded.place(place)})

    def _numbers(self, node: int) -> dict[str, Any]:
        if self.run is None:
            return {}
        shape = self.circuit.type_of(node).shape
        return {
            "value": encoded.value(self.run.values[node]),
            "grad": encoded.flow(self.run.flows[node], shape),
        }

    def node(self, node: int) -> dict[str, Any]:
        """Return everything known about one node: its op, numbers, wires and readers.

        >>> import wiregrad as wg
        >>> run = wg.circuit("f = x * x").run(x=3.0)
        >>> [wire["sent"] for wire in Views(run.circuit, run).node(1)["wires"]]
        [3.0, 3.0]
        """
        self._checked(node)
        readers = self._readers(node)
        wires = [(node, slot) for slot in range(len(self.circuit.sources_of(node)))]
        return {
            **node_data(self.circuit, node),
            **self._numbers(node),
            "node": node,
            "rank": int(self.ranks[node]),
            "wires": [self._wire(*wire) for wire in wires],
            "readers": len(readers),
            "branches": [self._wire(*wire) for wire in readers[:BRANCHES]],
        }

    def _checked(self, node: int) -> None:
        if not 0 <= node < self.circuit.size:
            raise InputError(f"there is no node {node}; the circuit has {self.circuit.size:,}, counted from 0")

    def why(self, node: int) -> dict[str, Any]:
        """Explain the gradient of one node in sentences; for a circuit that is not too large, list its paths too.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = relu(x)").run(x=-2.0)
        >>> Views(run.circuit, run).why(0)["lines"][0]
        'the gradient of x is 0: nothing flows back to it'
        """
        self._checked(node)
        if self.run is None:
            return {"node": node, "lines": ["the circuit was not run: there are no gradients"]}
        name = self.circuit.name_of(node)
        reports: list[Report] = [explain(self.run, name)]
        if self.circuit.size <= WAYS:
            reports.append(paths(self.run, name, SHOWN_PATHS))
        return {"node": node, "lines": [line for report in reports for line in report.lines()]}

    def _readers(self, node: int) -> list[tuple[int, int]]:
        c = self.circuit.columns
        wires = np.flatnonzero(c.sources == node)
        readers = np.searchsorted(c.starts, wires, side="right") - 1
        return [(int(reader), int(wire - c.starts[reader])) for reader, wire in zip(readers, wires, strict=True)]

    def _wire(self, reader: int, slot: int) -> dict[str, Any]:
        sources = self.circuit.sources_of(reader)
        wire = {
            "reader": reader,
            "slot": slot,
            "source": sources[slot],
            "from": self.circuit.name_of(sources[slot]),
            "to": self.circuit.name_of(reader),
        }
        if self.run is None:
            return wire
        local, upstream, sent = wire_data(self.run, reader, slot)
        return wire | {"local": local, "upstream": upstream, "sent": sent}

    def heat(self) -> dict[str, Any]:
        """Return a histogram of nodes by rank and size of the gradient, in powers of ten.

        `counts` has a row for every column of ranks. Gradients that are zero, absent or not finite are counted apart.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = tanh(3 * x)").run(x=0.5)
        >>> strip = Views(run.circuit, run).heat()
        >>> strip["low"], strip["high"], strip["absent"]
        (-1.0, 0.0, [1, 0, 0])
        """
        ranks = int(self.ranks.max(initial=0)) + 1
        columns = min(ranks, COLUMNS)
        column = self.ranks * columns // ranks
        bad = (self.flows.nans + self.flows.infs) > 0
        norms = self.flows.norms
        sized = ~self.absent & ~bad & (norms > 0)
        logs = np.log10(norms, where=sized, out=np.zeros(self.circuit.size))
        low, high = _bounds(logs[sized])
        levels = max(1, min(LEVELS, round(4 * (high - low))))
        level = np.clip((logs[sized] - low) * levels / (high - low), 0, levels - 1).astype(np.int64)
        counts = np.bincount(column[sized] * levels + level, minlength=columns * levels).reshape(columns, levels)
        apart = {"zero": ~self.absent & ~bad & (norms == 0), "absent": self.absent, "bad": bad}
        return {
            "ranks": ranks,
            "low": low,
            "high": high,
            "counts": counts.tolist(),
            **{name: np.bincount(column[mask], minlength=columns).tolist() for name, mask in apart.items()},
        }

    def outline(self, most: int = 1000) -> dict[str, Any]:
        """Return the groups with their numbers of nodes, norms of gradients, and numbers of nodes that are not finite.

        >>> import wiregrad as wg
        >>> Views(wg.circuit("x * x")).outline()
        {'count': 0, 'groups': []}
        """
        labels = self.circuit.columns.groups
        if labels.index is None:
            return {"count": 0, "groups": []}
        label_paths = ["/".join(filter(None, str(label).split("/"))) for label in labels.table]
        rows: dict[str, _Row] = {path: _Row() for path in self._paths}
        for path, row in zip(label_paths, self._rows(labels.index, len(label_paths)), strict=True):
            parts = path.split("/") if path else []
            for outer in ("/".join(parts[: k + 1]) for k in range(len(parts))):
                if outer in rows:
                    rows[outer] = rows[outer].with_row(row)
        groups = [
            {"path": path, **asdict(row), "norm": encoded.scalar(row.norm)} for path, row in rows.items() if row.nodes
        ]
        return {"count": len(groups), "groups": groups[:most]}

    def _rows(self, index: NDArray[np.int32], labels: int) -> list[_Row]:
        """Return the totals of the nodes that have each label themselves, without those of groups inside."""
        slot = np.where(index < 0, labels, index)
        counts = np.bincount(slot, minlength=labels + 1).tolist()
        bad = np.bincount(slot, self.state("bad"), minlength=labels + 1).astype(np.int64).tolist()
        peaks = np.zeros(labels + 1)
        np.maximum.at(peaks, slot, self.flows.norms)
        # Scaled by the largest, so that squares do not overflow.
        scaled = np.divide(self.flows.norms, peaks[slot], out=np.zeros(len(slot)), where=peaks[slot] > 0)
        with np.errstate(over="ignore"):
            norms = (peaks * np.sqrt(np.bincount(slot, scaled * scaled, minlength=labels + 1))).tolist()
        return [_Row(*row) for row in zip(counts, norms, bad, strict=True)][:labels]

    def top(self, most: int = TOP) -> list[dict[str, Any]]:
        """Return the nodes with the largest finite gradients, largest first.

        >>> import wiregrad as wg
        >>> run = wg.circuit("f = a * b").run(a=2.0, b=3.0)
        >>> [row["name"] for row in Views(run.circuit, run).top(2)]
        ['a', 'b']
        """
        sizes = self.flows.norms
        if self.run is None:
            return []
        count = min(most, self.circuit.size)
        largest = np.argpartition(-sizes, count - 1)[:count]
        order = largest[np.lexsort((largest, -sizes[largest]))]
        return [self.row(node) for node in order.tolist() if sizes[node] > 0]

    def nonfinite(self) -> dict[str, Any]:
        """Return the nodes whose values or gradients are not finite, as ranges of indices.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = log(x)").run(x=0.0)
        >>> nonfinite = Views(run.circuit, run).nonfinite()
        >>> nonfinite["values"], nonfinite["first"]["forward"]["name"]
        ({'count': 1, 'slices': [[1, 1]], 'left_out': 0}, 'y')
        """
        measured = {"values": self.values, "gradients": self.flows}
        ranges = {name: _told_slices(np.flatnonzero((sizes.nans + sizes.infs) > 0)) for name, sizes in measured.items()}
        return ranges | {"first": self._first()}

    def _first(self) -> dict[str, Any]:
        """Return the first node, forward and backward, that made a non-finite number from finite ones."""
        first = {"forward": self._first_forward(), "backward": self._first_backward()}
        return {phase: None if node is None else self.row(node) for phase, node in first.items()}

    def _first_forward(self) -> int | None:
        c = self.circuit.columns
        bad = (self.values.nans + self.values.infs) > 0
        fed = np.repeat(np.arange(self.circuit.size), np.diff(c.starts))[bad[c.sources]]
        bad[fed] = False
        return int(np.argmax(bad)) if bad.any() else None

    def _first_backward(self) -> int | None:
        bad = (self.flows.nans + self.flows.infs) > 0
        if self.run is None or not bad.any():
            return None
        sent = Sizes.of(self.run.sent)
        readers = np.repeat(np.arange(self.circuit.size), np.diff(self.circuit.columns.starts))
        broke = ((sent.nans + sent.infs) > 0) & ~bad[readers]
        # Reverse mode visits the last node first.
        return int(readers[broke].max()) if broke.any() else None

    @cached_property
    def inside(self) -> Inside:
        """The contents of groups and boxes."""
        return Inside(self.circuit)

    def view(
        self,
        *,
        group: str = "",
        nodes: str = "",
        opened: Sequence[str] = (),
        depth: int | None = None,
        cap: int = CAP,
        down: bool = False,
    ) -> dict[str, Any]:
        """Draw the whole circuit, a `group` of it, or the `nodes` in ranges such as `3-9`; return boxes and positions.

        >>> import wiregrad as wg
        >>> view = Views(wg.circuit("y = tanh(x)")).view()
        >>> [box["label"] for box in view["boxes"]], view["links"][0]["points"]
        (['x', 'y'], [[66, 14], [94, 14]])
        """
        chosen = self._chosen(group, nodes)
        if chosen is None:
            drawn = Part(self.circuit, self.run, np.arange(self.circuit.size))
        else:
            drawn = part(self.circuit, self.run, chosen)
        return picture_data(drawn, self.inside, group, opened=opened, depth=depth, cap=cap, down=down)

    def _chosen(self, group: str, nodes: str) -> NDArray[np.int64] | None:
        if group and group not in self._paths:
            raise InputError(f"there is no group {shown(group)}")
        if not group and not nodes:
            return None
        mask = self.inside.within(group, 0, self.circuit.size - 1)
        if nodes:
            mask = mask & marked(self.circuit.size, runs_of(nodes))
        chosen = np.flatnonzero(mask)
        if not len(chosen):
            raise InputError(f"the group {shown(group)} has none of these nodes")
        return chosen

    @cached_property
    def _paths(self) -> dict[str, None]:
        return dict.fromkeys(group_paths(self.circuit))


def _none(size: int) -> Sizes:
    return Sizes(np.zeros(size), np.zeros(size, np.int64), np.zeros(size, np.int64))


def _sizes(sizes: Sizes) -> NDArray[Any]:
    norms: NDArray[Any] = np.where(sizes.infs > 0, np.inf, sizes.norms)
    return norms


def _bounds(logs: NDArray[np.float64]) -> tuple[float, float]:
    if not len(logs):
        return -1.0, 1.0
    low = float(np.floor(logs.min()))
    high = float(np.ceil(logs.max()))
    return low, high if high > low else low + 1.0


def _told_slices(nodes: NDArray[np.int64]) -> dict[str, Any]:
    ranges = slices(nodes.tolist())
    return {"count": len(nodes), "slices": ranges[:SLICES], "left_out": max(0, len(ranges) - SLICES)}
