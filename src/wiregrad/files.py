"""Circuits as JSON, and circuit files on disk: saved, loaded, and replaced safely.

The JSON form is one document with a version and the nodes in topological order:

    {"format": "wiregrad-circuit", "version": 1, "name": "f", "nodes": [
      {"op": "input", "names": ["a"]},
      {"op": "input", "names": ["b"]},
      {"op": "add", "inputs": [0, 1], "names": ["f"], "place": ["formula", 1, 1]}
    ], "outputs": [{"name": "f", "node": 2}]}

`docs/circuit.schema.json` describes the fields. A document is untrusted: an unknown field, a key that appears twice, a
node that reads a later one or states a wrong type is refused, and the verifier checks the rest.

A circuit file is one safetensors file with the arrays as tensors and the JSON form of the circuit beside them, in which
`tensor` takes the place of a constant's `value`. Other rooms may call `save`, `load` and `replace_file`, the JSON form
(`write_json`, `parse_json`), and `read_file_bytes`, `encode_circuit_file` and `decode_circuit_file`. Checkpoints of
trainings have the same format (`encode_tensors`, `decode_tensors`).

The format is eight bytes with the length of the header, a JSON header with the position of each tensor, and the
tensors. It is small enough to be read and written here, with the checks that a file from an unknown source needs:
nothing in the file is executed, and no length in it is trusted. Other tools can open the file and see the tensors; the
tensor `circuit` is the document, as UTF-8 bytes. A file is written completely or not at all: under a temporary
name beside its target, and then renamed. While a process writes, it holds a lock on the file, which the system releases
when the process ends, however it ends. So a file with a temporary name that can be locked has no writer any more: the
next write into the folder removes it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import BOOL, FLOAT, MAX_AXES, JsonValue, WireType, WireValue, numpy_can_hold
from wiregrad.errors import (
    CircuitError,
    FileAccessError,
    FileFormatError,
    NameSyntaxError,
    UnknownOpError,
    WiregradError,
    short_repr,
    suggest_name,
)
from wiregrad.ir import CircuitGraph
from wiregrad.ir.builder import CircuitRecording
from wiregrad.ir.circuit import bind_untrusted, check_node_count, find_bodies, verify
from wiregrad.ir.columns import (
    DERIVE_MODE,
    Certificate,
    Place,
    Row,
    check_mode,
    check_name,
    derive_usual_modes,
    parse_mode,
    type_of_constant,
    write_mode,
)
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Op
from wiregrad.ir.text_form import (
    MAX_TEXT_BYTES,
    as_pairs,
    check_storable,
    from_pairs,
    is_json,
    part_dtype,
    read_elements,
    read_outcome,
    read_strict_json,
    read_type,
    write_elements,
    write_outcome,
)

FORMAT_NAME = "wiregrad-circuit"
FORMAT_VERSION = 1
MAX_STRING_LENGTH = 100_000
"""Maximum length of a string in a document, such as the path of a file or a group."""

_JSON_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)

NamedTensors = dict[str, NDArray[Any]]
JsonFields = dict[str, JsonValue]
WrittenFields = dict[str, object]


def write_json(circuit: CircuitGraph, tensors: NamedTensors | None = None) -> str:
    """Return the JSON form of a circuit, one line per node; if `tensors` is given, arrays are put there instead.

    >>> import wiregrad as wg
    >>> print(write_json(wg.circuit("y = exp(x)")))
    {
    "format": "wiregrad-circuit",
    "version": 1,
    "name": "y",
    "nodes": [
    {"op": "input", "names": ["x"]},
    {"op": "exp", "inputs": [0], "names": ["y"], "place": ["formula", 1, 5]}
    ],
    "outputs": [
    {"name": "y", "node": 1}
    ]
    }
    <BLANKLINE>
    """
    parts = [
        f'"format": {_encode_json(FORMAT_NAME)}',
        f'"version": {FORMAT_VERSION}',
        f'"name": {_encode_json(circuit.name)}',
        f'"nodes": {_write_lines(_describe_nodes(circuit, tensors, ""))}',
        f'"outputs": {_write_lines(_describe_outputs(circuit))}',
    ]
    if circuit.certificates:
        parts.append(f'"steered": {_write_lines(map(_describe_certificate, circuit.certificates))}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _write_lines(items: Iterator[WrittenFields]) -> str:
    return "[\n" + ",\n".join(map(_encode_json, items)) + "\n]"


def _encode_json(value: object) -> str:
    text = _JSON_ENCODER.encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FileFormatError(
                f"{short_repr(value)} cannot be stored in a file: it has an unpaired surrogate"
            ) from None
    if not text.isprintable():
        # Escaped, because a terminal would execute some of these characters and reverse the line at others.
        text = "".join([letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text])
    return text


def _describe_outputs(circuit: CircuitGraph) -> Iterator[WrittenFields]:
    for label, node in zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True):
        yield {"name": label, "node": node}


def _describe_nodes(circuit: CircuitGraph, tensors: NamedTensors | None, within: str) -> Iterator[WrittenFields]:
    """Return the fields of each node; `within` begins the names of the tensors of a loop's body."""
    usual = derive_usual_modes(circuit.columns.codes, circuit.columns.starts, circuit.columns.sources)
    names = circuit.columns.names.group_by_node()
    constants = circuit.constants()
    for row in circuit.rows():
        fields: WrittenFields = {"op": row.op.name}
        if row.sources:
            fields["inputs"] = row.sources
        if row.node in names:
            fields["names"] = names[row.node]
        kind = circuit.type_of(row.node)
        check_storable(kind)
        if kind not in (FLOAT, BOOL) or (row.op is not CONSTANT and kind == BOOL):
            fields["type"] = str(kind)
        if row.op is CONSTANT:
            fields |= _describe_constant(f"{within}constant.{row.node}", constants[row.node], tensors)
        fields |= _describe_op(row, 0 if usual is None else int(usual[row.node]))
        bodies = find_bodies(row.op)
        if bodies:
            names_within = [f"{within}body.{row.node}.{k}." for k in range(len(bodies))]
            fields["bodies"] = [_describe_body(*pair, tensors) for pair in zip(bodies, names_within, strict=True)]
        yield fields | _describe_origin(circuit, row.node)


