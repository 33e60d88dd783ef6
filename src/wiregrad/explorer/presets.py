"""The example circuits in the menu of the page, by their key there: a formula and the values of its inputs."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple


class Preset(NamedTuple):
    """A formula and the initial values of its inputs."""

    formula: str
    leaves: dict[str, float]


def _make_network() -> Preset:
    hidden = [f"h{k} = tanh(x1*u{k} + x2*v{k} + b{k})" for k in (1, 2, 3)]
    leaves = {"x1": 1, "u1": 0.5, "x2": -2, "v1": 0.25, "b1": 0.1, "u2": -0.75, "v2": 0.3, "b2": 0, "u3": 0.2}
    leaves |= {"v3": -0.4, "b3": -0.3, "w1": 0.8, "w2": -0.6, "w3": 0.4, "c": 0.1}
    return Preset("; ".join([*hidden, "o = tanh(h1*w1 + h2*w2 + h3*w3 + c)"]), leaves)


def _make_chain(length: int) -> Preset:
    names = ["x", *(f"h{k}" for k in range(1, length + 1))]
    steps = [f"{out} = tanh({into})" for into, out in pairwise(names)]
    return Preset("; ".join(steps), {"x": 2.5})


PRESETS: dict[str, Preset] = {
    "expression": Preset("e = a + b; f = e * c", {"a": 2, "b": -3, "c": 10}),
    "fan-out": Preset("y = x*x + x", {"x": 3}),
    "neuron": Preset(
        "n = x1*w1 + x2*w2 + b; o = tanh(n)", {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": 6.8813735870195432}
    ),
    "sigmoid": Preset(
        "d = w0*x0 + w1*x1 + w2; m = -d; p = exp(m); q = 1 + p; L = 1 / q",
        {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3},
    ),
    "router": Preset("m = maximum(a, b); r = relu(c); y = 2*m + r", {"a": 3, "b": -1, "c": -2}),
    "softmax": Preset("s = exp(z1) + exp(z2) + exp(z3); p = exp(z2) / s; L = -log(p)", {"z1": 1, "z2": 2, "z3": 0.5}),
    "mlp": _make_network(),
    "vanishing": _make_chain(20),
    "nan": Preset("l = log(q); t = p * l; L = -t", {"p": 0, "q": 0}),
}
