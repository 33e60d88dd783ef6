"""Functions of neural networks with PyTorch's names and arguments, and NumPy's convolutions.

A convolution gathers the windows of its input and ends in one matrix product.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import conjugate_flow
from wiregrad.ops.functions.registry import FUNCTIONS, dtype_of, lift, register_function
from wiregrad.ops.gradient_flow import shape_of

AxisLengths = tuple[int, ...]


def _reshape_to(x: Any, shape: AxisLengths) -> Any:
    return TABLE["reshape"](x, rank=len(shape_of(x)), shape=shape)


def _permute_axes(x: Any, *axes: int) -> Any:
    return TABLE["permute"](x, axes=tuple([axis - len(axes) for axis in axes]))


def _pad_border(x: Any, widths: list[tuple[int, int]], value: float = 0.0) -> Any:
    """Return x padded along its last axes."""
    lead = len(shape_of(x)) - len(widths)
    if not any(map(any, widths)):
        return x
    if value:
        return FUNCTIONS["pad"].run(x, [(0, 0)] * lead + widths, constant_values=value)
    lengths = shape_of(x)[lead:]
    inside = tuple([("slice", before, before + n, None) for (before, _), n in zip(widths, lengths, strict=True)])
    return TABLE["put_add"](x, index=inside, shape=tuple([n + sum(w) for n, w in zip(lengths, widths, strict=True)]))


def _expand_setting(setting: Any, rank: int, name: str) -> AxisLengths:
    """Return a setting, which may be one number for all axes, as one number for each axis."""
    per_axis = (setting,) * rank if np.ndim(setting) == 0 else tuple(setting)
    if len(per_axis) != rank:
        raise ValueError(f"{name} needs one number, or {rank}; got {setting}")
    return tuple([operator.index(n) for n in per_axis])


def _flip_last(x: Any) -> Any:
    return TABLE["getitem"](x, index=(("slice", None, None, -1),))


def _ensure_batch(x: Any, rank: int, name: str) -> tuple[Any, bool]:
    """Return the input with a batch axis in front, and whether it had one."""
    shape = shape_of(x)
    if len(shape) not in (rank + 1, rank + 2):
        raise ValueError(f"{name} needs input of {rank + 2} axes (batch, channels, ...), or without batch; got {shape}")
    return (x, True) if len(shape) == rank + 2 else (_reshape_to(x, (1, *shape)), False)


def _border_widths(padding: Any, size: AxisLengths, step: AxisLengths, dilation: AxisLengths) -> list[tuple[int, int]]:
    """Return the padding before and after each axis."""
    if padding == "valid":
        return [(0, 0)] * len(size)
    if padding != "same":
        return [(n, n) for n in _expand_setting(padding, len(size), "padding")]
    if any(n != 1 for n in step):
        raise ValueError("padding='same' needs stride 1")
    totals = [d * (n - 1) for n, d in zip(size, dilation, strict=True)]
    return [(n // 2, n - n // 2) for n in totals]


def _add_bias(y: Any, bias: Any, rank: int) -> Any:
    return y if bias is None else y + _reshape_to(lift(bias), (shape_of(lift(bias))[0],) + (1,) * rank)


def _convolve_windows(
    name: str, rank: int, x: Any, weight: Any, bias: Any, step: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Return the product of kernels with every window of x."""
    weight = lift(weight)
    x, batched = _ensure_batch(lift(x), rank, name)
    count, channels, *_ = shape_of(x)
    outs, share, *size = shape_of(weight)
    if len(size) != rank or share * groups != channels or outs % groups:
        wanted = f"(out, {channels}/groups, {'size, ' * rank}".rstrip(", ") + ")"
        raise ValueError(f"{name} needs weight {wanted} with out a multiple of {groups}; got {shape_of(weight)}")
    step = _expand_setting(step, rank, "stride")
    dilation = _expand_setting(dilation, rank, "dilation")
    x = _pad_border(x, _border_widths(padding, tuple(size), step, dilation))
    cut = TABLE["windows"](x, size=tuple(size), step=step, dilation=dilation)
    places = tuple(range(2, 2 + rank))
    parts = tuple(range(2 + rank, 2 + 2 * rank))
    lengths = shape_of(cut)[2 : 2 + rank]
    numbers = share * math.prod(size)
    windows = count * math.prod(lengths)
    if groups == 1:
        # A product of two matrices, which native code computes a few windows at a time.
        rows = _reshape_to(_permute_axes(cut, 0, *places, 1, *parts), (windows, numbers))
        kernel = _permute_axes(_reshape_to(weight, (outs, numbers)), 1, 0)
        last = _reshape_to(TABLE["matmul"](rows, kernel), (count, *lengths, outs))
        y = _permute_axes(last, 0, 1 + rank, *range(1, 1 + rank))
    else:
        columns = _reshape_to(_permute_axes(cut, 1, *parts, 0, *places), (groups, numbers, windows))
        kernel = _reshape_to(weight, (groups, outs // groups, numbers))
        product = _reshape_to(TABLE["matmul"](kernel, columns), (outs, count, *lengths))
        y = _permute_axes(product, 1, 0, *places)
    y = _add_bias(y, bias, rank)
    return y if batched else _reshape_to(y, (outs, *lengths))


def _scale_kernels(x: Any, weight: Any, groups: int) -> Any:
    """Return the kernels scaled by each number of x, as windows: (batch, out, *places, *elements of a window)."""
    count, channels, *lengths = shape_of(x)
    _, share, *size = shape_of(weight)
    rank = len(size)
    kernel = _permute_axes(_reshape_to(weight, (groups, channels // groups, share * math.prod(size))), 0, 2, 1)
    channels_first = _permute_axes(x, 1, 0, *range(2, 2 + rank))
    columns = _reshape_to(channels_first, (groups, channels // groups, count * math.prod(lengths)))
    product = _reshape_to(TABLE["matmul"](kernel, columns), (groups * share, *size, count, *lengths))
    parts = range(1, 1 + rank)
    places = range(2 + rank, 2 + 2 * rank)
    return _permute_axes(product, 1 + rank, 0, *places, *parts)


def _transpose_convolution(
    name: str,
    rank: int,
    x: Any,
    weight: Any,
    bias: Any,
    step: Any,
    padding: Any,
    extra: Any,
    groups: int,
    dilation: Any,
) -> Any:
    """Return the transpose of a convolution: kernels scaled by the numbers of x and added up."""
    weight = lift(weight)
    x, batched = _ensure_batch(lift(x), rank, name)
    _, channels, *lengths = shape_of(x)
    ins, _, *size = shape_of(weight)
    if len(size) != rank or ins != channels or channels % groups:
        wanted = f"({channels}, out/groups, {'size, ' * rank}".rstrip(", ") + ")"
        raise ValueError(f"{name} needs weight {wanted} and groups that divide {channels}; got {shape_of(weight)}")
    step = _expand_setting(step, rank, "stride")
    dilation = _expand_setting(dilation, rank, "dilation")
    border = _expand_setting(padding, rank, "padding")
    more = _expand_setting(extra, rank, "output_padding")
    if any(m >= s for m, s in zip(more, step, strict=True)):
        raise ValueError(f"{name} needs output_padding smaller than stride; got {more} and {step}")
    windows = _scale_kernels(x, weight, groups)
    full = tuple(
        [s * (n - 1) + d * (k - 1) + 1 + m for n, k, s, d, m in zip(lengths, size, step, dilation, more, strict=True)]
    )
    y = TABLE["unwindows"](windows, size=tuple(size), step=step, dilation=dilation, shape=full)
    if any(border):
        cut = tuple([("slice", b, n - b, None) for b, n in zip(border, full, strict=True)])
        y = TABLE["getitem"](y, index=cut)
    y = _add_bias(y, bias, rank)
    return y if batched else _reshape_to(y, shape_of(y)[1:])


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 7)), rng.normal(size=(4, 3, 3)), rng.normal(size=4), {}),
        (rng.normal(size=(1, 2, 6)), rng.normal(size=(2, 2, 2)), {"stride": 2, "padding": 1}),
        (rng.normal(size=(2, 4, 5)), rng.normal(size=(6, 2, 2)), rng.normal(size=6), {"groups": 2, "dilation": (2,)}),
        (rng.normal(size=(2, 2, 5)), rng.normal(size=(1, 2, 4)), {"padding": "same"}),
        (rng.normal(size=(3, 6)), rng.normal(size=(2, 3, 2)), {"padding": "valid", "stride": (3,)}),
        (rng.normal(size=(1, 1, 1)), rng.normal(size=(1, 1, 1)), rng.normal(size=1), {}),
        (rng.normal(size=(0, 2, 4)), rng.normal(size=(3, 2, 2)), rng.normal(size=3), {}),
    ],
)
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Slide kernels (out, channels, length) over signals (batch, channels, length), without flipping them."""
    return _convolve_windows("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 5, 4)), rng.normal(size=(2, 3, 3, 2)), rng.normal(size=2), {}),
        (rng.normal(size=(1, 2, 5, 5)), rng.normal(size=(3, 2, 3, 3)), {"stride": 2, "padding": (1, 0)}),
        (rng.normal(size=(2, 4, 4, 5)), rng.normal(size=(4, 2, 2, 2)), rng.normal(size=4), {"groups": 2}),
        (rng.normal(size=(1, 2, 4, 5)), rng.normal(size=(2, 2, 2, 3)), {"padding": "same", "dilation": (1, 2)}),
        (rng.normal(size=(2, 4, 5)), rng.normal(size=(1, 2, 2, 2)), {"stride": (3, 3)}),
        (rng.normal(size=(1, 1, 1, 1)), rng.normal(size=(1, 1, 1, 1)), rng.normal(size=1), {}),
        (rng.normal(size=(0, 2, 3, 3)), rng.normal(size=(2, 2, 2, 2)), {}),
    ],
)
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Slide kernels (out, channels, height, width) over images (batch, channels, height, width), without flipping."""
    return _convolve_windows("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 2, 3)), rng.normal(size=2), {}),
        (rng.normal(size=(1, 2, 4)), rng.normal(size=(2, 2, 3)), {"stride": 2, "padding": 1, "output_padding": 1}),
        (rng.normal(size=(2, 4, 3)), rng.normal(size=(4, 1, 2)), rng.normal(size=2), {"groups": 2, "stride": 3}),
        (rng.normal(size=(1, 2, 3)), rng.normal(size=(2, 1, 3)), {"dilation": 2}),
        (rng.normal(size=(2, 5)), rng.normal(size=(2, 3, 2)), {"stride": (2,)}),
        (rng.normal(size=(1, 1, 1)), rng.normal(size=(1, 1, 1)), rng.normal(size=1), {}),
    ],
)
def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Add up kernels (channels, out, length) scaled by each number of a signal: what conv1d sends back."""
    return _transpose_convolution(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 2, 3, 2)), rng.normal(size=(2, 3, 2, 3)), rng.normal(size=3), {}),
        (
            rng.normal(size=(1, 2, 3, 3)),
            rng.normal(size=(2, 1, 3, 3)),
            {"stride": 2, "padding": 1, "output_padding": 1},
        ),
        (
            rng.normal(size=(1, 4, 2, 2)),
            rng.normal(size=(4, 1, 2, 2)),
            rng.normal(size=2),
            {"groups": 2, "stride": (1, 3)},
        ),
        (rng.normal(size=(1, 1, 3, 2)), rng.normal(size=(1, 2, 2, 2)), {"dilation": (2, 1)}),
        (rng.normal(size=(2, 2, 3)), rng.normal(size=(2, 1, 2, 2)), {}),
        (rng.normal(size=(1, 1, 1, 1)), rng.normal(size=(1, 1, 1, 1)), rng.normal(size=1), {}),
    ],
)
def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Add up kernels (channels, out, height, width) scaled by each number of an image: what conv2d sends back."""
    return _transpose_convolution(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


class _Pooling(NamedTuple):
    """The windows of a pool along each of its axes: their size, the step to the next, and the distance of elements."""

    size: AxisLengths
    step: AxisLengths
    spread: AxisLengths
    around: AxisLengths
    """The padding on both sides."""
    beyond: AxisLengths
    """How far the last window goes beyond the padding."""

    def cut(self, x: Any, widths: Sequence[tuple[int, int]], border: float) -> Any:
        """Return the windows of x, which gets a border first, with their elements in the last axes."""
        x = _pad_border(x, list(widths), border)
        lengths = shape_of(x)[-len(self.size) :]
        is_apart = self.step == self.size and set(self.spread) == {1}
        if is_apart and all(n >= k for n, k in zip(lengths, self.size, strict=True)):
            return _cut_apart(x, self.size)
        return TABLE["windows"](x, size=self.size, step=self.step, dilation=self.spread)

    def cut_padded(self, x: Any, border: float) -> Any:
        """Return the windows of x with its padding."""
        return self.cut(x, [(n, n + more) for n, more in zip(self.around, self.beyond, strict=True)], border)


def _plan_pooling(
    name: str, rank: int, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> _Pooling:
    """Return the windows of a pool over x; raises if its settings do not fit."""
    size = _expand_setting(kernel, rank, "kernel_size")
    step = size if stride is None else _expand_setting(stride, rank, "stride")
    around = _expand_setting(padding, rank, "padding")
    spread = _expand_setting(dilation, rank, "dilation")
    if len(shape_of(x)) not in (rank + 1, rank + 2):
        raise ValueError(
            f"{name} needs input of {rank + 2} axes (batch, channels, ...), or without batch; got {shape_of(x)}"
        )
    if any(2 * n > k or n < 0 for n, k in zip(around, size, strict=True)):
        raise ValueError(f"{name} needs padding of at most half the kernel; got {around} for a kernel of {size}")
    settings = zip(shape_of(x)[-rank:], size, step, around, spread, strict=True)
    beyond = [_count_beyond(*setting) if ceil_mode else 0 for setting in settings]
    return _Pooling(size, step, spread, around, tuple(beyond))


def _count_beyond(length: int, size: int, step: int, around: int, spread: int) -> int:
    """Return how far the last window goes beyond the padding if it may; it begins in the input or the left padding."""
    reach = spread * (size - 1) + 1
    count = -(-(length + 2 * around - reach) // step) + 1
    if (count - 1) * step >= length + around:
        count -= 1
    return max(0, (count - 1) * step + reach - (length + 2 * around))


def _cut_apart(x: Any, size: AxisLengths) -> Any:
    """Return windows that lie side by side: without overlap their elements are views, and so are their gradients."""
    rank = len(size)
    lead = shape_of(x)[:-rank]
    counts = [n // k for n, k in zip(shape_of(x)[-rank:], size, strict=True)]
    inside = tuple([("slice", None, n * k, None) for n, k in zip(counts, size, strict=True)])
    whole = tuple([n * k for n, k in zip(counts, size, strict=True)])
    x = x if shape_of(x)[-rank:] == whole else TABLE["getitem"](x, index=inside)
    parts = [length for pair in zip(counts, size, strict=True) for length in pair]
    first = len(lead)
    order = [*range(first), *range(first, first + 2 * rank, 2), *range(first + 1, first + 2 * rank, 2)]
    return _permute_axes(_reshape_to(x, (*lead, *parts)), *order)


def _max_pool(name: str, rank: int, x: Any, *settings: Any) -> Any:
    x = lift(x)
    cut = _plan_pooling(name, rank, x, *settings).cut_padded(x, -math.inf)
    return FUNCTIONS["max"].run(cut, axis=tuple(range(-rank, 0)))


def _avg_pool(name: str, rank: int, x: Any, *settings: Any, count_include_pad: bool) -> Any:
    x = lift(x)
    pooling = _plan_pooling(name, rank, x, *settings)
    axes = tuple(range(-rank, 0))
    total = TABLE["sum"](pooling.cut_padded(x, 0.0), axes=axes, keepdims=False)
    if count_include_pad and not any(pooling.beyond):
        return total / math.prod(pooling.size)
    # The padding counts or not; what a window covers beyond it never does.
    lead = [(0, 0)] * (len(shape_of(x)) - rank)
    widths = [*lead, *((n, n) for n in pooling.around)]
    counted = np.pad(np.ones(shape_of(x), x.dtype), widths, constant_values=float(count_include_pad))
    inside = pooling.cut(counted, [(0, n) for n in pooling.beyond], 0.0)
    return total / np.sum(inside, axis=axes)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 6)), 2, {}),
        (rng.normal(size=(1, 2, 7)), 3, {"stride": 2, "padding": 1}),
        (rng.normal(size=(1, 2, 8)), (2,), {"dilation": 3}),
        (rng.normal(size=(2, 5)), 2, {"stride": 1}),
        (rng.normal(size=(1, 2, 9)), 2, {"stride": 4}),
        (rng.normal(size=(1, 2, 9)), 2, {"ceil_mode": True}),
        (rng.normal(size=(1, 1, 1)), 1, {}),
        (rng.normal(size=(0, 2, 4)), 2, {}),
    ],
)
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Return the largest number of every window of signals (batch, channels, length)."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 2, 4, 6)), 2, {}),
        (rng.normal(size=(1, 2, 5, 5)), 3, {"stride": 2, "padding": 1}),
        (rng.normal(size=(1, 1, 5, 6)), (2, 3), {"dilation": (2, 1), "stride": (1, 2)}),
        (rng.normal(size=(2, 4, 4)), (3, 2), {"stride": 1}),
        (rng.normal(size=(1, 2, 5, 6)), 3, {"stride": 2, "padding": 1, "ceil_mode": True}),
        (rng.normal(size=(1, 1, 1, 1)), 1, {}),
        (rng.normal(size=(0, 2, 4, 4)), 2, {}),
    ],
)
def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """Return the largest number of every window of images (batch, channels, height, width)."""
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 3, 6)), 2, {}),
        (rng.normal(size=(1, 2, 7)), 3, {"stride": 2, "padding": 1}),
        (rng.normal(size=(1, 2, 7)), (3,), {"stride": 2, "padding": 1, "count_include_pad": False}),
        (rng.normal(size=(2, 5)), 2, {"stride": 3}),
        (rng.normal(size=(1, 1, 1)), 1, {}),
        (rng.normal(size=(0, 2, 4)), 2, {}),
    ],
)
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of every window of signals (batch, channels, length)."""
    return _avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad=count_include_pad
    )


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(2, 2, 4, 6)), 2, {}),
        (rng.normal(size=(1, 2, 5, 5)), 3, {"stride": 2, "padding": 1}),
        (rng.normal(size=(1, 1, 5, 6)), (3, 2), {"padding": (1, 0), "stride": (2, 1), "count_include_pad": False}),
        (rng.normal(size=(1, 1, 6, 6)), 3, {"stride": 2, "padding": 1, "ceil_mode": True}),
        (rng.normal(size=(2, 4, 4)), (3, 2), {"stride": 1}),
        (rng.normal(size=(1, 1, 1, 1)), 1, {}),
        (rng.normal(size=(0, 2, 4, 4)), 2, {}),
    ],
)
def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Return the mean of every window of images (batch, channels, height, width)."""
    return _avg_pool(
        "avg_pool2d", 2, input, kernel_size, stride, padding, 1, ceil_mode, count_include_pad=count_include_pad
    )


