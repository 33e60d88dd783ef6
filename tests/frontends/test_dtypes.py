"""Dtypes of arguments: each has NumPy's values and gradients of its own dtype, or a message that names the cast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.special
import scipy.stats
from numpy.testing import assert_allclose

import wiregrad as wg
from wiregrad.errors import GradientError, NoRuleError, WiregradError

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


HALF = np.array([0.5, 1.5, -2.0], np.float16)
LONG = np.array([0.5, 1.5, -2.0], np.longdouble) / 3
LONG_COMPLEX = LONG + 1j * LONG[::-1]


def smooth(x: Any) -> Any:
    return np.sum(np.tanh(x) * x**2 + np.exp(-x) / 3)


def magnitude(z: Any) -> Any:
    return np.sum(np.abs(np.exp(z) * z) ** 2)


PRECISE = {"float16": (smooth, HALF), "long double": (smooth, LONG), "complex long double": (magnitude, LONG_COMPLEX)}
"""A function and a point for each dtype."""
ROUNDED = {"float16": 5e-3, "long double": 1e-13, "complex long double": 1e-13}


def in_double(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("name", PRECISE)
def test_other_precisions_have_numpys_values_and_gradients_of_their_dtype(name: str) -> None:
    f, x = PRECISE[name]
    value, gradient = wg.value_and_grad(f)(x)

    assert (value, value.dtype) == (f(x), f(x).dtype)
    assert gradient.dtype == x.dtype
    assert_allclose(in_double(gradient), wg.grad(f)(in_double(x)), rtol=ROUNDED[name], atol=ROUNDED[name])


@pytest.mark.parametrize("name", PRECISE)
def test_other_precisions_are_differentiated_twice_forward_and_in_batches(name: str) -> None:
    f, x = PRECISE[name]
    wide = in_double(x)
    _, tangent = wg.jvp(f, (x,), (x,))
    rows = wg.vmap(wg.grad(f))(np.stack([x, x[::-1]]))

    assert rows.dtype == x.dtype
    assert tangent.dtype == f(x).dtype
    near = {"rtol": ROUNDED[name], "atol": 2 * ROUNDED[name]}
    if x.dtype.kind == "c":
        with pytest.raises(GradientError, match="has a complex gradient; its second derivative"):
            wg.hessian(f)(x)
    else:
        hessian = wg.hessian(f)(x)
        assert hessian.dtype == x.dtype
        assert_allclose(in_double(hessian), wg.hessian(f)(wide), **near)
    assert_allclose(float(tangent), wg.jvp(f, (wide,), (wide,))[1], **near)
    assert_allclose(in_double(rows[1]), wg.grad(f)(wide[::-1]), **near)


def test_long_doubles_keep_their_digits() -> None:
    third = np.longdouble(1) / 3

    assert wg.grad(lambda x: x * x)(third) == 2 * third
    assert wg.grad(lambda x: x * x)(third) != 2 * float(third) or np.finfo(np.longdouble).eps == np.finfo(float).eps


def test_sums_of_float16_round_as_numpys_do() -> None:
    x = np.linspace(0.1, 9.0, 3000).astype(np.float16)

    for f in (np.sum, np.mean, np.var, np.std, np.average, np.cumsum, lambda x: np.add.reduceat(x, [0, 70, 900])):
        assert np.array_equal(wg.Value(x).sum().data, x.sum())
        assert np.array_equal(getattr(f(wg.Value(x)), "data", None), f(x))
    assert_allclose(wg.grad(np.mean)(x), np.full(3000, 1 / 3000), rtol=1e-3)


@pytest.mark.parametrize("name", PRECISE)
def test_circuits_carry_other_precisions(name: str) -> None:
    f, x = PRECISE[name]
    circuit = wg.trace(f, x)

    assert circuit(x) == circuit.simplify()(x) == f(x)
    assert circuit.run(x).grads[circuit.inputs[0]].tolist() == wg.grad(f)(x).tolist()
    assert circuit.compile().value_and_grad(x)[1].tolist() == wg.grad(f)(x).tolist()
    assert circuit.compile().info.tier == "interpreter"


def test_float16_is_stored_and_listed(tmp_path: Path) -> None:
    circuit = wg.trace(smooth, HALF)
    circuit.save(tmp_path / "circuit.wg")
    namespace: dict[str, Any] = {}
    exec(circuit.to_numpy(), namespace)
    listed = namespace["value_and_grad"](HALF)

    assert "input x: float16[3]" in str(circuit)
    assert wg.Circuit.from_text(str(circuit)) == wg.Circuit.from_json(circuit.to_json()) == circuit
    assert wg.load(tmp_path / "circuit.wg")(HALF) == smooth(HALF)
    assert (listed[0], listed[0].dtype) == (smooth(HALF), HALF.dtype)
    assert listed[1]["x"].tolist() == wg.grad(smooth)(HALF).tolist()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, np.float16(6e-8), -0.0])
def test_constants_of_float16_are_stored_with_all_bits(number: Any) -> None:
    weights = np.array([number, 0.1], np.float16)
    circuit = wg.trace(lambda x: x * weights, HALF[:2])

    assert wg.Circuit.from_text(circuit.to_text()) == circuit
    assert wg.Circuit.from_json(circuit.to_json()) == circuit


@pytest.mark.parametrize("name", ["long double", "complex long double"])
@pytest.mark.parametrize("write", ["to_text", "to_json", "to_numpy", "to_c"])
def test_long_doubles_are_not_stored_and_the_message_names_the_cast(name: str, write: str) -> None:
    f, x = PRECISE[name]
    cast = "complex128" if x.dtype.kind == "c" else "float64"

    with pytest.raises(WiregradError, match=rf"x\.astype\(np\.{cast}\)"):
        getattr(wg.trace(f, x), write)()


def test_c_lists_no_float16_and_names_to_numpy() -> None:
    with pytest.raises(NoRuleError, match="use to_numpy"):
        wg.trace(smooth, HALF).to_c()
    with pytest.raises(NoRuleError, match="use to_numpy"):
        wg.trace(lambda x: x * x, np.float16(2)).to_js()


def test_native_code_leaves_float16_to_the_interpreter_and_says_so() -> None:
    compiled = wg.trace(lambda x: x * x, np.float16(0.1)).compile()

    assert compiled(x=0.1) == float(np.float16(0.1) ** 2) != 0.1**2
    assert "this circuit has float16" in compiled.info.reason


@pytest.mark.parametrize(("dtype", "cast"), [(np.float16, "float32"), (np.longdouble, "float64")])
@pytest.mark.parametrize(
    "f",
    [
        np.linalg.inv,
        lambda x: np.linalg.solve(x, x),
        scipy.special.erf,
        scipy.special.i0,
        scipy.special.softmax,
        scipy.linalg.expm,
        scipy.stats.norm.logpdf,
        scipy.fft.dct,
        lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
    ],
)
def test_functions_that_cannot_take_a_precision_name_the_cast(f: Callable[[Any], Any], dtype: Any, cast: str) -> None:
    with pytest.raises(TypeError, match=rf"x\.astype\(np\.{cast}\)"):
        f(wg.Value(np.eye(2, dtype=dtype)))

    assert f(wg.Value(np.eye(2, dtype=dtype)).astype(getattr(np, cast))).shape == (2, 2)


INTEGERS = [np.int8, np.int16, np.int32, np.uint8, np.uint64]
BESIDE: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, k: x * k,
    "sum": lambda x, k: k + x,
    "matrix product": lambda x, k: x @ k,
    "joined": lambda x, k: np.concatenate([x, k]),
    "chosen": lambda x, k: np.where(x > 0.3, x, k),
    "index": lambda x, k: x[k - 2] * 3,
}


@pytest.mark.parametrize("integer", INTEGERS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_whole_numbers_beside_a_narrow_float_promote_as_in_numpy(integer: Any, dtype: Any) -> None:
    x = np.array([0.1, 0.7], dtype)
    k = np.array([3, 2], integer)

    for name, f in BESIDE.items():
        wanted = np.atleast_1d(f(x, k))
        got = np.atleast_1d(f(wg.Value(x), k))
        repeated = wg.trace(lambda x, f=f: np.atleast_1d(f(x, k)), x)(x)
        assert (got.data.tolist(), got.dtype) == (wanted.tolist(), wanted.dtype), name
        assert (repeated.tolist(), repeated.dtype) == (wanted.tolist(), wanted.dtype), name


def test_a_batch_of_complex_numbers_is_refused() -> None:
    with pytest.raises(NoRuleError, match=r"use wg\.vmap"):
        wg.trace(lambda z: z * z, 1.0 + 2.0j).compile().batch([[1.0 + 2.0j]])


@pytest.mark.parametrize("x", [np.ones(2, np.complex64), np.ones(2, np.float32), np.ones(2, np.longdouble)])
def test_sort_complex_has_numpys_dtype(x: Any) -> None:
    assert np.sort_complex(wg.Value(x)).dtype == np.sort_complex(x).dtype


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


OF_CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda x: np.sum(np.exp(x > 0.0) * x),
    "angle": lambda x: np.sum(np.arctan2(x > 0.0, x > 1.0) * x),
    "length": lambda x: np.sum(np.hypot(x > 0.0, True) * x),
    "cast": lambda x: np.sum((x > 0.0).astype(np.float16) * x),
}


@pytest.mark.parametrize("name", OF_CONDITIONS)
def test_functions_of_conditions_are_coarse_constants_as_in_numpy(name: str) -> None:
    f = OF_CONDITIONS[name]
    x = np.array([0.5, -1.0, 2.0])

    assert wg.value_and_grad(f)(x)[0] == wg.trace(f, x)(x) == f(x)
    assert wg.grad(f)(x).tolist() == wg.run(f, x).grads["x"].tolist()
