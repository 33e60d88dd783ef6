"""Value, gradient and Hessian of f, written by wiregrad from a circuit of 4 nodes."""

import numpy as np


@np.errstate(all="ignore")
def hessian(a, b):
    """Return the value, the gradient by input, and a dict of second derivatives for each input. Inputs are numbers, or arrays of one shape: a batch."""
    a = np.asarray(a, np.float64)
    b = np.asarray(b, np.float64)
    a, b = np.broadcast_arrays(a, b)
    # forward
    t1 = a * a        # multiply
    t2 = t1 * b       # multiply
    t3 = np.sin(b)    # sin
    f = t2 + t3       # add
    t6 = np.cos(b)    # cos
    grad_b = t6 + t1  # add
    t8 = b * a        # multiply
    grad_a = t8 + t8  # add
    # backward from grad_a
    d_grad_a_grad_a = np.full_like(a, 1.0)       # seed
    d_grad_a_t8 = d_grad_a_grad_a                # add distributes
    d_grad_a_t8 = d_grad_a_t8 + d_grad_a_grad_a  # add distributes
    d_grad_a_a = d_grad_a_t8 * b                 # multiply swaps
    d_grad_a_b = d_grad_a_t8 * a                 # multiply swaps
    # backward from grad_b
    d_grad_b_grad_b = np.full_like(a, 1.0)     # seed
    d_grad_b_t1 = d_grad_b_grad_b              # add distributes
    d_grad_b_t6 = d_grad_b_grad_b              # add distributes
    d_grad_b_b = d_grad_b_t6 * (-np.sin(b))    # cos scales
    d_grad_b_a = d_grad_b_t1 * a               # multiply swaps
    d_grad_b_a = d_grad_b_a + d_grad_b_t1 * a  # multiply swaps
    return f, {"a": grad_a, "b": grad_b}, {"a": {"a": d_grad_a_a, "b": d_grad_a_b}, "b": {"a": d_grad_b_a, "b": d_grad_b_b}}
