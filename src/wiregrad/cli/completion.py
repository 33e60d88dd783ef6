"""`wiregrad completion`: prints the script that lets a shell complete commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

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
