"""`wg.Function` against `torch.autograd.Function`: the same class texts, values and derivatives of three orders.

Then the transforms against each other on the same classes, and classes that call SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import torch

import wiregrad as wg
from wiregrad.errors import NoRuleError, WiregradError

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


# The transforms of wiregrad on the same classes.

NOT_LINEAR = ("clipped gradient", "square of the gradient")
"""Classes whose backward is not linear in the gradient that arrives: they have no forward mode."""


def gradient_function(case: Case) -> Callable[..., Any]:
    apply = case.make(wg.Function, np).apply
    return wg.grad(lambda *xs: loss(np, as_tuple(apply(*xs, *case.settings))), tuple(range(len(case.inputs))))


def points(name: str) -> list[list[Any]]:
    """Return points at which branches and masks differ; functions and rules for positive numbers stay among them."""
    inputs = CASES[name].inputs
    # The slope of a square is a root of its output for positive numbers alone.
    positive = any(word in name for word in ("log", "sqrt", "power", "coordinates", "output: square"))
    moves = (lambda x: x, lambda x: 1.1 * x + 0.03, lambda x: 0.9 * x + 0.1 if positive else 0.1 - x)
    return [[move(np.asarray(x)) if np.ndim(x) else move(x) for x in inputs] for move in moves]


@pytest.mark.parametrize("name", CASES)
def test_compile_and_vmap_replay_a_class_at_other_points(name: str) -> None:
    gradient, places = gradient_function(CASES[name]), points(name)
    with np.errstate(all="ignore"):
        wanted = [gradient(*place) for place in places]
        compiled = wg.compile(gradient)
        replayed = [compiled(*place) for place in places]
        mapped = wg.vmap(gradient)(*(np.stack(column) for column in zip(*places, strict=True)))

    for k, grads in enumerate(wanted):
        for slot, g in enumerate(grads):
            np.testing.assert_allclose(replayed[k][slot], g, TOLERANCE, TOLERANCE, err_msg=f"compile at point {k}")
            np.testing.assert_allclose(mapped[slot][k], g, TOLERANCE, TOLERANCE, err_msg=f"vmap at point {k}")


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_LINEAR])
def test_forward_mode_is_the_transpose_of_a_class(name: str) -> None:
    case, gradient = CASES[name], gradient_function(CASES[name])
    numbers = tuple(range(len(case.inputs)))
    along = [float(d) if np.ndim(d) == 0 else d for d in directions(case.inputs, 0)]
    pushed = wg.jvp(gradient, case.inputs, along)[1]
    rows = wg.jacobian(gradient, numbers, mode="reverse")(*case.inputs)

    for ours, row in zip(pushed, rows, strict=True):
        wanted = sum(np.tensordot(block, d, np.ndim(d)) for block, d in zip(row, along, strict=True))
        np.testing.assert_allclose(ours, wanted, 1e-11, 1e-11)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_class_that_is_not_linear_has_no_forward_mode(name: str) -> None:
    with pytest.raises(WiregradError, match="not linear"):
        wg.jvp(gradient_function(CASES[name]), CASES[name].inputs, directions(CASES[name].inputs, 0))


# SciPy.

SPECIAL: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "expit": (scipy.special.expit, lambda x, y: y * (1 - y), torch.special.expit),
    "erf": (scipy.special.erf, lambda x, y: 2 / np.sqrt(np.pi) * np.exp(-x * x), torch.special.erf),
    "erfcx": (scipy.special.erfcx, lambda x, y: 2 * x * y - 2 / np.sqrt(np.pi), torch.special.erfcx),
    "ndtr": (scipy.special.ndtr, lambda x, y: np.exp(-x * x / 2) / np.sqrt(2 * np.pi), torch.special.ndtr),
    "exp10": (scipy.special.exp10, lambda x, y: y * np.log(10.0), lambda x: torch.pow(10.0, x)),
}


@pytest.mark.parametrize("plain", [True, False], ids=["on data", "on values"])
@pytest.mark.parametrize("name", SPECIAL)
def test_a_special_function_has_second_derivatives(name: str, plain: bool) -> None:
    function, slope, theirs = SPECIAL[name]

    class Special(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = function(x.data if plain else x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream * slope(*ctx.saved_tensors)

    for x in (0.3, np.array([0.3, -0.8, 1.7])):
        tensor = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(theirs(tensor).sum(), tensor, create_graph=True)
        (second,) = torch.autograd.grad((first * first).sum(), tensor)
        gradient = wg.grad(lambda x: np.sum(Special.apply(x)))

        np.testing.assert_allclose(gradient(x), first.detach().numpy(), 1e-13)
        np.testing.assert_allclose(
            wg.grad(lambda x, g=gradient: np.sum(g(x) ** 2))(x), second.numpy(), TOLERANCE, TOLERANCE
        )


def test_the_second_derivative_of_expit_is_not_zero() -> None:
    class Expit(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = scipy.special.expit(x.data)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (y,) = ctx.saved_tensors
            return g * y * (1 - y)

    assert wg.grad(wg.grad(Expit.apply))(0.3) == pytest.approx(-0.0363961, abs=1e-6)


class LogGamma(wg.Function):
    """Calls SciPy in backward too."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return scipy.special.gammaln(x)

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        (x,) = ctx.saved_tensors
        return upstream * scipy.special.digamma(x)


