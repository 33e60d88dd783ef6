"""Recovers the formula of a circuit, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wiregrad.errors import WiregradError
from wiregrad.frontends import parse_formula
from wiregrad.ir import CircuitGraph, Pattern
from wiregrad.ir.flat import NodeLabels

MAX_FORMULA_NODES = 2000
"""Circuits with more nodes than this get no formula: nobody would read it."""
FORMULA_FILE = "formula"
"""The file name in source locations inside a formula."""


def recover_formula(circuit: CircuitGraph) -> str | None:
    """Return a formula that parses to this circuit, names and order included; None if there is none or it was Python.

    >>> print(recover_formula(parse_formula("(a + b) * c")))
    t1 = a + b
    f = t1 * c
    """
    places = circuit.columns.places
    if circuit.size > MAX_FORMULA_NODES or any(place.file != FORMULA_FILE for place in places.table) or len(circuit.outputs) != 1:
        return None
    text = "\n".join(_write_statements(circuit))
    try:
        parsed = parse_formula(text)
    except WiregradError:
        return None
    return text if _strip_places(parsed) == _strip_places(circuit) else None


def _strip_places(circuit: CircuitGraph) -> CircuitGraph:
    return CircuitGraph(replace(circuit.columns, places=NodeLabels()))


def _write_statements(circuit: CircuitGraph) -> Iterator[str]:
    names = circuit.columns.names
    for row in circuit.rows():
        if row.op.pattern is not Pattern.SOURCE:
            operands = [circuit.operand_text(source) for source in row.sources]
            text = row.op.expression(*(f"({x})" if x.startswith("-") else x for x in operands))
            node_names = names.names_of(row.node)
            yield f"{node_names[0]} = {text}" if node_names else text
