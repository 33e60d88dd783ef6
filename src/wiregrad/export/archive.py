"""Circuit files: one safetensors file that holds the arrays as tensors and the JSON form of the circuit beside them.

The format is eight bytes that say how long the header is, a JSON header that says where each tensor lies, and the
tensors. It is so small that it is read and written here, with the checks that a file from anywhere needs: nothing in
it is run, no length in it is believed. Other tools open the file too and see the tensors; `circuit` is the document,
as bytes of UTF-8. A file is written beside the one it replaces and put in its place when it is whole.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import MAX_AXES, can_be
from wiregrad.errors import CircuitError, FileAccessError, FileFormatError, shown
from wiregrad.export.atomic import write_whole
from wiregrad.ir import Circuit
from wiregrad.ir.document import FORMAT, READERS, VERSION, Tensors, parse_json, unknown_version, write_json
from wiregrad.ir.elements import as_pairs
from wiregrad.ir.strictjson import MAX_BYTES, is_json, loads

MAX_FILE = 8 * 2**30
"""Maximum size of a file in bytes."""
MAX_HEADER = 16 * 2**20
"""Maximum size of its header in bytes."""
CIRCUIT = "circuit"
"""The tensor that holds the JSON document of the circuit."""
METADATA = "__metadata__"
"""The key of the header under which safetensors keeps metadata."""
_NAMES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1", "BOOL": "|b1"}
_CODES = {np.dtype(code): name for name, code in _NAMES.items()}

PathLike = str | os.PathLike[str]


def save(circuit: Circuit, path: PathLike) -> None:
    """Write a circuit to a file, completely or not at all.

    >>> import tempfile, wiregrad as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(wg.circuit("e = a + b; f = e * c"), f"{folder}/f.wg")
    ...     print(load(f"{folder}/f.wg").inputs)
    ('a', 'b', 'c')
    """
    replace(path, packed(circuit))


def load(path: PathLike) -> Circuit:
    """Read a circuit from a file that `save` wrote; files from unknown sources are safe to read.

    >>> load("none.wg")
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileAccessError: cannot read none.wg: there is no such file
    """
    checked = _checked_path(path)
    data = content(checked)
    try:
        return unpacked(data)
    except CircuitError as error:
        raise FileFormatError(f"{checked} cannot be read as a circuit: {error}") from None


def packed(circuit: Circuit) -> list[memoryview]:
    """Encode a circuit as the bytes of a file, in parts that are written one after another."""
    tensors: Tensors = {}
    document = write_json(circuit, tensors).encode()
    if len(document) > MAX_BYTES:
        raise FileFormatError(f"the circuit takes {len(document):,} bytes as JSON; a file holds at most {MAX_BYTES:,}")
    arrays = {name: as_pairs(value) for name, value in tensors.items()}
    arrays[CIRCUIT] = np.frombuffer(document, np.uint8)
    return [*_parts(arrays)]


def unpacked(data: bytes) -> Circuit:
    """Decode a circuit from the bytes of a file.

    >>> from wiregrad.ir import parse_text
    >>> circuit = parse_text("input x\\ny = exp x\\noutput y")
    >>> unpacked(b"".join(packed(circuit))) == circuit
    True
    """
    tensors = _tensors(data)
    document = tensors.pop(CIRCUIT, None)
    if document is None or document.dtype != np.uint8:
        raise FileFormatError(f"it has no tensor {CIRCUIT!r} of bytes; it was not written by wiregrad")
    return parse_json(document.tobytes(), tensors)


def _checked_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise FileAccessError(f"a path is a string or a pathlib.Path; got {shown(path)}")
    if "\0" in os.fspath(path):
        raise FileAccessError(f"no file can be called {shown(os.fspath(path))}")
    return Path(path)


def _parts(arrays: Tensors) -> Iterator[memoryview]:
    """Return the parts of a file: length, header, and the tensors, widest elements first so that all are aligned."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    header: dict[str, Any] = {METADATA: {"format": FORMAT, "version": str(VERSION)}}
    parts = []
    end = 0
    for name, array in ordered:
        plain = np.ascontiguousarray(array)
        start = end
        end = start + plain.nbytes
        header[name] = {"dtype": _CODES[plain.dtype], "shape": list(array.shape), "data_offsets": [start, end]}
        parts.append(plain.reshape(-1).view(np.uint8))
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise FileFormatError(f"the circuit has {len(arrays):,} arrays, more than the header of a file can list")
    yield memoryview(len(text).to_bytes(8, "little"))
    yield memoryview(text)
    yield from (part.data for part in parts)


def replace(path: PathLike, parts: list[memoryview]) -> None:
    """Replace a file atomically, or create it; no partly written file is ever left."""
    path = _checked_path(path)
    with _said("write", path):
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory")
        if path.exists() and not path.is_file():
            # A device or a pipe is written to, not replaced: the target of /dev/stdout may have no path.
            path.write_bytes(b"".join(parts))
            return
        # Replace the target of a symbolic link, not the link.
        write_whole(Path(os.path.realpath(path)), parts)


