"""Whole PyTorch models as circuits: values, gradients, names, groups and lines, and the circuit of a watched step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import wiregrad as wg
from tests.peers import torch_models
from tests.peers.torch_models import MODELS, make_step
from wiregrad.errors import InputError
from wiregrad.exchange.torch_import import write_name

NOISE_SEED = 7
FLOAT32_TOLERANCE = 1e-3
"""How far float32 may be off, relative to the largest gradient: the layers of a network multiply the rounding."""
AUTOCAST_TOLERANCE = 0.05
"""How far a loss in bfloat16 may be off, which has 8 bits."""


def differentiate(step: Any, model: nn.Module, batch: tuple[Any, ...]) -> tuple[float, dict[str, Any]]:
    """Return PyTorch's loss and its gradients with respect to the parameters, by the names of the circuit."""
    torch.manual_seed(NOISE_SEED)
    loss = step(*batch)
    names = [write_name(name) for name, _ in model.named_parameters()]
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    return loss.item(), {name: gradient.numpy() for name, gradient in zip(names, gradients, strict=True)}


def find_largest_error(ours: dict[str, Any], theirs: dict[str, Any], prefix: str = "") -> float:
    """Return the largest difference of gradients, relative to the largest gradient of the model."""
    size = max(np.abs(gradient).max() for gradient in theirs.values())
    errors = [np.abs(ours[prefix + name].astype(float) - gradient).max() for name, gradient in theirs.items()]
    return float(max(errors) / size)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_loss_and_gradients_of_pytorch(name: str) -> None:
    model, batch = make_step(name, torch.float64)
    loss, gradients = differentiate(model, model, batch)
    torch.manual_seed(NOISE_SEED)
    run = wg.from_torch(model, *batch).run()

    assert run.output == pytest.approx(loss, rel=1e-10)
    assert find_largest_error(run.grads, gradients) <= 1e-10


@pytest.mark.parametrize("name", MODELS)
def test_models_in_float32_agree_up_to_rounding(name: str) -> None:
    model, batch = make_step(name)
    loss, gradients = differentiate(model, model, batch)
    torch.manual_seed(NOISE_SEED)
    run = wg.from_torch(model, *batch).run()

    assert run.output == pytest.approx(loss, rel=FLOAT32_TOLERANCE)
    assert find_largest_error(run.grads, gradients) <= FLOAT32_TOLERANCE
    assert {gradient.dtype.name for gradient in run.grads.values()} == {"float32"}


@pytest.mark.parametrize("name", MODELS)
def test_models_under_autocast_are_as_exact_as_those_of_pytorch(name: str) -> None:
    """Wires carry bfloat16 as float32, so that they are rounded less."""
    model, batch = make_step(name)

    def step(*args: Any) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(*args)

    loss, rounded = differentiate(step, model, batch)
    _, gradients = differentiate(model, model, batch)
    torch.manual_seed(NOISE_SEED)
    run = wg.from_torch(step, *batch).run()

    assert run.output == pytest.approx(loss, rel=AUTOCAST_TOLERANCE)
    assert find_largest_error(run.grads, gradients, "model.") <= find_largest_error(rounded, gradients)


def test_parameters_and_arguments_are_inputs_under_their_names() -> None:
    model, batch = make_step("U-Net")
    circuit = wg.from_torch(model, *batch)

    assert circuit.inputs[:2] == ("image", "mask")
    assert set(circuit.inputs[2:]) == {write_name(name) for name, _ in model.named_parameters()}
    assert "down1[0].weight" in circuit.inputs


def test_groups_are_the_modules_that_ran() -> None:
    model, batch = make_step("GPT")
    groups = {node.group for node in wg.from_torch(model, *batch).nodes}

    assert {"blocks[0]/attn/qkv", "blocks[0]/mlp/[1]", "blocks[1]/ln_2", "ln_f", "head", "wte"} <= groups


def test_nodes_have_the_lines_of_the_users_files() -> None:
    model, batch = make_step("GPT")
    circuit = wg.from_torch(model, *batch)
    first = torch_models.CausalAttention.forward.__code__.co_firstlineno
    attention = [node for node in circuit.nodes if node.group == "blocks[0]/attn"]

    assert {node.place.file for node in circuit.nodes} == {torch_models.__file__}
    assert {node.place.line - first for node in attention} <= {2, 3, 4}
    assert any(node.title.startswith("functional.scaled_dot") for node in attention)


def test_tied_weights_are_one_input() -> None:
    model, batch = make_step("GPT")

    assert "head.weight" not in wg.from_torch(model, *batch).inputs


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(4, 3)
        self.out = nn.Linear(3, 1)
        self.register_buffer("scale", torch.tensor([0.5, 1.0, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.hidden(x)) * self.scale)


def train(steps: int, keep: Any = "all") -> tuple[Any, nn.Module, list[float]]:
    """Train a model under watch; returns what was seen, the model, and its losses."""
    torch.manual_seed(0)
    model = Net()
    x = torch.randn(5, 4)
    target = torch.randn(5, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with wg.watch(model, keep=keep) as seen:
        for _ in range(steps):
            loss = functional.mse_loss(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
    return seen, model, losses


@pytest.mark.parametrize("steps", [1, 3])
def test_the_circuit_of_a_watched_program_is_that_of_its_last_step(steps: int) -> None:
    seen, model, losses = train(steps)
    circuit = seen.circuit()
    run = circuit.run()

    assert set(circuit.inputs) == {"x", "target", "hidden.weight", "hidden.bias", "out.weight", "out.bias"}
    assert circuit.output == "loss"
    assert run.output == pytest.approx(losses[-1], rel=1e-6)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(run.grads[name], parameter.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_buffer_is_a_constant_with_its_name() -> None:
    seen, _, _ = train(1)
    circuit = seen.circuit()

    assert "scale" in circuit
    assert "scale" not in circuit.inputs


def test_an_imported_circuit_answers_questions() -> None:
    model, batch = make_step("VAE")
    run = wg.from_torch(model, *batch).run()

    assert "finite" in str(run.blame())
    assert "decoder/[0]" in str(run.flow())
    assert "encoder[0].weight" in str(run.explain("encoder[0].weight"))
    assert run.to_html().startswith("<!doctype html>")


def test_a_watch_without_its_values_says_what_to_keep() -> None:
    seen, _, _ = train(1, keep="summaries")

    with pytest.raises(InputError, match="keep='all'"):
        seen.circuit()


def test_a_watch_that_saw_nothing_says_so() -> None:
    with wg.watch() as seen:
        pass

    with pytest.raises(InputError, match="nothing was recorded"):
        seen.circuit()
