"""Gaussian mixture: three clouds, found by the gradient of their likelihood.

Weights, means and shapes are free; a softmax keeps the weights positive, and a triangular factor keeps the shapes
proper. The logarithm of a sum of exponentials is `wg.logsumexp`, which does not overflow. There is no EM algorithm to
derive: L-BFGS takes the gradient.

Run it with `python examples/gallery/gaussian_mixture.py`; look for "converged".
"""

import numpy as np

import wiregrad as wg

rng = np.random.default_rng(3)
CENTRES = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 4.0]])
SHAPES = np.array([[[1.0, 0.0], [0.5, 0.4]], [[0.4, 0.0], [0.0, 0.9]], [[0.9, 0.0], [-0.5, 0.5]]])
points = np.concatenate([c + rng.normal(size=(100, 2)) @ s.T for c, s in zip(CENTRES, SHAPES, strict=True)])


def surprise(p):
    """Return the mean negative log-likelihood of the points."""
    parts = []
    for k in range(3):
        gap = points - p["centre"][k]
        a, b, c = p["shape"][k]
        # The shape is [[exp(a), 0], [b, exp(c)]]; its inverse turns the cloud into a round one.
        first = gap[:, 0] * np.exp(-a)
        second = (gap[:, 1] - b * first) * np.exp(-c)
        parts.append(-0.5 * (first**2 + second**2) - a - c)
    scores = np.stack(parts, axis=1) + np.log(wg.softmax(p["weight"]))
    return -np.mean(wg.logsumexp(scores, axis=1))


def draw_ellipse(centre, shape):
    """Return the curve at two standard deviations."""
    turn = np.linspace(0.0, 2.0 * np.pi, 40)
    a, b, c = shape
    factor = np.array([[np.exp(a), 0.0], [b, np.exp(c)]])
    return (centre[:, None] + 2.0 * factor @ np.stack([np.cos(turn), np.sin(turn)])).tolist()


def main(full=False):
    """Fit the mixture."""
    start = {"weight": np.zeros(3), "centre": points[[10, 150, 250]], "shape": np.zeros((3, 3))}
    fit = wg.lbfgs(surprise, start, max_steps=200)
    print(
        f"{'converged' if fit.converged else 'stopped'} after {fit.steps} steps, {fit.history[-1]:.4f} nats per point"
    )
    print("centres", fit.x["centre"].round(1).tolist(), "true", CENTRES.tolist())
    curves = {f"cloud {k + 1}": draw_ellipse(fit.x["centre"][k], fit.x["shape"][k]) for k in range(3)}
    return [
        {"title": "Points and clouds", "equal": True, "lines": curves, "points": {"points": points.T}},
        {
            "title": "Surprise per point",
            "x": "step",
            "lines": {"surprise": [np.arange(len(fit.history)), np.array(fit.history)]},
        },
    ]


if __name__ == "__main__":
    main()
