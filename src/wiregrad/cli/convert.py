"""`wiregrad convert`: writes a circuit in another form: text, JSON, circuit file, picture or code."""

from __future__ import annotations

import sys

import click

from wiregrad.api import Circuit
from wiregrad.cli import circuit_files
from wiregrad.cli.code import HEADER_ENDING, write_listing
from wiregrad.cli.code import LANGUAGE_ENDINGS as CODE
from wiregrad.cli.command_base import TargetCommand, complete_file_names
from wiregrad.cli.draw import PICTURE_WRITERS
from wiregrad.cli.targets import CommandTarget
from wiregrad.codegen import LANGUAGE_MODULES
from wiregrad.files.archive import encode_circuit_file

PICTURE_METHODS = {
    ending[1:]: method for ending, method in PICTURE_WRITERS.items() if ending not in circuit_files.FORM_ENDINGS
}
"""The method for each kind of picture; not the one for terminals, whose ending .txt means the text form here."""
CONVERT_ENDINGS = {**circuit_files.FORM_ENDINGS, **{f".{picture}": picture for picture in PICTURE_METHODS}, **CODE}
"""The form of a file, by the ending of its name."""


def _convert_target(target: CommandTarget, output: str, form: str | None) -> None:
    form = form or _infer_form(output)
    if form == circuit_files.ARCHIVE_FORM and output == circuit_files.STDIO and sys.stdout.isatty():
        raise click.UsageError("a circuit file is binary; name a file for it, or redirect stdout to one")
    circuit_files.write_output(
        output, _encode_target(target, form, header=circuit_files.file_ending(output) == HEADER_ENDING)
    )


def _infer_form(output: str) -> str:
    form = CONVERT_ENDINGS.get(circuit_files.file_ending(output))
    if form is None:
        what = "stdout has no ending" if output == circuit_files.STDIO else f"the name {output!r} does not say the form"
        raise click.UsageError(
            f"{what}; wanted a file that ends in {circuit_files.join_endings(CONVERT_ENDINGS)}, or --to FORM"
        )
    return form


def _encode_target(target: CommandTarget, form: str, header: bool) -> bytes:
    """Return the content of a file in the given form."""
    if form in PICTURE_METHODS:
        return circuit_files.encode_lines(getattr(target.choose_picture(), PICTURE_METHODS[form])())
    circuit: Circuit = target.trace_circuit()[0]
    if form in LANGUAGE_MODULES:
        return circuit_files.encode_lines(write_listing(circuit, form, header=header and form == "c"))
    if form == circuit_files.ARCHIVE_FORM:
        return b"".join(encode_circuit_file(circuit))
    return circuit_files.encode_lines(circuit.to_json() if form == circuit_files.JSON_FORM else circuit.to_text())


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
            type=click.Choice(circuit_files.CIRCUIT_FORMS),
            help="The form of the file or stdin, if its name or content does not imply it.",
        ),
        click.Option(
            ["--to", "form"],
            type=click.Choice([*circuit_files.CIRCUIT_FORMS, *PICTURE_METHODS, *LANGUAGE_MODULES]),
            help="The form to write, if the file name does not imply it; OUT may be -, stdout.",
        ),
    ],
    what="IN",
)
