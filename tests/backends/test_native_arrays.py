"""Circuits on arrays in native code: every op, layout and random program against the interpreter."""

from __future__ import annotations

import sys
import tracemalloc
import weakref
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import wiregrad as wg
from wiregrad.backends import interpreter
from wiregrad.backends.native import batch, jit
from wiregrad.backends.native_arrays import array_program, lowering, stream_kernels
from wiregrad.backends.native_arrays.array_program import (
    ArrayEngine,
    ArrayProgram,
    ExpandedProgram,
    GradientProgram,
    has_arrays,
)
from wiregrad.backends.native_arrays.loop_kernels import LINE_BYTES, PAGE_BYTES, STREAMED, LoopKernel
from wiregrad.dtypes import WireType
from wiregrad.errors import BranchError, CircuitError, InputError, NoRuleError, NotNativeError
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder, Op, Pattern, Port
from wiregrad.ir.certificates import add_check_outputs
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.gradient_flow import fill_absent, match_shape
from wiregrad.passes import expand_unnamed, sweep_ports

from ..support.compare import ARRAY_LAYOUTS, copy_in_layout
from ..support.memory import measure_least_growth, read_resident_bytes
from ..support.random_programs import random_program
from ..support.sampling import choose_count, sample_pairs, sample_some
from ..support.threads import run_in_threads

TABLE.load_deferred()
ELEMENTWISE_OPS = [
    op
    for op in TABLE
    if isinstance(op, Elementwise) and op.c and not (op.per_call or op.opaque) and op.pattern is not Pattern.SOURCE
]
SAMPLED_OPS = [op for op in TABLE if isinstance(op, ArrayOp) and op.samples is not None and not op.per_call]
EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-300, -1e300, 5e-324, 0.5, 37.0, -745.2, 709.9, 1e17)
RELATIVE = {"float64": 1e-12, "float32": 1e-4}
"""How far native results may be from those of the interpreter, relative to the largest number of a result."""


def build_from_op(op: Op, arrays: Sequence[Any], settings: dict[str, Any], *, summed: bool = False) -> CircuitGraph:
    """Return the circuit of one op; with `summed`, a weighted sum of its result."""
    builder = GraphBuilder(finite=False)
    ports = [builder.input(f"x{k}", WireType(x.dtype, x.shape)) for k, x in enumerate(arrays)]
    y = builder.apply(op.bind(settings) if settings else op, *ports)
    kind = builder.type_of(y)
    if summed:
        weights = np.random.default_rng(0).normal(size=kind.shape).astype(kind.dtype)
        y = builder.apply(TABLE["multiply"], y, builder.place_constant(weights[()]))
        if kind.shape:
            axes = tuple(range(-len(kind.shape), 0))
            y = builder.apply(TABLE["sum"].bind({"axes": axes, "keepdims": False}), y)
    return builder.build(y)


def assert_close(found: Any, wanted: Any, relative: float | None = None) -> None:
    """Compare dtype, shape and numbers; NaN and infinities must be in the same places."""
    found, wanted = np.asarray(found), np.asarray(wanted)

    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)

    if wanted.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, wanted)
        return
    relative = RELATIVE[wanted.real.dtype.name] if relative is None else relative
    largest = np.max(np.where(np.isfinite(wanted), np.abs(wanted), 0.0), initial=1.0)
    np.testing.assert_allclose(found, wanted, rtol=relative, atol=relative * largest)


def assert_same_values(circuit: CircuitGraph, arguments: Sequence[Any]) -> ArrayProgram:
    """Run a circuit natively, with fences, and compare it with the interpreter."""
    wanted = interpreter.evaluate_outputs(circuit, list(arguments), check=False)
    program = ArrayProgram(circuit, fenced=True)
    for found, (label, value) in zip(program.run(arguments), wanted.items(), strict=True):
        try:
            assert_close(found, value)
        except AssertionError as error:
            raise AssertionError(f"output {label}: {error}") from None
    return program


def assert_same_gradient(circuit: CircuitGraph, arguments: Sequence[Any]) -> None:
    """Compare value and gradient of a circuit, computed natively, with the interpreter."""
    run = interpreter.run_circuit(circuit, list(arguments), check=False)
    value, grads = ArrayEngine(circuit, gradient=True).compute_gradient(arguments)

    assert_close(value, run.values[circuit.root()])
    for node, grad in zip(circuit.input_indices(), grads, strict=True):
        assert_close(grad, run.gradient(node))


def draw_points(op: Elementwise, dtype: type[np.floating]) -> list[Any]:
    """Return an array for each input of an op: its samples, and combinations of unusual numbers."""
    others = [EDGES[:7], *[[1.5]] * (len(op.inputs) - 2)] if len(op.inputs) > 1 else []
    points = [*op.sample_points, *product(EDGES, *others)]
    columns = [
        np.array([bool(x) if name in op.takes_bool else float(x) for x in column])
        for name, column in zip(op.inputs, zip(*points, strict=True), strict=True)
    ]
    with np.errstate(over="ignore"):
        return [column if column.dtype == np.bool_ else column.astype(dtype) for column in columns]


@cache
def compute_elementwise_ops(dtype: type[np.floating]) -> dict[str, tuple[Any, Any]]:
    """Return what native code and the interpreter compute for every elementwise op, all in one circuit."""
    builder = GraphBuilder(finite=False)
    arguments: list[Any] = []
    labels = {}
    for op in ELEMENTWISE_OPS:
        arrays = draw_points(op, dtype)
        ports = [builder.input(f"{op.name}_{k}", WireType(array.dtype, array.shape)) for k, array in enumerate(arrays)]
        labels[op.name] = builder.apply(op, *ports)
        arguments += arrays
    circuit = builder.build(labels=labels)
    wanted = interpreter.evaluate_outputs(circuit, arguments)
    program = ArrayProgram(circuit, fenced=True)

    assert not program.facts.interpreted
    return {name: (found, wanted[name]) for name, found in zip(wanted, program.run(arguments), strict=True)}


@pytest.mark.parametrize("op", ELEMENTWISE_OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_elementwise_ops_are_within_the_error_that_their_records_allow(
    op: Elementwise, dtype: type[np.floating]
) -> None:
    found, wanted = compute_elementwise_ops(dtype)[op.name]
    same = (
        (found == wanted) & (np.signbit(found) == np.signbit(wanted)) if wanted.dtype.kind == "f" else found == wanted
    )
    if wanted.dtype.kind == "f":
        same |= np.isnan(found) & np.isnan(wanted)
        with np.errstate(all="ignore"):
            same |= np.abs(found.astype(np.longdouble) - wanted) <= max(op.ulps, 4.0) * np.spacing(np.abs(wanted))

    assert found.dtype == wanted.dtype
    assert same.all(), (found[~same][:3], wanted[~same][:3])


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "negative", "sqrt", "maximum", "absolute"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arithmetic_has_the_same_bits(name: str, dtype: type[np.floating]) -> None:
    found, wanted = compute_elementwise_ops(dtype)[name]
    nan = np.isnan(found) & np.isnan(wanted)

    np.testing.assert_array_equal(found.view(f"u{found.itemsize}")[~nan], wanted.view(f"u{found.itemsize}")[~nan])


def list_samples(op: ArrayOp) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    assert op.samples is not None
    for *arrays, settings in op.samples(np.random.default_rng(0)):
        yield [np.asarray(x) for x in arrays], settings


@pytest.mark.parametrize("op", SAMPLED_OPS, ids=lambda op: op.name)
def test_array_ops_equal_the_interpreter_at_their_samples(op: ArrayOp) -> None:
    for arrays, settings in list_samples(op):
        assert_same_values(build_from_op(op, arrays, settings), arrays)


@pytest.mark.parametrize("op", SAMPLED_OPS, ids=lambda op: op.name)
def test_gradients_of_array_ops_equal_the_interpreter_at_their_samples(op: ArrayOp) -> None:
    for arrays, settings in [*list_samples(op)][:: choose_count(4, 1)]:
        kind = build_from_op(op, arrays, settings)
        if any(x.dtype.kind == "c" for x in arrays) or kind.type_of(kind.root()).dtype.kind != "f":
            continue
        try:
            assert_same_gradient(build_from_op(op, arrays, settings, summed=True), arrays)
        except NotNativeError as error:
            # Only where nothing at all is left to compute natively.
            assert "native code would compute nothing" in str(error)


def use_views(x: Any, y: Any, z: Any) -> Any:
    """Return a mixture of slices, transposes, reversals, broadcasts and reductions."""
    turned = x.T[::-1, 1:3]
    rows = np.reshape(np.transpose(y, (2, 0, 1)), (4, 6)) * z
    part = rows[::2, ::-2] - turned[:2, :1]
    stacked = np.concatenate([part, rows[:1, :3]], axis=0)
    return np.sum(np.exp(stacked * 0.1)) + np.sum(np.max(rows, axis=0) * np.sum(x)) + x[-1, -1]


def draw_view_arguments() -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=(4, 5)), rng.normal(size=(2, 3, 4)), rng.normal(size=6)]


@pytest.mark.parametrize("layout", ARRAY_LAYOUTS)
def test_arguments_may_have_any_layout(layout: str) -> None:
    arguments = draw_view_arguments()
    circuit = wg.trace(use_views, *arguments)

    assert_same_values(circuit, [copy_in_layout(x, layout) for x in arguments])
    assert_same_gradient(circuit, [copy_in_layout(x, layout) for x in arguments])


def test_arguments_may_share_memory() -> None:
    base = np.arange(12.0)
    circuit = wg.trace(lambda a, b: np.sum(a * b) + np.sum(a - b), base[:8], base[4:])

    assert_same_gradient(circuit, [base[:8], base[4:]])
    assert_same_gradient(circuit, [base[:8][::-1], base[:8]])


def test_results_are_new_arrays() -> None:
    x = np.arange(3.0)
    program = ArrayProgram(wg.trace(lambda x: (x, x * 2.0, x.reshape(3, 1)), x))
    first = program.run([x])
    second = program.run([x])

    for one, two in product(first, [x, *second]):
        assert not np.shares_memory(one, two)
    first[0][:] = 7.0
    np.testing.assert_array_equal(program.run([x])[0], [0.0, 1.0, 2.0])


def hold_view(result: Any) -> Any:
    return result[1:3]


def hold_buffer(result: Any) -> Any:
    return memoryview(result)


@pytest.mark.parametrize("hold", [hold_view, hold_buffer, np.ravel, weakref.ref, lambda result: [result]])
def test_memory_of_a_result_that_is_still_in_use_is_not_recycled(hold: Any) -> None:
    x = np.arange(40_000.0)
    program = ArrayProgram(wg.trace(lambda x: x * 2.0, x))
    held = [hold(program.run([x + k])[0]) for k in range(5)]
    for _ in range(6):
        program.run([x - 1000.0])

    for k, thing in enumerate(held):
        if isinstance(thing, weakref.ref):
            assert thing() is None or thing()[1] == 2.0 * (k + 1)
        else:
            first = np.ravel(np.asarray(thing))[:4]
            offset = 1 if hold is hold_view else 0
            assert first[0] == 2.0 * (k + offset)


def test_memory_of_results_that_nobody_holds_is_used_again() -> None:
    x = np.arange(40_000.0)
    program = ArrayProgram(wg.trace(lambda x: x * 2.0, x))
    addresses = {program.run([x])[0].ctypes.data for _ in range(20)}

    assert len(addresses) <= 2
    changed = program.run([x])[0]
    changed.setflags(write=False)
    del changed
    assert program.run([x])[0].flags.writeable


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("shape", "axis"), [((1000,), 0), ((7, 33), 0), ((7, 33), 1), ((3, 9, 5), 1)], ids=str)
def test_running_sums_have_the_bits_of_numpy(shape: Any, axis: int, dtype: type[np.floating]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    (found,) = ArrayProgram(wg.trace(lambda x: np.cumsum(x, axis=axis), x), fenced=True).run([x])

    np.testing.assert_array_equal(found, np.cumsum(x, axis=axis))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 17, 1023, 1024, 1025, 4099])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_of_every_length_are_complete(size: int, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(size)
    x, y = rng.normal(size=(2, size)).astype(dtype)

    def compute(x: Any, y: Any) -> Any:
        z = np.tanh(x * y) + x
        return z, np.sum(z), np.sum(x * x), z > 0.5

    program = assert_same_values(wg.trace(compute, x, y), [x, y])
    assert not program.facts.interpreted


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1, 9), (1, 17, 2), (5, 4, 1)], ids=str)
def test_reductions_work_along_any_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)

    def reduce_all(x: Any) -> Any:
        y = x * 2.0
        kept = np.sum(y, axis=axes, keepdims=True)
        return kept, np.max(y, axis=axes), np.min(x, axis=axes), np.prod(y - kept, axis=axes), np.any(y > 0, axis=axes)

    program = assert_same_values(wg.trace(reduce_all, x), [x])
    assert not program.facts.interpreted


