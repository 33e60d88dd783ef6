"""Rules of users in float16 and bfloat16 are checked in float64, because these dtypes do not show a wrong slope."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import wiregrad as wg

SHORT = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
X = torch.linspace(-2.0, 2.0, 64)


class Softened(torch.autograd.Function):
    """x + x**3 / 20, whose rule has a factor."""

    factor = 3.0
    work_dtype: torch.dtype | None = None

    @classmethod
    def forward(cls, ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        if cls.work_dtype is torch.float64 and x.dtype is torch.float64:
            raise TypeError("a kernel for short numbers only")
        work = x if cls.work_dtype is None else x.to(x.dtype if cls.work_dtype is torch.float64 else cls.work_dtype)
        return (work + 0.05 * work**3).to(x.dtype)

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * (1.0 + cls.factor * 0.05 * x**2)


class Wrong(Softened):
    factor = 2.9


class InFloat32(Softened):
    work_dtype = torch.float32


class WrongInFloat32(Wrong):
    work_dtype = torch.float32


class InBfloat16(Softened):
    work_dtype = torch.bfloat16


class RefusesFloat64(Softened):
    work_dtype = torch.float64


class Dropout(Softened):
    """Keeps the numbers that a mask of random numbers chooses, twice as large."""

    @classmethod
    def forward(cls, ctx: Any, x: Tensor) -> Tensor:
        mask = (torch.rand_like(x) < 0.5).to(x.dtype)
        ctx.save_for_backward(mask)
        return 2.0 * x * mask

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> Tensor:
        (mask,) = ctx.saved_tensors
        return 2.0 * g * mask


class ThroughNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.tensor(x.float().numpy() ** 2, dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def check(function: Any, dtype: torch.dtype) -> Any:
    x = X.to(dtype).requires_grad_()
    with wg.watch() as seen:
        function.apply(x).sum().backward()
    return seen.check_backward()


@SHORT
@pytest.mark.parametrize("function", [Wrong, WrongInFloat32])
def test_a_slope_that_is_wrong_by_one_percent_is_named(function: Any, dtype: torch.dtype) -> None:
    assert [finding.op for finding in check(function, dtype).findings] == [function.__name__]


@SHORT
@pytest.mark.parametrize("function", [Softened, InFloat32])
def test_a_right_rule_is_checked_without_reserve(function: Any, dtype: torch.dtype) -> None:
    answer = check(function, dtype)

    assert (answer.ok, answer.skipped) == (True, ())


@SHORT
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (InBfloat16, "the rule itself computes in a short dtype"),
        (RefusesFloat64, "the rule does not run in float64"),
        (Dropout, "the rule draws random numbers"),
    ],
)
def test_a_rule_that_float64_says_nothing_about_is_right_with_a_reserve(
    function: Any, reason: str, dtype: torch.dtype
) -> None:
    answer = check(function, dtype)

    assert answer.ok
    assert reason in str(answer)


@SHORT
def test_a_function_outside_of_pytorch_is_not_called_right(dtype: torch.dtype) -> None:
    answer = check(ThroughNumpy, dtype)

    assert f"{str(dtype).removeprefix('torch.')} is too coarse for differences" in str(answer)
    assert answer.checked == 1


def test_under_autocast_the_rule_is_checked_in_float64() -> None:
    weight = torch.full((4, 4), 0.5, requires_grad=True)
    with wg.watch() as seen, torch.autocast("cpu", dtype=torch.bfloat16):
        Wrong.apply(torch.linspace(-2.0, 2.0, 16).reshape(4, 4) @ weight).sum().backward()
        answer = seen.check_backward()

    assert [finding.op for finding in answer.findings] == ["Wrong"]
