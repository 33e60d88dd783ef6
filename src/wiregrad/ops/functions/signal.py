"""Fourier transforms, and filters of signals and images: `np.fft` and `scipy.fft`, `scipy.signal` and `scipy.ndimage`.

Cosine and sine transforms are here, too. The functions have NumPy's and SciPy's names and arguments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axis_from_end, conjugate_flow
from wiregrad.ops.fourier_records import OTHER_NORMS, resize_axis
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import flip, moveaxis, roll
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.reduce_records import slice_axis


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
    length = shape_of(x)[axis] if n is None else operator.index(n)
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
    chosen = [axis_from_end(axis, ndim) for axis in axes]
    lengths = [-1] * len(chosen) if s is None else [-1 if n is None else operator.index(n) for n in s]
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
    places = tuple(axis_from_end(axis, ndim) for axis in chosen)
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
    x = resize_axis(x, shape_of(x)[axis] if n is None else operator.index(n), axis)
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


MAX_DIRECT_SIZE = 256
"""Maximum number of elements of a kernel that is slid over a signal; larger ones are multiplied as spectra."""


def _convolve_calls(*settings: dict[str, Any]) -> Any:
    shapes = [
        ((6,), (3,)),
        ((3,), (5,)),
        ((4, 5), (2, 3)),
        ((5,), (5,)),
        ((3, 4), (3, 2)),
        ((1,), (1,)),
        ((4, 2), (1, 2)),
    ]
    return sample_calls(*((N(*a), N(*b), settings[k % len(settings)]) for k, (a, b) in enumerate(shapes)))


@register_function(
    scipy=("scipy.signal.convolve",),
    samples=_convolve_calls({}, {"mode": "same"}, {"mode": "valid"}, {"method": "fft"}),
)
def scipy_convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Slide one array, turned around, over another, along all axes."""
    a, b = _as_pair(in1, in2, "convolve")
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    if not ndim_of(a):
        return a * b
    if mode == "valid":
        a, b, _ = _larger_first(a, b)
    is_small = min(prod(shape_of(a)), prod(shape_of(b))) <= MAX_DIRECT_SIZE
    full = _slide(a, b) if method == "direct" or (method == "auto" and is_small) else _multiply_spectra(a, b)
    return _crop(full, shape_of(a), shape_of(b), mode)


@register_function(
    scipy=("scipy.signal.fftconvolve",),
    samples=sample_calls(
        (N(6), N(3)),
        (N(3), N(5), {"mode": "same"}),
        (N(4, 5), N(2, 3), {"mode": "valid"}),
        (N(2, 5), N(2, 3), {"axes": 1}),
        (N(1, 5), N(3, 3), {"axes": [-1], "mode": "same"}),
        (N(1), N(1)),
    ),
)
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolve arrays by multiplying their spectra, along all axes or some of them."""
    a, b = _as_pair(in1, in2, "fftconvolve")
    ndim = ndim_of(a)
    if not ndim:
        return a * b
    listed = range(-ndim, 0) if axes is None else np.atleast_1d(axes)
    chosen = [axis_from_end(axis, ndim) for axis in listed]
    if mode == "valid":
        a, b, _ = _larger_first(a, b, chosen)
    full = _multiply_spectra(a, b, chosen)
    return _crop(full, shape_of(a), shape_of(b), mode, chosen)


@register_function(
    scipy=("scipy.signal.correlate",),
    samples=_convolve_calls({}, {"mode": "same"}, {"mode": "valid"}, {"method": "fft"}),
)
def scipy_correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Slide one array over another, along all axes, without turning it around."""
    a, b = _as_pair(in1, in2, "correlate")
    if mode == "valid":
        a, b, is_swapped = _larger_first(a, b)
        if is_swapped:
            return flip(conjugate_flow(scipy_convolve(a, flip(conjugate_flow(b)), mode, method)))
    return scipy_convolve(a, flip(conjugate_flow(b)), mode, method)


_IMAGE_PAIR_CALLS = sample_calls(
    (N(4, 5), N(2, 3)),
    (N(4, 5), N(3, 3), {"mode": "same"}),
    (N(4, 5), N(2, 2), {"mode": "valid"}),
    (N(3, 3), N(3, 3)),
    (N(3, 4), N(2, 2), {"mode": "same"}),
    (N(1, 4), N(1, 2), {"mode": "same"}),
    (N(2, 2), N(3, 4), {"mode": "valid"}),
    (N(1, 1), N(1, 1)),
)


