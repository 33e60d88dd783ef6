"""Batches in chunks, computed here or by the workers of an executor: `executor=`, `reduce=`, `out=` of batches.

An executor is anything with the interface of `concurrent.futures`: pools of threads and processes,
`mpi4py.futures.MPIPoolExecutor`, a client of `dask.distributed` or its executor. The module `ray` is accepted too.
`stream_batch` cuts points into chunks, has `ChunkScheduler` run them, and collects the results.

Kept true:

- Results do not depend on the number of workers: chunks are the same for every executor, and sums are added up in the
  order of the chunks (`OrderedSum`).
- A chunk whose worker died is computed again. What a computation raises is part of its outcome, so every other failure
  of a future is one of its worker.
- Only a few chunks per worker exist at a time, so a batch may have more points than memory holds.
- Processes of this machine read the rows of a chunk, and write results, in memory that they share with the caller
  (`ChunkMemory`); a block of it that a lost worker may still write to is never used again.

A circuit travels as the bytes of a circuit file (`FileProgram`); each worker compiles it once.
"""

from __future__ import annotations

import mmap
import os
import pickle
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from math import prod
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import count_with_noun
from wiregrad.errors import InputError, OperandError, ShapeError, WorkerError, short_repr, suggest_name

DEFAULT_CHUNK_SIZE = 65_536
"""The number of points of a chunk."""
CHUNKS_PER_WORKER = 3
"""How many chunks exist per worker: one that is computed, one that is on its way there, and one on its way back."""
MAX_LOSSES = 10
"""After so many deaths of workers, with no chunk completed between them, a batch is given up."""
PAUSE_SECONDS = 0.05
"""How long to wait after the first death of a worker, and how much longer after each further one."""
CHECK_SECONDS = 2.0
"""How long to wait for a chunk before it is asked whether there are workers at all."""
MAX_SECONDS_ALONE = 60.0
"""After so many seconds without any worker a batch is given up; a lost one may take a while to be replaced."""
MIN_SHARED_BYTES = 1 << 16
"""Arrays below this size are sent to other processes, those above are shared with them."""
RESULTS_PER_INPUT = 4
"""How much room a block of shared memory has for results, in sizes of its inputs; unused room takes no memory."""
MAX_OPEN_BLOCKS = 16
"""The number of blocks of shared memory that a worker keeps open."""
MAX_PROGRAMS = 16
"""The number of compiled circuits that a worker keeps."""
BAR_WIDTH = 24
BAR_SECONDS = 0.1
"""Minimum time between two changes of the progress bar."""
REDUCTIONS = ("sum", "mean")


class StreamOptions(TypedDict, total=False):
    """How a batch is cut into chunks, which workers compute them, and where the results go."""

    executor: object
    """What runs the chunks; by default this process, one after another."""
    out: object
    """The array, or tuple of arrays, that the results are written into; it may be a `numpy.memmap`."""
    reduce: str | None
    """`"sum"` or `"mean"` returns that of all points instead of the results at each."""
    chunk_size: int
    """The number of points of a chunk, by default 65,536."""
    chunks: int
    """The number of chunks, where `points` is a function of their number."""
    progress: bool
    """Whether to show on stderr how far the batch is."""


class Program(Protocol):
    """Something that computes chunks."""

    def load(self) -> object:
        """Return the object whose methods compute them."""


@dataclass(frozen=True)
class LocalProgram:
    """An object of this process."""

    target: object

    def load(self) -> object:
        """Return it."""
        return self.target


@dataclass(frozen=True)
class FileProgram:
    """A circuit as the bytes of its file, and what compiles it; every process does that once."""

    data: bytes
    options: tuple[object, ...]
    build: Callable[..., object]
    """A function of a module, which every pickler sends by its name; it takes the bytes and the options."""

    def load(self) -> object:
        """Return the compiled circuit."""
        return _build_once(self)


@lru_cache(MAX_PROGRAMS)
def _build_once(program: FileProgram) -> object:
    return program.build(program.data, *program.options)


