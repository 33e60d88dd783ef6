"""The questions that can be asked from a terminal: one command each, all of one kind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import click

from wiregrad.cli.tables import SCHEMA
from wiregrad.cli.targets import as_json, parse_values, run_of

FOUND = 1
"""The exit code of a command that found what it looked for, or something that does not hold."""


@dataclass(frozen=True)
class Question:
    """A question to a run."""

    name: str
    doc: str
    example: str
    of: str = ""
    """What it is asked of, if not of the whole run: the words in the help."""
    fails: bool = False
    """Whether an answer that is true as a condition is bad news, and the exit code says so."""

    def command(self) -> click.Command:
        """Return the question as a command."""
        params: list[click.Parameter] = [
            click.Argument(["target"], metavar="FORMULA"),
            click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
            click.Option(["--json", "document"], is_flag=True, help="Print JSON instead of sentences."),
        ]
        if self.of:
            params.append(click.Option(["--of", "name"], required=True, metavar="NAME", help=self.of))
        return click.Command(
            self.name,
            params=params,
            callback=self.ask,
            help=f"{self.doc}\n\nExample: wiregrad {self.example}",
            short_help=self.doc,
            context_settings={"ignore_unknown_options": True},
        )

    def ask(self, target: str, values: tuple[str, ...], document: bool, name: str | None = None) -> None:
        """Run the target and print the answer."""
        run = run_of(target, parse_values(values))
        show(self.name, getattr(run, self.name)(*([] if name is None else [name])), document, fails=self.fails)


def show(question: str, answer: Any, document: bool, *, fails: bool) -> None:
    """Print an answer; exit with 1 if it is bad news."""
    if document:
        click.echo(json.dumps({"schema": SCHEMA, "question": question, "answer": as_json(answer)}, indent=2))
    else:
        click.echo(str(answer))
    if fails and answer:
        raise click.exceptions.Exit(FOUND)


QUESTIONS = (
    Question(
        "blame", "Name the op that first made something non-finite.", 'blame "sqrt(x*x + y*y)" x=0 y=0', fails=True
    ),
    Question(
        "explain",
        "Say why a gradient is zero, absent, tiny, huge or what it is.",
        'explain --of w "tanh(w * x)" w=50 x=2',
        of="The node whose gradient is asked for.",
    ),
    Question(
        "paths",
        "Show the paths that carry most of a gradient.",
        'paths --of a "(a + b) * c + a * a" a=2 b=-3 c=10',
        of="The node whose gradient is asked for.",
    ),
    Question(
        "branches",
        "Show what each use of a value sends back.",
        'branches --of x "x * x + x" x=3',
        of="The value whose uses are compared.",
    ),
    Question("kinks", "List the nodes on or near a kink.", 'kinks "abs(x) + relu(y)" x=0 y=1'),
    Question("rounding", "Estimate the rounding error of output and gradients.", 'rounding "(1 + x) - 1" x=1e-9'),
)
