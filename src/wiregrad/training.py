"""Training: a loop that can be read and copied, and checkpoints that survive a kill at any moment.

`train` is the loop; everything it calls is in this module and can be used in a loop of your own. It works with
everything that has `state_dict` and `load_state_dict`, such as the modules of `wg.nn`, and the optimisers and schedules
of `wg.optim`.

Kept true: a training that was killed and started again ends with the bits of one that was not. So a checkpoint holds
all that the next step depends on: parameters and buffers, what the optimiser and the schedule keep, the states of the
random generators, and the position in the data. It is one safetensors file with a digest, replaced at once or not at
all; nothing in it is executed when it is read.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.backends import executors
from wiregrad.backends.compiled import Compiled
from wiregrad.dtypes import JsonValue, count_with_noun, format_brief_number
from wiregrad.errors import BranchError, FileFormatError, InputError, NonFiniteError, ShapeError, StateError, short_repr
from wiregrad.files import (
    FilePath,
    decode_circuit_file,
    decode_tensors,
    encode_circuit_file,
    encode_tensors,
    has_tensor_dtype,
    read_file_bytes,
    replace_file,
)
from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.trace import trace_at
from wiregrad.frontends.replay.recorded_calls import take_labels_as_floats
from wiregrad.ir import CircuitGraph
from wiregrad.ir.text_form import read_strict_json

Arrays = tuple[NDArray[Any], ...]
Generator = np.random.Generator
Loss = Callable[..., Any]
"""A function of the model and a batch, one array after another, that returns one number."""

FORMAT_NAME = "wiregrad-checkpoint"
DOCUMENT_NAME = "checkpoint"
"""The tensor that holds everything but the arrays, as JSON."""
DOCUMENT_KEYS = ("settings", "generators", "order")
BAR_WIDTH = 24
BAR_SECONDS = 0.1
"""Minimum time between two changes of the progress bar."""


def train(
    model: Any,
    loss: Loss,
    data: object,
    *,
    optimizer: Any,
    rng: Generator,
    epochs: int,
    batch_size: int = 32,
    schedule: Any = None,
    validation: object = None,
    metrics: Mapping[str, Loss] | None = None,
    patience: int | None = None,
    before_update: Callable[[], object] | None = None,
    checkpoint: FilePath | None = None,
    checkpoint_every: int | None = None,
    generators: Sequence[Generator] = (),
    compiled: bool = False,
    watch: object = False,
    progress: bool | None = None,
) -> TrainingRun:
    """Train a model on batches of arrays; returns the course of the training.

    `loss(model, *batch)` returns one number; `data` is an array, or a tuple of arrays with one row per example. The
    order of the examples is drawn from `rng`, anew in each epoch. `schedule.step()` is called after every epoch, and
    `before_update()` between each gradient and the step of the optimiser, to clip gradients for example.

    After every epoch the loss and the `metrics` are computed on `validation`. With `patience`, training ends when the
    validation loss has not fallen for so many epochs, and the model gets the parameters of its best epoch.

    With `checkpoint`, the training is saved there after every epoch, or every `checkpoint_every` batches, and goes on
    from there if the file exists. Generators of the model's parts are saved too; name others that the loss draws from
    in `generators`. `watch=True` keeps a flight recorder, and `watch="live"` opens its page.

    With `compiled`, each step is one compiled call (`optim.CompiledStep`). Where that is not possible the steps are
    plain, and `not_compiled` of the result says why.

    A loss or gradient that is not finite raises `NonFiniteError`, which names the layer and the line. An optimiser may
    have some of the model's parameters, and others too, but one that has none of them is an error.

    >>> from wiregrad import nn, optim
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(64, 3))
    >>> y = x @ np.array([[1.0], [-2.0], [0.5]])
    >>> model = nn.Linear(3, 1, rng=rng)
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
    >>> def loss(model, x, y):
    ...     return nn.mse_loss(model(x), y)
    >>> run = train(model, loss, (x, y), optimizer=optimizer, rng=rng, epochs=20)
    >>> run.history["loss"][-1] < 1e-3
    True
    """
    arrays = check_arrays(data, "data")
    held_out = None if validation is None else check_arrays(validation, "validation")
    _check_counts(epochs=epochs, batch_size=batch_size, patience=patience, checkpoint_every=checkpoint_every)
    if validation is None and (patience is not None or metrics):
        raise InputError(f"{'patience' if patience is not None else 'metrics'} needs validation=(x, y)")
    _check_optimizer(model, optimizer)
    _check_schedule(schedule, optimizer)
    run = TrainingRun(flight=start_flight(watch))
    parts = TrainingParts(model, optimizer, schedule, find_generators(model, rng, generators))
    settings = {"examples": len(arrays[0]), "batch_size": batch_size}
    if checkpoint is not None and Path(checkpoint).exists():
        load_checkpoint(checkpoint, run, parts, settings)
    compiled_step = make_compiled_step(run, parts, loss, before_update) if compiled else None

    with ProgressBar(epochs, -(-len(arrays[0]) // batch_size), progress) as bar:
        while run.epoch < epochs and not run.has_stalled(patience):
            for batch in run.draw_batches(arrays, batch_size, rng):
                number = None if compiled_step is None else take_compiled_step(compiled_step, run, parts, batch)
                if number is None:
                    number = take_plain_step(run, parts, loss, batch, before_update)
                run.count_batch(number, len(batch[0]))
                bar.show(run)
                if checkpoint is not None and checkpoint_every and run.batch % checkpoint_every == 0:
                    save_checkpoint(checkpoint, run, parts, settings)
            run.end_epoch(evaluate(model, loss, metrics, held_out, batch_size))
            step_schedule(schedule, run)
            if patience is not None and run.is_best():
                run.best = model.state_dict()
            if checkpoint is not None:
                save_checkpoint(checkpoint, run, parts, settings)
            bar.show(run)
    if run.has_stalled(patience):
        model.load_state_dict(run.best)
    return run


def draw_batches(
    data: object, batch_size: int, *, rng: Generator | None = None, drop_last: bool = False, first: int = 0
) -> Iterator[Arrays]:
    """Return the batches of one epoch: tuples of arrays, with rows in an order that is drawn from a generator.

    `data` is an array, or a tuple of arrays with one row per example. Without `rng` the rows stay in their order. The
    last batch is smaller if the rows do not fill it; `drop_last` leaves it out. `first` is the number of the first
    batch.

    >>> x, y = np.arange(5.0), np.arange(5)
    >>> for x_part, y_part in draw_batches((x, y), 2, rng=np.random.default_rng(0)):
    ...     print(x_part, y_part)
    [2. 4.] [2 4]
    [3. 0.] [3 0]
    [1.] [1]
    """
    arrays = check_arrays(data, "data")
    _check_counts(batch_size=batch_size)
    count = len(arrays[0])
    # The order is drawn now, not when the first batch is asked for.
    order = np.arange(count) if rng is None else rng.permutation(count)
    stop = count - count % batch_size if drop_last else count
    parts = [order[start : min(start + batch_size, stop)] for start in range(first * batch_size, stop, batch_size)]
    return (tuple(array[part] for array in arrays) for part in parts)


@dataclass
class TrainingRun:
    """The course of a training: how far it is, and a number for each epoch.

    `history` has the mean loss of every epoch, and with validation data `validation_loss` and the metrics.
    """

    epoch: int = 0
    """Number of epochs that are complete."""
    batch: int = 0
    """Number of batches of the next epoch that are done."""
    history: dict[str, list[float]] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict, repr=False)
    """The state of the model at the lowest validation loss, if there is a patience."""
    not_compiled: str = field(default="", repr=False)
    """Why the steps were plain although they were to be compiled; empty if they were compiled."""
    flight: Any = field(default=None, repr=False)
    """The flight recorder; None if the training is not watched."""
    order_state: Any = field(default=None, repr=False)
    """The state of the generator from which the order of this epoch was drawn."""
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=4), repr=False, compare=False)
    """The losses of the last batches."""
    loss_sum: float = field(default=0.0, repr=False)
    examples_done: int = field(default=0, repr=False)

    def draw_batches(self, arrays: Arrays, batch_size: int, rng: Generator) -> Iterator[Arrays]:
        """Return the remaining batches of this epoch, in an order that is drawn from a generator.

        In the middle of an epoch, the order is drawn from where the generator was when the epoch began.
        """
        now = rng.bit_generator.state
        if self.batch:
            rng.bit_generator.state = self.order_state
        self.order_state = rng.bit_generator.state
        batches = draw_batches(arrays, batch_size, rng=rng, first=self.batch)
        if self.batch:
            rng.bit_generator.state = now
        return batches

    def count_batch(self, loss: float, examples: int) -> None:
        """Note that a batch is done."""
        self.batch += 1
        self.recent.append(loss)
        self.loss_sum += loss * examples
        self.examples_done += examples

    def end_epoch(self, results: Mapping[str, float]) -> None:
        """Note that an epoch is done, with what was computed on the validation data."""
        for name, number in {"loss": self.loss_sum / self.examples_done, **results}.items():
            self.history.setdefault(name, []).append(number)
        self.epoch += 1
        self.batch = self.examples_done = 0
        self.loss_sum = 0.0

    def best_epoch(self) -> int:
        """Return the index of the epoch with the lowest validation loss, the first of several; NaN is never lowest."""
        return int(np.argmin(np.nan_to_num(self.history["validation_loss"], nan=np.inf)))

    def is_best(self) -> bool:
        """Return whether the latest epoch has the lowest validation loss so far."""
        return self.best_epoch() == self.epoch - 1

    def has_stalled(self, patience: int | None) -> bool:
        """Return whether the validation loss has not fallen for some epochs."""
        return patience is not None and self.epoch > 0 and self.epoch - 1 - self.best_epoch() >= patience

    def __str__(self) -> str:
        names = list(self.history)
        rows = [
            f"{k + 1:5}  " + "  ".join(f"{self.history[name][k]:{max(len(name), 9)}.4g}" for name in names)
            for k in range(self.epoch)
        ]
        return "\n".join(["epoch  " + "  ".join(f"{name:>9}" for name in names), *rows])


def mean_value_and_grad(
    loss: Loss,
    params: Any,
    data: Any,
    *,
    executor: object = None,
    chunk_size: int | None = None,
    chunks: int | None = None,
    progress: bool = False,
) -> tuple[float, Any]:
    """Return the mean of a loss over data, and its gradient by the parameters, computed in chunks by many workers.

    `loss(params, *chunk)` returns the mean loss of the examples in a chunk, or a vector with the loss of each; `data`
    is an array, or a tuple of arrays with one row per example. It may also be an iterator over such chunks, or a
    function that returns a chunk by its number, with the number of `chunks`. `executor` is anything with the interface
    of `concurrent.futures`, a client of `dask.distributed`, or the module `ray`; without one, the chunks are computed
    here, one after another. The result has the same bits for any number of workers.

    The loss is traced here, and its circuit travels to the workers as a file, so they need not import it. A chunk at
    which the loss takes another branch is computed here.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 3))
    >>> y = x @ np.array([1.0, -2.0, 0.5])
    >>> def loss(w, x, y):
    ...     return np.mean((x @ w - y) ** 2)
    >>> value, grad = mean_value_and_grad(loss, np.zeros(3), (x, y), chunk_size=100)
    >>> np.allclose(grad, -2 * x.T @ y / 1000)
    True
    """
    options: executors.StreamOptions = {"reduce": "mean", "progress": progress}
    options |= {} if chunk_size is None else {"chunk_size": chunk_size}
    executors.check_options(options)
    check = partial(check_arrays, what="data")
    source = executors.cut_data(data, check, chunks, chunk_size)
    traced = TracedLoss(loss, params)
    total = executors.Reducer(is_mean=True)
    bar = executors.ChunkProgress(source.total, progress)
    pool = executors.WorkerPool(executor)
    try:
        calls = (traced.make_call(points, is_local=pool.is_local) for points in source.chunks)
        for call, outcome in executors.ChunkScheduler(pool).run(calls):
            part = traced.settle(call, outcome)
            total.take(part)
            bar.count(part.size)
    finally:
        pool.close()
        bar.close()
    value, *grads = total.finish()
    return value, unflatten(traced.tree, grads)


class LossProgram:
    """The circuit of a loss and its gradient, compiled."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self._names = circuit.inputs
        self._labels = circuit.outputs
        self._compiled = Compiled(circuit)

    def compute(self, chunk: Any, *, params: Sequence[Any], outside: Sequence[Any]) -> executors.ChunkOutcome:
        """Return the sums over a chunk of the loss and its gradient."""
        arrays = check_arrays(chunk, "a chunk")
        size = len(arrays[0])
        values = [*params, *map(_take_as_floats, arrays), *outside]
        results = self._compiled(dict(zip(self._names, values, strict=True)))
        parts = tuple(np.asarray(results[label], np.float64) * size for label in self._labels)
        return executors.ChunkOutcome(size, parts, is_single=False)


