"""Options of Fourier transforms, convolutions and image filters, and the calls that NumPy and SciPy refuse too."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import scipy.ndimage
import scipy.signal

import wiregrad as wg
from wiregrad.errors import NoRuleError

from ..support.call_checks import AcceptedCall, RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

RNG = np.random.default_rng(9)
ROW = RNG.normal(size=5)
SHORT = RNG.normal(size=3)
IMAGE = RNG.normal(size=(4, 5))
KERNEL = RNG.normal(size=(2, 3))

ACCEPTED: dict[str, AcceptedCall] = {
    "convolution of two numbers": (lambda x: scipy.signal.convolve(x, 3.0), 0.7),
    "correlation of two numbers": (lambda x: scipy.signal.correlate(x, 3.0), 0.7),
    "convolution of two numbers by spectra": (lambda x: scipy.signal.fftconvolve(x, 3.0), 0.7),
    "valid convolution with the kernel first": (lambda x: scipy.signal.convolve(SHORT, x, "valid"), ROW),
    "valid correlation with the kernel first": (lambda x: scipy.signal.correlate(SHORT, x, "valid"), ROW),
    "valid correlation": (lambda x: scipy.signal.correlate(x, SHORT, "valid"), ROW),
    "convolution of complex numbers by spectra": (
        lambda x: scipy.signal.convolve(x * (1.0 + 0.5j), SHORT, method="fft").imag,
        ROW,
    ),
    "correlation of complex numbers": (lambda x: scipy.signal.correlate(x * 1j, SHORT * (2.0 - 1.0j)).real, ROW),
    **{
        f"{name} {mode}": (
            lambda x, name=name, mode=mode: getattr(scipy.signal, name)(x, KERNEL, mode),  # type: ignore[misc]
            IMAGE,
        )
        for name in ("convolve2d", "correlate2d")
        for mode in ("full", "same", "valid")
    },
    "constant beyond the border": (lambda x: scipy.ndimage.correlate1d(x, SHORT, mode="constant", cval=0.5), ROW),
    "zeros beyond the border": (lambda x: scipy.ndimage.correlate1d(x, SHORT, mode="constant"), ROW),
    "a recorded constant beyond the border": (
        lambda c: scipy.ndimage.correlate1d(ROW * c, SHORT, mode="grid-constant", cval=2.0),
        0.6,
    ),
    "blur along one of two axes": (lambda x: scipy.ndimage.gaussian_filter(x, (0.8, 0.0)), IMAGE),
    "sobel": (scipy.ndimage.sobel, IMAGE),
    "sobel of rows": (lambda x: scipy.ndimage.sobel(x, 0, mode=("nearest", "wrap")), IMAGE),
    "prewitt": (lambda x: scipy.ndimage.prewitt(x, mode="constant", cval=0.5), IMAGE),
    "laplace": (scipy.ndimage.laplace, IMAGE),
    "laplace with wrapping": (lambda x: scipy.ndimage.laplace(x, mode="wrap"), IMAGE),
    "laplace of a blurred image": (lambda x: scipy.ndimage.gaussian_laplace(x, 0.7), IMAGE),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_options_have_scipys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*ACCEPTED[name])


REFUSED: dict[str, RefusedCall] = {
    "unknown norm": (lambda x: np.fft.fft(x, norm="odd"), ROW, ValueError, "Invalid norm value odd"),
    "real transform of complex numbers": (np.fft.rfft, ROW * 1j, TypeError, "rfft takes real numbers"),
    "more lengths than axes": (
        lambda x: np.fft.fftn(x, (2, 2), (0,)),
        IMAGE,
        ValueError,
        "Shape and axes have different lengths.",
    ),
    "cosine transform of type 5": (lambda x: scipy.fft.dct(x, 5), ROW, ValueError, "Invalid type (5); must be 1-4"),
    "cosine transform of no data": (
        lambda x: scipy.fft.dct(x, n=0),
        ROW,
        ValueError,
        "Invalid number of data points (0) specified.",
    ),
    "unknown method": (lambda x: scipy.signal.convolve(x, SHORT, method="odd"), ROW, ValueError, "method flags"),
    "unknown mode": (lambda x: scipy.signal.convolve(x, SHORT, "odd"), ROW, ValueError, "mode flags"),
    "another number of axes": (
        lambda x: scipy.signal.convolve(x, KERNEL),
        ROW,
        ValueError,
        "should have the same dimensionality",
    ),
    "neither is larger": (
        lambda x: scipy.signal.convolve(x, KERNEL.T[:, :1].repeat(9, 1), "valid"),
        IMAGE,
        ValueError,
        "one must be at least as large as the other in every dimension",
    ),
    "rows as images": (
        lambda x: scipy.signal.convolve2d(x, SHORT),
        ROW,
        ValueError,
        "convolve2d inputs must both be 2-D arrays",
    ),
    "unknown border": (
        lambda x: scipy.ndimage.correlate1d(x, SHORT, mode="odd"),
        ROW,
        RuntimeError,
        "boundary mode not supported",
    ),
    "three borders of two axes": (
        lambda x: scipy.ndimage.gaussian_filter(x, (1.0, 1.0, 1.0)),
        IMAGE,
        RuntimeError,
        "must have length equal to input rank",
    ),
    "origin outside the kernel": (
        lambda x: scipy.ndimage.correlate1d(x, SHORT, origin=2),
        ROW,
        ValueError,
        "invalid origin",
    ),
    "long signal in a matrix": (lambda x: np.convolve(x, SHORT), IMAGE, ValueError, "object too deep"),
    "empty signal": (lambda x: np.convolve(x, SHORT), np.zeros(0), ValueError, "cannot be empty"),
    "unknown mode of NumPy": (lambda x: np.convolve(x, SHORT, "odd"), ROW, ValueError, "mode must be one of"),
}
WITHOUT_RULE: dict[str, RefusedCall] = {
    "wrapped image": (
        lambda x: scipy.signal.convolve2d(x, KERNEL, boundary="wrap"),
        IMAGE,
        NoRuleError,
        "has a rule for boundary='fill' with zeros",
    ),
    "complex window of a spectrum": (
        lambda x: scipy.signal.welch(x, window=np.array([1.0, 1.0j, 1.0]), return_onesided=False)[1],
        ROW,
        NoRuleError,
        "a window of real numbers",
    ),
    "kernel with fewer axes": (
        lambda x: scipy.ndimage.correlate(x, SHORT, axes=(0,)),
        IMAGE,
        NoRuleError,
        "no rule for weights with fewer axes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_numpy_or_scipy_refuses_are_refused(name: str) -> None:
    check_same_refusal(*REFUSED[name])


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_calls_without_a_rule_say_what_is_missing(name: str) -> None:
    call, x, kind, words = WITHOUT_RULE[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)


def test_the_cross_spectrum_of_a_signal_with_itself_is_real() -> None:
    value = wg.Value(RNG.normal(size=12))
    x = value.data

    found = scipy.signal.csd(value, value, nperseg=6)[1]

    assert found.dtype == np.float64
    assert np.allclose(found.data, scipy.signal.csd(x, x, nperseg=6)[1])