def _at_once(path: str, flags: int) -> int:
    # A plain open of a pipe without a writer would wait forever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def content(path: Path, most: int = MAX_FILE) -> bytes:
    """Read a regular file of at most `most` bytes; refuse devices and pipes without waiting for them.

    >>> content(Path("/dev/null"))
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileFormatError: /dev/null is not a regular file but a device or a pipe
    """
    with _said("read", path), open(path, "rb", opener=_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileFormatError(f"{path} is not a regular file but a device or a pipe")
        if status.st_size > most:
            raise FileFormatError(f"{path} has {status.st_size:,} bytes; the limit is {most:,}")
        return file.read(status.st_size)


@contextmanager
def _said(verb: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a `FileAccessError` that says what to try."""
    try:
        yield
    except FileFormatError:
        raise
    except (OSError, MemoryError, ValueError) as error:
        _refuse(verb, path, error)


def _refuse(verb: str, path: Path, error: Exception) -> NoReturn:
    hints: dict[type[Exception], str] = {
        FileNotFoundError: "there is no such file" if verb == "read" else "there is no such folder; create it first",
        IsADirectoryError: "it is a folder; give the path of a file",
        NotADirectoryError: "part of the path is a file, not a folder",
        PermissionError: "permission denied",
    }
    reason = hints.get(type(error)) or getattr(error, "strerror", None) or _without_reason(error)
    failure = FileAccessError(f"cannot {verb} {path}: {reason}")
    failure.errno = getattr(error, "errno", None)
    failure.filename = str(path)
    raise failure from None


def _without_reason(error: Exception) -> str:
    """Describe an error that has no text of the operating system."""
    return "there is not enough memory" if isinstance(error, MemoryError) else str(error)


def _tensors(data: bytes) -> Tensors:
    """Decode the tensors of a safetensors file; raise unless they fill it exactly."""
    if len(data) < 8:
        raise FileFormatError(f"it has {len(data)} bytes, too few for a safetensors file; it is empty or cut off")
    length = int.from_bytes(data[:8], "little")
    if length > MAX_HEADER or data[8:9] != b"{":
        hint = "; it looks like JSON: rename it to .json" if is_json(data) else ""
        raise FileFormatError(f"it is not a safetensors file: expected a length and a JSON header at its start{hint}")
    if 8 + length > len(data):
        raise FileFormatError(f"it is cut off: its header has {length:,} bytes, the file only {len(data) - 8:,} more")
    header = loads(data[8 : 8 + length])
    if type(header) is not dict:
        raise FileFormatError("its header is not a JSON object")
    _check_metadata(header.pop(METADATA, {}))
    entries = {name: _entry(name, entry) for name, entry in header.items()}
    body = memoryview(data)[8 + length :]
    _check_filled(entries, len(body))
    return {name: _tensor(body[start:end], dtype, shape) for name, (dtype, shape, start, end) in entries.items()}


def _check_metadata(metadata: Any) -> None:
    file_format = metadata.get("format") if type(metadata) is dict else metadata
    if file_format != FORMAT:
        raise FileFormatError(f"it is a safetensors file, but not of a circuit: its format is {shown(file_format)}")
    unknown = [key for key in metadata if key not in ("format", "version")]
    if unknown or type(metadata.get("version")) is not str:
        raise FileFormatError(f"its metadata must have format and version; got {shown(metadata, 80)}")
    version = metadata["version"]
    if version not in map(str, READERS):
        raise unknown_version(int(version) if re.fullmatch("[0-9]{1,9}", version) else version)


Entry = tuple[np.dtype[Any], tuple[int, ...], int, int]
"""A tensor of the header: dtype, shape, and the first and last offset of its bytes."""


def _entry(name: str, entry: Any) -> Entry:
    if type(entry) is not dict or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"tensor {shown(name)}: expected dtype, shape and data_offsets; got {shown(entry, 80)}")
    code = entry["dtype"]
    shape = entry["shape"]
    offsets = entry["data_offsets"]
    if type(code) is not str or code not in _NAMES:
        raise FileFormatError(f"tensor {shown(name)}: its dtype must be one of {', '.join(_NAMES)}; got {shown(code)}")
    if not _are_lengths(shape) or not _are_lengths(offsets) or len(shape) > MAX_AXES or len(offsets) != 2:
        raise FileFormatError(f"tensor {shown(name)}: shape and data_offsets must be lists of lengths")
    dtype = np.dtype(_NAMES[code])
    if offsets[1] - offsets[0] != prod(shape) * dtype.itemsize:
        raise FileFormatError(
            f"tensor {shown(name)} claims the shape {shown(shape)}; {offsets[1] - offsets[0]:,} bytes do not fill it"
        )
    if not can_be(dtype, tuple(shape)):
        raise FileFormatError(f"tensor {shown(name)}: no array has the shape {shown(shape)}")
    return dtype, tuple(shape), offsets[0], offsets[1]


def _are_lengths(value: Any) -> bool:
    return type(value) is list and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _check_filled(entries: dict[str, Entry], size: int) -> None:
    """Raise unless the tensors follow each other without gaps and fill all data."""
    reached = 0
    for name, (_, _, start, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if start != reached:
            raise FileFormatError(f"tensor {shown(name)} begins at byte {start:,}; the one before ends at {reached:,}")
        reached = end
    if reached != size:
        state = "cut off" if reached > size else "too long"
        raise FileFormatError(f"it is {state}: its tensors take {reached:,} bytes, and {size:,} follow the header")


def _tensor(data: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if dtype.kind == "b" and len(data) and np.frombuffer(data, np.uint8).max() > 1:
        # NumPy would take such a byte for a bool without checking it.
        raise FileFormatError("a tensor of bools has a byte that is neither 0 nor 1")
    # A copy is aligned, and does not keep the bytes of the whole file alive.
    array = np.frombuffer(data, dtype).astype(dtype.newbyteorder("=")).reshape(shape)
    array.setflags(write=False)
    return array
