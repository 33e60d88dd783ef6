"""Gaussian process regression: the log marginal likelihood by Cholesky, and the error on held-out points."""

import numpy as np
from scipy.linalg import solve_triangular

TRAIN, TEST, AXES = 150, 40, 4


def squared_distances(a, b):
    """Return the squared distances between the rows of two matrices."""
    squares = np.sum(a**2, axis=1)[:, None] + np.sum(b**2, axis=1)[None, :]
    return squares - 2.0 * a @ b.T


def rbf_kernel(a, b, lengths, amplitude):
    """Return the squared exponential kernel with one length per axis."""
    return amplitude**2 * np.exp(-0.5 * squared_distances(a / lengths, b / lengths))


def periodic_kernel(a, b, period, amplitude):
    """Return a periodic kernel along the first axis."""
    gap = a[:, None, 0] - b[None, :, 0]
    return amplitude**2 * np.exp(-2.0 * np.sin(np.pi * gap / period) ** 2)


def kernel(a, b, params):
    """Return the sum of both kernels."""
    smooth = rbf_kernel(a, b, np.exp(params["log_lengths"]), np.exp(params["log_amplitude"]))
    return smooth + periodic_kernel(a, b, np.exp(params["log_period"]), 0.3)


def log_marginal_likelihood(params, x, y):
    """Return the log likelihood of the targets, and what predictions need."""
    noise = np.exp(params["log_noise"])
    covariance = kernel(x, x, params) + (noise**2 + 1e-6) * np.eye(len(x))
    lower = np.linalg.cholesky(covariance)
    residual = y - params["mean"]
    alpha = solve_triangular(lower, residual, lower=True)
    fit = -0.5 * np.sum(alpha**2)
    volume = -np.sum(np.log(np.diag(lower)))
    return fit + volume - 0.5 * len(y) * np.log(2 * np.pi), lower, alpha


def predict(params, x, lower, alpha, points):
    """Return mean and variance at new points."""
    cross = kernel(x, points, params)
    projected = solve_triangular(lower, cross, lower=True)
    mean = params["mean"] + projected.T @ alpha
    variance = np.exp(params["log_amplitude"]) ** 2 + 0.09 - np.sum(projected**2, axis=0)
    return mean, variance


def make_problem(seed):
    """Return the objective and the hyperparameters."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(TRAIN + TEST, AXES))
    values = np.sin(2.0 * points[:, 0]) + 0.5 * points[:, 1] ** 2 + 0.1 * rng.normal(size=TRAIN + TEST)
    x, held_out = points[:TRAIN], points[TRAIN:]
    y, truth = values[:TRAIN], values[TRAIN:]
    params = {
        "mean": 0.1,
        "log_lengths": np.log(np.array([0.8, 1.0, 1.5, 2.0])),
        "log_amplitude": 0.2,
        "log_period": 0.5,
        "log_noise": -1.5,
    }

    def objective(params):
        likelihood, lower, alpha = log_marginal_likelihood(params, x, y)
        mean, variance = predict(params, x, lower, alpha, held_out)
        error = np.mean((mean - truth) ** 2 / (variance + 0.01) + np.log(variance + 0.01))
        return -likelihood / TRAIN + error

    return objective, (params,)