@register_function(scipy=("scipy.signal.convolve2d",), samples=_IMAGE_PAIR_CALLS, name="signal.convolve2d")
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Slide one image, turned around, over another."""
    return scipy_convolve(*_as_images(in1, in2, "convolve2d", boundary, fillvalue), mode)


@register_function(scipy=("scipy.signal.correlate2d",), samples=_IMAGE_PAIR_CALLS, name="signal.correlate2d")
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    """Slide one image over another, without turning it around."""
    a, b = _as_images(in1, in2, "correlate2d", boundary, fillvalue)
    if mode != "same":
        return scipy_correlate(a, b, mode)
    # Unlike `correlate`, it puts the middle of an even kernel behind the centre.
    full = scipy_correlate(a, b)
    for axis in (-2, -1):
        start = shape_of(b)[axis] // 2
        full = slice_axis(full, axis, start, start + shape_of(a)[axis])
    return full


def _as_images(in1: Any, in2: Any, name: str, boundary: str, fillvalue: Any) -> tuple[Any, Any]:
    if boundary not in ("fill", 0) or is_wire(fillvalue) or fillvalue != 0:
        raise NoRuleError(
            f"scipy.signal.{name} has a rule for boundary='fill' with zeros; for others, write np.pad(image, n, mode) "
            f"before{format_user_line()}"
        )
    a, b = _as_pair(in1, in2, name)
    if ndim_of(a) != 2:
        raise ValueError(f"{name} inputs must both be 2-D arrays")
    return a, b


def _as_pair(in1: Any, in2: Any, name: str) -> tuple[Any, Any]:
    a = lift(in1)
    b = lift(in2)
    if ndim_of(a) != ndim_of(b):
        raise ValueError(f"{name}: in1 and in2 should have the same dimensionality")
    dtype = np.result_type(dtype_of(a), dtype_of(b))
    return _cast_to(a, dtype), _cast_to(b, dtype)


def _cast_to(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if dtype_of(x) == dtype else TABLE["cast"](x, dtype=dtype.name)


def _larger_first(a: Any, b: Any, axes: Sequence[int] | None = None) -> tuple[Any, Any, bool]:
    """Return two arrays with the one first that is at least as long along every axis, and whether they were swapped."""
    pairs = [(shape_of(a)[k], shape_of(b)[k]) for k in (range(ndim_of(a)) if axes is None else axes)]
    if all(n >= m for n, m in pairs):
        return a, b, False
    if all(m >= n for n, m in pairs):
        return b, a, True
    raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")


def _slide(a: Any, b: Any) -> Any:
    """Return the full convolution, by products with windows of the padded array."""
    if prod(shape_of(b)) > prod(shape_of(a)):
        a, b = b, a
    size = shape_of(b)
    shape = tuple(n + 2 * (m - 1) for n, m in zip(shape_of(a), size, strict=True))
    inside = tuple(("slice", m - 1, m - 1 + n, None) for n, m in zip(shape_of(a), size, strict=True))
    padded = TABLE["put_add"](a, index=inside, shape=shape)
    return slide_kernel(padded, flip(b))


def slide_kernel(x: Any, kernel: Any) -> Any:
    """Return the products of a kernel with every window of an array."""
    size = shape_of(kernel)
    ones = (1,) * len(size)
    cut = TABLE["windows"](x, size=size, step=ones, dilation=ones)
    counts = shape_of(cut)[: len(size)]
    rows = TABLE["reshape"](cut, rank=2 * len(size), shape=(prod(counts), prod(size)))
    column = TABLE["reshape"](kernel, rank=len(size), shape=(prod(size), 1))
    return TABLE["reshape"](TABLE["matmul"](rows, column), rank=2, shape=counts)


def _multiply_spectra(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """Return the full convolution along axes, by multiplying spectra."""
    chosen = range(-ndim_of(a), 0) if axes is None else axes
    lengths = [shape_of(a)[axis] + shape_of(b)[axis] - 1 for axis in chosen]
    if dtype_of(a).kind == "c":
        return ifftn(fftn(a, lengths, chosen) * fftn(b, lengths, chosen), lengths, chosen)
    y = irfftn(rfftn(a, lengths, chosen) * rfftn(b, lengths, chosen), lengths, chosen)
    return _cast_to(y, dtype_of(a))


def _crop(full: Any, first: Sequence[int], second: Sequence[int], mode: str, axes: Sequence[int] | None = None) -> Any:
    """Return the part of a full convolution that a mode asks for."""
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise ValueError("acceptable mode flags are 'valid', 'same', or 'full'")
    chosen = range(-len(first), 0) if axes is None or mode == "same" else axes
    index: list[Any] = [("slice", None, None, None)] * len(first)
    for axis in chosen:
        length = first[axis] if mode == "same" else first[axis] - second[axis] + 1
        start = (shape_of(full)[axis] - length) // 2
        index[axis] = ("slice", start, start + length, None)
    return TABLE["getitem"](full, index=tuple(index))


def _filter_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    b, a = rng.normal(size=3), np.array([1.5, 0.4, -0.2])
    x = rng.normal(size=(2, 4))
    return [
        (b, a, x, {}),
        (b, a, x, {"axis": 0}),
        (b, np.array([2.0]), x[0], {}),
        (b[:1], a, x[0], {}),
        (b, a, x[0], -1, rng.normal(size=2), {}),
        (b[:2], np.array([1.0, 0.5]), x, 1, rng.normal(size=(2, 1)), {}),
        (b, np.array([2.0]), x[0], -1, rng.normal(size=2), {}),
    ]


@register_function(scipy=("scipy.signal.lfilter",), samples=_filter_calls)
def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter a signal along an axis: a[0] y[n] = b[0] x[n] + b[1] x[n-1] + ... - a[1] y[n-1] - ...

    With initial conditions `zi`, the final ones are returned too.
    """
    b, a = (TABLE["reshape"](c, rank=0, shape=(1,)) if not ndim_of(c) else c for c in (lift(b), lift(a)))
    x = lift(x)
    axis = axis_from_end(axis, ndim_of(x))
    dtype = np.result_type(*(dtype_of(part) for part in (b, a, x) if part is not None), np.float32)
    b, a, x = (_cast_to(part, dtype) for part in (b, a, x))
    lead = TABLE["getitem"](a, index=(0,))
    b = b / lead
    rest = TABLE["getitem"](a, index=(("slice", 1, None, None),)) / lead
    x = moveaxis(x, axis, -1)
    count = shape_of(x)[-1]
    order = max(shape_of(b)[0], shape_of(a)[0]) - 1
    raw = _convolve_last(x, b, count + order)
    if zi is not None:
        raw = raw + resize_axis(_cast_to(moveaxis(lift(zi), axis, -1), dtype), count + order, -1)
    y = TABLE["getitem"](raw, index=(("slice", 0, count, None),))
    if shape_of(rest)[0]:
        shape = (*shape_of(x)[:-1], *shape_of(rest))
        y = TABLE["recurse"](y, rest if ndim_of(x) == 1 else TABLE["spread"](rest, rank=1, shape=shape))
    if zi is None:
        return moveaxis(y, -1, axis)
    final = raw
    if shape_of(rest)[0]:
        one = np.ones(1, dtype)
        final = raw - _convolve_last(y, TABLE["concatenate"](one, rest, axis=-1), count + order)
    tail = TABLE["getitem"](final, index=(("slice", count, None, None),))
    return moveaxis(y, -1, axis), moveaxis(tail, -1, axis)


