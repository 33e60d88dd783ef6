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

AnyArray = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Settings = dict[str, Any]
Operand = str | float | int
"""The name of an input, a constant or an earlier result; or a literal."""
SmoothnessTest = Callable[..., bool]
"""A function of operands, as arrays, and settings: whether the step is smooth there."""
DrawSettings = Callable[["ProgramDraft", Shape], Settings]
"""A function that draws settings for an operand of a shape."""

MAX_ELEMENT = 20.0
"""Maximum magnitude of an element of a result."""
MAX_SIZE = 60
"""Maximum size of a result."""
MAX_NDIM = 4
"""Maximum number of axes of a result."""
MIN_DISTANCE = 1e-3
"""Minimum distance of a point from a kink or a tie."""


# Functions that NumPy does not have, for runs on plain arrays.


def _numpy_softmax(x: Any, axis: Any = -1) -> Any:
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _numpy_logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


_numpy_erf = np.vectorize(math.erf, otypes=[float])

NUMPY_STAND_IN = SimpleNamespace(
    softmax=_numpy_softmax,
    log_softmax=lambda x, axis=-1: np.log(_numpy_softmax(x, axis)),
    logsumexp=_numpy_logsumexp,
    ops=SimpleNamespace(
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        softplus=lambda x: np.log1p(np.exp(x)),
        silu=lambda x: x / (1 + np.exp(-x)),
        gelu=lambda x: x * (1 + _numpy_erf(x / math.sqrt(2.0))) / 2,
        erf=_numpy_erf,
        relu=lambda x: np.maximum(x, 0.0),
        leaky_relu=lambda x, slope: np.where(x > 0, x, slope * x),
    ),
)
"""Takes the place of `wg` where a program runs on plain arrays."""


class SourceText(str):
    """A setting that is copied into the source without quotes: the name of a function, an operator."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class ProgramStep:
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
        settings = {name: write_setting(value) for name, value in self.settings.items()}
        return template.format(*map(write_operand, self.operands), t=targets, **settings)

    @property
    def names(self) -> tuple[str, ...]:
        """The operands that are not literals."""
        return tuple(name for name in self.operands if isinstance(name, str))


def write_operand(operand: Operand) -> str:
    """Write an operand as source code; a negative literal gets parentheses, because of `**` and `-`."""
    if isinstance(operand, str):
        return operand
    return f"({operand!r})" if operand < 0 else repr(operand)


def write_setting(value: Any) -> str:
    """Write a setting as source code.

    >>> write_setting((slice(None, None, -1), None, Ellipsis, np.array([0, 2])))
    '::-1, None, ..., np.array([0, 2])'
    """
    if isinstance(value, tuple) and any(isinstance(item, slice | type(...) | np.ndarray) for item in value):
        return ", ".join(map(write_setting, value))
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if parts[2] else parts[:2])
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r})"
    if isinstance(value, float) and math.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    if value is ...:
        return "..."
    return str(value) if isinstance(value, SourceText) else repr(value)


@dataclass(frozen=True, eq=False)
class RandomProgram:
    """A function of a few numbers and arrays that returns one number.

    >>> program = random_program(1)
    >>> float(program.make_function()(*program.inputs.values())) == float(program.value)
    True
    """

    seed: int
    inputs: dict[str, Any]
    constants: dict[str, Any]
    steps: tuple[ProgramStep, ...]
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

    def make_function(self, numpy: Any = np, wiregrad: Any = NUMPY_STAND_IN) -> Callable[..., Any]:
        """Return the function, with these modules under the names `np` and `wg`."""
        names = {**self.constants, "np": numpy, "wg": wiregrad}
        exec(compile(self.source, f"<program {self.seed}>", "exec"), names)
        function: Callable[..., Any] = names["program"]
        return function

    def draw_directions(self) -> tuple[Any, ...]:
        """Return a random direction for every input."""
        rng = np.random.default_rng([self.seed, 1])
        return tuple(_as_input(rng.normal(size=np.shape(x))) for x in self.inputs.values())

    def __str__(self) -> str:
        used = {name for step in self.steps for name in step.names} | set(self.weights.values())
        constants = {name: value for name, value in self.constants.items() if name in used}
        lines = [f"{name} = {write_setting(value)}" for name, value in {**self.inputs, **constants}.items()]
        return "\n".join([f"# seed {self.seed}", *lines, self.source])


def _as_input(value: Any) -> Any:
    """Return a value as an input: a Python number, or a new array."""
    return float(value) if not np.ndim(value) else np.array(value, order="C")


# Drawing.


@dataclass(frozen=True, eq=False)
class DrawnStep:
    """What a catalogue entry has drawn: operands, settings, and the template of the source."""

    operands: tuple[Operand, ...]
    settings: Settings = field(default_factory=dict)
    template: str | None = None
    targets: int = 1


@dataclass(frozen=True, eq=False)
class CatalogueEntry:
    """One kind of step: how it is drawn, how it is written, and where it is smooth."""

    name: str
    template: str
    draw: Callable[[ProgramDraft], DrawnStep | None]
    fits: SmoothnessTest = lambda *_, **__: True
    methods: tuple[str, ...] = ()
    """Other templates, with methods or operators, if the first operand is an array."""


class ProgramDraft:
    """A program that is being drawn, with the values it has so far."""

    def __init__(self, rng: np.random.Generator, inputs: Mapping[str, Any]) -> None:
        self.rng = rng
        self.inputs = dict(inputs)
        self.values: dict[str, Any] = dict(inputs)
        self.constants: dict[str, Any] = {}
        self.steps: list[ProgramStep] = []
        self.used: set[str] = set()

    def array_value(self, operand: Operand) -> AnyArray:
        """Return the value of an operand."""
        return np.asarray(self.values[operand] if isinstance(operand, str) else operand)

    def shape_of(self, operand: Operand) -> Shape:
        """Return the shape of an operand."""
        return tuple(self.array_value(operand).shape)

    def happens_with(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.rng.random() < probability)

    def draw_integer(self, low: int, high: int) -> int:
        """Return a random integer between the two, both included."""
        return int(self.rng.integers(low, high + 1))

    def draw_item(self, items: Sequence[Any]) -> Any:
        """Return one of the items at random."""
        return items[int(self.rng.integers(len(items)))]

    def draw_literal(self) -> float:
        """Return a random number of two decimals, not near zero; sometimes 1 or -1, for which rules have shortcuts."""
        if self.happens_with(0.1):
            return float(self.draw_item([-1.0, 1.0]))
        return round(float(self.rng.uniform(0.3, 1.8) * self.rng.choice([-1.0, 1.0])), 2)

    def add_constant(self, value: Any) -> str:
        """Add a constant and return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = self.values[name] = value
        return name

    def pick_name(self, ok: Callable[[AnyArray], bool] = lambda _: True, *, other: Operand | None = None) -> str | None:
        """Return a name whose value passes the test, preferably an unused one, and if possible not `other`."""
        names = [name for name, value in self.values.items() if name not in self.constants and ok(np.asarray(value))]
        names = [name for name in names if name != other] or names
        if not names:
            return None
        fresh = [name for name in names if name not in self.used]
        return str(self.draw_item(fresh if fresh and self.happens_with(0.6) else names))

    def pick_array(self, least: int = 1, most: int = MAX_NDIM, *, length: int = 1) -> str | None:
        """Return a name whose value has `least` to `most` axes, each of at least this length."""
        return self.pick_name(lambda x: least <= x.ndim <= most and min(x.shape, default=length) >= length)

    def pick_square(self) -> str | None:
        """Return the name of a square matrix, or of a stack of them."""
        return self.pick_name(lambda x: x.ndim >= 2 and x.shape[-1] == x.shape[-2] >= 2)

    def draw_axis(self, ndim: int) -> int:
        """Return a random axis, counted from either end."""
        return self.draw_integer(-ndim, ndim - 1)

    def draw_axes(self, ndim: int) -> Any:
        """Return the axes of a reduction: None, an axis, or several."""
        if not ndim or self.happens_with(0.2):
            return None
        if ndim == 1 or self.happens_with(0.7):
            return self.draw_axis(ndim)
        chosen = self.rng.permutation(ndim)[: self.draw_integer(1, ndim)]
        return tuple(int(axis) - (ndim if self.happens_with(0.3) else 0) for axis in chosen)

    def draw_partner(self, operand: Operand) -> Operand:
        """Return something that broadcasts with an operand: another name, a literal or a constant array."""
        shape = self.shape_of(operand)
        name = self.pick_name(lambda x: _broadcast_or_none(x.shape, shape) is not None, other=operand)
        kind = self.rng.random()
        if kind < 0.6 and name is not None:
            return name
        if kind < 0.8 or not shape:
            return self.draw_literal() if self.happens_with(0.7) else int(self.draw_item([2, 3, -1]))
        return self.add_constant(self._draw_constant_array(shape))

    def _draw_constant_array(self, shape: Shape) -> AnyArray:
        shape = tuple(
            1 if self.happens_with(0.2) else length for length in shape[self.draw_integer(0, len(shape) - 1) :]
        )
        if self.happens_with(0.15):
            return self.rng.choice([-2, -1, 1, 2, 3], size=shape)
        return np.round(self.rng.normal(size=shape), 3)

    def draw_pair(self) -> tuple[Operand, Operand] | None:
        """Return two operands of an elementwise function, at least one of them a name, in any order."""
        one = self.pick_name()
        if one is None:
            return None
        two = self.draw_partner(one)
        return (one, two) if self.happens_with(0.5) else (two, one)

    def pick_or_make(self, ok: Callable[[AnyArray], bool], template: str, op: str, **settings: Any) -> str | None:
        """Return a name whose value passes the test, or make one by an additional step."""
        name = self.pick_name(ok)
        if name is not None and self.happens_with(0.7):
            return name
        source = self.pick_name()
        return None if source is None else self.add_step(op, template, DrawnStep((source,), settings))

    def pick_positive(self) -> str | None:
        """Return the name of a value well above zero."""
        return self.pick_or_make(
            lambda x: bool(np.all(x > 0.2)), "{0} * {0} + {shift}", "lifted", shift=abs(self.draw_literal())
        )

    def pick_inside_unit(self) -> str | None:
        """Return the name of a value well between -1 and 1."""
        return self.pick_or_make(
            lambda x: bool(np.all(abs(x) < 0.8)), "{scale} * np.sin({0})", "squeezed_in", scale=0.8
        )

    def make_gram_matrix(self) -> str | None:
        """Make a well-conditioned matrix, or a stack of them, and return its name."""
        source = self.pick_square()
        if source is None:
            return None
        drawn = DrawnStep((source,), {"n": self.shape_of(source)[-1]})
        return self.add_step("gram", "{0} @ np.swapaxes({0}, -1, -2) + {n} * np.eye({n})", drawn)

    def add_step(
        self, op: str, template: str, drawn: DrawnStep, fits: SmoothnessTest = lambda *_, **__: True
    ) -> str | None:
        """Add a step if it is smooth at its operands and its results are small and finite; return its last result."""
        if not fits(*map(self.array_value, drawn.operands), **drawn.settings):
            return None
        first = len(self.values) - len(self.constants) - len(self.inputs)
        targets = tuple(f"v{first + k}" for k in range(drawn.targets))
        step = ProgramStep(op, targets, drawn.operands, drawn.settings, drawn.template or template)
        results = run_step(step, self.values)
        if not all(map(_is_small_and_finite, results.values())):
            return None
        self.steps.append(step)
        self.used.update(step.names)
        self.values.update(results)
        return targets[-1]

    def finish_program(self, seed: int) -> RandomProgram:
        """Return the program; its result is a weighted sum of all values that no step has used."""
        results = [name for step in self.steps for name in step.targets if name not in self.used]
        shapes = {name: self.shape_of(name) for name in results}
        weights = {
            name: self.add_constant(np.round(self.rng.normal(size=shape), 3) if shape else self.draw_literal())
            for name, shape in shapes.items()
        }
        return RandomProgram(seed, self.inputs, self.constants, tuple(self.steps), weights, self.values)


