"""Texts that are read back exactly: JSON from untrusted sources, and the text form of a circuit, one node per line.

The reader of JSON guarantees that no key appears twice in one object, nothing is nested deeper than allowed, every
number is finite and no integer is longer than 64 bits need. Anything too large is refused before it can cost time or
memory: brackets and commas are counted first, a block at a time. JSON has no NaN and no infinities: they are the
strings `nan`, `inf` and `-inf`; a NaN with unusual bits is written with them, `nan:fff8000000000000`. A complex number
is a pair, real part first. Nothing here recurses. The text form and the JSON form (`wiregrad.files`) read with these
functions, so that neither accepts what the other refuses.

The text form is readable and diffable:

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

A loop or a branch ends with `{`; the circuits that it runs follow, each up to a line with `}`:

    y = scan x w carry=1 xs=0 length=100 reverse=false counted=false {
        circuit step
        input x, w
        f0 = multiply x w
        output f0
    }
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import (
    DTYPES,
    FLOAT,
    MAX_AXES,
    JsonValue,
    PythonNumber,
    WireType,
    WireValue,
    parse_type,
    suggest_stored_dtype,
    to_python_number,
)
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
from wiregrad.ir.circuit import MAX_NODES, CircuitGraph, bind_untrusted, check_node_count, find_bodies
from wiregrad.ir.columns import (
    DERIVE_MODE,
    Certificate,
    Place,
    Row,
    automatic_name,
    check_name,
    derive_usual_modes,
    is_automatic_name,
    normalize_name,
    parse_mode,
    type_of_constant,
    write_mode,
)
from wiregrad.ir.op import CONSTANT, INPUT, TABLE, Op

MAX_TEXT_BYTES = 256 * 2**20
"""Maximum length of a text."""
MAX_JSON_DEPTH = 80
"""Maximum nesting of lists and objects: an array of 64 axes fits."""
MAX_JSON_ITEMS = 30_000_000
"""Maximum number of lists, objects and commas: two characters can become an object of a hundred bytes."""
MAX_JSON_DIGITS = 20
"""Maximum number of characters of an integer: every int64 fits."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some editors put before a text."""

_BLOCK_BYTES = 2**18
_DEPTH_STEPS = np.zeros(256, np.int8)
_DEPTH_STEPS[list(b"[{")] = 1
_DEPTH_STEPS[list(b"]}")] = -1
_COUNTED_BYTES = np.isin(np.arange(256), list(b"[{,"))


