"""`wiregrad grad`: value, local derivatives and gradient of every node."""

from __future__ import annotations

import json

import click

from wiregrad.cli.common import Verb, as_document, one_output
from wiregrad.cli.documents import document as document_of
from wiregrad.cli.tables import table
from wiregrad.cli.targets import Target


def _grad(target: Target, document: bool) -> None:
    run = target.run()
    if document:
        click.echo(json.dumps(document_of(run), indent=2, allow_nan=False))
    else:
        click.echo(table(run), nl=False)


grad = Verb(
    "grad",
    "Show value, local derivatives and gradient of every node.",
    'grad "e = a + b; f = e * c" a=2 b=-3 c=10',
    _grad,
    [one_output(), as_document()],
)
