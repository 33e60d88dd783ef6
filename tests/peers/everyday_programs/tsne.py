"""Embedding: t-SNE of points in the plane, beside a non-negative factorisation of the same table."""

import numpy as np

POINTS, FEATURES, PERPLEXITY, PARTS = 90, 10, 12.0, 4


def squared_distances(x):
    """Return the squared distances between all rows."""
    squares = np.sum(x**2, axis=1)
    return squares[:, None] + squares[None, :] - 2.0 * np.dot(x, x.T)


def conditional_probabilities(distances, precision):
    """Return the probabilities of the neighbours of one point, without itself."""
    weights = np.exp(-distances * precision)
    return weights / np.sum(weights)


def neighbour_probabilities(x):
    """Return symmetric probabilities of neighbours; each width is found by bisection for the perplexity."""
    distances = squared_distances(x)
    rows = []
    for i in range(len(x)):
        others = np.delete(distances[i], i)
        low, high = 1e-6, 1e3
        for _ in range(40):
            precision = np.sqrt(low * high)
            p = conditional_probabilities(others, precision)
            entropy = -np.sum(p * np.log(p + 1e-300))
            low, high = (precision, high) if entropy > np.log(PERPLEXITY) else (low, precision)
        rows.append(np.insert(p, i, 0.0))
    p = np.array(rows)
    return np.maximum((p + p.T) / (2.0 * len(x)), 1e-12)


def student_similarities(y):
    """Return the similarities of the embedded points, with heavy tails."""
    kernel = 1.0 / (1.0 + squared_distances(y))
    kernel = kernel * (1.0 - np.eye(len(y)))
    return np.maximum(kernel / np.sum(kernel), 1e-12)


def divergence(p, y):
    """Return the divergence of Kullback and Leibler."""
    return np.sum(p * (np.log(p) - np.log(student_similarities(y))))


def factorisation_error(left, right, table):
    """Return how far a product of non-negative factors is from the table, with a penalty on large factors."""
    positive_left, positive_right = np.log1p(np.exp(left)), np.log1p(np.exp(right))
    error = np.mean((table - positive_left @ positive_right) ** 2)
    return error + 1e-3 * (np.sum(positive_left) + np.sum(positive_right))


def draw_table(rng):
    """Return points in three clusters."""
    centres = 4.0 * rng.normal(size=(3, FEATURES))
    return centres[rng.integers(3, size=POINTS)] + rng.normal(size=(POINTS, FEATURES))


def make_problem(seed):
    """Return the objective, the embedding and the factors."""
    rng = np.random.default_rng(seed)
    table = draw_table(rng)
    p = neighbour_probabilities(table)
    shares = np.exp(table) / np.sum(np.exp(table), axis=1, keepdims=True)
    embedding = 0.5 * rng.normal(size=(POINTS, 2))
    left, right = rng.normal(size=(POINTS, PARTS)), rng.normal(size=(PARTS, FEATURES))

    def objective(embedding, left, right):
        return divergence(p, embedding) + factorisation_error(left, right, shares)

    return objective, (embedding, left, right)
