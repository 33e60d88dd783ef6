"""The first wire at which two circuits, or two runs, part.

Nodes correspond by the order in which they were made; names and places are labels, so they make no difference of their
own. Circuits differ in structure: an op, a setting, a kink mode, a constant, an input's type, or which node a wire
comes from. Runs of circuits that agree in structure are compared node by node, values forward and then gradients
backward, so the first difference is a cause and not an effect. Runs of circuits that differ in structure (another
framework, before and after a pass) are compared at the nodes both of them name, and at their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import as_float, number, plain
from wiregrad.errors import InputError, shown
from wiregrad.inspect.report import Report, where
from wiregrad.ir import INPUT, Circuit, Node
from wiregrad.ir.flat import listed
from wiregrad.ir.mode import write_mode


@dataclass(frozen=True, repr=False)
class Difference(Report):
    """Where two circuits or runs part; false if they do not.

    `kind` is structure, value or gradient, and empty where nothing differs; `what` says it more closely (op, settings,
    mode, constant, type, source, inserted, removed, outputs). Runs that agree at every node both name are no
    difference, but `structure` still says how their circuits differ.
    """

    kind: str = ""
    what: str = ""
    one: str | None = None
    """The node of the first circuit, None where it has none."""
    two: str | None = None
    """The node of the second."""
    values: tuple[Any, Any] | None = None
    """What the two runs have there; of arrays the elements that differ most."""
    index: tuple[int, ...] = ()
    """Where in an array that is."""
    size: float = 0.0
    """How far apart the two are: inf where one of them is no number."""
    sentences: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Nodes that are the same and are called differently."""
    structure: Difference | None = None
    """How the circuits of two runs differ that were compared by name."""

    def __bool__(self) -> bool:
        return bool(self.kind)

    def lines(self) -> Iterator[str]:
        """Say where they part and how the rest compares."""
        yield from self.sentences
        if self.renamed:
            pairs = [f"{one} is {two}" for one, two in self.renamed.items()]
            yield f"names differ: {listed(pairs)}"


def diff(one: Circuit | Run, two: Circuit | Run, rtol: float = 0.0, atol: float = 0.0) -> Difference:
    """Compare two circuits or two runs and return the first wire at which they differ.

    Numbers are the same if they are no further apart than `atol + rtol * |second|`; NaN is the same as NaN.

    >>> import wiregrad as wg
    >>> one, two = wg.circuit("e = a + b; f = e * c"), wg.circuit("e = a + b; g = tanh(e); f = g * c")
    >>> print(diff(one, two))
    the second has an extra node: g = tanh(e) (formula:1:16)
    everything after it matches; 1 wire reads g in place of e
    >>> print(diff(one.run(a=2, b=-3, c=10), one.run(a=2, b=-3, c=11)))
    the values differ first at input c: 10 and 11, apart by 1
    of 5 nodes 2 have other values
    >>> bool(diff(one, wg.circuit("e = a + b; f = e * c")))
    False
    """
    bounds = tuple(_tolerance(name, value) for name, value in (("rtol", rtol), ("atol", atol)))
    if isinstance(one, Circuit) and isinstance(two, Circuit):
        return _structure(one, two)
    if isinstance(one, Run) and isinstance(two, Run):
        return _runs(one, two, _Numbers(*bounds))
    kinds = [type(x).__name__ for x in (one, two)]
    mixed = {"Circuit", "Run"} <= set(kinds)
    hint = "; run the circuit first: circuit.run(...)" if mixed else "; differences along an array are np.diff(x)"
    raise InputError(f"diff compares two circuits or two runs; got {kinds[0]} and {kinds[1]}{hint}")


def _tolerance(name: str, value: object) -> float:
    found = as_float(value)
    if found is None or not found >= 0.0:
        raise InputError(f"{name} must be a number that is not negative; got {shown(value)}")
    return float(found)


def _structure(one: Circuit, two: Circuit) -> Difference:
    """Return how two circuits differ, names and places apart."""
    rows = _Rows(one), _Rows(two)
    same = _common(rows[0].whole, rows[1].whole)
    if same == one.size == two.size:
        return _same_nodes(one, two)
    rest = min(one.size, two.size) - same
    after = _common(rows[0].alone[::-1], rows[1].alone[::-1], rest)
    return _parted(_Parting(one, two, rows, same, after))


