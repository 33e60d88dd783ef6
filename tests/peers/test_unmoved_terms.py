"""A term of the loss that moves no parameter is named, unless it is of data, frozen parts or a bound, as is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from torch import Tensor, nn

import wiregrad as wg

POINTS = torch.linspace(0.0, 1.0, 20)[:, None]


def make_net(activation: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1, 8), activation, nn.Linear(8, 8), activation, nn.Linear(8, 1))


def physics_loss(net: nn.Module) -> Tensor:
    x = POINTS.clone().requires_grad_()
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    return (bend + torch.sin(3.0 * x)).square().mean() + 10.0 * net(torch.zeros(1, 1)).square().sum()


def find_unmoved(net: nn.Module, compute_loss: Callable[[nn.Module], Tensor]) -> list[str]:
    with wg.watch(net) as seen:
        compute_loss(net).backward()
    return [str(finding) for finding in seen.flow().findings if finding.kind == "unmoved"]


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.LeakyReLU()], ids=str)
def test_second_derivatives_of_rectifiers_are_named(activation: nn.Module) -> None:
    (said,) = find_unmoved(make_net(activation), physics_loss)
    line = physics_loss.__code__.co_firstlineno + 4

    assert "it holds a second derivative through" in said
    assert "which is 0 everywhere: take a smooth activation" in said
    assert f"test_unmoved_terms.py:{line}" in said


@pytest.mark.parametrize("activation", [nn.Tanh(), nn.Softplus(), nn.SiLU()], ids=str)
def test_second_derivatives_of_smooth_activations_are_no_fault(activation: nn.Module) -> None:
    assert find_unmoved(make_net(activation), physics_loss) == []


def gradient_penalty(net: nn.Module) -> Tensor:
    x = POINTS.clone().requires_grad_()
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    return net(x).mean() + (slope.norm(dim=1) - 1.0).square().mean()


def loss_with_a_constant(net: nn.Module) -> Tensor:
    return net(POINTS).square().mean() + torch.log(torch.tensor(2.0 * torch.pi))


def decayed_loss(net: nn.Module) -> Tensor:
    return 0.5 * (net(POINTS).square().mean() + 1e-3 * sum(p.square().sum() for p in net.parameters()))


@pytest.mark.parametrize("compute_loss", [gradient_penalty, loss_with_a_constant, decayed_loss])
def test_usual_losses_have_no_such_term(compute_loss: Callable[[nn.Module], Tensor]) -> None:
    assert find_unmoved(make_net(nn.ReLU()), compute_loss) == []


def penalize_old_values(net: nn.Module) -> Tensor:
    return net(POINTS).square().mean() + sum(p.data.square().sum() for p in net.parameters())


def penalize_without_graph(net: nn.Module) -> Tensor:
    with torch.no_grad():
        penalty = net[0].weight.square().sum()
    return net(POINTS).square().mean() + penalty


def count_outputs(net: nn.Module) -> Tensor:
    return net(POINTS).square().mean() + (net(POINTS) < 10.0).float().mean()


def round_outputs(net: nn.Module) -> Tensor:
    return net(POINTS).square().mean() + (net(POINTS).round() - 3.0).square().mean()


@pytest.mark.parametrize("compute_loss", [penalize_old_values, penalize_without_graph, count_outputs, round_outputs])
def test_terms_of_parameters_that_send_nothing_back_are_named(compute_loss: Callable[[nn.Module], Tensor]) -> None:
    found = find_unmoved(make_net(nn.Tanh()), compute_loss)

    assert found
    assert all(said.startswith("a term of the loss moves no parameter: ") for said in found)


def expanded_square(net: nn.Module) -> Tensor:
    y = torch.sin(POINTS) + 1.0
    return y.square().mean() - 2.0 * (y * net(POINTS)).mean() + net(POINTS).square().mean()


def divergence_from_old_values(net: nn.Module) -> Tensor:
    old = torch.softmax(net(POINTS), 0).detach()
    return (old * old.log()).sum() - (old * torch.log_softmax(net(POINTS), 0)).sum()


def penalty_of_frozen_parts(net: nn.Module) -> Tensor:
    net[0].requires_grad_(False)
    return net(POINTS).square().mean() + sum(p.square().sum() for p in net.parameters())


def free_bits(net: nn.Module) -> Tensor:
    return net(POINTS).square().mean() + torch.clamp(net(POINTS).square(), min=5.0).sum()


def gradient_without_value(net: nn.Module) -> Tensor:
    added = 100.0 * net(POINTS).square().mean()
    return net(POINTS).square().mean() + (added - added.detach())


@pytest.mark.parametrize(
    "compute_loss",
    [expanded_square, divergence_from_old_values, penalty_of_frozen_parts, free_bits, gradient_without_value],
)
def test_terms_that_are_constant_on_purpose_are_not_named(compute_loss: Callable[[nn.Module], Tensor]) -> None:
    assert find_unmoved(make_net(nn.Tanh()), compute_loss) == []


def test_a_term_of_data_is_not_named_in_jax() -> None:
    def loss(params: Any, xs: Any) -> Any:
        y = jnp.sin(xs)
        u = (jax.nn.relu(xs[:, None] @ params["a"]) @ params["b"])[:, 0]
        return jnp.mean(y**2) - 2.0 * jnp.mean(y * u) + jnp.mean(u**2)

    params = {"a": jnp.full((1, 4), 0.5), "b": jnp.full((4, 1), 0.25)}
    flow = wg.watch(loss, params, jnp.linspace(0.1, 1.0, 9)).flow()

    assert [finding for finding in flow.findings if finding.kind == "unmoved"] == []


def jax_loss(activation: Any) -> Any:
    def loss(params: Any, xs: Any) -> Any:
        def u(x: Any) -> Any:
            return (activation(jnp.array([x]) @ params["a"]) @ params["b"])[0]

        bend = jax.vmap(jax.grad(jax.grad(u)))(xs)
        return jnp.mean((bend + jnp.sin(3.0 * xs)) ** 2) + u(0.5) ** 2

    return loss


@pytest.mark.parametrize(("activation", "count"), [(jax.nn.relu, 1), (jnp.tanh, 0)])
def test_functions_of_jax_are_asked_too(activation: Any, count: int) -> None:
    params = {"a": jnp.full((1, 4), 0.5), "b": jnp.full((4, 1), 0.25)}
    flow = wg.watch(jax_loss(activation), params, jnp.linspace(0.1, 1.0, 9)).flow()
    found = [str(finding) for finding in flow.findings if finding.kind == "unmoved"]

    assert len(found) == count
    assert all("if it holds a second derivative through relu" in said for said in found)
