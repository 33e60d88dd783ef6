"""Value and gradient of y, written by wiregrad from a circuit of 2 nodes."""

import numpy as np


@np.errstate(all="ignore")
def value_and_grad(x):
    """Return the value, and a dict of the gradient by input. Inputs are numbers, or arrays of one shape: a batch."""
    x = np.asarray(x, np.float64)
    # forward
    t1 = x * x  # multiply
    y = t1 + x  # add
    # backward
    d_y = np.full_like(x, 1.0)  # seed
    d_x = d_y                   # add distributes
    d_t1 = d_y                  # add distributes
    d_x = d_x + d_t1 * x        # multiply swaps
    d_x = d_x + d_t1 * x        # multiply swaps
    return y, {"x": d_x}