def test_sums_of_many_small_floats_stay_accurate() -> None:
    x = np.full(1_000_003, 0.1, np.float32)
    (total,) = ArrayProgram(wg.trace(np.sum, x)).run([x])

    # Adding one number after the other would be wrong by one percent.
    assert abs(float(total) / 100000.3 - 1.0) < 1e-5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3, 4)),
        ((1, 3), (3, 1)),
        ((3, 1), (1, 3)),
        ((5, 2, 3), (5, 3, 2)),
        ((2, 3, 4, 5), (2, 3, 5, 1)),
        ((2, 0), (0, 3)),
        ((0, 2), (2, 3)),
        ((33, 17), (17, 65)),
    ],
    ids=str,
)
def test_matrix_products_read_transposed_and_sliced_factors(a: Any, b: Any, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=a).astype(dtype)
    y = rng.normal(size=b).astype(dtype)

    def multiply(x: Any, y: Any) -> Any:
        turned = np.swapaxes(np.swapaxes(y, -1, -2) @ np.swapaxes(x, -1, -2), -1, -2)
        return x @ y, turned, x[..., ::-1, :] @ y, (x * 2.0)[..., :, ::-1] @ y[..., ::-1, :]

    program = assert_same_values(wg.trace(multiply, x, y), [x, y])
    assert not program.facts.interpreted


TRANSPOSED_READERS = {
    "result": lambda y, m: y,
    "loop": lambda y, m: 0.9 * m + np.tanh(y),
    "loop and result": lambda y, m: (y, m * y),
    "sum": lambda y, m: np.sum(y, axis=1),
    "product": lambda y, m: y @ m.T,
    "sum of a loop": lambda y, m: np.sum(m - y, axis=0),
    "slice": lambda y, m: y[1:] + m[1:],
}


@pytest.mark.parametrize("shape", [(5, 3, 4), (2, 1, 3), (3, 4, 1), (40, 33, 17)], ids=str)
@pytest.mark.parametrize("name", TRANSPOSED_READERS)
def test_transposed_products_equal_the_interpreter(name: str, shape: tuple[int, int, int]) -> None:
    n, k, m = shape
    rng = np.random.default_rng(0)
    a, b, kept = rng.normal(size=(k, n)), rng.normal(size=(k, m)), rng.normal(size=(n, m))
    read = TRANSPOSED_READERS[name]

    assert_same_values(wg.trace(lambda a, b, kept: read((b.T @ a).T, kept), a, b, kept), [a, b, kept])
    assert_same_values(wg.trace(lambda a, b, kept: (read((b.T @ a).T, kept), b.T @ a), a, b, kept), [a, b, kept])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("rows", "copied"), [(lowering.MIN_TURNED_ROWS, True), (lowering.MIN_TURNED_ROWS - 1, False), (20_000, False)]
)
def test_small_transposed_second_factors_are_copied(rows: int, copied: bool, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(3, rows, 10)).astype(dtype), rng.normal(size=(3, 7, 10)).astype(dtype)

    def multiply(x: Any, w: Any) -> Any:
        return x @ np.swapaxes(w, -1, -2)

    circuit = wg.trace(multiply, x, w)
    (product,) = (step for step in lowering.lower_circuit(circuit).steps if isinstance(step, lowering.MatrixProduct))

    assert (product.b.strides[-1] == 1) == copied
    assert_same_values(circuit, [x, w])


def test_the_gradient_of_a_turned_matrix_is_written_to_the_result() -> None:
    w, x = np.ones((50, 60)), np.ones((70, 60))
    circuit = wg.trace(lambda w, x: wg.grad(lambda w: np.sum(np.tanh(x @ w.T)))(w), w, x)
    products = [step for step in lowering.lower_circuit(circuit).steps if isinstance(step, lowering.MatrixProduct)]

    assert products[-1].target.storage.role == lowering.RESULT


MOVED_OPS = {
    "one": lambda x, m: 0.9 * m + x @ m,
    "two": lambda x, m: 0.9 * m + (x @ m) * (m - 1.0),
    "twice in one loop": lambda x, m: (np.exp(m), x @ m + 2.0 * m),
    "result too": lambda x, m: ((half := 0.5 * m), half - x @ m),
    "two readers": lambda x, m: ((half := 0.5 * m) * (x @ m), half + x @ np.tanh(m)),
    "same number": lambda x, m: +m * (x @ m),
    "composite": lambda x, m: wg.logaddexp(np.exp(m), x @ m),
    "two arrays": lambda x, m: m * m[::-1] + x @ m,
    "after another product": lambda x, m: np.tanh(x @ m) + x @ (x @ m),
}


@pytest.mark.parametrize("name", MOVED_OPS)
def test_ops_that_move_to_the_loop_that_reads_them_equal_the_interpreter(name: str) -> None:
    rng = np.random.default_rng(0)
    x, m = rng.normal(size=(30, 30)), rng.normal(size=(30, 20))

    assert_same_values(wg.trace(MOVED_OPS[name], x, m), [x, m])


def test_a_scaled_array_is_not_stored_before_it_is_read() -> None:
    x, m = np.ones((30, 30)), np.ones((30, 20))
    program = ArrayProgram(wg.trace(lambda x, m: 0.9 * m + np.tanh(x @ m), x, m))

    assert program.facts.workspace_bytes < 1.2 * m.nbytes


def convolve_by_einsum(x: Any, w: Any) -> Any:
    return np.einsum("nchwij,ocij->nohw", sliding_window_view(x, (3, 3), axis=(2, 3)), w)


def convolve_by_tensordot(x: Any, w: Any) -> Any:
    return np.tensordot(w, sliding_window_view(x, (3, 3), axis=(2, 3)), axes=([1, 2, 3], [1, 4, 5]))


def convolve_by_matmul(x: Any, w: Any) -> Any:
    windows = np.transpose(sliding_window_view(x, (3, 3), axis=(2, 3)), (0, 2, 3, 1, 4, 5))
    n, height, width = windows.shape[:3]
    rows = np.reshape(windows, (n * height * width, -1))
    return np.reshape(rows @ np.reshape(w, (w.shape[0], -1)).T, (n, height, width, -1))


def convolve_with_channels_last(x: Any, w: Any) -> Any:
    turned = np.transpose(x, (0, 2, 3, 1))
    return np.einsum("nhwcij,ocij->nhwo", sliding_window_view(turned, (3, 3), axis=(1, 2)), w)


def convolve_with_stride(x: Any, w: Any) -> Any:
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1))), (3, 3), axis=(2, 3))[:, :, ::2, ::-1]
    return np.einsum("nchwij,ocij->nohw", windows, w)


def convolve_rows(x: Any, w: Any) -> Any:
    return np.einsum("nchwj,ocj->nohw", sliding_window_view(x, 3, axis=3), w[:, :, 1, :])


def convolve_twice(x: Any, w: Any) -> Any:
    windows = np.transpose(sliding_window_view(x, (3, 3), axis=(2, 3)), (0, 2, 3, 1, 4, 5))
    rows = np.reshape(windows, (-1, 9 * x.shape[1]))
    product = rows @ np.reshape(w, (w.shape[0], -1)).T
    return product * np.sum(rows, axis=1)[:, None] + np.max(product)


CONVOLUTIONS = [
    convolve_by_einsum,
    convolve_by_tensordot,
    convolve_by_matmul,
    convolve_with_channels_last,
    convolve_with_stride,
    convolve_rows,
    convolve_twice,
]


def shrink_blocks(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """Let small arrays be computed in blocks, so that there are several, and the last one may be shorter."""
    monkeypatch.setattr(lowering, "MIN_BLOCKED_BYTES", 0)
    monkeypatch.setattr(lowering, "BLOCK_BYTES", nbytes)


@pytest.mark.parametrize(("convolve", "shape"), sample_pairs(CONVOLUTIONS, [(5, 2, 6, 7), (3, 1, 5, 5), (1, 4, 4, 3)]))
def test_convolutions_in_blocks_equal_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, convolve: Any, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape), rng.normal(size=(4, shape[1], 3, 3))
    circuit = wg.trace(lambda x, w: np.sum(np.tanh(convolve(x, w)) ** 2), x, w)
    for nbytes in (1, 2000, 1 << 20):
        shrink_blocks(monkeypatch, nbytes)
        assert_same_gradient(circuit, [x, w])


def test_large_convolutions_are_computed_in_blocks() -> None:
    x = np.random.default_rng(0).normal(size=(9, 8, 16, 16)).astype(np.float32)
    w = np.ones((8, 8, 3, 3), np.float32)
    circuit = wg.trace(lambda x, w: np.sum(convolve_by_einsum(x, w) ** 2), x, w)
    program = GradientProgram(circuit).program

    assert program.facts.instructions > 5 * 6
    assert program.facts.workspace_bytes < 9 * 8 * 9 * 14 * 14 * 4
    assert_same_gradient(circuit, [x, w])


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_convolutions_pass_special_numbers_on(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    shrink_blocks(monkeypatch, 500)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 2, 5, 5)), rng.normal(size=(3, 2, 3, 3))
    circuit = wg.trace(lambda x, w: np.sum(convolve_by_einsum(x, w)), x, w)
    x[1, 0, 2, 2] = w[0, 1, 0, 0] = value

    with np.errstate(invalid="ignore"):
        assert_same_gradient(circuit, [x, w])


