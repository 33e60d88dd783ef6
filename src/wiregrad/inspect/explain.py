"""Explain: why a gradient is absent, zero, tiny, huge or what it is.

A gradient is a sum over uses of products along wires, so each case has a location: the wire at which something arrived
and nothing (or 0) went on (a `GradientCut`), the node at which parts cancelled, or the ops whose factors multiply up to
so little or so much along the strongest path (`report.StrongestPath`). For a value of define-by-run code,
`explain_value` says whether it has a gradient at all and how many backward passes added to it. A gradient may leave out
a jump of the output; `jumps` finds those near the point.

The walk that finds cuts goes from a node towards the output and carries a mask of the elements of each array that the
node moves: an array into which the node was stacked with others may have a nonzero gradient elsewhere. A wire cuts an
element if the element moves nothing behind the wire, or if the gradient that came back to it was lost on the wire. The
walk goes on with the remaining elements, so several cuts are found where several ops share the work.

The sentences follow from the op's record: its pattern, its kinks, which input is a condition, which slopes it has. By
the letters of the op table, `x` is the input that an op bends and its other inputs are settings, while `a` and `b` are
alike.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord
from wiregrad.backends.interpreter import largest_magnitude
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import OperandError, format_user_line, short_repr
from wiregrad.frontends.recording.value import MAX_REMEMBERED_PASSES, Value, is_constant, notes_of
from wiregrad.inspect.blame import MAX_ORIGINS, BlameOrigin, blame_gradient, shorten_chain
from wiregrad.inspect.jumps import describe_jumps, find_moved
from wiregrad.inspect.kinks import describe_choices
from wiregrad.inspect.report import (
    MIN_CANCELLATION,
    GradientFlow,
    ReaderSlot,
    Report,
    RunIndex,
    StrongestPath,
    describe_node,
    describe_value,
    format_derivative,
    format_node_place,
    format_place,
    join_with_and,
    measure_norm,
)
from wiregrad.inspect.wire_rules import compute_or_nan
from wiregrad.ir import Certificate, Op, Pattern, Place, Row
from wiregrad.ir.columns import is_automatic_name
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent, is_nonfinite, match_dtype, shape_of

TINY_GRADIENT = 1e-6
"""A gradient below this magnitude is called tiny."""
HUGE_GRADIENT = 1e6
"""A gradient above this magnitude is called huge."""
SHRUNK_GRADIENT = 1e-4
"""A gradient that the factors of its path made smaller than this is called tiny too."""
GROWN_GRADIENT = 1e4
"""A gradient that the factors of its path made larger than this is called huge too."""
MIN_FACTOR_STRENGTH = 0.3
"""Ops that change a gradient by fewer powers of ten are not named as causes."""
MAX_NAMED_TURNS = 3
"""Maximum number of negative local derivatives that a note names."""


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
    is_partial: bool = False
    """Whether the output may change in a way that the gradient leaves out, as some of the notes say."""
    is_on_kink: bool = False
    """Whether the point is on a kink or tie, so that the gradient is one of several, as some of the notes say."""

    def lines(self) -> Iterator[str]:
        """Return the explanation: a headline, then the causes, the path and the notes."""
        yield f"the gradient of {self.name} is {describe_value(self.gradient)}: {self._headline()}"
        yield from (f"  {cause}" for cause in self.causes)
        if self.more:
            yield f"  and {self.more} more"
        if self.path:
            steps = shorten_chain([f"{format_brief_number(step.factor)} ({step.op})" for step in self.path])
            yield f"  along the largest part at each node: {' x '.join(steps)}"
        yield from (f"  {note}" for note in self.notes)

    def _headline(self) -> str:
        if self.kind == "ordinary" and self.is_partial:
            return "an ordinary number, but it may leave something out"
        if self.kind == "ordinary" and self.is_on_kink:
            return "an ordinary number, but one of several: the point is on a kink"
        if self.kind == "cancelling" and not np.any(self.gradient):
            return "its parts cancel"
        return _KIND_SENTENCES[self.kind]


_BLAME_CALL = "run.blame() (wiregrad blame on the command line)"
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
        index = RunIndex(run)
        draft = _draft_explanation(index, node, classify_gradient(gradient))
        causes = tuple(say() for say in draft.causes[:MAX_ORIGINS])
        is_searched = draft.kind != "nonfinite" and index.active[node]
        jumps = tuple(describe_jumps(index, node)) if is_searched else ()
        # A gradient of 0 has the kinks on its way among its causes.
        has_slopes = draft.kind not in ("absent", "zero")
        moved = find_moved(index, node) if is_searched else ()
        choices = tuple(describe_choices(index, moved, with_slopes=has_slopes))
        notes = (*draft.notes, *_element_notes(gradient), *choices, *jumps, *_blame_notes(index, draft.kind))
    more = len(draft.causes) - len(causes)
    is_named = name in run.circuit and not is_automatic_name(name)
    shown_name = name if is_named else run.circuit.reference_to(node)
    number = to_python_number(gradient)
    return Explanation(shown_name, draft.kind, number, causes, draft.path, notes, more, bool(jumps), bool(choices))


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
        zeros = int(np.sum(array == 0))
        yield f"{zeros} of its {array.size} elements {'is' if zeros == 1 else 'are'} exactly 0"


def _blame_notes(index: RunIndex, kind: str) -> Iterator[str]:
    """Point to `blame` where the gradient or the output is not finite."""
    if kind == "nonfinite":
        yield f"{_BLAME_CALL} says how it spread, and what to write instead"
    elif np.any(is_nonfinite(index.values[index.root])):
        yield f"the output is {describe_value(index.values[index.root])}: {_BLAME_CALL} says where that comes from"


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
        carried = largest_magnitude(self.index.sent_gradient(self.wires[-1])) if self.wires else 0.0
        notes: tuple[str, ...] = ()
        if kind == "ordinary" and not cancelling:
            kind = self._kind_by_path(size, carried)
            notes = () if kind == "ordinary" else (self._describe_change(size),)
        ranked = [] if kind == "ordinary" else self._rank_factor_causes(grows=kind == "huge")
        if cancelling and (kind == "ordinary" or (kind == "tiny" and carried > size * MIN_CANCELLATION)):
            return _ExplanationDraft("cancelling", [*cancelling, *ranked], self.factors)
        return _ExplanationDraft(kind, [*ranked, *cancelling], self.factors, (*notes, *self._sign_notes()))

    def _sign_notes(self) -> Iterator[str]:
        """Note which steps of the path made a gradient negative, unless signs are mixed or other paths decide."""
        if _common_sign(self.index.run.gradient(self.node)) >= 0:
            return
        turning = []
        for reader, slot in self.wires:
            sign = _common_sign(self.index.sent_gradient((reader, slot)))
            source = self.index.rows[reader].sources[slot]
            if not sign or sign != _common_sign(self.index.run.gradient(source)):
                return
            if sign != _common_sign(self.index.run.gradient(reader)):
                turning.append((reader, slot))
        if turning:
            texts = [self._describe_turn(wire) for wire in turning[:MAX_NAMED_TURNS]]
            more = [f"{len(turning) - MAX_NAMED_TURNS} more"] if len(turning) > MAX_NAMED_TURNS else []
            yield f"it is negative because of {join_with_and([*texts, *more])}"

    def _describe_turn(self, wire: ReaderSlot) -> str:
        """Describe a step that turns the sign."""
        circuit = self.index.circuit
        row = self.index.rows[wire[0]]
        local = self.index.local_derivative(wire)
        text = f"{row.op.title}, which turns its sign"
        if local is not None:
            derivative = format_derivative(circuit.reference_to(wire[0]), circuit.reference_to(row.sources[wire[1]]))
            text = f"{derivative}{self._format_turn(wire, local)}"
        return f"{text}{format_place(self.index.place_of(wire[0]))}"

    def _format_turn(self, wire: ReaderSlot, local: Any) -> str:
        """Format a negative local derivative as ` = -2`, as ` = w = -2` if it is another input, else as ` < 0`."""
        if not isinstance(local, float | np.floating):
            return " < 0" if np.all(fill_absent(local) < 0) else " < 0 where a gradient arrives"
        others = [slot for slot in range(len(self.index.rows[wire[0]].sources)) if slot != wire[1]]
        swaps = self.index.rows[wire[0]].op.pattern is Pattern.SWAP and len(others) == 1
        if swaps and np.array_equal(self.index.input_values(wire[0])[others[0]], local):
            return f" = {self.index.describe_inputs(wire[0], others)}"
        return f" = {describe_value(local)}"

    def _kind_by_path(self, size: float, carried: float) -> str:
        """Classify a gradient of ordinary size by how much the factors of its path changed it.

        Arrays and numbers are compared by the same measure, the largest element. The factors along arrays are ratios of
        norms, whose product depends on the number of elements.
        """
        ratio = carried / (largest_magnitude(self.index.run.gradient(self.index.root)) or 1.0)
        # Many parts that add up, or that cancel, are no matter of factors.
        if ratio < SHRUNK_GRADIENT and size < SHRUNK_GRADIENT:
            return "tiny" if self._factor_strength(grows=False) > -math.log10(SHRUNK_GRADIENT) else "ordinary"
        if ratio > GROWN_GRADIENT and size > GROWN_GRADIENT:
            return "huge" if self._factor_strength(grows=True) > math.log10(GROWN_GRADIENT) else "ordinary"
        return "ordinary"

    def _factor_strength(self, *, grows: bool) -> float:
        """Return by how many powers of ten the strongest ops change a gradient together."""
        return sum(self._measure_factors(grows=grows).values())

    def _describe_change(self, size: float) -> str:
        start = largest_magnitude(self.index.run.gradient(self.index.root))
        return f"what starts as {format_brief_number(start)} at the output arrives as {format_brief_number(size)}"

    def _rank_factor_causes(self, *, grows: bool) -> list[Callable[[], GradientCause]]:
        """Return the ops with the strongest factors, those of one line taken together."""
        members: dict[Any, list[int]] = {}
        for k, step in enumerate(self.factors):
            members.setdefault((step.op, step.place), []).append(k)
        return [partial(self._factor_cause, members[key]) for key in self._measure_factors(grows=grows)]

    def _measure_factors(self, *, grows: bool) -> dict[Any, float]:
        """Return the powers of ten by which each op at a line changes a gradient, for the strong ones in order."""
        totals: dict[Any, float] = {}
        for step in self.factors:
            strength = math.log10(abs(step.factor)) if step.factor else -400.0
            key = step.op, step.place
            totals[key] = totals.get(key, 0.0) + (strength if grows else -strength)
        ranked = sorted(totals.items(), key=lambda item: -item[1])
        return {key: total for key, total in ranked if total > MIN_FACTOR_STRENGTH and math.isfinite(total)}

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


def _common_sign(x: ArrayLike) -> int:
    """Return 1 or -1 if all numbers that are not 0 have that sign; 0 if they differ, or are complex."""
    array = np.asarray(x)
    if array.dtype.kind == "c":
        return 0
    return int(np.any(array > 0)) - int(np.any(array < 0))


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
        notes = tuple(_advise_on_rebinding(value))
        return Explanation(name, "none", None, (_explain_missing(value, name),), notes=notes)
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
    """Suggest what to ask of a run about an unusual gradient: a value keeps only the sum of what arrived."""
    if kind == "ordinary" or (value._tape is None and not notes_of(value).passes):
        return
    loss = "loss is the value that backward() was called on"
    if kind == "nonfinite":
        yield f"wg.run(loss).blame() says why; {loss}"
        return
    named = "" if value.name else ", after giving it a name (v.name = 'v')"
    yield f"wg.run(loss).explain({value.name or 'v'!r}) says why; {loss}{named}"


def _advise_on_rebinding(value: Value) -> Iterator[str]:
    """Say how a parameter is updated if a value may be an updated one, as `w = w - step` makes it after a sweep."""
    op = value.op
    if op is None or op.name not in UPDATE_OPS:
        return
    updated = [x for x in value.inputs if isinstance(x, Value)]
    if len(updated) == 1 and updated[0].grad is not None:
        w = updated[0].name or "w"
        yield (
            f"it is a new value, computed from {w} by {op.name}: if it is meant to update {w} in a training loop, "
            f"write {w}.data -= step, which keeps the parameter itself"
        )


UPDATE_OPS = ("add", "subtract")
"""The ops that update a parameter by a step."""


def _cause_of_value(name: str, sentence: str, place: Place | None) -> GradientCause:
    return GradientCause("backward", name, place, sentence)


ElementMask = bool | np.bool_ | NDArray[np.bool_]
"""Which elements of an array are meant; a boolean for a number."""


@dataclass(frozen=True)
class GradientCut:
    """A wire, or a node, at which a gradient ends."""

    node: int
    """The reader at the end of the wire; for `cancelling` uses, the node itself."""
    slot: int | None
    """The input of the reader; None where the gradients from the readers of a node cancel."""
    kind: str
    """`absent`: nothing is sent; `zero`: the slope is 0; `underflow`, `sideways`: the product is 0; `cancelling`."""
    ended: ElementMask
    """Mask of the elements of the wire (or node) at which the gradient ends; True for a number."""
    asked: int
    """Number of elements that were followed to this wire."""

    @property
    def ended_count(self) -> int:
        """Number of elements whose gradient ends here."""
        return int(np.sum(self.ended))


@dataclass(frozen=True)
class CutSearchResult:
    """The result of a walk."""

    cuts: tuple[GradientCut, ...]
    """Sorted by the share of followed elements that they end; comparisons and indices, which always cut, come last."""
    passed: frozenset[int]
    """The nodes that were visited, and those computed from them on which the output does not depend."""


def find_cuts(index: RunIndex, node: int) -> CutSearchResult:
    """Find the wires at which the gradient of a node ended; the gradient must be 0 everywhere.

    >>> import wiregrad as wg
    >>> run = wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0)
    >>> [cut.kind for cut in find_cuts(RunIndex(run), run.circuit.index("x")).cuts]
    ['absent']
    """
    walk = _CutWalk(index, node)
    walk.visit_dependents(node)
    return CutSearchResult(tuple(sorted(walk.cuts, key=walk.sort_key)), frozenset(walk.visited_nodes()))


class _CutWalk:
    """Carries a mask of elements from node to node; in index order each mask is complete when it is used."""

    def __init__(self, index: RunIndex, node: int) -> None:
        self.index = index
        self.run = index.run
        self.cuts: list[GradientCut] = []
        self.masks: dict[int, ElementMask] = {node: _full_mask(self.index.values[node])}

    def visit_dependents(self, node: int) -> None:
        """Visit the nodes that depend on a node, until every element's gradient has been found to end."""
        front = [node]
        while front:
            node = heapq.heappop(front)
            mask = self._drop_cancelled(node, self.masks[node])
            for wire in self.index.readers_of(node) if _any_element(mask) else ():
                reached = self._cross_wire(wire, mask) if self.index.ranks[wire[0]] >= 0 else False
                if not _any_element(reached):
                    continue
                if wire[0] not in self.masks:
                    heapq.heappush(front, wire[0])
                self.masks[wire[0]] = self.masks.get(wire[0], False) | reached

    def sort_key(self, cut: GradientCut) -> tuple[bool, float]:
        """Return the sort key of a cut."""
        return not self.index.circuit.type_of(cut.node).differentiable, -cut.ended_count / max(cut.asked, 1)

    def visited_nodes(self) -> set[int]:
        """Return the visited nodes, and those computed from them on which the output does not depend."""
        visited = set(self.masks)
        front = list(visited)
        while front:
            for reader, _ in self.index.readers_of(front.pop()):
                if self.index.ranks[reader] < 0 and reader not in visited:
                    visited.add(reader)
                    front.append(reader)
        return visited

    def _drop_cancelled(self, node: int, mask: ElementMask) -> ElementMask:
        """Return a mask without the elements at which the gradients from the readers of a node cancel."""
        uses = self.index.readers_of(node)
        if len(uses) < 2:
            return mask
        cancelled: ElementMask = False
        for wire in uses:
            cancelled = cancelled | (mask & _nonzero_mask(self.index.sent_gradient(wire), shape_of(mask)))
        if not _any_element(cancelled):
            return mask
        self._record_cut((node, None), "cancelling", cancelled, mask)
        return _mask_difference(mask, cancelled)

    def _cross_wire(self, wire: ReaderSlot, mask: ElementMask) -> ElementMask:
        """Return which elements of its reader a wire moves; record the elements that end on the wire."""
        slope = self._slope_flow(self.index.rows[wire[0]], wire[1])
        going = mask & _nonzero_mask(fill_absent(slope), shape_of(mask))
        ended = _mask_difference(mask, going)
        if _any_element(ended):
            present = _any_element(ended & _presence_mask(slope, shape_of(mask)))
            self._record_cut(wire, "zero" if present else "absent", ended, mask)
        return self._reach_reader(wire, going, mask) if _any_element(going) else False

    def _reach_reader(self, wire: ReaderSlot, going: ElementMask, mask: ElementMask) -> ElementMask:
        """Return which elements of its reader a wire moves, without those whose gradient is lost on the wire."""
        row = self.index.rows[wire[0]]
        reached = self._reached_elements(row, wire[1], going)
        if self.index.flows[wire[0]] is None:
            return reached
        arrived = reached & _nonzero_mask(self.run.gradient(wire[0]), shape_of(reached))
        if not _any_element(arrived):
            return reached
        self._record_cut(
            wire, self._classify_loss(row, wire[1]), arrived if isinstance(row.op, Elementwise) else going, mask
        )
        return _mask_difference(reached, arrived)

    def _record_cut(self, wire: tuple[int, int | None], kind: str, ended: ElementMask, mask: ElementMask) -> None:
        self.cuts.append(GradientCut(wire[0], wire[1], kind, ended, int(np.sum(mask))))

    def _slope_flow(self, row: Row, slot: int) -> Any:
        """Return a flow that is 0 or absent at the elements of a wire that do not move its reader."""
        if not self.index.circuit.type_of(row.node).differentiable:
            return None
        if isinstance(row.op, Elementwise):
            return self.index.local_derivative((row.node, slot))
        if row.op.per_call:
            # User code is not run again with made-up numbers: only what it sent is known.
            return 0.0 if np.any(np.asarray(self.run.gradient(row.node)) != 0) else 1.0
        return self.index.pull_flow(row.node, slot, nonzero_numbers_like(self.index.values[row.node]))

    def _reached_elements(self, row: Row, slot: int, going: ElementMask) -> ElementMask:
        """Return which elements of a node move with some elements of a wire."""
        if isinstance(row.op, Elementwise):
            return going
        xs = self.index.input_values(row.node)
        y = self.index.values[row.node]
        if row.op.per_call:
            return _full_mask(y)
        tangents: list[Any] = [None] * len(xs)
        tangents[slot] = np.where(going, nonzero_numbers_like(xs[slot]), 0).astype(np.asarray(xs[slot]).dtype)[()]
        return _nonzero_mask(fill_absent(match_dtype(row.op.push(tangents, xs, y, row.mode), y)), np.shape(y))

    def _classify_loss(self, row: Row, slot: int) -> str:
        """Classify how a gradient was lost on a wire with a nonzero slope."""
        g = np.asarray(self.run.gradient(row.node))
        if isinstance(row.op, Elementwise):
            into_real = not np.iscomplexobj(self.index.values[row.sources[slot]])
            return "sideways" if np.iscomplexobj(self.index.values[row.node]) and into_real else "underflow"
        scaled = (g / np.max(np.abs(g))).astype(g.dtype)[()]
        again = fill_absent(self.index.pull_flow(row.node, slot, scaled))
        return "underflow" if np.any(np.asarray(again) != 0) else "cancelling"


