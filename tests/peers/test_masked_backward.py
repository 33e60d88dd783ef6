"""`check_backward` beside infinities: masks of -inf are not accused, and a wrong backward beside them is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional

import wiregrad as wg

INF = float("inf")
KEEP = torch.tensor([[True, True, False], [True, False, True]])
CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()


def fill(scores: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(~KEEP, -INF)


def add(scores: torch.Tensor) -> torch.Tensor:
    return scores + torch.zeros_like(scores).masked_fill(~KEEP, -INF)


def choose(scores: torch.Tensor) -> torch.Tensor:
    return torch.where(KEEP, scores, -INF)


REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax": lambda scores: (torch.softmax(scores, -1) ** 2).sum(),
    "log_softmax": lambda scores: torch.log_softmax(scores, -1)[:, 0].sum(),
    "logsumexp": lambda scores: (torch.logsumexp(scores, -1) ** 2).sum(),
    "cross_entropy": lambda scores: functional.cross_entropy(scores, torch.tensor([1, 2])),
    "own_softmax": lambda scores: ((scores - scores.amax(-1, keepdim=True)).exp() ** 2).sum(),
    "max": lambda scores: scores.amax(-1).sum(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("mask", [fill, add, choose])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_masked_reduction_is_right(name: str, mask: Callable[..., torch.Tensor], dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.1, 0.4, 0.2], [0.3, -0.2, 0.5]], dtype=dtype, requires_grad=True)
    with wg.watch() as seen:
        REDUCTIONS[name](mask(scores)).backward()
    check = seen.check_backward()

    assert check.ok, str(check)
    assert check.checked >= 3
    assert not check.skipped


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["boolean", "causal", "additive", "learned"])
def test_masked_attention_is_right(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    additive = torch.zeros(3, 3, dtype=dtype).masked_fill(~CAUSAL, -INF)
    settings: dict[str, dict[str, Any]] = {
        "boolean": {"attn_mask": CAUSAL},
        "causal": {"is_causal": True},
        "additive": {"attn_mask": additive},
        "learned": {"attn_mask": additive.clone().requires_grad_()},
    }
    with wg.watch() as seen:
        (functional.scaled_dot_product_attention(query, key, value, **settings[kind]) ** 2).sum().backward()
    check = seen.check_backward()

    assert check.ok, str(check)
    assert not seen.blame()


@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_wholly_masked_row_is_blamed_and_not_called_wrong(
    function: Callable[..., torch.Tensor], dtype: torch.dtype
) -> None:
    scores = torch.tensor([[0.1, 0.4], [0.3, 0.2]], dtype=dtype, requires_grad=True)
    keep = torch.tensor([[True, True], [False, False]])
    with wg.watch() as seen:
        (function(scores.masked_fill(~keep, -INF), -1) ** 2).sum().backward()

    assert seen.check_backward().ok, str(seen.check_backward())
    assert seen.blame().origins[0].op == f"_{function.__name__}"


class WrongSoftmax(torch.autograd.Function):
    """Softmax whose backward forgets the part of the sum."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        result = torch.softmax(scores, -1)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g * ctx.saved_tensors[0]


class RightLogSoftmax(torch.autograd.Function):
    """Log-softmax from ops whose own derivatives are NaN beside a mask."""

    scale = 1.0

    @classmethod
    def forward(cls, ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        result = weights / weights.sum(-1, keepdim=True)
        ctx.save_for_backward(result)
        return result.log()

    @classmethod
    def backward(cls, ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return cls.scale * (g - ctx.saved_tensors[0] * g.sum(-1, keepdim=True))


class WrongLogSoftmax(RightLogSoftmax):
    scale = 2.0


class RightOutside(torch.autograd.Function):
    """Exponential that is computed outside of PyTorch."""

    scale = 1.0

    @classmethod
    def forward(cls, ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        result = torch.from_numpy(np.exp(scores.detach().numpy()))
        ctx.save_for_backward(result)
        return result

    @classmethod
    def backward(cls, ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return cls.scale * g * ctx.saved_tensors[0]


class WrongOutside(RightOutside):
    scale = 2.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [WrongSoftmax, WrongLogSoftmax, WrongOutside])
def test_a_wrong_backward_beside_masked_inputs_is_named(function: Any, dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.1, 0.4, 0.2], [0.3, -0.2, 0.5]], dtype=dtype, requires_grad=True)
    with wg.watch() as seen:
        result = function.apply(fill(scores))
        (result.masked_fill(~KEEP, 0.0) ** 2).sum().backward()

    assert [finding.op for finding in seen.check_backward().findings] == [function.__name__]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [RightLogSoftmax, RightOutside])
