"""The reverse and the forward sweep, each written once.

They are generic over what flows along the wires. On numbers the reverse sweep gives gradients; on ports of a builder it
gives the backward circuit; on recorded values it gives a gradient that can be differentiated again. A flow that is None
is absent (see `wiregrad.ops.flow`). Nothing recurses: nodes are visited in index order or its reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from wiregrad.ir import Row
from wiregrad.ops.flow import match_dtype, add_flows


class SweepGraph(Protocol):
    """A graph that can be swept: a circuit, or a part of a recording. A negative source is a value from outside."""

    @property
    def size(self) -> int:
        """The number of nodes."""

    def active(self) -> bytearray:
        """Return 1 for each node through which a gradient can reach an input, else 0."""

    def rows(self, *, backward: bool = False) -> Iterator[Row]:
        """Walk the nodes in order, or in reverse."""


class NodeValues(Protocol):
    """The forward value of each node, by index."""

    def __getitem__(self, node: int, /) -> Any:
        """Return the value of a node."""


class SweepWatcher(Protocol):
    """Called by the reverse sweep at every node and wire."""

    def node(self, row: Row, upstream: Any) -> Any:
        """Called when a node's gradient is complete, before it is passed on; may return another gradient to use."""

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        """Called with the gradient sent back along one wire."""


class SilentWatcher:
    """A watcher that does nothing."""

    def node(self, row: Row, upstream: Any) -> None:
        """Leave the gradient as it is."""

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        """Do nothing."""


def sweep_backward(graph: SweepGraph, values: NodeValues, seeds: Mapping[int, Any], watcher: SweepWatcher) -> list[Any]:
    """Send gradients back from the seeded nodes; returns the gradient of every node, None where none arrived.

    `values` holds the forward value of each node. Wires from nodes that depend on no input are skipped. The gradients
    of several readers are added last reader first, the order in which a chain of splitters adds them.
    """
    active = graph.active()
    grads: list[Any] = [None] * graph.size
    for node, seed in seeds.items():
        grads[node] = add_flows(grads[node], seed)
    for row in graph.rows(backward=True):
        upstream = grads[row.node]
        if upstream is None or not active[row.node]:
            continue
        changed = watcher.node(row, upstream)
        upstream = upstream if changed is None else changed
        xs = [values[source] for source in row.sources]
        y = values[row.node]
        for slot in reversed(range(len(xs))):
            source = row.sources[slot]
            if source >= 0 and active[source]:
                sent = match_dtype(row.op.pull(slot, upstream, xs, y, row.mode), xs[slot])
                watcher.wire(row, slot, sent)
                grads[source] = add_flows(grads[source], sent)
    return grads


def sweep_forward(graph: SweepGraph, values: NodeValues, seeds: Mapping[int, Any]) -> list[Any]:
    """Push tangents on from the seeded nodes; returns the tangent of every node, None where none arrived."""
    tangents: list[Any] = [None] * graph.size
    for row in graph.rows():
        arriving = [tangents[source] if source >= 0 else None for source in row.sources]
        pushed = None
        if any(tangent is not None for tangent in arriving):
            xs = [values[source] for source in row.sources]
            y = values[row.node]
            pushed = match_dtype(row.op.push(arriving, xs, y, row.mode), y)
        tangents[row.node] = add_flows(pushed, seeds.get(row.node))
    return tangents
