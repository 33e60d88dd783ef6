"""Topology optimisation: the compliance of a cantilever by finite elements, by the density of each element."""

import numpy as np

COLUMNS, ROWS, PENALTY, POISSON = 12, 6, 3.0, 0.3


def element_stiffness():
    """Return the stiffness of a bilinear square of plane stress."""
    nu = POISSON
    k = np.array(
        [
            1 / 2 - nu / 6,
            1 / 8 + nu / 8,
            -1 / 4 - nu / 12,
            -1 / 8 + 3 * nu / 8,
            -1 / 4 + nu / 12,
            -1 / 8 - nu / 8,
            nu / 6,
            1 / 8 - 3 * nu / 8,
        ]
    )
    order = [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [1, 0, 7, 6, 5, 4, 3, 2],
        [2, 7, 0, 5, 6, 3, 4, 1],
        [3, 6, 5, 0, 7, 2, 1, 4],
        [4, 5, 6, 7, 0, 1, 2, 3],
        [5, 4, 3, 2, 1, 0, 7, 6],
        [6, 3, 4, 1, 2, 7, 0, 5],
        [7, 2, 1, 4, 3, 6, 5, 0],
    ]
    return k[np.array(order)] / (1 - nu**2)


def element_freedoms():
    """Return the eight degrees of freedom of each element."""
    freedoms = []
    for x in range(COLUMNS):
        for y in range(ROWS):
            first = (ROWS + 1) * x + y
            second = first + ROWS + 1
            corners = [first + 1, second + 1, second, first]
            freedoms.append([2 * node + axis for node in corners for axis in (0, 1)])
    return np.array(freedoms)


def filter_matrix(radius=1.6):
    """Return the weights that average densities over a neighbourhood."""
    x, y = np.meshgrid(np.arange(COLUMNS), np.arange(ROWS), indexing="ij")
    centres = np.stack([x.ravel(), y.ravel()], axis=1)
    distance = np.sqrt(np.sum((centres[:, None] - centres[None, :]) ** 2, axis=2))
    weights = np.maximum(0.0, radius - distance)
    return weights / np.sum(weights, axis=1, keepdims=True)


def smooth_threshold(density, sharpness=4.0, middle=0.5):
    """Return densities pushed towards 0 and 1."""
    low = np.tanh(sharpness * middle)
    return (low + np.tanh(sharpness * (density - middle))) / (low + np.tanh(sharpness * (1 - middle)))


def assemble(stiffness, single, freedoms, size):
    """Return the global matrix, summed from the matrices of the elements."""
    gather = np.eye(size)[freedoms]
    scaled = stiffness[:, None, None] * single
    half = np.einsum("eij,ejb->eib", scaled, gather)
    return np.tensordot(gather, half, axes=([0, 1], [0, 1]))


def compliance(density, single, freedoms, free, load):
    """Return the work of the load."""
    stiffness = 1e-3 + density**PENALTY * (1.0 - 1e-3)
    size = len(load)
    matrix = assemble(stiffness, single, freedoms, size)
    displacement = np.linalg.solve(matrix[free][:, free], load[free])
    return np.dot(load[free], displacement)


def make_problem(seed):
    """Return the objective and the design variables."""
    rng = np.random.default_rng(seed)
    single, freedoms, weights = element_stiffness(), element_freedoms(), filter_matrix()
    size = 2 * (COLUMNS + 1) * (ROWS + 1)
    free = np.arange(2 * (ROWS + 1), size)
    load = np.zeros(size)
    load[-1] = -1.0
    design = 0.1 * rng.normal(size=COLUMNS * ROWS)

    def objective(design):
        density = smooth_threshold(weights @ (1.0 / (1.0 + np.exp(-design))))
        excess = np.maximum(0.0, np.mean(density) - 0.4)
        return compliance(density, single, freedoms, free, load) / 100.0 + 10.0 * excess**2

    return objective, (design,)
