"""Kinks: where an op has no single slope, and which one is taken there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wiregrad.ir.mode import Convention, decode_mode

KinkSlope = float | Callable[..., Any] | None
"""A number, a rule `(*inputs, output) -> slope`, or None if the gradient is absent."""


@dataclass(frozen=True, kw_only=True)
class Kink:
    """One set of points where an op's slopes differ from side to side.

    `at` is written in wiregrad's ops and is 0 exactly on the kink. `slopes` are what the op's own rule returns there if
    every operand is a wire: together they are the minimum-norm subgradient. `alone` holds the slopes if the other
    operands are literals. At a `jump` the value itself steps; there all conventions agree.
    """

    doc: str
    at: Callable[..., Any]
    slopes: tuple[KinkSlope, ...]
    tied: tuple[int, ...] | None = None
    """Inputs that meet on the kink; None means all. Whether another input is a literal does not matter."""
    alone: tuple[KinkSlope, ...] | None = None
    torch: tuple[KinkSlope, ...] | None = None
    jax: tuple[KinkSlope, ...] | None = None
    jump: bool = False
    on: Callable[..., Any] | None = None
    """Condition that inputs are exactly on the kink, written in wiregrad's ops; `at` = 0 if left out."""

    def slope(self, slot: int, mode: int) -> KinkSlope:
        """Return the slope that a mode takes for an input on this kink."""
        convention, literal = decode_mode(mode)
        if convention is Convention.MIN_NORM:
            met = any(self.tied is None or k in self.tied for k in literal)
            chosen = self.alone if met else None
        else:
            chosen = self.torch if convention is Convention.TORCH else self.jax
        return (self.slopes if chosen is None else chosen)[slot]