def read_strict_json(text: str | bytes) -> JsonValue:
    """Parse JSON; raise `FileFormatError`, which says what is wrong and where.

    >>> read_strict_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if not isinstance(text, str | bytes | bytearray):
        raise FileFormatError(f"wanted JSON as a string or bytes; got {type(text).__name__}")
    if len(text) > MAX_TEXT_BYTES:
        raise FileFormatError(f"the JSON text has {len(text):,} characters; the limit is {MAX_TEXT_BYTES:,}")
    data = _encode_utf8(text)
    check_json_size(data)
    if not data.strip():
        raise FileFormatError("not JSON: the text is empty")
    try:
        # Decoded first, because json guesses the encoding of bytes.
        document: JsonValue = json.loads(
            data.decode(),
            object_pairs_hook=_make_object,
            parse_int=read_integer,
            parse_float=read_finite,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise FileFormatError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    return document


def is_json(data: bytes) -> bool:
    """Return whether data begins like a JSON object.

    >>> is_json(b' {"a": 1}'), is_json(b"circuit f")
    (True, False)
    """
    return data[:1000].removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"{"


def _encode_utf8(text: str | bytes | bytearray) -> bytes:
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
        data.decode()
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        raise FileFormatError(f"not JSON: the text is not UTF-8 (at position {at:,})") from None
    return data.removeprefix(BYTE_ORDER_MARK)


def check_json_size(data: bytes) -> None:
    """Raise if lists and objects nest too deeply, or if there are too many of them and of commas outside strings.

    >>> check_json_size(b"[" * 100)
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileFormatError: lists and objects are nested deeper than the limit of 80 levels
    """
    depth = 0
    items = 0
    inside = False
    escaped = False
    for start in range(0, len(data), _BLOCK_BYTES):
        block = np.frombuffer(data, np.uint8, min(_BLOCK_BYTES, len(data) - start), start)
        quotes, escaped = _find_quotes(block, escaped)
        within = (np.cumsum(quotes, dtype=np.int32) + inside) % 2 == 1
        inside = bool(within[-1])
        outside = block[~within]
        depths = depth + np.cumsum(_DEPTH_STEPS[outside], dtype=np.int32)
        items += int(np.count_nonzero(_COUNTED_BYTES[outside]))
        if depths.max(initial=0) > MAX_JSON_DEPTH:
            raise FileFormatError(f"lists and objects are nested deeper than the limit of {MAX_JSON_DEPTH} levels")
        if items > MAX_JSON_ITEMS:
            raise FileFormatError(
                f"there are more than {MAX_JSON_ITEMS:,} lists, objects and commas, which is the limit"
            )
        depth = int(depths[-1]) if depths.size else depth


def _find_quotes(block: NDArray[np.uint8], escaped: bool) -> tuple[NDArray[np.bool_], bool]:
    """Return which bytes are unescaped quotes, and whether the first byte after the block is escaped."""
    quotes = block == ord('"')
    slashes = block == ord("\\")
    if not escaped and not slashes.any():
        return quotes, False
    # An odd number of backslashes before a byte escapes it: count from the last byte that is no backslash.
    place = np.arange(len(block), dtype=np.int32)
    last = np.maximum.accumulate(np.where(slashes, np.int32(-1), place))
    odd = (place - last + (last < 0) * escaped) % 2 == 1
    return quotes & ~np.concatenate([[escaped], odd[:-1]]), bool(odd[-1])


def _make_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FileFormatError(f"the key {short_repr(repeated)} appears twice in one object, so its value is ambiguous")
    return members


def read_integer(text: str) -> int | float:
    """Parse an integer; -0 becomes a float, since no integer has that sign.

    >>> read_integer("12"), read_integer("-0")
    (12, -0.0)
    """
    if len(text) > MAX_JSON_DIGITS:
        raise FileFormatError(f"an integer has {len(text):,} digits; the limit is {MAX_JSON_DIGITS}")
    return -0.0 if text == "-0" else int(text)


def read_finite(text: str) -> float:
    """Parse a number that float64 can hold.

    >>> read_finite("2.5e3")
    2500.0
    """
    value = float(text)
    if not math.isfinite(value):
        raise FileFormatError(f"{short_repr(text)} is larger than any float64; an infinite number is written 'inf'")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise FileFormatError(f"{text} is not JSON; write the string {text.lower().replace('infinity', 'inf')!r}")


NON_FINITE_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
INTEGER_TYPE = "integer"
"""The type that is written for an integer that no wire can carry."""
MAX_OUTCOME_DIGITS = 400
"""Maximum number of digits of such an integer."""
_NAN_BITS = re.compile(r"nan:([0-9a-f]{4}|[0-9a-f]{8}|[0-9a-f]{16})")


def write_elements(value: ArrayLike) -> JsonValue:
    """Return a number or an array as nested lists of values that JSON can hold.

    >>> write_elements(np.array([1.5, np.nan, -np.inf]))
    [1.5, 'nan', '-inf']
    """
    array = as_pairs(np.asarray(value))
    if array.dtype.kind != "f" or np.isfinite(array).all():
        elements: JsonValue = array.tolist()
        return elements
    flat = array.reshape(-1)
    cells = np.array(flat.tolist(), object)
    for k in np.flatnonzero(~np.isfinite(flat)).tolist():
        cells[k] = _write_non_finite(flat[k])
    elements = cells.reshape(array.shape).tolist()
    return elements


def _write_non_finite(value: np.floating[Any]) -> str:
    if not np.isnan(value):
        return "inf" if value > 0 else "-inf"
    bits = value.view(f"u{value.itemsize}")
    usual = value.dtype.type("nan").view(bits.dtype)
    return "nan" if bits == usual else f"nan:{int(bits):0{2 * value.itemsize}x}"


def as_pairs(array: NDArray[Any]) -> NDArray[Any]:
    """Return a complex array as pairs of real numbers along one more axis, and any other array unchanged."""
    if array.dtype.kind != "c":
        return array
    _check_complex_axes(array.ndim)
    return np.stack([array.real, array.imag], -1)


def _check_complex_axes(ndim: int) -> None:
    """Raise if a complex array has no axis left for its pairs."""
    if ndim >= MAX_AXES:
        raise FileFormatError(f"a complex array may have at most {MAX_AXES - 1} axes; got {ndim}: drop an axis first")


def from_pairs(array: NDArray[Any]) -> NDArray[Any]:
    """Return the complex array of the pairs that `as_pairs` made.

    >>> from_pairs(np.array([[1.0, 2.0]]))
    array([1.+2.j])
    """
    return np.ascontiguousarray(array).view(np.result_type(array.dtype, np.complex64))[..., 0]


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real and imaginary part of complex numbers.

    >>> part_dtype(np.dtype("complex64"))
    dtype('float32')
    """
    return np.dtype(f"f{dtype.itemsize // 2}")


