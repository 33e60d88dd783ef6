"""Records of the ops that slide windows over arrays, from which convolutions and pooling are built."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from wiregrad.ir import TABLE, Pattern
from wiregrad.ops.array import Linear
from wiregrad.ops.flow import MaskedFlow, shape_of

WindowLengths = tuple[int, ...]


def count_windows(length: int, size: int, step: int, dilation: int) -> int:
    """Return how many windows fit into a length.

    >>> count_windows(7, 3, 2, 1), count_windows(7, 3, 2, 3)
    (3, 1)
    """
    return (length - dilation * (size - 1) - 1) // step + 1


def _view_windows(x: Any, *, size: WindowLengths, step: WindowLengths, dilation: WindowLengths) -> Any:
    array = np.asarray(x)
    spans = tuple([d * (n - 1) + 1 for n, d in zip(size, dilation, strict=True)])
    if array.ndim < len(size) or min((*size, *step, *dilation)) < 1:
        raise ValueError(f"windows {size} with steps {step} and dilation {dilation} do not fit shape {array.shape}")
    view = np.lib.stride_tricks.sliding_window_view(array, spans, tuple(range(-len(size), 0)))
    skips: Any = (..., *(slice(None, None, n) for n in (*step, *dilation)))
    return view[skips]


def _add_windows_back(x: Any, *, size: WindowLengths, step: WindowLengths, dilation: WindowLengths, shape: WindowLengths) -> Any:
    array = np.asarray(x)
    rank = len(size)
    counts = array.shape[array.ndim - 2 * rank : array.ndim - rank]
    lead = array.shape[: array.ndim - 2 * rank]
    y = np.zeros(lead + shape, array.dtype)
    axes = list(range(array.ndim))
    outer = axes[len(lead) : len(lead) + rank]
    inner = axes[len(lead) + rank :]
    if np.prod(size) <= np.prod(counts):
        _add_parts(y, array.transpose(inner + axes[: len(lead)] + outer), dilation, step)
    else:
        _add_parts(y, array.transpose(outer + axes[: len(lead)] + inner), step, dilation)
    return y


def _windows_text(x: str, *, types: Any, size: WindowLengths, step: WindowLengths, dilation: WindowLengths) -> str:
    ndim = len(types[0].shape)
    rank = len(size)
    spans = tuple(d * (n - 1) + 1 for n, d in zip(size, dilation, strict=True))
    axes = "" if rank == ndim else f", axis={tuple(range(ndim - rank, ndim))}"
    view = f"np.lib.stride_tricks.sliding_window_view({x}, {spans}{axes})"
    skips = [":" if n == 1 else f"::{n}" for n in (*step, *dilation)]
    return view if set(skips) == {":"} else f"{view}[{', '.join(['...', *skips])}]"


def _add_parts(y: Any, parts: Any, starts: WindowLengths, steps: WindowLengths) -> None:
    """Add each part to a grid of elements of `y`; the grid starts where the part's place along the first axes says."""
    rank = len(starts)
    lengths = parts.shape[parts.ndim - rank :]
    for place in itertools.product(*map(range, parts.shape[:rank])):
        firsts = [k * start for k, start in zip(place, starts, strict=True)]
        grid = [
            slice(first, first + step * (n - 1) + 1, step)
            for first, step, n in zip(firsts, steps, lengths, strict=True)
        ]
        y[(..., *grid)] += parts[place]


def _mask_reached(length: int, size: int, step: int, dilation: int) -> Any:
    """Return which elements along an axis are inside some window."""
    reached = np.zeros(length, bool)
    starts = np.arange(count_windows(length, size, step, dilation)) * step
    reached[starts[:, None] + np.arange(size) * dilation] = True
    return reached


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class _WindowsOp(Linear):
    """Sliding windows; elements that wide steps leave out have no gradient."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the gradients of all windows added up; absent for elements outside every window."""
        sent = super().pull(slot, g, xs, y, mode)
        shape = shape_of(xs[0])
        settings = (self.options["size"], self.options["step"], self.options["dilation"])
        core = shape[len(shape) - len(settings[0]) :]
        reached = [_mask_reached(*along) for along in zip(core, *settings, strict=True)]
        if type(sent) is MaskedFlow or all(along.all() for along in reached):
            return sent
        return MaskedFlow(np.broadcast_to(reduce(np.logical_and.outer, reached), shape), sent)


