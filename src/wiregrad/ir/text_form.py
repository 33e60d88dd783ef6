"""The text form of a circuit: one node per line, readable, diffable, read back exactly.

    circuit f
    input a, b, c
    e = add a b        # formula:1:2
    f = multiply e c   # formula:1:1
    output f

Nodes without a name are written as `%` and a number. `e = g = add a b` gives a node two names. Settings of an op follow
its wires: `y = sum x axes=[-1] keepdims=false`. A kink mode is written only where it is not the op's default.
`steered %12 true` says that the value of a node decided what Python did. Elements of arrays, and numbers that are
neither float64 nor bool, follow their type as in JSON: `w = constant float32[2] [1.5,"nan"]`. After `#` come place and
group; any other text there is a comment. The lines may be in any order: nodes are sorted when the text is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import FLOAT, JsonValue, PythonNumber, WireType, WireValue, parse_type, to_python_number
from wiregrad.errors import (
    ArityError,
    CircuitError,
    DuplicateNameError,
    FileFormatError,
    TextError,
    UnknownOpError,
    short_repr,
    suggest_name,
)
from wiregrad.ir.builder import GraphBuilder, Port, sort_topologically
from wiregrad.ir.circuit import CircuitGraph, find_bodies
from wiregrad.ir.columns import Certificate, Place, Row, automatic_name, check_name, is_automatic_name, normalize_name
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Op
from wiregrad.ir.strict_json import (
    INTEGER_TYPE,
    MAX_TEXT_BYTES,
    NON_FINITE_WORDS,
    check_json_size,
    check_storable,
    read_elements,
    read_finite,
    read_integer,
    read_outcome,
    write_elements,
    write_outcome,
)
from wiregrad.ir.types_and_kinks import DERIVE_MODE, derive_usual_modes, parse_mode, type_of_constant, write_mode
from wiregrad.ir.verifier import MAX_NODES, bind_untrusted, check_node_count

_SHAPE_OR_COMMA = re.compile(r"\[[^\]]*+\]?|,")
"""The brackets of a shape, with the commas in them, or a comma by itself."""
_NUMBER_TOKEN = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|inf|nan)")
_INTEGER_TOKEN = re.compile(r"-?[0-9]+")
_JSON_CONSTANTS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
"""Python's json words for numbers that are not finite, and the words of elements."""
_LIST_KEYWORDS = ("input", "output")
MAX_LINE_WORDS = 2 * MAX_NODES
"""Maximum number of words in a line."""
MAX_LINE_LETTERS = 1_000_000
"""Maximum length of a line that is not ASCII: normalizing it can turn one character into 18."""
_UNQUOTED_PATH = re.compile(r"[\w./\\<>-]+")
_PATH_PATTERN = r'[\w./\\<>-]+|"(?:[^"\\]|\\.)*"'
_NOTE_PATTERN = re.compile(
    rf'(?:({_PATH_PATTERN}):([0-9]{{1,9}})(?::([0-9]{{1,9}}))?)?(?:(?:^| )in ("(?:[^"\\]|\\.)*"))?'
)


def write_text(circuit: CircuitGraph, *, readable: bool = False) -> str:
    """Return the text form of a circuit.

    With `readable`, user functions and loops are written too, a loop with its body below it. Such a text is for people:
    it cannot be read back, and without `readable` such a circuit raises `TextError`.
    """
    names = circuit.columns.names.group_by_node()
    body = list(_write_lines(circuit, names, readable=readable))
    width = min(40, max((len(line) for line, note in body if note), default=0))
    labels = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    owners = {name: node for node, own in names.items() for name in own}
    outputs = ", ".join(
        label if owners.get(label) == node else f"{label} = {_names_of(node, names)[0]}" for label, node in labels
    )
    body += _write_certificates(circuit, names)
    text = [f"{line.ljust(width)}   # {note}" if note else line for line, note in body]
    return "\n".join([f"circuit {circuit.name}", *text, f"output {outputs}", ""])


def _write_certificates(circuit: CircuitGraph, names: dict[int, list[str]]) -> Iterator[tuple[str, str]]:
    for node, outcome, place in circuit.certificates:
        kind, value = write_outcome(outcome)
        text = str(value) if type(value) is int else _write_value(kind, value)
        yield f"steered {_names_of(node, names)[0]} {text}", _write_note(place, None)


def _names_of(node: int, names: dict[int, list[str]]) -> list[str]:
    return names.get(node) or [automatic_name(node)]


