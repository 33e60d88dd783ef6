"""A run as a table for people and as a document for programs."""

from __future__ import annotations

import sys
from typing import Any

from wiregrad.api import Run
from wiregrad.cli.targets import as_json
from wiregrad.dtypes import number
from wiregrad.ir import Node, Pattern

SCHEMA = 1
"""Which form the JSON has."""


def document(run: Run) -> dict[str, Any]:
    """Return the run as plain data; NaN and infinities, which JSON has no numbers for, become text."""
    nodes = []
    for view in run:
        node = Node(run.circuit, view.index)
        wires = [
            {"source": wire.source, "local": as_json(wire.local), "sent": as_json(wire.sent)}
            | ({"blocked": True} if wire.blocked else {})
            for wire in view.wires
        ]
        nodes.append(
            {
                "name": view.name,
                "op": view.op.name,
                "computes": node.expression(),
                "value": as_json(view.value),
                "grad": as_json(view.grad),
                "wires": wires,
            }
        )
    grads = {name: as_json(value) for name, value in run.grads.items()}
    output = {"name": run.circuit.output, "value": as_json(run.output)}
    return {"schema": SCHEMA, "output": output, "grads": grads, "nodes": nodes}


def print_run(run: Run) -> None:
    """Print a row per node, then values and gradients in one line each."""
    from rich import box  # noqa: PLC0415 - only a command that prints a table pays for rich
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("node", "computes", "value", "local derivatives", "gradient"):
        table.add_column(heading, justify="right" if heading in ("value", "gradient") else "left", overflow="fold")
    for node in _shown_nodes(run):
        view = run[node.name]
        cells = [node.name, node.expression(), number(view.value), _locals(run, node), number(view.grad)]
        table.add_row(*map(Text, cells))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for line in _summary(run):
        console.print(Text(line), soft_wrap=True)


def _shown_nodes(run: Run) -> list[Node]:
    """Return every node but the constants without a name, which stand in the expressions as numbers."""
    nodes = [Node(run.circuit, index) for index in range(run.circuit.size)]
    return [node for node in nodes if node.constant is None or run.circuit.columns.names.of(node.index)]


def _summary(run: Run) -> list[str]:
    computed = [node for node in _shown_nodes(run) if node.op.pattern is not Pattern.SOURCE]
    values = ", ".join(f"{node.name} = {number(run[node.name].value)}" for node in computed)
    grads = " ".join(f"{name}={number(value)}" for name, value in run.grads.items())
    return [f"values     {values or 'none'}", f"gradients  {grads or 'none'}"]


def _locals(run: Run, node: Node) -> str:
    wires = [
        wire for wire in run[node.name].wires if run.circuit[wire.source].constant is None and wire.local is not None
    ]
    return ", ".join(f"d{wire.reader}/d{wire.source} = {number(wire.local)}" for wire in wires)
