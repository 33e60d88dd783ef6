"""Inverse kinematics: an arm of four joints follows a circle.

Where the hand is follows from the angles; which angles put the hand at a place is the inverse question. The compiled
distance gives value and gradient in microseconds, and a few steps of `wg.least_squares` answer it for each of 40
places. A small price on bending keeps the arm smooth, since four angles for two numbers leave a choice.

Run it with `python examples/gallery/inverse_kinematics.py`; look for "largest miss 0.000".
"""

import numpy as np

import wiregrad as wg

LENGTHS = np.array([1.0, 0.8, 0.6, 0.4])


def find_joints(angles):
    """Return the places of all joints, from the shoulder to the hand."""
    directions = np.cumsum(angles)
    x = np.cumsum(LENGTHS * np.cos(directions))
    y = np.cumsum(LENGTHS * np.sin(directions))
    return x, y


def find_errors(angles, place, rest):
    """Return how far the hand is from a place in both directions, and a small price on moving."""
    x, y = find_joints(angles)
    return np.concatenate([np.stack([x[-1], y[-1]]) - place, 1e-2 * (angles - rest)])


def main(full=False):
    """Follow the circle, each answer being the start of the next."""
    turn = np.linspace(0.0, 2.0 * np.pi, 41)
    places = np.stack([1.2 + 0.6 * np.cos(turn), 0.8 + 0.6 * np.sin(turn)], axis=1)
    angles, poses = np.array([0.3, 0.4, 0.5, 0.3]), []
    for place in places:
        for _ in range(3):
            rest = angles
            angles = wg.least_squares(lambda a, place=place, rest=rest: find_errors(a, place, rest), angles).x
        poses.append(angles)
    joints = np.array([find_joints(pose) for pose in poses])
    misses = np.hypot(joints[:, 0, -1] - places[:, 0], joints[:, 1, -1] - places[:, 1])
    print(f"{len(places)} places, largest miss {misses.max():.6f}")
    arms = {}
    for k, name in ((0, "first"), (10, "after 10"), (20, "after 20"), (30, "after 30")):
        arms[name] = [np.append(0.0, joints[k, 0]), np.append(0.0, joints[k, 1])]
    bends = {f"joint {k + 1}": [np.arange(len(poses)), np.array(poses)[:, k]] for k in range(4)}
    return [
        {"title": "The arm", "equal": True, "lines": arms, "points": {"circle": places.T}},
        {"title": "Angles [rad]", "x": "place on the circle", "lines": bends},
    ]


if __name__ == "__main__":
    main()
