"""A pendulum, simulated in an ordinary Python loop, and how its final angle depends on length and starting angle.

1000 steps of the semi-implicit Euler method on plain numbers. `wg.value_and_grad` differentiates the loop as it
stands; central differences run the simulation four more times and know about nine digits.

Run it with `python examples/pendulum.py`; look for "by length".
"""

import numpy as np

import wiregrad as wg


def final_angle(length, angle, seconds=5.0, steps=1000):
    """Return the angle of a pendulum, let go at an angle, after some seconds."""
    dt, speed = seconds / steps, 0.0
    for _ in range(steps):
        speed = speed - dt * 9.81 / length * np.sin(angle)
        angle = angle + dt * speed
    return angle


def difference(slot, h=1e-5):
    """Return the derivative by one argument as a central difference."""
    up, down = list(POINT), list(POINT)
    up[slot] += h
    down[slot] -= h
    return (final_angle(*up) - final_angle(*down)) / (2 * h)


POINT = (1.0, 0.5)
value, slopes = wg.value_and_grad(final_angle, argnums=(0, 1))(*POINT)
print(f"length {POINT[0]} m, let go at {POINT[1]} rad: after 5 s at {value:.6f} rad\n")
print(f"{'':9}  {'wiregrad':>15}   {'difference':>15}")
for slot, name in enumerate(["by length", "by angle"]):
    print(f"{name:9}  {slopes[slot]:15.12f}   {difference(slot):15.12f}")

# Which length has it at the bottom after exactly 5 s? Newton's method on the loop.
length = POINT[0]
for _ in range(5):
    value, slope = wg.value_and_grad(final_angle)(length, POINT[1])
    length -= value / slope
print(f"\nat the bottom after 5 s with a length of {length:.6f} m: angle {final_angle(length, POINT[1]):.1e}")

circuit = wg.trace(final_angle, *POINT, steps=3)
print(f"\nThree steps of it, as a circuit: {circuit!r}")
