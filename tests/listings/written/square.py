"""Value and gradient of y, written by wiregrad from a circuit of 2 nodes."""


def value_and_grad(x):
    """Return the value, and a dict of the gradient by input."""
    # forward
    t1 = x * x  # multiply
    y = t1 + x  # add
    # backward
    d_y = 1.0        # seed
    d_x = d_y        # add distributes
    d_t1 = d_y       # add distributes
    d_x += d_t1 * x  # multiply swaps
    d_x += d_t1 * x  # multiply swaps
    return y, {"x": d_x}
