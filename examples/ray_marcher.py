"""A ray marcher that runs backwards: where the balls are and where the light comes from, from a picture of them.

From each pixel a ray goes on by steps as long as the nearest ball is far, until it touches one. That is 24 steps of
plain NumPy on all rays at once. The slope of the distance, by `wg.grad`, says how a ball's surface is turned to the
light. `wg.least_squares` compares the picture with a given one, and moves the balls and the light until they agree.

Run it with `python examples/ray_marcher.py`; look for "largest error 0.00". With the word `full` behind its name the
pictures are larger.
"""

import sys

import numpy as np

import wiregrad as wg

STEPS = 24
FAR = 8.0
SHARPNESS = 80.0
"""How quickly a ball ends at its edge; the edge is about one over this wide, as an angle."""
FLOOR = -0.8
"""Height of the floor on which the balls lie; without it, a large ball far away would look like a small one."""
TRUE_SCENE = {
    "places": np.array([[-0.95, 3.2], [0.2, 2.4], [1.3, 3.4]]),
    "radii": np.array([0.6, 0.35, 0.45]),
    "light": np.array([0.5, 0.8]),
}
START = {
    "places": np.array([[-0.8, 3.0], [0.1, 2.7], [1.2, 3.0]]),
    "radii": np.array([0.5, 0.3, 0.35]),
    "light": np.array([0.0, 0.3]),
}


def make_rays(size):
    """Return the directions of the rays through the pixels of a square picture, one in each row."""
    ticks = np.linspace(-0.55, 0.55, size)
    x, y = np.meshgrid(ticks, -ticks)
    rays = np.stack([np.ravel(x), np.ravel(y), np.ones(size * size)], axis=1)
    return rays / np.sqrt(np.sum(rays**2, axis=1, keepdims=True))


def find_distance(scene, points):
    """Return how far points are from the nearest ball."""
    radii = scene["radii"]
    centers = np.stack([scene["places"][:, 0], radii + FLOOR, scene["places"][:, 1]], axis=1)
    away = points[:, None, :] - centers
    return np.min(np.sqrt(np.sum(away**2, axis=2)) - radii, axis=1)


def render(scene, rays, sharpness):
    """Return the picture of a scene: rows of pixels from 0 to 1."""
    depth = np.zeros(len(rays))
    nearest = depth
    closest = np.full(len(rays), 1.0)
    for _ in range(STEPS):
        distance = find_distance(scene, depth[:, None] * rays)
        # Seen from the eye: a ball that a ray misses by less than a pixel still covers a part of it.
        gap = distance / (depth + 0.1)
        nearest = np.where(gap < closest, depth, nearest)
        closest = np.minimum(closest, gap)
        depth = np.minimum(depth + distance, FAR)
    normals = wg.grad(lambda points: np.sum(find_distance(scene, points)))(nearest[:, None] * rays)
    light = np.concatenate([scene["light"], -np.ones(1)])
    light = light / np.sqrt(np.sum(light**2))
    balls = 0.1 + 0.9 * np.maximum(normals @ light, 0.0)
    floor = np.where(rays[:, 1] < 0.0, 0.2 + 0.4 * light[1] * np.exp(4.0 * rays[:, 1]), 0.0)
    covered = 1.0 / (1.0 + np.exp(closest * sharpness - 2.0))
    size = int(np.sqrt(len(rays)))
    return np.reshape(covered * balls + (1.0 - covered) * floor, (size, size))


def main(full=False):
    """Render a scene, forget it, and find it again."""
    size = 64 if full else 24
    rays = make_rays(size)
    photo = render(TRUE_SCENE, rays, SHARPNESS) + 0.01 * np.random.default_rng(0).normal(size=(size, size))

    def find_errors(scene, sharpness):
        return np.ravel(render(scene, rays, sharpness) - photo)

    scene = START
    history = []
    # With soft edges, a ball that is some pixels away still overlaps its picture.
    for sharpness in (30.0, SHARPNESS):
        fit = wg.least_squares(wg.compile(find_errors), scene, sharpness, max_steps=20, tolerance=1e-5)
        scene = fit.x
        deviation = np.sqrt(2.0 * np.array(fit.history) / photo.size)
        history += deviation.tolist()
        print(f"sharpness {sharpness:g}: {fit.steps:2} steps, then a pixel deviates by {deviation[-1]:.4f}")
    for name, true in TRUE_SCENE.items():
        print(f"{name}: found {scene[name].round(3).tolist()}, true {true.tolist()}")
    print(f"largest error {max(np.abs(scene[name] - true).max() for name, true in TRUE_SCENE.items()):.4f}")
    shown = make_rays(48)
    return [
        {"title": "The picture that is given", "image": render(TRUE_SCENE, shown, SHARPNESS)},
        {"title": "The scene at the start", "image": render(START, shown, SHARPNESS)},
        {"title": "The scene that was found", "image": render(scene, shown, SHARPNESS)},
        {
            "title": "Deviation, as edges become sharp",
            "x": "step",
            "log": True,
            "lines": {"deviation": [np.arange(len(history)), history]},
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
