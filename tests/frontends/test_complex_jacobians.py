"""Jacobians by complex arguments: complex derivatives where they are asked for, gradients, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError

Z = np.array([1 + 2j, 0.5 - 1j, -0.3 + 0.1j])
T = np.array([0.2 - 1j, 1.5 + 0.3j, -2 + 0.7j])
MATRIX = np.arange(6.0).reshape(2, 3) * (1 - 0.5j) + 1j

HOLOMORPHIC = [
    pytest.param(lambda z: z**2, id="square"),
    pytest.param(lambda z: np.exp(z) * z, id="exp"),
    pytest.param(lambda z: np.sin(z) / (z + 3), id="quotient"),
    pytest.param(lambda z: MATRIX @ z, id="matrix"),
    pytest.param(lambda z: np.sum(z) * z[0], id="number"),
    pytest.param(lambda z: np.fft.fft(z * z), id="fft"),
    pytest.param(lambda z: np.concatenate([z, z * 1j, np.log(z)]), id="long"),
]
NOT_HOLOMORPHIC = [
    pytest.param(lambda z: z * np.abs(z), id="abs"),
    pytest.param(np.conjugate, id="conjugate"),
    pytest.param(lambda z: z.real + 0j * z, id="real"),
]
TRANSFORMS = [
    pytest.param(wg.jacobian, id="jacobian"),
    pytest.param(wg.jacfwd, id="jacfwd"),
    pytest.param(wg.jacrev, id="jacrev"),
    pytest.param(lambda f, **settings: wg.compile(wg.jacobian(f, **settings)), id="compiled"),
]


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
@pytest.mark.parametrize("f", HOLOMORPHIC)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_holomorphic_jacobians_times_a_tangent_are_jvps(f: Callable[[Any], Any], transform: Callable[..., Any]) -> None:
    matrix = transform(f, holomorphic=True)(Z)

    np.testing.assert_allclose(matrix @ T, wg.jvp(f, (Z,), (T,))[1], rtol=1e-12)


@pytest.mark.parametrize("f", HOLOMORPHIC)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_complex_results_of_complex_arguments_need_holomorphic(
    f: Callable[[Any], Any], transform: Callable[..., Any]
) -> None:
    with pytest.raises(GradientError, match="holomorphic=True"):
        transform(f)(Z)


@pytest.mark.parametrize("f", NOT_HOLOMORPHIC)
@pytest.mark.parametrize("transform", [*TRANSFORMS, wg.hessian])
def test_functions_without_a_complex_derivative_are_refused(
    f: Callable[[Any], Any], transform: Callable[..., Any]
) -> None:
    with pytest.raises(GradientError, match="only if it is complex-differentiable"):
        transform(f)(Z)


def test_jacobians_of_compiled_functions_refuse_complex_results_of_complex_arguments() -> None:
    fast = wg.compile(lambda z: z**2)

    with pytest.raises(GradientError, match="holomorphic=True"):
        fast.jacobian(Z)
    with pytest.raises(GradientError, match="holomorphic=True"):
        fast.value_and_jacobian(Z)
    with pytest.raises(GradientError, match="holomorphic=True"):
        fast.hessian(Z)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_jacobians_of_real_results_are_gradients(transform: Callable[..., Any]) -> None:
    def lengths(z: Any) -> Any:
        return np.abs(z) ** 2

    matrix = transform(lengths)(Z)

    np.testing.assert_allclose(matrix, np.diag(2 * Z), rtol=1e-12)
    np.testing.assert_allclose(np.real(np.conjugate(matrix) @ T), wg.jvp(lengths, (Z,), (T,))[1], rtol=1e-12)
    with pytest.raises(GradientError, match="not complex-differentiable"):
        transform(lengths, holomorphic=True)(Z)


def test_holomorphic_hessians() -> None:
    def cubic(z: Any) -> Any:
        return z[0] ** 3 * z[1] + z[2] ** 2

    wanted = np.zeros((3, 3), complex)
    wanted[0, 0] = 6 * Z[0] * Z[1]
    wanted[0, 1] = wanted[1, 0] = 3 * Z[0] ** 2
    wanted[2, 2] = 2.0

    np.testing.assert_allclose(wg.hessian(cubic, holomorphic=True)(Z), wanted, rtol=1e-12)
    assert wg.hessian(lambda z: z**3, holomorphic=True)(1 + 2j) == pytest.approx(6 + 12j)


def test_hessians_of_real_functions_of_complex_arguments_are_refused() -> None:
    with pytest.raises(GradientError, match=r"wg\.hvp along directions"):
        wg.hessian(lambda z: np.abs(z) ** 4)(1 + 2j)
    with pytest.raises(GradientError, match=r"wg\.hvp along directions"):
        wg.jacobian(wg.hessian(lambda z: np.abs(z) ** 4))(1 + 2j)
    with pytest.raises(GradientError, match="not complex-differentiable"):
        wg.hessian(lambda z: np.abs(z) ** 4, holomorphic=True)(1 + 2j)
    assert wg.hvp(lambda z: np.abs(z) ** 4, 1 + 2j, 1j) == pytest.approx(16 + 52j)


def test_newton_steps_with_complex_jacobians_converge() -> None:
    def residual(z: Any) -> Any:
        return np.stack([z[0] ** 2 - z[1] - 1j, z[0] * z[1] - 2.0])

    z = np.array([1.5 + 0.5j, 1.0 - 0.5j])
    for _ in range(8):
        z = z - np.linalg.solve(wg.jacobian(residual, holomorphic=True)(z), residual(z))

    np.testing.assert_allclose(residual(z), 0.0, atol=1e-12)


def test_holomorphic_jacobians_nest_and_have_containers_and_aux() -> None:
    derivatives, aux = wg.jacobian(lambda p: ({"y": p["z"] ** 2}, "aux"), has_aux=True, holomorphic=True)({"z": Z})
    twice = wg.jacfwd(wg.jacrev(lambda z: z**3, holomorphic=True), holomorphic=True)(1 + 2j)
    length = wg.grad(lambda z: np.abs(wg.jacobian(lambda z: z**2, holomorphic=True)(z)) ** 2)(1 + 2j)

    np.testing.assert_allclose(derivatives["y"]["z"], np.diag(2 * Z), rtol=1e-12)
    assert aux == "aux"
    assert twice == pytest.approx(6 + 12j)
    assert length == pytest.approx(8 * (1 + 2j))
