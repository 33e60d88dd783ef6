"""Value and gradient of o, written by wiregrad from a circuit of 5 nodes."""

import math


def value_and_grad(x1, w1, x2, w2, b):
    """Return the value, and a dict of the gradient by input."""
    # forward
    t1 = x1 * w1      # multiply
    t2 = x2 * w2      # multiply
    t3 = t1 + t2      # add
    n = t3 + b        # add
    o = math.tanh(n)  # tanh
    # backward
    d_o = 1.0                  # seed
    d_n = d_o * (1.0 - o * o)  # tanh scales
    d_b = d_n                  # add distributes
    d_t3 = d_n                 # add distributes
    d_t2 = d_t3                # add distributes
    d_t1 = d_t3                # add distributes
    d_w2 = d_t2 * x2           # multiply swaps
    d_x2 = d_t2 * w2           # multiply swaps
    d_w1 = d_t1 * x1           # multiply swaps
    d_x1 = d_t1 * w1           # multiply swaps
    return o, {"x1": d_x1, "w1": d_w1, "x2": d_x2, "w2": d_w2, "b": d_b}
