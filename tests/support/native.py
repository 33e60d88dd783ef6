"""Running native code in tests: one point after another or in batches, in buffers whose surroundings are watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.api import Circuit
from wiregrad.backends.native import batch, jit, tiers
from wiregrad.backends.native.tiers import NativeProgram, build_program

from .host_kernels import run_joined_kernels, run_kernels, run_split_kernels

GUARD = 64
"""How many numbers before and after a buffer must stay as they are."""
MARK = 12345.0

Runner = Callable[[Circuit, Sequence[Sequence[Any]], "int | None"], NDArray[Any]]
"""Computes a circuit at points: a row each, the outputs, then the gradient of one output if its number is given."""


def guarded(program: NativeProgram) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a working buffer on a line of the cache, and all the memory around it."""
    size = program.buffer_length + 2 * GUARD
    around = np.full(size + 64, MARK, program.real.dtype)
    skip = (-around.ctypes.data % 64) // program.real.item_bytes + GUARD
    buffer = around[skip : skip + program.buffer_length]
    buffer[:] = program.initial
    return buffer, around


def at_points(program: NativeProgram, points: Sequence[Sequence[Any]]) -> NDArray[Any]:
    """Run a program at one point after another; nothing outside its buffer may change."""
    buffer, around = guarded(program)
    n, m, lanes = program.inputs, program.outputs, program.real.lanes
    rows = np.empty((len(points), m + n), program.real.dtype)
    for row, point in zip(rows, points, strict=True):
        slots = buffer.reshape(-1, lanes)
        slots[:n] = np.array(point, program.real.dtype)[:, None]
        jit.run_code(program.entry, buffer.ctypes.data)
        row[:] = slots[n : n + m + n, 0]
    outside = np.ones(len(around), bool)
    first = (buffer.ctypes.data - around.ctypes.data) // program.real.item_bytes
    outside[first : first + len(buffer)] = False

    assert (around[outside] == MARK).all()
    return rows


def by_stencils(circuit: Circuit, points: Sequence[Sequence[Any]], gradient: int | None = 0) -> NDArray[Any]:
    """Run the stencils of a circuit at one point after another."""
    return at_points(build_program(circuit, gradient), points)


def by_llvm(circuit: Circuit, points: Sequence[Sequence[Any]], gradient: int | None = 0) -> NDArray[Any]:
    """Run what LLVM makes of a whole circuit at one point after another."""
    return at_points(tiers.recompile_with_llvm(build_program(circuit, gradient)), points)


def vectors(circuit: Circuit, gradient: int | None = 0) -> NativeProgram:
    """Return the program of a circuit on vectors of points."""
    floats = {circuit.type_of(node).dtype for node in range(circuit.size)} & {np.dtype(np.float32)}
    dtype: np.dtype[Any] = np.dtype(np.float32 if floats else np.float64)
    return build_program(circuit, gradient, lanes=batch.count_lanes(dtype))


def in_batches(program: NativeProgram, points: Any, threads: int = 1) -> NDArray[Any]:
    """Run a program on vectors of points; the columns are those of `at_points`."""
    table = np.array(points, program.real.dtype).reshape(len(points), program.inputs)
    values, grads = batch.run_batch(program, table, gradient=True, threads=threads)
    assert grads is not None
    return np.hstack([values, grads])


def by_batch(circuit: Circuit, points: Sequence[Sequence[Any]], gradient: int | None = 0) -> NDArray[Any]:
    """Run the vector stencils of a circuit at all points at once."""
    return in_batches(vectors(circuit, gradient), points)


def in_columns(circuit: Circuit, points: Sequence[Sequence[Any]], *, threads: int = 1) -> NDArray[Any]:
    """Run the loop that LLVM makes of a circuit on columns of numbers; the columns are those of `at_points`."""
    program = vectors(circuit)
    dtype = program.real.dtype
    columns = np.ascontiguousarray(np.array(points, dtype).reshape(len(points), program.inputs).T)
    results = np.empty((program.outputs + program.inputs, len(points)), dtype)
    reads = list(enumerate(columns))
    writes = list(enumerate(results, program.inputs))
    job = batch.ColumnProgram(program, np.array([batch.MIN_KERNEL_POINTS]))

    assert not len(batch.run_columns(job, reads, writes, len(points), threads=threads))
    assert job.has_kernels
    return results.T.copy()


RUNNERS: dict[str, Runner] = {"stencils": by_stencils, "llvm": by_llvm, "batch": by_batch}
KERNEL_RUNNERS: dict[str, Runner] = {
    "kernels": run_kernels,
    "split kernels": run_split_kernels,
    "joined kernels": run_joined_kernels,
}
"""What a GPU runs, on this processor; LLVM compiles each circuit, so fewer circuits are tried."""
ALL_RUNNERS = RUNNERS | KERNEL_RUNNERS


def same_bits(one: NDArray[Any], two: NDArray[Any]) -> bool:
    """Return whether two results are the same to the last bit, NaNs included."""
    return one.shape == two.shape and one.dtype == two.dtype and one.tobytes() == two.tobytes()
