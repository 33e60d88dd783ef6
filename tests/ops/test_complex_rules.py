"""Complex numbers: their formulas in two real parts, and the rules of decompositions of complex matrices."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest
import scipy.special

import wiregrad as wg
from wiregrad.ops.c_expressions import (
    ComplexExpression,
    InputExpression,
    parse_c_text,
    split_complex_expression,
    write_python_expression,
)

from ..support.call_checks import AcceptedCall, check_call

NUMBERS = {"a": 0.7, "b": -1.3, "r": 1.9}
Z = complex(NUMBERS["a"], NUMBERS["b"])
R = NUMBERS["r"]
INPUTS = {
    "x": ComplexExpression(InputExpression("a"), InputExpression("b")),
    "r": ComplexExpression(InputExpression("r")),
}
FORMULAS: dict[str, complex] = {
    "{x} * sin({r})": Z * math.sin(R),
    "{x} * (-{r})": -Z * R,
    "{x} - {r} / 3.0": Z - R / 3.0,
    "{x} + ({r} < 2.0 ? {r} : 1.0)": Z + R,
    "{r} < 2.0 ? {x} : {r}": Z,
    "{r} / {x}": R / Z,
    "exp({x})": cmath.exp(Z),
    "fabs({x})": abs(Z),
    "{x} == {x}": True,
    "{x} != {x}": False,
}
ROOT = np.array([[0.7, -0.4], [0.2, 1.1]])
TURN = np.array([[1.0 + 0.5j, 0.3 - 0.2j], [-0.7j, 2.0 + 0.1j]])


def evaluate(tree: Any) -> Any:
    """Compute an expression of the numbers."""
    text = write_python_expression(tree).format(**NUMBERS)
    return eval(text, {"math": math, "inf": math.inf})


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_of_complex_numbers_is_two_formulas_of_real_ones(text: str) -> None:
    parts = split_complex_expression(parse_c_text(text), INPUTS)

    assert parts is not None
    imag = 0.0 if parts.imag is None else evaluate(parts.imag)
    assert complex(evaluate(parts.real), imag) == pytest.approx(complex(FORMULAS[text]), rel=1e-14)


@pytest.mark.parametrize("text", ["{x} < {x}", "sin({x}) + {x}", "-({x} < {r})"])
def test_an_order_and_a_sine_of_complex_numbers_have_no_such_form(text: str) -> None:
    assert split_complex_expression(parse_c_text(text), INPUTS) is None


DECOMPOSED: dict[str, AcceptedCall] = {
    "logarithm of a determinant": (lambda x: np.linalg.slogdet(x * TURN)[1], ROOT),
    "sign of a determinant": (lambda x: np.linalg.slogdet(x * TURN)[0].imag, ROOT),
    "singular values": (lambda x: np.linalg.svd(x * TURN)[1], ROOT),
    "sizes of singular vectors": (lambda x: np.abs(np.linalg.svd(x * TURN)[0]) ** 2, ROOT),
    "reduced factors": (lambda x: np.abs(np.linalg.svd((x * TURN)[:, :1], full_matrices=False)[0]), ROOT),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_of_complex_matrices_have_the_gradient_of_differences(name: str) -> None:
    check_call(*DECOMPOSED[name])


@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_of_complex_matrices_have_the_tangent_of_differences(name: str) -> None:
    call, x = DECOMPOSED[name]
    along = np.array([[0.3, 0.8], [-0.5, 0.1]])
    _, tangent = wg.jvp(call, (x,), (along,))

    np.testing.assert_allclose(tangent, (call(x + 1e-6 * along) - call(x - 1e-6 * along)) / 2e-6, rtol=1e-6, atol=1e-8)


def test_the_slope_of_erfcx_in_half_precision_does_not_overflow() -> None:
    x = np.float16(2.0)
    slope = wg.grad(wg.erfcx)(x)

    np.testing.assert_allclose(slope, 4.0 * scipy.special.erfcx(2.0) - 2.0 / math.sqrt(math.pi), rtol=5e-3)
