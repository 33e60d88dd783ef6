"""Answers to what the page asks about a circuit that is too large to send whole: views, searches, sizes, single nodes.

The arrays stay in Python. An answer is small whatever the size of the circuit, and says how much it leaves out. Each
measurement of a circuit and its run is made once and cached.

A view is the picture of a part as JSON: boxes, the wires between them, and their positions. A part is extracted as a
circuit of its own, so that the code that draws circuits also draws parts. What the part reads from outside becomes one
of its inputs. A node without a name is called `#INDEX` after its index in the whole circuit; no name can begin with
`#`, and `CircuitPart.write_titles` writes the title that the node has in the whole circuit.

Each box says how to ask for its contents: a group, and ranges of nodes. Invariant: the answer holds the nodes of the
box, and no other function nodes unless the box is too scattered for its ranges to be listed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import Box, NodeMasks, PictureLink, Reading, ReadingState, count_nonfinite, read_value
from wiregrad.draw.layout.figure import place_picture
from wiregrad.draw.layout.picture import MAX_BOXES, MAX_SOURCE_COLUMNS, FlowSizes, build_picture, list_group_paths
from wiregrad.errors import InputError, short_repr
from wiregrad.explorer import encode_gradient, encode_node, encode_number, encode_place, encode_value, encode_wire
from wiregrad.explorer.large_circuits import (
    BoardBuilder,
    NodeMask,
    build_heat_strip,
    encode_board_request,
    match_query,
    parse_board_request,
    split_into_ranges,
)
from wiregrad.inspect.explain import explain
from wiregrad.inspect.paths import paths
from wiregrad.inspect.report import Report, steps_of_node
from wiregrad.ir import CircuitGraph
from wiregrad.ir.columns import NameTable, NodeLabels, OpSettings
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE
from wiregrad.ops.gradient_flow import fill_absent

_UNNAMED_NODE = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class CircuitPart:
    """A part of a circuit as a circuit, its run if there is one, and the index of each node in the whole circuit."""

    circuit: CircuitGraph
    run: RunRecord | None
    nodes: NDArray[np.int64]
    whole: CircuitGraph | None = None
    """The whole circuit; None if this is it."""

    def write_titles(self, text: str) -> str:
        """Write the names `#INDEX` in a text as the titles of the nodes.

        >>> import wiregrad as wg
        >>> whole = wg.Circuit.from_text("input x\\n%1 = exp x\\ny = tanh %1\\noutput y")
        >>> extract_part(whole, None, np.array([2])).write_titles("y = tanh(#1)")
        'y = tanh(exp(x))'
        """
        whole = self.whole
        if whole is None or "#" not in text:
            return text
        title, equals, expression = _UNNAMED_NODE.sub(lambda found: whole.title_of(int(found[1])), text).partition(
            " = "
        )
        is_told = text.startswith("#") and title.replace(" ", "") == expression.replace(" ", "")
        return title if is_told else title + equals + expression


def extract_part(circuit: CircuitGraph, run: RunRecord | None, chosen: NDArray[np.int64]) -> CircuitPart:
    """Extract the part of a circuit that consists of the chosen nodes, given in ascending order.

    >>> import wiregrad as wg
    >>> middle = extract_part(wg.circuit("u = x * y; v = tanh(u); f = v + x"), None, np.array([3]))
    >>> middle.circuit.inputs, middle.circuit.outputs, middle.nodes.tolist()
    (('u',), ('v',), [2, 3])
    """
    c = circuit.columns
    inside = np.zeros(circuit.size, bool)
    inside[chosen] = True
    wires = np.repeat(inside, np.diff(c.starts))
    keep = inside.copy()
    keep[c.sources[wires]] = True
    border = keep & ~inside & (c.codes != CONSTANT_CODE)
    lengths = np.where(inside, np.diff(c.starts), 0)
    position = (np.cumsum(keep) - 1).astype(np.int32)
    constants = keep[c.constant_nodes]
    outputs, labels = _choose_outputs(circuit, inside, chosen)
    columns = replace(
        c,
        codes=np.where(border, INPUT_CODE, c.codes)[keep].astype(c.codes.dtype),
        starts=np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int32),
        sources=position[c.sources[wires]],
        types=c.types[keep],
        constant_nodes=position[c.constant_nodes[constants]],
        constants=tuple(value for value, is_chosen in zip(c.constants, constants.tolist(), strict=True) if is_chosen),
        modes=None if c.modes is None else np.where(border, 0, c.modes)[keep].astype(np.uint8),
        names=_extract_names(circuit, keep, position),
        places=c.places.select_nodes(keep),
        groups=c.groups.select_nodes(keep),
        settings=_extract_settings(c.settings, border, keep),
        outputs=position[outputs],
        labels=labels,
        certificates=(),
        expressions=NodeLabels(),
    )
    extracted = CircuitGraph(columns)
    nodes = np.flatnonzero(keep)
    return CircuitPart(extracted, None if run is None else _extract_run(run, extracted, nodes, wires), nodes, circuit)


def _extract_run(
    run: RunRecord, circuit: CircuitGraph, nodes: NDArray[np.int64], wires: NDArray[np.bool_]
) -> RunRecord:
    values = [run.values[node] for node in nodes.tolist()]
    gradients = [run.flows[node] for node in nodes.tolist()]
    sent = [run.sent[wire] for wire in np.flatnonzero(wires).tolist()]
    return RunRecord(circuit, values, gradients, sent)


def _extract_settings(
    settings: NodeLabels[OpSettings], border: NDArray[np.bool_], keep: NDArray[np.bool_]
) -> NodeLabels[OpSettings]:
    if settings.index is None:
        return settings
    return NodeLabels.from_index(settings.table, np.where(border, -1, settings.index)[keep].astype(np.int32))


def _extract_names(circuit: CircuitGraph, keep: NDArray[np.bool_], position: NDArray[np.int32]) -> NameTable:
    """Return names for the nodes to keep; unnamed constants get none, since they are drawn inside their readers."""
    named = circuit.columns.names.group_by_node() if len(circuit.columns.names) else {}
    pairs: list[tuple[int, str]] = []
    for node in np.flatnonzero(keep).tolist():
        names = named.get(node, [])
        if not names and circuit.columns.codes[node] != CONSTANT_CODE:
            names = [f"#{node}"]
        pairs += [(int(position[node]), name) for name in names]
    return NameTable(pairs)


def _choose_outputs(
    circuit: CircuitGraph, inside: NDArray[np.bool_], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the outputs of the whole circuit that are in the part; if there are none, the last node of the part."""
    c = circuit.columns
    outputs = [(node, label) for node, label in zip(c.outputs.tolist(), c.labels, strict=True) if inside[node]]
    if not outputs:
        last = int(chosen[-1])
        names = c.names.names_of(last)
        outputs = [(last, names[0] if names else f"#{last}")]
    return np.array([node for node, _ in outputs]), tuple(label for _, label in outputs)