def _slide_over(a: Any, v: Any, mode: str) -> Any:
    """Return the product of v with every window of a, which is at least as long."""
    (size,) = shape_of(v)
    borders = {"valid": (0, 0), "same": (size // 2, size - 1 - size // 2), "full": (size - 1, size - 1)}
    if mode not in borders:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    cut = TABLE["windows"](_pad_border(a, [borders[mode]]), size=(size,), step=(1,), dilation=(1,))
    product = TABLE["matmul"](cut, _reshape_to(v, (size, 1)))
    return _reshape_to(product, shape_of(product)[:1])


def _as_signal(x: Any, name: str) -> Any:
    """Return x as a nonempty array of one axis."""
    x = lift(x)
    shape = shape_of(x) or (1,)
    if len(shape) > 1:
        raise ValueError("object too deep for desired array")
    if not shape[0]:
        raise ValueError(f"{name} cannot be empty")
    return x if shape_of(x) else _reshape_to(x, shape)


@register_function(
    np.convolve,
    samples=lambda rng: [
        (rng.normal(size=6), rng.normal(size=3), {}),
        (rng.normal(size=3), rng.normal(size=7), {"mode": "same"}),
        (rng.normal(size=7), rng.normal(size=4), {"mode": "valid"}),
        (rng.normal(size=2), rng.normal(size=5), {"mode": "valid"}),
        (rng.normal(size=4), rng.normal(size=4), {"mode": "same"}),
        (rng.normal(size=1), rng.normal(size=1), {}),
        (rng.normal(size=15), rng.normal(size=13), {"mode": "full"}),
    ],
)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Slide one signal, turned around, over another."""
    a = _as_signal(a, "a")
    v = _as_signal(v, "v")
    if shape_of(v)[0] > shape_of(a)[0]:
        a, v = v, a
    return _slide_over(a, _flip_last(v), mode)


@register_function(
    np.correlate,
    samples=lambda rng: [
        (rng.normal(size=6), rng.normal(size=3), {}),
        (rng.normal(size=3), rng.normal(size=7), {"mode": "same"}),
        (rng.normal(size=7), rng.normal(size=4), {"mode": "full"}),
        (rng.normal(size=2), rng.normal(size=5), {"mode": "valid"}),
        (rng.normal(size=4), rng.normal(size=4), {"mode": "same"}),
        (rng.normal(size=1), rng.normal(size=1), {}),
        (rng.normal(size=3), rng.normal(size=5), {"mode": "full"}),
    ],
)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Slide one signal over another, without turning it around."""
    a = _as_signal(a, "first array argument")
    v = conjugate_flow(_as_signal(v, "second array argument"))
    if shape_of(v)[0] > shape_of(a)[0]:
        return _flip_last(_slide_over(v, a, mode))
    return _slide_over(a, v, mode)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), rng.normal(size=(2, 4)), rng.normal(size=2), {}),
        (rng.normal(size=(2, 3, 4)), rng.normal(size=(5, 4)), {}),
        (rng.normal(size=4), rng.normal(size=(2, 4)), rng.normal(size=2), {}),
        (rng.normal(size=(1, 1)), rng.normal(size=(1, 1)), rng.normal(size=1), {}),
        (rng.normal(size=(0, 3)), rng.normal(size=(2, 3)), rng.normal(size=2), {}),
        (rng.normal(size=(2, 3)), rng.normal(size=(1, 3)), rng.normal(size=1), {}),
    ],
)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """Multiply vectors (..., in) by a matrix (out, in) and add a bias."""
    x = lift(input)
    weight = lift(weight)
    *lead, ins = shape_of(x)
    outs, wanted = shape_of(weight)
    if ins != wanted:
        raise ValueError(f"linear needs input (..., {wanted}) for weight {shape_of(weight)}; got {shape_of(x)}")
    product = TABLE["matmul"](_reshape_to(x, (math.prod(lead), ins)), _permute_axes(weight, 1, 0))
    y = _reshape_to(product, (*lead, outs))
    return y if bias is None else y + bias


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(3, 4)), {"normalized_shape": 4}),
        (rng.normal(size=(3, 4)), (4,), rng.normal(size=4), rng.normal(size=4), {}),
        (rng.normal(size=(2, 3, 4)), (3, 4), rng.normal(size=(3, 4)), {"eps": 0.01}),
        (rng.normal(size=(2, 3, 4)), 4, rng.normal(size=4), rng.normal(size=4), {}),
        (rng.normal(size=5), 5, {"eps": 0.1}),
        (rng.normal(size=(0, 3)), 3, rng.normal(size=3), {}),
    ],
)
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Shift and scale the numbers along the last axes to mean 0 and variance 1, then by weight and bias."""
    x = lift(input)
    lengths = (normalized_shape,) if np.ndim(normalized_shape) == 0 else tuple(normalized_shape)
    if not lengths or shape_of(x)[-len(lengths) :] != lengths:
        raise ValueError(f"layer_norm needs input that ends in {lengths}; got {shape_of(x)}")
    along = {"axes": tuple(range(-len(lengths), 0)), "keepdims": True}
    size = math.prod(lengths)
    centred = x - TABLE["sum"](x, **along) / size
    variance = TABLE["sum"](TABLE["square"](centred), **along) / size
    y = centred / TABLE["sqrt"](variance + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _check_classes(classes: Any, count: int) -> None:
    if classes.size and (classes.min() < 0 or classes.max() >= count):
        raise ValueError(f"classes must be 0 to {count - 1}; got {classes.min()} to {classes.max()}")


@register_function()
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Return whole numbers as rows of 0 with a 1 at the number's place."""
    classes = np.asarray(tensor)
    if classes.dtype.kind not in "iu":
        raise TypeError(f"one_hot takes whole numbers; got {classes.dtype}")
    count = int(classes.max()) + 1 if num_classes == -1 else operator.index(num_classes)
    _check_classes(classes, count)
    return np.eye(count, dtype=np.int64)[classes]


