"""Polynomials, calculus on grids, interpolation, convolution, np.fft."""

import numpy as np

from .points import POSITIVE, SERIES, VECTOR, WIDE
from .snippet import at


@at(np.array([0.5, -1.0, 2.0]), 1.7)
def polynomial_value(coefficients, x):
    return np.polyval(coefficients, x)


@at(np.array([0.5, -1.0, 2.0]), SERIES)
def polynomial_package_value(coefficients, x):
    return np.polynomial.polynomial.polyval(x, coefficients)


@at(np.array([0.5, -1.0, 2.0]))
def chebyshev_value(coefficients):
    return np.polynomial.chebyshev.chebval(np.array([0.1, 0.4]), coefficients)


@at(SERIES, differences=True)
def polynomial_fit(y):
    return np.polyfit(np.arange(8.0), y, 2)


@at(np.array([1.0, 2.0]), np.array([0.5, -1.0, 3.0]))
def polynomial_arithmetic(a, b):
    return np.polymul(a, b), np.polyadd(a, b), np.polyder(b), np.polyint(a)


@at(SERIES)
def differences_of_a_series(x):
    return np.diff(x) ** 2, np.diff(x, n=2) ** 2


@at(WIDE)
def differences_by_axis(w):
    return np.diff(w, axis=0) ** 2, np.diff(w, prepend=0.0) ** 2, np.ediff1d(w)


@at(SERIES)
def gradient_on_a_grid(y):
    return np.gradient(y, 0.1) ** 2


@at(WIDE)
def gradient_by_both_axes(w):
    gy, gx = np.gradient(w)
    return gx**2 + gy**2


@at(SERIES)
def trapezoidal_rule(y):
    return np.trapezoid(y**2, dx=0.1)


@at(SERIES, POSITIVE.sum())
def trapezoidal_rule_with_points(y, width):
    x = width * np.linspace(0.0, 1.0, 8)
    return np.trapezoid(np.sin(y), x)


@at(SERIES, 2.35, differences=True)
def linear_interpolation(y, x):
    return np.interp(x, np.arange(8.0), y), np.interp([0.5, 3.3], np.arange(8.0), y) ** 2


@at(SERIES, np.array([0.25, 0.5, 0.25]))
def convolution(x, kernel):
    return np.convolve(x, kernel), np.convolve(x, kernel, mode="valid") ** 2


@at(SERIES, np.array([0.2, 0.6, -0.3]))
def convolution_same(x, kernel):
    return np.convolve(x, kernel, mode="same") ** 2


@at(SERIES, differences=True)
def autocorrelation(x):
    y = x - np.mean(x)
    return np.correlate(y, y, mode="full")[7:] / np.sum(y * y)


@at(SERIES, differences=True)
def power_spectrum(x):
    return np.abs(np.fft.fft(x)) ** 2


@at(SERIES, differences=True)
def real_spectrum(x):
    spectrum = np.fft.rfft(x)
    return spectrum.real**2 + spectrum.imag**2


@at(SERIES, differences=True)
def filter_by_fft(x):
    spectrum = np.fft.fft(x)
    response = np.exp(-np.abs(np.fft.fftfreq(8)))
    return np.fft.ifft(spectrum * response).real


@at(SERIES, differences=True)
def low_pass_by_rfft(x):
    keep = np.fft.rfftfreq(8) < 0.3
    return np.fft.irfft(np.where(keep, np.fft.rfft(x), 0.0), n=8) ** 2


@at(WIDE, differences=True)
def two_dimensional_spectrum(w):
    return np.abs(np.fft.fft2(w)) ** 2, np.abs(np.fft.fftshift(np.fft.fft(w, axis=0))) ** 2


@at(SERIES, SERIES[::-1] ** 2, differences=True)
def circular_convolution_by_fft(x, y):
    return np.fft.ifft(np.fft.fft(x) * np.fft.fft(y)).real


@at(SERIES, differences=True)
def spectrum_with_norm(x):
    return np.abs(np.fft.fft(x, norm="ortho")) ** 2, np.abs(np.fft.rfft(x, n=12)) ** 2


@at(SERIES, differences=True)
def spectral_derivative(y):
    k = 2j * np.pi * np.fft.fftfreq(8)
    return np.real(np.fft.ifft(k * np.fft.fft(y)))


@at(SERIES, differences=True)
def moving_average(x):
    total = np.cumsum(np.insert(x, 0, 0.0))
    return (total[3:] - total[:-3]) / 3


@at(SERIES, np.array([1.0, 2.0, -0.5]), differences=True)
def roots_of_a_polynomial(_, coefficients):
    roots = np.roots(coefficients)
    return np.sum(roots.real**2)


@at(0.9)
def unwrap_of_phases(rate):
    phase = rate * np.arange(10.0) * 1.5
    return phase - 0.1 * phase**2


@at(SERIES)
def window_times_series(x):
    return np.hanning(8) * x**2, np.hamming(8) * x, np.blackman(8) * x


@at(SERIES, 0.4)
def damped_oscillator_signal(amplitudes, decay):
    t = np.linspace(0.0, 3.0, 50)
    waves = [a * np.exp(-decay * t) * np.sin((k + 1) * t) for k, a in enumerate(amplitudes)]
    return np.sum(np.sum(waves, axis=0) ** 2)


@at(VECTOR)
def cumulative_log_returns(x):
    prices = 100.0 * np.exp(np.cumsum(0.01 * x))
    return np.diff(np.log(prices)) ** 2, prices[-1] / prices[0]


@at(VECTOR[:2])
def several_series_at_the_same_points(x):
    return np.polynomial.polynomial.polyval(x, np.array([[1.0, 2.0], [0.5, -1.0], [0.3, 0.8]]))


@at(VECTOR[:2], WIDE[:, :2], differences=True)
def chebyshev_series_in_columns(x, c):
    return np.polynomial.chebyshev.chebval(x, c)


@at(VECTOR[:3], WIDE[:, :3], differences=True)
def polynomial_in_the_plane(x, c):
    return np.polynomial.polynomial.polyval2d(x, x**2, c), np.polynomial.legendre.leggrid2d(x, x[:2], c)


@at(POSITIVE, differences=True)
def derivative_and_integral_of_a_polynomial(c):
    p = np.polynomial.Polynomial(c)
    return p.deriv()(0.7), p.integ(lbnd=0.5)(2.0), p.deriv(2).coef


@at(POSITIVE, differences=True)
def pseudo_vandermonde_matrices(x):
    return np.polynomial.chebyshev.chebvander(x, 3), np.polynomial.hermite.hermvander(x, 2)
