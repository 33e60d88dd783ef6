"""`wg.diff` of one model in PyTorch, JAX and wiregrad names the first op that differs."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import wiregrad as wg

Params = dict[str, Any]


class Net(nn.Module):
    """A dense layer, a normalization, a gelu and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        h = self.norm(h)
        h = functional.gelu(h)
        h = self.last(h)
        return h.logsumexp(-1).mean()


def run_with_jax(p: Params, x: Any, epsilon: float = 1e-5, approximate: bool = False, scale: float = 1.0) -> Any:
    h = x @ p["first_weight"].T + p["first_bias"]
    centred = h - h.mean(-1, keepdims=True)
    deviation = jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + epsilon)
    h = centred / deviation * p["norm_weight"] + p["norm_bias"]
    h = jax.nn.gelu(h, approximate=approximate)
    h = scale * (h @ p["last_weight"].T) + p["last_bias"]
    return jnp.mean(jax.nn.logsumexp(h, -1))


def run_with_wiregrad(p: Params, x: Any, power: int = 2) -> Any:
    h = x @ p["first_weight"].T + p["first_bias"]
    centred = h - h.mean(-1, keepdims=True)
    deviation = np.sqrt(np.mean(np.abs(centred) ** power, -1, keepdims=True) + 1e-5)
    h = centred / deviation * p["norm_weight"] + p["norm_bias"]
    h = 0.5 * h * (1.0 + wg.erf(h / np.sqrt(2.0)))
    h = h @ p["last_weight"].T + p["last_bias"]
    return np.mean(wg.logsumexp(h, axis=-1))


@pytest.fixture(scope="module")
def model() -> tuple[Any, Params, Any]:
    """The run of the PyTorch model, its parameters and its input."""
    torch.manual_seed(0)
    net = Net().double()
    x = torch.randn(5, 4, dtype=torch.float64)
    params = {name.replace(".", "_"): value.detach().numpy() for name, value in net.named_parameters()}
    return wg.from_torch(net, x).run(), params, x.numpy()


def line_of(code: Any, text: str) -> int:
    """Return the line of a function that has some text."""
    lines, first = inspect.getsourcelines(code)
    return next(first + k for k, line in enumerate(lines) if text in line)


def run_traced(function: Any, params: Params, x: Any) -> Any:
    circuit = wg.trace(function, params, x)
    return circuit.run(dict(zip(circuit.inputs, [*params.values(), x], strict=True)))


def test_a_model_does_not_differ_from_itself_in_another_framework(model: Any) -> None:
    seen, params, x = model
    jax_run = wg.from_jax(run_with_jax, params, x).run()
    own = run_traced(run_with_wiregrad, params, x)

    assert not wg.diff(seen, jax_run, rtol=1e-9)
    assert not wg.diff(jax_run, own, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "torch_line", "jax_line"),
    [
        ({"epsilon": 1e-3}, "self.norm(h)", "epsilon)"),
        ({"approximate": True}, "gelu(h)", "jax.nn.gelu"),
        ({"scale": 1.01}, "self.last(h)", "scale * ("),
    ],
)
def test_the_first_op_that_differs_in_jax_is_named(model: Any, change: Any, torch_line: str, jax_line: str) -> None:
    seen, params, x = model
    other = wg.from_jax(lambda p, x: run_with_jax(p, x, **change), params, x).run()
    found = wg.diff(seen, other, rtol=1e-9)

    assert found.kind == "value"
    assert seen.circuit[found.one].place.line == line_of(Net.forward, torch_line)
    assert other.circuit[found.two].place.line == line_of(run_with_jax, jax_line)


def test_the_first_op_that_differs_in_wiregrad_is_named(model: Any) -> None:
    seen, params, x = model
    other = run_traced(lambda p, x: run_with_wiregrad(p, x, power=3), params, x)
    found = wg.diff(seen, other, rtol=1e-9)

    assert seen.circuit[found.one].place.line == line_of(Net.forward, "self.norm(h)")
    assert other.circuit[found.two].place.line == line_of(run_with_wiregrad, "** power")


@pytest.fixture(scope="module")
def single() -> tuple[Any, Params, Any]:
    """The PyTorch model in float32, its parameters and its input."""
    torch.manual_seed(0)
    net = Net()
    params = {name.replace(".", "_"): value.detach().numpy() for name, value in net.named_parameters()}
    return net, params, torch.randn(5, 4)


@pytest.mark.parametrize("wants_gradient", [False, True])
def test_watched_models_differ_by_no_more_than_rounding(single: Any, wants_gradient: bool) -> None:
    net, params, x = single
    x = x.clone().requires_grad_(wants_gradient)
    with wg.watch(net) as seen:
        net(x).backward()
    jax_seen = wg.watch(run_with_jax, params, x.detach().numpy())
    found = wg.diff(seen, jax_seen)

    assert not found or "which rounding explains: allow it by rtol=0.0001" in str(found)
    assert not wg.diff(seen, jax_seen, rtol=1e-4, atol=1e-6)
    assert ("the gradient of x is not compared" in str(wg.diff(seen, jax_seen, rtol=1e-4))) != wants_gradient


@pytest.mark.parametrize("rtol", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize(
    ("change", "torch_line", "jax_line"),
    [
        ({"epsilon": 1e-2}, "self.norm(h)", "centred = "),
        ({"approximate": True}, "gelu(h)", "jax.nn.gelu"),
        ({"scale": 1.001}, "self.last(h)", "scale * ("),
    ],
)
def test_the_first_op_that_differs_in_float32_is_named(
    single: Any, rtol: float, change: Any, torch_line: str, jax_line: str
) -> None:
    net, params, x = single
    x = x.clone().requires_grad_()
    with wg.watch(net) as seen:
        net(x).backward()
    other = wg.watch(lambda p, x: run_with_jax(p, x, **change), params, x.detach().numpy())
    found = wg.diff(seen, other, rtol=rtol)

    if found:
        lines = [line_of(Net.forward, torch_line), line_of(run_with_jax, jax_line)]
        assert [f".py:{line})" in str(found) for line in lines] == [True, True]
    else:
        assert rtol == 1e-3