windows: Linear = TABLE.register(
    _WindowsOp(
        name="windows",
        doc="All windows of a size that fit along the last axes, each `step` further, every `dilation`-th element.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_view_windows,
        numpy=_windows_text,
        transpose=lambda g, slot, x, *, size, step, dilation: unwindows(
            g, size=size, step=step, dilation=dilation, shape=shape_of(x)[len(shape_of(x)) - len(size) :]
        ),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=7), {"size": (3,), "step": (1,), "dilation": (1,)}),
            (rng.normal(size=8), {"size": (2,), "step": (3,), "dilation": (1,)}),
            (rng.normal(size=(2, 9)), {"size": (3,), "step": (2,), "dilation": (2,)}),
            (rng.normal(size=(4, 5)), {"size": (2, 3), "step": (1, 2), "dilation": (2, 1)}),
            (rng.normal(size=(2, 3, 4)), {"size": (1, 4), "step": (2, 1), "dilation": (1, 1)}),
            (rng.normal(size=1), {"size": (1,), "step": (1,), "dilation": (1,)}),
            (rng.normal(size=(0, 3)), {"size": (2,), "step": (1,), "dilation": (1,)}),
        ],
    )
)
_ADD_WINDOWS = '''\
def add_windows(x, step, dilation, shape):
    """Return zeros of a shape, behind other axes, with windows added where they were taken from."""
    rank = len(shape)
    lead, counts, size = x.shape[: -2 * rank], x.shape[-2 * rank : -rank], x.shape[-rank:]
    y = np.zeros(lead + shape, x.dtype)
    if np.prod(size) > np.prod(counts):
        # Window by window, not element by element of all windows: fewer rounds.
        x = np.moveaxis(x, range(-rank, 0), range(-2 * rank, -rank))
        counts, size, step, dilation = size, counts, dilation, step
    for place in np.ndindex(size):
        along = zip(place, dilation, step, counts)
        grid = tuple(slice(k * d, k * d + s * (n - 1) + 1, s) for k, d, s, n in along)
        y[(..., *grid)] += x[(..., *place)]
    return y
'''
unwindows: Linear = TABLE.register(
    Linear(
        name="unwindows",
        doc="Adds windows into zeros of a shape, each where it came from: the transpose of windows.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_add_windows_back,
        numpy=lambda x, *, types, size, step, dilation, shape: (
            f"add_windows({x}, step={step}, dilation={dilation}, shape={shape})"
        ),
        numpy_needs=(_ADD_WINDOWS,),
        transpose=lambda g, slot, x, *, size, step, dilation, shape: windows(
            g, size=size, step=step, dilation=dilation
        ),
        moves=True,
        samples=lambda rng: [
            (rng.normal(size=(5, 3)), {"size": (3,), "step": (1,), "dilation": (1,), "shape": (7,)}),
            (rng.normal(size=(2, 5)), {"size": (5,), "step": (3,), "dilation": (1,), "shape": (9,)}),
            (rng.normal(size=(2, 3, 2)), {"size": (2,), "step": (3,), "dilation": (1,), "shape": (8,)}),
            (rng.normal(size=(2, 2, 2, 3)), {"size": (2, 3), "step": (1, 2), "dilation": (2, 1), "shape": (4, 5)}),
            (rng.normal(size=(1, 1)), {"size": (1,), "step": (1,), "dilation": (1,), "shape": (1,)}),
            (rng.normal(size=(0, 2, 2)), {"size": (2,), "step": (1,), "dilation": (1,), "shape": (3,)}),
        ],
    )
)
