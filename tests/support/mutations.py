"""Circuits that were damaged: texts and documents with pieces changed, moved, left out or added."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad.ir import TABLE, CircuitGraph

from .random_circuits import random_circuit
from .random_programs import random_program

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
WORDS = [json.dumps(item).replace(" ", "") for item in JUNK if not isinstance(item, dict)]
FIELDS = ["inputs", "value", "type", "settings", "kink", "names", "tensor", "q"]


def seeds() -> list[CircuitGraph]:
    """Return circuits of numbers and of arrays, small enough that a change is likely to hit something."""
    found: list[CircuitGraph] = [wg.circuit(formula) for formula in FORMULAS]
    found += [random_circuit(np.random.default_rng([3, k]), nodes=8) for k in range(4)]
    for seed in range(12):
        program = random_program(seed)
        found.append(wg.trace(program.make_function(wiregrad=wg), *program.inputs.values()))
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


def reworded(rng: random.Random, text: str) -> str:
    """Return a text with a few of its words replaced by others."""
    tokens = text.split(" ")
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(tokens))
        name, sign, _ = tokens[at].partition("=")
        word = rng.choice([*WORDS, *tokens])
        tokens[at] = f"{name}={word}" if sign and rng.random() < 0.8 else word
    return " ".join(tokens)
