"""Splines: a natural cubic spline through free knots and a B-spline curve in the plane, both fitted to data."""

from itertools import pairwise

import numpy as np

KNOTS, POINTS, CONTROLS, DEGREE = 14, 400, 12, 3
BASIS_KNOTS = np.concatenate([np.zeros(DEGREE), np.linspace(0.0, 1.0, CONTROLS - DEGREE + 1), np.ones(DEGREE)])


def second_derivatives(x, y):
    """Return the second derivatives of the natural cubic spline at its knots, from a tridiagonal system."""
    h = np.diff(x)
    slopes = np.diff(y) / h
    inner = np.diag(2.0 * (h[:-1] + h[1:])) + np.diag(h[1:-1], k=1) + np.diag(h[1:-1], k=-1)
    solution = np.linalg.solve(inner, 6.0 * np.diff(slopes))
    return np.concatenate([np.zeros(1), solution, np.zeros(1)])


def evaluate_spline(x, y, points):
    """Return the natural cubic spline at points inside the knots."""
    m = second_derivatives(x, y)
    k = np.clip(np.searchsorted(x, points) - 1, 0, len(x) - 2)
    h = x[k + 1] - x[k]
    right, left = (points - x[k]) / h, (x[k + 1] - points) / h
    bend = (left**3 - left) * m[k] + (right**3 - right) * m[k + 1]
    return left * y[k] + right * y[k + 1] + bend * h**2 / 6.0


def bending_energy(x, y):
    """Return the integral of the squared second derivative, which is piecewise linear."""
    m = second_derivatives(x, y)
    return np.sum(np.diff(x) * (m[:-1] ** 2 + m[:-1] * m[1:] + m[1:] ** 2)) / 3.0


def basis_matrix(parameters, knots=BASIS_KNOTS):
    """Return the B-spline basis functions by the recursion of Cox and de Boor."""
    basis = [(parameters >= a) * (parameters < b) * 1.0 for a, b in pairwise(knots)]
    for degree in range(1, DEGREE + 1):
        raised = []
        for i in range(len(basis) - 1):
            term = 0.0 * parameters
            if knots[i + degree] > knots[i]:
                term = term + (parameters - knots[i]) / (knots[i + degree] - knots[i]) * basis[i]
            if knots[i + degree + 1] > knots[i + 1]:
                span = knots[i + degree + 1] - knots[i + 1]
                term = term + (knots[i + degree + 1] - parameters) / span * basis[i + 1]
            raised.append(term)
        basis = raised
    return np.stack(basis, axis=1)


def curve_error(controls, warp, outline):
    """Return the mean squared distance to an outline whose parameters are free along the curve."""
    t = np.linspace(0.0, 0.999, len(outline))
    curve = basis_matrix(t + warp * t * (0.999 - t)) @ controls
    return np.mean(np.sum((curve - outline) ** 2, axis=1))


def make_problem(seed):
    """Return the objective and its parameters: heights of the knots, control points and the warp."""
    rng = np.random.default_rng(seed)
    points = np.sort(rng.uniform(0.0, 10.0, size=POINTS))
    values = np.sin(points) + 0.1 * points + 0.1 * rng.normal(size=POINTS)
    x = np.linspace(0.0, 10.0, KNOTS)
    angle = np.linspace(0.0, 2 * np.pi, 200)
    outline = np.stack([np.cos(angle) * (1.0 + 0.3 * np.cos(3 * angle)), np.sin(angle)], axis=1)

    def objective(log_gaps, y, controls, warp):
        gaps = np.exp(log_gaps)
        knots = 10.0 * np.concatenate([np.zeros(1), np.cumsum(gaps)]) / np.sum(gaps)
        fit = np.mean((evaluate_spline(knots, y, points) - values) ** 2)
        return fit + 1e-3 * bending_energy(knots, y) + curve_error(controls, warp, outline)

    return objective, (0.1 * rng.normal(size=KNOTS - 1), np.sin(x), rng.normal(size=(CONTROLS, 2)), 0.2)
