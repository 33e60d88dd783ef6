"""The first wire at which two circuits, or two runs, differ.

Two circuits are aligned first. Inputs correspond by name where both circuits have the name, all other nodes by the
order in which they were made; positions in this order, not indices, are compared. Names and source places are labels
and make no difference of their own. Circuits differ in structure: an op, a setting, a kink mode, a constant, an
input's type, user code, or the source of a wire; if all of these agree, in their outputs or in the order of their
inputs.

Runs of circuits with the same structure are compared node by node, values forward and then gradients backward, so the
first difference is a cause and not an effect. Runs of circuits with different structure (another framework, before and
after a pass) are compared at the nodes that both name, and at their outputs. If the outputs differ, nodes are paired by
their numbers, whatever their order and shape: the first op is named from which on the numbers of one run are not in the
other. An op that is written as different nodes in two frameworks is no difference if both arrive at the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import constant_identity
from wiregrad.dtypes import PythonNumber, WireValue, as_float, count_with_noun, format_brief_number, to_python_number
from wiregrad.errors import InputError, short_repr
from wiregrad.frontends.recording.arguments import flatten
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.inspect.report import Report, describe_node, format_node_place, format_operand
from wiregrad.ir import INPUT, Certificate, CircuitGraph, Node, Op, Row, certificates
from wiregrad.ir.circuit import find_given_name
from wiregrad.ir.columns import is_automatic_name, join_first_names, write_mode


class AlignedCircuit:
    """The nodes of a circuit in the order in which they are compared, with their signatures without and with sources.

    `order` has the index of each node; sources and outputs are positions in it.
    """

    def __init__(self, circuit: CircuitGraph, order: Sequence[int], shared: frozenset[str]) -> None:
        self.circuit = circuit
        self.order = order
        self.size = circuit.size
        rows = list(circuit.rows())
        constants = circuit.constants()
        place = dict(zip(order, range(len(order)), strict=True))
        self.sources = [[place[source] for source in rows[node].sources] for node in order]
        self.outputs = [place[node] for node in circuit.columns.outputs.tolist()]
        self.inputs = [place[node] for node in circuit.input_indices()]
        self.alone = [_node_signature(circuit, rows[node], constants, shared) for node in order]
        self.whole = [(alone, tuple(sources)) for alone, sources in zip(self.alone, self.sources, strict=True)]

    def node_at(self, at: int) -> Node:
        """Return the node at a position."""
        return Node(self.circuit, self.order[at])

    def name_at(self, at: int) -> str:
        """Return the name of the node at a position."""
        return self.circuit.reference_to(self.order[at])

    def describe_at(self, at: int) -> str:
        """Format the node at a position, with its source location."""
        return describe_node(self.circuit, self.order[at]) + format_node_place(self.circuit, self.order[at])

    def operand_at(self, at: int) -> str:
        """Format the node at a position as an operand."""
        return format_operand(self.circuit, self.order[at])

    def number_subcircuits(self, known: dict[Any, int]) -> list[int]:
        """Number the nodes so that two nodes share a number if everything they depend on is the same."""
        identities = [-1] * self.size
        for k, at in enumerate(sorted(self.inputs)):
            identities[at] = known.setdefault((self.alone[at], k), len(known))
        for at in range(self.size):
            if self.alone[at][0] != INPUT.name:
                key = self.alone[at], tuple([identities[source] for source in self.sources[at]])
                identities[at] = known.setdefault(key, len(known))
        return identities


def align_circuits(one: CircuitGraph, two: CircuitGraph) -> tuple[AlignedCircuit, AlignedCircuit]:
    """Align two circuits for comparison.

    >>> import wiregrad as wg
    >>> [side.order for side in align_circuits(wg.circuit("f = a - b"), wg.circuit("f = b - a"))]
    [[0, 1, 2], [1, 0, 2]]
    """
    names = one.inputs, two.inputs
    shared = frozenset(name for name in set(names[0]) & set(names[1]) if not is_automatic_name(name))
    order = list(range(two.size))
    if len(names[0]) == len(names[1]):
        at = dict(zip(names[1], two.input_indices(), strict=True))
        rest = iter([name for name in names[1] if name not in shared])
        for place, name in zip(two.input_indices(), names[0], strict=True):
            order[place] = at[name if name in shared else next(rest)]
    return AlignedCircuit(one, list(range(one.size)), shared), AlignedCircuit(two, order, shared)


def _node_signature(
    circuit: CircuitGraph, row: Row, constants: Mapping[int, Any], shared: frozenset[str]
) -> tuple[Any, ...]:
    """Return the signature of a node without its sources."""
    kind = name = None
    if row.op is INPUT:
        kind = circuit.type_of(row.node)
        name = circuit.name_of(row.node)
    value = constant_identity(constants[row.node]) if row.node in constants else None
    settings = user_code_key(row.op) if row.op.per_call else row.op.settings
    return row.op.name, settings, row.mode, len(row.sources), kind, name if name in shared else None, value


def user_code_key(op: Op) -> tuple[Any, ...]:
    """Return a key for a call of user code: the code itself, then the arguments that are not wires."""
    parts, tree = flatten([getattr(call, "identity", call) for _, call in op.settings])
    return (*[_closure_key(part) for part in parts], repr(tree))


def _closure_key(part: object) -> Hashable:
    if isinstance(part, TransformedFunction):
        return repr(part.identity), _closure_key(part.__wrapped__)
    if isinstance(part, FunctionType):
        # A nested function is a new object in each call; only what it closes over makes a difference.
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        return part.__code__, tuple(map(_value_key, (*cells, *(part.__defaults__ or ()))))
    return _value_key(part)


def _value_key(part: object) -> Hashable:
    if hasattr(part, "dtype") or isinstance(part, float | complex):
        return constant_identity(part)
    try:
        hash(part)
    except TypeError:
        return type(part), id(part)
    return type(part), part


@dataclass(frozen=True, repr=False)
class Difference(Report):
    """Where two circuits or runs differ; false if they do not.

    `kind` is structure, value or gradient, and empty if nothing differs; `what` gives the detail (op, settings, mode,
    constant, type, name, code, source, inserted, removed, outputs, inputs). Runs that agree at every node that both
    name are equal, but `structure` still holds how their circuits differ.
    """

    kind: str = ""
    what: str = ""
    one: str | None = None
    """The node of the first circuit; None if it has no such node."""
    two: str | None = None
    """The node of the second circuit."""
    values: tuple[Any, Any] | None = None
    """The two numbers; for arrays, the elements that differ most."""
    index: tuple[int, ...] = ()
    """The index of these elements in an array."""
    size: float = 0.0
    """The distance of the two numbers; inf where one of them is NaN."""
    sentences: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are the same under different names."""
    structure: Difference | None = None
    """How the circuits differ, if two runs were compared by name."""

    def __bool__(self) -> bool:
        return bool(self.kind)

    def lines(self) -> Iterator[str]:
        """Return the first difference, how the rest compares, and which names differ."""
        yield from self.sentences
        if self.renamed:
            pairs = [f"{one} is {two}" for one, two in self.renamed.items()]
            yield f"names differ: {join_first_names(pairs)}"


