"""The `wiregrad` command.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 something was found or does not hold, 2 wrong
usage, 3 input that cannot be read or is over a limit, 130 interrupted.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence

import click

from wiregrad import __version__
from wiregrad.cli.check import check
from wiregrad.cli.draw import draw
from wiregrad.cli.questions import QUESTIONS
from wiregrad.cli.tables import document, print_run
from wiregrad.cli.targets import parse_values, run_of
from wiregrad.errors import InputError, WiregradError

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
    """Run FORMULA (or FILE.py:FUNCTION) forward and backward; show value, local derivatives and gradient of every node.

    Example: wiregrad grad "e = a + b; f = e * c" a=2 b=-3 c=10
    """
    run = run_of(formula, parse_values(values))
    if as_json:
        click.echo(json.dumps(document(run), indent=2, allow_nan=False))
    else:
        print_run(run)


for question in QUESTIONS:
    cli.add_command(question.command())
cli.add_command(check)
cli.add_command(draw)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return (or exit with) its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names and table lines that the terminal's encoding lacks are escaped, not a crash.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=None if args is None else list(args), prog_name="wiregrad", standalone_mode=False) or 0
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