class ChunkPoints(NamedTuple):
    """The points of a chunk: a table, or a function that returns it, which is called where they are needed."""

    table: object
    function: Callable[[int], Any] | None = None
    number: int = 0

    def read(self) -> object:
        """Return the table."""
        return self.table if self.function is None else self.function(self.number)


class ChunkCall(NamedTuple):
    """A method of a program to be called at the points of a chunk."""

    program: Program
    method: str
    options: Mapping[str, object]
    points: ChunkPoints
    is_summed: bool
    """Whether the results of all points are added up."""
    block: SharedBlock | None = None
    """The shared memory that has the points, and room for the results; None if they are sent."""


class ChunkOutcome(NamedTuple):
    """What became of a call: results, or the error that was raised."""

    size: int = 0
    """The number of points."""
    parts: tuple[NDArray[Any], ...] = ()
    is_single: bool = True
    """Whether the method returns an array, rather than a tuple of them."""
    error: Exception | None = None


def compute_chunk(call: ChunkCall) -> ChunkOutcome:
    """Compute a chunk; this is what workers run."""
    try:
        table = call.points.read()
        method: Callable[..., Any] = getattr(call.program.load(), call.method)
        results = method(table, **call.options)
    except Exception as error:
        return ChunkOutcome(error=_make_portable(error))
    if isinstance(results, ChunkOutcome):
        return results
    is_single = not isinstance(results, tuple)
    parts = (results,) if is_single else results
    size = len(parts[0])
    if call.is_summed:
        # In float64, like the sum of all chunks.
        parts = tuple(np.asarray(np.sum(part, axis=0, dtype=np.float64)) for part in parts)
    return ChunkOutcome(size, parts, is_single)