class _Rows:
    """What each node of a circuit is: alone, and with the nodes it reads."""

    def __init__(self, circuit: Circuit) -> None:
        constants, self.alone, self.whole = circuit.constants(), list[Any](), list[Any]()
        for row in circuit.rows():
            kind = circuit.type_of(row.node) if row.op is INPUT else None
            value = _bits(constants[row.node]) if row.node in constants else None
            # What belongs to one call alone (a user's function) is never the same twice, and need not be comparable.
            settings = tuple(name for name, _ in row.op.settings) if row.op.per_call else row.op.settings
            self.alone.append((row.op.name, settings, row.mode, len(row.sources), kind, value))
            self.whole.append((self.alone[-1], tuple(row.sources)))


def _common(one: Sequence[Any], two: Sequence[Any], most: int | None = None) -> int:
    """Return how long two lists are the same from their start."""
    pairs = zip(one[:most], two[:most], strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one[:most]), len(two[:most])))


def _bits(value: Any) -> Any:
    array = np.asarray(value)
    nan = array.dtype.kind == "f" and array.ndim == 0 and bool(np.isnan(array))
    return array.dtype.str, array.shape, "nan" if nan else array.tobytes()


def _same_nodes(one: Circuit, two: Circuit) -> Difference:
    """Compare the outputs of two circuits whose nodes are the same."""
    renamed = _renamed(one, two, zip(range(one.size), range(two.size), strict=True))
    ends = _output_names(one), _output_names(two)
    k = _common(one.columns.outputs.tolist(), two.columns.outputs.tolist())
    if k == len(ends[0]) == len(ends[1]):
        return Difference(sentences=(f"no difference in {one.size} nodes",), renamed=renamed)
    names = [", ".join(end) or "none" for end in ends]
    return Difference(
        kind="structure",
        what="outputs",
        one=ends[0][k] if k < len(ends[0]) else None,
        two=ends[1][k] if k < len(ends[1]) else None,
        sentences=(f"the nodes are the same, and the outputs are others: {names[0]} and {names[1]}",),
        renamed=renamed,
    )


def _output_names(circuit: Circuit) -> list[str]:
    return [circuit.name_of(node) for node in circuit.columns.outputs.tolist()]


def _renamed(one: Circuit, two: Circuit, pairs: Iterable[tuple[int, int]]) -> dict[str, str]:
    """Return the nodes that have other names in the second circuit; one without a name has none to differ in."""
    names = one.columns.names.by_node(), two.columns.names.by_node()
    given = ((names[0].get(a), names[1].get(b)) for a, b in pairs)
    return {a[0]: b[0] for a, b in given if a and b and list(a) != list(b) and a[0] != b[0]}


class _Parting(NamedTuple):
    """Two circuits that agree up to a node, and again in the kinds of their last nodes."""

    one: Circuit
    two: Circuit
    rows: tuple[_Rows, _Rows]
    same: int
    after: int

    @property
    def middles(self) -> tuple[range, range]:
        """The nodes of each circuit between what agrees before and what agrees after."""
        return range(self.same, self.one.size - self.after), range(self.same, self.two.size - self.after)

    def rewired(self) -> list[tuple[int, int, int]]:
        """Return (node, slot, source) of the second circuit for the later wires that come from elsewhere."""
        shift, start = self.two.size - self.one.size, self.one.size - self.after
        found = []
        for node in range(start, self.one.size):
            pairs = zip(self.one.sources_of(node), self.two.sources_of(node + shift), strict=True)
            for slot, (a, b) in enumerate(pairs):
                moved = a + shift if a >= start else a
                # Nodes of a middle that is as long in both stand for each other.
                if moved != b or (shift and a in range(self.same, start)):
                    found.append((node + shift, slot, b))
        return found

    def renamed(self) -> dict[str, str]:
        """Return the nodes before and after the parting that have other names."""
        shift, start = self.two.size - self.one.size, self.one.size - self.after
        nodes = [*range(self.same), *range(start, self.one.size)]
        return _renamed(self.one, self.two, ((k, k if k < self.same else k + shift) for k in nodes))


def _parted(at: _Parting) -> Difference:
    one, two = at.middles
    if not one and not two:
        return _changed(at, at.same, at.same)
    if not one or not two:
        return _inserted(at, at.two if two else at.one, two or one)
    return _changed(at, one[0], two[0])


def _inserted(at: _Parting, circuit: Circuit, extra: range) -> Difference:
    """Say that one circuit has nodes the other lacks."""
    second, name = circuit is at.two, circuit.name_of(extra[0])
    more = f" and {len(extra) - 1} more after it" if len(extra) > 1 else ""
    return Difference(
        kind="structure",
        what="inserted" if second else "removed",
        one=None if second else name,
        two=name if second else None,
        sentences=(
            f"the {'second' if second else 'first'} has an extra node: {_told(circuit, extra[0])}{more}",
            _after(at),
        ),
        renamed=at.renamed(),
    )


