"""A function with branches and a loop, compiled: both arms of its branches in one recording, replayed natively.

Run it with `python examples/compile_branches.py`; look for "1 recording".
"""

import timeit

import numpy as np

import wiregrad as wg


def ball(height, speed, bounce):
    """Let a ball fall for a while; it bounces whenever it hits the floor."""
    step, drag = 0.1, 0.02
    for _ in range(12):
        speed = speed - 9.81 * step - drag * speed * abs(speed)
        height = height + speed * step
        if height < 0.0:
            height, speed = -height * bounce, -speed * bounce
    return height


fast = wg.compile(ball, argnums=(0, 1, 2))
print("dropped from 2 m:", fast(2.0, 0.0, 0.8))
print("and its gradient:", fast.value_and_grad(2.0, 0.0, 0.8)[1])
print("from 2.01 m     :", fast(2.01, 0.0, 0.8), "(replayed)")
print("from 8 m        :", fast(8.0, 0.0, 0.8), "(bounces elsewhere, in the same recording)")

rng = np.random.default_rng(0)
points = rng.uniform([1.5, -0.2, 0.7], [2.5, 0.2, 0.9], (200, 3)).tolist()
worst = max(abs(fast(*point) - ball(*point)) for point in points)
print("\nlargest difference from the function itself at 200 points:", worst)
print(fast.info)


def microseconds(call):
    """Return the time of a call, the best of a few rounds."""
    return min(timeit.repeat(call, number=200, repeat=5)) / 200 * 1e6


gradient = wg.value_and_grad(ball, argnums=(0, 1, 2))
print(f"\nplain Python      {microseconds(lambda: ball(2.0, 0.0, 0.8)):8.2f} microseconds")
print(f"compiled          {microseconds(lambda: fast(2.0, 0.0, 0.8)):8.2f}")
print(f"value and gradient{microseconds(lambda: gradient(2.0, 0.0, 0.8)):8.2f}")
print(f"compiled          {microseconds(lambda: fast.value_and_grad(2.0, 0.0, 0.8)):8.2f}")
