"""Batches on a GPU, on a GPU that is this processor: chunks, layouts, certificates, and what is refused."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.backends.cuda import batches, kernels
from wiregrad.errors import BranchError, DeviceError, InputError, NoRuleError, NotNativeError

from ..support.host_kernels import HostArray, HostGpu, use_host_gpu

FORMULA = "tanh(a * b) + sin(c) * log(1 + a * a) + c ** 3"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> HostGpu:
    return use_host_gpu(monkeypatch)


def draw_points(count: int, width: int = 3, dtype: str = "float64") -> NDArray[Any]:
    return np.random.default_rng(0).normal(size=(count, width)).astype(dtype)


def branching(x: Any, y: Any) -> Any:
    return x * y if x < y else x + y * y


def test_values_and_gradients_are_those_of_the_processor(gpu: HostGpu) -> None:
    circuit = wg.circuit(FORMULA)
    points = draw_points(1000)
    values, grads = circuit.compile(device="cuda").batch_value_and_grad(points)
    wanted = circuit.compile().batch_value_and_grad(points)

    np.testing.assert_allclose(values, wanted[0], rtol=1e-14)
    np.testing.assert_allclose(grads, wanted[1], rtol=1e-13, atol=1e-14)
    assert gpu.launches == [1000]


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_batch_of_many_chunks_is_that_of_one(gpu: HostGpu, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    compiled = wg.circuit(FORMULA).compile(device="cuda")
    points = draw_points(count)
    whole = compiled.batch_value_and_grad(points)
    monkeypatch.setattr(batches, "STAGING_BYTES", 7 * 8 * 13)
    parts = compiled.batch_value_and_grad(points)

    assert_array_equal(parts[0], whole[0])
    assert_array_equal(parts[1], whole[1])
    assert count < 1000 or len(gpu.launches) == 1 + 77


def test_a_failure_in_one_chunk_is_raised_and_its_memory_is_used_again(
    gpu: HostGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = wg.circuit(FORMULA).compile(device="cuda")
    monkeypatch.setattr(batches, "STAGING_BYTES", 7 * 8 * 100)
    good = compiled.batch(draw_points(1000))
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise DeviceError("the copy failed")

        broken.setattr(HostGpu, "copy_to_device", fail)
        with pytest.raises(DeviceError, match="the copy failed"):
            compiled.batch(draw_points(1000))

    assert_array_equal(compiled.batch(draw_points(1000)), good)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_points_on_the_gpu_give_results_on_the_gpu(gpu: HostGpu, order: Any, dtype: str) -> None:
    compiled = wg.circuit(FORMULA).compile(dtype, device="cuda")
    points = draw_points(50, dtype=dtype)
    wanted = compiled.batch_value_and_grad(points)
    values, grads = compiled.batch_value_and_grad(HostArray(np.array(points, order=order)))

    assert_array_equal(values.to_numpy(), wanted[0])
    assert_array_equal(np.asarray(grads), wanted[1])
    assert grads.strides == np.empty((50, 3), dtype, order).strides
    assert (values.shape, grads.shape) == ((50,), (50, 3))


def test_points_on_the_gpu_may_be_any_part_of_a_table(gpu: HostGpu) -> None:
    compiled = wg.circuit(FORMULA).compile(device="cuda")
    table = draw_points(40, 9)
    part = table[1::3, ::3]

    assert_array_equal(compiled.batch(HostArray(part)).to_numpy(), compiled.batch(part))


@pytest.mark.parametrize("order", ["C", "F"])
def test_jacobians_have_a_row_for_every_output(gpu: HostGpu, order: Any) -> None:
    circuit = wg.Circuit.from_text("input a, b\np = multiply a b\ns = sin a\nt = subtract s b\noutput p, s, t")
    points = draw_points(30, 2)
    wanted = circuit.compile().batch_jacobian(points)
    compiled = circuit.compile(device="cuda")

    np.testing.assert_allclose(compiled.batch_jacobian(points), wanted, rtol=1e-14)
    np.testing.assert_allclose(
        compiled.batch_jacobian(HostArray(np.array(points, order=order))).to_numpy(), wanted, rtol=1e-14
    )
    assert wanted.shape == (30, 3, 2)


@pytest.mark.parametrize("where", [np.asarray, HostArray])
def test_points_on_another_branch_are_found(gpu: HostGpu, where: Any) -> None:
    compiled = wg.trace(branching, 1.0, 2.0).compile(device="cuda")
    points = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 1.0], [0.0, 0.5]])
    values, grads = map(np.asarray, compiled.batch_value_and_grad(where(points), check="mark"))

    assert_array_equal(values, [2.0, 12.0, np.nan, 0.0])
    assert_array_equal(grads[[0, 1, 3]], points[[0, 1, 3], ::-1])
    assert np.isnan(grads[2]).all()
    assert_array_equal(np.asarray(compiled.batch(where(points), check=False))[2], 5.0)
    with pytest.raises(BranchError, match="at point 2"):
        compiled.batch(where(points))


def test_jacobians_are_marked_on_another_branch(gpu: HostGpu) -> None:
    compiled = wg.trace(lambda x, y: (branching(x, y), x + y), 1.0, 2.0).compile(device="cuda")
    points = np.array([[1.0, 2.0], [5.0, 1.0]])
    wanted = [[[2.0, 1.0], [1.0, 1.0]], [[np.nan, np.nan], [np.nan, np.nan]]]

    assert_array_equal(compiled.batch_jacobian(points, check="mark"), wanted)
    assert_array_equal(compiled.batch_jacobian(HostArray(points), check="mark").to_numpy(), wanted)


@pytest.mark.parametrize("max_joined_steps", [0, 1000])
def test_a_long_program_runs_in_several_launches_of_its_kernels(
    gpu: HostGpu, monkeypatch: pytest.MonkeyPatch, max_joined_steps: int
) -> None:
    circuit = wg.circuit(FORMULA)
    points = draw_points(100)
    wanted = circuit.compile(device="cuda").batch_value_and_grad(points)
    monkeypatch.setattr(batches, "MAX_SCRATCH_BYTES", 150)
    monkeypatch.setattr(kernels, "MAX_JOINED_STEPS", max_joined_steps)
    monkeypatch.setattr(kernels, "MAX_PLACED_STEPS", 5)
    monkeypatch.setattr(kernels, "MAX_WHOLE_STEPS", 5)
    monkeypatch.setattr(kernels, "NODES_PER_PART", 3)
    gpu.launches.clear()
    values, grads = circuit.compile(device="cuda").batch_value_and_grad(points)

    assert_array_equal(values, wanted[0])
    assert_array_equal(grads, wanted[1])
    assert len(gpu.launches) > 4
    assert max(gpu.launches) < 100


def test_memory_on_the_gpu_is_given_back(gpu: HostGpu) -> None:
    compiled = wg.circuit(FORMULA).compile(device="cuda")
    points = HostArray(draw_points(50))
    compiled.batch_value_and_grad(points)
    gc.collect()
    before = len(gpu.allocated)
    kept = compiled.batch_value_and_grad(points)

    assert len(gpu.allocated) == before + 2
    del kept
    gc.collect()
    assert len(gpu.allocated) == before


@pytest.mark.parametrize(
    ("array", "facts", "message"),
    [
        (draw_points(5, 2), {}, "expected one row of 3 numbers"),
        (draw_points(5, 3, "float32"), {}, "must be float64; got float32"),
        (draw_points(5), {"strides": (24, 4)}, "multiples of 8 bytes"),
        (draw_points(5), {"strides": (-24, 8)}, "multiples of 8 bytes"),
    ],
)
def test_points_on_the_gpu_that_cannot_be_read_in_place_are_refused(
    gpu: HostGpu, array: Any, facts: dict[str, Any], message: str
) -> None:
    compiled = wg.circuit(FORMULA).compile(device="cuda")

    with pytest.raises(InputError, match=message):
        compiled.batch(HostArray(array, **facts))


def test_points_on_another_gpu_are_refused(gpu: HostGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = wg.circuit(FORMULA).compile(device="cuda")
    monkeypatch.setattr(HostGpu, "find_pointer_device", lambda self, address: 1)

    with pytest.raises(InputError, match='compile it with device="cuda:1"'):
        compiled.batch(HostArray(draw_points(5)))


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "", None, 0])
def test_an_unknown_device_is_refused(device: Any) -> None:
    with pytest.raises(InputError, match='device is "cpu", "cuda"'):
        wg.circuit("a * b").compile(device=device)


def test_without_a_driver_the_message_says_what_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LIBRARY_NAMES", ("libcuda-missing.so.1",))
    batches.load_library.cache_clear()
    batches.find_gpu.cache_clear()
    with pytest.raises(DeviceError, match=r"libcuda-missing\.so\.1 cannot be loaded"):
        wg.circuit("a * b").compile(device="cuda")


def test_a_circuit_on_arrays_is_refused_with_what_to_use(gpu: HostGpu) -> None:
    circuit = wg.trace(lambda x: (x * x).sum(), np.ones(3))

    with pytest.raises(NoRuleError, match="to_jax"):
        circuit.compile(device="cuda")


def test_ops_without_native_code_are_refused(gpu: HostGpu) -> None:
    with pytest.raises(NotNativeError):
        wg.circuit("gamma(x)").compile(device="cuda")


def huber(x: Any, width: Any) -> Any:
    return 0.5 * x * x if abs(x) < width else width * (abs(x) - 0.5 * width)


def steps_down(x: Any) -> Any:
    total = 0.0 * x
    while x > 1.0:
        x = x / 2.0
        total = total + x
    return total + x * x


@pytest.mark.parametrize("function", [huber, lambda x, y: branching(x, y) * np.tanh(x)])
def test_batches_of_functions_are_those_of_the_processor(gpu: HostGpu, function: Any) -> None:
    x = draw_points(500, 1)[:, 0]
    fast = wg.compile(function, argnums=(0, 1), device="cuda")
    values, grads = fast.batch_value_and_grad(x, 0.75)
    wanted = wg.compile(function, argnums=(0, 1)).batch_value_and_grad(x, 0.75)

    np.testing.assert_allclose(values, wanted[0], rtol=1e-14)
    np.testing.assert_allclose(grads, wanted[1], rtol=1e-13, atol=1e-15)
    assert sum(gpu.launches) >= 499


def test_rows_on_other_branches_are_computed_by_other_recordings(gpu: HostGpu) -> None:
    x = np.linspace(0.1, 60.0, 400)

    np.testing.assert_allclose(
        wg.compile(steps_down, device="cuda").batch(x), [steps_down(one) for one in x], rtol=1e-14
    )
    assert gpu.launches[0] == 400
    assert 1 < len(gpu.launches) < 10


def test_a_function_for_a_gpu_is_refused_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "LIBRARY_NAMES", ("libcuda-missing.so.1",))
    batches.load_library.cache_clear()
    batches.find_gpu.cache_clear()
    with pytest.raises(DeviceError, match="cannot be loaded"):
        wg.compile(huber, device="cuda")


def test_a_copy_of_a_function_keeps_its_device(gpu: HostGpu) -> None:
    assert copy.copy(wg.compile(huber, device="cuda")).device == "cuda"
