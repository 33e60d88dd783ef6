"""Value and gradient of f, written by wiregrad from a circuit of 10 nodes."""

import numpy as np


@np.errstate(all="ignore")
def value_and_grad(w1, b1, w2, x, target):
    """Return the value, and a dict of the gradient by input."""
    w1 = np.asarray(w1, np.float64)
    if w1.shape != (2, 3): raise ValueError(f"w1 must have shape (2, 3); got {w1.shape}")
    b1 = np.asarray(b1, np.float64)
    if b1.shape != (3,): raise ValueError(f"b1 must have shape (3,); got {b1.shape}")
    w2 = np.asarray(w2, np.float64)
    if w2.shape != (3, 1): raise ValueError(f"w2 must have shape (3, 1); got {w2.shape}")
    x = np.asarray(x, np.float64)
    if x.shape != (4, 2): raise ValueError(f"x must have shape (4, 2); got {x.shape}")
    target = np.asarray(target, np.float64)
    if target.shape != (4, 1): raise ValueError(f"target must have shape (4, 1); got {target.shape}")
    # forward
    t5 = x @ w1                       # matmul, model.py:5
    t6 = np.broadcast_to(b1, (4, 3))  # spread, model.py:5
    t7 = t5 + t6                      # add, model.py:5
    hidden = np.tanh(t7)              # tanh, model.py:5
    guess = hidden @ w2               # matmul, model.py:6
    t10 = guess - target              # subtract, model.py:7
    t13 = np.power(t10, 2.0)          # power, model.py:7
    # mean
    t14 = np.sum(t13)                 # sum, model.py:7
    f = t14 / 4.0                     # divide, model.py:7
    # backward
    d_f = 1.0                                     # seed
    # mean
    d_t14 = d_f * 0.25                            # divide scales, model.py:7
    d_t13 = np.broadcast_to(np.reshape(d_t14, (1, 1)), (4, 1))  # sum distributes, model.py:7
    d_t10 = np.where(np.isnan(t13), np.nan, d_t13 * (2.0 * t10))  # power scales, model.py:7
    d_target = -d_t10                             # subtract distributes, model.py:7
    d_guess = d_t10                               # subtract distributes, model.py:7
    d_w2 = hidden.T @ d_guess                     # matmul swaps, model.py:6
    d_hidden = d_guess @ w2.T                     # matmul swaps, model.py:6
    d_t7 = d_hidden * (1.0 - hidden * hidden)     # tanh scales, model.py:5
    d_t6 = d_t7                                   # add distributes, model.py:5
    d_t5 = d_t7                                   # add distributes, model.py:5
    d_b1 = np.sum(d_t6, axis=0)                   # spread distributes, model.py:5
    d_w1 = x.T @ d_t5                             # matmul swaps, model.py:5
    d_x = d_t5 @ w1.T                             # matmul swaps, model.py:5
    return f, {"w1": d_w1, "b1": d_b1, "w2": d_w2, "x": d_x, "target": d_target}
