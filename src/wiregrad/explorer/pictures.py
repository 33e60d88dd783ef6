"""A picture as JSON: boxes, the wires between them, and the positions that Python's layout gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wiregrad.explorer import encoded
from wiregrad.explorer.inside import Inside
from wiregrad.explorer.parts import Part, told
from wiregrad.export.boxes import Box, Link
from wiregrad.export.drawing import picture
from wiregrad.export.figure import figure
from wiregrad.export.reading import Reading, State


def picture_data(
    part: Part, inside: Inside, group: str, *, opened: Sequence[str], depth: int | None, cap: int, down: bool
) -> dict[str, Any]:
    """Encode the picture of a part of a circuit that lies in a group; nodes have the indices of the whole circuit.

    >>> import wiregrad as wg
    >>> import numpy as np
    >>> part = Part(wg.circuit("y = tanh(x)"), None, np.arange(2))
    >>> picture_data(part, Inside(part.circuit), "", opened=(), depth=None, cap=300, down=False)["about"]
    '1 input, 1 node'
    """
    drawn = figure(picture(part.circuit, part.run, opened=opened, depth=depth, cap=cap), down=down)
    boxes = zip(drawn.picture.boxes, drawn.rects, drawn.ranks, strict=True)
    links = zip(drawn.picture.links, drawn.paths, strict=True)
    return {
        "width": drawn.width,
        "height": drawn.height,
        "note": told(drawn.picture.note),
        "about": drawn.picture.about,
        "boxes": [
            _box(box, part, inside, group)
            | {"x": at.x, "y": at.y, "width": at.width, "height": at.height, "rank": rank}
            for box, at, rank in boxes
        ],
        "links": [
            _link(link, part)
            | {"points": [[*point] for point in path], "stub": k in drawn.stubs, "room": drawn.rooms[k]}
            for k, (link, path) in enumerate(links)
        ],
    }


def _box(box: Box, part: Part, inside: Inside, group: str) -> dict[str, Any]:
    return {
        "kind": box.kind.value,
        "name": told(box.name),
        "text": told(box.text),
        "label": told(box.label),
        "node": int(part.nodes[box.node]),
        "nodes": box.nodes,
        "group": box.group,
        "facts": [*map(told, box.facts)],
        "value": _reading(box.value),
        "grad": _reading(box.grad),
        "outputs": [*map(told, box.outputs)],
        "bad": box.bad,
        "kink": box.kink,
        "inside": inside.of(box, part.nodes, group) if box.members else None,
    }


def _link(link: Link, part: Part) -> dict[str, Any]:
    return {
        "source": link.source,
        "target": link.target,
        "reader": int(part.nodes[link.reader]),
        "slot": link.slot,
        "input": link.input,
        "wires": link.wires,
        "local": _reading(link.local),
        "sent": _reading(link.sent),
    }


def _reading(reading: Reading | None) -> dict[str, Any] | None:
    if reading is None:
        return None
    size = encoded.scalar(reading.size) if reading.state in (State.NUMBER, State.NONFINITE) else None
    return {"text": reading.text, "size": size, "signed": reading.signed, "state": reading.state.value}
