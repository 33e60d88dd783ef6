"""`wiregrad code`: a circuit as a listing in some language, forward and backward, line by line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
import numpy as np

from wiregrad.api import Circuit
from wiregrad.cli.circuit_files import STDIO, encode_lines, file_ending, join_endings, write_output
from wiregrad.cli.command_base import ANSWER_SCHEMA, TargetCommand, json_option
from wiregrad.cli.failures import CommandFailure, escape_control_characters
from wiregrad.cli.targets import CommandTarget, check_node_name
from wiregrad.codegen import LANGUAGE_MODULES
from wiregrad.codegen.listing import LISTING_FUNCTIONS
from wiregrad.errors import NoRuleError, OperandError

DEFAULT_LANGUAGE = "python"
HEADER_ENDING = ".h"
LANGUAGE_ENDINGS = {".py": "python", ".c": "c", HEADER_ENDING: "c", ".js": "js", ".mjs": "js", ".cu": "cuda"}
"""The language of a file, by the ending of its name."""
LANGUAGES_OF_OPTION = {"real": ("c", "cuda"), "header": ("c",), "test": ("c",)}
"""The languages of the options that not every language has."""


def _write_code(
    target: CommandTarget,
    output: str,
    language: str | None,
    of: str | None,
    expand: bool,
    test: bool,
    document: bool,
    function: str,
    **options: object,
) -> None:
    language = language or _infer_language(output)
    options["header"] = options["header"] or (language == "c" and file_ending(output) == HEADER_ENDING)
    _check_options(language, {**options, "test": test})
    if document and output != STDIO:
        raise click.UsageError(f"--json prints to stdout; leave out either --json or -o {output}")
    circuit, point = _select_circuit(target, of, expand)
    text = write_listing(circuit, language, function=function, test=point if test else None, **options)
    if document:
        answer = {"schema": ANSWER_SCHEMA, "language": language, "function": function, "code": text}
        click.echo(json.dumps(answer, indent=2))
    else:
        write_output(output, encode_lines(text))


def _infer_language(output: str) -> str:
    ending = file_ending(output)
    if output != STDIO and ending not in LANGUAGE_ENDINGS:
        raise click.UsageError(
            f"the file name {output!r} does not imply a language; "
            f"wanted a file that ends in {join_endings(LANGUAGE_ENDINGS)}, or --to LANGUAGE"
        )
    return LANGUAGE_ENDINGS.get(ending, DEFAULT_LANGUAGE)


def _check_options(language: str, options: Mapping[str, object]) -> None:
    """Raise a usage error for an option that does not apply to the language."""
    for name, languages in LANGUAGES_OF_OPTION.items():
        if options[name] and language not in languages:
            raise click.UsageError(f"--{name} is for {' and '.join(languages)}; the language is {language}")
    if options["header"] and options["test"]:
        raise click.UsageError("the self-test is in the listing, not in its header; leave out --header or --test")


def _select_circuit(target: CommandTarget, of: str | None, expand: bool) -> tuple[Circuit, Mapping[str, Any]]:
    """Return the circuit to write, and the values given for its inputs."""
    circuit, point = target.trace_circuit()
    if of is not None:
        circuit = circuit.with_output(check_node_name(circuit, of))
    if not expand:
        return circuit, point
    numbers = [number for name in circuit.inputs if name in point for number in np.ravel(point[name])]
    circuit = circuit.expand()
    return circuit, dict(zip(circuit.inputs, numbers, strict=False))


def write_listing(circuit: Circuit, language: str, *, function: str = "value_and_grad", **options: object) -> str:
    """Return a circuit as a listing; errors name the options of the command, not Python's arguments.

    >>> print(write_listing(Circuit.from_text("input x\\noutput x"), "python", function="value").splitlines()[3])
    def value(x):
    """
    if len(circuit.outputs) > 1 and function not in ("value", "jacobian"):
        outputs = ", ".join(circuit.outputs)
        raise click.UsageError(
            f"{function} needs one output, and there are {len(circuit.outputs)} ({outputs}); choose one with "
            "wiregrad code --of NAME, or take --function value or jacobian"
        )
    applicable = {
        name: value for name, value in options.items() if language in LANGUAGES_OF_OPTION.get(name, LANGUAGE_MODULES)
    }
    try:
        text: str = getattr(circuit, f"to_{language}")(function, **applicable)
    except NoRuleError as error:
        raise CommandFailure(f"{error}{_hint_for_arrays(circuit)}") from None
    except OperandError as error:
        raise click.UsageError(str(error)) from None
    if circuit.certificates:
        click.echo(escape_control_characters(_describe_branches(circuit)), err=True)
    return text


def _hint_for_arrays(circuit: Circuit) -> str:
    has_arrays = any(circuit.type_of(node).shape for node in range(circuit.size))
    return "\n  in this command: wiregrad code --to numpy, or --expand for small arrays" if has_arrays else ""


def _describe_branches(circuit: Circuit) -> str:
    """Return the note that the traced function has branches which depend on values."""
    places = list(dict.fromkeys(str(place) for _, _, place in circuit.certificates if place is not None))
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    at = f" at {', '.join(places[:3])}{more}" if places else ""
    return f"note: Python branched on values{at}; the listing is right only at inputs that take the same branches"


code_command = TargetCommand(
    "code",
    "Print the circuit as code, forward and backward, line by line.\n\n"
    "The listing needs nothing but its language. Values matter only to a function in a file, which is traced at them, "
    "and to --test.",
    'code --to c "e = a + b; f = e * c"',
    _write_code,
    [
        click.Option(
            ["--to", "language"],
            type=click.Choice(list(LANGUAGE_MODULES)),
            help=f"The language; by default that of the file name, else {DEFAULT_LANGUAGE}.",
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Path(),
            metavar="FILE",
            default=STDIO,
            help=f"Write a file instead: {', '.join(LANGUAGE_ENDINGS)}; - is stdout.",
        ),
        click.Option(
            ["--function"],
            type=click.Choice(LISTING_FUNCTIONS),
            default="value_and_grad",
            show_default=True,
            help="What the code computes.",
        ),
        click.Option(["--name"], metavar="NAME", help="The name of the function; by default it says what is computed."),
        click.Option(["--of"], metavar="NAME", help="The output or node to write code for."),
        click.Option(["--expand"], is_flag=True, help="Expand a small array circuit to single numbers first."),
        click.Option(["--real"], type=click.Choice(["double", "float"]), help="The type of all numbers (c, cuda)."),
        click.Option(["--header"], is_flag=True, help="Print the header of the listing instead (c)."),
        click.Option(["--test"], is_flag=True, help="Add a self-test at the values, for -DWIREGRAD_TEST (c)."),
        json_option(),
    ],
)
