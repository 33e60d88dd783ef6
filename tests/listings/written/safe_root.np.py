"""Value and gradient of y, written by wiregrad from a circuit of 3 nodes."""

import numpy as np


@np.errstate(all="ignore")
def value_and_grad(x):
    """Return the value, and a dict of the gradient by input. Inputs are numbers, or arrays of one shape: a batch."""
    x = np.asarray(x, np.float64)
    # forward
    t1 = x > 0.0               # greater
    t2 = np.sqrt(x)            # sqrt
    y = np.where(t1, t2, 0.0)  # where
    # backward
    d_y = np.full_like(x, 1.0)                    # seed
    d_t2 = np.where(t1, d_y, 0.0)                 # where routes
    d_x = np.where(t1, d_t2 * (0.5 / (t2 + 0.0)), 0.0)  # sqrt scales
    return y, {"x": d_x}
