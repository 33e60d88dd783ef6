"""Kinds of ops on whole arrays, and what their records contain.

Every op works on trailing axes: axes are counted from the end, and shapes are those of the last few axes. So any number
of axes may stand in front, and a batch runs through the same op with the same settings. There are three kinds of rule:

- `LinearOp` is linear in each input by itself and has a transpose; tangents are pushed by the op itself;
- `Reduction` reduces axes to one number and has a slope, from which both modes follow;
- `General` has one rule for each mode.

A record also says how the op is written in NumPy, for listings. The shapes in a listing are fixed, so its axes are
counted from the front, as people write them.

The output type of an array op is what NumPy returns for stand-in arrays. A circuit read from a file can be a few
characters long and ask for more memory than any machine has (`put_add` into a shape of its own, a column times a row),
and a user's own circuit may hold arrays too large to allocate twice. So the size of an op's output is bounded first, by
shapes and settings alone (`check_size`), and large operands are replaced where that does not change the result: by
arrays that take no memory, or by small ones (`infer_from_small`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, reduce
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from wiregrad.dtypes import MAX_AXES, WIRE_DTYPES, WireType
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

ArrayRule = Callable[..., Any]
OpSamples: TypeAlias = "Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]"

_NUMPY_REFUSALS = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What NumPy and the records' own functions raise for types and settings they do not accept."""

__all__ = [
    "ArrayOp",
    "ArrayRule",
    "Blocking",
    "General",
    "LinearOp",
    "Reduction",
    "axes_from_end",
    "axes_from_front",
    "conjugate_flow",
    "define_helper",
    "definite_samples",
    "fold_with",
    "keep_shape",
    "normal_samples",
    "reduce_shape",
    "undo_reduction",
    "write_numpy_call",
    "write_setting",
]


def define_helper(text: str, *needs: str) -> Callable[..., Any]:
    """Return the function that a text defines, as a listing would define it; it is compiled at its first call."""

    @cache
    def compile_helper() -> Callable[..., Any]:
        namespace: dict[str, Any] = {"np": np}
        exec("\n".join([*needs, text]), namespace)
        function: Callable[..., Any] = namespace[text[4 : text.index("(")]]
        return function

    def run_helper(*xs: Any) -> Any:
        return compile_helper()(*xs)

    return run_helper


def normal_samples(*cases: tuple[Any, ...], shift: float = 0.0) -> OpSamples:
    """Return a sampler of normal arrays of these shapes; `shift` is added to the diagonal of square ones."""

    def draw_item(rng: np.random.Generator, item: Any) -> Any:
        if isinstance(item, list):
            return [draw_item(rng, shape) for shape in item]
        if not isinstance(item, tuple):
            return item
        x = rng.normal(size=item)
        return x + shift * np.eye(item[-1]) if shift and item[-2:-1] == item[-1:] else x

    return lambda rng: [tuple(draw_item(rng, item) for item in case) for case in cases]


