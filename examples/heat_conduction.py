"""Heat conduction in a plate: how well each part of it conducts, from a few thermometers.

A plate is cold at its edges and heated in the middle. Its conductivity differs from place to place in a way that
nobody knows: four smooth bumps of unknown strength. Thermometers at 25 points write down 8 times how warm it is there.
The simulation is an ordinary NumPy loop over time; `wg.least_squares` differentiates through all of it.

Run it with `python examples/heat_conduction.py`; look for "largest error of a strength 0.0". With the word `full`
behind its name the grid is finer.
"""

import sys

import numpy as np

import wiregrad as wg

TRUE_STRENGTHS = np.array([0.9, -0.5, 0.4, 0.7])
CENTERS = np.array([[0.25, 0.3], [0.3, 0.75], [0.7, 0.25], [0.75, 0.7]])
NOISE = 1e-3
RECORDS = 8
DURATION = 0.08


def make_grid(size):
    """Return the coordinates of the inner points of a grid over the unit square."""
    ticks = np.linspace(0.0, 1.0, size + 2)[1:-1]
    return np.meshgrid(ticks, ticks, indexing="ij")


def find_conductivity(strengths, x, y):
    """Return the conductivity at points: 1, times e to the sum of the bumps."""
    total = 0.0 * x
    for k, (a, b) in enumerate(CENTERS):
        total = total + strengths[k] * np.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.03)
    return np.exp(total)


def simulate(strengths, size):
    """Return the temperatures of the thermometers over time, and the whole plate at the end."""
    spacing = 1.0 / (size + 1)
    x, y = make_grid(size)
    edges = (np.arange(size + 1) + 0.5) * spacing
    inner = x[:, 0]
    across = find_conductivity(strengths, *np.meshgrid(edges, inner, indexing="ij"))
    along = find_conductivity(strengths, *np.meshgrid(inner, edges, indexing="ij"))
    heating = 40.0 * np.exp(-((x - 0.5) ** 2 + (y - 0.5) ** 2) / 0.05)
    # The explicit scheme is stable up to a quarter of this, where the plate conducts best.
    steps = int(np.ceil(DURATION / (0.1 * spacing**2) / RECORDS))
    dt = DURATION / (steps * RECORDS)
    places = np.linspace(0, size - 1, 7).astype(int)[1:-1]
    u = 0.0 * x
    records = []
    for _ in range(RECORDS):
        for _ in range(steps):
            padded = np.pad(u, 1)
            flow_x = across * (padded[1:, 1:-1] - padded[:-1, 1:-1])
            flow_y = along * (padded[1:-1, 1:] - padded[1:-1, :-1])
            spread = (flow_x[1:] - flow_x[:-1] + flow_y[:, 1:] - flow_y[:, :-1]) / spacing**2
            u = u + dt * (spread + heating)
        records.append(u[places][:, places])
    return np.stack(records), u


def main(full=False):
    """Measure a plate whose conductivity is known here alone, and find it from the measurements."""
    size = 24 if full else 10
    rng = np.random.default_rng(0)
    clean, plate = simulate(TRUE_STRENGTHS, size)
    measured = clean + NOISE * rng.normal(size=clean.shape)

    def find_errors(strengths):
        return np.ravel(simulate(strengths, size)[0] - measured)

    fit = wg.least_squares(wg.compile(find_errors), np.zeros(4))
    for step, cost in enumerate(fit.history):
        print(f"step {step}  deviation {np.sqrt(2.0 * cost / measured.size):.5f}")
    print(f"true strengths {TRUE_STRENGTHS}, found {fit.x.round(3)}")
    print(f"largest error of a strength {np.abs(fit.x - TRUE_STRENGTHS).max():.4f}")
    return draw_plate(plate, clean, measured, fit.x, size)


def draw_plate(plate, clean, measured, strengths, size):
    """Return the panels of the picture."""
    x, y = make_grid(48)
    times = DURATION * np.arange(1, RECORDS + 1) / RECORDS
    fitted = simulate(strengths, size)[0]
    return [
        {"title": "Temperature at the end", "image": plate / plate.max()},
        {"title": "Conductivity, true", "image": find_conductivity(TRUE_STRENGTHS, x, y) / 2.5},
        {"title": "Conductivity, found", "image": find_conductivity(strengths, x, y) / 2.5},
        {
            "title": "Three of the 25 thermometers",
            "x": "time",
            "points": {"data": [np.repeat(times, 3), measured[:, 2, :3].ravel()]},
            "lines": {f"fit {k + 1}": [times, fitted[:, 2, k]] for k in range(3)},
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
