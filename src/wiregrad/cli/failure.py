"""How things outside of wiregrad fail: files, and the code in them. They are told without a traceback."""

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
"""The exit code where what was asked about cannot be read, run or written."""

_RECORDED = "\n  recorded at "
"""How messages of wiregrad begin to say a line."""


class Failure(click.ClickException):
    """Something outside of wiregrad failed."""

    exit_code = UNREADABLE

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        click.echo(f"wiregrad: {visible(self.message)}", file=file, err=True)


def visible(text: str) -> str:
    """Return a text with control characters, which a circuit file may hold, shown as text.

    >>> visible("red" + chr(27))
    'red\\\\x1b'
    """
    return "".join(ch if ch.isprintable() or ch == "\n" else repr(ch)[1:-1] for ch in text)


def shortened(text: str) -> str:
    """Return a message in which words that fill a screen are cut.

    >>> len(shortened("got " + "9" * 1_000_000))
    84
    """
    return re.sub(r"\S{1000,}", lambda match: match[0][:77] + "...", text)


@contextmanager
def foreign(what: str, place: str) -> Iterator[None]:
    """Run code of the user's, which begins at a place: what it prints is no result, and what it raises is told."""
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
            # Nothing of the user's was running: the mistake is wiregrad's own.
            raise
        raise Failure(f"{what} raised {named(error)}{line}") from error


def _told(error: WiregradError, place: str) -> str:
    """Return what wiregrad says of code, with the line that is to blame, or else the one where the code begins."""
    text, line = str(error), where(error)
    if line:
        return text if _RECORDED in text else text + line
    # Found after the code had run, so what stands there as its line is the command's own.
    return text.partition(_RECORDED)[0] + (f"\n  at {place}" if place else "")


def named(error: BaseException) -> str:
    """Return an error as one line: its type and message."""
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def where(error: BaseException) -> str:
    """Return the line of the user's code that raised an error, to stand behind a message; empty if there is none."""
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        return _place(error.filename, error.lineno, error.text)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    return _place(frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else ""


def _place(file: str, line: int | None, text: str | None) -> str:
    return f"\n  at {file}:{line}" + (f"\n    {text.strip()}" if text and text.strip() else "")


def _is_users(file: str) -> bool:
    return not is_own(file) and "-packages" not in file
