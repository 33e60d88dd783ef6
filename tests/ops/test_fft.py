"""Fourier transforms: adjoints, lengths, norms and second derivatives, beside what follows from the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft

import wiregrad as wg
from wiregrad.ops import TABLE
from wiregrad.ops.fourier_records import count_repeats

LINES = {"fft": np.fft.fft, "ifft": np.fft.ifft, "rfft": np.fft.rfft, "irfft": np.fft.irfft, "hfft": np.fft.hfft}
RNG = np.random.default_rng(5)


def difference_gradient(f: Callable[[Any], float], x: Any, step: float = 1e-6) -> Any:
    """Return the gradient of a real function of complex numbers, real and imaginary parts apart, by differences."""
    gradient = np.zeros(x.shape, x.dtype)
    for place in np.ndindex(x.shape):
        for unit in (1.0, 1j)[: 1 + np.iscomplexobj(x)]:
            move = np.zeros(x.shape, x.dtype)
            move[place] = unit * step
            gradient[place] += unit * (f(x + move) - f(x - move)) / (2 * step)
    return gradient


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 4, 9])
def test_transforms_of_any_length_and_norm(name: str, norm: str | None, n: int | None) -> None:
    x = RNG.normal(size=(2, 5)) + (0.0 if name == "rfft" else 1j * RNG.normal(size=(2, 5)))
    weights = RNG.normal(size=LINES[name](x, n, norm=norm).shape)

    def f(x: Any) -> Any:
        return np.sum(weights * np.abs(LINES[name](x, n, norm=norm)) ** 2)

    np.testing.assert_allclose(wg.grad(f)(x), difference_gradient(f, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_the_transpose_is_the_adjoint(name: str) -> None:
    op = TABLE[name]
    x = RNG.normal(size=6) + (0.0 if name == "rfft" else 1j * RNG.normal(size=6))
    settings: dict[str, Any] = {"n": 7, "axis": -1, "norm": "backward"}
    y = op(x, **settings)
    g = RNG.normal(size=y.shape) + (0.0 if name == "irfft" else 1j * RNG.normal(size=y.shape))
    sent = op.transpose(g, 0, x, **settings)  # type: ignore[attr-defined]

    assert np.vdot(g, y).real == pytest.approx(np.vdot(sent, x).real)


def test_a_spectrum_counts_its_inner_frequencies_twice() -> None:
    assert count_repeats(6).tolist() == [1.0, 2.0, 2.0, 1.0]


def test_a_convolution_by_spectra_has_exact_second_derivatives() -> None:
    kernel = np.array([1.0, -2.0, 0.5, 0.0])

    def energy(x: Any) -> Any:
        return np.sum(np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(kernel), 4) ** 2)

    rolled = np.stack([np.roll(kernel, k) for k in range(4)], 1)

    np.testing.assert_allclose(wg.hessian(energy)(np.arange(4.0)), 2.0 * rolled.T @ rolled, atol=1e-12)


def test_frequencies_stay_plain() -> None:
    assert wg.grad(lambda x: np.sum(x * np.fft.fftfreq(3)))(np.ones(3)).tolist() == np.fft.fftfreq(3).tolist()


def test_a_listing_calls_the_same_transform() -> None:
    circuit = wg.trace(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2), np.arange(4.0))

    assert "np.fft.fft(x, n=4, axis=0)" in circuit.to_numpy()


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_inverse_cosine_and_sine_transforms_give_the_signal_back(type: int, norm: str | None) -> None:
    x = RNG.normal(size=6)

    np.testing.assert_allclose(wg.idct(wg.dct(x, type, norm=norm), type, norm=norm), x)
    np.testing.assert_allclose(wg.idst(wg.dst(x, type, norm=norm), type, norm=norm), x)


@pytest.mark.parametrize("orthogonalize", [True, False])
def test_orthogonalize_is_scipys(orthogonalize: bool) -> None:
    x = RNG.normal(size=5)
    for type in (1, 2, 3):
        np.testing.assert_allclose(
            wg.dct(x, type, orthogonalize=orthogonalize), scipy.fft.dct(x, type, orthogonalize=orthogonalize)
        )


def test_no_points_are_refused() -> None:
    with pytest.raises(wg.WiregradError, match="Invalid number of FFT data points"):
        wg.grad(lambda x: np.sum(np.abs(np.fft.fft(x, 0))))(np.ones(3))