def _make_portable(error: Exception) -> Exception:
    """Return an error that can be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return WorkerError(f"{type(error).__name__}: {error}")
    return error


class SharedArray(NamedTuple):
    """An array in a block of shared memory: where it begins, its shape and the name of its dtype."""

    offset: int
    shape: tuple[int, ...]
    dtype: str

    def view(self, memory: mmap.mmap) -> NDArray[Any]:
        """Return the array in place."""
        return np.frombuffer(memory, self.dtype, prod(self.shape), self.offset).reshape(self.shape)


class SharedBlock(NamedTuple):
    """A block of shared memory as another process of this machine finds it: a file of its owner that has no path."""

    path: str
    name: str
    """A random name. By the time a process opens the path, its number may belong to another file."""
    size: int

    def open_memory(self) -> mmap.mmap:
        """Return the memory; raise `OSError` if the block is gone, or may not be opened.

        The last blocks stay open, because reading memory for the first time is slow. Once the owner has given a block
        up, that takes no memory.
        """
        return _open_block(self)

    def map_memory(self) -> mmap.mmap:
        """Open the memory."""
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            if self.name not in os.readlink(f"/proc/self/fd/{descriptor}"):
                raise FileNotFoundError(f"{self.path} is another file now")
            return mmap.mmap(descriptor, self.size)
        finally:
            os.close(descriptor)


@lru_cache(MAX_OPEN_BLOCKS)
def _open_block(block: SharedBlock) -> mmap.mmap:
    return block.map_memory()


class OwnedBlock:
    """A block of shared memory in the process that made it."""

    def __init__(self, size: int) -> None:
        name = f"wiregrad-{secrets.token_hex(16)}"
        self._descriptor = os.memfd_create(name)
        os.ftruncate(self._descriptor, size)
        self.memory = mmap.mmap(self._descriptor, size)
        self.address = SharedBlock(f"/proc/{os.getpid()}/fd/{self._descriptor}", name, size)

    def close(self) -> None:
        """Give the memory back, even where processes that were forked still have the file."""
        self.memory.madvise(mmap.MADV_REMOVE)
        os.close(self._descriptor)


class ChunkMemory:
    """Blocks of shared memory for the chunks that are under way."""

    is_supported = hasattr(os, "memfd_create") and hasattr(mmap, "MADV_REMOVE")

    def __init__(self) -> None:
        self.is_used = True
        """Whether further chunks are shared; False if a worker could not open a block."""
        self._free: list[OwnedBlock] = []
        self._used: dict[int, OwnedBlock] = {}
        """The block of each chunk, by its number."""

    def lend(self, number: int, call: ChunkCall) -> ChunkCall:
        """Return a call whose rows are in shared memory; the call itself if they are few."""
        table = call.points.table
        arrays = table if isinstance(table, tuple) else (table,)
        size = sum(_align(array.nbytes) for array in arrays if isinstance(array, np.ndarray))
        if size < MIN_SHARED_BYTES or not self.is_used:
            return call
        block = self._take_block(size * (1 + RESULTS_PER_INPUT))
        self._used[number] = block
        shared, _ = _write_arrays(arrays, block.memory, 0)
        points = call.points._replace(table=shared if isinstance(table, tuple) else shared[0])
        return call._replace(points=points, block=block.address)

    def show_results(self, number: int, outcome: ChunkOutcome) -> ChunkOutcome:
        """Return an outcome with views of what is in shared memory; they are valid until the block is released."""
        block = self._used.get(number)
        if block is None:
            return outcome
        parts = [part.view(block.memory) if isinstance(part, SharedArray) else part for part in outcome.parts]
        return outcome._replace(parts=tuple(parts))

    def release(self, number: int) -> None:
        """Use the block of a chunk again; its results have been taken."""
        block = self._used.pop(number, None)
        if block is not None:
            self._free.append(block)

    def drop(self, number: int) -> None:
        """Give up the block of a chunk whose worker was lost: it may be alive, and write to it."""
        block = self._used.pop(number, None)
        if block is not None:
            block.close()

    def close(self) -> None:
        """Give all blocks up."""
        for block in (*self._free, *self._used.values()):
            block.close()
        self._free.clear()
        self._used.clear()

    def _take_block(self, size: int) -> OwnedBlock:
        for block in self._free:
            if block.address.size >= size:
                self._free.remove(block)
                return block
        return OwnedBlock(size)


def _align(size: int) -> int:
    """Return a size rounded up to a whole number of cache lines."""
    return -(-size // 64) * 64


def _write_arrays(arrays: Iterable[Any], memory: mmap.mmap, first: int) -> tuple[tuple[Any, ...], int]:
    """Copy arrays of plain numbers into memory, as far as they fit; return what replaces them, and the end."""
    shared = list[Any]()
    for array in arrays:
        size = array.nbytes if isinstance(array, np.ndarray) and array.dtype.kind in "biufc" else 0
        if not size or first + size > len(memory):
            shared.append(array)
            continue
        place = SharedArray(first, array.shape, array.dtype.str)
        place.view(memory)[...] = array
        shared.append(place)
        first += _align(size)
    return tuple(shared), first


def compute_shared_chunk(call: ChunkCall) -> ChunkOutcome:
    """Compute a chunk whose rows are in shared memory, and write the results there."""
    assert call.block is not None
    try:
        memory = call.block.open_memory()
    except OSError as error:
        return ChunkOutcome(error=NotSharedError(f"{type(error).__name__}: {error}"))
    table = call.points.table
    arrays = table if isinstance(table, tuple) and not isinstance(table, SharedArray) else (table,)
    used = [array for array in arrays if isinstance(array, SharedArray)]
    views = tuple(array.view(memory) if isinstance(array, SharedArray) else array for array in arrays)
    points = call.points._replace(table=views[0] if arrays is not table else views)
    outcome = compute_chunk(call._replace(points=points, block=None))
    end = max(array.offset + _align(prod(array.shape) * np.dtype(array.dtype).itemsize) for array in used)
    if sum(part.nbytes for part in outcome.parts) < MIN_SHARED_BYTES:
        return outcome
    return outcome._replace(parts=_write_arrays(outcome.parts, memory, end)[0])


class NotSharedError(Exception):
    """A worker cannot open the memory of the caller; its chunks are sent then."""


class WorkerPool:
    """The workers behind `executor=`."""

    def __init__(self, executor: object) -> None:
        self._source = executor
        self._is_own = False
        self.generation = 0
        """How often the executor has been replaced."""
        self._executor = self._open(executor)
        self._alone_since: float | None = None
        """Since when there has been no worker."""

    @property
    def is_local(self) -> bool:
        """Whether chunks are computed in this process."""
        return isinstance(self._executor, futures.ThreadPoolExecutor | _Caller)

    def count_workers(self) -> int:
        """Return the number of workers, as far as the executor tells."""
        executor: Any = self._executor
        number = self._count_workers_now()
        if number is None:
            number = getattr(executor, "num_workers", None) or getattr(executor, "_max_workers", None)
        return number if isinstance(number, int) and number > 0 else 1

    @property
    def shares_memory(self) -> bool:
        """Whether the workers are processes of this machine that can read memory of the caller."""
        return ChunkMemory.is_supported and isinstance(self._executor, futures.ProcessPoolExecutor)

    def submit(self, call: ChunkCall) -> futures.Future[ChunkOutcome]:
        """Begin to compute a chunk."""
        executor: Any = self._executor
        function = compute_chunk if call.block is None else compute_shared_chunk
        future: futures.Future[ChunkOutcome] = executor.submit(function, call)
        return future

    def check_workers(self) -> None:
        """Raise if there has been no worker for a while."""
        if self._count_workers_now() != 0:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > MAX_SECONDS_ALONE:
            raise WorkerError(
                f"the executor has had no worker for {MAX_SECONDS_ALONE:.0f} seconds, so the batch cannot go on: start "
                "workers, and have lost ones replaced"
            )

    def _count_workers_now(self) -> int | None:
        """Return the number of workers at the moment; None if the executor does not tell."""
        if not isinstance(self._executor, _RayExecutor | _DaskExecutor):
            return None
        try:
            return self._executor.num_workers
        except Exception:
            # What knows the workers does not answer.
            return 0

    def replace(self, error: BaseException) -> None:
        """Replace a pool that cannot be used any more, because one of its processes died."""
        old = self._executor
        if callable(self._source) and not hasattr(self._source, "submit"):
            self._close()
            self._executor = self._open(self._source)
        elif isinstance(old, futures.ProcessPoolExecutor):
            self._close()
            self._executor = _make_pool_like(old)
            self._is_own = True
        else:
            raise WorkerError(
                f"the executor cannot be used any more ({type(error).__name__}: {error}); pass a function that makes "
                "one, such as executor=lambda: ProcessPoolExecutor(4), and it is called again"
            ) from error
        self.generation += 1

    def close(self) -> None:
        """End the workers, unless the caller has them."""
        self._close()

    def _close(self) -> None:
        executor: Any = self._executor
        if self._is_own:
            executor.shutdown(wait=True, cancel_futures=True)

    def _open(self, executor: Any) -> object:
        if executor is None:
            return _Caller()
        if getattr(executor, "__name__", "") == "ray" and hasattr(executor, "remote"):
            return _RayExecutor(executor)
        client = executor if hasattr(executor, "get_executor") else getattr(executor, "_client", None)
        if hasattr(client, "get_executor"):
            return _DaskExecutor(client, getattr(executor, "_kwargs", {}))
        if hasattr(executor, "submit"):
            return executor
        made = executor() if callable(executor) else None
        if made is None or not hasattr(made, "submit"):
            raise OperandError(
                "executor is an object with the interface of concurrent.futures, a client of dask.distributed, the "
                f"module ray, or a function that returns one; got {short_repr(executor)}"
            )
        self._is_own = True
        return made


def _make_pool_like(pool: futures.ProcessPoolExecutor) -> futures.ProcessPoolExecutor:
    """Return a new pool with the settings of one whose processes died; the library keeps them in private fields."""
    settings: dict[str, Any] = {
        "max_workers": getattr(pool, "_max_workers", None),
        "mp_context": getattr(pool, "_mp_context", None),
        "initializer": getattr(pool, "_initializer", None),
        "initargs": getattr(pool, "_initargs", ()),
    }
    return futures.ProcessPoolExecutor(**settings)


class _Caller:
    """Computes chunks in the calling thread."""

    num_workers = 1

    def submit(self, function: Callable[[ChunkCall], ChunkOutcome], call: ChunkCall) -> futures.Future[ChunkOutcome]:
        future = futures.Future[ChunkOutcome]()
        future.set_result(function(call))
        return future


class _RayExecutor:
    """Ray as an executor."""

    def __init__(self, ray: Any) -> None:
        if not ray.is_initialized():
            raise OperandError("executor=ray needs a cluster: call ray.init() before")
        self._ray = ray
        self._remote = ray.remote(compute_chunk)

    @property
    def num_workers(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def submit(self, _function: object, call: ChunkCall) -> futures.Future[ChunkOutcome]:
        future: futures.Future[ChunkOutcome] = self._remote.remote(call).future()
        return future


class _DaskExecutor:
    """A client of Dask as an executor.

    Its own (`Client.get_executor`) does not serve where workers die. Equal calls have one key there, so that a chunk
    that is submitted again is the task that has failed already. And if the worker that has a result dies before the
    result was fetched, and so do those that compute it again, the future is never complete.
    """

    def __init__(self, client: Any, options: Mapping[str, object]) -> None:
        self._client = client
        self._options = {**options, "pure": False}

    @property
    def num_workers(self) -> int:
        return int(sum(self._client.nthreads().values()))

    def submit(self, function: object, call: ChunkCall) -> futures.Future[ChunkOutcome]:
        task = self._client.submit(function, call, **self._options)
        future = futures.Future[ChunkOutcome]()

        def pass_on(done: Any) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(done.result())
            except BaseException as error:
                future.set_exception(error)

        task.add_done_callback(pass_on)
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else task.release())
        return future


class ChunkScheduler:
    """Runs calls on workers, a few at a time, and yields their outcomes in the order of the calls.

    The results of an outcome are valid until the next one is asked for.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._window = 1 if pool.is_local and pool.count_workers() == 1 else CHUNKS_PER_WORKER * pool.count_workers()
        self._calls: dict[int, ChunkCall] = {}
        """The calls that are under way, by their number."""
        self._running: dict[futures.Future[ChunkOutcome], tuple[int, int]] = {}
        """The number of the call behind each future, and the generation of the pool that it belongs to."""
        self._done: dict[int, tuple[ChunkCall, ChunkOutcome]] = {}
        """Outcomes that wait for earlier ones."""
        self._losses = 0
        """How often workers have died since a chunk was completed."""
        self._memory: ChunkMemory | None = ChunkMemory() if pool.shares_memory else None

    def run(self, calls: Iterator[ChunkCall]) -> Iterator[tuple[ChunkCall, ChunkOutcome]]:
        """Yield each call with its outcome."""
        numbered = enumerate(calls)
        try:
            for number in count():
                while number not in self._done:
                    self._begin_calls(numbered)
                    if not self._running:
                        return
                    self._wait_for_one()
                yield self._done.pop(number)
                if self._memory is not None:
                    self._memory.release(number)
        finally:
            for future in self._running:
                future.cancel()
            if self._memory is not None:
                self._memory.close()

    def _begin_calls(self, numbered: Iterator[tuple[int, ChunkCall]]) -> None:
        while len(self._calls) + len(self._done) < self._window:
            number, call = next(numbered, (None, None))
            if number is None or call is None:
                return
            self._calls[number] = call
            self._submit(number)

    def _submit(self, number: int) -> None:
        call = self._calls[number]
        if self._memory is not None:
            call = self._memory.lend(number, call)
        try:
            future = self._pool.submit(call)
        except futures.BrokenExecutor as error:
            self._pool.replace(error)
            future = self._pool.submit(call)
        except Exception as error:
            raise WorkerError(f"the executor takes no chunks any more: {type(error).__name__}: {error}") from error
        self._running[future] = (number, self._pool.generation)

    def _wait_for_one(self) -> None:
        """Wait until a chunk is complete, or until a worker is known to have died; then begin its chunks again."""
        done: set[futures.Future[ChunkOutcome]] = set()
        while not done:
            done = futures.wait(self._running, CHECK_SECONDS, futures.FIRST_COMPLETED).done
            if not done:
                self._pool.check_workers()
        lost = list[int]()
        failure: BaseException | None = None
        for future in done:
            number, generation = self._running.pop(future)
            error = futures.CancelledError() if future.cancelled() else future.exception()
            if error is None:
                self._losses = 0
                if not self._take_outcome(number, future.result()):
                    lost.append(number)
                continue
            lost.append(number)
            if self._memory is not None:
                self._memory.drop(number)
            # When a pool broke, the other futures of its generation fail a moment later.
            failure = error if generation == self._pool.generation else failure
        if failure is not None:
            self._note_loss(failure)
        for number in sorted(lost):
            self._submit(number)

    def _take_outcome(self, number: int, outcome: ChunkOutcome) -> bool:
        """Take what became of a call; return False if it has to be sent, because its worker cannot share memory."""
        if self._memory is not None:
            outcome = self._memory.show_results(number, outcome)
        if self._memory is not None and isinstance(outcome.error, NotSharedError):
            self._memory.release(number)
            self._memory.is_used = False
            return False
        self._done[number] = (self._calls.pop(number), outcome)
        return True

    def _note_loss(self, error: BaseException) -> None:
        self._losses += 1
        if self._losses > MAX_LOSSES:
            raise WorkerError(
                f"no chunk was completed while workers failed {MAX_LOSSES} times, at last with "
                f"{type(error).__name__}: {error}"
            ) from error
        time.sleep(PAUSE_SECONDS * self._losses)
        if isinstance(error, futures.BrokenExecutor):
            self._pool.replace(error)


