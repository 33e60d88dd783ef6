"""What the commands share: arguments, options, help, exit codes, and answers printed as text or JSON."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np
from click.shell_completion import CompletionItem

from wiregrad.api import Run
from wiregrad.cli.targets import CommandFailure, CommandTarget, choose_output, escape_control_characters, parse_target
from wiregrad.dtypes import JsonValue
from wiregrad.errors import OutputError, suggest_name
from wiregrad.ir import Node

ANSWER_SCHEMA = 1
"""Version of the JSON that commands print."""


def document_run(run: Run) -> dict[str, Any]:
    """Return a run as data for JSON; NaN and infinities, which JSON cannot write, become strings."""
    grads = {name: to_plain_data(value) for name, value in run.grads.items()}
    output = {"name": run.circuit.output, "value": to_plain_data(run.output)}
    return {
        "schema": ANSWER_SCHEMA,
        "output": output,
        "grads": grads,
        "nodes": [_document_node(run, k) for k in range(len(run.values))],
    }


def _document_node(run: Run, index: int) -> dict[str, Any]:
    node = Node(run.circuit, index)
    view = run[node.name]
    wires = [
        {"source": wire.source, "local": to_plain_data(wire.local), "sent": to_plain_data(wire.sent)}
        | ({"blocked": True} if wire.blocked else {})
        for wire in view.wires
    ]
    return {
        "name": view.name,
        "title": node.title,
        "op": view.op.name,
        "computes": node.expression(),
        "value": to_plain_data(view.value),
        "grad": to_plain_data(view.grad),
        "wires": wires,
    }


def to_plain_data(value: object) -> JsonValue:
    """Return any part of an answer as data for JSON; NaN and infinities become strings."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    names = getattr(value, "__dataclass_fields__", None)
    if names is not None:
        value = {name: getattr(value, name) for name in names}
    if isinstance(value, dict):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [to_plain_data(item) for item in value]
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


EXIT_FOUND = 1
"""The exit code of a command that found a problem or a difference."""

TARGET_HELP = """\b
{what:<12}a formula; FILE.py:NAME for a function or circuit in a file;
            a circuit file: .wg, .json, .txt; or - for a formula or circuit
            from stdin
NAME=VALUE  a number: a=2
            for functions also an array: "x=[1, 2]", true or false, and text:
            mode=mean if the parameter takes text, else mode='"mean"'
            Whole numbers are floats, unless the parameter is annotated int
            or bool, or its default is one: n: int, n=1"""


def no_color_option() -> click.Option:
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


def may_use_colours() -> bool:
    """Return whether the output may have colours."""
    context = click.get_current_context(silent=True)
    return not os.environ.get("NO_COLOR") and (context is None or context.color is not False)


def json_option() -> click.Option:
    """Return the option `--json`."""
    return click.Option(["--json", "document"], is_flag=True, help="Print JSON instead of text.")


def output_option() -> click.Option:
    """Return the option `--output`, which chooses the node to differentiate."""
    return click.Option(
        ["--output", "chosen"], metavar="NAME", help="The output or node to differentiate, if there are several."
    )


def print_answer(question: str, answer: object, document: bool, *, has_problem: bool) -> None:
    """Print an answer as text or JSON; exit with 1 if it reports a problem or a difference."""
    if document:
        data = {"schema": ANSWER_SCHEMA, "question": question, "answer": to_plain_data(answer)}
        click.echo(json.dumps(data, indent=2, allow_nan=False))
    else:
        click.echo(escape_control_characters(str(answer)))
    if has_problem:
        raise click.exceptions.Exit(EXIT_FOUND)


class TargetCommand(click.Command):
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
                click.Argument(["formula"], metavar=what, shell_complete=complete_file_names),
                *(option for option in options if isinstance(option, click.Argument)),
                click.Argument(["values"], nargs=-1, metavar="[NAME=VALUE]..."),
                *(option for option in options if isinstance(option, click.Option)),
                no_color_option(),
            ],
            callback=lambda formula, values, source=None, chosen=None, **settings: self._ask_target(
                callback, lambda: self.read_target(formula, values, source), chosen, settings
            ),
            help=f"{doc}\n\n\b\nExample: wiregrad {example}",
            short_help=doc.partition("\n")[0],
            epilog=TARGET_HELP.format(what=what),
            # A formula may begin with a minus sign: -h is one, so help is --help alone.
            context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]},
        )

    def _ask_target(
        self,
        callback: Callable[..., None],
        read: Callable[[], CommandTarget],
        chosen: str | None,
        settings: dict[str, Any],
    ) -> None:
        """Call back with the target; if one output has to be chosen, the error names the option for it."""
        target = read() if chosen is None else choose_output(read(), chosen)
        try:
            callback(target, **settings)
        except (OutputError, CommandFailure) as error:
            cause = error.__cause__ if isinstance(error, CommandFailure) else error
            if not isinstance(cause, OutputError) or not any(param.name == "chosen" for param in self.params):
                raise
            raise CommandFailure(_reword_for_command(str(error))) from cause

    def read_target(self, formula: str, values: Sequence[str], form: str | None = None) -> CommandTarget:
        """Return the target of the command; refuse an unknown option, which click took for a formula or value."""
        wrong = [text for text in values if re.match(r"--?[a-z]", text)]
        if re.fullmatch(r"--[a-z-]+", formula) and any("=" not in text for text in values):
            wrong.insert(0, formula)
        if wrong:
            option = wrong[0].partition("=")[0]
            known = [name for param in self.params if isinstance(param, click.Option) for name in param.opts]
            raise click.UsageError(f"there is no option {option}{suggest_name(option, known)}")
        return parse_target(formula, values, form)


def _reword_for_command(message: str) -> str:
    """Reword an error about outputs: name the option of the command instead of the Python method."""
    for python, command in {
        "circuit.with_output(name)": "--output NAME",
        "scalar output: reduce it": "scalar output: reduce it, or choose a scalar node with --output NAME",
    }.items():
        message = message.replace(python, command)
    return message


def complete_file_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Tell the shell to complete file names."""
    return [CompletionItem(incomplete, type="file")]
