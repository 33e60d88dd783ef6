"""The flight recorder of a training: what each step did, in bounded memory, and the first step that went wrong.

Kept true: an event has the exact step at which it began and the numbers of that step, even after the records around it
were merged; a refused step leaves the recording unchanged; memory does not grow with the number of steps.

A flight can be saved, so that it can be looked at after the program has ended. The file is JSON with the numbers of the
records as base64 text; it holds neither parameters nor inputs. A file that does not describe a whole flight is refused
with a `FileFormatError`.

Start with `Flight.step` here: `training_steps` measures and stores a step and decides what went wrong. Other rooms call
`Flight` and `load_flight`.
"""

from __future__ import annotations

import json
import math
import os
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord, interpreter
from wiregrad.dtypes import JsonValue, as_float, count_with_noun
from wiregrad.errors import FileFormatError, IndexingError, InputError, UnknownNameError, WiregradError, short_repr
from wiregrad.files import read_file_bytes, replace_file
from wiregrad.frontends.recording.arguments import tree_map
from wiregrad.frontends.recording.trace import circuit_of_value
from wiregrad.frontends.recording.value import Value
from wiregrad.inspect.flight_recorder import training_steps
from wiregrad.inspect.flight_recorder.training_steps import (
    FIRST_GROUP_COLUMN,
    GROUP_METRICS,
    KINDS,
    Band,
    Event,
    FlightError,
    Grouping,
    Limits,
    StepGauge,
    StepHistory,
    StepJudge,
    StepStructure,
    check_count,
    check_kind,
)
from wiregrad.inspect.loss_terms import describe_unmoved_terms
from wiregrad.inspect.report import Report, RunIndex
from wiregrad.ir import join_first_names
from wiregrad.ir.text_form import read_strict_json

__all__ = [
    "KINDS",
    "Band",
    "CurveBand",
    "Event",
    "Flight",
    "FlightError",
    "GroupRecord",
    "Limits",
    "Record",
    "Snapshot",
    "copy_step",
    "load_flight",
]


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One group over the steps of a record: root mean squares per number, shares, and counts."""

    gradient: Band
    largest: Band
    zeros: Band
    nonfinite: int
    parameter: Band
    broken: int
    update: Band


@dataclass(frozen=True, slots=True)
class Record:
    """A summary of the steps from `first` to `last`, both included."""

    first: int
    last: int
    loss: Band
    lost: int
    """Number of losses that were not finite."""
    groups: Mapping[str, GroupRecord]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of the parameters and inputs of one step."""

    step: int
    params: Any
    inputs: Any


class CurveBand(NamedTuple):
    """A number over stretches of steps: the middle step of each, and its smallest, mean and largest."""

    steps: list[float]
    low: list[float]
    mean: list[float]
    high: list[float]


