"""Print how many snippets of each theme run and agree, and what the others end with."""

from __future__ import annotations

import sys
import warnings

from . import SNIPPETS, THEMES
from .verdict import Verdict, judge


def main() -> int:
    """Print the table; returns how many snippets do not agree."""
    warnings.simplefilter("ignore")
    wanted = set(sys.argv[1:])
    verdicts = [judge(one) for one in SNIPPETS.values() if not wanted or wanted & {one.theme, one.name}]
    print("| theme | snippets | agree |\n| --- | ---: | ---: |")
    for theme in THEMES:
        print_row(theme, [one for one in verdicts if one.snippet.theme == theme])
    print_row("in all", verdicts)
    failures = [one for one in verdicts if not one.agrees]
    for verdict in failures:
        print(f"\n{verdict.snippet.theme}.{verdict.snippet.name}\n    {verdict.reason}")
    return len(failures)


def print_row(title: str, verdicts: list[Verdict]) -> None:
    """Print one row of the table."""
    if verdicts:
        print(f"| {title} | {len(verdicts)} | {sum(one.agrees for one in verdicts)} |")


if __name__ == "__main__":
    sys.exit(main() > 0)
