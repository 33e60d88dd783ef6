"""`wiregrad check`: every derivative rule compared with finite differences."""

from __future__ import annotations

import click

from wiregrad.cli.common import Verb, as_document, show
from wiregrad.cli.targets import Target


def _check(target: Target, order: int, document: bool) -> None:
    report = target.check(order)
    show("check", report, document, has_problem=not report.ok)


check = Verb(
    "check",
    "Compare the derivative of every op with differences.\n\nThe exit code is 1 if a rule is wrong.",
    'check "tanh(x * w) + b" x=2 w=-3 b=6.5',
    _check,
    [
        click.Option(
            ["--order"], type=click.IntRange(1, 2), default=2, show_default=True, help="How many derivatives."
        ),
        as_document(),
    ],
)
