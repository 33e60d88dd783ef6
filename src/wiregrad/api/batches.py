"""Batches of a compiled function: many calls at once, each row along its own branches.

The arguments have the structure of a call, with a vector in place of each number. The first row is answered by an
ordinary call, which finds or makes a recording. That recording runs on all rows that are left, and answers those at
which each of its checks holds; then comes the first row that is left. So rows are grouped by the branches that they
take, and no row is answered by a recording that is not valid there. What is left after some rounds, and what has no
native code, is answered call by call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import executors
from wiregrad.backends.replay_engines import PointColumns, RowWorkers, allocate_columns
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import InputError, OperandError, ShapeError, short_repr, suggest_name
from wiregrad.frontends.recording.arguments import ContainerTree, flatten, refuse_subclass, unflatten
from wiregrad.frontends.recording.session import function_name
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.lazy import NamedTuple

if TYPE_CHECKING:
    from wiregrad.backends.native import batch

MAX_SKIPPED_CALLS = 256
"""Maximum number of calls in a row that run the function without trying its recordings."""
MAX_ROUNDS = 64
"""Maximum number of recordings that run on the rows of a batch; the rows that are left are answered one by one."""


class RowRecording(Protocol):
    """A recording of a function, as batches see it."""

    def run_rows(
        self,
        points: PointColumns,
        rows: NDArray[np.intp] | None,
        threads: int | None,
        workers: RowWorkers | None = None,
    ) -> NDArray[np.intp] | None:
        """Write the results at some points, or all; return the indices of those where a check fails.

        None if there is no native code.
        """

    def prepare_rows(self, varies: Sequence[bool], wanted: tuple[int, ...] | None) -> batch.RepeatedColumns | None:
        """Return batches in which these inputs vary and the others do not, by the inputs that are wanted.

        None if there is no native code, or if a check may fail at some points.
        """

    def finish_rows(self, values: Sequence[NDArray[np.float64]], rows: NDArray[np.intp] | None, hits: int) -> None:
        """Fill in the results that are the same at all points, and count the points that were answered."""

    row_counter: NDArray[np.int64]
    """The number of rows that the extension module has answered."""

    @property
    def moving_results(self) -> Sequence[int]:
        """The numbers of the results that are not the same at all points."""


class BatchSource(Protocol):
    """A compiled function, as batches see it."""

    device: str
    """Where batches run."""

    def find_variant(self, args: Sequence[Any], *, gradient: bool) -> RowRecording | None:
        """Return the recording that answers a call, or its gradient; None if there is none."""


class ResultStructure:
    """The structure of a function's results, which all rows of a batch share."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self.tree: ContainerTree | None = None

    def ask(self, row: tuple[Any, ...]) -> list[Any]:
        """Return the numbers of the result at one point."""
        leaves, tree = flatten(self._run(*row))
        if self.tree is not None and not tree.has_order_of(self.tree):
            raise OperandError(f"all rows of a batch must return the structure of the first, {self.tree}; got {tree}")
        self.tree = tree
        return leaves

    def build_like(self, columns: Sequence[NDArray[np.float64]], out: ContainerTree | None) -> Any:
        """Return columns in this structure, which that of `out` must be."""
        assert self.tree is not None
        if out is not None and not out.has_order_of(self.tree):
            raise OperandError(f"out= must have the structure of the results, {self.tree}; got {out}")
        return unflatten(self.tree, list(columns))