def _after(at: _Parting) -> str:
    """Say how two circuits compare behind the place where they part."""
    if not at.after:
        return f"nothing after it matches, {_shared(at)}"
    rewired = at.rewired()
    if not rewired:
        return "everything after it matches"
    other = _in_place(at, rewired)
    count = f"{len(rewired)} wire{'' if len(rewired) == 1 else 's'}"
    if other:
        return f"everything after it matches; {count} {'reads' if len(rewired) == 1 else 'read'} {other}"
    return f"the {at.after} nodes after it are of the same ops, but {count} come from elsewhere; {_shared(at)}"


def _in_place(at: _Parting, rewired: Sequence[tuple[int, int, int]]) -> str:
    """Return `g in place of e` if every later wire that comes from elsewhere swaps the same two nodes."""
    shift = at.two.size - at.one.size
    pairs = {(at.one.sources_of(node - shift)[slot], source) for node, slot, source in rewired}
    if len(pairs) != 1:
        return ""
    ((old, new),) = pairs
    return f"{at.two.name_of(new)} in place of {at.one.name_of(old)}"


def _shared(at: _Parting) -> str:
    """Say how much of one circuit is somewhere in the other, node by node with all that leads to it."""
    known: dict[Any, int] = {}
    ids = [_identities(rows, known) for rows in at.rows]
    count = len(set(ids[0]) & set(ids[1]))
    return f"{count} of {at.one.size} nodes are in both with all they depend on"


def _identities(rows: _Rows, known: dict[Any, int]) -> list[int]:
    """Number the sub-circuits so that two nodes have one number if all that leads to them is the same."""
    found: list[int] = []
    inputs = 0
    for alone, sources in rows.whole:
        is_input = alone[0] == INPUT.name
        inputs += is_input
        key = (alone, inputs) if is_input else (alone, tuple([found[source] for source in sources]))
        found.append(known.setdefault(key, len(known)))
    return found


def _changed(at: _Parting, one: int, two: int) -> Difference:
    """Say in what the first two nodes that differ do."""
    views = Node(at.one, one), Node(at.two, two)
    what, detail = _aspect(*views)
    first = f"they part at {_told(at.one, one)} in the first, {_told(at.two, two)} in the second: {detail}"
    behind = [len(middle) - 1 for middle in at.middles]
    rest = _after(at) if max(behind) <= 0 else f"{behind[0]} and {behind[1]} more nodes differ; {_shared(at)}"
    alone = at.after and not at.middles[0] and len(at.rewired()) == 1
    sentences = (first, "everything else matches" if alone else rest)
    return Difference("structure", what, views[0].name, views[1].name, sentences=sentences, renamed=at.renamed())


def _aspect(one: Node, two: Node) -> tuple[str, str]:
    """Return the kind of a difference between two nodes, and a few words on it."""
    if one.op.name != two.op.name:
        return "op", f"op {one.op.name} and {two.op.name}"
    if one.type != two.type and one.op is INPUT:
        return "type", f"type {one.type} and {two.type}"
    if one.constant is not None:
        return "constant", f"constants {_brief(one.constant)} and {_brief(two.constant)}"
    if one.op.settings != two.op.settings:
        return "settings", f"settings {_settings(one)} and {_settings(two)}"
    if one.mode != two.mode:
        modes = [write_mode(node.mode, node.op.inputs) for node in (one, two)]
        return "mode", f"kink mode {modes[0]} and {modes[1]}"
    return _sources(one, two)


def _sources(one: Node, two: Node) -> tuple[str, str]:
    sources = [node.circuit.sources_of(node.index) for node in (one, two)]
    if len(sources[0]) != len(sources[1]):
        return "source", f"{len(sources[0])} and {len(sources[1])} wires"
    slot = _common(sources[0], sources[1])
    read = [_operand(node.circuit, at[slot]) for node, at in zip((one, two), sources, strict=True)]
    return "source", f"wire {one.op.input_name(slot)} reads {read[0]} and {read[1]}"


def _settings(node: Node) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in node.op.settings) or "none"


def _told(circuit: Circuit, node: int) -> str:
    """Write a node with its place, arrays left out."""
    view = Node(circuit, node)
    if view.op is INPUT:
        return f"input {view.name}{where(circuit, node)}"
    sources = [_operand(circuit, source) for source in circuit.sources_of(node)]
    text = view.op.expression(*sources) if sources else _brief(view.constant)
    return f"{view.name} = {text}{where(circuit, node)}"


def _operand(circuit: Circuit, node: int) -> str:
    constant = None if circuit.columns.names.of(node) else circuit.constant_of(node)
    return circuit.name_of(node) if constant is None else _brief(constant)


def _brief(value: Any) -> str:
    return f"array of shape {np.shape(value)}" if np.ndim(value) else number(plain(value))


