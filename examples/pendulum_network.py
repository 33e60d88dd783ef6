"""A physics-informed fit: a network finds the swing of a pendulum from its equation, without a single measurement.

The network is a function from time to angle. Its loss says how far it is from obeying the equation of motion,
angle'' = -sin(angle), at 64 moments. So the loss contains second derivatives of the network, and the training step
takes the gradient of those. The start, at rest at an angle of 1.5, is built into the function.

Run it with `python examples/pendulum_network.py`; look for "error below 0.01", against a simulation in small steps.
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

START = 1.5
SECONDS = 8.0
"""A little more than a whole swing."""


def differentiate(curve):
    """Return the derivative of a function of time that takes all moments at once."""
    return wg.grad(lambda time: np.sum(curve(time)))


def compute_angle(model, time):
    """Return the angle at each moment; the factor in front holds the start: angle 1.5, speed 0."""
    inputs = np.reshape(2.0 * time / SECONDS - 1.0, (-1, 1))
    return START + time**2 / (1.0 + time**2) * model(inputs)[:, 0]


def compute_loss(model, time):
    """Return the mean square of what is left of the equation of motion."""

    def angle(moments):
        return compute_angle(model, moments)

    acceleration = differentiate(differentiate(angle))(time)
    return np.mean((acceleration + np.sin(angle(time))) ** 2)


def train(model, time, steps, rate):
    """Train the model in place; returns the loss of every step."""
    structure, adam, schedule = model.emptied(), optim.Adam(lr=rate), optim.CosineAnnealingLR(None, steps)

    @wg.compile
    def take_step(arrays, state, time):
        loss, gradients = wg.value_and_grad(lambda arrays: compute_loss(structure.holding(arrays), time))(arrays)
        return loss, *adam.update(arrays, gradients, state)

    arrays = model.arrays()
    state = adam.init(arrays)
    losses = []
    for step in range(steps):
        state["groups.0.lr"] = schedule.find_rate(rate, step)
        loss, arrays, state = take_step(arrays, state, time)
        losses.append(float(loss))
        if (step + 1) % 500 == 0:
            print(f"step {step + 1:4}  loss {losses[-1]:.2e}")
    model.load_state_dict(arrays)
    return losses


def simulate(time, small=1e-3):
    """Return the angle at each moment, by steps of a millisecond."""
    angles = [START]
    speed = 0.5 * small * -np.sin(START)
    for _ in range(round(time[-1] / small)):
        angles.append(angles[-1] + small * speed)
        speed -= small * np.sin(angles[-1])
    return np.interp(time, small * np.arange(len(angles)), angles)


def main():
    """Fit the network, and compare it with a simulation."""
    rng = np.random.default_rng(0)
    model = nn.Sequential(
        nn.Linear(1, 32, rng=rng), nn.Tanh(), nn.Linear(32, 32, rng=rng), nn.Tanh(), nn.Linear(32, 1, rng=rng)
    )
    losses = train(model, np.linspace(0.0, SECONDS, 64), steps=3000, rate=3e-3)
    time = np.linspace(0.0, SECONDS, 9)
    with wg.no_grad():
        found, simulated = compute_angle(model, time).data, simulate(time)
    for moment, angle, other in zip(time, found, simulated, strict=True):
        print(f"after {moment:.0f} s  network {angle:7.4f}  simulation {other:7.4f}")
    if np.max(np.abs(found - simulated)) < 0.01:
        print("error below 0.01")
    return {"loss: mean square of angle'' + sin(angle)": {"loss": losses}}


if __name__ == "__main__":
    main()
