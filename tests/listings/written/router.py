"""Value and gradient of y, written by wiregrad from a circuit of 2 nodes."""

import math


def maximum(a, b):
    """The larger of two wires; NaN if one is NaN; half the gradient each on a tie."""
    return a if a > b or a != a else b


def value_and_grad(a, b):
    """Return the value, and a dict of the gradient by input."""
    # forward
    t1 = 0.0 if a <= 0.0 else a  # relu
    y = maximum(t1, b)           # maximum
    # backward
    d_y = 1.0                                     # seed
    s1 = d_y * (0.5 if t1 == b else math.nan if y != y else 1.0)  # maximum
    d_b = 0.0 if b < t1 else s1                   # maximum routes
    m1 = not (t1 < b)                             # maximum lets through
    d_t1 = s1 if m1 else 0.0                      # maximum routes
    d_a = (math.nan if a != a else d_t1) if m1 and not (a <= 0.0) else 0.0  # relu routes
    return y, {"a": d_a, "b": d_b}
