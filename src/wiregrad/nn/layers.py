"""Layers with PyTorch's names, arguments, parameter layouts and initial distributions.

A layer that draws initial weights takes the generator that it draws them from, and `Dropout` the one for its masks.
Every layer says which of its parameters does not fit an input, with both shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

import wiregrad as wg
from wiregrad.errors import DomainError, IndexingError, InputError, ShapeError, short_repr
from wiregrad.nn.initialisers import Generator, count_fans, kaiming_uniform, needs_rng, normal, uniform
from wiregrad.nn.module import EmptyArray, Module


def as_array(x: object) -> Any:
    """Return a recorded value or an array as it is, and a list as an array."""
    return x if isinstance(x, wg.Value) else np.asarray(x)


def make_parameter(array: NDArray[Any], dtype: DTypeLike) -> Any:
    """Return an array as a parameter."""
    return wg.Value(np.asarray(array, dtype))


def check_filled(layer: Module, array: Any) -> None:
    """Raise an error if a layer has only the shape of an array."""
    if isinstance(array, EmptyArray):
        raise InputError(f"{layer.describe()}: a model that was emptied has no arrays; call model.holding(arrays)")


def check_dtype(layer: Module, x: Any, parameter: Any, name: str = "weight") -> None:
    """Raise an error unless a parameter is there and an input has its dtype."""
    check_filled(layer, parameter)
    if x.dtype != parameter.dtype:
        raise DomainError(
            f"{layer.describe()}: the input is {x.dtype} and {name} is {parameter.dtype}; "
            f"write x.astype(np.{parameter.dtype.name})"
        )


def check_axis(layer: Module, x: Any, axis: int, count: int, parameter: Any, name: str = "weight") -> None:
    """Raise an error unless an axis of an input has the length that a parameter needs."""
    if x.ndim < -axis or (axis >= 0 and x.ndim <= axis) or x.shape[axis] != count:
        place = "last axis" if axis == -1 else f"axis {axis}"
        raise ShapeError(
            f"{layer.describe()}: the input has shape {x.shape}; {name} of shape {parameter.shape} needs "
            f"{count} along its {place}"
        )


def check_sizes(layer: Module, **sizes: object) -> None:
    """Raise an error unless the sizes of a new layer are whole numbers of at least 1."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InputError(
                f"{type(layer).__name__}: {name} must be a whole number of at least 1; got {short_repr(size)}"
            )


