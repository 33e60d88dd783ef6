"""`wiregrad grad`: value, local derivatives and gradient of every node."""

from __future__ import annotations

import json

import click

from wiregrad.cli.common import TargetCommand, json_option, output_option
from wiregrad.cli.documents import document_run as document_of
from wiregrad.cli.tables import format_run_table
from wiregrad.cli.targets import CommandTarget


def _print_grad(target: CommandTarget, document: bool) -> None:
    run = target.run()
    if document:
        click.echo(json.dumps(document_of(run), indent=2, allow_nan=False))
    else:
        click.echo(format_run_table(run), nl=False)


grad_command = TargetCommand(
    "grad",
    "Show value, local derivatives and gradient of every node.",
    'grad "e = a + b; f = e * c" a=2 b=-3 c=10',
    _print_grad,
    [output_option(), json_option()],
)
