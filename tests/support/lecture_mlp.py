"""A network as three classes on single numbers, as lectures write it."""

from __future__ import annotations

import random
from typing import Any

import wiregrad as wg


class Neuron:
    """The tanh of a weighted sum."""

    def __init__(self, nin: int) -> None:
        self.w = [wg.Value(random.uniform(-1, 1)) for _ in range(nin)]
        self.b = wg.Value(random.uniform(-1, 1))

    def __call__(self, x: Any) -> Any:
        act = sum((wi * xi for wi, xi in zip(self.w, x, strict=True)), self.b)
        return act.tanh()


class Layer:
    """Neurons that read the same numbers."""

    def __init__(self, nin: int, nout: int) -> None:
        self.neurons = [Neuron(nin) for _ in range(nout)]

    def __call__(self, x: Any) -> Any:
        outs = [n(x) for n in self.neurons]
        return outs[0] if len(outs) == 1 else outs


class MLP:
    """Layers one after another."""

    def __init__(self, nin: int, nouts: list[int]) -> None:
        sizes = [nin, *nouts]
        self.layers = [Layer(sizes[i], sizes[i + 1]) for i in range(len(nouts))]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def make_model(*nouts: int) -> MLP:
    """Return a network of two inputs with fixed weights."""
    random.seed(1)
    return MLP(2, [*nouts])