def load_loss_program(data: bytes) -> LossProgram:
    """Return the program of a circuit file, as a worker needs it."""
    return LossProgram(decode_circuit_file(data))


MAX_EXACT_INTEGER = 2**53


def _take_as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Return data as floats, which the inputs of a circuit are."""
    if array.dtype.kind == "f":
        return array
    if array.dtype.kind not in "iu" or array.max() > MAX_EXACT_INTEGER or array.min() < -MAX_EXACT_INTEGER:
        raise InputError(f"data must be real numbers, and whole ones at most 2**53; got an array of {array.dtype}")
    return array.astype(np.float64)


class TracedLoss:
    """A loss and its gradient as circuits, one for each shape of chunks."""

    def __init__(self, loss: Loss, params: Any) -> None:
        self._loss = loss
        self._params = params
        self._leaves, self.tree = flatten(params)
        self._programs: dict[object, tuple[executors.Program, list[Any]]] = {}

    def make_call(self, points: executors.ChunkPoints, *, is_local: bool) -> executors.ChunkCall:
        """Return the call that computes a chunk; the loss is traced at the first one of each shape."""
        key: object = None
        if points.function is None:
            key = tuple((array.shape, array.dtype) for array in check_arrays(points.table, "a chunk"))
        if key not in self._programs:
            circuit, outside = self._trace(check_arrays(points.read(), "a chunk"))
            if is_local:
                self._programs[key] = (executors.LocalProgram(LossProgram(circuit)), outside)
            else:
                data = b"".join(encode_circuit_file(circuit))
                self._programs[key] = (executors.FileProgram(data, (), load_loss_program), outside)
        program, outside = self._programs[key]
        options = {"params": self._leaves, "outside": outside}
        return executors.ChunkCall(program, "compute", options, points, is_summed=False)

    def settle(self, call: executors.ChunkCall, outcome: executors.ChunkOutcome) -> executors.ChunkOutcome:
        """Return the outcome of a call; trace and compute it here where the circuit is not that of its chunk."""
        if outcome.error is None:
            return outcome
        if not isinstance(outcome.error, BranchError | ShapeError):
            raise outcome.error
        chunk = check_arrays(call.points.read(), "a chunk")
        circuit, outside = self._trace(chunk)
        return LossProgram(circuit).compute(chunk, params=self._leaves, outside=outside)

    def _trace(self, chunk: Arrays) -> tuple[CircuitGraph, list[Any]]:
        """Return the circuit of the mean loss and its gradient, and the values that it reads from outside."""
        size = len(chunk[0])

        def compute_mean(params: Any, *arrays: Any) -> Any:
            value = self._loss(params, *arrays)
            shape = np.shape(value)
            if shape not in ((), (size,)):
                raise ShapeError(
                    f"the loss of {count_with_noun(size, 'example')} is one number, their mean, or a vector with the "
                    f"loss of each; got shape {shape}"
                )
            return np.mean(value) if shape else value

        for array in chunk:
            _take_as_floats(array)
        contiguous = [np.ascontiguousarray(array) for array in chunk]
        function, args, _ = take_labels_as_floats(wg.value_and_grad(compute_mean), (self._params, *contiguous), {})
        circuit, values = trace_at(function, args, {})
        return circuit, values[len(self._leaves) + len(chunk) :]


def check_arrays(data: object, what: str) -> Arrays:
    """Return data as a tuple of arrays with one row per example.

    >>> check_arrays((np.zeros((3, 2)), [1, 2]), "data")
    Traceback (most recent call last):
        ...
    wiregrad.errors.ShapeError: all arrays of data need as many rows; got 3 and 2
    """
    arrays = tuple(np.asarray(array) for array in (data if isinstance(data, tuple) else (data,)))
    if not arrays or any(not array.ndim or not len(array) for array in arrays):
        raise ShapeError(f"{what} needs at least one array with at least one example")
    counts = list(dict.fromkeys(len(array) for array in arrays))
    if len(counts) > 1:
        raise ShapeError(f"all arrays of {what} need as many rows; got {' and '.join(map(str, counts))}")
    return arrays


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        is_count = isinstance(count, int | np.integer) and not isinstance(count, bool) and count >= 1
        if not is_count and not (count is None and name in ("patience", "checkpoint_every")):
            raise InputError(f"{name} must be a whole number of at least 1; got {short_repr(count)}")


def _check_optimizer(model: object, optimizer: object) -> None:
    """Raise unless an optimiser has a parameter of the model; a model that names no parameters may be any object."""
    wanted = _list_values(model)
    held = getattr(optimizer, "parameters", None)
    if not wanted or not isinstance(held, Mapping):
        return
    known = {id(value) for value in wanted}
    if any(id(value) in known for value in held.values()):
        return
    kind = type(optimizer).__name__
    lead = f"make the optimiser after the model: {_name_class(optimizer)}(model.parameters(), ...)"
    if not held:
        raise InputError(f"the optimiser {kind} was made without parameters, so training would change nothing; {lead}")
    raise InputError(
        f"the optimiser's parameters are not those of the model, so training would change nothing: {kind} has "
        f"{count_with_noun(len(held), 'parameter')} and the model {len(wanted)}, and none of them is the same object; "
        f"{lead}"
    )


def _list_values(model: object) -> list[wg.Value]:
    """Return the parameters of a model that are values; none if it has no method `parameters`."""
    method = getattr(model, "parameters", None)
    parameters = method() if callable(method) else ()
    listed = parameters.values() if isinstance(parameters, Mapping) else parameters
    return [value for value in listed if isinstance(value, wg.Value)] if isinstance(listed, Iterable) else []


def _check_schedule(schedule: object, optimizer: object) -> None:
    """Raise if a schedule sets the rates of another optimiser; an optimiser of another class may hold that one."""
    own = getattr(schedule, "optimizer", optimizer)
    if own is optimizer or not isinstance(optimizer, wg.optim.Optimizer):
        return
    kind = type(schedule).__name__
    whose = "has no optimiser" if own is None else f"has another optimiser ({type(own).__name__})"
    raise InputError(
        f"the schedule {kind} {whose}, so it would not change the rates of optimizer= ({type(optimizer).__name__}); "
        f"make it after the optimiser: {_name_class(schedule)}(optimizer, ...)"
    )


def _name_class(thing: object) -> str:
    """Return the name of a class as it is written where `optim` is imported.

    >>> _name_class(wg.optim.StepLR(None, 10))
    'optim.StepLR'
    """
    kind = type(thing)
    return f"optim.{kind.__name__}" if kind.__module__ == wg.optim.__name__ else kind.__name__


def start_flight(watch: object) -> Any:
    """Return a flight recorder, if a training is to be watched: a new one, one with a page, or the given one."""
    if isinstance(watch, bool) or watch == "live":
        return wg.record(live=watch == "live") if watch else None
    if hasattr(watch, "step"):
        return watch
    raise InputError(f'watch must be True, "live" or a flight recorder (wg.record()); got {short_repr(watch)}')


def check_loss(value: object) -> wg.Value:
    """Return a loss; raises unless it is one number that depends on parameters."""
    if isinstance(value, wg.Value) and value.shape == ():
        return value
    if isinstance(value, wg.Value):
        raise ShapeError(f"the loss must be one number, not an array of shape {value.shape}; take its mean")
    raise InputError(f"the loss must be computed from parameters, which are wg.Value; got {short_repr(value)}")


def make_compiled_step(
    run: TrainingRun, parts: TrainingParts, loss: Loss, before_update: Callable[[], object] | None
) -> Callable[..., float] | None:
    """Return the steps of a training as compiled calls; None if they must be plain, and `run` says why."""
    if run.flight is not None:
        run.not_compiled = "the flight recorder looks at the recording of every step"
    elif before_update is not None:
        run.not_compiled = "before_update works on gradients, which a compiled step does not leave behind"
    else:
        try:
            step: Callable[..., float] = wg.optim.CompiledStep(parts.model, loss, parts.optimizer)
            return step
        except InputError as error:
            run.not_compiled = str(error)
    return None


def take_compiled_step(
    take_step: Callable[..., float], run: TrainingRun, parts: TrainingParts, batch: Arrays
) -> float | None:
    """Take a compiled step; returns None, and changes nothing, if a plain one has to say which number breaks."""
    if run.not_compiled:
        return None
    before = parts.save_generators()
    try:
        number: float = take_step(*batch)
        return number
    except NonFiniteError:
        parts.load_generators(before)
    except InputError as error:
        parts.load_generators(before)
        run.not_compiled = str(error)
    return None


def take_plain_step(
    run: TrainingRun, parts: TrainingParts, loss: Loss, batch: Arrays, before_update: Callable[[], object] | None
) -> float:
    """Compute the loss and its gradients, and change the parameters; returns the loss."""
    before = parts.save_generators()
    value = check_loss(loss(parts.model, *batch))
    parts.optimizer.zero_grad()
    value.backward()
    if not is_finite_step(value, parts.optimizer.parameters):
        parts.load_generators(before)
        about = describe_broken_batch(loss, batch) or describe_broken_parameters(parts) or describe_course(run)
        stop_with_blame(run, partial(loss, parts.model, *batch), about)
    if run.flight is not None:
        run.flight.step(value, parts.model.parameters(), inputs=batch)
    if before_update is not None:
        before_update()
    parts.optimizer.step()
    return float(value.data)


def is_finite_step(value: wg.Value, parameters: Mapping[str, wg.Value]) -> bool:
    """Return whether a loss and the gradients of all parameters are finite."""
    gradients = [parameter.grad for parameter in parameters.values()]
    return bool(np.isfinite(value.data)) and all(g is None or bool(np.isfinite(g).all()) for g in gradients)


def stop_with_blame(run: TrainingRun, compute_loss: Callable[[], Any], about: str) -> None:
    """Raise an error that says which op, in which layer and line, first made something that is not finite."""
    report = wg.blame(compute_loss)
    place = report.origins[0].place if report.origins else None
    where = f"epoch {run.epoch + 1}, batch {run.batch + 1}"
    said = f"the loss or a gradient is not finite in {where}{about}\n{report}"
    raise NonFiniteError(said, fault=report, place=place)


def describe_broken_parameters(parts: TrainingParts) -> str:
    """Say which parameter the last step of the optimiser made not finite; empty if all are finite.

    >>> model = wg.nn.Linear(2, 1, rng=np.random.default_rng(0))
    >>> model.load_state_dict(model.state_dict() | {"bias": np.array([np.nan])})
    >>> describe_broken_parameters(TrainingParts(model, wg.optim.SGD(model.parameters(), lr=0.1), None, []))
    '; the step of SGD before it left numbers that are not finite in bias'
    """
    parameters = parts.optimizer.parameters
    broken = [name for name, value in parameters.items() if not np.isfinite(value.data).all()]
    if not broken:
        return ""
    kind = type(parts.optimizer).__name__
    settings = [group.settings for group in getattr(parts.optimizer, "groups", [])]
    why = ": its eps is 0, so that it divides 0 by 0" if any(each.get("eps") == 0.0 for each in settings) else ""
    return f"; the step of {kind} before it left numbers that are not finite in {', '.join(broken)}{why}"


def describe_course(run: TrainingRun) -> str:
    """Say how the loss rose before it was not finite; empty if it did not."""
    event = None if run.flight is None else run.flight.first("overshot")
    if event is not None:
        return f"; {event.sentence} (step {event.step})"
    losses = list(run.recent)
    if len(losses) < 2 or not all(before < after for before, after in itertools.pairwise(losses)):
        return ""
    numbers = ", ".join(format_brief_number(loss) for loss in losses)
    return f"; the losses before it rose, {numbers}: if nothing else explains that, lower the learning rate"


def describe_broken_batch(loss: Loss, batch: Arrays) -> str:
    """Say which array of a batch has numbers that are not finite, by its name in the loss; empty if none has.

    >>> describe_broken_batch(lambda model, x, y: 0.0, (np.array([[0.0, 1.0], [2.0, np.nan]]), np.zeros(2)))
    '; x of the batch has NaN at [1, 1], and np.argwhere(~np.isfinite(x)) finds all such elements of the data'
    """
    broken = [k for k, array in enumerate(batch) if array.dtype.kind in "fc" and not np.isfinite(array).all()]
    if not broken:
        return ""
    try:
        names = [*inspect.signature(loss).parameters][1:]
    except ValueError:
        # A function that is not written in Python may have no signature.
        names = []
    name = names[broken[0]] if len(names) == len(batch) else f"array {broken[0]}"
    array = batch[broken[0]]
    index = np.argwhere(~np.isfinite(array))[0].tolist()
    finds = f"np.argwhere(~np.isfinite({name if name.isidentifier() else 'data'})) finds all such elements of the data"
    return f"; {name} of the batch has {'NaN' if np.isnan(array[tuple(index)]) else 'Inf'} at {index}, and {finds}"


def evaluate(
    model: Any, loss: Loss, metrics: Mapping[str, Loss] | None, arrays: Arrays | None, batch_size: int
) -> dict[str, float]:
    """Return the mean loss and metrics on validation data; empty if there is none."""
    if arrays is None:
        return {}
    functions = {"validation_loss": loss, **(metrics or {})}
    sums = dict.fromkeys(functions, 0.0)
    was_training = getattr(model, "training", True)
    try:
        set_training(model, False)
        with wg.no_grad():
            for start in range(0, len(arrays[0]), batch_size):
                batch = tuple(array[start : start + batch_size] for array in arrays)
                for name, function in functions.items():
                    number = function(model, *batch)
                    sums[name] += float(number.data if isinstance(number, wg.Value) else number) * len(batch[0])
    finally:
        set_training(model, was_training)
    return {name: total / len(arrays[0]) for name, total in sums.items()}


def step_schedule(schedule: Any, run: TrainingRun) -> None:
    """Let a schedule, if there is one, set the rates of the next epoch; one that looks at the loss gets the latest."""
    if getattr(schedule, "needs_loss", False):
        schedule.step(run.history.get("validation_loss", run.history["loss"])[-1])
    elif schedule is not None:
        schedule.step()


def set_training(model: object, mode: bool) -> None:
    """Let a model compute as while it is trained, or as after that, if it makes a difference to it."""
    if hasattr(model, "train"):
        model.train(mode)


class ProgressBar:
    """One line on stderr that shows how far a training is; quiet where stderr is no terminal."""

    def __init__(self, epochs: int, batches: int, shown: bool | None) -> None:
        self.epochs = epochs
        self.batches = batches
        self.is_shown = sys.stderr.isatty() if shown is None else shown
        self._next_time = 0.0
        self._start: tuple[float, int] | None = None
        """When the first batch was done, and how many batches had been done by then."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.is_shown and self._start is not None:
            sys.stderr.write("\n")

    def show(self, run: TrainingRun) -> None:
        """Write the line again, unless that was done a moment ago; after an epoch it is always written."""
        if not self.is_shown or (run.batch and time.monotonic() < self._next_time):
            return
        now = time.monotonic()
        self._next_time = now + BAR_SECONDS
        done = run.epoch * self.batches + run.batch
        self._start = self._start or (now, done)
        width = shutil.get_terminal_size().columns - 1
        # Spaces remove what is left of a longer line.
        sys.stderr.write("\r" + self.write_line(run, self._estimate_time(now, done))[:width].ljust(width))
        sys.stderr.flush()

    def _estimate_time(self, now: float, done: int) -> float | None:
        """Return how many seconds are left, if that can be known."""
        assert self._start is not None
        start, before = self._start
        return (now - start) / (done - before) * (self.epochs * self.batches - done) if done > before else None

    def write_line(self, run: TrainingRun, seconds_left: float | None) -> str:
        """Return the line: the epoch, a bar of its batches, the time left, the mean loss and the last metrics."""
        is_whole = run.batch == 0
        cells = BAR_WIDTH if is_whole else BAR_WIDTH * run.batch // self.batches
        latest = {name: numbers[-1] for name, numbers in run.history.items() if is_whole or name != "loss"}
        numbers = latest if is_whole else {"loss": run.loss_sum / run.examples_done, **latest}
        epoch = run.epoch if is_whole else run.epoch + 1
        left = []
        if seconds_left is not None and run.epoch < self.epochs:
            left = [f"{timedelta(seconds=round(seconds_left))} left"]
        bar = "#" * cells + "." * (BAR_WIDTH - cells)
        return f"epoch {epoch}/{self.epochs} [{bar}] " + "  ".join(
            [*left, *(f"{name} {number:.4g}" for name, number in numbers.items())]
        )


