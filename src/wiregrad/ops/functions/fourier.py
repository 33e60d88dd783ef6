"""Fourier transforms: the functions of `np.fft` and `scipy.fft`, and cosine and sine transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import conjugate_flow
from wiregrad.ops.fourier_records import OTHER_NORMS, resize_axis
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    axis_from_end,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import flip, roll
from wiregrad.ops.gradient_flow import shape_of


def _complex_calls(*calls: Any) -> SampleMaker:
    """Return a sampler of calls in which every other array is complex."""
    draw = sample_calls(*calls)

    def draw_complex(rng: np.random.Generator) -> list[tuple[Any, ...]]:
        drawn = [list(call) for call in draw(rng)]
        for call in drawn:
            call[0] = call[0] + 1j * rng.normal(size=np.shape(call[0]))
        return [tuple(call) for call in drawn]

    return draw_complex


_LINE_CALLS = (
    (N(5),),
    (N(2, 4),),
    (N(4, 3), {"axis": 0}),
    (N(2, 5), {"n": 3}),
    (N(4), {"n": 7, "norm": "ortho"}),
    (N(6), {"norm": "forward"}),
    (N(1), {"n": 2}),
)
"""Calls of a transform along one axis."""
_PLANE_CALLS = (
    (N(3, 4),),
    (N(2, 3, 4),),
    (N(4, 3, 2), {"axes": (0, 1)}),
    (N(3, 4), {"s": (2, 6), "axes": (-2, -1)}),
    (N(4, 2), {"norm": "ortho"}),
    (N(4, 2), {"norm": "forward"}),
)
"""Calls of a transform along two or more axes."""


def _read_norm(norm: Any) -> str:
    if norm is None:
        return "backward"
    if norm not in OTHER_NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return str(norm)


def _transform(name: str, x: Any, n: Any, axis: Any, norm: Any) -> Any:
    x = lift(x)
    axis = axis_from_end(axis, ndim_of(x))
    length = shape_of(x)[axis] if n is None else int(n)
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    return TABLE[name](x, n=length, axis=axis, norm=_read_norm(norm))


@register_function(np.fft.fft, scipy=("scipy.fft.fft",), samples=_complex_calls(*_LINE_CALLS))
def fft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete Fourier transform along an axis."""
    return _transform("fft", a, n, axis, norm)


@register_function(np.fft.ifft, scipy=("scipy.fft.ifft",), samples=_complex_calls(*_LINE_CALLS))
def ifft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The inverse discrete Fourier transform along an axis."""
    return _transform("ifft", a, n, axis, norm)


@register_function(np.fft.rfft, scipy=("scipy.fft.rfft",), samples=sample_calls(*_LINE_CALLS))
def rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete Fourier transform of real numbers along an axis, without the half that follows by symmetry."""
    a = lift(a)
    if dtype_of(a).kind == "c":
        raise TypeError("rfft takes real numbers; got complex ones: use fft")
    return _transform("rfft", a, n, axis, norm)


@register_function(np.fft.irfft, scipy=("scipy.fft.irfft",), samples=_complex_calls(*_LINE_CALLS[:-1], (N(2),)))
def irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The real numbers whose transform `rfft` gave; `n` says how many, 2 (m - 1) of m elements by default."""
    a = lift(a)
    if n is None:
        n = 2 * (shape_of(a)[axis_from_end(axis, ndim_of(a))] - 1)
    return _transform("irfft", a, n, axis, norm)


@register_function(np.fft.hfft, scipy=("scipy.fft.hfft",), samples=_complex_calls(*_LINE_CALLS[:-1], (N(2),)))
def hfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The real transform of a signal of which one half is given, the other being its conjugate."""
    return irfft(conjugate_flow(lift(a)), n, axis, OTHER_NORMS[_read_norm(norm)])