class Flight(Report):
    """Records what each training step did; printing it shows the course of the training and its events.

    `groups` is the number of names of a parameter's path that make a group, or a function of the path. `on_event` is
    called with each event, or is "raise" to stop there. `keep` is the number of steps before the first event whose
    parameters are copied. Other settings are those of `Limits`: vanish, explode, dead, patience, early and watch.

    `watch` holds the kinds of events to look for, by default nonfinite, vanished, exploded, stuck, dead, overshot
    (steps that are too long) and unmoved (a term of the loss that moves no parameter); for explosions only, pass
    `watch="exploded"`. A training whose gradient fades while its loss comes down has converged, which is an event only
    if "converged" is watched for.

    >>> flight = Flight()
    >>> for step in range(40):
    ...     events = flight.step(1.0, {"w": [1.0, 2.0]}, {"w": [10.0 ** (step - 30), 0.5]})
    >>> print(flight.first("exploded"))
    step 33: the gradient of w explodes: 707.1, 2000 times its early median 0.3536
    """

    def __init__(
        self,
        capacity: int = 2000,
        *,
        groups: Grouping = 1,
        on_event: Callable[[Event], object] | str | None = None,
        keep: int = 0,
        **limits: Any,
    ) -> None:
        if not callable(groups):
            check_count("groups, unless it is a function,", groups, 1)
        if not (on_event is None or on_event == "raise" or callable(on_event)):
            raise InputError(f"on_event must be a function of the event, or 'raise'; got {short_repr(on_event)}")
        self.capacity = check_count("capacity", capacity, 2)
        self.keep = check_count("keep", keep, 0)
        self._on_event = on_event
        self._judge = StepJudge(_make_limits(limits))
        self._gauge = StepGauge(groups, measures_slopes="overshot" in self._judge.limits.watch)
        self._history = StepHistory(capacity, training_steps.FIRST_GROUP_COLUMN)
        self._events: list[Event] = []
        self._kept: deque[Snapshot] = deque(maxlen=keep + 1)
        self._is_loaded = False

    @property
    def limits(self) -> Limits:
        """The thresholds at which something counts as wrong."""
        return self._judge.limits

    @property
    def steps(self) -> int:
        """Number of recorded steps."""
        return self._history.total

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups, in the order of the container."""
        return () if self._gauge.structure is None else tuple(self._gauge.structure.groups)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events, in the order of the steps at which they began; each is listed once."""
        return tuple(sorted(self._events, key=lambda event: event.step))

    @property
    def kept(self) -> tuple[Snapshot, ...]:
        """Copies of the step at which the first event began and of the `keep` steps before it, oldest first.

        Before the first event, copies of the latest steps.
        """
        return tuple(self._kept)

    def first(self, kind: str | None = None, group: str | None = None) -> Event | None:
        """Return the first event, optionally of a kind and a group; None if there is none."""
        wanted_kind = None if kind is None else check_kind(kind)
        if group is not None and group not in self.groups:
            raise UnknownNameError(
                f"the flight has no group {short_repr(group)}; it has {join_first_names(self.groups) or 'none'}"
            )
        return next((e for e in self.events if wanted_kind in (None, e.kind) and group in (None, e.group)), None)

    def step(
        self, loss: object, params: object = None, grads: object = None, *, inputs: object = None
    ) -> tuple[Event, ...]:
        """Record one step, before the parameters are updated; returns the events that it confirmed.

        `params` and `grads` are containers of numbers and arrays; a gradient that is None counts as zeros. If `grads`
        is omitted, `.grad` of `wg.Value` parameters is read. `inputs` is copied into the snapshots of `keep`.
        """
        if self._is_loaded:
            raise InputError("this flight was read from a file and cannot go on; record a new one with wg.record()")
        number = _loss_number(loss)
        seen = self._gauge.measure_step(params, grads)
        if not self.steps:
            self._history = StepHistory(
                self.capacity, training_steps.FIRST_GROUP_COLUMN + len(GROUP_METRICS) * len(seen)
            )
        row = [number, not math.isfinite(number), *(entry for group in seen.values() for entry in group.to_row())]
        with np.errstate(all="ignore"):
            self._history.add_row(np.array(row, np.float64))
        # While an event may be developing, the copies of the steps before it are not overwritten.
        if self.keep and not self._events and not self._judge.is_suspicious:
            self._kept.append(copy_step(self.steps - 1, params, inputs))
        fresh = self._judge.judge_step(self.steps - 1, number, seen, self._gauge.slopes)
        if self.steps == 1 and "unmoved" in self.limits.watch:
            fresh += self._find_unmoved_terms(loss)
        self._events += fresh
        self._announce_events(fresh)
        return tuple(fresh)

    def _find_unmoved_terms(self, loss: object) -> Iterator[Event]:
        """Yield an event for each term of the first loss that moves no parameter, if the loss was recorded."""
        run = run_value(loss) if isinstance(loss, Value) else None
        for finding in () if run is None else describe_unmoved_terms(RunIndex(run)):
            yield Event("unmoved", "loss", "", 0, 0, finding.number, _loss_number(loss), finding.sentence)

    def _announce_events(self, fresh: list[Event]) -> None:
        for event in fresh:
            if self._on_event == "raise":
                raise FlightError(event)
            if callable(self._on_event):
                self._on_event(event)

    def __len__(self) -> int:
        return len(self._history)

    def __bool__(self) -> bool:
        # A recorder without steps has length 0 but is still true.
        return True

    def __iter__(self) -> Iterator[Record]:
        return (self._make_record(k) for k in range(len(self)))

    def __getitem__(self, step: int) -> Record:
        """Return the record that covers a step; a negative step counts from the end."""
        if isinstance(step, bool) or not isinstance(step, int | np.integer):
            raise IndexingError(f"a step must be an integer; got {short_repr(step)}")
        at = int(step) + (self.steps if step < 0 else 0)
        if not 0 <= at < self.steps:
            raise IndexingError(f"{count_with_noun(self.steps, 'step')} recorded, counted from 0; got {step}")
        return self._make_record(self._history.record_at(at))

    def _make_record(self, k: int) -> Record:
        history = self._history
        starts = self._history.record_starts()
        groups = {name: _group_record(history, k, g) for g, name in enumerate(self.groups)}
        lost = round(history.sum_of(k, training_steps.LOST_COLUMN))
        return Record(
            int(starts[k]), int(starts[k + 1]) - 1, history.band_of(k, training_steps.LOSS_COLUMN), lost, groups
        )

    def curve(self, metric: str = "loss", group: str = "", *, most: int = 300) -> CurveBand:
        """Return the loss, or a metric of a group, over at most `most` stretches of steps.

        >>> flight = Flight()
        >>> for loss in (3.0, 2.0):
        ...     events = flight.step(loss, {"w": 1.0}, {"w": 0.5})
        >>> flight.curve().mean, flight.curve("gradient", "w").steps
        ([3.0, 2.0], [0.0, 1.0])
        """
        column = (
            training_steps.LOSS_COLUMN
            if metric == "loss"
            else training_steps.metric_column(self.groups.index(group), metric)
        )
        return CurveBand(*(part.tolist() for part in self._history.merged_curve(column, most)))

    def nonfinite_stretches(self) -> list[tuple[float, float]]:
        """Return the stretches of steps, first and last, with a loss, gradient or parameter that is not finite."""
        columns = [training_steps.LOST_COLUMN]
        for group in range(len(self.groups)):
            columns += [training_steps.metric_column(group, metric) for metric in ("nonfinite", "broken")]
        return training_steps.spoilt_stretches(self._history, columns) if self.steps else []

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the records and events into a file, which `wiregrad explore FILE` opens; snapshots are not written."""
        write_flight(Path(path), self._history, self.groups, self.events)

    def lines(self) -> Iterator[str]:
        """Return sparklines of loss and gradients, and every event."""
        return (
            training_steps.flight_lines(self._history, self.groups, self.events)
            if self.steps
            else iter(["flight of 0 steps"])
        )

    def to_svg(self, *, theme: str = "auto") -> str:
        """Draw loss and gradients over the steps, with a mark for each event; `theme` is light, dark, print or auto."""
        return training_steps.draw_flight(self._history, self.groups, self.events, theme)

    def _repr_svg_(self) -> str:
        return self.to_svg()


def load_flight(path: str | os.PathLike[str]) -> Flight:
    """Return the flight that `Flight.save` wrote into a file; it can be looked at, but takes no more steps."""
    records = read_flight(Path(path))
    flight = Flight(max(2, len(records.history)))
    flight._history = records.history
    flight._events = list(records.events)
    flight._gauge.structure = StepStructure({}, dict.fromkeys(records.groups, ()))
    flight._is_loaded = True
    return flight


def _make_limits(settings: dict[str, Any]) -> Limits:
    unknown = [name for name in settings if name not in Limits.__dataclass_fields__]
    if unknown:
        raise InputError(f"a flight has no setting {unknown[0]}; it has {', '.join(Limits.__dataclass_fields__)}")
    return Limits(**settings)


def run_value(loss: Value) -> RunRecord | None:
    """Return the run of a loss that was recorded value by value; None if its recording is gone."""
    try:
        circuit, inputs = circuit_of_value(loss)
        return interpreter.run_all_outputs(circuit, inputs)
    except WiregradError:
        return None


def _loss_number(loss: object) -> float:
    data = loss.data if isinstance(loss, Value) else loss
    number = as_float(data.reshape(-1)[0] if isinstance(data, np.ndarray) and data.size == 1 else data)
    if number is None:
        raise InputError(f"the loss of a step must be one real number; got {type(loss).__name__} {short_repr(loss)}")
    return float(number)


def copy_step(step: int, params: object, inputs: object) -> Snapshot:
    """Return copies of the parameters and inputs of a step.

    >>> copy_step(7, {"w": np.ones(2)}, None).params
    {'w': array([1., 1.])}
    """
    return Snapshot(step, tree_map(_copy_leaf, params), tree_map(_copy_leaf, inputs))


def _copy_leaf(leaf: object) -> object:
    if isinstance(leaf, Value):
        return np.array(leaf.data)[()]
    return leaf.copy() if isinstance(leaf, np.ndarray) else leaf


def _group_record(history: StepHistory, k: int, group: int) -> GroupRecord:
    fields: dict[str, Any] = {}
    for metric in GROUP_METRICS:
        at = training_steps.metric_column(group, metric)
        fields[metric] = round(history.sum_of(k, at)) if metric in ("nonfinite", "broken") else history.band_of(k, at)
    return GroupRecord(**fields)


FORMAT = "wiregrad flight"
VERSION = 1
MAX_FLIGHT_BYTES = 200_000_000
"""Maximum size of a flight file."""


@dataclass(frozen=True)
class FlightRecords:
    """What a file holds of a flight."""

    history: StepHistory
    groups: tuple[str, ...]
    events: tuple[Event, ...]


def write_flight(path: Path, history: StepHistory, groups: Sequence[str], events: Sequence[Event]) -> None:
    """Write a flight into a file; an existing file is replaced at once or not at all."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "steps": history.total,
        "stride": history.stride,
        "groups": list(groups),
        "events": [_encode_event(event) for event in events],
        "columns": {name: b64encode(array.tobytes()).decode() for name, array in history.export_arrays().items()},
    }
    replace_file(path, [memoryview(json.dumps(document, allow_nan=False).encode())])


