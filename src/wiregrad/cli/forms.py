"""Circuits outside of Python: read from files and stdin, written to files and stdout.

Nothing in a circuit file is run. A file is written whole or not at all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from wiregrad.api import Circuit, circuit, load
from wiregrad.cli.failure import Failure
from wiregrad.errors import FormulaError, WiregradError
from wiregrad.export.archive import MAX_FILE, content, replace, unpacked
from wiregrad.ir.strictjson import MAX_BYTES, is_json

STDIO = "-"
"""What stands for stdin and stdout in the place of a file."""
FORMULA, TEXT, JSON, ARCHIVE = "formula", "text", "json", "wg"
FORMS = (TEXT, JSON, ARCHIVE)
"""The forms that hold a whole circuit."""
ENDINGS = {".wg": ARCHIVE, ".json": JSON, ".txt": TEXT, ".circuit": TEXT}
"""Which form files of which ending have."""

# No formula has a line that begins with one of these words and then a name.
_TEXT = re.compile(r"^[ \t]*(circuit|input|output)[ \t]+[\w%]", re.MULTILINE)


def ending_of(path: str) -> str:
    """Return how the name of a file ends, in small letters."""
    return Path(path).suffix.lower()


def listed(endings: Iterable[str]) -> str:
    """Return endings as words: `.a, .b or .c`."""
    *most, last = endings
    return f"{', '.join(most)} or {last}" if most else last


def read_circuit(source: str, form: str | None = None) -> tuple[Circuit, str]:
    """Return the circuit that a formula, a circuit file or stdin holds, and the form it has there.

    >>> read_circuit("a * b")
    (Circuit(2 inputs, 1 node, 0 splitters, output f), 'formula')
    """
    if source == STDIO:
        data = _stdin()
        form = form or _form_of(data)
        return _parsed(data, form, "stdin"), form
    if form is not None and not Path(source).exists():
        raise click.UsageError(f"there is no file {source}; what --from says is of a file or stdin, not of a formula")
    form = form or (ENDINGS.get(ending_of(source)) if "\n" not in source else None)
    return (_formula(source), FORMULA) if form is None else _in_file(source, form)


MAX_FILE_NAME = 250
"""Longer texts are no names of files: systems refuse to look for them."""


def _formula(source: str) -> Circuit:
    try:
        return circuit(source)
    except FormulaError:
        if len(source) < MAX_FILE_NAME and Path(source).is_file():
            raise Failure(
                f"{source} is a file, but its name does not end in {listed(ENDINGS)}; give it as - < {source}"
            ) from None
        raise


def _in_file(path: str, form: str) -> tuple[Circuit, str]:
    try:
        if not Path(path).exists():
            raise click.UsageError(
                f"there is no file {path}; wanted a formula, a circuit file ({listed(ENDINGS)}) or FILE.py:FUNCTION"
            )
        if form == ARCHIVE:
            return load(path), form
        data = content(Path(path), MAX_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, WiregradError):
            raise
        raise Failure(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if form == TEXT:
        form = JSON if is_json(data) else _form_of_text(_text(data, path))
    return _parsed(data, form, path), form


def _stdin() -> bytes:
    if sys.stdin is None:
        raise Failure("cannot read stdin: it is closed")
    # One byte more than is allowed shows that there is too much.
    read = sys.stdin.buffer.read if hasattr(sys.stdin, "buffer") else lambda most: sys.stdin.read(most).encode()
    data: bytes = read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise Failure(f"cannot read stdin: it has more than {MAX_FILE:,} bytes")
    return data


def _form_of(data: bytes) -> str:
    """Return the form that data from stdin has."""
    if data[8:9] == b"{" and data[4:8] == bytes(4):
        return ARCHIVE
    return JSON if is_json(data) else _form_of_text(data.decode("utf-8", "replace"))


def _form_of_text(text: str) -> str:
    return TEXT if _TEXT.search(text) else FORMULA


def _parsed(data: bytes, form: str, where: str) -> Circuit:
    """Read data of a form; what is wrong with it is said with where it came from."""
    try:
        if form == ARCHIVE:
            return Circuit(unpacked(data).columns)
        if form == JSON:
            return Circuit.from_json(data)
        text = _text(data, where)
        return circuit(text) if form == FORMULA else Circuit.from_text(text)
    except FormulaError as error:
        circuits = "no line begins with circuit, input or output, as in the text form of one, and it is no formula"
        raise Failure(f"cannot read {where} as a circuit: {circuits}: {error}") from None
    except WiregradError as error:
        raise Failure(f"cannot read {where} as a circuit: {error}") from None


def _text(data: bytes, where: str) -> str:
    try:
        # Editors and shells of some systems put a mark before a text, and carriage returns into it.
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Failure(f"cannot read {where}: it is not utf-8 text") from None


def write(output: str, data: bytes) -> None:
    """Write to stdout, or a file: whole or not at all."""
    if output == STDIO:
        click.echo(data, nl=False)
        return
    replace(Path(output), [memoryview(data)])
    click.echo(f"wrote {output}", err=True)


def as_lines(text: str) -> bytes:
    """Return a text as the bytes of a file: UTF-8, with an end to its last line."""
    return (text if text.endswith("\n") else f"{text}\n").encode()
