"""Conditions used as numbers, indices, masks and keys: every way of running a function follows the plain function."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import WiregradError

from .conditional_programs import Program, random_program

COUNT, SAMPLE, PART = 5_000, 300, 100
ULPS = 4


def eager(f: Callable[..., Any], *args: Any) -> Any:
    return wg.vjp(f, *args)[0]


def traced(f: Callable[..., Any], *args: Any) -> Any:
    circuit = wg.trace(f, *args)
    found = circuit(dict(zip(circuit.inputs, args, strict=True)))
    return tuple(found.values()) if isinstance(found, dict) else found


class Outcome:
    """What a call gave or raised."""

    def __init__(self, f: Callable[..., Any], *args: Any) -> None:
        self.result: Any = None
        self.error: Exception | None = None
        with np.errstate(all="ignore"):
            try:
                self.result = f(*args)
            except Exception as error:  # noqa: BLE001 - whatever a plain function raises counts
                self.error = error

    def difference(self, plain: Outcome, *, typed: bool) -> str | None:
        """Return how this differs from what plain Python did in silence; `typed`: the types of results count."""
        if self.error is not None:
            if isinstance(self.error, WiregradError) or type(self.error) is type(plain.error):
                return None
            return f"raised {type(self.error).__name__}: {self.error}; plain gave {plain.shown()}"
        if plain.error is not None:
            # 1/0 is inf everywhere, by rule F of the semantics.
            excused = isinstance(plain.error, ZeroDivisionError)
            return None if excused else f"gave {self.shown()}; plain raised {type(plain.error).__name__}: {plain.error}"
        same = alike(self.result, plain.result, typed=typed)
        return None if same else f"gave {self.shown()}; plain gave {plain.shown()}"

    def shown(self) -> str:
        return repr(self.result) if self.error is None else f"{type(self.error).__name__}: {self.error}"


def alike(one: Any, two: Any, *, typed: bool) -> bool:
    if isinstance(two, list | tuple):
        if not isinstance(one, list | tuple) or len(one) != len(two):
            return False
        return all(alike(a, b, typed=typed) for a, b in zip(one, two, strict=True))
    if typed and kind_of(one) != kind_of(two):
        return False
    if isinstance(two, str):
        return bool(one == two)
    a, b = np.asarray(one), np.asarray(two)
    return a.shape == b.shape and bool(np.all(close(a.astype(float), b.astype(float))))


def close(a: Any, b: Any) -> Any:
    return (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= ULPS * np.spacing(np.maximum(abs(a), abs(b))))


def kind_of(result: Any) -> Any:
    """Return what matters about a type for what is done with a result next; a float is one in Python and NumPy."""
    if isinstance(result, float | np.float64) or (isinstance(result, np.ndarray) and result.shape == ()):
        return "number" if np.asarray(result).dtype.kind == "f" else np.asarray(result).dtype
    return (result.dtype, result.shape) if isinstance(result, np.ndarray) else type(result)


def outcomes(program: Program) -> Iterator[tuple[str, tuple[Any, ...], Outcome, Outcome, str | None]]:
    """Run a program in every way at every point; the compiled one twice, so that recordings are replayed."""
    compiled = wg.compile(program.f)
    for args in (*program.points, *program.points):
        plain = Outcome(program.f, *args)
        outcome = Outcome(compiled, *args)
        yield "compiled", args, plain, outcome, outcome.difference(plain, typed=True)
    for args in program.points:
        plain = Outcome(program.f, *args)
        outcome = Outcome(eager, program.f, *args)
        yield "eager", args, plain, outcome, outcome.difference(plain, typed=True)
        outcome = Outcome(traced, program.f, *args)
        yield "traced", args, plain, outcome, outcome.difference(plain, typed=False)


def check(seeds: range) -> Counter[str]:
    """Run random programs; returns how often each way agreed and raised, and fails on the first silent difference."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        program = random_program(seed)
        for way, args, plain, outcome, difference in outcomes(program):
            assert difference is None, f"seed {seed}, {way} at {args}: {difference}\n{program.source}"
            refused = outcome.error is not None and plain.error is None
            counts[f"{way}: {'refused' if refused else 'agreed'}"] += 1
    return counts
