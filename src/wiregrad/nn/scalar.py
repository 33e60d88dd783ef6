"""A network of single numbers: every weight is a `wg.Value` of its own, and every product is a node of the circuit.

>>> model = MLP(3, [4, 4, 1], rng=np.random.default_rng(0))
>>> len(model.parameters())
41
>>> loss = (model([2.0, 3.0, -1.0]) - 1.0) ** 2
>>> loss.backward()
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad.nn.initialisers import needs_rng
from wiregrad.nn.module import Module

__all__ = ["MLP", "Layer", "Neuron"]


class Neuron(Module):
    """A weighted sum and a bias, through tanh unless the neuron is linear."""

    @needs_rng
    def __init__(self, inputs: int, *, rng: np.random.Generator, linear: bool = False) -> None:
        self.w = [wg.Value(float(rng.uniform(-1.0, 1.0))) for _ in range(inputs)]
        self.b = wg.Value(0.0)
        self.linear = linear

    def forward(self, x: Sequence[Any]) -> Any:
        """Return one number."""
        total = sum((w * number for w, number in zip(self.w, x, strict=True)), self.b)
        return total if self.linear else wg.tanh(total)


class Layer(Module):
    """Neurons that read the same numbers."""

    @needs_rng
    def __init__(self, inputs: int, outputs: int, *, rng: np.random.Generator, linear: bool = False) -> None:
        self.neurons = [Neuron(inputs, rng=rng, linear=linear) for _ in range(outputs)]

    def forward(self, x: Sequence[Any]) -> list[Any]:
        """Return one number for each neuron."""
        return [neuron(x) for neuron in self.neurons]


class MLP(Module):
    """Layers one after another; the last one is linear. A network with one output returns a number, not a list.

    Without a generator, the weights are different each time.
    """

    def __init__(self, inputs: int, outputs: Sequence[int], *, rng: np.random.Generator | None = None) -> None:
        rng = rng or np.random.default_rng()
        sizes = list(pairwise([inputs, *outputs]))
        self.layers = [Layer(*size, rng=rng, linear=size is sizes[-1]) for size in sizes]

    def forward(self, x: Sequence[Any]) -> Any:
        """Return what the last layer returns."""
        for layer in self.layers:
            x = layer(x)
        return x[0] if len(x) == 1 else x