def diff(
    one: CircuitGraph | RunRecord, two: CircuitGraph | RunRecord, rtol: float = 0.0, atol: float = 0.0
) -> Difference:
    """Compare two circuits or two runs and return the first wire at which they differ.

    Numbers are equal if they differ by at most `atol + rtol * |second|`; NaN equals NaN.

    >>> import wiregrad as wg
    >>> one, two = wg.circuit("e = a + b; f = e * c"), wg.circuit("e = a + b; g = tanh(e); f = g * c")
    >>> print(diff(one, two))
    the second has an extra node: g = tanh(e) (formula:1:16)
    everything after it matches; 1 wire reads g in place of e
    >>> print(diff(one.run(a=2, b=-3, c=10), one.run(a=2, b=-3, c=11)))
    the values differ first at input c: 10 and 11, apart by 1
    2 of 5 nodes have different values
    >>> bool(diff(one, wg.circuit("e = a + b; f = e * c")))
    False
    """
    bounds = tuple(_check_tolerance(name, value) for name, value in (("rtol", rtol), ("atol", atol)))
    if isinstance(one, CircuitGraph) and isinstance(two, CircuitGraph):
        return _compare_structure(*align_circuits(one, two))
    if isinstance(one, RunRecord) and isinstance(two, RunRecord):
        return _compare_runs(one, two, _Tolerance(*bounds))
    kinds = [type(x).__name__ for x in (one, two)]
    mixed = {"Circuit", "Run"} <= set(kinds)
    run = "; run the circuit first: circuit.run(...), or wg.run(f, *args) for the arguments of a traced function"
    hint = run if mixed else "; differences along an array are np.diff(x)"
    raise InputError(f"diff compares two circuits or two runs; got {kinds[0]} and {kinds[1]}{hint}")


