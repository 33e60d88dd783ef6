"""Order nodes so that every input comes before its readers."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from wiregrad.errors import CycleError


def sort_topologically(inputs: Sequence[Sequence[int]], name: Callable[[int], str]) -> list[int]:
    """Return the nodes in topological order (Kahn's method; of several that are ready the earliest comes first).

    A cycle raises `CycleError`, which names its nodes.

    >>> sort_topologically([[1], [], [0]], str)
    [1, 0, 2]
    """
    readers: list[list[int]] = [[] for _ in inputs]
    for node, sources in enumerate(inputs):
        for source in sources:
            readers[source].append(node)
    waiting = [len(sources) for sources in inputs]
    ready = [node for node, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(inputs):
        raise CycleError(_describe_ring(inputs, waiting, name))
    return order


def _describe_ring(inputs: Sequence[Sequence[int]], waiting: Sequence[int], name: Callable[[int], str]) -> str:
    node = next(n for n, count in enumerate(waiting) if count)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = next(source for source in inputs[node] if waiting[source])
    ring = [*walk[seen[node] :], node][::-1]
    shown = ring if len(ring) <= 9 else [*ring[:4], None, *ring[-4:]]
    arrows = " -> ".join("..." if n is None else name(n) for n in shown)
    return f"the circuit has a cycle: {arrows}; a circuit must run from inputs to output, so cut one of these wires"
