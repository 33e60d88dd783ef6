"""The circuit: flat arrays, one entry per node, and light views of nodes and wires made on demand.

Kept true by the verifier: a node's inputs have smaller indices, so index order is an order that can be run. Nothing
here recurses and nothing changes after construction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.errors import OutputError, UnknownNameError, shown, suggest
from wiregrad.ir.names import NameTable, automatic, normal
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, TABLE, Op, Pattern

_AUTOMATIC = re.compile(r"%[0-9]{1,10}")
SPLIT = "split"
"""Name of the op that copies one wire to two readers."""


class Place(NamedTuple):
    """Where in the source a node was written: file (or `formula`), line and column from 1; column 0 is unknown."""

    file: str
    line: int
    column: int = 0

    def is_valid(self) -> bool:
        """Whether the numbers can stand in a text form."""
        return isinstance(self.file, str) and 0 < self.line < 10**9 and 0 <= self.column < 10**9

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


class Row(NamedTuple):
    """One node, as loops over a circuit see it."""

    node: int
    op: Op
    sources: list[int]
    mode: int


@dataclass(frozen=True, eq=False, slots=True)
class Labels:
    """One label per node out of a few: indices into `table`, which may be left out when no node has one."""

    table: tuple[Any, ...] = ()
    index: NDArray[np.int32] | None = None

    @classmethod
    def of(cls, table: tuple[Any, ...], index: NDArray[np.int32]) -> Labels:
        """Return the labels in their one form: without an index where no node has a label."""
        return cls(table, index) if (index >= 0).any() else cls()

    def at(self, node: int) -> Any:
        """Return the node's label or None."""
        k = -1 if self.index is None else int(self.index[node])
        return None if k < 0 else self.table[k]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Labels):
            return NotImplemented
        one, two = ([] if x.index is None else [x.at(n) for n in range(len(x.index))] for x in (self, other))
        return one == two

    __hash__ = None  # type: ignore[assignment]

    def filtered(self, keep: NDArray[np.bool_]) -> Labels:
        """Return the labels of the nodes to keep."""
        return self if self.index is None else Labels.of(self.table, self.index[keep])

    def nbytes(self) -> int:
        """Return how much memory the labels take, the table left out."""
        return 0 if self.index is None else self.index.nbytes


@dataclass(frozen=True, eq=False, slots=True)
class Columns:
    """The arrays of a circuit."""

    name: str
    codes: NDArray[np.uint16]
    starts: NDArray[np.int32]
    sources: NDArray[np.int32]
    types: NDArray[np.uint16]
    type_table: tuple[WireType, ...]
    constant_nodes: NDArray[np.int32]
    constants: tuple[Any, ...]
    """Values of the constant nodes, in order."""
    modes: NDArray[np.uint8] | None
    """How each node treats its kinks; None: every node the plain way."""
    names: NameTable
    places: Labels
    groups: Labels
    outputs: NDArray[np.int32]
    labels: tuple[str, ...]
    """The names of the outputs."""

    def nbytes(self) -> int:
        """Return how much memory the circuit takes, the interned tables left out."""
        arrays: list[NDArray[Any]] = [
            self.codes,
            self.starts,
            self.sources,
            self.types,
            self.constant_nodes,
            self.outputs,
        ]
        flat = sum(a.nbytes for a in arrays) + (0 if self.modes is None else self.modes.nbytes)
        labels = self.names.nbytes() + self.places.nbytes() + self.groups.nbytes()
        return flat + 40 * len(self.constants) + labels


@dataclass(frozen=True, slots=True)
class Wire:
    """One input of one node. `x * x` has two wires from x: a wire is its reader and slot."""

    reader: str
    slot: int
    input: str
    source: str


@dataclass(frozen=True, slots=True, repr=False)
class Node:
    """A view of one node of a circuit; the node and its output wire share the name."""

    circuit: Circuit
    index: int

    @property
    def name(self) -> str:
        """The name to show: the one given, or `%` and the index."""
        return self.circuit.name_of(self.index)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name the node answers to."""
        return self.circuit.columns.names.of(self.index) or (automatic(self.index),)

    @property
    def op(self) -> Op:
        """The record of the op the node applies."""
        return TABLE.by_code()[int(self.circuit.columns.codes[self.index])]

    @property
    def wires(self) -> tuple[Wire, ...]:
        """The input wires, in order."""
        sources = self.circuit.sources_of(self.index)
        return tuple(
            Wire(self.name, slot, self.op.inputs[slot], self.circuit.name_of(source))
            for slot, source in enumerate(sources)
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the nodes whose output this one reads."""
        return tuple(wire.source for wire in self.wires)

    @property
    def type(self) -> WireType:
        """Dtype and shape of the output wire."""
        return self.circuit.type_of(self.index)

    @property
    def constant(self) -> Any:
        """The value of a constant node, else None."""
        return self.circuit.constant_of(self.index)

    @property
    def place(self) -> Place | None:
        """Where in the source the node was written."""
        found: Place | None = self.circuit.columns.places.at(self.index)
        return found

    @property
    def group(self) -> str:
        """Path of the groups around the node, like `net/layer1`; empty at the top."""
        return self.circuit.columns.groups.at(self.index) or ""

    @property
    def mode(self) -> int:
        """How the node treats its kinks (see `wiregrad.ops.kinks`)."""
        modes = self.circuit.columns.modes
        return 0 if modes is None else int(modes[self.index])

    def expression(self) -> str:
        """Write what the node computes, as `e * c` or `tanh(n)`."""
        if self.op.pattern is Pattern.SOURCE:
            return self.op.name if self.constant is None else repr_number(self.constant)
        return self.op.expression(*map(self.circuit.operand_text, self.circuit.sources_of(self.index)))

    def __str__(self) -> str:
        return f"{self.name} = {self.expression()}"

    def __repr__(self) -> str:
        return f"Node({self})"


