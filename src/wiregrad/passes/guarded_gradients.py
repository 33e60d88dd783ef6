"""Circuits for libraries that multiply what a `where` blocks by slopes that may be infinite.

In wiregrad the gradient of a branch that was not taken is absent, whatever the slopes on it are. Other libraries send
0.0 there, and 0.0 times an infinite slope is NaN. `guard_gradients` writes a circuit with the same values whose
gradients are safe by their rules too: an op to which no gradient comes at some elements gets harmless numbers there.
The masks are those of the reverse sweep, so there is no list of ops that block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wiregrad.ir import CONSTANT, INPUT, CircuitGraph, GraphBuilder, Pattern, Port, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import MaskedFlow
from wiregrad.passes import prune, sweep_backward
from wiregrad.passes.rewriting import merge_duplicates

STEEP_PATTERNS = (Pattern.SWAP, Pattern.SCALE, Pattern.ROUTE)
"""The patterns of ops whose slopes depend on their inputs."""


def guard_gradients(circuit: CircuitGraph) -> CircuitGraph:
    """Return a circuit with the same values, whose gradients other libraries compute without NaN of blocked branches.

    >>> from wiregrad.ir import parse_text
    >>> text = "input x, c: bool\\nr = sqrt x\\nzero = constant 0.0\\ny = where c r zero\\noutput y"
    >>> [row.op.name for row in guard_gradients(parse_text(text)).rows() if row.sources]
    ['sqrt', 'where', 'sqrt', 'stop_gradient', 'where', 'where']
    """
    if not any(_can_block(circuit, row) for row in circuit.rows()):
        return circuit
    guard = _GradientGuard(circuit)
    return guard.build() if guard.masks else circuit


def _can_block(circuit: CircuitGraph, row: Row) -> bool:
    return (
        isinstance(row.op, Elementwise) and row.op.pattern is Pattern.ROUTE and circuit.type_of(row.node).differentiable
    )


class _GradientGuard:
    """Finds where no gradient comes to an op, and writes the forward nodes again with other inputs there."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.masks: dict[int, Port] = {}
        """Where a gradient comes to a node, for nodes whose slopes may be infinite."""
        self._builder = GraphBuilder(finite=False)
        self._builder.recording.load_circuit(circuit)
        outputs = [node for node in circuit.columns.outputs.tolist() if circuit.type_of(node).differentiable]
        seeds = {node: self._builder.place_constant(np.ones(circuit.type_of(node).shape)[()]) for node in outputs}
        sweep_backward(circuit, self, seeds, self)

    def __getitem__(self, node: int) -> Port:
        """Return the forward value of a node, for the sweep."""
        return Port(self._builder, node)

    def node(self, row: Row, upstream: object) -> None:
        """Note the mask of a gradient that is complete."""
        is_steep = isinstance(row.op, Elementwise) and row.op.pattern in STEEP_PATTERNS and not row.op.selects
        if is_steep and type(upstream) is MaskedFlow and isinstance(upstream.mask, Port):
            self.masks[row.node] = upstream.mask

    def wire(self, row: Row, slot: int, sent: object) -> None:
        """Leave what is sent as it is."""

    def build(self) -> CircuitGraph:
        """Return the guarded circuit."""
        new = list(range(self.circuit.size))
        for row in self.circuit.rows():
            if row.op in (INPUT, CONSTANT):
                continue
            sources = [new[source] for source in row.sources]
            if row.node in self.masks:
                new[row.node] = self._guard_node(row, sources)
            elif sources != list(row.sources):
                new[row.node] = self._repeat_node(row, sources)
        old = self.circuit.columns.outputs.tolist()
        outputs = {label: new[node] for label, node in zip(self.circuit.outputs, old, strict=True)}
        return merge_duplicates(prune(self._builder.recording.freeze(outputs, self.circuit.name)))

    def _guard_node(self, row: Row, sources: Sequence[int]) -> int:
        """Return the value of a node, computed from harmless numbers where no gradient comes to it."""
        assert isinstance(row.op, Elementwise)
        self._builder.recording.move_to_node(self.circuit, row.node)
        mask = self.masks[row.node]
        inputs = [
            self._choose(mask, source, number) for source, number in zip(sources, row.op.sample_points[0], strict=True)
        ]
        safe = self._repeat_node(row, [port.index for port in inputs])
        value = self._builder.apply("stop_gradient", Port(self._builder, row.node))
        return self._builder.apply("where", mask, Port(self._builder, safe), value).index

    def _choose(self, mask: Port, source: int, number: Any) -> Port:
        port = Port(self._builder, source)
        kind = self._builder.type_of(port)
        if not kind.differentiable:
            return port
        harmless = self._builder.place_constant(np.full(kind.shape, number, kind.dtype)[()])
        return self._builder.apply("where", mask, port, harmless)

    def _repeat_node(self, row: Row, sources: Sequence[int]) -> int:
        recording = self._builder.recording
        recording.move_to_node(self.circuit, row.node)
        return recording.copy_node(self.circuit, row, sources)
