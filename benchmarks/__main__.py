"""Run benchmarks by name, print their tables, and write their figures as JSON.

python -m benchmarks [NAME...] [--quick] [--part PART] [-o FILE.md] [-o FILE.json]
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from benchmarks import measure
from benchmarks.training import NETWORKS
from wiregrad.cli.bench import SUITE_PARTS, describe_machine

HELPERS = {"__main__", "executors", "gpu", "measure", "peers", "training_steps"}
"""Modules that are no benchmarks in one run on this machine: helpers, and scripts with their own command line."""
NAMES = sorted(module.name for module in iter_modules([str(Path(__file__).parent)]) if module.name not in HELPERS)
PAGE = """# Benchmarks of {}

Written by `python -m benchmarks {}`; all of it by `make bench`.
Every figure is a ratio, or comes with figures of the same run: entrants take turns, and times are medians unless a
table says otherwise. A bound that was missed stays here as it is.
"""


def main(args: Sequence[str] | None = None) -> int:
    """Run the wanted benchmarks, or all; returns how many could not be run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, as ratios within one run.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="small sizes, where a benchmark has them")
    parser.add_argument(
        "--part",
        action="append",
        default=[],
        choices=[*SUITE_PARTS, *NETWORKS, *measure.VALUE_PARTS],
        help="some tables of native or values, or some networks of training only",
    )
    parser.add_argument("-o", "--output", action="append", default=[], type=Path, help="write FILE.md or FILE.json")
    chosen = parser.parse_args(args)
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark called {unknown[0]}; there are {', '.join(NAMES)}")
    odd = [path for path in chosen.output if path.suffix not in (".md", ".json")]
    if odd:
        parser.error(f"{odd[0]} ends neither in .md nor in .json")
    names = chosen.names or NAMES
    machine = describe_machine()
    reports = {
        name: report for name in names if (report := run(name, quick=chosen.quick, parts=chosen.part)) is not None
    }
    for path in chosen.output:
        written = sys.argv[1:] if args is None else args
        text = page(reports, written, machine) if path.suffix == ".md" else figures(reports)
        path.write_text(text, encoding="utf-8")
    return len(names) - len(reports)


def run(name: str, **options: Any) -> measure.Report | None:
    """Run one benchmark; returns None where the packages it needs are missing."""
    try:
        module = import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        print(f"{name} needs {error.name}, which is not installed here", file=sys.stderr)
        return None
    known = inspect.signature(module.run).parameters
    report: measure.Report = module.run(**{key: value for key, value in options.items() if key in known})
    print(f"## {name}\n\n{report.text()}\n", flush=True)
    measure.save(name, report)
    return report


def page(reports: dict[str, measure.Report], args: Sequence[str], machine: Mapping[str, str]) -> str:
    """Return a page of all tables, with the command that wrote it, the machine, and the versions of the packages."""
    tables = [f"## {name}\n\n{report.text()}\n" for name, report in reports.items()]
    facts = [f"- {name}: {fact}" for name, fact in machine.items() if fact != "missing"]
    return "\n".join([PAGE.format(", ".join(reports), " ".join(args)), "## Measured on", "", *facts, "", *tables])


def figures(reports: dict[str, measure.Report]) -> str:
    """Return all figures as JSON."""
    return json.dumps({name: measure.document(report) for name, report in reports.items()}, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