def read_elements(kind: WireType, value: JsonValue) -> WireValue:
    """Return the NumPy value with a type and these elements; raise if a length or an element does not fit.

    >>> from wiregrad.dtypes import parse_type
    >>> read_elements(parse_type("float32[2]"), [1, "inf"])
    array([ 1., inf], dtype=float32)
    """
    paired = kind.dtype.kind == "c"
    if paired:
        _check_complex_axes(len(kind.shape))
    shape = (*kind.shape, 2) if paired else kind.shape
    flat = _flatten_elements(kind, shape, value)
    dtype = part_dtype(kind.dtype) if paired else kind.dtype
    array = {"f": _read_floats, "b": _read_bools, "i": _read_integers}[dtype.kind](kind, dtype, flat).reshape(shape)
    value_of_kind: WireValue = (from_pairs(array) if paired else array)[()]
    return value_of_kind


def check_storable(kind: WireType) -> None:
    """Raise if values of a type cannot be stored as text or in a file."""
    if kind.dtype in DTYPES.values():
        return
    raise FileFormatError(
        f"the circuit has wires of {kind}, which cannot be stored, because their bits depend on the machine"
        f"{suggest_stored_dtype(kind.dtype)}"
    )


def read_type(text: JsonValue) -> WireType:
    """Parse a type; raise `FileFormatError` if the text is none.

    >>> str(read_type("float32[3,4]"))
    'float32[3,4]'
    """
    kind = parse_type(text) if type(text) is str else None
    if kind is None:
        raise FileFormatError(f"wanted a type such as 'float64' or 'float32[3,4]'; got {short_repr(text)}")
    return kind


def write_outcome(outcome: ArrayLike) -> tuple[str, JsonValue]:
    """Return the type and the elements of a value that steered Python.

    >>> write_outcome(True), write_outcome(10**20)
    (('bool', True), ('integer', '100000000000000000000'))
    """
    array = np.asarray(outcome)
    if array.dtype in DTYPES.values():
        return str(WireType(array.dtype, array.shape)), write_elements(array)
    # int(x) of a large float64 does not fit into int64.
    if isinstance(outcome, int) and abs(outcome) < 10**MAX_OUTCOME_DIGITS:
        return INTEGER_TYPE, str(outcome)
    raise FileFormatError(f"the value {short_repr(outcome)} steered Python; it cannot be stored as text or in a file")


