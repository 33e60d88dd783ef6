"""Programs in plain NumPy, such as scientists and engineers write, with a smooth point each.

They know nothing of wiregrad, which is why they carry no annotations: what is differentiated is the code as it stands.
Each takes float arrays or Python floats and returns a number, or an array that the test weighs and sums. No program
writes into an array that depends on its arguments, nor hands such values to `np.array`, which NumPy does not dispatch.
Shared helpers are module functions that use `np`, so that a peer can run them with its own module of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Function = Callable[..., Any]


# Compared by identity: arrays have no truth value to compare them by.
@dataclass(frozen=True, eq=False)
class Program:
    name: str
    field: str
    function: Function
    args: tuple[np.ndarray | float, ...]
    torch: bool = False
    """Whether the code runs as it stands with `torch` in the place of `np`."""
    jax: bool = True
    """Whether the code runs as it stands with `jax.numpy` in the place of `np`; if not, it is analytic."""

    def __str__(self) -> str:
        return self.name


PROGRAMS: list[Program] = []


def program(
    field: str, *args: np.ndarray | float, torch: bool = False, jax: bool = True
) -> Callable[[Function], Function]:
    """List a function as a program of a field, to be differentiated along all its arguments."""

    def listed(function: Function) -> Function:
        PROGRAMS.append(Program(function.__name__, field, function, args, torch=torch, jax=jax))
        return function

    return listed


def noise(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def positive(seed, *shape):
    return np.random.default_rng(seed).uniform(0.5, 2.0, size=shape)


def vector(*numbers):
    return np.array(numbers, dtype=float)


# Helpers of several programs.


def logsumexp(x, axis):
    top = np.max(x, axis=axis, keepdims=True)
    return np.squeeze(top, axis=axis) + np.log(np.sum(np.exp(x - top), axis=axis))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal_cdf(x):
    return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def pairwise_squares(a, b):
    return np.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=-1)


def rotation(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([c, -s]), np.stack([s, c])])


def rk4(f, y, h):
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


# Data that programs are fitted to: constants, never differentiated.

SAMPLE = noise(100, 12) * 1.5 + 0.7
FEATURES = noise(101, 10, 3)
TARGETS = FEATURES @ vector(0.5, -1.0, 2.0) + 0.1 * noise(102, 10)
CLASSES = np.array([0, 2, 1, 1, 0, 2])
SIGNS = np.where(TARGETS > 0, 1.0, -1.0)
COUNTS = np.array([2, 0, 1, 4, 3, 1, 0, 2, 5, 1])
SIGNAL = np.sin(np.linspace(0, 6, 24)) + 0.2 * noise(103, 24)


# Statistics.


@program("statistics", 0.4, 1.3)
def gaussian_log_likelihood(mu, sigma):
    z = (SAMPLE - mu) / sigma
    return -0.5 * np.sum(z**2) - SAMPLE.size * np.log(sigma * np.sqrt(2 * np.pi))


@program("statistics", noise(1, 3), 0.2)
def linear_regression(w, b):
    return np.mean((FEATURES @ w + b - TARGETS) ** 2)


@program("statistics", noise(2, 8, 3), noise(3, 8), 0.7)
def ridge_by_normal_equations(x, y, penalty):
    w = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)
    return ((FEATURES @ w - TARGETS) ** 2).sum() + penalty * w.dot(w)


@program("statistics", noise(4, 3), -0.3)
def logistic_regression(w, b):
    margins = SIGNS * (np.dot(FEATURES, w) + b)
    return np.mean(np.logaddexp(0.0, -margins)) + 0.01 * np.sum(np.square(w))


@program("statistics", noise(5, 6, 3))
def softmax_cross_entropy(logits):
    log_p = logits - logsumexp(logits, axis=1)[:, None]
    return -np.mean(log_p[np.arange(len(CLASSES)), CLASSES])


@program("statistics", noise(6, 6, 3), 1.4)
def temperature_scaling(logits, temperature):
    p = softmax(logits / temperature)
    chosen = np.take_along_axis(p, CLASSES[:, np.newaxis], axis=1)
    return -np.log(chosen).mean()


@program("statistics", noise(7, 3), 0.8)
def huber_loss(w, delta):
    r = TARGETS - FEATURES @ w
    return np.where(np.abs(r) <= delta, 0.5 * r**2, delta * (np.abs(r) - 0.5 * delta)).sum()


@program("statistics", noise(8, 9) * 2.0, 2.1)
def tukey_biweight(r, c):
    inside = np.abs(r) < c
    rho = c**2 / 6 * (1 - (1 - (r / c) ** 2) ** 3)
    return np.sum(np.where(inside, rho, c**2 / 6))


@program("statistics", noise(9, 7), 0.3)
def pinball_loss(forecast, q):
    r = SAMPLE[:7] - forecast
    return np.maximum(q * r, (q - 1) * r).mean()


@program("statistics", noise(10, 9, 3))
def log_determinant_of_covariance(x):
    centred = x - x.mean(axis=0)
    sign, logdet = np.linalg.slogdet(centred.T @ centred / (len(x) - 1))
    return sign * logdet


@program("statistics", noise(11, 3, 8))
def covariance_trace(x):
    c = np.cov(x)
    return np.trace(c @ c) / np.trace(c) ** 2


@program("statistics", noise(12, 3, 7))
def correlation_matrix(x):
    return np.corrcoef(x)[np.triu_indices(3, k=1)]


@program("statistics", noise(13, 4), noise(14, 4), noise(15, 4, 4))
def mahalanobis_distance(x, mean, a):
    precision = np.linalg.inv(a @ a.T + np.eye(4))
    d = x - mean
    return np.sqrt(d @ precision @ d)


@program("statistics", noise(16, 6), 0.45)
def kernel_density(x, h):
    z = (x[:, None] - SAMPLE[None, :]) / h
    density = np.exp(-0.5 * z**2).mean(axis=1) / (h * np.sqrt(2 * np.pi))
    return np.log(density).sum()


@program("statistics", noise(17, 6, 2), noise(18, 6), vector(0.2, -0.4, -1.0))
def gaussian_process_marginal_likelihood(x, y, log_scales):
    amplitude, length, jitter = np.exp(log_scales)
    k = amplitude * np.exp(-0.5 * pairwise_squares(x, x) / length**2) + jitter * np.eye(len(x))
    chol = np.linalg.cholesky(k)
    alpha = np.linalg.solve(k, y)
    return -0.5 * y @ alpha - np.log(np.diag(chol)).sum() - 0.5 * len(y) * np.log(2 * np.pi)


@program("statistics", noise(19, 5), noise(20, 4), 0.9)
def gaussian_process_mean(x, new, length):
    k = np.exp(-(np.subtract.outer(x, x) ** 2) / (2 * length**2)) + 0.1 * np.eye(5)
    cross = np.exp(-(np.subtract.outer(new, x) ** 2) / (2 * length**2))
    return cross @ np.linalg.solve(k, np.sin(x))


@program("statistics", 0.3, 1.2, 4.5)
def student_t_scores(location, scale, dof):
    z = (SAMPLE - location) / scale
    return np.sum((dof + 1) / 2 * np.log1p(z**2 / dof)) + SAMPLE.size * np.log(scale)


@program("statistics", noise(21, 3) * 0.5, 0.1)
def poisson_regression(w, b):
    eta = FEATURES @ w + b
    return np.sum(np.exp(eta) - COUNTS * eta)


@program("statistics", noise(22, 3), noise(23, 3, 3), noise(24, 3), noise(25, 3, 3))
def divergence_of_two_gaussians(m0, a0, m1, a1):
    s0, s1 = a0 @ a0.T + np.eye(3), a1 @ a1.T + np.eye(3)
    inverse, d = np.linalg.inv(s1), m1 - m0
    logdets = np.linalg.slogdet(s1)[1] - np.linalg.slogdet(s0)[1]
    return 0.5 * (np.trace(inverse @ s0) + d.T @ inverse @ d - 3 + logdets)


@program("statistics", noise(26, 3), noise(27, 3), noise(28, 3) * 0.3)
def gaussian_mixture(weights, means, log_sigmas):
    log_w = weights - logsumexp(weights, axis=0)
    z = (SAMPLE[:, None] - means) * np.exp(-log_sigmas)
    return logsumexp(log_w - log_sigmas - 0.5 * z**2, axis=1).sum()


@program("statistics", noise(29, 8), noise(30, 8))
def pearson_correlation(x, y):
    return np.mean((x - np.mean(x)) * (y - np.mean(y))) / (np.std(x) * np.std(y))


@program("statistics", noise(31, 6))
def entropy_of_softmax(x):
    p = softmax(x)
    return -(p * np.log2(p)).sum()


@program("statistics", noise(32, 7), positive(33, 7))
def weighted_moments(x, w):
    mean = np.average(x, weights=w)
    return mean + np.sqrt(np.average((x - mean) ** 2, weights=w))


@program("statistics", noise(34, 11))
def trimmed_mean(x):
    return np.sort(x)[2:-2].mean() + 0.1 * np.ptp(x)


@program("statistics", noise(35, 9))
def median_absolute_deviation(x):
    return 1.4826 * np.median(np.abs(x - np.median(x)))


@program("statistics", noise(36, 10))
def skewness_and_kurtosis(x):
    z = (x - x.mean()) / x.std(ddof=1)
    return np.mean(z**3) + (z**4).mean() - 3


@program("statistics", noise(37, 12), 0.6, -0.2)
def autoregression(x, phi, log_sigma):
    innovations = x[1:] - phi * x[:-1]
    return 0.5 * np.sum(innovations**2) * np.exp(-2 * log_sigma) + (len(x) - 1) * log_sigma


@program("statistics", noise(38, 3))
def cox_partial_likelihood(beta):
    score = FEATURES @ beta
    at_risk = np.cumsum(np.exp(score)[::-1])[::-1]
    observed = COUNTS > 0
    return np.sum(score[observed] - np.log(at_risk)[observed])


@program("statistics", noise(39, 8, 3))
def explained_variance(x):
    centred = x - np.mean(x, axis=0, keepdims=True)
    variances = np.linalg.eigh(centred.T @ centred)[0]
    return variances[-1] / variances.sum()


@program("statistics", positive(40, 7))
def gini_coefficient(x):
    n = x.size
    return 2 * np.sum(np.arange(1, n + 1) * np.sort(x)) / (n * np.sum(x)) - (n + 1) / n


@program("statistics", noise(41, 5, 2), noise(42, 4, 2))
def energy_distance(a, b):
    within_a = np.sqrt(pairwise_squares(a, a)[np.triu_indices(len(a), 1)]).mean()
    within_b = np.sqrt(pairwise_squares(b, b)[np.triu_indices(len(b), 1)]).mean()
    return 2 * np.sqrt(pairwise_squares(a, b)).mean() - within_a - within_b


@program("statistics", noise(43, 8, 3), noise(44, 8))
def least_squares_by_qr(x, y):
    q, r = np.linalg.qr(x)
    beta = np.linalg.solve(r, q.T @ y)
    return np.linalg.norm(beta) + np.sum(np.log(np.abs(np.diag(r))))


# Signal.


@program("signal", noise(50, 12))
def moving_average_by_cumsum(x):
    total = np.cumsum(np.concatenate([np.zeros(1), x]))
    return (total[4:] - total[:-4]) / 4


@program("signal", noise(51, 12), noise(52, 3))
def fir_filter(x, taps):
    n = len(x) - len(taps) + 1
    y = sum(taps[k] * x[k : k + n] for k in range(len(taps)))
    return np.sum(y**2)


@program("signal", noise(53, 9), noise(54, 4))
def convolution_power(x, kernel):
    return np.square(np.convolve(x, kernel, mode="same")).mean()


@program("signal", noise(55, 10))
def autocorrelation(x):
    x = x - x.mean()
    lags = np.stack([np.dot(x[k:], x[: len(x) - k]) for k in range(5)])
    return lags / lags[0]


@program("signal", noise(56, 8))
def power_spectrum_by_matrix(x):
    n = x.size
    angles = 2 * np.pi * np.outer(np.arange(n), np.arange(n)) / n
    power = (np.cos(angles) @ x) ** 2 + (np.sin(angles) @ x) ** 2
    return np.log(power[1 : n // 2 + 1]).sum()


@program("signal", noise(57, 24), 0.3)
def total_variation_denoising(x, strength):
    return 0.5 * np.sum((x - SIGNAL) ** 2) + strength * np.sum(np.sqrt(np.diff(x) ** 2 + 1e-2))


@program("signal", noise(58, 24))
def second_difference_smoothness(x):
    return np.mean((x - SIGNAL) ** 2) + 5 * np.mean(np.diff(x, n=2) ** 2)


@program("signal", noise(59, 10), 0.7)
def recursive_low_pass(x, alpha):
    y, out = 0.0, []
    for sample in x:
        y = alpha * y + (1 - alpha) * sample
        out.append(y)
    return np.stack(out)


@program("signal", noise(60, 16))
def haar_wavelet_levels(x):
    details = []
    while len(x) > 1:
        details.append((x[::2] - x[1::2]) / np.sqrt(2))
        x = (x[::2] + x[1::2]) / np.sqrt(2)
    return np.sum(np.log1p(np.concatenate(details) ** 2)) + x[0]


@program("signal", noise(61, 10))
def median_filter(x):
    padded = np.pad(x, 1)
    return np.median(np.stack([padded[:-2], padded[1:-1], padded[2:]]), axis=0)


@program("signal", noise(62, 20))
def windowed_energies(x):
    frames = x.reshape(4, 5) * np.hanning(7)[1:-1]
    return np.log((frames**2).sum(axis=1) + 1e-3).sum()


@program("signal", noise(63, 6, 6))
def image_gradient_magnitude(image):
    padded = np.pad(image, ((1, 1), (1, 1)), mode="edge")
    dx = padded[1:-1, 2:] - padded[1:-1, :-2]
    dy = padded[2:, 1:-1] - padded[:-2, 1:-1]
    return np.mean(np.hypot(dx, dy))


@program("signal", noise(64, 5))
def zero_order_hold(x):
    held = np.repeat(x, 3)
    periodic = np.tile(x, 3)
    return np.dot(held, periodic) / held.size


@program("signal", noise(65, 6), 0.8)
def sinc_interpolation(samples, shift):
    t = np.linspace(0.25, 4.6, 9)
    return np.sum(np.sinc(t[:, None] - shift * np.arange(6)) @ samples) + np.sum(samples**2)


@program("signal", noise(66, 12), noise(67, 12) * 0.1)
def signal_to_noise_in_decibel(signal, error):
    return 10 * np.log10(np.sum(signal**2) / np.sum(error**2))


@program("signal", noise(68, 10), 1.1)
def goertzel(x, omega):
    before = last = 0.0
    for k in range(len(x)):
        before, last = last, x[k] + 2 * np.cos(omega) * last - before
    return last**2 + before**2 - 2 * np.cos(omega) * last * before


@program("signal", noise(69, 12), noise(70, 12), 0.05)
def adaptive_filter(x, desired, rate):
    w, cost = np.zeros(3), 0.0
    for k in range(3, len(x)):
        window = x[k - 3 : k][::-1]
        error = desired[k] - w @ window
        w = w + rate * error * window
        cost = cost + error**2
    return cost


@program("signal", vector(1.0, 0.4, -0.3), 0.5)
def amplitude_modulation(harmonics, depth):
    t = np.linspace(0, 1, 16)
    carrier = np.cos(2 * np.pi * 3 * t)
    envelope = 1 + depth * np.sin(2 * np.pi * t)
    wave = np.tensordot(harmonics, np.stack([carrier, carrier**2, carrier**3]), axes=1)
    return np.trapezoid((envelope * wave) ** 2, t)


# Physics.


@program("physics", 0.8, 0.1, 9.81, torch=True)
def pendulum_by_euler(theta, omega, g):
    dt = 0.02
    for _ in range(20):
        omega = omega - g * np.sin(theta) * dt
        theta = theta + omega * dt
    return theta**2 + 0.1 * omega**2


@program("physics", vector(0.8, -0.2), 1.3)
def pendulum_by_runge_kutta(state, length):
    def derivative(y):
        return np.stack([y[1], -9.81 / length * np.sin(y[0])])

    for _ in range(8):
        state = rk4(derivative, state, 0.05)
    return state


@program("physics", noise(80, 4, 3), noise(81, 4, 3), positive(82, 4))
def n_body_energy(position, velocity, mass):
    kinetic = 0.5 * np.sum(mass * np.sum(velocity**2, axis=1))
    i, j = np.triu_indices(len(mass), k=1)
    distance = np.linalg.norm(position[i] - position[j], axis=1)
    return kinetic - np.sum(mass[i] * mass[j] / distance)


@program("physics", vector(0.5, 1.0), vector(0.3, -0.4), vector(1.0, 0.7), vector(0.8, 1.2))
def double_pendulum_energy(angles, speeds, masses, lengths):
    (t1, t2), (w1, w2), (m1, m2), (l1, l2) = angles, speeds, masses, lengths
    kinetic = 0.5 * m1 * (l1 * w1) ** 2 + 0.5 * m2 * (
        (l1 * w1) ** 2 + (l2 * w2) ** 2 + 2 * l1 * l2 * w1 * w2 * np.cos(t1 - t2)
    )
    return kinetic - (m1 + m2) * 9.81 * l1 * np.cos(t1) - m2 * 9.81 * l2 * np.cos(t2)


@program("physics", vector(1.2, -0.6, 0.0, 0.3))
def double_pendulum_motion(state):
    def derivative(y):
        t1, t2, w1, w2 = y
        d = t1 - t2
        den = 3 - np.cos(2 * d)
        a1 = (-29.43 * np.sin(t1) - 9.81 * np.sin(t1 - 2 * t2) - 2 * np.sin(d) * (w2**2 + w1**2 * np.cos(d))) / den
        a2 = 2 * np.sin(d) * (2 * w1**2 + 19.62 * np.cos(t1) + w2**2 * np.cos(d)) / den
        return np.stack([w1, w2, a1, a2])

    for _ in range(3):
        state = rk4(derivative, state, 0.03)
    return np.sin(state[0]) + np.sin(state[1])


@program("physics", noise(83, 5), positive(84, 6), jax=False)
def spring_chain_energy(x, stiffness):
    ends = np.concatenate(([0.0], x, [6.0]))
    stretch = ends[1:] - ends[:-1] - 0.9
    return 0.5 * np.sum(stiffness * stretch**2)


@program("physics", positive(85, 4), positive(86, 4))
def normal_modes_of_springs(k, m):
    stiffness = np.diag(k + np.roll(k, -1)) - np.diag(k[1:], 1) - np.diag(k[1:], -1)
    scaled = stiffness / np.sqrt(np.outer(m, m))
    return np.sum(np.sqrt(np.linalg.eigvalsh(scaled)))


@program("physics", noise(87, 8), 0.2)
def heat_equation(u, diffusivity):
    for _ in range(6):
        inner = u[1:-1] + diffusivity * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = np.concatenate([u[:1], inner, u[-1:]])
    return np.sum(u**2)


@program("physics", noise(88, 10), 0.6)
def wave_equation(u, courant):
    before, now = u, u
    for _ in range(6):
        after = 2 * now - before + courant**2 * (np.roll(now, 1) - 2 * now + np.roll(now, -1))
        before, now = now, after
    return np.sum((now - before) ** 2) + np.mean(now)


@program("physics", noise(89, 5, 3) * 2.0, 1.1, 0.9)
def lennard_jones(x, sigma, epsilon):
    energy = 0.0
    for i in range(len(x)):
        for j in range(i):
            r2 = np.sum((x[i] - x[j]) ** 2)
            s6 = (sigma**2 / r2) ** 3
            energy = energy + 4 * epsilon * (s6**2 - s6)
    return np.arcsinh(energy)


@program("physics", 1.2, 300.0)
def work_of_an_ideal_gas(moles, temperature):
    volume = np.linspace(1.0, 3.0, 21)
    pressure = moles * 8.314 * temperature / volume
    return np.trapezoid(pressure, volume)


@program("physics", 0.5, 2.3, torch=True)
def van_der_waals_pressure(volume, temperature):
    a, b = 1.36, 0.0318
    return 0.08206 * temperature / (volume - b) - a / volume**2


@program("physics", 0.7, 0.25, torch=True)
def ising_mean_field(coupling, field):
    m = 0.5
    for _ in range(30):
        m = np.tanh(coupling * m + field)
    return m


@program("physics", 12.0, 0.9, 0.05)
def projectile_with_drag(speed, angle, drag):
    x, y = 0.0, 0.0
    vx, vy = speed * np.cos(angle), speed * np.sin(angle)
    dt = 0.1
    while y >= 0:
        v = np.hypot(vx, vy)
        ax, ay = -drag * v * vx, -9.81 - drag * v * vy
        if y > 1.0:
            ax = ax + 0.2
        vx, vy = vx + dt * ax, vy + dt * ay
        x, y = x + dt * vx, y + dt * vy
    return x - y * vx / vy


@program("physics", 1.3, 0.35, torch=True)
def kepler_equation(mean_anomaly, eccentricity):
    e = mean_anomaly
    while abs(e - eccentricity * np.sin(e) - mean_anomaly) > 1e-13:
        e = e - (e - eccentricity * np.sin(e) - mean_anomaly) / (1 - eccentricity * np.cos(e))
    # One step more, so that the slope has converged as well as the value.
    e = e - (e - eccentricity * np.sin(e) - mean_anomaly) / (1 - eccentricity * np.cos(e))
    return 2 * np.arctan2(np.sqrt(1 + eccentricity) * np.sin(e / 2), np.sqrt(1 - eccentricity) * np.cos(e / 2))


@program("physics", noise(90, 3), noise(91, 3), noise(92, 3), 0.4)
def lorentz_force_path(velocity, electric, magnetic, charge):
    position = np.zeros(3)
    for _ in range(6):
        velocity = velocity + 0.05 * charge * (electric + np.cross(velocity, magnetic))
        position = position + 0.05 * velocity
    return np.linalg.norm(position) + 0.5 * velocity @ velocity


@program("physics", noise(93, 6))
def ground_state_energy(potential):
    n = len(potential)
    kinetic = np.eye(n) - 0.5 * np.eye(n, k=1) - 0.5 * np.eye(n, k=-1)
    energies, states = np.linalg.eigh(kinetic + np.diag(potential))
    return energies[0] + np.sum(states[:, 0] ** 4)


@program("physics", vector(1.5, 0.8), 1.1, 0.4)
def predator_and_prey(state, growth, capture):
    def derivative(y):
        prey, predator = y
        return np.stack([growth * prey - capture * prey * predator, 0.3 * prey * predator - 0.8 * predator])

    for _ in range(5):
        state = rk4(derivative, state, 0.1)
    return np.prod(state)


@program("physics", 5800.0, torch=True)
def planck_spectrum(temperature):
    wavelength = 0.5
    return wavelength**-5 / np.expm1(14388.0 / (wavelength * temperature))


@program("physics", 0.6, 1.0, 1.33, torch=True)
def fresnel_reflection(incidence, n1, n2):
    refracted = np.arcsin(n1 / n2 * np.sin(incidence))
    s = np.sin(incidence - refracted) / np.sin(incidence + refracted)
    p = np.tan(incidence - refracted) / np.tan(incidence + refracted)
    return (s**2 + p**2) / 2


@program("physics", vector(0.3, -0.2, 0.5), 1.7)
def relativistic_energy(velocity, mass):
    beta = np.sqrt((velocity**2).sum())
    rapidity = np.arctanh(beta)
    return mass * np.cosh(rapidity) + mass * np.sinh(rapidity) / 1e1 + np.arccosh(1 / np.sqrt(1 - beta**2))


@program("physics", noise(94, 4, 4), 0.44)
def ising_energy_on_a_torus(spins, coupling):
    s = np.tanh(spins)
    bonds = s * np.roll(s, 1, axis=0) + s * np.roll(s, (0, 1), axis=(0, 1))
    return -coupling * bonds.sum()


# Finance.


@program("finance", 100.0, 105.0, 0.02, 0.25, 0.75, torch=True)
def black_scholes_call(spot, strike, rate, volatility, years):
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / (volatility * years**0.5)
    d2 = d1 - volatility * years**0.5
    cdf1 = 0.5 * (1 + np.tanh(0.7978845608 * (d1 + 0.044715 * d1**3)))
    cdf2 = 0.5 * (1 + np.tanh(0.7978845608 * (d2 + 0.044715 * d2**3)))
    return spot * cdf1 - strike * np.exp(-1.0 * rate * years) * cdf2


@program("finance", 100.0, vector(90.0, 100.0, 110.0), 0.2)
def put_prices_by_strike(spot, strikes, volatility):
    d1 = np.log(spot / strikes) / volatility + 0.5 * volatility
    return strikes * normal_cdf(volatility - d1) - spot * normal_cdf(-d1)


@program("finance", vector(-100.0, 30.0, 45.0, 50.0), 0.08)
def net_present_value(cashflows, rate):
    return np.sum(cashflows / (1 + rate) ** np.arange(len(cashflows)))


@program("finance", vector(0.02, 0.025, 0.03), 4.0)
def discount_by_forward_rates(forwards, coupon):
    discounts = np.cumprod(1 / (1 + forwards))
    return coupon * discounts.sum() + 100 * discounts[-1]


@program("finance", noise(110, 4), noise(111, 4, 4))
def portfolio_volatility(weights, a):
    covariance = a @ a.T / 4
    w = weights / np.sum(weights)
    return np.sqrt(np.einsum("i,ij,j->", w, covariance, w))


@program("finance", noise(112, 12) * 0.02 + 0.005)
def sharpe_ratio(returns):
    return np.sqrt(252) * returns.mean() / returns.std(ddof=1)


@program("finance", 0.05, 0.04)
def bond_duration(coupon, rate):
    t = np.arange(1, 11)
    flows = 100 * np.where(t == 10, 1 + coupon, coupon)
    present = flows * np.exp(-rate * t)
    return np.inner(t, present) / present.sum()


@program("finance", 100.0, 0.3, 0.03)
def american_put_by_tree(spot, volatility, rate):
    n, dt = 6, 1 / 6
    up = np.exp(volatility * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1 / up) / (up - 1 / up)
    value = np.maximum(103.0 - spot * up ** (2.0 * np.arange(n + 1) - n), 0.0)
    for step in range(n - 1, -1, -1):
        exercise = 103.0 - spot * up ** (2.0 * np.arange(step + 1) - step)
        value = np.maximum(np.exp(-rate * dt) * (p * value[1:] + (1 - p) * value[:-1]), exercise)
    return value[0]


RETURNS = noise(113, 20, 3) * 0.05
SHOCKS = noise(115, 8, 5)


@program("finance", vector(0.5, 0.3, 0.2))
def conditional_value_at_risk(weights):
    losses = np.sort(-(RETURNS @ weights))
    return losses[-4:].mean()


@program("finance", vector(0.2, 0.5, 0.3))
def value_at_risk_by_quantile(weights):
    return -np.quantile(RETURNS @ weights, 0.13)


@program("finance", noise(114, 10) * 0.1)
def maximum_drawdown(returns):
    prices = np.exp(np.cumsum(returns))
    peaks = np.maximum.accumulate(prices)
    return np.max(1 - prices / peaks)


@program("finance", 0.03, 0.4, 0.05, 0.01)
def vasicek_path(rate, speed, mean, sigma):
    rates = [rate]
    for shock in SHOCKS[0]:
        rates.append(rates[-1] + speed * (mean - rates[-1]) / 12 + sigma * np.sqrt(1 / 12) * shock)
    return np.exp(-np.mean(np.stack(rates)))


@program("finance", vector(0.04, -0.02, 0.01), 1.7)
def nelson_siegel_fit(beta, tau):
    t = vector(0.5, 1, 2, 5, 10, 30)
    loading = (1 - np.exp(-t / tau)) / (t / tau)
    curve = np.column_stack([np.ones_like(loading), loading, loading - np.exp(-t / tau)]) @ beta
    return np.sum((100 * curve - vector(2.1, 2.3, 2.6, 3.1, 3.6, 3.9)) ** 2)


@program("finance", 100.0, 0.05, 0.2)
def asian_option_by_simulation(spot, rate, volatility):
    growth = np.exp((rate - volatility**2 / 2) / 5 + volatility * np.sqrt(1 / 5) * SHOCKS)
    paths = spot * np.cumprod(growth, axis=1)
    return np.exp(-rate) * np.maximum(paths.mean(axis=1) - 99.0, 0).mean()


@program("finance", positive(117, 3), noise(118, 3, 3))
def minimum_variance_portfolio(expected, a):
    covariance = a.T @ a + np.eye(3)
    w = np.linalg.solve(covariance, np.ones(3))
    w = w / w.sum()
    return w @ expected - 2.0 * w @ covariance @ w


@program("finance", 0.1, 0.15, 0.8)
def garch_likelihood(omega, alpha, beta):
    variance, total = 1.0, 0.0
    for r in SAMPLE:
        total += 0.5 * (np.log(variance) + r**2 / variance)
        variance = omega + alpha * r**2 + beta * variance
    return total


@program("finance", 200.0, 0.05)
def months_to_repay(payment, rate):
    balance, month = 1000.0, 0
    while balance > payment:
        balance = balance * (1 + rate / 12) - payment
        month += 1
    return month + balance / payment


@program("finance", vector(0.3, 0.4, 0.3), noise(119, 3, 3))
def risk_parity(weights, a):
    covariance = np.matmul(a, np.transpose(a)) + np.eye(3)
    risk = weights * (covariance @ weights)
    share = risk / risk.sum()
    return np.var(share) + np.max(share) - np.min(share)


# Geometry.


@program("geometry", noise(130, 3), noise(131, 3), noise(132, 3))
def triangle_area(a, b, c):
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a))


@program("geometry", vector(0.9, 1.4), vector(0.0, 0.0), vector(2.0, 1.0))
def distance_to_a_segment(p, a, b):
    t = np.clip(np.dot(p - a, b - a) / np.dot(b - a, b - a), 0.0, 1.0)
    return np.linalg.norm(p - (a + t * (b - a)))


@program("geometry", vector(3.0, 2.5), vector(0.0, 0.0), vector(2.0, 1.0))
def distance_beyond_a_segment(p, a, b):
    u = b - a
    t = ((p - a) @ u / (u @ u)).clip(0, 1)
    return np.hypot(*(p - a - t * u))


@program("geometry", noise(133, 6, 2))
def polygon_area(vertices):
    x, y = vertices.T
    return 0.5 * np.abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


@program("geometry", noise(134, 5, 2), 0.7, noise(135, 2))
def moved_points(points, angle, shift):
    return points @ rotation(angle).T + shift


@program("geometry", vector(0.9, 0.1, -0.3, 0.2), noise(136, 3))
def quaternion_rotation(q, v):
    w, x, y, z = q / np.linalg.norm(q)
    r = np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )
    return r @ v


@program("geometry", vector(48.85, 2.35), vector(52.52, 13.4))
def haversine_distance(a, b):
    lat1, lon1 = np.deg2rad(a)
    lat2, lon2 = np.radians(b)
    h = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371.0 * np.arcsin(np.sqrt(h))


@program("geometry", noise(137, 7, 3))
def bounding_box_volume(points):
    return np.prod(points.max(axis=0) - np.amin(points, axis=0))


@program("geometry", noise(138, 6, 2), noise(139, 6, 2))
def procrustes_residual(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    singular = np.linalg.svd(a.T @ b, compute_uv=False)
    return np.sum(a**2) + np.sum(b**2) - 2 * singular.sum()


@program("geometry", noise(140, 6, 3), noise(141, 6, 3))
def aligned_distance(a, b):
    u, _, vt = np.linalg.svd(a.T @ b)
    return np.linalg.norm(a @ (u @ vt) - b)


@program("geometry", noise(142, 4, 3))
def tetrahedron_volume(p):
    return abs(np.linalg.det(p[1:] - p[0])) / 6


@program("geometry", noise(143, 3), noise(144, 3))
def angle_between(u, v):
    return np.rad2deg(np.arccos(u @ v / (np.linalg.norm(u) * np.linalg.norm(v))))


@program("geometry", noise(145, 4, 2))
def length_of_a_bezier_curve(control):
    t = np.linspace(0, 1, 12)[:, None]
    curve = (1 - t) ** 3 * control[0] + 3 * t * (1 - t) ** 2 * control[1]
    curve = curve + 3 * t**2 * (1 - t) * control[2] + t**3 * control[3]
    return np.sum(np.linalg.norm(np.diff(curve, axis=0), axis=1))


@program("geometry", noise(146, 8, 3))
def flatness_of_points(points):
    singular = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
    return singular[-1] / singular[0]


@program("geometry", 0.4, noise(147, 2), noise(148, 3, 2))
def homogeneous_transform(angle, shift, points):
    pose = np.block([[rotation(angle), shift.reshape(2, 1)], [np.zeros((1, 2)), np.ones((1, 1))]])
    lifted = np.hstack([points, np.ones((len(points), 1))])
    return (lifted @ np.linalg.inv(pose).T)[..., :2]


@program("geometry", noise(149, 5, 2), noise(150, 4, 2))
def chamfer_distance(a, b):
    d = pairwise_squares(a, b)
    return d.min(axis=0).mean() + d.min(axis=1).mean()


@program("geometry", vector(-3.0, 0.2, 0.1), vector(1.0, 0.05, -0.02), 1.1)
def ray_meets_sphere(origin, direction, radius):
    d = direction / np.sqrt(np.sum(direction * direction))
    b = np.vdot(origin, d)
    disc = b * b - (np.vdot(origin, origin) - radius**2)
    if disc < 0:
        return disc * 0.0
    near = -b - np.sqrt(disc)
    return near if near > 0 else -b + np.sqrt(disc)


FACES = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])


@program("geometry", noise(151, 4, 3))
def area_of_a_mesh(vertices):
    a, b, c = vertices[FACES[:, 0]], vertices[FACES[:, 1]], vertices[FACES[:, 2]]
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=-1).sum()


@program("geometry", noise(152, 5, 3), positive(153, 5))
def principal_moments(points, mass):
    centre = np.average(points, axis=0, weights=mass)
    r = points - centre
    inertia = np.sum(mass * np.sum(r**2, axis=1)) * np.eye(3) - np.einsum("n,ni,nj->ij", mass, r, r)
    return np.linalg.eigvalsh(inertia) @ vector(1.0, 2.0, -1.0)


@program("geometry", vector(0.3, 0.8), 0.5)
def smooth_union_of_discs(p, softness):
    first = np.linalg.norm(p - vector(0.0, 0.0)) - 0.6
    second = np.linalg.norm(p - vector(1.0, 0.5)) - 0.4
    return -softness * np.logaddexp(-first / softness, -second / softness)


@program("geometry", noise(154, 3), noise(155, 3))
def householder_reflection(v, x):
    h = np.eye(3) - 2 * np.outer(v, v) / np.inner(v, v)
    return h @ x


@program("geometry", vector(0.4, -1.2, 0.7))
def spherical_coordinates(p):
    x, y, z = p[0], p[1], p[2]
    return np.stack([np.sqrt(x**2 + y**2 + z**2), np.arctan2(np.hypot(x, y), z), np.arctan2(y, x)])


@program("geometry", noise(156, 9))
def curvature_of_a_graph(y):
    slope = np.gradient(y, 0.5)
    bend = np.gradient(slope, 0.5)
    return np.mean(np.abs(bend) / (1 + slope**2) ** 1.5)


@program("geometry", noise(157, 4, 4))
def image_turned_and_mirrored(image):
    turned = np.rot90(image) - np.flipud(image) * np.fliplr(image)
    return np.sum(np.tril(turned) ** 2) - np.sum(np.triu(turned, 1) * np.flip(image, axis=1))


# Robotics.


@program("robotics", 0.3, 0.9, 1.0, 0.8, torch=True)
def two_link_arm(q1, q2, l1, l2):
    x = l1 * np.cos(q1) + l2 * np.cos(q1 + q2)
    y = l1 * np.sin(q1) + l2 * np.sin(q1 + q2)
    return np.hypot(x - 0.5, y - 0.9)


def denavit_hartenberg(theta, d, a, alpha):
    c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    zero, one = np.zeros_like(c), np.ones_like(c)
    rows = [[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [zero, sa, ca, d], [zero, zero, zero, one]]
    return np.stack([np.stack(row) for row in rows])


@program("robotics", vector(0.2, -0.4, 0.9), vector(0.3, 0.1, 0.2), vector(0.5, 0.4, 0.1), vector(1.5, 0.1, -0.3))
def denavit_hartenberg_arm(theta, d, a, alpha):
    links = [denavit_hartenberg(*link) for link in zip(theta, d, a, alpha, strict=True)]
    pose = np.linalg.multi_dot(links)
    return pose[:3, 3] @ vector(1.0, 2.0, -1.0) + np.trace(pose[:3, :3])


@program("robotics", vector(0.3, 0.5, -0.2, 0.4), vector(1.5, 1.0))
def inverse_kinematics_cost(q, goal):
    heading = np.cumsum(q)
    tip = np.stack([np.cos(heading).sum(), np.sin(heading).sum()])
    return np.sum((tip - goal) ** 2) + 0.01 * q @ q


MOTION = np.array([[1.0, 0.1], [0.0, 1.0]])
SENSOR = np.array([[1.0, 0.0]])


@program("robotics", noise(160, 2), noise(161, 2, 2), noise(162, 1), 0.3)
def kalman_step(mean, a, measured, variance):
    covariance = MOTION @ (a @ a.T + np.eye(2)) @ MOTION.T
    mean = MOTION @ mean
    innovation = measured - SENSOR @ mean
    s = SENSOR @ covariance @ SENSOR.T + variance * np.eye(1)
    gain = covariance @ SENSOR.T @ np.linalg.inv(s)
    mean = mean + gain @ innovation
    return np.sum(mean) + np.trace((np.eye(2) - gain @ SENSOR) @ covariance)


@program("robotics", noise(163, 6), 0.2, 0.5)
def kalman_filter_likelihood(measured, drift, variance):
    mean, p, total = 0.0, 1.0, 0.0
    for z in measured:
        p = p + drift
        s = p + variance
        total = total + 0.5 * np.log(s) + 0.5 * (z - mean) ** 2 / s
        mean, p = mean + p / s * (z - mean), p * variance / s
    return total


@program("robotics", 2.0, 0.5, 0.1)
def pid_control(kp, ki, kd):
    position = velocity = integral = cost = 0.0
    for k in range(20):
        error = 1.0 - position
        integral = integral + 0.05 * error
        force = np.clip(kp * error + ki * integral - kd * velocity, -1.5, 1.5)
        velocity = velocity + 0.05 * (force - 0.2 * velocity)
        position = position + 0.05 * velocity
        cost = cost + 0.05 * k * error**2
    return cost


@program("robotics", noise(164, 1, 2), noise(165, 2))
def linear_quadratic_rollout(gain, state):
    a, b = MOTION, np.array([[0.0], [0.1]])
    cost = 0.0
    for _ in range(8):
        u = -gain @ state
        cost += state @ state + 0.1 * u @ u
        state = a @ state + b @ u
    return cost


@program("robotics", noise(166, 2, 2), noise(167, 2, 1))
def riccati_recursion(a, b):
    p = np.eye(2)
    for _ in range(4):
        k = np.linalg.solve(np.eye(1) + b.T @ p @ b, b.T @ p @ a)
        p = np.eye(2) + a.T @ p @ (a - b @ k)
    return np.trace(p)


@program("robotics", vector(0.3, 0.7, -0.5))
def manipulability(q):
    heading = np.cumsum(q)
    x, y = np.cos(heading), np.sin(heading)
    jacobian = np.vstack([-np.cumsum(y[::-1])[::-1], np.cumsum(x[::-1])[::-1]])
    return np.sqrt(np.linalg.det(jacobian @ jacobian.T))


@program("robotics", vector(0.5, -0.2, 0.3), noise(168, 5, 2) * 3.0)
def range_and_bearing(pose, landmarks):
    d = landmarks - pose[:2]
    ranges = np.hypot(d[:, 0], d[:, 1])
    bearings = np.arctan2(d[:, 1], d[:, 0]) - pose[2]
    wrapped = (bearings + np.pi) % (2 * np.pi) - np.pi
    return np.sum(ranges) + np.sum(wrapped**2)


@program("robotics", vector(0.0, 0.0, 0.1), noise(169, 6, 2))
def differential_drive(pose, wheels):
    x, y, heading = pose
    for left, right in wheels:
        turn = (right - left) / 0.5 * 0.1
        if abs(turn) > 0.05:
            radius = 0.25 * (left + right) / (right - left)
            x = x + radius * (np.sin(heading + turn) - np.sin(heading))
            y = y - radius * (np.cos(heading + turn) - np.cos(heading))
        else:
            x, y = x + 0.05 * (left + right) * np.cos(heading), y + 0.05 * (left + right) * np.sin(heading)
        heading = heading + turn
    return (x - 1) ** 2 + (y - 0.5) ** 2 + np.cos(heading)


@program("robotics", noise(170, 6))
def minimum_jerk_cost(coefficients):
    t = np.linspace(0, 1, 11)
    powers = np.arange(5, 2, -1)
    jerk = np.polyval(coefficients[:3] * powers * (powers - 1) * (powers - 2), t)
    return np.trapezoid(jerk**2, dx=0.1) + (np.polyval(coefficients, 1.0) - 1) ** 2


@program("robotics", noise(171, 7, 2))
def path_with_obstacles(path):
    obstacles = np.array([[0.5, 0.5], [-0.4, 0.8]])
    clearance = np.sqrt(pairwise_squares(path, obstacles))
    return np.sum(np.diff(path, axis=0) ** 2) + np.sum(np.fmax(1.0 - clearance, 0.0) ** 2)


@program("robotics", noise(172, 8), noise(173, 8), 0.95)
def complementary_filter(gyro, tilt, alpha):
    angle, worst = tilt[0], []
    for k in range(1, gyro.size):
        angle = alpha * (angle + 0.01 * gyro[k]) + (1 - alpha) * tilt[k]
        worst.append((angle - tilt[k]) ** 2)
    return max(worst)


@program("robotics", noise(174, 4, 3))
def pose_graph_error(poses):
    error = 0.0
    for before, after in pairwise(poses):
        local = rotation(before[2]).T @ (after[:2] - before[:2])
        error = error + np.sum((local - vector(1.0, 0.0)) ** 2) + np.sin(after[2] - before[2]) ** 2
    return error


# Classic test functions of optimization.


@program("test functions", noise(180, 5), torch=True)
def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@program("test functions", noise(181, 4))
def ackley(x):
    a = 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2)))
    return 20 + np.e - a - np.exp(np.mean(np.cos(2 * np.pi * x)))


@program("test functions", noise(182, 4), torch=True)
def rastrigin(x):
    return 10 * len(x) + np.sum(x**2 - 10 * np.cos(2 * np.pi * x))


@program("test functions", noise(183, 4) * 3.0)
def griewank(x):
    return 1 + np.sum(x**2) / 4000 - np.prod(np.cos(x / np.sqrt(np.arange(1, x.size + 1))))


@program("test functions", 0.7, -1.4, torch=True)
def himmelblau(x, y):
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


@program("test functions", vector(1.3, 2.2), torch=True)
def booth(v):
    x, y = v
    return (x + 2 * y - 7) ** 2 + (2 * x + y - 5) ** 2


@program("test functions", 1.1, 0.6, torch=True)
def beale(x, y):
    return (1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2


@program("test functions", noise(184, 4), torch=True)
def levy(x):
    w = 1 + (x - 1) / 4
    body = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2))
    return np.sin(np.pi * w[0]) ** 2 + body + (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)


@program("test functions", noise(185, 5), torch=True)
def styblinski_tang(x):
    return (x**4 - 16 * x**2 + 5 * x).sum() / 2


@program("test functions", vector(2.1, 1.4, 1.2))
def michalewicz(x):
    i = np.arange(1, len(x) + 1)
    return -np.sum(np.sin(x) * np.sin(i * x**2 / np.pi) ** 20)


@program("test functions", vector(30.0, -120.0, 250.0), torch=True)
def schwefel(x):
    return 418.9829 * len(x) - np.sum(x * np.sin(np.sqrt(np.abs(x))))


@program("test functions", noise(186, 4))
def zakharov(x):
    s = np.sum(0.5 * np.arange(1, len(x) + 1) * x)
    return x @ x + s**2 + s**4


@program("test functions", noise(187, 4))
def dixon_price(x):
    i = np.arange(2, len(x) + 1)
    return (x[0] - 1) ** 2 + np.sum(i * (2 * x[1:] ** 2 - x[:-1]) ** 2)


@program("test functions", vector(0.3, 0.9), torch=True)
def mccormick(x):
    return np.sin(x.sum()) + (x[0] - x[1]) ** 2 - 1.5 * x[0] + 2.5 * x[1] + 1


@program("test functions", 0.6, -0.3, torch=True)
def six_hump_camel(x, y):
    return (4 - 2.1 * x**2 + x**4 / 3) * x**2 + x * y + (-4 + 4 * y**2) * y**2


@program("test functions", 0.3, -0.6, torch=True)
def goldstein_price(x, y):
    a = 1 + (x + y + 1) ** 2 * (19 - 14 * x + 3 * x**2 - 14 * y + 6 * x * y + 3 * y**2)
    b = 30 + (2 * x - 3 * y) ** 2 * (18 - 32 * x + 12 * x**2 + 48 * y - 36 * x * y + 27 * y**2)
    return np.log(a * b)


@program("test functions", 2.7, 3.6, torch=True)
def easom(x, y):
    return -np.cos(x) * np.cos(y) * np.exp(-((x - np.pi) ** 2) - (y - np.pi) ** 2)


@program("test functions", vector(1.0, 4.0), torch=True)
def branin(v):
    x, y = v[0], v[1]
    return (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10


@program("test functions", 100.0, 200.0, torch=True)
def eggholder(x, y):
    return -(y + 47) * np.sin(np.sqrt(np.abs(x / 2 + y + 47))) - x * np.sin(np.sqrt(np.abs(x - y - 47)))


@program("test functions", noise(188, 8), torch=True)
def powell(x):
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    return np.sum((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


@program("test functions", vector(0.2, 0.5, 0.7))
def hartmann(x):
    a = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
    p = np.array([[0.37, 0.12, 0.27], [0.47, 0.44, 0.75], [0.11, 0.87, 0.55], [0.04, 0.57, 0.88]])
    return -np.exp(-np.sum(a * (x - p) ** 2, axis=1)) @ vector(1.0, 1.2, 3.0, 3.2)


@program("test functions", noise(189, 4), torch=True)
def alpine(x):
    return np.abs(x * np.sin(x) + 0.1 * x).sum()


# Small networks.

INPUTS = noise(190, 6, 4)
LABELS = np.array([1, 0, 2, 2, 1, 0])
SEQUENCE = noise(199, 6, 3)


@program("networks", noise(191, 4, 5), noise(192, 5), noise(193, 5, 3), noise(194, 3))
def multilayer_perceptron(w1, b1, w2, b2):
    hidden = np.tanh(INPUTS @ w1 + b1)
    p = softmax(hidden @ w2 + b2)
    return -np.log(p[np.arange(len(LABELS)), LABELS]).mean()


@program("networks", noise(195, 35))
def perceptron_from_a_flat_vector(parameters):
    w1, b1, w2, b2 = np.split(parameters, [20, 25, 30])
    hidden = np.maximum(INPUTS @ w1.reshape(4, 5) + b1, 0)
    return np.sum((hidden @ w2) ** 2) + np.sum(np.cosh(b2))


@program("networks", noise(196, 4, 4), noise(197, 4, 3), noise(198, 4))
def recurrent_network(w, u, bias):
    h = np.zeros(4)
    for x in SEQUENCE:
        h = np.tanh(w @ h + u @ x + bias)
    return np.mean(h**2)


@program("networks", noise(200, 12, 5) * 0.5, noise(201, 12) * 0.1)
def long_short_term_memory(w, b):
    h, c = np.zeros(3), np.zeros(3)
    for x in SEQUENCE[:4, :2]:
        gates = w @ np.concatenate([x, h]) + b
        i, f, o, g = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h.sum()


@program("networks", noise(203, 5, 4), noise(204, 5, 4), noise(205, 5, 3))
def attention(q, k, v):
    scores = np.einsum("qd,kd->qk", q, k) / np.sqrt(q.shape[-1])
    causal = np.tril(np.ones((5, 5), dtype=bool))
    weights = softmax(np.where(causal, scores, -1e9))
    return np.einsum("qk,kv->qv", weights, v)


@program("networks", noise(206, 4, 6), noise(207, 6, 18) * 0.4, noise(208, 6, 6))
def multi_head_attention(x, w_qkv, w_out):
    q, k, v = np.split(x @ w_qkv, 3, axis=-1)
    q, k, v = (np.swapaxes(part.reshape(4, 2, 3), 0, 1) for part in (q, k, v))
    weights = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(3))
    mixed = np.moveaxis(weights @ v, 0, 1).reshape(4, -1)
    return np.sum((x + mixed @ w_out) ** 2)


@program("networks", noise(209, 4, 6), noise(210, 6), noise(211, 6))
def layer_norm(x, gain, shift):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + 1e-5) + shift


@program("networks", noise(212, 6, 3), noise(213, 3), noise(214, 3))
def batch_norm(x, gamma, beta):
    normal = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-5)
    return np.mean(np.log1p(np.exp(gamma * normal + beta)))


@program("networks", noise(215, 2, 10), noise(216, 3, 2, 4), noise(217, 3))
def convolution_by_windows(x, kernels, bias):
    windows = x[:, np.arange(7)[:, None] + np.arange(4)]
    y = np.tensordot(kernels, windows, axes=([1, 2], [0, 2])) + np.expand_dims(bias, 1)
    return np.sum(np.where(y > 0, y, 0.1 * y) ** 2)


@program("networks", noise(218, 6, 6), noise(219, 3, 3))
def convolution_and_pooling(image, kernel):
    rows = [[np.sum(image[i : i + 3, j : j + 3] * kernel) for j in range(4)] for i in range(4)]
    y = np.vstack([np.hstack(row) for row in rows])
    return y.reshape(2, 2, 2, 2).max(axis=(1, 3))


@program("networks", noise(220, 7, 3), noise(221, 3), jax=False)
def embedding_bag(table, w):
    words = np.array([[0, 3, 3], [6, 1, 0]])
    return np.sum(np.tanh(np.take(table, words, axis=0).mean(axis=1) @ w)) + table[[2, 5]].sum()


@program("networks", noise(222, 4), noise(223, 4) * 0.3, noise(224, 4, 3))
def variational_bound(mean, log_variance, w):
    z = mean + np.exp(log_variance / 2) * INPUTS
    fit = np.mean(np.sum((z @ w - 1.0) ** 2, axis=1))
    return fit - 0.5 * np.sum(1 + log_variance - mean**2 - np.exp(log_variance))


@program("networks", noise(226, 4, 4), noise(227, 4, 2))
def graph_convolution(features, w):
    adjacency = np.array([[1.0, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]])
    scale = 1 / np.sqrt(adjacency.sum(axis=1))
    h = np.tanh((scale[:, None] * adjacency * scale) @ features @ w)
    return np.linalg.norm(h, "fro") + np.sum(np.linalg.matrix_power(adjacency / 3, 2) @ h)


@program("networks", noise(228, 5, 3), noise(229, 5, 3), 0.5)
def contrastive_loss(a, b, temperature):
    a = a / np.linalg.norm(a, axis=1, keepdims=True)
    b = b / np.sqrt(np.sum(b**2, axis=1))[:, None]
    scores = a @ b.T / temperature
    return -np.mean(np.diagonal(scores) - logsumexp(scores, axis=1))


@program("networks", noise(230, 4, 3), noise(231, 3, 4))
def residual_network(w, v):
    x = INPUTS
    for _ in range(3):
        x = x + 0.5 * np.tanh(x @ w) @ v
    x = x * sigmoid(1.702 * x)
    return x.std() + np.abs(x).mean()


@program("networks", noise(232, 8, 2), noise(233, 3, 2))
def soft_clustering(points, centres):
    d = pairwise_squares(points, centres)
    return np.sum(softmax(-d) * d) + np.min(d, axis=0).sum()


# Programs that live on reshaping, selecting and linear algebra.


@program("linear algebra", noise(240, 3, 3))
def condition_number(a):
    s = np.linalg.svd(a)[1]
    return s[0] / s[-1] + np.linalg.norm(a) + np.linalg.norm(a, 1)


@program("linear algebra", noise(241, 3, 3) * 0.4)
def markov_chain_after_five_steps(logits):
    transition = softmax(logits)
    return np.linalg.matrix_power(transition, 5)[0] @ vector(1.0, 2.0, 4.0)


@program("linear algebra", noise(242, 2, 2), noise(243, 3, 3))
def kronecker_system(a, b):
    system = np.kron(a, b) + 5 * np.eye(6)
    return np.linalg.solve(system, np.arange(1.0, 7.0)).sum() + np.trace(system)


@program("linear algebra", noise(244, 4, 4), noise(245, 4))
def conjugate_gradient_steps(a, b):
    a = a @ a.T + 4 * np.eye(4)
    x, r = np.zeros_like(b), b
    p = r
    for _ in range(3):
        step = (r @ r) / (p @ a @ p)
        x, new = x + step * p, r - step * (a @ p)
        p, r = new + (new @ new) / (r @ r) * p, new
    return 0.5 * x @ a @ x - b @ x


@program("linear algebra", noise(246, 4, 4))
def power_iteration(a):
    a = a @ a.T
    v = np.ones(4)
    for _ in range(10):
        v = a @ v
        v = v / np.linalg.norm(v)
    return v @ a @ v


@program("linear algebra", noise(247, 3, 4), noise(248, 4, 2), noise(249, 2))
def chained_products(a, b, c):
    return np.sin(np.linalg.multi_dot([a, b, c])) * np.cos(a.dot(b).dot(c))


@program("linear algebra", noise(250, 5, 4, 3), noise(251, 3, 4))
def batched_traces(x, y):
    return np.einsum("bij,ji->b", x, y) + np.trace(x @ y, axis1=1, axis2=2) ** 2


@program("linear algebra", noise(252, 4, 3, 3))
def batched_determinants(x):
    spd = x @ np.swapaxes(x, -1, -2) + np.eye(3)
    return np.linalg.det(spd).sum() + np.linalg.inv(spd).sum() + np.linalg.cholesky(spd)[..., -1, -1].sum()


@program("linear algebra", noise(253, 2, 3, 4))
def axes_moved_about(x):
    y = np.moveaxis(x, 0, -1)
    z = x.transpose(2, 0, 1).swapaxes(1, 2)
    w = np.broadcast_to(np.expand_dims(x[0, :, 1], axis=(0, 2)), (4, 3, 2)).transpose(1, 0, 2)
    return np.sum(y * z.transpose(1, 0, 2) * w) + np.squeeze(x[:1, 1:2, 2:3]) ** 2


@program("linear algebra", noise(254, 3, 4))
def pieces_put_together(x):
    left, right = np.hsplit(x, 2)
    top, rest = np.array_split(x, 2, axis=0)
    joined = np.append(np.ravel(left), right.flatten()) + np.concatenate((top, rest)).reshape(-1)
    return np.sum(joined * np.exp(np.delete(np.append(joined, 1.0), 0) / 5))


@program("linear algebra", noise(255, 4, 5))
def every_kind_of_index(x):
    rows, columns = np.array([0, 2]), np.array([1, 3])
    total = x[-1, 2] * x[..., 0] @ x[:, -1]
    total += np.prod(x[1, ::2]) + x[rows, columns].sum() + x[np.ix_(rows, columns)].sum()
    total += (x[x > 0] ** 2).sum() + x[:, np.arange(5) % 2 == 0].mean() + x[3][::-1][1]
    return total + np.sum(x[None, 1:3, np.newaxis, :] ** 3)


@program("linear algebra", noise(262, 4, 5), jax=False)
def indices_written_as_lists(x):
    total = x[[0, 2], [1, 3]].prod() + np.sum(x[np.ix_([0, 3], [4, 2])] ** 2) + x[[-1]].sum()
    return total + np.sin(x[:, [True, False, True, False, True]]).mean() * x[[[0], [1]], [0, 2]].sum()


@program("linear algebra", noise(256, 7))
def extremes_and_order(x):
    order = np.argsort(x)
    return x[np.argmax(x)] * x[order[2]] + np.max(x) - x.min() + np.take_along_axis(x, order, axis=0)[:3].prod()


@program("linear algebra", positive(257, 6), positive(258, 6))
def elementary_functions(x, y):
    a = np.power(x, y) + np.float_power(x, 1.5) + 2.0**y + np.exp2(x) + np.cbrt(y) + np.reciprocal(x)
    b = np.arctan(x) - np.sinh(y) / np.cosh(x) + np.arccosh(x + 1) + np.logaddexp2(x, y) - np.log10(y)
    c = np.remainder(3 * x, 1.7) + np.copysign(x, -y) + np.fmin(x, y) + np.true_divide(x, y) * np.negative(y)
    return np.add(a, b) - np.subtract(c, np.multiply(x, y)) + np.degrees(x) / 90 + np.fabs(x - 10) + np.positive(y)


@program("linear algebra", noise(259, 3, 4))
def methods_of_arrays(x):
    y = x.T.copy().ravel().cumsum() + x.repeat(2, axis=0).sum(axis=0).dot(x.mean(axis=0))
    z = x.take(np.arange(0, 4, 2), axis=1).squeeze().diagonal().sum() + x[:, :3].trace() + x.clip(-0.5, 0.5).prod()
    return y.max() * z + x.reshape((2, 6)).std(axis=1).min() + x.swapaxes(0, 1).var() + x.cumprod()[4]


@program("linear algebra", noise(260, 5))
def ufunc_methods(x):
    table = np.multiply.outer(x, np.exp(x))
    return np.add.reduce(table, axis=0) @ np.add.accumulate(x) + np.maximum.reduce(x) + np.atleast_2d(x).sum()


@program("linear algebra", noise(261, 6))
def select_and_fill(x):
    base = np.full_like(x, 0.5) + np.zeros(x.shape)
    bands = np.select([x < -0.5, x > 0.5], [x**2, np.sqrt(np.abs(x) + 1)], default=np.sin(x))
    return np.sum(bands * base) if np.any(x > 0) else np.sum(bands)
