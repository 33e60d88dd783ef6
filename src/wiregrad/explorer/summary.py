"""The summary of a circuit that is too large to send whole: a picture of its groups, and the nodes that matter most."""

from __future__ import annotations

from typing import Any

from wiregrad.backends import RunRecord
from wiregrad.explorer import encoded
from wiregrad.explorer.nodes import encode_wire
from wiregrad.explorer.views import CircuitViews
from wiregrad.export.boxes import BoxKind


def summarize_circuit(views: CircuitViews) -> dict[str, Any]:
    """Summarize a large circuit: its groups, the largest gradients, and everything that is not finite.

    `circuit` and `run` in the result describe the picture: each of their nodes is a box, which may stand for many.

    >>> import wiregrad as wg
    >>> run = wg.circuit("y = tanh(x)").run(x=1.0)
    >>> summarize_circuit(CircuitViews(run.circuit, run))["note"]
    'a summary: 2 boxes stand for all 2 nodes and leaves of the circuit'
    """
    view = views.draw_view()
    size = views.circuit.size
    count = len(view["boxes"])
    boxes = "1 box stands" if count == 1 else f"{count:,} boxes stand"
    note = f"a summary: {boxes} for all {size:,} nodes and leaves of the circuit"
    drawn = f"; {view['note']}" if view["note"] else ""
    summary = {
        "size": size,
        "view": view,
        "outline": views.outline_groups(),
        "top": views.list_top_gradients(),
        "nonfinite": views.list_nonfinite(),
        "heat": views.build_heat_strip(),
    }
    data = {"schema": encoded.PAGE_SCHEMA, "live": False, "note": note + drawn, "summary": summary}
    return data | _boxes_as_circuit(views, view)


def _boxes_as_circuit(views: CircuitViews, view: dict[str, Any]) -> dict[str, Any]:
    """Encode a picture as a circuit: its boxes as nodes, its links as wires."""
    arriving: list[list[dict[str, Any]]] = [[] for _ in view["boxes"]]
    for link in view["links"]:
        arriving[link["target"]].append(link)
    nodes = [_box_node(box, links) for box, links in zip(view["boxes"], arriving, strict=True)]
    outputs = [{"label": label, "node": k} for k, box in enumerate(view["boxes"]) for label in box["outputs"]]
    data: dict[str, Any] = {"circuit": {"name": views.circuit.name, "nodes": nodes, "outputs": outputs}}
    if views.run is not None:
        data["run"] = _boxes_as_run(views.run, view["boxes"], arriving)
    return data


def _boxes_as_run(run: RunRecord, boxes: list[dict[str, Any]], arriving: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Encode the numbers of boxes and links: exact for a single node or wire, else the norm over many."""
    numbers = [_box_numbers(run, box) for box in boxes]
    return {
        "values": [value for value, _ in numbers],
        "grads": [grad for _, grad in numbers],
        "wires": [
            _link_numbers(run, link) or [None, grad, _reading_as_summary(link["sent"], "gradient", 0)]
            for (_, grad), links in zip(numbers, arriving, strict=True)
            for link in links
        ],
    }


def _box_numbers(run: RunRecord, box: dict[str, Any]) -> tuple[Any, Any]:
    node = box["node"]
    if box["kind"] != BoxKind.GROUP.value:
        return encoded.encode_value(run.values[node]), encoded.encode_gradient(run.flows[node], run.circuit.type_of(node).shape)
    value = {"type": "group", "text": box["text"], "norm": 0.0, "bad": box["bad"]}
    return value, _reading_as_summary(box["grad"], "gradient", box["bad"])


def _link_numbers(run: RunRecord, link: dict[str, Any]) -> list[Any] | None:
    return encode_wire(run, link["reader"], link["slot"]) if link["wires"] == 1 else None


def _box_node(box: dict[str, Any], links: list[dict[str, Any]]) -> dict[str, Any]:
    kind = box["kind"] if box["kind"] in (BoxKind.INPUT.value, BoxKind.CONSTANT.value) else BoxKind.GROUP.value
    return {
        "op": kind,
        "sources": [link["source"] for link in links],
        "names": [box["label"]],
        "mode": 0,
        "group": box["group"],
        "type": box["kind"],
        "text": box["text"],
    }


def _reading_as_summary(reading: dict[str, Any] | None, kind: str, bad: int) -> dict[str, Any] | None:
    """Encode the reading of many numbers like the summary of an array; None where no gradient arrived."""
    if reading is None or reading["size"] is None:
        return None
    size = reading["size"]
    return {"type": kind, "text": reading["text"], "norm": size if isinstance(size, str) else abs(size), "bad": bad}
