"""`wiregrad draw`: the picture of a circuit, in the terminal or as a file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from wiregrad.api import Circuit, Run, circuit
from wiregrad.cli.targets import function_of, parse_values, run_of

WRITERS = {".svg": "to_svg", ".dot": "to_dot", ".mmd": "to_mermaid", ".txt": "to_unicode"}
"""Which method writes files of which ending."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("formula")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("-o", "--output", metavar="FILE", help=f"Write a file instead: {', '.join(WRITERS)}.")
@click.option("--split", is_flag=True, help="Draw the splitters behind values that are read more than once.")
@click.option("--down", is_flag=True, help="Let values flow downwards (files only).")
@click.option("--theme", type=click.Choice(["auto", "light", "dark"]), default="auto", help="Colours of an SVG.")
@click.option("--ascii", "plain", is_flag=True, help="Keep to plain characters in the terminal.")
def draw(
    formula: str, values: tuple[str, ...], output: str | None, split: bool, down: bool, theme: str, plain: bool
) -> None:
    """Draw the circuit of FORMULA (or FILE.py:FUNCTION); with values, what flows on every wire.

    Example: wiregrad draw "e = a + b; f = e * c" a=2 b=-3 c=10 -o expression.svg
    """
    drawn = _subject(formula, values)
    if output is None:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(drawn.to_unicode(width=width, ascii=plain, split=split))
        return
    ending = Path(output).suffix
    if ending not in WRITERS:
        raise click.UsageError(f"wanted a file that ends in {', '.join(WRITERS)}; got {output}")
    options: dict[str, Any] = {"split": split}
    options |= {"down": down} if ending != ".txt" else {"ascii": plain}
    options |= {"theme": theme} if ending == ".svg" else {}
    Path(output).write_text(getattr(drawn, WRITERS[ending])(**options), encoding="utf-8")
    click.echo(f"wrote {output}", err=True)


def _subject(formula: str, values: tuple[str, ...]) -> Circuit | Run:
    """Return a run where there are values to run at, else the bare circuit."""
    if values or function_of(formula) is not None:
        return run_of(formula, parse_values(values))
    return circuit(sys.stdin.read() if formula == "-" else formula)
