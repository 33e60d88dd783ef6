"""Kinds of ops on whole arrays, and what their records contain.

Every op works on trailing axes: axes are counted from the end, and shapes are those of the last few axes. So any number
of axes may stand in front, and a batch runs through the same op with the same settings. There are three kinds of rule:

- `Linear` is linear in each input by itself and has a transpose; tangents are pushed by the op itself;
- `Reduction` reduces axes to one number and has a slope, from which both modes follow;
- `General` has one rule for each mode.

A record also says how the op is written in NumPy, for listings. The shapes in a listing are fixed, so its axes are
counted from the front, as people write them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES, WireType
from wiregrad.errors import DomainError, NoRuleError
from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ops.gradient_flow import (
    LazyMask,
    MaskedFlow,
    add_flows,
    conjugate_flow,
    fill_absent,
    fill_for_sum,
    is_wire,
    match_shape,
    multiply_flows,
    only,
    shape_of,
)
from wiregrad.ops.size_limits import check_settings, check_size, infer_from_small

ArrayRule = Callable[..., Any]

_NUMPY_REFUSALS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What NumPy and the records' own functions raise for types and settings they do not accept."""

__all__ = [
    "ArrayOp",
    "ArrayRule",
    "Blocking",
    "General",
    "Linear",
    "Reduction",
    "axes_from_end",
    "axes_from_front",
    "conjugate_flow",
    "define_helper",
    "fold_with",
    "undo_reduction",
    "write_numpy_call",
    "write_setting",
]