def is_flight(data: bytes) -> bool:
    """Return whether the text of a file begins like a flight.

    >>> is_flight(b'{"format": "wiregrad flight", ')
    True
    """
    return data[:200].replace(b" ", b"").startswith(b'{"format":"wiregradflight"')


def read_flight(path: Path) -> FlightRecords:
    """Read a flight from a file."""
    document = read_strict_json(read_file_bytes(path, MAX_FLIGHT_BYTES))
    try:
        return _decode_flight(document)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path.name} is not a whole flight: {error}") from None


def _decode_flight(document: JsonValue) -> FlightRecords:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(f'wanted a flight, written by flight.save(); "format" is not "{FORMAT}"')
    if document.get("version") != VERSION:
        raise FileFormatError(f"this wiregrad reads flights of version {VERSION}; got {document.get('version')}")
    groups = _check_names(document["groups"])
    columns = document["columns"]
    if not isinstance(columns, dict):
        raise FileFormatError('"columns" must be an object')
    width = FIRST_GROUP_COLUMN + len(GROUP_METRICS) * len(groups)
    arrays = {name: _decode_array(name, columns[name]) for name in StepHistory.EXPORTED}
    history = StepHistory.from_arrays(width, _whole(document["steps"]), _whole(document["stride"]), arrays)
    events = document["events"]
    if not isinstance(events, list):
        raise FileFormatError('"events" must be a list')
    return FlightRecords(history, groups, tuple(_decode_event(event) for event in events))


