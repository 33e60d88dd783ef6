"""Walk a circuit and build another: the framework that the passes share.

Names, places, groups and kink modes are copied. A node that is replaced hands its names on, so every name that the
user gave still refers to a node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.dtypes import WireType
from wiregrad.ir import CONSTANT, Circuit, Op, Recording, Row

Rule = Callable[[Row, list[int]], int | None]
"""Takes a node and its sources in the new circuit; returns the new node to use instead, or None to copy the node."""


class Made(NamedTuple):
    """A node of the new circuit."""

    op: Op
    sources: Sequence[int]
    mode: int
    type: WireType


class Rewriter:
    """Builds a new circuit from an old one; `where` maps old nodes to new ones, `made` describes the new ones."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.recording = Recording()
        self.where: list[int] = [-1] * circuit.size
        self.made: list[Made] = []
        self.values: dict[int, Any] = {}
        """Values of the new circuit's constants."""
        self._by_bits: dict[Any, int] = {}
        self._names = circuit.columns.names.by_node()
        self._constants = circuit.constants()

    def copy(self, row: Row, sources: Sequence[int]) -> int:
        """Copy a node with new sources; returns its new index."""
        new = self.recording.copy(self.circuit, row, sources)
        self.made.append(Made(row.op, sources, row.mode, self.circuit.type_of(row.node)))
        if row.op is CONSTANT:
            self.values[new] = self._constants[row.node]
            self._by_bits.setdefault(_bits(self.values[new]), new)
        self.settle(row, new)
        return new

    def constant(self, row: Row, value: Any = None) -> int | None:
        """Return the new circuit's constant with a value (by default the old node's), or None if there is none yet."""
        return self._by_bits.get(_bits(self._constants[row.node] if value is None else value))

    def place(self, row: Row, value: Any) -> int:
        """Return a constant with the value that replaces a node; it is added if there is none yet."""
        constant = self.constant(row, value)
        if constant is None:
            self.recording.follow(self.circuit, row.node)
            constant = self.recording.append_constant(value)
            self.made.append(Made(CONSTANT, (), 0, self.circuit.type_of(row.node)))
            self.values[constant] = value
            self._by_bits[_bits(value)] = constant
        return constant

    def settle(self, row: Row, new: int) -> None:
        """Map an old node to a new one, which also gets its names."""
        self.where[row.node] = new
        for name in self._names.get(row.node, ()):
            self.recording.name(new, name)

    def build(self, outputs: Mapping[str, int] | None = None) -> Circuit:
        """Return the new circuit; by default its outputs are those of the old one."""
        if outputs is None:
            old = self.circuit.columns.outputs.tolist()
            outputs = {label: self.where[node] for label, node in zip(self.circuit.outputs, old, strict=True)}
        self.recording.certificates = [c._replace(node=self.where[c.node]) for c in self.circuit.certificates]
        return self.recording.freeze(outputs, self.circuit.name)


def rewrite(circuit: Circuit, *rules: Callable[[Rewriter], Rule]) -> Circuit:
    """Return the circuit with each node replaced by the first rule that has a replacement, or copied if none has."""
    new = Rewriter(circuit)
    ready = [make(new) for make in rules]
    for row in circuit.rows():
        sources = [new.where[source] for source in row.sources]
        replacement = next((node for rule in ready if (node := rule(row, sources)) is not None), None)
        if replacement is None:
            new.copy(row, sources)
        else:
            new.settle(row, replacement)
    return new.build()


def _bits(value: Any) -> Any:
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()
