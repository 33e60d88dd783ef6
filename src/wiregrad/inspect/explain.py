"""Explain: why a gradient is absent, zero, tiny, huge or what it is.

A gradient is a sum over uses of products along wires, so each case has a location: the wire at which something arrived
and nothing (or 0) went on, the node at which parts cancelled, or the ops whose factors multiply to so little or so much
along the strongest path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.backends.magnitude import largest
from wiregrad.dtypes import number, plain
from wiregrad.inspect.blame import MOST, Origin, elided, faults_of
from wiregrad.inspect.cuts import Cut, find_cuts
from wiregrad.inspect.reasons import reason, what_it_is, why_small
from wiregrad.inspect.report import Report, at, told, where
from wiregrad.inspect.strongest import CANCELS, Strongest
from wiregrad.inspect.wiring import Wire, Wiring, shown
from wiregrad.ir import Certificate, Place
from wiregrad.ops.fault import bad
from wiregrad.ops.flow import Masked

TINY = 1e-6
"""A gradient below this magnitude is called tiny."""
HUGE = 1e6
"""A gradient above this magnitude is called huge."""
SHRINKS = 1e-4
"""A gradient that the factors of its path made smaller than this is called tiny too."""
GROWS = 1e4
"""A gradient that the factors of its path made larger than this is called huge too."""


@dataclass(frozen=True)
class Cause:
    """One op that made a gradient what it is."""

    op: str
    node: str
    place: Place | None
    said: str
    """The explanation, a sentence with numbers."""

    def __str__(self) -> str:
        return self.said if self.said.endswith(at(self.place)) else self.said + at(self.place)


@dataclass(frozen=True, slots=True)
class Factor:
    """One step of the strongest path of a gradient."""

    op: str
    node: str
    place: Place | None
    factor: float
    """The local derivative; along arrays the ratio of the norms after and before the step."""


@dataclass(frozen=True, repr=False)
class Explanation(Report):
    """Why a gradient is what it is."""

    name: str
    kind: str
    """`absent`, `zero`, `tiny`, `huge`, `nonfinite`, `cancelling`, `ordinary`; for values `accumulated`, `none`."""
    gradient: Any
    causes: tuple[Cause, ...]
    """The causes that are shown, the most important first."""
    path: tuple[Factor, ...] = ()
    """The strongest path, from the output to the node."""
    notes: tuple[str, ...] = ()
    more: int = 0
    """How many causes are left out."""

    def lines(self) -> Iterator[str]:
        """Return the explanation: a headline, then the causes, the path and the notes."""
        yield f"the gradient of {self.name} is {shown(self.gradient)}: {_KINDS[self.kind]}"
        yield from (f"  {cause}" for cause in self.causes)
        if self.more:
            yield f"  and {self.more} more"
        if self.path:
            steps = elided([f"{number(step.factor)} ({step.op})" for step in self.path])
            yield f"  along the path that carries most: {' x '.join(steps)}"
        yield from (f"  {note}" for note in self.notes)


_KINDS = {
    "absent": "nothing flows back to it",
    "zero": "what flows back is 0",
    "tiny": "what flows back all but vanishes",
    "huge": "what flows back is blown up",
    "nonfinite": "something broke on the way",
    "cancelling": "its parts nearly cancel",
    "ordinary": "nothing unusual",
    "accumulated": "it adds up over several backward passes",
    "none": "not computed",
}


def explain(run: Run, name: str) -> Explanation:
    """Explain why the gradient of a node is what it is.

    >>> import wiregrad as wg
    >>> print(explain(wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0), "x"))
    the gradient of x is 0: nothing flows back to it
      relu is dead or saturated: it lets nothing through at x = -2, outside its bounds (formula:1:5)
    """
    node = run.circuit.index(name)
    gradient = run.gradient(node)
    with np.errstate(all="ignore"):
        draft = _answer(run, node, kind_of(gradient))
        causes = tuple(say() for say in draft.causes[:MOST])
    more = len(draft.causes) - len(causes)
    notes = (*draft.notes, *_notes(gradient))
    return Explanation(name, draft.kind, plain(gradient), causes, draft.path, notes, more)


def kind_of(gradient: Any) -> str:
    """Classify a gradient by its numbers alone.

    >>> kind_of(0.0), kind_of(np.array([1.0, np.nan])), kind_of(1e-9)
    ('zero', 'nonfinite', 'tiny')
    """
    if np.any(bad(gradient)):
        return "nonfinite"
    size = largest(gradient)
    if not size:
        return "zero" if np.size(gradient) else "ordinary"
    if size < TINY:
        return "tiny"
    return "huge" if size > HUGE else "ordinary"


@dataclass(frozen=True)
class _Answer:
    """A kind, and functions that write the causes; only those that are shown are called."""

    kind: str
    causes: Sequence[Callable[[], Cause]]
    path: tuple[Factor, ...] = ()
    notes: tuple[str, ...] = ()


def _answer(run: Run, node: int, kind: str) -> _Answer:
    if kind == "nonfinite":
        return _Answer(kind, [partial(_broken, origin) for origin in faults_of(run, node)])
    if not np.size(run.values[node]):
        return _Answer(kind, [])
    index = Wiring(run)
    if kind == "zero" and node != index.root:
        return _Ended(index, node).answer()
    return _Carried(index, node).answer(kind)


def _broken(origin: Origin) -> Cause:
    return Cause(origin.op, origin.node, origin.place, origin.said)


def _notes(gradient: Any) -> Iterator[str]:
    """Note an empty gradient, or one most of whose elements are 0."""
    array = np.asarray(gradient)
    if not array.size:
        yield "it has no elements"
    elif array.ndim and 0.5 <= np.mean(array == 0) < 1.0:
        yield f"{np.sum(array == 0)} of its {array.size} elements are exactly 0"


def _cause(index: Wiring, node: int, sentence: str) -> Cause:
    return Cause(index.rows[node].op.title, index.circuit.name_of(node), index.place(node), sentence)


def _cancels(strongest: Strongest, node: int) -> Cause:
    """Report which parts of a gradient cancel, and where their paths meet."""
    index = strongest.index
    uses = strongest.uses(node)
    circuit = index.circuit
    parts = [f"{shown(index.sent(wire))} from {told(circuit, wire[0])}{where(circuit, wire[0])}" for wire in uses[:4]]
    more = f" and {len(uses) - 4} more" if len(uses) > 4 else ""
    join = strongest.join(uses[0][0], uses[1][0])
    sentence = (
        f"what comes back to {circuit.name_of(node)} cancels: {', '.join(parts)}{more} add up to "
        f"{shown(index.run.gradient(node))}; the paths meet in {index.rows[join].op.title}"
    )
    return _cause(index, join, sentence)


class _Ended:
    """Explains a gradient that is 0 everywhere."""

    def __init__(self, index: Wiring, node: int) -> None:
        self.index = index
        self.circuit = index.circuit
        self.node = node
        self.strongest = Strongest(index)
        self.active = index.circuit.active()

    def answer(self) -> _Answer:
        """Report the wires at which the gradient ended."""
        if not self.active[self.node]:
            return _Answer("absent", [self._still])
        search = find_cuts(self.index, self.node)
        causes = self._cuts(search.cuts)
        causes += self._left(search.passed, steered=not causes)
        return _Answer(self._kind({cut.kind for cut in search.cuts}), causes or self._unused())

    def _kind(self, cuts: set[str]) -> str:
        flow = self.index.run.flows[self.node]
        absent = flow is None or (type(flow) is Masked and not np.any(flow.mask))
        if cuts == {"cancelling"}:
            return "cancelling"
        return "absent" if absent and (not cuts or "absent" in cuts) else "zero"

    def _still(self) -> Cause:
        """Report that no gradient is ever sent to this node."""
        what = what_it_is(self.circuit.type_of(self.node).dtype)
        name = self.index.operand(self.node)
        sentence = f"{name} is {what}: only real and complex numbers have gradients"
        if not what:
            sentence = f"no input moves {name}: gradients flow only to inputs and to what is computed from them"
        return _cause(self.index, self.node, sentence)

    def _cuts(self, cuts: Iterable[Cut]) -> list[Callable[[], Cause]]:
        """Group the cuts by op and line: a loop makes many nodes of one line."""
        alike: dict[Any, list[Cut]] = {}
        for cut in cuts:
            place = None if cut.slot is None else self.index.place(cut.node)
            key = cut.node if place is None else (self.index.rows[cut.node].op.title, place, cut.kind)
            alike.setdefault(key, []).append(cut)
        return [partial(self._cut, group) for group in alike.values()]

    def _cut(self, alike: Sequence[Cut]) -> Cause:
        first = alike[0]
        others = len({cut.node for cut in alike}) - 1
        if first.slot is None:
            return _cancels(self.strongest, first.node)
        more = f"; {others} more like it at this line" if others else ""
        return _cause(self.index, first.node, reason(self.index, self.active, first) + more)

    def _left(self, passed: Container[int], *, steered: bool) -> list[Callable[[], Cause]]:
        """Report where values that depend on the node left the recording as plain numbers."""
        escaped = [k for k in self.circuit.certificates if k.node in passed]
        relevant = [k for k in escaped if steered or not isinstance(k.outcome, bool)]
        return [partial(self._escaped, certificate) for certificate in _by_line(relevant)]

    def _escaped(self, certificate: Certificate) -> Cause:
        node = certificate.node
        op = self.index.rows[node].op.title
        name = self.circuit.name_of(node)
        sentence = f"{name} ({op}) only steered Python: it came out {certificate.outcome}"
        if not isinstance(certificate.outcome, bool):
            sentence = (
                f"{name} ({op}) left the recording as a plain number (.item(), .data, an index or text): what was "
                f"computed from it has no gradient; if that is meant, write wg.stop_gradient"
            )
        return Cause(op, name, certificate.place or self.index.place(node), sentence)

    def _unused(self) -> list[Callable[[], Cause]]:
        """Report that the output does not depend on the node; a branch that was not taken may be why."""
        what = f"the {self.index.rows[self.node].op.title} {self.circuit.name_of(self.node)}"
        sentence = f"no wire leads from {what} to the output: it is not used in what is computed"
        steered = [k for k in self.circuit.certificates if isinstance(k.outcome, bool)]
        fact = partial(_cause, self.index, self.node, sentence)
        return [fact, *(partial(self._branch, certificate) for certificate in _by_line(steered))]

    def _branch(self, certificate: Certificate) -> Cause:
        op = self.index.rows[certificate.node].op.title
        name = self.circuit.name_of(certificate.node)
        sentence = f"perhaps it is used in a branch that was not taken: {op} came out {certificate.outcome}"
        return Cause(op, name, certificate.place, sentence)


def _by_line(certificates: Iterable[Certificate]) -> Iterable[Certificate]:
    """Return the first certificate of each line: a loop steers many times."""
    first_by_line: dict[Place | int, Certificate] = {}
    for certificate in certificates:
        first_by_line.setdefault(certificate.place or certificate.node, certificate)
    return first_by_line.values()


class _Carried:
    """Explains a nonzero gradient by its strongest path."""

    def __init__(self, index: Wiring, node: int) -> None:
        self.index = index
        self.node = node
        self.strongest = Strongest(index)
        self.wires = self.strongest.path(node)
        self.factors = tuple(self._factor(wire) for wire in self.wires)

    def _factor(self, wire: Wire) -> Factor:
        node = wire[0]
        op = self.index.rows[node].op.title
        name = self.index.circuit.name_of(node)
        return Factor(op, name, self.index.place(node), self.strongest.factor(wire))

    def answer(self, kind: str) -> _Answer:
        """Report the factors that made the gradient small or large, or the parts that cancel."""
        size = largest(self.index.run.gradient(self.node))
        nodes = self.strongest.cancelling([self.node, *(wire[0] for wire in reversed(self.wires))])
        cancelling = [partial(_cancels, self.strongest, node) for node in nodes]
        notes: tuple[str, ...] = ()
        if kind == "ordinary" and not cancelling:
            kind = self._on_the_way(size)
            notes = () if kind == "ordinary" else (self._change(size),)
        ranked = [] if kind == "ordinary" else self._ranked(grows=kind == "huge")
        carried = largest(self.index.sent(self.wires[-1])) if self.wires else 0.0
        if cancelling and (kind == "ordinary" or (kind == "tiny" and carried > size * CANCELS)):
            return _Answer("cancelling", [*cancelling, *ranked], self.factors)
        return _Answer(kind, [*ranked, *cancelling], self.factors, notes)

    def _on_the_way(self, size: float) -> str:
        """Classify a gradient of ordinary size by the factors of its path."""
        product = math.prod(abs(step.factor) for step in self.factors)
        shrinks = product < SHRINKS and size < SHRINKS
        grows = product > GROWS and size > GROWS
        if shrinks:
            return "tiny"
        return "huge" if grows else "ordinary"

    def _change(self, size: float) -> str:
        start = largest(self.index.run.gradient(self.index.root))
        return f"what starts as {number(start)} at the output arrives as {number(size)}"

    def _ranked(self, *, grows: bool) -> list[Callable[[], Cause]]:
        """Return the ops with the strongest factors, those of one line taken together."""
        totals: dict[Any, float] = {}
        members: dict[Any, list[int]] = {}
        for k, step in enumerate(self.factors):
            key = step.op, step.place
            strength = math.log10(abs(step.factor)) if step.factor else -400.0
            totals[key] = totals.get(key, 0.0) + (strength if grows else -strength)
            members.setdefault(key, []).append(k)
        strong = [key for key, total in totals.items() if total > 0.3 and math.isfinite(total)]
        strong.sort(key=lambda key: -totals[key])
        return [partial(self._multiplied, members[key]) for key in strong]

    def _multiplied(self, members: Sequence[int]) -> Cause:
        """Report the product of the factors of one op at one line."""
        most = max(members, key=lambda k: abs(math.log(abs(self.factors[k].factor) or 5e-324)))
        step = self.factors[most]
        wire = self.wires[most]
        why = why_small(self.index, wire, step.factor)
        spot = self.index.given(wire[0], [wire[1]])
        factor = number(step.factor)
        sentence = f"{step.op} multiplies by {factor} at {spot}" + (f": {why}" if why else "")
        if len(members) > 1:
            total = number(math.prod(self.factors[k].factor for k in members))
            most_at = f"most at {spot}: {factor}" + (f", {why}" if why else "")
            sentence = f"{step.op} multiplies {len(members)} times, by {total} in all, {most_at}"
        return Cause(step.op, step.node, step.place, sentence)
