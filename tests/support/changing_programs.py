"""Random branching functions that read variables from outside, which change between calls.

A function is written as Python source: nested branches, early returns of constants, errors, loops that are left, lists
that are filled. Arithmetic is kept to operations with one right rounding (`x ** 2` of Python is not: it may differ from
`x * x` in the last bit), so that values have the bits of plain Python whichever branches were recorded. Where
`np.maximum` ties with a number that a branch chose, gradients depend on the recording; `max` and `min` are comparisons
and do not.
"""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HEAD = """
import numpy as np

FACTOR, FLAG, ITEMS, ARRAY = 0.75, True, [0.5, -1.5, 2.0], np.array([0.25, -0.5, 1.5])


class Model:
    bend = 1.25


MODEL = Model()


def helper(u, v):
    if u > v:
        return u * 0.5
    if v < 0.0:
        return v - u
    return 1.0


def fall_off(u, least=0.25):
    return u - least if u > least else (u * 2.0 if u < 0.0 else 0.0)


def make(shift):
    def change(number):
        nonlocal shift
        shift = number

"""


def _split(text: str) -> list[str]:
    return [part for line in text.strip().splitlines() for part in line.split(" ; ")]


NUMBERS = _split("""
{n} + {n} ; {n} - {n} ; {n} * {n} ; {n} * {n} ; {n} / 2.0 ; -{n} ; abs({n}) ; max({n}, {n}) ; min({n}, {n}, {n})
({n} if {c} else {n}) ; helper({n}, {n}) ; fall_off({n}) ; fall_off({n}, least={n}) ; np.sqrt(abs({n}))
np.square({n}) ; np.negative({n}) ; np.floor({n}) ; np.add({n}, {n}) ; ITEMS[{k}] * {n} ; ARRAY[{k}] + {n}
FACTOR * {n} ; shift - {n} ; MODEL.bend * {n} ; sum([{n}, {n}]) ; ({n}, {n})[{k} > 0] ; ({n} or {n}) ; ({n} and {n})
len(ITEMS) * {n} ; ({c}) * {n} ; sum(x for x in ITEMS if x > {n}) ; max(ITEMS) - {n} ; [{n}, {n}, {n}][{k}]
np.where({c}, {n}, {n})
""")
CONDITIONS = _split("""
{n} < {n} ; {n} > {n} ; {n} <= {n} ; {n} >= 0.0 ; {n} == {n} ; {n} != 0.5 ; 0.0 < {n} <= {n} ; -1.0 <= {n} < 1.5
not {c} ; ({c} and {c}) ; ({c} or {c}) ; np.isnan({n}) ; FLAG ; bool({n}) ; {n} in (0.0, 0.5)
any(x > {n} for x in ITEMS)
""")
CONSTANTS = _split("0 ; 3 ; 0.0 ; -0.0 ; 1.5 ; True ; float('nan') ; np.inf ; np.float64(0.5) ; np.int64(2) ; FACTOR")
LITERALS = ["0.0", "-0.0", "1.0", "0.5", "-1.0", "2.0", "2"]
ARGUMENTS = {
    "a, b, c": ["a", "b", "c"],
    "p": ["p[0]", "p[1]", "p[2]"],
    "p, c": ["p['u']", "p['v']", "c"],
}
"""The parameters of a function, and how it reads three numbers from them."""
NUMBER_POOL = (0.0, -0.0, 0.5, 1.0, -1.0, 1.5, -0.5, 2.0, 0.25, 3.0, -1.25, 1.0000000000000002, 7.0, -6.5)
ODD_NUMBERS = (float("nan"), float("inf"), float("-inf"), 1e300, 5e-324)


@dataclass
class ChangingProgram:
    """A function, and what changes what it reads."""

    f: Callable[..., Any]
    source: str
    parameters: str
    namespace: dict[str, Any]
    change_shift: Callable[[float], None]

    def change(self, rng: random.Random) -> None:
        """Change one thing that the function may read."""
        number = rng.choice(NUMBER_POOL)
        match rng.randrange(6):
            case 0:
                self.namespace["FACTOR"] = number
            case 1:
                self.namespace["FLAG"] = not self.namespace["FLAG"]
            case 2:
                self.namespace["ITEMS"][rng.randrange(3)] = number
            case 3:
                self.namespace["ARRAY"][rng.randrange(3)] = number
            case 4:
                self.namespace["MODEL"].bend = number
            case _:
                self.change_shift(number)

    def make_arguments(self, numbers: Any) -> tuple[Any, ...]:
        """Return arguments with three numbers, or three vectors."""
        a, b, c = numbers
        return {"a, b, c": (a, b, c), "p": ([a, b, c],), "p, c": ({"u": a, "v": b}, c)}[self.parameters]


def draw_point(rng: random.Random) -> list[float]:
    """Return three numbers, with ties, zeros of both signs, and what is not finite."""
    numbers = [rng.choice(ODD_NUMBERS if rng.random() < 0.06 else NUMBER_POOL) for _ in range(3)]
    if rng.random() < 0.3:
        numbers[rng.randrange(3)] = rng.uniform(-3.0, 3.0)
    return numbers


