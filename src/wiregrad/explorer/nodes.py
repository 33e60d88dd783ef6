"""Nodes and wires of a circuit as JSON, in the form that `web/src/types.ts` declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.explorer.encoded import encode_gradient, encode_place, encode_value
from wiregrad.export.drawing import collect_captions
from wiregrad.export.kinds import NodeMasks
from wiregrad.inspect.report import format_operand
from wiregrad.ir import CONSTANT, CircuitGraph, Row
from wiregrad.ir.op import CONSTANT_CODE
from wiregrad.ops import Elementwise


def encode_nodes(circuit: CircuitGraph, run: RunRecord | None = None) -> list[dict[str, Any]]:
    """Encode every node of a circuit, with the caption of its box where the page cannot derive it.

    >>> import wiregrad as wg
    >>> encode_nodes(wg.circuit("y = tanh(x)"))[1]["sources"]
    [0]
    """
    names = circuit.columns.names.group_by_node()
    folded = NodeMasks.from_circuit(circuit).folded & (circuit.columns.codes != CONSTANT_CODE)
    nodes = [_encode_row(circuit, row, names.get(row.node, [])) for row in circuit.rows()]
    for node, text in collect_captions(circuit, run).items():
        nodes[node]["caption"] = text
    for node in np.flatnonzero(folded).tolist():
        nodes[node]["folded"] = True
    return nodes


def encode_node(circuit: CircuitGraph, node: int) -> dict[str, Any]:
    """Encode one node of a circuit.

    >>> import wiregrad as wg
    >>> data = encode_node(wg.circuit("y = tanh(x)"), 1)
    >>> data["op"], data["names"], data["encode_place"]
    ('tanh', ['y'], {'file': 'formula', 'line': 1, 'column': 5})
    """
    modes = circuit.columns.modes
    row = Row(node, circuit.op_of(node), circuit.sources_of(node), 0 if modes is None else int(modes[node]))
    return _encode_row(circuit, row, list(circuit.columns.names.names_of(node)))


def _encode_row(circuit: CircuitGraph, row: Row, names: list[str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "op": row.op.name,
        "sources": row.sources,
        "names": names,
        "mode": row.mode,
        "group": circuit.columns.groups.label_of(row.node) or "",
        "type": str(circuit.type_of(row.node)),
    }
    if row.op is CONSTANT:
        data["constant"] = encode_value(circuit.constant_of(row.node))
    elif row.sources and (row.op.settings or not isinstance(row.op, Elementwise)):
        data["text"] = row.op.expression(*[format_operand(circuit, source) for source in row.sources])
    location = circuit.columns.places.label_of(row.node)
    return data if location is None else data | {"place": encode_place(location)}


def encode_wires(run: RunRecord) -> Iterator[list[Any]]:
    """Yield the wires of a run, by reader and then slot, each as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> list(encode_wires(wg.circuit("a * b").run(a=2.0, b=3.0)))
    [[3.0, 1.0, 3.0], [2.0, 1.0, 2.0]]
    """
    with np.errstate(all="ignore"):
        for row in run.circuit.rows():
            for slot in range(len(row.sources)):
                yield _encode_row_wire(run, row, slot)


def encode_wire(run: RunRecord, reader: int, slot: int) -> list[Any]:
    """Encode one wire as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> encode_wire(wg.circuit("a * b").run(a=2.0, b=3.0), 2, 1)
    [2.0, 1.0, 2.0]
    """
    circuit = run.circuit
    modes = circuit.columns.modes
    mode = 0 if modes is None else int(modes[reader])
    with np.errstate(all="ignore"):
        return _encode_row_wire(run, Row(reader, circuit.op_of(reader), circuit.sources_of(reader), mode), slot)


def _encode_row_wire(run: RunRecord, row: Row, slot: int) -> list[Any]:
    circuit = run.circuit
    kind = circuit.type_of(row.sources[slot])
    local = None
    if kind.differentiable and isinstance(row.op, Elementwise):
        xs = [run.values[k] for k in row.sources]
        local = row.op.local(slot, xs, run.values[row.node], row.mode)
    sent = run.sent[int(circuit.columns.starts[row.node]) + slot]
    upstream = encode_gradient(run.flows[row.node], circuit.type_of(row.node).shape)
    return [encode_gradient(local, kind.shape), upstream, encode_gradient(sent, kind.shape)]