def definite_samples(*cases: tuple[Any, ...]) -> OpSamples:
    """Return a sampler of symmetric positive definite matrices with distinct eigenvalues."""

    def draw_matrix(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        q = np.linalg.qr(rng.normal(size=shape))[0]
        x = (q * (np.arange(shape[-1]) + 1.0)) @ np.swapaxes(q, -1, -2)
        return (x + np.swapaxes(x, -1, -2)) / 2

    return lambda rng: [(draw_matrix(rng, shape), settings) for shape, settings in cases]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ArrayOp(Op):
    """An op on whole arrays."""

    samples: OpSamples | None = None
    """Makes the points where it is checked: tuples of the inputs and, last, a dict of settings."""
    batches: bool = True
    """Whether batch axes may stand in front of those the settings name; if not, a batch is run in a loop."""

    output_shape: Callable[..., tuple[int, ...] | None] | None = None
    """The shape of the output, `(*shapes, **settings)`; None where NumPy refuses the shapes or has to be asked. Views
    and ops with the settings `axes` and `keepdims` need no rule. Without one, NumPy is asked with stand-in arrays."""

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
            kind = _infer_on_stand_ins(self, types)
        except _NUMPY_REFUSALS as error:
            raise DomainError(f"{self.name} cannot take {', '.join(map(str, types))}: {error}") from None
        if kind.dtype not in WIRE_DTYPES:
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


@lru_cache(maxsize=1 << 14)
def _infer_on_stand_ins(op: ArrayOp, types: tuple[WireType, ...]) -> WireType:
    """Infer an op's output type from arrays that stand in for its inputs: hollow, small, or as they are.

    Circuits repeat the same ops on the same types, so the answers are kept.
    """
    with np.errstate(all="ignore"):
        kind = infer_from_small(op, types, _stand_in)
        if kind is None:
            check_size(op, types)
            y = np.asarray(op.compute(*map(_stand_in, types)))
            kind = WireType(y.dtype, y.shape)
    return kind


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class LinearOp(ArrayOp):
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
            g = MaskedFlow(LazyMask(lambda: np.broadcast_to(np.True_, shape_of(y))), g)

        def send_back(flow: Any) -> Any:
            return self.transpose(flow, slot, *xs, **self.options)

        if not g.is_array or any(map(is_wire, xs)):
            # The transpose may read inputs that are wires: then so is the mask.
            is_permuted = not self.partial and len(xs) == 1 and prod(shape_of(xs[0])) == prod(shape_of(y))
            return _mask_sent(_move_mask(send_back, g.mask, is_permuted), sent, g)
        if not shape_of(sent):
            # The mask of a number is decided at once; what is absent counted as 0, so another number is present.
            if not is_wire(sent) and sent != 0.0:
                return sent
            return only(_as_mask(send_back(g.mask))[()], sent)
        # What was absent counted as 0.0 or -0.0, and so does a sum of that.
        return MaskedFlow(LazyMask(lambda: _as_mask(send_back(g.mask)), g), sent, zeroed=True)

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


def _mask_sent(mask: Any, sent: Any, g: MaskedFlow) -> Any:
    """Return what a transpose sends of a masked flow, whose absent elements counted as zeros."""
    if issubclass(type(mask), bool | np.generic):
        return only(mask, sent)
    # They counted as 0.0, and so does a sum of them; a flow that is not filled may hold -0.0.
    return MaskedFlow(mask, sent, zeroed=True, filled=g.is_filled)


def _move_mask(move: Callable[[Any], Any], mask: Any, is_permuted: bool) -> Any:
    """Return a mask that is moved as a gradient is; one whose elements are only permuted stays a condition."""
    if is_permuted:
        moved = move(mask)
        if getattr(moved, "dtype", None) == np.bool_:
            return moved
    return TABLE["greater"](move(_mask_to_number(mask)), 0.0)


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
    if type(axes) is int and -ndim <= axes < ndim:
        return (axes if axes < 0 else axes - ndim,)
    listed = (axes,) if np.ndim(axes) == 0 else tuple(axes)
    normal = [int(np.lib.array_utils.normalize_axis_index(int(axis), ndim)) - ndim for axis in listed]
    if len(set(normal)) != len(normal):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(normal))


Shape = tuple[int, ...]

SMALL_SIZE = 256
"""Operands with no more elements than this are not worth replacing."""
LARGE_SIZE = 1_000_000
"""Operands with more elements than this are never made."""
MAX_SIZE = 10_000_000
"""Maximum number of elements that stand-ins or their result may have."""
LARGE_WORK = 10**7
"""Operands of matrix ops are replaced above this number of steps."""
MAX_WORK = 5 * 10**8
"""Maximum number of steps of a matrix op on stand-ins."""
WORK_PER_MATRIX = 10_000
"""Steps that one matrix costs in addition to those for its elements."""
_SHORT_LENGTHS = (5, 13, 29, 61), (7, 19, 41, 83)
"""Two choices of short lengths to stand in for long ones; each is more than twice the one before, plus one."""
_AXIS_SETTINGS = {"axis", "axes"}
"""Settings that choose axes."""
WIRE_DTYPE_NAMES = frozenset(dtype.name for dtype in WIRE_DTYPES)
_LENGTH_SETTINGS = {"index", "rank", "shape", "size", "length"}
"""Settings that depend on the lengths of axes."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise if a setting alone would make NumPy or Python allocate something large."""
    if settings.get("dtype", "bool") not in WIRE_DTYPE_NAMES:
        raise TypeError("wires do not support this dtype")
    if not 0 <= settings.get("rank", 0) <= MAX_AXES:
        raise ValueError(f"an array has 0 to {MAX_AXES} axes")


