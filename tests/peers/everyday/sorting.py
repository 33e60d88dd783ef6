"""Sorting, searching and selecting."""

import numpy as np

from .points import POSITIVE, SERIES, VECTOR, WIDE
from .snippet import at


@at(VECTOR)
def sort_a_vector(x):
    return np.sort(x) * np.arange(5)


@at(VECTOR)
def sort_downwards(x):
    return np.sort(x)[::-1][:3] ** 2


@at(WIDE)
def sort_by_axis(w):
    return np.sort(w, axis=0) * np.arange(4.0)


@at(VECTOR)
def sort_by_argsort(x):
    order = np.argsort(x)
    return x[order] * np.arange(5)


@at(VECTOR)
def sort_method_of_a_copy(x):
    y = x.copy()
    y.sort()
    return y * np.arange(5)


@at(SERIES)
def two_largest(x):
    return x[np.argsort(x)[-2:]] ** 2


@at(SERIES)
def partition_and_sum(x):
    return np.sum(np.partition(x, 3)[:3] ** 2)


@at(SERIES)
def argpartition_and_sum(x):
    return np.sum(x[np.argpartition(x, -3)[-3:]] ** 2)


@at(SERIES, differences=True)
def trimmed_mean(x):
    y = np.sort(x)
    return np.mean(y[2:-2]) + y[len(y) // 2]


@at(VECTOR)
def python_sorted_and_max(x):
    return max(x) - min(x) + sorted(x)[1] ** 2


@at(POSITIVE)
def gini_coefficient(x):
    x = np.sort(x)
    n = len(x)
    return np.sum((2 * np.arange(1, n + 1) - n - 1) * x) / (n * np.sum(x))


@at(VECTOR)
def values_looked_up_by_searchsorted(x):
    edges = np.array([-1.0, 0.0, 1.0])
    bins = np.searchsorted(edges, x)
    return np.array([1.0, 2.0, 3.0, 4.0])[bins] * x


@at(VECTOR, differences=True)
def values_of_digitize(x):
    return np.digitize(x, [-1.0, 0.0, 1.0]) * x**2


@at(SERIES)
def value_at_risk(x):
    k = int(0.25 * len(x))
    return -np.mean(np.sort(x)[:k])


@at(VECTOR)
def unique_values_in_order(x):
    return np.unique(x) * np.arange(5)


@at(VECTOR, VECTOR[::-1] * 0.9)
def order_of_one_by_another(x, y):
    return y[np.lexsort((y, x))] ** 2 * np.arange(5)
