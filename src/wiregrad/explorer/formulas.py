"""Recovers the formula of a circuit, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wiregrad.errors import WiregradError
from wiregrad.frontends import parse_formula
from wiregrad.ir import Circuit, Pattern
from wiregrad.ir.flat import Labels

MOST = 2000
"""Circuits with more nodes than this get no formula: nobody would read it."""
FILE = "formula"
"""The file name in source locations inside a formula."""


def formula_of(circuit: Circuit) -> str | None:
    """Return a formula that parses to this circuit, names and order included; None if there is none or it was Python.

    >>> print(formula_of(parse_formula("(a + b) * c")))
    t1 = a + b
    f = t1 * c
    """
    places = circuit.columns.places
    if circuit.size > MOST or any(place.file != FILE for place in places.table) or len(circuit.outputs) != 1:
        return None
    text = "\n".join(_statements(circuit))
    try:
        parsed = parse_formula(text)
    except WiregradError:
        return None
    return text if _bare(parsed) == _bare(circuit) else None


def _bare(circuit: Circuit) -> Circuit:
    return Circuit(replace(circuit.columns, places=Labels()))


def _statements(circuit: Circuit) -> Iterator[str]:
    names = circuit.columns.names
    for row in circuit.rows():
        if row.op.pattern is not Pattern.SOURCE:
            operands = [circuit.operand_text(source) for source in row.sources]
            text = row.op.expression(*(f"({x})" if x.startswith("-") else x for x in operands))
            node_names = names.of(row.node)
            yield f"{node_names[0]} = {text}" if node_names else text
