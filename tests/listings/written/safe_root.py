"""Value and gradient of y, written by wiregrad from a circuit of 3 nodes."""

import math


def divide(a, b):
    """a / b, but an infinity or NaN where b is 0, as in IEEE 754."""
    if b != 0.0:
        return a / b
    return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def sqrt(x):
    """math.sqrt, but NaN below 0, as in IEEE 754."""
    return math.sqrt(x) if x >= 0.0 else math.nan


def value_and_grad(x):
    """Return the value, and a dict of the gradient by input."""
    # forward
    t1 = x > 0.0           # greater
    t2 = sqrt(x)           # sqrt
    y = t2 if t1 else 0.0  # where
    # backward
    d_y = 1.0                                     # seed
    d_t2 = d_y if t1 else 0.0                     # where routes
    d_x = d_t2 * divide(0.5, t2 + 0.0) if t1 else 0.0  # sqrt scales
    return y, {"x": d_x}
