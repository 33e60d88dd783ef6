"""Faults in a run: which ops made something non-finite of finite numbers, and which values and gradients they spoil.

The search walks the run twice, forward over the values and backward over the gradients. What is non-finite at a node
is either the op's own fault or inherited from what the node was computed from: from a router only by the input it
chose, from a product that was sent back by the upstream gradient if that was spoiled, else by the values. A set of
faults is an integer with one bit per fault.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.ir import CONSTANT, Node, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.fault import Fault, backward_fault, is_nonfinite, forward_fault, is_nan
from wiregrad.ops.flow import MaskedFlow, fill_absent

MAX_SEPARATE_FAULTS = 256
"""Maximum number of separate faults; further ones are counted with those of the same op at the same line."""

SpoiledState = tuple[int, bool]
"""A node, and whether its gradient is spoiled (True) or its value (False)."""


@dataclass(frozen=True)
class LocatedFault:
    """A fault and its node; the fault is None for non-finite inputs, and for gradients whose sum overflows."""

    node: int
    phase: str
    fault: Fault | None


class FaultSearch:
    """Walks a run twice and records which values and gradients each fault spoils."""

    def __init__(self, run: RunRecord) -> None:
        self.run = run
        self.circuit = run.circuit
        self.outputs = run.circuit.columns.outputs.tolist()
        self.faults: list[LocatedFault] = []
        self.counts: list[int] = []
        """How often each fault occurred."""
        self.values: dict[int, int] = {}
        """The faults behind each non-finite value."""
        self.grads: dict[int, int] = {}
        """The faults behind each non-finite gradient."""
        self.written = 0
        """The infinities that were written as constants (as in a mask of -inf): the last to be blamed."""
        self.made = 0
        """The faults of ops, as opposed to non-finite inputs and constants."""
        self.nans: dict[int, int] = {}
        """For each fault, the first node whose value it turned into NaN."""
        self._known: dict[tuple[str, Any, str], int] = {}
        with np.errstate(all="ignore"):
            self._search_values()
            self._search_gradients()

    def _search_values(self) -> None:
        for row in self.circuit.rows():
            y = self.run.values[row.node]
            if is_spoiled(y):
                xs = [self.run.values[source] for source in row.sources]
                self.values[row.node] = self._faults_of_value(row, xs, y)
                if row.sources and _any_true(is_nan(y)) and not any(_any_true(is_nan(x)) for x in xs):
                    self._record_first_nan(row.node)

    def _faults_of_value(self, row: Row, xs: Sequence[Any], y: Any) -> int:
        """Return the faults behind a value that is not finite."""
        inherited = 0
        for slot, source in enumerate(row.sources):
            if source in self.values and _passes_nonfinite(row, slot, xs, y):
                inherited |= self.values[source]
        inherited = self._drop_written_infinities(inherited)
        fault = forward_fault(row.op, xs, y) if row.sources else None
        if fault is None and inherited and not inherited & ~self.written:
            # An infinity written as a constant is intended; an op that turns it into NaN is not.
            fault = forward_fault(row.op, xs, y, only_nan=True)
            inherited = 0 if fault is not None else inherited
        return inherited | self._record_fault(row, "forward", fault) if fault is not None or not inherited else inherited

    def _record_first_nan(self, node: int) -> None:
        """Record the node at which an infinity became NaN, if it is the first for its fault."""
        for bit in list_set_bits(self.values[node]):
            if self.faults[bit].node != node:
                self.nans.setdefault(bit, node)

    def _search_gradients(self) -> None:
        starts = self.circuit.columns.starts.tolist()
        several = self._has_several_outputs()
        for row in self.circuit.rows(backward=True):
            flow = self.run.flows[row.node]
            if flow is None:
                continue
            if row.node not in self.grads and not several and is_spoiled(flow):
                # The sum of finite gradients from several readers overflows.
                self.grads[row.node] = self._record_fault(row, "backward", None)
            for slot, source in enumerate(row.sources):
                sent = self.run.sent[starts[row.node] + slot]
                if sent is not None and is_spoiled(sent):
                    self.grads[source] = self.grads.get(source, 0) | self._faults_of_sent(row, slot, flow, sent)

    def _has_several_outputs(self) -> bool:
        """Return whether the backward pass starts from several numbers, so that a sum of gradients means little."""
        return len(self.outputs) > 1 or bool(self.circuit.type_of(self.outputs[0]).shape)

    def _faults_of_sent(self, row: Row, slot: int, flow: Any, sent: Any) -> int:
        """Return the faults behind something non-finite that a node sent back."""
        xs = [self.run.values[source] for source in row.sources]
        y = self.run.values[row.node]
        fault = backward_fault(row.op, slot, flow, xs, y, row.mode, sent)
        if fault is not None:
            return self._record_fault(row, "backward", fault) | self.grads.get(row.node, 0)
        upstream = self.grads.get(row.node, 0)
        of_values = 0
        spoiled = is_nonfinite(fill_absent(sent))
        for node, x in zip((*row.sources, row.node), (*xs, y), strict=True):
            if node in self.values and (not row.op.by_element or _any_true(is_nonfinite(x) & spoiled)):
                of_values |= self.values[node]
        if upstream and not (row.op.by_element and _any_true(spoiled & ~is_nonfinite(fill_absent(flow)))):
            # What arrived was spoiled already: only an infinity that an op made may be behind it.
            of_values &= self.made
        return self._drop_written_infinities(upstream | of_values) or self._record_fault(row, "backward", None)

    def _drop_written_infinities(self, faults: int) -> int:
        """Return the faults without the infinities written as constants, unless there are no others."""
        return faults & ~self.written or faults

    def _record_fault(self, row: Row, phase: str, fault: Fault | None) -> int:
        """Record a fault; returns its bit."""
        key = row.op.title, Node(self.circuit, row.node).place, phase
        bit = self._known.get(key) if len(self.faults) >= MAX_SEPARATE_FAULTS else None
        if bit is None:
            bit = self._known[key] = len(self.faults)
            self.faults.append(LocatedFault(row.node, phase, fault))
            self.counts.append(0)
            self.made |= (fault is not None) << bit
            if row.op is CONSTANT and not np.any(is_nan(self.run.values[row.node])):
                self.written |= 1 << bit
        self.counts[bit] += 1
        return 1 << bit

    def spoiled_results(self, bit: int) -> list[SpoiledState]:
        """Return the outputs and the gradients of inputs that a fault spoils."""
        outputs = [(node, False) for node in dict.fromkeys(self.outputs) if self.values.get(node, 0) >> bit & 1]
        return outputs + [(k, True) for k in self.circuit.input_indices() if self.grads.get(k, 0) >> bit & 1]

    def trace_chain(self, bit: int, goals: Sequence[SpoiledState]) -> list[SpoiledState]:
        """Return how a fault spread, step by step, to a gradient among the goals, or else to an output."""
        located = self.faults[bit]
        start = (located.node, located.phase == "backward")
        if located.phase == "backward" and located.fault is not None:
            start = (self.circuit.sources_of(located.node)[located.fault.slot], True)
        targets = {goal for goal in goals if goal[1]} or set(goals)
        predecessors = {start: start}
        front = deque([start])
        while front and front[0] not in targets:
            state = front.popleft()
            for following in self._next_spoiled(bit, *state):
                if following not in predecessors:
                    predecessors[following] = state
                    front.append(following)
        steps = [front[0] if front else start]
        while predecessors[steps[-1]] != steps[-1]:
            steps.append(predecessors[steps[-1]])
        return steps[::-1]

    def _next_spoiled(self, bit: int, node: int, back: bool) -> Iterator[SpoiledState]:
        """Return the values and gradients that a fault spoils directly after a spoiled one."""
        starts = self.circuit.columns.starts
        senders = [node] if back else [*(reader for reader, _ in self.run.readers_of(node)), node]
        for sender in senders:
            for slot, source in enumerate(self.circuit.sources_of(sender)):
                sent = self.run.sent[int(starts[sender]) + slot]
                if self.grads.get(source, 0) >> bit & 1 and sent is not None and is_spoiled(sent):
                    yield source, True
        if not back:
            readers = [reader for reader, _ in self.run.readers_of(node)]
            yield from ((reader, False) for reader in readers if self.values.get(reader, 0) >> bit & 1)


def list_set_bits(faults: int) -> Iterator[int]:
    """Return the positions of the bits that are set.

    >>> list(list_set_bits(0b1010))
    [1, 3]
    """
    while faults:
        lowest = faults & -faults
        yield lowest.bit_length() - 1
        faults ^= lowest


def is_spoiled(flow: Any) -> bool:
    """Return whether a value, or the present part of a flow, has a non-finite element.

    >>> is_spoiled(np.float64(np.inf)), is_spoiled(MaskedFlow(np.array([False]), np.array([np.nan])))
    (True, False)
    """
    kind = type(flow)
    if kind is np.float64 or kind is float:
        return not math.isfinite(flow)
    return _any_true(is_nonfinite(fill_absent(flow)))


def _any_true(flags: Any) -> bool:
    # Most are single numbers, for which `any` is slow.
    return bool(flags) if type(flags) is np.bool_ else bool(flags.any())


def _passes_nonfinite(row: Row, slot: int, xs: Sequence[Any], y: Any) -> bool:
    """Return whether a non-finite input reaches the output; a router passes on only the input it chose."""
    if row.op.pattern is not Pattern.ROUTE or not isinstance(row.op, Elementwise):
        return True
    local = row.op.local(slot, xs, y, row.mode)
    if local is None:
        return False
    chosen = local.mask if type(local) is MaskedFlow else True
    return _any_true(chosen & is_nonfinite(xs[slot]) & is_nonfinite(y))