@register_function(np.fft.ihfft, scipy=("scipy.fft.ihfft",), samples=sample_calls(*_LINE_CALLS))
def ihfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The inverse of `hfft`."""
    return conjugate_flow(rfft(a, n, axis, OTHER_NORMS[_read_norm(norm)]))


def _list_lengths(x: Any, s: Any, axes: Any) -> list[tuple[int, int]]:
    """Return the axes of a transform, counted from the end, and how many elements are transformed along each."""
    ndim = ndim_of(x)
    if axes is None:
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    chosen = [axis_from_end(int(axis), ndim) for axis in axes]
    lengths = [-1] * len(chosen) if s is None else [-1 if n is None else int(n) for n in s]
    if len(lengths) != len(chosen):
        raise ValueError("Shape and axes have different lengths.")
    return [(axis, shape_of(x)[axis] if n == -1 else n) for axis, n in zip(chosen, lengths, strict=True)]


def _transform_each(transform: Callable[..., Any], x: Any, along: Sequence[tuple[int, int]], norm: Any) -> Any:
    """Transform along several axes, the last one first."""
    for axis, n in reversed(along):
        x = transform(x, n, axis, norm)
    return x


@register_function(np.fft.fftn, scipy=("scipy.fft.fftn",), samples=_complex_calls(*_PLANE_CALLS))
def fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete Fourier transform along several axes."""
    a = lift(a)
    return _transform_each(fft, a, _list_lengths(a, s, axes), norm)


@register_function(np.fft.ifftn, scipy=("scipy.fft.ifftn",), samples=_complex_calls(*_PLANE_CALLS))
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The inverse discrete Fourier transform along several axes."""
    a = lift(a)
    return _transform_each(ifft, a, _list_lengths(a, s, axes), norm)


@register_function(np.fft.rfftn, scipy=("scipy.fft.rfftn",), samples=sample_calls(*_PLANE_CALLS))
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete Fourier transform of real numbers along several axes; the last of them is halved."""
    a = lift(a)
    *rest, (axis, n) = _list_lengths(a, s, axes)
    return _transform_each(fft, rfft(a, n, axis, norm), rest, norm)


@register_function(np.fft.irfftn, scipy=("scipy.fft.irfftn",), samples=_complex_calls(*_PLANE_CALLS))
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The real numbers whose transform `rfftn` gave."""
    a = lift(a)
    along = _list_lengths(a, s, axes)
    *rest, (axis, n) = along
    if s is None or s[-1] in (None, -1):
        n = 2 * (shape_of(a)[axis] - 1)
    for each, length in rest:
        a = ifft(a, length, each, norm)
    return irfft(a, n, axis, norm)


@register_function(np.fft.fft2, scipy=("scipy.fft.fft2",), samples=_complex_calls(*_PLANE_CALLS))
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete Fourier transform along two axes."""
    return fftn(a, s, axes, norm)


@register_function(np.fft.ifft2, scipy=("scipy.fft.ifft2",), samples=_complex_calls(*_PLANE_CALLS))
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The inverse discrete Fourier transform along two axes."""
    return ifftn(a, s, axes, norm)


@register_function(np.fft.rfft2, scipy=("scipy.fft.rfft2",), samples=sample_calls(*_PLANE_CALLS))
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete Fourier transform of real numbers along two axes; the last of them is halved."""
    return rfftn(a, s, axes, norm)


@register_function(np.fft.irfft2, scipy=("scipy.fft.irfft2",), samples=_complex_calls(*_PLANE_CALLS))
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The real numbers whose transform `rfft2` gave."""
    return irfftn(a, s, axes, norm)


_SHIFT_CALLS = ((N(5),), (N(4),), (N(3, 4),), (N(3, 4), {"axes": 0}), (N(2, 5), {"axes": (1,)}), (N(2, 3, 4),))


@register_function(np.fft.fftshift, scipy=("scipy.fft.fftshift",), samples=sample_calls(*_SHIFT_CALLS))
def fftshift(x: Any, axes: Any = None) -> Any:
    """The elements rolled so that frequency 0 is in the middle."""
    return _shift_halves(lift(x), axes, 1)


@register_function(np.fft.ifftshift, scipy=("scipy.fft.ifftshift",), samples=sample_calls(*_SHIFT_CALLS))
def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return _shift_halves(lift(x), axes, -1)


def _shift_halves(x: Any, axes: Any, sign: int) -> Any:
    ndim = ndim_of(x)
    chosen = range(ndim) if axes is None else np.atleast_1d(axes)
    places = tuple(axis_from_end(int(axis), ndim) for axis in chosen)
    return roll(x, tuple(sign * (shape_of(x)[axis] // 2) for axis in places), places)


INVERSE_TYPES = {1: 1, 2: 3, 3: 2, 4: 4}
"""The type of cosine or sine transform that inverts another, but for a factor."""
_TRIGONOMETRIC_CALLS = (
    (N(5),),
    (N(4), {"type": 1}),
    (N(2, 4), {"type": 3}),
    (N(5, 2), {"type": 4, "axis": 0}),
    (N(4), {"norm": "ortho"}),
    (N(4), {"type": 3, "norm": "ortho"}),
    (N(4), {"type": 1, "norm": "ortho"}),
    (N(2, 5), {"n": 7, "norm": "forward"}),
    (N(5), {"type": 4, "norm": "ortho", "n": 3}),
)


@register_function(scipy=("scipy.fft.dct",), samples=sample_calls(*_TRIGONOMETRIC_CALLS))
def dct(x: Any, type: int = 2, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete cosine transform along an axis, of type 1, 2, 3 or 4."""
    return _trigonometric("cos", x, type, n, axis, norm, **settings)