class PointTable:
    """The arguments of a batch: a vector for each number of a call, or one number for all calls."""

    def __init__(self, args: Sequence[Any]) -> None:
        parts = [flatten(argument) for argument in args]
        self._trees = [tree for _, tree in parts]
        self._sizes = [len(leaves) for leaves, _ in parts]
        self.columns = [_read_column(leaf) for leaves, _ in parts for leaf in leaves]
        lengths = {len(column) for column in self.columns if column.ndim}
        if not lengths:
            raise OperandError(
                "a batch needs a vector in place of at least one number; for one point call the function; a vector is "
                "an array: np.array([1.0, 2.0]), not a list of numbers"
            )
        if len(lengths) > 1:
            raise ShapeError(f"the vectors of a batch must have the same length; got {', '.join(map(str, lengths))}")
        self.count = lengths.pop()

    @contextmanager
    def explain_lists(self) -> Iterator[None]:
        """Add to errors of the function which arguments it got as lists of numbers, because they are no vectors."""
        try:
            yield
        except TypeError as error:
            for position, tree in enumerate(self._trees):
                columns = [self.columns[k] for k in self.number_inputs(position)]
                if tree.kind in (list, tuple) and not any(column.ndim for column in columns):
                    numbers = f"{tree.kind.__name__} of {count_with_noun(len(columns), 'number')}"
                    error.add_note(
                        f"in this batch, argument {position} is a {numbers}, which the function gets as it is; "
                        "a vector is an array: np.array([1.0, 2.0])"
                    )
            raise

    def row_arguments(self, row: int) -> tuple[Any, ...]:
        """Return the arguments of one call."""
        numbers = iter([(column[row] if column.ndim else column).item() for column in self.columns])
        return tuple([self.build_argument(numbers, position) for position in range(len(self._trees))])

    def sample_arguments(self) -> tuple[Any, ...]:
        """Return the arguments of a call like those of the rows, with 1.0 in place of each vector."""
        numbers = iter([1.0 if column.ndim else column.item() for column in self.columns])
        return tuple([self.build_argument(numbers, position) for position in range(len(self._trees))])

    def number_inputs(self, position: int) -> range:
        """Return the numbers of the columns that belong to an argument."""
        start = sum(self._sizes[:position])
        return range(start, start + self._sizes[position])

    def build_argument(self, leaves: Iterator[object], position: int) -> Any:
        """Return the next numbers or columns in the structure of an argument."""
        return unflatten(self._trees[position], list(islice(leaves, self._sizes[position])))


def _read_column(leaf: object) -> NDArray[np.float64]:
    if type(leaf) is float:
        return np.array(leaf)
    refuse_subclass(leaf, "a vector of a batch")
    column = np.asarray(leaf)
    if column.ndim == 1 and column.dtype == np.float64 and column.flags.c_contiguous and column.flags.aligned:
        return column
    if column.dtype.kind not in "fiu" or column.ndim > 1:
        hint = ""
        if column.ndim > 1:
            hint = "; pass the columns of an array in a list, as in [q[:, 0], q[:, 1]], or use wg.vmap"
        raise OperandError(
            f"a batch takes vectors of real numbers in place of numbers; got an array of {column.dtype} with "
            f"{column.ndim} {'axis' if column.ndim == 1 else 'axes'}{hint}"
        )
    numbers = np.require(column, np.float64, ["ALIGNED"])
    # Native code steps from number to number.
    return numbers if not any(stride % numbers.itemsize for stride in numbers.strides) else numbers.copy()


BATCH_OPTIONS = ("threads", "out", "executor", "chunk_size", "progress", "reduce")
"""What batches take by keyword."""


def refuse_keywords(f: Callable[..., Any], keywords: Mapping[str, object]) -> None:
    """Raise if a batch was called with keywords that are none of its options."""
    for name in keywords:
        near = suggest_name(name, BATCH_OPTIONS)
        raise OperandError(
            f"a batch of {function_name(f)} takes its arguments by position; got {name}=; its options are "
            f"{', '.join(BATCH_OPTIONS)}{near}"
        )


def choose_reduction(reduce: str | None, out: object) -> Callable[[Any], Any]:
    """Return the function that replaces each vector of a result by its sum or mean, or that returns it as it is."""
    if reduce is None:
        return lambda result: result
    executors.check_reduction(reduce, out)

    def reduce_columns(result: Any) -> Any:
        columns, tree = flatten(result)
        if reduce == "mean" and not all(map(len, columns)):
            raise InputError("a batch without points has no mean")
        totals = [float(np.sum(column)) for column in columns]
        return unflatten(tree, totals if reduce == "sum" else [x / len(columns[0]) for x in totals])

    return reduce_columns


@contextmanager
def open_workers(executor: object, chunk_size: int | None, progress: bool) -> Iterator[RowWorkers | None]:
    """Yield the workers of a batch; None if it runs here."""
    if executor is None and chunk_size is None and not progress:
        yield None
        return
    workers = RowWorkers(executor, chunk_size, progress)
    try:
        yield workers
    finally:
        workers.close()