def _convolve_last(x: Any, kernel: Any, length: int) -> Any:
    """Return the convolution along the last axis, cropped or filled up with zeros to a length."""
    size, count = shape_of(kernel)[0], shape_of(x)[-1]
    shape = (count + 2 * (size - 1),)
    padded = TABLE["put_add"](x, index=(("slice", size - 1, size - 1 + count, None),), shape=shape)
    cut = TABLE["windows"](padded, size=(size,), step=(1,), dilation=(1,))
    column = TABLE["reshape"](flip(kernel), rank=1, shape=(size, 1))
    rows = TABLE["reshape"](cut, rank=ndim_of(cut), shape=(prod(shape_of(cut)[:-1]), size))
    y = TABLE["reshape"](TABLE["matmul"](rows, column), rank=2, shape=shape_of(cut)[:-1])
    return resize_axis(y, length, -1)


PAD_MODES = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "mirror": "reflect",
    "nearest": "edge",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}
"""NumPy's names of the ways in which ndimage continues an image beyond its border."""


def extend_axis(x: Any, axis: int, before: int, after: int, mode: str, cval: Any) -> Any:
    """Return an image with more elements at both ends of an axis."""
    n = shape_of(x)[axis]
    if mode in ("constant", "grid-constant"):
        rest = shape_of(x)[ndim_of(x) + axis + 1 :]
        whole = (("slice", None, None, None),) * len(rest)
        length = before + n + after
        y = TABLE["put_add"](x, index=(("slice", before, before + n, None), *whole), shape=(length, *rest))
        if not is_wire(cval) and cval == 0:
            return y
        outside = np.ones(length)
        outside[before : before + n] = 0.0
        return y + outside.reshape((length,) + (1,) * len(rest)).astype(dtype_of(x).type) * cval
    if mode not in PAD_MODES:
        raise RuntimeError("boundary mode not supported")
    if not before and not after:
        return x
    places = np.pad(np.arange(n), (before, after), PAD_MODES[mode])  # type: ignore[call-overload]
    return TABLE["take"](x, places, axis=axis)


