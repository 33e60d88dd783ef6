"""Records of the discrete Fourier transforms along one axis, and of the recursive part of a digital filter.

A transform is linear, and its adjoint is the transform back with the scale on the other side: what `norm` says of the
one holds for the other with "backward" and "forward" exchanged. Transforms along several axes are made of these.

The recursive part of a filter is y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.ir import TABLE, Pattern
from wiregrad.ops.array_ops import General, LinearOp, conjugate_flow, define_helper, write_setting
from wiregrad.ops.gradient_flow import shape_of

register = TABLE.add

OTHER_NORMS = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""How the adjoint of a transform is scaled."""


class FourierTransform(LinearOp):
    """A transform; it mixes all elements along its axis, so it is not written element by element."""

    @property
    def can_expand(self) -> bool:
        """Whether the op can be written element by element."""
        return False


def _transform_with(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the forward function of a transform."""

    def transform(x: Any, *, n: int, axis: int, norm: str) -> Any:
        return function(np.asarray(x), n, axis, norm)

    return transform


def _write_transform(name: str) -> Callable[..., str]:
    def write_text(x: str, *, types: Any, n: int, axis: int, norm: str) -> str:
        axis %= len(types[0].shape)
        scale = "" if norm == "backward" else f", norm={write_setting(norm)}"
        return f"np.fft.{name}({x}, n={n}, axis={axis}{scale})"

    return write_text


def resize_axis(x: Any, length: int, axis: int) -> Any:
    """Return x cropped, or filled up with zeros, to a length along an axis."""
    old = shape_of(x)[axis]
    if old == length:
        return x
    rest = (("slice", None, None, None),) * (-1 - axis)
    index = (("slice", 0, min(old, length), None), *rest)
    if old > length:
        return TABLE["getitem"](x, index=index)
    shape = shape_of(x)[len(shape_of(x)) + axis + 1 :]
    return TABLE["put_add"](x, index=index, shape=(length, *shape))


def match_dtype(g: Any, x: Any) -> Any:
    """Return a gradient in the dtype of its wire; for a real wire the real part."""
    wanted = x.dtype
    if g.dtype.kind == "c" and wanted.kind != "c":
        g = TABLE["real"](g)
    return g if g.dtype == wanted else TABLE["cast"](g, dtype=wanted.name)


def count_repeats(n: int) -> Any:
    """Return how often each element of half a spectrum occurs in the whole one: 1 at the ends, 2 between them.

    >>> count_repeats(4), count_repeats(5)
    (array([1., 2., 1.]), array([1., 2., 2.]))
    """
    repeats = np.full(n // 2 + 1, 2.0)
    repeats[0] = 1.0
    if n % 2 == 0:
        repeats[-1] = 1.0
    return repeats


def _fft_transpose(g: Any, slot: int, x: Any, *, n: int, axis: int, norm: str) -> Any:
    sent = ifft(g, n=n, axis=axis, norm=OTHER_NORMS[norm])
    return match_dtype(resize_axis(sent, shape_of(x)[axis], axis), x)


def _ifft_transpose(g: Any, slot: int, x: Any, *, n: int, axis: int, norm: str) -> Any:
    sent = fft(g, n=n, axis=axis, norm=OTHER_NORMS[norm])
    return match_dtype(resize_axis(sent, shape_of(x)[axis], axis), x)


def _rfft_transpose(g: Any, slot: int, x: Any, *, n: int, axis: int, norm: str) -> Any:
    sent = ifft(resize_axis(g, n, axis), n=n, axis=axis, norm=OTHER_NORMS[norm])
    return match_dtype(resize_axis(sent, shape_of(x)[axis], axis), x)


def _irfft_transpose(g: Any, slot: int, x: Any, *, n: int, axis: int, norm: str) -> Any:
    half = rfft(g, n=n, axis=axis, norm=OTHER_NORMS[norm])
    repeats = count_repeats(n).reshape((-1,) + (1,) * (-1 - axis))
    return match_dtype(resize_axis(half * repeats, shape_of(x)[axis], axis), x)


def _fourier_samples(*, real: bool) -> Callable[[np.random.Generator], list[tuple[Any, ...]]]:
    def draw_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
        unit = 0.0 if real else 1j
        cases: list[tuple[tuple[int, ...], dict[str, Any]]] = [
            ((5,), {"n": 5, "axis": -1, "norm": "backward"}),
            ((4,), {"n": 4, "axis": -1, "norm": "forward"}),
            ((2, 4), {"n": 6, "axis": -1, "norm": "ortho"}),
            ((5, 2), {"n": 3, "axis": -2, "norm": "backward"}),
            ((1,), {"n": 1, "axis": -1, "norm": "backward"}),
            ((3,), {"n": 8, "axis": -1, "norm": "forward"}),
        ]
        return [(rng.normal(size=shape) + unit * rng.normal(size=shape), settings) for shape, settings in cases]

    return draw_samples


fft: FourierTransform = register(
    FourierTransform(
        name="fft",
        doc="The discrete Fourier transform of n elements along an axis; its adjoint is the inverse transform.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_transform_with(np.fft.fft),
        numpy=_write_transform("fft"),
        transpose=_fft_transpose,
        samples=_fourier_samples(real=False),
    )
)
ifft: FourierTransform = register(
    FourierTransform(
        name="ifft",
        doc="The inverse discrete Fourier transform of n elements along an axis.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_transform_with(np.fft.ifft),
        numpy=_write_transform("ifft"),
        transpose=_ifft_transpose,
        samples=_fourier_samples(real=False),
    )
)
rfft: FourierTransform = register(
    FourierTransform(
        name="rfft",
        doc="The first half of the discrete Fourier transform of n real elements along an axis.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_transform_with(np.fft.rfft),
        numpy=_write_transform("rfft"),
        transpose=_rfft_transpose,
        samples=_fourier_samples(real=True),
    )
)
irfft: FourierTransform = register(
    FourierTransform(
        name="irfft",
        doc="The n real elements of whose discrete Fourier transform the first half is given.",
        inputs=("x",),
        pattern=Pattern.DISTRIBUTE,
        forward=_transform_with(np.fft.irfft),
        numpy=_write_transform("irfft"),
        transpose=_irfft_transpose,
        samples=_fourier_samples(real=False),
    )
)


_RECURSE = '''\
def recurse(x, a):
    """Return y with y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ..., along the last axis."""
    y = np.array(x)
    order, count = a.shape[-1], x.shape[-1]
    if y.size and y.size // count <= 8:
        for place in np.ndindex(x.shape[:-1]):
            row, weights = x[place].tolist(), a[place].tolist()
            for n in range(1, count):
                for k in range(1, min(order, n) + 1):
                    row[n] -= weights[k - 1] * row[n - k]
            y[place] = row
        return y
    for n in range(1, count):
        k = min(order, n)
        y[..., n] -= (a[..., :k] * y[..., n - k : n][..., ::-1]).sum(axis=-1)
    return y
'''


def flip_last(x: Any) -> Any:
    """Return the elements in reverse order along the last axis."""
    return TABLE["getitem"](x, index=(("slice", None, None, -1),))


def _delay(y: Any, steps: int) -> Any:
    """Return y moved to later places along the last axis, with 0 in front."""
    count = shape_of(y)[-1]
    kept = TABLE["getitem"](y, index=(("slice", 0, max(count - steps, 0), None),))
    return TABLE["put_add"](kept, index=(("slice", min(steps, count), None, None),), shape=(count,))


def _recurse_back(slot: int, g: Any, xs: Any, y: Any) -> Any:
    a = conjugate_flow(xs[1])
    sent = flip_last(recurse(flip_last(g), a))
    if slot == 0:
        return sent
    parts = [
        TABLE["sum"](sent * conjugate_flow(_delay(y, k + 1)), axes=(-1,), keepdims=True) for k in range(shape_of(a)[-1])
    ]
    return -TABLE["concatenate"](*parts, axis=-1)


def _recurse_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    if slot == 0:
        return recurse(t, xs[1])
    moved: Any = None
    for k in range(shape_of(t)[-1]):
        weight = TABLE["getitem"](t, index=(("slice", k, k + 1, None),))
        part = TABLE["spread"](weight, rank=1, shape=(shape_of(y)[-1],)) * _delay(y, k + 1)
        moved = part if moved is None else moved + part
    return recurse(-moved, xs[1])


recurse: General = register(
    General(
        name="recurse",
        doc="The recursive part of a digital filter: y[n] = x[n] - a[0] y[n-1] - a[1] y[n-2] - ...",
        inputs=("x", "a"),
        pattern=Pattern.SWAP,
        forward=define_helper(_RECURSE),
        numpy="recurse({x}, {a})",
        numpy_needs=(_RECURSE,),
        back=_recurse_back,
        ahead=_recurse_ahead,
        samples=lambda rng: [
            (rng.normal(size=6), 0.3 * rng.normal(size=2), {}),
            (rng.normal(size=(2, 5)), 0.3 * rng.normal(size=(2, 3)), {}),
            (rng.normal(size=(3, 4, 4)), 0.3 * rng.normal(size=(3, 4, 1)), {}),
            (rng.normal(size=1), 0.3 * rng.normal(size=1), {}),
            (rng.normal(size=2), 0.3 * rng.normal(size=4), {}),
        ],
    )
)