def _write_lines(circuit: CircuitGraph, names: dict[int, list[str]], *, readable: bool) -> Iterator[tuple[str, str]]:
    usual = derive_usual_modes(circuit.columns.codes, circuit.columns.starts, circuit.columns.sources)
    constants = circuit.constants()
    places = circuit.columns.places
    groups = circuit.columns.groups
    inputs: list[str] = []
    for row in circuit.rows():
        check_storable(circuit.type_of(row.node))
        own = " = ".join(_names_of(row.node, names))
        note = _write_note(places.label_of(row.node), groups.label_of(row.node))
        if row.op is INPUT:
            kind = circuit.type_of(row.node)
            inputs.append(own if kind == FLOAT else f"{own}: {kind}")
        if inputs and (note or row.op is not INPUT):
            yield f"input {', '.join(inputs)}", note if row.op is INPUT else ""
            inputs = []
        if row.op is CONSTANT:
            yield f"{own} = constant {_write_constant(constants[row.node])}", note
        elif row.op.per_call and readable:
            operands = ", ".join(_names_of(source, names)[0] for source in row.sources)
            yield f"{own} = {row.op.title} ({operands})", note
            for inner in find_bodies(row.op):
                yield from ((f"    {line}", "") for line in write_text(inner, readable=True).splitlines())
        elif row.op is not INPUT:
            operands = " ".join(_names_of(source, names)[0] for source in row.sources)
            yield f"{own} = {row.op.name} {operands}{_write_settings(row.op)}{_write_kink(row, usual)}", note
    if inputs:
        yield f"input {', '.join(inputs)}", ""


def _write_constant(value: WireValue) -> str:
    return _write_value(str(type_of_constant(value)), write_elements(value))


def _write_value(kind: str, value: JsonValue) -> str:
    """Write a number alone if it implies its type, otherwise the type and the elements."""
    if type(value) is bool or kind == INTEGER_TYPE:
        return str(value).lower()
    usual = type(value) is float or (type(value) is str and value in NON_FINITE_WORDS)
    return str(value) if usual and kind == str(FLOAT) else f"{kind} {_write_json(value)}"


def _write_json(value: object) -> str:
    # The result must be one token: no space, no sign that begins a comment or a setting.
    text = json.dumps(value, separators=(",", ":"))
    return text.replace(" ", "\\u0020").replace("#", "\\u0023").replace("=", "\\u003d")


def _write_settings(op: Op) -> str:
    if op.per_call:
        raise TextError(f"a node applies {op.name}, a user's Python function, which cannot be stored as text")
    return "".join(f" {name}={_write_json(value)}" for name, value in op.settings)


def _write_kink(row: Row, usual: NDArray[np.uint8] | None) -> str:
    differs = row.mode != (0 if usual is None else usual[row.node])
    return f" kink={write_mode(row.mode, row.op.inputs)}" if differs else ""


def _write_note(place: Place | None, group: str | None) -> str:
    parts = []
    if place is not None:
        column = f":{place.column}" if place.column else ""
        parts.append(f"{_quote_path(place.file)}:{place.line}{column}")
    if group:
        parts.append(f"in {json.dumps(group)}")
    return " ".join(parts)


def _quote_path(text: str) -> str:
    return text if _UNQUOTED_PATH.fullmatch(text) else json.dumps(text)


@dataclass(slots=True)
class _NodeStatement:
    """One node of the text, before its operands are resolved."""

    line: int
    names: list[str]
    op: Op
    operands: list[str] = field(default_factory=list)
    type: WireType = FLOAT
    value: Any = None
    mode: int = DERIVE_MODE
    note: str = ""


def parse_text(text: str) -> CircuitGraph:
    """Read a circuit from its text form."""
    return _TextReader(text).build_circuit()


