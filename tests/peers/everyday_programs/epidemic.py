"""Epidemic: susceptible, exposed, infected and recovered people in age groups, fitted to weekly counts."""

import numpy as np
from scipy.special import gammaln

GROUPS, DAYS = 4, 35
POPULATION = np.array([2.0, 3.0, 2.5, 1.5]) * 1e5


def contact_matrix(log_contacts, log_assortment):
    """Return who meets whom: proportional mixing, and more within a group."""
    activity = np.exp(log_contacts)
    mixing = activity[:, None] * activity[None, :] / np.sum(activity)
    return mixing + np.exp(log_assortment) * np.diag(activity)


def transmission(day, log_beta, drop, change_day):
    """Return the rate of transmission, which falls smoothly around a day."""
    fraction = 1.0 / (1.0 + np.exp(-(day - change_day) / 3.0))
    return np.exp(log_beta) * (1.0 - drop * fraction)


def simulate(params):
    """Return new infections per day and group."""
    contacts = contact_matrix(params["log_contacts"], params["log_assortment"])
    incubation, recovery = np.exp(params["log_incubation"]), np.exp(params["log_recovery"])
    infected = np.exp(params["log_seed"]) * np.ones(GROUPS)
    exposed = 2.0 * infected
    susceptible = POPULATION - infected - exposed
    daily = []
    for day in range(DAYS):
        beta = transmission(day, params["log_beta"], params["drop"], params["change_day"])
        force = beta * contacts @ (infected / POPULATION)
        catching = susceptible * (1.0 - np.exp(-force))
        falling_ill = incubation * exposed
        healing = recovery * infected
        susceptible = susceptible - catching
        exposed = exposed + catching - falling_ill
        infected = infected + falling_ill - healing
        daily.append(falling_ill)
    return np.stack(daily)


def weekly(daily):
    """Return sums over weeks."""
    return daily.reshape(DAYS // 7, 7, GROUPS).sum(axis=1)


def negative_binomial(counts, expected, log_dispersion):
    """Return the log probabilities of counts that vary more than Poisson's."""
    r = np.exp(log_dispersion)
    constant = gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
    return constant + r * np.log(r / (r + expected)) + counts * np.log(expected / (r + expected))


def first_guess():
    """Return parameters to start from."""
    return {
        "log_beta": -1.0,
        "drop": 0.5,
        "change_day": 20.0,
        "log_contacts": np.log(np.array([1.2, 1.5, 1.0, 0.6])),
        "log_assortment": -0.5,
        "log_incubation": -1.4,
        "log_recovery": -1.6,
        "log_seed": 2.0,
        "log_dispersion": 2.0,
    }


def make_problem(seed):
    """Return the objective and its parameters."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.3 * weekly(simulate(first_guess()))).astype(float)
    start = {name: value + 0.05 for name, value in first_guess().items()}

    def objective(params):
        expected = 0.3 * weekly(simulate(params)) + 1e-3
        return -np.mean(negative_binomial(counts, expected, params["log_dispersion"]))

    return objective, (start,)
