"""Batches: one program runs on vectors of points, tile by tile, in several threads.

A tile has as many points as a vector has lanes. Every tile runs the same code, the last one with its last point
repeated, and no lane depends on another. So the result at a point is the same in every batch and for every number of
threads. Threads run without the GIL, on one description of the batch (`_JOB_WORDS`), of which each takes shares.

Numbers are moved between columns and the working buffer (`BufferMove`): a column has an address and a stride, so a
table of rows is columns too. Neighbouring columns of a table move together: blocks of rows are read as vectors, and
transposed in registers (`_BlockTile`). `run_columns` can be limited to some of the points, and says where the last
outputs of the program do not have the bits that they should have. Programs that have run on many points get a loop of
their own (`ColumnProgram`): LLVM compiles all steps of several tiles into one function, without a buffer in between.
The bits are the same, except for the sign of a NaN. What batches of one shape have in common is planned once
(`PreparedBatch`), and batches whose arguments have the same form again are read and run by the extension module
(`RepeatedColumns`).

Large results use memory of earlier ones again, once nobody refers to them (`ResultPool`): fresh memory takes longer
than a short program, because the system clears every page of it.

Python handles signals in the main thread, between two bytecode instructions. So the main thread returns from native
code every few milliseconds; where a single tile takes longer, another thread works in its place while it waits. An
interrupted batch tells its threads that no tiles are left; each of them ends after its current share.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad import settings
from wiregrad.backends.native import jit
from wiregrad.backends.native.builtin_calls import (
    CONTIGUOUS_AND_ALIGNED,
    MAX_KEPT_RESULTS,
    OWNED_AND_WRITEABLE,
)
from wiregrad.backends.native.helper_threads import (
    HelperThread,
    describe_helpers,
    return_helpers,
    take_helpers,
)
from wiregrad.backends.native.llvm_writer import (
    FOR_READING,
    FOR_READING_LATER,
    FOR_READING_ONCE,
    FOR_WRITING,
    LINE_BYTES,
    MIN_STREAMED_BYTES,
    NON_TEMPORAL_DEFINITION,
    LlvmArray,
    LlvmOperand,
    LlvmValue,
    LlvmVariable,
    LlvmWriter,
    RealType,
    allocate_variable,
    format_vector_type,
    loop_over,
    transpose_blocks,
    when_all,
)
from wiregrad.backends.native.step_kinds import OUTPUT_HOLE, ExpressionLowering, write_step
from wiregrad.backends.native.tiers import SEED_STEP, NativeProgram, SlotAccess, copy_aligned
from wiregrad.backends.native.vector_math import call_inline, list_used_features
from wiregrad.lazy import NamedTuple, import_module, load_module_lazily

if TYPE_CHECKING:
    from concurrent import futures
else:
    # Only batches need it, and it takes several milliseconds.
    futures = load_module_lazily("concurrent.futures")

MIN_TILES_PER_THREAD = 64
"""Minimum number of tiles per thread: waking a thread takes as long as a few tiles."""
MIN_TILES_PER_SHARE = 8
"""Minimum number of tiles that a thread takes at a time."""
SHARES_PER_THREAD = 16
"""Approximate number of shares that each thread takes in a large batch."""
MAX_SHARE_STEPS = 100_000
"""The maximum number of steps in a share of several tiles: under a millisecond as a rule, under 50 at worst."""
TURNING_BUFFERS = 4
"""Short programs run on so many buffers in turn, a power of 2: a tile need not wait until the last one was read."""
MAX_TURNING_BYTES = 4096
"""Maximum size of a buffer of which there are several: all of them stay in the fastest cache."""
MAX_SPARE_BUFFERS = 16
"""A program with so many working buffers keeps no more of them for later batches."""
MOVE_WORDS = 5
"""The number of integers that describe a move to native code."""
PREFETCHED_TILES = 4
"""How many tiles ahead rows of tables are prefetched."""
PREFETCHED_POINTS = 256
"""How many points ahead the columns of a loop over groups of tiles are prefetched."""
MIN_RECYCLED_BYTES = 1 << 17
"""Results of at least this size are recycled; the allocator of C keeps smaller ones at hand itself."""
REUSED_FLAGS = CONTIGUOUS_AND_ALIGNED | OWNED_AND_WRITEABLE
"""The flags of results that are recycled."""
MAX_POOLED_BYTES = 1 << 28
"""How much memory is kept at most for the results of later batches, of all programs together."""
SLICE_SECONDS = 0.01
"""Approximate seconds that the main thread stays in native code, or waits, before it checks for signals."""


def _find_address(array: NDArray[Any]) -> int:
    # Takes half as long as `array.ctypes.data`, which makes a Python object.
    address: int = array.__array_interface__["data"][0]
    return address


def count_lanes(dtype: np.dtype[np.floating]) -> int:
    """Return the number of lanes of this processor's vectors for a float type."""
    return jit.vector_bytes() // dtype.itemsize