def read_outcome(kind: JsonValue, value: JsonValue) -> PythonNumber | WireValue:
    """Return the value that steered Python, from what `write_outcome` wrote.

    >>> read_outcome("float64", 2.5)
    2.5
    """
    if kind == INTEGER_TYPE:
        text = value if type(value) is str else ""
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_OUTCOME_DIGITS:
            raise FileFormatError(f"wanted a string of at most {MAX_OUTCOME_DIGITS} digits; got {short_repr(value)}")
        return int(text)
    outcome = read_elements(read_type(kind), value)
    if isinstance(outcome, np.float32 | np.float16 | np.ndarray):
        return outcome
    number: PythonNumber = outcome.item()
    return number


def _flatten_elements(kind: WireType, shape: tuple[int, ...], value: JsonValue) -> list[JsonValue]:
    """Return the elements as one flat list; raise unless every list is as long as the shape says."""
    flat = [value]
    for axis, length in enumerate(shape):
        deeper: list[JsonValue] = []
        for item in flat:
            if type(item) is not list or len(item) != length:
                got = f"a list of {len(item):,}" if type(item) is list else short_repr(item)
                raise FileFormatError(f"wanted {length:,} elements along axis {axis} of {kind}; got {got}")
            deeper.extend(item)
        flat = deeper
    # After an axis of length 0 there are no lists left to check.
    assert len(flat) == prod(shape)
    return flat


def _read_floats(kind: WireType, dtype: np.dtype[Any], flat: list[JsonValue]) -> NDArray[Any]:
    special = {k: _read_special(kind, item) for k, item in enumerate(flat) if type(item) is not float}
    with np.errstate(over="ignore"):
        array = np.array([0.0 if k in special else item for k, item in enumerate(flat)], np.float64).astype(dtype)
    if not np.isfinite(array).all():
        raise FileFormatError(f"an element of {kind} is larger than any {dtype}; an infinite one is written 'inf'")
    for k, item in special.items():
        array[k : k + 1] = _nan_from_bits(kind, item) if isinstance(item, str) else item
    return array


def _read_special(kind: WireType, item: JsonValue) -> float | str:
    if type(item) is int:
        return float(item)
    if type(item) is str and item in NON_FINITE_WORDS:
        return NON_FINITE_WORDS[item]
    match = _NAN_BITS.fullmatch(item) if type(item) is str else None
    if match is None or len(match[1]) != 2 * (8 if kind.dtype.kind == "c" else kind.dtype.itemsize):
        raise FileFormatError(
            f"wanted a number, 'nan', 'inf' or '-inf' as an element of {kind}; got {short_repr(item)}"
        )
    return match[1]


def _nan_from_bits(kind: WireType, digits: str) -> NDArray[Any]:
    bits = np.array([int(digits, 16)], f"u{len(digits) // 2}").view(f"f{len(digits) // 2}")
    if not np.isnan(bits[0]):
        raise FileFormatError(f"the bits of 'nan:{digits}' are not a NaN of {kind}")
    return bits


def _read_bools(kind: WireType, dtype: np.dtype[Any], flat: list[JsonValue]) -> NDArray[Any]:
    wrong = next((item for item in flat if type(item) is not bool), None)
    if wrong is not None or None in flat:
        raise FileFormatError(f"wanted true or false as an element of {kind}; got {short_repr(wrong)}")
    return np.array(flat, dtype)


def _read_integers(kind: WireType, dtype: np.dtype[Any], flat: list[JsonValue]) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    for item in flat:
        if type(item) is not int or not limits.min <= item <= limits.max:
            raise FileFormatError(f"wanted a whole number as an element of {kind}; got {short_repr(item)}")
    return np.array(flat, dtype)


