"""Reads circuits from files and stdin, writes results to files and stdout, and prints what fails there as a message.

Nothing in a circuit file is executed. A file is written completely or not at all. Failures outside wiregrad, in files
and in the user's code, are printed without a traceback (`CommandFailure`).
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import IO, Any

import click

from wiregrad.api import Circuit, load
from wiregrad.errors import FormulaError, WiregradError, is_library_file
from wiregrad.files import MAX_FILE_BYTES, decode_circuit_file, read_file_bytes, replace_file
from wiregrad.frontends.formula import parse_formula_with_notes
from wiregrad.ir.strict_json import MAX_TEXT_BYTES, is_json

EXIT_UNREADABLE = 3
"""The exit code when the input or output cannot be read, run or written."""

_RECORDED_MARK = "\n  recorded at "
"""What precedes a source location in messages of wiregrad."""


class CommandFailure(click.ClickException):
    """A file or the user's code failed."""

    exit_code = EXIT_UNREADABLE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(f"wiregrad: {escape_control_characters(self.message)}", file=file, err=True)


def escape_control_characters(text: str) -> str:
    """Escape control characters, which names in a circuit file may contain, so that they cannot act on the terminal.

    >>> escape_control_characters("red" + chr(27))
    'red\\\\x1b'
    """
    return "".join(ch if ch.isprintable() or ch == "\n" else repr(ch)[1:-1] for ch in text)


def shorten_words(text: str) -> str:
    """Shorten words of 1,000 characters or more in a message.

    >>> len(shorten_words("got " + "9" * 1_000_000))
    84
    """
    return re.sub(r"\S{1000,}", lambda match: match[0][:77] + "...", text)


@contextmanager
def run_user_code(what: str, place: str) -> Iterator[None]:
    """Run the user's code, which begins at `place`: its prints go to stderr, its errors become command failures."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except click.ClickException:
        raise
    except WiregradError as error:
        raise CommandFailure(_add_user_line(error, place)) from error
    except (Exception, SystemExit) as error:
        line = locate_error(error)
        if not line:
            # No line of the user's code was running, so this is a bug in wiregrad.
            raise
        raise CommandFailure(f"{what} raised {format_error(error)}{line}") from error


def _add_user_line(error: WiregradError, place: str) -> str:
    """Return the message of an error with the user's line that caused it, or else the line where their code begins."""
    text = str(error)
    line = locate_error(error)
    if line:
        return text if _RECORDED_MARK in text else text + line
    # The error arose after the user's code had run, so the location in its message is a line of this command.
    return text.partition(_RECORDED_MARK)[0] + (f"\n  at {place}" if place else "")


