"""Pictures of parts of a circuit as JSON: boxes, the wires between them, and their positions.

A part is extracted as a circuit of its own, so that the code that draws circuits also draws parts. What the part reads
from outside becomes one of its inputs. A node without a name is called `#INDEX` after its index in the whole circuit;
no name can begin with `#`, and `CircuitPart.write_titles` writes the title that the node has in the whole circuit.

Each box says how to ask for its contents: a group, and ranges of nodes. Invariant: the answer holds the nodes of the
box, and no other function nodes unless the box is too scattered for its ranges to be listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.boxes import Box, NodeMasks, PictureLink
from wiregrad.draw.layout.figure import place_picture
from wiregrad.draw.layout.labels import Reading, ReadingState
from wiregrad.draw.layout.picture import MAX_SOURCE_COLUMNS, build_picture
from wiregrad.errors import InputError, short_repr
from wiregrad.explorer import json_encoding
from wiregrad.explorer.find_language import split_into_ranges
from wiregrad.ir import CircuitGraph
from wiregrad.ir.columns import NameTable, NodeLabels, OpSettings
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE

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
    """Return the outputs of the whole circuit that lie in the part; if there are none, the last node of the part."""
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
        """Return which nodes from `first` to `last` lie in a group; an empty path is the whole circuit.

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
    """Encode the picture of a part of a circuit that lies in a group; nodes have the indices of the whole circuit.

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
    size = (
        json_encoding.encode_number(reading.size)
        if reading.state in (ReadingState.NUMBER, ReadingState.NONFINITE)
        else None
    )
    return {"text": reading.text, "size": size, "signed": reading.signed, "state": reading.state.value}
