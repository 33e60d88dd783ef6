"""Curve fitting with SciPy: exact gradients and Hessians for its optimisers.

A peak on a slope, five parameters, noisy data. The model is plain NumPy. Without derivatives SciPy estimates them by
differences and calls the model again and again; with `wg.value_and_grad` and `wg.hessian` it does not have to.

Run it with `python examples/gallery/curve_fitting.py`; look for "trust-exact".
"""

import numpy as np
from scipy import optimize

import wiregrad as wg

x = np.linspace(0.0, 10.0, 120)
TRUE = np.array([3.0, 4.5, 0.8, 0.2, 1.0])


def model(p):
    """Return a peak of some height, place and width on a straight line."""
    return p[0] * np.exp(-(((x - p[1]) / p[2]) ** 2)) + p[3] * x + p[4]


data = model(TRUE) + 0.1 * np.random.default_rng(0).normal(size=x.size)


def loss(p):
    """Return the mean square error."""
    return np.mean((model(p) - data) ** 2)


def main(full=False):
    """Fit by four methods and count the calls of the model."""
    start = np.array([1.0, 5.5, 1.5, 0.0, 0.0])
    methods = {
        "BFGS": {"method": "BFGS", "jac": wg.grad(loss)},
        "BFGS, differences": {"method": "BFGS"},
        "trust-exact": {"method": "trust-exact", "jac": wg.grad(loss), "hess": wg.hessian(loss)},
        "Nelder-Mead": {"method": "Nelder-Mead", "options": {"maxiter": 2000}},
    }
    curves = {}
    for name, options in methods.items():
        losses = [loss(start)]
        fit = optimize.minimize(loss, start, callback=lambda p, *_, losses=losses: losses.append(loss(p)), **options)
        curves[name] = [np.arange(len(losses)), np.array(losses)]
        print(f"{name:18} {fit.nfev:4} calls of the loss, {fit.nit:4} steps, loss {fit.fun:.6f}")
    print("found", fit.x.round(2), "true", TRUE)
    short = {name: [steps[:60], losses[:60]] for name, (steps, losses) in curves.items()}
    fitted = {"start": [x, model(start)], "fit": [x, model(fit.x)]}
    return [
        {"title": "Data and fit", "x": "x", "points": {"data": [x, data]}, "lines": fitted},
        {"title": "Loss by steps", "x": "step", "log": True, "lines": short},
    ]


if __name__ == "__main__":
    main()