@dataclass(frozen=True)
class TrainingParts:
    """What a checkpoint saves besides the position."""

    model: Any
    optimizer: Any
    schedule: Any
    generators: list[Generator]

    def saved_parts(self) -> dict[str, Any]:
        """Return the parts that have a `state_dict`, by the name under which they are saved."""
        named = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        return {name: part for name, part in named.items() if part is not None}

    def save_generators(self) -> list[Any]:
        """Return the states of all generators."""
        return [generator.bit_generator.state for generator in self.generators]

    def load_generators(self, states: Sequence[Any]) -> None:
        """Put all generators back into saved states."""
        if len(states) != len(self.generators):
            raise StateError(
                f"the checkpoint has {count_with_noun(len(states), 'random generator')}, "
                f"the training {len(self.generators)}"
            )
        for generator, state in zip(self.generators, states, strict=True):
            kind = type(generator.bit_generator).__name__
            if state.get("bit_generator") != kind:
                raise StateError(f"the checkpoint has a generator {state.get('bit_generator')}, the training {kind}")
            generator.bit_generator.state = state


def find_generators(model: object, *others: Any) -> list[Generator]:
    """Return all random generators of a training, each once: the given ones, then those of the parts of the model."""
    given = [generator for other in others for generator in (other if isinstance(other, list | tuple) else [other])]
    odd = [generator for generator in given if not isinstance(generator, Generator)]
    if odd:
        raise InputError(f"a random generator is np.random.default_rng(seed); got {short_repr(odd[0])}")
    modules = model.modules().values() if hasattr(model, "modules") else [model]
    held = [value for module in modules for value in vars(module).values() if isinstance(value, Generator)]
    return list({id(generator): generator for generator in [*given, *held]}.values())


