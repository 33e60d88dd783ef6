"""Jacobian of x, y, written by wiregrad from a circuit of 4 nodes."""

import math


def cos(x):
    """math.cos, but NaN at an infinity, as in IEEE 754."""
    return math.cos(x) if math.isfinite(x) else math.nan


def sin(x):
    """math.sin, but NaN at an infinity, as in IEEE 754."""
    return math.sin(x) if math.isfinite(x) else math.nan


def jacobian(r, t):
    """Return a dict of the gradient by input for each output."""
    # forward
    t2 = cos(t)  # cos
    t4 = sin(t)  # sin
    # backward from x
    d_x_x = 1.0                 # seed
    d_x_t2 = d_x_x * r          # multiply swaps
    d_x_r = d_x_x * t2          # multiply swaps
    d_x_t = d_x_t2 * (-sin(t))  # cos scales
    # backward from y
    d_y_y = 1.0              # seed
    d_y_t4 = d_y_y * r       # multiply swaps
    d_y_r = d_y_y * t4       # multiply swaps
    d_y_t = d_y_t4 * cos(t)  # sin scales
    return {"x": {"r": d_x_r, "t": d_x_t}, "y": {"r": d_y_r, "t": d_y_t}}