def _read_image(input: Any, name: str, output: Any) -> Any:
    x = lift(input)
    if output is not None and not isinstance(output, type | np.dtype | str):
        raise NoRuleError(
            f"scipy.ndimage.{name} writes into output=, which cannot be recorded; assign the result{format_user_line()}"
        )
    return x if dtype_of(x).kind in "fc" else x.astype(np.float64)


def _repeat(setting: Any, count: int) -> list[Any]:
    """Return one setting for each axis."""
    if isinstance(setting, str) or is_wire(setting) or np.ndim(setting) == 0:
        return [setting] * count
    listed = list(setting)
    if len(listed) != count:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return listed


def _find_borders(size: int, origin: int) -> tuple[int, int]:
    """Return how far a kernel reaches beyond an element on both sides."""
    before = size // 2 + int(origin)
    if before < 0 or before >= max(size, 1):
        raise ValueError("invalid origin")
    return before, size - 1 - before


_LINE_FILTER_CALLS = (
    (N(6), N(3)),
    (N(6), N(4), {"mode": "constant", "cval": 0.5}),
    (N(3, 4), N(3), {"axis": 0, "mode": "nearest"}),
    (N(3, 4), N(2), {"mode": "mirror", "origin": -1}),
    (N(5), N(3), {"mode": "wrap"}),
    (N(2), N(7)),
    (N(5), N(3), {"origin": 1}),
)


@register_function(scipy=("scipy.ndimage.correlate1d",), samples=sample_calls(*_LINE_FILTER_CALLS))
def correlate1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Slide weights over an image along one axis."""
    x = _read_image(input, "correlate1d", output)
    weights = _cast_to(lift(weights), dtype_of(x)) if dtype_of(x).kind == "f" else lift(weights)
    axis = axis_from_end(axis, ndim_of(x))
    before, after = _find_borders(shape_of(weights)[0], origin)
    wide = moveaxis(extend_axis(x, axis, before, after, mode, cval), axis, -1)
    size = shape_of(weights)[0]
    cut = TABLE["windows"](wide, size=(size,), step=(1,), dilation=(1,))
    rows = TABLE["reshape"](cut, rank=ndim_of(cut), shape=(prod(shape_of(cut)[:-1]), size))
    column = TABLE["reshape"](weights, rank=1, shape=(size, 1))
    y = TABLE["reshape"](TABLE["matmul"](rows, column), rank=2, shape=shape_of(cut)[:-1])
    return moveaxis(y, -1, axis)


@register_function(
    scipy=("scipy.ndimage.convolve1d",), samples=sample_calls(*_LINE_FILTER_CALLS[:-1], (N(5), N(3), {"origin": -1}))
)
def convolve1d(
    input: Any,
    weights: Any,
    axis: int = -1,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    origin: int = 0,
) -> Any:
    """Slide weights, turned around, over an image along one axis."""
    weights = lift(weights)
    turned = -int(origin) - (1 if shape_of(weights)[0] % 2 == 0 else 0)
    return correlate1d(input, flip(weights), axis, output, mode, cval, turned)


_IMAGE_FILTER_CALLS = (
    (N(4, 5), N(3, 3)),
    (N(4, 5), N(2, 3), {"mode": "constant", "cval": 0.5}),
    (N(6), N(3), {"mode": "nearest"}),
    (N(3, 4), N(2, 2), {"mode": "mirror"}),
    (N(4, 3), N(3, 1), {"mode": "wrap"}),
    (N(3, 3), N(1, 1)),
)


@register_function(scipy=("scipy.ndimage.correlate",), samples=sample_calls(*_IMAGE_FILTER_CALLS))
def ndimage_correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Slide an array of weights over an image."""
    x = _read_image(input, "correlate", output)
    weights = _cast_to(lift(weights), dtype_of(x)) if dtype_of(x).kind == "f" else lift(weights)
    ndim = ndim_of(x)
    if axes is not None or ndim_of(weights) != ndim:
        raise NoRuleError(f"scipy.ndimage.correlate has no rule for weights with fewer axes{format_user_line()}")
    origins = _repeat(origin, ndim)
    modes = _repeat(mode, ndim)
    for axis in range(-ndim, 0):
        before, after = _find_borders(shape_of(weights)[axis], origins[axis])
        x = extend_axis(x, axis, before, after, modes[axis], cval)
    return slide_kernel(x, weights)


