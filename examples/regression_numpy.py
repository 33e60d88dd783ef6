"""Fit a curve by a plain NumPy loss: first gradient descent, then Newton's method with the Hessian.

The loss knows nothing of wiregrad. Its parameters are a dict of arrays, and so is its gradient.

Run it with `python examples/regression_numpy.py`; look for "Newton".
"""

import numpy as np

import wiregrad as wg

rng = np.random.default_rng(0)
X = rng.uniform(-2.0, 2.0, size=(200, 3))
TRUE = {"w": np.array([1.5, -2.0, 0.5]), "b": 0.25}
y = rng.random(200) < 1.0 / (1.0 + np.exp(-(X @ TRUE["w"] + TRUE["b"])))


def loss(p):
    """Return the mean logistic loss, with a small price on large weights."""
    score = X @ p["w"] + p["b"]
    return np.mean(np.logaddexp(0.0, score) - y * score) + 1e-3 * np.sum(p["w"] ** 2)


def flat_loss(theta):
    """Return the same loss of one vector, for Newton's method."""
    return loss({"w": theta[:3], "b": theta[3]})


compute = wg.value_and_grad(loss)
p = {"w": np.zeros(3), "b": 0.0}
print("gradient descent, step 1.0")
for step in range(201):
    value, grads = compute(p)
    if step in (0, 1, 5, 20, 50, 100, 200):
        size = np.sqrt(sum(np.sum(g**2) for g in grads.values()))
        print(f"  step {step:3}  loss {value:.6f}  gradient {size:.1e}")
    p = wg.tree_map(lambda a, g: a - 1.0 * g, p, grads)

print("Newton, same start")
theta = np.zeros(4)
for step in range(7):
    value, g = wg.value_and_grad(flat_loss)(theta)
    print(f"  step {step:3}  loss {value:.6f}  gradient {np.linalg.norm(g):.1e}")
    theta = theta - np.linalg.solve(wg.hessian(flat_loss)(theta), g)

print("found  w", np.round(theta[:3], 3), " b", np.round(theta[3], 3))
print("true   w", TRUE["w"], " b", TRUE["b"])
