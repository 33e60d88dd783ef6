"""A neural network as classes: layers with parameters, dropout masks, batch normalisation and a softmax loss."""

from itertools import pairwise

import numpy as np

BATCH, SIZES = 256, (20, 64, 64, 32, 5)


class Linear:
    """An affine map."""

    def __init__(self, weights, bias):
        self.weights = weights
        self.bias = bias

    def __call__(self, x):
        return x @ self.weights + self.bias


class BatchNorm:
    """Normalises each feature over the batch, then scales and shifts it."""

    def __init__(self, scale, shift, epsilon=1e-5):
        self.scale, self.shift, self.epsilon = scale, shift, epsilon

    def __call__(self, x):
        mean = np.mean(x, axis=0)
        variance = np.mean((x - mean) ** 2, axis=0)
        return self.scale * (x - mean) / np.sqrt(variance + self.epsilon) + self.shift


class Relu:
    """Keeps what is positive."""

    def __call__(self, x):
        return np.maximum(x, 0.0)


class Dropout:
    """Drops features by a mask drawn once."""

    def __init__(self, mask):
        self.mask = mask

    def __call__(self, x):
        return x * self.mask


class Sequential:
    """Layers one after the other."""

    def __init__(self, layers):
        self.layers = layers

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build_network(params, masks):
    """Return the network with these parameters."""
    layers = []
    for k, p in enumerate(params):
        layers.append(Linear(p["w"], p["b"]))
        if k < len(params) - 1:
            layers += [BatchNorm(p["scale"], p["shift"]), Relu(), Dropout(masks[k])]
    return Sequential(layers)


def cross_entropy(logits, labels):
    """Return the mean negative log probability of the labels."""
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_probs = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(log_probs[np.arange(len(labels)), labels])


def draw_parameters(rng):
    """Return parameters as a list of dicts, one per layer; the last one is not normalised."""
    params = []
    for m, n in pairwise(SIZES):
        layer = {"w": rng.normal(size=(m, n)) * np.sqrt(2.0 / m), "b": 0.1 * rng.normal(size=n)}
        if len(params) < len(SIZES) - 2:
            layer.update(scale=np.ones(n), shift=np.zeros(n))
        params.append(layer)
    return params


def make_problem(seed):
    """Return the loss and the parameters."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(BATCH, SIZES[0]))
    labels = rng.integers(SIZES[-1], size=BATCH)
    masks = [(rng.random((BATCH, n)) < 0.8) / 0.8 for n in SIZES[1:-1]]

    def loss(params):
        network = build_network(params, masks)
        decay = sum(np.sum(p["w"] ** 2) for p in params)
        return cross_entropy(network(inputs), labels) + 1e-4 * decay

    return loss, (draw_parameters(rng),)
