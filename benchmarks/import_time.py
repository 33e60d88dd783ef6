"""How much longer `import wiregrad` takes than `import numpy`, which it needs anyway.

Each measurement is a fresh interpreter that times its own import; the two take turns. Both find their bytecode ready,
as after an installation, whatever state the working tree is in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

from benchmarks.measure import Report, Table, interleaved, milliseconds

REPEATS = 25
TARGET = 0.030


def import_seconds(module: str, bytecode: str) -> float:
    """Return how long a fresh interpreter takes to import a module, with its bytecode kept in a folder."""
    code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)


def measure() -> dict[str, float]:
    """Return the median import time of both modules."""
    with TemporaryDirectory() as bytecode:
        tasks = {name: lambda name=name: import_seconds(name, bytecode) for name in ("numpy", "wiregrad")}
        interleaved(tasks, 2)
        return interleaved(tasks, REPEATS)


def run() -> Report:
    """Measure both imports."""
    found = measure()
    more, ratio = found["wiregrad"] - found["numpy"], found["wiregrad"] / found["numpy"]
    table = Table(
        f"Median of {REPEATS} fresh interpreters each, taking turns.",
        ["import numpy", "import wiregrad", "difference", "ratio", "target"],
        [[*map(milliseconds, (*found.values(), more)), f"{ratio:.2f}", f"at most {milliseconds(TARGET)} more"]],
    )
    return Report([table], {**found, "difference": more, "ratio": ratio})