def format_error(error: BaseException) -> str:
    """Format an error on one line: its type and message."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def locate_error(error: BaseException) -> str:
    """Format the line of the user's code that raised an error as a suffix of a message; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return _format_line(error.filename, error.lineno, error.text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_file(frame.filename)]
    return _format_line(frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else ""


def _format_line(file: str, line: int | None, text: str | None) -> str:
    return f"\n  at {file}:{line}" + (f"\n    {text.strip()}" if text and text.strip() else "")


def _is_user_file(file: str) -> bool:
    return not is_library_file(file) and "-packages" not in file


STDIO = "-"
"""The file name that means stdin or stdout."""
FORMULA_FORM = "formula"
TEXT_FORM = "text"
JSON_FORM = "json"
ARCHIVE_FORM = "wg"
CIRCUIT_FORMS = (TEXT_FORM, JSON_FORM, ARCHIVE_FORM)
"""The forms that store everything of a circuit."""
FORM_ENDINGS = {".wg": ARCHIVE_FORM, ".json": JSON_FORM, ".txt": TEXT_FORM, ".circuit": TEXT_FORM}
"""The form of a circuit file, by the ending of its name."""

# In a formula, no line begins with one of these words followed by a name.
_TEXT_FORM_LINE = re.compile(r"^[ \t]*(circuit|input|output)[ \t]+[\w%]", re.MULTILINE)


def file_ending(path: str) -> str:
    """Return the ending of a file name in lower case."""
    return Path(path).suffix.lower()


def join_endings(endings: Iterable[str]) -> str:
    """Join endings for a message: `.a, .b or .c`."""
    *most, last = endings
    return f"{', '.join(most)} or {last}" if most else last


def read_circuit(source: str, form: str | None = None) -> tuple[Circuit, str]:
    """Return the circuit in a formula, a circuit file or stdin, and the form that it has there.

    >>> read_circuit("a * b")
    (Circuit(2 inputs, 1 node, 0 splitters, output f), 'formula')
    """
    if source == STDIO:
        data = _read_stdin()
        form = form or _detect_form(data)
        return _parse_circuit(data, form, "stdin"), form
    if form is not None and not Path(source).exists():
        raise click.UsageError(f"there is no file {source}; --from is the form of a file or of stdin, not of a formula")
    form = form or (FORM_ENDINGS.get(file_ending(source)) if "\n" not in source else None)
    return (_read_formula(source), FORMULA_FORM) if form is None else _read_file(source, form)


MAX_FILE_NAME = 250
"""Longer texts are not looked up as file names: systems refuse them."""


def parse_noted_formula(text: str) -> Circuit:
    """Return the circuit of a formula; what its writer may not have meant is noted on stderr.

    >>> parse_noted_formula("2x")
    Circuit(1 input, 1 node, 0 splitters, output f)
    """
    graph, notes = parse_formula_with_notes(text)
    for note in notes:
        click.echo(f"note: {note.message}", err=True)
    return Circuit(graph.columns)


def _read_formula(source: str) -> Circuit:
    try:
        return parse_noted_formula(source)
    except FormulaError:
        if len(source) < MAX_FILE_NAME and Path(source).is_file():
            endings = join_endings(FORM_ENDINGS)
            raise CommandFailure(
                f"{source} is a file, but its name does not end in {endings}; give it as - < {source}"
            ) from None
        raise


def _read_file(path: str, form: str) -> tuple[Circuit, str]:
    try:
        if not Path(path).exists():
            endings = join_endings(FORM_ENDINGS)
            raise click.UsageError(
                f"there is no file {path}; wanted a formula, a circuit file ({endings}) or FILE.py:FUNCTION"
            )
        if form == ARCHIVE_FORM:
            return load(path), form
        data = read_file_bytes(Path(path), MAX_TEXT_BYTES)
    except (OSError, ValueError) as error:
        if isinstance(error, WiregradError):
            raise
        raise CommandFailure(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    if form == TEXT_FORM:
        form = JSON_FORM if is_json(data) else _detect_text_form(_decode_text(data, path))
    return _parse_circuit(data, form, path), form


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise CommandFailure("cannot read stdin: it is closed")
    # One byte more than allowed is read, to see whether there is too much.
    read = sys.stdin.buffer.read if hasattr(sys.stdin, "buffer") else lambda most: sys.stdin.read(most).encode()
    data: bytes = read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise CommandFailure(f"cannot read stdin: it has more than {MAX_FILE_BYTES:,} bytes")
    return data


def _detect_form(data: bytes) -> str:
    """Detect the form of data from stdin."""
    if data[8:9] == b"{" and data[4:8] == bytes(4):
        return ARCHIVE_FORM
    return JSON_FORM if is_json(data) else _detect_text_form(data.decode("utf-8", "replace"))


def _detect_text_form(text: str) -> str:
    return TEXT_FORM if _TEXT_FORM_LINE.search(text) else FORMULA_FORM


def _parse_circuit(data: bytes, form: str, where: str) -> Circuit:
    """Parse data in the given form; errors name the file it came from."""
    try:
        if form == ARCHIVE_FORM:
            return Circuit(decode_circuit_file(data).columns)
        if form == JSON_FORM:
            return Circuit.from_json(data)
        text = _decode_text(data, where)
        return parse_noted_formula(text) if form == FORMULA_FORM else Circuit.from_text(text)
    except FormulaError as error:
        reason = "no line begins with circuit, input or output, as the text form has, and it is not a formula either"
        raise CommandFailure(f"cannot read {where} as a circuit: {reason}: {error}") from None
    except WiregradError as error:
        raise CommandFailure(f"cannot read {where} as a circuit: {error}") from None


def _decode_text(data: bytes, where: str) -> str:
    try:
        # Files from Windows may begin with a byte order mark and end lines with carriage returns.
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise CommandFailure(f"cannot read {where}: it is not utf-8 text") from None


def write_output(output: str, data: bytes) -> None:
    """Write to stdout or to a file, the latter completely or not at all."""
    if output == STDIO:
        click.echo(data, nl=False)
        return
    replace_file(Path(output), [memoryview(data)])
    click.echo(f"wrote {output}", err=True)


def encode_lines(text: str) -> bytes:
    """Encode a text for a file: UTF-8, with a newline at the end."""
    return (text if text.endswith("\n") else f"{text}\n").encode()
