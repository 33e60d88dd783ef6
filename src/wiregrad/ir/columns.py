"""The immutable arrays of a circuit, with one entry per node, and how the types and kink modes in them are found.

Invariant: the inputs of a node have smaller indices, so index order is an order of execution. Names are stored in a few
flat arrays too: a million named nodes take about 20 bytes each plus the letters, where a dict of strings would take
over a hundred. A node may have several names; the first is the one shown, and the others stay when passes merge nodes.
A node without a name is shown, and looked up, as `%` and its index, which is not a valid name. The views of nodes and
wires that users see are in `wiregrad.ir.circuit`.

Types are always inferred; a type that a file states is only compared. The kink mode of a node is one byte, stored when
the node is recorded: the low two bits are the convention; bit 2 + k says that input k was a literal, which counts as a
constant. Nodes that were given no mode get one here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cache, partial
from itertools import compress
from operator import itemgetter
from typing import Any, Generic, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad import settings
from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import (
    CircuitError,
    DomainError,
    NameSyntaxError,
    OperandError,
    OutputError,
    short_repr,
    suggest_name,
)
from wiregrad.ir.op import CONSTANT, CONSTANT_CODE, INPUT, INPUT_CODE, TABLE, Op, Pattern
from wiregrad.lazy import NamedTuple
from wiregrad.settings import ScopedSetting

MAX_NAME_LENGTH = 200
_AUTOMATIC_NAME = re.compile(r"%[0-9]{1,9}")
_NAME_SEPARATOR = re.compile(r"\.|(?:\[[0-9]+\])+(?:\.|$)")


def normalize_name(name: str) -> str:
    """Normalize a name as Python normalizes identifiers (NFKC): equivalent letters become one.

    >>> normalize_name("\\u00b5") == "\\u03bc"
    True
    """
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def check_name(name: object) -> str:
    """Return the name in its normal form; raise if it is not a valid name.

    >>> check_name("layers[0].w")
    'layers[0].w'
    """
    if not isinstance(name, str):
        raise NameSyntaxError(f"a name must be a string; got {type(name).__name__}")
    if name.isidentifier() and name.isascii() and len(name) <= MAX_NAME_LENGTH:
        return name
    name = normalize_name(name[: 4 * MAX_NAME_LENGTH])
    parts = _NAME_SEPARATOR.split(name)
    if name.endswith("]"):
        parts.pop()
    if len(name) > MAX_NAME_LENGTH or not all(part.isidentifier() for part in parts) or not parts:
        raise NameSyntaxError(
            f"{short_repr(name)} cannot be a name: wanted letters, digits and _ (not first a digit), "
            f"parts joined by '.' or indexed like [0], at most {MAX_NAME_LENGTH} characters"
        )
    return name


def automatic_name(index: int) -> str:
    """Return the automatic name of a node that was given none."""
    return f"%{index}"


def is_group_label(label: object) -> bool:
    """Return whether this is a valid label of a group: printable text without `/`.

    >>> is_group_label("layer 1"), is_group_label("a/b")
    (True, False)
    """
    return isinstance(label, str) and label.isprintable() and "/" not in label and bool(label.strip())


def is_automatic_name(name: str) -> bool:
    """Return whether this is the automatic name of a node that was given none.

    >>> is_automatic_name("%12"), is_automatic_name("x")
    (True, False)
    """
    return _AUTOMATIC_NAME.fullmatch(name) is not None


class NameTable:
    """Pairs of node and name, ordered by node, then in the order in which the names were given.

    The pairs may be given as a function, which is called when the first name is asked for.
    """

    __slots__ = ("_columns", "_find_pairs", "_index")

    def __init__(self, pairs: Iterable[tuple[int, str]] | Callable[[], Iterable[tuple[int, str]]]) -> None:
        self._find_pairs = pairs if callable(pairs) else None
        self._columns = None if callable(pairs) else _pack_names(pairs)
        self._index: tuple[NDArray[np.int64], NDArray[np.intp]] | None = None

    def _read_columns(self) -> PackedNames:
        columns = self._columns
        if columns is None:
            assert self._find_pairs is not None
            columns = self._columns = _pack_names(self._find_pairs())
            self._find_pairs = None
        return columns

    @property
    def nodes(self) -> NDArray[np.int32]:
        """The node of each name."""
        return self._read_columns().nodes

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        nodes, blob, ends = self._read_columns()
        bounds = ends.tolist()
        for k, node in enumerate(nodes.tolist()):
            yield node, blob[bounds[k] : bounds[k + 1]].decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NameTable):
            return NotImplemented
        one = self._read_columns()
        two = other._read_columns()
        return np.array_equal(one.nodes, two.nodes) and np.array_equal(one.ends, two.ends) and one.blob == two.blob

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[NameTable], tuple[list[tuple[int, str]]]]:
        # The index holds hashes of strings, which differ from process to process.
        return NameTable, (list(self),)

    def names_of(self, node: int) -> tuple[str, ...]:
        """Return the names of a node, the one to show first."""
        first, last = np.searchsorted(self.nodes, [node, node + 1])
        return tuple(self._name_at(k) for k in range(first, last))

    def find_node(self, name: str) -> int | None:
        """Return the node with a name, or None."""
        for k in self._entries_with_hash(name):
            if self._name_at(k) == name:
                return int(self.nodes[k])
        return None

    def find_duplicate(self) -> str | None:
        """Return a name that two entries share, if there is one."""
        hashes, order = self._sorted_hashes()
        for k in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
            name = self._name_at(int(order[k]))
            if name == self._name_at(int(order[k + 1])):
                return name
        return None

    def group_by_node(self) -> dict[int, list[str]]:
        """Return the names of every named node, for loops over the whole circuit."""
        names: dict[int, list[str]] = {}
        for node, name in self:
            names.setdefault(node, []).append(name)
        return names

    def select_nodes(self, keep: NDArray[np.bool_], position: NDArray[np.int32]) -> NameTable:
        """Return the names of the nodes that are kept, at their new positions."""
        if self._columns is None:
            return NameTable(lambda: self._list_kept(keep, position))
        return NameTable(self._list_kept(keep, position)) if len(self) else self

    def _list_kept(self, keep: NDArray[np.bool_], position: NDArray[np.int32]) -> Iterator[tuple[int, str]]:
        return ((int(position[node]), name) for node, name in self if keep[node])

    def nbytes(self) -> int:
        """Return the memory that the names take, in bytes."""
        nodes, blob, ends = self._read_columns()
        return nodes.nbytes + ends.nbytes + len(blob)

    def _name_at(self, k: int) -> str:
        _, blob, ends = self._read_columns()
        return blob[ends[k] : ends[k + 1]].decode()

    def _entries_with_hash(self, name: str) -> list[int]:
        hashes, order = self._sorted_hashes()
        first = np.searchsorted(hashes, hash(name))
        last = np.searchsorted(hashes, hash(name), side="right")
        return [int(k) for k in order[first:last]]

    def _sorted_hashes(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        if self._index is None:
            hashes = np.fromiter((hash(name) for _, name in self), np.int64, len(self))
            order = np.argsort(hashes, kind="stable")
            self._index = hashes[order], order
        return self._index


class PackedNames(NamedTuple):
    """Names in flat arrays: `blob[ends[k]:ends[k + 1]]` is the name of `nodes[k]`."""

    nodes: NDArray[np.int32]
    blob: bytes
    ends: NDArray[np.int64]


def _pack_names(pairs: Iterable[tuple[int, str]]) -> PackedNames:
    ordered = sorted(pairs, key=itemgetter(0))
    texts = [name for _, name in ordered]
    blob = "".join(texts).encode()
    lengths = map(len, texts if blob.isascii() else [name.encode() for name in texts])
    nodes = np.array([node for node, _ in ordered], np.int32)
    return PackedNames(nodes, blob, np.cumsum([0, *lengths], dtype=np.int64))


class Place(NamedTuple):
    """A place in the source: file (or `formula`), line and column, counted from 1; column 0 means unknown."""

    file: str
    line: int
    column: int = 0

    def is_valid(self) -> bool:
        """Whether line and column are in the range that the text form can hold."""
        are_integers = type(self.line) is int and type(self.column) is int
        return are_integers and isinstance(self.file, str) and 0 < self.line < 10**9 and 0 <= self.column < 10**9

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")

    def without_folder(self) -> Place:
        """Return the place with the name of the file alone, so that messages do not reveal folders.

        >>> str(Place("somewhere/net/model.py", 12).without_folder()), str(Place("net\\\\m.py", 3).without_folder())
        ('model.py:12', 'm.py:3')
        """
        return self._replace(file=self.file.replace("\\", "/").rpartition("/")[2])


class Certificate(NamedTuple):
    """A value that steered Python while a function was traced: which node, its value then, and where."""

    node: int
    outcome: Any
    place: Place | None


class Row(NamedTuple):
    """One node, as a loop over a circuit sees it."""

    node: int
    op: Op
    sources: list[int]
    mode: int


new_row: Callable[[tuple[int, Op, list[int], int]], Row] = partial(tuple.__new__, Row)
"""Makes a row from a tuple; this takes half as long as calling the class."""
LabelT = TypeVar("LabelT")
FoundT = TypeVar("FoundT")
OpSettings: TypeAlias = tuple[tuple[str, Any], ...]
"""The settings of an op, by name."""


class Deferred(Generic[FoundT]):
    """Something that is found when it is first asked for."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], FoundT] | None, found: FoundT | None = None) -> None:
        self._find = find
        self._found = found

    def read(self) -> FoundT:
        """Return what was to be found."""
        find = self._find
        if find is not None:
            self._found = find()
            self._find = None
        return cast("FoundT", self._found)

    def __reduce__(self) -> tuple[type[Self], tuple[None, FoundT]]:
        return type(self), (None, self.read())


