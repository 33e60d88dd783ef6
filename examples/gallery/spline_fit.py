"""Spline fit: the knots move too.

A natural cubic spline through eight knots; its curvatures come from a linear system, and `np.linalg.solve` is
differentiated like everything else. Heights *and* places of the knots are fitted, so knots gather where the data bends.

Run it with `python examples/gallery/spline_fit.py`; look for "knots at".
"""

import numpy as np

import wiregrad as wg

x = np.linspace(0.0, 1.0, 150)
data = np.tanh(20.0 * (x - 0.3)) + 0.5 * np.sin(6.0 * x) + 0.03 * np.random.default_rng(0).normal(size=x.size)
KNOTS = 8


def spread_knots(free):
    """Return sorted places from 0 to 1: the gaps are a softmax, so they are positive and add up to 1."""
    return np.concatenate([np.zeros(1), np.cumsum(wg.softmax(free))])


def evaluate_spline(knots, heights):
    """Return the natural cubic spline through the knots at all x."""
    gap = np.diff(knots)
    slope = np.diff(heights) / gap
    matrix = np.diag(2.0 * (gap[:-1] + gap[1:])) + np.diag(gap[1:-1], 1) + np.diag(gap[1:-1], -1)
    inner = np.linalg.solve(matrix, 6.0 * np.diff(slope))
    bend = np.concatenate([np.zeros(1), inner, np.zeros(1)])
    piece = np.clip(np.searchsorted(np.asarray(wg.stop_gradient(knots)), x) - 1, 0, len(gap) - 1)
    left, right, width = x - knots[piece], knots[piece + 1] - x, gap[piece]
    cubic = bend[piece] * right**3 + bend[piece + 1] * left**3
    low = heights[piece] / width - bend[piece] * width / 6.0
    high = heights[piece + 1] / width - bend[piece + 1] * width / 6.0
    return cubic / (6.0 * width) + low * right + high * left


def find_errors(p):
    """Return the residuals, and a small price on uneven gaps."""
    spline = evaluate_spline(spread_knots(p["gaps"]), p["heights"])
    return np.concatenate([spline - data, 1e-2 * p["gaps"]])


def main(full=False):
    """Fit with knots that stay, and with knots that move."""
    start = {"gaps": np.zeros(KNOTS - 1), "heights": np.zeros(KNOTS)}
    even = spread_knots(start["gaps"])
    fixed = wg.least_squares(lambda heights: evaluate_spline(even, heights) - data, start["heights"]).x
    fit = wg.least_squares(find_errors, start, max_steps=60)
    knots = spread_knots(fit.x["gaps"])
    curves = {"even knots": evaluate_spline(even, fixed), "moved knots": evaluate_spline(knots, fit.x["heights"])}
    for name, curve in curves.items():
        print(f"{name:12} deviation {np.sqrt(np.mean((curve - data) ** 2)):.3f}")
    print("knots at", knots.round(2))
    return [
        {
            "title": "Data and splines",
            "x": "x",
            "points": {"data": [x, data]},
            "lines": {name: [x, curve] for name, curve in curves.items()},
        },
        {
            "title": "Residuals and knots",
            "x": "x",
            "lines": {name: [x, curve - data] for name, curve in curves.items()},
            "points": {"knots": [knots, np.zeros(KNOTS)]},
        },
    ]


if __name__ == "__main__":
    main()
