"""Terms of a loss that move no parameter: named by `flow` of circuits and by the flight recorder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn, optim

Activation = Callable[[Any], Any]

STRAIGHT: dict[str, Activation] = {
    "relu": wg.relu,
    "relu6": wg.relu6,
    "leaky_relu": wg.leaky_relu,
    "maximum": lambda x: np.maximum(x, 0.0),
    "clip": lambda x: np.clip(x, -1.0, 1.0),
}
CURVED: dict[str, Activation] = {
    "tanh": np.tanh,
    "softplus": wg.softplus,
    "silu": wg.silu,
    "square of relu": lambda x: wg.relu(x) ** 2,
}
POINTS = np.linspace(0.1, 1.0, 5)


def make_params() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=4), "b": rng.normal(size=4), "v": rng.normal(size=4), "c": 0.1}


def physics_loss(activation: Activation) -> Callable[..., Any]:
    def u(x: Any, p: Any) -> Any:
        return activation(x * p["w"] + p["b"]) @ p["v"] + p["c"]

    def loss(p: Any, points: Any) -> Any:
        bend = wg.vmap(wg.grad(wg.grad(lambda x: u(x, p))))(points)
        return np.mean((bend + np.sin(3.0 * points)) ** 2) + 0.1 * u(0.0, p) ** 2

    return loss


def find_unmoved(run: Any) -> list[str]:
    return [str(finding) for finding in run.flow().findings if finding.kind == "unmoved"]


def run_with_data_as_constant(loss: Callable[..., Any]) -> Any:
    return wg.run(lambda p: loss(p, POINTS), make_params())


def run_with_data_as_input(loss: Callable[..., Any]) -> Any:
    return wg.run(loss, make_params(), POINTS)


RUNS = [run_with_data_as_constant, run_with_data_as_input]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", STRAIGHT)
def test_second_derivatives_of_straight_pieces_are_named(name: str, run: Callable[..., Any]) -> None:
    (said,) = find_unmoved(run(physics_loss(STRAIGHT[name])))

    assert said.startswith("a term of the loss moves none of p_w, p_b, p_v, which it reads: ")
    assert f"if it holds a second derivative through {name} (" in said
    assert "test_loss_terms.py:" in said


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", CURVED)
def test_second_derivatives_of_curves_are_no_fault(name: str, run: Callable[..., Any]) -> None:
    assert find_unmoved(run(physics_loss(CURVED[name]))) == []


USUAL_LOSSES = {
    "a constant": "w * w + 3",
    "a penalty of its own": "(w * x - 1) ** 2 + 0.5 * v ** 2",
    "a term that is small": "w * w + 0.01 * sign(w)",
    "one term": "3 * sign(w)",
    "a gate": "w * w + 3 * sign(w)",
    "a bound": "w * w + 3 * clip(w * v, -1, 1)",
    "data alone": "(w - x) ** 2 + 3 * x ** 2",
    "a sum that is scaled": "0.5 * (w * w + v * v) / 3",
    "differences": "w * w - v - -x",
}


@pytest.mark.parametrize("name", USUAL_LOSSES)
def test_usual_losses_have_no_such_term(name: str) -> None:
    circuit = wg.circuit(USUAL_LOSSES[name])
    numbers = {"w": 2.0, "v": 0.75, "x": 1.5}
    run = circuit.run(**{name: numbers[name] for name in circuit.inputs})

    assert find_unmoved(run) == []


def test_terms_that_stop_a_gradient_on_purpose_are_no_fault() -> None:
    def commitment(code: Any, encoded: Any) -> Any:
        pull = np.sum((wg.stop_gradient(encoded) - code) ** 2)
        return pull + 0.25 * np.sum((encoded - wg.stop_gradient(code)) ** 2)

    assert find_unmoved(wg.run(commitment, np.ones(3), np.zeros(3))) == []


class Network(nn.Module):
    def __init__(self, activation: Activation) -> None:
        rng = np.random.default_rng(0)
        self.inner = nn.Linear(1, 8, rng=rng)
        self.outer = nn.Linear(8, 1, rng=rng)
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        return self.outer(self.activation(self.inner(x)))


def residual_loss(network: Network, x: Any) -> Any:
    bend = wg.grad(lambda x: np.sum(wg.grad(lambda x: np.sum(network(x)))(x)))(x)
    return np.mean((bend + np.sin(3.0 * x)) ** 2) + 0.1 * np.sum(network(np.zeros((1, 1))) ** 2)


def train(activation: Activation, watch: object = True) -> Any:
    network = Network(activation)
    optimizer = optim.SGD(network.parameters(), lr=0.01)
    rng = np.random.default_rng(1)
    return wg.train(network, residual_loss, POINTS[:, None], optimizer=optimizer, rng=rng, epochs=3, watch=watch)


# The second derivative of clip is recorded as a number, which may be meant.
@pytest.mark.parametrize("name", sorted(STRAIGHT.keys() - {"clip"}))
def test_a_watched_training_names_the_term_at_its_first_step(name: str) -> None:
    flight = train(STRAIGHT[name]).flight
    event = flight.first("unmoved")

    assert (event.step, event.found) == (0, 0)
    assert event.number == pytest.approx(flight[0].loss.mean, rel=0.1)
    assert f"through {name}, that is 0 everywhere: take a smooth activation" in event.sentence
    assert event.sentence in str(flight)
    assert [event.kind for event in flight.events].count("unmoved") == 1


@pytest.mark.parametrize("name", CURVED)
def test_a_watched_training_of_curves_has_no_such_event(name: str) -> None:
    assert train(CURVED[name]).flight.first("unmoved") is None


def test_a_flight_may_look_for_other_kinds_alone() -> None:
    assert train(wg.relu, watch=wg.record(watch="exploded")).flight.events == ()


def test_losses_that_are_numbers_show_no_terms() -> None:
    flight = wg.record()

    assert flight.step(3.0, {"w": 1.0}, {"w": 0.5}) == ()
