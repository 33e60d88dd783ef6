"""Explain: why a gradient is absent, zero, tiny, huge or what it is.

A gradient is a sum over uses of products along wires, so each case has a location: the wire at which something arrived
and nothing (or 0) went on (`gradient_cuts`), the node at which parts cancelled, or the ops whose factors multiply up
to so little or so much along the path that carries most (`run_index.StrongestPath`). For a value of define-by-run
code, `explain_value` says whether it has a gradient at all and how many backward passes added to it.

Start with `explain` here; `gradient_cuts` finds the wires at which a gradient ends. Other rooms call `explain` and
`explain_value`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.backends import RunRecord
from wiregrad.backends.run import largest_magnitude
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import OperandError, format_user_line, short_repr
from wiregrad.frontends.recording.value import MAX_REMEMBERED_PASSES, Value, is_constant, notes_of
from wiregrad.inspect.blame import MAX_ORIGINS, BlameOrigin, blame_gradient, shorten_chain
from wiregrad.inspect.explain.gradient_cuts import (
    GradientCut,
    describe_undifferentiable,
    explain_cut,
    explain_small_factor,
    find_cuts,
)
from wiregrad.inspect.report import Report, describe_node, format_node_place, format_place
from wiregrad.inspect.run_index import MIN_CANCELLATION, ReaderSlot, RunIndex, StrongestPath, describe_value
from wiregrad.ir import Certificate, Place
from wiregrad.ir.columns import is_automatic_name
from wiregrad.ops.faults import is_nonfinite
from wiregrad.ops.gradient_flow import MaskedFlow

TINY_GRADIENT = 1e-6
"""A gradient below this magnitude is called tiny."""
HUGE_GRADIENT = 1e6
"""A gradient above this magnitude is called huge."""
SHRUNK_GRADIENT = 1e-4
"""A gradient that the factors of its path made smaller than this is called tiny too."""
GROWN_GRADIENT = 1e4
"""A gradient that the factors of its path made larger than this is called huge too."""


@dataclass(frozen=True)
class GradientCause:
    """One op that made a gradient what it is."""

    op: str
    node: str
    place: Place | None
    said: str
    """The explanation, a sentence with numbers."""

    def __str__(self) -> str:
        return self.said if self.said.endswith(format_place(self.place)) else self.said + format_place(self.place)


@dataclass(frozen=True, slots=True)
class PathFactor:
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
    causes: tuple[GradientCause, ...]
    """The causes that are shown, the most important first."""
    path: tuple[PathFactor, ...] = ()
    """The strongest path, from the output to the node."""
    notes: tuple[str, ...] = ()
    more: int = 0
    """How many causes are left out."""

    def lines(self) -> Iterator[str]:
        """Return the explanation: a headline, then the causes, the path and the notes."""
        yield f"the gradient of {self.name} is {describe_value(self.gradient)}: {_KIND_SENTENCES[self.kind]}"
        yield from (f"  {cause}" for cause in self.causes)
        if self.more:
            yield f"  and {self.more} more"
        if self.path:
            steps = shorten_chain([f"{format_brief_number(step.factor)} ({step.op})" for step in self.path])
            yield f"  along the path that carries most: {' x '.join(steps)}"
        yield from (f"  {note}" for note in self.notes)


_KIND_SENTENCES = {
    "absent": "no gradient comes back to it",
    "zero": "what flows back is 0",
    "tiny": "what flows back nearly vanishes",
    "huge": "what flows back grows very large",
    "nonfinite": "a number on the way is not finite",
    "cancelling": "its parts nearly cancel",
    "ordinary": "nothing unusual",
    "accumulated": "it adds up over several backward passes",
    "none": "not computed",
}


def explain(run: RunRecord, name: str) -> Explanation:
    """Explain why the gradient of a node is what it is.

    >>> import wiregrad as wg
    >>> print(explain(wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0), "x"))
    the gradient of x is 0: no gradient comes back to it
      relu is dead or saturated: it lets nothing through at x = -2, outside its bounds (formula:1:5)
    """
    node = run.circuit.index(name)
    gradient = run.gradient(node)
    with np.errstate(all="ignore"):
        draft = _draft_explanation(RunIndex(run), node, classify_gradient(gradient))
        causes = tuple(say() for say in draft.causes[:MAX_ORIGINS])
    more = len(draft.causes) - len(causes)
    notes = (*draft.notes, *_element_notes(gradient))
    shown_name = run.circuit.reference_to(node) if is_automatic_name(name) else name
    return Explanation(shown_name, draft.kind, to_python_number(gradient), causes, draft.path, notes, more)


def classify_gradient(gradient: ArrayLike) -> str:
    """Classify a gradient by its numbers alone.

    >>> classify_gradient(0.0), classify_gradient(np.array([1.0, np.nan])), classify_gradient(1e-9)
    ('zero', 'nonfinite', 'tiny')
    """
    if np.any(is_nonfinite(gradient)):
        return "nonfinite"
    size = largest_magnitude(gradient)
    if not size:
        return "zero" if np.size(gradient) else "ordinary"
    if size < TINY_GRADIENT:
        return "tiny"
    return "huge" if size > HUGE_GRADIENT else "ordinary"


@dataclass(frozen=True)
class _ExplanationDraft:
    """A kind, and functions that write the causes; only those that are shown are called."""

    kind: str
    causes: Sequence[Callable[[], GradientCause]]
    path: tuple[PathFactor, ...] = ()
    notes: tuple[str, ...] = ()


def _draft_explanation(index: RunIndex, node: int, kind: str) -> _ExplanationDraft:
    if kind == "nonfinite":
        return _ExplanationDraft(kind, [partial(_cause_from_origin, origin) for origin in blame_gradient(index, node)])
    if not np.size(index.values[node]):
        return _ExplanationDraft(kind, [])
    if kind == "zero" and node != index.root:
        return _ZeroGradient(index, node).draft_explanation()
    return _NonzeroGradient(index, node).draft_explanation(kind)


def _cause_from_origin(origin: BlameOrigin) -> GradientCause:
    return GradientCause(origin.op, origin.node, origin.place, origin.said)


def _element_notes(gradient: ArrayLike) -> Iterator[str]:
    """Note an empty gradient, or one most of whose elements are 0."""
    array = np.asarray(gradient)
    if not array.size:
        yield "it has no elements"
    elif array.ndim and 0.5 <= np.mean(array == 0) < 1.0:
        yield f"{np.sum(array == 0)} of its {array.size} elements are exactly 0"


def _cause_at_node(index: RunIndex, node: int, sentence: str) -> GradientCause:
    return GradientCause(index.rows[node].op.title, index.circuit.reference_to(node), index.place_of(node), sentence)


def _cancellation_cause(strongest: StrongestPath, node: int) -> GradientCause:
    """Report which parts of a gradient cancel, and where their paths meet."""
    index = strongest.index
    uses = strongest.rank_uses(node)
    circuit = index.circuit
    parts = [
        f"{describe_value(index.sent_gradient(wire))} from "
        f"{describe_node(circuit, wire[0])}{format_node_place(circuit, wire[0])}"
        for wire in uses[:4]
    ]
    more = f" and {len(uses) - 4} more" if len(uses) > 4 else ""
    join = strongest.find_meeting_node(uses[0][0], uses[1][0])
    sentence = (
        f"what comes back to {circuit.reference_to(node)} cancels: {', '.join(parts)}{more} add up to "
        f"{describe_value(index.run.gradient(node))}; the paths meet in {index.rows[join].op.title}"
    )
    return _cause_at_node(index, join, sentence)


class _ZeroGradient:
    """Explains a gradient that is 0 everywhere."""

    def __init__(self, index: RunIndex, node: int) -> None:
        self.index = index
        self.circuit = index.circuit
        self.node = node
        self.strongest = StrongestPath(index)

    def draft_explanation(self) -> _ExplanationDraft:
        """Report the wires at which the gradient ended."""
        if not self.index.active[self.node]:
            return _ExplanationDraft("absent", [self._inactive_cause])
        search = find_cuts(self.index, self.node)
        causes = self._cut_causes(search.cuts)
        causes += self._escape_causes(search.passed, steered=not causes)
        return _ExplanationDraft(self._zero_kind({cut.kind for cut in search.cuts}), causes or self._unused_causes())

    def _zero_kind(self, cuts: set[str]) -> str:
        flow = self.index.flows[self.node]
        absent = flow is None or (type(flow) is MaskedFlow and not np.any(flow.mask))
        if cuts == {"cancelling"}:
            return "cancelling"
        return "absent" if absent and (not cuts or "absent" in cuts) else "zero"

    def _inactive_cause(self) -> GradientCause:
        """Report that no gradient is ever sent to this node."""
        what = describe_undifferentiable(self.circuit.type_of(self.node).dtype)
        name = self.index.describe_operand(self.node)
        sentence = f"{name} is {what}: only real and complex numbers have gradients"
        if not what:
            sentence = f"{name} depends on no input: gradients flow only to inputs and to what is computed from them"
        return _cause_at_node(self.index, self.node, sentence)

    def _cut_causes(self, cuts: Iterable[GradientCut]) -> list[Callable[[], GradientCause]]:
        """Group the cuts by op and line: a loop makes many nodes of one line."""
        alike: dict[Any, list[GradientCut]] = {}
        for cut in cuts:
            place = None if cut.slot is None else self.index.place_of(cut.node)
            key = cut.node if place is None else (self.index.rows[cut.node].op.title, place, cut.kind)
            alike.setdefault(key, []).append(cut)
        return [partial(self._cause_of_cuts, group) for group in alike.values()]

    def _cause_of_cuts(self, alike: Sequence[GradientCut]) -> GradientCause:
        first = alike[0]
        others = len({cut.node for cut in alike}) - 1
        if first.slot is None:
            return _cancellation_cause(self.strongest, first.node)
        more = f"; {others} more like it at this line" if others else ""
        return _cause_at_node(self.index, first.node, explain_cut(self.index, first) + more)

    def _escape_causes(self, passed: Container[int], *, steered: bool) -> list[Callable[[], GradientCause]]:
        """Report where values that depend on the node left the recording as plain numbers."""
        escaped = [k for k in self.circuit.certificates if k.node in passed]
        relevant = [k for k in escaped if steered or not isinstance(k.outcome, bool)]
        return [partial(self._escape_cause, certificate) for certificate in _first_of_each_line(relevant)]

    def _escape_cause(self, certificate: Certificate) -> GradientCause:
        node = certificate.node
        op = self.index.rows[node].op.title
        name = self.circuit.reference_to(node)
        sentence = f"{name} ({op}) is used only as a condition in Python: it was {certificate.outcome}"
        if not isinstance(certificate.outcome, bool):
            sentence = (
                f"{name} ({op}) left the recording as a plain number (.item(), .data, an index or text): what was "
                f"computed from it has no gradient; if that is meant, write wg.stop_gradient"
            )
        return GradientCause(op, name, certificate.place or self.index.place_of(node), sentence)

    def _unused_causes(self) -> list[Callable[[], GradientCause]]:
        """Report that the output does not depend on the node; a branch that was not taken may be why."""
        what = f"the {self.index.rows[self.node].op.title} {self.circuit.reference_to(self.node)}"
        sentence = f"no wire leads from {what} to the output: it is not used in what is computed"
        steered = [k for k in self.circuit.certificates if isinstance(k.outcome, bool)]
        fact = partial(_cause_at_node, self.index, self.node, sentence)
        return [
            fact,
            *(partial(self._untaken_branch_cause, certificate) for certificate in _first_of_each_line(steered)),
        ]

    def _untaken_branch_cause(self, certificate: Certificate) -> GradientCause:
        op = self.index.rows[certificate.node].op.title
        name = self.circuit.reference_to(certificate.node)
        sentence = f"perhaps it is used in a branch that was not taken: {op} was {certificate.outcome}"
        return GradientCause(op, name, certificate.place, sentence)


def _first_of_each_line(certificates: Iterable[Certificate]) -> Iterable[Certificate]:
    """Return the first certificate of each line: a loop steers many times."""
    first_by_line: dict[Place | int, Certificate] = {}
    for certificate in certificates:
        first_by_line.setdefault(certificate.place or certificate.node, certificate)
    return first_by_line.values()


class _NonzeroGradient:
    """Explains a nonzero gradient by its strongest path."""

    def __init__(self, index: RunIndex, node: int) -> None:
        self.index = index
        self.node = node
        self.strongest = StrongestPath(index)
        self.wires = self.strongest.path_to(node)
        self.factors = tuple(self._path_factor(wire) for wire in self.wires)

    def _path_factor(self, wire: ReaderSlot) -> PathFactor:
        node = wire[0]
        op = self.index.rows[node].op.title
        name = self.index.circuit.reference_to(node)
        return PathFactor(op, name, self.index.place_of(node), self.strongest.wire_factor(wire))

    def draft_explanation(self, kind: str) -> _ExplanationDraft:
        """Report the factors that made the gradient small or large, or the parts that cancel."""
        size = largest_magnitude(self.index.run.gradient(self.node))
        nodes = self.strongest.find_cancelling([self.node, *(wire[0] for wire in reversed(self.wires))])
        cancelling = [partial(_cancellation_cause, self.strongest, node) for node in nodes]
        notes: tuple[str, ...] = ()
        if kind == "ordinary" and not cancelling:
            kind = self._kind_by_path(size)
            notes = () if kind == "ordinary" else (self._describe_change(size),)
        ranked = [] if kind == "ordinary" else self._rank_factor_causes(grows=kind == "huge")
        carried = largest_magnitude(self.index.sent_gradient(self.wires[-1])) if self.wires else 0.0
        if cancelling and (kind == "ordinary" or (kind == "tiny" and carried > size * MIN_CANCELLATION)):
            return _ExplanationDraft("cancelling", [*cancelling, *ranked], self.factors)
        return _ExplanationDraft(kind, [*ranked, *cancelling], self.factors, notes)

    def _kind_by_path(self, size: float) -> str:
        """Classify a gradient of ordinary size by the factors of its path."""
        product = math.prod(abs(step.factor) for step in self.factors)
        shrinks = product < SHRUNK_GRADIENT and size < SHRUNK_GRADIENT
        grows = product > GROWN_GRADIENT and size > GROWN_GRADIENT
        if shrinks:
            return "tiny"
        return "huge" if grows else "ordinary"

    def _describe_change(self, size: float) -> str:
        start = largest_magnitude(self.index.run.gradient(self.index.root))
        return f"what starts as {format_brief_number(start)} at the output arrives as {format_brief_number(size)}"

    def _rank_factor_causes(self, *, grows: bool) -> list[Callable[[], GradientCause]]:
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
        return [partial(self._factor_cause, members[key]) for key in strong]

    def _factor_cause(self, members: Sequence[int]) -> GradientCause:
        """Report the product of the factors of one op at one line."""
        most = max(members, key=lambda k: abs(math.log(abs(self.factors[k].factor) or 5e-324)))
        step = self.factors[most]
        wire = self.wires[most]
        why = explain_small_factor(self.index, wire, step.factor)
        spot = self.index.describe_inputs(wire[0], [wire[1]])
        factor = format_brief_number(step.factor)
        sentence = f"{step.op} multiplies by {factor} at {spot}" + (f": {why}" if why else "")
        if len(members) > 1:
            total = format_brief_number(math.prod(self.factors[k].factor for k in members))
            most_at = f"most at {spot}: {factor}" + (f", {why}" if why else "")
            sentence = f"{step.op} multiplies {len(members)} times, by {total} in all, {most_at}"
        return GradientCause(step.op, step.node, step.place, sentence)


def explain_value(value: Value) -> Explanation:
    """Explain why the gradient of a value is what it is.

    >>> w = Value(2.0, name="w")
    >>> (w * 3.0).backward()
    >>> (w * 5.0).backward()
    >>> print(explain_value(w))  # doctest: +ELLIPSIS
    the gradient of w is 8: it adds up over several backward passes
      2 backward passes added to it without it being cleared: set w.grad = None before backward() (...:1)
    """
    if not isinstance(value, Value):
        raise OperandError(
            f"wg.explain takes a value; got {short_repr(value)}: for a run call run.explain(name){format_user_line()}"
        )
    name = value.name or "this value"
    if value.grad is None:
        return Explanation(name, "none", None, (_explain_missing(value, name),))
    gradient = value.grad.data if isinstance(value.grad, Value) else value.grad
    kind = classify_gradient(gradient)
    causes = tuple(_explain_passes(value, name))
    # Accumulation does not explain a gradient that is 0 or not finite.
    adds = len(notes_of(value).passes) > 1 and kind not in ("zero", "nonfinite")
    kind_shown = "accumulated" if adds else kind
    return Explanation(name, kind_shown, gradient, causes, notes=tuple(_advise_on_value(value, kind)))


def _explain_missing(value: Value, name: str) -> GradientCause:
    if is_constant(value):
        return _cause_of_value(
            name, "it is a constant (detach, stop_gradient or no_grad): no gradient comes back to it", None
        )
    sentence = (
        "no backward() has passed it: call backward() on something that was computed from it; what was computed from "
        "v.item(), v.data, v.detach() or inside wg.no_grad() has left the recording and leads back to nothing"
    )
    return _cause_of_value(name, sentence, None)


def _explain_passes(value: Value, name: str) -> Iterator[GradientCause]:
    """Report how many backward passes added to a leaf, unless it was exactly one."""
    called = value.name or "v"
    passes = notes_of(value).passes
    if value._tape is not None or len(passes) == 1:
        return
    if not passes:
        yield _cause_of_value(name, f"{called}.grad was set by hand, and no backward() has added to it since", None)
        return
    count = f"at least {MAX_REMEMBERED_PASSES}" if len(passes) == MAX_REMEMBERED_PASSES else str(len(passes))
    sentence = (
        f"{count} backward passes added to it without it being cleared: set {called}.grad = None before backward()"
    )
    yield _cause_of_value(name, sentence, passes[1])


def _advise_on_value(value: Value, kind: str) -> Iterator[str]:
    """Suggest `run.explain` for an unusual gradient: a value keeps only the sum of what arrived."""
    if kind != "ordinary" and (value._tape is not None or notes_of(value).passes):
        named = "" if value.name else ", after giving it a name (v.name = 'v')"
        call = f"wg.run(loss).explain({value.name or 'v'!r})"
        yield f"{call} says why; loss is the value that backward() was called on{named}"


def _cause_of_value(name: str, sentence: str, place: Place | None) -> GradientCause:
    return GradientCause("backward", name, place, sentence)
