"""Optics: the shape of a lens, from the rays that it bends.

Parallel rays meet a curved glass surface and should meet again in one point. A parabola fails at its rim. Each ray is
bent at the surface by Snell's law; the gradient of the spot goes through all of it, and L-BFGS finds a better shape.

Run it with `python examples/gallery/optics.py`; look for "spot".
"""

import numpy as np

import wiregrad as wg

GLASS, FOCUS = 1.5, 3.0
heights = np.linspace(-0.9, 0.9, 21)


def find_surface(shape, y):
    """Return where the surface is at a height, and its slope there."""
    place = shape[0] * y**2 + shape[1] * y**4 + shape[2] * y**6
    slope = 2.0 * shape[0] * y + 4.0 * shape[1] * y**3 + 6.0 * shape[2] * y**5
    return place, slope


def trace_rays(shape):
    """Return where the rays, inside the glass, pass the plane of the focus."""
    x, slope = find_surface(shape, heights)
    # The ray comes along x; the normal of the surface points back at it.
    cos_in = 1.0 / np.sqrt(1.0 + slope**2)
    ratio = 1.0 / GLASS
    cos_out = np.sqrt(1.0 - ratio**2 * (1.0 - cos_in**2))
    bend = ratio * cos_in - cos_out
    across, down = ratio - bend * cos_in, bend * cos_in * slope
    return x, heights + down / across * (FOCUS - x)


def spot(shape):
    """Return the mean square distance from the axis in the plane of the focus."""
    return np.mean(trace_rays(shape)[1] ** 2)


def draw_rays(shape):
    """Return all rays as one line, there and back."""
    x, ends = trace_rays(shape)
    xs = [[-0.5, a, FOCUS, a, -0.5] for a in x]
    ys = [[h, h, end, h, h] for h, end in zip(heights, ends, strict=True)]
    return [np.ravel(xs), np.ravel(ys)]


def main(full=False):
    """Find the best parabola, then let its rim be free."""
    plain = wg.lbfgs(lambda c: spot([c[0], 0.0, 0.0]), np.array([0.3])).x
    fit = wg.lbfgs(spot, np.array([plain[0], 0.0, 0.0]))
    parabola = np.array([plain[0], 0.0, 0.0])
    for name, shape in (("parabola", parabola), ("free shape", fit.x)):
        print(f"{name:10} spot {np.sqrt(spot(shape)):.6f}, shape {np.round(shape, 4)}")
    return [
        {"title": "Parabola", "lines": {"rays": draw_rays(parabola)}},
        {"title": "Free shape", "lines": {"rays": draw_rays(fit.x)}},
        {
            "title": "Miss at the focus",
            "x": "height of the ray",
            "lines": {"parabola": [heights, trace_rays(parabola)[1]], "free shape": [heights, trace_rays(fit.x)[1]]},
        },
    ]


if __name__ == "__main__":
    main()
