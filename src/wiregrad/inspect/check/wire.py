"""One wire of one op with the values it saw, and the outcome of a check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wiregrad.ir import Op
from wiregrad.ops.flow import match_dtype, fill_absent

Perturbation = Callable[[Any], Any]
"""A function that changes numbers in their last digits."""


@dataclass(frozen=True)
class CheckedWire:
    """One input of an op, with the values that the op saw."""

    op: Op
    slot: int
    xs: tuple[Any, ...]
    y: Any
    mode: int = 0
    symmetric: bool | None = None
    """Whether the op reads only one triangle of the input, which then moves as a symmetric matrix; None: as the op's
    record says."""
    size: float = 0.0
    """The magnitude of the terms that cancel in the output, if they do."""

    @property
    def x(self) -> Any:
        """The input value."""
        return self.xs[self.slot]

    def pull_back(self, g: Any) -> Any:
        """Return the gradient by the reverse rule, with the shape of the input."""
        return _broadcast_flow(match_dtype(self.op.pull(self.slot, g, self.xs, self.y, self.mode), self.x), self.x)

    def push_forward(self, t: Any) -> Any:
        """Return the tangent of the output by the forward rule, for a tangent t of the input."""
        tangents = [t if k == self.slot else None for k in range(len(self.xs))]
        return _broadcast_flow(match_dtype(self.op.push(tangents, self.xs, self.y, self.mode), self.y), self.y)

    def cast_like_output(self, g: Any) -> Any:
        """Cast numbers to the dtype of the output."""
        return np.asarray(g).astype(np.asarray(self.y).dtype)[()]

    def cast_like_input(self, t: Any) -> Any:
        """Cast numbers to the dtype of the input."""
        return np.asarray(t).astype(np.asarray(self.x).dtype)[()]


def _broadcast_flow(flow: Any, like: Any) -> Any:
    """Return a flow with the shape of its value, and complex if the value is."""
    full = np.broadcast_to(fill_absent(flow), np.shape(like))
    return full.astype(np.complex128) if np.iscomplexobj(like) else full


@dataclass(frozen=True)
class WireOutcome:
    """The outcome of checking one wire; the numbers are those of the element with the largest difference."""

    state: int
    rule: Any = np.nan
    numeric: Any = np.nan
    error: float = np.inf
    index: tuple[int, ...] | None = None
    output: tuple[int, ...] | None = None
    at: Any = None
    """The value of the input element."""
    modes: tuple[str, ...] = ()
    """The modes (reverse, forward) that are wrong."""
    count: int = 0
    """Number of compared elements in this state."""
    total: int = 1
    distance: float | None = None
    reason: str = ""
    finite: bool = True
    """Whether the values are finite there."""
    again: Callable[[CheckedWire, Perturbation], Any] | None = field(default=None, repr=False, compare=False)
    """Recomputes the rule's number for a wire with perturbed values, along a perturbed direction."""
    raised: bool = False
    """Whether the rule is wrong because it raised an error, which is given as the reason."""


def compute_or_nan(op: Op, xs: Sequence[Any], like: Any) -> Any:
    """Compute an op; NaN if it raises or gives another shape.

    >>> from wiregrad.ops import TABLE
    >>> float(compute_or_nan(TABLE["sin"], [0.0], 0.0)), float(compute_or_nan(TABLE["sin"], [], 0.0))
    (0.0, nan)
    """
    try:
        y = np.asarray(op.compute(*xs))
    except Exception:
        return np.full(np.shape(like), np.nan)
    return y if y.shape == np.shape(like) and y.dtype.kind in "fc" else np.full(np.shape(like), np.nan)


def wrong_modes(back: bool, ahead: bool) -> tuple[str, ...]:
    """Return the names of the modes that are wrong.

    >>> wrong_modes(True, False)
    ('reverse',)
    """
    return tuple(name for name, wrong in (("reverse", back), ("forward", ahead)) if wrong)


def first_line(error: Exception) -> str:
    """Return the type and the first line of an error.

    >>> first_line(ValueError("no\\nreally"))
    'ValueError: no'
    """
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
