"""The `wiregrad` command.

Results go to stdout, everything else to stderr. Exit codes: 0 fine, 1 something was found or does not hold, 2 wrong
usage, 3 what was asked about cannot be read, run or written, 130 interrupted; 141 if the reader of the output went
away, which shells say of any program.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

import click
from click.shell_completion import shell_complete

from wiregrad import __version__
from wiregrad.cli.bench import bench
from wiregrad.cli.check import check
from wiregrad.cli.code import code
from wiregrad.cli.common import no_color
from wiregrad.cli.completion import VARIABLE, completion
from wiregrad.cli.convert import convert
from wiregrad.cli.doctor import doctor
from wiregrad.cli.draw import draw
from wiregrad.cli.explore import explore
from wiregrad.cli.failure import UNREADABLE, shortened, visible
from wiregrad.cli.grad import grad
from wiregrad.cli.questions import QUESTIONS, blame
from wiregrad.cli.receipt import receipt
from wiregrad.errors import InputError, SettingError, WiregradError
from wiregrad.settings import check_settings

USAGE, INTERRUPTED, UNHEARD = 2, 130, 141

HELP = """Autodiff you can see through.

\b
Example: wiregrad grad "e = a + b; f = e * c" a=2 b=-3 c=10
"""
CODES = """\b
Exit codes:
  0    fine
  1    found: something non-finite (blame), a wrong rule (check), code that
       differs (receipt)
  2    wrong usage, such as a value that is missing
  3    what was asked about cannot be read, run or written
  130  interrupted

Results go to stdout, everything else to stderr.
"""


@click.pass_context
def _begin(context: click.Context) -> None:
    """Check the environment before any command, but for the one that tells what is wrong with it."""
    if context.invoked_subcommand != doctor.name:
        check_settings()


cli = click.Group(
    "wiregrad",
    callback=_begin,
    commands=[
        grad,
        explore,
        blame,
        *(question.command() for question in QUESTIONS),
        check,
        draw,
        code,
        convert,
        receipt,
        doctor,
        bench,
        completion,
    ],
    params=[no_color()],
    help=HELP,
    epilog=CODES,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
click.version_option(__version__, prog_name="wiregrad")(cli)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return (or exit with) its code."""
    # Python has None for a stream that was closed before it began.
    # An answer must not vanish in silence, but there is no place left to say that a message did.
    sys.stdout = _buffered(sys.stdout or _unwritable())
    sys.stderr = _buffered(sys.stderr or _nowhere())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names and table lines that the terminal's encoding lacks are escaped, not a crash.
            stream.reconfigure(errors="backslashreplace")
    code = _code(args)
    if args is None:
        _drop_what_cannot_be_written()
        sys.exit(code)
    return code


def _buffered(stream: TextIO) -> TextIO:
    """Return a stream that writes all it is given; one without a buffer drops what does not fit into a pipe at once."""
    # PYTHONUNBUFFERED has Python make such streams.
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, write_through=True)


def _unwritable() -> TextIO:
    """Return a stream that refuses what is written, as the closed one would."""
    return open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _code(args: Sequence[str] | None) -> int:
    """Run the command; everything that goes wrong becomes a message and a code."""
    code = 0
    try:
        _invoke(sys.argv[1:] if args is None else list(args))
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as error:
        told = io.StringIO()
        error.show(told)
        code = _tell(shortened(told.getvalue().rstrip("\n")), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _tell("interrupted", INTERRUPTED)
    except WiregradError as error:
        code = _tell(
            f"wiregrad: {shortened(visible(str(error)))}",
            USAGE if isinstance(error, InputError | SettingError) else UNREADABLE,
        )
    except BrokenPipeError:
        code = UNHEARD
    except OSError as error:
        code = _tell(f"wiregrad: cannot write the answer: {error.strerror}", UNREADABLE)
    except Exception:
        code = _tell(f"{traceback.format_exc()}wiregrad: this is a mistake in wiregrad, please report it", UNREADABLE)
    return code


def _invoke(args: list[str]) -> None:
    """Run the command, or answer a shell that completes a line. click's own `main` would hide a broken pipe."""
    instruction = os.environ.get(VARIABLE)
    if instruction:
        raise click.exceptions.Exit(shell_complete(cli, {}, "wiregrad", VARIABLE, instruction))
    with cli.make_context("wiregrad", args) as context:
        cli.invoke(context)


def _tell(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(message, err=True)
    return code


def _drop_what_cannot_be_written() -> None:
    """Keep Python from complaining, after all is said, of text that stdout would not take."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
