"""Circuits that were taken from a model know its weights: calls, compiled calls and files use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

import wiregrad as wg

X = torch.linspace(-1.0, 1.0, 6, dtype=torch.float64).reshape(3, 2)
OTHER = torch.linspace(0.0, 2.0, 6, dtype=torch.float64).reshape(3, 2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(2, 3, dtype=torch.float64)
        self.out = nn.Linear(3, 1, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.hidden(x))).square().mean()


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net()


def watch_net(net: Net) -> Any:
    x = X
    with wg.watch(net) as seen:
        net(x).backward()
    return seen.circuit()


MAKERS: dict[str, Callable[[Net], Any]] = {
    "from_torch": lambda net: wg.from_torch(net, X),
    "watched": watch_net,
}
CALLS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "circuit": lambda circuit: circuit,
    "compiled": lambda circuit: circuit.compile(),
    "compiled value": lambda circuit: circuit.compile().value,
    "compiled gradient": lambda circuit: lambda *xs, **named: circuit.compile().value_and_grad(*xs, **named)[0],
    "run": lambda circuit: lambda *xs, **named: circuit.run(*xs, **named).output,
    "to_torch": lambda circuit: circuit.to_torch(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("maker", MAKERS)
def test_inputs_that_are_left_out_are_those_of_the_model(net: Net, maker: str, call: str) -> None:
    circuit = MAKERS[maker](net)
    compute = CALLS[call](circuit)
    bias = np.ones(1)
    with torch.no_grad():
        wanted = [float(net(X)), float(net(OTHER))]
        net.out.bias.copy_(torch.ones(1))
        wanted.append(float(net(OTHER)))

    got = [compute(), compute(x=OTHER.numpy()), compute(**{"x": OTHER.numpy(), "out.bias": bias})]
    np.testing.assert_allclose([float(value) for value in got], wanted, rtol=1e-12)


@pytest.mark.parametrize("call", CALLS)
def test_arguments_may_be_given_by_place(net: Net, call: str) -> None:
    compute = CALLS[call](wg.from_torch(net, X))

    assert float(compute(OTHER.numpy())) == pytest.approx(net(OTHER).item(), rel=1e-12)


def test_gradients_by_place_are_those_of_the_arguments_that_were_given(net: Net) -> None:
    x = OTHER.clone().requires_grad_()
    net(x).backward()
    compiled = wg.from_torch(net, X).compile()
    by_place = compiled.value_and_grad(OTHER.numpy())[1]
    by_name = compiled.value_and_grad(x=OTHER.numpy())[1]

    np.testing.assert_allclose(by_place, x.grad, rtol=1e-12)
    np.testing.assert_allclose(by_name["x"], x.grad, rtol=1e-12)
    np.testing.assert_allclose(by_name["hidden.weight"], net.hidden.weight.grad, rtol=1e-12)


def test_a_given_array_of_another_shape_is_refused(net: Net) -> None:
    compiled = wg.from_torch(net, X).compile()

    with pytest.raises(wg.errors.InputError, match="input x must be"):
        compiled(np.zeros(2))
    with pytest.raises(wg.errors.InputError, match="there is no input called"):
        compiled(y=np.zeros(2))


@pytest.mark.parametrize("maker", MAKERS)
def test_an_onnx_file_holds_the_weights(net: Net, maker: str, tmp_path: Path) -> None:
    path = str(tmp_path / "net.onnx")
    MAKERS[maker](net).to_onnx(path, gradient=True)
    session = onnxruntime.InferenceSession(path)
    results = dict(
        zip([part.name for part in session.get_outputs()], session.run(None, {"x": OTHER.numpy()}), strict=True)
    )
    net.zero_grad()
    value = net(OTHER)
    value.backward()

    assert [part.name for part in session.get_inputs()] == ["x"]
    np.testing.assert_allclose(next(iter(results.values())), value.detach(), rtol=1e-12)
    np.testing.assert_allclose(results["grad_hidden.weight"], net.hidden.weight.grad, rtol=1e-12)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x.sum()


def test_an_onnx_file_holds_a_weight_without_axes(tmp_path: Path) -> None:
    wg.from_torch(Scaled(), torch.ones(3)).to_onnx(tmp_path / "net.onnx", gradient=True)
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    results = session.run(None, {"x": np.ones(3, np.float32)})

    assert [result.shape for result in results] == [(), (3,), ()]


def test_an_onnx_file_may_take_the_weights_as_inputs(net: Net, tmp_path: Path) -> None:
    path = str(tmp_path / "net.onnx")
    circuit = wg.from_torch(net, X)
    circuit.to_onnx(path, weights=False)
    names = [part.name for part in onnxruntime.InferenceSession(path).get_inputs()]

    assert names == list(circuit.inputs)
    assert set(circuit.weights) == set(names) - {"x"}


def test_a_circuit_from_an_onnx_file_is_written_with_its_weights(net: Net, tmp_path: Path) -> None:
    first, second = str(tmp_path / "first.onnx"), str(tmp_path / "second.onnx")
    wg.from_torch(net, X).to_onnx(first)
    wg.from_onnx(first).to_onnx(second)
    session = onnxruntime.InferenceSession(second)

    assert [part.name for part in session.get_inputs()] == ["x"]
    np.testing.assert_allclose(session.run(None, {"x": OTHER.numpy()})[0], net(OTHER).detach(), rtol=1e-12)


def test_arguments_of_a_function_are_no_weights(tmp_path: Path) -> None:
    path = str(tmp_path / "f.onnx")
    circuit = wg.from_torch(lambda x, w: (x * w).sum(), X, OTHER)
    circuit.to_onnx(path)

    assert circuit.weights == ()
    assert [part.name for part in onnxruntime.InferenceSession(path).get_inputs()] == ["x", "w"]


def test_a_circuit_is_compared_with_a_run_at_its_own_point(net: Net) -> None:
    circuit = wg.from_torch(net, X)
    with wg.watch(net) as seen:
        net(X).backward()

    assert not wg.diff(seen, circuit, rtol=1e-9)
    assert not wg.diff(circuit, circuit.run())
    net.out.bias.data += 1.0
    assert wg.diff(circuit, wg.from_torch(net, X).run())