class LazyText(Deferred[str | None]):
    """A text that is read when it is first asked for; None if there turns out to be none."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class NodeLabels(Generic[LabelT]):
    """A label for each node, out of a small table: `index` points into `table`; it is None if no node has a label."""

    table: Sequence[LabelT] = ()
    index: NDArray[np.int32] | None = None

    @classmethod
    def from_index(cls, table: Sequence[LabelT], index: NDArray[np.int32]) -> NodeLabels[LabelT]:
        """Return the labels in their canonical form: without an index if no node has a label."""
        return cls(table, index) if (index >= 0).any() else cls()

    def label_of(self, node: int) -> LabelT | None:
        """Return the label of a node, or None."""
        label: Any = self.entry_of(node)
        if type(label) is LazyText:
            label = label.read()
        return cast("LabelT | None", label)

    def entry_of(self, node: int) -> LabelT | None:
        """Return the label of a node as it is stored: a text may not have been read yet."""
        k = -1 if self.index is None else int(self.index[node])
        return None if k < 0 else self.table[k]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeLabels):
            return NotImplemented
        return self._labels_by_node() == other._labels_by_node()

    __hash__ = None  # type: ignore[assignment]

    def _labels_by_node(self) -> list[LabelT | None]:
        return [] if self.index is None else [self.label_of(node) for node in range(len(self.index))]

    def list_labels(self, size: int) -> list[LabelT | None]:
        """Return the label of every node, for loops over a whole circuit of a size."""
        if self.index is None:
            return [None] * size
        table = [*self.table, None]
        return [table[k] for k in self.index.tolist()]

    def select_nodes(
        self, keep: NDArray[np.bool_ | np.int64], without: NDArray[np.int64] | None = None
    ) -> NodeLabels[LabelT]:
        """Return the labels of the nodes that are kept, given as a mask or by index; those of `without` get none."""
        if self.index is None:
            return self
        index = self.index[keep]
        if without is not None:
            index[without] = -1
        return NodeLabels.from_index(self.table, index)

    def nbytes(self) -> int:
        """Return the memory that the labels take, in bytes, without the table."""
        return 0 if self.index is None else self.index.nbytes


class DeferredLabels(NodeLabels[LabelT]):
    """Labels that are found when the first of them is asked for."""

    __slots__ = ("_labels",)

    _labels: Deferred[NodeLabels[LabelT]]

    def __init__(self, find: Callable[[], NodeLabels[LabelT]]) -> None:
        object.__setattr__(self, "_labels", Deferred(find))

    @property
    def table(self) -> Sequence[LabelT]:
        """The distinct labels."""
        return self._labels.read().table

    @property
    def index(self) -> NDArray[np.int32] | None:
        """The number of the label of each node."""
        return self._labels.read().index

    def entry_of(self, node: int) -> LabelT | None:
        """Return the label of a node as it is stored: a text may not have been read yet."""
        return self._labels.read().entry_of(node)

    def select_nodes(
        self, keep: NDArray[np.bool_ | np.int64], without: NDArray[np.int64] | None = None
    ) -> NodeLabels[LabelT]:
        """Return the labels of the nodes that are kept, given as a mask or by index; those of `without` get none."""
        return DeferredLabels(lambda: self._labels.read().select_nodes(keep, without))

    def __reduce__(self) -> tuple[type[NodeLabels[LabelT]], tuple[Sequence[LabelT], NDArray[np.int32] | None]]:
        return NodeLabels, (self.table, self.index)


@dataclass(frozen=True, eq=False, slots=True)
class CircuitColumns:
    """The arrays of a circuit."""

    name: str
    codes: NDArray[np.uint16]
    starts: NDArray[np.int32]
    sources: NDArray[np.int32]
    types: NDArray[np.uint16]
    type_table: tuple[WireType, ...]
    constant_nodes: NDArray[np.int32]
    constants: tuple[WireValue, ...]
    """Values of the constant nodes, in order."""
    modes: NDArray[np.uint8] | None
    """How each node treats its kinks; None if every node has mode 0."""
    names: NameTable
    places: NodeLabels[Place]
    groups: NodeLabels[str]
    outputs: NDArray[np.int32]
    labels: tuple[str, ...]
    """The names of the outputs."""
    settings: NodeLabels[OpSettings] = field(default_factory=NodeLabels)
    """The settings of the nodes whose ops have any."""
    certificates: tuple[Certificate, ...] = ()
    """The values that steered Python when the circuit was traced."""
    expressions: NodeLabels[str] = field(default_factory=NodeLabels)
    """The source text of the nodes that are the result of an expression in the user's code; neither stored in files nor
    compared."""
    library_groups: Deferred[frozenset[str]] | None = None
    """The paths of the groups that are calls of NumPy's and other composite functions; None if that is not known."""

    def list_used_types(self) -> list[WireType]:
        """Return the types that nodes have, each once."""
        return [self.type_table[k] for k in np.bincount(self.types).nonzero()[0].tolist()]

    def has_arrays(self) -> bool:
        """Return whether a node is an array."""
        return any(kind.shape for kind in self.list_used_types())

    def has_finite_constants(self) -> bool:
        """Return whether no constant is infinite or NaN, as the slopes of some ops are at NaN."""
        return all(np.isfinite(value).all() for value in self.constants)

    def nbytes(self) -> int:
        """Return the memory that the circuit takes, in bytes, without the shared tables."""
        arrays: list[NDArray[Any]] = [
            self.codes,
            self.starts,
            self.sources,
            self.types,
            self.constant_nodes,
            self.outputs,
        ]
        flat = sum(a.nbytes for a in arrays) + (0 if self.modes is None else self.modes.nbytes)
        labels = self.names.nbytes() + self.places.nbytes() + self.groups.nbytes() + self.settings.nbytes()
        labels += self.expressions.nbytes()
        return flat + 40 * len(self.constants) + labels


