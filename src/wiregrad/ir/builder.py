"""Build circuits node by node: by hand with `GraphBuilder`, or by index with `CircuitRecording`.

In a strict builder each wire has one reader, and fan-out is written with `split`. Otherwise a wire may be read any
number of times and splitters are implied. A call that raises leaves the builder as it was.

A recording is a circuit that is still growing: flat columns, appended to node by node, frozen when it is done.
Appending is the innermost step of everything that records. What most nodes do not have (a mode, a type other than
float64, another place than the node before) therefore costs nothing: it is stored beside the columns, by index. Nodes
are known by index only; what people write (ports, literals, strictness) is handled by the builder. Nodes that were read
before they were added are sorted topologically when the recording is frozen.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import BOOL, FLOAT, WireType, WireValue, as_float
from wiregrad.errors import (
    CircuitError,
    CycleError,
    DuplicateNameError,
    FanoutError,
    LiteralError,
    OperandError,
    ShapeError,
    UnknownNameError,
    WiregradError,
    short_repr,
    suggest_name,
)
from wiregrad.ir.builder_methods import BuilderMethods
from wiregrad.ir.circuit import SPLIT_NAME, CircuitGraph
from wiregrad.ir.columns import (
    DERIVE_MODE,
    MAX_NAME_LENGTH,
    UNKNOWN_TYPE,
    Certificate,
    CircuitColumns,
    Deferred,
    LabelT,
    NameTable,
    NodeLabels,
    OpSettings,
    Place,
    Row,
    TypeTable,
    automatic_name,
    check_mode,
    check_name,
    derive_modes,
    infer_types,
    is_group_label,
    normalize_name,
    type_of_constant,
)
from wiregrad.ir.op import (
    CONSTANT,
    CONSTANT_CODE,
    INPUT_CODE,
    TABLE,
    Op,
    OperatorMethods,
    Pattern,
    count_inputs,
    is_variadic,
)
from wiregrad.lazy import NamedTuple


class Port(OperatorMethods):
    """The output wire of a node of a builder; operators and ops applied to it add nodes."""

    __slots__ = ("branch", "builder", "index")
    __array_ufunc__ = None  # NumPy then lets the port handle operators between an array and a port

    def __init__(self, builder: GraphBuilder, index: int, branch: int = 0) -> None:
        self.builder = builder
        self.index = index
        self.branch = branch

    def __wiregrad_apply__(self, op: Op, operands: tuple[Any, ...]) -> Port:
        return self.builder.apply(op, *operands)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value on the wire."""
        return self.builder.recording.type_of_node(self.index).shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the value on the wire."""
        return self.builder.recording.type_of_node(self.index).dtype

    def __bool__(self) -> bool:
        raise OperandError(
            f"the wire {self.builder.recording.name_of(self.index)} has no value while the circuit is built, so "
            "Python cannot branch on it; use where(condition, a, b), maximum, minimum, or & and | for conditions"
        )

    def __repr__(self) -> str:
        return f"Port({self.builder.recording.name_of(self.index)})"


CheckedOperand = Port | str | np.float64
"""An operand after it was checked: a port, the name of a node that is added later, or a literal."""


class GraphBuilder(BuilderMethods):
    """Builds a circuit one node at a time.

    Every op of the table is a method. Operands are ports, finite numbers, or names of nodes, which may be added later:
    the nodes are put in order when the circuit is built. With `finite=False` literals may be NaN or infinite, as
    derivative rules need them.

    >>> b = GraphBuilder(strict=True)
    >>> p, q = b.split(b.input("x"))
    >>> b.build(b.multiply(p, q, name="y"))
    Circuit(1 input, 1 node, 1 splitter, output y)
    """

    def __init__(self, *, strict: bool = False, finite: bool = True) -> None:
        self.strict = strict
        self.finite = finite
        self.recording = CircuitRecording()
        self._awaited: dict[str, int] = {}
        self._claims = _WireClaims()

    def __len__(self) -> int:
        return len(self.recording)

    if not TYPE_CHECKING:
        # Type checkers read the methods from the stub, and refuse names that are no op.
        def __getattr__(self, name: str) -> Callable[..., Port]:
            if name.startswith("_"):
                raise AttributeError(name)
            op = TABLE[name]

            def apply(*operands: object, name: str | None = None, **settings: object) -> Port:
                return self.apply(op.bind(settings) if settings else op, *operands, name=name)

            apply.__name__ = op.name
            apply.__doc__ = op.doc
            return apply

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLE.callable_names()]

    def input(self, name: str, type: WireType = FLOAT) -> Port:
        """Add an input."""
        if not isinstance(type, WireType):
            raise OperandError(f"the type of input {short_repr(name)} must be a WireType; got {short_repr(type)}")
        return Port(self, self.recording.append_input(name, type))

    def constant(self, value: object, name: str | None = None) -> Port:
        """Add a constant."""
        return self.place_constant(self._check_literal(value), name)

    def place_constant(self, value: WireValue, name: str | None = None) -> Port:
        """Add a constant that already is a NumPy value."""
        if name is not None:
            self.recording.check_free(name)
        port = Port(self, self.recording.append_constant(value))
        if name is not None:
            self.name(port, name)
        return port

    def split(self, wire: Port | str, ways: int = 2) -> tuple[Port, ...]:
        """Copy a wire to `ways` readers with `ways - 1` splitters; return one port per reader."""
        if not isinstance(ways, int) or ways < 2:
            raise CircuitError(f"split needs at least 2 ways; got {short_repr(ways)}")
        ports: list[Port] = []
        for _ in range(ways - 1):
            wire = self.apply(SPLIT_NAME, wire)
            ports.append(wire)
            wire = Port(self, wire.index, 1)
        assert isinstance(wire, Port)
        return (*ports, wire)

    def apply(self, op: Op | str, *operands: object, name: str | None = None, mode: int = DERIVE_MODE) -> Port:
        """Add a node that applies an op to wires, numbers or names."""
        if name is None and mode == DERIVE_MODE and not self.strict and isinstance(op, Op):
            quick = self._apply_to_ports(op, operands)
            if quick is not None:
                return quick
        record = TABLE[op] if isinstance(op, str) else op
        if not isinstance(record, Op):
            raise OperandError(f"wanted an op or its name; got {short_repr(op)}")
        if record.pattern is Pattern.SOURCE:
            raise OperandError(f"{record.name} is not applied to wires; use builder.{record.name}(...)")
        code = TABLE.code_of(record)
        wires = self._check_operands(record, operands)
        if record.by_element and len(wires) > 1:
            wires = self._spread_to_one_shape(wires)
        kind = self.recording.type_table.infer_number(record, tuple([self._type_number_of(wire) for wire in wires]))
        check_mode(mode, record)
        if name is not None:
            self.recording.check_free(name)
        if self.strict:
            self._claims.claim_wires(wires, record, name or f"{automatic_name(len(self))} ({record.name})")
        # Everything was checked before the first node is added, so that an error changes nothing.
        indices = [self._index_of(wire) for wire in wires]
        port = Port(self, self.recording.append(code, indices, kind, mode))
        self.recording.note_settings(port.index, record, len(indices))
        if name is not None:
            self.name(port, name)
        return port

    def _apply_to_ports(self, op: Op, operands: Sequence[object]) -> Port | None:
        """Add a node that applies an op to wires of known types that need not be broadcast; None for other operands."""
        count = len(operands)
        if op.pattern is Pattern.SOURCE or (count != len(op.inputs) and not (op.variadic and count)):
            return None
        recording = self.recording
        indices = []
        kinds = []
        for operand in operands:
            if type(operand) is not Port or operand.builder is not self:
                return None
            indices.append(operand.index)
            kinds.append(recording.type_number_of(operand.index))
        if UNKNOWN_TYPE in kinds:
            return None
        if op.by_element and kinds.count(kinds[0]) != count and not recording.type_table.have_one_shape(kinds):
            return None
        kind = recording.type_table.infer_number(op, tuple(kinds))
        index = recording.append(TABLE.code_of(op), indices, kind)
        recording.note_settings(index, op, count)
        return Port(self, index)

    def type_of(self, port: Port) -> WireType:
        """Return the type of a wire, which must not depend on a node that is added later."""
        return self.recording.type_table.type_at(
            self.recording.type_number_of(self._check_own_port(port, "the wire").index)
        )

    def name(self, port: Port, name: str) -> None:
        """Give a node another name; the first name that it was given is the one shown."""
        self.recording.add_name(self._check_own_port(port, "what is named").index, name)

    @contextmanager
    def group(self, label: str) -> Iterator[None]:
        """Put the nodes that are added inside the block into a group; groups nest."""
        if not is_group_label(label):
            raise CircuitError(f"a group's label must be printable text without '/'; got {short_repr(label)}")
        around = self.recording.group
        with self.at(self.recording.place, f"{around}/{label}" if around else label):
            yield

    @contextmanager
    def at(self, place: Place | None, group: str | None = None) -> Iterator[None]:
        """Mark the nodes that are added inside the block with a place in the source and the full path of a group."""
        if place is not None and not (isinstance(place, Place) and place.is_valid()):
            raise CircuitError(f"a place is Place(file, line, column), counted from 1; got {short_repr(place)}")
        recording = self.recording
        before = recording.place, recording.group
        recording.move_to(place, recording.group if group is None else group)
        try:
            yield
        finally:
            recording.move_to(*before)

    def build(
        self, *outputs: Port | str, name: str | None = None, labels: Mapping[str, Port] | None = None
    ) -> CircuitGraph:
        """Return the circuit with these outputs; `labels` maps names to further outputs.

        An output without a name is called `f`. The builder can still be used: the circuit does not change with it.
        """
        labels = labels or {}
        recording = self.recording
        roots = self._collect_outputs(outputs, labels)
        awaited = {index: self._find_named_node(text) for text, index in self._awaited.items()}
        title = check_name(name) if name else next(iter(roots))
        if self.strict:
            self._claims.check_claims(recording, roots)
        indices = {label: port.index for label, port in roots.items()}
        unnamed = {label: k for label, k in indices.items() if not recording.has_name(k) and label not in labels}
        for label, index in unnamed.items():
            recording.add_name(index, label)
        try:
            return _check_labels(recording.freeze(indices, title, awaited), recording, indices)
        except WiregradError:
            for label, index in unnamed.items():
                recording.forget_name(index, label)
            raise

    def _check_operands(self, op: Op, operands: Sequence[object]) -> list[CheckedOperand]:
        return [self._check_operand(operand, op, slot) for slot, operand in enumerate(op.complete(operands))]

    def _check_operand(self, operand: object, op: Op, slot: int) -> CheckedOperand:
        if isinstance(operand, Port):
            return self._check_own_port(operand, f"input {op.input_name(slot)} of {op.name}")
        if isinstance(operand, str):
            name = check_name(operand)
            index = self.recording.names.get(name)
            return name if index is None else Port(self, index)
        literal = self._check_literal(operand)
        return literal if isinstance(literal, np.float64) else self.place_constant(literal)

    def _spread_to_one_shape(self, wires: list[CheckedOperand]) -> list[CheckedOperand]:
        """Broadcast operands to one shape; literals take the dtype of the operands beside them."""
        types = [
            self.type_of(wire)
            for wire in wires
            if isinstance(wire, Port) and self._type_number_of(wire) != UNKNOWN_TYPE
        ]
        if all(not kind.shape and kind.dtype in (FLOAT.dtype, BOOL.dtype) for kind in types):
            return wires
        try:
            shape = np.broadcast_shapes(*(kind.shape for kind in types))
        except ValueError:
            shapes = ", ".join(str(kind.shape) for kind in types)
            raise ShapeError(f"operands of shapes {shapes} cannot be broadcast to one shape") from None
        numbers = [kind.dtype for kind in types if kind.dtype.kind in "fc"]
        wanted = np.result_type(*numbers, 1.0) if numbers else FLOAT.dtype
        ports = [self.place_constant(wanted.type(wire)) if isinstance(wire, np.float64) else wire for wire in wires]
        return [self._spread_port(wire, shape) if isinstance(wire, Port) else wire for wire in ports]

    def _spread_port(self, port: Port, shape: tuple[int, ...]) -> Port:
        own = self.type_of(port).shape
        return port if own == shape else self.apply(TABLE["spread"].bind({"rank": len(own), "shape": shape}), port)

    def _check_own_port(self, port: object, what: str) -> Port:
        if not isinstance(port, Port):
            raise OperandError(f"{what} must be a port; got {short_repr(port)}")
        if port.builder is not self:
            raise OperandError(f"{what} belongs to another builder")
        return port

    def _type_number_of(self, wire: CheckedOperand) -> int:
        if isinstance(wire, Port):
            return self.recording.type_number_of(wire.index)
        return UNKNOWN_TYPE if isinstance(wire, str) else self.recording.type_table.number_of(FLOAT)

    def _check_literal(self, value: object) -> WireValue:
        if (
            not self.finite
            and isinstance(value, np.ndarray | np.generic)
            and (value.ndim or value.dtype != FLOAT.dtype)
        ):
            # A mask or an array that a derivative rule uses.
            return value
        number = as_float(value)
        if number is None:
            raise OperandError(f"wanted a number; got {type(value).__name__} ({short_repr(value)})")
        if self.finite and not np.isfinite(number):
            raise LiteralError(f"a literal must be finite; got {short_repr(value)}: use an input for NaN and inf")
        return number

    def _index_of(self, wire: CheckedOperand) -> int:
        if isinstance(wire, Port):
            return wire.index
        if isinstance(wire, str):
            return self._awaited.setdefault(wire, -1 - len(self._awaited))
        return self.recording.append_constant(wire)

    def _find_named_node(self, name: str) -> int:
        name = normalize_name(name)
        if name not in self.recording.names:
            raise UnknownNameError(f"no node is called {name!r}{suggest_name(name, self.recording.names)}")
        return self.recording.names[name]

    def _collect_outputs(self, outputs: Sequence[Port | str], labels: Mapping[str, Port]) -> dict[str, Port]:
        recording = self.recording
        roots: dict[str, Port] = {}
        for output in outputs:
            port = self._resolve_output(output)
            named = recording.has_name(port.index)
            self._add_output(roots, recording.name_of(port.index) if named else recording.free_name("f"), port)
        if not isinstance(labels, Mapping):
            raise OperandError(f"labels are a mapping of name to port; got {short_repr(labels)}")
        for label, output in labels.items():
            self._add_output(roots, check_name(label), self._resolve_output(output))
        if not roots:
            raise CircuitError("a circuit needs an output: pass a port to build(...)")
        return roots

    def _add_output(self, roots: dict[str, Port], label: str, port: Port) -> None:
        if label in roots:
            raise DuplicateNameError(f"two outputs would be called {label}; give them names with labels={{...}}")
        roots[label] = port

    def _resolve_output(self, output: Port | str) -> Port:
        return (
            Port(self, self._find_named_node(output))
            if isinstance(output, str)
            else self._check_own_port(output, "an output")
        )


def _check_labels(circuit: CircuitGraph, recording: CircuitRecording, indices: Mapping[str, int]) -> CircuitGraph:
    """Return the circuit; raise if an output has the name of a node with another value."""
    # The walk through the splitters is needed only if a label is also the name of another node.
    doubtful = any(recording.names.get(label, index) != index for label, index in indices.items())
    wrong = circuit.misnamed_output() if doubtful else None
    if wrong is not None:
        raise DuplicateNameError(f"the output {wrong} has the name of another node")
    return circuit


class _WireClaims:
    """The reader of each branch of each node in a strict builder; nodes that are added later are known by name."""

    def __init__(self) -> None:
        self._readers: dict[tuple[int | str, int], str] = {}

    def claim_wires(self, wires: Sequence[CheckedOperand], op: Op, reader: str) -> None:
        """Register that a node reads these wires; raise if one of them already has a reader."""
        claimed: dict[tuple[int | str, int], str] = {}
        for slot, wire in enumerate(wires):
            input_ = op.input_name(slot)
            if isinstance(wire, Port | str):
                key = (wire, 0) if isinstance(wire, str) else (wire.index, wire.branch)
                shown_name = wire if isinstance(wire, str) else wire.builder.recording.name_of(wire.index)
                _claim_branch(claimed, key, f"{reader} (input {input_})", shown_name, self._readers)
        self._readers.update(claimed)

    def check_claims(self, recording: CircuitRecording, roots: Mapping[str, Port]) -> None:
        """Raise if a branch has two readers now that all names are known; outputs count as readers."""
        readers: dict[tuple[int | str, int], str] = {}
        claims = [((recording.names.get(str(node), node), branch), by) for (node, branch), by in self._readers.items()]
        claims += [((port.index, port.branch), f"the output {label}") for label, port in roots.items()]
        for (node, branch), by in claims:
            assert isinstance(node, int)
            _claim_branch(readers, (node, branch), by, recording.name_of(node))


def _claim_branch(
    claimed: dict[tuple[int | str, int], str],
    key: tuple[int | str, int],
    reader: str,
    wire: str,
    earlier: Mapping[tuple[int | str, int], str] | None = None,
) -> None:
    first = claimed.get(key) or (earlier or {}).get(key)
    if first:
        raise FanoutError(_describe_fanout(wire, first, reader))
    claimed[key] = reader


def _describe_fanout(wire: str, first: str, second: str) -> str:
    return (
        f"the wire {wire} is read twice without a splitter: by {first} and by {second}; "
        f"split it first: p, q = builder.split({wire}), then give p to one and q to the other"
    )


TABLE.reserve_names(name for name in vars(GraphBuilder) if name != SPLIT_NAME)
TABLE.reserve_names(["strict", "finite", "recording"])


def sort_topologically(inputs: Sequence[Sequence[int]], name: Callable[[int], str]) -> list[int]:
    """Return the nodes in topological order (Kahn's method; of several that are ready the earliest comes first).

    A cycle raises `CycleError`, which names its nodes.

    >>> sort_topologically([[1], [], [0]], str)
    [1, 0, 2]
    """
    readers: list[list[int]] = [[] for _ in inputs]
    for node, sources in enumerate(inputs):
        for source in sources:
            readers[source].append(node)
    waiting = [len(sources) for sources in inputs]
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(inputs):
        raise CycleError(_describe_ring(inputs, waiting, name))
    return order


def _describe_ring(inputs: Sequence[Sequence[int]], waiting: Sequence[int], name: Callable[[int], str]) -> str:
    node = next(n for n, count in enumerate(waiting) if count)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = next(source for source in inputs[node] if waiting[source])
    ring = [*walk[seen[node] :], node][::-1]
    shown = ring if len(ring) <= 9 else [*ring[:4], None, *ring[-4:]]
    arrows = " -> ".join("..." if n is None else name(n) for n in shown)
    return f"the circuit has a cycle: {arrows}; a circuit must run from inputs to output, so cut one of these wires"


class NodeRun(NamedTuple):
    """Nodes that are added together: their codes, and for some of them the number of the type, or the op."""

    codes: array[int]
    references: tuple[int, ...]
    """The sources of all nodes in a row: numbers of nodes from outside, then those of the nodes themselves."""
    kinds: tuple[tuple[int, int], ...]
    bound: tuple[tuple[int, Op, int], ...]
    """The ops with settings, and those of any number of wires, each with that number."""


class CircuitRecording:
    """Columns that grow. A negative source stands for a node that is added later; freezing resolves it."""

    def __init__(self) -> None:
        self.codes = array("H")
        self._sources = array("i")
        self._constants: list[WireValue] = []
        self.type_table = TypeTable()
        self._float = self.type_table.number_of(FLOAT)
        self._types: dict[int, int] = {}
        self._modes: dict[int, int] = {}
        self._arities: dict[int, int] = {}
        """Number of wires of each node of a variadic op."""
        self._settings: dict[int, OpSettings] = {}
        self.certificates: list[Certificate] = []
        self._places: _LabelRuns[Place] = _LabelRuns()
        self._groups: _LabelRuns[str] = _LabelRuns()
        self._expressions: dict[int, str] = {}
        """Source texts by node; one may be a `LazyText` that was not read yet."""
        self._library_groups: list[Deferred[frozenset[str]]] = []
        """The paths of the groups that are calls of composite functions, of each circuit whose nodes were copied."""
        self.names: dict[str, int] = {}
        self._first_name: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        """The first number to try as a suffix of a name that is taken."""

    def __len__(self) -> int:
        return len(self.codes)

    def append(self, code: int, sources: Iterable[int], kind: int, mode: int = DERIVE_MODE) -> int:
        """Add a node at the current place and group; `kind` is the number of its type. Return its index."""
        index = len(self.codes)
        self.codes.append(code)
        self._sources.extend(sources)
        if kind != self._float:
            self._types[index] = kind
        if mode != DERIVE_MODE:
            self._modes[index] = mode
        return index

    def prepare_run(self, rows: Sequence[tuple[Op, Sequence[int], WireType]]) -> NodeRun:
        """Return nodes for `append_run`, from the op, the references and the type of each."""
        kinds = [self.type_table.number_of(kind) for _, _, kind in rows]
        return NodeRun(
            array("H", [TABLE.code_of(op) for op, _, _ in rows]),
            tuple([source for _, sources, _ in rows for source in sources]),
            tuple([(k, kind) for k, kind in enumerate(kinds) if kind != self._float]),
            tuple([(k, op, len(sources)) for k, (op, sources, _) in enumerate(rows) if op.settings or op.variadic]),
        )

    def append_run(self, nodes: NodeRun, places: list[int]) -> None:
        """Add several nodes at once. `places` are the nodes from outside that they refer to; theirs are added to it."""
        codes, references, kinds, bound = nodes
        if not codes:
            return
        first = len(self.codes)
        places += range(first, first + len(codes))
        self.codes.extend(codes)
        self._sources.extend([places[k] for k in references])
        for k, kind in kinds:
            self._types[first + k] = kind
        for k, op, arity in bound:
            self.note_settings(first + k, op, arity)

    def append_op(self, op: Op, sources: Sequence[int], kind: WireType, mode: int = DERIVE_MODE) -> int:
        """Add a node of an op, which may have settings and any number of wires; return its index."""
        index = self.append(
            TABLE.code_of(op), sources, self.type_table.number_of(kind), mode if op.kinks else DERIVE_MODE
        )
        self.note_settings(index, op, len(sources))
        return index

    def note_settings(self, index: int, op: Op, arity: int) -> None:
        """Store what a node has that the table's record does not say: its settings and, if variadic, its arity."""
        if op.settings:
            self._settings[index] = op.settings
        if op.variadic:
            self._arities[index] = arity

    def note_expression(self, index: int, text: str | None) -> None:
        """Store the source text that a node is the result of."""
        if text is not None:
            self._expressions[index] = text

    def append_input(self, name: str, kind: WireType) -> int:
        """Add an input."""
        name = self.check_free(name)
        index = self.append(INPUT_CODE, (), self.type_table.number_of(kind))
        self.add_name(index, name)
        return index

    def append_constant(self, value: WireValue) -> int:
        """Add a constant, which is a NumPy value."""
        kind = self.type_table.number_of(type_of_constant(value))
        self._constants.append(value)
        return self.append(CONSTANT_CODE, (), kind)

    def type_number_of(self, index: int) -> int:
        """Return the number of a node's type."""
        return self._types.get(index, self._float)

    def type_of_node(self, index: int) -> WireType:
        """Return the type of a node."""
        return self.type_table.type_at(self._types.get(index, self._float))

    @property
    def place(self) -> Place | None:
        """The place in the source of the nodes that are added next."""
        place: Place | None = self._places.current
        return place

    @property
    def group(self) -> str:
        """The group of the nodes that are added next."""
        return self._groups.current or ""

    def move_to(self, place: Place | None, group: str) -> None:
        """Set the place and the group of the nodes that are added next."""
        self._places.set_from(len(self), place)
        self._groups.set_from(len(self), group or None)

    def regroup_from(self, index: int, group: str) -> None:
        """Move the nodes from an index on, which were all added in one group, to another group."""
        around = self.group
        self._groups.set_from(index, group or None)
        self._groups.set_from(len(self), around or None)

    def move_to_node(self, circuit: CircuitGraph, node: int) -> None:
        """Set the place and the group of the nodes that are added next to those of a circuit's node."""
        columns = circuit.columns
        if columns.places.index is None and columns.groups.index is None and not (self.place or self.group):
            return
        self.move_to(circuit.columns.places.label_of(node), circuit.columns.groups.label_of(node) or "")

    def copy_node(self, circuit: CircuitGraph, row: Row, sources: Sequence[int]) -> int:
        """Add a copy of a circuit's node with new sources; place, group and mode are copied, names are not."""
        self.move_to_node(circuit, row.node)
        constant = circuit.constant_of(row.node) if row.op is CONSTANT else None
        if constant is not None:
            self._constants.append(constant)
        index = self.append_op(row.op, sources, circuit.type_of(row.node), row.mode)
        self.note_expression(index, circuit.columns.expressions.entry_of(row.node))
        self._copy_library_groups(circuit)
        return index

    def _copy_library_groups(self, circuit: CircuitGraph) -> None:
        known = circuit.columns.library_groups
        if known is not None and known not in self._library_groups:
            self._library_groups.append(known)

    def note_library_groups(self, find: Callable[[], frozenset[str]]) -> None:
        """Note how to find the groups that are calls of library functions; all others are the user's own."""
        self._library_groups.append(Deferred(find))

    def _join_library_groups(self) -> Deferred[frozenset[str]] | None:
        """Return the paths of the groups that are calls of composite functions; None if that is not known."""
        known = tuple(self._library_groups)
        if len(known) < 2:
            return known[0] if known else None
        return Deferred(lambda: frozenset[str]().union(*[paths.read() for paths in known]))

    def load_circuit(self, circuit: CircuitGraph) -> None:
        """Start from all nodes of a circuit, at the same indices; its outputs are not copied."""
        if len(self):
            raise CircuitError("only an empty recording can load a circuit")
        columns = circuit.columns
        self.codes.extend(columns.codes.tolist())
        self._sources.extend(columns.sources.tolist())
        self._constants.extend(columns.constants)
        numbers = np.array([self.type_table.number_of(kind) for kind in columns.type_table])[columns.types]
        unusual = np.flatnonzero(numbers != self._float)
        self._types = dict(zip(unusual.tolist(), numbers[unusual].tolist(), strict=True))
        modes = np.zeros(circuit.size, np.uint8) if columns.modes is None else columns.modes
        # Modes are kept as they were decided, 0 included: deriving them again might give another mode.
        kinked = [code for code in np.bincount(columns.codes).nonzero()[0].tolist() if _may_kink(code)]
        nodes = np.flatnonzero(np.isin(columns.codes, kinked))
        self._modes = dict(zip(nodes.tolist(), modes[nodes].tolist(), strict=True))
        nodes = np.flatnonzero(_variadic_codes()[columns.codes])
        self._arities.update(zip(nodes.tolist(), np.diff(columns.starts)[nodes].tolist(), strict=True))
        if columns.settings.index is not None:
            nodes = np.flatnonzero(columns.settings.index >= 0)
            table = columns.settings.table
            numbers = columns.settings.index[nodes].tolist()
            self._settings.update(zip(nodes.tolist(), [table[k] for k in numbers], strict=True))
        self.certificates = list(columns.certificates)
        self._places.load_labels(columns.places)
        self._groups.load_labels(columns.groups)
        if columns.expressions.index is not None:
            for node in np.flatnonzero(columns.expressions.index >= 0).tolist():
                self._expressions[node] = columns.expressions.table[columns.expressions.index[node]]
        self._copy_library_groups(circuit)
        for node, name in columns.names:
            self.add_name(node, name)

    def add_name(self, index: int, name: str) -> None:
        """Give a node another name; the first name that it was given is the one shown."""
        name = self.check_free(name)
        self.names[name] = index
        self._first_name.setdefault(index, name)

    def add_free_names(self, indices: Sequence[int], names: Sequence[str]) -> None:
        """Give nodes names that are identifiers, each with a number as suffix if it is taken."""
        taken = self.names
        first = self._first_name
        is_usual = "".join(names).isascii() and max(map(len, names), default=0) <= MAX_NAME_LENGTH
        if is_usual and len(set(names)) == len(names) and taken.keys().isdisjoint(names):
            taken.update(zip(names, indices, strict=True))
            # The first name of a node is the one shown.
            added = dict(zip(reversed(indices), reversed(names), strict=True))
            first.update(added | first)
            return
        for index, wanted in zip(indices, names, strict=True):
            if wanted in taken or not wanted.isascii() or len(wanted) > MAX_NAME_LENGTH:
                self.add_name(index, self.free_name(wanted))
            else:
                taken[wanted] = index
                first.setdefault(index, wanted)

    def check_free(self, name: str) -> str:
        """Return the name in its normal form; raise if it is not a valid name or is taken."""
        name = check_name(name)
        if name in self.names:
            raise DuplicateNameError(f"the name {name} is taken already; every node needs its own")
        return name

    def free_name(self, wanted: str) -> str:
        """Return the wanted name, with a number as suffix if it is taken."""
        if wanted not in self.names:
            return wanted
        # All smaller numbers are taken; trying them again would make naming the same variable ever slower.
        number = self._numbers.get(wanted, 1)
        while (name := f"{wanted}_{number}") in self.names:
            number += 1
        self._numbers[wanted] = number
        return name

    def has_name(self, index: int) -> bool:
        """Return whether a node was given a name."""
        return index in self._first_name

    def name_of(self, index: int) -> str:
        """Return the name to show for a node."""
        return self._first_name.get(index, automatic_name(index))

    def forget_name(self, index: int, name: str) -> None:
        """Remove the only name that a node was given."""
        del self.names[name], self._first_name[index]
        wanted, _, number = name.rpartition("_")
        if number.isdecimal() and 0 < int(number) < self._numbers.get(wanted, 0):
            self._numbers[wanted] = int(number)

    def freeze(self, roots: Mapping[str, int], name: str, awaited: Mapping[int, int] | None = None) -> CircuitGraph:
        """Return the circuit so far; `awaited` maps the negative sources to the nodes that they stand for."""
        sources, order = self._resolve_order(awaited or {})
        codes = _permute_column(np.array(self.codes, np.uint16), order)
        starts = self._source_starts(codes, order)
        position = np.arange(len(codes)) if order is None else np.argsort(order)
        constants = self._order_constants(order)
        settings = _sparse_labels(self._settings, len(self), order)
        types = self._dense_column(self._types, self._float, order).astype(np.uint16)
        type_table = tuple(self.type_table.numbers)
        if order is not None:
            # Types of nodes that read later ones were unknown when these nodes were added.
            inputs = {node: type_table[types[node]] for node in np.flatnonzero(codes == INPUT_CODE).tolist()}
            names = [self.name_of(node) for node in order]
            rows = _iterate_rows(codes, starts, sources, settings)
            types, type_table = infer_types(rows, inputs, constants, names.__getitem__)
        modes = self._dense_column(self._modes, DERIVE_MODE, order)
        columns = CircuitColumns(
            name=name,
            codes=codes,
            starts=starts,
            sources=np.array(sources, np.int32),
            types=types,
            type_table=type_table,
            constant_nodes=np.flatnonzero(codes == CONSTANT_CODE).astype(np.int32),
            constants=constants,
            modes=derive_modes(codes, starts, sources, modes),
            names=NameTable((int(position[node]), text) for text, node in self.names.items()),
            places=self._places.to_labels(len(self), order),
            groups=self._groups.to_labels(len(self), order),
            outputs=position[list(roots.values())].astype(np.int32),
            labels=tuple(roots),
            settings=settings,
            certificates=tuple(c._replace(node=int(position[c.node])) for c in self.certificates),
            expressions=_sparse_labels(self._expressions, len(self), order),
            library_groups=self._join_library_groups(),
        )
        return CircuitGraph(columns)

    def _source_starts(self, codes: NDArray[np.uint16], order: list[int] | None) -> NDArray[np.int32]:
        """Return where the sources of each node begin, for the nodes in this order."""
        arities = TABLE.tabulate(count_inputs)[codes]
        if self._arities:
            position = np.arange(len(codes)) if order is None else np.argsort(order)
            arities[position[list(self._arities)]] = list(self._arities.values())
        return np.concatenate([[0], np.cumsum(arities)]).astype(np.int32)

    def _dense_column(self, unusual: Mapping[int, int], usual: int, order: list[int] | None) -> NDArray[np.int32]:
        column = np.full(len(self), usual, np.int32)
        column[list(unusual)] = list(unusual.values())
        return _permute_column(column, order)

    def _resolve_order(self, awaited: Mapping[int, int]) -> tuple[list[int], list[int] | None]:
        """Return the sources, and the topological order of the nodes if some were read before they were added."""
        sources = self._sources.tolist()
        if not awaited:
            return sources, None
        starts = self._source_starts(np.array(self.codes), None).tolist()
        rows = [[awaited.get(source, source) for source in sources[a:b]] for a, b in pairwise(starts)]
        order = sort_topologically(rows, self.name_of)
        position = np.argsort(order).tolist()
        return [position[source] for node in order for source in rows[node]], order

    def _order_constants(self, order: list[int] | None) -> tuple[WireValue, ...]:
        if order is None:
            return tuple(self._constants)
        nodes = [node for node, code in enumerate(self.codes) if code == CONSTANT_CODE]
        values = dict(zip(nodes, self._constants, strict=True))
        return tuple(values[node] for node in order if node in values)


class _LabelRuns(Generic[LabelT]):
    """A growing column of labels, stored as the points where the label changes."""

    def __init__(self) -> None:
        self.current: LabelT | None = None
        self._since = array("i", [0])
        self._labels: list[LabelT | None] = [None]

    def set_from(self, index: int, label: LabelT | None) -> None:
        """Set the label of the nodes from an index on."""
        if label != self.current:
            self.current = label
            self._since.append(index)
            self._labels.append(label)

    def load_labels(self, labels: NodeLabels[LabelT]) -> None:
        """Copy the labels of a circuit."""
        if labels.index is not None:
            for index in np.flatnonzero(np.diff(labels.index, prepend=-1)).tolist():
                self.set_from(index, labels.label_of(index))

    def to_labels(self, size: int, order: list[int] | None) -> NodeLabels[LabelT]:
        """Return one label per node."""
        table: dict[LabelT, int] = {}
        numbers = [-1 if label is None else table.setdefault(label, len(table)) for label in self._labels]
        lengths = np.diff(np.append(np.array(self._since), size))
        return NodeLabels.from_index(tuple(table), _permute_column(np.repeat(numbers, lengths).astype(np.int32), order))


def _may_kink(code: int) -> bool:
    return bool(TABLE.by_code()[code].kinks)


def _variadic_codes() -> NDArray[np.bool_]:
    """Return for each op code whether the op takes any number of wires."""
    return TABLE.tabulate(is_variadic)


def _sparse_labels(label_of_node: Mapping[int, LabelT], size: int, order: list[int] | None) -> NodeLabels[LabelT]:
    """Return the labels of a circuit in which few nodes have one."""
    if not label_of_node:
        return NodeLabels()
    table: dict[LabelT, int] = {}
    index = np.full(size, -1, np.int32)
    for node, label in label_of_node.items():
        index[node] = table.setdefault(label, len(table))
    return NodeLabels.from_index(tuple(table), _permute_column(index, order))


ScalarT = TypeVar("ScalarT", bound=np.generic)


def _permute_column(column: NDArray[ScalarT], order: list[int] | None) -> NDArray[ScalarT]:
    return column if order is None else column[order]


def _iterate_rows(
    codes: NDArray[np.uint16], starts: NDArray[np.int32], sources: list[int], settings: NodeLabels[OpSettings]
) -> Iterator[tuple[Op, list[int]]]:
    ops = TABLE.by_code()
    begin = starts.tolist()
    for i, code in enumerate(codes.tolist()):
        own = settings.label_of(i)
        op = ops[code] if own is None else ops[code].bind(dict(own))
        yield op, sources[begin[i] : begin[i + 1]]
