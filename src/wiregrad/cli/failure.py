"""Failures outside wiregrad, in files and in the user's code: printed as a message without a traceback."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, Any

import click

from wiregrad.errors import WiregradError, is_own

UNREADABLE = 3
"""The exit code when the input or output cannot be read, run or written."""

_RECORDED = "\n  recorded at "
"""What precedes a source location in messages of wiregrad."""


class Failure(click.ClickException):
    """A file or the user's code failed."""

    exit_code = UNREADABLE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message."""
        click.echo(f"wiregrad: {visible(self.message)}", file=file, err=True)


def visible(text: str) -> str:
    """Escape control characters, which names in a circuit file may contain, so that they cannot act on the terminal.

    >>> visible("red" + chr(27))
    'red\\\\x1b'
    """
    return "".join(ch if ch.isprintable() or ch == "\n" else repr(ch)[1:-1] for ch in text)


def shortened(text: str) -> str:
    """Shorten words of 1,000 characters or more in a message.

    >>> len(shortened("got " + "9" * 1_000_000))
    84
    """
    return re.sub(r"\S{1000,}", lambda match: match[0][:77] + "...", text)


@contextmanager
def foreign(what: str, place: str) -> Iterator[None]:
    """Run the user's code, which begins at `place`: its prints go to stderr, its errors become command failures."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except click.ClickException:
        raise
    except WiregradError as error:
        raise Failure(_told(error, place)) from error
    except (Exception, SystemExit) as error:
        line = where(error)
        if not line:
            # No line of the user's code was running, so this is a bug in wiregrad.
            raise
        raise Failure(f"{what} raised {named(error)}{line}") from error


def _told(error: WiregradError, place: str) -> str:
    """Return the message of an error with the user's line that caused it, or else the line where their code begins."""
    text = str(error)
    line = where(error)
    if line:
        return text if _RECORDED in text else text + line
    # The error arose after the user's code had run, so the location in its message is a line of this command.
    return text.partition(_RECORDED)[0] + (f"\n  at {place}" if place else "")


def named(error: BaseException) -> str:
    """Format an error on one line: its type and message."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def where(error: BaseException) -> str:
    """Format the line of the user's code that raised an error as a suffix of a message; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return _place(error.filename, error.lineno, error.text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return _place(frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else ""


def _place(file: str, line: int | None, text: str | None) -> str:
    return f"\n  at {file}:{line}" + (f"\n    {text.strip()}" if text and text.strip() else "")


def _is_users(file: str) -> bool:
    return not is_own(file) and "-packages" not in file