def can_recycle(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Return whether results of a type are worth recycling, and counts of references say who uses an array."""
    # Without the GIL a count of references says nothing about other threads.
    if prod(shape) * dtype.itemsize < MIN_RECYCLED_BYTES:
        return False
    return sys.implementation.name == "cpython" and bool(getattr(sys, "_is_gil_enabled", lambda: True)())


class ResultPool:
    """Memory of one large result, used again when nobody else refers to it: fresh memory costs more than the work.

    Whoever uses the data of an array holds a reference to it, directly or through the base of a view. So an array that
    only the pool refers to is free.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.arrays: list[NDArray[Any]] = []
        """The arrays that are kept, those used last at the end."""
        self._bytes = prod(shape) * dtype.itemsize

    @property
    def total_bytes(self) -> int:
        """The size of all arrays that are kept."""
        return len(self.arrays) * self._bytes

    def take_array(self) -> NDArray[Any]:
        """Return an array whose content nobody needs."""
        array = self.reuse_array()
        return allocate_aligned(self.shape, self.dtype) if array is None else array

    def reuse_array(self) -> NDArray[Any] | None:
        """Return an array whose content nobody needs; the one used last, because it may still be in the cache.

        None if there is none.
        """
        for _ in range(len(self.arrays)):
            try:
                array, references = _pop_and_count(self.arrays)
            except IndexError:
                break
            if references > OWN_REFERENCES or weakref.getweakrefcount(array):
                self.arrays.insert(0, array)
            elif self._is_unchanged(array):
                return array
        return None

    def _is_unchanged(self, array: NDArray[Any]) -> bool:
        """Return whether the caller has left shape, dtype and flags of a result as they were."""
        is_same = array.shape == self.shape and array.dtype == self.dtype
        return is_same and array.flags.num & REUSED_FLAGS == REUSED_FLAGS

    def keep_array(self, array: NDArray[Any]) -> None:
        """Keep an array that is given to the caller, to use it again later."""
        if len(self.arrays) < MAX_KEPT_RESULTS:
            self.arrays.append(array)


class AlignedMemory:
    """Makes arrays that begin at a cache line and own their memory, by an allocator of NumPy's interface for them.

    NumPy aligns memory to 16 bytes only. Lines of a result can be streamed where they are whole vectors of a loop, and
    all results of a loop must have them at the same points.
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self._advise = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(("madvise", libc))
        functions = [ctypes.cast(getattr(libc, name), ctypes.c_void_p).value for name in _ALLOCATOR]
        self._functions = (ctypes.c_void_p * len(functions))(*functions)
        self._code = jit.JitFunctions(jit.OwnText("allocator of arrays", _write_allocator))
        addresses = [self._code.find_address(f"array_{name}") for name in _ALLOCATOR]
        self._handler = _MemoryHandler(b"wiregrad", 1, ctypes.addressof(self._functions), *addresses)
        make_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        # A capsule refers to the bytes of its name.
        self._name = _HANDLER_NAME
        self._capsule = make_capsule(ctypes.addressof(self._handler), self._name, None)
        address = _read_capsule(import_module("numpy._core._multiarray_umath")._ARRAY_API, None)
        table = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))
        self._set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER])
        self._get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(table[GET_HANDLER])
        # Arrays are freed by this code until the very end of the process, when Python has cleared its modules.
        ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))(self)

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a new array; an allocator that the user has chosen is used as it is."""
        usual = self._get_handler()
        handler = _MemoryHandler.from_address(_read_capsule(usual, _HANDLER_NAME))
        if handler.name != b"default_allocator" or handler.version != 1:
            return np.empty(shape, dtype)
        self._set_handler(self._capsule)
        try:
            array = np.empty(shape, dtype)
        finally:
            self._set_handler(usual)
        if array.nbytes >= MIN_HUGE_PAGE_BYTES:
            begin = -(-_find_address(array) // PAGE_BYTES) * PAGE_BYTES
            end = (_find_address(array) + array.nbytes) // PAGE_BYTES * PAGE_BYTES
            self._advise(begin, end - begin, HUGE_PAGES)
        return array


_ALLOCATOR = ("aligned_alloc", "calloc", "realloc", "free")
"""The functions of C behind the allocator of arrays, in the order of NumPy's interface."""
_HANDLER_NAME = b"mem_handler"
SET_HANDLER = 304
GET_HANDLER = 305
"""The numbers of `PyDataMem_SetHandler` and `PyDataMem_GetHandler` in NumPy's table of C functions."""
MIN_HUGE_PAGE_BYTES = 1 << 22
"""The size from which on NumPy asks for huge pages, too."""
PAGE_BYTES = 4096
HUGE_PAGES = 14
"""MADV_HUGEPAGE of Linux."""


class _MemoryHandler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`, version 1."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("functions", ctypes.c_void_p),
        *[(name, ctypes.c_void_p) for name in _ALLOCATOR],
    ]


def _read_capsule(capsule: object, name: bytes | None) -> int:
    read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    address: int = read(capsule, name)
    return address


def _write_allocator() -> str:
    """Return the LLVM module of the allocator; the first parameter of each function is the table of C's functions."""
    signatures = {
        "aligned_alloc": ("ptr", "i64 %size", f"i64 {LINE_BYTES}, i64 %whole"),
        "calloc": ("ptr", "i64 %count, i64 %size", "i64 %count, i64 %size"),
        "realloc": ("ptr", "ptr %memory, i64 %size", "ptr %memory, i64 %size"),
        "free": ("void", "ptr %memory, i64 %size", "ptr %memory"),
    }
    lines = []
    for number, (name, (result, parameters, arguments)) in enumerate(signatures.items()):
        value = "" if result == "void" else "%result"
        lines += [
            f"define {result} @array_{name}(ptr %functions, {parameters}) {{",
            f"%place = getelementptr ptr, ptr %functions, i64 {number}",
            "%function = load ptr, ptr %place",
            # A whole number of lines, and at least one.
            f"%more = add i64 %size, {LINE_BYTES}",
            f"%whole = and i64 %more, -{LINE_BYTES}",
            f"{value and '%result = '}call {result} %function({arguments})",
            f"ret {result} {value}",
            "}",
        ]
    return "\n".join(lines)


@cache
def _aligned_memory() -> AlignedMemory | None:
    """Return the allocator of aligned arrays; None where it is not known to work."""
    return AlignedMemory() if sys.platform == "linux" and jit.links_own_code() else None


def allocate_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a new array that begins at a cache line, where that is possible."""
    memory = _aligned_memory()
    return np.empty(shape, dtype) if memory is None else memory.allocate(shape, dtype)


def _pop_and_count(arrays: list[NDArray[Any]]) -> tuple[NDArray[Any], int]:
    """Take the last array; return it with the number of references to it."""
    array = arrays.pop()
    return array, sys.getrefcount(array)


OWN_REFERENCES = _pop_and_count([np.empty(0)])[1]
"""The references to an array that nobody else has; from Python 3.14 on, calls do not count the variable twice."""

_BATCH_POOLS: dict[tuple[tuple[int, ...], np.dtype[Any], int], ResultPool] = {}
"""The results of batches, by shape, dtype and number; those used last are the last."""


def find_pool(shape: tuple[int, ...], dtype: np.dtype[Any], number: int) -> ResultPool | None:
    """Return the memory that is used again for a result of a batch; None if it is not worth it."""
    key = (shape, dtype, number)
    pool = _BATCH_POOLS.pop(key, None)
    if pool is None:
        if not can_recycle(shape, dtype) or prod(shape) * dtype.itemsize > MAX_POOLED_BYTES:
            return None
        pool = ResultPool(shape, dtype)
    _BATCH_POOLS[key] = pool
    return pool


def allocate_result(shape: tuple[int, ...], dtype: np.dtype[Any], number: int) -> NDArray[Any]:
    """Return memory for a result of a batch; `number` tells results apart that one call has at the same time.

    Several threads may call it: every operation on the pools is a single one of a list or dict, and a pool that gets
    lost is only memory that is not used again.
    """
    pool = find_pool(shape, dtype, number)
    if pool is None:
        return np.empty(shape, dtype)
    array = pool.reuse_array()
    if array is not None:
        pool.keep_array(array)
        return array
    array = allocate_aligned(shape, dtype)
    pool.keep_array(array)
    _drop_oldest_pools()
    return array


def _drop_oldest_pools() -> None:
    """Drop the results that were used longest ago, until the others are not larger than is kept at most."""
    total = sum(each.total_bytes for each in list(_BATCH_POOLS.values()))
    for oldest in list(_BATCH_POOLS):
        if total <= MAX_POOLED_BYTES:
            break
        dropped = _BATCH_POOLS.pop(oldest, None)
        if dropped is not None:
            total -= dropped.total_bytes
            # Batches that are prepared refer to the list.
            dropped.arrays.clear()


BufferMove: TypeAlias = tuple[int, NDArray[np.floating]]
"""An entry of a program's working buffer, and the column of numbers, one per point, that is copied to or from it.

A column is a vector with any stride; for inputs also an array without axes: one number for all points."""


def run_batch(
    program: NativeProgram, points: NDArray[np.floating], *, gradient: bool, threads: int | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    """Run a program on each row of `points`; return the outputs and, with `gradient`, the gradients, one row each."""
    dtype = program.real.dtype
    table = np.ascontiguousarray(points, dtype)
    values = allocate_result((len(table), program.outputs), dtype, 0)
    writes = _move_table(program, program.inputs, values)
    gradients = allocate_result((len(table), program.inputs), dtype, 1) if gradient else None
    if gradients is not None:
        more = _move_table(program, program.inputs + program.outputs, gradients)
        columns = writes.columns + more.columns
        writes = _Moves(np.concatenate([writes.table, more.table]), columns, writes.is_dense and more.is_dense)
    plan = _BatchPlan(program, _move_table(program, 0, table), writes)
    size = BatchSize.choose(program, len(table), threads)
    _run_job(_BatchJob(plan, size, arrays=(table, values, gradients)))
    return values, gradients


def run_columns(
    columns: ColumnProgram,
    reads: Sequence[BufferMove],
    writes: Sequence[BufferMove],
    count: int,
    rows: NDArray[np.intp] | None = None,
    expected: bytes = b"",
    threads: int | None = None,
) -> NDArray[np.intp]:
    """Run a program on columns of numbers; return at which of the selected points its results do not count.

    `rows` are the indices of the points that are computed, in ascending order; None for all of them. Results are
    written at all selected points, and are meaningless where the last outputs do not have the `expected` bits.
    """
    moving = [(entry, column) for entry, column in reads if column.ndim]
    fixed = [(entry, number.item()) for entry, number in reads if not number.ndim]
    program = columns.program
    size = BatchSize.choose(program, count if rows is None else len(rows), threads)
    if rows is None and all(column.flags.c_contiguous for _, column in (*moving, *writes)):
        sources, numbers, targets = (tuple([entry for entry, _ in moves]) for moves in (moving, fixed, writes))
        prepared = PreparedBatch(columns, BatchShape(sources, numbers, targets, expected))
        addresses = [_find_address(column) for _, column in (*moving, *writes)]
        return prepared.run(addresses, [number for _, number in fixed], size, (reads, writes))
    plan = _BatchPlan(program, _move_columns(program, moving), _move_columns(program, writes), expected)
    job = _BatchJob(plan, size, rows=rows, arrays=(reads, writes))
    job.fixed = fixed
    _run_job(job)
    return job.find_failures()


def _plan_columns(real: RealType, entries: tuple[int, ...]) -> _Moves:
    """Return the moves of contiguous columns that begin at address 0."""
    moves = [(entry * real.lanes, 0, 1, 1, 0) for entry in entries]
    return _Moves(np.array(moves, np.int64).reshape(-1, MOVE_WORDS), len(entries), is_dense=True)


class _Moves(NamedTuple):
    """How numbers are moved between columns and the working buffer."""

    table: NDArray[np.int64]
    """A row for each move of one or more columns."""
    columns: int
    """The number of columns."""
    is_dense: bool
    """Whether all columns are contiguous."""


def _move_table(program: NativeProgram, first: int, table: NDArray[np.floating]) -> _Moves:
    """Return the moves between the columns of a table and the entries of the buffer from `first` on."""
    width = table.shape[1]
    moves = _plan_table(program.real, first, width).copy()
    moves[:, 1] += _find_address(table)
    return _Moves(moves, width, is_dense=width <= 1)


@cache
def _plan_table(real: RealType, first: int, width: int) -> NDArray[np.int64]:
    """Return the moves of a table that begins at address 0."""
    return _join_columns(real, [((first + k) * real.lanes, k * real.item_bytes, width) for k in range(width)])


def _move_columns(program: NativeProgram, moves: Sequence[BufferMove]) -> _Moves:
    real = program.real
    columns = [
        (entry * real.lanes, _find_address(column), column.strides[0] // real.item_bytes) for entry, column in moves
    ]
    is_dense = all(stride == 1 for _, _, stride in columns)
    return _Moves(_join_columns(real, columns), len(moves), is_dense)


def _join_columns(real: RealType, columns: Sequence[tuple[int, int, int]]) -> NDArray[np.int64]:
    """Return moves of one or more columns, as `_LoadedMove` has them, but with places in the buffer.

    Columns that are neighbours in a table of rows are joined, unless a column is contiguous anyway.
    """
    moves = list[tuple[int, ...]]()
    first = 0
    for end, (place, address, stride) in enumerate(columns, 1):
        if (
            stride != 1
            and end < len(columns)
            and columns[end] == (place + real.lanes, address + real.item_bytes, stride)
        ):
            continue
        count = end - first
        for k, width in _split_columns(count, real.lanes):
            # The rows of a tile are contiguous memory, of which each block prefetches its share.
            ahead = PREFETCHED_TILES * real.lanes * stride + k * (real.lanes - 1) if stride == count else 0
            moves.append((*columns[first + k], width, ahead))
        first = end
    return np.array(moves, np.int64).reshape(-1, MOVE_WORDS)


def _split_columns(count: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Yield the first column and the width of blocks that cover columns; widths are powers of 2, blocks may overlap."""
    width = 1 << (min(count, lanes).bit_length() - 1)
    end = count // width * width
    for first in range(0, end, width):
        yield first, width
    if end < count:
        width = 1 << (count - end - 1).bit_length()
        yield count - width, width


def _run_job(job: _BatchJob) -> None:
    """Run a batch in several threads."""
    job.run_head()
    helpers = list[HelperThread]()
    try:
        if job.workers > 1:
            helpers += take_helpers(job.workers - 1)
        buffers = [job.take_buffer() for _ in range(1 + len(helpers))]
        for helper, buffer in zip(helpers, buffers[1:], strict=True):
            job.post_to(helper, buffer)
        if threading.current_thread() is not threading.main_thread():
            job.run_until_done(buffers[0])
        elif job.has_short_tiles:
            job.run_in_slices(buffers[0])
        else:
            # In a separate thread, because the helpers may be busy with batches of other threads.
            _wait_for_threads([_substitute_pool().submit(job.run_until_done, buffers[0])])
        for helper in helpers:
            helper.finish()
    except BaseException:
        job.discard_rest()
        for helper in helpers:
            helper.retire()
        raise
    return_helpers(helpers)
    job.keep_buffers(buffers)


def _make_answers(count: int, lanes: int) -> NDArray[np.bool_]:
    """Return an array for one answer per point; the last tile, which may begin at any point, writes all its lanes."""
    return np.ones(count + lanes, np.bool_)


_NO_ANSWERS = np.empty(0, np.bool_)


_JOB_WORDS = {
    "reads": "ptr",
    "writes": "ptr",
    "rows": "ptr",
    "holds": "ptr",
    "has_all_rows": "i64",
    "share": "i64",
    "count": "i64",
    "kernel": "ptr",
    "code": "ptr",
    "read_count": "i64",
    "write_count": "i64",
    "first_check": "i64",
    "expected": "ptr",
    "check_count": "i64",
    "is_dense": "i64",
    "turn_mask": "i64",
    "buffer_length": "i64",
    "taken": "i64",
}
"""The description of a batch for the native loop, and the types of its words. The last one, the number of points that
threads have taken so far, is incremented by all threads; the others do not change while threads run."""
_WORD_NUMBERS = {name: number for number, name in enumerate(_JOB_WORDS)}
SHARE_WORD, TAKEN_WORD = _WORD_NUMBERS["share"], _WORD_NUMBERS["taken"]
VARIABLE_WORDS = _WORD_NUMBERS["kernel"]
"""So many of the first words differ by batch, even if columns have the same addresses."""


class _BatchPlan:
    """What batches of a program have in common that move the same numbers.

    Its words describe a batch to native code, with 0 for what differs: `_JOB_WORDS`, then the moves.
    """

    def __init__(self, program: NativeProgram, reads: _Moves, writes: _Moves, expected: bytes = b"") -> None:
        self.program = program
        lanes = program.real.lanes
        # A vector for each check.
        self.checks = np.repeat(np.frombuffer(expected, program.real.dtype), lanes) if expected else np.empty(0)
        self.check_count = len(self.checks) // lanes
        length = program.buffer_length
        self.buffers = TURNING_BUFFERS if length * program.real.item_bytes <= MAX_TURNING_BYTES else 1
        # Copying a number in or out takes about as long as a step.
        self.steps = len(program.stream) + reads.columns + writes.columns + self.check_count
        words = {
            "code": program.entry,
            "read_count": len(reads.table),
            "write_count": len(writes.table),
            "first_check": (program.inputs + program.outputs - self.check_count) * lanes,
            "expected": _find_address(self.checks),
            "check_count": self.check_count,
            # Whether tiles are vectors in their columns.
            "is_dense": reads.is_dense and writes.is_dense,
            "turn_mask": self.buffers - 1,
            "buffer_length": length,
        }
        first = [words.get(name, 0) for name in _JOB_WORDS]
        self.words = np.array([*first, *reads.table.ravel().tolist(), *writes.table.ravel().tolist()], np.int64)
        self.column_places = slice(len(_JOB_WORDS) + 1, None, MOVE_WORDS)
        """The words that are addresses of columns."""
        self.offsets = [self.words.itemsize * (len(_JOB_WORDS) + MOVE_WORDS * k) for k in (0, len(reads.table))]
        """Where the moves begin, in bytes."""


class _BatchJob:
    """A batch that threads work on, share by share.

    Its threads keep the arrays alive, even if the call that started them is interrupted.
    """

    def __init__(
        self,
        plan: _BatchPlan,
        size: BatchSize,
        columns: Sequence[int] | NDArray[np.int64] = (),
        *,
        rows: NDArray[np.intp] | None = None,
        arrays: object,
    ) -> None:
        """Describe a batch; `columns` are the addresses of all columns, unless they are those of the plan."""
        self._plan = plan
        self._count, self.workers = count, workers = size
        lanes = plan.program.real.lanes
        answers = _make_answers(count, lanes) if plan.check_count else _NO_ANSWERS
        self._holds = answers[:count]
        """At which points every check holds; empty if there are no checks."""
        tiles = -(-count // lanes)
        share = tiles if workers == 1 else -(-tiles // (workers * SHARES_PER_THREAD))
        # How many points a thread takes at a time.
        share = max(1, min(max(MIN_TILES_PER_SHARE, share), MAX_SHARE_STEPS // plan.steps))
        self._first = max(1, MAX_SHARE_STEPS // (plan.steps * share))
        self._shares = -(-tiles // share)
        self.has_short_tiles = plan.steps <= MAX_SHARE_STEPS
        self._head = 0
        """How many points are computed before the first tile."""
        self._words = plan.words.copy()
        self._address = _find_address(self._words)
        moves = [self._address + offset for offset in plan.offsets]
        addresses = (0 if rows is None else _find_address(rows), _find_address(answers))
        self._words[:VARIABLE_WORDS] = (*moves, *addresses, rows is None, share * lanes, count)
        if len(columns):
            self._words[plan.column_places] = columns
        self._arrays = (rows, answers, arrays)
        self.fixed: Sequence[tuple[int, float]] = ()
        """The inputs that are the same at all points."""

    def use_kernel(self, address: int) -> None:
        """Use a loop over groups of whole tiles; 0 for none."""
        self._words[_WORD_NUMBERS["kernel"]] = address

    def align_lines(self, targets: Sequence[int] | NDArray[np.int64]) -> bool:
        """Begin the tiles where the cache lines of all results begin; return whether there is such a point."""
        real = self._plan.program.real
        distances = {-address % LINE_BYTES for address in np.asarray(targets).tolist()}
        if real.total_bytes != LINE_BYTES or len(distances) != 1:
            return False
        distance = distances.pop()
        if distance % real.item_bytes:
            return False
        self._head = distance // real.item_bytes
        return True

    def run_head(self) -> None:
        """Compute the points before the first tile."""
        if self._head:
            buffer = self.take_buffer()
            share = self._words[SHARE_WORD].item()
            self._words[SHARE_WORD] = self._head
            self._run_driver(buffer, 1)
            self._words[SHARE_WORD] = share
            self.keep_buffers([buffer])

    def run_until_done(self, buffer: NDArray[np.floating]) -> None:
        """Run shares until none is left."""
        self._run_driver(buffer, self._shares)

    def run_in_slices(self, buffer: NDArray[np.floating]) -> None:
        """Run shares until none is left, and return to Python every few milliseconds."""
        shares = self._first
        while self._words[TAKEN_WORD] < self._count:
            began = time.perf_counter()
            self._run_driver(buffer, shares)
            if time.perf_counter() - began < SLICE_SECONDS / 2:
                shares *= 2

    def take_buffer(self) -> NDArray[np.floating]:
        """Return the working buffers of a thread, with the inputs that are the same at all points."""
        program = self._plan.program
        try:
            entries = program.spare_buffers.pop()
        except IndexError:
            count = self._plan.buffers
            numbers = copy_aligned(program.initial if count == 1 else np.concatenate([program.initial] * count))
            entries = numbers.reshape(count, -1, program.real.lanes)
        for entry, number in self.fixed:
            entries[:, entry] = number
        return entries

    def keep_buffers(self, buffers: Sequence[NDArray[np.floating]]) -> None:
        """Keep small working buffers for later batches; no thread may be at work on them."""
        spare = self._plan.program.spare_buffers
        if self._plan.buffers > 1 and len(spare) < MAX_SPARE_BUFFERS:
            spare.extend(buffers)

    def _run_driver(self, buffer: NDArray[np.floating], shares: int) -> None:
        """Take so many shares of the points, and compute them."""
        _compile_driver(self._plan.program.real)(self._address, _find_address(buffer), shares)

    def post_to(self, helper: HelperThread, buffer: NDArray[np.floating]) -> None:
        """Have another thread run shares until none is left."""
        code = _find_driver(self._plan.program.real)
        helper.post(code, self._address, _find_address(buffer), self._shares, (self, buffer))

    def describe_words(self) -> tuple[int, int, int, int]:
        """Return where the words are, the first address of a column, the step to the next, and the count of points."""
        return self._address, self._plan.column_places.start, MOVE_WORDS, TAKEN_WORD

    def describe_run(self) -> tuple[int, int, int]:
        """Return the native loop over tiles, and how many shares it has in all and at first."""
        return _find_driver(self._plan.program.real), self._shares, self._first

    def find_failures(self) -> NDArray[np.intp]:
        """Return the points at which a check does not hold."""
        if not self._plan.check_count:
            return np.empty(0, np.intp)
        return np.flatnonzero(~self._holds)

    def discard_rest(self) -> None:
        """Discard the tiles that no thread has taken yet."""
        self._words[TAKEN_WORD] = self._count


TILES_PER_GROUP = 4
"""Tiles whose steps are written in turn: one tile need not wait for the steps of another."""
MAX_KERNEL_STEPS = 300
"""Maximum number of steps of a program that gets a loop of its own; LLVM needs a third of a millisecond for a step."""
MIN_KERNEL_POINTS = 1_000_000
"""A program gets a loop of its own after so many points: until then it has taken about as long as compiling takes."""


class BatchShape(NamedTuple):
    """What a batch on contiguous columns moves, by entries of the buffer."""

    moving: tuple[int, ...]
    """The inputs that differ by point."""
    fixed: tuple[int, ...]
    """The inputs that are the same at all points."""
    targets: tuple[int, ...]
    """The results."""
    expected: bytes = b""
    """The bits that the last outputs must have for the results to count."""


class KernelKey(NamedTuple):
    """What a loop over groups of whole tiles is compiled for."""

    reads: tuple[int, ...]
    """The entries of the buffer that are read from columns."""
    writes: tuple[int, ...]
    """The entries that are written to columns."""
    checks: int
    """The number of outputs that are compared with expected bits."""
    streams: bool
    """Whether results go past the cache; then tiles begin where cache lines begin."""


@dataclass(eq=False)
class ColumnProgram:
    """A program that runs on columns, and the loops over groups of whole tiles that LLVM has made of it."""

    program: NativeProgram
    counter: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))
    """The number of points so far, which the extension module counts, too."""
    _kernels: dict[KernelKey, jit.JitFunctions] = field(default_factory=dict, repr=False)
    _plans: dict[BatchShape, _BatchPlan] = field(default_factory=dict, repr=False)

    def find_plan(self, shape: BatchShape) -> _BatchPlan:
        """Return what batches of a shape have in common."""
        if shape not in self._plans:
            reads, writes = (_plan_columns(self.program.real, entries) for entries in (shape.moving, shape.targets))
            self._plans[shape] = _BatchPlan(self.program, reads, writes, shape.expected)
        return self._plans[shape]

    @property
    def has_kernels(self) -> bool:
        """Whether such a loop has been compiled."""
        return bool(self._kernels)

    @property
    def points(self) -> int:
        """The number of points so far."""
        return self.counter.item()

    @property
    def points_left(self) -> int:
        """How many more points make such a loop pay; 0 if it pays already or never does."""
        return 0 if len(self.program.stream) > MAX_KERNEL_STEPS else max(MIN_KERNEL_POINTS - self.points, 0)

    def choose_kernel(self, key: KernelKey) -> int:
        """Return the address of a loop for further points; 0 if it does not pay."""
        if len(self.program.stream) > MAX_KERNEL_STEPS or self.points < MIN_KERNEL_POINTS:
            return 0
        if key not in self._kernels:
            made = jit.JitFunctions(_write_kernel(self.program, key), level=1)
            # Another thread may have made one meanwhile, whose code is in use and must stay.
            self._kernels.setdefault(key, made)
        return self._kernels[key].find_address("columns")


class PreparedBatch:
    """Batches of one shape, at all points: all but the columns is known."""

    def __init__(self, columns: ColumnProgram, shape: BatchShape) -> None:
        self._columns = columns
        self._shape = shape
        self._plan = columns.find_plan(shape)
        self._loops = [0, 0]
        """The loops over groups of tiles without and with streamed results, once they are compiled."""

    def run(
        self, addresses: Sequence[int] | NDArray[np.int64], numbers: Sequence[float], size: BatchSize, arrays: object
    ) -> NDArray[np.intp]:
        """Run the program on columns, those of inputs first; return the points whose results do not count.

        `numbers` are the inputs that are the same at all points; `arrays` is what the addresses point to.
        """
        shape = self._shape
        job = _BatchJob(self._plan, size, addresses, arrays=(arrays, self._columns))
        job.fixed = list(zip(shape.fixed, numbers, strict=True))
        streams = self._is_large(size) and job.align_lines(addresses[len(shape.moving) :])
        job.use_kernel(self._choose_loop(streams=streams))
        self._columns.counter += size.points
        _run_job(job)
        return job.find_failures()

    def describe(self, size: BatchSize) -> tuple[_BatchJob, int]:
        """Return such a batch without addresses, and the alignment in bytes that it needs of its results."""
        job = _BatchJob(self._plan, size, arrays=())
        streams = self._is_large(size) and self._plan.program.real.total_bytes == LINE_BYTES
        job.use_kernel(self._choose_loop(streams=streams))
        return job, LINE_BYTES if streams else self._plan.program.real.item_bytes

    def _is_large(self, size: BatchSize) -> bool:
        """Return whether results are streamed if they lie in memory as that needs."""
        columns = len(self._shape.moving) + len(self._shape.targets)
        return size.points * columns * self._plan.program.real.item_bytes >= MIN_STREAMED_BYTES

    def _choose_loop(self, *, streams: bool) -> int:
        """Return the address of the loop over groups of tiles; 0 if it does not pay."""
        if not self._loops[streams]:
            kernel = KernelKey(self._shape.moving, self._shape.targets, self._plan.check_count, streams)
            self._loops[streams] = self._columns.choose_kernel(kernel)
        return self._loops[streams]


class RepeatedColumns:
    """Batches of one shape whose arguments are vectors and floats; the extension module reads and runs them."""

    def __init__(self, columns: ColumnProgram, shape: BatchShape) -> None:
        self._prepared = PreparedBatch(columns, shape)
        self._columns = columns
        self._fixed = shape.fixed

    def describe_job(
        self, points: int, threads: int | None, results: int, targets: Sequence[int]
    ) -> tuple[Any, ...] | None:
        """Return what describes batches of so many points to the extension module (`BatchJob`).

        `targets` are the numbers of those results that are computed. None if a tile may take too long for signals.
        """
        program = self._columns.program
        job, alignment = self._prepared.describe(BatchSize.choose(program, points, threads))
        if not job.has_short_tiles:
            return None
        buffers = [job.take_buffer() for _ in range(job.workers)]
        pools = [find_pool((points,), program.real.dtype, k) for k in range(results)]
        lists = None if None in pools else tuple([pool.arrays for pool in pools if pool is not None])
        return (
            (points, threads or 0),
            job.describe_words(),
            job.describe_run(),
            (
                tuple(map(_find_address, buffers)),
                self._fixed,
                program.real.lanes,
                len(buffers[0]),
                program.buffer_length,
            ),
            (results, tuple(targets), alignment, lists),
            describe_helpers(),
            self._count_uses(points, len(buffers[0])),
            (job, buffers, self._columns),
        )

    def _count_uses(self, points: int, buffers: int) -> int:
        """Return how many batches may be run by one description."""
        if buffers == 1:
            # Large buffers are not kept.
            return 1
        left = self._columns.points_left
        return -(-left // points) if left else sys.maxsize

    @property
    def counter(self) -> NDArray[np.int64]:
        """Where points are counted: programs that run on many get loops of their own."""
        return self._columns.counter


class BatchSize(NamedTuple):
    """The number of points of a batch, and of threads that it runs in."""

    points: int
    workers: int

    @staticmethod
    def choose(program: NativeProgram, count: int, threads: int | None) -> BatchSize:
        """Choose how many threads a batch of so many points runs in, at most `threads`."""
        most = -(-count // program.real.lanes) // MIN_TILES_PER_THREAD
        if most < 2 or threads == 1:
            return BatchSize(count, 1)
        return BatchSize(count, min(most, count_threads() if threads is None else min(threads, count_max_threads())))


class _TileAccess(SlotAccess):
    """Access to the slots of one tile of a group; inputs that differ by point are read from their columns."""

    def __init__(self, writer: LlvmWriter, real: RealType, columns: Mapping[int, LlvmValue], first: LlvmValue) -> None:
        super().__init__(writer, real)
        self._columns = columns
        """The address of the column of each entry."""
        self.first = first
        """The number of the tile's first point."""

    def load_slot(self, slot: int) -> LlvmValue:
        """Write the load of a slot from its column, or from the buffer."""
        if slot not in self._columns:
            return super().load_slot(slot)
        place = self.writer.point_to(self.real.name, self._columns[slot], self.first)
        return self.writer.load(self.real.bits_name, place, how=f", align {self.real.item_bytes}")

    def read_slot(self, slot: int) -> LlvmValue:
        """Write the load of the bits that the steps have left in a slot."""
        self.holes = {OUTPUT_HOLE: slot}
        return self.load(OUTPUT_HOLE)


def _write_kernel(program: NativeProgram, kernel: KernelKey) -> str:
    """Return the LLVM module of a loop over groups of tiles: reads columns, takes all steps, and writes columns."""
    real = program.real
    w = LlvmWriter(real.lanes, shares=True, features=list_used_features())
    pointers = ", ".join(f"ptr {'noalias ' if name == 'w' else ''}%{name}" for name in _KERNEL_PARAMETERS)
    w.begin_function(f"void @columns({pointers}, i64 %first, i64 %groups)", spills_vectors=True)
    sources = _load_columns(w, "reads", kernel.reads)
    targets = _load_columns(w, "writes", kernel.writes)
    steps = program.stream.list_steps()
    seed = SlotAccess(w, real)
    for key, holes in steps:
        if key == SEED_STEP:
            seed.holes = holes
            write_step(ExpressionLowering(w, real, call_inline), key, seed)
            seed.hide_value(holes[OUTPUT_HOLE])
    with loop_over(0, w.name_value("%groups", "i64", 1)) as group:
        begin = w.name_value("%first", "i64", 1) + group * (TILES_PER_GROUP * real.lanes)
        tiles = [_TileAccess(w, real, sources, begin + k * real.lanes) for k in range(TILES_PER_GROUP)]
        for column in sources.values():
            for tile in tiles:
                place = w.point_to(real.name, column, tile.first + PREFETCHED_POINTS)
                w.prefetch(place, FOR_READING_ONCE if kernel.streams else FOR_READING)
        lowering = ExpressionLowering(w, real, call_inline)
        for key, holes in steps:
            for tile in tiles:
                tile.holes = holes
                if key == SEED_STEP:
                    tile.store(OUTPUT_HOLE, seed.known[holes[OUTPUT_HOLE]])
                else:
                    write_step(lowering, key, tile)
        for tile in tiles:
            _write_tile_results(tile, targets, streams=kernel.streams)
            _write_tile_checks(tile, program.inputs + program.outputs - kernel.checks, kernel.checks)
    if kernel.streams:
        w.fence_streams()
    jit.write_register_cleanup(w)
    w.end_function()
    return "\n".join([w.format_module(), NON_TEMPORAL_DEFINITION])


def _load_columns(w: LlvmWriter, table: str, entries: Sequence[int]) -> dict[int, LlvmValue]:
    """Write the loads of the addresses of columns, by their entries of the buffer."""
    numbers = LlvmArray(w.name_value(f"%{table}", "ptr", 1), "i64")
    return {entry: numbers[MOVE_WORDS * k + 1].convert("inttoptr", "ptr") for k, entry in enumerate(entries)}


def _write_tile_results(tile: _TileAccess, targets: Mapping[int, LlvmValue], *, streams: bool) -> None:
    """Write the stores of a tile's results into their columns."""
    w = tile.writer
    for entry, column in targets.items():
        place = w.point_to(tile.real.name, column, tile.first)
        if streams:
            w.stream(tile.read_slot(entry), place)
        else:
            w.store(tile.read_slot(entry), place, f", align {tile.real.item_bytes}")


def _write_tile_checks(tile: _TileAccess, first: int, count: int) -> None:
    """Write whether all checks have their expected bits, a byte per point."""
    w = tile.writer
    if not count:
        return
    expected = w.name_value("%expected", "ptr", 1)
    difference = w.as_value(0, tile.real.bits_name)
    for k in range(count):
        place = w.point_to("i8", expected, k * tile.real.total_bytes)
        wanted = w.load(tile.real.bits_name, place, how=f", align {tile.real.item_bytes}")
        difference = difference | (tile.read_slot(first + k) ^ wanted)
    equal = difference.is_equal_to(0).convert("zext", "i8")
    w.store(equal, w.point_to("i8", w.name_value("%holds", "ptr", 1), tile.first), ", align 1")


def _wait_for_threads(works: Iterable[futures.Future[None]]) -> None:
    """Wait for threads while handling signals, and raise what they raised."""
    pending = set(works)
    while pending:
        done, pending = futures.wait(pending, SLICE_SECONDS)
        for work in done:
            work.result()


def count_available_threads() -> int:
    """Return the number of threads that can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_threads() -> int:
    """Return the number of threads to use: as `WIREGRAD_THREADS` says, else as many as can run at the same time."""
    return int(settings.read_setting(settings.THREADS_VARIABLE) or count_available_threads())


def count_max_threads() -> int:
    """Return how many threads of a batch there are at most, whatever number is asked for."""
    return max(count_threads(), count_available_threads())


def run_with_helpers(run: Callable[[], None], helpers: int) -> None:
    """Call a function here and in other threads at the same time; it must return soon where nothing is left to do.

    This does not wait for the others, which may begin late: they have done their part when the call here returns.
    """
    for _ in range(helpers):
        _helper_pool().submit(run)
    run()


@cache
def _helper_pool() -> futures.ThreadPoolExecutor:
    return futures.ThreadPoolExecutor(count_max_threads(), thread_name_prefix="wiregrad")


@cache
def _substitute_pool() -> futures.ThreadPoolExecutor:
    """Return the thread that works in place of the main thread."""
    return futures.ThreadPoolExecutor(1, thread_name_prefix="wiregrad-main")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_helper_pool.cache_clear)
    os.register_at_fork(after_in_child=_substitute_pool.cache_clear)


@cache
def _find_driver(real: RealType) -> int:
    """Return the address of the native loop over tiles."""
    text = jit.OwnText(f"batch of {real.lanes} {real.name}", lambda: _write_driver(real))
    return jit.compile_functions(text, "batch")[0]


@cache
def _compile_driver(real: RealType) -> Callable[[int, int, int], None]:
    """Return the native loop over tiles, which takes the description of a batch, a buffer, and a number of shares."""
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(_find_driver(real))


_KERNEL_PARAMETERS = ("w", "reads", "writes", "holds", "expected")
"""What the loop hands to a kernel, before the first point and the number of groups of tiles."""


def _write_driver(real: RealType) -> str:
    """Return the LLVM module of the loop over tiles: threads take shares of the points until none is left."""
    w = LlvmWriter()
    w.begin_function("void @batch(ptr %job, ptr %w, i64 %shares)")
    job = w.name_value("%job", "ptr")
    for word, (name, kind) in enumerate(_JOB_WORDS.items()):
        place = w.point_to("i64", job, word)
        w.emit_line(f"%{name} = load {kind}, {place.typed}")
    row = allocate_variable(w)
    bits = format_vector_type(real.bits_name, real.lanes)
    difference = w.emit_value("ptr", f"alloca {bits}, align {real.total_bytes}")
    share = _name_size(w, "share")
    taken = w.point_to("i64", job, TAKEN_WORD)
    with loop_over(0, _name_size(w, "shares")):
        first = w.emit_value("i64", f"atomicrmw add {taken.typed}, {share.typed} monotonic")
        last = _write_minimum(first + share, _name_size(w, "count"))
        with when_all(first < last):
            # Whole tiles have loops of their own: what single lanes need would take longer than a short program.
            whole = (last - first).combine("udiv", real.lanes) * _name_size(w, "has_all_rows")
            dense = whole * _name_size(w, "is_dense")
            has_kernel = w.name_value("%kernel", "ptr").convert("ptrtoint", "i64").is_nonzero()
            groups = dense.combine("udiv", TILES_PER_GROUP) * has_kernel.convert("zext", "i64")
            with when_all(groups):
                pointers = [w.name_value(f"%{name}", "ptr") for name in _KERNEL_PARAMETERS]
                w.call_void("%kernel", *pointers, first, groups)
            with loop_over(groups * TILES_PER_GROUP, dense) as k:
                _VectorTile(w, real, first + k * real.lanes, _choose_buffer(w, real, k)).write_run(difference)
            with loop_over(dense, whole) as k:
                _BlockTile(w, real, first + k * real.lanes, _choose_buffer(w, real, k)).write_run(difference)
            with loop_over(whole, (last - first + (real.lanes - 1)).combine("udiv", real.lanes)) as k:
                tile = first + k * real.lanes
                count = _write_minimum(last - tile, w.as_value(real.lanes, "i64"))
                _LaneTile(w, real, tile, w.name_value("%w", "ptr"), count, row).write_run(difference)
    jit.write_register_cleanup(w)
    w.end_function()
    return w.format_module()


def _name_size(w: LlvmWriter, name: str) -> LlvmValue:
    """Return one of the numbers that describe a batch."""
    return w.name_value(f"%{name}", "i64")


def _choose_buffer(w: LlvmWriter, real: RealType, tile: LlvmValue) -> LlvmValue:
    """Write the address of the working buffer whose turn it is."""
    place = (tile & _name_size(w, "turn_mask")) * _name_size(w, "buffer_length")
    return w.point_to(real.name, w.name_value("%w", "ptr"), place)


def _write_minimum(one: LlvmValue, two: LlvmValue) -> LlvmValue:
    return one.writer.select(one < two, one, two)


class _LoadedMove(NamedTuple):
    """A move as native code has it; entries and columns are addresses."""

    entry: LlvmValue
    column: LlvmValue
    stride: LlvmValue
    width: LlvmValue
    """The number of columns, which are neighbours; the others are those of the first."""
    ahead: LlvmValue
    """The distance from a row to what is prefetched, in numbers; 0 for nothing."""


@dataclass(frozen=True, eq=False)
class _VectorTile:
    """Writes one run of a program on as many points as a vector has lanes, which are vectors in their columns."""

    writer: LlvmWriter
    real: RealType
    tile: LlvmValue
    """The number of the first point."""
    buffer: LlvmValue
    """The working buffer that the program runs on."""

    def write_run(self, difference: LlvmValue) -> None:
        """Write the run; `difference` is memory for a vector."""
        w = self.writer
        with loop_over(0, _name_size(w, "read_count")) as k:
            self.write_read(self._load_move("reads", k))
        w.emit_line(jit.ENTER_CALL.replace("%w", self.buffer.text))
        with loop_over(0, _name_size(w, "write_count")) as k:
            self.write_result(self._load_move("writes", k))
        self._write_checks(difference)

    def write_read(self, move: _LoadedMove) -> None:
        """Write the copy of a column's numbers into the buffer."""
        place = self._point_to(move.column, self.tile)
        numbers = self.writer.load(self.real.name, place, self.real.lanes, self._column_alignment)
        self.writer.store(numbers, move.entry, self._buffer_alignment)

    def write_result(self, move: _LoadedMove) -> None:
        """Write the copy of results out of the buffer."""
        numbers = self.writer.load(self.real.name, move.entry, self.real.lanes, self._buffer_alignment)
        self.writer.store(numbers, self._point_to(move.column, self.tile), self._column_alignment)

    def _write_checks(self, difference: LlvmValue) -> None:
        """Write whether all checks have their expected bits, a byte per point."""
        w = self.writer
        lanes = self.real.lanes
        count = _name_size(w, "check_count")
        with when_all(count):
            bits = self.real.bits_name
            w.store(w.as_value(0, bits, lanes), difference, self._buffer_alignment)
            first = self._point_to(self.buffer, _name_size(w, "first_check"))
            expected = w.name_value("%expected", "ptr")
            with loop_over(0, count) as k:
                computed = w.load(bits, self._point_to(first, k * lanes), lanes, self._buffer_alignment)
                wanted = w.load(bits, self._point_to(expected, k * lanes), lanes, self._column_alignment)
                before = w.load(bits, difference, lanes, self._buffer_alignment)
                w.store(before | (computed ^ wanted), difference, self._buffer_alignment)
            equal = w.load(bits, difference, lanes, self._buffer_alignment).is_equal_to(0).convert("zext", "i8")
            w.store(equal, w.point_to("i8", w.name_value("%holds", "ptr"), self.tile), ", align 1")

    @property
    def _buffer_alignment(self) -> str:
        return f", align {self.real.total_bytes}"

    @property
    def _column_alignment(self) -> str:
        return f", align {self.real.item_bytes}"

    def _load_move(self, table: str, number: LlvmValue) -> _LoadedMove:
        """Write the loads of a move."""
        w = self.writer
        numbers = LlvmArray(w.name_value(f"%{table}", "ptr"), "i64")
        entry, address, stride, width, ahead = (numbers[number * MOVE_WORDS + k] for k in range(MOVE_WORDS))
        return _LoadedMove(self._point_to(self.buffer, entry), address.convert("inttoptr", "ptr"), stride, width, ahead)

    def _point_to(self, base: LlvmValue, index: LlvmOperand) -> LlvmValue:
        return self.writer.point_to(self.real.name, base, index)


@dataclass(frozen=True, eq=False)
class _BlockTile(_VectorTile):
    """The same on points that are rows of tables; a column may be contiguous, or anything else, beside them."""

    def write_read(self, move: _LoadedMove) -> None:
        """Write the copy of columns' numbers into the buffer."""
        with when_all(move.stride.is_equal_to(1)):
            super().write_read(move)
        with when_all(move.stride.compare("ne", 1)):
            with when_all(move.width.is_equal_to(1)), self._loop_over_lanes(move) as (lane, place):
                LlvmArray(move.entry, self.real.name).copy_entry(lane, LlvmArray(move.column, self.real.name), place)
            for width in self._block_widths:
                with when_all(move.width.is_equal_to(width)):
                    self._write_block_read(move, width)

    def write_result(self, move: _LoadedMove) -> None:
        """Write the copy of results out of the buffer."""
        with when_all(move.stride.is_equal_to(1)):
            super().write_result(move)
        with when_all(move.stride.compare("ne", 1)):
            with when_all(move.width.is_equal_to(1)), self._loop_over_lanes(move) as (lane, place):
                LlvmArray(move.column, self.real.name).copy_entry(place, LlvmArray(move.entry, self.real.name), lane)
            for width in self._block_widths:
                with when_all(move.width.is_equal_to(width)):
                    self._write_block_result(move, width)

    @property
    def _block_widths(self) -> list[int]:
        return [1 << k for k in range(1, self.real.lanes.bit_length())]

    @contextmanager
    def _loop_over_lanes(self, move: _LoadedMove) -> Iterator[tuple[LlvmValue, LlvmValue]]:
        """Write a loop over the lanes; yields the lane, and its place in the column."""
        with loop_over(0, self.writer.as_value(self.real.lanes, "i64")) as lane:
            yield lane, (self.tile + lane) * move.stride

    def _write_block_read(self, move: _LoadedMove, width: int) -> None:
        """Write the copy of a block: each row is a short vector, and vectors of all points go to the buffer."""
        w = self.writer
        # Into the second cache: the first one cannot wait for so many lines at the same time.
        self._write_prefetches(move, width, FOR_READING_LATER)
        rows = [
            w.load(self.real.name, self._point_to_row(move, row), width, self._column_alignment)
            for row in range(self.real.lanes)
        ]
        vectors = [_join_vectors(rows[k::width]) for k in range(width)]
        for k, vector in enumerate(transpose_blocks(vectors)):
            w.store(vector, self._point_to(move.entry, k * self.real.lanes), self._buffer_alignment)

    def _write_block_result(self, move: _LoadedMove, width: int) -> None:
        """Write the copy of a block of results, the reverse of a read."""
        w = self.writer
        lanes = self.real.lanes
        self._write_prefetches(move, width, FOR_WRITING)
        entries = [self._point_to(move.entry, k * lanes) for k in range(width)]
        vectors = [w.load(self.real.name, entry, lanes, self._buffer_alignment) for entry in entries]
        for k, vector in enumerate(transpose_blocks(vectors)):
            for first in range(0, lanes, width):
                part = vector.pick_lanes(range(first, first + width))
                w.store(part, self._point_to_row(move, first + k), self._column_alignment)

    def _write_prefetches(self, move: _LoadedMove, width: int, purpose: str) -> None:
        """Write hints that the memory of a later tile is needed soon: processors do not see the pattern of blocks."""
        with when_all(move.ahead):
            first = self._point_to(move.column, self.tile * move.stride + move.ahead)
            for k in range(width):
                self.writer.prefetch(self._point_to(first, k * self.real.lanes), purpose)

    def _point_to_row(self, move: _LoadedMove, row: int) -> LlvmValue:
        return self._point_to(move.column, (self.tile + row) * move.stride)


def _join_vectors(vectors: Sequence[LlvmValue]) -> LlvmValue:
    """Write the lanes of vectors behind each other; their number is a power of 2."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [one.pick_lanes(range(2 * one.lanes), two) for one, two in pairs]
    return vectors[0]


@dataclass(frozen=True, eq=False)
class _LaneTile(_VectorTile):
    """The same on points anywhere in their columns, and on fewer points than a vector has lanes."""

    count: LlvmValue
    """The number of points; lanes beyond the last point repeat it."""
    row: LlvmVariable
    """The place of a point in the columns."""

    def write_read(self, move: _LoadedMove) -> None:
        """Write the copy of columns' numbers into the buffer."""
        lanes = self.writer.as_value(self.real.lanes, "i64")
        with self._loop_over_columns(move) as (entry, column), loop_over(0, lanes) as lane:
            place = self._find_row(_write_minimum(lane, self.count - 1)) * move.stride
            entry.copy_entry(lane, column, place)

    def write_result(self, move: _LoadedMove) -> None:
        """Write the copy of results out of the buffer."""
        with self._loop_over_columns(move) as (entry, column), loop_over(0, self.count) as lane:
            column.copy_entry(self._find_row(lane) * move.stride, entry, lane)

    @contextmanager
    def _loop_over_columns(self, move: _LoadedMove) -> Iterator[tuple[LlvmArray, LlvmArray]]:
        """Write a loop over the columns of a move; yields the vector in the buffer and the column."""
        with loop_over(0, move.width) as k:
            entry = self._point_to(move.entry, k * self.real.lanes)
            column = self._point_to(move.column, k)
            yield LlvmArray(entry, self.real.name), LlvmArray(column, self.real.name)

    def _find_row(self, lane: LlvmValue) -> LlvmValue:
        """Write the place in the columns of the point in a lane."""
        rows = self.writer.name_value("%rows", "ptr")
        number = self.tile + lane
        self.row.store(number)
        with when_all(rows.convert("ptrtoint", "i64")):
            self.row.store(LlvmArray(rows, "i64")[number])
        return self.row.load()
