"""Build circuits by hand, node by node.

In a strict builder each wire has one reader, and fan-out is written with `split`. Otherwise a wire may be read any
number of times and splitters are implied. A call that raises leaves the builder as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.dtypes import BOOL, FLOAT, WireType, WireValue, as_float
from wiregrad.errors import (
    CircuitError,
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
from wiregrad.ir.circuit_recording import CircuitRecording
from wiregrad.ir.columns import Place, automatic_name, check_name, is_group_label, normalize_name
from wiregrad.ir.op import TABLE, Op, OperatorMethods, Pattern
from wiregrad.ir.types_and_kinks import DERIVE_MODE, UNKNOWN_TYPE, check_mode


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
        return self.builder.type_of(self).shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the value on the wire."""
        return self.builder.type_of(self).dtype

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
