"""Two moons, classified by a network of scalars: every weight is a `wg.Value`, and every product a node.

`nn.scalar.MLP` is a network of single numbers in forty lines; this one has 2 inputs, two hidden layers of 8 and one
output. The loss is the hinge loss on all points, plus a small price on large weights. Each step records about 16,000
nodes, one per number, and sweeps them once. At the end the plane is printed as the network sees it.

Run it with `python examples/train_moons.py`; look for "accuracy 100%".
"""

import numpy as np

import wiregrad as wg
from wiregrad import nn, optim


def draw_moons(count, rng):
    """Return points on two half circles that reach into each other, and their labels, 1 or -1."""
    labels = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    angle = np.pi * rng.random(count)
    x = np.where(labels > 0, np.cos(angle), 1.0 - np.cos(angle))
    y = np.where(labels > 0, np.sin(angle), 0.5 - np.sin(angle))
    return np.stack([x, y], axis=1) + rng.normal(0.0, 0.1, (count, 2)), labels


def show_plane(model):
    """Print the sign of the network's score over the plane."""
    with wg.no_grad():
        for y in np.linspace(1.4, -0.9, 14):
            scores = [model([float(x), float(y)]) for x in np.linspace(-1.6, 2.6, 60)]
            print("".join("#" if score.data > 0 else "." for score in scores))


def main(steps=100):
    """Train, and print how it goes."""
    rng = np.random.default_rng(0)
    points, labels = draw_moons(80, rng)
    model = nn.scalar.MLP(2, [8, 8, 1], rng=rng)
    parameters = model.parameters()
    optimizer = optim.SGD(parameters, lr=1.0, momentum=0.5)
    schedule = optim.CosineAnnealingLR(optimizer, steps)
    print(f"{len(parameters)} parameters, {len(points)} points")
    losses = []
    for step in range(1, steps + 1):
        scores = [model(point) for point in points.tolist()]
        margins = [wg.relu(1.0 - label * score) for label, score in zip(labels.tolist(), scores, strict=True)]
        loss = sum(margins) / len(points) + 1e-4 * sum(p * p for p in parameters.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.data)
        right = np.mean([score.data * label > 0 for label, score in zip(labels, scores, strict=True)])
        if step % 10 == 0:
            print(f"step {step:3}  loss {loss.data:.4f}  accuracy {right:.0%}")
    show_plane(model)
    return {"hinge loss": {"training": losses}}


if __name__ == "__main__":
    main()