def _check_tolerance(name: str, value: object) -> float:
    tolerance = as_float(value)
    if tolerance is None or not tolerance >= 0.0:
        raise InputError(f"{name} must be a non-negative number; got {short_repr(value)}")
    return float(tolerance)


def _compare_structure(one: AlignedCircuit, two: AlignedCircuit) -> Difference:
    """Return how two circuits differ, apart from names and source locations."""
    same = _common_prefix_length(one.whole, two.whole)
    if same == one.size == two.size:
        return _compare_ends(one, two)
    rest = min(one.size, two.size) - same
    after = _common_prefix_length(one.alone[::-1], two.alone[::-1], rest)
    at = _StructureSplit(one, two, same, after)
    difference = _describe_split(at)
    others = _describe_other_outputs(at)
    return replace(difference, sentences=(*difference.sentences, others)) if others else difference


def _common_prefix_length(one: Sequence[Any], two: Sequence[Any], most: int | None = None) -> int:
    """Return the length of the common prefix of two lists."""
    pairs = zip(one[:most], two[:most], strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one[:most]), len(two[:most])))


def _compare_ends(one: AlignedCircuit, two: AlignedCircuit) -> Difference:
    """Compare the outputs of two circuits whose nodes are the same, and the order of their inputs."""
    renamed = _find_renamed(one, two, zip(range(one.size), range(two.size), strict=True))
    for what, ends in (("outputs", (one.outputs, two.outputs)), ("inputs", (one.inputs, two.inputs))):
        k = _common_prefix_length(*ends)
        if k < max(map(len, ends)):
            names = [[side.name_at(at) for at in end] for side, end in zip((one, two), ends, strict=True)]
            texts = [join_first_names(name) or "none" for name in names]
            change = "the outputs differ" if what == "outputs" else "the inputs come in another order"
            sentence = f"the nodes are the same, and {change}: {texts[0]} and {texts[1]}"
            ones, twos = (name[k] if k < len(name) else None for name in names)
            return Difference("structure", what, ones, twos, sentences=(sentence,), renamed=renamed)
    steered = _describe_other_steering(one, two)
    if steered:
        return Difference("structure", "certificates", sentences=(steered,), renamed=renamed)
    return Difference(sentences=(f"no difference in {count_with_noun(one.size, 'node')}",), renamed=renamed)


def _describe_other_steering(one: AlignedCircuit, two: AlignedCircuit) -> str:
    """Describe a condition that steered only one of two traced functions; empty if there is none."""
    first = _certificates_by_position(one)
    second = _certificates_by_position(two)
    for which, side, own, other in (("first", one, first, second), ("second", two, second, first)):
        certificate = next((own[key] for key in own if key not in other), None)
        if certificate is not None:
            steering = certificates.describe_certificate(side.circuit, certificate)
            return f"the nodes are the same, and only the {which} was traced where {steering}"
    return ""


def _certificates_by_position(side: AlignedCircuit) -> dict[tuple[int, bytes], Certificate]:
    """Return the certificates of a circuit by the position and the outcome of their nodes."""
    position = {node: k for k, node in enumerate(side.order)}
    return {
        (
            position.get(certificate.node, -1),
            np.asarray(certificates.expected_value(side.circuit, certificate)).tobytes(),
        ): certificate
        for certificate in certificates.distinct_certificates(side.circuit)
    }


def _find_renamed(one: AlignedCircuit, two: AlignedCircuit, pairs: Iterable[tuple[int, int]]) -> dict[str, str]:
    """Return the nodes whose names differ in the second circuit; nodes without a name are skipped."""
    names = one.circuit.columns.names.group_by_node(), two.circuit.columns.names.group_by_node()
    name_pairs = ((names[0].get(one.order[a]), names[1].get(two.order[b])) for a, b in pairs)
    return {a[0]: b[0] for a, b in name_pairs if a and b and list(a) != list(b) and a[0] != b[0]}


