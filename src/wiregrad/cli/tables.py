"""A run as a table in the terminal."""

from __future__ import annotations

import sys

from wiregrad.api import Run
from wiregrad.cli.common import may_use_colours
from wiregrad.dtypes import format_brief_number
from wiregrad.ir import Node, Pattern


def format_run_table(run: Run) -> str:
    """Return a table with a row per node, then one line of values and one of gradients."""
    from rich import box  # noqa: PLC0415 - only a command that prints a table pays for rich
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    rows = Table(box=box.SIMPLE_HEAD)
    for heading in ("node", "computes", "value", "local derivatives", "gradient"):
        rows.add_column(heading, justify="right" if heading in ("value", "gradient") else "left", overflow="fold")
    for node in _shown_nodes(run):
        view = run[node.name]
        cells = [node.name, node.expression(), format_brief_number(view.value), _format_local_derivatives(run, node), format_brief_number(view.grad)]
        rows.add_row(*map(Text, cells))
    console = Console(
        highlight=False, width=None if sys.stdout.isatty() else 120, color_system="auto" if may_use_colours() else None
    )
    with console.capture() as printed:
        console.print(rows)
        for line in _format_summary(run):
            console.print(Text(line), soft_wrap=True)
    return printed.get()


def _shown_nodes(run: Run) -> list[Node]:
    """Return every node except unnamed constants, which appear as numbers in the expressions."""
    nodes = [Node(run.circuit, index) for index in range(run.circuit.size)]
    return [node for node in nodes if node.constant is None or run.circuit.columns.names.names_of(node.index)]


def _format_summary(run: Run) -> list[str]:
    computed = [node for node in _shown_nodes(run) if node.op.pattern is not Pattern.SOURCE]
    values = ", ".join(f"{node.name} = {format_brief_number(run[node.name].value)}" for node in computed)
    grads = " ".join(f"{name}={format_brief_number(value)}" for name, value in run.grads.items())
    return [f"values     {values or 'none'}", f"gradients  {grads or 'none'}"]


def _format_local_derivatives(run: Run, node: Node) -> str:
    wires = [
        wire for wire in run[node.name].wires if run.circuit[wire.source].constant is None and wire.local is not None
    ]
    return ", ".join(f"d{wire.reader}/d{wire.source} = {format_brief_number(wire.local)}" for wire in wires)
