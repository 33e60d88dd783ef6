"""Files that nobody vouches for: whatever stands in them, reading one ends in a circuit or in a typed error."""

from __future__ import annotations

import json
import random
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import wiregrad as wg
from wiregrad.files import load, parse_json, save, write_json
from wiregrad.ir import CircuitGraph

from ..support.mutations import rebuilt, reworded, seeds, spliced


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


def outcome(read: Callable[[], CircuitGraph]) -> tuple[str, float]:
    """Return what came of reading, a circuit or a kind of error, and the time it took."""
    start = time.process_time()
    try:
        found = type(read()).__name__
    except wg.WiregradError as error:
        assert str(error)
        found = type(error).__name__
    return found, time.process_time() - start


@pytest.mark.parametrize("count", [600, pytest.param(100_000, marks=pytest.mark.full)])
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

        assert seconds < 20, data

    assert found["CircuitGraph"] > count // 50
    assert found["FileFormatError"] > count // 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 512 * 1024


@pytest.mark.parametrize("count", [1_000, pytest.param(20_000, marks=pytest.mark.full)])
def test_mutated_texts_of_array_circuits_are_circuits_or_typed_errors(count: int) -> None:
    rng = random.Random(1)
    texts = [circuit.to_text() for circuit in seeds()]  # type: ignore[attr-defined]
    good = 0
    for _ in range(count):
        text = reworded(rng, rng.choice(texts))
        kind, seconds = outcome(lambda text=text: wg.Circuit.from_text(text))  # type: ignore[misc]
        good += kind == "Circuit"

        assert seconds < 20, text

    assert count // 50 < good < count
