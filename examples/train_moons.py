"""Two moons, classified by a network of scalars: every weight is a `wg.Value`.

The network has 2 inputs, two hidden layers of 8 and one output. The loss is the hinge loss on all points, plus a
small price on large weights. Each step records about 16,000 nodes, one per number, and sweeps them once.

Run it with `python examples/train_moons.py`; look for "accuracy 100%".
"""

import math
import random
from itertools import pairwise

import wiregrad as wg

Neuron = tuple[list[wg.Value], wg.Value]


def moons(count: int, rng: random.Random) -> list[tuple[tuple[float, float], float]]:
    """Return points on two half circles that reach into each other, each with its label, 1 or -1."""
    points = []
    for k in range(count):
        angle, upper = math.pi * rng.random(), k % 2 == 0
        x, y = math.cos(angle), math.sin(angle)
        place = (x, y) if upper else (1 - x, 0.5 - y)
        points.append(((place[0] + rng.gauss(0, 0.1), place[1] + rng.gauss(0, 0.1)), 1.0 if upper else -1.0))
    return points


def network(sizes: list[int], rng: random.Random) -> list[list[Neuron]]:
    """Return layers of neurons: weights and a bias."""
    return [
        [([wg.Value(rng.gauss(0, fan_in**-0.5)) for _ in range(fan_in)], wg.Value(0.0)) for _ in range(width)]
        for fan_in, width in pairwise(sizes)
    ]


def score(layers: list[list[Neuron]], point: tuple[float, float]) -> wg.Value:
    """Run the network on one point; the sign of the result is the class."""
    signals: list = list(point)
    for layer in layers:
        sums = [sum((w * x for w, x in zip(weights, signals, strict=True)), bias) for weights, bias in layer]
        signals = sums if layer is layers[-1] else [s.relu() for s in sums]
    return signals[0]


def main() -> None:
    """Train, and print how it goes."""
    rng = random.Random(2)
    points, layers = moons(80, rng), network([2, 8, 8, 1], rng)
    parameters = [p for layer in layers for weights, bias in layer for p in (*weights, bias)]
    print(f"{len(parameters)} parameters, {len(points)} points")
    for step in range(101):
        scores = [score(layers, point) for point, _ in points]
        margins = [(1.0 - label * s).relu() for s, (_, label) in zip(scores, points, strict=True)]
        loss = sum(margins) / len(points) + 1e-4 * sum(p * p for p in parameters)
        right = sum((s > 0) == (label > 0) for s, (_, label) in zip(scores, points, strict=True))
        if step % 10 == 0:
            print(f"step {step:3}  loss {loss.data:.4f}  accuracy {right / len(points):.0%}")
        for p in parameters:
            p.grad = None
        loss.backward()
        for p in parameters:
            p.data -= 1.0 * (1 - step / 101) * p.grad


main()
