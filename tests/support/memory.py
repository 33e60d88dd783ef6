"""Does memory grow with the number of calls?"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

WINDOWS = 4
PAGE_BYTES = 4096


def read_resident_bytes() -> int:
    """Return how much memory of this process is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def measure_traced_growth(work: Callable[[], object]) -> int:
    """Return the least growth of what Python and NumPy allocate, over several rounds of `work`."""
    tracemalloc.start()
    try:
        return measure_least_growth(work, lambda: tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


def measure_least_growth(work: Callable[[], object], read_bytes: Callable[[], int]) -> int:
    """Return by how many bytes memory grew in the one of several rounds of `work` where it grew least.

    A leak grows in every round. What else a process does meanwhile (another thread compiles, a cache fills,
    the allocator asks for a large block) grows in some of them.
    """
    growths = []
    for _ in range(WINDOWS):
        before = read_bytes()
        work()
        growths.append(read_bytes() - before)
    return min(growths)