class _StructureSplit(NamedTuple):
    """Two circuits that agree up to a node, and again in the signatures of their last nodes."""

    one: AlignedCircuit
    two: AlignedCircuit
    same: int
    after: int

    @property
    def differing_ranges(self) -> tuple[range, range]:
        """The nodes of each circuit between the parts that agree."""
        return range(self.same, self.one.size - self.after), range(self.same, self.two.size - self.after)

    def counterpart_of(self, node: int) -> int | None:
        """Return the node of the second circuit that corresponds to a node of the first; None if there is none."""
        one, two = self.differing_ranges
        if node < self.same or (node in one and len(one) == len(two)):
            return node
        return None if node in one else node + self.two.size - self.one.size

    def find_rewired(self) -> list[tuple[int, int, int]]:
        """Return (node, slot, source) of the second circuit for the later wires whose source differs."""
        shift = self.two.size - self.one.size
        start = self.one.size - self.after
        wires = []
        for node in range(start, self.one.size):
            pairs = zip(self.one.sources[node], self.two.sources[node + shift], strict=True)
            wires += [(node + shift, slot, b) for slot, (a, b) in enumerate(pairs) if self.counterpart_of(a) != b]
        return wires

    def number_subcircuits(self) -> tuple[list[int], list[int]]:
        """Number the nodes of both circuits; nodes share a number if everything they depend on is the same."""
        numbers: dict[Any, int] = {}
        return self.one.number_subcircuits(numbers), self.two.number_subcircuits(numbers)

    def find_renamed(self) -> dict[str, str]:
        """Return the nodes before and after the difference whose names differ."""
        shift = self.two.size - self.one.size
        start = self.one.size - self.after
        nodes = [*range(self.same), *range(start, self.one.size)]
        return _find_renamed(self.one, self.two, ((k, k if k < self.same else k + shift) for k in nodes))


def _describe_other_outputs(at: _StructureSplit) -> str:
    """Report different outputs, as far as nodes correspond; empty if they are the same."""
    one = at.one.outputs
    two = at.two.outputs
    ids = at.number_subcircuits()
    others = len(one) != len(two)
    for a, b in zip(one, two, strict=False) if not others else ():
        is_shared = ids[0][a] in ids[1] or ids[1][b] in ids[0]
        others = others or (ids[0][a] != ids[1][b] if is_shared else at.counterpart_of(a) not in (None, b))
    names = [
        join_first_names([side.name_at(node) for node in ends]) or "none"
        for side, ends in ((at.one, one), (at.two, two))
    ]
    return f"the outputs differ too: {names[0]} and {names[1]}" if others else ""


def _describe_split(at: _StructureSplit) -> Difference:
    one, two = at.differing_ranges
    if not one and not two:
        return _describe_changed_node(at, at.same, at.same)
    if not one or not two:
        return _describe_inserted(at, at.two if two else at.one, two or one)
    return _describe_changed_node(at, one[0], two[0])


def _describe_inserted(at: _StructureSplit, side: AlignedCircuit, extra: range) -> Difference:
    """Report that one circuit has nodes that the other lacks."""
    second = side is at.two
    name = side.name_at(extra[0])
    more = f" and {len(extra) - 1} more after it" if len(extra) > 1 else ""
    return Difference(
        kind="structure",
        what="inserted" if second else "removed",
        one=None if second else name,
        two=name if second else None,
        sentences=(
            f"the {'second' if second else 'first'} has an extra node: {side.describe_at(extra[0])}{more}",
            _describe_rest(at),
        ),
        renamed=at.find_renamed(),
    )


def _describe_rest(at: _StructureSplit) -> str:
    """Describe how two circuits compare after the difference."""
    if not at.after:
        return "everything before it matches"
    rewired = at.find_rewired()
    if not rewired:
        return "everything after it matches"
    other = _describe_replacement(at, rewired)
    count = count_with_noun(len(rewired), "wire")
    if other:
        return f"everything after it matches; {count} {'reads' if len(rewired) == 1 else 'read'} {other}"
    verb = "comes" if len(rewired) == 1 else "come"
    return f"the ops after it are the same, but {count} {verb} from elsewhere; {_describe_shared_nodes(at)}"


