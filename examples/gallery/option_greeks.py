"""Option greeks by Monte Carlo: one simulation, all first derivatives.

The price of a call option is the mean payoff over 20,000 random paths. `wg.value_and_grad` of that mean gives delta,
vega, rho and the slope by time of the same paths, where differences would simulate again for each. The formula of Black
and Scholes, differentiated the same way, is the truth to compare with.

Such gradients follow each path and leave jumps out. The payoff of a call has a kink and no jump; for one that jumps, as
at a barrier, write `wg.sigmoid(gap / width)` in place of the comparison `gap > 0`.

Run it with `python examples/gallery/option_greeks.py`; look for "delta".
"""

import numpy as np

import wiregrad as wg

NAMES = ("delta", "vega", "rho", "time")
STRIKE = 100.0
draws = np.random.default_rng(0).normal(size=10_000)
draws = np.concatenate([draws, -draws])


def simulate_price(spot, volatility, rate, years):
    """Return the mean discounted payoff of a call over all draws."""
    end = spot * np.exp((rate - 0.5 * volatility**2) * years + volatility * np.sqrt(years) * draws)
    return np.exp(-rate * years) * np.mean(np.maximum(end - STRIKE, 0.0))


def normal(z):
    """Return the share of a normal distribution below z."""
    return 0.5 * (1.0 + wg.erf(z / np.sqrt(2.0)))


def black_scholes(spot, volatility, rate, years):
    """Return the exact price."""
    spread = volatility * np.sqrt(years)
    upper = (np.log(spot / STRIKE) + (rate + 0.5 * volatility**2) * years) / spread
    return spot * normal(upper) - STRIKE * np.exp(-rate * years) * normal(upper - spread)


def main(full=False):
    """Compare price and greeks, and draw delta and vega over the spot price."""
    point = (105.0, 0.2, 0.03, 0.5)
    simulated = wg.compile(simulate_price).value_and_grad
    price, greeks = wg.value_and_grad(simulate_price, argnums=(0, 1, 2, 3))(*point)
    true_price, true_greeks = wg.value_and_grad(black_scholes, argnums=(0, 1, 2, 3))(*point)
    print(f"{'':6} {'simulated':>10} {'exact':>10}\n{'price':6} {price:10.4f} {true_price:10.4f}")
    for name, ours, true in zip(NAMES, greeks, true_greeks, strict=True):
        print(f"{name:6} {ours:10.4f} {true:10.4f}")
    spots = np.linspace(70.0, 140.0, 36)
    deltas = np.array([simulated(spot, *point[1:])[1] for spot in spots])
    exact = np.array([wg.grad(black_scholes)(spot, *point[1:]) for spot in spots])
    vegas = np.array([wg.grad(simulate_price, argnums=1)(spot, *point[1:]) for spot in spots])
    exact_vegas = np.array([wg.grad(black_scholes, argnums=1)(spot, *point[1:]) for spot in spots])
    return [
        {
            "title": "Delta",
            "x": "spot price",
            "lines": {"exact": [spots, exact]},
            "points": {"simulated": [spots, deltas]},
        },
        {
            "title": "Vega",
            "x": "spot price",
            "lines": {"exact": [spots, exact_vegas]},
            "points": {"simulated": [spots, vegas]},
        },
    ]


if __name__ == "__main__":
    main()
