"""`wiregrad doctor`: reports what this machine has for native code."""

from __future__ import annotations

import click

from wiregrad.cli.common import json_option, no_color_option, print_answer


@click.command(
    "doctor",
    short_help="Say what this machine has for native code, and what is missing.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[json_option(), no_color_option()],
)
def doctor_command(document: bool) -> None:
    """Say what this machine has for native code, and what is missing.

    Everything is tried: memory is made executable, and a circuit compiled and compared. Without native code the
    interpreter answers, so the exit code is 0 either way.

    \b
    Example: wiregrad doctor
    """
    from wiregrad.cli.health import examine_machine  # noqa: PLC0415 - only this command pays for native code

    print_answer("doctor", examine_machine(), document, has_problem=False)
