"""The price and the greeks of a book of options by simulated paths: here, on four workers, and on a GPU.

Each path draws one number; the gradient of the payoff along it, averaged over all paths, is every greek at once. The
workers draw their own paths and return sums. Run it with `python examples/option_book.py`, or with 10000000 paths:
- look for "delta", "vega", "rho", "theta": simulated, and by the formula of Black and Scholes;
- look for "four workers: the same bits";
- look for "GPU": the same numbers to 12 digits, or why there is none.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

import wiregrad as wg
from wiregrad.errors import DeviceError

MARKET = {"s": 100.0, "v": 0.2, "r": 0.03, "t": 1.5}
"""The price of the share, its volatility, the rate and the time."""
BOOK = [(3.0, 90.0), (-2.0, 100.0), (1.5, 110.0)]
"""How many calls are held, and their strikes."""
CHUNK = 50_000


def write_book():
    """Return the circuit of the book's discounted payoff along one path."""
    payoffs = " + ".join(f"({count}) * maximum(last - {strike}, 0)" for count, strike in BOOK)
    return wg.circuit(f"last = s * exp((r - v * v / 2) * t + v * sqrt(t) * z); y = exp(-r * t) * ({payoffs})")


def draw_paths(names, size, number):
    """Return the table of a chunk: the market on every row, and a normal number for each path."""
    normal = np.random.default_rng([7, number]).standard_normal(size)
    return np.column_stack([normal if name == "z" else np.full(size, MARKET[name]) for name in names])


def write_formula():
    """Return the circuit of the book's price by Black and Scholes; its gradient has the exact greeks."""
    parts = []
    for count, strike in BOOK:
        d1 = f"((log(s / {strike}) + (r + v * v / 2) * t) / (v * sqrt(t)))"
        d2 = f"({d1} - v * sqrt(t))"
        parts.append(
            f"({count}) * (s * (1 + erf({d1} / sqrt(2))) - {strike} * exp(-r * t) * (1 + erf({d2} / sqrt(2)))) / 2"
        )
    return wg.circuit("y = " + " + ".join(parts))


def time_mean(compiled, paths, **options):
    """Return the price, the greeks and the seconds that they took."""
    began = time.perf_counter()
    points = partial(draw_paths, compiled.circuit.inputs, CHUNK)
    value, grads = compiled.batch_value_and_grad(points, chunks=-(-paths // CHUNK), reduce="mean", **options)
    return value, dict(zip(compiled.circuit.inputs, grads, strict=True)), time.perf_counter() - began


def main(paths=200_000):
    """Compute the book in every way, and compare."""
    book = write_book()
    value, greeks, seconds = time_mean(book.compile(), paths)
    exact = write_formula().run(MARKET)
    print(f"{paths:,} paths in {seconds:.2f} s: price {value:.4f}, exactly {exact.output:.4f}")
    for name, letter in (("delta", "s"), ("vega", "v"), ("rho", "r"), ("theta", "t")):
        print(f"  {name:6} {greeks[letter]:9.4f}, exactly {exact.grads[letter]:9.4f}")

    with ProcessPoolExecutor(4) as pool:
        same_value, same_greeks, seconds = time_mean(book.compile(), paths, executor=pool)
    verdict = "the same bits" if (same_value, same_greeks) == (value, greeks) else "OTHER NUMBERS"
    print(f"four workers: {verdict}, in {seconds:.2f} s")
    try:
        gpu_value, gpu_greeks, seconds = time_mean(book.compile(device="cuda"), paths)
    except DeviceError as error:
        print(f"GPU: {error}")
        return
    close = np.allclose([gpu_value, *gpu_greeks.values()], [value, *greeks.values()], rtol=1e-12, atol=1e-12)
    print(f"GPU: {'the same numbers to 12 digits' if close else 'OTHER NUMBERS'}, in {seconds:.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