def _describe_body(circuit: CircuitGraph, within: str, tensors: NamedTensors | None) -> WrittenFields:
    """Return a circuit that a loop or a branch runs."""
    nodes = list(_describe_nodes(circuit, tensors, within))
    return {"name": circuit.name, "nodes": nodes, "outputs": list(_describe_outputs(circuit))}


def _describe_origin(circuit: CircuitGraph, node: int) -> WrittenFields:
    """Return the place and the group of a node, if it has them."""
    fields: WrittenFields = {}
    place = circuit.columns.places.label_of(node)
    if place is not None:
        fields["place"] = _write_place(place)
    group = circuit.columns.groups.label_of(node)
    if group:
        fields["group"] = group
    return fields


def _describe_op(row: Row, usual: int) -> WrittenFields:
    """Return the settings of a node, and its kink mode if it is not the usual one."""
    settings = row.op.stored_settings()
    if settings is None:
        raise FileFormatError(
            f"a node applies {row.op.title}, a user's Python function, which "
            "cannot be stored in a file; write it in wiregrad's ops, or register an op for it"
        )
    fields: WrittenFields = {}
    if settings:
        fields["settings"] = {name: _write_setting(value) for name, value in settings.items()}
    if row.mode != usual:
        fields["kink"] = write_mode(row.mode, row.op.inputs)
    return fields


def _write_setting(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_write_setting(item) for item in value]
    if isinstance(value, float | np.floating) and not np.isfinite(value):
        return {"number": write_elements(np.float64(value))}
    return value.item() if isinstance(value, np.generic) else value


def _describe_constant(name: str, value: WireValue, tensors: NamedTensors | None) -> WrittenFields:
    check_storable(type_of_constant(value))
    if tensors is None or not np.ndim(value):
        return {"value": write_elements(value)}
    tensors[name] = np.asarray(value)
    return {"tensor": name}


def _write_place(place: Place) -> list[JsonValue]:
    return [place.file, place.line, place.column] if place.column else [place.file, place.line]


def _describe_certificate(certificate: Certificate) -> WrittenFields:
    node, outcome, place = certificate
    kind, value = write_outcome(outcome)
    fields: WrittenFields = {"node": node, "type": kind, "value": value}
    return fields if place is None else fields | {"place": _write_place(place)}


def parse_json(text: str | bytes, tensors: Mapping[str, NDArray[Any]] | None = None) -> CircuitGraph:
    """Read a circuit from its JSON form; `tensors` are the arrays that a file holds beside the document.

    >>> import wiregrad as wg
    >>> parse_json(write_json(wg.circuit("y = exp(x)"))) == wg.circuit("y = exp(x)")
    True
    """
    document = read_strict_json(text)
    if type(document) is not dict or document.get("format") != FORMAT_NAME:
        got = document.get("format") if type(document) is dict else document
        raise FileFormatError(f'not a circuit: wanted an object with "format": "{FORMAT_NAME}"; got {short_repr(got)}')
    version = document.get("version")
    if type(version) is not int or version not in VERSION_READERS:
        raise unknown_version_error(version)
    return VERSION_READERS[version](document, tensors or {})