def run_step(step: ProgramStep, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a step on plain arrays."""
    names = {**values, "np": np, "wg": NUMPY_STAND_IN}
    with np.errstate(all="ignore"):
        exec(step.source, names)
    return {target: names[target] for target in step.targets}


def _is_small_and_finite(value: Any) -> bool:
    array = np.asarray(value)
    if not 0 < array.size <= MAX_SIZE or array.ndim > MAX_NDIM:
        return False
    return bool(np.all(np.isfinite(array)) and np.max(abs(array)) <= MAX_ELEMENT)


def _broadcast_or_none(*shapes: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


# Tests of whether functions are smooth at their operands.


def is_away_from(x: AnyArray, *points: float | AnyArray) -> bool:
    """Return whether no element is near one of the points."""
    return all(bool(np.all(abs(x - point) > MIN_DISTANCE)) for point in points)


def is_away_from_bound(x: AnyArray, bound: float) -> bool:
    """Return whether no element is near the bound."""
    return is_away_from(x, bound)


def has_no_ties(x: AnyArray, axis: Any = None) -> bool:
    """Return whether no two elements along axes are nearly equal."""
    axes = range(x.ndim) if axis is None else [k % x.ndim for k in np.atleast_1d(axis)]
    rest = [k for k in range(x.ndim) if k not in axes]
    lines = np.transpose(x, [*rest, *axes]).reshape(*(x.shape[k] for k in rest), -1)
    return bool(np.all(np.diff(np.sort(lines, axis=-1), axis=-1) > MIN_DISTANCE))


def all_above(x: AnyArray, least: float) -> bool:
    """Return whether every element is above a bound."""
    return bool(np.all(x > least))


def _norm_fits(x: AnyArray, ord: Any = None, axis: Any = None, keepdims: bool = False) -> bool:
    if not all_above(np.linalg.norm(x, axis=axis, keepdims=True), 0.1):
        return False
    if ord in {1, np.inf, -np.inf} and not is_away_from(x, 0.0):
        return False
    if isinstance(axis, int) or x.ndim == 1:
        return ord not in {np.inf, -np.inf} or has_no_ties(abs(x), axis)
    if ord not in {1, np.inf}:
        return True
    if not axis:
        return has_no_ties(np.sum(abs(x), axis=None))
    return has_no_ties(np.sum(abs(x), axis=axis[0] if ord == 1 else axis[1]))


def _has_separate_eigenvalues(x: AnyArray, n: int) -> bool:
    gaps = np.diff(np.linalg.eigvalsh(x @ np.swapaxes(x, -1, -2) + n * np.eye(n)), axis=-1)
    return all_above(gaps, 0.1)


def _has_separate_singular_values(x: AnyArray) -> bool:
    values = np.linalg.svd(x, compute_uv=False)
    return all_above(values, 0.2) and all_above(-np.diff(values, axis=-1), 0.1)


def _loop_stops_safely(x: AnyArray, bound: float, scale: float) -> bool:
    while (total := np.sum(x**2)) > bound:
        if not is_away_from(total, bound):
            return False
        x = scale * x
    return is_away_from(total, bound)


# The catalogue.

CATALOGUE: dict[str, list[CatalogueEntry]] = {}
"""All entries, by group."""
GROUP_FREQUENCIES = {
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


def add_entries(group: str, *found: CatalogueEntry) -> None:
    """Add entries to a group."""
    CATALOGUE.setdefault(group, []).extend(found)


def one_operand(
    operand: Callable[[ProgramDraft], str | None], **settings: Callable[[ProgramDraft], Any]
) -> Callable[[ProgramDraft], DrawnStep | None]:
    """Return a function that draws an operand, and settings that do not depend on it."""

    def draw_one(d: ProgramDraft) -> DrawnStep | None:
        x = operand(d)
        return (
            None if x is None else DrawnStep((x,), {name: draw_setting(d) for name, draw_setting in settings.items()})
        )

    return draw_one


def draw_two_operands(d: ProgramDraft) -> DrawnStep | None:
    """Draw two operands that broadcast."""
    pair = d.draw_pair()
    return None if pair is None else DrawnStep(pair)


def operand_with_settings(
    operand: Callable[[ProgramDraft], str | None], settings: DrawSettings
) -> Callable[[ProgramDraft], DrawnStep | None]:
    """Return a function that draws an operand, and settings that fit its shape."""

    def draw_with_settings(d: ProgramDraft) -> DrawnStep | None:
        x = operand(d)
        return None if x is None else DrawnStep((x,), settings(d, d.shape_of(x)))

    return draw_with_settings


def pick_any_name(d: ProgramDraft) -> str | None:
    """Return any name."""
    return d.pick_name()


def pick_any_array(d: ProgramDraft) -> str | None:
    """Return a name with at least one axis."""
    return d.pick_array(1)


def pick_matrix(d: ProgramDraft) -> str | None:
    """Return a name with at least two axes."""
    return d.pick_array(2)


def unary_entry(
    name: str,
    operand: Callable[[ProgramDraft], str | None] = pick_any_name,
    fits: SmoothnessTest = lambda *_: True,
    template: str = "np.{name}({0})",
) -> CatalogueEntry:
    """Return the catalogue entry of an elementwise function of one operand."""
    return CatalogueEntry(name, template.replace("{name}", name), one_operand(operand), fits)


add_entries(
    "unary",
    *(
        unary_entry(name)
        for name in "sin cos exp expm1 exp2 sinh cosh tanh arctan arcsinh square negative positive".split()
    ),
    unary_entry("deg2rad"),
    # PyTorch's second derivative of sinc is NaN at 0, where the function is smooth.
    unary_entry("sinc", fits=lambda x: is_away_from(x, 0.0)),
    *(
        unary_entry(name, ProgramDraft.pick_positive, lambda x: all_above(x, 0.1))
        for name in "log log2 log10 log1p sqrt".split()
    ),
    *(
        unary_entry(name, ProgramDraft.pick_inside_unit, lambda x: all_above(1 - abs(x), 0.1))
        for name in "arcsin arccos arctanh tan".split()
    ),
    unary_entry("arccosh", ProgramDraft.pick_positive, lambda x: all_above(x, 1.1)),
    unary_entry("cbrt", fits=lambda x: all_above(abs(x), 0.1)),
    unary_entry("reciprocal", fits=lambda x: all_above(abs(x), 0.2)),
    *(unary_entry(name, fits=lambda x: is_away_from(x, 0.0)) for name in "abs sign fabs".split()),
    *(
        unary_entry(name, fits=lambda x: is_away_from(x % 1.0, 0.0, 0.5, 1.0))
        for name in "floor ceil trunc rint".split()
    ),
    *(unary_entry(name, template="wg.ops.{name}({0})") for name in "sigmoid softplus silu gelu erf".split()),
    unary_entry("relu", fits=lambda x: is_away_from(x, 0.0), template="wg.ops.relu({0})"),
    unary_entry("negative", template="-{0}"),
    unary_entry("abs", fits=lambda x: is_away_from(x, 0.0), template="abs({0})"),
    CatalogueEntry(
        "scaled_tanh",
        "{a} * np.tanh({b} * {0})",
        one_operand(pick_any_name, a=ProgramDraft.draw_literal, b=ProgramDraft.draw_literal),
    ),
    CatalogueEntry(
        "cubic",
        "{a} * {0} ** 3 - {0} / {b}",
        one_operand(pick_any_name, a=ProgramDraft.draw_literal, b=ProgramDraft.draw_literal),
    ),
)


def draw_literal_power(d: ProgramDraft) -> DrawnStep | None:
    """Draw a base and a literal exponent: any base for a positive integer, else one that is far from zero."""
    exponent = d.draw_item([2, 3, 4, 2.0, 3.0, -1, -2, 0.5, 1.5, -0.7, 0, 1])
    base = d.pick_name() if exponent >= 0 and exponent == int(exponent) else d.pick_positive()
    return None if base is None else DrawnStep((base, exponent))


def draw_positive_power(d: ProgramDraft) -> DrawnStep | None:
    """Draw a positive base and any exponent that broadcasts with it."""
    base = d.pick_positive() if d.happens_with(0.7) else d.draw_item([0.5, 1.7, 2])
    if base is None:
        return None
    exponent = d.draw_partner(base) if isinstance(base, str) else d.pick_name()
    return None if exponent is None else DrawnStep((base, exponent))


def _power_fits(a: AnyArray, b: AnyArray) -> bool:
    return all_above(a, 0.1) or (b.ndim == 0 and float(b) >= 0 and float(b).is_integer())


add_entries(
    "binary",
    CatalogueEntry("add", "{0} + {1}", draw_two_operands),
    CatalogueEntry("subtract", "{0} - {1}", draw_two_operands),
    CatalogueEntry("multiply", "{0} * {1}", draw_two_operands),
    *(
        CatalogueEntry(name, f"np.{name}({{0}}, {{1}})", draw_two_operands)
        for name in "add subtract multiply logaddexp".split()
    ),
    CatalogueEntry("divide", "{0} / {1}", draw_two_operands, lambda a, b: all_above(abs(b), 0.2)),
    CatalogueEntry("divide", "np.true_divide({0}, {1})", draw_two_operands, lambda a, b: all_above(abs(b), 0.2)),
    CatalogueEntry("power", "{0} ** {1}", draw_literal_power, _power_fits),
    CatalogueEntry("power", "np.power({0}, {1})", draw_literal_power, _power_fits),
    CatalogueEntry("power", "{0} ** {1}", draw_positive_power, _power_fits),
    CatalogueEntry("power", "np.float_power({0}, {1})", draw_positive_power, _power_fits),
    CatalogueEntry(
        "arctan2",
        "np.arctan2({0}, {1})",
        draw_two_operands,
        lambda a, b: all_above(np.hypot(a, b), 0.1) and is_away_from(a, 0.0),
    ),
    CatalogueEntry("hypot", "np.hypot({0}, {1})", draw_two_operands, lambda a, b: all_above(np.hypot(a, b), 0.1)),
    CatalogueEntry(
        "mod",
        "{0} % {1}",
        draw_two_operands,
        lambda a, b: all_above(abs(b), 0.2) and is_away_from(np.mod(a, b) / b, 0.0, 1.0),
    ),
    CatalogueEntry(
        "copysign",
        "np.copysign({0}, {1})",
        draw_two_operands,
        lambda a, b: is_away_from(a, 0.0) and is_away_from(b, 0.0),
    ),
    *(
        CatalogueEntry(name, f"np.{name}({{0}}, {{1}})", draw_two_operands, is_away_from)
        for name in "maximum minimum fmax fmin".split()
    ),
)


def draw_comparison(d: ProgramDraft) -> DrawnStep | None:
    """Draw two operands that are compared, and two to choose from."""
    pair = d.draw_pair()
    if pair is None:
        return None
    shape = np.broadcast_shapes(*map(d.shape_of, pair))
    then = d.pick_name(lambda x: _broadcast_or_none(x.shape, shape) is not None)
    if then is None:
        return None
    shape = np.broadcast_shapes(shape, d.shape_of(then))
    other = (
        d.pick_name(lambda x: _broadcast_or_none(x.shape, shape) is not None)
        if d.happens_with(0.7)
        else d.draw_literal()
    )
    return (
        None
        if other is None
        else DrawnStep((*pair, then, other), {"sign": SourceText(d.draw_item(["<", "<=", ">", ">="]))})
    )


def draw_mask(d: ProgramDraft) -> DrawnStep | None:
    """Draw an operand, a literal to compare it with, and an operand to multiply by the mask."""
    x = d.pick_name()
    y = None if x is None else d.pick_name(lambda y: _broadcast_or_none(y.shape, d.shape_of(x)) is not None)
    return None if x is None or y is None else DrawnStep((x, y), {"bound": d.draw_literal()})


def draw_bounds(d: ProgramDraft) -> Settings:
    """Return literal bounds, one of which may be missing."""
    low, high = sorted([d.draw_literal(), d.draw_literal()])
    if not d.happens_with(0.8):
        return {"low": low, "high": None}
    return {"low": None if d.happens_with(0.2) else low, "high": high}


def _clip_fits(x: AnyArray, low: float | None, high: float | None) -> bool:
    return is_away_from(x, *(bound for bound in (low, high) if bound is not None)) and (low, high) != (None, None)


add_entries(
    "choice",
    CatalogueEntry(
        "where", "np.where({0} {sign} {1}, {2}, {3})", draw_comparison, lambda a, b, *_, sign: is_away_from(a - b, 0.0)
    ),
    CatalogueEntry("masked", "({0} > {bound}) * {1}", draw_mask, lambda x, _, bound: is_away_from(x, bound)),
    CatalogueEntry(
        "clip",
        "np.clip({0}, {low}, {high})",
        operand_with_settings(pick_any_name, lambda d, _: draw_bounds(d)),
        _clip_fits,
        ("{0}.clip({low}, {high})",),
    ),
    CatalogueEntry(
        "leaky_relu",
        "wg.ops.leaky_relu({0}, {slope})",
        one_operand(pick_any_name, slope=lambda d: 0.1),
        lambda x, slope: is_away_from(x, 0.0),
    ),
)


def draw_reduction(d: ProgramDraft, shape: Shape) -> Settings:
    """Return axes and keepdims."""
    return {"axis": d.draw_axes(len(shape)), "keepdims": d.happens_with(0.3)}


def draw_one_axis(d: ProgramDraft, shape: Shape) -> Settings:
    """Return an axis."""
    return {"axis": d.draw_axis(len(shape))}


def draw_optional_axis(d: ProgramDraft, shape: Shape) -> Settings:
    """Return an axis or None."""
    return {"axis": None if d.happens_with(0.2) else d.draw_axis(len(shape))}


def draw_ddof(d: ProgramDraft, shape: Shape) -> Settings:
    """Return axes, keepdims and the degrees of freedom."""
    return {**draw_reduction(d, shape), "ddof": d.draw_integer(0, 1)}


def _spread_out(x: AnyArray, axis: Any, keepdims: bool, ddof: int) -> bool:
    count = x.size if axis is None else math.prod(x.shape[k] for k in np.atleast_1d(axis))
    return count > 1 and all_above(np.std(x, axis=axis), 0.1)


def reduction_entry(
    name: str, fits: SmoothnessTest = lambda *_, **__: True, settings: DrawSettings = draw_reduction, more: str = ""
) -> CatalogueEntry:
    """Return the catalogue entry of a reduction, as a function and as a method."""
    keywords = f"axis={{axis}}, keepdims={{keepdims}}{more}"
    method = f"{{0}}.{name}({keywords})"
    return CatalogueEntry(
        name, f"np.{name}({{0}}, {keywords})", operand_with_settings(pick_any_array, settings), fits, (method,)
    )


def axis_entry(
    name: str, template: str, fits: SmoothnessTest = lambda *_, **__: True, settings: DrawSettings = draw_one_axis
) -> CatalogueEntry:
    """Return the catalogue entry of a function along an axis."""
    return CatalogueEntry(name, template, operand_with_settings(pick_any_array, settings), fits)


def with_function_choice(
    *functions: str, settings: DrawSettings = draw_one_axis
) -> Callable[[ProgramDraft, Shape], Settings]:
    """Return a function that draws one of these functions besides the settings."""
    return lambda d, shape: {**settings(d, shape), "function": SourceText(d.draw_item(functions))}


def draw_norm_settings(d: ProgramDraft, shape: Shape) -> Settings:
    """Return order, axis and keepdims of a norm."""
    if len(shape) >= 2 and d.happens_with(0.4):
        axes = tuple(int(axis) for axis in d.rng.permutation(len(shape))[:2])
        return {"ord": d.draw_item([None, "fro", 1, np.inf]), "axis": axes, "keepdims": d.happens_with(0.3)}
    axis = None if len(shape) == 1 and d.happens_with(0.3) else d.draw_axis(len(shape))
    return {"ord": d.draw_item([None, 1, 2, 3, 2.5, np.inf, -np.inf]), "axis": axis, "keepdims": d.happens_with(0.3)}


def draw_average(d: ProgramDraft) -> DrawnStep | None:
    """Draw an array and positive weights along one of its axes."""
    x = d.pick_array(1)
    if x is None:
        return None
    axis = d.draw_axis(len(d.shape_of(x)))
    return DrawnStep(
        (x, d.add_constant(np.round(d.rng.uniform(0.2, 1.5, size=d.shape_of(x)[axis]), 2))), {"axis": axis}
    )


add_entries(
    "reduce",
    *(reduction_entry(name) for name in ("sum", "mean", "prod")),
    *(reduction_entry(name, lambda x, axis, keepdims: has_no_ties(x, axis)) for name in ("max", "min")),
    *(reduction_entry(name, _spread_out, draw_ddof, ", ddof={ddof}") for name in ("var", "std")),
    axis_entry(
        "ptp",
        "np.ptp({0}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims: has_no_ties(x, axis),
        draw_reduction,
    ),
    axis_entry(
        "median",
        "np.median({0}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims: has_no_ties(x, axis),
        draw_reduction,
    ),
    axis_entry(
        "quantile",
        "np.quantile({0}, {q}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims, q: has_no_ties(x, axis),
        lambda d, shape: {**draw_reduction(d, shape), "q": d.draw_item([0.1, 0.25, 0.35, 0.8])},
    ),
    axis_entry(
        "ufunc_reduce",
        "np.{function}.reduce({0}, axis={axis}, keepdims={keepdims})",
        lambda x, axis, keepdims, function: function != "maximum" or has_no_ties(x, axis),
        with_function_choice(
            "add",
            "multiply",
            "maximum",
            "logaddexp",
            settings=lambda d, s: {**draw_one_axis(d, s), "keepdims": d.happens_with(0.3)},
        ),
    ),
    axis_entry(
        "ufunc_accumulate",
        "np.{function}.accumulate({0}, axis={axis})",
        lambda x, axis, function: function != "maximum" or has_no_ties(x, axis),
        with_function_choice("add", "multiply", "maximum"),
    ),
    axis_entry("trapezoid", "np.trapezoid({0}, axis={axis})"),
    CatalogueEntry("cov", "np.cov({0})", one_operand(lambda d: d.pick_array(2, 2, length=2))),
    axis_entry("gradient", "np.gradient({0}, axis={axis})", lambda x, axis: x.shape[axis] >= 2),
    axis_entry("cumsum", "np.cumsum({0}, axis={axis})", settings=draw_optional_axis),
    axis_entry("cumprod", "np.cumprod({0}, axis={axis})", settings=draw_optional_axis),
    axis_entry("sort", "np.sort({0}, axis={axis})", has_no_ties),
    axis_entry("logsumexp", "wg.logsumexp({0}, axis={axis}, keepdims={keepdims})", settings=draw_reduction),
    axis_entry("softmax", "wg.softmax({0}, axis={axis})"),
    axis_entry("log_softmax", "wg.log_softmax({0}, axis={axis})"),
    axis_entry(
        "norm", "np.linalg.norm({0}, ord={ord}, axis={axis}, keepdims={keepdims})", _norm_fits, draw_norm_settings
    ),
    CatalogueEntry("average", "np.average({0}, axis={axis}, weights={1})", draw_average),
)


def draw_reshape(d: ProgramDraft, shape: Shape) -> Settings:
    """Return another shape of the same size; sometimes one length is -1, to be inferred."""
    rest = math.prod(shape)
    lengths: list[int] = []
    while rest > 1 and len(lengths) < 3:
        length = d.draw_item([k for k in range(1, rest + 1) if rest % k == 0])
        lengths.append(length)
        rest //= length
    if rest > 1 or not lengths:
        lengths.append(rest)
    if d.happens_with(0.4):
        lengths[d.draw_integer(0, len(lengths) - 1)] = -1
    return {"shape": tuple(lengths)}


def draw_axis_order(d: ProgramDraft, shape: Shape) -> Settings:
    """Return a permutation of the axes."""
    return {"axes": tuple(int(axis) for axis in d.rng.permutation(len(shape)))}


def draw_two_axes(d: ProgramDraft, shape: Shape) -> Settings:
    """Return two axes."""
    return {"a": d.draw_axis(len(shape)), "b": d.draw_axis(len(shape))}


def draw_roll(d: ProgramDraft, shape: Shape) -> Settings:
    """Return a shift, and its axis or axes."""
    if len(shape) >= 2 and d.happens_with(0.3):
        return {"shift": (d.draw_integer(-3, 3), d.draw_integer(-3, 3)), "axis": (0, len(shape) - 1)}
    return {"shift": d.draw_integer(-3, 3), **draw_optional_axis(d, shape)}


def draw_tiling(d: ProgramDraft, shape: Shape) -> Settings:
    """Return the repetitions of `tile` along the last axes, or along more axes than the array has."""
    return {"reps": tuple(d.draw_integer(1, 2) for _ in range(d.draw_integer(1, len(shape) + 1)))}


def draw_repeats(d: ProgramDraft, shape: Shape) -> Settings:
    """Return the repetitions of `repeat` along an axis: one number, or a count for each element."""
    axis = None if d.happens_with(0.2) else d.draw_axis(len(shape))
    length = math.prod(shape) if axis is None else shape[axis]
    counts = d.rng.integers(0, 3, size=length)
    return {"repeats": counts if d.happens_with(0.4) and counts.sum() else d.draw_integer(1, 3), "axis": axis}


def draw_padding(d: ProgramDraft, shape: Shape) -> Settings:
    """Return widths and a mode."""
    modes = ["constant", "edge", "wrap", "symmetric", *(["reflect"] if min(shape) >= 2 else [])]
    widths = tuple((d.draw_integer(0, min(2, n - 1 or 1)), d.draw_integer(0, 1)) for n in shape)
    return {"widths": widths, "mode": d.draw_item(modes)}


def draw_diagonal_offset(d: ProgramDraft, shape: Shape) -> Settings:
    """Return the offset of a diagonal that exists in the last two axes."""
    return {"k": d.draw_integer(1 - shape[-2], shape[-1] - 1)}


def draw_diagonal_axes(d: ProgramDraft, shape: Shape) -> Settings:
    """Return two different axes and the offset of a diagonal that exists in them."""
    a, b = (int(axis) for axis in d.rng.permutation(len(shape))[:2])
    return {"k": d.draw_integer(1 - shape[a], shape[b] - 1), "a": a, "b": b}


def draw_squeeze(d: ProgramDraft) -> DrawnStep | None:
    """Draw an array that has an axis of length one."""
    x = d.pick_name(lambda x: 1 in x.shape)
    if x is None:
        return None
    return DrawnStep(
        (x,), {"axis": None if d.happens_with(0.3) else d.draw_item([k for k, n in enumerate(d.shape_of(x)) if n == 1])}
    )


def draw_concatenation(d: ProgramDraft) -> DrawnStep | None:
    """Draw two or three arrays whose shapes differ along at most one axis."""
    x = d.pick_array(1)
    if x is None:
        return None
    shape = d.shape_of(x)
    axis = d.draw_integer(0, len(shape) - 1)

    def can_join(y: AnyArray) -> bool:
        return y.ndim == len(shape) and all(y.shape[k] == n for k, n in enumerate(shape) if k != axis)

    more = [d.pick_name(can_join, other=x) for _ in range(d.draw_integer(1, 2))]
    operands = [x, *(y for y in more if y is not None)]
    if d.happens_with(0.2):
        operands[d.draw_integer(1, len(operands) - 1)] = d.add_constant(np.round(d.rng.normal(size=shape), 2))
    return _list_call(operands, "np.concatenate", {"axis": axis - (len(shape) if d.happens_with(0.4) else 0)})


def pick_same_shape(d: ProgramDraft) -> list[str]:
    """Return two or three operands of one shape."""
    x = d.pick_name()
    if x is None:
        return []
    more = [d.pick_name(lambda y: y.shape == d.shape_of(x), other=x) for _ in range(d.draw_integer(1, 2))]
    return [x, *(y for y in more if y is not None)]


def draw_stack(d: ProgramDraft) -> DrawnStep | None:
    """Draw operands of one shape and the position of a new axis."""
    operands = pick_same_shape(d)
    return (
        _list_call(operands, "np.stack", {"axis": d.draw_axis(len(d.shape_of(operands[0])) + 1)}) if operands else None
    )


def same_shape_operands(function: str) -> Callable[[ProgramDraft], DrawnStep | None]:
    """Return a function that draws operands of one shape for a NumPy function of a list."""
    return lambda d: _list_call(operands, function, {}) if (operands := pick_same_shape(d)) else None


def _list_call(operands: list[str], function: str, settings: Settings) -> DrawnStep:
    places = ", ".join(f"{{{k}}}" for k in range(len(operands)))
    return DrawnStep(tuple(operands), settings, f"{function}([{places}]{', axis={axis}' if settings else ''})")


def draw_append(d: ProgramDraft) -> DrawnStep | None:
    """Draw two arrays for `append`."""
    a = d.pick_name()
    b = d.pick_name()
    return None if a is None or b is None else DrawnStep((a, b))


def draw_deletion(d: ProgramDraft, shape: Shape) -> Settings:
    """Return the index of an element to delete along an axis, or a few indices."""
    axis = d.draw_axis(len(shape))
    return {"obj": d.draw_item([d.draw_integer(0, shape[axis] - 1), -1, np.array([0, -1])]), "axis": axis}


def draw_split(d: ProgramDraft) -> DrawnStep | None:
    """Draw an array and the positions at which to split it along an axis; every part is a result."""
    x = d.pick_array(1, length=2)
    if x is None:
        return None
    axis = d.draw_axis(len(d.shape_of(x)))
    length = d.shape_of(x)[axis]
    where: Any = d.draw_item([k for k in range(2, length + 1) if length % k == 0])
    if d.happens_with(0.5) or where > 3:
        where = [d.draw_integer(1, length - 1)]
    return DrawnStep((x,), {"where": where, "axis": axis}, targets=len(where) + 1 if isinstance(where, list) else where)


def draw_broadcast(d: ProgramDraft) -> DrawnStep | None:
    """Draw an array and a larger shape that it broadcasts to."""
    x = d.pick_name()
    if x is None:
        return None
    shape = tuple(d.draw_integer(2, 3) if n == 1 and d.happens_with(0.6) else n for n in d.shape_of(x))
    return DrawnStep((x,), {"shape": (d.draw_integer(1, 3), *shape) if d.happens_with(0.6) else shape})


add_entries(
    "shape",
    CatalogueEntry(
        "reshape",
        "np.reshape({0}, {shape})",
        operand_with_settings(pick_any_array, draw_reshape),
        methods=("{0}.reshape({shape})", "{0}.reshape(*{shape})"),
    ),
    CatalogueEntry("ravel", "np.ravel({0})", one_operand(pick_any_array), methods=("{0}.ravel()", "{0}.flatten()")),
    CatalogueEntry(
        "transpose",
        "np.transpose({0}, {axes})",
        operand_with_settings(pick_any_array, draw_axis_order),
        methods=("{0}.transpose({axes})",),
    ),
    CatalogueEntry("T", "{0}.T", one_operand(pick_any_array)),
    axis_entry("swapaxes", "np.swapaxes({0}, {a}, {b})", settings=draw_two_axes),
    axis_entry("moveaxis", "np.moveaxis({0}, {a}, {b})", settings=draw_two_axes),
    axis_entry("expand_dims", "np.expand_dims({0}, {axis})"),
    CatalogueEntry("squeeze", "np.squeeze({0}, axis={axis})", draw_squeeze, methods=("{0}.squeeze(axis={axis})",)),
    CatalogueEntry("concatenate", "", draw_concatenation),
    CatalogueEntry("stack", "", draw_stack),
    CatalogueEntry("hstack", "", same_shape_operands("np.hstack")),
    CatalogueEntry("vstack", "", same_shape_operands("np.vstack")),
    CatalogueEntry("append", "np.append({0}, {1})", draw_append),
    axis_entry("delete", "np.delete({0}, {obj}, axis={axis})", lambda x, axis, obj: x.shape[axis] >= 2, draw_deletion),
    CatalogueEntry("split", "np.split({0}, {where}, axis={axis})", draw_split),
    axis_entry("flip", "np.flip({0}, axis={axis})", settings=lambda d, shape: {"axis": d.draw_axes(len(shape))}),
    axis_entry("roll", "np.roll({0}, {shift}, axis={axis})", settings=draw_roll),
    axis_entry("tile", "np.tile({0}, {reps})", settings=draw_tiling),
    axis_entry("repeat", "np.repeat({0}, {repeats}, axis={axis})", settings=draw_repeats),
    axis_entry("pad", "np.pad({0}, {widths}, mode={mode})", settings=draw_padding),
    CatalogueEntry("broadcast_to", "np.broadcast_to({0}, {shape})", draw_broadcast),
    CatalogueEntry(
        "diag", "np.diag({0}, {k})", one_operand(lambda d: d.pick_array(1, 1), k=lambda d: d.draw_integer(-1, 1))
    ),
    CatalogueEntry(
        "diag", "np.diag({0}, {k})", operand_with_settings(lambda d: d.pick_array(2, 2), draw_diagonal_offset)
    ),
    CatalogueEntry(
        "diagonal", "np.diagonal({0}, {k}, {a}, {b})", operand_with_settings(pick_matrix, draw_diagonal_axes)
    ),
    *(
        CatalogueEntry(name, f"np.{name}({{0}}, {{k}})", operand_with_settings(pick_matrix, draw_diagonal_offset))
        for name in ("tril", "triu")
    ),
    axis_entry(
        "rot90",
        "np.rot90({0}, {k})",
        settings=lambda d, shape: {"k": d.draw_integer(1, 3)},
        fits=lambda x, k: x.ndim >= 2,
    ),
    axis_entry("diff", "np.diff({0}, axis={axis})", lambda x, axis: x.shape[axis] >= 2),
)


def draw_index_item(d: ProgramDraft, length: int, picks: Shape | None) -> Any:
    """Return the part of an index for one axis; integer arrays have the shape `picks`, so that they broadcast."""
    kind = d.rng.random()
    if kind < 0.25:
        return slice(None)
    if kind < 0.5:
        start, stop = sorted([d.draw_integer(0, length - 1), d.draw_integer(1, length)])
        return slice(start, max(stop, start + 1)) if d.happens_with(0.6) else slice(start - length, None)
    if kind < 0.65:
        return d.draw_item([slice(None, None, -1), slice(None, None, 2), slice(None, None, -2), slice(-1, None)])
    if kind < 0.8 or picks is None:
        return d.draw_integer(-length, length - 1)
    return d.rng.integers(-length, length, size=picks)


def draw_index(d: ProgramDraft, shape: Shape) -> Settings:
    """Return an index: slices, integers, integer arrays, one boolean mask, new axes, an ellipsis."""
    picks = d.draw_item([(2,), (3,), (2, 2)]) if d.happens_with(0.5) else None
    items = [draw_index_item(d, length, picks) for length in shape[: d.draw_integer(1, len(shape))]]
    if len(items) < len(shape) and d.happens_with(0.4):
        last = draw_index_item(d, shape[-1], picks)
        items = [*items[: len(shape) - 1], ..., last]
    elif picks is None and d.happens_with(0.2):
        axis = d.draw_integer(0, len(items) - 1)
        items[axis] = d.rng.random(shape[axis]) < 0.6
    if d.happens_with(0.25):
        items.insert(d.draw_integer(0, len(items)), None)
    return {"index": tuple(items)}


def draw_mask_index(d: ProgramDraft, shape: Shape) -> Settings:
    """Return a boolean mask over all axes or the first ones."""
    return {"index": (d.rng.random(shape[: d.draw_integer(1, len(shape))]) < 0.6,)}


def draw_take(d: ProgramDraft, shape: Shape) -> Settings:
    """Return indices along an axis, or into the flat array."""
    axis = None if d.happens_with(0.2) else d.draw_axis(len(shape))
    length = math.prod(shape) if axis is None else shape[axis]
    size = d.draw_item([(2,), (3,), (2, 2)])
    return {"indices": d.rng.integers(-length, length, size=size), "axis": axis}


def draw_take_along(d: ProgramDraft, shape: Shape) -> Settings:
    """Return indices along an axis for every line."""
    axis = d.draw_axis(len(shape))
    size = tuple(2 if k == axis % len(shape) else n for k, n in enumerate(shape))
    return {"indices": d.rng.integers(0, shape[axis], size=size), "axis": axis}


add_entries(
    "index",
    *[CatalogueEntry("index", "{0}[{index}]", operand_with_settings(pick_any_array, draw_index))] * 3,
    CatalogueEntry("index", "{0}[{index}]", operand_with_settings(pick_any_array, draw_mask_index)),
    CatalogueEntry(
        "compress",
        "{0}[{0} > {bound}]",
        one_operand(pick_any_array, bound=ProgramDraft.draw_literal),
        is_away_from_bound,
    ),
    axis_entry("take", "np.take({0}, {indices}, axis={axis})", settings=draw_take),
    axis_entry("take_along_axis", "np.take_along_axis({0}, {indices}, axis={axis})", settings=draw_take_along),
    CatalogueEntry("argsort", "{0}[np.argsort({0})]", one_operand(lambda d: d.pick_array(1, 1)), has_no_ties),
)


def draw_unpacking(d: ProgramDraft) -> DrawnStep | None:
    """Draw an array with two or three rows, each a result."""
    x = d.pick_name(lambda x: x.ndim >= 1 and x.shape[0] in {2, 3})
    return None if x is None else DrawnStep((x,), targets=d.shape_of(x)[0])


add_entries("index", CatalogueEntry("unpack", "{0}", draw_unpacking))


def matching_operands(matches: Callable[[Shape, Shape], bool]) -> Callable[[ProgramDraft], DrawnStep | None]:
    """Return a function that draws two arrays whose shapes match."""

    def draw_pair(d: ProgramDraft) -> DrawnStep | None:
        a = d.pick_array(1, 3)
        if a is None:
            return None
        shape = d.shape_of(a)
        b: Operand | None = d.pick_name(lambda x: x.ndim >= 1 and matches(shape, x.shape), other=a)
        if b is None or d.happens_with(0.2):
            shapes = [s for s in ((shape[-1],), (shape[-1], 2), shape) if matches(shape, s)]
            b = d.add_constant(np.round(d.rng.normal(size=d.draw_item(shapes)), 2)) if shapes else b
        return None if b is None else DrawnStep((a, b))

    return draw_pair


def _inner_lengths_match(a: Shape, b: Shape) -> bool:
    return a[-1] == b[-2 if len(b) > 1 else 0]


def _matmul_shapes_match(a: Shape, b: Shape) -> bool:
    return _inner_lengths_match(a, b) and _broadcast_or_none(a[:-2], b[:-2]) is not None


def draw_tensordot(d: ProgramDraft) -> DrawnStep | None:
    """Draw two arrays and pairs of axes of the same length to sum over."""
    a = d.pick_array(1, 3)
    b = d.pick_array(1, 3)
    if a is None or b is None:
        return None
    pairs = [(i, j) for i, m in enumerate(d.shape_of(a)) for j, n in enumerate(d.shape_of(b)) if m == n]
    chosen: list[tuple[int, int]] = []
    for k in d.rng.permutation(len(pairs))[: d.draw_integer(0, 4)]:
        i, j = pairs[k]
        if all(i != p and j != q for p, q in chosen):
            chosen.append((i, j))
    return DrawnStep((a, b), {"axes": ([i for i, _ in chosen], [j for _, j in chosen])})


def draw_einsum(d: ProgramDraft) -> DrawnStep | None:
    """Draw up to three arrays and subscripts for `einsum`; axes of different lengths have different letters."""
    operands = [x for x in (d.pick_array(1, 3) for _ in range(d.draw_item([1, 2, 2, 3]))) if x is not None]
    if not operands:
        return None
    letters = [
        "".join("abcdefghijkl"[2 * min(n, 5) + int(d.happens_with(0.3))] for n in d.shape_of(x)) for x in operands
    ]
    if any(n > 5 for x in operands for n in d.shape_of(x)):
        return None
    distinct = sorted(set("".join(letters)))
    output = "".join(distinct[k] for k in d.rng.permutation(len(distinct))[: d.draw_integer(0, min(3, len(distinct)))])
    places = ", ".join(f"{{{k}}}" for k in range(len(operands)))
    subscripts = f"{','.join(letters)}->{output}"
    return DrawnStep(tuple(operands), {"subscripts": subscripts}, f"np.einsum({{subscripts}}, {places})")


def draw_convolution(d: ProgramDraft) -> DrawnStep | None:
    """Draw two vectors and the mode of a convolution."""
    a = d.pick_array(1, 1)
    b = d.pick_array(1, 1)
    return None if a is None or b is None else DrawnStep((a, b), {"mode": d.draw_item(["full", "same", "valid"])})


def draw_outer(d: ProgramDraft) -> DrawnStep | None:
    """Draw two operands of any shapes and the ufunc to apply to all pairs of their elements."""
    a = d.pick_name()
    b = d.pick_name()
    function = SourceText(d.draw_item(["add", "subtract", "multiply"]))
    return None if a is None or b is None else DrawnStep((a, b), {"function": function})


def draw_linear_system(d: ProgramDraft) -> DrawnStep | None:
    """Draw a well-conditioned matrix and a right-hand side."""
    a = d.make_gram_matrix()
    if a is None:
        return None
    n = d.shape_of(a)[-1]
    if len(d.shape_of(a)) == 2 and d.happens_with(0.4):
        b = d.pick_name(lambda x: x.shape == (n,))
    else:
        b = d.pick_name(
            lambda x: (
                x.ndim >= 2 and x.shape[-2] == n and _broadcast_or_none(x.shape[:-2], d.shape_of(a)[:-2]) is not None
            )
        )
    return None if b is None else DrawnStep((a, b))


def symmetric_entry(name: str, template: str, fits: SmoothnessTest = lambda *_, **__: True) -> CatalogueEntry:
    """Return the entry of a function of a symmetric matrix, made in the same step so that it always is symmetric."""
    source = template.replace("{A}", "{0} @ np.swapaxes({0}, -1, -2) + {n} * np.eye({n})")
    return CatalogueEntry(
        name, source, operand_with_settings(ProgramDraft.pick_square, lambda d, shape: {"n": shape[-1]}), fits
    )


ANY_SHAPES: Callable[[Shape, Shape], bool] = lambda a, b: True  # noqa: E731 - a predicate beside its users

add_entries(
    "product",
    CatalogueEntry("matmul", "{0} @ {1}", matching_operands(_matmul_shapes_match)),
    CatalogueEntry("matmul", "np.matmul({0}, {1})", matching_operands(_matmul_shapes_match)),
    CatalogueEntry("dot", "np.dot({0}, {1})", matching_operands(_inner_lengths_match), methods=("{0}.dot({1})",)),
    CatalogueEntry("inner", "np.inner({0}, {1})", matching_operands(lambda a, b: a[-1] == b[-1])),
    CatalogueEntry("outer", "np.outer({0}, {1})", matching_operands(ANY_SHAPES)),
    CatalogueEntry("kron", "np.kron({0}, {1})", matching_operands(ANY_SHAPES)),
    CatalogueEntry("vdot", "np.vdot({0}, {1})", matching_operands(lambda a, b: math.prod(a) == math.prod(b))),
    CatalogueEntry(
        "rowdot",
        "np.einsum('...i,...i->...', {0}, {1})",
        matching_operands(lambda a, b: a[-1] == b[-1] and _broadcast_or_none(a, b) is not None),
    ),
    CatalogueEntry(
        "cross",
        "np.cross({0}, {1})",
        matching_operands(lambda a, b: a[-1] == b[-1] == 3 and _broadcast_or_none(a, b) is not None),
    ),
    CatalogueEntry("convolve", "np.convolve({0}, {1}, mode={mode})", draw_convolution),
    CatalogueEntry("ufunc_outer", "np.{function}.outer({0}, {1})", draw_outer),
    CatalogueEntry("tensordot", "np.tensordot({0}, {1}, axes={axes})", draw_tensordot),
    *[CatalogueEntry("einsum", "", draw_einsum)] * 3,
    CatalogueEntry(
        "trace", "np.trace({0}, {k})", operand_with_settings(lambda d: d.pick_array(2, 2), draw_diagonal_offset)
    ),
)
add_entries(
    "linalg",
    CatalogueEntry("solve", "np.linalg.solve({0}, {1})", draw_linear_system),
    CatalogueEntry("inv", "np.linalg.inv({0})", one_operand(ProgramDraft.make_gram_matrix)),
    CatalogueEntry(
        "det",
        "np.linalg.det({0})",
        one_operand(ProgramDraft.pick_square),
        lambda x: all_above(abs(np.linalg.det(x)), 0.1),
    ),
    CatalogueEntry(
        "det",
        "np.linalg.det({0} / {n})",
        operand_with_settings(ProgramDraft.make_gram_matrix, lambda d, shape: {"n": 2.0 * shape[-1]}),
    ),
    CatalogueEntry("logdet", "np.linalg.slogdet({0})[1]", one_operand(ProgramDraft.make_gram_matrix)),
    CatalogueEntry(
        "matrix_power",
        "np.linalg.matrix_power({0}, {n})",
        one_operand(ProgramDraft.pick_square, n=lambda d: d.draw_integer(0, 4)),
    ),
    CatalogueEntry("pinv", "np.linalg.pinv({0})", one_operand(pick_matrix), _has_separate_singular_values),
    CatalogueEntry(
        "svdvals", "np.linalg.svd({0}, compute_uv=False)", one_operand(pick_matrix), _has_separate_singular_values
    ),
    # Signs and order of the vectors are arbitrary; the space that they span is not.
    CatalogueEntry(
        "column_space",
        "q, r = np.linalg.qr({0})\n{t} = q @ np.swapaxes(q, -1, -2)",
        one_operand(pick_matrix),
        lambda x: x.shape[-2] > x.shape[-1] and _has_separate_singular_values(x),
    ),
    symmetric_entry(
        "root",
        "w, q = np.linalg.eigh({A})\n{t} = (q * np.sqrt(w)[..., None, :]) @ np.swapaxes(q, -1, -2)",
        _has_separate_eigenvalues,
    ),
    symmetric_entry("cholesky", "np.linalg.cholesky({A})"),
    symmetric_entry("eigvalsh", "np.linalg.eigvalsh({A})", _has_separate_eigenvalues),
)


def draw_loop(d: ProgramDraft) -> DrawnStep | None:
    """Draw the initial value of a loop, and what is added in every iteration."""
    x = d.pick_name()
    y = None if x is None else d.pick_name(lambda y: _broadcast_or_none(y.shape, d.shape_of(x)) == d.shape_of(x))
    function = SourceText(d.draw_item(["sin", "cos", "tanh", "arctan"]))
    settings = {"function": function, "count": d.draw_integer(2, 4), "scale": d.draw_literal()}
    return None if x is None or y is None else DrawnStep((x, y), settings)


def draw_row_loop(d: ProgramDraft) -> DrawnStep | None:
    """Draw an array to iterate over, and an initial value with the shape of its rows."""
    x = d.pick_array(1, 3)
    y = None if x is None else d.pick_name(lambda y: y.shape == d.shape_of(x)[1:])
    return None if x is None or y is None else DrawnStep((x, y), {"scale": d.draw_literal()})


def draw_branch(d: ProgramDraft) -> DrawnStep | None:
    """Draw an operand to compare with a bound, and two operands for the branches."""
    x = d.pick_name()
    pair = d.draw_pair()
    if x is None or pair is None:
        return None
    test = "{0}" if not d.shape_of(x) else "np.sum({0})"
    template = f"if {test} > {{bound}}:\n    {{t}} = np.sin({{1}}) * {{2}}\nelse:\n    {{t}} = {{1}} - {{2}}"
    return DrawnStep((x, *pair), {"bound": d.draw_literal()}, template)


def draw_three_scalars(d: ProgramDraft) -> DrawnStep | None:
    """Draw three numbers."""
    names = [d.pick_name(lambda x: x.ndim == 0) for _ in range(3)]
    return None if None in names else DrawnStep(tuple(name for name in names if name is not None))


add_entries(
    "flow",
    CatalogueEntry(
        "loop",
        "{t} = {0}\nfor _ in range({count}):\n    {t} = np.{function}({scale} * {t} + {1})",
        draw_loop,
    ),
    CatalogueEntry("rows", "{t} = {1}\nfor row in {0}:\n    {t} = {scale} * {t} + np.tanh(row)", draw_row_loop),
    CatalogueEntry(
        "elements",
        "{t} = {1}\nfor k in range(len({0})):\n    {t} = np.sin({t}) + {scale} * {0}[k]",
        draw_row_loop,
    ),
    *[CatalogueEntry("branch", "", draw_branch, lambda x, *_, bound: is_away_from(np.sum(x), bound))] * 2,
    CatalogueEntry(
        "shrunk",
        "{t} = {0}\nwhile np.sum({t} ** 2) > {bound}:\n    {t} = {scale} * {t}",
        one_operand(pick_any_name, bound=lambda d: abs(d.draw_literal()), scale=lambda d: d.draw_item([0.5, 0.7])),
        _loop_stops_safely,
    ),
    CatalogueEntry(
        "harmonics",
        "{t} = np.stack([np.sin({0} * k) for k in range(1, {count})])",
        one_operand(pick_any_name, count=lambda d: d.draw_integer(3, 4)),
    ),
    CatalogueEntry("greatest", "max({0}, {1}, {2})", draw_three_scalars, lambda *xs: has_no_ties(np.array(xs))),
    CatalogueEntry("listed_sum", "sum([{0}, {1}, {2}])", draw_three_scalars),
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
    return {f"x{k}": _as_input(rng.normal(size=shape)) for k, shape in enumerate(shapes)}


def random_program(seed: int, *, least: int = 4, most: int = 14) -> RandomProgram:
    """Return the program of a seed, with `least` to `most` steps or a few more.

    >>> random_program(3).source == random_program(3).source
    True
    """
    rng = np.random.default_rng([seed, 0])
    draft = ProgramDraft(rng, random_inputs(rng))
    groups = (
        SCALAR_GROUPS
        if not any(map(np.ndim, draft.inputs.values()))
        else tuple(group for group in CATALOGUE for _ in range(GROUP_FREQUENCIES[group]))
    )
    count = int(rng.integers(least, most + 1))
    while len(draft.steps) < count:
        _try_entry(draft, draft.draw_item(CATALOGUE[draft.draw_item(groups)]))
    return draft.finish_program(seed)


def _try_entry(draft: ProgramDraft, entry: CatalogueEntry) -> None:
    drawn = entry.draw(draft)
    if drawn is None:
        return
    if (
        entry.methods
        and isinstance(drawn.operands[0], str)
        and draft.shape_of(drawn.operands[0])
        and draft.happens_with(0.4)
    ):
        drawn = replace(drawn, template=draft.draw_item(entry.methods))
    draft.add_step(entry.name, entry.template, drawn, entry.fits)


def count_drawn_entries(programs: Sequence[RandomProgram]) -> Counter[str]:
    """Count how often every entry of the catalogue was drawn."""
    return Counter(step.op for program in programs for step in program.steps)


# Shrinking.


def shrink_program(program: RandomProgram, fails: Callable[[RandomProgram], bool]) -> RandomProgram:
    """Return a program that still fails and none of whose smaller variants does."""
    smaller: RandomProgram | None = program
    while smaller is not None:
        program = smaller
        smaller = next((variant for variant in smaller_programs(program) if fails(variant)), None)
    return program


def smaller_programs(program: RandomProgram) -> Iterator[RandomProgram]:
    """Return smaller programs: only one result is returned, or one less, or the results of a step become inputs."""
    for step in program.steps:
        for name in step.targets:
            if [name] != list(program.weights):
                yield _return_only(program, name)
    for name in program.weights if len(program.weights) > 1 else ():
        yield _prune_program(replace(program, weights={n: w for n, w in program.weights.items() if n != name}))
    for step in program.steps[:-1]:
        results = {name: _as_input(program.values[name]) for name in step.targets}
        inputs = {**program.inputs, **results}
        rest = tuple(other for other in program.steps if other is not step)
        weights = {name: weight for name, weight in program.weights.items() if name not in results}
        yield _prune_program(replace(program, inputs=inputs, steps=rest, weights=weights or program.weights))


def _return_only(program: RandomProgram, name: str) -> RandomProgram:
    shape = np.shape(program.values[name])
    weight = _as_input(np.round(np.random.default_rng([program.seed, 2]).normal(size=shape), 2))
    return _prune_program(replace(program, constants={**program.constants, "w": weight}, weights={name: "w"}))


def _prune_program(program: RandomProgram) -> RandomProgram:
    """Return the program without the steps, inputs and weights that its result does not need."""
    needed = set(program.weights)
    steps = []
    for step in reversed(program.steps):
        if needed.intersection(step.targets):
            steps.append(step)
            needed.update(step.names)
    inputs = {name: value for name, value in program.inputs.items() if name in needed}
    return replace(program, inputs=inputs, steps=tuple(reversed(steps)))
