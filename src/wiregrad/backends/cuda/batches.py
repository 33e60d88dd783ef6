"""Batches on a GPU: the driver, points of the host in chunks, and points that are on the GPU already.

First, NVIDIA's driver, called by ctypes; nothing else of CUDA is needed. `find_gpu` returns a `Gpu`, whose methods are
memory, streams and kernels. They use the GPU's primary context, which CuPy, PyTorch and JAX use too, so that addresses
of their arrays are valid here. Any thread may call them. Failures raise `DeviceError`.

`CudaCompiled` is what `circuit.compile(device="cuda")` returns. Points in NumPy arrays are copied to the GPU in chunks;
several chunks are under way at the same time, so that copies in both directions and kernels overlap. Points in an array
of the GPU (any object with `__cuda_array_interface__`: CuPy, PyTorch, JAX) are read in place, and the results are a
`DeviceArray`, which these libraries read in place.

A point at which a certificate does not hold is computed again on the host, as `Compiled` does it, so no result is that
of another branch.
"""

from __future__ import annotations

import ctypes
import os
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wiregrad.backends.compiled import BatchAnswers, Compiled, check_scalar
from wiregrad.backends.cuda.kernels import (
    KERNEL_NAME,
    SCRATCH_TILE,
    KernelResults,
    KernelSource,
    compile_to_ptx,
    write_kernels,
)
from wiregrad.backends.native.tiers import plan_steps
from wiregrad.errors import DeviceError, InputError, short_repr
from wiregrad.files import decode_circuit_file
from wiregrad.ir import CircuitGraph, certificates, join_first_names

if TYPE_CHECKING:
    from wiregrad.backends.executors import FileProgram, StreamOptions

LIBRARY_NAMES = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
"""The names under which the driver's library is looked for."""
POINTER_DEVICE = 9
"""The attribute of a pointer that is the number of its device."""
THREADS_PER_BLOCK = 64
"""The number of threads that start together; a multiple of 32. Small blocks suit kernels that need many registers."""
POOL_KEEPS_BYTES = 4
"""The attribute of a memory pool that says how many unused bytes it keeps."""
KEPT_SHARE = 8
"""An eighth of a GPU's memory is kept for later arrays: giving it back and asking for it again takes milliseconds."""
LOG_BYTES = 4096
"""The size of the buffer for what the driver says about PTX that it refuses."""
LOG_OPTIONS = (5, 6)
"""The options of loading a module that name the buffer of error messages, and its size."""


@cache
def load_library() -> ctypes.CDLL:
    """Return the driver's library, initialized; raise `DeviceError` if there is none or it finds no GPU."""
    library = None
    for name in LIBRARY_NAMES:
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    if library is None:
        raise DeviceError(
            f'no NVIDIA driver: {" and ".join(LIBRARY_NAMES)} cannot be loaded; device="cuda" needs an NVIDIA GPU and '
            "its driver, and no CUDA toolkit"
        )
    code = library.cuInit(0)
    if code:
        raise DeviceError(f"the NVIDIA driver finds no GPU it can use: cuInit failed with {_name_error(library, code)}")
    return library


def _name_error(library: ctypes.CDLL, code: int) -> str:
    text = ctypes.c_char_p()
    library.cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"").decode() or f"error {code}"


def call_driver(name: str, *arguments: Any) -> None:
    """Call a function of the driver; raise `DeviceError` if it fails."""
    library = load_library()
    code = getattr(library, name)(*arguments)
    if code:
        raise DeviceError(f"the NVIDIA driver could not complete {name}: {_name_error(library, code)}")


@cache
def find_gpu(number: int = 0) -> Gpu:
    """Return a GPU by its number; raise `DeviceError` if there is none."""
    count = ctypes.c_int()
    call_driver("cuDeviceGetCount", ctypes.byref(count))
    if not 0 <= number < count.value:
        raise DeviceError(f'there is no GPU number {number}: the driver finds {count.value}, counted from "cuda:0"')
    return Gpu(number, is_only=count.value == 1)


class CurrentGpu:
    """A block in which a GPU is the current one of the thread; blocks may be nested."""

    _threads = threading.local()
    """In each thread, the blocks that it is in."""

    def __init__(self, context: ctypes.c_void_p) -> None:
        self._context = context

    def __enter__(self) -> None:
        blocks = self._list_blocks()
        if not blocks or blocks[-1] is not self:
            call_driver("cuCtxPushCurrent_v2", self._context)
        blocks.append(self)

    def __exit__(self, *failure: object) -> None:
        blocks = self._list_blocks()
        blocks.pop()
        if not blocks or blocks[-1] is not self:
            call_driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def _list_blocks(self) -> list[CurrentGpu]:
        blocks: list[CurrentGpu] | None = getattr(self._threads, "blocks", None)
        if blocks is None:
            blocks = self._threads.blocks = []
        return blocks


