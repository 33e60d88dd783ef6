"""Arguments that are not plain real arrays: array classes with rules of their own, complex numbers, signs of NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import WiregradError
from wiregrad.ir import TABLE
from wiregrad.ops import Elementwise

MATRIX = [[1.0, 2.0], [3.0, 4.0]]


class Metres(np.ndarray):
    """An array class of a user's own, which may do anything."""


def squared(a: Any) -> Any:
    return (a * a).sum()


USES: dict[str, Callable[[Any], Any]] = {
    "a gradient": wg.grad(squared),
    "a value": wg.Value,
    "a trace": lambda array: wg.trace(squared, array),
    "a run": lambda array: wg.run(squared, array),
    "a map": wg.vmap(squared),
    "a left operand": lambda array: wg.grad(lambda x: (array * x).sum())(np.eye(2)),
    "a right operand": lambda array: wg.grad(lambda x: (x * array).sum())(np.eye(2)),
    "a function's operand": lambda array: wg.grad(lambda x: np.multiply(x, array).sum())(np.eye(2)),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("kind", [np.matrix, np.ma.masked_array, lambda rows: np.array(rows).view(Metres)])
@pytest.mark.parametrize("use", USES)
def test_an_array_with_rules_of_its_own_is_refused(use: str, kind: Any) -> None:
    with pytest.raises(WiregradError, match=r"np.asarray|take its elements"):
        USES[use](kind(MATRIX))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_a_compiled_function_of_a_matrix_runs_itself() -> None:
    assert wg.compile(squared)(np.matrix(MATRIX)) == squared(np.matrix(MATRIX))


def test_arrays_that_compute_as_arrays_do_are_taken(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(2, 2))
    mapped[:] = MATRIX
    fields = np.array(MATRIX).view(np.recarray)

    for array in (mapped, fields):
        np.testing.assert_array_equal(wg.grad(squared)(array), 2 * np.array(MATRIX))


POINTS = [0.7 + 0.4j, -1.3 + 0.6j, 0.3 - 2.1j, -0.4 - 0.9j]
UNARY = [op.name for op in TABLE if isinstance(op, Elementwise) and len(op.inputs) == 1]


def measured(f: Callable[[complex], float], z: complex, step: float = 1e-6) -> complex:
    """Return df/dx + i df/dy from differences."""
    across = (f(z + step) - f(z - step)) / (2 * step)
    along = (f(z + step * 1j) - f(z - step * 1j)) / (2 * step)
    return complex(across, along)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", UNARY)
def test_an_op_of_a_complex_number_has_the_measured_gradient_or_is_refused(name: str, point: complex) -> None:
    def f(z: Any) -> Any:
        return np.real((1.0 - 0.5j) * TABLE[name](z))

    try:
        wanted = measured(lambda z: float(f(np.complex128(z))), point)
    except TypeError:
        with pytest.raises(WiregradError):
            wg.grad(f)(np.complex128(point))
    else:
        assert abs(wg.grad(f)(np.complex128(point)) - wanted) < 1e-6 * max(1.0, abs(wanted))


@pytest.mark.parametrize("z", [1 + 2j, 0j, -3 + 0j, complex(math.inf, 1.0), 1e-320 + 1e-320j, 1e300 - 1e300j])
def test_the_sign_of_a_complex_number_is_numpys(z: complex) -> None:
    number = np.complex128(z)

    assert wg.vjp(np.sign, number)[0] == np.sign(number)
    assert wg.trace(np.sign, number)(x=number) == np.sign(number)


def test_the_sign_of_0_does_not_turn() -> None:
    assert wg.grad(lambda z: np.real(np.sign(z)))(0j) == 0


def test_a_circuit_refuses_the_real_sign_of_a_complex_wire() -> None:
    with pytest.raises(WiregradError, match="sign cannot take complex128"):
        TABLE["sign"].infer((wg.trace(np.conjugate, 1j).type_of(0),))


NAN_MAKERS = [
    "log(x)",
    "sqrt(x)",
    "x ** 0.5",
    "arccosh(x)",
    "log10(x)",
    "0 * (x / 0)",
    "x / 0 - x / 0",
    "arcsin(x * 2)",
]


@pytest.mark.parametrize("text", NAN_MAKERS)
def test_the_sign_of_a_nan_is_the_same_in_every_backend(text: str) -> None:
    circuit = wg.circuit(f"f = copysign(1, {text}) + 0 * x")
    compiled = circuit.compile()

    assert circuit(x=-1.0) == 1.0
    assert compiled(x=-1.0) == 1.0
    assert set(compiled.batch(np.full((100, 1), -1.0)).ravel().tolist()) == {1.0}


@pytest.mark.parametrize("nan", [math.nan, math.copysign(math.nan, -1.0)])
def test_copysign_of_a_recorded_nan_is_positive(nan: float) -> None:
    assert wg.vjp(lambda x: np.copysign(2.0, x), nan)[0] == 2.0
    assert wg.vjp(lambda x: np.copysign(2.0, x), np.array([nan, -1.0]))[0].tolist() == [2.0, -2.0]
