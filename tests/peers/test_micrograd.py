"""The worked examples and random small formulas against micrograd, autograd, PyTorch and JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import autograd
import autograd.numpy as anp
import pytest
from micrograd.engine import Value

import wiregrad as wg

from .formulas import assert_same_gradient, random_formula
from .frameworks import PEERS, TORCH, Function, Peer, gradient, read

TOLERANCE = 1e-12
BIAS = 6.8813735870195432


class Example(NamedTuple):
    formula: str
    leaves: dict[str, float]
    value: float
    grads: dict[str, float]


EXAMPLES = {
    "expression": Example("(a + b) * c", {"a": 2, "b": -3, "c": 10}, -10, {"a": 10, "b": 10, "c": -1}),
    "gates": Example("(x + y) * z", {"x": -2, "y": 5, "z": -4}, -12, {"x": -4, "y": -4, "z": 3}),
    "neuron": Example(
        "tanh(x1 * w1 + x2 * w2 + b)",
        {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": BIAS},
        math.sqrt(0.5),
        {"x1": -1.5, "w1": 1, "x2": 0.5, "w2": 0, "b": 0.5},
    ),
    "sigmoid": Example(
        "sigmoid(w0 * x0 + w1 * x1 + w2)",
        {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3},
        0.7310585786300049,
        dict(zip(("w0", "x0", "w1", "x1", "w2"), (0.19661193324148185 * k for k in (-1, 2, -2, -3, 1)), strict=True)),
    ),
}
TEMPLATES = ("{} + {}", "{} * {}", "{} - {}", "-{}", "{} ** 2", "{} ** 3", "tanh({})", "relu({})")


def scaled(x: Value, value: float, slope: float) -> Value:
    """Return a node that micrograd has not: it scales the gradient by a slope."""
    out = Value(value, (x,))

    def backward() -> None:
        x.grad += slope * out.grad

    out._backward = backward
    return out


def lifted(x: Value | float) -> Value:
    return x if isinstance(x, Value) else Value(x)


def tanh(x: Value | float) -> Value:
    y = math.tanh(lifted(x).data)
    return scaled(lifted(x), y, 1 - y * y)


def sigmoid(x: Value | float) -> Value:
    y = 1 / (1 + math.exp(-lifted(x).data))
    return scaled(lifted(x), y, y * (1 - y))


MICROGRAD: Mapping[str, Function] = {"tanh": tanh, "sigmoid": sigmoid, "relu": lambda x: lifted(x).relu()}
AUTOGRAD: Mapping[str, Function] = {"tanh": anp.tanh, "sigmoid": lambda x: 1 / (1 + anp.exp(-x))}


def micrograd_gradient(formula: str, point: Mapping[str, float]) -> tuple[float, list[float]]:
    leaves = [Value(float(value)) for value in point.values()]
    root = read(formula, list(point), MICROGRAD)(*leaves)
    root.backward()
    return root.data, [leaf.grad for leaf in leaves]


def autograd_gradient(formula: str, point: Mapping[str, float]) -> tuple[float, list[float]]:
    function, xs = read(formula, list(point), AUTOGRAD), [float(value) for value in point.values()]
    return float(function(*xs)), [float(autograd.grad(function, slot)(*xs)) for slot in range(len(xs))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_have_their_numbers(name: str) -> None:
    formula, leaves, value, grads = EXAMPLES[name]
    run = wg.circuit(formula).run(leaves)

    assert run.output == pytest.approx(value, rel=TOLERANCE)
    assert run.grads == pytest.approx(grads, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("theirs", [micrograd_gradient, autograd_gradient], ids=["micrograd", "autograd"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_agree_with_micrograd_and_autograd(name: str, theirs: Function) -> None:
    formula, leaves, _, _ = EXAMPLES[name]
    run = wg.circuit(formula).run(leaves)
    value, grads = theirs(formula, leaves)

    assert run.output == pytest.approx(value, rel=TOLERANCE)
    assert list(run.grads.values()) == pytest.approx(grads, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples_agree_with_pytorch_and_jax(name: str, peer: Peer) -> None:
    formula, leaves, _, _ = EXAMPLES[name]
    run = wg.circuit(formula).run(leaves)
    value, grads = gradient(peer, formula, {leaf: float(x) for leaf, x in leaves.items()})

    assert run.output == pytest.approx(value, rel=TOLERANCE)
    assert list(run.grads.values()) == pytest.approx(grads, rel=TOLERANCE, abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(200))
def test_random_small_formulas_agree_with_micrograd_and_pytorch(seed: int) -> None:
    drawn = random_formula(seed, TEMPLATES, steps=10)

    assert_same_gradient(drawn, "micrograd", seed, *micrograd_gradient(drawn.text, drawn.point))
    assert_same_gradient(drawn, "PyTorch", seed, *gradient(TORCH, drawn.text, drawn.point))
