"""Values beside arrays of PyTorch and JAX: operators and functions refuse, and name the line that called them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import wiregrad as wg
from wiregrad.errors import EscapeError, NoRuleError, OperandError

TENSOR = torch.tensor([1.0, 2.0], dtype=torch.float64)
TRAINED = TENSOR.clone().requires_grad_()
ARRAY = jnp.array([1.0, 2.0])
POINT = np.array([3.0, 4.0])


@pytest.mark.parametrize("other", [TENSOR, TRAINED, ARRAY], ids=["tensor", "trained", "jax"])
@pytest.mark.parametrize(
    "combine",
    [
        lambda a, b: a * b,
        lambda a, b: a + b,
        lambda a, b: a / b,
        lambda a, b: a**b,
        lambda a, b: a @ b,
        lambda a, b: a < b,
    ],
    ids=["mul", "add", "div", "pow", "matmul", "less"],
)
def test_operators_refuse_arrays_of_other_libraries(combine: Callable[[Any, Any], Any], other: Any) -> None:
    with pytest.raises((OperandError, NoRuleError), match=r"test_values_beside_frameworks\.py"):
        wg.grad(lambda v: np.sum(combine(v, other)))(POINT)
    with pytest.raises((OperandError, NoRuleError), match=r"test_values_beside_frameworks\.py"):
        wg.grad(lambda v: np.sum(combine(other, v)))(POINT)


def test_an_array_made_of_a_tensor_is_a_constant() -> None:
    np.testing.assert_array_equal(wg.grad(lambda v: np.sum(v * np.asarray(TENSOR)))(POINT), TENSOR)
    np.testing.assert_array_equal(wg.grad(lambda v: np.sum(np.asarray(ARRAY) * v))(POINT), ARRAY)


@pytest.mark.parametrize(
    "function",
    [
        torch.sin, torch.nn.functional.relu, lambda v: torch.stack([v, v]), TENSOR.add, torch.tensor,
        torch.as_tensor, jnp.sin, jax.nn.relu, jnp.asarray, lambda v: jnp.stack([v, v]), jnp.sum, np.from_dlpack,
        torch.from_dlpack,
    ],
)  # fmt: skip
@pytest.mark.parametrize("point", [POINT, 2.0], ids=["array", "number"])
def test_functions_of_other_libraries_refuse_values(function: Callable[[Any], Any], point: Any) -> None:
    def program(v: Any) -> Any:
        return np.sum(function(v))

    code = getattr(function, "__code__", None)
    is_own = code is not None and code.co_filename == __file__
    line = code.co_firstlineno if is_own else program.__code__.co_firstlineno + 1
    with pytest.raises((NoRuleError, EscapeError)) as caught:
        wg.grad(program)(point)

    assert f"test_values_beside_frameworks.py:{line}" in str(caught.value)


def test_constants_go_out_by_dlpack() -> None:
    value = wg.Value(POINT).detach()

    assert torch.from_dlpack(value).tolist() == [3.0, 4.0]
    assert jnp.from_dlpack(value).tolist() == [3.0, 4.0]
    assert value.__dlpack_device__() == POINT.__dlpack_device__()


def test_what_goes_out_is_a_copy() -> None:
    value = wg.Value(POINT).detach()
    torch.from_dlpack(value)[0] = 9.0

    assert value.data.tolist() == [3.0, 4.0]


def test_the_array_namespace_records() -> None:
    def program(v: Any) -> Any:
        xp = v.__array_namespace__()
        return xp.sum(xp.sin(v))

    np.testing.assert_allclose(wg.grad(program)(POINT), np.cos(POINT))
    with pytest.raises(ValueError, match="Array API"):
        wg.Value(POINT).__array_namespace__(api_version="1999.12")


@pytest.mark.parametrize(
    "transform",
    [
        wg.grad,
        wg.value_and_grad,
        wg.jacobian,
        wg.hessian,
        wg.vmap,
        lambda f: lambda x: wg.jvp(f, (x,), (x,)),
        lambda f: lambda x: wg.trace(f, x),
        lambda f: lambda x: wg.run(f, x),
        lambda f: wg.compile(f).value_and_grad,
    ],
)
def test_a_tensor_is_no_argument_because_its_methods_have_other_meanings(transform: Any) -> None:
    # PyTorch's std divides by n - 1, NumPy's by n.
    with pytest.raises(OperandError, match=r"is a torch\.Tensor, .* pass tensor\.numpy\(\)"):
        transform(lambda x: x.std())(torch.tensor([1.0, 2.0, 4.0]))
