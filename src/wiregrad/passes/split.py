"""Insert splitters, so that every wire has one reader."""

from __future__ import annotations

from wiregrad.ir import SPLIT_NAME, TABLE, CircuitGraph, Pattern
from wiregrad.passes.rewrite import Rewriter


def insert_splitters(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit with k - 1 two-way splitters behind each wire that k readers (outputs included) share.

    The splitters form a chain: the first branch of each goes to the earliest remaining reader. So gradients are added
    in the order in which the sweep adds those of an implied fan-out, and both give the same bits.

    >>> from wiregrad.ir import parse_text
    >>> insert_splitters(parse_text("input x\\ny = multiply x x\\nz = add y x\\noutput z"))
    Circuit(1 input, 2 nodes, 2 splitters, output z)
    """
    new = Rewriter(circuit)
    counts = _count_readers(circuit)
    taps: list[list[int]] = [[] for _ in range(circuit.size)]
    for row in circuit.rows():
        node = new.copy_node(row, [taps[source].pop() for source in row.sources])
        # An explicit splitter brings two branches of its own.
        chain = [node] * min(counts[row.node], 2 if row.op.pattern is Pattern.MERGE else 1)
        while len(chain) < counts[row.node]:
            wire = chain.pop()
            copy = new.recording.append(TABLE.code_of(TABLE[SPLIT_NAME]), [wire], new.recording.type_number_of(wire))
            chain += [copy, copy]
        taps[row.node] = chain[::-1]
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return new.build_circuit({label: taps[node].pop() for label, node in outputs})


def _count_readers(circuit: CircuitGraph) -> list[int]:
    counts = [0] * circuit.size
    for source in (*circuit.columns.sources.tolist(), *circuit.columns.outputs.tolist()):
        counts[source] += 1
    return counts