@register_function(
    samples=lambda rng: [
        (np.array([0, 2, 2]), rng.normal(size=(4, 3)), {}),
        (np.array([[1, 0], [3, 1]]), rng.normal(size=(4, 2)), {}),
        (np.int64(1), rng.normal(size=(3, 2)), {}),
        ([2, 0], rng.normal(size=(3, 1)), {}),
        (np.zeros(0, int), rng.normal(size=(3, 2)), {}),
        (np.array([0]), rng.normal(size=(1, 1)), {}),
    ],
)
def embedding(input: Any, weight: Any) -> Any:
    """Return the rows of a table (numbers, width) that whole numbers name."""
    if dtype_of(lift(input)).kind not in "iu":
        raise IndexError(f"embedding(input, weight) takes whole numbers first; got {dtype_of(lift(input))}")
    return FUNCTIONS["getitem"].run(lift(weight), lift(input))


def _reduce_loss(loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none'; got {reduction!r}")
    return FUNCTIONS[reduction].run(loss)


def _class_mask(target: Any, count: int) -> Any:
    """Return, along a new last axis, whether each class is the target."""
    if issubclass(type(target), np.ndarray | np.generic):
        _check_classes(target, count)
    return TABLE["equal"](_reshape_to(target, (*shape_of(target), 1)), np.arange(count))


def _classes_last(x: Any) -> Any:
    """Return scores (classes,) or (batch, classes, ...) with the classes in the last axis."""
    ndim = len(shape_of(x))
    return x if ndim < 3 else _permute_axes(x, 0, *range(2, ndim), 1)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(4, 3)), np.array([0, 2, 1, 1]), {}),
        (rng.normal(size=(4, 3)), np.array([2, 2, 1, 0]), {"reduction": "sum"}),
        (rng.normal(size=(2, 5)), np.array([4, 0]), {"reduction": "none"}),
        (rng.normal(size=3), np.int64(1), {}),
        (rng.normal(size=(2, 3, 4)), np.array([[0, 1, 2, 0], [2, 2, 1, 0]]), {}),
        (rng.normal(size=(2, 3)), rng.dirichlet(np.ones(3), size=2), {}),
        (rng.normal(size=(1, 1)), np.array([0]), {}),
    ],
)
def cross_entropy(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return minus the logarithm of the softmax of the right class; target is classes, or a probability for each."""
    scores = _classes_last(lift(input))
    target = lift(target)
    total = FUNCTIONS["logsumexp"].run(scores, axis=-1, keepdims=True)
    if target.dtype.kind == "f":
        return _reduce_loss(
            TABLE["sum"](_classes_last(target) * (total - scores), axes=(-1,), keepdims=False), reduction
        )
    chosen = TABLE["where"](_class_mask(target, shape_of(scores)[-1]), scores, 0.0)
    loss = _reshape_to(total, shape_of(target)) - TABLE["sum"](chosen, axes=(-1,), keepdims=False)
    return _reduce_loss(loss, reduction)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), {}),
        (rng.normal(size=5), rng.normal(size=5), {"reduction": "sum"}),
        (rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), {"reduction": "none"}),
        (rng.normal(), rng.normal(), {}),
        (rng.normal(size=(2, 3)), rng.normal(size=3), {}),
        (rng.normal(size=(0, 3)), rng.normal(size=(0, 3)), {"reduction": "sum"}),
    ],
)
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Return the mean of the squared differences."""
    return _reduce_loss(TABLE["square"](lift(input) - lift(target)), reduction)


@register_function(
    samples=lambda rng: [
        (rng.normal(size=(4, 3)), np.array([0, 2, 1, 1]), {}),
        (rng.normal(size=(4, 3)), np.array([2, 2, 1, 0]), {"reduction": "sum", "margin": 0.3}),
        (rng.normal(size=(2, 5)), np.array([4, 0]), {"reduction": "none", "p": 2}),
        (rng.normal(size=3), np.int64(1), {}),
        (rng.normal(size=(1, 2)), np.array([0]), {}),
        (rng.normal(size=(1, 1)), np.array([0]), {}),
    ],
)
def multi_margin_loss(input: Any, target: Any, p: int = 1, margin: float = 1.0, reduction: str = "mean") -> Any:
    """Return how far each wrong class comes within a margin of the right one: the hinge loss of several classes."""
    scores = lift(input)
    target = lift(target)
    picks = _class_mask(target, shape_of(scores)[-1])
    count = shape_of(scores)[-1]
    chosen = TABLE["sum"](TABLE["where"](picks, scores, 0.0), axes=(-1,), keepdims=True)
    short = TABLE["maximum"](margin - chosen + scores, 0.0) ** p
    loss = TABLE["sum"](TABLE["where"](picks, 0.0, short), axes=(-1,), keepdims=False) / count
    return _reduce_loss(loss, reduction)