class BatchAnswer(NamedTuple):
    """The results of a batch."""

    points: PointColumns
    recording: RowRecording | None
    """The recording that answered all rows; None if there is none."""


BuildResult: TypeAlias = Callable[[list[NDArray[np.float64]], list[NDArray[np.float64]]], Any]
"""Builds what a batch returns from its values and its gradients."""


class RepeatedBatch:
    """The last batch, for those that ask for the same at other points: no recording has to be looked for then.

    It was answered by one recording without checks, which answers any numbers in the same places. The extension module
    reads the arguments and runs it (`BatchEntry`).
    """

    def __init__(
        self,
        points: PointColumns,
        recording: RowRecording,
        rows: batch.RepeatedColumns,
        build_result: BuildResult,
    ) -> None:
        self._rows = rows
        self._recording = recording
        self._values = len(points.values)
        self._results = self._values + len(points.grads or ())
        self._targets = [*recording.moving_results, *range(self._values, self._results)]
        """The numbers of the results that are computed: the others are constants."""
        self._build_result = build_result

    def make_entry(self, args: Sequence[Any], form: Any) -> Any:
        """Return what answers batches with vectors and floats in the places of these arguments.

        `form` is the answer with numbers of results in place of them, if it consists of tuples.
        """
        is_number = tuple([type(arg) is float for arg in args])
        is_built_there = form is not None and len(self._targets) == self._results
        answer = form if is_built_there else self._build_answer
        counters = (self._recording.row_counter, self._rows.counter)
        return RECORDER.BatchEntry(is_number, self._prepare, self._allocate, answer, counters, is_main_thread)

    def _prepare(self, points: int, threads: int) -> Any:
        """Return batches of so many points, for the extension module; 0 threads are as many as there are by default."""
        description = self._rows.describe_job(points, threads or None, self._results, self._targets)
        return None if description is None else RECORDER.BatchJob(*description)

    def _allocate(self, points: int) -> tuple[NDArray[np.float64], ...]:
        """Return vectors for all results."""
        return tuple(allocate_columns(self._results, points))

    def _build_answer(self, results: tuple[NDArray[np.float64], ...]) -> Any:
        """Return what the batch returns."""
        values, grads = list(results[: self._values]), list(results[self._values :])
        # The points are counted already.
        self._recording.finish_rows(values, None, 0)
        return self._build_result(values, grads)


def is_main_thread() -> bool:
    """Return whether signals are handled in this thread."""
    return threading.current_thread() is threading.main_thread()


def repeat_batch(
    args: Sequence[Any], answer: BatchAnswer, device: str, build_result: BuildResult, form: Any = None
) -> Any:
    """Return what answers further batches of the same kind; None if each of them needs to be looked at.

    `form` is what `build_result` returns, if it is of tuples, with the numbers of the results in their places.
    """
    points, recording = answer
    if RECORDER is None or device != "cpu" or recording is None:
        return None
    if any(type(arg) is not float and type(arg) is not np.ndarray for arg in args):
        return None
    wanted = None if points.grads is None else points.wanted
    rows = recording.prepare_rows([type(arg) is np.ndarray for arg in args], wanted)
    return None if rows is None else RepeatedBatch(points, recording, rows, build_result).make_entry(args, form)


