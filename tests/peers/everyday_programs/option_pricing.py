"""Option pricing: Black-Scholes in closed form, an Asian option by Monte Carlo, and a fit to quoted prices."""

import numpy as np
from scipy.special import erf
from scipy.stats import norm

PATHS, DAYS = 2000, 24
STRIKES = np.linspace(80.0, 120.0, 9)
EXPIRIES = np.array([0.25, 0.5, 1.0])


def normal_cdf(x):
    """Return the cumulative normal distribution by the error function."""
    return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))


def black_scholes_call(spot, strike, expiry, rate, volatility):
    """Return the price of a European call."""
    width = volatility * np.sqrt(expiry)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * expiry) / width
    d2 = d1 - width
    return spot * normal_cdf(d1) - strike * np.exp(-rate * expiry) * normal_cdf(d2)


def black_scholes_put(spot, strike, expiry, rate, volatility):
    """Return the price of a European put, with SciPy's normal distribution."""
    width = volatility * np.sqrt(expiry)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * expiry) / width
    discounted = strike * np.exp(-rate * expiry)
    return discounted * norm.cdf(width - d1) - spot * norm.cdf(-d1)


def smile(strikes, expiries, params):
    """Return the volatility of each strike and expiry: a parabola in the log strike that flattens with time."""
    moneyness = np.log(strikes / 100.0)[None, :] / np.sqrt(expiries)[:, None]
    level, skew, curvature = params
    return level * np.exp(skew * moneyness + curvature * moneyness**2)


def asian_call(spot, strike, rate, volatility, noise):
    """Return the price of a call on the mean price, over paths with fixed noise and their mirror images."""
    interval = 1.0 / DAYS
    shocks = np.concatenate([noise, -noise], axis=0)
    steps = (rate - 0.5 * volatility**2) * interval + volatility * np.sqrt(interval) * shocks
    paths = spot * np.exp(np.cumsum(steps, axis=1))
    payoff = np.maximum(np.mean(paths, axis=1) - strike, 0.0)
    return np.exp(-rate) * np.mean(payoff)


def quoted_prices(rng):
    """Return noisy prices of calls."""
    volatility = smile(STRIKES, EXPIRIES, np.array([0.22, -0.1, 0.3]))
    exact = black_scholes_call(100.0, STRIKES[None, :], EXPIRIES[:, None], 0.02, volatility)
    return exact + 0.05 * rng.normal(size=exact.shape)


def make_problem(seed):
    """Return the mispricing, and spot, rate and smile."""
    rng = np.random.default_rng(seed)
    quotes = quoted_prices(rng)
    noise = rng.normal(size=(PATHS // 2, DAYS))

    def mispricing(spot, rate, params):
        volatility = smile(STRIKES, EXPIRIES, params)
        calls = black_scholes_call(spot, STRIKES[None, :], EXPIRIES[:, None], rate, volatility)
        puts = black_scholes_put(spot, STRIKES[None, :], EXPIRIES[:, None], rate, volatility)
        parity = calls - puts - spot + STRIKES[None, :] * np.exp(-rate * EXPIRIES[:, None])
        asian = asian_call(spot, 100.0, rate, params[0], noise)
        return np.mean((calls - quotes) ** 2) + np.sum(parity**2) + (asian - 5.0) ** 2

    return mispricing, (100.0, 0.03, np.array([0.2, -0.05, 0.2]))
