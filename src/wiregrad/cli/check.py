"""`wiregrad check`: every derivative rule compared with finite differences."""

from __future__ import annotations

import click

from wiregrad.cli.common import TargetCommand, json_option, print_answer
from wiregrad.cli.targets import CommandTarget


def _print_check(target: CommandTarget, order: int, document: bool) -> None:
    report = target.check(order)
    print_answer("check", report, document, has_problem=not report.ok)


check_command = TargetCommand(
    "check",
    "Compare the derivative of every op with differences.\n\nThe exit code is 1 if a rule is wrong.",
    'check "tanh(x * w) + b" x=2 w=-3 b=6.5',
    _print_check,
    [
        click.Option(
            ["--order"], type=click.IntRange(1, 2), default=2, show_default=True, help="How many derivatives."
        ),
        json_option(),
    ],
)
