"""Choices between values."""

import numpy as np

from .points import POSITIVE, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def where_of_two_formulas(x):
    return np.where(x > 0, x**2, -3 * x)


@at(VECTOR)
def where_of_constants(x):
    return x * np.where(x > 0, 1.0, 0.01)


@at(VECTOR)
def select_of_three(x):
    return np.select([x < -1, x < 0.4, x < 10], [x, x**2, x**3])


@at(VECTOR)
def select_with_a_default(x):
    return np.select([x > 1.0], [np.exp(-x)], default=0.5)


@at(VECTOR)
def piecewise_of_functions(x):
    return np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t**2])


@at(VECTOR, differences=True)
def clip_both_ends(x):
    return np.clip(x, -1.0, 1.0) * x, x.clip(0.0, None)


@at(VECTOR, -0.5, 0.6, differences=True)
def clip_at_variables(x, low, high):
    return np.clip(x, low, high) ** 2


@at(VECTOR, VECTOR[::-1] + 0.1)
def maximum_and_minimum(x, y):
    return np.maximum(x, y) * np.minimum(x, 0.1)


@at(VECTOR)
def rectifier(x):
    return np.maximum(0, x) ** 2 + np.maximum(x, 0.1 * x)


@at(1.5)
def if_else_on_a_number(x):
    if x > 1.0:
        return x**2
    return 3 * x - 2


@at(VECTOR)
def if_on_a_sum(x):
    y = np.sin(x)
    if np.sum(y) > 100 or np.any(np.isnan(y)):
        y = y * 0
    return y


@at(0.7)
def chained_conditions(x):
    return 0.0 if x <= 0 else x**2 if 0 < x < 1 else 2 * x - 1


@at(2.0)
def newton_until_converged(a):
    x = a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


@at(VECTOR)
def masked_by_multiplication(x):
    mask = (x > 0) & (x < 1)
    return np.sum(mask * x**2) + np.sum(~mask * x)


@at(VECTOR)
def guarded_log(x):
    safe = np.where(x > 0, x, 1.0)
    return np.where(x > 0, np.log(safe), 0.0)


@at(WIDE)
def masked_array_mean(w):
    mask = w > 0
    return np.sum(np.where(mask, w, 0.0), axis=1) / np.sum(mask, axis=1)


@at(VECTOR, differences=True)
def step_by_heaviside(x):
    return np.heaviside(x, 0.5) * x**2


@at(VECTOR)
def choose_by_index(x):
    return np.choose([0, 1, 0, 1, 1], [x, x**2])


@at(VECTOR)
def assertion_and_checks(x):
    assert x.shape == (5,)
    assert np.all(np.isfinite(x))
    if not np.allclose(x, 0.0):
        x = x / np.max(x)
    return x


@at(POSITIVE)
def tax_brackets(income):
    low, high = np.minimum(income, 1.0), np.maximum(income - 1.0, 0.0)
    return 0.2 * low + 0.4 * high


@at(VECTOR, differences=True)
def fmax_and_fmin(x):
    return np.fmax(x, 0.2) - np.fmin(x, -0.1)


@at(VECTOR)
def first_that_exceeds(x):
    for v in x:
        if v > 1.0:
            return v**2
    return 0.0


@at(VECTOR, differences=True)
def triangle_wave(x):
    return 2 * np.abs(x - np.floor(x + 0.5))