MAX_BOX_RANGES = 400
"""Maximum number of ranges listed for a box; with more, one range from its first to its last node is given."""
NodeIndices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BoxContents:
    """The contents of the groups of a circuit and of the boxes in its pictures."""

    circuit: CircuitGraph

    @cached_property
    def node_kinds(self) -> NodeMasks:
        """Which nodes are leaves, folded constants, splitters and function nodes."""
        return NodeMasks.from_circuit(self.circuit)

    @cached_property
    def _label_paths(self) -> list[str]:
        return ["/".join([*filter(None, str(label).split("/")), ""]) for label in self.circuit.columns.groups.table]

    @cached_property
    def _label_masks(self) -> dict[str, NDArray[np.bool_]]:
        return {}

    def mask_labels(self, path: str) -> NDArray[np.bool_]:
        """Return which labels of the group table lie in a group; the last entry stands for nodes without a group."""
        if path not in self._label_masks:
            self._label_masks[path] = np.array(
                [*(label.startswith(f"{path}/") for label in self._label_paths), not path]
            )
        return self._label_masks[path]

    def mask_group(self, path: str, first: int, last: int) -> NDArray[np.bool_]:
        """Return which nodes from `first` to `last` are in a group; an empty path is the whole circuit.

        >>> import wiregrad as wg
        >>> BoxContents(wg.circuit("x * x")).mask_group("", 0, 1).tolist()
        [True, True]
        """
        index = self.circuit.columns.groups.index
        if index is None or not path:
            return np.full(last + 1 - first, not path)
        return self.mask_labels(path)[index[first : last + 1]]

    def query_for_box(self, box: Box, indices: NodeIndices, shown_group: str) -> dict[str, str]:
        """Return the query for the contents of a box: a group and ranges of its nodes, empty for all of them.

        `indices` are the picture's nodes in the whole circuit, `shown_group` is the group that the picture shows.
        """
        members = np.sort(indices[np.array(box.members)])
        first = int(members[0])
        last = int(members[-1])
        path = box.path or shown_group
        # Leaves are boxed apart from the function nodes that read them, so only nodes of one sort are compared.
        counted = self.node_kinds.leaves if self.node_kinds.leaves[first] else self.node_kinds.inner
        same = np.count_nonzero(self.mask_group(path, first, last) & counted[first : last + 1]) == len(members)
        if same and box.path and len(members) == self._count_inner_nodes(path):
            return {"group": path, "nodes": ""}
        ranges = [[first, last]] if same else split_into_ranges(members.tolist())
        return {"group": path, "nodes": format_ranges(ranges if len(ranges) <= MAX_BOX_RANGES else [[first, last]])}

    def _count_inner_nodes(self, path: str) -> int:
        """Return the number of function nodes in a group."""
        return int(self._label_counts[self.mask_labels(path)[:-1]].sum())

    @cached_property
    def _label_counts(self) -> NDArray[np.int64]:
        labels = self.circuit.columns.groups
        if labels.index is None:
            return np.zeros(len(labels.table), np.int64)
        grouped = labels.index[self.node_kinds.inner & (labels.index >= 0)]
        return np.bincount(grouped, minlength=len(labels.table))