class _Writer:
    """Writes one random function."""

    def __init__(self, rng: random.Random, names: list[str]) -> None:
        self.rng = rng
        self.numbers = list(names)
        self.counts: list[str] = []
        """The variables of the loops around the current line."""
        self.lists: list[str] = []
        self.made = 0

    def make_name(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def write(self, kind: str, depth: int) -> str:
        """Write a number (`n`), a condition (`c`) or an index (`k`)."""
        if kind == "k":
            return self.rng.choice(["0", "1", "-1", *self.counts])
        if kind == "n" and (depth <= 0 or self.rng.random() < 0.2):
            items = [f"{name}[{self.write('k', 0)}]" for name in self.lists]
            return self.rng.choice(LITERALS if self.rng.random() < 0.2 else [*self.numbers, *items])
        text = self.rng.choice(NUMBERS if kind == "n" else CONDITIONS[: None if depth > 0 else 8])
        for part in "nck":
            while f"{{{part}}}" in text:
                text = text.replace(f"{{{part}}}", self.write(part, depth - 1), 1)
        return f"({text})"

    def write_block(self, depth: int, most: int) -> list[str]:
        """Write some statements; what they assign may be unbound after them."""
        bound = len(self.numbers), len(self.lists)
        lines = [line for _ in range(self.rng.randint(1, most)) for line in self.write_statement(depth)]
        del self.numbers[bound[0] :], self.lists[bound[1] :]
        return [f"    {line}" for line in lines]

    def write_statement(self, depth: int) -> list[str]:
        kind = self.rng.random() if depth > 0 else 0.5 * self.rng.random()
        variables = [name for name in self.numbers if name.isidentifier()]
        if kind < 0.1 and variables:
            return [f"{self.rng.choice(variables)} {self.rng.choice('+-*')}= {self.write('n', 1)}"]
        if kind < 0.16 and self.lists:
            return [f"{self.rng.choice(self.lists)}[{self.write('k', 0)}] = {self.write('n', 1)}"]
        if kind < 0.22:
            line = f"{(name := self.make_name('items'))} = [{', '.join(self.write('n', 1) for _ in range(3))}]"
            self.lists.append(name)
            return [line]
        if kind < 0.5:
            name = self.rng.choice(variables) if variables and self.rng.random() < 0.5 else self.make_name("v")
            line = f"{name} = {self.write('n', 2)}"
            self.numbers += [] if name in self.numbers else [name]
            return [line]
        return self.write_branches(depth) if kind < 0.8 else self.write_loop(depth)

    def write_branches(self, depth: int) -> list[str]:
        lines = [f"if {self.write('c', 2)}:", *self.write_arm(depth)]
        if self.rng.random() < 0.3:
            lines += [f"elif {self.write('c', 1)}:", *self.write_arm(depth)]
        if self.rng.random() < 0.5:
            lines += ["else:", *self.write_arm(depth)]
        return lines

    def write_arm(self, depth: int) -> list[str]:
        kind = self.rng.random()
        if kind < 0.12:
            return [f"    return {self.rng.choice(CONSTANTS)}"]
        if kind < 0.2:
            return [f"    return {self.write('n', 1)}"]
        if kind < 0.22:
            return [f"    raise ValueError({self.rng.choice(LITERALS)})"]
        if kind < 0.3 and self.counts:
            return [f"    {self.rng.choice(['break', 'continue'])}"]
        return self.write_block(depth - 1, 2)

    def write_loop(self, depth: int) -> list[str]:
        name = self.make_name("k")
        if self.rng.random() < 0.3:
            # The count ends the loop where the number does not get small.
            head = [f"{name} = 0", f"while {self.rng.choice(self.numbers)} > 0.5 and {name} < 3:", f"    {name} += 1"]
        else:
            head = [f"for {name} in range({self.rng.choice('23')}):"]
        self.counts.append(name)
        body = self.write_block(depth - 1, 3)
        self.counts.remove(name)
        return [*head, *body]

    def write_function(self) -> list[str]:
        lines = [line for _ in range(self.rng.randint(1, 5)) for line in self.write_statement(2)]
        return [*lines, f"return {self.write('n', 2)}"]


def make_changing_program(seed: int, *, with_source: bool = True) -> ChangingProgram:
    """Return a random function and what it reads; without source its branches are read from its bytecode."""
    rng = random.Random(seed)
    parameters = rng.choice(list(ARGUMENTS))
    body = _Writer(rng, ARGUMENTS[parameters]).write_function()
    lines = [f"    def f({parameters}):", *(f"        {line}" for line in body), "", "    return f, change", ""]
    source = HEAD + "\n".join(lines)
    file = f"<changing program {seed}, {'its source is' if with_source else 'no source'} at hand>"
    if with_source:
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": file}
    exec(compile(source, file, "exec"), namespace)
    f, change_shift = namespace["make"](0.5)
    return ChangingProgram(f, source, parameters, namespace, change_shift)