class OrderedSum:
    """Adds arrays up pairwise, so that the error grows with the logarithm of their number; the order alone counts.

    >>> total = OrderedSum()
    >>> for part in (1.0, 2.0, 3.0):
    ...     total.add(np.array(part))
    >>> float(total.finish())
    6.0
    """

    def __init__(self) -> None:
        self._sums: list[tuple[int, NDArray[Any]]] = []
        """Sums of 2^k arrays each, with k; the k fall."""

    def add(self, part: NDArray[Any]) -> None:
        """Add an array."""
        level = 0
        while self._sums and self._sums[-1][0] == level:
            part = self._sums.pop()[1] + part
            level += 1
        self._sums.append((level, part))

    def finish(self) -> NDArray[Any]:
        """Return the sum."""
        total = self._sums[-1][1]
        for _, part in reversed(self._sums[:-1]):
            total = part + total
        return total


class ResultSink(Protocol):
    """Takes the results of chunks in their order; they are in memory that the next chunks may use."""

    def take(self, outcome: ChunkOutcome) -> None:
        """Take those of the next chunk."""

    def finish(self) -> tuple[Any, ...]:
        """Return all results."""


class RowCollector:
    """Joins the rows of all chunks."""

    def __init__(self, rows: int | None) -> None:
        """Take the number of all rows, if it is known: then they are copied once."""
        self._rows = rows
        self._writer: RowWriter | None = None
        self._chunks: list[tuple[NDArray[Any], ...]] = []

    def take(self, outcome: ChunkOutcome) -> None:
        """Take the rows of the next chunk."""
        if self._rows is None:
            self._chunks.append(tuple(map(np.array, outcome.parts)))
            return
        if self._writer is None:
            parts = outcome.parts
            self._writer = RowWriter(tuple(np.empty((self._rows, *part.shape[1:]), part.dtype) for part in parts))
        self._writer.take(outcome)

    def finish(self) -> tuple[Any, ...]:
        """Return all rows."""
        if self._writer is not None:
            return self._writer.finish()
        return tuple(np.concatenate(parts) for parts in zip(*self._chunks, strict=True))


