"""A convolutional network in NumPy: convolution as shifted products, pooling by reshape and max, two dense layers."""

from itertools import pairwise

import numpy as np

BATCH, SIDE, CLASSES = 16, 20, 10
CHANNELS = (1, 6, 12)
KERNEL = 5


def convolve(images, filters, bias):
    """Return the valid cross-correlation of images (batch, channel, row, column) with filters."""
    rows = images.shape[2] - filters.shape[2] + 1
    columns = images.shape[3] - filters.shape[3] + 1
    total = 0.0
    for i in range(filters.shape[2]):
        for j in range(filters.shape[3]):
            patch = images[:, :, i : i + rows, j : j + columns]
            total = total + np.einsum("bcij,kc->bkij", patch, filters[:, :, i, j])
    return total + bias[None, :, None, None]


def max_pool(images, width=2):
    """Return the maxima of squares that do not overlap."""
    batch, channels, rows, columns = images.shape
    blocks = images.reshape(batch, channels, rows // width, width, columns // width, width)
    return blocks.max(axis=5).max(axis=3)


def relu(x):
    """Return what is positive."""
    return np.maximum(0.0, x)


def dense(x, layer):
    """Return an affine map of each row."""
    return np.dot(x, layer["w"]) + layer["b"]


def log_softmax(logits):
    """Return log probabilities."""
    peak = np.max(logits, axis=1, keepdims=True)
    return logits - peak - np.log(np.sum(np.exp(logits - peak), axis=1, keepdims=True))


def forward(params, images):
    """Return the log probabilities of the classes."""
    h = images
    for layer in params["convolutions"]:
        h = max_pool(relu(convolve(h, layer["w"], layer["b"])))
    h = h.reshape(h.shape[0], -1)
    h = np.tanh(dense(h, params["hidden"]))
    return log_softmax(dense(h, params["output"]))


def draw_parameters(rng):
    """Return filters and matrices."""
    convolutions = [
        {"w": rng.normal(size=(n, m, KERNEL, KERNEL)) / np.sqrt(m * KERNEL**2), "b": np.zeros(n)}
        for m, n in pairwise(CHANNELS)
    ]
    side = ((SIDE - KERNEL + 1) // 2 - KERNEL + 1) // 2
    flat = CHANNELS[-1] * side * side
    return {
        "convolutions": convolutions,
        "hidden": {"w": rng.normal(size=(flat, 32)) / np.sqrt(flat), "b": np.zeros(32)},
        "output": {"w": rng.normal(size=(32, CLASSES)) / np.sqrt(32), "b": np.zeros(CLASSES)},
    }


def make_problem(seed):
    """Return the loss and the parameters."""
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(BATCH, 1, SIDE, SIDE))
    targets = np.eye(CLASSES)[rng.integers(CLASSES, size=BATCH)]

    def loss(params):
        return -np.sum(targets * forward(params, images)) / BATCH

    return loss, (draw_parameters(rng),)
