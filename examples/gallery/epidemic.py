"""Epidemic sensitivities: what would a little less contact have changed, day by day?

The SIR model in Runge-Kutta steps: susceptible, infected, recovered. `wg.jacfwd` gives the derivative of the whole
course of the epidemic by its two rates in one pass, because two numbers go in and hundreds come out.

Run it with `python examples/gallery/epidemic.py`; look for "peak".
"""

import numpy as np

import wiregrad as wg

DAYS, STEPS = 120, 240
DT = DAYS / STEPS


def find_rates(state, contact, recovery):
    """Return how fast the shares of susceptible and infected people change."""
    infections = contact * state[0] * state[1]
    return np.stack([-infections, infections - recovery * state[1]])


def simulate(rates):
    """Return the share of infected people after each step."""
    contact, recovery = rates
    state = np.array([0.999, 0.001])
    infected = []
    for _ in range(STEPS):
        first = find_rates(state, contact, recovery)
        second = find_rates(state + 0.5 * DT * first, contact, recovery)
        third = find_rates(state + 0.5 * DT * second, contact, recovery)
        fourth = find_rates(state + DT * third, contact, recovery)
        state = state + DT * (first + 2.0 * second + 2.0 * third + fourth) / 6.0
        infected.append(state[1])
    return np.stack(infected)


def main(full=False):
    """Simulate, differentiate, and compare with a second simulation."""
    rates = np.array([0.3, 0.1])
    course, slopes = simulate(rates), wg.jacfwd(simulate)(rates)
    peak = int(np.argmax(course))
    print(f"peak on day {peak * DT:.0f}: {course[peak]:.1%} infected")
    print(f"one percent less contact: {0.01 * rates[0] * slopes[peak, 0]:.2%} fewer at the peak")
    again = simulate(rates * np.array([0.99, 1.0]))
    predicted = course - 0.01 * rates[0] * slopes[:, 0]
    print(f"predicted and simulated course differ by at most {np.max(np.abs(predicted - again)):.5f}")
    days = DT * np.arange(1, STEPS + 1)
    return [
        {"title": "Infected", "x": "day", "lines": {"infected": [days, course]}},
        {
            "title": "What one percent more does",
            "x": "day",
            "lines": {
                "of contact": [days, 0.01 * rates[0] * slopes[:, 0]],
                "of recovery": [days, 0.01 * rates[1] * slopes[:, 1]],
            },
        },
    ]


if __name__ == "__main__":
    main()
