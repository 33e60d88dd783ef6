"""Listings in NumPy: array programs, batches of scalar circuits, dtypes, and functions beside value and gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import NoRuleError, OperandError, OutputError

from ..support.random_circuits import random_circuit, random_point
from ..support.random_programs import random_program


def made(circuit: wg.Circuit, function: str = "value_and_grad") -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(circuit.to_numpy(function), names)
    found: Callable[..., Any] = names[function]
    return found


def assert_same(got: Any, wanted: Any) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-13)


def check_program(seed: int) -> None:
    program = random_program(seed)
    arrays = list(program.inputs.values())
    # Away from the point of the trace, what is compared is the arithmetic of the circuit.
    circuit = wg.trace(program.make_function(np, wg), *arrays).unchecked()
    function, rng = made(circuit), np.random.default_rng(seed)
    zeroed = [np.where(rng.random(np.shape(x)) < 0.2, 0.0, x) for x in arrays]
    for point in (arrays, zeroed):
        run = circuit.run(dict(zip(circuit.inputs, point, strict=True)))
        value, grads = function(*point)

        assert_same(value, run.output)
        assert list(grads) == list(circuit.inputs)
        for name in circuit.inputs:
            assert_same(grads[name], run.grads[name])


@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.full) for block in range(2, 7))])
def test_random_programs_give_the_values_and_gradients_of_their_circuits(block: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for seed in range(15 * block, 15 * (block + 1)):
            check_program(seed)


@pytest.mark.full
@pytest.mark.parametrize("block", range(10))
def test_a_thousand_random_programs_do(block: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for seed in range(100 + 100 * block, 200 + 100 * block):
            check_program(seed)


def test_a_batch_is_what_the_points_give_one_by_one() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        circuit = random_circuit(rng, nodes=12)
        points = [random_point(rng, circuit) for _ in range(6)]
        batch = {name: np.array([point[name] for point in points]).reshape(2, 3) for name in circuit.inputs}
        value, grads = made(circuit)(*batch.values())

        runs = [circuit.run(point) for point in points]
        assert_same(value, np.array([run.output for run in runs]).reshape(2, 3))
        for name in circuit.inputs:
            assert_same(grads[name], np.array([run.grads[name] for run in runs]).reshape(2, 3))


def test_a_gradient_that_is_the_same_at_every_point_still_has_the_shape_of_the_batch() -> None:
    value, grads = made(wg.circuit("y = a + 0 * b"))(np.arange(3.0), 1.0)

    assert value.tolist() == [0.0, 1.0, 2.0]
    assert grads["a"].tolist() == [1.0, 1.0, 1.0]
    assert grads["b"].tolist() == [0.0, 0.0, 0.0]


def test_an_output_that_no_input_moves_has_gradient_0_at_every_point() -> None:
    value, grads = made(wg.circuit("y = 3 + 0 * floor(x)").simplify())(np.array([1.0, 2.0]))

    assert np.shape(value) == (2,)
    assert grads["x"].tolist() == [0.0, 0.0]


def test_float32_stays_float32() -> None:
    def loss(x: Any, w: Any) -> Any:
        return np.sum(np.tanh(x @ w) ** 2 * np.float32(0.3))

    x, w = np.float32([[1, 2], [3, 4]]), np.float32([0.1, -0.2])
    circuit = wg.trace(loss, x, w)
    value, grads = made(circuit)(x, w)
    run = circuit.run(x=x, w=w)

    assert value.dtype == grads["w"].dtype == np.float32
    assert value == run.output
    assert grads["w"].tobytes() == run.grads["w"].tobytes()


def test_a_float64_constant_beside_float32_keeps_its_width() -> None:
    def loss(x: Any) -> Any:
        return np.sum(x * np.float64(0.1))

    x = np.float32([1, 2, 3])
    circuit = wg.trace(loss, x)
    value, _ = made(circuit)(x)

    assert np.asarray(value).dtype == np.float64
    assert value == circuit.run(x=x).output


def test_complex_programs_are_written_too() -> None:
    def loss(x: Any) -> Any:
        z = np.exp(1j * x)
        return np.sum(np.abs(z * z + 0.5))

    x = np.array([0.3, 1.2, -0.4])
    circuit = wg.trace(loss, x)
    value, grads = made(circuit)(x)

    assert_same(value, circuit.run(x=x).output)
    assert_same(grads["x"], circuit.run(x=x).grads["x"])


def test_elements_that_a_slice_left_out_have_no_gradient_even_where_their_slope_is_infinite() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.sqrt(x)[1:])

    circuit = wg.trace(loss, np.array([0.0, 4.0, 9.0]))
    _, grads = made(circuit)(np.array([0.0, 4.0, 9.0]))

    assert grads["x"].tolist() == [0.0, 0.25, 1 / 6]


def test_an_array_of_another_shape_is_refused() -> None:
    circuit = wg.trace(lambda x: np.sum(x * x), np.ones(3))

    with pytest.raises(ValueError, match=r"x must have shape \(3,\); got \(2, 2\)"):
        made(circuit)(np.ones((2, 2)))


def test_derivatives_of_an_array_are_refused_and_its_value_is_not() -> None:
    circuit = wg.trace(np.exp, np.ones(3))

    assert made(circuit, "value")(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(OutputError, match=r"only scalar outputs can be differentiated"):
        circuit.to_numpy()


@pytest.mark.parametrize("language", ["numpy", "python", "c", "js", "cuda"])
def test_a_function_of_the_users_own_cannot_be_written(language: str) -> None:
    class Twice(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2.0 * x

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return 2.0 * upstream

    circuit = wg.trace(lambda x: np.sum(Twice.apply(x)), np.ones(2))
    with pytest.raises(NoRuleError):
        getattr(circuit, f"to_{language}")()


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(OperandError, match="did you mean hessian"):
        wg.circuit("y = x * x").to_python("hesian")


@pytest.mark.parametrize("name", ["", "a b", "1x", "x-y", "é", 3])
def test_names_that_are_no_identifiers_are_refused(name: Any) -> None:
    with pytest.raises(OperandError, match="plain identifier"):
        wg.circuit("y = x * x").to_c(name=name)


@pytest.mark.parametrize("seed", range(12))
def test_hessians_and_jacobians_of_random_circuits_are_those_of_the_circuit(seed: int) -> None:
    rng = np.random.default_rng([5, seed])
    circuit = random_circuit(rng, nodes=8)
    point = random_point(rng, circuit)
    gradient = circuit.backward_circuit()
    value, grads, hessian = made(circuit, "hessian")(*point.values())
    jacobian = made(gradient, "jacobian")(*point.values())
    run = circuit.run(point)

    assert_same(value, run.output)
    for name, label in zip(circuit.inputs, gradient.outputs, strict=True):
        row = gradient.with_output(label).run(point).grads
        assert_same(grads[name], run.grads[name])
        for other in circuit.inputs:
            assert_same(hessian[name][other], row[other])
            assert_same(jacobian[label][other], row[other])
