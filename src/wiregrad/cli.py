"""The `wiregrad` command.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 2 wrong usage, 3 input that cannot be read or is
over a limit, 130 interrupted.
"""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import click

from wiregrad import __version__
from wiregrad.api import Run, circuit
from wiregrad.dtypes import number
from wiregrad.errors import InputError, WiregradError
from wiregrad.ir import Node, Pattern

SCHEMA = 1
UNREADABLE, INTERRUPTED = 3, 130


@click.group()
@click.version_option(__version__, prog_name="wiregrad")
def cli() -> None:
    """Autodiff you can see through."""


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("formula")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def grad(formula: str, values: tuple[str, ...], as_json: bool) -> None:
    """Run FORMULA forward and backward; show value, local derivatives and gradient of every node.

    Example: wiregrad grad "e = a + b; f = e * c" a=2 b=-3 c=10
    """
    inputs = dict(_parse_value(text) for text in values)
    if len(inputs) < len(values):
        raise click.UsageError("an input is given twice")
    run = circuit(formula).run(inputs)
    if as_json:
        click.echo(json.dumps(_document(run), indent=2, allow_nan=False))
    else:
        _print_run(run)


def _parse_value(text: str) -> tuple[str, float]:
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), float(value)
    except ValueError:
        raise click.UsageError(f"wanted NAME=NUMBER, like a=2; got {text!r}") from None


def _document(run: Run) -> dict[str, Any]:
    """Return the run as plain data; NaN and infinities, which JSON has no numbers for, become text."""
    nodes = []
    for view in run:
        node = Node(run.circuit, view.index)
        wires = [
            {"source": wire.source, "local": _json_number(wire.local), "sent": _json_number(wire.sent)}
            | ({"blocked": True} if wire.blocked else {})
            for wire in view.wires
        ]
        nodes.append(
            {
                "name": view.name,
                "op": view.op.name,
                "computes": node.expression(),
                "value": _json_number(view.value),
                "grad": _json_number(view.grad),
                "wires": wires,
            }
        )
    grads = {name: _json_number(value) for name, value in run.grads.items()}
    output = {"name": run.circuit.output, "value": _json_number(run.output)}
    return {"schema": SCHEMA, "output": output, "grads": grads, "nodes": nodes}


def _json_number(value: Any) -> Any:
    return value if isinstance(value, bool) or math.isfinite(value) else str(value)


def _print_run(run: Run) -> None:
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
    wires = [wire for wire in run[node.name].wires if run.circuit[wire.source].constant is None]
    return ", ".join(f"d{wire.reader}/d{wire.source} = {number(wire.local)}" for wire in wires)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return (or exit with) its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names and table lines that the terminal's encoding lacks are escaped, not a crash.
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(args=None if args is None else list(args), prog_name="wiregrad", standalone_mode=False)
        code = 0
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show(sys.stderr)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = INTERRUPTED
    except InputError as error:
        click.echo(f"wiregrad: {error}", err=True)
        code = 2
    except WiregradError as error:
        click.echo(f"wiregrad: {error}", err=True)
        code = UNREADABLE
    if args is None:
        sys.exit(code)
    return code
