"""Sums, means, norms and statistics."""

import numpy as np

from .points import CUBE, MATRIX, POSITIVE, SERIES, VECTOR, WIDE
from .snippet import at


@at(WIDE)
def sums_by_axis(w):
    return w.sum(axis=0) ** 2, np.sum(w, axis=1) ** 2


@at(CUBE)
def sum_over_two_axes(c):
    return np.sum(c**2, axis=(0, 2))


@at(WIDE)
def normalised_rows(w):
    return w / w.sum(axis=1, keepdims=True)


@at(WIDE, differences=True)
def standardised_columns(w):
    return (w - w.mean(axis=0)) / w.std(axis=0)


@at(VECTOR, differences=True)
def variance_of_a_sample(x):
    return np.var(x, ddof=1) + x.std(ddof=1)


@at(POSITIVE)
def products(x):
    return np.prod(x) + x.prod()


@at(WIDE)
def largest_and_smallest(w):
    return np.max(w, axis=0) - np.min(w, axis=1).sum()


@at(VECTOR)
def sum_where(x):
    return np.sum(x**2, where=x > 0)


@at(VECTOR)
def mean_where(x):
    return np.mean(x, where=np.array([True, False, True, True, False]))


@at(VECTOR)
def sum_with_initial(x):
    return np.sum(x, initial=10.0) ** 2


@at(VECTOR)
def max_with_initial(x):
    return np.max(x, initial=1.0) * np.min(x, initial=0.0)


@at(VECTOR, differences=True)
def sum_with_a_dtype(x):
    return np.sum(x**2, dtype=np.float64)


@at(VECTOR, POSITIVE.sum() + VECTOR)
def weighted_average(x, w):
    return np.average(x, weights=w)


@at(VECTOR, differences=True)
def median_of_a_vector(x):
    return np.median(x) ** 2


@at(WIDE, differences=True)
def median_by_axis(w):
    return np.median(w, axis=1)


@at(SERIES, differences=True)
def percentiles(x):
    return np.percentile(x, [25, 50, 90]), np.quantile(x, 0.1)


@at(VECTOR, differences=True)
def spread_between_ends(x):
    return np.ptp(x) ** 2


@at(VECTOR, differences=True)
def norms_of_a_vector(x):
    return np.linalg.norm(x), np.linalg.norm(x, 1), np.linalg.norm(x, np.inf)


@at(WIDE, differences=True)
def norms_of_rows(w):
    return np.linalg.norm(w, axis=1)


@at(WIDE, differences=True)
def covariance_matrix(w):
    return np.cov(w)


@at(VECTOR, VECTOR[::-1] ** 2, differences=True)
def correlation(x, y):
    return np.corrcoef(x, y)[0, 1]


@at(VECTOR)
def log_sum_exp_by_hand(x):
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


@at(WIDE)
def softmax_by_hand(w):
    e = np.exp(w - w.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@at(np.array([0.5, np.nan, 2.0, -1.0]), differences=True)
def nan_reductions(x):
    x = x[~np.isnan(x)]
    return np.nansum(x**2) + np.nanmean(x)


@at(VECTOR, differences=True)
def nan_statistics(x):
    y = np.where(x > 1.5, np.nan, x)
    return np.nanmean(y), np.nanstd(y), np.nanvar(y), np.nanmax(y)


@at(VECTOR, differences=True)
def nan_median(x):
    y = np.where(x > 1.5, np.nan, x**2)
    return np.nanmedian(y)


@at(WIDE)
def chain_of_methods(w):
    return w.reshape(2, 6).sum(0).max()


@at(WIDE)
def mean_squared_error(w):
    target = np.arange(12.0).reshape(3, 4)
    return ((w - target) ** 2).mean()


@at(MATRIX)
def trace_and_sum_method(m):
    return np.trace(m) * m.trace() + m.sum()


@at(WIDE)
def reduce_of_a_ufunc(w):
    return np.add.reduce(w, axis=0) ** 2, np.multiply.reduce(w[0])


@at(SERIES)
def running_reductions(x):
    return np.cumsum(x) ** 2, np.cumprod(1.0 + 0.1 * x)


@at(SERIES)
def accumulate_of_ufuncs(x):
    return np.add.accumulate(x) ** 2, np.maximum.accumulate(x)


@at(WIDE)
def cumulative_by_axis(w):
    return w.cumsum(axis=1) * np.cumsum(w, axis=0)


@at(SERIES, differences=True)
def moments(x):
    z = (x - x.mean()) / x.std()
    return np.mean(z**3), np.mean(z**4) - 3.0


@at(POSITIVE)
def entropy_of_shares(x):
    p = x / np.sum(x)
    return -np.sum(p * np.log(p))


@at(SERIES, differences=True)
def counts_with_weights(x):
    return np.bincount([0, 1, 1, 2, 2, 2, 0, 4], weights=x) ** 2


@at(SERIES, differences=True)
def histogram_with_weights(x):
    counts, _ = np.histogram([0.1, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.3], bins=3, range=(0.0, 1.0), weights=x)
    return counts**2


@at(VECTOR, differences=True)
def absolute_deviation(x):
    return np.mean(np.abs(x - np.mean(x)))


@at(VECTOR)
def geometric_mean_of_squares(x):
    return np.exp(np.mean(np.log(x**2)))


@at(SERIES)
def sums_of_segments(x):
    return np.add.reduceat(x, [0, 3, 5])


@at(SERIES, differences=True)
def extremes_of_segments(x):
    return np.maximum.reduceat(x, [0, 4]), np.multiply.reduceat(x, [0, 2, 6])