class _TextReader:
    """Reads all lines, then resolves names and builds the circuit."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TextError(f"the text form is a string; got {type(text).__name__}")
        self.name: str | None = None
        self.statements: list[_NodeStatement] = []
        self.outputs: list[tuple[str, str, int]] = []
        self.index: dict[str, int] = {}
        self.certificates: list[tuple[str, Any, Place | None, int]] = []
        if len(text) > MAX_TEXT_BYTES:
            raise TextError(f"the text has {len(text):,} characters; the limit is {MAX_TEXT_BYTES:,}")
        for number, line in enumerate(text.split("\n"), 1):
            code, _, note = line.partition("#")
            if len(code) > MAX_LINE_LETTERS and not code.isascii():
                raise TextError(f"line {number}: more than {MAX_LINE_LETTERS:,} characters that are not all ASCII")
            code = normalize_name(code)
            tokens = code.split(None, MAX_LINE_WORDS)
            if len(tokens) > MAX_LINE_WORDS or (
                tokens and tokens[0] in _LIST_KEYWORDS and code.count(",") > MAX_LINE_WORDS
            ):
                raise TextError(f"line {number}: more than {MAX_LINE_WORDS:,} words in one line")
            if tokens:
                self._read_line(number, tokens, code, note.strip())

    def _read_line(self, line: int, tokens: list[str], code: str, note: str) -> None:
        if len(tokens) > 1 and tokens[1] == "=":
            self._add_statement(self._read_statement(line, tokens, note))
        elif tokens[0] == "input":
            for item in _split_items(code.strip()[len("input") :]):
                self._add_statement(self._read_input(line, item, note))
        elif tokens[0] == "output":
            for item in code.strip()[len("output") :].split(","):
                self._read_output(line, item)
        elif tokens[0] == "steered" and len(tokens) in (3, 4):
            self.certificates.append((tokens[1], _read_outcome(line, tokens[2:]), _read_note(note)[0], line))
        elif tokens[0] == "circuit" and len(tokens) == 2 and self.name is None:
            self.name = _check_line_name(tokens[1], line)
        else:
            raise _line_error(
                line,
                "wanted 'circuit NAME' once, 'input ...', 'NAME = OP ...', 'steered ...' or 'output ...'",
                code.strip(),
            )

    def _read_statement(self, line: int, tokens: list[str], note: str) -> _NodeStatement:
        names = []
        k = 0
        while k + 1 < len(tokens) and tokens[k + 1] == "=":
            names.append(tokens[k])
            k += 2
        if k >= len(tokens):
            raise _line_error(line, "wanted an op after '='", " ".join(tokens))
        if tokens[k] not in TABLE or tokens[k] == INPUT.name:
            raise _unknown_op_error(line, tokens[k:])
        statement = _NodeStatement(line, names, TABLE[tokens[k]], tokens[k + 1 :], note=note)
        if statement.op is CONSTANT:
            statement.value = _read_constant(line, statement.operands)
            statement.operands = []
            return statement
        self._bind_settings(statement)
        if statement.operands and statement.operands[-1].startswith("kink="):
            self._read_kink(statement)
        try:
            statement.op.complete(statement.operands)
        except ArityError as error:
            raise ArityError(f"line {line}: {error}") from None
        return statement

    def _read_kink(self, statement: _NodeStatement) -> None:
        """Move the kink mode, which is the last operand, to its own field."""
        token = statement.operands.pop()
        mode = parse_mode(token[len("kink=") :], statement.op.inputs)
        if mode is None or not statement.op.kinks:
            raise _line_error(statement.line, "wanted kink=CONVENTION:INPUTS, after an op that has kinks", token)
        statement.mode = mode

    def _bind_settings(self, statement: _NodeStatement) -> None:
        """Move the settings (`name=value`) from the operands to the op."""
        settings: dict[str, Any] = {}
        for token in [token for token in statement.operands if "=" in token and not token.startswith("kink=")]:
            name, _, text = token.partition("=")
            if not name.isidentifier() or name in settings:
                raise _line_error(statement.line, "wanted NAME=VALUE once for each setting", token)
            settings[name] = _read_json(statement.line, text, float)
            statement.operands.remove(token)
        try:
            statement.op = bind_untrusted(statement.op, settings)
        except CircuitError as error:
            raise TextError(f"line {statement.line}: {error}") from None

    def _read_input(self, line: int, item: str, note: str) -> _NodeStatement:
        left, _, kind = item.partition(":")
        type_ = parse_type(kind.strip()) if kind else FLOAT
        if type_ is None:
            raise _line_error(line, "wanted a type such as float64 or float32[3,4]", kind.strip())
        return _NodeStatement(line, [name.strip() for name in left.split("=")], INPUT, type=type_, note=note)

    def _read_output(self, line: int, item: str) -> None:
        label, _, node = (part.strip() for part in item.partition("="))
        self.outputs.append((_check_line_name(label, line), node or label, line))

    def _add_statement(self, statement: _NodeStatement) -> None:
        for name in statement.names:
            if not is_automatic_name(name):
                _check_line_name(name, statement.line)
            if name in self.index:
                first = [*self.statements, statement][self.index[name]].line
                raise DuplicateNameError(f"line {statement.line}: {name} is defined already, at line {first}")
            self.index[name] = len(self.statements)
        self.statements.append(statement)

    def _find_statement(self, name: str, line: int) -> int:
        node = self.index.get(name)
        if node is None:
            raise TextError(f"line {line}: no node is called {short_repr(name)}{suggest_name(name, self.index)}")
        return node

    def build_circuit(self) -> CircuitGraph:
        check_node_count(len(self.statements))
        if not self.outputs:
            raise TextError("the text has no 'output' line, so nothing says which node is the result")
        sources = [[self._find_statement(name, s.line) for name in s.operands] for s in self.statements]
        order: list[int] | range = range(len(sources))
        if any(source >= node for node, row in enumerate(sources) for source in row):
            order = sort_topologically(sources, lambda node: self.statements[node].names[0])
        builder = GraphBuilder(finite=False)
        ports: dict[int, Port] = {}
        for node in order:
            ports[node] = self._build_node(builder, self.statements[node], [ports[source] for source in sources[node]])
        labels = {}
        for label, name, line in self.outputs:
            if label in labels:
                raise DuplicateNameError(f"line {line}: two outputs are called {label}")
            labels[label] = ports[self._find_statement(name, line)]
        builder.recording.certificates = [
            Certificate(ports[self._find_statement(name, line)].index, outcome, place)
            for name, outcome, place, line in self.certificates
        ]
        return builder.build(name=self.name, labels=labels)

    def _build_node(self, builder: GraphBuilder, statement: _NodeStatement, operands: list[Port]) -> Port:
        names = [name for name in statement.names if not name.startswith("%")]
        first = names[0] if names else None
        place, group = _read_note(statement.note)
        with builder.at(place, group):
            if statement.op is INPUT:
                port = builder.input(_check_line_name(first or statement.names[0], statement.line), statement.type)
            elif statement.op is CONSTANT:
                port = builder.place_constant(statement.value, first)
            else:
                port = builder.apply(statement.op, *operands, name=first, mode=statement.mode)
        for name in names[1:]:
            builder.name(port, name)
        return port


def _split_items(text: str) -> list[str]:
    """Split a text at the commas outside of shapes, in linear time."""
    return _SHAPE_OR_COMMA.sub(lambda match: "\n" if match[0] == "," else match[0], text).split("\n")


def _check_line_name(name: object, line: int) -> str:
    try:
        return check_name(name)
    except CircuitError as error:
        raise TextError(f"line {line}: {error}") from None


def _read_constant(line: int, operands: list[str]) -> WireValue:
    if len(operands) == 1:
        if operands[0] in ("true", "false"):
            return np.bool_(operands[0] == "true")
        # float() alone would accept '1_0' and other spellings that are never written.
        if _NUMBER_TOKEN.fullmatch(operands[0]):
            value = np.float64(operands[0])
            if np.isfinite(value) or operands[0].endswith(("inf", "nan")):
                return value
    kind = parse_type(operands[0]) if len(operands) == 2 else None
    if kind is not None:
        with _naming_line(line):
            return read_elements(kind, _read_json(line, operands[1]))
    raise _line_error(
        line, "wanted one number, true or false, or a type and its elements after 'constant'", " ".join(operands)
    )


def _read_outcome(line: int, operands: list[str]) -> PythonNumber | WireValue:
    """Return the outcome that steered Python: written like a constant, except that integers stay integers."""
    if len(operands) == 1 and _INTEGER_TOKEN.fullmatch(operands[0]):
        with _naming_line(line):
            return read_outcome(INTEGER_TYPE, operands[0])
    if len(operands) == 2:
        with _naming_line(line):
            return read_outcome(operands[0], _read_json(line, operands[1]))
    number: PythonNumber | WireValue = to_python_number(_read_constant(line, operands))
    return number


@contextmanager
def _naming_line(line: int) -> Iterator[None]:
    """Name the line in errors about a value."""
    try:
        yield
    except FileFormatError as error:
        raise TextError(f"line {line}: {error}") from None


def _read_json(line: int, text: str, special: Callable[[str], object] = _JSON_CONSTANTS.__getitem__) -> JsonValue:
    """Parse a value as strictly as a file; `special` converts the words for NaN and the infinities."""
    with _naming_line(line):
        try:
            if len(text) > 1000:
                check_json_size(text.encode())
            value: JsonValue = json.loads(
                text,
                parse_int=read_integer,
                parse_float=read_finite,
                parse_constant=special,
                object_hook=_refuse_object,
            )
        except FileFormatError:
            raise
        except (ValueError, RecursionError):
            wanted = "wanted a number, a text in quotes, true, false, null or a [list] of them"
            raise _line_error(line, wanted, text) from None
    return value


def _refuse_object(_: object) -> NoReturn:
    raise ValueError("a setting cannot be an object")


def _read_note(note: str) -> tuple[Place | None, str | None]:
    match = _NOTE_PATTERN.fullmatch(note)
    if match is None:
        return None, None
    place = Place(_unquote_path(match[1]), int(match[2]), int(match[3] or 0)) if match[1] else None
    if place is not None and not place.is_valid():
        return None, None
    return place, _unquote_path(match[4]) if match[4] else None


def _unquote_path(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text


def _unknown_op_error(line: int, tokens: list[str]) -> UnknownOpError:
    near = suggest_name(tokens[0], TABLE.callable_names())
    infix = TABLE.infix.get(tokens[1]) if len(tokens) == 3 else None
    hint = f"; the text form puts the op first: {infix.name} {tokens[0]} {tokens[2]}" if infix else near
    return UnknownOpError(f"line {line}: there is no op called {short_repr(tokens[0])}{hint}")


def _line_error(line: int, wanted: str, got: str) -> TextError:
    return TextError(f"line {line}: {wanted}; got {short_repr(got, 60)}")