def save_checkpoint(path: FilePath, run: TrainingRun, parts: TrainingParts, settings: Mapping[str, int]) -> None:
    """Write a training to a file: completely, or not at all; a file that is there stays until the new one is whole."""
    states = {name: part.state_dict() for name, part in parts.saved_parts().items()}
    numbers = {"history": run.history, "best": run.best, "sums": {"loss": run.loss_sum, "examples": run.examples_done}}
    arrays = {
        f"{group}/{name}": np.asarray(value)
        for group, entries in {**states, **numbers}.items()
        for name, value in entries.items()
    }
    odd = {name: array for name, array in arrays.items() if not has_tensor_dtype(array)}
    document = {
        "epoch": run.epoch,
        "batch": run.batch,
        "settings": dict(settings),
        "generators": [encode_generator_state(state) for state in parts.save_generators()],
        "order": encode_generator_state(run.order_state),
        "dtypes": {name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in odd.items()},
    }
    tensors = arrays | {name: np.frombuffer(array.tobytes(), np.uint8) for name, array in odd.items()}
    tensors[DOCUMENT_NAME] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    metadata = {"format": FORMAT_NAME, "version": "1", "digest": digest_tensors(tensors)}
    replace_file(path, encode_tensors(tensors, metadata))


def load_checkpoint(path: FilePath, run: TrainingRun, parts: TrainingParts, settings: Mapping[str, int]) -> None:
    """Put a training where it was when the file was written; a file that is not whole is refused."""
    document, arrays = read_checkpoint(path)
    different = [name for name, value in settings.items() if document["settings"].get(name) != value]
    if different:
        name = different[0]
        raise StateError(
            f"{path} was written by another training: its {name} is {document['settings'].get(name)}, not "
            f"{settings[name]}; give another path, or remove the file to begin anew"
        )
    groups: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        group, _, rest = name.partition("/")
        groups.setdefault(group, {})[rest] = array if array.ndim or group == "model" else array.item()
    for name, part in parts.saved_parts().items():
        part.load_state_dict(groups.get(name, {}))
    parts.load_generators([decode_generator_state(state) for state in document["generators"]])
    run.order_state = decode_generator_state(document["order"])
    run.epoch = document["epoch"]
    run.batch = document["batch"]
    run.loss_sum = groups["sums"]["loss"]
    run.examples_done = groups["sums"]["examples"]
    run.history = {name: numbers.tolist() for name, numbers in groups.get("history", {}).items()}
    run.best = groups.get("best", {})


