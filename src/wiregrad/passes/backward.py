"""Build the circuit that computes gradients, by running the reverse sweep on the ports of a builder."""

from __future__ import annotations

from typing import Any

from wiregrad.errors import CircuitError
from wiregrad.ir import Builder, Circuit, Port, Row
from wiregrad.ops.flow import settle
from wiregrad.passes.simplify import prune
from wiregrad.passes.sweep import reverse


def backward_circuit(circuit: Circuit) -> Circuit:
    """Return the circuit that computes the gradient of the output with respect to every input.

    It has the same inputs and one output per input, named `grad_` and the input's name (numbered if that is taken).
    Splitters become adders. The complete gradient of a named node is also named `grad_` and the node's name, unless it
    is still masked: then there is no wire for it. Nodes keep the place and group of the node they came from. The result
    is a circuit like any other, so it can be differentiated again.

    >>> from wiregrad.ir import parse_text
    >>> backward_circuit(parse_text("input x\\ny = multiply x x\\noutput y"))
    Circuit(1 input, 3 nodes, 0 splitters, output grad_x)
    """
    return _swept(circuit, valued=False)


def gradient_circuit(circuit: Circuit) -> Circuit:
    """Return the circuit that computes the output, with its own label, and its gradient by every input.

    >>> from wiregrad.ir import parse_text
    >>> gradient_circuit(parse_text("input x\\ny = multiply x x\\noutput y")).outputs
    ('y', 'grad_x')
    """
    return _swept(circuit, valued=True)


def _swept(circuit: Circuit, *, valued: bool) -> Circuit:
    root = circuit.root()
    builder = Builder(finite=False)
    if not circuit.inputs:
        raise CircuitError("the circuit has no inputs, so there is nothing to differentiate by")
    builder.recording.load(circuit)
    builder.recording.follow(circuit, root)
    namer = _Namer(circuit, builder)
    grads = reverse(circuit, _Ports(builder), {root: builder.constant(1.0)}, namer)
    outputs = {circuit.output: Port(builder, root)} if valued else {}
    outputs |= {namer.output(node, grads[node]): namer.ports[node] for node in circuit.input_indices()}
    return prune(builder.build(name=f"backward_{circuit.name}", labels=outputs))


class _Ports:
    """The forward values of a sweep that builds a circuit: the ports of the builder's nodes."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def __getitem__(self, node: int) -> Port:
        return Port(self.builder, node)


class _Namer:
    """Watches the sweep and names each complete gradient after the node it belongs to."""

    def __init__(self, circuit: Circuit, builder: Builder) -> None:
        self.circuit = circuit
        self.builder = builder
        self.ports: dict[int, Port] = {}
        self._named = circuit.columns.names.by_node()
        self._labels: dict[int, str] = {}

    def node(self, row: Row, upstream: Any) -> None:
        self.builder.recording.follow(self.circuit, row.node)
        if isinstance(upstream, Port) and row.node in self._named:
            self._label(row.node, upstream)

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        pass

    def output(self, node: int, flow: Any) -> str:
        """Return the label of an input's gradient, and make the gradient a plain wire without a mask."""
        if node not in self._labels:
            settled = settle(flow)
            self._label(node, settled if isinstance(settled, Port) else self.builder.constant(settled))
        return self._labels[node]

    def _label(self, node: int, port: Port) -> None:
        self._labels[node] = self.builder.recording.free_name(f"grad_{self._named[node][0]}")
        self.builder.name(port, self._labels[node])
        self.ports[node] = port
