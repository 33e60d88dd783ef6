"""Flights in files: the records and events of a training, so that it can be looked at after the program has ended.

The file is JSON with the numbers of the records as base64 text; it holds neither parameters nor inputs. Invariant: a
file that does not describe a whole flight is refused with a `FileFormatError`.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import JsonValue
from wiregrad.errors import FileFormatError
from wiregrad.files import read_file_bytes, replace_file
from wiregrad.inspect.flight_recorder.events import FIRST_GROUP_COLUMN, Event
from wiregrad.inspect.flight_recorder.measurements import GROUP_METRICS, StepHistory
from wiregrad.ir.strict_json import read_strict_json

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
