"""A part of a circuit and its run as a circuit of its own, so that the code that draws circuits also draws parts.

What the part reads from outside becomes one of its inputs. A node without a name is called `#INDEX` after its index in
the whole circuit; no name can begin with `#`, and `format_node_names` turns it into the `%INDEX` that people read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.ir import CircuitGraph
from wiregrad.ir.flat import NodeLabels
from wiregrad.ir.names import NameTable
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE

_UNNAMED_NODE = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class CircuitPart:
    """A part of a circuit as a circuit, its run if there is one, and the index of each node in the whole circuit."""

    circuit: CircuitGraph
    run: RunRecord | None
    nodes: NDArray[np.int64]


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
        constants=tuple(value for value, kept in zip(c.constants, constants.tolist(), strict=True) if kept),
        modes=None if c.modes is None else np.where(border, 0, c.modes)[keep].astype(np.uint8),
        names=_extract_names(circuit, keep, position),
        places=c.places.select_nodes(keep),
        groups=c.groups.select_nodes(keep),
        settings=_extract_settings(c.settings, border, keep),
        outputs=position[outputs],
        labels=labels,
        certificates=(),
    )
    extracted = CircuitGraph(columns)
    nodes = np.flatnonzero(keep)
    return CircuitPart(extracted, None if run is None else _extract_run(run, extracted, nodes, wires), nodes)


def _extract_run(run: RunRecord, circuit: CircuitGraph, nodes: NDArray[np.int64], wires: NDArray[np.bool_]) -> RunRecord:
    values = [run.values[node] for node in nodes.tolist()]
    gradients = [run.flows[node] for node in nodes.tolist()]
    sent = [run.sent[wire] for wire in np.flatnonzero(wires).tolist()]
    return RunRecord(circuit, values, gradients, sent)


def _extract_settings(settings: NodeLabels, border: NDArray[np.bool_], keep: NDArray[np.bool_]) -> NodeLabels:
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


def format_node_names(text: str) -> str:
    """Write the names `#INDEX` in a text as `%INDEX`, the way nodes without a name are shown everywhere.

    >>> format_node_names("#12 = tanh(#11)")
    '%12 = tanh(%11)'
    """
    return _UNNAMED_NODE.sub(r"%\1", text)
