"""Fit a double pendulum: masses and lengths from two seconds of motion.

The motion is chaotic in the long run, but its first seconds are a smooth function of the parameters. The simulation is
a loop of plain numbers, `wg.compile` makes machine code of it and of its derivatives, and `wg.least_squares` finds the
ratio of the masses and both lengths from noisy angles.

Run it with `python examples/gallery/double_pendulum.py`; look for "largest error 0.0".
"""

import numpy as np

import wiregrad as wg

NAMES = ("mass ratio", "upper length", "lower length")
TRUE = np.array([0.8, 1.0, 0.7])
GRAVITY = 9.81
STEPS, DT = 100, 0.02


def accelerate(a, b, u, v, p):
    """Return the angular accelerations of both arms."""
    mass, upper, lower = p
    gap = a - b
    inertia = 1.0 + mass * np.sin(gap) ** 2
    pull = mass * (lower * v * v + upper * u * u * np.cos(gap)) * np.sin(gap)
    first = -pull - GRAVITY * ((1.0 + mass) * np.sin(a) - mass * np.sin(b) * np.cos(gap))
    second = (1.0 + mass) * upper * u * u * np.sin(gap) + mass * lower * v * v * np.sin(gap) * np.cos(gap)
    second = second + (1.0 + mass) * GRAVITY * (np.sin(a) * np.cos(gap) - np.sin(b))
    return first / (upper * inertia), second / (lower * inertia)


def simulate(p):
    """Return both angles at every fourth step, by the velocity form of Verlet's method."""
    a, b, u, v = 1.2, 0.6, 0.0, 0.0
    angles = []
    du, dv = accelerate(a, b, u, v, p)
    for step in range(STEPS):
        u, v = u + 0.5 * DT * du, v + 0.5 * DT * dv
        a, b = a + DT * u, b + DT * v
        du, dv = accelerate(a, b, u, v, p)
        u, v = u + 0.5 * DT * du, v + 0.5 * DT * dv
        if step % 4 == 3:
            angles += [a, b]
    return np.stack(angles)


def main(full=False):
    """Measure, fit and compare."""
    measured = simulate(TRUE) + 0.002 * np.random.default_rng(0).normal(size=STEPS // 2)
    start = np.array([0.5, 1.2, 0.9])
    fit = wg.least_squares(wg.compile(lambda p: simulate(p) - measured), start)
    for name, found, true in zip(NAMES, fit.x, TRUE, strict=True):
        print(f"{name:13} found {found:7.4f}  true {true:7.4f}")
    print(f"{fit.steps} steps, largest error {np.max(np.abs(fit.x / TRUE - 1.0)):.4f}")
    times = DT * np.arange(4, STEPS + 1, 4)
    return [
        {
            "title": "Angles [rad]",
            "x": "time [s]",
            "lines": {"upper": [times, simulate(fit.x)[::2]], "lower": [times, simulate(fit.x)[1::2]]},
            "points": {"measured": [np.concatenate([times, times]), np.concatenate([measured[::2], measured[1::2]])]},
        },
        {
            "title": "Half the sum of squares",
            "x": "step",
            "log": True,
            "lines": {"cost": [np.arange(len(fit.history)), np.array(fit.history)]},
        },
    ]


if __name__ == "__main__":
    main()