def read_checkpoint(path: FilePath) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the document and the arrays of a checkpoint; raises `FileFormatError` unless the file is whole."""
    data = read_file_bytes(Path(path))
    metadata: dict[str, str] = {}
    try:
        tensors = decode_tensors(data, lambda found: metadata.update(_check_metadata(found)))
        if metadata["digest"] != digest_tensors(tensors):
            raise FileFormatError("its digest is not that of its contents: it was changed after it was written")
        return _decode_document(tensors)
    except FileFormatError as error:
        raise FileFormatError(f"{path} cannot be read as a checkpoint: {error}; the file was left as it is") from None


def _decode_document(tensors: dict[str, NDArray[Any]]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the document, and the arrays with their own dtypes."""
    try:
        document: Any = read_strict_json(tensors.pop(DOCUMENT_NAME).tobytes())
        for name, kind in document["dtypes"].items():
            dtype = np.dtype(kind["dtype"])
            if dtype.kind not in "biufcU":
                raise TypeError
            tensors[name] = np.frombuffer(tensors[name].tobytes(), dtype).reshape(kind["shape"])
        if not all(isinstance(document[name], int) for name in ("epoch", "batch")) or "sums/loss" not in tensors:
            raise TypeError
        return {name: document[name] for name in (*DOCUMENT_KEYS, "epoch", "batch")}, tensors
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileFormatError("its document is not that of a training") from None


