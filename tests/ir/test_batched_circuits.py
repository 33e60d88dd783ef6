"""Circuits on many points at once: every op gives at each point what it gives alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends import interpreter
from wiregrad.dtypes import WireType
from wiregrad.errors import NotNativeError
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder, Op
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.passes.batching import batch_circuit

POINTS = 5
SAMPLED_OPS = [
    op for op in TABLE if isinstance(op, ArrayOp) and op.samples is not None and op.batches and not op.per_call
]


def build_from_op(op: Op, arrays: list[Any]) -> CircuitGraph:
    """Return the circuit of one op."""
    builder = GraphBuilder(finite=False)
    return builder.build(
        builder.apply(op, *[builder.input(f"x{k}", WireType(x.dtype, x.shape)) for k, x in enumerate(arrays)])
    )


def run(circuit: CircuitGraph, arrays: list[Any]) -> list[Any]:
    """Return the outputs of a circuit."""
    with np.errstate(all="ignore"):
        return list(interpreter.evaluate_outputs(circuit, arrays, check=False).values())


def compare_points(circuit: CircuitGraph, arrays: list[Any], shared: list[int]) -> None:
    """Compare a circuit on many points with the circuit at each of them; floats differ from point to point."""
    tables = []
    for k, x in enumerate(arrays):
        steps = np.linspace(1.0, 1.5, POINTS).reshape(POINTS, *[1] * x.ndim)
        table = np.repeat(x[None], POINTS, 0)
        tables.append(x if k in shared else (table * steps).astype(x.dtype) if x.dtype.kind in "fc" else table)
    found = run(batch_circuit(circuit, POINTS, shared), tables)
    for k in range(POINTS):
        wanted = run(circuit, [x if n in shared else x[k] for n, x in enumerate(tables)])
        for one, two in zip(found, wanted, strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_allclose(one[k], two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("op", SAMPLED_OPS, ids=lambda op: op.name)
def test_an_op_gives_at_each_point_what_it_gives_alone(op: ArrayOp) -> None:
    assert op.samples is not None
    *sample, settings = op.samples(np.random.default_rng(0))[0]
    arrays = [np.asarray(x) for x in sample]
    circuit = build_from_op(op.bind(settings) if settings else op, arrays)

    compare_points(circuit, arrays, [])
    for k in range(len(arrays)) if len(arrays) > 1 else ():
        compare_points(circuit, arrays, [k])


def mixed(x: Any, a: Any, w: Any) -> Any:
    hidden = np.tanh(w @ x) * a + np.exp(a)
    return np.interp(hidden, np.linspace(-1.0, 4.0, 6), w[0, 0] * np.arange(6.0)), np.sum(w) * a, np.sort(hidden)[1]


@pytest.mark.parametrize("shared", [[], [0], [1], [2], [0, 2], [1, 2], [0, 1]], ids=str)
def test_a_function_gives_at_each_point_what_it_gives_alone(shared: list[int]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=3), np.array(0.3), rng.normal(size=(4, 3))]

    compare_points(wg.trace(mixed, *arrays), arrays, shared)


def test_what_no_point_changes_is_the_same_at_all_points() -> None:
    circuit = wg.trace(lambda x, a: (x * 2.0, np.exp(a), np.ones(2) * a), np.ones(2), 0.5)
    _, number, row = run(batch_circuit(circuit, 3, shared=[1]), [np.ones((3, 2)), np.array(0.5)])

    np.testing.assert_array_equal(number, np.exp([0.5] * 3))
    np.testing.assert_array_equal(row, np.full((3, 2), 0.5))


def test_choices_at_kinks_are_kept() -> None:
    with wg.convention("jax"):
        gradient = wg.trace(wg.grad(lambda x: np.sum(np.abs(x) * np.maximum(x, 1.0))), np.array([0.0, 1.0]))
    table = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    (found,) = run(batch_circuit(gradient, 3), [table])

    np.testing.assert_array_equal(found, [run(gradient, [row])[0] for row in table])


def test_an_op_for_one_point_alone_is_refused() -> None:
    circuit = wg.trace(lambda row, x: np.searchsorted(row, x) * 1.0, np.arange(3.0), np.array([0.5]))

    with pytest.raises(NotNativeError, match="searchsorted runs on one point alone"):
        batch_circuit(circuit, 2)