_SHAPE_OR_COMMA = re.compile(r"\[[^\]]*+\]?|,")
"""The brackets of a shape, with the commas in them, or a comma by itself."""
_NUMBER_TOKEN = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|inf|nan)")
_INTEGER_TOKEN = re.compile(r"-?[0-9]+")
_JSON_CONSTANTS = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
"""Python's json words for numbers that are not finite, and the words of elements."""
_LIST_KEYWORDS = ("input", "output")
BODY_BEGIN = "{"
BODY_END = "}"
MAX_BODY_DEPTH = 20
"""Maximum number of loops inside one another."""
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

    With `readable`, user functions are written too, and loops by their titles. Such a text is for people: it cannot be
    read back, and without `readable` a circuit with a user function raises `TextError`.
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
            bodies = find_bodies(row.op)
            begin = f" {BODY_BEGIN}" if bodies else ""
            yield f"{own} = {row.op.name} {operands}{_write_settings(row.op)}{_write_kink(row, usual)}{begin}", note
            for k, inner in enumerate(bodies):
                yield from ((f"    {line}", "") for line in write_text(inner).splitlines())
                yield (BODY_END if k == len(bodies) - 1 else f"{BODY_END} {BODY_BEGIN}"), ""
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
    settings = op.stored_settings()
    if settings is None:
        raise TextError(f"a node applies {op.name}, a user's Python function, which cannot be stored as text")
    return "".join(f" {name}={_write_json(value)}" for name, value in settings.items())


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
    bodies: list[CircuitGraph] = field(default_factory=list)


def parse_text(text: str) -> CircuitGraph:
    """Read a circuit from its text form."""
    if not isinstance(text, str):
        raise TextError(f"the text form is a string; got {type(text).__name__}")
    if len(text) > MAX_TEXT_BYTES:
        raise TextError(f"the text has {len(text):,} characters; the limit is {MAX_TEXT_BYTES:,}")
    return _TextReader(enumerate(text.split("\n"), 1)).build_circuit()


class _TextReader:
    """Reads all lines, then resolves names and builds the circuit.

    `depth` is the number of loops around the circuit; the lines of a body end at the line that closes it.
    """

    def __init__(self, lines: Iterator[tuple[int, str]], depth: int = 0) -> None:
        self.name: str | None = None
        self.statements: list[_NodeStatement] = []
        self.outputs: list[tuple[str, str, int]] = []
        self.index: dict[str, int] = {}
        self.certificates: list[tuple[str, Any, Place | None, int]] = []
        self.lines = lines
        self.depth = depth
        self.end: list[str] = []
        """The words of the line that closes a body."""
        for number, line in lines:
            code, _, note = line.partition("#")
            if len(code) > MAX_LINE_LETTERS and not code.isascii():
                raise TextError(f"line {number}: more than {MAX_LINE_LETTERS:,} characters that are not all ASCII")
            code = normalize_name(code)
            tokens = code.split(None, MAX_LINE_WORDS)
            if len(tokens) > MAX_LINE_WORDS or (
                tokens and tokens[0] in _LIST_KEYWORDS and code.count(",") > MAX_LINE_WORDS
            ):
                raise TextError(f"line {number}: more than {MAX_LINE_WORDS:,} words in one line")
            if tokens and tokens[0] == BODY_END and depth:
                self.end = tokens
                break
            if tokens:
                self._read_line(number, tokens, code, note.strip())

    def _read_bodies(self, line: int) -> list[CircuitGraph]:
        """Read the circuits of a loop, up to the line that closes the last one."""
        if self.depth == MAX_BODY_DEPTH:
            raise TextError(f"line {line}: more than {MAX_BODY_DEPTH} loops inside one another")
        bodies = []
        while True:
            reader = _TextReader(self.lines, self.depth + 1)
            if reader.end not in ([BODY_END], [BODY_END, BODY_BEGIN]):
                raise TextError(f"line {line}: the circuits of a loop need a line {BODY_END!r} behind them")
            bodies.append(reader.build_circuit())
            if reader.end == [BODY_END]:
                return bodies

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
        if statement.operands and statement.operands[-1] == BODY_BEGIN:
            statement.operands.pop()
            statement.bodies = self._read_bodies(line)
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
            statement.op = bind_untrusted(statement.op, settings, statement.bodies)
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
