"""Pictures: the layout of a thousand boxes, and a circuit of a hundred thousand nodes drawn as groups.

Times are given beside one forward and backward run of the same circuit, measured in the same turns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds
from wiregrad.draw import build_picture, to_svg
from wiregrad.draw.layout.figure import place_picture

SMALL, LARGE = 1_000, 100_000
TARGETS = {"layout": 0.150, "groups": 2.0}
"""Seconds for the layout of the small circuit, and for the whole SVG of the large one."""
REACH = 60
"""How far back a node reads, so that the small circuit has wires over many ranks."""
LAYER = 1_000
"""How many nodes a group of the large circuit has."""
TURNS = 7


def circuit(nodes: int, *, interleaved: bool = False) -> wg.Circuit:
    """Return a random circuit in groups, one after the other or in turn; each node reads some of those just before."""
    rng = np.random.default_rng(nodes)
    builder = wg.Builder()
    ports = [builder.input(f"x{k}") for k in range(8)]
    groups = max(1, nodes // LAYER)
    for k in range(nodes):
        i, j = rng.integers(max(0, len(ports) - REACH), len(ports), 2).tolist()
        with builder.at(None, f"net/layer{k % groups if interleaved else k // LAYER}"):
            ports.append(builder.tanh(ports[i]) if k % 3 == 0 else builder.add(ports[i], ports[j]))
    return builder.build(ports[-1])


def small_tasks() -> dict[str, Callable[[], object]]:
    """Return what is measured on the small circuit, every node of which is drawn."""
    found = circuit(SMALL)
    run = found.run([0.1] * 8)
    drawn = build_picture(found, run, cap=2 * SMALL)
    return {
        "run": lambda: found.run([0.1] * 8),
        "picture": lambda: build_picture(found, run, cap=2 * SMALL),
        "layout": lambda: place_picture(drawn),
        "SVG, all together": lambda: to_svg(found, run, cap=2 * SMALL),
    }


def large_tasks(*, interleaved: bool) -> dict[str, Callable[[], object]]:
    """Return what is measured on the large circuit, which is drawn as groups."""
    found = circuit(LARGE, interleaved=interleaved)
    run = found.run([0.1] * 8)
    return {
        "run": lambda: found.run([0.1] * 8),
        "picture": lambda: build_picture(found, run),
        "SVG, all together": lambda: to_svg(found, run),
    }


def run() -> Report:
    """Measure all of it at recursion limit 1000."""
    sys.setrecursionlimit(1000)
    cases = {
        f"{SMALL:,} nodes, all drawn": small_tasks(),
        f"{LARGE:,} nodes, groups in blocks": large_tasks(interleaved=False),
        f"{LARGE:,} nodes, groups in turn": large_tasks(interleaved=True),
    }
    table = Table(
        f"The layout of {SMALL:,} nodes should take at most {milliseconds(TARGETS['layout'])}, all of a picture of "
        f"{LARGE:,} at most {milliseconds(TARGETS['groups'])}; beside it, as a multiple of one run of the circuit.",
        ["circuit", "stage", "time", "of a run"],
    )
    figures: dict[str, float] = {}
    for name, tasks in cases.items():
        times = interleaved({stage: lambda task=task: seconds(task) for stage, task in tasks.items()}, TURNS)
        for stage, time in times.items():
            figures[f"{name}: {stage}"] = time
            table.rows.append([name, stage, milliseconds(time), f"{time / times['run']:.2f}"])
    return Report([table], dict(figures))
