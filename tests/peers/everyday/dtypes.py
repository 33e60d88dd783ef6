"""float32, casts, masked arrays and whole numbers in formulas."""

import numpy as np

from .points import MATRIX, VECTOR, WIDE
from .snippet import at

SINGLE = VECTOR.astype(np.float32)


@at(SINGLE, rtol=1e-5)
def single_precision_formula(x):
    return np.sum(np.sin(x) * x**3)


@at(SINGLE, MATRIX.astype(np.float32)[0], rtol=1e-5)
def single_precision_products(x, y):
    return np.outer(x, y).sum(axis=0) / (1 + y**2)


@at(VECTOR, expected=lambda x: (2.0 * x,), rtol=1e-5)
def cast_to_single(x):
    y = x.astype(np.float32)
    return np.sum(y * y)


@at(SINGLE, rtol=1e-5, differences=True)
def cast_to_double(x):
    return np.sum(x.astype(np.float64) ** 2)


@at(VECTOR, differences=True)
def cast_with_a_name(x):
    return np.sum(x.astype("float64") ** 2) + np.float64(3) * x.astype(float)[0]


@at(VECTOR)
def whole_number_arrays_in_formulas(x):
    counts = np.array([3, 1, 4, 1, 5])
    return (counts * x).sum() / counts.sum() + x @ counts


@at(VECTOR)
def boolean_arrays_in_formulas(x):
    flags = np.array([True, False, True, True, False])
    return np.sum(x * flags) + np.sum(x[flags]) * flags.mean()


@at(WIDE)
def one_hot_labels(logits):
    labels = np.eye(4)[[1, 3, 0]]
    return -np.sum(labels * (logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))))


@at(VECTOR, expected=lambda x: (np.where(x > 0, 2.0 * x, 0.0),))
def masked_array_sum(x):
    return np.ma.masked_where(x < 0, x**2).sum()


@at(np.float64(1.5))
def numpy_scalar(x):
    return x**2 + np.float64(2.0) * x


@at(np.array(1.5))
def array_of_no_axes(x):
    return x[()] ** 2 + np.sin(x)


@at(SINGLE, expected=lambda x: (np.cos(x),), rtol=1e-5)
def result_type_of_single(x):
    y = np.sin(x)
    assert y.dtype == np.float32
    return np.sum(y)


@at(VECTOR.astype(np.float16), expected=lambda x: (2.0 * x.astype(float),), rtol=1e-2)
def half_precision(x):
    return np.sum(x * x)