def _check_names(names: JsonValue) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileFormatError('"groups" must be a list of names')
    return tuple(str(name) for name in names)


def _whole(value: JsonValue) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FileFormatError("the numbers of steps must be whole")
    return value


def _decode_array(name: str, text: JsonValue) -> NDArray[Any]:
    if not isinstance(text, str):
        raise FileFormatError(f'"{name}" must be base64 text')
    data = b64decode(text, validate=True)
    return np.frombuffer(data, np.int64 if name == "steps" else np.float64).copy()


def _encode_event(event: Event) -> dict[str, Any]:
    """Return an event as JSON; numbers that JSON cannot write are strings."""
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(event).items()
    }


def _decode_event(row: JsonValue) -> Event:
    if not isinstance(row, dict) or set(row) != {field.name for field in fields(Event)}:
        raise FileFormatError("an event of the flight has other fields than an event")
    texts = {name: str(row[name]) for name in ("kind", "what", "group", "sentence")}
    steps = {name: _whole(row[name]) for name in ("step", "found")}
    numbers = {name: _number(row[name]) for name in ("number", "reference")}
    return Event(
        texts["kind"],
        texts["what"],
        texts["group"],
        steps["step"],
        steps["found"],
        numbers["number"],
        numbers["reference"],
        texts["sentence"],
    )


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise FileFormatError("the numbers of an event must be numbers")
    return float(value)
