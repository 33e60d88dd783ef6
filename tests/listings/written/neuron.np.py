"""Value and gradient of o, written by wiregrad from a circuit of 5 nodes."""

import numpy as np


@np.errstate(all="ignore")
def value_and_grad(x1, w1, x2, w2, b):
    """Return the value, and a dict of the gradient by input. Inputs are numbers, or arrays of one shape: a batch."""
    x1 = np.asarray(x1, np.float64)
    w1 = np.asarray(w1, np.float64)
    x2 = np.asarray(x2, np.float64)
    w2 = np.asarray(w2, np.float64)
    b = np.asarray(b, np.float64)
    x1, w1, x2, w2, b = np.broadcast_arrays(x1, w1, x2, w2, b)
    # forward
    t1 = x1 * w1    # multiply
    t2 = x2 * w2    # multiply
    t3 = t1 + t2    # add
    n = t3 + b      # add
    o = np.tanh(n)  # tanh
    # backward
    d_o = np.full_like(x1, 1.0)  # seed
    d_n = d_o * (1.0 - o * o)    # tanh scales
    d_b = d_n                    # add distributes
    d_t3 = d_n                   # add distributes
    d_t2 = d_t3                  # add distributes
    d_t1 = d_t3                  # add distributes
    d_w2 = d_t2 * x2             # multiply swaps
    d_x2 = d_t2 * w2             # multiply swaps
    d_w1 = d_t1 * x1             # multiply swaps
    d_x1 = d_t1 * w1             # multiply swaps
    return o, {"x1": d_x1, "w1": d_w1, "x2": d_x2, "w2": d_w2, "b": d_b}