def unknown_version_error(version: object) -> FileFormatError:
    """Return the error for a version of the format that cannot be read.

    >>> print(unknown_version_error(2))
    version 2 of the circuit format is not supported (supported: 1); a newer wiregrad wrote it: upgrade to read it
    """
    known = ", ".join(map(str, VERSION_READERS))
    newer = type(version) is int and version > FORMAT_VERSION
    hint = "a newer wiregrad wrote it: upgrade to read it" if newer else f"wanted version {FORMAT_VERSION}"
    return FileFormatError(
        f"version {short_repr(version)} of the circuit format is not supported (supported: {known}); {hint}"
    )


def _read_version_1(document: JsonFields, tensors: Mapping[str, NDArray[Any]]) -> CircuitGraph:
    """Read version 1."""
    _check_fields("the document", document, ("format", "version", "name", "nodes", "outputs"), ("steered",))
    unused = set(tensors)
    circuit = _read_circuit(document, tensors, unused)
    if unused:
        raise FileFormatError(f"the tensor {short_repr(min(unused))} belongs to no node")
    return circuit


def _read_circuit(document: JsonFields, tensors: Mapping[str, NDArray[Any]], unused: set[str]) -> CircuitGraph:
    """Read a circuit or a body; the tensors that it takes are removed from `unused`."""
    nodes = _check_list("nodes", document.get("nodes", []))
    outputs = _check_list("outputs", document.get("outputs", []))
    steered = _check_list("steered", document.get("steered", []))
    check_node_count(len(nodes))
    reader = _DocumentReader(tensors, unused)
    for index, node in enumerate(nodes):
        reader.read_node(index, node)
    recording = reader.recording
    roots = dict(_read_output(k, item, len(nodes)) for k, item in enumerate(outputs))
    if len(roots) < len(outputs):
        raise FileFormatError("two outputs have the same name")
    recording.certificates = [_read_steered(k, item, len(nodes)) for k, item in enumerate(steered)]
    if not nodes or not roots:
        raise FileFormatError("a circuit needs at least one node and one output")
    try:
        return verify(recording.freeze(roots, _check_output_name("the document", document["name"])))
    except WiregradError as error:
        raise FileFormatError(f"the document is not a circuit: {error}") from None


VERSION_READERS: dict[int, Callable[[JsonFields, Mapping[str, NDArray[Any]]], CircuitGraph]] = {1: _read_version_1}
"""The function that reads each version; no version that was ever written is removed."""

_COMMON_FIELDS = ("op", "names", "type", "place", "group")
_LEAF_FIELDS: dict[str, tuple[str, ...]] = {
    INPUT.name: _COMMON_FIELDS,
    CONSTANT.name: (*_COMMON_FIELDS, "value", "tensor"),
}
_OP_FIELDS = (*_COMMON_FIELDS, "inputs", "settings", "kink", "bodies")


