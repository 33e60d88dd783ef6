"""What the commands share: exit codes, arguments, help, and the printing of an answer."""

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
"""The exit code of a command that found a problem or a difference."""

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
    """Return the option `--no-color`; the environment variable NO_COLOR does the same."""

    def disable_colour(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.color = False

    return click.Option(
        ["--no-color"],
        is_flag=True,
        expose_value=False,
        callback=disable_colour,
        help="Print no colours, as with NO_COLOR.",
    )


def coloured() -> bool:
    """Return whether the output may have colours."""
    context = click.get_current_context(silent=True)
    return not os.environ.get("NO_COLOR") and (context is None or context.color is not False)


def as_document() -> click.Option:
    """Return the option `--json`."""
    return click.Option(["--json", "document"], is_flag=True, help="Print JSON instead of text.")


def one_output() -> click.Option:
    """Return the option `--output`, which chooses the node to differentiate."""
    return click.Option(
        ["--output", "chosen"], metavar="NAME", help="The output, or any node, to go back from, if there are several."
    )


def show(question: str, answer: Any, document: bool, *, has_problem: bool) -> None:
    """Print an answer as text or JSON; exit with 1 if it reports a problem or a difference."""
    if document:
        data = {"schema": SCHEMA, "question": question, "answer": as_json(answer)}
        click.echo(json.dumps(data, indent=2, allow_nan=False))
    else:
        click.echo(visible(str(answer)))
    if has_problem:
        raise click.exceptions.Exit(FOUND)


class Verb(click.Command):
    """A command that takes a target (a formula, file or function) and NAME=VALUE pairs."""

    def __init__(
        self,
        name: str,
        doc: str,
        example: str,
        callback: Callable[..., None],
        options: Sequence[click.Parameter] = (),
        what: str = "FORMULA",
    ) -> None:
        """Make a command; an argument among the options comes between the target and the values."""
        super().__init__(
            name,
            params=[
                click.Argument(["formula"], metavar=what, shell_complete=files),
                *(option for option in options if isinstance(option, click.Argument)),
                click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
                *(option for option in options if isinstance(option, click.Option)),
                no_color(),
            ],
            callback=lambda formula, values, source=None, chosen=None, **settings: self._answer(
                callback, lambda: self.target(formula, values, source), chosen, settings
            ),
            help=f"{doc}\n\n\b\nExample: wiregrad {example}",
            short_help=doc.partition("\n")[0],
            epilog=HELP.format(what=what),
            # A formula may begin with a minus sign: -h is one, so help is --help alone.
            context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
        )

    def _answer(
        self, callback: Callable[..., None], read: Callable[[], Target], chosen: str | None, settings: dict[str, Any]
    ) -> None:
        """Call back with the target; if one output has to be chosen, the error names the option for it."""
        target = read() if chosen is None else with_output(read(), chosen)
        try:
            callback(target, **settings)
        except (OutputError, Failure) as error:
            cause = error.__cause__ if isinstance(error, Failure) else error
            if not isinstance(cause, OutputError) or not any(param.name == "chosen" for param in self.params):
                raise
            raise Failure(_in_words(str(error))) from cause

    def target(self, formula: str, values: Sequence[str], form: str | None = None) -> Target:
        """Return the target of the command; refuse an unknown option, which click took for a formula or value."""
        wrong = [text for text in values if re.match(r"--?[a-z]", text)]
        if re.fullmatch(r"--[a-z-]+", formula) and any("=" not in text for text in values):
            wrong.insert(0, formula)
        if wrong:
            option = wrong[0].partition("=")[0]
            known = [name for param in self.params if isinstance(param, click.Option) for name in param.opts]
            raise click.UsageError(f"there is no option {option}{suggest(option, known)}")
        return target_of(formula, values, form)


def _in_words(message: str) -> str:
    """Reword an error about outputs: name the option of the command instead of the Python method."""
    for python, command in {
        "circuit.with_output(name)": "--output NAME",
        "reduce it to one": "reduce it to one, or choose a node that is one with --output NAME",
    }.items():
        message = message.replace(python, command)
    return message


def files(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Tell the shell to complete file names."""
    return [CompletionItem(incomplete, type="file")]