def _check_metadata(metadata: JsonValue) -> dict[str, str]:
    fields: Any = metadata if type(metadata) is dict else {}
    if fields.get("format") != FORMAT_NAME:
        raise FileFormatError(f"its format is {short_repr(fields.get('format'))}, not {FORMAT_NAME!r}")
    if fields.get("version") != "1" or not isinstance(fields.get("digest"), str):
        raise FileFormatError(f"its version must be 1, with a digest; got version {short_repr(fields.get('version'))}")
    return {"digest": fields["digest"]}


def digest_tensors(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the names, dtypes, shapes and bytes of some arrays.

    >>> digest_tensors({"w": np.zeros(2)}) == digest_tensors({"w": np.zeros((2, 1))})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}\n{array.dtype.str}\n{array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def encode_generator_state(state: Any) -> JsonValue:
    """Return the state of a generator as JSON; its whole numbers have up to 128 bits, so they are written as text.

    >>> encode_generator_state({"state": 255, "key": np.array([1, 2])})
    {'state': '0xff', 'key': ['0x1', '0x2']}
    """
    if isinstance(state, dict):
        return {name: encode_generator_state(part) for name, part in state.items()}
    if isinstance(state, np.ndarray):
        return [hex(number) for number in state.tolist()]
    return hex(state) if isinstance(state, int | np.integer) else state


def decode_generator_state(state: object) -> Any:
    """Return the state of a generator that `encode_generator_state` encoded."""
    if isinstance(state, dict):
        return {name: decode_generator_state(part) for name, part in state.items()}
    if isinstance(state, list):
        return np.array([int(number, 16) for number in state], np.uint64)
    return int(state, 16) if isinstance(state, str) and state.startswith("0x") else state
