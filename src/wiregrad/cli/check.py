"""`wiregrad check`: every rule compared with differences."""

from __future__ import annotations

import click

from wiregrad.api import circuit
from wiregrad.cli.questions import FOUND, show
from wiregrad.cli.targets import arguments, function_of, parse_values


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("formula")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--order", type=click.IntRange(1, 2), default=2, show_default=True, help="How many derivatives.")
@click.option("--json", "document", is_flag=True, help="Print JSON instead of sentences.")
def check(formula: str, values: tuple[str, ...], order: int, document: bool) -> None:
    """Compare the derivative of every op with differences.

    FORMULA may be FILE.py:FUNCTION. The exit code is 1 if a rule is wrong.

    Example: wiregrad check "tanh(x * w) + b" x=2 w=-3 b=6.5
    """
    from wiregrad.api.values import check_grads  # noqa: PLC0415 - only this command needs tracing

    given, function = parse_values(values), function_of(formula)
    if function is None:
        report = check_grads(circuit(formula), given, order=order, raises=False)
    else:
        report = check_grads(function, *arguments(function, given), order=order, raises=False)
    show("check", report, document, fails=False)
    if not report.ok:
        raise click.exceptions.Exit(FOUND)
