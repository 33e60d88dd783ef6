"""Anomaly mode: the first op that makes something non-finite, forward or backward, raises and says why.

While it is on, every op is recorded in full and with its line, and looked at as it is recorded; a backward pass is
looked at wire by wire, and an error there points at the line that was written forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wiregrad.dtypes import number, plain
from wiregrad.errors import NonFiniteError
from wiregrad.frontends.place import user_place
from wiregrad.frontends.session import Hooks, Numbers, data_of, unwatched
from wiregrad.frontends.tape import LITERAL, STATE, STRIDE, WATCHES, Gone, Span, Tape
from wiregrad.ir import INPUT, Op, Place, Row
from wiregrad.ir.blocks import Block
from wiregrad.ops.advice import remedy
from wiregrad.ops.fault import Fault, backward_fault, bad, forward_fault, is_nan
from wiregrad.ops.remedies import Around
from wiregrad.passes import reverse


def anomaly(*, infinite: bool = True) -> Block[Any]:
    """Raise `NonFiniteError` at the first op that makes something non-finite, with its factors and its line.

    What is recorded, swept back, pushed forward or batched in this thread is looked at; of a circuit that is run by
    itself, ask `run.blame()`. An infinity that is given (a mask of -inf) may pass; what makes NaN of it raises. With
    `infinite=False` any infinity may pass, and only NaN raises.

    >>> from wiregrad.frontends.value import Value
    >>> try:
    ...     with anomaly():
    ...         Value(0.0).log()
    ... except NonFiniteError as error:
    ...     error.fault.sentence()
    'log gave -inf at x = 0'
    """
    return WATCHES.block(Watch(infinite), also=_note_leak)


def _note_leak() -> None:
    """Say of a recording that is to be replayed that a replay would not raise."""
    if STATE.tape is not None and STATE.tape.tracing:
        STATE.tape.leak = "it uses wg.anomaly(), under which numbers may raise"


class Watch:
    """Looks at every op as it is recorded, and at every wire of a backward pass."""

    def __init__(self, infinite: bool) -> None:
        self.infinite = infinite

    def __call__(self, tape: Tape, offset: int, op: Op, xs: Sequence[Any], y: Any) -> None:
        """Raise if the op that was recorded last broke, or was given a NaN that nobody had seen."""
        if self.tolerates(y):
            return
        place = tape.places.get(offset)
        fault = self.fault(op, xs, y)
        if fault is not None:
            raise _error(fault, place, remedy(offset, _around(tape), fault))
        for slot, (source, x) in enumerate(zip(tape.node_at(offset).sources, xs, strict=True)):
            given = source == LITERAL or tape.node_at(source).op is INPUT
            if given and np.any(is_nan(x)):
                name = f"{op.title} was given {'an array with ' if np.ndim(x) else ''}NaN as {op.input_name(slot)}"
                raise NonFiniteError(_message(name, place, "look at where this value comes from"), place=place)

    def apart(self, op: Op, xs: Sequence[Any], y: Any, place: Place | None = None, within: Op | None = None) -> None:
        """Raise if an op broke that is not recorded: under `no_grad`, or on all examples of a batch.

        `within` is the op whose rule applies it.
        """
        fault = None if self.tolerates(y) else self.fault(op, xs, y)
        if fault is not None:
            said = f"in the derivative of {within.title}: " if within is not None else ""
            place = place or user_place()
            raise NonFiniteError(_message(said + fault.sentence(), place, ""), fault=fault, place=place)

    def fault(self, op: Op, xs: Sequence[Any], y: Any) -> Fault | None:
        """Return what an op broke: finite numbers, or an infinity of which it made NaN."""
        own = forward_fault(op, xs, y) if self.infinite else None
        return own or forward_fault(op, xs, y, only_nan=True)

    def tolerates(self, y: Any) -> bool:
        """Return whether nothing is wrong with a number or array."""
        return not np.any(bad(y) if self.infinite else is_nan(y))

    def pull_back(self, tape: Tape, seeds: Sequence[tuple[int, Any]], start: int = 0) -> list[Any]:
        """Run the reverse sweep on numbers, wire by wire; returns one gradient per node, as `tape.pull_back` does."""
        stop = max(offset for offset, _ in seeds) + STRIDE
        leaves = [offset for offset, node in tape.nodes(start, stop) if node.op is INPUT]
        span = Span(tape, start, stop, leaves)
        sweep = self.sweeping(span, Numbers(span))
        with unwatched():
            return reverse(span, Numbers(span), span.seeded(seeds), sweep)

    def pushed(self, span: Span, values: Numbers, tangents: Sequence[Any]) -> None:
        """Raise if a tangent is not finite though those that it was made from are."""
        for row in span.rows():
            arrived = [_plain(tangents[k]) for k in row.sources if k >= 0 and tangents[k] is not None]
            if row.sources and not self.tolerates(_plain(tangents[row.node])) and all(map(self.tolerates, arrived)):
                place = span.tape.places.get(span.start + row.node * STRIDE)
                given = ", ".join(number(plain(data_of(values[k]))) for k in row.sources)
                raise NonFiniteError(
                    _message(f"the tangent of {row.op.title} is not finite at {given}", place, ""), place=place
                )

    def sweeping(self, span: Span, values: Numbers) -> Sweep:
        """Return what looks at the wires of a sweep."""
        return Sweep(self, span, values)


class Sweep(Hooks):
    """Looks at what goes back along each wire; runs the hooks too."""

    def __init__(self, watch: Watch, span: Span, values: Numbers) -> None:
        super().__init__(span)
        self.watch = watch
        self.span = span
        self.values = values
        self.upstream: Any = None
        self.place: Place | None = None
        self.op: Op | None = None
        self.marked = len(span.tape.buffer)

    def node(self, row: Row, upstream: Any) -> Any:
        """Keep what arrived; the hooks may change it."""
        self.close()
        self.place = self.span.tape.places.get(self.span.start + row.node * STRIDE)
        self.op = row.op
        changed = super().node(row, upstream)
        self.upstream = upstream if changed is None else changed
        if not self.watch.tolerates(_plain(self.upstream)):
            # No wire raised, so each part is finite.
            said = f"the gradients that come back to {row.op.title} add up to more than there are numbers for"
            raise NonFiniteError(_message(said, self.place, "scale the result down"), place=self.place)
        return changed

    def close(self) -> None:
        """Give what the rules recorded the line of the op they belong to."""
        tape = self.span.tape
        for offset in range(self.marked, len(tape.buffer), STRIDE):
            if self.place is not None:
                tape.places.setdefault(offset, self.place)
            if self.op is not None:
                tape.derived.setdefault(offset, self.op)
        self.marked = len(tape.buffer)

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        """Raise if what was sent is not finite though all it was made from is."""
        sent = _plain(sent)
        g = _plain(self.upstream)
        if self.watch.tolerates(sent):
            return
        xs = [data_of(self.values[source]) for source in row.sources]
        y = data_of(self.values[row.node])
        if any(type(x) is Gone for x in (*xs, y)):
            return
        fault = backward_fault(row.op, slot, g, xs, y, row.mode, sent)
        offset = self.span.start + row.node * STRIDE
        tape = self.span.tape
        if fault is not None:
            raise _error(fault, self.place, remedy(offset, _around(tape), fault))
        if self.watch.tolerates(g) and np.any(is_nan(sent)):
            said = f"{row.op.title} sent NaN back, made of an infinity it was given"
            raise NonFiniteError(_message(said, self.place, ""), place=self.place)


def _plain(flow: Any) -> Any:
    """Return a flow as numbers, whatever is recorded of it."""
    if flow is None:
        return np.float64(0.0)
    mask, value = (flow.mask, flow.value) if hasattr(flow, "mask") else (True, flow)
    return np.where(data_of(mask), data_of(value), 0.0)[()]


def _around(tape: Tape) -> Around:
    """Return a recording as what surrounds its nodes."""

    def operands(node: int) -> list[tuple[int, Any]]:
        extra = tape.node_at(node)
        return list(zip(extra.sources, extra.xs, strict=True))

    def readers(node: int) -> list[int]:
        # Looked for once, since there is one error.
        return [offset for offset, extra in tape.nodes(node + STRIDE, len(tape.buffer)) if node in extra.sources]

    return Around(lambda node: tape.node_at(node).op, operands, readers)


def _message(said: str, place: Place | None, advice: str) -> str:
    lines = [said] + ([f"  at {place}"] if place else []) + ([f"  try: {advice}"] if advice else [])
    return "\n".join(lines)


def _error(fault: Fault, place: Place | None, advice: str) -> NonFiniteError:
    return NonFiniteError(_message(fault.sentence(), place, advice), fault=fault, place=place)
