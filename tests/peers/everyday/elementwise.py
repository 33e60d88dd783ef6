"""Formulas applied to every element."""

import numpy as np

from .points import POSITIVE, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def gaussian_bump(x):
    return np.exp(-0.5 * (x / 0.7) ** 2)


@at(VECTOR)
def sigmoid_and_tanh(x):
    return 1.0 / (1.0 + np.exp(-x)) + np.tanh(x)


@at(POSITIVE)
def logs_and_roots(x):
    return np.log(x) + np.sqrt(x) + np.log1p(x) + np.expm1(-x)


@at(POSITIVE)
def logs_to_other_bases(x):
    return np.log2(x) * np.log10(x) + np.exp2(x)


@at(VECTOR)
def trigonometry(x):
    return np.sin(x) * np.cos(2 * x) + np.tan(0.3 * x)


@at(VECTOR / 3.0)
def inverse_trigonometry(x):
    return np.arcsin(x) + np.arccos(x) * np.arctan(x)


@at(VECTOR, POSITIVE.sum() + VECTOR, differences=True)
def angles_and_lengths(y, x):
    return np.arctan2(y, x), np.hypot(x, y)


@at(VECTOR)
def hyperbolic_functions(x):
    return np.sinh(x) - np.cosh(x) + np.arcsinh(x)


@at(VECTOR, differences=True)
def absolute_and_sign(x):
    return np.abs(x) ** 1.5 * np.sign(x)


@at(POSITIVE, 1.7)
def powers(x, p):
    return x**p + p**x + np.power(x, 3) + np.square(x)


@at(POSITIVE, differences=True)
def cube_roots_and_reciprocals(x):
    return np.cbrt(x) + np.reciprocal(x)


@at(VECTOR, VECTOR[::-1] + 0.05, differences=True)
def log_add_exp(x, y):
    return np.logaddexp(x, y) + np.logaddexp2(x, 0.0)


@at(VECTOR * 10.0, differences=True)
def angles_in_degrees(x):
    return np.sin(np.deg2rad(x)) + np.radians(x) * np.degrees(x)


@at(VECTOR, differences=True)
def remainders(x):
    return np.mod(x, 0.4) ** 2, x % 0.3, np.fmod(x, 0.4)


@at(VECTOR, differences=True)
def rounding_leaves_the_slope(x):
    return x - np.floor(x), np.round(x) + x**2


@at(VECTOR, differences=True)
def huber_loss(r):
    return np.where(np.abs(r) < 1.0, 0.5 * r**2, np.sign(r) * r - 0.5)


@at(VECTOR)
def binary_cross_entropy(logits):
    y = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    p = 1 / (1 + np.exp(-logits))
    return -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))


@at(0.9, 1.4, -0.3)
def scalar_formula(a, b, c):
    root = np.sqrt(b**2 - 4 * a * c)
    return (-b + root) / (2 * a)


@at(WIDE, np.array([[0.3], [1.2], [-0.4]]), VECTOR[:4])
def broadcasting_three_shapes(w, column, row):
    return (w - column) * np.exp(row) / (1.0 + column**2)


@at(VECTOR, differences=True)
def sinc_and_nan_to_num(x):
    return np.sinc(x) + np.nan_to_num(x**2)


@at(VECTOR)
def soft_plus(x):
    return np.log(1.0 + np.exp(x)), np.logaddexp(0.0, np.array([1.0])) * x[0]


@at(POSITIVE, differences=True)
def operators_of_numbers(x):
    return (2 - x) / (3 + x) - 1 / x + (-x) * +x + x // 10


@at(VECTOR, VECTOR + 2.0)
def ufuncs_by_name(x, y):
    return np.add(x, y) * np.subtract(x, y) + np.divide(x, y) - np.negative(np.multiply(x, y))


@at(VECTOR, POSITIVE)
def outer_of_a_ufunc(x, y):
    return np.subtract.outer(x, y) ** 2, np.multiply.outer(x, y)
