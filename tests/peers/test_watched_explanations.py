"""`seen.explain` says which ops made a gradient 0, tiny or huge, and `flow` what is dead or broken."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import wiregrad as wg


def watch_model(model: nn.Module, x: Tensor, loss: Callable[[Tensor], Tensor] = torch.mean) -> Any:
    with wg.watch(model) as seen:
        loss(model(x)).backward()
    return seen


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(16, 4)


def stack(activation: type[nn.Module], count: int, *, gain: float = 1.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(count):
        linear = nn.Linear(4, 4)
        with torch.no_grad():
            linear.weight.mul_(gain)
        layers += [linear, activation()]
    return nn.Sequential(*layers, nn.Linear(4, 1))


def test_a_tiny_gradient_names_the_ops_that_made_it_small(x: Tensor) -> None:
    answer = watch_model(stack(nn.Sigmoid, 8), x).explain("0.weight")

    assert (answer.kind, answer.op) == ("tiny", "sigmoid")
    assert re.search(r"tiny: sigmoid makes it \S+ times smaller in 8 steps, addmm \S+ times in 9 steps", answer.said)
    assert answer.module in {str(k) for k in range(1, 16, 2)}
    assert any(note.startswith("along the path that carries most: ") for note in answer.notes)


def test_a_huge_gradient_names_the_ops_that_made_it_large(x: Tensor) -> None:
    answer = watch_model(stack(nn.Identity, 6, gain=200.0), x, torch.sum).explain("0.weight")

    assert (answer.kind, answer.op) == ("huge", "addmm")
    assert "larger in 7 steps" in answer.said


def test_the_factors_of_the_path_multiply_to_the_gradient(x: Tensor) -> None:
    from wiregrad.exchange.observed_explain import GradientSearch

    seen = watch_model(stack(nn.Tanh, 3), x)
    path = GradientSearch(seen.run, "0.weight").path
    size = float(np.linalg.norm(seen.as_run().grads["_0.weight"]))

    assert path.factor == pytest.approx(size, rel=1e-4)
    assert [step.op.title for step in path.steps][:2] == ["mean", "addmm"]


def test_an_ordinary_gradient_names_the_op_that_computed_it(x: Tensor) -> None:
    answer = watch_model(stack(nn.Tanh, 1), x).explain("0.weight")

    assert (answer.kind, answer.op, answer.notes) == ("value", "addmm", ())


def test_a_bias_before_a_normalisation_is_said_to_cancel(x: Tensor) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    seen = watch_model(model, x, lambda y: y.square().mean())

    assert seen.explain("0.bias").kind == "cancelling"
    assert "as those of a bias before a normalisation do" in seen.explain("0.bias").said
    assert seen.explain("0.weight").kind == "value"


def make_zero_weight() -> nn.Module:
    model = stack(nn.Tanh, 1)
    nn.init.zeros_(model[2].weight)
    return model


def make_shifted(activation: type[nn.Module], shift: float) -> nn.Module:
    model = stack(activation, 1)
    nn.init.constant_(model[0].bias, shift)
    return model


ZEROS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "a weight of 0": (make_zero_weight, "addmm", "because it multiplies by 2.weight, which is 0"),
    "a saturated sigmoid": (lambda: make_shifted(nn.Sigmoid, 200.0), "sigmoid", "because it is saturated, at 19"),
    "a saturated tanh": (lambda: make_shifted(nn.Tanh, -200.0), "tanh", "because it is saturated, at -20"),
    "a dead rectifier": (lambda: make_shifted(nn.ReLU, -50.0), "relu", "because its inputs are at most -4"),
}


@pytest.mark.parametrize("name", ZEROS)
def test_a_gradient_of_0_says_why_the_op_sent_0(x: Tensor, name: str) -> None:
    make, op, reason = ZEROS[name]
    answer = watch_model(make(), x).explain("0.weight")

    assert (answer.kind, answer.op) == ("zero", op)
    assert reason in answer.said


def test_a_bias_of_0_is_not_what_makes_a_gradient_0(x: Tensor) -> None:
    model = make_shifted(nn.Sigmoid, 200.0)
    nn.init.zeros_(model[2].bias)
    answer = watch_model(model, x).explain("0.weight")

    assert answer.op == "sigmoid"


class Kill(nn.Module):
    """Shifts some units of a layer far below 0."""

    def __init__(self, units: Sequence[int], axis: int) -> None:
        super().__init__()
        self.units = list(units)
        self.axis = axis

    def forward(self, h: Tensor) -> Tensor:
        shift = torch.zeros(h.shape[self.axis])
        shift[self.units] = -100.0
        shape = [1] * h.ndim
        shape[self.axis] = -1
        return h + shift.reshape(shape)


def layers_with(dead: int, kind: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    units = range(dead)
    if kind == "convolution":
        model = nn.Sequential(nn.Conv2d(3, 10, 3), Kill(units, 1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(1))
        return model, torch.randn(4, 3, 6, 6)
    model = nn.Sequential(nn.Linear(4, 10), Kill(units, -1), nn.ReLU(), nn.Linear(10, 1))
    return model, torch.randn(16, 4) if kind == "rows" else torch.randn(4, 5, 4)


@pytest.mark.parametrize("kind", ["rows", "sequences", "convolution"])
@pytest.mark.parametrize("dead", [0, 1, 4, 6])
def test_dead_units_of_a_rectifier_are_counted(kind: str, dead: int) -> None:
    model, inputs = layers_with(dead, kind)
    seen = watch_model(model, inputs)
    findings = [str(finding) for finding in seen.flow().findings if finding.kind == "dead"]

    assert len(findings) == (dead > 1)
    assert all(f"relu is dead in part: {dead} of 10 units are 0 in all" in finding for finding in findings)
    assert ("steady" in [finding.kind for finding in seen.flow().findings]) == (dead < 2)
    assert any("dead in part" in note for note in seen.explain("0.weight").notes) == (dead > 1)


def test_few_rows_do_not_show_that_a_unit_is_dead() -> None:
    model, inputs = layers_with(6, "rows")
    kinds = [finding.kind for finding in watch_model(model, inputs[:3]).flow().findings]

    assert "dead" not in kinds


def test_dead_units_of_a_function_of_jax_are_counted() -> None:
    shift = jnp.array([-100.0] * 6 + [0.0] * 4)
    inputs = np.random.default_rng(0).normal(size=(16, 4))
    seen = wg.watch(lambda w: jnp.sum(jnp.maximum(inputs @ w + shift, 0.0)), jnp.ones((4, 10)))

    assert "6 of 10 units are 0 in all 16 rows" in str(seen.flow())


@pytest.mark.parametrize("is_in_loss", [True, False])
def test_flow_calls_nothing_steady_that_is_not_finite(x: Tensor, is_in_loss: bool) -> None:
    model = stack(nn.Tanh, 1)
    if is_in_loss:
        seen = watch_model(model, x, lambda y: (y * torch.nan).sum())
    else:
        seen = watch_model(model, x, lambda y: (y * 0).sqrt().sum())
    findings = seen.flow().findings

    assert "steady" not in [finding.kind for finding in findings]
    assert any("ask seen.blame() where from" in str(finding) for finding in findings)