def pool_by_reshape(x: Any) -> Any:
    n, channels, height, width = x.shape
    return np.max(np.reshape(x, (n, channels, height // 2, 2, width // 2, 2)), axis=(3, 5))


def pool_by_windows(x: Any) -> Any:
    return np.max(sliding_window_view(x, (2, 2), axis=(2, 3))[:, :, ::2, ::2], axis=(4, 5))


def pool_with_overlap(x: Any) -> Any:
    return np.max(sliding_window_view(x, (3, 3), axis=(2, 3)), axis=(-2, -1))


def pool_by_mean(x: Any) -> Any:
    n, channels, height, width = x.shape
    return np.mean(np.reshape(x, (n, channels, height // 2, 2, width // 2, 2)), axis=(3, 5))


POOLS = [pool_by_reshape, pool_by_windows, pool_with_overlap, pool_by_mean]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("pool", POOLS)
def test_pools_share_gradients_among_equal_numbers(pool: Any, last: bool) -> None:
    """Whole numbers of few sizes have many ties; with `last`, the channels are innermost in memory."""
    x = np.random.default_rng(0).integers(0, 3, size=(2, 3, 6, 8)).astype(float)
    weights = np.random.default_rng(1).normal(size=np.shape(pool(x)))
    shift = np.zeros((6, 8, 3)) if last else np.zeros((3, 6, 8))

    def loss(x: Any, shift: Any) -> Any:
        moved = np.transpose(np.transpose(x, (0, 2, 3, 1)) + shift, (0, 3, 1, 2)) if last else x + shift
        return np.sum(pool(moved) * weights)

    circuit = wg.trace(loss, x, shift)

    assert_same_gradient(circuit, [x, shift])
    x[0, 0, 0, 0] = np.nan
    x[1, 1, 2, 2] = np.inf
    with np.errstate(invalid="ignore"):
        assert_same_gradient(circuit, [x, shift])


def test_a_convolutional_network_equals_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_blocks(monkeypatch, 4000)
    rng = np.random.default_rng(0)
    x, first, second = (rng.normal(size=size) for size in ((6, 1, 10, 10), (4, 1, 3, 3), (5, 4, 3, 3)))
    bias, weight = rng.normal(size=4), rng.normal(size=(5, 3))

    def loss(x: Any, first: Any, bias: Any, second: Any, weight: Any) -> Any:
        y = pool_by_reshape(np.maximum(convolve_by_einsum(x, first) + bias[None, :, None, None], 0.0))
        y = np.maximum(convolve_by_einsum(np.pad(y, ((0, 0), (0, 0), (1, 1), (1, 1))), second), 0.0)
        logits = np.mean(y, axis=(2, 3)) @ weight
        return np.sum(np.log(np.sum(np.exp(logits - np.max(logits, axis=1, keepdims=True)), axis=1)))

    circuit = wg.trace(loss, x, first, bias, second, weight)
    program = assert_same_values(circuit, [x, first, bias, second, weight])

    assert not program.facts.interpreted
    assert_same_gradient(circuit, [x, first, bias, second, weight])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1)], ids=str)
def test_arrays_keep_the_order_of_axes_that_they_are_computed_from(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 17, 5))
    y = rng.normal(size=tuple(np.transpose(x, order).shape))

    def compute(x: Any, y: Any) -> Any:
        z = np.exp(np.transpose(x, order)) * y[:1] + 1.0
        summed = np.sum(z, axis=1, keepdims=True) / z
        padded = np.pad(summed, ((1, 0), (0, 2), (0, 0)))
        return z, np.concatenate([z, summed], axis=1), np.reshape(padded, -1), np.max(padded, axis=(0, 2))

    circuit = wg.trace(compute, x, y)

    assert not assert_same_values(circuit, [x, y]).facts.interpreted
    assert_same_gradient(wg.trace(lambda x, y: sum(np.sum(each**2) for each in compute(x, y)), x, y), [x, y])


def test_cubes_and_fourth_powers_are_within_two_ulp() -> None:
    with np.errstate(over="ignore"):
        x = np.concatenate([np.random.default_rng(0).normal(size=4000), np.array(EDGES)]).astype(np.float32)
    found = ArrayProgram(wg.trace(lambda x: (x**3, x**4), np.ones_like(x))).run([x])
    for power, result in zip((3, 4), found, strict=True):
        with np.errstate(over="ignore"):
            wanted = x.astype(np.float64) ** power
            near = wanted.astype(np.float32)
        normal = np.isfinite(near) & (np.abs(near) > np.finfo(np.float32).tiny)
        ulp = np.abs(result[normal].astype(np.float64) - wanted[normal]) / np.spacing(np.abs(near[normal]))

        assert ulp.max() < 2.0
        np.testing.assert_array_equal(result[~np.isfinite(near)], near[~np.isfinite(near)])


def normalize_rows(x: Any) -> Any:
    shifted = x - np.mean(x, axis=-1, keepdims=True)
    return shifted / np.sqrt(np.var(x, axis=-1, keepdims=True) + 1e-5)


def take_softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def take_log_softmax(x: Any) -> Any:
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def divide_by_length(x: Any) -> Any:
    return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


def mix_rows(x: Any) -> Any:
    """Return something that takes elements of other rows in between."""
    y = take_softmax(x)
    return take_softmax(y[::-1] * np.sum(y, axis=0)) + normalize_rows(y)


ROW_FUNCTIONS = [normalize_rows, take_softmax, take_log_softmax, divide_by_length, mix_rows]


@pytest.mark.parametrize(("function", "shape"), sample_pairs(ROW_FUNCTIONS, [(7, 5), (6, 3, 18), (2, 40)]))
def test_loops_that_run_a_few_rows_at_a_time_equal_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, function: Any, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, scale, shift = rng.normal(size=shape), rng.normal(size=shape[-1]), rng.normal(size=shape[-1])
    weights = rng.normal(size=shape)
    circuit = wg.trace(lambda x, a, b: np.sum(function(x * a + b) * weights) + np.sum(a), x, scale, shift)
    monkeypatch.setattr(lowering, "MIN_ROW_BYTES", 0)
    for nbytes in (1, 3000):
        monkeypatch.setattr(lowering, "ROW_BLOCK_BYTES", nbytes)
        assert_same_gradient(circuit, [x, scale, shift])
        x[1, ..., 1] = np.nan
        assert_same_values(circuit, [x, scale, shift])
        assert_same_gradient(circuit, [x, scale, shift])
        x[1, ..., 1] = 0.5


def test_rows_that_stay_in_the_cache_need_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(512, 64))
    circuit = wg.trace(lambda x: np.sum(take_softmax(np.tanh(x)) ** 2), x)
    whole = GradientProgram(circuit).program.facts.workspace_bytes
    monkeypatch.setattr(lowering, "MIN_ROW_BYTES", 0)
    monkeypatch.setattr(lowering, "ROW_BLOCK_BYTES", 1 << 14)

    assert GradientProgram(circuit).program.facts.workspace_bytes < whole / 5
    assert_same_gradient(circuit, [x])


@pytest.mark.parametrize("seed", sample_some(range(12, 22), 2))
def test_random_programs_in_small_blocks_equal_the_interpreter(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    shrink_blocks(monkeypatch, 64)
    monkeypatch.setattr(lowering, "MIN_ROW_BYTES", 0)
    monkeypatch.setattr(lowering, "MIN_VECTOR_BYTES", 0)
    monkeypatch.setattr(lowering, "ROW_BLOCK_BYTES", 64)
    monkeypatch.setattr(lowering, "MIN_TILED_STRIDE", 8)
    monkeypatch.setattr(lowering, "TILE_LENGTH", 1)
    check_random_program(seed)


@pytest.mark.parametrize("shape", [(17, 40), (33, 16), (16, 1, 19)], ids=str)
def test_transposed_matrices_in_tiles_equal_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape), rng.normal(size=shape[::-1])
    circuit = wg.trace(lambda x, y: (x.T * y + y, np.sum(x.T * y, axis=0), np.max(x.T - y, axis=-1)), x, y)
    loss = wg.trace(lambda x, y: np.sum(np.tanh(x.T * y) * np.sum(x.T - y, axis=-1, keepdims=True)), x, y)
    plain = ArrayProgram(circuit).facts.instructions
    monkeypatch.setattr(lowering, "MIN_TILED_STRIDE", 8)
    monkeypatch.setattr(lowering, "TILE_LENGTH", 4)

    assert assert_same_values(circuit, [x, y]).facts.instructions > plain
    assert_same_gradient(loss, [x, y])


def test_gathers_by_constant_indices_are_native() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, 4))
    rows = np.array([5, 0, 0, -1, 3])

    def look_up(x: Any) -> Any:
        picked = np.roll(x[rows], 1, axis=1) * x[rows, [0, 1, 2, 3, 0]][:, None]
        return np.sum(picked * picked)

    circuit = wg.trace(look_up, x)

    assert not assert_same_values(circuit, [x]).facts.interpreted
    assert_same_gradient(circuit, [x])


def test_whole_numbers_among_the_constants_and_empty_pieces_are_native() -> None:
    x = np.array([0.5, -2.0, 3.0])

    def compute(x: Any) -> Any:
        joined = np.concatenate([x[:1], x[3:], x[1:] ** np.array([2, 3])])
        return np.sum(joined * np.arange(3)) + np.sum(x * np.array([2, 2, 2]))

    circuit = wg.trace(compute, x)

    assert not assert_same_values(circuit, [x]).facts.interpreted
    assert_same_gradient(circuit, [x])


def test_absent_gradients_are_zero_and_stay_clean() -> None:
    x = np.array([-1.0, 0.0, 2.0, np.inf])

    def guarded_log(x: Any, unused: Any, count: Any) -> Any:
        return np.sum(np.where(x > 0.0, np.log(np.where(x > 0.0, x, 1.0)), 0.0)) + np.sum(np.maximum(x, 1.0)[:2])

    circuit = wg.trace(guarded_log, x, np.ones(3), np.arange(2))

    assert_same_gradient(circuit, [x, np.ones(3), np.arange(2)][: len(circuit.inputs)])


@pytest.mark.parametrize("seed", sample_some(range(12), 2))
def test_random_programs_equal_the_interpreter(seed: int) -> None:
    check_random_program(seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(100, 10_100, 100))
def test_many_random_programs_equal_the_interpreter(start: int) -> None:
    for seed in range(start, start + 100):
        check_random_program(seed)


@pytest.fixture
def share_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small results hold other arrays before they are written, and small arrays be computed again."""
    monkeypatch.setattr(array_program, "MIN_HOST_BYTES", 1)
    monkeypatch.setattr(lowering, "MIN_RECOMPUTED_BYTES", 0)


@pytest.mark.usefixtures("share_everything")
@pytest.mark.parametrize("seed", sample_some(range(34, 46), 2))
def test_random_programs_whose_arrays_share_memory_equal_the_interpreter(seed: int) -> None:
    check_random_program(seed, fenced=False)


@pytest.mark.full
@pytest.mark.usefixtures("share_everything")
@pytest.mark.parametrize("start", range(100, 2_100, 100))
def test_many_random_programs_whose_arrays_share_memory_equal_the_interpreter(start: int) -> None:
    for seed in range(start, start + 100):
        check_random_program(seed, fenced=False)


@pytest.fixture
def multiply_by_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no product be computed in tiles, which need memory for a panel."""
    monkeypatch.setattr(array_program, "MAX_TILED_PRODUCTS", 0)


@pytest.mark.usefixtures("multiply_by_blas")
def test_a_loop_writes_over_what_it_reads_for_the_last_time() -> None:
    x = np.random.default_rng(0).normal(size=(120, 90))
    circuit = wg.trace(lambda x: np.exp(-(x @ x.T)) @ x, x)
    program = ArrayProgram(circuit)

    assert program.facts.workspace_bytes < 1.1 * 8 * 120 * 120
    assert_close(program.run([x])[0], np.exp(-(x @ x.T)) @ x)


@pytest.mark.parametrize(
    "function",
    [
        lambda y, x: np.tanh(y) + y.T,
        lambda y, x: np.tanh(y) + y[::-1],
        lambda y, x: np.tanh(y) + np.roll(y, 1, axis=0),
        lambda y, x: np.tanh(y[1:]) * y[:-1],
        lambda y, x: np.tanh(y) + np.sum(y, axis=0),
        lambda y, x: np.cumsum(y, axis=0) * x,
        lambda y, x: (y > 0.0) * x,
        lambda y, x: np.tanh(y.T) * x,
    ],
)
def test_a_loop_does_not_write_over_what_another_round_reads(function: Any) -> None:
    x = np.random.default_rng(0).normal(size=(70, 70))
    circuit = wg.trace(lambda x: np.sum(np.cos(function(x @ x, x) * 0.5)) + np.sum(x), x)
    value, grads = ArrayEngine(circuit, gradient=True).compute_gradient([x])

    assert_close(value, interpreter.run_circuit(circuit, [x]).values[circuit.root()])
    assert_same_gradient(circuit, [x])
    assert_close(ArrayProgram(circuit).run([x])[0], value)
    assert len(grads) == 1


def activate_smoothly(x: Any) -> Any:
    return 0.5 * x * (1.0 + np.tanh(0.8 * (x + 0.04 * x**3)))


def activate_by_branch(x: Any) -> Any:
    return np.where(x > 0.0, x, np.exp(np.minimum(x, 0.0)) - 1.0)


def activate_rows(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


ACTIVATIONS = [
    activate_smoothly,
    activate_by_branch,
    activate_rows,
    lambda x: np.maximum(x, 0.1),
    np.tanh,
    lambda x: np.sqrt(x * x + 0.5),
]


@pytest.mark.parametrize(("activate", "dtype"), sample_pairs(ACTIVATIONS, [np.float64, np.float32]))
def test_values_that_readers_compute_again_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, activate: Any, dtype: type[np.floating]
) -> None:
    rng = np.random.default_rng(0)
    x, v, w = (rng.normal(size=shape).astype(dtype) for shape in ((30, 40), (40, 50), (50, 20)))
    x[3, 4] = np.nan
    circuit = wg.trace(lambda x, v, w: np.sum(np.cos(activate(activate(x @ v) @ w)) ** 2), x, v, w)
    results = []
    for nbytes in (0, 1 << 40):
        monkeypatch.setattr(lowering, "MIN_RECOMPUTED_BYTES", nbytes)
        program = GradientProgram(circuit)
        value, grads, _ = program.run([x, v, w])
        results.append(
            (program.program.facts.workspace_bytes, [np.asarray(each).tobytes() for each in (value, *grads)])
        )
        assert_same_gradient(circuit, [x, v, w])

    assert results[0][0] <= results[1][0]
    assert results[0][1] == results[1][1]


def test_readers_compute_again_what_would_take_memory() -> None:
    x, v, w = (np.random.default_rng(0).normal(size=(300, 300)) for _ in range(3))
    circuit = wg.trace(lambda x, v, w: np.sum(activate_smoothly(activate_smoothly(x @ v) @ w) ** 2), x, v, w)
    facts = GradientProgram(circuit).program.facts

    # The gradients have the memory of three arrays; each layer keeps its product and its result.
    assert facts.workspace_bytes < 2.2 * 8 * 300 * 300


def test_arrays_that_a_matrix_product_reads_are_kept() -> None:
    x = np.random.default_rng(0).normal(size=(150, 150))
    circuit = wg.trace(lambda x: np.sum(np.tanh(x @ x) @ x), x)
    steps = lowering.lower_circuit(circuit).steps

    assert sum(isinstance(step, lowering.MatrixProduct) for step in steps) == 2
    assert_same_gradient(circuit, [x])