def _describe_replacement(at: _StructureSplit, rewired: Sequence[tuple[int, int, int]]) -> str:
    """Return `g in place of e` if every later wire with another source replaces the same node by the same other."""
    shift = at.two.size - at.one.size
    pairs = {(at.one.sources[node - shift][slot], source) for node, slot, source in rewired}
    if len(pairs) != 1:
        return ""
    ((old, new),) = pairs
    # Both names are taken from the circuit that has both nodes: one name may mean different nodes in the two.
    across = at.counterpart_of(old)
    back = next((k for k in range(at.one.size) if at.counterpart_of(k) == new), None)
    if across is not None:
        return f"{at.two.name_at(new)} in place of {at.two.name_at(across)}"
    return f"{at.two.name_at(new) if back is None else at.one.name_at(back)} in place of {at.one.name_at(old)}"


def _describe_shared_nodes(at: _StructureSplit) -> str:
    """Count the nodes that are in both circuits together with everything they depend on."""
    ids = at.number_subcircuits()
    count = len(set(ids[0]) & set(ids[1]))
    return f"{count} of {at.one.size} nodes are in both with all they depend on"


def _describe_changed_node(at: _StructureSplit, one: int, two: int) -> Difference:
    """Report how the first two nodes that differ do so."""
    views = at.one.node_at(one), at.two.node_at(two)
    what, detail = _changed_aspect(at, one, two)
    places = f"{at.one.describe_at(one)} in the first, {at.two.describe_at(two)} in the second"
    first = f"they first differ at {places}: {detail}"
    behind = [len(middle) - 1 for middle in at.differing_ranges]
    rest = (
        _describe_rest(at)
        if max(behind) <= 0
        else f"{behind[0]} and {behind[1]} more nodes differ; {_describe_shared_nodes(at)}"
    )
    # If only wires differ, this node is the first of those with equal signatures.
    alone = not at.differing_ranges[0] and {node for node, _, _ in at.find_rewired()} == {two}
    sentences = (first, "everything else matches" if alone else rest)
    return Difference(
        "structure", what, views[0].reference, views[1].reference, sentences=sentences, renamed=at.find_renamed()
    )


def _changed_aspect(at: _StructureSplit, one: int, two: int) -> tuple[str, str]:
    """Return the kind of a difference between two nodes, and a short description."""
    a = at.one.node_at(one)
    b = at.two.node_at(two)
    if a.op.name != b.op.name:
        return "op", f"op {a.op.name} and {b.op.name}"
    if a.op is INPUT:
        return ("type", f"type {a.type} and {b.type}") if a.type != b.type else ("name", f"{a.name} and {b.name}")
    if a.constant is not None and b.constant is not None:
        return "constant", f"constants {_format_constant(a.constant)} and {_format_constant(b.constant)}"
    return _changed_settings(a, b) or _changed_source(at, one, two)


def _changed_settings(one: Node, two: Node) -> tuple[str, str] | None:
    """Return how the settings of two nodes with the same op differ; None if they do not."""
    if one.op.per_call and user_code_key(one.op) != user_code_key(two.op):
        return "code", _describe_other_code(one.op, two.op)
    if not one.op.per_call and one.op.settings != two.op.settings:
        return "settings", f"settings {_format_settings(one)} and {_format_settings(two)}"
    modes = [write_mode(node.mode, node.op.inputs) for node in (one, two)]
    return None if one.mode == two.mode else ("mode", f"kink mode {modes[0]} and {modes[1]}")


def _describe_other_code(one: Op, two: Op) -> str:
    """Describe how two calls of user code differ."""
    if user_code_key(one)[0] != user_code_key(two)[0]:
        return f"{one.title} and {two.title} are your own code and not the same object: what they do is not compared"
    return f"your own code {one.title} is called with other arguments"


def _changed_source(at: _StructureSplit, one: int, two: int) -> tuple[str, str]:
    sources = (at.one.sources[one], at.two.sources[two])
    op = at.one.node_at(one).op
    if len(sources[0]) != len(sources[1]):
        return "source", f"{len(sources[0])} and {len(sources[1])} wires"
    slot = _common_prefix_length(*sources)
    read = [side.operand_at(nodes[slot]) for side, nodes in zip((at.one, at.two), sources, strict=True)]
    return "source", f"wire {op.input_name(slot)} reads {read[0]} and {read[1]}"


