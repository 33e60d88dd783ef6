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
    largest = [np.abs(places - points).max() for places in (found, before)]
    print(f"largest error of a point {largest[0]:.5f}, {largest[1]:.2f} at the start")

    jacobian = wg.sparse_jacobian(find_errors)
    matrix = jacobian(fit.x)
    share = 100.0 * matrix.nnz / np.prod(matrix.shape)
    print(f"Jacobian {matrix.shape}: {share:.1f} percent can differ from 0, computed by {jacobian.colors} products")
    path = jacobian.reason(0, 6 * camera_count + 3 * int(which_point[0]))
    print("why the first error depends on its point:")
    print("\n".join(f"  {step.split(' (')[0]}" for step in path[:6]))
    # Of all rows and columns, those of the first 15 points, and of each row pair the first.
    rows = 2 * np.flatnonzero(which_point < 15)
    corner = jacobian.pattern[rows, : 6 * camera_count + 45]
    return [
        {
            "title": "Some points, seen from above",
            "x": "x",
            "y": "z",
            "equal": True,
            "points": {"start": before[:60, [0, 2]].T, "found": found[:60, [0, 2]].T},
            "circles": {"true": [points[:60, 0], points[:60, 2], np.full(min(60, point_count), 0.05)]},
        },
        {
            "title": "Sum of squares",
            "x": "step",
            "log": True,
            "lines": {"of all errors": [np.arange(len(fit.history)), 2.0 * np.array(fit.history)]},
        },
        {
            "title": "Pattern of a part of the Jacobian",
            "x": "columns: cameras, then points",
            "pattern": [*corner.nonzero(), *corner.shape],
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
