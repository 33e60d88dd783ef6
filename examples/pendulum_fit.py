"""A pendulum's motion, found by a network that knows the law of motion: second derivatives in the loss.

The network is a function of time. Its loss is how far it is from obeying `angle'' = -g / length * sin(angle)` at 40
times, plus how far it is from starting at 1 rad without moving. Nothing tells it the solution.

Run it with `python examples/pendulum_fit.py`; look for "largest error 0.00".
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

GRAVITY, LENGTH, START = 9.81, 2.0, 1.0
TIMES = np.linspace(0.0, 2.0, 40)

rng = np.random.default_rng(0)
model = nn.Sequential(
    nn.Linear(1, 24, rng=rng), nn.Tanh(), nn.Linear(24, 24, rng=rng), nn.Tanh(), nn.Linear(24, 1, rng=rng)
)
structure = model.emptied()


def find_motion(arrays, times):
    """Return angle, speed and acceleration at some times; every time is a network of its own, so slopes are sums."""

    def angle(t):
        return nn.call_with(structure, arrays, t[:, None])[:, 0]

    def speed(t):
        return wg.grad(lambda t: np.sum(angle(t)))(t)

    return angle(times), speed(times), wg.grad(lambda t: np.sum(speed(t)))(times)


def compute_loss(arrays):
    """Return how far the motion is from the law and from its start."""
    angle, speed, acceleration = find_motion(arrays, TIMES)
    law = acceleration + GRAVITY / LENGTH * np.sin(angle)
    return np.mean(law**2) + 10.0 * (angle[0] - START) ** 2 + 10.0 * speed[0] ** 2


def simulate(times, parts=1000):
    """Return the angle by many small steps of the law itself."""
    angle, speed, t, found = START, 0.0, 0.0, []
    for time in times:
        dt = (time - t) / parts
        for _ in range(parts):
            speed -= dt * GRAVITY / LENGTH * np.sin(angle)
            angle += dt * speed
        t = time
        found.append(angle)
    return np.array(found)


adam = optim.Adam(lr=0.01)


@wg.compile
def train_step(arrays, state):
    """Take one step; gradient and update are one compiled call."""
    loss, gradients = wg.value_and_grad(compute_loss)(arrays)
    arrays, state = adam.update(arrays, gradients, state)
    return loss, arrays, state


arrays = model.arrays()
state = adam.init(arrays)
schedule = optim.CosineAnnealingLR(None, 1000)
for step in range(1001):
    state["groups.0.lr"] = schedule.find_rate(0.01, step)
    loss, arrays, state = train_step(arrays, state)
    if step % 100 == 0:
        print(f"step {step:4}  loss {loss:.6f}")

model.load_state_dict(arrays)
with wg.no_grad():
    found = model(TIMES[:, None]).data[:, 0]
print(f"largest error {np.max(np.abs(found - simulate(TIMES))):.4f} rad")