class _DocumentReader:
    """Adds the nodes of a document to a recording, one by one."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], unused: set[str]) -> None:
        self.recording = CircuitRecording()
        self.tensors = tensors
        self._unused = unused
        self._places: dict[Place, Place] = {}

    def read_node(self, index: int, node: JsonValue) -> None:
        """Read a node; errors name its index and op."""
        try:
            self._append_node(index, node)
        except WiregradError as error:
            name = node.get("op") if type(node) is dict else None
            op = f" ({name})" if type(name) is str and name in TABLE else ""
            raise FileFormatError(f"node {index}{op}: {error}") from None

    def _append_node(self, index: int, node: JsonValue) -> None:
        op = _read_op(node)
        fields = _check_fields("it", node, ("op",), _LEAF_FIELDS.get(op.name, _OP_FIELDS))
        group = _check_string("group", fields.get("group", ""))
        self.recording.move_to(self._read_shared_place(fields), group)
        stated = None if "type" not in fields else read_type(fields["type"])
        names = [_check_string("a name", name) for name in _check_list("names", fields.get("names", []))]
        if op is INPUT:
            if not names:
                raise FileFormatError("every input needs a name")
            self.recording.append_input(names.pop(0), stated or FLOAT)
        elif op is CONSTANT:
            self.recording.append_constant(self._read_constant(fields, stated))
        else:
            self._append_op(index, op, fields, stated)
        for name in names:
            self.recording.add_name(index, name)

    def _append_op(self, index: int, op: Op, fields: JsonFields, stated: WireType | None) -> None:
        recording = self.recording
        table = recording.type_table
        sources = [_check_source(source, index) for source in _check_list("inputs", fields.get("inputs", []))]
        op.complete(sources)
        if len(sources) < len(op.inputs):
            raise FileFormatError(f"{op.name} takes {len(op.inputs)} wires; got {len(sources)}")
        bodies = [self._read_body(item) for item in _check_list("bodies", fields.get("bodies", []))]
        op = bind_untrusted(op, _read_settings(fields.get("settings", {})), bodies)
        mode = _read_kink(op, fields["kink"]) if "kink" in fields else DERIVE_MODE
        kind = table.type_at(table.infer_number(op, tuple([recording.type_number_of(source) for source in sources])))
        if stated is not None and stated != kind:
            raise FileFormatError(f"its stated type is {stated}, but its op gives {kind}")
        recording.append_op(op, sources, kind, mode)

    def _read_body(self, item: JsonValue) -> CircuitGraph:
        # The depth of the recursion was checked when the JSON was read.
        body = _check_fields("a body", item, ("name", "nodes", "outputs"), ())
        return _read_circuit(body, self.tensors, self._unused)

    def _read_constant(self, fields: JsonFields, stated: WireType | None) -> WireValue:
        if ("value" in fields) == ("tensor" in fields):
            raise FileFormatError('a constant has either a "value" or a "tensor"')
        if "tensor" in fields:
            return self._take_tensor(_check_string("tensor", fields["tensor"]), stated)
        value = fields["value"]
        if type(value) is float and stated is None:
            return np.float64(value)
        usual = BOOL if type(value) is bool else FLOAT
        return read_elements(stated or usual, value)

    def _take_tensor(self, name: str, stated: WireType | None) -> WireValue:
        if name not in self._unused:
            state = "belongs to another node already" if name in self.tensors else "is not in the file"
            raise FileFormatError(f"the tensor {short_repr(name)} {state}")
        self._unused.remove(name)
        value = self.tensors[name]
        if stated is not None and stated.dtype.kind == "c":
            value = _join_pairs(name, value, part_dtype(stated.dtype))
        if stated != type_of_constant(value):
            raise FileFormatError(f"its stated type is {stated}, but the tensor {name} is {type_of_constant(value)}")
        return value

    def _read_shared_place(self, fields: JsonFields) -> Place | None:
        if "place" not in fields:
            return None
        place = _read_place(fields["place"])
        # All nodes of a line share one object: a large circuit has many nodes but few lines.
        return self._places.setdefault(place, place)


def _join_pairs(name: str, value: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    if value.dtype != dtype or value.shape[-1:] != (2,):
        raise FileFormatError(f"the tensor {name} must hold complex numbers as pairs of {dtype}")
    return from_pairs(value)


def _read_op(node: JsonValue) -> Op:
    if type(node) is not dict:
        raise FileFormatError(f"wanted an object; got {short_repr(node)}")
    name = node.get("op")
    if type(name) is not str:
        raise FileFormatError(f'wanted "op": the name of an op; got {short_repr(name)}')
    if name not in TABLE or TABLE[name].name != name:
        near = f"; did you mean {TABLE[name].name}?" if name in TABLE else suggest_name(name, TABLE.callable_names())
        raise UnknownOpError(f"there is no op called {short_repr(name)}{near}")
    return TABLE[name]


def _check_fields(what: str, item: JsonValue, needed: tuple[str, ...], allowed: tuple[str, ...]) -> JsonFields:
    """Return the fields of an object; raise if a needed one is missing, or if one is not allowed."""
    if type(item) is not dict:
        raise FileFormatError(f"{what} must be an object; got {short_repr(item)}")
    for key in item:
        if key not in needed and key not in allowed:
            near = suggest_name(key, (*needed, *allowed))
            raise FileFormatError(f"{what} has an unknown field {short_repr(key)}{near}")
    for key in needed:
        if key not in item:
            raise FileFormatError(f"{what} has no field {key!r}")
    return item


def _check_list(key: str, value: JsonValue) -> list[JsonValue]:
    if type(value) is not list:
        raise FileFormatError(f"{key} must be a list; got {short_repr(value)}")
    return value


def _check_string(what: str, value: JsonValue) -> str:
    if type(value) is not str or len(value) > MAX_STRING_LENGTH:
        raise FileFormatError(
            f"{what} must be a string of at most {MAX_STRING_LENGTH:,} characters; got {short_repr(value)}"
        )
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise FileFormatError(f"{what} has an unpaired surrogate: {short_repr(value)}")
    return value


def _check_output_name(what: str, value: JsonValue) -> str:
    try:
        return check_name(value)
    except NameSyntaxError as error:
        raise FileFormatError(f"{what}: {error}") from None


def _show_index(index: JsonValue) -> str:
    return f"node {index}" if type(index) is int else short_repr(index)


def _read_kink(op: Op, text: JsonValue) -> int:
    mode = parse_mode(text, op.inputs) if type(text) is str else None
    if mode is None or not op.kinks:
        raise FileFormatError(f"wanted 'CONVENTION:INPUTS' as the kink of an op that has kinks; got {short_repr(text)}")
    check_mode(mode, op)
    return mode


def _read_settings(settings: JsonValue) -> JsonFields:
    if type(settings) is not dict:
        raise FileFormatError(f"settings must be an object; got {short_repr(settings)}")
    return {name: _read_setting(value) for name, value in settings.items()}


def _read_setting(value: JsonValue) -> JsonValue:
    # The depth of the recursion was checked when the JSON was read.
    if type(value) is list:
        return [_read_setting(item) for item in value]
    if type(value) is dict and set(value) == {"number"}:
        return float(read_elements(FLOAT, value["number"]))
    return value


def _read_place(value: JsonValue) -> Place:
    items: list[Any] = value if type(value) is list else []
    place = Place(*items) if len(items) in (2, 3) else None
    if place is None or not place.is_valid():
        raise FileFormatError(f"a place is [file, line, column], counted from 1; got {short_repr(value)}")
    return place._replace(file=_check_string("the file of a place", place.file))


def _check_source(source: JsonValue, reader: int) -> int:
    if type(source) is not int or not 0 <= source < reader:
        raise FileFormatError(f"it reads {_show_index(source)}: a node reads only nodes that come before it")
    return source


def _read_node(what: str, value: JsonValue, size: int) -> int:
    if type(value) is not int or not 0 <= value < size:
        raise FileFormatError(f"{what} is {_show_index(value)}, but there are {size:,} nodes, counted from 0")
    return value


def _read_output(k: int, item: JsonValue, size: int) -> tuple[str, int]:
    what = f"output {k}"
    fields = _check_fields(what, item, ("name", "node"), ())
    return _check_output_name(what, fields["name"]), _read_node(what, fields["node"], size)


def _read_steered(k: int, item: JsonValue, size: int) -> Certificate:
    what = f"entry {k} of steered"
    fields = _check_fields(what, item, ("node", "type", "value"), ("place",))
    place = _read_place(fields["place"]) if "place" in fields else None
    try:
        outcome = read_outcome(fields["type"], fields["value"])
    except FileFormatError as error:
        raise FileFormatError(f"{what}: {error}") from None
    return Certificate(_read_node(what, fields["node"], size), outcome, place)


__all__ = ["load", "load_arrays", "parse_json", "replace_file", "save", "save_arrays", "write_json"]

MAX_FILE_BYTES = 8 * 2**30
"""Maximum size of a file in bytes."""
MAX_HEADER_BYTES = 16 * 2**20
"""Maximum size of its header in bytes."""
DOCUMENT_TENSOR = "circuit"
"""The tensor that holds the JSON document of the circuit."""
METADATA_KEY = "__metadata__"
"""The key of the header under which safetensors keeps metadata."""
_DTYPE_CODES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U8": "|u1", "BOOL": "|b1"}
_DTYPE_NAMES = {np.dtype(code): name for name, code in _DTYPE_CODES.items()}
ARRAY_CODES = _DTYPE_CODES | {"I32": "<i4", "I16": "<i2", "I8": "|i1", "U64": "<u8", "U32": "<u4", "U16": "<u2"}
"""The dtypes of arrays in a file that is no circuit, by their names in safetensors."""
_ARRAY_NAMES = {np.dtype(code): name for name, code in ARRAY_CODES.items()}

FilePath = str | os.PathLike[str]


def save(circuit: CircuitGraph, path: FilePath) -> None:
    """Write a circuit to a file, completely or not at all.

    >>> import tempfile, wiregrad as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(wg.circuit("e = a + b; f = e * c"), f"{folder}/f.wg")
    ...     print(load(f"{folder}/f.wg").inputs)
    ('a', 'b', 'c')
    """
    replace_file(path, encode_circuit_file(circuit))


def load(path: FilePath) -> CircuitGraph:
    """Read a circuit from a file that `save` wrote; files from unknown sources are safe to read.

    >>> load("none.wg")
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileAccessError: cannot read none.wg: there is no such file
    """
    checked = _check_path(path)
    data = read_file_bytes(checked)
    try:
        return decode_circuit_file(data)
    except CircuitError as error:
        raise FileFormatError(f"{checked} cannot be read as a circuit: {error}") from None


def save_arrays(path: FilePath, arrays: Mapping[str, Any]) -> None:
    """Write a dict of arrays to a safetensors file, which replaces an older one at once or not at all.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/arrays.safetensors"
    >>> save_arrays(path, {"weight": np.array([1.0, 2.0])})
    >>> load_arrays(path)
    {'weight': array([1., 2.])}
    """
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    odd = [name for name, array in plain.items() if array.dtype not in _ARRAY_NAMES or name == METADATA_KEY]
    if odd:
        raise FileFormatError(
            f"a safetensors file cannot hold {short_repr(odd[0])}, an array of {plain[odd[0]].dtype}: the name is "
            "taken, or the format has no such dtype"
        )
    replace_file(path, encode_tensors(plain, {}))


def load_arrays(path: FilePath) -> NamedTensors:
    """Return the arrays of a safetensors file by name.

    >>> load_arrays("/dev/null")
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileFormatError: /dev/null is not a regular file but a device or a pipe
    """
    path = _check_path(path)
    data = read_file_bytes(path)
    try:
        return decode_tensors(data, lambda metadata: None, ARRAY_CODES)
    except FileFormatError as error:
        raise FileFormatError(f"{path} cannot be read as a safetensors file: {error}") from None


def encode_circuit_file(circuit: CircuitGraph) -> list[memoryview]:
    """Encode a circuit as the bytes of a file, in parts that are written one after another."""
    tensors: NamedTensors = {}
    document = write_json(circuit, tensors).encode()
    if len(document) > MAX_TEXT_BYTES:
        raise FileFormatError(
            f"the circuit takes {len(document):,} bytes as JSON; a file holds at most {MAX_TEXT_BYTES:,}"
        )
    arrays = {name: as_pairs(value) for name, value in tensors.items()}
    arrays[DOCUMENT_TENSOR] = np.frombuffer(document, np.uint8)
    return encode_tensors(arrays, {"format": FORMAT_NAME, "version": str(FORMAT_VERSION)})


def decode_circuit_file(data: bytes) -> CircuitGraph:
    """Decode a circuit from the bytes of a file.

    >>> from wiregrad.ir import parse_text
    >>> circuit = parse_text("input x\\ny = exp x\\noutput y")
    >>> decode_circuit_file(b"".join(encode_circuit_file(circuit))) == circuit
    True
    """
    tensors = decode_tensors(data, _check_metadata)
    document = tensors.pop(DOCUMENT_TENSOR, None)
    if document is None or document.dtype != np.uint8:
        raise FileFormatError(f"it has no tensor {DOCUMENT_TENSOR!r} of bytes; it was not written by wiregrad")
    return parse_json(document.tobytes(), tensors)


def _check_path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise FileAccessError(f"a path is a string or a pathlib.Path; got {short_repr(path)}")
    if "\0" in os.fspath(path):
        raise FileAccessError(f"no file can be called {short_repr(os.fspath(path))}")
    return Path(path)


def encode_tensors(arrays: NamedTensors, metadata: Mapping[str, str]) -> list[memoryview]:
    """Return the parts of a file: length, header, and the tensors, widest elements first so that all are aligned."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {METADATA_KEY: dict(metadata)}
    parts = []
    end = 0
    for name, array in ordered:
        plain = np.ascontiguousarray(array)
        start = end
        end = start + plain.nbytes
        header[name] = {"dtype": _ARRAY_NAMES[plain.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
        parts.append(plain.reshape(-1).view(np.uint8))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise FileFormatError(f"there are {len(arrays):,} arrays, more than the header of a file can list")
    return [memoryview(len(text).to_bytes(8, "little")), memoryview(text), *(part.data for part in parts)]


def has_tensor_dtype(array: NDArray[Any]) -> bool:
    """Return whether a file can hold an array as a tensor of its dtype."""
    return array.dtype in _DTYPE_NAMES


def replace_file(path: FilePath, parts: list[memoryview]) -> None:
    """Replace a file atomically, or create it; no partly written file is ever left."""
    path = _check_path(path)
    with _explain_failure("write", path):
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory")
        if path.exists() and not path.is_file():
            # A device or a pipe is written to, not replaced: the target of /dev/stdout may have no path.
            path.write_bytes(b"".join(parts))
            return
        # Replace the target of a symbolic link, not the link.
        write_atomically(Path(os.path.realpath(path)), parts)


def _open_without_waiting(path: str, flags: int) -> int:
    # A plain open of a pipe without a writer would wait forever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file_bytes(path: Path, most: int = MAX_FILE_BYTES) -> bytes:
    """Read a regular file of at most `most` bytes; refuse devices and pipes without waiting for them.

    >>> read_file_bytes(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileFormatError: /dev/null is not a regular file but a device or a pipe
    """
    with _explain_failure("read", path), open(path, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileFormatError(f"{path} is not a regular file but a device or a pipe")
        if status.st_size > most:
            raise FileFormatError(f"{path} has {status.st_size:,} bytes; the limit is {most:,}")
        return file.read(status.st_size)


@contextmanager
def _explain_failure(verb: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a `FileAccessError` that says what to try."""
    try:
        yield
    except FileFormatError:
        raise
    except (OSError, MemoryError, ValueError) as error:
        _raise_access_error(verb, path, error)


def _raise_access_error(verb: str, path: Path, error: Exception) -> NoReturn:
    hints: dict[type[Exception], str] = {
        FileNotFoundError: "there is no such file" if verb == "read" else "there is no such folder; create it first",
        IsADirectoryError: "it is a folder; give the path of a file",
        NotADirectoryError: "part of the path is a file, not a folder",
        PermissionError: "permission denied",
    }
    reason = hints.get(type(error)) or getattr(error, "strerror", None) or _describe_failure(error)
    failure = FileAccessError(f"cannot {verb} {path}: {reason}")
    failure.errno = getattr(error, "errno", None)
    failure.filename = str(path)
    raise failure from None


def _describe_failure(error: Exception) -> str:
    """Describe an error that has no text of the operating system."""
    return "there is not enough memory" if isinstance(error, MemoryError) else str(error)


def decode_tensors(
    data: bytes, check_metadata: Callable[[JsonValue], None], codes: Mapping[str, str] = _DTYPE_CODES
) -> NamedTensors:
    """Decode the tensors of a safetensors file; raise unless they fill it exactly, or if its metadata is refused."""
    if len(data) < 8:
        raise FileFormatError(f"it has {len(data)} bytes, too few for a safetensors file; it is empty or cut off")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER_BYTES or data[8:9] != b"{":
        hint = "; it looks like JSON: rename it to .json" if is_json(data) else ""
        raise FileFormatError(f"it is not a safetensors file: expected a length and a JSON header at its start{hint}")
    if 8 + length > len(data):
        raise FileFormatError(f"it is cut off: its header has {length:,} bytes, the file only {len(data) - 8:,} more")
    header = read_strict_json(data[8 : 8 + length])
    if type(header) is not dict:
        raise FileFormatError("its header is not a JSON object")
    check_metadata(header.pop(METADATA_KEY, {}))
    entries = {name: _check_entry(name, entry, codes) for name, entry in header.items()}
    body = memoryview(data)[8 + length :]
    _check_coverage(entries, len(body))
    return {name: _decode_tensor(body[start:end], dtype, shape) for name, (dtype, shape, start, end) in entries.items()}


def _check_metadata(metadata: JsonValue) -> None:
    fields = metadata if type(metadata) is dict else {}
    file_format = fields.get("format") if type(metadata) is dict else metadata
    if file_format != FORMAT_NAME:
        raise FileFormatError(
            f"it is a safetensors file, but not of a circuit: its format is {short_repr(file_format)}"
        )
    unknown = [key for key in fields if key not in ("format", "version")]
    version = fields.get("version")
    if unknown or type(version) is not str:
        raise FileFormatError(f"its metadata must have format and version; got {short_repr(metadata, 80)}")
    if version not in map(str, VERSION_READERS):
        raise unknown_version_error(int(version) if re.fullmatch("[0-9]{1,9}", version) else version)


TensorEntry = tuple[np.dtype[Any], tuple[int, ...], int, int]
"""A tensor of the header: dtype, shape, and the first and last offset of its bytes."""


def _check_entry(name: str, entry: JsonValue, codes: Mapping[str, str]) -> TensorEntry:
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(
            f"tensor {short_repr(name)}: expected dtype, shape and data_offsets; got {short_repr(entry, 80)}"
        )
    code = entry["dtype"]
    shape = entry["shape"]
    offsets = entry["data_offsets"]
    if type(code) is not str or code not in codes:
        raise FileFormatError(
            f"tensor {short_repr(name)}: its dtype must be one of {', '.join(codes)}; got {short_repr(code)}"
        )
    if not _are_lengths(shape) or not _are_lengths(offsets) or len(shape) > MAX_AXES or len(offsets) != 2:
        raise FileFormatError(f"tensor {short_repr(name)}: shape and data_offsets must be lists of lengths")
    dtype = np.dtype(codes[code])
    if offsets[1] - offsets[0] != prod(shape) * dtype.itemsize:
        raise FileFormatError(
            f"tensor {short_repr(name)} claims the shape {short_repr(shape)}; "
            f"{offsets[1] - offsets[0]:,} bytes do not fill it"
        )
    if not numpy_can_hold(dtype, tuple(shape)):
        raise FileFormatError(f"tensor {short_repr(name)}: no array has the shape {short_repr(shape)}")
    return dtype, tuple(shape), offsets[0], offsets[1]


def _are_lengths(value: JsonValue) -> TypeGuard[list[int]]:
    return type(value) is list and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _check_coverage(entries: dict[str, TensorEntry], size: int) -> None:
    """Raise unless the tensors follow each other without gaps and fill all data."""
    reached = 0
    for name, (_, _, start, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if start != reached:
            raise FileFormatError(
                f"tensor {short_repr(name)} begins at byte {start:,}; the one before ends at {reached:,}"
            )
        reached = end
    if reached != size:
        state = "cut off" if reached > size else "too long"
        raise FileFormatError(f"it is {state}: its tensors take {reached:,} bytes, and {size:,} follow the header")


def _decode_tensor(data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if dtype.kind == "b" and len(data) and np.frombuffer(data, np.uint8).max() > 1:
        # NumPy would take such a byte for a bool without checking it.
        raise FileFormatError("a tensor of bools has a byte that is neither 0 nor 1")
    # A copy is aligned, and does not keep the bytes of the whole file alive.
    array = np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")).reshape(shape)
    array.setflags(write=False)
    return array


HAS_LOCKS = sys.platform != "win32"
if sys.platform != "win32":
    import fcntl

_TEMPORARY_NAME = re.compile(r"\.wiregrad-[0-9a-f]{16}\.tmp")
_SAFE_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def write_atomically(target: Path, parts: Iterable[memoryview]) -> None:
    """Write a file, or replace one, such that no reader ever sees part of it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), [memoryview(b"all of it")])
    ...     print(os.listdir(folder))
    ['a.txt']
    """
    remove_leftovers(target.parent)
    fresh, descriptor = _create_locked_file(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            fresh.chmod(_find_file_mode(target))
            if HAS_LOCKS:
                # Before the file is closed, because closing it releases the lock.
                fresh.replace(target)
        if not HAS_LOCKS:
            # Windows does not rename a file that is open.
            fresh.replace(target)
        _sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Write a folder to the disk, so that a new name in it survives a loss of power; some systems cannot."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files in a folder whose writers were killed; all other files stay."""
    if not HAS_LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _TEMPORARY_NAME.fullmatch(entry.name)]:
            with suppress(OSError), _lock_if_abandoned(folder / name) as is_abandoned:
                if is_abandoned:
                    (folder / name).unlink()


@contextmanager
def _lock_if_abandoned(path: Path) -> Iterator[bool]:
    """Yield whether a file has no writer any more; inside the block no process can start to write it."""
    descriptor = os.open(path, os.O_RDWR | _SAFE_OPEN_FLAGS)
    try:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        yield is_own and _lock_file(descriptor, path)
    finally:
        os.close(descriptor)


def _create_locked_file(folder: Path) -> tuple[Path, int]:
    """Create a temporary file, locked so that no other process takes it for a leftover."""
    while True:
        path = folder / f".wiregrad-{secrets.token_hex(8)}.tmp"
        # Other users may not read it before it has the mode of the file it replaces.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if _lock_file(descriptor, path):
                return path, descriptor
        except OSError:
            # Some network file systems have no locks; there, no process removes leftovers either.
            return path, descriptor
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        # Another process saw it before it was locked, and removes it: try again.
        os.close(descriptor)


def _lock_file(descriptor: int, path: Path) -> bool:
    """Lock an open file; return False if another process holds it, or if the path no longer leads to this file."""
    if not HAS_LOCKS:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False


def _find_file_mode(path: Path) -> int:
    """Return the mode of a file, or the mode that a new file would get."""
    if path.exists():
        return stat.S_IMODE(path.stat().st_mode)
    # The mask can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