MAX_ACTIVE_ROUNDS = 16
"""Constants in longer chains than this are followed node by node."""


class IndexedGraph:
    """A circuit seen by index: its columns, and what they say about each node."""

    __slots__ = ("__weakref__", "columns")

    def __init__(self, columns: CircuitColumns) -> None:
        self.columns = columns
        for column in fields(columns):
            array = getattr(columns, column.name)
            if isinstance(array, np.ndarray):
                array.setflags(write=False)

    @property
    def size(self) -> int:
        """Number of all nodes: inputs, constants, splitters and function nodes."""
        return len(self.columns.codes)

    def root(self) -> int:
        """Return the index of the only output's node."""
        if len(self.columns.outputs) != 1:
            raise OutputError(
                f"this circuit has {len(self.columns.labels)} outputs ({join_first_names(self.columns.labels)}); "
                f"choose one with circuit.with_output(name)"
            )
        return int(self.columns.outputs[0])

    def origins(self) -> NDArray[np.intp]:
        """Return for each node the node that computed its value: itself, or for splitters what the first one reads."""
        origins = np.arange(self.size)
        merges = np.array([op.pattern is Pattern.MERGE for op in TABLE.by_code()])[self.columns.codes]
        for node in np.flatnonzero(merges).tolist():
            origins[node] = origins[self.columns.sources[self.columns.starts[node]]]
        return origins

    def misnamed_output(self) -> str | None:
        """Return an output whose label is the name of a node with another value, if there is one."""
        origins = self.origins()
        for label, output in zip(self.columns.labels, self.columns.outputs.tolist(), strict=True):
            owner = self.columns.names.find_node(label)
            if owner is not None and origins[owner] != origins[output]:
                return label
        return None

    def filtered(self, keep: NDArray[np.bool_]) -> Self:
        """Return the circuit of the nodes that are kept; they must read only each other and include the outputs."""
        c = self.columns
        lengths = np.diff(c.starts)
        position = (np.cumsum(keep) - 1).astype(np.int32)
        kept_constants = keep[c.constant_nodes]
        columns = replace(
            c,
            codes=c.codes[keep],
            starts=np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int32),
            sources=position[c.sources[np.repeat(keep, lengths)]],
            types=c.types[keep],
            constant_nodes=position[c.constant_nodes[kept_constants]],
            constants=tuple(compress(c.constants, kept_constants)),
            modes=None if c.modes is None else c.modes[keep],
            names=c.names.select_nodes(keep, position),
            places=c.places.select_nodes(keep),
            groups=c.groups.select_nodes(keep),
            outputs=position[c.outputs],
            settings=c.settings.select_nodes(keep),
            expressions=c.expressions.select_nodes(keep),
            certificates=tuple(k._replace(node=int(position[k.node])) for k in c.certificates if keep[k.node]),
        )
        return type(self)(columns)

    def reordered(self, order: NDArray[np.int64]) -> Self:
        """Return the circuit with its nodes in another order, in which every node must come after those it reads."""
        c = self.columns
        position = np.empty(self.size, np.int32)
        position[order] = np.arange(self.size, dtype=np.int32)
        lengths = np.diff(c.starts)[order]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        wires = np.repeat(c.starts[:-1][order] - starts[:-1], lengths) + np.arange(starts[-1])
        constants = np.argsort(position[c.constant_nodes])
        columns = replace(
            c,
            codes=c.codes[order],
            starts=starts.astype(np.int32),
            sources=position[c.sources[wires]],
            types=c.types[order],
            constant_nodes=position[c.constant_nodes[constants]],
            constants=tuple([c.constants[k] for k in constants.tolist()]),
            modes=None if c.modes is None else c.modes[order],
            names=NameTable((int(position[node]), name) for node, name in c.names),
            places=c.places.select_nodes(order),
            groups=c.groups.select_nodes(order),
            outputs=position[c.outputs],
            settings=c.settings.select_nodes(order),
            expressions=c.expressions.select_nodes(order),
            certificates=tuple(k._replace(node=int(position[k.node])) for k in c.certificates),
        )
        return type(self)(columns)

    def input_indices(self) -> list[int]:
        """Return the indices of the inputs."""
        return [int(k) for k in np.flatnonzero(self.columns.codes == INPUT_CODE)]

    def sources_of(self, node: int) -> list[int]:
        """Return the indices of the nodes that a node reads."""
        first = self.columns.starts[node]
        last = self.columns.starts[node + 1]
        return [int(k) for k in self.columns.sources[first:last]]

    def name_of(self, node: int) -> str:
        """Return the name to show for a node."""
        names = self.columns.names.names_of(node)
        return names[0] if names else automatic_name(node)

    def type_of(self, node: int) -> WireType:
        """Return the type of a node's output wire."""
        return self.columns.type_table[int(self.columns.types[node])]

    def constant_of(self, node: int) -> WireValue | None:
        """Return the value of a constant node, None for any other."""
        if self.columns.codes[node] != CONSTANT_CODE:
            return None
        return self.columns.constants[int(np.searchsorted(self.columns.constant_nodes, node))]

    def rows(self, *, backward: bool = False, span: range | None = None) -> Iterator[Row]:
        """Iterate over the nodes, or those of a span, in order (or in reverse), as plain Python numbers."""
        ops = TABLE.by_code()
        nodes = range(self.size) if span is None else span
        first, end = nodes.start, nodes.stop
        codes = self.columns.codes[first:end].tolist()
        bound = {} if self.columns.settings.index is None else self._ops_with_settings(first, end)
        starts = self.columns.starts[first : end + 1].tolist()
        base = starts[0] if starts else 0
        sources = self.columns.sources[base : starts[-1] if starts else 0].tolist()
        modes = None if self.columns.modes is None else self.columns.modes[first:end].tolist()
        for i in reversed(range(len(codes))) if backward else range(len(codes)):
            op = bound.get(i) or ops[codes[i]]
            own = sources[starts[i] - base : starts[i + 1] - base]
            yield new_row((first + i, op, own, 0 if modes is None else modes[i]))

    def _ops_with_settings(self, first: int, end: int) -> dict[int, Op]:
        """Return the op, bound to its settings, of every node of a span that has settings, counted from its start."""
        index = self.columns.settings.index
        if index is None:
            return {}
        nodes = first + np.flatnonzero(index[first:end] >= 0)
        kinds = self.columns.codes[nodes].astype(np.int64) * len(self.columns.settings.table) + index[nodes]
        _, at, inverse = np.unique(kinds, return_index=True, return_inverse=True)
        ops = [self.op_of(node) for node in nodes[at].tolist()]
        return dict(zip((nodes - first).tolist(), [ops[k] for k in inverse.reshape(-1).tolist()], strict=True))

    def op_of(self, node: int) -> Op:
        """Return the op of a node, with its settings."""
        op = TABLE.by_code()[int(self.columns.codes[node])]
        settings = self.columns.settings.label_of(node)
        return op if settings is None else op.bind(dict(settings))

    def constants(self) -> Mapping[int, WireValue]:
        """Return the value of every constant node."""
        return dict(zip(self.columns.constant_nodes.tolist(), self.columns.constants, strict=True))

    def active(self) -> bytearray:
        """Return 1 for each node through which a gradient can reach an input, 0 for the others."""
        columns = self.columns
        carries = np.array([kind.differentiable for kind in columns.type_table], bool)[columns.types]
        is_input = columns.codes == INPUT_CODE
        active = carries & (is_input | (columns.starts[1:] > columns.starts[:-1]))
        # At first all nodes with sources count as active. Few nodes depend on constants alone, and not in long chains.
        for _ in range(MAX_ACTIVE_ROUNDS):
            counts = np.concatenate([[0], np.cumsum(active[columns.sources])])
            found = carries & (is_input | (counts[columns.starts[1:]] > counts[columns.starts[:-1]]))
            if np.array_equal(found, active):
                return bytearray(active.view(np.uint8))
            active = found
        return self._follow_active(bytearray(is_input & carries), carries.tolist())

    def _follow_active(self, active: bytearray, carries: list[bool]) -> bytearray:
        """Mark the active nodes one by one, after the inputs."""
        starts = self.columns.starts.tolist()
        sources = self.columns.sources.tolist()
        for node in range(self.size):
            if carries[node] and any(active[source] for source in sources[starts[node] : starts[node + 1]]):
                active[node] = 1
        return active

    def readers(self) -> list[list[tuple[int, int]]]:
        """Return for each node its readers as (node, slot), in order."""
        readers: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for node, _, sources, _ in self.rows():
            for slot, source in enumerate(sources):
                readers[source].append((node, slot))
        return readers

    def nbytes(self) -> int:
        """Return the memory that the circuit's arrays take, in bytes."""
        return self.columns.nbytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexedGraph):
            return NotImplemented
        a = self.columns
        b = other.columns
        return (
            a.name == b.name
            and a.labels == b.labels
            and all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("codes", "starts", "sources", "outputs"))
            and [self.type_of(n) for n in self.input_indices()] == [other.type_of(n) for n in other.input_indices()]
            and all(map(_same_bits, a.constants, b.constants))
            and np.array_equal(_dense_modes(a.modes, self.size), _dense_modes(b.modes, self.size))
            and a.names == b.names
            and a.places == b.places
            and a.groups == b.groups
            and a.settings == b.settings
            and [(c.node, c.place) for c in a.certificates] == [(c.node, c.place) for c in b.certificates]
            and all(_same_bits(x.outcome, y.outcome) for x, y in zip(a.certificates, b.certificates, strict=True))
        )

    def __hash__(self) -> int:
        return hash((self.columns.labels, self.columns.codes.tobytes(), self.columns.sources.tobytes()))


