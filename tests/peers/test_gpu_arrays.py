"""Functions of arrays with `device="cuda"`, with JAX on the processor in the place of a GPU."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import compiled_function
from wiregrad.errors import DeviceError, NoRuleError
from wiregrad.exchange import framework_export


@pytest.fixture(autouse=True)
def no_driver_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_function, "check_device", lambda _device: None)


@pytest.fixture
def jax_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(framework_export, "find_jax_gpu", lambda _device: jax.devices("cpu")[0])
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def network(w: Any, x: Any) -> Any:
    return np.sum(np.maximum(np.tanh(x @ w), 0.0) ** 2) / len(x)


def bend(x: Any) -> Any:
    total = np.sum(x)
    return total * 2.0 if total > 0 else -total * x[0]


def two_results(x: Any) -> Any:
    return {"mean": np.mean(x), "sorted": np.sort(x * 2.0)}


W, X = np.random.default_rng(0).normal(size=(5, 7)), np.random.default_rng(1).normal(size=(40, 5))


@pytest.mark.usefixtures("jax_on_the_processor")
@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (network, [(W, X), (W + 1.0, X), (W * 0.0, X)]),
        (bend, [(np.array([k, 1.0, k]),) for k in (1.0, -2.0, 3.0, -4.0)]),
    ],
)
def test_calls_on_arrays_equal_those_of_the_interpreter(function: Any, calls: list[Any]) -> None:
    fast = wg.compile(function, device="cuda")

    for arguments in calls:
        value, grad = fast.value_and_grad(*arguments)
        wanted, wanted_grad = wg.value_and_grad(function)(*arguments)

        np.testing.assert_allclose(value, wanted, rtol=1e-13)
        np.testing.assert_allclose(grad, wanted_grad, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(fast(*arguments), wanted, rtol=1e-13)
    assert {variant.tier for variant in fast.info.variants} == {"jax"}


@pytest.mark.usefixtures("jax_on_the_processor")
def test_results_keep_their_structure() -> None:
    fast = wg.compile(two_results, device="cuda")
    fast(X[0])

    found = fast(X[1])

    assert type(found["mean"]) is type(wg.compile(two_results)(X[1])["mean"])
    np.testing.assert_allclose(found["sorted"], two_results(X[1])["sorted"])


@pytest.mark.usefixtures("jax_on_the_processor")
def test_jax_without_64_bits_is_refused() -> None:
    jax.config.update("jax_enable_x64", False)

    with pytest.raises(NoRuleError, match=r'call jax.config.update\("jax_enable_x64", True\) first'):
        wg.compile(network, device="cuda")(W, X)


def test_jax_without_a_gpu_is_refused() -> None:
    if jax.default_backend() == "gpu":
        pytest.skip("JAX has a GPU here")

    with pytest.raises(DeviceError, match='device="cuda:1" runs functions of arrays by JAX, which finds no GPU here'):
        wg.compile(network, device="cuda:1")(W, X)


@pytest.mark.usefixtures("jax_on_the_processor")
def test_functions_of_numbers_do_not_need_jax() -> None:
    fast = wg.compile(lambda x: x * x, device="cuda")

    assert fast(3.0) == 9.0
    assert {variant.tier for variant in fast.info.variants} <= {"stencils", "llvm"}
