"""A part of a circuit and its run as a circuit of its own, so that what draws circuits draws parts of them.

What the part reads from outside becomes an input of it. A node without a name is called after its index in the whole,
with `#` before it, which no name has; `told` turns that into what people read.
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
    """A circuit cut out of another, its run if there was one, and the index that each of its nodes has in the whole."""

    circuit: Circuit
    run: Run | None
    nodes: NDArray[np.int64]


def part(circuit: Circuit, run: Run | None, chosen: NDArray[np.int64]) -> Part:
    """Return the part of a circuit that holds some nodes, given in order.

    >>> import wiregrad as wg
    >>> found = part(wg.circuit("u = x * y; v = tanh(u); f = v + x"), None, np.array([3]))
    >>> found.circuit.inputs, found.circuit.outputs, found.nodes.tolist()
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
    found = Circuit(columns)
    nodes = np.flatnonzero(keep)
    return Part(found, None if run is None else _run(run, found, nodes, wires), nodes)


def _run(run: Run, circuit: Circuit, nodes: NDArray[np.int64], wires: NDArray[np.bool_]) -> Run:
    some = nodes.tolist()
    sent = [run.sent[k] for k in np.flatnonzero(wires).tolist()]
    return Run(circuit, [run.values[node] for node in some], [run.flows[node] for node in some], sent)


def _settings(settings: Labels, border: NDArray[np.bool_], keep: NDArray[np.bool_]) -> Labels:
    if settings.index is None:
        return settings
    return Labels.of(settings.table, np.where(border, -1, settings.index)[keep].astype(np.int32))


def _names(circuit: Circuit, keep: NDArray[np.bool_], position: NDArray[np.int32]) -> NameTable:
    """Return the names of the nodes to keep; constants without one stay without, since they stand in their readers."""
    named = circuit.columns.names.by_node() if len(circuit.columns.names) else {}
    pairs: list[tuple[int, str]] = []
    for node in np.flatnonzero(keep).tolist():
        own = named.get(node) or ([] if circuit.columns.codes[node] == CONSTANT_CODE else [f"#{node}"])
        pairs += [(int(position[node]), name) for name in own]
    return NameTable(pairs)


def _outputs(
    circuit: Circuit, inside: NDArray[np.bool_], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the outputs of the whole that lie in the part; else its last node."""
    c = circuit.columns
    found = [(node, label) for node, label in zip(c.outputs.tolist(), c.labels, strict=True) if inside[node]]
    if not found:
        last = int(chosen[-1])
        own = c.names.of(last)
        found = [(last, own[0] if own else f"#{last}")]
    return np.array([node for node, _ in found]), tuple(label for _, label in found)


def told(text: str) -> str:
    """Return a text of a part as people read it.

    >>> told("#12 = tanh(#11)")
    '%12 = tanh(%11)'
    """
    return _NUMBERED.sub(r"%\1", text)
