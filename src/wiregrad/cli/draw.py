"""`wiregrad draw`: draws a circuit in the terminal or to a file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from wiregrad.cli.circuit_files import STDIO, write_output
from wiregrad.cli.command_base import TargetCommand
from wiregrad.cli.targets import CommandTarget

PICTURE_WRITERS = {".svg": "to_svg", ".dot": "to_dot", ".mmd": "to_mermaid", ".txt": "to_unicode"}
"""The method that writes a picture, by the ending of the file."""


def _draw_target(
    target: CommandTarget, output: str, form: str | None, plain: bool, theme: str, **options: object
) -> None:
    ending = _infer_ending(output, form)
    if ending == ".txt":
        options = {"split": options["split"], "ascii": plain}
        if output == STDIO:
            width = shutil.get_terminal_size((100, 24)).columns
            options |= {"width": width, "ascii": plain or not _can_print("╭▶")}
    elif ending == ".svg":
        options["theme"] = theme
    picture = getattr(target.choose_picture(), PICTURE_WRITERS[ending])(**options)
    if output == STDIO:
        # As text, not bytes, so that it is written in the terminal's encoding.
        click.echo(picture)
    else:
        write_output(output, picture.encode())


def _infer_ending(output: str, form: str | None) -> str:
    ending = ".txt" if output == STDIO else Path(output).suffix.lower()
    if form:
        ending = f".{form}"
    if ending not in PICTURE_WRITERS:
        raise click.UsageError(f"wanted a file that ends in {', '.join(PICTURE_WRITERS)}; got {output}")
    return ending


def _can_print(characters: str) -> bool:
    """Return whether the encoding of stdout has these characters."""
    try:
        characters.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


draw_command = TargetCommand(
    "draw",
    "Draw the circuit; with values, what flows on every wire.\n\nA function in a file is run, so it needs values.",
    'draw "e = a + b; f = e * c" a=2 b=-3 c=10 -o expression.svg',
    _draw_target,
    [
        click.Option(
            ["-o", "--output"],
            type=click.Path(),
            metavar="FILE",
            default=STDIO,
            help=f"Write a file instead: {', '.join(PICTURE_WRITERS)}; - is stdout.",
        ),
        click.Option(
            ["--format", "form"],
            type=click.Choice([ending[1:] for ending in PICTURE_WRITERS]),
            help="The form to write, if the file name does not imply it.",
        ),
        click.Option(["--split"], is_flag=True, help="Draw the splitters behind values that are read more than once."),
        click.Option(["--down"], is_flag=True, help="Draw from top to bottom (not in txt)."),
        click.Option(
            ["--theme"], type=click.Choice(["auto", "light", "dark"]), default="auto", help="Colours of an SVG."
        ),
        click.Option(["--ascii", "plain"], is_flag=True, help="Use ASCII characters only, in txt and the terminal."),
    ],
)
