"""What all questions share: the base class of answers, how they are worded, and a run by steps and by an index.

`str` and `repr` of a report give the same text, so an answer prints itself in a terminal, a notebook or a log. The
steps of a run lead forward from the inputs to the seed, then backward to the inputs.

The index of a run holds its nodes, wires and numbers, and the strongest path. Questions visit every node of
circuits with a hundred thousand nodes, so each table is a plain list, made when it is first used. From each node the
strongest path follows the use that sends most back to it. These choices form a tree that ends in the output, so the
node at which two paths meet is found by walking up from both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunNode, RunRecord, RunWire
from wiregrad.backends.interpreter import euclidean_norm, largest_magnitude
from wiregrad.dtypes import PythonNumber, WireValue, format_brief_number, parenthesize_negative, to_python_number
from wiregrad.ir import CONSTANT, INPUT, CircuitGraph, Node, Pattern, Place, Row
from wiregrad.ir.circuit import NodeReference, find_given_name, write_expression
from wiregrad.lazy import NamedTuple
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent, match_dtype


class Report:
    """An answer to a question; subclasses are frozen dataclasses that define `lines`."""

    __slots__ = ()

    layer_note = ""
    """What the answer was read off, where there is a choice; its text is the last line of the answer."""

    def lines(self) -> Iterator[str]:
        """Return the text of the answer, line by line."""
        raise NotImplementedError

    def with_layer_note(self, note: str) -> Self:
        """Return the same answer with what it was read off."""
        answer = copy(self)
        object.__setattr__(answer, "layer_note", note)
        return answer

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *([self.layer_note] if self.layer_note else [])])

    __repr__ = __str__


def format_place(place: Place | None) -> str:
    """Format a source location as a suffix: ` (model.py:12)`; empty if the location is unknown.

    >>> format_place(Place("model.py", 12)), format_place(None)
    (' (model.py:12)', '')
    """
    return "" if place is None else f" ({place})"


def format_node_place(circuit: CircuitGraph, node: int) -> str:
    """Format the source location of a node as a suffix."""
    return format_place(Node(circuit, node).place)


def format_operand(circuit: CircuitGraph, node: int) -> str:
    """Format a node as an operand: its name, or the value of a constant without a name.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * x")
    >>> [format_operand(c, node) for node in range(c.size)]
    ['x', '2.0', 'y']
    """
    shape = circuit.type_of(node).shape
    nameless = bool(shape) and circuit.op_of(node) is CONSTANT and not circuit.columns.names.names_of(node)
    return f"array of shape {shape}" if nameless else circuit.operand_text(node)


def describe_node(circuit: CircuitGraph, node: int) -> str:
    """Format a node as an assignment, without the elements of arrays: `e = a + b`, `input x`.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * x")
    >>> [describe_node(c, node) for node in range(c.size)]
    ['input x', 'constant 2.0', 'y = 2.0 * x']
    """
    view = Node(circuit, node)
    if view.op is INPUT:
        return f"input {view.name}"
    sources = circuit.sources_of(node)
    is_named = find_given_name(circuit, node) is not None
    if not sources:
        text = f"array of shape {view.type.shape}" if view.type.shape else view.expression()
        return f"{view.name} = {text}" if is_named else f"constant {text}"
    text = write_expression(view.op, [format_operand(circuit, source) for source in sources])
    is_told = not is_named and view.title.replace(" ", "") == text.replace(" ", "")
    return text if is_told else f"{view.title} = {text}"


def format_derivative(reader: str, source: str) -> str:
    """Format the name of a local derivative, with references in parentheses if they are printed as expressions.

    >>> import wiregrad as wg
    >>> c = wg.circuit("y = 2 * (a + b)")
    >>> format_derivative("y", c.reference_to(c.index("a + b")))
    'dy/d(a + b)'
    """
    top, bottom = (f"({name})" if isinstance(name, NodeReference) else name for name in (reader, source))
    return f"d{top}/d{bottom}"


def join_with_and(parts: Sequence[str]) -> str:
    """Join a list with commas and a final "and".

    >>> join_with_and(["a"]), join_with_and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return str(parts[0]) if len(parts) == 1 else f"{', '.join(map(str, parts[:-1]))} and {parts[-1]}"