class Gpu:
    """One GPU: memory on it, copies to and from it, and kernels that run on it."""

    def __init__(self, number: int, *, is_only: bool = False) -> None:
        self.number = number
        self.is_only = is_only
        """Whether there is no other GPU."""
        device = ctypes.c_int()
        call_driver("cuDeviceGet", ctypes.byref(device), number)
        name = ctypes.create_string_buffer(256)
        call_driver("cuDeviceGetName", name, len(name), device)
        self.name = name.value.decode()
        context = ctypes.c_void_p()
        call_driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._current = CurrentGpu(context)
        with self.use():
            pool = ctypes.c_void_p()
            call_driver("cuDeviceGetDefaultMemPool", ctypes.byref(pool), device)
            total = ctypes.c_size_t()
            call_driver("cuDeviceTotalMem_v2", ctypes.byref(total), device)
            kept = ctypes.c_uint64(total.value // KEPT_SHARE)
            call_driver("cuMemPoolSetAttribute", pool, POOL_KEEPS_BYTES, ctypes.byref(kept))

    def use(self) -> CurrentGpu:
        """Make this GPU the current one of this thread, and afterwards the one that was current before.

        Where it is the current one already, that costs nothing: a batch calls the driver about ten times.
        """
        return self._current

    def allocate(self, size: int, stream: int) -> DeviceMemory:
        """Return new memory; work on other streams must wait for this one before it uses the memory."""
        address = ctypes.c_uint64()
        with self.use():
            call_driver(
                "cuMemAllocAsync", ctypes.byref(address), ctypes.c_size_t(max(size, 1)), ctypes.c_void_p(stream)
            )
        return DeviceMemory(self, address.value, stream)

    def free(self, address: int, stream: int) -> None:
        """Free memory once the stream has finished what was asked of it so far."""
        with self.use():
            call_driver("cuMemFreeAsync", ctypes.c_uint64(address), ctypes.c_void_p(stream))

    def allocate_host(self, size: int) -> HostMemory:
        """Return memory of the host that the GPU copies from and to by itself."""
        address = ctypes.c_void_p()
        with self.use():
            call_driver("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), 0)
        return HostMemory(self, int(address.value or 0))

    def free_host(self, address: int) -> None:
        """Free memory of the host."""
        with self.use():
            call_driver("cuMemFreeHost", ctypes.c_void_p(address))

    def create_stream(self) -> int:
        """Return a new stream; it lives as long as the process."""
        stream = ctypes.c_void_p()
        with self.use():
            call_driver("cuStreamCreate", ctypes.byref(stream), 1)
        return int(stream.value or 0)

    def copy_to_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Begin a copy from the host's memory."""
        with self.use():
            call_driver(
                "cuMemcpyHtoDAsync_v2",
                *(ctypes.c_uint64(target), ctypes.c_void_p(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)),
            )

    def copy_to_host(self, target: int, source: int, size: int, stream: int) -> None:
        """Begin a copy into the host's memory."""
        with self.use():
            call_driver(
                "cuMemcpyDtoHAsync_v2",
                *(ctypes.c_void_p(target), ctypes.c_uint64(source), ctypes.c_size_t(size), ctypes.c_void_p(stream)),
            )

    def synchronize(self, stream: int) -> None:
        """Wait until a stream has finished what was asked of it so far; other Python threads run meanwhile."""
        with self.use():
            call_driver("cuStreamSynchronize", ctypes.c_void_p(stream))

    def find_pointer_device(self, address: int) -> int:
        """Return the number of the GPU on which an address is."""
        if self.is_only:
            return self.number
        number = ctypes.c_int(-1)
        with self.use():
            call_driver("cuPointerGetAttribute", ctypes.byref(number), POINTER_DEVICE, ctypes.c_uint64(address))
        return number.value

    def load_kernels(self, ptx: str, names: Sequence[str]) -> LoadedKernels:
        """Compile PTX for this GPU and return its kernels."""
        module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(LOG_BYTES)
        options = (ctypes.c_int * 2)(*LOG_OPTIONS)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG_BYTES)
        with self.use():
            try:
                call_driver("cuModuleLoadDataEx", ctypes.byref(module), ptx.encode() + b"\0", 2, options, values)
            except DeviceError as error:
                raise DeviceError(f"{error}\n{log.value.decode(errors='replace')}") from None
            handles = list[int]()
            for name in names:
                function = ctypes.c_void_p()
                call_driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
                handles.append(int(function.value or 0))
        return LoadedKernels(self, int(module.value or 0), handles)

    def unload(self, module: int) -> None:
        """Drop the code of kernels."""
        with self.use():
            call_driver("cuModuleUnload", ctypes.c_void_p(module))

    def launch(self, kernels: Iterable[int], count: int, arguments: Sequence[int], stream: int) -> None:
        """Begin kernels one after another, with a thread for each of `count` points and the same arguments.

        Arguments are addresses and integers. A long program has many short kernels, so what they share is made once.
        """
        numbers = (ctypes.c_uint64 * len(arguments))(*arguments)
        size = ctypes.c_size_t(ctypes.sizeof(numbers))
        # One block of memory with all arguments, which the driver copies.
        buffer = (ctypes.c_void_p * 5)(1, ctypes.addressof(numbers), 2, ctypes.addressof(size), 0)
        blocks = -(-count // THREADS_PER_BLOCK)
        shape = (blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0)
        rest = (*shape, ctypes.c_void_p(stream), None, buffer)
        with self.use():
            for kernel in kernels:
                call_driver("cuLaunchKernel", ctypes.c_void_p(kernel), *rest)


class _Resource:
    """Something of the driver that is given back when the last reference to it is gone."""

    def __init__(self, release: Callable[..., None], *arguments: int) -> None:
        self._release = release
        self._arguments = arguments

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # When the process ends, the driver frees everything, and may be gone already. A context that failed has lost
        # its memory; the failure was reported where it happened.
        if not is_ending():
            with suppress(DeviceError):
                self._release(*self._arguments)


class DeviceMemory(_Resource):
    """Memory on a GPU."""

    def __init__(self, gpu: Gpu, address: int, stream: int) -> None:
        super().__init__(gpu.free, address, stream)
        self.gpu = gpu
        self.address = address
        self.stream = stream
        """The stream that it belongs to: what is written there is complete when the stream is."""


class HostMemory(_Resource):
    """Memory of the host that a GPU copies from and to by itself."""

    def __init__(self, gpu: Gpu, address: int) -> None:
        super().__init__(gpu.free_host, address)
        self.address = address


class LoadedKernels(_Resource):
    """The kernels of one program, compiled for a GPU."""

    def __init__(self, gpu: Gpu, module: int, handles: Sequence[int]) -> None:
        super().__init__(gpu.unload, module)
        self.handles = handles


STAGING_BYTES = 16 << 20
"""The size of a chunk: its points and results."""
STAGING_COUNT = 4
"""The number of chunks that are under way at the same time."""
MAX_SCRATCH_BYTES = 2 << 30
"""The maximum size of what the kernels of a long program leave to each other; it limits the points of a launch."""
WAIT_SECONDS = 0.01
"""How long the calling thread waits for chunks before it checks for signals."""
DEFAULT_STREAM = 0
"""The stream that waits for all others, and they for it."""


class Table(NamedTuple):
    """A table in the memory of a GPU: its address, and the distances of rows and of columns, in numbers."""

    address: int = 0
    row: int = 0
    column: int = 0

    def skip_rows(self, count: int, item_bytes: int) -> Table:
        """Return the table without its first rows."""
        return self._replace(address=self.address + count * self.row * item_bytes)


class LaunchTables(NamedTuple):
    """What the kernels of a program read and write."""

    points: Table
    values: Table
    grads: Table = Table()
    holds: int = 0
    """The address of a byte per point, which says whether the checks hold; 0 without checks."""


class CudaProgram:
    """The kernels of a circuit on one GPU."""

    def __init__(
        self, gpu: Gpu, circuit: CircuitGraph, wanted: tuple[int, ...] | None, expected: bytes, *, finite: bool
    ) -> None:
        """Compile a circuit and, with `wanted`, its gradient by the inputs with these numbers.

        The last outputs have the bits `expected` where results count, and are not among the values.
        """
        plan = plan_steps(circuit, None if wanted is None else 0, finite=finite, wanted=wanted)
        results = KernelResults(wanted or (), expected)
        self.gpu = gpu
        self.source: KernelSource = write_kernels(plan, results)
        names = [f"{KERNEL_NAME}{k}" for k in range(self.source.kernels)]
        self._kernels: LoadedKernels = gpu.load_kernels(compile_to_ptx(self.source.text), names)
        real = self.source.real
        self._seed = int(np.ones(1, real.dtype).view(f"u{real.item_bytes}")[0])

    @property
    def columns(self) -> tuple[int, int, int]:
        """The number of columns of points, values and gradients."""
        return self.source.inputs, self.source.outputs, len(self.source.results.grads)

    @property
    def has_checks(self) -> bool:
        """Whether the kernels write at which points their results count."""
        return bool(self.source.results.expected)

    def launch(self, tables: LaunchTables, count: int, stream: int) -> None:
        """Begin to compute `count` points."""
        item_bytes = self.source.real.item_bytes
        scratch_bytes = self.source.scratch * item_bytes
        share = min(count, max(1, MAX_SCRATCH_BYTES // scratch_bytes)) if scratch_bytes else count
        tiles = -(-share // SCRATCH_TILE)
        scratch = self.gpu.allocate(tiles * SCRATCH_TILE * scratch_bytes, stream) if scratch_bytes else None
        place = 0 if scratch is None else scratch.address
        tile = self.source.scratch * SCRATCH_TILE
        for first in range(0, count, share or 1):
            size = min(share, count - first)
            moved = [table.skip_rows(first, item_bytes) for table in tables[:3]] if first else tables[:3]
            holds = tables.holds + first if tables.holds else 0
            arguments = (*moved[0], *moved[1], *moved[2], holds, place, tile, size, self._seed)
            self.gpu.launch(self._kernels.handles, size, arguments, stream)


class ChunkResults(NamedTuple):
    """The results of a chunk, in memory that is used again for the next one."""

    values: NDArray[Any]
    grads: NDArray[Any]
    holds: NDArray[np.bool_]
    """At which points the results count; empty without checks."""


class HostPoints(NamedTuple):
    """Points of the host, and where their results go."""

    size: int
    """The number of points."""
    read: Callable[[NDArray[Any], slice], None]
    """Writes the points of some rows into a table."""
    write: Callable[[ChunkResults, slice], None]
    """Takes the results of some rows."""
    by_rows: bool = True
    """Whether the numbers of a row follow one another in memory, rather than those of a column."""


class Staging:
    """Memory for one chunk, on the host and on the GPU, and a stream."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.stream = gpu.create_stream()
        self._host: HostMemory | None = None
        self._device: DeviceMemory | None = None
        self._size = 0

    def run_chunk(self, program: CudaProgram, source: HostPoints, rows: slice) -> None:
        """Compute some rows: copy the points to the GPU, run the kernels, and copy the results back."""
        count = rows.stop - rows.start
        item_bytes = program.source.real.item_bytes
        inputs, outputs, grads = program.columns
        sizes = [width * count * item_bytes for width in (inputs, outputs, grads)] + [count * program.has_checks]
        starts = np.cumsum([0, *sizes]).tolist()
        host, device = self._reserve(starts[-1])
        views = [
            _view_table(host + start, count, width, program.source.real.dtype, by_rows=source.by_rows)
            for start, width in zip(starts, program.columns, strict=False)
        ]
        tables = [
            Table(device + start, width, 1) if source.by_rows else Table(device + start, 1, count)
            for start, width in zip(starts, program.columns, strict=False)
        ]
        source.read(views[0], rows)
        self.gpu.copy_to_device(device, host, sizes[0], self.stream)
        holds_address = device + starts[3] if program.has_checks else 0
        program.launch(LaunchTables(tables[0], tables[1], tables[2], holds_address), count, self.stream)
        self.gpu.copy_to_host(host + starts[1], device + starts[1], starts[-1] - starts[1], self.stream)
        self.gpu.synchronize(self.stream)
        holds = _view_memory(host + starts[3], sizes[3], np.dtype(np.bool_))
        source.write(ChunkResults(views[1], views[2], holds), rows)

    def _reserve(self, size: int) -> tuple[int, int]:
        """Return the addresses of memory of the host and the GPU with at least `size` bytes."""
        if self._host is None or self._device is None or self._size < size:
            self._size = max(size, STAGING_BYTES)
            self._host = self.gpu.allocate_host(self._size)
            self._device = self.gpu.allocate(self._size, self.stream)
        return self._host.address, self._device.address


def _view_memory(address: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers in memory at an address."""
    data = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray(count, dtype, memoryview(data))


def _view_table(address: int, count: int, width: int, dtype: np.dtype[Any], *, by_rows: bool) -> NDArray[Any]:
    """Return a table in memory at an address, its rows or its columns one after the other."""
    numbers = _view_memory(address, count * width, dtype)
    return numbers.reshape(count, width) if by_rows else numbers.reshape(width, count).T


@cache
def _staging_queue(gpu: Gpu) -> queue.SimpleQueue[Staging]:
    """Return the memory of all chunks of a GPU; batches of several threads share it."""
    waiting = queue.SimpleQueue[Staging]()
    for _ in range(STAGING_COUNT):
        waiting.put(Staging(gpu))
    return waiting


@cache
def _chunk_pool() -> futures.ThreadPoolExecutor:
    return futures.ThreadPoolExecutor(STAGING_COUNT, thread_name_prefix="wiregrad-cuda")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_chunk_pool.cache_clear)


def run_chunks(program: CudaProgram, source: HostPoints) -> None:
    """Compute points of the host, several chunks at a time."""
    count = source.size
    row_bytes = sum(program.columns) * program.source.real.item_bytes + program.has_checks
    share = max(1, STAGING_BYTES // max(row_bytes, 1))
    chunks = [slice(first, min(first + share, count)) for first in range(0, count, share)]
    stopped = threading.Event()

    def run(rows: slice) -> None:
        if stopped.is_set():
            return
        waiting = _staging_queue(program.gpu)
        staging = waiting.get()
        try:
            staging.run_chunk(program, source, rows)
        finally:
            waiting.put(staging)

    if len(chunks) == 1:
        run(chunks[0])
        return
    works = [_chunk_pool().submit(run, rows) for rows in chunks]
    try:
        _wait_for_chunks(works)
    finally:
        stopped.set()


class ColumnResults(NamedTuple):
    """Where the results of columns of numbers go: the first output, and a column for each gradient."""

    values: NDArray[Any]
    grads: Sequence[NDArray[Any]]


def run_columns(
    program: CudaProgram, inputs: Sequence[NDArray[Any]], out: ColumnResults, rows: NDArray[np.intp] | None
) -> NDArray[np.intp]:
    """Compute points whose inputs are columns, or the same number for all; with `rows`, these points alone.

    Returns the indices, among the computed points, of those whose results do not count.
    """
    size = len(out.values) if rows is None else len(rows)
    counts = np.ones(size * program.has_checks, np.bool_)

    def find_places(part: slice) -> slice | NDArray[np.intp]:
        return part if rows is None else rows[part]

    def read(target: NDArray[Any], part: slice) -> None:
        for k, column in enumerate(inputs):
            target[:, k] = column[find_places(part)] if column.ndim else column

    def write(results: ChunkResults, part: slice) -> None:
        out.values[find_places(part)] = results.values[:, 0]
        for k, column in enumerate(out.grads):
            column[find_places(part)] = results.grads[:, k]
        if program.has_checks:
            counts[part] = results.holds

    run_chunks(program, HostPoints(size, read, write, by_rows=False))
    return np.flatnonzero(~counts)


def _wait_for_chunks(works: Iterable[futures.Future[None]]) -> None:
    """Wait for chunks while handling signals, and raise what they raised."""
    pending = set(works)
    while pending:
        done, pending = futures.wait(pending, WAIT_SECONDS)
        for work in done:
            work.result()


class DeviceArray:
    """An array in the memory of a GPU: a result, for CuPy, PyTorch and JAX to read in place.

    `cupy.asarray(x)`, `torch.as_tensor(x, device="cuda")` and `jax.numpy.asarray(x)` copy nothing; `x.to_numpy()`
    copies to the host. The numbers are complete when the stream of the call is.
    """

    def __init__(
        self, memory: DeviceMemory, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._memory = memory
        self.shape = shape
        self.strides = strides
        """The distances along each axis in bytes."""
        self.dtype = dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The address and layout, in the form that libraries of GPU arrays agreed on."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.address, False),
            "strides": self.strides,
            "version": 3,
            "stream": self._memory.stream or 1,
        }

    def to_numpy(self) -> NDArray[Any]:
        """Return a copy on the host."""
        gpu = self._memory.gpu
        size = prod(self.shape)
        flat = np.empty(size, self.dtype)
        if size:
            gpu.copy_to_host(flat.ctypes.data, self._memory.address, flat.nbytes, self._memory.stream)
        gpu.synchronize(self._memory.stream)
        view = np.lib.stride_tricks.as_strided(flat, self.shape, self.strides)
        return np.ascontiguousarray(view)

    def replace_rows(self, index: tuple[Any, ...], numbers: NDArray[Any]) -> None:
        """Replace what an index selects; the whole array is copied to the host and back."""
        array = self.to_numpy()
        array[index] = numbers
        flat = np.empty(array.size, self.dtype)
        np.lib.stride_tricks.as_strided(flat, self.shape, self.strides)[...] = array
        memory = self._memory
        memory.gpu.copy_to_device(memory.address, flat.ctypes.data, flat.nbytes, memory.stream)
        memory.gpu.synchronize(memory.stream)

    def drop_axis(self, axis: int) -> DeviceArray:
        """Return the array without an axis of length 1."""
        shape = self.shape[:axis] + self.shape[axis + 1 :]
        return DeviceArray(self._memory, shape, self.strides[:axis] + self.strides[axis + 1 :], self.dtype)

    @property
    def address(self) -> int:
        """The address of the first number."""
        return self._memory.address

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array of a GPU can only be copied to the host")
        array = self.to_numpy()
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, device=cuda:{self._memory.gpu.number})"


@dataclass(frozen=True)
class DevicePoints:
    """Points in the memory of a GPU, and the stream on which they are complete."""

    table: Table
    count: int
    width: int
    stream: int
    dtype: np.dtype[Any]

    @property
    def by_rows(self) -> bool:
        """Whether the numbers of a row are nearer to each other than those of a column."""
        return self.table.row >= self.table.column

    def copy_to_host(self, gpu: Gpu) -> NDArray[Any]:
        """Return a copy on the host."""
        item_bytes = self.dtype.itemsize
        extent = (self.count - 1) * self.table.row + (self.width - 1) * self.table.column + 1
        flat = np.empty(extent, self.dtype)
        gpu.copy_to_host(flat.ctypes.data, self.table.address, flat.nbytes, self.stream)
        gpu.synchronize(self.stream)
        strides = (self.table.row * item_bytes, self.table.column * item_bytes)
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, (self.count, self.width), strides))


def is_device_array(points: object) -> bool:
    """Return whether an argument is an array in the memory of a GPU."""
    return hasattr(points, "__cuda_array_interface__")


def read_device_points(
    points: Any, gpu: Gpu, names: Sequence[str], dtype: np.dtype[Any], stream: object = None
) -> DevicePoints:
    """Return the points of an array on a GPU; raise unless it has a row of numbers of this type per point."""
    facts = points.__cuda_array_interface__
    shape = tuple(facts["shape"])
    if len(shape) != 2 or shape[1] != len(names):
        raise InputError(
            f"expected one row of {len(names)} numbers ({join_first_names(names)}) per point; got shape {shape}"
        )
    given = np.dtype(facts["typestr"])
    if given != dtype:
        raise InputError(
            f"an array on the GPU is read in place, so it must be {dtype}; got {given}: convert it, or compile with "
            f'dtype="{given}"'
        )
    item = dtype.itemsize
    strides = facts.get("strides") or (shape[1] * item, item)
    if any(stride % item or stride < 0 for stride in strides):
        raise InputError(f"the strides of an array on the GPU are multiples of {item} bytes; got {tuple(strides)}")
    address = int(facts["data"][0])
    if shape[0] and address:
        number = gpu.find_pointer_device(address)
        if number != gpu.number:
            raise InputError(
                f'the points are on GPU {number}, the circuit was compiled for "cuda:{gpu.number}": compile it with '
                f'device="cuda:{number}"'
            )
    table = Table(address, strides[0] // item, strides[1] // item)
    return DevicePoints(table, *shape, _find_stream(stream, int(facts.get("stream") or DEFAULT_STREAM)), dtype)


def _find_stream(stream: object, default: int) -> int:
    """Return the handle of a stream: an integer, or an object of CuPy, PyTorch or Numba that has one."""
    if stream is None:
        return default
    for name in ("cuda_stream", "ptr", "handle"):
        stream = getattr(stream, name, stream)
    if not isinstance(stream, int):
        raise InputError(
            f"stream is the integer handle of a CUDA stream, or an object with one; got {short_repr(stream)}"
        )
    return stream


class CudaCompiled(Compiled):
    """A circuit whose batches run on an NVIDIA GPU; calls with a single point run on the host.

    Made by `circuit.compile(device="cuda")`. Points are a NumPy array, or an array on the GPU with
    `__cuda_array_interface__`; then the results are arrays on the GPU too.
    """

    def __init__(
        self,
        circuit: CircuitGraph,
        dtype: DTypeLike | None = None,
        *,
        check: bool = True,
        assume: str | None = None,
        point: Mapping[str, Any] | None = None,
        device: str = "cuda",
    ) -> None:
        self.device = device
        self.gpu = open_gpu(device)
        super().__init__(circuit, dtype, check=check, assume=assume, point=point)
        check_scalar(self.circuit, f'device="{device}"', "circuit.to_jax() or circuit.to_torch()")
        self._programs: dict[bool, CudaProgram] = {}
        self.get_program(gradient=len(self.circuit.outputs) == 1)

    def _compile_alike(self, circuit: CircuitGraph, *, check: bool = True) -> Self:
        return type(self)(circuit, self._asked, check=check, assume=self._assume, point=self._point, device=self.device)

    def _encode(self) -> FileProgram:
        encoded = super()._encode()
        return replace(encoded, options=(*encoded.options, self.device), build=build_from_file_on_gpu)

    def get_program(self, *, gradient: bool) -> CudaProgram:
        """Return the kernels for values, or for values and gradients, built at their first use."""
        if gradient not in self._programs:
            self._programs[gradient] = self._build_program(gradient=gradient)
        return self._programs[gradient]

    def _build_program(self, *, gradient: bool) -> CudaProgram:
        circuit = self._builder.circuit
        expected = b""
        if circuit.certificates:
            checked = certificates.add_check_outputs(circuit)
            circuit = checked.circuit
            expected = np.array([float(value) for value in checked.expected_values()], self.dtype).tobytes()
        wanted = tuple(range(len(circuit.inputs))) if gradient else None
        finite = self._builder.finite and circuit.columns.has_finite_constants()
        return CudaProgram(self.gpu, circuit, wanted, expected, finite=finite)

    def _compute_rows(self, points: object, threads: int | None, *, gradient: bool, mark: bool) -> BatchAnswers:
        """Return the results at points of the host."""
        handler = self._gradient_handler if gradient else self._value_handler
        table = handler.bind_points(points)
        inputs = len(self.circuit.inputs) if gradient else None
        rows = BatchAnswers.allocate(len(table), len(self.circuit.outputs), inputs, self.dtype)
        program = self.get_program(gradient=gradient)
        counts = np.ones(len(table) * program.has_checks, np.bool_)

        def read(target: NDArray[Any], part: slice) -> None:
            target[...] = table[part]

        def write(results: ChunkResults, part: slice) -> None:
            rows.values[part] = results.values
            if rows.grads is not None:
                rows.grads[part] = results.grads
            if program.has_checks:
                counts[part] = results.holds

        run_chunks(program, HostPoints(len(table), read, write))
        self._settle_rows(rows, np.flatnonzero(~counts), table, gradient=gradient, mark=mark)
        return rows

    def _settle_rows(
        self, rows: BatchAnswers, left: NDArray[np.intp], table: NDArray[Any], *, gradient: bool, mark: bool
    ) -> None:
        """Compute the rows at which a check did not hold on the host; as in `Compiled`."""
        if mark:
            left = rows.mark_flips(left, self._builder.circuit, table)
        handler = self._gradient_handler if gradient else self._value_handler
        rows.compute_left(left, handler.engine, table, mark=mark)

    def batch(
        self,
        points: Any,
        *,
        threads: int | None = None,
        check: bool | str = True,
        stream: object = None,
        **chunked: Unpack[StreamOptions],
    ) -> Any:
        """Return the output at many points, as `Compiled.batch` does; points on the GPU give results on the GPU.

        `stream` is the CUDA stream to run on, by default the one that the array names, else the default stream.
        Conditions on the GPU are the numbers 1 and 0.
        """
        if chunked or not is_device_array(points):
            return super().batch(points, threads=threads, check=check, **chunked)
        values, _ = self._compute_on_device(points, check, stream, gradient=False)
        return values.drop_axis(1) if len(self._labels) == 1 else values

    def batch_value_and_grad(
        self,
        points: Any,
        *,
        threads: int | None = None,
        check: bool | str = True,
        stream: object = None,
        **chunked: Unpack[StreamOptions],
    ) -> tuple[Any, Any]:
        """Return the only output at many points, and its gradient there; arguments as in `batch`."""
        if chunked or not is_device_array(points):
            return super().batch_value_and_grad(points, threads=threads, check=check, **chunked)
        self.circuit.root()
        values, grads = self._compute_on_device(points, check, stream, gradient=True)
        return values.drop_axis(1), grads

    def batch_jacobian(
        self,
        points: Any,
        *,
        threads: int | None = None,
        check: bool | str = True,
        stream: object = None,
        **chunked: Unpack[StreamOptions],
    ) -> Any:
        """Return the gradient of every output at many points; arguments as in `batch`."""
        if chunked or not is_device_array(points):
            return super().batch_jacobian(points, threads=threads, check=check, **chunked)
        place = read_device_points(points, self.gpu, self._names, self.dtype, stream)
        grads = self._allocate(place, (len(self._labels), place.width))
        for number, one in enumerate(self._each_output):
            one._compute_at(place, check, gradient=True, grads=grads, number=number)
        return grads

    def _compute_on_device(
        self, points: Any, check: bool | str, stream: object, *, gradient: bool
    ) -> tuple[DeviceArray, DeviceArray | None]:
        with self.gpu.use():
            place = read_device_points(points, self.gpu, self._names, self.dtype, stream)
            grads = self._allocate(place, (1, place.width)) if gradient else None
            values = self._compute_at(place, check, gradient=gradient, grads=grads, number=0)
        return values, None if grads is None else grads.drop_axis(1)

    def _compute_at(
        self, place: DevicePoints, check: bool | str, *, gradient: bool, grads: DeviceArray | None, number: int
    ) -> DeviceArray:
        """Compute points on the GPU; the gradient of the only output is row `number` of `grads` at each point."""
        mark = self._read_check_option(check)
        if mark is None:
            return self._without_checks._compute_at(place, check, gradient=gradient, grads=grads, number=number)
        program = self.get_program(gradient=gradient)
        values = self._allocate(place, (len(self._labels),))
        holds = self.gpu.allocate(place.count, place.stream) if program.has_checks else None
        item_bytes = self.dtype.itemsize
        slopes = Table()
        if grads is not None:
            first, between, within = (stride // item_bytes for stride in grads.strides)
            slopes = Table(grads.address + number * between * item_bytes, first, within)
        value_table = Table(values.address, *(stride // item_bytes for stride in values.strides))
        tables = LaunchTables(place.table, value_table, slopes, 0 if holds is None else holds.address)
        program.launch(tables, place.count, place.stream)
        if holds is not None and place.count:
            self._settle_on_device(place, holds, values, grads, number, mark=mark)
        return values

    def _settle_on_device(
        self,
        place: DevicePoints,
        holds: DeviceMemory,
        values: DeviceArray,
        grads: DeviceArray | None,
        number: int,
        *,
        mark: bool,
    ) -> None:
        """Compute the points at which a check did not hold on the host, and copy their results to the GPU."""
        counts = np.empty(place.count, np.bool_)
        self.gpu.copy_to_host(counts.ctypes.data, holds.address, counts.nbytes, place.stream)
        self.gpu.synchronize(place.stream)
        left = np.flatnonzero(~counts)
        if not len(left):
            return
        inputs = None if grads is None else place.width
        rows = BatchAnswers.allocate(place.count, len(self._labels), inputs, self.dtype)
        self._settle_rows(rows, left, place.copy_to_host(self.gpu), gradient=grads is not None, mark=mark)
        values.replace_rows((left,), rows.values[left])
        if grads is not None and rows.grads is not None:
            grads.replace_rows((left, number), rows.grads[left])

    def _allocate(self, place: DevicePoints, shape: tuple[int, ...]) -> DeviceArray:
        """Return a new array of the GPU with results of this shape per point, in the order of the points' table."""
        full = (place.count, *shape)
        item_bytes = self.dtype.itemsize
        memory = self.gpu.allocate(prod(full) * item_bytes, place.stream)
        order = full if place.by_rows else (*shape, place.count)
        sizes = [prod(order[k + 1 :]) * item_bytes for k in range(len(order))]
        strides = tuple(sizes) if place.by_rows else (sizes[-1], *sizes[:-1])
        return DeviceArray(memory, full, strides, self.dtype)


def build_from_file_on_gpu(data: bytes, dtype: str | None, assume: str | None, device: str) -> CudaCompiled:
    """Return the compiled circuit of a file, as a worker does."""
    return CudaCompiled(decode_circuit_file(data), dtype, assume=assume, device=device)


def open_gpu(device: object) -> Gpu:
    """Return the GPU that `device` names; raise if it names none, or if there is no such GPU."""
    return find_gpu(parse_device(device))


DEVICE_PATTERN = re.compile(r"cuda(?::(\d+))?")


def parse_device(device: object) -> int:
    """Return the number of the GPU that `device` names.

    >>> parse_device("cuda"), parse_device("cuda:1")
    (0, 1)
    """
    match = DEVICE_PATTERN.fullmatch(device) if isinstance(device, str) else None
    if match is None:
        raise InputError(f'device is "cpu", "cuda" or "cuda:" and a number; got {short_repr(device)}')
    return int(match[1] or 0)
