"""Circuits that nobody vouches for, compiled and run: the process never dies, and what compiles is right.

The work is done in a process of its own, by this file run as a program: a wrong jump or address would end it by a
signal, and the text it was at is left behind.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.errors import WiregradError
from wiregrad.files import parse_json, write_json
from wiregrad.inspect.receipt import ReceiptPoint

from ..support.limits import PATIENCE
from ..support.mutations import FORMULAS, rebuilt, reworded, spliced
from ..support.native import by_batch, by_stencils
from ..support.random_circuits import random_circuit, random_point

ROOT = Path(__file__).parents[2]


def scalars() -> list[Circuit]:
    """Return circuits of numbers, small enough that a change is likely to hit something."""
    found = [wg.circuit(formula) for formula in FORMULAS]
    return [*found, *(random_circuit(np.random.default_rng([5, k]), nodes=2 + k) for k in range(10))]


def compare(circuit: Circuit, seed: int) -> None:
    """Run a circuit natively at a point, where it can be, and hold its first output against the interpreter."""
    point = list(random_point(np.random.default_rng(seed), circuit).values())
    inputs = [circuit.type_of(node).dtype.type(x) for node, x in zip(circuit.input_indices(), point, strict=True)]
    rows = [run(circuit, [inputs], 0)[0] for run in (by_stencils, by_batch)]
    single, m = ReceiptPoint(circuit.with_output(circuit.outputs[0]), inputs), len(circuit.outputs)
    for row in rows:
        found = [row[0], *row[m:]]
        if not all(single.judge_result(k, value).fits for k, value in enumerate(found)):
            raise AssertionError(f"{found} is not {single.reference_results} at {inputs}")


def texts(seed: int, first: int, last: int, note: Path) -> int:
    """Compile and run mutated texts; returns how many of them were circuits with native code."""
    rng, circuits = random.Random(seed), scalars()
    plain, documents = [circuit.to_text() for circuit in circuits], [write_json(circuit) for circuit in circuits]
    changes: list[tuple[Callable[[random.Random, str], str], list[str], Callable[[str], Any]]] = [
        (reworded, plain, wg.Circuit.from_text),
        (spliced, plain, wg.Circuit.from_text),
        (rebuilt, documents, parse_json),
        (spliced, documents, parse_json),
    ]
    good = 0
    for k in range(first, last):
        mutate, sources, read = changes[k % len(changes)]
        text = mutate(rng, rng.choice(sources))
        note.write_text(text, "utf-8", "surrogatepass")
        try:
            compare(Circuit(read(text).columns), k)
            good += 1
        except WiregradError:
            continue
    return good


def columns(seed: int, first: int, last: int, note: Path) -> int:
    """Compile and run circuits with entries of their arrays changed, which no verifier has seen."""
    rng, circuits, good = np.random.default_rng(seed), scalars(), 0
    names = ["codes", "starts", "sources", "types", "constant_nodes", "outputs"]
    for _ in range(first, last):
        given = circuits[rng.integers(len(circuits))].columns
        changed = {name: getattr(given, name).copy() for name in rng.choice(names, size=rng.integers(1, 3))}
        for array in changed.values():
            wild = [0, 1, 2, -1, len(given.codes), len(given.codes) - 1, 50, 300, 65_535, 2**31 - 1, -(2**31)]
            small = [value for value in wild if np.iinfo(array.dtype).min <= value <= np.iinfo(array.dtype).max]
            array[rng.integers(len(array), size=min(1, len(array)))] = rng.choice(small)
        note.write_text(repr(changed), "utf-8")
        try:
            circuit = Circuit(replace(given, **changed))
            for run in (by_stencils, by_batch):
                run(circuit, [rng.normal(size=len(circuit.input_indices()))], 0)
            good += 1
        except WiregradError:
            continue
    return good


JOBS = {"texts": texts, "columns": columns}


@pytest.mark.parametrize(
    ("job", "first", "last"),
    [
        ("texts", 0, 100),
        ("columns", 0, 50),
        *(pytest.param("texts", k, k + 25_000, marks=pytest.mark.full) for k in range(0, 100_000, 25_000)),
        pytest.param("columns", 0, 20_000, marks=pytest.mark.full),
    ],
)
def test_mutated_circuits_never_end_the_process(job: str, first: int, last: int, tmp_path: Path) -> None:
    note = tmp_path / "last"
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.backends.test_native_fuzz",
        job,
        str(first),
        str(last),
        note,
    ]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)  # type: ignore[arg-type]

    assert done.returncode == 0, f"{done.stderr}\nat:\n{note.read_text('utf-8', 'replace')}"
    assert int(done.stdout) > (last - first) // 25


if __name__ == "__main__":
    job, first, last, place = sys.argv[1:]
    sys.stdout.write(str(JOBS[job](int(first), int(first), int(last), Path(place))))
