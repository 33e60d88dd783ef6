"""Arrays made of numbers that are differentiated."""

import numpy as np

from .points import MATRIX, POSITIVE, VECTOR
from .snippet import at


@at(1.5, -0.5)
def pair_of_numbers(a, b):
    v = np.array([a, b])
    return v @ v


@at(0.3)
def rotation_matrix(angle):
    c, s = np.cos(angle), np.sin(angle)
    rotation = np.array([[c, -s], [s, c]])
    return rotation @ np.array([1.0, 2.0])


@at(0.7, 1.1)
def array_of_a_tuple(a, b):
    return np.sum(np.array((a, b, a * b)) ** 2)


@at(VECTOR)
def array_of_an_array(x):
    y = np.array(x)
    return np.sum(y**3)


@at(VECTOR)
def asarray_of_an_argument(x):
    x = np.asarray(x)
    return np.sum(np.sin(x))


@at(VECTOR, differences=True)
def asarray_with_a_dtype(x):
    x = np.asarray(x, dtype=float)
    return np.sum(x * x)


@at(2.0)
def array_of_one_number(a):
    return np.array(a) ** 2 + np.array([a])[0]


@at(0.8)
def constants_and_numbers_mixed(a):
    return np.array([1.0, a, 2.0, a**2]).mean()


@at(1.2)
def full_of_a_number(a):
    return np.full(3, a).sum() + np.full((2, 2), a**2).sum()


@at(VECTOR)
def full_like_with_a_number(x):
    return np.sum(np.full_like(x, x[0]) * x)


@at(1.0, 2.5)
def diagonal_matrix_of_a_list(a, b):
    return np.diag([a, b]) @ np.array([3.0, 4.0])


@at(VECTOR)
def diagonal_matrix_of_a_vector(x):
    d = np.diag(x)
    return np.trace(d @ d)


@at(0.4, VECTOR)
def row_joined_by_r(a, x):
    return np.r_[a, x, 1.0] ** 2


@at(VECTOR, VECTOR + 0.1)
def columns_joined_by_c(x, y):
    return np.sum(np.c_[x, y].prod(axis=1))


@at(1.0, 3.0)
def mean_of_a_list(a, b):
    return np.mean([a, b, a * b])


@at(1.0, 3.0, 0.2)
def maximum_of_a_list(a, b, c):
    return np.max([a, b, c]) * np.sum([a, b, c])


@at(0.5, 2.0)
def linspace_of_numbers(start, stop):
    t = np.linspace(start, stop, 5)
    return np.sum(t**2)


@at(VECTOR)
def stack_of_pieces(x):
    return np.stack([x, x**2, np.sin(x)]).sum(axis=0)


@at(0.3, 0.6)
def stack_of_numbers(a, b):
    return np.stack([a, b, a + b]) ** 2


@at(VECTOR)
def array_of_a_comprehension(x):
    return np.array([v**2 for v in x])


@at(VECTOR)
def array_of_rows(x):
    return np.array([x, 2.0 * x, x**2])[1:].sum()


@at(VECTOR, VECTOR - 0.3)
def column_stack_and_product(x, y):
    design = np.column_stack([np.ones_like(x), x, y])
    return np.sum(design.T @ design)


@at(1.4, 0.2)
def block_matrix_of_numbers(a, b):
    return np.linalg.det(np.array([[a, b], [b, a]]))


@at(MATRIX)
def block_matrix_of_matrices(m):
    return np.sum(np.block([[m, np.eye(3)], [np.zeros((3, 3)), m.T]]) ** 2)


@at(VECTOR, differences=True)
def fromiter_of_a_generator(x):
    return np.sum(np.fromiter((v * v for v in x), dtype=float))


@at(0.9)
def power_series_from_arange(r):
    n = np.arange(6)
    return np.sum(r**n)


@at(0.5, 1.5)
def geometric_steps(a, b):
    return np.sum(np.geomspace(a, b, 4)) + np.sum(np.logspace(0.0, b, 3))


@at(POSITIVE)
def tiled_and_repeated(x):
    return np.tile(x, 2) * np.repeat(x, 2)


@at(VECTOR)
def ones_like_times(x):
    return np.ones_like(x) @ x + np.zeros_like(x).sum()


@at(0.1, 0.2, 0.3)
def skew_matrix(a, b, c):
    skew = np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])
    return np.sum((np.eye(3) + skew) @ (np.eye(3) + skew) * np.arange(9.0).reshape(3, 3))


@at(0.7, 1.3)
def meshgrid_of_vectors(a, b):
    x, y = np.meshgrid(a * np.arange(3.0), b * np.arange(4.0))
    return np.sum(np.sin(x) * y)


@at(VECTOR)
def vandermonde(x):
    return np.sum(np.vander(x, 3, increasing=True))


@at(VECTOR, differences=True)
def vectorize_rows_by_signature(x):
    normalise = np.vectorize(lambda row, k: row * k / np.sum(row**2), signature="(n),()->(n)")
    return normalise(np.outer(x[:2], x), x[:2])


@at(VECTOR, differences=True)
def function_of_elements_by_frompyfunc(x):
    relu = np.frompyfunc(lambda t: t if t > 0 else 0.1 * t, 1, 1)
    return np.sum(relu(x) ** 2)


@at(MATRIX, differences=True)
def enumerate_all_elements(m):
    total = 0.0
    for (i, j), element in np.ndenumerate(m):
        total += (i - j) * element**2
    return total