@pytest.mark.parametrize("seed", sample_some(range(46, 54), 2))
def test_random_programs_that_compute_again_equal_the_interpreter(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(lowering, "MIN_RECOMPUTED_BYTES", 0)
    check_random_program(seed, fenced=seed % 2 == 0)


@pytest.mark.usefixtures("multiply_by_blas")
def test_results_hold_other_arrays_before_they_are_written() -> None:
    rng = np.random.default_rng(0)
    x, v, w = rng.normal(size=(20, 300)), rng.normal(size=(300, 200)), rng.normal(size=(200, 100))
    circuit = wg.trace(lambda x, v, w: np.sum(np.tanh(np.tanh(x @ v) @ w) ** 2), x, v, w)
    program = GradientProgram(circuit)

    # The last product reads one array that cannot lie in the result that it writes.
    assert program.program.facts.workspace_bytes < 1.1 * 8 * 20 * 200
    assert_same_gradient(circuit, [x, v, w])


def test_the_interpreter_reads_arrays_that_lie_in_results() -> None:
    x = np.random.default_rng(0).normal(size=(60, 60)) + 9.0 * np.eye(60)
    circuit = wg.trace(lambda x: np.linalg.inv(np.tanh(x) + x) @ x, x)
    program = ArrayProgram(circuit)
    calls = [step for step in program._steps if isinstance(step, lowering.InterpreterCall)]

    assert any(array.storage.role == lowering.RESULT for call in calls for array in call.list_arrays())
    assert_close(program.run([x])[0], np.linalg.inv(np.tanh(x) + x) @ x)


def test_many_arrays_are_placed_in_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=shape) for shape in ((20, 300), (300, 200), (200, 100), (100, 50))]
    circuit = wg.trace(lambda x, u, v, w: np.sum(np.tanh(np.tanh(np.tanh(x @ u) @ v) @ w)), *arguments)
    by_size = GradientProgram(circuit)
    monkeypatch.setattr(array_program, "MAX_SORTED_BLOCKS", 0)
    by_time = GradientProgram(circuit)

    assert by_size.program.facts.workspace_bytes < by_time.program.facts.workspace_bytes
    for one, two in zip(by_size.run(arguments)[1], by_time.run(arguments)[1], strict=True):
        np.testing.assert_array_equal(one, two)


def check_random_program(seed: int, *, fenced: bool = True) -> None:
    program = random_program(seed)
    arguments = list(program.inputs.values())
    circuit = wg.trace(program.make_function(np, wg), *arguments).unchecked()
    if not has_arrays(circuit):
        return
    wanted = interpreter.run_circuit(circuit, arguments)
    value, grads, _ = GradientProgram(circuit, fenced=fenced).run(arguments)

    assert_close(value, wanted.values[circuit.root()], 1e-11)
    for node, grad in zip(circuit.input_indices(), grads, strict=True):
        if grad is not None:
            assert_close(grad, wanted.gradient(node), 1e-11)
        else:
            assert not np.any(wanted.gradient(node))


def test_threads_do_not_share_a_workspace() -> None:
    x = np.random.default_rng(0).normal(size=(50, 40))
    engine = ArrayEngine(wg.trace(lambda x: np.sum(np.tanh(x @ x.T) * np.sum(x)), x), gradient=True)
    wanted = [engine.compute_gradient([x * k])[1][0] for k in range(4)]
    failures: list[int] = []

    def call_often(k: int) -> None:
        for _ in range(25):
            if not np.array_equal(engine.compute_gradient([x * k])[1][0], wanted[k]):
                failures.append(k)

    run_in_threads(call_often, range(4))

    assert not failures


