"""`assume="finite"`: gradients without masks and tests for NaN, for circuits whose numbers are all finite."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.backends.native import batch
from wiregrad.backends.native.step_kinds import MERGE_GRADIENT, BackwardStep, calls_function, lower_backward
from wiregrad.backends.native.tiers import build_program, recompile_with_llvm
from wiregrad.cli.bench.race import random_workload
from wiregrad.codegen import write_listing
from wiregrad.errors import InputError
from wiregrad.ops.c_expressions import BinaryExpression, walk_expression
from wiregrad.passes import simplify, simplify_finite

from ..support.cases import random_case
from ..support.native import at_points, in_batches
from ..support.sampling import choose_count, sample_pairs

FORMULAS = [
    "relu(x)",
    "relu(relu(relu(x) - 1) - y)",
    "maximum(x, y) * minimum(x, y) + x",
    "where(x > 0, x * y, 0) + relu(y)",
    "x + where(y > 0, x, y)",
    "a = where(x > 0, y, 1); b = where(y > 0, a * a, x); maximum(b, a) + b",
    "clip(x, -1, 1) * y + clip(y, x, 2)",
    "sign(x) * y + abs(x)",
    "sin(where(x > y, x, y)) + tanh(relu(x)) * exp(y)",
    "relu(x) ** 2 + relu(-x)",
]
POINTS = [list(point) for point in product((-2.0, -0.5, 0.0, 0.25, 1.0, 3.0), repeat=2)]


def points_of(circuit: Circuit) -> list[list[float]]:
    return [point[: len(circuit.inputs)] for point in POINTS]


def compute_rows(circuit: Circuit, way: str) -> Any:
    lanes = batch.count_lanes(np.dtype(np.float64)) if way == "batch" else 1
    program = build_program(circuit, 0, lanes=lanes, finite=True)
    if way == "batch":
        return in_batches(program, points_of(circuit))
    return at_points(program if way == "stencils" else recompile_with_llvm(program), points_of(circuit))


@pytest.mark.parametrize(("formula", "way"), sample_pairs(FORMULAS, ["stencils", "llvm", "batch"]))
def test_gradients_of_finite_numbers_are_those_of_the_interpreter(formula: str, way: str) -> None:
    circuit = wg.circuit(formula)
    runs = [circuit.run(point) for point in points_of(circuit)]
    wanted = [[run.output, *run.grads.values()] for run in runs]

    np.testing.assert_allclose(compute_rows(circuit, way), wanted, rtol=1e-14)


@pytest.mark.parametrize("formula", FORMULAS)
def test_nothing_is_masked_and_nothing_is_tested_for_nan(formula: str) -> None:
    steps = build_program(wg.circuit(formula), 0, finite=True).stream.list_steps()
    backward = [key for key, _ in steps if isinstance(key, BackwardStep)]

    assert backward
    for key in backward:
        trees = lower_backward(key.kind, sum(1 << slot for slot, way in enumerate(key.ways) if way))
        parts = [part for tree in trees.list_trees() for part in walk_expression(tree)]
        assert not key.masked
        assert MERGE_GRADIENT not in key.ways
        assert all(mask is None for _, _, mask in trees.sent)
        assert not any(
            isinstance(part, BinaryExpression) and part.sign == "!=" and part.left == part.right for part in parts
        )


def test_random_circuits_agree_where_all_numbers_are_finite() -> None:
    compared = 0
    for seed in range(choose_count(40, 300)):
        case = random_case(seed)
        points = [point.inputs for point in case.points if np.isfinite(case.circuit.run(point.inputs).values).all()]
        if points:
            wanted = at_points(build_program(case.circuit, 0), points)
            found = at_points(build_program(case.circuit, 0, finite=True), points)
            # A slope may be infinite where all values are finite.
            right = np.isfinite(found).all(axis=1)
            compared += int(right.sum())

            np.testing.assert_allclose(found[right], wanted[right], rtol=1e-12)

    assert compared > 20


def test_workloads_have_less_code() -> None:
    circuit = random_workload(300, 1).circuit

    assert build_program(circuit, 0, finite=True).code_bytes < 0.95 * build_program(circuit, 0).code_bytes


def test_a_slope_that_is_not_finite_is_what_the_assumption_gives_up() -> None:
    circuit = wg.circuit("where(x > 0, sqrt(x), 0)")

    assert circuit.compile().value_and_grad(x=0.0) == (0.0, {"x": 0.0})
    value, grads = circuit.compile(assume="finite").value_and_grad(x=0.0)
    assert value == 0.0
    assert np.isnan(grads["x"])


def test_every_derivative_takes_the_assumption() -> None:
    circuit = wg.circuit("relu(x * y) + maximum(x, y) ** 2")
    plain = circuit.compile()
    finite = circuit.compile(assume="finite")
    points = [[0.5, 2.0], [-1.0, 3.0]]

    assert finite(x=0.5, y=2.0) == plain(x=0.5, y=2.0)
    np.testing.assert_allclose(finite.jacobian([0.5, 2.0]), plain.jacobian([0.5, 2.0]))
    np.testing.assert_allclose(finite.hessian([0.5, 2.0]), plain.hessian([0.5, 2.0]))
    for one, two in zip(finite.batch_value_and_grad(points), plain.batch_value_and_grad(points), strict=True):
        np.testing.assert_allclose(one, two)


def test_a_circuit_with_a_constant_that_is_not_finite_does_not_use_the_assumption() -> None:
    lines = ["input x", "k = constant nan", "o = constant 0.0", "b = greater x o", "p = multiply x k"]
    circuit = Circuit.from_text("\n".join([*lines, "y = where b x p", "output y"]))

    assert circuit.compile(assume="finite").value_and_grad(x=2.0) == (2.0, {"x": 1.0})


def test_a_batch_without_checks_keeps_the_assumption() -> None:
    traced = wg.trace(lambda x: np.sqrt(np.maximum(x, 0.0)) if x < 5.0 else x, 1.0)
    compiled = traced.compile(assume="finite")

    np.testing.assert_allclose(compiled.batch_value_and_grad([[4.0]], check=False)[1], [[0.25]])


@pytest.mark.parametrize("assume", ["Finite", "", True, 1, np.array(["finite", "x"])])
def test_other_assumptions_are_refused(assume: Any) -> None:
    with pytest.raises(InputError, match='assume is None or "finite"'):
        wg.circuit("x * x").compile(assume=assume)


def test_saved_calls_are_found_in_finite_programs_too() -> None:
    circuit = wg.circuit("sin(a) + sin(b) + sin(c) + sin(d) + relu(sin(e))")
    program = build_program(circuit, 0, finite=True)
    backward = [placed.key for placed in program.stream.keys if isinstance(placed.key, BackwardStep)]

    assert not any(calls_function(key, program.real) for key in backward)


LISTED_FUNCTIONS = ["value_and_grad", "jacobian"]


@pytest.mark.parametrize("function", LISTED_FUNCTIONS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_listings_of_finite_numbers_give_the_gradients_of_the_interpreter(formula: str, function: str) -> None:
    circuit = wg.circuit(formula)
    scope: dict[str, Any] = {}
    exec(write_listing(circuit, "python", function, "f", finite=True), scope)
    for point in points_of(circuit):
        run = circuit.run(point)
        grads = dict(zip(circuit.inputs, run.grads.values(), strict=True))
        found = scope["f"](*point)
        rows = found[1] if function == "value_and_grad" else next(iter(found.values()))

        np.testing.assert_allclose(list(rows.values()), list(grads.values()), rtol=1e-14)


@pytest.mark.parametrize("function", LISTED_FUNCTIONS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_listings_of_finite_numbers_have_neither_masks_nor_nan(formula: str, function: str) -> None:
    circuit = wg.circuit(formula)
    backward = circuit.to_c(function, assume="finite").split("// backward")[1]

    assert "lets through" not in backward
    assert "NAN" not in backward


def test_listings_of_arrays_take_the_assumption() -> None:
    circuit = wg.trace(lambda x: np.sum(np.maximum(x[1:], x[:-1]) * np.where(x > 0.0, x, 0.0)[:2]), np.arange(3.0))
    scope: dict[str, Any] = {}
    exec(write_listing(circuit, "numpy", "value_and_grad", "f", finite=True), scope)
    point = np.array([0.5, -1.0, 2.0])
    value, grads = scope["f"](point)

    assert value == circuit.run(point).output
    np.testing.assert_allclose(grads["x"], circuit.run(point).grads["x"], rtol=1e-14)


def test_random_listings_agree_where_all_numbers_are_finite() -> None:
    compared = 0
    for seed in range(choose_count(20, 300)):
        circuit = random_case(seed).circuit
        scope: dict[str, Any] = {}
        exec(write_listing(circuit, "python", "value_and_grad", "f", finite=True), scope)
        for point in random_case(seed).points:
            run = circuit.run(point.inputs)
            grads = list(run.grads.values())
            if np.isfinite(run.values).all() and np.isfinite(grads).all():
                found = list(scope["f"](*point.inputs)[1].values())
                right = np.isfinite(found)
                compared += int(right.sum())
                np.testing.assert_allclose(np.array(found)[right], np.array(grads)[right], rtol=1e-9, atol=1e-12)

    assert compared > 20


def test_hessian_listings_do_not_use_the_assumption() -> None:
    circuit = wg.circuit("relu(x) * y")

    assert circuit.to_c("hessian", assume="finite") == circuit.to_c("hessian")


def clip_with_branches(x: Any, y: Any) -> Any:
    z = np.maximum(x, y) * x
    if x > y:
        z = np.sqrt(x * x + 1.0) * z
    return z + abs(y)


@pytest.mark.parametrize("way", ["calls", "batch"])
def test_compiled_functions_take_the_assumption(way: str) -> None:
    fast = wg.compile(clip_with_branches, argnums=(0, 1), assume="finite")
    plain = wg.value_and_grad(clip_with_branches, argnums=(0, 1))
    wanted = np.array([[value, *grads] for value, grads in (plain(*point) for point in POINTS)])
    if way == "calls":
        found = np.array([[value, *grads] for value, grads in (fast.value_and_grad(*point) for point in POINTS)])
    else:
        values, slopes = fast.batch_value_and_grad(*np.array(POINTS).T)
        found = np.stack([values, *slopes], 1)

    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert fast.info.variants[0].tier == "stencils"


def test_the_assumption_makes_code_of_functions_shorter() -> None:
    fast = wg.compile(clip_with_branches, assume="finite")
    plain = wg.compile(clip_with_branches)
    for compiled in (fast, plain):
        compiled.value_and_grad(1.0, 2.0)

    assert len(fast.to_c()) < len(plain.to_c())
    assert plain.to_c(assume="finite") == fast.to_c()
    assert "NAN" not in fast.to_c().split("// backward")[1].split("}")[0]


def test_a_copy_of_a_function_keeps_the_assumption() -> None:
    fast = copy.copy(wg.compile(clip_with_branches, assume="finite"))
    fast(1.0, 2.0)

    assert "bool m" not in fast.to_c()


@pytest.mark.parametrize("assume", ["Finite", "", True, 1])
def test_functions_and_listings_refuse_other_assumptions(assume: Any) -> None:
    compiled = wg.compile(clip_with_branches)
    compiled(1.0, 2.0)
    for ask in (
        lambda: wg.compile(clip_with_branches, assume=assume),
        lambda: wg.circuit("x * x").to_c(assume=assume),
        lambda: compiled.to_c(assume=assume),
    ):
        with pytest.raises(InputError, match='assume is None or "finite"'):
            ask()


ZEROS = {
    "x * 0 + y": 0,
    "0 * sin(x) + y * 0 + x": 0,
    "(x + 0) * (y - 0)": 1,
    "0 + (0 + x) * y": 1,
    "0 - x": 1,
    "maximum(x, 0) * y": 2,
    "exp(x * 0) * y": 0,
}


@pytest.mark.parametrize("formula", ZEROS)
def test_structural_zeros_are_dropped_where_all_numbers_are_finite(formula: str) -> None:
    circuit = wg.circuit(formula)
    smaller = simplify_finite(circuit)
    rows = [row for row in smaller.rows() if row.sources]

    assert len(rows) == ZEROS[formula]
    assert smaller.inputs == circuit.inputs
    for point in points_of(circuit):
        assert Circuit(smaller.columns).run(point).output == circuit.run(point).output


def test_zeros_of_infinite_numbers_stay() -> None:
    circuit = wg.circuit("x * 0")

    assert np.isnan(wg.compile(lambda x: x * 0.0)(np.inf))
    assert np.isnan(circuit.compile()(x=np.inf))
    assert len(simplify(circuit)) == 1


def turn_twice(q: Any) -> Any:
    x, y = np.cos(q[0]) * 1.0 + 0.0 * np.sin(q[0]), 0.0 * np.cos(q[1]) + np.sin(q[1])
    return [x * y + 0.0, np.maximum(x, y) - 0.0 * x]


def test_jacobians_of_functions_take_the_assumption() -> None:
    fast = wg.compile(turn_twice, assume="finite")
    for k in range(4):
        point = [0.3 * k, 0.7 - k]
        np.testing.assert_allclose(fast.jacobian(point), wg.jacobian(turn_twice)(point), rtol=1e-14)
        np.testing.assert_allclose(fast.value_and_jacobian(point)[0], turn_twice(point), rtol=1e-14)
