"""Ops on whole arrays: what their records are made of.

Every op is written over trailing axes (axes are counted from the end, shapes are those of the last few axes), so any
number of axes may stand in front: a batch runs through the same op with the same settings. Three kinds of rule:

- `Linear`: linear in each of its inputs alone; gives a transpose, the op itself pushes tangents;
- `Reduction`: makes one number of many; gives its slope, from which both modes follow;
- `General`: gives two rules.

A record also knows how the op is written in NumPy, for listings that need nothing else: a listing's shapes are fixed,
so its axes are counted from the front, as people write them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES, WireType
from wiregrad.errors import DomainError, NoRuleError
from wiregrad.ir import TABLE, Op
from wiregrad.ops.flow import Masked, conj, only, plus, settle, shape_of, times, whole
from wiregrad.ops.room import check_room, check_settings, of_large

Rule = Callable[..., Any]

_REFUSALS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What NumPy and the records' own functions raise for types and settings that do not fit."""

__all__ = [
    "ArrayOp",
    "Blocking",
    "General",
    "Linear",
    "Reduction",
    "Rule",
    "conj",
    "folded",
    "from_front",
    "literal",
    "numpy_call",
    "trailing",
    "unreduce",
]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ArrayOp(Op):
    """An op on whole arrays."""

    samples: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]] | None = None
    """Points where it is checked: tuples of the inputs and, last, a dict of settings."""
    batches: bool = True
    """Whether axes may stand in front of those the settings speak of; else a batch is a loop."""

    gap: Rule | None = None
    """How far elements are from a tie that changes what it picks, `(x, y, **settings)` on arrays: 0 on a tie."""

    numpy: str | Callable[..., str] = ""
    """How NumPy has it: the name of a function that takes the inputs and the settings, an expression with the inputs in
    braces by name, or what writes one, `(*operands, types, **settings)`. Empty where `forward` is NumPy's own."""

    numpy_needs: tuple[str, ...] = ()
    """Definitions of functions, in NumPy alone, that the text calls."""

    by_elements: Callable[..., Any] | None = None
    """The op on arrays of wires, written in wiregrad's scalar ops; where it is needed and `forward` will not do."""

    step: Rule | None = None
    """What an op that runs along axes does again and again, on numbers: `(so far, *elements)`. An op with `axes` begins
    with what the step leaves as it is, an op with an `axis` with the first element of its last input."""

    before: Rule | None = None
    """Of an op that gives indices, which one of two elements comes first: `(a, b)` on numbers, a condition."""

    composite: Rule | None = None
    """The op made of others, which are easier to write in a language without arrays."""

    @property
    def expands(self) -> bool:
        """Whether the op can be written element by element."""
        return self.by_elements is not None

    def expanded(self, *xs: Any) -> Any:
        """Return the op applied to arrays of wires."""
        return (self.by_elements or self.forward)(*xs, **self.options)

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return what NumPy makes of arrays that stand in for others."""
        try:
            check_settings(self.options)
            with np.errstate(all="ignore"):
                found = of_large(self, types, _stand_in)
                if found is None:
                    check_room(self, types)
                    y = np.asarray(self.compute(*map(_stand_in, types)))
                    found = WireType(y.dtype, y.shape)
        except _REFUSALS as error:
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}: {error}") from None
        if found.dtype not in DTYPES.values():
            raise DomainError(f"{self.name} makes {found.dtype} of {', '.join(map(str, types))}, which no wire carries")
        return found

    def numpy_text(self, types: tuple[WireType, ...]) -> str:
        """Return the op as an expression in NumPy; operands are {0}, {1} and so on, other braces are doubled.

        What takes the place of an operand must be a name, or something else that binds as tightly.

        >>> TABLE["sum"].bind({"axes": (-1,), "keepdims": False}).numpy_text((WireType(np.dtype(float), (2, 3)),))
        'np.sum({0}, axis=1)'
        """
        operands = [f"{{{slot}}}" for slot in range(len(types))]
        text = self.numpy or _public_name(self.forward)
        if not text:
            raise NoRuleError(
                f"{self.title} cannot be written in NumPy: its record has no text, and its forward is not a function "
                "of NumPy's"
            )
        if callable(text):
            return text(*operands, types=types, **self.options)
        if "{" in text:
            settings = {name: literal(value) for name, value in self.settings}
            return text.format(**dict(zip(self.inputs, operands, strict=True)), **settings)
        return numpy_call(text, *operands, ndim=len(types[0].shape), **self.options)

    def numpy_helpers(self, types: tuple[WireType, ...]) -> dict[str, str]:
        """Return the definitions that the text for these types needs, by the name of the function.

        >>> list(TABLE["solve"].bind({"strict": False}).numpy_helpers((WireType(np.dtype(float), (2, 2)),) * 2))
        ['or_nan']
        """
        called = _words(self.numpy_text(types))
        needed = dict[str, str]()
        # A helper stands behind those that it calls itself.
        for definition in reversed(self.numpy_needs):
            name = definition[4 : definition.index("(")]
            if name in called:
                called |= _words(definition)
                needed = {name: definition, **needed}
        return needed


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Linear(ArrayOp):
    """Linear in each input alone. `transpose(g, slot, *xs, **settings)` sends `g` back; None blocks the input."""

    transpose: Rule
    moves: bool = False
    """It only moves, copies or adds up elements, so that absence can travel along."""
    partial: bool = False
    """It may leave out elements of its input: their gradient is absent, not 0."""

    @property
    def expands(self) -> bool:
        """Whether the op can be written element by element: NumPy moves and adds wires as it does numbers."""
        return True

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the transpose applied to what arrived."""
        if not self.partial and type(g) is not Masked and shape_of(g) == shape_of(y):
            return self.transpose(g, slot, *xs, **self.options)
        g = whole(g, y)

        def back(flow: Any) -> Any:
            return self.transpose(flow, slot, *xs, **self.options)

        sent = back(settle(g))
        if sent is None or not self.moves or not (self.partial or type(g) is Masked):
            return sent
        mask = g.mask if type(g) is Masked else np.broadcast_to(np.True_, shape_of(y))
        present = _present(back(_number(mask)))
        return sent if present is None else only(present, sent)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of the op applied to each tangent in its input's place."""
        if self.variadic:
            # It is linear in all of its inputs together: what does not move counts as 0.
            still = [np.zeros(shape_of(x), x.dtype) if t is None else t for t, x in zip(tangents, xs, strict=True)]
            return self(*(settle(whole(t, x)) for t, x in zip(still, xs, strict=True)))
        return reduce(plus, [self._push(k, t, xs) for k, t in enumerate(tangents) if t is not None], None)

    def _push(self, slot: int, t: Any, xs: Sequence[Any]) -> Any:
        t = whole(t, xs[slot])

        def on(flow: Any) -> Any:
            return self(*xs[:slot], flow, *xs[slot + 1 :])

        if not self.moves or type(t) is not Masked or len(xs) > 1:
            return on(settle(t))
        return only(TABLE["greater"](on(_number(t.mask)), 0.0), on(settle(t)))

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """No single number is the derivative of an array by an array."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Reduction(ArrayOp):
    """Makes one number of many along `axes`. `slope(x, y, **settings)` has the shape of `x`; so has `y` there."""

    slope: Rule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the slope times what arrived, spread along the axes."""
        (x,) = xs
        return times(self._along(whole(g, y), x), conj(self.slope(x, self._along(y, x), **self.options)))

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of slope times tangent along the axes."""
        (x,) = xs
        (t,) = tangents
        moved = settle(times(whole(t, x), self.slope(x, self._along(y, x), **self.options)))
        return TABLE["sum"](whole(moved, x), **self.options)

    def _along(self, flow: Any, x: Any) -> Any:
        if type(flow) is Masked:
            return Masked(self._along(flow.mask, x), self._along(flow.value, x))
        return unreduce(flow, shape_of(x), self.options["axes"], self.options["keepdims"])

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """No single number is the derivative of a number by an array."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class General(ArrayOp):
    """An op with a rule for each mode: `back(slot, g, xs, y, **settings)` and `ahead(slot, t, xs, y, **settings)`."""

    back: Rule
    ahead: Rule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return what the backward rule sends."""
        return self.back(slot, settle(whole(g, y)), xs, y, **self.options)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of what the forward rule makes of each tangent."""
        moved = [
            self.ahead(k, settle(whole(t, xs[k])), xs, y, **self.options)
            for k, t in enumerate(tangents)
            if t is not None
        ]
        return reduce(plus, moved, None)

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """No single number is the derivative of an array by an array."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Blocking(ArrayOp):
    """An op whose output moves in steps: nothing flows through it."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Nothing is sent back."""
        return None

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Nothing moves."""
        return None


def folded(op: str) -> Rule:
    """Return a reduction of wires by an op of two, one after the other."""

    def fold(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        kept = [axis for axis in range(-x.ndim, 0) if axis not in axes]
        moved = np.moveaxis(x, kept, range(len(kept)))
        rows = moved.reshape(*moved.shape[: len(kept)], -1)
        found = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(found.shape):
            found[index] = reduce(TABLE[op], rows[index])
        shape = tuple(1 if axis in axes else x.shape[axis] for axis in range(-x.ndim, 0))
        return found.reshape(shape) if keepdims else found

    return fold


def unreduce(flow: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return what a reduction along axes gave, spread back to the shape it was given."""
    if len(axes) == len(shape) and isinstance(flow, float | np.generic):
        # The same number everywhere: a flow may come without the axes it does not vary along.
        return flow
    kept = tuple(1 if k - len(shape) in axes else n for k, n in enumerate(shape))
    if not keepdims and axes:
        flow = TABLE["reshape"](flow, rank=len(shape_of(flow)), shape=kept)
    return flow if kept == shape else TABLE["spread"](flow, rank=len(kept), shape=shape)