def _full_mask(x: ArrayLike) -> ElementMask:
    return np.ones(np.shape(x), bool) if np.shape(x) else True


def _any_element(mask: ElementMask) -> bool:
    return mask if type(mask) is bool else bool(np.any(mask))


def _mask_difference(mask: ElementMask, other: ElementMask) -> ElementMask:
    if type(mask) is bool:
        return mask and not other
    rest: ElementMask = mask & ~np.asarray(other)
    return rest


def _nonzero_mask(x: ArrayLike, shape: tuple[int, ...]) -> ElementMask:
    return np.broadcast_to(np.asarray(x) != 0, shape) if shape else bool(x != 0)


def _presence_mask(flow: GradientFlow, shape: tuple[int, ...]) -> ElementMask:
    mask = flow.mask if type(flow) is MaskedFlow else flow is not None
    return np.broadcast_to(mask, shape) if shape else bool(mask)


def nonzero_numbers_like(x: ArrayLike) -> Any:
    """Return random numbers with magnitudes from 1 to 2, like an array: their sums are not 0 by chance.

    >>> nonzero_numbers_like(np.zeros(2, np.float32)).dtype
    dtype('float32')
    """
    rng = np.random.default_rng(0)
    array = np.asarray(x)

    def draw() -> NDArray[Any]:
        numbers: NDArray[Any] = rng.uniform(1.0, 2.0, array.shape) * rng.choice([-1.0, 1.0], array.shape)
        return numbers

    return (draw() + 1j * draw() if array.dtype.kind == "c" else draw()).astype(array.dtype)[()]


