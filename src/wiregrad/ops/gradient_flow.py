"""Gradient flows: what is sent along wires in either mode, and how it is multiplied and added.

A flow is one of three things: None (absent: a structural zero), a plain value (a number, an array, or a port of a
circuit that is being built), or a masked value that is present only where its mask is true. Absence is stronger than
0.0: the mask is applied after all products, so an inf or NaN in a branch that was not taken never leaks. For numbers
a mask is evaluated at once; for arrays and ports it is carried along.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wiregrad.ir import TABLE


class MaskedFlow:
    """A value that is present only where `mask` is true; neither is changed."""

    __slots__ = ("filled", "mask", "value")

    def __init__(self, mask: Any, value: Any, filled: Any = None) -> None:
        self.mask = mask
        self.value = value
        self.filled = filled
        """The value with 0.0 in place of what is absent, if an array and needed before: many readers may need it."""

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
    return type(mask) is np.ndarray and not mask.any()


def multiply_flows(one: Any, two: Any) -> Any:
    """Multiply two flows; the product is absent where either is."""
    if type(one) is not MaskedFlow and type(two) is not MaskedFlow:
        return None if one is None or two is None else _multiply_values(one, two)
    if one is None or two is None:
        return None
    masks = [flow.mask for flow in (one, two) if type(flow) is MaskedFlow]
    mask = masks[0] if len(masks) == 1 else TABLE["logical_and"](*masks)
    return MaskedFlow(mask, _multiply_values(_unmasked_value(one), _unmasked_value(two)))


def add_flows(one: Any, two: Any) -> Any:
    """Add two flows; the sum is absent where both are."""
    if one is None or two is None:
        return two if one is None else one
    if type(one) is not MaskedFlow and type(two) is not MaskedFlow:
        return one + two
    both = type(one) is MaskedFlow and type(two) is MaskedFlow
    # Adding -0.0 changes no number, not even -0.0.
    total = fill_absent(one, -0.0) + fill_absent(two, -0.0)
    return drop_full_mask(MaskedFlow(TABLE["logical_or"](one.mask, two.mask), total)) if both else total


def drop_full_mask(flow: MaskedFlow) -> Any:
    """Return the value of a masked flow that is known to be present everywhere; any other flow is returned as it is."""
    return flow.value if type(flow.mask) is np.ndarray and flow.mask.all() else flow


class GradientBuffer:
    """A sum of flows to one array, while the sweep on numbers still adds to it; nothing else refers to its arrays.

    So terms are added in place: a slice costs what the slice has elements, however large the array is.
    """

    __slots__ = ("mask", "value")

    def __init__(self, value: Any, mask: Any = None) -> None:
        self.value = value
        """The sum; -0.0 where nothing was added yet, because adding -0.0 changes no number."""
        self.mask = mask
        """Where something was added; None if everywhere."""

    def add_flow(self, flow: Any) -> None:
        """Add a flow."""
        if type(flow) is not MaskedFlow:
            self.value += flow
            self.mask = None
            return
        self.value += fill_absent(flow, -0.0)
        if self.mask is not None:
            self.mask |= flow.mask

    def add_part(self, index: Any, part: Any) -> None:
        """Add a flow at an index that names no element twice; it is absent elsewhere."""
        self.value[index] += part
        if self.mask is not None:
            self.mask[index] = True

    def settle(self) -> Any:
        """Return the sum as a flow; nothing may be added after that."""
        return self.value if self.mask is None else drop_full_mask(MaskedFlow(self.mask, self.value))


def fill_absent(flow: Any, absent: float = 0.0) -> Any:
    """Return a plain value: the flow where it is present, `absent` elsewhere."""
    if flow is None:
        return absent
    if type(flow) is not MaskedFlow:
        return flow
    if type(flow.mask) is not np.ndarray or absent or np.signbit(absent):
        return TABLE["where"](flow.mask, flow.value, absent)
    if flow.filled is None:
        flow.filled = TABLE["where"](flow.mask, flow.value, absent)
    return flow.filled


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a number, array, value or port."""
    shape: tuple[int, ...] = getattr(x, "shape", ())
    return shape


def is_complex(x: Any) -> bool:
    """Return whether a number, array, value or port is complex."""
    dtype = getattr(x, "dtype", None)
    return type(x) is complex or (dtype is not None and dtype.kind == "c")


def conjugate_flow(x: Any) -> Any:
    """Return the conjugate of a complex flow; a real flow is returned unchanged."""
    if type(x) is MaskedFlow:
        return MaskedFlow(x.mask, conjugate_flow(x.value))
    return TABLE["conjugate"](x) if is_complex(x) else x


def match_shape(flow: Any, like: Any) -> Any:
    """Broadcast a flow to the shape of its wire; a flow that is constant along an axis may lack that axis."""
    if type(flow) is MaskedFlow:
        mask, value = match_shape(flow.mask, like), match_shape(flow.value, like)
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
        return None if fitted is None else MaskedFlow(flow.mask, fitted)
    wanted = getattr(x, "dtype", None)
    given = getattr(flow, "dtype", None)
    if flow is None or (wanted is not None and wanted.kind not in "fc"):
        return None
    if wanted is None or given is None or wanted == given:
        return flow
    if is_complex(flow) and wanted.kind != "c":
        return match_dtype(TABLE["real"](flow), x)
    return flow.astype(wanted) if isinstance(flow, np.ndarray | np.generic) else TABLE["cast"](flow, dtype=wanted.name)


def _unmasked_value(flow: Any) -> Any:
    return flow.value if type(flow) is MaskedFlow else flow


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
