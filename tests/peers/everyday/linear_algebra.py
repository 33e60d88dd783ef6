"""np.linalg, products and einsum."""

import numpy as np

from .points import CUBE, MATRIX, POSITIVE, SYMMETRIC, VECTOR, WIDE
from .snippet import at

RHS = np.array([1.0, -2.0, 0.5])


@at(MATRIX, RHS)
def solve_a_system(a, b):
    return np.linalg.solve(a, b)


@at(MATRIX)
def inverse(a):
    return np.linalg.inv(a) @ RHS


@at(MATRIX)
def determinant(a):
    return np.linalg.det(a)


@at(SYMMETRIC, differences=True)
def log_determinant(a):
    sign, logdet = np.linalg.slogdet(a)
    return sign * logdet


@at(SYMMETRIC, differences=True)
def cholesky_of_a_covariance(a):
    low = np.linalg.cholesky(0.5 * (a + a.T))
    return np.sum(np.log(np.diag(low))), low @ RHS


@at(SYMMETRIC, differences=True)
def eigenvalues_of_a_symmetric_matrix(a):
    return np.linalg.eigvalsh(0.5 * (a + a.T))


@at(SYMMETRIC, differences=True)
def matrix_function_by_eigh(a):
    values, vectors = np.linalg.eigh(0.5 * (a + a.T))
    return vectors @ np.diag(np.sqrt(values)) @ vectors.T


@at(WIDE, differences=True)
def singular_values(w):
    return np.linalg.svd(w, compute_uv=False)


@at(WIDE, differences=True)
def best_approximation_of_rank_one(w):
    u, s, vt = np.linalg.svd(w, full_matrices=False)
    return s[0] * np.outer(u[:, 0], vt[0])


@at(MATRIX, differences=True)
def qr_factors(a):
    q, r = np.linalg.qr(a)
    return q @ np.diag([1.0, 2.0, 3.0]) @ r


@at(np.column_stack([np.ones(5), VECTOR]), VECTOR**2)
def normal_equations(x, y):
    return np.linalg.solve(x.T @ x, x.T @ y)


@at(WIDE.T, POSITIVE, differences=True)
def least_squares(a, b):
    solution, *_ = np.linalg.lstsq(a, b, rcond=None)
    return solution


@at(WIDE, differences=True)
def pseudo_inverse(w):
    return np.linalg.pinv(w)


@at(MATRIX)
def matrix_power(a):
    return np.linalg.matrix_power(a, 3)


@at(MATRIX, WIDE, POSITIVE)
def chained_product(a, w, v):
    return np.linalg.multi_dot([a, w, v])


@at(WIDE, WIDE.T + 0.1)
def products_of_matrices(a, b):
    return a @ b + np.dot(a, b) - np.matmul(a, b) * a.dot(b)


@at(VECTOR, VECTOR**2, differences=True)
def products_of_vectors(x, y):
    return np.dot(x, y) + np.inner(x, y) * np.vdot(y, x) + np.outer(x, y).sum()


@at(MATRIX, RHS)
def quadratic_form(a, x):
    return x @ a @ x + x.T @ a.T @ x


@at(MATRIX, RHS)
def einsum_of_a_quadratic_form(a, x):
    return np.einsum("i,ij,j->", x, a, x)


@at(CUBE, MATRIX)
def einsum_of_batches(c, m):
    return np.einsum("bik,ij->bjk", c, m), np.einsum("bik->k", c)


@at(CUBE, WIDE)
def tensor_product(c, w):
    return np.tensordot(c, w, axes=([1, 2], [0, 1]))


@at(MATRIX, RHS)
def kronecker_product(a, b):
    return np.kron(a, b) ** 2


@at(RHS, RHS[::-1] ** 2)
def cross_product(a, b):
    return np.cross(a, b)


@at(MATRIX, differences=True)
def norms_of_a_matrix(a):
    return np.linalg.norm(a), np.linalg.norm(a, "fro"), np.linalg.norm(a, 2), np.linalg.norm(a, "nuc")


@at(CUBE)
def stacked_solves(c):
    a = c[:, :, :3] + 3.0 * np.eye(3)
    return np.linalg.solve(a, c[:, :, 3:]), np.linalg.inv(a)


@at(MATRIX)
def power_iteration(a):
    v = np.ones(3)
    for _ in range(5):
        v = a @ v
        v = v / np.sqrt(v @ v)
    return v @ a @ v


@at(np.array([[0.0, 1.0], [-2.0, -0.3]]), differences=True)
def eigenvalues_of_any_matrix(a):
    values = np.linalg.eigvals(a)
    return np.sum(values.real**2), np.sum(values.imag**2)


@at(np.array([[2.0, 1.0], [0.5, -0.3]]), differences=True)
def eig_of_a_matrix(a):
    values, vectors = np.linalg.eig(a)
    return (vectors @ np.diag(values**3) @ np.linalg.inv(vectors)).real


@at(SYMMETRIC, RHS)
def gaussian_log_density(cov, x):
    return -0.5 * x @ np.linalg.solve(cov, x) - 0.5 * np.log(np.linalg.det(cov)) - 1.5 * np.log(2 * np.pi)


@at(SYMMETRIC, differences=True)
def condition_number(a):
    return np.linalg.cond(a)


@at(WIDE)
def gram_matrix_and_distances(x):
    gram = x @ x.T
    squares = np.diag(gram)
    return squares[:, None] + squares[None, :] - 2 * gram


@at(CUBE)
def matrix_transposes(c):
    return c.swapaxes(-1, -2) @ c, np.matrix_transpose(c) @ c
