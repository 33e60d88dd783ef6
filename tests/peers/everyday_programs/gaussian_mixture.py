"""Gaussian mixture: the negative log likelihood of points under full covariances, fitted by gradients."""

import numpy as np
from scipy.special import logsumexp

POINTS, AXES, CLUSTERS = 800, 3, 5


def unpack_factors(log_scales, corners):
    """Return lower triangular factors of the precisions: positive diagonals, free corners."""
    rows, columns = np.tril_indices(AXES, k=-1)
    factors = []
    for k in range(CLUSTERS):
        factor = np.diag(np.exp(log_scales[k]))
        for n in range(len(rows)):
            place = np.outer(np.eye(AXES)[rows[n]], np.eye(AXES)[columns[n]])
            factor = factor + corners[k, n] * place
        factors.append(factor)
    return factors


def log_gaussian(points, mean, factor):
    """Return the log densities of points, given a factor of the precision matrix."""
    whitened = np.dot(points - mean, factor)
    log_det = np.sum(np.log(np.diag(factor)))
    return log_det - 0.5 * np.sum(whitened**2, axis=1) - 0.5 * AXES * np.log(2 * np.pi)


def log_likelihoods(params, points):
    """Return the log likelihood of each point."""
    log_weights = params["logits"] - logsumexp(params["logits"])
    factors = unpack_factors(params["log_scales"], params["corners"])
    joint = [log_weights[k] + log_gaussian(points, params["means"][k], factors[k]) for k in range(CLUSTERS)]
    return logsumexp(np.stack(joint), axis=0)


def log_prior(params):
    """Return a weak prior that keeps clusters from collapsing."""
    spread = -0.5 * np.sum(params["log_scales"] ** 2)
    centres = -0.01 * np.sum(params["means"] ** 2)
    return spread + centres - 0.1 * np.sum(params["corners"] ** 2)


def draw_points(rng):
    """Return points around a few centres."""
    centres = 3.0 * rng.normal(size=(CLUSTERS, AXES))
    labels = rng.integers(CLUSTERS, size=POINTS)
    return centres[labels] + rng.normal(size=(POINTS, AXES))


def make_problem(seed):
    """Return the objective and its parameters."""
    rng = np.random.default_rng(seed)
    points = draw_points(rng)
    params = {
        "logits": 0.1 * rng.normal(size=CLUSTERS),
        "means": rng.normal(size=(CLUSTERS, AXES)),
        "log_scales": 0.1 * rng.normal(size=(CLUSTERS, AXES)),
        "corners": 0.1 * rng.normal(size=(CLUSTERS, AXES * (AXES - 1) // 2)),
    }

    def objective(params):
        return -np.mean(log_likelihoods(params, points)) - log_prior(params) / POINTS

    return objective, (params,)
