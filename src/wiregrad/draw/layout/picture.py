"""Builds the picture of a circuit and a run: every node, or groups of nodes where there are too many to draw.

`build_picture` is the entry. It draws every node if they fit, and otherwise asks `grouping` for a plan and draws one
box for each piece of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunNode, RunRecord
from wiregrad.draw.layout.boxes import (
    Box,
    BoxKind,
    NodeMasks,
    Picture,
    PictureLink,
    add_splitters,
    drop_lone_groups,
    write_caption,
)
from wiregrad.draw.layout.grouping import (
    MAX_BOXES,
    MAX_RANKS,
    PicturePiece,
    PicturePlan,
    find_wires,
    list_group_paths,
    plan_pieces,
    plan_short_picture,
)
from wiregrad.draw.layout.labels import (
    ABSENT_READING,
    BLOCKED_READING,
    DEFAULT_DIGITS,
    MAX_CAPTION_COLUMNS,
    NO_GRADIENT,
    Reading,
    ReadingState,
    count_columns,
    count_nonfinite,
    escape_unprintable,
    finite_norm,
    format_in_full,
    format_nonfinite,
    format_shape,
    read_value,
    typeset_caption,
)
from wiregrad.dtypes import PythonNumber, WireValue, count_with_noun
from wiregrad.errors import CircuitError, InputError, short_repr, suggest_name
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Node, Op, Pattern, join_first_names
from wiregrad.ir.types_and_kinks import decode_mode
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent

MAX_SOURCE_COLUMNS = 12
"""A source text of up to this many characters is shown in the box of its node; a longer one in the tooltip only."""


MAX_CAPTION_DEPTH = 4
"""Maximum depth of the expression under a box."""
MAX_CAPTION_OPERANDS = 3
"""Maximum number of operands in the expression under a box."""
ATOM_LEVEL = 99
"""How tightly something binds that needs no parentheses."""
_AUTOMATIC_NAME = re.compile(r"t\d+")


def find_given_name(circuit: CircuitGraph, node: int) -> str | None:
    """Return the name that a person gave to a node; formulas call the others t1, t2 and so on."""
    names = circuit.columns.names.names_of(node)
    return None if not names or _AUTOMATIC_NAME.fullmatch(names[0]) else names[0]


def _has_local(op: Op) -> bool:
    """Return whether an op has a local derivative for each input that is worth writing: those of sums are 1."""
    return isinstance(op, Elementwise) and op.pattern not in (Pattern.DISTRIBUTE, Pattern.MERGE)


class PictureOptions(TypedDict, total=False):
    """The options of `build_picture`, but for `cap`, which some writers of pictures set."""

    split: bool
    depth: int | None
    opened: Iterable[str]
    digits: int


def build_picture(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    split: bool = False,
    depth: int | None = None,
    opened: Iterable[str] = (),
    cap: int | None = None,
    digits: int = DEFAULT_DIGITS,
) -> Picture:
    """Build the picture of a circuit: every node, or groups of nodes if there are more than `cap`.

    `split` draws the splitters behind each value that is read more than once. Groups are open down to `depth` levels,
    and so are those in `opened`. By default all groups are open as long as the picture has at most 300 boxes, and at
    most 48 one after another; with `cap`, only the number of boxes counts.

    >>> from wiregrad.ir import parse_text
    >>> [box.label for box in build_picture(parse_text("input x\\ny = multiply x x\\noutput y")).boxes]
    ['x', 'y']
    """
    most = MAX_BOXES if cap is None else cap
    _check_request(circuit, run, depth, most)
    chosen = _check_opened(circuit, opened)
    kinds = NodeMasks.from_circuit(circuit)
    boxes = int(kinds.leaves.sum() + kinds.inner.sum() + kinds.splitters.sum())
    artist = _PictureBuilder(circuit, run, kinds, digits)
    every_node_fits = boxes <= most and (depth is None or circuit.columns.groups.index is None) and not chosen
    pieces = plan_short_picture(circuit, most, MAX_RANKS) if every_node_fits and cap is None else None
    if not every_node_fits and pieces is None:
        ranks = MAX_RANKS if cap is None and depth is None else None
        pieces = plan_pieces(circuit, depth=depth, opened=chosen, cap=most, ranks=ranks)
    if pieces is not None:
        drawn = artist.draw_pieces(pieces)
        return (
            _note_missing_splitters(drawn, "only a picture of every node has them")
            if split and _has_branches(circuit)
            else drawn
        )
    drawn = artist.draw_every_node()
    if not split:
        return drawn
    divided = add_splitters(drawn, run, digits)
    return (
        divided
        if len(divided.boxes) <= most
        else _note_missing_splitters(drawn, f"with them there are more than {most:,} boxes")
    )


def collect_captions(circuit: CircuitGraph, run: RunRecord | None = None) -> dict[int, str]:
    """Return the captions of the boxes whose ops are not elementwise, by node.

    >>> import wiregrad as wg
    >>> collect_captions(wg.trace(np.sum, np.ones((2, 3))))
    {1: 'sum'}
    """
    kinds = NodeMasks.from_circuit(circuit)
    artist = _PictureBuilder(circuit, run, kinds, DEFAULT_DIGITS)
    plain = np.array([isinstance(op, Elementwise) or not op.inputs for op in TABLE.by_code()])[circuit.columns.codes]
    nodes = np.flatnonzero(kinds.inner & ~plain).tolist()
    return {node: escape_unprintable(artist.caption_node(Node(circuit, node))) for node in nodes}


def _check_request(circuit: CircuitGraph, run: RunRecord | None, depth: int | None, cap: int) -> None:
    if run is not None and run.circuit is not circuit and run.circuit != circuit:
        raise CircuitError("the run is of another circuit; draw run.circuit")
    for name, number, least in (("cap", cap, 1), ("depth", 0 if depth is None else depth, 0)):
        if type(number) is not int or number < least:
            raise InputError(f"{name} must be a whole number of at least {least}; got {short_repr(number)}")


def _check_opened(circuit: CircuitGraph, opened: object) -> frozenset[str]:
    """Return the groups that are to be open; raise unless all of them exist."""
    paths = [*opened] if isinstance(opened, Iterable) and not isinstance(opened, str) else None
    if paths is None or not all(isinstance(path, str) for path in paths):
        raise InputError(f"opened must be a list of groups, such as ['net/layer1']; got {short_repr(opened)}")
    known = list_group_paths(circuit) if paths else []
    for path in paths:
        if path not in known:
            has = suggest_name(path, known) if known else "; the circuit has no groups"
            raise InputError(f"opened: there is no group {short_repr(path)}{has}")
    return frozenset(paths)


def _has_branches(circuit: CircuitGraph) -> bool:
    """Return whether a value is read more than once."""
    sources, _ = find_wires(circuit)
    return bool(len(sources)) and int(np.bincount(sources).max()) > 1


def _note_missing_splitters(drawn: Picture, why: str) -> Picture:
    remark = f"drawn without splitters: {why}"
    return replace(drawn, note=f"{drawn.note}; {remark}" if drawn.note else remark)


class _PictureBuilder:
    """Makes boxes and links of one circuit and run."""

    def __init__(self, circuit: CircuitGraph, run: RunRecord | None, kinds: NodeMasks, digits: int) -> None:
        self.circuit = circuit
        self.run = run
        self.kinds = kinds
        self.digits = digits
        self.active = circuit.active()
        self.labels: dict[int, list[str]] = {}
        for label, node in zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True):
            self.labels.setdefault(node, []).append(label)

    def make_picture(self, boxes: Sequence[Box], links: Sequence[PictureLink], note: str = "") -> Picture:
        """Return a picture with the title of the circuit."""
        inputs, nodes, splitters = self.circuit.count()
        parts = [
            count_with_noun(inputs, "input"),
            count_with_noun(nodes, "node"),
            *([count_with_noun(splitters, "splitter")] if splitters else []),
        ]
        title = escape_unprintable(self.circuit.name)
        return Picture(title, ", ".join(parts), drop_lone_groups(boxes), tuple(links), note, self.run is not None)

    def draw_every_node(self) -> Picture:
        """Draw every node."""
        visible = np.flatnonzero(~self.kinds.folded)
        place = np.full(self.circuit.size, -1)
        place[visible] = np.arange(len(visible))
        boxes = [self.make_box(node) for node in visible.tolist()]
        at = place.tolist()
        links = [link for row in self.circuit.rows() for link in self.make_links(row.node, row.sources, at)]
        return self.make_picture(boxes, links)

    def make_links(self, node: int, sources: Sequence[int], place: Sequence[int]) -> Iterator[PictureLink]:
        """Return the wires into a node, without those from constants that are written inside it."""
        for slot, source in enumerate(sources):
            if place[source] >= 0:
                yield self.make_link(node, slot, source, place[source], place[node])

    def make_link(self, node: int, slot: int, source: int, start: int, end: int) -> PictureLink:
        """Return one wire."""
        view = Node(self.circuit, node)
        local = sent = None
        if self.run is not None:
            wire = self.run.wire(node, slot)
            sent = self.read_gradient(wire.blocked, wire.sent, source)
            if view.op.pattern is not Pattern.MERGE and wire.local is not None and self.active[source]:
                local = read_value(wire.local, self.digits)
        shape = self._write_shape(source)
        pill = not shape and _has_local(view.op) and bool(self.active[source])
        return PictureLink(start, end, node, slot, view.op.input_name(slot), local, sent, pill=pill, shape=shape)

    def _write_shape(self, node: int) -> str:
        """Return the shape of a node's array without brackets; empty for a number."""
        shape = self.circuit.type_of(node).shape
        return format_shape(shape)[1:-1] if shape else ""

    def read_gradient(self, absent: bool, value: WireValue | PythonNumber | None, node: int) -> Reading:
        """Return the reading of a gradient: a dash if none was asked for, `no gradient` if none arrived."""
        if not self.active[node]:
            return ABSENT_READING
        return BLOCKED_READING if absent else read_value(value, self.digits)

    def make_box(self, node: int, leaves: Sequence[int] = ()) -> Box:
        """Return the box of one node; some leaves may be written inside it."""
        view = Node(self.circuit, node)
        run = self.run
        names = self.circuit.columns.names.names_of(node)
        kind = _find_box_kind(view)
        value = grad = None
        if run is not None:
            value = read_value(run.values[node], self.digits)
            grad = self.read_gradient(run.flows[node] is None, run.gradient(node), node)
        labels = tuple(map(escape_unprintable, self.labels.get(node, ())))
        name = next(iter([*names, *labels, *self._list_source_texts(node)]), "")
        return Box(
            kind=kind,
            name=escape_unprintable(name),
            text=escape_unprintable(self._write_text(view, kind, leaves)),
            label=escape_unprintable(name or view.title),
            node=node,
            nodes=1 + len(leaves),
            group=escape_unprintable("/".join(filter(None, view.group.split("/")))),
            facts=(*self._list_facts(view, kind), *self._list_held_inputs(leaves)),
            value=value,
            grad=grad,
            outputs=labels,
            bad=sum(r is not None and r.state is ReadingState.NONFINITE for r in (value, grad)),
            kink="" if run is None else self._find_kink(view),
            caption=escape_unprintable(self._write_node_caption(node)) if kind is BoxKind.NODE else "",
            shape=self._write_shape(node),
        )

    def _write_node_caption(self, node: int) -> str:
        """Return the caption of a node: its name, or what it computes if it has none or the name is elsewhere."""
        name = find_given_name(self.circuit, node)
        if name is not None and name not in self.labels.get(node, ()):
            return name
        found = self._write_computation(node, MAX_CAPTION_DEPTH)
        return self.circuit.title_of(node) if found is None else found[0]

    def _write_computation(self, node: int, depth: int) -> tuple[str, int] | None:
        """Write what a node computes, with how tightly it binds; None if that is too long for a caption."""
        if not self.circuit.columns.names.names_of(node):
            title = self.circuit.title_of(node)
            return title, 0 if " " in title else ATOM_LEVEL
        op = self.circuit.op_of(node)
        sources = self.circuit.sources_of(node)
        if not sources or len(sources) > MAX_CAPTION_OPERANDS:
            return None
        level = int(op.level) if op.infix and len(sources) == 2 else ATOM_LEVEL
        operands = []
        for slot, source in enumerate(sources):
            text, tight = self._write_operand(source, depth - 1)
            loose = bool(op.prefix) and tight < ATOM_LEVEL if level == ATOM_LEVEL else tight < level + slot
            operands.append(f"({text})" if loose else text)
        text = str(op.expression(*operands))
        too_long = count_columns(typeset_caption(text)) > MAX_CAPTION_COLUMNS
        return None if too_long else (text, 0 if op.prefix else level)

    def _write_operand(self, node: int, depth: int) -> tuple[str, int]:
        """Write a node as an operand: its number, its name, or what it computes."""
        constant = self._write_constant(node)
        name = find_given_name(self.circuit, node)
        atom = (constant or name or self.circuit.title_of(node)), ATOM_LEVEL
        if constant or name is not None or depth <= 0:
            return atom
        return self._write_computation(node, depth) or atom

    def _list_source_texts(self, node: int) -> list[str]:
        """Return the source text of a node, if it is short enough for a box."""
        source = self.circuit.columns.expressions.label_of(node)
        return [source] if source is not None and len(source) <= MAX_SOURCE_COLUMNS else []

    def _write_text(self, view: Node, kind: BoxKind, leaves: Sequence[int]) -> str:
        """Return the text in the head of a box: its caption, or its kind if it has no op."""
        return (
            str(kind.value)
            if kind in (BoxKind.INPUT, BoxKind.CONSTANT, BoxKind.SPLIT)
            else self.caption_node(view, leaves)
        )

    def caption_node(self, view: Node, leaves: Sequence[int] = ()) -> str:
        """Return the caption of a node, with constants and leaves inside it; a dot stands for a wire."""
        sources = self.circuit.sources_of(view.index)
        inside = [self.circuit.name_of(x) if x in leaves else self._write_constant(x) for x in sources]
        rank = len(self.circuit.type_of(sources[0]).shape) if sources else -1
        # With a run, the shape is written beside the value.
        return write_caption(view.op, inside, rank=rank, shapes=self.run is None)

    def _write_constant(self, source: int) -> str:
        """Write a constant that is shown inside its reader: its number, or its shape if it has several."""
        while self.kinds.folded[source] and self.circuit.sources_of(source):
            source = self.circuit.sources_of(source)[0]
        if not self.kinds.folded[source]:
            return ""
        reading = read_value(self.circuit.constant_of(source), self.digits)
        return reading.uniform_text or reading.shape or reading.text

    def _list_held_inputs(self, leaves: Sequence[int]) -> list[str]:
        """Return a fact that names the inputs drawn inside a box."""
        return (
            [f"with {join_first_names([escape_unprintable(self.circuit.name_of(leaf)) for leaf in leaves])}"]
            if leaves
            else []
        )

    def _list_facts(self, view: Node, kind: BoxKind) -> Iterator[str]:
        yield escape_unprintable(f"{view.title}: {kind.value}" if kind in (BoxKind.INPUT, BoxKind.SPLIT) else str(view))
        yield str(view.type)
        if self.run is not None:
            yield f"value {format_in_full(RunNode(self.run, view.index).value)}"
            grad = self.read_gradient(self.run.flows[view.index] is None, 0.0, view.index)
            is_number = grad.state is ReadingState.NUMBER
            text = format_in_full(RunNode(self.run, view.index).grad) if is_number else grad.state.value
            yield NO_GRADIENT if grad.state is ReadingState.BLOCKED else f"gradient {text}"
        if view.op.pattern is not Pattern.SOURCE:
            yield f"{view.op.name} {view.op.pattern.value}"
        if view.group:
            yield f"in {escape_unprintable(view.group)}"
        if view.place is not None:
            # Pictures are passed on, and folders may be private: the name of the file is enough.
            yield escape_unprintable(f"written at {view.place.without_folder()}")

    def _find_kink(self, view: Node) -> str:
        """Return the convention a node on a kink follows; empty for all others."""
        run = self.run
        if run is None or not view.op.kinks or not self.active[view.index]:
            return ""
        xs = [run.values[source] for source in self.circuit.sources_of(view.index)]
        with np.errstate(all="ignore"):
            on_kink = any(np.any(np.equal(kink.at(*xs), 0.0)) for kink in view.op.kinks if not kink.jump)
        return decode_mode(view.mode)[0].name.lower() if on_kink else ""

    def draw_pieces(self, plan: PicturePlan) -> Picture:
        """Draw the pieces of a plan, each a group or a single node."""
        sizes = self._measure_run()
        boxes = [
            self.make_box(piece.nodes[0], piece.leaves) if piece.single else self._make_group_box(piece, *sizes)
            for piece in plan.pieces
        ]
        return self.make_picture(boxes, self._bundle_links(plan), plan.note)

    def _measure_run(self) -> tuple[FlowSizes, FlowSizes]:
        """Return the sizes of all gradients and of all values, and how many numbers in them are not finite."""
        if self.run is None:
            nothing = FlowSizes(*np.zeros((3, self.circuit.size), np.int64))
            return nothing, nothing
        return FlowSizes.measure_gradients(self.run), FlowSizes.measure(self.run.values, sizes=False)

    def _make_group_box(self, piece: PicturePiece, flows: FlowSizes, values: FlowSizes) -> Box:
        nodes = list(piece.nodes)
        held = [*piece.leaves, *piece.nodes]
        name = self._name_piece(piece)
        outer = piece.path if piece.opened else piece.path.rpartition("/")[0]
        text = count_with_noun(len(nodes), "input" if self.kinds.leaves[nodes[0]] else "node")
        # Only function nodes count for the norm, so that it does not depend on where inputs are drawn.
        grad = None if self.run is None else self._read_norm(flows, nodes)
        bad = flows.total_nonfinite(held) + values.total_nonfinite(held)
        facts = [f"group {name}", text, *([] if grad is None else [grad.describe_gradient("gradient norm")])]
        facts += [f"{bad:,} values or gradients not finite"] if bad else []
        return Box(
            kind=BoxKind.GROUP,
            name=escape_unprintable(name),
            text=text,
            label=escape_unprintable(name),
            node=nodes[0],
            nodes=len(held),
            group=escape_unprintable(outer),
            facts=(*map(escape_unprintable, facts), *self._list_held_inputs(piece.leaves)),
            grad=grad,
            outputs=tuple(escape_unprintable(label) for node in held for label in self.labels.get(node, ())),
            bad=bad,
            path="" if piece.until else piece.path,
            members=piece.nodes,
        )

    def _name_piece(self, piece: PicturePiece) -> str:
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
        return f"nodes {first} to {last}"

    def _bundle_links(self, plan: PicturePlan) -> list[PictureLink]:
        """Return the wires between pieces; those that join the same two boxes are one if either is a group."""
        sources, readers = find_wires(self.circuit)
        starts = plan.owner[sources]
        ends = plan.owner[readers]
        crossing = np.flatnonzero((starts != ends) & (starts >= 0) & (ends >= 0))
        together: dict[tuple[int, int, int], list[int]] = {}
        links: list[PictureLink] = []
        for k, start, end in zip(crossing.tolist(), starts[crossing].tolist(), ends[crossing].tolist(), strict=True):
            alone = plan.pieces[start].single and plan.pieces[end].single
            together.setdefault((start, end, k if alone else -1), []).append(k)
        measured = None if self.run is None else FlowSizes.measure(self.run.sent)
        for (start, end, _), bundle in together.items():
            reader = int(readers[bundle[0]])
            slot = bundle[0] - int(self.circuit.columns.starts[reader])
            if len(bundle) == 1:
                links.append(self.make_link(reader, slot, int(sources[bundle[0]]), start, end))
            else:
                sent = None if measured is None else self._read_bundle(bundle, sources, measured)
                links.append(PictureLink(start, end, reader, slot, "", None, sent, len(bundle)))
        return sorted(links, key=lambda link: (link.target, link.reader, link.slot))

    def _read_bundle(self, bundle: Sequence[int], sources: NDArray[np.int64], sizes: FlowSizes) -> Reading:
        """Return the reading of the gradients sent back along wires that are drawn as one."""
        run = self.run
        live = [k for k in bundle if self.active[sources[k]]]
        flows = [] if run is None else [run.sent[k] for k in live if run.sent[k] is not None]
        if len(flows) <= 1:
            return self.read_gradient(
                not flows, fill_absent(flows[0]) if flows else None, int(sources[(live or bundle)[0]])
            )
        return self._read_norm(sizes, live)

    def _read_norm(self, sizes: FlowSizes, some: Sequence[int]) -> Reading:
        """Return the reading of the norm of several gradients, or how many numbers in them are not finite."""
        if sizes.total_nonfinite(some):
            text = format_nonfinite(int(sizes.nans[some].sum()), int(sizes.infs[some].sum()))
            return Reading(text, float("nan"), state=ReadingState.NONFINITE)
        size = finite_norm(sizes.norms[some])
        return Reading(f"‖{read_value(size, self.digits).text}‖", size, signed=False)


