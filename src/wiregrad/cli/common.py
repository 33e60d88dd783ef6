"""What all commands share: exit codes, arguments, help, and how an answer is printed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from wiregrad.cli.documents import SCHEMA, as_json
from wiregrad.cli.failure import Failure, visible
from wiregrad.cli.targets import Target, target_of, with_output
from wiregrad.errors import OutputError, suggest

FOUND = 1
"""The exit code of a command that found what it looked for, or something that does not hold."""

HELP = """\b
{what:<12}a formula; FILE.py:NAME for a function or circuit in a file;
            a circuit file: .wg, .json, .txt; or - for a formula or circuit
            from stdin
NAME=VALUE  a number: a=2
            for functions also an array: "x=[1, 2]", true or false, and text:
            mode=mean if the parameter takes text, else mode='"mean"'
            Whole numbers are floats, unless the parameter is annotated int
            or bool, or its default is one: n: int, n=1"""


def no_color() -> click.Option:
    """Return the option that keeps colours out; the variable NO_COLOR does the same."""

    def chosen(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.color = False

    return click.Option(
        ["--no-color"], is_flag=True, expose_value=False, callback=chosen, help="Print no colours, as with NO_COLOR."
    )


def coloured() -> bool:
    """Return whether an answer may have colours."""
    context = click.get_current_context(silent=True)
    return not os.environ.get("NO_COLOR") and (context is None or context.color is not False)


def as_document() -> click.Option:
    """Return the option that asks for JSON."""
    return click.Option(["--json", "document"], is_flag=True, help="Print JSON instead of text.")


def one_output() -> click.Option:
    """Return the option that chooses the number to go back from."""
    return click.Option(
        ["--output", "chosen"], metavar="NAME", help="The output, or any node, to go back from, if there are several."
    )


def show(question: str, answer: Any, document: bool, *, found: bool) -> None:
    """Print an answer; exit with 1 if something was found."""
    if document:
        told = {"schema": SCHEMA, "question": question, "answer": as_json(answer)}
        click.echo(json.dumps(told, indent=2, allow_nan=False))
    else:
        click.echo(visible(str(answer)))
    if found:
        raise click.exceptions.Exit(FOUND)


class Verb(click.Command):
    """A command about a formula or a function at some values."""

    def __init__(
        self,
        name: str,
        doc: str,
        example: str,
        callback: Callable[..., None],
        options: Sequence[click.Parameter] = (),
        what: str = "FORMULA",
    ) -> None:
        """Make a command; an argument among the options stands between what it is about and the values."""
        super().__init__(
            name,
            params=[
                click.Argument(["formula"], metavar=what, shell_complete=files),
                *(option for option in options if isinstance(option, click.Argument)),
                click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
                *(option for option in options if isinstance(option, click.Option)),
                no_color(),
            ],
            callback=lambda formula, values, source=None, chosen=None, **given: self._answer(
                callback, lambda: self.target(formula, values, source), chosen, given
            ),
            help=f"{doc}\n\n\b\nExample: wiregrad {example}",
            short_help=doc.partition("\n")[0],
            epilog=HELP.format(what=what),
            # A formula may begin with a minus, and -h is one.
            context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
        )

    def _answer(
        self, callback: Callable[..., None], target: Callable[[], Target], chosen: str | None, given: dict[str, Any]
    ) -> None:
        """Ask a target; where one output has to be chosen, name the option that does."""
        found = target() if chosen is None else with_output(target(), chosen)
        try:
            callback(found, **given)
        except (OutputError, Failure) as error:
            cause = error.__cause__ if isinstance(error, Failure) else error
            if not isinstance(cause, OutputError) or not any(param.name == "chosen" for param in self.params):
                raise
            raise Failure(_in_words(str(error))) from cause

    def target(self, formula: str, values: Sequence[str], form: str | None = None) -> Target:
        """Return what the command is about; what looks like an option, where none can stand, was meant as one."""
        wrong = [text for text in values if re.match(r"--?[a-z]", text)]
        if re.fullmatch(r"--[a-z-]+", formula) and any("=" not in text for text in values):
            wrong.insert(0, formula)
        if wrong:
            option = wrong[0].partition("=")[0]
            known = [name for param in self.params if isinstance(param, click.Option) for name in param.opts]
            raise click.UsageError(f"there is no option {option}{suggest(option, known)}")
        return target_of(formula, values, form)


def _in_words(message: str) -> str:
    """Return what Python is told of outputs in the words of the command."""
    for python, command in {
        "circuit.with_output(name)": "--output NAME",
        "reduce it to one": "reduce it to one, or choose a node that is one with --output NAME",
    }.items():
        message = message.replace(python, command)
    return message


def files(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Let the shell complete the names of files."""
    return [CompletionItem(incomplete, type="file")]