def _number(mask: Any) -> Any:
    return TABLE["where"](mask, 1.0, 0.0)


def _present(counts: Any) -> Any:
    """Return the mask of what a count reaches; None if it reaches everything."""
    if isinstance(counts, np.ndarray | np.generic):
        mask = np.greater(counts, 0)
        return None if np.all(mask) else mask
    return TABLE["greater"](counts, 0.0)


def _stand_in(kind: WireType) -> Any:
    """Return an array of a type that any op takes which takes the type."""
    if kind.dtype.kind in "iu":
        # Whole numbers are indices: 0 exists on every axis.
        return np.zeros(kind.shape, kind.dtype)
    found = np.ones(kind.shape, kind.dtype)
    if kind.differentiable and len(kind.shape) > 1:
        # A matrix of ones is singular; this one is positive definite.
        found += np.eye(*kind.shape[-2:], dtype=kind.dtype)
    return found


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _public_name(function: Callable[..., Any]) -> str:
    """Return what a NumPy function is called; nothing for other functions."""
    name = getattr(function, "__name__", "")
    homes = {"np": np, "np.linalg": np.linalg}
    return next((f"{home}.{name}" for home, module in homes.items() if getattr(module, name, None) is function), "")


def literal(value: Any) -> str:
    """Write a setting as NumPy source, with braces doubled.

    >>> literal((2, 3)), literal("L"), literal(-np.inf)
    ('(2, 3)', "'L'", '-np.inf')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value).replace("{", "{{").replace("}", "}}")


def from_front(axes: tuple[int, ...], ndim: int) -> Any:
    """Return axes counted from the front as NumPy takes them: None for all, a number for one.

    >>> from_front((-2, -1), 2), from_front((-1,), 3), from_front((-3, -1), 3)
    (None, 2, (0, 2))
    """
    found = tuple(axis % ndim for axis in axes)
    return None if len(found) == ndim else found[0] if len(found) == 1 else found


def numpy_call(function: str, *operands: str, ndim: int, **settings: Any) -> str:
    """Write a call; settings that are None or False, NumPy's usual defaults, are left out, and so are all axes.

    >>> numpy_call("np.max", "x", ndim=2, axes=(-2,), keepdims=True), numpy_call("np.any", "x", ndim=1, axes=(-1,))
    ('np.max(x, axis=0, keepdims=True)', 'np.any(x)')
    """
    named = dict(settings)
    if "axes" in named:
        named = {"axis": from_front(named.pop("axes"), ndim), **named}
    elif "axis" in named:
        named["axis"] %= ndim
    given = [f"{name}={literal(value)}" for name, value in named.items() if value is not None and value is not False]
    return f"{function}({', '.join([*operands, *given])})"


_ALL_AXES = [tuple(range(-ndim, 0)) for ndim in range(65)]
"""All axes, counted from the end, by how many there are; NumPy allows 64."""


def trailing(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes (None: all, one, or several) counted from the end, in order.

    >>> trailing((0, -1), 3), trailing(None, 2)
    ((-3, -1), (-2, -1))
    """
    if axes is None:
        return _ALL_AXES[ndim]
    given = (axes,) if np.ndim(axes) == 0 else tuple(axes)
    normal = [int(np.lib.array_utils.normalize_axis_index(int(axis), ndim)) - ndim for axis in given]
    if len(set(normal)) != len(normal):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(normal))
