"""`wiregrad convert`: writes a circuit in another form: text, JSON, circuit file, picture or code."""

from __future__ import annotations

import sys

import click

from wiregrad.api import Circuit
from wiregrad.cli import forms
from wiregrad.cli.code import ENDINGS as CODE
from wiregrad.cli.code import HEADER, listing
from wiregrad.cli.common import Verb, files
from wiregrad.cli.draw import WRITERS
from wiregrad.cli.targets import Target
from wiregrad.codegen import MODULES
from wiregrad.export.archive import packed

PICTURES = {ending[1:]: method for ending, method in WRITERS.items() if ending not in forms.ENDINGS}
"""The method for each kind of picture; not the one for terminals, whose ending .txt means the text form here."""
ENDINGS = {**forms.ENDINGS, **{f".{picture}": picture for picture in PICTURES}, **CODE}
"""The form of a file, by the ending of its name."""


def _convert(target: Target, output: str, form: str | None) -> None:
    form = form or _form(output)
    if form == forms.ARCHIVE and output == forms.STDIO and sys.stdout.isatty():
        raise click.UsageError("a circuit file is binary; name a file for it, or redirect stdout to one")
    forms.write(output, _written(target, form, header=forms.ending_of(output) == HEADER))


def _form(output: str) -> str:
    form = ENDINGS.get(forms.ending_of(output))
    if form is None:
        what = "stdout has no ending" if output == forms.STDIO else f"the name {output!r} does not say the form"
        raise click.UsageError(f"{what}; wanted a file that ends in {forms.listed(ENDINGS)}, or --to FORM")
    return form


def _written(target: Target, form: str, header: bool) -> bytes:
    """Return the content of a file in the given form."""
    if form in PICTURES:
        return forms.as_lines(getattr(target.drawn(), PICTURES[form])())
    circuit: Circuit = target.traced()[0]
    if form in MODULES:
        return forms.as_lines(listing(circuit, form, header=header and form == "c"))
    if form == forms.ARCHIVE:
        return b"".join(packed(circuit))
    return forms.as_lines(circuit.to_json() if form == forms.JSON else circuit.to_text())


convert = Verb(
    "convert",
    "Write a circuit in another form: text, JSON, file, picture or code.\n\n"
    f"The name of OUT says which: {', '.join(ENDINGS)}. "
    "Here .txt is the text form, which can be read back; for the "
    "picture in characters use draw. A file that is there already is replaced.",
    'convert "e = a + b; f = e * c" expression.json',
    _convert,
    [
        click.Argument(["output"], metavar="OUT", shell_complete=files),
        click.Option(
            ["--from", "source"],
            type=click.Choice(forms.FORMS),
            help="What the file or stdin holds, if its name or content does not say it.",
        ),
        click.Option(
            ["--to", "form"],
            type=click.Choice([*forms.FORMS, *PICTURES, *MODULES]),
            help="What to write, if the name of the file does not say it; OUT may be -, stdout.",
        ),
    ],
    what="IN",
)
