"""A chain of up to a million nodes: every stage takes time in proportion to its length, at recursion limit 1000.

The chain alternates tanh and a product with a literal, so every second node brings a constant of its own.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import wiregrad as wg
from benchmarks.measure import Report, Table, milliseconds, seconds

SIZES = {100_000: 3, 1_000_000: 1}
"""Nodes, and how often each stage is measured."""
RATIO_TARGET, BYTES_TARGET = 15.0, 120.0


def build(size: int) -> wg.Circuit:
    """Return a chain of `size` function nodes."""
    builder = wg.Builder()
    wire = builder.input("x")
    for _ in range(size // 2):
        wire = builder.multiply(builder.tanh(wire), 1.5)
    return builder.build(wire)


class Life:
    """The life of one chain: each stage is timed and what it makes is kept until all of it is deleted."""

    def __init__(self, size: int) -> None:
        self.times: dict[str, float] = {}
        self.kept: dict[str, Any] = {}
        self._stage("build", lambda: build(size))
        self._stage("forward", lambda: self.kept["build"](x=0.5))
        self._stage("forward and backward", lambda: self.kept["build"].run(x=0.5))
        self._stage("backward circuit", self.kept["build"].backward_circuit)
        self._stage("print", self.kept["build"].to_text)
        self._stage("parse", lambda: wg.Circuit.from_text(self.kept["print"]))
        assert self.kept["parse"] == self.kept["build"]
        assert self.kept["backward circuit"](x=0.5) == self.kept["forward and backward"].grads["x"]
        self.times["delete"] = seconds(self.kept.clear)

    def _stage(self, name: str, task: Callable[[], Any]) -> None:
        self.times[name] = seconds(lambda: self.kept.update({name: task()}))


def stage_times(size: int, repeats: int) -> dict[str, float]:
    """Return the median time of every stage."""
    lives = [Life(size).times for _ in range(repeats)]
    return {stage: statistics.median(life[stage] for life in lives) for stage in lives[0]}


def bytes_per_node(size: int) -> tuple[float, float]:
    """Return what the circuit says it takes and what it really holds, per function node."""
    gc.collect()
    tracemalloc.start()
    circuit = build(size)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return circuit.nbytes() / size, held / size


def run() -> Report:
    """Measure stages and memory at all sizes."""
    sys.setrecursionlimit(1000)
    small, large = SIZES
    times = {size: stage_times(size, repeats) for size, repeats in SIZES.items()}
    ratios = {stage: times[large][stage] / times[small][stage] for stage in times[small]}
    said, held = bytes_per_node(small)
    speed = Table(
        f"Recursion limit 1000; ten times the nodes should take at most {RATIO_TARGET:g} times as long.",
        ["stage", f"{small:,} nodes", f"{large:,} nodes", "ratio", "per node"],
        [
            [stage, *(milliseconds(times[n][stage]) for n in SIZES), f"{ratio:.1f}", _each(times[large][stage] / large)]
            for stage, ratio in ratios.items()
        ],
    )
    memory = Table(
        f"Bytes per function node of the built circuit; at most {BYTES_TARGET:g} wanted.",
        ["`nbytes()`", "really held"],
        [[f"{said:.1f}", f"{held:.1f}"]],
    )
    return Report([speed, memory], {"ratios": ratios, "nbytes per node": said, "held per node": held})


def _each(time: float) -> str:
    return f"{time * 1e6:.2f} us"