class RowWriter:
    """Writes the rows of all chunks into arrays of the caller."""

    def __init__(self, out: object) -> None:
        self.arrays: tuple[Any, ...] = out if isinstance(out, tuple) else (out,)
        for array in self.arrays:
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise OperandError(f"out= takes writable NumPy arrays; got {short_repr(array)}")
        self._rows = 0

    def take(self, outcome: ChunkOutcome) -> None:
        """Write the rows of the next chunk."""
        if len(self.arrays) != len(outcome.parts):
            wanted = "one array" if outcome.is_single else f"a tuple of {len(outcome.parts)} arrays"
            raise ShapeError(f"out= takes {wanted} here; got {len(self.arrays)}")
        for array, part in zip(self.arrays, outcome.parts, strict=True):
            rest = array[self._rows : self._rows + len(part)]
            if rest.shape != part.shape or array.dtype != part.dtype:
                raise ShapeError(
                    f"out= has an array of {array.dtype} with shape {array.shape}; the results have {part.dtype} and "
                    f"shape {part.shape[1:]} at each of at least {self._rows + len(part):,} points"
                )
            rest[...] = part
        self._rows += outcome.size

    def finish(self) -> tuple[Any, ...]:
        """Return the arrays; raise if there were fewer points than rows."""
        if any(len(array) != self._rows for array in self.arrays):
            raise ShapeError(f"out= has room for {len(self.arrays[0]):,} points; there were {self._rows:,}")
        return self.arrays


