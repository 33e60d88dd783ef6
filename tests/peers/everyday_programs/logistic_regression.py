"""Logistic regression with polynomial features, class weights and an elastic penalty, as one writes it for a report."""

import numpy as np

POINTS, FEATURES = 3000, 12


def standardise(features):
    """Return features with mean 0 and deviation 1."""
    return (features - features.mean(axis=0)) / features.std(axis=0)


def expand(features):
    """Return a constant, the features, their squares and the products of neighbours."""
    products = features[:, :-1] * features[:, 1:]
    ones = np.ones((len(features), 1))
    return np.hstack([ones, features, features**2, products])


def log_loss(logits, labels, class_weights):
    """Return the weighted loss, written so that no exponential overflows."""
    losses = np.maximum(logits, 0.0) - logits * labels + np.log1p(np.exp(-np.abs(logits)))
    weights = np.where(labels == 1, class_weights[1], class_weights[0])
    return np.sum(weights * losses) / np.sum(weights)


def elastic_penalty(weights, strength, share):
    """Return a mixture of the squares and the smoothed magnitudes; the constant goes free."""
    inner = weights[1:]
    ridge = 0.5 * np.sum(inner**2)
    lasso = np.sum(np.sqrt(inner**2 + 1e-6))
    return strength * ((1.0 - share) * ridge + share * lasso)


def calibration_error(logits, labels, bins=10):
    """Return how far mean predictions lie from mean outcomes, over bins of equal count."""
    probabilities = 1.0 / (1.0 + np.exp(-logits))
    order = np.argsort(logits)
    error = 0.0
    for chunk in np.array_split(order, bins):
        gap = np.mean(probabilities[chunk]) - np.mean(labels[chunk])
        error += gap**2
    return error / bins


def draw_data(rng):
    """Return features and labels that depend on them smoothly."""
    features = rng.normal(size=(POINTS, FEATURES)) @ (np.eye(FEATURES) + 0.1)
    signal = features[:, 0] - 0.5 * features[:, 1] ** 2 + features[:, 2] * features[:, 3]
    labels = (signal + rng.normal(size=POINTS) > 0).astype(float)
    return features, labels


def make_problem(seed):
    """Return the objective and its parameters: weights and temperature."""
    rng = np.random.default_rng(seed)
    raw, labels = draw_data(rng)
    design = expand(standardise(raw))
    counts = np.array([np.sum(labels == 0), np.sum(labels == 1)])
    class_weights = len(labels) / (2.0 * counts)
    weights = 0.1 * rng.normal(size=design.shape[1])

    def objective(weights, log_temperature):
        logits = design @ weights / np.exp(log_temperature)
        fit = log_loss(logits, labels, class_weights)
        return fit + elastic_penalty(weights, 0.01, 0.3) + calibration_error(logits, labels)

    return objective, (weights, 0.1)