@pytest.fixture
def cut_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small loops and products be cut into pieces of any length, and run by two threads."""
    monkeypatch.setattr(array_program, "MIN_PIECE_WORK", 8)
    monkeypatch.setattr(array_program, "MIN_PIECE_PRODUCTS", 8)
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 0)
    monkeypatch.setattr(array_program, "PIECE_MULTIPLE", 1)
    monkeypatch.setenv("WIREGRAD_THREADS", "2")


@pytest.mark.usefixtures("cut_everything", "share_everything")
@pytest.mark.parametrize("seed", sample_some(range(22, 34), 2))
def test_random_programs_in_pieces_equal_the_interpreter(seed: int) -> None:
    check_random_program(seed, fenced=seed % 2 == 0)


@pytest.mark.full
@pytest.mark.usefixtures("cut_everything", "share_everything")
@pytest.mark.parametrize("start", range(100, 2_100, 100))
def test_many_random_programs_in_pieces_equal_the_interpreter(start: int) -> None:
    for seed in range(start, start + 100):
        check_random_program(seed, fenced=seed % 2 == 0)


@pytest.mark.usefixtures("cut_everything")
@pytest.mark.parametrize("op", sample_some(SAMPLED_OPS, 6), ids=lambda op: op.name)
def test_array_ops_in_pieces_equal_the_interpreter_at_their_samples(op: ArrayOp) -> None:
    for arrays, settings in list_samples(op):
        assert_same_values(build_from_op(op, arrays, settings), arrays)


@pytest.mark.usefixtures("cut_everything")
@pytest.mark.parametrize("convolve", CONVOLUTIONS)
def test_convolutions_in_pieces_equal_the_interpreter(convolve: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 2, 6, 7)), rng.normal(size=(4, 2, 3, 3))

    assert_same_gradient(wg.trace(lambda x, w: np.sum(np.tanh(convolve(x, w)) ** 2), x, w), [x, w])


def mix_products(x: Any, w: Any) -> Any:
    y = take_softmax(np.tanh(x @ w + np.sum(w, axis=0)))
    return np.sum(y * y) + np.max(y) + np.sum(np.cumsum(y, axis=0)[-1] * np.mean(x))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_programs_give_the_same_bits_in_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, dtype: type[np.floating]
) -> None:
    monkeypatch.setattr(array_program, "MIN_PIECE_WORK", 1 << 14)
    monkeypatch.setattr(array_program, "MIN_PIECE_PRODUCTS", 1 << 20)
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 0)
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(700, 300)).astype(dtype), rng.normal(size=(300, 200)).astype(dtype)
    program = GradientProgram(wg.trace(mix_products, x, w).unchecked())
    results = []
    for threads in ("1", "2", "3", "2", "1"):
        monkeypatch.setenv("WIREGRAD_THREADS", threads)
        value, grads, _ = program.run([x, w])
        results.append([np.asarray(each).tobytes() for each in (value, *grads)])

    assert program.program.is_shared
    assert all(each == results[0] for each in results)


def test_small_programs_are_not_cut() -> None:
    program = ArrayProgram(wg.trace(lambda x: np.sum(np.tanh(x)), np.ones(1000)))

    assert not program.is_shared


def test_blas_has_its_threads_again_after_a_call() -> None:
    read, write = stream_kernels.load_blas_threads()
    before = read()
    write(2)
    x = np.ones((600, 600))
    program = ArrayProgram(wg.trace(lambda x: np.tanh(x @ x), x))
    inside: list[int] = []

    def look(k: int) -> None:
        if k:
            program.run([x])
        else:
            with stream_kernels.single_blas_thread():
                inside.append(read())

    run_in_threads(look, range(4))
    after = read()
    write(before)

    assert program.is_shared
    assert (inside, after) == ([1], 2)


class LatePool:
    """A pool whose threads begin when they are told to."""

    def __init__(self) -> None:
        self.works: list[Any] = []

    def submit(self, work: Any) -> None:
        self.works.append(work)


def test_a_program_does_not_wait_for_threads_that_have_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(600, 600))
    program = ArrayProgram(wg.trace(lambda x: np.tanh(x @ x), x))
    pool = LatePool()
    monkeypatch.setattr(batch, "_helper_pool", lambda: pool)
    monkeypatch.setenv("WIREGRAD_THREADS", "3")
    (found,) = program.run([x])
    program.run([x + 1.0])
    wanted = found.copy()
    for work in pool.works:
        work()

    assert len(pool.works) == 4
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("at_result", [False, True])
def test_fences_notice_a_write_outside_of_an_array(at_result: bool) -> None:
    x = np.ones(8)
    function = (lambda x: x * 2.0) if at_result else (lambda x: np.sum(np.exp(x)[::-1] * x))
    program = ArrayProgram(wg.trace(function, x), fenced=True)
    program.run([x])
    program.stream[2] += 1

    with pytest.raises(AssertionError, match="wrote outside"):
        program.run([x])


def test_equal_structures_share_kernels() -> None:
    small, large = (wg.trace(lambda x: np.sum(np.cosh(x) * 3.25), np.ones(n)) for n in (10, 1000))

    assert ArrayProgram(small).facts.code_bytes > 0
    assert ArrayProgram(large).facts.code_bytes == 0


def test_zero_and_minus_zero_are_different_constants() -> None:
    x = np.array([-0.0, 0.0])
    for number in (0.0, -0.0):
        circuit = wg.trace(lambda x, number=number: np.copysign(3.5, x * 0.0 + number), x)

        (found,) = ArrayProgram(circuit).run([x])
        np.testing.assert_array_equal(found, interpreter.evaluate_outputs(circuit, [x])[circuit.output])


OPS_BESIDE_CONDITIONS = [
    op
    for op in ELEMENTWISE_OPS
    if len(op.inputs) == 2 and op.pattern is not Pattern.SCALE and not (op.takes_bool or op.settings)
]


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("op", OPS_BESIDE_CONDITIONS, ids=lambda op: op.name)
def test_constant_conditions_beside_numbers_count_as_numbers(op: Elementwise, slot: int) -> None:
    points = np.array([-0.0, 0.0, 0.5, 2.0, -3.0, np.nan, np.inf])
    for flag in (False, True):
        builder = GraphBuilder(finite=False)
        x = builder.input("x", WireType(points.dtype, points.shape))
        constant = builder.place_constant(np.full(points.shape, flag))
        y = builder.apply(op, *((constant, x) if slot == 0 else (x, constant)))
        circuit = builder.build(y)
        (wanted,) = interpreter.evaluate_outputs(circuit, [points], check=False).values()
        (found,) = ArrayProgram(circuit).run([points])

        assert_close(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(wanted[:2]))


def test_a_compiled_circuit_says_what_runs_where() -> None:
    x = np.random.default_rng(0).normal(size=(4, 4))
    plain = wg.trace(lambda x: np.sum(np.tanh(x @ x)), x).compile()
    mixed = wg.trace(lambda x: np.sum(np.sort(x, axis=0) * np.tanh(x)), x).compile()

    assert plain.info.tier == "arrays"
    assert plain.info.instructions > 0
    assert not plain.info.interpreted
    assert mixed.info.tier == "arrays"
    assert any("argsort" in entry for entry in mixed.info.interpreted)
    assert 0.0 < mixed.info.interpreted_share < 1.0
    assert "the interpreter computes" in str(mixed.info)


def test_the_switch_turns_native_arrays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIREGRAD_NATIVE", "0")
    compiled = wg.trace(lambda x: np.sum(np.tanh(x)), np.ones(3)).compile()

    assert compiled.info.tier == "interpreter"
    assert compiled(x=np.zeros(3)) == 0.0


def test_a_flipped_branch_raises_as_in_the_interpreter() -> None:
    def steer(x: Any) -> Any:
        return np.sum(x * x) if np.sum(x) > 0.0 else np.sum(x)

    for size, tier in ((30, "arrays"), (1, "stencils")):
        compiled = wg.trace(steer, np.ones(size)).compile()

        assert compiled.info.tier == tier
        assert compiled.value_and_grad(x=np.full(size, 2.0))[0] == 4.0 * size
        with pytest.raises(BranchError):
            compiled.value_and_grad(x=-np.ones(size))


def test_compiled_functions_replay_arrays_natively() -> None:
    @wg.compile
    def loss(w: Any, x: Any) -> Any:
        return np.mean(np.tanh(x @ w) ** 2)

    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 2)), rng.normal(size=(5, 3))
    for scale in (1.0, 2.0, 0.5):
        wanted = wg.value_and_grad(lambda w, x: np.mean(np.tanh(x @ w) ** 2))(w * scale, x)
        value, grad = wg.value_and_grad(loss)(w * scale, x)

        assert_close(value, wanted[0])
        assert_close(grad, wanted[1])


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0)])
def test_compiled_functions_compute_the_gradients_that_are_asked_for(argnums: Any) -> None:
    def loss(w: Any, x: Any) -> Any:
        return np.sum(np.sort(x @ w, axis=0) ** 3)

    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(3, 2)), rng.normal(size=(5, 3))
    fast = wg.compile(loss, argnums=argnums)
    for _ in range(2):
        value, grads = fast.value_and_grad(w, x)
        wanted, slopes = wg.value_and_grad(loss, argnums)(w, x)

        assert_close(value, wanted)
        for found, slope in zip(*((each,) if argnums in (0, 1) else each for each in (grads, slopes)), strict=True):
            assert_close(found, slope)
    assert fast.info.variants[0].tier == "arrays"
    assert "argsort" in fast.info.variants[0].reason


@pytest.mark.parametrize("limit", ["array_program.MAX_ARRAY_NODES", "array_program.MAX_NEW_KERNELS"])
def test_circuits_that_would_compile_too_slowly_are_left_to_the_interpreter(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"wiregrad.backends.native_arrays.{limit}", 0)
    compiled = wg.trace(lambda x: np.sum(np.arctan(x) * 17.25), np.ones(30)).compile()

    assert compiled.info.tier == "interpreter"
    assert "too slowly" in compiled.info.reason
    assert compiled(x=np.zeros(30)) == 0.0


def test_ops_that_raise_still_raise() -> None:
    compiled = wg.trace(lambda a: np.sum(np.linalg.inv(a) * 2.0), np.eye(2)).compile()

    with pytest.raises(np.linalg.LinAlgError):
        compiled(a=np.zeros((2, 2)))


def compile_total(size: int = 50, dtype: type[np.floating] = np.float64) -> tuple[Any, list[Any]]:
    """Return the compiled sum of tanh(x * w + b), and arguments for it."""
    rng = np.random.default_rng(size)
    arguments = [rng.normal(size=size).astype(dtype) for _ in range(3)]
    return wg.trace(lambda x, w, b: np.sum(np.tanh(x * w + b)), *arguments).compile(), arguments


def assert_same_call(found: tuple[Any, Any], wanted: tuple[Any, Any]) -> None:
    """Compare a value and its gradient, in the form in which they are given back."""
    assert type(found[0]) is type(wanted[0])
    assert type(found[1]) is type(wanted[1])
    assert_close(found[0], wanted[0])
    if isinstance(wanted[1], dict):
        assert list(found[1]) == list(wanted[1])
        found, wanted = (found[0], tuple(found[1].values())), (wanted[0], tuple(wanted[1].values()))
    if isinstance(wanted[1], np.ndarray):
        found, wanted = (found[0], (found[1],)), (wanted[0], (wanted[1],))
    for one, two in zip(found[1], wanted[1], strict=True):
        assert type(one) is type(two)
        assert_close(one, two)


class OwnArray(np.ndarray):
    """An array of a class that native code does not know."""


UNUSUAL_ARGUMENTS = {
    "usual": lambda x: x,
    "list": lambda x: x.tolist(),
    "float32": lambda x: x.astype(np.float32),
    "whole numbers": lambda x: np.round(x).astype(np.int64),
    "other byte order": lambda x: x.astype(">f8"),
    "subclass": lambda x: x.copy().view(OwnArray),
    "not aligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float64),
    **{layout: lambda x, layout=layout: copy_in_layout(x, layout) for layout in ARRAY_LAYOUTS},
}


@pytest.mark.parametrize("kind", UNUSUAL_ARGUMENTS)
@pytest.mark.parametrize("by_name", [False, True])
def test_calls_with_any_kind_of_array_equal_the_interpreter(kind: str, by_name: bool) -> None:
    compiled, arguments = compile_total()
    x, w, b = (UNUSUAL_ARGUMENTS[kind](each) for each in arguments)
    wanted = compiled.circuit.run(x=x, w=w, b=b)
    value, grads = compiled.value_and_grad(b=b, x=x, w=w) if by_name else compiled.value_and_grad(x, w, b)

    assert_close(value, wanted.values[compiled.circuit.root()])
    for k, node in enumerate(compiled.circuit.input_indices()):
        assert_close(grads["xwb"[k]] if by_name else grads[k], wanted.gradient(node))
    assert_close(compiled(x=x, w=w, b=b), value)


def call_with_names(function: Any, x: Any, w: Any, b: Any) -> Any:
    return function(x=x, w=w, b=b)


@pytest.mark.parametrize("call", [call_with_names, lambda function, x, w, b: function(x, w, b)])
def test_a_native_call_returns_what_the_python_path_returns(call: Any) -> None:
    for size, dtype in ((50, np.float64), (40_000, np.float64), (33, np.float32)):
        compiled, arguments = compile_total(size, dtype)
        handler = compiled._gradient_handler

        assert type(compiled.value_and_grad) is type(len)
        assert_same_call(call(compiled.value_and_grad, *arguments), call(handler.value_and_grad, *arguments))
        assert type(compiled(*arguments)) is float


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (np.zeros(50),),
        (np.zeros(50), np.zeros(50), np.zeros(50), np.zeros(50)),
        (np.zeros(50), np.zeros(50), np.zeros(49)),
        (np.zeros(50), np.zeros(50), np.zeros((50, 1))),
        (np.zeros(50), np.zeros(50), "b"),
        (np.zeros(50), np.zeros(50), None),
        (np.zeros(50), np.zeros(50), np.zeros(50, complex)),
    ],
)
def test_wrong_arguments_raise_what_the_circuit_raises(arguments: Any) -> None:
    compiled, _ = compile_total()
    with pytest.raises(InputError) as wanted:
        compiled.circuit(*arguments)
    with pytest.raises(InputError) as found:
        compiled.value_and_grad(*arguments)

    assert str(found.value) == str(wanted.value)


def test_unknown_and_missing_names_are_named() -> None:
    compiled, (x, w, b) = compile_total()

    with pytest.raises(InputError, match="no input called"):
        compiled.value_and_grad(x=x, w=w, c=b)
    with pytest.raises(InputError, match="no value for b"):
        compiled.value_and_grad(x=x, w=w)
    assert_same_call(compiled.value_and_grad(x=x, w=w, b=b), compiled.value_and_grad({"x": x, "w": w, "b": b}))


def test_numbers_beside_arrays_go_to_native_code_by_name() -> None:
    x = np.arange(40.0)
    compiled = wg.trace(lambda x, s: np.sum(np.sin(x * s)), x, 0.5).compile()
    for s in (0.5, np.float64(0.25), 2):
        run = compiled.circuit.run(x=x, s=s)
        value, grads = compiled.value_and_grad(x=x, s=s)

        assert type(grads["s"]) is float
        assert_close(value, run.values[compiled.circuit.root()])
        assert_close(grads["s"], run.gradient(1))
        assert_close(compiled.value_and_grad(x, s)[1][1], run.gradient(1))


def test_several_outputs_come_back_by_label() -> None:
    x = np.arange(40.0)
    compiled = wg.trace(lambda x: {"total": np.sum(x), "twice": x * 2.0, "first": x[:3]}, x).compile()
    found = compiled(x=x)

    assert list(found) == list(compiled.circuit.outputs)
    assert type(found[compiled.circuit.outputs[0]]) is float
    for label, wanted in compiled.circuit(x=x).items():
        assert_close(found[label], wanted)


@pytest.mark.parametrize("hold", [hold_view, hold_buffer, np.ravel, weakref.ref, lambda result: [result]])
def test_a_native_call_does_not_recycle_memory_that_is_in_use(hold: Any) -> None:
    x = np.arange(40_000.0)
    double = wg.trace(lambda x: x * 2.0, x).compile().value
    held = [hold(double(x + k)) for k in range(7)]
    for _ in range(9):
        double(x - 1000.0)

    for k, thing in enumerate(held):
        if isinstance(thing, weakref.ref):
            assert thing() is None or thing()[1] == 2.0 * (k + 1)
        else:
            first = np.ravel(np.asarray(thing))[:4]
            assert first[0] == 2.0 * (k + (1 if hold is hold_view else 0))


@pytest.mark.parametrize("change", ["flags", "shape", "dtype"])
def test_a_result_that_the_caller_changed_is_not_used_again_as_it_is(change: str) -> None:
    x = np.arange(40_000.0)
    double = wg.trace(lambda x: x * 2.0, x).compile().value
    addresses = {double(x).ctypes.data for _ in range(20)}

    assert len(addresses) <= 2
    for _ in range(4):
        result = double(x)
        if change == "flags":
            result.setflags(write=False)
        elif change == "shape":
            result.shape = (200, 200)
        else:
            result.dtype = np.int64
        del result
        result = double(x)
        assert (result.shape, result.dtype, result.flags.writeable) == (x.shape, x.dtype, True)
        assert result[-1] == 2.0 * x[-1]


def test_native_calls_release_what_they_made() -> None:
    for size in (20, 40_000):
        compiled, arguments = compile_total(size)
        call = compiled.value_and_grad
        call_with_names(call, *arguments)
        before = [sys.getrefcount(x) for x in arguments]
        for _ in range(200):
            value, grads = call_with_names(call, *arguments)

        assert [sys.getrefcount(x) for x in arguments] == before
        assert sys.getrefcount(value) <= 2
        assert sys.getrefcount(grads) <= 2
        assert compiled.info.calls >= 200


def test_threads_may_use_one_native_call() -> None:
    compiled, (x, w, b) = compile_total(20_000)
    call = compiled.value_and_grad
    wanted = [call(x=x * k, w=w, b=b)[1]["w"].copy() for k in range(4)]
    failures: list[int] = []

    def call_often(k: int) -> None:
        argument = x * k
        for _ in range(30):
            if not np.array_equal(call(x=argument, w=w, b=b)[1]["w"], wanted[k]):
                failures.append(k)

    run_in_threads(call_often, range(4))

    assert not failures


def test_a_replay_builtin_says_which_check_fails() -> None:
    def steer(x: Any) -> Any:
        y = x * x if np.sum(x) > 0.0 else x
        return np.sum(y) if y[0] < 5.0 else np.sum(y) * 2.0

    traced = wg.trace(steer, np.ones(30))
    checked = add_check_outputs(traced)
    program = GradientProgram(traced, [certificate.node for certificate in checked.certificates])
    replay = program.make_replay(checked.expected_values())
    value, grad = replay(np.full(30, 2.0))

    assert value == 120.0
    np.testing.assert_array_equal(grad, np.full(30, 4.0))
    assert replay(np.full(30, -1.0)) == 0
    assert replay(np.full(30, 3.0)) == 1
    assert replay(np.ones(29)) is None
    assert replay(np.ones(30), 1.0) is None


@pytest.mark.parametrize(
    ("size", "rounds"),
    [
        *((10, 3_000), (3_000, 3_000), (50_000, 100)),
        *(pytest.param(*each, marks=pytest.mark.full) for each in ((10, 100_000), (3_000, 100_000), (50_000, 2_000))),
    ],
)
@pytest.mark.parametrize("kind", ["circuit", "function"])
def test_calls_do_not_grow(kind: str, size: int, rounds: int) -> None:
    compiled, arguments = compile_total(size)
    function = wg.compile(lambda x, w, b: np.sum(np.tanh(x * w + b)), argnums=(0, 1, 2))
    call = partial(call_with_names, compiled.value_and_grad) if kind == "circuit" else function.value_and_grad

    def call_often() -> None:
        for _ in range(rounds):
            call(*arguments)

    # A leak of the smallest result in every call would be 80 bytes and more times the number of calls.
    assert measure_least_growth(call_often, read_resident_bytes) < max(100_000, 20 * rounds)


def pick_elements(s: Any, p: Any) -> Any:
    """Return the time derivative of the Lorenz system, as a program that picks elements writes it."""
    x, y, z = s[0], s[1], s[2]
    return np.stack([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z])


def follow_lorenz(s: Any, p: Any, *, rounds: int) -> Any:
    for _ in range(rounds):
        first = pick_elements(s, p)
        s = s + 0.01 * pick_elements(s + 0.005 * first, p)
    return np.sum(s * s)


def follow_wave(s: Any, p: Any, *, rounds: int) -> Any:
    for _ in range(rounds):
        s = s + 0.05 * (np.roll(s, 1) + np.sin(s) * p - s)
    return np.sum(s * s)


def assert_same_as_eager(function: Any, arguments: list[Any], tier: str) -> Any:
    """Compile value and gradient of a function and compare them with those of the interpreter; return the facts."""
    value, grads = wg.value_and_grad(function, tuple(range(len(arguments))))(*arguments)
    program = GradientProgram(wg.trace(function, *arguments))
    found, slopes, _ = program.run(arguments)

    assert program.program.facts.tier == tier
    assert_close(found, np.float64(value))
    for slope, grad in zip(slopes, grads, strict=True):
        assert_close(slope, grad, 1e-10)
    return program.program.facts


def test_programs_on_a_few_numbers_are_expanded() -> None:
    arguments = [np.array([1.0, 2.0, 3.0]), np.array([10.0, 28.0, 8.0 / 3.0])]
    assert_same_as_eager(partial(follow_lorenz, rounds=60), arguments, "stencils")
    compiled = wg.trace(partial(follow_lorenz, rounds=3), *arguments).compile()

    assert compiled.info.tier == "stencils"
    assert_same_call(compiled.value_and_grad(*arguments), compiled._gradient_handler.value_and_grad(*arguments))
    assert compiled.info.calls == 2


@pytest.mark.parametrize("op", SAMPLED_OPS, ids=lambda op: op.name)
def test_expanded_ops_equal_the_interpreter_at_their_samples(op: ArrayOp) -> None:
    for arrays, settings in [*list_samples(op)][:: choose_count(4, 1)]:
        circuit = build_from_op(op, arrays, settings)
        try:
            scalars = expand_unnamed(circuit)
        except (CircuitError, NoRuleError):
            continue
        (found,) = ExpandedProgram(circuit, scalars, fenced=True).run(arrays)
        (wanted,) = interpreter.evaluate_outputs(circuit, list(arrays), check=False).values()
        assert_close(found, wanted)
        summed = build_from_op(op, arrays, settings, summed=True)
        if summed.type_of(summed.root()).dtype.kind != "f":
            continue
        wanted_inputs = range(len(summed.inputs))
        value, *grads = ExpandedProgram(summed, expand_unnamed(summed), wanted=wanted_inputs, fenced=True).run(arrays)
        run = interpreter.run_circuit(summed, list(arrays), check=False)
        assert_close(value, run.values[summed.root()])
        for node, grad in zip(summed.input_indices(), grads, strict=True):
            assert_close(grad, run.gradient(node))


def find_gradients_by_templates(circuit: CircuitGraph, arrays: Sequence[Any]) -> list[Any]:
    """Return the gradient by every input, from the circuit that `sweep_ports` builds, run by the interpreter."""
    builder = GraphBuilder(finite=False)
    builder.recording.load_circuit(circuit)
    seed = builder.place_constant(np.ones((), circuit.type_of(circuit.root()).dtype)[()])
    flows = sweep_ports(circuit, builder, {circuit.root(): seed})
    inputs = circuit.input_indices()
    present = [node for node in inputs if flows[node] is not None]
    filled = {f"y{node}": match_shape(fill_absent(flows[node]), Port(builder, node)) for node in present}
    labels = {k: x if isinstance(x, Port) else builder.place_constant(np.asarray(x)[()]) for k, x in filled.items()}
    if not labels:
        return [None] * len(inputs)
    found = interpreter.evaluate_outputs(builder.build(name="gradient", labels=labels), list(arrays), check=False)
    return [found.get(f"y{node}") for node in inputs]


def assert_templates_agree(circuit: CircuitGraph, arrays: Sequence[Any]) -> None:
    """Compare gradients of a circuit built from templates with those of the interpreter."""
    run = interpreter.run_circuit(circuit, list(arrays), check=False)
    found = find_gradients_by_templates(circuit, arrays)
    for node, gradient in zip(circuit.input_indices(), found, strict=True):
        wanted = run.gradient(node)
        assert_close(np.zeros_like(wanted) if gradient is None else gradient, wanted)


@pytest.mark.parametrize("op", SAMPLED_OPS, ids=lambda op: op.name)
def test_templates_of_the_backward_pass_give_the_gradient(op: ArrayOp) -> None:
    for arrays, settings in list_samples(op):
        circuit = build_from_op(op, arrays, settings, summed=True)
        if circuit.type_of(circuit.root()).dtype.kind == "f":
            assert_templates_agree(circuit, arrays)


def mix_parts(x: Any, y: Any) -> Any:
    """Return a sum to which the same kinds of nodes contribute with plain, masked and absent gradients."""
    for k in range(3):
        x = np.concatenate([x[2:] * y[k], np.tanh(x[:2])]) + np.where(x > 0.5, x * y, y)
        y = np.maximum(y[::-1], x) * np.array([1.0, 2.0, 3.0, 4.0])
    return np.sum(x[1:3]) + np.sum(y * y) + x[0]


def test_templates_are_used_for_all_nodes_of_a_kind() -> None:
    arrays = [np.array([0.3, 0.9, -0.4, 0.7]), np.array([1.0, -0.5, 0.25, 2.0])]

    assert_templates_agree(wg.trace(mix_parts, *arrays).unchecked(), arrays)


def overlap_slices(x: Any, y: Any) -> Any:
    """Return a sum whose gradients are sums of the same masked parts, again and again, and of plain ones."""
    total = 0.0
    for k in range(4):
        total = total + np.sum(x[:2] * y[k]) + np.sum(x[1:3] * y[:2]) + np.sum(x[2:] * 2.0)
        total = total + (np.sum(x * y) if k == 2 else np.sum(y[1:] ** 2))
    return total


def test_masks_of_overlapping_slices_are_joined() -> None:
    arrays = [np.array([0.3, 0.9, -0.4, 0.7]), np.array([1.0, -0.5, 0.25, 2.0])]

    assert_templates_agree(wg.trace(overlap_slices, *arrays).unchecked(), arrays)


def test_elements_that_no_slice_reads_have_no_gradient() -> None:
    arrays = [np.array([0.3, 0.9, np.inf, 0.7])]
    circuit = wg.trace(lambda x: np.sum(x[:1] * 2.0) + np.sum(x[3:] * 3.0) + np.sum(x[:1]), *arrays).unchecked()

    assert_templates_agree(circuit, arrays)


@pytest.mark.parametrize("choose", [np.max, np.min, np.nanmax, np.nanmin], ids=lambda choose: choose.__name__)
@pytest.mark.parametrize("x", [np.ones(3), np.array([1.0, 2.0, 2.0, 1.0, 1.0]), np.ones((2, 2))], ids=str)
def test_tied_elements_share_the_gradient_of_compiled_functions(choose: Any, x: np.ndarray) -> None:
    def pick(x: Any) -> Any:
        return choose(x * 2.0)

    assert_same_call(wg.compile(pick).value_and_grad(x), wg.value_and_grad(pick)(x))


def move_elements(x: Any, rounds: int) -> Any:
    """Return numbers that are moved many times, so that most elements are elements of other nodes."""
    for k in range(rounds):
        x = np.concatenate([x[1:], x[:1]]) if k % 2 else np.stack([x[-1], *x[:-1]])
        if k % 5 == 0:
            x = np.reshape(np.transpose(np.reshape(x, (2, 3))), -1) * np.array([1.0, 1.0, 0.5, 2.0, 1.0, 1.0])
    return np.prod(x) + np.sum(x[::2] * x[1::2])


@pytest.mark.parametrize("rounds", [1, 2, 7, 40])
def test_elements_are_followed_through_ops_that_move_them(rounds: int) -> None:
    x = np.array([1.5, -0.5, 2.0, 0.25, -1.0, 3.0])
    circuit = wg.trace(partial(move_elements, rounds=rounds), x)
    scalars = expand_unnamed(circuit)

    assert_close(wg.Circuit(scalars.columns)(x.tolist()), circuit(x))
    assert len(scalars) <= len(circuit.expand())
    assert_same_as_eager(partial(move_elements, rounds=rounds), [x], "stencils")


def test_an_expanded_circuit_has_each_constant_once() -> None:
    circuit = wg.trace(lambda x: np.sum(x * np.array([2.0, -0.0, 2.0]) + np.array([0.0, 2.0, np.nan])), np.ones(3))
    scalars = expand_unnamed(circuit)

    assert sorted(map(str, scalars.columns.constants)) == ["-0.0", "0.0", "2.0", "nan"]


# Of the longer loops one round is lowered for all.
@pytest.mark.parametrize("lengths", [(40, 120), (300, 900)])
def test_rounds_of_a_long_loop_share_their_kernels(lengths: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=40), rng.normal(size=40)]
    few, many = (assert_same_as_eager(partial(follow_wave, rounds=rounds), arguments, "arrays") for rounds in lengths)

    assert many.kernels <= few.kernels + 2
    assert many.instructions > 2 * few.instructions


def test_loops_that_pick_elements_compile_however_long_they_are() -> None:
    arguments = [np.arange(1.0, 4.0), np.array([10.0, 28.0, 8.0 / 3.0])]
    circuit = wg.trace(partial(follow_lorenz, rounds=400), *arguments)
    value, _, _ = GradientProgram(circuit).run(arguments)

    assert np.isfinite(value)


def mix_rolled(x: Any) -> Any:
    """Return a number that depends on shifted copies of an array in many ways."""
    one, two = np.roll(x, 1, axis=0), np.roll(x, -2, axis=-1)
    both = np.roll(x, (3, 1), axis=(0, -1))
    turned = np.roll(one * two, 1, axis=-1)
    rows = np.sum(one * both, axis=-1)
    return np.sum(np.tanh(one + two) * both) + np.sum(turned[..., ::2] * 0.5) + np.max(rows) + np.sum(one[1:] @ two.T)


@pytest.mark.parametrize("shape", [(4, 5), (1, 6), (6, 1), (3, 3), (20, 33)], ids=str)
def test_shifted_arrays_are_read_box_by_box(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    circuit = wg.trace(mix_rolled, x)

    assert_same_values(circuit, [x])
    assert_same_gradient(circuit, [x])
    value, *_ = GradientProgram(circuit, fenced=True).run([x])
    assert_close(value, interpreter.run_circuit(circuit, [x]).values[circuit.root()])


def test_an_array_that_is_cut_in_too_many_places_is_stored() -> None:
    x = np.random.default_rng(0).normal(size=(30, 30))

    def mix(x: Any) -> Any:
        shifts = [np.roll(x, (k, 2 * k), axis=(0, 1)) for k in range(-6, 7)]
        return sum((np.sum(np.sin(a) * b) for a, b in pairwise(shifts)), np.sum(shifts[0]))

    assert_same_gradient(wg.trace(mix, x), [x])


def join_slices(x: Any) -> Any:
    """Return a number whose gradient is put together from slices, some of which overlap."""
    left, right = x[:, :3], x[:, 3:]
    return np.sum(left * left[:, ::-1]) + np.sum(np.exp(right)) + np.sum(x[1] * x[0]) + np.sum(x[::2, 1:4] ** 2)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_of_slices_are_put_together(dtype: type[np.floating]) -> None:
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(dtype)
    circuit = wg.trace(join_slices, x)

    assert_same_gradient(circuit, [x])
    _, grads, _ = GradientProgram(circuit, fenced=True).run([x])
    assert_close(grads[0], interpreter.run_circuit(circuit, [x]).gradient(0))


def follow_branches(price: Any, z: Any) -> Any:
    for k in range(len(z)):
        price = np.where(price > 1.5, price, price * np.exp(0.2 * z[k] - 0.02))
    return np.sum(np.maximum(price - 1.0, 0.0))


@pytest.mark.parametrize("z", [0.5, np.inf, -np.inf, np.nan])
def test_gradients_of_slices_in_branches_need_no_masks(z: float) -> None:
    rng = np.random.default_rng(0)
    price, steps = rng.uniform(0.5, 2.0, size=4_000), rng.normal(size=(3, 4_000))
    steps[1:, ::7] = z
    circuit = wg.trace(follow_branches, price, steps)
    program = GradientProgram(circuit).program

    assert program.facts.workspace_bytes < 2 * 8 * 4_000
    assert_same_gradient(circuit, [price, steps])


def test_infinities_beside_slices_do_not_leak() -> None:
    x = np.array([1.0, np.inf, -np.inf, np.nan, 2.0, -0.0] * 3)
    circuit = wg.trace(lambda x: np.sum(np.exp(x[:2]) * 3.0) + np.sum(x[4:6] * x[5:7]) + np.sum(np.roll(x, 2)[:1]), x)

    assert_same_gradient(circuit, [x])


@pytest.mark.parametrize("index", [1, ("slice", 1, 3, None)], ids=["column", "slice"])
@pytest.mark.parametrize("name", ["negative", "exp"])
def test_numbers_are_placed_among_zeros(name: str, index: Any) -> None:
    builder = GraphBuilder(finite=False)
    x = builder.input("x", WireType(np.dtype(float), (5, 4)))
    shape = (5,) if index == 1 else (5, 2)
    number = builder.apply(TABLE[name], builder.place_constant(np.full(shape, 2.0)))
    settings = {"index": (("slice", None, None, None), index), "shape": (5, 4)}
    placed = builder.apply(TABLE["put_add"].bind(settings), number)

    assert_same_values(builder.build(labels={"y": builder.apply(TABLE["add"], placed, x)}), [np.ones((5, 4))])


def chain_layers(x: Any, w: Any) -> Any:
    for _ in range(4):
        x = np.tanh(x @ w)
    return np.sum(x * x)


MEMORY_MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elementwise": (lambda x, w: np.sum(np.tanh(x * w)), ((300, 300), (300, 300))),
    "chain": (chain_layers, ((400, 100), (100, 100))),
    "softmax": (lambda x: np.sum(np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True) * x), ((500, 80),)),
    "distances": (lambda x, y: np.sum(np.sqrt(np.sum((x[:, None] - y) ** 2, -1) + 1.0)), ((90, 3), (110, 3))),
    "slices": (lambda x: np.sum(x[1:] * x[:-1]) + np.sum(x[::2]), ((40_000,),)),
    "wave": (partial(follow_wave, rounds=12), ((9_000,), (9_000,))),
    "joined": (lambda x, y: np.sum(np.concatenate([x, y]) ** 3), ((20_000,), (30_000,))),
    "branches": (lambda x: np.sum(np.where(x > 0.0, np.exp(-x), x * x)), ((50_000,),)),
    "transposed": (lambda x: np.sum((x.T @ x) * np.cos(x.T @ x)), ((200, 150),)),
    "cumulated": (lambda x: np.sum(np.cumsum(x, axis=1) ** 2), ((200, 200),)),
}


@pytest.mark.parametrize("name", MEMORY_MODELS)
def test_a_call_needs_the_memory_that_was_predicted(name: str) -> None:
    function, shapes = MEMORY_MODELS[name]
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=shape) for shape in shapes]
    program = GradientProgram(wg.trace(function, *arguments))
    constants = sum(data.nbytes for data in program.program._constants)
    tracemalloc.start()
    try:
        results = program.run(arguments)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert np.isfinite(results[0])
    assert abs(peak + constants - program.program.facts.peak_bytes) <= 0.1 * program.program.facts.peak_bytes


def cross_rows(a: Any, b: Any) -> Any:
    return np.stack([a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1], a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]], axis=1)


def project_rows(points: Any, cameras: Any) -> Any:
    axis = cameras[:, :3] / np.sqrt(np.sum(cameras[:, :3] ** 2, axis=1))[:, None]
    moved = points - cameras[:, 3:6]
    turned = moved * np.cos(cameras[:, 6])[:, None] + axis * np.sum(axis * moved, axis=1)[:, None]
    flat = turned[:, :2] / (turned[:, 2:] ** 2 + 1.0)
    return np.sum(flat * cameras[:, 6:7]) + np.sum(cross_rows(axis, moved) ** 2)


def measure_angles(x: Any, y: Any) -> Any:
    lengths = np.sqrt(np.sum(x * x, axis=1) * np.sum(y * y, axis=1))
    return np.sum(np.sum(x * y, axis=1) / lengths) + np.sum(np.where(x[:, :1] > 0.0, x[:, ::-1], y[:, 1:2]))


def join_columns(x: Any, y: Any) -> Any:
    both = np.concatenate([x[:, :2], y, x[:, 2:] * y[:, 0][:, None]], axis=1)
    return np.sum(both[:, 0] * both[:, -1]) + np.sum(np.sum(both[:, 1:4], axis=1, keepdims=True) * both[:, 3:])


NARROW_PROGRAMS: dict[str, tuple[Any, tuple[int, int]]] = {
    "project": (project_rows, (3, 7)),
    "angles": (measure_angles, (3, 3)),
    "joined": (join_columns, (3, 2)),
}


def draw_narrow(name: str, rows: int, dtype: type[np.floating] = np.float64) -> tuple[CircuitGraph, list[Any]]:
    function, widths = NARROW_PROGRAMS[name]
    rng = np.random.default_rng(rows)
    arguments = [rng.normal(size=(rows, width)).astype(dtype) for width in widths]
    return wg.trace(function, *arguments), arguments


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [lowering.MIN_COLUMN_LENGTH, 101])
@pytest.mark.parametrize("name", NARROW_PROGRAMS)
def test_narrow_matrices_are_computed_column_by_column(name: str, rows: int, dtype: type[np.floating]) -> None:
    circuit, arguments = draw_narrow(name, rows, dtype)

    assert lowering.split_columns(circuit) is not circuit
    assert_same_values(circuit, arguments)
    assert_same_gradient(circuit, arguments)


@pytest.mark.parametrize("name", NARROW_PROGRAMS)
def test_columns_have_the_values_of_their_matrices(name: str) -> None:
    circuit, arguments = draw_narrow(name, 70)
    split = lowering.split_columns(circuit)
    (wanted,) = interpreter.evaluate_outputs(circuit, arguments).values()

    assert split is not circuit
    assert_close(next(iter(interpreter.evaluate_outputs(split, arguments).values())), wanted, 1e-13)


def test_loops_over_columns_run_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, arguments = draw_narrow("project", 101)
    whole = GradientProgram(circuit).program.facts.instructions
    monkeypatch.setattr(lowering, "MIN_VECTOR_BYTES", 0)
    monkeypatch.setattr(lowering, "MAX_GROUP_OPS", 16)
    monkeypatch.setattr(lowering, "ROW_BLOCK_BYTES", 4096)

    assert GradientProgram(circuit).program.facts.instructions > 3 * whole
    assert_same_gradient(circuit, arguments)


def test_splitting_columns_saves_loops() -> None:
    circuit, _ = draw_narrow("project", 100)
    few, _ = draw_narrow("project", lowering.MIN_COLUMN_LENGTH - 1)

    assert 2 * ArrayProgram(circuit).facts.instructions < ArrayProgram(few).facts.instructions


@pytest.mark.parametrize(
    "function",
    [lambda x: np.sum((x @ x.T) ** 2), lambda x: np.sum(np.tanh(x * 2.0)), lambda x: np.sum(np.exp(x), axis=0)[0]],
    ids=["product", "elementwise", "columns added up"],
)
def test_matrices_that_are_used_as_a_whole_are_not_split(function: Any) -> None:
    circuit = wg.trace(function, np.ones((100, 3)))

    assert lowering.split_columns(circuit) is circuit


NARROW_STEPS: tuple[Any, ...] = (
    lambda a, b, k: np.tanh(a[:, : min(a.shape[1], b.shape[1])]) * b[:, : min(a.shape[1], b.shape[1])],
    lambda a, b, k: a * b[:, :1],
    lambda a, b, k: np.sum(a, axis=1, keepdims=True) + b,
    lambda a, b, k: np.stack([a[:, k], b[:, -1]], axis=1),
    lambda a, b, k: np.where(a > 0.0, a, 0.5 * a[:, ::-1]),
    lambda a, b, k: np.concatenate([a[:, k:], b], axis=1)[:, :5],
    lambda a, b, k: a[::-1] - np.mean(b, axis=0)[:1],
    lambda a, b, k: np.concatenate([a[7:], b[:7, k % b.shape[1]][:, None] + a[:7]]),
    lambda a, b, k: a @ np.ones((a.shape[1], 2)) * 0.1,
    lambda a, b, k: np.max(a, axis=1, keepdims=True) * b,
)
"""What a random program does next with two matrices and the number of a column of the first one."""


def draw_narrow_program(rng: np.random.Generator, x: Any, y: Any) -> Any:
    """Return a number that a random program computes from two narrow matrices."""
    values = [x, y]
    for _ in range(int(rng.integers(4, 12))):
        a, b = (values[int(rng.integers(len(values)))] for _ in range(2))
        take_step = NARROW_STEPS[int(rng.integers(len(NARROW_STEPS)))]
        values.append(take_step(a, b, int(rng.integers(a.shape[1]))))
    return sum(np.sum(value) for value in values[2:])


def check_narrow_program(seed: int) -> bool:
    """Compare a random program with the interpreter; return whether its matrices were split."""
    rng = np.random.default_rng(seed)
    arguments = [rng.normal(size=(65, int(width))) for width in rng.integers(1, 5, size=2)]
    circuit = wg.trace(lambda x, y: draw_narrow_program(np.random.default_rng(seed), x, y), *arguments)
    assert_same_values(circuit, arguments)
    assert_same_gradient(circuit, arguments)
    return lowering.split_columns(circuit) is not circuit


def test_random_programs_on_narrow_matrices() -> None:
    split = [check_narrow_program(seed) for seed in range(choose_count(4, 12))]

    assert any(split)


@pytest.mark.full
@pytest.mark.parametrize("shard", range(10))
def test_a_thousand_random_programs_on_narrow_matrices(shard: int) -> None:
    split = [check_narrow_program(seed) for seed in range(shard, 1000, 10)]

    assert sum(split) >= 10


COMPLEX_PARTS = (0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-300, -1e200, 85.0, 709.9, -745.2)


def draw_complex(rng: np.random.Generator, shape: Any, dtype: Any = np.complex128) -> Any:
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


COMPLEX_FUNCTIONS: dict[str, Any] = {
    "sum": lambda z, w: z + w,
    "difference": lambda z, w: z - w * 2.0,
    "product": lambda z, w: z * w,
    "quotient": lambda z, w: z / w,
    "by a real number": lambda z, w: z / 3.0 + 1j * w,
    "real over complex": lambda z, w: 2.0 / z + w,
    "square": lambda z, w: np.square(z) - np.square(w),
    "conjugate": lambda z, w: np.conj(z) * w,
    "parts": lambda z, w: np.real(z) * np.imag(w),
    "length": lambda z, w: np.abs(z) + np.abs(w) ** 2,
    "phase": lambda z, w: np.angle(z) + np.angle(w * z),
    "exponential": lambda z, w: np.exp(z) * np.exp(1j * np.real(w)),
    "choice": lambda z, w: np.where(np.real(z) > 0.0, z, w * 2.0),
    "slices": lambda z, w: z[1:] * w[:-1] + np.conj(z[::-1][1:]),
    "transposed": lambda z, w: z.T * w.reshape(z.T.shape),
    "sums": lambda z, w: np.sum(z * w, axis=0) + np.sum(w),
    "mean": lambda z, w: np.mean(z) * w,
    "joined": lambda z, w: np.concatenate([z, w * z], axis=0),
    "rolled": lambda z, w: np.roll(z, 1, axis=0) * w,
    "constants": lambda z, w: z * np.arange(5.0) + w * np.array([1j, 2.0, 0.0, -1.0, 3.0 - 1j]),
    "a square root between": lambda z, w: np.sqrt(z) * w + np.log(w),
    "a transform between": lambda z, w: np.fft.ifft(np.fft.fft(z * w) * np.conj(w)),
    "a matrix product": lambda z, w: (z @ w.T) * 2.0,
    "broadcast": lambda z, w: z[:1] * w + z[:, :1],
    "comparisons": lambda z, w: (z == w) * np.abs(z) + (z != w) * np.abs(w),
    "nothing": lambda z, w: (z, w),
}


@pytest.mark.parametrize(("name", "dtype"), sample_pairs(COMPLEX_FUNCTIONS, [np.complex128, np.complex64]))
def test_complex_functions_equal_the_interpreter(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    z, w = draw_complex(rng, (4, 5), dtype), draw_complex(rng, (4, 5), dtype)
    function = COMPLEX_FUNCTIONS[name]
    circuit = wg.trace(function, z, w)
    assert_same_values(circuit, [z, w])
    wanted = interpreter.evaluate_outputs(circuit, [z, w], check=False)
    for found, value in zip(ArrayProgram(circuit).run([z, w]), wanted.values(), strict=True):
        assert_close(found, value)
    if name != "nothing":
        loss = wg.trace(lambda z, w: np.sum(np.abs(function(z, w) + 0.25) ** 2), z, w)
        assert_same_gradient(loss, [z, w])


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 1, 3), (33,)], ids=str)
def test_complex_arrays_may_have_any_shape(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    z = draw_complex(rng, shape) if shape else np.asarray(draw_complex(rng, ()))
    rest = rng.normal(size=3)
    circuit = wg.trace(lambda z, x: (z * z + 1j, np.abs(z), np.sum(x) * z), z[()], rest)

    assert_same_values(circuit, [z, rest])


@pytest.mark.parametrize("layout", ARRAY_LAYOUTS)
def test_complex_arguments_may_have_any_layout(layout: str) -> None:
    z = copy_in_layout(draw_complex(np.random.default_rng(0), (4, 5)), layout)
    circuit = wg.trace(lambda z: z * np.conj(z) + z.T[:1].T, z)

    assert_same_values(circuit, [z])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", ["sum", "product", "quotient", "exponential", "length", "conjugate", "comparisons"])
def test_special_complex_numbers_are_those_of_the_interpreter(name: str, dtype: Any) -> None:
    single = {
        "sum": lambda z, w: z + w,
        "product": lambda z, w: z * w,
        "quotient": lambda z, w: z / w,
        "exponential": lambda z, w: np.exp(z) + 0.0 * np.real(w),
        "length": lambda z, w: np.abs(z) + 0.0 * np.abs(w),
        "conjugate": lambda z, w: np.conj(z),
        "comparisons": lambda z, w: (z == w) * 1.0 + (z != w) * 2.0,
    }
    with np.errstate(over="ignore"):
        parts = np.array(COMPLEX_PARTS).astype(dtype(0).real.dtype)
    points = np.empty((len(parts), len(parts)), dtype)
    points.real, points.imag = np.meshgrid(parts, parts)
    others = points.ravel()[::7]
    z, w = np.repeat(points.ravel(), len(others)), np.tile(others, points.size)
    if name in ("exponential", "length"):
        z, w = points.ravel(), np.ones(points.size, dtype)
    circuit = wg.trace(single[name], np.ones(len(z), dtype), np.ones(len(z), dtype)).unchecked()
    found = ArrayProgram(circuit, fenced=True).run([z, w])[0]
    wanted = interpreter.evaluate_outputs(circuit, [z, w], check=False)[circuit.output]
    if name == "product":
        # Whether NumPy rounds both products, or adds one to the other before rounding, depends on the processor.
        wanted.real = z.real * w.real - z.imag * w.imag
        wanted.imag = z.real * w.imag + z.imag * w.real

    for one, two in ((np.real(found), np.real(wanted)), (np.imag(found), np.imag(wanted))):
        np.testing.assert_allclose(one, two, rtol=1e-5 if dtype is np.complex64 else 1e-13)


def test_complex_loops_call_no_interpreter() -> None:
    rng = np.random.default_rng(0)
    z, w = draw_complex(rng, (40, 50)), draw_complex(rng, (40, 50))
    native = [
        name
        for name in COMPLEX_FUNCTIONS
        if " between" not in name and name not in ("a matrix product", "constants", "transposed")
    ]
    for name in native:
        program = ArrayProgram(wg.trace(COMPLEX_FUNCTIONS[name], z, w).unchecked())

        assert (name, program.facts.interpreted) == (name, ())


def test_a_matrix_of_complex_numbers_is_one_result_for_the_caller() -> None:
    z = draw_complex(np.random.default_rng(0), (40, 50))
    compiled = wg.trace(lambda z: z * 2j, z).compile()
    out = np.empty_like(z)

    assert compiled(z, out=out) is out
    np.testing.assert_array_equal(out, z * 2j)
    np.testing.assert_array_equal(compiled(z), z * 2j)


@pytest.fixture
def stream_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small loops compute two vectors in a round, and write their results past the cache."""
    monkeypatch.setattr(array_program, "MIN_STREAMED_BYTES", 0)
    monkeypatch.setattr(array_program, "MIN_PAIRED_LENGTH", 1)


