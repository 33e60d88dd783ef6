"""Bundle adjustment: cameras and points from what the cameras see, with a sparse Jacobian.

Each camera sees some points of a scene. From two numbers for each point that it sees, `wg.least_squares` finds where
the cameras were and where the points are. Each error depends on one camera and one point, so nearly all of the Jacobian
is zero; wiregrad finds out by itself which part, and computes it by 8 products, whatever the number of points.

Run it with `python examples/bundle_adjustment.py`; look for "largest error of a point 0.00". With the word `full`
behind its name the scene is larger.
"""

import sys

import numpy as np

import wiregrad as wg

NOISE = 1e-4
"""Size of the errors of what is seen, where the pictures are about 1 wide."""


def make_scene(cameras, points, rng):
    """Return cameras on a circle around random points: three numbers for the rotation, three for the place."""
    around = np.linspace(0.0, 1.5 * np.pi, cameras)
    rotations = np.stack([0.05 * rng.normal(size=cameras), around, 0.05 * rng.normal(size=cameras)], axis=1)
    places = np.stack([np.zeros(cameras), np.zeros(cameras), np.full(cameras, 4.0)], axis=1)
    return np.concatenate([rotations, places], axis=1), rng.uniform(-1.0, 1.0, size=(points, 3))


def turn(rotations, points):
    """Turn points, each by its own rotation vector (the formula of Rodrigues)."""
    angles = np.sqrt(np.sum(rotations**2, axis=1, keepdims=True) + 1e-20)
    axes = rotations / angles
    along = axes * np.sum(axes * points, axis=1, keepdims=True)
    return along + (points - along) * np.cos(angles) + np.cross(axes, points) * np.sin(angles)


def project(cameras, points):
    """Return what cameras see: one camera and one point in each row."""
    seen = turn(cameras[:, :3], points) + cameras[:, 3:]
    return seen[:, :2] / seen[:, 2:]


def main(full=False):
    """Make a scene, forget it, and find it again."""
    rng = np.random.default_rng(0)
    camera_count, point_count = (20, 600) if full else (5, 30)
    cameras, points = make_scene(camera_count, point_count, rng)
    # Each camera sees two thirds of the points.
    which_camera, which_point = np.nonzero(np.add.outer(np.arange(camera_count), np.arange(point_count)) % 3)
    pictures = project(cameras[which_camera], points[which_point])
    pictures = pictures + NOISE * rng.normal(size=pictures.shape)

    def find_errors(unknown):
        # The first camera and the distance of the second are known: nothing else says where the scene is, and how big.
        moving = np.reshape(unknown[: 6 * camera_count], (camera_count, 6))
        scene = np.reshape(unknown[6 * camera_count :], (point_count, 3))
        errors = project(moving[which_camera], scene[which_point]) - pictures
        known = np.concatenate([moving[0] - cameras[0], moving[1, 3:] - cameras[1, 3:]])
        return np.concatenate([np.ravel(errors), known])

    truth = np.concatenate([np.ravel(cameras), np.ravel(points)])
    start = truth + 0.1 * rng.normal(size=truth.shape)
    fit = wg.least_squares(find_errors, start, use_sparse=True)
    print(f"{camera_count} cameras, {point_count} points, {len(which_point)} times a point was seen")
    for step, cost in enumerate(fit.history):
        print(f"step {step:2}  sum of squares {2.0 * cost:.3e}")
    found = np.reshape(fit.x[6 * camera_count :], (point_count, 3))
    before = np.reshape(start[6 * camera_count :], (point_count, 3))
    print(f"largest error of a point {np.abs(found - points).max():.5f}, {np.abs(before - points).max():.2f} at the start")

    jacobian = wg.sparse_jacobian(find_errors)
    matrix = jacobian(fit.x)
    share = 100.0 * matrix.nnz / np.prod(matrix.shape)
    print(f"Jacobian {matrix.shape}: {share:.1f} percent of it can differ from 0, and {jacobian.colors} products give it")
    path = jacobian.reason(0, 6 * camera_count + 3 * int(which_point[0]))
    print("why the first error depends on its point:")
    print("\n".join(f"  {step}" for step in path[:6]))
    return [
        {
            "title": "The scene from above",
            "x": "x",
            "y": "z",
            "equal": True,
            "circles": {"true": [points[:, 0], points[:, 2], np.full(point_count, 0.035)]},
            "points": {"start": before[:, [0, 2]].T, "found": found[:, [0, 2]].T},
        },
        {
            "title": "Sum of squares",
            "x": "step",
            "log": True,
            "lines": {"of all errors": [np.arange(len(fit.history)), 2.0 * np.array(fit.history)]},
        },
        {
            "title": "Pattern of the Jacobian, upper left",
            "x": "columns: cameras, then points",
            "pattern": cut_pattern(jacobian.pattern, 300),
        },
    ]


def cut_pattern(pattern, size):
    """Return rows, columns, height and width of the first entries of a pattern."""
    corner = pattern[:size, :size]
    rows, columns = corner.nonzero()
    return [rows, columns, *corner.shape]


if __name__ == "__main__":
    main("full" in sys.argv)
