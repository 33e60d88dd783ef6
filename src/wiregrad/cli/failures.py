"""Failures outside wiregrad, in files and in the user's code: printed as a message without a traceback."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

import click

from wiregrad.errors import WiregradError, is_library_file

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
