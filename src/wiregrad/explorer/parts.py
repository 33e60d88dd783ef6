"""A part of a circuit and its run as a circuit of its own, so that the code that draws circuits also draws parts.

What the part reads from outside becomes one of its inputs. A node without a name is called `#INDEX` after its index in
the whole circuit; no name can begin with `#`, and `format_node_names` turns it into the `%INDEX` that people read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import Run
from wiregrad.ir import Circuit
from wiregrad.ir.flat import Labels
from wiregrad.ir.names import NameTable
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE

_NUMBERED = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a circuit as a circuit, its run if there is one, and the index of each node in the whole circuit."""

    circuit: Circuit
    run: Run | None
    nodes: NDArray[np.int64]


def part(circuit: Circuit, run: Run | None, chosen: NDArray[np.int64]) -> Part:
    """Extract the part of a circuit that consists of the chosen nodes, given in ascending order.

    >>> import wiregrad as wg
    >>> middle = part(wg.circuit("u = x * y; v = tanh(u); f = v + x"), None, np.array([3]))
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
    outputs, labels = _outputs(circuit, inside, chosen)
    columns = replace(
        c,
        codes=np.where(border, INPUT_CODE, c.codes)[keep].astype(c.codes.dtype),
        starts=np.concatenate([[0], np.cumsum(lengths[keep])]).astype(np.int32),
        sources=position[c.sources[wires]],
        types=c.types[keep],
        constant_nodes=position[c.constant_nodes[constants]],
        constants=tuple(value for value, kept in zip(c.constants, constants.tolist(), strict=True) if kept),
        modes=None if c.modes is None else np.where(border, 0, c.modes)[keep].astype(np.uint8),
        names=_names(circuit, keep, position),
        places=c.places.filtered(keep),
        groups=c.groups.filtered(keep),
        settings=_settings(c.settings, border, keep),
        outputs=position[outputs],
        labels=labels,
        certificates=(),
    )
    extracted = Circuit(columns)
    nodes = np.flatnonzero(keep)
    return Part(extracted, None if run is None else _run(run, extracted, nodes, wires), nodes)


def _run(run: Run, circuit: Circuit, nodes: NDArray[np.int64], wires: NDArray[np.bool_]) -> Run:
    values = [run.values[node] for node in nodes.tolist()]
    gradients = [run.flows[node] for node in nodes.tolist()]
    sent = [run.sent[wire] for wire in np.flatnonzero(wires).tolist()]
    return Run(circuit, values, gradients, sent)


def _settings(settings: Labels, border: NDArray[np.bool_], keep: NDArray[np.bool_]) -> Labels:
    if settings.index is None:
        return settings
    return Labels.of(settings.table, np.where(border, -1, settings.index)[keep].astype(np.int32))


def _names(circuit: Circuit, keep: NDArray[np.bool_], position: NDArray[np.int32]) -> NameTable:
    """Return names for the nodes to keep; unnamed constants get none, since they are drawn inside their readers."""
    named = circuit.columns.names.by_node() if len(circuit.columns.names) else {}
    pairs: list[tuple[int, str]] = []
    for node in np.flatnonzero(keep).tolist():
        names = named.get(node, [])
        if not names and circuit.columns.codes[node] != CONSTANT_CODE:
            names = [f"#{node}"]
        pairs += [(int(position[node]), name) for name in names]
    return NameTable(pairs)


def _outputs(
    circuit: Circuit, inside: NDArray[np.bool_], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the outputs of the whole circuit that lie in the part; if there are none, the last node of the part."""
    c = circuit.columns
    outputs = [(node, label) for node, label in zip(c.outputs.tolist(), c.labels, strict=True) if inside[node]]
    if not outputs:
        last = int(chosen[-1])
        names = c.names.of(last)
        outputs = [(last, names[0] if names else f"#{last}")]
    return np.array([node for node, _ in outputs]), tuple(label for _, label in outputs)


def told(text: str) -> str:
    """Write the names `#INDEX` in a text as `%INDEX`, the way nodes without a name are shown everywhere.

    >>> told("#12 = tanh(#11)")
    '%12 = tanh(%11)'
    """
    return _NUMBERED.sub(r"%\1", text)