def test_scipy_in_backward_gives_a_gradient_and_a_second_one() -> None:
    x = np.array([0.7, 2.5])

    assert np.allclose(wg.grad(lambda x: np.sum(LogGamma.apply(x)))(x), scipy.special.digamma(x), 1e-14)
    assert np.allclose(
        wg.hessian(lambda x: np.sum(LogGamma.apply(x)))(x), np.diag(scipy.special.polygamma(1, x)), 1e-14
    )


def test_a_ufunc_of_scipy_without_a_rule_in_backward_refuses_a_second_gradient() -> None:
    class ExponentialIntegral(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * scipy.special.expi(x) - np.exp(x)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (x,) = ctx.saved_tensors
            return upstream * scipy.special.expi(x)

    with pytest.raises(NoRuleError, match=r"scipy\.special\.expi has no rule"):
        wg.hessian(lambda x: np.sum(ExponentialIntegral.apply(x)))(np.array([0.7, 2.5]))


def test_scipy_solves_and_decomposes_the_arguments_of_forward() -> None:
    class Solve(wg.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            x = scipy.linalg.solve(a, b)
            ctx.save_for_backward(a, x)
            return x

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            a, x = ctx.saved_tensors
            by_b = np.linalg.solve(a.T, upstream)
            return -np.outer(by_b, x), by_b

    def ours(a: Any, b: Any) -> Any:
        return np.sum(np.sin(Solve.apply(a, b)))

    def wanted(a: Any, b: Any) -> Any:
        return np.sum(np.sin(np.linalg.solve(a, b)))

    a, b = np.array([[3.0, 1.0], [0.5, 2.0]]), np.array([1.0, -2.0])
    for k in (0, 1):
        np.testing.assert_allclose(wg.grad(ours, k)(a, b), wg.grad(wanted, k)(a, b), 1e-12, 1e-12)
        np.testing.assert_allclose(wg.hessian(ours, k)(a, b), wg.hessian(wanted, k)(a, b), 1e-11, 1e-11)


def test_the_singular_values_of_numpy_serve_a_nuclear_norm() -> None:
    class NuclearNorm(wg.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            u, s, vt = np.linalg.svd(a, full_matrices=False)
            ctx.save_for_backward(u, vt)
            return np.sum(s)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            u, vt = ctx.saved_tensors
            return upstream * (u @ vt)

    a = np.array([[2.0, 0.5], [-0.3, 1.2], [0.4, 0.9]])
    tensor = torch.tensor(a, requires_grad=True)
    (first,) = torch.autograd.grad(torch.linalg.svdvals(tensor).sum(), tensor, create_graph=True)
    (second,) = torch.autograd.grad((first**3).sum(), tensor)

    np.testing.assert_allclose(wg.grad(NuclearNorm.apply)(a), first.detach().numpy(), 1e-12)
    np.testing.assert_allclose(
        wg.grad(lambda a: np.sum(wg.grad(NuclearNorm.apply)(a) ** 3))(a), second.numpy(), 1e-11, 1e-11
    )
