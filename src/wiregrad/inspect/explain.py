"""Explain: why a gradient is absent, zero, tiny, huge or what it is.

A gradient is a sum over uses of products along wires, so each of these has a place: the wire at which something arrived
and nothing (or 0) went on, the node at which parts cancelled, or the ops whose factors multiply up to so little or so
much along the path that carries most.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import number, plain
from wiregrad.inspect.blame import blame
from wiregrad.inspect.magnitude import largest, norm
from wiregrad.inspect.report import Report, where
from wiregrad.ir import Node, Pattern, Place
from wiregrad.ops import Elementwise
from wiregrad.ops.fault import bad
from wiregrad.ops.flow import Masked, fit, settle

TINY, HUGE, CANCELS = 1e-6, 1e6, 1e3
"""Gradients below and above these are worth a word; so are parts a thousand times as large as their sum."""
MOST = 8

Wire = tuple[int, int]


@dataclass(frozen=True)
class Cause:
    """One op that made a gradient what it is."""

    op: str
    node: str
    place: Place | None
    said: str
    """A sentence with numbers."""

    def __str__(self) -> str:
        return self.said + (f" ({self.place})" if self.place else "")


@dataclass(frozen=True)
class Factor:
    """One step of the path that carries most of a gradient."""

    op: str
    node: str
    place: Place | None
    factor: float
    """The local derivative; with arrays how much longer the gradient became."""


@dataclass(frozen=True, repr=False)
class Explanation(Report):
    """Why a gradient is what it is."""

    name: str
    kind: str
    """`absent`, `zero`, `tiny`, `huge`, `nonfinite`, `cancelling`, `ordinary`; of values `accumulated`, `none` too."""
    gradient: Any
    causes: tuple[Cause, ...]
    """What made it so, the most important first."""
    path: tuple[Factor, ...] = ()
    """The path that carries most of it, from the output to the node."""
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Say it in sentences."""
        yield f"the gradient of {self.name} is {_shown(self.gradient)}: {_KINDS[self.kind]}"
        for cause in self.causes[:MOST]:
            yield f"  {cause}"
        if len(self.causes) > MOST:
            yield f"  and {len(self.causes) - MOST} more"
        if self.path:
            yield f"  {_product(self.path)}"
        for note in self.notes:
            yield f"  {note}"


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
    """Say why the gradient of a node is what it is.

    >>> import wiregrad as wg
    >>> print(explain(wg.circuit("h = relu(x); y = h * w").run(x=-2.0, w=3.0), "x"))
    the gradient of x is 0: nothing flows back to it
      relu is dead or saturated: it lets nothing through at x = -2, outside its bounds (formula:1:5)
    """
    node = run.circuit.index(name)
    with np.errstate(all="ignore"):
        return _Story(run, node, name).told()


