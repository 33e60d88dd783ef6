"""Gaussian process: how smooth is this curve? The evidence decides.

Length, size and noise of a Gaussian process are chosen by the likelihood of the data, which contains the logarithm of a
determinant and the solution of a linear system. Both are differentiated exactly.

Run it with `python examples/gallery/gaussian_process.py`; look for "length".
"""

import numpy as np

import wiregrad as wg

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0.0, 6.0, 25))
y = np.sin(1.5 * x) + 0.2 * rng.normal(size=x.size)
grid = np.linspace(-0.5, 7.0, 100)


def correlate(a, b, length, size):
    """Return the covariances of the process at two sets of places."""
    return size**2 * np.exp(-0.5 * ((a[:, None] - b[None]) / length) ** 2)


def surprise(log_p):
    """Return the negative log-likelihood of the data."""
    length, size, noise = np.exp(log_p)
    cover = correlate(x, x, length, size) + noise**2 * np.eye(x.size)
    return 0.5 * y @ np.linalg.solve(cover, y) + 0.5 * np.linalg.slogdet(cover)[1]


def predict(log_p):
    """Return mean and standard deviation on the grid."""
    length, size, noise = np.exp(log_p)
    cover = correlate(x, x, length, size) + noise**2 * np.eye(x.size)
    across = correlate(grid, x, length, size)
    mean = across @ np.linalg.solve(cover, y)
    return mean, np.sqrt(size**2 - np.sum(across * np.linalg.solve(cover, across.T).T, axis=1))


def main(full=False):
    """Learn the three numbers, and predict."""
    fit = wg.lbfgs(surprise, np.log([0.3, 0.5, 0.5]))
    length, size, noise = np.exp(fit.x)
    print(f"length {length:.2f}, size {size:.2f}, noise {noise:.2f} (true noise 0.2), {fit.steps} steps")
    mean, spread = predict(fit.x)
    before = predict(np.log([0.3, 0.5, 0.5]))[0]
    return [
        {
            "title": "Prediction and two standard deviations",
            "x": "x",
            "lines": {"mean": [grid, mean], "upper": [grid, mean + 2 * spread], "lower": [grid, mean - 2 * spread]},
            "points": {"data": [x, y]},
        },
        {
            "title": "Before and after learning",
            "x": "x",
            "lines": {"before": [grid, before], "mean": [grid, mean]},
            "points": {"data": [x, y]},
        },
    ]


if __name__ == "__main__":
    main()
