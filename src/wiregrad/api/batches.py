"""Batches of a compiled function: many calls at once, each row along its own branches.

The arguments have the structure of a call, with a vector in place of each number and a table in place of each array:
points are along the first axis. Plain numbers are the same at all points, and so is what `in_axes` gives no axis.

The first row is answered by an ordinary call, which finds or makes a recording. That recording runs on all rows that
are left, and answers those at which each of its checks holds; then comes the first row that is left. So rows are
grouped by the branches that they take, and no row is answered by a recording that is not valid there. What is left
after some rounds, and what has no native code, is answered call by call.
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
from wiregrad.frontends.transforms.vmap_and_checkpoint import AxesSpec, find_leaf_axes
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
        """Return the numbers and arrays of the result at one point."""
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
    """The arguments of a batch, with points along the first axis of arrays, or the same for all rows."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], in_axes: AxesSpec = 0) -> None:
        parts = [flatten(argument) for argument in args]
        self._trees = [tree for _, tree in parts]
        self._sizes = [len(leaves) for leaves, _ in parts]
        leaves = [leaf for leaves, _ in parts for leaf in leaves]
        is_default = has_default_axes(in_axes)
        # A whole number is a number for all rows by default, in a container too.
        axes = [0] * len(leaves) if is_default else find_leaf_axes(in_axes, tuple(args), f)
        self._parts = [_read_part(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)]
        shapes = [part.item.shape for part in self._parts if part.varies]
        if not shapes:
            raise OperandError(
                "a batch needs a vector in place of at least one number; for one point call the function; a vector is "
                "an array: np.array([1.0, 2.0]), not a list of numbers"
            )
        if len({shape[0] for shape in shapes}) > 1:
            raise ShapeError(_describe_lengths(shapes, is_default=is_default))
        self.count = shapes[0][0]
        self._is_default = is_default
        self.columns = [part.spread(self.count) for part in self._parts if part.is_input]
        """What each input of a recording is at all points: an array of so many rows, or without axes one number."""

    @contextmanager
    def explain_lists(self) -> Iterator[None]:
        """Add to errors of the function which arguments it got as lists of numbers, because they are no vectors."""
        try:
            yield
        except TypeError as error:
            for position in self._find_lists():
                numbers = f"{self._trees[position].kind.__name__} of {count_with_noun(self._sizes[position], 'number')}"
                error.add_note(
                    f"in this batch, argument {position} is a {numbers}, which the function gets as it is; "
                    "a vector is an array: np.array([1.0, 2.0])"
                )
            raise

    def check_result_shapes(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Raise if a result at one point is an array that a list in place of a vector may have made."""
        as_long = [position for position in self._find_lists() if self._sizes[position] == self.count > 1]
        if any(shapes) and as_long and self._is_default:
            axes = tuple([None if position in as_long else 0 for position in range(len(self._sizes))])
            raise OperandError(
                f"the result at one point is an array of shape {next(filter(None, shapes))}, and a list has as many "
                f"numbers as there are points; a list that is the same at all points is named by in_axes={axes}"
            )

    def _find_lists(self) -> list[int]:
        """Return the positions of the arguments that are lists or tuples of numbers for all rows."""
        kinds = [tree.kind in (list, tuple) for tree in self._trees]
        return [k for k, is_list in enumerate(kinds) if is_list and all(part.is_number for part in self._list_parts(k))]

    def row_arguments(self, row: int) -> tuple[Any, ...]:
        """Return the arguments of one call."""
        return self._build_arguments([part.take_row(row) for part in self._parts])

    def sample_arguments(self) -> tuple[Any, ...]:
        """Return the arguments of a call like those of the rows, with 1.0 for each number that differs by row."""
        return self._build_arguments([part.make_sample() for part in self._parts])

    def number_inputs(self, position: int) -> range:
        """Return the numbers of the inputs that belong to an argument; raise if there is no gradient by it."""
        for part in self._list_parts(position):
            if not part.is_input:
                raise OperandError(
                    f"there is no gradient by argument {position}, which has {short_repr(part.item)}: choose the "
                    "arguments to differentiate by with argnums of wg.compile"
                )
        start = sum(part.is_input for part in self._parts[: sum(self._sizes[:position])])
        return range(start, start + self._sizes[position])

    def build_argument(self, leaves: Iterator[object], position: int) -> Any:
        """Return the next numbers or columns in the structure of an argument."""
        return unflatten(self._trees[position], list(islice(leaves, self._sizes[position])))

    def _build_arguments(self, leaves: list[Any]) -> tuple[Any, ...]:
        rest = iter(leaves)
        return tuple([self.build_argument(rest, position) for position in range(len(self._trees))])

    def _list_parts(self, position: int) -> list[PointPart]:
        start = sum(self._sizes[:position])
        return self._parts[start : start + self._sizes[position]]


class PointPart(NamedTuple):
    """A part of the arguments of a batch that is no container."""

    item: Any
    """An array of float64, with points along the first axis if it varies; or any object, the same for all rows."""
    varies: bool
    is_input: bool
    """Whether it is an input of a recording, and not a part of what the recording is made for."""

    @property
    def is_number(self) -> bool:
        """Whether it is one number for all rows."""
        return self.is_input and not self.item.ndim

    def take_row(self, row: int) -> Any:
        """Return what the call at a point gets."""
        if not self.varies:
            return self.item.item() if self.is_number else self.item
        return self.item[row] if self.item.ndim > 1 else self.item[row].item()

    def make_sample(self) -> Any:
        """Return something like what the call at a point gets."""
        if not self.varies:
            return self.take_row(0)
        return np.ones(self.item.shape[1:]) if self.item.ndim > 1 else 1.0

    def spread(self, count: int) -> NDArray[np.float64]:
        """Return an input at all points; one number for all of them as it is."""
        array: NDArray[np.float64] = self.item
        return array if self.varies or not array.ndim else np.broadcast_to(array, (count, *array.shape))


def has_default_axes(in_axes: AxesSpec) -> bool:
    """Return whether points are along the first axis of all arrays, because `in_axes` was left at 0."""
    return type(in_axes) is int and not in_axes


def is_usual_batch(in_axes: AxesSpec, out: object, executor: object, chunk_size: int | None, *, progress: bool) -> bool:
    """Return whether a batch has no options that a repeated one would have to look at."""
    return has_default_axes(in_axes) and out is None and executor is None and chunk_size is None and not progress


def _describe_lengths(shapes: Sequence[tuple[int, ...]], *, is_default: bool) -> str:
    """Return the message for vectors and tables of different lengths."""
    lengths = ", ".join(map(str, sorted({shape[0] for shape in shapes})))
    if all(len(shape) == 1 for shape in shapes):
        return f"the vectors of a batch must have the same length; got {lengths}"
    hint = "; an array that is the same at all points is named by in_axes: in_axes=(0, None)" if is_default else ""
    return f"the arrays of a batch must have the same number of points; got {lengths}{hint}"


def _read_part(leaf: Any, axis: int | None) -> PointPart:
    """Read a part of the arguments that has its points along an axis, or no points."""
    if type(leaf) is float:
        return PointPart(np.array(leaf), varies=False, is_input=True)
    if axis is None:
        if not isinstance(leaf, np.ndarray | np.floating) or leaf.dtype.kind != "f":
            return PointPart(leaf, varies=False, is_input=False)
        refuse_subclass(leaf, "an argument of a batch")
        return PointPart(_copy_to_float64(np.asarray(leaf)), varies=False, is_input=True)
    refuse_subclass(leaf, "a vector of a batch")
    column = np.asarray(leaf)
    if column.dtype.kind not in "fiu":
        raise OperandError(
            f"a batch takes vectors of real numbers in place of numbers; got an array of {column.dtype} with "
            f"{column.ndim} {'axis' if column.ndim == 1 else 'axes'}"
        )
    if column.ndim and not -column.ndim <= axis < column.ndim:
        raise ShapeError(f"in_axes: there is no axis {axis} in an argument of shape {column.shape}")
    numbers = _copy_to_float64(np.moveaxis(column, axis, 0) if column.ndim and axis else column)
    return PointPart(numbers, varies=numbers.ndim > 0, is_input=True)


def _copy_to_float64(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return an array as native code reads it, copied if it has to be."""
    if array.dtype == np.float64 and array.flags.c_contiguous and array.flags.aligned:
        return array
    # Rows are read as they lie in memory, vectors from number to number.
    numbers = np.require(array, np.float64, ["ALIGNED"] if array.ndim < 2 else ["ALIGNED", "C_CONTIGUOUS"])
    return numbers if not any(stride % numbers.itemsize for stride in numbers.strides) else numbers.copy()


BATCH_OPTIONS = ("in_axes", "threads", "out", "executor", "chunk_size", "progress", "reduce")
"""What batches take by keyword."""


def refuse_keywords(f: Callable[..., Any], keywords: Mapping[str, object]) -> None:
    """Raise if a batch was called with keywords that are none of its options."""
    for name in keywords:
        near = suggest_name(name, BATCH_OPTIONS)
        if name in ("argnums", "argnames"):
            raise OperandError(
                f"a batch of {function_name(f)} has the derivatives by the arguments that were selected when it was "
                f"compiled; got {name}=: write wg.compile(f, {name}=...)"
            )
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
        totals = [np.sum(column, axis=0) if column.ndim > 1 else float(np.sum(column)) for column in columns]
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
        return tuple(allocate_columns([()] * self._results, points))

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
    if any(type(arg) is not float and (type(arg) is not np.ndarray or arg.ndim != 1) for arg in args):
        return None
    # A result that depends on no argument may be an array of a recording that computes numbers.
    if any(column.ndim != 1 for column in points.values):
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
    points = None if table.count else make_columns(source, table, [()], wanted, outputs)
    # The rows that have no answer yet; None for all of them.
    left: NDArray[np.intp] | None = None if table.count else np.arange(0)
    rounds = 0
    misses = waits = 0
    answered_all: RowRecording | None = None
    while left is None or len(left):
        row = 0 if left is None else int(left[0])
        args = table.row_arguments(row)
        try:
            answer = ask(args)
        except Exception as error:
            error.add_note(f"raised at row {row:,} of the batch")
            raise
        for result in answer:
            require_real(result)
        if points is None:
            shapes = [np.shape(result) for result in answer[: len(answer) - len(wanted or ())]]
            table.check_result_shapes(shapes)
            points = make_columns(source, table, shapes, wanted, outputs)
        _check_shapes(points, answer)
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
    shapes: Sequence[tuple[int, ...]],
    wanted: tuple[int, ...] | None,
    outputs: Sequence[NDArray[np.float64]] | None,
) -> PointColumns:
    """Return the columns of a batch: its arguments, and arrays for its results, given or new.

    `shapes` are those of the results at one point.
    """
    results = len(shapes)
    shapes = [*shapes, *(table.columns[k].shape[1:] for k in wanted or ())]
    if outputs is None:
        outputs = allocate_columns(shapes, table.count)
    else:
        _check_outputs(outputs, table, shapes)
    grads = None if wanted is None else outputs[results:]
    return PointColumns(table.count, table.columns, outputs[:results], grads, wanted or (), source.device)


