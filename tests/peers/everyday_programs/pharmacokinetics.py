"""Pharmacokinetics: two compartments with absorption and repeated doses, fitted to concentrations of several people."""

import numpy as np

PEOPLE, INTERVAL, STEPS = 2, 0.5, 16
DOSE_TIMES = (0.0, 2.0, 4.0)


class Person:
    """Weight, doses and measurements of one person."""

    def __init__(self, weight, dose, sample_steps, concentrations=None):
        self.weight = weight
        self.dose = dose
        self.sample_steps = sample_steps
        self.concentrations = concentrations


def individual_rates(log_rates, effect, person):
    """Return the rate constants and volume of one person: clearance grows with weight and an effect of its own."""
    absorption, clearance, volume, exchange, return_rate = np.exp(log_rates)
    clearance = clearance * (person.weight / 70.0) ** 0.75 * np.exp(effect)
    volume = volume * person.weight / 70.0
    return absorption, clearance / volume, volume, exchange, return_rate


def flow(state, rates):
    """Return the change of the drug in gut, blood and tissue."""
    gut, blood, tissue = state
    absorption, elimination, _, exchange, return_rate = rates
    entering = absorption * gut
    out, back = exchange * blood, return_rate * tissue
    return -entering, entering - elimination * blood - out + back, out - back


def midpoint_step(state, rates):
    """Return the amounts one interval later."""
    first = flow(state, rates)
    middle = [amount + 0.5 * INTERVAL * change for amount, change in zip(state, first, strict=True)]
    second = flow(middle, rates)
    return [amount + INTERVAL * change for amount, change in zip(state, second, strict=True)]


def simulate(log_rates, effect, person):
    """Return the concentrations in the blood at the times of measurement."""
    rates = individual_rates(log_rates, effect, person)
    state, concentrations = [0.0, 0.0, 0.0], []
    for step in range(STEPS):
        if step * INTERVAL in DOSE_TIMES:
            state = [state[0] + person.dose, state[1], state[2]]
        state = midpoint_step(state, rates)
        if step in person.sample_steps:
            concentrations.append(state[1] / rates[2])
    return np.stack(concentrations)


def negative_log_posterior(log_rates, effects, log_error, log_spread, people):
    """Return the misfit of everybody, with proportional errors and random effects."""
    error, spread = np.exp(log_error), np.exp(log_spread)
    total = np.sum(0.5 * (effects / spread) ** 2 + np.log(spread))
    for k, person in enumerate(people):
        predicted = simulate(log_rates, effects[k], person)
        residual = np.log(person.concentrations) - np.log(predicted)
        total = total + np.sum(0.5 * (residual / error) ** 2 + np.log(error))
    return total


def draw_people(rng, log_rates):
    """Return people with noisy measurements."""
    people = []
    for _ in range(PEOPLE):
        steps = {int(step) for step in rng.choice(np.arange(2, STEPS), size=8, replace=False)}
        person = Person(rng.normal(75.0, 10.0), 100.0, steps)
        true = simulate(log_rates, 0.2 * rng.normal(), person)
        person.concentrations = true * np.exp(0.1 * rng.normal(size=true.shape))
        people.append(person)
    return people


def make_problem(seed):
    """Return the objective and its parameters."""
    rng = np.random.default_rng(seed)
    true = np.log(np.array([1.0, 4.0, 30.0, 0.3, 0.2]))
    people = draw_people(rng, true)

    def objective(log_rates, effects, log_error, log_spread):
        return negative_log_posterior(log_rates, effects, log_error, log_spread, people)

    return objective, (true + 0.1 * rng.normal(size=5), 0.1 * rng.normal(size=PEOPLE), -1.5, -1.0)
