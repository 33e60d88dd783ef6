"""Run benchmarks by name, print their tables, and write their figures as JSON."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from benchmarks import measure

HELPERS = {"__main__", "measure"}
NAMES = sorted(module.name for module in iter_modules([str(Path(__file__).parent)]) if module.name not in HELPERS)


def main(wanted: list[str]) -> int:
    """Run the wanted benchmarks, or all; returns how many could not be run."""
    unknown = [name for name in wanted if name not in NAMES]
    if unknown:
        print(f"there is no benchmark called {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return len(unknown)
    return sum(not run(name) for name in wanted or NAMES)


def run(name: str) -> bool:
    """Run one benchmark; returns whether the packages it needs are there."""
    try:
        module = import_module(f"benchmarks.{name}")
    except ModuleNotFoundError as error:
        print(f"{name} needs {error.name}, which is not installed here", file=sys.stderr)
        return False
    report: measure.Report = module.run()
    print(f"## {name}\n\n{report.text()}\n", flush=True)
    measure.save(name, report)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
