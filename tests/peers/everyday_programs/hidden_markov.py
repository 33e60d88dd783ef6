"""Hidden Markov model: the forward algorithm in logarithms, for sequences of different lengths."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

STATES, LENGTHS = 6, (60, 45, 80)


def normalise(logits):
    """Return logits as log probabilities along the last axis."""
    return logits - logsumexp(logits, axis=-1, keepdims=True)


def emission_log_densities(observations, means, log_sigmas):
    """Return the log density of each observation in each state."""
    return norm.logpdf(observations[:, None], means[None, :], np.exp(log_sigmas)[None, :])


def forward(log_start, log_transition, log_emission):
    """Return the log likelihood of one sequence."""
    alpha = log_start + log_emission[0]
    for t in range(1, len(log_emission)):
        alpha = logsumexp(alpha[:, None] + log_transition, axis=0) + log_emission[t]
    return logsumexp(alpha)


def dirichlet_penalty(log_transition, concentration=1.5):
    """Return the log prior of the rows of the transition matrix, up to a constant."""
    return (concentration - 1.0) * np.sum(log_transition)


def negative_log_posterior(params, sequences):
    """Return the objective over all sequences."""
    log_start = normalise(params["start"])
    log_transition = normalise(params["transition"])
    total = dirichlet_penalty(log_transition)
    for observations in sequences:
        log_emission = emission_log_densities(observations, params["means"], params["log_sigmas"])
        total = total + forward(log_start, log_transition, log_emission)
    return -total / sum(len(observations) for observations in sequences)


def draw_sequences(rng):
    """Return observations of a chain that tends to stay in its state."""
    levels = np.linspace(-3.0, 3.0, STATES)
    sequences = []
    for length in LENGTHS:
        state, values = 0, []
        for _ in range(length):
            if rng.random() < 0.2:
                state = int(rng.integers(STATES))
            values.append(levels[state] + 0.5 * rng.normal())
        sequences.append(np.array(values))
    return sequences


def make_problem(seed):
    """Return the objective and its parameters."""
    rng = np.random.default_rng(seed)
    sequences = draw_sequences(rng)
    params = {
        "start": rng.normal(size=STATES),
        "transition": rng.normal(size=(STATES, STATES)) + 2.0 * np.eye(STATES),
        "means": np.linspace(-2.0, 2.0, STATES),
        "log_sigmas": 0.1 * rng.normal(size=STATES),
    }

    def objective(params):
        return negative_log_posterior(params, sequences)

    return objective, (params,)
