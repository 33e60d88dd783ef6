"""scipy.signal, integrate, interpolate, sparse, ndimage, fft, spatial."""

import numpy as np
import scipy.fft
from scipy import integrate, interpolate, ndimage, signal, sparse
from scipy.spatial.distance import cdist, cosine, pdist, squareform

from .points import MATRIX, POSITIVE, SERIES, VECTOR, WIDE
from .snippet import at

KERNEL = np.array([0.25, 0.5, 0.25])


@at(SERIES, KERNEL, differences=True)
def signal_convolution(x, kernel):
    return signal.convolve(x, kernel, mode="same") ** 2


@at(SERIES, KERNEL, differences=True)
def convolution_by_fft(x, kernel):
    return signal.fftconvolve(x, kernel) ** 2


@at(WIDE, MATRIX[:2, :2], differences=True)
def image_convolution(image, kernel):
    return signal.convolve2d(image, kernel, mode="valid") ** 2


@at(SERIES, differences=True)
def recursive_filter(x):
    return signal.lfilter([0.3], [1.0, -0.7], x) ** 2


@at(SERIES, differences=True)
def moving_average_filter(x):
    b, a = np.ones(3) / 3, 1.0
    return signal.lfilter(b, a, x)


@at(SERIES, differences=True)
def detrend_and_smooth(x):
    return signal.detrend(x) ** 2, signal.savgol_filter(x, 5, 2)


@at(SERIES, differences=True)
def trapezoid_and_simpson(y):
    return integrate.trapezoid(y, dx=0.1), integrate.simpson(y[:7], dx=0.1), integrate.cumulative_trapezoid(y, dx=0.5)


@at(0.7, 1.2, differences=True)
def quadrature(a, b):
    value, _ = integrate.quad(lambda t: np.exp(-a * t**2), 0.0, b)
    return value


@at(0.8, np.array([1.0, 0.2]), differences=True, rtol=1e-4)
def pendulum_by_odeint(damping, start):
    def rhs(y, _, c):
        return [y[1], -c * y[1] - np.sin(y[0])]

    return integrate.odeint(rhs, start, np.linspace(0.0, 1.0, 5), args=(damping,), rtol=1e-10, atol=1e-10)


@at(0.8, differences=True, rtol=1e-4)
def decay_by_solve_ivp(rate):
    sol = integrate.solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], rtol=1e-9, atol=1e-9)
    return sol.y[0, -1]


@at(SERIES, differences=True)
def cubic_spline(y):
    spline = interpolate.CubicSpline(np.arange(8.0), y)
    return spline(np.array([0.5, 2.3, 6.1])) ** 2


@at(3.3, differences=True)
def cubic_spline_at_a_point(x):
    spline = interpolate.CubicSpline(np.arange(8.0), SERIES)
    return spline(x) ** 2


@at(SERIES, differences=True)
def linear_interpolator(y):
    return interpolate.interp1d(np.arange(8.0), y)(np.array([0.5, 2.3])) ** 2


@at(VECTOR, differences=True)
def sparse_matrix_times_vector(x):
    a = sparse.csr_matrix(np.diag([1.0, 2.0, 3.0, 4.0, 5.0]) + np.diag(np.ones(4), k=1))
    return a @ x


@at(VECTOR, differences=True)
def sparse_laplacian(x):
    lap = sparse.diags([1.0, -2.0, 1.0], [-1, 0, 1], shape=(5, 5), format="csr")
    return x @ (lap @ x) + lap.dot(x)[0]


@at(WIDE, differences=True)
def image_filters(image):
    return ndimage.gaussian_filter(image, sigma=1.0), ndimage.convolve(image, MATRIX)


@at(SERIES, differences=True)
def one_dimensional_filters(x):
    return ndimage.gaussian_filter1d(x, 1.0), ndimage.uniform_filter1d(x, 3), ndimage.convolve1d(x, KERNEL)


@at(SERIES, differences=True)
def scipy_spectrum(x):
    return np.abs(scipy.fft.fft(x)) ** 2, np.abs(scipy.fft.rfft(x)) ** 2


@at(SERIES, differences=True)
def cosine_transform(x):
    return scipy.fft.dct(x, norm="ortho") ** 2, scipy.fft.idct(x)


@at(WIDE, differences=True)
def distances_between_points(w):
    return pdist(w), cdist(w, np.zeros((2, 4)))


@at(POSITIVE, differences=True)
def barycentric_interpolation(y):
    return interpolate.barycentric_interpolate(np.arange(4.0), y, 1.3)


@at(WIDE, differences=True)
def distances_by_other_metrics(x):
    return cdist(x, x + 1.0, "sqeuclidean"), cdist(x, x[:2] + 1.0, metric="cityblock"), cosine(x[0], x[1])


@at(WIDE, differences=True)
def square_matrix_of_distances(x):
    return squareform(pdist(x))


@at(WIDE, differences=True)
def edges_of_an_image(x):
    return ndimage.sobel(x), ndimage.prewitt(x, axis=0), ndimage.laplace(x), ndimage.gaussian_laplace(x, 0.8)


@at(WIDE, MATRIX[:2, :2], differences=True)
def correlation_of_images(x, kernel):
    return signal.correlate2d(x, kernel, mode="same"), signal.convolve2d(x, kernel, "valid")
