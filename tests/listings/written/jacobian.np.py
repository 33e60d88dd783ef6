"""Jacobian of x, y, written by wiregrad from a circuit of 4 nodes."""

import numpy as np


@np.errstate(all="ignore")
def jacobian(r, t):
    """Return a dict of the gradient by input for each output. Inputs are numbers, or arrays of one shape: a batch."""
    r = np.asarray(r, np.float64)
    t = np.asarray(t, np.float64)
    r, t = np.broadcast_arrays(r, t)
    # forward
    t2 = np.cos(t)  # cos
    t4 = np.sin(t)  # sin
    # backward from x
    d_x_x = np.full_like(r, 1.0)   # seed
    d_x_t2 = d_x_x * r             # multiply swaps
    d_x_r = d_x_x * t2             # multiply swaps
    d_x_t = d_x_t2 * (-np.sin(t))  # cos scales
    # backward from y
    d_y_y = np.full_like(r, 1.0)  # seed
    d_y_t4 = d_y_y * r            # multiply swaps
    d_y_r = d_y_y * t4            # multiply swaps
    d_y_t = d_y_t4 * np.cos(t)    # sin scales
    return {"x": {"r": d_x_r, "t": d_x_t}, "y": {"r": d_y_r, "t": d_y_t}}
