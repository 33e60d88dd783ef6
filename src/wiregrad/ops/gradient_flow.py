"""Gradient flows: what is sent along wires in either mode, and how it is multiplied and added.

A flow is one of three things: None (absent: a structural zero), a plain value (a number, an array, or a port of a
circuit that is being built), or a masked value that is present only where its mask is true. Absence is stronger than
0.0: the mask is applied after all products, so an inf or NaN in a branch that was not taken never leaks. For numbers
a mask is evaluated at once; for arrays and ports it is carried along.

First come the NumPy computations on large arrays that flows and ops are made of, in ways that are faster than the plain
call and have the same result. `np.where` with an irregular mask takes twenty times as long as a product, because the
processor cannot predict the branch; selecting by bits has no branch. A power of numbers of both signs leaves NumPy's
vector code; a power of their magnitudes does not. Small arrays take the plain call: there the number of calls counts,
not what they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.ir import TABLE

MIN_LARGE_ELEMENTS = 2048
"""The least number of elements for which these ways are faster."""
BITS: dict[Any, Any] = {np.dtype(np.float64): np.int64, np.dtype(np.float32): np.int32}
"""The integers that are as wide as floats."""
MAX_EXACT_EXPONENT = 2.0**24
"""Exponents below this have neighbours that are whole numbers too, in every dtype."""


def has_nan(x: Any) -> bool:
    """Return whether a number or array has a NaN.

    >>> has_nan(np.broadcast_to(np.nan, (2, 3))), has_nan(np.zeros(3))
    (True, False)
    """
    if type(x) is np.ndarray and x.dtype.kind == "f" and x.flags.c_contiguous:
        # Squares are not negative, so their sum is NaN only if one of them is. It may overflow, without a warning.
        return math.isnan(dot_elements(x, x))
    return bool(np.isnan(_drop_repeats(x)).any())


def is_finite(x: Any) -> bool:
    """Return whether all elements of a number or array are finite.

    >>> is_finite(np.ones(3)), is_finite(np.array([1.0, np.inf]))
    (True, False)
    """
    if type(x) is np.ndarray and x.dtype.kind == "f" and x.flags.c_contiguous and math.isfinite(dot_elements(x, x)):
        # The sum of squares is not finite if one element is not. It may overflow, without a warning.
        return True
    return bool(np.isfinite(_drop_repeats(x)).all())


# Bound once: while a function is recorded, NumPy's own name leads to a function that looks for wires.
dot_elements = np.vdot
count_nonzero = np.count_nonzero


def is_nonfinite(x: Any) -> Any:
    """Return where a number or array is not finite; integers and conditions are finite everywhere.

    >>> is_nonfinite(np.array([1.0, np.nan])), is_nonfinite(True)
    (array([False,  True]), np.False_)
    """
    if type(x) is np.float64:
        # By far the most common case, and math is faster than NumPy for one number.
        return np.False_ if math.isfinite(x) else np.True_
    array = np.asarray(x)
    return ~np.isfinite(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)[()]


def is_nan(x: Any) -> Any:
    """Return where a number or array is NaN; integers and conditions are NaN nowhere."""
    if type(x) is np.float64:
        return np.True_ if math.isnan(x) else np.False_
    array = np.asarray(x)
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)[()]


def _drop_repeats(x: Any) -> Any:
    """Return the first slice of an array along each axis along which it repeats itself, because it was broadcast."""
    if not isinstance(x, np.ndarray) or 0 not in x.strides or not x.size:
        return x
    return x[tuple([slice(0, 1) if step == 0 else slice(None) for step in x.strides])]


def select_elements(condition: Any, a: Any, b: Any) -> Any:
    """Return `np.where(condition, a, b)`, with the same bits.

    >>> select_elements(np.array([True, False]), 1.0, np.array([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    if type(condition) is np.ndarray and condition.size >= MIN_LARGE_ELEMENTS and condition.dtype == np.bool_:
        dtype = _common_dtype(condition.shape, a, b)
        if dtype is not None and type(a) is np.ndarray and type(b) is float and not b and math.copysign(1.0, b) > 0.0:
            return zero_outside(condition, a)
        if dtype is not None:
            return _select_by_bits(condition, a, b, dtype)
    y: Any = np.where(condition, a, b)
    return y if y.ndim else y[()]


def zero_outside(mask: NDArray[Any], x: Any) -> Any:
    """Return x where a mask holds, else 0.0.

    >>> zero_outside(np.array([True, False]), np.array([np.nan, np.inf])).tolist()
    [nan, 0.0]
    """
    if type(x) is float and 0.0 <= x < math.inf:
        return mask * x
    is_large = type(x) is np.ndarray and x.size >= MIN_LARGE_ELEMENTS and x.dtype in BITS
    if not is_large or mask.shape != x.shape or mask.dtype != np.bool_:
        return select_elements(mask, x, 0.0)
    bits = BITS[x.dtype]
    kept: NDArray[Any] = np.negative(mask.view(np.int8)).astype(bits)
    np.bitwise_and(kept, x.view(bits), out=kept)
    return kept.view(x.dtype)


def _common_dtype(shape: tuple[int, ...], a: Any, b: Any) -> Any:
    """Return the float dtype of two operands that are arrays of a shape or Python floats; None for other operands."""
    dtype = None
    for x in (a, b):
        if type(x) is np.ndarray:
            if x.shape != shape or x.dtype not in BITS or (dtype is not None and x.dtype != dtype):
                return None
            dtype = x.dtype
    dtype = np.dtype(np.float64) if dtype is None else dtype
    for x in (a, b):
        if type(x) is float:
            # A number that does not fit into the dtype is NumPy's to warn about.
            if dtype != np.float64 and not abs(x) < 1e30:
                return None
        elif type(x) is not np.ndarray:
            return None
    return dtype


def _select_by_bits(condition: NDArray[Any], a: Any, b: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return `a` where a condition holds, else `b`, by operations on the bits of the numbers."""
    one, two = (np.asarray(x, dtype).view(BITS[dtype]) for x in (a, b))
    # -1 has all bits set.
    chosen: NDArray[Any] = np.negative(condition.view(np.int8)).astype(BITS[dtype])
    np.bitwise_and(chosen, one ^ two, out=chosen)
    np.bitwise_xor(chosen, two, out=chosen)
    return chosen.view(dtype)


def clip_large(x: Any, low: Any, high: Any) -> Any:
    """Return `np.clip(x, low, high)` for a large array and two numbers; None for other operands.

    >>> clip_large(np.full(5000, 3.0), -1.0, 1.0)[0]
    np.float64(1.0)
    """
    if type(x) is not np.ndarray or x.size < MIN_LARGE_ELEMENTS or x.dtype not in BITS:
        return None
    # One pass over the array, where a maximum and a minimum take two slower ones.
    return x.clip(low, high) if type(low) is float and type(high) is float else None


def power_of_large(a: Any, b: Any) -> Any:
    """Return `np.power(a, b)` for a large array and one exponent, within rounding; None if the plain call is as good.

    >>> power_of_large(np.full(5000, -2.0), 3.0)[0]
    np.float64(-8.0)
    """
    if type(a) is not np.ndarray or a.size < MIN_LARGE_ELEMENTS or a.dtype not in BITS:
        return None
    if type(b) is not float and type(b) is not a.dtype.type:
        return None
    exponent = float(b)
    if exponent == 1.0:
        return np.positive(a)
    if exponent == 0.5:
        return np.sqrt(a) if np.minimum.reduce(a, axis=None) > 0.0 else None
    return _power_by_magnitude(a, b) if exponent != 2.0 and abs(exponent) < MAX_EXACT_EXPONENT else None


def _power_by_magnitude(a: NDArray[Any], b: Any) -> Any:
    """Return a whole power of numbers of both signs by the power of their magnitudes; None for other powers."""
    if b % 1.0 or not np.minimum.reduce(a, axis=None) < 0.0:
        return None
    y = np.power(np.abs(a), b)
    return np.copysign(y, a) if b % 2.0 else y


class LazyMask:
    """A mask that is computed when it is first needed, which is often never.

    `make` is called with the masks that it is made of. They are computed first, without recursion: the sum of a long
    loop has a mask that is made of thousands of others. It refers to masks and not to flows, whose values would stay in
    memory with it.
    """

    __slots__ = ("_make", "_mask", "_masks")

    def __init__(self, make: Callable[..., Any], *masks: Any) -> None:
        self._make: Callable[..., Any] | None = make
        self._mask: Any = None
        self._masks = masks

    def evaluate(self) -> Any:
        """Return the mask, an array."""
        stack = [self]
        while stack:
            waiting = stack[-1]._find_waiting()
            if waiting:
                stack += waiting
            else:
                stack.pop()._compute()
        return self._mask

    def _find_waiting(self) -> list[LazyMask]:
        if self._make is None:
            return []
        return [mask for mask in self._masks if type(mask) is LazyMask and mask._make is not None]

    def _compute(self) -> None:
        if self._make is not None:
            self._mask = self._make(*map(read_mask, self._masks))
            self._make = None
            self._masks = ()


def read_mask(mask: Any) -> Any:
    """Return a mask that may have to be computed first."""
    return mask.evaluate() if type(mask) is LazyMask else mask


class MaskedFlow:
    """A value that is present only where `mask` is true; neither is changed."""

    __slots__ = ("_filled", "_mask", "value", "zeroed")

    def __init__(self, mask: Any, value: Any, *, zeroed: bool = False, filled: bool = False) -> None:
        self._mask = mask
        self.value = value
        self.zeroed = zeroed or filled
        """Whether the value is known to be 0.0 or -0.0 wherever it is absent, so that sums need no mask."""
        self._filled: Any = value if filled else None
        """The value with 0.0 in place of what is absent, once it is known."""

    @property
    def mask(self) -> Any:
        """Where the value is present."""
        self._mask = read_mask(self._mask)
        return self._mask

    @property
    def held_mask(self) -> Any:
        """The mask, or a `LazyMask` that computes it."""
        return self._mask

    @property
    def is_array(self) -> bool:
        """Whether the mask is an array, so that its elements are known, and not a wire."""
        return type(self._mask) is np.ndarray or type(self._mask) is LazyMask

    @property
    def is_filled(self) -> bool:
        """Whether summing it up sees 0.0 and never -0.0 where it is absent."""
        return not self.zeroed or self._filled is self.value

    @property
    def is_filled_with_zeros(self) -> bool:
        """Whether the value itself is known to be 0.0 wherever it is absent."""
        return self._filled is not None and self._filled is self.value

    @property
    def has_arrays(self) -> bool:
        """Whether mask and value are plain arrays, or the value a number: neither is a wire."""
        return self.is_array and (type(self.value) is np.ndarray or type(self.value) is float)

    def with_value(self, value: Any, *, zeroed: bool = False) -> MaskedFlow:
        """Return another value with the same mask."""
        return MaskedFlow(self._mask, value, zeroed=zeroed)

    def replace_wire(self, value: Any) -> MaskedFlow:
        """Return another wire with the same mask, about which the same is known."""
        return MaskedFlow(self._mask, value, zeroed=self.zeroed, filled=self.is_filled_with_zeros)

    def fill(self) -> Any:
        """Return the value with 0.0 in place of what is absent. For arrays it is computed once for all readers."""
        if self._filled is not None:
            return self._filled
        if not self.has_arrays:
            return TABLE["where"](self.mask, self.value, 0.0)
        # Adding 0.0 makes 0.0 of -0.0.
        known = self.zeroed and type(self._mask) is LazyMask
        self._filled = self.value + 0.0 if known else zero_outside(self.mask, self.value)
        return self._filled

    def __iter__(self) -> Iterator[Any]:
        """Walk over the mask and the value."""
        return iter((self.mask, self.value))

    def __repr__(self) -> str:
        return f"MaskedFlow(mask={self.mask!r}, value={self.value!r})"


def only(mask: Any, value: Any) -> Any:
    """Return a flow that is present only where the mask is true.

    >>> only(np.bool_(False), 3.0) is None
    True
    """
    if issubclass(type(mask), bool | np.generic):
        return value if mask else None
    return MaskedFlow(mask, value)


def is_nowhere(mask: Any) -> bool:
    """Return whether a mask is an array, so that its elements are known, and false everywhere."""
    return type(mask) is np.ndarray and not count_nonzero(mask)


def multiply_flows(one: Any, two: Any) -> Any:
    """Multiply two flows; the product is absent where either is."""
    if type(one) is not MaskedFlow and type(two) is not MaskedFlow:
        return None if one is None or two is None else _multiply_values(one, two)
    if one is None or two is None:
        return None
    if type(one) is MaskedFlow and type(two) is MaskedFlow:
        return MaskedFlow(TABLE["logical_and"](one.mask, two.mask), _multiply_values(one.value, two.value))
    flow, factor = (one, two) if type(one) is MaskedFlow else (two, one)
    if _are_arrays(flow, factor) and is_finite(factor):
        # 0.0 times a finite number is 0.0 or -0.0.
        return flow.with_value((flow.value if flow.zeroed else flow.fill()) * factor, zeroed=True)
    is_number = isinstance(factor, float) and math.isfinite(factor)
    value = _multiply_values(flow.value, two) if flow is one else _multiply_values(one, flow.value)
    return flow.with_value(value, zeroed=flow.zeroed and is_number)


def _are_arrays(flow: MaskedFlow, factor: Any) -> bool:
    """Return whether a masked flow and a factor consist of arrays, so that their elements are known."""
    return flow.is_array and type(flow.value) is np.ndarray and type(factor) is np.ndarray


def begin_sum(one: Any, two: Any, like: Any) -> Any:
    """Add two flows to an array like another; the sum is a `GradientBuffer` if both are arrays.

    It is an array that nothing else refers to, so what comes next can be added in place.
    """
    if type(one) is MaskedFlow and type(two) is MaskedFlow and one.has_arrays and two.has_arrays:
        total = _neutral_outside(one) + _neutral_outside(two)
        return GradientBuffer(total, one, two) if total.shape == like.shape else add_flows(one, two)
    total = add_flows(one, two)
    is_own = type(total) is np.ndarray and total.shape == like.shape and total.ndim > 0
    return GradientBuffer(total) if is_own else total


def add_flows(one: Any, two: Any) -> Any:
    """Add two flows; the sum is absent where both are."""
    if one is None or two is None:
        return two if one is None else one
    if type(one) is not MaskedFlow and type(two) is not MaskedFlow:
        return one + two
    both = type(one) is MaskedFlow and type(two) is MaskedFlow
    # Adding -0.0 changes no number, not even -0.0.
    total = _neutral_outside(one) + _neutral_outside(two)
    if not both:
        return total
    if one.is_array and two.is_array:
        if is_wire(total):
            # A mask that is true everywhere needs no choice in the circuit that is being built.
            mask = _join_masks(shape_of(total), one.mask, two.mask)
            return total if mask.all() else MaskedFlow(mask, total, zeroed=True)
        lazy = LazyMask(partial(_join_masks, shape_of(total)), one.held_mask, two.held_mask)
        return MaskedFlow(lazy, total, zeroed=True)
    # Where both are absent the total is 0.0 or -0.0, and 0.0 if one of them is: 0.0 + -0.0 is 0.0.
    is_filled = one.is_filled_with_zeros or two.is_filled_with_zeros
    return MaskedFlow(TABLE["logical_or"](one.mask, two.mask), total, zeroed=True, filled=is_filled)


def _join_masks(shape: tuple[int, ...], one: Any, two: Any) -> Any:
    """Return where either mask holds, in the shape of the value; a mask may lack axes that the value has."""
    mask = TABLE["logical_or"](one, two)
    return mask if shape_of(mask) == shape else TABLE["spread"](mask, rank=len(shape_of(mask)), shape=shape)


def _neutral_outside(flow: Any) -> Any:
    """Return a flow as a plain value to add; what is absent changes no number, except that -0.0 may become 0.0."""
    if type(flow) is not MaskedFlow:
        return flow
    if flow.zeroed:
        return flow.value
    # Arrays are filled once for all readers.
    return flow.fill() if flow.has_arrays else fill_absent(flow, -0.0)


class GradientBuffer:
    """A sum of flows to one array, while the sweep on numbers still adds to it; nothing else refers to its array.

    So terms are added in place: a slice costs what the slice has elements, however large the array is. A sum of `flows`
    is absent where all of them are; one that is `empty` is absent everywhere.
    """

    __slots__ = ("_marks", "value")

    def __init__(self, value: Any, *flows: MaskedFlow, empty: bool = False) -> None:
        self.value = value
        """The sum; -0.0 where nothing was added yet, because adding -0.0 changes no number."""
        self._marks: list[tuple[Any, Any]] | None = None
        """Where something was added: an index, and the mask of what was added. None if everywhere."""
        if flows or empty:
            self._marks = [(Ellipsis, flow.held_mask) for flow in flows]

    def add_flow(self, flow: Any) -> None:
        """Add a flow."""
        if type(flow) is MaskedFlow:
            self.add_part(Ellipsis, flow)
        else:
            self.value += flow
            self._marks = None

    def add_part(self, index: Any, part: Any, *, is_view: bool = True) -> None:
        """Add a flow at an index that names no element twice; it is absent elsewhere.

        `is_view` says that the index consists of whole numbers and slices, so that NumPy returns a view for it.
        """
        masked = type(part) is MaskedFlow
        addend = _neutral_outside(part) if masked else part
        elements = self.value[index]
        if is_view and type(elements) is np.ndarray:
            elements += addend
        else:
            self.value[index] = elements + addend
        if self._marks is not None:
            self._marks.append((index, part.held_mask if masked else True))

    def settle(self) -> Any:
        """Return the sum as a flow; nothing may be added after that."""
        if self._marks is None:
            return self.value
        mask = LazyMask(partial(_join_parts, self.value.shape, self._marks), *[mask for _, mask in self._marks])
        return MaskedFlow(mask, self.value, zeroed=True)


def _join_parts(shape: tuple[int, ...], marks: Sequence[tuple[Any, Any]], *masks: Any) -> Any:
    """Return where something was added, given the index and the mask of each part."""
    joined = np.zeros(shape, np.bool_)
    for (index, _), mask in zip(marks, masks, strict=True):
        joined[index] |= mask
    return joined


def fill_absent(flow: Any, absent: float = 0.0) -> Any:
    """Return a plain value: the flow where it is present, `absent` elsewhere."""
    if flow is None:
        return absent
    if type(flow) is not MaskedFlow:
        return flow
    if absent or np.signbit(absent):
        return TABLE["where"](flow.mask, flow.value, absent)
    return flow.fill()


def fill_for_sum(flow: Any) -> Any:
    """Return a plain value to be summed up: like `fill_absent`, but what is absent may be -0.0."""
    return flow.value if type(flow) is MaskedFlow and flow.zeroed else fill_absent(flow)


def is_wire(x: Any) -> bool:
    """Return whether ops on x are recorded: it is a value or a port, not a plain number or array."""
    return hasattr(x, "__wiregrad_apply__")


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a number, array, value or port."""
    shape: tuple[int, ...] = x.shape if type(x) is np.ndarray else getattr(x, "shape", ())
    return shape


def is_complex(x: Any) -> bool:
    """Return whether a number, array, value or port is complex."""
    dtype = getattr(x, "dtype", None)
    return type(x) is complex or (dtype is not None and dtype.kind == "c")


def conjugate_flow(x: Any) -> Any:
    """Return the conjugate of a complex flow; a real flow is returned unchanged."""
    if type(x) is np.ndarray:
        return x if x.dtype.kind != "c" else TABLE["conjugate"](x)
    if type(x) is MaskedFlow:
        return x.with_value(conjugate_flow(x.value)) if is_complex(x.value) else x
    return TABLE["conjugate"](x) if is_complex(x) else x


def match_shape(flow: Any, like: Any) -> Any:
    """Broadcast a flow to the shape of its wire; a flow that is constant along an axis may lack that axis."""
    if type(flow) is MaskedFlow:
        if type(flow._mask) is LazyMask and shape_of(flow.value) == shape_of(like):
            return flow
        mask = match_shape(flow.mask, like)
        value = match_shape(flow.value, like)
        return flow if mask is flow.mask and value is flow.value else MaskedFlow(mask, value)
    shape = shape_of(flow)
    wanted = shape_of(like)
    if shape == wanted:
        return flow
    return TABLE["spread"](flow, rank=len(shape), shape=wanted)


def match_dtype(flow: Any, x: Any) -> Any:
    """Cast a flow to the dtype of its wire; the flow of a wire that is neither float nor complex is absent."""
    if type(flow) is MaskedFlow:
        fitted = match_dtype(flow.value, x)
        if fitted is flow.value:
            return flow
        return None if fitted is None else flow.with_value(fitted)
    wanted = getattr(x, "dtype", None)
    given = getattr(flow, "dtype", None)
    if flow is None or (wanted is not None and wanted.kind not in "fc"):
        return None
    if wanted is None or given is None or wanted == given:
        return flow
    if is_complex(flow) and wanted.kind != "c":
        return match_dtype(TABLE["real"](flow), x)
    return flow.astype(wanted) if isinstance(flow, np.ndarray | np.generic) else TABLE["cast"](flow, dtype=wanted.name)


def _multiply_values(one: Any, two: Any) -> Any:
    # A literal slope of 1.0 or -1.0 needs no product: the result is exact and the backward circuit stays small.
    for factor, other in ((two, one), (one, two)):
        if type(factor) is float and factor in (1.0, -1.0) and not _is_condition(other):
            return other if factor == 1.0 else -other
    return one * two


def _is_condition(x: Any) -> bool:
    """Return whether a slope is boolean, as it is for a product with a condition."""
    dtype = getattr(x, "dtype", None)
    return type(x) is bool or (dtype is not None and dtype.kind == "b")
