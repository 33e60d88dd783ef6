"""Run training examples in their full versions, and write their curves: `python tools/record_curves.py NAME...`.

An example with a curve has a function `main` that returns its losses: a dict from the title of a panel to a dict from
the name of a curve to its numbers, one for each step. What is written, docs/curves/NAME.json, is a measurement, so it
is not derived again by every `make derive`; `docs/generate.py` draws it.
"""

from __future__ import annotations

import inspect
import json
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
MAX_INTERVALS = 120
"""Maximum number of intervals of steps that a curve is summarised in."""


def record_curves(name: str) -> dict[str, Any]:
    """Run an example; returns its title, its curves and what it took."""
    example = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    main = example["main"]
    has_full_version = "full" in inspect.signature(main).parameters
    start = time.process_time()
    panels: Mapping[str, Mapping[str, Sequence[float]]] = main(full=True) if has_full_version else main()
    seconds = time.process_time() - start
    steps = max(len(numbers) for curves in panels.values() for numbers in curves.values())
    return {
        "title": example["__doc__"].partition(":")[0],
        "steps": steps,
        "processor_seconds": float(f"{seconds:.2g}"),
        "panels": {
            title: {curve: summarise_numbers(numbers, steps) for curve, numbers in curves.items()}
            for title, curves in panels.items()
        },
    }


def summarise_numbers(numbers: Sequence[float], steps: int) -> dict[str, list[float]]:
    """Return the smallest, the mean and the largest number of each interval of steps; numbers are spread evenly."""
    parts = np.array_split(np.asarray(numbers, float), min(len(numbers), MAX_INTERVALS))
    ends = np.cumsum([len(part) for part in parts]) * steps / len(numbers)
    summaries = {"steps": ends, "low": [*map(np.min, parts)], "mean": [*map(np.mean, parts)]}
    summaries["high"] = [*map(np.max, parts)]
    return {kind: [float(f"{number:.4g}") for number in row] for kind, row in summaries.items()}


def write_curves(name: str) -> None:
    """Run an example and write its curves."""
    path = ROOT / "docs" / "curves" / f"{name}.json"
    path.write_text(json.dumps(record_curves(name)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for example_name in sys.argv[1:]:
        write_curves(example_name)
