"""Random programs in plain NumPy: seeded, typed, smooth where they are run, and able to shrink.

A program is data: steps that apply an entry of the catalogue to names, with settings. Its source is ordinary NumPy code
that runs unchanged on arrays and on values; tests of a peer with other spellings read the steps instead. A program is
drawn by running it, so that every shape is known when the next step is chosen. A step is added only if its result is
small and finite, and its operands are away from kinks, ties and the ends of domains.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Settings = dict[str, Any]
Operand = str | float | int
"""The name of an input, a constant or an earlier result; or a literal."""
Fits = Callable[..., bool]
"""A function of operands, as arrays, and settings: whether the step is smooth there."""
DrawSettings = Callable[["Draft", Shape], Settings]
"""A function that draws settings for an operand of a shape."""

LARGEST = 20.0
"""Maximum magnitude of an element of a result."""
SIZE = 60
"""Maximum size of a result."""
NDIM = 4
"""Maximum number of axes of a result."""
APART = 1e-3
"""Minimum distance of a point from a kink or a tie."""


# Functions that NumPy does not have, for runs on plain arrays.


def _softmax(x: Any, axis: Any = -1) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


_erf = np.vectorize(math.erf, otypes=[float])

PLAIN = SimpleNamespace(
    softmax=_softmax,
    log_softmax=lambda x, axis=-1: np.log(_softmax(x, axis)),
    logsumexp=_logsumexp,
    ops=SimpleNamespace(
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        softplus=lambda x: np.log1p(np.exp(x)),
        silu=lambda x: x / (1 + np.exp(-x)),
        gelu=lambda x: x * (1 + _erf(x / math.sqrt(2.0))) / 2,
        erf=_erf,
        relu=lambda x: np.maximum(x, 0.0),
        leaky_relu=lambda x, slope: np.where(x > 0, x, slope * x),
    ),
)
"""Takes the place of `wg` where a program runs on plain arrays."""


class Code(str):
    """A setting that is copied into the source without quotes: the name of a function, an operator."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Step:
    """One entry of the catalogue applied to operands."""

    op: str
    targets: tuple[str, ...]
    operands: tuple[Operand, ...]
    settings: Settings
    template: str

    @property
    def source(self) -> str:
        """The step as NumPy source code of one or more lines."""
        targets = ", ".join(self.targets)
        template = self.template if "{t}" in self.template else "{t} = " + self.template
        settings = {name: spelled(value) for name, value in self.settings.items()}
        return template.format(*map(spelled_operand, self.operands), t=targets, **settings)

    @property
    def names(self) -> tuple[str, ...]:
        """The operands that are not literals."""
        return tuple(name for name in self.operands if isinstance(name, str))


def spelled_operand(operand: Operand) -> str:
    """Write an operand as source code; a negative literal gets parentheses, because of `**` and `-`."""
    if isinstance(operand, str):
        return operand
    return f"({operand!r})" if operand < 0 else repr(operand)


def spelled(value: Any) -> str:
    """Write a setting as source code.

    >>> spelled((slice(None, None, -1), None, Ellipsis, np.array([0, 2])))
    '::-1, None, ..., np.array([0, 2])'
    """
    if isinstance(value, tuple) and any(isinstance(item, slice | type(...) | np.ndarray) for item in value):
        return ", ".join(map(spelled, value))
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if parts[2] else parts[:2])
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r})"
    if isinstance(value, float) and math.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    if value is ...:
        return "..."
    return str(value) if isinstance(value, Code) else repr(value)


@dataclass(frozen=True, eq=False)
class Program:
    """A function of a few numbers and arrays that returns one number.

    >>> program = random_program(1)
    >>> float(program.function()(*program.inputs.values())) == float(program.value)
    True
    """

    seed: int
    inputs: dict[str, Any]
    constants: dict[str, Any]
    steps: tuple[Step, ...]
    weights: dict[str, str]
    """The results whose weighted sum is returned, and the constants that are their weights."""
    values: dict[str, Any]
    """The value of every name, computed by NumPy."""

    @property
    def value(self) -> Any:
        """The result, computed by NumPy."""
        return sum(np.sum(self.constants[weight] * self.values[name]) for name, weight in self.weights.items())

    @property
    def source(self) -> str:
        """The program as the source of a NumPy function."""
        lines = [line for step in self.steps for line in step.source.split("\n")]
        total = " + ".join(f"np.sum({weight} * {name})" for name, weight in self.weights.items())
        return "\n    ".join([f"def program({', '.join(self.inputs)}):", *lines, f"return {total}"])

    def function(self, numpy: Any = np, wiregrad: Any = PLAIN) -> Callable[..., Any]:
        """Return the function, with these modules under the names `np` and `wg`."""
        names = {**self.constants, "np": numpy, "wg": wiregrad}
        exec(compile(self.source, f"<program {self.seed}>", "exec"), names)
        function: Callable[..., Any] = names["program"]
        return function

    def directions(self) -> tuple[Any, ...]:
        """Return a random direction for every input."""
        rng = np.random.default_rng([self.seed, 1])
        return tuple(_plain(rng.normal(size=np.shape(x))) for x in self.inputs.values())

    def __str__(self) -> str:
        used = {name for step in self.steps for name in step.names} | set(self.weights.values())
        constants = {name: value for name, value in self.constants.items() if name in used}
        lines = [f"{name} = {spelled(value)}" for name, value in {**self.inputs, **constants}.items()]
        return "\n".join([f"# seed {self.seed}", *lines, self.source])


def _plain(value: Any) -> Any:
    """Return a value as an input: a Python number, or a new array."""
    return float(value) if not np.ndim(value) else np.array(value, order="C")


# Drawing.


@dataclass(frozen=True, eq=False)
class Drawn:
    """What a catalogue entry has drawn: operands, settings, and the template of the source."""

    operands: tuple[Operand, ...]
    settings: Settings = field(default_factory=dict)
    template: str | None = None
    targets: int = 1


@dataclass(frozen=True, eq=False)
class Entry:
    """One kind of step: how it is drawn, how it is written, and where it is smooth."""

    name: str
    template: str
    draw: Callable[[Draft], Drawn | None]
    fits: Fits = lambda *_, **__: True
    methods: tuple[str, ...] = ()
    """Other templates, with methods or operators, if the first operand is an array."""


