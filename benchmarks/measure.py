"""Interleaved timing, Markdown tables and JSON files, shared by all benchmarks."""

from __future__ import annotations

import gc
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

VALUE_PARTS = ("graphs", "traces", "memory")
"""The parts of the benchmark of values; named here, because that module imports other frameworks."""
RESULTS = Path(__file__).parent / "results"
SHORTEST_TURN = 0.02
"""How long a turn of two tasks that are compared takes at least, in seconds; a short task is called several times."""

Task = Callable[[], object]


@dataclass
class Table:
    """A table with a sentence that says what it shows."""

    title: str
    head: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)

    def text(self) -> str:
        """Return the table as Markdown."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join([self.title, "", *(f"| {' | '.join(line)} |" for line in lines)])


@dataclass
class Text:
    """Tables that are written already."""

    title: str

    def text(self) -> str:
        """Return the text."""
        return self.title.rstrip()


@dataclass
class Report:
    """What a benchmark found: tables for people, figures for programs."""

    tables: list[Table] | list[Text]
    figures: dict[str, Any]

    def text(self) -> str:
        """Return all tables as Markdown."""
        return "\n\n".join(table.text() for table in self.tables)


def seconds(task: Callable[[], object]) -> float:
    """Return how long one call takes, with no collection in between."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        task()
        return time.perf_counter() - start
    finally:
        gc.enable()


def interleaved(tasks: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """Return the median of what each task measures; tasks take turns, so that a slow minute slows all of them."""
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            found[name].append(task())
    return {name: statistics.median(times) for name, times in found.items()}


def measure_pairs(tasks: tuple[Task, Task], repeats: int) -> list[tuple[float, float]]:
    """Return the times of neighbouring measurements; which of both comes first alternates."""
    calls = 1 + int(SHORTEST_TURN / min(time_calls(task, 1) for task in tasks))
    pairs = []
    for k in range(repeats):
        order = (0, 1) if k % 2 == 0 else (1, 0)
        times = {which: time_calls(tasks[which], calls) for which in order}
        pairs.append((times[0], times[1]))
    return pairs


def time_calls(task: Task, calls: int) -> float:
    """Return the processor time of one call, from several in a row, with no collection in between."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        for _ in range(calls):
            task()
        return (time.process_time() - start) / calls
    finally:
        gc.enable()


def milliseconds(time: float) -> str:
    """Write a time for a table."""
    return f"{time * 1e3:,.1f} ms" if time >= 1e-4 else f"{time * 1e6:,.1f} us"


def document(report: Report) -> dict[str, Any]:
    """Return a report for programs, with the versions it was measured with."""
    versions = {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}
    return {"versions": versions, **asdict(report)}


def save(name: str, report: Report) -> None:
    """Write a report beside the benchmarks."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(document(report), indent=2) + "\n")
