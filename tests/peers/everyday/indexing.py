"""Reading parts of arrays."""

import numpy as np

from .points import CUBE, MATRIX, SERIES, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def one_element(x):
    return x[0] * x[-1]


@at(VECTOR)
def neighbours(x):
    return np.sum((x[1:] - x[:-1]) ** 2)


@at(VECTOR)
def every_second_backwards(x):
    return x[::2] ** 2, x[::-1] * np.arange(5)


@at(WIDE)
def one_column(w):
    return w[:, 1] * w[:, -1]


@at(CUBE)
def ellipsis_and_newaxis(c):
    return np.sum(c[..., 0, np.newaxis] * c[:, :, 1:3])


@at(VECTOR)
def by_a_list_with_repeats(x):
    return x[[0, 0, 3, 1]] ** 2


@at(VECTOR)
def by_an_array_of_indices(x):
    index = np.array([[0, 1], [4, 2]])
    return x[index] ** 2


@at(VECTOR)
def by_a_mask(x):
    return np.sum(x[x > 0] ** 2)


@at(WIDE)
def rows_by_a_mask(w):
    keep = np.array([True, False, True])
    return w[keep].sum() * w[~keep].sum()


@at(WIDE)
def one_entry_per_row(w):
    labels = np.array([2, 0, 3])
    return -np.mean(w[np.arange(3), labels])


@at(VECTOR)
def take_with_indices(x):
    return np.take(x, [1, 3]) * x.take([0, 2])


@at(WIDE)
def take_along_rows(w):
    order = np.argsort(w, axis=1)
    return np.take_along_axis(w, order, axis=1)


@at(MATRIX)
def diagonal_and_upper_triangle(m):
    return m.diagonal() ** 2, m[np.triu_indices(3, k=1)]


@at(MATRIX)
def lower_triangle(m):
    low = np.tril(m)
    return low @ low.T


@at(VECTOR)
def unpack_a_vector(x):
    a, b, *rest = x
    return a * b + sum(rest)


@at(WIDE)
def unpack_rows(w):
    first, second, third = w
    return first @ second - np.sum(third)


@at(VECTOR)
def iterate_and_enumerate(x):
    return sum(i * v for i, v in enumerate(x))


@at(VECTOR, VECTOR + 1.0)
def iterate_by_zip(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


@at(WIDE)
def two_levels_of_brackets(w):
    return w[1][2] * w[0][1:3].sum()


@at(SERIES)
def windows_of_a_series(x):
    windows = np.lib.stride_tricks.sliding_window_view(x, 3)
    return windows.mean(axis=1)


@at(CUBE)
def block_of_a_cube(c):
    return c[1, 1:, ::-1] * c[0, :2, :]


@at(VECTOR)
def flat_iteration(x):
    return np.sum(x.reshape(5, 1).flat[1:4] ** 2)


@at(WIDE)
def index_by_ix(w):
    return w[np.ix_([0, 2], [1, 3])] ** 2


@at(VECTOR)
def nonzero_positions(x):
    return np.sum(x[np.nonzero(x > 0.4)] ** 3)


@at(VECTOR)
def compress_and_extract(x):
    return np.compress(x > 0, x) ** 2, np.extract(x < 0, x)


@at(VECTOR)
def element_by_item_of_argmax(x):
    return x[np.argmax(x)] - x[x.argmin()]
