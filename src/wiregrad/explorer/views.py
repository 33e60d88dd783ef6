"""What the page asks of a circuit that is too large to hand over whole: pictures of parts, searches, sizes, one node.

The arrays stay here; an answer is small whatever the circuit is, and says how much it leaves out. Kept true: what is
measured of a circuit and a run is measured once.
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
"""How many nodes a search tells."""
TOP = 50
"""How many of the largest gradients a summary tells."""
SLICES = 10_000
"""How many runs of nodes that are not finite a summary tells."""
WAYS, SHOWN_PATHS = 20_000, 8
"""Up to how many nodes of a circuit the paths of a gradient are searched, and how many of them are told."""
COLUMNS, LEVELS = 120, 40
"""Into how many parts the heat strip cuts ranks and sizes."""
BRANCHES = 100
"""How many readers of a node are told."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A group in the outline: how many nodes, the norm of their finite gradients, and how many nodes are spoilt."""

    nodes: int = 0
    norm: float = 0.0
    bad: int = 0

    def with_row(self, other: _Row) -> _Row:
        """Return both together."""
        return _Row(self.nodes + other.nodes, math.hypot(self.norm, other.norm), self.bad + other.bad)


@dataclass(frozen=True, eq=False)
class Views:
    """A circuit and its run, and what is asked of them."""

    circuit: Circuit
    run: Run | None = None

    @cached_property
    def flows(self) -> Sizes:
        """How large the gradient of every node is."""
        return _none(self.circuit.size) if self.run is None else Sizes.of_gradients(self.run)

    @cached_property
    def values(self) -> Sizes:
        """How large the value of every node is."""
        return _none(self.circuit.size) if self.run is None else Sizes.of(self.run.values)

    @cached_property
    def absent(self) -> Mask:
        """Which nodes no gradient reached."""
        if self.run is None:
            return np.ones(self.circuit.size, bool)
        return np.fromiter((flow is None for flow in self.run.flows), bool, self.circuit.size)

    @cached_property
    def names(self) -> list[str]:
        """All names, in the order of the circuit's table of names."""
        return [name for _, name in self.circuit.columns.names]

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """How many wires the longest way from a leaf to each node has."""
        found = [0] * self.circuit.size
        starts, sources = self.circuit.columns.starts.tolist(), self.circuit.columns.sources.tolist()
        for node in range(self.circuit.size):
            for source in sources[starts[node] : starts[node + 1]]:
                if found[source] >= found[node]:
                    found[node] = found[source] + 1
        return np.array(found, np.int64)

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """How many groups are around each node."""
        labels = self.circuit.columns.groups
        if labels.index is None:
            return np.zeros(self.circuit.size, np.int64)
        return np.array([*(len([*filter(None, str(label).split("/"))]) for label in labels.table), 0])[labels.index]

    def column(self, name: str) -> NDArray[Any]:
        """Return what a search compares: sizes, depths, ranks or indices; NaN where there is no size to compare.

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
        """Return which nodes have a value or gradient that is `nan`, `inf` or either (`bad`), or an `absent` gradient.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = log(x)").run(x=0.0)
        >>> Views(run.circuit, run).state("inf").tolist()
        [True, True]
        """
        if name == "absent":
            return self.absent
        nans, infs = self.flows.nans + self.values.nans, self.flows.infs + self.values.infs
        found: Mask = {"nan": nans, "inf": infs, "bad": nans + infs}[name] > 0
        return found

    def find(self, query: str) -> dict[str, Any]:
        """Return how many nodes a query finds, and the first of them.

        >>> import wiregrad as wg
        >>> Views(wg.circuit("y = tanh(x)")).find("op:tanh")["nodes"][0]["name"]
        'y'
        """
        found = np.flatnonzero(find(self, query))
        return {"query": query, "count": len(found), "nodes": [self.row(node) for node in found[:ROWS].tolist()]}

    def row(self, node: int) -> dict[str, Any]:
        """Return a node as a list of nodes tells it."""
        told_of = {"node": node, "name": self.circuit.name_of(node), "op": self.circuit.op_of(node).name}
        told_of["group"] = self.circuit.columns.groups.at(node) or ""
        place = self.circuit.columns.places.at(node)
        return told_of | self._numbers(node) | ({} if place is None else {"place": encoded.place(place)})

    def _numbers(self, node: int) -> dict[str, Any]:
        if self.run is None:
            return {}
        shape = self.circuit.type_of(node).shape
        return {
            "value": encoded.value(self.run.values[node]),
            "grad": encoded.flow(self.run.flows[node], shape),
        }

    def node(self, node: int) -> dict[str, Any]:
        """Return all that is known of one node: what it is, its wires, and what reads it.

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
        """Return the sentences that say why the gradient of one node is what it is; of a small circuit with its paths.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = relu(x)").run(x=-2.0)
        >>> Views(run.circuit, run).why(0)["lines"][0]
        'the gradient of x is 0: nothing flows back to it'
        """
        self._checked(node)
        if self.run is None:
            return {"node": node, "lines": ["the circuit was not run: there are no gradients"]}
        name = self.circuit.name_of(node)
        found: list[Report] = [explain(self.run, name)]
        if self.circuit.size <= WAYS:
            found.append(paths(self.run, name, SHOWN_PATHS))
        return {"node": node, "lines": [line for report in found for line in report.lines()]}

    def _readers(self, node: int) -> list[tuple[int, int]]:
        c = self.circuit.columns
        found = np.flatnonzero(c.sources == node)
        readers = np.searchsorted(c.starts, found, side="right") - 1
        return [(int(reader), int(k - c.starts[reader])) for reader, k in zip(readers, found, strict=True)]

    def _wire(self, reader: int, slot: int) -> dict[str, Any]:
        sources = self.circuit.sources_of(reader)
        named = {"reader": reader, "slot": slot, "source": sources[slot]}
        texts = {"from": self.circuit.name_of(sources[slot]), "to": self.circuit.name_of(reader)}
        if self.run is None:
            return named | texts
        local, upstream, sent = wire_data(self.run, reader, slot)
        return named | texts | {"local": local, "upstream": upstream, "sent": sent}

    def heat(self) -> dict[str, Any]:
        """Return how many nodes of which rank have gradients of which size, in powers of ten.

        `counts` has a row for every column of ranks; `zero`, `absent` and `bad` are counted apart.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = tanh(3 * x)").run(x=0.5)
        >>> found = Views(run.circuit, run).heat()
        >>> found["low"], found["high"], found["absent"]
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
        """Return the groups as rows: how many nodes each holds, how large their gradients are, how many are spoilt.

        >>> import wiregrad as wg
        >>> Views(wg.circuit("x * x")).outline()
        {'count': 0, 'groups': []}
        """
        labels = self.circuit.columns.groups
        if labels.index is None:
            return {"count": 0, "groups": []}
        own = ["/".join(filter(None, str(label).split("/"))) for label in labels.table]
        rows: dict[str, _Row] = {path: _Row() for path in self._paths}
        for path, row in zip(own, self._rows(labels.index, len(own)), strict=True):
            parts = path.split("/") if path else []
            for outer in ("/".join(parts[: k + 1]) for k in range(len(parts))):
                if outer in rows:
                    rows[outer] = rows[outer].with_row(row)
        told = ((path, asdict(row)) for path, row in rows.items() if row.nodes)
        found = [{"path": path, **row, "norm": encoded.scalar(row["norm"])} for path, row in told]
        return {"count": len(found), "groups": found[:most]}

    def _rows(self, index: NDArray[np.int32], labels: int) -> list[_Row]:
        """Return how many nodes each label has, how large their gradients are, and how many are spoilt."""
        slot = np.where(index < 0, labels, index)
        counts = np.bincount(slot, minlength=labels + 1).tolist()
        bad = np.bincount(slot, self.state("bad"), minlength=labels + 1).astype(np.int64).tolist()
        peaks = np.zeros(labels + 1)
        np.maximum.at(peaks, slot, self.flows.norms)
        # Scaled by the largest, so that no square is more than 1.
        scaled = np.divide(self.flows.norms, peaks[slot], out=np.zeros(len(slot)), where=peaks[slot] > 0)
        with np.errstate(over="ignore"):
            norms = (peaks * np.sqrt(np.bincount(slot, scaled * scaled, minlength=labels + 1))).tolist()
        return [_Row(*row) for row in zip(counts, norms, bad, strict=True)][:labels]

    def top(self, most: int = TOP) -> list[dict[str, Any]]:
        """Return the nodes with the largest finite gradients, the largest first.

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
        """Return the nodes with values or gradients that are not finite, as runs of indices.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = log(x)").run(x=0.0)
        >>> found = Views(run.circuit, run).nonfinite()
        >>> found["values"], found["first"]["forward"]["name"]
        ({'count': 1, 'slices': [[1, 1]], 'left_out': 0}, 'y')
        """
        found = {"values": self.values, "gradients": self.flows}
        told_of = {name: _told_slices(np.flatnonzero((s.nans + s.infs) > 0)) for name, s in found.items()}
        return told_of | {"first": self._first()}

    def _first(self) -> dict[str, Any]:
        """Return the first node that made something non-finite of finite numbers, forward and backward."""
        found = {"forward": self._first_forward(), "backward": self._first_backward()}
        return {phase: None if node is None else self.row(node) for phase, node in found.items()}

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
        # The sweep goes from the last node to the first.
        return int(readers[broke].max()) if broke.any() else None

    @cached_property
    def inside(self) -> Inside:
        """What is inside groups and boxes."""
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
        """Return a picture with places: of everything, of what is in a `group`, or of some `nodes` such as `3-9`.

        >>> import wiregrad as wg
        >>> found = Views(wg.circuit("y = tanh(x)")).view()
        >>> [box["label"] for box in found["boxes"]], found["links"][0]["points"]
        (['x', 'y'], [[66, 14], [94, 14]])
        """
        chosen = self._chosen(group, nodes)
        whole = Part(self.circuit, self.run, np.arange(self.circuit.size))
        held = whole if chosen is None else part(self.circuit, self.run, chosen)
        return picture_data(held, self.inside, group, opened=opened, depth=depth, cap=cap, down=down)

    def _chosen(self, group: str, nodes: str) -> NDArray[np.int64] | None:
        if group and group not in self._paths:
            raise InputError(f"there is no group {shown(group)}")
        if not group and not nodes:
            return None
        found = self.inside.within(group, 0, self.circuit.size - 1)
        if nodes:
            found = found & marked(self.circuit.size, runs_of(nodes))
        chosen = np.flatnonzero(found)
        if not len(chosen):
            raise InputError(f"the group {shown(group)} has none of these nodes")
        return chosen

    @cached_property
    def _paths(self) -> dict[str, None]:
        return dict.fromkeys(group_paths(self.circuit))


def _none(size: int) -> Sizes:
    return Sizes(np.zeros(size), np.zeros(size, np.int64), np.zeros(size, np.int64))


def _sizes(sizes: Sizes) -> NDArray[Any]:
    found: NDArray[Any] = np.where(sizes.infs > 0, np.inf, sizes.norms)
    return found


def _bounds(logs: NDArray[np.float64]) -> tuple[float, float]:
    if not len(logs):
        return -1.0, 1.0
    low, high = float(np.floor(logs.min())), float(np.ceil(logs.max()))
    return low, high if high > low else low + 1.0


def _told_slices(nodes: NDArray[np.int64]) -> dict[str, Any]:
    found = slices(nodes.tolist())
    return {"count": len(nodes), "slices": found[:SLICES], "left_out": max(0, len(found) - SLICES)}
