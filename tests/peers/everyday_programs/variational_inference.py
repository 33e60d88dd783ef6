"""Black-box variational inference: the evidence lower bound of a robust regression, by reparameterised samples."""

import numpy as np
from scipy.special import gammaln
from scipy.stats import norm

POINTS, FEATURES, SAMPLES = 200, 6, 30
WEIGHTS, SCALE, FREEDOM = slice(0, FEATURES), FEATURES, FEATURES + 1


def student_log_density(residuals, freedom, scale):
    """Return the log density of Student's distribution with a free scale and number of degrees of freedom."""
    constant = gammaln(0.5 * (freedom + 1.0)) - gammaln(0.5 * freedom)
    constant = constant - 0.5 * np.log(freedom * np.pi) - np.log(scale)
    return constant - 0.5 * (freedom + 1.0) * np.log1p((residuals / scale) ** 2 / freedom)


def log_joint(samples, features, targets):
    """Return the log of prior times likelihood, for each sample of all unknowns."""
    weights = samples[:, WEIGHTS]
    scale = np.exp(samples[:, SCALE])[:, None]
    freedom = 2.0 + np.exp(samples[:, FREEDOM])[:, None]
    prior = np.sum(norm.logpdf(weights, 0.0, 2.0), axis=1)
    prior = prior + norm.logpdf(samples[:, SCALE], -1.0, 1.0) + norm.logpdf(samples[:, FREEDOM], 1.0, 0.5)
    residuals = targets[None, :] - weights @ features.T
    return prior + np.sum(student_log_density(residuals, freedom, scale), axis=1)


def gaussian_entropy(log_sigma):
    """Return the entropy of the variational family."""
    return np.sum(log_sigma) + 0.5 * len(log_sigma) * (1.0 + np.log(2 * np.pi))


def lower_bound(mean, log_sigma, noise, features, targets):
    """Return the evidence lower bound, estimated with fixed noise."""
    samples = mean + np.exp(log_sigma) * noise
    return np.mean(log_joint(samples, features, targets)) + gaussian_entropy(log_sigma)


def draw_data(rng):
    """Return features and targets with some outliers."""
    features = rng.normal(size=(POINTS, FEATURES))
    targets = features @ np.linspace(-1.0, 1.5, FEATURES) + 0.3 * rng.normal(size=POINTS)
    outliers = rng.random(POINTS) < 0.05
    return features, targets + 5.0 * outliers * rng.normal(size=POINTS)


def make_problem(seed):
    """Return the negative bound and the parameters of the family."""
    rng = np.random.default_rng(seed)
    features, targets = draw_data(rng)
    noise = rng.normal(size=(SAMPLES, FEATURES + 2))
    mean = 0.1 * rng.normal(size=FEATURES + 2)
    log_sigma = -1.0 + 0.1 * rng.normal(size=FEATURES + 2)

    def objective(mean, log_sigma):
        return -lower_bound(mean, log_sigma, noise, features, targets) / POINTS

    return objective, (mean, log_sigma)
