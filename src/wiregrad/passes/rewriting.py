"""Passes that walk a circuit and build another one: smaller, with splitters, with other slopes on kinks, or of scalars.

Names, places, groups and kink modes are copied. A node that is replaced passes its names on, so every name that the
user gave still refers to a node.

`simplify` and its parts make a circuit smaller without changing any value by a single bit. Two nodes count as equal
only if their kink modes are equal, which were fixed when the nodes were recorded. So gradients keep their meaning too;
their last bits may change where merging or an identity changes the order of a sum.

`expand` replaces arrays by their elements: every number is a wire of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import BOOL, FLOAT, WireType, WireValue, to_python_number
from wiregrad.errors import CircuitError, NoRuleError, OperandError, WiregradError, short_repr
from wiregrad.ir import (
    CONSTANT,
    INPUT,
    SPLIT_NAME,
    TABLE,
    Certificate,
    CircuitGraph,
    CircuitRecording,
    GraphBuilder,
    Node,
    Op,
    Pattern,
    Port,
    Row,
    certificates,
)
from wiregrad.ir.circuit import MAX_NODES
from wiregrad.ir.columns import (
    DERIVE_MODE,
    CircuitColumns,
    Convention,
    NameTable,
    NodeLabels,
    TypeTable,
    derive_modes,
    find_convention,
    has_kinks,
    switch_convention,
    type_of_constant,
)
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE
from wiregrad.lazy import NamedTuple
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp

RewriteRule = Callable[[int, list[int]], int | None]
"""Takes a node and its sources in the new circuit; returns the new node to use instead, or None to copy the node."""


class ConstantRule(NamedTuple):
    """A rule that applies only to nodes that read a constant of the new circuit."""

    apply: RewriteRule


RuleChoice = Callable[[Op, int], RewriteRule | ConstantRule | None]
"""Takes an op and a mode; returns the rule for the nodes that have them, or None if it never applies."""


class Rewriter:
    """Builds a new circuit from an old one, with nodes of its own; `where` maps old nodes to new ones."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.recording = CircuitRecording()
        self.where: list[int] = [-1] * circuit.size
        self._names = circuit.columns.names.group_by_node()

    def copy_node(self, row: Row, sources: Sequence[int]) -> int:
        """Copy a node with new sources; returns its new index."""
        new = self.recording.copy_node(self.circuit, row, sources)
        self.map_node(row, new)
        return new

    def map_node(self, row: Row, new: int) -> None:
        """Map an old node to a new one, which also gets its names."""
        self.where[row.node] = new
        for name in self._names.get(row.node, ()):
            self.recording.add_name(new, name)

    def build_circuit(self, outputs: Mapping[str, int] | None = None) -> CircuitGraph:
        """Return the new circuit; by default its outputs are those of the old one."""
        if outputs is None:
            old = self.circuit.columns.outputs.tolist()
            outputs = {label: self.where[node] for label, node in zip(self.circuit.outputs, old, strict=True)}
        self.recording.certificates = [c._replace(node=self.where[c.node]) for c in self.circuit.certificates]
        return self.recording.freeze(outputs, self.circuit.name)


class NodeReplacer:
    """Replaces nodes of a circuit by other nodes of it, or by constants; `where` maps old nodes to new ones.

    The new circuit consists of nodes of the old one, so its columns are taken from there at the end, all at once.
    """

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.where: list[int] = []
        self.origins: list[int] = []
        """What each new node was in the old circuit."""
        self.sources: list[list[int]] = []
        """The sources of each new node, in the new circuit."""
        self.values: dict[int, WireValue] = {}
        """Values of the new circuit's constants."""
        self.types: list[int] = circuit.columns.types.tolist()
        """The number of the type of each old node."""
        self.ops: list[tuple[Op, int]]
        """The distinct ops, each with a mode."""
        self.op_numbers: list[int]
        """For each old node the number of its op and mode."""
        self.ops, self.op_numbers = _number_ops(circuit)
        self._by_bits: dict[ConstantKey, int] = {}
        self._constants = circuit.constants()

    def copy_constant(self, node: int, sources: list[int]) -> int:
        """Copy a constant unless there is one with the same value, which is returned then."""
        value = self._constants[node]
        constant = self._by_bits.setdefault(_constant_key(value), len(self.origins))
        if constant == len(self.origins):
            self._append_constant(node, value)
        return constant

    def copy_every_constant(self, node: int, sources: list[int]) -> int:
        """Copy a constant, whether or not there is another one with the same value."""
        value = self._constants[node]
        self._by_bits.setdefault(_constant_key(value), len(self.origins))
        return self._append_constant(node, value)

    def place_constant(self, node: int, value: WireValue) -> int:
        """Return a constant with the value that replaces a node; it is added if there is none yet."""
        constant = self._by_bits.setdefault(_constant_key(value), len(self.origins))
        return constant if constant < len(self.origins) else self._append_constant(node, value)

    def _append_constant(self, node: int, value: WireValue) -> int:
        index = len(self.origins)
        self.values[index] = value
        self.origins.append(node)
        self.sources.append([])
        return index

    def replace_all(self, choices: Sequence[RuleChoice]) -> None:
        """Replace each node by the first rule that has a replacement, or copy it if none has."""
        chosen = [[choose(op, mode) for choose in choices] for op, mode in self.ops]
        for (op, _), own in zip(self.ops, chosen, strict=True):
            if op is CONSTANT:
                own.append(self.copy_every_constant)
        # Most nodes read no constant, so fewer rules are asked.
        usual = [[rule for rule in own if rule is not None and not isinstance(rule, ConstantRule)] for own in chosen]
        others = [[rule.apply if isinstance(rule, ConstantRule) else rule for rule in own if rule] for own in chosen]
        starts = self.circuit.columns.starts.tolist()
        olds = self.circuit.columns.sources.tolist()
        where, origins, all_sources = self.where, self.origins, self.sources
        reads_no_constant = self.values.keys().isdisjoint
        begin = 0
        for node, number in enumerate(self.op_numbers):
            end = starts[node + 1]
            sources = [where[source] for source in olds[begin:end]]
            begin = end
            for rule in (usual if reads_no_constant(sources) else others)[number]:
                replacement = rule(node, sources)
                if replacement is not None:
                    where.append(replacement)
                    break
            else:
                where.append(len(origins))
                origins.append(node)
                all_sources.append(sources)

    def build_circuit(self) -> CircuitGraph:
        """Return the new circuit, with the outputs of the old one."""
        old = self.circuit.columns
        origins = np.array(self.origins, np.int64)
        codes = old.codes[origins]
        folded = np.array([node for node in self.values if codes[node] != CONSTANT_CODE], np.int64)
        codes[folded] = CONSTANT_CODE
        modes = None if old.modes is None else old.modes[origins]
        if modes is not None:
            modes[folded] = 0
        where = np.array(self.where, np.int32)
        return CircuitGraph(
            replace(
                old,
                codes=codes,
                starts=np.cumsum([0, *map(len, self.sources)], dtype=np.int32),
                sources=np.fromiter(chain.from_iterable(self.sources), np.int32),
                types=old.types[origins],
                constant_nodes=np.flatnonzero(codes == CONSTANT_CODE).astype(np.int32),
                constants=tuple(self.values.values()),
                modes=modes if modes is not None and modes.any() else None,
                names=NameTable((int(where[node]), name) for node, name in old.names),
                places=old.places.select_nodes(origins),
                groups=old.groups.select_nodes(origins),
                outputs=where[old.outputs],
                settings=old.settings.select_nodes(origins, without=folded),
                expressions=old.expressions.select_nodes(origins, without=folded),
                certificates=tuple(c._replace(node=int(where[c.node])) for c in old.certificates),
            )
        )