SATURATION_INPUT = 5.0
"""An op with slope 0 counts as saturated if its input has at least this magnitude, else as stationary."""
SMALL_SLOPE = 0.01
"""Slopes below this are explained; a value counts as saturated if it is this close to its limit far away."""


def explain_cut(index: RunIndex, cut: GradientCut) -> str:
    """Explain why no gradient came back along a wire."""
    assert cut.slot is not None
    return _CutReason(index, cut, cut.slot).write_sentence()


def describe_undifferentiable(dtype: np.dtype[Any]) -> str:
    """Describe a dtype that has no gradient; empty for one that has.

    >>> describe_undifferentiable(np.dtype(bool)), describe_undifferentiable(np.dtype(float))
    ('true or false', '')
    """
    return {"b": "true or false", "i": f"a whole number ({dtype.name})"}.get(dtype.kind, "")


def explain_small_factor(index: RunIndex, wire: ReaderSlot, factor: float) -> str:
    """Explain why an op makes a gradient so much smaller; empty if nothing is known beyond the factor.

    >>> import wiregrad as wg
    >>> explain_small_factor(RunIndex(wg.circuit("tanh(x)").run(x=9.0)), (1, 0), 6e-8)
    'saturated'
    """
    row = index.rows[wire[0]]
    x = index.values[row.sources[wire[1]]]
    scales = row.op.pattern is Pattern.SCALE and len(row.sources) == 1 and not row.op.per_call
    if not scales or abs(factor) >= SMALL_SLOPE or np.asarray(x).dtype.kind != "f":
        return ""
    arrived = np.asarray(index.run.gradient(wire[0]))
    if isinstance(row.op, Elementwise):
        # Elements at which no gradient arrives do not contribute to the factor.
        x = np.asarray(x)[arrived != 0]
        return _explain_small_slope(row.op, x, row.mode)
    return _explain_small_array_slope(index, row, arrived, factor)


