"""The rows of `flow` are the modules of the model, whatever they are called."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import wiregrad as wg

NORMS: dict[str, Callable[[], nn.Module]] = {
    "batch norm": lambda: nn.BatchNorm2d(4),
    "group norm": lambda: nn.GroupNorm(2, 4),
    "instance norm": lambda: nn.InstanceNorm2d(4, affine=True),
    "layer norm": lambda: nn.LayerNorm([4, 4]),
    "response norm": lambda: nn.LocalResponseNorm(2),
    "rms norm": lambda: nn.RMSNorm([4, 4]),
}


class Model(nn.Module):
    """A model whose second layer has a name of the user's choice."""

    def __init__(self, name: str, layer: nn.Module) -> None:
        super().__init__()
        self.name = name
        self.conv = nn.Conv2d(4, 4, 3)
        self.add_module(name, layer)
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.get_submodule(self.name)(self.conv(x))
        return self.head(torch.relu(hidden).mean((2, 3)))


def watched_flows(model: Model, *, named: bool = True) -> list[list[str]]:
    """Return the names of the layers of the observed run, of the run that is drawn, and of the circuit."""
    torch.manual_seed(0)
    with wg.watch(model if named else None) as seen:
        model(torch.randn(2, 4, 6, 6)).square().mean().backward()
    flows = (seen.flow(), seen.as_run().flow(), seen.circuit().run().flow())
    return [[layer.name for layer in flow.layers] for flow in flows]


@pytest.mark.parametrize("kind", NORMS)
def test_a_normalisation_is_one_row_of_its_own_name(kind: str) -> None:
    for names in watched_flows(Model("norm", NORMS[kind]())):
        own = [name for name in names if "norm" in name]

        assert own == ["norm"]
        assert names.index("head") < names.index("norm") < names.index("conv")


def test_without_a_model_the_row_is_not_that_of_the_module_around() -> None:
    observed, drawn, circuit = watched_flows(Model("norm", nn.LayerNorm([4, 4])), named=False)

    assert "Model.norm" in observed
    assert "Model/norm" in drawn
    assert "Model/norm" in circuit


@pytest.mark.parametrize("name", ["norm", "mean", "gelu", "softmax", "trace", "convolve"])
def test_a_module_may_be_called_like_a_function(name: str) -> None:
    assert all(name in names for names in watched_flows(Model(name, nn.GroupNorm(2, 4))))
