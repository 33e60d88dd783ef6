"""Heat conduction: the conductivity of a plate, from temperatures at its sensors. Grids are changed in place.

Other libraries have no assignment to parts of arrays, so the same step is written for them once more, by joining
pieces.
"""

import numpy as np

ROWS, COLUMNS, STEPS, INTERVAL = 24, 32, 12, 0.2
SENSORS = ([4, 8, 12, 16, 20, 6], [4, 28, 16, 6, 24, 18])


def conductivity(params):
    """Return the conductivity of each cell: a background and two soft inclusions."""
    y, x = np.meshgrid(np.arange(ROWS), np.arange(COLUMNS), indexing="ij")
    total = np.exp(params["background"]) * np.ones((ROWS, COLUMNS))
    for row, column, strength in params["inclusions"]:
        distance = (y - row) ** 2 + (x - column) ** 2
        total = total + strength * np.exp(-distance / 20.0)
    return total


def heating(u, k):
    """Return the change of the inner cells by the flow between neighbours."""
    across = 0.5 * (k[1:-1, 1:] + k[1:-1, :-1]) * (u[1:-1, 1:] - u[1:-1, :-1])
    along = 0.5 * (k[1:, 1:-1] + k[:-1, 1:-1]) * (u[1:, 1:-1] - u[:-1, 1:-1])
    return across[:, 1:] - across[:, :-1] + along[1:, :] - along[:-1, :]


def step_in_place(u, k, heater):
    """Return the temperatures after an interval: inner cells first, then the edges."""
    new = u.copy()
    new[1:-1, 1:-1] += INTERVAL * heating(u, k)
    new[:, 0] = heater
    new[:, -1] = new[:, -2]
    new[0, 1:] = new[1, 1:]
    new[-1, 1:] = new[-2, 1:]
    return new


def step_by_joining(u, k, heater):
    """Return the same without assignments."""
    inner = u[1:-1, 1:-1] + INTERVAL * heating(u, k)
    wide = np.concatenate([inner, inner[:, -1:]], axis=1)
    tall = np.concatenate([wide[:1], wide, wide[-1:]], axis=0)
    return np.concatenate([heater * np.ones((ROWS, 1)), tall], axis=1)


def simulate(step, params):
    """Return the readings of the sensors after every third step."""
    k = conductivity(params)
    u = np.full_like(k, 20.0)
    readings = []
    for n in range(STEPS):
        u = step(u, k, params["heater"])
        if n % 3 == 2:
            readings.append(u[SENSORS])
    return np.stack(readings)


def misfit(step, params, measured):
    """Return the squared error of the readings, with a weak prior on the inclusions."""
    error = np.mean((simulate(step, params) - measured) ** 2)
    return error + 1e-3 * sum(np.sum(part[2] ** 2) for part in params["inclusions"])


def make_data(seed):
    """Return readings of another plate, and parameters to start from."""
    rng = np.random.default_rng(seed)
    true = {
        "background": -1.2,
        "heater": 90.0,
        "inclusions": [np.array([8.0, 6.0, 0.5]), np.array([16.0, 22.0, 0.3])],
    }
    exact = simulate(step_in_place, true)
    start = {
        "background": -1.0,
        "heater": 80.0,
        "inclusions": [part + 0.1 * rng.normal(size=3) for part in true["inclusions"]],
    }
    return exact + 0.1 * rng.normal(size=exact.shape), start


def make_problem(seed):
    """Return the objective and its parameters."""
    measured, start = make_data(seed)
    return lambda params: misfit(step_in_place, params, measured), (start,)


def make_problem_for_others(seed):
    """Return the same objective without assignments."""
    measured, start = make_data(seed)
    return lambda params: misfit(step_by_joining, params, measured), (start,)
