"""Build the circuit that computes gradients, by running the reverse sweep on the ports of a builder."""

from __future__ import annotations

from typing import Any

from wiregrad.errors import CircuitError
from wiregrad.ir import GraphBuilder, CircuitGraph, Port, Row
from wiregrad.ops.flow import fill_absent
from wiregrad.passes.simplify import prune
from wiregrad.passes.sweep import sweep_backward


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

    def node(self, row: Row, upstream: Any) -> None:
        self.builder.recording.move_to_node(self.circuit, row.node)
        if isinstance(upstream, Port) and row.node in self._named:
            self._name_gradient(row.node, upstream)

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        pass

    def label_output(self, node: int, flow: Any) -> str:
        """Return the label of an input's gradient, and make the gradient a plain wire without a mask."""
        if node not in self._labels:
            settled = fill_absent(flow)
            self._name_gradient(node, settled if isinstance(settled, Port) else self.builder.constant(settled))
        return self._labels[node]

    def _name_gradient(self, node: int, port: Port) -> None:
        self._labels[node] = self.builder.recording.free_name(f"grad_{self._named[node][0]}")
        self.builder.name(port, self._labels[node])
        self.ports[node] = port
