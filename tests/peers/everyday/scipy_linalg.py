"""scipy.linalg."""

import numpy as np
from scipy import linalg
from scipy.linalg import cho_factor, cho_solve, expm, solve_triangular

from .points import MATRIX, POSITIVE, SYMMETRIC, VECTOR, WIDE
from .snippet import at

RHS = np.array([1.0, -2.0, 0.5])


@at(MATRIX, RHS)
def scipy_solve(a, b):
    return linalg.solve(a, b)


@at(SYMMETRIC, RHS, differences=True)
def solve_a_positive_system(a, b):
    return linalg.solve(0.5 * (a + a.T), b, assume_a="pos")


@at(MATRIX, RHS, differences=True)
def triangular_solves(a, b):
    return solve_triangular(a, b, lower=True), solve_triangular(a, b), solve_triangular(a, b, lower=True, trans="T")


@at(SYMMETRIC, differences=True)
def scipy_cholesky(a):
    s = 0.5 * (a + a.T)
    return linalg.cholesky(s, lower=True), linalg.cholesky(s)


@at(SYMMETRIC, RHS, differences=True)
def cholesky_factor_and_solve(a, b):
    return cho_solve(cho_factor(0.5 * (a + a.T), lower=True), b)


@at(SYMMETRIC, RHS, differences=True)
def gaussian_process_likelihood(a, y):
    low = linalg.cholesky(0.5 * (a + a.T), lower=True)
    alpha = solve_triangular(low, y, lower=True)
    return -0.5 * alpha @ alpha - np.sum(np.log(np.diag(low)))


@at(0.3 * MATRIX)
def matrix_exponential(a):
    return expm(a)


@at(SYMMETRIC, differences=True)
def matrix_logarithm_and_root(a):
    return linalg.logm(a), linalg.sqrtm(a)


@at(MATRIX, differences=True)
def scipy_inverse_and_determinant(a):
    return linalg.inv(a), linalg.det(a)


@at(MATRIX, differences=True)
def lu_factors(a):
    p, low, up = linalg.lu(a)
    return p @ low, up


@at(MATRIX, differences=True)
def scipy_qr(a):
    q, r = linalg.qr(a)
    return np.abs(np.diag(r)) ** 2, q @ r


@at(WIDE, differences=True)
def scipy_svd_values(w):
    return linalg.svd(w, compute_uv=False), linalg.svdvals(w)


@at(SYMMETRIC, differences=True)
def scipy_eigh(a):
    values, vectors = linalg.eigh(0.5 * (a + a.T))
    return values, vectors**2


@at(MATRIX, WIDE)
def block_diagonal(a, w):
    return linalg.block_diag(a, w, 1.0) ** 2


@at(POSITIVE, differences=True)
def toeplitz_matrix(c):
    return linalg.toeplitz(c) @ np.arange(4.0)


@at(VECTOR, differences=True)
def scipy_norm(x):
    return linalg.norm(x), linalg.norm(x, 1)


@at(WIDE.T, POSITIVE, differences=True)
def scipy_least_squares(a, b):
    return linalg.lstsq(a, b)[0]


@at(POSITIVE)
def other_special_matrices(c):
    return linalg.circulant(c) @ np.arange(4.0), linalg.hankel(c) ** 2


@at(MATRIX, SYMMETRIC, differences=True)
def lyapunov_equation(a, q):
    return linalg.solve_continuous_lyapunov(a, q)


@at(MATRIX, RHS, differences=True)
def lu_factor_and_solve(a, b):
    return linalg.lu_solve(linalg.lu_factor(a), b)


@at(MATRIX, SYMMETRIC, differences=True)
def sylvester_equation(a, b):
    return linalg.solve_sylvester(a, b, np.eye(3))