def define_helper(text: str, *needs: str) -> Callable[..., Any]:
    """Return the function that a text defines, as a listing would define it."""
    namespace: dict[str, Any] = {"np": np}
    exec("\n".join([*needs, text]), namespace)
    function: Callable[..., Any] = namespace[text[4 : text.index("(")]]
    return function


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ArrayOp(Op):
    """An op on whole arrays."""

    samples: Callable[[np.random.Generator], Sequence[tuple[Any, ...]]] | None = None
    """Makes the points where it is checked: tuples of the inputs and, last, a dict of settings."""
    batches: bool = True
    """Whether batch axes may stand in front of those the settings name; if not, a batch is run in a loop."""

    gap: ArrayRule | None = None
    """Distance of elements from a tie that would change which one is picked, `(x, y, **settings)` on arrays."""

    numpy: str | Callable[..., str] = ""
    """The op in NumPy: the name of a function of the inputs and settings, an expression with the input names in braces,
    or a function that writes one, `(*operands, types, **settings)`. Empty if `forward` is a NumPy function."""

    numpy_needs: tuple[str, ...] = ()
    """Source of the helper functions that the NumPy text calls; they use nothing but NumPy."""

    by_elements: Callable[..., Any] | None = None
    """The op on arrays of wires, written in scalar ops; needed if `forward` does not accept such arrays."""

    step: ArrayRule | None = None
    """One step, on numbers, of an op that runs along axes: `(result so far, *elements)`. An op with `axes` starts with
    the neutral element of the step, an op with `axis` with the first element of its last input."""

    before: ArrayRule | None = None
    """For an op that returns indices: whether element `a` comes before `b`, as a condition on numbers."""

    composite: ArrayRule | None = None
    """The op written in other ops, for languages without arrays."""

    def missing_parts(self) -> list[str]:
        """Return what the record lacks and how to add it; an op whose settings belong to one call needs a doc alone."""
        missing = super().missing_parts()
        if not self.per_call and self.samples is None and self.pattern is not Pattern.BLOCK:
            missing.append("no samples: add samples=, a function of a random generator that returns points to check")
        if not self.per_call and not (self.numpy or _public_name(self.forward)):
            missing.append("no numpy: add numpy=, the op as NumPy source, because forward is not a NumPy function")
        return missing

    @property
    def can_expand(self) -> bool:
        """Whether the op can be written element by element."""
        return self.by_elements is not None

    def expand_elements(self, *xs: Any) -> Any:
        """Return the op applied to arrays of wires."""
        return (self.by_elements or self.forward)(*xs, **self.options)

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return the type that NumPy returns for stand-in arrays of these types."""
        try:
            check_settings(self.options)
            with np.errstate(all="ignore"):
                kind = infer_from_small(self, types, _stand_in)
                if kind is None:
                    check_size(self, types)
                    y = np.asarray(self.compute(*map(_stand_in, types)))
                    kind = WireType(y.dtype, y.shape)
        except _NUMPY_REFUSALS as error:
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}: {error}") from None
        if kind.dtype not in DTYPES.values():
            inputs = ", ".join(map(str, types))
            raise DomainError(f"{self.name} returns {kind.dtype} for {inputs}, which wires do not support")
        return kind

    def numpy_text(self, types: tuple[WireType, ...]) -> str:
        """Return the op as a NumPy expression; operands are {0}, {1} and so on, other braces are doubled.

        An operand may be replaced by a name, or by something else that binds as tightly.

        >>> TABLE["sum"].bind({"axes": (-1,), "keepdims": False}).numpy_text((WireType(np.dtype(float), (2, 3)),))
        'np.sum({0}, axis=1)'
        """
        operands = [f"{{{slot}}}" for slot in range(len(types))]
        text = self.numpy or _public_name(self.forward)
        if not text:
            raise NoRuleError(
                f"{self.title} cannot be written in NumPy: its record has no `numpy` text, and its forward is not a "
                "NumPy function"
            )
        if callable(text):
            return text(*operands, types=types, **self.options)
        if "{" in text:
            settings = {name: write_setting(value) for name, value in self.settings}
            return text.format(**dict(zip(self.inputs, operands, strict=True)), **settings)
        return write_numpy_call(text, *operands, ndim=len(types[0].shape), **self.options)

    def numpy_helpers(self, types: tuple[WireType, ...]) -> dict[str, str]:
        """Return the source of the helpers that the text for these types calls, by function name.

        >>> list(TABLE["solve"].bind({"strict": False}).numpy_helpers((WireType(np.dtype(float), (2, 2)),) * 2))
        ['or_nan']
        """
        called = _find_words(self.numpy_text(types))
        needed = dict[str, str]()
        # A helper is listed after the helpers that it calls.
        for definition in reversed(self.numpy_needs):
            name = definition[4 : definition.index("(")]
            if name in called:
                called |= _find_words(definition)
                needed = {name: definition, **needed}
        return needed


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Linear(ArrayOp):
    """Linear in each input by itself. `transpose(g, slot, *xs, **settings)` sends `g` back; None blocks the input."""

    transpose: ArrayRule
    moves: bool = False
    """Whether it only moves, copies or adds up elements, so that masks can be moved the same way."""
    partial: bool = False
    """Whether it may leave out elements of its input, whose gradient is then absent, not 0."""

    @property
    def can_expand(self) -> bool:
        """Whether the op can be written element by element: NumPy moves and adds wires as it does numbers."""
        return True

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the transpose applied to the upstream gradient."""
        if not self.partial and type(g) is np.ndarray and g.shape == shape_of(y):
            # By far the most common case.
            return self.transpose(g, slot, *xs, **self.options)
        g = match_shape(g, y)
        sent = self.transpose(fill_for_sum(g), slot, *xs, **self.options)
        if sent is None or not self.moves or not (self.partial or type(g) is MaskedFlow):
            return sent
        if type(g) is not MaskedFlow:
            g = MaskedFlow(np.broadcast_to(np.True_, shape_of(y)), g)

        def send_back(flow: Any) -> Any:
            return self.transpose(flow, slot, *xs, **self.options)

        if not g.is_array or any(map(is_wire, xs)):
            # The transpose may read inputs that are wires: then so is the mask.
            return only(TABLE["greater"](send_back(_mask_to_number(g.mask)), 0.0), sent)
        if not shape_of(sent):
            # The mask of a number is decided at once; what is absent counted as 0, so another number is present.
            if not is_wire(sent) and sent != 0.0:
                return sent
            return only(_as_mask(send_back(g.mask))[()], sent)
        # What was absent counted as 0.0 or -0.0, and so does a sum of that.
        return MaskedFlow(LazyMask(lambda: _as_mask(send_back(g.mask))), sent, zeroed=True)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of the op applied to each tangent in its input's place."""
        if self.variadic:
            # It is linear in all inputs together: an input without a tangent counts as 0.
            still = [np.zeros(shape_of(x), x.dtype) if t is None else t for t, x in zip(tangents, xs, strict=True)]
            return self(*(fill_absent(match_shape(t, x)) for t, x in zip(still, xs, strict=True)))
        return reduce(add_flows, [self._push_input(k, t, xs) for k, t in enumerate(tangents) if t is not None], None)

    def _push_input(self, slot: int, t: Any, xs: Sequence[Any]) -> Any:
        t = match_shape(t, xs[slot])

        def apply_to(flow: Any) -> Any:
            return self(*xs[:slot], flow, *xs[slot + 1 :])

        if not self.moves or type(t) is not MaskedFlow or len(xs) > 1:
            return apply_to(fill_absent(t))
        return only(TABLE["greater"](apply_to(_mask_to_number(t.mask)), 0.0), apply_to(fill_absent(t)))

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the derivative of an array with respect to an array is not a single number."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Reduction(ArrayOp):
    """Reduces `axes` to one number. `slope(x, y, **settings)` has the shape of `x`; `y` is spread to that shape."""

    slope: ArrayRule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the slope times the upstream gradient, spread along the axes."""
        (x,) = xs
        return multiply_flows(
            self._spread_back(match_shape(g, y), x),
            conjugate_flow(self.slope(x, self._spread_back(y, x), **self.options)),
        )

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of slope times tangent along the axes."""
        (x,) = xs
        (t,) = tangents
        moved = fill_absent(multiply_flows(match_shape(t, x), self.slope(x, self._spread_back(y, x), **self.options)))
        return TABLE["sum"](match_shape(moved, x), **self.options)

    def _spread_back(self, flow: Any, x: Any) -> Any:
        if type(flow) is MaskedFlow:
            return MaskedFlow(self._spread_back(flow.mask, x), self._spread_back(flow.value, x))
        return undo_reduction(flow, shape_of(x), self.options["axes"], self.options["keepdims"])

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the derivative with respect to an array is not a single number."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class General(ArrayOp):
    """An op with a rule for each mode: `back(slot, g, xs, y, **settings)` and `ahead(slot, t, xs, y, **settings)`."""

    back: ArrayRule
    ahead: ArrayRule

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return what the backward rule sends back."""
        return self.back(slot, fill_for_sum(match_shape(g, y)), xs, y, **self.options)

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return the sum of what the forward rule returns for each tangent."""
        moved = [
            self.ahead(k, fill_absent(match_shape(t, xs[k])), xs, y, **self.options)
            for k, t in enumerate(tangents)
            if t is not None
        ]
        return reduce(add_flows, moved, None)

    def local(self, slot: int, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the derivative of an array with respect to an array is not a single number."""
        return None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Blocking(ArrayOp):
    """An op whose output changes in steps: no gradient flows through it."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: nothing is sent back."""
        return None

    def push(self, tangents: Sequence[Any], xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return None: the output has no tangent."""
        return None


def fold_with(op: str) -> ArrayRule:
    """Return a function that reduces arrays of wires with a binary op, one element after the other."""

    def fold_axes(x: Any, *, axes: tuple[int, ...], keepdims: bool) -> Any:
        other_axes = [axis for axis in range(-x.ndim, 0) if axis not in axes]
        in_front = np.moveaxis(x, other_axes, range(len(other_axes)))
        rows = in_front.reshape(*in_front.shape[: len(other_axes)], -1)
        y = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(y.shape):
            y[index] = reduce(TABLE[op], rows[index])
        shape = tuple(1 if axis in axes else x.shape[axis] for axis in range(-x.ndim, 0))
        return y.reshape(shape) if keepdims else y

    return fold_axes


@lru_cache(maxsize=1024)
def _shape_with_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with length 1 along axes."""
    return tuple([1 if k - len(shape) in axes else n for k, n in enumerate(shape)])


def undo_reduction(flow: Any, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Any:
    """Spread the result of a reduction along axes back to the shape of its input."""
    if len(axes) == len(shape) and isinstance(flow, float | np.generic):
        # The same number everywhere: a flow may lack the axes along which it is constant.
        return flow
    reduced_shape = _shape_with_ones(shape, axes)
    if not keepdims and axes:
        flow = TABLE["reshape"](flow, rank=len(shape_of(flow)), shape=reduced_shape)
    return flow if reduced_shape == shape else TABLE["spread"](flow, rank=len(reduced_shape), shape=shape)


def _mask_to_number(mask: Any) -> Any:
    return TABLE["where"](mask, 1.0, 0.0)


def _as_mask(counts: Any) -> Any:
    """Return where counts are positive; a sum of conditions may be a condition already."""
    return counts if counts.dtype == np.bool_ else np.greater(counts, 0)


def _stand_in(kind: WireType) -> Any:
    """Return an array of a type with elements that every op on this type accepts."""
    if kind.dtype.kind in "iu":
        # Integers are indices, and index 0 exists on every axis.
        return np.zeros(kind.shape, kind.dtype)
    array = np.ones(kind.shape, kind.dtype)
    if kind.differentiable and len(kind.shape) > 1:
        # A matrix of ones is singular; with 2 on the diagonal it is positive definite.
        array += np.eye(*kind.shape[-2:], dtype=kind.dtype)
    return array


def _find_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _public_name(function: Callable[..., Any]) -> str:
    """Return the public name of a NumPy function; empty for other functions."""
    name = getattr(function, "__name__", "")
    homes = {"np": np, "np.linalg": np.linalg}
    return next((f"{home}.{name}" for home, module in homes.items() if getattr(module, name, None) is function), "")


def write_setting(value: Any) -> str:
    """Write a setting as NumPy source, with braces doubled.

    >>> write_setting((2, 3)), write_setting("L"), write_setting(-np.inf)
    ('(2, 3)', "'L'", '-np.inf')
    """
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "np.nan"
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value).replace("{", "{{").replace("}", "}}")


def axes_from_front(axes: tuple[int, ...], ndim: int) -> Any:
    """Return axes counted from the front, in NumPy's form: None for all axes, an integer for one.

    >>> axes_from_front((-2, -1), 2), axes_from_front((-1,), 3), axes_from_front((-3, -1), 3)
    (None, 2, (0, 2))
    """
    from_start = tuple(axis % ndim for axis in axes)
    if len(from_start) == ndim:
        return None
    return from_start[0] if len(from_start) == 1 else from_start


def write_numpy_call(function: str, *operands: str, ndim: int, **settings: Any) -> str:
    """Write a call; an axis setting that means all axes is left out, and so are None and False, the usual defaults.

    >>> write_numpy_call("np.max", "x", ndim=2, axes=(-2,), keepdims=True)
    'np.max(x, axis=0, keepdims=True)'
    >>> write_numpy_call("np.any", "x", ndim=1, axes=(-1,))
    'np.any(x)'
    """
    named = dict(settings)
    if "axes" in named:
        named = {"axis": axes_from_front(named.pop("axes"), ndim), **named}
    elif "axis" in named:
        named["axis"] %= ndim
    keywords = [
        f"{name}={write_setting(value)}" for name, value in named.items() if value is not None and value is not False
    ]
    return f"{function}({', '.join([*operands, *keywords])})"


_ALL_AXES = [tuple(range(-ndim, 0)) for ndim in range(65)]
"""All axes counted from the end, by the number of axes; NumPy allows 64."""


def axes_from_end(axes: Any, ndim: int) -> tuple[int, ...]:
    """Return axes (None for all, one, or several) counted from the end, in ascending order.

    >>> axes_from_end((0, -1), 3), axes_from_end(None, 2)
    ((-3, -1), (-2, -1))
    """
    if axes is None:
        return _ALL_AXES[ndim]
    listed = (axes,) if np.ndim(axes) == 0 else tuple(axes)
    normal = [int(np.lib.array_utils.normalize_axis_index(int(axis), ndim)) - ndim for axis in listed]
    if len(set(normal)) != len(normal):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(normal))