def _explain_small_slope(op: Elementwise, x: NDArray[Any], mode: int) -> str:
    """Explain why the slopes of an elementwise op are small."""
    ends = [_local_slopes(op, x + step, mode) for step in (-SMALL_SLOPE, SMALL_SLOPE)]
    if np.any(x) and np.all(ends[0] * ends[1] < 0):
        return "near a stationary point"
    return "saturated" if _is_bounded(op, x) else "its slope there is small"


def _local_slopes(op: Elementwise, x: NDArray[Any], mode: int) -> NDArray[Any]:
    return np.asarray(fill_absent(op.local(0, [x], op.compute(x), mode)))


def _is_bounded(op: Op, x: ArrayLike) -> bool:
    """Return whether the value of an op hardly changes from here on, away from 0."""
    x = np.asarray(x)
    y = compute_or_nan(op, [x], x)
    # Several points that are not multiples of each other: a periodic op may return to its value at one of them.
    far = [compute_or_nan(op, [np.copysign(np.maximum(np.abs(x), 1.0) * scale, x)], x) for scale in (1e6, 1.7e6, 2.9e6)]
    return all(bool(np.all(np.abs(end - y) <= SMALL_SLOPE * np.maximum(1.0, np.abs(y)))) for end in far)


def _explain_small_array_slope(index: RunIndex, row: Row, arrived: NDArray[Any], factor: float) -> str:
    """Explain why an op on a whole array makes a gradient small."""
    x = index.values[row.sources[0]]
    y = index.values[row.node]
    ends = [compute_or_nan(row.op, [x + nonzero_numbers_like(x)], y), compute_or_nan(row.op, [x * np.float32(1e6)], y)]
    if all(bool(np.all(np.abs(end - y) <= SMALL_SLOPE * np.max(np.abs(y)))) for end in ends):
        return "saturated"
    other = nonzero_numbers_like(y)
    sent = fill_absent(index.pull_flow(row.node, 0, other))
    if measure_norm(sent) > 100.0 * abs(factor) * measure_norm(other):
        same = np.ptp(arrived) <= 1e-6 * np.max(np.abs(arrived))
        return f"what arrives{', the same everywhere,' if same else ''} cancels in it"
    return "its slope there is small"


