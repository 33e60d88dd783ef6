"""The commands that write a circuit in another form: `draw`, `code` and `convert`."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from wiregrad.api import Circuit
from wiregrad.cli.command_base import (
    ANSWER_SCHEMA,
    ARCHIVE_FORM,
    CIRCUIT_FORMS,
    FORM_ENDINGS,
    JSON_FORM,
    STDIO,
    CommandFailure,
    CommandTarget,
    TargetCommand,
    check_node_name,
    complete_file_names,
    encode_lines,
    escape_control_characters,
    file_ending,
    join_endings,
    json_option,
    write_output,
)
from wiregrad.codegen import LANGUAGE_MODULES
from wiregrad.codegen.listing import LISTING_FUNCTIONS
from wiregrad.errors import NoRuleError, OperandError
from wiregrad.files import encode_circuit_file

PICTURE_WRITERS = {".svg": "to_svg", ".dot": "to_dot", ".mmd": "to_mermaid", ".txt": "to_unicode"}
"""The method that writes a picture, by the ending of the file."""


def _draw_target(
    target: CommandTarget, output: str, form: str | None, plain: bool, theme: str, **options: object
) -> None:
    ending = _infer_ending(output, form)
    if ending == ".txt":
        options = {"split": options["split"], "ascii": plain}
        if output == STDIO:
            width = shutil.get_terminal_size((100, 24)).columns
            options |= {"width": width, "ascii": plain or not _can_print("╭▶")}
    elif ending == ".svg":
        options["theme"] = theme
    picture = getattr(target.choose_picture(), PICTURE_WRITERS[ending])(**options)
    if output == STDIO:
        # As text, not bytes, so that it is written in the terminal's encoding.
        click.echo(picture)
    else:
        write_output(output, picture.encode())


def _infer_ending(output: str, form: str | None) -> str:
    ending = ".txt" if output == STDIO else Path(output).suffix.lower()
    if form:
        ending = f".{form}"
    if ending not in PICTURE_WRITERS:
        raise click.UsageError(f"wanted a file that ends in {', '.join(PICTURE_WRITERS)}; got {output}")
    return ending


def _can_print(characters: str) -> bool:
    """Return whether the encoding of stdout has these characters."""
    try:
        characters.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


draw_command = TargetCommand(
    "draw",
    "Draw the circuit; with values, what flows on every wire.\n\nA function in a file is run, so it needs values.",
    'draw "e = a + b; f = e * c" a=2 b=-3 c=10 -o expression.svg',
    _draw_target,
    [
        click.Option(
            ["-o", "--output"],
            type=click.Path(),
            metavar="FILE",
            default=STDIO,
            help=f"Write a file instead: {', '.join(PICTURE_WRITERS)}; - is stdout.",
        ),
        click.Option(
            ["--format", "form"],
            type=click.Choice([ending[1:] for ending in PICTURE_WRITERS]),
            help="The form to write, if the file name does not imply it.",
        ),
        click.Option(["--split"], is_flag=True, help="Draw the splitters behind values that are read more than once."),
        click.Option(["--down"], is_flag=True, help="Draw from top to bottom (not in txt)."),
        click.Option(
            ["--theme"], type=click.Choice(["auto", "light", "dark"]), default="auto", help="Colours of an SVG."
        ),
        click.Option(["--ascii", "plain"], is_flag=True, help="Use ASCII characters only, in txt and the terminal."),
    ],
)


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


PICTURE_METHODS = {ending[1:]: method for ending, method in PICTURE_WRITERS.items() if ending not in FORM_ENDINGS}
"""The method for each kind of picture; not the one for terminals, whose ending .txt means the text form here."""
PICTURE_ENDINGS = {f".{picture}": picture for picture in PICTURE_METHODS}
CONVERT_ENDINGS = {**FORM_ENDINGS, **PICTURE_ENDINGS, **LANGUAGE_ENDINGS}
"""The form of a file, by the ending of its name."""


def _convert_target(target: CommandTarget, output: str, form: str | None) -> None:
    form = form or _infer_form(output)
    if form == ARCHIVE_FORM and output == STDIO and sys.stdout.isatty():
        raise click.UsageError("a circuit file is binary; name a file for it, or redirect stdout to one")
    write_output(output, _encode_target(target, form, header=file_ending(output) == HEADER_ENDING))


def _infer_form(output: str) -> str:
    form = CONVERT_ENDINGS.get(file_ending(output))
    if form is None:
        what = "stdout has no ending" if output == STDIO else f"the name {output!r} does not say the form"
        raise click.UsageError(f"{what}; wanted a file that ends in {join_endings(CONVERT_ENDINGS)}, or --to FORM")
    return form


def _encode_target(target: CommandTarget, form: str, header: bool) -> bytes:
    """Return the content of a file in the given form."""
    if form in PICTURE_METHODS:
        return encode_lines(getattr(target.choose_picture(), PICTURE_METHODS[form])())
    circuit: Circuit = target.trace_circuit()[0]
    if form in LANGUAGE_MODULES:
        return encode_lines(write_listing(circuit, form, header=header and form == "c"))
    if form == ARCHIVE_FORM:
        return b"".join(encode_circuit_file(circuit))
    return encode_lines(circuit.to_json() if form == JSON_FORM else circuit.to_text())


convert_command = TargetCommand(
    "convert",
    "Write a circuit in another form: text, JSON, file, picture or code.\n\n"
    f"The name of OUT says which: {', '.join(CONVERT_ENDINGS)}. "
    "Here .txt is the text form, which can be read back; for the "
    "picture in characters use draw. A file that is there already is replaced.",
    'convert "e = a + b; f = e * c" expression.json',
    _convert_target,
    [
        click.Argument(["output"], metavar="OUT", shell_complete=complete_file_names),
        click.Option(
            ["--from", "source"],
            type=click.Choice(CIRCUIT_FORMS),
            help="The form of the file or stdin, if its name or content does not imply it.",
        ),
        click.Option(
            ["--to", "form"],
            type=click.Choice([*CIRCUIT_FORMS, *PICTURE_METHODS, *LANGUAGE_MODULES]),
            help="The form to write, if the file name does not imply it; OUT may be -, stdout.",
        ),
    ],
    what="IN",
)