def join_first_names(names: Sequence[str], most: int = 5) -> str:
    """Join names for a message: the first few, then the number of the others.

    >>> join_first_names(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def _same_bits(a: ArrayLike, b: ArrayLike) -> bool:
    # Constants are compared, not numbers: NaN equals NaN here, and 0.0 differs from -0.0.
    x = np.asarray(a)
    y = np.asarray(b)
    same_type = x.dtype == y.dtype and x.shape == y.shape
    both_nan = x.dtype.kind == y.dtype.kind == "f" and bool(np.all(np.isnan(x) & np.isnan(y)))
    return same_type and (both_nan or x.tobytes() == y.tobytes())


def _dense_modes(modes: NDArray[np.uint8] | None, size: int) -> NDArray[np.uint8]:
    return np.zeros(size, np.uint8) if modes is None else modes


DERIVE_MODE = -1
"""In a column of modes: the default mode of the node's op."""
UNKNOWN_TYPE = np.iinfo(np.uint16).max
"""In a column of types: not known yet, because the node reads one that is added later."""


class TypeTable:
    """The types that occur in a circuit, by number, and the types that ops infer from them."""

    def __init__(self) -> None:
        self.numbers: dict[WireType, int] = {}
        self._types: list[WireType] = []
        self._known: dict[Any, int] = {}

    def number_of(self, kind: WireType) -> int:
        """Return the number of a type."""
        if len(self.numbers) >= UNKNOWN_TYPE and kind not in self.numbers:
            raise CircuitError(f"a circuit can hold at most {UNKNOWN_TYPE:,} different types")
        number = self.numbers.setdefault(kind, len(self.numbers))
        if number == len(self._types):
            self._types.append(kind)
        return number

    def type_at(self, number: int) -> WireType:
        """Return the type with a number."""
        return self._types[number]

    def infer_number(self, op: Op, kinds: tuple[int, ...]) -> int:
        """Return the number of an op's output type for inputs of these types; `UNKNOWN_TYPE` if one of them is."""
        # The same op with the same settings is the same object.
        number = self._known.get((op, kinds))
        if number is None:
            if UNKNOWN_TYPE in kinds:
                return UNKNOWN_TYPE
            types = tuple([self._types[kind] for kind in kinds])
            number = self._known[op, kinds] = self.number_of(op.infer(types))
        return number

    def have_one_shape(self, kinds: Sequence[int]) -> bool:
        """Return whether types, given by number, have the same shape."""
        shape = self._types[kinds[0]].shape
        return all(self._types[kind].shape == shape for kind in kinds)


