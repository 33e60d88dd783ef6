"""Makes the picture of a circuit and a run: every node, or groups of them where there are too many to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.errors import CircuitError, InputError, shown
from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.fanout import with_splitters
from wiregrad.export.grouping import CAP, Kinds, Piece, Plan, plan, wires
from wiregrad.export.letters import count, printable
from wiregrad.export.reading import BLOCKED, DIGITS, NOT_COMPUTED, Reading, State, in_full, norm, read
from wiregrad.ir import CONSTANT, INPUT, Circuit, Node, Pattern
from wiregrad.ir.mode import decode
from wiregrad.ops.flow import settle


def picture(
    circuit: Circuit,
    run: Run | None = None,
    *,
    split: bool = False,
    depth: int | None = None,
    opened: Iterable[str] = (),
    cap: int = CAP,
    digits: int = DIGITS,
) -> Picture:
    """Return what is to be drawn: every node, or groups of them where there are more than `cap`.

    `split` draws the splitters behind each value that is read more than once. `depth` says how many levels of groups
    are open and `opened` which groups are besides; by default all of them are, as long as there is room.

    >>> from wiregrad.ir import parse_text
    >>> [box.label for box in picture(parse_text("input x\\ny = multiply x x\\noutput y")).boxes]
    ['x', 'y']
    """
    _check(circuit, run, depth, cap)
    chosen = frozenset(opened)
    kinds = Kinds.of(circuit)
    boxes = int(kinds.leaves.sum() + kinds.inner.sum() + kinds.splitters.sum())
    artist = _Artist(circuit, run, kinds, digits)
    if boxes <= cap and (depth is None or circuit.columns.groups.index is None) and not chosen:
        made = artist.whole()
        drawn = with_splitters(made, run, digits) if split else made
        return drawn if len(drawn.boxes) <= cap else made
    return artist.collapsed(plan(circuit, depth=depth, opened=chosen, cap=cap))


def _check(circuit: Circuit, run: Run | None, depth: int | None, cap: int) -> None:
    if run is not None and run.circuit is not circuit and run.circuit != circuit:
        raise CircuitError("the run is of another circuit; draw run.circuit")
    for name, number, least in (("cap", cap, 1), ("depth", 0 if depth is None else depth, 0)):
        if type(number) is not int or number < least:
            raise InputError(f"{name} must be a whole number of at least {least}; got {shown(number)}")


class _Artist:
    """Makes boxes and links of one circuit and run."""

    def __init__(self, circuit: Circuit, run: Run | None, kinds: Kinds, digits: int) -> None:
        self.circuit, self.run, self.kinds, self.digits = circuit, run, kinds, digits
        self.active = circuit.active()
        self.labels: dict[int, list[str]] = {}
        for label, node in zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True):
            self.labels.setdefault(node, []).append(label)

    def picture(self, boxes: Sequence[Box], links: Sequence[Link], note: str = "") -> Picture:
        """Return a picture with the circuit's own title."""
        inputs, nodes, splitters = self.circuit.count()
        parts = [count(inputs, "input"), count(nodes, "node"), *([count(splitters, "splitter")] if splitters else [])]
        return Picture(
            printable(self.circuit.name), ", ".join(parts), tuple(boxes), tuple(links), note, self.run is not None
        )

    def whole(self) -> Picture:
        """Draw every node."""
        shown = np.flatnonzero(~self.kinds.folded)
        place = np.full(self.circuit.size, -1)
        place[shown] = np.arange(len(shown))
        boxes = [self.box(node) for node in shown.tolist()]
        links = [link for row in self.circuit.rows() for link in self.links(row.node, row.sources, place.tolist())]
        return self.picture(boxes, links)

    def links(self, node: int, sources: Sequence[int], place: Sequence[int]) -> Iterator[Link]:
        """Return the wires into a node, but for those of constants written inside it."""
        for slot, source in enumerate(sources):
            if place[source] >= 0:
                yield self.link(node, slot, source, place[source], place[node])

    def link(self, node: int, slot: int, source: int, start: int, end: int) -> Link:
        """Return one wire."""
        view = Node(self.circuit, node)
        local = sent = None
        if self.run is not None:
            wire = self.run.wire(node, slot)
            sent = self.flow(wire.blocked, wire.sent, source)
            if view.op.pattern is not Pattern.MERGE and wire.local is not None and self.active[source]:
                local = read(wire.local, self.digits)
        return Link(start, end, node, slot, view.op.input_name(slot), local, sent)

    def flow(self, absent: bool, value: Any, node: int) -> Reading:
        """Return the reading of a gradient: a dash where none was asked for, `blocked` where none arrived."""
        if not self.active[node]:
            return NOT_COMPUTED
        return BLOCKED if absent else read(value, self.digits)

    def box(self, node: int) -> Box:
        """Return the box of one node."""
        view, run = Node(self.circuit, node), self.run
        names = self.circuit.columns.names.of(node)
        kind = _kind_of(view)
        value = grad = None
        if run is not None:
            value = read(run.values[node], self.digits)
            grad = self.flow(run.flows[node] is None, run.gradient(node), node)
        labels = tuple(map(printable, self.labels.get(node, ())))
        name = names[0] if names else labels[0] if labels else ""
        return Box(
            kind=kind,
            name=printable(name),
            text=printable(self._text(view, kind)),
            label=printable(name or view.name),
            node=node,
            group=printable("/".join(filter(None, view.group.split("/")))),
            facts=tuple(self._facts(view, kind)),
            value=value,
            grad=grad,
            outputs=labels,
            bad=sum(r is not None and r.state is State.NONFINITE for r in (value, grad)),
            kink="" if run is None else self._kink(view),
        )

    def _text(self, view: Node, kind: Kind) -> str:
        """Return the op with the constants that are written inside it; a dot stands for a wire."""
        if kind in (Kind.INPUT, Kind.CONSTANT, Kind.SPLIT):
            return str(kind.value)
        op, sources = view.op, self.circuit.sources_of(view.index)
        constants = [self._constant(source) for source in sources]
        if not any(constants):
            return op.infix[0] if op.infix else op.prefix or op.name
        bare = replace(op, settings=()) if op.settings else op
        return str(bare.expression(*(text or "·" for text in constants)))

    def _constant(self, source: int) -> str:
        while self.kinds.folded[source] and self.circuit.sources_of(source):
            source = self.circuit.sources_of(source)[0]
        return read(self.circuit.constant_of(source), self.digits).text if self.kinds.folded[source] else ""

    def _facts(self, view: Node, kind: Kind) -> Iterator[str]:
        yield printable(f"{view.name}: {kind.value}" if kind in (Kind.INPUT, Kind.SPLIT) else str(view))
        yield str(view.type)
        if self.run is not None:
            yield f"value {in_full(self.run[view.name].value)}"
            grad = self.flow(self.run.flows[view.index] is None, 0.0, view.index)
            plain = grad.state is State.NUMBER
            yield f"gradient {in_full(self.run[view.name].grad) if plain else grad.state.value}"
        if view.op.pattern is not Pattern.SOURCE:
            yield f"{view.op.name} {view.op.pattern.value}"
        if view.group:
            yield f"in {printable(view.group)}"
        if view.place is not None:
            # Pictures are handed around: the file's name is enough, its folder is nobody's business.
            yield printable(f"written at {view.place._replace(file=PurePath(view.place.file).name)}")

    def _kink(self, view: Node) -> str:
        """Return the convention a node on a kink follows; empty for all others."""
        run, found = self.run, False
        if run is None or not view.op.kinks or not self.active[view.index]:
            return ""
        xs = [run.values[source] for source in self.circuit.sources_of(view.index)]
        with np.errstate(all="ignore"):
            found = any(np.any(np.equal(kink.at(*xs), 0.0)) for kink in view.op.kinks if not kink.jump)
        return decode(view.mode)[0].name.lower() if found else ""

    def collapsed(self, plan: Plan) -> Picture:
        """Draw pieces, each a group or a single node."""
        sizes = self._sizes()
        boxes = [self.box(piece.nodes[0]) if piece.single else self._group(piece, *sizes) for piece in plan.pieces]
        return self.picture(boxes, self._bundles(plan), plan.note)

    def _sizes(self) -> tuple[Any, Any, Any]:
        """Return how large the gradient of every node is, and how much of gradient and value is not finite."""
        if self.run is None:
            nothing = np.zeros(self.circuit.size, np.int64)
            return nothing, nothing, nothing
        return (*_measure(self.run.flows), _measure(self.run.values, sizes=False)[1])

    def _group(self, piece: Piece, sizes: Any, bad: Any, lost: Any) -> Box:
        nodes = list(piece.nodes)
        at, of = piece.part
        name = piece.path or f"%{nodes[0]} to %{nodes[-1]}"
        outer, _, _ = piece.path.rpartition("/")
        text = count(len(nodes), "node")
        grad = None
        if self.run is not None:
            grad = self._norm(sizes[nodes], int(bad[nodes].sum()))
        part = f" ({at} of {of})" if of > 1 and piece.path else ""
        total = int((bad + lost)[nodes].sum())
        facts = [f"group {name}{part}", text, *([] if grad is None else [f"gradient norm {grad.text}"])]
        return Box(
            kind=Kind.GROUP,
            name=printable(name + part),
            text=text,
            label=printable(name + part),
            node=nodes[0],
            nodes=len(nodes),
            group=printable(outer),
            facts=(*map(printable, facts), *([f"{total:,} values or gradients not finite"] if total else [])),
            grad=grad,
            outputs=tuple(printable(label) for node in nodes for label in self.labels.get(node, ())),
            bad=total,
        )

    def _bundles(self, plan: Plan) -> list[Link]:
        """Return the wires between pieces; those that join the same two boxes are one if either is a group."""
        sources, readers = wires(self.circuit)
        starts, ends = plan.owner[sources], plan.owner[readers]
        crossing = np.flatnonzero((starts != ends) & (starts >= 0) & (ends >= 0))
        together: dict[tuple[int, int, int], list[int]] = {}
        found: list[Link] = []
        for k, start, end in zip(crossing.tolist(), starts[crossing].tolist(), ends[crossing].tolist(), strict=True):
            alone = plan.pieces[start].single and plan.pieces[end].single
            together.setdefault((start, end, k if alone else -1), []).append(k)
        measured = None if self.run is None else _measure(self.run.sent)
        for (start, end, _), bundle in together.items():
            reader = int(readers[bundle[0]])
            slot = bundle[0] - int(self.circuit.columns.starts[reader])
            if len(bundle) == 1:
                found.append(self.link(reader, slot, int(sources[bundle[0]]), start, end))
            else:
                sent = None if measured is None else self._bundle(bundle, sources, *measured)
                found.append(Link(start, end, reader, slot, "", None, sent, len(bundle)))
        return sorted(found, key=lambda link: (link.target, link.reader, link.slot))

    def _bundle(self, bundle: Sequence[int], sources: Any, sizes: Any, bad: Any) -> Reading:
        """Return what came back along wires that are drawn as one."""
        run = self.run
        live = [k for k in bundle if self.active[sources[k]]]
        flows = [] if run is None else [run.sent[k] for k in live if run.sent[k] is not None]
        if len(flows) <= 1:
            return self.flow(not flows, settle(flows[0]) if flows else None, int(sources[(live or bundle)[0]]))
        return self._norm(sizes[live], int(bad[live].sum()))

    def _norm(self, sizes: Any, bad: int) -> Reading:
        """Return the norm of several gradients; there is none if one of them is not finite."""
        if bad:
            return Reading("NaN", float("nan"), state=State.NONFINITE)
        size = norm(sizes)
        return Reading(f"‖{read(size, self.digits).text}‖", size, signed=False)


def _measure(flows: Sequence[Any], *, sizes: bool = True) -> tuple[Any, Any]:
    """Return how large each flow or value is, and how many numbers in it are not finite."""
    found, bad = np.zeros(len(flows)), np.zeros(len(flows), np.int64)
    for k, flow in enumerate(flows):
        if type(flow) is np.float64:
            found[k] = flow
        elif flow is not None:
            settled = settle(flow)
            found[k] = norm(settled) if sizes else 0.0
            bad[k] = _not_finite(settled)
    lost = ~np.isfinite(found)
    return np.where(lost, 0.0, np.abs(found)), bad + lost


def _not_finite(value: Any) -> int:
    array = np.asarray(value)
    return int(array.size - np.isfinite(array).sum()) if array.dtype.kind in "fc" else 0


def _kind_of(view: Node) -> Kind:
    if view.op is INPUT:
        return Kind.INPUT
    if view.op is CONSTANT:
        return Kind.CONSTANT
    return Kind.SPLIT if view.op.pattern is Pattern.MERGE else Kind.NODE
