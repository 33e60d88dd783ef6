"""Ops on whole arrays: what their records are made of.

Every op is written over trailing axes (axes are counted from the end, shapes are those of the last few axes), so any
number of axes may stand in front: a batch runs through the same op with the same settings. Three kinds of rule:

- `Linear`: linear in each of its inputs alone; gives a transpose, the op itself pushes tangents;
- `Reduction`: makes one number of many; gives its slope, from which both modes follow;
- `General`: gives two rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES, WireType
from wiregrad.errors import DomainError
from wiregrad.ir import TABLE, Op
from wiregrad.ops.flow import Masked, conj, only, plus, settle, shape_of, times, whole

Rule = Callable[..., Any]

__all__ = ["ArrayOp", "Blocking", "General", "Linear", "Reduction", "Rule", "conj", "folded", "trailing", "unreduce"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ArrayOp(Op):
    """An op on whole arrays."""

    samples: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]] | None = None
    """Points where it is checked: tuples of the inputs and, last, a dict of settings."""
    batches: bool = True
    """Whether axes may stand in front of those the settings speak of; else a batch is a loop."""

    gap: Rule | None = None
    """How far elements are from a tie that changes what it picks, `(x, y, **settings)` on arrays: 0 on a tie."""

    by_elements: Callable[..., Any] | None = None
    """The op on arrays of wires, written in wiregrad's scalar ops; where it is needed and `forward` will not do."""

    @property
    def expands(self) -> bool:
        """Whether the op can be written element by element."""
        return self.by_elements is not None

    def expanded(self, *xs: Any) -> Any:
        """Return the op applied to arrays of wires."""
        return (self.by_elements or self.forward)(*xs, **self.options)

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return what NumPy makes of arrays of ones."""
        if sum(int(np.prod(kind.shape)) for kind in types) > 10_000_000:
            raise DomainError(f"{self.name}: these arrays are too large to work out a type from")
        # Whole numbers are indices: 0 exists on every axis.
        ones = [(np.zeros if kind.dtype.kind in "iu" else np.ones)(kind.shape, kind.dtype) for kind in types]
        try:
            with np.errstate(all="ignore"):
                y = np.asarray(self.compute(*ones))
        except (TypeError, ValueError, IndexError, np.linalg.LinAlgError) as error:
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}: {error}") from None
        if y.dtype not in DTYPES.values():
            raise DomainError(f"{self.name} makes {y.dtype} of {', '.join(map(str, types))}, which no wire carries")
        return WireType(y.dtype, y.shape)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Linear(ArrayOp):
    """Linear in each input alone. `transpose(g, slot, *xs, **settings)` sends `g` back; None blocks the input."""

    transpose: Rule
    moves: bool = False
    """It only moves, copies or adds up elements, so that absence can travel along."""
    partial: bool = False
    """It may leave out elements of its input: their gradient is absent, not 0."""

    @property
    def expands(self) -> bool:
        """Whether the op can be written element by element: NumPy moves and adds wires as it does numbers."""
        return True

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the transpose applied to what arrived."""
        if not self.partial and type(g) is not Masked and shape_of(g) == shape_of(y):
            return self.transpose(g, slot, *xs, **self.options)
        g = whole(g, y)

        def back(flow: Any) -> Any:
            return self.transpose(flow, slot, *xs, **self.options)

        sent = back(settle(g))
        if sent is None or not self.moves or not (self.partial or type(g) is Masked):
            return sent
        mask = g.mask if type(g) is Masked else np.broadcast_to(np.True_, shape_of(y))
        present = _present(back(_number(mask)))
        return sent if present is None else only(present, sent)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of the op applied to each tangent in its input's place."""
        if self.variadic:
            # It is linear in all of its inputs together: what does not move counts as 0.
            still = [np.zeros(shape_of(x), x.dtype) if t is None else t for t, x in zip(tangents, xs, strict=True)]
            return self(*(settle(whole(t, x)) for t, x in zip(still, xs, strict=True)))
        return reduce(plus, [self._push(k, t, xs) for k, t in enumerate(tangents) if t is not None], None)

    def _push(self, slot: int, t: Any, xs: Sequence[Any]) -> Any:
        t = whole(t, xs[slot])

        def on(flow: Any) -> Any:
            return self(*xs[:slot], flow, *xs[slot + 1 :])

        if not self.moves or type(t) is not Masked or len(xs) > 1:
            return on(settle(t))
        return only(TABLE["greater"](on(_number(t.mask)), 0.0), on(settle(t)))

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """No single number is the derivative of an array by an array."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Reduction(ArrayOp):
    """Makes one number of many along `axes`. `slope(x, y, **settings)` has the shape of `x`; so has `y` there."""

    slope: Rule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the slope times what arrived, spread along the axes."""
        (x,) = xs
        return times(self._along(whole(g, y), x), conj(self.slope(x, self._along(y, x), **self.options)))

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of slope times tangent along the axes."""
        (x,), (t,) = xs, tangents
        moved = settle(times(whole(t, x), self.slope(x, self._along(y, x), **self.options)))
        return TABLE["sum"](whole(moved, x), **self.options)

    def _along(self, flow: Any, x: Any) -> Any:
        if type(flow) is Masked:
            return Masked(self._along(flow.mask, x), self._along(flow.value, x))
        return unreduce(flow, shape_of(x), self.options["axes"], self.options["keepdims"])

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """No single number is the derivative of a number by an array."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class General(ArrayOp):
    """An op with a rule for each mode: `back(slot, g, xs, y, **settings)` and `ahead(slot, t, xs, y, **settings)`."""

    back: Rule
    ahead: Rule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return what the backward rule sends."""
        return self.back(slot, settle(whole(g, y)), xs, y, **self.options)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of what the forward rule makes of each tangent."""
        moved = [
            self.ahead(k, settle(whole(t, xs[k])), xs, y, **self.options)
            for k, t in enumerate(tangents)
            if t is not None
        ]
        return reduce(plus, moved, None)

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """No single number is the derivative of an array by an array."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Blocking(ArrayOp):
    """An op whose output moves in steps: nothing flows through it."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Nothing is sent back."""
        return None

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Nothing moves."""
        return None


def folded(op: str) -> Rule:
    """Return a reduction of wires by an op of two, one after the other."""

    def fold(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        kept = [axis for axis in range(-x.ndim, 0) if axis not in axes]
        moved = np.moveaxis(x, kept, range(len(kept)))
        rows = moved.reshape(*moved.shape[: len(kept)], -1)
        found = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(found.shape):
            found[index] = reduce(TABLE[op], rows[index])
        shape = tuple(1 if axis in axes else x.shape[axis] for axis in range(-x.ndim, 0))
        return found.reshape(shape) if keepdims else found

    return fold


def unreduce(flow: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return what a reduction along axes gave, spread back to the shape it was given."""
    if len(axes) == len(shape) and isinstance(flow, float | np.generic):
        # The same number everywhere: a flow may come without the axes it does not vary along.
        return flow
    kept = tuple(1 if k - len(shape) in axes else n for k, n in enumerate(shape))
    if not keepdims and axes:
        flow = TABLE["reshape"](flow, rank=len(shape_of(flow)), shape=kept)
    return flow if kept == shape else TABLE["spread"](flow, rank=len(kept), shape=shape)


def _number(mask: Any) -> Any:
    return TABLE["where"](mask, 1.0, 0.0)


def _present(counts: Any) -> Any:
    """Return the mask of what a count reaches; None if it reaches everything."""
    if isinstance(counts, np.ndarray | np.generic):
        mask = np.greater(counts, 0)
        return None if np.all(mask) else mask
    return TABLE["greater"](counts, 0.0)


_ALL_AXES = [tuple(range(-ndim, 0)) for ndim in range(65)]
"""All axes, counted from the end, by how many there are; NumPy allows 64."""


def trailing(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes (None: all, one, or several) counted from the end, in order.

    >>> trailing((0, -1), 3), trailing(None, 2)
    ((-3, -1), (-2, -1))
    """
    if axes is None:
        return _ALL_AXES[ndim]
    given = (axes,) if np.ndim(axes) == 0 else tuple(axes)
    normal = [int(np.lib.array_utils.normalize_axis_index(int(axis), ndim)) - ndim for axis in given]
    if len(set(normal)) != len(normal):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(normal))
