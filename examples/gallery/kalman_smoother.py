"""Kalman smoother: the noise levels are learned by differentiating through the filter.

A car is measured with noise. The Kalman filter, a loop over the measurements, gives the likelihood of two noise levels;
its gradient goes through the whole loop. With the best levels, the smoothed path is the minimum of a quadratic
function, which one Newton step finds exactly.

Run it with `python examples/gallery/kalman_smoother.py`; look for "measurement noise".
"""

import numpy as np

import wiregrad as wg

COUNT = 100
MOVE = np.array([[1.0, 1.0], [0.0, 1.0]])
PUSH = np.array([0.5, 1.0])
TRUE = np.array([0.2, 1.0])
"""How strongly the car is pushed at random, and the noise of a measurement."""


def make_data():
    """Return the true places, and the places as measured."""
    rng = np.random.default_rng(5)
    state, places = np.array([0.0, 0.5]), []
    for _ in range(COUNT):
        state = MOVE @ state + TRUE[0] * PUSH * rng.normal()
        places.append(state[0])
    return np.array(places), np.array(places) + TRUE[1] * rng.normal(size=COUNT)


truth, measured = make_data()


def surprise(log_levels):
    """Return the negative log-likelihood of the measurements, by the Kalman filter."""
    push, noise = np.exp(log_levels)
    mean, cover = np.zeros(2), 10.0 * np.eye(2)
    total = 0.0
    for place in measured:
        mean = MOVE @ mean
        cover = MOVE @ cover @ MOVE.T + push**2 * np.outer(PUSH, PUSH)
        spread = cover[0, 0] + noise**2
        gap = place - mean[0]
        total = total + 0.5 * (np.log(spread) + gap**2 / spread)
        gain = cover[:, 0] / spread
        mean = mean + gain * gap
        cover = cover - np.outer(gain, cover[0])
    return total


def misfit(path, push, noise):
    """Return the negative log-probability of a path of places, given the measurements."""
    bends = path[2:] - 2.0 * path[1:-1] + path[:-2]
    return 0.5 * np.sum((path - measured) ** 2) / noise**2 + 0.5 * np.sum(bends**2) / push**2


def main(full=False):
    """Learn the noise levels, then smooth."""
    fit = wg.lbfgs(wg.compile(surprise), np.log([0.5, 0.5]))
    push, noise = np.exp(fit.x)
    print(f"push {push:.3f} (true {TRUE[0]}), measurement noise {noise:.3f} (true {TRUE[1]})")
    flat = np.zeros(COUNT)
    smooth = -np.linalg.solve(wg.hessian(misfit)(flat, push, noise), wg.grad(misfit)(flat, push, noise))
    print(f"error of a measurement {np.std(measured - truth):.3f}, of the smoothed path {np.std(smooth - truth):.3f}")
    times = np.arange(COUNT)
    return [
        {
            "title": "Place",
            "x": "time",
            "lines": {"truth": [times, truth], "smoothed": [times, smooth]},
            "points": {"measured": [times, measured]},
        },
        {
            "title": "Error",
            "x": "time",
            "lines": {"smoothed": [times, smooth - truth]},
            "points": {"measured": [times, measured - truth]},
        },
    ]


if __name__ == "__main__":
    main()