@dataclass(frozen=True, slots=True)
class FlowSizes:
    """The norm of each of many flows or values, and how many numbers in each are NaN or infinite."""

    norms: Any
    nans: Any
    infs: Any

    @classmethod
    def measure(cls, flows: Sequence[Any], *, sizes: bool = True) -> FlowSizes:
        """Measure flows or values; without `sizes`, count only what is not finite."""
        norms = np.zeros(len(flows))
        nans = np.zeros(len(flows), np.int64)
        infs = np.zeros(len(flows), np.int64)
        for k, flow in enumerate(flows):
            if type(flow) is np.float64:
                norms[k] = flow
            elif flow is not None:
                settled = fill_absent(flow)
                norms[k] = finite_norm(settled) if sizes else 0.0
                nans[k], infs[k] = count_nonfinite(settled)
        finite = np.where(np.isfinite(norms), np.abs(norms), 0.0)
        return cls(finite, nans + np.isnan(norms), infs + np.isinf(norms))

    @classmethod
    def measure_gradients(cls, run: RunRecord) -> FlowSizes:
        """Measure the gradient of every node of a run."""
        flows = list(run.flows)
        columns = run.circuit.columns
        wide = np.array([bool(kind.shape) for kind in columns.type_table])[columns.types]
        for node in np.flatnonzero(wide).tolist():
            # A flow that is uniform over an array may be stored as one number.
            if flows[node] is not None:
                flows[node] = run.gradient(node)
        return cls.measure(flows)

    def total_nonfinite(self, some: Sequence[int]) -> int:
        """Return how many numbers are not finite in some of the flows or values."""
        return int(self.nans[some].sum() + self.infs[some].sum())


def _find_box_kind(view: Node) -> BoxKind:
    if view.op is INPUT:
        return BoxKind.INPUT
    if view.op is CONSTANT:
        return BoxKind.CONSTANT
    return BoxKind.SPLIT if view.op.pattern is Pattern.MERGE else BoxKind.NODE