class Reducer:
    """Adds up the sums of all chunks."""

    def __init__(self, *, is_mean: bool) -> None:
        self._is_mean = is_mean
        self._sums: list[OrderedSum] = []
        self._size = 0

    def take(self, outcome: ChunkOutcome) -> None:
        """Take the sums of the next chunk."""
        self._sums = self._sums or [OrderedSum() for _ in outcome.parts]
        for total, part in zip(self._sums, outcome.parts, strict=True):
            total.add(np.array(part))
        self._size += outcome.size

    def finish(self) -> tuple[Any, ...]:
        """Return the sum or the mean of each result."""
        if self._is_mean and not self._size:
            raise InputError("the mean of no points does not exist")
        totals = [total.finish() / self._size if self._is_mean else total.finish() for total in self._sums]
        return tuple(total if total.ndim else float(total) for total in map(np.asarray, totals))


class ChunkProgress:
    """One line on stderr that shows how far a batch is."""

    def __init__(self, total: int | None, shown: bool) -> None:
        self._total = total
        self._shown = shown
        self._began = time.monotonic()
        self._next_time = 0.0
        self._chunks = 0
        self._points = 0

    def count(self, points: int) -> None:
        """Count a chunk, and write the line again unless that was done a moment ago."""
        self._chunks += 1
        self._points += points
        now = time.monotonic()
        if not self._shown or (now < self._next_time and self._chunks != self._total):
            return
        self._next_time = now + BAR_SECONDS
        done = BAR_WIDTH * self._chunks // self._total if self._total else 0
        bar = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}] {self._chunks:,}/{self._total:,}" if self._total else ""
        rate = self._points / max(now - self._began, 1e-9)
        sys.stderr.write(f"\r{bar or f'{self._chunks:,}'} chunks, {self._points:,} points, {rate:.3g} a second ")
        sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if self._shown:
            sys.stderr.write("\n")