def type_of_constant(value: ArrayLike) -> WireType:
    """Return the type of a constant."""
    array = np.asarray(value)
    return WireType(array.dtype, array.shape)


def infer_types(
    rows: Iterable[tuple[Op, Sequence[int]]],
    inputs: Mapping[int, WireType],
    constants: Iterable[Any],
    name_of: Callable[[int], str],
) -> tuple[NDArray[np.uint16], tuple[WireType, ...]]:
    """Return the type of every node as an index into a table of types."""
    table = TypeTable()
    values = iter(constants)
    numbers: list[int] = []
    for node, (op, sources) in enumerate(rows):
        if op is INPUT:
            numbers.append(table.number_of(inputs[node]))
        elif op is CONSTANT:
            numbers.append(table.number_of(type_of_constant(next(values))))
        else:
            try:
                numbers.append(table.infer_number(op, tuple([numbers[source] for source in sources])))
            except DomainError as error:
                raise DomainError(f"{error} (at node {name_of(node)})") from None
    return np.array(numbers, np.uint16), tuple(table.numbers)


def derive_modes(
    codes: NDArray[np.uint16], starts: NDArray[np.int32], sources: Sequence[int], modes: NDArray[np.int32]
) -> NDArray[np.uint8] | None:
    """Replace the modes that are `DERIVE_MODE` by their ops' defaults; return None if every node ends up with mode 0.

    An operand that depends on no input of the circuit counts as a literal. This is decided here, once, so that passes
    which fold or merge nodes later cannot change a gradient.
    """
    derived = np.where(modes == DERIVE_MODE, 0, modes).astype(np.uint8)
    open_nodes = np.flatnonzero((modes == DERIVE_MODE) & find_kinked_codes()[codes]).tolist()
    if open_nodes:
        ops = TABLE.by_code()
        begin = starts.tolist()
        moves = _mark_moving(codes, begin, sources)
        for node in open_nodes:
            derived[node] = ops[codes[node]].default_mode(moves, sources[begin[node] : begin[node + 1]])
    return derived if derived.any() else None