def format_ranges(ranges: list[list[int]]) -> str:
    """Format ranges of nodes for a query.

    >>> format_ranges([[3, 9], [12, 12]])
    '3-9,12-12'
    """
    return ",".join(f"{first}-{last}" for first, last in ranges)


def parse_ranges(text: str) -> list[list[int]]:
    """Parse the ranges of nodes in a query.

    >>> parse_ranges("3-9,12-12")
    [[3, 9], [12, 12]]
    """
    pairs = [part.split("-") for part in text.split(",")]
    if not all(len(pair) == 2 and all(n.isascii() and n.isdigit() and len(n) < 13 for n in pair) for pair in pairs):
        raise InputError(f"wanted nodes=FIRST-LAST,FIRST-LAST and so on; got {short_repr(text)}")
    return [[int(n) for n in pair] for pair in pairs]


def mask_ranges(size: int, ranges: Iterable[Sequence[int]]) -> NDArray[np.bool_]:
    """Return a mask of `size` nodes that is True inside the ranges.

    >>> mask_ranges(4, [[1, 2]]).tolist()
    [False, True, True, False]
    """
    mask = np.zeros(size, bool)
    for first, last in ranges:
        if not 0 <= first <= last < size:
            raise InputError(f"there are no nodes {first} to {last}; the last is {size - 1}")
        mask[first : last + 1] = True
    return mask


def encode_picture(
    part: CircuitPart,
    inside: BoxContents,
    group: str,
    *,
    opened: Sequence[str],
    depth: int | None,
    cap: int,
    down: bool,
) -> dict[str, Any]:
    """Encode the picture of a part of a circuit that is in a group; nodes have the indices of the whole circuit.

    >>> import wiregrad as wg
    >>> import numpy as np
    >>> part = CircuitPart(wg.circuit("y = tanh(x)"), None, np.arange(2))
    >>> encode_picture(part, BoxContents(part.circuit), "", opened=(), depth=None, cap=300, down=False)["about"]
    '1 input, 1 node'
    """
    drawn = place_picture(build_picture(part.circuit, part.run, opened=opened, depth=depth, cap=cap), down=down)
    boxes = zip(drawn.picture.boxes, drawn.rects, drawn.ranks, strict=True)
    links = zip(drawn.picture.links, drawn.paths, strict=True)
    return {
        "width": drawn.width,
        "height": drawn.height,
        "note": part.write_titles(drawn.picture.note),
        "about": drawn.picture.about,
        "boxes": [
            _encode_box(box, part, inside, group)
            | {"x": at.x, "y": at.y, "width": at.width, "height": at.height, "rank": rank}
            for box, at, rank in boxes
        ],
        "links": [
            _encode_link(link, part)
            | {"points": [[*point] for point in path], "stub": k in drawn.stubs, "room": drawn.rooms[k]}
            for k, (link, path) in enumerate(links)
        ],
    }


