"""Ops of one's own: by local derivatives, as a class, and what happens when a rule is wrong.

Run it with `python examples/own_op.py`; look for "the numeric derivative is".
"""

import numpy as np

import wiregrad as wg


@wg.op(partials=lambda x, y: (1.0 / np.cosh(x),))
def gudermann(x):
    """Return the Gudermannian function, 2 * arctan(tanh(x / 2))."""
    return 2.0 * np.arctan(np.tanh(0.5 * x))


print("gudermann(1) =", gudermann(1.0))
print("its slope    =", wg.grad(gudermann)(1.0))
print("its second   =", wg.grad(wg.grad(gudermann))(1.0))
print("in a formula :", wg.circuit("y = gudermann(a * x)").run(a=2, x=0.5).grads)


class ClipGradient(wg.Function):
    """The identity, whose gradient is clipped to the range from -1 to 1."""

    check = False  # the rule is meant to differ from the derivative

    @staticmethod
    def forward(ctx, x):
        """Return the values unchanged."""
        return x

    @staticmethod
    def backward(ctx, upstream):
        """Clip the gradient."""
        return np.clip(upstream, -1.0, 1.0)


steep = np.array([0.1, 3.0])
print("\ngradient of sum(x**4)        ", wg.grad(lambda x: np.sum(x**4))(steep))
print("with ClipGradient before it  ", wg.grad(lambda x: np.sum(ClipGradient.apply(x) ** 4))(steep))

print("\nA wrong rule is named when it is registered:")
try:

    @wg.op(partials=lambda a, b, y: (a, b))
    def product(a, b):
        """Return a * b, with its slopes swapped by mistake."""
        return a * b

except wg.WiregradError as error:
    print(" ", str(error).splitlines()[0])
