"""The calibration of a model over a cluster of processes: a yield curve from many quotes.

The curve of Nelson and Siegel has four parameters. The loss of all quotes and its gradient are computed in chunks by
the workers of an executor; what they return is summed in a fixed order, so the number of workers changes no bit. In
place of the two processes here, `executor=` takes a Dask client, an MPI pool, or Ray. Run it with
`python examples/calibrate_on_processes.py`, or with 5000000 quotes:
- look for "the parameters to 2 digits";
- look for "the same bits as without workers".
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import wiregrad as wg

TRUE = np.array([0.031, -0.021, 0.014, 1.9])
"""The level, slope and curvature of the curve, and the time at which it bends."""
NOISE = 0.002


def yield_at(params, maturity):
    """Return the yield at a maturity by the formula of Nelson and Siegel."""
    level, slope, bend, decay = params[0], params[1], params[2], params[3]
    x = maturity / decay
    loading = (1 - np.exp(-x)) / x
    return level + slope * loading + bend * (loading - np.exp(-x))


def squared_errors(params, maturity, quote):
    """Return the squared error of each quote, in percent."""
    return (100.0 * (yield_at(params, maturity) - quote)) ** 2


def draw_quotes(count):
    """Return maturities in years and the yields that were quoted for them."""
    rng = np.random.default_rng(3)
    maturity = rng.uniform(0.1, 30.0, count)
    return maturity, yield_at(TRUE, maturity) + NOISE * rng.standard_normal(count)


def calibrate(quotes, executor, rounds=60):
    """Return the parameters after some rounds of BFGS, each with one pass over all quotes."""
    params, inverse = np.array([0.02, 0.0, 0.0, 3.0]), np.diag([1e-4, 1e-4, 1e-4, 1e-1])
    value, grad = wg.mean_value_and_grad(squared_errors, params, quotes, executor=executor)
    for _ in range(rounds):
        step = -inverse @ grad
        while True:
            trial = params + step
            if trial[3] > 0.05:
                new_value, new_grad = wg.mean_value_and_grad(squared_errors, trial, quotes, executor=executor)
                if new_value <= value:
                    break
            step = step / 4
            if np.max(np.abs(step)) < 1e-12:
                return params, value
        change = new_grad - grad
        if step @ change > 0:
            left = np.eye(4) - np.outer(step, change) / (step @ change)
            inverse = left @ inverse @ left.T + np.outer(step, step) / (step @ change)
        params, value, grad = trial, new_value, new_grad
    return params, value


def main(count=200_000):
    """Calibrate with two processes and without, and compare."""
    quotes = draw_quotes(count)
    began = time.perf_counter()
    with ProcessPoolExecutor(2) as pool:
        params, value = calibrate(quotes, pool)
    seconds = time.perf_counter() - began
    alone, _ = calibrate(quotes, None)
    close = np.allclose(params, TRUE, rtol=0.05)
    print(f"{count:,} quotes in {seconds:.1f} s: mean squared error {value:.4f}, noise alone {(100 * NOISE) ** 2:.4f}")
    print("found", params.round(4), "true", TRUE, "- the parameters to 2 digits" if close else "- NOT THE PARAMETERS")
    print("two processes:", "the same bits as without workers" if np.array_equal(params, alone) else "OTHER NUMBERS")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