def check_size(op: Op, types: Sequence[WireType]) -> None:
    """Raise if inferring a type from stand-ins would take too much memory or work."""
    shapes = [kind.shape for kind in types]
    if _is_view(shapes, op.options):
        return
    if (
        max(sum(map(prod, shapes)), bound_output_size(shapes, op.options)) > MAX_SIZE
        or _estimate_work(shapes, op.options) > MAX_WORK
    ):
        raise ValueError("arrays of this size are too large to infer a type from")


def infer_from_small(op: ArrayOp, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Infer an op's output type from shapes, hollow or small arrays; None if not possible or not needed."""
    shapes = [kind.shape for kind in types]
    if any(0 in shape for shape in shapes):
        return None
    size = sum(map(prod, shapes))
    is_large = size > LARGE_SIZE or _estimate_work(shapes, op.options) > LARGE_WORK
    if size <= SMALL_SIZE and not is_large:
        return None
    if op.is_view or _is_view(shapes, op.options):
        y = np.asarray(op.compute(*map(hollow_stand_in, types)))
        return WireType(y.dtype, y.shape)
    kind = _infer_by_rule(op, types)
    return _infer_from_shortened(op, types, stand_in) if kind is None and is_large else kind


def _infer_by_rule(op: ArrayOp, types: Sequence[WireType]) -> WireType | None:
    """Infer an op's output type from the shapes alone, by the rule of its record; None if there is none."""
    rule = op.output_shape
    if rule is None and op.options.keys() == {"axes", "keepdims"}:
        rule = reduce_shape
    shape = None if rule is None else rule(*(kind.shape for kind in types), **op.options)
    if shape is None:
        return None
    if _LENGTH_SETTINGS & {*op.options}:
        dtype = types[0].dtype
    else:
        dtype = _infer_dtype(op, tuple([(kind.dtype, len(kind.shape)) for kind in types]))
    # A file of a few characters may ask for more memory than there is: `check_size` refuses that.
    return WireType(dtype, shape) if prod(shape) <= MAX_SIZE else None


@lru_cache(maxsize=4096)
def _infer_dtype(op: ArrayOp, kinds: tuple[tuple[np.dtype[Any], int], ...]) -> np.dtype[Any]:
    """Return the dtype that an op returns for arrays of these dtypes and numbers of axes."""
    return np.asarray(op.compute(*(_stand_in(WireType(dtype, (1,) * ndim)) for dtype, ndim in kinds))).dtype


def keep_shape(x: Shape, **_: Any) -> Shape:
    """Return the output shape of an op that keeps the shape of its input."""
    return x


def reduce_shape(x: Shape, *, axes: tuple[int, ...], keepdims: bool) -> Shape | None:
    """Return the output shape of an op that reduces axes; None if an axis does not exist or comes twice.

    >>> reduce_shape((2, 3, 4), axes=(-2,), keepdims=False), reduce_shape((2, 3), axes=(-2, -1), keepdims=True)
    ((2, 4), (1, 1))
    """
    reduced = {axis % len(x) for axis in axes if -len(x) <= axis < len(x)}
    if len(reduced) < len(axes):
        return None
    if keepdims:
        return tuple([1 if k in reduced else n for k, n in enumerate(x)])
    return tuple([n for k, n in enumerate(x) if k not in reduced])


def _estimate_work(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Estimate the number of steps of a matrix op; 0 for other ops, which take a few steps per element."""
    if len(shapes) > 2 or (_AXIS_SETTINGS | _LENGTH_SETTINGS) & {*settings}:
        return 0
    matrices = [shape for shape in shapes if len(shape) > 1]
    longest = max((n for shape in matrices for n in shape[-2:]), default=0)
    return sum(map(prod, shapes)) * longest + WORK_PER_MATRIX * max((prod(shape[:-2]) for shape in matrices), default=0)


def hollow_stand_in(kind: WireType) -> Any:
    """Return an array of a type that takes no memory: all its elements are one and the same.

    >>> hollow_stand_in(WireType(np.dtype(float), (10**6, 10**6))).strides
    (0, 0)
    """
    return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)


def _is_view(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> bool:
    """Return whether the settings belong to an op that returns a view of its input."""
    if settings.keys() == {"rank", "shape"}:
        # A view has at least as many elements as its input; an op that returns fewer adds them up.
        return bound_output_size(shapes, settings) >= prod(shapes[0])
    basic = all(item is None or type(item) in (int, tuple) for item in settings.get("index", ()))
    return "shape" not in settings and ("size" in settings or ("index" in settings and basic))


def _infer_from_shortened(op: Op, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Infer the output type from small arrays; lengths that are equal, or differ by one, stay so when shortened.

    Each output axis of an op without length settings is as long as an input axis, or as two of them together. The op
    runs on two choices of short lengths; a length that both results agree on says how the long lengths combine.
    """
    lengths = sorted({n for kind in types for n in kind.shape if n > 1})
    if _LENGTH_SETTINGS & {*op.options} or len(lengths) > len(_SHORT_LENGTHS[0]):
        return None
    shapes = []
    choices = [_shorten_lengths(lengths, row) for row in _SHORT_LENGTHS]
    for short in choices:
        small = [WireType(kind.dtype, tuple([short[n] for n in kind.shape])) for kind in types]
        y = np.asarray(op.compute(*map(stand_in, small)))
        shapes.append(y.shape)
    if len(shapes[0]) != len(shapes[1]):
        return None
    known = _length_sums([(choices[0][n], choices[1][n], n) for n in lengths])
    candidates = [known.get(pair, ()) for pair in zip(*shapes, strict=True)]
    if any(len(each) != 1 for each in candidates):
        return None
    return WireType(y.dtype, tuple([each[0] for each in candidates]))


def _shorten_lengths(lengths: Sequence[int], row: Sequence[int]) -> dict[int, int]:
    """Map each long length to a short one in the same order; two lengths that differ by one still do."""
    short = {1: 1}
    rest = iter(row)
    for n in lengths:
        short[n] = short[n - 1] + 1 if n - 1 in short and n > 2 else next(rest)
    return short


def _length_sums(lengths: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Map each pair of short lengths to the long lengths it may stand for: 0 to 2, plus a length or a sum of two."""
    terms = [(0, 0, 0), *lengths]
    sums: dict[tuple[int, int], set[int]] = {}
    for (a, b, long), (c, d, other), more in product(terms, terms, (0, 1, 2)):
        sums.setdefault((a + c + more, b + d + more), set()).add(long + other + more)
    return {pair: tuple(each) for pair, each in sums.items()}


def bound_output_size(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return an upper bound, up to a small factor, for the number of elements in an op's output.

    >>> bound_output_size([(5,)], {"index": (3, ("slice", None, None, None)), "shape": (10**6, 5)})
    5000000
    """
    if "shape" in settings:
        first = shapes[0][: max(0, len(shapes[0]) - _count_core_axes(shapes[0], settings))]
        return int(prod(first) * prod(settings["shape"]))
    if "length" in settings or ("axis" in settings and len(shapes) == 2):
        return _size_along_axis(shapes, settings)
    # A sum along an axis of length 0 returns zeros, as many as the other axes have.
    return _size_of_product(shapes) if len(shapes) == 2 else sum(prod(max(n, 1) for n in shape) for shape in shapes)


def _count_core_axes(shape: Shape, settings: Mapping[str, Any]) -> int:
    """Return how many of the input's last axes the `shape` setting replaces."""
    if "rank" in settings:
        return int(settings["rank"])
    if "size" in settings:
        if shape[len(shape) - len(settings["size"]) :] != settings["size"]:
            raise ValueError(f"windows of size {settings['size']} are not the last axes of {shape}")
        return 2 * len(settings["size"])
    return sum(item is None or isinstance(item, tuple) for item in settings.get("index", ()))


def _size_along_axis(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return the size of an array whose axis has the length of a setting, or that of the indices that pick along it."""
    x = shapes[0]
    indices = shapes[-1]
    axis = settings["axis"]
    if len(x) == len(indices):
        wide = [max(pair) for pair in zip(x, indices, strict=True)]
        wide[axis] = indices[axis]
    else:
        wide = list(x)
        wide[axis] = indices[-1] if indices else 1
    if "length" in settings:
        wide[axis] = max(settings["length"], 0)
    return prod(wide)


def _size_of_product(shapes: Sequence[Shape]) -> int:
    """Bound the size of what is computed from two matrices: the longest axis of each gives the rows and columns."""
    a, b = shapes
    if min(len(a), len(b)) < 2:
        return prod(a) + prod(b)
    lead = max(prod(a[:-2]), prod(b[:-2]))
    return lead * max(a[-2:], default=1) * max(b[-2:], default=1)
