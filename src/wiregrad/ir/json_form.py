"""The JSON form of a circuit: one document with a version and the nodes in topological order.

    {"format": "wiregrad-circuit", "version": 1, "name": "f", "nodes": [
      {"op": "input", "names": ["a"]},
      {"op": "input", "names": ["b"]},
      {"op": "add", "inputs": [0, 1], "names": ["f"], "place": ["formula", 1, 1]}
    ], "outputs": [{"name": "f", "node": 2}]}

`docs/circuit.schema.json` describes the fields. A document is untrusted: an unknown field, a key that appears twice, a
node that reads a later one or states a wrong type is refused, and the verifier checks the rest. In a circuit file,
`tensor` takes the place of a constant's `value`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import BOOL, FLOAT, JsonValue, WireType, WireValue
from wiregrad.errors import FileFormatError, NameSyntaxError, UnknownOpError, WiregradError, short_repr, suggest_name
from wiregrad.ir import strict_json
from wiregrad.ir.builder import CircuitRecording
from wiregrad.ir.circuit import CircuitGraph
from wiregrad.ir.columns import Certificate, Place, Row, check_name
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Op
from wiregrad.ir.strict_json import (
    check_storable,
    from_pairs,
    part_dtype,
    read_elements,
    read_outcome,
    read_type,
    write_elements,
    write_outcome,
)
from wiregrad.ir.types_and_kinks import (
    DERIVE_MODE,
    check_mode,
    derive_usual_modes,
    parse_mode,
    type_of_constant,
    write_mode,
)
from wiregrad.ir.verifier import bind_untrusted, check_node_count, verify

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
        f'"nodes": {_write_lines(_describe_nodes(circuit, tensors))}',
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


def _describe_nodes(circuit: CircuitGraph, tensors: NamedTensors | None) -> Iterator[WrittenFields]:
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
            fields |= _describe_constant(row.node, constants[row.node], tensors)
        fields |= _describe_op(row, 0 if usual is None else int(usual[row.node]))
        yield fields | _describe_origin(circuit, row.node)


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
    if row.op.per_call:
        raise FileFormatError(
            f"a node applies {row.op.title}, a user's Python function, which "
            "cannot be stored in a file; write it in wiregrad's ops, or register an op for it"
        )
    fields: WrittenFields = {}
    if row.op.settings:
        fields["settings"] = {name: _write_setting(value) for name, value in row.op.settings}
    if row.mode != usual:
        fields["kink"] = write_mode(row.mode, row.op.inputs)
    return fields


def _write_setting(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_write_setting(item) for item in value]
    if isinstance(value, float | np.floating) and not np.isfinite(value):
        return {"number": write_elements(np.float64(value))}
    return value.item() if isinstance(value, np.generic) else value


def _describe_constant(node: int, value: WireValue, tensors: NamedTensors | None) -> WrittenFields:
    check_storable(type_of_constant(value))
    if tensors is None or not np.ndim(value):
        return {"value": write_elements(value)}
    name = f"constant.{node}"
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
    document = strict_json.read_strict_json(text)
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
    nodes = _check_list("nodes", document.get("nodes", []))
    outputs = _check_list("outputs", document.get("outputs", []))
    steered = _check_list("steered", document.get("steered", []))
    check_node_count(len(nodes))
    reader = _DocumentReader(tensors)
    for index, node in enumerate(nodes):
        reader.read_node(index, node)
    recording = reader.finish_recording()
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
_OP_FIELDS = (*_COMMON_FIELDS, "inputs", "settings", "kink")


class _DocumentReader:
    """Adds the nodes of a document to a recording, one by one."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.recording = CircuitRecording()
        self.tensors = tensors
        self._unused = set(tensors)
        self._places: dict[Place, Place] = {}

    def read_node(self, index: int, node: JsonValue) -> None:
        """Read a node; errors name its index and op."""
        try:
            self._append_node(index, node)
        except WiregradError as error:
            name = node.get("op") if type(node) is dict else None
            op = f" ({name})" if type(name) is str and name in TABLE else ""
            raise FileFormatError(f"node {index}{op}: {error}") from None

    def finish_recording(self) -> CircuitRecording:
        """Return the recording; raise if a tensor belongs to no node."""
        if self._unused:
            raise FileFormatError(f"the tensor {short_repr(min(self._unused))} belongs to no node")
        return self.recording

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
        op = bind_untrusted(op, _read_settings(fields.get("settings", {})))
        mode = _read_kink(op, fields["kink"]) if "kink" in fields else DERIVE_MODE
        kind = table.type_at(table.infer_number(op, tuple([recording.type_number_of(source) for source in sources])))
        if stated is not None and stated != kind:
            raise FileFormatError(f"its stated type is {stated}, but its op gives {kind}")
        recording.append_op(op, sources, kind, mode)

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
