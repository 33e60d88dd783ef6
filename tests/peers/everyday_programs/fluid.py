"""Fluid simulation: which initial velocities carry smoke into a given shape? Periodic grid, Jacobi projection."""

import numpy as np

SIZE, STEPS, SWEEPS = 40, 3, 8


def project(vx, vy):
    """Return the velocities without their divergence, by Jacobi iterations of the pressure's Poisson equation."""
    pressure = np.zeros(vx.shape)
    divergence = -0.5 * (
        np.roll(vx, -1, axis=1) - np.roll(vx, 1, axis=1) + np.roll(vy, -1, axis=0) - np.roll(vy, 1, axis=0)
    )
    for _ in range(SWEEPS):
        neighbours = np.roll(pressure, 1, axis=1) + np.roll(pressure, -1, axis=1)
        neighbours = neighbours + np.roll(pressure, 1, axis=0) + np.roll(pressure, -1, axis=0)
        pressure = (divergence + neighbours) / 4.0
    vx = vx - 0.5 * (np.roll(pressure, -1, axis=1) - np.roll(pressure, 1, axis=1))
    vy = vy - 0.5 * (np.roll(pressure, -1, axis=0) - np.roll(pressure, 1, axis=0))
    return vx, vy


def advect(field, vx, vy):
    """Return a field carried along, by bilinear interpolation at where each cell came from."""
    rows, columns = field.shape
    cell_ys, cell_xs = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    center_xs = (cell_xs - vx).ravel()
    center_ys = (cell_ys - vy).ravel()
    left = np.floor(center_xs).astype(int)
    top = np.floor(center_ys).astype(int)
    right_weight = center_xs - left
    bottom_weight = center_ys - top
    left, right = np.mod(left, columns), np.mod(left + 1, columns)
    top, bottom = np.mod(top, rows), np.mod(top + 1, rows)
    upper = (1 - right_weight) * field[top, left] + right_weight * field[top, right]
    lower = (1 - right_weight) * field[bottom, left] + right_weight * field[bottom, right]
    return np.reshape((1 - bottom_weight) * upper + bottom_weight * lower, (rows, columns))


def simulate(vx, vy, smoke):
    """Return the smoke after all steps."""
    for _ in range(STEPS):
        vx_moved = advect(vx, vx, vy)
        vy_moved = advect(vy, vx, vy)
        vx, vy = project(vx_moved, vy_moved)
        smoke = advect(smoke, vx, vy)
    return smoke


def draw_disc(row, column, radius):
    """Return smoke in the shape of a soft disc."""
    ys, xs = np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
    distance = np.sqrt((ys - row) ** 2 + (xs - column) ** 2)
    return 1.0 / (1.0 + np.exp(distance - radius))


def make_problem(seed):
    """Return the distance to the wanted picture and the initial velocities."""
    rng = np.random.default_rng(seed)
    start, target = draw_disc(15, 15, 6), draw_disc(22, 20, 6)
    vx = 0.3 + 0.2 * rng.normal(size=(SIZE, SIZE))
    vy = 0.3 + 0.2 * rng.normal(size=(SIZE, SIZE))

    def objective(vx, vy):
        return np.mean((simulate(vx, vy, start) - target) ** 2)

    return objective, (vx, vy)