@register_function(scipy=("scipy.fft.idct",), samples=sample_calls(*_TRIGONOMETRIC_CALLS))
def idct(x: Any, type: int = 2, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The inverse of the discrete cosine transform of a type."""
    return _trigonometric("cos", x, _invert_type(type), n, axis, OTHER_NORMS[_read_norm(norm)], **settings)


@register_function(scipy=("scipy.fft.dst",), samples=sample_calls(*_TRIGONOMETRIC_CALLS))
def dst(x: Any, type: int = 2, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete sine transform along an axis, of type 1, 2, 3 or 4."""
    return _trigonometric("sin", x, type, n, axis, norm, **settings)


@register_function(scipy=("scipy.fft.idst",), samples=sample_calls(*_TRIGONOMETRIC_CALLS))
def idst(x: Any, type: int = 2, n: Any = None, axis: Any = -1, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The inverse of the discrete sine transform of a type."""
    return _trigonometric("sin", x, _invert_type(type), n, axis, OTHER_NORMS[_read_norm(norm)], **settings)


_TRIGONOMETRIC_PLANES = (
    (N(2, 3),),
    (N(3, 2), {"type": 3}),
    (N(2, 1, 2), {"axes": (0, 2)}),
    (N(2, 2), {"norm": "ortho"}),
    (N(2, 3), {"type": 1, "norm": "forward"}),
    (N(2, 2), {"s": (3, 2)}),
)


@register_function(scipy=("scipy.fft.dctn",), samples=sample_calls(*_TRIGONOMETRIC_PLANES))
def dctn(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete cosine transform along several axes."""
    return _transform_planes(dct, lift(x), type, s, axes, norm, settings)


@register_function(scipy=("scipy.fft.idctn",), samples=sample_calls(*_TRIGONOMETRIC_PLANES))
def idctn(
    x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any
) -> Any:
    """The inverse of the discrete cosine transform along several axes."""
    return _transform_planes(idct, lift(x), type, s, axes, norm, settings)


@register_function(scipy=("scipy.fft.dstn",), samples=sample_calls(*_TRIGONOMETRIC_PLANES))
def dstn(x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any) -> Any:
    """The discrete sine transform along several axes."""
    return _transform_planes(dst, lift(x), type, s, axes, norm, settings)


@register_function(scipy=("scipy.fft.idstn",), samples=sample_calls(*_TRIGONOMETRIC_PLANES))
def idstn(
    x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, *scipy: Any, **settings: Any
) -> Any:
    """The inverse of the discrete sine transform along several axes."""
    return _transform_planes(idst, lift(x), type, s, axes, norm, settings)


def _transform_planes(
    transform: Callable[..., Any], x: Any, type: int, s: Any, axes: Any, norm: Any, settings: dict[str, Any]
) -> Any:
    for axis, n in _list_lengths(x, s, axes):
        x = transform(x, type, n, axis, norm, **settings)
    return x


def _invert_type(type: int) -> int:
    if type not in INVERSE_TYPES:
        raise ValueError(f"Invalid type ({type}); must be 1-4")
    return INVERSE_TYPES[type]


def _trigonometric(
    wave: str, x: Any, type: int, n: Any, axis: Any, norm: Any, orthogonalize: bool | None = None, **ignored: Any
) -> Any:
    """Return a cosine or sine transform along an axis."""
    x = lift(x)
    axis = axis_from_end(axis, ndim_of(x))
    norm = _read_norm(norm)
    _invert_type(type)
    x = resize_axis(x, shape_of(x)[axis] if n is None else int(n), axis)
    length = shape_of(x)[axis]
    if length < (2 if (wave, type) == ("cos", 1) else 1):
        raise ValueError(f"Invalid number of data points ({length}) specified.")
    x = TABLE["permute"](x, axes=_swap_with_last(ndim_of(x), axis))
    if norm == "ortho" if orthogonalize is None else orthogonalize:
        y = _TRANSFORMS[wave, type](_scale_ends(x, wave, type, before=True))
        y = _scale_ends(y, wave, type, before=False)
    else:
        y = _TRANSFORMS[wave, type](x)
    period = 2 * (length + {("cos", 1): -1, ("sin", 1): 1}.get((wave, type), 0))
    if norm != "backward":
        y = y * float(1.0 / (period if norm == "forward" else np.sqrt(period)))
    return TABLE["permute"](y, axes=_swap_with_last(ndim_of(x), axis))


def _swap_with_last(ndim: int, axis: int) -> tuple[int, ...]:
    """Return the order of axes in which one of them and the last are exchanged."""
    order = list(range(-ndim, 0))
    order[axis], order[-1] = -1, axis
    return tuple(order)


def _scale_ends(x: Any, wave: str, type: int, *, before: bool) -> Any:
    """Scale the elements at the ends by which a transform differs from an orthogonal one."""
    scale = np.ones(shape_of(x)[-1])
    end = 0 if wave == "cos" else -1
    if type == 1 and wave == "cos":
        scale[[0, -1]] = np.sqrt(2.0) if before else np.sqrt(0.5)
    elif type == 2 and not before:
        scale[end] = np.sqrt(0.5)
    elif type == 3 and before:
        scale[end] = np.sqrt(2.0)
    return x * scale.astype(dtype_of(x).type)


def _turn(angles: Any) -> Any:
    return np.exp(1j * np.pi * angles)


def _slice_last(x: Any, start: int, stop: int) -> Any:
    return TABLE["getitem"](x, index=(("slice", start, stop, None),))


def _join(*parts: Any) -> Any:
    return TABLE["concatenate"](*parts, axis=-1)


def _zero_like_column(x: Any) -> Any:
    return _slice_last(x, 0, 1) * 0.0


def _part(y: Any, name: str, like: Any) -> Any:
    """Return the real or imaginary part in the dtype of the array that was transformed."""
    part = TABLE[name](y)
    return part if dtype_of(part) == dtype_of(like) else TABLE["cast"](part, dtype=dtype_of(like).name)


def _cosine_1(x: Any) -> Any:
    n = shape_of(x)[-1]
    return _part(rfft(_join(x, flip(_slice_last(x, 1, n - 1), -1))), "real", x)


def _cosine_2(x: Any) -> Any:
    n = shape_of(x)[-1]
    half = _slice_last(rfft(_join(x, flip(x, -1))), 0, n)
    return _part(half * _turn(-np.arange(n) / (2 * n)), "real", x)


def _cosine_3(x: Any) -> Any:
    n = shape_of(x)[-1]
    weights = np.where(np.arange(n) == 0, 1.0, 2.0) * _turn(np.arange(n) / (2 * n))
    return _part(_slice_last(ifft(x * weights, 2 * n, norm="forward"), 0, n), "real", x)


def _fourth(x: Any) -> Any:
    """Return the complex numbers whose parts are the transforms of type 4."""
    n = shape_of(x)[-1]
    steps = np.arange(n)
    y = _slice_last(fft(x * _turn(-steps / (2 * n)), 2 * n), 0, n)
    return y * (2.0 * _turn(-(2 * steps + 1) / (4 * n)))


def _sine_1(x: Any) -> Any:
    n = shape_of(x)[-1]
    zero = _zero_like_column(x)
    return -_part(_slice_last(rfft(_join(zero, x, zero, -flip(x, -1))), 1, n + 1), "imag", x)


def _sine_2(x: Any) -> Any:
    n = shape_of(x)[-1]
    half = _slice_last(rfft(_join(x, -flip(x, -1))), 1, n + 1)
    return -_part(half * _turn(-np.arange(1, n + 1) / (2 * n)), "imag", x)


def _sine_3(x: Any) -> Any:
    n = shape_of(x)[-1]
    steps = np.arange(1, n + 1)
    weights = np.where(steps == n, 1.0, 2.0) * _turn(steps / (2 * n))
    whole = ifft(_join(_zero_like_column(x), x * weights), 2 * n, norm="forward")
    return _part(_slice_last(whole, 0, n), "imag", x)


_TRANSFORMS: dict[tuple[str, int], Callable[[Any], Any]] = {
    ("cos", 1): _cosine_1,
    ("cos", 2): _cosine_2,
    ("cos", 3): _cosine_3,
    ("cos", 4): lambda x: _part(_fourth(x), "real", x),
    ("sin", 1): _sine_1,
    ("sin", 2): _sine_2,
    ("sin", 3): _sine_3,
    ("sin", 4): lambda x: -_part(_fourth(x), "imag", x),
}
