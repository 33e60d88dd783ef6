"""Build circuits by hand, node by node.

Front ends, passes and people use the same builder. Not strict, a wire may be read any number of times and splitters are
implied; strict, each wire has one reader and fan-out is written with `split`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import FLOAT, WireType, as_float
from wiregrad.errors import (
    CircuitError,
    DuplicateNameError,
    FanoutError,
    LiteralError,
    OperandError,
    UnknownNameError,
    suggest,
)
from wiregrad.ir.circuit import SPLIT, Circuit, Columns, Labels, Place, Row
from wiregrad.ir.infer import DERIVE, derive_modes, infer_types
from wiregrad.ir.names import NameTable, automatic, check_name
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, TABLE, Op, Pattern
from wiregrad.ir.operators import Operators
from wiregrad.ir.order import topological


class Port(Operators):
    """The output wire of a node that a builder has made; operators and ops applied to it add nodes."""

    __slots__ = ("branch", "builder", "index")

    def __init__(self, builder: Builder, index: int, branch: int = 0) -> None:
        self.builder, self.index, self.branch = builder, index, branch

    def __wiregrad_apply__(self, op: Op, operands: tuple[Any, ...]) -> Port:
        return self.builder.apply(op, *operands)

    def __repr__(self) -> str:
        return f"Port({self.builder.name_of(self.index)})"


_Key = tuple[int | str, int]
"""What a strict builder counts readers of: a node (by name, if it is still to come) and the branch of a splitter."""


class _Interned:
    """A growing column of labels, most of them equal to one before."""

    def __init__(self) -> None:
        self.table: dict[Any, int] = {}
        self.index = array("i")

    def append(self, label: Any) -> None:
        self.index.append(-1 if label is None else self.table.setdefault(label, len(self.table)))

    def labels(self, order: list[int] | None) -> Labels:
        if not self.table:
            return Labels()
        return Labels(tuple(self.table), _permuted(np.array(self.index, np.int32), order))


class Builder:
    """Makes a circuit one node at a time.

    Every op of the table is a method. Operands are ports, finite numbers, or names of nodes, which may come later:
    the nodes are put in order when the circuit is built. With `finite=False` literals may be NaN or inf, as derivative
    rules need them.

    >>> b = Builder(strict=True)
    >>> p, q = b.split(b.input("x"))
    >>> b.build(b.multiply(p, q, name="y"))
    Circuit(1 input, 1 node, 1 splitter, output y)
    """

    def __init__(self, *, strict: bool = False, finite: bool = True) -> None:
        self.strict, self.finite = strict, finite
        self._codes = array("H")
        self._starts = array("i", [0])
        self._sources = array("i")
        self._modes = array("h")
        self._constants: list[Any] = []
        self._input_types: dict[int, WireType] = {}
        self._names: list[tuple[int, str]] = []
        self._taken: dict[str, int] = {}
        self._first_name: dict[int, str] = {}
        self._awaited: dict[str, int] = {}
        self._readers: dict[_Key, str] = {}
        self._places, self._groups = _Interned(), _Interned()
        self._place: Place | None = None
        self._path = ""

    def __len__(self) -> int:
        return len(self._codes)

    def __getattr__(self, name: str) -> Callable[..., Port]:
        if name.startswith("_"):
            raise AttributeError(name)
        op = TABLE[name]

        def apply(*operands: Any, name: str | None = None) -> Port:
            return self.apply(op, *operands, name=name)

        apply.__name__, apply.__doc__ = op.name, op.doc
        return apply

    def input(self, name: str, type: WireType = FLOAT) -> Port:
        """Add an input."""
        port = self._append(INPUT_CODE, (), check_name(name))
        self._input_types[port.index] = type
        return port

    def constant(self, value: Any, name: str | None = None) -> Port:
        """Add a constant."""
        return self.place_constant(self._literal(value), name)

    def place_constant(self, value: Any, name: str | None = None) -> Port:
        """Add a constant that is in the circuit's own form already."""
        port = self._append(CONSTANT_CODE, (), name)
        self._constants.append(value)
        return port

    def split(self, wire: Port | str, ways: int = 2) -> tuple[Port, ...]:
        """Copy a wire to `ways` readers with `ways - 1` splitters; returns one port per reader."""
        if ways < 2:
            raise CircuitError(f"a wire is split 2 ways or more; got {ways}")
        ports: list[Port] = []
        for _ in range(ways - 1):
            wire = self.apply(SPLIT, wire)
            ports.append(wire)
            wire = Port(self, wire.index, 1)
        assert isinstance(wire, Port)
        return (*ports, wire)

    def apply(self, op: Op | str, *operands: Any, name: str | None = None, mode: int = DERIVE) -> Port:
        """Add a node that applies an op to wires, numbers or names."""
        record = TABLE[op] if isinstance(op, str) else op
        if record.pattern is Pattern.SOURCE:
            raise OperandError(f"{record.name} is not applied to wires; use builder.{record.name}(...)")
        completed = record.complete(operands)
        if name is not None:
            self._check_free(check_name(name))
        code = TABLE.code(record)
        wires = [self._checked(operand, record, slot) for slot, operand in enumerate(completed)]
        if self.strict:
            reader = name or f"{automatic(len(self))} ({record.name})"
            keys = [_key(wire) for wire in wires]
            self._claim({slot: key for slot, key in enumerate(keys) if key}, record, reader)
        # Nothing is added before everything is checked: a refused call leaves the builder as it was.
        return self._append(code, [self._index(wire) for wire in wires], name, mode)

    def copy(self, circuit: Circuit, row: Row, sources: Sequence[int]) -> int:
        """Add another circuit's node with new sources; place, group and mode come along, its names do not.

        The builder stays at that place, for nodes that belong to the copied one.
        """
        columns = circuit.columns
        self.follow(circuit, row.node)
        index = self._append(TABLE.code(row.op), sources, None, row.mode).index
        if columns.codes[row.node] == CONSTANT_CODE:
            self._constants.append(circuit.constant_of(row.node))
        elif columns.codes[row.node] == INPUT_CODE:
            self._input_types[index] = circuit.type_of(row.node)
        return index

    def name(self, node: Port | int, name: str) -> None:
        """Give a node one more name; the first one given is the one shown."""
        index = node if isinstance(node, int) else node.index
        self._check_free(check_name(name))
        self._taken[name] = index
        self._names.append((index, name))
        self._first_name.setdefault(index, name)

    def has_name(self, port: Port) -> bool:
        """Return whether a node was given a name."""
        return port.index in self._first_name

    def name_of(self, index: int) -> str:
        """Return the name of a node so far."""
        if index < 0:
            return next(name for name, awaited in self._awaited.items() if awaited == index)
        return self._first_name.get(index, automatic(index))

    def free_name(self, wanted: str) -> str:
        """Return the wanted name, with a number behind it if it is taken."""
        name, k = wanted, 1
        while name in self._taken:
            name, k = f"{wanted}_{k}", k + 1
        return name

    @contextmanager
    def group(self, label: str) -> Iterator[None]:
        """Put the nodes made inside into a group; groups nest."""
        if not label.isprintable() or "/" in label or not label.strip():
            raise CircuitError(f"a group's label must be printable and without '/'; got {label!r}")
        with self.at(self._place, f"{self._path}/{label}" if self._path else label):
            yield

    @contextmanager
    def at(self, place: Place | None, group: str | None = None) -> Iterator[None]:
        """Mark the nodes made inside as written at a place, and in a group by its whole path."""
        before = self._place, self._path
        self.move_to(place, self._path if group is None else group)
        try:
            yield
        finally:
            self.move_to(*before)

    def move_to(self, place: Place | None, group: str) -> None:
        """Mark the nodes made from now on as written at a place and in a group."""
        self._place, self._path = place, group

    def follow(self, circuit: Circuit, node: int) -> None:
        """Mark the nodes made from now on as written where another circuit's node was."""
        self.move_to(circuit.columns.places.at(node), circuit.columns.groups.at(node) or "")

    def build(self, *outputs: Port | str, name: str | None = None, labels: Mapping[str, Port] | None = None) -> Circuit:
        """Return the circuit with these outputs; `labels` gives outputs names of their own.

        An output that has no name is called `f`. The builder can go on: what was built does not change.
        """
        roots = self._roots(outputs, labels or {})
        if self.strict:
            self._check_claims(roots)
        sources, order = self._ordered()
        codes = _permuted(np.array(self._codes, np.uint16), order)
        lengths = _permuted(np.diff(np.array(self._starts, np.int32)), order)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        position = np.arange(len(codes)) if order is None else np.argsort(order)
        constants = self._ordered_constants(order)
        inputs = {int(position[node]): kind for node, kind in self._input_types.items()}
        types, type_table = infer_types(
            _rows(codes, starts, sources),
            inputs,
            constants,
            lambda node: self.name_of(order[node] if order else node),
        )
        modes = _permuted(np.array(self._modes), order).tolist()
        columns = Columns(
            name=check_name(name) if name else next(iter(roots)),
            codes=codes,
            starts=starts,
            sources=np.array(sources, np.int32),
            types=types,
            type_table=type_table,
            constant_nodes=np.flatnonzero(codes == CONSTANT_CODE).astype(np.int32),
            constants=constants,
            modes=derive_modes(_rows(codes, starts, sources), modes),
            names=NameTable((int(position[node]), text) for node, text in self._names),
            places=self._places.labels(order),
            groups=self._groups.labels(order),
            outputs=position[list(roots.values())].astype(np.int32),
            labels=tuple(roots),
        )
        return Circuit(columns)

    def _append(self, code: int, sources: Iterable[int], name: str | None, mode: int = DERIVE) -> Port:
        index = len(self._codes)
        if name is not None:
            self.name(index, name)
        self._codes.append(code)
        self._sources.extend(sources)
        self._starts.append(len(self._sources))
        self._modes.append(mode)
        self._places.append(self._place)
        self._groups.append(self._path or None)
        return Port(self, index)

    def _check_free(self, name: str) -> None:
        if name in self._taken:
            raise DuplicateNameError(f"the name {name} is taken already; every node needs its own")

    def _checked(self, operand: Any, op: Op, slot: int) -> Port | str | np.float64:
        """Return an operand as a port, as the name of a node that is still to come, or as a number."""
        if isinstance(operand, Port):
            if operand.builder is not self:
                raise OperandError(f"input {op.inputs[slot]} of {op.name} is a wire of another builder")
            return operand
        if isinstance(operand, str):
            index = self._taken.get(operand)
            return check_name(operand) if index is None else Port(self, index)
        return self._literal(operand)

    def _literal(self, value: Any) -> np.float64:
        number = as_float(value)
        if number is None:
            raise OperandError(f"wanted a number; got {type(value).__name__} ({_shown(value)})")
        if self.finite and not np.isfinite(number):
            raise LiteralError(f"a literal must be finite; got {_shown(value)}: use an input for NaN and inf")
        return number

    def _index(self, wire: Port | str | np.float64) -> int:
        if isinstance(wire, Port):
            return wire.index
        if isinstance(wire, str):
            return self._awaited.setdefault(wire, -1 - len(self._awaited))
        return self.place_constant(wire).index

    def _claim(self, keys: Mapping[int, _Key], op: Op, reader: str) -> None:
        claimed: dict[_Key, str] = {}
        for slot, key in keys.items():
            text = f"{reader} (input {op.inputs[slot]})"
            first = self._readers.get(key) or claimed.get(key)
            if first:
                raise FanoutError(_fanout(self._shown(key), first, text))
            claimed[key] = text
        self._readers.update(claimed)

    def _shown(self, key: _Key) -> str:
        return key[0] if isinstance(key[0], str) else self.name_of(key[0])

    def _check_claims(self, roots: Mapping[str, int]) -> None:
        for name in self._awaited:
            by_name, by_port = self._readers.get((name, 0)), self._readers.get((self._taken.get(name, -1), 0))
            if by_name and by_port:
                raise FanoutError(_fanout(name, by_name, by_port))
        for label, index in roots.items():
            # A splitter's second branch may leave the circuit as its output.
            taken = [self._readers[key] for key in ((index, 0), (index, 1)) if key in self._readers]
            if len(taken) > (self._codes[index] == TABLE.code(TABLE[SPLIT])):
                raise FanoutError(_fanout(self.name_of(index), taken[0], f"the output {label}"))

    def _roots(self, outputs: Sequence[Port | str], labels: Mapping[str, Port]) -> dict[str, int]:
        roots: dict[str, int] = {}
        for output in outputs:
            index = self._output_index(output)
            if index not in self._first_name:
                self.name(index, self.free_name("f"))
            self._add_root(roots, self.name_of(index), index)
        for label, port in labels.items():
            self._add_root(roots, check_name(label), self._output_index(port))
        if not roots:
            raise CircuitError("a circuit needs an output: pass a port to build(...)")
        return roots

    def _add_root(self, roots: dict[str, int], label: str, index: int) -> None:
        if label in roots:
            raise DuplicateNameError(f"two outputs would be called {label}")
        if self._taken.get(label, index) not in self._origins(index):
            raise DuplicateNameError(f"the output {label} has the name of another node")
        roots[label] = index

    def _origins(self, index: int) -> Iterator[int]:
        """Walk from a node back through splitters: what leaves them is what entered."""
        yield index
        while self._codes[index] == TABLE.code(TABLE[SPLIT]):
            index = self._sources[self._starts[index]]
            yield index

    def _output_index(self, output: Port | str) -> int:
        if isinstance(output, str):
            if output not in self._taken:
                raise UnknownNameError(f"no node is called {output!r}{suggest(output, self._taken)}")
            return self._taken[output]
        if not isinstance(output, Port):
            raise OperandError(f"an output must be a port or a name; got {type(output).__name__}")
        if output.builder is not self:
            raise OperandError("an output must be a wire of this builder; got one of another")
        return output.index

    def _ordered(self) -> tuple[list[int], list[int] | None]:
        """Return the sources, and the order to put the nodes in if names were used before their nodes came."""
        sources = self._sources.tolist()
        if not self._awaited:
            return sources, None
        for name in self._awaited:
            if name not in self._taken:
                raise UnknownNameError(f"no node is called {name!r}{suggest(name, self._taken)}")
        where = {awaited: self._taken[name] for name, awaited in self._awaited.items()}
        starts = self._starts.tolist()
        rows = [[where.get(s, s) for s in sources[a:b]] for a, b in pairwise(starts)]
        order = topological(rows, self.name_of)
        position = np.argsort(order).tolist()
        return [position[source] for node in order for source in rows[node]], order

    def _ordered_constants(self, order: list[int] | None) -> tuple[Any, ...]:
        if order is None:
            return tuple(self._constants)
        nodes = [node for node, code in enumerate(self._codes) if code == CONSTANT_CODE]
        values = dict(zip(nodes, self._constants, strict=True))
        return tuple(values[node] for node in order if node in values)


ScalarT = TypeVar("ScalarT", bound=np.generic)


def _permuted(column: NDArray[ScalarT], order: list[int] | None) -> NDArray[ScalarT]:
    return column if order is None else column[order]


def _rows(codes: NDArray[np.uint16], starts: NDArray[np.int32], sources: list[int]) -> Iterator[tuple[Op, list[int]]]:
    ops, begin = TABLE.by_code(), starts.tolist()
    for i, code in enumerate(codes.tolist()):
        yield ops[code], sources[begin[i] : begin[i + 1]]


def _key(wire: Port | str | np.float64) -> _Key | None:
    if isinstance(wire, Port):
        return wire.index, wire.branch
    return (wire, 0) if isinstance(wire, str) else None


def _fanout(wire: str, first: str, second: str) -> str:
    return (
        f"the wire {wire} is read twice without a splitter: by {first} and by {second}; "
        f"split it first: p, q = builder.split({wire}), then give p to one and q to the other"
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
