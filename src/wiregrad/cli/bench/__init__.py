"""What `wiregrad bench` measures: native code beside the interpreter, plain Python, C and LLVM, on the same circuits.

This module is the suite: the parts of the command, the targets, one table per workload with targets and results, and
all of it as Markdown and JSON. `race` makes the circuits, lets entrants take turns once their answers agree, and has
those that need no other framework. Callers may add entrants of other frameworks, as the repository's `benchmarks` do;
these are not installed with wiregrad. The targets for wiregrad are written here, once, whoever takes part; the tables
name the entrants that are missing.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

import numpy as np

from wiregrad.backends.native.tiers import build_program
from wiregrad.backends.run_listings import find_c_compiler
from wiregrad.cli.bench import race
from wiregrad.cli.bench.race import (
    DEFAULT_TURNS,
    FLAT_C_NAME,
    LLVM_NAME,
    LLVM_TIER_NAME,
    MAX_ENTRANT_SECONDS,
    MIN_TURN_SECONDS,
    SIMD_C_NAME,
    TWO_THREADS_NAME,
    WIREGRAD_NAME,
    RaceEntrant,
    RaceResult,
    RaceVerdict,
    SpeedTarget,
    Workload,
    format_ratio,
    mechanics_workloads,
    random_workload,
    run_race,
    take_turns,
)
from wiregrad.errors import NotNativeError

MAX_COMPILE_GROWTH = 13.0
"""Target: compiling ten times the nodes takes at most this many times longer."""
MAX_SECONDS_PER_NODE = 1e-6
"""Target: compile time per node, in seconds, of a circuit of 100,000 nodes."""
MAX_SECONDS_PER_CALL = 2e-6
"""Target: time of one gradient of ten nodes, called from Python, in seconds."""
WORKLOAD_SEED = 1


class RaceOptions(TypedDict):
    """How long a race lasts: keyword arguments of `run_race`."""

    turns: int
    least: float
    patience: float


@dataclass(frozen=True)
class WorkloadSizes:
    """The sizes of the workloads, and how long races last."""

    compile: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000)
    point: Sequence[int] = (100, 1_000, 10_000, 100_000)
    batch: Sequence[tuple[int, int]] = ((10_000, 100), (1_000_000, 100), (10_000, 1_000), (1_000_000, 1_000))
    """Points and nodes."""
    call: int = 10
    bodies: int = 5
    steps: int = 3
    """Of the workloads of mechanics."""
    turns: int = DEFAULT_TURNS
    least: float = MIN_TURN_SECONDS
    patience: float = MAX_ENTRANT_SECONDS

    def race_options(self) -> RaceOptions:
        """Return the options of `run_race` that say how long it lasts."""
        return {"turns": self.turns, "least": self.least, "patience": self.patience}


FULL_SIZES = WorkloadSizes()
QUICK_SIZES = WorkloadSizes((1_000, 10_000), (100, 1_000), ((10_000, 100),), patience=10.0)
TINY_SIZES = WorkloadSizes((20, 40), (20,), ((16, 20),), bodies=2, steps=1, turns=1, least=0.0)
"""Sizes for a test that everything runs."""


@dataclass(frozen=True)
class PeerEntrants:
    """Entrants of other frameworks, by race."""

    compile: Sequence[RaceEntrant] = ()
    point: Sequence[RaceEntrant] = ()
    batch: Sequence[RaceEntrant] = ()
    call: Sequence[RaceEntrant] = ()


@dataclass(frozen=True)
class SuiteSection:
    """Races of one kind, with a paragraph about how they were run."""

    title: str
    about: str
    results: Sequence[RaceResult]


@dataclass(frozen=True)
class SuiteReport:
    """All results, and the machine they were measured on."""

    machine: Mapping[str, str]
    sections: Sequence[SuiteSection] = field(default_factory=list)

    def list_verdicts(self) -> Iterator[tuple[str, RaceVerdict]]:
        """Return all verdicts with the titles of their tables."""
        for section in self.sections:
            for result in section.results:
                yield from ((result.title, verdict) for verdict in result.verdicts)

    def to_markdown(self) -> str:
        """Return the report as Markdown: the verdicts first, then every table."""
        lines = [
            "## Wanted and found",
            "",
            *_write_table(["workload", *VERDICT_HEAD], self._verdict_rows()),
            "",
            "## Measured on",
            "",
        ]
        lines += [f"- {name}: {value}" for name, value in self.machine.items()]
        for section in self.sections:
            lines += ["", f"## {section.title}", "", section.about]
            for result in section.results:
                lines += ["", f"### {result.title}", "", *write_result_tables(result)]
        return "\n".join(lines) + "\n"

    def to_document(self) -> dict[str, object]:
        """Return the report as a JSON document, with the time of every turn."""
        return asdict(self)

    def _verdict_rows(self) -> list[list[str]]:
        return [[title, *_verdict_cells(verdict)] for title, verdict in self.list_verdicts()]


VERDICT_HEAD = ["wanted", "found", "verdict"]


def write_result_tables(result: RaceResult) -> list[str]:
    """Return the table of a race and the table of its verdicts, as lines of Markdown."""
    head = ["who", "time", "per node and point", "of wiregrad's time", "quartiles", "turns"]
    order = sorted(result.times, key=result.median_seconds)
    rows = [_entrant_row(result, name) for name in order]
    rows += [[name, "not run", reason, "", "", ""] for name, reason in result.missing.items()]
    wanted = [_verdict_cells(verdict) for verdict in result.verdicts]
    tables = [_write_table(cells, lines) for cells, lines in ((head, rows), (VERDICT_HEAD, wanted)) if lines]
    return [line for table in tables for line in (*table, "")][:-1]


def _entrant_row(result: RaceResult, name: str) -> list[str]:
    times = result.times[name]
    low, high = np.quantile(times, [0.25, 0.75])
    relative = format_ratio(result.median_ratio(name, WIREGRAD_NAME)) if WIREGRAD_NAME in result.times else ""
    each = format_duration(result.median_seconds(name) / result.work) if result.work else ""
    spread = f"{low / result.median_seconds(name):.2f} to {high / result.median_seconds(name):.2f}"
    return [name, format_duration(result.median_seconds(name)), each, relative, spread, str(len(times))]


def _verdict_cells(verdict: RaceVerdict) -> list[str]:
    return [verdict.wanted, verdict.found, verdict.word]


def _write_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def format_duration(seconds: float) -> str:
    """Format a time with a suitable unit.

    >>> format_duration(0.0123), format_duration(4.5e-6), format_duration(1.1e-9)
    ('12.3 ms', '4.5 us', '1.1 ns')
    """
    for unit, size in {"s": 1.0, "ms": 1e-3, "us": 1e-6}.items():
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def run_suite(
    sizes: WorkloadSizes = FULL_SIZES,
    peers: PeerEntrants | None = None,
    parts: Sequence[str] = (),
    on_part: Callable[[SuiteReport], object] = lambda suite: None,
) -> SuiteReport:
    """Run all parts of the suite, or some; `on_part` is called with the results so far after each part.

    >>> print(*SUITE_PARTS)
    compile point batch call memory
    """
    report = SuiteReport(describe_machine())
    for part in parts or SUITE_PARTS:
        report = SuiteReport(report.machine, [*report.sections, SUITE_PARTS[part](sizes, peers or PeerEntrants())])
        on_part(report)
    return report


@lru_cache(maxsize=8)
def _random_workload(nodes: int) -> Workload:
    return random_workload(nodes, WORKLOAD_SEED)


def _measure_compile(sizes: WorkloadSizes, peers: PeerEntrants) -> SuiteSection:
    results: list[RaceResult] = []
    cold = _time_stencils(_random_workload(sizes.compile[0]))
    for nodes in sizes.compile:
        workload = _random_workload(nodes)
        result = run_race(
            f"Compile {workload.name}",
            workload,
            workload.draw_points(1),
            [*race.COMPILE_ENTRANTS, *peers.compile],
            **sizes.race_options(),
        )
        results.append(result.with_verdicts(*_compile_targets(nodes, result)))
    if all(WIREGRAD_NAME in result.times for result in results):
        results.append(_measure_growth(sizes))
    return SuiteSection(
        "Compile",
        "From a circuit to code that gives its value and gradient. wiregrad's stencils are there already: those of "
        f"this circuit are made once in a process, which took {format_duration(cold)}. Of gcc and LLVM "
        "only the compiler is timed, not the writing of the text.",
        results,
    )


def _compile_targets(nodes: int, result: RaceResult) -> list[SpeedTarget | RaceVerdict]:
    wants = list[SpeedTarget | RaceVerdict]()
    if nodes == 1_000:
        wants.append(SpeedTarget(WIREGRAD_NAME, "jax.jit", 5_000.0))
    if nodes == 10_000:
        wants += [SpeedTarget(WIREGRAD_NAME, FLAT_C_NAME, 300.0), SpeedTarget(WIREGRAD_NAME, LLVM_NAME, 300.0)]
    if WIREGRAD_NAME not in result.times:
        return wants
    if nodes == 100_000:
        each = result.median_seconds(WIREGRAD_NAME) / result.work
        wants.append(
            RaceVerdict(
                f"{WIREGRAD_NAME} under {format_duration(MAX_SECONDS_PER_NODE)} per node",
                format_duration(each),
                each < MAX_SECONDS_PER_NODE,
            )
        )
    return wants


def _measure_growth(sizes: WorkloadSizes) -> RaceResult:
    """Compile circuits of all sizes in turns, so that the load of the machine affects all of them alike."""
    workloads = {
        f"{WIREGRAD_NAME}, {_random_workload(nodes).nodes:,} nodes": _random_workload(nodes) for nodes in sizes.compile
    }
    tasks = {name: race.prepare_compile(workload, workload.draw_points(1)) for name, workload in workloads.items()}
    result = take_turns("Compile, size by size", tasks, **sizes.race_options())
    verdicts = list[RaceVerdict]()
    for small, large in pairwise(workloads):
        # Circuits have a few more nodes than requested.
        growth = 10.0 * result.median_ratio(large, small) * workloads[small].nodes / workloads[large].nodes
        wanted = f"10x the nodes of {workloads[small].nodes:,} within {MAX_COMPILE_GROWTH:g}x the time"
        verdicts.append(RaceVerdict(wanted, format_ratio(growth), growth <= MAX_COMPILE_GROWTH))
    return result.with_verdicts(*verdicts)


def _time_stencils(workload: Workload) -> float:
    """Return the time it takes to make those stencils of a circuit that do not exist yet, in seconds."""
    try:
        return build_program(workload.circuit, 0).stencil_seconds
    except NotNativeError:
        return math.nan


def _measure_points(sizes: WorkloadSizes, peers: PeerEntrants) -> SuiteSection:
    results = list[RaceResult]()
    for workload in [*map(_random_workload, sizes.point), *mechanics_workloads(sizes.bodies, sizes.steps)]:
        result = run_race(
            workload.name,
            workload,
            workload.draw_points(1),
            [*race.POINT_ENTRANTS, *peers.point],
            **sizes.race_options(),
        )
        results.append(result.with_verdicts(*_point_targets(workload)))
    return SuiteSection(
        "Value and gradient at one point",
        "Runs are repeated in native code, so no call from Python is measured, but for plain Python, micrograd, CasADi "
        "(its buffer is triggered from Python) and `jax.jit`. Flat C is `circuit.to_c()`, with "
        f"`{' '.join(race.FLAT_FLAGS[:-1])}`; LLVM has the whole circuit in one function, written without the "
        "conditions with which wiregrad keeps absent gradients absent.",
        results,
    )


def _point_targets(workload: Workload) -> list[SpeedTarget]:
    nodes = workload.nodes
    wants: list[SpeedTarget] = []
    if nodes <= 20_000:
        wants += [SpeedTarget(WIREGRAD_NAME, FLAT_C_NAME, 1 / 1.5), SpeedTarget(LLVM_TIER_NAME, FLAT_C_NAME, 1 / 1.1)]
    if nodes >= 800:
        wants.append(SpeedTarget(WIREGRAD_NAME, "CasADi SX", 3.5))
    if nodes <= 20_000:
        wants.append(SpeedTarget(WIREGRAD_NAME, "micrograd", 1_000.0))
    return wants


def _measure_batches(sizes: WorkloadSizes, peers: PeerEntrants) -> SuiteSection:
    results = list[RaceResult]()
    for count, nodes in sizes.batch:
        workload = _random_workload(nodes)
        result = run_race(
            f"{count:,} points, {workload.name}",
            workload,
            workload.draw_points(count),
            [*race.BATCH_ENTRANTS, *peers.batch],
            **sizes.race_options(),
        )
        frameworks = ("jax.jit", "PyTorch")
        best = min(
            (name for name in frameworks if name in result.times), key=result.median_seconds, default=frameworks[0]
        )
        wants = [
            SpeedTarget(WIREGRAD_NAME, SIMD_C_NAME, 1 / 1.3),
            SpeedTarget(WIREGRAD_NAME, best, 1.5),
            SpeedTarget(TWO_THREADS_NAME, WIREGRAD_NAME, 1.7),
        ]
        results.append(result.with_verdicts(*wants))
    return SuiteSection(
        "Batches",
        "Value and gradient at every point, in one thread if nothing else is said. C in vectors is the circuit in one "
        f"loop over points, with `{' '.join(race.SIMD_FLAGS)}`: its vector functions are those of libmvec, its "
        "points are columns, while wiregrad's are rows, and with -ffast-math it may reorder sums. With two "
        "threads it shows what the machine gives two threads: half of the points each, into memory that is there.",
        results,
    )


def _measure_calls(sizes: WorkloadSizes, peers: PeerEntrants) -> SuiteSection:
    workload = _random_workload(sizes.call)
    result = run_race(
        f"One gradient of {workload.name}",
        workload,
        workload.draw_points(1),
        [*race.CALL_ENTRANTS, *peers.call],
        **sizes.race_options(),
    )
    wants: list[SpeedTarget | RaceVerdict] = [SpeedTarget(WIREGRAD_NAME, "jax.jit", 15.0)]
    if WIREGRAD_NAME in result.times:
        seconds = result.median_seconds(WIREGRAD_NAME)
        wants.append(
            RaceVerdict(
                f"one call within {format_duration(MAX_SECONDS_PER_CALL)}",
                format_duration(seconds),
                seconds <= MAX_SECONDS_PER_CALL,
            )
        )
    about = "The loop is Python's: `compiled.value_and_grad(x)` on a vector, beside others called as usual."
    return SuiteSection("Calls from Python", about, [result.with_verdicts(*wants)])


def _measure_memory(sizes: WorkloadSizes, peers: PeerEntrants) -> SuiteSection:
    lines = list[RaceVerdict]()
    for workload in [*map(_random_workload, sizes.point), *mechanics_workloads(sizes.bodies, sizes.steps)]:
        try:
            program = build_program(workload.circuit, 0)
        except NotNativeError as error:
            lines.append(RaceVerdict(workload.name, str(error), None))
            continue
        naive = 16 * (workload.nodes + len(workload.circuit.inputs))
        code = f"{program.code_bytes / workload.nodes:,.0f} bytes of code per node"
        wanted = f"{workload.name}: less than two numbers per node, {naive:,} bytes"
        measured = f"{program.initial.nbytes:,} bytes, {code}"
        lines.append(RaceVerdict(wanted, measured, program.initial.nbytes < naive))
    about = "The working buffer of value and gradient at one point, beside a number per node and one for its gradient."
    return SuiteSection("Memory", about, [RaceResult("Working memory", 0.0, {}, {}, lines)])


SUITE_PARTS: dict[str, Callable[[WorkloadSizes, PeerEntrants], SuiteSection]] = {
    "compile": _measure_compile,
    "point": _measure_points,
    "batch": _measure_batches,
    "call": _measure_calls,
    "memory": _measure_memory,
}


def describe_machine() -> dict[str, str]:
    """Describe this machine: processor, cores, versions of Python, compiler and packages.

    >>> describe_machine()["Python"] == platform.python_version()
    True
    """
    packages = ("numpy", "llvmlite", "casadi", "jax", "torch", "micrograd", "xad")
    compiler = find_c_compiler()
    return {
        "processor": f"{_processor_name()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "Python": platform.python_version(),
        "C compiler": "missing" if compiler is None else compiler.version,
        **{name: _package_version(name) for name in packages},
        "load when it began": " ".join(f"{load:.1f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "",
    }


def _processor_name() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    facts = dict(reversed([(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]))
    name = facts.get("model name") or platform.processor() or "unknown"
    number = f", family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return f"{name}{number}"


def _package_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
