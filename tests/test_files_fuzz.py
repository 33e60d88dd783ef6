"""Files that nobody vouches for: whatever stands in them, reading one ends in a circuit or in a typed error."""

from __future__ import annotations

import copy
import json
import random
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.export.archive import load, save
from wiregrad.ir import TABLE, Circuit
from wiregrad.ir.document import parse_json, write_json
from wiregrad.testing.circuits import random_circuit
from wiregrad.testing.programs import random_program

FORMULAS = ["e = a + b; f = e * c", "maximum(x, 0) * 1e-3", "where(x > 0, sqrt(x), -x)"]
JUNK: list[Any] = [
    *[None, True, False, 0, 1, -1, 2, 7, 10**6, 10**9, -(10**9), 2**31, 2**63, -(2**63) - 1, 10**19, 0.5, -0.0, 1e308],
    *["", "x", "nan", "-inf", "nan:7ff8000000000001", "%1", "a.b[0]", "é", "\ud800", "\x00", "input", "slice"],
    *["float64", "float32[2]", "int64[999999999]", "bool[0]", "complex128[1,1]", "V9", "torch:b", "constant.1"],
    *[[], [0], [[0, 1]], [0] * 65, [10**9], [10**5, 10**5], [-1], [None], ["slice", None, None, -1], [[[[[[]]]]]]],
    *[{}, {"number": "inf"}, {"number": []}, {"op": "input", "names": ["q"]}, {"axes": [-1], "keepdims": True}],
    *[
        {"rank": 0, "shape": [10**6, 10**6]},
        {"index": [0], "shape": [10**8]},
        {"dtype": "S999999999"},
        {"rank": -(10**9)},
    ],
]
PIECES = ["\\u", "1e999", "NaN", '"op"', "null", "9" * 30, "\n", "\x00", "é", *'"{}[],:-0', "\\"]
FIELDS = ["inputs", "value", "type", "settings", "kink", "names", "tensor", "q"]


def seeds() -> list[Circuit]:
    """Return circuits of numbers and of arrays, small enough that a change is likely to hit something."""
    found: list[Circuit] = [wg.circuit(formula) for formula in FORMULAS]
    found += [random_circuit(np.random.default_rng([3, k]), nodes=8) for k in range(4)]
    for seed in range(12):
        program = random_program(seed)
        found.append(wg.trace(program.function(wiregrad=wg), *program.inputs.values()))
    return found


def spliced(rng: random.Random, text: str) -> str:
    """Return a text with a few pieces replaced by others."""
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(text) + 1)
        end = at + rng.choice([0, 0, 1, 2, 10, 200])
        start = rng.randrange(len(text) + 1)
        piece = rng.choice(PIECES) if rng.random() < 0.7 else text[start : start + rng.randrange(40)]
        text = text[:at] + piece + text[end:]
    return text


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Walk over every container of a document and every key or index of it."""
    stack = [value]
    while stack:
        container = stack.pop()
        if not isinstance(container, dict | list):
            continue
        for key in container if isinstance(container, dict) else range(len(container)):
            yield container, key
            stack.append(container[key])


def junk(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(JUNK))


def rebuilt(rng: random.Random, text: str) -> str:
    """Return a document with a few of its values changed, moved, left out or added."""
    document = json.loads(text)
    for _ in range(rng.randrange(1, 4)):
        found = list(places(document))
        if not found:
            # Everything was taken out by what was done before.
            break
        container, key = rng.choice(found)
        other, its = rng.choice(found)
        choice = rng.randrange(6)
        if choice == 0:
            del container[key]
        elif choice == 1 and its in (other if isinstance(other, dict) else range(len(other))):
            container[key] = json.loads(json.dumps(other[its]))
        elif choice == 2 and isinstance(container, dict):
            container[rng.choice(FIELDS)] = junk(rng)
        elif choice == 3 and isinstance(container, list):
            container.insert(key, junk(rng))
        elif choice == 4 and type(container[key]) is int:
            container[key] += rng.choice([-1, 1, 10])
        elif key == "op":
            container[key] = rng.choice([op.name for op in TABLE])
        else:
            container[key] = junk(rng)
    return json.dumps(document)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return a file with some bytes changed, cut off or added, or with a header that says something else."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length].decode(), data[8 + length :]
    choice = rng.randrange(5)
    if choice == 0:
        found = bytearray(data)
        for _ in range(rng.randrange(1, 6)):
            found[rng.randrange(len(found))] = rng.randrange(256)
        return bytes(found)
    if choice == 1:
        return data[: rng.randrange(len(data))] + rng.randbytes(rng.choice([0, 0, 5]))
    if choice == 2:
        return packed(spliced(rng, header).encode("utf-8", "replace"), body)
    if choice == 3:
        return packed(rebuilt(rng, header).encode("utf-8", "replace"), body)
    # A document that says something else, in a file that is whole.
    parsed = json.loads(header)
    start, end = parsed["circuit"]["data_offsets"]
    document = rng.choice([spliced, rebuilt])(rng, body[start:end].decode()).encode("utf-8", "replace")
    parsed["circuit"].update(shape=[len(document)], data_offsets=[start, start + len(document)])
    return packed(json.dumps(parsed).encode(), body[:start] + document)


def packed(header: bytes, body: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + body


def outcome(read: Callable[[], Circuit]) -> tuple[str, float]:
    """Return what came of reading, a circuit or a kind of error, and the time it took."""
    start = time.process_time()
    try:
        found = type(read()).__name__
    except wg.WiregradError as error:
        assert str(error)
        found = type(error).__name__
    return found, time.process_time() - start


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.full)])
def test_mutated_files_are_circuits_or_typed_errors_in_little_time_and_room(count: int, tmp_path: Path) -> None:
    rng = random.Random(0)
    circuits = seeds()
    texts, path = [write_json(circuit) for circuit in circuits], tmp_path / "a.wg"
    files = []
    for circuit in circuits:
        save(circuit, path)
        files.append(path.read_bytes())
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, int] = {}
    for k in range(count):
        mutate = (spliced, rebuilt, damaged)[k % 3]
        data = mutate(rng, rng.choice(files if mutate is damaged else texts))  # type: ignore[operator]
        if isinstance(data, bytes):
            path.write_bytes(data)
            kind, seconds = outcome(lambda: load(path))
        else:
            kind, seconds = outcome(lambda data=data: parse_json(data))  # type: ignore[misc]
        found[kind] = found.get(kind, 0) + 1

        assert seconds < 2, data

    assert found["Circuit"] > count // 50
    assert found["FileFormatError"] > count // 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 512 * 1024


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_mutated_texts_of_array_circuits_are_circuits_or_typed_errors(count: int) -> None:
    rng = random.Random(1)
    texts = [circuit.to_text() for circuit in seeds()]  # type: ignore[attr-defined]
    words = [json.dumps(item).replace(" ", "") for item in JUNK if not isinstance(item, dict)]
    good = 0
    for _ in range(count):
        tokens = rng.choice(texts).split(" ")
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(tokens))
            name, sign, _ = tokens[at].partition("=")
            word = rng.choice([*words, *tokens])
            tokens[at] = f"{name}={word}" if sign and rng.random() < 0.8 else word
        kind, seconds = outcome(lambda tokens=tokens: wg.Circuit.from_text(" ".join(tokens)))  # type: ignore[misc]
        good += kind == "Circuit"

        assert seconds < 2, tokens

    assert count // 50 < good < count
