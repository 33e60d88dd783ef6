"""Value and gradient of y, written by wiregrad from a circuit of 2 nodes."""

import numpy as np


@np.errstate(all="ignore")
def value_and_grad(a, b):
    """Return the value, and a dict of the gradient by input. Inputs are numbers, or arrays of one shape: a batch."""
    a = np.asarray(a, np.float64)
    b = np.asarray(b, np.float64)
    a, b = np.broadcast_arrays(a, b)
    # forward
    t1 = np.where(a <= 0.0, 0.0, a)  # relu
    y = np.maximum(t1, b)            # maximum
    # backward
    d_y = np.full_like(a, 1.0)                    # seed
    s1 = d_y * np.where(t1 == b, 0.5, np.where(np.isnan(y), np.nan, 1.0))  # maximum
    d_b = np.where(b < t1, 0.0, s1)               # maximum routes
    m1 = np.logical_not(t1 < b)                   # maximum lets through
    d_t1 = np.where(m1, s1, 0.0)                  # maximum routes
    d_a = np.where(np.logical_and(m1, np.logical_not(a <= 0.0)), np.where(np.isnan(a), np.nan, d_t1), 0.0)  # relu routes
    return y, {"a": d_a, "b": d_b}