def derive_usual_modes(
    codes: NDArray[np.uint16], starts: NDArray[np.int32], sources: NDArray[np.int32]
) -> NDArray[np.uint8] | None:
    """Return the default modes of all nodes; None if every one is 0."""
    return derive_modes(codes, starts, sources.tolist(), np.full(len(codes), DERIVE_MODE, np.int32))


def _mark_moving(codes: NDArray[np.uint16], starts: list[int], sources: Sequence[int]) -> bytearray:
    """Return 1 for each node that depends on an input, else 0."""
    moves = bytearray((codes == INPUT_CODE).tobytes())
    for node in range(len(codes)):
        for source in sources[starts[node] : starts[node + 1]]:
            if moves[source]:
                moves[node] = 1
                break
    return moves


def find_kinked_codes() -> NDArray[np.bool_]:
    """Return for each op code whether the op has kinks."""
    return TABLE.tabulate(_has_kinks)


def _has_kinks(op: Op) -> bool:
    return bool(op.kinks)


MAX_LITERAL_SLOTS = 6
CONVENTION_VARIABLE = settings.CONVENTION_VARIABLE
"""The environment variable that names the default convention of recordings."""


class Convention(IntEnum):
    """Which slope a node takes on a kink."""

    MIN_NORM = 0
    TORCH = 1
    JAX = 2

    @property
    def label(self) -> str:
        """The name that users write: `min_norm`, `torch` or `jax`."""
        return self.name.lower()


