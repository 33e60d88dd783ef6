"""Value, gradient and Hessian of f, written by wiregrad from a circuit of 4 nodes."""

import math


def cos(x):
    """math.cos, but NaN at an infinity, as in IEEE 754."""
    return math.cos(x) if math.isfinite(x) else math.nan


def sin(x):
    """math.sin, but NaN at an infinity, as in IEEE 754."""
    return math.sin(x) if math.isfinite(x) else math.nan


def hessian(a, b):
    """Return the value, the gradient by input, and a dict of second derivatives for each input."""
    # forward
    t1 = a * a        # multiply
    t2 = t1 * b       # multiply
    t3 = sin(b)       # sin
    f = t2 + t3       # add
    t6 = cos(b)       # cos
    grad_b = t6 + t1  # add
    t8 = b * a        # multiply
    grad_a = t8 + t8  # add
    # backward from grad_a
    d_grad_a_grad_a = 1.0           # seed
    d_grad_a_t8 = d_grad_a_grad_a   # add distributes
    d_grad_a_t8 += d_grad_a_grad_a  # add distributes
    d_grad_a_a = d_grad_a_t8 * b    # multiply swaps
    d_grad_a_b = d_grad_a_t8 * a    # multiply swaps
    # backward from grad_b
    d_grad_b_grad_b = 1.0                 # seed
    d_grad_b_t1 = d_grad_b_grad_b         # add distributes
    d_grad_b_t6 = d_grad_b_grad_b         # add distributes
    d_grad_b_b = d_grad_b_t6 * (-sin(b))  # cos scales
    d_grad_b_a = d_grad_b_t1 * a          # multiply swaps
    d_grad_b_a += d_grad_b_t1 * a         # multiply swaps
    return f, {"a": grad_a, "b": grad_b}, {"a": {"a": d_grad_a_a, "b": d_grad_a_b}, "b": {"a": d_grad_b_a, "b": d_grad_b_b}}