class Draft:
    """A program that is being drawn, with the values it has so far."""

    def __init__(self, rng: np.random.Generator, inputs: Mapping[str, Any]) -> None:
        self.rng = rng
        self.inputs = dict(inputs)
        self.values: dict[str, Any] = dict(inputs)
        self.constants: dict[str, Any] = {}
        self.steps: list[Step] = []
        self.used: set[str] = set()

    def array(self, operand: Operand) -> Array:
        """Return the value of an operand."""
        return np.asarray(self.values[operand] if isinstance(operand, str) else operand)

    def shape(self, operand: Operand) -> Shape:
        """Return the shape of an operand."""
        return tuple(self.array(operand).shape)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return a random integer between the two, both included."""
        return int(self.rng.integers(low, high + 1))

    def choice(self, items: Sequence[Any]) -> Any:
        """Return one of the items at random."""
        return items[int(self.rng.integers(len(items)))]

    def literal(self) -> float:
        """Return a random number of two decimals, not near zero; sometimes 1 or -1, for which rules have shortcuts."""
        if self.chance(0.1):
            return float(self.choice([-1.0, 1.0]))
        return round(float(self.rng.uniform(0.3, 1.8) * self.rng.choice([-1.0, 1.0])), 2)

    def constant(self, value: Any) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = self.values[name] = value
        return name

    def pick(self, ok: Callable[[Array], bool] = lambda _: True, *, other: Operand | None = None) -> str | None:
        """Return a name whose value passes the test, preferably an unused one, and if possible not `other`."""
        names = [name for name, value in self.values.items() if name not in self.constants and ok(np.asarray(value))]
        names = [name for name in names if name != other] or names
        if not names:
            return None
        fresh = [name for name in names if name not in self.used]
        return str(self.choice(fresh if fresh and self.chance(0.6) else names))

    def array_of(self, least: int = 1, most: int = NDIM, *, length: int = 1) -> str | None:
        """Return a name whose value has `least` to `most` axes, each of at least this length."""
        return self.pick(lambda x: least <= x.ndim <= most and min(x.shape, default=length) >= length)

    def square(self) -> str | None:
        """Return the name of a square matrix, or of a stack of them."""
        return self.pick(lambda x: x.ndim >= 2 and x.shape[-1] == x.shape[-2] >= 2)

    def axis(self, ndim: int) -> int:
        """Return a random axis, counted from either end."""
        return self.integer(-ndim, ndim - 1)

    def axes(self, ndim: int) -> Any:
        """Return the axes of a reduction: None, an axis, or several."""
        if not ndim or self.chance(0.2):
            return None
        if ndim == 1 or self.chance(0.7):
            return self.axis(ndim)
        chosen = self.rng.permutation(ndim)[: self.integer(1, ndim)]
        return tuple(int(axis) - (ndim if self.chance(0.3) else 0) for axis in chosen)

    def partner(self, operand: Operand) -> Operand:
        """Return something that broadcasts with an operand: another name, a literal or a constant array."""
        shape = self.shape(operand)
        name = self.pick(lambda x: _broadcast(x.shape, shape) is not None, other=operand)
        kind = self.rng.random()
        if kind < 0.6 and name is not None:
            return name
        if kind < 0.8 or not shape:
            return self.literal() if self.chance(0.7) else int(self.choice([2, 3, -1]))
        return self.constant(self._constant_like(shape))

    def _constant_like(self, shape: Shape) -> Array:
        shape = tuple(1 if self.chance(0.2) else length for length in shape[self.integer(0, len(shape) - 1) :])
        if self.chance(0.15):
            return self.rng.choice([-2, -1, 1, 2, 3], size=shape)
        return np.round(self.rng.normal(size=shape), 3)

    def pair(self) -> tuple[Operand, Operand] | None:
        """Return two operands of an elementwise function, at least one of them a name, in any order."""
        one = self.pick()
        if one is None:
            return None
        two = self.partner(one)
        return (one, two) if self.chance(0.5) else (two, one)

    def prepared(self, ok: Callable[[Array], bool], template: str, op: str, **settings: Any) -> str | None:
        """Return a name whose value passes the test, or make one by an additional step."""
        name = self.pick(ok)
        if name is not None and self.chance(0.7):
            return name
        source = self.pick()
        return None if source is None else self.add(op, template, Drawn((source,), settings))

    def positive(self) -> str | None:
        """Return the name of a value well above zero."""
        return self.prepared(
            lambda x: bool(np.all(x > 0.2)), "{0} * {0} + {shift}", "lifted", shift=abs(self.literal())
        )

    def unit(self) -> str | None:
        """Return the name of a value well between -1 and 1."""
        return self.prepared(lambda x: bool(np.all(abs(x) < 0.8)), "{scale} * np.sin({0})", "squeezed_in", scale=0.8)

    def gram(self) -> str | None:
        """Make a well-conditioned matrix, or a stack of them, and return its name."""
        source = self.square()
        if source is None:
            return None
        drawn = Drawn((source,), {"n": self.shape(source)[-1]})
        return self.add("gram", "{0} @ np.swapaxes({0}, -1, -2) + {n} * np.eye({n})", drawn)

    def add(self, op: str, template: str, drawn: Drawn, fits: Fits = lambda *_, **__: True) -> str | None:
        """Add a step if it is smooth at its operands and its results are small and finite; return its last result."""
        if not fits(*map(self.array, drawn.operands), **drawn.settings):
            return None
        first = len(self.values) - len(self.constants) - len(self.inputs)
        targets = tuple(f"v{first + k}" for k in range(drawn.targets))
        step = Step(op, targets, drawn.operands, drawn.settings, drawn.template or template)
        results = run_step(step, self.values)
        if not all(map(_is_tame, results.values())):
            return None
        self.steps.append(step)
        self.used.update(step.names)
        self.values.update(results)
        return targets[-1]

    def finished(self, seed: int) -> Program:
        """Return the program; its result is a weighted sum of all values that no step has used."""
        results = [name for step in self.steps for name in step.targets if name not in self.used]
        shapes = {name: self.shape(name) for name in results}
        weights = {
            name: self.constant(np.round(self.rng.normal(size=shape), 3) if shape else self.literal())
            for name, shape in shapes.items()
        }
        return Program(seed, self.inputs, self.constants, tuple(self.steps), weights, self.values)


def run_step(step: Step, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a step on plain arrays."""
    names = {**values, "np": np, "wg": PLAIN}
    with np.errstate(all="ignore"):
        exec(step.source, names)
    return {target: names[target] for target in step.targets}


def _is_tame(value: Any) -> bool:
    array = np.asarray(value)
    if not 0 < array.size <= SIZE or array.ndim > NDIM:
        return False
    return bool(np.all(np.isfinite(array)) and np.max(abs(array)) <= LARGEST)