def find_convention(name: object) -> Convention:
    """Return the convention with a name.

    >>> find_convention("torch")
    <Convention.TORCH: 1>
    """
    known = {convention.label: convention for convention in Convention}
    convention = known.get(name) if isinstance(name, str) else None
    if convention is None:
        near = suggest_name(name, known) if isinstance(name, str) else ""
        raise OperandError(f"a kink convention is one of {', '.join(known)}; got {short_repr(name)}{near}")
    return convention


@cache
def default_convention() -> Convention:
    """Return the convention of recordings outside all blocks; the environment is read once, on first use."""
    return find_convention(settings.read_setting(CONVENTION_VARIABLE) or Convention.MIN_NORM.label)


CHOSEN_CONVENTIONS: ScopedSetting[Convention] = ScopedSetting("wiregrad_conventions")
"""The conventions that `with` blocks have chosen."""


def chosen_convention() -> Convention:
    """Return the convention that nodes get when they are recorded here and now."""
    choices = CHOSEN_CONVENTIONS.active_values()
    return choices[-1] if choices else default_convention()


def encode_mode(convention: Convention, literal: Iterable[int]) -> int:
    """Return the mode of a convention and the slots whose operands are literals.

    >>> encode_mode(Convention.MIN_NORM, [1])
    8
    """
    return convention | sum(4 << slot for slot in set(literal))


