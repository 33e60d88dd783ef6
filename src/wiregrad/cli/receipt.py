"""`wiregrad receipt`: runs the listings of a circuit in every language available here and compares them."""

from __future__ import annotations

import click

from wiregrad.cli.common import TargetCommand, json_option, print_answer
from wiregrad.cli.targets import CommandTarget


def _print_receipt(target: CommandTarget, points: int | None, seed: int, document: bool) -> None:
    circuit, values = target.trace_circuit()
    chosen = points or ([values] if values else None)
    answer = circuit.receipt(seed=seed) if chosen is None else circuit.receipt(chosen, seed=seed)
    print_answer("receipt", answer, document, has_problem=not answer.ok)


receipt_command = TargetCommand(
    "receipt",
    "Run the code of a circuit in every language and compare.\n\n"
    "C is compiled with gcc and JavaScript run with Node, where they are found. The code is run at the values, or at "
    "random points if there are none or --points asks for them. The exit code is 1 if a difference is larger than "
    "rounding explains.",
    'receipt "e = a + b; f = e * c"',
    _print_receipt,
    [
        click.Option(["--points"], type=click.IntRange(1, 10_000), help="How many random points to take."),
        click.Option(["--seed"], type=click.IntRange(0), default=0, show_default=True, help="Which random points."),
        json_option(),
    ],
)
