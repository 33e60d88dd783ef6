"""Power spectra of `scipy.signal`: the segments of a signal are cut out, windowed, transformed and averaged."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axis_from_end, conjugate_flow
from wiregrad.ops.functions.linalg import matmul
from wiregrad.ops.functions.reduce import mean, median
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    dtype_of,
    lift,
    load_scipy,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import moveaxis, take
from wiregrad.ops.functions.signal import fft, rfft
from wiregrad.ops.gradient_flow import is_wire, shape_of


def _spectrum_calls(*more: dict[str, Any], signals: int = 1) -> SampleMaker:
    settings: tuple[dict[str, Any], ...] = (
        {"nperseg": 8},
        {"nperseg": 8, "fs": 2.5, "noverlap": 3},
        {"nperseg": 6, "detrend": "linear", "scaling": "spectrum"},
        {"nperseg": 8, "window": "boxcar", "nfft": 13, "detrend": False},
        {"nperseg": 7, "return_onesided": False},
        {"window": np.array([0.5, 1.0, 0.8, 0.2]), "axis": 0},
        *({"nperseg": 5} | one for one in more),
    )
    shapes = [(21,), (2, 16), (18,), (16,), (20,), (18, 2), *((20,) for _ in more)]
    return sample_calls(
        *((*(N(*shape) for _ in range(signals)), one) for shape, one in zip(shapes, settings, strict=True))
    )


def _read_window(window: Any, nperseg: Any, length: int) -> Any:
    """Return the weights of a segment, given by name or as an array."""
    if is_wire(window):
        raise NoRuleError(f"a spectrum has no rule for a recorded window{format_user_line()}")
    if isinstance(window, str | tuple):
        size = min(256 if nperseg is None else int(nperseg), length)
        return load_scipy("scipy.signal").get_window(window, size)
    weights = np.asarray(window) * 1.0
    if weights.dtype.kind != "f":
        raise NoRuleError(f"a spectrum has a rule for a window of real numbers{format_user_line()}")
    if weights.ndim != 1 or len(weights) > length or nperseg not in (None, len(weights)):
        raise ValueError("a window must have one axis, be nperseg long, and at most as long as the signal")
    return weights


def _remove_trend(rows: Any, detrend: Any) -> Any:
    """Return rows without their mean, or without the straight line through them."""
    if not detrend:
        return rows
    if detrend not in ("constant", "linear"):
        raise NoRuleError(
            f"a spectrum has no rule for detrend={detrend!r}; remove the trend before{format_user_line()}"
        )
    size = shape_of(rows)[-1]
    powers = np.vander(np.linspace(-1.0, 1.0, size), 2 if detrend == "linear" else 1)
    # The fitted line is linear in the elements of a row.
    rest = np.eye(size) - powers @ np.linalg.pinv(powers)
    return matmul(rows, rest.astype(dtype_of(rows)))


def _cross_spectra(
    x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any, nfft: Any, detrend: Any, return_onesided: bool,
    scaling: str, axis: int, *, overlapped: int = 2,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the frequencies, the times of the segments, and their spectra, with frequencies and segments last."""
    signals = [lift(x)] if y is None or y is x else [lift(x), lift(y)]
    if any(dtype_of(one).kind == "c" for one in signals) or is_wire(fs):
        raise NoRuleError(f"a spectrum has a rule for real signals and a plain fs{format_user_line()}")
    if len({shape_of(one) for one in signals}) > 1:
        raise NoRuleError(f"a spectrum of two signals has a rule where their shapes are equal{format_user_line()}")
    if scaling not in ("density", "spectrum"):
        raise ValueError(f"scaling must be 'density' or 'spectrum'; got {scaling!r}")
    axis = axis_from_end(axis, ndim_of(signals[0]))
    weights = _read_window(window, nperseg, shape_of(signals[0])[axis])
    factor = 1.0 / (fs * np.sum(weights**2)) if scaling == "density" else 1.0 / np.sum(weights) ** 2
    dtype = np.result_type(*map(dtype_of, signals), np.float32)
    weights = weights.astype(dtype)
    size = len(weights)
    overlap = size // overlapped if noverlap is None else int(noverlap)
    count = size if nfft is None else int(nfft)
    if overlap >= size or count < size:
        raise ValueError("noverlap must be less than nperseg, and nfft at least nperseg")
    starts = np.arange(0, shape_of(signals[0])[axis] - size + 1, size - overlap)
    transforms = []
    for one in signals:
        rows = take(moveaxis(one, axis, -1) * dtype.type(1), starts[:, None] + np.arange(size), axis=-1)
        transforms.append((rfft if return_onesided else fft)(_remove_trend(rows, detrend) * weights, count))
    power = conjugate_flow(transforms[0]) * transforms[-1]
    factors = np.full(shape_of(power)[-1], factor, dtype)
    if return_onesided:
        factors[1 : -1 if count % 2 == 0 else None] *= 2.0
    spectra = moveaxis((TABLE["real"](power) if len(signals) == 1 else power) * factors, -1, -2)
    frequencies = (np.fft.rfftfreq if return_onesided else np.fft.fftfreq)(count, 1.0 / fs)
    return frequencies, (starts + size / 2.0) / fs, spectra


