"""Print which share of the branches of each room the tests take, and fail below a bound; for `make coverage`.

coverage json -o FILE; python tools/branch_coverage.py FILE 95
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path


def main(file: str, percent: str) -> int:
    """Print the shares; return 1 if that of all rooms together is below the bound."""
    report = json.loads(Path(file).read_text(encoding="utf-8"))
    taken = Counter[str]()
    total = Counter[str]()
    for name, entry in report["files"].items():
        room = Path(name).parts[2]
        for key in (room, "together"):
            taken[key] += entry["summary"]["covered_branches"]
            total[key] += entry["summary"]["num_branches"]
    for room in total:
        share = 100 * taken[room] / total[room]
        sys.stdout.write(f"{room:10} {taken[room]:6,} of {total[room]:6,} branches, {share:.1f} percent\n")
    return 100 * taken["together"] < float(percent) * total["together"]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
