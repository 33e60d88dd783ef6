"""The reverse and the forward sweep, each written once, and the circuits that the reverse sweep builds.

The sweeps are generic over what flows along the wires. On numbers the reverse sweep gives gradients; on ports of a
builder it gives the backward circuit; on recorded values it gives a gradient that can be differentiated again. A flow
that is None is absent (see `wiregrad.ops.gradient_flow`). Nothing recurses: nodes are visited in index order or its
reverse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from wiregrad.errors import CircuitError
from wiregrad.ir import CircuitGraph, GraphBuilder, Port, Row
from wiregrad.ops.gradient_flow import add_flows, fill_absent, match_dtype
from wiregrad.passes.rewriting import prune


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

    def node(self, row: Row, upstream: object) -> object:
        """Called when a node's gradient is complete, before it is passed on; may return another gradient to use."""

    def wire(self, row: Row, slot: int, sent: object) -> None:
        """Called with the gradient sent back along one wire."""


class SilentWatcher:
    """A watcher that does nothing."""

    def node(self, row: Row, upstream: object) -> None:
        """Leave the gradient as it is."""

    def wire(self, row: Row, slot: int, sent: object) -> None:
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
        for slot, sent in pull_row(row, upstream, xs, values[row.node], active):
            watcher.wire(row, slot, sent)
            grads[row.sources[slot]] = add_flows(grads[row.sources[slot]], sent)
    return grads


def pull_row(row: Row, upstream: Any, xs: Sequence[Any], y: Any, active: Sequence[int]) -> Iterator[tuple[int, Any]]:
    """Iterate over what a node sends back along its inputs, last one first; those that lead to no input are skipped."""
    slots = [k for k in reversed(range(len(xs))) if row.sources[k] >= 0 and active[row.sources[k]]]
    for slot, pulled in zip(slots, row.op.pull_slots(slots, upstream, xs, y, row.mode), strict=True):
        yield slot, match_dtype(pulled, xs[slot])


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


def backward_circuit(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit that computes the gradient of the output with respect to every input.

    It has the same inputs and one output per input, named `grad_` and the input's name (numbered if that is taken).
    Splitters become adders. The complete gradient of a named node is also named `grad_` and the node's name, unless it
    is still masked: then there is no wire for it. Nodes keep the place and group of the node they came from. The result
    is a circuit like any other, so it can be differentiated again.

    >>> from wiregrad.ir import parse_text
    >>> backward_circuit(parse_text("input x\\ny = multiply x x\\noutput y"))
    Circuit(1 input, 3 nodes, 0 splitters, output grad_x)
    """
    return _build_backward(circuit, valued=False)


def gradient_circuit(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit that computes the output, with its own label, and its gradient by every input.

    >>> from wiregrad.ir import parse_text
    >>> gradient_circuit(parse_text("input x\\ny = multiply x x\\noutput y")).outputs
    ('y', 'grad_x')
    """
    return _build_backward(circuit, valued=True)


def _build_backward(circuit: CircuitGraph, *, valued: bool) -> CircuitGraph:
    root = circuit.root()
    builder = GraphBuilder(finite=False)
    if not circuit.inputs:
        raise CircuitError("the circuit has no inputs, so there is nothing to differentiate by")
    builder.recording.load_circuit(circuit)
    builder.recording.move_to_node(circuit, root)
    namer = _GradientNamer(circuit, builder)
    grads = sweep_backward(circuit, _BuilderPorts(builder), {root: builder.constant(1.0)}, namer)
    outputs = {circuit.output: Port(builder, root)} if valued else {}
    outputs |= {namer.label_output(node, grads[node]): namer.ports[node] for node in circuit.input_indices()}
    return prune(builder.build(name=f"backward_{circuit.name}", labels=outputs))


class _BuilderPorts:
    """The forward values of a sweep that builds a circuit: the ports of the builder's nodes."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder

    def __getitem__(self, node: int) -> Port:
        return Port(self.builder, node)


class _GradientNamer:
    """Watches the sweep and names each complete gradient after the node it belongs to."""

    def __init__(self, circuit: CircuitGraph, builder: GraphBuilder) -> None:
        self.circuit = circuit
        self.builder = builder
        self.ports: dict[int, Port] = {}
        self._named = circuit.columns.names.group_by_node()
        self._labels: dict[int, str] = {}
        self._places = circuit.columns.places.list_labels(circuit.size)
        self._groups = circuit.columns.groups.list_labels(circuit.size)

    def node(self, row: Row, upstream: object) -> None:
        self.builder.recording.move_to(self._places[row.node], self._groups[row.node] or "")
        if isinstance(upstream, Port) and row.node in self._named:
            self._name_gradient(row.node, upstream)

    def wire(self, row: Row, slot: int, sent: object) -> None:
        pass

    def label_output(self, node: int, flow: object) -> str:
        """Return the label of an input's gradient, and make the gradient a plain wire without a mask."""
        if node not in self._labels:
            settled = fill_absent(flow)
            self._name_gradient(node, settled if isinstance(settled, Port) else self.builder.constant(settled))
        return self._labels[node]

    def _name_gradient(self, node: int, port: Port) -> None:
        self._labels[node] = self.builder.recording.free_name(f"grad_{self._named[node][0]}")
        self.builder.name(port, self._labels[node])
        self.ports[node] = port