def answer_batch(
    source: BatchSource,
    table: PointTable,
    ask: Callable[[tuple[Any, ...]], Sequence[Any]],
    *,
    wanted: tuple[int, ...] | None,
    threads: int | None,
    outputs: Sequence[NDArray[np.float64]] | None = None,
    workers: RowWorkers | None = None,
) -> BatchAnswer:
    """Answer all rows; `ask` answers a single call: the value and its gradient by the inputs that are wanted.

    Results are written into `outputs`, the values and the gradients, or into new vectors. Recordings run on `workers`,
    or here.
    """
    points = None if table.count else make_columns(source, table, 1, wanted, outputs)
    # The rows that have no answer yet; None for all of them.
    left: NDArray[np.intp] | None = None if table.count else np.arange(0)
    rounds = 0
    misses = waits = 0
    answered_all: RowRecording | None = None
    while left is None or len(left):
        row = 0 if left is None else int(left[0])
        args = table.row_arguments(row)
        answer = ask(args)
        if points is None:
            points = make_columns(source, table, len(answer) - len(wanted or ()), wanted, outputs)
        is_last = (table.count if left is None else len(left)) == 1
        if is_last or rounds == MAX_ROUNDS or waits:
            waits -= waits > 0
            variant = None
        else:
            variant = source.find_variant(args, gradient=wanted is not None)
            # Looking for a recording takes about as long as a call, so rows without one are more and more apart.
            misses = 0 if variant is not None else min(2 * misses + 1, MAX_SKIPPED_CALLS)
            waits = misses
        failures = None if variant is None else variant.run_rows(points, left, threads, workers)
        if failures is None or (len(failures) and failures[0] == 0):
            _fill_row(points, row, answer)
        if left is None and failures is not None and not len(failures):
            answered_all = variant
        left = _list_rows_left(left, failures, table.count)
        rounds += failures is not None
    assert points is not None
    return BatchAnswer(points, answered_all)


def make_columns(
    source: BatchSource,
    table: PointTable,
    results: int,
    wanted: tuple[int, ...] | None,
    outputs: Sequence[NDArray[np.float64]] | None,
) -> PointColumns:
    """Return the columns of a batch: its arguments, and vectors for its results, given or new."""
    count = results + len(wanted or ())
    if outputs is None:
        outputs = allocate_columns(count, table.count)
    else:
        _check_outputs(outputs, table, count)
    grads = None if wanted is None else outputs[results:]
    return PointColumns(table.count, table.columns, outputs[:results], grads, wanted or (), source.device)


def _check_outputs(outputs: Sequence[Any], table: PointTable, count: int) -> None:
    """Raise unless results can be written into these vectors while arguments are read."""
    for vector in outputs:
        is_vector = type(vector) is np.ndarray and vector.dtype == np.float64 and vector.shape == (table.count,)
        if not is_vector or not vector.flags.writeable or not vector.flags.c_contiguous:
            raise OperandError(
                f"out= takes contiguous, writable vectors of float64 with {table.count:,} entries; "
                f"got {short_repr(vector)}"
            )
    if len(outputs) != count:
        vectors = count_with_noun(count, "vector")
        raise ShapeError(f"out= needs {vectors}: the values, then the gradients; got {len(outputs)}")
    others = [*outputs, *(column for column in table.columns if column.ndim)]
    if any(np.may_share_memory(vector, other) for k, vector in enumerate(outputs) for other in others[k + 1 :]):
        raise OperandError("the vectors of out= must not share memory with each other or with the arguments")


def _fill_row(points: PointColumns, row: int, answer: Sequence[Any]) -> None:
    """Fill in one row: its results and its gradient."""
    for column, number in zip((*points.values, *(points.grads or ())), answer, strict=True):
        require_real(number)
        column[row] = number


def is_real_number(result: object) -> bool:
    """Return whether a result is a real number or a condition, of Python or NumPy.

    >>> [is_real_number(result) for result in (2.0, np.int64(3), np.True_, np.array(0.5), np.ones(2), 1j)]
    [True, True, True, True, False, False]
    """
    if type(result) is np.ndarray and not result.ndim:
        # Some functions of NumPy, such as `np.where`, return arrays without axes.
        result = result[()]
    return isinstance(result, float | int | np.floating | np.integer | np.bool_)


def require_real(result: object) -> None:
    """Raise unless a result of a function is a real number."""
    if is_real_number(result):
        return
    kind = type(result).__name__
    hint = ""
    if isinstance(result, np.ndarray):
        kind = f"an array of shape {result.shape}"
        hint = "; return its elements in a tuple or list, (a, b), or use wg.vmap"
    raise OperandError(f"a batch needs a function that returns real numbers; got {kind}{hint}")


def _list_rows_left(left: NDArray[np.intp] | None, failures: NDArray[np.intp] | None, count: int) -> NDArray[np.intp]:
    """Return the rows without an answer after a replay and the first of `left` were answered.

    `failures` are the indices in `left` at which the replay does not hold; None if there was no replay.
    """
    if failures is None:
        return np.arange(1, count) if left is None else left[1:]
    later = failures[failures > 0]
    return later if left is None else left[later]
