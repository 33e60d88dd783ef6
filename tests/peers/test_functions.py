"""`wg.Function` against `torch.autograd.Function`: the same class texts, values and derivatives of three orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import wiregrad as wg

from .function_classes import CASES, Case

ORDERS = 3
TOLERANCE = 1e-12


def as_tuple(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def loss(m: Any, outputs: Sequence[Any]) -> Any:
    """Make one number of the outputs, so that the gradient that arrives at each depends on its value."""
    terms = [(m.sin(y) * (0.3 + k) + 0.2 * y * y).sum() for k, y in enumerate(outputs) if y.dtype not in BOOLEANS]
    return sum(terms)


BOOLEANS = (torch.bool, np.dtype(bool))


def directions(inputs: Sequence[Any], order: int) -> list[Any]:
    """Return a direction for each input, which makes one number of the gradients of an order."""
    rng = np.random.default_rng(order)
    return [rng.uniform(0.5, 1.5, size=np.shape(x)) for x in inputs]


def torch_derivatives(case: Case) -> tuple[list[Any], list[list[Any]]]:
    """Return the outputs, and the gradients of each order."""
    xs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in case.inputs]
    outputs = as_tuple(case.make(torch.autograd.Function, torch).apply(*xs, *case.settings))
    number, gradients = loss(torch, outputs), []
    for order in range(ORDERS):
        if number.requires_grad:
            grads = torch.autograd.grad(number, xs, create_graph=True, materialize_grads=True)
        else:
            grads = tuple(torch.zeros_like(x) for x in xs)
        gradients.append([g.detach().numpy() for g in grads])
        number = sum((g * torch.as_tensor(d)).sum() for g, d in zip(grads, directions(xs, order), strict=True))
    return [y.detach().numpy() for y in outputs], gradients


def wiregrad_derivatives(case: Case) -> tuple[list[Any], list[list[Any]]]:
    """Return the outputs, and the gradients of each order."""
    apply = case.make(wg.Function, np).apply
    numbers = tuple(range(len(case.inputs)))
    outputs = as_tuple(apply(*map(wg.Value, case.inputs), *case.settings))

    def number(*xs: Any) -> Any:
        return loss(np, as_tuple(apply(*xs, *case.settings)))

    gradients = []
    for order in range(ORDERS):
        gradients.append(list(wg.grad(number, numbers)(*case.inputs)))
        number = contracted(number, numbers, directions(case.inputs, order))
    return [y.data if isinstance(y, wg.Value) else y for y in outputs], gradients


def contracted(f: Callable[..., Any], numbers: tuple[int, ...], directions: Sequence[Any]) -> Callable[..., Any]:
    def number(*xs: Any) -> Any:
        return sum((g * d).sum() for g, d in zip(wg.grad(f, numbers)(*xs), directions, strict=True))

    return number


def test_there_are_two_hundred_classes() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("name", CASES)
def test_a_class_gives_torchs_values_and_derivatives(name: str) -> None:
    outputs, gradients = wiregrad_derivatives(CASES[name])
    torch_outputs, torch_gradients = torch_derivatives(CASES[name])

    assert len(outputs) == len(torch_outputs)
    for ours, theirs in zip(outputs, torch_outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, TOLERANCE, TOLERANCE)
    for order, (ours, theirs) in enumerate(zip(gradients, torch_gradients, strict=True), start=1):
        for k, (g, wanted) in enumerate(zip(ours, theirs, strict=True)):
            assert np.shape(g) == wanted.shape
            np.testing.assert_allclose(
                g, wanted, TOLERANCE, TOLERANCE, err_msg=f"gradient of order {order} by input {k}"
            )