def _encode_box(box: Box, part: CircuitPart, inside: BoxContents, group: str) -> dict[str, Any]:
    return {
        "kind": box.kind.value,
        "name": _shorten_title(box.name, part),
        "text": part.write_titles(box.text),
        "label": part.write_titles(box.label),
        "node": int(part.nodes[box.node]),
        "nodes": box.nodes,
        "group": box.group,
        "facts": [*map(part.write_titles, box.facts)],
        "value": _encode_reading(box.value),
        "grad": _encode_reading(box.grad),
        "outputs": [*map(part.write_titles, box.outputs)],
        "bad": box.bad,
        "kink": box.kink,
        "inside": inside.query_for_box(box, part.nodes, group) if box.members else None,
    }


def _shorten_title(name: str, part: CircuitPart) -> str:
    """Return the name of a box; the title of a node without a name is left out if it is long."""
    title = part.write_titles(name)
    return title if title == name or len(title) <= MAX_SOURCE_COLUMNS else ""


def _encode_link(link: PictureLink, part: CircuitPart) -> dict[str, Any]:
    return {
        "source": link.source,
        "target": link.target,
        "reader": int(part.nodes[link.reader]),
        "slot": link.slot,
        "input": link.input,
        "wires": link.wires,
        "local": _encode_reading(link.local),
        "sent": _encode_reading(link.sent),
    }


