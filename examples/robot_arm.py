"""A robot arm with three joints: its lengths, masses and friction, from a recording of its motion.

Nobody writes down the equations of motion. The energy of the arm is a short function; `wg.grad` and `wg.jvp` of it give
Lagrange's equations, which say what torques a motion takes. `wg.vmap` computes them at all times of the recording, and
`wg.least_squares` differentiates all that once more, by what is unknown about the arm.

Run it with `python examples/robot_arm.py`; look for "largest error 0.0". With the word `full` behind its name the
recording is longer.
"""

import sys

import numpy as np

import wiregrad as wg

GRAVITY = 9.81
TRUE_ARM = {
    "length": np.array([0.5, 0.4, 0.3]),
    "mass": np.array([2.0, 1.5, 0.8]),
    "friction": np.array([0.6, 0.4, 0.2]),
}
NOISE = {"angle": 1e-3, "speed": 1e-2, "acceleration": 5e-2, "torque": 2e-2}
LOWER = np.tril(np.ones((3, 3)))


def find_energy(arm, angles, speeds):
    """Return the kinetic minus the potential energy of three thin rods, each turning against the one before."""
    length, mass = arm["length"], arm["mass"]
    direction, turning = LOWER @ angles, LOWER @ speeds
    inertia = mass * length**2 / 12.0
    kinetic = 0.5 * np.sum(inertia * turning**2)
    for move in (np.cos(direction) * turning, np.sin(direction) * turning):
        step = length * move
        kinetic = kinetic + 0.5 * np.sum(mass * (LOWER @ step - 0.5 * step) ** 2)
    height = -length * np.cos(direction)
    return kinetic - GRAVITY * np.sum(mass * (LOWER @ height - 0.5 * height))


def find_torques(arm, angles, speeds, accelerations):
    """Return the torques that a motion takes: Lagrange's equations."""

    def momentum(q, v):
        return wg.grad(lambda v: find_energy(arm, q, v))(v)

    rate = wg.jvp(momentum, (angles, speeds), (speeds, accelerations))[1]
    return rate - wg.grad(lambda q: find_energy(arm, q, speeds))(angles) + arm["friction"] * speeds


@wg.compile
def accelerate(angles, speeds, torques):
    """Return how the true arm accelerates: torques depend on the accelerations linearly."""
    rest = find_torques(TRUE_ARM, angles, speeds, np.zeros(3))
    columns = [find_torques(TRUE_ARM, angles, speeds, unit) - rest for unit in np.eye(3)]
    return np.linalg.solve(np.stack(columns, axis=1), torques - rest)


def record_motion(count, dt=0.004, every=5):
    """Simulate the true arm with small steps, and write down its motion with errors of measurement."""
    angles, speeds = np.zeros(3), np.zeros(3)
    rows = []
    for k in range(count * every):
        time = k * dt
        torques = np.array([6.0 * np.sin(3.0 * time), 3.0 * np.cos(4.0 * time), 1.5 * np.sin(7.0 * time)])
        accelerations = accelerate(angles, speeds, torques)
        if k % every == 0:
            rows.append([angles, speeds, accelerations, torques])
        speeds = speeds + dt * accelerations
        angles = angles + dt * speeds
    exact = np.stack(rows, axis=1)
    noise = np.random.default_rng(0).normal(size=exact.shape)
    return exact + noise * np.reshape(list(NOISE.values()), (4, 1, 1))


def main(full=False):
    """Record the motion of an arm that is known here alone, and find out what it is made of."""
    count = 1000 if full else 300
    angles, speeds, accelerations, torques = record_motion(count)

    def find_errors(arm):
        predict = wg.vmap(lambda q, v, a: find_torques(arm, q, v, a))
        return np.ravel(predict(angles, speeds, accelerations) - torques)

    start = {"length": np.ones(3), "mass": np.ones(3), "friction": np.zeros(3)}
    fit = wg.least_squares(wg.compile(find_errors), start)
    for step, cost in enumerate(fit.history):
        print(f"step {step}  deviation {np.sqrt(2.0 * cost / torques.size):.4f} N m")
    for name, true in TRUE_ARM.items():
        print(f"{name:8}  found {fit.x[name].round(3)}  true {true}")
    print(f"largest error {max(np.abs(fit.x[name] - true).max() for name, true in TRUE_ARM.items()):.4f}")
    predicted = np.reshape(find_errors(fit.x), (count, 3)) + torques
    return draw_arm(angles, torques, predicted, fit)


def draw_arm(angles, torques, predicted, fit):
    """Return the panels of the picture."""
    times = 0.02 * np.arange(len(angles))[:100]
    direction = angles[:100:8] @ LOWER.T
    joints = [np.zeros((len(direction), 2))]
    for k, length in enumerate(fit.x["length"]):
        joints.append(joints[-1] + length * np.stack([np.sin(direction[:, k]), -np.cos(direction[:, k])], axis=1))
    # Each arm is drawn out and back, so that all of them are one line.
    arms = np.stack([*joints, *joints[-2::-1]], axis=1).reshape(-1, 2).T
    names = ["shoulder", "elbow", "wrist"]
    return [
        {"title": "The arm during two seconds", "x": "m", "equal": True, "lines": {"arm as found": arms}},
        {
            "title": "Torque of the elbow",
            "x": "time [s]",
            "y": "N m",
            "points": {"measured": [times, torques[:100, 1]]},
            "lines": {"by the arm found": [times, predicted[:100, 1]]},
        },
        {
            "title": "Angles",
            "x": "time [s]",
            "y": "rad",
            "lines": {name: [times, angles[:100, k]] for k, name in enumerate(names)},
        },
    ]


if __name__ == "__main__":
    main("full" in sys.argv)
