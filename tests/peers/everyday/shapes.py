"""Shapes: reshape, transpose, join, split, pad, roll."""

import numpy as np

from .points import CUBE, MATRIX, POSITIVE, SERIES, VECTOR, WIDE
from .snippet import at


@at(WIDE)
def reshape_and_ravel(w):
    return w.reshape(4, 3).ravel() * w.flatten()


@at(WIDE)
def reshape_with_minus_one(w):
    return w.reshape(-1, 2).prod(axis=1)


@at(CUBE)
def transpose_axes(c):
    return c.transpose(2, 0, 1)[0] * np.transpose(c, (2, 0, 1))[1]


@at(CUBE)
def move_and_swap_axes(c):
    return np.moveaxis(c, 0, -1)[..., 0] * np.swapaxes(c, 0, 0)[1]


@at(WIDE)
def transpose_attribute(w):
    return w.T @ w


@at(VECTOR, POSITIVE)
def concatenate_vectors(x, y):
    return np.concatenate([x, y, x[:2]]) ** 2, np.hstack([x, y]), np.append(x, y)


@at(WIDE, WIDE + 1.0)
def concatenate_matrices(a, b):
    return np.vstack([a, b]) ** 2, np.concatenate((a, b), axis=1) ** 2


@at(VECTOR)
def concatenate_with_constants(x):
    return np.concatenate(([0.0], np.cumsum(x), [1.0])) ** 2


@at(WIDE)
def split_in_halves(w):
    left, right = np.split(w, 2, axis=1)
    return left * right


@at(SERIES)
def split_unevenly(x):
    parts = np.array_split(x, 3)
    return sum(np.sum(p) ** 2 for p in parts)


@at(VECTOR)
def pad_with_zeros_and_edges(x):
    return np.pad(x, 1) ** 2, np.pad(x, (2, 0), mode="edge") ** 2


@at(WIDE)
def pad_an_image(w):
    return np.pad(w, ((1, 1), (0, 2)), mode="reflect") ** 2, np.pad(w, 1, constant_values=2.0)


@at(WIDE)
def roll_both_ways(w):
    return np.roll(w, 1, axis=0) * np.roll(w, -1, axis=1) + np.roll(w, 2)


@at(MATRIX)
def laplacian_by_rolls(u):
    near = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return np.sum(u * (near - 4 * u))


@at(WIDE)
def flips_and_turns(w):
    return np.flip(w) * np.flipud(w) * np.fliplr(w), np.rot90(w) ** 2


@at(VECTOR)
def new_axes(x):
    return x[:, None] - x[None, :], np.expand_dims(x, 0) * x.reshape(-1, 1)


@at(VECTOR.reshape(1, 5, 1))
def squeeze_axes(x):
    return np.squeeze(x) ** 2, x.squeeze(axis=0)[:, 0]


@at(VECTOR)
def broadcast_a_row(x):
    return np.broadcast_to(x, (3, 5)) * np.arange(3.0)[:, None]


@at(VECTOR)
def at_least_two_axes(x):
    return np.atleast_2d(x) @ np.atleast_2d(x).T


@at(VECTOR)
def delete_and_insert(x):
    return np.delete(x, 1) ** 2, np.insert(x, 2, 1.0) ** 2


@at(MATRIX)
def stack_along_new_axes(m):
    return np.stack([m, m.T], axis=-1).prod(axis=-1), np.dstack([m, m**2])[0]


@at(WIDE)
def shape_used_in_formulas(w):
    n, d = w.shape
    return w.sum() / n + (w**2).sum() / (d * w.size * w.ndim * len(w))


@at(WIDE)
def unstack_and_tile(w):
    return np.tile(w, (2, 1)).sum(axis=0) * np.repeat(w, 2, axis=0)[1]


@at(CUBE)
def merge_the_first_axes(c):
    return np.concatenate(c, axis=0) ** 2, np.vstack([row for block in c for row in block])
