"""Value and gradient of L, written by wiregrad from a circuit of 5 nodes."""

import math


def exp(x):
    """math.exp, but inf where that overflows, as in IEEE 754."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    return 1.0 / (1.0 + exp(-x)) if x >= 0.0 else exp(x) / (1.0 + exp(x))


def value_and_grad(w0, x0, w1, x1, w2):
    """Return the value, and a dict of the gradient by input."""
    # forward
    t1 = w0 * x0     # multiply
    t2 = w1 * x1     # multiply
    t3 = t1 + t2     # add
    t4 = t3 + w2     # add
    L = sigmoid(t4)  # sigmoid
    # backward
    d_L = 1.0                     # seed
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