@pytest.mark.usefixtures("stream_everything")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 7, 16, 31, 32, 65, 1000])
def test_streamed_results_touch_their_own_elements_only(size: int, dtype: type[np.floating]) -> None:
    x, y = (np.random.default_rng(k).normal(size=size).astype(dtype) for k in range(2))
    program = ArrayProgram(wg.trace(lambda x, y: (np.tanh(x * y), x - y), x, y))
    for before in range(20):
        memory = np.full((2, size + 40), 7.0, dtype)
        out = [row[before : before + size] for row in memory]
        program.run([x, y], out=out)

        assert_close(out[0], np.tanh(x * y))
        np.testing.assert_array_equal(out[1], x - y)
        assert (memory[:, :before] == 7.0).all()
        assert (memory[:, before + size :] == 7.0).all()


@pytest.mark.usefixtures("stream_everything")
@pytest.mark.parametrize(
    ("name", "dtype"),
    sample_pairs(
        ["exp", "expm1", "tanh", "sinh", "cosh", "log", "log1p", "sin", "arctan", "cbrt"], [np.float64, np.float32]
    ),
)
def test_two_vectors_in_a_round_give_the_bits_of_one(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: type[np.floating]
) -> None:
    x = np.concatenate([np.random.default_rng(0).normal(size=90) * 20.0, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    x = x.astype(dtype)
    circuit = wg.trace(getattr(np, name), np.ones_like(x))
    pairs = ArrayProgram(circuit).run([x])[0]
    monkeypatch.setattr(array_program, "MIN_PAIRED_LENGTH", 1 << 40)
    monkeypatch.setattr(array_program, "MIN_STREAMED_BYTES", 1 << 60)
    single = ArrayProgram(circuit).run([x])[0]

    np.testing.assert_array_equal(pairs, single)
    np.testing.assert_array_equal(np.signbit(pairs[~np.isnan(x)]), np.signbit(single[~np.isnan(x)]))


@pytest.mark.usefixtures("stream_everything")
@pytest.mark.parametrize("seed", sample_some(range(46, 58), 3))
def test_random_programs_that_stream_their_results_equal_the_interpreter(seed: int) -> None:
    check_random_program(seed, fenced=seed % 2 == 0)


@pytest.mark.full
@pytest.mark.usefixtures("stream_everything", "cut_everything")
@pytest.mark.parametrize("start", range(100, 2_100, 100))
def test_many_random_programs_that_stream_their_results_equal_the_interpreter(start: int) -> None:
    for seed in range(start, start + 100):
        check_random_program(seed, fenced=seed % 2 == 0)


def list_kernels(monkeypatch: pytest.MonkeyPatch, circuit: CircuitGraph) -> list[LoopKernel]:
    """Return the kernels of a circuit."""
    kernels: list[LoopKernel] = []
    monkeypatch.setattr(array_program, "compile_kernels", lambda found: kernels.extend(found.values()) or 0)
    monkeypatch.setattr(array_program, "_KERNEL_ADDRESSES", defaultdict(int))
    ArrayProgram(circuit)
    return kernels


def place_in_page(array: np.ndarray, place: int) -> np.ndarray:
    """Return a copy of an array that begins at a place in a page of memory."""
    memory = np.zeros(array.nbytes + 2 * PAGE_BYTES, np.uint8)
    start = -memory.ctypes.data % PAGE_BYTES + place
    copy = memory[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


@pytest.mark.usefixtures("stream_everything")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 31, 40, 100, 1000])
def test_streamed_results_have_the_same_bits_at_any_place_in_a_page(size: int, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(5)
    x, y = (place_in_page(rng.normal(size=size).astype(dtype), 16) for _ in range(2))
    program = ArrayProgram(wg.trace(lambda x, y: (np.tanh(x) * y, np.sum(x * y)), x, y))
    wanted = [part.tobytes() for part in program.run([x, y])]
    for place in range(0, 1024, 40):
        out = place_in_page(np.zeros(size, dtype), place)
        found = program.run([x, y], out=[out, None])

        assert [part.tobytes() for part in found] == wanted, place


@pytest.mark.usefixtures("stream_everything")
@pytest.mark.parametrize(
    ("function", "streamed"),
    [
        (np.tanh, [True]),
        (lambda x: (np.tanh(x), x * 2.0), [True, True]),
        (lambda x: (y := np.tanh(x), y @ y), [False]),
        (lambda x: np.sum(np.tanh(x)), [False]),
        (lambda x: np.sum(x, axis=0), [False]),
    ],
)
def test_results_that_no_step_reads_are_streamed(
    monkeypatch: pytest.MonkeyPatch, function: Any, streamed: list[bool]
) -> None:
    if jit.vector_bytes() < LINE_BYTES:
        streamed = [False] * len(streamed)
    kernels = list_kernels(monkeypatch, wg.trace(function, np.ones((40, 40))))

    assert [target.inner == STREAMED for kernel in kernels for target in kernel.targets] == streamed


def multiply_and_bend(x: Any, w: Any, v: Any) -> Any:
    return np.sum(np.tanh(x @ w) @ v)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", [15, 130, 300])
def test_products_of_one_and_two_threads_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, rows: int, dtype: type[np.floating]
) -> None:
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 1)
    monkeypatch.setattr(array_program, "MIN_PIECE_PRODUCTS", 1 << 10)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size).astype(dtype) for size in ((rows, 70), (70, 200), (200, 140))]
    compiled = wg.compile(multiply_and_bend, argnums=(0, 1, 2)).value_and_grad
    found = []
    for threads in ("1", "2", "1"):
        monkeypatch.setenv("WIREGRAD_THREADS", threads)
        compiled(*arrays)
        value, grads = compiled(*arrays)
        found.append([np.asarray(part).tobytes() for part in (value, *grads)])

    assert found[0] == found[1] == found[2]
    for ours, wanted in zip(compiled(*arrays)[1], wg.grad(multiply_and_bend, (0, 1, 2))(*arrays), strict=True):
        assert_close(ours, wanted)


