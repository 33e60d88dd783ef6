"""Kinks: where an op has no single slope, and which one is taken there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wiregrad.ir.mode import Convention, decode

Slope = float | Callable[..., Any] | None
"""A number, a rule `(*inputs, output) -> slope`, or None: the gradient is absent."""


@dataclass(frozen=True, kw_only=True)
class Kink:
    """One set of points where an op's slopes differ from side to side.

    `at` is 0 exactly on the kink and written in wiregrad's ops. `slopes` are the ones the op's own rule gives there
    when every operand is a wire: the minimum-norm subgradient, jointly. `alone` are those when the other operands are
    literals. A `jump` is a point where the value itself steps; every convention agrees there.
    """

    doc: str
    at: Callable[..., Any]
    slopes: tuple[Slope, ...]
    tied: tuple[int, ...] | None = None
    """Inputs that meet on the kink; None: all of them. A literal elsewhere does not matter."""
    alone: tuple[Slope, ...] | None = None
    torch: tuple[Slope, ...] | None = None
    jax: tuple[Slope, ...] | None = None
    jump: bool = False
    on: Callable[..., Any] | None = None
    """Whether inputs are exactly on the kink, written in wiregrad's ops; `at` = 0 where left out."""

    def slope(self, slot: int, mode: int) -> Slope:
        """Return the slope for an input on this kink in a mode."""
        convention, literal = decode(mode)
        if convention is Convention.MIN_NORM:
            met = any(self.tied is None or k in self.tied for k in literal)
            chosen = self.alone if met else None
        else:
            chosen = self.torch if convention is Convention.TORCH else self.jax
        return (self.slopes if chosen is None else chosen)[slot]
