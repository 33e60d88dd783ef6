"""Softmax swapped for hinge in one line: a classifier is trained with each loss, and nothing is derived again.

The points lie on three arms of a spiral. The network, the step and the loop are the same for both losses; what is
differentiated is the loss in that line. One loss is smooth and never satisfied; the other is zero, with a
gradient of zero, for every point that is right by a margin.

Run it with `python examples/swap_the_loss.py`; look for "both above 95%".
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim

ARMS = 3


def make_spiral(count, rng):
    """Return points on the arms of a spiral, and the number of each point's arm."""
    arm = np.arange(count) % ARMS
    radius = rng.uniform(0.1, 1.0, count)
    angle = 2 * np.pi * arm / ARMS + 4.0 * radius + rng.normal(0.0, 0.1, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), arm


def train(loss_function, x, arm, steps=400):
    """Train a network with a loss; returns the loss and the accuracy after each step."""
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(2, 32, rng=rng), nn.Tanh(), nn.Linear(32, ARMS, rng=rng))
    adam = optim.Adam(model.parameters(), lr=0.05)

    def compute_loss(model, x, arm):
        return loss_function(model(x), arm)

    take_step = optim.CompiledStep(model, compute_loss, adam)
    losses, accuracies = [], []
    for _ in range(steps):
        losses.append(take_step(x, arm))
        with wg.no_grad():
            accuracies.append(float(np.mean(np.argmax(model(x).data, axis=1) == arm)))
    return losses, accuracies


def main():
    """Train with both losses, and print how they compare."""
    x, arm = make_spiral(300, np.random.default_rng(1))
    softmax, softmax_accuracy = train(nn.cross_entropy, x, arm)
    hinge, hinge_accuracy = train(nn.multi_margin_loss, x, arm)
    for step in (1, 10, 50, 100, 200, 400):
        print(
            f"step {step:3}  softmax {softmax[step - 1]:.4f} {softmax_accuracy[step - 1]:4.0%}"
            f"  hinge {hinge[step - 1]:.4f} {hinge_accuracy[step - 1]:4.0%}"
        )
    if min(softmax_accuracy[-1], hinge_accuracy[-1]) > 0.95:
        print("both above 95%")
    return {"loss": {"softmax": softmax, "hinge": hinge}}


if __name__ == "__main__":
    main()
