"""Two moons, classified by a network of scalars: every weight is a `wg.Value`.

The network has 2 inputs, two hidden layers of 8 and one output. The loss is the hinge loss on all points, plus a
small price on large weights. Each step records about 16,000 nodes, one per number, and sweeps them once.

Run it with `python examples/train_moons.py`; look for "accuracy 100%".
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim


def make_moons(count, rng):
    """Return points on two half circles that reach into each other, and their labels, 1 or -1."""
    angles = np.pi * rng.random(count)
    upper = np.arange(count) % 2 == 0
    x = np.where(upper, np.cos(angles), 1 - np.cos(angles))
    y = np.where(upper, np.sin(angles), 0.5 - np.sin(angles))
    points = np.stack([x, y], axis=1) + rng.normal(scale=0.1, size=(count, 2))
    return points.tolist(), np.where(upper, 1.0, -1.0).tolist()


def main():
    """Train, and print how it goes."""
    rng = np.random.default_rng(0)
    points, labels = make_moons(80, rng)
    model = nn.scalar.MLP(2, [8, 8, 1], rng=rng)
    weights = model.parameters().values()
    optimizer = optim.SGD(model.parameters(), lr=0.4, momentum=0.9)
    print(f"{len(weights)} parameters, {len(points)} points")
    for step in range(71):
        scores = [model(point) for point in points]
        margins = [wg.relu(1.0 - label * score) for score, label in zip(scores, labels, strict=True)]
        loss = sum(margins) / len(points) + 1e-4 * sum(w * w for w in weights)
        right = sum((score > 0) == (label > 0) for score, label in zip(scores, labels, strict=True))
        if step % 10 == 0:
            print(f"step {step:3}  loss {loss.data:.4f}  accuracy {right / len(points):.0%}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
