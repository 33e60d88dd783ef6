"""The orbit of a moon from the times at which it crosses a line: events whose times have exact derivatives.

A moon goes round a planet that is not quite a ball, so its ellipse turns slowly. All that is measured is when and where
it crosses the line y = 0. The orbit is a loop of Runge-Kutta steps; in the step in which y changes its sign, `wg.root`
finds when, and the derivative of that time comes from its equation. From these events SciPy's `least_squares`, with the
Jacobian of the whole, finds where the moon was, how fast it was, and how flat the planet is.

Run it with `python examples/orbit_fit.py`; look for "largest error 0.000". With the word `full` behind its name there
are twelve crossings instead of four.
"""

import sys

import numpy as np
from scipy import optimize

import wiregrad as wg

TRUE_ORBIT = np.array([1.0, 0.3, -0.25, 1.15, 0.03])
"""Place and speed in two directions, and how flat the planet is, in units in which gravity is 1."""
NAMES = ("x", "y", "speed along x", "speed along y", "flattening")
START = np.array([1.05, 0.2, -0.2, 1.1, 0.0])
NOISE = 1e-5
DT = 0.1
MAX_STEPS = 2500


def find_rates(state, flattening):
    """Return the speed and the acceleration; the flattening adds a force that falls off faster than gravity."""
    x, y, speed_x, speed_y = state
    square = x * x + y * y
    pull = -(1.0 + flattening / square) / (square * np.sqrt(square))
    return speed_x, speed_y, pull * x, pull * y


def advance(state, flattening, dt):
    """Return the state after one step of the Runge-Kutta method of fourth order."""

    def move(rates, part):
        return [s + part * dt * r for s, r in zip(state, rates, strict=True)]

    first = find_rates(state, flattening)
    second = find_rates(move(first, 0.5), flattening)
    third = find_rates(move(second, 0.5), flattening)
    fourth = find_rates(move(third, 1.0), flattening)
    mean = [(a + 2.0 * b + 2.0 * c + d) / 6.0 for a, b, c, d in zip(first, second, third, fourth, strict=True)]
    return move(mean, 1.0)


def find_crossing(state, flattening):
    """Return after which time the moon is at y = 0 and its x there, given that y changes its sign within a step."""
    after = wg.root(lambda t, state, flattening: advance(state, flattening, t)[1], 0.5 * DT, state, flattening)
    return after, advance(state, flattening, after)[0]


def find_crossings(orbit, count):
    """Return the first times at which the moon crosses the line, and then the places."""
    state, flattening = [orbit[0], orbit[1], orbit[2], orbit[3]], orbit[4]
    times, places = [], []
    for step in range(MAX_STEPS):
        following = advance(state, flattening, DT)
        if state[1] * following[1] <= 0.0:
            after, place = find_crossing(state, flattening)
            times.append(step * DT + after)
            places.append(place)
        if len(times) == count:
            break
        state = following
    return np.stack(times + places)


def follow_orbit(orbit, steps):
    """Return the places on the way."""
    state = list(orbit[:4])
    path = [state]
    for _ in range(steps):
        state = advance(state, orbit[4], DT)
        path.append(state)
    return np.array(path)[:, :2].T


def main(full=False):
    """Measure the crossings of an orbit that is known here alone, and find the orbit."""
    count = 12 if full else 4
    measured = find_crossings(TRUE_ORBIT, count) + NOISE * np.random.default_rng(0).normal(size=2 * count)
    history = []

    def find_errors(orbit):
        errors = find_crossings(orbit, count) - measured
        if isinstance(errors, np.ndarray):
            history.append(np.sqrt(np.mean(errors**2)))
            print(f"evaluation {len(history):2}  deviation {history[-1]:.6f}")
        return errors

    # Single numbers: going back through them, result by result, is quicker than going forward.
    slopes = wg.jacobian(find_errors, mode="reverse")
    fit = optimize.least_squares(find_errors, START, jac=slopes, x_scale="jac")
    for name, found, true in zip(NAMES, fit.x, TRUE_ORBIT, strict=True):
        print(f"{name:13}  found {found:.4f}  true {true}")
    print(f"largest error {np.abs(fit.x - TRUE_ORBIT).max():.4f}")
    steps = int(measured[count - 1] / DT)
    return [
        {
            "title": "The way of the moon",
            "equal": True,
            "lines": {"start": follow_orbit(START, steps), "found": follow_orbit(fit.x, steps)},
            "points": {"measured": [measured[count:], np.zeros(count)]},
        },
        {
            "title": "Times of the crossings",
            "x": "crossing",
            "points": {"measured": [np.arange(1, count + 1), measured[:count]]},
            "lines": {
                "start": [np.arange(1, count + 1), find_crossings(START, count)[:count]],
                "found": [np.arange(1, count + 1), find_crossings(fit.x, count)[:count]],
            },
        },
        {
            "title": "Deviation",
            "x": "evaluation",
            "log": True,
            "lines": {"deviation": [np.arange(1, len(history) + 1), history]},
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
