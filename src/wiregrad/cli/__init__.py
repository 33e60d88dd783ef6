"""The `wiregrad` command: this module joins the subcommands, runs one, and turns every failure into an exit code.

Results go to stdout, everything else to stderr. Exit codes: 0 success; 1 a command found a problem or a difference; 2
wrong usage; 3 the input or output cannot be read, run or written; 4 a package that the command needs is not installed;
130 interrupted; 141 the reader of the output closed it, which is the code shells give any program.

Read `circuit_commands` first: it has the shortest commands, which ask about a circuit or write it in another form.
`page_commands` holds `explore`, `learn` and `quiz`, `environment` holds `doctor`, `bench` and `completion`, and the
package `bench` what that command measures. They share `command_base` (what FORMULA and NAME=VALUE mean, what is read
and written and what is printed if that fails, options, printing). Only `main` is called from outside.
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
from wiregrad.cli.circuit_commands import (
    RUN_QUESTIONS,
    blame_command,
    check_command,
    code_command,
    convert_command,
    draw_command,
    find_command,
    grad_command,
    receipt_command,
    run_command,
)
from wiregrad.cli.command_base import (
    DEBUG_OPTION,
    EXIT_UNREADABLE,
    ExampleCommand,
    escape_control_characters,
    shorten_words,
)
from wiregrad.cli.environment import COMPLETION_VARIABLES, bench_command, completion_command, doctor_command
from wiregrad.cli.page_commands import explore_command, learn_command, quiz_command
from wiregrad.errors import InputError, NotInstalledError, SettingError, WiregradError, short_repr, suggest_name
from wiregrad.settings import check_settings

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

PROGRAM_HELP = "Autodiff you can see through. `wg` is short for `wiregrad`; each command has its own help."
EXIT_CODE_HELP = """\b
Exit codes:
  0    success
  1    found: something non-finite (blame), a wrong rule (check), code that
       differs (receipt), an answer that is not right (quiz --answers),
       results that were changed (learn --gradebook)
  2    wrong usage, such as a value that is missing
  3    what was asked about cannot be read, run or written
  4    a package that the command needs is not installed
  130  interrupted

Results go to stdout, everything else to stderr.
"""


@click.pass_context
def _check_environment(context: click.Context) -> None:
    """Check the environment variables before any command except `doctor`, which reports what is wrong with them."""
    if context.invoked_subcommand != doctor_command.name:
        check_settings()


class ExampleGroup(ExampleCommand, click.Group):
    """A group of commands whose help begins with an example."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; say what to write if there is none."""
        word = args[0]
        if word not in self.commands and not word.startswith("-") and not ctx.resilient_parsing:
            hint = suggest_name(word, self.commands, min_letters=3) or self._advise_command(word, args[1:])
            raise click.UsageError(f"No such command {short_repr(word)}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _advise_command(self, word: str, following: Sequence[str]) -> str:
        if word == "help":
            return (
                f"; write wiregrad {following[0] if following[:1] and following[0] in self.commands else 'COMMAND'} -h"
            )
        if not word.replace("-", "").isalpha():
            # A formula or a file where a command comes first.
            return f"; a command comes first, as in wiregrad {self.example}"
        return f"; the commands are {', '.join(self.commands)}"


cli = ExampleGroup(
    "wiregrad",
    example='grad "e = a + b; f = e * c" a=2 b=-3 c=10',
    callback=_check_environment,
    commands=[
        grad_command,
        run_command,
        explore_command,
        blame_command,
        find_command,
        *(question.build_command() for question in RUN_QUESTIONS),
        check_command,
        draw_command,
        code_command,
        convert_command,
        receipt_command,
        learn_command,
        quiz_command,
        doctor_command,
        bench_command,
        completion_command,
    ],
    help=PROGRAM_HELP,
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
)
click.version_option(__version__, prog_name="wiregrad")(cli)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return (or exit with) its code."""
    # A stream that was closed before Python started is None.
    # Writing a result must then fail visibly; a message on stderr has nowhere to go.
    sys.stdout = _buffer_stream(sys.stdout or _open_unwritable())
    sys.stderr = _buffer_stream(sys.stderr or _open_null())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Characters that the terminal's encoding lacks are escaped instead of raising an error.
            stream.reconfigure(errors="backslashreplace")
    code = _run_command(args)
    if args is None:
        _drop_unwritable_output()
        sys.exit(code)
    return code


def _buffer_stream(stream: TextIO) -> TextIO:
    """Return a stream with a buffer; without one, text that does not fit into a pipe at once is lost."""
    # With PYTHONUNBUFFERED, Python makes streams without a buffer.
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=True, write_through=True)


def _open_unwritable() -> TextIO:
    """Return a stream that raises an error on writing, as the closed one would."""
    return open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def _open_null() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _run_command(args: Sequence[str] | None) -> int:
    """Run the command and return its exit code; any failure is printed as a message."""
    code = 0
    try:
        _invoke_command(sys.argv[1:] if args is None else list(args))
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)
        code = _print_error(shorten_words(message.getvalue().rstrip("\n")), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _print_error("interrupted", EXIT_INTERRUPTED)
    except WiregradError as error:
        code = _print_error(
            f"wiregrad: {shorten_words(escape_control_characters(str(error)))}", _choose_exit_code(error)
        )
    except BrokenPipeError:
        code = EXIT_BROKEN_PIPE
    except OSError as error:
        code = _print_error(f"wiregrad: cannot write the answer: {error.strerror}", EXIT_UNREADABLE)
    except Exception:
        code = _print_error(
            f"{traceback.format_exc()}wiregrad: this is a bug in wiregrad, please report it", EXIT_UNREADABLE
        )
    return code


def _choose_exit_code(error: WiregradError) -> int:
    if isinstance(error, NotInstalledError):
        return error.exit_code
    return EXIT_USAGE if isinstance(error, InputError | SettingError) else EXIT_UNREADABLE


def _invoke_command(args: list[str]) -> None:
    """Run the command, or complete a command line for a shell. click's own `main` would hide a broken pipe."""
    for program, variable in COMPLETION_VARIABLES.items():
        instruction = os.environ.get(variable)
        if instruction:
            raise click.exceptions.Exit(shell_complete(cli, {}, program, variable, instruction))
    try:
        with cli.make_context("wiregrad", args) as context:
            cli.invoke(context)
    except (click.ClickException, WiregradError, OSError) as error:
        if DEBUG_OPTION in args:
            _print_error("".join(traceback.format_exception(error)).rstrip("\n"), 0)
        raise


def _print_error(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(message, err=True)
    return code


def _drop_unwritable_output() -> None:
    """Discard text that a stream did not accept, so that Python does not report it when it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