@pytest.fixture
def tile_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small matrix products be computed in tiles, and their sums in parts of 32 products."""
    monkeypatch.setattr(array_program, "MIN_TILED_PRODUCTS", 0)
    monkeypatch.setattr(array_program, "MIN_TILED_ROWS", 1)
    monkeypatch.setattr(array_program, "MIN_TILED_DEPTH", 1)
    monkeypatch.setattr(array_program, "MIN_COLUMNS_PER_MASKED", 0)
    monkeypatch.setattr(array_program, "PANEL_ROWS", 32)


TILED_SHAPES = [
    (1, 1, 1),
    (1, 5, 40),
    (9, 1, 3),
    (8, 16, 32),
    (7, 15, 31),
    (17, 33, 65),
    (30, 64, 33),
    (3, 8, 34, 17),
    (2, 3, 5, 18, 35),
]
"""Batch axes, then the rows, sums and columns of products."""


@pytest.mark.usefixtures("tile_everything")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", TILED_SHAPES, ids=str)
def test_products_in_tiles_equal_the_interpreter(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    *batch, m, k, n = shape
    rng = np.random.default_rng(3)
    x, turned_x, y, turned_y = (
        rng.normal(size=(*batch, *size)).astype(dtype) for size in ((m, k), (k, m), (k, n), (n, k))
    )

    def multiply(x: Any, turned_x: Any, y: Any, turned_y: Any) -> Any:
        lefts = (x, np.swapaxes(turned_x, -1, -2))
        rights = (y, np.swapaxes(turned_y, -1, -2))
        return tuple(a @ b for a in lefts for b in rights)

    assert_same_values(wg.trace(multiply, x, turned_x, y, turned_y), [x, turned_x, y, turned_y])


@pytest.mark.usefixtures("tile_everything")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_products_in_tiles_hand_unusual_numbers_on(number: float, dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(10, 40)).astype(dtype), rng.normal(size=(40, 37)).astype(dtype)
    x[9, 39] = number
    x[3, 0] = 0.0
    y[0, 36] = number

    with np.errstate(invalid="ignore"):
        assert_same_values(wg.trace(lambda x, y: (x @ y, y.T @ x.T), x, y), [x, y])


@pytest.mark.usefixtures("tile_everything")
@pytest.mark.parametrize("seed", sample_some(range(46, 58), 2))
def test_random_programs_in_tiles_equal_the_interpreter(seed: int) -> None:
    check_random_program(seed, fenced=seed % 2 == 0)


@pytest.mark.full
@pytest.mark.usefixtures("tile_everything", "cut_everything", "share_everything")
@pytest.mark.parametrize("start", range(2_100, 4_100, 100))
def test_many_random_programs_in_tiles_equal_the_interpreter(start: int) -> None:
    for seed in range(start, start + 100):
        check_random_program(seed, fenced=seed % 2 == 0)


@pytest.mark.usefixtures("tile_everything", "cut_everything")
@pytest.mark.parametrize("convolve", CONVOLUTIONS)
def test_convolutions_in_tiles_equal_the_interpreter(convolve: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 2, 6, 7)), rng.normal(size=(4, 2, 3, 3))

    assert_same_gradient(wg.trace(lambda x, w: np.sum(np.tanh(convolve(x, w)) ** 2), x, w), [x, w])


@pytest.mark.parametrize(
    ("shape", "tiled"), [((128, 784, 512), True), ((128, 256, 10), False), ((20, 20, 20), False)], ids=str
)
def test_sizes_decide_whether_a_product_is_computed_in_tiles(shape: tuple[int, int, int], tiled: bool) -> None:
    m, k, n = shape
    circuit = wg.trace(lambda x, y: x @ y, np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    (step,) = (step for step in lowering.lower_circuit(circuit).steps if isinstance(step, lowering.MatrixProduct))

    assert array_program.runs_in_tiles(step) == (tiled and jit.vector_bytes() == LINE_BYTES)


@pytest.mark.usefixtures("multiply_by_blas")
@pytest.mark.parametrize("has_same_bits", [True, False])
def test_one_thread_multiplies_whole_matrices_where_pieces_have_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, has_same_bits: bool
) -> None:
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 1)
    monkeypatch.setattr(array_program, "MIN_PIECE_PRODUCTS", 1 << 10)
    monkeypatch.setattr(array_program, "_try_pieces", lambda *sizes: has_same_bits)
    x = np.ones((130, 130))
    program = ArrayProgram(wg.trace(lambda x: x @ x, x))

    assert program.is_shared
    assert program._lone_stream is not None
    assert (len(program._lone_stream) < len(program.stream)) == has_same_bits