@register_function(scipy=("scipy.ndimage.convolve",), samples=sample_calls(*_IMAGE_FILTER_CALLS))
def ndimage_convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """Slide an array of weights, turned around, over an image."""
    weights = lift(weights)
    origins = _repeat(origin, ndim_of(weights))
    turned = [-int(k) - (n % 2 == 0) for k, n in zip(origins, shape_of(weights), strict=True)]
    return ndimage_correlate(input, flip(weights), output, mode, cval, turned, axes=axes)


_GAUSSIAN_CALLS: tuple[tuple[Any, ...], ...] = (
    (N(5), 1.0),
    (N(4), 0.7, {"mode": "constant", "cval": 0.3}),
    (N(5), 0.9, {"order": 1}),
    (N(5), 0.9, {"order": 2, "mode": "nearest"}),
    (N(4), 0.8, {"truncate": 2.0, "mode": "wrap"}),
    (N(2, 3), 0.6, {"mode": "mirror"}),
)


@register_function(scipy=("scipy.ndimage.gaussian_filter1d",), samples=sample_calls(*_GAUSSIAN_CALLS))
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: int = -1,
    order: int = 0,
    output: Any = None,
    mode: str = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Any:
    """Blur along an axis with a bell curve of a standard deviation; `order` is that of a derivative of the curve."""
    reach = int(truncate * float(detach_array(sigma)) + 0.5) if radius is None else int(radius)
    weights = flip(make_bell_weights(sigma, int(order), reach))
    return correlate1d(input, weights, axis, output, mode, cval, 0)


@register_function(
    scipy=("scipy.ndimage.gaussian_filter",),
    samples=sample_calls(
        *_GAUSSIAN_CALLS[:2], *_GAUSSIAN_CALLS[4:], (N(2, 3), 0.5, {"order": (0, 1)}), (N(2, 1, 2), 0.5)
    ),
)
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: float = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    """Blur an image with a bell curve along every axis."""
    x = _read_image(input, "gaussian_filter", output)
    ndim = ndim_of(x)
    chosen = [*range(ndim)] if axes is None else [axis_from_end(k, ndim) for k in np.atleast_1d(axes)]
    count = len(chosen)
    settings = zip(
        chosen, _repeat(sigma, count), _repeat(order, count), _repeat(mode, count), _repeat(radius, count), strict=True
    )
    for axis, deviation, degree, border, reach in settings:
        if float(detach_array(deviation)) > 1e-15:
            x = gaussian_filter1d(x, deviation, axis, degree, None, border, cval, truncate, radius=reach)
    return x


def make_bell_weights(sigma: Any, order: int, reach: int) -> Any:
    """Return a normalized bell curve at whole numbers up to a reach, or a derivative of it."""
    places = np.arange(-reach, reach + 1)
    variance = sigma * sigma
    curve = TABLE["exp"](-0.5 * (places**2) / variance)
    curve = curve / TABLE["spread"](TABLE["sum"](curve, axes=(-1,), keepdims=True), rank=1, shape=(len(places),))
    # Each derivative of p(x) exp(-x^2 / 2 s) is (p' - p x / s) times the same exponential.
    factors: list[Any] = [1.0] + [0.0] * order
    for _ in range(order):
        slopes = [(k + 1) * factors[k + 1] for k in range(order)] + [0.0]
        products = [0.0] + [factors[k] / variance for k in range(order)]
        factors = [one - two for one, two in zip(slopes, products, strict=True)]
    if not order:
        return curve
    polynomial: Any = 0.0
    for k, factor in enumerate(factors):
        polynomial = polynomial + factor * places**k
    return polynomial * curve