class _Gap(NamedTuple):
    """The largest difference between two values: where, what there is, and how far apart."""

    at: tuple[int, ...]
    values: tuple[Any, Any]
    size: float


class _Numbers(NamedTuple):
    """How close two numbers must be to be the same."""

    rtol: float
    atol: float

    def gap(self, one: Any, two: Any) -> _Gap | None:
        """Return the largest difference that is one; None if the two are the same."""
        a, b = np.asarray(one), np.asarray(two)
        if a.shape != b.shape:
            return _Gap((), (one, two), math.inf)
        with np.errstate(all="ignore"):
            wide = np.result_type(a, b, np.float64)
            a, b = a.astype(wide), b.astype(wide)
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            off = np.where(same, 0.0, np.abs(a - b))
            close = same | (np.isfinite(off) & (off <= self.atol + self.rtol * np.abs(b)))
        if close.all():
            return None
        off = np.where(close, -1.0, np.where(np.isnan(off), np.inf, off))
        k = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
        return _Gap(k, (plain(np.asarray(one)[k]), plain(np.asarray(two)[k])), float(off[k]))


class _Pair(NamedTuple):
    """A node of the first run and the node of the second that it is compared with."""

    one: int
    two: int


def _runs(one: Run, two: Run, numbers: _Numbers) -> Difference:
    structure = _structure(one.circuit, two.circuit)
    if not structure:
        pairs = [_Pair(node, node) for node in range(one.circuit.size)]
        found = _compared(one, two, pairs, pairs, numbers)
        return replace(found, renamed=structure.renamed)
    pairs = _named_by_both(one.circuit, two.circuit)
    # What merging does to the gradient of an inner node is no difference: only inputs mean the same in both.
    inputs = set(one.circuit.input_indices()), set(two.circuit.input_indices())
    ends = [pair for pair in pairs if pair.one in inputs[0] and pair.two in inputs[1]]
    found = _compared(one, two, pairs, ends, numbers)
    first = f"the circuits differ ({structure.sentences[0]}); what both name is compared"
    return replace(found, sentences=(first, *found.sentences), structure=structure)


def _named_by_both(one: Circuit, two: Circuit) -> list[_Pair]:
    """Return the nodes that both circuits name, in the first one's order, and their outputs."""
    found = {(node, other) for node, name in one.columns.names if (other := two.columns.names.find(name)) is not None}
    found.update(zip(one.columns.outputs.tolist(), two.columns.outputs.tolist(), strict=False))
    return [_Pair(*pair) for pair in sorted(found)]


def _compared(one: Run, two: Run, pairs: Sequence[_Pair], moving: Sequence[_Pair], numbers: _Numbers) -> Difference:
    """Compare the numbers of two runs: values forward, then the gradients of the moving ones backward."""
    values = ((pair, numbers.gap(one.values[pair.one], two.values[pair.two])) for pair in pairs)
    gradients = ((pair, numbers.gap(one.gradient(pair.one), two.gradient(pair.two))) for pair in reversed(moving))
    for kind, gaps, count in (("value", values, len(pairs)), ("gradient", gradients, len(moving))):
        found = [(pair, gap) for pair, gap in gaps if gap is not None]
        if found:
            (pair, gap), more = found[0], len(found)
            rest = f"of {_count(count, 'node')} {more} {'has' if more == 1 else 'have'} other {kind}s"
            return Difference(
                kind=kind,
                one=one.circuit.name_of(pair.one),
                two=two.circuit.name_of(pair.two),
                values=gap.values,
                index=gap.at,
                size=gap.size,
                sentences=(_apart(kind, one, pair.one, gap), rest),
            )
    agreed = f"no difference in {_count(len(pairs), 'value')} and {_count(len(moving), 'gradient')}"
    return Difference(sentences=(agreed,))


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _apart(kind: str, run: Run, node: int, gap: _Gap) -> str:
    what = f"{kind}s differ first{' on the way back' if kind == 'gradient' else ''} at {_told(run.circuit, node)}"
    if not gap.at and any(np.ndim(value) for value in gap.values):
        shapes = [str(np.shape(value)) for value in gap.values]
        return f"the {what}: shapes {shapes[0]} and {shapes[1]}"
    element = f", most at {list(gap.at)}" if gap.at else ""
    return f"the {what}{element}: {_digits(*gap.values)}, apart by {gap.size:.3g}"


def _digits(one: Any, two: Any) -> str:
    """Write two numbers, with all their digits if the first few are the same."""
    texts = number(one), number(two)
    return f"{one!r} and {two!r}" if texts[0] == texts[1] else f"{texts[0]} and {texts[1]}"
