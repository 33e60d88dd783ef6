"""One wire of one op, with the values it really saw, and what a check of it can come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wiregrad.ir import Op
from wiregrad.ops.flow import fit, settle

Shake = Callable[[Any], Any]
"""Changes numbers in their last digits."""


@dataclass(frozen=True)
class Wire:
    """One input of an op, with the values that the op really saw."""

    op: Op
    slot: int
    xs: tuple[Any, ...]
    y: Any
    mode: int = 0
    symmetric: bool | None = None
    """Whether only one triangle of what came is read, so that it may only be moved as a symmetric matrix; None: by the
    op's record."""
    size: float = 0.0
    """How large what the output is made of was, where that cancels in it."""

    @property
    def x(self) -> Any:
        """What came along the wire."""
        return self.xs[self.slot]

    def pulled(self, g: Any) -> Any:
        """Return what the rule sends back, in the shape of what came."""
        return _full(fit(self.op.pull(self.slot, g, self.xs, self.y, self.mode), self.x), self.x)

    def pushed(self, t: Any) -> Any:
        """Return how the output moves when what came moves along t, by the rule."""
        tangents = [t if k == self.slot else None for k in range(len(self.xs))]
        return _full(fit(self.op.push(tangents, self.xs, self.y, self.mode), self.y), self.y)

    def like_y(self, g: Any) -> Any:
        """Return numbers with the dtype of the output."""
        return np.asarray(g).astype(np.asarray(self.y).dtype)[()]

    def like_x(self, t: Any) -> Any:
        """Return numbers with the dtype of what came along the wire."""
        return np.asarray(t).astype(np.asarray(self.x).dtype)[()]


def _full(flow: Any, like: Any) -> Any:
    """Return a flow with the shape of the value it belongs to, and complex if that is."""
    full = np.broadcast_to(settle(flow), np.shape(like))
    return full.astype(np.complex128) if np.iscomplexobj(like) else full


@dataclass(frozen=True)
class Outcome:
    """What the check of one wire found; the numbers are those of the element where rule and measurement differ most."""

    state: int
    rule: Any = np.nan
    numeric: Any = np.nan
    error: float = np.inf
    index: tuple[int, ...] | None = None
    output: tuple[int, ...] | None = None
    at: Any = None
    """The value at which the element stood."""
    modes: tuple[str, ...] = ()
    """Which of the two modes are wrong."""
    count: int = 0
    """How many elements are in this state, of those that were looked at."""
    total: int = 1
    distance: float | None = None
    reason: str = ""
    finite: bool = True
    """Whether the values are finite there."""
    again: Callable[[Wire, Shake], Any] | None = field(default=None, repr=False, compare=False)
    """Works out the rule's number once more, for a wire with other values, along a direction that is shaken too."""
    raised: bool = False
    """Whether the rule is wrong because it refuses what arrives; the reason is what it says."""


def computed(op: Op, xs: Sequence[Any], like: Any) -> Any:
    """Return what an op gives, NaN where it refuses.

    >>> from wiregrad.ops import TABLE
    >>> float(computed(TABLE["sin"], [0.0], 0.0)), float(computed(TABLE["sin"], [], 0.0))
    (0.0, nan)
    """
    try:
        y = np.asarray(op.compute(*xs))
    except Exception:
        return np.full(np.shape(like), np.nan)
    return y if y.shape == np.shape(like) and y.dtype.kind in "fc" else np.full(np.shape(like), np.nan)


def modes(back: bool, ahead: bool) -> tuple[str, ...]:
    """Return the names of the modes that are wrong.

    >>> modes(True, False)
    ('reverse',)
    """
    return tuple(name for name, wrong in (("reverse", back), ("forward", ahead)) if wrong)


def first_line(error: Exception) -> str:
    """Return what an error says, in one line.

    >>> first_line(ValueError("no\\nreally"))
    'ValueError: no'
    """
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
