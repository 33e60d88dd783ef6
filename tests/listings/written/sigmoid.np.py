"""Value and gradient of L, written by wiregrad from a circuit of 5 nodes."""

import numpy as np


def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    return np.where(x >= 0.0, 1.0 / (1.0 + np.exp(-x)), np.exp(x) / (1.0 + np.exp(x)))


@np.errstate(all="ignore")
def value_and_grad(w0, x0, w1, x1, w2):
    """Return the value, and a dict of the gradient by input. Inputs are numbers, or arrays of one shape: a batch."""
    w0 = np.asarray(w0, np.float64)
    x0 = np.asarray(x0, np.float64)
    w1 = np.asarray(w1, np.float64)
    x1 = np.asarray(x1, np.float64)
    w2 = np.asarray(w2, np.float64)
    w0, x0, w1, x1, w2 = np.broadcast_arrays(w0, x0, w1, x1, w2)
    # forward
    t1 = w0 * x0     # multiply
    t2 = w1 * x1     # multiply
    t3 = t1 + t2     # add
    t4 = t3 + w2     # add
    L = sigmoid(t4)  # sigmoid
    # backward
    d_L = np.full_like(w0, 1.0)   # seed
    d_t4 = d_L * (L * (1.0 - L))  # sigmoid scales
    d_w2 = d_t4                   # add distributes
    d_t3 = d_t4                   # add distributes
    d_t2 = d_t3                   # add distributes
    d_t1 = d_t3                   # add distributes
    d_x1 = d_t2 * w1              # multiply swaps
    d_w1 = d_t2 * x1              # multiply swaps
    d_x0 = d_t1 * w0              # multiply swaps
    d_w0 = d_t1 * x0              # multiply swaps
    return L, {"w0": d_w0, "x0": d_x0, "w1": d_w1, "x1": d_x1, "w2": d_w2}
