"""The commands about this machine and its shell: `doctor`, `bench` and `completion`.

What they measure is imported when they run, so that the other commands start quickly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from wiregrad.cli.circuit_files import encode_lines, write_output
from wiregrad.cli.command_base import ANSWER_SCHEMA, json_option, no_color_option, print_answer
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad.cli import bench, machine_health
else:
    machine_health = load_module_lazily("wiregrad.cli.machine_health")
    bench = load_module_lazily("wiregrad.cli.bench")

SHELL_COMPLETERS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}

COMPLETION_VARIABLE = "_WIREGRAD_COMPLETE"
"""The environment variable in which the script passes its request."""


@click.command("completion", short_help="Print a script that completes commands, options and files.")
@click.argument("shell", type=click.Choice(list(SHELL_COMPLETERS)))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete commands, options and files.

    \b
    Example: wiregrad completion bash

    \b
    To keep it:
      bash  wiregrad completion bash >> ~/.bashrc
      zsh   wiregrad completion zsh >> ~/.zshrc
      fish  wiregrad completion fish > ~/.config/fish/completions/wiregrad.fish
    """
    root = context.find_root().command
    click.echo(SHELL_COMPLETERS[shell](root, {}, "wiregrad", COMPLETION_VARIABLE).source())


BENCH_SIZES = ("quick", "full", "tiny")
BENCH_PARTS = ("compile", "point", "batch", "call", "memory")
BENCH_ENDINGS = (".md", ".json")


@click.command(
    "bench",
    short_help="Measure native code beside the interpreter, plain Python, C and LLVM.",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Option(
            ["--size"],
            type=click.Choice(BENCH_SIZES),
            default="quick",
            show_default=True,
            help="How large the workloads are: full takes many minutes, tiny only shows that all of it runs.",
        ),
        click.Option(
            ["--part", "parts"], type=click.Choice(BENCH_PARTS), multiple=True, help="Measure some of it only."
        ),
        click.Option(
            ["-o", "--output", "outputs"], multiple=True, metavar="FILE", help="Write a file instead: .md, .json."
        ),
        json_option(),
        no_color_option(),
    ],
)
def bench_command(size: str, parts: tuple[str, ...], outputs: tuple[str, ...], document: bool) -> None:
    """Measure native code beside the interpreter, plain Python, C and LLVM.

    All of them get the same circuits, must give the same answers before anything is timed, and take turns in one
    process. Times are medians. The tables say what was wanted and whether it was found, and name what is missing here,
    such as a C compiler. Other frameworks are compared by `make bench` in a clone.

    \b
    Example: wiregrad bench --size tiny
    """
    wrong = [name for name in outputs if Path(name).suffix not in BENCH_ENDINGS]
    if wrong:
        raise click.UsageError(f"the name {wrong[0]!r} does not say the form; wanted a file that ends in .md or .json")
    report = bench.run_suite(
        {"quick": bench.QUICK_SIZES, "full": bench.FULL_SIZES, "tiny": bench.TINY_SIZES}[size], parts=parts
    )
    as_json = json.dumps({"schema": ANSWER_SCHEMA, **report.to_document()}, indent=2)
    for name in outputs:
        text = as_json if name.endswith(".json") else report.to_markdown()
        write_output(name, encode_lines(text.rstrip()))
    if document or not outputs:
        click.echo(as_json if document else report.to_markdown())


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
    print_answer("doctor", machine_health.examine_machine(), document, has_problem=False)