class _CutReason:
    """Explains why one wire cuts."""

    def __init__(self, index: RunIndex, cut: GradientCut, slot: int) -> None:
        self.index = index
        self.cut = cut
        self.slot = slot
        self.row = index.rows[cut.node]
        self.op = self.row.op
        self.sources = self.row.sources
        self.xs = index.input_values(cut.node)
        self.y = index.values[cut.node]
        self.title = self.op.title
        self.source = index.circuit.reference_to(self.sources[slot])

    def write_sentence(self) -> str:
        """Return the sentence."""
        kind = self.index.circuit.type_of(self.cut.node).dtype
        if self.cut.kind in ("underflow", "sideways", "cancelling"):
            predicate = self._lost_reason()
        elif self.op.pattern is Pattern.BLOCK or kind.kind not in "fc":
            predicate = self._blocked_reason(describe_undifferentiable(kind) or "a step")
        elif not np.size(self.y):
            predicate = f"makes an array without elements of {self.source}"
        elif self.op.pattern is Pattern.ROUTE and not isinstance(self.op, Elementwise):
            return f"{self.title} {self._unchosen_reason()}"
        else:
            predicate = self._elementwise_reason(self.op) if isinstance(self.op, Elementwise) else self._array_reason()
        return f"{self.title} {predicate}" + self._affected_share()

    def _affected_share(self) -> str:
        count = self.cut.ended_count
        size = np.size(self.cut.ended)
        return f", in {count} of {size} elements" if count < size else ""

    def _blocked_reason(self, what: str) -> str:
        if self.y is self.xs[self.slot]:
            return f"passes {self.source} on but not its gradient, on purpose"
        return f"cuts the gradient: its result for {self.source} is {what}, which changes in jumps"

    def _unchosen_reason(self) -> str:
        x = f"{self.source} = {describe_value(self.xs[self.slot])}"
        count = self.cut.ended_count
        asked = self.cut.asked
        return f"leaves out {count} of {asked} elements of {x}" if count < asked else f"chose other elements of {x}"

    def _lost_reason(self) -> str:
        """Explain how a gradient was lost although the slope is not 0."""
        arrived = describe_value(self._ended_elements(self.index.run.gradient(self.cut.node)))
        if self.cut.kind == "cancelling":
            return f"sends 0 although {arrived} arrives: the parts cancel on the way to {self.source}"
        if not isinstance(self.op, Elementwise):
            return f"sends 0 although {arrived} arrives: the product underflows"
        local = describe_value(
            self._ended_elements(fill_absent(self.index.local_derivative((self.cut.node, self.slot))))
        )
        sideways = f"nothing of that lies along {self.source}, which is real"
        why = sideways if self.cut.kind == "sideways" else "the product underflows to 0"
        return f"multiplies {arrived} by {local}: {why}"

    def _elementwise_reason(self, op: Elementwise) -> str:
        """Explain why an elementwise op sends nothing, or 0."""
        x = f"{self.source} = {describe_value(self._ended_elements(self.xs[self.slot]))}"
        if op.partials[self.slot] is None:
            return f"uses {x} only to decide: its value changes in jumps with it"
        if self._is_on_kink(op):
            return f"is on its kink at {x}, where the slope used is 0"
        if op.selects:
            return f"did not choose {x}: {self._condition_text()} is {'true' if self.slot == 2 else 'false'}"
        if op.pattern is Pattern.ROUTE:
            return self._routed_reason(op, x)
        return self._flat_reason(op, x)

    def _condition_text(self) -> str:
        constant = not self.index.rows[self.sources[0]].sources
        return "its condition" + ("" if constant else f" {self.index.circuit.reference_to(self.sources[0])}")

    def _is_on_kink(self, op: Elementwise) -> bool:
        smooth = [kink for kink in op.kinks if not kink.jump]
        return any(np.all(self._ended_elements(kink.at(*self.xs)) == 0) for kink in smooth)

    def _routed_reason(self, op: Elementwise, x: str) -> str:
        """Explain which input a router passed on instead."""
        others = [slot for slot in range(len(self.xs)) if slot != self.slot]
        other_inputs = f" ({self.index.describe_inputs(self.cut.node, others)})" if others else ""
        if op.inputs[self.slot] == "x" or not any(self.index.active[self.sources[slot]] for slot in others):
            return f"is dead or saturated: it lets nothing through at {x}, outside its bounds{other_inputs}"
        return f"sends nothing to {x}: it returned another of its inputs{other_inputs}"

    def _flat_reason(self, op: Elementwise, x: str) -> str:
        """Explain why a slope is 0."""
        zeros = [k for k in range(len(self.xs)) if k != self.slot and np.all(self._ended_elements(self.xs[k]) == 0)]
        if op.pattern is Pattern.SWAP and zeros:
            return self._zero_factor_reason(zeros[0])
        if self.cut.kind == "absent":
            return f"sends nothing back to {x}"
        if len(self.xs) > 1:
            return f"has slope 0 for {self.source} at {self.index.describe_inputs(self.cut.node, range(len(self.xs)))}"
        if np.min(np.abs(self._ended_elements(self.xs[0]))) < SATURATION_INPUT:
            return f"is flat at {x}: stationary, its slope there is 0"
        if np.all(self._ended_elements(self.y) == 0):
            return f"is flat at {x}: its value underflows to 0"
        bounded = _is_bounded(op, np.real(self._ended_elements(self.xs[0])))
        return f"is flat at {x}: {'saturated, its slope is 0' if bounded else 'its slope there is 0'}"

    def _zero_factor_reason(self, other: int) -> str:
        same = self.sources[other] == self.sources[self.slot]
        factor = f"{self.source} itself" if same else self.index.describe_operand(self.sources[other])
        return f"multiplies by {factor}, which is 0{' there' * bool(np.any(self.xs[other]))}"

    def _array_reason(self) -> str:
        """Explain why an op on whole arrays sends nothing, or 0."""
        x = f"{self.source} = {describe_value(self.xs[self.slot])}"
        others = [slot for slot in range(len(self.xs)) if slot != self.slot]
        if self.cut.kind == "absent":
            return f"sends nothing back to {self.source}"
        if self.op.per_call:
            arrived = describe_value(self.index.run.gradient(self.cut.node))
            return f"sends 0 back to {self.source}, though {arrived} arrived"
        if self.op.pattern is not Pattern.SWAP:
            return f"is flat at {x}: its slope there is 0"
        return self._zero_factor_reason(others[0]) if others else f"multiplies the elements of {x}: the others make 0"

    def _ended_elements(self, x: ArrayLike) -> Any:
        """Return the elements of an array at which the gradient ends; the array itself if it ends everywhere."""
        if np.shape(x) != np.shape(self.cut.ended) or np.all(self.cut.ended):
            return x
        return np.asarray(x)[self.cut.ended]