def _broadcast(*shapes: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


# Tests of whether functions are smooth at their operands.


def away(x: Array, *points: float | Array) -> bool:
    """Return whether no element is near one of the points."""
    return all(bool(np.all(abs(x - point) > APART)) for point in points)


def apart(x: Array, bound: float) -> bool:
    """Return whether no element is near the bound."""
    return away(x, bound)


def untied(x: Array, axis: Any = None) -> bool:
    """Return whether no two elements along axes are nearly equal."""
    axes = range(x.ndim) if axis is None else [k % x.ndim for k in np.atleast_1d(axis)]
    rest = [k for k in range(x.ndim) if k not in axes]
    lines = np.transpose(x, [*rest, *axes]).reshape(*(x.shape[k] for k in rest), -1)
    return bool(np.all(np.diff(np.sort(lines, axis=-1), axis=-1) > APART))


def above(x: Array, least: float) -> bool:
    """Return whether every element is above a bound."""
    return bool(np.all(x > least))


def _norm_fits(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> bool:
    if not above(np.linalg.norm(x, axis=axis, keepdims=True), 0.1):
        return False
    if ord in {1, np.inf, -np.inf} and not away(x, 0.0):
        return False
    if isinstance(axis, int) or x.ndim == 1:
        return ord not in {np.inf, -np.inf} or untied(abs(x), axis)
    if ord not in {1, np.inf}:
        return True
    if not axis:
        return untied(np.sum(abs(x), axis=None))
    return untied(np.sum(abs(x), axis=axis[0] if ord == 1 else axis[1]))


def _separate(x: Array, n: int) -> bool:
    gaps = np.diff(np.linalg.eigvalsh(x @ np.swapaxes(x, -1, -2) + n * np.eye(n)), axis=-1)
    return above(gaps, 0.1)


def _ranks(x: Array) -> bool:
    values = np.linalg.svd(x, compute_uv=False)
    return above(values, 0.2) and above(-np.diff(values, axis=-1), 0.1)


def _stops(x: Array, bound: float, scale: float) -> bool:
    while (total := np.sum(x**2)) > bound:
        if not away(total, bound):
            return False
        x = scale * x
    return away(total, bound)


# The catalogue.

CATALOGUE: dict[str, list[Entry]] = {}
"""All entries, by group."""
OFTEN = {
    "unary": 3,
    "binary": 3,
    "choice": 1,
    "reduce": 3,
    "shape": 3,
    "index": 2,
    "product": 2,
    "linalg": 2,
    "flow": 1,
}
"""Relative frequencies of the groups."""
SCALAR_GROUPS = ("unary", "unary", "binary", "binary", "choice", "flow")
"""The groups for programs whose inputs are all Python numbers, as often as they are drawn."""


def entries(group: str, *found: Entry) -> None:
    """Add entries to a group."""
    CATALOGUE.setdefault(group, []).extend(found)


def one(operand: Callable[[Draft], str | None], **settings: Callable[[Draft], Any]) -> Callable[[Draft], Drawn | None]:
    """Return a function that draws an operand, and settings that do not depend on it."""

    def draw_one(d: Draft) -> Drawn | None:
        x = operand(d)
        return None if x is None else Drawn((x,), {name: draw_setting(d) for name, draw_setting in settings.items()})

    return draw_one


def two(d: Draft) -> Drawn | None:
    """Draw two operands that broadcast."""
    pair = d.pair()
    return None if pair is None else Drawn(pair)


def with_shape(operand: Callable[[Draft], str | None], settings: DrawSettings) -> Callable[[Draft], Drawn | None]:
    """Return a function that draws an operand, and settings that fit its shape."""

    def draw_with_settings(d: Draft) -> Drawn | None:
        x = operand(d)
        return None if x is None else Drawn((x,), settings(d, d.shape(x)))

    return draw_with_settings


def anything(d: Draft) -> str | None:
    """Return any name."""
    return d.pick()


def array(d: Draft) -> str | None:
    """Return a name with at least one axis."""
    return d.array_of(1)


def matrix(d: Draft) -> str | None:
    """Return a name with at least two axes."""
    return d.array_of(2)


def unary(
    name: str,
    operand: Callable[[Draft], str | None] = anything,
    fits: Fits = lambda *_: True,
    template: str = "np.{name}({0})",
) -> Entry:
    """Return the catalogue entry of an elementwise function of one operand."""
    return Entry(name, template.replace("{name}", name), one(operand), fits)


entries(
    "unary",
    *(unary(name) for name in "sin cos exp expm1 exp2 sinh cosh tanh arctan arcsinh square negative positive".split()),
    unary("deg2rad"),
    # PyTorch's second derivative of sinc is NaN at 0, where the function is smooth.
    unary("sinc", fits=lambda x: away(x, 0.0)),
    *(unary(name, Draft.positive, lambda x: above(x, 0.1)) for name in "log log2 log10 log1p sqrt".split()),
    *(unary(name, Draft.unit, lambda x: above(1 - abs(x), 0.1)) for name in "arcsin arccos arctanh tan".split()),
    unary("arccosh", Draft.positive, lambda x: above(x, 1.1)),
    unary("cbrt", fits=lambda x: above(abs(x), 0.1)),
    unary("reciprocal", fits=lambda x: above(abs(x), 0.2)),
    *(unary(name, fits=lambda x: away(x, 0.0)) for name in "abs sign fabs".split()),
    *(unary(name, fits=lambda x: away(x % 1.0, 0.0, 0.5, 1.0)) for name in "floor ceil trunc rint".split()),
    *(unary(name, template="wg.ops.{name}({0})") for name in "sigmoid softplus silu gelu erf".split()),
    unary("relu", fits=lambda x: away(x, 0.0), template="wg.ops.relu({0})"),
    unary("negative", template="-{0}"),
    unary("abs", fits=lambda x: away(x, 0.0), template="abs({0})"),
    Entry("scaled_tanh", "{a} * np.tanh({b} * {0})", one(anything, a=Draft.literal, b=Draft.literal)),
    Entry("cubic", "{a} * {0} ** 3 - {0} / {b}", one(anything, a=Draft.literal, b=Draft.literal)),
)


def power_of(d: Draft) -> Drawn | None:
    """Draw a base and a literal exponent: any base for a positive integer, else one that is far from zero."""
    exponent = d.choice([2, 3, 4, 2.0, 3.0, -1, -2, 0.5, 1.5, -0.7, 0, 1])
    base = d.pick() if exponent >= 0 and exponent == int(exponent) else d.positive()
    return None if base is None else Drawn((base, exponent))


def power_to(d: Draft) -> Drawn | None:
    """Draw a positive base and any exponent that broadcasts with it."""
    base = d.positive() if d.chance(0.7) else d.choice([0.5, 1.7, 2])
    if base is None:
        return None
    exponent = d.partner(base) if isinstance(base, str) else d.pick()
    return None if exponent is None else Drawn((base, exponent))


def _power_fits(a: Array, b: Array) -> bool:
    return above(a, 0.1) or (b.ndim == 0 and float(b) >= 0 and float(b).is_integer())


entries(
    "binary",
    Entry("add", "{0} + {1}", two),
    Entry("subtract", "{0} - {1}", two),
    Entry("multiply", "{0} * {1}", two),
    *(Entry(name, f"np.{name}({{0}}, {{1}})", two) for name in "add subtract multiply logaddexp".split()),
    Entry("divide", "{0} / {1}", two, lambda a, b: above(abs(b), 0.2)),
    Entry("divide", "np.true_divide({0}, {1})", two, lambda a, b: above(abs(b), 0.2)),
    Entry("power", "{0} ** {1}", power_of, _power_fits),
    Entry("power", "np.power({0}, {1})", power_of, _power_fits),
    Entry("power", "{0} ** {1}", power_to, _power_fits),
    Entry("power", "np.float_power({0}, {1})", power_to, _power_fits),
    Entry("arctan2", "np.arctan2({0}, {1})", two, lambda a, b: above(np.hypot(a, b), 0.1) and away(a, 0.0)),
    Entry("hypot", "np.hypot({0}, {1})", two, lambda a, b: above(np.hypot(a, b), 0.1)),
    Entry(
        "mod",
        "{0} % {1}",
        two,
        lambda a, b: above(abs(b), 0.2) and away(np.mod(a, b) / b, 0.0, 1.0),
    ),
    Entry("copysign", "np.copysign({0}, {1})", two, lambda a, b: away(a, 0.0) and away(b, 0.0)),
    *(Entry(name, f"np.{name}({{0}}, {{1}})", two, away) for name in "maximum minimum fmax fmin".split()),
)


def comparison(d: Draft) -> Drawn | None:
    """Draw two operands that are compared, and two to choose from."""
    pair = d.pair()
    if pair is None:
        return None
    shape = np.broadcast_shapes(*map(d.shape, pair))
    then = d.pick(lambda x: _broadcast(x.shape, shape) is not None)
    if then is None:
        return None
    shape = np.broadcast_shapes(shape, d.shape(then))
    other = d.pick(lambda x: _broadcast(x.shape, shape) is not None) if d.chance(0.7) else d.literal()
    return None if other is None else Drawn((*pair, then, other), {"sign": Code(d.choice(["<", "<=", ">", ">="]))})


def masked(d: Draft) -> Drawn | None:
    """Draw an operand, a literal to compare it with, and an operand to multiply by the mask."""
    x = d.pick()
    y = None if x is None else d.pick(lambda y: _broadcast(y.shape, d.shape(x)) is not None)
    return None if x is None or y is None else Drawn((x, y), {"bound": d.literal()})


def bounds(d: Draft) -> Settings:
    """Return literal bounds, one of which may be missing."""
    low, high = sorted([d.literal(), d.literal()])
    if not d.chance(0.8):
        return {"low": low, "high": None}
    return {"low": None if d.chance(0.2) else low, "high": high}


def _clip_fits(x: Array, low: float | None, high: float | None) -> bool:
    return away(x, *(bound for bound in (low, high) if bound is not None)) and (low, high) != (None, None)


entries(
    "choice",
    Entry("where", "np.where({0} {sign} {1}, {2}, {3})", comparison, lambda a, b, *_, sign: away(a - b, 0.0)),
    Entry("masked", "({0} > {bound}) * {1}", masked, lambda x, _, bound: away(x, bound)),
    Entry(
        "clip",
        "np.clip({0}, {low}, {high})",
        with_shape(anything, lambda d, _: bounds(d)),
        _clip_fits,
        ("{0}.clip({low}, {high})",),
    ),
    Entry(
        "leaky_relu",
        "wg.ops.leaky_relu({0}, {slope})",
        one(anything, slope=lambda d: 0.1),
        lambda x, slope: away(x, 0.0),
    ),
)


def reduced(d: Draft, shape: Shape) -> Settings:
    """Return axes and keepdims."""
    return {"axis": d.axes(len(shape)), "keepdims": d.chance(0.3)}


def one_axis(d: Draft, shape: Shape) -> Settings:
    """Return an axis."""
    return {"axis": d.axis(len(shape))}


def maybe_axis(d: Draft, shape: Shape) -> Settings:
    """Return an axis or None."""
    return {"axis": None if d.chance(0.2) else d.axis(len(shape))}


def with_ddof(d: Draft, shape: Shape) -> Settings:
    """Return axes, keepdims and the degrees of freedom."""
    return {**reduced(d, shape), "ddof": d.integer(0, 1)}


def _spread_out(x: Array, axis: Any, keepdims: bool, ddof: int) -> bool:
    count = x.size if axis is None else math.prod(x.shape[k] for k in np.atleast_1d(axis))
    return count > 1 and above(np.std(x, axis=axis), 0.1)


def reduction(name: str, fits: Fits = lambda *_, **__: True, settings: DrawSettings = reduced, more: str = "") -> Entry:
    """Return the catalogue entry of a reduction, as a function and as a method."""
    keywords = f"axis={{axis}}, keepdims={{keepdims}}{more}"
    method = f"{{0}}.{name}({keywords})"
    return Entry(name, f"np.{name}({{0}}, {keywords})", with_shape(array, settings), fits, (method,))


def along(name: str, template: str, fits: Fits = lambda *_, **__: True, settings: DrawSettings = one_axis) -> Entry:
    """Return the catalogue entry of a function along an axis."""
    return Entry(name, template, with_shape(array, settings), fits)


def named(*functions: str, settings: DrawSettings = one_axis) -> Callable[[Draft, Shape], Settings]:
    """Return a function that draws one of these functions besides the settings."""
    return lambda d, shape: {**settings(d, shape), "function": Code(d.choice(functions))}


def norm_settings(d: Draft, shape: Shape) -> Settings:
    """Return order, axis and keepdims of a norm."""
    if len(shape) >= 2 and d.chance(0.4):
        axes = tuple(int(axis) for axis in d.rng.permutation(len(shape))[:2])
        return {"ord": d.choice([None, "fro", 1, np.inf]), "axis": axes, "keepdims": d.chance(0.3)}
    axis = None if len(shape) == 1 and d.chance(0.3) else d.axis(len(shape))
    return {"ord": d.choice([None, 1, 2, 3, 2.5, np.inf, -np.inf]), "axis": axis, "keepdims": d.chance(0.3)}


def averaged(d: Draft) -> Drawn | None:
    """Draw an array and positive weights along one of its axes."""
    x = d.array_of(1)
    if x is None:
        return None
    axis = d.axis(len(d.shape(x)))
    return Drawn((x, d.constant(np.round(d.rng.uniform(0.2, 1.5, size=d.shape(x)[axis]), 2))), {"axis": axis})


entries(
    "reduce",
    *(reduction(name) for name in ("sum", "mean", "prod")),
    *(reduction(name, lambda x, axis, keepdims: untied(x, axis)) for name in ("max", "min")),
    *(reduction(name, _spread_out, with_ddof, ", ddof={ddof}") for name in ("var", "std")),
    along(
        "ptp",
        "np.ptp({0}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims: untied(x, axis),
        reduced,
    ),
    along(
        "median",
        "np.median({0}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims: untied(x, axis),
        reduced,
    ),
    along(
        "quantile",
        "np.quantile({0}, {q}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims, q: untied(x, axis),
        lambda d, shape: {**reduced(d, shape), "q": d.choice([0.1, 0.25, 0.35, 0.8])},
    ),
    along(
        "ufunc_reduce",
        "np.{function}.reduce({0}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims, function: function != "maximum" or untied(x, axis),
        named(
            "add",
            "multiply",
            "maximum",
            "logaddexp",
            settings=lambda d, s: {**one_axis(d, s), "keepdims": d.chance(0.3)},
        ),
    ),
    along(
        "ufunc_accumulate",
        "np.{function}.accumulate({0}, axis={axis})",
        lambda x, axis, function: function != "maximum" or untied(x, axis),
        named("add", "multiply", "maximum"),
    ),
    along("trapezoid", "np.trapezoid({0}, axis={axis})"),
    Entry("cov", "np.cov({0})", one(lambda d: d.array_of(2, 2, length=2))),
    along("gradient", "np.gradient({0}, axis={axis})", lambda x, axis: x.shape[axis] >= 2),
    along("cumsum", "np.cumsum({0}, axis={axis})", settings=maybe_axis),
    along("cumprod", "np.cumprod({0}, axis={axis})", settings=maybe_axis),
    along("sort", "np.sort({0}, axis={axis})", untied),
    along("logsumexp", "wg.logsumexp({0}, axis={axis}, keepdims={keepdims})", settings=reduced),
    along("softmax", "wg.softmax({0}, axis={axis})"),
    along("log_softmax", "wg.log_softmax({0}, axis={axis})"),
    along("norm", "np.linalg.norm({0}, ord={ord}, axis={axis}, keepdims={keepdims})", _norm_fits, norm_settings),
    Entry("average", "np.average({0}, axis={axis}, weights={1})", averaged),
)


def factored(d: Draft, shape: Shape) -> Settings:
    """Return another shape of the same size; sometimes one length is -1, to be inferred."""
    rest = math.prod(shape)
    lengths: list[int] = []
    while rest > 1 and len(lengths) < 3:
        length = d.choice([k for k in range(1, rest + 1) if rest % k == 0])
        lengths.append(length)
        rest //= length
    if rest > 1 or not lengths:
        lengths.append(rest)
    if d.chance(0.4):
        lengths[d.integer(0, len(lengths) - 1)] = -1
    return {"shape": tuple(lengths)}


def permuted(d: Draft, shape: Shape) -> Settings:
    """Return a permutation of the axes."""
    return {"axes": tuple(int(axis) for axis in d.rng.permutation(len(shape)))}


def two_axes(d: Draft, shape: Shape) -> Settings:
    """Return two axes."""
    return {"a": d.axis(len(shape)), "b": d.axis(len(shape))}


def rolled(d: Draft, shape: Shape) -> Settings:
    """Return a shift, and its axis or axes."""
    if len(shape) >= 2 and d.chance(0.3):
        return {"shift": (d.integer(-3, 3), d.integer(-3, 3)), "axis": (0, len(shape) - 1)}
    return {"shift": d.integer(-3, 3), **maybe_axis(d, shape)}


def tiled(d: Draft, shape: Shape) -> Settings:
    """Return the repetitions of `tile` along the last axes, or along more axes than the array has."""
    return {"reps": tuple(d.integer(1, 2) for _ in range(d.integer(1, len(shape) + 1)))}


def repeated(d: Draft, shape: Shape) -> Settings:
    """Return the repetitions of `repeat` along an axis: one number, or a count for each element."""
    axis = None if d.chance(0.2) else d.axis(len(shape))
    length = math.prod(shape) if axis is None else shape[axis]
    counts = d.rng.integers(0, 3, size=length)
    return {"repeats": counts if d.chance(0.4) and counts.sum() else d.integer(1, 3), "axis": axis}


def padded(d: Draft, shape: Shape) -> Settings:
    """Return widths and a mode."""
    modes = ["constant", "edge", "wrap", "symmetric", *(["reflect"] if min(shape) >= 2 else [])]
    widths = tuple((d.integer(0, min(2, n - 1 or 1)), d.integer(0, 1)) for n in shape)
    return {"widths": widths, "mode": d.choice(modes)}


def with_offset(d: Draft, shape: Shape) -> Settings:
    """Return the offset of a diagonal that exists in the last two axes."""
    return {"k": d.integer(1 - shape[-2], shape[-1] - 1)}


def diagonal_axes(d: Draft, shape: Shape) -> Settings:
    """Return two different axes and the offset of a diagonal that exists in them."""
    a, b = (int(axis) for axis in d.rng.permutation(len(shape))[:2])
    return {"k": d.integer(1 - shape[a], shape[b] - 1), "a": a, "b": b}


def squeezable(d: Draft) -> Drawn | None:
    """Draw an array that has an axis of length one."""
    x = d.pick(lambda x: 1 in x.shape)
    if x is None:
        return None
    return Drawn((x,), {"axis": None if d.chance(0.3) else d.choice([k for k, n in enumerate(d.shape(x)) if n == 1])})


def joined(d: Draft) -> Drawn | None:
    """Draw two or three arrays whose shapes differ along at most one axis."""
    x = d.array_of(1)
    if x is None:
        return None
    shape = d.shape(x)
    axis = d.integer(0, len(shape) - 1)

    def can_join(y: Array) -> bool:
        return y.ndim == len(shape) and all(y.shape[k] == n for k, n in enumerate(shape) if k != axis)

    more = [d.pick(can_join, other=x) for _ in range(d.integer(1, 2))]
    operands = [x, *(y for y in more if y is not None)]
    if d.chance(0.2):
        operands[d.integer(1, len(operands) - 1)] = d.constant(np.round(d.rng.normal(size=shape), 2))
    return _listed(operands, "np.concatenate", {"axis": axis - (len(shape) if d.chance(0.4) else 0)})


def alike(d: Draft) -> list[str]:
    """Return two or three operands of one shape."""
    x = d.pick()
    if x is None:
        return []
    more = [d.pick(lambda y: y.shape == d.shape(x), other=x) for _ in range(d.integer(1, 2))]
    return [x, *(y for y in more if y is not None)]


def stacked(d: Draft) -> Drawn | None:
    """Draw operands of one shape and the position of a new axis."""
    operands = alike(d)
    return _listed(operands, "np.stack", {"axis": d.axis(len(d.shape(operands[0])) + 1)}) if operands else None


def piled(function: str) -> Callable[[Draft], Drawn | None]:
    """Return a function that draws operands of one shape for a NumPy function of a list."""
    return lambda d: _listed(operands, function, {}) if (operands := alike(d)) else None


def _listed(operands: list[str], function: str, settings: Settings) -> Drawn:
    places = ", ".join(f"{{{k}}}" for k in range(len(operands)))
    return Drawn(tuple(operands), settings, f"{function}([{places}]{', axis={axis}' if settings else ''})")


def appended(d: Draft) -> Drawn | None:
    """Draw two arrays for `append`."""
    a = d.pick()
    b = d.pick()
    return None if a is None or b is None else Drawn((a, b))


def deleted(d: Draft, shape: Shape) -> Settings:
    """Return the index of an element to delete along an axis, or a few indices."""
    axis = d.axis(len(shape))
    return {"obj": d.choice([d.integer(0, shape[axis] - 1), -1, np.array([0, -1])]), "axis": axis}


def cut(d: Draft) -> Drawn | None:
    """Draw an array and the positions at which to split it along an axis; every part is a result."""
    x = d.array_of(1, length=2)
    if x is None:
        return None
    axis = d.axis(len(d.shape(x)))
    length = d.shape(x)[axis]
    where: Any = d.choice([k for k in range(2, length + 1) if length % k == 0])
    if d.chance(0.5) or where > 3:
        where = [d.integer(1, length - 1)]
    return Drawn((x,), {"where": where, "axis": axis}, targets=len(where) + 1 if isinstance(where, list) else where)


def stretched(d: Draft) -> Drawn | None:
    """Draw an array and a larger shape that it broadcasts to."""
    x = d.pick()
    if x is None:
        return None
    shape = tuple(d.integer(2, 3) if n == 1 and d.chance(0.6) else n for n in d.shape(x))
    return Drawn((x,), {"shape": (d.integer(1, 3), *shape) if d.chance(0.6) else shape})


entries(
    "shape",
    Entry(
        "reshape",
        "np.reshape({0}, {shape})",
        with_shape(array, factored),
        methods=("{0}.reshape({shape})", "{0}.reshape(*{shape})"),
    ),
    Entry("ravel", "np.ravel({0})", one(array), methods=("{0}.ravel()", "{0}.flatten()")),
    Entry("transpose", "np.transpose({0}, {axes})", with_shape(array, permuted), methods=("{0}.transpose({axes})",)),
    Entry("T", "{0}.T", one(array)),
    along("swapaxes", "np.swapaxes({0}, {a}, {b})", settings=two_axes),
    along("moveaxis", "np.moveaxis({0}, {a}, {b})", settings=two_axes),
    along("expand_dims", "np.expand_dims({0}, {axis})"),
    Entry("squeeze", "np.squeeze({0}, axis={axis})", squeezable, methods=("{0}.squeeze(axis={axis})",)),
    Entry("concatenate", "", joined),
    Entry("stack", "", stacked),
    Entry("hstack", "", piled("np.hstack")),
    Entry("vstack", "", piled("np.vstack")),
    Entry("append", "np.append({0}, {1})", appended),
    along("delete", "np.delete({0}, {obj}, axis={axis})", lambda x, axis, obj: x.shape[axis] >= 2, deleted),
    Entry("split", "np.split({0}, {where}, axis={axis})", cut),
    along("flip", "np.flip({0}, axis={axis})", settings=lambda d, shape: {"axis": d.axes(len(shape))}),
    along("roll", "np.roll({0}, {shift}, axis={axis})", settings=rolled),
    along("tile", "np.tile({0}, {reps})", settings=tiled),
    along("repeat", "np.repeat({0}, {repeats}, axis={axis})", settings=repeated),
    along("pad", "np.pad({0}, {widths}, mode={mode})", settings=padded),
    Entry("broadcast_to", "np.broadcast_to({0}, {shape})", stretched),
    Entry("diag", "np.diag({0}, {k})", one(lambda d: d.array_of(1, 1), k=lambda d: d.integer(-1, 1))),
    Entry("diag", "np.diag({0}, {k})", with_shape(lambda d: d.array_of(2, 2), with_offset)),
    Entry("diagonal", "np.diagonal({0}, {k}, {a}, {b})", with_shape(matrix, diagonal_axes)),
    *(Entry(name, f"np.{name}({{0}}, {{k}})", with_shape(matrix, with_offset)) for name in ("tril", "triu")),
    along(
        "rot90", "np.rot90({0}, {k})", settings=lambda d, shape: {"k": d.integer(1, 3)}, fits=lambda x, k: x.ndim >= 2
    ),
    along("diff", "np.diff({0}, axis={axis})", lambda x, axis: x.shape[axis] >= 2),
)


def index_item(d: Draft, length: int, picks: Shape | None) -> Any:
    """Return the part of an index for one axis; integer arrays have the shape `picks`, so that they broadcast."""
    kind = d.rng.random()
    if kind < 0.25:
        return slice(None)
    if kind < 0.5:
        start, stop = sorted([d.integer(0, length - 1), d.integer(1, length)])
        return slice(start, max(stop, start + 1)) if d.chance(0.6) else slice(start - length, None)
    if kind < 0.65:
        return d.choice([slice(None, None, -1), slice(None, None, 2), slice(None, None, -2), slice(-1, None)])
    if kind < 0.8 or picks is None:
        return d.integer(-length, length - 1)
    return d.rng.integers(-length, length, size=picks)


def index_of(d: Draft, shape: Shape) -> Settings:
    """Return an index: slices, integers, integer arrays, one boolean mask, new axes, an ellipsis."""
    picks = d.choice([(2,), (3,), (2, 2)]) if d.chance(0.5) else None
    items = [index_item(d, length, picks) for length in shape[: d.integer(1, len(shape))]]
    if len(items) < len(shape) and d.chance(0.4):
        last = index_item(d, shape[-1], picks)
        items = [*items[: len(shape) - 1], ..., last]
    elif picks is None and d.chance(0.2):
        axis = d.integer(0, len(items) - 1)
        items[axis] = d.rng.random(shape[axis]) < 0.6
    if d.chance(0.25):
        items.insert(d.integer(0, len(items)), None)
    return {"index": tuple(items)}


def mask_of(d: Draft, shape: Shape) -> Settings:
    """Return a boolean mask over all axes or the first ones."""
    return {"index": (d.rng.random(shape[: d.integer(1, len(shape))]) < 0.6,)}


def taken(d: Draft, shape: Shape) -> Settings:
    """Return indices along an axis, or into the flat array."""
    axis = None if d.chance(0.2) else d.axis(len(shape))
    length = math.prod(shape) if axis is None else shape[axis]
    size = d.choice([(2,), (3,), (2, 2)])
    return {"indices": d.rng.integers(-length, length, size=size), "axis": axis}


def taken_along(d: Draft, shape: Shape) -> Settings:
    """Return indices along an axis for every line."""
    axis = d.axis(len(shape))
    size = tuple(2 if k == axis % len(shape) else n for k, n in enumerate(shape))
    return {"indices": d.rng.integers(0, shape[axis], size=size), "axis": axis}


entries(
    "index",
    *[Entry("index", "{0}[{index}]", with_shape(array, index_of))] * 3,
    Entry("index", "{0}[{index}]", with_shape(array, mask_of)),
    Entry("compress", "{0}[{0} > {bound}]", one(array, bound=Draft.literal), apart),
    along("take", "np.take({0}, {indices}, axis={axis})", settings=taken),
    along("take_along_axis", "np.take_along_axis({0}, {indices}, axis={axis})", settings=taken_along),
    Entry("argsort", "{0}[np.argsort({0})]", one(lambda d: d.array_of(1, 1)), untied),
)


def unpacked(d: Draft) -> Drawn | None:
    """Draw an array with two or three rows, each a result."""
    x = d.pick(lambda x: x.ndim >= 1 and x.shape[0] in {2, 3})
    return None if x is None else Drawn((x,), targets=d.shape(x)[0])


entries("index", Entry("unpack", "{0}", unpacked))


def product(matches: Callable[[Shape, Shape], bool]) -> Callable[[Draft], Drawn | None]:
    """Return a function that draws two arrays whose shapes match."""

    def draw_pair(d: Draft) -> Drawn | None:
        a = d.array_of(1, 3)
        if a is None:
            return None
        shape = d.shape(a)
        b: Operand | None = d.pick(lambda x: x.ndim >= 1 and matches(shape, x.shape), other=a)
        if b is None or d.chance(0.2):
            shapes = [s for s in ((shape[-1],), (shape[-1], 2), shape) if matches(shape, s)]
            b = d.constant(np.round(d.rng.normal(size=d.choice(shapes)), 2)) if shapes else b
        return None if b is None else Drawn((a, b))

    return draw_pair


def _inner_lengths(a: Shape, b: Shape) -> bool:
    return a[-1] == b[-2 if len(b) > 1 else 0]


def _matmul_shapes(a: Shape, b: Shape) -> bool:
    return _inner_lengths(a, b) and _broadcast(a[:-2], b[:-2]) is not None


def contracted(d: Draft) -> Drawn | None:
    """Draw two arrays and pairs of axes of the same length to sum over."""
    a = d.array_of(1, 3)
    b = d.array_of(1, 3)
    if a is None or b is None:
        return None
    pairs = [(i, j) for i, m in enumerate(d.shape(a)) for j, n in enumerate(d.shape(b)) if m == n]
    chosen: list[tuple[int, int]] = []
    for k in d.rng.permutation(len(pairs))[: d.integer(0, 4)]:
        i, j = pairs[k]
        if all(i != p and j != q for p, q in chosen):
            chosen.append((i, j))
    return Drawn((a, b), {"axes": ([i for i, _ in chosen], [j for _, j in chosen])})


def summed(d: Draft) -> Drawn | None:
    """Draw up to three arrays and subscripts for `einsum`; axes of different lengths have different letters."""
    operands = [x for x in (d.array_of(1, 3) for _ in range(d.choice([1, 2, 2, 3]))) if x is not None]
    if not operands:
        return None
    letters = ["".join("abcdefghijkl"[2 * min(n, 5) + int(d.chance(0.3))] for n in d.shape(x)) for x in operands]
    if any(n > 5 for x in operands for n in d.shape(x)):
        return None
    distinct = sorted(set("".join(letters)))
    output = "".join(distinct[k] for k in d.rng.permutation(len(distinct))[: d.integer(0, min(3, len(distinct)))])
    places = ", ".join(f"{{{k}}}" for k in range(len(operands)))
    subscripts = f"{','.join(letters)}->{output}"
    return Drawn(tuple(operands), {"subscripts": subscripts}, f"np.einsum({{subscripts}}, {places})")


def convolved(d: Draft) -> Drawn | None:
    """Draw two vectors and the mode of a convolution."""
    a = d.array_of(1, 1)
    b = d.array_of(1, 1)
    return None if a is None or b is None else Drawn((a, b), {"mode": d.choice(["full", "same", "valid"])})


def outer(d: Draft) -> Drawn | None:
    """Draw two operands of any shapes and the ufunc to apply to all pairs of their elements."""
    a = d.pick()
    b = d.pick()
    function = Code(d.choice(["add", "subtract", "multiply"]))
    return None if a is None or b is None else Drawn((a, b), {"function": function})


def solved(d: Draft) -> Drawn | None:
    """Draw a well-conditioned matrix and a right-hand side."""
    a = d.gram()
    if a is None:
        return None
    n = d.shape(a)[-1]
    if len(d.shape(a)) == 2 and d.chance(0.4):
        b = d.pick(lambda x: x.shape == (n,))
    else:
        b = d.pick(lambda x: x.ndim >= 2 and x.shape[-2] == n and _broadcast(x.shape[:-2], d.shape(a)[:-2]) is not None)
    return None if b is None else Drawn((a, b))


def definite(name: str, template: str, fits: Fits = lambda *_, **__: True) -> Entry:
    """Return the entry of a function of a symmetric matrix, made in the same step so that it always is symmetric."""
    source = template.replace("{A}", "{0} @ np.swapaxes({0}, -1, -2) + {n} * np.eye({n})")
    return Entry(name, source, with_shape(Draft.square, lambda d, shape: {"n": shape[-1]}), fits)


ANY: Callable[[Shape, Shape], bool] = lambda a, b: True  # noqa: E731 - a predicate beside its users

entries(
    "product",
    Entry("matmul", "{0} @ {1}", product(_matmul_shapes)),
    Entry("matmul", "np.matmul({0}, {1})", product(_matmul_shapes)),
    Entry("dot", "np.dot({0}, {1})", product(_inner_lengths), methods=("{0}.dot({1})",)),
    Entry("inner", "np.inner({0}, {1})", product(lambda a, b: a[-1] == b[-1])),
    Entry("outer", "np.outer({0}, {1})", product(ANY)),
    Entry("kron", "np.kron({0}, {1})", product(ANY)),
    Entry("vdot", "np.vdot({0}, {1})", product(lambda a, b: math.prod(a) == math.prod(b))),
    Entry(
        "rowdot",
        "np.einsum('...i,...i->...', {0}, {1})",
        product(lambda a, b: a[-1] == b[-1] and _broadcast(a, b) is not None),
    ),
    Entry("cross", "np.cross({0}, {1})", product(lambda a, b: a[-1] == b[-1] == 3 and _broadcast(a, b) is not None)),
    Entry("convolve", "np.convolve({0}, {1}, mode={mode})", convolved),
    Entry("ufunc_outer", "np.{function}.outer({0}, {1})", outer),
    Entry("tensordot", "np.tensordot({0}, {1}, axes={axes})", contracted),
    *[Entry("einsum", "", summed)] * 3,
    Entry("trace", "np.trace({0}, {k})", with_shape(lambda d: d.array_of(2, 2), with_offset)),
)
entries(
    "linalg",
    Entry("solve", "np.linalg.solve({0}, {1})", solved),
    Entry("inv", "np.linalg.inv({0})", one(Draft.gram)),
    Entry("det", "np.linalg.det({0})", one(Draft.square), lambda x: above(abs(np.linalg.det(x)), 0.1)),
    Entry("det", "np.linalg.det({0} / {n})", with_shape(Draft.gram, lambda d, shape: {"n": 2.0 * shape[-1]})),
    Entry("logdet", "np.linalg.slogdet({0})[1]", one(Draft.gram)),
    Entry("matrix_power", "np.linalg.matrix_power({0}, {n})", one(Draft.square, n=lambda d: d.integer(0, 4))),
    Entry("pinv", "np.linalg.pinv({0})", one(matrix), _ranks),
    Entry("svdvals", "np.linalg.svd({0}, compute_uv=False)", one(matrix), _ranks),
    # Signs and order of the vectors are arbitrary; the space that they span is not.
    Entry(
        "column_space",
        "q, r = np.linalg.qr({0})\n{t} = q @ np.swapaxes(q, -1, -2)",
        one(matrix),
        lambda x: x.shape[-2] > x.shape[-1] and _ranks(x),
    ),
    definite(
        "root", "w, q = np.linalg.eigh({A})\n{t} = (q * np.sqrt(w)[..., None, :]) @ np.swapaxes(q, -1, -2)", _separate
    ),
    definite("cholesky", "np.linalg.cholesky({A})"),
    definite("eigvalsh", "np.linalg.eigvalsh({A})", _separate),
)


def looped(d: Draft) -> Drawn | None:
    """Draw the initial value of a loop, and what is added in every iteration."""
    x = d.pick()
    y = None if x is None else d.pick(lambda y: _broadcast(y.shape, d.shape(x)) == d.shape(x))
    function = Code(d.choice(["sin", "cos", "tanh", "arctan"]))
    settings = {"function": function, "count": d.integer(2, 4), "scale": d.literal()}
    return None if x is None or y is None else Drawn((x, y), settings)


def rows(d: Draft) -> Drawn | None:
    """Draw an array to iterate over, and an initial value with the shape of its rows."""
    x = d.array_of(1, 3)
    y = None if x is None else d.pick(lambda y: y.shape == d.shape(x)[1:])
    return None if x is None or y is None else Drawn((x, y), {"scale": d.literal()})


def branched(d: Draft) -> Drawn | None:
    """Draw an operand to compare with a bound, and two operands for the branches."""
    x = d.pick()
    pair = d.pair()
    if x is None or pair is None:
        return None
    test = "{0}" if not d.shape(x) else "np.sum({0})"
    template = f"if {test} > {{bound}}:\n    {{t}} = np.sin({{1}}) * {{2}}\nelse:\n    {{t}} = {{1}} - {{2}}"
    return Drawn((x, *pair), {"bound": d.literal()}, template)


def scalars(d: Draft) -> Drawn | None:
    """Draw three numbers."""
    names = [d.pick(lambda x: x.ndim == 0) for _ in range(3)]
    return None if None in names else Drawn(tuple(name for name in names if name is not None))


entries(
    "flow",
    Entry(
        "loop",
        "{t} = {0}\nfor _ in range({count}):\n    {t} = np.{function}({scale} * {t} + {1})",
        looped,
    ),
    Entry("rows", "{t} = {1}\nfor row in {0}:\n    {t} = {scale} * {t} + np.tanh(row)", rows),
    Entry(
        "elements",
        "{t} = {1}\nfor k in range(len({0})):\n    {t} = np.sin({t}) + {scale} * {0}[k]",
        rows,
    ),
    *[Entry("branch", "", branched, lambda x, *_, bound: away(np.sum(x), bound))] * 2,
    Entry(
        "shrunk",
        "{t} = {0}\nwhile np.sum({t} ** 2) > {bound}:\n    {t} = {scale} * {t}",
        one(anything, bound=lambda d: abs(d.literal()), scale=lambda d: d.choice([0.5, 0.7])),
        _stops,
    ),
    Entry(
        "harmonics",
        "{t} = np.stack([np.sin({0} * k) for k in range(1, {count})])",
        one(anything, count=lambda d: d.integer(3, 4)),
    ),
    Entry("greatest", "max({0}, {1}, {2})", scalars, lambda *xs: untied(np.array(xs))),
    Entry("listed_sum", "sum([{0}, {1}, {2}])", scalars),
)


# Programs.


def random_inputs(rng: np.random.Generator) -> dict[str, Any]:
    """Return up to four inputs: in one of four programs Python numbers only, otherwise arrays that share lengths."""
    lengths = rng.choice([1, 2, 3, 4, 5], size=3, p=[0.1, 0.25, 0.35, 0.2, 0.1])
    scalar = rng.random() < 0.25
    shapes: list[Shape] = []
    for _ in range(int(rng.integers(1, 5))):
        ndim = 0 if scalar else int(rng.choice([0, 1, 2, 3], p=[0.15, 0.35, 0.35, 0.15]))
        n, m, k = (int(length) for length in rng.permutation(lengths))
        shapes.append(((), (n,), (n, m) if rng.random() < 0.5 else (n, n), (n, m, k))[ndim])
    return {f"x{k}": _plain(rng.normal(size=shape)) for k, shape in enumerate(shapes)}


def random_program(seed: int, *, least: int = 4, most: int = 14) -> Program:
    """Return the program of a seed, with `least` to `most` steps or a few more.

    >>> random_program(3).source == random_program(3).source
    True
    """
    rng = np.random.default_rng([seed, 0])
    draft = Draft(rng, random_inputs(rng))
    groups = (
        SCALAR_GROUPS
        if not any(map(np.ndim, draft.inputs.values()))
        else tuple(group for group in CATALOGUE for _ in range(OFTEN[group]))
    )
    count = int(rng.integers(least, most + 1))
    while len(draft.steps) < count:
        _try(draft, draft.choice(CATALOGUE[draft.choice(groups)]))
    return draft.finished(seed)


def _try(draft: Draft, entry: Entry) -> None:
    drawn = entry.draw(draft)
    if drawn is None:
        return
    if entry.methods and isinstance(drawn.operands[0], str) and draft.shape(drawn.operands[0]) and draft.chance(0.4):
        drawn = replace(drawn, template=draft.choice(entry.methods))
    draft.add(entry.name, entry.template, drawn, entry.fits)


def drawn_counts(programs: Sequence[Program]) -> Counter[str]:
    """Count how often every entry of the catalogue was drawn."""
    return Counter(step.op for program in programs for step in program.steps)


# Shrinking.


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return a program that still fails and none of whose smaller variants does."""
    smaller: Program | None = program
    while smaller is not None:
        program = smaller
        smaller = next((variant for variant in variants(program) if fails(variant)), None)
    return program


def variants(program: Program) -> Iterator[Program]:
    """Return smaller programs: only one result is returned, or one less, or the results of a step become inputs."""
    for step in program.steps:
        for name in step.targets:
            if [name] != list(program.weights):
                yield _returning(program, name)
    for name in program.weights if len(program.weights) > 1 else ():
        yield _pruned(replace(program, weights={n: w for n, w in program.weights.items() if n != name}))
    for step in program.steps[:-1]:
        results = {name: _plain(program.values[name]) for name in step.targets}
        inputs = {**program.inputs, **results}
        rest = tuple(other for other in program.steps if other is not step)
        weights = {name: weight for name, weight in program.weights.items() if name not in results}
        yield _pruned(replace(program, inputs=inputs, steps=rest, weights=weights or program.weights))


def _returning(program: Program, name: str) -> Program:
    shape = np.shape(program.values[name])
    weight = _plain(np.round(np.random.default_rng([program.seed, 2]).normal(size=shape), 2))
    return _pruned(replace(program, constants={**program.constants, "w": weight}, weights={name: "w"}))


def _pruned(program: Program) -> Program:
    """Return the program without the steps, inputs and weights that its result does not need."""
    needed = set(program.weights)
    steps = []
    for step in reversed(program.steps):
        if needed.intersection(step.targets):
            steps.append(step)
            needed.update(step.names)
    inputs = {name: value for name, value in program.inputs.items() if name in needed}
    return replace(program, inputs=inputs, steps=tuple(reversed(steps)))
