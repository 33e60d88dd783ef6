"""Random functions that use conditions as numbers, indices, masks and keys.

A function is written as Python source from a grammar with five kinds of expressions: numbers, conditions, whole
numbers, arrays and masks. Arithmetic is kept to what Python and NumPy compute alike (no division by a wire, no fraction
as an exponent), so that a difference between two ways of running a function comes from its conditions.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

HELPERS = """
ITEMS = np.array([0.5, 1.5])
NAMED = [0.5, 1.5]


def chosen(flag, one, other):
    return one if flag is True else other


def described(flag):
    return 1.0 if type(flag) is bool else 2.0


def counted(*flags):
    total = 0
    for flag in flags:
        total += flag
    return total
"""
SIZE = 3
"""How many elements arrays have."""

NUMBERS = """
{n} + {n} ; {n} - {n} ; {n} * {n} ; {n} / 2.0 ; -{n} ; abs({n}) ; np.sqrt(abs({n})) ; np.floor({n})
np.maximum({n}, {n}) ; max({n}, {n}) ; min({n}, {n}) ; {c} * {n} ; {n} * {c} ; {n} + {c} ; {c} - {n} ; {n} ** {c}
{w} * {n} ; {n} - {w} ; {n} + {w} / 2 ; {w} / 4 + {n} ; {n} % ({w} + 7.5) ; {n} // 0.75 ; np.where({c}, {n}, {n})
({n} if {c} else {n}) ; [{n}, {n}][{c}] ; ({n}, {n})[{c}] ; ⟨True: {n}, False: {n⟩}[{c}] ; ⟨1: {n⟩}.get({c}, {n})
⟨0.5: {n}, 1.5: 2.0⟩.get({v}, {n}) ; float({c}) * {n} ; int({c}) + {n} ; sum([{c}, {c}]) * {n} ; ({c} and {n}) + 1.0
({c} or {n}) * 2.0 ; np.sum({a}) ; {a}.mean() ; {a}[{i}] ; {a}.max() ; {a}[{m}].sum() ; np.dot({m}, {a}) ; {a} @ {m}
({m} * {a}).sum() ; {a}[int({c})] ; np.where({m}, {a}, {n}).sum() ; np.count_nonzero({m}) * {n} ; {m}.sum() * {n}
{m}.mean() + {n} ; np.sum({m}) * {n} ; np.mean({m}) ; chosen({c}, {n}, {n}) ; described({c}) * {n}
counted({c}, {c}) * {n} ; "ab".index("ab"[{c}]) * {n} ; {n} * [0.5, 1.5, 2.5][sum([{c}, {c}])] ; {n} * len("ab" * {c})
np.float64({c}) * {n} ; {n} + ({n} > 0.1) * 1 ; {n} * ({n} > 0.1) ; {n} + (str({c}) == "True") ; {a}[{c}].sum()
{a}[{w} % 3] ; {a}[{m} & {m}].sum() ; np.average({a}, weights={m} + 1) ; np.select([{c}, {c}], [{n}, {n}], {n})
sorted([{n}, {n}, {n}])[{c}] ; {n} * {c} ** 2 ; np.add({n}, {c}) ; np.multiply({c}, {n}) ; np.clip({n}, -{c}, 1 + {c})
{n} * (not {c}) ; next(item for item in ({n}, {n}, 0.5) if item < 9 or {c}) ; np.copysign({n}, {w} - 1)
pow({n}, {c}) ; divmod({n}, 0.75)[{c}] ; round({n} * 0 + 3.25, 1) * {c}
"""
CONDITIONS = """
{n} < {n} ; {n} <= {n} ; {n} > {n} ; {n} >= {n} ; {n} == {n} ; {n} != {n} ; {n} > 0.25 ; 0.5 < {n} ; {n} < 1
{n} == 0.5 ; -1.0 < {n} < 1.0 ; not {c} ; {c} & {c} ; {c} | {c} ; {c} ^ {c} ; {c} == {c} ; {c} != True ; {c} == 1
bool({n}) ; {n} in (0.5, 1.5) ; {v} in ⟨0.5, 1.5⟩ ; {m}.any() ; {m}.all() ; np.any({m}) ; np.all({m}) ; {m}[{i}]
{w} > 1 ; {w} == 1 ; {w} <= 0 ; np.logical_and({c}, {c}) ; np.logical_not({c}) ; np.logical_or({c}, {c})
np.isnan({n}) ; np.isfinite({n}) ; isinstance({c}, bool) ; isinstance({c}, np.bool_) ; ({c} is True)
({c} is not False) ; ({c} is np.True_) ; (type({c}) is bool) ; any([{c}, {c}]) ; all([{c}, {c}]) ; ({c} and {c})
({c} or {c}) ; {c} == 0 ; {c} < {c} ; {c} >= {c} ; ({c} in [True]) ; ({c} in ⟨False⟩) ; {a}[{i}] > {n}
np.greater({n}, {n}) ; ({n} > 0) ; ({c} if {c} else {c}) ; True & {c} ; {c} | False ; {c} ^ True ; np.equal({c}, {c})
max({c}, {c}) ; (str({c}) == "True") ; {c} == {w} ; ("⟨⟩".format({c}) == "True") ; np.isscalar({x}) ; np.isscalar({c})
np.signbit({n})
"""
WHOLES = """
{c} + {c} ; {c} - {c} ; {c} * 3 ; 2 * {c} ; -{c} ; +{c} ; ~{c} ; {c} << 1 ; {c} // True ; {c} % 2 ; {c} ** 2
2 ** {c} ; abs({c}) ; int({c}) ; sum([{c}, {c}, {c}]) ; {m}.sum() ; np.sum({m}) ; np.count_nonzero({m})
np.argmax({m}) ; [{c}, {c}].count(True) ; divmod({c}, 2)[0] ; round({c}) ; max({c}, {c}) ; min({c}, 2) ; {w} + {w}
{w} * 2 ; {w} & 1 ; {w} ^ {c} ; {c} + 1 ; 3 - {c} ; np.add({c}, {c}) ; np.multiply({c}, 2) ; hash({c}) ; {m}.argmax()
({c} == 1) + 0 ; counted({c}, {c}, {c}) ; {w} - {w} ; {w} // 2 ; {w} % 2 ; -{w} ; abs({w}) ; len([1] * {c}) ; {c} >> 1
5 & {c} ; {c} * {c} ; {c} | 2 ; np.subtract({c}, {c}) ; np.sum([{c}, {c}]) ; np.maximum({c}, {c})
np.array([{c}, {c}]).sum() ; int({w}) ; (1, 2)[{c}] ; ⟨True: 3⟩.get({c}, 4) ; ~{w} ; np.int64({c})
{m}[{i}] + {m}[{i}] ; {m}[{i}] * 2 ; np.cumsum({m})[{i}] ; {c}.real ; np.power({c}, 2) ; np.negative({w}) ; +{w}
{w} + True ; {w} ** 2 ; {c} + {w} ; {w} * {c} ; np.where({c}, 1, 2) ; range({w} % 2 + 2)[{c}] ; np.dot({m}, {m})
sum({m}) ; {m}.tolist().count(True) ; len(np.flatnonzero({m}))
"""
ARRAYS = """
{a} + {a} ; {a} - {a} ; {a} * {a} ; {a} * {n} ; {n} + {a} ; np.sqrt(abs({a})) ; np.where({m}, {a}, {a}) ; {a} * {m}
{m} + {a} ; {m} * 1.0 ; {m}.astype(float) ; {a} ** {m} ; {a}[::-1] ; np.cumsum({a}) ; {a} - {m}
np.stack([{n}, {n}, {n}]) ; np.where({c}, {a}, {a}) ; {a} * {c} ; {a} + {w} ; {a}[[{w} % 3, 0, 1]]
np.maximum({a}, {n}) ; np.where({m}, {n}, {a}) ; ({a} if {c} else {a}) ; [{a}, {a}][{c}] ; {a} * {m}.astype(int)
np.where({m}, 1.0, 0.0) ; {a} * (1 - {m}) ; abs({a}) ; np.array([{c}, {c}, {c}]) * {a} ; {a} * ~{m} ; {a} / (1 + {m})
np.multiply({m}, {a}) ; 2.0 * {m} ; {a} * {m} * {m} ; np.sort({a}) ; np.roll({a}, {c})
{a}[np.argsort({m}, kind="stable")] ; np.where({m}, {a}, 0.0) ; np.clip({a}, {c}, 2)
"""
MASKS = """
{a} < {a} ; {a} > {n} ; {n} <= {a} ; {a} > 0.0 ; {m} & {m} ; {m} | {m} ; {m} ^ {m} ; ~{m} ; {m} + {m} ; {m} * {m}
{m} == {m} ; np.logical_not({m}) ; {m} & {c} ; {c} | {m} ; {m} ^ {c} ; -{m} ; {m} - {m} ; np.isfinite({a})
np.logical_xor({m}, {m}) ; {m}[::-1] ; {m} != {c} ; np.where({m}, {m}, {c}) ; {a} == {a} ; {m} + {c} ; {m} * {c}
np.logical_and({m}, {c}) ; {a} != 0.5 ; np.array([{c}, {c}, {c}]) ; ({m} if {c} else {m}) ; {m}[[0, 2, 1]]
np.roll({m}, 1) ; {m} >= {m} ; {m} < {c} ; {m} - {c} ; np.bitwise_and({m}, {m}) ; np.invert({m}) ; {m}.copy()
np.concatenate([{m}[:1], {m}[1:]]) ; np.sort({m})
"""


RARE = frozenset(
    """
