"""MCMC: a Hamiltonian trajectory on a logistic posterior, differentiated by its step size and masses.

The expected squared jump of a few chains measures how well the sampler is tuned; its gradient tunes it.
"""

import numpy as np

POINTS, FEATURES, CHAINS, LEAPS = 120, 8, 10, 12


def log_posterior(weights, features, labels):
    """Return the log posterior of each chain's weights."""
    logits = weights @ features.T
    likelihood = np.sum(labels * logits - np.logaddexp(0.0, logits), axis=1)
    return likelihood - 0.5 * np.sum(weights**2, axis=1)


def posterior_slope(weights, features, labels):
    """Return the gradient of the log posterior, worked out by hand."""
    probabilities = 1.0 / (1.0 + np.exp(-(weights @ features.T)))
    return (labels - probabilities) @ features - weights


def leapfrog(weights, momentum, step, inverse_mass, features, labels):
    """Return position and momentum at the end of a trajectory."""
    momentum = momentum + 0.5 * step * posterior_slope(weights, features, labels)
    for _ in range(LEAPS - 1):
        weights = weights + step * inverse_mass * momentum
        momentum = momentum + step * posterior_slope(weights, features, labels)
    weights = weights + step * inverse_mass * momentum
    momentum = momentum + 0.5 * step * posterior_slope(weights, features, labels)
    return weights, momentum


def total_energy(weights, momentum, inverse_mass, features, labels):
    """Return the Hamiltonian of each chain."""
    kinetic = 0.5 * np.sum(inverse_mass * momentum**2, axis=1)
    return kinetic - log_posterior(weights, features, labels)


def acceptance(change):
    """Return the probability that a chain accepts an energy change."""
    return np.minimum(1.0, np.exp(-change))


def expected_jump(log_step, log_mass, start, noise, features, labels):
    """Return the mean squared jump, weighted by the probability of acceptance."""
    step, mass = np.exp(log_step), np.exp(log_mass)
    momentum = np.sqrt(mass) * noise
    end, last = leapfrog(start, momentum, step, 1.0 / mass, features, labels)
    before = total_energy(start, momentum, 1.0 / mass, features, labels)
    after = total_energy(end, last, 1.0 / mass, features, labels)
    jumps = np.sum((end - start) ** 2, axis=1)
    return np.mean(acceptance(after - before) * jumps)


def make_problem(seed):
    """Return the negative jump, and step size, masses and start of the chains."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(POINTS, FEATURES))
    labels = (features @ rng.normal(size=FEATURES) + rng.normal(size=POINTS) > 0).astype(float)
    start = 0.3 * rng.normal(size=(CHAINS, FEATURES))
    noise = rng.normal(size=(CHAINS, FEATURES))

    def objective(log_step, log_mass, start):
        return -expected_jump(log_step, log_mass, start, noise, features, labels)

    return objective, (-2.5, 0.1 * rng.normal(size=FEATURES), start)
