"""Blame: which op first made something non-finite, and how that spread.

Every non-finite value or gradient is either an op's own doing (all it was made from is finite: a *fault*) or handed on
from others. Walking forward and then backward, each node inherits the faults of what it read, so for the output and
for every gradient it is known which faults spoiled it. A fault that spoils none of them is harmless: a branch that was
not taken may hold an inf.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import number, plain
from wiregrad.inspect.report import Report, where
from wiregrad.ir import CONSTANT, INPUT, Node, Op, Pattern, Place, Row
from wiregrad.ops.fault import Fault, backward_fault, bad, forward_fault, is_nan
from wiregrad.ops.flow import settle
from wiregrad.ops.remedies import remedy

MOST = 8
"""How many origins a report tells in full, and how many steps of a chain."""


@dataclass(frozen=True, repr=False)
class Origin(Report):
    """One op that broke, and what came of it."""

    phase: str
    """`forward` or `backward`."""
    node: str
    op: str
    place: Place | None
    group: str
    said: str
    """What happened, in a sentence with numbers."""
    inputs: tuple[tuple[str, Any], ...]
    """The names of the nodes that went in, and what they carried at the element that broke."""
    value: Any
    """What came out: the value, or backward what was sent."""
    factors: tuple[Any, Any] | None
    """Backward: upstream and local derivative."""
    index: tuple[int, ...]
    """Which element broke first; empty for numbers."""
    wire: tuple[str, int] | None
    """Backward: the wire, as reader and slot."""
    branch: str
    """Which way the program went to get here, if it was steered, and which use of a value this is."""
    times: int
    """How many nodes of this line broke in the same way."""
    spoils: tuple[str, ...]
    """The output and the inputs whose gradients it spoils."""
    chain: tuple[str, ...]
    """How it spread, node by node, to a gradient, or else to the output."""
    nan_at: str
    """The first node at which an infinity turned into NaN, with its line; empty if none did."""
    suggestion: str

    def lines(self) -> Iterator[str]:
        """Say what broke, where, what it spoiled and what to try."""
        yield f"{self.said}"
        yield f"  node {self.node}" + (f" at {self.place}" if self.place else "") + self._more()
        if self.branch:
            yield f"  {self.branch}"
        if self.spoils:
            yield f"  spoils {_and(self.spoils)}"
        if len(self.chain) > 1:
            yield "  " + " -> ".join(_cut(self.chain))
        if self.nan_at:
            yield f"  turns into nan at {self.nan_at}"
        if self.suggestion:
            yield f"  try: {self.suggestion}"

    def _more(self) -> str:
        group = f", in {self.group}" if self.group else ""
        return group + (f" (and {self.times - 1} more like it)" if self.times > 1 else "")


@dataclass(frozen=True, repr=False)
class Blame(Report):
    """Where non-finite numbers come from; false if the output and all gradients are finite."""

    origins: tuple[Origin, ...]
    """What spoiled the output or a gradient, in the order of causes: forward, then backward."""
    harmless: tuple[Origin, ...] = field(default=())
    """What broke without spoiling either."""

    def __bool__(self) -> bool:
        return bool(self.origins)

    def lines(self) -> Iterator[str]:
        """Say it."""
        if not self.origins:
            yield "the output and all gradients are finite"
        for count, origin in enumerate(self.origins[:MOST], 1):
            yield from _numbered(origin, count if len(self.origins) > 1 else 0)
        if len(self.origins) > MOST:
            yield f"and {len(self.origins) - MOST} more"
        for origin in self.harmless[:MOST]:
            yield f"harmless, because nothing of it reaches the output or a gradient: {origin.said}"
            yield f"  node {origin.node}" + (f" at {origin.place}" if origin.place else "")


def _numbered(origin: Origin, count: int) -> Iterator[str]:
    for k, line in enumerate(origin.lines()):
        yield f"{count}. {line}" if count and not k else f"   {line}" if count else line


def _and(names: Sequence[str]) -> str:
    shown = [*names[:MOST], *([f"{len(names) - MOST} more"] if len(names) > MOST else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _cut(chain: Sequence[str]) -> Sequence[str]:
    half = MOST // 2
    return chain if len(chain) <= MOST else [*chain[:half], f"... {len(chain) - MOST} more ...", *chain[-half:]]


def blame(run: Run) -> Blame:
    """Find where the non-finite numbers of a run come from.

    >>> import wiregrad as wg
    >>> print(blame(wg.circuit("p = x * 0; y = log(p)").run(x=1.0)))
    log gave -inf at p = 0
      node y at formula:1:16
      spoils the output y and the gradient of x
      y = -inf (formula:1:16) -> gradient of p = inf -> gradient of x = nan
      try: guard the argument: np.log(np.maximum(x, tiny)), or np.where(x > 0, np.log(x), 0.0)
    """
    search = _Search(run)
    with np.errstate(all="ignore"):
        search.forward()
        search.backward()
    return search.report()


@dataclass
class _Found:
    """A fault with the node it happened at; several at one line count as one."""

    node: int
    fault: Fault | None
    phase: str
    times: int = 1


class _Search:
    """Walks a run twice; sets of faults are kept as the bits of a whole number."""

    def __init__(self, run: Run) -> None:
        self.run, self.circuit = run, run.circuit
        self.found: list[_Found] = []
        self.values: dict[int, int] = {}
        """Which faults each non-finite value comes from."""
        self.grads: dict[int, int] = {}
        """Which faults each non-finite gradient comes from."""
        self.given = 0
        """The infinities that were written as constants (a mask is filled with -inf): the last to be suspected."""
        self.nans: dict[int, int] = {}
        """By bit of a fault, the first node whose value it made NaN."""
        self._known: dict[tuple[Op | str, Place | None, str, int], int] = {}

    def forward(self) -> None:
        """Find the faults of values."""
        for row in self.circuit.rows():
            y = self.run.values[row.node]
            if not np.any(bad(y)):
                continue
            xs = [self.run.values[source] for source in row.sources]
            inherited = self._inherited(row.sources)
            fault = None if not row.sources else forward_fault(row.op, xs, y)
            if fault is None and inherited and not inherited & ~self.given:
                # An infinity that was written is meant; what makes NaN of it is not.
                fault = forward_fault(row.op, xs, y, only_nan=True)
                inherited = 0 if fault is not None else inherited
            if fault is not None or not inherited:
                inherited |= self._note(row, fault, "forward")
            self.values[row.node] = inherited
            if row.sources and np.any(is_nan(y)) and not any(np.any(is_nan(x)) for x in xs):
                self._turned(row.node, inherited)

    def _turned(self, node: int, faults: int) -> None:
        """Keep that faults made a value NaN, unless they did so before or were NaN themselves."""
        for bit in range(faults.bit_length()):
            if faults >> bit & 1 and self.found[bit].node != node:
                self.nans.setdefault(bit, node)

    def backward(self) -> None:
        """Find the faults of gradients."""
        starts = self.circuit.columns.starts.tolist()
        for row in self.circuit.rows(backward=True):
            flow = self.run.flows[row.node]
            if flow is None:
                continue
            if np.any(bad(settle(flow))) and row.node not in self.grads and row.node != self.circuit.root():
                # Finite gradients that came back from several readers add up to more than there are numbers for.
                self.grads[row.node] = self._note(row, None, "backward")
            for slot, source in enumerate(row.sources):
                sent = self.run.sent[starts[row.node] + slot]
                if sent is not None and np.any(bad(settle(sent))):
                    self.grads[source] = self.grads.get(source, 0) | self._sender(row, slot, flow, sent)

    def _sender(self, row: Row, slot: int, flow: Any, sent: Any) -> int:
        """Return the faults behind something non-finite that a node sent back."""
        xs, y = [self.run.values[source] for source in row.sources], self.run.values[row.node]
        fault = backward_fault(row.op, slot, flow, xs, y, row.mode, sent)
        inherited = self._suspects(self.grads.get(row.node, 0) | self._inherited([*row.sources, row.node]))
        return inherited | self._note(row, fault, "backward") if fault is not None or not inherited else inherited

    def _inherited(self, nodes: Sequence[int]) -> int:
        found = 0
        for node in nodes:
            found |= self.values.get(node, 0)
        return self._suspects(found)

    def _suspects(self, faults: int) -> int:
        """Return faults without the infinities that were given, unless there are no others."""
        return faults & ~self.given or faults

    def _note(self, row: Row, fault: Fault | None, phase: str) -> int:
        """Keep a fault, as one with those of the same op at the same line; returns its bit."""
        place = Node(self.circuit, row.node).place
        own = row.node if place is None or not row.sources else -1
        key = (row.op if row.op.settings else row.op.name, place, phase, own)
        bit = self._known.get(key)
        if bit is None:
            bit = self._known[key] = len(self.found)
            self.found.append(_Found(row.node, fault, phase))
            if row.op is CONSTANT and not np.any(is_nan(self.run.values[row.node])):
                self.given |= 1 << bit
        else:
            self.found[bit].times += 1
        return 1 << bit

    def report(self) -> Blame:
        """Return what was found."""
        bits = range(len(self.found))
        given = [bit for bit in bits if self.given >> bit & 1]
        origins = [self._origin(bit, self.found[bit]) for bit in bits if bit not in given]
        meant = [origin for bit in given if (origin := self._origin(bit, self.found[bit])).spoils]
        spoiling = [origin for origin in origins if origin.spoils]
        return Blame((*spoiling, *meant), tuple(origin for origin in origins if not origin.spoils))

    def _origin(self, bit: int, found: _Found) -> Origin:
        circuit, fault = self.circuit, found.fault
        node = Node(circuit, found.node)
        spoils = self._spoils(1 << bit)
        wire = None if fault is None or found.phase == "forward" else (node.name, fault.slot)
        names = [circuit.name_of(source) for source in circuit.sources_of(found.node)]
        given = () if fault is None else tuple((name, x) for name, (_, x) in zip(names, fault.inputs, strict=True))
        return Origin(
            phase=found.phase,
            node=node.name,
            op=node.op.name,
            place=node.place,
            group=node.group,
            said=self._said(found),
            inputs=given,
            value=self.run.values[found.node] if fault is None else fault.sent if wire else fault.value,
            factors=None if fault is None else fault.factors,
            index=() if fault is None else fault.index,
            wire=wire,
            branch=self._branch(found),
            times=found.times,
            spoils=tuple(self._written(spoils)),
            chain=tuple(self._chain(found)) if spoils else (),
            nan_at=f"{Node(circuit, self.nans[bit])}{where(circuit, self.nans[bit])}" if bit in self.nans else "",
            suggestion=self._suggestion(bit, found),
        )

    def _said(self, found: _Found) -> str:
        node = Node(self.circuit, found.node)
        if found.fault is not None:
            return found.fault.sentence([self.circuit.name_of(k) for k in self.circuit.sources_of(found.node)])
        value = self.run.values[found.node]
        if found.phase == "backward":
            return f"the gradients that come back to {node.name} add up to {_worst(self.run.gradient(found.node))}"
        kind = "input" if node.op is INPUT else "constant" if node.op is CONSTANT else "node"
        read = next(
            (
                f", first read by {Node(self.circuit, reader)}{where(self.circuit, reader)}"
                for reader, _ in self.run.readers_of(found.node)
            ),
            "",
        )
        return f"the {kind} {node.name} is {_worst(value)} from the start{read}"

    def _suggestion(self, bit: int, found: _Found) -> str:
        if found.fault is not None:
            return self._masked(bit) or remedy(
                found.node, _Around(self.run), [value for _, value in found.fault.inputs]
            )
        if found.phase == "backward":
            return "scale the output down, or look at which use sends so much: run.branches(name)"
        return "look at where this comes from: np.isfinite(x).all() before the call, np.nan_to_num, or leave it out"

    def _masked(self, bit: int) -> str:
        """Return what helps where an infinity was multiplied by 0."""
        node = self.nans.get(bit)
        if node is None or self.circuit.op_of(node).pattern is not Pattern.SWAP:
            return ""
        xs = [self.run.values[source] for source in self.circuit.sources_of(node)]
        fault = forward_fault(self.circuit.op_of(node), xs, self.run.values[node], only_nan=True)
        return "" if fault is None else remedy(node, _Around(self.run), [value for _, value in fault.inputs])

    def _branch(self, found: _Found) -> str:
        """Say which way Python went last before the node, and which use of its source a wire is."""
        circuit, parts = self.circuit, []
        steered = [c for c in circuit.certificates if isinstance(c.outcome, bool) and c.node < found.node and c.place]
        if steered:
            last = steered[-1]
            parts.append(f"after {circuit.name_of(last.node)} came out {last.outcome} at {last.place}")
        if found.phase == "backward" and found.fault is not None:
            source = circuit.sources_of(found.node)[found.fault.slot]
            uses = self.run.readers_of(source)
            if len(uses) > 1:
                which = uses.index((found.node, found.fault.slot)) + 1
                parts.append(f"use {which} of {len(uses)} of {circuit.name_of(source)}")
        return ", ".join(parts)

    def _spoils(self, mask: int) -> list[int | None]:
        """Return the inputs whose gradient a fault spoils, None for the output."""
        spoiled: list[int | None] = [None] if self.values.get(self.circuit.root(), 0) & mask else []
        return spoiled + [node for node in self.circuit.input_indices() if self.grads.get(node, 0) & mask]

    def _written(self, spoils: Sequence[int | None]) -> Iterator[str]:
        for node in spoils:
            yield (
                f"the output {self.circuit.output}" if node is None else f"the gradient of {self.circuit.name_of(node)}"
            )

    def _chain(self, found: _Found) -> Iterator[str]:
        """Tell how a fault spread to a gradient of an input, or else to the output."""
        start = (found.node, found.phase == "backward")
        if found.phase == "backward" and found.fault is not None:
            start = (self.circuit.sources_of(found.node)[found.fault.slot], True)
        came, front, end = {start: start}, deque([start]), start
        goals = {(node, True) for node in self.circuit.input_indices()} if self._any_gradient() else set()
        root = (self.circuit.root(), False)
        while front:
            state = front.popleft()
            if state in goals or (not goals and state == root):
                end = state
                break
            for following in self._spread(*state):
                if following not in came:
                    came[following] = state
                    front.append(following)
        steps = [end]
        while came[steps[-1]] != steps[-1]:
            steps.append(came[steps[-1]])
        return (self._step(*step) for step in reversed(steps))

    def _any_gradient(self) -> bool:
        return any(node in self.grads for node in self.circuit.input_indices())

    def _spread(self, node: int, back: bool) -> Iterator[tuple[int, bool]]:
        """Return what a non-finite value, or gradient, spoils next."""
        starts = self.circuit.columns.starts
        senders = [node] if back else [*(reader for reader, _ in self.run.readers_of(node)), node]
        for sender in senders:
            for slot, source in enumerate(self.circuit.sources_of(sender)):
                sent = self.run.sent[int(starts[sender]) + slot]
                if source in self.grads and sent is not None and np.any(bad(settle(sent))):
                    yield source, True
        if not back:
            yield from ((reader, False) for reader, _ in self.run.readers_of(node) if reader in self.values)

    def _step(self, node: int, back: bool) -> str:
        value = self.run.gradient(node) if back else self.run.values[node]
        name = self.circuit.name_of(node)
        return f"{'gradient of ' * back}{name} = {_worst(value)}{where(self.circuit, node) * (not back)}"


def _worst(value: Any) -> str:
    """Write a value, of an array its first non-finite element."""
    array = np.asarray(value)
    spoiled = bad(array)
    return number(plain(array[spoiled][0] if array.ndim and np.any(spoiled) else array[()]))


class _Around:
    """A circuit as what surrounds a node."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def op(self, node: int) -> Op:
        return self.run.circuit.op_of(node)

    def sources(self, node: int) -> list[int]:
        return self.run.circuit.sources_of(node)

    def readers(self, node: int) -> list[int]:
        return [reader for reader, _ in self.run.readers_of(node)]