def format_capped_list(items: Sequence[object], most: int) -> Iterator[str]:
    """Return an indented line for each of the first items, and one that counts the rest.

    >>> list(format_capped_list(["a", "b", "c"], 2))
    ['  a', '  and 2 more']
    """
    shown = len(items) if len(items) <= most else most - 1
    yield from (f"  {item}" for item in items[:shown])
    if shown < len(items):
        yield f"  and {len(items) - shown:,} more"


Numbers = np.number[Any] | NDArray[Any]
"""A number or an array, as a run holds it."""
GradientFlow = Numbers | float | MaskedFlow | None
"""What is sent along a wire: absent, numbers, or numbers that are present only where a mask is true."""
ReaderSlot = tuple[int, int]
"""A wire: the node that reads it, and the slot at which it does."""


class RunIndex:
    """The nodes, wires and numbers of a run.

    Nodes go by their index. `flows` holds the gradients as they were sent: None where a gradient is absent.

    >>> import wiregrad as wg
    >>> index = RunIndex(wg.circuit("f = x * y + x").run(x=3, y=2))
    >>> index.ranks, index.readers_of(0), index.sent_flow(2, 0)
    ([2, 2, 1, 0], [(2, 0), (3, 1)], np.float64(2.0))
    """

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.circuit = run.circuit
        self.values = run.values
        self.flows = run.flows

    @classmethod
    def from_values(cls, circuit: CircuitGraph, values: Sequence[Any], flows: Sequence[Any] = ()) -> RunIndex:
        """Index the values of a circuit, and gradients if there are any; what was sent along wires is not known."""
        return cls(RunRecord(circuit, values, flows, ()))

    @cached_property
    def rows(self) -> list[Row]:
        """The nodes with their ops, sources and kink modes."""
        return list(self.circuit.rows())

    @cached_property
    def root(self) -> int:
        """The node of the only output."""
        return self.circuit.root()

    @cached_property
    def active(self) -> bytearray:
        """1 for each node that depends on an input, so that a gradient can flow to it; 0 for the others."""
        return self.circuit.active()

    @cached_property
    def active_nodes(self) -> list[int]:
        """The nodes to which a gradient can flow."""
        return [node for node, active in enumerate(self.active) if active]

    @cached_property
    def ranks(self) -> list[int]:
        """The distance of each node from the output, along the longest path; -1 if the output does not depend on it."""
        ranks = [-1] * len(self.rows)
        ranks[self.root] = 0
        for row in reversed(self.rows):
            if ranks[row.node] >= 0:
                beyond = ranks[row.node] + 1
                for source in row.sources:
                    ranks[source] = max(ranks[source], beyond)
        return ranks

    @cached_property
    def _starts(self) -> list[int]:
        starts: list[int] = self.circuit.columns.starts.tolist()
        return starts

    @cached_property
    def _sources(self) -> list[int]:
        sources: list[int] = self.circuit.columns.sources.tolist()
        return sources

    def readers_of(self, node: int) -> list[ReaderSlot]:
        """Return the wires that read a node."""
        return self.run.readers_of(node)

    def active_slots(self, row: Row) -> list[int]:
        """Return the slots of a node along which a gradient can flow back."""
        return [slot for slot, source in enumerate(row.sources) if self.active[source]]

    def input_values(self, node: int) -> list[Any]:
        """Return the input values of a node."""
        sources = self._sources[self._starts[node] : self._starts[node + 1]]
        return [self.values[source] for source in sources]

    def sent_flow(self, reader: int, slot: int) -> Any:
        """Return the flow that was sent back along a wire."""
        return self.run.sent[self._starts[reader] + slot]

    def sent_flows(self, reader: int) -> Sequence[Any]:
        """Return the flows that a node sent back, one for each of its inputs."""
        return self.run.sent[self._starts[reader] : self._starts[reader + 1]]

    def sent_gradient(self, wire: ReaderSlot) -> Any:
        """Return the gradient that was sent back along a wire; 0 where it is absent."""
        return fill_absent(self.sent_flow(*wire))

    def pull_flow(self, reader: int, slot: int, flow: GradientFlow) -> Any:
        """Pull a flow that arrives at a reader back along one of its wires."""
        row = self.rows[reader]
        xs = self.input_values(reader)
        return match_dtype(row.op.pull(slot, flow, xs, self.values[reader], row.mode), xs[slot])

    def local_derivative(self, wire: ReaderSlot) -> Any:
        """Return the local derivative of a wire of an elementwise op, as a flow; None for any other op."""
        row = self.rows[wire[0]]
        if not isinstance(row.op, Elementwise):
            return None
        return row.op.local(wire[1], self.input_values(wire[0]), self.values[wire[0]], row.mode)

    def place_of(self, node: int) -> Place | None:
        """Return the source location of a node."""
        place: Place | None = self.circuit.columns.places.label_of(node)
        return place

    def describe_operand(self, node: int) -> str:
        """Describe a node inside a sentence: its name, or "the constant 2" if it has none."""
        constant = self._nameless_constant(node)
        if constant is None:
            return self.circuit.reference_to(node)
        return f"the constant {describe_value(self.values[constant]).removeprefix('an ')}"

    def _nameless_constant(self, node: int) -> int | None:
        """Return the constant without a name that a node is, or spreads over an array; None for any other node."""
        while self.rows[node].op.name == "spread":
            (node,) = self.rows[node].sources
        is_nameless = self.rows[node].op is CONSTANT and not self.circuit.columns.names.names_of(node)
        return node if is_nameless else None

    def name_inputs(self, node: int) -> list[str]:
        """Return what the inputs of a node are called; a constant without a name is called nothing."""
        sources = self.rows[node].sources
        return ["" if self._nameless_constant(k) is not None else self.circuit.reference_to(k) for k in sources]

    def describe_inputs(self, node: int, slots: Sequence[int]) -> str:
        """Describe some inputs of a node, as `h = 0, low = 2`; a constant without a name goes by the input's."""
        texts = []
        for slot in slots:
            source = self.rows[node].sources[slot]
            constant = self._nameless_constant(source)
            name = self.circuit.reference_to(source) if constant is None else self.rows[node].op.input_name(slot)
            value = describe_value(self.values[source if constant is None else constant])
            is_taken = constant is not None and name in self.circuit
            texts.append(f"the constant {value}" if is_taken else f"{name} = {value}")
        return ", ".join(dict.fromkeys(texts))