class _Story:
    """Looks for the reason behind one gradient."""

    def __init__(self, run: Run, node: int, name: str) -> None:
        self.run, self.circuit, self.node, self.name = run, run.circuit, node, name
        self.starts = run.circuit.columns.starts.tolist()
        self.gradient = run.gradient(node)

    def told(self) -> Explanation:
        """Return the explanation."""
        size = largest(self.gradient)
        if np.any(bad(self.gradient)):
            return self._broken()
        if self.node != self.circuit.root() and not size:
            return self._nothing()
        path = self._path(self.node)
        cancelling = self._cancelled(path)
        kind = "tiny" if size < TINY else "huge" if size > HUGE else "cancelling" if cancelling else "ordinary"
        ranked = self._ranked(path, grows=size > 1.0) if kind in ("tiny", "huge") else []
        strong = kind == "tiny" and cancelling and self._factor_of(path) > size * CANCELS
        causes = [*cancelling, *ranked] if strong or kind == "cancelling" else [*ranked, *cancelling]
        return self._explanation("cancelling" if strong else kind, causes, path)

    def _explanation(self, kind: str, causes: Sequence[Cause], path: Sequence[Wire] = ()) -> Explanation:
        factors = tuple(self._factor(wire) for wire in path)
        return Explanation(self.name, kind, plain(self.gradient), tuple(causes), factors, tuple(self._notes()))

    def _broken(self) -> Explanation:
        """Name what made the gradient non-finite."""
        found = blame(self.run)
        wanted = f"the gradient of {self.circuit.name_of(self.node)}"
        origins = [origin for origin in found.origins if wanted in origin.spoils] or found.origins or found.harmless
        causes = [Cause(origin.op, origin.node, origin.place, origin.said) for origin in origins]
        return self._explanation("nonfinite", causes)

    def _nothing(self) -> Explanation:
        """Name the wires at which a gradient arrived and none went on."""
        causes, kinds = list[Cause](), set[str]()
        seen, front = {self.node}, deque([self.node])
        while front:
            node = front.popleft()
            uses = self.run.readers_of(node)
            if any(largest(self._sent(wire)) for wire in uses) and not largest(self.run.gradient(node)):
                causes.append(self._cancelled_at(node))
                kinds.add("cancelling")
                continue
            for wire in uses:
                # Where something comes back to other elements of an array, these were left out.
                partly = largest(self._sent(wire)) > 0
                kind, said = ("absent", self._why_blocked(*wire)) if partly else self._cut(*wire)
                if said:
                    causes.append(self._cause(wire[0], said))
                    kinds.add(kind)
                elif wire[0] not in seen:
                    seen.add(wire[0])
                    front.append(wire[0])
        causes = [*causes, *self._left(seen)] or self._unused()
        kind = "cancelling" if kinds == {"cancelling"} else "absent" if self._is_absent() else "zero"
        return self._explanation(kind, _distinct(causes))

    def _is_absent(self) -> bool:
        return _absent(self.run.flows[self.node])

    def _cut(self, reader: int, slot: int) -> tuple[str, str]:
        """Return how and why a gradient ends at a wire; nothing if it had ended further on."""
        if not self.circuit.type_of(reader).differentiable:
            return "absent", self._why_blocked(reader, slot)
        passed = self._passed(reader, slot)
        if _absent(passed):
            return "absent", self._why_blocked(reader, slot)
        if not largest(settle(passed)):
            return "zero", self._why_zero(reader, slot)
        upstream = self.run.flows[reader]
        if _absent(upstream) or not largest(settle(upstream)) or getattr(self.circuit.op_of(reader), "moves", False):
            return "", ""
        return "zero", self._why_zero(reader, slot)

    def _passed(self, node: int, slot: int) -> Any:
        """Return what a node would send back if something arrived at each of its elements."""
        view = Node(self.circuit, node)
        xs, y = [self.run.values[source] for source in self.circuit.sources_of(node)], self.run.values[node]
        g = np.random.default_rng(0).normal(size=np.shape(y)).astype(np.asarray(y).dtype)[()]
        return fit(view.op.pull(slot, g, xs, y, view.mode), xs[slot])

    def _cause(self, node: int, said: str) -> Cause:
        view = Node(self.circuit, node)
        return Cause(view.op.name, view.name, view.place, said)

    def _why_blocked(self, node: int, slot: int) -> str:
        view, kind = Node(self.circuit, node), self.circuit.type_of(node).dtype
        source = self._source(node, slot)[0]
        if view.op.pattern is Pattern.ROUTE:
            return self._routed(node, slot)
        if self._is_copy(node, slot):
            return f"{view.op.name} hands {source} on but not its gradient, on purpose"
        if view.op.pattern is Pattern.BLOCK or kind.kind not in "fc":
            what = {"b": "true or false", "i": f"a whole number ({kind.name})"}.get(kind.kind, "a step")
            return f"{view.op.name} cuts the gradient: what it makes of {source} is {what}, which moves in jumps"
        return f"{view.op.name} sends nothing back to {source}"

    def _routed(self, node: int, slot: int) -> str:
        """Say why a router did not choose a wire."""
        op, sources = self.circuit.op_of(node), self.circuit.sources_of(node)
        source, x = self._source(node, slot)
        xs = [self.run.values[k] for k in sources]
        if not isinstance(op, Elementwise):
            return f"{op.name} chose other elements of {source} = {x}"
        if any(np.all(kink.at(*xs) == 0) for kink in op.kinks if not kink.jump):
            return f"{op.name} stands on its kink at {source} = {x}, where the slope that is taken is 0"
        active = self.circuit.active()
        if sum(active[k] for k in sources) == 1:
            return f"{op.name} is dead or saturated: it lets nothing through at {source} = {x}, outside its bounds"
        return f"{op.name} passes nothing on to {source} = {x}: it went the other way"

    def _is_copy(self, node: int, slot: int) -> bool:
        return self.run.values[node] is self.run.values[self.circuit.sources_of(node)[slot]]

    def _source(self, node: int, slot: int) -> tuple[str, str]:
        """Return the name of a wire's source and what it carried."""
        source = self.circuit.sources_of(node)[slot]
        return self.circuit.name_of(source), _shown(self.run.values[source])

    def _why_zero(self, node: int, slot: int) -> str:
        """Say why a node sent 0 though something arrived."""
        view = Node(self.circuit, node)
        source, x = self._source(node, slot)
        sources = self.circuit.sources_of(node)
        zeros = [k for k in sources if k != sources[slot] and not largest(self.run.values[k])]
        if view.op.pattern is Pattern.ROUTE:
            return self._routed(node, slot)
        if view.op.pattern is Pattern.SWAP and zeros:
            return f"{view.op.name} multiplies by {self.circuit.operand_text(zeros[0])}, which is 0"
        local = self._local(node, slot)
        if local is not None and largest(local):
            arrived = _shown(self.run.gradient(node))
            return f"{view.op.name} multiplies {arrived} by {_shown(local)}: less than there are numbers for"
        if isinstance(view.op, Elementwise) and len(sources) == 1:
            why = "saturated, its slope is 0" if largest(self.run.values[node]) else "its value underflows to 0"
            return f"{view.op.name} is flat at {source} = {x}: {why}"
        return f"{view.op.name} sends 0 back to {source}, though {_shown(self.run.gradient(node))} arrived"

    def _local(self, node: int, slot: int) -> Any:
        view, sources = Node(self.circuit, node), self.circuit.sources_of(node)
        if not isinstance(view.op, Elementwise):
            return None
        xs = [self.run.values[source] for source in sources]
        return settle(view.op.local(slot, xs, self.run.values[node], view.mode))

    def _left(self, seen: set[int]) -> list[Cause]:
        """Name where values that depend on the node left the recording as plain numbers."""
        found = []
        for certificate in self.circuit.certificates:
            if certificate.node in seen:
                view = Node(self.circuit, certificate.node)
                what = f"{view.name} ({view.op.name})"
                if isinstance(certificate.outcome, bool):
                    said = f"{what} only steered Python: it came out {certificate.outcome}"
                else:
                    said = (
                        f"{what} left the recording as a plain number (.item(), .data, an index or text): what was "
                        f"computed from it has no gradient; if that is meant, write wg.stop_gradient"
                    )
                found.append(Cause(view.op.name, view.name, certificate.place or view.place, said))
        return found

    def _unused(self) -> list[Cause]:
        """Say that nothing reads a node; the branches that were taken may be why."""
        name = self.circuit.name_of(self.node)
        steered = [
            Cause(
                self.circuit.op_of(certificate.node).name,
                self.circuit.name_of(certificate.node),
                certificate.place,
                f"{self.circuit.op_of(certificate.node).name} came out {certificate.outcome}: the branch not taken may "
                f"use {name}",
            )
            for certificate in self.circuit.certificates
            if isinstance(certificate.outcome, bool)
        ]
        what = f"the {self.circuit.op_of(self.node).name} {name}"
        said = f"no wire leads from {what} to the output: it is not used in what is computed"
        return [*steered, self._cause(self.node, said)]

    def _path(self, node: int) -> list[Wire]:
        """Return the wires that carry most, from the output to a node."""
        wires, root = list[Wire](), self.circuit.root()
        while node != root:
            uses = self.run.readers_of(node)
            best = max(uses, key=lambda wire: _rank(self._sent(wire)), default=None)
            if best is None or not largest(self._sent(best)):
                break
            wires.append(best)
            node = best[0]
        return wires[::-1]

    def _sent(self, wire: Wire) -> Any:
        return settle(self.run.sent[self.starts[wire[0]] + wire[1]])

    def _factor(self, wire: Wire) -> Factor:
        view = Node(self.circuit, wire[0])
        local = self._local(*wire)
        if local is not None and not np.shape(local) and np.isrealobj(local):
            factor = float(local)
        else:
            factor = norm(self._sent(wire)) / (norm(self.run.gradient(wire[0])) or math.nan)
        return Factor(view.op.name, view.name, view.place, factor)

    def _factor_of(self, path: Sequence[Wire]) -> float:
        return largest(self._sent(path[-1])) if path else 0.0

    def _ranked(self, path: Sequence[Wire], *, grows: bool) -> list[Cause]:
        """Return the ops whose factors do most, those of one line taken together."""
        totals: Counter[tuple[str, Place | None]] = Counter()
        members: dict[tuple[str, Place | None], list[tuple[Factor, Wire]]] = {}
        for wire in path:
            factor = self._factor(wire)
            key = factor.op, factor.place
            strength = math.log10(abs(factor.factor)) if factor.factor else -400.0
            totals[key] += strength if grows else -strength  # type: ignore[assignment]
            members.setdefault(key, []).append((factor, wire))
        return [
            self._multiplied(members[key])
            for key, total in totals.most_common()
            if total > 0.3 and math.isfinite(total)
        ]

    def _multiplied(self, members: Sequence[tuple[Factor, Wire]]) -> Cause:
        """Say what the factors of one op at one line come to."""
        extreme = max(members, key=lambda item: abs(math.log(abs(item[0].factor) or 5e-324)))
        factor, wire = extreme
        source, x = self._source(*wire)
        op = self.circuit.op_of(wire[0])
        flat = op.pattern is Pattern.SCALE and len(op.inputs) == 1 and abs(factor.factor) < 0.01
        spot = f"at {source} = {x}" + (": saturated" if flat else "")
        if len(members) == 1:
            said = f"{factor.op} multiplies by {number(factor.factor)} {spot}"
        else:
            total = math.prod(item[0].factor for item in members)
            most = f"most {spot}: {number(factor.factor)}"
            said = f"{factor.op} multiplies {len(members)} times, by {number(total)} in all, {most}"
        return Cause(factor.op, factor.node, factor.place, said)

    def _cancelled(self, path: Sequence[Wire]) -> list[Cause]:
        """Name the nodes on the path whose parts nearly cancel, the worst first."""
        nodes = [self.node, *(wire[0] for wire in reversed(path))]
        found = []
        for node in nodes:
            parts = [self._sent(wire) for wire in self.run.readers_of(node)]
            total, most = norm(self.run.gradient(node)), sum(norm(part) for part in parts)
            if len(parts) > 1 and most > CANCELS * total:
                found.append((most / (total or 5e-324), self._cancelled_at(node)))
        return [cause for _, cause in sorted(found, key=lambda item: -item[0])]

    def _cancelled_at(self, node: int) -> Cause:
        """Say which parts of a gradient cancel; the largest one is named."""
        uses = sorted(self.run.readers_of(node), key=lambda wire: -_rank(self._sent(wire)))
        parts = [f"{_shown(self._sent(wire))} from {self._use(wire[0])}" for wire in uses[:4]]
        more = f" and {len(uses) - 4} more" if len(uses) > 4 else ""
        name, total = self.circuit.name_of(node), _shown(self.run.gradient(node))
        join = self._join(*uses[:2])
        said = (
            f"what comes back to {name} cancels: {', '.join(parts)}{more} add up to {total}; "
            f"the paths meet in {self.circuit.op_of(join).name}"
        )
        return self._cause(join, said)

    def _join(self, one: Wire, two: Wire) -> int:
        """Return the node at which the paths that carry most from two uses meet."""
        first = [one[0], *(wire[0] for wire in reversed(self._path(one[0])))]
        second = {two[0], *(wire[0] for wire in self._path(two[0]))}
        return next((node for node in first if node in second), one[0])

    def _use(self, node: int) -> str:
        return f"{Node(self.circuit, node)}{where(self.circuit, node)}"

    def _notes(self) -> Iterator[str]:
        """Say what is worth knowing of the elements of an array."""
        array = np.asarray(self.gradient)
        zeros = int(np.sum(array == 0)) if array.ndim else 0
        if array.size and 0.5 <= zeros / array.size < 1.0:
            yield f"{zeros} of its {array.size} elements are exactly 0"


def _absent(flow: Any) -> bool:
    return flow is None or (type(flow) is Masked and not np.any(flow.mask))


def _rank(value: Any) -> float:
    found = norm(value)
    return math.inf if math.isnan(found) else found


def _shown(value: Any) -> str:
    if value is None:
        return "None"
    array = np.asarray(value)
    if array.size > 6:
        return f"an array of shape {array.shape} with largest magnitude {number(largest(value))}"
    return number(plain(array[()] if not array.ndim else array))


def _product(path: Sequence[Factor]) -> str:
    """Write the product along a path; of a long one the ends."""
    texts = [f"{number(step.factor)} ({step.op})" for step in path]
    half = MOST // 2
    shown = texts if len(texts) <= MOST else [*texts[:half], f"... {len(texts) - MOST} more ...", *texts[-half:]]
    return f"along the path that carries most: {' x '.join(shown)}"


def _distinct(causes: Sequence[Cause]) -> list[Cause]:
    """Return causes once each: a loop makes many nodes of one line."""
    return list(
        {
            (cause.op, cause.place, cause.said if cause.place is None else ""): cause for cause in reversed(causes)
        }.values()
    )[::-1]