def decode_mode(mode: int) -> tuple[Convention, tuple[int, ...]]:
    """Return the convention and the literal slots of a mode."""
    return Convention(mode & 3), tuple(slot for slot in range(MAX_LITERAL_SLOTS) if mode & (4 << slot))


def switch_convention(mode: int, convention: Convention) -> int:
    """Return a mode with another convention and the same literal slots.

    >>> switch_convention(encode_mode(Convention.JAX, [1]), Convention.TORCH) == encode_mode(Convention.TORCH, [1])
    True
    """
    return (mode & ~3) | convention


def has_kinks(op: Op) -> bool:
    """Return whether conventions can differ on an op; at a jump of its value they agree."""
    return any(not kink.jump for kink in op.kinks)


def check_mode(mode: object, op: Op) -> None:
    """Raise `OperandError` unless this is a valid mode of a node of the op."""
    if type(mode) is int and mode == DERIVE_MODE:
        return
    if type(mode) is not int or not 0 <= mode < 4 << len(op.inputs) or mode & 3 >= len(Convention):
        raise OperandError(f"a kink mode encodes a convention and literal slots of {op.name}; got {short_repr(mode)}")
    if mode and not op.kinks:
        raise OperandError(f"{op.name} has no kinks, so it has no kink mode")


def write_mode(mode: int, inputs: tuple[str, ...]) -> str:
    """Write a mode as text such as `min_norm:b`: the convention, then the inputs that are literals."""
    convention, literal = decode_mode(mode)
    return convention.label + (":" + ",".join(inputs[slot] for slot in literal) if literal else "")


def parse_mode(text: str, inputs: tuple[str, ...]) -> int | None:
    """Parse what `write_mode` wrote; return None if the text is not a mode."""
    name, _, literal = text.partition(":")
    names = literal.split(",") if literal else []
    if name.upper() not in Convention.__members__ or not set(names) <= set(inputs[:MAX_LITERAL_SLOTS]):
        return None
    return encode_mode(Convention[name.upper()], map(inputs.index, names))
