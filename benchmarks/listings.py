"""Listings: how long it takes to write a circuit as code, by language and size.

The circuits have every second node an op of two wires and read back up to a few hundred nodes, so that most gradients
are sums. Times are given beside one forward and backward run of the same circuit, measured in the same turns.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds
from wiregrad.codegen import LANGUAGE_MODULES, write_listing

SIZES = (1_000, 10_000, 100_000)
WANTED = 1.0
"""Seconds for a circuit of ten thousand nodes, in each language."""
GROWTH = 13.0
"""How many times longer a circuit of ten times as many nodes may take."""
TURNS = 3
PAIRS = ("add", "multiply", "subtract", "maximum", "hypot")
ALONE = ("sin", "tanh", "sigmoid", "cos", "silu")


def circuit(nodes: int) -> wg.Circuit:
    """Return a circuit in which each node reads the one before it, and every second one an earlier one too."""
    rng = np.random.default_rng(nodes)
    builder = wg.Builder()
    ports = [builder.input(f"x{k}") for k in range(20)]
    for k in range(nodes // 2):
        earlier = ports[int(rng.integers(max(0, len(ports) - 500), len(ports)))]
        pair = getattr(builder, PAIRS[k % len(PAIRS)])(ports[-1], earlier)
        ports.append(getattr(builder, ALONE[int(rng.integers(len(ALONE)))])(pair))
    return builder.build(ports[-1])


def tasks(nodes: int) -> dict[str, Callable[[], float]]:
    """Return what is measured at one size: a run, and writing each language."""
    found = circuit(nodes)
    written = {
        language: lambda language=language: seconds(lambda: write_listing(found, language))
        for language in LANGUAGE_MODULES
    }
    return {"run": lambda: seconds(lambda: found.run([0.1] * len(found.inputs))), **written}


def run() -> Report:
    """Measure all languages at all sizes."""
    times = {nodes: interleaved(tasks(nodes), TURNS) for nodes in SIZES}
    table = Table(
        f"A listing of 10,000 nodes should be written within {milliseconds(WANTED)}, and ten times as many nodes "
        f"should take at most {GROWTH:g} times as long.",
        [
            "language",
            *(f"{nodes:,} nodes" for nodes in SIZES),
            "of a run, 10,000 nodes",
            "growth to 10,000, to 100,000",
        ],
    )
    figures: dict[str, float] = {}
    for task in times[SIZES[0]]:
        spent = [times[nodes][task] for nodes in SIZES]
        growth = [after / before for before, after in pairwise(spent)]
        ratio = f"{times[10_000][task] / times[10_000]['run']:.1f}"
        table.rows.append([task, *map(milliseconds, spent), ratio, ", ".join(f"{times:.1f}" for times in growth)])
        figures |= {f"{task}: {nodes} nodes": time for nodes, time in zip(SIZES, spent, strict=True)}
        figures |= {f"{task}: growth to {nodes}": ratio for nodes, ratio in zip(SIZES[1:], growth, strict=True)}
    return Report([table], dict(figures))
