"""The circuit as users see it: names, and light views of nodes and wires that are made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import UnknownNameError, short_repr, suggest_name
from wiregrad.ir.columns import (
    Certificate,
    IndexedGraph,
    Place,
    automatic_name,
    is_automatic_name,
    join_first_names,
    normalize_name,
)
from wiregrad.ir.node_titles import (
    MAX_OPERAND_WIDTH,
    NodeReference,
    find_given_name,
    repr_number,
    write_expression,
    write_title,
)
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, TABLE, Op, Pattern

SPLIT_NAME = "split"
"""Name of the op that copies one wire to two readers."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One input of one node, identified by its reader and slot: `x * x` has two wires from x."""

    reader: str
    slot: int
    input: str
    source: str


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A view of one node of a circuit; the node and its output wire share the name."""

    circuit: CircuitGraph
    index: int

    @property
    def name(self) -> str:
        """The name to show: the first that was given, else `%` and the index."""
        return self.circuit.name_of(self.index)

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the node."""
        return self.circuit.columns.names.names_of(self.index) or (automatic_name(self.index),)

    @property
    def op(self) -> Op:
        """The record of the op that the node applies."""
        return self.circuit.op_of(self.index)

    @property
    def wires(self) -> tuple[Wire, ...]:
        """The input wires, in order."""
        sources = self.circuit.sources_of(self.index)
        return tuple(
            Wire(self.name, slot, self.op.input_name(slot), self.circuit.name_of(source))
            for slot, source in enumerate(sources)
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the nodes that this one reads."""
        return tuple(wire.source for wire in self.wires)

    @property
    def type(self) -> WireType:
        """Dtype and shape of the output wire."""
        return self.circuit.type_of(self.index)

    @property
    def constant(self) -> WireValue | None:
        """The value of a constant node, else None."""
        return self.circuit.constant_of(self.index)

    @property
    def place(self) -> Place | None:
        """Where in the source code the node was written."""
        return self.circuit.columns.places.label_of(self.index)

    @property
    def group(self) -> str:
        """Path of the groups that contain the node, such as `net/layer1`; empty at the top level."""
        return self.circuit.columns.groups.label_of(self.index) or ""

    @property
    def mode(self) -> int:
        """How the node treats its kinks (see `wiregrad.ir.types_and_kinks`)."""
        modes = self.circuit.columns.modes
        return 0 if modes is None else int(modes[self.index])

    def expression(self) -> str:
        """Write what the node computes, such as `e * c` or `tanh(n)`."""
        if self.op.pattern is Pattern.SOURCE:
            return self.op.name if self.constant is None else repr_number(self.constant)
        return write_expression(self.op, [*map(self.circuit.operand_text, self.circuit.sources_of(self.index))])

    @property
    def reference(self) -> str:
        """The name by which the node is looked up; printed, it is the title."""
        return self.circuit.reference_to(self.index)

    @property
    def title(self) -> str:
        """What the node is called in sentences and pictures: its name, or the source text that it is the result of."""
        return self.circuit.title_of(self.index)

    def __str__(self) -> str:
        text = self.expression()
        is_told = self.title.replace(" ", "") == text.replace(" ", "")
        return text if is_told and find_given_name(self.circuit, self.index) is None else f"{self.title} = {text}"

    def __repr__(self) -> str:
        return f"Node({self})"


class CircuitGraph(IndexedGraph):
    """A circuit of nodes and wires: inputs on the left, outputs on the right.

    `len(circuit)` counts the function nodes, as `repr` does; inputs, constants and splitters are counted separately.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The circuit's name, by default that of its output."""
        return self.columns.name

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(self.name_of(node) for node in self.input_indices())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return self.columns.labels

    @property
    def output(self) -> str:
        """Name of the only output."""
        self.root()
        return self.columns.labels[0]

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The values that steered Python when the circuit was traced: node, outcome and line."""
        return self.columns.certificates

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The function nodes, in topological order."""
        return self._view_nodes(lambda op: op.pattern not in (Pattern.SOURCE, Pattern.MERGE))

    @property
    def splitters(self) -> tuple[Node, ...]:
        """The splitters, in order."""
        return self._view_nodes(lambda op: op.pattern is Pattern.MERGE)

    def _view_nodes(self, keep: Callable[[Op], bool]) -> tuple[Node, ...]:
        is_kept = np.array([keep(op) for op in TABLE])[self.columns.codes]
        return tuple(Node(self, node) for node in np.flatnonzero(is_kept).tolist())

    def __len__(self) -> int:
        return self.count()[1]

    def __bool__(self) -> bool:
        # Without this, a circuit without function nodes would be false, since its length is 0.
        return True

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of inputs, function nodes and splitters."""
        counts = np.bincount(self.columns.codes, minlength=len(TABLE))
        splitters = int(counts[TABLE.code_of(TABLE[SPLIT_NAME])])
        leaves = int(counts[INPUT_CODE] + counts[CONSTANT_CODE])
        return int(counts[INPUT_CODE]), self.size - leaves - splitters, splitters

    def __getitem__(self, name: str) -> Node:
        return Node(self, self.index(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find_index(name) is not None

    def __repr__(self) -> str:
        inputs, nodes, splitters = self.count()
        parts = [
            count_without_commas(inputs, "input"),
            count_without_commas(nodes, "node"),
            count_without_commas(splitters, "splitter"),
        ]
        return f"Circuit({', '.join(parts)}, output{'s' * (len(self.outputs) != 1)} {join_first_names(self.outputs)})"

    def index(self, name: str) -> int:
        """Return the index of the node with a name."""
        node = self._find_index(name)
        if node is None:
            raise UnknownNameError(f"the circuit has no node called {short_repr(name)}{self._suggest_instead(name)}")
        return node

    def _suggest_instead(self, name: str) -> str:
        """Return a hint for an unknown name: the parts of a container of that name, or the nearest name; the inputs."""
        known = [text for _, text in self.columns.names][:1000]
        parts = [text for text in known if name and text.startswith(f"{name}_")]
        near = f"; did you mean {join_first_names(parts[:3])}?" if parts else suggest_name(name, known)
        inputs = [self.name_of(node) for node in self.input_indices()]
        if not inputs:
            return near
        its = f"{'Its' if near else '; its'} input{'s are' if len(inputs) > 1 else ' is'} {join_first_names(inputs)}"
        return f"{near} {its}" if near else its

    def _find_index(self, name: str) -> int | None:
        if not isinstance(name, str):
            raise UnknownNameError(f"nodes are looked up by name, a string; got {type(name).__name__}")
        if is_automatic_name(name):
            node = int(name[1:])
            return node if node < self.size and not self.columns.names.names_of(node) else None
        name = normalize_name(name)
        node_index = self.columns.names.find_node(name)
        if node_index is None and name in self.columns.labels:
            return int(self.columns.outputs[self.columns.labels.index(name)])
        return node_index

    def with_output(self, name: str) -> Self:
        """Return the same circuit with the named node or output as its only output."""
        node = np.array([self.index(name)], np.int32)
        label = "f" if name.startswith("%") else normalize_name(name)
        while name.startswith("%") and label in self:
            label += "_"
        return type(self)(replace(self.columns, outputs=node, labels=(label,), name=label))

    def unchecked(self) -> Self:
        """Return the same circuit without its certificates: it takes the branches that were traced at any inputs."""
        return type(self)(replace(self.columns, certificates=()))

    def operand_text(self, node: int) -> str:
        """Return how a node is written inside an expression: its name, or the number if it is an unnamed constant."""
        constant = None if self.columns.names.names_of(node) else self.constant_of(node)
        return write_title(self, node, MAX_OPERAND_WIDTH) if constant is None else repr_number(constant)

    def title_of(self, node: int) -> str:
        """Return what a node is called in sentences and pictures; two nodes may have the same title.

        >>> from wiregrad.ir import parse_text
        >>> parse_text("input x\\n%1 = tanh x\\ny = exp %1\\noutput y").title_of(1)
        'tanh(x)'
        """
        return write_title(self, node)

    def reference_to(self, node: int) -> str:
        """Return the name of a node; one that nobody gave (`%3`, `t3`) reads as the title where it is printed."""
        name = find_given_name(self, node)
        return NodeReference(self.name_of(node), self.title_of(node)) if name is None else name


def count_without_commas(count: int, word: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1; digits without commas.

    >>> count_without_commas(1, "input"), count_without_commas(2, "node")
    ('1 input', '2 nodes')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"
