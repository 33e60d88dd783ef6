"""Nodes and wires of a circuit as the page has them (`web/src/types.ts`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wiregrad.backends import Run
from wiregrad.explorer import encoded
from wiregrad.export.drawing import captions
from wiregrad.export.kinds import Kinds
from wiregrad.inspect.report import operand
from wiregrad.ir import CONSTANT, Circuit, Row
from wiregrad.ir.op import CONSTANT_CODE
from wiregrad.ops import Elementwise


def nodes_data(circuit: Circuit, run: Run | None = None) -> list[dict[str, Any]]:
    """Return every node of a circuit, and what its box says where the page cannot tell.

    >>> import wiregrad as wg
    >>> nodes_data(wg.circuit("y = tanh(x)"))[1]["sources"]
    [0]
    """
    names, said = circuit.columns.names.by_node(), captions(circuit, run)
    folded = Kinds.of(circuit).folded & (circuit.columns.codes != CONSTANT_CODE)
    found = [_node(circuit, row, names.get(row.node, [])) for row in circuit.rows()]
    for node, text in said.items():
        found[node]["caption"] = text
    for node in np.flatnonzero(folded).tolist():
        found[node]["folded"] = True
    return found


def node_data(circuit: Circuit, node: int) -> dict[str, Any]:
    """Return one node of a circuit.

    >>> import wiregrad as wg
    >>> found = node_data(wg.circuit("y = tanh(x)"), 1)
    >>> found["op"], found["names"], found["place"]
    ('tanh', ['y'], {'file': 'formula', 'line': 1, 'column': 5})
    """
    modes = circuit.columns.modes
    row = Row(node, circuit.op_of(node), circuit.sources_of(node), 0 if modes is None else int(modes[node]))
    return _node(circuit, row, list(circuit.columns.names.of(node)))


def _node(circuit: Circuit, row: Row, names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "op": row.op.name,
        "sources": row.sources,
        "names": names,
        "mode": row.mode,
        "group": circuit.columns.groups.at(row.node) or "",
        "type": str(circuit.type_of(row.node)),
    }
    if row.op is CONSTANT:
        found["constant"] = encoded.value(circuit.constant_of(row.node))
    elif row.sources and (row.op.settings or not isinstance(row.op, Elementwise)):
        found["text"] = row.op.expression(*[operand(circuit, source) for source in row.sources])
    place = circuit.columns.places.at(row.node)
    return found if place is None else found | {"place": encoded.place(place)}


def wires_data(run: Run) -> Iterator[list[Any]]:
    """Walk the wires of a run by reader, then slot, each as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> list(wires_data(wg.circuit("a * b").run(a=2.0, b=3.0)))
    [[3.0, 1.0, 3.0], [2.0, 1.0, 2.0]]
    """
    with np.errstate(all="ignore"):
        for row in run.circuit.rows():
            for slot in range(len(row.sources)):
                yield _wire(run, row, slot)


def wire_data(run: Run, reader: int, slot: int) -> list[Any]:
    """Return one wire as [local, upstream, sent].

    >>> import wiregrad as wg
    >>> wire_data(wg.circuit("a * b").run(a=2.0, b=3.0), 2, 1)
    [2.0, 1.0, 2.0]
    """
    circuit, modes = run.circuit, run.circuit.columns.modes
    mode = 0 if modes is None else int(modes[reader])
    with np.errstate(all="ignore"):
        return _wire(run, Row(reader, circuit.op_of(reader), circuit.sources_of(reader), mode), slot)


def _wire(run: Run, row: Row, slot: int) -> list[Any]:
    circuit, source = run.circuit, row.sources[slot]
    kind, local = circuit.type_of(source), None
    if kind.differentiable and isinstance(row.op, Elementwise):
        xs = [run.values[k] for k in row.sources]
        local = row.op.local(slot, xs, run.values[row.node], row.mode)
    sent = run.sent[int(circuit.columns.starts[row.node]) + slot]
    upstream = encoded.flow(run.flows[row.node], circuit.type_of(row.node).shape)
    return [encoded.flow(local, kind.shape), upstream, encoded.flow(sent, kind.shape)]
