"""Lazy modules, whose parameters have no shape before their first input, are watched like all others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

import wiregrad as wg

LAZY_MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.LazyLinear(3), (5, 4)),
    "convolution": (lambda: nn.LazyConv2d(3, 2), (5, 4, 6, 6)),
    "transposed convolution": (lambda: nn.LazyConvTranspose1d(3, 2), (5, 4, 6)),
    "batch norm": (nn.LazyBatchNorm1d, (5, 4)),
    "instance norm": (lambda: nn.LazyInstanceNorm2d(affine=True, track_running_stats=True), (5, 4, 6, 6)),
}


def make_model(kind: str) -> tuple[nn.Module, torch.Tensor]:
    make, shape = LAZY_MODULES[kind]
    torch.manual_seed(0)
    return nn.Sequential(nn.Tanh(), make()), torch.randn(shape)


@pytest.mark.parametrize("kind", LAZY_MODULES)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_lazy_module_is_watched_from_its_first_input_on(kind: str, is_named: bool) -> None:
    model, x = make_model(kind)
    with wg.watch(model if is_named else None) as seen:
        model(x).exp().sum().backward()
    prefix = "" if is_named else "Sequential."

    assert {name: seen.explain(name).kind for name in seen.run.parameters} == {
        f"{prefix}1.weight": "value",
        f"{prefix}1.bias": "value",
    }
    assert f"{prefix}1" in [layer.name for layer in seen.flow().layers]
    assert not seen.blame()
    assert seen.check_backward().ok
    assert len(seen.circuit().inputs) == 3


@pytest.mark.parametrize("kind", LAZY_MODULES)
def test_watching_changes_no_number_of_a_lazy_module(kind: str) -> None:
    gradients: list[Any] = []
    for is_watched in (False, True):
        model, x = make_model(kind)
        with wg.watch(model) if is_watched else nullcontext():
            model(x).exp().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])

    assert [torch.equal(a, b) for a, b in zip(*gradients, strict=True)] == [True, True]


def test_a_lazy_module_trains_under_watch() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(1))
    x = torch.randn(5, 3)
    with wg.watch(model) as seen:
        model(x)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

    assert seen.explain("2.weight").kind == "value"


def test_a_lazy_module_that_never_ran_is_said_to_be_unused() -> None:
    model = nn.ModuleList([nn.LazyLinear(3), nn.LazyLinear(3)])
    with wg.watch(model) as seen:
        model[0](torch.randn(2, 4)).sum().backward()

    assert seen.explain("1.weight").kind == "unused"
    assert ("unused", "1.weight") in [(finding.kind, finding.layer) for finding in seen.flow().findings]


def test_watching_a_lazy_model_that_nothing_runs_asks_for_a_run() -> None:
    with wg.watch(nn.LazyLinear(3)) as seen:
        pass

    assert str(seen.blame()).startswith("no op ran")
