"""PyTorch code imported as circuits: values and gradients by wiregrad's own rules, compared with PyTorch's.

Both agree to 1e-10 of the largest number. `DIFFERENCES` lists where a rule of wiregrad's differs on purpose, and
`ROUNDED_BY_PYTORCH` where PyTorch's own gradient is less exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import wiregrad as wg
from tests.peers.torch_cases import CASES, ROUNDED_BY_PYTORCH, TorchCase
from wiregrad.errors import BranchError, UnknownOpsError
from wiregrad.exchange.torch_import import write_name

TOLERANCE = 1e-10


def assert_close(ours: Any, theirs: Any, what: str, tolerance: float = TOLERANCE) -> None:
    """Compare arrays relative to the largest number; no gradient counts as 0."""
    b = np.zeros(()) if theirs is None else theirs.detach().numpy()
    a = np.zeros_like(b) if ours is None else np.asarray(ours)

    assert theirs is None or a.shape == b.shape, what
    assert np.max(np.abs(a - b), initial=0.0) <= tolerance * (1.0 + np.max(np.abs(b), initial=0.0)), what


def differentiate(case: TorchCase) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Return PyTorch's value of a case, and its gradient with respect to each parameter and argument."""
    copies = [
        arg.clone().requires_grad_(arg.is_floating_point() and not case.name.startswith("SoftMargin") or k == 0)
        if isinstance(arg, Tensor) and arg.is_floating_point()
        else arg
        for k, arg in enumerate(case.arguments)
    ]
    result = case.function(*copies)
    leaves = {f"args_{k}": arg for k, arg in enumerate(copies) if isinstance(arg, Tensor) and arg.requires_grad}
    if isinstance(case.function, nn.Module):
        leaves |= {write_name(name): parameter for name, parameter in case.function.named_parameters()}
    gradients = torch.autograd.grad(result, list(leaves.values()), allow_unused=True)
    return result, dict(zip(leaves, gradients, strict=True))


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_values_and_gradients_equal_those_of_pytorch(case: TorchCase) -> None:
    value, gradients = differentiate(case)
    run = wg.from_torch(case.function, *case.arguments).run()

    assert_close(run.output, value, "value")
    for name, gradient in gradients.items():
        assert_close(run.grads.get(name), gradient, name, ROUNDED_BY_PYTORCH.get(case.name, TOLERANCE))


TAKEN_BY_VALUE = {"index by a computed mask"}
"""Cases in which numbers decide which nodes there are: the circuit refuses a point where they would differ."""


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_circuits_hold_at_other_points(case: TorchCase) -> None:
    moved = [
        arg * (1.0 - 0.3 * (arg.flip(0) - arg).abs().clamp(max=1.0)) if isinstance(arg, Tensor) and arg.is_floating_point() else arg
        for arg in case.arguments
    ]
    circuit = wg.from_torch(case.function, *case.arguments)
    inputs = {f"args_{k}": arg.numpy() for k, arg in enumerate(moved) if f"args_{k}" in circuit.inputs}
    wanted = case.function(*moved)

    try:
        value = circuit(**inputs)
    except BranchError:
        assert case.name in TAKEN_BY_VALUE
    else:
        assert_close(value, wanted, case.name, 1e-9)


EXACT_SLOPES: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "Hardsigmoid": (functional.hardsigmoid, 0.3, 1 / 6),
    "CELU": (lambda x: functional.celu(x, 0.7), -0.35, math.exp(-0.5)),
    "digamma": (torch.digamma, 1.0, math.pi**2 / 6),
}


@pytest.mark.parametrize("name", ROUNDED_BY_PYTORCH)
def test_gradients_are_exact_where_pytorch_rounds_them(name: str) -> None:
    function, point, slope = EXACT_SLOPES[name]
    circuit = wg.from_torch(lambda x: function(x), torch.tensor(point, dtype=torch.float64))

    assert circuit.run().grads["x"] == pytest.approx(slope, rel=1e-14)


DIFFERENCES: list[tuple[str, Callable[[Tensor], Tensor], list[float], list[float], list[float]]] = [
    ("blocked branch", lambda x: torch.where(x > 0, x.sqrt(), 0.0).sum(), [0.0, 4.0], [0.0, 0.25], [math.nan, 0.25]),
    ("tied maximum", lambda x: x.max(0).values, [2.0, 2.0], [0.5, 0.5], [1.0, 0.0]),
    ("on a bound", lambda x: x.clamp(min=1.0).sum(), [1.0, 2.0], [0.0, 1.0], [1.0, 1.0]),
    ("outside the domain", lambda x: x.log().sum(), [-1.0, 2.0], [math.nan, 0.5], [-1.0, 0.5]),
    ("replaced NaN", lambda x: torch.nan_to_num(x / x).sum(), [0.0, 2.0], [0.0, 0.0], [math.nan, 0.0]),
]
"""Functions whose gradients differ by a rule: (name, function, point, wiregrad's gradient, PyTorch's gradient)."""


@pytest.mark.parametrize(("name", "function", "point", "ours", "theirs"), DIFFERENCES, ids=lambda v: v if isinstance(v, str) else "")
def test_gradients_differ_by_the_rules_that_are_listed(
    name: str, function: Callable[[Tensor], Tensor], point: list[float], ours: list[float], theirs: list[float]
) -> None:
    x = torch.tensor(point, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(function(x), x)
    circuit = wg.from_torch(function, x)

    np.testing.assert_allclose(gradient.numpy(), theirs, rtol=1e-12)
    np.testing.assert_allclose(circuit.run().grads["x"], ours, rtol=1e-12)