[{n}, {n}][{c}] ; ({n}, {n})[{c}] ; "ab".index("ab"[{c}]) * {n} ; {n} * len("ab" * {c}) ; sorted([{n}, {n}, {n}])[{c}]
divmod({n}, 0.75)[{c}] ; {c} - {n} ; -{c} ; {c} - {c} ; len([1] * {c}) ; (1, 2)[{c}] ; range({w} % 2 + 2)[{c}]
round({c}) ; NAMED[{c}] * {n} ; {w} - {w} ; -{w} ; +{c} ; +{w} ; np.subtract({c}, {c}) ; np.negative({w}) ; -{m}
{m} - {m} ; {m} - {c}
[{a}, {a}][{c}] ; np.clip({n}, -{c}, 1 + {c})
""".replace("\n", " ; ").split(" ; ")
)
"""What Python takes and NumPy refuses: drawn less often, so that most functions have an answer for both."""


class Program(NamedTuple):
    """A function, its source, and the arguments it is tried with."""

    f: Callable[..., Any]
    source: str
    points: list[tuple[Any, ...]]


class Writer:
    """Writes one random function."""

    def __init__(self, rng: np.random.Generator, has_array: bool) -> None:
        self.rng, self.has_array = rng, has_array
        self.names: dict[str, list[str]] = {"n": ["x", "y"], "c": [], "w": [], "a": ["v"] if has_array else [], "m": []}

    def pick(self, options: list[str]) -> str:
        return options[self.rng.integers(len(options))]

    def write(self, kind: str, depth: int) -> str:
        """Write an expression of a kind."""
        if kind == "i":
            return self.pick(["0", "1", "2", "-1"])
        if kind in "vx":
            # A number that is no 0-d array: of those, NumPy says that they are no scalars, and no keys.
            return self.pick(["x", "y", "(x + 0.5)", "(x * y)", *(["v[0]", "v.sum()"] if self.has_array else [])])
        names = self.names[kind]
        if names and (depth <= 0 or self.rng.random() < 0.15):
            return self.pick(names)
        if depth <= 0:
            return f"({self.leaf(kind)})"
        return f"({self.filled(self.pick(self.templates(kind)), depth - 1)})"

    def leaf(self, kind: str) -> str:
        number = self.pick(self.names["n"])
        threshold = self.pick(["0.5", "1.0", "-0.5", "1.5", "0"])
        array = "v" if self.has_array else "np.stack([x, y, x])"
        return {
            "n": self.pick([number, threshold]),
            "c": f"{number} {self.pick(['>', '<', '>=', '<=', '==', '!='])} {threshold}",
            "w": f"({number} > {threshold}) + ({number} > 0)",
            "a": array,
            "m": f"{array} > {threshold}",
        }[kind]

    def filled(self, template: str, depth: int) -> str:
        """Write a template with expressions in its places, each drawn anew."""
        for kind in "ncwamivx":
            while f"{{{kind}}}" in template:
                template = template.replace(f"{{{kind}}}", self.write(kind, depth), 1)
        return template.replace("⟨", "{").replace("⟩", "}")

    def templates(self, kind: str) -> list[str]:
        found = TEMPLATES[kind] if self.rng.random() < 0.1 else [text for text in TEMPLATES[kind] if text not in RARE]
        return found if self.has_array else [text for text in found if "{a}" not in text and "{m}" not in text]

    def statements(self) -> list[str]:
        """Write the body of the function."""
        lines: list[str] = []
        for k in range(self.rng.integers(1, 5)):
            kind = self.pick(["n", "n", "c", "c", "w", "a", "m"] if self.has_array else ["n", "n", "c", "c", "w"])
            name = f"{kind}{k}"
            style = self.rng.random()
            if style < 0.75:
                lines.append(f"{name} = {self.write(kind, 2)}")
            elif style < 0.85:
                lines += [f"if {self.write('c', 1)}:", f"    {name} = {self.write(kind, 1)}"]
                lines += ["else:", f"    {name} = {self.write(kind, 1)}"]
            elif style < 0.95:
                kind, name = "w", f"w{k}"
                condition = self.write("c", 1)
                lines += [f"{name} = 0", "for step in range(3):", f"    {name} += {condition}"]
            else:
                lines.append(f"{name} = {self.write(kind, 2)} if {self.write('c', 1)} else {self.write(kind, 1)}")
            self.names[kind].append(name)
        kinds = ["n"] * 6 + ["c", "w"] + (["a", "m"] if self.has_array else [])
        kind = self.pick(kinds)
        result = self.write(kind, 2)
        lines.append(f"return ({result}, {self.write('c', 1)})" if self.rng.random() < 0.1 else f"return {result}")
        return lines


def _split(text: str) -> list[str]:
    return [part for line in text.strip().splitlines() for part in line.split(" ; ")]


TEMPLATES = {
    kind: _split(text) for kind, text in zip("ncwam", (NUMBERS, CONDITIONS, WHOLES, ARRAYS, MASKS), strict=True)
}
NUMBER_POOL = (0.5, 1.5, 0.0, -0.0, 1.0, -0.5, 2.0, -1.25, 0.75, 3.5, -2.0, 1.0000000000000002)


def random_program(seed: int) -> Program:
    """Return a random function and four points: Python floats, np.float64, and one of each."""
    rng = np.random.default_rng(seed)
    has_array = bool(rng.random() < 0.5)
    body = Writer(rng, has_array).statements()
    parameters = "x, y, v" if has_array else "x, y"
    source = HELPERS + f"\n\ndef f({parameters}):\n" + "".join(f"    {line}\n" for line in body)
    file = f"conditional_program_{seed}.py"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"np": np}
    exec(compile(source, file, "exec"), namespace)
    kinds = [(float, float), (np.float64, np.float64), (float, np.float64), (float, float), (np.float64, np.float64)]
    points = [_point(rng, *kind, has_array=has_array) for kind in kinds]
    return Program(namespace["f"], source, points)


def _point(rng: np.random.Generator, one: Any, two: Any, *, has_array: bool) -> tuple[Any, ...]:
    numbers = [kind(NUMBER_POOL[rng.integers(len(NUMBER_POOL))]) for kind in (one, two)]
    array = [np.array(rng.choice(NUMBER_POOL, SIZE))] if has_array else []
    return (*numbers, *array)
