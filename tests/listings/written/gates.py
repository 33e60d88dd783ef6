"""Value and gradient of f, written by wiregrad from a circuit of 2 nodes."""


def value_and_grad(x, y, z):
    """Return the value, and a dict of the gradient by input."""
    # forward
    q = x + y  # add
    f = q * z  # multiply
    # backward
    d_f = 1.0      # seed
    d_z = d_f * q  # multiply swaps
    d_q = d_f * z  # multiply swaps
    d_y = d_q      # add distributes
    d_x = d_q      # add distributes
    return f, {"x": d_x, "y": d_y, "z": d_z}
