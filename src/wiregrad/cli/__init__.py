"""The `wiregrad` command: this module joins the subcommands, runs one, and turns every failure into an exit code.

Results go to stdout, everything else to stderr. Exit codes: 0 success; 1 a command found a problem or a difference; 2
wrong usage; 3 the input or output cannot be read, run or written; 130 interrupted; 141 the reader of the output closed
it, which is the code shells give any program.
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

USAGE = 2
INTERRUPTED = 130
UNHEARD = 141

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
    """Check the environment variables before any command except `doctor`, which reports what is wrong with them."""
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
    # A stream that was closed before Python started is None.
    # Writing a result must then fail visibly; a message on stderr has nowhere to go.
    sys.stdout = _buffered(sys.stdout or _unwritable())
    sys.stderr = _buffered(sys.stderr or _nowhere())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal's encoding lacks are escaped instead of raising an error.
            stream.reconfigure(errors="backslashreplace")
    code = _code(args)
    if args is None:
        _drop_what_cannot_be_written()
        sys.exit(code)
    return code


def _buffered(stream: TextIO) -> TextIO:
    """Return a stream with a buffer; without one, text that does not fit into a pipe at once is lost."""
    # With PYTHONUNBUFFERED, Python makes streams without a buffer.
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, write_through=True)


def _unwritable() -> TextIO:
    """Return a stream that raises an error on writing, as the closed one would."""
    return open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _code(args: Sequence[str] | None) -> int:
    """Run the command and return its exit code; any failure is printed as a message."""
    code = 0
    try:
        _invoke(sys.argv[1:] if args is None else list(args))
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        code = _tell(shortened(message.getvalue().rstrip("\n")), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _tell("interrupted", INTERRUPTED)
    except WiregradError as error:
        is_usage = isinstance(error, InputError | SettingError)
        code = _tell(f"wiregrad: {shortened(visible(str(error)))}", USAGE if is_usage else UNREADABLE)
    except BrokenPipeError:
        code = UNHEARD
    except OSError as error:
        code = _tell(f"wiregrad: cannot write the answer: {error.strerror}", UNREADABLE)
    except Exception:
        code = _tell(f"{traceback.format_exc()}wiregrad: this is a bug in wiregrad, please report it", UNREADABLE)
    return code


def _invoke(args: list[str]) -> None:
    """Run the command, or complete a command line for a shell. click's own `main` would hide a broken pipe."""
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
    """Discard text that a stream did not accept, so that Python does not report it when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
