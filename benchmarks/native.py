"""Native code beside flat C, LLVM, CasADi, JAX, PyTorch and micrograd: compile time, one point, batches, calls, memory.

The races are those of `wiregrad bench`, with the other frameworks as further entrants.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence

from benchmarks.measure import Report, Text, save
from benchmarks.peers import PEERS, QUICK
from wiregrad.cli import bench


def run(quick: bool = False, parts: Sequence[str] = ()) -> Report:
    """Run all races, or some parts; the quick ones are small and leave out what takes minutes."""
    # Before and between turns the collector runs; it is spared what the frameworks loaded.
    gc.collect()
    gc.freeze()
    sizes, peers = (bench.QUICK_SIZES, QUICK) if quick else (bench.FULL_SIZES, PEERS)
    try:
        found = bench.run_suite(sizes, peers, parts, _kept)
    finally:
        gc.unfreeze()
    return _report(found)


def _report(found: bench.SuiteReport) -> Report:
    return Report([Text(found.to_markdown())], found.to_document())


def _kept(found: bench.SuiteReport) -> None:
    """Keep what there is: all of it takes long, and may be stopped."""
    save("native", _report(found))