def measure_norm(value: ArrayLike) -> float:
    """Return the magnitude of a number, or the norm of an array.

    >>> measure_norm(-2.0), measure_norm(np.array([3.0, 4.0]))
    (2.0, 5.0)
    """
    return abs(value) if isinstance(value, float) else euclidean_norm(value)


def describe_value(value: ArrayLike) -> str:
    """Format a number or array for a sentence: on one line; a large array by its shape and largest magnitude.

    >>> describe_value(np.array([0.0, 0.5])), describe_value(np.ones((2, 4)))
    ('[0, 0.5]', 'an array of shape (2, 4) with largest magnitude 1')
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
            uses = self.index.readers_of(node)
            if len(uses) > 1:
                total = measure_norm(self.run.gradient(node))
                most = sum(measure_norm(self.index.sent_gradient(wire)) for wire in uses)
                if most > MIN_CANCELLATION * total:
                    cancelling.append((most / (total or 5e-324), node))
        return [node for _, node in sorted(cancelling, key=lambda item: -item[0])]

    def rank_uses(self, node: int) -> list[ReaderSlot]:
        """Return the wires that read a node, sorted by what they send, largest first."""
        return sorted(self.index.readers_of(node), key=lambda wire: -_rank_magnitude(self.index.sent_gradient(wire)))

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
                self.index.readers_of(node),
                key=lambda wire: _rank_magnitude(self.index.sent_gradient(wire)),
                default=None,
            )
            self._best[node] = None if best is None or not _rank_magnitude(self.index.sent_gradient(best)) else best
        return self._best[node]


def _rank_magnitude(value: ArrayLike) -> float:
    size = measure_norm(value)
    return math.inf if math.isnan(size) else size


class RunStep(NamedTuple):
    """One event of a run; `str` gives it as a sentence.

    `phase` is forward, seed or backward. `arrived` holds the input values (forward) or the upstream gradient
    (backward). `sent` holds the value (forward), or a pair of source name and gradient for each wire (backward).
    """

    phase: str
    node: str
    arrived: tuple[Any, ...]
    sent: tuple[Any, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def steps(run: RunRecord) -> Iterator[RunStep]:
    """Return the steps of a run in the order in which they happened."""
    for node in range(run.circuit.size):
        yield _forward_step(run, Node(run.circuit, node))
    root = Node(run.circuit, run.circuit.root())
    yield RunStep("seed", root.name, (), (1.0,), f"{root.title} is the output: its gradient is 1")
    for node in reversed(range(run.circuit.size)):
        if run.flows[node] is not None:
            yield from _backward_steps(run, Node(run.circuit, node))


def steps_of_node(run: RunRecord, node: int, phase: str) -> list[RunStep]:
    """Return the steps of one node in one phase, `forward` or `backward`."""
    view = Node(run.circuit, node)
    if phase == "forward":
        return [_forward_step(run, view)]
    return [] if run.flows[node] is None else [*_backward_steps(run, view)]


def _forward_step(run: RunRecord, node: Node) -> RunStep:
    view = RunNode(run, node.index)
    value = format_brief_number(view.value)
    arrived = tuple(wire.value for wire in view.wires)
    if node.op is INPUT:
        sentence = f"{node.name} is given: {value}"
    elif node.op is CONSTANT:
        sentence = f"{node.name} is the constant {value}" if _is_named(node) else f"the constant {value}"
    elif node.op.pattern is Pattern.MERGE:
        sentence = f"{node.title} copies {value} from {view.wires[0].source} to two wires"
    else:
        sentence = f"{node} = {node.op.expression(*map(parenthesize_negative, arrived))} = {value}"
    return RunStep("forward", node.name, arrived, (view.value,), sentence)


def _is_named(node: Node) -> bool:
    return bool(node.circuit.columns.names.names_of(node.index))


def _backward_steps(run: RunRecord, node: Node) -> Iterator[RunStep]:
    view = RunNode(run, node.index)
    returned = [wire for wire in view.branches if not wire.blocked]
    if len(returned) > 1:
        yield _merge_step(node, returned[::-1], view.grad)
    sources = zip(view.wires, run.circuit.sources_of(node.index), strict=True)
    wires = [wire for wire, source in sources if run.circuit.op_of(source) is not CONSTANT]
    if wires:
        yield RunStep(
            "backward",
            node.name,
            (view.grad,),
            tuple((wire.source, wire.sent) for wire in wires),
            f"{node.title if node.op.pattern is Pattern.MERGE else node} {_describe_sends(wires)}",
        )


def _merge_step(node: Node, returned: Sequence[RunWire], total: WireValue | PythonNumber) -> RunStep:
    parts = tuple(wire.sent for wire in returned)
    origins = tuple(wire.reader for wire in returned)
    addends = " + ".join(map(parenthesize_negative, parts))
    addition = f"{addends} = {format_brief_number(total)}"
    sentence = f"{node.title} adds what came back from {join_with_and(origins)}: {addition}"
    return RunStep("backward", node.name, parts, (total,), sentence)


def _describe_sends(wires: Sequence[RunWire]) -> str:
    parts = [f"{'nothing' if wire.blocked else format_brief_number(wire.sent)} to {wire.source}" for wire in wires]
    return f"sends {join_with_and(parts)}"
