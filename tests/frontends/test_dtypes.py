"""Dtypes of arguments: complex64 is carried like complex128; float16 and long double are refused with the cast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import wiregrad as wg
from wiregrad.errors import GradientError

POINT = np.array([1.0 + 2.0j, 0.5 - 1.0j])
OF_COMPLEX: dict[str, Callable[[Any], Any]] = {
    "exp": lambda z: np.sum(np.abs(np.exp(z)) ** 2),
    "product of parts": lambda z: np.sum(np.real(z * z) * np.imag(z)),
    "determinant": lambda z: np.abs(np.linalg.det(z[:, None] * z + np.eye(2, dtype=np.complex64))),
    "eigenvalues": lambda z: np.sum(np.abs(np.linalg.eigvals(z[:, None] * z[::-1] * np.complex64(0.5))) ** 2),
    "angle": lambda z: np.sum(np.angle(z) * np.abs(z)),
    "weighted": lambda z: np.sum(np.abs(z * np.complex64(1.0 + 2.0j) + 1.0)),
}


@pytest.mark.parametrize("name", OF_COMPLEX)
def test_complex64_has_the_gradients_of_complex128(name: str) -> None:
    f = OF_COMPLEX[name]
    narrow = wg.grad(f)(POINT.astype(np.complex64))

    assert narrow.dtype == np.complex64
    assert_allclose(narrow, wg.grad(f)(POINT), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("name", ["exp", "product of parts", "weighted"])
def test_circuits_carry_complex64(name: str, tmp_path: Path) -> None:
    f = OF_COMPLEX[name]
    z = POINT.astype(np.complex64)
    circuit = wg.trace(f, z)
    circuit.save(tmp_path / "circuit.wg")

    assert "input z: complex64[2]" in str(circuit)
    assert circuit(z) == f(z) == wg.Circuit.from_text(str(circuit))(z) == wg.load(tmp_path / "circuit.wg")(z)
    assert wg.run(f, z).grads["z"].tolist() == wg.grad(f)(z).tolist()


def test_compiled_functions_and_batches_take_complex64() -> None:
    z = POINT.astype(np.complex64)
    fast = wg.compile(OF_COMPLEX["exp"])
    answers = [fast.value_and_grad(z) for _ in range(2)]

    assert [gradient.dtype for _, gradient in answers] == [np.complex64] * 2
    assert len(fast.info.variants) == 1
    assert wg.vmap(lambda z: z * 2.0)(z).tolist() == (z * 2.0).tolist()


@pytest.mark.parametrize(
    ("dtype", "mended"),
    [
        (np.float16, r"x\.astype\(np\.float32\)"),
        (np.longdouble, r"x\.astype\(np\.float64\)"),
        (np.clongdouble, r"x\.astype\(np\.complex128\)"),
    ],
)
def test_other_dtypes_are_refused_with_the_line_to_write(dtype: Any, mended: str) -> None:
    with pytest.raises(GradientError, match=mended):
        wg.grad(np.sum)(np.ones(2, dtype))
    with pytest.raises(GradientError, match=mended):
        wg.Value(np.ones(2, dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble])
def test_arrays_of_other_dtypes_are_operands_as_in_numpy(dtype: Any) -> None:
    weights = np.array([1.0, 2.0], dtype)
    x = np.array([3.0, 4.0])

    assert (wg.Value(x) * weights).dtype == (x * weights).dtype
    assert wg.grad(lambda x: np.sum((x * weights) ** 2))(x).tolist() == [6.0, 32.0]


def test_a_cast_to_float16_rounds_and_passes_the_gradient() -> None:
    value, gradient = wg.value_and_grad(lambda x: np.sum(x.astype(np.float16).astype(float)))(np.array([0.1]))

    assert value == float(np.float16(0.1))
    assert gradient.tolist() == [1.0]