class Linear(Module):
    """Multiply vectors (..., in) by a matrix (out, in) and add a bias.

    >>> layer = Linear(3, 2, rng=np.random.default_rng(0))
    >>> layer(np.zeros((4, 3))).shape
    (4, 2)
    >>> layer(np.zeros((4, 5)))
    Traceback (most recent call last):
        ...
    wiregrad.errors.ShapeError: Linear: the input has shape (4, 5); weight of shape (2, 3) needs 3 along its last axis
    """

    @needs_rng
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *, rng: Generator, dtype: DTypeLike = float
    ) -> None:
        check_sizes(self, in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.weight = make_parameter(kaiming_uniform((out_features, in_features), rng, math.sqrt(5.0)), dtype)
        self.bias = _draw_bias(out_features, in_features, rng, dtype) if bias else None

    def forward(self, x: Any) -> Any:
        """Return one vector of outputs for each vector of inputs."""
        x = as_array(x)
        check_dtype(self, x, self.weight)
        check_axis(self, x, -1, self.in_features, self.weight)
        return wg.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def _draw_bias(count: int, fan_in: int, rng: Generator, dtype: DTypeLike) -> Any:
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    return make_parameter(uniform((count,), rng, -bound, bound), dtype)


PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""What NumPy calls PyTorch's ways to continue an input beyond its border."""


def _expand_setting(setting: int | Sequence[int], rank: int, name: str) -> tuple[int, ...]:
    """Return a setting, which may be one number for all axes, as one number for each axis."""
    numbers = (setting,) * rank if isinstance(setting, int | np.integer) else tuple(setting)
    if len(numbers) != rank:
        raise InputError(f"{name} is one number, or {rank}; got {setting}")
    return numbers


class Convolution(Module):
    """What convolutions along one and two axes share: kernels (out, in / groups, ...) slide over the input.

    `padding_mode` says how the input goes on beyond its border: "zeros", "reflect", "replicate" or "circular".
    """

    rank: int
    convolve: Callable[..., Any]

    @needs_rng
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | str = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        rng: Generator,
        dtype: DTypeLike = float,
    ) -> None:
        self._set_channels(in_channels, out_channels, kernel_size, groups)
        if padding_mode not in PADDING_MODES:
            raise InputError(f"padding_mode is one of {', '.join(PADDING_MODES)}; got {padding_mode!r}")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise InputError(f"padding is numbers, 'same' or 'valid'; got {padding!r}")
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.padding_mode = padding_mode
        self._draw_weights((out_channels, in_channels // groups, *self.kernel_size), bias, rng, dtype)

    def _set_channels(
        self, in_channels: int, out_channels: int, kernel_size: int | tuple[int, ...], groups: int
    ) -> None:
        check_sizes(self, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise InputError(
                f"groups must divide in_channels and out_channels; got {groups}, {in_channels} and {out_channels}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _expand_setting(kernel_size, self.rank, "kernel_size")
        self.groups = groups

    def _draw_weights(self, shape: tuple[int, ...], bias: bool, rng: Generator, dtype: DTypeLike) -> None:
        self.weight = make_parameter(kaiming_uniform(shape, rng, math.sqrt(5.0)), dtype)
        self.bias = _draw_bias(self.out_channels, count_fans(shape)[0], rng, dtype) if bias else None

    def forward(self, x: Any) -> Any:
        """Return one channel of outputs for each kernel."""
        x = as_array(x)
        self._check_input(x)
        widths = self._list_widths()
        check_windows(self, x, self.kernel_size, widths, _expand_setting(self.dilation, self.rank, "dilation"))
        padding = self.padding
        if self.padding_mode != "zeros":
            x = wg.pad(x, [(0, 0)] * (x.ndim - self.rank) + widths, mode=PADDING_MODES[self.padding_mode])
            padding = 0
        convolve = type(self).convolve
        return convolve(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _check_input(self, x: Any) -> None:
        check_dtype(self, x, self.weight)
        if x.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"{self.describe()}: the input needs {self.rank + 2} axes (batch, channels, ...), or {self.rank + 1} "
                f"without a batch, for weight of shape {self.weight.shape}; got {x.shape}"
            )
        check_axis(self, x, x.ndim - 1 - self.rank, self.in_channels, self.weight)

    def _list_widths(self) -> list[tuple[int, int]]:
        """Return the padding before and after each axis."""
        if isinstance(self.padding, str):
            spread = zip(self.kernel_size, _expand_setting(self.dilation, self.rank, "dilation"), strict=True)
            totals = [0 if self.padding == "valid" else d * (n - 1) for n, d in spread]
            return [(n // 2, n - n // 2) for n in totals]
        return [(n, n) for n in _expand_setting(self.padding, self.rank, "padding")]

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        usual = {"padding_mode": "zeros", "dilation": 1, "groups": 1}
        changed = [f", {name}={getattr(self, name)!r}" for name, value in usual.items() if getattr(self, name) != value]
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding!r}, bias={self.bias is not None}{''.join(changed)}"
        )


def check_windows(
    layer: Module, x: Any, size: Sequence[int], widths: Sequence[tuple[int, int]], dilation: Sequence[int]
) -> None:
    """Raise an error unless a window fits into an input with its padding."""
    lengths = [n + sum(around) for n, around in zip(x.shape[-len(size) :], widths, strict=True)]
    reach = [d * (n - 1) + 1 for n, d in zip(size, dilation, strict=True)]
    if any(n < k for n, k in zip(lengths, reach, strict=True)):
        padded = f", {tuple(lengths)} with its padding" if any(map(any, widths)) else ""
        raise ShapeError(
            f"{layer.describe()}: the input has shape {x.shape}{padded}; a window needs {tuple(reach)} along its "
            "last axes"
        )


class Conv1d(Convolution):
    """Slide kernels over signals (batch, channels, length), without flipping them.

    >>> Conv1d(2, 3, 5, rng=np.random.default_rng(0))(np.zeros((4, 2, 16))).shape
    (4, 3, 12)
    """

    rank = 1
    convolve = staticmethod(wg.conv1d)


class Conv2d(Convolution):
    """Slide kernels over images (batch, channels, height, width), without flipping them.

    >>> Conv2d(1, 8, 3, padding=1, rng=np.random.default_rng(0))(np.zeros((4, 1, 8, 8))).shape
    (4, 8, 8, 8)
    """

    rank = 2
    convolve = staticmethod(wg.conv2d)


class TransposedConvolution(Convolution):
    """What transposed convolutions share: kernels (in, out / groups, ...) scaled by each number, and added up."""

    @needs_rng
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        *,
        rng: Generator,
        dtype: DTypeLike = float,
    ) -> None:
        self._set_channels(in_channels, out_channels, kernel_size, groups)
        self.stride = stride
        self.padding = padding
        self.output_padding = output_padding
        self.dilation = dilation
        self.padding_mode = "zeros"
        self._draw_weights((in_channels, out_channels // groups, *self.kernel_size), bias, rng, dtype)

    def forward(self, x: Any) -> Any:
        """Return a larger input: what the convolution with these kernels would send back."""
        x = as_array(x)
        self._check_input(x)
        settings = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return type(self).convolve(x, self.weight, self.bias, *settings)


class ConvTranspose1d(TransposedConvolution):
    """Make signals longer: the transpose of `Conv1d`.

    >>> ConvTranspose1d(2, 3, 4, stride=2, padding=1, rng=np.random.default_rng(0))(np.zeros((4, 2, 8))).shape
    (4, 3, 16)
    """

    rank = 1
    convolve = staticmethod(wg.conv_transpose1d)


class ConvTranspose2d(TransposedConvolution):
    """Make images larger: the transpose of `Conv2d`.

    >>> ConvTranspose2d(8, 1, 2, stride=2, rng=np.random.default_rng(0))(np.zeros((4, 8, 7, 7))).shape
    (4, 1, 14, 14)
    """

    rank = 2
    convolve = staticmethod(wg.conv_transpose2d)


class Pooling(Module):
    """What pooling layers share: one number for each window of the input."""

    rank: int
    pool: Callable[..., Any]
    options: tuple[str, ...]
    """The names of the settings besides the size, stride and padding of windows.

    With `ceil_mode` the last window of an axis may go beyond the padding.
    """

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, **options: Any) -> None:
        unknown = [name for name in options if name not in self.options]
        if unknown:
            raise InputError(f"{type(self).__name__} has no setting {unknown[0]!r}")
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.settings = options

    def forward(self, x: Any) -> Any:
        """Return one number for each window."""
        x = as_array(x)
        if x.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                f"{self.describe()}: the input needs {self.rank + 2} axes (batch, channels, ...), or {self.rank + 1} "
                f"without a batch; got {x.shape}"
            )
        size = _expand_setting(self.kernel_size, self.rank, "kernel_size")
        dilation = _expand_setting(self.settings.get("dilation", 1), self.rank, "dilation")
        if not self.settings.get("ceil_mode"):
            widths = [(n, n) for n in _expand_setting(self.padding, self.rank, "padding")]
            check_windows(self, x, size, widths, dilation)
        return type(self).pool(x, self.kernel_size, self.stride, self.padding, **self.settings)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        settings = {"kernel_size": self.kernel_size, "stride": self.stride, "padding": self.padding, **self.settings}
        return ", ".join(f"{name}={value}" for name, value in settings.items())


class MaxPool1d(Pooling):
    """Take the largest number of every window of signals; `dilation` spreads a window."""

    rank = 1
    pool = staticmethod(wg.max_pool1d)
    options = ("dilation", "ceil_mode")


class MaxPool2d(Pooling):
    """Take the largest number of every window of images; `dilation` spreads a window.

    >>> MaxPool2d(2)(np.arange(16.0).reshape(1, 4, 4))
    array([[[ 5.,  7.],
            [13., 15.]]])
    """

    rank = 2
    pool = staticmethod(wg.max_pool2d)
    options = ("dilation", "ceil_mode")


class AvgPool1d(Pooling):
    """Take the mean of every window of signals; `count_include_pad=False` leaves the padding out of it."""

    rank = 1
    pool = staticmethod(wg.avg_pool1d)
    options = ("ceil_mode", "count_include_pad")


class AvgPool2d(Pooling):
    """Take the mean of every window of images; `count_include_pad=False` leaves the padding out of it."""

    rank = 2
    pool = staticmethod(wg.avg_pool2d)
    options = ("ceil_mode", "count_include_pad")


class AdaptivePooling(Module):
    """What pools of a given number of outputs share: windows begin and end at equal shares of the input."""

    rank: int
    pool: Callable[..., Any]

    def __init__(self, output_size: int | tuple[int, ...]) -> None:
        self.output_size = _expand_setting(output_size, self.rank, "output_size")
        check_sizes(self, **{f"output_size[{k}]": size for k, size in enumerate(self.output_size)})

    def forward(self, x: Any) -> Any:
        """Return the mean of each window."""
        x = as_array(x)
        if x.ndim not in (self.rank + 1, self.rank + 2) or 0 in x.shape[-self.rank :]:
            raise ShapeError(
                f"{self.describe()}: the input needs {self.rank + 2} axes (batch, channels, ...), or {self.rank + 1} "
                f"without a batch, the last {self.rank} of them not empty; got {x.shape}"
            )
        lengths = x.shape[-self.rank :]
        pairs = list(zip(lengths, self.output_size, strict=True))
        if not any(length % count for length, count in pairs):
            return type(self).pool(x, tuple(length // count for length, count in pairs))
        x = x @ _average_shares(*pairs[-1], x.dtype)
        return wg.swapaxes(wg.swapaxes(x, -1, -2) @ _average_shares(*pairs[0], x.dtype), -1, -2) if pairs[1:] else x

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"output_size={self.output_size}"


def _average_shares(length: int, count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return the matrix that takes means of shares of an axis, which overlap where they begin between two numbers."""
    matrix = np.zeros((length, count), dtype)
    for k in range(count):
        share = slice(k * length // count, -(-(k + 1) * length // count))
        matrix[share, k] = 1.0 / (share.stop - share.start)
    return matrix


class AdaptiveAvgPool1d(AdaptivePooling):
    """Take means of signals of any length, so that a given number is left.

    >>> AdaptiveAvgPool1d(2)(np.arange(10.0).reshape(1, 2, 5))
    array([[[1., 3.],
            [6., 8.]]])
    """

    rank = 1
    pool = staticmethod(wg.avg_pool1d)


class AdaptiveAvgPool2d(AdaptivePooling):
    """Take means of images of any size, so that a given size is left; 1 is the mean of each channel.

    >>> AdaptiveAvgPool2d(1)(np.arange(8.0).reshape(2, 2, 2))
    array([[[1.5]],
    <BLANKLINE>
           [[5.5]]])
    """

    rank = 2
    pool = staticmethod(wg.avg_pool2d)


class BatchNorm(Module):
    """What batch normalization along one and two axes shares.

    While training, each channel is shifted and scaled by the mean and variance of the batch, and the running means
    move towards them; afterwards the running means are used.
    """

    ranks: tuple[int, ...]
    """How many axes an input may have."""
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DTypeLike = float,
    ) -> None:
        check_sizes(self, num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.weight = make_parameter(np.ones(num_features), dtype) if affine else None
        self.bias = make_parameter(np.zeros(num_features), dtype) if affine else None
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.register_buffer("running_mean", np.zeros(num_features, dtype))
            self.register_buffer("running_var", np.ones(num_features, dtype))
            # A float, because a whole number is a setting of a compiled function, and this one changes in every call.
            self.register_buffer("num_batches_tracked", 0.0)

    def save_array(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Return an array of this module as `state_dict` has it: the number of batches is a whole number."""
        return array.astype(np.int64) if name == "num_batches_tracked" else array

    def forward(self, x: Any) -> Any:
        """Return the input, normalized channel by channel."""
        x = as_array(x)
        self._check_input(x)
        across = (1, self.num_features) + (1,) * (x.ndim - 2)
        if self.training or not self.track_running_stats:
            axes = (0, *range(2, x.ndim))
            mean = wg.mean(x, axis=axes, keepdims=True)
            variance = wg.mean((x - mean) ** 2, axis=axes, keepdims=True)
            if self.training and self.track_running_stats:
                self._track_means(mean, variance, x.size // self.num_features)
        else:
            mean = wg.reshape(self.running_mean, across)
            variance = wg.reshape(self.running_var, across)
        y = (x - mean) / wg.sqrt(variance + self.eps)
        if self.weight is None or self.bias is None:
            return y
        return y * wg.reshape(self.weight, across) + wg.reshape(self.bias, across)

    def _check_input(self, x: Any) -> None:
        weight = np.empty(self.num_features, x.dtype) if self.weight is None else self.weight
        check_dtype(self, x, weight)
        if x.ndim not in self.ranks:
            axes = " or ".join(map(str, self.ranks))
            raise ShapeError(f"{self.describe()}: the input needs {axes} axes (batch, channels, ...); got {x.shape}")
        check_axis(self, x, 1, self.num_features, weight)
        if self.track_running_stats:
            check_filled(self, self.running_mean)
        if self.training and x.size <= self.num_features:
            raise ShapeError(
                f"{self.describe()}: while training it needs more than one number for each channel; got {x.shape}"
            )

    def _track_means(self, mean: Any, variance: Any, count: int) -> None:
        """Move the running means towards those of a batch with `count` numbers in each channel."""
        batches = self.num_batches_tracked + 1.0
        share = 1.0 / batches if self.momentum is None else self.momentum
        mean = wg.reshape(mean, (self.num_features,))
        variance = wg.reshape(variance, (self.num_features,)) * (count / (count - 1))
        dtype = self.running_mean.dtype
        self.set_buffer("running_mean", ((1.0 - share) * self.running_mean + share * mean).astype(dtype))
        self.set_buffer("running_var", ((1.0 - share) * self.running_var + share * variance).astype(dtype))
        self.set_buffer("num_batches_tracked", batches)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.weight is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(BatchNorm):
    """Normalize each channel of vectors (batch, channels) or signals (batch, channels, length) over the batch.

    >>> layer = BatchNorm1d(1)
    >>> layer(np.array([[1.0], [3.0]])).data.round(4).tolist()
    [[-1.0], [1.0]]
    >>> layer.running_mean
    array([0.2])
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """Normalize each channel of images (batch, channels, height, width) over the batch."""

    ranks = (4,)


class LayerNorm(Module):
    """Shift and scale the numbers along the last axes to mean 0 and variance 1, then by weight and bias.

    >>> LayerNorm(2)(np.array([[1.0, 3.0]])).data.round(4).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike = float,
    ) -> None:
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        affine = elementwise_affine
        self.weight = make_parameter(np.ones(self.normalized_shape), dtype) if affine else None
        self.bias = make_parameter(np.zeros(self.normalized_shape), dtype) if affine and bias else None

    def forward(self, x: Any) -> Any:
        """Return the input, normalized along its last axes."""
        x = as_array(x)
        _check_last_axes(self, x, self.normalized_shape, self.weight)
        return wg.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class GroupNorm(Module):
    """Shift and scale groups of channels of each example to mean 0 and variance 1, then each channel.

    >>> GroupNorm(1, 2)(np.array([[1.0, 3.0]])).data.round(4).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, *, dtype: DTypeLike = float
    ) -> None:
        check_sizes(self, num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise InputError(f"num_groups must divide num_channels; got {num_groups} and {num_channels}")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight = make_parameter(np.ones(num_channels), dtype) if affine else None
        self.bias = make_parameter(np.zeros(num_channels), dtype) if affine else None

    def forward(self, x: Any) -> Any:
        """Return the input (batch, channels, ...), normalized group by group."""
        x = as_array(x)
        weight = np.empty(self.num_channels, x.dtype) if self.weight is None else self.weight
        check_dtype(self, x, weight)
        check_axis(self, x, 1, self.num_channels, weight)
        size = math.prod(x.shape[1:]) // self.num_groups
        rows = wg.reshape(x, (x.shape[0], self.num_groups, size))
        y = wg.reshape(wg.layer_norm(rows, (size,), None, None, self.eps), x.shape)
        if self.weight is None or self.bias is None:
            return y
        across = (self.num_channels,) + (1,) * (x.ndim - 2)
        return y * wg.reshape(self.weight, across) + wg.reshape(self.bias, across)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.weight is not None}"


class RMSNorm(Module):
    """Divide the numbers along the last axes by the root of their mean square, then scale them by weight.

    `eps` is the distance from 1 to the next number of the dtype, unless it is given.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DTypeLike = float,
    ) -> None:
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.weight = make_parameter(np.ones(self.normalized_shape), dtype) if elementwise_affine else None

    def forward(self, x: Any) -> Any:
        """Return the input, scaled along its last axes."""
        x = as_array(x)
        _check_last_axes(self, x, self.normalized_shape, self.weight)
        eps = float(np.finfo(x.dtype).eps) if self.eps is None else self.eps
        axes = tuple(range(-len(self.normalized_shape), 0))
        y = x / wg.sqrt(wg.mean(x * x, axis=axes, keepdims=True) + eps)
        return y if self.weight is None else y * self.weight

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


def _as_shape(lengths: int | tuple[int, ...]) -> tuple[int, ...]:
    return (lengths,) if isinstance(lengths, int) else tuple(lengths)


def _check_last_axes(layer: Module, x: Any, lengths: tuple[int, ...], weight: Any) -> None:
    if weight is not None:
        check_dtype(layer, x, weight)
    if x.shape[-len(lengths) :] != lengths:
        raise ShapeError(
            f"{layer.describe()}: the input has shape {x.shape}; weight of shape {lengths} needs its last axes "
            "to be those"
        )


class Dropout(Module):
    """While training, replace each number by 0 with probability p, and divide the others by 1 - p.

    Masks are drawn from the generator in every call. A compiled function that draws runs as plain Python, because the
    generator changes; give it masks as arguments (`find_masks`), or use `optim.CompiledStep`, which does so.

    >>> layer = Dropout(0.5, rng=np.random.default_rng(0))
    >>> layer(np.ones(6))
    array([2., 0., 0., 0., 2., 2.])
    >>> layer.eval()(np.ones(3))
    array([1., 1., 1.])
    """

    def __init__(self, p: float = 0.5, *, rng: Generator | None = None) -> None:
        if not 0.0 <= p <= 1.0:
            raise InputError(f"p must be between 0 and 1; got {p}")
        self.p = p
        self.rng = rng if p else None

    def forward(self, x: Any) -> Any:
        """Return the input, with some of its numbers dropped."""
        x = as_array(x)
        if not self.training or self.p == 0.0:
            return x
        if self._masks is not None:
            return x * self._masks.take_mask(self, x)
        if isinstance(x, wg.Value):
            # A recording of this call is certified to be valid for these numbers alone: other calls draw other masks.
            _ = x.data
        return x * self.draw_mask(x.shape, x.dtype)

    def draw_mask(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new mask: 0 for the numbers that are dropped, and what the others are multiplied by."""
        if self.rng is None:
            raise InputError(
                f"{self.describe()}: while training it draws masks, and it has no generator; write "
                f"Dropout({self.p}, rng=np.random.default_rng(0)), or give masks to model.holding"
            )
        kept = self.rng.random(shape) >= self.p
        scale = 0.0 if self.p == 1.0 else 1.0 / (1.0 - self.p)
        return (kept * scale).astype(dtype)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"p={self.p}"


class Embedding(Module):
    """Look rows of a table up: whole numbers in, vectors out.

    >>> table = Embedding(4, 2, rng=np.random.default_rng(0))
    >>> table(np.array([[0, 3, 3]])).shape
    (1, 3, 2)
    >>> table(np.array([4]))
    Traceback (most recent call last):
        ...
    wiregrad.errors.IndexingError: Embedding: numbers must be 0 to 3, the rows of weight of shape (4, 2); got 4 to 4
    """

    @needs_rng
    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        rng: Generator,
        dtype: DTypeLike = float,
    ) -> None:
        """With `padding_idx`, that row is 0 at first and has no gradient, so that it stays as it is."""
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise InputError(f"padding_idx is one of {num_embeddings} rows; got {padding_idx}")
        check_sizes(self, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        rows = normal((num_embeddings, embedding_dim), rng)
        if self.padding_idx is not None:
            rows[self.padding_idx] = 0.0
        self.weight = make_parameter(rows, dtype)

    def forward(self, numbers: Any) -> Any:
        """Return one row of the table for each number."""
        numbers = as_array(numbers)
        if numbers.dtype.kind not in "iu":
            raise DomainError(f"{self.describe()}: the input must be whole numbers; got {numbers.dtype}")
        check_filled(self, self.weight)
        self._check_numbers(numbers)
        rows = wg.embedding(numbers, self.weight)
        if self.padding_idx is None:
            return rows
        is_padding = wg.reshape(numbers, (*numbers.shape, 1)) == self.padding_idx
        return wg.where(is_padding, wg.stop_gradient(rows), rows)

    def _check_numbers(self, numbers: Any) -> None:
        # A comparison of recorded numbers is checked whenever a compiled function is replayed.
        if numbers.size and (wg.min(numbers) < 0 or wg.max(numbers) >= self.num_embeddings):
            raise IndexingError(
                f"{self.describe()}: numbers must be 0 to {self.num_embeddings - 1}, the rows of weight of shape "
                f"{self.weight.shape}; got {wg.min(numbers)} to {wg.max(numbers)}"
            )

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class Flatten(Module):
    """Join axes to one: by default all except the first.

    >>> Flatten()(np.zeros((4, 3, 2))).shape
    (4, 6)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Any) -> Any:
        """Return the input with fewer axes."""
        x = as_array(x)
        start, end = self.start_dim % x.ndim, self.end_dim % x.ndim
        return wg.reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Divide an axis into several; one of their lengths may be -1.

    >>> Unflatten(1, (3, -1))(np.zeros((4, 6))).shape
    (4, 3, 2)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, x: Any) -> Any:
        """Return the input with more axes."""
        x = as_array(x)
        if not -x.ndim <= self.dim < x.ndim:
            raise ShapeError(f"{self.describe()}: the input needs an axis {self.dim}; got shape {x.shape}")
        dim = self.dim % x.ndim
        known = math.prod(n for n in self.unflattened_size if n != -1)
        if x.shape[dim] % max(known, 1) or (-1 not in self.unflattened_size and x.shape[dim] != known):
            raise ShapeError(
                f"{self.describe()}: axis {dim} of an input of shape {x.shape} cannot be {self.unflattened_size}"
            )
        return wg.reshape(x, (*x.shape[:dim], *self.unflattened_size, *x.shape[dim + 1 :]))

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Identity(Module):
    """Return the input."""

    def forward(self, x: Any) -> Any:
        """Return the input."""
        return as_array(x)


class Activation(Module):
    """What activations without settings share: a function of every number."""

    function: Callable[[Any], Any]

    def forward(self, x: Any) -> Any:
        """Return the function of every number of the input."""
        return type(self).function(as_array(x))


class ReLU(Activation):
    """The number where it is positive, else 0."""

    function = staticmethod(wg.relu)


class Sigmoid(Activation):
    """1 / (1 + exp(-x))."""

    function = staticmethod(wg.sigmoid)


class Tanh(Activation):
    """The hyperbolic tangent."""

    function = staticmethod(wg.tanh)


class SiLU(Activation):
    """The number times its sigmoid."""

    function = staticmethod(wg.silu)


class Softplus(Activation):
    """log(1 + exp(x))."""

    function = staticmethod(wg.softplus)


class ReLU6(Activation):
    """The number between 0 and 6, else the bound."""

    function = staticmethod(wg.relu6)


class LogSigmoid(Activation):
    """The logarithm of the sigmoid."""

    function = staticmethod(wg.log_expit)


class PReLU(Module):
    """The number where it is positive, else the number times a slope that is learned: one, or one for each channel."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, dtype: DTypeLike = float) -> None:
        check_sizes(self, num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.weight = make_parameter(np.full(num_parameters, init), dtype)

    def forward(self, x: Any) -> Any:
        """Return the function of every number of the input (batch, channels, ...)."""
        x = as_array(x)
        check_dtype(self, x, self.weight)
        slope = self.weight
        if self.num_parameters > 1:
            check_axis(self, x, 1, self.num_parameters, self.weight)
            slope = wg.reshape(slope, (self.num_parameters,) + (1,) * (x.ndim - 2))
        return wg.where(x > 0.0, x, slope * x)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"num_parameters={self.num_parameters}"


class LeakyReLU(Module):
    """The number where it is positive, else the number times a slope."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Any:
        """Return the function of every number of the input."""
        return wg.leaky_relu(as_array(x), self.negative_slope)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"negative_slope={self.negative_slope}"


class ELU(Module):
    """The number where it is positive, else alpha (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Any) -> Any:
        """Return the function of every number of the input."""
        x = as_array(x)
        # exp of a large positive number, which is not used, would overflow.
        return wg.where(x > 0.0, x, self.alpha * wg.expm1(wg.minimum(x, 0.0)))

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"alpha={self.alpha}"


class SELU(Activation):
    """An ELU whose slope and bound keep mean 0 and variance 1 from layer to layer."""

    @staticmethod
    def function(x: Any) -> Any:
        """Return the function of every number of the input."""
        return SELU_SCALE * wg.where(x > 0.0, x, SELU_ALPHA * wg.expm1(wg.minimum(x, 0.0)))


SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805


class Mish(Activation):
    """The number times the hyperbolic tangent of its softplus."""

    @staticmethod
    def function(x: Any) -> Any:
        """Return the function of every number of the input."""
        return x * wg.tanh(wg.softplus(x))


class GELU(Module):
    """The number times the normal distribution's probability of a smaller one; `approximate="tanh"` is cheaper."""

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise InputError(f"approximate is 'none' or 'tanh'; got {approximate!r}")
        self.approximate = approximate

    def forward(self, x: Any) -> Any:
        """Return the function of every number of the input."""
        x = as_array(x)
        if self.approximate == "none":
            return wg.gelu(x)
        return 0.5 * x * (1.0 + wg.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"approximate={self.approximate!r}"


class Softmax(Module):
    """exp(x) / sum(exp(x)) along an axis."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Any) -> Any:
        """Return probabilities."""
        return wg.softmax(as_array(x), axis=self.dim)

    def extra_repr(self) -> str:
        """Return the settings that `repr` shows."""
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """The logarithm of softmax along an axis."""

    def forward(self, x: Any) -> Any:
        """Return logarithms of probabilities."""
        return wg.log_softmax(as_array(x), axis=self.dim)
