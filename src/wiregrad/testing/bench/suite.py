"""The benchmark suite: one table per workload with targets and results, and all of it as Markdown and JSON.

Callers may add entrants of other frameworks. The targets for wiregrad are written here, once, whoever takes part; the
tables name the entrants that are missing.
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
from typing import Any

import numpy as np

from wiregrad.backends.listings import c_compiler
from wiregrad.backends.native.program import build
from wiregrad.errors import NotNativeError
from wiregrad.testing.bench import entrants
from wiregrad.testing.bench.entrants import FLAT, LLVM_TIER, SIMD, STENCILS, TWO, WHOLE
from wiregrad.testing.bench.race import (
    LEAST,
    PATIENCE,
    TURNS,
    Entrant,
    Result,
    Verdict,
    Want,
    multiple,
    race,
    take_turns,
)
from wiregrad.testing.bench.workloads import Workload, bounded, mechanics

GROWTH = 13.0
"""Target: compiling ten times the nodes takes at most this many times longer."""
PER_NODE = 1e-6
"""Target: compile time per node, in seconds, of a circuit of 100,000 nodes."""
PER_CALL = 2e-6
"""Target: time of one gradient of ten nodes, called from Python, in seconds."""
SEED = 1


@dataclass(frozen=True)
class Sizes:
    """The sizes of the workloads, and how long races last."""

    compile: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000)
    point: Sequence[int] = (100, 1_000, 10_000, 100_000)
    batch: Sequence[tuple[int, int]] = ((10_000, 100), (1_000_000, 100), (10_000, 1_000), (1_000_000, 1_000))
    """Points and nodes."""
    call: int = 10
    bodies: int = 5
    steps: int = 3
    """Of the workloads of mechanics."""
    turns: int = TURNS
    least: float = LEAST
    patience: float = PATIENCE

    def pace(self) -> dict[str, Any]:
        """Return the options of `race` that say how long it lasts."""
        return {"turns": self.turns, "least": self.least, "patience": self.patience}


FULL = Sizes()
QUICK = Sizes((1_000, 10_000), (100, 1_000), ((10_000, 100),), patience=10.0)
TINY = Sizes((20, 40), (20,), ((16, 20),), bodies=2, steps=1, turns=1, least=0.0)
"""Sizes for a test that everything runs."""


@dataclass(frozen=True)
class Peers:
    """Entrants of other frameworks, by race."""

    compile: Sequence[Entrant] = ()
    point: Sequence[Entrant] = ()
    batch: Sequence[Entrant] = ()
    call: Sequence[Entrant] = ()


@dataclass(frozen=True)
class Section:
    """Races of one kind, with a paragraph about how they were run."""

    title: str
    about: str
    results: Sequence[Result]


@dataclass(frozen=True)
class Suite:
    """All results, and the machine they were measured on."""

    machine: Mapping[str, str]
    sections: Sequence[Section] = field(default_factory=list)

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Return all verdicts with the titles of their tables."""
        for section in self.sections:
            for result in section.results:
                yield from ((result.title, verdict) for verdict in result.verdicts)

    def markdown(self) -> str:
        """Return the report as Markdown: the verdicts first, then every table."""
        lines = ["## Wanted and found", "", *_table(["workload", *VERDICT], self._wanted()), "", "## Measured on", ""]
        lines += [f"- {name}: {value}" for name, value in self.machine.items()]
        for section in self.sections:
            lines += ["", f"## {section.title}", "", section.about]
            for result in section.results:
                lines += ["", f"### {result.title}", "", *rows_of(result)]
        return "\n".join(lines) + "\n"

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON document, with the time of every turn."""
        return asdict(self)

    def _wanted(self) -> list[list[str]]:
        return [[title, *_cells(verdict)] for title, verdict in self.verdicts()]


VERDICT = ["wanted", "found", "verdict"]


def rows_of(result: Result) -> list[str]:
    """Return the table of a race and the table of its verdicts, as lines of Markdown."""
    head = ["who", "time", "per node and point", "of wiregrad's time", "quartiles", "turns"]
    order = sorted(result.times, key=result.seconds)
    rows = [_row(result, name) for name in order]
    rows += [[name, "not run", reason, "", "", ""] for name, reason in result.missing.items()]
    wanted = [_cells(verdict) for verdict in result.verdicts]
    tables = [_table(cells, lines) for cells, lines in ((head, rows), (VERDICT, wanted)) if lines]
    return [line for table in tables for line in (*table, "")][:-1]


def _row(result: Result, name: str) -> list[str]:
    times = result.times[name]
    low, high = np.quantile(times, [0.25, 0.75])
    relative = multiple(result.ratio(name, STENCILS)) if STENCILS in result.times else ""
    each = duration(result.seconds(name) / result.work) if result.work else ""
    spread = f"{low / result.seconds(name):.2f} to {high / result.seconds(name):.2f}"
    return [name, duration(result.seconds(name)), each, relative, spread, str(len(times))]


def _cells(verdict: Verdict) -> list[str]:
    return [verdict.wanted, verdict.found, verdict.word]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def duration(seconds: float) -> str:
    """Format a time with a suitable unit.

    >>> duration(0.0123), duration(4.5e-6), duration(1.1e-9)
    ('12.3 ms', '4.5 us', '1.1 ns')
    """
    for unit, size in {"s": 1.0, "ms": 1e-3, "us": 1e-6}.items():
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def measure(
    sizes: Sizes = FULL,
    peers: Peers | None = None,
    parts: Sequence[str] = (),
    on_part: Callable[[Suite], object] = lambda suite: None,
) -> Suite:
    """Run all parts of the suite, or some; `on_part` is called with the results so far after each part.

    >>> print(*PARTS)
    compile point batch call memory
    """
    report = Suite(machine_facts())
    for part in parts or PARTS:
        report = Suite(report.machine, [*report.sections, PARTS[part](sizes, peers or Peers())])
        on_part(report)
    return report


@lru_cache(maxsize=8)
def _random(nodes: int) -> Workload:
    return bounded(nodes, SEED)


def _compile(sizes: Sizes, peers: Peers) -> Section:
    results: list[Result] = []
    cold = _stencil_seconds(_random(sizes.compile[0]))
    for nodes in sizes.compile:
        workload = _random(nodes)
        result = race(
            f"Compile {workload.name}",
            workload,
            workload.points(1),
            [*entrants.COMPILE, *peers.compile],
            **sizes.pace(),
        )
        results.append(result.judged(*_compile_wants(nodes, result)))
    if all(STENCILS in result.times for result in results):
        results.append(_growth(sizes))
    return Section(
        "Compile",
        "From a circuit to code that gives its value and gradient. wiregrad's stencils are there already: those of "
        f"this circuit are made once in a process, which took {duration(cold)}. Of gcc and LLVM only the compiler is "
        "timed, not the writing of the text.",
        results,
    )


def _compile_wants(nodes: int, result: Result) -> list[Want | Verdict]:
    wants = list[Want | Verdict]()
    if nodes == 1_000:
        wants.append(Want(STENCILS, "jax.jit", 5_000.0))
    if nodes == 10_000:
        wants += [Want(STENCILS, FLAT, 300.0), Want(STENCILS, WHOLE, 300.0)]
    if STENCILS not in result.times:
        return wants
    if nodes == 100_000:
        each = result.seconds(STENCILS) / result.work
        wants.append(Verdict(f"{STENCILS} under {duration(PER_NODE)} per node", duration(each), each < PER_NODE))
    return wants


def _growth(sizes: Sizes) -> Result:
    """Compile circuits of all sizes in turns, so that the load of the machine affects all of them alike."""
    workloads = {f"{STENCILS}, {_random(nodes).nodes:,} nodes": _random(nodes) for nodes in sizes.compile}
    tasks = {name: entrants.compiling(workload, workload.points(1)) for name, workload in workloads.items()}
    result = take_turns("Compile, size by size", tasks, **sizes.pace())
    verdicts = list[Verdict]()
    for small, large in pairwise(workloads):
        # Circuits have a few more nodes than requested.
        growth = 10.0 * result.ratio(large, small) * workloads[small].nodes / workloads[large].nodes
        wanted = f"10x the nodes of {workloads[small].nodes:,} within {GROWTH:g}x the time"
        verdicts.append(Verdict(wanted, multiple(growth), growth <= GROWTH))
    return result.judged(*verdicts)


def _stencil_seconds(workload: Workload) -> float:
    """Return the time it takes to make those stencils of a circuit that do not exist yet, in seconds."""
    try:
        return build(workload.circuit, 0).stencil_seconds
    except NotNativeError:
        return math.nan


def _point(sizes: Sizes, peers: Peers) -> Section:
    results = list[Result]()
    for workload in [*map(_random, sizes.point), *mechanics(sizes.bodies, sizes.steps)]:
        result = race(
            workload.name,
            workload,
            workload.points(1),
            [*entrants.POINT, *peers.point],
            **sizes.pace(),
        )
        results.append(result.judged(*_point_wants(workload)))
    return Section(
        "Value and gradient at one point",
        "Runs are repeated in native code, so no call from Python is measured, but for plain Python, micrograd, CasADi "
        "(its buffer is triggered from Python) and `jax.jit`. Flat C is `circuit.to_c()`, with "
        f"`{' '.join(entrants.FLAT_FLAGS[:-1])}`; LLVM has the whole circuit in one function, written without the "
        "conditions with which wiregrad keeps absent gradients absent.",
        results,
    )


def _point_wants(workload: Workload) -> list[Want]:
    nodes = workload.nodes
    wants: list[Want] = []
    if nodes <= 20_000:
        wants += [Want(STENCILS, FLAT, 1 / 1.5), Want(LLVM_TIER, FLAT, 1 / 1.1)]
    if nodes >= 800:
        wants.append(Want(STENCILS, "CasADi SX", 3.5))
    if nodes <= 20_000:
        wants.append(Want(STENCILS, "micrograd", 1_000.0))
    return wants


def _batches(sizes: Sizes, peers: Peers) -> Section:
    results = list[Result]()
    for count, nodes in sizes.batch:
        workload = _random(nodes)
        result = race(
            f"{count:,} points, {workload.name}",
            workload,
            workload.points(count),
            [*entrants.BATCH, *peers.batch],
            **sizes.pace(),
        )
        frameworks = ("jax.jit", "PyTorch")
        best = min((name for name in frameworks if name in result.times), key=result.seconds, default=frameworks[0])
        wants = [Want(STENCILS, SIMD, 1 / 1.3), Want(STENCILS, best, 1.5), Want(TWO, STENCILS, 1.7)]
        results.append(result.judged(*wants))
    return Section(
        "Batches",
        "Value and gradient at every point, in one thread if nothing else is said. C in vectors is the circuit in one "
        f"loop over points, with `{' '.join(entrants.SIMD_FLAGS)}`: its vector functions are those of libmvec, its "
        "points stand in columns, while wiregrad's stand in rows, and with -ffast-math it may reorder sums. With two "
        "threads it shows what the machine gives two threads: half of the points each, into memory that is there.",
        results,
    )


def _calls(sizes: Sizes, peers: Peers) -> Section:
    workload = _random(sizes.call)
    result = race(
        f"One gradient of {workload.name}",
        workload,
        workload.points(1),
        [*entrants.CALL, *peers.call],
        **sizes.pace(),
    )
    wants: list[Want | Verdict] = [Want(STENCILS, "jax.jit", 15.0)]
    if STENCILS in result.times:
        seconds = result.seconds(STENCILS)
        wants.append(Verdict(f"one call within {duration(PER_CALL)}", duration(seconds), seconds <= PER_CALL))
    about = "The loop is Python's: `compiled.value_and_grad(x)` on a vector, beside others called as usual."
    return Section("Calls from Python", about, [result.judged(*wants)])


def _memory(sizes: Sizes, peers: Peers) -> Section:
    lines = list[Verdict]()
    for workload in [*map(_random, sizes.point), *mechanics(sizes.bodies, sizes.steps)]:
        try:
            program = build(workload.circuit, 0)
        except NotNativeError as error:
            lines.append(Verdict(workload.name, str(error), None))
            continue
        naive = 16 * (workload.nodes + len(workload.circuit.inputs))
        code = f"{program.code_bytes / workload.nodes:,.0f} bytes of code per node"
        wanted = f"{workload.name}: less than two numbers per node, {naive:,} bytes"
        measured = f"{program.initial.nbytes:,} bytes, {code}"
        lines.append(Verdict(wanted, measured, program.initial.nbytes < naive))
    about = "The working buffer of value and gradient at one point, beside a number per node and one for its gradient."
    return Section("Memory", about, [Result("Working memory", 0.0, {}, {}, lines)])


PARTS: dict[str, Callable[[Sizes, Peers], Section]] = {
    "compile": _compile,
    "point": _point,
    "batch": _batches,
    "call": _calls,
    "memory": _memory,
}


def machine_facts() -> dict[str, str]:
    """Describe this machine: processor, cores, versions of Python, compiler and packages.

    >>> machine_facts()["Python"] == platform.python_version()
    True
    """
    packages = ("numpy", "llvmlite", "casadi", "jax", "torch", "micrograd")
    compiler = c_compiler()
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "Python": platform.python_version(),
        "C compiler": "missing" if compiler is None else compiler.version,
        **{name: _version(name) for name in packages},
        "load when it began": " ".join(f"{load:.1f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "",
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    facts = dict(reversed([(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]))
    name = facts.get("model name") or platform.processor() or "unknown"
    number = f", family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else ""
    return f"{name}{number}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