def _check_outputs(outputs: Sequence[Any], table: PointTable, shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise unless results can be written into these arrays while arguments are read."""
    for array, shape in zip(outputs, shapes, strict=False):
        is_place = type(array) is np.ndarray and array.dtype == np.float64 and array.shape == (table.count, *shape)
        if not is_place or not array.flags.writeable or not array.flags.c_contiguous:
            wanted = f"arrays of float64 of shape {(table.count, *shape)}"
            if not any(shapes):
                wanted = f"vectors of float64 with {table.count:,} entries"
            raise OperandError(f"out= takes contiguous, writable {wanted}; got {short_repr(array)}")
    if len(outputs) != len(shapes):
        arrays = count_with_noun(len(shapes), "array" if any(shapes) else "vector")
        raise ShapeError(f"out= needs {arrays}: the values, then the gradients; got {len(outputs)}")
    others = [*outputs, *(column for column in table.columns if column.ndim)]
    if any(np.may_share_memory(vector, other) for k, vector in enumerate(outputs) for other in others[k + 1 :]):
        raise OperandError("the arrays of out= must not share memory with each other or with the arguments")


def _check_shapes(points: PointColumns, answer: Sequence[Any]) -> None:
    """Raise unless the results at a point have the shapes of those at the first one."""
    for column, result in zip((*points.values, *(points.grads or ())), answer, strict=True):
        if np.shape(result) != column.shape[1:]:
            raise ShapeError(
                f"all rows of a batch must return arrays of the shapes of the first; got {np.shape(result)} after "
                f"{column.shape[1:]}"
            )


def _fill_row(points: PointColumns, row: int, answer: Sequence[Any]) -> None:
    """Fill in one row: its results and its gradient."""
    for column, result in zip((*points.values, *(points.grads or ())), answer, strict=True):
        column[row] = result


def is_real_number(result: object) -> bool:
    """Return whether a result is a real number or a condition, of Python or NumPy.

    >>> [is_real_number(result) for result in (2.0, np.int64(3), np.True_, np.array(0.5), np.ones(2), 1j)]
    [True, True, True, True, False, False]
    """
    if type(result) is np.ndarray and not result.ndim:
        # Some functions of NumPy, such as `np.where`, return arrays without axes.
        result = result[()]
    return isinstance(result, float | int | np.floating | np.integer | np.bool_)


def is_real_result(result: object) -> bool:
    """Return whether a result is a real number or a condition, or an array of them.

    >>> [is_real_result(result) for result in (2.0, np.ones(2), np.ones(2, bool), np.ones(2, complex))]
    [True, True, True, False]
    """
    return is_real_number(result) or (type(result) is np.ndarray and result.dtype.kind in "fiub")


def require_real(result: object) -> None:
    """Raise unless a result of a function is a real number, or an array of real numbers."""
    if is_real_result(result):
        return
    kind = f"an array of {result.dtype}" if isinstance(result, np.ndarray) else type(result).__name__
    raise OperandError(f"a batch needs a function that returns real numbers, or arrays of them; got {kind}")


def _list_rows_left(left: NDArray[np.intp] | None, failures: NDArray[np.intp] | None, count: int) -> NDArray[np.intp]:
    """Return the rows without an answer after a replay and the first of `left` were answered.

    `failures` are the indices in `left` at which the replay does not hold; None if there was no replay.
    """
    if failures is None:
        return np.arange(1, count) if left is None else left[1:]
    later = failures[failures > 0]
    return later if left is None else left[later]
