"""Logistic regression: weights, and how sure they are.

Two classes of points and a straight border. Newton's method with the exact Hessian needs a handful of steps. The
inverse of the same Hessian is the covariance of the weights, so the uncertainty comes for free.

Run it with `python examples/gallery/logistic_regression.py`; look for "step 6".
"""

import numpy as np

import wiregrad as wg

rng = np.random.default_rng(0)
TRUE = np.array([2.0, -1.5, 0.5])
points = rng.normal(size=(200, 2))
features = np.column_stack([points, np.ones(200)])
label = rng.random(200) < 1.0 / (1.0 + np.exp(-features @ TRUE))


def loss(w):
    """Return the negative log-likelihood of the labels."""
    score = features @ w
    return np.sum(np.logaddexp(0.0, score) - label * score)


def main(full=False):
    """Fit by Newton's method; compare with gradient descent."""
    w, slow = np.zeros(3), np.zeros(3)
    sizes, slow_sizes = [], []
    for step in range(9):
        value, slope = wg.value_and_grad(loss)(w)
        sizes.append(np.linalg.norm(slope))
        slow_sizes.append(np.linalg.norm(wg.grad(loss)(slow)))
        print(f"step {step}  loss {value:.6f}  gradient {sizes[-1]:.1e}")
        w = w - np.linalg.solve(wg.hessian(loss)(w), slope)
        slow = slow - 0.01 * wg.grad(loss)(slow)
    spread = np.sqrt(np.diag(np.linalg.inv(wg.hessian(loss)(w))))
    print("weights", w.round(2), "plus or minus", spread.round(2), "true", TRUE)
    across = np.linspace(-2.5, 2.5, 2)
    steps = np.arange(9)
    return [
        {
            "title": "Points and border",
            "equal": True,
            "points": {"class 0": points[~label].T, "class 1": points[label].T},
            "lines": {"border": [across, -(w[0] * across + w[2]) / w[1]]},
        },
        {
            "title": "Size of the gradient",
            "x": "step",
            "log": True,
            "lines": {"Newton": [steps, np.maximum(sizes, 1e-15)], "gradient descent": [steps, slow_sizes]},
        },
    ]


if __name__ == "__main__":
    main()
