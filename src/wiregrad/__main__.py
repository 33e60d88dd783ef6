"""`python -m wiregrad` is the `wiregrad` command. Without click, which it is made of, it says how to install it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from wiregrad.errors import NotInstalledError, require_package
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from wiregrad import cli
else:
    cli = load_module_lazily("wiregrad.cli")


def main() -> None:
    """Run the command and exit with its code."""
    try:
        with require_package("click", "the command wiregrad"):
            import click  # noqa: F401, PLC0415 - the command cannot be loaded without it
    except NotInstalledError as error:
        sys.exit(_report_missing(error))
    cli.main()


def _report_missing(error: NotInstalledError) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"wiregrad: {error}\n")
    return error.exit_code


if __name__ == "__main__":
    main()