class ChunkSource(NamedTuple):
    """The points of a batch in chunks."""

    chunks: Iterator[ChunkPoints]
    total: int | None
    """The number of chunks, if it is known."""
    rows: int | None = None
    """The number of points, if it is known."""


def cut_points(points: object, check: Callable[[Any], NDArray[Any]], options: StreamOptions) -> ChunkSource:
    """Return points in chunks: rows of a table, tables of an iterator, or those that a function returns.

    `check` raises unless something is a table of points.
    """
    return cut_data(points, check, options.get("chunks"), options.get("chunk_size"))


def cut_data(data: object, check: Callable[[Any], Any], chunks: int | None, chunk_size: int | None) -> ChunkSource:
    """Return data in chunks: rows of an array, or of a tuple of them, chunks of an iterator, or those of a function.

    `check` returns an array or a tuple of arrays, or raises.
    """
    if callable(data):
        if chunks is None or type(chunks) is not int or chunks < 1:
            raise InputError("what is a function of the number of a chunk needs chunks=, which says how many there are")
        return ChunkSource((ChunkPoints(None, data, number) for number in range(chunks)), chunks)
    if chunks is not None:
        raise InputError("chunks= is for a function of the number of a chunk; for arrays use chunk_size=")
    if hasattr(data, "__next__"):
        iterator: Iterator[Any] = data  # type: ignore[assignment]
        return ChunkSource((ChunkPoints(check(chunk)) for chunk in iterator), None)
    arrays = check(data)
    size = chunk_size or DEFAULT_CHUNK_SIZE
    rows = len(arrays[0] if isinstance(arrays, tuple) else arrays)
    starts = range(0, max(rows, 1), size)
    chunks_of_rows = (ChunkPoints(_take_rows(arrays, slice(first, first + size))) for first in starts)
    return ChunkSource(chunks_of_rows, len(starts), rows)