def _format_settings(node: Node) -> str:
    return ", ".join(f"{name}={short_repr(value)}" for name, value in node.op.settings) or "none"


def _format_constant(value: WireValue) -> str:
    return f"array of shape {np.shape(value)}" if np.ndim(value) else format_brief_number(to_python_number(value))


class _LargestGap(NamedTuple):
    """The largest difference between two values: its index, the two numbers and their distance."""

    at: tuple[int, ...]
    values: tuple[Any, Any]
    size: float


class _Tolerance(NamedTuple):
    """The tolerances within which two numbers count as equal."""

    rtol: float
    atol: float
    rounding: float = 0.0
    """How many last digits of the largest number of an array they may differ by besides."""

    def with_rounding(self) -> _Tolerance:
        """Return the tolerances of numbers that other ops computed in another order."""
        return self._replace(rounding=MAX_ROUNDING)

    def find_gap(self, one: ArrayLike, two: ArrayLike) -> _LargestGap | None:
        """Return the largest difference beyond the tolerances; None if the two are equal."""
        a = np.asarray(one)
        b = np.asarray(two)
        if a.shape != b.shape:
            return _LargestGap((), (one, two), math.inf)
        with np.errstate(all="ignore"):
            wide = np.result_type(a, b, np.float64)
            a = a.astype(wide)
            b = b.astype(wide)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            off = np.where(same, 0.0, np.abs(a - b))
            bound = self.atol + self.rtol * np.abs(b) + self._measure_rounding(one, two)
            close = same | (np.isfinite(off) & (off <= bound))
        if close.all():
            return None
        off = np.where(close, -1.0, np.where(np.isnan(off), np.inf, off))
        k = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
        return _LargestGap(
            k, (to_python_number(np.asarray(one)[k]), to_python_number(np.asarray(two)[k])), float(off[k])
        )

    def _measure_rounding(self, one: ArrayLike, two: ArrayLike) -> float:
        """Return by how much rounding may move the numbers of two arrays."""
        floats = [array for array in map(np.asarray, (one, two)) if array.dtype.kind in "fc" and array.size]
        if not self.rounding or len(floats) < 2:
            return 0.0
        digit = max(float(np.finfo(array.dtype).eps) for array in floats)
        largest = max(float(np.max(np.abs(array), initial=0.0, where=np.isfinite(array))) for array in floats)
        return self.rounding * digit * largest


MAX_ROUNDING = 64.0
"""How many last digits rounding may take in a program of usual length."""


class _NodePair(NamedTuple):
    """A node of the first run and the node of the second that it is compared with."""

    one: int
    two: int


def _compare_runs(one: RunRecord, two: RunRecord, numbers: _Tolerance) -> Difference:
    sides = align_circuits(one.circuit, two.circuit)
    structure = _compare_structure(*sides)
    if not structure or structure.what in ("inputs", "certificates"):
        pairs = [_NodePair(*nodes) for nodes in zip(sides[0].order, sides[1].order, strict=True)]
        difference = replace(_compare_numbers(one, two, pairs, pairs, numbers), renamed=structure.renamed)
        return (
            replace(difference, structure=structure, sentences=structure.sentences + difference.sentences)
            if structure
            else difference
        )
    pairs = _pair_shared_names(one.circuit, two.circuit)
    # Merging nodes changes the gradients of inner nodes: only those of inputs mean the same in both circuits.
    inputs = set(one.circuit.input_indices()), set(two.circuit.input_indices())
    ends = [pair for pair in pairs if pair.one in inputs[0] and pair.two in inputs[1]]
    wanted = [pair for pair in ends if pair.one not in one.unwanted and pair.two not in two.unwanted]
    difference = _compare_numbers(one, two, pairs, wanted, numbers)
    if difference.kind == "value" and _is_output(one, difference.one):
        return replace(_compare_by_numbers(one, two, difference, numbers), structure=structure)
    first = f"the circuits differ ({structure.sentences[0]}); only what both name is compared"
    last = [_describe_unwanted(one, two, pair) for pair in ends if pair not in wanted]
    if difference.kind == "gradient":
        last += _describe_cause_of_gradients(one, two, difference)
    return replace(difference, sentences=(first, *difference.sentences, *last), structure=structure)


