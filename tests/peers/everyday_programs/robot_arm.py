"""Robot arm: joint angles along a path so that the hand follows targets, bends little and keeps clear of a ball."""

import numpy as np

LENGTHS = (0.3, 0.5, 0.4, 0.2)
AXES = ("z", "y", "y", "x", "y")
POSES = 8


def rotation(axis, angle):
    """Return the rotation about an axis."""
    c, s = np.cos(angle), np.sin(angle)
    if axis == "x":
        return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
    if axis == "y":
        return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def joint_positions(angles, scale):
    """Return the positions of all joints, and the orientation of the hand."""
    turn = np.eye(3)
    position = np.zeros(3)
    positions = []
    for k, axis in enumerate(AXES):
        turn = turn @ rotation(axis, angles[k])
        if k < len(LENGTHS):
            position = position + scale * turn @ np.array([0.0, 0.0, LENGTHS[k]])
            positions.append(position)
    return positions, turn


def clearance_penalty(positions, centre, radius):
    """Return a penalty for joints inside a ball."""
    penalty = 0.0
    for position in positions:
        distance = np.sqrt(np.sum((position - centre) ** 2) + 1e-9)
        penalty += np.maximum(0.0, radius - distance) ** 2
    return penalty


def orientation_error(turn):
    """Return how far the hand is from pointing down."""
    down = np.array([0.0, 0.0, -1.0])
    return 1.0 - np.dot(turn[:, 2], down)


def limit_penalty(angles, limit=2.6):
    """Return a penalty for joints beyond their limits."""
    return np.sum(np.maximum(0.0, np.abs(angles) - limit) ** 2)


def path_cost(angles, scale, targets, centre):
    """Return the cost of a path of poses."""
    cost = 0.05 * np.sum(np.diff(angles, axis=0) ** 2) + limit_penalty(angles)
    for pose, target in zip(angles, targets, strict=True):
        positions, turn = joint_positions(pose, scale)
        cost = cost + 10.0 * np.sum((positions[-1] - target) ** 2) + 0.1 * orientation_error(turn)
        cost = cost + 5.0 * clearance_penalty(positions, centre, 0.25)
    return cost


def make_problem(seed):
    """Return the cost, the angles of all poses and a common scale of the links."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 1.0, POSES)
    targets = np.stack([0.5 + 0.1 * np.cos(6 * t), 0.4 * np.sin(6 * t), 0.4 + 0.2 * t], axis=1)
    centre = np.array([0.2, 0.0, 0.7])
    angles = 0.5 * rng.normal(size=(POSES, len(AXES)))

    def cost(angles, scale):
        return path_cost(angles, scale, targets, centre) + (scale - 1.0) ** 2

    return cost, (angles, 1.05)
