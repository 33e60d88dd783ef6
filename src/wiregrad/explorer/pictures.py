"""A picture as JSON: boxes, the wires between them, and the positions that Python's layout gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wiregrad.explorer import encoded
from wiregrad.explorer.inside import BoxContents
from wiregrad.explorer.parts import CircuitPart, format_node_names
from wiregrad.export.boxes import Box, PictureLink
from wiregrad.export.drawing import build_picture
from wiregrad.export.figure import place_picture
from wiregrad.export.reading import Reading, ReadingState


def encode_picture(
    part: CircuitPart, inside: BoxContents, group: str, *, opened: Sequence[str], depth: int | None, cap: int, down: bool
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
        "note": format_node_names(drawn.picture.note),
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
        "name": format_node_names(box.name),
        "text": format_node_names(box.text),
        "label": format_node_names(box.label),
        "node": int(part.nodes[box.node]),
        "nodes": box.nodes,
        "group": box.group,
        "facts": [*map(format_node_names, box.facts)],
        "value": _encode_reading(box.value),
        "grad": _encode_reading(box.grad),
        "outputs": [*map(format_node_names, box.outputs)],
        "bad": box.bad,
        "kink": box.kink,
        "inside": inside.query_for_box(box, part.nodes, group) if box.members else None,
    }


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
    size = encoded.encode_number(reading.size) if reading.state in (ReadingState.NUMBER, ReadingState.NONFINITE) else None
    return {"text": reading.text, "size": size, "signed": reading.signed, "state": reading.state.value}
