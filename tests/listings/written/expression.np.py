"""Value and gradient of f, written by wiregrad from a circuit of 2 nodes."""

import numpy as np


@np.errstate(all="ignore")
def value_and_grad(a, b, c):
    """Return the value, and a dict of the gradient by input. Inputs are numbers, or arrays of one shape: a batch."""
    a = np.asarray(a, np.float64)
    b = np.asarray(b, np.float64)
    c = np.asarray(c, np.float64)
    a, b, c = np.broadcast_arrays(a, b, c)
    # forward
    e = a + b  # add
    f = e * c  # multiply
    # backward
    d_f = np.full_like(a, 1.0)  # seed
    d_c = d_f * e               # multiply swaps
    d_e = d_f * c               # multiply swaps
    d_b = d_e                   # add distributes
    d_a = d_e                   # add distributes
    return f, {"a": d_a, "b": d_b, "c": d_c}
