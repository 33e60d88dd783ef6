"""Solving, inverses and triangular factors in C: what the interpreter computes, and NaN where it raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import wiregrad as wg
from wiregrad.backends.run_listings import SANITIZER_FLAGS, RunnableListing, run_c
from wiregrad.codegen.element_statements import MAX_MATRIX_SIDE
from wiregrad.errors import NoRuleError, OutputError
from wiregrad.ops.array_ops import ArrayOp

WEIGHTS = np.round(np.random.default_rng(5).normal(size=(30, 30)), 2)
FLAGS = ("-O1", *SANITIZER_FLAGS[1:], "-Wall", "-Wextra", "-Werror", "-Wshadow", "-std=c99")


def weigh(y: Any) -> Any:
    """Return a number to which every element of a matrix or vector contributes in its own way."""
    rows = WEIGHTS[: y.shape[-2], : y.shape[-1]] if len(y.shape) > 1 else WEIGHTS[0, : y.shape[-1]]
    return np.sum(y * y * rows + y)


FUNCTIONS: dict[str, Any] = {
    "solve a vector": lambda a, b: weigh(np.linalg.solve(a, b[..., 0] if len(b.shape) == 2 else b)),
    "solve a matrix": lambda a, b: weigh(np.linalg.solve(a, b)),
    "inv": lambda a, b: weigh(np.linalg.inv(a)) * np.sum(b),
    "det": lambda a, b: np.sum(np.linalg.det(a)) * np.sum(b),
    "slogdet": lambda a, b: np.sum(np.linalg.slogdet(a)[1]) * np.sum(b),
    "cholesky": lambda a, b: weigh(np.linalg.cholesky(a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1]))) * np.sum(b),
    "upper cholesky": lambda a, b: (
        weigh(np.linalg.cholesky(a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1]), upper=True)) * np.sum(b)
    ),
    "triangles": lambda a, b: (
        weigh(scipy.linalg.solve_triangular(a, b)) + weigh(scipy.linalg.solve_triangular(a, b, lower=True))
    ),
    "a factor used twice": lambda a, b: weigh(
        scipy.linalg.cho_solve(scipy.linalg.cho_factor(a @ np.swapaxes(a, -1, -2) + np.eye(a.shape[-1])), b)
    ),
    "a solution in a loop": lambda a, b: np.sum(wg.fori_loop(0, 3, lambda k, x: np.linalg.solve(a, np.tanh(x)), b)),
}
STACKED = ("solve a matrix", "inv", "det", "slogdet", "cholesky", "upper cholesky")
CASES = [(name, (n, n)) for name in FUNCTIONS for n in (1, 2, 3, 6)] + [(name, (2, 3, 3)) for name in STACKED]


def draw_inputs(shape: tuple[int, ...], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) + 2.0 * np.eye(shape[-1]), rng.normal(size=(*shape[:-1], 2))]


def compute_reference(circuit: wg.Circuit, inputs: list[Any]) -> Any:
    run = circuit.run(**dict(zip(circuit.inputs, inputs, strict=True)))
    return np.concatenate([[run.output], *(np.ravel(grad) for grad in run.grads.values())])


def list_c(circuit: wg.Circuit, name: str, **options: Any) -> RunnableListing:
    sizes = tuple(int(np.prod(circuit.type_of(k).shape)) for k in circuit.input_indices())
    return RunnableListing(circuit.to_c(name=name, **options), name, circuit.inputs, sizes=sizes)


def flatten_point(inputs: list[Any]) -> Any:
    return np.concatenate([np.ravel(x) for x in inputs])


def test_values_and_gradients_are_those_of_the_interpreter() -> None:
    circuits = [wg.trace(FUNCTIONS[name], *draw_inputs(shape, 0)).unchecked() for name, shape in CASES]
    points = [[draw_inputs(shape, seed) for seed in (0, 1, 2)] for _, shape in CASES]
    listings = [list_c(circuit, f"f{k}") for k, circuit in enumerate(circuits)]
    rows = run_c(listings, [[flatten_point(x) for x in each] for each in points], flags=FLAGS, per_file=12)

    for case, circuit, inputs, found in zip(CASES, circuits, points, rows, strict=True):
        for point, row in zip(inputs, found, strict=True):
            wanted = compute_reference(circuit, point)
            np.testing.assert_allclose(row, wanted, rtol=1e-10, atol=1e-10 * np.abs(wanted).max(), err_msg=str(case))


SINGULAR = {
    "of zeros": np.zeros((2, 2)),
    "of rank 1": np.array([[1.0, 2.0], [2.0, 4.0]]),
    "with a zero on the diagonal": np.array([[1.0, 2.0], [0.0, 0.0]]),
}


@pytest.mark.parametrize("name", ["solve a matrix", "inv", "triangles"])
def test_everything_is_nan_where_the_interpreter_raises(name: str) -> None:
    f = FUNCTIONS[name]

    # The choice hides the result, which the interpreter refuses to compute all the same.
    def hide(a: Any, b: Any) -> Any:
        return np.where(np.sum(a) > 1e3, f(a, b), np.sum(b))

    right = np.ones((2, 2))
    for each in (f, hide):
        circuit = wg.trace(each, np.eye(2) * 3.0 + 1.0, right)
        points = [[matrix, right] for matrix in SINGULAR.values()]
        is_raised = []
        for matrix, _ in points:
            try:
                compute_reference(circuit, [matrix, right])
                is_raised.append(False)
            except np.linalg.LinAlgError:
                is_raised.append(True)
        (rows,) = run_c([list_c(circuit, "f")], [[flatten_point(x) for x in points]], flags=FLAGS)

        assert np.isnan(rows).all(axis=1).tolist() == is_raised
        assert any(is_raised)


@pytest.mark.parametrize("matrix", [-np.eye(2), np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]])])
def test_a_matrix_without_a_triangular_factor_gives_nan(matrix: Any) -> None:
    circuit = wg.trace(lambda a: np.sum(np.linalg.cholesky(a)), np.eye(2))
    ((row,),) = run_c([list_c(circuit, "f")], [[np.ravel(matrix)]], flags=FLAGS)

    with pytest.raises(np.linalg.LinAlgError):
        circuit(matrix)
    assert np.isnan(row).all()


def test_a_determinant_of_a_singular_matrix_has_a_gradient() -> None:
    circuit = wg.trace(np.linalg.det, np.eye(3))
    matrix = np.arange(9.0).reshape(3, 3) // 2 * np.array([[1.0], [2.0], [1.0]])
    matrix[2] = matrix[0]
    ((row,),) = run_c([list_c(circuit, "f")], [[np.ravel(matrix)]], flags=FLAGS)

    np.testing.assert_allclose(row, compute_reference(circuit, [matrix]), atol=1e-13)


def test_a_determinant_does_not_overflow_on_the_way() -> None:
    circuit = wg.trace(np.linalg.det, np.eye(4))
    ((row,),) = run_c([list_c(circuit, "f")], [[np.ravel(np.diag([1e200, 1e200, 1e-200, 1e-200]))]], flags=FLAGS)

    np.testing.assert_allclose(row[0], 1.0, rtol=1e-12)


def test_a_listing_that_is_cut_into_parts_refuses_too() -> None:
    def iterate(a: Any, b: Any) -> Any:
        x = b
        for k in range(60):
            x = np.linalg.solve(a + 0.1 * k * np.eye(2), np.tanh(x)) * b + np.sin(x)
        return np.sum(x)

    circuit = wg.trace(iterate, np.eye(2), np.ones(2))
    listing = list_c(circuit, "f")
    points = [[np.array([[3.0, 1.0], [1.0, 2.0]]), np.ones(2)], [np.zeros((2, 2)), np.ones(2)]]
    ((good, bad),) = run_c([listing], [[flatten_point(x) for x in points]], flags=FLAGS)

    assert "f_part_2" in listing.text
    np.testing.assert_allclose(good, compute_reference(circuit, points[0]), rtol=1e-9)
    assert np.isnan(bad).all()


def test_floats_call_the_functions_of_floats() -> None:
    circuit = wg.trace(lambda a: np.linalg.slogdet(a)[1] + np.sum(np.linalg.cholesky(a)) + np.linalg.det(a), np.eye(2))
    text = circuit.to_c(real="float")

    assert "fabsf(" in text
    assert "sqrtf(" in text
    assert "ldexpf(" in text
    assert "double" not in text


def test_advice_for_other_languages_can_be_followed() -> None:
    circuit = wg.trace(lambda a, b: np.linalg.solve(a, b)[0], np.eye(2), np.ones(2))

    with pytest.raises(NoRuleError, match=r"use to_c\(\) or to_numpy\(\), which write solve as it is"):
        circuit.to_js()
    with pytest.raises(NoRuleError, match=r"to_c\(\) and to_numpy\(\) write it as it is"):
        circuit.expand()
    assert "solve_2x2" in circuit.to_c()
    assert "np.linalg.solve" in circuit.to_numpy()


def test_the_jacobian_of_a_solution_is_led_to_what_writes_it() -> None:
    circuit = wg.trace(np.linalg.solve, np.eye(2), np.ones(2))
    fast = wg.compile(np.linalg.solve)
    fast(np.eye(2), np.ones(2))

    with pytest.raises(OutputError, match=r"return a list of numbers, or write wg\.compile\(f\), whose to_c"):
        circuit.to_c("jacobian")
    with pytest.raises(OutputError, match="trace the function with numbers in place of arrays"):
        wg.trace(lambda a, b: np.linalg.solve(a, b)[0], np.eye(2), np.ones(2)).to_c("hessian")
    assert "void jacobian(" in fast.to_c("jacobian")


def test_the_head_says_where_results_are_nan() -> None:
    head = wg.trace(lambda a: np.linalg.inv(a)[0, 0], np.eye(2)).to_c().partition("#include")[0]

    assert "// Where inv refuses its matrix (LinAlgError in NumPy), all results are NaN." in head


def test_large_matrices_are_left_to_numpy() -> None:
    circuit = wg.trace(lambda a: np.linalg.inv(a)[0, 0], np.eye(MAX_MATRIX_SIDE + 1))

    with pytest.raises(NoRuleError, match=r"inv of matrices with 201 rows or columns is not written in C.*to_numpy"):
        circuit.to_c()


def test_every_op_that_has_a_function_in_c_is_tested_here() -> None:
    ops = {op.name for op in wg.ir.TABLE if isinstance(op, ArrayOp) and op.c_function is not None}

    assert ops == {"solve", "inv", "det", "adjugate", "slogdet", "cholesky", "solve_triangular"}
