"""The index of a run: its nodes, wires and numbers as plain lists, and the path that carries most of a gradient.

Walks visit every node of circuits with a hundred thousand nodes, so the lists are made once and each lookup is a list
access. From each node the strongest path follows the use that sends most back to it. These choices form a tree that
ends in the output, so the node at which two paths meet is found by walking up from both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.backends.run import euclidean_norm, largest_magnitude
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.ir import CONSTANT, Place
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent

ReaderSlot = tuple[int, int]
"""A reader and the slot at which it reads."""


class RunIndex:
    """The nodes, wires and numbers of a run."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.circuit = run.circuit
        self.rows = list(run.circuit.rows())
        self.root = run.circuit.root()
        self._starts = run.circuit.columns.starts.tolist()

    def source_node(self, wire: ReaderSlot) -> int:
        """Return the node at the start of a wire."""
        return self.rows[wire[0]].sources[wire[1]]

    def input_values(self, node: int) -> list[Any]:
        """Return the input values of a node."""
        return [self.run.values[source] for source in self.rows[node].sources]

    def sent_gradient(self, wire: ReaderSlot) -> Any:
        """Return the gradient that was sent back along a wire; 0 where it is absent."""
        return fill_absent(self.run.sent[self._starts[wire[0]] + wire[1]])

    def local_derivative(self, wire: ReaderSlot) -> Any:
        """Return the local derivative of a wire of an elementwise op, as a flow; None for any other op."""
        row = self.rows[wire[0]]
        if not isinstance(row.op, Elementwise):
            return None
        return row.op.local(wire[1], self.input_values(wire[0]), self.run.values[wire[0]], row.mode)

    def place_of(self, node: int) -> Place | None:
        """Return the source location of a node."""
        place: Place | None = self.circuit.columns.places.label_of(node)
        return place

    def describe_operand(self, node: int) -> str:
        """Describe a node inside a sentence: its name, or "the constant 2" if it has none."""
        constant = f"the constant {describe_value(self.run.values[node]).removeprefix('an ')}"
        return constant if self._is_nameless(node) else self.circuit.name_of(node)

    def _is_nameless(self, node: int) -> bool:
        return self.rows[node].op is CONSTANT and not self.circuit.columns.names.names_of(node)

    def describe_inputs(self, node: int, slots: Sequence[int]) -> str:
        """Describe some inputs of a node, as `h = 0, low = 2`; a constant without a name goes by the input's."""
        texts = []
        for slot in slots:
            source = self.rows[node].sources[slot]
            op = self.rows[node].op
            name = op.input_name(slot) if self._is_nameless(source) else self.circuit.name_of(source)
            texts.append(f"{name} = {describe_value(self.run.values[source])}")
        return ", ".join(dict.fromkeys(texts))

    def mark_live_nodes(self) -> bytearray:
        """Return a mask with 1 for each node that the output depends on."""
        live = bytearray(len(self.rows))
        live[self.root] = 1
        for row in reversed(self.rows):
            if live[row.node]:
                for source in row.sources:
                    live[source] = 1
        return live


def measure_norm(value: Any) -> float:
    """Return the magnitude of a number, or the norm of an array.

    >>> measure_norm(-2.0), measure_norm(np.array([3.0, 4.0]))
    (2.0, 5.0)
    """
    return abs(value) if isinstance(value, float) else euclidean_norm(value)


def describe_value(value: Any) -> str:
    """Format a number or array for a sentence: on one line; a large array by its shape and largest magnitude.

    >>> describe_value(np.array([0.0, 0.5])), describe_value(np.ones((2, 4)))
    ('[0. , 0.5]', 'an array of shape (2, 4) with largest magnitude 1')
    """
    if value is None:
        return "None"
    array = np.asarray(value)
    if array.size > 6:
        size = (
            f" with largest magnitude {format_brief_number(largest_magnitude(value))}"
            if array.dtype.kind != "b"
            else ""
        )
        return f"an array of shape {array.shape}{size}"
    return format_brief_number(to_python_number(array[()]))


MIN_CANCELLATION = 1e3
"""A cancellation is reported if the magnitudes of the parts add up to this many times the magnitude of their sum."""


class StrongestPath:
    """Follows the largest contribution from a node to the output."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.run = index.run
        self._best: dict[int, ReaderSlot | None] = {}

    def path_to(self, node: int) -> list[ReaderSlot]:
        """Return the wires of the strongest path, from the output to a node."""
        wires = list[ReaderSlot]()
        while node != self.index.root and (best := self._strongest_use(node)) is not None:
            wires.append(best)
            node = best[0]
        return wires[::-1]

    def wire_factor(self, wire: ReaderSlot) -> float:
        """Return the local derivative of a wire; along arrays the ratio of the norms after and before it."""
        local = self.index.local_derivative(wire)
        if isinstance(local, float | np.floating):
            return float(local)
        return measure_norm(self.index.sent_gradient(wire)) / (measure_norm(self.run.gradient(wire[0])) or math.nan)

    def find_cancelling(self, nodes: Sequence[int]) -> list[int]:
        """Return the nodes among these whose incoming gradients nearly cancel, the worst first."""
        cancelling = []
        for node in nodes:
            uses = self.run.readers_of(node)
            if len(uses) > 1:
                total = measure_norm(self.run.gradient(node))
                most = sum(measure_norm(self.index.sent_gradient(wire)) for wire in uses)
                if most > MIN_CANCELLATION * total:
                    cancelling.append((most / (total or 5e-324), node))
        return [node for _, node in sorted(cancelling, key=lambda item: -item[0])]

    def rank_uses(self, node: int) -> list[ReaderSlot]:
        """Return the wires that read a node, sorted by what they send, largest first."""
        return sorted(self.run.readers_of(node), key=lambda wire: -_rank_magnitude(self.index.sent_gradient(wire)))

    def find_meeting_node(self, one: int, two: int) -> int:
        """Return the node at which the strongest paths of two nodes meet; the first of the two if they do not."""
        first = one
        second = two
        while first != second:
            # A reader has a larger index than its source, so the node with the smaller index is the one to move on.
            best = self._strongest_use(min(first, second))
            if best is None:
                return one
            second = max(first, second)
            first = best[0]
        return first

    def _strongest_use(self, node: int) -> ReaderSlot | None:
        """Return the wire that sends most to a node; None if nothing is sent."""
        if node not in self._best:
            best = max(
                self.run.readers_of(node),
                key=lambda wire: _rank_magnitude(self.index.sent_gradient(wire)),
                default=None,
            )
            self._best[node] = None if best is None or not _rank_magnitude(self.index.sent_gradient(best)) else best
        return self._best[node]


def _rank_magnitude(value: object) -> float:
    size = measure_norm(value)
    return math.inf if math.isnan(size) else size
