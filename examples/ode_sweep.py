"""A sweep over the initial states of a differential equation: where a driven pendulum goes, and how errors grow.

One motion, 40 steps of Runge and Kutta, is traced once and becomes a circuit; a batch runs it at every initial state.
The gradient at each state says how much a small error there has grown. Run it with `python examples/ode_sweep.py`, or
with 1000000 states:
- look for "the same bits": one thread and two processes;
- look for "largest growth of an error";
- look for "slope by finite differences agrees".
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import wiregrad as wg

STEPS, SPAN = 40, 6.0
"""The number of steps, and the time that they take together."""


def accelerate(angle, speed, t, damping):
    """Return the acceleration of a pendulum with friction that is pushed in turn."""
    return -np.sin(angle) - damping * speed + 0.8 * np.cos(1.5 * t)


def move(angle, speed, damping):
    """Return the angle after `SPAN`, by the classical method of Runge and Kutta."""
    dt = SPAN / STEPS
    for number in range(STEPS):
        t = number * dt
        k1 = speed, accelerate(angle, speed, t, damping)
        k2 = speed + dt / 2 * k1[1], accelerate(angle + dt / 2 * k1[0], speed + dt / 2 * k1[1], t + dt / 2, damping)
        k3 = speed + dt / 2 * k2[1], accelerate(angle + dt / 2 * k2[0], speed + dt / 2 * k2[1], t + dt / 2, damping)
        k4 = speed + dt * k3[1], accelerate(angle + dt * k3[0], speed + dt * k3[1], t + dt, damping)
        angle = angle + dt / 6 * (k1[0] + 2 * k2[0] + 2 * k3[0] + k4[0])
        speed = speed + dt / 6 * (k1[1] + 2 * k2[1] + 2 * k3[1] + k4[1])
    return angle


def make_states(count):
    """Return a grid of initial angles and speeds, with the damping beside each."""
    side = max(int(np.sqrt(count)), 2)
    angles, speeds = np.meshgrid(np.linspace(-3.0, 3.0, side), np.linspace(-2.0, 2.0, side))
    return np.column_stack([angles.ravel(), speeds.ravel(), np.full(side * side, 0.2)])


def main(count=10_000):
    """Sweep over the states, here and on two processes."""
    motion = wg.trace(move, 0.1, 0.2, 0.2).compile()
    states = make_states(count)
    began = time.perf_counter()
    angles, slopes = motion.batch_value_and_grad(states)
    seconds = time.perf_counter() - began
    print(f"{len(states):,} states of a circuit of {motion.info.nodes} nodes in {seconds:.2f} s")
    with ProcessPoolExecutor(2) as pool:
        same = motion.batch_value_and_grad(states, executor=pool, chunk_size=20_000)
    equal = np.array_equal(same[0], angles) and np.array_equal(same[1], slopes)
    print("two processes:", "the same bits" if equal else "OTHER NUMBERS")

    growth = np.hypot(slopes[:, 0], slopes[:, 1])
    worst = int(np.argmax(growth))
    print(f"largest growth of an error: {growth[worst]:.1f} times, at angle and speed {states[worst, :2].round(3)}")
    nearby = states[worst] + [[1e-6, 0, 0], [-1e-6, 0, 0]]
    difference = np.subtract(*motion.batch(nearby)) / 2e-6
    close = np.isclose(difference, slopes[worst, 0], rtol=1e-5)
    print(f"slope by finite differences {'agrees' if close else 'DIFFERS'}: {difference:.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