def _describe_cause_of_gradients(one: RunRecord, two: RunRecord, difference: Difference) -> list[str]:
    """Say of gradients that differ although the outputs agree that rounding explains it, or where numbers differ."""
    names = (difference.one, difference.two)
    flows = [run.gradient(run.circuit.index(name)) for run, name in zip((one, two), names, strict=True) if name]
    if len(flows) == 2 and _agree_but_for_rounding(*flows):
        return [f"this is a difference {_allow_rounding(*flows)}"]
    regions = _find_unmatched_regions(one, two, _Tolerance(0.0, 0.0))
    if not all(regions):
        return []
    texts = _describe_first_nodes(one, two, [min(region) for region in regions])
    return [f"within the tolerances, the numbers differ first at {texts[0]} in the first, {texts[1]} in the second"]


def _describe_unwanted(one: RunRecord, two: RunRecord, pair: _NodePair) -> str:
    """Say of an input that one of two runs has no gradient of it to compare."""
    run, node, place = (one, pair.one, "first") if pair.one in one.unwanted else (two, pair.two, "second")
    name = run.circuit.reference_to(node)
    return f"the gradient of {name} is not compared: the {place} run was not asked for it (requires_grad=False)"


def _is_output(run: RunRecord, reference: str | None) -> bool:
    return reference in {run.circuit.reference_to(node) for node in run.circuit.columns.outputs.tolist()}


def _compare_by_numbers(one: RunRecord, two: RunRecord, difference: Difference, numbers: _Tolerance) -> Difference:
    """Return the first ops from which on the numbers of two runs differ; their outputs are known to differ."""
    regions = _find_unmatched_regions(one, two, numbers)
    outputs = [run.circuit.columns.outputs.tolist() for run in (one, two)]
    nodes = [min(region or ends) for region, ends in zip(regions, outputs, strict=True)]
    texts = _describe_first_nodes(one, two, nodes)
    first = "the circuits differ, so nodes are paired by their numbers"
    apart = f"the outputs are apart by {format_brief_number(difference.size, 3)}"
    pairs = [(one.values[node], two.values[other]) for node, other in zip(*outputs, strict=False)]
    if not all(regions) and all(_agree_but_for_rounding(*pair) for pair in pairs):
        return replace(difference, sentences=(first, f"{apart}, {_allow_rounding(*pairs[0])}"))
    where = f"the numbers differ first at {texts[0]} in the first, {texts[1]} in the second"
    gap = numbers.find_gap(one.values[nodes[0]], two.values[nodes[1]])
    if gap is not None and not (np.ndim(gap.values[0]) or np.ndim(gap.values[1])):
        where += f": {_format_pair(*gap.values)}"
        difference = replace(difference, values=gap.values, index=gap.at, size=gap.size)
    names = [run.circuit.reference_to(node) for run, node in zip((one, two), nodes, strict=True)]
    return replace(difference, one=names[0], two=names[1], sentences=(first, where, apart))


def _find_matched(own: Sequence[Any], other: Sequence[Any], numbers: _Tolerance) -> list[bool]:
    """Return for each sorted array whether another list has the same numbers."""
    by_size: dict[int, list[Any]] = {}
    for array in other:
        by_size.setdefault(array.size, []).append(array)
    return [any(numbers.find_gap(array, found) is None for found in by_size.get(array.size, ())) for array in own]


def _find_unmatched_regions(one: RunRecord, two: RunRecord, numbers: _Tolerance) -> list[set[int]]:
    """Return for two runs the ops whose numbers the other has not, and that reach an output over such ops alone.

    Inside of programs that are written differently, what rounding explains is no difference.
    """
    sorted_values = [[np.sort(np.ravel(value)) for value in run.values] for run in (one, two)]
    return [
        _find_unmatched(run, _find_matched(own, other, numbers.with_rounding()))
        for run, own, other in zip((one, two), sorted_values, sorted_values[::-1], strict=True)
    ]


def _describe_first_nodes(one: RunRecord, two: RunRecord, nodes: Sequence[int]) -> list[str]:
    """Format a node of each run, with its place."""
    return [
        describe_node(run.circuit, node) + format_node_place(run.circuit, node)
        for run, node in zip((one, two), nodes, strict=True)
    ]


def _agree_but_for_rounding(one: ArrayLike, two: ArrayLike) -> bool:
    return _Tolerance(0.0, 0.0).with_rounding().find_gap(one, two) is None


