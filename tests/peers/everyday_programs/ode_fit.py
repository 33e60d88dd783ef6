"""Fit of an ordinary differential equation: predators and prey by Runge-Kutta steps, compared with noisy counts."""

import numpy as np

STEPS, INTERVAL, EVERY = 18, 0.2, 3


def lotka_volterra(state, rates):
    """Return the growth of prey and predators, with crowding of the prey."""
    prey, predators = state
    birth, catch, death, gain, crowding = rates
    return np.array(
        [
            birth * prey - catch * prey * predators - crowding * prey**2,
            gain * prey * predators - death * predators,
        ]
    )


def runge_kutta_step(field, state, rates, interval):
    """Return the state one interval later, by the classical method of order four."""
    k1 = field(state, rates)
    k2 = field(state + 0.5 * interval * k1, rates)
    k3 = field(state + 0.5 * interval * k2, rates)
    k4 = field(state + interval * k3, rates)
    return state + interval / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def simulate(start, rates, steps=STEPS):
    """Return the states at every step."""
    state, states = start, [start]
    for _ in range(steps):
        state = runge_kutta_step(lotka_volterra, state, rates, INTERVAL)
        states.append(state)
    return np.array(states)


def misfit(log_rates, log_start, counts):
    """Return the mean squared error of the logarithms of the counts."""
    states = simulate(np.exp(log_start), np.exp(log_rates))
    predicted = np.log(states[::EVERY])
    return np.mean((predicted - np.log(counts)) ** 2)


def draw_counts(rng):
    """Return noisy counts of a run with rates of its own."""
    true_rates = np.array([1.1, 0.4, 0.8, 0.2, 0.02])
    states = simulate(np.array([4.0, 2.0]), true_rates)
    noise = np.exp(0.05 * rng.normal(size=states[::EVERY].shape))
    return states[::EVERY] * noise


def make_problem(seed):
    """Return the objective and its parameters."""
    counts = draw_counts(np.random.default_rng(seed))

    def objective(log_rates, log_start):
        roughness = 0.01 * np.sum(log_rates**2)
        return misfit(log_rates, log_start, counts) + roughness

    return objective, (np.log(np.array([1.0, 0.5, 0.7, 0.25, 0.03])), np.log(np.array([3.5, 2.2])))