_MEAN_CALLS: tuple[tuple[Any, ...], ...] = (
    (N(5), 3),
    (N(4), 2, {"mode": "constant", "cval": 0.3}),
    (N(2, 3), 3),
    (N(4), 3, {"mode": "nearest"}),
    (N(4), 2, {"mode": "wrap"}),
    (N(3, 2), 1),
)


@register_function(scipy=("scipy.ndimage.uniform_filter1d",), samples=sample_calls(*_MEAN_CALLS))
def uniform_filter1d(
    input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0, origin: int = 0
) -> Any:
    """The mean of every window of a size along an axis."""
    count = operator.index(size)
    return correlate1d(input, np.full(count, 1.0 / count), axis, output, mode, cval, origin)


@register_function(scipy=("scipy.ndimage.uniform_filter",), samples=sample_calls(*_MEAN_CALLS))
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    *,
    axes: Any = None,
) -> Any:
    """The mean of every window of an image."""
    x = _read_image(input, "uniform_filter", output)
    ndim = ndim_of(x)
    chosen = [*range(ndim)] if axes is None else [axis_from_end(k, ndim) for k in np.atleast_1d(axes)]
    settings = (_repeat(each, len(chosen)) for each in (size, mode, origin))
    for axis, length, border, shift in zip(chosen, *settings, strict=True):
        x = uniform_filter1d(x, length, axis, None, border, cval, shift)
    return x


_EDGE_CALLS = sample_calls(
    (N(4, 5),),
    (N(4, 5), 0),
    (N(3, 4), {"mode": "nearest"}),
    (N(6),),
    (N(3, 3, 2), {"axis": 1}),
    (N(3, 4), {"mode": "constant", "cval": 0.5}),
)


def _register_edge_filter(name: str, across: tuple[float, ...]) -> None:
    def run(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
        x = _read_image(input, name, output)
        modes = _repeat(mode, ndim_of(x))
        place = axis_from_end(axis, ndim_of(x)) + ndim_of(x)
        y = correlate1d(x, [-1.0, 0.0, 1.0], place, None, modes[place], cval)
        for other in range(ndim_of(x)):
            y = y if other == place else correlate1d(y, across, other, None, modes[other], cval)
        return y

    run.__doc__ = f"The {name.capitalize()} filter of an image: differences along an axis, smoothed along the others."
    # A traced call is named after its code, so functions made alike must not share theirs.
    run.__code__ = run.__code__.replace(co_name=name)
    register_function(scipy=(f"scipy.ndimage.{name}",), samples=_EDGE_CALLS, name=f"ndimage.{name}")(run)


_register_edge_filter("sobel", (1.0, 2.0, 1.0))
_register_edge_filter("prewitt", (1.0, 1.0, 1.0))


@register_function(
    scipy=("scipy.ndimage.laplace",),
    name="ndimage.laplace",
    samples=sample_calls(
        (N(4, 5),),
        (N(3, 4), {"mode": "nearest"}),
        (N(6),),
        (N(3, 3, 2),),
        (N(3, 4), {"mode": "constant", "cval": 0.5}),
        (N(4, 4), {"mode": "wrap"}),
    ),
)
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """The Laplace filter of an image: the sum of second differences along all axes."""
    x = _read_image(input, "laplace", output)
    modes = _repeat(mode, ndim_of(x))
    y: Any = 0.0
    for axis in range(ndim_of(x)):
        y = y + correlate1d(x, [1.0, -2.0, 1.0], axis, None, modes[axis], cval)
    return y


_BLUR_CALLS = sample_calls(
    (N(4, 5), 0.7),
    (N(6), 0.5),
    (N(3, 4), [0.5, 0.8]),
    (N(3, 4), 0.6, {"mode": "nearest"}),
    (N(3, 3), 0.6, {"mode": "constant", "cval": 0.5}),
    (N(2, 3, 2), 0.5),
)


@register_function(scipy=("scipy.ndimage.gaussian_laplace",), samples=_BLUR_CALLS, name="ndimage.gaussian_laplace")
def gaussian_laplace(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    """The sum of second derivatives of an image that is blurred by a normal distribution."""
    x = _read_image(input, "gaussian_laplace", output)
    y: Any = 0.0
    for order in 2 * np.eye(ndim_of(x), dtype=int):
        y = y + gaussian_filter(x, sigma, order.tolist(), None, mode, cval)
    return y