def rewrite_circuit(circuit: CircuitGraph, *rules: Callable[[NodeReplacer], RuleChoice]) -> CircuitGraph:
    """Return the circuit with each node replaced by the first rule that has a replacement, or copied if none has."""
    new = NodeReplacer(circuit)
    new.replace_all([make(new) for make in rules])
    return new.build_circuit()


def _number_ops(circuit: CircuitGraph) -> tuple[list[tuple[Op, int]], list[int]]:
    """Return the distinct ops of a circuit, each with a mode, and the number of that of each node."""
    columns = circuit.columns
    keys = columns.codes.astype(np.int64)
    for column in (columns.settings.index, columns.modes):
        if column is not None:
            keys = _join_keys(keys, column)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    modes = [0] * len(first) if columns.modes is None else columns.modes[first].tolist()
    ops = [circuit.op_of(node) for node in first.tolist()]
    return list(zip(ops, modes, strict=True)), inverse.reshape(-1).tolist()


ConstantKey: TypeAlias = tuple[str, tuple[int, ...], bytes]
"""The dtype, the shape and the bytes of a constant."""


def _constant_key(value: WireValue) -> ConstantKey:
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


def insert_splitters(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit with k - 1 two-way splitters behind each wire that k readers (outputs included) share.

    The splitters form a chain: the first branch of each goes to the earliest remaining reader. So gradients are added
    in the order in which the sweep adds those of an implied fan-out, and both give the same bits.

    >>> from wiregrad.ir import parse_text
    >>> insert_splitters(parse_text("input x\\ny = multiply x x\\nz = add y x\\noutput z"))
    Circuit(1 input, 2 nodes, 2 splitters, output z)
    """
    new = Rewriter(circuit)
    counts = _count_readers(circuit)
    taps: list[list[int]] = [[] for _ in range(circuit.size)]
    for row in circuit.rows():
        node = new.copy_node(row, [taps[source].pop() for source in row.sources])
        # An explicit splitter brings two branches of its own.
        chain = [node] * min(counts[row.node], 2 if row.op.pattern is Pattern.MERGE else 1)
        while len(chain) < counts[row.node]:
            wire = chain.pop()
            copy = new.recording.append(TABLE.code_of(TABLE[SPLIT_NAME]), [wire], new.recording.type_number_of(wire))
            chain += [copy, copy]
        taps[row.node] = chain[::-1]
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return new.build_circuit({label: taps[node].pop() for label, node in outputs})


def _count_readers(circuit: CircuitGraph) -> list[int]:
    counts = [0] * circuit.size
    for source in (*circuit.columns.sources.tolist(), *circuit.columns.outputs.tolist()):
        counts[source] += 1
    return counts


CircuitT = TypeVar("CircuitT", bound=CircuitGraph)


def with_convention(circuit: CircuitT, convention: str, nodes: Iterable[str] | None = None) -> CircuitT:
    """Return the circuit with another kink convention on the named nodes, or on all nodes with kinks.

    It does not change which operands count as literals.

    >>> import wiregrad as wg
    >>> with_convention(wg.circuit("abs(x)"), "jax").run(x=0).grads
    {'x': 1.0}
    """
    chosen = find_convention(convention)
    return set_convention_at(
        circuit, chosen, _find_kinked_nodes(circuit) if nodes is None else _find_named_nodes(circuit, nodes)
    )


def set_convention_at(circuit: CircuitT, chosen: Convention, indices: Iterable[int]) -> CircuitT:
    """Return the circuit with another convention on the nodes with the given indices; all must have kinks."""
    modes = np.zeros(circuit.size, np.uint8) if circuit.columns.modes is None else circuit.columns.modes.copy()
    for node in indices:
        modes[node] = switch_convention(int(modes[node]), chosen)
    return type(circuit)(replace(circuit.columns, modes=modes if modes.any() else None))


def _find_kinked_nodes(circuit: CircuitGraph) -> list[int]:
    kinked = np.array([has_kinks(op) for op in TABLE.by_code()])
    return [int(node) for node in np.flatnonzero(kinked[circuit.columns.codes])]


def _find_named_nodes(circuit: CircuitGraph, nodes: Iterable[str]) -> list[int]:
    if isinstance(nodes, str):
        return [_find_kinked_node(circuit, nodes)]
    if not isinstance(nodes, Iterable):
        raise OperandError(f"nodes are given by name, as in with_convention('jax', ['t1']); got {short_repr(nodes)}")
    return [_find_kinked_node(circuit, name) for name in nodes]


def _find_kinked_node(circuit: CircuitGraph, name: str) -> int:
    node = circuit.index(name)
    op = circuit.op_of(node)
    if getattr(op, "gap", None) is not None:
        raise OperandError(f"{Node(circuit, node)} has no conventions: tied elements share the gradient in all of them")
    if not has_kinks(op):
        raise OperandError(f"{Node(circuit, node)} has no kinks, so every convention gives it the same slopes")
    return node


def prune(circuit: CircuitGraph) -> CircuitGraph:
    """Drop the nodes that no output depends on; inputs stay.

    >>> from wiregrad.ir import parse_text
    >>> len(prune(parse_text("input x\\ny = exp x\\nz = sin x\\noutput z")))
    1
    """
    columns = circuit.columns
    is_root = np.zeros(circuit.size, bool)
    certified = [certificate.node for certificate in circuit.certificates]
    is_root[[*columns.outputs.tolist(), *circuit.input_indices(), *certified]] = True
    live = np.ones(circuit.size, bool)
    lengths = np.diff(columns.starts)
    # At first all nodes count as live. What nothing reads is mostly a few nodes, not a long chain.
    for _ in range(MAX_PRUNE_ROUNDS):
        read = columns.sources[np.repeat(live, lengths)]
        found = is_root | (np.bincount(read, minlength=circuit.size) > 0)
        if np.array_equal(found, live):
            return circuit if live.all() else circuit.filtered(live)
        live = found
    return circuit.filtered(_follow_sources(circuit, is_root))


MAX_PRUNE_ROUNDS = 4
"""Longer chains of nodes that nothing reads are followed node by node."""


def _follow_sources(circuit: CircuitGraph, is_root: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which nodes are needed for some of them, found node by node."""
    live = bytearray(is_root)
    starts = circuit.columns.starts.tolist()
    sources = circuit.columns.sources.tolist()
    for node in reversed(range(circuit.size)):
        if live[node]:
            for source in sources[starts[node] : starts[node + 1]]:
                live[source] = 1
    return np.frombuffer(live, np.bool_)


def fold_constants(circuit: CircuitGraph) -> CircuitGraph:
    """Replace the nodes that read only constants by their values."""
    return rewrite_circuit(circuit, _folding_rule)


def merge_duplicates(circuit: CircuitGraph) -> CircuitGraph:
    """Merge nodes that compute the same thing (common subexpressions)."""
    return rewrite_circuit(circuit, _merging_rule)


MIN_SHARED_READERS = 8
"""Constant arrays with fewer readers than this are the data of a few rounds of a loop."""
MAX_SHARED_DISTANCE = 2000
"""So are those that fewer nodes read than one in this many: what every round reads is read more often."""
MIN_DATA_VALUES = 4
"""Frequent constant arrays are data too if ops of one kind read so many different ones, some more often than others."""


def merge_repeated(circuit: CircuitGraph) -> CircuitGraph:
    """Merge nodes that compute the same thing, except for those on constant arrays that are the data of loops.

    Rounds of an unrolled loop over data stay alike if some of the data are equal.

    >>> from wiregrad.ir import parse_text
    >>> len(merge_repeated(parse_text("input x\\ny = exp x\\nz = exp x\\nw = add y z\\noutput w")))
    2
    """
    return rewrite_circuit(circuit, _repetition_rule)


def apply_identities(circuit: CircuitGraph) -> CircuitGraph:
    """Apply the identities that hold bit for bit, such as x * 1 = x, and drop splitters."""
    return rewrite_circuit(circuit, _identity_rule)


def drop_gradient_stops(circuit: CircuitGraph) -> CircuitGraph:
    """Drop the nodes that only stop gradients, for a circuit of which only the values are needed."""
    stop = TABLE["stop_gradient"]
    if not (circuit.columns.codes == TABLE.code_of(stop)).any():
        return circuit

    def make_rule(new: NodeReplacer) -> RuleChoice:
        return lambda op, mode: (lambda node, sources: sources[0]) if op is stop else None

    return rewrite_circuit(circuit, make_rule)


def simplify(circuit: CircuitGraph) -> CircuitGraph:
    """Reduce, fold, merge and prune; splitters become implied again.

    >>> from wiregrad.ir import parse_text
    >>> simplify(parse_text("input x\\none = constant 1.0\\ny = multiply x one\\nz = exp y\\noutput z"))
    Circuit(1 input, 1 node, 0 splitters, output z)
    """
    return prune(rewrite_circuit(circuit, _identity_rule, _folding_rule, _merging_rule))


def simplify_finite(circuit: CircuitGraph) -> CircuitGraph:
    """Simplify a circuit whose numbers are all finite: x * 0 is 0, and x + 0 is x; the sign of a zero may change.

    >>> from wiregrad.ir import parse_text
    >>> text = "input x\\nzero = constant 0.0\\np = multiply x zero\\ny = add p x\\noutput y"
    >>> simplify_finite(parse_text(text))
    Circuit(1 input, 0 nodes, 0 splitters, output y)
    """
    return prune(rewrite_circuit(circuit, _zero_rule, _identity_rule, _folding_rule, _merging_rule))


def _zero_rule(new: NodeReplacer) -> RuleChoice:
    """Replace a product with 0 by the 0, and an op to which a zero of any sign is neutral by its other operand."""
    values = new.values
    types = new.types
    origins = new.origins
    product = TABLE["multiply"]

    def choose(op: Op, mode: int) -> ConstantRule | None:
        is_product = op is product
        if not isinstance(op, Elementwise) or len(op.inputs) != 2 or not (is_product or 0.0 in op.neutral):
            return None
        slots = [slot for slot in range(2) if is_product or op.neutral[slot] == 0.0]

        def reduce_node(node: int, sources: list[int]) -> int | None:
            for slot in slots:
                kept = sources[slot if is_product else 1 - slot]
                is_zero = sources[slot] in values and _is_zero(values[sources[slot]])
                if is_zero and types[origins[kept]] == types[node]:
                    return kept
            return None

        return ConstantRule(reduce_node)

    return choose


def _is_zero(value: WireValue) -> bool:
    return not np.ndim(value) and np.asarray(value).dtype.kind == "f" and bool(value == 0.0)


def _folding_rule(new: NodeReplacer) -> RuleChoice:
    values = new.values

    def choose(op: Op, mode: int) -> ConstantRule | None:
        if op is CONSTANT or op is INPUT:
            return None

        def fold_node(node: int, sources: list[int]) -> int | None:
            if sources[0] not in values or not values.keys() >= set(sources):
                return None
            with np.errstate(all="ignore"):
                return new.place_constant(node, op.compute(*[values[source] for source in sources]))

        return ConstantRule(fold_node)

    return choose


def _merging_rule(new: NodeReplacer) -> RuleChoice:
    origins = new.origins
    tables: dict[tuple[Op, int], dict[tuple[int, ...], int]] = {}

    def choose(op: Op, mode: int) -> RewriteRule | None:
        if op is CONSTANT:
            return new.copy_constant
        if op is INPUT or op.pattern is Pattern.MERGE:
            return None
        seen = tables.setdefault((op, mode), {})

        def merge_node(node: int, sources: list[int]) -> int | None:
            # This rule comes last, so a node that it has not seen is copied next and gets the index len(origins).
            index = len(origins)
            known = seen.setdefault(tuple(sources), index)
            return known if known < index else None

        return merge_node

    return choose


def _repetition_rule(new: NodeReplacer) -> RuleChoice:
    single = _find_loop_data(new.circuit)
    choose_merging = _merging_rule(new)
    data: set[int] = set()
    """The new nodes of constant arrays that are the data of rounds."""

    def choose(op: Op, mode: int) -> RewriteRule | None:
        merge = choose_merging(op, mode)
        if merge is None or isinstance(merge, ConstantRule):
            return None
        if op is CONSTANT:

            def copy_constant(node: int, sources: list[int]) -> int | None:
                index = merge(node, sources)
                if index is not None and single and _constant_key(new.values[index]) in single:
                    data.add(index)
                return index

            return copy_constant
        return lambda node, sources: merge(node, sources) if data.isdisjoint(sources) else None

    return choose


def _find_loop_data(circuit: CircuitGraph) -> set[ConstantKey]:
    """Return the constant arrays that rounds of an unrolled loop read as their data: each round may read another one.

    What all rounds read is read equally often, or a multiple of that. A row of data is read as often as it occurs.
    """
    columns = circuit.columns
    readers = np.repeat(np.arange(circuit.size), np.diff(columns.starts))
    slots = np.arange(len(readers)) - columns.starts[readers]
    numbers: dict[ConstantKey, int] = {}
    key_of = np.full(circuit.size, -1)
    for node, value in circuit.constants().items():
        if np.ndim(value):
            key_of[node] = numbers.setdefault(_constant_key(value), len(numbers))
    wires = np.flatnonzero(key_of[columns.sources] >= 0)
    read = key_of[columns.sources[wires]]
    totals = np.bincount(read, minlength=len(numbers))
    least = max(MIN_SHARED_READERS, circuit.size // MAX_SHARED_DISTANCE)
    is_data = totals < least
    roles = np.stack([columns.types[columns.sources[wires]], columns.codes[readers[wires]], slots[wires]])
    _, role_of = np.unique(roles, axis=1, return_inverse=True)
    for role in range(int(role_of.max(initial=-1)) + 1):
        counts = np.bincount(read[role_of.reshape(-1) == role], minlength=len(numbers))
        frequent = np.flatnonzero(counts >= least)
        if len(frequent) >= MIN_DATA_VALUES and not _are_multiples(counts[frequent]):
            is_data[frequent] = True
    return {key for key, number in numbers.items() if is_data[number]}


def _are_multiples(counts: NDArray[np.int64]) -> bool:
    """Return whether numbers of readers are multiples of the smallest one, but for a few readers outside of rounds."""
    smallest = counts.min()
    rests = counts % smallest
    few = min(MIN_SHARED_READERS, smallest // MIN_SHARED_READERS)
    return bool((np.minimum(rests, smallest - rests) <= few).all())


def _identity_rule(new: NodeReplacer) -> RuleChoice:
    types = new.types
    origins = new.origins

    def choose(op: Op, mode: int) -> RewriteRule | ConstantRule | None:
        find = _choose_identity(op, mode, new) if isinstance(op, Elementwise) else None
        if find is None or not isinstance(op, Elementwise):
            return None

        def reduce_node(node: int, sources: list[int]) -> int | None:
            found = find(sources)
            # x * 1.0 is not an identity if x is a bool: the product is a float.
            return found if found is not None and types[origins[found]] == types[node] else None

        needs_constant = len(op.inputs) > 1 and not op.copies and not op.idempotent
        return ConstantRule(reduce_node) if needs_constant else reduce_node

    return choose


IdentitySearch = Callable[[list[int]], int | None]
"""Finds a node with the same value, bit for bit, and the same gradient as an op's result at some sources."""


def _choose_identity(op: Elementwise, mode: int, new: NodeReplacer) -> IdentitySearch | None:
    """Return the search for identities of an op; None if it has none."""
    if op.copies:
        return lambda sources: sources[0]
    if len(op.inputs) == 1:
        return partial(_drop_repeated_op, op, mode, new) if op.involution or op.idempotent else None
    if op.idempotent or op.selects or any(neutral is not None for neutral in op.neutral):
        return partial(_find_identity, op, new.values)
    return None


def _find_identity(op: Elementwise, values: Mapping[int, WireValue], sources: list[int]) -> int | None:
    """Return a node with the same value, bit for bit, and the same gradient as an op's result, if there is one."""
    if op.idempotent and len(set(sources)) == 1:
        return sources[0]
    if values.keys().isdisjoint(sources):
        return None
    if op.selects and sources[0] in values:
        condition = np.asarray(values[sources[0]])
        uniform = condition.size and condition.all() == condition.any()
        return sources[1 if condition.all() else 2] if uniform else None
    return _drop_neutral_operand(op, sources, values)


def _drop_repeated_op(op: Elementwise, mode: int, new: NodeReplacer, sources: list[int]) -> int | None:
    source = sources[0]
    inner = new.ops[new.op_numbers[new.origins[source]]]
    if source in new.values or inner[0] is not op or inner[1] != mode:
        return None
    return new.sources[source][0] if op.involution else source


def _drop_neutral_operand(op: Elementwise, sources: list[int], values: Mapping[int, WireValue]) -> int | None:
    for slot, neutral in enumerate(op.neutral):
        if neutral is not None and sources[slot] in values and _equals_number(values[sources[slot]], neutral):
            return sources[1 - slot]
    return None


def _equals_number(value: WireValue, wanted: float) -> bool:
    """Return whether a constant is one real number that equals the wanted one, the sign of zero included."""
    # A complex number that equals a real one has no imaginary part.
    is_equal = not getattr(value, "ndim", 0) and value == wanted
    return is_equal and math.copysign(1.0, value.real) == math.copysign(1.0, wanted)


PortArray: TypeAlias = NDArray[np.object_]
"""The elements of a node: ports, or a plain 0 where nothing was added into an element."""

MAX_EXPANDED_NODES = MAX_NODES
"""Maximum number of nodes of an expanded circuit: as many as a circuit in a file may have."""


def expand(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit with one node per number; element (i, j) of x is named `x_i_j`.

    It raises if an op cannot be written element by element (decompositions), or if the result would have more nodes
    than a circuit may have.

    >>> from wiregrad.ir import parse_text
    >>> small = parse_text("input x: float64[2]\\ny = sum x axes=[-1] keepdims=false\\noutput y")
    >>> print(expand(small).inputs, len(expand(small)))
    ('x_0', 'x_1') 1
    """
    builder = GraphBuilder(finite=False)
    names = circuit.columns.names.group_by_node()
    constants = circuit.constants()
    held: list[PortArray] = []
    for row in circuit.rows():
        builder.recording.move_to_node(circuit, row.node)
        kind = circuit.type_of(row.node)
        own = names.get(row.node, [])
        if row.op is INPUT:
            held.append(_add_inputs(builder, own[0], kind))
            continue
        if row.op is CONSTANT:
            held.append(_place_elements(np.asarray(constants[row.node]), builder))
        else:
            operands = [held[source] for source in row.sources]
            if kind.dtype.kind != "b" and not isinstance(row.op, Elementwise):
                operands = [_conditions_as_numbers(builder, operand) for operand in operands]
            held.append(_apply_node(builder, row, operands))
        _name_elements(builder, own, held[-1])
        if len(builder) > MAX_EXPANDED_NODES:
            raise CircuitError(
                f"the circuit would have more than {MAX_EXPANDED_NODES:,} scalar nodes, more than a circuit may have"
            )
    _expand_certificates(builder, circuit, held)
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return builder.build(name=circuit.name, labels=dict(_label_outputs(builder, outputs, held)))


def find_unexpandable(circuit: CircuitGraph) -> Op | None:
    """Return the first op of a circuit that cannot be written element by element; None if there is none.

    >>> from wiregrad.ir import parse_text
    >>> find_unexpandable(parse_text("input x: float64[2,2]\\ny = det x\\noutput y"))
    <op det(x)>
    """
    return next((row.op for row in circuit.rows() if isinstance(row.op, ArrayOp) and not row.op.can_expand), None)


class ElementRows(NamedTuple):
    """What a node becomes when it is expanded, for any wires of the same types.

    A source or result is the number of an operand's element, all operands in a row, or `~k`: the constants are numbered
    first, then the rows.
    """

    rows: tuple[tuple[int, tuple[int, ...], WireType, int], ...]
    """Code, sources, type and mode of each node that is no constant."""
    constants: tuple[WireValue, ...]
    results: tuple[int, ...]


def expand_unnamed(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit with one node per number, for programs: without places, groups, certificates, and names.

    Each kind of node is expanded once, and written for all nodes of its kind at a time. Ops that choose among their
    elements are refused with `NoRuleError`, because their gradient at ties is another one when they are written element
    by element.

    >>> from wiregrad.ir import parse_text
    >>> small = parse_text("input x: float64[2]\\ny = sum x axes=[-1] keepdims=false\\noutput y")
    >>> len(expand_unnamed(small))
    1
    """
    return _BulkExpansion(circuit).build_circuit()


class KindMembers(NamedTuple):
    """The nodes of one kind, and what each of them becomes."""

    nodes: NDArray[np.int64]
    rows: ElementRows


class _BulkExpansion:
    """The columns of an expanded circuit: its inputs, then its constants, then what the other nodes become.

    The elements of all nodes are numbered in a row. What is written for an element, as for a source of a new node, is a
    new node or, as `~e`, an element e of another node: an op that moves elements adds no nodes.
    """

    def __init__(self, circuit: CircuitGraph) -> None:
        self._circuit = circuit
        columns = circuit.columns
        sizes = np.array([math.prod(kind.shape) for kind in columns.type_table], np.int64)
        self._sizes = sizes[columns.types]
        ends = np.cumsum(self._sizes)
        self._first_elements = ends - self._sizes
        self._elements = np.zeros(ends[-1], np.int64)
        self._types = TypeTable()
        self._numbers: dict[bytes, int] = {}
        """The position of each constant among the constants, by its dtype and bits."""
        self._constants: list[WireValue] = []
        self._input_count = self._add_inputs()
        self._kinds = self._expand_kinds()
        self._place_constants()

    def _add_inputs(self) -> int:
        """Number the elements of the inputs; returns how many there are."""
        count = 0
        for node in self._circuit.input_indices():
            kind = self._circuit.type_of(node)
            if kind.dtype != FLOAT.dtype:
                raise CircuitError(f"expand works on float64 circuits; an input is {kind}")
            first = self._first_elements[node]
            self._elements[first : first + self._sizes[node]] = np.arange(count, count + self._sizes[node])
            count += int(self._sizes[node])
        return count

    def _expand_kinds(self) -> list[KindMembers]:
        """Expand one node of each kind."""
        circuit = self._circuit
        members: list[KindMembers] = []
        for nodes in group_nodes_by_kind(circuit):
            node = int(nodes[0])
            op = circuit.op_of(node)
            if op is not INPUT and op is not CONSTANT:
                mode = 0 if circuit.columns.modes is None else int(circuit.columns.modes[node])
                sources = circuit.sources_of(node)
                types = [circuit.type_of(source) for source in sources]
                rows = expand_node(Row(node, op, sources, mode), types, circuit.type_of(node))
                members.append(KindMembers(nodes, rows))
        return members

    def _place_constants(self) -> None:
        """Write the elements of the constants; equal ones share a node."""
        for node, value in self._circuit.constants().items():
            numbers = [self._place_number(number) for number in _check_elements(np.asarray(value)).reshape(-1)]
            first = self._first_elements[node]
            self._elements[first : first + len(numbers)] = numbers
        for kind in self._kinds:
            for number in kind.rows.constants:
                self._place_number(number)

    def _place_number(self, value: Any) -> int:
        """Return the node of a constant, which is a number."""
        place = self._numbers.setdefault(value.dtype.char.encode() + value.tobytes(), len(self._constants))
        if place == len(self._constants):
            self._constants.append(value)
        return self._input_count + place

    def build_circuit(self) -> CircuitGraph:
        """Return the expanded circuit."""
        firsts, size = self._number_nodes()
        codes = np.full(size, CONSTANT_CODE, np.uint16)
        codes[: self._input_count] = INPUT_CODE
        types = np.full(size, self._types.number_of(FLOAT), np.uint16)
        modes = np.full(size, DERIVE_MODE, np.int32)
        for place, value in enumerate(self._constants, self._input_count):
            types[place] = self._types.number_of(type_of_constant(value))
        for nodes, rows in self._kinds:
            for k, (code, _, kind, mode) in enumerate(rows.rows):
                places = firsts[nodes] + k
                codes[places] = code
                types[places] = self._types.number_of(kind)
                modes[places] = mode
        starts = np.concatenate([[0], np.cumsum(np.array([len(op.inputs) for op in TABLE.by_code()])[codes])])
        sources = self._join_sources(firsts, starts)
        return self._freeze(codes, starts.astype(np.int32), sources, types, modes)

    def _number_nodes(self) -> tuple[NDArray[np.int64], int]:
        """Return the first new node of every node, in the order of the nodes, and the number of all new nodes."""
        counts = np.zeros(self._circuit.size, np.int64)
        for nodes, rows in self._kinds:
            counts[nodes] = len(rows.rows)
        ends = self._input_count + len(self._constants) + np.cumsum(counts)
        size = int(ends[-1])
        if size > MAX_EXPANDED_NODES:
            raise CircuitError(f"the circuit would have more than {MAX_EXPANDED_NODES:,} scalar nodes")
        return ends - counts, size

    def _join_sources(self, firsts: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Write the sources of all new nodes, and what every element is."""
        sources = np.zeros(starts[-1], np.int64)
        for nodes, rows in self._kinds:
            refer = self._make_references(nodes, rows, firsts[nodes])
            for k, (_, own, _, _) in enumerate(rows.rows):
                for slot, source in enumerate(own):
                    sources[starts[firsts[nodes] + k] + slot] = refer(source)
            for k, result in enumerate(rows.results):
                self._elements[self._first_elements[nodes] + k] = refer(result)
        elements = self._elements
        while len(moved := np.flatnonzero(elements < 0)):
            # Each round doubles how far a reference has been followed.
            elements[moved] = elements[~elements[moved]]
        moved = np.flatnonzero(sources < 0)
        sources[moved] = elements[~sources[moved]]
        return sources.astype(np.int32)

    def _make_references(
        self, nodes: NDArray[np.int64], rows: ElementRows, firsts: NDArray[np.int64]
    ) -> Callable[[int], NDArray[np.int64] | int]:
        """Return a function from a source of `rows` to what it is at each of the nodes."""
        columns = self._circuit.columns
        begin = columns.starts[nodes]
        count = int(columns.starts[nodes[0] + 1]) - int(begin[0])
        operands = [columns.sources[begin + slot] for slot in range(count)]
        owners = [(slot, k) for slot, operand in enumerate(operands) for k in range(int(self._sizes[operand[0]]))]

        def refer(source: int) -> NDArray[np.int64] | int:
            if source >= 0:
                slot, k = owners[source]
                return ~(self._first_elements[operands[slot]] + k)
            k = ~source - len(rows.constants)
            return firsts + k if k >= 0 else self._place_number(rows.constants[~source])

        return refer

    def _freeze(
        self,
        codes: NDArray[np.uint16],
        starts: NDArray[np.int32],
        sources: NDArray[np.int32],
        types: NDArray[np.uint16],
        modes: NDArray[np.int32],
    ) -> CircuitGraph:
        old = self._circuit.columns
        outputs = np.concatenate(
            [self._elements[self._first_elements[node] :][: self._sizes[node]] for node in old.outputs.tolist()]
        )
        return CircuitGraph(
            CircuitColumns(
                name=old.name,
                codes=codes,
                starts=starts,
                sources=sources,
                types=types,
                type_table=tuple(self._types.numbers),
                constant_nodes=np.arange(self._input_count, self._input_count + len(self._constants), dtype=np.int32),
                constants=tuple(self._constants),
                modes=derive_modes(codes, starts, sources.tolist(), modes),
                names=NameTable((k, f"x{k}") for k in range(self._input_count)),
                places=NodeLabels(),
                groups=NodeLabels(),
                outputs=outputs.astype(np.int32),
                labels=tuple(f"y{k}" for k in range(len(outputs))),
            )
        )


def group_nodes_by_kind(circuit: CircuitGraph) -> list[NDArray[np.int64]]:
    """Return the nodes of each kind: those of one op, with its settings, mode, type, and types of sources.

    >>> from wiregrad.ir import parse_text
    >>> text = "input x\\ny = exp x\\nz = exp y\\nw = multiply y z\\noutput w"
    >>> [nodes.tolist() for nodes in group_nodes_by_kind(parse_text(text))]
    [[0], [1, 2], [3]]
    """
    kinds = number_kinds(circuit, circuit.columns.types[circuit.columns.sources].astype(np.int64))
    order = np.argsort(kinds, kind="stable")
    bounds = np.flatnonzero(np.diff(kinds[order])) + 1
    return sorted(np.split(order, bounds), key=lambda nodes: int(nodes[0]))


def number_kinds(circuit: CircuitGraph, facts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the kind of each node: its op, with its settings, mode, type, and facts about its sources.

    `facts` has an entry for each source of each node, such as its type.
    """
    columns = circuit.columns
    kinds = columns.codes.astype(np.int64)
    arities = np.diff(columns.starts)
    for column in (columns.settings.index, columns.modes, columns.types, arities):
        if column is not None:
            kinds = _join_keys(kinds, column)
    for column in _list_source_facts(columns, arities, facts):
        kinds = _join_keys(kinds, column)
    return kinds


MAX_SLOT_COLUMNS = 4
"""Nodes with more sources than this are compared one by one."""


def _list_source_facts(
    columns: CircuitColumns, arities: NDArray[np.int32], facts: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Iterate over columns that are equal at two nodes of one arity if the facts about their sources are the same."""
    size = len(arities)
    for slot in range(min(MAX_SLOT_COLUMNS, int(arities.max(initial=0)))):
        nodes = np.flatnonzero((arities > slot) & (arities <= MAX_SLOT_COLUMNS))
        column = np.zeros(size, np.int64)
        column[nodes] = facts[columns.starts[nodes] + slot]
        yield column
    seen: dict[bytes, int] = {}
    column = np.zeros(size, np.int64)
    for node in np.flatnonzero(arities > MAX_SLOT_COLUMNS).tolist():
        own = facts[columns.starts[node] : columns.starts[node + 1]]
        column[node] = seen.setdefault(own.tobytes(), len(seen))
    yield column


MAX_TABLE_KEYS = 1 << 22
"""Keys below this number are counted in a table instead of being sorted."""


def _join_keys(keys: NDArray[np.int64], others: NDArray[Any]) -> NDArray[np.int64]:
    """Return new keys, small numbers, that are equal where both are equal."""
    own = others.astype(np.int64) - int(others.min(initial=0))
    both = keys * (int(own.max(initial=0)) + 1) + own
    if not len(both) or int(both.max()) >= MAX_TABLE_KEYS:
        numbers: NDArray[np.int64] = np.unique(both, return_inverse=True)[1].reshape(-1)
        return numbers
    is_used = np.zeros(int(both.max()) + 1, np.int64)
    is_used[both] = 1
    joined: NDArray[np.int64] = (np.cumsum(is_used) - 1)[both]
    return joined


def _check_elements(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind != "f":
        raise CircuitError(f"expand works on float64 circuits; this one has a constant of {array.dtype}")
    return array.astype(np.float64)


def expand_node(row: Row, types: Sequence[WireType], kind: WireType) -> ElementRows:
    """Return what a node becomes, from a circuit of its own."""
    op = row.op
    # Tied elements share the gradient of an op that chooses, which pairwise choices would not give.
    is_plain = not op.opaque if isinstance(op, Elementwise) else isinstance(op, ArrayOp) and op.gap is None
    if op.per_call or not is_plain or not all(each.dtype.char in "d?" for each in (*types, kind)):
        raise NoRuleError(f"{row.op.name} is not expanded for native code")
    builder = GraphBuilder(finite=False)
    operands: list[PortArray] = []
    for each in types:
        ports = np.empty(each.shape, object)
        for index in np.ndindex(each.shape):
            ports[index] = builder.input(f"x{len(builder)}", WireType(each.dtype))
        operands.append(ports)
    count = len(builder)
    if kind.dtype.kind != "b" and not isinstance(row.op, Elementwise):
        operands = [_conditions_as_numbers(builder, operand) for operand in operands]
    results = [
        port if isinstance(port, Port) else builder.constant(float(port))
        for port in _apply_node(builder, row, operands).reshape(-1)
    ]
    inner = builder.build(labels={f"y{k}": port for k, port in enumerate(results)})
    constants = {node: value for node, value in inner.constants().items() if node >= count}
    added = [inner_row for inner_row in inner.rows() if inner_row.node >= count]
    order = [*constants, *(inner_row.node for inner_row in added if inner_row.op is not CONSTANT)]
    reference = {node: node for node in range(count)} | {node: ~k for k, node in enumerate(order)}
    rows: list[tuple[int, tuple[int, ...], WireType, int]] = []
    for inner_row in added:
        if inner_row.op.settings or inner_row.op.variadic:
            raise NoRuleError(f"{op.name} is written in ops that are no ops of scalars")
        if inner_row.op is not CONSTANT:
            sources = tuple([reference[source] for source in inner_row.sources])
            mode = inner_row.mode if inner_row.op.kinks else DERIVE_MODE
            rows.append((TABLE.code_of(inner_row.op), sources, inner.type_of(inner_row.node), mode))
    return ElementRows(tuple(rows), tuple(constants.values()), tuple([reference[port.index] for port in results]))


def _name_elements(builder: GraphBuilder, names: Sequence[str], ports: PortArray) -> None:
    """Name each element of a node after the node and its index."""
    for index, port in np.ndenumerate(ports):
        for name in names:
            if isinstance(port, Port):
                builder.name(port, builder.recording.free_name(_element_name(name, index)))


def _expand_certificates(builder: GraphBuilder, circuit: CircuitGraph, held: Sequence[PortArray]) -> None:
    """Give each element of a certified node a certificate of its own."""
    for certificate in circuit.certificates:
        outcomes = np.asarray(certificates.expected_value(circuit, certificate))
        for index, port in np.ndenumerate(held[certificate.node]):
            if isinstance(port, Port):
                element = Certificate(port.index, to_python_number(outcomes[index]), certificate.place)
                builder.recording.certificates.append(element)


def _element_name(name: str, index: tuple[int, ...]) -> str:
    return "_".join([name, *map(str, index)])


def _add_inputs(builder: GraphBuilder, name: str, kind: WireType) -> PortArray:
    if kind.dtype != FLOAT.dtype:
        raise CircuitError(f"expand works on float64 circuits; input {name} is {kind}")
    ports = np.empty(kind.shape, object)
    for index in np.ndindex(kind.shape):
        ports[index] = builder.input(_element_name(name, index))
    return ports


def _place_elements(array: NDArray[Any], builder: GraphBuilder) -> PortArray:
    ports = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        value = array[index]
        if value.dtype.kind not in "fb":
            raise CircuitError(f"expand works on float64 circuits; this one has a constant of {value.dtype}")
        ports[index] = builder.place_constant(value if value.dtype.kind == "b" else np.float64(value))
    return ports


def _conditions_as_numbers(builder: GraphBuilder, ports: PortArray) -> PortArray:
    """Return wires with every condition converted to 1 or 0, as NumPy does when it adds conditions."""
    numbers = np.empty(ports.shape, object)
    for index, port in np.ndenumerate(ports):
        is_condition = isinstance(port, Port) and builder.type_of(port) == BOOL
        numbers[index] = builder.apply("where", port, 1.0, 0.0) if is_condition else port
    return numbers


def _apply_node(builder: GraphBuilder, row: Row, operands: Sequence[PortArray]) -> PortArray:
    if isinstance(row.op, Elementwise):
        results = np.empty(operands[0].shape, object)
        for index in np.ndindex(results.shape):
            results[index] = builder.apply(row.op, *(x[index] for x in operands), mode=row.mode)
        return results
    if not isinstance(row.op, ArrayOp) or not row.op.can_expand:
        writers = "to_c() and to_numpy() write" if getattr(row.op, "c_function", None) else "to_numpy() writes"
        instead = f"; {writers} it as it is" if isinstance(row.op, ArrayOp) and not row.op.per_call else ""
        raise NoRuleError(
            f"{row.op.name} cannot be written element by element, so the circuit cannot be expanded{instead}"
        )
    try:
        results = np.array(row.op.expand_elements(*operands), object)
    except WiregradError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise NoRuleError(f"{row.op.name} cannot be written element by element: {error}") from None
    for index, element in np.ndenumerate(results):
        if isinstance(element, np.ndarray):
            # NumPy puts an array without axes into an array of objects as it is.
            results[index] = element[()]
    return results


def _label_outputs(
    builder: GraphBuilder, outputs: Iterable[tuple[str, int]], held: Sequence[PortArray]
) -> Iterator[tuple[str, Port]]:
    for label, node in outputs:
        for index, port in np.ndenumerate(held[node]):
            # An element into which nothing was added is a plain 0, not a port.
            yield _element_name(label, index), port if isinstance(port, Port) else builder.constant(port)