class Circuit:
    """A circuit of nodes and wires: inputs on the left, outputs on the right.

    `len(circuit)` counts the function nodes, as `repr` does: inputs, constants and splitters are counted apart.
    """

    __slots__ = ("__weakref__", "columns")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        for column in fields(columns):
            array = getattr(columns, column.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def name(self) -> str:
        """The circuit's name, by default that of its output."""
        return self.columns.name

    @property
    def size(self) -> int:
        """How many entries the arrays have: inputs, constants, splitters and function nodes."""
        return len(self.columns.codes)

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
    def nodes(self) -> tuple[Node, ...]:
        """The function nodes, in an order that can be run."""
        return self._views(lambda op: op.pattern not in (Pattern.SOURCE, Pattern.MERGE))

    @property
    def splitters(self) -> tuple[Node, ...]:
        """The splitters, in order."""
        return self._views(lambda op: op.pattern is Pattern.MERGE)

    def _views(self, keep: Callable[[Op], bool]) -> tuple[Node, ...]:
        wanted = np.array([keep(op) for op in TABLE])[self.columns.codes]
        return tuple(Node(self, node) for node in np.flatnonzero(wanted).tolist())

    def __len__(self) -> int:
        return self.count()[1]

    def __bool__(self) -> bool:
        # A circuit without function nodes is a circuit all the same.
        return True

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def count(self) -> tuple[int, int, int]:
        """Return how many inputs, function nodes and splitters there are."""
        counts = np.bincount(self.columns.codes, minlength=len(TABLE))
        splitters = int(counts[TABLE.code(TABLE[SPLIT])])
        leaves = int(counts[INPUT_CODE] + counts[CONSTANT_CODE])
        return int(counts[INPUT_CODE]), self.size - leaves - splitters, splitters

    def __getitem__(self, name: str) -> Node:
        return Node(self, self.index(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __repr__(self) -> str:
        inputs, nodes, splitters = self.count()
        parts = [_plural(inputs, "input"), _plural(nodes, "node"), _plural(splitters, "splitter")]
        return f"Circuit({', '.join(parts)}, output{'s' * (len(self.outputs) != 1)} {listed(self.outputs)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Circuit):
            return NotImplemented
        a, b = self.columns, other.columns
        return (
            a.name == b.name
            and a.labels == b.labels
            and all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("codes", "starts", "sources", "outputs"))
            and [self.type_of(n) for n in self.input_indices()] == [other.type_of(n) for n in other.input_indices()]
            and all(map(_same_bits, a.constants, b.constants))
            and np.array_equal(_dense(a.modes, self.size), _dense(b.modes, self.size))
            and a.names == b.names
            and a.places == b.places
            and a.groups == b.groups
        )

    def __hash__(self) -> int:
        return hash((self.columns.labels, self.columns.codes.tobytes(), self.columns.sources.tobytes()))

    def index(self, name: str) -> int:
        """Return the index of the node of this name."""
        found = self._find(name)
        if found is None:
            known = [text for _, text in self.columns.names][:1000]
            raise UnknownNameError(f"the circuit has no node called {shown(name)}{suggest(name, known)}")
        return found

    def _find(self, name: str) -> int | None:
        if not isinstance(name, str):
            raise UnknownNameError(f"nodes are looked up by name, a string; got {type(name).__name__}")
        if _AUTOMATIC.fullmatch(name):
            node = int(name[1:])
            return node if node < self.size and not self.columns.names.of(node) else None
        name = normal(name)
        found = self.columns.names.find(name)
        if found is None and name in self.columns.labels:
            return int(self.columns.outputs[self.columns.labels.index(name)])
        return found

    def root(self) -> int:
        """Return the index of the only output's node."""
        if len(self.columns.outputs) != 1:
            raise OutputError(
                f"this circuit has {len(self.outputs)} outputs ({listed(self.outputs)}); "
                f"choose one with circuit.with_output(name)"
            )
        return int(self.columns.outputs[0])

    def origins(self, node: int) -> Iterator[int]:
        """Walk from a node back through splitters: what leaves them is what entered."""
        yield node
        while Node(self, node).op.pattern is Pattern.MERGE:
            node = int(self.columns.sources[self.columns.starts[node]])
            yield node

    def with_output(self, name: str) -> Circuit:
        """Return the same circuit with the named node or output as its only output."""
        node = np.array([self.index(name)], np.int32)
        label = "f" if name.startswith("%") else name
        while label != name and label in self:
            label += "_"
        return Circuit(replace(self.columns, outputs=node, labels=(label,), name=label))

    def filtered(self, keep: NDArray[np.bool_]) -> Circuit:
        """Return the circuit of the nodes to keep, which must read only each other and include the outputs."""
        c = self.columns
        lengths = np.diff(c.starts)
        position = (np.cumsum(keep) - 1).astype(np.int32)
        kept = keep[c.constant_nodes]
        columns = replace(
            c,
            codes=c.codes[keep],
            starts=np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int32),
            sources=position[c.sources[np.repeat(keep, lengths)]],
            types=c.types[keep],
            constant_nodes=position[c.constant_nodes[kept]],
            constants=tuple(compress(c.constants, kept)),
            modes=None if c.modes is None else c.modes[keep],
            names=c.names.filtered(keep, position),
            places=c.places.filtered(keep),
            groups=c.groups.filtered(keep),
            outputs=position[c.outputs],
        )
        return Circuit(columns)

    def input_indices(self) -> list[int]:
        """Return the indices of the inputs."""
        return [int(k) for k in np.flatnonzero(self.columns.codes == INPUT_CODE)]

    def sources_of(self, node: int) -> list[int]:
        """Return the indices of the nodes that a node reads."""
        first, last = self.columns.starts[node], self.columns.starts[node + 1]
        return [int(k) for k in self.columns.sources[first:last]]

    def name_of(self, node: int) -> str:
        """Return the name to show for a node."""
        names = self.columns.names.of(node)
        return names[0] if names else automatic(node)

    def type_of(self, node: int) -> WireType:
        """Return the type of a node's output wire."""
        return self.columns.type_table[int(self.columns.types[node])]

    def constant_of(self, node: int) -> Any:
        """Return the value of a constant node, None for any other."""
        if self.columns.codes[node] != CONSTANT_CODE:
            return None
        return self.columns.constants[int(np.searchsorted(self.columns.constant_nodes, node))]

    def operand_text(self, node: int) -> str:
        """Return what stands for a node inside an expression: its name, or the number if it is a nameless constant."""
        constant = None if self.columns.names.of(node) else self.constant_of(node)
        return self.name_of(node) if constant is None else repr_number(constant)

    def rows(self, *, backward: bool = False) -> Iterator[Row]:
        """Walk the nodes in order (or in reverse), as plain Python numbers."""
        ops, codes = TABLE.by_code(), self.columns.codes.tolist()
        starts, sources = self.columns.starts.tolist(), self.columns.sources.tolist()
        modes = None if self.columns.modes is None else self.columns.modes.tolist()
        for i in reversed(range(len(codes))) if backward else range(len(codes)):
            yield Row(i, ops[codes[i]], sources[starts[i] : starts[i + 1]], 0 if modes is None else modes[i])

    def constants(self) -> Mapping[int, Any]:
        """Return the value of every constant node."""
        return dict(zip(self.columns.constant_nodes.tolist(), self.columns.constants, strict=True))

    def active(self) -> bytearray:
        """Return 1 for each node through which a gradient can reach an input, else 0."""
        carries = [self.columns.type_table[t].differentiable for t in range(len(self.columns.type_table))]
        types = self.columns.types.tolist()
        found = bytearray(self.size)
        for node in self.input_indices():
            found[node] = carries[types[node]]
        for i, _, sources, _ in self.rows():
            if carries[types[i]]:
                for source in sources:
                    if found[source]:
                        found[i] = 1
        return found

    def readers(self) -> list[list[tuple[int, int]]]:
        """Return, for each node, its readers as (node, slot) in order."""
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for i, _, sources, _ in self.rows():
            for slot, source in enumerate(sources):
                found[source].append((i, slot))
        return found

    def nbytes(self) -> int:
        """Return how many bytes the circuit's arrays take."""
        return self.columns.nbytes()


def repr_number(value: Any) -> str:
    """Write a number so that it is read back exactly, in the shortest way.

    >>> repr_number(np.float64(0.1)), repr_number(np.bool_(True))
    ('0.1', 'true')
    """
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    return repr(value.item() if isinstance(value, np.generic) else value)


def listed(names: Sequence[str], most: int = 5) -> str:
    """List names in a message, the first few of them.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _same_bits(a: Any, b: Any) -> bool:
    # The same constant, not the same number: NaN equals NaN here, and 0.0 differs from -0.0.
    one, two = np.asarray(a), np.asarray(b)
    same_type = one.dtype == two.dtype and one.shape == two.shape
    both_nan = one.dtype.kind == two.dtype.kind == "f" and bool(np.all(np.isnan(one) & np.isnan(two)))
    return same_type and (both_nan or one.tobytes() == two.tobytes())


def _dense(modes: NDArray[np.uint8] | None, size: int) -> NDArray[np.uint8]:
    return np.zeros(size, np.uint8) if modes is None else modes