def test_a_right_backward_beside_masked_inputs_is_not_accused(function: Any, dtype: torch.dtype) -> None:
    scores = torch.tensor([[0.1, 0.4, 0.2], [0.3, -0.2, 0.5]], dtype=dtype, requires_grad=True)
    with wg.watch() as seen:
        result = function.apply(fill(scores))
        (result.masked_fill(~KEEP, 0.0) ** 2).sum().backward()
    check = seen.check_backward()

    assert check.ok, str(check)


def test_a_wrong_backward_in_one_row_beside_a_wholly_masked_row_is_named() -> None:
    scores = torch.tensor([[0.1, 0.4], [0.3, 0.2]], requires_grad=True)
    keep = torch.tensor([[True, True], [False, False]])
    with wg.watch() as seen:
        (WrongSoftmax.apply(scores.masked_fill(~keep, -INF)) ** 2).sum().backward()  # type: ignore[no-untyped-call]

    assert [finding.op for finding in seen.check_backward().findings] == ["WrongSoftmax"]


class SafeEntropy(torch.autograd.Function):
    """x log x, with the limit 0 at 0."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.where(x > 0, x * x.log(), 0.0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g * (x.clamp_min(1e-30).log() + 1), 0.0)


def test_elements_whose_derivative_comes_out_as_nan_are_undecided() -> None:
    x = torch.tensor([0.0, 0.5], dtype=torch.float64, requires_grad=True)
    with wg.watch() as seen:
        SafeEntropy.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    check = seen.check_backward()

    assert check.ok, str(check)
    assert check.skipped == (("in the elements whose derivative comes out as NaN", 1),)


JAX_REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda scores: jnp.sum(jax.nn.softmax(scores) ** 2),
    "log_softmax": lambda scores: jnp.sum(jax.nn.log_softmax(scores)[:, 0]),
    "logsumexp": lambda scores: jnp.sum(jax.nn.logsumexp(scores, axis=-1)),
}


@pytest.mark.parametrize("name", JAX_REDUCTIONS)
def test_a_masked_reduction_of_jax_is_right(name: str) -> None:
    keep = jnp.asarray(KEEP.numpy())
    scores = jnp.array([[0.1, 0.4, 0.2], [0.3, -0.2, 0.5]])
    check = wg.watch(lambda s: JAX_REDUCTIONS[name](jnp.where(keep, s, -jnp.inf)), scores).check_backward()

    assert check.ok, str(check)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_a_wrong_rule_of_jax_beside_masked_inputs_is_named(factor: float) -> None:
    @jax.custom_vjp
    def weigh(scores: Any) -> Any:
        return jax.nn.softmax(scores)

    def pull(result: Any, g: Any) -> tuple[Any]:
        return (factor * result * (g - jnp.sum(g * result, -1, keepdims=True)),)

    weigh.defvjp(lambda scores: (weigh(scores),) * 2, pull)
    keep = jnp.asarray(KEEP.numpy())
    scores = jnp.array([[0.1, 0.4, 0.2], [0.3, -0.2, 0.5]])
    check = wg.watch(lambda s: jnp.sum(weigh(jnp.where(keep, s, -jnp.inf)) ** 2), scores).check_backward()

    assert [finding.op for finding in check.findings] == ["weigh"] * (factor != 1.0)


def test_elements_of_a_rule_of_jax_whose_derivative_comes_out_as_nan_are_undecided() -> None:
    @jax.custom_jvp
    def entropy(x: Any) -> Any:
        return jnp.where(x > 0, x * jnp.log(x), 0.0)

    def push(primals: Any, tangents: Any) -> Any:
        (x,) = primals
        return entropy(x), jnp.where(x > 0, jnp.log(jnp.maximum(x, 1e-30)) + 1, 0.0) * tangents[0]

    entropy.defjvp(push)
    check = wg.watch(lambda x: jnp.sum(entropy(x)), jnp.array([0.0, 0.5])).check_backward()

    assert check.ok, str(check)
    assert check.skipped == (("in the elements whose derivative comes out as NaN", 1),)
