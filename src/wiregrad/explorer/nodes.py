"""Nodes and wires of a circuit as JSON, in the form that `web/src/types.ts` declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.explorer.encoded import flow, place, value
from wiregrad.export.drawing import captions
from wiregrad.export.kinds import Kinds
from wiregrad.inspect.report import operand
from wiregrad.ir import CONSTANT, Circuit, Row
from wiregrad.ir.op import CONSTANT_CODE
from wiregrad.ops import Elementwise


def nodes_data(circuit: Circuit, run: Run | None = None) -> list[dict[str, Any]]:
    """Encode every node of a circuit, with the caption of its box where the page cannot derive it.

    >>> import wiregrad as wg
    >>> nodes_data(wg.circuit("y = tanh(x)"))[1]["sources"]
    [0]
    """
    names = circuit.columns.names.by_node()
    folded = Kinds.of(circuit).folded & (circuit.columns.codes != CONSTANT_CODE)
    nodes = [_node(circuit, row, names.get(row.node, [])) for row in circuit.rows()]
    for node, text in captions(circuit, run).items():
        nodes[node]["caption"] = text
    for node in np.flatnonzero(folded).tolist():
        nodes[node]["folded"] = True
    return nodes


def node_data(circuit: Circuit, node: int) -> dict[str, Any]:
    """Encode one node of a circuit.

    >>> import wiregrad as wg
    >>> data = node_data(wg.circuit("y = tanh(x)"), 1)
    >>> data["op"], data["names"], data["place"]
    ('tanh', ['y'], {'file': 'formula', 'line': 1, 'column': 5})
    """
    modes = circuit.columns.modes
    row = Row(node, circuit.op_of(node), circuit.sources_of(node), 0 if modes is None else int(modes[node]))
    return _node(circuit, row, list(circuit.columns.names.of(node)))


def _node(circuit: Circuit, row: Row, names: list[str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "op": row.op.name,
        "sources": row.sources,
        "names": names,
        "mode": row.mode,
        "group": circuit.columns.groups.at(row.node) or "",
        "type": str(circuit.type_of(row.node)),
    }
    if row.op is CONSTANT:
        data["constant"] = value(circuit.constant_of(row.node))
    elif row.sources and (row.op.settings or not isinstance(row.op, Elementwise)):
        data["text"] = row.op.expression(*[operand(circuit, source) for source in row.sources])
    location = circuit.columns.places.at(row.node)
    return data if location is None else data | {"place": place(location)}


def wires_data(run: Run) -> Iterator[list[Any]]:
    """Yield the wires of a run, by reader and then slot, each as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> list(wires_data(wg.circuit("a * b").run(a=2.0, b=3.0)))
    [[3.0, 1.0, 3.0], [2.0, 1.0, 2.0]]
    """
    with np.errstate(all="ignore"):
        for row in run.circuit.rows():
            for slot in range(len(row.sources)):
                yield _wire(run, row, slot)


def wire_data(run: Run, reader: int, slot: int) -> list[Any]:
    """Encode one wire as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> wire_data(wg.circuit("a * b").run(a=2.0, b=3.0), 2, 1)
    [2.0, 1.0, 2.0]
    """
    circuit = run.circuit
    modes = circuit.columns.modes
    mode = 0 if modes is None else int(modes[reader])
    with np.errstate(all="ignore"):
        return _wire(run, Row(reader, circuit.op_of(reader), circuit.sources_of(reader), mode), slot)


def _wire(run: Run, row: Row, slot: int) -> list[Any]:
    circuit = run.circuit
    kind = circuit.type_of(row.sources[slot])
    local = None
    if kind.differentiable and isinstance(row.op, Elementwise):
        xs = [run.values[k] for k in row.sources]
        local = row.op.local(slot, xs, run.values[row.node], row.mode)
    sent = run.sent[int(circuit.columns.starts[row.node]) + slot]
    upstream = flow(run.flows[row.node], circuit.type_of(row.node).shape)
    return [flow(local, kind.shape), upstream, flow(sent, kind.shape)]
