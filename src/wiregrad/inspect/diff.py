"""The first wire at which two circuits, or two runs, differ.

Inputs correspond by name where both circuits have the name, all other nodes by the order in which they were made. Names
and source locations are labels and make no difference of their own. Circuits differ in structure: an op, a setting, a
kink mode, a constant, an input's type, user code, or the source of a wire; if all of these agree, in their outputs or
in the order of their inputs.

Runs of circuits with the same structure are compared node by node, values forward and then gradients backward, so the
first difference is a cause and not an effect. Runs of circuits with different structure (another framework, before and
after a pass) are compared at the nodes that both name, and at their outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import as_float, counted, number, plain
from wiregrad.errors import InputError, shown
from wiregrad.inspect.report import Report, told, where
from wiregrad.inspect.sides import Side, matched, own_code
from wiregrad.ir import INPUT, Certificate, Circuit, Node, Op, certificates
from wiregrad.ir.flat import listed
from wiregrad.ir.mode import write_mode


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
            yield f"names differ: {listed(pairs)}"


def diff(one: Circuit | Run, two: Circuit | Run, rtol: float = 0.0, atol: float = 0.0) -> Difference:
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
    bounds = tuple(_tolerance(name, value) for name, value in (("rtol", rtol), ("atol", atol)))
    if isinstance(one, Circuit) and isinstance(two, Circuit):
        return _structure(*matched(one, two))
    if isinstance(one, Run) and isinstance(two, Run):
        return _runs(one, two, _Numbers(*bounds))
    kinds = [type(x).__name__ for x in (one, two)]
    mixed = {"Circuit", "Run"} <= set(kinds)
    hint = "; run the circuit first: circuit.run(...)" if mixed else "; differences along an array are np.diff(x)"
    raise InputError(f"diff compares two circuits or two runs; got {kinds[0]} and {kinds[1]}{hint}")


def _tolerance(name: str, value: object) -> float:
    tolerance = as_float(value)
    if tolerance is None or not tolerance >= 0.0:
        raise InputError(f"{name} must be a non-negative number; got {shown(value)}")
    return float(tolerance)


def _structure(one: Side, two: Side) -> Difference:
    """Return how two circuits differ, apart from names and source locations."""
    same = _common(one.whole, two.whole)
    if same == one.size == two.size:
        return _same_nodes(one, two)
    rest = min(one.size, two.size) - same
    after = _common(one.alone[::-1], two.alone[::-1], rest)
    at = _Parting(one, two, same, after)
    difference = _parted(at)
    others = _other_outputs(at)
    return replace(difference, sentences=(*difference.sentences, others)) if others else difference


def _common(one: Sequence[Any], two: Sequence[Any], most: int | None = None) -> int:
    """Return the length of the common prefix of two lists."""
    pairs = zip(one[:most], two[:most], strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(one[:most]), len(two[:most])))


def _same_nodes(one: Side, two: Side) -> Difference:
    """Compare the outputs of two circuits whose nodes are the same, and the order of their inputs."""
    renamed = _renamed(one, two, zip(range(one.size), range(two.size), strict=True))
    for what, ends in (("outputs", (one.outputs, two.outputs)), ("inputs", (one.inputs, two.inputs))):
        k = _common(*ends)
        if k < max(map(len, ends)):
            names = [[side.name(at) for at in end] for side, end in zip((one, two), ends, strict=True)]
            texts = [listed(name) or "none" for name in names]
            change = "the outputs differ" if what == "outputs" else "the inputs come in another order"
            sentence = f"the nodes are the same, and {change}: {texts[0]} and {texts[1]}"
            ones, twos = (name[k] if k < len(name) else None for name in names)
            return Difference("structure", what, ones, twos, sentences=(sentence,), renamed=renamed)
    steered = _steered_otherwise(one, two)
    if steered:
        return Difference("structure", "certificates", sentences=(steered,), renamed=renamed)
    return Difference(sentences=(f"no difference in {counted(one.size, 'node')}",), renamed=renamed)


def _steered_otherwise(one: Side, two: Side) -> str:
    """Describe a condition that steered only one of two traced functions; empty if there is none."""
    first = _certified(one)
    second = _certified(two)
    for which, side, own, other in (("first", one, first, second), ("second", two, second, first)):
        certificate = next((own[key] for key in own if key not in other), None)
        if certificate is not None:
            steering = certificates.describe(side.circuit, certificate)
            return f"the nodes are the same, and only the {which} was traced where {steering}"
    return ""


def _certified(side: Side) -> dict[tuple[int, bytes], Certificate]:
    """Return the certificates of a circuit by the position and the outcome of their nodes."""
    position = {node: k for k, node in enumerate(side.order)}
    return {
        (
            position.get(certificate.node, -1),
            np.asarray(certificates.expected(side.circuit, certificate)).tobytes(),
        ): certificate
        for certificate in certificates.distinct(side.circuit)
    }


def _renamed(one: Side, two: Side, pairs: Iterable[tuple[int, int]]) -> dict[str, str]:
    """Return the nodes whose names differ in the second circuit; nodes without a name are skipped."""
    names = one.circuit.columns.names.by_node(), two.circuit.columns.names.by_node()
    name_pairs = ((names[0].get(one.order[a]), names[1].get(two.order[b])) for a, b in pairs)
    return {a[0]: b[0] for a, b in name_pairs if a and b and list(a) != list(b) and a[0] != b[0]}


class _Parting(NamedTuple):
    """Two circuits that agree up to a node, and again in the signatures of their last nodes."""

    one: Side
    two: Side
    same: int
    after: int

    @property
    def middles(self) -> tuple[range, range]:
        """The nodes of each circuit between the parts that agree."""
        return range(self.same, self.one.size - self.after), range(self.same, self.two.size - self.after)

    def across(self, node: int) -> int | None:
        """Return the node of the second circuit that corresponds to a node of the first; None if there is none."""
        one, two = self.middles
        if node < self.same or (node in one and len(one) == len(two)):
            return node
        return None if node in one else node + self.two.size - self.one.size

    def rewired(self) -> list[tuple[int, int, int]]:
        """Return (node, slot, source) of the second circuit for the later wires whose source differs."""
        shift = self.two.size - self.one.size
        start = self.one.size - self.after
        wires = []
        for node in range(start, self.one.size):
            pairs = zip(self.one.sources[node], self.two.sources[node + shift], strict=True)
            wires += [(node + shift, slot, b) for slot, (a, b) in enumerate(pairs) if self.across(a) != b]
        return wires

    def identities(self) -> tuple[list[int], list[int]]:
        """Number the nodes of both circuits; nodes share a number if everything they depend on is the same."""
        numbers: dict[Any, int] = {}
        return self.one.identities(numbers), self.two.identities(numbers)

    def renamed(self) -> dict[str, str]:
        """Return the nodes before and after the difference whose names differ."""
        shift = self.two.size - self.one.size
        start = self.one.size - self.after
        nodes = [*range(self.same), *range(start, self.one.size)]
        return _renamed(self.one, self.two, ((k, k if k < self.same else k + shift) for k in nodes))


def _other_outputs(at: _Parting) -> str:
    """Report different outputs, as far as nodes correspond; empty if they are the same."""
    one = at.one.outputs
    two = at.two.outputs
    ids = at.identities()
    others = len(one) != len(two)
    for a, b in zip(one, two, strict=False) if not others else ():
        is_shared = ids[0][a] in ids[1] or ids[1][b] in ids[0]
        others = others or (ids[0][a] != ids[1][b] if is_shared else at.across(a) not in (None, b))
    names = [listed([side.name(node) for node in ends]) or "none" for side, ends in ((at.one, one), (at.two, two))]
    return f"the outputs differ too: {names[0]} and {names[1]}" if others else ""


def _parted(at: _Parting) -> Difference:
    one, two = at.middles
    if not one and not two:
        return _changed(at, at.same, at.same)
    if not one or not two:
        return _inserted(at, at.two if two else at.one, two or one)
    return _changed(at, one[0], two[0])


def _inserted(at: _Parting, side: Side, extra: range) -> Difference:
    """Report that one circuit has nodes that the other lacks."""
    second = side is at.two
    name = side.name(extra[0])
    more = f" and {len(extra) - 1} more after it" if len(extra) > 1 else ""
    return Difference(
        kind="structure",
        what="inserted" if second else "removed",
        one=None if second else name,
        two=name if second else None,
        sentences=(
            f"the {'second' if second else 'first'} has an extra node: {side.told(extra[0])}{more}",
            _after(at),
        ),
        renamed=at.renamed(),
    )


def _after(at: _Parting) -> str:
    """Describe how two circuits compare after the difference."""
    if not at.after:
        return "everything before it matches"
    rewired = at.rewired()
    if not rewired:
        return "everything after it matches"
    other = _in_place(at, rewired)
    count = counted(len(rewired), "wire")
    if other:
        return f"everything after it matches; {count} {'reads' if len(rewired) == 1 else 'read'} {other}"
    verb = "comes" if len(rewired) == 1 else "come"
    return f"the ops after it are the same, but {count} {verb} from elsewhere; {_shared(at)}"


def _in_place(at: _Parting, rewired: Sequence[tuple[int, int, int]]) -> str:
    """Return `g in place of e` if every later wire with another source replaces the same node by the same other."""
    shift = at.two.size - at.one.size
    pairs = {(at.one.sources[node - shift][slot], source) for node, slot, source in rewired}
    if len(pairs) != 1:
        return ""
    ((old, new),) = pairs
    # Both names are taken from the circuit that has both nodes: one name may mean different nodes in the two.
    across = at.across(old)
    back = next((k for k in range(at.one.size) if at.across(k) == new), None)
    if across is not None:
        return f"{at.two.name(new)} in place of {at.two.name(across)}"
    return f"{at.two.name(new) if back is None else at.one.name(back)} in place of {at.one.name(old)}"


def _shared(at: _Parting) -> str:
    """Count the nodes that are in both circuits together with everything they depend on."""
    ids = at.identities()
    count = len(set(ids[0]) & set(ids[1]))
    return f"{count} of {at.one.size} nodes are in both with all they depend on"


def _changed(at: _Parting, one: int, two: int) -> Difference:
    """Report how the first two nodes that differ do so."""
    views = at.one.view(one), at.two.view(two)
    what, detail = _aspect(at, one, two)
    first = f"they first differ at {at.one.told(one)} in the first, {at.two.told(two)} in the second: {detail}"
    behind = [len(middle) - 1 for middle in at.middles]
    rest = _after(at) if max(behind) <= 0 else f"{behind[0]} and {behind[1]} more nodes differ; {_shared(at)}"
    # If only wires differ, this node is the first of those with equal signatures.
    alone = not at.middles[0] and {node for node, _, _ in at.rewired()} == {two}
    sentences = (first, "everything else matches" if alone else rest)
    return Difference("structure", what, views[0].name, views[1].name, sentences=sentences, renamed=at.renamed())


def _aspect(at: _Parting, one: int, two: int) -> tuple[str, str]:
    """Return the kind of a difference between two nodes, and a short description."""
    a = at.one.view(one)
    b = at.two.view(two)
    if a.op.name != b.op.name:
        return "op", f"op {a.op.name} and {b.op.name}"
    if a.op is INPUT:
        return ("type", f"type {a.type} and {b.type}") if a.type != b.type else ("name", f"{a.name} and {b.name}")
    if a.constant is not None:
        return "constant", f"constants {_brief(a.constant)} and {_brief(b.constant)}"
    return _set_otherwise(a, b) or _sources(at, one, two)


def _set_otherwise(one: Node, two: Node) -> tuple[str, str] | None:
    """Return how the settings of two nodes with the same op differ; None if they do not."""
    if one.op.per_call and own_code(one.op) != own_code(two.op):
        return "code", _other_code(one.op, two.op)
    if not one.op.per_call and one.op.settings != two.op.settings:
        return "settings", f"settings {_settings(one)} and {_settings(two)}"
    modes = [write_mode(node.mode, node.op.inputs) for node in (one, two)]
    return None if one.mode == two.mode else ("mode", f"kink mode {modes[0]} and {modes[1]}")


def _other_code(one: Op, two: Op) -> str:
    """Describe how two calls of user code differ."""
    if own_code(one)[0] != own_code(two)[0]:
        return f"{one.title} and {two.title} are your own code and not the same object: what they do is not compared"
    return f"your own code {one.title} is called with other arguments"


def _sources(at: _Parting, one: int, two: int) -> tuple[str, str]:
    sources = (at.one.sources[one], at.two.sources[two])
    op = at.one.view(one).op
    if len(sources[0]) != len(sources[1]):
        return "source", f"{len(sources[0])} and {len(sources[1])} wires"
    slot = _common(*sources)
    read = [side.operand(nodes[slot]) for side, nodes in zip((at.one, at.two), sources, strict=True)]
    return "source", f"wire {op.input_name(slot)} reads {read[0]} and {read[1]}"


def _settings(node: Node) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in node.op.settings) or "none"


def _brief(value: Any) -> str:
    return f"array of shape {np.shape(value)}" if np.ndim(value) else number(plain(value))


class _Gap(NamedTuple):
    """The largest difference between two values: its index, the two numbers and their distance."""

    at: tuple[int, ...]
    values: tuple[Any, Any]
    size: float


class _Numbers(NamedTuple):
    """The tolerances within which two numbers count as equal."""

    rtol: float
    atol: float

    def gap(self, one: Any, two: Any) -> _Gap | None:
        """Return the largest difference beyond the tolerances; None if the two are equal."""
        a = np.asarray(one)
        b = np.asarray(two)
        if a.shape != b.shape:
            return _Gap((), (one, two), math.inf)
        with np.errstate(all="ignore"):
            wide = np.result_type(a, b, np.float64)
            a = a.astype(wide)
            b = b.astype(wide)
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
    sides = matched(one.circuit, two.circuit)
    structure = _structure(*sides)
    if not structure or structure.what in ("inputs", "certificates"):
        pairs = [_Pair(*nodes) for nodes in zip(sides[0].order, sides[1].order, strict=True)]
        difference = replace(_compared(one, two, pairs, pairs, numbers), renamed=structure.renamed)
        return (
            replace(difference, structure=structure, sentences=structure.sentences + difference.sentences)
            if structure
            else difference
        )
    pairs = _named_by_both(one.circuit, two.circuit)
    # Merging nodes changes the gradients of inner nodes: only those of inputs mean the same in both circuits.
    inputs = set(one.circuit.input_indices()), set(two.circuit.input_indices())
    ends = [pair for pair in pairs if pair.one in inputs[0] and pair.two in inputs[1]]
    difference = _compared(one, two, pairs, ends, numbers)
    first = f"the circuits differ ({structure.sentences[0]}); what both name is compared"
    return replace(difference, sentences=(first, *difference.sentences), structure=structure)


def _named_by_both(one: Circuit, two: Circuit) -> list[_Pair]:
    """Return the nodes that both circuits name, in the order of the first, and their outputs."""
    named = {(node, other) for node, name in one.columns.names if (other := two.columns.names.find(name)) is not None}
    named.update(zip(one.columns.outputs.tolist(), two.columns.outputs.tolist(), strict=False))
    return [_Pair(*pair) for pair in sorted(named)]


def _compared(one: Run, two: Run, pairs: Sequence[_Pair], moving: Sequence[_Pair], numbers: _Numbers) -> Difference:
    """Compare the numbers of two runs: values forward, then gradients backward."""
    values = ((pair, numbers.gap(one.values[pair.one], two.values[pair.two])) for pair in pairs)
    gradients = ((pair, numbers.gap(one.gradient(pair.one), two.gradient(pair.two))) for pair in reversed(moving))
    for kind, gaps, count in (("value", values, len(pairs)), ("gradient", gradients, len(moving))):
        differing = [(pair, gap) for pair, gap in gaps if gap is not None]
        if differing:
            pair, gap = differing[0]
            more = len(differing)
            rest = f"{more} of {counted(count, 'node')} {'has' if more == 1 else 'have'} different {kind}s"
            return Difference(
                kind=kind,
                one=one.circuit.name_of(pair.one),
                two=two.circuit.name_of(pair.two),
                values=gap.values,
                index=gap.at,
                size=gap.size,
                sentences=(_apart(kind, one, pair.one, gap), rest),
            )
    agreed = f"no difference in {counted(len(pairs), 'value')} and {counted(len(moving), 'gradient')}"
    return Difference(sentences=(agreed,))


def _apart(kind: str, run: Run, node: int, gap: _Gap) -> str:
    back = " on the way back" if kind == "gradient" else ""
    text = told(run.circuit, node) + where(run.circuit, node)
    what = f"{kind}s differ first{back} at {text}"
    if not gap.at and any(np.ndim(value) for value in gap.values):
        shapes = [str(np.shape(value)) for value in gap.values]
        return f"the {what}: shapes {shapes[0]} and {shapes[1]}"
    element = f", most at {list(gap.at)}" if gap.at else ""
    return f"the {what}{element}: {_digits(*gap.values)}, apart by {gap.size:.3g}"


def _digits(one: Any, two: Any) -> str:
    """Format two numbers, with all their digits if the first few are the same."""
    texts = number(one), number(two)
    return f"{one!r} and {two!r}" if texts[0] == texts[1] else f"{texts[0]} and {texts[1]}"
