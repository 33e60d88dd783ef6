"""Ray tracing: a lens system of spherical surfaces is bent, spaced and filled so that rays meet in one spot."""

import numpy as np

RAYS, ANGLES = 200, (0.0, 0.07)


class Surface:
    """A sphere through the axis at `vertex`, with glass of an index behind it."""

    def __init__(self, vertex, curvature, index):
        self.vertex, self.curvature, self.index = vertex, curvature, index

    def intersect(self, z, y, dz, dy):
        """Return where rays meet the sphere."""
        z = z - self.vertex
        c = self.curvature
        half = dz - c * (z * dz + y * dy)
        rest = c * (z**2 + y**2) - 2.0 * z
        root = np.sqrt(half**2 - c * rest)
        length = rest / (half + root)
        return self.vertex + z + length * dz, y + length * dy

    def normal(self, z, y):
        """Return the unit normal at a point, towards the light."""
        c = self.curvature
        return 1.0 - c * (z - self.vertex), -c * y

    def refract(self, z, y, dz, dy, index_before):
        """Return the directions behind the surface, by Snell's law as a vector."""
        nz, ny = self.normal(z, y)
        ratio = index_before / self.index
        cosine = nz * dz + ny * dy
        root = np.sqrt(1.0 - ratio**2 * (1.0 - cosine**2))
        factor = root - ratio * cosine
        return ratio * dz + factor * nz, ratio * dy + factor * ny


def build_lens(curvatures, gaps, indices):
    """Return the surfaces, one behind the other."""
    surfaces, vertex = [], 0.0
    for k in range(len(curvatures)):
        index = indices[k // 2] if k % 2 == 0 else 1.0
        surfaces.append(Surface(vertex, curvatures[k], index))
        vertex = vertex + gaps[k]
    return surfaces, vertex


def trace(surfaces, screen, heights, angle):
    """Return where parallel rays hit the screen."""
    z, y = np.zeros(len(heights)) - 2.0, heights - 2.0 * np.tan(angle)
    dz, dy = np.cos(angle) * np.ones(len(heights)), np.sin(angle) * np.ones(len(heights))
    index = 1.0
    for surface in surfaces:
        z, y = surface.intersect(z, y, dz, dy)
        dz, dy = surface.refract(z, y, dz, dy, index)
        index = surface.index
    return y + (screen - z) / dz * dy


def spot_size(curvatures, gaps, indices, heights):
    """Return the mean squared width of the spots of all angles, in units of a tenth."""
    surfaces, screen = build_lens(curvatures, gaps, indices)
    total = 0.0
    for angle in ANGLES:
        hits = trace(surfaces, screen, heights, angle)
        total = total + np.mean((hits - np.mean(hits)) ** 2)
    return 100.0 * total / len(ANGLES)


def focal_power(curvatures, indices):
    """Return the power of the thin lenses that make up the system."""
    return sum((indices[k // 2] - 1.0) * (curvatures[k] - curvatures[k + 1]) for k in range(0, len(curvatures), 2))


def make_problem(seed):
    """Return the merit function, and curvatures, distances and indices of a triplet."""
    rng = np.random.default_rng(seed)
    heights = np.linspace(-1.0, 1.0, RAYS)
    curvatures = np.array([0.12, -0.02, -0.10, 0.11, 0.03, -0.12]) + 0.002 * rng.normal(size=6)
    gaps = np.array([0.4, 0.6, 0.2, 0.6, 0.4, 8.0])

    def merit(curvatures, gaps, indices):
        power = focal_power(curvatures, indices)
        return spot_size(curvatures, gaps, indices, heights) + (power - 0.1) ** 2

    return merit, (curvatures, gaps, np.array([1.62, 1.65, 1.62]))
