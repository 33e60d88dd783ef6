"""Remedies: what to write instead where an op breaks.

They stand in the op's record, from the most particular to the most general: a logarithm of a sum of exponentials has a
better answer than any logarithm. What surrounds a node is asked through `Around`, so that a circuit and a recording
that is still growing can both be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wiregrad.ir import Op

FAR = 64
"""How many nodes are looked at before a surrounding counts as not found."""


@dataclass(frozen=True)
class Remedy:
    """Advice, and where it applies: the ops a node is computed from, the ops that read it, nearest first.

    A step is the name of an op, or several with `|` between them. Ops that only copy or move are looked through.
    """

    advice: str
    of: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    slot: int | None = None
    """The input that `of` begins with; None: any."""
    when: Callable[..., bool] | None = None
    """Whether it applies to the numbers that went in; None: to all."""


class Around(Protocol):
    """What a node stands among."""

    def op(self, node: int, /) -> Op:
        """Return the op of a node."""

    def sources(self, node: int, /) -> Iterable[int]:
        """Return the nodes that a node reads."""

    def readers(self, node: int, /) -> Iterable[int]:
        """Return the nodes that read a node, as far as they are known."""


def remedy(node: int, around: Around, inputs: Sequence[Any]) -> str:
    """Return the advice that fits a node and what went into it best; empty if its op has none."""
    for found in around.op(node).remedies:
        if _applies(found, node, around, inputs):
            advice: str = found.advice
            return advice
    return ""


def _applies(found: Remedy, node: int, around: Around, inputs: Sequence[Any]) -> bool:
    def sources(k: int) -> Iterable[int]:
        every = list(around.sources(k))
        return every if k != node or found.slot is None else [every[found.slot]]

    return (
        _leads(node, found.of, sources, around)
        and _leads(node, found.to, around.readers, around)
        and (found.when is None or (all(np.ndim(x) == 0 for x in inputs) and found.when(*inputs)))
    )


def _leads(node: int, steps: tuple[str, ...], onward: Callable[[int], Iterable[int]], around: Around) -> bool:
    """Return whether a chain of ops leads away from a node."""
    front = [node]
    for step in steps:
        names = step.split("|")
        front = [k for k in _next(front, onward, around) if around.op(k).name in names]
    return bool(front)


def _next(front: list[int], onward: Callable[[int], Iterable[int]], around: Around) -> list[int]:
    """Return the nodes one step on, behind ops that only copy or move."""
    found, stack = list[int](), [k for node in front for k in onward(node)]
    while stack and len(found) < FAR:
        node = stack.pop(0)
        found.append(node)
        if _passes(around.op(node)):
            stack.extend(onward(node))
    return found


def _passes(op: Op) -> bool:
    """Return whether an op hands an input on as it is, in another shape or place."""
    return any(getattr(op, fact, False) for fact in ("copies", "moves", "selects"))