def _average_segments(spectra: Any, average: str, axis: int) -> Any:
    """Return the mean or the median over segments; frequencies are moved to the axis of the signal."""
    axis = axis_from_end(axis, ndim_of(spectra) - 1)
    if average == "mean":
        return moveaxis(mean(spectra, axis=-1), -1, axis)
    if average != "median":
        raise ValueError(f"average must be 'median' or 'mean'; got {average!r}")
    # The median of such numbers is smaller than their mean, by this factor.
    even = 2.0 * np.arange(1, (shape_of(spectra)[-1] - 1) // 2 + 1)
    bias = 1.0 + float(np.sum(1.0 / (even + 1.0) - 1.0 / even))
    if dtype_of(spectra).kind == "c":
        middle = median(TABLE["real"](spectra), axis=-1) + 1j * median(TABLE["imag"](spectra), axis=-1)
    else:
        middle = median(spectra, axis=-1)
    return moveaxis(middle / bias, -1, axis)


def _average_spectra(x: Any, y: Any, *settings: Any, average: str = "mean") -> tuple[Any, Any]:
    """Return the frequencies and the mean or median spectrum of segments; the last of the settings is the axis."""
    frequencies, _, spectra = _cross_spectra(x, y, *settings)
    return frequencies, _average_segments(spectra, average, settings[-1])


@register_function(scipy=("scipy.signal.welch",), samples=_spectrum_calls({"average": "median"}))
def welch(
    x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None, nfft: Any = None,
    detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density", axis: int = -1,
    average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """Frequencies and the power spectrum of a real signal, averaged over segments that overlap."""
    settings = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis)
    return _average_spectra(x, None, *settings, average=average)


@register_function(scipy=("scipy.signal.csd",), samples=_spectrum_calls({"average": "median"}, signals=2))
def csd(
    x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None,
    nfft: Any = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, average: str = "mean",
) -> tuple[Any, Any]:  # fmt: skip
    """Frequencies and the cross spectrum of two real signals, averaged over segments that overlap."""
    settings = (fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis)
    return _average_spectra(x, y, *settings, average=average)


@register_function(
    scipy=("scipy.signal.coherence",),
    samples=sample_calls(
        *((N(20), N(20), {"nperseg": 5 + k, "axis": 0}) for k in range(4)),
        (N(2, 16), N(2, 16), {"nperseg": 6}),
        (N(18), N(18), {"nperseg": 6, "noverlap": 2, "detrend": "linear"}),
    ),
)
def coherence(
    x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: Any = None, noverlap: Any = None,
    nfft: Any = None, detrend: Any = "constant", axis: int = -1,
) -> tuple[Any, Any]:  # fmt: skip
    """Frequencies and the squared cross spectrum of two real signals, divided by their power spectra."""
    settings = (fs, window, nperseg, noverlap, nfft, detrend, True, "density", axis)
    frequencies, own = _average_spectra(x, None, *settings)
    other = _average_spectra(y, None, *settings)[1]
    cross = _average_spectra(x, y, *settings)[1]
    return frequencies, TABLE["real"](conjugate_flow(cross) * cross) / own / other


@register_function(
    scipy=("scipy.signal.periodogram",),
    samples=sample_calls(
        (N(8),),
        (N(2, 7), {"fs": 2.5}),
        (N(8), {"window": "hann", "scaling": "spectrum"}),
        (N(6), {"nfft": 9, "detrend": "linear"}),
        (N(6, 2), {"axis": 0, "detrend": False}),
        (N(7), {"return_onesided": False}),
    ),
)
def periodogram(
    x: Any, fs: Any = 1.0, window: Any = "boxcar", nfft: Any = None, detrend: Any = "constant",
    return_onesided: bool = True, scaling: str = "density", axis: int = -1,
) -> tuple[Any, Any]:  # fmt: skip
    """Frequencies and the power spectrum of a real signal, taken as one segment."""
    size = shape_of(lift(x))[axis]
    if nfft is not None and nfft < size:
        raise NoRuleError(f"scipy.signal.periodogram has no rule for nfft below the length; cut x{format_user_line()}")
    weights = "boxcar" if window is None else window
    return _average_spectra(x, None, fs, weights, size, 0, nfft, detrend, return_onesided, scaling, axis)


@register_function(
    scipy=("scipy.signal.spectrogram",),
    samples=sample_calls(
        (N(20), {"nperseg": 8}),
        (N(2, 16), {"nperseg": 8, "fs": 2.5, "noverlap": 3}),
        (N(18), {"nperseg": 6, "window": "hann", "scaling": "spectrum", "detrend": "linear"}),
        (N(18, 2), {"nperseg": 9, "axis": 0}),
        (N(16), {"nperseg": 7, "nfft": 10, "detrend": False}),
        (N(17), {"nperseg": 8, "return_onesided": False}),
    ),
)
def spectrogram(
    x: Any, fs: Any = 1.0, window: Any = ("tukey", 0.25), nperseg: Any = None, noverlap: Any = None,
    nfft: Any = None, detrend: Any = "constant", return_onesided: bool = True, scaling: str = "density",
    axis: int = -1, mode: str = "psd",
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Frequencies, times and the power spectra of the segments of a real signal."""
    if mode != "psd":
        raise NoRuleError(
            f"scipy.signal.spectrogram has no rule for mode={mode!r}: write scipy.signal.stft{format_user_line()}"
        )
    frequencies, times, spectra = _cross_spectra(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, overlapped=8
    )
    return frequencies, times, moveaxis(spectra, -2, axis_from_end(axis, ndim_of(spectra) - 1) - 1)
