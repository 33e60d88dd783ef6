"""Calls from NumPy's documentation that the other themes leave out."""

import numpy as np

from .points import MATRIX, POSITIVE, SERIES, SYMMETRIC, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def pad_with_means(x):
    return np.pad(x, 2, mode="mean", stat_length=2) * np.arange(9.0)


@at(WIDE, differences=True)
def pad_with_maxima(w):
    return np.pad(w, ((1, 0), (2, 1)), mode="maximum") ** 2


@at(VECTOR)
def pad_with_a_ramp(x):
    return np.pad(x, (3, 2), mode="linear_ramp", end_values=(1.0, -1.0)) ** 2


@at(SERIES, differences=True)
def quantile_that_is_an_observation(x):
    return np.quantile(x, [0.2, 0.7], method="inverted_cdf") ** 2


@at(SERIES, differences=True)
def quantile_between_observations(x):
    return np.quantile(x, 0.25, method="averaged_inverted_cdf") ** 2


@at(SERIES)
def take_beyond_the_ends(x):
    return np.take(x, [9, -1, 3], mode="wrap") * np.take(x, [70, 0, 1], mode="clip")


@at(SERIES)
def put_by_a_mask(x):
    y = x.copy()
    np.putmask(y, y.real > 0.85, y**2)
    return y


@at(MATRIX)
def fill_a_triangle_from_a_row(m):
    y = np.zeros((3, 3), dtype=m.dtype)
    y[np.triu_indices(3)] = m.ravel()[:6]
    return y @ y.T


@at(WIDE)
def rows_and_columns_by_ix(w):
    return w[np.ix_([0, 2], [3, 0])] ** 2


@at(WIDE)
def gradient_at_uneven_points(w):
    return np.gradient(w, np.array([0.0, 0.5, 2.0, 2.5]), axis=1, edge_order=2) ** 2


@at(SYMMETRIC)
def inverse_of_a_tensor(s):
    return np.linalg.tensorinv((np.eye(6) * 2.0 + s[0, 0]).reshape(6, 2, 3), ind=1)


@at(POSITIVE, differences=True)
def chosen_where_positive(x):
    return np.divide(1.0, x, out=np.ones(4), where=x > 0.5) + np.log(x, where=x > 1.0, out=np.zeros(4))


@at(SERIES)
def sums_with_their_start(x):
    return np.cumulative_sum(x, include_initial=True) ** 2


@at(VECTOR, differences=True)
def maxima_at_repeated_places(x):
    y = np.zeros(3)
    np.maximum.at(y, [0, 1, 1, 2, 0], x)
    return y**2


@at(SERIES)
def window_of_kaiser(x):
    return np.kaiser(8, 2.0) * np.hanning(8) * x**2


@at(VECTOR)
def coefficients_as_an_object(x):
    return np.polynomial.Polynomial(x).deriv()(0.4) ** 2


@at(WIDE)
def conditions_are_joined(w):
    return np.sum(w[(w.real > 0.0) & ~(w.real > 1.0)] ** 2)