def _allow_rounding(one: ArrayLike, two: ArrayLike) -> str:
    """Say that a difference is one of rounding, and with which tolerance it is none."""
    digit = max(float(np.finfo(np.asarray(array).dtype).eps) for array in (one, two))
    return f"which rounding explains: allow it by rtol={1e-9 if digit < 1e-10 else 1e-4:g}"


def _find_unmatched(run: RunRecord, matched: Sequence[bool]) -> set[int]:
    """Return the nodes without a match that reach an output over such nodes alone.

    Empty if the outputs have all their numbers somewhere in the other run, and what they are computed from has too.
    """
    sources = [row.sources for row in run.circuit.rows()]
    front = run.circuit.columns.outputs.tolist()
    region = {node for node in front if not matched[node]}
    while front:
        for source in sources[front.pop()]:
            if not matched[source] and source not in region:
                region.add(source)
                front.append(source)
    # The op that computes with a constant, or with what was broadcast, says more than these.
    constants = run.circuit.constants()
    computing: set[int] = {
        node for node in region if node not in constants and not _moves_numbers(run, node, sources[node])
    }
    return computing or region


def _moves_numbers(run: RunRecord, node: int, sources: Sequence[int]) -> bool:
    """Return whether all numbers of a node are those of its only source."""
    return len(sources) == 1 and bool(np.isin(run.values[node], run.values[sources[0]]).all())


def _pair_shared_names(one: CircuitGraph, two: CircuitGraph) -> list[_NodePair]:
    """Return the nodes that both circuits name, in the order of the first, and their outputs."""
    named = {
        (node, other)
        for node, name in one.columns.names
        if (other := two.columns.names.find_node(name)) is not None
        and find_given_name(one, node) is not None
        and find_given_name(two, other) is not None
    }
    named.update(zip(one.columns.outputs.tolist(), two.columns.outputs.tolist(), strict=False))
    return [_NodePair(*pair) for pair in sorted(named)]


def _compare_numbers(
    one: RunRecord, two: RunRecord, pairs: Sequence[_NodePair], moving: Sequence[_NodePair], numbers: _Tolerance
) -> Difference:
    """Compare the numbers of two runs: values forward, then gradients backward."""
    values = ((pair, numbers.find_gap(one.values[pair.one], two.values[pair.two])) for pair in pairs)
    gradients = ((pair, numbers.find_gap(one.gradient(pair.one), two.gradient(pair.two))) for pair in reversed(moving))
    for kind, gaps, count in (("value", values, len(pairs)), ("gradient", gradients, len(moving))):
        differing = [(pair, gap) for pair, gap in gaps if gap is not None]
        if differing:
            pair, gap = differing[0]
            more = len(differing)
            rest = f"{more} of {count_with_noun(count, 'node')} {'has' if more == 1 else 'have'} different {kind}s"
            return Difference(
                kind=kind,
                one=one.circuit.reference_to(pair.one),
                two=two.circuit.reference_to(pair.two),
                values=gap.values,
                index=gap.at,
                size=gap.size,
                sentences=(_describe_gap(kind, one, pair.one, gap), rest),
            )
    agreed = f"no difference in {count_with_noun(len(pairs), 'value')} and {count_with_noun(len(moving), 'gradient')}"
    return Difference(sentences=(agreed,))


def _describe_gap(kind: str, run: RunRecord, node: int, gap: _LargestGap) -> str:
    back = " on the way back" if kind == "gradient" else ""
    text = describe_node(run.circuit, node) + format_node_place(run.circuit, node)
    what = f"{kind}s differ first{back} at {text}"
    if not gap.at and any(np.ndim(value) for value in gap.values):
        shapes = [str(np.shape(value)) for value in gap.values]
        return f"the {what}: shapes {shapes[0]} and {shapes[1]}"
    element = f", most at {list(gap.at)}" if gap.at else ""
    return f"the {what}{element}: {_format_pair(*gap.values)}, apart by {format_brief_number(gap.size, 3)}"


def _format_pair(one: WireValue | PythonNumber, two: WireValue | PythonNumber) -> str:
    """Format two numbers, with all their digits if the first few are the same."""
    texts = format_brief_number(one), format_brief_number(two)
    return f"{one!r} and {two!r}" if texts[0] == texts[1] else f"{texts[0]} and {texts[1]}"