def _take_rows(arrays: Any, rows: slice) -> object:
    return tuple(array[rows] for array in arrays) if isinstance(arrays, tuple) else arrays[rows]


def check_reduction(reduce: object, out: object) -> None:
    """Raise unless a batch can be reduced in this way."""
    if reduce is not None and (not isinstance(reduce, str) or reduce not in REDUCTIONS):
        raise InputError(f'reduce is "sum" or "mean"; got {short_repr(reduce)}')
    if reduce is not None and out is not None:
        raise InputError("reduce= returns a few numbers, so out= has nothing to hold; leave one of them out")


def check_options(options: StreamOptions) -> None:
    """Raise unless the options of a batch fit."""
    known = StreamOptions.__annotations__
    for name in options:
        if name not in known:
            raise InputError(f"a batch has no option {name}{suggest_name(name, list(known))}")
    check_reduction(options.get("reduce"), options.get("out"))
    size = options.get("chunk_size")
    if size is not None and (type(size) is not int or size < 1):
        raise InputError(f"chunk_size is an integer of at least 1; got {short_repr(size)}")


class BatchMethod(NamedTuple):
    """A method that computes a batch, and what its program is elsewhere."""

    target: object
    """The object that has it."""
    name: str
    arguments: Mapping[str, object]
    """Its other arguments."""
    encode: Callable[[], FileProgram]
    """Returns what other processes need."""
    check: Callable[[Any], NDArray[Any]]
    """Raises unless something is a table of points, and returns it."""


def stream_batch(method: BatchMethod, points: object, options: StreamOptions) -> Any:
    """Return what a method returns at points, computed in chunks."""
    check_options(options)
    source = cut_points(points, method.check, options)
    reduction = options.get("reduce")
    out = options.get("out")
    sink: ResultSink = RowCollector(source.rows) if out is None else RowWriter(out)
    if reduction is not None:
        sink = Reducer(is_mean=reduction == "mean")
    pool = WorkerPool(options.get("executor"))
    try:
        program: Program = LocalProgram(method.target) if pool.is_local else method.encode()
        make_call = partial(ChunkCall, program, method.name, method.arguments, is_summed=reduction is not None)
        calls = (make_call(points=chunk) for chunk in source.chunks)
        progress = ChunkProgress(source.total, bool(options.get("progress")))
        is_single = _feed_sink(sink, ChunkScheduler(pool).run(calls), progress)
    finally:
        pool.close()
    results = sink.finish()
    return results[0] if is_single else results


def _feed_sink(sink: ResultSink, outcomes: Iterator[tuple[ChunkCall, ChunkOutcome]], progress: ChunkProgress) -> bool:
    """Have a sink take all outcomes; return whether the method returns one array. Raises what a computation raised."""
    is_single = None
    rows = 0
    try:
        for number, (_, outcome) in enumerate(outcomes):
            if outcome.error is not None:
                outcome.error.add_note(f"raised by chunk {number} of the batch, whose first point is point {rows:,}")
                raise outcome.error
            is_single = outcome.is_single
            rows += outcome.size
            sink.take(outcome)
            progress.count(outcome.size)
    finally:
        progress.close()
    if is_single is None:
        raise InputError(f"the iterator gave {count_with_noun(0, 'chunk')} of points; a batch needs one at least")
    return is_single
