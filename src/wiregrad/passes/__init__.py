"""Passes: functions that take a circuit and return a new one. Also the two sweeps that all derivatives come from.

Here are the reverse and the forward sweep, each written once, and the circuits that the reverse sweep builds. The
sweeps are generic over what flows along the wires. On numbers the reverse sweep gives gradients; on ports of a builder
it gives the backward circuit; on recorded values it gives a gradient that can be differentiated again. A flow that is
None is absent (see `wiregrad.ops.gradient_flow`). Nothing recurses: nodes are visited in index order or its reverse.

`rewriting` has the walk that most passes share, and the passes that use it: `simplify` and its parts make circuits
smaller without changing a value (`simplify_finite` does more where all numbers are finite), `insert_splitters` writes
fan-out, `with_convention` changes the slopes that nodes take on their kinks, and `expand` replaces arrays by their
elements (`expand_unnamed` faster, for native code). `guarded_gradients` prepares circuits for other libraries.

Other rooms may call everything in `__all__`, and `Rewriter` to write a pass of their own. The input of a pass is not
changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import CircuitError
from wiregrad.ir import CONSTANT, TABLE, CircuitGraph, GraphBuilder, Op, Port, Row
from wiregrad.ir.builder import NodeRun
from wiregrad.lazy import NamedTuple
from wiregrad.ops.gradient_flow import MaskedFlow, add_flows, fill_absent, match_dtype, match_shape
from wiregrad.passes.rewriting import (
    apply_identities,
    drop_gradient_stops,
    expand,
    expand_unnamed,
    find_unexpandable,
    fold_constants,
    insert_splitters,
    merge_duplicates,
    merge_repeated,
    number_kinds,
    prune,
    simplify,
    simplify_finite,
    with_convention,
)

__all__ = [
    "SweepWatcher",
    "apply_identities",
    "backward_circuit",
    "drop_gradient_stops",
    "expand",
    "expand_unnamed",
    "find_unexpandable",
    "fold_constants",
    "gradient_circuit",
    "insert_splitters",
    "jacobian_circuit",
    "merge_duplicates",
    "merge_repeated",
    "prune",
    "simplify",
    "simplify_finite",
    "sweep_backward",
    "sweep_forward",
    "sweep_ports",
    "with_convention",
]


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


def sweep_ports(circuit: CircuitGraph, builder: GraphBuilder, seeds: Mapping[int, Port]) -> dict[int, Any]:
    """Send gradients back through a circuit that a builder has loaded; returns the flow of every input.

    It adds the nodes that `sweep_backward` would add on ports of the builder, in another order: what a node adds is
    found once for all nodes of its kind.
    """
    return _PortSweep(circuit, builder).run(seeds)


class TemplateRow(NamedTuple):
    """A node that a template adds: its op, and its sources as references."""

    op: Op
    sources: tuple[int, ...]
    kind: WireType


class SentFlow(NamedTuple):
    """What is sent back along one input: a reference and, if it is absent at some elements, how it is masked."""

    slot: int
    value: int
    masked: MaskedFlow | None


class PullTemplate(NamedTuple):
    """What nodes of one kind add to a circuit that is swept, and send back.

    References number the upstream gradient, the operands, the output, the constants and the rows, in this order.
    """

    constants: tuple[WireValue, ...]
    rows: tuple[TemplateRow, ...]
    sent: tuple[SentFlow, ...]


def derive_template(row: Row, types: Sequence[WireType], active: Sequence[int]) -> PullTemplate | None:
    """Return the template of a node; None if what it sends back are not wires, masked by known arrays at most.

    `types` are those of the upstream gradient, the operands and the output, `active` marks the operands that a gradient
    can reach.
    """
    builder = GraphBuilder(finite=False)
    upstream, *xs, y = (builder.input(f"x{k}", kind) for k, kind in enumerate(types))
    alone = Row(row.node, row.op, list(range(len(xs))), row.mode)
    flows = [(slot, flow) for slot, flow in pull_row(alone, upstream, xs, y, active) if flow is not None]
    values = [flow.value if type(flow) is MaskedFlow else flow for _, flow in flows]
    known = all(type(flow) is not MaskedFlow or flow.is_array for _, flow in flows)
    if not flows or not known or not all(isinstance(value, Port) for value in values):
        return None
    inner = builder.build(labels={f"y{k}": value for k, value in enumerate(values)})
    constants = {node: value for node, value in inner.constants().items() if node >= len(types)}
    rows = [each for each in inner.rows() if each.node >= len(types) and each.op is not CONSTANT]
    order = [*range(len(types)), *constants, *(each.node for each in rows)]
    where = {node: number for number, node in enumerate(order)}
    return PullTemplate(
        tuple(constants.values()),
        tuple([TemplateRow(r.op, tuple([where[k] for k in r.sources]), inner.type_of(r.node)) for r in rows]),
        tuple(
            [
                SentFlow(slot, where[value.index], flow if type(flow) is MaskedFlow else None)
                for (slot, flow), value in zip(flows, values, strict=True)
            ]
        ),
    )


class _PlacedTemplate(NamedTuple):
    """A template with the codes, types and constants of the builder that its nodes are added to."""

    constants: tuple[int, ...]
    nodes: NodeRun
    sent: tuple[SentFlow, ...]


class _PortSweep:
    """A sweep over a circuit on ports of the builder that has loaded it.

    While the sweep runs, a flow that is a wire is the index of its node, because a port takes longer to make.
    """

    def __init__(self, circuit: CircuitGraph, builder: GraphBuilder) -> None:
        self._circuit = circuit
        self._builder = builder
        self._active = circuit.active()
        columns = circuit.columns
        is_active = np.frombuffer(self._active, np.uint8)
        facts = 2 * columns.types[columns.sources].astype(np.int64) + is_active[columns.sources]
        kinds = number_kinds(circuit, facts)
        self._kinds: list[int] = kinds.tolist()
        self._counts: list[int] = np.bincount(kinds).tolist()
        """How many nodes there are of each kind."""
        self._rows: dict[int, Row] = {}
        """A row of each kind."""
        self._templates: dict[tuple[int, int], _PlacedTemplate | None] = {}
        """By the kind of the node, and the type of the upstream gradient."""
        self._add_code = TABLE.code_of(TABLE["add"])
        self._totals: dict[int, int] = {}
        self._joined_masks: dict[tuple[int, int, int], tuple[Any, Any, Any]] = {}

    def run(self, seeds: Mapping[int, Port]) -> dict[int, Any]:
        """Return the flow of every input."""
        grads: list[Any] = [None] * self._circuit.size
        for node, seed in seeds.items():
            self._send(grads, node, seed.index)
        # The loops run for every node and wire, so what is looked up in them is looked up before.
        type_number_of = self._builder.recording.type_number_of
        append_run = self._builder.recording.append_run
        for node, kind, sources in self._walk_active(grads):
            upstream = grads[node]
            template = None
            if type(upstream) is int:
                key = (kind, type_number_of(upstream))
                template = self._templates.get(key) or self._place_template(key, node, sources, upstream)
            if template is None:
                self._pull_in_full(grads, node, sources, upstream)
                continue
            places = [upstream, *sources, node, *template.constants]
            append_run(template.nodes, places)
            for slot, k, masked in template.sent:
                source = sources[slot]
                sent = places[k] if masked is None else masked.replace_wire(self._as_flow(places[k]))
                if grads[source] is None:
                    grads[source] = sent
                else:
                    self._send(grads, source, sent)
        return {node: self._as_flow(grads[node]) for node in self._circuit.input_indices()}

    def _walk_active(self, grads: list[Any]) -> Iterator[tuple[int, int, list[int]]]:
        """Walk back over the active nodes that a gradient has reached: each with its kind and its sources."""
        columns = self._circuit.columns
        starts = columns.starts.tolist()
        sources = columns.sources.tolist()
        kinds = self._kinds
        for node in np.flatnonzero(np.frombuffer(self._active, np.uint8))[::-1].tolist():
            if grads[node] is not None:
                yield node, kinds[node], sources[starts[node] : starts[node + 1]]

    def _as_flow(self, flow: Any) -> Any:
        return Port(self._builder, flow) if type(flow) is int else flow

    def _pull_in_full(self, grads: list[Any], node: int, sources: list[int], upstream: Any) -> None:
        """Run the rule of a node, and add what it sends back to the flows of the sources."""
        row = self._find_row(node)._replace(node=node, sources=sources)
        ports = [Port(self._builder, source) for source in (*sources, node)]
        for slot, sent in pull_row(row, self._as_flow(upstream), ports[:-1], ports[-1], self._active):
            self._send(grads, sources[slot], self._as_index(sent))

    def _as_index(self, flow: Any) -> Any:
        """Return the index of a flow that is a wire; a whole number that a rule returns is none."""
        if type(flow) is Port:
            return flow.index
        return float(flow) if type(flow) is int else flow

    def _find_row(self, node: int) -> Row:
        """Return the row of a node of the same kind."""
        kind = self._kinds[node]
        if kind not in self._rows:
            modes = self._circuit.columns.modes
            mode = 0 if modes is None else int(modes[node])
            self._rows[kind] = Row(node, self._circuit.op_of(node), self._circuit.sources_of(node), mode)
        return self._rows[kind]

    def _place_template(
        self, key: tuple[int, int], node: int, sources: list[int], upstream: int
    ) -> _PlacedTemplate | None:
        """Return the template of a kind of nodes; None if there is none, none was found before, or one node has it."""
        if key in self._templates or self._counts[key[0]] == 1:
            return None
        known = [self._builder.recording.type_of_node(upstream), *map(self._circuit.type_of, (*sources, node))]
        template = derive_template(self._find_row(node), known, [self._active[source] for source in sources])
        placed = None
        if template is not None:
            constants = tuple([self._builder.place_constant(value).index for value in template.constants])
            placed = _PlacedTemplate(constants, self._builder.recording.prepare_run(template.rows), template.sent)
        self._templates[key] = placed
        return placed

    def _send(self, grads: list[Any], node: int, flow: Any) -> None:
        """Add to the flow of a node."""
        known = grads[node]
        if known is None:
            grads[node] = flow
        elif type(known) is int and type(flow) is int:
            grads[node] = self._add_wires(known, flow)
        else:
            grads[node] = self._add_masked(known, flow)

    def _add_wires(self, one: int, two: int) -> int:
        """Return the sum of two wires; those of one type are added at once."""
        recording = self._builder.recording
        kind = recording.type_number_of(one)
        if recording.type_number_of(two) == kind:
            return recording.append(self._add_code, (one, two), self._find_total(kind))
        total: int = add_flows(self._as_flow(one), self._as_flow(two)).index
        return total

    def _add_masked(self, one: Any, two: Any) -> Any:
        """Return the sum of two flows, of which one or both are masked."""
        wires = (_find_zeroed_wire(one), _find_zeroed_wire(two))
        if wires[0] is None or wires[1] is None:
            return self._as_index(add_flows(self._as_flow(one), self._as_flow(two)))
        total = self._add_wires(wires[0], wires[1])
        if type(one) is int or type(two) is int:
            return total
        mask = self._join_masks(one.mask, two.mask, total)
        return total if mask is None else MaskedFlow(mask, self._as_flow(total), zeroed=True)

    def _join_masks(self, one: Any, two: Any, total: int) -> Any:
        """Return the mask of a sum of masked flows, as `add_flows` does; None if it is true everywhere."""
        key = (id(one), id(two), self._builder.recording.type_number_of(total))
        if key not in self._joined_masks:
            joined = match_shape(TABLE["logical_or"](one, two), self._as_flow(total))
            # With the masks in the entry, no other array gets their place.
            self._joined_masks[key] = (one, two, None if joined.all() else joined)
        return self._joined_masks[key][2]

    def _find_total(self, kind: int) -> int:
        """Return the number of the type of a sum of two wires of a type."""
        if kind not in self._totals:
            self._totals[kind] = self._builder.recording.type_table.infer_number(TABLE["add"], (kind, kind))
        return self._totals[kind]


def _find_zeroed_wire(flow: Any) -> int | None:
    """Return the wire of a flow if it is 0.0 or -0.0 where the flow is absent by a known mask; else None."""
    if type(flow) is int:
        return flow
    is_known = type(flow) is MaskedFlow and flow.zeroed and type(flow.held_mask) is np.ndarray
    return flow.value.index if is_known and type(flow.value) is Port else None


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


def jacobian_circuit(circuit: CircuitGraph, *, valued: bool = False) -> CircuitGraph:
    """Return the circuit that computes the derivative of every output by every input, row by row.

    With `valued`, it computes the outputs too, before the derivatives.

    >>> from wiregrad.ir import parse_text
    >>> jacobian_circuit(parse_text("input a, b\\np = multiply a b\\ns = add a b\\noutput p, s")).outputs
    ('d0_0', 'd0_1', 'd1_0', 'd1_1')
    """
    builder = GraphBuilder(finite=False)
    builder.recording.load_circuit(circuit)
    builder.recording.certificates = []
    sweep = _PortSweep(circuit, builder)
    roots = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    labels = {label: Port(builder, root) for label, root in roots} if valued else {}
    for row, root in enumerate(circuit.columns.outputs.tolist()):
        kind = circuit.type_of(root)
        seed = builder.place_constant(np.ones((), kind.dtype if kind.differentiable else np.float64)[()])
        flows = sweep.run({root: seed})
        for column, node in enumerate(circuit.input_indices()):
            slope = fill_absent(flows[node])
            label = builder.recording.free_name(f"d{row}_{column}")
            labels[label] = slope if isinstance(slope, Port) else builder.place_constant(np.asarray(slope)[()])
    return prune(builder.build(name="jacobian", labels=labels))


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