def _encode_reading(reading: Reading | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    size = encode_number(reading.size) if reading.state in (ReadingState.NUMBER, ReadingState.NONFINITE) else None
    return {"text": reading.text, "size": size, "signed": reading.signed, "state": reading.state.value}


MAX_FOUND_NODES = 200
"""Maximum number of nodes in the answer to a search."""
MAX_TOP_GRADIENTS = 50
"""Maximum number of large gradients in a summary."""
MAX_NONFINITE_RANGES = 10_000
"""Maximum number of ranges of non-finite nodes in a summary."""
MAX_NODES_FOR_PATHS = 20_000
"""Circuits with more nodes than this are not searched for the paths of a gradient."""
MAX_SHOWN_PATHS = 8
"""Maximum number of paths in the explanation of a gradient."""
MAX_BRANCHES = 100
"""Maximum number of readers listed for a node."""


@dataclass(frozen=True, slots=True)
class _GroupTotals:
    """The totals of a group: its nodes, the norm of their finite gradients, and how many nodes are not finite."""

    nodes: int = 0
    norm: float = 0.0
    bad: int = 0

    def add_totals(self, other: _GroupTotals) -> _GroupTotals:
        """Return the totals of both groups together."""
        return _GroupTotals(self.nodes + other.nodes, math.hypot(self.norm, other.norm), self.bad + other.bad)


@dataclass(frozen=True, eq=False)
class CircuitViews:
    """Answers about one circuit and its run."""

    circuit: CircuitGraph
    run: RunRecord | None = None

    @cached_property
    def gradient_sizes(self) -> FlowSizes:
        """The size of the gradient of every node."""
        return _zero_sizes(self.circuit.size) if self.run is None else FlowSizes.measure_gradients(self.run)

    @cached_property
    def value_sizes(self) -> FlowSizes:
        """The size of the value of every node."""
        return _zero_sizes(self.circuit.size) if self.run is None else FlowSizes.measure(self.run.values)

    @cached_property
    def absent_gradients(self) -> NodeMask:
        """The mask of the nodes that no gradient reached."""
        if self.run is None:
            return np.ones(self.circuit.size, bool)
        return np.fromiter((flow is None for flow in self.run.flows), bool, self.circuit.size)

    @cached_property
    def names(self) -> list[str]:
        """Every name, in the order of the circuit's name table."""
        return [name for _, name in self.circuit.columns.names]

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """The number of wires on the longest path from a leaf to each node."""
        ranks = [0] * self.circuit.size
        starts = self.circuit.columns.starts.tolist()
        sources = self.circuit.columns.sources.tolist()
        for node in range(self.circuit.size):
            for source in sources[starts[node] : starts[node + 1]]:
                if ranks[source] >= ranks[node]:
                    ranks[node] = ranks[source] + 1
        return np.array(ranks, np.int64)

    @cached_property
    def depths(self) -> NDArray[np.int64]:
        """The number of groups around each node."""
        labels = self.circuit.columns.groups
        if labels.index is None:
            return np.zeros(self.circuit.size, np.int64)
        return np.array([*(len([*filter(None, str(label).split("/"))]) for label in labels.table), 0])[labels.index]

    def get_column(self, name: str) -> NDArray[Any]:
        """Return a column that a search compares: sizes, depths, ranks or indices; NaN where there is no size.

        >>> import wiregrad as wg
        >>> CircuitViews(wg.circuit("x * x")).get_column("index").tolist()
        [0, 1]
        """
        if name == "grad":
            return np.where(
                self.absent_gradients | (self.gradient_sizes.nans > 0), np.nan, _norms_or_inf(self.gradient_sizes)
            )
        if name == "value":
            return np.where(self.value_sizes.nans > 0, np.nan, _norms_or_inf(self.value_sizes))
        if name == "rank":
            return self.ranks
        return self.depths if name == "depth" else np.arange(self.circuit.size)

    def get_negative_mask(self, name: str) -> NodeMask:
        """Return the mask of the nodes whose `grad` or `value` is negative; of an array, all elements.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = 3 - 2 * x").run(x=0.5)
        >>> CircuitViews(run.circuit, run).get_negative_mask("grad").tolist()
        [True, False, False, True, False]
        """
        if self.run is None:
            return np.zeros(self.circuit.size, bool)
        carried = self.run.flows if name == "grad" else self.run.values
        return np.fromiter((_is_negative(item) for item in carried), bool, self.circuit.size)

    def get_state_mask(self, name: str) -> NodeMask:
        """Return the mask of the nodes that are `nan`, `inf`, `bad` (one of both) or `absent` (no gradient arrived).

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = log(x)").run(x=0.0)
        >>> CircuitViews(run.circuit, run).get_state_mask("inf").tolist()
        [True, True]
        """
        if name == "absent":
            return self.absent_gradients
        nans = self.gradient_sizes.nans + self.value_sizes.nans
        infs = self.gradient_sizes.infs + self.value_sizes.infs
        mask: NodeMask = {"nan": nans, "inf": infs, "bad": nans + infs}[name] > 0
        return mask

    def find_nodes(self, query: str) -> dict[str, Any]:
        """Return the number of nodes that a query finds, and the first of them.

        >>> import wiregrad as wg
        >>> CircuitViews(wg.circuit("y = tanh(x)")).find_nodes("op:tanh")["nodes"][0]["name"]
        'y'
        """
        nodes = np.flatnonzero(match_query(self, query))
        return {
            "query": query,
            "count": len(nodes),
            "nodes": [self.describe_row(node) for node in nodes[:MAX_FOUND_NODES].tolist()],
        }

    def describe_row(self, node: int) -> dict[str, Any]:
        """Describe a node in brief, for a row in a list of nodes."""
        row = {
            "node": node,
            "name": self.circuit.title_of(node),
            "op": self.circuit.op_of(node).name,
            "group": self.circuit.columns.groups.label_of(node) or "",
        }
        place = self.circuit.columns.places.label_of(node)
        return row | self._encode_numbers(node) | ({} if place is None else {"place": encode_place(place)})

    def _encode_numbers(self, node: int) -> dict[str, Any]:
        if self.run is None:
            return {}
        shape = self.circuit.type_of(node).shape
        return {
            "value": encode_value(self.run.values[node]),
            "grad": encode_gradient(self.run.flows[node], shape),
        }

    def describe_node(self, node: int) -> dict[str, Any]:
        """Return everything known about one node: its op, numbers, wires and readers.

        >>> import wiregrad as wg
        >>> run = wg.circuit("f = x * x").run(x=3.0)
        >>> [wire["sent"] for wire in CircuitViews(run.circuit, run).describe_node(1)["wires"]]
        [3.0, 3.0]
        """
        self._check_node(node)
        readers = self._find_readers(node)
        wires = [(node, slot) for slot in range(len(self.circuit.sources_of(node)))]
        return {
            **encode_node(self.circuit, node),
            **self._encode_numbers(node),
            "node": node,
            "title": self.circuit.title_of(node),
            "rank": int(self.ranks[node]),
            "wires": [self._describe_wire(*wire) for wire in wires],
            "readers": len(readers),
            "branches": [self._describe_wire(*wire) for wire in readers[:MAX_BRANCHES]],
        }

    def _check_node(self, node: int) -> None:
        if not 0 <= node < self.circuit.size:
            raise InputError(f"there is no node {node}; the circuit has {self.circuit.size:,}, counted from 0")

    def explain_gradient(self, node: int) -> dict[str, Any]:
        """Explain the gradient of one node in sentences; for a circuit that is not too large, list its paths too.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = relu(x)").run(x=-2.0)
        >>> CircuitViews(run.circuit, run).explain_gradient(0)["lines"][0]
        'the gradient of x is 0: no gradient comes back to it'
        """
        self._check_node(node)
        if self.run is None:
            return {"node": node, "lines": ["the circuit was not run: there are no gradients"]}
        name = self.circuit.name_of(node)
        reports: list[Report] = [explain(self.run, name)]
        if self.circuit.size <= MAX_NODES_FOR_PATHS:
            reports.append(paths(self.run, name, MAX_SHOWN_PATHS))
        return {"node": node, "lines": [line for report in reports for line in report.lines()]}

    def _find_readers(self, node: int) -> list[tuple[int, int]]:
        c = self.circuit.columns
        wires = np.flatnonzero(c.sources == node)
        readers = np.searchsorted(c.starts, wires, side="right") - 1
        return [(int(reader), int(wire - c.starts[reader])) for reader, wire in zip(readers, wires, strict=True)]

    def _describe_wire(self, reader: int, slot: int) -> dict[str, Any]:
        sources = self.circuit.sources_of(reader)
        wire = {
            "reader": reader,
            "slot": slot,
            "source": sources[slot],
            "from": self.circuit.title_of(sources[slot]),
            "to": self.circuit.title_of(reader),
        }
        if self.run is None:
            return wire
        local, upstream, sent = encode_wire(self.run, reader, slot)
        return wire | {"local": local, "upstream": upstream, "sent": sent}

    @cached_property
    def board(self) -> BoardBuilder:
        """The builder of boards, which keeps what it has found out about groups."""
        return BoardBuilder(self.circuit, self.run, self.gradient_sizes, self.value_sizes)

    def draw_board(self, opened: Sequence[str] = (), focus: Sequence[str] = ()) -> dict[str, Any]:
        """Return the groups as boxes, those in `opened` with what is inside; `focus` is for merged neighbours.

        >>> import wiregrad as wg
        >>> [box["title"] for box in CircuitViews(wg.circuit("y = tanh(x)")).draw_board()["boxes"]]
        ['x', 'y']
        """
        return self.board.build_board(parse_board_request(opened, focus))

    def locate_node(self, node: int) -> dict[str, Any]:
        """Return what has to be open for a node to be seen, as the query of a board."""
        self._check_node(node)
        return encode_board_request(self.board.find_request_for(node))

    def build_heat_strip(self) -> dict[str, Any]:
        """Return a histogram of nodes by their order and the size of their gradients, in powers of ten.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = tanh(3 * x)").run(x=0.5)
        >>> CircuitViews(run.circuit, run).build_heat_strip()["absent"]
        1
        """
        return build_heat_strip(self.run, self.circuit.size, self.gradient_sizes)

    def describe_step(self, node: int, phase: str) -> dict[str, Any]:
        """Return the sentence of a forward or backward step at one node, with the place where it is written.

        >>> import wiregrad as wg
        >>> run = wg.circuit("f = a * b").run(a=2.0, b=3.0)
        >>> CircuitViews(run.circuit, run).describe_step(2, "backward")["text"]
        'f = a * b sends 3 to a and 2 to b'
        """
        self._check_node(node)
        if self.run is None:
            return {"text": "the circuit was not run"}
        place = self.circuit.columns.places.label_of(node)
        text = "; ".join(map(str, steps_of_node(self.run, node, phase)))
        return {"text": text, "place": "" if place is None else str(place.without_folder())}

    @cached_property
    def stops(self) -> list[dict[str, Any]]:
        """Where a pass meets the first number that is not finite, forward and backward, and a sentence about it."""
        stops = [("forward", self._first_forward()), ("backward", self._first_backward_nan())]
        return [
            {"phase": phase, "node": node, "text": self._describe_stop(node, phase)}
            for phase, node in stops
            if node is not None
        ]

    def _first_backward_nan(self) -> int | None:
        """Return the node that first sent NaN back without receiving it; else the first that sent an infinity."""
        if self.run is None or not (self.gradient_sizes.nans > 0).any():
            return self._first_backward()
        sent = FlowSizes.measure(self.run.sent)
        readers = np.repeat(np.arange(self.circuit.size), np.diff(self.circuit.columns.starts))
        broke = (sent.nans > 0) & ~(self.gradient_sizes.nans > 0)[readers]
        return int(readers[broke].max()) if broke.any() else self._first_backward()

    def _describe_stop(self, node: int, phase: str) -> str:
        assert self.run is not None
        title = self.circuit.title_of(node)
        if phase == "forward":
            return f"`{title}` is {read_value(self.run.values[node]).text}"
        wires = [self.run.wire(node, slot) for slot in range(len(self.circuit.sources_of(node)))]
        for wire in wires:
            if wire.blocked or not count_nonfinite(wire.sent)[0]:
                continue
            if wire.local is not None and not np.ndim(wire.local) and not np.ndim(wire.upstream):
                factors = [read_value(number).text for number in (wire.upstream, wire.local)]
                return f"`{title}` multiplies {factors[0]} by {factors[1]}"
            return f"`{title}` sends NaN back"
        return f"`{title}` sends an infinity back"

    def outline_groups(self, most: int = 1000) -> dict[str, Any]:
        """Return the groups with their numbers of nodes, norms of gradients, and numbers of nodes that are not finite.

        >>> import wiregrad as wg
        >>> CircuitViews(wg.circuit("x * x")).outline_groups()
        {'count': 0, 'groups': []}
        """
        labels = self.circuit.columns.groups
        if labels.index is None:
            return {"count": 0, "groups": []}
        label_paths = ["/".join(filter(None, str(label).split("/"))) for label in labels.table]
        rows: dict[str, _GroupTotals] = {path: _GroupTotals() for path in self._group_paths}
        for path, row in zip(label_paths, self._measure_labels(labels.index, len(label_paths)), strict=True):
            parts = path.split("/") if path else []
            for outer in ("/".join(parts[: k + 1]) for k in range(len(parts))):
                if outer in rows:
                    rows[outer] = rows[outer].add_totals(row)
        filled = [(path, row) for path, row in rows.items() if row.nodes]
        groups = [{"path": path, **asdict(row), "norm": encode_number(row.norm)} for path, row in filled[:most]]
        return {"count": len(filled), "groups": groups}

    def _measure_labels(self, index: NDArray[np.int32], labels: int) -> list[_GroupTotals]:
        """Return the totals of the nodes that have each label themselves, without those of groups inside."""
        slot = np.where(index < 0, labels, index)
        counts = np.bincount(slot, minlength=labels + 1).tolist()
        bad = np.bincount(slot, self.get_state_mask("bad"), minlength=labels + 1).astype(np.int64).tolist()
        peaks = np.zeros(labels + 1)
        np.maximum.at(peaks, slot, self.gradient_sizes.norms)
        # Scaled by the largest, so that squares do not overflow.
        scaled = np.divide(self.gradient_sizes.norms, peaks[slot], out=np.zeros(len(slot)), where=peaks[slot] > 0)
        with np.errstate(over="ignore"):
            norms = (peaks * np.sqrt(np.bincount(slot, scaled * scaled, minlength=labels + 1))).tolist()
        return [_GroupTotals(*row) for row in zip(counts, norms, bad, strict=True)][:labels]

    def list_top_gradients(self, most: int = MAX_TOP_GRADIENTS) -> list[dict[str, Any]]:
        """Return the nodes with the largest finite gradients, largest first.

        >>> import wiregrad as wg
        >>> run = wg.circuit("f = a * b").run(a=2.0, b=3.0)
        >>> [row["name"] for row in CircuitViews(run.circuit, run).list_top_gradients(2)]
        ['a', 'b']
        """
        sizes = self.gradient_sizes.norms
        if self.run is None:
            return []
        count = min(most, self.circuit.size)
        largest = np.argpartition(-sizes, count - 1)[:count]
        order = largest[np.lexsort((largest, -sizes[largest]))]
        return [self.describe_row(node) for node in order.tolist() if sizes[node] > 0]

    def list_nonfinite(self) -> dict[str, Any]:
        """Return the nodes whose values or gradients are not finite, as ranges of indices.

        >>> import wiregrad as wg
        >>> run = wg.circuit("y = log(x)").run(x=0.0)
        >>> nonfinite = CircuitViews(run.circuit, run).list_nonfinite()
        >>> nonfinite["values"], nonfinite["first"]["forward"]["name"]
        ({'count': 1, 'slices': [[1, 1]], 'left_out': 0}, 'y')
        """
        measured = {"values": self.value_sizes, "gradients": self.gradient_sizes}
        ranges = {
            name: _encode_ranges(np.flatnonzero((sizes.nans + sizes.infs) > 0)) for name, sizes in measured.items()
        }
        return ranges | {"first": self._first_nonfinite()}

    def _first_nonfinite(self) -> dict[str, Any]:
        """Return the first node, forward and backward, that made a non-finite number from finite ones."""
        first = {"forward": self._first_forward(), "backward": self._first_backward()}
        return {phase: None if node is None else self.describe_row(node) for phase, node in first.items()}

    def _first_forward(self) -> int | None:
        c = self.circuit.columns
        bad = (self.value_sizes.nans + self.value_sizes.infs) > 0
        fed = np.repeat(np.arange(self.circuit.size), np.diff(c.starts))[bad[c.sources]]
        bad[fed] = False
        return int(np.argmax(bad)) if bad.any() else None

    def _first_backward(self) -> int | None:
        bad = (self.gradient_sizes.nans + self.gradient_sizes.infs) > 0
        if self.run is None or not bad.any():
            return None
        sent = FlowSizes.measure(self.run.sent)
        readers = np.repeat(np.arange(self.circuit.size), np.diff(self.circuit.columns.starts))
        broke = ((sent.nans + sent.infs) > 0) & ~bad[readers]
        # Reverse mode visits the last node first.
        return int(readers[broke].max()) if broke.any() else None

    @cached_property
    def box_contents(self) -> BoxContents:
        """The contents of groups and boxes."""
        return BoxContents(self.circuit)

    def draw_view(
        self,
        *,
        group: str = "",
        nodes: str = "",
        opened: Sequence[str] = (),
        depth: int | None = None,
        cap: int = MAX_BOXES,
        down: bool = False,
    ) -> dict[str, Any]:
        """Draw the whole circuit, a `group` of it, or the `nodes` in ranges such as `3-9`; return boxes and positions.

        >>> import wiregrad as wg
        >>> view = CircuitViews(wg.circuit("y = tanh(x)")).draw_view()
        >>> [box["label"] for box in view["boxes"]], view["links"][0]["points"]
        (['x', 'y'], [[48, 24], [104, 24]])
        """
        chosen = self._choose_nodes(group, nodes)
        if chosen is None:
            drawn = CircuitPart(self.circuit, self.run, np.arange(self.circuit.size))
        else:
            drawn = extract_part(self.circuit, self.run, chosen)
        return encode_picture(drawn, self.box_contents, group, opened=opened, depth=depth, cap=cap, down=down)

    def _choose_nodes(self, group: str, nodes: str) -> NDArray[np.int64] | None:
        if group and group not in self._group_paths:
            raise InputError(f"there is no group {short_repr(group)}")
        if not group and not nodes:
            return None
        mask = self.box_contents.mask_group(group, 0, self.circuit.size - 1)
        if nodes:
            mask = mask & mask_ranges(self.circuit.size, parse_ranges(nodes))
        chosen = np.flatnonzero(mask)
        if not len(chosen):
            raise InputError(f"the group {short_repr(group)} has none of these nodes")
        return chosen

    @cached_property
    def _group_paths(self) -> dict[str, None]:
        return dict.fromkeys(list_group_paths(self.circuit))


def _zero_sizes(size: int) -> FlowSizes:
    return FlowSizes(np.zeros(size), np.zeros(size, np.int64), np.zeros(size, np.int64))


def _is_negative(carried: Any) -> bool:
    """Return whether a flow or value is negative, as pictures show it: of an array, all elements."""
    if carried is None:
        return False
    reading = read_value(fill_absent(carried))
    return reading.signed and reading.size < 0


def _norms_or_inf(sizes: FlowSizes) -> NDArray[Any]:
    norms: NDArray[Any] = np.where(sizes.infs > 0, np.inf, sizes.norms)
    return norms


def _encode_ranges(nodes: NDArray[np.int64]) -> dict[str, Any]:
    ranges = split_into_ranges(nodes.tolist())
    return {
        "count": len(nodes),
        "slices": ranges[:MAX_NONFINITE_RANGES],
        "left_out": max(0, len(ranges) - MAX_NONFINITE_RANGES),
    }
