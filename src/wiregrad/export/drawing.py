"""Makes the picture of a circuit and a run: every node, or groups of them where there are too many to draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.dtypes import counted
from wiregrad.errors import CircuitError, InputError, shown, suggest
from wiregrad.export.boxes import Box, Kind, Link, Picture, without_lone_groups
from wiregrad.export.captions import caption
from wiregrad.export.fanout import with_splitters
from wiregrad.export.grouping import CAP, RANKS, Piece, Plan, group_paths, plan, short_plan, wires
from wiregrad.export.kinds import Kinds
from wiregrad.export.letters import printable
from wiregrad.export.reading import (
    BLOCKED,
    DIGITS,
    NOT_COMPUTED,
    Reading,
    State,
    in_full,
    nonfinite_text,
    norm,
    not_finite,
    read,
)
from wiregrad.ir import CONSTANT, INPUT, TABLE, Circuit, Node, Pattern, listed
from wiregrad.ir.mode import decode
from wiregrad.ops import Elementwise
from wiregrad.ops.flow import settle


def picture(
    circuit: Circuit,
    run: Run | None = None,
    *,
    split: bool = False,
    depth: int | None = None,
    opened: Iterable[str] = (),
    cap: int | None = None,
    digits: int = DIGITS,
) -> Picture:
    """Build the picture of a circuit: every node, or groups of nodes if there are more than `cap`.

    `split` draws the splitters behind each value that is read more than once. Groups are open down to `depth` levels,
    and so are those in `opened`. By default all groups are open as long as the picture has at most 300 boxes, and at
    most 48 one after another; with `cap`, only the number of boxes counts.

    >>> from wiregrad.ir import parse_text
    >>> [box.label for box in picture(parse_text("input x\\ny = multiply x x\\noutput y")).boxes]
    ['x', 'y']
    """
    most = CAP if cap is None else cap
    _check(circuit, run, depth, most)
    chosen = _chosen(circuit, opened)
    kinds = Kinds.of(circuit)
    boxes = int(kinds.leaves.sum() + kinds.inner.sum() + kinds.splitters.sum())
    artist = _Artist(circuit, run, kinds, digits)
    every_node_fits = boxes <= most and (depth is None or circuit.columns.groups.index is None) and not chosen
    pieces = short_plan(circuit, most, RANKS) if every_node_fits and cap is None else None
    if not every_node_fits and pieces is None:
        ranks = RANKS if cap is None and depth is None else None
        pieces = plan(circuit, depth=depth, opened=chosen, cap=most, ranks=ranks)
    if pieces is not None:
        drawn = artist.collapsed(pieces)
        return _unsplit(drawn, "only a picture of every node has them") if split and _branches(circuit) else drawn
    drawn = artist.whole()
    if not split:
        return drawn
    divided = with_splitters(drawn, run, digits)
    return divided if len(divided.boxes) <= most else _unsplit(drawn, f"with them there are more than {most:,} boxes")


def captions(circuit: Circuit, run: Run | None = None) -> dict[int, str]:
    """Return the captions of the boxes whose ops are not elementwise, by node.

    >>> import wiregrad as wg
    >>> captions(wg.trace(np.sum, np.ones((2, 3))))
    {1: 'sum'}
    """
    kinds = Kinds.of(circuit)
    artist = _Artist(circuit, run, kinds, DIGITS)
    plain = np.array([isinstance(op, Elementwise) or not op.inputs for op in TABLE])[circuit.columns.codes]
    nodes = np.flatnonzero(kinds.inner & ~plain).tolist()
    return {node: printable(artist.caption(Node(circuit, node))) for node in nodes}


def _check(circuit: Circuit, run: Run | None, depth: int | None, cap: int) -> None:
    if run is not None and run.circuit is not circuit and run.circuit != circuit:
        raise CircuitError("the run is of another circuit; draw run.circuit")
    for name, number, least in (("cap", cap, 1), ("depth", 0 if depth is None else depth, 0)):
        if type(number) is not int or number < least:
            raise InputError(f"{name} must be a whole number of at least {least}; got {shown(number)}")


def _chosen(circuit: Circuit, opened: Any) -> frozenset[str]:
    """Return the groups that are to be open; raise unless all of them exist."""
    is_list = isinstance(opened, Iterable) and not isinstance(opened, str)
    paths = [*opened] if is_list else []
    if not is_list or not all(isinstance(path, str) for path in paths):
        raise InputError(f"opened must be a list of groups, such as ['net/layer1']; got {shown(opened)}")
    known = group_paths(circuit) if paths else []
    for path in paths:
        if path not in known:
            has = suggest(path, known) if known else "; the circuit has no groups"
            raise InputError(f"opened: there is no group {shown(path)}{has}")
    return frozenset(paths)


def _branches(circuit: Circuit) -> bool:
    """Return whether a value is read more than once."""
    sources, _ = wires(circuit)
    return bool(len(sources)) and int(np.bincount(sources).max()) > 1


def _unsplit(drawn: Picture, why: str) -> Picture:
    remark = f"drawn without splitters: {why}"
    return replace(drawn, note=f"{drawn.note}; {remark}" if drawn.note else remark)


class _Artist:
    """Makes boxes and links of one circuit and run."""

    def __init__(self, circuit: Circuit, run: Run | None, kinds: Kinds, digits: int) -> None:
        self.circuit = circuit
        self.run = run
        self.kinds = kinds
        self.digits = digits
        self.active = circuit.active()
        self.labels: dict[int, list[str]] = {}
        for label, node in zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True):
            self.labels.setdefault(node, []).append(label)

    def picture(self, boxes: Sequence[Box], links: Sequence[Link], note: str = "") -> Picture:
        """Return a picture with the title of the circuit."""
        inputs, nodes, splitters = self.circuit.count()
        parts = [
            counted(inputs, "input"),
            counted(nodes, "node"),
            *([counted(splitters, "splitter")] if splitters else []),
        ]
        title = printable(self.circuit.name)
        return Picture(title, ", ".join(parts), without_lone_groups(boxes), tuple(links), note, self.run is not None)

    def whole(self) -> Picture:
        """Draw every node."""
        visible = np.flatnonzero(~self.kinds.folded)
        place = np.full(self.circuit.size, -1)
        place[visible] = np.arange(len(visible))
        boxes = [self.box(node) for node in visible.tolist()]
        at = place.tolist()
        links = [link for row in self.circuit.rows() for link in self.links(row.node, row.sources, at)]
        return self.picture(boxes, links)

    def links(self, node: int, sources: Sequence[int], place: Sequence[int]) -> Iterator[Link]:
        """Return the wires into a node, without those from constants that are written inside it."""
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
        """Return the reading of a gradient: a dash if none was asked for, `blocked` if none arrived."""
        if not self.active[node]:
            return NOT_COMPUTED
        return BLOCKED if absent else read(value, self.digits)

    def box(self, node: int, leaves: Sequence[int] = ()) -> Box:
        """Return the box of one node; some leaves may be written inside it."""
        view = Node(self.circuit, node)
        run = self.run
        names = self.circuit.columns.names.of(node)
        kind = _kind_of(view)
        value = grad = None
        if run is not None:
            value = read(run.values[node], self.digits)
            grad = self.flow(run.flows[node] is None, run.gradient(node), node)
        labels = tuple(map(printable, self.labels.get(node, ())))
        name = next(iter([*names, *labels]), "")
        return Box(
            kind=kind,
            name=printable(name),
            text=printable(self._text(view, kind, leaves)),
            label=printable(name or view.name),
            node=node,
            nodes=1 + len(leaves),
            group=printable("/".join(filter(None, view.group.split("/")))),
            facts=(*self._facts(view, kind), *self._held(leaves)),
            value=value,
            grad=grad,
            outputs=labels,
            bad=sum(r is not None and r.state is State.NONFINITE for r in (value, grad)),
            kink="" if run is None else self._kink(view),
        )

    def _text(self, view: Node, kind: Kind, leaves: Sequence[int]) -> str:
        """Return the text in the head of a box: its caption, or its kind if it has no op."""
        return str(kind.value) if kind in (Kind.INPUT, Kind.CONSTANT, Kind.SPLIT) else self.caption(view, leaves)

    def caption(self, view: Node, leaves: Sequence[int] = ()) -> str:
        """Return the caption of a node, with constants and leaves inside it; a dot stands for a wire."""
        sources = self.circuit.sources_of(view.index)
        inside = [self.circuit.name_of(x) if x in leaves else self._constant(x) for x in sources]
        rank = len(self.circuit.type_of(sources[0]).shape) if sources else -1
        # With a run, the shape is written beside the value.
        return caption(view.op, inside, rank=rank, shapes=self.run is None)

    def _constant(self, source: int) -> str:
        """Write a constant that is shown inside its reader: its number, or its shape if it has several."""
        while self.kinds.folded[source] and self.circuit.sources_of(source):
            source = self.circuit.sources_of(source)[0]
        if not self.kinds.folded[source]:
            return ""
        reading = read(self.circuit.constant_of(source), self.digits)
        return reading.uniform or reading.shape or reading.text

    def _held(self, leaves: Sequence[int]) -> list[str]:
        """Return a fact that names the inputs drawn inside a box."""
        return [f"with {listed([printable(self.circuit.name_of(leaf)) for leaf in leaves])}"] if leaves else []

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
            # Pictures are passed on, and folders may be private: the name of the file is enough.
            yield printable(f"written at {view.place.without_folder()}")

    def _kink(self, view: Node) -> str:
        """Return the convention a node on a kink follows; empty for all others."""
        run = self.run
        if run is None or not view.op.kinks or not self.active[view.index]:
            return ""
        xs = [run.values[source] for source in self.circuit.sources_of(view.index)]
        with np.errstate(all="ignore"):
            on_kink = any(np.any(np.equal(kink.at(*xs), 0.0)) for kink in view.op.kinks if not kink.jump)
        return decode(view.mode)[0].name.lower() if on_kink else ""

    def collapsed(self, plan: Plan) -> Picture:
        """Draw the pieces of a plan, each a group or a single node."""
        sizes = self._sizes()
        boxes = [
            self.box(piece.nodes[0], piece.leaves) if piece.single else self._group(piece, *sizes)
            for piece in plan.pieces
        ]
        return self.picture(boxes, self._bundles(plan), plan.note)

    def _sizes(self) -> tuple[Sizes, Sizes]:
        """Return the sizes of all gradients and of all values, and how many numbers in them are not finite."""
        if self.run is None:
            nothing = Sizes(*np.zeros((3, self.circuit.size), np.int64))
            return nothing, nothing
        return Sizes.of_gradients(self.run), Sizes.of(self.run.values, sizes=False)

    def _group(self, piece: Piece, flows: Sizes, values: Sizes) -> Box:
        nodes = list(piece.nodes)
        held = [*piece.leaves, *piece.nodes]
        name = self._name(piece)
        outer = piece.path if piece.opened else piece.path.rpartition("/")[0]
        text = counted(len(nodes), "input" if self.kinds.leaves[nodes[0]] else "node")
        # Only function nodes count for the norm, so that it does not depend on where inputs are drawn.
        grad = None if self.run is None else self._norm(flows, nodes)
        bad = flows.bad(held) + values.bad(held)
        facts = [f"group {name}", text, *([] if grad is None else [f"gradient norm {grad.text}"])]
        facts += [f"{bad:,} values or gradients not finite"] if bad else []
        return Box(
            kind=Kind.GROUP,
            name=printable(name),
            text=text,
            label=printable(name),
            node=nodes[0],
            nodes=len(held),
            group=printable(outer),
            facts=(*map(printable, facts), *self._held(piece.leaves)),
            grad=grad,
            outputs=tuple(printable(label) for node in held for label in self.labels.get(node, ())),
            bad=bad,
            path="" if piece.until else piece.path,
            members=piece.nodes,
        )

    def _name(self, piece: Piece) -> str:
        """Return the name of a piece: its group or groups, its inputs, or its first and last node."""
        number, count = piece.part
        if piece.until:
            return f"{piece.path} to {piece.until}"
        if piece.path:
            return f"{piece.path} ({number} of {count})" if count > 1 else piece.path
        first = piece.nodes[0]
        last = piece.nodes[-1]
        if self.kinds.leaves[first]:
            return f"{self.circuit.name_of(first)} to {self.circuit.name_of(last)}"
        return f"%{first} to %{last}"

    def _bundles(self, plan: Plan) -> list[Link]:
        """Return the wires between pieces; those that join the same two boxes are one if either is a group."""
        sources, readers = wires(self.circuit)
        starts = plan.owner[sources]
        ends = plan.owner[readers]
        crossing = np.flatnonzero((starts != ends) & (starts >= 0) & (ends >= 0))
        together: dict[tuple[int, int, int], list[int]] = {}
        links: list[Link] = []
        for k, start, end in zip(crossing.tolist(), starts[crossing].tolist(), ends[crossing].tolist(), strict=True):
            alone = plan.pieces[start].single and plan.pieces[end].single
            together.setdefault((start, end, k if alone else -1), []).append(k)
        measured = None if self.run is None else Sizes.of(self.run.sent)
        for (start, end, _), bundle in together.items():
            reader = int(readers[bundle[0]])
            slot = bundle[0] - int(self.circuit.columns.starts[reader])
            if len(bundle) == 1:
                links.append(self.link(reader, slot, int(sources[bundle[0]]), start, end))
            else:
                sent = None if measured is None else self._bundle(bundle, sources, measured)
                links.append(Link(start, end, reader, slot, "", None, sent, len(bundle)))
        return sorted(links, key=lambda link: (link.target, link.reader, link.slot))

    def _bundle(self, bundle: Sequence[int], sources: Any, sizes: Sizes) -> Reading:
        """Return the reading of the gradients sent back along wires that are drawn as one."""
        run = self.run
        live = [k for k in bundle if self.active[sources[k]]]
        flows = [] if run is None else [run.sent[k] for k in live if run.sent[k] is not None]
        if len(flows) <= 1:
            return self.flow(not flows, settle(flows[0]) if flows else None, int(sources[(live or bundle)[0]]))
        return self._norm(sizes, live)

    def _norm(self, sizes: Sizes, some: Sequence[int]) -> Reading:
        """Return the reading of the norm of several gradients, or how many numbers in them are not finite."""
        if sizes.bad(some):
            text = nonfinite_text(int(sizes.nans[some].sum()), int(sizes.infs[some].sum()))
            return Reading(text, float("nan"), state=State.NONFINITE)
        size = norm(sizes.norms[some])
        return Reading(f"‖{read(size, self.digits).text}‖", size, signed=False)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The norm of each of many flows or values, and how many numbers in each are NaN or infinite."""

    norms: Any
    nans: Any
    infs: Any

    @classmethod
    def of(cls, flows: Sequence[Any], *, sizes: bool = True) -> Sizes:
        """Measure flows or values; without `sizes`, count only what is not finite."""
        norms = np.zeros(len(flows))
        nans = np.zeros(len(flows), np.int64)
        infs = np.zeros(len(flows), np.int64)
        for k, flow in enumerate(flows):
            if type(flow) is np.float64:
                norms[k] = flow
            elif flow is not None:
                settled = settle(flow)
                norms[k] = norm(settled) if sizes else 0.0
                nans[k], infs[k] = not_finite(settled)
        finite = np.where(np.isfinite(norms), np.abs(norms), 0.0)
        return cls(finite, nans + np.isnan(norms), infs + np.isinf(norms))

    @classmethod
    def of_gradients(cls, run: Run) -> Sizes:
        """Measure the gradient of every node of a run."""
        flows = list(run.flows)
        columns = run.circuit.columns
        wide = np.array([bool(kind.shape) for kind in columns.type_table])[columns.types]
        for node in np.flatnonzero(wide).tolist():
            # A flow that is uniform over an array may be stored as one number.
            if flows[node] is not None:
                flows[node] = run.gradient(node)
        return cls.of(flows)

    def bad(self, some: Sequence[int]) -> int:
        """Return how many numbers are not finite in some of the flows or values."""
        return int(self.nans[some].sum() + self.infs[some].sum())


def _kind_of(view: Node) -> Kind:
    if view.op is INPUT:
        return Kind.INPUT
    if view.op is CONSTANT:
        return Kind.CONSTANT
    return Kind.SPLIT if view.op.pattern is Pattern.MERGE else Kind.NODE
